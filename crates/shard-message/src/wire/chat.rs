//! Messages of chat between shards of different nodes (`message::XmppShardMessage`), of the class Chat: each is one message of the
//! kind [`CHAT`]. Stanzas are XML as in a stream, in no namespace around them.
//!
//! Questions to all hosts, and what shards have of streams between servers, stay within their node: [`chat_message`] gives nothing for them.

mod bound;
mod copies;
#[cfg(test)]
pub(super) mod tests;

use chat::AnnouncedSession;
use chat::phones::MessageBody;
use cluster::fields::{Corrupt, Field, put_bytes, put_number};
use cluster::link::Message;
use cluster::{Bucket, Life, ShardAddress};
use router::BucketSet;
use xmpp::c2s::{BindRequest, Bound, UserAgent};
use xmpp::s2s::{Outcome, Receipt};
use xmpp::stanza::{Condition, StanzaError};
use xmpp::xml::parse_stored;
use xmpp::{Bare, ConnectionId, Element, Jid};

use super::values::{absent, at_place, fields, flag, place_of, put_flag, put_value, required, text};
use super::{Decoded, announced, message, user_agent};
use crate::limits::COPIES;
use crate::{ShardMessage, StreamCondition, XmppShardMessage};

pub(super) const CHAT: u16 = 50;

/// The wire version that these messages belong to: they are sent when the map's level is this or a later one.
pub const CHAT_SINCE: u16 = 2;

// All kinds share one set of numbers, so that one pass can read a message before its kind is known: the order
// of fields does not matter, except within a list. A number that is free in one kind is not free for a new
// field.
// Fields of a message. Its kind says which are needed.
const KIND: u64 = 1;
const FROM_SHARD: u64 = 2;
const EDGE_LIFE: u64 = 3;
const EDGE_SHARD: u64 = 4;
const CONNECTION: u64 = 5;
/// A stanza or an inline request; several are a list.
const ELEMENT: u64 = 6;
const ADDRESS: u64 = 7;
const OTHER_ADDRESS: u64 = 8;
/// The resource, the identifier of a session or of a request, a host.
const NAME: u64 = 9;
const TAG: u64 = 10;
const AGENT: u64 = 11;
const SEEN: u64 = 12;
const IS_ANONYMOUS: u64 = 13;
const IS_BIND2: u64 = 14;
const IN_ORDER: u64 = 15;
const STREAM_CONDITION: u64 = 16;
const OUTCOME: u64 = 17;
const TEXT: u64 = 18;
const TYPING: u64 = 19;
const CONDITION: u64 = 20;
const ERROR_KIND: u64 = 21;
/// An announced session.
const ANNOUNCEMENT: u64 = 22;
/// The numbers of buckets, two bytes each.
const BUCKETS: u64 = 23;
/// The run of a stanza for another server, and its place in the run.
const RUN: u64 = 24;
const INDEX: u64 = 25;
/// A further address that a stanza is for, and the connection of one for a client; several are a list.
const COPY_TO: u64 = 26;
const COPY_CONNECTION: u64 = 27;
const CAN_MOVE: u64 = 28;

// The kind of chat message within the one kind of the link: a node that does not know a number passes the
// message over.
// Kinds of messages.
const BIND: u64 = 1;
const RESUME: u64 = 2;
const STANZA: u64 = 3;
const NONZA: u64 = 4;
const GONE: u64 = 5;
const DRAINED: u64 = 6;
const BOUND: u64 = 7;
const DELIVER: u64 = 8;
const FLUSH: u64 = 9;
const CLOSE: u64 = 10;
const INVITED: u64 = 11;
const BEFRIEND: u64 = 12;
const ROUTED: u64 = 13;
const SAID: u64 = 14;
const REPLY: u64 = 15;
const RESTORE: u64 = 16;
const ANNOUNCED: u64 = 17;
const ALL_ANNOUNCED: u64 = 18;
const OUTBOUND: u64 = 19;
const OUTBOUND_OUTCOME: u64 = 20;
const ATTACHED: u64 = 21;
const DETACHED: u64 = 22;
const TO_COMPONENT: u64 = 23;

// The numbers start from 1: 0 is an outcome that is not there, which is read as a refusal.
// Outcomes of a request for a session.
const SESSION: u64 = 1;
const RESUMED: u64 = 2;
const NOT_RESUMED: u64 = 3;
const REFUSED: u64 = 4;
const SEE_OTHER_HOST: u64 = 5;

