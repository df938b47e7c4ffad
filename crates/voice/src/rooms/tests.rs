//! Rooms in virtual time, with lost messages and members that leave without a message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ivr::document::{Beep, Callback, Conference};
use ivr::request::{Method, Target};
use proptest::prelude::*;
use router::{Life, ShardAddress};
use stdx::Instant;
use stdx::rng::Rng;
use store::rest::RestWrite;

use super::super::{Owner, limits};
use super::home::{Out, RoomHome};
use super::message::{Join, LeaveReason, MemberAudio, MemberStatus, Name, RoomEvent, RoomTarget};

/// One home and the members of three shards, as these know themselves.
struct World {
    now: Instant,
    home: RoomHome,
    owner: Arc<Owner>,
    last: u64,
    /// Members that are in a room, or expect to be, with their status.
    members: BTreeMap<Name, Option<MemberStatus>>,
    gone: Vec<(Name, LeaveReason)>,
    /// Documents that members were asked to hear.
    announced: Vec<(Name, String)>,
    /// Events of status callbacks.
    told: Vec<String>,
    /// The status, or the name, of rows that were written.
    rows: Vec<String>,
}

fn conference(name: &str) -> Conference {
    let target = Target { url: "http://a/events".to_owned(), method: Method::Get };
    let events = vec!["start", "end", "join", "leave", "mute", "hold", "announcement"];
    Conference {
        name: name.to_owned(),
        muted: false,
        beep: Beep::Both,
        start_on_enter: true,
        end_on_exit: false,
        wait: None,
        max_participants: 4,
        record: false,
        trim: false,
        coach: None,
        label: None,
        status: Some(Callback { target, events }),
        recording_status: None,
    }
}

/// The shard of that number, each at a node of its own.
fn at(shard: u16) -> ShardAddress {
    ShardAddress::new(Life(u32::from(shard)), 0)
}

impl World {
    fn new() -> World {
        World {
            now: Instant::from_unix_seconds(1_800_000_000),
            home: RoomHome::new(at(0), Rng::seeded(1), Arc::default()),
            owner: Arc::new(Owner { account: "AC1".into(), signing_key: "".into() }),
            last: 0,
            members: BTreeMap::new(),
            gone: Vec::new(),
            announced: Vec::new(),
            told: Vec::new(),
            rows: Vec::new(),
        }
    }

    fn note(&mut self, from: ShardAddress, event: RoomEvent) {
        let mut out = Vec::new();
        self.home.handle(self.now, from, event, &mut out);
        self.take(out, false);
    }

    fn leave(&mut self, name: Name) {
        self.members.remove(&name);
        self.note(name.shard, RoomEvent::Leave { number: name.number });
    }

    /// Delivers the home's output; `lost`: its messages reach no member.
    fn take(&mut self, out: Vec<Out>, lost: bool) {
        for out in out {
            match out {
                Out::Tell(shard, event) if !lost => self.hear(shard, event),
                Out::Write(store::Write::Rest(write)) => {
                    let (how, row) = match write {
                        RestWrite::Insert(row) => ("new ", row),
                        RestWrite::Ensure(row) => ("there is ", row),
                        RestWrite::Replace(row) => ("", row),
                        other => panic!("{other:?}"),
                    };
                    self.rows.extend(row.status.or(row.name).map(|what| format!("{how}{what}")));
                }
                Out::Callback(wire) => self.told.extend(event_of(&wire.url)),
                _ => {}
            }
        }
    }

    fn hear(&mut self, shard: ShardAddress, event: RoomEvent) {
        match event {
            RoomEvent::Standing { number, standing } => self.stand(Name { shard, number }, *standing),
            RoomEvent::Known { standings } => {
                for (number, standing) in standings {
                    self.stand(Name { shard, number }, standing);
                }
            }
            RoomEvent::Gone { number, why } => {
                let name = Name { shard, number };
                if self.members.remove(&name).is_some() {
                    self.gone.push((name, why));
                }
            }
            RoomEvent::Announce { number, target } => {
                self.announced.push((Name { shard, number }, target.url));
            }
            _ => {}
        }
    }

