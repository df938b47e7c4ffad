//! How people become somebody: tokens that clients sign in by (XEP-0484), accounts made in band (XEP-0077) and
//! invitations (XEP-0401, XEP-0445).

use stdx::Instant;

use crate::types::NewAccount;

#[derive(Clone, Debug, PartialEq)]
pub enum AccessWrite {
    /// What becomes of the tokens of one client. `NotFound`, and nothing is written, when `used` is not there or was
    /// used with that count or a higher one.
    Tokens(Box<TokenWrite>),
    /// Of all clients of an account.
    ForgetTokens { user: Box<str> },
    /// Refused as full beyond `limits::MAX_INVITATIONS` of one inviter.
    Invite(Box<Invitation>),
    /// It makes somebody a contact of its inviter, and is used up. `NotFound`: it is unknown, used, another inviter's, or
    /// was too old `now`.
    UseInvitation { hash: [u8; 32], inviter: Box<str>, now: Instant },
    /// Makes an account, by an invitation perhaps, which is used up. `NotFound`: the invitation is unknown or used, is not
    /// for this domain, this name or any account, or was too old when the account was made; `Exists`: there is such an
    /// account, or its name is kept for another invitation.
    Register { account: Box<NewAccount>, invitation: Option<[u8; 32]> },
    /// What was over before; at most `limits::CLEAN_CHUNK` of each at a time.
    Clean { before: Instant },
}

#[derive(Clone, Debug, PartialEq)]
pub struct TokenWrite {
    pub user: Box<str>,
    pub agent: Box<str>,
    /// It let the client in: those issued before are void.
    pub used: Option<UsedToken>,
    /// It takes the place of those that were not used.
    pub fresh: Option<FreshToken>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct UsedToken {
    pub id: Box<[u8]>,
    pub count: Option<u64>,
    /// It is void from now on.
    pub revoked: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FreshToken {
    pub id: Box<[u8]>,
    pub mechanism: Box<str>,
    pub issued_at: Instant,
    pub expires_at: Instant,
}

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

#[derive(Clone, Debug, PartialEq)]
pub enum AccessRead {
    /// Of one client.
    Tokens {
        user: Box<str>,
        agent: Box<str>,
    },
    Invitation {
        hash: [u8; 32],
    },
    /// Whether a name is kept for somebody who is invited, from then on.
    Reserved {
        domain: Box<str>,
        name: Box<str>,
        now: Instant,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum AccessLoaded {
    /// The newest first.
    Tokens(Vec<TokenRow>),
    Invitation(Option<Box<Invitation>>),
    Reserved(bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub id: Box<[u8]>,
    pub mechanism: Box<str>,
    pub issued_at: Instant,
    pub expires_at: Instant,
    pub count: u64,
    pub used: bool,
}
