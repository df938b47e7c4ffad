//! Messages between a conference or queue and its members at another node (`voice::room_message`): events have the class Ask, sound the
//! class Sound. A node of version 1 does not know these kinds: rooms are those of a farm from level [`ROOMS_SINCE`] on.

use std::sync::Arc;

use ::voice::RoomMessage;
use ::voice::room_message::{MemberStatus, RoomEvent};
use cluster::fields::{Corrupt, put_number};
use cluster::link::Message;
use cluster::{Life, ShardAddress};

use super::room_sound::{read_sound, sound_bodies};
use super::room_values::{
    put_join, put_reason, put_recording, put_status, put_target, read_join, read_reason, read_recording,
    read_status, read_target,
};
use super::values::{absent, fields, put_text, put_value, text};
use super::{FROM_LIFE, FROM_SHARD, message};

/// The level of the map from which all nodes know these messages.
pub const ROOMS_SINCE: u16 = 2;

/// An event of a room or a member, and the sound of a tick.
pub(super) const ROOM: u16 = 70;
pub(super) const ROOM_SOUND: u16 = 71;

// Fields of an event, besides those of the sender. Its kind says which are needed.
const KIND: u64 = 1;
/// The number of a member; several are a list.
const NUMBER: u64 = 2;
const JOIN: u64 = 3;
/// The status of a member, with its number; several are a list.
const STATUS: u64 = 4;
const REASON: u64 = 5;
const TARGET: u64 = 6;
const ROOM_SID: u64 = 7;
const RECORDING: u64 = 8;

// Kinds of events; 0 is none.
const JOINS: u64 = 1;
const LEAVES: u64 = 2;
const MOVED: u64 = 3;
const ALIVE: u64 = 4;
const ANNOUNCED: u64 = 5;
const STANDING: u64 = 6;
const KNOWN: u64 = 7;
const GONE: u64 = 8;
const ANNOUNCE: u64 = 9;
// Kinds of sound.
pub(super) const SAID: u64 = 10;
pub(super) const HEARD: u64 = 11;
// Kinds of events again. A node that does not know it does not go on with the recording.
const RECORDING_ENDED: u64 = 12;

/// The messages of one between a room and its members: one, or several of sound that is longer than a message.
pub(super) fn room_messages(to: ShardAddress, room: &RoomMessage) -> Vec<Message> {
    let RoomMessage { from, event } = room;
    let bodies = match event {
        RoomEvent::Said(sound) => return sound_messages(to, *from, (SAID, sound)),
        RoomEvent::Heard(sound) => return sound_messages(to, *from, (HEARD, sound)),
        other => event_body(*from, other),
    };
    vec![message(ROOM, to, bodies)]
}

fn sound_messages(
    to: ShardAddress,
    from: ShardAddress,
    (kind, sound): (u64, &::voice::room_message::Sound),
) -> Vec<Message> {
    let head = || {
        let mut body = Vec::with_capacity(1_024);
        put_sender(&mut body, from, kind);
        body
    };
    sound_bodies(kind, sound, head).into_iter().map(|body| message(ROOM_SOUND, to, body)).collect()
}

fn put_sender(body: &mut Vec<u8>, from: ShardAddress, kind: u64) {
    put_number(body, FROM_LIFE, u64::from(from.life.0));
    put_number(body, FROM_SHARD, u64::from(from.shard));
    put_number(body, KIND, kind);
}

