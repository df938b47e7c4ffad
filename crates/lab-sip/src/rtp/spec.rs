//! The texts of media actions, read: `rtp_stream`, patterns, `rtp_echo`, `play_dtmf`.
//!
//! Parsed when the run is prepared where the text is the same in every call, otherwise when the action runs. Formats, defaults and ranges are SIPp's.

use std::time::Duration;

use media::codec::Codec;
use media::events::Digit;

/// How the payload of a stream is cut: SIPp's table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Coding {
    /// The RTP payload type, 0 to 127.
    pub(super) payload_type: u8,
    /// The codec that this program encodes with; `None`: the file's bytes are sent as they are.
    pub(super) codec: Option<Codec>,
    /// The time between two packets.
    pub(super) interval: Duration,
    /// Bytes a packet, for files that are sent as they are.
    pub(super) bytes: usize,
    /// Units of the RTP timestamp per packet.
    pub(super) ticks: u32,
    /// The byte that fills a short last packet.
    pub(super) filler: u8,
    /// It is sent by the video stream.
    pub(super) video: bool,
}

/// `file[,loops[,payload type[,codec/rate]]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StreamSpec {
    /// As written: looked up later.
    pub(super) file: String,
    /// The number of repetitions; `None`: without end.
    pub(super) loops: Option<u32>,
    pub(super) coding: Coding,
}

/// `number[,payload type[,codec/rate]]`, a loop count before the payload type allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PatternSpec {
    /// The byte that fills the payload.
    pub(super) fill: u8,
    pub(super) coding: Coding,
}

/// `digits[,milliseconds[,payload type]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DtmfSpec {
    /// In order.
    pub(super) digits: Vec<Digit>,
    /// The length of a tone, and of the pause behind it.
    pub(super) tone_ms: u32,
    /// `None`: what the other side's SDP says, else 101... SIPp's number is 96.
    pub(super) payload_type: Option<u8>,
}

/// SIPp's patterns, 1 to 6.
const PATTERNS: [u8; 6] = [0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF];

/// Milliseconds of a tone, and what may be asked for.
const TONE_DEFAULT: u32 = 200;
/// Milliseconds that a DTMF tone may last.
const TONE_RANGE: std::ops::RangeInclusive<u32> = 50..=2_000;

impl StreamSpec {
    pub(super) fn parse(text: &str, default_payload: u8) -> Result<StreamSpec, String> {
        let mut fields = text.split(',').map(str::trim);
        let file = fields.next().unwrap_or_default().to_owned();
        if file.is_empty() {
            return Err(format!("rtp_stream=\"{text}\": expected a file name first"));
        }
        let loops = match fields.next() {
            None | Some("") => Some(1),
            Some(number) => match number.parse::<i64>() {
                Ok(count) if count < 0 => None,
                Ok(count) => Some(u32::try_from(count).unwrap_or(u32::MAX)),
                Err(_) => {
                    return Err(format!("rtp_stream=\"{text}\": expected a number of loops, found {number}"));
                }
            },
        };
        let coding = coding(fields.next(), fields.next(), default_payload)
            .map_err(|error| format!("rtp_stream=\"{text}\": {error}"))?;
        Ok(StreamSpec { file, loops, coding })
    }
}

impl PatternSpec {
    pub(super) fn parse(text: &str, default_payload: u8) -> Result<PatternSpec, String> {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let number: usize = fields[0].parse().unwrap_or(0);
        let fill = *number.checked_sub(1).and_then(|index| PATTERNS.get(index)).ok_or_else(|| {
            format!("pattern \"{text}\": expected a number from 1 to 6, found {}", fields[0])
        })?;
        // COMPAT(sipp): the manual has a loop count second, the program does not; four fields tell.
        let rest = if fields.len() > 3 { &fields[2..] } else { &fields[1..] };
        let coding = coding(rest.first().copied(), rest.get(1).copied(), default_payload)
            .map_err(|error| format!("pattern \"{text}\": {error}"))?;
        Ok(PatternSpec { fill, coding })
    }
}

impl DtmfSpec {
    pub(super) fn parse(text: &str) -> Result<DtmfSpec, String> {
        let mut fields = text.split(',').map(str::trim);
        let mut digits = Vec::new();
        for char in fields.next().unwrap_or_default().chars() {
            let digit = Digit::from_char(char)
                .ok_or_else(|| format!("play_dtmf=\"{text}\": {char} is no digit of 0-9, *, #, A-D"))?;
            digits.push(digit);
        }
        if digits.is_empty() {
            return Err(format!("play_dtmf=\"{text}\": expected at least one digit of 0-9, *, #, A-D"));
        }
        let tone_ms = match fields.next() {
            None | Some("") => TONE_DEFAULT,
            Some(number) => number.parse().ok().filter(|ms| TONE_RANGE.contains(ms)).ok_or_else(|| {
                format!("play_dtmf=\"{text}\": expected 50 to 2000 milliseconds, found {number}")
            })?,
        };
        let payload_type = match fields.next() {
            None | Some("") => None,
            Some(number) => {
                Some(number.parse().ok().filter(|number: &u8| *number < 128).ok_or_else(|| {
                    format!("play_dtmf=\"{text}\": expected a payload type below 128, found {number}")
                })?)
            }
        };
        Ok(DtmfSpec { digits, tone_ms, payload_type })
    }
}

