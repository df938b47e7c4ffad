//! The accounts in memory: their sessions, their data and the changes of the data that are on their way to the store.
//!
//! Features read accounts here (`docs/glossary.md`: account memory). Only `Host::user` and the work that follows from it bring
//! accounts into memory, because that may need the store; everything here is done at once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stdx::Instant;
use stdx::slab::{Key, Slab};
use xmpp::{Bare, ConnectionId, Element, Jid, ns};

use super::Outbox;
use super::change_queue::ChangeQueues;
use super::effect::{AccountData, RosterItem, Subscription};
use super::groups::{SharedGroups, both_of};
use super::idle_accounts::IdleAccountCache;
use super::phones::{ChatPresence, Show};
use super::rosters::Rosters;
use super::session::{DeliveryEffect, Session};
use super::user::{AccountState, User};
use crate::limits;

/// The accounts of a host that are in memory, and their sessions.
#[derive(Default)]
pub struct AccountMemory {
    /// All sessions, connected or waiting to be resumed.
    pub(super) sessions: Slab<Session>,
    /// The session of each connection. A session that waits to be resumed is not in it.
    pub(super) by_edge: HashMap<ConnectionId, Key>,
    /// Accounts with a session or with work under way; others are in `idle`, or not in memory.
    pub(super) users: HashMap<Bare, User>,
    /// Accounts whose data have just been read and whose queued work is being done: at most one inside another.
    pub(super) being_loaded: Vec<Bare>,
    /// Accounts without a session whose data may be needed again.
    pub(super) idle: IdleAccountCache,
    pub(super) rosters: Rosters,
    /// Changes of accounts on their way, and the work that waits for them.
    pub(super) changes: ChangeQueues,
    /// The groups of accounts that see each other without asking.
    pub(super) groups: Arc<SharedGroups>,
    /// Effects of sessions to which stanzas were delivered. The host performs them before it goes on.
    deliveries: Vec<(Key, DeliveryEffect)>,
}

impl AccountMemory {
    /// No accounts yet, with these shared groups.
    pub(super) fn new(groups: Arc<SharedGroups>) -> AccountMemory {
        AccountMemory { groups, ..AccountMemory::default() }
    }

    /// The number of sessions, those that wait to be resumed among them.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Bytes of the rosters of signed-in accounts, about.
    pub fn roster_bytes(&self) -> usize {
        self.rosters.bytes
    }

    /// Rosters that were evicted while their accounts were signed in.
    pub fn rosters_dropped(&self) -> u64 {
        self.rosters.dropped
    }

    /// True if the account has a session.
    pub fn is_signed_in(&self, user: &Bare) -> bool {
        self.users.get(user).is_some_and(|user| !user.sessions.is_empty())
    }

    /// True if one of the account's sessions wants messages and is seen.
    pub fn is_available(&self, user: &Bare) -> bool {
        self.available(user).next().is_some()
    }

    /// The session that has this address.
    pub(super) fn session_of(&self, jid: &Jid) -> Option<Key> {
        let user = self.users.get(&jid.bare())?;
        user.sessions
            .iter()
            .copied()
            .find(|key| self.sessions.get(*key).is_some_and(|session| session.jid == *jid))
    }

    /// The sessions of an account that `which` accepts, in the order in which they came.
    pub(super) fn keys_of(&self, user: &Bare, which: impl Fn(&Session) -> bool) -> Vec<Key> {
        let keys = self.users.get(user).map(|user| &user.sessions[..]).unwrap_or_default();
        keys.iter().copied().filter(|key| self.sessions.get(*key).is_some_and(&which)).collect()
    }

    /// Available sessions and their priorities.
    pub(super) fn available(&self, bare: &Bare) -> impl Iterator<Item = (Key, i8)> {
        let keys = self.users.get(bare).map(|user| &user.sessions[..]).unwrap_or_default();
        keys.iter().filter_map(|key| {
            let session = self.sessions.get(*key).filter(|session| session.is_available())?;
            Some((*key, session.priority))
        })
    }

