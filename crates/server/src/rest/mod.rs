//! The REST interface of the running node: the handlers of `admin` over the node's database and its shards.
//!
//! Handlers run on threads of the runtime's blocking pool, so that they may wait. `record` waits for the store and gives shards the bindings
//! of numbers that changed; `plane` asks for live calls and rooms: `live` those of this node, all of whose shards are
//! asked, and then the other nodes of a farm.

mod identities;
mod live;
mod plane;
mod privileged;
mod record;

use std::sync::Arc;

use axum::Router;
use config::Config;
use stdx::attempts::{Block, Subject};
use store::StoreError;
use tokio::sync::Notify;

use crate::node::{Node, StoreCompletions};
pub(crate) use live::LiveObjects;
use plane::Plane;
use privileged::PrivilegedAccounts;
use record::Record;

/// The REST interface of a node. Made once; cheap to clone.
#[derive(Clone)]
pub(crate) struct Rest {
    router: Router,
    record: Arc<Record>,
    state: Arc<admin::State>,
    privileged: Arc<PrivilegedAccounts>,
}

/// The address at which applications find the REST interface, without a slash at its end.
pub(crate) fn public_url(config: &Config) -> Box<str> {
    let listen = config.rest.listen.unwrap_or(config.http.listen);
    config.voice.public_url.clone().unwrap_or_else(|| format!("http://{listen}").into())
}

impl Rest {
    pub(crate) fn new(node: &Node) -> Rest {
        let config = &node.shared.config;
        let record = Arc::new(Record::new(node));
        let privileged = Arc::new(PrivilegedAccounts::new(config));
        let plane = Plane::new(node, Arc::clone(&record), Arc::clone(&privileged));
        let state = admin::State::new(
            Arc::clone(&record) as _,
            Arc::new(plane),
            &config.sip.default_domain,
            &public_url(config),
            chat_store::keys::make,
        );
        Rest { router: admin::router(Arc::clone(&state)), record, state, privileged }
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// The resources, for the operators' console.
    pub(crate) fn resources(&self) -> admin::ManagedResources {
        admin::ManagedResources::new(Arc::clone(&self.state))
    }

    /// The numbers that applications answer, for the operators' console.
    pub(crate) fn numbers(&self) -> Arc<dyn web_console::NumberSource> {
        Arc::clone(&self.record) as _
    }

    /// Takes over what a reload may change.
    pub(crate) fn reconfigure(&self, config: &Config) {
        self.privileged.reconfigure(config);
    }

    /// Addresses and accounts whose sign-ins are paced.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        self.state.blocks()
    }

    /// The blocks that were in force.
    pub(crate) fn lift_block(&self, subject: &Subject) -> usize {
        self.state.lift_block(subject)
    }

    /// Wakes when bindings were written past this interface, or could not be read.
    pub(crate) fn due(&self) -> &Notify {
        self.record.due()
    }

    /// Reads the bindings again. Not on a thread that runs tasks.
    ///
    /// # Errors
    /// The database cannot be read now.
    pub(crate) fn refresh(&self) -> Result<(), StoreError> {
        self.record.refresh()
    }

    /// Keeps caller ids up to date while accounts of clients are removed by operators and by their users. A task, until the node ends.
    pub(crate) async fn follow_clients(self, writes: Arc<StoreCompletions>) {
        loop {
            writes.client_removed().await;
            self.due().notify_one();
        }
    }
}
