//! XMPP of one shard: its clients' connections ([`streams`]) and the host of the accounts and rooms whose bucket is the
//! shard's. A connection may be at another shard than its host; between them, and between hosts, go messages.
//!
//! Its requests to the store and the account cache are [`XmppEffect`]s, which the shard performs; an answer comes
//! back by the effect's number.
//!
//! [`Xmpp`] composes machines, each of which owns its state and returns effects:
//!
//! | machine | its part |
//! |---|---|
//! | [`Streams`] | clients' connections, and copies of traced elements, masked, while a trace is under way |
//! | `access::ClientAccess` | the reads and writes of clients that sign in or register |
//! | `host_driver::HostDriver` | the host, and the order of its effects |
//! | `host_requests::HostRequests` | the reads and writes of the host |
//! | `stanza_router::StanzaRouter` | a stanza's way: to our accounts and services, then to components, then to other servers |
//! | `shard_requests::ShardRequests` | an action of all hosts (`HostAction`) goes to every shard; the shard that began it adds the answers up |
//! | `phones::Phones` | phones and chat of the same accounts: the router of an account and its host are of one shard |
//! | [`ShardQueues`] | the ways of messages to other shards |
//! | [`SharedOwners`] | the owners of addresses where nodes of a farm share a database, and messages that wait for them |
//! | [`UnhandledMessages`] | messages that other nodes have and that are not handled, to be sent again if these nodes die |
//! | [`RemoteQueues`], [`RemoteRuns`] | stanzas for other servers, on their way to the owners of these servers' domains, and at these |
//! | `announcing::SessionAnnouncer` | sessions whose hosts are at other nodes, and the occupants of rooms there that clients here see: for the next host if that node dies; and streams whose sessions are lost, until their turn to be announced or closed comes |
//! | `shedding::Shedding` | sign-ins that are refused while shards do not keep up |
//! | `rtbl::ShardRtbl` | real-time block lists: the first shard follows them, all hosts use them |

pub(crate) mod access;
mod announcing;
mod bytestreams;
mod counts;
mod ended_accounts;
pub(crate) mod farm;
mod host_driver;
mod host_requests;
pub(crate) mod operator;
mod pending;
mod phones;
mod privileged;
mod remote;
pub(crate) mod rtbl;
pub(crate) mod shard_requests;
pub(crate) mod shedding;
pub(crate) mod sign_in;
mod stanza_router;
pub(crate) mod webhooks;
mod work;

use std::sync::Arc;
use std::task::{Context, Poll};

use chat::Host;
use chat::effect::{Accounts, CallHistoryQuery, HostAction, VoicemailRequest};
use chat_owners::{RemoteQueues, RemoteRuns, ShardQueues, SharedOwners, UnhandledMessages};
use cluster::{Bucket, ShardAddress, ShardMap};
use stdx::Instant;
use store::access::AccessRead;
use store::xmpp::XmppRead;
use store::{Account, Address, Loaded, StoreError, Write, WriteDone};
use xmpp::Bare;
use xmpp::sasl::Secret;
use xmpp_io::bytestreams::BytestreamProxy;
use xmpp_io::components::Components;
use xmpp_io::streams::{C2sEvent, Streams};
use xmpp_io::{components, servers, streams};

use crate::message::XmppShardMessage;
use access::{Access, ClientAccess, NewContacts};
use announcing::SessionAnnouncer;
use counts::Counted;
pub use counts::XmppCounts;
use host_driver::HostDriver;
use host_requests::HostRequests;
use pending::Asker;
use phones::Phones;
pub(crate) use phones::{ChatAccounts, Offering, PendingWatch, PhoneEffect, kept_of};
use rtbl::ShardRtbl;
use shard_requests::ShardRequests;
use shedding::Shedding;
use stanza_router::StanzaRouter;
use webhooks::ChatWebhooks;

