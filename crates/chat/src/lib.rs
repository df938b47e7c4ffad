//! The accounts, rooms and services of one shard: sessions, their data, and the routing of stanzas.
//!
//! A host owns the addresses whose bucket is its shard's. Sessions of other shards' connections reach it by [`ConnectionId`];
//! stanzas of other hosts and other servers by [`Host::handle_routed`]. One feature, one file; each has its state in
//! a field of its own, and none looks into another's.
//!
//! A feature announces itself in `feature`'s table; `route` decides where a stanza goes. Rooms (`muc`), nodes (`pubsub`), entity
//! capabilities (`caps`) and upload slots (`upload`) are machines: events in, effects out, performed by the host. The other
//! features are methods of [`Host`] over a state of their own.
//!
//! A client is told of a change once it is on disk: a roster's push, a subscription, a room's configuration. A message
//! counts as handled once it is delivered or stored (`ack`). The data of an account are in memory once, for all its sessions;
//! code that needs them goes through `Host::user`, which waits for them.

#![cfg_attr(
    test,
    expect(clippy::duplicate_mod, reason = "every play of the host runs with and without place for rosters")
)]

mod act;
mod administration;
pub mod compliance;
pub mod effect;
mod feature;
pub mod limits;
pub mod pie;
#[cfg(test)]
#[path = "../../xmpp/src/requirements.rs"]
mod requirements;
mod route;
pub mod session;
#[cfg(test)]
mod tests;
/// All of them once more, with no place for rosters: each is read again whenever it is needed.
#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests_without_rosters;
pub mod user;

mod ack;
pub mod archive;
mod bind2;
pub mod blocking;
pub mod caps;
mod carbons;
mod change_queue;
mod commands;
mod csi;
mod departed;
mod disco;
pub mod extdisco;
mod flow;
mod hints;
mod idle_accounts;
pub(crate) mod imported;
pub mod invite;
mod last;
mod legacy_session;
mod muc;
mod no_account;
mod offline;
pub mod page;
pub mod phones;
mod ping;
mod presence;
mod private;
mod pubsub;
mod push;
mod read_queues;
pub mod register;
mod retract;
mod roster;
mod rosters;
mod sm;
mod subaddress;
pub mod upload;
mod vcard;
mod write_group;
mod write_order;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};
use xmpp::{Bare, ConnectionId, Element, Jid};

pub use departed::without_user;
pub use effect::{Access, Change, Effect, Load, StoreFailure, StoreReply, Ticket};
pub use feature::specifications;
pub use muc::{RoomCreation, stored_room};
pub use page::{ItemPage, ItemQuery, ItemRow, RowPage, StanzaPage};
pub use register::SessionEndReason;
pub use rosters::RosterMemory;

use session::Session;
use user::User;

/// The same for all hosts of a server.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where accounts are.
    pub domains: Vec<Box<str>>,
    /// `conference.` before each of them, unless told otherwise.
    pub rooms: Box<str>,
    /// `pubsub.` before each of them likewise: the service that has nodes.
    pub pubsub: Box<str>,
    pub software: Box<str>,
    pub version: Box<str>,
    /// The time for which a session may be without a connection (XEP-0198).
    pub resume_for: std::time::Duration,
    /// Contact addresses of the operator by kind (XEP-0157): `abuse-addresses`, `mailto:…`.
    pub contacts: Vec<(Box<str>, Box<str>)>,
    pub room_creation: RoomCreation,
    /// `None`: there are no uploads (XEP-0363).
    pub uploads: Option<upload::UploadSettings>,
    /// XEP-0215.
    pub services: Vec<extdisco::ExternalService>,
    /// Accounts that may run administrators' commands (XEP-0133).
    pub admins: Vec<Bare>,
    /// Domains of external components (XEP-0114), for discovery.
    pub components: Vec<Box<str>>,
    pub texts_to_phones: phones::TextsToPhones,
    /// The default of archives, for accounts without preferences.
    pub archive: archive::ArchiveDefault,
    pub sessions: SessionLimit,
    pub rosters: RosterMemory,
    /// The rights of users over their accounts.
    pub accounts: register::AccountSettings,
    pub invitations: invite::InvitationSettings,
    /// When the server began, for its uptime (XEP-0012).
    pub started: Instant,
}

impl Settings {
    /// True if the domain is one of ours.
    pub fn is_local(&self, domain: &str) -> bool {
        self.domains.iter().any(|known| **known == *domain)
    }

