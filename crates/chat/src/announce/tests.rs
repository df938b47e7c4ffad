//! Sessions as the nodes of their connections follow them.

use super::*;

fn stanza(name: &'static str, id: usize) -> Element {
    Element::new(name, ns::CLIENT).with("id", id.to_string())
}

fn management(name: &'static str, h: u32) -> Element {
    Element::new(name, ns::SM).with("h", h.to_string())
}

fn bind() -> BindRequest {
    BindRequest {
        user: Jid::parse("alice@example.org").expect("an address"),
        is_anonymous: false,
        resource: None,
        tag: None,
        agent: None,
        is_bind2: false,
        can_move: false,
        inline: Vec::new(),
    }
}

/// A session whose client has enabled stream management.
fn counting() -> FollowedSession {
    let user = bind().user;
    let mut session = FollowedSession::new(&bind());
    session.handle_bound(&user.with_resource("desk").expect("a resource"), &[]);
    assert_eq!(session.announce(), None, "it cannot be resumed, and its presence was not seen");
    session.handle_nonza(&Element::new("enable", ns::SM).with("resume", "true"));
    session.handle_delivered(enabled());
    session
}

fn enabled() -> Element {
    Element::new("enabled", ns::SM).with("id", "x").with("resume", "true").with("max", "300")
}

fn ids(stanzas: &[Element]) -> Vec<&str> {
    stanzas.iter().filter_map(|stanza| stanza.attr("id")).collect()
}

#[test]
fn acknowledged_stanzas_are_announced_and_the_rest_is_sent_again() {
    let mut session = counting();
    let carbons = stanza("iq", 1).with("type", "set").child(Element::new("enable", ns::CARBONS));
    assert!(session.handle_stanza(&carbons), "the first that waits");
    assert!(!session.handle_stanza(&stanza("presence", 2)));
    assert!(!session.announce().expect("it can be resumed").has_carbons, "it is not acknowledged");
    session.handle_delivered(management("a", 1));
    let announced = session.announce().expect("it can be resumed");
    assert!(announced.has_carbons && announced.presence.is_none());
    assert_eq!((announced.received, &*announced.id), (1, "x"));
    let repeated = session.repeat();
    assert_eq!(ids(&repeated), ["2"]);
    assert!(repeated.last().is_some_and(|last| last.is("r", ns::SM)));
    session.handle_delivered(management("a", 2));
    assert!(session.announce().is_some_and(|announced| announced.presence.is_some()));
    assert!(ids(&session.repeat()).is_empty() && !session.has_unacknowledged());
}

#[test]
fn stanzas_are_counted_from_the_request_for_stream_management_on() {
    let mut session = FollowedSession::new(&bind());
    session.handle_stanza(&stanza("iq", 0));
    session.handle_nonza(&Element::new("enable", ns::SM).with("resume", "true"));
    // The client does not wait for the answer.
    session.handle_stanza(&stanza("presence", 1));
    session.handle_delivered(stanza("iq", 0));
    session.handle_delivered(enabled());
    session.handle_stanza(&stanza("iq", 2));
    session.handle_delivered(management("a", 1));
    let announced = session.announce().expect("it can be resumed");
    assert_eq!((announced.received, announced.unacknowledged.len()), (1, 0));
    assert!(announced.presence.is_some());
    assert_eq!(ids(&session.repeat()), ["2"]);
}

#[test]
fn a_refused_request_for_stream_management_counts_nothing() {
    let mut session = FollowedSession::new(&bind());
    session.handle_nonza(&Element::new("enable", ns::SM));
    session.handle_stanza(&stanza("presence", 1));
    session.handle_delivered(Element::new("failed", ns::SM));
    let announced = session.announce().expect("its presence was seen");
    assert!(announced.is_ending() && announced.presence.is_some() && !session.has_unacknowledged());
}

#[test]
fn stanzas_that_the_client_has_not_acknowledged_are_announced() {
    let mut session = counting();
    (1..6).for_each(|id| session.handle_delivered(stanza("message", id)));
    session.handle_delivered(Element::new("r", ns::SM));
    session.handle_nonza(&management("a", 3));
    let announced = session.announce().expect("it can be resumed");
    assert_eq!((announced.acknowledged, ids(&announced.unacknowledged)), (3, vec!["4", "5"]));
    // The next owner has announced it to the node where the client has resumed it.
    let resumed = FollowedSession::resumed(announced.clone());
    assert_eq!(resumed.announce(), Some(announced));
}

#[test]
fn counts_go_round() {
    let mut stanzas = UnacknowledgedStanzas { acknowledged: u32::MAX, ..UnacknowledgedStanzas::default() };
    (0..3).for_each(|id| drop(stanzas.push(stanza("iq", id))));
    assert_eq!(stanzas.acknowledge(1).len(), 2);
    assert!(stanzas.acknowledge(7).is_empty(), "there were not so many");
    assert_eq!((stanzas.acknowledged, stanzas.count, stanzas.stanzas.len()), (1, 1, 1));
}

