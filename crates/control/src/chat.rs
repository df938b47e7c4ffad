//! Chat's part in the protocol: figures that come in kinds, and elements of traced accounts.

use admin::chat::Ask;
use serde::{Deserialize, Serialize};
use xmpp::c2s::Direction;

/// A figure of chat that is split by kind: each kind has a label of its own in the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Open connections, by transport.
    Connections,
    /// Stanzas received, by kind: message, presence, iq.
    StanzasReceived,
    /// Stanzas sent, by kind.
    StanzasSent,
    /// Sign-ins, by mechanism.
    SignIns,
    /// Stream errors, by condition.
    StreamErrors,
    /// Sign-ins by a source outside the database, by its verdict.
    ExternalSignIns,
}

/// One kind of a family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindCount {
    /// The family.
    pub family: Family,
    /// The transport, kind of stanza, mechanism or condition.
    pub kind: Box<str>,
    /// The number of connections, stanzas, sign-ins or errors of that kind.
    pub count: u64,
}

/// One element of a traced account's, credentials masked.
#[derive(Clone, Debug)]
pub struct ChatTrace {
    /// The address of the account.
    pub account: Box<str>,
    /// The full address, or the account's while it has none.
    pub session: Box<str>,
    /// The direction of the element, as the server sees it.
    pub direction: Direction,
    /// `iq set query`.
    pub label: Box<str>,
    /// The element as text.
    pub xml: Box<str>,
}

/// The words for an operator whose request names what is not there.
pub(crate) fn missing(ask: &Ask) -> String {
    match ask {
        Ask::End { who } => format!(
            "{who} is not signed in to chat, so nothing was ended; see the sessions there are with: belfry xmpp sessions"
        ),
        Ask::KickOccupant { room, nick, .. } => format!(
            "there is no room {room}, or no occupant {nick} in it; see its occupants with: belfry xmpp room show {room}"
        ),
        Ask::MakeRoom { room, owner: Some(owner), .. } => format!(
            "the room {room} was not made: there is no account {owner} to own it; see those there are with: belfry account list"
        ),
        Ask::Room { room } | Ask::DestroyRoom { room, .. } | Ask::Affiliation { room, .. } => {
            format!("there is no room {room}; see those there are with: belfry xmpp rooms")
        }
        Ask::RemoveContact { user, contact } => format!(
            "{contact} is no contact of {user}, or there is no such account; see the contacts with: belfry xmpp roster {user} list"
        ),
        // The command line says how to list accounts.
        Ask::User { user }
        | Ask::ClearOffline { user }
        | Ask::Roster { user }
        | Ask::SetContact { user, .. }
        | Ask::Message { to: user, .. } => format!("there is no account {user}"),
        _ => "there is no such account, session or room".to_owned(),
    }
}
