//! Keeps a certificate of the authority in use: orders it when it is due, in the background of a node that serves meanwhile.

use std::cell::RefCell;
use std::sync::Arc;

use net::certificate::{self, Validity};
use net::clock::Clock;
use net::tls::Tls;
use stdx::Instant;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::folder::CertificateFolder;
use crate::http_client::AuthorityClient;
use crate::order::{self, Issued, OrderError};
use crate::schedule::Schedule;
use crate::{AcmeSettings, limits};

/// The state of orders, for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenewalStatus {
    /// The reason that the latest order failed; none: it did not.
    pub failure: Option<String>,
    /// The time of the next order; none: one goes on.
    pub next: Option<Instant>,
}

/// Orders and renews one certificate. Runs on a `LocalSet`.
pub struct CertificateRenewer {
    settings: AcmeSettings,
    folder: CertificateFolder,
    clock: Clock,
    tls: Arc<Tls>,
    names: RefCell<Vec<String>>,
    names_changed: Notify,
    status: RefCell<RenewalStatus>,
}

impl CertificateRenewer {
    /// A certificate for these names goes to `tls`.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(
        settings: AcmeSettings,
        names: Vec<String>,
        tls: Arc<Tls>,
        clock: Clock,
    ) -> std::io::Result<CertificateRenewer> {
        let folder = CertificateFolder::of(&settings.folder, &settings.directory);
        folder.make()?;
        Ok(CertificateRenewer {
            settings,
            folder,
            clock,
            tls,
            names: RefCell::new(names),
            names_changed: Notify::new(),
            status: RefCell::default(),
        })
    }

    /// The state of orders.
    pub fn status(&self) -> RenewalStatus {
        self.status.borrow().clone()
    }

    /// The names of the certificate from now on. A certificate that has them all is kept.
    pub fn set_names(&self, names: Vec<String>) {
        if *self.names.borrow() != names {
            self.names.replace(names);
            self.names_changed.notify_one();
        }
    }

    /// Until dropped.
    pub async fn run(&self) {
        let mut schedule = Schedule::new(self.folder.read_orders(), random());
        loop {
            let now = self.clock.now();
            schedule.handle_clock(now);
            let due = schedule.deadline(self.held());
            self.status.borrow_mut().next = (due > now).then_some(due);
            if due > now {
                tokio::select! {
                    () = sleep(due.since(now).min(limits::LONGEST_PAUSE)) => {}
                    () = self.names_changed.notified() => schedule.handle_names_changed(),
                }
                continue;
            }
            self.attempt(&mut schedule).await;
        }
    }

    /// The validity of the authority's certificate, if it has all names.
    fn held(&self) -> Option<Validity> {
        let file = self.folder.certificate();
        let facts = certificate::examine(&file, &file, &self.names.borrow()).ok()?;
        facts.validity.filter(|_| facts.missing.is_empty())
    }

    async fn attempt(&self, schedule: &mut Schedule) {
        let names = self.names.borrow().clone();
        let client = match AuthorityClient::new(self.settings.authorities.as_deref()) {
            Ok(client) => client,
            Err(problem) => return self.failed(schedule, &OrderError::here(problem), None),
        };
        let ordered = timeout(limits::ORDER, self.order(schedule, &names, &client)).await;
        let ordered = ordered.unwrap_or_else(|_| {
            Err(OrderError::refused(format!("no certificate within {} s", limits::ORDER.as_secs())))
        });
        match ordered {
            Ok(()) => {
                schedule.handle_issued(random());
                self.status.borrow_mut().failure = None;
                tracing::info!(
                    names = names.join(" "),
                    "a certificate was issued and is in use for new connections"
                );
            }
            Err(error) => self.failed(schedule, &error, Some(&client)),
        }
    }

    async fn order(
        &self,
        schedule: &mut Schedule,
        names: &[String],
        client: &AuthorityClient,
    ) -> Result<(), OrderError> {
        self.folder.check_room().map_err(OrderError::here)?;
        let account = order::account(&self.settings, &self.folder, client).await?;
        schedule.handle_begun(self.clock.now());
        // Before the authority counts it: a node that restarts again and again must not forget it.
        self.folder.write_orders(schedule.begun()).map_err(OrderError::here)?;
        let issued = match order::order(&self.settings, &account, names).await {
            Err(error) if order::is_account_unknown(&error) => {
                self.folder.forget_account();
                return Err(error);
            }
            other => other?,
        };
        self.put_in_place(&issued, names)
    }

    fn put_in_place(&self, issued: &Issued, names: &[String]) -> Result<(), OrderError> {
        let candidate =
            self.folder.write_candidate(&issued.chain, &issued.key).map_err(OrderError::refused)?;
        let facts = certificate::examine(&candidate, &candidate, names).map_err(OrderError::refused)?;
        if !facts.missing.is_empty() {
            let missing = facts.missing.join(", ");
            return Err(OrderError::refused(format!("the authority's certificate is not for {missing}")));
        }
        self.folder.accept_candidate().map_err(OrderError::refused)?;
        let file = self.folder.certificate();
        self.tls.use_certificate(file.clone(), file).map_err(OrderError::refused)
    }

    fn failed(&self, schedule: &mut Schedule, error: &OrderError, client: Option<&AuthorityClient>) {
        let now = self.clock.now();
        let retry_after = client.and_then(AuthorityClient::take_retry_after);
        schedule.handle_failed(now, error.kind, retry_after, random());
        let next = schedule.deadline(self.held());
        tracing::warn!(
            directory = self.settings.directory,
            problem = error.text,
            next_try_in_seconds = next.since(now).as_secs(),
            "no certificate could be ordered: the node goes on with the one that it has"
        );
        *self.status.borrow_mut() = RenewalStatus { failure: Some(error.text.clone()), next: Some(next) };
    }
}

/// For pauses only: without randomness they are the shortest.
fn random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    }
}
