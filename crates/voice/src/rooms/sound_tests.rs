//! Sound between members of different shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use admin::control::ParticipantChange;
use ivr::document::{Beep, Callback, Conference};
use ivr::request::{Method, Target};
use media::codec::{Codec, Decoder};
use media::session::FrameSource;
use media::tone::tone;
use router::{Life, ShardAddress};
use stdx::Instant;
use stdx::rng::Rng;

use super::super::Owner;
use super::frames::{Frames, Sound, pieces};
use super::home::{Out, RoomHome};
use super::message::{Join, Name, RoomEvent, RoomTarget};

const TONES: [f64; 3] = [440.0, 700.0, 1_250.0];
const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

/// Three members of two shards, in a room of a third.
struct Room {
    home: RoomHome,
    out: Vec<Out>,
    names: Vec<Name>,
    rates: [u32; 3],
}

fn conference() -> Conference {
    let target = Target { url: "http://a/events".to_owned(), method: Method::Get };
    Conference {
        name: "a".to_owned(),
        muted: false,
        beep: Beep::Never,
        start_on_enter: true,
        end_on_exit: false,
        wait: None,
        max_participants: 40,
        record: false,
        trim: false,
        coach: None,
        label: None,
        status: Some(Callback { target, events: vec!["speaker"] }),
        recording_status: None,
    }
}

fn room(rates: [u32; 3], with: impl Fn(usize, &mut Conference)) -> Room {
    let owner = Arc::new(Owner { account: "AC1".into(), signing_key: "".into() });
    // One of the node of the home, two of another node.
    let shards = [ShardAddress::new(Life(7), 1), ShardAddress::new(Life(8), 0)];
    let home = RoomHome::new(ShardAddress::new(Life(7), 0), Rng::seeded(1), Arc::default());
    let mut room = Room { home, out: Vec::new(), names: Vec::new(), rates };
    for at in 0..3 {
        let name = Name { shard: shards[usize::from(at > 0)], number: 10 + at as u64 };
        let mut wanted = conference();
        with(at, &mut wanted);
        let place = RoomTarget::Conference(Box::new(wanted));
        let call_sid = format!("CA{at}").into();
        let join = Join { number: name.number, call_sid, owner: Arc::clone(&owner), place, again: None };
        room.home.handle(NOW, name.shard, RoomEvent::Join(Box::new(join)), &mut room.out);
        room.names.push(name);
    }
    room
}

impl Room {
    /// All say their tones for 400 ms, except in the ticks that are lost; what each heard of the last 200, at which rate.
    fn talk(&mut self, is_lost: impl Fn(usize) -> bool) -> [(u32, Vec<i16>); 3] {
        let said: Vec<Vec<i16>> = (0..3).map(|at| tone(TONES[at], 6_000, self.rates[at], 400)).collect();
        let mut heard: [(u32, Vec<i16>); 3] = Default::default();
        let mut decoders: Vec<Decoder> = (0..3).map(|_| Decoder::new(Codec::Pcma).unwrap()).collect();
        for tick in 0..20 {
            let mut sounds: BTreeMap<ShardAddress, Sound> = BTreeMap::new();
            for (at, said) in said.iter().enumerate() {
                let frame = said.len() / 20;
                let samples = &said[tick * frame..(tick + 1) * frame];
                let codec = if self.rates[at] == 8_000 { Codec::Pcma } else { Codec::Opus };
                let name = self.names[at];
                sounds.entry(name.shard).or_default().put(name.number, codec, self.rates[at], samples);
            }
            for (shard, sound) in sounds.into_iter().filter(|_| !is_lost(tick)) {
                self.home.handle(NOW, shard, RoomEvent::Said(Arc::new(sound)), &mut self.out);
            }
            let mut back: BTreeMap<ShardAddress, Sound> = BTreeMap::new();
            self.home.mix(NOW, &mut back, &mut self.out);
            for (sound, at) in back.into_values().flat_map(|sound| {
                let sound = Arc::new(sound);
                (0..3).map(move |at| (Arc::clone(&sound), at))
            }) {
                let number = self.names[at].number;
                let mut frames = Frames::default();
                pieces(&sound)
                    .filter(|(to, _)| *to == number)
                    .for_each(|(_, piece)| frames.push(&sound, piece));
                match frames.next() {
                    FrameSource::None => {}
                    FrameSource::Samples { rate, samples } => {
                        heard[at].0 = rate;
                        heard[at].1.extend_from_slice(samples);
                    }
                    FrameSource::Payload { payload, .. } => {
                        heard[at].0 = 8_000;
                        decoders[at].decode(payload, &mut heard[at].1).unwrap();
                    }
                }
            }
        }
        heard.map(|(rate, samples)| (rate, samples[samples.len() / 2..].to_vec()))
    }

