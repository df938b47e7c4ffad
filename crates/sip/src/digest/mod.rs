//! Digest authentication (RFC 7616, RFC 8760; RFC 2617 and 2069 as old phones speak them).
//!
//! The order of things: [`Authenticator::inspect`] when the request comes, which costs no account look-up;
//! [`Authenticator::verify`] when the account's [`Ha1s`] are there, or are known not to be; and
//! [`Authenticator::challenges`] for the answer when either says so. Retransmissions never get here: the
//! transaction before absorbs them, so a repeated `nc` is a replay.

mod algorithm;
mod challenge;
mod credentials;
mod nonce;
#[cfg(test)]
mod tests;
mod verify;

pub(crate) use algorithm::hash_hex;
pub use algorithm::{Algorithm, Ha1s, Hash};
pub use challenge::{challenge_value, quoted};
pub(crate) use credentials::names_realm;
pub use credentials::{Credentials, CredentialsError, Qop, find};
pub use nonce::{NonceScope, NonceSettings, NonceUse, NonceVerdict, Nonces};
pub use verify::{Authenticator, DigestRequest, DigestSettings, InspectedCredentials, Verdict};
