//! Chat, under a prefix of its own: sessions, rooms, announcements, and chat's data of accounts. These
//! resources belong to the node, so only an account without a parent may use them.
//!
//! Each handler makes one [`Ask`] of its parameters, and an answer of the node's. Rooms and users are named in the path by their addresses.

use crate::chat::{
    Affiliated, Answer as Told, Ask, Contact, Occupant, Room, RoomDetails, Session, Text, User,
};
use crate::control::FarmAnswer;
use crate::fault::Fault;
use crate::nodes::NodesAnswered;
use crate::paging;
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{NONE, PAGE, choice, date_value, last, text};

// The parameters of the operations, which share them.
const DOMAIN: &[Parameter] = &[text("Domain")];
const WORDS: &[Parameter] = &[text("Subject"), text("Body")];
const OF_USER: &[Parameter] = &[text("User")];
const TO: &[Parameter] = &[text("To")];
const REASON: &[Parameter] = &[text("Reason")];
const ROOM: &[Parameter] = &[text("Room"), text("Name"), text("Owner")];
/// The affiliations of XEP-0045, which are lasting; roles such as moderator end with the stay.
const AFFILIATION: &[Parameter] =
    &[text("User"), choice("Affiliation", &["owner", "admin", "member", "none", "outcast"])];
const CONTACT: &[Parameter] = &[text("Contact"), text("Name"), text("Group")];

