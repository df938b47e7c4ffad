//! Rooms of chat, conferences and queues, over a database of the test's own and a node with one conference and one queue.

use admin::chat::{Answer as ChatAnswer, Ask as ChatAsk, Occupant, Room, RoomDetails};
use admin::control::{Participant, QueueMember};
use admin::{Blocking, Repository as _};
use store::Write;
use store::rest::types::{Common, Conference, Queue, RestCall};
use store::rest::{Resource, RestWrite};

use super::applications::{FIRST, applications};
use super::*;

const CONFERENCE: &str = "CF00000000000000000000000000000001";
const OVER: &str = "CF00000000000000000000000000000002";
const QUEUE: &str = "QU00000000000000000000000000000001";
/// The clock of the node in these tests.
const NOW: u64 = 1_800_000_000;

/// The node's answer about chat: two rooms in the order of their addresses, one of them with an occupant.
pub(super) fn answer(ask: ChatAsk) -> Response {
    let room = |name: &str, occupants| Room {
        address: format!("{name}@rooms.example.test"),
        occupants,
        ..Room::default()
    };
    Response::Chat(match ask {
        ChatAsk::Rooms { .. } => ChatAnswer::Rooms(vec![room("empty", 0), room("tea", 1)]),
        ChatAsk::Room { room } => {
            let occupant = Occupant { nick: "Alice".into(), role: "moderator".into(), ..Occupant::default() };
            ChatAnswer::Room(Box::new(RoomDetails {
                address: room,
                occupants: vec![occupant],
                ..RoomDetails::default()
            }))
        }
        _ => ChatAnswer::Done,
    })
}

#[tokio::test]
async fn rooms_of_chat_are_those_of_all_nodes_with_the_fullest_first() {
    let mut world = world();
    let reader = world.sign_in("eye").await;
    let listed = world.ask(&reader, "GET", "/chat-rooms?limit=1", None).await;
    assert_eq!(
        (&listed.body["rooms"][0]["address"], &listed.body["total"]),
        (&json!("tea@rooms.example.test"), &json!(2))
    );
    assert_eq!(listed.body["rooms"].as_array().unwrap().len(), 1);
    assert_eq!(listed.body["nodes"]["missing"][0]["name"], "n2");
    assert!(change_of(&world).contains("AllNodes") && change_of(&world).contains("\"example.test\""));
    world.ask(&reader, "GET", "/chat-rooms?domain=b.test", None).await;
    assert!(change_of(&world).contains("\"b.test\""), "{}", change_of(&world));
    let shown = world.ask(&reader, "GET", "/chat-rooms/tea%40rooms.example.test", None).await;
    assert_eq!(shown.body["room"]["address"], "tea@rooms.example.test");
    assert_eq!(shown.body["room"]["occupants"][0]["nick"], "Alice");
}

#[tokio::test]
async fn sessions_are_asked_for_by_the_page() {
    let mut world = world();
    let reader = world.sign_in("eye").await;
    world.ask(&reader, "GET", "/sessions", None).await;
    assert!(change_of(&world).contains("Sessions { who: None, most: Some(500) }"), "{}", change_of(&world));
}

fn common(sid: &str) -> Common {
    let at = Instant::from_unix_seconds(NOW - 60);
    Common { sid: sid.into(), account: FIRST.into(), created_at: at, updated_at: at }
}

fn insert(repository: &Blocking, resource: &impl Resource) {
    let write = RestWrite::Insert(Box::new(resource.row().unwrap()));
    repository.write(Write::Rest(write)).unwrap();
}

fn participant(call: &str, muted: bool) -> Participant {
    Participant {
        call_sid: call.into(),
        label: String::new(),
        muted,
        hold: false,
        coaching: false,
        start_conference_on_enter: true,
        end_conference_on_exit: false,
        status: "connected".into(),
        joined_at: Instant::from_unix_seconds(NOW - 30),
    }
}

