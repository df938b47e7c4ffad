//! The requests of all sessions that wait for a final response: their numbers, their purpose, and their
//! repetition with credentials.
//!
//! A number is of one transaction: a request that is sent again has another. The endpoint names responses and
//! failures by it, and a number that is not here any more belongs to a request that has ended.

use std::collections::HashMap;

use bytes::Bytes;
use stdx::slab::Key;

use super::{Session, SessionEffect, SessionEffects};
use crate::events::{OutgoingRoute, RequestId};
use crate::wire::{Message, Method};

/// The purpose of a request of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPurpose {
    /// Makes the session.
    Invite,
    Offer {
        refresh: bool,
    },
    /// Ends the session.
    Bye,
    /// Asks the peer to call another.
    Refer,
    /// Its final response is told: INFO and MESSAGE.
    Told(Method),
    /// PRACK and NOTIFY: only the loss of the dialog matters.
    Quiet,
}

/// A request of ours that waits for its final response, kept to be sent again with credentials.
pub(super) struct PendingRequest {
    /// The session.
    pub(super) key: Key,
    pub(super) purpose: RequestPurpose,
    /// The request as it was sent, but for its Via and Contact.
    pub(super) message: Message,
    pub(super) onward: OutgoingRoute,
    /// The number of challenges that it has answered.
    pub(super) challenges: u8,
}

/// The requests of all sessions that wait for their final response, and the numbers of these and of MESSAGEs
/// outside of dialogs.
#[derive(Default)]
pub(super) struct PendingRequests {
    pub(super) by_id: HashMap<u64, PendingRequest>,
    last_id: u64,
}

impl PendingRequests {
    /// A number that no request here has had.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends a request of the session; its final response comes to `Sessions::handle_response`.
    pub(super) fn send(
        &mut self,
        session: &mut Session,
        purpose: RequestPurpose,
        bytes: Bytes,
        onward: OutgoingRoute,
        out: &mut SessionEffects,
    ) -> u64 {
        let id = self.next_id();
        if let Ok(message) = Message::parse(bytes.clone()) {
            let key = Key::from_u64(session.id.0);
            let pending = PendingRequest { key, purpose, message, onward: onward.clone(), challenges: 0 };
            self.insert(session, id, pending);
        }
        // Nothing but the responses goes to an address that may be another's: a session must not be a means
        // to flood it.
        out.push(if session.proved {
            SessionEffect::Request { id: RequestId(id), bytes, onward }
        } else {
            SessionEffect::Withheld { id: RequestId(id) }
        });
        id
    }

    /// Another try of the same request, under a number of its own.
    pub(super) fn send_again(
        &mut self,
        session: &mut Session,
        mut pending: PendingRequest,
        bytes: Bytes,
        out: &mut SessionEffects,
    ) {
        let Ok(message) = Message::parse(bytes.clone()) else { return };
        pending.message = message;
        let (id, onward) = (self.next_id(), pending.onward.clone());
        match pending.purpose {
            RequestPurpose::Invite => session.note_request(id),
            RequestPurpose::Offer { .. } => session.exchange.note_request(id),
            _ => {}
        }
        self.insert(session, id, pending);
        out.push(SessionEffect::Request { id: RequestId(id), bytes, onward });
    }

    fn insert(&mut self, session: &mut Session, id: u64, pending: PendingRequest) {
        session.requests.push(id);
        self.by_id.insert(id, pending);
    }
}