/// One entry for each operation. Handlers without a result go through `done`, so that only those with an answer have a function of their own.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/xmpp/sessions",
        summary: "Who is signed in, at all nodes of a farm",
        parameters: &[OF_USER, paging::PAGING],
        answer: Shape::FarmList("sessions", || session(&Session::default())),
        handler: list_sessions,
    },
    Route {
        method: "DELETE",
        path: "/xmpp/sessions/{Address}",
        summary: "End a session (user@domain/resource), or all of an account (user@domain)",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| done(context, Ask::End { who: last(context).into() }),
    },
    Route {
        method: "POST",
        path: "/xmpp/announcements",
        summary: "Send a message to all available sessions",
        parameters: &[DOMAIN, WORDS],
        answer: Shape::Item(201, "Announcement", || announcement(0, Some(&NodesAnswered::default()))),
        handler: announce,
    },
    Route {
        method: "POST",
        path: "/xmpp/messages",
        summary: "Send an account a message from the server; it waits when no session is there",
        parameters: &[TO, WORDS],
        answer: Shape::Nothing,
        handler: |context| {
            let to = required(context, "To")?;
            done(context, Ask::Message { to, text: words(context)? })
        },
    },
    Route {
        method: "GET",
        path: "/xmpp/motd",
        summary: "The message that users get when they sign in",
        parameters: &[DOMAIN],
        answer: Shape::Item(200, "Motd", || motd(&Text::default())),
        handler: show_motd,
    },
    Route {
        method: "POST",
        path: "/xmpp/motd",
        summary: "Set it; users who are signed in already do not get it",
        parameters: &[DOMAIN, WORDS],
        answer: Shape::Nothing,
        handler: |context| done(context, Ask::SetMotd { domain: domain(context), text: words(context)? }),
    },
    Route {
        method: "DELETE",
        path: "/xmpp/motd",
        summary: "Have none",
        parameters: &[DOMAIN],
        answer: Shape::Nothing,
        handler: |context| done(context, Ask::ClearMotd { domain: domain(context) }),
    },
    Route {
        method: "GET",
        path: "/xmpp/rooms",
        summary: "Rooms of a domain, also those that lists do not show",
        parameters: &[DOMAIN, paging::PAGING],
        answer: Shape::FarmList("rooms", || room(&Room::default())),
        handler: list_rooms,
    },
    Route {
        method: "POST",
        path: "/xmpp/rooms",
        summary: "Make a room that stays",
        parameters: &[ROOM],
        answer: Shape::Item(201, "RoomDetails", || details(&RoomDetails::default())),
        handler: make_room,
    },
    Route {
        method: "GET",
        path: "/xmpp/rooms/{Room}",
        summary: "A room's configuration",
        parameters: NONE,
        answer: Shape::Item(200, "RoomDetails", || details(&RoomDetails::default())),
        handler: |context| Ok(Answer::Item(200, "RoomDetails", details(&*the_room(context)?))),
    },
    Route {
        method: "DELETE",
        path: "/xmpp/rooms/{Room}",
        summary: "End a room and forget what was said there",
        parameters: &[REASON],
        answer: Shape::Nothing,
        handler: |context| {
            done(context, Ask::DestroyRoom { room: last(context).into(), reason: given(context, "Reason") })
        },
    },
    Route {
        method: "GET",
        path: "/xmpp/rooms/{Room}/affiliations",
        summary: "What users are to a room",
        parameters: PAGE,
        answer: Shape::List("affiliations", || affiliated(&Affiliated::default())),
        handler: |context| {
            let room = the_room(context)?;
            let names = ("affiliations", "Affiliation");
            Ok(paging::slice(context, &room.affiliations, names, |_, user| affiliated(user)))
        },
    },
    Route {
        method: "POST",
        path: "/xmpp/rooms/{Room}/affiliations",
        summary: "Say what a user is to a room: outcast bans, none takes all back",
        parameters: &[AFFILIATION, REASON],
        answer: Shape::Nothing,
        handler: |context| {
            let (user, affiliation) = (required(context, "User")?, required(context, "Affiliation")?);
            let (room, reason) = (last(context).into(), given(context, "Reason"));
            done(context, Ask::Affiliation { room, user, affiliation, reason })
        },
    },
    Route {
        method: "GET",
        path: "/xmpp/rooms/{Room}/occupants",
        summary: "Who is in a room",
        parameters: PAGE,
        answer: Shape::List("occupants", || occupant(&Occupant::default())),
        handler: |context| {
            let room = the_room(context)?;
            let names = ("occupants", "Occupant");
            Ok(paging::slice(context, &room.occupants, names, |_, one| occupant(one)))
        },
    },
    Route {
        method: "DELETE",
        path: "/xmpp/rooms/{Room}/occupants/{Nick}",
        summary: "Put an occupant out; the occupant may come back",
        parameters: &[REASON],
        answer: Shape::Nothing,
        handler: |context| {
            let (room, nick) = (first(context), last(context).into());
            done(context, Ask::KickOccupant { room, nick, reason: given(context, "Reason") })
        },
    },
    Route {
        method: "GET",
        path: "/xmpp/users/{User}",
        summary: "What chat has of an account",
        parameters: NONE,
        answer: Shape::Item(200, "ChatUser", || user(&User::default())),
        handler: |context| match ask(context, Ask::User { user: last(context).into() })? {
            Told::User(found) => Ok(Answer::Item(200, "ChatUser", user(&found))),
            _ => Err(defect()),
        },
    },
    Route {
        method: "DELETE",
        path: "/xmpp/users/{User}/offline",
        summary: "Forget the messages that wait for the account",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| done(context, Ask::ClearOffline { user: first(context) }),
    },
    Route {
        method: "GET",
        path: "/xmpp/users/{User}/contacts",
        summary: "An account's contacts",
        parameters: PAGE,
        answer: Shape::List("contacts", || contact(&Contact::default())),
        handler: |context| match ask(context, Ask::Roster { user: first(context) })? {
            Told::Roster(all) => {
                Ok(paging::slice(context, &all, ("contacts", "Contact"), |_, one| contact(one)))
            }
            _ => Err(defect()),
        },
    },
    Route {
        method: "POST",
        path: "/xmpp/users/{User}/contacts",
        summary: "Add a contact, or change its name and groups; Group may be repeated",
        parameters: &[CONTACT],
        answer: Shape::Nothing,
        handler: |context| {
            let groups = context.all("Group").map(str::to_owned).collect();
            let (user, contact) = (first(context), required(context, "Contact")?);
            done(context, Ask::SetContact { user, contact, name: given(context, "Name"), groups })
        },
    },
    Route {
        method: "DELETE",
        path: "/xmpp/users/{User}/contacts/{Contact}",
        summary: "Remove a contact",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: |context| {
            done(context, Ask::RemoveContact { user: first(context), contact: last(context).into() })
        },
    },
];

/// Asks the node, and where the request concerns all nodes of a farm, all of them.
fn ask(context: &Context<'_>, ask: Ask) -> Result<Told, Fault> {
    ask_farm(context, ask).map(|answer| answer.answer)
}

