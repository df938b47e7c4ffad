//! Digits in SIP INFO: bodies of `application/dtmf-relay` and `application/dtmf`.

use crate::events::Digit;
use crate::limits::INFO_BYTES;

/// A key pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InfoDigit {
    /// The key of the body.
    pub digit: Digit,
    /// Milliseconds, when the body tells.
    pub duration_ms: Option<u32>,
}

/// The content type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DtmfInfoFormat {
    /// `Signal=5` and `Duration=160` on lines of their own.
    Relay,
    /// The key alone, or an event's number.
    Plain,
}

impl DtmfInfoFormat {
    /// By the Content-Type, its parameters left out.
    pub fn from_content_type(value: &str) -> Option<DtmfInfoFormat> {
        let kind = value.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/dtmf-relay") {
            Some(DtmfInfoFormat::Relay)
        } else if kind.eq_ignore_ascii_case("application/dtmf") {
            Some(DtmfInfoFormat::Plain)
        } else {
            None
        }
    }

    /// The content type of the INFO.
    pub fn content_type(self) -> &'static str {
        match self {
            DtmfInfoFormat::Relay => "application/dtmf-relay",
            DtmfInfoFormat::Plain => "application/dtmf",
        }
    }
}

/// `None` when the body shows no digit. COMPAT(phones): either form is read in a body of either kind, in any case, with
/// or without blanks, and `10` and `11` are `*` and `#` as the events of RFC 4733 have them.
pub fn parse(body: &[u8]) -> Option<InfoDigit> {
    let text = std::str::from_utf8(body.get(..body.len().min(INFO_BYTES))?).ok()?;
    let (mut digit, mut duration_ms) = (None, None);
    for line in text.lines() {
        let (name, value) = line.split_once('=').unwrap_or(("signal", line));
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("signal") {
            digit = digit.or_else(|| signal(value));
        } else if name.eq_ignore_ascii_case("duration") {
            duration_ms = duration_ms.or_else(|| value.parse().ok());
        }
    }
    Some(InfoDigit { digit: digit?, duration_ms })
}

/// The key of a signal: itself, or the number of its event (RFC 4733 §3.2).
fn signal(value: &str) -> Option<Digit> {
    let mut chars = value.chars();
    match (chars.next(), chars.next()) {
        (Some(char), None) => Digit::from_char(char),
        _ => value.parse().ok().and_then(Digit::from_event),
    }
}

/// The body that tells of a digit.
pub fn write(kind: DtmfInfoFormat, digit: Digit, duration_ms: u32) -> String {
    match kind {
        DtmfInfoFormat::Relay => format!("Signal={}\r\nDuration={duration_ms}\r\n", digit.to_char()),
        DtmfInfoFormat::Plain => digit.to_char().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bodies_of_phones_are_read() {
        let read = |body: &str| parse(body.as_bytes()).map(|one| (one.digit.to_char(), one.duration_ms));
        assert_eq!(read("Signal=5\r\nDuration=160\r\n"), Some(('5', Some(160))));
        assert_eq!(read("Signal= *\nDuration= 250"), Some(('*', Some(250))));
        assert_eq!(read("signal=11\r\n"), Some(('#', None)));
        assert_eq!(read("Duration=100\r\nSignal=d"), Some(('D', Some(100))));
        assert_eq!(read("Signal=1\r\nDuration=much\r\n"), Some(('1', None)));
        assert_eq!(read("7"), Some(('7', None)));
        assert_eq!(read("#\r\n"), Some(('#', None)));
        assert_eq!(read("10"), Some(('*', None)));
        for wrong in
            ["", "\r\n", "Signal=", "Signal=16", "Signal=x", "Duration=100", "hello", "Signal=12345678901"]
        {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
        assert_eq!(parse(b"Signal=\xff5"), None);
    }

    #[test]
    fn the_content_type_tells_the_kind() {
        assert_eq!(
            DtmfInfoFormat::from_content_type("application/DTMF-relay; charset=utf-8"),
            Some(DtmfInfoFormat::Relay)
        );
        assert_eq!(DtmfInfoFormat::from_content_type("Application/dtmf"), Some(DtmfInfoFormat::Plain));
        assert_eq!(DtmfInfoFormat::from_content_type("application/sdp"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(event in 0_u8..16, duration: u32, plain: bool) {
            let digit = Digit::from_event(event).unwrap();
            let kind = if plain { DtmfInfoFormat::Plain } else { DtmfInfoFormat::Relay };
            let read = parse(write(kind, digit, duration).as_bytes()).unwrap();
            prop_assert_eq!(read, InfoDigit { digit, duration_ms: (!plain).then_some(duration) });
            prop_assert_eq!(DtmfInfoFormat::from_content_type(kind.content_type()), Some(kind));
        }

        #[test]
        fn any_bytes_are_answered(body: Vec<u8>) {
            if let Some(read) = parse(&body) {
                prop_assert!(read.digit.event() < 16);
            }
        }
    }
}
