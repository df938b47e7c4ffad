//! Addresses (RFC 7622's form, prepared as RFC 6122 says: so do all servers, and stored addresses must stay equal). Domains
//! have their letters, however they are written: A-labels and U-labels are one address ([`domain`]).

use std::borrow::Cow;
use std::fmt;

use crate::domain;
use crate::limits::JID_PART;

/// `local@domain/resource`, prepared. Equal addresses are equal bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Jid {
    text: Box<str>,
    /// Where the `@` is; none, when there is no local part.
    at: Option<u16>,
    /// Where the `/` is.
    slash: Option<u16>,
}

/// A [`Jid`] without a resource.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bare(Jid);

/// Not an address; the stanza error is `jid-malformed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JidMalformed;

impl fmt::Display for JidMalformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an address: expected user@domain/resource")
    }
}

impl std::error::Error for JidMalformed {}

impl Jid {
    /// # Errors
    /// When a part is empty, too long or has characters that it may not have.
    pub fn parse(text: &str) -> Result<Jid, JidMalformed> {
        let (bare, resource) = match text.split_once('/') {
            Some((bare, resource)) => (bare, Some(resource)),
            None => (text, None),
        };
        let (local, domain) = match bare.split_once('@') {
            Some((local, domain)) => (Some(local), domain),
            None => (None, bare),
        };
        let jid = JidParts::prepare(local, domain, resource)?;
        // Nearly always it is prepared already, and one copy of it is all that is needed.
        if jid.are_as_given(text) {
            let place = |at: usize| u16::try_from(at).ok();
            let at = local.and_then(|local| place(local.len()));
            let slash = resource.and_then(|_| place(bare.len()));
            return Ok(Jid { text: text.into(), at, slash });
        }
        Ok(jid.join())
    }

    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn new(local: Option<&str>, domain: &str, resource: Option<&str>) -> Result<Jid, JidMalformed> {
        Ok(JidParts::prepare(local, domain, resource)?.join())
    }

    fn of_parts(local: Option<&str>, domain: &str, resource: Option<&str>) -> Jid {
        let mut text = String::with_capacity(domain.len() + 16);
        // Parts are at most 1,023 bytes each.
        let place = |text: &String| u16::try_from(text.len()).ok();
        let mut at = None;
        if let Some(local) = local {
            text.push_str(local);
            at = place(&text);
            text.push('@');
        }
        text.push_str(domain);
        let mut slash = None;
        if let Some(resource) = resource {
            slash = place(&text);
            text.push('/');
            text.push_str(resource);
        }
        Jid { text: text.into(), at, slash }
    }

    /// The part before `@`.
    pub fn local(&self) -> Option<&str> {
        self.at.map(|at| &self.text[..usize::from(at)])
    }

    /// The domain.
    pub fn domain(&self) -> &str {
        let start = self.at.map_or(0, |at| usize::from(at) + 1);
        &self.text[start..self.bare_len()]
    }

    /// The part behind `/`.
    pub fn resource(&self) -> Option<&str> {
        self.slash.map(|slash| &self.text[usize::from(slash) + 1..])
    }

    fn bare_len(&self) -> usize {
        self.slash.map_or(self.text.len(), usize::from)
    }

    /// `local@domain`, as text.
    pub fn bare_str(&self) -> &str {
        &self.text[..self.bare_len()]
    }

    /// The address without its resource.
    pub fn bare(&self) -> Bare {
        Bare(Jid { text: self.bare_str().into(), at: self.at, slash: None })
    }

    /// True without a resource.
    pub fn is_bare(&self) -> bool {
        self.slash.is_none()
    }

    /// The address as text, prepared (RFC 7622).
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// # Errors
    /// When the resource is none.
    pub fn with_resource(&self, resource: &str) -> Result<Jid, JidMalformed> {
        self.bare().with_resource(resource)
    }
}

