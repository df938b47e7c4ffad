//! Real-time block lists (RTBL): other operators publish the hashes of addresses that send spam as the items of a node (XEP-0060), and
//! servers follow the node. The form is that of `mod_muc_rtbl` of Prosody and ejabberd: the id of an item is the SHA-256 of a bare
//! address or of a domain, in hexadecimal digits; its payload, a report of XEP-0377, has no effect here.
//!
//! [`RtblClient`] follows the lists, one for each process; each host has a copy of their content, [`RtblLists`]
//! in its [`RtblFilter`], which `route` asks about each stanza to a room and each one to an account.
//!
//! Accounts of our own domains are never refused: their operator can end them, and a list must not be able to lock out all users of the
//! server that reads it.

mod client;
mod entries;

use std::sync::Arc;

use sha2::{Digest, Sha256};
use xmpp::stanza::{self, Condition, StanzaError, StanzaKind};
use xmpp::{Bare, Element, Jid};

use self::entries::EntrySet;
use super::HostSettings;
use super::effect::Subscription;
use crate::account_memory::AccountMemory;
pub use client::{RtblClient, RtblEffect, RtblFailure};

/// The SHA-256 of an address.
type AddressHash = [u8; 32];

/// A list to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtblSource {
    /// The address of the service that has the node.
    pub service: Bare,
    /// The name of the node.
    pub node: Box<str>,
    /// The addresses of the list are refused in rooms.
    pub rooms: bool,
    /// Their messages and requests for subscription are refused for accounts that do not know them.
    pub strangers: bool,
}

/// The content of one list, and its use.
#[derive(Clone, Debug)]
struct RtblList {
    entries: EntrySet,
    rooms: bool,
    strangers: bool,
}

/// The content of all lists. Copies share it.
#[derive(Clone, Debug, Default)]
pub struct RtblLists {
    lists: Vec<RtblList>,
}

impl RtblLists {
    /// True if a list that counts here has the address without its resource, or its domain. Without an entry nothing is hashed.
    fn has(&self, jid: &Jid, counts: impl Fn(&RtblList) -> bool) -> bool {
        let is_used = |list: &&RtblList| counts(list) && !list.entries.is_empty();
        let mut used = self.lists.iter().filter(is_used).peekable();
        if used.peek().is_none() {
            return false;
        }
        let (bare, domain) = (hash_of(jid.bare_str()), hash_of(jid.domain()));
        used.any(|list| list.entries.contains(&bare) || list.entries.contains(&domain))
    }

    /// Entries of all lists.
    pub fn entries(&self) -> usize {
        self.lists.iter().map(|list| list.entries.len()).sum()
    }
}

fn hash_of(address: &str) -> AddressHash {
    Sha256::digest(address.as_bytes()).into()
}

/// True for a stanza that ends something or answers: a listed occupant may leave a room, and an answer must find its question. A message of
/// an unknown type is a normal one (RFC 6121 §5.2.2), whatever the type means for other stanzas.
fn is_harmless(stanza: &Element) -> bool {
    match (stanza::kind_of(stanza), stanza.attr("type")) {
        (Some(StanzaKind::Message), kind) => kind == Some("error"),
        (Some(StanzaKind::Iq), kind) => matches!(kind, Some("result" | "error")),
        (_, kind) => matches!(kind, Some("unavailable" | "error" | "unsubscribe" | "unsubscribed")),
    }
}

/// The feature in a host: the lists that it goes by, and what it has refused.
#[derive(Default)]
pub struct RtblFilter {
    lists: Arc<RtblLists>,
    /// Stanzas that were refused because a list has their sender.
    refused: u64,
}

impl RtblFilter {
    /// Stanzas that were refused because a list has their sender.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes the content of the lists.
    pub fn set_lists(&mut self, lists: Arc<RtblLists>) {
        self.lists = lists;
    }

    /// The error of a stanza for a room, if a list has its sender's address. An occupant that a list names while it is in the room can only
    /// leave.
    pub(super) fn refuse_in_room(
        &mut self,
        settings: &HostSettings,
        from: &Jid,
        stanza: &Element,
    ) -> Option<StanzaError> {
        let is_refused = !settings.is_local(from.domain())
            && !is_harmless(stanza)
            && self.lists.has(from, |list| list.rooms);
        is_refused.then(|| self.refuse())
    }

    /// The error of a message or a request for subscription to this account, if a list has its sender's address. Contacts of the account are
    /// not strangers: the account itself knows better than a list. The account's data are in memory.
    pub(super) fn refuse_at_account(
        &mut self,
        (settings, accounts): (&HostSettings, &AccountMemory),
        user: &Bare,
        from: &Jid,
        stanza: &Element,
    ) -> Option<StanzaError> {
        let is_approach = match stanza::kind_of(stanza) {
            Some(StanzaKind::Message) => !is_harmless(stanza),
            Some(StanzaKind::Presence) => stanza.attr("type") == Some("subscribe"),
            _ => false,
        };
        if !is_approach || settings.is_local(from.domain()) || !self.lists.has(from, |list| list.strangers) {
            return None;
        }
        let contact = accounts.data(user).and_then(|data| data.contact(&from.bare()));
        let is_stranger =
            contact.is_none_or(|contact| !contact.is_listed && contact.subscription == Subscription::None);
        is_stranger.then(|| self.refuse())
    }

    /// `forbidden`, as Prosody and ejabberd answer. It is counted.
    fn refuse(&mut self) -> StanzaError {
        self.refused += 1;
        StanzaError::new(Condition::Forbidden, "a block list that this server follows has your address")
    }
}

/// True if the message is an event of XEP-0060 from the service of one of these lists: `RtblClient` has it. An error in return would end the
/// subscription at some services.
pub fn is_from_source(sources: &[RtblSource], from: &Jid, message: &Element) -> bool {
    let from = from.bare_str();
    sources.iter().any(|source| source.service.as_str() == from)
        && message.name() == "message"
        && message.get("event", xmpp::ns::PUBSUB_EVENT).is_some()
}
