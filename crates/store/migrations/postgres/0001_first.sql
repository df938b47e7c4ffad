-- Times are microseconds since the Unix epoch, except created_at columns of accounts, domains and routes: seconds.
-- Texts are compared by their bytes, so that pages follow one another as in the embedded database.

CREATE TABLE domain (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  created_at bigint NOT NULL
);

CREATE TABLE account (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  domain_id bigint NOT NULL REFERENCES domain (id),
  name text COLLATE "C" NOT NULL,
  verifiers bytea NOT NULL,
  display_name text,
  disabled boolean NOT NULL DEFAULT false,
  max_contacts bigint,
  max_calls bigint,
  created_at bigint NOT NULL,
  max_rate bigint,
  -- A JSON array of patterns of destinations that the account may not call; NULL: none.
  deny text,
  UNIQUE (domain_id, name)
);

CREATE TABLE alias (
  domain_id bigint NOT NULL REFERENCES domain (id),
  name text COLLATE "C" NOT NULL,
  account_id bigint NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  PRIMARY KEY (domain_id, name)
);
CREATE INDEX alias_account ON alias (account_id);

CREATE TABLE route (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  pattern_kind text NOT NULL,
  pattern text NOT NULL,
  targets text NOT NULL,
  open boolean NOT NULL,
  probe boolean NOT NULL,
  strip smallint NOT NULL,
  prefix text NOT NULL,
  policy text NOT NULL,
  created_at bigint NOT NULL
);

-- The latest set of bindings of each address. `record` is the router's; `seq` grows with each write. Without an index on what
-- changes, and with room in the page, a refresh is a heap-only update.
CREATE SEQUENCE binding_seq;
CREATE TABLE binding (
  bucket smallint NOT NULL,
  aor text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  written_at bigint NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (bucket, aor)
) WITH (fillfactor = 80);

CREATE TABLE call_record (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  call_id text NOT NULL,
  from_uri text NOT NULL,
  to_uri text NOT NULL,
  started_at bigint NOT NULL,
  answered_at bigint,
  ended_at bigint NOT NULL,
  code integer NOT NULL,
  reason text NOT NULL,
  account text,
  callee text
);

CREATE TABLE kept_message (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  aor text COLLATE "C" NOT NULL,
  from_uri text NOT NULL,
  content_type text NOT NULL,
  body bytea NOT NULL,
  sent_at bigint NOT NULL
);
CREATE INDEX kept_message_aor ON kept_message (aor, id);

CREATE TABLE secret (
  name text PRIMARY KEY,
  value bytea NOT NULL
);

-- One row, written to see that rows can be written.
CREATE TABLE probe (
  id integer PRIMARY KEY,
  at bigint NOT NULL
);

-- The resources of the REST interface: columns for what lists are filtered and sorted by, the rest in `body` (JSON).
CREATE TABLE rest (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind smallint NOT NULL,
  sid text COLLATE "C" NOT NULL UNIQUE,
  account text COLLATE "C" NOT NULL,
  parent text COLLATE "C",
  name text COLLATE "C",
  status text COLLATE "C",
  from_uri text COLLATE "C",
  to_uri text COLLATE "C",
  direction text COLLATE "C",
  amount bigint,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  ended_at bigint,
  body text NOT NULL
);
CREATE INDEX rest_account ON rest (account, kind, created_at);
CREATE INDEX rest_time ON rest (kind, created_at);
CREATE INDEX rest_named ON rest (name, kind) WHERE name IS NOT NULL;
CREATE INDEX rest_parent ON rest (parent, kind) WHERE parent IS NOT NULL;
-- An e-mail address signs in to one account (0) and a number rings one binding (2).
CREATE UNIQUE INDEX rest_name ON rest (kind, name) WHERE kind IN (0, 2);
-- A queue's name (9) and a caller id (10) are unique in their account; a client's login (3) in all.
CREATE UNIQUE INDEX rest_own_name ON rest (account, kind, name) WHERE kind IN (9, 10);
CREATE UNIQUE INDEX rest_client ON rest (name) WHERE kind = 3;

