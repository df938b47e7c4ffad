//! Keeps a certificate of the authority in use: orders it when it is due, in the background of a node that serves meanwhile.

use std::cell::RefCell;
use std::sync::Arc;

use net::certificate::{self, Validity};
use net::clock::Clock;
use net::tls::Tls;
use stdx::Instant;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::farm_orders::FarmOrders;
use crate::folder::CertificateFolder;
use crate::http_client::AuthorityClient;
use crate::order::{self, Issued, OrderError};
use crate::schedule::{FailureKind, Schedule};
use crate::{AcmeSettings, limits, listener};

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
    /// None: the node is in no farm.
    farm: Option<FarmOrders>,
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
            farm: None,
        })
    }

    /// The certificate is that of a farm: one of its nodes orders at a time, and all use it.
    #[must_use]
    pub fn of_farm(self, farm: FarmOrders) -> CertificateRenewer {
        CertificateRenewer { farm: Some(farm), ..self }
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
        match &self.farm {
            Some(farm) => {
                tokio::join!(self.run_orders(), self.answer_for_others(farm));
            }
            None => self.run_orders().await,
        }
    }

    async fn run_orders(&self) {
        let mut schedule = Schedule::new(self.folder.read_orders(), random());
        if let Some(farm) = self.farm.as_ref().filter(|farm| farm.changes() == 0) {
            // Without the farm's table it is not known whether a certificate is due.
            farm.changed(0).await;
        }
        loop {
            let now = self.clock.now();
            let seen = self.look(now, &mut schedule);
            schedule.handle_clock(now);
            let due = schedule.deadline(self.held());
            self.status.borrow_mut().next = (due > now).then_some(due);
            if due > now {
                tokio::select! {
                    () = sleep(due.since(now).min(limits::LONGEST_PAUSE)) => {}
                    () = self.names_changed.notified() => schedule.handle_names_changed(),
                    () = self.changed(seen) => {}
                }
                continue;
            }
            match &self.farm {
                None => self.attempt(&mut schedule).await,
                Some(farm) => self.attempt_in_farm(farm, seen, &mut schedule).await,
            }
        }
    }

    /// Takes over what other nodes have left in the farm's table. The number of its changes so far.
    fn look(&self, now: Instant, schedule: &mut Schedule) -> u64 {
        let Some(farm) = &self.farm else { return 0 };
        let seen = farm.changes();
        farm.look(now);
        if let Some((revision, issued)) = farm.new_certificate() {
            // One that is of no use is not looked at again: the table will have another.
            farm.note_installed(revision);
            match self.put_in_place(&issued, &[]) {
                Ok(()) => tracing::info!(
                    "a certificate that a node of the farm has ordered is in use for new connections"
                ),
                Err(error) => {
                    tracing::warn!(problem = error.text, "the farm's certificate cannot be used here");
                }
            }
            self.status.borrow_mut().failure = None;
        }
        let (begun, retry_at) = farm.past();
        schedule.handle_farm(begun, retry_at);
        seen
    }

    /// Waits for a change of the farm's table; without a farm for ever.
    async fn changed(&self, seen: u64) {
        match &self.farm {
            Some(farm) => farm.changed(seen).await,
            None => std::future::pending().await,
        }
    }

    /// Orders for the farm, if no other node does.
    async fn attempt_in_farm(&self, farm: &FarmOrders, seen: u64, schedule: &mut Schedule) {
        match farm.take(self.clock.now()).await {
            Ok(true) => {
                self.attempt(schedule).await;
                farm.release(schedule.retry_at()).await;
            }
            // The other node's certificate comes by the table, or the end of its order.
            Ok(false) => {
                tokio::select! {
                    () = sleep(limits::FARM_LOOK) => {}
                    () = farm.changed(seen) => {}
                }
            }
            Err(problem) => {
                let error = OrderError { kind: FailureKind::Unreachable, text: problem };
                self.failed(schedule, &error, None);
            }
        }
    }

    /// Answers the authority while another node of the farm orders: a balancer may send its requests here.
    async fn answer_for_others(&self, farm: &FarmOrders) {
        loop {
            let seen = farm.changes();
            let now = self.clock.now();
            farm.look(now);
            let Some(answers) = farm.answers_of_other(now, self.settings.challenge) else {
                farm.changed(seen).await;
                continue;
            };
            let listen = self.settings.listen;
            let serving = async {
                let listener = listener::bind(listen, true).await?;
                listener::serve(listener, Arc::new(answers)).await
            };
            tokio::select! {
                ended = serving => {
                    let Err(error) = ended;
                    tracing::warn!(%listen, %error, "[acme] listen: the order of another node of the farm is not answered here");
                    farm.changed(seen).await;
                }
                () = farm.changed(seen) => {}
                () = sleep(limits::FARM_ORDER) => {}
            }
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
        let farm = self.farm.as_ref();
        let account = order::account(&self.settings, &self.folder, client, farm).await?;
        schedule.handle_begun(self.clock.now());
        // Before the authority counts it: a node that restarts again and again must not forget it.
        self.folder.write_orders(schedule.begun()).map_err(OrderError::here)?;
        if let Some(farm) = farm {
            farm.note_begun(schedule.begun()).await.map_err(OrderError::here)?;
        }
        let issued = match order::order(&self.settings, &account, names, farm).await {
            Err(error) if order::is_account_unknown(&error) => {
                self.folder.forget_account();
                if let Some(farm) = farm {
                    farm.put_account("").await.map_err(OrderError::here)?;
                }
                return Err(error);
            }
            other => other?,
        };
        self.put_in_place(&issued, names)?;
        if let Some(farm) = farm
            && let Err(problem) = farm.put_certificate(&issued).await
        {
            // It counts as issued: another order would cost the authority's limits. The other nodes order when theirs is due.
            tracing::warn!(problem, "the certificate could not be given to the other nodes of the farm");
        }
        Ok(())
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
