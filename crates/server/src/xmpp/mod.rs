//! XMPP of one shard: its clients' connections ([`streams`]) and the host of the accounts and rooms whose bucket is the
//! shard's. A connection may be at another shard than its host; between them, and between hosts, go messages.
//!
//! Its requests to the store and the account cache are [`XmppEffect`]s, which the shard performs; an answer comes
//! back by the effect's number.
//!
//! `route` offers a stanza to our accounts and services, then to components, then to other servers. An action of all hosts
//! (`HostAction`) goes to every shard, and the shard that began it adds the answers up (`shard_requests`). The router of an
//! account and its host are of one shard, so `phones` joins them directly. A trace copies elements, masked, and only while one is under way.

pub(crate) mod access;
pub(crate) mod components;
mod counts;
pub(crate) mod keys;
pub(crate) mod kinds;
mod mailbox;
pub(crate) mod operator;
mod phones;
mod record;
pub(crate) mod servers;
pub(crate) mod shard_requests;
pub(crate) mod sign_in;
pub(crate) mod streams;
pub(crate) mod uploads;
mod work;

pub use streams::WebConnections;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};

use chat::Host;
use chat::effect::Accounts;
use cluster::{ShardAddress, ShardMap};
use stdx::Instant;
use store::access::AccessRead;
use store::xmpp::XmppRead;
use store::{Account, Address, Loaded, StoreError, Write, WriteDone};
use xmpp::Bare;
use xmpp::c2s::{NewToken, Registration, TokenWork};
use xmpp::sasl::{CredentialAnswer, CredentialQuery, Secret};

use crate::message::XmppShardMessage;
use access::{Access, TokenKey};
use components::Components;
use counts::Counted;
pub use counts::XmppCounts;
pub use kinds::KindCount;
pub(crate) use phones::{Offering, PendingWatch, PhoneEffect, kept_of};
pub(crate) use record::{contacts_of, element as element_of, without_user, write_of};
pub use servers::Route as ServerRoute;
use streams::{Event, Streams};

/// The settings of a shard's XMPP. They may move to the shard's thread.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) streams: streams::Settings,
    /// `None`: other servers are not spoken with.
    pub(crate) servers: Option<servers::Settings>,
    pub(crate) components: components::Settings,
    pub(crate) host: Arc<chat::Settings>,
    pub(crate) seed: [u8; 32],
    pub(crate) access: Arc<Access>,
}

/// The settings that a reload may change.
#[derive(Clone, Debug)]
pub(crate) struct Reload {
    pub(crate) servers: Option<servers::Reload>,
    pub(crate) stream: Arc<::xmpp::c2s::C2sSettings>,
    pub(crate) host: Arc<chat::Settings>,
}

/// An effect that the shard performs for XMPP.
#[derive(Debug)]
pub(crate) enum XmppEffect {
    /// Answered by `handle_account`.
    Account {
        id: u64,
        user: Box<str>,
        domain: Box<str>,
    },
    /// Answered by `handle_loaded`.
    Read {
        id: u64,
        read: XmppRead,
    },
    /// Answered by `handle_written`.
    Write {
        id: u64,
        write: Write,
    },
    /// Keys of SCRAM, made beside the shard and written. Answered by `handle_written`.
    Derive {
        id: u64,
        account: Box<Account>,
        password: Secret,
    },
    /// A request of a session of BOSH at another shard of this process. A request that cannot be delivered is dropped,
    /// which answers it "try again".
    Bosh {
        /// The session's shard.
        shard: ShardAddress,
        /// The request.
        call: Box<streams::http::bosh::Call>,
    },
    /// Answered by `LocalXmppMessage::Administered`.
    Accounts {
        id: u64,
        ask: Box<Accounts>,
    },
    /// Caches of this account are void.
    Forget {
        address: Box<str>,
    },
    /// The account's user has signed in here, so its cached entry will not be needed soon.
    LetGo {
        address: Box<str>,
    },
    Phone(PhoneEffect),
    /// Answered by `handle_loaded`.
    Access {
        id: u64,
        read: AccessRead,
    },
    Aliases {
        id: u64,
        account: Box<Address>,
    },
    /// Keys made beside the shard, and written. Answered by `handle_written`.
    MakeAccount {
        id: u64,
        account: Box<access::NewAccount>,
    },
    SetPassword {
        id: u64,
        account: Box<Address>,
        password: Secret,
    },
    /// Checks a password against the account's keys, and writes it if it fits. Answered by `handle_written`.
    Prove {
        id: u64,
        account: Box<Account>,
        password: Secret,
        /// Its digests are made and kept then.
        learns: bool,
    },
}

