-- XMPP. Addresses are prepared (RFC 6122), stanzas and items are XML.

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
CREATE INDEX xmpp_offline_user ON xmpp_offline (user, id);

-- Ids sort by time.
CREATE TABLE xmpp_archive (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    bare TEXT NOT NULL,
    resource TEXT,
    stanza TEXT NOT NULL,
    PRIMARY KEY (owner, id)
) WITHOUT ROWID;
CREATE INDEX xmpp_archive_with ON xmpp_archive (owner, bare, id);
CREATE INDEX xmpp_archive_at ON xmpp_archive (at);

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
CREATE INDEX xmpp_item_seq ON xmpp_item (owner, node, seq);

CREATE TABLE xmpp_room (
    room TEXT PRIMARY KEY,
    domain TEXT NOT NULL,
    config TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX xmpp_room_domain ON xmpp_room (domain, room);
