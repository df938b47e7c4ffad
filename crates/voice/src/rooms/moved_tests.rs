//! Rooms of a farm in virtual time: members at several nodes, whose rooms move to other homes, and nodes that die.

use std::sync::Arc;
use std::time::Duration;

use admin::control::ParticipantChange;
use media::codec::Codec;
use proptest::prelude::*;
use router::{Life, ShardAddress};
use stdx::slab::Key;
use store::rest::RestWrite;

use super::super::limits;
use super::super::record::{Modify, Pause};
use super::super::testing::media;
use super::message::{ConferenceRecording, RoomEvent, RoomMessage, SoundPart};
use super::shard_tests::{CONFERENCE, ENQUEUE, LOST, Shards, TAKE};
use super::{RoomHomes, Source, put_frame, set_room_homes};

const ENDS: &str =
    "<Response><Dial><Conference waitUrl='' endConferenceOnExit='true'>a</Conference></Dial></Response>";

const RECORDED: &str = "<Response><Dial><Conference waitUrl='' record='record-from-start'>a</Conference></Dial><Pause length='600'/></Response>";

const FOR_TWO: &str = "<Response><Dial><Conference waitUrl='' maxParticipants='2'>a</Conference></Dial><Pause length='600'/></Response>";

/// A farm of nodes with a shard each, which know the map.
struct Farm {
    shards: Shards,
}

impl Farm {
    /// So many nodes, of which the first is the home of all rooms.
    fn new(nodes: u32) -> Farm {
        let addresses: Vec<ShardAddress> = (1..=nodes).map(|life| ShardAddress::new(Life(life), 0)).collect();
        let mut farm = Farm { shards: Shards::at(&addresses) };
        farm.set_home(0);
        farm
    }

    /// The map as all living nodes read it, one after the other.
    fn set_home(&mut self, home: usize) {
        for node in self.shards.live() {
            self.set_home_at(node, home);
        }
        self.shards.deliver(false);
    }

    fn set_home_at(&mut self, node: usize, home: usize) {
        let dead = self.shards.dead.iter().map(|node| self.shards.addresses[*node].life).collect();
        let homes = RoomHomes { homes: vec![self.shards.addresses[home]], dead };
        self.shards.act(node, |voice, now, world| set_room_homes(voice, now, homes, world));
    }

    fn call(&mut self, node: usize, document: &str) -> Key {
        let leg = self.shards.call(node, document);
        self.shards.deliver(false);
        // The next call comes later.
        self.shards.now = self.shards.now + Duration::from_millis(1);
        leg
    }

    /// A call whose leg has media: it can be recorded.
    fn call_with_sound(&mut self, node: usize, document: &str) -> Key {
        let leg = self.shards.call(node, document);
        self.shards.act(node, |voice, _, _| {
            voice.calls.legs.get_mut(leg).expect("it was added").media = Some(Box::new(media()));
        });
        self.shards.deliver(false);
        self.shards.now = self.shards.now + Duration::from_millis(1);
        leg
    }

    /// Recordings that have begun.
    fn recordings(&self) -> usize {
        let is_recording = |write: &&(usize, store::Write)| matches!(&write.1, store::Write::Rest(RestWrite::Insert(row)) if row.sid.starts_with("RE"));
        self.shards.rows.iter().filter(is_recording).count()
    }

    fn is_recorded(&self, (node, leg): (usize, Key)) -> bool {
        let leg = self.shards.voices[node].0.calls.legs.get(leg).expect("it is there");
        leg.recording.as_ref().is_some_and(|recording| !recording.active.is_empty())
    }

    /// A change of the recording that is made from this leg.
    fn modify_recording(&mut self, (node, leg): (usize, Key), change: Modify) {
        self.shards.act(node, |voice, now, world| {
            let recording = voice.calls.legs.get(leg).and_then(|leg| leg.recording.as_ref());
            let sid = recording.expect("it is recorded").active[0].sid.clone();
            voice.recordings.modify_recording(now, &sid, change, &mut voice.calls, world);
        });
    }

