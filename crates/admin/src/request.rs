//! A request taken apart: which of the interfaces, what path, in which form to answer, and the parameters.
//!
//! Paths are the same under both names of the interface; only the base tells them apart, and with it the version and the root element of XML.

use crate::fault::Fault;
use crate::limits;

/// The two names of the one interface, and what neither has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// RestComm's: `/restcomm/2012-04-24`.
    Restcomm,
    /// Twilio's: `/2010-04-01`.
    Twilio,
    /// Chat.
    Belfry,
}

impl Base {
    /// All of them.
    pub const ALL: [Base; 3] = [Base::Restcomm, Base::Twilio, Base::Belfry];

    /// The path before the resources.
    pub fn prefix(self) -> &'static str {
        match self {
            Base::Restcomm => "/restcomm/2012-04-24",
            Base::Twilio => "/2010-04-01",
            Base::Belfry => "/v1",
        }
    }

    /// The value of `api_version`.
    pub fn version(self) -> &'static str {
        match self {
            Base::Restcomm => "2012-04-24",
            Base::Twilio => "2010-04-01",
            Base::Belfry => "v1",
        }
    }

    /// The root element of XML: Twilio's and RestComm's libraries look for theirs.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Base::Restcomm => "RestcommResponse",
            Base::Twilio => "TwilioResponse",
            Base::Belfry => "BelfryResponse",
        }
    }
}

/// The form of an answer: by the suffix of the path, else by `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The default for chat, and where `Accept` has it.
    Json,
    /// Twilio's default.
    Xml,
    /// The sound of a recording.
    Wav,
    /// The same, encoded by the operator's program.
    Mp3,
}

/// A request as received: of HTTP only the parts that handlers need.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) base: Base,
    /// As it was asked for, with base and suffix, without the query.
    pub(crate) path: String,
    /// Below the base, without suffixes, percent-decoded.
    pub(crate) segments: Vec<String>,
    pub(crate) format: Format,
    /// A suffix of the path has named the form.
    pub(crate) has_suffix: bool,
    /// Query first, then body.
    pub(crate) parameters: Vec<(String, String)>,
}

impl Request {
    /// `None`: not under one of the bases.
    pub(crate) fn parse(method: &'static str, path: &str, accept: &str) -> Option<Self> {
        let base = Base::ALL.into_iter().find(|base| path.starts_with(base.prefix()))?;
        let rest = path[base.prefix().len()..].strip_prefix('/')?;
        // Twilio answers in XML where no suffix asks for JSON; chat has JSON only.
        let is_json = base == Base::Belfry || accept.contains("application/json");
        let mut format = if is_json { Format::Json } else { Format::Xml };
        let (mut segments, mut has_suffix) = (Vec::new(), false);
        for segment in rest.split('/').filter(|segment| !segment.is_empty()) {
            if segments.len() == limits::MAX_SEGMENTS {
                return None;
            }
            // COMPAT(RestComm): the suffix may stand on a collection before the sid, as in `Calls.json/CA…`.
            let (mut name, suffix) = strip_suffix(segment);
            has_suffix |= suffix.is_some();
            format = suffix.unwrap_or(format);
            // COMPAT(Twilio): its RecordingUrl has no suffix, so that its applications append `.mp3` or `.wav`; here it has one.
            if matches!(format, Format::Mp3 | Format::Wav) {
                name = name.strip_suffix(".wav").unwrap_or(name);
            }
            segments.push(decode(name, false)?);
        }
        let path = path.to_owned();
        Some(Request { method, base, path, segments, format, has_suffix, parameters: Vec::new() })
    }

    /// Reads `application/x-www-form-urlencoded`, from a query or a body.
    pub(crate) fn add_form(&mut self, form: &str) -> Result<(), Fault> {
        for pair in form.split('&').filter(|pair| !pair.is_empty()) {
            if self.parameters.len() >= limits::MAX_PARAMETERS {
                let most = limits::MAX_PARAMETERS;
                return Err(Fault::invalid(20400, format!("More than {most} parameters")));
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let bad = || Fault::invalid(20400, "The parameters are not percent-encoded UTF-8");
            self.parameters.push((decode(name, true).ok_or_else(bad)?, decode(value, true).ok_or_else(bad)?));
        }
        Ok(())
    }
}

/// Splits a known suffix off; another one belongs to the name.
fn strip_suffix(segment: &str) -> (&str, Option<Format>) {
    let suffixes =
        [(".json", Format::Json), (".xml", Format::Xml), (".wav", Format::Wav), (".mp3", Format::Mp3)];
    suffixes
        .into_iter()
        .find_map(|(suffix, format)| Some((segment.strip_suffix(suffix)?, Some(format))))
        .unwrap_or((segment, None))
}

/// `None` when it is no percent-encoded UTF-8.
fn decode(text: &str, plus_is_space: bool) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                out.extend(stdx::hex::decode(digits)?);
            }
            // In forms a plus is a space, in paths a plus: numbers have it.
            b'+' if plus_is_space => out.push(b' '),
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

/// For a query.
pub(crate) fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suffix_of_any_segment_selects_the_format() {
        let parse = |path: &str, accept: &str| Request::parse("GET", path, accept).unwrap();
        let request = parse("/restcomm/2012-04-24/Accounts/AC1/Calls.json", "*/*");
        assert_eq!(request.segments, ["Accounts", "AC1", "Calls"]);
        assert_eq!((request.base, request.format), (Base::Restcomm, Format::Json));
        let request = parse("/2010-04-01/Accounts/AC1/Recordings.json/RE1", "");
        assert_eq!((request.segments[3].as_str(), request.format), ("RE1", Format::Json));
        assert_eq!(parse("/2010-04-01/Accounts", "text/html, application/json").format, Format::Json);
        assert_eq!(parse("/2010-04-01/Accounts.xml", "application/json").format, Format::Xml);
        assert_eq!(parse("/2010-04-01/Accounts/AC1/Recordings/RE1.wav", "").format, Format::Wav);
        // Applications append `.mp3` to a RecordingUrl, which has a suffix here.
        let request = parse("/2010-04-01/Accounts/AC1/Recordings/RE1.wav.mp3", "");
        assert_eq!((request.segments[3].as_str(), request.format), ("RE1", Format::Mp3));
        assert!(Request::parse("GET", "/2010-04-01", "").is_none());
        assert!(Request::parse("GET", "/2010-04-01x/Accounts", "").is_none());
        assert!(Request::parse("GET", "/elsewhere", "").is_none());
        let deep = |count: usize| Request::parse("GET", &format!("/v1{}", "/a".repeat(count)), "");
        assert!(deep(limits::MAX_SEGMENTS).is_some() && deep(limits::MAX_SEGMENTS + 1).is_none());
    }

    #[test]
    fn forms_are_read_and_bounded() {
        let mut request = Request::parse("GET", "/2010-04-01/Accounts", "").unwrap();
        request.add_form("StartTime%3E=2026-11-21&Body=a+b%2B%C3%A4&Flag&").unwrap();
        let expected = [("StartTime>", "2026-11-21"), ("Body", "a b+ä"), ("Flag", "")];
        let found: Vec<_> = request.parameters.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, expected);
        for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert_eq!(request.add_form(wrong).unwrap_err().status, 400, "{wrong}");
        }
        assert!(request.add_form(&"a=1&".repeat(limits::MAX_PARAMETERS)).is_err());
    }
}
