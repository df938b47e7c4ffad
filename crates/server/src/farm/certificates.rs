//! The table of a farm as orders of certificates use it.

use std::rc::Rc;

use acme::{Awaited, FarmTable};
use anyhow::Result;
use config::Config;
use farm::table::SharedTable;
use net::clock::Clock;
use tokio::task::spawn_local;

use super::{FarmMembership, council};

/// The farm's table, which a task of this thread's `LocalSet` keeps up to date.
struct CertificateTable(Rc<SharedTable>);

impl FarmMembership {
    /// Opens the table that the nodes share, on this thread's `LocalSet`.
    ///
    /// # Errors
    /// The place of the council is not said.
    pub(crate) fn certificate_table(&self, config: &Config, clock: Clock) -> Result<Rc<dyn FarmTable>> {
        let settings = council(config, &self.name, &self.secret, clock)?;
        let table = Rc::new(SharedTable::new(settings, self.secret.for_table()));
        let running = Rc::clone(&table);
        spawn_local(async move { running.run().await });
        Ok(Rc::new(CertificateTable(table)))
    }
}

impl FarmTable for CertificateTable {
    fn get(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        let entry = self.0.get(name)?;
        Some((entry.revision, entry.value.unwrap_or_default()))
    }

    fn swap<'a>(&'a self, name: &'a str, revision: u64, value: Vec<u8>) -> Awaited<'a, Result<bool, String>> {
        Box::pin(async move {
            let swapped = self.0.swap(name, revision, &value).await;
            swapped.map_err(|problem| format!("the farm's council: {problem}"))
        })
    }

    fn changes(&self) -> u64 {
        self.0.changes()
    }

    fn changed(&self, seen: u64) -> Awaited<'_, ()> {
        Box::pin(self.0.changed(seen))
    }
}