    fn stand(&mut self, name: Name, standing: MemberStatus) {
        if let Some(known) = self.members.get_mut(&name) {
            *known = Some(standing);
        }
    }

    fn join(&mut self, shard: u16, place: RoomTarget, lost: bool) -> Name {
        self.last += 1;
        let name = Name { shard: at(shard), number: self.last };
        self.members.insert(name, None);
        let call_sid = format!("CA{}", self.last).into();
        let owner = Arc::clone(&self.owner);
        let join = Join { number: self.last, call_sid, owner, place, again: None };
        if !lost {
            self.note(name.shard, RoomEvent::Join(Box::new(join)));
        }
        name
    }

    fn confer(&mut self, shard: u16, conference: Conference) -> Name {
        self.join(shard, RoomTarget::Conference(Box::new(conference)), false)
    }

    fn hears(&self, name: Name) -> Option<MemberAudio> {
        self.members.get(&name)?.as_ref().map(|standing| standing.hears.clone())
    }

    /// A second: all say that they are there, then the home does; those on `deaf` shards are not heard and hear nothing.
    fn second(&mut self, deaf: &BTreeSet<u16>) {
        self.now = self.now + Duration::from_secs(1);
        for shard in (0..3).filter(|shard| !deaf.contains(shard)) {
            let of = |name: &&Name| name.shard == at(shard);
            let numbers = self.members.keys().filter(of).map(|name| name.number).collect();
            self.note(at(shard), RoomEvent::Alive { numbers });
        }
        let mut out = Vec::new();
        self.home.expire(self.now, &mut out);
        let is_deaf =
            |out: &Out| matches!(out, Out::Tell(to, _) if deaf.iter().any(|shard| at(*shard) == *to));
        let (lost, heard) = out.into_iter().partition(is_deaf);
        self.take(heard, false);
        self.take(lost, true);
    }

    fn counts(&self) -> (usize, usize, usize) {
        (self.home.rooms(), self.home.queues(), self.home.members())
    }
}

fn event_of(url: &str) -> Option<String> {
    let query = url.split_once("StatusCallbackEvent=")?.1;
    query.split('&').next().map(str::to_owned)
}

#[test]
fn a_room_begins_with_the_second_when_one_may_begin_it() {
    let mut world = World::new();
    let waiting = Conference { start_on_enter: false, ..conference("a") };
    let first = world.confer(1, waiting.clone());
    let second = world.confer(2, waiting);
    assert_eq!((world.hears(first), world.hears(second)), (Some(MemberAudio::Wait), Some(MemberAudio::Wait)));
    let leader = world.confer(1, Conference { end_on_exit: true, ..conference("a") });
    for name in [first, second, leader] {
        assert_eq!(world.hears(name), Some(MemberAudio::Room));
    }
    world.leave(leader);
    assert_eq!(world.gone, [(first, LeaveReason::Over), (second, LeaveReason::Over)]);
    assert_eq!(world.counts(), (0, 0, 0));
    let joined = ["participant-join", "participant-join", "participant-join", "conference-start"];
    assert_eq!(world.told[..4], joined);
    assert_eq!(world.told[4..7], ["participant-leave"; 3]);
    assert_eq!(world.told[7..], ["conference-end"]);
    assert_eq!(world.rows, ["new init", "in-progress", "completed"]);
}

#[test]
fn a_full_room_and_a_full_queue_refuse() {
    let mut world = World::new();
    let one = Conference { max_participants: 1, ..conference("a") };
    let first = world.confer(0, one.clone());
    let second = world.confer(1, one);
    assert!(matches!(&world.gone[..], [(name, LeaveReason::Refused(_))] if *name == second));
    assert_eq!(world.hears(first), Some(MemberAudio::Wait));
    let queue = || RoomTarget::Queue { name: "q".into(), max_size: 1 };
    world.join(0, queue(), false);
    let refused = world.join(2, queue(), false);
    assert_eq!(world.gone[1..], [(refused, LeaveReason::Full)]);
    assert_eq!(world.counts(), (1, 1, 2));
}

