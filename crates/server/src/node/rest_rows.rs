//! Rows of the REST interface, read and written by the node's own tasks: those that end calls of nodes and starts that are over.

use std::sync::Arc;

use store::rest::types::Recording;
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead, RestWrite, Row};
use store::{Loaded, Read, Service, StoreError, Write, WriteDone};
use tokio::sync::oneshot;

use super::{Node, StoreCompletions};

/// The outcome of a write that has begun.
pub(super) type Written = oneshot::Receiver<Result<WriteDone, StoreError>>;

/// The rows in the database of a node.
pub(super) struct RestRows {
    store: Arc<Service>,
    desk: Arc<StoreCompletions>,
}

impl RestRows {
    pub(super) fn new(node: &Node) -> RestRows {
        RestRows { store: Arc::clone(&node.store), desk: Arc::clone(&node.desk) }
    }

    /// The row of that sid.
    pub(super) async fn get(&self, kind: Kind, sid: &str) -> Result<Option<Box<Row>>, StoreError> {
        match self.read(RestRead::Sid { kind, sid: sid.into() }).await? {
            RestLoaded::Row(row) => Ok(row),
            _ => Ok(None),
        }
    }

    /// A page of rows.
    pub(super) async fn list(&self, filter: RestFilter) -> Result<Vec<Row>, StoreError> {
        match self.read(RestRead::List(filter)).await? {
            RestLoaded::Page { rows, .. } => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }

    /// The recordings of a call, which are few. Those that cannot be read are left out.
    pub(super) async fn recordings(&self, call: &str) -> Result<Vec<Recording>, StoreError> {
        let filter = RestFilter { parent: Some(call.into()), ..RestFilter::all(Kind::Recording) };
        let rows = self.list(filter).await?;
        Ok(rows.iter().filter_map(|row| Recording::from_row(row).ok()).collect())
    }

    async fn read(&self, read: RestRead) -> Result<RestLoaded, StoreError> {
        let begun = self.desk.begin_read(|ticket| self.store.read(Read::Rest(read), ticket));
        let answer = begun.map_err(|store::Busy| StoreError::Closed)?;
        match answer.await.unwrap_or(Err(StoreError::Closed))? {
            Loaded::Rest(loaded) => Ok(loaded),
            _ => Err(StoreError::Closed),
        }
    }

    /// Begins a write. The outcome is waited for by [`written`], so that a page is one commit.
    pub(super) fn write(&self, write: RestWrite) -> Result<Written, StoreError> {
        let begun = self.desk.begin_write(|ticket| self.store.write(Write::Rest(write), ticket));
        begun.map_err(|store::Busy| StoreError::Closed)
    }

    /// Begins to replace the row of a resource.
    pub(super) fn replace(&self, resource: &impl Resource) -> Result<Written, StoreError> {
        self.write(RestWrite::Replace(Box::new(resource.row()?)))
    }
}

/// Waits for writes that have begun.
pub(super) async fn written(writes: Vec<Written>) -> Result<(), StoreError> {
    for write in writes {
        match write.await.unwrap_or(Err(StoreError::Closed)) {
            // A request of the REST interface has deleted the row meanwhile.
            Ok(_) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
