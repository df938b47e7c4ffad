//! The figures of one shard, set from what each of its parts counted for itself.
//!
//! Each part of a shard counts with plain integers on its own thread, and `shard::status` puts copies on the
//! board twice a second. Here they become the one flat struct that operators' programs read
//! (`control::ShardCounters`) and of which the crate `metrics` makes metrics. A new figure is one field there, one
//! line here and one row there.

use ::voice::VoiceCounts;
use control::{Latency, LatencyCounts, ShardCounters};
use farm::links::LinkCounters;
use net::NetCounters;

use crate::shard::ShardStatus;
use crate::xmpp::XmppCounts;

/// The figures of a shard for operators.
pub(super) fn of(shard: u16, now: &ShardStatus) -> ShardCounters {
    let mut figures = ShardCounters {
        transactions: now.transactions as u64,
        contexts: now.contexts as u64,
        accounts_cached: now.cached_accounts as u64,
        ..ShardCounters::new(shard)
    };
    set_net(&mut figures, &now.net);
    set_links(&mut figures, &now.links);
    set_sip(&mut figures, &now.sip);
    set_router(&mut figures, &now.router);
    set_ledger(&mut figures, &now.calls);
    set_voice(&mut figures, &now.voice);
    set_xmpp(&mut figures, &now.xmpp);
    figures.latencies = latencies(now);
    figures
}

/// The latencies of a shard, those that it has not met among them.
fn latencies(now: &ShardStatus) -> Vec<LatencyCounts> {
    let counts = |latency| {
        let histogram = match latency {
            Latency::Invite => &now.sip.invite_responses,
            Latency::Register => &now.sip.register_responses,
            Latency::Message => &now.xmpp.message_handling,
            Latency::SignIn => &now.xmpp.sign_in_latencies,
            Latency::Turn => &now.turns,
        };
        LatencyCounts::of(latency, histogram)
    };
    Latency::ALL.into_iter().map(counts).collect()
}

/// Sets the counters of the links to other nodes.
fn set_links(figures: &mut ShardCounters, links: &LinkCounters) {
    figures.farm_messages_in = links.received;
    figures.farm_messages_out = links.sent;
    figures.farm_messages_returned = links.returned;
}

/// Sets the counters of the network layer.
fn set_net(figures: &mut ShardCounters, net: &NetCounters) {
    figures.connections = net.flows_open;
    figures.datagrams_in = net.datagrams_in;
    figures.datagrams_out = net.datagrams_out;
    figures.datagram_bytes_in = net.datagram_bytes_in;
    figures.datagram_bytes_out = net.datagram_bytes_out;
    figures.kernel_drops = net.kernel_drops;
    figures.stream_messages_in = net.stream_messages_in;
    figures.stream_messages_out = net.stream_messages_out;
    figures.stream_faults = net.stream_faults;
    figures.connections_accepted = net.flows_accepted;
    figures.connections_made = net.flows_connected;
    figures.connections_refused = net.flows_refused;
    figures.connections_idle_closed = net.flows_idle_closed;
    figures.connections_slow_closed = net.flows_slow_closed;
    figures.handshake_failures = net.handshake_failures;
    figures.client_certificates_unverified = net.client_certificates_unverified;
    figures.connect_failures = net.connect_failures;
    figures.send_failures = net.send_failures;
    figures.queue_overflows = net.queue_overflows;
    figures.captures_sent = net.captures_sent;
    figures.captures_dropped = net.captures_dropped;
}

