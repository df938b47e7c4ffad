//! Rows of authentication other than by password and of registration: tokens that clients sign in by
//! (XEP-0484), accounts made in band (XEP-0077) and invitations (XEP-0401, XEP-0445).

use stdx::Instant;

use crate::types::NewAccount;

/// A write about tokens, invitations or registrations.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessWrite {
    /// Changes the tokens of one client. `NotFound`, and nothing is written, when `used` is not there or was
    /// used with that count or a higher one.
    Tokens(Box<TokenWrite>),
    /// Removes the tokens of all clients of an account.
    ForgetTokens { user: Box<str> },
    /// Adds an invitation. Refused as full beyond `limits::MAX_INVITATIONS` of one inviter.
    Invite(Box<Invitation>),
    /// Uses up an invitation to become a contact of its inviter. `NotFound`: it is unknown, used, another
    /// inviter's, or was too old `now`.
    UseInvitation { hash: [u8; 32], inviter: Box<str>, now: Instant },
    /// Makes an account, by an invitation perhaps, which is used up. `NotFound`: the invitation is unknown or used, is not
    /// for this domain, this name or any account, or was too old when the account was made; `Exists`: there is such an
    /// account, or its name is kept for another invitation.
    Register { account: Box<NewAccount>, invitation: Option<[u8; 32]> },
    /// Removes rows that ended before; at most `limits::CLEAN_CHUNK` of each kind at a time.
    Clean { before: Instant },
}

/// A change of one client's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenWrite {
    pub user: Box<str>,
    pub agent: Box<str>,
    /// It let the client in: those issued before are void.
    pub used: Option<UsedToken>,
    /// It takes the place of those that were not used.
    pub fresh: Option<FreshToken>,
}

/// The token that a client signed in by.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedToken {
    pub id: Box<[u8]>,
    pub count: Option<u64>,
    /// It is void from now on.
    pub revoked: bool,
}

/// A token to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct FreshToken {
    pub id: Box<[u8]>,
    pub mechanism: Box<str>,
    pub issued_at: Instant,
    pub expires_at: Instant,
}

/// An invitation to register, or to become a contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub hash: [u8; 32],
    pub domain: Box<str>,
    pub name: Option<Box<str>>,
    /// An address, bare.
    pub inviter: Option<Box<str>>,
    pub registers: bool,
    pub expires_at: Instant,
}

/// A read about tokens, invitations or reserved names.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessRead {
    /// The tokens of one client.
    Tokens {
        user: Box<str>,
        agent: Box<str>,
    },
    Invitation {
        hash: [u8; 32],
    },
    /// Asks whether a name is reserved for an invitation that is still valid at `now`.
    Reserved {
        domain: Box<str>,
        name: Box<str>,
        now: Instant,
    },
}

/// The answer to an [`AccessRead`].
#[derive(Clone, Debug, PartialEq)]
pub enum AccessLoaded {
    /// The newest first.
    Tokens(Vec<TokenRow>),
    Invitation(Option<Box<Invitation>>),
    Reserved(bool),
}

/// A token as stored; its secret is derived, not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub id: Box<[u8]>,
    pub mechanism: Box<str>,
    pub issued_at: Instant,
    pub expires_at: Instant,
    pub count: u64,
    pub used: bool,
}
