//! The node's state: the source of `belfry status`, `/metrics` and `/health`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use farm::links::LinkCounters;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Control;
use super::farm::FarmStatus;
use super::rates::{Rate, Rates, Totals};
use crate::clock::Clock;
use crate::limits;
use crate::net::NetCounters;
use crate::xmpp::KindCount;

/// The node's own state, as the node reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    pub state: NodeState,
    /// As in the configuration: `udp:127.0.0.1:5060`.
    pub listeners: Vec<Box<str>>,
    /// All that is listened at, SIP's among it.
    #[serde(default)]
    pub services: Vec<Listening>,
    pub domains: Vec<Box<str>>,
    pub shards: Vec<ShardCounters>,
    pub store: StoreStatus,
    /// Targets of routes with probes.
    pub targets: Vec<TargetStatus>,
    /// The reason that the farm's council is away; none while it answers, and at a node outside a farm.
    #[serde(default)]
    pub council_away: Option<Box<str>>,
    /// Connections in progress by kind of listener.
    #[serde(default)]
    pub admissions: Vec<AdmissionStatus>,
    /// By service and cause, where there were any.
    #[serde(default)]
    pub sign_in_failures: Vec<SignInFailureCount>,
    /// The farm as the node sees it; none if it is alone.
    #[serde(default)]
    pub farm: Option<FarmStatus>,
}

/// Sign-ins of one service that failed since the start, for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInFailureCount {
    pub service: Box<str>,
    pub cause: Box<str>,
    pub count: u64,
}

/// The addresses of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    pub service: Box<str>,
    /// Listeners as in the configuration, or a URL.
    pub at: Vec<Box<str>>,
}

/// Connections of one kind of listener that are in progress: before a first message, a sign-in or a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionStatus {
    pub service: Box<str>,
    pub in_progress: u64,
    /// Closed to make room for others.
    pub evicted: u64,
    /// Closed when accepted.
    pub refused: u64,
}

/// The phase of a node's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    #[default]
    Running,
    /// Takes nothing new.
    Draining,
}

/// The state of the store service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    pub writes_waiting: u64,
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
}

/// A route's target, as its probes see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    pub target: Box<str>,
    pub up: bool,
}

