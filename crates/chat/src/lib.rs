//! The accounts, rooms and services of one shard: sessions, their data, and the routing of stanzas.
//!
//! A host owns the addresses whose bucket is its shard's. Sessions of other shards' connections reach it by
//! [`ConnectionId`](xmpp::ConnectionId); stanzas of other hosts and other servers by [`Host::handle_routed`]. One feature, one
//! file. A feature announces itself in `feature`'s table; `connection` has the events of clients' connections, and `route` decides
//! where a stanza goes. The inside of a room is the crate `muc`, and the nodes of an owner are the crate `pubsub`; the modules of these
//! names join them with accounts, the store and the archive.
//!
//! State is in machines, each a field of [`Host`]: `AccountMemory` has the accounts with their sessions and data, `StoreRequests`
//! the questions to the store, `PendingAcks` the messages that are not handled yet; a `Session` decides what its client gets when;
//! and each feature with state has a type of its own (`Archive`, `Caps`, `OfflineMessages`, `Phones`, `Push`, `Roster`, `Upload`,
//! …). No machine knows another one. A machine reads accounts from a reference to the account memory and returns effects
//! (`CommandEffect`, `DeliveryEffect`, `OfflineEffect`, `PresenceEffect`, `PushEffect`, `RosterEffect`,
//! `RoomEffect`). A continuation that a machine needs is data in
//! its effect. Stanzas for clients go through `AccountMemory::deliver`; the host performs the effects of their sessions afterwards
//! (`connection::perform_deliveries`).
//!
//! A handler of requests reads accounts and settings (`IqView`) and replies, or names in an [`IqEffect`](iq_effect::IqEffect) the
//! feature that goes on; `iq_effect` gives that feature the machines that it needs. Beside its machine a feature's file has functions: one
//! that needs machines takes these, and says by its result what the router has to do. Answers and other stanzas that are made here need no
//! machine at all (`outgoing`). A function over a host joins features: the routers (`route`, `connection`, `presence`, `iq_effect`), and where
//! the effects of a machine reach other features (`offline::perform`); `cargo xtask house` counts them. The methods of [`Host`] are the
//! inputs from the driver and the few actions that these functions share: `route`, `deliver`, `refuse`, `user` and `with_account_data`.
//!
//! A client is told of a change once it is on disk: a roster's push, a subscription, a room's configuration. A message
//! counts as handled once it is delivered or stored (`ack`). The data of an account are in memory once, for all its sessions;
//! code that needs them goes through `Host::user`, which waits for them.

#![warn(missing_docs)]
#![cfg_attr(
    test,
    expect(clippy::duplicate_mod, reason = "every play of the host runs with and without place for rosters")
)]

mod account_memory;
mod act;
mod administration;
pub mod compliance;
pub mod effect;
mod feature;
pub mod groups;
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
mod announce;
pub mod archive;
mod bind2;
pub mod blocking;
pub mod bytestreams;
mod calls;
pub mod caps;
mod carbons;
mod change_queue;
mod commands;
mod connection;
mod csi;
mod departed;
mod disco;
mod expiry;
pub mod extdisco;
mod hints;
mod idle_accounts;
pub(crate) mod imported;
pub mod invite;
mod iq_effect;
mod last;
mod legacy_session;
mod message_writes;
mod muc;
mod no_account;
mod offline;
mod outgoing;
pub mod ownership;
pub mod page;
pub mod phones;
mod ping;
mod presence;
mod private;
mod privileged;
mod pubsub;
mod push;
mod read_queues;
pub mod register;
mod reports;
mod restore;
mod resume;
mod retract;
mod roster;
mod rosters;
pub mod rtbl;
mod seen_occupants;
mod sm;
mod sparse;
mod store_requests;
mod subaddress;
pub mod upload;
mod vcard;
pub mod voicemail;
pub mod webhooks;
mod write_group;
mod write_order;

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;
use xmpp::{Bare, Element, ShardAddress};

