-- Kept messages know when they expire (RFC 3428 section 4). NULL: never.

ALTER TABLE kept_message ADD COLUMN expires_at INTEGER;
