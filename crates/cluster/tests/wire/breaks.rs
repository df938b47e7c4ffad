//! Connections that break at any byte, and what the next one makes good: messages of the classes call and ask come once and in order.

use cluster::limits::{CONFIRMATION, CONFIRMATION_BYTES, MESSAGE_AGE, SILENCE, UNCONFIRMED};
use cluster::link::{Class, Lane, Link, LinkFault, SendFailure};
use proptest::prelude::*;

use crate::pair::{Pair, at, message, number};

fn drain(pair: &mut Pair, end: usize, class: Class) -> Vec<u64> {
    std::iter::from_fn(|| pair.ends[end].link.poll_message(class)).map(|message| number(&message)).collect()
}

fn send(pair: &mut Pair, from: usize, class: Class, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        pair.ends[from].link.send(at(0), class, message(number, 20)).unwrap();
    }
}

/// Confirmations are due, and go.
fn confirm(pair: &mut Pair, millis: u64) {
    for end in &mut pair.ends {
        end.link.expire(at(millis)).unwrap();
    }
    pair.settle(at(millis));
}

#[test]
fn a_break_at_each_byte_loses_and_repeats_nothing_in_either_direction() {
    let both = |pair: &mut Pair| {
        for end in 0..2 {
            send(pair, end, Class::Call, 1..=3);
            send(pair, end, Class::Ask, 4..=5);
            pair.write(end, at(0), 65_536);
        }
    };
    let mut whole = Pair::connected(Lane::Prompt);
    both(&mut whole);
    let length = whole.ends[0].incoming.len();
    for (first, second) in (0..=length).flat_map(|first| [0, first, length].map(|second| (first, second))) {
        let mut pair = Pair::connected(Lane::Prompt);
        both(&mut pair);
        pair.read(0, at(0), first).unwrap();
        pair.read(1, at(0), second).unwrap();
        pair.disconnect();
        pair.connect(at(1));
        // The next connection breaks, too, while it says where it goes on.
        pair.write(0, at(1), 65_536);
        pair.read(1, at(1), first).unwrap();
        pair.disconnect();
        pair.connect(at(2));
        pair.settle(at(2));
        for end in 0..2 {
            assert_eq!(drain(&mut pair, end, Class::Call), [1, 2, 3], "broken at {first} and {second}");
            assert_eq!(drain(&mut pair, end, Class::Ask), [4, 5], "broken at {first} and {second}");
            assert_eq!(pair.ends[end].returned, vec![]);
        }
        confirm(&mut pair, 300);
        assert!(pair.ends.iter().all(|end| end.link.is_empty()));
    }
}

#[test]
fn messages_that_were_never_written_come_back_at_once() {
    let mut pair = Pair::connected(Lane::Prompt);
    send(&mut pair, 0, Class::Call, 1..=2);
    pair.write(0, at(0), 65_536);
    send(&mut pair, 0, Class::Call, 3..=4);
    pair.disconnect();
    let returned: Vec<_> = pair.ends[0].returned.iter().map(|(_, message)| number(message)).collect();
    assert_eq!(returned, [3, 4]);
    let refused = pair.ends[0].link.send(at(0), Class::Call, message(5, 20)).unwrap_err();
    assert_eq!(refused.reason, SendFailure::NotConnected);
    pair.connect(at(1));
    pair.settle(at(1));
    send(&mut pair, 0, Class::Call, [6]);
    pair.settle(at(1));
    assert_eq!(drain(&mut pair, 1, Class::Call), [1, 2, 6]);
}

#[test]
fn a_dead_peer_gives_nothing_back_that_it_may_have_received() {
    let mut pair = Pair::connected(Lane::Prompt);
    send(&mut pair, 0, Class::Call, [1]);
    pair.write(0, at(0), 65_536);
    send(&mut pair, 0, Class::Call, [2]);
    let mut returned = Vec::new();
    pair.ends[0].link.handle_dead(&mut returned);
    assert_eq!(returned.iter().map(|(_, message)| number(message)).collect::<Vec<_>>(), [2]);
    assert_eq!(pair.ends[0].link.dropped(Class::Call), 1);
    assert!(pair.ends[0].link.is_empty() && pair.ends[0].link.bytes() == 0);
}

#[test]
fn a_message_that_waited_for_a_connection_for_too_long_is_not_sent_again() {
    let mut pair = Pair::connected(Lane::Prompt);
    send(&mut pair, 0, Class::Call, [1]);
    pair.ends[0].link.send(at(1_000), Class::Call, message(2, 20)).unwrap();
    pair.write(0, at(1_000), 65_536);
    pair.disconnect();
    let late = at(1_000) + MESSAGE_AGE;
    pair.connect(late);
    pair.ends[0].link.send(late, Class::Ask, message(3, 20)).unwrap_err();
    pair.settle(late);
    pair.ends[0].link.send(late, Class::Call, message(4, 20)).unwrap();
    pair.settle(late);
    assert_eq!(drain(&mut pair, 1, Class::Call), [2, 4]);
    assert_eq!(pair.ends[0].link.dropped(Class::Call), 1);
}