pub use self::muc::stored_room;
pub use account_memory::AccountMemory;
pub use ack::{MessageNumber, report_of_refused, take_report};
pub use announce::{AnnouncedSession, FollowedSession};
pub use departed::without_user;
pub use effect::{Access, Change, Effect, Load, StoreFailure, StoreReply, Ticket};
pub use feature::specifications;
pub use page::{ItemPage, ItemQuery, ItemRow, RowPage, StanzaPage};
pub use privilege::{Delegation, PresenceAccess, Privileges, RequestAccess};
pub use privileged::ComponentInputs;
pub use register::SessionEndReason;
pub use restore::{RestoreManner, announced_session, handle_restore};
pub use rosters::RosterMemory;
pub use seen_occupants::{SeenOccupants, announces_seen, occupant_of};

/// The same for all hosts of a server.
#[derive(Clone, Debug, Default)]
pub struct HostSettings {
    /// The domains of accounts.
    pub domains: Vec<Box<str>>,
    /// The label of the room service below each of them: `conference`, unless the configuration has another.
    pub rooms: Box<str>,
    /// The label of the publish-subscribe service below each of them: `pubsub`, unless the configuration has another.
    pub pubsub: Box<str>,
    /// The name of the software (XEP-0092).
    pub software: Box<str>,
    /// The version of the software (XEP-0092).
    pub version: Box<str>,
    /// The time for which a session may be without a connection (XEP-0198).
    pub resume_for: std::time::Duration,
    /// Contact addresses of the operator by kind (XEP-0157): `abuse-addresses`, `mailto:…`.
    pub contacts: Vec<(Box<str>, Box<str>)>,
    /// `None`: there is no proxy of bytestreams (XEP-0065).
    pub bytestreams: Option<bytestreams::BytestreamSettings>,
    /// `None`: there are no uploads (XEP-0363).
    pub uploads: Option<upload::UploadSettings>,
    /// STUN and TURN servers for clients (XEP-0215).
    pub services: Vec<extdisco::ExternalService>,
    /// Accounts that may run administrators' commands (XEP-0133).
    pub admins: Vec<Bare>,
    /// Domains of external components (XEP-0114), for discovery.
    pub components: Vec<Box<str>>,
    /// The permissions that some of them have for accounts (XEP-0356).
    pub privileges: Vec<privilege::Privileges>,
    /// The messages that phones get.
    pub texts_to_phones: phones::TextsToPhones,
    /// The default of archives, for accounts without preferences.
    pub archive: archive::ArchiveDefault,
    /// The sessions that one account may have.
    pub sessions: SessionLimit,
    /// The memory for rosters of signed-in accounts.
    pub rosters: RosterMemory,
    /// The rights of users over their accounts.
    pub accounts: register::AccountSettings,
    /// The rights to invite.
    pub invitations: invite::InvitationSettings,
    /// When the server began, for its uptime (XEP-0012).
    pub started: Instant,
    /// Real-time block lists that the server follows.
    pub rtbl: Vec<rtbl::RtblSource>,
    /// The events that applications outside are to have.
    pub webhooks: webhooks::WebhookSettings,
    /// Groups of accounts that see each other without asking.
    pub groups: Arc<groups::SharedGroups>,
}

impl HostSettings {
    /// True if the domain is one of ours.
    pub fn is_local(&self, domain: &str) -> bool {
        self.domains.iter().any(|known| **known == *domain)
    }

    /// True if the account may run administrators' commands.
    pub(crate) fn is_admin(&self, jid: &xmpp::Jid) -> bool {
        self.admins.contains(&jid.bare())
    }

    /// A domain of accounts, or of a service of one.
    pub fn is_ours(&self, domain: &str) -> bool {
        self.is_local(domain)
            || self.rooms_of(domain).is_some()
            || self.pubsub_of(domain).is_some()
            || self.guest_domain_of(domain).is_some()
            || self.has_bytestreams_at(domain)
    }

    /// The account domain of this domain for callers from outside.
    pub fn guest_domain_of<'a>(&self, domain: &'a str) -> Option<&'a str> {
        let rest = domain.strip_prefix(phones::GUESTS)?.strip_prefix('.')?;
        let is_free = !self.components.iter().any(|component| **component == *domain);
        (is_free && self.is_local(rest)).then_some(rest)
    }

    /// True if that is the proxy of bytestreams of one of our domains.
    pub fn has_bytestreams_at(&self, domain: &str) -> bool {
        let rest =
            |proxy: &bytestreams::BytestreamSettings| domain.strip_prefix(&*proxy.label)?.strip_prefix('.');
        self.bytestreams.as_ref().and_then(rest).is_some_and(|domain| self.is_local(domain))
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
    /// The most sessions of one account.
    pub most: usize,
    /// One more ends the oldest (`conflict`); else it is refused (`resource-constraint`, RFC 6120 §7.6.2.1).
    pub ends_oldest: bool,
}

