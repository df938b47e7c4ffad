//! The promises of the classes: order, at most once or exactly once, credit, bounds, and the end of a peer.

use std::collections::VecDeque;

use cluster::limits::{ACK_DELAY, ACK_STEP, KEEPALIVE, MESSAGE_BYTES, QUEUE_MESSAGES, SILENCE};
use cluster::link::frame::MESSAGE_HEAD;
use cluster::link::{Class, Lane, Link, LinkFault, SendFailure};
use proptest::prelude::*;
use stdx::Instant;

use crate::pair::{Pair, at, message, number};

fn drain(pair: &mut Pair, end: usize, class: Class) -> Vec<u64> {
    std::iter::from_fn(|| pair.ends[end].link.poll_message(class)).map(|message| number(&message)).collect()
}

#[test]
fn a_reconnect_goes_on_where_the_connection_broke() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    for n in 1..=4 {
        pair.ends[0].link.send(at(0), Class::Chat, message(n, 20)).unwrap();
    }
    pair.write(0, at(0), 65_536);
    // Two and a half messages arrive... in one frame, so that none counts.
    pair.read(1, at(0), 23 + 2 * (20 + MESSAGE_HEAD) + 7).unwrap();
    pair.disconnect();
    assert_eq!(drain(&mut pair, 1, Class::Chat), Vec::<u64>::new());
    pair.connect(at(1));
    pair.settle(at(1));
    assert_eq!(drain(&mut pair, 1, Class::Chat), [1, 2, 3, 4]);
    pair.expire(at(1) + ACK_DELAY);
    assert!(pair.ends[0].link.is_empty());
    assert_eq!(pair.ends[0].returned, vec![]);
}

#[test]
fn messages_that_came_before_the_break_are_not_sent_again() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    pair.ends[0].link.send(at(0), Class::Chat, message(1, 20)).unwrap();
    pair.settle(at(0));
    pair.disconnect();
    pair.ends[0].link.send(at(0), Class::Chat, message(2, 20)).unwrap();
    pair.connect(at(1));
    pair.settle(at(1));
    assert_eq!(drain(&mut pair, 1, Class::Chat), [1, 2]);
}

/// The end 1 took the other for dead and makes a new link; the end 0 has the old one. `heard` are the ends that read where the connection goes on before
/// it breaks once more.
#[test]
fn a_new_link_of_one_end_begins_anew_at_both() {
    for heard in [&[][..], &[0], &[1], &[0, 1]] {
        let named = |incarnation| Link::with_incarnation(Lane::Acknowledged, incarnation);
        let mut pair = Pair::of_links([named(10), named(11)]);
        for from in 0..2 {
            pair.ends[from].link.send(at(0), Class::Chat, message(1, 20)).unwrap();
            pair.settle(at(0));
            assert_eq!(drain(&mut pair, 1 - from, Class::Chat), [1]);
        }
        pair.expire(at(0) + ACK_DELAY);
        // One that the owner has not taken yet when the connection breaks, and one that was not sent.
        pair.ends[1].link.send(at(1), Class::Chat, message(2, 20)).unwrap();
        pair.settle(at(1));
        pair.disconnect();
        pair.ends[0].link.send(at(1), Class::Chat, message(3, 20)).unwrap();
        pair.ends[1].link = named(12);
        pair.connect(at(2));
        (0..2).for_each(|end| pair.write(end, at(2), 65_536));
        heard.iter().for_each(|end| pair.read(*end, at(2), usize::MAX).unwrap());
        pair.disconnect();
        pair.connect(at(3));
        pair.settle(at(3));
        let returned: Vec<u64> = pair.ends[0].returned.iter().map(|(_, message)| number(message)).collect();
        assert_eq!(returned, [3], "the link that has ended may have had it");
        assert_eq!(drain(&mut pair, 0, Class::Chat), [2]);
        for (n, from) in [(4, 0), (5, 1), (6, 0), (7, 1)] {
            pair.ends[from].link.send(at(3), Class::Chat, message(n, 20)).unwrap();
            pair.settle(at(3));
            assert_eq!(drain(&mut pair, 1 - from, Class::Chat), [n], "{heard:?}");
        }
        pair.expire(at(4) + ACK_DELAY);
        assert!(pair.ends.iter().all(|end| end.link.is_empty()), "all is acknowledged");
    }
}

#[test]
fn a_link_of_the_version_before_has_no_incarnation_and_goes_on_all_the_same() {
    let links = [Link::new(Lane::Acknowledged), Link::with_incarnation(Lane::Acknowledged, 11)];
    let mut pair = Pair::of_links(links);
    for round in 0..3 {
        for from in 0..2 {
            pair.ends[from].link.send(at(round), Class::Chat, message(round, 20)).unwrap();
        }
        pair.settle(at(round));
        pair.disconnect();
        pair.connect(at(round));
        pair.settle(at(round));
        for end in 0..2 {
            assert_eq!(drain(&mut pair, end, Class::Chat), [round]);
        }
    }
    assert!(pair.ends.iter().all(|end| end.returned.is_empty()));
}

