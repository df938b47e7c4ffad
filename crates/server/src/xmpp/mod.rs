//! XMPP of one shard: its clients' connections ([`streams`]) and the host of the accounts and rooms whose bucket is the
//! shard's. A connection may be at another shard than its host; between them, and between hosts, go letters.
//!
//! What it asks of the record and of the account cache becomes a [`Wish`], which the shard grants; its answer comes
//! back by the wish's number.

mod federation;
mod letter;
mod record;
pub(crate) mod sign_in;
pub(crate) mod streams;
pub(crate) mod uploads;
mod work;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use stdx::Instant;
use stdx::rate::Limiter;
use store::xmpp::XmppRead;
use store::{Account, Loaded, StoreError, Write, WriteDone};
use xmpp::Bare;
use xmpp::host::{self, Host};
use xmpp::sasl::{Find, Known, Secret};

pub use letter::XmppLetter;
pub(crate) use sign_in::make_keys;
use streams::{Event, Streams};

/// What a shard's XMPP is made of. May move to the shard's thread.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) streams: streams::Settings,
    pub(crate) host: Arc<host::Settings>,
    pub(crate) seed: [u8; 32],
}

/// What a reload may change.
#[derive(Clone, Debug)]
pub(crate) struct Reload {
    pub(crate) stream: Arc<::xmpp::c2s::Settings>,
    pub(crate) host: Arc<host::Settings>,
}

/// What the shard does for it.
#[derive(Debug)]
pub(crate) enum Wish {
    /// Answered by `handle_account`.
    Account { id: u64, user: Box<str>, domain: Box<str> },
    /// Answered by `handle_loaded`.
    Read { id: u64, read: XmppRead },
    /// Answered by `handle_written`.
    Write { id: u64, write: Write },
    /// Keys of SCRAM, made beside the shard and written. Answered by `handle_written`.
    Derive { id: u64, account: Box<Account>, password: Secret },
    /// Caches of this account are void.
    Forget { address: Box<str> },
}

/// What an answer is for.
#[derive(Debug)]
enum Asked {
    SignIn {
        stream: u64,
        find: Find,
        domain: Box<str>,
    },
    /// Whether there is such an account, for a `Load::User`.
    User {
        ticket: host::Ticket,
        user: Bare,
    },
    Record {
        ticket: host::Ticket,
    },
    Keys {
        address: Box<str>,
    },
}

/// The account cache could not ask the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unavailable;

#[derive(Clone, Copy, Debug, Default)]
pub struct XmppCounts {
    pub connections: u64,
    /// Those that wait to be resumed among them.
    pub sessions: u64,
    pub connections_total: u64,
    pub refused: u64,
    pub handshake_failures: u64,
    pub sign_ins: u64,
    pub sign_in_failures: u64,
    pub stanzas_in: u64,
    pub stanzas_out: u64,
    pub overflows: u64,
    pub timeouts: u64,
    pub faults: u64,
    pub bosh_sessions: u64,
    pub bosh_faults: u64,
    pub http_requests: u64,
    pub http_refused: u64,
    pub uploads: u64,
    pub downloads: u64,
    /// Of all files; told by the first shard only.
    pub upload_bytes: u64,
}

/// XMPP of one shard, on its thread.
pub(crate) struct Xmpp {
    pub(crate) streams: Streams,
    host: Host,
    shard: u16,
    shards: u16,
    wrong_passwords: Limiter<IpAddr>,
    asked: HashMap<u64, Asked>,
    last_ask: u64,
    /// What the host asks, in order.
    todo: VecDeque<host::Effect>,
    /// Somebody is doing it.
    is_working: bool,
    effects: Vec<host::Effect>,
    events: Vec<Event>,
    /// For other shards, by number.
    post: Vec<Vec<XmppLetter>>,
    sign_ins: u64,
    sign_in_failures: u64,
    stanzas_out: u64,
    /// Defects that the shard has not counted.
    panics: u64,
}

impl Xmpp {
    /// What the host remembers of an account that was changed or removed is void; of all: `None`.
    pub(crate) fn forget_account(&mut self, address: Option<&str>) {
        match address.map(Bare::parse) {
            None => self.host.forget_accounts(),
            Some(Ok(user)) => self.host.forget_account(&user),
            Some(Err(_)) => {}
        }
    }

    /// On the shard's thread, inside its runtime.
    ///
    /// # Errors
    /// An address that cannot be listened at.
    pub(crate) fn new(settings: Settings, shard: u16, shards: u16) -> Result<Self, crate::net::NetError> {
        let listen = settings.streams.listen.clone();
        let mut streams = Streams::new(settings.streams, shard);
        for listener in &listen {
            streams.bind(listener)?;
        }
        Ok(Xmpp {
            streams,
            host: Host::new(settings.host, settings.seed),
            shard,
            shards,
            wrong_passwords: Limiter::new(sip::limits::WRONG_PASSWORDS),
            asked: HashMap::new(),
            last_ask: 0,
            todo: VecDeque::new(),
            is_working: false,
            effects: Vec::new(),
            events: Vec::new(),
            post: (0..shards).map(|_| Vec::new()).collect(),
            sign_ins: 0,
            sign_in_failures: 0,
            stanzas_out: 0,
            panics: 0,
        })
    }

    pub(crate) fn reload(&mut self, reload: Reload) {
        self.streams.reload(reload.stream);
        self.host.reload(reload.host);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.host.deadline()
    }