    /// A domain of accounts, or of a service of one.
    pub fn is_ours(&self, domain: &str) -> bool {
        self.is_local(domain)
            || self.rooms_of(domain).is_some()
            || self.pubsub_of(domain).is_some()
            || self.guest_domain_of(domain).is_some()
    }

    /// The account domain of this domain for callers from outside.
    pub fn guest_domain_of<'a>(&self, domain: &'a str) -> Option<&'a str> {
        let rest = domain.strip_prefix(phones::GUESTS)?.strip_prefix('.')?;
        let is_free = !self.components.iter().any(|component| **component == *domain);
        (is_free && self.is_local(rest)).then_some(rest)
    }

    /// The account domain of this publish-subscribe service.
    pub fn pubsub_of<'a>(&self, domain: &'a str) -> Option<&'a str> {
        let rest = domain.strip_prefix(&*self.pubsub)?.strip_prefix('.')?;
        self.is_local(rest).then_some(rest)
    }

    /// The account domain of this room service.
    pub fn rooms_of<'a>(&self, domain: &'a str) -> Option<&'a str> {
        let rest = domain.strip_prefix(&*self.rooms)?.strip_prefix('.')?;
        self.is_local(rest).then_some(rest)
    }
}

/// Sessions of one account, those that wait to be resumed among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionLimit {
    pub most: usize,
    /// One more ends the oldest (`conflict`); else it is refused (`resource-constraint`, RFC 6120 §7.6.2.1).
    pub ends_oldest: bool,
}

/// The effects of a host, in the order in which they are to be performed.
pub type Outbox = Vec<Effect>;

/// An answer of the store that is awaited.
struct PendingReply {
    /// The account whose data it keeps in memory.
    about: Option<Bare>,
    /// The address that its read is of.
    requester: Option<read_queues::Requester>,
    /// It counts as one of the reads of that address.
    is_large: bool,
    /// It is a write of that place.
    writes: Option<write_order::WriteTarget>,
    then: Continuation,
}

/// The continuation that gets a reply of the store.
type Continuation = Box<dyn FnOnce(&mut Host, Instant, Result<StoreReply, StoreFailure>, &mut Outbox)>;

/// The accounts, rooms and services of one shard.
pub struct Host {
    settings: Arc<Settings>,
    rng: Rng,
    sessions: Slab<Session>,
    by_edge: HashMap<ConnectionId, Key>,
    users: HashMap<Bare, User>,
    /// Accounts whose data have just been read and whose queued work is being done: at most one inside another.
    being_loaded: Vec<Bare>,
    idle_accounts: idle_accounts::IdleAccountCache,
    rosters: rosters::Rosters,
    pending: HashMap<Ticket, PendingReply>,
    read_queues: read_queues::ReadQueues,
    write_order: write_order::WriteOrder,
    last_ticket: u64,
    /// Sessions that wait to be resumed, the earliest deadline first.
    sleeping: VecDeque<(Instant, Key)>,
    change_queues: change_queue::ChangeQueues,
    pending_acks: ack::PendingAcks,
    remembered: sm::EndedSessions,
    offline: offline::OfflineMessages,
    archive: archive::Archive,
    caps: caps::Caps,
    rooms: muc::Rooms,
    pubsub: pubsub::PubSub,
    avatars: vcard::Avatars,
    commands: commands::Commands,
    push: push::Push,
    upload: upload::Upload,
    phones: phones::Phones,
}