/// Sets the counters of the SIP endpoint.
fn set_sip(figures: &mut ShardCounters, sip: &sip::endpoint::Counters) {
    figures.requests = sip.requests;
    figures.responses = sip.responses;
    figures.unparsable = sip.unparsable;
    figures.unfinished = sip.unfinished;
    figures.malformed = sip.malformed;
    figures.retransmissions_received = sip.retransmissions_received;
    figures.retransmissions_sent = sip.retransmissions_sent;
    figures.stray_responses = sip.stray_responses;
    figures.registers = sip.registers;
    figures.registrations = sip.registered;
    figures.challenges = sip.challenged;
    figures.authentication_failures = sip.authentication_failures;
    figures.authentication_paced = sip.authentication_paced;
    figures.unproved_limited = sip.unproved_limited;
    figures.unproved_withheld = sip.unproved_withheld;
    figures.shed = sip.shed;
    figures.loops = sip.loops;
    figures.too_many_hops = sip.too_many_hops;
    figures.relay_refused = sip.refused_relay;
    figures.limited_calls = sip.refused_by_limit;
    figures.denied_destinations = sip.refused_destinations;
    figures.timeouts = sip.timeouts;
    figures.messages_kept = sip.messages_kept;
}

/// Sets the counters of the router.
fn set_router(figures: &mut ShardCounters, router: &router::Counts) {
    figures.addresses = router.addresses as u64;
    figures.bindings = router.bindings as u64;
    figures.watches = router.watches as u64;
    figures.publications = router.publications as u64;
    figures.messages_waiting = router.kept_messages as u64;
    figures.binding_bytes = router.memory as u64;
}

/// Sets the counters of programmable voice.
/// Not private, as the tests of the metrics set only this part.
fn set_voice(figures: &mut ShardCounters, voice: &VoiceCounts) {
    figures.voice_calls = voice.calls;
    figures.voice_sessions = voice.sessions;
    figures.voice_ports = voice.ports;
    figures.voice_prompts = voice.prompts;
    figures.voice_asks = voice.helper_requests;
    figures.voice_streams = voice.streams;
    figures.voice_rooms = voice.rooms;
    figures.voice_queues = voice.queues;
    figures.voice_members = voice.members;
    figures.voice_seats = voice.seats;
    figures.voice_recordings = voice.recordings;
    figures.voice_calls_started = voice.calls_total;
    figures.voice_digits = voice.digits_total;
    figures.voice_callbacks_dropped = voice.callbacks_dropped;
    figures.media_packets_in = voice.packets_in;
    figures.media_packets_out = voice.packets_out;
    figures.media_packets_dropped = voice.packets_dropped;
    figures.media_packets_unsent = voice.packets_unsent;
    figures.media_timeouts = voice.media_timeouts;
    figures.media_ticks_missed = voice.ticks_missed;
}

