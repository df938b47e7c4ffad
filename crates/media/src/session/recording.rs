//! A recording of one leg, handed out in pieces.

use super::transcoder::RateConverter;
use super::{RecordSource, Scratch};
use crate::level;
use crate::limits::{FRAME_MS, RECORD_PIECE_MS};

/// A frame of one direction.
#[derive(Clone, Copy)]
pub(super) struct RatedSamples<'a> {
    /// In Hz.
    pub(super) rate: u32,
    /// One channel.
    pub(super) samples: &'a [i16],
}

/// The piece of a recording that is being filled.
pub(super) struct Recording {
    pub(super) source: RecordSource,
    /// Stays, whatever codecs come and go.
    pub(super) rate: u32,
    /// The piece so far; two channels are interleaved.
    pub(super) samples: Vec<i16>,
    /// From the peer's rate to the recording's.
    received: RateConverter,
    /// From the rate of the codec that is sent to the recording's.
    sent: RateConverter,
}

impl Recording {
    /// A recording at this rate, with room for one piece.
    pub(super) fn new(source: RecordSource, rate: u32) -> Recording {
        let piece = (rate * (RECORD_PIECE_MS + FRAME_MS) / 1000) as usize;
        let samples = Vec::with_capacity(piece * channels(source));
        Recording {
            source,
            rate,
            samples,
            received: RateConverter::default(),
            sent: RateConverter::default(),
        }
    }

    /// Adds this tick's frames. True when the piece is full.
    pub(super) fn add(
        &mut self,
        received: RatedSamples<'_>,
        sent: RatedSamples<'_>,
        scratch: &mut Scratch,
    ) -> bool {
        let samples = &mut self.samples;
        let received =
            self.received.convert(received.rate, self.rate, received.samples, &mut scratch.samples);
        let sent = self.sent.convert(sent.rate, self.rate, sent.samples, &mut scratch.resampled);
        let start = samples.len();
        match self.source {
            RecordSource::Received => samples.extend_from_slice(received),
            RecordSource::Both => {
                samples.extend_from_slice(received);
                level::add(&mut samples[start..], sent);
            }
            RecordSource::Dual => {
                let sent = sent.iter().copied().chain(std::iter::repeat(0));
                samples.extend(received.iter().zip(sent).flat_map(|(received, sent)| [*received, sent]));
            }
        }
        samples.len() >= channels(self.source) * (self.rate * RECORD_PIECE_MS / 1000) as usize
    }

    /// Bytes on the heap.
    pub(super) fn size(&self) -> usize {
        2 * (self.samples.capacity() + (self.received.size() + self.sent.size()) / 2)
    }
}

/// Channels of a recording.
fn channels(source: RecordSource) -> usize {
    if source == RecordSource::Dual { 2 } else { 1 }
}