    /// Sessions that take messages which are for the account.
    pub(super) fn able(&self, user: &Bare) -> Vec<Key> {
        self.available(user).filter(|(_, priority)| *priority >= 0).map(|(key, _)| key).collect()
    }

    /// True if a session of the account is anonymous: nothing of the account is stored.
    pub(super) fn is_anonymous(&self, user: &Bare) -> bool {
        let Some(user) = self.users.get(user) else { return false };
        let mut sessions = user.sessions.iter().filter_map(|key| self.sessions.get(*key));
        sessions.any(|session| session.is_anonymous)
    }

    /// The data of an account in memory.
    pub(super) fn data(&self, user: &Bare) -> Option<&AccountData> {
        match &self.users.get(user)?.state {
            AccountState::Ready(data) => Some(data),
            AccountState::Loading(_) | AccountState::Evicted | AccountState::Absent => None,
        }
    }

    /// The data of an account in memory, to be changed once the change is on disk.
    pub(super) fn data_mut(&mut self, user: &Bare) -> Option<&mut AccountData> {
        match &mut self.users.get_mut(user)?.state {
            AccountState::Ready(data) => Some(data),
            AccountState::Loading(_) | AccountState::Evicted | AccountState::Absent => None,
        }
    }

    /// The subscription between an account whose data are in memory and a contact: by its own roster, and by shared groups.
    pub(super) fn subscription(&self, user: &Bare, contact: &Bare) -> Subscription {
        let Some(data) = self.data(user) else { return Subscription::None };
        let own = data.contact(contact).map(|item| item.subscription).unwrap_or_default();
        both_of(own, self.groups.subscription(user, contact))
    }

    /// The contacts of an account whose data are in memory, each once, with those by shared groups.
    pub(super) fn contacts<'a, 'u>(
        &'a self,
        user: &'u Bare,
    ) -> impl Iterator<Item = (&'a Bare, Subscription)> + use<'a, 'u> {
        self.joined_contacts(user).map(|(contact, item, shared)| {
            (contact, both_of(item.map(|item| item.subscription).unwrap_or_default(), shared))
        })
    }

    /// The same with their items in the account's own roster, and with their subscriptions by shared groups.
    fn joined_contacts<'a, 'u>(
        &'a self,
        user: &'u Bare,
    ) -> impl Iterator<Item = (&'a Bare, Option<&'a RosterItem>, Subscription)> + use<'a, 'u> {
        let data = self.data(user);
        let roster = data.map(|data| &data.roster[..]).unwrap_or_default();
        let own = roster
            .iter()
            .map(|(contact, item)| (contact, Some(item), self.groups.subscription(user, contact)));
        let mut shared = self.groups.contacts(user).filter(move |_| data.is_some()).peekable();
        // Without such contacts, which is nearly always, there is nothing to compare with.
        let is_needed = shared.peek().is_some();
        let known: HashSet<&Bare> = roster.iter().filter(|_| is_needed).map(|(contact, _)| contact).collect();
        let others = shared.filter(move |(contact, _)| !known.contains(contact));
        own.chain(others.map(|(contact, subscription)| (contact, None, subscription)))
    }

    /// The roster as clients see it.
    pub(super) fn listed_items<'a, 'u>(
        &'a self,
        user: &'u Bare,
    ) -> impl Iterator<Item = (&'a Bare, RosterItem)> + use<'a, 'u> {
        let items = self.joined_contacts(user);
        items.filter_map(|(contact, item, _)| Some((contact, self.groups.join(user, contact, item)?)))
    }

    /// A contact as clients see it. `None`: it is not in the roster.
    pub(super) fn listed_item(&self, user: &Bare, contact: &Bare) -> Option<RosterItem> {
        self.groups.join(user, contact, self.data(user)?.contact(contact))
    }