/// The meaning of `payload type` and `codec/rate`; both may be missing.
fn coding(number: Option<&str>, name: Option<&str>, default_payload: u8) -> Result<Coding, String> {
    let payload_type = match number {
        None | Some("") => default_payload,
        Some(number) => number
            .parse()
            .ok()
            .filter(|number: &u8| *number < 128)
            .ok_or_else(|| format!("expected a payload type below 128, found {number}"))?,
    };
    let static_name = match payload_type {
        0 => "PCMU/8000",
        8 => "PCMA/8000",
        9 => "G722/8000",
        13 => "CN/8000",
        18 => "G729/8000",
        _ => "",
    };
    let name = name.filter(|name| !name.is_empty()).unwrap_or(static_name);
    // Codec, milliseconds, bytes a packet, timestamp units a packet, filler of a short packet, video.
    let (codec, interval, bytes, ticks, filler, video) = match name.to_ascii_uppercase().as_str() {
        "PCMU/8000" => (Some(Codec::Pcmu), 20, 160, 160, 0xff, false),
        "PCMA/8000" => (Some(Codec::Pcma), 20, 160, 160, 0xd5, false),
        "G722/8000" => (Some(Codec::G722), 20, 160, 160, 0xfa, false),
        "OPUS/48000" | "OPUS/48000/2" => (Some(Codec::Opus), 20, 0, 960, 0, false),
        "G729/8000" => (None, 20, 20, 160, 0, false),
        "ILBC/8000" => (None, 30, 50, 240, 0, false),
        "CN/8000" => (None, 150, 1, 1_200, 0x7f, false),
        "H264/90000" => (None, 160, 1_280, 1_280, 0, true),
        "" => return Err(format!("payload type {payload_type} needs its codec/rate behind it")),
        other => {
            return Err(format!(
                "codec {other} is not known: expected PCMU/8000, PCMA/8000, G722/8000, opus/48000, G729/8000, \
                 iLBC/8000, CN/8000 or H264/90000"
            ));
        }
    };
    let interval = Duration::from_millis(interval);
    Ok(Coding { payload_type, codec, interval, bytes, ticks, filler, video })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_sipps_defaults() {
        let spec = StreamSpec::parse("a.wav", 8).expect("read");
        assert_eq!(
            (spec.loops, spec.coding.payload_type, spec.coding.codec),
            (Some(1), 8, Some(Codec::Pcma))
        );
        let spec = StreamSpec::parse("a.raw,-1,99,H264/90000", 8).expect("read");
        assert_eq!((spec.loops, spec.coding.bytes, spec.coding.video), (None, 1_280, true));
        let spec = StreamSpec::parse("a.raw,3,18", 8).expect("read");
        assert_eq!((spec.loops, spec.coding.bytes, spec.coding.codec), (Some(3), 20, None));
    }

    #[test]
    fn patterns_are_read_with_and_without_a_loop_count() {
        let spec = PatternSpec::parse("1,0,PCMU/8000", 8).expect("read");
        assert_eq!((spec.fill, spec.coding.payload_type), (0xAA, 0));
        let spec = PatternSpec::parse("6,1,99,H264/90000", 8).expect("read");
        assert_eq!((spec.fill, spec.coding.payload_type, spec.coding.video), (0xFF, 99, true));
        let spec = PatternSpec::parse("2", 8).expect("read");
        assert_eq!((spec.fill, spec.coding.payload_type), (0xBB, 8));
    }

    #[test]
    fn every_mistake_has_its_error_text() {
        let stream = |text| StreamSpec::parse(text, 8).expect_err("a mistake");
        assert!(stream(",1").contains("expected a file name"));
        assert!(stream("a,often").contains("expected a number of loops, found often"));
        assert!(stream("a,1,200").contains("expected a payload type below 128, found 200"));
        assert!(stream("a,1,97").contains("payload type 97 needs its codec/rate"));
        assert!(stream("a,1,97,MP3/90000").contains("codec MP3/90000 is not known"));
        assert!(PatternSpec::parse("7", 8).expect_err("a mistake").contains("from 1 to 6, found 7"));
        let dtmf = |text| DtmfSpec::parse(text).expect_err("a mistake");
        assert!(dtmf("").contains("at least one digit"));
        assert!(dtmf("12x").contains("x is no digit"));
        assert!(dtmf("1,9").contains("expected 50 to 2000 milliseconds, found 9"));
        assert!(dtmf("1,90,300").contains("payload type below 128"));
    }

    #[test]
    fn digits_are_read() {
        let spec = DtmfSpec::parse("1*#d,100").expect("read");
        assert_eq!(spec.digits.iter().map(|digit| digit.to_char()).collect::<String>(), "1*#D");
        assert_eq!((spec.tone_ms, spec.payload_type), (100, None));
    }
}
