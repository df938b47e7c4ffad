//! The sound of a tick between two nodes: a field for each frame, with the members that share it. The audio of G.711 phones crosses as their
//! bytes, of which the samples were made; other samples cross as they are.
//!
//! A message that is read is written with at most as many bytes, so that it stays one message.

use ::voice::room_message::{Sound, SoundPart};
use cluster::fields::{Corrupt, put_bytes, put_number, put_varint, take_varint};
use media::codec::{Codec, Decoder, Encoder};

use super::rooms::SAID;
use super::values::{absent, at_place, fields, place_of, put_value};
use crate::limits::{ROOM_FRAME_BYTES, ROOM_SOUND_BYTES};

/// By their number on the wire; a new one goes to the end.
pub(super) const CODECS: [Codec; 9] = [
    Codec::Pcmu,
    Codec::Pcma,
    Codec::G722,
    Codec::Opus,
    Codec::L16,
    Codec::G729,
    Codec::TelephoneEvent,
    Codec::ComfortNoise,
    Codec::Other,
];

/// A frame, beside the fields of the message's sender and kind.
const FRAME: u64 = 20;

// Fields of a frame.
const CODEC: u64 = 1;
/// In Hz; 0 for a payload.
const RATE: u64 = 2;
const BYTES: u64 = 3;
/// The numbers of the members, one behind the other.
const MEMBERS: u64 = 4;

/// The bodies of the messages with this sound, each behind a head: as many frames as there is room for.
pub(super) fn sound_bodies(kind: u64, sound: &Sound, head: impl Fn() -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    for (part, members) in sound.parts() {
        let mut frame = Vec::new();
        put_value(&mut frame, FRAME, |out| put_frame(out, kind, part, &members));
        match bodies.last_mut().filter(|body| body.len() + frame.len() <= ROOM_SOUND_BYTES) {
            Some(body) => body.extend_from_slice(&frame),
            None => {
                let mut body = head();
                body.extend_from_slice(&frame);
                bodies.push(body);
            }
        }
    }
    bodies
}

/// The codec in which samples cross, if they do not cross as they are.
fn law(kind: u64, codec: Codec, rate: u32) -> Option<Codec> {
    Some(codec).filter(|codec| kind == SAID && rate == 8_000 && matches!(codec, Codec::Pcmu | Codec::Pcma))
}

fn put_frame(out: &mut Vec<u8>, kind: u64, part: SoundPart<'_>, members: &[u64]) {
    let (codec, rate) = match part {
        SoundPart::Samples { codec, rate, .. } => (codec, rate),
        SoundPart::Payload { codec, .. } => (codec, 0),
    };
    put_number(out, CODEC, place_of(&CODECS, &codec));
    put_number(out, RATE, u64::from(rate));
    match part {
        SoundPart::Payload { payload, .. } => put_bytes(out, BYTES, payload),
        SoundPart::Samples { samples, .. } => {
            let mut bytes = Vec::with_capacity(samples.len() * 2);
            let encoder = Encoder::new(law(kind, codec, rate).unwrap_or(Codec::L16));
            // Neither of these codecs refuses a frame.
            let _ = encoder.and_then(|mut encoder| encoder.encode(samples, &mut bytes));
            put_bytes(out, BYTES, &bytes);
        }
    }
    let mut numbers = Vec::new();
    members.iter().for_each(|number| put_varint(&mut numbers, *number));
    put_bytes(out, MEMBERS, &numbers);
}

/// Reads the sound of a message.
pub(super) fn read_sound(kind: u64, body: &[u8]) -> Result<Sound, Corrupt> {
    if body.len() > ROOM_SOUND_BYTES {
        return Err(absent("the sound of a room is too long"));
    }
    let mut sound = Sound::default();
    let mut fields = fields(body)?;
    while let Some(field) = fields.next()? {
        if field.number == FRAME {
            read_frame(kind, field.bytes, &mut sound)?;
        }
    }
    Ok(sound)
}

/// Adds a frame. One in a codec of a later version is left out.
fn read_frame(kind: u64, bytes: &[u8], sound: &mut Sound) -> Result<(), Corrupt> {
    let (mut codec, mut rate, mut encoded, mut members) = (None, None, None, Vec::new());
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            CODEC => codec = Some(field.value()?),
            RATE => rate = Some(field.value()?),
            BYTES => encoded = Some(field.bytes),
            MEMBERS => members = read_numbers(field.bytes)?,
            _ => {}
        }
    }
    let codec = codec.ok_or(absent("a frame of sound has no codec"))?;
    let rate: u32 = rate.ok_or(absent("a frame of sound has no rate"))?;
    let encoded = encoded.ok_or(absent("a frame of sound has no bytes"))?;
    let Some(codec) = at_place(&CODECS, codec) else { return Ok(()) };
    if encoded.len() > ROOM_FRAME_BYTES {
        return Err(absent("a frame of sound is too long"));
    }
    // A frame without sound is one member's: others could not be told from it.
    if members.is_empty() || (encoded.is_empty() && (rate == 0 || members.len() > 1)) {
        return Err(absent("a frame of sound names no members, or too many"));
    }
    if rate == 0 && kind == SAID {
        return Err(absent("a frame that a member says has no rate"));
    }
    if rate == 0 {
        sound.insert(SoundPart::Payload { codec, payload: encoded }, &members);
        return Ok(());
    }
    let mut samples = Vec::with_capacity(encoded.len());
    let decoder = Decoder::new(law(kind, codec, rate).unwrap_or(Codec::L16));
    let decoded = decoder.and_then(|mut decoder| decoder.decode(encoded, &mut samples));
    decoded.map_err(|_| absent("a frame of sound has half a sample"))?;
    sound.insert(SoundPart::Samples { codec, rate, samples: &samples }, &members);
    Ok(())
}

fn read_numbers(mut bytes: &[u8]) -> Result<Vec<u64>, Corrupt> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        numbers.push(take_varint(&mut bytes).ok_or(absent("a number of a member is none"))?);
    }
    Ok(numbers)
}
