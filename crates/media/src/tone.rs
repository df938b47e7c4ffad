//! Tones: DTMF made (ITU-T Q.23) and heard in the sound (Q.24), beeps, and silence by its level.

use std::f64::consts::TAU;

use crate::events::Digit;

/// Q.23, in Hz: rows 1 4 7 *, columns 1 2 3 A.
const LOW: [f64; 4] = [697.0, 770.0, 852.0, 941.0];
const HIGH: [f64; 4] = [1209.0, 1336.0, 1477.0, 1633.0];
const KEYS: [[char; 4]; 4] =
    [['1', '2', '3', 'A'], ['4', '5', '6', 'B'], ['7', '8', '9', 'C'], ['*', '0', '#', 'D']];

/// Each of the two in samples at its peak: some -9 and -7 dBm0, the higher 2 dB above the lower.
const LOW_LEVEL: f64 = 5_800.0;
const HIGH_LEVEL: f64 = 7_300.0;
/// A beginning and an end without a click.
const RAMP_MS: u32 = 2;

/// A digit as sound: mono samples at `rate` Hz.
pub fn dtmf(digit: Digit, rate: u32, duration_ms: u32) -> Vec<i16> {
    let (low, high) = frequencies(digit);
    sines(&[(low, LOW_LEVEL), (high, HIGH_LEVEL)], rate, duration_ms)
}

/// One tone; `level` is its peak, 0 to 32767.
pub fn tone(frequency: f64, level: i16, rate: u32, duration_ms: u32) -> Vec<i16> {
    sines(&[(frequency, f64::from(level))], rate, duration_ms)
}

/// The beep before a recording: a quarter of a second of 1400 Hz.
pub fn beep(rate: u32) -> Vec<i16> {
    tone(1400.0, 8_000, rate, 250)
}

/// The row and the column frequency of a key (ITU-T Q.23).
fn frequencies(digit: Digit) -> (f64, f64) {
    let char = digit.to_char();
    for (row, keys) in KEYS.iter().enumerate() {
        if let Some(column) = keys.iter().position(|key| *key == char) {
            return (LOW[row], HIGH[column]);
        }
    }
    (LOW[0], HIGH[0])
}

/// A sum of sines, each of a frequency in Hz and an amplitude.
fn sines(parts: &[(f64, f64)], rate: u32, duration_ms: u32) -> Vec<i16> {
    let samples = u64::from(rate) * u64::from(duration_ms) / 1000;
    let ramp = f64::from((rate * RAMP_MS / 1000).max(1));
    let one = |at: u64| {
        let seconds = at as f64 / f64::from(rate);
        let sum: f64 = parts.iter().map(|(frequency, level)| level * (TAU * frequency * seconds).sin()).sum();
        let edge = (at.min(samples - 1 - at) as f64 / ramp).min(1.0);
        (sum * edge).clamp(-32_768.0, 32_767.0) as i16
    };
    (0..samples).map(one).collect()
}

/// Decisions are made on blocks of 10 ms; four in a row of one digit are the 40 ms that Q.24 has heard at the latest.
const BLOCK_MS: u32 = 10;
/// Three whole blocks are always inside 40 ms, wherever they begin.
const BLOCKS_TO_HEAR: u32 = 3;
/// A break shorter than this is the same press.
const BLOCKS_TO_END: u32 = 2;
/// Mean square below which nothing is listened for: some -40 dB of full scale.
const MIN_POWER: f64 = 330.0 * 330.0;
/// The two tones hold this part of all power: speech does not.
const MIN_SHARE: f64 = 0.75;
/// Q.24: the higher tone up to 4 dB above the lower, the lower up to 8 dB above the higher.
const TWIST_HIGH: f64 = 2.52;
const TWIST_LOW: f64 = 6.31;
/// The strongest tone of a group against the second: 6 dB.
const MIN_LEAD: f64 = 4.0;

