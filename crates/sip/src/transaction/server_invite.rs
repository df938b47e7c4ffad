//! INVITE server transaction: RFC 3261 §17.2.1 with the Accepted state of RFC 6026 §7.1.

use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;

use super::{T1, T2, T4, TIMEOUT, TransactionEvent, TransactionOutput, doubled, linger};

/// §17.2.1 asks for a 100 unless something better is known to come within this time. We wait for it: on a
/// quick network the 180 comes first and the 100 is never sent.
pub(super) const TRYING_DELAY: Duration = Duration::from_millis(200);

/// The INVITE server transaction (RFC 3261 §17.2.1, RFC 6026 §7.1); fields are named after its timers.
#[derive(Debug)]
pub enum ServerInvite {
    /// A 100 is due unless a response comes first.
    Proceeding {
        /// The time when a 100 is due: 200 ms after the INVITE (§17.2.1).
        trying: Option<Instant>,
        /// The last provisional response, for repetitions of the INVITE.
        last: Option<Box<[u8]>>,
        /// The transport is reliable: timers G and I do not run.
        reliable: bool,
    },
    /// A final response other than 2xx was sent and waits for its ACK.
    Completed {
        /// The response as sent.
        response: Box<[u8]>,
        /// The transport is reliable: the response is not repeated.
        reliable: bool,
        /// Retransmissions so far: timer G's interval doubles with each, from T1 up to T2.
        repeats: u8,
        /// The next retransmission of the response.
        timer_g: Instant,
        /// The end without an ACK, 64*T1 after the response.
        timer_h: Instant,
    },
    /// The ACK came: its repetitions are absorbed.
    Confirmed {
        /// The end, T4 after the ACK over UDP.
        timer_i: Instant,
    },
    /// A 2xx was sent: repetitions of the INVITE are absorbed (RFC 6026 §7.1).
    Accepted {
        /// The end, 64*T1 after the 2xx.
        timer_l: Instant,
    },
    /// Nothing more is sent or passed on.
    Terminated,
}

impl ServerInvite {
    /// Starts the transaction.
    pub fn start(now: Instant, reliable: bool) -> Self {
        ServerInvite::Proceeding { trying: Some(now + TRYING_DELAY), last: None, reliable }
    }

    /// True if nothing was sent yet, so that the client goes on repeating its request.
    pub fn is_silent(&self) -> bool {
        matches!(self, ServerInvite::Proceeding { last: None, .. })
    }

    /// A response from the user.
    pub fn respond(&mut self, now: Instant, status: u16, response: Bytes) -> TransactionOutput {
        match self {
            ServerInvite::Proceeding { reliable, .. } => {
                let reliable = *reliable;
                *self = match status {
                    ..200 => {
                        ServerInvite::Proceeding { trying: None, last: Some(Box::from(&*response)), reliable }
                    }
                    200..300 => ServerInvite::Accepted { timer_l: now + TIMEOUT },
                    _ => ServerInvite::Completed {
                        response: Box::from(&*response),
                        reliable,
                        repeats: 0,
                        timer_g: if reliable { Instant::FAR_FUTURE } else { now + T1 },
                        timer_h: now + TIMEOUT,
                    },
                };
                TransactionOutput::send(response)
            }
            // RFC 6026 §7.1: the user retransmits 2xx through us; forked calls bring several.
            ServerInvite::Accepted { .. } if (200..300).contains(&status) => {
                TransactionOutput::send(response)
            }
            _ => TransactionOutput::nothing(),
        }
    }

    /// The 100 that is due is not sent yet: this asks for it again later.
    pub(crate) fn withhold_trying(&mut self, now: Instant) {
        if let ServerInvite::Proceeding { trying, last: None, .. } = self {
            *trying = Some(now + TRYING_DELAY);
        }
    }

    /// The INVITE came again.
    pub fn handle_retransmission(&mut self) -> TransactionOutput {
        match self {
            ServerInvite::Proceeding { trying, last: None, .. } if trying.is_some() => {
                *trying = None;
                TransactionOutput::tell(TransactionEvent::Slow)
            }
            ServerInvite::Proceeding { last: Some(response), .. }
            | ServerInvite::Completed { response, .. } => TransactionOutput::send_again(response),
            // RFC 6026 §7.1: Accepted absorbs it.
            _ => TransactionOutput::nothing(),
        }
    }

    /// Handles the ACK of a final response other than 2xx.
    pub fn handle_ack(&mut self, now: Instant) -> TransactionOutput {
        if let ServerInvite::Completed { reliable, .. } = self {
            *self = ServerInvite::Confirmed { timer_i: now + linger(*reliable, T4) };
        }
        TransactionOutput::nothing()
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timer(&mut self, now: Instant) -> TransactionOutput {
        match self {
            ServerInvite::Proceeding { trying, .. } if trying.is_some_and(|due| due <= now) => {
                *trying = None;
                TransactionOutput::tell(TransactionEvent::Slow)
            }
            ServerInvite::Completed { timer_h, .. } if *timer_h <= now => {
                *self = ServerInvite::Terminated;
                TransactionOutput::tell(TransactionEvent::NoAck)
            }
            ServerInvite::Completed { response, repeats, timer_g, .. } if *timer_g <= now => {
                *repeats += 1;
                *timer_g = *timer_g + doubled(*repeats).min(T2);
                TransactionOutput::send_again(response)
            }
            ServerInvite::Confirmed { timer_i: end } | ServerInvite::Accepted { timer_l: end }
                if *end <= now =>
            {
                *self = ServerInvite::Terminated;
                TransactionOutput::nothing()
            }
            // Woken early, or by a timer of a state that is gone.
            _ => TransactionOutput::nothing(),
        }
    }

    /// The time of the next timer; [`Instant::FAR_FUTURE`] without one.
    pub fn deadline(&self) -> Instant {
        match self {
            ServerInvite::Proceeding { trying: Some(due), .. } => *due,
            ServerInvite::Completed { timer_g, timer_h, .. } => (*timer_g).min(*timer_h),
            ServerInvite::Confirmed { timer_i } => *timer_i,
            ServerInvite::Accepted { timer_l } => *timer_l,
            ServerInvite::Proceeding { .. } | ServerInvite::Terminated => Instant::FAR_FUTURE,
        }
    }

    /// True once a final response was sent.
    pub fn has_final(&self) -> bool {
        !matches!(self, ServerInvite::Proceeding { .. })
    }
}
