//! Streaming conversion among 8, 16 and 48 kHz: a polyphase filter that keeps the end of one frame for the next.

use std::sync::OnceLock;

use crate::level::clamp;
use crate::wav::taps;

/// Zero crossings of the filter to each side: some 60 dB of stop band at a fifth of a frame's delay at most.
const LOBES: f64 = 12.0;
/// Room between the pass band and the half rate.
const CUTOFF: f64 = 0.9;
/// The taps are in 2^-14: the sum of their magnitudes stays below two, so that no sum of products wraps.
const SHIFT: u32 = 14;

/// The rates of the codecs: all pairs of them are converted.
const RATES: [u32; 3] = [8_000, 16_000, 48_000];
/// One table a pair of rates, made when the first stream needs it.
static TABLES: [OnceLock<Table>; 9] = [const { OnceLock::new() }; 9];

/// The filter of one pair of rates.
struct Table {
    /// The rates' ratio in lowest terms: `up` to `down`.
    up: usize,
    down: usize,
    /// `up` phases of `width` taps.
    taps: Vec<i16>,
    /// Samples of the input that one sample of the output takes in.
    width: usize,
}

/// The filter of a pair; `None` for other rates.
fn table(from: u32, to: u32) -> Option<&'static Table> {
    let from_at = RATES.iter().position(|rate| *rate == from)?;
    let to_at = RATES.iter().position(|rate| *rate == to)?;
    Some(TABLES[3 * from_at + to_at].get_or_init(|| Table::new(from, to)))
}

impl Table {
    fn new(from: u32, to: u32) -> Table {
        // The larger rate is a multiple of the smaller.
        let (up, down) = ((to / from).max(1) as usize, (from / to).max(1) as usize);
        let cutoff = (f64::from(to) / f64::from(from)).min(1.0) * CUTOFF;
        let reach = (LOBES / cutoff).ceil() as isize;
        let scale = f32::from(1_i16 << SHIFT);
        let mut all = Vec::with_capacity(up * 2 * reach as usize);
        for phase in 0..up {
            let weights = taps(phase as f64 / up as f64, cutoff, reach);
            all.extend(weights.iter().map(|tap| (tap * scale).round() as i16));
        }
        Table { up, down, width: all.len() / up, taps: all }
    }
}

/// One direction of one stream.
pub struct Resampler {
    table: &'static Table,
    /// The last samples of the frame before, then the frame at hand.
    samples: Vec<i16>,
    /// Where the next output lies, in `up`ths of a sample from the first of `samples`.
    next: usize,
}

impl Resampler {
    /// `None` for a rate that is not 8000, 16000 or 48000 and for equal rates, which need no conversion.
    pub fn new(from: u32, to: u32) -> Option<Resampler> {
        if from == to {
            return None;
        }
        let table = table(from, to)?;
        Some(Resampler { table, samples: vec![0; table.width - 1], next: 0 })
    }

    /// Appends what these samples make to `out`: so many as the rates say, a frame for a frame. The sound comes half a
    /// filter late: 0.8 to 1.7 ms.
    pub fn process(&mut self, samples: &[i16], out: &mut Vec<i16>) {
        let Table { up, down, ref taps, width } = *self.table;
        self.samples.extend_from_slice(samples);
        while let Some(window) = self.samples.get(self.next / up..self.next / up + width) {
            let phase = self.next % up * width;
            let taps = &taps[phase..phase + width];
            let sum: i32 =
                window.iter().zip(taps).map(|(sample, tap)| i32::from(*sample) * i32::from(*tap)).sum();
            out.push(clamp((sum + (1 << (SHIFT - 1))) >> SHIFT));
            self.next += down;
        }
        let done = (self.next / up).min(self.samples.len());
        self.samples.drain(..done);
        self.next -= done * up;
    }

    /// Bytes on the heap.
    pub fn size(&self) -> usize {
        self.samples.capacity() * 2
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tone::tone;

    /// The part of the samples' power at `frequency`, by Goertzel.
    fn share(samples: &[i16], rate: u32, frequency: f64) -> f64 {
        let (re, im, power) =
            samples.iter().enumerate().fold((0.0, 0.0, 0.0), |(re, im, power), (at, sample)| {
                let (turn, value) =
                    (std::f64::consts::TAU * frequency * at as f64 / f64::from(rate), f64::from(*sample));
                (re + value * turn.cos(), im + value * turn.sin(), power + value * value)
            });
        (re * re + im * im) * 2.0 / samples.len() as f64 / f64::max(power, 1.0)
    }

    #[test]
    fn a_tone_keeps_its_frequency_and_level_and_every_frame_is_a_frame() {
        for from in RATES {
            for to in RATES.into_iter().filter(|to| *to != from) {
                let mut resampler = Resampler::new(from, to).unwrap();
                let mut out = Vec::new();
                for frame in tone(935.0, 10_000, from, 400).chunks(from as usize / 50) {
                    let before = out.len();
                    resampler.process(frame, &mut out);
                    assert_eq!(out.len() - before, to as usize / 50, "{from} to {to}");
                }
                let middle = &out[to as usize / 10..to as usize / 10 * 3];
                assert!(share(middle, to, 935.0) > 0.999, "{from} to {to}: {}", share(middle, to, 935.0));
                let peak = middle.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
                assert!((9_800..=10_200).contains(&peak), "{from} to {to}: {peak}");
            }
        }
    }

    #[test]
    fn frequencies_above_the_lower_rate_are_removed() {
        let mut out = Vec::new();
        Resampler::new(48_000, 8_000).unwrap().process(&tone(5_500.0, 10_000, 48_000, 200), &mut out);
        let loudest = out[200..1_400].iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!(loudest < 50, "{loudest}");
        assert!(Resampler::new(8_000, 8_000).is_none());
        assert!(Resampler::new(8_000, 44_100).is_none());
    }

    proptest! {
        /// However a stream is cut, its sound is one.
        #[test]
        fn cuts_are_not_heard(cuts in prop::collection::vec(1_usize..200, 1..12), down: bool) {
            let (from, to) = if down { (48_000, 16_000) } else { (8_000, 48_000) };
            let samples = tone(440.0, 9_000, from, 60);
            let (mut whole, mut pieces) = (Vec::new(), Vec::new());
            Resampler::new(from, to).unwrap().process(&samples, &mut whole);
            let mut resampler = Resampler::new(from, to).unwrap();
            let mut rest = &samples[..];
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                resampler.process(piece, &mut pieces);
                rest = after;
                if rest.is_empty() { break; }
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}
