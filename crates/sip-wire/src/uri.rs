//! URIs: sip, sips (RFC 3261 §19.1) and tel (RFC 3966).

use super::params::Params;
use super::scan::{eq_ignore_case, parse_number, position, position_of_two, trim};

/// The scheme of a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `sip:` (RFC 3261 §19.1).
    Sip,
    /// `sips:`: TLS on each hop (RFC 3261 §26.2.2).
    Sips,
    /// `tel:` (RFC 3966).
    Tel,
    /// An absolute URI of a scheme we do not route by.
    Other,
}

/// A URI over the bytes it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// The whole URI as written.
    pub raw: &'a [u8],
    /// The scheme; it decides which other parts there are.
    pub scheme: Scheme,
    /// As written, escapes and all; for tel the number. `None` when there is no user part.
    pub user: Option<&'a [u8]>,
    /// The password after the user part, deprecated (RFC 3261 §19.1.1).
    pub password: Option<&'a [u8]>,
    /// IPv6 with its brackets; empty for tel and others.
    pub host: &'a [u8],
    /// The port; `None`: the default of the transport, or NAPTR and SRV decide.
    pub port: Option<u16>,
    /// The URI parameters, between the host and `?`.
    pub params: Params<'a>,
    /// After `?`, as written.
    pub headers: &'a [u8],
}

/// The reason why a URI is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriError {
    /// No scheme, or bytes that cannot stand in a URI.
    Malformed,
    /// The host is neither a name nor an address.
    BadHost,
    /// The port is not a number up to 65535.
    BadPort,
    /// A `%` without two hexadecimal digits.
    BadEscape,
}

impl<'a> Uri<'a> {
    /// Parses a URI; absolute URIs of other schemes are accepted as [`Scheme::Other`].
    pub fn parse(raw: &'a [u8]) -> Result<Uri<'a>, UriError> {
        let marks = Marks::of(raw);
        if marks.has(FORBIDDEN) {
            return Err(UriError::Malformed);
        }
        // Nearly all URIs begin so.
        if let Some(rest) = raw.strip_prefix(b"sip:") {
            return Uri::parse_sip(raw, Scheme::Sip, rest, &marks);
        }
        let colon = raw.iter().position(|&byte| byte == b':').ok_or(UriError::Malformed)?;
        let (scheme, rest) = (&raw[..colon], &raw[colon + 1..]);
        if eq_ignore_case(scheme, "sip") {
            Uri::parse_sip(raw, Scheme::Sip, rest, &marks)
        } else if eq_ignore_case(scheme, "sips") {
            Uri::parse_sip(raw, Scheme::Sips, rest, &marks)
        } else if eq_ignore_case(scheme, "tel") {
            Ok(Uri::parse_tel(raw, rest))
        } else if is_scheme(scheme) {
            Ok(Uri { raw, scheme: Scheme::Other, ..EMPTY })
        } else {
            Err(UriError::Malformed)
        }
    }

    fn parse_sip(raw: &'a [u8], scheme: Scheme, rest: &'a [u8], marks: &Marks) -> Result<Uri<'a>, UriError> {
        let (userinfo, hostpart) = if marks.has(AT) { split_userinfo(rest)? } else { (None, rest) };
        let (hostpart, headers) =
            if marks.has(QUESTION) { split_at_byte(hostpart, b'?') } else { (hostpart, &b""[..]) };
        let (hostport, params) =
            if marks.has(SEMICOLON) { split_at_byte(hostpart, b';') } else { (hostpart, &b""[..]) };
        let (host, port) = host_and_port(hostport)?;
        let (user, password) = match userinfo.map(|info| split_at_byte(info, b':')) {
            Some((user, password)) if !password.is_empty() => (Some(user), Some(password)),
            Some((user, _)) => (Some(user), None),
            None => (None, None),
        };
        if marks.has(PERCENT) && !escapes_are_whole(rest) {
            return Err(UriError::BadEscape);
        }
        Ok(Uri { raw, scheme, user, password, host, port, params: Params(params), headers })
    }

