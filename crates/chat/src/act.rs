//! Actions that all hosts of a server perform at once, for administrators' commands and the operator. One
//! host asks for an action (`Load::Act`), the driver has every host perform it, and the sum of their results
//! is the answer.
//!
//! Every account, room and node is at one host, so results of hosts never overlap and are added up
//! ([`HostActionResult::merge`]). In a farm the hosts of all nodes take part; those that did not answer are
//! named in the result (`missing`), which is then a part only.

use std::borrow::Cow;
use std::collections::BTreeMap;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Bare, Element, Jid, ns};

use super::account_memory::AccountMemory;
use super::effect::{HostAction, HostActionResult, OnlineFilter, SessionState};
use super::pubsub::PubSubEvent;
use super::session::Session;
use super::{Host, Outbox};
use crate::{commands, connection};

impl HostActionResult {
    /// Adds another host's result. Lists are put together in no order.
    pub fn merge(&mut self, other: HostActionResult) {
        self.users.extend(other.users);
        self.count += other.count;
        self.described.extend(other.described);
        self.described_rooms.extend(other.described_rooms);
        self.rooms.extend(other.rooms);
    }
}

impl Host {
    /// Performs this host's part of an action; the driver calls it on all hosts.
    pub fn act(&mut self, now: Instant, act: &HostAction, out: &mut Outbox) -> HostActionResult {
        match act {
            HostAction::Online { domain, filter, max } => {
                let users = users_online(&self.accounts, domain, *filter);
                // The count is of all, the list at most `max`: both commands, the list's and the count's, use
                // this action.
                let count = users.len();
                HostActionResult { users: users.into_iter().take(*max as usize).collect(), ..counted(count) }
            }
            // Each session gets its own copy, as each has its own address in `to`.
            HostAction::Announce { domain, message } => {
                let keys = self.accounts.online(domain);
                for key in &keys {
                    let copy = commands::from_domain(&self.accounts, *key, Element::clone(message));
                    if let Some(copy) = copy {
                        self.deliver(now, &[*key], copy, out);
                    }
                }
                counted(keys.len())
            }
            HostAction::End { jids } => {
                let is_meant = |session: &Jid| jids.iter().any(|jid| is_of(jid, session));
                let sessions = self.accounts.sessions.iter().filter(|(_, session)| is_meant(&session.jid));
                // All are chosen before the first ends: an end changes the sessions.
                let keys: Vec<Key> = sessions.map(|(key, _)| key).collect();
                for key in &keys {
                    connection::end_session(self, now, *key, Some("policy-violation".into()), out);
                }
                counted(keys.len())
            }
            HostAction::Motd { domain, message } => {
                self.commands.handle_motd(domain.clone(), message.as_deref().cloned());
                HostActionResult::default()
            }
            HostAction::Sessions { jid, max } => {
                describe_sessions(&self.accounts, jid.as_ref(), *max as usize)
            }
            HostAction::Rooms { domain } => self.rooms.list(domain),
            HostAction::DescribeRooms { domain } => HostActionResult {
                described_rooms: self.rooms.describe(domain),
                ..HostActionResult::default()
            },
            // On every host: each has other rooms and nodes in memory.
            // The account is removed: rooms forget its affiliations, nodes its subscriptions.
            HostAction::Departed { user } => {
                for (room, effect) in self.rooms.handle_departed(&self.settings, user) {
                    self.perform_rooms(now, &room, effect, out);
                }
                self.tell_pubsub(now, PubSubEvent::UserRemoved { user }, out);
                HostActionResult::default()
            }
            HostAction::CloseRooms => {
                self.close_rooms(out);
                HostActionResult::default()
            }
        }
    }
}

/// The accounts with an available session, in the order of their addresses. One is active if one of its
/// sessions is neither `away` nor `xa`. An account's sessions are all of one host, so no two hosts count the
/// same user.
fn users_online(accounts: &AccountMemory, domain: &str, filter: OnlineFilter) -> Vec<Bare> {
    let mut is_active: BTreeMap<Bare, bool> = BTreeMap::new();
    for session in accounts.online(domain).into_iter().filter_map(|key| accounts.sessions.get(key)) {
        let is_away = matches!(&*show_of(session.presence().as_ref()), "away" | "xa");
        *is_active.entry(session.jid.bare()).or_default() |= !is_away;
    }
    let is_meant = |active: bool| match filter {
        OnlineFilter::All => true,
        OnlineFilter::Active => active,
        OnlineFilter::Idle => !active,
    };
    is_active.into_iter().filter(|(_, active)| is_meant(*active)).map(|(user, _)| user).collect()
}

/// The sessions of an account or of all, with the number of all: the first `max` by their addresses. No more than these are described, which costs a
/// hundred times what a comparison does.
fn describe_sessions(accounts: &AccountMemory, jid: Option<&Jid>, max: usize) -> HostActionResult {
    let is_meant = |session: &Session| jid.is_none_or(|jid| is_of(jid, &session.jid));
    let sessions = accounts.sessions.iter().map(|(_, session)| session);
    let mut those: Vec<&Session> = sessions.filter(|session| is_meant(session)).collect();
    let count = those.len();
    if count > max {
        those.select_nth_unstable_by(max, |one, other| one.jid.as_str().cmp(other.jid.as_str()));
        those.truncate(max);
    }
    HostActionResult { described: those.into_iter().map(state_of).collect(), ..counted(count) }
}

/// The availability in a presence (RFC 6121 §4.7.2.1); empty for plain availability.
fn show_of(presence: Option<&Element>) -> Cow<'_, str> {
    presence.and_then(|presence| presence.content_of("show", ns::CLIENT)).unwrap_or_default()
}

/// An account's sessions, or the one.
fn is_of(address: &Jid, jid: &Jid) -> bool {
    address == jid || (address.is_bare() && address.as_str() == jid.bare_str())
}

/// A result that only counts.
fn counted(count: usize) -> HostActionResult {
    HostActionResult { count: count as u64, ..HostActionResult::default() }
}

/// A session as an operator sees it. The client's name is the node of its entity capabilities (XEP-0115).
fn state_of(session: &Session) -> SessionState {
    let presence = session.presence();
    let client = presence.as_ref().and_then(|presence| presence.get("c", ns::CAPS)?.attr("node"));
    SessionState {
        jid: session.jid.clone(),
        began: session.began,
        edge: session.edge,
        priority: presence.as_ref().map(|_| session.priority),
        show: show_of(presence.as_ref()).into(),
        client: client.unwrap_or_default().into(),
        is_resumable: session.sm.as_deref().is_some_and(super::sm::Sm::is_resumable),
    }
}
