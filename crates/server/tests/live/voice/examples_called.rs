//! The examples called: the programs and the documents that do the same.

use server::node::Node;
use store::rest::types::Recording;

use super::app::section;
use super::callee::Callee;
use super::examples::{Program, examples};
use super::record::{is_recording, rows};
use super::talker::Talker;
use super::{nothing_left, sum};
use crate::place::Place;
use crate::until;

const TONES: [u32; 3] = [440, 700, 1_250];
/// In the order in which the program prints them: numbers 1 to 5 lead to it, 11 to 15 to the documents.
const NAMES: [&str; 5] = ["voicemail", "phone-tree", "conference", "queue", "agent"];

struct Scene {
    place: Place,
    node: Node,
    /// Before the last digit of a number.
    way: &'static str,
    _program: Program,
}

impl Scene {
    /// `way`: nothing or `1`.
    fn new(way: &'static str) -> Scene {
        let program = Program::start("apps.py", &[], NAMES.len());
        let bound = |(at, url): (usize, &String)| {
            let (number, name) = (at + 1, NAMES[at]);
            format!(
                "{{ number = \"{number}\", url = \"{url}\" }}, {{ number = \"1{number}\", url = \"file:{name}.xml\" }}"
            )
        };
        let numbers: Vec<String> = program.urls.iter().enumerate().map(bound).collect();
        let place = Place::new(&format!(
            "{}open = true\ndocuments = \"{}\"\nnumbers = [{}]\n",
            section(),
            examples().join("documents").display(),
            numbers.join(", ")
        ))
        .with_accounts(&["alice"]);
        let node = place.start();
        Scene { place, node, way, _program: program }
    }

    #[track_caller]
    fn call(&self, digit: char, shard: u64, frequency: u32) -> Talker {
        Talker::call(&self.place, &format!("{}{digit}", self.way), shard, frequency)
    }

    #[track_caller]
    fn ends(mut self, calls: u64) {
        nothing_left(&self.node, calls);
        self.node.stop();
    }
}

#[test]
fn a_message_is_left_heard_and_kept() {
    let scene = Scene::new("");
    let mut caller = scene.call('1', 0, TONES[0]);
    until("it is recorded", || is_recording(&scene.node));
    let packets = || sum(&scene.node, |shard| shard.voice.packets_in);
    let before = packets();
    until("half a second is said", || (packets() >= before + 25).then_some(()));
    caller.press('#');
    // The message is played back.
    caller.hears([TONES[0]], []);
    caller.press('1');
    caller.is_hung_up();
    let kept = std::fs::read_dir(scene.place.path("data/recordings")).unwrap().count();
    assert_eq!(kept, 1);
    scene.ends(1);
}

/// Documents only: alice has no phone, so the caller leaves a message.
#[test]
fn a_call_that_alice_does_not_answer_goes_to_the_voicemail_of_alice() {
    let place = Place::new(&format!(
        "{}open = true\ndocuments = \"{}\"\nnumbers = [{{ number = \"1\", url = \"file:alice.xml\" }}]\n",
        section(),
        examples().join("documents").display(),
    ))
    .with_accounts(&["alice"]);
    let mut node = place.start();
    let mut caller = Talker::call(&place, "1", 0, TONES[0]);
    until("it is recorded", || is_recording(&node));
    let packets = || sum(&node, |shard| shard.voice.packets_in);
    let before = packets();
    until("half a second is said", || (packets() >= before + 25).then_some(()));
    caller.press('#');
    caller.is_hung_up();
    nothing_left(&node, 1);
    let recordings = rows::<Recording>(&place);
    let (to, from): (Vec<&str>, Vec<&str>) =
        recordings.iter().map(|recording| (recording.to.as_str(), recording.from.as_str())).unzip();
    assert_eq!((to, from), (vec!["alice@example.test"], vec!["sipp"]));
    node.stop();
}

#[track_caller]
fn a_key_leads_to_a_phone(way: &'static str) {
    let scene = Scene::new(way);
    let mut alice = Callee::registered(&scene.place, "alice");
    let mut caller = scene.call('2', 0, TONES[0]);
    caller.hears_something_but([]);
    caller.press('1');
    let (dialog, remote) = alice.pick_up();
    let mut alice = Talker::new(alice.line, dialog, remote, TONES[1]);
    caller.hears([TONES[1]], [TONES[0]]);
    alice.hears([TONES[0]], [TONES[1]]);
    alice.hang_up();
    caller.is_hung_up();
    scene.ends(2);
}

#[test]
fn a_key_of_the_programs_phone_tree_leads_to_a_phone() {
    a_key_leads_to_a_phone("");
}

#[test]
fn a_key_of_the_documents_phone_tree_leads_to_a_phone() {
    a_key_leads_to_a_phone("1");
}

#[track_caller]
fn the_moderators_pin_begins_and_ends_a_conference(way: &'static str) {
    let scene = Scene::new(way);
    let enter = |shard, frequency, pin: &str| {
        let mut caller = scene.call('3', shard, frequency);
        caller.hears_something_but([]);
        pin.chars().for_each(|key| caller.press(key));
        caller
    };
    let mut member = enter(0, TONES[0], "1111");
    until("the member waits", || (sum(&scene.node, |shard| shard.voice.members) == 1).then_some(()));
    assert!(!member.has_heard(TONES[1]));
    let mut moderator = enter(1, TONES[1], "9999");
    member.hears([TONES[1]], [TONES[0]]);
    moderator.hears([TONES[0]], [TONES[1]]);
    moderator.hang_up();
    member.is_hung_up();
    scene.ends(2);
}

#[test]
fn the_moderators_pin_begins_and_ends_the_programs_conference() {
    the_moderators_pin_begins_and_ends_a_conference("");
}

#[test]
fn the_moderators_pin_begins_and_ends_the_documents_conference() {
    the_moderators_pin_begins_and_ends_a_conference("1");
}

#[track_caller]
fn an_agent_takes_a_waiting_caller(way: &'static str) {
    let scene = Scene::new(way);
    let mut caller = scene.call('4', 0, TONES[0]);
    until("the call waits", || (sum(&scene.node, |shard| shard.voice.queues) == 1).then_some(()));
    let mut agent = scene.call('5', 1, TONES[1]);
    agent.hears([TONES[0]], [TONES[1]]);
    caller.hears([TONES[1]], [TONES[0]]);
    caller.hang_up();
    // The agent is asked for the next caller.
    agent.hears_something_but(TONES);
    agent.hang_up();
    scene.ends(2);
}

#[test]
fn an_agent_takes_the_caller_in_the_programs_queue() {
    an_agent_takes_a_waiting_caller("");
}

#[test]
fn an_agent_takes_the_caller_in_the_documents_queue() {
    an_agent_takes_a_waiting_caller("1");
}
