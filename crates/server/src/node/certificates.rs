//! The node's certificate while it runs: orders by ACME in the background, and what the operator is told of its end.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use acme::{AcmeSettings, CertificateFolder, CertificateRenewer, ChallengeKind, FarmOrders};
use anyhow::{Context as _, Result};
use config::{AcmeChallenge, Config};
use control::{CertificateSource, CertificateStatus};
use net::tls::TlsFiles;
use stdx::Instant;
use tokio::task::spawn_local;

use super::Node;
use crate::limits;

/// The certificate of the authority, for the operator's thread.
pub(super) struct Certificates {
    /// None: the node orders no certificate.
    renewer: Option<Rc<CertificateRenewer>>,
    /// The time of the last line in the log about the certificate's end.
    warned: Cell<Option<Instant>>,
}

/// The files of the latest certificate that the authority issued; none: there is none that can be used.
pub(super) fn ordered_files(config: &Config) -> Option<TlsFiles> {
    let file = ordered_file(config)?;
    net::certificate::examine(&file, &file, &[]).ok()?;
    Some(TlsFiles { certificate: file.clone(), key: file, authorities: config.tls.ca.clone() })
}

/// None: the node orders no certificate.
fn ordered_file(config: &Config) -> Option<PathBuf> {
    let directory = acme::directory_url(&config.acme.directory);
    config.acme.is_on.then(|| CertificateFolder::of(&config.acme_folder(), directory).certificate())
}

impl Certificates {
    /// Begins to order certificates, if the configuration says so, on this thread's `LocalSet`.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub(super) fn begin(node: &Node) -> Result<Certificates> {
        let config = &node.shared.config;
        let mut certificates = Certificates { renewer: None, warned: Cell::new(None) };
        let Some(tls) = node.tls.clone().filter(|_| config.acme.is_on) else { return Ok(certificates) };
        let settings = settings(config);
        let names = names(config);
        let authority = CertificateFolder::of(&settings.folder, &settings.directory).authority();
        let mut renewer =
            CertificateRenewer::new(settings, names, tls, node.clock).context("[acme] folder")?;
        if let Some(farm) = &node.shared.farm {
            let table = farm.certificate_table(config, node.clock)?;
            renewer = renewer.of_farm(FarmOrders::new(table, &farm.node, &authority));
        }
        let renewer = Rc::new(renewer);
        let running = Rc::clone(&renewer);
        spawn_local(async move { running.run().await });
        certificates.renewer = Some(renewer);
        Ok(certificates)
    }

    /// A changed configuration: names that the certificate has not are ordered.
    pub(super) fn handle_config(&self, config: &Config) {
        if let Some(renewer) = &self.renewer {
            renewer.set_names(names(config));
        }
    }

    /// For status, metrics and health.
    pub(super) fn status(&self, node: &Node) -> Option<CertificateStatus> {
        let tls = node.tls.as_ref()?;
        let (config, now, shown) = (&node.shared.config, node.clock.now(), tls.shown());
        let source = if config.tls.certificate.is_some() {
            CertificateSource::File
        } else if ordered_file(config).is_some_and(|file| file == tls.certificate_file()) {
            CertificateSource::Acme
        } else {
            CertificateSource::SelfSigned
        };
        let orders = self.renewer.as_ref().map(|renewer| renewer.status()).unwrap_or_default();
        let end = shown.validity.map(|validity| validity.not_after);
        Some(CertificateStatus {
            name: shown.name.unwrap_or_else(|| config.sip.default_domain.clone()),
            source,
            ends_at: end.map(Instant::unix_seconds),
            ends_in_seconds: end.map(|end| end.since(now).as_secs()),
            ends_soon: shown.validity.is_some_and(|it| it.ends_soon(now, limits::CERTIFICATE_MARGIN)),
            order_failure: orders.failure.map(Into::into),
            next_order_seconds: orders.next.map(|next| next.since(now).as_secs()),
        })
    }

    /// A line in the log a day, as long as the certificate ends soon or has ended.
    pub(super) fn warn_when_due(&self, node: &Node) {
        let now = node.clock.now();
        let trouble = self.status(node).filter(|status| status.ends_soon).and_then(|status| status.trouble());
        let Some(trouble) = trouble else {
            self.warned.set(None);
            return;
        };
        if self.warned.get().is_none_or(|last| now.since(last) >= limits::CERTIFICATE_WARNING) {
            self.warned.set(Some(now));
            tracing::warn!("{trouble}; see `belfry doctor`");
        }
    }
}

fn names(config: &Config) -> Vec<String> {
    config.certificate_names().iter().map(ToString::to_string).collect()
}

fn settings(config: &Config) -> AcmeSettings {
    let acme = &config.acme;
    AcmeSettings {
        directory: acme::directory_url(&acme.directory).to_owned(),
        contact: acme.contact.as_deref().map(str::to_owned),
        folder: config.acme_folder(),
        challenge: match acme.challenge {
            AcmeChallenge::Http01 => ChallengeKind::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeKind::TlsAlpn01,
        },
        listen: acme.listen(),
        authorities: acme.authorities.clone(),
        profile: acme.profile.as_deref().map(str::to_owned),
    }
}