impl Host {
    /// A host without sessions; `seed` seeds its random values.
    pub fn new(settings: Arc<Settings>, seed: [u8; 32]) -> Host {
        Host {
            settings,
            rng: Rng::from_seed(seed),
            sessions: Slab::new(),
            by_edge: HashMap::new(),
            users: HashMap::new(),
            being_loaded: Vec::new(),
            idle_accounts: idle_accounts::IdleAccountCache::default(),
            rosters: rosters::Rosters::default(),
            pending: HashMap::new(),
            read_queues: read_queues::ReadQueues::default(),
            write_order: write_order::WriteOrder::default(),
            last_ticket: 0,
            sleeping: VecDeque::new(),
            change_queues: change_queue::ChangeQueues::default(),
            pending_acks: ack::PendingAcks::default(),
            remembered: sm::EndedSessions::default(),
            offline: offline::OfflineMessages::default(),
            archive: archive::Archive::default(),
            caps: caps::Caps::default(),
            rooms: muc::Rooms::default(),
            pubsub: pubsub::PubSub::default(),
            avatars: vcard::Avatars::default(),
            commands: commands::Commands::default(),
            push: push::Push::default(),
            upload: upload::Upload::default(),
            phones: phones::Phones::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// From now on these: a domain was added, or another key of the configuration changed.
    pub fn reload(&mut self, settings: Arc<Settings>) {
        self.settings = settings;
    }

    /// Sessions, those that wait to be resumed among them.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Asks the store; `then` goes on with the answer.
    fn load(
        &mut self,
        load: Load,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<StoreReply, StoreFailure>, &mut Outbox) + 'static,
    ) {
        let is_large = load.is_large();
        let ticket = self.await_answer(load.account(), is_large, None, Box::new(then));
        if let Some(read) = self.read_queues.begin(ticket, load) {
            self.begin_read(read, out);
        }
    }

    /// Changes the store; `then` goes on once it is on disk.
    fn change(
        &mut self,
        change: Change,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<(), StoreFailure>, &mut Outbox) + 'static,
    ) {
        let then = move |host: &mut Host, now, result: Result<StoreReply, _>, out: &mut Outbox| {
            then(host, now, result.map(drop), out);
        };
        let place = write_order::WriteTarget::of_change(&change);
        let ticket = self.await_answer(change.account(), false, place.clone(), Box::new(then));
        if let Some(place) = place {
            self.write_order.begin_write(ticket, place);
        }
        out.push(Effect::Change { ticket, change });
    }

    /// About accounts and invitations; `then` goes on with the answer.
    fn access(
        &mut self,
        access: Access,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<StoreReply, StoreFailure>, &mut Outbox) + 'static,
    ) {
        let ticket = self.await_answer(access.account(), false, None, Box::new(then));
        out.push(Effect::Access { ticket, access });
    }

    fn await_answer(
        &mut self,
        about: Option<&Bare>,
        is_large: bool,
        writes: Option<write_order::WriteTarget>,
        then: Continuation,
    ) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.pin_account(about);
        let requester = self.read_queues.requester();
        self.pending
            .insert(ticket, PendingReply { about: about.cloned(), requester, is_large, writes, then });
        ticket
    }

    /// The answer to `Load`, `Change` or `Access`.
    pub fn handle_store_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        result: Result<StoreReply, StoreFailure>,
        out: &mut Outbox,
    ) {
        if let Some(PendingReply { about, requester, is_large, writes, then }) = self.pending.remove(&ticket)
        {
            self.unpin_account(about.as_ref());
            self.with_requester(requester, |host| then(host, now, result, out));
            self.write_answered(ticket, writes, out);
            self.read_answered(requester.filter(|_| is_large), out);
            self.drop_rosters();
        }
    }

    /// The time at which to call `expire`.
    pub fn deadline(&self) -> Option<Instant> {
        let sleeping = self.sleeping.front().map(|(until, _)| *until);
        let phones = self.phones.deadline();
        [sleeping, self.rooms.deadline(), phones].into_iter().flatten().min()
    }

    /// Handles the timers that are due at `now`.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        while let Some((until, key)) = self.sleeping.front().copied().filter(|(until, _)| *until <= now) {
            self.sleeping.pop_front();
            let is_over = self.sessions.get(key).is_some_and(|session| session.sleeps_until == Some(until));
            if is_over {
                self.end_session(now, key, out);
            }
        }
        self.rooms.expire(now);
        self.expire_phones(now, out);
    }

    /// An unpredictable name: of a stanza, a session, a resource.
    fn token(&mut self) -> String {
        token(&mut self.rng)
    }

    /// Sends a stanza to its `to`: a session here, another host, another server.
    fn route(&mut self, mut stanza: Element, out: &mut Outbox) {
        self.take_foreign_ack_token(&mut stanza, out);
        out.push(Effect::Route(Box::new(stanza)));
    }

    /// To one session, unconditionally.
    fn deliver(&mut self, now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        self.session_deliver(now, key, stanza, out);
    }

    fn session_of(&self, jid: &Jid) -> Option<Key> {
        let user = self.users.get(&jid.bare())?;
        user.sessions
            .iter()
            .copied()
            .find(|key| self.sessions.get(*key).is_some_and(|session| session.jid == *jid))
    }
}

/// An unpredictable name, as [`Host::token`] makes it.
fn token(rng: &mut Rng) -> String {
    format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
}