/// The conditions of stanza errors (RFC 6120 §8.3.3) by their number on the wire. A new one goes to the end,
/// whatever the alphabet says: a node of the version before would read another condition.
pub(super) const CONDITIONS: [Condition; 22] = [
    Condition::BadRequest,
    Condition::Conflict,
    Condition::FeatureNotImplemented,
    Condition::Forbidden,
    Condition::Gone,
    Condition::InternalServerError,
    Condition::ItemNotFound,
    Condition::JidMalformed,
    Condition::NotAcceptable,
    Condition::NotAllowed,
    Condition::NotAuthorized,
    Condition::PolicyViolation,
    Condition::RecipientUnavailable,
    Condition::Redirect,
    Condition::RegistrationRequired,
    Condition::RemoteServerNotFound,
    Condition::RemoteServerTimeout,
    Condition::ResourceConstraint,
    Condition::ServiceUnavailable,
    Condition::SubscriptionRequired,
    Condition::UndefinedCondition,
    Condition::UnexpectedRequest,
];
/// The types of stanza errors (RFC 6120 §8.3.2) by their number on the wire.
pub(super) const ERROR_KINDS: [&str; 5] = ["auth", "cancel", "continue", "modify", "wait"];

/// The outcomes of stanzas for other servers, by their number on the wire.
pub(super) const OUTBOUND_OUTCOMES: [Outcome; 3] = [Outcome::Ended, Outcome::Broken, Outcome::Untaken];

/// A message of chat for a shard of another node, from the shard of this number. None: it stays within its node.
pub fn chat_message(to: ShardAddress, from: u16, chat: &XmppShardMessage) -> Option<Message> {
    chat_copies(to, from, std::slice::from_ref(chat))
}

/// Messages of chat that are [copies](crate::is_copy) of the first one, as one message: the stanza is written and read once for all of
/// them. None: they stay within their node.
pub fn chat_copies(to: ShardAddress, from: u16, copies: &[XmppShardMessage]) -> Option<Message> {
    let (first, others) = copies.split_first()?;
    let mut body = Vec::new();
    put_number(&mut body, FROM_SHARD, u64::from(from));
    let crosses = put_chat_message(&mut body, first);
    copies::put(&mut body, others);
    crosses.then(|| message(CHAT, to, body))
}

/// The number of the shard that has sent a message of chat; none for a message of another kind.
pub fn chat_sender(message: &Message) -> Option<u16> {
    if message.kind != CHAT {
        return None;
    }
    let mut fields = fields(&message.body).ok()?;
    while let Some(field) = fields.next().ok()? {
        if field.number == FROM_SHARD {
            return field.value().ok();
        }
    }
    Some(0)
}

/// Messages of a connection to a host here, those of a host in [`put_of_host`]. Each variant is named, so
/// that a new one is not forgotten but decided on.
/// False: the message stays within its node.
fn put_chat_message(out: &mut Vec<u8>, message: &XmppShardMessage) -> bool {
    match message {
        XmppShardMessage::Bind { edge, request } => {
            put_of_edge(out, BIND, *edge);
            put_bind(out, request);
        }
        XmppShardMessage::Resume { edge, user, id, seen } => {
            put_of_edge(out, RESUME, *edge);
            put_bytes(out, ADDRESS, user.as_str().as_bytes());
            put_bytes(out, NAME, id.as_bytes());
            put_number(out, SEEN, u64::from(*seen));
        }
        XmppShardMessage::Restore { edge, session } => {
            put_of_edge(out, RESTORE, *edge);
            put_value(out, ANNOUNCEMENT, |out| announced::put(out, session));
        }
        XmppShardMessage::AllAnnounced { edge, buckets } => {
            // The shard alone is meant, no connection of it.
            put_of_edge(out, ALL_ANNOUNCED, ConnectionId { shard: *edge, connection: 0 });
            let numbers: Vec<u8> = buckets.iter().flat_map(|bucket| bucket.number().to_be_bytes()).collect();
            put_bytes(out, BUCKETS, &numbers);
        }
        XmppShardMessage::Stanza { edge, element } => {
            put_of_edge(out, STANZA, *edge);
            put_element(out, element);
        }
        XmppShardMessage::Nonza { edge, element } => {
            put_of_edge(out, NONZA, *edge);
            put_element(out, element);
        }
        XmppShardMessage::Gone { edge, in_order } => {
            put_of_edge(out, GONE, *edge);
            put_flag(out, IN_ORDER, *in_order);
        }
        XmppShardMessage::Drained { edge } => put_of_edge(out, DRAINED, *edge),
        XmppShardMessage::Bound { .. }
        | XmppShardMessage::Announced { .. }
        | XmppShardMessage::Deliver { .. }
        | XmppShardMessage::Flush { .. }
        | XmppShardMessage::Close { .. }
        | XmppShardMessage::Invited { .. }
        | XmppShardMessage::Befriend { .. }
        | XmppShardMessage::Routed(_)
        | XmppShardMessage::Said { .. }
        | XmppShardMessage::Reply { .. } => put_of_host(out, message),
        XmppShardMessage::AttachOutcome { .. }
        | XmppShardMessage::Detached { .. }
        | XmppShardMessage::ToComponent { .. }
        | XmppShardMessage::Outbound { .. }
        | XmppShardMessage::OutboundOutcome { .. } => put_of_peer(out, message),
        XmppShardMessage::Act { .. }
        | XmppShardMessage::HostActionResult { .. }
        | XmppShardMessage::Servers(_) => return false,
    }
    true
}