    fn pause_of(&self, (node, leg): (usize, Key)) -> Option<Pause> {
        let leg = self.shards.voices[node].0.calls.legs.get(leg).expect("it is there");
        leg.recording.as_ref().and_then(|recording| recording.active[0].pause)
    }

    /// The one member of a node says two frames; the samples of each that go to the home.
    fn say(&mut self, node: usize) -> [Option<usize>; 2] {
        self.shards.act(node, |voice, _, _| {
            let number = *voice.rooms.seats.keys().next().expect("there is one");
            [(); 2].map(|()| {
                put_frame(&mut voice.rooms, number, (Codec::Pcma, 8_000), &[5; 160]);
                let sound = std::mem::take(&mut voice.rooms.said).into_values().next()?;
                match sound.parts().first()?.0 {
                    SoundPart::Samples { samples, .. } => Some(samples.len()),
                    SoundPart::Payload { .. } => None,
                }
            })
        })
    }

    fn kill(&mut self, node: usize) {
        self.shards.dead.insert(node);
    }

    fn pass(&mut self, time: Duration) {
        self.shards.pass(time, false);
    }

    /// Rooms, queues and members of each node.
    fn homes(&self) -> Vec<[u64; 3]> {
        let counts = |node: usize| self.shards.voices[node].0.counts();
        let of = |node| (counts(node).rooms, counts(node).queues, counts(node).members);
        (0..self.shards.voices.len())
            .map(of)
            .map(|(rooms, queues, members)| [rooms, queues, members])
            .collect()
    }

    /// The participants of a conference, from whichever node is its home.
    fn participants(&mut self, sid: &str) -> Vec<(String, bool, bool)> {
        let found = self.shards.at_home(|voice, _, _| voice.rooms.participants(sid));
        found.into_iter().map(|one| (one.call_sid, one.muted, one.hold)).collect()
    }

    fn change(&mut self, sid: &str, call: &str, change: &ParticipantChange) {
        self.shards.at_home(|voice, now, world| {
            voice.with_rooms(now, world, |rooms, parts| {
                rooms.modify_participant(now, (sid, call), change.clone(), parts)
            })
        });
    }

    /// The status of each conference row that was written, with its sid.
    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = Vec::new();
        for (_, write) in &self.shards.rows {
            if let store::Write::Rest(RestWrite::Insert(row) | RestWrite::Replace(row)) = write
                && row.sid.starts_with("CF")
            {
                rows.push((row.sid.to_string(), row.status.as_deref().unwrap_or_default().to_owned()));
            }
        }
        rows
    }
}

#[test]
fn a_conference_has_members_at_all_nodes_and_one_home() {
    let mut farm = Farm::new(3);
    let legs: Vec<Key> = (0..3).map(|node| farm.call(node, CONFERENCE)).collect();
    assert_eq!(farm.homes(), [[1, 0, 3], [0; 3], [0; 3]]);
    assert_eq!(farm.shards.sources(), [(Source::Room, false); 3]);
    farm.pass(Duration::from_secs(60));
    assert_eq!(farm.homes(), [[1, 0, 3], [0; 3], [0; 3]]);
    let sid = farm.shards.sid();
    farm.change(&sid, "CA2", &ParticipantChange { kick: true, ..ParticipantChange::default() });
    assert_eq!((farm.shards.in_rooms(), farm.shards.sum(|counts| counts.calls)), ([1, 0, 2, 2], 3));
    for (node, leg) in legs.into_iter().enumerate() {
        farm.shards.hang_up(node, leg);
    }
    farm.pass(LOST);
    assert_eq!(farm.shards.in_rooms(), [0; 4]);
    assert_eq!(farm.rows().last(), Some(&(sid, "completed".to_owned())));
}

/// A call comes to the next home before the one that waited alone at the home before.
#[test]
fn one_that_waited_alone_at_the_home_before_starts_the_conference_with_another() {
    let mut farm = Farm::new(3);
    farm.call(1, CONFERENCE);
    farm.kill(0);
    farm.set_home_at(2, 2);
    farm.call(2, CONFERENCE);
    farm.set_home_at(1, 2);
    farm.shards.deliver(false);
    assert_eq!(farm.shards.sources(), [(Source::Room, false); 2]);
}