/// One shard. `docs/metrics.md` says what each means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardCounters {
    pub shard: u16,

    // Now.
    pub calls: u64,
    pub calls_up: u64,
    pub transactions: u64,
    pub contexts: u64,
    pub bindings: u64,
    pub addresses: u64,
    pub binding_bytes: u64,
    pub watches: u64,
    pub publications: u64,
    pub messages_waiting: u64,
    pub accounts_cached: u64,
    pub connections: u64,
    pub voice_calls: u64,
    pub voice_sessions: u64,
    pub voice_ports: u64,
    pub voice_prompts: u64,
    pub voice_asks: u64,
    pub voice_streams: u64,
    pub voice_rooms: u64,
    pub voice_queues: u64,
    pub voice_members: u64,
    pub voice_seats: u64,
    pub voice_recordings: u64,
    pub xmpp_connections: u64,
    pub xmpp_sessions: u64,
    pub xmpp_components: u64,
    pub xmpp_bosh_sessions: u64,
    pub xmpp_upload_bytes: u64,
    pub xmpp_rooms: u64,
    pub xmpp_occupants: u64,
    pub xmpp_servers_out: u64,
    pub xmpp_servers_in: u64,
    pub xmpp_servers_waiting: u64,

    // Since the start.
    pub calls_started: u64,
    pub calls_answered: u64,
    pub calls_failed: u64,
    pub calls_lost: u64,
    pub calls_unrecorded: u64,
    pub requests: u64,
    pub responses: u64,
    pub unparsable: u64,
    pub unfinished: u64,
    pub malformed: u64,
    pub retransmissions_received: u64,
    pub retransmissions_sent: u64,
    pub stray_responses: u64,
    pub registers: u64,
    pub registrations: u64,
    pub challenges: u64,
    pub authentication_failures: u64,
    pub authentication_paced: u64,
    pub unproved_limited: u64,
    pub unproved_withheld: u64,
    pub shed: u64,
    pub loops: u64,
    pub too_many_hops: u64,
    pub relay_refused: u64,
    pub limited_calls: u64,
    pub denied_destinations: u64,
    pub timeouts: u64,
    pub messages_kept: u64,
    pub panics: u64,
    pub letters_lost: u64,
    pub records_lost: u64,
    pub datagrams_in: u64,
    pub datagrams_out: u64,
    pub datagram_bytes_in: u64,
    pub datagram_bytes_out: u64,
    pub kernel_drops: u64,
    /// Messages that other nodes sent by links.
    pub farm_messages_in: u64,
    /// Messages to other nodes by links.
    pub farm_messages_out: u64,
    /// Messages that a link did not take or gave back.
    pub farm_messages_returned: u64,
    pub stream_messages_in: u64,
    pub stream_messages_out: u64,
    pub stream_faults: u64,
    pub connections_accepted: u64,
    pub connections_made: u64,
    pub connections_refused: u64,
    pub connections_idle_closed: u64,
    pub connections_slow_closed: u64,
    pub handshake_failures: u64,
    pub client_certificates_unverified: u64,
    pub connect_failures: u64,
    pub send_failures: u64,
    pub queue_overflows: u64,
    pub voice_calls_started: u64,
    pub voice_digits: u64,
    pub xmpp_connections_accepted: u64,
    pub xmpp_connections_refused: u64,
    pub xmpp_handshake_failures: u64,
    pub xmpp_sign_ins: u64,
    pub xmpp_sign_in_failures: u64,
    pub xmpp_registrations: u64,
    pub xmpp_stanzas_in: u64,
    pub xmpp_stanzas_out: u64,
    pub xmpp_texts_in: u64,
    pub xmpp_texts_out: u64,
    pub xmpp_overflows: u64,
    pub xmpp_timeouts: u64,
    pub xmpp_stream_errors: u64,
    pub xmpp_components_refused: u64,
    pub xmpp_component_pauses: u64,
    pub xmpp_component_stanzas_in: u64,
    pub xmpp_component_stanzas_out: u64,
    pub xmpp_component_overflows: u64,
    pub xmpp_bosh_faults: u64,
    pub xmpp_http_requests: u64,
    pub xmpp_http_refused: u64,
    pub xmpp_uploads: u64,
    pub xmpp_downloads: u64,
    pub xmpp_pauses: u64,
    pub xmpp_resumed: u64,
    pub xmpp_kept: u64,
    pub xmpp_archived: u64,
    pub xmpp_presence_fan_out: u64,
    pub xmpp_roster_bytes: u64,
    pub xmpp_rosters_dropped: u64,
    /// Also those of the past: connections are of now.
    pub xmpp_kinds: Vec<KindCount>,
    pub xmpp_servers_connections_out: u64,
    pub xmpp_servers_connections_in: u64,
    pub xmpp_servers_connections_refused: u64,
    pub xmpp_servers_pauses: u64,
    pub xmpp_servers_handshake_failures: u64,
    pub xmpp_servers_failures: u64,
    pub xmpp_servers_refused: u64,
    pub xmpp_servers_stanzas_in: u64,
    pub xmpp_servers_stanzas_out: u64,
    pub xmpp_servers_returned: u64,
    pub xmpp_servers_stream_errors: u64,
    pub media_packets_in: u64,
    pub media_packets_out: u64,
    pub media_packets_dropped: u64,
    pub media_packets_unsent: u64,
    pub media_timeouts: u64,
    pub media_ticks_missed: u64,
}

impl ShardCounters {
    /// Counters of a shard, all zero but its number. The `with_*` methods add what each of its parts counted.
    pub fn new(shard: u16) -> Self {
        ShardCounters { shard, ..ShardCounters::default() }
    }

    /// Adds the counters of the links to other nodes.
    #[must_use]
    pub fn with_links(mut self, links: &LinkCounters) -> Self {
        self.farm_messages_in = links.received;
        self.farm_messages_out = links.sent;
        self.farm_messages_returned = links.returned;
        self
    }