/// Messages of a host, to a connection or to another host.
fn put_of_host(out: &mut Vec<u8>, message: &XmppShardMessage) {
    match message {
        XmppShardMessage::Bound { edge, bound } => {
            put_of_edge(out, BOUND, *edge);
            bound::put(out, bound);
        }
        XmppShardMessage::Announced { edge, session } => {
            put_of_edge(out, ANNOUNCED, *edge);
            put_value(out, ANNOUNCEMENT, |out| announced::put(out, session));
        }
        XmppShardMessage::Deliver { edge, element } => {
            put_of_edge(out, DELIVER, *edge);
            put_element(out, element);
        }
        XmppShardMessage::Flush { edge } => put_of_edge(out, FLUSH, *edge),
        XmppShardMessage::Close { edge, condition, detail } => {
            put_of_edge(out, CLOSE, *edge);
            put_bytes(out, STREAM_CONDITION, condition.name().as_bytes());
            if let Some(detail) = detail {
                put_element(out, detail);
            }
        }
        XmppShardMessage::Invited { invited, inviter } => put_pair(out, INVITED, invited, inviter),
        XmppShardMessage::Befriend { user, contact } => put_pair(out, BEFRIEND, user, contact),
        XmppShardMessage::Routed(element) => {
            put_number(out, KIND, ROUTED);
            put_element(out, element);
        }
        XmppShardMessage::Said { from, to, words } => {
            put_pair(out, SAID, from, to);
            match words {
                MessageBody::Text(words) => put_bytes(out, TEXT, words.as_bytes()),
                MessageBody::Typing(is_typing) => put_number(out, TYPING, u64::from(*is_typing)),
            }
        }
        XmppShardMessage::Reply { token, answer } => {
            put_number(out, KIND, REPLY);
            put_bytes(out, NAME, token.as_bytes());
            put_element(out, answer);
        }
        _ => {}
    }
}

/// Messages about components and other servers.
fn put_of_peer(out: &mut Vec<u8>, message: &XmppShardMessage) {
    match message {
        XmppShardMessage::AttachOutcome { edge, domain } => {
            put_of_edge(out, ATTACHED, *edge);
            put_bytes(out, NAME, domain.as_bytes());
        }
        XmppShardMessage::Detached { edge, domain } => {
            put_of_edge(out, DETACHED, *edge);
            put_bytes(out, NAME, domain.as_bytes());
        }
        XmppShardMessage::ToComponent { edge, element } => {
            put_of_edge(out, TO_COMPONENT, *edge);
            put_element(out, element);
        }
        XmppShardMessage::Outbound { receipt, element } => {
            put_receipt(out, OUTBOUND, receipt);
            put_element(out, element);
        }
        XmppShardMessage::OutboundOutcome { receipt, outcome } => {
            put_receipt(out, OUTBOUND_OUTCOME, receipt);
            put_number(out, OUTCOME, place_of(&OUTBOUND_OUTCOMES, outcome));
        }
        _ => {}
    }
}