/// The settings of a shard's XMPP. They may move to the shard's thread.
#[derive(Clone, Debug)]
pub(crate) struct XmppSettings {
    pub(crate) streams: streams::C2sConnectionSettings,
    /// `None`: other servers are not spoken with.
    pub(crate) servers: Option<servers::S2sConnectionSettings>,
    pub(crate) components: components::ComponentConnectionSettings,
    pub(crate) host: Arc<chat::HostSettings>,
    /// Drawn for each shard at its start: the host's source of numbers that peers must not guess.
    pub(crate) seed: [u8; 32],
    pub(crate) access: Arc<Access>,
    /// The content of real-time block lists, one for all shards.
    pub(crate) rtbl: Arc<rtbl::SharedRtblLists>,
    /// `None`: no application gets events.
    pub(crate) webhooks: Option<Arc<ChatWebhooks>>,
    /// `None`: there is no proxy of bytestreams.
    pub(crate) bytestreams: Option<Arc<BytestreamProxy>>,
}

/// The settings that a reload may change.
#[derive(Clone, Debug)]
pub(crate) struct Reload {
    pub(crate) servers: Option<servers::Reload>,
    pub(crate) stream: Arc<::xmpp::c2s::C2sSettings>,
    pub(crate) host: Arc<chat::HostSettings>,
}

/// An effect that the shard performs for XMPP (`shard::xmpp`). Those with an `id` are answered by the input that is named, with that `id`;
/// one that cannot be performed now, by `Xmpp::refused`.
#[derive(Debug)]
pub(crate) enum XmppEffect {
    /// Answered by `handle_account`.
    Account { id: u64, user: Box<str>, domain: Box<str> },
    /// Answered by `handle_loaded`.
    Read { id: u64, read: XmppRead },
    /// Answered by `handle_written`.
    Write { id: u64, write: Write },
    /// Keys of SCRAM, made beside the shard and written. Answered by `handle_written`.
    Derive { id: u64, account: Box<Account>, password: Secret },
    /// A request of a session of BOSH at another shard of this process. A request that cannot be delivered is dropped,
    /// which answers it "try again".
    Bosh {
        /// The session's shard.
        shard: ShardAddress,
        /// The request.
        call: Box<streams::http::bosh::Call>,
    },
    /// An administrator's request about accounts. Answered by `LocalXmppMessage::Administered`.
    Accounts { id: u64, ask: Box<Accounts> },
    /// An action of all hosts of the farm. Answered by `LocalXmppMessage::Administered`.
    Act { id: u64, action: Box<HostAction> },
    /// A page of a user's calls. Answered by `LocalXmppMessage::Administered`.
    Calls { id: u64, user: Bare, query: CallHistoryQuery },
    /// A request about a user's voicemail. Answered by `LocalXmppMessage::Administered`.
    Voicemail { id: u64, user: Bare, request: VoicemailRequest },
    /// A question to the source of sign-ins of a domain. Answered by `LocalXmppMessage::Authenticated`.
    Authenticate { id: u64, query: Box<external_auth::Query> },
    /// Caches of this account are void.
    Forget { address: Box<str> },
    /// The account's user has signed in here, so its cached entry will not be needed soon.
    LetGo { address: Box<str> },
    /// For the router or the phones of an account of this shard (`shard::phones`).
    Phone(PhoneEffect),
    /// Answered by `handle_loaded`.
    Access { id: u64, read: AccessRead },
    /// Reads the aliases of an account, whose cached entries are to be forgotten. Answered by `handle_loaded`.
    Aliases { id: u64, account: Box<Address> },
    /// An account with its keys, which are made beside the shard. Answered by `handle_written`.
    MakeAccount { id: u64, account: Box<access::NewAccount> },
    /// The same for a new password.
    SetPassword { id: u64, account: Box<Address>, password: Secret },
    /// Checks a password against the account's keys, and writes it if it fits. Answered by `handle_written`.
    Prove {
        id: u64,
        account: Box<Account>,
        password: Secret,
        /// Its digests are made and kept then.
        learns: bool,
        /// Nothing is checked once this stream is gone.
        stream: u64,
    },
}

/// The account could not be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unavailable;

