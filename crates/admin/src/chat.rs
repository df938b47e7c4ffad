//! What operators ask of chat, by command or by REST, and what they are answered.

use serde::{Deserialize, Serialize};

/// Addresses are whole: `alice@example.net`, `tea@conference.example.net`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Who is signed in: all, an account, or one session.
    Sessions {
        who: Option<String>,
    },
    /// Ends an account's sessions, or one.
    End {
        who: String,
    },
    /// To everybody who is here in a domain.
    Announce {
        domain: String,
        text: Text,
    },
    /// From the server to an account; kept if nobody is here.
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
    /// Of a domain's rooms, those in lists and those that are not.
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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    pub subject: String,
    pub body: String,
}

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

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub address: String,
    /// `None`: it is not available.
    pub priority: Option<i8>,
    /// `away`, `chat`, `dnd`, `xa`, or nothing.
    pub show: String,
    /// Seconds since the Unix epoch.
    pub since: u64,
    /// Where it connects from; empty: it has lost its connection, and may come back.
    pub from: String,
    /// `tcp`, `tls`, `ws` or `wss`.
    pub transport: String,
    /// The program, when it tells.
    pub client: String,
    pub resumable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub address: String,
    pub name: String,
    pub occupants: u64,
    pub persistent: bool,
    pub listed: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomDetails {
    pub address: String,
    /// Names of XEP-0045 without `muc#roomconfig_`, and their values.
    pub config: Vec<(String, String)>,
    pub affiliations: Vec<Affiliated>,
    pub occupants: Vec<Occupant>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affiliated {
    pub user: String,
    pub affiliation: String,
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    pub nick: String,
    pub address: String,
    pub role: String,
}

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
