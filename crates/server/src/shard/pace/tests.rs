use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cluster::link::{Class, Message};
use cluster::map::FarmMap;
use cluster::member::{MemberState, Roles};
use cluster::{Epoch, Life};
use farm::view::FarmPeer;

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A farm of nodes with so many shards at these hosts, seen by the first.
fn view(nodes: &[(&str, u16)]) -> FarmView {
    let peer = |host: &str, shards| FarmPeer {
        name: host.into(),
        address: format!("{host}:5280").parse().unwrap(),
        shards,
        build: "0".into(),
        state: MemberState::Serving,
        roles: Roles::default(),
        weight: 100,
        is_suspect: false,
    };
    let peers: BTreeMap<Life, FarmPeer> =
        (1..).zip(nodes).map(|(life, (host, shards))| (Life(life), peer(host, *shards))).collect();
    FarmView { own: Life(1), map: FarmMap::default(), peers, is_council_away: false }
}

/// The pace of a shard with links that naps at most so long, and twice as long while only chat comes.
fn crowded(longest: Duration) -> Pace {
    Pace { longest, longest_of_chat: 2 * longest, has_links: true, ..Pace::default() }
}

/// A turn with so many SIP messages.
fn turn(pace: &mut Pace, now: Instant, messages: usize, tick: Option<Instant>) -> Option<Duration> {
    pace.note_packets(messages);
    pace.choose(now, messages, tick)
}

/// Turns over `messages` of calls each, one every `every`, for so long; the last nap.
fn run(
    pace: &mut Pace,
    now: &mut Instant,
    passed: Duration,
    every: Duration,
    messages: usize,
) -> Option<Duration> {
    let end = *now + passed;
    let mut last = None;
    while *now < end {
        *now = *now + every;
        last = turn(pace, *now, messages, None);
    }
    last
}

#[test]
fn a_shard_naps_while_messages_come_quickly() {
    let (mut pace, mut now) = (Pace::default(), Instant::from_unix_seconds(1));
    assert_eq!(run(&mut pace, &mut now, 45 * MS, MS, 2), Some(NAP));
    assert_eq!(run(&mut pace, &mut now, 3 * WINDOW, WINDOW, 1), None);
}

#[test]
fn the_first_message_after_silence_finds_a_shard_that_waits_for_it() {
    for mut pace in [Pace::default(), crowded(LONGEST)] {
        let mut now = Instant::from_unix_seconds(1);
        assert_eq!(pace.next(), NextTurn::Wait, "before any");
        assert_eq!(pace.choose(now, 1, None), None);
        assert_eq!(pace.next(), NextTurn::Wait);
        run(&mut pace, &mut now, SECOND, MS, 6);
        assert!(pace.nap.is_some(), "busy");
        assert_eq!(pace.choose(now + MS, 0, None), None, "a look that finds nothing");
        assert_eq!(pace.next(), NextTurn::Wait);
        assert_eq!(pace.choose(now + SECOND, 1, None), None);
        assert_eq!(pace.next(), NextTurn::Wait, "of one that comes alone");
    }
}

#[test]
fn a_nap_is_as_long_as_a_batch_takes_to_come() {
    let of = |a_second: u32, longest| nap(a_second, SECOND, longest).map(|nap| nap.as_micros());
    // A machine of its own.
    assert_eq!(of(999, NAP), None);
    assert_eq!(of(1_000, NAP), Some(1_000));
    assert_eq!(of(50_000, NAP), Some(1_000));
    // One that it shares.
    assert_eq!(of(0, LONGEST), None);
    assert_eq!(of(249, LONGEST), None, "less than one a nap");
    assert_eq!(of(250, LONGEST), Some(4_000));
    assert_eq!(of(5_000, LONGEST), Some(4_000));
    assert_eq!(of(12_500, LONGEST), Some(1_920));
    assert_eq!(of(30_000, LONGEST), Some(1_000));
}

#[test]
fn nodes_of_one_machine_nap_longer() {
    let longest = |nodes: &[(&str, u16)], cores| longest_nap(&view(nodes), cores, LONGEST);
    let (here, there) = (("10.0.0.1", 1), ("10.0.0.2", 1));
    assert_eq!(longest(&[], 2), NAP, "the node does not see itself yet");
    assert_eq!(longest(&[("10.0.0.1", 4)], 2), NAP, "alone, with any number of shards");
    assert_eq!(longest(&[here, there, there], 2), NAP, "each has its own");
    assert_eq!(longest(&[here, here, there], 2), 2 * MS);
    assert_eq!(longest(&[here; 3], 2), 3 * MS);
    assert_eq!(longest(&[here; 16], 2), LONGEST);
    assert_eq!(longest(&[here; 4], 64), NAP, "there are cores enough");
    assert_eq!(longest(&[("10.0.0.1", 32); 2], 64), 2 * MS);
}

/// 12,000 datagrams a second that a balancer divides, each handed to another node with the probability that its call is there.
#[test]
fn naps_of_a_whole_machine_do_not_grow_with_its_nodes() {
    for nodes in 1..=16_u32 {
        let longest = longest_nap(&view(&vec![("10.0.0.1", 1); nodes as usize]), 2, LONGEST);
        let messages = 12_000 / nodes + 12_000 * (nodes - 1) / (nodes * nodes);
        let nap = nap(messages, SECOND, longest).expect("they are busy").as_micros();
        let naps = u128::from(nodes) * 1_000_000 / nap;
        // Four times as many from 16 nodes, as no nap is longer than LONGEST.
        assert!(naps <= 1_000 * u128::from(nodes.div_ceil(4)), "{nodes} nodes: {naps} naps a second");
    }
}