/// The purpose of a query under way.
#[derive(Debug)]
enum PendingRead {
    SignIn {
        stream: u64,
        find: CredentialQuery,
        domain: Box<str>,
    },
    /// Checks that the account exists, for a `Load::User`.
    User {
        ticket: chat::Ticket,
        user: Bare,
    },
    Record {
        ticket: chat::Ticket,
    },
    Keys {
        address: Box<str>,
    },
    /// A password of an account that came with keys of SCRAM only.
    Proving {
        stream: u64,
        account: Box<Address>,
        /// If not, the client is told the same.
        is_there: bool,
    },
    /// The tokens of a client of that account.
    Tokens {
        stream: u64,
        name: Box<str>,
        key: TokenKey,
        agent: Box<str>,
    },
    /// The account whose tokens are to be changed.
    TokenWork {
        stream: u64,
        work: Box<TokenWork>,
    },
    TokensWritten {
        stream: u64,
        new: Option<NewToken>,
        was_used: bool,
    },
    Invited {
        stream: u64,
        domain: Box<str>,
    },
    Registering {
        stream: u64,
        registration: Box<Registration>,
    },
    Registered {
        stream: u64,
        user: Bare,
        inviter: Option<Box<str>>,
    },
    /// By its user.
    AccountChanged {
        ticket: chat::Ticket,
        address: Address,
    },
    /// The account was changed: its aliases' cached entries are void.
    Aliases,
}

/// The account cache could not ask the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unavailable;

/// XMPP of one shard, on its thread.
pub(crate) struct Xmpp {
    pub(crate) streams: Streams,
    pub(crate) servers: Option<servers::Servers>,
    pub(crate) components: Components,
    host: Host,
    shard: ShardAddress,
    map: ShardMap,
    access: Arc<Access>,
    asked: HashMap<u64, PendingRead>,
    asks: shard_requests::ShardRequests,
    last_ask: u64,
    phones: phones::Phones,
    /// Effects of the host, in order.
    todo: VecDeque<chat::Effect>,
    /// An outer call performs them.
    is_working: bool,
    effects: Vec<chat::Effect>,
    events: Vec<Event>,
    /// For other shards, by number.
    post: Vec<Vec<XmppShardMessage>>,
    sign_ins: u64,
    sign_in_failures: u64,
    counted: Counted,
    registrations: u64,
    /// Defects that the shard has not counted.
    panics: u64,
}

impl Xmpp {
    /// Drops the host's cached state of an account that was changed or removed; `None`: of all accounts.
    pub(crate) fn forget_account(&mut self, address: Option<&str>) {
        match address.map(Bare::parse) {
            None => self.host.forget_accounts(None),
            Some(Ok(user)) => self.host.forget_accounts(Some(&user)),
            Some(Err(_)) => {}
        }
    }

    /// On the shard's thread, inside its runtime.
    ///
    /// # Errors
    /// An address that cannot be listened at.
    pub(crate) fn new(
        settings: Settings,
        shard: ShardAddress,
        map: ShardMap,
    ) -> Result<Self, crate::net::NetError> {
        let listen = settings.streams.listen.clone();
        let mut streams = Streams::new(settings.streams, shard);
        for listener in &listen {
            streams.bind(listener)?;
        }
        let servers = settings.servers.map(|settings| servers::Servers::new(settings, shard)).transpose()?;
        Ok(Xmpp {
            streams,
            servers,
            components: Components::new(settings.components)?,
            host: Host::new(settings.host, shard, settings.seed),
            shard,
            map,
            access: settings.access,
            asked: HashMap::new(),
            asks: shard_requests::ShardRequests::default(),
            last_ask: 0,
            phones: phones::Phones::default(),
            todo: VecDeque::new(),
            is_working: false,
            effects: Vec::new(),
            events: Vec::new(),
            post: map.all().map(|_| Vec::new()).collect(),
            sign_ins: 0,
            sign_in_failures: 0,
            counted: Counted::default(),
            registrations: 0,
            panics: 0,
        })
    }

    pub(crate) fn reload(&mut self, reload: Reload) {
        self.streams.reload(reload.stream);
        self.host.reload(reload.host);
        if let (Some(servers), Some(reload)) = (&mut self.servers, reload.servers) {
            servers.reload(reload);
        }
    }

    /// Takes no new connections, and refers connected clients to another host, if one is configured (RFC 6120
    /// §4.9.3.19).
    pub(crate) fn drain(&mut self) {
        self.stop_accepting();
        self.streams.see_other_hosts(&self.access.other_hosts);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let servers = self.servers.as_ref().and_then(servers::Servers::deadline);
        [self.host.deadline(), servers].into_iter().flatten().min()
    }

