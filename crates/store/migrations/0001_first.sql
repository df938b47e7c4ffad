-- Times are microseconds since the Unix epoch, except created_at columns: seconds, to keep accounts small.

CREATE TABLE domain (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;

-- Rows are appended by id and found by a narrow index: an import in random order then touches random pages
-- of the index only (about 25 bytes an account), not of the rows.
CREATE TABLE account (
  id INTEGER PRIMARY KEY,
  domain_id INTEGER NOT NULL REFERENCES domain (id),
  name TEXT NOT NULL,
  verifiers BLOB NOT NULL,
  display_name TEXT,
  disabled INTEGER NOT NULL,
  max_contacts INTEGER,
  max_calls INTEGER,
  created_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX account_address ON account (domain_id, name);

CREATE TABLE alias (
  domain_id INTEGER NOT NULL REFERENCES domain (id),
  name TEXT NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  PRIMARY KEY (domain_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX alias_account ON alias (account_id);

CREATE TABLE route (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  pattern_kind TEXT NOT NULL,
  pattern TEXT NOT NULL,
  targets TEXT NOT NULL,
  open INTEGER NOT NULL,
  probe INTEGER NOT NULL,
  strip INTEGER NOT NULL,
  prefix TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE binding_log (
  seq INTEGER PRIMARY KEY,
  written_at INTEGER NOT NULL,
  record BLOB NOT NULL
) STRICT;

CREATE TABLE call_record (
  id INTEGER PRIMARY KEY,
  call_id TEXT NOT NULL,
  from_uri TEXT NOT NULL,
  to_uri TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  answered_at INTEGER,
  ended_at INTEGER NOT NULL,
  code INTEGER NOT NULL,
  reason TEXT NOT NULL,
  account TEXT
) STRICT;

CREATE TABLE kept_message (
  id INTEGER PRIMARY KEY,
  aor TEXT NOT NULL,
  from_uri TEXT NOT NULL,
  content_type TEXT NOT NULL,
  body BLOB NOT NULL,
  sent_at INTEGER NOT NULL
) STRICT;
CREATE INDEX kept_message_aor ON kept_message (aor, id);

CREATE TABLE secret (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
