//! Sound and silence in the received stream, by its energy.

use crate::codec::{Codec, Decoder, alaw_decode, ulaw_decode};

/// Mean magnitude below which a packet is silence: some -54 dB of full scale, above a quiet line's noise and the idle
/// pattern of every codec, below the quietest speech.
const SILENCE: u64 = 64;

/// The sound that was received so far, in microseconds.
#[derive(Default)]
pub(super) struct SoundMeter {
    decoder: Option<Decoder>,
    samples: Vec<i16>,
    pub(super) sound_us: u64,
    pub(super) silence_us: u64,
    /// Microseconds of the silence that has not ended.
    current_us: u64,
    pub(super) longest_us: u64,
}

impl SoundMeter {
    pub(super) fn new(codec: Codec) -> SoundMeter {
        let by_table = matches!(codec, Codec::Pcmu | Codec::Pcma);
        let decoder = if by_table { None } else { Decoder::new(codec).ok() };
        SoundMeter { decoder, ..SoundMeter::default() }
    }

    pub(super) fn handle(&mut self, codec: Codec, payload: &[u8]) {
        let (sum, samples) = match codec {
            Codec::Pcmu => (magnitude(payload.iter().map(|byte| ulaw_decode(*byte))), payload.len()),
            Codec::Pcma => (magnitude(payload.iter().map(|byte| alaw_decode(*byte))), payload.len()),
            _ => {
                let Some(decoder) = &mut self.decoder else { return };
                self.samples.clear();
                if decoder.decode(payload, &mut self.samples).is_err() {
                    return;
                }
                (magnitude(self.samples.iter().copied()), self.samples.len())
            }
        };
        let samples = samples as u64;
        let length_us = samples * 1_000_000 / u64::from(codec.sample_rate());
        if sum >= SILENCE * samples.max(1) {
            self.sound_us += length_us;
            self.current_us = 0;
        } else {
            self.silence(length_us);
        }
    }

    /// Silence heard, or nothing at all.
    pub(super) fn silence(&mut self, length_us: u64) {
        self.silence_us += length_us;
        self.current_us += length_us;
        self.longest_us = self.longest_us.max(self.current_us);
    }
}

/// The sum of the absolute values.
fn magnitude(samples: impl Iterator<Item = i16>) -> u64 {
    samples.map(|sample| u64::from(sample.unsigned_abs())).sum()
}