/// Sets the counters of chat.
fn set_xmpp(figures: &mut ShardCounters, xmpp: &XmppCounts) {
    figures.xmpp_connections = xmpp.connections;
    figures.xmpp_sessions = xmpp.sessions;
    figures.xmpp_connections_accepted = xmpp.connections_total;
    figures.xmpp_connections_refused = xmpp.refused;
    figures.xmpp_handshake_failures = xmpp.handshake_failures;
    figures.xmpp_sign_ins = xmpp.sign_ins;
    figures.xmpp_sign_in_failures = xmpp.sign_in_failures;
    figures.xmpp_registrations = xmpp.registrations;
    figures.xmpp_stanzas_in = xmpp.stanzas_in;
    figures.xmpp_stanzas_out = xmpp.stanzas_out;
    figures.xmpp_texts_in = xmpp.texts_in;
    figures.xmpp_texts_out = xmpp.texts_out;
    figures.xmpp_shed = xmpp.shed;
    figures.xmpp_overflows = xmpp.overflows;
    figures.xmpp_timeouts = xmpp.timeouts;
    figures.xmpp_stream_errors = xmpp.faults;
    figures.xmpp_components = xmpp.components;
    figures.xmpp_components_refused = xmpp.components_refused;
    figures.xmpp_component_pauses = xmpp.component_pauses;
    figures.xmpp_component_stanzas_in = xmpp.component_stanzas_in;
    figures.xmpp_component_stanzas_out = xmpp.component_stanzas_out;
    figures.xmpp_component_overflows = xmpp.component_overflows;
    figures.xmpp_bosh_sessions = xmpp.bosh_sessions;
    figures.xmpp_bosh_faults = xmpp.bosh_faults;
    figures.xmpp_http_requests = xmpp.http_requests;
    figures.xmpp_http_refused = xmpp.http_refused;
    figures.xmpp_uploads = xmpp.uploads;
    figures.xmpp_downloads = xmpp.downloads;
    figures.xmpp_upload_bytes = xmpp.upload_bytes;
    figures.xmpp_pauses = xmpp.pauses;
    figures.xmpp_resumed = xmpp.resumed;
    figures.xmpp_kept = xmpp.kept;
    figures.xmpp_archived = xmpp.archived;
    figures.xmpp_presence_fan_out = xmpp.fan_out;
    figures.xmpp_roster_bytes = xmpp.roster_bytes;
    figures.xmpp_rosters_dropped = xmpp.rosters_dropped;
    set_services(figures, xmpp);
    figures.xmpp_rooms = xmpp.rooms;
    figures.xmpp_occupants = xmpp.occupants;
    figures.xmpp_kinds.clone_from(&xmpp.kinds);
    let servers = &xmpp.servers;
    figures.xmpp_servers_out = servers.outgoing;
    figures.xmpp_servers_in = servers.incoming;
    figures.xmpp_servers_waiting = servers.waiting;
    figures.xmpp_servers_connections_out = servers.outgoing_total;
    figures.xmpp_servers_connections_in = servers.incoming_total;
    figures.xmpp_servers_connections_refused = xmpp.server_connections_refused;
    figures.xmpp_servers_pauses = xmpp.server_pauses;
    figures.xmpp_servers_handshake_failures = xmpp.server_handshake_failures;
    figures.xmpp_servers_failures = servers.failures;
    figures.xmpp_servers_refused = servers.refused;
    figures.xmpp_servers_stanzas_in = servers.stanzas_in;
    figures.xmpp_servers_stanzas_out = servers.stanzas_out;
    figures.xmpp_servers_returned = servers.returned;
    figures.xmpp_servers_stream_errors = servers.faults;
    figures.xmpp_servers_posh_lookups = servers.posh_lookups;
    figures.xmpp_servers_posh_failures = servers.posh_failures;
    figures.xmpp_servers_posh_proved = servers.posh_proved;
}

/// Block lists, webhooks and bytestreams.
fn set_services(figures: &mut ShardCounters, xmpp: &XmppCounts) {
    figures.xmpp_rtbl_refused = xmpp.rtbl.refused;
    figures.xmpp_rtbl_entries = xmpp.rtbl.entries;
    figures.xmpp_rtbl_failing = xmpp.rtbl.failing;
    figures.xmpp_webhooks_queued = xmpp.webhooks.queued;
    figures.xmpp_webhooks_sent = xmpp.webhooks.sent;
    figures.xmpp_webhooks_dropped = xmpp.webhooks.dropped;
    figures.xmpp_bytestreams_waiting = xmpp.bytestreams.waiting;
    figures.xmpp_bytestreams_active = xmpp.bytestreams.active;
    figures.xmpp_bytestreams_begun = xmpp.bytestreams.transfers;
    figures.xmpp_bytestreams_bytes = xmpp.bytestreams.bytes;
    figures.xmpp_bytestreams_refused = xmpp.bytestreams.refused;
}

/// Sets the counters of the call ledger.
fn set_ledger(figures: &mut ShardCounters, ledger: &call::LedgerCounts) {
    figures.calls = ledger.live as u64;
    figures.calls_up = ledger.answered as u64;
    figures.calls_started = ledger.started_total;
    figures.calls_answered = ledger.answered_total;
    figures.calls_failed = ledger.failed_total;
    figures.calls_lost = ledger.lost_total;
    figures.calls_unrecorded = ledger.unrecorded_total;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_calls_of_applications_are_those_that_their_crate_counted() {
        let voice = VoiceCounts { recordings: 2, streams: 3, ..Default::default() };
        let mut figures = ShardCounters::new(1);
        set_voice(&mut figures, &voice);
        assert_eq!((figures.voice_recordings, figures.voice_streams), (2, 3));
    }
}