fn event_body(from: ShardAddress, event: &RoomEvent) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    let mut put = |kind, numbers: &[u64]| {
        put_sender(&mut body, from, kind);
        numbers.iter().for_each(|number| put_number(&mut body, NUMBER, *number));
    };
    match event {
        RoomEvent::Join(join) => {
            put(JOINS, &[]);
            put_value(&mut body, JOIN, |out| put_join(out, join));
        }
        RoomEvent::Leave { number } => put(LEAVES, &[*number]),
        RoomEvent::RecordingEnded { sid, recording } => {
            put(RECORDING_ENDED, &[]);
            put_text(&mut body, ROOM_SID, sid);
            if let Some(recording) = recording {
                put_value(&mut body, RECORDING, |out| put_recording(out, recording));
            }
        }
        RoomEvent::Moved { number } => put(MOVED, &[*number]),
        RoomEvent::Alive { numbers } => put(ALIVE, numbers),
        RoomEvent::Announced { number } => put(ANNOUNCED, &[*number]),
        RoomEvent::Standing { number, standing } => {
            put(STANDING, &[]);
            put_value(&mut body, STATUS, |out| put_status(out, *number, standing));
        }
        RoomEvent::Known { standings } => {
            put(KNOWN, &[]);
            for (number, standing) in standings {
                put_value(&mut body, STATUS, |out| put_status(out, *number, standing));
            }
        }
        RoomEvent::Gone { number, why } => {
            put(GONE, &[*number]);
            put_value(&mut body, REASON, |out| put_reason(out, why));
        }
        RoomEvent::Announce { number, target } => {
            put(ANNOUNCE, &[*number]);
            put_value(&mut body, TARGET, |out| put_target(out, target));
        }
        // Sound has a kind of its own.
        RoomEvent::Said(_) | RoomEvent::Heard(_) => {}
    }
    body
}

/// Reads a message of either kind; none of an event that a later version has added.
pub(super) fn read_room(message: &Message) -> Result<Option<RoomMessage>, Corrupt> {
    if message.kind == ROOM_SOUND {
        return read_sound_message(message);
    }
    let (mut life, mut shard, mut kind) = (None, 0, 0);
    let (mut numbers, mut standings): (Vec<u64>, Vec<(u64, MemberStatus)>) = (Vec::new(), Vec::new());
    let (mut join, mut why, mut target) = (None, None, None);
    let (mut sid, mut recording) = (None, None);
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        match field.number {
            FROM_LIFE => life = Some(Life(field.value()?)),
            FROM_SHARD => shard = field.value()?,
            KIND => kind = field.value()?,
            NUMBER => numbers.push(field.value()?),
            JOIN => join = Some(read_join(field.bytes)?),
            STATUS => standings.push(read_status(field.bytes)?),
            REASON => why = read_reason(field.bytes)?,
            TARGET => target = Some(read_target(field.bytes)?),
            ROOM_SID => sid = Some(text(&field)?),
            RECORDING => recording = Some(read_recording(field.bytes)?),
            _ => {}
        }
    }
    let number = || numbers.first().copied().ok_or(absent("an event of a room names no member"));
    let event = match kind {
        // A room of a later version, which this node does not have.
        JOINS => match join.ok_or(absent("a member that joins a room names none"))? {
            Some(join) => RoomEvent::Join(Box::new(join)),
            None => return Ok(None),
        },
        LEAVES => RoomEvent::Leave { number: number()? },
        RECORDING_ENDED => {
            let sid = sid.ok_or(absent("a recording that has ended names no conference"))?;
            RoomEvent::RecordingEnded { sid: Arc::from(sid), recording: recording.map(Box::new) }
        }
        MOVED => RoomEvent::Moved { number: number()? },
        ALIVE => RoomEvent::Alive { numbers },
        ANNOUNCED => RoomEvent::Announced { number: number()? },
        STANDING => {
            let (number, standing) = standings.pop().ok_or(absent("the status of a member is missing"))?;
            RoomEvent::Standing { number, standing: Box::new(standing) }
        }
        KNOWN => RoomEvent::Known { standings },
        // Whatever the reason, it is in no room.
        GONE => RoomEvent::Gone {
            number: number()?,
            why: why.unwrap_or(::voice::room_message::LeaveReason::Over),
        },
        ANNOUNCE => {
            let target = target.ok_or(absent("an announcement has no document"))?;
            RoomEvent::Announce { number: number()?, target }
        }
        _ => return Ok(None),
    };
    Ok(Some(RoomMessage { from: sender(life, shard)?, event }))
}

