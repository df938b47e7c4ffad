//! The rows of the table of requests that concern rooms of chat, conferences, and queues of calls.

use crate::role::Role;
use crate::routes::{LIMIT, OPERATE, Operation, Parameter, READ, Route, number, route, text};

/// A request about rooms, conferences or queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoomOperation {
    ChatRooms,
    ChatRoom,
    Conferences,
    Conference,
    EndConference,
    KickMember,
    Queues,
    Queue,
    RemoveWaitingCall,
}

use RoomOperation as R;

const fn row(
    method: &'static str,
    path: &'static str,
    (role, operation): (Option<Role>, R),
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Route {
    route(method, path, (role, Operation::Room(operation)), summary, parameters)
}

const PAGE: Parameter = number("page", admin::limits::MAX_PAGE as u64, "The number of the page, from 0");

/// The requests.
pub(crate) static ROOM_ROUTES: [Route; 9] = [
    row(
        "GET",
        "/chat-rooms",
        (READ, R::ChatRooms),
        "Rooms of chat of a domain, public and hidden, those with the most occupants first",
        &[text("domain", "The domain; the default one when missing"), LIMIT],
    ),
    row(
        "GET",
        "/chat-rooms/{room}",
        (READ, R::ChatRoom),
        "A room of chat with its settings, affiliations and occupants",
        &[],
    ),
    row(
        "GET",
        "/conferences",
        (READ, R::Conferences),
        "Conferences that are not over, of all accounts of the REST interface; figures that the nodes did not give in time are null",
        &[LIMIT],
    ),
    row("GET", "/conferences/{sid}", (READ, R::Conference), "A conference with its first 200 members", &[]),
    row("DELETE", "/conferences/{sid}", (OPERATE, R::EndConference), "Ends a conference", &[]),
    row(
        "DELETE",
        "/conferences/{sid}/members/{call}",
        (OPERATE, R::KickMember),
        "Puts a call out of a conference; it goes on with its next verb",
        &[],
    ),
    row(
        "GET",
        "/queues",
        (READ, R::Queues),
        "Queues, newest first, of all accounts of the REST interface; figures that the nodes did not give in time are null",
        &[PAGE, LIMIT],
    ),
    row("GET", "/queues/{sid}", (READ, R::Queue), "A queue with the first 200 calls that wait in it", &[]),
    row(
        "DELETE",
        "/queues/{sid}/members/{call}",
        (OPERATE, R::RemoveWaitingCall),
        "Takes a call out of a queue and hangs it up",
        &[],
    ),
];