#[tokio::test]
async fn a_conference_is_seen_by_readers_and_an_operator_puts_a_call_out_and_ends_it() {
    let mut all = applications("");
    let conference = |sid: &str, status: &str| Conference {
        common: common(sid),
        friendly_name: "standup".into(),
        status: status.into(),
        ..Conference::default()
    };
    insert(&all.repository, &conference(CONFERENCE, "in-progress"));
    insert(&all.repository, &conference(OVER, "completed"));
    insert(
        &all.repository,
        &RestCall { common: common("CA1"), from: "+15550100".into(), ..RestCall::default() },
    );
    all.live.lock().unwrap().participants = vec![participant("CA1", false), participant("CA2", true)];
    let (world, live) = (&mut all.world, &all.live);
    let (reader, operator) = (world.sign_in("eye").await, world.sign_in("op").await);

    let listed = world.ask(&reader, "GET", "/conferences", None).await;
    assert_eq!(listed.body["total"], 1, "{}", listed.body);
    let row = &listed.body["conferences"][0];
    assert_eq!((&row["name"], &row["members"], &row["muted"]), (&json!("standup"), &json!(2), &json!(1)));
    assert_eq!(row["since"], (NOW - 60) * 1_000_000);
    let path = format!("/conferences/{CONFERENCE}");
    let shown = world.ask(&reader, "GET", &path, None).await;
    let members = shown.body["members"].as_array().unwrap();
    assert_eq!((&members[0]["from"], &members[1]["muted"]), (&json!("+15550100"), &json!(true)));
    assert_eq!(members[0]["since"], (NOW - 30) * 1_000_000);

    let member = format!("{path}/members/CA2");
    assert_eq!(world.ask(&reader, "DELETE", &member, None).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.ask(&operator, "DELETE", &member, None).await.status, StatusCode::OK);
    assert_eq!(world.ask(&operator, "DELETE", &member, None).await.status, StatusCode::NOT_FOUND);
    assert_eq!(live.lock().unwrap().participants.len(), 1);
    assert_eq!(world.ask(&reader, "DELETE", &path, None).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.ask(&operator, "DELETE", &path, None).await.status, StatusCode::OK);
    assert_eq!(live.lock().unwrap().changes, [format!("conference {CONFERENCE} true None")]);
    let over = world.ask(&operator, "DELETE", &format!("/conferences/{OVER}"), None).await;
    assert_eq!(
        (over.status, &over.body["error"]),
        (StatusCode::BAD_REQUEST, &json!("The conference is over"))
    );
    let nowhere = world.ask(&operator, "DELETE", "/conferences/CF3", None).await;
    assert_eq!(nowhere.status, StatusCode::NOT_FOUND);
    let audited = world.audited.lock().unwrap().clone();
    let line = format!("op@example.test operator KickMember {CONFERENCE} CA2 None");
    assert!(audited.contains(&line), "{audited:#?}");
    assert!(audited.contains(&format!("op@example.test operator EndConference {OVER} Some(400)")));
}

#[tokio::test]
async fn a_queue_shows_how_long_its_calls_wait_and_an_operator_hangs_one_up() {
    let mut all = applications("");
    let queue =
        Queue { common: common(QUEUE), friendly_name: "sales".into(), max_size: 100, ..Queue::default() };
    insert(&all.repository, &queue);
    let waits = |call: &str, seconds| {
        let enqueued_at = Instant::from_unix_seconds(NOW - seconds);
        QueueMember { call_sid: call.into(), enqueued_at }
    };
    all.live.lock().unwrap().waiting = vec![waits("CA1", 90), waits("CA2", 10)];
    let (world, live) = (&mut all.world, &all.live);
    let (reader, operator) = (world.sign_in("eye").await, world.sign_in("op").await);

    let listed = world.ask(&reader, "GET", "/queues", None).await;
    let row = &listed.body["queues"][0];
    assert_eq!((&row["name"], &row["waiting"]), (&json!("sales"), &json!(2)), "{}", listed.body);
    assert_eq!((&row["longest_wait"], &listed.body["has_more"]), (&json!(90), &json!(false)));
    let path = format!("/queues/{QUEUE}");
    let shown = world.ask(&reader, "GET", &path, None).await;
    assert_eq!(shown.body["members"][1]["call"], "CA2");

    let member = format!("{path}/members/CA1");
    assert_eq!(world.ask(&reader, "DELETE", &member, None).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.ask(&operator, "DELETE", &member, None).await.status, StatusCode::OK);
    assert_eq!(live.lock().unwrap().changes, ["CA1 to Inline(\"<Response><Hangup/></Response>\")"]);
    assert_eq!(world.ask(&operator, "DELETE", &member, None).await.status, StatusCode::NOT_FOUND);
    let none = world.ask(&operator, "DELETE", "/queues/QU2/members/CA2", None).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
    live.lock().unwrap().waiting.clear();
    let empty = world.ask(&reader, "GET", "/queues", None).await;
    let row = &empty.body["queues"][0];
    assert_eq!((&row["waiting"], &row["longest_wait"]), (&json!(0), &Value::Null));
}