fn read_sound_message(message: &Message) -> Result<Option<RoomMessage>, Corrupt> {
    let (mut life, mut shard, mut kind) = (None, None, 0);
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        match field.number {
            FROM_LIFE => life = Some(Life(field.value()?)),
            FROM_SHARD => shard = Some(field.value()?),
            KIND => kind = field.value()?,
            _ => {}
        }
    }
    let from = sender(life, shard.ok_or(absent("the sound of a room names no shard"))?)?;
    let sound = Arc::new(read_sound(kind, &message.body)?);
    let event = match kind {
        // All of its frames are in codecs of a later version.
        _ if sound.is_empty() => return Ok(None),
        SAID => RoomEvent::Said(sound),
        HEARD => RoomEvent::Heard(sound),
        _ => return Ok(None),
    };
    Ok(Some(RoomMessage { from, event }))
}

fn sender(life: Option<Life>, shard: u16) -> Result<ShardAddress, Corrupt> {
    let life = life.ok_or(absent("a message of a room has no sender"))?;
    Ok(ShardAddress::new(life, shard))
}

#[cfg(test)]
pub(super) mod tests {
    use ::voice::Owner;
    use ::voice::record::Pause;
    use ::voice::room_message::{
        ConferenceRecording, Join, LINK_MEMBERS, LeaveReason, MemberAudio, QueuePosition, RoomTarget, Sound,
        SoundPart,
    };
    use bytes::Bytes;
    use cluster::Epoch;
    use cluster::link::Class;
    use ivr::document::{Beep, Callback, Conference};
    use ivr::request::{Method, Target};
    use ivr::script::Start;
    use media::codec::Codec;
    use proptest::prelude::*;
    use stdx::Instant;

    use super::*;
    use crate::ShardMessage;
    use crate::wire::{Decoded, any_bytes, class_of, encode, read};

    const FROM: ShardAddress = ShardAddress { life: Life(9), shard: 1 };
    const AT: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn target(method: Method) -> Target {
        Target { url: "http://app.example/".to_owned(), method }
    }

    fn owner() -> Arc<Owner> {
        Arc::new(Owner { account: "AC1".into(), signing_key: "key".into() })
    }

    fn conference() -> Conference {
        Conference {
            name: "tea".to_owned(),
            muted: true,
            beep: Beep::OnExit,
            start_on_enter: true,
            end_on_exit: true,
            wait: None,
            max_participants: 40,
            record: true,
            trim: false,
            coach: Some("CA2".to_owned()),
            label: Some("alice".to_owned()),
            status: Some(Callback { target: target(Method::Get), events: vec!["end", "speaker"] }),
            recording_status: None,
        }
    }

    fn status(hears: MemberAudio) -> MemberStatus {
        MemberStatus {
            sid: "CF1".into(),
            hears,
            line: Some(QueuePosition { position: 2, size: 3, average_seconds: 40, since: AT }),
            with: Some("CA2".into()),
            records: true,
            recording: None,
            is_muted: true,
            held: None,
            end_on_exit: true,
            joined_at: AT,
            created_at: AT,
            sequence: 17,
        }
    }

    fn join(place: RoomTarget, again: Option<Box<MemberStatus>>) -> RoomEvent {
        RoomEvent::Join(Box::new(Join { number: 300, call_sid: "CA1".into(), owner: owner(), place, again }))
    }

    /// One of a codec that is sent as it is, one as its samples, and one of which nothing was received.
    pub(crate) fn said() -> Sound {
        let mut sound = Sound::default();
        let samples = |rate, codec, samples| SoundPart::Samples { codec, rate, samples };
        let quiet = [8; 160];
        sound.insert(samples(8_000, Codec::Pcmu, &quiet), &[300]);
        sound.insert(samples(16_000, Codec::G722, &[-5; 320]), &[301]);
        sound.insert(samples(8_000, Codec::Pcma, &[]), &[302]);
        sound
    }

