//! The questions of edges to the owner of an address, its answers and its pushes.
//!
//! An edge is a shard that holds connections, transactions and dialogs, named by its [`ShardAddress`]; the router holds
//! what is known of an address of record. Every value here can be sent to another process, so nothing here borrows.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

pub use cluster::{Life, ShardAddress};
use stdx::Instant;

/// A canonical address of record, `user@domain`: aliases resolved, domain in lower case, no scheme.
pub type Aor = Box<str>;

/// Pairs an answer with its query; chosen by the edge, unique there while the query is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(pub u64);

/// An edge's own name for one of its subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub u64);

/// A question of an edge to the router.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    /// Where can this address be reached now? Answered with `Answer::Bindings`.
    Lookup {
        /// The address that is looked up.
        aor: Aor,
    },
    /// RFC 3261 §10.3 steps 6 to 8. Answered with `Answer::Registered` once the change is in the record.
    Register(Box<Register>),
    /// Start or refresh a watch on one topic. Answered with `Answer::State`; changes follow as `Push::State`.
    Watch {
        /// The address whose state is watched.
        aor: Aor,
        /// The kind of state.
        topic: Topic,
        /// The edge's name for the watch, in each `Push::State`.
        watch: WatchId,
        /// The watch ends then unless it is refreshed.
        until: Instant,
    },
    /// As `Watch`, for a watcher that needs the consent of the address. Answered with `Answer::WatchRefused`
    /// where it has none. A router knows of no consent; the owner of rosters takes the query before it gets
    /// there.
    WatchByConsent {
        /// The account that asks.
        watcher: Aor,
        /// The address whose state is watched.
        aor: Aor,
        /// The kind of state.
        topic: Topic,
        /// The edge's name for the watch, in each `Push::State`.
        watch: WatchId,
        /// The watch ends then unless it is refreshed.
        until: Instant,
    },
    /// Ends a watch. Not answered.
    Unwatch {
        /// The address that was watched.
        aor: Aor,
        /// The kind of state.
        topic: Topic,
        /// The name under which the watch began.
        watch: WatchId,
    },
    /// RFC 3903. Answered with `Answer::Published`.
    Publish(Box<Publish>),
    /// A call of this address changed. Not answered.
    CallChanged {
        /// The address that places or receives the call.
        aor: Aor,
        /// The call as it is now.
        call: CallInfo,
    },
    /// Asks the owner of this address which of its addresses are watched in a way that shows calls. Answered with `Push::Watched`, or
    /// not at all: then all calls are reported.
    Watched {
        /// An address of the owner.
        aor: Aor,
        /// The owner as the edge knows it, for the push.
        owner: ShardAddress,
    },
    /// May this address have one more call? Answered with `Answer::Admitted`.
    Admit(Box<Admission>),
    /// Keep a message until the address registers. Answered with `Answer::Kept` once it is in the record.
    Keep(Box<WaitingMessage>),
    /// As `Keep`, from a sender that is no account: strangers together fill a part of the messages kept for
    /// an address.
    KeepOfStranger(Box<WaitingMessage>),
    /// A message for an address: its chat clients get it, and when it has no phones either it may be kept.
    /// Answered with `Answer::Offered`. A router has no chat clients; a shard with chat clients takes the
    /// query before it gets there.
    Offer(Box<Offer>),
    /// The state of the address's chat clients; `None` without any. Only watchers need it. Not answered.
    ChatChanged {
        /// The address of the chat account.
        aor: Aor,
        /// All its available clients, as one.
        chat: Option<Chat>,
    },
    /// A kept message was delivered (or refused for good) and may be forgotten. Not answered.
    Delivered {
        /// The address that the message was kept for.
        aor: Aor,
        /// `WaitingMessage::id`.
        message: u64,
    },
    /// The account of an address, also by an alias, for an edge without a database. Answered with `Answer::Account`;
    /// changes follow as `Push::AccountChanged`. A router has no accounts; a shard with a database takes the query
    /// before it gets there.
    Account {
        /// The address that is looked for.
        aor: Aor,
    },
}

impl Query {
    /// The address whose bucket decides which router is asked.
    pub fn aor(&self) -> &str {
        match self {
            Query::Lookup { aor }
            | Query::Watch { aor, .. }
            | Query::WatchByConsent { aor, .. }
            | Query::Unwatch { aor, .. }
            | Query::CallChanged { aor, .. }
            | Query::Watched { aor, .. }
            | Query::ChatChanged { aor, .. }
            | Query::Delivered { aor, .. }
            | Query::Account { aor } => aor,
            Query::Register(register) => &register.aor,
            Query::Publish(publish) => &publish.aor,
            Query::Admit(admission) => &admission.aor,
            Query::Keep(message) | Query::KeepOfStranger(message) => &message.aor,
            Query::Offer(offer) => &offer.message.aor,
        }
    }

