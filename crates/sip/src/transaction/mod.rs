//! The four transaction machines of RFC 3261 §17 as corrected by RFC 6026.
//!
//! A machine takes an event and the time and returns a [`TransactionOutput`]: all it can cause. It owns no timer; it says
//! when it wants to be woken, and ignores being woken early. It keeps the bytes that it may have to send again, and no more of
//! the message: finished transactions are the most of a shard's memory.

mod client_invite;
mod client_other;
mod server_invite;
mod server_other;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;

pub use client_invite::ClientInvite;
pub use client_other::ClientOther;
pub use server_invite::ServerInvite;
pub use server_other::ServerOther;
pub use table::{Transaction, TransactionTable};

/// RFC 3261 §17.1.1.1: the estimate of a round trip.
pub const T1: Duration = Duration::from_millis(500);
/// RFC 3261 §17.1.2.2: the longest interval between retransmissions.
pub const T2: Duration = Duration::from_secs(4);
/// RFC 3261 §17.1.2.2: how long a message stays in the network.
pub const T4: Duration = Duration::from_secs(5);
/// Timers B, D, F, H, J, L and M: 64*T1.
pub const TIMEOUT: Duration = Duration::from_secs(32);

/// The output of a transaction for one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TransactionOutput {
    /// To the peer, by the transaction's own target.
    pub send: Option<Bytes>,
    /// To the transaction user.
    pub tell: Option<TransactionEvent>,
}

/// The events of a transaction for its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// The response just handled is for the user.
    Response,
    /// Timer B or F: no final response came.
    Timeout,
    /// Timer H: the peer never acknowledged our final response.
    NoAck,
    /// A request has had no response for a while, or its client repeats it: the user owes a 100.
    Slow,
}

impl TransactionOutput {
    fn nothing() -> TransactionOutput {
        TransactionOutput::default()
    }

    fn send(bytes: Bytes) -> TransactionOutput {
        TransactionOutput { send: Some(bytes), tell: None }
    }

    /// A copy of the bytes that the transaction keeps.
    fn send_again(bytes: &[u8]) -> TransactionOutput {
        TransactionOutput::send(Bytes::copy_from_slice(bytes))
    }

    fn tell(tell: TransactionEvent) -> TransactionOutput {
        TransactionOutput { send: None, tell: Some(tell) }
    }
}

/// Any of the four.
#[derive(Debug)]
pub enum TransactionMachine {
    /// For an INVITE of ours (§17.1.1).
    ClientInvite(ClientInvite),
    /// For any other request of ours but ACK (§17.1.2).
    ClientOther(ClientOther),
    /// For an INVITE of a peer (§17.2.1).
    ServerInvite(ServerInvite),
    /// For any other request of a peer but ACK (§17.2.2).
    ServerOther(ServerOther),
}

impl TransactionMachine {
    /// Handles the timers that are due at `now`.
    pub fn handle_timer(&mut self, now: Instant) -> TransactionOutput {
        match self {
            TransactionMachine::ClientInvite(machine) => machine.handle_timer(now),
            TransactionMachine::ClientOther(machine) => machine.handle_timer(now),
            TransactionMachine::ServerInvite(machine) => machine.handle_timer(now),
            TransactionMachine::ServerOther(machine) => machine.handle_timer(now),
        }
    }

    /// When to call [`handle_timer`](TransactionMachine::handle_timer); `FAR_FUTURE` when nothing is due.
    pub fn deadline(&self) -> Instant {
        match self {
            TransactionMachine::ClientInvite(machine) => machine.deadline(),
            TransactionMachine::ClientOther(machine) => machine.deadline(),
            TransactionMachine::ServerInvite(machine) => machine.deadline(),
            TransactionMachine::ServerOther(machine) => machine.deadline(),
        }
    }

    /// True if a failure to send matters: a request went out that has no final response yet.
    pub fn awaits_response(&self) -> bool {
        matches!(
            self,
            TransactionMachine::ClientInvite(ClientInvite::Calling { .. } | ClientInvite::Proceeding { .. })
                | TransactionMachine::ClientOther(
                    ClientOther::Trying { .. } | ClientOther::Proceeding { .. }
                )
        )
    }

    /// The request as it was sent, while no final response has come.
    pub fn request(&self) -> Option<&[u8]> {
        match self {
            TransactionMachine::ClientInvite(machine) => machine.request(),
            TransactionMachine::ClientOther(
                ClientOther::Trying { request, .. } | ClientOther::Proceeding { request, .. },
            ) => Some(request),
            TransactionMachine::ClientOther(_)
            | TransactionMachine::ServerInvite(_)
            | TransactionMachine::ServerOther(_) => None,
        }
    }

    /// True once the transaction is over and may be removed.
    pub fn is_terminated(&self) -> bool {
        matches!(
            self,
            TransactionMachine::ClientInvite(ClientInvite::Terminated)
                | TransactionMachine::ClientOther(ClientOther::Terminated)
                | TransactionMachine::ServerInvite(ServerInvite::Terminated)
                | TransactionMachine::ServerOther(ServerOther::Terminated)
        )
    }
}

/// The interval of timers A, E and G after so many retransmissions, without their ceiling.
fn doubled(repeats: u8) -> Duration {
    T1 * 2u32.saturating_pow(repeats.into())
}

/// Zero on reliable transports: they neither lose nor repeat (RFC 3261 §17.1.1.2, Timer D; §17.2.2, Timer J).
fn linger(reliable: bool, on_udp: Duration) -> Duration {
    if reliable { Duration::ZERO } else { on_udp }
}