/// Two talk, which is all that may; a third is quicker at the next home.
#[test]
fn members_of_the_home_before_are_not_refused_because_a_new_one_was_quicker() {
    let mut farm = Farm::new(3);
    (0..2).for_each(|_| _ = farm.call(1, FOR_TWO));
    assert_eq!(farm.shards.sources(), [(Source::Room, false); 2]);
    farm.kill(0);
    farm.set_home_at(2, 2);
    farm.call(2, FOR_TWO);
    farm.set_home_at(1, 2);
    farm.shards.deliver(false);
    assert_eq!(farm.shards.sources(), [(Source::Room, false); 3]);
}

#[test]
fn the_end_of_a_conference_ends_it_at_all_nodes() {
    let mut farm = Farm::new(3);
    farm.call(2, CONFERENCE);
    let leader = farm.call(1, ENDS);
    assert_eq!(farm.shards.in_rooms(), [1, 0, 2, 2]);
    farm.shards.hang_up(1, leader);
    farm.shards.deliver(false);
    // The call of the other one goes on with its document.
    assert_eq!((farm.shards.in_rooms(), farm.shards.sum(|counts| counts.calls)), ([0; 4], 1));
}

/// The sid, the order and the attributes of members survive; none of them is told to have left.
#[test]
fn a_conference_moves_with_its_members_when_its_home_dies() {
    let mut farm = Farm::new(3);
    farm.call(1, CONFERENCE);
    farm.call(2, CONFERENCE);
    farm.call(1, ENDS);
    let sid = farm.shards.sid();
    let mute = ParticipantChange { mute: Some(true), ..ParticipantChange::default() };
    let hold = ParticipantChange {
        hold: Some(true),
        hold_url: "http://127.0.0.1:1/".to_owned(),
        ..ParticipantChange::default()
    };
    farm.change(&sid, "CA1", &mute);
    farm.change(&sid, "CA2", &hold);
    let before = farm.participants(&sid);
    assert_eq!(
        before,
        [("CA1", true, false), ("CA2", false, true), ("CA3", false, false)].map(|(call, muted, hold)| (
            call.to_owned(),
            muted,
            hold
        ))
    );
    farm.kill(0);
    farm.pass(Duration::from_secs(6));
    // The farm has not said yet that the node is dead.
    assert_eq!(farm.shards.in_rooms(), [0, 0, 0, 3]);
    farm.set_home(2);
    assert_eq!(farm.homes()[1..], [[0; 3], [1, 0, 3]]);
    assert_eq!((farm.participants(&sid), farm.shards.sid()), (before, sid.clone()));
    let sources = [(Source::Room, false), (Source::Room, false), (Source::Silence, true)];
    assert_eq!(farm.shards.sources(), sources);
    farm.pass(Duration::from_secs(60));
    assert_eq!(farm.shards.in_rooms(), [1, 0, 3, 3]);
    // One row was written when the conference was made, one when it began.
    assert_eq!(farm.rows().len(), 2);
    farm.change(&sid, "CA3", &ParticipantChange { kick: true, ..ParticipantChange::default() });
    assert_eq!((farm.shards.in_rooms(), farm.shards.sum(|counts| counts.calls)), ([0; 4], 2));
    assert_eq!(farm.rows().last(), Some(&(sid, "completed".to_owned())));
}

#[test]
fn members_go_on_without_a_dead_home_where_the_farm_gives_no_other() {
    let mut farm = Farm::new(3);
    farm.call(1, CONFERENCE);
    farm.call(2, CONFERENCE);
    farm.kill(0);
    farm.pass(limits::ROOM_MOVES + Duration::from_secs(2));
    assert_eq!((farm.shards.in_rooms(), farm.shards.sum(|counts| counts.calls)), ([0; 4], 2));
}