impl Bare {
    /// # Errors
    /// As [`Jid::parse`], or when there is a resource.
    pub fn parse(text: &str) -> Result<Bare, JidMalformed> {
        let jid = Jid::parse(text)?;
        if jid.is_bare() { Ok(Bare(jid)) } else { Err(JidMalformed) }
    }

    /// # Errors
    /// As [`Jid::parse`].
    pub fn new(local: Option<&str>, domain: &str) -> Result<Bare, JidMalformed> {
        Ok(Bare(Jid::new(local, domain, None)?))
    }

    /// # Errors
    /// When the resource is none.
    pub fn with_resource(&self, resource: &str) -> Result<Jid, JidMalformed> {
        let resource = part(prepare_resource(resource)?)?;
        Ok(Jid::of_parts(self.local(), self.domain(), Some(&resource)))
    }

    /// The part before `@`.
    pub fn local(&self) -> Option<&str> {
        self.0.local()
    }

    /// The domain.
    pub fn domain(&self) -> &str {
        self.0.domain()
    }

    /// The address as text, prepared (RFC 7622).
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The same address as a [`Jid`].
    pub fn into_jid(self) -> Jid {
        self.0
    }

    /// The same address as a [`Jid`].
    pub fn as_jid(&self) -> &Jid {
        &self.0
    }
}

impl fmt::Display for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Jid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jid({})", self.text)
    }
}

impl fmt::Display for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bare({})", self.as_str())
    }
}

/// The parts of an address, prepared.
struct JidParts<'a> {
    local: Option<Cow<'a, str>>,
    domain: Cow<'a, str>,
    resource: Option<Cow<'a, str>>,
}

impl<'a> JidParts<'a> {
    fn prepare(
        local: Option<&'a str>,
        domain: &'a str,
        resource: Option<&'a str>,
    ) -> Result<JidParts<'a>, JidMalformed> {
        Ok(JidParts {
            local: local.map(|local| part(prepare_local(local)?)).transpose()?,
            domain: part(prepare_domain(domain)?)?,
            resource: resource.map(|resource| part(prepare_resource(resource)?)).transpose()?,
        })
    }

    /// True if they are that text's own, all of it.
    fn are_as_given(&self, text: &str) -> bool {
        let with_mark = |part: &Option<Cow<'_, str>>| match part {
            None => Some(0),
            Some(Cow::Borrowed(part)) => Some(part.len() + 1),
            Some(Cow::Owned(_)) => None,
        };
        let (Some(local), Some(resource)) = (with_mark(&self.local), with_mark(&self.resource)) else {
            return false;
        };
        matches!(self.domain, Cow::Borrowed(_)) && local + self.domain.len() + resource == text.len()
    }

    fn join(&self) -> Jid {
        Jid::of_parts(self.local.as_deref(), &self.domain, self.resource.as_deref())
    }
}

fn part(text: Cow<'_, str>) -> Result<Cow<'_, str>, JidMalformed> {
    if text.is_empty() || text.len() > JID_PART { Err(JidMalformed) } else { Ok(text) }
}

fn prepare_local(text: &str) -> Result<Cow<'_, str>, JidMalformed> {
    // Nearly every address.
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_' | b'+')
    };
    if text.bytes().all(plain) {
        return Ok(Cow::Borrowed(text));
    }
    stringprep::nodeprep(text).map_err(|_| JidMalformed)
}

fn prepare_domain(text: &str) -> Result<Cow<'_, str>, JidMalformed> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-');
    if text.bytes().all(plain) && !text.contains("xn--") {
        return if text.split('.').all(|label| !label.is_empty() && label.len() <= 63) {
            Ok(Cow::Borrowed(text))
        } else {
            Err(JidMalformed)
        };
    }
    if let Some(literal) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        let address: std::net::Ipv6Addr = literal.parse().map_err(|_| JidMalformed)?;
        return Ok(Cow::Owned(format!("[{address}]")));
    }
    let prepared = match domain::is_international(text) {
        true => domain::to_unicode(text).ok_or(JidMalformed)?,
        false => stringprep::nameprep(text).map_err(|_| JidMalformed)?,
    };
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "@/\"&'<>:".contains(c);
    if prepared.contains(forbidden) || prepared.split('.').any(str::is_empty) {
        return Err(JidMalformed);
    }
    Ok(prepared)
}

