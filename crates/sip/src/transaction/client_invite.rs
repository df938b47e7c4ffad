//! INVITE client transaction: RFC 3261 §17.1.1 with the Accepted state of RFC 6026 §7.2.

use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;

use super::{T1, TIMEOUT, TransactionEvent, TransactionOutput, linger};
use crate::wire::{Header, Message, Request};

/// The INVITE client transaction (RFC 3261 §17.1.1, RFC 6026 §7.2); fields are named after its timers.
#[derive(Debug)]
pub enum ClientInvite {
    Calling {
        request: Bytes,
        reliable: bool,
        interval: Duration,
        timer_a: Instant,
        timer_b: Instant,
    },
    /// The request is kept for the CANCEL and the ACK that are made from it.
    Proceeding {
        request: Bytes,
        reliable: bool,
    },
    Completed {
        ack: Bytes,
        timer_d: Instant,
    },
    Accepted {
        timer_m: Instant,
    },
    Terminated,
}

impl ClientInvite {
    /// Starts the transaction and sends the request.
    pub fn start(now: Instant, request: Bytes, reliable: bool) -> (Self, TransactionOutput) {
        let turn = TransactionOutput::send(request.clone());
        // RFC 3261 §17.1.1.2: no timer A on reliable transports.
        let timer_a = if reliable { Instant::FAR_FUTURE } else { now + T1 };
        let machine =
            ClientInvite::Calling { request, reliable, interval: T1, timer_a, timer_b: now + TIMEOUT };
        (machine, turn)
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
                    TransactionOutput::send(ack.clone())
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
        request: Bytes,
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
                *self =
                    ClientInvite::Completed { ack: ack.clone(), timer_d: now + linger(reliable, TIMEOUT) };
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
            ClientInvite::Calling { request, interval, timer_a, .. } if *timer_a <= now => {
                // §17.1.1.2: timer A doubles without a ceiling.
                *interval *= 2;
                *timer_a = *timer_a + *interval;
                TransactionOutput::send(request.clone())
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
    pub fn request(&self) -> Option<&Bytes> {
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

fn make_ack(request: Bytes, response: &Message) -> Option<Bytes> {
    let invite = Message::parse(request).ok()?;
    Some(Request::from_invite("ACK", &invite, response.header(Header::To)?))
}