/// The kind, and the name of a stanza for another server at its origin.
fn put_receipt(out: &mut Vec<u8>, kind: u64, receipt: &Receipt) {
    let Receipt { origin, bucket, number, run, index } = *receipt;
    put_of_edge(out, kind, ConnectionId { shard: origin, connection: number });
    put_bytes(out, BUCKETS, &bucket.number().to_be_bytes());
    put_number(out, RUN, run);
    put_number(out, INDEX, index);
}

/// The kind, and the connection that the message comes from or goes to. It is written whole, life and shard
/// too: a host and a connection of different nodes know each other by nothing else.
fn put_of_edge(out: &mut Vec<u8>, kind: u64, edge: ConnectionId) {
    put_number(out, KIND, kind);
    put_number(out, EDGE_LIFE, u64::from(edge.shard.life.0));
    put_number(out, EDGE_SHARD, u64::from(edge.shard.shard));
    put_number(out, CONNECTION, edge.connection);
}

/// The kind, and two accounts in their roles: the order of the arguments is that of the fields.
fn put_pair(out: &mut Vec<u8>, kind: u64, one: &Bare, other: &Bare) {
    put_number(out, KIND, kind);
    put_bytes(out, ADDRESS, one.as_str().as_bytes());
    put_bytes(out, OTHER_ADDRESS, other.as_str().as_bytes());
}

/// With no namespace around it, the element declares its own: it can be read by itself.
fn put_element(out: &mut Vec<u8>, element: &Element) {
    put_bytes(out, ELEMENT, &element.to_bytes(""));
}

/// The requests within the bind (XEP-0386) keep their order.
fn put_bind(out: &mut Vec<u8>, request: &BindRequest) {
    let BindRequest { user, is_anonymous, resource, tag, agent, is_bind2, inline, can_move } = request;
    put_bytes(out, ADDRESS, user.as_str().as_bytes());
    put_flag(out, IS_ANONYMOUS, *is_anonymous);
    put_flag(out, IS_BIND2, *is_bind2);
    put_flag(out, CAN_MOVE, *can_move);
    put_optional(out, NAME, resource.as_deref());
    put_optional(out, TAG, tag.as_deref());
    if let Some(agent) = agent {
        put_value(out, AGENT, |out| user_agent::put(out, agent));
    }
    inline.iter().for_each(|request| put_element(out, request));
}

/// None is a field that is not there; an empty text is one of no bytes, and stays a text.
pub(super) fn put_optional(out: &mut Vec<u8>, number: u64, text: Option<&str>) {
    if let Some(text) = text {
        put_bytes(out, number, text.as_bytes());
    }
}

/// Reads a message of the kind [`CHAT`].
pub(super) fn read(message: &Message) -> Result<Decoded, Corrupt> {
    let mut read = ChatFields::default();
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        read.take(&field)?;
    }
    let (copies, connections) = (std::mem::take(&mut read.copies), std::mem::take(&mut read.connections));
    let Some(first) = read.message()? else { return Ok(Decoded::LaterKind) };
    let copies = copies::read(&first, &copies, &connections)?;
    Ok(Decoded::Message(ShardMessage::Xmpp(std::iter::once(first).chain(copies).collect())))
}

/// The fields of a message.
#[derive(Default)]
struct ChatFields {
    kind: u64,
    edge_life: u32,
    edge_shard: u16,
    connection: u64,
    elements: Vec<Element>,
    address: Option<Box<str>>,
    other_address: Option<Box<str>>,
    name: Option<Box<str>>,
    tag: Option<Box<str>>,
    agent: Option<Box<UserAgent>>,
    seen: u32,
    is_anonymous: bool,
    is_bind2: bool,
    can_move: bool,
    in_order: bool,
    stream_condition: Option<Box<str>>,
    outcome: u64,
    text: Option<Box<str>>,
    typing: Option<bool>,
    condition: Option<Condition>,
    error_kind: Option<&'static str>,
    announcement: Option<Box<AnnouncedSession>>,
    buckets: Box<BucketSet>,
    run: u64,
    index: u64,
    copies: Vec<Box<str>>,
    connections: Vec<u64>,
}

