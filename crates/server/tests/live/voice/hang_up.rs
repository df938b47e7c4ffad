//! A BYE, or a CANCEL before the answer, at the points of those verbs that join a call with something else: a file, another
//! leg, a room, a stream, a message. Nothing is left of the call, and the record says how it ended.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use server::node::Node;
use store::rest::types::RestCall;

use super::app::{App, section};
use super::callee::Callee;
use super::caller::Caller;
use super::dial::{Documents, Scene};
use super::record::{Voice, is_recording, rows};
use super::stream::Site;
use super::sum;
use super::talker::Talker;
use crate::place::Place;
use crate::{Deadline, until};

const AFTER: (&str, &str) = ("/after", "<Response><Pause length='600'/></Response>");

/// Statuses of the calls that came in, once all of them are over.
#[track_caller]
fn came_to(place: &Place, calls: usize) -> Vec<String> {
    until("the record has all calls, and none is live", || {
        let rows = rows::<RestCall>(place);
        let inbound: Vec<_> = rows.iter().filter(|row| row.direction == "inbound").collect();
        let is_over = inbound.len() == calls && !rows.iter().any(RestCall::is_live);
        is_over.then(|| inbound.iter().map(|row| row.status.clone()).collect())
    })
}

impl Scene {
    /// The whole call, of so many legs, is over.
    #[track_caller]
    fn over(self, status: &str, legs: u64) {
        self.over_as_one_of(&[status], legs);
    }

    #[track_caller]
    fn over_as_one_of(self, statuses: &[&str], legs: u64) {
        super::nothing_left(&self.node, legs);
        let [status] = &came_to(&self.place, 1)[..] else { panic!("one call") };
        assert!(statuses.contains(&&**status), "{status}, expected one of {statuses:?}");
        self.ends(legs);
    }
}

/// When the caller of one verb hangs up, seen from outside.
type Point = fn(&Node, &mut Caller, SocketAddr);

fn at_once(_: &Node, _: &mut Caller, _: SocketAddr) {}

fn hearing(_: &Node, caller: &mut Caller, _: SocketAddr) {
    caller.hear(3);
}

fn recorded(node: &Node, _: &mut Caller, _: SocketAddr) {
    until("it is recorded", || is_recording(node));
}

fn speaking(node: &Node, caller: &mut Caller, to: SocketAddr) {
    recorded(node, caller, to);
    Voice::new(caller, to).tone(400.0, 300);
}

/// The key that ends the recording, with the BYE behind it.
fn closing(node: &Node, caller: &mut Caller, to: SocketAddr) {
    speaking(node, caller, to);
    caller.press('#', to);
}

/// In a room or a queue.
fn seated(node: &Node, _: &mut Caller, _: SocketAddr) {
    until("the member is there", || (sum(node, |shard| shard.voice.members) == 1).then_some(()));
}

fn referred(_: &Node, caller: &mut Caller, _: SocketAddr) {
    caller.phone.expect_request("REFER");
}

#[test]
fn a_caller_may_hang_up_at_every_point_of_verbs_without_a_second_party() {
    let plays: [(&str, &[Point]); 7] = [
        ("<Record action='/after'/>", &[at_once, hearing, recorded, speaking, closing]),
        ("<Gather input='speech dtmf' action='/after' timeout='60'/>", &[at_once, recorded, speaking]),
        (
            "<Dial action='/after'><Conference startConferenceOnEnter='false'>a</Conference></Dial>",
            &[at_once, seated, hearing],
        ),
        (
            "<Dial action='/after' record='true'><Conference record='true'>a</Conference></Dial>",
            &[at_once, seated, speaking],
        ),
        ("<Enqueue action='/after'>a</Enqueue>", &[at_once, seated, hearing]),
        ("<Refer action='/after'><Sip>sip:bob@example.test</Sip></Refer>", &[at_once, referred]),
        ("<Say loop='0'>good day</Say><Reject/>", &[hearing]),
    ];
    for (verbs, points) in plays {
        let document: &'static str = format!("<Response>{verbs}</Response>").leak();
        let documents: Documents = vec![("/", document), AFTER].leak();
        let app = App::new(documents);
        let place = Place::new(&app.voice("/", &super::hear::by_command()));
        let mut node = place.start();
        for (calls, point) in (1..).zip(points) {
            let mut caller = Caller::new(&place);
            let (mut dialog, to) = caller.call();
            point(&node, &mut caller, to);
            assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200, "{verbs}");
            super::nothing_left(&node, calls);
        }
        assert_eq!(came_to(&place, points.len()), vec!["completed"; points.len()], "{verbs}");
        node.stop();
    }
}