#[test]
fn the_runtime_is_asked_now_and_then() {
    for (longest, messages, naps) in [(NAP, 6, 8), (NAP, BATCH_ENOUGH, 8), (LONGEST, 6, 2)] {
        let mut now = Instant::from_unix_seconds(1);
        let mut pace = Pace { longest, ..Pace::default() };
        // It has just waited when a millisecond brings so many messages.
        run(&mut pace, &mut now, SECOND, 4 * MS, messages);
        pace.alone = Duration::ZERO;
        let in_a_row = (0..100).take_while(|_| {
            turn(&mut pace, now, messages, None);
            pace.next() == NextTurn::Sockets
        });
        assert_eq!(in_a_row.count(), naps, "{longest:?}, {messages}");
        assert_eq!(pace.next(), NextTurn::Wait);
    }
}

#[test]
fn connections_wait_no_longer_than_the_longest_nap() {
    for (longest, every) in [(NAP, MS), (2 * MS, MS), (3 * MS, MS), (LONGEST, MS), (LONGEST, 4 * MS)] {
        let (mut pace, mut now) = (crowded(longest), Instant::from_unix_seconds(1));
        run(&mut pace, &mut now, SECOND, every, 6);
        let mut napped = Duration::ZERO;
        for _ in 0..1_000 {
            napped += turn(&mut pace, now, 6, None).expect("it is busy");
            assert!(napped <= LONGEST, "{longest:?}: {napped:?}");
            if pace.next() == NextTurn::Connections {
                napped = Duration::ZERO;
            }
        }
    }
}

/// 2,000 users, an action each 5 s: a message of chat causes some six messages over all nodes.
#[test]
fn naps_for_chat_do_not_grow_with_up_to_eight_nodes_of_two_cores() {
    for nodes in 2..=8_u32 {
        let longest = longest_nap(&view(&vec![("10.0.0.1", 1); nodes as usize]), 2, LONGEST_OF_CHAT);
        let nap = nap(6 * 400 / nodes, SECOND, longest).expect("they are busy").as_micros();
        assert_eq!(u128::from(nodes) * 1_000_000 / nap, 1_000, "{nodes} nodes");
    }
}

#[test]
fn a_nap_is_longer_while_only_chat_comes() {
    let (mut pace, mut now) = (crowded(LONGEST), Instant::from_unix_seconds(1));
    let mut chat = |pace: &mut Pace, turns| {
        (0..turns).fold(None, |_, _| {
            now = now + 4 * MS;
            pace.choose(now, 6, None)
        })
    };
    assert_eq!(chat(&mut pace, 20), Some(2 * LONGEST));
    // One message of a call, by a link, in a window of chat.
    let message = Message { kind: 1, epoch: Epoch(0), shard: 0, body: Vec::new().into() };
    let event = |class| LinkEvent::Received { from: Life(2), class, message: message.clone() };
    assert_eq!(pace.note_links(&[event(Class::Call), event(Class::Chat)]), 2);
    assert_eq!(chat(&mut pace, 5), Some(LONGEST));
    assert_eq!(pace.note_links(&[event(Class::Chat)]), 1);
    assert_eq!(chat(&mut pace, 10), Some(2 * LONGEST));
    assert_eq!(pace.note_inbox(&[ShardMessage::Xmpp(Vec::new()).into()]), 1);
    assert_eq!(chat(&mut pace, 5), Some(2 * LONGEST));
    assert_eq!(pace.note_inbox(&[ShardMessage::Packets(Vec::new()).into()]), 1);
    assert_eq!(chat(&mut pace, 5), Some(LONGEST));
}

#[test]
fn a_shard_looks_after_a_nap_where_its_messages_came_from() {
    for mut pace in [Pace::default(), crowded(NAP)] {
        let mut now = Instant::from_unix_seconds(1);
        run(&mut pace, &mut now, SECOND, MS, 6);
        pace.alone = Duration::ZERO;
        assert!(turn(&mut pace, now, 6, None).is_some());
        assert_eq!(pace.next(), NextTurn::Sockets);
        assert!(pace.choose(now, 6, None).is_some());
        assert_eq!(pace.next(), NextTurn::Connections);
    }
}

#[test]
fn a_nap_ends_when_sound_is_due() {
    let (mut pace, mut now) = (crowded(LONGEST), Instant::from_unix_seconds(1));
    assert_eq!(run(&mut pace, &mut now, SECOND, 4 * MS, 6), Some(LONGEST));
    assert_eq!(pace.choose(now, 6, Some(now + 20 * MS)), Some(LONGEST));
    assert_eq!(pace.choose(now, 6, Some(now + 3 * MS)), Some(3 * MS));
    assert_eq!(pace.choose(now, 6, Some(now + MS / 4)), Some(MS / 4), "shorter than one without sound");
    assert_eq!(pace.choose(now, 6, Some(now + MS / 40)), None, "it is nearly due");
    assert_eq!(pace.choose(now, 6, Some(now)), None, "it is due");
}

#[test]
fn tasks_of_connections_have_read_when_the_shard_goes_on() {
    use tokio::io::AsyncReadExt as _;

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut ours = tokio::net::UnixStream::from_std(ours).unwrap();
        let read = Rc::new(Cell::new(0));
        let seen = Rc::clone(&read);
        tokio::task::spawn_local(async move {
            let mut buffer = [0; 8];
            while let Ok(count @ 1..) = ours.read(&mut buffer).await {
                seen.set(seen.get() + count);
            }
        });
        run_connections().await;
        assert_eq!(read.get(), 0);
        for sent in 1..=3 {
            // The shard naps meanwhile: the runtime learns of it afterwards.
            std::io::Write::write_all(&mut &theirs, b"x").unwrap();
            run_connections().await;
            assert_eq!(read.get(), sent);
        }
    });
}