#[test]
fn messages_are_confirmed_soon_and_with_few_bytes() {
    let mut pair = Pair::connected(Lane::Prompt);
    send(&mut pair, 0, Class::Call, 1..=9);
    pair.settle(at(0));
    let deadline = pair.ends[1].link.deadline().unwrap();
    assert!(deadline <= at(0) + CONFIRMATION, "{deadline:?}");
    assert!(!pair.ends[1].link.has_output(), "a message of the other direction may carry it");
    pair.ends[1].link.expire(deadline).unwrap();
    pair.write(1, deadline, 65_536);
    assert!(pair.ends[0].incoming.len() < 10);
    pair.settle(deadline);
    assert!(pair.ends[0].link.is_empty(), "they are confirmed, though not handled");
    assert_eq!(pair.ends[1].link.deadline(), Pair::connected(Lane::Prompt).ends[1].link.deadline());
}

#[test]
fn messages_of_the_other_direction_confirm() {
    let mut pair = Pair::connected(Lane::Prompt);
    send(&mut pair, 0, Class::Call, [1]);
    pair.settle(at(0));
    send(&mut pair, 1, Class::Call, [1]);
    pair.settle(at(0));
    assert_eq!(drain(&mut pair, 0, Class::Call), [1]);
    assert!(pair.ends[0].link.is_empty());
    let mut alone = Vec::new();
    pair.ends[1].link.expire(at(200)).unwrap();
    pair.ends[1].link.poll_output(at(200), 65_536, &mut alone);
    assert_eq!(alone, []);
}

#[test]
fn many_bytes_are_confirmed_at_once() {
    let mut pair = Pair::connected(Lane::Prompt);
    let before = pair.ends[0].link.bytes();
    pair.ends[0].link.send(at(0), Class::Ask, message(1, CONFIRMATION_BYTES)).unwrap();
    pair.settle(at(0));
    assert_eq!(pair.ends[0].link.bytes(), before);
}

#[test]
fn a_peer_that_confirms_nothing_is_cut_off_and_has_all_after_the_next_connection() {
    let mut pair = Pair::connected(Lane::Prompt);
    pair.ends[0].link.send(at(0), Class::Call, message(1, 20)).unwrap();
    // The way to the peer is cut, and the peer's keep-alives still come.
    pair.write(0, at(0), 65_536);
    pair.ends[1].incoming.clear();
    pair.ends[1].link.expire(at(1_000)).unwrap();
    pair.write(1, at(1_000), 65_536);
    pair.read(0, at(1_000), usize::MAX).unwrap();
    pair.ends[0].link.expire(at(1_999)).unwrap();
    pair.write(0, at(1_999), 65_536);
    let cut_off = at(0) + UNCONFIRMED;
    assert_eq!(pair.ends[0].link.deadline(), Some(cut_off));
    assert!(UNCONFIRMED < SILENCE);
    assert_eq!(pair.ends[0].link.expire(cut_off), Err(LinkFault::Unconfirmed));
    pair.disconnect();
    assert_eq!(pair.ends[0].returned, vec![]);
    pair.connect(at(3_000));
    pair.settle(at(3_000));
    assert_eq!(drain(&mut pair, 1, Class::Call), [1]);
}

#[test]
fn an_owner_that_takes_nothing_is_no_reason_to_end_a_connection() {
    let mut pair = Pair::connected(Lane::Prompt);
    while pair.ends[0].link.send(at(0), Class::Ask, message(0, 1_000)).is_ok() {}
    for tenth in 0..100 {
        confirm(&mut pair, tenth * 100);
    }
    assert!(pair.ends[1].link.bytes() <= Class::Ask.window());
}

#[test]
fn what_waits_for_confirmation_is_bounded_and_more_is_refused() {
    let mut pair = Pair::connected(Lane::Prompt);
    let mut taken = 0;
    let refused = loop {
        match pair.ends[0].link.send(at(0), Class::Call, message(0, 1_000)) {
            Ok(()) => taken += 1_000,
            Err(error) => break error.reason,
        }
        // The bytes leave, and are lost.
        pair.write(0, at(0), 65_536);
        assert!(taken <= Class::Call.queue_bytes());
    };
    assert_eq!(refused, SendFailure::Full);
    assert!(pair.ends[0].link.bytes() <= Class::Call.queue_bytes());
}

/// A peer that was gone from a node's view for a while: the node has a new link to it, and the peer has the old one.
#[test]
fn a_link_begins_anew_with_a_peer_that_has_forgotten_it() {
    let mut pair = Pair::connected(Lane::Prompt);
    for end in 0..2 {
        send(&mut pair, end, Class::Call, 1..=5);
        pair.settle(at(0));
        send(&mut pair, end, Class::Call, 6..=7);
        pair.write(end, at(0), 65_536);
    }
    pair.disconnect();
    pair.ends[1].link = Link::new(Lane::Prompt);
    assert_eq!(drain(&mut pair, 0, Class::Call), [1, 2, 3, 4, 5]);
    pair.connect(at(1));
    pair.settle(at(1));
    for end in 0..2 {
        send(&mut pair, end, Class::Call, [8]);
        pair.settle(at(1));
        assert_eq!(drain(&mut pair, 1 - end, Class::Call), [8]);
    }
    pair.disconnect();
    pair.connect(at(2));
    pair.settle(at(2));
    assert_eq!(drain(&mut pair, 0, Class::Call), Vec::<u64>::new());
}