    /// True if the router answers it.
    pub fn is_answered(&self) -> bool {
        !matches!(
            self,
            Query::Unwatch { .. }
                | Query::CallChanged { .. }
                | Query::Watched { .. }
                | Query::ChatChanged { .. }
                | Query::Delivered { .. }
        )
    }

    /// True if a second performance changes nothing and gives an equal answer: a REGISTER with the CSeq of the present bindings, a
    /// watch of the same number, a call that is counted already. A message would be kept twice, and a publication gets a new
    /// entity tag each time (RFC 3903 §6).
    pub fn is_repeatable(&self) -> bool {
        match self {
            Query::Lookup { .. }
            | Query::Register(_)
            | Query::Watch { .. }
            | Query::WatchByConsent { .. }
            | Query::Admit(_)
            | Query::Account { .. } => true,
            Query::Publish(_)
            | Query::Keep(_)
            | Query::KeepOfStranger(_)
            | Query::Offer(_)
            | Query::Unwatch { .. }
            | Query::CallChanged { .. }
            | Query::Watched { .. }
            | Query::ChatChanged { .. }
            | Query::Delivered { .. } => false,
        }
    }
}

/// The router's answer to a [`Query`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Live bindings, highest q first.
    Bindings(Vec<Binding>),
    /// The bindings after the change, highest q first.
    Registered(Result<Vec<Binding>, RegisterRefused>),
    /// The state when the watch began or was refreshed.
    State(State),
    /// The address has not consented to the watcher.
    WatchRefused,
    /// To `Query::Publish`.
    Published(Result<Published, PublishRefused>),
    /// To `Query::Keep` and `Query::KeepOfStranger`.
    Kept(Result<(), KeepRefused>),
    /// To `Query::Admit`.
    Admitted(Result<(), AdmitRefused>),
    /// To `Query::Offer`.
    Offered(Offered),
    /// To `Query::Account`; `None` for an address without an account.
    Account(Result<Option<Box<PhoneAccount>>, AccountUnread>),
    /// To any query: the shard does not serve the address's bucket, or not any more, and has done nothing. In a farm whose
    /// nodes share a database the asker then asks again, until its patience ends.
    Unavailable,
}

/// A change that the router sends to an edge without being asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Push {
    /// A watched topic changed.
    State {
        /// The name that the edge gave the watch.
        watch: WatchId,
        /// The whole state after the change.
        state: State,
    },
    /// The address came back and this was kept for it; answer with `Query::Delivered` when it got through.
    Deliver {
        /// The live bindings of the address.
        bindings: Vec<Binding>,
        /// The oldest message that waits.
        message: Box<WaitingMessage>,
    },
    /// The answers to `Query::Account` about this address are outdated; those about all addresses where none is named.
    AccountChanged {
        /// The address, as it was asked about; an alias is told as well.
        aor: Option<Aor>,
    },
    /// Addresses that are watched in a way that shows calls: the edge reports the calls of these. To an edge that has sent
    /// `Query::Watched`.
    Watched {
        /// The addresses are all that this owner has; without it they are watched from now on, besides those of before.
        owner: Option<ShardAddress>,
        /// The addresses.
        aors: Vec<Aor>,
    },
}

/// An account as the SIP of an edge needs it.
#[derive(Clone, PartialEq, Eq)]
pub struct PhoneAccount {
    /// The account's address; the query may have named an alias.
    pub aor: Aor,
    /// `H(user:realm:password)` with MD5 (RFC 7616 §3.4.2).
    pub md5: [u8; 16],
    /// The same with SHA-256.
    pub sha256: [u8; 32],
    /// The same with SHA-512/256.
    pub sha512_256: [u8; 32],
    /// True if the account may neither register nor call.
    pub disabled: bool,
    /// The largest number of its bindings.
    pub max_contacts: usize,
    /// Calls at once; `None`: any number.
    pub max_calls: Option<u32>,
    /// New calls a second that it places; `None`: any number.
    pub max_rate: Option<u32>,
    /// Patterns of destinations that it may not call.
    pub deny: Vec<Box<str>>,
}

