//! When two URIs are the same (RFC 3261 §19.1.4, RFC 3966 §4), the one text of an address of record, and the text of a URI as
//! a Request-URI.

use std::borrow::Cow;

use super::params::{Param, Params};
use super::scan::eq_ignore_case;
use super::uri::{Scheme, Uri, escape_at, unescape};
use crate::limits::URI_PARAMS;

/// Parameters that must stand in both URIs or in neither (RFC 3261 §19.1.4).
const SIGNIFICANT: [&str; 5] = ["user", "ttl", "method", "maddr", "transport"];

impl Uri<'_> {
    /// RFC 3261 §19.1.4 for sip and sips, RFC 3966 §4 for tel, byte for byte for others.
    pub fn equals(&self, other: &Uri<'_>) -> bool {
        if self.scheme != other.scheme {
            return false;
        }
        if !is_comparable(self) || !is_comparable(other) {
            return self.raw == other.raw;
        }
        match self.scheme {
            Scheme::Sip | Scheme::Sips => self.equals_sip(other),
            Scheme::Tel => self.number() == other.number() && all_params_match(self.params, other.params),
            Scheme::Other => self.raw == other.raw,
        }
    }

    fn equals_sip(&self, other: &Uri<'_>) -> bool {
        same_option(self.user, other.user, same_escaped)
            && same_option(self.password, other.password, same_escaped)
            && self.port == other.port
            && same_host(self, other)
            && shared_params_match(self.params, other.params)
            && shared_params_match(other.params, self.params)
            && headers_match(self.headers, other.headers)
            && headers_match(other.headers, self.headers)
    }

    /// The canonical text of the address of record: user, `@`, host in lower case. Escapes in the user part
    /// are undone where that is safe; white space, controls, `@`, `:`, `%`, quotes and brackets stay escaped,
    /// so that `sip:` before it is the same address again. `None` without a user, or for other schemes.
    pub fn aor(&self) -> Option<String> {
        let user = self.user.filter(|user| !user.is_empty() && self.is_sip())?;
        let mut out = String::with_capacity(user.len() + 1 + self.host.len());
        push_user(&mut out, user);
        out.push('@');
        out.extend(self.host.iter().map(|b| char::from(b.to_ascii_lowercase())));
        Some(out)
    }

    /// The telephone number of a tel URI, or of a sip URI with `user=phone`: visual separators dropped
    /// (RFC 3966 §3), hexadecimal digits in lower case. `None` when it is not a number.
    pub fn number(&self) -> Option<String> {
        let is_phone = || self.params.get("user").is_some_and(|value| eq_ignore_case(value, "phone"));
        if self.scheme != Scheme::Tel && !(self.is_sip() && is_phone()) {
            return None;
        }
        let text = unescape(self.user?);
        // A telephone-subscriber of a sip URI has its tel parameters in the user part (RFC 3261 §19.1.6).
        let digits = text.split(|&b| b == b';').next()?;
        normal_number(digits)
    }

    /// A parameter of a telephone number (`phone-context`, `ext`, `isub`), wherever the scheme puts it.
    pub fn number_param(&self, name: &str) -> Option<&[u8]> {
        match self.scheme {
            Scheme::Tel => self.params.get(name),
            _ => {
                let user = self.user?;
                let at = memchr::memchr(b';', user)?;
                Params(&user[at + 1..]).get(name)
            }
        }
    }
}

fn normal_number(text: &[u8]) -> Option<String> {
    let (is_global, digits) = match text {
        [b'+', digits @ ..] => (true, digits),
        _ => (false, text),
    };
    let mut out = String::with_capacity(text.len());
    if is_global {
        out.push('+');
    }
    for &byte in digits {
        match byte {
            b'-' | b'.' | b'(' | b')' => {}
            b'0'..=b'9' => out.push(char::from(byte)),
            b'a'..=b'f' | b'A'..=b'F' | b'*' | b'#' if !is_global => {
                out.push(char::from(byte.to_ascii_lowercase()));
            }
            _ => return None,
        }
    }
    (out.len() > usize::from(is_global)).then_some(out)
}

fn push_user(out: &mut String, user: &[u8]) {
    for chunk in unescape(user).utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_safe_in_user(c) {
                out.push(c);
            } else {
                let mut buffer = [0; 4];
                push_escaped(out, c.encode_utf8(&mut buffer).as_bytes());
            }
        }
        push_escaped(out, chunk.invalid());
    }
}

