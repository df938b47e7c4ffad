//! The domains that the certificate of a stream's peer proves: by the names in it (RFC 6125), or by POSH.

use super::super::{Proof, S2sSettings, Security};
use super::document::{PoshFingerprints, url_of};
use crate::limits;

#[derive(Debug)]
struct PoshVerdict {
    domain: Box<str>,
    /// `None`: the lookup has not ended.
    is_proved: Option<bool>,
}

/// The security of a stream, and the verdicts on its peer's certificate.
#[derive(Debug)]
pub(crate) struct PeerProofs {
    pub(crate) security: Security,
    /// The verdicts of POSH by domain, at most `limits::POSH_OF_STREAM`.
    verdicts: Vec<PoshVerdict>,
}

impl PeerProofs {
    pub(crate) fn new(security: Security) -> PeerProofs {
        PeerProofs { security, verdicts: Vec::new() }
    }

    /// The way in which the certificate proves the domain.
    pub(crate) fn of(&self, domain: &str) -> Option<Proof> {
        if self.security.is_for(domain) {
            return Some(Proof::Certificate);
        }
        let is_it = |verdict: &PoshVerdict| *verdict.domain == *domain && verdict.is_proved == Some(true);
        self.verdicts.iter().any(is_it).then_some(Proof::Posh)
    }

    /// True if POSH is to be asked about the domain. RFC 7711 §5 leaves the order to the client: a certificate that proves
    /// itself is not asked about. Each domain is asked about once a stream, which bounds the fetches of one stream.
    pub(crate) fn begin(&mut self, settings: &S2sSettings, domain: &str) -> bool {
        let is_wanted = settings.posh
            && self.security.presented.is_some()
            && self.of(domain).is_none()
            && !self.verdicts.iter().any(|verdict| *verdict.domain == *domain)
            && self.verdicts.len() < limits::POSH_OF_STREAM
            && url_of(domain).is_some();
        if is_wanted {
            self.verdicts.push(PoshVerdict { domain: domain.into(), is_proved: None });
        }
        is_wanted
    }

    /// True while the lookup of the domain goes on.
    pub(crate) fn is_open(&self, domain: &str) -> bool {
        self.verdicts.iter().any(|verdict| *verdict.domain == *domain && verdict.is_proved.is_none())
    }

    /// Takes the outcome of a lookup. `None`: the domain vouches for no certificate.
    pub(crate) fn handle_posh(&mut self, domain: &str, fingerprints: Option<&PoshFingerprints>) {
        let presented = self.security.presented.as_deref();
        let is_proved =
            fingerprints.zip(presented).is_some_and(|(fingerprints, presented)| fingerprints.has(presented));
        if let Some(verdict) = self.verdicts.iter_mut().find(|verdict| *verdict.domain == *domain) {
            verdict.is_proved = Some(is_proved);
        }
    }
}
