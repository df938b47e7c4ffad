//! Non-INVITE server transaction: RFC 3261 §17.2.2.

use bytes::Bytes;
use stdx::Instant;

use super::{TIMEOUT, Turn, linger};

#[derive(Debug)]
pub enum ServerOther {
    Trying { reliable: bool },
    Proceeding { reliable: bool, last: Bytes },
    Completed { response: Bytes, timer_j: Instant },
    Terminated,
}

impl ServerOther {
    pub fn start(reliable: bool) -> Self {
        ServerOther::Trying { reliable }
    }

    /// A response from the user.
    pub fn respond(&mut self, now: Instant, status: u16, response: Bytes) -> Turn {
        match self {
            ServerOther::Trying { reliable } | ServerOther::Proceeding { reliable, .. } => {
                let reliable = *reliable;
                *self = if status < 200 {
                    ServerOther::Proceeding { reliable, last: response.clone() }
                } else {
                    ServerOther::Completed {
                        response: response.clone(),
                        timer_j: now + linger(reliable, TIMEOUT),
                    }
                };
                Turn::send(response)
            }
            // §17.2.2: any other final response from the user is discarded.
            _ => Turn::nothing(),
        }
    }

    /// The request came again.
    pub fn handle_retransmission(&mut self) -> Turn {
        match self {
            ServerOther::Proceeding { last: response, .. } | ServerOther::Completed { response, .. } => {
                Turn::send(response.clone())
            }
            // §17.2.2: Trying has nothing to say yet.
            _ => Turn::nothing(),
        }
    }

    pub fn handle_timer(&mut self, now: Instant) -> Turn {
        if let ServerOther::Completed { timer_j, .. } = self
            && *timer_j <= now
        {
            *self = ServerOther::Terminated;
        }
        Turn::nothing()
    }

    pub fn deadline(&self) -> Instant {
        match self {
            ServerOther::Completed { timer_j, .. } => *timer_j,
            _ => Instant::FAR_FUTURE,
        }
    }

    pub fn has_final(&self) -> bool {
        matches!(self, ServerOther::Completed { .. } | ServerOther::Terminated)
    }
}
