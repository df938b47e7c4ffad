//! Everything a host can ask of the world.
//!
//! The driver performs effects in their order, and calls the host with the answers. A ticket joins an answer to its
//! request (`store_requests`).

mod archive;
mod history;
mod operate;
mod services;
mod stream_fault;
mod voicemail;

use ::bytestreams::ActivationFault;
use stdx::Instant;
use xmpp::c2s::Bound;
use xmpp::sasl::Secret;
use xmpp::{Bare, ConnectionId, Element, Jid};

use super::page::{ItemPage, ItemQuery, RowPage, StanzaPage};
use super::phones::PhoneMessageOutcome;

pub use archive::{MamPage, MamQuery};
pub use history::{CallHistoryPage, CallHistoryQuery, PastCall};
pub use operate::{
    AccountList, AccountRefusal, Accounts, HostAction, HostActionResult, OnlineFilter, RoomState,
    SessionState,
};
pub use services::{BytestreamActivation, UploadSlot};
pub(crate) use stream_fault::StreamFault;
pub use voicemail::{Voicemail, VoicemailPage, VoicemailReply, VoicemailRequest, VoicemailSound};

/// The number under which an answer of the store finds its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// An order of the host to the shard that drives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The answer to `handle_bind` or `handle_resume`.
    Bound {
        /// The connection.
        edge: ConnectionId,
        /// The outcome.
        bound: Bound,
    },
    /// Stanzas and other elements for a client, in order.
    Deliver {
        /// The connection.
        edge: ConnectionId,
        /// The element.
        element: Element,
    },
    /// A message of a client with stream management is delivered or stored (XEP-0198 §4); the host got it at that time.
    Handled(Instant),
    /// Answered by `handle_drained`, once the connection has written what it was given before.
    Flush {
        /// The connection.
        edge: ConnectionId,
    },
    /// A stream error of this condition, and the end of the connection.
    Close {
        /// The connection.
        edge: ConnectionId,
        /// The condition of the stream error (RFC 6120 §4.9.3).
        condition: &'static str,
        /// The application-specific condition beside it (RFC 6120 §4.9.4).
        detail: Option<Box<Element>>,
    },
    /// Into `handle_routed` of the host that owns `to`, this one perhaps, or to another server.
    Route(Box<Element>),
    /// For applications outside that are to have it.
    Event(Box<super::webhooks::WebhookEvent>),
    /// Answered by `handle_store_reply`.
    Load {
        /// The number of the request.
        ticket: Ticket,
        /// The read.
        load: Load,
    },
    /// A write to the store. Answered by `handle_store_reply`.
    Change {
        /// The number of the request.
        ticket: Ticket,
        /// The write.
        change: Change,
    },
    /// Into `befriend` of the host that owns `user`.
    Befriend {
        /// The account.
        user: Bare,
        /// The account that becomes a contact.
        contact: Bare,
    },
    /// A change of accounts or invitations. Answered by `handle_store_reply`.
    Access {
        /// The number of the request.
        ticket: Ticket,
        /// The change.
        access: Access,
    },
    /// A text for all phones of an account, sent at `at`. Answered by `handle_store_reply`: `Done` when one has taken them,
    /// `NotFound` when none is there or takes such, `Unavailable` when none answered.
    Text {
        /// The number of the request.
        ticket: Ticket,
        /// The sender.
        from: Bare,
        /// The account of the phones.
        to: Bare,
        /// The text.
        body: Box<str>,
        /// The time at which the text was sent.
        at: Instant,
    },
    /// `handle_phone` tells how it is with this account's phones, as it does of all accounts when that changes.
    AskPhone {
        /// The account.
        user: Bare,
    },
    /// The account's presence in chat may have changed for watchers from phones: `shown` returns it.
    Show {
        /// The account.
        user: Bare,
    },
    /// The answer to `PhoneEvent::Watch`.
    Consent {
        /// The id of the query.
        id: u64,
        /// The account lets the watcher see its presence.
        is_given: bool,
    },
    /// The answer to `PhoneEvent::Message`.
    PhoneMessageOutcome {
        /// The id of the message.
        id: u64,
        /// The outcome.
        outcome: PhoneMessageOutcome,
    },
}

