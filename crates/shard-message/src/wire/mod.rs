//! The wire form of messages between shards of different nodes: numbered fields (`cluster::fields`), so that a field that a
//! later version adds is passed over here. The SIP message itself stays as it came.
//!
//! Kinds and numbers of fields are never used for anything else again (`docs/decisions/0048-wire-of-shard-messages.md`).
//! The folder `golden` has a message of each kind as bytes, by the version that writes it so; [`questions`] has those of the class Ask.
//! A kind that the version before does not know is sent when [`cluster::map::FarmMap::level`] is its version, the least of all nodes'.

mod accounts;
mod address;
mod announced;
#[cfg(test)]
mod any_bytes;
#[cfg(test)]
mod any_request;
#[cfg(test)]
mod any_trace;
mod chat;
#[cfg(test)]
mod enumeration_tests;
mod file;
mod probe;
mod questions;
mod request;
mod room_sound;
mod room_values;
mod rooms;
mod shared;
#[cfg(test)]
mod tests;
mod trace;
mod user_agent;
mod values;
mod waiting;

use std::net::SocketAddr;

use bytes::Bytes;
use cluster::fields::{Corrupt, Field, put_bytes, put_number};
use cluster::link::{Class, Message};
use cluster::relay::Passage;
use cluster::{Epoch, Life, ShardAddress};
use router::{AskId, FlowId, Transport};
use sip::transport::{Packet, Source, Target, Transmit, TransmitId};

use crate::{ShardMessage, is_copy};

pub use self::accounts::ACCOUNTS_SINCE;
pub use self::chat::{CHAT_SINCE, chat_copies, chat_message, chat_sender};
pub use file::FILES_SINCE;
pub use file::{FileBody, FileFault, FileKind, FileMessage, FileName, FilePiece};
pub use probe::Probe;
pub use questions::{WATCHED_SINCE, answer, ask, not_understood, push};
pub use request::REQUESTS_SINCE;
pub use request::{RequestBody, RequestMessage};
pub use rooms::ROOMS_SINCE;
pub use shared::{SHARED_SINCE, relayed, shared_response};
pub use shared::{has_packet, is_relayed};
pub use trace::{TraceBody, TraceMessage};

use address::{address_of, put_address};
use values::{TRANSPORTS, absent, at_place, fields, place_of};

pub use cluster::link::WIRE;

const PACKET: u16 = 1;
const TRANSMIT: u16 = 2;
const SEND_FAILED: u16 = 3;
const ASK: u16 = 4;
const ANSWER: u16 = 5;
const PUSH: u16 = 6;
const NOT_UNDERSTOOD: u16 = 7;

const BYTES: u64 = 1;
const TRANSPORT: u64 = 2;
const LOCAL: u64 = 3;
const REMOTE: u64 = 4;
const FLOW_LIFE: u64 = 5;
const FLOW_SHARD: u64 = 6;
const FLOW_NUMBER: u64 = 7;
const TLS_NAME: u64 = 8;
const RECONNECT: u64 = 9;
const REPORT: u64 = 10;
const FROM_LIFE: u64 = 11;
const FROM_SHARD: u64 = 12;

/// Bytes of a host name (RFC 1035 §2.3.4).
const NAME_BYTES: usize = 255;

/// A message on its way to a shard of another node. Packets go one by one.
pub fn packet(to: ShardAddress, packet: &Packet) -> Message {
    let mut body = Vec::with_capacity(packet.bytes.len() + 64);
    let Source { transport, local, remote, flow } = packet.source;
    put_number(&mut body, TRANSPORT, place_of(&TRANSPORTS, &transport));
    put_address(&mut body, LOCAL, local);
    put_address(&mut body, REMOTE, remote);
    put_flow(&mut body, flow);
    put_bytes(&mut body, BYTES, &packet.bytes);
    message(PACKET, to, body)
}