    /// The version of the roster as clients see it (RFC 6121 §2.6). It changes with the account's own contacts, which are counted, and with
    /// those by shared groups. To clients it is opaque.
    pub(super) fn roster_version(&self, user: &Bare) -> Option<String> {
        let own = self.data(user)?.roster_version;
        Some(match self.groups.version(user) {
            None => own.to_string(),
            Some(groups) => format!("{own}-{groups:016x}"),
        })
    }

    /// True if a change of the account is on its way to the store.
    pub(super) fn is_changing(&self, user: &Bare) -> bool {
        self.changes.has(user)
    }

    /// True if the account's data are in memory, in use or in the cache of idle accounts: a feature that keeps something of them has to keep
    /// their changes.
    pub(super) fn is_in_memory(&self, user: &Bare) -> bool {
        self.users.contains_key(user) || self.idle.has(user)
    }

    /// Estimates the account's data anew after a change.
    pub(super) fn weigh(&mut self, bare: &Bare) {
        let Some(user) = self.users.get_mut(bare) else { return };
        let weight = match &user.state {
            AccountState::Ready(data) => data.weight(),
            AccountState::Loading(_) | AccountState::Evicted | AccountState::Absent => 0,
        };
        self.rosters.bytes = self.rosters.bytes + weight - user.weight as usize;
        user.weight = u32::try_from(weight).unwrap_or(u32::MAX);
    }

    /// Removes an account from memory.
    pub(super) fn remove_user(&mut self, bare: &Bare) -> Option<User> {
        let user = self.users.remove(bare)?;
        self.rosters.bytes -= user.weight as usize;
        Some(user)
    }

    /// The available sessions of a domain.
    pub(super) fn online(&self, domain: &str) -> Vec<Key> {
        let sessions = self.sessions.iter();
        let here = sessions.filter(|(_, session)| session.is_available() && session.jid.domain() == domain);
        here.map(|(key, _)| key).collect()
    }

    /// Delivers a stanza to a session, unconditionally. Its effects, of which there are hardly ever any, wait for
    /// [`Self::take_deliveries`].
    pub(super) fn deliver(&mut self, now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let effects = session.deliver(now, stanza, out);
        self.deliveries.extend(effects.into_iter().map(|effect| (key, effect)));
    }

    /// Takes `<active/>` and `<inactive/>` of a session's client (XEP-0352). Stanzas that were held back go out when it is active again; effects
    /// wait as those of [`Self::deliver`].
    pub(super) fn handle_client_state(&mut self, now: Instant, key: Key, state: &Element, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let effects = session.handle_client_state(now, state, out);
        self.deliveries.extend(effects.into_iter().map(|effect| (key, effect)));
    }

    /// The session's client is active, as on a new stream (XEP-0352 §5).
    pub(super) fn activate(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let effects = session.activate(now, out);
        self.deliveries.extend(effects.into_iter().map(|effect| (key, effect)));
    }

    /// Delivers a stanza to these sessions: one copy for each but the last.
    pub(super) fn deliver_to_all(&mut self, now: Instant, keys: &[Key], stanza: Element, out: &mut Outbox) {
        let Some((last, others)) = keys.split_last() else { return };
        for key in others {
            self.deliver(now, *key, stanza.clone(), out);
        }
        self.deliver(now, *last, stanza, out);
    }

    /// Takes the effects of sessions that the host has not performed.
    pub(super) fn take_deliveries(&mut self) -> Vec<(Key, DeliveryEffect)> {
        std::mem::take(&mut self.deliveries)
    }

    /// True: nothing more should be read for the session.
    pub(super) fn is_congested(&self, key: Key) -> bool {
        self.sessions.get(key).is_some_and(Session::is_congested)
    }

    /// True if the session waits to be resumed.
    pub(super) fn is_asleep(&self, key: Key) -> bool {
        self.sessions.get(key).is_some_and(|session| session.edge.is_none())
    }