#[test]
fn a_queue_serves_in_order_and_the_end_of_one_is_that_of_the_other() {
    let mut world = World::new();
    let queue = || RoomTarget::Queue { name: "q".into(), max_size: 10 };
    let first = world.join(0, queue(), false);
    let second = world.join(1, queue(), false);
    let place = |world: &World, name: Name| world.members[&name].as_ref().unwrap().line.unwrap();
    assert_eq!((place(&world, second).position, place(&world, second).size), (2, 2));
    let agent = world.join(2, RoomTarget::First { queue: "q".into(), document: None }, false);
    assert_eq!((world.hears(first), world.hears(agent)), (Some(MemberAudio::Room), Some(MemberAudio::Room)));
    assert_eq!(world.members[&agent].as_ref().unwrap().with.as_deref(), Some("CA1"));
    assert_eq!((place(&world, second).position, place(&world, second).size), (1, 1));
    world.leave(agent);
    assert_eq!(world.gone, [(first, LeaveReason::Over)]);
    assert_eq!(world.counts(), (0, 1, 1));
    assert_eq!(world.rows, ["there is q"]);
    world.leave(second);
    assert_eq!(world.counts(), (0, 0, 0));
}

/// The two are muted until the caller has heard its document; a word of its end that is lost keeps them so for a while only.
#[test]
fn a_queues_caller_hears_a_document_before_the_two_hear_each_other() {
    for is_lost in [false, true] {
        let mut world = World::new();
        let caller = world.join(1, RoomTarget::Queue { name: "q".into(), max_size: 10 }, false);
        let document = Some(Target { url: "http://a/hello".into(), method: Method::Get });
        let agent = world.join(2, RoomTarget::First { queue: "q".into(), document }, false);
        let muted =
            |world: &World| [caller, agent].map(|name| world.members[&name].as_ref().unwrap().is_muted);
        assert_eq!(world.announced, [(caller, "http://a/hello".to_owned())]);
        assert_eq!(
            [caller, agent].map(|name| world.hears(name)),
            [Some(MemberAudio::Room), Some(MemberAudio::Room)]
        );
        for _ in 0..limits::QUEUE_DOCUMENT.as_secs() {
            world.second(&BTreeSet::new());
            assert_eq!(muted(&world), [true, true]);
        }
        if is_lost {
            world.second(&BTreeSet::new());
        } else {
            world.note(caller.shard, RoomEvent::Announced { number: caller.number });
        }
        assert_eq!(muted(&world), [false, false]);
        world.leave(caller);
        assert_eq!(world.gone, [(agent, LeaveReason::Over)]);
    }
}

#[test]
fn a_shard_that_is_not_heard_of_has_no_members_after_a_while() {
    let mut world = World::new();
    let kept = world.confer(0, conference("a"));
    world.confer(1, conference("a"));
    world.join(1, RoomTarget::Queue { name: "q".into(), max_size: 10 }, false);
    let deaf = BTreeSet::from([1]);
    let seconds = limits::ROOM_LOST.as_secs();
    for _ in 0..seconds {
        world.second(&deaf);
    }
    assert_eq!(world.counts(), (1, 1, 3));
    world.second(&deaf);
    assert_eq!(world.counts(), (1, 0, 1));
    // Once the shard is heard again, its members are told.
    world.second(&BTreeSet::new());
    assert_eq!(world.members.keys().copied().collect::<Vec<_>>(), [kept]);
}