    /// What clients asked since the last turn, and what is due.
    pub(crate) fn turn(&mut self, now: Instant, wishes: &mut Vec<Wish>) -> usize {
        let mut events = std::mem::take(&mut self.events);
        self.streams.take_events(&mut events);
        let count = events.len();
        for event in events.drain(..) {
            self.handle_event(now, event, wishes);
        }
        self.events = events;
        if self.host.deadline().is_some_and(|deadline| deadline <= now) {
            self.tell_host(now, wishes, |host, out| host.expire(now, out));
        }
        count
    }

    fn ask(&mut self, asked: Asked) -> u64 {
        self.last_ask += 1;
        self.asked.insert(self.last_ask, asked);
        self.last_ask
    }

    /// Which account that is; `None`: nobody's address.
    pub(crate) fn handle_account(
        &mut self,
        now: Instant,
        id: u64,
        found: Result<Option<&Account>, Unavailable>,
        wishes: &mut Vec<Wish>,
    ) {
        match self.asked.remove(&id) {
            Some(Asked::SignIn { stream, find, domain }) => {
                self.sign_in(stream, find, &domain, found, wishes);
            }
            Some(Asked::User { ticket, user }) => {
                let is_it = |account: &&Account| {
                    let account = sign_in::account_of(Some(account), user.domain());
                    account.is_some_and(|account| Some(&*account.name) == user.local())
                };
                let loaded = match found {
                    Ok(found) if found.filter(is_it).is_some() => {
                        let id = self.ask(Asked::Record { ticket });
                        let read = XmppRead::User { user: user.as_str().into() };
                        return wishes.push(Wish::Read { id, read });
                    }
                    Ok(_) => Ok(host::Loaded::User(None)),
                    Err(Unavailable) => Err(host::RecordError::Unavailable),
                };
                self.tell_host(now, wishes, |host, out| host.handle_record(now, ticket, loaded, out));
            }
            Some(Asked::Record { .. } | Asked::Keys { .. }) | None => {}
        }
    }

    fn sign_in(
        &mut self,
        stream: u64,
        find: Find,
        domain: &str,
        found: Result<Option<&Account>, Unavailable>,
        wishes: &mut Vec<Wish>,
    ) {
        let Ok(found) = found else {
            self.streams.tell(stream, |c2s, out| c2s.handle_found(Known::Unavailable, out));
            return;
        };
        let account = sign_in::account_of(found, domain);
        let known = sign_in::check(&find, account);
        let is_right = known == Known::Password(true);
        self.streams.tell(stream, |c2s, out| match account {
            Some(account) => c2s.handle_found_as(known, &account.name, out),
            None => c2s.handle_found(known, out),
        });
        if let (Find::Password { password, .. }, Some(account), true) = (find, account, is_right)
            && sign_in::wants_keys(account)
        {
            let address = format!("{}@{}", account.name, account.domain).into();
            let id = self.ask(Asked::Keys { address });
            wishes.push(Wish::Derive { id, account: Box::new(account.clone()), password });
        }
    }

    pub(crate) fn handle_loaded(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Loaded, StoreError>,
        wishes: &mut Vec<Wish>,
    ) {
        let Some(Asked::Record { ticket }) = self.asked.remove(&id) else { return };
        let loaded = match result {
            Ok(Loaded::Xmpp(loaded)) => Ok(record::loaded_of(loaded)),
            Ok(_) => Err(host::RecordError::NotFound),
            Err(error) => Err(record::error_of(&error)),
        };
        self.tell_host(now, wishes, |host, out| host.handle_record(now, ticket, loaded, out));
    }

    pub(crate) fn handle_written(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<WriteDone, StoreError>,
        wishes: &mut Vec<Wish>,
    ) {
        match self.asked.remove(&id) {
            Some(Asked::Record { ticket }) => {
                let done = record::done_of(result);
                self.tell_host(now, wishes, |host, out| host.handle_record(now, ticket, done, out));
            }
            Some(Asked::Keys { address }) if result.is_ok() => wishes.push(Wish::Forget { address }),
            _ => {}
        }
    }

    /// The record takes nothing now.
    pub(crate) fn refused(&mut self, now: Instant, id: u64, wishes: &mut Vec<Wish>) {
        if let Some(Asked::Record { ticket }) = self.asked.remove(&id) {
            let refused = Err(host::RecordError::Unavailable);
            self.tell_host(now, wishes, |host, out| host.handle_record(now, ticket, refused, out));
        }
    }

    /// Moves out what waits for a shard.
    pub(crate) fn take_post(&mut self, shard: usize) -> Vec<XmppLetter> {
        std::mem::take(&mut self.post[shard])
    }

    pub(crate) fn take_panics(&mut self) -> u64 {
        std::mem::take(&mut self.panics) + self.streams.take_panics()
    }

    pub(crate) fn counts(&self) -> XmppCounts {
        let streams = self.streams.counters();
        XmppCounts {
            connections: streams.open,
            sessions: self.host.sessions() as u64,
            connections_total: streams.accepted,
            refused: streams.refused,
            handshake_failures: streams.handshake_failures,
            sign_ins: self.sign_ins,
            sign_in_failures: self.sign_in_failures,
            stanzas_in: streams.stanzas_in,
            stanzas_out: self.stanzas_out,
            overflows: streams.overflows,
            timeouts: streams.timeouts,
            faults: streams.faults,
            bosh_sessions: self.streams.bosh_sessions(),
            bosh_faults: streams.bosh_faults,
            http_requests: streams.http_requests,
            http_refused: streams.http_refused,
            uploads: streams.uploads,
            downloads: streams.downloads,
            upload_bytes: self
                .streams
                .uploads()
                .filter(|_| self.shard == 0)
                .map_or(0, |uploads| uploads.used()),
        }
    }
}