/// A read of the store. Each is of one account, room or service.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// `StoreReply::User`; `None` for an unknown account.
    User {
        /// The account.
        user: Bare,
    },
    /// A page of a node: `StoreReply::Items`.
    Items {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
        /// The items of the page.
        query: Box<ItemQuery>,
    },
    /// The names of an owner's nodes with their configuration, of those after that name: a page, `StoreReply::Rows`.
    Nodes {
        /// The account or service.
        owner: Bare,
        /// The name after which the page begins.
        after: Option<Box<str>>,
    },
    /// A page of those after that id, or these: `StoreReply::Stanzas`, the oldest first.
    Offline {
        /// The account.
        user: Bare,
        /// The id after which the page begins.
        after: u64,
        /// The ids of the messages; empty: all.
        ids: Vec<u64>,
    },
    /// `StoreReply::Page`.
    Archive {
        /// The account or room.
        owner: Bare,
        /// The query.
        query: Box<MamQuery>,
    },
    /// Calls of an account that have ended, from the records of the whole farm: `StoreReply::Calls`.
    Calls {
        /// The account.
        user: Bare,
        /// The page.
        query: CallHistoryQuery,
    },
    /// A request about the voicemail of an account: `StoreReply::Voicemail`.
    Voicemail {
        /// The account.
        user: Bare,
        /// The request.
        request: VoicemailRequest,
    },
    /// `StoreReply::Room`; `None` where there is none.
    Room {
        /// The address of the room.
        room: Bare,
    },
    /// A place for a file that a user may upload, once: `StoreReply::Slot`. Names and types are checked; the name is for the
    /// address, and where the file is kept has nothing of it.
    Slot {
        /// The account.
        user: Bare,
        /// The name of the file.
        name: Box<str>,
        /// The size of the file in bytes.
        size: u64,
        /// The media type of the file.
        kind: Box<str>,
    },
    /// Bytes of a transfer whose ends are both connected to the proxy flow from now on: `StoreReply::Activated`.
    Activate(Box<BytestreamActivation>),
    /// An administrator's command about accounts, with the effect of the operator's: `StoreReply::Accounts`.
    Accounts(Box<Accounts>),
    /// For all hosts of the server: each performs it (`Host::act`), and `StoreReply::HostActionResult` has the sum (`HostActionResult::merge`).
    Act(Box<HostAction>),
    /// Accounts of this host whose messages wait: `StoreReply::Users`.
    Waiting,
    /// Rooms of a service, listed or not, of those after that address: a page, `StoreReply::Rows`.
    Rooms {
        /// The domain of the service.
        domain: Box<str>,
        /// The address after which the page begins.
        after: Option<Box<str>>,
    },
    /// Nothing: one address has too many reads under way. Answered with `StoreFailure::Unavailable`.
    TooMany,
}

impl Load {
    /// The account whose sessions may wait for the reply.
    pub(super) fn account(&self) -> Option<&Bare> {
        match self {
            Load::User { user }
            | Load::Offline { user, .. }
            | Load::Slot { user, .. }
            | Load::Calls { user, .. }
            | Load::Voicemail { user, .. } => Some(user),
            Load::Items { owner, .. } | Load::Nodes { owner, .. } | Load::Archive { owner, .. } => {
                Some(owner)
            }
            Load::Room { .. }
            | Load::Accounts(_)
            | Load::Act(_)
            | Load::Activate(_)
            | Load::Waiting
            | Load::Rooms { .. }
            | Load::TooMany => None,
        }
    }

    /// True for a read of up to a page for one client. A node or room has one read at a time for all its
    /// clients; it must not wait for other reads of one of them.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Load::Items { .. }
            | Load::Offline { .. }
            | Load::Archive { .. }
            | Load::Calls { .. }
            | Load::Voicemail { .. } => true,
            Load::User { .. }
            | Load::Nodes { .. }
            | Load::Room { .. }
            | Load::Rooms { .. }
            | Load::Slot { .. }
            | Load::Activate(_)
            | Load::Accounts(_)
            | Load::Act(_)
            | Load::Waiting
            | Load::TooMany => false,
        }
    }
}

impl Change {
    /// As [`Load::account`].
    pub(super) fn account(&self) -> Option<&Bare> {
        match self {
            Change::Roster { user, .. }
            | Change::Blocked { user, .. }
            | Change::LastSeen { user, .. }
            | Change::Offline { user, .. }
            | Change::ForgetOffline { user, .. } => Some(user),
            Change::Archive { owner, .. }
            | Change::Item { owner, .. }
            | Change::Node { owner, .. }
            | Change::Purge { owner, .. } => Some(owner),
            Change::Room { .. } => None,
        }
    }
}