#[test]
fn a_session_with_too_many_stanzas_is_announced_once_they_are_acknowledged() {
    let mut session = counting();
    session.handle_stanza(&stanza("presence", 0));
    for id in 0..limits::FOLLOWED {
        session.handle_stanza(&stanza("iq", id));
    }
    let announced = session.announce().expect("its presence was seen");
    assert!(announced.is_ending() && announced.presence.is_some() && !session.can_be_announced());
    assert!(session.from_client.stanzas.is_empty(), "nothing of them is kept");
    session.handle_stanza(&stanza("iq", 0));
    session.handle_delivered(management("a", limits::FOLLOWED as u32 + 2));
    let announced = session.announce().expect("nothing waits");
    assert!(announced.presence.is_some() && announced.received == limits::FOLLOWED as u32 + 2);
    session.handle_delivered(
        stanza("message", 1).child(Element::new("b", ns::CLIENT).text("x".repeat(limits::FOLLOWED_BYTES))),
    );
    assert!(!session.can_be_announced());
    session.handle_nonza(&management("a", 1));
    assert!(session.can_be_announced());
}

fn room_presence(nick: &str, kind: Option<&'static str>) -> Element {
    let status = Element::new("status", ns::MUC_USER).with("code", "110");
    let presence = Element::new("presence", ns::CLIENT).with("from", format!("{HALL}/{nick}"));
    presence.with_opt("type", kind).child(Element::new("x", ns::MUC_USER).child(status))
}

fn to_room(nick: &str, kind: Option<&'static str>) -> Element {
    Element::new("presence", ns::CLIENT).with("to", format!("{HALL}/{nick}")).with_opt("type", kind)
}

const HALL: &str = "hall@rooms.example.org";

/// The nicknames with which a session would enter the hall again.
fn entered(session: &FollowedSession) -> Vec<String> {
    let announced = session.announce().expect("it can be resumed");
    let is_there = |to: &&Jid| !announced.left_rooms.contains(to);
    let nick = |to: &Jid| to.resource().unwrap_or_default().to_owned();
    announced.directed.iter().filter(is_there).map(nick).collect()
}

#[test]
fn a_session_enters_only_the_rooms_again_in_which_it_is() {
    let mut session = counting();
    for nick in ["one", "two", "three"] {
        session.handle_stanza(&to_room(nick, None));
    }
    session.handle_delivered(management("a", 3));
    // Removed from the first, refused in the third, left the second.
    session.handle_delivered(room_presence("one", Some("unavailable")));
    session.handle_delivered(room_presence("three", Some("error")));
    session.handle_stanza(&to_room("two", Some("unavailable")));
    assert_eq!(entered(&session), ["two"], "the leaving is sent again, if need be");
    session.handle_delivered(management("a", 4));
    assert!(entered(&session).is_empty());
    session.handle_stanza(&to_room("one", None));
    session.handle_delivered(management("a", 5));
    assert_eq!(entered(&session), ["one"], "it has asked again");
}

#[test]
fn a_late_answer_of_a_room_does_not_outlast_the_next() {
    let mut session = counting();
    session.handle_stanza(&to_room("one", None));
    session.handle_stanza(&to_room("one", Some("unavailable")));
    session.handle_stanza(&to_room("one", None));
    session.handle_delivered(room_presence("one", None));
    session.handle_delivered(room_presence("one", Some("unavailable")));
    session.handle_delivered(room_presence("one", None));
    session.handle_delivered(management("a", 3));
    assert_eq!(entered(&session), ["one"]);
    // The answer to a leaving that was acknowledged before it comes.
    session.handle_stanza(&to_room("one", Some("unavailable")));
    session.handle_delivered(management("a", 4));
    session.handle_delivered(room_presence("one", Some("unavailable")));
    assert!(entered(&session).is_empty());
    session.handle_stanza(&stanza("iq", 0));
    session.handle_delivered(management("a", 5));
    assert!(session.session.left_rooms.is_empty(), "nothing stays");
}

/// Anyone may send a presence with an error, or with status 110, from any number of addresses.
#[test]
fn answers_of_rooms_that_were_not_asked_change_nothing() {
    let mut session = counting();
    for number in 0..50 {
        let from = format!("x@evil.example/{number}");
        session.handle_delivered(stanza("presence", number).with("type", "error").with("from", from));
    }
    assert!(session.announce().is_some_and(|announced| announced.left_rooms.is_empty()));
}

/// A message between nodes has 256 KiB.
#[test]
fn a_session_with_the_longest_addresses_is_announced_to_end() {
    let mut session = counting();
    for number in 0..limits::DIRECTED {
        let to = format!("{}@rooms.example/{number}", "r".repeat(1_000));
        session.handle_stanza(&stanza("presence", number).with("to", to));
        session.handle_delivered(management("a", 1 + number as u32));
    }
    assert!(!session.can_be_announced());
    let announced = session.announce().expect("its presence was seen");
    let bytes: usize = announced.directed.iter().map(|to| to.as_str().len()).sum();
    assert!(announced.is_ending() && bytes > 50_000 && bytes <= limits::FOLLOWED_BYTES, "{bytes}");
}