    /// Adds the counters of the network layer.
    #[must_use]
    pub fn with_net(mut self, net: &NetCounters) -> Self {
        self.connections = net.flows_open;
        self.datagrams_in = net.datagrams_in;
        self.datagrams_out = net.datagrams_out;
        self.datagram_bytes_in = net.datagram_bytes_in;
        self.datagram_bytes_out = net.datagram_bytes_out;
        self.kernel_drops = net.kernel_drops;
        self.stream_messages_in = net.stream_messages_in;
        self.stream_messages_out = net.stream_messages_out;
        self.stream_faults = net.stream_faults;
        self.connections_accepted = net.flows_accepted;
        self.connections_made = net.flows_connected;
        self.connections_refused = net.flows_refused;
        self.connections_idle_closed = net.flows_idle_closed;
        self.connections_slow_closed = net.flows_slow_closed;
        self.handshake_failures = net.handshake_failures;
        self.client_certificates_unverified = net.client_certificates_unverified;
        self.connect_failures = net.connect_failures;
        self.send_failures = net.send_failures;
        self.queue_overflows = net.queue_overflows;
        self
    }

    /// Adds the counters of the SIP endpoint.
    #[must_use]
    pub fn with_sip(mut self, sip: &sip::endpoint::Counters) -> Self {
        self.requests = sip.requests;
        self.responses = sip.responses;
        self.unparsable = sip.unparsable;
        self.unfinished = sip.unfinished;
        self.malformed = sip.malformed;
        self.retransmissions_received = sip.retransmissions_received;
        self.retransmissions_sent = sip.retransmissions_sent;
        self.stray_responses = sip.stray_responses;
        self.registers = sip.registers;
        self.registrations = sip.registered;
        self.challenges = sip.challenged;
        self.authentication_failures = sip.authentication_failures;
        self.authentication_paced = sip.authentication_paced;
        self.unproved_limited = sip.unproved_limited;
        self.unproved_withheld = sip.unproved_withheld;
        self.shed = sip.shed;
        self.loops = sip.loops;
        self.too_many_hops = sip.too_many_hops;
        self.relay_refused = sip.refused_relay;
        self.limited_calls = sip.refused_by_limit;
        self.denied_destinations = sip.refused_destinations;
        self.timeouts = sip.timeouts;
        self.messages_kept = sip.messages_kept;
        self
    }

    /// Adds the counters of the router.
    #[must_use]
    pub fn with_router(mut self, router: &router::Counts) -> Self {
        self.addresses = router.addresses as u64;
        self.bindings = router.bindings as u64;
        self.watches = router.watches as u64;
        self.publications = router.publications as u64;
        self.messages_waiting = router.kept_messages as u64;
        self.binding_bytes = router.memory as u64;
        self
    }

    /// Adds the counters of programmable voice.
    #[must_use]
    pub fn with_voice(mut self, voice: &::voice::VoiceCounts) -> Self {
        self.voice_calls = voice.calls;
        self.voice_sessions = voice.sessions;
        self.voice_ports = voice.ports;
        self.voice_prompts = voice.prompts;
        self.voice_asks = voice.helper_requests;
        self.voice_streams = voice.streams;
        self.voice_rooms = voice.rooms;
        self.voice_queues = voice.queues;
        self.voice_members = voice.members;
        self.voice_seats = voice.seats;
        self.voice_recordings = voice.recordings;
        self.voice_calls_started = voice.calls_total;
        self.voice_digits = voice.digits_total;
        self.media_packets_in = voice.packets_in;
        self.media_packets_out = voice.packets_out;
        self.media_packets_dropped = voice.packets_dropped;
        self.media_packets_unsent = voice.packets_unsent;
        self.media_timeouts = voice.media_timeouts;
        self.media_ticks_missed = voice.ticks_missed;
        self
    }