impl ChatFields {
    /// A number that is not known is passed over. One that cannot be read fails the whole message, since half
    /// of one would be a wrong one.
    fn take(&mut self, field: &Field<'_>) -> Result<(), Corrupt> {
        match field.number {
            KIND => self.kind = field.value()?,
            EDGE_LIFE => self.edge_life = field.value()?,
            EDGE_SHARD => self.edge_shard = field.value()?,
            CONNECTION => self.connection = field.value()?,
            ELEMENT => {
                let element = parse_stored(field.bytes).map_err(|_| absent("an element is not XML"))?;
                self.elements.push(element);
            }
            ADDRESS => self.address = Some(text(field)?),
            OTHER_ADDRESS => self.other_address = Some(text(field)?),
            NAME => self.name = Some(text(field)?),
            TAG => self.tag = Some(text(field)?),
            AGENT => self.agent = Some(Box::new(user_agent::read(field.bytes)?)),
            SEEN => self.seen = field.value()?,
            IS_ANONYMOUS => self.is_anonymous = flag(field)?,
            IS_BIND2 => self.is_bind2 = flag(field)?,
            CAN_MOVE => self.can_move = flag(field)?,
            IN_ORDER => self.in_order = flag(field)?,
            STREAM_CONDITION => self.stream_condition = Some(text(field)?),
            OUTCOME => self.outcome = field.value()?,
            TEXT => self.text = Some(text(field)?),
            TYPING => self.typing = Some(flag(field)?),
            // A value of a later version is none, and gets a default with the outcome.
            CONDITION => self.condition = at_place(&CONDITIONS, field.value()?),
            ANNOUNCEMENT => self.announcement = Some(Box::new(announced::read(field.bytes)?)),
            BUCKETS => *self.buckets = buckets_of(field.bytes),
            RUN => self.run = field.value()?,
            INDEX => self.index = field.value()?,
            COPY_TO if self.copies.len() + 1 < COPIES => self.copies.push(text(field)?),
            COPY_CONNECTION if self.connections.len() + 1 < COPIES => self.connections.push(field.value()?),
            COPY_TO | COPY_CONNECTION => return Err(absent("a stanza is for too many addresses")),
            ERROR_KIND => self.error_kind = at_place(&ERROR_KINDS, field.value()?),
            _ => {}
        }
        Ok(())
    }

    /// Returns none for a message of a later version.
    fn message(mut self) -> Result<Option<XmppShardMessage>, Corrupt> {
        let edge = ConnectionId {
            shard: ShardAddress::new(Life(self.edge_life), self.edge_shard),
            connection: self.connection,
        };
        Ok(Some(match self.kind {
            BIND => XmppShardMessage::Bind { edge, request: Box::new(self.bind()?) },
            RESUME => XmppShardMessage::Resume {
                edge,
                user: self.jid()?,
                id: required(self.name, "a session has no identifier")?,
                seen: self.seen,
            },
            RESTORE => XmppShardMessage::Restore { edge, session: self.announcement()? },
            ANNOUNCED => XmppShardMessage::Announced { edge, session: self.announcement()? },
            ALL_ANNOUNCED => XmppShardMessage::AllAnnounced { edge: edge.shard, buckets: self.buckets },
            STANZA => XmppShardMessage::Stanza { edge, element: self.element()? },
            NONZA => XmppShardMessage::Nonza { edge, element: self.element()? },
            GONE => XmppShardMessage::Gone { edge, in_order: self.in_order },
            DRAINED => XmppShardMessage::Drained { edge },
            BOUND => XmppShardMessage::Bound { edge, bound: Box::new(self.bound()?) },
            DELIVER => XmppShardMessage::Deliver { edge, element: self.element()? },
            FLUSH => XmppShardMessage::Flush { edge },
            CLOSE => {
                let name = required(self.stream_condition, "the end of a stream has no condition")?;
                let detail = self.elements.pop().map(Box::new);
                XmppShardMessage::Close { edge, condition: StreamCondition::named(&name), detail }
            }
            INVITED => {
                let (invited, inviter) = self.pair()?;
                XmppShardMessage::Invited { invited, inviter }
            }
            BEFRIEND => {
                let (user, contact) = self.pair()?;
                XmppShardMessage::Befriend { user, contact }
            }
            ROUTED => XmppShardMessage::Routed(Box::new(self.element()?)),
            SAID => {
                let (from, to) = self.pair()?;
                let words = match (self.text, self.typing) {
                    (Some(text), _) => MessageBody::Text(text),
                    (None, Some(is_typing)) => MessageBody::Typing(is_typing),
                    (None, None) => return Err(absent("a phone's message has no text")),
                };
                XmppShardMessage::Said { from, to, words }
            }
            REPLY => {
                let answer = Box::new(self.element()?);
                XmppShardMessage::Reply { token: required(self.name, "an answer has no request")?, answer }
            }
            _ => return self.peer_message(edge),
        }))
    }

