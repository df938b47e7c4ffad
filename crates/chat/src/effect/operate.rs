//! Commands of administrators and of the operator, which concern all hosts of a server, and their results.

use muc::RoomListing;
use stdx::Instant;
use xmpp::sasl::Secret;
use xmpp::{Bare, ConnectionId, Element, Jid};

/// An administrator's command about accounts. An unknown account is `StoreFailure::NotFound`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accounts {
    /// Makes an account.
    Add {
        /// The address.
        user: Bare,
        /// The password.
        password: Secret,
        /// The name of the user.
        name: Box<str>,
    },
    /// Sets the password of an account.
    Password {
        /// The account.
        user: Bare,
        /// The new password.
        password: Secret,
    },
    /// Disables or enables an account.
    Disable {
        /// The account.
        user: Bare,
        /// Disables the account; else enables it.
        disabled: bool,
    },
    /// Removes an account.
    Remove {
        /// The account.
        user: Bare,
    },
    /// Lists the accounts of a domain, all or the disabled ones; `max` of them are named.
    List {
        /// The domain.
        domain: Box<str>,
        /// Only disabled accounts.
        is_disabled: bool,
        /// The most accounts that are named.
        max: u32,
    },
}

/// A page of a list of accounts, and the number of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountList {
    /// The number of accounts that match.
    pub total: u64,
    /// The accounts of the page.
    pub accounts: Vec<Bare>,
}

/// The reason for which an account was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountRefusal {
    /// The account exists already.
    Exists,
    /// A name or password that breaks a rule, in words.
    Invalid(Box<str>),
}

/// An action of administrators on the whole server.
#[derive(Clone, Debug, PartialEq)]
pub enum HostAction {
    /// Counts users of a domain that have an available session, and names so many of them.
    Online {
        /// The domain of the users.
        domain: Box<str>,
        /// The users that count.
        filter: OnlineFilter,
        /// The most users that are named.
        max: u32,
    },
    /// Sends a message to each available session of a domain.
    Announce {
        /// The domain of the users.
        domain: Box<str>,
        /// The message.
        message: Box<Element>,
    },
    /// Ends sessions of these accounts, or these sessions.
    End {
        /// Addresses of accounts or sessions.
        jids: Vec<Jid>,
    },
    /// Puts the message of the day into memory; it is in the store already.
    Motd {
        /// The domain of the users.
        domain: Box<str>,
        /// The message of the day; `None`: there is none any more.
        message: Option<Box<Element>>,
    },
    /// The rooms of a service that are in memory.
    Rooms {
        /// The domain of the service.
        domain: Box<str>,
    },
    /// Describes sessions, available or not: of this account or session, or of all.
    Sessions {
        /// The address of an account or session; `None`: all sessions.
        jid: Option<Jid>,
        /// The most sessions that are described.
        max: u32,
    },
    /// Describes the rooms of a service that are in memory.
    DescribeRooms {
        /// The domain of the service.
        domain: Box<str>,
    },
    /// Takes an account that was removed out of the rooms and nodes in memory.
    Departed {
        /// The account that was removed.
        user: Bare,
    },
    /// The server ends: occupants are told so.
    CloseRooms,
}

/// The users that count as online. XEP-0133 §4.16 has active and idle ones: a user is idle when all of its sessions say that they are away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnlineFilter {
    /// All users with an available session.
    All,
    /// Users with a session that is neither `away` nor `xa`.
    Active,
    /// Users whose sessions are all `away` or `xa`.
    Idle,
}

/// The result of an operator's action on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostActionResult {
    /// The users that are named.
    pub users: Vec<Bare>,
    /// Users or sessions that it is about.
    pub count: u64,
    /// Rooms in memory by their addresses; `None`: the room is hidden, and taken out of the list.
    pub rooms: Vec<(Box<str>, Option<RoomListing>)>,
    /// The sessions that are described.
    pub described: Vec<SessionState>,
    /// The rooms that are described.
    pub described_rooms: Vec<RoomState>,
    /// Says which nodes of a farm have no part in the result; none if all have.
    pub missing: Option<Box<str>>,
}

/// One session, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// The full address.
    pub jid: Jid,
    /// The time at which the client signed in.
    pub began: Instant,
    /// `None`: it has lost its connection and may come back.
    pub edge: Option<ConnectionId>,
    /// `None`: it is not available.
    pub priority: Option<i8>,
    /// The `<show/>` of its presence: `away`, `dnd`, nothing.
    pub show: Box<str>,
    /// The program, as its abilities name it (XEP-0115 `node`).
    pub client: Box<str>,
    /// It can be resumed (XEP-0198).
    pub is_resumable: bool,
}

/// One room that is in memory, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomState {
    /// The address.
    pub address: Bare,
    /// The name of the room.
    pub name: Box<str>,
    /// The number of occupants.
    pub occupants: u64,
    /// The room stays when its last occupant leaves.
    pub is_persistent: bool,
    /// The service's list shows it (XEP-0045 `muc_public`).
    pub is_listed: bool,
}