    /// Ready when a connection has something for the shard.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let servers = self.servers.as_ref().is_some_and(|servers| servers.poll_ready(cx).is_ready());
        let streams = self.streams.poll_ready(cx).is_ready();
        let components = self.components.poll_ready(cx).is_ready();
        if servers || streams || components { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes no new connections.
    pub(crate) fn stop_accepting(&mut self) {
        self.streams.stop_accepting();
        self.components.stop_accepting();
        if let Some(servers) = &mut self.servers {
            servers.stop_accepting();
        }
    }

    /// Tells every connected peer that the node ends, and waits a moment for them to read it.
    pub(crate) async fn close_all(&mut self) {
        let (streams, components) = (&mut self.streams, &mut self.components);
        tokio::join!(streams.close_all("system-shutdown"), components.close_all("system-shutdown"));
        if let Some(servers) = &mut self.servers {
            servers.close_all().await;
        }
    }

    /// Before the first turn.
    pub(crate) fn begin(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) {
        self.tell_host(now, outbox, |host, out| host.begin(out));
    }

    /// Handles clients' events since the last turn, and due timers. Returns how many there were.
    pub(crate) fn turn(&mut self, now: Instant, outbox: &mut Vec<XmppEffect>) -> usize {
        let mut events = std::mem::take(&mut self.events);
        self.streams.take_events(&mut events);
        let count = events.len();
        for event in events.drain(..) {
            self.handle_event(now, event, outbox);
        }
        self.events = events;
        let count = count + self.turn_components(now, outbox);
        if self.host.deadline().is_some_and(|deadline| deadline <= now) {
            self.tell_host(now, outbox, |host, out| host.expire(now, out));
        }
        count + self.turn_servers(now, outbox)
    }

    fn ask(&mut self, asked: PendingRead) -> u64 {
        self.last_ask += 1;
        self.asked.insert(self.last_ask, asked);
        self.last_ask
    }

    /// Handles the account of an address; `None`: it has no account.
    pub(crate) fn handle_account(
        &mut self,
        now: Instant,
        id: u64,
        found: Result<Option<&Account>, Unavailable>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match self.asked.remove(&id) {
            Some(PendingRead::SignIn { stream, find, domain }) => {
                self.sign_in(stream, find, &domain, found, outbox);
            }
            Some(PendingRead::TokenWork { stream, work }) => {
                self.token_work(now, stream, *work, found, outbox);
            }
            Some(PendingRead::Registering { stream, registration }) => {
                self.name_looked_up(now, stream, registration, found, outbox);
            }
            Some(PendingRead::User { ticket, user }) => {
                let is_it = |account: &&Account| {
                    let account = sign_in::account_of(Some(account), user.domain());
                    account.is_some_and(|account| Some(&*account.name) == user.local())
                };
                let loaded = match found {
                    Ok(found) if found.filter(is_it).is_some() => {
                        let id = self.ask(PendingRead::Record { ticket });
                        if self.host.accounts().is_signed_in(&user) {
                            outbox.push(XmppEffect::LetGo { address: user.as_str().into() });
                        }
                        let read = record::read_of_user(&user);
                        return outbox.push(XmppEffect::Read { id, read });
                    }
                    Ok(_) => Ok(chat::StoreReply::User(None)),
                    Err(Unavailable) => Err(chat::StoreFailure::Unavailable),
                };
                self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, loaded, out));
            }
            _ => {}
        }
    }

    fn sign_in(
        &mut self,
        stream: u64,
        find: CredentialQuery,
        domain: &str,
        found: Result<Option<&Account>, Unavailable>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let Ok(found) = found else {
            self.streams.tell(stream, |c2s, out| c2s.handle_found(CredentialAnswer::Unavailable, out));
            return;
        };
        let account = sign_in::account_of(found, domain);
        // For an account that is not there as much is done as for others: the time tells nothing either.
        let slow = match account {
            Some(account) => !account.verifiers.are_of_password(),
            None => !self.access.digests || self.streams.only_keys(find.user(), domain),
        };
        let known = || account.cloned().unwrap_or_else(|| sign_in::nobody(find.user(), domain));
        match &find {
            CredentialQuery::Tokens { agent, .. } => {
                return self.find_tokens(stream, &known(), agent.clone(), outbox);
            }
            CredentialQuery::Password { password, .. } if slow => {
                let (is_there, account) = (account.is_some(), Box::new(known()));
                let proving = Box::new(account.address());
                let id = self.ask(PendingRead::Proving { stream, account: proving, is_there });
                let (password, learns) = (password.clone(), self.access.digests);
                return outbox.push(XmppEffect::Prove { id, account, password, learns });
            }
            _ => {}
        }
        let known = sign_in::check(&find, account);
        let is_right = known == CredentialAnswer::Password(true);
        self.streams.tell(stream, |c2s, out| match account {
            Some(account) => c2s.handle_found_as(known, &account.name, out),
            None => c2s.handle_found(known, out),
        });
        if let (CredentialQuery::Password { password, .. }, Some(account), true) = (find, account, is_right)
            && sign_in::wants_keys(account)
        {
            let address = format!("{}@{}", account.name, account.domain).into();
            let id = self.ask(PendingRead::Keys { address });
            outbox.push(XmppEffect::Derive { id, account: Box::new(account.clone()), password });
        }
    }

    pub(crate) fn handle_loaded(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Loaded, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match self.asked.remove(&id) {
            Some(PendingRead::Record { ticket }) => {
                let loaded = match result {
                    Ok(Loaded::Xmpp(loaded)) => record::loaded_of(loaded).map(|loaded| self.own_of(loaded)),
                    Ok(Loaded::Access(loaded)) => Ok(access::loaded_of(loaded)),
                    Ok(_) => Err(chat::StoreFailure::Unavailable),
                    Err(error) => Err(record::error_of(&error)),
                };
                self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, loaded, out));
            }
            Some(PendingRead::Aliases) => {
                let Ok(Loaded::Aliases(aliases)) = result else { return };
                let addresses = aliases.into_iter().map(|alias| alias.alias.to_string().into());
                outbox.extend(addresses.map(|address| XmppEffect::Forget { address }));
            }
            Some(asked) => {
                let loaded = match result {
                    Ok(Loaded::Access(loaded)) => Some(loaded),
                    _ => None,
                };
                self.access_loaded(now, asked, loaded, outbox);
            }
            None => {}
        }
    }

    fn proved(
        &mut self,
        stream: u64,
        (account, is_there): (&Address, bool),
        result: &Result<WriteDone, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let known = match result {
            // None: there is another password since.
            Ok(WriteDone::Changed { rows }) => CredentialAnswer::Password(*rows > 0),
            Err(StoreError::NotFound { .. }) => CredentialAnswer::Password(false),
            Ok(_) | Err(_) => CredentialAnswer::Unavailable,
        };
        outbox.push(XmppEffect::Forget { address: account.to_string().into() });
        self.streams.tell(stream, |c2s, out| match is_there {
            true => c2s.handle_found_as(known, &account.user, out),
            false => c2s.handle_found(known, out),
        });
    }

    /// Drops the accounts that belong to other shards.
    fn own_of(&self, loaded: chat::StoreReply) -> chat::StoreReply {
        match loaded {
            chat::StoreReply::Users(mut users) => {
                users.retain(|user| self.owner(user.as_str()) == self.shard);
                chat::StoreReply::Users(users)
            }
            other => other,
        }
    }

    pub(crate) fn handle_written(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<WriteDone, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        match self.asked.remove(&id) {
            Some(PendingRead::Record { ticket }) => {
                let done = record::done_of(result);
                self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, done, out));
            }
            Some(PendingRead::Keys { address }) if result.is_ok() => {
                outbox.push(XmppEffect::Forget { address });
            }
            Some(PendingRead::Proving { stream, account, is_there }) => {
                self.proved(stream, (&account, is_there), &result, outbox);
            }
            Some(asked) => self.access_written(now, asked, result, outbox),
            None => {}
        }
    }

    /// Passes on the result of an administrator's command about accounts.
    pub(crate) fn administered(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<chat::StoreReply, chat::StoreFailure>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        if let Some(PendingRead::Record { ticket }) = self.asked.remove(&id) {
            self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, result, out));
        }
    }

    /// The record takes nothing now.
    pub(crate) fn refused(&mut self, now: Instant, id: u64, outbox: &mut Vec<XmppEffect>) {
        match self.asked.remove(&id) {
            Some(PendingRead::Record { ticket }) => {
                let refused = Err(chat::StoreFailure::Unavailable);
                self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, refused, out));
            }
            Some(
                asked @ (PendingRead::Tokens { .. }
                | PendingRead::Invited { .. }
                | PendingRead::Registering { .. }),
            ) => {
                self.access_loaded(now, asked, None, outbox);
            }
            Some(PendingRead::Proving { stream, account, is_there }) => {
                self.proved(stream, (&account, is_there), &Err(StoreError::Closed), outbox);
            }
            Some(asked) => self.access_written(now, asked, Err(StoreError::Closed), outbox),
            None => {}
        }
    }

    /// Moves out what waits for a shard.
    pub(crate) fn take_post(&mut self, shard: usize) -> Vec<XmppShardMessage> {
        std::mem::take(&mut self.post[shard])
    }

    pub(crate) fn take_panics(&mut self) -> u64 {
        let servers = self.servers.as_mut().map_or(0, servers::Servers::take_panics);
        let streams = self.streams.take_panics() + self.components.take_panics();
        std::mem::take(&mut self.panics) + streams + servers
    }
}
