//! The first frame of a link on a new connection: where the messages of each class go on.
//!
//! From wire version 2 on, the links of the prompt lane have numbers of their own in it: the sender's, and that of the peer's link as
//! the sender knows it. A node that has forgotten a link, as the peer was gone from its view for a while, so begins anew with the peer.

use crate::fields::{Corrupt, Fields, put_bytes, put_number, put_varint, take_varint};
use crate::limits::HELLO_BYTES;
use crate::link::class::Class;

/// The sender's link. Numbers of fields below 256 are those of classes.
const OWN: u64 = 256;
/// The receiver's link, as far as the sender knows it.
const KNOWN: u64 = 257;

/// The links of both sides as one of them knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkNumbers {
    /// The number of the sender's link.
    pub(crate) own: u64,
    /// The number of the receiver's, 0 if the sender has not heard of it.
    pub(crate) known: u64,
}

/// Where one class goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassNumbers {
    /// The last message that the sender of the frame has received.
    pub(crate) received: u64,
    /// The last one that it has handled.
    pub(crate) handled: u64,
    /// The first credit, in bytes.
    pub(crate) limit: u64,
    /// The first message that it can still send, of classes that are confirmed and not acknowledged.
    pub(crate) first: Option<u64>,
}

/// The content of the frame.
#[derive(Debug, Default)]
pub(crate) struct Resumption {
    pub(crate) links: LinkNumbers,
    pub(crate) classes: Vec<(u8, ClassNumbers)>,
}

impl Resumption {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (class, numbers) in &self.classes {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, numbers.received);
            put_varint(&mut bytes, numbers.handled);
            put_varint(&mut bytes, numbers.limit);
            numbers.first.into_iter().for_each(|first| put_varint(&mut bytes, first));
            put_bytes(&mut out, u64::from(*class), &bytes);
        }
        if self.links.own > 0 {
            put_number(&mut out, OWN, self.links.own);
            put_number(&mut out, KNOWN, self.links.known);
        }
        out
    }

    /// Fields of a later version are passed over.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Resumption, Corrupt> {
        let mut resumption = Resumption::default();
        let mut fields = Fields::new("resumption", bytes, HELLO_BYTES)?;
        while let Some(field) = fields.next()? {
            match field.number {
                OWN => resumption.links.own = field.value()?,
                KNOWN => resumption.links.known = field.value()?,
                // A class of a later version is not known here, and nothing will be sent in it.
                number => {
                    if let Some(class) = u8::try_from(number).ok().and_then(Class::with_number) {
                        let numbers = ClassNumbers::decode(field.bytes)?;
                        resumption.classes.push((class.number(), numbers));
                    }
                }
            }
        }
        Ok(resumption)
    }
}

impl ClassNumbers {
    fn decode(mut bytes: &[u8]) -> Result<ClassNumbers, Corrupt> {
        let mut take = || {
            take_varint(&mut bytes).ok_or(Corrupt { thing: "resumption", fault: "a class has no numbers" })
        };
        let (received, handled, limit) = (take()?, take()?, take()?);
        let first = take_varint(&mut bytes);
        Ok(ClassNumbers { received, handled, limit, first })
    }
}
