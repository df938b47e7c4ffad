//! The calls of two shards with their scripts, in virtual time: no member stays in a room, whatever messages are lost
//! on the way.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use admin::control::{ConferenceChange, ParticipantChange};
use ivr::script::{Call, Direction, Plan, Role, Script, Start};
use proptest::prelude::*;
use router::{Life, ShardAddress};
use sip::endpoint::Endpoint;
use sip::session::SessionId;
use stdx::Instant;
use stdx::slab::Key;

use super::super::actor::{Actor, Part};
use super::super::leg::Leg;
use super::super::testing::{NoSockets, common, place};
use super::super::{
    Done, HelperResult, Owner, RoomMessage, ShardPlace, Ticket, Voice, VoiceCounts, VoiceEffect, World,
    limits,
};
use super::Source;

pub(super) struct Shards {
    pub(super) now: Instant,
    pub(super) addresses: Vec<ShardAddress>,
    pub(super) voices: Vec<(Voice, Endpoint)>,
    /// Shards of nodes that have died: nothing reaches them, and they do nothing.
    pub(super) dead: BTreeSet<usize>,
    pub(super) messages: Vec<(ShardAddress, RoomMessage)>,
    /// Status callbacks, and rows that were written.
    pub(super) rows: Vec<(usize, store::Write)>,
    last: u64,
}

pub(super) const CONFERENCE: &str =
    "<Response><Dial><Conference waitUrl=''>a</Conference></Dial><Pause length='600'/></Response>";
pub(super) const ENQUEUE: &str = "<Response><Enqueue>a</Enqueue><Pause length='600'/></Response>";
pub(super) const TAKE: &str =
    "<Response><Dial timeout='600'><Queue>a</Queue></Dial><Pause length='600'/></Response>";
const PAUSE: &str = "<Response><Pause length='600'/></Response>";

fn owner() -> Arc<Owner> {
    Arc::new(Owner { account: "AC1".into(), signing_key: "".into() })
}

impl Shards {
    /// Two of one node.
    fn new() -> Shards {
        Shards::at(&[0, 1].map(|shard| ShardAddress::new(Life(0), shard)))
    }

    /// These shards. Shards of one life are neighbours.
    pub(super) fn at(addresses: &[ShardAddress]) -> Shards {
        let now = Instant::from_unix_seconds(1_800_000_000);
        let voice = |address: &ShardAddress| {
            let common = common([127, 0, 0, 1]).with_life(address.life.0);
            let of_node = addresses.iter().filter(|other| other.life == address.life).count();
            let listener = (Ipv4Addr::LOCALHOST, 5060 + address.shard).into();
            let endpoint = Endpoint::new(sim::settings(*address, &[listener]), now);
            let place = place(address.shard, u16::try_from(of_node).unwrap());
            // Nodes draw different sids.
            let seed = [place.seed[0] ^ address.life.0.to_le_bytes()[0]; 32];
            let place = ShardPlace { seed, ..place };
            (Voice::new(&common, place), endpoint)
        };
        Shards {
            now,
            addresses: addresses.to_vec(),
            voices: addresses.iter().map(voice).collect(),
            dead: BTreeSet::new(),
            messages: Vec::new(),
            rows: Vec::new(),
            last: 0,
        }
    }

