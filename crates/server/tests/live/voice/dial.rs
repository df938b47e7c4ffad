//! Dial: phones of ours ring, answer, refuse or are not there, and their callers hear of it.

use server::node::Node;
use sip::wire::Header;

use super::app::{App, Form};
use super::callee::Callee;
use super::caller::Caller;
use super::nothing_left;
use crate::call::Dialog;
use crate::phone::text;
use crate::place::Place;
use crate::until;

pub(crate) type Documents = &'static [(&'static str, &'static str)];

/// An application, a node with accounts bob and carol, and a caller of the application's number.
pub(crate) struct Scene {
    pub(crate) app: App,
    pub(crate) place: Place,
    pub(crate) node: Node,
    pub(crate) caller: Caller,
}

impl Scene {
    pub(crate) fn new(documents: Documents) -> Scene {
        Scene::of(App::new(documents))
    }

    pub(crate) fn of(app: App) -> Scene {
        Scene::with(app, "")
    }

    /// With more lines of `[voice]`.
    pub(crate) fn with(app: App, more: &str) -> Scene {
        let place = Place::new(&app.voice("/", more)).with_accounts(&["bob", "carol"]);
        let node = place.start();
        let caller = Caller::new(&place);
        Scene { app, place, node, caller }
    }

    /// The request that the application got at the end of its Dial.
    #[track_caller]
    pub(crate) fn dialed(&self) -> Form {
        until("the Dial is over", || self.app.asked_for("/dialed"))
    }

    /// All parties have hung up.
    #[track_caller]
    pub(crate) fn ends(mut self, calls: u64) {
        nothing_left(&self.node, calls);
        self.node.stop();
    }

    #[track_caller]
    pub(crate) fn hang_up(&mut self, dialog: &mut Dialog) {
        assert_eq!(self.caller.phone.within(dialog, "BYE").status(), 200);
    }
}

/// Bob is joined on answering; the caller waits ten minutes afterwards.
const DIAL_BOB: Documents = &[
    ("/", "<Response><Dial action='/dialed' timeout='20'><Client>bob</Client></Dial></Response>"),
    ("/dialed", "<Response><Pause length='600'/></Response>"),
];

#[test]
fn a_dialled_phone_answers_and_both_sides_hear_each_other_until_the_caller_leaves() {
    let mut scene = Scene::new(DIAL_BOB);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, to_caller) = scene.caller.call();
    let invite = bob.invited();
    assert!(text(invite.header(Header::From)).starts_with("\"sipp\" <sip:sipp@example.test>;tag="));
    assert_eq!(text(invite.header(Header::To)), "<sip:bob@example.test>");
    bob.say(&invite, "180 Ringing");
    scene.caller.hear(10);
    let (_, to_bob) = bob.take(&invite);
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    bob.line.is_heard(0x22, to_bob, &scene.caller);
    scene.hang_up(&mut dialog);
    bob.hung_up();
    let form = scene.dialed();
    assert_eq!(form["DialCallStatus"], "completed");
    scene.ends(2);
}

#[test]
fn a_caller_continues_with_the_application_when_the_callee_hangs_up() {
    let mut scene = Scene::new(DIAL_BOB);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, to_caller) = scene.caller.call();
    let (mut leg, _) = bob.pick_up();
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    assert_eq!(bob.line.phone.within(&mut leg, "BYE").status(), 200);
    let form = scene.dialed();
    assert_eq!((&*form["DialCallStatus"], &*form["CallStatus"]), ("completed", "in-progress"));
    assert!(form["DialCallSid"].starts_with("CA") && form["DialCallSid"] != form["CallSid"]);
    scene.hang_up(&mut dialog);
    scene.ends(2);
}

#[test]
fn the_dial_status_says_why_a_callee_did_not_answer() {
    for (answer, status, code) in [
        (Some("486 Busy Here"), "busy", "486"),
        (Some("603 Decline"), "busy", "603"),
        (Some("480 Temporarily Unavailable"), "no-answer", "480"),
        (Some("404 Not Found"), "failed", "404"),
        // Bob has no phone now.
        (None, "no-answer", "480"),
    ] {
        let mut scene = Scene::new(DIAL_BOB);
        let bob = answer.map(|_| Callee::registered(&scene.place, "bob"));
        let (mut dialog, _) = scene.caller.call();
        if let (Some(mut bob), Some(answer)) = (bob, answer) {
            bob.refuse(answer);
        }
        let form = scene.dialed();
        assert_eq!((&*form["DialCallStatus"], &*form["DialSipResponseCode"]), (status, code));
        scene.hang_up(&mut dialog);
        scene.ends(1 + u64::from(answer.is_some()));
    }
}

#[test]
fn a_dial_to_an_unknown_client_fails() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed'>999</Dial></Response>"),
        ("/dialed", "<Response><Pause length='600'/></Response>"),
    ]);
    let (mut dialog, _) = scene.caller.call();
    let form = scene.dialed();
    assert_eq!((&*form["DialCallStatus"], &*form["DialSipResponseCode"]), ("failed", "404"));
    scene.hang_up(&mut dialog);
    scene.ends(1);
}