#[test]
fn a_peer_of_version_1_is_sent_each_message_once_at_most_and_no_confirmation() {
    let mut pair = Pair::connected_by(Lane::Prompt, 1);
    send(&mut pair, 0, Class::Call, 1..=2);
    pair.settle(at(0));
    assert!(pair.ends[0].link.is_empty(), "nothing waits for a confirmation");
    confirm(&mut pair, 300);
    send(&mut pair, 0, Class::Call, [3]);
    pair.write(0, at(300), 65_536);
    pair.disconnect();
    pair.connect(at(301));
    pair.settle(at(301));
    send(&mut pair, 0, Class::Call, [4]);
    pair.settle(at(301));
    assert_eq!(drain(&mut pair, 1, Class::Call), [1, 2, 4]);
    let confirmation = [0, 0, 0, 4, 0xf5, 0, 1, 1];
    let fault = pair.ends[0].link.handle_bytes(at(302), &confirmation).unwrap_err();
    assert_eq!(fault, LinkFault::Order { number: 0xf5 });
}

/// One step of a run: numbers choose the end and amounts of bytes.
#[derive(Clone, Debug)]
enum Step {
    Send(usize, bool, usize),
    Write(usize, usize),
    Read(usize, usize),
    Handle(usize, bool),
    Expire(u64),
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    let end = 0..2_usize;
    prop_oneof![
        4 => (end.clone(), any::<bool>(), 8..3_000_usize).prop_map(|(end, first, size)| Step::Send(end, first, size)),
        4 => (end.clone(), 1..40_000_usize).prop_map(|(end, room)| Step::Write(end, room)),
        4 => (end.clone(), 1..40_000_usize).prop_map(|(end, most)| Step::Read(end, most)),
        3 => (end, any::<bool>()).prop_map(|(end, first)| Step::Handle(end, first)),
        1 => (1..300_u64).prop_map(Step::Expire),
        2 => Just(Step::Break),
    ]
}

const CLASSES: [Class; 2] = [Class::Call, Class::Ask];

/// Plays the steps within [`MESSAGE_AGE`]; at the end, every message that was taken and not given back has come once and in order.
fn play(steps: Vec<Step>) {
    let mut pair = Pair::connected(Lane::Prompt);
    // By sender and class.
    let (mut sent, mut came) = (<[[Vec<u64>; 2]; 2]>::default(), <[[Vec<u64>; 2]; 2]>::default());
    let (mut next, mut millis) = (0, 0);
    for step in steps {
        let now = at(millis);
        match step {
            Step::Send(end, first, size) => {
                next += 1;
                let class = usize::from(first);
                if pair.ends[end].link.send(now, CLASSES[class], message(next, size)).is_ok() {
                    sent[end][class].push(next);
                }
            }
            Step::Write(end, room) => pair.write(end, now, room),
            Step::Read(end, most) => pair.read(end, now, most).unwrap(),
            Step::Handle(end, first) => {
                let class = usize::from(first);
                let found = pair.ends[end].link.poll_message(CLASSES[class]);
                came[1 - end][class].extend(found.as_ref().map(number));
            }
            Step::Expire(more) => {
                // A fault ends the connection.
                millis = (millis + more).min(4_000);
                if pair.ends.iter_mut().any(|end| end.link.expire(at(millis)).is_err()) {
                    pair.disconnect();
                    pair.connect(at(millis));
                }
            }
            Step::Break => {
                pair.disconnect();
                pair.connect(now);
            }
        }
        for end in &pair.ends {
            let most: usize = CLASSES.iter().map(|class| class.window() + class.queue_bytes()).sum();
            assert!(end.link.bytes() <= most);
        }
    }
    pair.disconnect();
    pair.connect(at(4_000));
    pair.settle(at(4_000));
    confirm(&mut pair, 4_300);
    for end in 0..2 {
        for (class, of) in CLASSES.into_iter().enumerate() {
            came[1 - end][class].extend(drain(&mut pair, end, of));
        }
    }
    for (end, sent) in pair.ends.iter().zip(&mut sent) {
        let returned: Vec<u64> = end.returned.iter().map(|(_, message)| number(message)).collect();
        sent.iter_mut().for_each(|sent| sent.retain(|number| !returned.contains(number)));
    }
    assert_eq!(came, sent);
    assert!(pair.ends.iter().all(|end| end.link.is_empty()), "nothing stays behind");
    assert!(pair.ends.iter().all(|end| end.link.bytes() == 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn call_and_ask_come_once_and_in_order_over_any_breaks(steps in proptest::collection::vec(step(), 1..300)) {
        play(steps);
    }
}
