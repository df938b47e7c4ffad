//! Tests of the exposition, and of the page that documents it.

use control::{CertificateStatus, Observed, SignInFailureCount, TargetStatus};

use super::*;

#[test]
fn numbers_come_with_their_shard_and_labels_are_escaped() {
    let shard = ShardCounters {
        shard: 1,
        calls_up: 7,
        voice_recordings: 2,
        voice_streams: 3,
        ..ShardCounters::default()
    };
    let targets = vec![TargetStatus { target: "a\"b".into(), up: false }];
    let node = Observed { shards: vec![ShardCounters::new(0), shard], targets, ..Observed::default() };
    let text = exposition(&Status { version: "1.2".into(), node, ..Status::default() });
    for line in [
        "belfry_build_info{version=\"1.2\"} 1",
        "# TYPE belfry_calls_up gauge",
        "belfry_calls_up{shard=\"0\"} 0",
        "belfry_calls_up{shard=\"1\"} 7",
        "belfry_voice_recordings{shard=\"1\"} 2",
        "belfry_voice_streams{shard=\"1\"} 3",
        "belfry_target_up{target=\"a\\\"b\"} 0",
        "# TYPE belfry_calls_started_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn failed_sign_ins_have_their_service_and_cause() {
    let count = SignInFailureCount { service: "sip".into(), cause: "wrong-password".into(), count: 7 };
    let node = Observed { sign_in_failures: vec![count], ..Observed::default() };
    let text = exposition(&Status { node, ..Status::default() });
    let line = "belfry_sign_in_failures_total{service=\"sip\",cause=\"wrong-password\"} 7";
    assert!(text.lines().any(|found| found == line), "{text}");
}

#[test]
fn the_certificate_has_its_end() {
    let certificate = CertificateStatus {
        name: "a.test".into(),
        ends_in_seconds: Some(86_400),
        order_failure: Some("away".into()),
        ..CertificateStatus::default()
    };
    let node = Observed { certificate: Some(certificate), ..Observed::default() };
    let text = exposition(&Status { node, ..Status::default() });
    for line in [
        "belfry_certificate_expiry_seconds{name=\"a.test\"} 86400",
        "belfry_certificate_order_failed{name=\"a.test\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn receivers_of_call_records_have_their_figures() {
    let export = control::CallExportStatus {
        receiver: "https://a.test/".into(),
        waiting: 3,
        lag_seconds: 60,
        dropped: 2,
        ..Default::default()
    };
    let node = Observed { call_exports: vec![export], ..Observed::default() };
    let text = exposition(&Status { node, ..Status::default() });
    for line in [
        "belfry_call_export_waiting{receiver=\"https://a.test/\"} 3",
        "belfry_call_export_lag_seconds{receiver=\"https://a.test/\"} 60",
        "belfry_call_export_dropped_total{receiver=\"https://a.test/\"} 2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn the_store_of_objects_has_its_figures() {
    let storage = control::ObjectStorageStatus { waiting: 2, put: 7, failures: 1, ..Default::default() };
    let node = Observed { object_storage: Some(storage), ..Observed::default() };
    let page = exposition(&Status { node, ..Status::default() });
    for line in [
        "belfry_object_storage_waiting 2",
        "belfry_object_storage_put_total 7",
        "belfry_object_storage_failures_total 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    assert!(!exposition(&Status::default()).contains("object_storage"));
}

#[test]
fn the_export_of_traces_has_its_figures() {
    let telemetry = control::TelemetryStatus { sent: 5, dropped: 1, missed: 2, ..Default::default() };
    let node = Observed { telemetry: Some(telemetry), ..Observed::default() };
    let text = exposition(&Status { node, ..Status::default() });
    for line in ["belfry_telemetry_spans_sent_total 5", "belfry_telemetry_missed_total 2"] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn names_are_unique_and_counters_say_so() {
    let mut names: Vec<_> = SHARD.iter().chain(SERVERS).map(|metric| metric.name).collect();
    names.extend(NODE.iter().map(|metric| metric.name));
    for metric in SHARD.iter().chain(SERVERS) {
        assert_eq!(metric.name.ends_with("_total"), matches!(metric.kind, Kind::Counter), "{}", metric.name);
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn the_committed_reference_is_up_to_date() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let made = reference();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(file, &made).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap_or_default();
    assert!(committed == made, "docs/metrics.md is out of date: BLESS=1 cargo test -p metrics");
}

/// The names of metrics in the queries of a dashboard.
fn queried(value: &serde_json::Value, names: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Array(all) => all.iter().for_each(|one| queried(one, names)),
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(query) = value.as_str().filter(|_| ["expr", "query"].contains(&&**name)) {
                    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let is_ours =
                        |word: &&str| ["belfry_", "process_"].iter().any(|start| word.starts_with(start));
                    names.extend(words.filter(is_ours).map(str::to_owned));
                }
                queried(value, names);
            }
        }
        _ => {}
    }
}

/// Fails with the names that no node has.
#[track_caller]
fn assert_known(what: &str, names: &std::collections::BTreeSet<String>) {
    let reference = reference();
    // The samples of a histogram have names of their own.
    let is_known = |name: &&String| {
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        reference.contains(&format!("| `{name}` |"))
            || histogram.is_some_and(|name| reference.contains(&format!("| `{name}` | histogram |")))
    };
    let unknown: Vec<_> = names.iter().filter(|name| !is_known(name)).collect();
    assert!(unknown.is_empty(), "{what}: {unknown:?}");
}

#[test]
fn the_dashboards_query_metrics_that_there_are() {
    for (file, least) in [("belfry-farm", 30), ("belfry-node", 50), ("belfry-chat", 40), ("belfry-voice", 15)]
    {
        let path = format!("{}/../../docs/grafana/{file}.json", env!("CARGO_MANIFEST_DIR"));
        let dashboard: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut names = std::collections::BTreeSet::new();
        queried(&dashboard, &mut names);
        assert!(names.len() > least, "{file}: {names:?}");
        assert_known(file, &names);
    }
}

/// The names in the whole text, not only in the queries: what an alert says to look at is there, too.
#[test]
fn alerts_are_about_metrics_that_there_are() {
    for (file, least) in [("belfry.rules.yml", 25), ("belfry.rules.test.yml", 15)] {
        let path = format!("{}/../../docs/prometheus/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_ours = |word: &&str| ["belfry_", "process_"].iter().any(|start| word.starts_with(start));
        let names: std::collections::BTreeSet<_> = words.filter(is_ours).map(str::to_owned).collect();
        assert!(names.len() > least, "{file}: {names:?}");
        assert_known(file, &names);
    }
}
