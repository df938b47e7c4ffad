//! The requests that operators make of chat, by command or by REST, and their answers.

use serde::{Deserialize, Serialize};

/// Addresses are whole: `alice@example.net`, `tea@conference.example.net`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Lists signed-in sessions: all, those of an account, or one.
    Sessions {
        /// An account's bare address or a session's full one; all sessions when `None`.
        who: Option<String>,
        /// Sessions that are listed at most, the first by their addresses; as many as fit into one answer when `None`, and at a node of an
        /// earlier version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<u32>,
    },
    /// Ends an account's sessions, or one.
    End {
        /// An account's bare address or a session's full one.
        who: String,
    },
    /// Counts the users of a domain that have an available session, and names some of them (XEP-0133 §4.15 to §4.22).
    Online {
        /// A served domain.
        domain: String,
        /// `all`, `active` or `idle` users (XEP-0133 §4.16).
        filter: String,
        /// The most users that are named.
        max: u32,
    },
    /// Sends a message to every session that is online in a domain.
    Announce {
        /// A served domain.
        domain: String,
        /// Subject and body of the message.
        text: Text,
    },
    /// Sends a message from the server to an account; it is kept if the account has no session.
    Message {
        /// The bare address of an account.
        to: String,
        /// Subject and body of the message.
        text: Text,
    },
    /// Reads the message of the day (XEP-0133 §4.25 shows it before a change).
    Motd {
        /// A served domain.
        domain: String,
    },
    /// Sets the message of the day: sessions that come online get it once (XEP-0133 §4.24).
    SetMotd {
        /// A served domain.
        domain: String,
        /// The message of the day.
        text: Text,
    },
    /// Removes the message of the day (XEP-0133 §4.26).
    ClearMotd {
        /// A served domain.
        domain: String,
    },
    /// Lists a domain's rooms, public and hidden.
    Rooms {
        /// A served domain, or its domain of rooms.
        domain: String,
    },
    /// Shows a room with its configuration, affiliations and occupants.
    Room {
        /// The room's bare address.
        room: String,
    },
    /// Creates a persistent room (XEP-0045 §10.1).
    MakeRoom {
        /// The room's bare address.
        room: String,
        /// `muc#roomconfig_roomname`; empty for none.
        name: String,
        /// The bare address of its owner.
        owner: Option<String>,
    },
    /// Destroys a room (XEP-0045 §10.9).
    DestroyRoom {
        /// The room's bare address.
        room: String,
        /// Shown to the occupants; may be empty.
        reason: String,
    },
    /// `owner`, `admin`, `member`, `none` or `outcast`.
    Affiliation {
        /// The room's bare address.
        room: String,
        /// The bare address of the user whose affiliation changes.
        user: String,
        /// The new affiliation (XEP-0045 §5.2).
        affiliation: String,
        /// Shown to the user; may be empty.
        reason: String,
    },
    /// Removes an occupant, which may enter again (XEP-0045 §8.2).
    KickOccupant {
        /// The room's bare address.
        room: String,
        /// The occupant's nickname.
        nick: String,
        /// Shown to the occupants; may be empty.
        reason: String,
    },
    /// Shows what is kept for an account in chat.
    User {
        /// The bare address of an account.
        user: String,
    },
    /// Deletes the messages that wait for an account.
    ClearOffline {
        /// The bare address of an account.
        user: String,
    },
    /// Lists the contacts of an account (RFC 6121 §2).
    Roster {
        /// The bare address of an account.
        user: String,
    },
    /// Adds a contact to a roster or changes its name and groups (RFC 6121 §2.3).
    SetContact {
        /// The bare address of the roster's owner.
        user: String,
        /// The bare address of the contact.
        contact: String,
        /// The name in the roster; empty for none.
        name: String,
        /// The groups of the contact; they replace those that it has.
        groups: Vec<String>,
    },
    /// Removes a contact and both subscriptions (RFC 6121 §2.5).
    RemoveContact {
        /// The bare address of the roster's owner.
        user: String,
        /// The bare address of the contact.
        contact: String,
    },
}

