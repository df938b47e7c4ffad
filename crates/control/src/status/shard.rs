//! The figures of one shard in the node's state. Each part of a shard counts for itself; the shard adds the counters up here once
//! they are asked for.

use serde::{Deserialize, Serialize};

use crate::{KindCount, LatencyCounts};

/// The figures of one shard: first those of now, then those since its start. `docs/metrics.md` has them as metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShardCounters {
    /// The number of the shard.
    pub shard: u16,

    // Now.
    /// Calls that are being set up or are up.
    pub calls: u64,
    /// Calls that are answered and not yet over.
    pub calls_up: u64,
    /// SIP transactions, those among them that only wait for their last timer (RFC 3261 §17).
    pub transactions: u64,
    /// Requests that a final response is still owed for.
    pub contexts: u64,
    /// Registered contacts.
    pub bindings: u64,
    /// Addresses with a contact, or that had one until lately.
    pub addresses: u64,
    /// Bytes of memory of the bindings and their index, estimated.
    pub binding_bytes: u64,
    /// Subscriptions of phones (RFC 6665).
    pub watches: u64,
    /// Documents that phones have published (RFC 3903).
    pub publications: u64,
    /// Texts that wait until their address registers.
    pub messages_waiting: u64,
    /// SIP accounts in the cache.
    pub accounts_cached: u64,
    /// Open TCP, TLS and WebSocket connections of SIP.
    pub connections: u64,
    /// Calls that applications handle, those among them whose application is still being asked.
    pub voice_calls: u64,
    /// Dialogs of applications, those among them that wait for the answer to their BYE.
    pub voice_sessions: u64,
    /// Pairs of media ports in use.
    pub voice_ports: u64,
    /// Calls that play a prompt or wait for one.
    pub voice_prompts: u64,
    /// Requests for documents and sounds that are under way.
    pub voice_asks: u64,
    /// Streams of sound to applications that are not over.
    pub voice_streams: u64,
    /// Conferences, and connections of queues.
    pub voice_rooms: u64,
    /// Queues in which a call waits.
    pub voice_queues: u64,
    /// Members of conferences and queues.
    pub voice_members: u64,
    /// Calls that are in a conference or queue, or on their way into one.
    pub voice_seats: u64,
    /// Recordings under way or being written, and callers whose speech is being recognised.
    pub voice_recordings: u64,
    /// Open connections of chat clients.
    pub xmpp_connections: u64,
    /// Chat sessions, those among them that wait to be resumed.
    pub xmpp_sessions: u64,
    /// Connections of external components (XEP-0114).
    pub xmpp_components: u64,
    /// Sessions of BOSH among the connections of chat clients.
    pub xmpp_bosh_sessions: u64,
    /// Bytes of all uploaded files. The first shard counts those of the node.
    pub xmpp_upload_bytes: u64,
    /// Rooms in memory.
    pub xmpp_rooms: u64,
    /// Occupants of the rooms in memory.
    pub xmpp_occupants: u64,
    /// Connections to other chat servers.
    pub xmpp_servers_out: u64,
    /// Connections of other chat servers.
    pub xmpp_servers_in: u64,
    /// Stanzas that wait for a connection to another server.
    pub xmpp_servers_waiting: u64,

    // Since the start.
    /// Calls that were placed.
    pub calls_started: u64,
    /// Calls that were answered.
    pub calls_answered: u64,
    /// Calls that ended without an answer.
    pub calls_failed: u64,
    /// Calls whose end was never signalled.
    pub calls_lost: u64,
    /// Calls without a call record, because too many were under way.
    pub calls_unrecorded: u64,
    /// SIP requests that were received.
    pub requests: u64,
    /// SIP responses that were received.
    pub responses: u64,
    /// Datagrams and stream data that are no SIP message and were not answered.
    pub unparsable: u64,
    /// Datagrams without the empty line that ends a header.
    pub unfinished: u64,
    /// Requests that were answered with the fault in them.
    pub malformed: u64,
    /// Requests that came again.
    pub retransmissions_received: u64,
    /// Messages that were sent again for lack of an answer.
    pub retransmissions_sent: u64,
    /// Responses that match no request.
    pub stray_responses: u64,
    /// REGISTER requests.
    pub registers: u64,
    /// REGISTER requests that were granted.
    pub registrations: u64,
    /// Requests that were challenged for credentials.
    pub challenges: u64,
    /// Requests with a wrong password or of an unknown user.
    pub authentication_failures: u64,
    /// Requests with credentials that were answered 503 after too many wrong ones.
    pub authentication_paced: u64,
    /// New requests over UDP from unproved sources that exceeded their rate.
    pub unproved_limited: u64,
    /// Responses over UDP that were not sent, because their unproved address had been sent three times its own bytes.
    pub unproved_withheld: u64,
    /// Requests that were answered 503 because the shard was behind or draining.
    pub shed: u64,
    /// Requests that had been here before (RFC 3261 §16.3).
    pub loops: u64,
    /// Requests whose Max-Forwards was 0.
    pub too_many_hops: u64,
    /// Requests of strangers to domains that are not served here.
    pub relay_refused: u64,
    /// Calls that a limit of their account or route refused.
    pub limited_calls: u64,
    /// Calls to destinations that their account or route denies.
    pub denied_destinations: u64,
    /// Client transactions that got no answer.
    pub timeouts: u64,
    /// Texts that were kept for an address without a binding.
    pub messages_kept: u64,
    /// Panics that the shard survived; each is in the log.
    pub panics: u64,
    /// Messages between shards that a full inbox refused.
    // Its name in version 1, which other nodes of a farm may have.
    #[serde(alias = "letters_lost")]
    pub shard_messages_lost: u64,
    /// Call records and rows of calls that the database did not take.
    pub records_lost: u64,
    /// UDP datagrams that were received.
    pub datagrams_in: u64,
    /// UDP datagrams that were sent.
    pub datagrams_out: u64,
    /// Bytes of the received datagrams, without IP and UDP headers.
    pub datagram_bytes_in: u64,
    /// Bytes of the sent datagrams, without IP and UDP headers.
    pub datagram_bytes_out: u64,
    /// Datagrams that the kernel dropped because a receive buffer was full.
    pub kernel_drops: u64,
    /// Messages that other nodes sent by links.
    pub farm_messages_in: u64,
    /// Messages to other nodes by links.
    pub farm_messages_out: u64,
    /// Messages that a link did not take or gave back.
    pub farm_messages_returned: u64,
    /// SIP messages that were received over connections.
    pub stream_messages_in: u64,
    /// SIP messages that were sent over connections.
    pub stream_messages_out: u64,
    /// Connections that were closed because their data could not be cut into messages.
    pub stream_faults: u64,
    /// Connections that were accepted.
    pub connections_accepted: u64,
    /// Connections that the shard made.
    pub connections_made: u64,
    /// Connections that exceeded a limit.
    pub connections_refused: u64,
    /// Connections that were closed for silence.
    pub connections_idle_closed: u64,
    /// Connections that were closed for an incomplete message.
    pub connections_slow_closed: u64,
    /// Handshakes of TLS and WebSocket that failed.
    pub handshake_failures: u64,
    /// Certificates of clients that prove nothing.
    pub client_certificates_unverified: u64,
    /// Connections of SIP that could not be made.
    pub connect_failures: u64,
    /// SIP messages that certainly were not sent.
    pub send_failures: u64,
    /// Messages among the unsent ones that a full queue refused.
    pub queue_overflows: u64,
    /// Copies of SIP messages sent to the capture server.
    pub captures_sent: u64,
    /// Copies that were dropped: too many waited, or the kernel did not take them.
    pub captures_dropped: u64,
    /// Calls of applications since the start.
    pub voice_calls_started: u64,
    /// Digits that callers have sent to applications, as events, tones or INFO.
    pub voice_digits: u64,
    /// Connections of chat clients that were accepted.
    pub xmpp_connections_accepted: u64,
    /// Connections of chat clients that exceeded a limit.
    pub xmpp_connections_refused: u64,
    /// TLS and WebSocket handshakes of chat clients that failed.
    pub xmpp_handshake_failures: u64,
    /// Sign-ins of chat clients.
    pub xmpp_sign_ins: u64,
    /// Sign-ins of chat clients that failed.
    pub xmpp_sign_in_failures: u64,
    /// Accounts that chat clients have created (XEP-0077).
    pub xmpp_registrations: u64,
    /// Stanzas of chat clients.
    pub xmpp_stanzas_in: u64,
    /// Stanzas to chat clients.
    pub xmpp_stanzas_out: u64,
    /// Texts of phones that were offered to chat.
    pub xmpp_texts_in: u64,
    /// Texts of chat that phones have taken.
    pub xmpp_texts_out: u64,
    /// Sign-ins of chat clients that were refused because a shard did not keep up.
    pub xmpp_shed: u64,
    /// Chat clients that did not read what they were sent.
    pub xmpp_overflows: u64,
    /// Chat clients that were silent for too long, or too slow to sign in.
    pub xmpp_timeouts: u64,
    /// Streams of chat clients that ended with an error.
    pub xmpp_stream_errors: u64,
    /// Components with a wrong secret or another fault before the handshake was done.
    pub xmpp_components_refused: u64,
    /// Times that a component which sent too much was not read from.
    pub xmpp_component_pauses: u64,
    /// Stanzas of components.
    pub xmpp_component_stanzas_in: u64,
    /// Stanzas to components.
    pub xmpp_component_stanzas_out: u64,
    /// Components that did not read what they were sent.
    pub xmpp_component_overflows: u64,
    /// Requests of BOSH that broke its rules (XEP-0124).
    pub xmpp_bosh_faults: u64,
    /// Requests of HTTP at the addresses of WebSocket.
    pub xmpp_http_requests: u64,
    /// Requests of HTTP among these that were answered with an error.
    pub xmpp_http_refused: u64,
    /// Files that were uploaded.
    pub xmpp_uploads: u64,
    /// Files and parts of files that were fetched.
    pub xmpp_downloads: u64,
    /// Times that a chat client which sent too much was not read from.
    pub xmpp_pauses: u64,
    /// Sessions that were resumed (XEP-0198).
    pub xmpp_resumed: u64,
    /// Messages that were stored for accounts without a session.
    pub xmpp_kept: u64,
    /// Messages that were archived.
    pub xmpp_archived: u64,
    /// Presence stanzas that broadcasts have caused.
    pub xmpp_presence_fan_out: u64,
    /// Bytes of the rosters in memory, estimated.
    pub xmpp_roster_bytes: u64,
    /// Rosters that were evicted while their accounts were signed in.
    pub xmpp_rosters_dropped: u64,
    /// Stanzas that were refused because a block list has their sender.
    pub xmpp_rtbl_refused: u64,
    /// Entries of all block lists.
    pub xmpp_rtbl_entries: u64,
    /// Block lists that cannot be read now.
    pub xmpp_rtbl_failing: u64,
    /// Events of chat that wait for an application.
    pub xmpp_webhooks_queued: u64,
    /// Events of chat that an application has taken.
    pub xmpp_webhooks_sent: u64,
    /// Events of chat that found a full queue, or that no application took.
    pub xmpp_webhooks_dropped: u64,
    /// Connections to the proxy of bytestreams that wait for their activation.
    pub xmpp_bytestreams_waiting: u64,
    /// Bytestreams that are active.
    pub xmpp_bytestreams_active: u64,
    /// Bytestreams that were activated.
    pub xmpp_bytestreams_begun: u64,
    /// Bytes that the proxy of bytestreams has passed on.
    pub xmpp_bytestreams_bytes: u64,
    /// Connections to the proxy of bytestreams that ended before a transfer began.
    pub xmpp_bytestreams_refused: u64,
    /// Connections and errors by kind. Errors count since the start, connections are those of now.
    pub xmpp_kinds: Vec<KindCount>,
    /// Connections to other chat servers since the start.
    pub xmpp_servers_connections_out: u64,
    /// Connections of other chat servers since the start.
    pub xmpp_servers_connections_in: u64,
    /// Connections of other chat servers that exceeded a limit.
    pub xmpp_servers_connections_refused: u64,
    /// Times that a chat server which sent too much was not read from.
    pub xmpp_servers_pauses: u64,
    /// TLS handshakes with other chat servers that failed.
    pub xmpp_servers_handshake_failures: u64,
    /// Attempts to reach another chat server that failed.
    pub xmpp_servers_failures: u64,
    /// Chat servers that did not prove their domain, or that the policy denies.
    pub xmpp_servers_refused: u64,
    /// Stanzas of other chat servers.
    pub xmpp_servers_stanzas_in: u64,
    /// Stanzas to other chat servers.
    pub xmpp_servers_stanzas_out: u64,
    /// Stanzas that could not be sent to another chat server.
    pub xmpp_servers_returned: u64,
    /// Streams that ended because of the bytes of another chat server.
    pub xmpp_servers_stream_errors: u64,
    /// Domains of other chat servers whose certificates were looked up by POSH.
    pub xmpp_servers_posh_lookups: u64,
    /// Lookups by POSH that found no fingerprints.
    pub xmpp_servers_posh_failures: u64,
    /// Domains of other chat servers that POSH proved.
    pub xmpp_servers_posh_proved: u64,
    /// RTP and RTCP packets that were received.
    pub media_packets_in: u64,
    /// RTP and RTCP packets that were sent.
    pub media_packets_out: u64,
    /// Callbacks of calls that were not sent, as too many were open.
    pub voice_callbacks_dropped: u64,
    /// Packets of unknown sources, and malformed ones.
    pub media_packets_dropped: u64,
    /// Packets that the kernel did not take.
    pub media_packets_unsent: u64,
    /// Calls whose peers sent no media for the time of `voice.media_timeout`.
    pub media_timeouts: u64,
    /// Ticks of 20 ms that came too late and were left out.
    pub media_ticks_missed: u64,
    /// Times that clients waited, and the lengths of turns; none of a node of an earlier version.
    pub latencies: Vec<LatencyCounts>,
}

impl ShardCounters {
    /// Counters of a shard, all zero but its number.
    pub fn new(shard: u16) -> Self {
        ShardCounters { shard, ..ShardCounters::default() }
    }
}