#[test]
fn members_of_a_node_that_dies_leave_with_it() {
    let mut farm = Farm::new(3);
    farm.call(0, CONFERENCE);
    farm.call(1, CONFERENCE);
    farm.call(1, CONFERENCE);
    farm.kill(1);
    // As soon as the farm knows it.
    farm.set_home(0);
    assert_eq!(farm.homes()[0], [1, 0, 1]);
    farm.call(2, CONFERENCE);
    farm.kill(2);
    // Or when they are not heard of.
    farm.pass(LOST);
    assert_eq!(farm.homes()[0], [1, 0, 1]);
    assert_eq!(farm.shards.in_rooms(), [1, 0, 1, 1]);
}

/// A node joins or drains: the homes of rooms change while all live, and nodes know it one after the other.
#[test]
fn a_conference_follows_the_map_without_a_word_to_its_members() {
    let mut farm = Farm::new(3);
    let legs: Vec<Key> = (0..3).map(|node| farm.call(node, CONFERENCE)).collect();
    let (sid, before) = (farm.shards.sid(), farm.rows());
    for home in [1, 2, 0] {
        for node in [2, 0, 1] {
            farm.set_home_at(node, home);
            farm.shards.deliver(false);
            farm.pass(Duration::from_millis(700));
            assert_eq!(farm.shards.sources(), [(Source::Room, false); 3]);
        }
        assert_eq!(farm.homes()[home], [1, 0, 3]);
        assert_eq!(farm.shards.in_rooms(), [1, 0, 3, 3]);
        assert_eq!(farm.shards.sid(), sid);
    }
    farm.pass(Duration::from_secs(20));
    assert_eq!((farm.shards.in_rooms(), farm.rows()), ([1, 0, 3, 3], before));
    for (node, leg) in legs.into_iter().enumerate() {
        farm.shards.hang_up(node, leg);
    }
    farm.shards.deliver(false);
    assert_eq!(farm.rows().last(), Some(&(sid, "completed".to_owned())));
}

#[test]
fn two_conferences_of_one_name_become_the_older_one() {
    let mut farm = Farm::new(3);
    farm.call(1, CONFERENCE);
    farm.call(1, CONFERENCE);
    let sid = farm.shards.sid();
    farm.kill(0);
    farm.pass(Duration::from_secs(1));
    // A call comes to a node that knows the death, and its Join is there first.
    farm.set_home_at(2, 2);
    farm.call(2, CONFERENCE);
    let younger = farm.shards.at_home(|voice, _, _| {
        let seat = voice.rooms.seats.values().find(|seated| seated.home.life == Life(3)).ok_or(())?;
        seat.standing.as_ref().map(|standing| standing.sid.to_string()).ok_or(())
    });
    assert_ne!(younger, sid);
    farm.set_home_at(1, 2);
    farm.shards.deliver(false);
    assert_eq!(farm.shards.in_rooms(), [1, 0, 3, 3]);
    assert_eq!(farm.participants(&sid).len(), 3);
    assert!(farm.rows().contains(&(younger, "completed".to_owned())));
    assert!(!farm.rows().contains(&(sid, "completed".to_owned())));
}

#[test]
fn a_queue_keeps_its_order_and_its_connections_when_its_home_dies() {
    let mut farm = Farm::new(3);
    farm.call(1, ENQUEUE);
    farm.call(2, TAKE);
    assert_eq!(farm.shards.sources(), [(Source::Room, false); 2]);
    for node in [2, 1, 2] {
        farm.call(node, ENQUEUE);
        farm.pass(Duration::from_secs(1));
    }
    assert_eq!(farm.shards.in_rooms(), [1, 1, 5, 5]);
    farm.kill(0);
    farm.pass(Duration::from_secs(3));
    farm.set_home(1);
    assert_eq!(farm.shards.in_rooms(), [1, 1, 5, 5]);
    let queue = store::rest::queue_sid("AC1", "a");
    let waiting = farm.shards.at_home(|voice, _, _| voice.rooms.queue_members(&queue));
    assert_eq!(waiting.iter().map(|one| &*one.call_sid).collect::<Vec<_>>(), ["CA3", "CA4", "CA5"]);
    // The connection has the same two, and the next agent gets the first in line.
    farm.pass(Duration::from_secs(20));
    farm.call(2, TAKE);
    assert_eq!(farm.shards.in_rooms(), [2, 1, 6, 6]);
    let waiting = farm.shards.at_home(|voice, _, _| voice.rooms.queue_members(&queue));
    assert_eq!(waiting.iter().map(|one| &*one.call_sid).collect::<Vec<_>>(), ["CA4", "CA5"]);
}

