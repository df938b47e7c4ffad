//! The documents of POSH (RFC 7711 §3): the fingerprints of a domain's certificates, or a reference to them.
//!
//! `PoshLookups` reads each fetched body by [`PoshDocument::read`], and a stream compares the fingerprints with the
//! certificate of its peer by [`PoshFingerprints::has`].

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use crate::domain::to_ascii;
use crate::limits;

/// The hashes of the certificate that a peer has shown, over its DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateHashes {
    sha256: [u8; 32],
    sha384: [u8; 48],
    sha512: [u8; 64],
}

impl CertificateHashes {
    /// Hashes X.509 in DER.
    pub fn of(der: &[u8]) -> CertificateHashes {
        CertificateHashes {
            sha256: Sha256::digest(der).into(),
            sha384: Sha384::digest(der).into(),
            sha512: Sha512::digest(der).into(),
        }
    }
}

/// The strongest known hash of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fingerprint {
    Sha256([u8; 32]),
    Sha384([u8; 48]),
    Sha512([u8; 64]),
}

impl Fingerprint {
    /// Reads one fingerprint descriptor: hashes of one certificate by the textual names of IANA. MD5 and SHA-1 are not
    /// among the known ones. `None`: no known hash can be read.
    fn read(descriptor: &Value) -> Option<Fingerprint> {
        let sha512 = || Some(Fingerprint::Sha512(hash(descriptor, "sha-512")?));
        let sha384 = || Some(Fingerprint::Sha384(hash(descriptor, "sha-384")?));
        let sha256 = || Some(Fingerprint::Sha256(hash(descriptor, "sha-256")?));
        sha512().or_else(sha384).or_else(sha256)
    }

    fn is_of(&self, certificate: &CertificateHashes) -> bool {
        match self {
            Fingerprint::Sha256(hash) => *hash == certificate.sha256,
            Fingerprint::Sha384(hash) => *hash == certificate.sha384,
            Fingerprint::Sha512(hash) => *hash == certificate.sha512,
        }
    }
}

/// RFC 7711 §3.1: Base64 without line breaks (RFC 4648 §4). A value of another length is not of that hash.
fn hash<const LENGTH: usize>(descriptor: &Value, name: &str) -> Option<[u8; LENGTH]> {
    let text = descriptor.get(name)?.as_str()?;
    BASE64_STANDARD.decode(text).ok()?.try_into().ok()
}

/// The certificates that a domain vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoshFingerprints {
    certificates: Vec<Fingerprint>,
    /// The time for which the fingerprints may be remembered, within `limits::POSH_LONGEST`.
    pub expires: Duration,
}

impl PoshFingerprints {
    /// True if one of the fingerprints is the certificate's.
    pub fn has(&self, certificate: &CertificateHashes) -> bool {
        self.certificates.iter().any(|fingerprint| fingerprint.is_of(certificate))
    }
}

/// A document of POSH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoshDocument {
    /// RFC 7711 §3.1.
    Fingerprints(PoshFingerprints),
    /// RFC 7711 §3.2.
    Reference {
        /// The address of the fingerprints: `https`, printable ASCII, of bounded length.
        url: Box<str>,
        /// The time for which the reference may be remembered, within `limits::POSH_LONGEST`.
        expires: Duration,
    },
}

/// The reason why a document proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoshFault {
    /// The body is not a JSON object with `fingerprints` or `url`.
    Malformed,
    /// `expires` is absent, zero or not a whole number.
    Expired,
    /// No fingerprint is by SHA-256, SHA-384 or SHA-512.
    Weak,
    /// More certificates than `limits::POSH_CERTIFICATES`.
    TooMany,
    /// The address of a reference is not one of HTTPS.
    Url,
    /// A reference leads to a reference.
    Nested,
}

impl PoshFault {
    /// The name of the fault in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            PoshFault::Malformed => "the document is not of POSH",
            PoshFault::Expired => "the document has no `expires`, or has ended",
            PoshFault::Weak => "the document has no fingerprint by SHA-256, SHA-384 or SHA-512",
            PoshFault::TooMany => "the document has too many fingerprints",
            PoshFault::Url => "the reference is not an address of HTTPS",
            PoshFault::Nested => "a reference leads to a reference",
        }
    }
}

impl PoshDocument {
    /// Reads the body of a response.
    ///
    /// # Errors
    /// A document that proves nothing.
    pub fn read(body: &[u8]) -> Result<PoshDocument, PoshFault> {
        let document: Value = serde_json::from_slice(body).map_err(|_| PoshFault::Malformed)?;
        if let Some(descriptors) = document.get("fingerprints") {
            let descriptors = descriptors.as_array().ok_or(PoshFault::Malformed)?;
            if descriptors.len() > limits::POSH_CERTIFICATES {
                return Err(PoshFault::TooMany);
            }
            let certificates: Vec<_> = descriptors.iter().filter_map(Fingerprint::read).collect();
            if certificates.is_empty() {
                return Err(PoshFault::Weak);
            }
            return Ok(PoshDocument::Fingerprints(PoshFingerprints {
                certificates,
                expires: expires(&document)?,
            }));
        }
        let url = document.get("url").and_then(Value::as_str).ok_or(PoshFault::Malformed)?;
        let is_https = url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
        // RFC 7711 §3.2: the fingerprints are at an address of HTTPS.
        if !is_https || url.len() > limits::POSH_URL || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(PoshFault::Url);
        }
        Ok(PoshDocument::Reference { url: url.into(), expires: expires(&document)? })
    }
}

