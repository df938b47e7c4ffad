//! The captures that SIPp's scenarios name, made here: digits as telephone events and a voice in A-law.

use std::f64::consts::{PI, TAU};
use std::time::Duration;

use super::Writer;
use crate::codec::alaw_encode;
use crate::events::Digit;
use crate::rtp::Header;

/// The file of one of SIPp's names (`pcap/dtmf_2833_5.pcap`, `dtmf_2833_star.pcap`, `dtmf_2833_pound.pcap`,
/// `g711a.pcap`, whatever directory stands before them), so that they play where no such file is.
pub fn built_in(name: &str) -> Option<Vec<u8>> {
    let base = name.rsplit(['/', '\\']).next()?.strip_suffix(".pcap")?;
    if base == "g711a" {
        return Some(speech_capture());
    }
    let digit = match base.strip_prefix("dtmf_2833_")? {
        "star" => Digit::STAR,
        "pound" => Digit::POUND,
        one if one.len() == 1 => Digit::from_char(one.chars().next()?).filter(|digit| digit.event() < 10)?,
        _ => return None,
    };
    Some(dtmf_capture(digit))
}

/// The SSRC of the captures that SIPp comes with: one number in every file and every call.
const SSRC: u32 = 0x0e05_384e;
/// As in SIPp's captures of digits.
const FIRST_SEQUENCE: u16 = 8155;
const TIMESTAMP: u32 = 43_200;
const PACKET: Duration = Duration::from_millis(20);
/// SIPp's scenarios play from and to ports that the player replaces.
const PORT: u16 = 8000;

/// One digit as SIPp's own captures have it: ten packets of payload type 101, 20 ms apart, the marker on the first,
/// one timestamp, a duration that begins at 0 and grows by 320, and three end packets under one sequence number.
pub fn dtmf_capture(digit: Digit) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut bytes = Vec::new();
    for index in 0..10_u16 {
        // Seven packets of the key held, then the end three times over.
        let step = index.min(7);
        let header = Header {
            marker: index == 0,
            payload_type: 101,
            sequence: FIRST_SEQUENCE + step,
            timestamp: TIMESTAMP,
            ssrc: SSRC,
        };
        let [high, low] = (320 * step).to_be_bytes();
        let end = if step == 7 { 0x80 } else { 0 };
        bytes.clear();
        header.write(&[digit.event(), end | 10, high, low], &mut bytes);
        // The ends follow each other at once: 140 ms in all.
        writer.udp(PACKET * u32::from(step), PORT, PORT, &bytes);
    }
    writer.finish()
}

/// Eight seconds of speech-like sound in PCMA, 20 ms a packet, payload type 8: a voiced pitch that moves, vowels in
/// syllables of a quarter of a second, a pause after every eighth.
pub fn speech_capture() -> Vec<u8> {
    let mut writer = Writer::new();
    let mut bytes = Vec::new();
    let mut voice = Voice::default();
    for index in 0..400_u16 {
        let payload: [u8; 160] = std::array::from_fn(|_| alaw_encode(voice.sample()));
        let header = Header {
            marker: index == 0,
            payload_type: 8,
            sequence: index,
            timestamp: 160 * u32::from(index),
            ssrc: SSRC,
        };
        bytes.clear();
        header.write(&payload, &mut bytes);
        writer.udp(PACKET * u32::from(index), PORT, PORT, &bytes);
    }
    writer.finish()
}

/// A throat of harmonics under two formants, at 8 kHz.
#[derive(Default)]
struct Voice {
    at: u32,
    phase: f64,
}

impl Voice {
    /// The two formants of a, e, i, o, u in Hz.
    const VOWELS: [(f64, f64); 5] =
        [(730.0, 1090.0), (530.0, 1840.0), (270.0, 2290.0), (570.0, 840.0), (300.0, 870.0)];
    /// Samples of one syllable: a quarter of a second at 8 kHz.
    const SYLLABLE: u32 = 2000;

    fn sample(&mut self) -> i16 {
        let syllable = self.at / Self::SYLLABLE;
        let within = f64::from(self.at % Self::SYLLABLE) / f64::from(Self::SYLLABLE);
        self.at += 1;
        if syllable % 9 == 8 {
            return 0;
        }
        let pitch = 120.0 + 25.0 * (f64::from(self.at) / 5000.0).sin();
        self.phase = (self.phase + pitch / 8000.0).fract();
        let (first, second) = Self::VOWELS[(syllable * 3 % 5) as usize];
        let mut sum = 0.0;
        for harmonic in 1..=24 {
            let frequency = pitch * f64::from(harmonic);
            let near = |formant: f64, width: f64| 1.0 / (1.0 + ((frequency - formant) / width).powi(2));
            let weight = near(first, 90.0) + 0.5 * near(second, 120.0);
            sum += weight * (TAU * self.phase * f64::from(harmonic)).sin();
        }
        let envelope = (PI * within).sin().sqrt();
        (sum * envelope * 4000.0) as i16
    }
}
