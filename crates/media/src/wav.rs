//! RIFF WAV files: read whole, written whole.

use std::f64::consts::PI;
use std::fmt;

use crate::codec::{alaw_decode, ulaw_decode};

/// Sound as samples, the channels interleaved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wav {
    /// In Hz.
    pub rate: u32,
    /// 1 or 2.
    pub channels: u16,
    /// 16 bits each.
    pub samples: Vec<i16>,
}

/// Why a file is not a WAV file that this crate reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The place in the file, in bytes.
    pub position: usize,
    /// The thing that a WAV file has at this place.
    pub expected: &'static str,
    /// The bytes, or the number, that the file has there.
    pub found: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: expected {}, found {}", self.position, self.expected, self.found)
    }
}

impl std::error::Error for Error {}

fn wrong(position: usize, expected: &'static str, found: impl Into<String>) -> Error {
    Error { position, expected, found: found.into() }
}

/// Format tags.
const PCM: u16 = 1;
const ALAW: u16 = 6;
const ULAW: u16 = 7;
/// The real format is the first two bytes of a GUID further down.
const EXTENSIBLE: u16 = 0xfffe;
/// Sample rates that are read, in Hz.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;

/// A `fmt ` chunk that this crate reads.
struct Format {
    /// The format tag: 1 PCM, 6 A-law, 7 µ-law.
    code: u16,
    channels: u16,
    rate: u32,
    bits: u16,
}

impl Wav {
    /// PCM of 8 or 16 bits, A-law and µ-law, one or two channels, 8 to 48 kHz. A data chunk that says to be longer than
    /// the file is taken as far as it goes: so do recorders leave it that write while they record.
    pub fn parse(file: &[u8]) -> Result<Wav, Error> {
        if file.get(..4) != Some(b"RIFF") {
            return Err(wrong(0, "RIFF", shown(file.get(..4))));
        }
        if file.get(8..12) != Some(b"WAVE") {
            return Err(wrong(8.min(file.len()), "WAVE", shown(file.get(8..12))));
        }
        let mut position = 12;
        let mut format = None;
        while let Some(header) = file.get(position..position + 8) {
            let size = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
            let start = position + 8;
            let end = start.saturating_add(size);
            match (&header[..4], &format) {
                (b"fmt ", _) => format = Some(Format::parse(file, start, end)?),
                (b"data", Some(format)) => return Ok(format.samples(&file[start..end.min(file.len())])),
                (b"data", None) => return Err(wrong(position, "a fmt chunk before the data", "data")),
                _ => {}
            }
            // Chunks begin at even places.
            position = end.saturating_add(size & 1);
            if position > file.len() {
                break;
            }
        }
        Err(wrong(position.min(file.len()), "a data chunk", "the end"))
    }

    /// One channel: the mean of all.
    pub fn to_mono(&self) -> Vec<i16> {
        let channels = usize::from(self.channels.max(1));
        let mean = |frame: &[i16]| {
            let sum: i64 = frame.iter().map(|sample| i64::from(*sample)).sum();
            // A mean of samples is a sample.
            (sum / frame.len() as i64) as i16
        };
        self.samples.chunks(channels).map(mean).collect()
    }

    /// One channel at another rate.
    pub fn to_mono_at(&self, rate: u32) -> Vec<i16> {
        resample(&self.to_mono(), self.rate, rate)
    }

    /// A file of 16-bit PCM; sound that does not fit its 32-bit sizes is cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let max = (u32::MAX as usize - 64) / 2;
        let samples = &self.samples[..self.samples.len().min(max)];
        let data = (samples.len() * 2) as u32;
        let frame = self.channels.saturating_mul(2);
        let mut file = Vec::with_capacity(44 + samples.len() * 2);
        file.extend_from_slice(b"RIFF");
        file.extend((36 + data).to_le_bytes());
        file.extend_from_slice(b"WAVEfmt ");
        file.extend(16_u32.to_le_bytes());
        file.extend(PCM.to_le_bytes());
        file.extend(self.channels.to_le_bytes());
        file.extend(self.rate.to_le_bytes());
        file.extend(self.rate.saturating_mul(u32::from(frame)).to_le_bytes());
        file.extend(frame.to_le_bytes());
        file.extend(16_u16.to_le_bytes());
        file.extend_from_slice(b"data");
        file.extend(data.to_le_bytes());
        file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
        file
    }
}