#[test]
fn half_of_a_queues_connection_that_is_left_alone_ends() {
    let mut farm = Farm::new(3);
    farm.call(1, ENQUEUE);
    farm.call(2, TAKE);
    farm.kill(0);
    farm.kill(2);
    farm.set_home(1);
    assert_eq!(farm.shards.in_rooms(), [1, 0, 1, 1]);
    farm.pass(LOST);
    assert_eq!((farm.shards.in_rooms(), farm.shards.sum(|counts| counts.calls)), ([0; 4], 1));
}

/// The bound is that of the link between two nodes: a third node has its own, and a leaving member makes room.
#[test]
fn members_of_each_other_node_are_bounded() {
    let mut farm = Farm::new(3);
    farm.call(0, ENQUEUE);
    let mut last = None;
    for number in 0..=limits::LINK_MEMBERS {
        // A queue has room for a hundred.
        let leg = farm.call(1, &format!("<Response><Enqueue>{}</Enqueue></Response>", number / 100));
        last = if number < limits::LINK_MEMBERS { Some(leg) } else { last };
    }
    let most = u64::from(limits::LINK_MEMBERS);
    assert_eq!(farm.homes()[0][2], most + 1);
    assert_eq!(farm.shards.sum(|counts| counts.seats), most + 1);
    // The node of the queue itself has room, and so has a third one.
    farm.call(0, ENQUEUE);
    farm.call(2, ENQUEUE);
    assert_eq!(farm.homes()[0][2], most + 3);
    farm.shards.hang_up(1, last.unwrap());
    farm.shards.deliver(false);
    farm.call(1, ENQUEUE);
    farm.call(1, ENQUEUE);
    assert_eq!(farm.homes()[0][2], most + 3);
}

/// One waits alone for the conference to start, on hold.
#[test]
fn a_hold_before_the_start_moves_with_its_member() {
    let mut farm = Farm::new(3);
    farm.call(1, CONFERENCE);
    let sid = farm.shards.sid();
    let hold = ParticipantChange {
        hold: Some(true),
        hold_url: "http://127.0.0.1:1/".to_owned(),
        ..ParticipantChange::default()
    };
    farm.change(&sid, "CA1", &hold);
    let before = farm.participants(&sid);
    assert_eq!(before, [("CA1".to_owned(), false, true)]);
    farm.kill(0);
    farm.set_home(2);
    assert_eq!(farm.participants(&sid), before);
    // It hears its document from the start on, and the other one the room.
    farm.call(2, CONFERENCE);
    assert_eq!(farm.shards.sources(), [(Source::Silence, true), (Source::Room, false)]);
}

/// Each of the younger conference's members brings its sid.
#[test]
fn the_row_of_a_conference_that_becomes_another_ends_once() {
    let mut farm = Farm::new(3);
    (0..2).for_each(|_| _ = farm.call(1, CONFERENCE));
    let sid = farm.shards.sid();
    farm.kill(0);
    // Three at a node that knows the death earlier, with a conference of their own.
    farm.set_home_at(2, 2);
    (0..3).for_each(|_| _ = farm.call(2, CONFERENCE));
    // All meet at the second node, the older ones first.
    farm.set_home_at(1, 1);
    farm.shards.deliver(false);
    farm.set_home_at(2, 1);
    farm.shards.deliver(false);
    assert_eq!(farm.participants(&sid).len(), 5);
    let ends = farm.rows().into_iter().filter(|(_, status)| status == "completed").count();
    assert_eq!(ends, 1);
}

