//! A phone of an account of the REST interface, and the account of the record that it signs in by.

use serde::{Deserialize, Serialize};
use stdx::Instant;

use super::types::{Common, Hook, text};
use super::{Kind, Resource, Row};
use crate::error::StoreError;
use crate::limits;
use crate::types::Address;

/// A phone of an account: its login and password are those of the account `login@domain` in the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// Sid, owner and times.
    #[serde(flatten)]
    pub common: Common,
    /// `Login`: the user part of the SIP account's address.
    pub login: String,
    /// The domain of the SIP account.
    pub domain: String,
    /// `FriendlyName`.
    pub friendly_name: String,
    /// `1` enabled, `0` disabled, as RestComm writes it.
    pub status: String,
    /// `VoiceUrl` and its companions: the document that handles calls from this client.
    pub voice: Hook,
}

impl Client {
    /// The address of the SIP account.
    pub fn address(&self) -> Result<Address, StoreError> {
        Address::new(&self.login, &self.domain)
    }

    /// True if an account that has the client's address was made with the client: another one of that address was made at another time.
    pub fn is_made_with(&self, account_created_at: Instant) -> bool {
        let (row, account) = (self.common.created_at, account_created_at);
        row.since(account).max(account.since(row)) <= limits::CLIENT_AND_ACCOUNT
    }

    /// The client as it is when its account is disabled or enabled by another request than its own; `None` if that changes nothing.
    pub(crate) fn enabled(self) -> Option<Client> {
        (self.status == "0").then(|| Client { status: "1".into(), ..self })
    }
}

impl Resource for Client {
    const KIND: Kind = Kind::Client;

    fn columns(&self) -> Row {
        Row { name: text(&self.login), status: text(&self.status), ..self.common.row(Self::KIND) }
    }
}
