//! Sound between shards: one message a tick for all members of one shard in the rooms of another.
//!
//! A message a member would be 50 a second for each; one for all costs the inbox a place a tick. The bytes
//! are shared: a message is an `Arc`, and each member keeps the place of its frame in it until its tick.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use media::codec::Codec;
use media::session::FrameSource;

use super::super::limits;

/// A tick of many members, in one direction: what they say, or what they hear.
#[derive(Debug, Default)]
pub(super) struct Sound {
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
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds the sound that a member says. `codec`: its leg's, in which it is to hear.
    pub(super) fn put(&mut self, number: u64, codec: Codec, rate: u32, samples: &[i16]) {
        let at = self.samples.len();
        self.samples.extend_from_slice(samples);
        let piece = Piece { codec, rate, is_payload: false, at: at..self.samples.len() };
        self.frames.push(Frame { number, piece });
    }

    /// Adds the sound for a member. Returns the piece, for other members that hear the same.
    pub(super) fn put_feed(&mut self, number: u64, feed: FrameSource<'_>) -> Option<Piece> {
        let piece = match feed {
            FrameSource::None => return None,
            FrameSource::Samples { rate, samples } => {
                let at = self.samples.len();
                self.samples.extend_from_slice(samples);
                Piece { codec: Codec::default(), rate, is_payload: false, at: at..self.samples.len() }
            }
            FrameSource::Payload { codec, payload } => {
                let at = self.payload.len();
                self.payload.extend_from_slice(payload);
                Piece { codec, rate: 0, is_payload: true, at: at..self.payload.len() }
            }
        };
        self.put_again(number, piece.clone());
        Some(piece)
    }

    /// Adds a member that hears the same as another.
    pub(super) fn put_again(&mut self, number: u64, piece: Piece) {
        self.frames.push(Frame { number, piece });
    }

    fn feed(&self, piece: &Piece) -> FrameSource<'_> {
        let at = piece.at.clone();
        if piece.is_payload {
            let payload = self.payload.get(at).unwrap_or_default();
            return FrameSource::Payload { codec: piece.codec, payload };
        }
        FrameSource::Samples { rate: piece.rate, samples: self.samples.get(at).unwrap_or_default() }
    }
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
    fn those_who_hear_the_same_share_its_bytes() {
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
}
