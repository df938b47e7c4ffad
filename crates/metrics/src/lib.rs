//! The metrics, once: name, kind, meaning and where the value is. `/metrics` and `docs/metrics.md` are both made from here.
//!
//! In: `control::Status`, which the node's operator gathers when it is asked; out: text. Nothing is counted here. Names and labels are a contract with dashboards and alert rules (`interop/tests/observe.rs` compares them): a
//! renamed metric breaks them. Labels are bounded: by shards, routes, services and fixed kinds, never by accounts or peers.

#![warn(missing_docs)]

mod call_export;
mod certificate;
mod farm;
mod federation;
mod kind;
mod kinds;
mod latencies;
mod object_storage;
mod telemetry;
mod text;

use std::fmt::Write as _;

use control::{AdmissionStatus, NodeState, ShardCounters, Status};
use federation::SERVERS;
use kind::Kind;
use kinds::KINDS;
use text::{escaped, head, row};

/// One number of each shard, and the place of it in the counters.
struct ShardMetric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&ShardCounters) -> u64,
}

const fn counter(name: &'static str, help: &'static str, read: fn(&ShardCounters) -> u64) -> ShardMetric {
    ShardMetric { name, kind: Kind::Counter, help, read }
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&ShardCounters) -> u64) -> ShardMetric {
    ShardMetric { name, kind: Kind::Gauge, help, read }
}

