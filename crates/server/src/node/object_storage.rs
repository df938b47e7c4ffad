//! The store of objects that gets the node's uploads and recordings (`[s3]`), for uploads, recordings and operators.

use std::sync::Arc;

use ::object_storage::ObjectStorage;
use anyhow::{Context as _, Result};
use config::Config;
use control::ObjectStorageStatus;

/// Starts the client; `None`: files stay at the node.
pub(super) fn start(config: &Config) -> Result<Option<Arc<ObjectStorage>>> {
    config.s3.settings().map(ObjectStorage::start).transpose().context("[s3]")
}

/// The state of the store, for `belfry status` and metrics.
pub(super) fn status(storage: &ObjectStorage) -> ObjectStorageStatus {
    let status = storage.status();
    ObjectStorageStatus {
        store: status.place,
        waiting: status.waiting,
        put: status.put,
        failures: status.failures,
        failure: status.failure,
    }
}
