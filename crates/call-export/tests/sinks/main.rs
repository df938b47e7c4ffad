//! Call records on their way to a real database and to a service of HTTP, which are away, slow, refuse, and come back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod http;
mod postgres;

use std::time::Duration;

use call_export::{CallExport, ExportStatus};
use stdx::Instant;
use store::CallRecord;

/// Two minutes, as other programs may keep the machine busy.
const LIMIT: Duration = Duration::from_secs(120);

fn record(call_id: &str) -> CallRecord {
    CallRecord {
        call_id: call_id.into(),
        from: "sip:alice@example.test".into(),
        to: "sip:bob@example.test".into(),
        started_at: Instant::from_micros(1_800_000_000_123_456),
        answered_at: Some(Instant::from_unix_seconds(1_800_000_002)),
        ended_at: Instant::from_unix_seconds(1_800_000_007),
        code: 200,
        reason: "BYE".into(),
        account: Some("alice@example.test".into()),
        callee: None,
    }
}

/// Waits until the state of the export is as asked for.
#[track_caller]
fn until(what: &str, export: &CallExport, is_there: impl Fn(&ExportStatus) -> bool) -> ExportStatus {
    let ask = || Some(export.status()).filter(|status| is_there(status));
    wait::until(what, LIMIT, ask, || format!("{:?}", export.status()))
}
