//! A sound file cut into the payloads that are sent: encoded once, shared by every call that plays it.
//!
//! Raw files hold payload already; WAV files are mixed to mono, resampled to the codec's rate and encoded.

use std::ops::Range;
use std::time::Duration;

use media::codec::{Codec, Encoder};
use media::wav::{self, Wav};

use super::spec::Coding;

/// Payloads at an even pace.
#[derive(Debug)]
pub(super) struct Encoded {
    /// All payloads, one behind the other.
    pub(super) bytes: Vec<u8>,
    /// The place of each.
    pub(super) frames: Vec<Range<usize>>,
    /// The time between two packets.
    pub(super) interval: Duration,
    /// Units of the RTP timestamp per payload.
    pub(super) ticks: u32,
    /// The RTP payload type.
    pub(super) payload_type: u8,
}

impl Encoded {
    /// Without payloads yet.
    fn new(coding: &Coding) -> Encoded {
        Encoded {
            bytes: Vec::new(),
            frames: Vec::new(),
            interval: coding.interval,
            ticks: coding.ticks,
            payload_type: coding.payload_type,
        }
    }

    /// One payload of a pattern, repeated.
    pub(super) fn pattern(fill: u8, coding: &Coding) -> Encoded {
        // Opus has no frame of a size of its own; the echo of any payload tells as much.
        let len = if coding.bytes == 0 { 160 } else { coding.bytes };
        let mut encoded = Encoded::new(coding);
        encoded.bytes = vec![fill; len];
        encoded.frames.push(0..len);
        encoded
    }
}

/// A WAV file is encoded; any other holds payload already and is cut to the codec's packets, the last one filled up.
pub(super) fn encode(file: &[u8], coding: &Coding) -> Result<Encoded, String> {
    if file.is_empty() {
        return Err("is empty".to_owned());
    }
    match coding.codec {
        Some(codec) if file.starts_with(b"RIFF") => encode_wav(file, codec, coding),
        Some(Codec::Opus) => Err("only a WAV file can be sent as opus".to_owned()),
        _ => Ok(cut(file, coding)),
    }
}

/// Each frame has the samples of one interval; the last one is filled with silence.
fn encode_wav(file: &[u8], codec: Codec, coding: &Coding) -> Result<Encoded, String> {
    let wav = Wav::parse(file).map_err(|error| format!("is not a WAV file that can be read: {error}"))?;
    let rate = codec.sample_rate();
    let mono = wav.to_mono();
    let samples = if wav.rate == rate { mono } else { wav::resample(&mono, wav.rate, rate) };
    if samples.is_empty() {
        return Err("holds no sound".to_owned());
    }
    let mut encoder = Encoder::new(codec).map_err(|error| error.to_string())?;
    let millis = u64::try_from(coding.interval.as_millis()).unwrap_or(u64::MAX);
    let per_frame = usize::try_from(u64::from(rate) * millis / 1_000).unwrap_or(usize::MAX);
    let mut encoded = Encoded::new(coding);
    let mut frame = Vec::with_capacity(per_frame);
    for chunk in samples.chunks(per_frame) {
        frame.clear();
        frame.extend_from_slice(chunk);
        frame.resize(per_frame, 0);
        let start = encoded.bytes.len();
        encoder.encode(&frame, &mut encoded.bytes).map_err(|error| error.to_string())?;
        encoded.frames.push(start..encoded.bytes.len());
    }
    Ok(encoded)
}

/// Cuts raw payload into packets; the last one is filled with the codec's silence.
fn cut(file: &[u8], coding: &Coding) -> Encoded {
    let mut encoded = Encoded::new(coding);
    encoded.bytes = file.to_vec();
    encoded.bytes.resize(file.len().div_ceil(coding.bytes) * coding.bytes, coding.filler);
    encoded.frames =
        (0..encoded.bytes.len()).step_by(coding.bytes).map(|start| start..start + coding.bytes).collect();
    encoded
}

#[cfg(test)]
mod tests {
    use super::super::spec::StreamSpec;
    use super::*;

    fn coding(text: &str) -> Coding {
        StreamSpec::parse(text, 8).expect("read").coding
    }

    #[test]
    fn a_raw_file_is_cut_by_its_codec_and_the_last_packet_filled_with_silence() {
        let encoded = encode(&[1; 400], &coding("a.raw,1,0")).expect("cut");
        assert_eq!(encoded.frames, [0..160, 160..320, 320..480]);
        assert!(encoded.bytes[400..].iter().all(|byte| *byte == 0xff));
        let encoded = encode(&[1; 41], &coding("a.raw,1,18")).expect("cut");
        assert_eq!(encoded.frames.len(), 3);
    }

    #[test]
    fn a_sound_file_that_cannot_be_sent_is_named() {
        assert_eq!(encode(b"", &coding("a.raw")).expect_err("empty"), "is empty");
        let error = encode(b"RIFFxxxx", &coding("a.wav")).expect_err("broken");
        assert!(error.starts_with("is not a WAV file that can be read: at byte "), "{error}");
        assert!(encode(b"abc", &coding("a,1,96,opus/48000")).expect_err("raw").contains("only a WAV file"));
    }
}