impl Format {
    fn parse(file: &[u8], start: usize, end: usize) -> Result<Format, Error> {
        let Some(chunk) = file.get(start..end).filter(|chunk| chunk.len() >= 16) else {
            return Err(wrong(start, "a fmt chunk of at least 16 bytes", "less"));
        };
        let half = |at: usize| u16::from_le_bytes([chunk[at], chunk[at + 1]]);
        let mut code = half(0);
        if code == EXTENSIBLE && chunk.len() >= 26 {
            code = half(24);
        }
        let rate = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
        let format = Format { code, channels: half(2), rate, bits: half(14) };
        if !matches!(code, PCM | ALAW | ULAW) {
            return Err(wrong(start, "PCM, A-law or mu-law (format 1, 6 or 7)", format!("format {code}")));
        }
        if !(1..=2).contains(&format.channels) {
            return Err(wrong(start + 2, "one or two channels", format.channels.to_string()));
        }
        if !RATES.contains(&rate) {
            return Err(wrong(start + 4, "8000 to 48000 samples a second", rate.to_string()));
        }
        if format.bits != 8 && (code != PCM || format.bits != 16) {
            let expected = if code == PCM { "8 or 16 bits" } else { "8 bits" };
            return Err(wrong(start + 14, expected, format.bits.to_string()));
        }
        Ok(format)
    }

    /// The samples of a data chunk.
    fn samples(&self, data: &[u8]) -> Wav {
        let samples = match (self.code, self.bits) {
            (ALAW, _) => data.iter().map(|byte| alaw_decode(*byte)).collect(),
            (ULAW, _) => data.iter().map(|byte| ulaw_decode(*byte)).collect(),
            // Eight bits have no sign: the middle is 128.
            (_, 8) => data.iter().map(|byte| (i16::from(*byte) - 128) << 8).collect(),
            _ => data.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect(),
        };
        Wav { rate: self.rate, channels: self.channels, samples }
    }
}

/// Bytes of a file as text, for an error.
fn shown(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "the end".to_owned(), |bytes| bytes.escape_ascii().to_string())
}

/// Zero crossings of the filter to each side.
const LOBES: f64 = 16.0;

/// Mono samples at another rate, filtered below the lower of the two half rates: a windowed sinc, its phases computed
/// once. A rate of 0 gives nothing.
pub fn resample(samples: &[i16], from: u32, to: u32) -> Vec<i16> {
    if from == to {
        return samples.to_vec();
    }
    if from == 0 || to == 0 || samples.is_empty() {
        return Vec::new();
    }
    let common = gcd(from, to);
    let (up, down) = ((to / common) as usize, (from / common) as usize);
    // Some room between the pass band and the half rate.
    let cutoff = (f64::from(to) / f64::from(from)).min(1.0) * 0.94;
    let reach = (LOBES / cutoff).ceil() as isize;
    let phases: Vec<Vec<f32>> = (0..up).map(|phase| taps(phase as f64 / up as f64, cutoff, reach)).collect();
    let length = (samples.len() * up).div_ceil(down);
    let one = |index: usize| {
        let (centre, phase) = (index * down / up, index * down % up);
        let first = centre as isize - reach + 1;
        let mut sum = 0.0;
        for (offset, tap) in phases[phase].iter().enumerate() {
            let at = usize::try_from(first + offset as isize).ok().and_then(|at| samples.get(at));
            sum += tap * f32::from(at.copied().unwrap_or(0));
        }
        sum.round().clamp(-32_768.0, 32_767.0) as i16
    };
    (0..length).map(one).collect()
}

/// The filter for a sample that lies `fraction` behind its centre, its sum 1.
pub(crate) fn taps(fraction: f64, cutoff: f64, reach: isize) -> Vec<f32> {
    let weight = |offset: isize| {
        let x = offset as f64 - fraction;
        let sinc = if x == 0.0 { 1.0 } else { (PI * x * cutoff).sin() / (PI * x * cutoff) };
        let turn = PI * x / reach as f64;
        // Blackman's window.
        let window =
            if x.abs() >= reach as f64 { 0.0 } else { 0.42 + 0.5 * turn.cos() + 0.08 * (2.0 * turn).cos() };
        sinc * window
    };
    let weights: Vec<f64> = (1 - reach..=reach).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| (weight / sum) as f32).collect()
}

