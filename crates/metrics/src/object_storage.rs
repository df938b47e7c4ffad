//! Metrics of the store of objects that gets uploads and recordings (`[s3]`).

use std::fmt::Write as _;

use control::ObjectStorageStatus;

use super::{Kind, head, row};

struct ObjectStorageMetric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&ObjectStorageStatus) -> u64,
}

const OBJECT_STORAGE: [ObjectStorageMetric; 3] = [
    ObjectStorageMetric {
        name: "belfry_object_storage_waiting",
        kind: Kind::Gauge,
        help: "Complete files that wait on disk for the store, as last counted",
        read: |storage| storage.waiting,
    },
    ObjectStorageMetric {
        name: "belfry_object_storage_put_total",
        kind: Kind::Counter,
        help: "Files that the store has confirmed",
        read: |storage| storage.put,
    },
    ObjectStorageMetric {
        name: "belfry_object_storage_failures_total",
        kind: Kind::Counter,
        help: "Requests to the store that failed: files wait meanwhile, and readers get 503",
        read: |storage| storage.failures,
    },
];

/// Nothing of a node without a store.
pub(super) fn write(out: &mut String, storage: Option<&ObjectStorageStatus>) {
    let Some(storage) = storage else { return };
    for metric in &OBJECT_STORAGE {
        head(out, metric.name, metric.kind, metric.help);
        let _ = writeln!(out, "{} {}", metric.name, (metric.read)(storage));
    }
}

pub(super) fn reference(page: &mut String) {
    page.push_str(
        "\n## Of the store of objects\n\nOf nodes with `[s3]`.\n\n| name | kind | meaning |\n|---|---|---|\n",
    );
    OBJECT_STORAGE.iter().for_each(|metric| row(page, metric.name, metric.kind, metric.help));
}
