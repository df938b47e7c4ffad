//! The figures of the last minutes, for the graphs of the overview.

use std::time::Duration;

use control::{Latency, ShardCounters, Status};
use serde_json::{Value, json};
use stdx::Instant;
use stdx::ring::Ring;

use crate::limits;

/// The figures of one second, in the order of [`NAMES`]; one that is not known is none.
type Figures = [Option<f64>; NAMES.len()];

/// The names of the figures in answers.
pub(crate) const NAMES: [&str; 24] = [
    "calls_up",
    "calls_ringing",
    "calls_per_second",
    "answers_per_second",
    "failures_per_second",
    "contacts",
    "registrations_per_second",
    "sessions",
    "stanzas_per_second",
    "messages_in_per_second",
    "messages_out_per_second",
    "cpu_percent",
    "memory_bytes",
    "drops_per_second",
    "database_read_ms",
    "writes_waiting",
    "invite_p50_ms",
    "invite_p99_ms",
    "register_p50_ms",
    "register_p99_ms",
    "message_p50_ms",
    "message_p99_ms",
    "sign_in_p50_ms",
    "sign_in_p99_ms",
];

/// The state of the node in one second.
pub(crate) struct Sample<'a> {
    pub(crate) at: Instant,
    pub(crate) status: &'a Status,
    /// Processor time of the process since its start.
    pub(crate) cpu: Duration,
    pub(crate) read_time: Option<Duration>,
}

/// Totals since the start of the node, of which rates are made.
#[derive(Clone, Copy)]
struct Totals {
    at: Instant,
    cpu: Duration,
    counts: [u64; 8],
}

/// The figures of the last seconds.
pub(crate) struct History {
    points: Ring<(u64, Instant, Figures)>,
    /// The number of the newest point; 0: there is none.
    newest: u64,
    totals: Option<Totals>,
}

impl Default for History {
    fn default() -> History {
        History { points: Ring::new(limits::HISTORY), newest: 0, totals: None }
    }
}

impl History {
    pub(crate) fn push(&mut self, sample: &Sample<'_>) {
        let totals = totals(sample);
        // The first sample has nothing to compare with.
        if let Some(before) = self.totals.replace(totals) {
            let figures = figures(sample, &totals, &before);
            self.newest += 1;
            self.points.push_over((self.newest, sample.at, figures));
        }
    }

    /// The points behind the one with that number, each with its time in milliseconds since 1970 and its figures.
    pub(crate) fn since(&self, number: u64) -> Value {
        let is_new = |point: &&(u64, Instant, Figures)| point.0 > number;
        let points: Vec<Value> = self.points.iter().filter(is_new).map(point).collect();
        json!({ "names": NAMES, "points": points, "newest": self.newest })
    }
}

fn point((_, at, figures): &(u64, Instant, Figures)) -> Value {
    let rounded = |figure: &Option<f64>| figure.map(|figure| (figure * 100.0).round() / 100.0);
    let mut values = vec![json!(at.as_millis())];
    values.extend(figures.iter().map(|figure| json!(rounded(figure))));
    Value::Array(values)
}

fn totals(sample: &Sample<'_>) -> Totals {
    let sum = |read: fn(&ShardCounters) -> u64| sample.status.sum(read);
    let counts = [
        sum(|shard| shard.calls_started),
        sum(|shard| shard.calls_answered),
        sum(|shard| shard.calls_failed),
        sum(|shard| shard.registrations),
        sum(|shard| shard.xmpp_stanzas_in + shard.xmpp_stanzas_out),
        sum(|shard| shard.datagrams_in + shard.stream_messages_in),
        sum(|shard| shard.datagrams_out + shard.stream_messages_out),
        sum(|shard| {
            shard.kernel_drops
                + shard.queue_overflows
                + shard.shard_messages_lost
                + shard.media_packets_unsent
        }),
    ];
    Totals { at: sample.at, cpu: sample.cpu, counts }
}

