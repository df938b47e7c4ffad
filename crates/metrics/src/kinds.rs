//! Metrics of chat that are split by kind, each with a label of its own.
//!
//! The kinds are counted as `control::KindCount`s of a [`Family`] (`server::xmpp::counts`); a kind that was
//! never met has no sample. All of them are fixed sets of the protocol, so the number of samples is bounded.

use control::Family;

use super::Kind;

/// Numbers of chat by kind, with a label for it beside `shard`.
pub(super) struct KindMetric {
    pub(super) family: Family,
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
}

pub(super) const KINDS: &[KindMetric] = &[
    KindMetric {
        family: Family::Connections,
        name: "belfry_xmpp_connections_by_transport",
        label: "transport",
        kind: Kind::Gauge,
        help: "Connections of chat clients open; those that turned to TLS are `tls`",
    },
    KindMetric {
        family: Family::StanzasReceived,
        name: "belfry_xmpp_stanzas_received_by_kind_total",
        label: "kind",
        kind: Kind::Counter,
        help: "Stanzas received from chat clients",
    },
    KindMetric {
        family: Family::StanzasSent,
        name: "belfry_xmpp_stanzas_sent_by_kind_total",
        label: "kind",
        kind: Kind::Counter,
        help: "Stanzas sent to chat clients",
    },
    KindMetric {
        family: Family::SignIns,
        name: "belfry_xmpp_sign_ins_by_mechanism_total",
        label: "mechanism",
        kind: Kind::Counter,
        help: "Chat clients that signed in",
    },
    KindMetric {
        family: Family::StreamErrors,
        name: "belfry_xmpp_stream_errors_by_condition_total",
        label: "condition",
        kind: Kind::Counter,
        help: "Streams that ended with an error, by its condition (RFC 6120 §4.9.3)",
    },
    KindMetric {
        family: Family::ExternalSignIns,
        name: "belfry_xmpp_external_sign_ins_total",
        label: "verdict",
        kind: Kind::Counter,
        help: "Verdicts of sources of sign-ins (`[[accounts.sources]]`): accepted, refused or unavailable",
    },
];
