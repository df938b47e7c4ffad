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
    pub(super) samples: &'a [i16],
}

/// The piece of a recording that is being filled.
pub(super) struct Recording {
    pub(super) source: RecordSource,
    /// Stays, whatever codecs come and go.
    pub(super) rate: u32,
    pub(super) samples: Vec<i16>,
    heard: RateConverter,
    said: RateConverter,
}

impl Recording {
    pub(super) fn new(source: RecordSource, rate: u32) -> Recording {
        let piece = (rate * (RECORD_PIECE_MS + FRAME_MS) / 1000) as usize;
        let samples = Vec::with_capacity(piece * channels(source));
        Recording { source, rate, samples, heard: RateConverter::default(), said: RateConverter::default() }
    }

    /// Adds this tick's frames. True when the piece is full.
    pub(super) fn add(
        &mut self,
        heard: RatedSamples<'_>,
        said: RatedSamples<'_>,
        scratch: &mut Scratch,
    ) -> bool {
        let samples = &mut self.samples;
        let heard = self.heard.convert(heard.rate, self.rate, heard.samples, &mut scratch.samples);
        let said = self.said.convert(said.rate, self.rate, said.samples, &mut scratch.resampled);
        let start = samples.len();
        match self.source {
            RecordSource::Received => samples.extend_from_slice(heard),
            RecordSource::Both => {
                samples.extend_from_slice(heard);
                level::add(&mut samples[start..], said);
            }
            RecordSource::Dual => {
                let said = said.iter().copied().chain(std::iter::repeat(0));
                samples.extend(heard.iter().zip(said).flat_map(|(heard, said)| [*heard, said]));
            }
        }
        samples.len() >= channels(self.source) * (self.rate * RECORD_PIECE_MS / 1000) as usize
    }

    /// Bytes on the heap.
    pub(super) fn size(&self) -> usize {
        2 * (self.samples.capacity() + (self.heard.size() + self.said.size()) / 2)
    }
}

fn channels(source: RecordSource) -> usize {
    if source == RecordSource::Dual { 2 } else { 1 }
}