#[test]
fn a_dead_peer_gives_back_all_that_it_did_not_acknowledge() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    for n in 1..=4 {
        pair.ends[0].link.send(at(0), Class::Chat, message(n, 20)).unwrap();
    }
    pair.settle(at(0));
    assert_eq!(pair.ends[1].link.poll_message(Class::Chat).map(|m| number(&m)), Some(1));
    pair.expire(at(0) + ACK_DELAY);
    pair.ends[0].link.send(at(0), Class::Bulk, message(9, 20)).unwrap();
    let mut returned = Vec::new();
    pair.ends[0].link.handle_dead(&mut returned);
    let returned: Vec<_> = returned.iter().map(|(class, message)| (*class, number(message))).collect();
    assert_eq!(returned, [(Class::Chat, 2), (Class::Chat, 3), (Class::Chat, 4), (Class::Bulk, 9)]);
    let refused = pair.ends[0].link.send(at(1), Class::Chat, message(5, 20)).unwrap_err();
    assert_eq!(refused.reason, SendFailure::Dead);
    assert!(pair.ends[0].link.is_empty());
}

/// Writes one end's output; true if there was any, which is a write to a socket and a wake-up of the other node.
fn writes(pair: &mut Pair, from: usize, now: Instant) -> bool {
    pair.write(from, now, 65_536);
    let is_written = !pair.ends[1 - from].incoming.is_empty();
    pair.read(1 - from, now, usize::MAX).unwrap();
    is_written
}

#[test]
fn an_acknowledgement_goes_with_the_next_message_of_the_other_direction() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    let mut written = 0;
    for n in 0..1_000 {
        // A question a millisecond from the one end, the answer to it from the other.
        for from in 0..2 {
            pair.ends[from].link.send(at(n), Class::Chat, message(n, 200)).unwrap();
            written += usize::from(writes(&mut pair, from, at(n)));
            assert_eq!(drain(&mut pair, 1 - from, Class::Chat), [n]);
            // The work of a connection's task after a read.
            written += usize::from(writes(&mut pair, 1 - from, at(n)));
        }
        assert_eq!(pair.ends[0].link.bytes(), 0, "the answer has acknowledged the question");
    }
    assert_eq!(written, 2_000, "a write for each message");
    pair.expire(at(999) + ACK_DELAY);
    assert!(pair.ends.iter().all(|end| end.link.is_empty()));
}

#[test]
fn acknowledgements_alone_go_out_together_and_late() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    let deadline = |pair: &Pair| pair.ends[1].link.deadline().unwrap();
    for n in 1..=3 {
        pair.ends[0].link.send(at(n), Class::Chat, message(n, 200)).unwrap();
        assert!(writes(&mut pair, 0, at(n)));
        assert_eq!(drain(&mut pair, 1, Class::Chat), [n]);
        assert!(!writes(&mut pair, 1, at(n)));
    }
    let due = deadline(&pair);
    assert!(due > at(3) && due <= at(1) + ACK_DELAY, "{due:?}");
    assert_eq!(due.as_micros() % ACK_STEP.as_micros() as u64, 0, "with those of other links");
    pair.ends[1].link.expire(due).unwrap();
    assert!(writes(&mut pair, 1, due) && pair.ends[0].link.is_empty(), "one for all three");
    assert!(deadline(&pair) > due + ACK_DELAY, "nothing but a keep-alive is due");
}

#[test]
fn a_node_that_leaves_acknowledges_at_once() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    pair.ends[0].link.send(at(0), Class::Chat, message(1, 200)).unwrap();
    assert!(writes(&mut pair, 0, at(0)));
    assert_eq!(drain(&mut pair, 1, Class::Chat), [1]);
    assert!(!writes(&mut pair, 1, at(0)));
    pair.ends[1].link.leave();
    assert!(writes(&mut pair, 1, at(0)) && pair.ends[0].link.is_empty(), "of what it had before");
    pair.ends[0].link.send(at(1), Class::Chat, message(2, 200)).unwrap();
    assert!(writes(&mut pair, 0, at(1)));
    assert!(!writes(&mut pair, 1, at(1)), "it has not taken the message");
    assert_eq!(drain(&mut pair, 1, Class::Chat), [2]);
    assert!(writes(&mut pair, 1, at(1)) && pair.ends[0].link.is_empty(), "of what comes afterwards");
    let deadline = pair.ends[1].link.deadline().unwrap();
    assert!(deadline > at(1) + ACK_DELAY, "nothing but a keep-alive is due");
}

