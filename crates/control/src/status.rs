//! The node's state: the source of `belfry status`, `/metrics` and `/health`.

mod certificate;
mod shard;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Control;
use super::farm::FarmStatus;
use super::latency::{self, LatencySummary, RecentLatencies};
use super::rates::{Rate, Rates, Totals};
use crate::limits;
pub use certificate::{CertificateSource, CertificateStatus};
pub use shard::ShardCounters;

/// The node's own state, as the node reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The phase of the node's life.
    pub state: NodeState,
    /// As in the configuration: `udp:127.0.0.1:5060`.
    pub listeners: Vec<Box<str>>,
    /// All that is listened at, SIP's among it.
    #[serde(default)]
    pub services: Vec<Listening>,
    /// The domains that the node serves.
    pub domains: Vec<Box<str>>,
    /// The figures of each shard.
    pub shards: Vec<ShardCounters>,
    /// The state of the store.
    pub store: StoreStatus,
    /// Targets of routes with probes.
    pub targets: Vec<TargetStatus>,
    /// The reason that the farm's council is away; none while it answers, and at a node outside a farm.
    #[serde(default)]
    pub council_away: Option<Box<str>>,
    /// The certificate of the listeners with TLS; none in a node of an earlier version.
    #[serde(default)]
    pub certificate: Option<CertificateStatus>,
    /// Connections in progress by kind of listener.
    #[serde(default)]
    pub admissions: Vec<AdmissionStatus>,
    /// By service and cause, where there were any.
    #[serde(default)]
    pub sign_in_failures: Vec<SignInFailureCount>,
    /// The farm as the node sees it; none if it is alone.
    #[serde(default)]
    pub farm: Option<FarmStatus>,
    /// The receivers of call records; none of a node of an earlier version.
    #[serde(default)]
    pub call_exports: Vec<CallExportStatus>,
    /// The export of traces of calls; none of a node without one or of an earlier version.
    #[serde(default)]
    pub telemetry: Option<TelemetryStatus>,
    /// The store of objects; none of a node without one or of an earlier version.
    #[serde(default)]
    pub object_storage: Option<ObjectStorageStatus>,
}

/// The store of objects that gets uploads and recordings (`[s3]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectStorageStatus {
    /// The URL of the service and the bucket, without keys.
    pub store: Box<str>,
    /// Files that wait on disk, as last counted.
    pub waiting: u64,
    /// Files that the store has confirmed, since the start.
    pub put: u64,
    /// Requests that failed, since the start.
    pub failures: u64,
    /// The reason of the last failure, until a request succeeds.
    pub failure: Option<Box<str>>,
}

/// The way of traces of calls to their collector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryStatus {
    /// The URL of the collector.
    pub collector: Box<str>,
    /// Spans that the collector has taken, since the start.
    pub sent: u64,
    /// Spans that were dropped, since the start.
    pub dropped: u64,
    /// Messages, stanzas, requests and calls that were not looked at, since the start, because there were too many.
    pub missed: u64,
    /// Requests to the collector that failed, since the start.
    pub failures: u64,
    /// The reason of the last failure, until spans are taken.
    pub failure: Option<Box<str>>,
}

/// The way of call records to one receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallExportStatus {
    /// The database or the URL, without a password.
    pub receiver: Box<str>,
    /// Records that wait on disk.
    pub waiting: u64,
    /// Seconds since the end of the oldest call that waits; 0 if none does.
    pub lag_seconds: u64,
    /// Records that the receiver has taken, since the start.
    pub sent: u64,
    /// Records that were not sent, since the start.
    pub dropped: u64,
    /// Groups that the receiver did not take, since the start.
    pub failures: u64,
    /// The reason of the last failure, until a group is taken.
    pub failure: Option<Box<str>>,
}

/// Sign-ins of one service that failed since the start, for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInFailureCount {
    /// `sip`, `xmpp`, `components`, `servers`, `rest` or `console`.
    pub service: Box<str>,
    /// The cause, as `belfry_sign_in_failures_total` names it.
    pub cause: Box<str>,
    /// The sign-ins that failed for that cause.
    pub count: u64,
}

/// The addresses of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// The name of the service, as `sip` or `xmpp`.
    pub service: Box<str>,
    /// Listeners as in the configuration, or a URL.
    pub at: Vec<Box<str>>,
}

