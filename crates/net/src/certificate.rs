//! Facts about the node's own certificate, for its operator.

use std::path::Path;
use std::time::Duration;

use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs;
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, ServerName};
use stdx::Instant;
use stdx::calendar::Date;

use crate::certified::dns_names;
use crate::der::{DerValue, first_value};
use crate::tls::{TlsError, certificates, unusable};

/// The period in which clients accept a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its begin.
    pub not_before: Instant,
    /// Its end.
    pub not_after: Instant,
}

impl Validity {
    /// From begin to end.
    pub fn lifetime(self) -> Duration {
        self.not_after.since(self.not_before)
    }

    /// True if less than `margin` is left. Of a certificate whose whole life is less than three times `margin`: less than a third of its
    /// life, because it is renewed when that much is left.
    pub fn ends_soon(self, now: Instant, margin: Duration) -> bool {
        self.not_after.since(now) < margin.min(self.lifetime() / 3)
    }
}

/// A certificate that can be used with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// `None`: it cannot be read.
    pub validity: Option<Validity>,
    /// Those of the names asked for that it is not for.
    pub missing: Vec<String>,
}

/// The certificate that listeners show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The first DNS name in it; none: it has only addresses.
    pub name: Option<Box<str>>,
    /// `None`: it cannot be read.
    pub validity: Option<Validity>,
}

/// The facts of a certificate in DER.
pub(crate) fn shown(certificate: &[u8]) -> ShownCertificate {
    ShownCertificate { name: dns_names(certificate).into_iter().next(), validity: validity(certificate) }
}

/// Reads a certificate with its key, both PEM, and compares it with names: of DNS, or addresses.
///
/// # Errors
/// A file that cannot be read, or a key that is not the certificate's.
pub fn examine(certificate: &Path, key: &Path, names: &[String]) -> Result<CertificateFacts, TlsError> {
    let fault = |file: &Path, problem: String| TlsError { file: file.to_owned(), problem };
    let chain = certificates(certificate)?;
    let own = chain.first().map(|own| own.to_vec()).unwrap_or_default();
    let private = PrivateKeyDer::from_pem_file(key).map_err(|problem| fault(key, problem.to_string()))?;
    let certified = CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider())
        .map_err(|problem| unusable(certificate, key, &problem))?;
    let parsed = certified.end_entity_cert().and_then(ParsedCertificate::try_from);
    let parsed = parsed.map_err(|problem| fault(certificate, problem.to_string()))?;
    let is_for = |name: &String| {
        ServerName::try_from(name.as_str()).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
    };
    let missing = names.iter().filter(|name| !is_for(name)).cloned().collect();
    Ok(CertificateFacts { validity: validity(&own), missing })
}

/// True if the certificate, in DER, is within the time that it is valid for (RFC 5280 §4.1.2.5).
pub fn is_valid_at(certificate: &[u8], now: Instant) -> bool {
    validity(certificate).is_some_and(|validity| validity.not_before <= now && now <= validity.not_after)
}

/// RFC 5280 §4.1: version, serial number, signature, issuer, validity. The version may be missing.
fn validity(certificate: &[u8]) -> Option<Validity> {
    const VERSION: u8 = 0xa0;
    let mut rest = first_value(first_value(certificate)?.content)?.content;
    if first_value(rest)?.tag == VERSION {
        rest = first_value(rest)?.rest;
    }
    for _ in ["serial number", "signature", "issuer"] {
        rest = first_value(rest)?.rest;
    }
    let begin = first_value(first_value(rest)?.content)?;
    Some(Validity { not_before: time(&begin)?, not_after: time(&first_value(begin.rest)?)? })
}

/// RFC 5280 §4.1.2.5: `UTCTime` as YYMMDDHHMMSSZ of the years 1950 to 2049, `GeneralizedTime` as YYYYMMDDHHMMSSZ.
fn time(value: &DerValue<'_>) -> Option<Instant> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let text = std::str::from_utf8(value.content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match value.tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2_000 + year } else { 1_900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let two = |index: usize| rest.get(2 * index..2 * index + 2)?.parse::<i64>().ok();
    let date = Date { year, month: two(0)?, day: two(1)? };
    let seconds = date.days() * 86_400 + two(2)? * 3_600 + two(3)? * 60 + two(4)?;
    u64::try_from(seconds).ok().map(Instant::from_unix_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::self_signed;

    #[test]
    fn a_certificate_is_compared_with_its_key_and_the_names() {
        let folder = tempfile::tempdir().unwrap();
        let one = self_signed(&folder.path().join("one"), &["a.test", "192.0.2.7"]).unwrap();
        let two = self_signed(&folder.path().join("two"), &["a.test"]).unwrap();
        let names = ["a.test", "b.test", "192.0.2.7"].map(str::to_owned);
        let facts = examine(&one.certificate, &one.key, &names).unwrap();
        assert_eq!(facts.missing, ["b.test"]);
        // The library makes certificates of the years 1975 to 4096.
        let of_library = Validity {
            not_before: Instant::from_unix_seconds(157_766_400),
            not_after: Instant::from_unix_seconds(67_090_118_400),
        };
        assert_eq!(facts.validity, Some(of_library));
        let der = certificates(&one.certificate).unwrap();
        assert_eq!(
            shown(&der[0]),
            ShownCertificate { name: Some("a.test".into()), validity: facts.validity }
        );
        let other = examine(&one.certificate, &two.key, &[]).unwrap_err();
        assert!(other.to_string().contains("is the key of another certificate"), "{other}");
        assert_eq!(other.file, two.key);
        let gone = folder.path().join("gone.pem");
        assert_eq!(examine(&gone, &one.key, &[]).unwrap_err().file, gone);
        assert_eq!(examine(&one.certificate, &gone, &[]).unwrap_err().file, gone);
    }

    #[test]
    fn a_week_before_the_end_is_soon_and_a_third_of_a_short_life() {
        let at = |hours: u64| Instant::from_unix_seconds(1_800_000_000 + hours * 3_600);
        let of = |days: u64| Validity { not_before: at(0), not_after: at(days * 24) };
        let week = Duration::from_hours(7 * 24);
        assert!(!of(90).ends_soon(at(83 * 24), week) && of(90).ends_soon(at(83 * 24 + 1), week));
        assert!(!of(6).ends_soon(at(4 * 24), week) && of(6).ends_soon(at(4 * 24 + 1), week));
        assert!(of(6).ends_soon(at(7 * 24), week), "it has ended");
    }

    #[test]
    fn times_of_both_forms_are_read() {
        let read = |tag, content: &str| {
            time(&DerValue { tag, content: content.as_bytes(), rest: &[] }).map(Instant::unix_seconds)
        };
        assert_eq!(read(0x17, "700101000001Z"), Some(1));
        assert_eq!(read(0x17, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(read(0x18, "20500101000000Z"), Some(2_524_608_000));
        for (tag, wrong) in
            [(0x17, "7001010000Z"), (0x17, "700101000001"), (0x18, "€0Z"), (0x13, "700101000001Z")]
        {
            assert_eq!(read(tag, wrong), None, "{wrong}");
        }
    }
}