impl Access {
    /// As [`Load::account`].
    pub(super) fn account(&self) -> Option<&Bare> {
        match self {
            Access::Password { user, .. } | Access::Remove { user } => Some(user),
            Access::Invite { .. } | Access::Invitation { .. } | Access::UseInvitation { .. } => None,
        }
    }
}

/// A write to the store. A change is performed whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Writes a contact; `None` removes it. `version` is the roster's afterwards.
    Roster {
        /// The account.
        user: Bare,
        /// The address of the contact.
        contact: Bare,
        /// The contact.
        item: Option<RosterItem>,
        /// The version of the roster.
        version: u64,
    },
    /// Writes the blocking list as a whole.
    Blocked {
        /// The account.
        user: Bare,
        /// The blocked addresses.
        blocked: Vec<Jid>,
    },
    /// Writes the time at which the last session ended, and its last words.
    LastSeen {
        /// The account.
        user: Bare,
        /// The time at which the last session ended.
        at: Instant,
        /// The `<status/>` of its last presence.
        status: Box<str>,
    },
    /// Stores a message until the user is back.
    Offline {
        /// The account.
        user: Bare,
        /// The time at which the message came.
        at: Instant,
        /// The message.
        stanza: Box<Element>,
    },
    /// Removes messages that waited: those of these ids; all when there are none.
    ForgetOffline {
        /// The account.
        user: Bare,
        /// The ids of the messages.
        ids: Vec<u64>,
    },
    /// Writes a message into an archive, or another stanza in the place of the one with this id. `with` is the other party. Ids sort by time.
    Archive {
        /// The account or room.
        owner: Bare,
        /// The id of the message.
        id: Box<str>,
        /// The other party.
        with: Jid,
        /// The time of the message.
        at: Instant,
        /// The message.
        stanza: Box<Element>,
    },
    /// Writes a node's item: PEP, pubsub, private data (`private:NAMESPACE`), the vCard (`vcard-temp`). Keeps the newest
    /// `keep`; `None` removes.
    Item {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
        /// The id of the item.
        id: Box<str>,
        /// The item.
        item: Option<Box<Element>>,
        /// The time of the change.
        at: Instant,
        /// The number of items that the node keeps.
        keep: u32,
    },
    /// Writes a node's configuration; `None` removes the node with its items.
    Node {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
        /// The configuration.
        config: Option<Box<Element>>,
    },
    /// Removes all items of a node; its configuration stays.
    Purge {
        /// The account or service.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
    },
    /// Writes a room; `None` removes it with its history. A new one counts as one of those that `charged` has made: an account of ours, or
    /// a foreign domain. `StoreFailure::Beyond`: there are too many.
    Room {
        /// The address of the room.
        room: Bare,
        /// The configuration with the affiliations.
        config: Option<Box<Element>>,
        /// The account or domain that makes the room.
        charged: Option<Box<str>>,
    },
}

/// A change by users of credentials, accounts and invitations.
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// Sets the password: `StoreReply::Done`.
    Password {
        /// The account.
        user: Bare,
        /// The new password.
        password: Secret,
    },
    /// Removes the account and all that is its: `StoreReply::Done`.
    Remove {
        /// The account.
        user: Bare,
    },
    /// Stores an invitation, whose token is good for one use: `StoreReply::Done`; `Unavailable` when there are too many of one user.
    Invite {
        /// The token of the invitation.
        token: Box<str>,
        /// The invitation.
        invitation: Box<Invitation>,
    },
    /// Reads an invitation: `StoreReply::Invitation`.
    Invitation {
        /// The token of the invitation.
        token: Box<str>,
    },
    /// Uses an invitation up: `StoreReply::Done`, or `NotFound` when it is used already.
    UseInvitation {
        /// The token of the invitation.
        token: Box<str>,
        /// The account that invited.
        inviter: Bare,
    },
}

/// An invitation (XEP-0401): to make an account, to become a contact, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The domain of the account to be made.
    pub domain: Box<str>,
    /// The only name that an account may be made of.
    pub name: Option<Box<str>>,
    /// The account that becomes a contact of the account that uses it.
    pub inviter: Option<Bare>,
    /// An account may be made by it.
    pub registers: bool,
    /// The time at which the invitation expires.
    pub expires_at: Instant,
}

