//! Non-INVITE server transaction: RFC 3261 §17.2.2, with the 100 of RFC 4320 §4.1.

use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;

use super::{TIMEOUT, TransactionEvent, TransactionOutput, linger};

/// RFC 4320 §4.1: when timer E of the client reaches T2, after 500, 1,000 and 2,000 ms.
pub(super) const SLOW: Duration = Duration::from_millis(3_500);

/// The non-INVITE server transaction (RFC 3261 §17.2.2); fields are named after its timers.
#[derive(Debug)]
pub enum ServerOther {
    /// No response yet.
    Trying {
        /// The transport is reliable: timer J is zero.
        reliable: bool,
        /// The time for a 100, so that the client slows down its retransmissions (RFC 4320 §4.1).
        slow: Instant,
    },
    /// A provisional response was sent, which repetitions of the request get again.
    Proceeding {
        /// The transport is reliable: timer J is zero.
        reliable: bool,
        /// The last provisional response.
        last: Box<[u8]>,
    },
    /// The final response was sent, which repetitions of the request get again.
    Completed {
        /// The response as sent.
        response: Box<[u8]>,
        /// The end, 64*T1 after the response over UDP.
        timer_j: Instant,
    },
    /// Nothing more is sent or passed on.
    Terminated,
}

impl ServerOther {
    /// Starts the transaction.
    pub fn start(now: Instant, reliable: bool) -> Self {
        ServerOther::Trying { reliable, slow: now + SLOW }
    }

    /// A response from the user.
    pub fn respond(&mut self, now: Instant, status: u16, response: Bytes) -> TransactionOutput {
        match self {
            ServerOther::Trying { reliable, .. } | ServerOther::Proceeding { reliable, .. } => {
                let reliable = *reliable;
                *self = if status < 200 {
                    ServerOther::Proceeding { reliable, last: Box::from(&*response) }
                } else {
                    ServerOther::Completed {
                        response: Box::from(&*response),
                        timer_j: now + linger(reliable, TIMEOUT),
                    }
                };
                TransactionOutput::send(response)
            }
            // §17.2.2: any other final response from the user is discarded.
            _ => TransactionOutput::nothing(),
        }
    }

    /// The request came again.
    pub fn handle_retransmission(&mut self) -> TransactionOutput {
        match self {
            ServerOther::Proceeding { last: response, .. } | ServerOther::Completed { response, .. } => {
                TransactionOutput::send_again(response)
            }
            // §17.2.2: Trying has nothing to say yet.
            _ => TransactionOutput::nothing(),
        }
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timer(&mut self, now: Instant) -> TransactionOutput {
        match self {
            ServerOther::Trying { slow, .. } if *slow <= now => {
                *slow = Instant::FAR_FUTURE;
                TransactionOutput::tell(TransactionEvent::Slow)
            }
            ServerOther::Completed { timer_j, .. } if *timer_j <= now => {
                *self = ServerOther::Terminated;
                TransactionOutput::nothing()
            }
            // Woken early, or by a timer of a state that is gone.
            _ => TransactionOutput::nothing(),
        }
    }

    /// The time of the next timer; [`Instant::FAR_FUTURE`] without one.
    pub fn deadline(&self) -> Instant {
        match self {
            ServerOther::Trying { slow, .. } => *slow,
            ServerOther::Completed { timer_j, .. } => *timer_j,
            _ => Instant::FAR_FUTURE,
        }
    }

    /// True if nothing was sent yet, so that the client goes on repeating its request.
    pub fn is_silent(&self) -> bool {
        matches!(self, ServerOther::Trying { .. })
    }

    /// True once a final response was sent.
    pub fn has_final(&self) -> bool {
        matches!(self, ServerOther::Completed { .. } | ServerOther::Terminated)
    }
}
