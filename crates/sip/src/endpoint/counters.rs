//! The counters of one shard. Plain numbers: the server reads them between turns.

/// Totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub requests: u64,
    pub responses: u64,
    /// Bytes that were no SIP message, by no fault we could answer.
    pub unparsable: u64,
    /// Datagrams without the empty line that ends a header, and no request that could be answered.
    pub unfinished: u64,
    /// Requests answered with the fault found in them.
    pub malformed: u64,
    pub retransmissions_received: u64,
    pub retransmissions_sent: u64,
    /// Responses that match no transaction.
    pub stray_responses: u64,
    pub invites: u64,
    pub answered: u64,
    pub failed: u64,
    pub registers: u64,
    pub registered: u64,
    pub challenged: u64,
    pub authentication_failures: u64,
    /// Requests whose credentials were not checked: too many wrong ones came before.
    pub authentication_paced: u64,
    /// New requests of unproved networks over their rate, dropped.
    pub unproved_limited: u64,
    /// Responses not sent, for an unproved source had not paid for them.
    pub unproved_withheld: u64,
    pub shed: u64,
    pub loops: u64,
    pub too_many_hops: u64,
    pub refused_relay: u64,
    /// Calls beyond a limit of their account or route.
    pub refused_by_limit: u64,
    /// Calls to destinations that their account or route denies.
    pub refused_destinations: u64,
    pub timeouts: u64,
    pub messages_kept: u64,
}
