//! Rows of authentication other than by password and of registration: tokens that clients sign in by
//! (XEP-0484), accounts made in band (XEP-0077) and invitations (XEP-0401, XEP-0445).
//!
//! Tokens, invitations and reserved names, for `chat`: the record checks that each is used once, in the transaction of the use, because several nodes
//! may try the same one at once.

use stdx::Instant;

use crate::types::NewAccount;

/// A write about tokens, invitations or registrations.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessWrite {
    /// Changes the tokens of one client. `NotFound`, and nothing is written, when `used` is not there or was
    /// used with that count or a higher one.
    Tokens(Box<TokenWrite>),
    /// Removes the tokens of all clients of an account.
    ForgetTokens {
        /// The account, `user@domain`.
        user: Box<str>,
    },
    /// Adds an invitation. Refused as full beyond `limits::MAX_INVITATIONS` of one inviter.
    Invite(Box<Invitation>),
    /// Uses up an invitation to become a contact of its inviter. `NotFound`: it is unknown, used, another
    /// inviter's, or was too old `now`.
    UseInvitation {
        /// SHA-256 of the invitation's token.
        hash: [u8; 32],
        /// The account that made it, `user@domain`.
        inviter: Box<str>,
        /// The time of the request.
        now: Instant,
    },
    /// Makes an account, by an invitation perhaps, which is used up. `NotFound`: the invitation is unknown or used, is not
    /// for this domain, this name or any account, or was too old when the account was made; `Exists`: there is such an
    /// account, or its name is kept for another invitation.
    Register {
        /// The account to be made.
        account: Box<NewAccount>,
        /// SHA-256 of the invitation's token.
        invitation: Option<[u8; 32]>,
    },
    /// Removes rows that ended before; at most `limits::CLEAN_CHUNK` of each kind at a time.
    Clean {
        /// Rows that ended before are removed.
        before: Instant,
    },
}

/// A change of one client's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenWrite {
    /// The account, `user@domain`.
    pub user: Box<str>,
    /// The client's own id (XEP-0388 `user-agent`).
    pub agent: Box<str>,
    /// It let the client in: those issued before are void.
    pub used: Option<UsedToken>,
    /// It takes the place of those that were not used.
    pub fresh: Option<FreshToken>,
}

/// The token that a client signed in by.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedToken {
    /// The id of the token.
    pub id: Box<[u8]>,
    /// XEP-0484 §4: the count that the client sent, if it did.
    pub count: Option<u64>,
    /// It is void from now on.
    pub revoked: bool,
}

/// A token to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct FreshToken {
    /// The id of the token.
    pub id: Box<[u8]>,
    /// The SASL mechanism that it is for.
    pub mechanism: Box<str>,
    /// The time from which it counts.
    pub issued_at: Instant,
    /// The time after which it is void.
    pub expires_at: Instant,
}

/// An invitation to register, or to become a contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// SHA-256 of the invitation's token.
    pub hash: [u8; 32],
    /// The domain of the account that it makes.
    pub domain: Box<str>,
    /// The name that is reserved; `None`: the client chooses.
    pub name: Option<Box<str>>,
    /// An address, bare.
    pub inviter: Option<Box<str>>,
    /// True if an account may be made by it.
    pub registers: bool,
    /// The time after which it is void.
    pub expires_at: Instant,
}

/// A read about tokens, invitations or reserved names.
#[derive(Clone, Debug, PartialEq)]
pub enum AccessRead {
    /// The tokens of one client.
    Tokens {
        /// The account, `user@domain`.
        user: Box<str>,
        /// The client's own id.
        agent: Box<str>,
    },
    /// One invitation, by its hash.
    Invitation {
        /// SHA-256 of the invitation's token.
        hash: [u8; 32],
    },
    /// Asks whether a name is reserved for an invitation that is still valid at `now`.
    Reserved {
        /// A served domain.
        domain: Box<str>,
        /// The local part of the account's address.
        name: Box<str>,
        /// The time of the question.
        now: Instant,
    },
}

/// The answer to an [`AccessRead`].
#[derive(Clone, Debug, PartialEq)]
pub enum AccessLoaded {
    /// The newest first.
    Tokens(Vec<TokenRow>),
    /// `None`: it is unknown or used up.
    Invitation(Option<Box<Invitation>>),
    /// True if the name is reserved.
    Reserved(bool),
}

/// A token as stored; its secret is derived, not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// The id of the token.
    pub id: Box<[u8]>,
    /// The SASL mechanism that it is for.
    pub mechanism: Box<str>,
    /// The time from which it counts.
    pub issued_at: Instant,
    /// The time after which it is void.
    pub expires_at: Instant,
    /// The highest count that it was used with.
    pub count: u64,
    /// True once a client has signed in by it.
    pub used: bool,
}