/// The metrics of each shard, with the label `shard`, in the order of the page; [`SERVERS`] follow.
const SHARD: &[ShardMetric] = &[
    gauge("belfry_calls", "Calls being set up or up", |s| s.calls),
    gauge("belfry_calls_up", "Calls answered and not yet over", |s| s.calls_up),
    gauge("belfry_transactions", "Transactions, also those that only wait for their last timer", |s| {
        s.transactions
    }),
    gauge("belfry_requests_pending", "Requests that a final response is still owed for", |s| s.contexts),
    gauge("belfry_bindings", "Contacts registered", |s| s.bindings),
    gauge("belfry_addresses", "Addresses with a contact, or that had one until lately", |s| s.addresses),
    gauge("belfry_binding_bytes", "Memory held by bindings and their index, an estimate", |s| {
        s.binding_bytes
    }),
    gauge("belfry_watches", "Subscriptions", |s| s.watches),
    gauge("belfry_publications", "Published documents", |s| s.publications),
    gauge("belfry_messages_waiting", "Messages kept until their address registers", |s| s.messages_waiting),
    gauge("belfry_accounts_cached", "Accounts in the cache", |s| s.accounts_cached),
    gauge("belfry_connections", "TCP, TLS and WebSocket connections open", |s| s.connections),
    gauge("belfry_voice_calls", "Calls that applications answer, or are asked about", |s| s.voice_calls),
    gauge(
        "belfry_voice_sessions",
        "Dialogs of our own, also those that wait for the answer to their BYE",
        |s| s.voice_sessions,
    ),
    gauge("belfry_voice_ports", "Pairs of media ports in use", |s| s.voice_ports),
    gauge("belfry_voice_prompts", "Calls that speak, or wait for what they are to speak", |s| {
        s.voice_prompts
    }),
    gauge("belfry_voice_asks", "Documents and sounds on their way", |s| s.voice_asks),
    gauge("belfry_voice_rooms", "Conferences, and connections of queues", |s| s.voice_rooms),
    gauge("belfry_voice_queues", "Queues in which calls wait", |s| s.voice_queues),
    gauge("belfry_voice_members", "Members of conferences and queues", |s| s.voice_members),
    gauge("belfry_voice_seats", "Calls that are, or want to be, in a conference or queue", |s| s.voice_seats),
    gauge(
        "belfry_voice_recordings",
        "Recordings under way or on their way to the disk, and callers whose words are awaited",
        |s| s.voice_recordings,
    ),
    gauge(
        "belfry_voice_streams",
        "Streams of sound to applications, until the last word of each is said",
        |s| s.voice_streams,
    ),
    gauge("belfry_xmpp_connections", "Connections of chat clients open", |s| s.xmpp_connections),
    gauge("belfry_xmpp_sessions", "Chat clients signed in, also those that may come back", |s| {
        s.xmpp_sessions
    }),
    gauge("belfry_xmpp_servers_out", "Connections to other chat servers", |s| s.xmpp_servers_out),
    gauge("belfry_xmpp_servers_in", "Connections of other chat servers", |s| s.xmpp_servers_in),
    gauge("belfry_xmpp_servers_waiting", "Stanzas that wait for a connection to another server", |s| {
        s.xmpp_servers_waiting
    }),
    gauge("belfry_xmpp_components", "Connections of external components", |s| s.xmpp_components),
    gauge("belfry_xmpp_bosh_sessions", "Sessions of BOSH among their connections", |s| s.xmpp_bosh_sessions),
    gauge("belfry_xmpp_upload_bytes", "Bytes of all files of users; the first shard tells", |s| {
        s.xmpp_upload_bytes
    }),
    counter("belfry_calls_started_total", "Calls placed", |s| s.calls_started),
    counter("belfry_calls_answered_total", "Calls answered", |s| s.calls_answered),
    counter("belfry_calls_failed_total", "Calls that ended without an answer", |s| s.calls_failed),
    counter("belfry_calls_lost_total", "Calls whose end no message has told", |s| s.calls_lost),
    counter(
        "belfry_calls_unrecorded_total",
        "Calls without a record, because there were too many at once",
        |s| s.calls_unrecorded,
    ),
    counter("belfry_requests_total", "Requests received", |s| s.requests),
    counter("belfry_responses_total", "Responses received", |s| s.responses),
    counter("belfry_unparsable_total", "What was no SIP message and had no answer", |s| s.unparsable),
    counter("belfry_unfinished_total", "Datagrams without the empty line of a message", |s| s.unfinished),
    counter("belfry_malformed_total", "Requests answered with the fault found in them", |s| s.malformed),
    counter("belfry_retransmissions_received_total", "Requests that came again", |s| {
        s.retransmissions_received
    }),
    counter("belfry_retransmissions_sent_total", "Messages sent again for want of an answer", |s| {
        s.retransmissions_sent
    }),
    counter("belfry_stray_responses_total", "Responses to nothing we asked", |s| s.stray_responses),
    counter("belfry_registers_total", "REGISTER requests", |s| s.registers),
    counter("belfry_registrations_total", "REGISTER requests granted", |s| s.registrations),
    counter("belfry_challenges_total", "Requests asked for a password", |s| s.challenges),
    counter("belfry_authentication_failures_total", "Wrong passwords and unknown users", |s| {
        s.authentication_failures
    }),
    counter(
        "belfry_authentication_paced_total",
        "Requests with credentials answered 503 because there were too many wrong ones before",
        |s| s.authentication_paced,
    ),
    counter(
        "belfry_unproved_limited_total",
        "New requests over UDP from addresses that had acknowledged nothing, over their rate",
        |s| s.unproved_limited,
    ),
    counter(
        "belfry_unproved_withheld_total",
        "Responses over UDP not sent, because their address had acknowledged nothing and had been sent three times its own bytes",
        |s| s.unproved_withheld,
    ),
    counter("belfry_shed_total", "Requests answered 503 because the shard was behind or leaving", |s| s.shed),
    counter("belfry_loops_total", "Requests that had been here before", |s| s.loops),
    counter("belfry_too_many_hops_total", "Requests whose Max-Forwards was used up", |s| s.too_many_hops),
    counter(
        "belfry_calls_limited_total",
        "Calls refused for a limit of their account or route: at once, or a second",
        |s| s.limited_calls,
    ),
    counter(
        "belfry_destinations_denied_total",
        "Calls to destinations that their account or route denies",
        |s| s.denied_destinations,
    ),
    counter("belfry_relay_refused_total", "Requests of strangers to domains that are not ours", |s| {
        s.relay_refused
    }),
    counter("belfry_timeouts_total", "Client transactions without an answer", |s| s.timeouts),
    counter("belfry_messages_kept_total", "Messages kept for users who were not reachable", |s| {
        s.messages_kept
    }),
    counter("belfry_shard_messages_lost_total", "Messages between shards that found an inbox full", |s| {
        s.shard_messages_lost
    }),
    counter(
        "belfry_records_lost_total",
        "Call records and rows of calls, recordings and texts that the database did not take, and call records that were not written to files",
        |s| s.records_lost,
    ),
    counter("belfry_panics_total", "Defects met and survived; each is in the log", |s| s.panics),
    counter("belfry_farm_messages_received_total", "Messages that other nodes sent by links", |s| {
        s.farm_messages_in
    }),
    counter("belfry_farm_messages_sent_total", "Messages to other nodes by links", |s| s.farm_messages_out),
    counter("belfry_farm_messages_returned_total", "Messages that a link did not take or gave back", |s| {
        s.farm_messages_returned
    }),
    counter("belfry_datagrams_received_total", "UDP datagrams received", |s| s.datagrams_in),
    counter("belfry_datagrams_sent_total", "UDP datagrams sent", |s| s.datagrams_out),
    counter("belfry_datagram_received_bytes_total", "Bytes of them, without IP and UDP headers", |s| {
        s.datagram_bytes_in
    }),
    counter("belfry_datagram_sent_bytes_total", "Bytes of them, without IP and UDP headers", |s| {
        s.datagram_bytes_out
    }),
    counter(
        "belfry_kernel_drops_total",
        "Datagrams the kernel threw away because our receive buffer was full",
        |s| s.kernel_drops,
    ),
    counter("belfry_stream_messages_received_total", "Messages received by TCP, TLS and WebSocket", |s| {
        s.stream_messages_in
    }),
    counter("belfry_stream_messages_sent_total", "Messages sent by TCP, TLS and WebSocket", |s| {
        s.stream_messages_out
    }),
    counter(
        "belfry_stream_faults_total",
        "Connections closed because they could not be cut into messages",
        |s| s.stream_faults,
    ),
    counter("belfry_connections_accepted_total", "Connections accepted", |s| s.connections_accepted),
    counter("belfry_connections_made_total", "Connections made by us", |s| s.connections_made),
    counter("belfry_connections_refused_total", "Connections over a limit", |s| s.connections_refused),
    counter("belfry_connections_idle_closed_total", "Connections closed for silence", |s| {
        s.connections_idle_closed
    }),
    counter("belfry_connections_slow_closed_total", "Connections closed for an incomplete message", |s| {
        s.connections_slow_closed
    }),
    counter("belfry_handshake_failures_total", "TLS and WebSocket handshakes that failed", |s| {
        s.handshake_failures
    }),
    counter("belfry_client_certificates_unverified_total", "Clients' certificates that prove nothing", |s| {
        s.client_certificates_unverified
    }),
    counter("belfry_connect_failures_total", "Connections that could not be made", |s| s.connect_failures),
    counter("belfry_send_failures_total", "Messages that certainly were not sent", |s| s.send_failures),
    counter("belfry_queue_overflows_total", "Of these, because a queue was full", |s| s.queue_overflows),
    counter("belfry_hep_sent_total", "Copies of SIP messages sent to the capture server", |s| {
        s.captures_sent
    }),
    counter(
        "belfry_hep_dropped_total",
        "Copies not sent: too many waited, or the kernel did not take them",
        |s| s.captures_dropped,
    ),
    counter("belfry_voice_calls_started_total", "Calls given to applications", |s| s.voice_calls_started),
    counter("belfry_voice_digits_total", "Keys heard in them, as events, tones or INFO", |s| s.voice_digits),
    counter(
        "belfry_voice_callbacks_dropped_total",
        "Callbacks of calls that were not sent: too many were open, or too many to one server",
        |s| s.voice_callbacks_dropped,
    ),
    counter("belfry_media_packets_received_total", "RTP and RTCP packets received", |s| s.media_packets_in),
    counter("belfry_media_packets_sent_total", "RTP and RTCP packets sent", |s| s.media_packets_out),
    counter("belfry_media_packets_dropped_total", "Packets of strangers, and malformed ones", |s| {
        s.media_packets_dropped
    }),
    counter("belfry_media_packets_unsent_total", "Packets the kernel would not take", |s| {
        s.media_packets_unsent
    }),
    counter("belfry_media_timeouts_total", "Calls whose peer sent no media for voice.media_timeout", |s| {
        s.media_timeouts
    }),
    counter("belfry_media_ticks_missed_total", "Ticks of 20 ms left out because the shard was late", |s| {
        s.media_ticks_missed
    }),
    counter("belfry_xmpp_connections_accepted_total", "Connections of chat clients accepted", |s| {
        s.xmpp_connections_accepted
    }),
    counter("belfry_xmpp_connections_refused_total", "Connections of chat clients over a limit", |s| {
        s.xmpp_connections_refused
    }),
    counter("belfry_xmpp_handshake_failures_total", "Their TLS and WebSocket handshakes that failed", |s| {
        s.xmpp_handshake_failures
    }),
    counter("belfry_xmpp_sign_ins_total", "Chat clients that signed in", |s| s.xmpp_sign_ins),
    counter("belfry_xmpp_registrations_total", "Accounts that people made from chat clients", |s| {
        s.xmpp_registrations
    }),
    counter("belfry_xmpp_sign_in_failures_total", "Wrong passwords and unknown users", |s| {
        s.xmpp_sign_in_failures
    }),
    counter("belfry_xmpp_stanzas_received_total", "Stanzas of chat clients", |s| s.xmpp_stanzas_in),
    counter("belfry_xmpp_stanzas_sent_total", "Stanzas sent to chat clients", |s| s.xmpp_stanzas_out),
    counter("belfry_xmpp_texts_received_total", "MESSAGEs of phones that chat was offered", |s| {
        s.xmpp_texts_in
    }),
    counter("belfry_xmpp_texts_sent_total", "Words of chat that phones have taken", |s| s.xmpp_texts_out),
    counter("belfry_xmpp_shed_total", "Sign-ins refused because a shard did not keep up", |s| s.xmpp_shed),
    counter("belfry_xmpp_overflows_total", "Chat clients that did not read what they were sent", |s| {
        s.xmpp_overflows
    }),
    counter("belfry_xmpp_timeouts_total", "Chat clients silent for too long, or too slow to sign in", |s| {
        s.xmpp_timeouts
    }),
    counter("belfry_xmpp_stream_errors_total", "Streams that ended with an error", |s| s.xmpp_stream_errors),
    counter(
        "belfry_xmpp_components_refused_total",
        "Connections of components with a wrong secret, or refused before it was asked for",
        |s| s.xmpp_components_refused,
    ),
    counter("belfry_xmpp_component_stanzas_received_total", "Stanzas received from components", |s| {
        s.xmpp_component_stanzas_in
    }),
    counter("belfry_xmpp_component_stanzas_sent_total", "Stanzas sent to components", |s| {
        s.xmpp_component_stanzas_out
    }),
    counter(
        "belfry_xmpp_component_overflows_total",
        "Components that did not read what they were sent",
        |s| s.xmpp_component_overflows,
    ),
    counter(
        "belfry_xmpp_component_pauses_total",
        "Components that sent too much, and were read more slowly",
        |s| s.xmpp_component_pauses,
    ),
    counter("belfry_xmpp_bosh_faults_total", "Requests of BOSH that broke its rules", |s| s.xmpp_bosh_faults),
    counter("belfry_xmpp_http_requests_total", "Requests of HTTP at the addresses of WebSocket", |s| {
        s.xmpp_http_requests
    }),
    counter("belfry_xmpp_http_refused_total", "Of these, answered with an error", |s| s.xmpp_http_refused),
    counter("belfry_xmpp_uploads_total", "Files that users uploaded", |s| s.xmpp_uploads),
    counter("belfry_xmpp_downloads_total", "Files and parts of them that were fetched", |s| s.xmpp_downloads),
    gauge("belfry_xmpp_rooms", "Rooms in memory", |s| s.xmpp_rooms),
    gauge("belfry_xmpp_occupants", "Who is in rooms, each room by itself", |s| s.xmpp_occupants),
    counter("belfry_xmpp_pauses_total", "Chat clients that sent too much, and were read more slowly", |s| {
        s.xmpp_pauses
    }),
    counter("belfry_xmpp_resumptions_total", "Sessions that went on after their connection was lost", |s| {
        s.xmpp_resumed
    }),
    counter("belfry_xmpp_messages_kept_total", "Messages kept for accounts that were away", |s| s.xmpp_kept),
    counter("belfry_xmpp_archived_total", "Messages put into archives", |s| s.xmpp_archived),
    counter("belfry_xmpp_presence_fan_out_total", "Presence passed on, once for each addressee", |s| {
        s.xmpp_presence_fan_out
    }),
    gauge("belfry_xmpp_roster_bytes", "Memory of the contacts of who is signed in, estimated", |s| {
        s.xmpp_roster_bytes
    }),
    counter(
        "belfry_xmpp_rosters_dropped_total",
        "Of these, let go of for want of place while signed in",
        |s| s.xmpp_rosters_dropped,
    ),
    gauge("belfry_xmpp_block_list_entries", "Entries of the real-time block lists", |s| s.xmpp_rtbl_entries),
    gauge("belfry_xmpp_block_lists_failing", "Of these lists, those that cannot be read now", |s| {
        s.xmpp_rtbl_failing
    }),
    counter(
        "belfry_xmpp_block_list_refused_total",
        "Stanzas that were refused because a block list has their sender",
        |s| s.xmpp_rtbl_refused,
    ),
    gauge("belfry_xmpp_webhook_queued", "Events of chat that wait for an application", |s| {
        s.xmpp_webhooks_queued
    }),
    counter("belfry_xmpp_webhook_sent_total", "Events that an application has taken", |s| {
        s.xmpp_webhooks_sent
    }),
    counter(
        "belfry_xmpp_webhook_dropped_total",
        "Events that found a full queue, or that no application took",
        |s| s.xmpp_webhooks_dropped,
    ),
    gauge("belfry_xmpp_bytestreams_waiting", "Connections that wait for their bytestream", |s| {
        s.xmpp_bytestreams_waiting
    }),
    gauge("belfry_xmpp_bytestreams", "Bytestreams that are active", |s| s.xmpp_bytestreams_active),
    counter("belfry_xmpp_bytestreams_total", "Bytestreams that were activated", |s| s.xmpp_bytestreams_begun),
    counter("belfry_xmpp_bytestream_bytes_total", "Bytes of bytestreams", |s| s.xmpp_bytestreams_bytes),
    counter("belfry_xmpp_bytestreams_refused_total", "Connections that ended without a bytestream", |s| {
        s.xmpp_bytestreams_refused
    }),
];