#[test]
fn participants_are_muted_held_and_put_out() {
    use admin::control::{ConferenceChange, ParticipantChange};
    let mut world = World::new();
    let first = world.confer(0, conference("a"));
    let second = world.confer(1, Conference { label: Some("other".to_owned()), ..conference("a") });
    let sid = world.members[&first].as_ref().unwrap().sid.to_string();
    let change = |world: &mut World, call: &str, change: ParticipantChange| {
        let mut out = Vec::new();
        let result = world.home.modify_participant(world.now, (&sid, call), change, &mut out);
        world.take(out, false);
        result
    };
    let hold = ParticipantChange {
        mute: Some(true),
        hold: Some(true),
        hold_url: "http://a/hold".to_owned(),
        ..ParticipantChange::default()
    };
    change(&mut world, "other", hold).unwrap();
    let target = Target { url: "http://a/hold".to_owned(), method: Method::Post };
    assert_eq!(world.hears(second), Some(MemberAudio::Hold(Some(target))));
    let listed = world.home.participants(&sid).unwrap();
    assert_eq!((listed[1].muted, listed[1].hold, &*listed[1].label), (true, true, "other"));
    let kick = ParticipantChange { kick: true, ..ParticipantChange::default() };
    change(&mut world, "CA2", kick.clone()).unwrap();
    assert_eq!(world.gone, [(second, LeaveReason::Over)]);
    assert!(change(&mut world, "CA2", kick).is_err());
    assert!(world.told.ends_with(&[
        "participant-mute".to_owned(),
        "participant-hold".to_owned(),
        "participant-leave".to_owned()
    ]));
    let mut out = Vec::new();
    let complete = ConferenceChange { complete: true, ..ConferenceChange::default() };
    world.home.modify_conference(world.now, &sid, complete, &mut out).unwrap();
    world.take(out, false);
    assert_eq!(world.gone[1..], [(first, LeaveReason::Over)]);
    assert_eq!(world.counts(), (0, 0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Confer { shard: u16, room: u8, leads: bool, ends: bool, lost: bool },
    Enqueue { shard: u16, lost: bool },
    Take { shard: u16, lost: bool },
    Leave { which: usize, lost: bool },
    Seconds { count: u8, deaf: Vec<u16> },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lost = || prop::bool::weighted(0.3);
    let step = prop_oneof![
        (0..3u16, 0..3u8, any::<bool>(), any::<bool>(), lost())
            .prop_map(|(shard, room, leads, ends, lost)| Step::Confer { shard, room, leads, ends, lost }),
        (0..3u16, lost()).prop_map(|(shard, lost)| Step::Enqueue { shard, lost }),
        (0..3u16, lost()).prop_map(|(shard, lost)| Step::Take { shard, lost }),
        (any::<usize>(), lost()).prop_map(|(which, lost)| Step::Leave { which, lost }),
        (0..8u8, prop::collection::vec(0..3u16, 0..3))
            .prop_map(|(count, deaf)| Step::Seconds { count, deaf }),
    ];
    prop::collection::vec(step, 0..60)
}

fn act(world: &mut World, step: Step) {
    match step {
        Step::Confer { shard, room, leads, ends, lost } => {
            let wanted = Conference {
                start_on_enter: leads,
                end_on_exit: ends,
                max_participants: 3,
                ..conference(&room.to_string())
            };
            world.join(shard, RoomTarget::Conference(Box::new(wanted)), lost);
        }
        Step::Enqueue { shard, lost } => {
            world.join(shard, RoomTarget::Queue { name: "q".into(), max_size: 3 }, lost);
        }
        Step::Take { shard, lost } => {
            world.join(shard, RoomTarget::First { queue: "q".into(), document: None }, lost);
        }
        Step::Leave { which, lost } => {
            let Some(name) = world.members.keys().nth(which % world.members.len().max(1)).copied() else {
                return;
            };
            if lost {
                world.members.remove(&name);
            } else {
                world.leave(name);
            }
        }
        Step::Seconds { count, deaf } => {
            for _ in 0..count {
                world.second(&deaf.iter().copied().collect());
            }
        }
    }
}

proptest! {
    #[test]
    fn both_sides_agree_some_time_after_any_losses_and_nothing_is_left(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            act(&mut world, step);
        }
        for _ in 0..=limits::ROOM_LOST.as_secs() + 1 {
            world.second(&BTreeSet::new());
        }
        // A member that was never admitted has given up by itself; all others know their status.
        world.members.retain(|_, standing| standing.is_some());
        prop_assert_eq!(world.home.members(), world.members.len());
        world.members.clear();
        for _ in 0..=limits::ROOM_LOST.as_secs() + 1 {
            world.second(&BTreeSet::new());
        }
        prop_assert_eq!(world.counts(), (0, 0, 0));
        prop_assert!(world.home.is_idle());
    }
}