/// XMPP of one shard, on its thread.
pub(crate) struct Xmpp {
    pub(crate) streams: Streams,
    clients: ClientAccess,
    router: StanzaRouter,
    host: HostDriver,
    host_requests: HostRequests,
    shard_requests: ShardRequests,
    phones: Phones,
    pub(crate) queues: ShardQueues,
    unhandled: UnhandledMessages,
    remote: RemoteQueues,
    runs: RemoteRuns,
    /// The time to tell other nodes again which components are connected here.
    component_news: Option<Instant>,
    announcer: SessionAnnouncer,
    pub(crate) shedding: Shedding,
    rtbl: ShardRtbl,
    webhooks: Option<Arc<ChatWebhooks>>,
    bytestreams: Option<Arc<BytestreamProxy>>,
    /// The buffer of `turn`.
    events: Vec<C2sEvent>,
    counted: Counted,
}

impl Xmpp {
    /// Drops the host's cached state of an account that was changed or removed; `None`: of all accounts.
    pub(crate) fn forget_account(&mut self, address: Option<&str>) {
        match address.map(Bare::parse) {
            None => self.host.get_mut().forget_accounts(None),
            Some(Ok(user)) => self.host.get_mut().forget_accounts(Some(&user)),
            Some(Err(_)) => {}
        }
    }

    /// On the shard's thread, inside its runtime.
    ///
    /// # Errors
    /// An address that cannot be listened at.
    pub(crate) fn new(
        settings: XmppSettings,
        shard: ShardAddress,
        map: ShardMap,
    ) -> Result<Self, net::NetError> {
        let listen = settings.streams.listen.clone();
        let mut streams = Streams::new(settings.streams, shard);
        for listener in &listen {
            streams.bind(listener)?;
        }
        let servers = settings.servers.map(|settings| servers::Servers::new(settings, shard)).transpose()?;
        Ok(Xmpp {
            streams,
            clients: ClientAccess::new(settings.access),
            router: StanzaRouter::new(Components::new(settings.components)?, servers, map),
            webhooks: settings.webhooks,
            bytestreams: settings.bytestreams,
            rtbl: ShardRtbl::new(settings.rtbl, &settings.host.rtbl, shard),
            host: HostDriver::new(Host::new(settings.host, shard, settings.seed)),
            host_requests: HostRequests::new(),
            shard_requests: ShardRequests::default(),
            phones: Phones::default(),
            queues: ShardQueues::new(shard, map),
            unhandled: UnhandledMessages::default(),
            remote: RemoteQueues::new(shard),
            runs: RemoteRuns::default(),
            component_news: None,
            announcer: SessionAnnouncer::default(),
            shedding: Shedding::new(shard),
            events: Vec::new(),
            counted: Counted::default(),
        })
    }

    pub(crate) fn reload(&mut self, reload: Reload) {
        self.streams.reload(reload.stream);
        self.host.get_mut().reload(reload.host);
        self.router.reload(reload.servers);
    }

    /// Takes no new connections, and refers connected clients to another host, if one is configured (RFC 6120
    /// §4.9.3.19).
    pub(crate) fn drain(&mut self) {
        self.streams.stop_accepting();
        self.router.stop_accepting();
        self.streams.see_other_hosts(&self.clients.access().other_hosts);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let shared = self.queues.shared().and_then(SharedOwners::deadline);
        let announcer = self.announcer.deadline();
        let rtbl = self.rtbl.deadline(self.host.get().settings());
        let (remote, news) = (self.remote.deadline(), self.component_news);
        let host = self.host.get().deadline();
        let all = [host, self.router.deadline(), shared, announcer, rtbl, remote, news];
        all.into_iter().flatten().min()
    }

