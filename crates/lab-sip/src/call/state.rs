//! The state of one call. Most calls have no media, no routes and no variables, so those cost a pointer or nothing.

use std::net::SocketAddr;

use stdx::time::Instant;

use crate::scenario::model::StepIndex;

/// The identity of a call, fixed when it starts.
#[derive(Debug, Clone)]
pub struct CallIdentity {
    /// `[call_number]`, from 1, one sequence for the whole process.
    pub number: u64,
    /// `[call_id]`, made by `-cid_str`, or taken from the first message.
    pub call_id: Box<[u8]>,
    /// When it was due; equal to the time of its start for calls that arrive.
    pub due: Instant,
    /// Our address for this call: `[local_ip]`, `[local_port]`.
    pub local: SocketAddr,
    /// The other end: `[remote_ip]`, `[remote_port]`.
    pub remote: SocketAddr,
    /// `[userid]`, from 1; 0 without `-users`.
    pub user: u32,
    /// True: the peer started the call.
    pub incoming: bool,
    /// The lines of injection files it was given before it started, as `-ip_field` finds its address there; empty:
    /// it takes them as it starts.
    pub lines: Box<[u32]>,
}

/// A variable's value.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum VariableValue {
    /// Not assigned yet.
    #[default]
    Unset,
    /// Bytes: a match of `<ereg>`, or `<assignstr>`.
    Text(Box<[u8]>),
    /// A number, a double as in SIPp.
    Number(f64),
    /// The result of a check.
    Bool(bool),
}

/// One call.
#[derive(Debug)]
pub struct Call {
    /// The identity, fixed at the start.
    pub identity: CallIdentity,
    /// Index of the step the call is in; also `[msg_index]`.
    pub position: StepIndex,
    /// When the call wants [`Call::handle_wake`]; `FAR_FUTURE` when it does not.
    pub deadline: Instant,
    /// The end was told; only retransmissions are answered.
    pub over: bool,
    /// `[cseq]`.
    pub cseq: u32,
    /// The `;tag=…` of the peer, as `[peer_tag_param]` gives it; empty before there is one.
    pub peer_tag: Box<[u8]>,
    /// By slot of `Variables::call`; empty when the scenario has none.
    pub variables: Box<[VariableValue]>,
    /// The line each injection file gave this call.
    pub lines: Box<[u32]>,
    /// The last message received, when the scenario looks into it.
    pub last_received: Option<Box<[u8]>>,
    /// Kept by `rrs`.
    pub routes: Option<Box<RouteSet>>,
    /// Kept by `auth`.
    pub challenge: Option<Box<Challenge>>,
    /// By index of `Scenario::transactions`.
    pub transactions: Box<[Transaction]>,
    /// The flow's own.
    pub(super) flow: super::flow::CallProgress,
}

/// Kept by `rrs="true"`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteSet {
    /// `[routes]`: the whole Route header, or empty.
    pub header: Vec<u8>,
    /// `[next_url]`.
    pub next_url: Vec<u8>,
}

/// Kept by `auth="true"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// 407 rather than 401: the answer is a Proxy-Authorization.
    pub proxy: bool,
    /// Values of all its challenges, in order.
    pub values: Vec<Vec<u8>>,
    /// `nc` of the next answer.
    pub count: u32,
}

/// A transaction started by `start_txn`: one of our own requests, or a request of the peer that was kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Branch of its request; empty before it was sent.
    pub branch: Box<[u8]>,
    /// True: a final response other than 2xx gets its ACK in this transaction (RFC 3261 §17.1.1.3).
    pub is_invite: bool,
    /// The final answer came: `ack_txn` may follow.
    pub completed: bool,
    /// The step that acknowledged it, to do so again.
    pub ack_step: Option<StepIndex>,
    /// Hash of the final answer: the same again is ignored.
    pub answer: u64,
    /// A transaction that the peer began, which `response_txn` of a `<send>` answers.
    pub server: Option<Box<ServerTransaction>>,
}

/// A request that a `<recv>` with `start_txn` kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTransaction {
    /// The message.
    pub bytes: Box<[u8]>,
    /// Its hash: the same again is a retransmission; 0 where the transport has none.
    pub hash: u64,
    /// The step of the last response to it, to send it again.
    pub answer_step: Option<StepIndex>,
}
