//! Two legs of one shard that hear each other.
//!
//! A bridge is no value of its own: each leg names the other as its `partner`, and the tick copies what one
//! received to the other ([`SentSound`]). Payloads pass unchanged where both have one codec, unless they are shorter than
//! a tick. Both directions begin and end together: `join` and `Rooms::part` set both sides.

use media::codec::Codec;
use media::events::Digit;
use media::session::{FrameSource, MediaSession};
use stdx::Instant;
use stdx::slab::Key;

use super::calls::Calls;
use super::leg::{Leg, Partner};
use super::rooms::{RoomParts, Rooms};

/// The sound that a leg sends in a tick, copied from the leg that it hears: both legs cannot be borrowed at
/// once.
#[derive(Default)]
pub(super) struct SentSound {
    form: SoundForm,
    payload: Vec<u8>,
    samples: Vec<i16>,
    /// The sound comes from an application's media stream.
    is_streamed: bool,
}

/// The form of a frame: which buffer it is in.
#[derive(Clone, Copy, Debug, Default)]
enum SoundForm {
    #[default]
    None,
    Payload(Codec),
    /// At this rate, in Hz.
    Samples(u32),
}

impl SentSound {
    /// The frame that another leg received in this tick; none, if none came.
    pub(super) fn take(&mut self, from: &MediaSession) {
        self.payload.clear();
        self.samples.clear();
        self.form = match from.received_frame() {
            FrameSource::None => SoundForm::None,
            FrameSource::Payload { codec, payload } => {
                self.payload.extend_from_slice(payload);
                SoundForm::Payload(codec)
            }
            FrameSource::Samples { rate, samples } => {
                self.samples.extend_from_slice(samples);
                SoundForm::Samples(rate)
            }
        };
    }

    /// A frame of an application.
    pub(super) fn take_stream(&mut self, codec: Codec, payload: impl Iterator<Item = u8>) {
        self.form = SoundForm::Payload(codec);
        self.payload.clear();
        self.payload.extend(payload);
        self.is_streamed = true;
    }

    /// It is an application's, which goes before any partner's.
    pub(super) fn is_streamed(&self) -> bool {
        self.is_streamed
    }

    /// No sound. The memory is kept.
    pub(super) fn clear(&mut self) {
        self.form = SoundForm::None;
        self.is_streamed = false;
    }

    /// As a media session takes it.
    pub(super) fn feed(&self) -> FrameSource<'_> {
        match self.form {
            SoundForm::None => FrameSource::None,
            SoundForm::Payload(codec) => FrameSource::Payload { codec, payload: &self.payload },
            SoundForm::Samples(rate) => FrameSource::Samples { rate, samples: &self.samples },
        }
    }
}

impl Calls {
    /// From now on the two hear each other, whatever they heard before. A third leg that either was joined
    /// with has to be parted before: its `partner` would still name that leg, and parting it later would part
    /// these two.
    pub(super) fn join(&mut self, a: Key, b: Key) {
        for (key, other) in [(a, b), (b, a)] {
            let Some(leg) = self.legs.get_mut(key) else { continue };
            leg.partner = Partner::Leg(other);
            if let Some(media) = &mut leg.media {
                media.listen(true);
            }
        }
    }

    /// Connects a caller that hears no other sound to a phone that has not answered yet. The first phone with
    /// early media wins.
    pub(super) fn connect_early(&mut self, caller: Key, phone: Key) {
        let has_media = |leg: &Leg| leg.media.is_some();
        let is_free = |leg: &Leg| has_media(leg) && leg.partner == Partner::None;
        if !self.legs.get(phone).is_some_and(has_media) || !self.legs.get(caller).is_some_and(is_free) {
            return;
        }
        if let Some(leg) = self.legs.get_mut(caller) {
            leg.stop_ringing();
        }
        self.join(caller, phone);
    }

    /// Forwards a key that came beside the sound, as an event or an INFO, to the leg's partner. Digits in the
    /// sound itself cross with it.
    pub(super) fn cross_digit(&mut self, leg: Key, digit: Digit) {
        let Some(Partner::Leg(other)) = self.legs.get(leg).map(|leg| leg.partner) else { return };
        if let Some(media) = self.legs.get_mut(other).and_then(|leg| leg.media.as_mut()) {
            // More than 64 digits are waiting: keys are not pressed that fast, and further digits are lost.
            media.send_digits(&[digit]);
        }
    }
}

impl Rooms {
    /// Ends the connection between `leg` and its partner, in both directions, or its stay in a room. A leg
    /// without either is left as it is, and one that hears itself hears silence.
    pub(super) fn part(&mut self, now: Instant, leg: Key, parts: &mut RoomParts<'_, '_>) {
        let Some(left) = parts.calls.legs.get_mut(leg) else { return };
        match std::mem::take(&mut left.partner) {
            Partner::Leg(other) => {
                for key in [leg, other] {
                    let Some(leg) = parts.calls.legs.get_mut(key) else { continue };
                    leg.partner = Partner::None;
                    if let Some(media) = &mut leg.media {
                        media.listen(false);
                    }
                }
            }
            Partner::Seat(seat) => {
                self.leave_seat(now, seat.number, parts);
            }
            Partner::None | Partner::Echo => {}
        }
    }
}