    /// Ready when a connection has something for the shard.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let streams = self.streams.poll_ready(cx).is_ready();
        let peers = self.router.poll_ready(cx).is_ready();
        if streams || peers { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Tells every connected peer that the node ends, and waits a moment for them to read it.
    pub(crate) async fn close_all(&mut self) {
        let (streams, components) = (&mut self.streams, &mut self.router.components);
        tokio::join!(streams.close_all("system-shutdown"), components.close_all("system-shutdown"));
        if let Some(servers) = &mut self.router.servers {
            servers.close_all().await;
        }
    }

    /// Before the first turn.
    pub(crate) fn begin(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) {
        if self.queues.shared().is_some() {
            // It owns nothing yet.
            return;
        }
        self.tell_host(now, outbox, |host, out| host.begin(out));
    }

    /// Handles clients' events since the last turn, and due timers. Returns how many there were.
    pub(crate) fn turn(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) -> usize {
        farm::expire(self, now, outbox);
        for request in self.rtbl.expire(now, self.queues.own(), &mut self.host) {
            self.route(now, Box::new(request), outbox);
        }
        let mut events = std::mem::take(&mut self.events);
        self.streams.take_events(&mut events);
        let count = events.len();
        for event in events.drain(..) {
            self.handle_event(now, event, outbox);
        }
        self.events = events;
        let count = count + self.turn_components(now, outbox);
        if self.host.get().deadline().is_some_and(|deadline| deadline <= now) {
            self.tell_host(now, outbox, |host, out| host.expire(now, out));
        }
        count + self.turn_servers(now, outbox)
    }

    /// Handles the account of an address; `Ok(None)`: it has no account.
    pub(crate) fn handle_account(
        &mut self,
        now: Instant,
        id: u64,
        found: Result<Option<&Account>, Unavailable>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match Asker::of(id) {
            Asker::Clients => {
                self.with_clients(now, outbox, |clients, cx| clients.handle_account(cx, id, found));
            }
            Asker::Host => {
                let reply = self.host_requests.handle_account(id, found, self.host.get(), outbox);
                self.answer_host(now, reply, outbox);
            }
        }
    }

    /// Handles the outcome of a read.
    pub(crate) fn handle_loaded(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Loaded, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match Asker::of(id) {
            Asker::Clients => {
                let loaded = match result {
                    Ok(Loaded::Access(loaded)) => Some(loaded),
                    _ => None,
                };
                self.with_clients(now, outbox, |clients, cx| clients.handle_loaded(cx, id, loaded));
            }
            Asker::Host => {
                let queues = &self.queues;
                let is_own = |user: &Bare| queues.owns(user.as_str());
                let reply = self.host_requests.handle_loaded(id, result, is_own, outbox);
                self.answer_host(now, reply, outbox);
            }
        }
    }

    /// Handles the outcome of a write.
    pub(crate) fn handle_written(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<WriteDone, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match Asker::of(id) {
            Asker::Clients => {
                let contacts =
                    self.with_clients(now, outbox, |clients, cx| clients.handle_written(cx, id, result));
                if let Some(NewContacts { invited, inviter }) = contacts {
                    let owner = Bucket::of(invited.as_str());
                    self.send(now, owner, XmppShardMessage::Invited { invited, inviter }, outbox);
                }
            }
            Asker::Host => {
                let reply = self.host_requests.handle_written(id, result, outbox);
                self.answer_host(now, reply, outbox);
            }
        }
    }

    /// The store, or the threads that make keys, take nothing now: the request of this number ends.
    pub(crate) fn refused(&mut self, now: Instant, id: u64, outbox: &mut Vec<XmppEffect>) {
        match Asker::of(id) {
            Asker::Clients => self.with_clients(now, outbox, |clients, cx| clients.handle_refused(cx, id)),
            Asker::Host => {
                let reply = self.host_requests.handle_refused(id);
                self.answer_host(now, reply, outbox);
            }
        }
    }

    /// The accounts, for phones.
    pub(crate) fn accounts(&self) -> ChatAccounts<'_> {
        ChatAccounts::new(self.host.get())
    }

    /// Moves out what waits for a shard.
    pub(crate) fn take_post(&mut self, shard: usize) -> Vec<XmppShardMessage> {
        self.queues.take(shard)
    }

    pub(crate) fn take_panics(&mut self) -> u64 {
        self.host.take_panics() + self.streams.take_panics() + self.router.take_panics()
    }
}

/// Asks a source of sign-ins outside the database; `answer` receives its verdict.
pub(crate) fn authenticate(xmpp: &Xmpp, query: external_auth::Query, answer: external_auth::Answer) {
    match &xmpp.clients.access().authenticator {
        Some(authenticator) => authenticator.ask(query, answer),
        // Dropped, it says that there is no verdict.
        None => drop(answer),
    }
}