    fn parse_tel(raw: &'a [u8], rest: &'a [u8]) -> Uri<'a> {
        let (number, params) = split_at_byte(rest, b';');
        Uri { raw, scheme: Scheme::Tel, user: Some(number), params: Params(params), ..EMPTY }
    }

    /// The user part with `%xx` undone, for looking it up. `None` when that is not UTF-8 or holds control
    /// characters: no user has such a name (escnull of RFC 4475 §3.1.1.4). Not for writing into a message.
    pub fn user_decoded(&self) -> Option<String> {
        let user = self.user?;
        String::from_utf8(unescape(user)).ok().filter(|text| !text.chars().any(char::is_control))
    }

    /// The host in lower case.
    pub fn host_lower(&self) -> String {
        String::from_utf8(self.host.to_ascii_lowercase()).expect("a host is ASCII, or the URI has none")
    }

    /// The host as an address, when it is one.
    pub fn host_ip(&self) -> Option<std::net::IpAddr> {
        parse_ip(self.host)
    }

    /// `lr`: the element this URI names does loose routing (RFC 3261 §19.1.1).
    pub fn is_loose_router(&self) -> bool {
        self.params.has("lr")
    }

    /// True for `sip:` and `sips:`.
    pub fn is_sip(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
    }
}

/// The kinds of bytes that matter in a URI: those that may not stand there, and those that separate its parts.
const FORBIDDEN: u8 = 1;
const AT: u8 = 2;
const SEMICOLON: u8 = 4;
const QUESTION: u8 = 8;
const PERCENT: u8 = 16;

static MARK: [u8; 256] = {
    let mut marks = [0; 256];
    let mut byte = 0;
    while byte <= b' ' as usize {
        marks[byte] = FORBIDDEN;
        byte += 1;
    }
    marks[b'<' as usize] = FORBIDDEN;
    marks[b'>' as usize] = FORBIDDEN;
    marks[b'"' as usize] = FORBIDDEN;
    marks[0x7f] = FORBIDDEN;
    marks[b'@' as usize] = AT;
    marks[b';' as usize] = SEMICOLON;
    marks[b'?' as usize] = QUESTION;
    marks[b'%' as usize] = PERCENT;
    marks
};

/// The kinds of bytes in a URI, found in one pass: most URIs are short and have few of them, so that looking for each costs more.
struct Marks(u8);

impl Marks {
    fn of(raw: &[u8]) -> Marks {
        Marks(raw.iter().fold(0, |found, &byte| found | MARK[usize::from(byte)]))
    }

    fn has(&self, mark: u8) -> bool {
        self.0 & mark != 0
    }
}

const EMPTY: Uri<'static> = Uri {
    raw: b"",
    scheme: Scheme::Other,
    user: None,
    password: None,
    host: b"",
    port: None,
    params: Params(b""),
    headers: b"",
};

/// An IPv4 address, or an IPv6 one with or without brackets.
pub fn parse_ip(host: &[u8]) -> Option<std::net::IpAddr> {
    if let Some(address) = parse_ipv4(host) {
        return Some(address.into());
    }
    let inner = match host {
        [b'[', inner @ .., b']'] => inner,
        _ => host,
    };
    position(b':', inner)?;
    parse_ipv6(inner).map(Into::into)
}

/// Four numbers up to 255 without leading zeros, as the standard library reads them, at a third of its instructions: a call has
/// some twenty addresses looked at.
fn parse_ipv4(text: &[u8]) -> Option<std::net::Ipv4Addr> {
    // A name mostly shows by its first letter.
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    let (mut address, mut dots, mut octet) = (0u32, 0, None);
    for &byte in text {
        octet = match (byte, octet) {
            (b'0'..=b'9', None) => Some(u32::from(byte - b'0')),
            (b'0'..=b'9', Some(value @ 1..=25)) => Some(value * 10 + u32::from(byte - b'0')),
            (b'.', Some(value @ ..=255)) => {
                address = address << 8 | value;
                dots += 1;
                None
            }
            _ => return None,
        };
    }
    let last = octet.filter(|&value| dots == 3 && value <= 255)?;
    Some((address << 8 | last).into())
}

/// COMPAT(RFC 3261 grammar): its IPv6address allows `:::` before an IPv4 part; RFC 5118 §4.10 asks to read
/// it as `::`.
fn parse_ipv6(text: &[u8]) -> Option<std::net::Ipv6Addr> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().or_else(|| match text.split_once(":::") {
        Some((before, v4)) if v4.contains('.') => format!("{before}::{v4}").parse().ok(),
        _ => None,
    })
}