    /// For each member the members that it hears.
    fn matrix(&mut self) -> [[bool; 3]; 3] {
        self.talk(|_| false).map(|(rate, heard)| TONES.map(|tone| level(&heard, rate, tone) > 3_000.0))
    }

    fn change(&mut self, call: &str, change: ParticipantChange) {
        let sid = self.sid();
        self.home.modify_participant(NOW, (&sid, call), change, &mut self.out).unwrap();
    }

    fn sid(&self) -> String {
        let sid = self.out.iter().find_map(|out| match out {
            Out::Tell(_, RoomEvent::Standing { standing, .. }) => Some(standing.sid.to_string()),
            _ => None,
        });
        sid.unwrap()
    }
}

fn level(samples: &[i16], rate: u32, frequency: f64) -> f64 {
    let (re, im) = samples.iter().enumerate().fold((0.0, 0.0), |(re, im), (at, sample)| {
        let turn = std::f64::consts::TAU * frequency * at as f64 / f64::from(rate);
        (re + f64::from(*sample) * turn.cos(), im + f64::from(*sample) * turn.sin())
    });
    re.hypot(im) * 2.0 / samples.len() as f64
}

const ALL: [[bool; 3]; 3] = [[false, true, true], [true, false, true], [true, true, false]];

#[test]
fn members_hear_each_other_at_any_sample_rates() {
    for rates in [[8_000; 3], [8_000, 48_000, 8_000], [16_000, 8_000, 48_000]] {
        assert_eq!(room(rates, |_, _| {}).matrix(), ALL, "{rates:?}");
    }
}

#[test]
fn lost_messages_are_missing_frames_and_no_stall() {
    let mut room = room([8_000; 3], |_, _| {});
    let heard = room.talk(|tick| tick % 5 == 4);
    for (at, (rate, samples)) in heard.iter().enumerate() {
        assert_eq!(samples.len(), 1_600);
        let other = level(samples, *rate, TONES[(at + 1) % 3]);
        assert!((4_000.0..5_500.0).contains(&other), "{at}: {other}");
    }
    assert_eq!(room.matrix(), ALL);
}

#[test]
fn muted_and_held_members_are_not_heard() {
    let mut room = room([8_000; 3], |at, wanted| wanted.muted = at == 1);
    assert_eq!(room.matrix(), [[false, false, true], [true, false, true], [true, false, false]]);
    room.change("CA1", ParticipantChange { mute: Some(false), ..ParticipantChange::default() });
    assert_eq!(room.matrix(), ALL);
    // A member on hold gets nothing of the room.
    room.change("CA0", ParticipantChange { hold: Some(true), ..ParticipantChange::default() });
    assert_eq!(room.matrix(), [[false; 3], [false, false, true], [false, true, false]]);
    room.change("CA0", ParticipantChange { hold: Some(false), ..ParticipantChange::default() });
    assert_eq!(room.matrix(), ALL);
}

#[test]
fn a_coach_hears_all_and_is_heard_by_one() {
    let mut room = room([8_000; 3], |at, wanted| wanted.coach = (at == 2).then(|| "CA0".to_owned()));
    assert_eq!(room.matrix(), [[false, true, true], [true, false, false], [true, true, false]]);
}

#[test]
fn a_member_that_begins_to_speak_is_reported() {
    let mut room = room([8_000; 3], |_, _| {});
    room.matrix();
    let spoke =
        |out: &&Out| matches!(out, Out::Callback(wire) if wire.url.contains("participant-speech-start"));
    assert_eq!(room.out.iter().filter(spoke).count(), 3);
}
