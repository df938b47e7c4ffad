//! Counters of the XMPP of a shard.

use std::rc::Rc;

use control::{Family, KindCount};
use stdx::Instant;
use stdx::latency::LatencyHistogram;
use voice_io::helpers::WebhookFigures;
use xmpp_io::bytestreams::BytestreamFigures;
use xmpp_io::servers;
use xmpp_io::streams::Stream;

use super::rtbl::{self, RtblFigures};
use super::{Xmpp, bytestreams, webhooks};

/// Counters and gauges of one shard's XMPP, for status and metrics.
#[derive(Clone, Debug, Default)]
pub struct XmppCounts {
    /// Connections of clients open now.
    pub connections: u64,
    /// Those that wait to be resumed among them.
    pub sessions: u64,
    /// Connections of clients accepted.
    pub connections_total: u64,
    /// Connections of clients over a limit.
    pub refused: u64,
    /// Sign-ins that were refused because this shard, or the owner of the account, does not keep up.
    pub shed: u64,
    /// TLS and WebSocket handshakes of clients that failed.
    pub handshake_failures: u64,
    /// Clients that signed in.
    pub sign_ins: u64,
    /// Sign-ins with a wrong password or an unknown user.
    pub sign_in_failures: u64,
    /// Accounts that people made for themselves.
    pub registrations: u64,
    /// Stanzas received from clients.
    pub stanzas_in: u64,
    /// Stanzas sent to clients.
    pub stanzas_out: u64,
    /// Messages from phones to accounts.
    pub texts_in: u64,
    /// Messages to phones that a phone has accepted.
    pub texts_out: u64,
    /// Clients that did not read the bytes sent to them.
    pub overflows: u64,
    /// Clients that were silent for too long, or too slow to sign in.
    pub timeouts: u64,
    /// Streams of clients that ended with a stream error (RFC 6120 §4.9).
    pub faults: u64,
    /// Connections of components.
    pub components: u64,
    /// Connections of components with a wrong secret, or refused before the handshake.
    pub components_refused: u64,
    /// Stanzas received from components.
    pub component_stanzas_in: u64,
    /// Stanzas sent to components.
    pub component_stanzas_out: u64,
    /// Components that did not read the bytes sent to them.
    pub component_overflows: u64,
    /// Components and servers that sent too much were not read from for a while.
    pub component_pauses: u64,
    /// The same of other servers.
    pub server_pauses: u64,
    /// Open sessions of BOSH (XEP-0124).
    pub bosh_sessions: u64,
    /// Requests that broke the rules of BOSH.
    pub bosh_faults: u64,
    /// HTTP requests at the addresses of WebSocket.
    pub http_requests: u64,
    /// HTTP requests that were answered with an error.
    pub http_refused: u64,
    /// Files that users uploaded (XEP-0363).
    pub uploads: u64,
    /// Files and parts of files that were fetched.
    pub downloads: u64,
    /// Bytes of all files; only the first shard reports them.
    pub upload_bytes: u64,
    /// Clients that sent too much were not read from for a while.
    pub pauses: u64,
    /// Sessions that went on after their connection was lost (XEP-0198 §5).
    pub resumed: u64,
    /// Messages kept for offline users, and those put into archives.
    pub kept: u64,
    /// Messages put into archives (XEP-0313).
    pub archived: u64,
    /// From the arrival of a message at the owner of its sender's account until it is delivered or stored; of clients with stream management.
    pub message_handling: LatencyHistogram,
    /// From the name of an account to its session.
    pub sign_in_latencies: LatencyHistogram,
    /// Presence that was passed on, each addressee once.
    pub fan_out: u64,
    /// Bytes of the rosters of signed-in users, and how many were dropped for want of place.
    pub roster_bytes: u64,
    /// Rosters of signed-in users that were dropped for want of place.
    pub rosters_dropped: u64,
    /// Real-time block lists.
    pub rtbl: RtblFigures,
    /// Events for applications, of all shards; only the first one reports them.
    pub webhooks: WebhookFigures,
    /// The proxy of bytestreams; only the first shard reports it.
    pub bytestreams: BytestreamFigures,
    /// In memory.
    pub rooms: u64,
    /// Occupants of rooms; a user in two rooms counts twice.
    pub occupants: u64,
    /// Counters by transport, stanza kind, mechanism and error condition.
    pub kinds: Vec<KindCount>,
    /// Other servers.
    pub servers: ::xmpp::s2s::Counts,
    /// Connections of other servers over a limit.
    pub server_connections_refused: u64,
    /// TLS handshakes with other servers that failed.
    pub server_handshake_failures: u64,
}

