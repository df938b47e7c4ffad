//! Sound between shards, of one node or of two: one message a tick for all members of one shard in the rooms of another.
//!
//! A message a member would be 50 a second for each; one for all costs the inbox a place a tick. The bytes
//! are shared: a message is an `Arc`, and each member keeps the place of its frame in it until its tick. [`Sound::parts`] and
//! [`Sound::insert`] take a message apart, and make it of its parts, for its way to another node.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use media::codec::Codec;
use media::session::FrameSource;

use super::super::limits;

/// A tick of many members, in one direction: what they say, or what they hear.
#[derive(Debug, Default)]
pub struct Sound {
    /// Decoded frames, one behind the other.
    samples: Vec<i16>,
    /// Encoded frames, one behind the other.
    payload: Vec<u8>,
    /// The frames' members and places, in any order.
    frames: Vec<Frame>,
}

/// A member's frame.
#[derive(Debug)]
struct Frame {
    number: u64,
    piece: Piece,
}

/// The position of a frame. Members that hear the same share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The codec in which the member speaks and hears; that of the payload, when it is one.
    codec: Codec,
    /// Hz of samples; 0 with a payload.
    rate: u32,
    is_payload: bool,
    /// The place in `samples` or `payload`.
    at: Range<usize>,
}

impl Sound {
    /// True without frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds the sound that a member says. `codec`: its leg's, in which it is to hear.
    pub(super) fn put(&mut self, number: u64, codec: Codec, rate: u32, samples: &[i16]) {
        self.insert(SoundPart::Samples { codec, rate, samples }, &[number]);
    }

    /// Adds the sound for a member. Returns the piece, for other members that hear the same.
    pub(super) fn put_feed(&mut self, number: u64, feed: FrameSource<'_>) -> Option<Piece> {
        let part = match feed {
            FrameSource::None => return None,
            FrameSource::Samples { rate, samples } => {
                SoundPart::Samples { codec: Codec::default(), rate, samples }
            }
            FrameSource::Payload { codec, payload } => SoundPart::Payload { codec, payload },
        };
        self.insert(part, &[number]);
        self.frames.last().map(|frame| frame.piece.clone())
    }

    /// Adds a member that hears the same as another.
    pub(super) fn put_again(&mut self, number: u64, piece: Piece) {
        self.frames.push(Frame { number, piece });
    }

    fn feed(&self, piece: &Piece) -> FrameSource<'_> {
        match self.part(piece) {
            SoundPart::Payload { codec, payload } => FrameSource::Payload { codec, payload },
            SoundPart::Samples { rate, samples, .. } => FrameSource::Samples { rate, samples },
        }
    }

    fn part(&self, piece: &Piece) -> SoundPart<'_> {
        let (codec, at) = (piece.codec, piece.at.clone());
        if piece.is_payload {
            return SoundPart::Payload { codec, payload: self.payload.get(at).unwrap_or_default() };
        }
        let samples = self.samples.get(at).unwrap_or_default();
        SoundPart::Samples { codec, rate: piece.rate, samples }
    }

    /// The frames, each with the members that share it, in the order of the first of these.
    pub fn parts(&self) -> Vec<(SoundPart<'_>, Vec<u64>)> {
        let mut parts: Vec<(SoundPart<'_>, Vec<u64>)> = Vec::new();
        // Frames that are not empty begin at different places.
        let mut known: HashMap<(bool, usize), usize> = HashMap::new();
        for Frame { number, piece } in &self.frames {
            if !piece.at.is_empty() {
                let at = *known.entry((piece.is_payload, piece.at.start)).or_insert(parts.len());
                if let Some((_, members)) = parts.get_mut(at) {
                    members.push(*number);
                    continue;
                }
            }
            parts.push((self.part(piece), vec![*number]));
        }
        parts
    }

    /// Adds a frame that these members share.
    pub fn insert(&mut self, part: SoundPart<'_>, members: &[u64]) {
        let piece = match part {
            SoundPart::Samples { codec, rate, samples } => {
                let at = self.samples.len();
                self.samples.extend_from_slice(samples);
                Piece { codec, rate, is_payload: false, at: at..self.samples.len() }
            }
            SoundPart::Payload { codec, payload } => {
                let at = self.payload.len();
                self.payload.extend_from_slice(payload);
                Piece { codec, rate: 0, is_payload: true, at: at..self.payload.len() }
            }
        };
        for number in members {
            self.put_again(*number, piece.clone());
        }
    }
}