    /// Messages about components and other servers. Returns none for a message of a later version.
    fn peer_message(mut self, edge: ConnectionId) -> Result<Option<XmppShardMessage>, Corrupt> {
        Ok(Some(match self.kind {
            ATTACHED => XmppShardMessage::AttachOutcome { edge, domain: self.domain()? },
            DETACHED => XmppShardMessage::Detached { edge, domain: self.domain()? },
            TO_COMPONENT => XmppShardMessage::ToComponent { edge, element: Box::new(self.element()?) },
            OUTBOUND => {
                let receipt = self.receipt(edge)?;
                XmppShardMessage::Outbound { receipt, element: Box::new(self.element()?) }
            }
            OUTBOUND_OUTCOME => {
                // An outcome of a later version ends the stanza's way.
                let outcome = at_place(&OUTBOUND_OUTCOMES, self.outcome).unwrap_or(Outcome::Ended);
                XmppShardMessage::OutboundOutcome { receipt: self.receipt(edge)?, outcome }
            }
            _ => return Ok(None),
        }))
    }

    fn domain(&mut self) -> Result<Box<str>, Corrupt> {
        required(self.name.take(), "a component has no domain")
    }

    fn receipt(&self, edge: ConnectionId) -> Result<Receipt, Corrupt> {
        let bucket = self.buckets.iter().next().ok_or(absent("a stanza for another server has no bucket"))?;
        let ConnectionId { shard: origin, connection: number } = edge;
        Ok(Receipt { origin, bucket, number, run: self.run, index: self.index })
    }

    fn announcement(self) -> Result<Box<AnnouncedSession>, Corrupt> {
        self.announcement.ok_or(absent("a message of chat has no session"))
    }

    /// The only element of a kind that has one. The kinds with a list take [`ChatFields::elements`] as it
    /// came.
    fn element(&mut self) -> Result<Element, Corrupt> {
        self.elements.pop().ok_or(absent("a message of chat has no element"))
    }

    /// An address of another node is checked as one of a client is: its version may have had other rules.
    fn jid(&self) -> Result<Jid, Corrupt> {
        let address = self.address.as_deref().ok_or(absent("a message of chat has no address"))?;
        Jid::parse(address).map_err(|_| absent("an address of chat is not valid"))
    }

    /// Both accounts, in the order in which [`put_pair`] has them.
    fn pair(&self) -> Result<(Bare, Bare), Corrupt> {
        let bare = |address: &Option<Box<str>>| {
            let address = address.as_deref().ok_or(absent("a message of chat has no address"))?;
            Bare::parse(address).map_err(|_| absent("an address of chat is not valid"))
        };
        Ok((bare(&self.address)?, bare(&self.other_address)?))
    }

    fn bind(self) -> Result<BindRequest, Corrupt> {
        Ok(BindRequest {
            user: self.jid()?,
            is_anonymous: self.is_anonymous,
            resource: self.name,
            tag: self.tag,
            agent: self.agent,
            is_bind2: self.is_bind2,
            can_move: self.can_move,
            inline: self.elements,
        })
    }

    fn bound(mut self) -> Result<Bound, Corrupt> {
        Ok(match self.outcome {
            SESSION => Bound::Session { jid: self.jid()?, inline: self.elements },
            RESUMED => Bound::Resumed { jid: self.jid()?, resumed: self.element()? },
            NOT_RESUMED => Bound::NotResumed { failed: self.element()? },
            SEE_OTHER_HOST => Bound::SeeOtherHost(required(self.name, "a stream has no other host")?),
            // An outcome or a condition of a later version is a refusal.
            _ => Bound::Refused(StanzaError {
                condition: self.condition.unwrap_or(Condition::InternalServerError),
                kind: self.error_kind,
                text: self.text,
                detail: self.elements.pop().map(Box::new),
            }),
        })
    }
}

/// A number of no bucket is ignored.
fn buckets_of(bytes: &[u8]) -> BucketSet {
    let numbers = bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_be_bytes(*bytes));
    numbers.filter_map(Bucket::with_number).collect()
}