    pub(super) fn act<T>(
        &mut self,
        shard: usize,
        act: impl FnOnce(&mut Voice, Instant, &mut World<'_>) -> T,
    ) -> T {
        let (voice, endpoint) = &mut self.voices[shard];
        let (mut out, mut outbox) = (Vec::new(), Vec::new());
        let sockets = &mut NoSockets::new();
        let done = act(voice, self.now, &mut World { endpoint, out: &mut out, outbox: &mut outbox, sockets });
        for effect in outbox {
            match effect {
                VoiceEffect::Post { to, message } => self.messages.push((to, message)),
                VoiceEffect::Write(write) => self.rows.push((shard, write)),
                _ => {}
            }
        }
        done
    }

    /// A call that performs a document.
    pub(super) fn call(&mut self, shard: usize, document: &str) -> Key {
        self.last += 1;
        let number = self.last;
        let call = Call {
            sid: format!("CA{number}"),
            account_sid: "AC1".to_owned(),
            from: "1".to_owned(),
            to: "2".to_owned(),
            direction: Direction::Inbound,
            caller_name: None,
            forwarded_from: None,
            parent_sid: None,
            api_version: "2012-04-24".to_owned(),
            extra: Vec::new(),
            answered: true,
        };
        let plan = Plan {
            role: Role::Call,
            start: Start::Document(document.into()),
            fallback: None,
            status: None,
            answer_on_bridge: false,
            time_limit: None,
        };
        self.act(shard, |voice, now, world| {
            let owner = owner();
            let (sid, ip) = (call.sid.clone(), Ipv4Addr::LOCALHOST.into());
            let leg = Leg::new(SessionId(number), sid, owner, ip, &mut voice.calls.rng);
            voice.calls.start_ticks(now, &voice.rooms);
            let leg = voice.calls.add_leg(leg);
            let actor =
                voice.calls.add_actor(Actor { script: Script::new(call, plan), leg, part: Part::Main });
            voice.drive(now, actor, world, |script, out| script.start(now, out));
            leg
        })
    }

    pub(super) fn hang_up(&mut self, shard: usize, leg: Key) {
        self.act(shard, |voice, now, world| {
            if let Some(leg) = voice.calls.legs.get_mut(leg) {
                leg.is_gone = true;
            }
            voice.drive_leg(now, leg, world, |script, out| script.handle_hangup(now, out));
        });
    }

    /// Delivers what is under way; nothing of it when it is lost.
    pub(super) fn deliver(&mut self, lost: bool) {
        while !self.messages.is_empty() {
            for (to, message) in std::mem::take(&mut self.messages) {
                let shard = self.addresses.iter().position(|address| *address == to).expect("it is known");
                if !lost && !self.dead.contains(&shard) {
                    self.act(shard, |voice, now, world| voice.handle_room_message(now, message, world));
                }
            }
        }
    }

    pub(super) fn live(&self) -> impl Iterator<Item = usize> + use<> {
        let dead = self.dead.clone();
        (0..self.voices.len()).filter(move |shard| !dead.contains(shard))
    }

    pub(super) fn pass(&mut self, time: Duration, lost: bool) {
        let until = self.now + time;
        while self.now < until {
            self.now = self.now + Duration::from_millis(100);
            for shard in self.live() {
                self.act(shard, |voice, now, world| voice.expire(now, world));
            }
            self.deliver(lost);
        }
    }

    pub(super) fn sum(&self, read: impl Fn(VoiceCounts) -> u64) -> u64 {
        self.live().map(|shard| read(self.voices[shard].0.counts())).sum()
    }

    pub(super) fn in_rooms(&self) -> [u64; 4] {
        [
            self.sum(|counts| counts.rooms),
            self.sum(|counts| counts.queues),
            self.sum(|counts| counts.members),
            self.sum(|counts| counts.seats),
        ]
    }

    /// The sources of the seated legs' sound, and whether a document performs beside their own.
    pub(super) fn sources(&self) -> Vec<(Source, bool)> {
        let of = |shard: usize| {
            let voice = &self.voices[shard].0;
            let has_aside = |leg| voice.calls.legs.get(leg).is_some_and(|leg| leg.aside.is_some());
            let seats = voice.rooms.seats.values();
            seats.map(|seated| (seated.source, has_aside(seated.leg))).collect::<Vec<_>>()
        };
        self.live().flat_map(of).collect()
    }

    /// Asks the home, wherever it is.
    pub(super) fn at_home<T, E>(
        &mut self,
        ask: impl Fn(&mut Voice, Instant, &mut World<'_>) -> Result<T, E>,
    ) -> T {
        let done =
            self.live().find_map(|shard| self.act(shard, |voice, now, world| ask(voice, now, world)).ok());
        self.deliver(false);
        done.expect("one of the shards is the home")
    }

    pub(super) fn sid(&self) -> String {
        let mut seats = self.live().flat_map(|shard| self.voices[shard].0.rooms.seats.values());
        seats.find_map(|seated| seated.standing.as_ref()).expect("a member is there").sid.to_string()
    }

    /// Documents asked for cannot be had.
    fn fail_documents(&mut self, tickets: std::ops::Range<u64>) {
        for shard in 0..2 {
            for ticket in tickets.clone() {
                let failure = ivr::script::EffectFailure { code: 11_205, text: "nobody there".to_owned() };
                let ticket = Ticket { shard: u16::try_from(shard).unwrap(), id: ticket };
                let result = HelperResult::new(ticket, Done::Fetched(Err(failure)));
                self.act(shard, |voice, now, world| voice.handle_result(now, result, world));
            }
        }
        self.deliver(false);
    }
}

pub(super) const LOST: Duration = limits::ROOM_LOST.saturating_add(Duration::from_secs(3));

#[test]
fn a_call_goes_on_after_a_lost_join_and_is_no_ghost_after_a_lost_leave() {
    let mut shards = Shards::new();
    let kept = shards.call(0, CONFERENCE);
    let gone = shards.call(1, CONFERENCE);
    shards.deliver(false);
    assert_eq!(shards.in_rooms(), [1, 0, 2, 2]);
    assert_eq!(shards.sources(), [(Source::Room, false); 2]);
    shards.hang_up(1, gone);
    shards.hang_up(0, kept);
    shards.messages.clear();
    shards.pass(LOST, false);
    assert_eq!(shards.in_rooms(), [0; 4]);
    shards.call(0, CONFERENCE);
    shards.call(1, CONFERENCE);
    shards.messages.clear();
    assert_eq!(shards.in_rooms()[2..], [1, 2]);
    shards.pass(LOST, false);
    // One of them is at home; the other's Dial failed, and its call goes on.
    assert_eq!(shards.in_rooms(), [1, 0, 1, 1]);
    assert_eq!(shards.sum(|counts| counts.calls), 2);
}

#[test]
fn a_room_that_is_not_heard_of_is_left_by_all_and_their_calls_go_on() {
    let mut shards = Shards::new();
    for shard in [0, 1, 1] {
        shards.call(shard, CONFERENCE);
    }
    shards.call(0, ENQUEUE);
    shards.call(1, TAKE);
    shards.deliver(false);
    shards.pass(Duration::from_secs(20), false);
    assert_eq!(shards.in_rooms(), [2, 0, 5, 5]);
    shards.pass(LOST, true);
    let [_, _, members, seats] = shards.in_rooms();
    assert!(members == seats && members < 5, "{members} and {seats}");
    assert_eq!(shards.sum(|counts| counts.calls), 5);
}

#[test]
fn a_member_on_hold_hears_the_hold_document_and_then_the_room() {
    let mut shards = Shards::new();
    shards.call(0, CONFERENCE);
    shards.call(1, CONFERENCE);
    shards.deliver(false);
    let sid = shards.sid();
    for (url, is_held) in [("", Source::Music), ("http://127.0.0.1:1/", Source::Silence)] {
        for hold in [true, false] {
            let change =
                ParticipantChange { hold: Some(hold), hold_url: url.to_owned(), ..Default::default() };
            shards.at_home(|voice, now, world| {
                voice.with_rooms(now, world, |rooms, parts| {
                    rooms.modify_participant(now, (&sid, "CA2"), change.clone(), parts)
                })
            });
            let expected = if hold { (is_held, !url.is_empty()) } else { (Source::Room, false) };
            assert_eq!(shards.sources(), [(Source::Room, false), expected]);
        }
    }
}

#[test]
fn an_announcement_that_cannot_be_had_ends_and_the_call_does_not() {
    let mut shards = Shards::new();
    shards.call(0, CONFERENCE);
    shards.call(1, CONFERENCE);
    shards.deliver(false);
    let sid = shards.sid();
    let announce = ConferenceChange {
        announce_url: Some("http://127.0.0.1:1/".to_owned()),
        ..ConferenceChange::default()
    };
    shards.at_home(|voice, now, world| {
        voice.with_rooms(now, world, |rooms, parts| {
            rooms.modify_conference(now, &sid, announce.clone(), parts)
        })
    });
    assert_eq!(shards.sources(), [(Source::Room, true); 2]);
    // A hangup during an announcement does not end the member's call.
    for (voice, _) in &shards.voices {
        let asides: Vec<_> = voice.calls.legs.iter().map(|(_, leg)| (leg.main, leg.aside)).collect();
        for (main, aside) in asides {
            assert!(
                voice.rooms.is_announcement(aside.unwrap(), &voice.calls)
                    && !voice.rooms.is_announcement(main.unwrap(), &voice.calls)
            );
        }
    }
    shards.fail_documents(0..50);
    assert_eq!(shards.sources(), [(Source::Room, false); 2]);
    assert_eq!(shards.sum(|counts| counts.calls), 2);
    let complete = ConferenceChange { complete: true, ..ConferenceChange::default() };
    shards.at_home(|voice, now, world| {
        voice.with_rooms(now, world, |rooms, parts| {
            rooms.modify_conference(now, &sid, complete.clone(), parts)
        })
    });
    assert_eq!((shards.in_rooms(), shards.sum(|counts| counts.calls)), ([0; 4], 2));
}

#[test]
fn after_an_announcement_the_wait_document_begins_again() {
    let mut shards = Shards::new();
    let wait = "<Response><Dial><Conference waitUrl='http://127.0.0.1:1/'>a</Conference></Dial></Response>";
    shards.call(0, wait);
    shards.deliver(false);
    assert_eq!(shards.sources(), [(Source::Silence, true)]);
    let sid = shards.sid();
    let announce =
        ParticipantChange { announce_url: Some("http://127.0.0.1:1/".to_owned()), ..Default::default() };
    shards.at_home(|voice, now, world| {
        voice.with_rooms(now, world, |rooms, parts| {
            rooms.modify_participant(now, (&sid, "CA1"), announce.clone(), parts)
        })
    });
    let is_announcing = |shards: &Shards| {
        let mut legs = shards.voices.iter().flat_map(|(voice, _)| {
            voice.calls.legs.iter().map(|(_, leg)| {
                leg.aside.is_some_and(|aside| voice.rooms.is_announcement(aside, &voice.calls))
            })
        });
        legs.next().unwrap()
    };
    assert!(is_announcing(&shards));
    // The first ticket was that of the document before it.
    shards.fail_documents(2..3);
    assert_eq!((shards.sources(), is_announcing(&shards)), (vec![(Source::Silence, true)], false));
    // And when that cannot be had, there is music.
    shards.fail_documents(3..4);
    assert_eq!(shards.sources(), [(Source::Music, false)]);
}

#[test]
fn a_call_removed_from_a_room_or_a_queue_goes_on() {
    let mut shards = Shards::new();
    shards.call(0, CONFERENCE);
    shards.call(1, CONFERENCE);
    shards.deliver(false);
    let sid = shards.sid();
    let kick = ParticipantChange { kick: true, ..ParticipantChange::default() };
    shards.at_home(|voice, now, world| {
        voice.with_rooms(now, world, |rooms, parts| {
            rooms.modify_participant(now, (&sid, "CA1"), kick.clone(), parts)
        })
    });
    assert_eq!((shards.in_rooms(), shards.sum(|counts| counts.calls)), ([1, 0, 1, 1], 2));
    let found = shards.at_home(|voice, _, _| voice.rooms.participants(&sid));
    assert_eq!(found.len(), 1);
    for shard in [0, 1] {
        shards.call(shard, ENQUEUE);
        shards.deliver(false);
    }
    let queue = store::rest::queue_sid(&owner().account, "a");
    let waits: Vec<_> = shards.at_home(|voice, _, _| voice.rooms.queue_members(&queue));
    assert_eq!(waits.iter().map(|one| &*one.call_sid).collect::<Vec<_>>(), ["CA3", "CA4"]);
    for (call, expected) in [(Some("CA4"), "CA4"), (None, "CA3")] {
        let to = Start::Document(PAUSE.into());
        let taken = shards.at_home(|voice, now, world| {
            voice.with_rooms(now, world, |rooms, parts| rooms.dequeue(now, (&queue, call), to.clone(), parts))
        });
        assert_eq!(taken.call_sid, expected);
    }
    assert_eq!((shards.in_rooms(), shards.sum(|counts| counts.calls)), ([1, 0, 1, 1], 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_member_is_left_after_any_losses(
        steps in prop::collection::vec((0..6u8, 0..2usize, any::<usize>(), prop::bool::weighted(0.3)), 0..40)
    ) {
        let mut shards = Shards::new();
        let mut legs: Vec<(usize, Key)> = Vec::new();
        for (what, shard, which, lost) in steps {
            match what {
                0 => legs.push((shard, shards.call(shard, CONFERENCE))),
                1 => legs.push((shard, shards.call(shard, ENQUEUE))),
                2 => legs.push((shard, shards.call(shard, TAKE))),
                3 | 4 if !legs.is_empty() => {
                    let (shard, leg) = legs.swap_remove(which % legs.len());
                    shards.hang_up(shard, leg);
                }
                _ => shards.pass(Duration::from_secs(which as u64 % 7), lost),
            }
            shards.deliver(lost);
        }
        shards.pass(LOST, false);
        let [_, _, members, seats] = shards.in_rooms();
        prop_assert_eq!(members, seats);
        for (shard, leg) in legs {
            shards.hang_up(shard, leg);
        }
        shards.messages.clear();
        shards.pass(LOST, true);
        prop_assert_eq!(shards.in_rooms(), [0; 4]);
        prop_assert_eq!(shards.sum(|counts| counts.calls), 0);
    }
}