/// Connections of one kind of listener that are in progress: before a first message, a sign-in or a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionStatus {
    /// The kind of listener: `sip`, `xmpp`, `xmpp_servers`, `xmpp_components` or `http`.
    pub service: Box<str>,
    /// Connections in progress now.
    pub in_progress: u64,
    /// Closed to make room for others.
    pub evicted: u64,
    /// Closed when accepted.
    pub refused: u64,
    /// Listeners that are closed now, because the node has no room for more connections.
    #[serde(default)]
    pub closed_listeners: u64,
    /// Times that a listener was closed for that.
    #[serde(default)]
    pub listener_closures: u64,
    /// Reset when they came, because the process had no file descriptor left.
    #[serde(default)]
    pub unaccepted: u64,
}

/// The phase of a node's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// The node takes calls and connections.
    #[default]
    Running,
    /// Takes nothing new.
    Draining,
}

/// The state of the store service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Changes that wait for the writer.
    pub writes_waiting: u64,
    /// Reads that wait for a reader.
    pub reads_waiting: u64,
    /// Groups that could not be written since the start.
    pub failures: u64,
    /// The reason of the last failure, in words.
    pub last_failure: Option<Box<str>>,
    /// The reason why the database cannot be written now, in words. `None`: it can.
    #[serde(default)]
    pub unwritable: Option<Box<str>>,
    /// Seconds since the database could be written last, while it cannot.
    #[serde(default)]
    pub unwritable_seconds: u64,
    /// True if the server of the database is the reason, and not this machine.
    #[serde(default)]
    pub is_of_server: bool,
    /// The times of writes to the database's server, in words, while they are slow. `None`: they are quick, or fail.
    #[serde(default)]
    pub slow: Option<Box<str>>,
    /// Seconds since the first slow one, while they are slow.
    #[serde(default)]
    pub slow_seconds: u64,
}

/// A route's target, as its probes see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// The address of the target, as its route has it.
    pub target: Box<str>,
    /// The target answers its probes.
    pub up: bool,
}

/// All there is to tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of Belfry.
    pub version: Box<str>,
    /// The number of the process.
    pub pid: u32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Memory of the process; 0 where the system does not say.
    pub resident_bytes: u64,
    /// Figures a second, over several intervals.
    pub rates: Vec<Rate>,
    /// Latencies of the last ten seconds; none of a node of an earlier version.
    #[serde(default)]
    pub latencies: Vec<LatencySummary>,
    /// The state that the node reports.
    #[serde(flatten)]
    pub node: Observed,
}

impl Status {
    /// Over all shards.
    pub fn sum(&self, read: impl Fn(&ShardCounters) -> u64) -> u64 {
        self.node.shards.iter().map(read).sum()
    }
}

/// A handle to request the status; from any thread.
#[derive(Clone, Debug)]
pub struct StatusSource(mpsc::Sender<oneshot::Sender<Arc<Status>>>);

impl StatusSource {
    /// The source of a node that never answers, for tests of its clients.
    pub fn silent() -> StatusSource {
        let (send, _) = mpsc::channel(1);
        StatusSource(send)
    }

    /// `None`: the node did not answer within `limits::STATUS_PATIENCE`.
    pub async fn get(&self) -> Option<Arc<Status>> {
        let (answer, status) = oneshot::channel();
        self.0.try_send(answer).ok()?;
        timeout(limits::STATUS_PATIENCE, status).await.ok()?.ok()
    }
}

/// Reads the node's counters once a second, for the rates, and on every request for a status. Runs until all
/// sources are gone.
pub fn watch<C: Control>(control: Rc<C>) -> (StatusSource, impl Future<Output = ()>) {
    let (send, asked) = mpsc::channel(limits::STATUS_QUEUE);
    (StatusSource(send), run(control, asked))
}

async fn run<C: Control>(control: Rc<C>, mut asked: mpsc::Receiver<oneshot::Sender<Arc<Status>>>) {
    let started = control.now();
    let (mut rates, mut recent) = (Rates::default(), RecentLatencies::default());
    let mut every_second = interval(Duration::from_secs(1));
    every_second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let asker = tokio::select! {
            _ = every_second.tick() => None,
            asker = asked.recv() => match asker {
                Some(asker) => Some(asker),
                None => return,
            },
        };
        let node = control.status().await;
        let (now, totals) = (control.now(), Totals::of(&node.shards));
        let latencies = latency::sum(&node.shards);
        let Some(asker) = asker else {
            rates.sample(now, totals);
            recent.sample(now, latencies);
            continue;
        };
        let status = Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: now.since(started).as_secs(),
            resident_bytes: resident_bytes().unwrap_or(0),
            rates: rates.rates(now, totals),
            latencies: recent.summaries(now, &latencies),
            node,
        };
        // The asker may have gone.
        let _ = asker.send(Arc::new(status));
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