/// A frame of 20 ms, for one or several members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoundPart<'a> {
    /// Decoded; empty when nothing was received in that tick.
    Samples {
        /// Said: the codec in which the member speaks and hears.
        codec: Codec,
        /// In Hz.
        rate: u32,
        /// One channel.
        samples: &'a [i16],
    },
    /// Encoded.
    Payload {
        /// The codec of the payload.
        codec: Codec,
        /// The payload of a packet of RTP.
        payload: &'a [u8],
    },
}

/// Every member's frame of a message.
pub(super) fn pieces(sound: &Arc<Sound>) -> impl Iterator<Item = (u64, Piece)> {
    sound.frames.iter().map(|frame| (frame.number, frame.piece.clone()))
}

/// Frames of one member on their way from its shard or to it: the two shards do not tick at the same time. A
/// queue of `limits::ROOM_FRAMES` evens that out; a frame beyond it is dropped, so delay does not add up.
#[derive(Debug, Default)]
pub(super) struct Frames {
    waiting: VecDeque<(Arc<Sound>, Piece)>,
    /// The frame of this tick.
    current: Option<(Arc<Sound>, Piece)>,
}

impl Frames {
    pub(super) fn push(&mut self, sound: &Arc<Sound>, piece: Piece) {
        if self.waiting.len() >= limits::ROOM_FRAMES {
            self.waiting.pop_front();
        }
        self.waiting.push_back((Arc::clone(sound), piece));
    }

    /// The frame of this tick. None when it is late or lost: the member hears nothing for 20 ms.
    pub(super) fn next(&mut self) -> FrameSource<'_> {
        self.current = self.waiting.pop_front();
        self.current.as_ref().map_or(FrameSource::None, |(sound, piece)| sound.feed(piece))
    }

    /// The same, with the codec and rate in which the member says it.
    pub(super) fn next_said(&mut self) -> Option<(Codec, u32, &[i16])> {
        self.current = self.waiting.pop_front();
        let (sound, piece) = self.current.as_ref()?;
        Some((piece.codec, piece.rate, sound.samples.get(piece.at.clone()).unwrap_or_default()))
    }

    /// Forgets all frames: sound from before a hold or a change of rooms is not played later.
    pub(super) fn clear(&mut self) {
        *self = Frames::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_wait_for_the_other_shards_tick_and_the_oldest_make_room() {
        let mut frames = Frames::default();
        assert_eq!(frames.next(), FrameSource::None);
        for tick in 0..5 {
            let mut sound = Sound::default();
            sound.put(7, Codec::Pcma, 8_000, &[tick; 160]);
            let sound = Arc::new(sound);
            pieces(&sound).for_each(|(_, piece)| frames.push(&sound, piece));
        }
        let kept = i16::try_from(limits::ROOM_FRAMES).unwrap();
        for tick in 5 - kept..5 {
            assert_eq!(frames.next(), FrameSource::Samples { rate: 8_000, samples: &[tick; 160] });
        }
        assert_eq!(frames.next(), FrameSource::None);
    }

    #[test]
    fn receivers_of_the_same_sound_share_its_bytes() {
        let mut sound = Sound::default();
        let payload = FrameSource::Payload { codec: Codec::Pcma, payload: &[1; 160] };
        let piece = sound.put_feed(1, payload).unwrap();
        sound.put_again(2, piece);
        assert_eq!(sound.put_feed(3, FrameSource::None), None);
        assert_eq!(sound.payload.len(), 160);
        let sound = Arc::new(sound);
        let all: Vec<_> = pieces(&sound).collect();
        assert_eq!(all.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2]);
        assert!(all.iter().all(|(_, piece)| sound.feed(piece) == payload));
    }

    #[test]
    fn a_message_is_the_same_after_it_was_taken_apart() {
        let mut sound = Sound::default();
        sound.put(7, Codec::Opus, 48_000, &[5; 960]);
        // Nothing was received from two of them.
        sound.put(8, Codec::Pcma, 8_000, &[]);
        sound.put(9, Codec::Pcmu, 8_000, &[]);
        let payload = FrameSource::Payload { codec: Codec::Pcma, payload: &[1; 160] };
        let piece = sound.put_feed(1, payload).unwrap();
        sound.put(3, Codec::Pcmu, 8_000, &[6; 160]);
        sound.put_again(2, piece);
        let parts = sound.parts();
        let members: Vec<&[u64]> = parts.iter().map(|(_, members)| &members[..]).collect();
        assert_eq!(members, [&[7][..], &[8], &[9], &[1, 2], &[3]]);
        let mut again = Sound::default();
        parts.iter().for_each(|(part, members)| again.insert(*part, members));
        assert_eq!(again.parts(), parts);
    }
}
