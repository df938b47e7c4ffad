//! API keys: names and secrets that sign in for an account beside its token.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::token::TokenVerifier;
use super::types::Common;
use super::{Kind, Resource, Row};

/// An API key of an account (Twilio's `Keys`).
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// `FriendlyName`.
    pub friendly_name: String,
    /// Verifies the secret that signs in with the sid.
    pub secret: TokenVerifier,
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}, hidden)", self.common.sid)
    }
}

impl Resource for ApiKey {
    const KIND: Kind = Kind::ApiKey;

    fn columns(&self) -> Row {
        let name = (!self.friendly_name.is_empty()).then(|| self.friendly_name.as_str().into());
        Row { name, ..self.common.row(Self::KIND) }
    }
}