/// A message for a connection that another node holds.
pub fn transmit(to: ShardAddress, transmit: &Transmit, from: ShardAddress) -> Message {
    let Transmit { target, bytes, report } = transmit;
    let mut body = Vec::with_capacity(bytes.len() + 64);
    put_number(&mut body, TRANSPORT, place_of(&TRANSPORTS, &target.transport));
    put_address(&mut body, REMOTE, target.remote);
    if let Some(local) = target.local {
        put_address(&mut body, LOCAL, local);
    }
    put_flow(&mut body, target.flow);
    if let Some(name) = &target.tls_name {
        put_bytes(&mut body, TLS_NAME, name.as_bytes());
    }
    put_number(&mut body, RECONNECT, u64::from(target.reconnect));
    if let Some(TransmitId(report)) = report {
        put_number(&mut body, REPORT, *report);
    }
    put_number(&mut body, FROM_LIFE, u64::from(from.life.0));
    put_number(&mut body, FROM_SHARD, u64::from(from.shard));
    put_bytes(&mut body, BYTES, bytes);
    message(TRANSMIT, to, body)
}

/// The report that a message for another node's connection could not be sent.
pub fn send_failed(to: ShardAddress, TransmitId(report): TransmitId) -> Message {
    let mut body = Vec::new();
    put_number(&mut body, REPORT, report);
    message(SEND_FAILED, to, body)
}

/// The class of a message, by its kind: SIP, questions and their answers and events of conferences, chat, sound, or the operation of a farm.
pub fn class_of(message: &Message) -> Class {
    match message.kind {
        ASK | ANSWER | PUSH | NOT_UNDERSTOOD => Class::Ask,
        self::chat::CHAT => Class::Chat,
        rooms::ROOM => Class::Ask,
        rooms::ROOM_SOUND => Class::Sound,
        kind if trace::is_of_trace(kind) || request::is_of_request(kind) || file::is_of_file(kind) => {
            Class::Bulk
        }
        _ => Class::Call,
    }
}

/// A message of another node.
#[derive(Debug)]
pub enum Decoded {
    /// A message for a shard of this node.
    Message(ShardMessage),
    /// A message by way of another node than its sender: for this node, or for one that this node passes it on to.
    Relayed {
        /// The node that it is for, and those that have had it.
        passage: Passage,
        /// The message.
        message: Message,
    },
    /// A kind of message that a later version has added: it is passed over.
    LaterKind,
    /// A question of a kind that a later version has added: it is answered with [`not_understood`].
    LaterQuery {
        /// The shard that asks.
        from: ShardAddress,
        /// Its number of the question.
        id: AskId,
    },
    /// The other node does not know the kind of this question of ours.
    NotUnderstood(AskId),
}

/// Reads a message of another node.
///
/// # Errors
/// [`Corrupt`] with the fault.
pub fn read(message: &Message) -> Result<Decoded, Corrupt> {
    match message.kind {
        PACKET | TRANSMIT | SEND_FAILED => read_sip(message).map(Decoded::Message),
        shared::SHARED_RESPONSE => {
            shared::read_shared(message).map(|shared| Decoded::Message(ShardMessage::SharedResponse(shared)))
        }
        shared::RELAYED => {
            shared::read_relayed(message).map(|(passage, message)| Decoded::Relayed { passage, message })
        }
        ASK | ANSWER | PUSH | NOT_UNDERSTOOD => questions::read(message),
        self::chat::CHAT => self::chat::read(message),
        rooms::ROOM | rooms::ROOM_SOUND => Ok(rooms::read_room(message)?
            .map_or(Decoded::LaterKind, |room| Decoded::Message(ShardMessage::Room(room)))),
        _ => Ok(Decoded::LaterKind),
    }
}