#[test]
fn a_message_taken_late_is_acknowledged_at_once_without_earlier_wakeups() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    pair.ends[0].link.send(at(0), Class::Chat, message(1, 200)).unwrap();
    assert!(writes(&mut pair, 0, at(0)));
    let late = at(0) + 2 * ACK_DELAY;
    pair.ends[1].link.expire(late).unwrap();
    assert!(!writes(&mut pair, 1, late), "it is not handled");
    assert!(pair.ends[1].link.deadline().unwrap() > late, "the task of the connection does not spin");
    assert_eq!(drain(&mut pair, 1, Class::Chat), [1]);
    assert!(writes(&mut pair, 1, late) && pair.ends[0].link.is_empty());
}

#[test]
fn acknowledgements_that_wait_do_not_fill_the_queue_of_the_sender() {
    for (class, size) in [(Class::Chat, 8), (Class::Chat, 600), (Class::Bulk, 8), (Class::Bulk, 100_000)] {
        let mut pair = Pair::connected(Lane::Acknowledged);
        // In one moment, more messages and bytes than the queue has room for.
        let most = (2 * class.queue_bytes() / (size + MESSAGE_HEAD)).min(QUEUE_MESSAGES + QUEUE_MESSAGES / 4);
        for n in 0..most as u64 {
            pair.ends[0].link.send(at(0), class, message(n, size)).expect("room in the queue");
            pair.settle(at(0));
            assert_eq!(drain(&mut pair, 1, class).len(), 1);
        }
    }
}

#[test]
fn calls_do_not_wait_for_a_connection() {
    let mut pair = Pair::new(Lane::Prompt);
    let refused = pair.ends[0].link.send(at(0), Class::Call, message(1, 20)).unwrap_err();
    assert_eq!((refused.reason, refused.message), (SendFailure::NotConnected, message(1, 20)));
    let mut pair = Pair::connected(Lane::Prompt);
    pair.ends[0].link.send(at(0), Class::Call, message(1, 20)).unwrap();
    pair.disconnect();
    assert_eq!(pair.ends[0].returned, [(Class::Call, message(1, 20))]);
}

#[test]
fn a_class_that_is_not_handled_delays_no_other() {
    let mut pair = Pair::connected(Lane::Prompt);
    while pair.ends[0].link.send(at(0), Class::Ask, message(0, 1_000)).is_ok() {}
    pair.settle(at(0));
    pair.ends[0].link.send(at(0), Class::Call, message(7, 20)).unwrap();
    pair.settle(at(0));
    assert_eq!(drain(&mut pair, 1, Class::Call), [7]);
    assert!(pair.ends[1].link.bytes() <= Class::Ask.window());
    // Once it is handled, the rest comes.
    let mut count = 0;
    loop {
        let more = drain(&mut pair, 1, Class::Ask).len();
        pair.settle(at(0));
        count += more;
        if more == 0 {
            break;
        }
    }
    assert_eq!(count, Class::Ask.queue_bytes() / (1_000 + MESSAGE_HEAD));
}

#[test]
fn an_urgent_message_waits_for_one_frame_of_a_full_class_at_most() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    while pair.ends[0].link.send(at(0), Class::Bulk, message(0, 1_000)).is_ok() {}
    pair.write(0, at(0), 1);
    pair.ends[0].link.send(at(0), Class::Chat, message(5, 20)).unwrap();
    pair.write(0, at(0), 1);
    pair.read(1, at(0), usize::MAX).unwrap();
    assert_eq!(drain(&mut pair, 1, Class::Chat), [5]);
    assert!(drain(&mut pair, 1, Class::Bulk).len() <= 34, "two frames of 16 KiB");
}

#[test]
fn old_sound_is_dropped_and_counted() {
    let mut pair = Pair::connected(Lane::Prompt);
    pair.ends[0].link.send(at(0), Class::Sound, message(1, 320)).unwrap();
    pair.ends[0].link.send(at(30), Class::Sound, message(2, 320)).unwrap();
    pair.write(0, at(60), 65_536);
    pair.read(1, at(60), usize::MAX).unwrap();
    assert_eq!(drain(&mut pair, 1, Class::Sound), [2]);
    assert_eq!(pair.ends[0].link.dropped(Class::Sound), 1);
}

#[test]
fn refusals_name_their_reason() {
    let mut pair = Pair::connected(Lane::Prompt);
    let mut refused =
        |class, size| pair.ends[0].link.send(at(0), class, message(1, size)).unwrap_err().reason;
    assert_eq!(refused(Class::Call, MESSAGE_BYTES + 1), SendFailure::TooLong);
    assert_eq!(refused(Class::Chat, 1), SendFailure::OtherLane);
    while pair.ends[0].link.has_room(Class::Call, 100_000) {
        pair.ends[0].link.send(at(0), Class::Call, message(1, 100_000)).unwrap();
    }
    let full = pair.ends[0].link.send(at(0), Class::Call, message(1, 100_000)).unwrap_err();
    assert_eq!(full.reason, SendFailure::Full);
}

