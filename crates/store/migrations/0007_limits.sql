-- What a route is trusted with and how much it may be used, and how much an account may call.

-- JSON, so that a new field needs no migration.
ALTER TABLE route ADD COLUMN policy TEXT NOT NULL DEFAULT '{}';
-- New calls a second; NULL: any.
ALTER TABLE account ADD COLUMN max_rate INTEGER;
-- A JSON array of patterns of destinations that the account may not call; NULL: none.
ALTER TABLE account ADD COLUMN deny TEXT;
