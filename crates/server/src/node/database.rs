//! The database of a start. A server that is away is waited for, as a farm's council is (`farm::wait`): a machine starts its services in any order.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use cli::database;
use config::Config;
use store::{Database, StoreError};

use crate::limits;
use crate::waiting::{StartListeners, StartWait};

/// Opens the database of the configuration. While its server does not answer, or takes no connections, these listeners answer with the reason, until the
/// server is there or a signal ends the process.
///
/// # Errors
/// Any other failure: of a file, or of a server that refuses this user or has no such database.
pub(super) fn open(
    config: &Config,
    options: &store::sqlite::Options,
    listeners: &StartListeners,
) -> Result<Database> {
    let place = database::place(config);
    let (reason, mut wait) = (Arc::new(Mutex::new(String::new())), None);
    loop {
        let error = match place.open_with(options.clone()) {
            Err(error @ StoreError::Unreachable { is_refused: false, .. }) => error,
            opened => {
                if wait.is_some() {
                    tracing::info!("the database is there");
                }
                return Ok(opened?);
            }
        };
        let text =
            format!("the node waits for its database, and serves nothing before that is there: {error}");
        let before =
            std::mem::replace(&mut *reason.lock().unwrap_or_else(PoisonError::into_inner), text.clone());
        // One line for each reason, and not for each attempt.
        if before != text {
            tracing::warn!("{text}");
        }
        if wait.is_none() {
            let reason = Arc::clone(&reason);
            let reason = move || reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let begun = StartWait::begin(listeners.duplicate()?, "its database", Arc::new(reason));
            wait = Some(begun.context("the thread that answers during the start")?);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "nothing tells that a server has started: it is tried again"
        )]
        std::thread::sleep(limits::DATABASE_PAUSE);
    }
}