/// The effects of a host, in the order in which they are to be performed.
pub type Outbox = Vec<Effect>;

/// The accounts, rooms and services of one shard.
pub struct Host {
    /// Replaced as a whole by [`Host::reload`].
    settings: Arc<HostSettings>,
    /// Names of stanzas, sessions and resources, tokens, secrets of rooms.
    rng: Rng,
    accounts: account_memory::AccountMemory,
    /// Requests to the store that are not answered.
    store: store_requests::StoreRequests,
    /// Sessions that wait to be resumed, the earliest deadline first.
    sleeping: VecDeque<(Instant, Key)>,
    pending_acks: ack::PendingAcks,
    /// Clients that come back and wait for their messages.
    resumes: resume::ResumeRequests,
    /// Ended sessions that could have been resumed: a client that comes back too late learns how much was handled.
    remembered: sm::EndedSessions,
    offline: offline::OfflineMessages,
    roster: roster::Roster,
    group_changes: groups::GroupChanges,
    archive: archive::Archive,
    caps: caps::Caps,
    rooms: muc::Rooms,
    pubsub: pubsub::PubSub,
    feature_continuations: pubsub::FeatureContinuations,
    avatars: vcard::Avatars,
    commands: commands::Commands,
    push: push::Push,
    upload: upload::Upload,
    phones: phones::Phones,
    privileged: privileged::PrivilegedComponents,
    /// Refuses stanzas whose senders are on block lists, which the driver gives to it.
    pub rtbl: rtbl::RtblFilter,
}