/// A recording of a conference is made from the leg of one member, wherever its home moves.
#[test]
fn a_conference_that_moves_is_recorded_once() {
    let mut farm = Farm::new(3);
    let mut legs = Vec::new();
    for node in [1, 2, 1] {
        legs.push((node, farm.call_with_sound(node, RECORDED)));
    }
    assert_eq!(farm.recordings(), 1);
    for home in [1, 2, 0] {
        for node in [2, 0, 1] {
            farm.set_home_at(node, home);
            farm.shards.deliver(false);
            farm.pass(Duration::from_millis(700));
        }
        farm.pass(LOST);
        assert_eq!((farm.recordings(), farm.shards.in_rooms()), (1, [1, 0, 3, 3]));
    }
    farm.kill(0);
    farm.set_home(2);
    farm.pass(LOST);
    assert_eq!((farm.recordings(), farm.shards.in_rooms()), (1, [1, 0, 3, 3]));
    // Only when the member that is recorded leaves, another one is.
    let recorder = legs.iter().position(|leg| farm.is_recorded(*leg)).unwrap();
    let (node, leg) = legs.remove(recorder);
    farm.shards.hang_up(node, leg);
    farm.shards.deliver(false);
    assert_eq!(farm.recordings(), 2);
}

/// The recording belongs to the conference: when its member leaves, it goes on from another, whether that one asked for it or not, at any node.
#[test]
fn a_recording_goes_on_when_its_member_leaves() {
    let mut farm = Farm::new(3);
    let first = farm.call_with_sound(1, RECORDED);
    let [second, third] = [2, 0].map(|node| (node, farm.call_with_sound(node, CONFERENCE)));
    assert_eq!((farm.recordings(), farm.is_recorded((1, first))), (1, true));
    farm.shards.hang_up(1, first);
    farm.shards.deliver(false);
    assert_eq!((farm.recordings(), farm.is_recorded(second), farm.is_recorded(third)), (2, true, false));
    farm.set_home(1);
    farm.pass(LOST);
    assert_eq!((farm.recordings(), farm.is_recorded(second), farm.is_recorded(third)), (2, true, false));
    // The pause goes on, too.
    farm.modify_recording(second, Modify::Pause(Pause::Silence));
    farm.shards.hang_up(second.0, second.1);
    farm.shards.deliver(false);
    assert_eq!((farm.recordings(), farm.is_recorded(third)), (3, true));
    assert_eq!(farm.pause_of(third), Some(Pause::Silence));
    farm.shards.hang_up(third.0, third.1);
    farm.shards.deliver(false);
    assert_eq!((farm.recordings(), farm.shards.in_rooms()), (3, [0; 4]));
}

#[test]
fn a_recording_that_was_stopped_does_not_go_on() {
    let mut farm = Farm::new(3);
    let first = (1, farm.call_with_sound(1, RECORDED));
    let others = [2, 0].map(|node| (node, farm.call_with_sound(node, CONFERENCE)));
    farm.modify_recording(first, Modify::Stop);
    farm.shards.hang_up(first.0, first.1);
    farm.shards.deliver(false);
    farm.pass(LOST);
    assert_eq!((farm.recordings(), others.map(|leg| farm.is_recorded(leg))), (1, [false, false]));
}

/// A pause is known only where the recording is made: another member that asked for a recording, too, does not begin it before.
#[test]
fn a_pause_goes_on_where_another_member_asked_for_a_recording_too() {
    let mut farm = Farm::new(3);
    let [first, second, third] = [1, 2, 0].map(|node| (node, farm.call_with_sound(node, RECORDED)));
    farm.modify_recording(first, Modify::Pause(Pause::Skip));
    farm.shards.hang_up(first.0, first.1);
    // One that joins meanwhile waits likewise.
    let fourth = (2, farm.call_with_sound(2, RECORDED));
    assert_eq!((farm.recordings(), farm.pause_of(second)), (2, Some(Pause::Skip)));
    farm.modify_recording(second, Modify::Resume);
    farm.shards.hang_up(second.0, second.1);
    farm.shards.deliver(false);
    farm.pass(LOST);
    assert_eq!((farm.recordings(), farm.is_recorded(third), farm.pause_of(third)), (3, true, None));
    assert!(!farm.is_recorded(fourth));
}