/// Counters of a host's work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) kept: u64,
    pub(super) archived: u64,
    pub(super) fan_out: u64,
    /// Messages of clients with stream management, until they are delivered or stored.
    pub(super) message_handling: LatencyHistogram,
    /// Sign-ins, from the mechanism's first step that needs the account to the session.
    pub(super) sign_ins: LatencyHistogram,
}

impl Counted {
    /// A client has its session, new or resumed.
    pub(super) fn end_sign_in(&mut self, now: Instant, stream: Option<Rc<Stream>>) {
        if let Some(length) = stream.and_then(|stream| stream.end_sign_in(now)) {
            self.sign_ins.record(length);
        }
    }

    pub(super) fn change(&mut self, change: &chat::Change) {
        match change {
            chat::Change::Offline { .. } => self.kept += 1,
            chat::Change::Archive { .. } => self.archived += 1,
            _ => {}
        }
    }
}

/// Bytes of uploaded files of all shards, which the first one reports.
fn upload_bytes(xmpp: &Xmpp) -> u64 {
    let uploads = xmpp.streams.uploads().filter(|_| xmpp.queues.own().shard == 0);
    uploads.map_or(0, |uploads| uploads.used())
}

impl Xmpp {
    pub(crate) fn counts(&self) -> XmppCounts {
        let (streams, components) = (self.streams.counters(), self.router.components.counters());
        let (rooms, occupants) = self.host.get().rooms();
        let mut kinds = self.streams.kinds();
        kinds.extend(streams.stanzas_in.kinds(Family::StanzasReceived));
        kinds.extend(streams.stanzas_out.kinds(Family::StanzasSent));
        let clients = self.clients.counts();
        kinds.extend(clients.verdicts.kinds());
        let (servers, wires) = self.router.servers.as_ref().map(servers::Servers::counts).unwrap_or_default();
        XmppCounts {
            connections: streams.open,
            sessions: self.host.get().accounts().session_count() as u64,
            connections_total: streams.accepted,
            refused: streams.refused,
            shed: streams.shed + self.shedding.refused(),
            handshake_failures: streams.handshake_failures,
            sign_ins: clients.sign_ins,
            sign_in_failures: clients.sign_in_failures,
            registrations: clients.registrations,
            stanzas_in: streams.stanzas_in.total(),
            stanzas_out: streams.stanzas_out.total(),
            texts_in: self.phones.texts_in,
            texts_out: self.phones.texts_out,
            overflows: streams.overflows,
            timeouts: streams.timeouts,
            faults: streams.faults,
            components: components.attached,
            components_refused: components.refused,
            component_stanzas_in: components.stanzas_in,
            component_stanzas_out: components.stanzas_out,
            component_overflows: components.overflows,
            component_pauses: components.pauses,
            server_pauses: wires.pauses,
            bosh_sessions: self.streams.bosh_sessions(),
            bosh_faults: streams.bosh_faults,
            http_requests: streams.http_requests,
            http_refused: streams.http_refused,
            uploads: streams.uploads,
            downloads: streams.downloads,
            upload_bytes: upload_bytes(self),
            pauses: streams.pauses,
            resumed: streams.resumed,
            kept: self.counted.kept,
            archived: self.counted.archived,
            message_handling: self.counted.message_handling,
            sign_in_latencies: self.counted.sign_ins,
            fan_out: self.counted.fan_out,
            roster_bytes: self.host.get().accounts().roster_bytes() as u64,
            rosters_dropped: self.host.get().accounts().rosters_dropped(),
            rtbl: rtbl::figures(self),
            webhooks: webhooks::figures(self),
            bytestreams: bytestreams::figures(self),
            rooms: rooms as u64,
            occupants: occupants as u64,
            kinds,
            servers,
            server_connections_refused: wires.refused,
            server_handshake_failures: wires.handshake_failures,
        }
    }
}