impl Host {
    /// The host of the shard with that address, without sessions; `seed` seeds its random values.
    pub fn new(settings: Arc<HostSettings>, address: ShardAddress, seed: [u8; 32]) -> Host {
        Host {
            accounts: account_memory::AccountMemory::new(Arc::clone(&settings.groups)),
            settings,
            rng: Rng::from_seed(seed),
            store: store_requests::StoreRequests::default(),
            sleeping: VecDeque::new(),
            pending_acks: ack::PendingAcks::new(address),
            resumes: resume::ResumeRequests::default(),
            remembered: sm::EndedSessions::default(),
            offline: offline::OfflineMessages::default(),
            roster: roster::Roster::default(),
            group_changes: groups::GroupChanges::default(),
            archive: archive::Archive::default(),
            caps: caps::Caps::default(),
            rooms: muc::Rooms::default(),
            pubsub: pubsub::PubSub::default(),
            feature_continuations: pubsub::FeatureContinuations::default(),
            avatars: vcard::Avatars::default(),
            commands: commands::Commands::default(),
            push: push::Push::default(),
            upload: upload::Upload::default(),
            phones: phones::Phones::default(),
            privileged: privileged::PrivilegedComponents::new(address),
            rtbl: rtbl::RtblFilter::default(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// The accounts in memory.
    pub fn accounts(&self) -> &AccountMemory {
        &self.accounts
    }

    /// Takes new settings: a domain was added, or another key of the configuration has changed.
    /// Clients learn of other shared groups by [`Host::expire`], some at a time.
    pub fn reload(&mut self, settings: Arc<HostSettings>) {
        let is_same = Arc::ptr_eq(&settings.groups, &self.accounts.groups);
        if !is_same && *settings.groups != *self.accounts.groups {
            let before = std::mem::replace(&mut self.accounts.groups, Arc::clone(&settings.groups));
            let users = self.accounts.users.iter().filter(|(_, user)| !user.sessions.is_empty());
            self.group_changes.begin(&before, &settings.groups, users.map(|(user, _)| user));
        }
        self.settings = settings;
    }

    /// Takes the answer to `Effect::Load`, `Change`, `Access` or `Text`: its continuation runs, then reads that waited for the request begin. Rosters
    /// beyond the limit are evicted last, when the continuation needs none any more.
    pub fn handle_store_reply(
        &mut self,
        now: Instant,
        ticket: Ticket,
        result: Result<StoreReply, StoreFailure>,
        out: &mut Outbox,
    ) {
        let Some((requester, then, ending)) = self.store.take(ticket) else { return };
        read_queues::with_requester(self, requester, |host| then(host, now, result, out));
        self.store.end(ending, out);
        let due = self.resumes.take_due(now, &self.accounts);
        self.answer_resumes(now, due, out);
        let is_held = |user: &Bare| self.store.awaits(user) || self.offline.is_keeping(user);
        self.accounts.evict_rosters(self.settings.rosters.0, is_held);
    }

    /// The time at which to call `expire`.
    pub fn deadline(&self) -> Option<Instant> {
        let sleeping = self.sleeping.front().map(|(until, _)| *until);
        let phones = self.phones.deadline();
        let components = self.privileged.deadline();
        let groups = self.group_changes.deadline();
        let all = [sleeping, self.rooms.deadline(), phones, self.resumes.deadline(), components, groups];
        all.into_iter().flatten().min()
    }

    /// Handles the timers that are due at `now`.
    pub fn expire(&mut self, now: Instant, out: &mut Outbox) {
        let due = self.resumes.take_due(now, &self.accounts);
        self.answer_resumes(now, due, out);
        while let Some((until, key)) = self.sleeping.front().copied().filter(|(until, _)| *until <= now) {
            self.sleeping.pop_front();
            // A session that was resumed has left its entry here: its own deadline is another one by now, or none.
            let is_over =
                self.accounts.sessions.get(key).is_some_and(|session| session.sleeps_until == Some(until));
            if is_over {
                connection::end_session(self, now, key, None, out);
            }
        }
        self.rooms.expire(now);
        // Occupants of rooms whose last host has died learn of those that have not come back.
        for (address, effect) in self.rooms.expire_restored(now) {
            self.perform_rooms(now, &address, effect, out);
            self.perform_rooms(now, &address, muc::RoomsEffect::HandleWaiting, out);
        }
        self.privileged.expire(now, (&self.settings, &self.accounts, &mut self.rng), out);
        let first = out.len();
        while let Some((user, before)) = self.group_changes.take_due(now, out.len() - first) {
            if self.accounts.is_signed_in(&user) {
                self.with_account_data(now, &user.clone(), out, move |host, now, out| {
                    let changed = groups::changes_of(&mut host.accounts, &user, &before);
                    let last = changed.len().saturating_sub(1);
                    for (index, (contact, was)) in changed.into_iter().enumerate() {
                        let change = (was, index == last);
                        host.roster.handle_group_change(&host.accounts, (&user, &contact), change);
                        roster::perform(host, now, (&user, &contact), out);
                    }
                });
            }
        }
        for user in self.phones.due_texts(now) {
            phones::perform_text(self, now, &user, phones::TextEffect::SendNext, out);
        }
    }

    /// Answers clients that come back and whose messages are handled, and sends them what waits.
    fn answer_resumes(
        &mut self,
        now: Instant,
        requests: impl IntoIterator<Item = resume::ResumeRequest>,
        out: &mut Outbox,
    ) {
        for request in requests {
            let resumed = resume::resume((&mut self.accounts, &self.remembered), &request, out);
            let Some(key) = resumed else { continue };
            let parts = (&mut self.accounts, &mut self.store, &mut self.offline);
            if let Some((user, effect)) = connection::send_backlog(parts, now, key, out) {
                offline::perform(self, now, &user, effect, out);
            }
            self.accounts.activate(now, key, out);
            connection::perform_deliveries(self, now, out);
        }
    }

    /// Sends a stanza to its `to`: a session here, another host, another server.
    fn route(&mut self, mut stanza: Element, out: &mut Outbox) {
        self.acks().take_foreign_token(&mut stanza, out);
        out.push(Effect::Route(Box::new(stanza)));
    }
}

/// An unpredictable name: of a stanza, a session, a resource.
fn token(rng: &mut Rng) -> String {
    format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64())
}