    /// The number of messages of a kind that the session's client has not acknowledged.
    pub(super) fn unacknowledged(&self, key: Key, which: impl Fn(&Element) -> bool) -> usize {
        self.sessions.get(key).map_or(0, |session| session.unacknowledged(which))
    }

    /// True if the account's data were read and there is no such account.
    pub(super) fn is_absent(&self, user: &Bare) -> bool {
        self.users.get(user).is_some_and(|user| matches!(user.state, AccountState::Absent))
    }

    /// Moves an account without sessions and without queued work into the cache of idle accounts. Unknown and anonymous accounts
    /// are not cached: the former may be created later, the latter never return. Returns the accounts that left memory.
    pub(super) fn release(&mut self, now: Instant, bare: &Bare, is_needed: bool) -> Vec<Bare> {
        let is_idle =
            |user: &User| user.sessions.is_empty() && !matches!(user.state, AccountState::Loading(_));
        let is_needed = is_needed || self.is_changing(bare) || self.being_loaded.contains(bare);
        if is_needed || !self.users.get(bare).is_some_and(is_idle) {
            return Vec::new();
        }
        match self.remove_user(bare) {
            Some(User { state: AccountState::Ready(data), is_stored: true, .. }) => {
                self.idle.keep(now, bare.clone(), data)
            }
            Some(_) => vec![bare.clone()],
            None => Vec::new(),
        }
    }

    /// Evicts rosters until they take `most` bytes, by the second chance algorithm: an account that was used since the hand
    /// passed stays until it passes again. `is_held`: the account's data must stay for a feature or an answer of the store.
    pub(super) fn evict_rosters(&mut self, most: usize, is_held: impl Fn(&Bare) -> bool) {
        // Twice round, and the rest of the round before: few sessions may be far from each other.
        let mut rounds = 0;
        for _ in 0..limits::ROSTERS_LOOKED_AT {
            if self.rosters.bytes <= most || rounds > 2 {
                return;
            }
            match self.sessions.key_from(self.rosters.hand) {
                Some(key) => {
                    self.rosters.hand = key.index() + 1;
                    self.examine_roster(key, &is_held);
                }
                None => {
                    self.rosters.hand = 0;
                    rounds += 1;
                }
            }
        }
    }

    /// One step of [`Self::evict_rosters`]: takes the account's second chance, or evicts its data. A host keeps data of
    /// anonymous accounts, and those that a feature needs.
    fn examine_roster(&mut self, key: Key, is_held: impl Fn(&Bare) -> bool) {
        let Some(bare) = self.sessions.get(key).map(|session| session.jid.bare()) else { return };
        let is_held = is_held(&bare) || self.is_changing(&bare) || self.being_loaded.contains(&bare);
        let Some(user) = self.users.get_mut(&bare).filter(|user| user.is_stored && !is_held) else { return };
        let was_used = std::mem::take(&mut user.is_used);
        // Messages that wait are given out as the client acknowledges, without asking what is read.
        let may_go = matches!(&user.state, AccountState::Ready(data) if data.offline == 0);
        if may_go && !was_used {
            user.state = AccountState::Evicted;
            self.rosters.dropped += 1;
            self.weigh(&bare);
        }
    }

    /// The account's availability for phones: that of the session with the highest priority. `None`: it has
    /// none.
    pub fn chat_presence(&self, user: &Bare) -> Option<ChatPresence> {
        if self.is_anonymous(user) {
            return None;
        }
        let sessions = self.available(user).filter_map(|(key, priority)| {
            let presence = self.sessions.get(key)?.presence()?;
            Some((priority, Show::of(&presence), presence))
        });
        let (_, show, presence) = sessions.max_by_key(|(priority, show, _)| (*priority, *show))?;
        let status = presence.content_of("status", ns::CLIENT).unwrap_or_default();
        Some(ChatPresence { show, status: status.chars().take(limits::PHONE_STATUS).collect() })
    }
}
