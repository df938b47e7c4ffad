//! The encoder of a stream: frames in its codec pass through, others are transcoded.

use super::Scratch;
use crate::codec::{Codec, Decoder, Encoder, Error, alaw_to_ulaw, ulaw_to_alaw};
use crate::prompt::{Prompt, PromptFrame};
use crate::resample::Resampler;

/// Samples of any rate at the one that is wanted.
#[derive(Default)]
pub(crate) struct RateConverter {
    /// For the pair of rates that was last seen.
    resampler: Option<(u32, u32, Resampler)>,
}

impl RateConverter {
    /// The same samples, or those in `buffer`. Rates that are not converted give nothing.
    pub(crate) fn convert<'a>(
        &mut self,
        from: u32,
        to: u32,
        samples: &'a [i16],
        buffer: &'a mut Vec<i16>,
    ) -> &'a [i16] {
        if from == to {
            return samples;
        }
        if self.resampler.as_ref().is_none_or(|(one, other, _)| (*one, *other) != (from, to)) {
            self.resampler = Resampler::new(from, to).map(|made| (from, to, made));
        }
        buffer.clear();
        if let Some((_, _, resampler)) = &mut self.resampler {
            resampler.process(samples, buffer);
        }
        buffer
    }

    pub(crate) fn size(&self) -> usize {
        self.resampler.as_ref().map_or(0, |(_, _, resampler)| resampler.size())
    }
}

/// The encoder of a stream. Its codecs are made when they are first needed: most bridges pass frames through.
pub(crate) struct Transcoder {
    codec: Codec,
    encoder: Option<Encoder>,
    /// Decodes the codec of the frames that come.
    decoder: Option<(Codec, Decoder)>,
    converter: RateConverter,
}

impl Transcoder {
    pub(crate) fn new(codec: Codec) -> Result<Transcoder, Error> {
        // One that is not spoken is told at once; the state itself waits until it is needed.
        if !matches!(codec, Codec::Pcmu | Codec::Pcma | Codec::G722 | Codec::Opus) {
            return Err(Error::Unsupported(codec));
        }
        Ok(Transcoder { codec, encoder: None, decoder: None, converter: RateConverter::default() })
    }

    /// A frame of a prompt of that codec.
    pub(crate) fn frame(
        &mut self,
        codec: Codec,
        frame: PromptFrame<'_>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) {
        match frame {
            PromptFrame::Encoded(payload) => self.payload(codec, payload, scratch, out),
            PromptFrame::Samples(samples) => {
                self.samples(Prompt::SAMPLE_RATE, samples, &mut scratch.resampled, out);
            }
        }
    }

    /// A frame of any codec. A payload that does not decode is left out.
    pub(crate) fn payload(&mut self, codec: Codec, payload: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) {
        match (codec, self.codec) {
            (from, to) if from == to => out.extend_from_slice(payload),
            (Codec::Pcmu, Codec::Pcma) => out.extend(payload.iter().map(|byte| ulaw_to_alaw(*byte))),
            (Codec::Pcma, Codec::Pcmu) => out.extend(payload.iter().map(|byte| alaw_to_ulaw(*byte))),
            _ => {
                scratch.samples.clear();
                let Some(decoder) = self.decoder(codec) else { return };
                if decoder.decode(payload, &mut scratch.samples).is_ok() {
                    self.samples(codec.sample_rate(), &scratch.samples, &mut scratch.resampled, out);
                }
            }
        }
    }

    /// The decoder of the codec that comes; kept while the codec stays.
    fn decoder(&mut self, codec: Codec) -> Option<&mut Decoder> {
        if self.decoder.as_ref().is_none_or(|(of, _)| *of != codec) {
            self.decoder = Some((codec, Decoder::new(codec).ok()?));
        }
        self.decoder.as_mut().map(|(_, decoder)| decoder)
    }

    /// Encodes a frame of samples. One that the codec refuses is left out.
    pub(crate) fn samples(
        &mut self,
        rate: u32,
        samples: &[i16],
        resampled: &mut Vec<i16>,
        out: &mut Vec<u8>,
    ) {
        let samples = self.converter.convert(rate, self.codec.sample_rate(), samples, resampled);
        if self.encoder.is_none() {
            self.encoder = Encoder::new(self.codec).ok();
        }
        let start = out.len();
        if let Some(encoder) = &mut self.encoder
            && encoder.encode(samples, out).is_err()
        {
            out.truncate(start);
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.converter.size()
    }
}