/// The words of a message or announcement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The `<subject/>` of the message; empty for none.
    pub subject: String,
    /// The `<body/>` of the message.
    pub body: String,
}

/// The answer to an operator's request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// `total` is more when the list was too long.
    Sessions {
        /// Sessions, at most as many as fit into one answer.
        sessions: Vec<Session>,
        /// Sessions that match.
        total: u64,
        /// Connections of the asked node whose sessions another node of the farm has.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        connections: Vec<Connection>,
    },
    /// Sessions that it was about.
    Count(u64),
    /// The answer to [`Ask::Online`].
    Users {
        /// The bare addresses of some of them.
        users: Vec<String>,
        /// The number of all.
        total: u64,
    },
    /// The message of the day; `None` if none is set.
    Motd(Option<Text>),
    /// The rooms of a domain.
    Rooms(Vec<Room>),
    /// One room.
    Room(Box<RoomDetails>),
    /// One account.
    User(User),
    /// The contacts of one account.
    Roster(Vec<Contact>),
    /// The request has taken effect; it has no other result.
    Done,
}

/// A signed-in session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The full address.
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
    /// True if the client may resume it (XEP-0198 §5).
    pub resumable: bool,
    /// The connection of the session in the farm, as [`Connection::id`]; empty: it has lost its connection.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub connection: String,
}

/// A client's connection, at the node of a farm that accepted it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The connection: no other of the farm has the same text.
    pub id: String,
    /// The client's address.
    pub from: String,
    /// `tcp`, `tls`, `ws` or `wss`.
    pub transport: String,
}

/// A room, as lists show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// The bare address.
    pub address: String,
    /// `muc#roomconfig_roomname`; may be empty.
    pub name: String,
    /// Occupants at this time.
    pub occupants: u64,
    /// True if the room stays when its last occupant leaves.
    pub persistent: bool,
    /// True if service discovery lists it (`muc#roomconfig_publicroom`).
    pub listed: bool,
}

/// A room with its configuration, affiliations and occupants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomDetails {
    /// The bare address.
    pub address: String,
    /// Names of XEP-0045 without `muc#roomconfig_`, and their values.
    pub config: Vec<(String, String)>,
    /// Users with an affiliation other than `none`.
    pub affiliations: Vec<Affiliated>,
    /// Users in the room.
    pub occupants: Vec<Occupant>,
}

/// A user and its affiliation with a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affiliated {
    /// The bare address.
    pub user: String,
    /// `owner`, `admin`, `member` or `outcast`.
    pub affiliation: String,
    /// The reason that was given with it; may be empty.
    pub reason: String,
}

/// An occupant of a room, with its real address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupant {
    /// The nickname.
    pub nick: String,
    /// The full address of the session.
    pub address: String,
    /// `moderator`, `participant` or `visitor` (XEP-0045 §5.1).
    pub role: String,
}

/// An account, as chat knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The bare address.
    pub address: String,
    /// Signed-in sessions.
    pub sessions: u64,
    /// Contacts in the roster.
    pub contacts: u64,
    /// Blocked addresses (XEP-0191).
    pub blocked: Vec<String>,
    /// Messages that wait.
    pub offline: u64,
    /// Messages in the archive (XEP-0313).
    pub archived: u64,
    /// Seconds since the Unix epoch; `None`: never, or now.
    pub last_seen: Option<u64>,
}

/// A contact of an account's roster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The bare address.
    pub address: String,
    /// The name in the roster; may be empty.
    pub name: String,
    /// `none`, `to`, `from` or `both`.
    pub subscription: String,
    /// Asked, and not answered yet.
    pub pending: bool,
    /// The groups of the roster that the contact is in.
    pub groups: Vec<String>,
}