#[test]
fn a_recording_that_was_stopped_is_not_begun_by_another_member_that_asked_for_it() {
    let mut farm = Farm::new(3);
    let [first, second, third] = [1, 2, 1].map(|node| (node, farm.call_with_sound(node, RECORDED)));
    farm.modify_recording(first, Modify::Stop);
    farm.shards.hang_up(first.0, first.1);
    farm.shards.deliver(false);
    let fourth = (1, farm.call_with_sound(1, RECORDED));
    farm.pass(LOST);
    assert_eq!((farm.recordings(), farm.is_recorded(second)), (1, false));
    // Nor at another home, nor when that one leaves.
    farm.kill(0);
    farm.set_home(2);
    farm.pass(LOST);
    farm.shards.hang_up(second.0, second.1);
    farm.shards.deliver(false);
    farm.pass(LOST);
    let is_recorded = [third, fourth].map(|leg| farm.is_recorded(leg));
    assert_eq!((farm.recordings(), is_recorded, farm.shards.in_rooms()), (1, [false; 2], [1, 0, 2, 2]));
}

/// The Dial's own recording of the recorder counts as that of the conference.
#[test]
fn the_recording_of_a_dial_goes_on_as_that_of_its_conference() {
    for (change, expected) in
        [(Modify::Pause(Pause::Skip), (2, Some(Pause::Skip))), (Modify::Stop, (1, None))]
    {
        let mut farm = Farm::new(3);
        let dial = RECORDED.replace("<Dial>", "<Dial record='record-from-answer'>");
        let first = (1, farm.call_with_sound(1, &dial));
        let second = (2, farm.call_with_sound(2, RECORDED));
        assert_eq!((farm.recordings(), farm.is_recorded(first)), (1, true));
        farm.modify_recording(first, change);
        farm.shards.hang_up(first.0, first.1);
        farm.shards.deliver(false);
        farm.pass(LOST);
        let pause = farm.is_recorded(second).then(|| farm.pause_of(second)).flatten();
        assert_eq!((farm.recordings(), pause), expected);
    }
}

/// A member without media cannot be recorded; that the recording did not begin there is no stop.
#[test]
fn a_recording_that_could_not_begin_goes_on_from_the_next_member() {
    let mut farm = Farm::new(3);
    let first = (1, farm.call_with_sound(1, RECORDED));
    let second = (2, farm.call(2, CONFERENCE));
    let third = (1, farm.call_with_sound(1, CONFERENCE));
    farm.modify_recording(first, Modify::Pause(Pause::Silence));
    for (leg, expected) in [(first, (1, false)), (second, (2, true))] {
        farm.shards.hang_up(leg.0, leg.1);
        farm.shards.deliver(false);
        assert_eq!((farm.recordings(), farm.is_recorded(third)), expected);
    }
    assert_eq!(farm.pause_of(third), Some(Pause::Silence));
}

/// The node is the home of the conference, and hangs up its calls one by one.
#[test]
fn a_node_that_ends_begins_no_recordings_on_its_way() {
    let mut farm = Farm::new(3);
    (0..4).for_each(|_| _ = farm.call_with_sound(1, RECORDED));
    let other = (2, farm.call_with_sound(2, CONFERENCE));
    farm.set_home(1);
    farm.pass(LOST);
    assert_eq!((farm.recordings(), farm.homes()[1]), (1, [1, 0, 5]));
    farm.shards.act(1, |voice, now, world| voice.hang_up_all(now, world));
    farm.shards.deliver(false);
    // It goes on at the other node.
    assert_eq!((farm.recordings(), farm.is_recorded(other)), (2, true));
}

/// The member that is named next has left before it hears so.
#[test]
fn a_recording_goes_on_when_two_members_leave_at_once() {
    let mut farm = Farm::new(3);
    let [first, second] = [(1, RECORDED), (2, CONFERENCE)].map(|(node, document)| {
        let leg = farm.call_with_sound(node, document);
        (node, leg)
    });
    let third = (2, farm.call_with_sound(2, CONFERENCE));
    farm.modify_recording(first, Modify::Pause(Pause::Skip));
    for (node, leg) in [first, second] {
        farm.shards.hang_up(node, leg);
    }
    farm.shards.deliver(false);
    farm.pass(LOST);
    assert_eq!((farm.recordings(), farm.is_recorded(third)), (2, true));
    assert_eq!(farm.pause_of(third), Some(Pause::Skip));
}