#[test]
fn an_idle_connection_is_kept_alive_and_a_silent_one_is_cut() {
    let mut pair = Pair::connected(Lane::Prompt);
    for second in 1..10 {
        for end in 0..2 {
            pair.ends[end].link.expire(at(second * 1_000)).unwrap();
        }
        pair.settle(at(second * 1_000));
    }
    assert_eq!(pair.ends[0].link.deadline(), Some(at(9_000) + KEEPALIVE));
    assert_eq!(pair.ends[0].link.expire(at(9_000) + SILENCE), Err(LinkFault::Silent));
}

#[test]
fn keep_alives_of_many_connections_go_out_together() {
    let deadline = |written: u64| {
        let mut pair = Pair::connected(Lane::Prompt);
        pair.ends[0].link.send(at(written), Class::Call, message(1, 8)).unwrap();
        pair.settle(at(written));
        pair.ends[0].link.deadline()
    };
    let written = [9_000, 9_001, 9_250, 9_499];
    assert_eq!(written.map(deadline), [Some(at(10_000)); 4]);
    assert_eq!([9_500, 9_999].map(deadline), [Some(at(10_500)); 2]);
}

/// One step of a run; numbers choose the end, the class, sizes.
#[derive(Clone, Debug)]
enum Step {
    Send(usize, bool, usize),
    Write(usize, usize),
    Read(usize, usize),
    Handle(usize, bool),
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    let end = 0..2_usize;
    prop_oneof![
        4 => (end.clone(), any::<bool>(), 8..3_000_usize).prop_map(|(end, first, size)| Step::Send(end, first, size)),
        3 => (end.clone(), 1..40_000_usize).prop_map(|(end, room)| Step::Write(end, room)),
        4 => (end.clone(), 1..40_000_usize).prop_map(|(end, most)| Step::Read(end, most)),
        3 => (end, any::<bool>()).prop_map(|(end, first)| Step::Handle(end, first)),
        1 => Just(Step::Break),
    ]
}

/// Sent and not yet handled, of each end and class.
type Pending = [[VecDeque<u64>; 2]; 2];

fn handle(pair: &mut Pair, end: usize, class: usize, classes: [Class; 2], pending: &mut Pending) {
    let Some(found) = pair.ends[end].link.poll_message(classes[class]) else { return };
    let expected = &mut pending[1 - end][class];
    if classes[class].is_acknowledged() {
        assert_eq!(Some(number(&found)), expected.pop_front());
    } else {
        // Some may be lost; none comes twice or out of order.
        let place = expected.iter().position(|sent| *sent == number(&found)).expect("sent and not yet seen");
        expected.drain(..=place);
    }
}

fn play(lane: Lane, classes: [Class; 2], steps: Vec<Step>) {
    let mut pair = Pair::connected(lane);
    let mut pending = Pending::default();
    let mut next = 0;
    for (time, step) in (0..).zip(steps) {
        let now = at(time);
        match step {
            Step::Send(end, first, size) => {
                next += 1;
                let class = usize::from(first);
                if pair.ends[end].link.send(now, classes[class], message(next, size)).is_ok() {
                    pending[end][class].push_back(next);
                }
            }
            Step::Write(end, room) => pair.write(end, now, room),
            Step::Read(end, most) => pair.read(end, now, most).unwrap(),
            Step::Handle(end, first) => handle(&mut pair, end, usize::from(first), classes, &mut pending),
            Step::Break => {
                pair.disconnect();
                pair.connect(now);
            }
        }
        for end in &pair.ends {
            let most: usize = classes.iter().map(|class| class.window() + class.queue_bytes()).sum();
            assert!(end.link.bytes() <= most);
        }
    }
    for _ in 0..1_000 {
        pair.expire(at(1_000));
        for (end, class) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            handle(&mut pair, end, class, classes, &mut pending);
        }
    }
    pair.expire(at(1_000) + ACK_DELAY);
    assert!(pair.ends.iter().all(|end| end.link.is_empty()), "nothing stays behind");
    if lane == Lane::Acknowledged {
        assert_eq!(pending, Pending::default(), "every message came once and in order");
        assert!(pair.ends.iter().all(|end| end.returned.is_empty()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn acknowledged_classes_deliver_each_message_once_and_in_order(steps in proptest::collection::vec(step(), 1..300)) {
        play(Lane::Acknowledged, [Class::Chat, Class::Bulk], steps);
    }

    #[test]
    fn the_other_classes_deliver_at_most_once_and_in_order(steps in proptest::collection::vec(step(), 1..300)) {
        play(Lane::Prompt, [Class::Call, Class::Ask], steps);
    }
}