fn prepare_resource(text: &str) -> Result<Cow<'_, str>, JidMalformed> {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Ok(Cow::Borrowed(text));
    }
    stringprep::resourceprep(text).map_err(|_| JidMalformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_found_and_prepared() {
        let jid = Jid::parse("Alice@Example.ORG./Café Phone/2").unwrap();
        assert_eq!(jid.as_str(), "alice@example.org/Café Phone/2");
        assert_eq!(
            (jid.local(), jid.domain(), jid.resource()),
            (Some("alice"), "example.org", Some("Café Phone/2"))
        );
        assert_eq!(jid.bare().as_str(), "alice@example.org");
        assert_eq!(Jid::parse("example.org").unwrap().local(), None);
        assert_eq!(Jid::parse("example.org/x@y").unwrap().resource(), Some("x@y"));
        assert_eq!(Jid::parse("ΣΊΣΥΦΟΣ@example.org").unwrap().local(), Some("σίσυφοσ"));
        assert_eq!(Jid::parse("[::1]").unwrap().domain(), "[::1]");
        for text in ["a@b", "b", "a@b/c", "b/c@d/e", "a@b./c", "A@b/c", "a@b/é", "[0:0::1]/x"] {
            let jid = Jid::parse(text).unwrap();
            let again = Jid::new(jid.local(), jid.domain(), jid.resource()).unwrap();
            assert_eq!((&jid, jid.is_bare()), (&again, !text.contains('/')), "{text}");
        }
    }

    #[test]
    fn both_kinds_of_labels_are_one_address() {
        let jid = Jid::parse("alice@bücher.example/desk").unwrap();
        for other in [
            "alice@xn--bcher-kva.example/desk",
            "alice@XN--BCHER-KVA.Example/desk",
            "alice@BÜCHER.example./desk",
            "alice@bu\u{308}cher.example/desk",
            "alice@bücher\u{3002}example/desk",
        ] {
            assert_eq!(Jid::parse(other).as_ref(), Ok(&jid), "{other}");
        }
        assert_eq!(jid.domain(), "bücher.example", "as RFC 7622 §3.2 keeps it");
        assert_eq!(Jid::parse("a.xn--b"), Err(JidMalformed));
        for wrong in ["x@xn--.test", "x@xn--example-.test", "x@xn--99999999.test", "x@-ü.test", "x@ü..test"]
        {
            assert_eq!(Jid::parse(wrong), Err(JidMalformed), "{wrong}");
        }
        // Not at the start of a label it is nothing.
        assert_eq!(Jid::parse("axn--b.test").unwrap().domain(), "axn--b.test");
    }

    #[test]
    fn invalid_addresses_are_refused() {
        let long = "a".repeat(JID_PART + 1);
        for wrong in [
            "",
            "@example.org",
            "alice@",
            "a@b@c",
            "alice@example.org/",
            "al ice@example.org",
            "a\"b@example.org",
            "a@exa mple",
            "a@.org",
            "a@b..c",
            "a@[::1",
            "\u{1F600}\u{200E}@x/\u{0}",
            &long,
        ] {
            assert_eq!(Jid::parse(wrong), Err(JidMalformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_parsed_address_is_parsed_again_unchanged(text in "(a@xn--)?[a-zA-Z0-9éß@/. -]{0,20}") {
            if let Ok(jid) = Jid::parse(&text) {
                prop_assert_eq!(Jid::parse(jid.as_str()), Ok(jid));
            }
        }
    }
}