/// The word of a member that knew only the sid of the younger conference.
#[test]
fn a_recording_goes_on_in_the_conference_that_its_own_has_become() {
    let mut farm = Farm::new(3);
    let first = (1, farm.call_with_sound(1, CONFERENCE));
    let _second = farm.call(1, CONFERENCE);
    let older = farm.shards.sid();
    farm.kill(0);
    farm.set_home_at(2, 2);
    let _third = farm.call(2, CONFERENCE);
    let sid_at = |farm: &Farm, node: usize| {
        let seated = farm.shards.voices[node].0.rooms.seats.values().next().expect("there is one");
        Arc::clone(&seated.standing.as_ref().expect("it is in the room").sid)
    };
    let younger = sid_at(&farm, 2);
    farm.set_home_at(1, 2);
    farm.shards.deliver(false);
    assert_eq!((&*sid_at(&farm, 2), *younger == *older), (&*older, false));
    let recording = ConferenceRecording { trim: false, status: None, pause: None, is_stopped: false };
    let event = RoomEvent::RecordingEnded { sid: younger, recording: Some(Box::new(recording)) };
    let message = RoomMessage { from: farm.shards.addresses[1], event };
    farm.shards.act(2, |voice, now, world| voice.handle_room_message(now, message, world));
    farm.shards.deliver(false);
    assert!(farm.is_recorded(first));
}

/// The sound of a muted member stays at its node; the room learns how to mix for it.
#[test]
fn a_muted_member_sends_no_sound_to_another_node() {
    let mut farm = Farm::new(3);
    (0..2).for_each(|node| _ = farm.call(node, CONFERENCE));
    let sid = farm.shards.sid();
    let mute = |on| ParticipantChange { mute: Some(on), ..ParticipantChange::default() };
    assert_eq!(farm.say(1), [Some(160), Some(160)]);
    farm.change(&sid, "CA2", &mute(true));
    assert_eq!(farm.say(1), [None, None]);
    // Once a second the codec, without samples: the room may have lost it.
    farm.pass(limits::ROOM_KNOWN);
    assert_eq!(farm.say(1), [Some(0), None]);
    farm.change(&sid, "CA2", &mute(false));
    assert_eq!(farm.say(1), [Some(160), Some(160)]);
    farm.change(&sid, "CA2", &mute(true));
    assert_eq!(farm.say(1), [None, None]);
    // Another home has not heard of the codec.
    farm.set_home(2);
    assert_eq!(farm.say(1), [Some(0), None]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// After any moves and losses, each member is once and where the map says, and nothing stays behind.
    #[test]
    fn each_member_is_at_its_home_some_time_after_any_moves(
        steps in prop::collection::vec((0..8u8, 0..3usize, any::<usize>(), prop::bool::weighted(0.2)), 0..40)
    ) {
        let mut farm = Farm::new(3);
        let mut legs: Vec<(usize, Key)> = Vec::new();
        let mut home = 0;
        for (what, node, which, lost) in steps {
            match what {
                0 | 1 => legs.push((node, farm.shards.call(node, CONFERENCE))),
                2 => legs.push((node, farm.shards.call(node, ENQUEUE))),
                3 => legs.push((node, farm.shards.call(node, TAKE))),
                4 if !legs.is_empty() => {
                    let (node, leg) = legs.swap_remove(which % legs.len());
                    farm.shards.hang_up(node, leg);
                }
                5 => {
                    home = which % 3;
                    farm.set_home_at(node, home);
                }
                _ => farm.shards.pass(Duration::from_secs(which as u64 % 4), lost),
            }
            farm.shards.deliver(lost);
        }
        farm.set_home(home);
        farm.pass(LOST + limits::ROOM_MOVES);
        let [_, _, members, seats] = farm.shards.in_rooms();
        prop_assert_eq!(members, seats);
        prop_assert_eq!(farm.homes()[home][2], members);
        for (node, leg) in legs {
            farm.shards.hang_up(node, leg);
        }
        farm.pass(LOST);
        prop_assert_eq!(farm.shards.in_rooms(), [0; 4]);
    }
}
