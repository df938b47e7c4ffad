-- What the REST interface shows: accounts, numbers, applications, calls, recordings and the rest, one row each.
-- What lists are filtered and sorted by is a column; everything else is in `body` (JSON), so that a new field of
-- a resource needs no migration. Times are microseconds since the Unix epoch.

CREATE TABLE rest (
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  sid TEXT NOT NULL,
  account TEXT NOT NULL,
  parent TEXT,
  name TEXT,
  status TEXT,
  from_uri TEXT,
  to_uri TEXT,
  direction TEXT,
  amount INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  ended_at INTEGER,
  body TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX rest_sid ON rest (sid);
CREATE INDEX rest_account ON rest (account, kind, created_at);
CREATE INDEX rest_time ON rest (kind, created_at);
CREATE INDEX rest_named ON rest (name, kind) WHERE name IS NOT NULL;
CREATE INDEX rest_parent ON rest (parent, kind) WHERE parent IS NOT NULL;
-- An e-mail address signs in to one account (0) and a number rings one binding (2).
CREATE UNIQUE INDEX rest_name ON rest (kind, name) WHERE kind IN (0, 2);
-- A queue's name (9) and a caller id (10) are unique in their account; a client's login (3) in all.
CREATE UNIQUE INDEX rest_own_name ON rest (account, kind, name) WHERE kind IN (9, 10);
CREATE UNIQUE INDEX rest_client ON rest (name) WHERE kind = 3;