/// Hears digits in the sound of one stream.
#[derive(Debug, Clone)]
pub struct DtmfDetector {
    /// Twice the cosine of each tone's turn a sample.
    turns: [f64; 8],
    /// The last two values of each tone's Goertzel filter.
    states: [(f64, f64); 8],
    /// The sum of the squares of the block's samples.
    power: f64,
    /// Samples of a block.
    block: u32,
    /// Samples of the current block so far.
    filled: u32,
    /// The digit of the last block.
    candidate: Option<Digit>,
    /// Blocks in a row that had it.
    run: u32,
    /// The digit that was reported and has not ended.
    pressed: Option<Digit>,
    /// Blocks since the last one that had it.
    missed: u32,
}

impl DtmfDetector {
    /// `rate`: of the samples, in Hz, 8000 or more.
    pub fn new(rate: u32) -> DtmfDetector {
        let rate = rate.max(8_000);
        let turn = |index: usize| {
            let frequency = if index < 4 { LOW[index] } else { HIGH[index - 4] };
            2.0 * (TAU * frequency / f64::from(rate)).cos()
        };
        DtmfDetector {
            turns: std::array::from_fn(turn),
            states: [(0.0, 0.0); 8],
            power: 0.0,
            block: rate * BLOCK_MS / 1000,
            filled: 0,
            candidate: None,
            run: 0,
            pressed: None,
            missed: 0,
        }
    }

    /// The digits that became certain within these samples, each once a press.
    pub fn handle(&mut self, samples: &[i16], mut detected: impl FnMut(Digit)) {
        for sample in samples {
            let sample = f64::from(*sample);
            self.power += sample * sample;
            for (state, turn) in self.states.iter_mut().zip(self.turns) {
                *state = (sample + turn * state.0 - state.1, state.0);
            }
            self.filled += 1;
            if self.filled == self.block {
                let digit = self.decide();
                if let Some(digit) = self.follow(digit) {
                    detected(digit);
                }
                self.states = [(0.0, 0.0); 8];
                (self.power, self.filled) = (0.0, 0);
            }
        }
    }

    /// The digit of one block.
    fn decide(&self) -> Option<Digit> {
        let count = f64::from(self.block);
        if self.power < MIN_POWER * count {
            return None;
        }
        let of = |index: usize| {
            let (one, two) = self.states[index];
            (one * one + two * two - self.turns[index] * one * two) * 2.0 / count
        };
        let powers: [f64; 8] = std::array::from_fn(of);
        let (row, low) = strongest(&powers[..4])?;
        let (column, high) = strongest(&powers[4..])?;
        if low + high < MIN_SHARE * self.power || high > low * TWIST_HIGH || low > high * TWIST_LOW {
            return None;
        }
        Digit::from_char(KEYS[row][column])
    }

    /// A digit counts once it was found in enough blocks, and again only after a break.
    fn follow(&mut self, digit: Option<Digit>) -> Option<Digit> {
        self.run = if digit.is_some() && digit == self.candidate { self.run + 1 } else { 1 };
        self.candidate = digit;
        if self.pressed.is_some() && digit == self.pressed {
            self.missed = 0;
            return None;
        }
        self.missed += 1;
        if self.missed >= BLOCKS_TO_END {
            self.pressed = None;
        }
        if digit.is_none() || self.run < BLOCKS_TO_HEAR {
            return None;
        }
        (self.pressed, self.missed) = (digit, 0);
        digit
    }
}

/// The strongest of a group, if it leads the others.
fn strongest(powers: &[f64]) -> Option<(usize, f64)> {
    let (at, most) = powers.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let leads = powers.iter().enumerate().all(|(index, power)| index == at || power * MIN_LEAD <= most);
    leads.then_some((at, most))
}

/// Times the silence of one stream.
#[derive(Debug, Clone)]
pub struct SilenceDetector {
    threshold: u16,
    rate: u32,
    silent_samples: u64,
}

impl SilenceDetector {
    /// `threshold`: the mean magnitude below which a frame is silent, in samples; 200 is some -44 dB of full scale.
    pub fn new(rate: u32, threshold: u16) -> SilenceDetector {
        SilenceDetector { threshold, rate: rate.max(1), silent_samples: 0 }
    }

