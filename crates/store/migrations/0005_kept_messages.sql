-- The record numbers kept messages. Routers numbered them by the microsecond, and two shards can meet in one.
-- AUTOINCREMENT: a number is never used again, so a late "delivered" never deletes another message.

CREATE TABLE kept_message_numbered (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  aor TEXT NOT NULL,
  from_uri TEXT NOT NULL,
  content_type TEXT NOT NULL,
  body BLOB NOT NULL,
  sent_at INTEGER NOT NULL
) STRICT;
INSERT INTO kept_message_numbered (id, aor, from_uri, content_type, body, sent_at)
  SELECT id, aor, from_uri, content_type, body, sent_at FROM kept_message ORDER BY id;
DROP TABLE kept_message;
ALTER TABLE kept_message_numbered RENAME TO kept_message;
CREATE INDEX kept_message_aor ON kept_message (aor, id);