/// One number of the node.
struct NodeMetric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&Status) -> u64,
}

const NODE: &[NodeMetric] = &[
    NodeMetric {
        name: "belfry_uptime_seconds",
        kind: Kind::Gauge,
        help: "Since the start",
        read: |status| status.uptime_seconds,
    },
    NodeMetric {
        name: "belfry_draining",
        kind: Kind::Gauge,
        help: "1 when nothing new is taken",
        read: |status| u64::from(status.node.state == NodeState::Draining),
    },
    NodeMetric {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        help: "Memory of the process",
        read: |status| status.resident_bytes,
    },
    NodeMetric {
        name: "belfry_store_writes_waiting",
        kind: Kind::Gauge,
        help: "Changes on their way to the disk",
        read: |status| status.node.store.writes_waiting,
    },
    NodeMetric {
        name: "belfry_store_reads_waiting",
        kind: Kind::Gauge,
        help: "Questions to the database that wait",
        read: |status| status.node.store.reads_waiting,
    },
    NodeMetric {
        name: "belfry_store_failures_total",
        kind: Kind::Counter,
        help: "Groups of changes that could not be written; the log says why",
        read: |status| status.node.store.failures,
    },
    NodeMetric {
        name: "belfry_store_unwritable_seconds",
        kind: Kind::Gauge,
        help: "Seconds since the database could be written last; 0 while it can",
        read: |status| match status.node.store.unwritable {
            // Also in its first second.
            Some(_) => status.node.store.unwritable_seconds.max(1),
            None => 0,
        },
    },
    NodeMetric {
        name: "belfry_store_slow_seconds",
        kind: Kind::Gauge,
        help: "Seconds since trial writes to the database's server began to take longer than a second; 0 while they do not",
        read: |status| match status.node.store.slow {
            Some(_) => status.node.store.slow_seconds.max(1),
            None => 0,
        },
    },
];

