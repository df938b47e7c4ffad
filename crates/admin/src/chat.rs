//! The requests that operators make of chat, by command or by REST, and their answers.

use serde::{Deserialize, Serialize};

/// Addresses are whole: `alice@example.net`, `tea@conference.example.net`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Lists signed-in sessions: all, those of an account, or one.
    Sessions {
        who: Option<String>,
    },
    /// Ends an account's sessions, or one.
    End {
        who: String,
    },
    /// Sends a message to every session that is online in a domain.
    Announce {
        domain: String,
        text: Text,
    },
    /// Sends a message from the server to an account; it is kept if the account has no session.
    Message {
        to: String,
        text: Text,
    },
    Motd {
        domain: String,
    },
    SetMotd {
        domain: String,
        text: Text,
    },
    ClearMotd {
        domain: String,
    },
    /// Lists a domain's rooms, public and hidden.
    Rooms {
        domain: String,
    },
    Room {
        room: String,
    },
    MakeRoom {
        room: String,
        name: String,
        owner: Option<String>,
    },
    DestroyRoom {
        room: String,
        reason: String,
    },
    /// `owner`, `admin`, `member`, `none` or `outcast`.
    Affiliation {
        room: String,
        user: String,
        affiliation: String,
        reason: String,
    },
    KickOccupant {
        room: String,
        nick: String,
        reason: String,
    },
    User {
        user: String,
    },
    ClearOffline {
        user: String,
    },
    Roster {
        user: String,
    },
    SetContact {
        user: String,
        contact: String,
        name: String,
        groups: Vec<String>,
    },
    RemoveContact {
        user: String,
        contact: String,
    },
}

/// The words of a message or announcement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    pub subject: String,
    pub body: String,
}

/// The answer to an operator's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// `total` is more when the list was too long.
    Sessions {
        sessions: Vec<Session>,
        total: u64,
    },
    /// Sessions that it was about.
    Count(u64),
    Motd(Option<Text>),
    Rooms(Vec<Room>),
    Room(Box<RoomDetails>),
    User(User),
    Roster(Vec<Contact>),
    Done,
}

/// A signed-in session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub address: String,
    /// `None`: it is not available.
    pub priority: Option<i8>,
    /// `away`, `chat`, `dnd`, `xa`, or nothing.
    pub show: String,
    /// Seconds since the Unix epoch.
    pub since: u64,
    /// The client's address; empty: the session has lost its connection, and may be resumed.
    pub from: String,
    /// `tcp`, `tls`, `ws` or `wss`.
    pub transport: String,
    /// The program, when it tells.
    pub client: String,
    pub resumable: bool,
}

/// A room, as lists show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub address: String,
    pub name: String,
    pub occupants: u64,
    pub persistent: bool,
    pub listed: bool,
}

/// A room with its configuration, affiliations and occupants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomDetails {
    pub address: String,
    /// Names of XEP-0045 without `muc#roomconfig_`, and their values.
    pub config: Vec<(String, String)>,
    pub affiliations: Vec<Affiliated>,
    pub occupants: Vec<Occupant>,
}

/// A user and its affiliation with a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affiliated {
    pub user: String,
    pub affiliation: String,
    pub reason: String,
}

/// An occupant of a room, with its real address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    pub nick: String,
    pub address: String,
    pub role: String,
}

/// An account, as chat knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub address: String,
    pub sessions: u64,
    pub contacts: u64,
    pub blocked: Vec<String>,
    /// Messages that wait.
    pub offline: u64,
    pub archived: u64,
    /// Seconds since the Unix epoch; `None`: never, or now.
    pub last_seen: Option<u64>,
}

/// A contact of an account's roster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    pub address: String,
    pub name: String,
    /// `none`, `to`, `from` or `both`.
    pub subscription: String,
    /// Asked, and not answered yet.
    pub pending: bool,
    pub groups: Vec<String>,
}
