//! The counters of one shard. Plain numbers: the server reads them between turns.

use stdx::latency::LatencyHistogram;

/// Totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests received, retransmissions included.
    pub requests: u64,
    /// Responses received, retransmissions included.
    pub responses: u64,
    /// Bytes that were no SIP message, by no fault we could answer.
    pub unparsable: u64,
    /// Datagrams without the empty line that ends a header, and no request that could be answered.
    pub unfinished: u64,
    /// Requests answered with the fault found in them.
    pub malformed: u64,
    /// Retransmitted requests that a server transaction absorbed (RFC 3261 §17.2).
    pub retransmissions_received: u64,
    /// Requests and responses repeated because timer A, E or G fired (RFC 3261 §17).
    pub retransmissions_sent: u64,
    /// Responses that match no transaction.
    pub stray_responses: u64,
    /// New INVITE transactions of peers.
    pub invites: u64,
    /// Calls that had a 2xx.
    pub answered: u64,
    /// Calls that had a final response other than 2xx.
    pub failed: u64,
    /// New REGISTER requests.
    pub registers: u64,
    /// REGISTER requests that had a 200.
    pub registered: u64,
    /// Requests answered with a 401 or 407.
    pub challenged: u64,
    /// Requests whose credentials were wrong.
    pub authentication_failures: u64,
    /// Requests whose credentials were not checked: too many wrong ones came before.
    pub authentication_paced: u64,
    /// New requests of unproved networks over their rate, dropped.
    pub unproved_limited: u64,
    /// Responses not sent, for an unproved source had not paid for them.
    pub unproved_withheld: u64,
    /// New requests refused: the tables were full, or the shard took requests within dialogs only.
    pub shed: u64,
    /// Requests refused with 482 (RFC 3261 §16.3 item 4, §8.2.2.2).
    pub loops: u64,
    /// Requests refused with 483 (RFC 3261 §16.3 item 3).
    pub too_many_hops: u64,
    /// Requests refused with 403, for a Route of theirs leads to a system that is not ours.
    pub refused_relay: u64,
    /// Calls beyond a limit of their account or route.
    pub refused_by_limit: u64,
    /// Calls to destinations that their account or route denies.
    pub refused_destinations: u64,
    /// Transactions that ended by timer B, F or H.
    pub timeouts: u64,
    /// MESSAGEs stored for an account without a reachable contact.
    pub messages_kept: u64,
    /// From new INVITEs outside dialogs to their first response but a 100 or a challenge.
    pub invite_responses: LatencyHistogram,
    /// From REGISTER requests to their response, unless it was a challenge.
    pub register_responses: LatencyHistogram,
}