    /// One frame; milliseconds of silence up to its end, 0 when it has sound.
    pub fn handle(&mut self, samples: &[i16]) -> u64 {
        let sum: u64 = samples.iter().map(|sample| u64::from(sample.unsigned_abs())).sum();
        let count = samples.len() as u64;
        if sum >= u64::from(self.threshold) * count && count > 0 {
            self.silent_samples = 0;
        } else {
            self.silent_samples += count;
        }
        self.silent_samples * 1000 / u64::from(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap::{Capture, speech_capture};

    fn detected(rate: u32, samples: &[i16]) -> String {
        let mut digits = String::new();
        let mut detector = DtmfDetector::new(rate);
        for frame in samples.chunks(rate as usize / 50) {
            detector.handle(frame, |digit| digits.push(digit.to_char()));
        }
        digits
    }

    fn quiet(rate: u32, ms: u32) -> Vec<i16> {
        vec![0; (rate * ms / 1000) as usize]
    }

    #[test]
    fn all_digits_are_detected_at_every_rate() {
        let keys = "1234567890*#ABCD";
        for rate in [8_000, 16_000, 48_000] {
            let mut samples = quiet(rate, 7);
            for key in keys.chars() {
                samples.extend(dtmf(Digit::from_char(key).unwrap(), rate, 60));
                samples.extend(quiet(rate, 53));
            }
            assert_eq!(detected(rate, &samples), keys, "{rate}");
        }
    }

    #[test]
    fn two_presses_of_a_key_are_two_and_a_short_break_is_none() {
        let five = Digit::from_char('5').unwrap();
        let press = dtmf(five, 8_000, 100);
        let with = |pause| [press.clone(), quiet(8_000, pause), press.clone()].concat();
        assert_eq!(detected(8_000, &with(45)), "55");
        assert_eq!(detected(8_000, &with(5)), "5");
        // Too short to be a press.
        assert_eq!(
            detected(8_000, &[quiet(8_000, 50), dtmf(five, 8_000, 20), quiet(8_000, 50)].concat()),
            ""
        );
    }

    #[test]
    fn twist_beyond_the_bounds_is_no_digit() {
        let pair = |low: f64, high: f64| sines(&[(770.0, low), (1336.0, high)], 8_000, 100);
        assert_eq!(detected(8_000, &pair(4_000.0, 5_600.0)), "5");
        assert_eq!(detected(8_000, &pair(6_000.0, 3_000.0)), "5");
        assert_eq!(detected(8_000, &pair(2_000.0, 8_000.0)), "");
        assert_eq!(detected(8_000, &pair(10_000.0, 2_000.0)), "");
        assert_eq!(detected(8_000, &pair(100.0, 100.0)), "");
    }

    #[test]
    fn speech_and_single_tones_are_no_digits() {
        let capture = Capture::parse(&speech_capture()).unwrap();
        let mut samples = Vec::new();
        for (_, bytes) in capture.iter() {
            samples.extend(bytes[12..].iter().map(|byte| crate::codec::alaw_decode(*byte)));
        }
        assert_eq!(detected(8_000, &samples), "");
        assert_eq!(detected(8_000, &beep(8_000)), "");
        assert_eq!(detected(8_000, &tone(770.0, 8_000, 8_000, 500)), "");
    }

    #[test]
    fn silence_is_counted_until_a_sound() {
        let mut detector = SilenceDetector::new(8_000, 200);
        assert_eq!(detector.handle(&[0; 160]), 20);
        assert_eq!(detector.handle(&[150; 160]), 40);
        assert_eq!(detector.handle(&[-3_000; 160]), 0);
        assert_eq!(detector.handle(&[]), 0);
        assert_eq!(detector.handle(&[1; 80]), 10);
    }

    #[test]
    fn a_tone_has_its_length_and_level() {
        let samples = beep(16_000);
        assert_eq!(samples.len(), 4_000);
        let peak = samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!((7_800..=8_000).contains(&peak), "{peak}");
        assert!(tone(440.0, 1, 8_000, 0).is_empty());
    }
}