/// One contact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterItem {
    /// The name that the user gave the contact.
    pub name: Option<Box<str>>,
    /// The subscriptions between the user and the contact.
    pub subscription: Subscription,
    /// The user has asked for the contact's presence and has no answer.
    pub ask: bool,
    /// The user has approved the contact's request before it came (RFC 6121 §3.4).
    pub approved: bool,
    /// The contact has asked for the user's presence and has no answer: its stanza (RFC 6121 §3.1.3). Such a contact need not be listed.
    pub asked: Option<Box<Element>>,
    /// Clients see it in the roster: the user has put it there, or has answered its request. Others are only kept for `asked`.
    pub is_listed: bool,
    /// The groups of the contact.
    pub groups: Vec<Box<str>>,
    /// The roster's version when it changed last.
    pub version: u64,
}

/// The directions in which presence is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subscription {
    /// No subscription.
    #[default]
    None,
    /// The user sees the contact's presence.
    To,
    /// The contact sees the user's presence.
    From,
    /// Each sees the presence of the other.
    Both,
}

impl Subscription {
    /// The value of the `subscription` attribute (RFC 6121 §2.1.2.5).
    pub fn as_str(self) -> &'static str {
        match self {
            Subscription::None => "none",
            Subscription::To => "to",
            Subscription::From => "from",
            Subscription::Both => "both",
        }
    }

    /// Finds the state by the value of the attribute.
    pub fn parse(name: &str) -> Option<Subscription> {
        let all = [Subscription::None, Subscription::To, Subscription::From, Subscription::Both];
        all.into_iter().find(|known| known.as_str() == name)
    }

    /// True if the user sees the contact's presence.
    pub fn has_to(self) -> bool {
        matches!(self, Subscription::To | Subscription::Both)
    }

    /// True if the contact sees the user's presence.
    pub fn has_from(self) -> bool {
        matches!(self, Subscription::From | Subscription::Both)
    }

    /// The subscription with these two directions.
    pub fn new(to: bool, from: bool) -> Subscription {
        match (to, from) {
            (false, false) => Subscription::None,
            (true, false) => Subscription::To,
            (false, true) => Subscription::From,
            (true, true) => Subscription::Both,
        }
    }
}

/// The data of an account that a host needs while sessions exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountData {
    /// The contacts.
    pub roster: Vec<(Bare, RosterItem)>,
    /// The version of the roster (RFC 6121 §2.6).
    pub roster_version: u64,
    /// The blocked addresses (XEP-0191).
    pub blocked: Vec<Jid>,
    /// The time at which the last session ended, and the `<status/>` of its last presence.
    pub last_seen: Option<(Instant, Box<str>)>,
    /// Messages that wait.
    pub offline: u32,
    /// The nodes of `user::NODES` that have an item, with the newest.
    pub items: Vec<(Box<str>, Element)>,
    /// The greatest id of the archive.
    pub last_archived: Option<Box<str>>,
}

/// The store's answer to a read or a change.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreReply {
    /// A change was performed.
    Done,
    /// The data of an account; `None`: there is no such account.
    User(Option<Box<AccountData>>),
    /// Items of a node.
    Items(ItemPage),
    /// Rows of a list.
    Rows(RowPage),
    /// Messages that wait.
    Stanzas(StanzaPage),
    /// Messages of an archive.
    Page(MamPage),
    /// Calls of an account.
    Calls(CallHistoryPage),
    /// The answer to a request about voicemail.
    Voicemail(VoicemailReply),
    /// The configuration of a room; `None`: there is no such room.
    Room(Option<Box<Element>>),
    /// A place for a file.
    Slot(Box<UploadSlot>),
    /// The outcome of the activation of a transfer.
    Activated(Result<(), ActivationFault>),
    /// The result of all hosts.
    HostActionResult(HostActionResult),
    /// Accounts.
    Users(Vec<Bare>),
    /// The outcome of a command about accounts.
    Accounts(Result<AccountList, AccountRefusal>),
    /// `None`: there is none, or it is used.
    Invitation(Option<Box<Invitation>>),
}

/// The store could not be read or written, or the change is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// Full, busy, broken: try later.
    Unavailable,
    /// There is no such account, room or item.
    NotFound,
    /// Too large, or one too many: a limit of the store.
    Beyond,
}
