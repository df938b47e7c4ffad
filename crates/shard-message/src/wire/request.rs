//! The messages of an operator's request to all nodes of a farm: the asked node sends the request to the others, and each of them answers
//! in parts. Both bodies are JSON as on the control socket (`control::Request`, `control::Response`), so that a request needs no
//! second form; an unknown kind of request is refused by the node that reads it.
//!
//! They have the class Bulk, as traces. A node of version 1 does not know these kinds, so they are sent from level 2 on.

use cluster::Epoch;
use cluster::fields::{Corrupt, put_bytes, put_number};
use cluster::link::Message;

use super::values::{absent, fields, flag};
use crate::limits::{FARM_ANSWER_PART, FARM_REQUEST_BYTES};

/// The level of the map from which all nodes know these messages.
pub const REQUESTS_SINCE: u16 = 2;

/// Kinds of messages between nodes: 40 to 49 are for operating a farm.
const REQUEST: u16 = 47;
const RESPONSE: u16 = 48;

const NUMBER: u64 = 1;
const BODY: u64 = 2;
const PART: u64 = 3;
const IS_LAST: u64 = 4;

/// A message of an operator's request, which the asking node numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMessage {
    /// The asking node's number of the request.
    pub number: u64,
    /// The request, or a part of the response.
    pub body: RequestBody,
}

/// The request, or a part of the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestBody {
    /// To another node: perform this `control::Request`.
    Request(Box<[u8]>),
    /// To the asking node: bytes of a `control::Response`.
    Response {
        /// Parts are numbered from 0, and come in order.
        part: u32,
        /// The response is complete.
        is_last: bool,
        /// The bytes of this part.
        bytes: Box<[u8]>,
    },
}

/// True for the kinds of a request.
pub(super) fn is_of_request(kind: u16) -> bool {
    (REQUEST..=RESPONSE).contains(&kind)
}

impl RequestMessage {
    /// The message, for the shard with the links.
    pub fn message(&self) -> Message {
        let mut body = Vec::with_capacity(64);
        put_number(&mut body, NUMBER, self.number);
        let kind = match &self.body {
            RequestBody::Request(request) => {
                put_bytes(&mut body, BODY, request);
                REQUEST
            }
            RequestBody::Response { part, is_last, bytes } => {
                put_number(&mut body, PART, u64::from(*part));
                put_number(&mut body, IS_LAST, u64::from(*is_last));
                put_bytes(&mut body, BODY, bytes);
                RESPONSE
            }
        };
        Message { kind, epoch: Epoch(0), shard: 0, body: body.into() }
    }

    /// The messages of a response.
    pub fn parts_of_response(number: u64, response: &[u8]) -> impl Iterator<Item = RequestMessage> {
        let count = response.len().div_ceil(FARM_ANSWER_PART).max(1);
        (0..count).map(move |place| {
            let end = response.len().min((place + 1) * FARM_ANSWER_PART);
            let bytes = response[place * FARM_ANSWER_PART..end].into();
            // An answer has fewer than 2^32 parts.
            let part = u32::try_from(place).unwrap_or(u32::MAX);
            RequestMessage {
                number,
                body: RequestBody::Response { part, is_last: place + 1 == count, bytes },
            }
        })
    }