/// A Dial's ring tone, and words to the callee before it is joined.
const DIAL: Documents = &[
    (
        "/",
        "<Response><Dial action='/after' ringTone='de'><Client url='/screen'>bob</Client></Dial></Response>",
    ),
    ("/screen", "<Response><Say loop='0'>press a key</Say></Response>"),
    AFTER,
];

#[test]
fn a_caller_may_hang_up_while_the_callee_is_located_and_rings() {
    let mut scene = Scene::new(DIAL);
    let (mut dialog, _) = scene.caller.call();
    // Bob has no phone: the Dial is over as soon as that is known, before the BYE or after it.
    scene.hang_up(&mut dialog);
    scene.over("completed", 1);

    for early in [false, true] {
        let mut scene = Scene::new(DIAL);
        let mut bob = Callee::registered(&scene.place, "bob");
        let (mut dialog, _) = scene.caller.call();
        let invite = bob.invited();
        if early {
            let to_bob = bob.say_with_sound(&invite, "183 Session Progress");
            bob.line.is_heard(0x22, to_bob, &scene.caller);
        } else {
            bob.say(&invite, "180 Ringing");
            scene.caller.hear(3);
        }
        scene.hang_up(&mut dialog);
        bob.cancelled(&invite);
        assert_eq!(
            until("the Dial's end is told", || scene.app.asked_for("/after"))["CallStatus"],
            "completed"
        );
        scene.over("completed", 2);
    }
}

#[test]
fn a_caller_may_hang_up_while_the_callee_is_screened_or_joined() {
    let mut scene = Scene::new(DIAL);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    bob.pick_up();
    bob.line.hear(3);
    scene.hang_up(&mut dialog);
    bob.hung_up();
    scene.over("completed", 2);

    // Both at once.
    let mut scene = Scene::new(&[(
        "/",
        "<Response><Dial record='record-from-ringing-dual'><Client>bob</Client></Dial></Response>",
    )]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, to_caller) = scene.caller.call();
    let (mut leg, _) = bob.pick_up();
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    let (ours, bobs) = (scene.caller.phone.hang_up(&mut dialog), bob.line.phone.hang_up(&mut leg));
    assert!(matches!(scene.caller.phone.final_of(&ours).status(), 200 | 481));
    assert!(matches!(bob.line.phone.final_of(&bobs).status(), 200 | 481));
    for phone in [&mut scene.caller.phone, &mut bob.line.phone] {
        let soon = Deadline::after(Duration::from_millis(100));
        if let Some(bye) = phone.wait(soon, |message| message.is_request() && message.method_name() == b"BYE")
        {
            phone.reply(&bye, "200 OK", "", "");
        }
    }
    scene.over("completed", 2);
}