#[test]
fn a_callee_that_rings_too_long_is_cancelled() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed' timeout='1'><Client>bob</Client></Dial></Response>"),
        ("/dialed", "<Response><Pause length='600'/></Response>"),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    let invite = bob.invited();
    bob.say(&invite, "180 Ringing");
    bob.cancelled(&invite);
    assert_eq!(scene.dialed()["DialCallStatus"], "no-answer");
    scene.hang_up(&mut dialog);
    scene.ends(2);
}

#[test]
fn the_first_of_two_parties_to_answer_is_joined_and_the_other_cancelled() {
    let mut scene = Scene::new(&[
        (
            "/",
            "<Response><Dial action='/dialed'><Client>bob</Client><Client>carol</Client></Dial></Response>",
        ),
        ("/dialed", "<Response><Pause length='600'/></Response>"),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let mut carol = Callee::registered(&scene.place, "carol");
    let (mut dialog, to_caller) = scene.caller.call();
    let invite = bob.invited();
    bob.say(&invite, "180 Ringing");
    carol.pick_up();
    bob.cancelled(&invite);
    scene.caller.is_heard(0x11, to_caller, &carol.line);
    scene.hang_up(&mut dialog);
    carol.hung_up();
    scene.ends(3);
}

#[test]
fn the_phones_of_one_party_ring_together_and_are_one_leg() {
    let mut scene = Scene::new(&[
        (
            "/",
            "<Response><Dial action='/dialed'><Client statusCallback='/leg' \
             statusCallbackEvent='initiated ringing answered completed'>bob</Client></Dial></Response>",
        ),
        ("/dialed", "<Response><Pause length='600'/></Response>"),
    ]);
    let mut desk = Callee::registered(&scene.place, "bob");
    let mut mobile = Callee::registered(&scene.place, "bob");
    let (mut dialog, to_caller) = scene.caller.call();
    let invite = desk.invited();
    desk.say(&invite, "180 Ringing");
    let (mut leg, _) = mobile.pick_up();
    desk.cancelled(&invite);
    scene.caller.is_heard(0x11, to_caller, &mobile.line);
    assert_eq!(mobile.line.phone.within(&mut leg, "BYE").status(), 200);
    scene.dialed();
    let statuses = || {
        let asked = scene.app.asked.lock().unwrap();
        let legs = asked.iter().filter(|(path, _)| path == "/leg");
        let mut statuses: Vec<_> = legs.map(|(_, form)| form["CallStatus"].clone()).collect();
        statuses.sort();
        (statuses.len() >= 4).then_some(statuses)
    };
    let statuses = until("its four events are told", statuses);
    assert_eq!(statuses, ["completed", "in-progress", "initiated", "ringing"], "each once");
    scene.hang_up(&mut dialog);
    scene.ends(3);
}

#[test]
fn an_answer_that_crosses_the_cancel_is_acknowledged_and_ended() {
    let mut scene = Scene::new(DIAL_BOB);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    let invite = bob.invited();
    bob.say(&invite, "180 Ringing");
    scene.caller.hear(5);
    scene.hang_up(&mut dialog);
    let cancel = bob.line.phone.expect_request("CANCEL");
    bob.line.phone.reply(&cancel, "200 OK", "", "");
    bob.take(&invite);
    bob.hung_up();
    scene.ends(2);
}

/// The caller's INVITE is answered when the callee answers its own.
const ANSWER_ON_BRIDGE: Documents = &[
    ("/", "<Response><Dial action='/dialed' answerOnBridge='true'><Client>bob</Client></Dial></Response>"),
    ("/dialed", "<Response><Pause length='600'/></Response>"),
];

#[test]
fn answer_on_bridge_answers_the_caller_when_the_callee_answers() {
    let mut scene = Scene::new(ANSWER_ON_BRIDGE);
    let mut bob = Callee::registered(&scene.place, "bob");
    let sdp = scene.caller.sdp("8", "sendrecv");
    let sent = scene.caller.invite(sdp);
    let invite = bob.invited();
    bob.say(&invite, "180 Ringing");
    scene.caller.phone.expect("180", |message| message.status() == 180);
    let (_, to_bob) = bob.take(&invite);
    let mut dialog = scene.caller.phone.answered(&sent);
    bob.line.is_heard(0x22, to_bob, &scene.caller);
    scene.hang_up(&mut dialog);
    bob.hung_up();
    scene.ends(2);
}

#[test]
fn a_caller_that_cancels_cancels_its_callee() {
    let mut scene = Scene::new(ANSWER_ON_BRIDGE);
    let mut bob = Callee::registered(&scene.place, "bob");
    let sdp = scene.caller.sdp("8", "sendrecv");
    let sent = scene.caller.invite(sdp);
    let invite = bob.invited();
    bob.say(&invite, "180 Ringing");
    scene.caller.phone.expect("180", |message| message.status() == 180);
    scene.caller.gives_up(&sent);
    bob.cancelled(&invite);
    scene.ends(2);
}