fn figures(sample: &Sample<'_>, now: &Totals, before: &Totals) -> Figures {
    let status = sample.status;
    let sum = |read: fn(&ShardCounters) -> u64| Some(status.sum(read) as f64);
    let seconds = now.at.since(before.at).as_secs_f64();
    let per_second = |more: f64| (seconds > 0.01).then_some(more / seconds);
    let rate = |index: usize| per_second(now.counts[index].saturating_sub(before.counts[index]) as f64);
    let cpu = now.cpu.saturating_sub(before.cpu).as_secs_f64();
    let [invite, register, message, sign_in] =
        [Latency::Invite, Latency::Register, Latency::Message, Latency::SignIn]
            .map(|latency| milliseconds(status, latency));
    [
        sum(|shard| shard.calls_up),
        sum(|shard| shard.calls.saturating_sub(shard.calls_up)),
        rate(0),
        rate(1),
        rate(2),
        sum(|shard| shard.bindings),
        rate(3),
        sum(|shard| shard.xmpp_sessions),
        rate(4),
        rate(5),
        rate(6),
        per_second(cpu * 100.0),
        Some(status.resident_bytes as f64),
        rate(7),
        sample.read_time.map(|time| time.as_secs_f64() * 1_000.0),
        Some(status.node.store.writes_waiting as f64),
        invite.0,
        invite.1,
        register.0,
        register.1,
        message.0,
        message.1,
        sign_in.0,
        sign_in.1,
    ]
}

/// The median and the 99th percentile of a latency in the last ten seconds, in milliseconds.
fn milliseconds(status: &Status, latency: Latency) -> (Option<f64>, Option<f64>) {
    let summary = status.latencies.iter().find(|summary| summary.latency == latency);
    let of = |micros: Option<u64>| micros.map(|micros| micros as f64 / 1_000.0);
    summary.map_or((None, None), |summary| (of(summary.p50_micros), of(summary.p99_micros)))
}

#[cfg(test)]
mod tests {
    use control::LatencySummary;

    use super::*;

    fn push(history: &mut History, second: u64, calls: u64) {
        let shard = ShardCounters { calls_started: calls, calls_up: 3, ..ShardCounters::new(0) };
        let mut status = Status::default();
        status.node.shards = vec![shard];
        let at = Instant::from_unix_seconds(1_800_000_000 + second);
        let cpu = Duration::from_millis(250 * second);
        history.push(&Sample {
            at,
            status: &status,
            cpu,
            read_time: (second == 1).then_some(Duration::from_millis(2)),
        });
    }

    #[test]
    fn rates_are_of_the_second_before_and_an_answer_has_the_new_points_only() {
        let mut history = History::default();
        push(&mut history, 0, 0);
        assert_eq!(history.since(0)["points"].as_array().unwrap().len(), 0, "nothing to compare with");
        push(&mut history, 1, 10);
        push(&mut history, 3, 50);
        let all = history.since(0);
        let of = |point: usize, name: &str| {
            let index = NAMES.iter().position(|known| *known == name).unwrap() + 1;
            all["points"][point][index].clone()
        };
        assert_eq!((of(0, "calls_per_second"), of(1, "calls_per_second")), (json!(10.0), json!(20.0)));
        assert_eq!((of(0, "calls_up"), of(1, "cpu_percent")), (json!(3.0), json!(25.0)));
        assert_eq!((of(0, "database_read_ms"), of(1, "database_read_ms")), (json!(2.0), Value::Null));
        assert_eq!(all["newest"], 2);
        assert_eq!(history.since(1)["points"].as_array().unwrap().len(), 1);
        assert_eq!(history.since(2)["points"].as_array().unwrap().len(), 0);
    }

    #[test]
    fn latencies_are_in_milliseconds_and_unknown_where_nothing_was_measured() {
        let mut history = History::default();
        let register = LatencySummary {
            latency: Latency::Register,
            count: 3,
            p50_micros: Some(1_750),
            p99_micros: Some(30_000_000),
        };
        let status = Status { latencies: vec![register], ..Status::default() };
        for second in 0..2 {
            let at = Instant::from_unix_seconds(1_800_000_000 + second);
            history.push(&Sample { at, status: &status, cpu: Duration::ZERO, read_time: None });
        }
        let all = history.since(0);
        let of = |name: &str| {
            let index = NAMES.iter().position(|known| *known == name).unwrap() + 1;
            all["points"][0][index].clone()
        };
        assert_eq!((of("register_p50_ms"), of("register_p99_ms")), (json!(1.75), json!(30_000.0)));
        assert_eq!(of("invite_p50_ms"), Value::Null);
    }

    #[test]
    fn the_history_is_bounded() {
        let mut history = History::default();
        (0..limits::HISTORY as u64 + 50).for_each(|second| push(&mut history, second, second));
        let all = history.since(0);
        assert_eq!(all["points"].as_array().unwrap().len(), limits::HISTORY);
        assert!(all.to_string().len() < 100_000, "{}", all.to_string().len());
    }
}
