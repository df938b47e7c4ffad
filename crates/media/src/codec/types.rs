//! Payload types: the static table of RFC 3551 and `a=rtpmap`.

use std::fmt;

/// The format of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// G.711 µ-law.
    #[default]
    Pcmu,
    /// G.711 A-law.
    Pcma,
    /// 64 kbit/s.
    G722,
    /// RFC 6716, in RTP as RFC 7587 has it.
    Opus,
    /// 16-bit samples in network order, one channel.
    L16,
    /// Known for its rating; not decoded.
    G729,
    /// RFC 4733.
    TelephoneEvent,
    /// RFC 3389.
    ComfortNoise,
    /// A payload type that this crate does not know.
    Other,
}

impl Codec {
    /// The sample rate of its sound, in Hz: 16000 for G.722, whatever its timestamps count.
    pub fn sample_rate(self) -> u32 {
        match self {
            Codec::G722 => 16_000,
            Codec::Opus => 48_000,
            Codec::L16 => 44_100,
            _ => 8_000,
        }
    }

    /// The encoding name of an rtpmap.
    pub fn from_name(name: &str) -> Codec {
        const NAMES: [(&str, Codec); 8] = [
            ("PCMU", Codec::Pcmu),
            ("PCMA", Codec::Pcma),
            ("G722", Codec::G722),
            ("opus", Codec::Opus),
            ("L16", Codec::L16),
            ("G729", Codec::G729),
            ("telephone-event", Codec::TelephoneEvent),
            ("CN", Codec::ComfortNoise),
        ];
        NAMES
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map_or(Codec::Other, |(_, codec)| *codec)
    }

    /// The encoding name in SDP.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Pcmu => "PCMU",
            Codec::Pcma => "PCMA",
            Codec::G722 => "G722",
            Codec::Opus => "opus",
            Codec::L16 => "L16",
            Codec::G729 => "G729",
            Codec::TelephoneEvent => "telephone-event",
            Codec::ComfortNoise => "CN",
            Codec::Other => "unknown",
        }
    }
}

/// A payload type with its codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadType {
    /// The seven bits of the RTP header: below 96 static, from 96 dynamic.
    pub number: u8,
    /// The format of its payload.
    pub codec: Codec,
    /// The clock rate of the timestamp, in Hz; 8000 for G.722 (RFC 3551 §4.5.2).
    pub clock_rate: u32,
    /// Channels of the sound; Opus has 2 in every rtpmap (RFC 7587 §7).
    pub channels: u8,
}

impl PayloadType {
    /// The static assignments of RFC 3551 §6 that this crate knows; dynamic numbers give `None`.
    pub fn fixed(number: u8) -> Option<PayloadType> {
        let (codec, clock_rate, channels) = match number {
            0 => (Codec::Pcmu, 8_000, 1),
            8 => (Codec::Pcma, 8_000, 1),
            9 => (Codec::G722, 8_000, 1),
            10 => (Codec::L16, 44_100, 2),
            11 => (Codec::L16, 44_100, 1),
            13 => (Codec::ComfortNoise, 8_000, 1),
            18 => (Codec::G729, 8_000, 1),
            3..=5 | 7 | 12 | 15 => (Codec::Other, 8_000, 1),
            6 => (Codec::Other, 16_000, 1),
            16 => (Codec::Other, 11_025, 1),
            17 => (Codec::Other, 22_050, 1),
            14 | 25 | 26 | 28 | 31..=34 => (Codec::Other, 90_000, 1),
            _ => return None,
        };
        Some(PayloadType { number, codec, clock_rate, channels })
    }
}

/// `a=rtpmap:<number> <name>/<clock rate>[/<channels>]` (RFC 8866 §6.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtpMap<'a> {
    /// The payload type.
    pub number: u8,
    /// The encoding name as written; case does not matter.
    pub name: &'a str,
    /// The clock rate of the timestamp, in Hz.
    pub clock_rate: u32,
    /// 1 unless written.
    pub channels: u8,
}

impl<'a> RtpMap<'a> {
    /// The value with or without `a=` and `rtpmap:` before it; `None` when it is not one.
    pub fn parse(line: &'a str) -> Option<RtpMap<'a>> {
        let value = line.trim();
        let value = value.strip_prefix("a=").unwrap_or(value);
        let value = value.strip_prefix("rtpmap:").unwrap_or(value);
        let (number, encoding) = value.split_once(' ')?;
        let mut parts = encoding.trim().split('/');
        let name = parts.next().filter(|name| !name.is_empty())?;
        let clock_rate = parts.next()?.parse().ok().filter(|rate| *rate > 0)?;
        let channels = parts.next().map_or(Some(1), |count| count.parse().ok())?;
        let number = number.parse().ok().filter(|number| *number < 128)?;
        Some(RtpMap { number, name, clock_rate, channels })
    }

    /// The payload type as RTP uses it.
    pub fn payload_type(&self) -> PayloadType {
        let codec = Codec::from_name(self.name);
        PayloadType { number: self.number, codec, clock_rate: self.clock_rate, channels: self.channels }
    }
}

impl fmt::Display for RtpMap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rtpmap:{} {}/{}", self.number, self.name, self.clock_rate)?;
        if self.channels > 1 { write!(f, "/{}", self.channels) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_numbers_are_those_of_the_table() {
        let of = |number| PayloadType::fixed(number).map(|one| (one.codec, one.clock_rate, one.channels));
        assert_eq!(of(0), Some((Codec::Pcmu, 8_000, 1)));
        assert_eq!(of(8), Some((Codec::Pcma, 8_000, 1)));
        assert_eq!(of(9), Some((Codec::G722, 8_000, 1)));
        assert_eq!(of(10), Some((Codec::L16, 44_100, 2)));
        assert_eq!(of(13), Some((Codec::ComfortNoise, 8_000, 1)));
        assert_eq!(of(34), Some((Codec::Other, 90_000, 1)));
        // DVI4 and MPA have clocks of their own (RFC 3551 table 4).
        assert_eq!((of(6), of(14)), (Some((Codec::Other, 16_000, 1)), Some((Codec::Other, 90_000, 1))));
        assert_eq!((of(1), of(72), of(101), of(255)), (None, None, None, None));
    }

    #[test]
    fn rtpmaps_are_read_and_written() {
        let map = RtpMap::parse("a=rtpmap:111 OPUS/48000/2\r\n").unwrap();
        assert_eq!((map.number, map.name, map.clock_rate, map.channels), (111, "OPUS", 48_000, 2));
        assert_eq!(map.payload_type().codec, Codec::Opus);
        assert_eq!(map.to_string(), "rtpmap:111 OPUS/48000/2");
        assert_eq!(
            RtpMap::parse("101 telephone-event/8000").unwrap().to_string(),
            "rtpmap:101 telephone-event/8000"
        );
        assert_eq!(RtpMap::parse("96 H264/90000").unwrap().payload_type().codec, Codec::Other);
        for wrong in [
            "",
            "101",
            "128 PCMU/8000",
            "0 PCMU",
            "0 PCMU/",
            "0 PCMU/0",
            "0 /8000",
            "x PCMU/8000",
            "0 L16/8000/x",
        ] {
            assert_eq!(RtpMap::parse(wrong), None, "{wrong}");
        }
    }
}