/// Without the digests, by which requests could be authenticated.
impl fmt::Debug for PhoneAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PhoneAccount { aor, disabled, max_contacts, max_calls, max_rate, deny, .. } = self;
        let mut text = f.debug_struct("PhoneAccount");
        text.field("aor", aor).field("disabled", disabled).field("max_contacts", max_contacts);
        text.field("max_calls", max_calls).field("max_rate", max_rate).field("deny", deny);
        text.finish_non_exhaustive()
    }
}

/// The database could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountUnread;

/// One REGISTER, already authenticated and validated, its intervals already granted.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    /// The address of record, from To.
    pub aor: Aor,
    /// Call-ID of the REGISTER.
    pub call_id: Box<str>,
    /// The number in its CSeq.
    pub cseq: u32,
    /// The change that its Contact values ask for.
    pub change: Change,
    /// The largest number of bindings of this account.
    pub max_contacts: usize,
}

/// The change of bindings that a REGISTER asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// No Contact: only tell what is bound.
    None,
    /// `Contact: *` with `Expires: 0`.
    RemoveAll,
    /// These contacts are bound, refreshed or, with `expires` 0, removed.
    Update(Vec<Contact>),
}

/// One Contact of a REGISTER.
#[derive(Clone, Debug, PartialEq)]
pub struct Contact {
    /// The contact URI as it was sent, without angle brackets.
    pub uri: Box<str>,
    /// Thousandths, 0 to 1000. 1000 when not given.
    pub q: u16,
    /// Granted seconds; 0 removes.
    pub expires: u32,
    /// `+sip.instance`, without quotes and angle brackets; empty when not given.
    pub instance: Box<str>,
    /// RFC 5626 `reg-id`; 0 when not given.
    pub reg_id: u32,
    /// RFC 3327 Path values, comma-separated as they are to stand in Route; empty when none.
    pub path: Box<str>,
    /// The User-Agent header; empty when not given.
    pub user_agent: Box<str>,
    /// Where the REGISTER really came from, when requests must go back there: behind NAT, or a connection.
    pub received: Option<Received>,
}

/// The transport, addresses and flow on which a REGISTER came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The transport that the request came by.
    pub transport: Transport,
    /// Our address.
    pub local: SocketAddr,
    /// The address that it came from.
    pub remote: SocketAddr,
    /// The connection, for connection-oriented transports. A flow of another process life is never live.
    pub flow: Option<FlowId>,
}

/// The transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// UDP (RFC 3261 §18).
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// WebSocket (RFC 7118).
    Ws,
    /// WebSocket over TLS.
    Wss,
}

/// A connection: the edge that holds it, and a number that the edge never uses twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    /// The shard that accepted or opened the connection.
    pub edge: ShardAddress,
    /// The connection's number at this shard.
    pub number: u64,
}

/// A contact that is bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Binding {
    /// The contact as it was granted last.
    pub contact: Contact,
    /// The binding ends then unless it is refreshed.
    pub expires_at: Instant,
    /// Call-ID of the REGISTER that bound or refreshed it last.
    pub call_id: Box<str>,
    /// The number in the CSeq of that REGISTER.
    pub cseq: u32,
}

/// The reason why a REGISTER was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterRefused {
    /// RFC 3261 §10.3 step 7: same Call-ID, CSeq not higher.
    OutOfOrder,
    /// The account would have more than `Register::max_contacts`.
    TooManyContacts,
    /// The database could not be written; nothing was changed.
    StoreFailed,
}

/// A call that is about to begin, of an address with limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The address with limits, caller or callee.
    pub aor: Aor,
    /// Empty: only asked, not counted.
    pub call_id: Box<str>,
    /// The From tag of the INVITE: calls under one Call-ID with different tags are different calls.
    pub caller_tag: Box<str>,
    /// True when this address places the call.
    pub initiator: bool,
    /// Calls at once, placed and received.
    pub max_calls: Option<u32>,
    /// New calls a second.
    pub max_rate: Option<u32>,
}

/// The reason why a call was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmitRefused {
    /// `Admission::max_calls` are up already.
    TooManyCalls,
    /// `Admission::max_rate` have begun within this second.
    TooFast,
}

/// The kinds of state of an address that edges can watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// RFC 3856.
    Presence,
    /// RFC 4235.
    Dialog,
    /// RFC 3842.
    MessageSummary,
    /// RFC 3680.
    Registration,
}

