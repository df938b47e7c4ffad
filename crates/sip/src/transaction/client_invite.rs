//! INVITE client transaction: RFC 3261 §17.1.1 with the Accepted state of RFC 6026 §7.2.

use bytes::Bytes;
use stdx::Instant;

use super::{T1, TIMEOUT, TransactionEvent, TransactionOutput, doubled, linger};
use crate::wire::{Header, Message, RequestBuilder};

/// The INVITE client transaction (RFC 3261 §17.1.1, RFC 6026 §7.2); fields are named after its timers.
#[derive(Debug)]
pub enum ClientInvite {
    /// No response yet: the request is repeated over UDP.
    Calling {
        /// The INVITE as sent.
        request: Box<[u8]>,
        /// The transport is reliable: timers A and D do not run.
        reliable: bool,
        /// Retransmissions so far: timer A's interval doubles with each, from T1.
        repeats: u8,
        /// The next retransmission.
        timer_a: Instant,
        /// The end with 408, 64*T1 after the start.
        timer_b: Instant,
    },
    /// The request is kept for the CANCEL and the ACK that are made from it.
    Proceeding {
        /// The INVITE as sent.
        request: Box<[u8]>,
        /// The transport is reliable: timer D is zero.
        reliable: bool,
    },
    /// A final response other than 2xx came: its repetitions get the ACK again.
    Completed {
        /// The ACK as sent.
        ack: Box<[u8]>,
        /// The end, at least 32 s after the response over UDP.
        timer_d: Instant,
    },
    /// A 2xx came: others, of further forks, are passed on (RFC 6026 §7.2).
    Accepted {
        /// The end, 64*T1 after the first 2xx.
        timer_m: Instant,
    },
    /// Nothing more is sent or passed on.
    Terminated,
}

impl ClientInvite {
    /// Starts the transaction and sends the request.
    pub fn start(now: Instant, request: Bytes, reliable: bool) -> (Self, TransactionOutput) {
        // RFC 3261 §17.1.1.2: no timer A on reliable transports.
        let timer_a = if reliable { Instant::FAR_FUTURE } else { now + T1 };
        let machine = ClientInvite::Calling {
            request: Box::from(&*request),
            reliable,
            repeats: 0,
            timer_a,
            timer_b: now + TIMEOUT,
        };
        (machine, TransactionOutput::send(request))
    }

    /// Handles a response of the peer.
    pub fn handle_response(&mut self, now: Instant, response: &Message) -> TransactionOutput {
        let status = response.status();
        match std::mem::replace(self, ClientInvite::Terminated) {
            ClientInvite::Calling { request, reliable, .. }
            | ClientInvite::Proceeding { request, reliable } => {
                self.handle_while_open(now, response, request, reliable)
            }
            ClientInvite::Completed { ack, timer_d } => {
                // §17.1.1.2: a retransmitted final response is answered with the same ACK, and not passed up.
                let turn = if status >= 300 {
                    TransactionOutput::send_again(&ack)
                } else {
                    TransactionOutput::nothing()
                };
                *self = ClientInvite::Completed { ack, timer_d };
                turn
            }
            ClientInvite::Accepted { timer_m } => {
                *self = ClientInvite::Accepted { timer_m };
                // RFC 6026 §7.2: every further 2xx goes to the user, anything else is dropped.
                if (200..300).contains(&status) {
                    TransactionOutput::tell(TransactionEvent::Response)
                } else {
                    TransactionOutput::nothing()
                }
            }
            ClientInvite::Terminated => TransactionOutput::nothing(),
        }
    }

    fn handle_while_open(
        &mut self,
        now: Instant,
        response: &Message,
        request: Box<[u8]>,
        reliable: bool,
    ) -> TransactionOutput {
        match response.status() {
            ..200 => {
                *self = ClientInvite::Proceeding { request, reliable };
                TransactionOutput::tell(TransactionEvent::Response)
            }
            200..300 => {
                *self = ClientInvite::Accepted { timer_m: now + TIMEOUT };
                TransactionOutput::tell(TransactionEvent::Response)
            }
            _ => {
                let Some(ack) = make_ack(request, response) else {
                    return TransactionOutput::tell(TransactionEvent::Response);
                };
                let timer_d = now + linger(reliable, TIMEOUT);
                *self = ClientInvite::Completed { ack: Box::from(&*ack), timer_d };
                TransactionOutput { send: Some(ack), tell: Some(TransactionEvent::Response) }
            }
        }
    }

    /// Handles the timers that are due at `now`.
    pub fn handle_timer(&mut self, now: Instant) -> TransactionOutput {
        match self {
            ClientInvite::Calling { timer_b, .. } if *timer_b <= now => {
                *self = ClientInvite::Terminated;
                TransactionOutput::tell(TransactionEvent::Timeout)
            }
            ClientInvite::Calling { request, repeats, timer_a, .. } if *timer_a <= now => {
                // §17.1.1.2: timer A doubles without a ceiling.
                *repeats += 1;
                *timer_a = *timer_a + doubled(*repeats);
                TransactionOutput::send_again(request)
            }
            ClientInvite::Completed { timer_d: end, .. } | ClientInvite::Accepted { timer_m: end }
                if *end <= now =>
            {
                *self = ClientInvite::Terminated;
                TransactionOutput::nothing()
            }
            // Woken early, or by a timer of a state that is gone.
            _ => TransactionOutput::nothing(),
        }
    }

    /// The INVITE as it was sent, while no final response has come.
    pub fn request(&self) -> Option<&[u8]> {
        match self {
            ClientInvite::Calling { request, .. } | ClientInvite::Proceeding { request, .. } => Some(request),
            _ => None,
        }
    }

    /// The time of the next timer; [`Instant::FAR_FUTURE`] without one.
    pub fn deadline(&self) -> Instant {
        match self {
            ClientInvite::Calling { timer_a, timer_b, .. } => (*timer_a).min(*timer_b),
            ClientInvite::Completed { timer_d, .. } => *timer_d,
            ClientInvite::Accepted { timer_m } => *timer_m,
            ClientInvite::Proceeding { .. } | ClientInvite::Terminated => Instant::FAR_FUTURE,
        }
    }
}

fn make_ack(request: Box<[u8]>, response: &Message) -> Option<Bytes> {
    let invite = Message::parse(request.into()).ok()?;
    Some(RequestBuilder::from_invite("ACK", &invite, response.header(Header::To)?))
}