#[test]
fn a_caller_that_cancels_before_the_answer_ends_all_that_the_call_began() {
    // Rings for a minute.
    let mut scene = Scene::new(&[("/", "<Response><Pause length='60'/><Say>a</Say></Response>")]);
    let sdp = scene.caller.sdp("8", "sendrecv");
    let sent = scene.caller.invite(sdp);
    scene.caller.phone.expect("180", |message| message.status() == 180);
    scene.caller.gives_up(&sent);
    scene.over("canceled", 1);

    // The callee has answered, and is asked.
    let mut scene = Scene::new(&[
        (
            "/",
            "<Response><Dial action='/after' answerOnBridge='true'><Client url='/screen'>bob</Client></Dial></Response>",
        ),
        ("/screen", "<Response><Say loop='0'>press a key</Say></Response>"),
        AFTER,
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let sdp = scene.caller.sdp("8", "sendrecv");
    let sent = scene.caller.invite(sdp);
    bob.pick_up();
    bob.line.hear(3);
    scene.caller.gives_up(&sent);
    bob.hung_up();
    assert_eq!(until("the Dial's end is told", || scene.app.asked_for("/after"))["CallStatus"], "canceled");
    scene.over("canceled", 2);

    // The refusal may be on its way when the caller gives up.
    let mut scene = Scene::new(&[("/", "<Response><Reject reason='busy'/></Response>")]);
    let sdp = scene.caller.sdp("8", "sendrecv");
    let sent = scene.caller.invite(sdp);
    let to = sent.sent.header(sip::wire::Header::To).unwrap().to_vec();
    let cancel = sip::wire::RequestBuilder::from_invite("CANCEL", &sent.sent, &to);
    // One that overtakes the question reaches no application, and is no call of its.
    until("the application is asked", || scene.app.asked_for("/"));
    scene.caller.phone.send(&cancel);
    scene.caller.phone.expect("the answer to CANCEL", |message| {
        message.status() >= 200 && message.cseq().is_some_and(|(_, method)| method == b"CANCEL")
    });
    let status = scene.caller.phone.outcome(&sent).status();
    assert!(matches!(status, 486 | 487), "{status}");
    // The application has refused the call before the CANCEL came to it, or not: the caller sees 487 either way.
    scene.over_as_one_of(if status == 486 { &["busy"] } else { &["canceled", "busy"] }, 1);
}

const ROOM: Documents = &[
    (
        "/",
        "<Response><Dial action='/after'><Conference startConferenceOnEnter='false'>a</Conference></Dial></Response>",
    ),
    ("/leads", "<Response><Dial><Conference endConferenceOnExit='true'>a</Conference></Dial></Response>"),
    ("/queue", "<Response><Enqueue waitUrl='/leave' action='/after'>b</Enqueue></Response>"),
    ("/leave", "<Response><Leave/></Response>"),
    ("/waits", "<Response><Enqueue action='/after'>c</Enqueue></Response>"),
    ("/agent", "<Response><Dial action='/after'><Queue>c</Queue></Dial></Response>"),
    ("/after", "<Response><Hangup/></Response>"),
];

fn rooms() -> (Place, Node) {
    let app = App::new(ROOM);
    let paths = ["/", "/leads", "/queue", "/waits", "/agent"];
    let bound: Vec<String> = (1..)
        .zip(paths)
        .map(|(number, path)| format!("{{ number = \"{number}\", url = \"http://{}{path}\" }}", app.address))
        .collect();
    let place = Place::new(&format!("{}open = true\nnumbers = [{}]\n", section(), bound.join(", ")));
    let node = place.start();
    (place, node)
}

/// Hangs up; the other side may do so at the same time.
#[track_caller]
fn leaves(talker: &mut Talker) {
    let bye = talker.caller.phone.hang_up(&mut talker.dialog);
    let status = talker.caller.phone.final_of(&bye).status();
    assert!(matches!(status, 200 | 481), "{status}");
    let soon = Deadline::after(Duration::from_millis(50));
    let is_bye = |message: &sip::wire::Message| message.is_request() && message.method_name() == b"BYE";
    if let Some(bye) = talker.caller.phone.wait(soon, is_bye) {
        talker.caller.phone.reply(&bye, "200 OK", "", "");
    }
}

#[test]
fn a_moderator_that_leaves_at_once_ends_the_conference_for_waiting_callers() {
    let (place, mut node) = rooms();
    let mut calls = 0;
    for (waits, leads) in [(0, 0), (0, 1), (1, 0)] {
        let mut waiting = Talker::call(&place, "1", waits, 0);
        until("a member waits", || (sum(&node, |shard| shard.voice.members) == 1).then_some(()));
        let mut leader = Talker::call(&place, "2", leads, 0);
        leaves(&mut leader);
        // The leader may or may not have been in the room by then.
        leaves(&mut waiting);
        calls += 2;
        super::nothing_left(&node, calls);
    }
    assert_eq!(came_to(&place, 6), ["completed"; 6]);
    node.stop();
}

#[test]
fn a_caller_that_hangs_up_while_leaving_a_queue_is_in_no_queue() {
    let (place, mut node) = rooms();
    let mut calls = 0;
    for shard in [0, 1, 0, 1] {
        let mut caller = Talker::call(&place, "3", shard, 0);
        leaves(&mut caller);
        calls += 1;
        super::nothing_left(&node, calls);
    }
    for (waits, takes, first) in [(0, 0, true), (0, 1, true), (1, 0, false), (1, 1, false)] {
        let mut caller = Talker::call(&place, "4", waits, 0);
        until("a member waits", || (sum(&node, |shard| shard.voice.members) == 1).then_some(()));
        let mut agent = Talker::call(&place, "5", takes, 0);
        let mut both = [&mut caller, &mut agent];
        if first {
            both.reverse();
        }
        both.into_iter().for_each(leaves);
        calls += 2;
        super::nothing_left(&node, calls);
    }
    assert_eq!(came_to(&place, 12), ["completed"; 12]);
    node.stop();
}

const STREAMS: [&str; 2] = [
    "<Connect action='/after'><Stream url='ws://SITE/s' statusCallback='/status'/></Connect>",
    "<Start><Stream url='ws://SITE/s' track='both_tracks'/></Start><Say loop='0'>good day</Say>",
];

#[test]
fn a_caller_may_hang_up_while_the_stream_is_open() {
    for (verbs, plays) in [(STREAMS[0], false), (STREAMS[1], false), (STREAMS[0], true)] {
        let site = Site::new();
        let document = format!("<Response>{verbs}</Response>");
        let mut scene = Scene::of(site.app(&[("/", &document), AFTER, ("/status", "")]));
        let (mut dialog, _) = scene.caller.call();
        let mut far = site.next();
        far.start();
        if plays {
            far.say(&media::tone::tone(440.0, 12_000, 8_000, 5_000));
            super::stream::heard_by(&scene.caller, 160);
        }
        scene.hang_up(&mut dialog);
        far.event("stop");
        assert!(far.message().is_none());
        scene.over("completed", 1);
    }
}

#[test]
fn a_caller_may_hang_up_while_the_stream_is_being_opened() {
    for verbs in STREAMS {
        // A listener that accepts connections and sends nothing.
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let document = format!(
            "<Response>{}</Response>",
            verbs.replace("SITE", &mute.local_addr().unwrap().to_string())
        );
        let documents: Documents = vec![("/", &*document.leak()), AFTER, ("/status", "")].leak();
        let mut scene = Scene::new(documents);
        let (mut dialog, _) = scene.caller.call();
        let (held, _) = mute.accept().unwrap();
        scene.hang_up(&mut dialog);
        scene.over("completed", 1);
        drop(held);
    }
}

#[test]
fn a_caller_may_hang_up_while_its_message_is_being_sent() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Sms to='bob' action='/after'>good bye</Sms><Pause length='60'/></Response>"),
        AFTER,
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    let message = bob.line.phone.expect_request("MESSAGE");
    scene.hang_up(&mut dialog);
    until("the call is over", || (sum(&scene.node, |shard| shard.voice.calls) == 0).then_some(()));
    bob.line.phone.reply(&message, "200 OK", "a", "");
    scene.over("completed", 1);

    // A relay that says nothing until the caller is gone.
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = App::new(&[(
        "/",
        "<Response><Email to='a@b.test' from='c@d.test'>e</Email><Pause length='60'/></Response>",
    )]);
    let keys = format!(
        "mail_relay = \"{}\"\nmail_security = \"none\"\nmail_sender = \"bounces@belfry.test\"\n",
        relay.local_addr().unwrap()
    );
    let mut scene = Scene::with(app, &keys);
    let (mut dialog, _) = scene.caller.call();
    let (held, _) = relay.accept().unwrap();
    scene.hang_up(&mut dialog);
    until("the call is over", || (sum(&scene.node, |shard| shard.voice.calls) == 0).then_some(()));
    drop((held, relay));
    scene.over("completed", 1);
}
