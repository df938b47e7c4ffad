//! The ways of call records besides the database, as they are configured: files, and receivers at other places.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use call_export::{CallExport, Destination, HttpDestination};
use call_files::CallFiles;
use config::Config;
use control::CallExportStatus;
use stdx::Instant;
use store::postgres::CallTable;

use crate::shard::{RecordSinks, StatusBoard};

/// Opens the files, and a queue for each receiver.
///
/// # Errors
/// A folder that cannot be written, a URL or a file of authorities that cannot be used.
pub(super) fn open(config: &Config, board: &Arc<StatusBoard>) -> Result<RecordSinks> {
    let files = call_files(config, board)?.map(Arc::new);
    let mut exports = Vec::new();
    for (name, destination) in destinations(config)? {
        let folder = config.server.data.join("call-export").join(name);
        let export = CallExport::start(&folder, destination);
        let what =
            || format!("the queue of call records {}: a folder that this user may write", folder.display());
        exports.push(export.with_context(what)?);
    }
    Ok(RecordSinks { files, exports: exports.into() })
}

fn call_files(config: &Config, board: &Arc<StatusBoard>) -> Result<Option<CallFiles>> {
    let Some(folder) = &config.calls.csv_folder else { return Ok(None) };
    let board = Arc::clone(board);
    let files = CallFiles::start(folder, move |count| board.count_lost_records(count));
    let what = || format!("[calls] csv_folder {}: a folder that this user may write", folder.display());
    files.map(Some).with_context(what)
}

/// The receivers, each with the name of its queue's folder.
fn destinations(config: &Config) -> Result<Vec<(&'static str, Destination)>> {
    let export = &config.call_export;
    let mut destinations = Vec::new();
    if let Some(url) = &export.postgres_url {
        let table = CallTable::new(&url.0).context("[calls.export] postgres_url")?;
        destinations.push(("postgres", Destination::Postgres(Box::new(table))));
    }
    if let Some(url) = &export.http_url {
        let client =
            external_auth::http_client(export.authorities.as_deref()).context("[calls.export] ca")?;
        let key = export.signing_key.as_ref().map(|key| key.0.clone());
        let signing_key = key.or_else(|| config.voice.auth_token.clone());
        destinations
            .push(("http", Destination::Http(HttpDestination { client, url: url.clone(), signing_key })));
    }
    Ok(destinations)
}

/// The state of each receiver.
pub(super) fn status(sinks: &RecordSinks, now: Instant) -> Vec<CallExportStatus> {
    let each = |export: &CallExport| {
        let status = export.status();
        CallExportStatus {
            receiver: status.receiver,
            waiting: status.waiting,
            lag_seconds: status.oldest.map_or(0, |oldest| now.since(oldest).as_secs()),
            sent: status.sent,
            dropped: status.dropped,
            failures: status.failures,
            failure: status.failure,
        }
    };
    sinks.exports.iter().map(each).collect()
}
