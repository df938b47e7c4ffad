-- How people become somebody: tokens that clients sign in by, and invitations to make an account.

-- FAST (XEP-0484). A token itself is made of a secret of the node, the account's password and `id`: this table alone
-- lets nobody in, and a new password voids all.
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
CREATE INDEX xmpp_token_age ON xmpp_token (expires_at);

-- XEP-0401. What is kept of an invitation's secret is its hash.
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
CREATE INDEX xmpp_invitation_age ON xmpp_invitation (expires_at);
CREATE INDEX xmpp_invitation_inviter ON xmpp_invitation (inviter, expires_at) WHERE inviter IS NOT NULL;
