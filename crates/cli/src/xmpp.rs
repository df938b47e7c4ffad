//! `belfry xmpp`: what a running node has of chat.
//!
//! Each command becomes one question of `admin::chat` ([`ChatCommand`]'s `ask`), which the node answers from its memory and the database, and each
//! answer has a printer here. Questions that concern all nodes of a farm (`Request::concerns_all_nodes`) go to all unless `--this-node` is given.

use std::io::{self, Write as _};

use admin::chat::{Answer, Ask, Contact, Room, RoomDetails, Session, Text, User};
use clap::{Args, Subcommand};
use config::Config;
use control::{Client, Request, Response};
use net::clock::Clock;

use super::account::address;
use super::error::CliError;
use super::invite::InviteArgs;
use super::nodes::{say_nodes, warn_of_missing};
use super::table::{Table, date, elapsed, grouped, printable};

#[derive(Debug, Subcommand)]
pub(super) enum XmppCommand {
    #[command(flatten)]
    Chat(ChatCommand),
    /// Make a link for creating an account
    Invite(InviteArgs),
}

impl XmppCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        match self {
            XmppCommand::Chat(command) => command.run(config),
            XmppCommand::Invite(args) => args.run(config),
        }
    }
}

/// USER is user@domain, or user in the default domain; ROOM is room@conference.domain, or room in the default domain.
#[derive(Debug, Subcommand)]
pub(super) enum ChatCommand {
    /// Sessions of signed-in users
    Sessions {
        /// Only those of this account [default: of all]
        #[arg(long)]
        user: Option<String>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// End the sessions of an account, or one session: user@domain/resource
    Kick {
        /// user@domain for all its sessions, user@domain/resource for one
        address: String,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Send an account a message from the server; it is kept while the account is offline
    Message {
        /// user@domain, or user in the default domain
        user: String,
        #[command(flatten)]
        text: TextArgs,
    },
    /// Send a message to all signed-in users
    Announce {
        #[command(flatten)]
        text: TextArgs,
        /// A domain served here [default: the default domain]
        #[arg(long)]
        domain: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// The message that users get when they sign in
    #[command(subcommand)]
    Motd(MotdCommand),
    /// Rooms of a domain
    Rooms {
        /// A domain served here [default: the default domain]
        domain: Option<String>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// One room
    #[command(subcommand)]
    Room(RoomCommand),
    /// Chat data of one account
    #[command(subcommand)]
    User(UserCommand),
    /// An account's contacts
    Roster {
        /// user@domain, or user in the default domain
        user: String,
        #[command(subcommand)]
        command: RosterCommand,
    },
}

#[derive(Debug, Args)]
pub(super) struct ScopeArgs {
    /// Only at this node of a farm
    #[arg(long, alias = "node")]
    this_node: bool,
}

#[derive(Debug, Args)]
pub(super) struct TextArgs {
    /// Shown above the text [default: none]
    #[arg(long, default_value = "", hide_default_value = true)]
    subject: String,
    /// The message
    text: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum MotdCommand {
    /// The message as it is set
    Show {
        /// A domain served here [default: the default domain]
        #[arg(long)]
        domain: Option<String>,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// From now on; users who are signed in already do not get it
    Set {
        #[command(flatten)]
        text: TextArgs,
        /// A domain served here [default: the default domain]
        #[arg(long)]
        domain: Option<String>,
    },
    /// No message any more
    Clear {
        /// A domain served here [default: the default domain]
        #[arg(long)]
        domain: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum RoomCommand {
    /// Configuration, affiliations and occupants
    Show {
        /// room@conference.domain, or room in the default domain
        room: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a room that stays
    Create {
        /// room@conference.domain, or room in the default domain
        room: String,
        /// Name shown in lists [default: none]
        #[arg(long, default_value = "", hide_default_value = true)]
        name: String,
        /// The account that owns the room [default: none; only the operator manages it]
        #[arg(long)]
        owner: Option<String>,
    },
    /// End a room and forget what was said there
    Destroy {
        /// room@conference.domain, or room in the default domain
        room: String,
        /// Reason that the occupants are shown [default: none]
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Set a user's affiliation with a room: outcast bans, none takes all back
    Affiliation {
        /// room@conference.domain, or room in the default domain
        room: String,
        /// user@domain, or user in the default domain
        user: String,
        /// The user's new affiliation
        #[arg(value_parser = ["owner", "admin", "member", "none", "outcast"])]
        affiliation: String,
        /// Reason that a banned user is shown [default: none]
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Remove an occupant from a room; the occupant may come back
    Kick {
        /// room@conference.domain, or room in the default domain
        room: String,
        /// The occupant's nickname in the room
        nick: String,
        /// Reason that the occupant is shown [default: none]
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Sessions, contacts and messages that wait
    Show {
        /// user@domain, or user in the default domain
        user: String,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Forget the messages that wait for the account
    ClearOffline {
        /// user@domain, or user in the default domain
        user: String,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum RosterCommand {
    /// All contacts
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Add a contact, or change its name and groups
    Add {
        /// The contact's address, user@domain
        contact: String,
        /// Name that the account sees [default: none]
        #[arg(long, default_value = "", hide_default_value = true)]
        name: String,
        /// Group of the contact; may be repeated [default: none]
        #[arg(long = "group")]
        groups: Vec<String>,
    },
    /// Remove a contact
    Remove {
        /// The contact's address, user@domain
        contact: String,
    },
}

/// The form in which an answer is shown.
#[derive(Clone, Copy)]
enum Form {
    /// For people.
    Table,
    /// For programs: one object a line.
    Json,
}

impl From<bool> for Form {
    fn from(json: bool) -> Form {
        if json { Form::Json } else { Form::Table }
    }
}

impl ChatCommand {
    fn run(self, config: &Config) -> Result<(), CliError> {
        let is_for_farm = !self.is_for_this_node();
        let (ask, form) = self.ask(config)?;
        let done = if matches!(ask, Ask::End { .. }) { "ended" } else { "sent to" };
        let mut client = Client::connect(&config.server.control)?;
        let request = Request::Chat(ask);
        // Others, as those about one room, are passed to the owner by the node itself.
        let (response, nodes) = if is_for_farm && request.concerns_all_nodes() {
            client.ask_all_nodes(&request)?
        } else {
            (client.ask(&request)?, None)
        };
        let Response::Chat(answer) = response else { return Err(client.unexpected(&response).into()) };
        show(&answer, form, done)?;
        match form {
            Form::Table => say_nodes(nodes.as_ref()),
            Form::Json => {
                warn_of_missing(nodes.as_ref());
                Ok(())
            }
        }
    }

    /// True if the command is not for the other nodes of a farm.
    fn is_for_this_node(&self) -> bool {
        match self {
            ChatCommand::Sessions { scope, .. }
            | ChatCommand::Kick { scope, .. }
            | ChatCommand::Announce { scope, .. }
            | ChatCommand::Rooms { scope, .. } => scope.this_node,
            _ => false,
        }
    }

    /// The question, and the form of its answer.
    fn ask(self, config: &Config) -> Result<(Ask, Form), CliError> {
        let user = |text: &str| account(text, config);
        let domain = |domain: Option<String>| domain.unwrap_or_else(|| config.sip.default_domain.to_string());
        Ok(match self {
            ChatCommand::Sessions { user: name, json, .. } => {
                let who = name.map(|text| user(&text)).transpose()?;
                (Ask::Sessions { who, most: None }, json.into())
            }
            ChatCommand::Kick { address, .. } => (Ask::End { who: session(&address, config)? }, Form::Table),
            ChatCommand::Message { user: to, text } => {
                (Ask::Message { to: user(&to)?, text: text.into() }, Form::Table)
            }
            ChatCommand::Announce { text, domain: of, .. } => {
                (Ask::Announce { domain: domain(of), text: text.into() }, Form::Table)
            }
            ChatCommand::Motd(MotdCommand::Show { domain: of, json }) => {
                (Ask::Motd { domain: domain(of) }, json.into())
            }
            ChatCommand::Motd(MotdCommand::Set { text, domain: of }) => {
                (Ask::SetMotd { domain: domain(of), text: text.into() }, Form::Table)
            }
            ChatCommand::Motd(MotdCommand::Clear { domain: of }) => {
                (Ask::ClearMotd { domain: domain(of) }, Form::Table)
            }
            ChatCommand::Rooms { domain: of, json, .. } => (Ask::Rooms { domain: domain(of) }, json.into()),
            ChatCommand::Room(command) => command.ask(config)?,
            ChatCommand::User(UserCommand::Show { user: name, json }) => {
                (Ask::User { user: user(&name)? }, json.into())
            }
            ChatCommand::User(UserCommand::ClearOffline { user: name }) => {
                (Ask::ClearOffline { user: user(&name)? }, Form::Table)
            }
            ChatCommand::Roster { user: name, command } => command.ask(user(&name)?, config)?,
        })
    }
}

impl RoomCommand {
    fn ask(self, config: &Config) -> Result<(Ask, Form), CliError> {
        let at = |room: &str| room_address(room, config);
        Ok(match self {
            RoomCommand::Show { room, json } => (Ask::Room { room: at(&room) }, json.into()),
            RoomCommand::Create { room, name, owner } => {
                let owner = owner.map(|owner| account(&owner, config)).transpose()?;
                (Ask::MakeRoom { room: at(&room), name, owner }, Form::Table)
            }
            RoomCommand::Destroy { room, reason } => {
                (Ask::DestroyRoom { room: at(&room), reason }, Form::Table)
            }
            RoomCommand::Affiliation { room, user, affiliation, reason } => {
                let user = account(&user, config)?;
                (Ask::Affiliation { room: at(&room), user, affiliation, reason }, Form::Table)
            }
            RoomCommand::Kick { room, nick, reason } => {
                (Ask::KickOccupant { room: at(&room), nick, reason }, Form::Table)
            }
        })
    }
}

impl RosterCommand {
    fn ask(self, user: String, config: &Config) -> Result<(Ask, Form), CliError> {
        Ok(match self {
            RosterCommand::List { json } => (Ask::Roster { user }, json.into()),
            RosterCommand::Add { contact, name, groups } => {
                let contact = account(&contact, config)?;
                (Ask::SetContact { user, contact, name, groups }, Form::Table)
            }
            RosterCommand::Remove { contact } => {
                (Ask::RemoveContact { user, contact: account(&contact, config)? }, Form::Table)
            }
        })
    }
}

impl From<TextArgs> for Text {
    fn from(text: TextArgs) -> Text {
        Text { subject: text.subject, body: text.text }
    }
}

/// An account's address as chat writes it.
fn account(text: &str, config: &Config) -> Result<String, CliError> {
    address(text, config).map(|address| address.to_string())
}

/// An account, or one of its sessions.
fn session(text: &str, config: &Config) -> Result<String, CliError> {
    match text.split_once('/') {
        // Only the address is prepared: a resource may have any case and character.
        Some((user, resource)) => Ok(format!("{}/{resource}", account(user, config)?)),
        None => account(text, config),
    }
}

/// A room without a domain is one of the default domain's rooms service.
fn room_address(text: &str, config: &Config) -> String {
    let (rooms, domain) = (&config.xmpp.rooms, &config.sip.default_domain);
    // The node checks the domain, and says which one rooms have.
    if text.contains('@') { text.to_owned() } else { format!("{text}@{rooms}.{domain}") }
}

/// Control characters of answers become dots in tables; JSON escapes them by itself. `done`: the words before a number of sessions.
fn show(answer: &Answer, form: Form, done: &str) -> Result<(), CliError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    // One line for each object, so that a program can read a long list as it comes.
    if matches!(form, Form::Json) {
        let lines: Vec<serde_json::Value> = match answer {
            Answer::Sessions { sessions, .. } => sessions.iter().map(|row| serde_json::json!(row)).collect(),
            Answer::Rooms(rooms) => rooms.iter().map(|row| serde_json::json!(row)).collect(),
            Answer::Roster(contacts) => contacts.iter().map(|row| serde_json::json!(row)).collect(),
            Answer::Motd(text) => vec![serde_json::json!(text)],
            Answer::Room(room) => vec![serde_json::json!(room)],
            Answer::User(user) => vec![serde_json::json!(user)],
            Answer::Count(count) => vec![serde_json::json!({ "sessions": count })],
            Answer::Users { users, .. } => users.iter().map(|user| serde_json::json!(user)).collect(),
            Answer::Done => Vec::new(),
        };
        for line in lines {
            writeln!(out, "{line}")?;
        }
        return Ok(out.flush()?);
    }
    match answer {
        Answer::Sessions { sessions, total, .. } => show_sessions(sessions, *total, &mut out)?,
        Answer::Users { users, .. } => {
            users.iter().try_for_each(|user| writeln!(out, "{}", printable(user)))?;
        }
        Answer::Count(1) => writeln!(out, "{done} 1 session")?,
        Answer::Count(count) => writeln!(out, "{done} {} sessions", grouped(*count))?,
        Answer::Motd(None) => writeln!(out, "no message of the day")?,
        Answer::Motd(Some(text)) => {
            writeln!(out, "subject  {}\n\n{}", printable(&text.subject), text.body)?;
        }
        Answer::Rooms(rooms) => show_rooms(rooms, &mut out)?,
        Answer::Room(room) => show_room(room, &mut out)?,
        Answer::User(user) => show_user(user, &mut out)?,
        Answer::Roster(contacts) => show_roster(contacts, &mut out)?,
        Answer::Done => writeln!(out, "done")?,
    }
    Ok(out.flush()?)
}

/// `total`: of all sessions, more of which there may be than the node sends.
fn show_sessions(sessions: &[Session], total: u64, out: &mut impl io::Write) -> io::Result<()> {
    if sessions.is_empty() {
        return writeln!(out, "no account is signed in to chat");
    }
    let now = Clock::new().now().unix_seconds();
    let mut table =
        Table::new(&["session", "prio", "shows", "for", "from", "by", "client", "resumes"], &[1, 3]);
    for session in sessions {
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        // A session without a priority has sent no presence yet: contacts do not see it.
        let shows = if session.priority.is_some() { or(&session.show, "here") } else { "not here".into() };
        table.row([
            session.address.clone(),
            session.priority.map_or("-".into(), |priority| priority.to_string()),
            shows,
            elapsed(now.saturating_sub(session.since)),
            // A session without a connection waits to be resumed (XEP-0198).
            or(&session.from, "lost"),
            or(&session.transport, "-"),
            or(&session.client, "-"),
            if session.resumable { "yes".into() } else { "no".to_owned() },
        ]);
    }
    table.print(out)?;
    match total.saturating_sub(sessions.len() as u64) {
        0 => Ok(()),
        more => writeln!(out, "… and {} more", grouped(more)),
    }
}

fn show_rooms(rooms: &[Room], out: &mut impl io::Write) -> io::Result<()> {
    if rooms.is_empty() {
        return writeln!(out, "no rooms");
    }
    let mut table = Table::new(&["room", "name", "occupants", "stays", "listed"], &[2]);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    for room in rooms {
        let occupants = grouped(room.occupants);
        table.row([
            room.address.clone(),
            room.name.clone(),
            occupants,
            yes(room.persistent),
            yes(room.listed),
        ]);
    }
    table.print(out)
}

fn show_room(room: &RoomDetails, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "room  {}\n", printable(&room.address))?;
    let mut config = Table::new(&["setting", "value"], &[]);
    for (name, value) in &room.config {
        config.row([name.clone(), value.clone()]);
    }
    config.print(out)?;
    writeln!(out)?;
    let mut affiliations = Table::new(&["user", "is", "reason"], &[]);
    for user in &room.affiliations {
        affiliations.row([user.user.clone(), user.affiliation.clone(), user.reason.clone()]);
    }
    affiliations.print(out)?;
    writeln!(out)?;
    let mut occupants = Table::new(&["occupant", "role", "session"], &[]);
    for occupant in &room.occupants {
        occupants.row([occupant.nick.clone(), occupant.role.clone(), occupant.address.clone()]);
    }
    occupants.print(out)
}

/// The time of the last sign-out counts only while no session is there.
fn show_user(user: &User, out: &mut impl io::Write) -> io::Result<()> {
    let seen = match (user.sessions, user.last_seen) {
        (0, None) => "never".into(),
        (0, Some(at)) => format!("{} UTC", date(at)),
        _ => "now".into(),
    };
    writeln!(out, "account    {}", printable(&user.address))?;
    writeln!(out, "sessions   {}", grouped(user.sessions))?;
    writeln!(out, "seen       {seen}")?;
    writeln!(out, "contacts   {}", grouped(user.contacts))?;
    writeln!(out, "waiting    {} messages", grouped(user.offline))?;
    writeln!(out, "archived   {} messages", grouped(user.archived))?;
    let blocked = if user.blocked.is_empty() { "nobody".into() } else { user.blocked.join(", ") };
    writeln!(out, "blocks     {}", printable(&blocked))
}

fn show_roster(contacts: &[Contact], out: &mut impl io::Write) -> io::Result<()> {
    if contacts.is_empty() {
        return writeln!(out, "no contacts");
    }
    let mut table = Table::new(&["contact", "name", "subscription", "groups"], &[]);
    for contact in contacts {
        let asked = if contact.pending { ", asked" } else { "" };
        let subscription = format!("{}{asked}", contact.subscription);
        table.row([contact.address.clone(), contact.name.clone(), subscription, contact.groups.join(", ")]);
    }
    table.print(out)
}