/// A user part with everything escaped that may not stand there as it is (RFC 3261 §25.1, `user`).
pub fn escape_user(user: &str) -> String {
    let mut out = String::with_capacity(user.len());
    for byte in user.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()&=+$,;?/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Undoes `%xx`, once (RFC 3986 §2.4); other bytes stay as they are.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    if !text.contains(&b'%') {
        return text.to_vec();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match escape_at(&text[at..]) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// The byte of the escape (`%20`) at the beginning of a text; `None`: there is none, or its digits are wrong.
pub(crate) fn escape_at(text: &[u8]) -> Option<u8> {
    match text {
        [b'%', high, low, ..] => {
            let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
            Some(digit(*high)? * 16 + digit(*low)?)
        }
        _ => None,
    }
}

fn escapes_are_whole(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).all(|at| escape_at(&text[at..]).is_some())
}

/// The user part may hold ';' and '?', so '@' is looked for first (RFC 4475 §3.1.1.9). A second one before
/// the URI's headers would have two readers disagree on the host: malformed (RFC 3261 §25.1 has none).
fn split_userinfo(rest: &[u8]) -> Result<(Option<&[u8]>, &[u8]), UriError> {
    let Some(at) = position(b'@', rest) else { return Ok((None, rest)) };
    let hostpart = &rest[at + 1..];
    match position_of_two(b'@', b'?', hostpart) {
        Some(second) if hostpart[second] == b'@' => Err(UriError::Malformed),
        _ => Ok((Some(&rest[..at]), hostpart)),
    }
}

fn split_at_byte(bytes: &[u8], byte: u8) -> (&[u8], &[u8]) {
    match position(byte, bytes) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, b""),
    }
}

/// The parts of `host[:port]`, IPv6 in brackets.
pub(crate) fn host_and_port(text: &[u8]) -> Result<(&[u8], Option<u16>), UriError> {
    // Nearly all are a name or an IPv4 address, with or without a port: one pass finds out.
    let end = text.iter().position(|&byte| !HOST_BYTE[usize::from(byte)]).unwrap_or(text.len());
    match &text[end..] {
        [] if end > 0 => return Ok((text, None)),
        [b':', digits @ ..] if end > 0 && digits.len() <= 5 => {
            if let Some(port) = parse_number(digits).and_then(as_port) {
                return Ok((&text[..end], Some(port)));
            }
        }
        _ => {}
    }
    let (host, port) = split_host_port(text).ok_or(UriError::BadPort)?;
    if is_host(host) { Ok((host, port)) } else { Err(UriError::BadHost) }
}

/// Splits `host[:port]`, IPv6 in brackets. `None` for a port that is none.
fn split_host_port(text: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let search_from = if text.first() == Some(&b'[') { memchr::memchr(b']', text)? } else { 0 };
    let Some(colon) = position(b':', &text[search_from..]).map(|at| at + search_from) else {
        return Some((text, None));
    };
    let port = as_port(parse_number(trim(&text[colon + 1..]))?)?;
    Some((trim(&text[..colon]), Some(port)))
}

fn as_port(number: u32) -> Option<u16> {
    u16::try_from(number).ok().filter(|&port| port > 0)
}

static HOST_BYTE: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        bytes[byte] = b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        byte += 1;
    }
    bytes
};

pub(crate) fn is_host(host: &[u8]) -> bool {
    match host {
        [] => false,
        [b'[', inner @ .., b']'] => parse_ipv6(inner).is_some(),
        // '_' is not a hostname's, but Windows and Docker names have it. COMPAT(docker).
        _ => host.iter().all(|&b| HOST_BYTE[usize::from(b)]),
    }
}

fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn one_pass_reads_host_and_port_as_two_do(text in "[a-c1.:_\\[\\] \u{80}-]{0,8}(:[0-9 ]{0,6})?") {
            let split = split_host_port(text.as_bytes()).ok_or(UriError::BadPort);
            let in_two = split.and_then(|(host, port)| {
                if is_host(host) { Ok((host, port)) } else { Err(UriError::BadHost) }
            });
            prop_assert_eq!(host_and_port(text.as_bytes()), in_two);
        }
    }
}