/// Does what [`ask`] does, and returns the nodes that answered. Only an account without a parent may: chat accounts belong to domains, not to REST
/// accounts.
fn ask_farm(context: &Context<'_>, ask: Ask) -> Result<FarmAnswer, Fault> {
    // The signer counts and not the account of the path: these paths have none.
    if context.signer.parent.is_some() {
        return Err(Fault::new(
            403,
            20403,
            "Chat is the whole node's: sign in as an account above which there is none",
        ));
    }
    Ok(context.state.control.chat_of_farm(ask)?)
}

/// A request without a result: 204.
fn done(context: &Context<'_>, what: Ask) -> Result<Answer, Fault> {
    ask(context, what).map(|_| Answer::Nothing)
}

/// The node answered another kind of request: a defect of this server.
fn defect() -> Fault {
    Fault::new(500, 20500, "Internal Server Error")
}

/// The first variable of the path.
fn first(context: &Context<'_>) -> String {
    context.variables.first().copied().unwrap_or_default().into()
}

/// The value of a parameter; empty without one.
fn given(context: &Context<'_>, name: &str) -> String {
    context.text(name).unwrap_or_default().into()
}

/// The value of a parameter that must be given.
fn required(context: &Context<'_>, name: &str) -> Result<String, Fault> {
    context.text(name).map(str::to_owned).ok_or_else(|| Fault::invalid(20400, format!("{name} is missing")))
}

/// The domain of the parameter, else the first one that is served.
/// The node refuses domains that are not served.
fn domain(context: &Context<'_>) -> String {
    context.text("Domain").unwrap_or(&context.state.domain).into()
}

/// A message of the parameters; its text must be given.
fn words(context: &Context<'_>) -> Result<Text, Fault> {
    Ok(Text { subject: given(context, "Subject"), body: required(context, "Body")? })
}

/// Sessions of all nodes, cut into pages here.
fn list_sessions(context: &Context<'_>) -> Result<Answer, Fault> {
    let user = context.text("User").map(str::to_owned);
    let FarmAnswer { answer: Told::Sessions { sessions, .. }, nodes } =
        ask_farm(context, Ask::Sessions { who: user, most: None })?
    else {
        return Err(defect());
    };
    let names = ("sessions", "Session");
    Ok(of_nodes(paging::slice(context, &sessions, names, |_, one| session(one)), nodes))
}

/// The list, which says how many nodes answered.
fn of_nodes(mut answer: Answer, nodes: Option<NodesAnswered>) -> Answer {
    if let Answer::List(list) = &mut answer {
        list.nodes = nodes;
    }
    answer
}

/// The number counts sessions at all nodes that answered; in a farm the result says how many did.
fn announce(context: &Context<'_>) -> Result<Answer, Fault> {
    match ask_farm(context, Ask::Announce { domain: domain(context), text: words(context)? })? {
        FarmAnswer { answer: Told::Count(count), nodes } => {
            Ok(Answer::Item(201, "Announcement", announcement(count, nodes.as_ref())))
        }
        _ => Err(defect()),
    }
}

/// A domain without one gives empty texts, not 404.
fn show_motd(context: &Context<'_>) -> Result<Answer, Fault> {
    match ask(context, Ask::Motd { domain: domain(context) })? {
        Told::Motd(text) => Ok(Answer::Item(200, "Motd", motd(&text.unwrap_or_default()))),
        _ => Err(defect()),
    }
}

/// The node returns all rooms; they are cut into pages here.
fn list_rooms(context: &Context<'_>) -> Result<Answer, Fault> {
    match ask_farm(context, Ask::Rooms { domain: domain(context) })? {
        FarmAnswer { answer: Told::Rooms(rooms), nodes } => {
            let names = ("rooms", "Room");
            Ok(of_nodes(paging::slice(context, &rooms, names, |_, one| room(one)), nodes))
        }
        _ => Err(defect()),
    }
}

/// A room with its configuration, affiliations and occupants.
fn show_room(context: &Context<'_>, room: String) -> Result<Box<RoomDetails>, Fault> {
    match ask(context, Ask::Room { room })? {
        Told::Room(room) => Ok(room),
        _ => Err(defect()),
    }
}

/// The room that the path names.
fn the_room(context: &Context<'_>) -> Result<Box<RoomDetails>, Fault> {
    show_room(context, first(context))
}

