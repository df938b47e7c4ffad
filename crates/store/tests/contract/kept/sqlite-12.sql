CREATE TABLE domain (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) STRICT;
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
, max_rate INTEGER, deny TEXT) STRICT;
CREATE TABLE alias (
  domain_id INTEGER NOT NULL REFERENCES domain (id),
  name TEXT NOT NULL,
  account_id INTEGER NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  PRIMARY KEY (domain_id, name)
) STRICT, WITHOUT ROWID;
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
, policy TEXT NOT NULL DEFAULT '{}') STRICT;
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
, callee TEXT) STRICT;
CREATE TABLE secret (
  name TEXT PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
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
CREATE TABLE xmpp_user (
    user TEXT PRIMARY KEY,
    roster_version INTEGER NOT NULL DEFAULT 0,
    -- A JSON array of addresses.
    blocked TEXT NOT NULL DEFAULT '[]',
    last_at INTEGER,
    last_status TEXT
) WITHOUT ROWID;
CREATE TABLE xmpp_roster (
    user TEXT NOT NULL,
    contact TEXT NOT NULL,
    -- JSON: `store::xmpp::RosterRow`.
    item TEXT NOT NULL,
    PRIMARY KEY (user, contact)
) WITHOUT ROWID;
CREATE TABLE xmpp_offline (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,
    at INTEGER NOT NULL,
    stanza TEXT NOT NULL
);
CREATE TABLE xmpp_archive (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    bare TEXT NOT NULL,
    resource TEXT,
    stanza TEXT NOT NULL,
    PRIMARY KEY (owner, id)
) WITHOUT ROWID;
CREATE TABLE xmpp_node (
    owner TEXT NOT NULL,
    node TEXT NOT NULL,
    config TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (owner, node)
) WITHOUT ROWID;
CREATE TABLE xmpp_item (
    owner TEXT NOT NULL,
    node TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    -- The order of publication where two have the same time.
    seq INTEGER NOT NULL,
    item TEXT NOT NULL,
    PRIMARY KEY (owner, node, id)
) WITHOUT ROWID;
CREATE TABLE xmpp_room (
    room TEXT PRIMARY KEY,
    domain TEXT NOT NULL,
    config TEXT NOT NULL
, creator TEXT) WITHOUT ROWID;
CREATE TABLE xmpp_token (
    user TEXT NOT NULL,
    agent TEXT NOT NULL,
    id BLOB NOT NULL,
    mechanism TEXT NOT NULL,
    issued_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- The highest that came with it.
    count INTEGER NOT NULL DEFAULT 0,
    used INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (user, agent, id)
) WITHOUT ROWID;
CREATE TABLE xmpp_invitation (
    hash BLOB PRIMARY KEY,
    domain TEXT NOT NULL,
    -- The only name it may be used for.
    name TEXT,
    -- Who becomes the new user's contact.
    inviter TEXT,
    -- An account may be made by it; else it is for a contact only.
    registers INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE "kept_message" (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  aor TEXT NOT NULL,
  from_uri TEXT NOT NULL,
  content_type TEXT NOT NULL,
  body BLOB NOT NULL,
  sent_at INTEGER NOT NULL
, expires_at INTEGER) STRICT;
CREATE TABLE probe (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT;
INSERT INTO domain VALUES (1, 'example.org', 1);
INSERT INTO domain VALUES (3, 'example.net', 2);
INSERT INTO account VALUES (1, 1, 'alice', X'0110543E1AEC5D3614F03141652D6ADA51B20220D1659FFF7A501BE15962ADC35514CA6A5868905695F2DD1093741F931E000A1F0320BB26296E6F753AE34F4465323F4E1505BF959F55A87EE9347D34355A1E88627A055500001000100303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303', 'The “alice”', 1, 3, NULL, 7, 4, '["00*"]');
INSERT INTO account VALUES (2, 3, 'bob', X'01109EA0E7B974BE5095939AB2E6795F015902204DB4FD7337D4FDDD26F4C0D25BD068AD1021CB92F574B0566A577AD56F003504032041D50A15AC9D3049A37FEC5B62A16D568DF9D0084D8EA5347219867B1B01E595055500001000100303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303', 'The “bob@example.net”', 0, 3, NULL, 7, 4, '["00*"]');
INSERT INTO alias VALUES (1, 'boss', 1);
INSERT INTO route VALUES (1, 'germany', 'prefix', '+49', '[{"uri":"sip:gw.example.net","weight":2,"priority":1}]', 0, 1, 1, '00', 7, '{"trusted":true,"by_address":false,"certificates":[],"max_rate":null,"deny":[]}');
INSERT INTO binding_log VALUES (3, 30, X'616C696365');
INSERT INTO binding_log VALUES (4, 40, X'626F62');
INSERT INTO binding_log VALUES (5, 50, X'216361726F6C');
INSERT INTO binding_log VALUES (7, 70, X'616C696365');
INSERT INTO binding_log VALUES (8, 80, X'626F62');
INSERT INTO binding_log VALUES (9, 90, X'21626F62');
INSERT INTO call_record VALUES (1, '1@x', 'sip:a@example.org', 'sip:b@example.org', 1000000, 2500000, 9000000, 200, 'BYE', 'a@example.org', NULL);
INSERT INTO secret VALUES ('tickets', X'0909090909090909090909090909090909090909090909090909090909090909');
INSERT INTO rest VALUES (1, 9, 'QU1', 'AC1', NULL, 'sales', NULL, NULL, NULL, NULL, NULL, 5000000, 6000000, NULL, '{"sid":"QU1","account":"AC1","created_at":5000000,"updated_at":6000000,"friendly_name":"sales","max_size":0}');
INSERT INTO xmpp_user VALUES ('alice@example.org', 1, '[]', 9000000, 'gone');
INSERT INTO xmpp_roster VALUES ('alice@example.org', 'bob@x', '{"name":null,"subscription":"both","ask":false,"approved":false,"asked":null,"is_listed":false,"groups":[],"version":0}');
INSERT INTO xmpp_offline VALUES (1, 'alice@example.org', 9000000, '<m>ä</m>');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES ('kept_message', 3);
INSERT INTO sqlite_sequence VALUES ('xmpp_offline', 1);
INSERT INTO xmpp_archive VALUES ('alice@example.org', '1', 9000000, 'bob@x', 'r', '<m/>');
INSERT INTO xmpp_node VALUES ('alice@example.org', 'urn:n', '<x/>', 9000000);
INSERT INTO xmpp_item VALUES ('alice@example.org', 'urn:n', 'i', 9000000, 1, '<item/>');
INSERT INTO xmpp_room VALUES ('room@conference.example.org', 'conference.example.org', '<x/>', 'alice@example.org');
INSERT INTO xmpp_token VALUES ('alice@example.org', 'phone', X'0100FF', 'HT-SHA-256-NONE', 9000000, 99000000, 0, 0);
INSERT INTO xmpp_invitation VALUES (X'0707070707070707070707070707070707070707070707070707070707070707', 'example.org', 'carol', NULL, 1, 100000000);
INSERT INTO kept_message VALUES (1, 'alice', 'sip:x', 'text/plain', X'00FF', 5, NULL);
INSERT INTO kept_message VALUES (2, 'alice', 'sip:x', 'text/plain', X'00FF', 5, NULL);
CREATE UNIQUE INDEX account_address ON account (domain_id, name);
CREATE INDEX alias_account ON alias (account_id);
CREATE UNIQUE INDEX rest_sid ON rest (sid);
CREATE INDEX rest_account ON rest (account, kind, created_at);
CREATE INDEX rest_time ON rest (kind, created_at);
CREATE INDEX rest_named ON rest (name, kind) WHERE name IS NOT NULL;
CREATE INDEX rest_parent ON rest (parent, kind) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX rest_name ON rest (kind, name) WHERE kind IN (0, 2);
CREATE UNIQUE INDEX rest_own_name ON rest (account, kind, name) WHERE kind IN (9, 10);
CREATE UNIQUE INDEX rest_client ON rest (name) WHERE kind = 3;
CREATE INDEX xmpp_offline_user ON xmpp_offline (user, id);
CREATE INDEX xmpp_archive_with ON xmpp_archive (owner, bare, id);
CREATE INDEX xmpp_archive_at ON xmpp_archive (at);
CREATE INDEX xmpp_item_seq ON xmpp_item (owner, node, seq);
CREATE INDEX xmpp_room_domain ON xmpp_room (domain, room);
CREATE INDEX xmpp_token_age ON xmpp_token (expires_at);
CREATE INDEX xmpp_invitation_age ON xmpp_invitation (expires_at);
CREATE INDEX xmpp_invitation_inviter ON xmpp_invitation (inviter, expires_at) WHERE inviter IS NOT NULL;
CREATE INDEX kept_message_aor ON kept_message (aor, id);
CREATE INDEX xmpp_room_creator ON xmpp_room (creator) WHERE creator IS NOT NULL;
CREATE INDEX xmpp_node_shared ON xmpp_node (owner, node)
    WHERE instr(config, '<affiliation ') > 0 OR instr(config, '<subscription ') > 0;
CREATE INDEX call_record_ended ON call_record (ended_at);
CREATE INDEX call_record_account ON call_record (account, ended_at) WHERE account IS NOT NULL;
CREATE INDEX call_record_callee ON call_record (callee, ended_at) WHERE callee IS NOT NULL;
CREATE INDEX rest_mailbox ON rest (to_uri, kind, created_at) WHERE kind = 6 AND to_uri IS NOT NULL;
PRAGMA user_version = 524300;
