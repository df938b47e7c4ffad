//! The domains that a certificate is for (RFC 6120 §13.7.1.2, RFC 6125): the names in its `subjectAltName`.
//!
//! The signature is not checked here; the code that makes a [`Certificate`] has verified its chain.

use crate::Jid;
use crate::domain::of_certificate;

/// 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// id-on-xmppAddr, 1.3.6.1.5.5.7.8.5.
const XMPP_ADDR: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08, 0x05];
/// id-on-dnsSRV, 1.3.6.1.5.5.7.8.7 (RFC 4985).
const DNS_SRV: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x08, 0x07];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// With letters, not Punycode.
    Dns(Box<str>),
    /// A domain, prepared.
    XmppAddr(Box<str>),
    /// Service and domain.
    Srv(Box<str>),
}

/// A peer's certificate that an authority of ours vouches for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    names: Vec<Name>,
}

impl Certificate {
    /// Parses X.509 in DER. A certificate without names of a known kind is for no domain.
    pub fn read(der: &[u8]) -> Certificate {
        let mut names = Vec::new();
        for general in alternative_names(der).unwrap_or_default() {
            names.extend(name(general));
        }
        Certificate { names }
    }

    /// True if one of the names matches the domain.
    pub fn is_for(&self, domain: &str) -> bool {
        self.names.iter().any(|name| match name {
            Name::Dns(pattern) => is_dns_of(pattern, domain),
            Name::XmppAddr(known) => **known == *domain,
            Name::Srv(known) => {
                known.strip_prefix("_xmpp-server.").is_some_and(|known| known.eq_ignore_ascii_case(domain))
            }
        })
    }
}

/// RFC 6125 §6.4.3: a star is one whole label, the leftmost.
fn is_dns_of(pattern: &str, domain: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => domain
            .split_once('.')
            .is_some_and(|(_, rest)| rest.contains('.') && rest.eq_ignore_ascii_case(parent)),
        None => pattern.eq_ignore_ascii_case(domain),
    }
}

/// Tag, content, and the rest.
fn value(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (length, rest) =
                rest.split_at_checked(long - 0x80).filter(|(length, _)| length.len() <= 4)?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// All values in a row.
fn values(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, content, rest) = value(bytes)?;
        bytes = rest;
        Some((tag, content))
    })
}

/// Each as tag and content.
fn alternative_names(der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let (_, certificate, _) = value(der)?;
    let (_, to_be_signed, _) = value(certificate)?;
    // [3], explicit.
    let (_, extensions) = values(to_be_signed).find(|(tag, _)| *tag == 0xa3)?;
    let (_, extensions, _) = value(extensions)?;
    for (_, extension) in values(extensions) {
        let (_, identifier, rest) = value(extension)?;
        if identifier == SUBJECT_ALT_NAME {
            let (_, octets) = values(rest).find(|(tag, _)| *tag == 0x04)?;
            let (_, names, _) = value(octets)?;
            return Some(values(names).collect());
        }
    }
    None
}

fn name((tag, content): (u8, &[u8])) -> Option<Name> {
    let text = |bytes| std::str::from_utf8(bytes).ok().map(Box::<str>::from);
    match tag {
        0x82 => Some(Name::Dns(of_certificate(&text(content)?))),
        0xa0 => {
            let (_, identifier, rest) = value(content)?;
            let (_, explicit, _) = value(rest)?;
            let (_, words, _) = value(explicit)?;
            match identifier {
                XMPP_ADDR => {
                    let jid = Jid::parse(std::str::from_utf8(words).ok()?).ok()?;
                    (jid.as_str() == jid.domain()).then(|| Name::XmppAddr(jid.domain().into()))
                }
                DNS_SRV => {
                    let name = text(words)?;
                    let (service, domain) = name.split_once('.')?;
                    Some(Name::Srv(format!("{service}.{}", of_certificate(domain)).into()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
impl Certificate {
    /// For tests of names.
    pub(crate) fn of_dns(name: &str) -> Certificate {
        Certificate { names: vec![Name::Dns(name.into())] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let mut bytes = vec![tag];
        match u8::try_from(content.len()) {
            Ok(short @ 0..0x80) => bytes.push(short),
            Ok(length) => bytes.extend([0x81, length]),
            Err(_) => {
                bytes.push(0x82);
                bytes.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
            }
        }
        bytes.extend(content);
        bytes
    }

    fn certificate(names: &[Vec<u8>]) -> Vec<u8> {
        let names = tlv(0x30, &names.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let octets = tlv(0x04, &[&names]);
        let critical = tlv(0x01, &[&[0xff]]);
        let extension = tlv(0x30, &[&tlv(0x06, &[SUBJECT_ALT_NAME]), &critical, &octets]);
        let extensions = tlv(0xa3, &[&tlv(0x30, &[&extension])]);
        let serial = tlv(0x02, &[&[1]]);
        tlv(0x30, &[&tlv(0x30, &[&serial, &extensions])])
    }

    fn other(identifier: &[u8], tag: u8, words: &str) -> Vec<u8> {
        tlv(0xa0, &[&tlv(0x06, &[identifier]), &tlv(0xa0, &[&tlv(tag, &[words.as_bytes()])])])
    }

    #[test]
    fn it_is_for_the_names_in_it() {
        let names = [
            tlv(0x82, &[b"Example.NET"]),
            tlv(0x82, &[b"*.example.org"]),
            tlv(0x82, &[b"xn--bcher-kva.example"]),
            other(XMPP_ADDR, 0x0c, "Im.Example.COM"),
            other(DNS_SRV, 0x16, "_xmpp-server.srv.example"),
            other(DNS_SRV, 0x16, "_xmpp-client.client.example"),
            tlv(0x87, &[&[127, 0, 0, 1]]),
        ];
        let read = Certificate::read(&certificate(&names));
        for domain in ["example.net", "a.example.org", "im.example.com", "srv.example", "bücher.example"] {
            assert!(read.is_for(domain), "{domain}: {read:?}");
        }
        for domain in ["a.b.example.org", "example.org", "example.com", "client.example", "net"] {
            assert!(!read.is_for(domain), "{domain}: {read:?}");
        }
        let star = Certificate::of_dns("*.org");
        assert!(!star.is_for("example.org"), "no name covers a top-level domain");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Certificate::read(&bytes);
        }

        #[test]
        fn nor_half_of_one(end in 0usize..80) {
            let whole = certificate(&[tlv(0x82, &[b"example.net"]), other(XMPP_ADDR, 0x0c, "im.example.com")]);
            let _ = Certificate::read(&whole[..end.min(whole.len())]);
        }
    }
}
