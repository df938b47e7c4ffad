//! Tests of the exposition, and of the page that documents it.

use control::{Observed, SignInFailureCount, TargetStatus};

use super::*;

#[test]
fn numbers_come_with_their_shard_and_labels_are_escaped() {
    let voice = ::voice::VoiceCounts { recordings: 2, streams: 3, ..Default::default() };
    let mut shard = ShardCounters { shard: 1, calls_up: 7, ..ShardCounters::default() };
    crate::node::shard_counters::set_voice(&mut shard, &voice);
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
fn names_are_unique_and_counters_say_so() {
    let mut names: Vec<_> = SHARD.iter().map(|metric| metric.name).collect();
    names.extend(NODE.iter().map(|metric| metric.name));
    for metric in SHARD {
        assert_eq!(metric.name.ends_with("_total"), matches!(metric.kind, Kind::Counter), "{}", metric.name);
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn the_reference_is_what_is_committed() {
    crate::testing::assert_committed("docs/metrics.md", &reference());
}