/// One number of each kind of listener, with the label `service`.
struct AdmissionMetric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&AdmissionStatus) -> u64,
}

const ADMISSIONS: &[AdmissionMetric] = &[
    AdmissionMetric {
        name: "belfry_connections_in_progress",
        kind: Kind::Gauge,
        help: "Connections before their first message, sign-in or request",
        read: |admission| admission.in_progress,
    },
    AdmissionMetric {
        name: "belfry_connections_evicted_total",
        kind: Kind::Counter,
        help: "Of these, closed because others needed their place",
        read: |admission| admission.evicted,
    },
    AdmissionMetric {
        name: "belfry_connections_no_place_total",
        kind: Kind::Counter,
        help: "Connections refused because too many of their source, or of all, were open",
        read: |admission| admission.refused,
    },
    AdmissionMetric {
        name: "belfry_listeners_closed",
        kind: Kind::Gauge,
        help: "Listeners that are closed while this node has no room for connections and others share its addresses",
        read: |admission| admission.closed_listeners,
    },
    AdmissionMetric {
        name: "belfry_listener_closures_total",
        kind: Kind::Counter,
        help: "Times that a listener was closed for want of room",
        read: |admission| admission.listener_closures,
    },
    AdmissionMetric {
        name: "belfry_connections_unaccepted_total",
        kind: Kind::Counter,
        help: "Connections reset when they came, because the process had no file descriptor left",
        read: |admission| admission.unaccepted,
    },
];

