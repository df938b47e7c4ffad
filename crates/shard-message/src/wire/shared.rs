//! Responses that nodes share (`sip::endpoint::SharedResponse`), and messages that a third node passes on to one that the sender has no
//! link to.

use cluster::fields::{Corrupt, put_bytes, put_number};
use cluster::limits::RELAY_NODES;
use cluster::link::Message;
use cluster::relay::Passage;
use cluster::{Epoch, Life, ShardAddress};
use sip::endpoint::{ResponseHandling, SharedResponse};

use super::values::{absent, at_place, fields, place_of};
use super::{PACKET, TRANSMIT, message};

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
const PASSED: u64 = 4;

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

/// A packet, a message for a connection or a shared response on its way through other nodes. It has this form until its receiver has it, so that each of them knows
/// those before, also when its link gives the message back.
pub fn relayed(passage: &Passage, inner: &Message) -> Message {
    let mut body = Vec::with_capacity(inner.body.len() + 32);
    put_number(&mut body, TO_LIFE, u64::from(passage.to().0));
    put_number(&mut body, KIND, u64::from(inner.kind));
    put_bytes(&mut body, BODY, &inner.body);
    for life in passage.passed() {
        put_number(&mut body, PASSED, u64::from(life.0));
    }
    Message { kind: RELAYED, epoch: Epoch(0), shard: inner.shard, body: body.into() }
}

/// The passage of a relayed message, and the message. A kind that is not relayed is a fault, so that no message is relayed within another. Of
/// more nodes than may pass a message on the first ones count: it is given to its receiver, and to no third node.
pub(super) fn read_relayed(message: &Message) -> Result<(Passage, Message), Corrupt> {
    let (mut to, mut kind, mut body, mut passed) = (None, 0, None, Vec::new());
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        match field.number {
            TO_LIFE => to = Some(Life(field.value()?)),
            KIND => kind = field.value()?,
            // Without a copy, as of a message that came straight.
            BODY => body = Some(message.body.slice_ref(field.bytes)),
            PASSED if passed.len() < RELAY_NODES => passed.push(Life(field.value()?)),
            _ => {}
        }
    }
    if !is_relayed(kind) {
        return Err(absent("a relayed message is of no kind that is relayed"));
    }
    let body = body.ok_or(absent("a relayed message has no body"))?;
    let passage = Passage::new(to.ok_or(absent("a relayed message has no receiver"))?);
    let passage = passed.into_iter().fold(passage, |passage, life| passage.after(life));
    Ok((passage, Message { kind, epoch: Epoch(0), shard: message.shard, body }))
}

/// True for a packet, also for one that comes by way of a third node.
pub fn has_packet(message: &Message) -> bool {
    message.kind == PACKET
        || message.kind == RELAYED && read_relayed(message).is_ok_and(|(_, inner)| inner.kind == PACKET)
}

/// True for the kinds that a third node passes on.
pub fn is_relayed(kind: u16) -> bool {
    matches!(kind, PACKET | TRANSMIT | SHARED_RESPONSE)
}
