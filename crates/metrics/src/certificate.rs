//! Metrics of the certificate that listeners show, with its first name as label.
//! The values come from `node::certificates`, which knows the certificate in use from any source.

use std::fmt::Write as _;

use control::CertificateStatus;

use super::{Kind, escaped, head, row};

struct CertificateMetric {
    name: &'static str,
    help: &'static str,
    /// None: there is no value.
    read: fn(&CertificateStatus) -> Option<u64>,
}

const CERTIFICATE: [CertificateMetric; 2] = [
    CertificateMetric {
        name: "belfry_certificate_expiry_seconds",
        help: "Seconds until the certificate that listeners show ends; 0 when it has ended",
        read: |certificate| certificate.ends_in_seconds,
    },
    CertificateMetric {
        name: "belfry_certificate_order_failed",
        help: "1 while the latest order of a certificate, by `[acme]`, has failed; the log and `belfry status` say why",
        read: |certificate| Some(u64::from(certificate.order_failure.is_some())),
    },
];

/// Nothing of a node without TLS.
pub(super) fn write(out: &mut String, certificate: Option<&CertificateStatus>) {
    let Some(certificate) = certificate else { return };
    for metric in CERTIFICATE {
        head(out, metric.name, Kind::Gauge, metric.help);
        if let Some(value) = (metric.read)(certificate) {
            let _ = writeln!(out, "{}{{name=\"{}\"}} {value}", metric.name, escaped(&certificate.name));
        }
    }
}

pub(super) fn reference(page: &mut String) {
    page.push_str("\n## Of the certificate, with the label `name`\n\nThe first name of the certificate that listeners with TLS show.\n\n| name | kind | meaning |\n|---|---|---|\n");
    CERTIFICATE.iter().for_each(|metric| row(page, metric.name, Kind::Gauge, metric.help));
}
