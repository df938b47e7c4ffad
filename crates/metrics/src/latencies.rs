//! Latencies of each shard, as Prometheus' histograms.

use std::fmt::Write as _;

use control::{Latency, LatencyCounts, ShardCounters};
use stdx::latency::BOUNDS;

use super::{Kind, head, row};

/// The name and the meaning of a latency.
const fn described(latency: Latency) -> (&'static str, &'static str) {
    match latency {
        Latency::Invite => (
            "belfry_invite_response_seconds",
            "From a new INVITE outside dialogs to the first response that the caller is sent, but a 100 or a challenge: the callee's own time is in it",
        ),
        Latency::Register => (
            "belfry_register_response_seconds",
            "From a REGISTER to its response, challenges (401) left out: they go out at once",
        ),
        Latency::Message => (
            "belfry_xmpp_message_seconds",
            "From a message's arrival at the owner of its sender's account until it is handed to the stream of its recipient, or stored; of clients with stream management (XEP-0198)",
        ),
        Latency::SignIn => (
            "belfry_xmpp_sign_in_seconds",
            "From a chat client's naming of its account until it has its session: steps of the client are in it",
        ),
        Latency::Turn => (
            "belfry_shard_turn_seconds",
            "Turns of the shard's loop in which there was something to do: what comes meanwhile waits for the next",
        ),
    }
}

/// A histogram for each latency and shard. Prometheus' buckets have those below them, too.
pub(super) fn write(out: &mut String, shards: &[ShardCounters]) {
    for latency in Latency::ALL {
        let (name, help) = described(latency);
        head(out, name, Kind::Histogram, help);
        for shard in shards {
            for counts in shard.latencies.iter().filter(|counts| counts.latency == latency) {
                write_one(out, name, shard.shard, counts);
            }
        }
    }
}

fn write_one(out: &mut String, name: &str, shard: u16, counts: &LatencyCounts) {
    let histogram = counts.histogram();
    let mut below = 0;
    for (count, bound) in histogram.buckets().iter().zip(BOUNDS) {
        below += count;
        let _ = writeln!(out, "{name}_bucket{{shard=\"{shard}\",le=\"{}\"}} {below}", seconds(bound));
    }
    let all = histogram.count();
    let _ = writeln!(out, "{name}_bucket{{shard=\"{shard}\",le=\"+Inf\"}} {all}");
    let _ = writeln!(out, "{name}_sum{{shard=\"{shard}\"}} {}", seconds(histogram.sum_micros()));
    let _ = writeln!(out, "{name}_count{{shard=\"{shard}\"}} {all}");
}

/// Microseconds as seconds, without rounding.
fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn reference(page: &mut String) {
    let bounds: Vec<String> = BOUNDS.iter().map(|bound| seconds(*bound)).collect();
    let _ = write!(
        page,
        "\n## Latencies of each shard\n\nHistograms with the labels `shard` and `le`: `NAME_bucket`, `NAME_sum` and `NAME_count`, with the bounds {} seconds.\n\
         A shard reads the clock once a turn, so that what begins and ends in one turn took no time by this measure, and the time for which a message\n\
         waits in the kernel is not in it; `belfry_shard_turn_seconds` bounds both.\n\n\
         | name | kind | meaning |\n|---|---|---|\n",
        bounds.join(", "),
    );
    for latency in Latency::ALL {
        let (name, help) = described(latency);
        row(page, name, Kind::Histogram, help);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stdx::latency::LatencyHistogram;

    use super::*;

    #[test]
    fn buckets_have_those_below_them_and_end_with_all() {
        let mut histogram = LatencyHistogram::default();
        for millis in [1, 2, 2, 40_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let latencies = vec![LatencyCounts::of(Latency::Register, &histogram)];
        let mut text = String::new();
        write(&mut text, &[ShardCounters { latencies, ..ShardCounters::new(3) }]);
        for line in [
            "# TYPE belfry_register_response_seconds histogram",
            "belfry_register_response_seconds_bucket{shard=\"3\",le=\"0.001\"} 1",
            "belfry_register_response_seconds_bucket{shard=\"3\",le=\"0.0025\"} 3",
            "belfry_register_response_seconds_bucket{shard=\"3\",le=\"30\"} 3",
            "belfry_register_response_seconds_bucket{shard=\"3\",le=\"+Inf\"} 4",
            "belfry_register_response_seconds_sum{shard=\"3\"} 40.005",
            "belfry_register_response_seconds_count{shard=\"3\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let inf = text.lines().filter(|line| line.contains("+Inf")).count();
        assert_eq!(inf, 1, "a latency without counts has no samples");
    }
}
