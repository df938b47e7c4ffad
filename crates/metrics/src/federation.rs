//! Counters of the streams of each shard with other chat servers, with the label `shard`.

use super::{ShardMetric, counter};

/// Metrics of streams with other servers, in the order of the page, behind the other metrics of shards.
pub(super) const SERVERS: &[ShardMetric] = &[
    counter("belfry_xmpp_servers_connections_out_total", "Connections to other chat servers begun", |s| {
        s.xmpp_servers_connections_out
    }),
    counter("belfry_xmpp_servers_connections_in_total", "Connections of other chat servers accepted", |s| {
        s.xmpp_servers_connections_in
    }),
    counter(
        "belfry_xmpp_servers_connections_refused_total",
        "Connections of other servers over a limit",
        |s| s.xmpp_servers_connections_refused,
    ),
    counter(
        "belfry_xmpp_servers_pauses_total",
        "Other servers that sent too much, and were read more slowly",
        |s| s.xmpp_servers_pauses,
    ),
    counter("belfry_xmpp_servers_handshake_failures_total", "TLS handshakes with servers that failed", |s| {
        s.xmpp_servers_handshake_failures
    }),
    counter("belfry_xmpp_servers_failures_total", "Attempts to reach another server that failed", |s| {
        s.xmpp_servers_failures
    }),
    counter(
        "belfry_xmpp_servers_refused_total",
        "Servers that did not prove who they are, or are not wanted",
        |s| s.xmpp_servers_refused,
    ),
    counter("belfry_xmpp_servers_stanzas_received_total", "Stanzas received from other servers", |s| {
        s.xmpp_servers_stanzas_in
    }),
    counter("belfry_xmpp_servers_stanzas_sent_total", "Stanzas sent to other servers", |s| {
        s.xmpp_servers_stanzas_out
    }),
    counter("belfry_xmpp_servers_returned_total", "Stanzas that could not be sent to another server", |s| {
        s.xmpp_servers_returned
    }),
    counter("belfry_xmpp_servers_stream_errors_total", "Streams that another server's bytes ended", |s| {
        s.xmpp_servers_stream_errors
    }),
    counter(
        "belfry_xmpp_servers_posh_lookups_total",
        "Domains whose servers' certificates were looked up by POSH (RFC 7711)",
        |s| s.xmpp_servers_posh_lookups,
    ),
    counter("belfry_xmpp_servers_posh_failures_total", "Lookups by POSH that found no fingerprints", |s| {
        s.xmpp_servers_posh_failures
    }),
    counter(
        "belfry_xmpp_servers_posh_proved_total",
        "Streams with other servers whose certificate POSH has proved",
        |s| s.xmpp_servers_posh_proved,
    ),
];