    /// Reads a message; none if it is of another kind.
    ///
    /// # Errors
    /// [`Corrupt`] with the fault.
    pub fn read(message: &Message) -> Result<Option<RequestMessage>, Corrupt> {
        if !is_of_request(message.kind) {
            return Ok(None);
        }
        let (mut number, mut part, mut is_last) = (None, 0, false);
        let mut bytes: Box<[u8]> = Box::default();
        let mut fields = fields(&message.body)?;
        while let Some(field) = fields.next()? {
            match field.number {
                NUMBER => number = Some(field.value()?),
                BODY => bytes = field.bytes.into(),
                PART => part = field.value()?,
                IS_LAST => is_last = flag(&field)?,
                _ => {}
            }
        }
        let is_request = message.kind == REQUEST;
        let most = if is_request { FARM_REQUEST_BYTES } else { FARM_ANSWER_PART };
        if bytes.len() > most {
            return Err(absent("a request or a part of its response is too long"));
        }
        let body = if is_request {
            RequestBody::Request(bytes)
        } else {
            RequestBody::Response { part, is_last, bytes }
        };
        Ok(Some(RequestMessage { number: number.ok_or(absent("a request has no number"))?, body }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cluster::link::Class;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{any_request, class_of};

    fn examples() -> [(&'static str, RequestBody); 2] {
        let bytes = br#"{"done":{"rows":1}}"#.as_slice().into();
        [
            ("request", RequestBody::Request(br#"{"end_call":{"call":"CA1"}}"#.as_slice().into())),
            ("response", RequestBody::Response { part: 3, is_last: true, bytes }),
        ]
    }

    #[test]
    fn each_message_of_a_request_is_written_as_in_its_file_and_comes_back() {
        for (name, body) in examples() {
            let sent = RequestMessage { number: 300, body };
            let message = sent.message();
            assert_eq!(class_of(&message), Class::Bulk);
            super::super::tests::is_as_in_file(name, &message);
            assert_eq!(RequestMessage::read(&message), Ok(Some(sent)));
        }
    }

    #[test]
    fn a_response_goes_in_parts_of_which_the_last_says_so() {
        let response: Vec<u8> = (0..FARM_ANSWER_PART * 2 + 5).map(|at| at.to_le_bytes()[0]).collect();
        let parts: Vec<_> = RequestMessage::parts_of_response(7, &response).collect();
        let (mut joined, mut marks) = (Vec::new(), Vec::new());
        for RequestMessage { body, .. } in parts {
            let RequestBody::Response { part, is_last, bytes } = body else { panic!("{body:?}") };
            joined.extend_from_slice(&bytes);
            marks.push((part, is_last));
        }
        assert_eq!(marks, [(0, false), (1, false), (2, true)]);
        assert!(joined == response);
        assert_eq!(RequestMessage::parts_of_response(7, b"").count(), 1);
    }

    #[test]
    fn a_message_without_its_number_or_with_too_long_a_body_is_a_fault() {
        let long: Box<[u8]> = vec![b'x'; FARM_REQUEST_BYTES + 1].into();
        let part = RequestBody::Response { part: 0, is_last: true, bytes: long.clone() };
        for body in [RequestBody::Request(long), part] {
            assert!(RequestMessage::read(&RequestMessage { number: 1, body }.message()).is_err());
        }
        for kind in [REQUEST, RESPONSE] {
            let message = Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::new() };
            assert!(RequestMessage::read(&message).is_err(), "{kind}");
        }
        let other = Message { kind: RESPONSE + 1, epoch: Epoch(0), shard: 0, body: Bytes::new() };
        assert_eq!(RequestMessage::read(&other), Ok(None));
    }

    proptest! {
        #[test]
        fn any_request_and_any_part_come_back(number: u64, part: u32, is_last: bool, bytes: Vec<u8>) {
            let bytes: Box<[u8]> = bytes.into();
            let part = RequestBody::Response { part, is_last, bytes: bytes.clone() };
            for body in [RequestBody::Request(bytes), part] {
                let sent = RequestMessage { number, body };
                prop_assert_eq!(RequestMessage::read(&sent.message()), Ok(Some(sent)));
            }
        }

        #[test]
        fn any_bytes_are_a_message_of_a_request_or_a_fault(kind in REQUEST..=RESPONSE, body: Vec<u8>) {
            any_request::check(kind, &body);
        }

        /// Bytes near those of real messages: one is changed, some are cut off.
        #[test]
        fn almost_a_message_of_a_request_is_one_or_a_fault(
            which in 0..2_usize, place: prop::sample::Index, byte: u8, kept: prop::sample::Index,
        ) {
            let message = RequestMessage { number: 300, body: examples()[which].1.clone() }.message();
            let mut body = message.body.to_vec();
            *place.get_mut(&mut body) = byte;
            any_request::check(message.kind, &body);
            any_request::check(message.kind, &body[..kept.index(body.len())]);
        }
    }
}