/// The state of a topic, in words every protocol can render.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The state of `Topic::Presence`.
    Presence(Presence),
    /// The state of `Topic::Dialog`: the calls of the address.
    Dialog(Vec<CallInfo>),
    /// The state of `Topic::MessageSummary`.
    MessageSummary {
        /// Messages that are kept for the address.
        waiting: u32,
    },
    /// The state of `Topic::Registration`: the live bindings.
    Registration(Vec<Binding>),
}

/// The presence of an address.
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    /// Registered, or published as open.
    pub open: bool,
    /// A call of this address is up.
    pub on_the_phone: bool,
    /// Its chat clients as one; `None` without any.
    pub chat: Option<Chat>,
    /// Documents that clients published (RFC 3863 PIDF), newest first, as they came.
    pub documents: Vec<Arc<[u8]>>,
}

/// The chat clients of an address, as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    /// The availability of the client with the highest priority.
    pub show: Show,
    /// In the user's words; may be empty.
    pub note: Box<str>,
}

/// RFC 6121 §4.7.2.1, as far as it tells others what to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// No `<show/>`, or `chat`.
    Available,
    /// `away`.
    Away,
    /// Do not disturb.
    Dnd,
    /// Away for longer.
    Xa,
}

/// One dialog of an address (RFC 4235).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInfo {
    /// Call-ID of the dialog.
    pub call_id: Box<str>,
    /// The tag of this address.
    pub local_tag: Box<str>,
    /// The tag of the other party; empty before it is known.
    pub remote_tag: Box<str>,
    /// True when this address placed the call (RFC 4235 `direction="initiator"`).
    pub initiator: bool,
    /// The other party, a URI.
    pub remote: Box<str>,
    /// The state of the dialog.
    pub phase: CallPhase,
}

/// RFC 4235 §3.7.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPhase {
    /// The INVITE was sent, and has no provisional response with a tag.
    Trying,
    /// A provisional response had a tag.
    Early,
    /// A 2xx came.
    Confirmed,
    /// The dialog has ended, or never was.
    Terminated,
}

/// A PUBLISH (RFC 3903): starts, refreshes, modifies or removes a publication.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// The address whose state is published, from the Request-URI.
    pub aor: Aor,
    /// SIP-If-Match; `None` starts a publication.
    pub etag: Option<Box<str>>,
    /// `None` refreshes (or, with `expires` 0, removes) what was published.
    pub document: Option<Arc<[u8]>>,
    /// Granted seconds; 0 removes.
    pub expires: u32,
}

/// The entity tag and lifetime of an accepted publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// SIP-ETag of the response, for the next PUBLISH.
    pub etag: Box<str>,
    /// Granted seconds.
    pub expires: u32,
}

/// The reason why a publication was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishRefused {
    /// 412: no publication has this entity tag.
    ConditionalRequestFailed,
    /// The address has `limits::PUBLICATIONS_PER_ADDRESS` already, or the document is too long.
    TooMany,
}

/// A message that waits for a client of its address.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingMessage {
    /// Chosen by the record; 0 in a query.
    pub id: u64,
    /// The address that the message is for.
    pub aor: Aor,
    /// The sender's URI.
    pub from: Box<str>,
    /// The Content-Type header.
    pub content_type: Box<str>,
    /// The body as it was sent.
    pub body: Arc<[u8]>,
    /// The time at which the MESSAGE came.
    pub sent_at: Instant,
    /// The end of its Expires; without one it does not expire.
    pub expires_at: Option<Instant>,
}

impl WaitingMessage {
    /// True if it may not be delivered any more.
    pub fn has_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// The reason why a message was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepRefused {
    /// `limits::KEPT_PER_ADDRESS` messages wait for the address already, or messages are not kept at all.
    TooMany,
    /// The message is longer than a kept one may be.
    TooLarge,
    /// The database could not be written.
    StoreFailed,
}

/// A message that no client has yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The message, with `id` 0.
    pub message: WaitingMessage,
    /// The sender, when it was proved or needs no proof.
    pub sender: Option<Aor>,
    /// The address is bound: its phones get it whatever is answered, so it is not to be kept.
    pub has_phones: bool,
}

/// The result of offering a message to chat clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// A chat client has it.
    Delivered,
    /// It is in the record, for whichever comes first, a chat client or a phone.
    Kept,
    /// No chat client is there, or the address has none at all: it goes the way of phones.
    NoClient,
    /// Chat clients are there, but have nothing that could carry it.
    Unsupported,
    /// The address takes nothing from this sender.
    Refused,
    /// It cannot be kept now.
    Busy,
}