/// The greatest common divisor.
fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use proptest::prelude::*;

    use super::*;

    fn file(code: u16, channels: u16, rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
        let mut file = b"RIFF\0\0\0\0WAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        file.extend([code.to_le_bytes(), channels.to_le_bytes()].concat());
        file.extend([rate.to_le_bytes(), [0; 4]].concat());
        file.extend([[0; 2], bits.to_le_bytes()].concat());
        file.extend(b"data");
        file.extend((data.len() as u32).to_le_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn every_format_is_read() {
        let samples = |code, bits, data: &[u8]| Wav::parse(&file(code, 1, 8000, bits, data)).unwrap().samples;
        assert_eq!(samples(PCM, 16, &[1, 0, 0xff, 0xff, 9]), [1, -1]);
        assert_eq!(samples(PCM, 8, &[0, 128, 255]), [-32_768, 0, 32_512]);
        assert_eq!(samples(ALAW, 8, &[0xd5, 0xaa]), [8, 32_256]);
        assert_eq!(samples(ULAW, 8, &[0xff, 0x80]), [0, 32_124]);
    }

    #[test]
    fn two_channels_become_their_mean() {
        let wav = Wav { rate: 8000, channels: 2, samples: vec![100, 300, -32_768, -32_768] };
        assert_eq!(wav.to_mono(), [200, -32_768]);
        assert_eq!(Wav::parse(&wav.to_bytes()), Ok(wav));
    }

    #[test]
    fn an_extensible_header_names_its_format_further_down() {
        let mut wide = b"RIFF\0\0\0\0WAVEfmt \x28\0\0\0".to_vec();
        wide.extend([0xfe, 0xff, 1, 0, 0x80, 0x3e, 0, 0, 0, 0, 0, 0, 2, 0, 16, 0]);
        wide.extend([22, 0, 16, 0, 0, 0, 0, 0, 1, 0]);
        wide.extend([0; 14]);
        // Its recorder did not come to write the length.
        wide.extend(b"data\xff\xff\xff\xff\x05\0");
        let read = Wav::parse(&wide).unwrap();
        assert_eq!((read.rate, read.samples), (16_000, vec![5]));
    }

    #[test]
    fn unsupported_files_give_the_reason() {
        let error_of = |file: &[u8]| Wav::parse(file).unwrap_err().to_string();
        assert_eq!(error_of(b""), "at byte 0: expected RIFF, found the end");
        assert_eq!(error_of(b"ID3\x04"), "at byte 0: expected RIFF, found ID3\\x04");
        assert_eq!(error_of(b"RIFF\0\0\0\0AVI "), "at byte 8: expected WAVE, found AVI ");
        let fact = error_of(&file(17, 1, 8000, 4, &[]));
        assert_eq!(fact, "at byte 32: expected PCM, A-law or mu-law (format 1, 6 or 7), found format 17");
        assert_eq!(error_of(&file(1, 6, 8000, 16, &[])), "at byte 34: expected one or two channels, found 6");
        let rate = error_of(&file(1, 1, 96_000, 16, &[]));
        assert_eq!(rate, "at byte 36: expected 8000 to 48000 samples a second, found 96000");
        assert_eq!(error_of(&file(1, 1, 8000, 24, &[])), "at byte 46: expected 8 or 16 bits, found 24");
        assert_eq!(
            error_of(&file(1, 1, 8000, 16, &[])[..48]),
            "at byte 48: expected a data chunk, found the end"
        );
    }

    fn tone(frequency: f64, rate: u32, len: usize) -> Vec<i16> {
        (0..len).map(|at| ((TAU * frequency * at as f64 / f64::from(rate)).sin() * 10_000.0) as i16).collect()
    }

    #[test]
    fn a_tone_stays_itself_at_every_rate() {
        for from in [8_000, 11_025, 16_000, 32_000, 44_100, 48_000] {
            for to in [8_000, 16_000, 48_000] {
                let back = resample(&tone(1000.0, from, from as usize / 2), from, to);
                let expected = tone(1000.0, to, back.len());
                assert!(back.len().abs_diff(to as usize / 2) <= 6, "{from} to {to}: {}", back.len());
                let middle = back.len() / 4..back.len() * 3 / 4;
                let off = middle.map(|at| back[at].abs_diff(expected[at])).max().unwrap();
                assert!(off < 60, "{from} to {to}: off by {off}");
            }
        }
    }

    #[test]
    fn frequencies_above_the_lower_rate_are_filtered_out() {
        let back = resample(&tone(6000.0, 48_000, 24_000), 48_000, 8_000);
        let loudest = back[500..3500].iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!(loudest < 50, "{loudest}");
        assert!(resample(&[1, 2], 0, 8_000).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(samples: Vec<i16>, rate in 8_000_u32..48_001) {
            let wav = Wav { rate, channels: 1, samples };
            prop_assert_eq!(Wav::parse(&wav.to_bytes()), Ok(wav));
        }

        #[test]
        fn damaged_files_are_answered(at in any::<prop::sample::Index>(), byte: u8, cut in any::<prop::sample::Index>()) {
            let mut file = file(PCM, 2, 8000, 16, &[1, 2, 3, 4, 5, 6, 7, 8]);
            let index = at.index(file.len());
            file[index] = byte;
            file.truncate(cut.index(file.len()) + 1);
            match Wav::parse(&file) {
                Ok(wav) => prop_assert!(wav.to_mono().len() <= 8),
                Err(error) => prop_assert!(error.position <= file.len()),
            }
        }
    }
}