/// RFC 7711 §3.1: a document without `expires`, or with zero, is not valid. §6: a shorter time may be used.
fn expires(document: &Value) -> Result<Duration, PoshFault> {
    let seconds = document.get("expires").and_then(Value::as_u64).filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or(PoshFault::Expired)?;
    Ok(Duration::from_secs(seconds).min(limits::POSH_LONGEST))
}

/// The address of a domain's document (RFC 7711 §3, with the service name of RFC 7712 §5). `None`: the domain is not a
/// public name of a host, but an address, a single label, or letters that no host name has.
pub fn url_of(domain: &str) -> Option<String> {
    let domain = to_ascii(domain)?;
    let is_label = |label: &str| {
        let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let (_, last) = domain.rsplit_once('.')?;
    // A URL whose host ends in a number has an IPv4 address in one of its many forms.
    let is_name = last.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_host = is_name && domain.len() <= 253 && domain.split('.').all(is_label);
    is_host.then(|| format!("https://{domain}/.well-known/posh/xmpp-server.json"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 7711 §3.1.
    const FINGERPRINTS: &str = r#"{
        "fingerprints": [
          {
            "sha-256": "4/mggdlVx8A3pvHAWW5sD+qJyMtUHgiRuPjVC48N0XQ=",
            "sha-512": "25N+1hB2Vo42l9lSGqw+n3BKFhDHsyork8ou+D9B43TXeJ1J81mdQEDqm39oR/EHkPBDDG1y5+AG94Kec0xVqA=="
          }
        ],
        "expires": 604800
      }"#;

    /// RFC 7711 §3.2.
    const REFERENCE: &str =
        r#"{ "url": "https://hosting.example.net/.well-known/posh/spice.json", "expires": 86400 }"#;

    const DAY: Duration = Duration::from_secs(86_400);

    fn read(text: &str) -> Result<PoshDocument, PoshFault> {
        PoshDocument::read(text.as_bytes())
    }

    fn fingerprints(text: &str) -> PoshFingerprints {
        match read(text) {
            Ok(PoshDocument::Fingerprints(fingerprints)) => fingerprints,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn base64(bytes: &[u8]) -> String {
        BASE64_STANDARD.encode(bytes)
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let read_one = fingerprints(FINGERPRINTS);
        // A week is more than is remembered here.
        assert_eq!((read_one.certificates.len(), read_one.expires), (1, DAY));
        assert!(matches!(read_one.certificates[0], Fingerprint::Sha512([0xdb, 0x93, 0x7e, ..])));
        let url = "https://hosting.example.net/.well-known/posh/spice.json".into();
        assert_eq!(read(REFERENCE), Ok(PoshDocument::Reference { url, expires: DAY }));
    }

    #[test]
    fn the_strongest_hash_of_each_certificate_counts() {
        let (own, other) = (CertificateHashes::of(b"own"), CertificateHashes::of(b"other"));
        let (short, long) = (base64(&own.sha256), base64(&own.sha512));
        let document = |descriptors: &str| format!(r#"{{"fingerprints":[{descriptors}],"expires":60}}"#);
        for right in [
            format!(r#"{{"sha-256":"{short}"}}"#),
            format!(r#"{{"sha-384":"{}"}}"#, base64(&own.sha384)),
            format!(r#"{{"sha-512":"{long}","sha-256":"{}"}}"#, base64(&other.sha256)),
            // Of the certificate that follows this one.
            format!(r#"{{"sha-256":"{}"}},{{"sha-256":"{short}"}}"#, base64(&other.sha256)),
            // A hash that is not known, one that is too weak, and one of another length, count as absent.
            format!(r#"{{"sha3-512":"{long}","sha-1":"AAAA","sha-512":"{short}","sha-256":"{short}"}}"#),
        ] {
            let read = fingerprints(&document(&right));
            assert!(read.has(&own) && !read.has(&CertificateHashes::of(b"third")), "{right}");
            assert_eq!(read.expires, Duration::from_secs(60));
        }
        let stronger_is_wrong = format!(r#"{{"sha-256":"{short}","sha-512":"{}"}}"#, base64(&other.sha512));
        assert!(!fingerprints(&document(&stronger_is_wrong)).has(&own));
    }

    #[test]
    fn a_document_that_proves_nothing_names_its_fault() {
        let sha1 = base64(&[7; 20]);
        let sha256 = base64(&[7; 32]);
        let one = format!(r#"{{"sha-256":"{sha256}"}}"#);
        let many = [&*one; limits::POSH_CERTIFICATES + 1].join(",");
        for (text, fault) in [
            (String::new(), PoshFault::Malformed),
            ("[]".into(), PoshFault::Malformed),
            ("{}".into(), PoshFault::Malformed),
            (r#"{"fingerprints":{},"expires":1}"#.into(), PoshFault::Malformed),
            (r#"{"url":7,"expires":1}"#.into(), PoshFault::Malformed),
            (r#"{"fingerprints":[],"expires":1}"#.into(), PoshFault::Weak),
            (format!(r#"{{"fingerprints":[{{"sha-1":"{sha1}"}}],"expires":1}}"#), PoshFault::Weak),
            (format!(r#"{{"fingerprints":[{{"sha-256":"{sha1}"}}],"expires":1}}"#), PoshFault::Weak),
            (format!(r#"{{"fingerprints":["{sha256}"],"expires":1}}"#), PoshFault::Weak),
            (format!(r#"{{"fingerprints":[{many}],"expires":1}}"#), PoshFault::TooMany),
            (format!(r#"{{"fingerprints":[{one}]}}"#), PoshFault::Expired),
            (format!(r#"{{"fingerprints":[{one}],"expires":0}}"#), PoshFault::Expired),
            (format!(r#"{{"fingerprints":[{one}],"expires":-5}}"#), PoshFault::Expired),
            (format!(r#"{{"fingerprints":[{one}],"expires":"60"}}"#), PoshFault::Expired),
            (r#"{"url":"https://a.test/"}"#.into(), PoshFault::Expired),
            (r#"{"url":"http://a.test/","expires":1}"#.into(), PoshFault::Url),
            (r#"{"url":"//a.test/","expires":1}"#.into(), PoshFault::Url),
            (r#"{"url":"https://a.test/ b","expires":1}"#.into(), PoshFault::Url),
            (
                format!(r#"{{"url":"https://a.test/{}","expires":1}}"#, "x".repeat(limits::POSH_URL)),
                PoshFault::Url,
            ),
        ] {
            assert_eq!(read(&text), Err(fault), "{text}");
        }
    }

    #[test]
    fn only_names_of_hosts_have_a_document() {
        assert_eq!(
            url_of("im.example.com").as_deref(),
            Some("https://im.example.com/.well-known/posh/xmpp-server.json")
        );
        assert!(url_of("bücher.example").is_some_and(|url| url.contains("//xn--bcher-kva.example/")));
        let long = "x".repeat(64);
        for domain in [
            "localhost",
            "127.0.0.1",
            "[::1]",
            // Both are 127.0.0.1 in a URL.
            "127.1",
            "a.0x7f000001",
            "",
            ".",
            "a..test",
            "a.test.",
            "-a.test",
            "a-.test",
            "a_b.test",
            "a.test:8443",
            "user@a.test",
            "a.test/x",
            "a.test?x",
            "a.test#x",
            "a%2e.test",
            "a b.test",
            &format!("{long}.test"),
            &format!("{}test", "abcdefg.".repeat(32)),
        ] {
            assert_eq!(url_of(domain), None, "{domain}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_document_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PoshDocument::read(&bytes);
        }

        #[test]
        fn any_change_of_an_example_is_a_document_or_a_fault(
            at in 0usize..250,
            count in 0usize..40,
            put in "[\\[\\]{}\",:0-9a-z ]{0,8}",
        ) {
            for example in [FINGERPRINTS, REFERENCE] {
                let at = at.min(example.len());
                let end = (at + count).min(example.len());
                let changed = format!("{}{put}{}", &example[..at], &example[end..]);
                match PoshDocument::read(changed.as_bytes()) {
                    Ok(PoshDocument::Fingerprints(read)) => {
                        prop_assert!((1..=limits::POSH_CERTIFICATES).contains(&read.certificates.len()));
                        prop_assert!(!read.expires.is_zero() && read.expires <= limits::POSH_LONGEST);
                    }
                    Ok(PoshDocument::Reference { url, expires }) => {
                        prop_assert!(url.to_ascii_lowercase().starts_with("https://"));
                        prop_assert!(!expires.is_zero() && expires <= limits::POSH_LONGEST);
                    }
                    Err(_) => {}
                }
            }
        }

        #[test]
        fn any_domain_has_an_address_on_its_own_host_or_none(domain in "[a-z0-9A-Z.:/@?#\\[\\]%_ü-]{0,40}") {
            if let Some(url) = url_of(&domain) {
                let rest = url.strip_prefix("https://").expect("HTTPS");
                let (host, path) = rest.split_once('/').expect("a path");
                prop_assert_eq!(path, ".well-known/posh/xmpp-server.json");
                let ascii = to_ascii(&domain);
                prop_assert_eq!(Some(host), ascii.as_deref());
            }
        }
    }
}