/// Answers with the configuration that the room has after its creation, not with what was asked.
fn make_room(context: &Context<'_>) -> Result<Answer, Fault> {
    let room = required(context, "Room")?;
    let owner = context.text("Owner").map(str::to_owned);
    ask(context, Ask::MakeRoom { room: room.clone(), name: given(context, "Name"), owner })?;
    Ok(Answer::Item(201, "RoomDetails", details(&*show_room(context, room)?)))
}

fn number(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Seconds since 1970 as a date.
fn seconds(at: u64) -> Value {
    date_value(Some(stdx::Instant::from_unix_seconds(at)))
}

// How each object of the node's answers is written. `seconds` since 1970 become dates.
fn session(session: &Session) -> Value {
    Value::Object(vec![
        ("address", Value::text(&session.address)),
        ("available", Value::Bool(session.priority.is_some())),
        ("priority", session.priority.map_or(Value::Null, |priority| Value::Int(priority.into()))),
        ("show", Value::text(&session.show)),
        ("since", seconds(session.since)),
        ("from", Value::text(&session.from)),
        ("transport", Value::text(&session.transport)),
        ("client", Value::text(&session.client)),
        ("resumable", Value::Bool(session.resumable)),
    ])
}

/// How many sessions got it, and in a farm how many nodes answered.
fn announcement(sessions: u64, nodes: Option<&NodesAnswered>) -> Value {
    let mut fields = vec![("sessions", number(sessions))];
    fields.extend(nodes.into_iter().flat_map(paging::nodes_of));
    Value::Object(fields)
}

fn motd(text: &Text) -> Value {
    Value::Object(vec![("subject", Value::text(&text.subject)), ("body", Value::text(&text.body))])
}

/// The short form, for lists; `details` is that of one room.
fn room(room: &Room) -> Value {
    Value::Object(vec![
        ("address", Value::text(&room.address)),
        ("name", Value::text(&room.name)),
        ("occupants", number(room.occupants)),
        ("persistent", Value::Bool(room.persistent)),
        ("listed", Value::Bool(room.listed)),
    ])
}

/// A selection of the room's configuration under names without `muc#roomconfig_`; XEP-0004 §3.3 writes a boolean as
/// `1` or `true`.
fn details(room: &RoomDetails) -> Value {
    let setting = |name: &str| room.config.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let text = |name| setting(name).map_or(Value::Null, |value| Value::text(value));
    let flag = |name| Value::Bool(setting(name).is_some_and(|value| value == "1" || value == "true"));
    Value::Object(vec![
        ("address", Value::text(&room.address)),
        ("name", text("roomname")),
        ("description", text("roomdesc")),
        ("persistent", flag("persistentroom")),
        ("listed", flag("publicroom")),
        ("members_only", flag("membersonly")),
        ("moderated", flag("moderatedroom")),
        ("password_protected", flag("passwordprotectedroom")),
        ("max_occupants", text("maxusers")),
        ("occupants", number(room.occupants.len() as u64)),
    ])
}

fn affiliated(user: &Affiliated) -> Value {
    Value::Object(vec![
        ("user", Value::text(&user.user)),
        ("affiliation", Value::text(&user.affiliation)),
        ("reason", Value::text(&user.reason)),
    ])
}

fn occupant(occupant: &Occupant) -> Value {
    Value::Object(vec![
        ("nick", Value::text(&occupant.nick)),
        ("address", Value::text(&occupant.address)),
        ("role", Value::text(&occupant.role)),
    ])
}

/// Numbers only: contacts and waiting messages themselves have operations of their own.
fn user(user: &User) -> Value {
    Value::Object(vec![
        ("address", Value::text(&user.address)),
        ("sessions", number(user.sessions)),
        ("contacts", number(user.contacts)),
        ("blocked", number(user.blocked.len() as u64)),
        ("offline", number(user.offline)),
        ("archived", number(user.archived)),
        ("last_seen", user.last_seen.map_or(Value::Null, seconds)),
    ])
}

/// Groups are joined by commas, because a field of an answer is one value.
fn contact(contact: &Contact) -> Value {
    Value::Object(vec![
        ("address", Value::text(&contact.address)),
        ("name", Value::text(&contact.name)),
        ("subscription", Value::text(&contact.subscription)),
        ("pending", Value::Bool(contact.pending)),
        ("groups", Value::text(&contact.groups.join(", "))),
    ])
}