fn is_safe_in_user(c: char) -> bool {
    !c.is_control()
        && !c.is_whitespace()
        && !matches!(c, '@' | ':' | '%' | '"' | '<' | '>' | '\\' | '[' | ']' | '{' | '}' | '|' | '^' | '`')
}

fn push_escaped(out: &mut String, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        out.push('%');
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

/// Two IP addresses by value, names without regard to case; a name is never the same as an address.
fn same_host(a: &Uri<'_>, b: &Uri<'_>) -> bool {
    match (a.host_ip(), b.host_ip()) {
        (Some(a), Some(b)) => a == b,
        _ => a.host.eq_ignore_ascii_case(b.host),
    }
}

fn same_option(a: Option<&[u8]>, b: Option<&[u8]>, same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => same(a, b),
        _ => false,
    }
}

/// RFC 3261 §19.1.4: a character outside the reserved set is the same as its `%xx`.
fn same_escaped(a: &[u8], b: &[u8]) -> bool {
    a == b || Unescaped(a).eq(Unescaped(b))
}

fn same_escaped_ignoring_case(a: &[u8], b: &[u8]) -> bool {
    let lower = |(byte, was_escaped): (u8, bool)| (byte.to_ascii_lowercase(), was_escaped);
    a.eq_ignore_ascii_case(b) || Unescaped(a).map(lower).eq(Unescaped(b).map(lower))
}

/// Bytes with escapes undone, and whether the byte is a reserved one that was escaped: those differ from
/// themselves unescaped.
struct Unescaped<'a>(&'a [u8]);

impl Iterator for Unescaped<'_> {
    type Item = (u8, bool);

    fn next(&mut self) -> Option<(u8, bool)> {
        if let Some(byte) = escape_at(self.0) {
            self.0 = &self.0[3..];
            let is_unreserved = byte.is_ascii_alphanumeric()
                || matches!(byte, b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'\'' | b'(' | b')');
            return Some((byte, !is_unreserved));
        }
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((byte, false))
    }
}

/// Each parameter of `a` against that of `b`, where both have it or it must be in both.
fn shared_params_match(a: Params<'_>, b: Params<'_>) -> bool {
    params_match(a, b, |name| !SIGNIFICANT.iter().any(|known| eq_ignore_case(name, known)))
}

/// RFC 3966 §4: the same parameters in any order, compared without regard to case.
fn all_params_match(a: Params<'_>, b: Params<'_>) -> bool {
    params_match(a, b, |_| false) && params_match(b, a, |_| false)
}

/// A name that stands twice, which RFC 3261 §19.1.1 forbids, counts as it stands first.
fn params_match(a: Params<'_>, b: Params<'_>, may_miss: impl Fn(&[u8]) -> bool) -> bool {
    let value_in = |params, name| find_param(params, name).map(|param| param.value.unwrap_or_default());
    a.iter().all(|Param { name, .. }| match (value_in(a, name), value_in(b, name)) {
        (Some(value), Some(other)) => same_escaped_ignoring_case(value, other),
        _ => may_miss(name),
    })
}

/// Comparing is quadratic in these, so longer lists, which clients do not send, are compared as they stand.
fn is_comparable(uri: &Uri<'_>) -> bool {
    uri.params.iter().take(URI_PARAMS + 1).count() <= URI_PARAMS
        && split_headers(uri.headers).take(URI_PARAMS + 1).count() <= URI_PARAMS
}

fn find_param<'a>(params: Params<'a>, name: &[u8]) -> Option<Param<'a>> {
    params.iter().find(|param| same_escaped_ignoring_case(param.name, name))
}

/// Each header of `a` stands in `b` with the same value: headers are never ignored.
fn headers_match(a: &[u8], b: &[u8]) -> bool {
    split_headers(a).all(|(name, value)| {
        split_headers(b).any(|(other, other_value)| {
            same_escaped_ignoring_case(name, other) && same_escaped(value, other_value)
        })
    })
}

fn split_headers(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&b| b == b'&').filter(|piece| !piece.is_empty()).map(|piece| {
        let at = memchr::memchr(b'=', piece).unwrap_or(piece.len());
        (&piece[..at], piece.get(at + 1..).unwrap_or_default())
    })
}