    fn heard() -> Sound {
        let mut sound = Sound::default();
        sound.insert(SoundPart::Payload { codec: Codec::Pcma, payload: &[0xd5; 160] }, &[300, 301]);
        sound.insert(SoundPart::Samples { codec: Codec::Pcmu, rate: 48_000, samples: &[7; 960] }, &[302]);
        sound
    }

    pub(crate) fn examples() -> Vec<(&'static str, RoomMessage)> {
        let standing = |hears| Box::new(status(hears));
        let hold = MemberAudio::Hold(Some(target(Method::Post)));
        let gone = |why| RoomEvent::Gone { number: 300, why };
        let all = vec![
            ("join", join(RoomTarget::Conference(Box::new(conference())), None)),
            (
                "join-again",
                join(RoomTarget::Conference(Box::new(conference())), Some(standing(hold.clone()))),
            ),
            ("join-queue", join(RoomTarget::Queue { name: "line".into(), max_size: 10 }, None)),
            ("join-first", join(RoomTarget::First { queue: "line".into(), document: None }, None)),
            (
                "join-first-document",
                join(RoomTarget::First { queue: "line".into(), document: Some(target(Method::Get)) }, None),
            ),
            ("leave", RoomEvent::Leave { number: 300 }),
            ("moved", RoomEvent::Moved { number: 300 }),
            ("alive", RoomEvent::Alive { numbers: vec![300, 301] }),
            ("announced", RoomEvent::Announced { number: 300 }),
            ("standing", RoomEvent::Standing { number: 300, standing: standing(MemberAudio::Room) }),
            (
                "known",
                RoomEvent::Known {
                    standings: vec![
                        (300, status(MemberAudio::Wait)),
                        (301, status(hold)),
                        (302, status(MemberAudio::Hold(None))),
                    ],
                },
            ),
            ("refused", gone(LeaveReason::Refused("it is full".to_owned()))),
            ("full", gone(LeaveReason::Full)),
            ("over", gone(LeaveReason::Over)),
            ("redirected", gone(LeaveReason::Redirected(Start::Url(target(Method::Get))))),
            ("redirected-document", gone(LeaveReason::Redirected(Start::Document(b"<Response/>".to_vec())))),
            ("announce", RoomEvent::Announce { number: 300, target: target(Method::Get) }),
            ("said", RoomEvent::Said(Arc::new(said()))),
            ("heard", RoomEvent::Heard(Arc::new(heard()))),
        ];
        all.into_iter().map(|(name, event)| (name, RoomMessage { from: FROM, event })).collect()
    }

    fn messages_of(event: RoomEvent) -> Vec<Message> {
        encode(ShardAddress::default(), &ShardMessage::Room(RoomMessage { from: FROM, event }))
    }