const SIGN_IN_FAILURES: (&str, &str) = (
    "belfry_sign_in_failures_total",
    "Sign-ins that failed, by service (`sip`, `xmpp`, `components`, `servers`, `rest`, `console`) and cause; those of `too-many-attempts` were not looked at",
);
const TARGET_UP: (&str, &str) =
    ("belfry_target_up", "1 when a probed target of a route answers, 0 when it is out");
const BUILD: (&str, &str) = ("belfry_build_info", "Always 1; the version is in the label");

/// Prometheus' text format 0.0.4. All samples of one metric follow its head without another in between, as the format demands.
pub fn exposition(status: &Status) -> String {
    let mut out = String::with_capacity(16 * 1024); // Enough for a scrape of a few shards.
    head(&mut out, BUILD.0, Kind::Gauge, BUILD.1);
    let _ = writeln!(out, "{}{{version=\"{}\"}} 1", BUILD.0, escaped(&status.version));
    for metric in NODE {
        head(&mut out, metric.name, metric.kind, metric.help);
        let _ = writeln!(out, "{} {}", metric.name, (metric.read)(status));
    }
    head(&mut out, TARGET_UP.0, Kind::Gauge, TARGET_UP.1);
    // URIs of routes come from operators, and may have any character.
    for target in &status.node.targets {
        let (name, up) = (escaped(&target.target), u8::from(target.up));
        let _ = writeln!(out, "{}{{target=\"{name}\"}} {up}", TARGET_UP.0);
    }
    for metric in ADMISSIONS {
        head(&mut out, metric.name, metric.kind, metric.help);
        for admission in &status.node.admissions {
            let (service, value) = (escaped(&admission.service), (metric.read)(admission));
            let _ = writeln!(out, "{}{{service=\"{service}\"}} {value}", metric.name);
        }
    }
    certificate::write(&mut out, status.node.certificate.as_ref());
    head(&mut out, SIGN_IN_FAILURES.0, Kind::Counter, SIGN_IN_FAILURES.1);
    for failures in &status.node.sign_in_failures {
        let (service, cause) = (escaped(&failures.service), escaped(&failures.cause));
        let (name, count) = (SIGN_IN_FAILURES.0, failures.count);
        let _ = writeln!(out, "{name}{{service=\"{service}\",cause=\"{cause}\"}} {count}");
    }
    call_export::write(&mut out, &status.node.call_exports);
    object_storage::write(&mut out, status.node.object_storage.as_ref());
    telemetry::write(&mut out, status.node.telemetry.as_ref());
    farm::write(&mut out, status.node.farm.as_ref());
    for metric in SHARD.iter().chain(SERVERS) {
        head(&mut out, metric.name, metric.kind, metric.help);
        for shard in &status.node.shards {
            let _ = writeln!(out, "{}{{shard=\"{}\"}} {}", metric.name, shard.shard, (metric.read)(shard));
        }
    }
    latencies::write(&mut out, &status.node.shards);
    for metric in KINDS {
        head(&mut out, metric.name, metric.kind, metric.help);
        for shard in &status.node.shards {
            for count in shard.xmpp_kinds.iter().filter(|count| count.family == metric.family) {
                let (name, label, kind) = (metric.name, metric.label, escaped(&count.kind));
                let (shard, count) = (shard.shard, count.count);
                let _ = writeln!(out, "{name}{{shard=\"{shard}\",{label}=\"{kind}\"}} {count}");
            }
        }
    }
    out
}