/// A shard's message as those that carry it to another node; none for a message that stays within its node.
pub fn encode(to: ShardAddress, message: &ShardMessage) -> Vec<Message> {
    match message {
        ShardMessage::Packets(packets) => packets.iter().map(|one| packet(to, one)).collect(),
        ShardMessage::Transmit { transmit: one, from } => vec![transmit(to, one, *from)],
        ShardMessage::SendFailed(report) => vec![send_failed(to, *report)],
        ShardMessage::Ask { from, id, query } => vec![ask(to, *from, *id, query)],
        ShardMessage::Answer { id, answer: one } => vec![answer(to, *id, one)],
        ShardMessage::Push(one) => vec![push(to, one)],
        ShardMessage::SharedResponse(shared) => vec![shared_response(to, shared)],
        ShardMessage::Xmpp(messages) => {
            messages.chunk_by(is_copy).filter_map(|copies| chat_copies(to, 0, copies)).collect()
        }
        ShardMessage::Room(room) => rooms::room_messages(to, room),
        ShardMessage::Certified(_) | ShardMessage::Down(_) => Vec::new(),
    }
}

fn read_sip(message: &Message) -> Result<ShardMessage, Corrupt> {
    let mut read = Read::default();
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        read.take(&field, &message.body)?;
    }
    Ok(match message.kind {
        PACKET => {
            let source = Source {
                transport: read.transport.ok_or(absent("a packet has no transport"))?,
                local: read.local.ok_or(absent("a packet has no local address"))?,
                remote: read.remote.ok_or(absent("a packet has no remote address"))?,
                flow: read.flow(),
            };
            ShardMessage::Packets(vec![Packet { bytes: read.bytes, source }])
        }
        TRANSMIT => {
            let target = Target {
                transport: read.transport.ok_or(absent("a message to send has no transport"))?,
                remote: read.remote.ok_or(absent("a message to send has no remote address"))?,
                flow: read.flow(),
                local: read.local,
                tls_name: read.tls_name.take(),
                reconnect: read.reconnect,
            };
            let transmit = Transmit { target, bytes: read.bytes, report: read.report };
            ShardMessage::Transmit { transmit, from: read.from }
        }
        _ => ShardMessage::SendFailed(read.report.ok_or(absent("a report has no number"))?),
    })
}

/// The fields of a message; which are needed depends on its kind.
#[derive(Default)]
struct Read {
    bytes: Bytes,
    transport: Option<Transport>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    flow_life: Option<Life>,
    flow_shard: u16,
    flow_number: u64,
    tls_name: Option<Box<str>>,
    reconnect: bool,
    report: Option<TransmitId>,
    from: ShardAddress,
}

impl Read {
    fn take(&mut self, field: &Field<'_>, body: &Bytes) -> Result<(), Corrupt> {
        match field.number {
            // Without a copy: the message keeps the buffer that it came in.
            BYTES => self.bytes = body.slice_ref(field.bytes),
            TRANSPORT => self.transport = at_place(&TRANSPORTS, field.value()?),
            LOCAL => self.local = Some(address_of(field)?),
            REMOTE => self.remote = Some(address_of(field)?),
            FLOW_LIFE => self.flow_life = Some(Life(field.value()?)),
            FLOW_SHARD => self.flow_shard = field.value()?,
            FLOW_NUMBER => self.flow_number = field.value()?,
            TLS_NAME => self.tls_name = Some(field.text(NAME_BYTES)?),
            RECONNECT => self.reconnect = field.value::<u64>()? != 0,
            REPORT => self.report = Some(TransmitId(field.value()?)),
            FROM_LIFE => self.from.life = Life(field.value()?),
            FROM_SHARD => self.from.shard = field.value()?,
            _ => {}
        }
        Ok(())
    }

    fn flow(&self) -> Option<FlowId> {
        let life = self.flow_life?;
        Some(FlowId { edge: ShardAddress::new(life, self.flow_shard), number: self.flow_number })
    }
}

fn message(kind: u16, to: ShardAddress, body: Vec<u8>) -> Message {
    // A node has at most 256 shards.
    let shard = u8::try_from(to.shard).unwrap_or(0);
    Message { kind, epoch: Epoch(0), shard, body: body.into() }
}

fn put_flow(body: &mut Vec<u8>, flow: Option<FlowId>) {
    if let Some(FlowId { edge, number }) = flow {
        put_number(body, FLOW_LIFE, u64::from(edge.life.0));
        put_number(body, FLOW_SHARD, u64::from(edge.shard));
        put_number(body, FLOW_NUMBER, number);
    }
}