    fn event_of(message: &Message) -> RoomEvent {
        match read(message) {
            Ok(Decoded::Message(ShardMessage::Room(RoomMessage { from: FROM, event }))) => event,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn events_have_the_class_ask_and_sound_its_own() {
        for (name, room) in examples() {
            let is_sound = matches!(name, "said" | "heard");
            let class = if is_sound { Class::Sound } else { Class::Ask };
            assert!(messages_of(room.event).iter().all(|message| class_of(message) == class), "{name}");
        }
    }

    #[test]
    fn the_key_that_signs_callbacks_crosses_and_no_debug_text_has_it() {
        let room = RoomMessage {
            from: FROM,
            event: join(RoomTarget::First { queue: "line".into(), document: None }, None),
        };
        let text = format!("{room:?}");
        let RoomEvent::Join(join) = event_of(&messages_of(room.event)[0]) else { panic!() };
        assert_eq!(&*join.owner.signing_key, "key");
        assert!(text.contains("AC1") && !text.contains("key"), "{text}");
    }

    #[test]
    fn a_hold_before_the_start_crosses_with_its_document_or_without_one() {
        for held in [None, Some(None), Some(Some(target(Method::Get)))] {
            let standing = MemberStatus { held: held.clone(), ..status(MemberAudio::Wait) };
            let event = RoomEvent::Standing { number: 300, standing: Box::new(standing) };
            let RoomEvent::Standing { standing, .. } = event_of(&messages_of(event)[0]) else { panic!() };
            assert_eq!(standing.held, held);
        }
    }

    #[test]
    fn a_recording_that_goes_on_crosses_with_its_options() {
        let callback = Callback { target: target(Method::Get), events: vec!["in-progress", "absent"] };
        let all = [
            (false, None, None, false),
            (true, Some(callback), Some(Pause::Silence), false),
            (true, None, Some(Pause::Skip), false),
            (false, None, None, true),
        ];
        let all = all.map(|(trim, status, pause, is_stopped)| {
            Some(Box::new(ConferenceRecording { trim, status, pause, is_stopped }))
        });
        for recording in all.into_iter().chain([None]) {
            let event = RoomEvent::RecordingEnded { sid: "CF1".into(), recording: recording.clone() };
            let RoomEvent::RecordingEnded { sid, recording: read } = event_of(&messages_of(event)[0]) else {
                panic!()
            };
            assert_eq!((&*sid, &read), ("CF1", &recording));
            let standing = MemberStatus { recording: recording.clone(), ..status(MemberAudio::Room) };
            let event = RoomEvent::Standing { number: 300, standing: Box::new(standing) };
            let RoomEvent::Standing { standing, .. } = event_of(&messages_of(event)[0]) else { panic!() };
            assert_eq!(standing.recording, recording);
        }
    }

    #[test]
    fn sound_of_more_members_than_a_message_has_room_for_goes_in_several() {
        let mut sound = Sound::default();
        for number in 0..400_i16 {
            let samples = &[number; 960];
            let number = u64::try_from(number).unwrap();
            sound.insert(SoundPart::Samples { codec: Codec::Opus, rate: 48_000, samples }, &[number]);
        }
        let expected: Vec<_> =
            sound.parts().into_iter().map(|(part, members)| format!("{part:?} {members:?}")).collect();
        let messages = messages_of(RoomEvent::Said(Arc::new(sound)));
        assert!((4..8).contains(&messages.len()), "{}", messages.len());
        let mut found = Vec::new();
        for message in messages {
            assert!(message.body.len() <= crate::limits::ROOM_SOUND_BYTES);
            let RoomEvent::Said(sound) = event_of(&message) else { panic!() };
            let parts = sound.parts();
            found.extend(parts.into_iter().map(|(part, members)| format!("{part:?} {members:?}")));
        }
        assert!(found == expected);
    }

    /// One direction of a link carries the speech of the other node's members in rooms here, and the sound that this node's members hear
    /// in rooms there.
    #[test]
    fn a_link_has_room_for_the_sound_of_all_members_at_16_khz() {
        let bytes = |event: fn(Arc<Sound>) -> RoomEvent| {
            let mut sound = Sound::default();
            for number in 0..u64::from(LINK_MEMBERS) {
                let samples = &[1; 320];
                sound.insert(SoundPart::Samples { codec: Codec::G722, rate: 16_000, samples }, &[number]);
            }
            messages_of(event(Arc::new(sound))).iter().map(Message::wire_bytes).sum::<usize>()
        };
        let all = bytes(RoomEvent::Said) + bytes(RoomEvent::Heard);
        assert!(all <= Class::Sound.window(), "{all}");
    }

    /// Samples of G.711 are as they were; a frame costs one byte a sample.
    #[test]
    fn sound_of_a_g711_phone_crosses_as_its_bytes() {
        for codec in [Codec::Pcmu, Codec::Pcma] {
            let mut samples = Vec::new();
            let payload: Vec<u8> = (0..=255).collect();
            media::codec::Decoder::new(codec).unwrap().decode(&payload, &mut samples).unwrap();
            let mut sound = Sound::default();
            sound.insert(SoundPart::Samples { codec, rate: 8_000, samples: &samples }, &[1]);
            let message = messages_of(RoomEvent::Said(Arc::new(sound))).remove(0);
            assert!(message.body.len() < 300);
            let RoomEvent::Said(sound) = event_of(&message) else { panic!() };
            assert_eq!(sound.parts()[0].0, SoundPart::Samples { codec, rate: 8_000, samples: &samples });
        }
    }

    #[test]
    fn an_event_of_a_later_version_is_passed_over_and_one_without_its_fields_is_a_fault() {
        let of = |kind: u64| {
            let mut body = Vec::new();
            put_sender(&mut body, FROM, kind);
            message(ROOM, ShardAddress::default(), body)
        };
        assert!(matches!(read(&of(4_000)), Ok(Decoded::LaterKind)));
        for kind in [JOINS, LEAVES, MOVED, ANNOUNCED, STANDING, GONE, ANNOUNCE] {
            assert!(read(&of(kind)).is_err(), "{kind}");
        }
        let nameless = message(ROOM, ShardAddress::default(), Vec::new());
        assert!(matches!(read(&nameless), Ok(Decoded::LaterKind)));
        let nameless = Message { kind: ROOM_SOUND, ..nameless };
        assert!(read(&nameless).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_of_a_room_or_a_fault(is_sound: bool, body: Vec<u8>) {
            any_bytes::check(ROOM + u16::from(is_sound), &body);
        }

        /// Bytes near those of real messages: one is changed, some are cut off.
        #[test]
        fn almost_a_message_of_a_room_is_one_or_a_fault(
            which: prop::sample::Index, place: prop::sample::Index, byte: u8, kept: prop::sample::Index,
        ) {
            let mut all = examples();
            let room = all.swap_remove(which.index(all.len()));
            let message = messages_of(room.1.event).remove(0);
            let mut body = message.body.to_vec();
            *place.get_mut(&mut body) = byte;
            any_bytes::check(message.kind, &body);
            any_bytes::check(message.kind, &body[..kept.index(body.len())]);
        }

        #[test]
        fn any_sound_comes_back(
            frames in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<i16>(), 0..50), 1..4_u64), 0..20)
        ) {
            let mut sound = Sound::default();
            for (number, (is_payload, samples, count)) in frames.into_iter().enumerate() {
                let members: Vec<u64> = (0..count).map(|member| number as u64 * 10 + member).collect();
                let payload: Vec<u8> = samples.iter().map(|sample| sample.to_be_bytes()[0]).collect();
                if is_payload && !payload.is_empty() {
                    sound.insert(SoundPart::Payload { codec: Codec::G722, payload: &payload }, &members);
                } else {
                    let part = SoundPart::Samples { codec: Codec::L16, rate: 8_000, samples: &samples };
                    sound.insert(part, &members);
                }
            }
            let expected = format!("{sound:?}");
            let is_empty = sound.parts().is_empty();
            let messages = messages_of(RoomEvent::Heard(Arc::new(sound)));
            prop_assert_eq!(messages.len(), usize::from(!is_empty));
            for message in messages {
                let RoomEvent::Heard(sound) = event_of(&message) else { panic!() };
                prop_assert_eq!(format!("{sound:?}"), expected.clone());
            }
        }
    }

    #[test]
    fn a_message_that_was_cut_is_a_fault() {
        let message = messages_of(RoomEvent::Leave { number: 1 }).remove(0);
        let cut = Message {
            epoch: Epoch(0),
            body: Bytes::copy_from_slice(&message.body[..message.body.len() - 1]),
            ..message
        };
        assert!(read(&cut).is_err());
    }
}
