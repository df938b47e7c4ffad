//! The sound that comes in: buffered against jitter, decoded and concealed, a frame a tick.

use stdx::time::Instant;

use super::TickWork;
use crate::codec::{Codec, Decoder, PayloadType, payload_samples};
use crate::conceal::Concealer;
use crate::jitter::{Clock, JitterBuffer, JitterCounts, Pulled};
use crate::prompt::frame_samples;
use crate::rtp::Packet;

/// The shortest delay of the jitter buffer, in milliseconds: bears one packet out of order.
const MIN_DELAY_MS: u32 = 40;

/// The sound of the peer, as far as it is wanted.
pub(super) struct ReceivedAudio {
    /// The payload type that comes now.
    pub(super) incoming: PayloadType,
    /// Made with the first packet that a sink wants, and dropped with the last sink.
    jitter: Option<Box<JitterBuffer>>,
    /// The counts of the buffers before the current one.
    jitter_counts: JitterCounts,
    /// Made for the first frame that is decoded.
    decoder: Option<Decoder>,
    /// Fills losses and pauses.
    concealer: Concealer,
    /// This tick's frame as it came.
    pub(super) payload: Vec<u8>,
    /// This tick's frame decoded.
    pub(super) samples: Vec<i16>,
    /// Decoded samples of later ticks: packets of more than a frame.
    decoded: Vec<i16>,
    /// Packets of less than a frame have come, of a codec whose packets cannot be joined as they are: the sound is decoded
    /// for all sinks.
    pub(super) is_short: bool,
    /// `samples` are not concealment alone.
    pub(super) has_sound: bool,
}

impl ReceivedAudio {
    /// Nothing came yet; buffers are made with the first packet.
    pub(super) fn new(incoming: PayloadType) -> ReceivedAudio {
        ReceivedAudio {
            incoming,
            jitter: None,
            jitter_counts: JitterCounts::default(),
            decoder: None,
            concealer: Concealer::default(),
            payload: Vec::new(),
            samples: Vec::new(),
            decoded: Vec::new(),
            is_short: false,
            has_sound: false,
        }
    }

    /// Another payload type comes in; buffered sound is dropped.
    pub(super) fn change(&mut self, incoming: PayloadType) {
        self.incoming = incoming;
        self.decoder = None;
        self.decoded.clear();
        self.is_short = false;
        self.jitter_counts = self.counts();
        self.jitter = None;
    }

    /// True if packets were buffered since the last change.
    pub(super) fn is_buffered(&self) -> bool {
        self.jitter.is_some()
    }

    /// The figures of all jitter buffers that this stream has had.
    pub(super) fn counts(&self) -> JitterCounts {
        self.jitter.as_ref().map_or(self.jitter_counts, |jitter| jitter.counts())
    }

    /// Sample rate of the sound, in Hz.
    pub(super) fn rate(&self) -> u32 {
        self.incoming.codec.sample_rate()
    }

    /// Samples of a frame.
    pub(super) fn frame(&self) -> usize {
        frame_samples(self.incoming.codec)
    }

    /// Comfort noise (RFC 3389 §3): the level of the noise in the sender's pauses.
    pub(super) fn handle_noise(&mut self, payload: &[u8]) {
        self.concealer.handle_noise(payload);
    }

    /// A packet of sound.
    pub(super) fn push(&mut self, now: Instant, packet: &Packet<'_>) {
        let codec = self.incoming.codec;
        let bytewise = matches!(codec, Codec::Pcmu | Codec::Pcma | Codec::G722);
        let samples = payload_samples(codec, packet.payload());
        self.is_short |= !bytewise && samples.is_some_and(|samples| samples < frame_samples(codec));
        let clock = Clock { rate: self.incoming.clock_rate, bytewise };
        let jitter = self.jitter.get_or_insert_with(|| Box::new(JitterBuffer::new(clock, MIN_DELAY_MS)));
        jitter.push(now, packet);
    }

    /// Forgets the frame of the last tick.
    pub(super) fn clear(&mut self) {
        self.payload.clear();
        self.samples.clear();
        self.has_sound = false;
    }

    /// Takes the frame that is due.
    pub(super) fn pull(&mut self, now: Instant) -> Pulled {
        match &mut self.jitter {
            Some(jitter) => jitter.pull(now, &mut self.payload),
            None => Pulled::Silence,
        }
    }

    /// Exactly one frame into `samples`.
    pub(super) fn decode(&mut self, pulled: Pulled, work: &mut TickWork) {
        let frame = self.frame();
        if self.decoder.is_none() {
            self.decoder = Decoder::new(self.incoming.codec).ok();
        }
        if let (Pulled::Frame { .. }, Some(decoder)) = (pulled, &mut self.decoder) {
            // A payload that does not decode is concealed below.
            let _ = decoder.decode(&self.payload, &mut self.decoded);
            work.payload.clear();
            while self.jitter.as_mut().is_some_and(|jitter| jitter.pull_more(&mut work.payload)) {
                let _ = decoder.decode(&work.payload, &mut self.decoded);
                work.payload.clear();
            }
        }
        self.has_sound = !self.decoded.is_empty();
        if self.decoded.len() >= frame {
            self.samples.extend(self.decoded.drain(..frame));
            // The longest packet has six frames: more than one waiting is a sender in a hurry.
            self.decoded.truncate(6 * frame);
            self.concealer.handle(&self.samples);
            return;
        }
        self.samples.append(&mut self.decoded);
        let missing = frame - self.samples.len();
        match pulled {
            Pulled::Silence => self.concealer.silence(missing, &mut self.samples),
            _ => self.concealer.conceal(missing, &mut self.samples),
        }
    }

    /// The peer is silent to all sinks of the frame.
    pub(super) fn mute(&mut self) {
        self.payload.clear();
        self.samples.fill(0);
        self.has_sound = false;
    }

    /// Bytes on the heap.
    pub(super) fn size(&self) -> usize {
        self.payload.capacity()
            + 2 * (self.samples.capacity() + self.decoded.capacity())
            + self.concealer.size()
            + self.jitter.as_ref().map_or(0, |jitter| size_of::<JitterBuffer>() + jitter.size())
    }
}