-- XMPP. Addresses are prepared (RFC 6122), stanzas and items are XML. `owner` is a bare address.

CREATE TABLE xmpp_user (
  owner text COLLATE "C" PRIMARY KEY,
  roster_version bigint NOT NULL DEFAULT 0,
  -- A JSON array of addresses.
  blocked text NOT NULL DEFAULT '[]',
  last_at bigint,
  last_status text
);

CREATE TABLE xmpp_roster (
  owner text COLLATE "C" NOT NULL,
  contact text COLLATE "C" NOT NULL,
  -- JSON: `store::xmpp::RosterRow`.
  item text NOT NULL,
  PRIMARY KEY (owner, contact)
);

CREATE TABLE xmpp_offline (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  stanza text NOT NULL
);
CREATE INDEX xmpp_offline_owner ON xmpp_offline (owner, id);

-- Ids sort by time.
CREATE TABLE xmpp_archive (
  owner text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  bare text COLLATE "C" NOT NULL,
  resource text COLLATE "C",
  stanza text NOT NULL,
  PRIMARY KEY (owner, id)
);
CREATE INDEX xmpp_archive_with ON xmpp_archive (owner, bare, id);
CREATE INDEX xmpp_archive_at ON xmpp_archive (at);

CREATE TABLE xmpp_node (
  owner text COLLATE "C" NOT NULL,
  node text COLLATE "C" NOT NULL,
  config text NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (owner, node)
);
-- Nodes in which others than the owner are something: few, and looked through when an account is removed.
CREATE INDEX xmpp_node_shared ON xmpp_node (owner, node)
  WHERE strpos(config, '<affiliation ') > 0 OR strpos(config, '<subscription ') > 0;

CREATE SEQUENCE xmpp_item_seq;
CREATE TABLE xmpp_item (
  owner text COLLATE "C" NOT NULL,
  node text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  -- The order of publication where two have the same time.
  seq bigint NOT NULL,
  item text NOT NULL,
  PRIMARY KEY (owner, node, id)
);
CREATE INDEX xmpp_item_order ON xmpp_item (owner, node, seq);

CREATE TABLE xmpp_room (
  room text COLLATE "C" PRIMARY KEY,
  domain text COLLATE "C" NOT NULL,
  config text NOT NULL,
  -- An account of ours or a foreign domain; NULL: it counts for none.
  creator text COLLATE "C"
);
CREATE INDEX xmpp_room_domain ON xmpp_room (domain, room);
CREATE INDEX xmpp_room_creator ON xmpp_room (creator) WHERE creator IS NOT NULL;

-- FAST (XEP-0484). A token itself is made of a secret of the node, the account's password and `id`: this table alone
-- admits no client, and a new password voids all.
CREATE TABLE xmpp_token (
  owner text COLLATE "C" NOT NULL,
  agent text COLLATE "C" NOT NULL,
  id bytea NOT NULL,
  mechanism text NOT NULL,
  issued_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  -- The highest that came with it.
  count bigint NOT NULL DEFAULT 0,
  used boolean NOT NULL DEFAULT false,
  PRIMARY KEY (owner, agent, id)
);
CREATE INDEX xmpp_token_age ON xmpp_token (expires_at);

-- XEP-0401. The hash of an invitation's secret, not the secret.
CREATE TABLE xmpp_invitation (
  hash bytea PRIMARY KEY,
  domain text COLLATE "C" NOT NULL,
  -- The only name it may be used for.
  name text COLLATE "C",
  -- The new user's first contact.
  inviter text COLLATE "C",
  -- An account may be made by it; else it is for a contact only.
  registers boolean NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX xmpp_invitation_age ON xmpp_invitation (expires_at);
CREATE INDEX xmpp_invitation_inviter ON xmpp_invitation (inviter, expires_at) WHERE inviter IS NOT NULL;
