//! Non-INVITE client transaction: RFC 3261 §17.1.2.

use bytes::Bytes;
use stdx::Instant;

use super::{T1, T2, T4, TIMEOUT, TransactionEvent, TransactionOutput, doubled, linger};

/// The non-INVITE client transaction (RFC 3261 §17.1.2); fields are named after its timers.
#[derive(Debug)]
pub enum ClientOther {
    /// No response yet: the request is repeated over UDP.
    Trying {
        /// The request as sent.
        request: Box<[u8]>,
        /// The transport is reliable: timers E and K do not run.
        reliable: bool,
        /// Retransmissions so far: timer E's interval doubles with each, from T1 up to T2.
        repeats: u8,
        /// The next retransmission.
        timer_e: Instant,
        /// The end with 408, 64*T1 after the start.
        timer_f: Instant,
    },
    /// A provisional response came: the request is repeated every T2 over UDP (§17.1.2.2).
    Proceeding {
        /// The request as sent.
        request: Box<[u8]>,
        /// The transport is reliable: timers E and K do not run.
        reliable: bool,
        /// The next retransmission.
        timer_e: Instant,
        /// The end with 408, 64*T1 after the start.
        timer_f: Instant,
    },
    /// A final response came: its repetitions are absorbed.
    Completed {
        /// The end, T4 after the response over UDP.
        timer_k: Instant,
    },
    /// Nothing more is sent or passed on.
    Terminated,
}

impl ClientOther {
    /// Starts the transaction and sends the request.
    pub fn start(now: Instant, request: Bytes, reliable: bool) -> (Self, TransactionOutput) {
        let timer_e = if reliable { Instant::FAR_FUTURE } else { now + T1 };
        let machine = ClientOther::Trying {
            request: Box::from(&*request),
            reliable,
            repeats: 0,
            timer_e,
            timer_f: now + TIMEOUT,
        };
        (machine, TransactionOutput::send(request))
    }

    /// Handles a response of the peer.
    pub fn handle_response(&mut self, now: Instant, status: u16) -> TransactionOutput {
        match std::mem::replace(self, ClientOther::Terminated) {
            ClientOther::Trying { request, reliable, timer_f, .. }
            | ClientOther::Proceeding { request, reliable, timer_f, .. } => {
                *self = if status < 200 {
                    // §17.1.2.2: in Proceeding timer E fires every T2.
                    let timer_e = if reliable { Instant::FAR_FUTURE } else { now + T2 };
                    ClientOther::Proceeding { request, reliable, timer_e, timer_f }
                } else {
                    ClientOther::Completed { timer_k: now + linger(reliable, T4) }
                };
                TransactionOutput::tell(TransactionEvent::Response)
            }
            // §17.1.2.2: Completed absorbs retransmitted responses.
            ended => {
                *self = ended;
                TransactionOutput::nothing()
            }
        }
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timer(&mut self, now: Instant) -> TransactionOutput {
        match self {
            ClientOther::Trying { timer_f, .. } | ClientOther::Proceeding { timer_f, .. }
                if *timer_f <= now =>
            {
                *self = ClientOther::Terminated;
                TransactionOutput::tell(TransactionEvent::Timeout)
            }
            ClientOther::Trying { request, repeats, timer_e, .. } if *timer_e <= now => {
                *repeats += 1;
                *timer_e = *timer_e + doubled(*repeats).min(T2);
                TransactionOutput::send_again(request)
            }
            ClientOther::Proceeding { request, timer_e, .. } if *timer_e <= now => {
                *timer_e = now + T2;
                TransactionOutput::send_again(request)
            }
            ClientOther::Completed { timer_k } if *timer_k <= now => {
                *self = ClientOther::Terminated;
                TransactionOutput::nothing()
            }
            // Woken early, or by a timer of a state that is gone.
            _ => TransactionOutput::nothing(),
        }
    }

    /// The time of the next timer; [`Instant::FAR_FUTURE`] without one.
    pub fn deadline(&self) -> Instant {
        match self {
            ClientOther::Trying { timer_e, timer_f, .. }
            | ClientOther::Proceeding { timer_e, timer_f, .. } => (*timer_e).min(*timer_f),
            ClientOther::Completed { timer_k } => *timer_k,
            ClientOther::Terminated => Instant::FAR_FUTURE,
        }
    }
}
