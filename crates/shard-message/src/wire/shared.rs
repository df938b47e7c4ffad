//! Responses that nodes share (`sip::endpoint::SharedResponse`), and messages that a third node passes on to one that the sender has no
//! link to.

use cluster::fields::{Corrupt, put_bytes, put_number};
use cluster::link::Message;
use cluster::{Epoch, Life, ShardAddress};
use sip::endpoint::{ResponseHandling, SharedResponse};

use super::values::{absent, at_place, fields, place_of};
use super::{PACKET, message};

/// The wire version that brings both kinds.
pub const SHARED_SINCE: u16 = 2;

pub(super) const SHARED_RESPONSE: u16 = 8;
pub(super) const RELAYED: u16 = 9;

// Fields of a shared response.
const BYTES: u64 = 1;
const HANDLING: u64 = 2;

// Fields of a relayed message. The shard it is for is that of the outer message, in the link's header.
const TO_LIFE: u64 = 1;
const KIND: u64 = 2;
const BODY: u64 = 3;

/// By their number on the wire; a new one goes to the end.
pub(super) const HANDLINGS: [ResponseHandling; 3] =
    [ResponseHandling::Unhandled, ResponseHandling::Forwarded, ResponseHandling::InContext];

/// A response for all shards of another node.
pub fn shared_response(to: ShardAddress, shared: &SharedResponse) -> Message {
    let SharedResponse { bytes, handling } = shared;
    let mut body = Vec::with_capacity(bytes.len() + 16);
    put_number(&mut body, HANDLING, place_of(&HANDLINGS, handling));
    put_bytes(&mut body, BYTES, bytes);
    message(SHARED_RESPONSE, to, body)
}

/// A handling that a later version has added is a fault, not a default: each of the known ones would make
/// this node do something else with the response.
pub(super) fn read_shared(message: &Message) -> Result<SharedResponse, Corrupt> {
    let (mut bytes, mut handling) = (None, None);
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        match field.number {
            BYTES => bytes = Some(message.body.slice_ref(field.bytes)),
            HANDLING => handling = at_place(&HANDLINGS, field.value()?),
            _ => {}
        }
    }
    Ok(SharedResponse {
        bytes: bytes.ok_or(absent("a shared response has no bytes"))?,
        handling: handling.ok_or(absent("a shared response does not say how it was handled"))?,
    })
}

/// A packet or a shared response for the node of this life, by way of a third one.
pub fn relayed(to: Life, inner: &Message) -> Message {
    let mut body = Vec::with_capacity(inner.body.len() + 16);
    put_number(&mut body, TO_LIFE, u64::from(to.0));
    put_number(&mut body, KIND, u64::from(inner.kind));
    put_bytes(&mut body, BODY, &inner.body);
    Message { kind: RELAYED, epoch: Epoch(0), shard: inner.shard, body: body.into() }
}

/// The life that a relayed message is for, and the message. A kind that is not relayed is a fault, so that no message is relayed twice.
pub(super) fn read_relayed(message: &Message) -> Result<(Life, Message), Corrupt> {
    let (mut to, mut kind, mut body) = (None, 0, None);
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        match field.number {
            TO_LIFE => to = Some(Life(field.value()?)),
            KIND => kind = field.value()?,
            // Without a copy, as of a message that came straight.
            BODY => body = Some(message.body.slice_ref(field.bytes)),
            _ => {}
        }
    }
    if !is_relayed(kind) {
        return Err(absent("a relayed message is of no kind that is relayed"));
    }
    let body = body.ok_or(absent("a relayed message has no body"))?;
    let to = to.ok_or(absent("a relayed message has no receiver"))?;
    Ok((to, Message { kind, epoch: Epoch(0), shard: message.shard, body }))
}

/// True for the kinds that a third node passes on.
pub fn is_relayed(kind: u16) -> bool {
    matches!(kind, PACKET | SHARED_RESPONSE)
}
