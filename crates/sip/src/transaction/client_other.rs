//! Non-INVITE client transaction: RFC 3261 §17.1.2.

use std::time::Duration;

use bytes::Bytes;
use stdx::Instant;

use super::{T1, T2, T4, TIMEOUT, Tell, Turn, linger};

#[derive(Debug)]
pub enum ClientOther {
    Trying { request: Bytes, reliable: bool, interval: Duration, timer_e: Instant, timer_f: Instant },
    Proceeding { request: Bytes, reliable: bool, timer_e: Instant, timer_f: Instant },
    Completed { timer_k: Instant },
    Terminated,
}

impl ClientOther {
    pub fn start(now: Instant, request: Bytes, reliable: bool) -> (Self, Turn) {
        let turn = Turn::send(request.clone());
        let timer_e = if reliable { Instant::FAR_FUTURE } else { now + T1 };
        (ClientOther::Trying { request, reliable, interval: T1, timer_e, timer_f: now + TIMEOUT }, turn)
    }

    pub fn handle_response(&mut self, now: Instant, status: u16) -> Turn {
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
                Turn::tell(Tell::Response)
            }
            // §17.1.2.2: Completed absorbs retransmitted responses.
            ended => {
                *self = ended;
                Turn::nothing()
            }
        }
    }

    pub fn handle_timer(&mut self, now: Instant) -> Turn {
        match self {
            ClientOther::Trying { timer_f, .. } | ClientOther::Proceeding { timer_f, .. }
                if *timer_f <= now =>
            {
                *self = ClientOther::Terminated;
                Turn::tell(Tell::Timeout)
            }
            ClientOther::Trying { request, interval, timer_e, .. } if *timer_e <= now => {
                *interval = (*interval * 2).min(T2);
                *timer_e = *timer_e + *interval;
                Turn::send(request.clone())
            }
            ClientOther::Proceeding { request, timer_e, .. } if *timer_e <= now => {
                *timer_e = now + T2;
                Turn::send(request.clone())
            }
            ClientOther::Completed { timer_k } if *timer_k <= now => {
                *self = ClientOther::Terminated;
                Turn::nothing()
            }
            // Woken early, or by a timer of a state that is gone.
            _ => Turn::nothing(),
        }
    }

    pub fn deadline(&self) -> Instant {
        match self {
            ClientOther::Trying { timer_e, timer_f, .. }
            | ClientOther::Proceeding { timer_e, timer_f, .. } => (*timer_e).min(*timer_f),
            ClientOther::Completed { timer_k } => *timer_k,
            ClientOther::Terminated => Instant::FAR_FUTURE,
        }
    }
}
