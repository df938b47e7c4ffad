//! The world itself, tried with two small parties: one asks until it is answered, one answers.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use insta::assert_snapshot;
use sim::{Datagram, Link, Mailbox, Node, NodeId, World, for_seeds};
use stdx::Instant;

const ALICE: SocketAddr = address(1);
const BOB: SocketAddr = address(2);

const fn address(host: u8) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, host)), 5060)
}

/// Sends OPTIONS at intervals that double from 500 ms until a 200 comes.
#[derive(Default)]
struct Asker {
    again_at: Option<Instant>,
    interval: Duration,
    answers: u32,
}

impl Asker {
    fn ask(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        self.interval = (self.interval * 2).max(Duration::from_millis(500));
        self.again_at = Some(now + self.interval);
        out.push((ALICE, BOB, Bytes::from_static(b"OPTIONS sip:bob SIP/2.0\r\nCSeq: 1 OPTIONS\r\n\r\n")));
    }
}

impl Node for Asker {
    fn handle(&mut self, _: Instant, from: SocketAddr, to: SocketAddr, bytes: &[u8], _: &mut Vec<Datagram>) {
        assert_eq!((from, to), (BOB, ALICE));
        assert!(bytes.starts_with(b"SIP/2.0 200"));
        self.answers += 1;
        self.again_at = None;
    }

    fn wake(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        if self.again_at.is_some_and(|at| at <= now) {
            self.ask(now, out);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.again_at
    }
}

/// Answers at once; remembers the last byte of what it heard, in order.
#[derive(Default)]
struct Answerer {
    heard: Vec<u8>,
}

impl Node for Answerer {
    fn handle(
        &mut self,
        _: Instant,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        out: &mut Vec<Datagram>,
    ) {
        self.heard.extend(bytes.last());
        if bytes.starts_with(b"OPTIONS") {
            out.push((to, from, Bytes::from_static(b"SIP/2.0 200 OK\r\nCSeq: 1 OPTIONS\r\n\r\n")));
        }
    }

    fn wake(&mut self, _: Instant, _: &mut Vec<Datagram>) {}

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

fn two(seed: u64) -> (World, NodeId, NodeId) {
    let mut world = World::new(seed);
    let alice = world.add("alice", &[ALICE], Asker::default());
    let bob = world.add("bob", &[BOB], Answerer::default());
    (world, alice, bob)
}

fn answered(world: &World, alice: NodeId) -> bool {
    world.node::<Asker>(alice).answers > 0
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let (mut world, alice, bob) = two(1);
    world.lose_next(alice, bob, "OPTIONS", 1);
    world.lose_next(bob, alice, "200", 1);
    world.act(alice, Asker::ask);
    world.run_for(Duration::from_secs(32));
    assert_eq!(world.elapsed(), Duration::from_secs(32));
    assert_snapshot!(world.ladder(), @r"
          0ms  alice ──OPTIONS──✗ bob
        500ms  alice ──OPTIONS──▶ bob
        510ms  alice ✗──200────── bob
      1_500ms  alice ──OPTIONS──▶ bob
      1_510ms  alice ◀──200────── bob
    ");
}

#[test]
fn crashes_cuts_and_strangers_are_seen() {
    let (mut world, alice, bob) = two(1);
    world.cut(alice, bob);
    world.act(alice, Asker::ask);
    world.run_for(Duration::from_millis(100));
    world.heal(alice, bob);
    world.stop(bob);
    world.run_for(Duration::from_secs(1));
    world.restart(bob, Answerer::default());
    world.send(bob, BOB, address(9), "?");
    world.at(world.now() + Duration::from_secs(1), move |world| world.note(bob, "waits"));
    world.run_for(Duration::from_secs(10));
    assert_snapshot!(world.ladder(), @r"
          0ms  alice ──OPTIONS──✗ bob
        100ms  bob   · stops
        500ms  alice ──OPTIONS──✗ bob
      1_100ms  bob   · starts
      1_100ms  bob   ──1 B──────✗ 10.0.0.9:5060
      1_500ms  alice ──OPTIONS──▶ bob
      1_510ms  alice ◀──200────── bob
      2_100ms  bob   · waits
    ");
    world.restart_ladder();
    assert_eq!(world.ladder(), "");
}

#[test]
fn any_rough_world_ends_well_and_the_same_way_twice() {
    for_seeds(0..200, |seed| {
        let run = || {
            let (mut world, alice, _) = two(seed);
            world.set_default_link(Link::rough(300));
            world.act(alice, Asker::ask);
            assert!(world.run_until_done(Duration::from_secs(100_000), |world| answered(world, alice)));
            world.run_for(Duration::from_secs(1));
            world.ladder()
        };
        assert_eq!(run(), run());
    });
}

fn count(world: &mut World, bob: NodeId, alice: NodeId, link: Link) -> Vec<u8> {
    world.set_link(alice, bob, link);
    for number in 0..=255u8 {
        let at = world.now() + Duration::from_millis(number.into());
        world.at(at, move |world| {
            world.send(alice, ALICE, BOB, vec![number]);
        });
    }
    world.run_for(Duration::from_secs(10));
    world.node::<Answerer>(bob).heard.clone()
}

#[test]
fn a_stream_keeps_its_order_and_datagrams_do_not() {
    for_seeds(0..20, |seed| {
        let (mut world, alice, bob) = two(seed);
        let link = Link::stream(Duration::from_millis(5), Duration::from_millis(500));
        assert_eq!(count(&mut world, bob, alice, link), (0..=255).collect::<Vec<u8>>());
        let (mut world, alice, bob) = two(seed);
        let heard = count(&mut world, bob, alice, Link::rough(100));
        assert!(!heard.is_sorted());
        let lost = (0..=255).filter(|number| !heard.contains(number)).count();
        assert!((5..60).contains(&lost), "{lost} lost");
        assert!(heard.len() > 256 - lost, "some come twice");
    });
}

#[test]
fn a_mailbox_keeps_and_answers() {
    let mut world = World::new(1);
    let alice = world.add("alice", &[ALICE], Mailbox::new());
    world.add("bob", &[BOB], Mailbox::answering(|letter| vec![letter.bytes.clone(); 2]));
    world.send(alice, ALICE, BOB, "hello");
    world.run_for(Duration::from_secs(1));
    let letters = world.node_mut::<Mailbox>(alice).take();
    assert_eq!(letters.len(), 2);
    assert_eq!((letters[1].from, letters[1].to, &*letters[1].text()), (BOB, ALICE, "hello"));
    assert_eq!(world.now().since(letters[1].at), Duration::from_millis(980));
    assert!(world.node::<Mailbox>(alice).letters().is_empty());
}

/// Wants to be woken at an instant that never passes.
struct Stuck;

impl Node for Stuck {
    fn handle(&mut self, _: Instant, _: SocketAddr, _: SocketAddr, _: &[u8], _: &mut Vec<Datagram>) {}

    fn wake(&mut self, _: Instant, _: &mut Vec<Datagram>) {}

    fn deadline(&self) -> Option<Instant> {
        Some(Instant::default())
    }
}

#[test]
#[should_panic(expected = "stuck wants to be woken again and again")]
fn a_node_that_never_sleeps_is_found_out() {
    let mut world = World::new(1);
    world.add("stuck", &[], Stuck);
    world.run_for(Duration::from_secs(1));
}

#[test]
#[should_panic(expected = "3 is too much")]
fn for_seeds_passes_the_failure_on() {
    for_seeds(0..10, |seed| assert!(seed < 3, "{seed} is too much"));
}