    /// Adds the counters of chat.
    #[must_use]
    pub fn with_xmpp(mut self, xmpp: &crate::xmpp::XmppCounts) -> Self {
        self.xmpp_connections = xmpp.connections;
        self.xmpp_sessions = xmpp.sessions;
        self.xmpp_connections_accepted = xmpp.connections_total;
        self.xmpp_connections_refused = xmpp.refused;
        self.xmpp_handshake_failures = xmpp.handshake_failures;
        self.xmpp_sign_ins = xmpp.sign_ins;
        self.xmpp_sign_in_failures = xmpp.sign_in_failures;
        self.xmpp_registrations = xmpp.registrations;
        self.xmpp_stanzas_in = xmpp.stanzas_in;
        self.xmpp_stanzas_out = xmpp.stanzas_out;
        self.xmpp_texts_in = xmpp.texts_in;
        self.xmpp_texts_out = xmpp.texts_out;
        self.xmpp_overflows = xmpp.overflows;
        self.xmpp_timeouts = xmpp.timeouts;
        self.xmpp_stream_errors = xmpp.faults;
        self.xmpp_components = xmpp.components;
        self.xmpp_components_refused = xmpp.components_refused;
        self.xmpp_component_pauses = xmpp.component_pauses;
        self.xmpp_component_stanzas_in = xmpp.component_stanzas_in;
        self.xmpp_component_stanzas_out = xmpp.component_stanzas_out;
        self.xmpp_component_overflows = xmpp.component_overflows;
        self.xmpp_bosh_sessions = xmpp.bosh_sessions;
        self.xmpp_bosh_faults = xmpp.bosh_faults;
        self.xmpp_http_requests = xmpp.http_requests;
        self.xmpp_http_refused = xmpp.http_refused;
        self.xmpp_uploads = xmpp.uploads;
        self.xmpp_downloads = xmpp.downloads;
        self.xmpp_upload_bytes = xmpp.upload_bytes;
        self.xmpp_pauses = xmpp.pauses;
        self.xmpp_resumed = xmpp.resumed;
        self.xmpp_kept = xmpp.kept;
        self.xmpp_archived = xmpp.archived;
        self.xmpp_presence_fan_out = xmpp.fan_out;
        self.xmpp_roster_bytes = xmpp.roster_bytes;
        self.xmpp_rosters_dropped = xmpp.rosters_dropped;
        self.xmpp_rooms = xmpp.rooms;
        self.xmpp_occupants = xmpp.occupants;
        self.xmpp_kinds.clone_from(&xmpp.kinds);
        let servers = &xmpp.servers;
        self.xmpp_servers_out = servers.outgoing;
        self.xmpp_servers_in = servers.incoming;
        self.xmpp_servers_waiting = servers.waiting;
        self.xmpp_servers_connections_out = servers.outgoing_total;
        self.xmpp_servers_connections_in = servers.incoming_total;
        self.xmpp_servers_connections_refused = xmpp.server_connections_refused;
        self.xmpp_servers_pauses = xmpp.server_pauses;
        self.xmpp_servers_handshake_failures = xmpp.server_handshake_failures;
        self.xmpp_servers_failures = servers.failures;
        self.xmpp_servers_refused = servers.refused;
        self.xmpp_servers_stanzas_in = servers.stanzas_in;
        self.xmpp_servers_stanzas_out = servers.stanzas_out;
        self.xmpp_servers_returned = servers.returned;
        self.xmpp_servers_stream_errors = servers.faults;
        self
    }

    /// Adds the counters of the call ledger.
    #[must_use]
    pub fn with_ledger(mut self, ledger: &call::LedgerCounts) -> Self {
        self.calls = ledger.live as u64;
        self.calls_up = ledger.answered as u64;
        self.calls_started = ledger.started_total;
        self.calls_answered = ledger.answered_total;
        self.calls_failed = ledger.failed_total;
        self.calls_lost = ledger.lost_total;
        self.calls_unrecorded = ledger.unrecorded_total;
        self
    }
}

/// All there is to tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub version: Box<str>,
    pub pid: u32,
    pub uptime_seconds: u64,
    /// Memory of the process; 0 where the system does not say.
    pub resident_bytes: u64,
    pub rates: Vec<Rate>,
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
pub fn watch<C: Control>(control: Rc<C>, clock: Clock) -> (StatusSource, impl Future<Output = ()>) {
    let (send, asked) = mpsc::channel(limits::STATUS_QUEUE);
    (StatusSource(send), run(control, clock, asked))
}

async fn run<C: Control>(
    control: Rc<C>,
    clock: Clock,
    mut asked: mpsc::Receiver<oneshot::Sender<Arc<Status>>>,
) {
    let started = clock.now();
    let mut rates = Rates::default();
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
        let (now, totals) = (clock.now(), Totals::of(&node.shards));
        let Some(asker) = asker else {
            rates.sample(now, totals);
            continue;
        };
        let status = Status {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: now.since(started).as_secs(),
            resident_bytes: resident_bytes().unwrap_or(0),
            rates: rates.rates(now, totals),
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