/// The URI without the parts that a Request-URI may not have: its headers and its method (RFC 3261 §19.1.1, table 1).
pub fn request_uri(uri: &[u8]) -> Cow<'_, [u8]> {
    let Ok(Uri { params, headers, .. }) = Uri::parse(uri) else { return Cow::Borrowed(uri) };
    let end = if headers.is_empty() { uri.len() } else { uri.len() - headers.len() - 1 };
    let text = uri[..end].strip_suffix(b"?").unwrap_or(&uri[..end]);
    if !params.has("method") {
        return Cow::Borrowed(text);
    }
    let mut text = text[..text.len() - params.0.len() - 1].to_vec();
    for param in params.iter().filter(|param| !param.name.eq_ignore_ascii_case(b"method")) {
        text.push(b';');
        text.extend_from_slice(param.name);
        if let Some(value) = param.value {
            text.push(b'=');
            text.extend_from_slice(value);
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> Uri<'_> {
        Uri::parse(text.as_bytes()).unwrap()
    }

    /// The lists of RFC 3261 §19.1.4 and RFC 3966 §4, and ours.
    #[test]
    fn equal_as_the_rfcs_have_it() {
        let pairs = [
            ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;newparam=5"),
            (
                "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
                "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
            ),
            (
                "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
                "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
            ),
            ("sip:a@[2001:db8::1]", "sip:a@[2001:DB8:0::1]"),
            ("tel:+1-201-555-0123", "tel:+12015550123"),
            ("sip:twice@a;x=1;x=2", "sip:twice@a;x=1"),
            ("tel:7042;phone-context=Example.com;ext=1", "tel:70-42;ext=1;phone-context=example.com"),
        ];
        for (a, b) in pairs {
            assert!(uri(a).equals(&uri(b)) && uri(b).equals(&uri(a)), "{a} = {b}");
        }
    }

    #[test]
    fn different_as_the_rfcs_have_it() {
        let pairs = [
            ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
            ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
            ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
            ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
            ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
            ("sip:bob@biloxi.com", "sips:bob@biloxi.com"),
            ("sip:bob@biloxi.com", "sip:biloxi.com"),
            ("sip:a%3Bb@c", "sip:a;b@c"),
            ("tel:+12015550123", "tel:12015550123"),
            ("tel:1;phone-context=a.test", "tel:1"),
        ];
        for (a, b) in pairs {
            assert!(!uri(a).equals(&uri(b)) && !uri(b).equals(&uri(a)), "{a} != {b}");
        }
    }

    #[test]
    fn too_many_parameters_are_compared_as_they_stand() {
        let many = |last: &str| format!("sip:a@b{};{last}", ";a".repeat(URI_PARAMS));
        assert!(uri(&many("x")).equals(&uri(&many("x"))));
        assert!(!uri(&many("x")).equals(&uri(&many("X"))));
    }

    #[test]
    fn an_aor_has_one_text() {
        let texts = [
            ("sip:%61lice:secret@Example.COM:5070;transport=tcp?x=y", Some("alice@example.com")),
            ("sips:J%C3%BCrgen@example.com", Some("Jürgen@example.com")),
            ("sip:a%40b@example.com", Some("a%40b@example.com")),
            ("sip:a%0d%0aTo:x@example.com", Some("a%0D%0ATo@example.com")),
            ("sip:%00%ff%25@example.com", Some("%00%FF%25@example.com")),
            ("sip:a@[2001:DB8::1]", Some("a@[2001:db8::1]")),
            ("sip:example.com", None),
            ("sip:@example.com", None),
            ("tel:+1201", None),
            ("urn:service:sos", None),
        ];
        for (text, aor) in texts {
            assert_eq!(uri(text).aor().as_deref(), aor, "{text}");
        }
    }

    #[test]
    fn a_number_has_no_separators() {
        let numbers = [
            ("tel:+1-(201).555-0123", Some("+12015550123")),
            ("tel:7042;phone-context=example.com", Some("7042")),
            ("tel:*21%2355", Some("*21#55")),
            ("sip:+1-201-555-0123;isub=4@gw.test;user=phone", Some("+12015550123")),
            ("sip:+12015550123@gw.test", None),
            ("tel:+", None),
            ("tel:+12x", None),
        ];
        for (text, number) in numbers {
            assert_eq!(uri(text).number().as_deref(), number, "{text}");
        }
        let local = uri("tel:7042;phone-context=example.com");
        assert_eq!(local.number_param("phone-context"), Some(&b"example.com"[..]));
        let sip = uri("sip:+1201;isub=4@gw.test;user=phone");
        assert_eq!(sip.number_param("isub"), Some(&b"4"[..]));
    }
}