/// `docs/metrics.md`, of the same tables as [`exposition`], so that the page has each metric and no other.
pub fn reference() -> String {
    let mut page = String::from(
        "# Metrics\n\n\
         `/metrics` on the address of `[http] listen`, in Prometheus' text format. `/health` there answers 200 and `ok`, or 503 while the\n\
         node drains, does not answer or cannot write its database; a second line says when the council of its farm is away, or its certificate ends within a week. `belfry status` shows the same figures, and rates.\n\n\
         This page is made by the code that serves them; `BLESS=1 cargo test -p metrics` writes it anew.\n\n\
         ## Of the node\n\n| name | kind | meaning |\n|---|---|---|\n",
    );
    row(&mut page, BUILD.0, Kind::Gauge, BUILD.1);
    NODE.iter().for_each(|metric| row(&mut page, metric.name, metric.kind, metric.help));
    row(&mut page, TARGET_UP.0, Kind::Gauge, TARGET_UP.1);
    row(&mut page, SIGN_IN_FAILURES.0, Kind::Counter, SIGN_IN_FAILURES.1);
    certificate::reference(&mut page);
    call_export::reference(&mut page);
    object_storage::reference(&mut page);
    telemetry::reference(&mut page);
    page.push_str(
        "\n## Of each kind of listener, with the label `service`\n\n\
         `sip`, `xmpp`, `xmpp_servers`, `xmpp_components` and `http`.\n\n| name | kind | meaning |\n|---|---|---|\n",
    );
    ADMISSIONS.iter().for_each(|metric| row(&mut page, metric.name, metric.kind, metric.help));
    page.push_str("\n## Of each shard, with the label `shard`\n\n| name | kind | meaning |\n|---|---|---|\n");
    SHARD.iter().chain(SERVERS).for_each(|metric| row(&mut page, metric.name, metric.kind, metric.help));
    latencies::reference(&mut page);
    page.push_str("\n## Of each shard, by kind\n\n| name | kind | label | meaning |\n|---|---|---|---|\n");
    for metric in KINDS {
        let (name, kind, label, help) = (metric.name, metric.kind.name(), metric.label, metric.help);
        let _ = writeln!(page, "| `{name}` | {kind} | `{label}` | {help} |");
    }
    farm::reference(&mut page);
    page
}

#[cfg(test)]
mod tests;
