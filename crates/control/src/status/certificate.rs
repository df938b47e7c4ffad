//! The certificate that listeners show, and how its orders go.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The certificate of the listeners with TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// The first name in it.
    pub name: Box<str>,
    /// Its origin.
    pub source: CertificateSource,
    /// The end of its validity, in seconds since 1970. `None`: it cannot be read.
    #[serde(default)]
    pub ends_at: Option<u64>,
    /// Seconds until then, 0 if it has ended.
    #[serde(default)]
    pub ends_in_seconds: Option<u64>,
    /// Less than a week is left, or less than a third of a short life.
    #[serde(default)]
    pub ends_soon: bool,
    /// The reason that the latest order of a certificate failed; none: it did not.
    #[serde(default)]
    pub order_failure: Option<Box<str>>,
    /// Seconds until the next order; none: one goes on, or the node orders none.
    #[serde(default)]
    pub next_order_seconds: Option<u64>,
}

/// The origin of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateSource {
    /// The files of `[tls]`.
    #[default]
    File,
    /// An authority, by `[acme]`.
    Acme,
    /// The node itself, for want of another one.
    SelfSigned,
}

impl CertificateStatus {
    /// A condition that needs an operator's attention, in words without a line break; none: all is well.
    pub fn trouble(&self) -> Option<String> {
        let name = &self.name;
        let order = self.order_failure.as_ref();
        let because = order.map_or(String::new(), |reason| format!("; the latest order failed: {reason}"));
        let because = because.replace(['\n', '\r'], " ");
        match self.ends_in_seconds {
            Some(0) => Some(format!("the certificate of {name} has ended: clients refuse it{because}")),
            Some(left) if self.ends_soon => {
                Some(format!("the certificate of {name} ends in {}{because}", TimeLeft(left)))
            }
            _ if order.is_some() && self.source == CertificateSource::SelfSigned => {
                Some(format!("clients see a certificate that the node made for itself{because}"))
            }
            _ => None,
        }
    }
}

/// Seconds, in the unit that tells enough.
struct TimeLeft(u64);

impl fmt::Display for TimeLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeLeft(seconds) = *self;
        match seconds {
            172_800.. => write!(f, "{} days", seconds / 86_400),
            7_200.. => write!(f, "{} hours", seconds / 3_600),
            120.. => write!(f, "{} minutes", seconds / 60),
            _ => write!(f, "{seconds} seconds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends_in(seconds: u64, ends_soon: bool) -> CertificateStatus {
        CertificateStatus {
            name: "a.test".into(),
            ends_in_seconds: Some(seconds),
            ends_soon,
            ..CertificateStatus::default()
        }
    }

    #[test]
    fn a_certificate_that_ends_or_has_ended_is_trouble() {
        assert_eq!(ends_in(30 * 86_400, false).trouble(), None);
        let soon = ends_in(5 * 86_400 + 7, true);
        assert_eq!(soon.trouble().as_deref(), Some("the certificate of a.test ends in 5 days"));
        let failed = CertificateStatus { order_failure: Some("no\nroute".into()), ..ends_in(90 * 60, true) };
        let said = "the certificate of a.test ends in 90 minutes; the latest order failed: no route";
        assert_eq!(failed.trouble().as_deref(), Some(said));
        assert!(ends_in(0, true).trouble().unwrap().contains("has ended: clients refuse it"));
    }

    #[test]
    fn a_failed_order_is_trouble_while_the_node_has_nothing_better_than_its_own() {
        let of = |source| CertificateStatus {
            source,
            order_failure: Some("away".into()),
            ..ends_in(30 * 86_400, false)
        };
        assert_eq!(of(CertificateSource::Acme).trouble(), None, "there is time");
        let own = of(CertificateSource::SelfSigned).trouble();
        let said = "clients see a certificate that the node made for itself; the latest order failed: away";
        assert_eq!(own.as_deref(), Some(said));
    }
}
