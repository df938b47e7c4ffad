//! Questions to the owner of an address, its answers and its pushes (`router::interface`), of the class Ask.
//!
//! A question whose kind this version does not know is answered [`not_understood`], so that its asker does not wait; a later version
//! may then ask in the way of this one.

use cluster::fields::{Corrupt, put_number};
use cluster::link::Message;
use cluster::{Life, ShardAddress};
use router::{AccountUnread, Answer, AskId, Push, Query, Topic, WatchId};
use stdx::Instant;

use super::accounts::{put_account, read_account};
use super::values::{
    TOPICS, absent, at_place, fields, instant, place_of, put_admission, put_admitted, put_binding,
    put_bindings, put_call, put_chat, put_instant, put_kept, put_offer, put_offered, put_publish,
    put_published, put_register, put_registered, put_state, put_text, put_value, put_waiting, read_admission,
    read_admitted, read_binding, read_bindings, read_call, read_chat, read_kept, read_offer, read_offered,
    read_publish, read_published, read_register, read_registered, read_state, read_waiting, required, text,
};
use super::{ANSWER, ASK, Decoded, FROM_LIFE, FROM_SHARD, NOT_UNDERSTOOD, PUSH, message};
use crate::ShardMessage;

const ASK_ID: u64 = 13;
const QUERY: u64 = 14;
const REPLY: u64 = 15;
const NEWS: u64 = 16;

// Fields of a query. The value is of the kind's own type.
const KIND: u64 = 1;
const AOR: u64 = 2;
const VALUE: u64 = 3;
const TOPIC: u64 = 4;
const WATCH: u64 = 5;
const UNTIL: u64 = 6;
const WATCHER: u64 = 7;
const MESSAGE: u64 = 8;
const OWNER_LIFE: u64 = 9;
const OWNER_SHARD: u64 = 10;

// Kinds of queries.
const LOOKUP: u64 = 1;
const REGISTER: u64 = 2;
const BEGIN_WATCH: u64 = 3;
const WATCH_BY_CONSENT: u64 = 4;
const UNWATCH: u64 = 5;
const PUBLISH: u64 = 6;
const CALL_CHANGED: u64 = 7;
const ADMIT: u64 = 8;
const KEEP: u64 = 9;
const KEEP_OF_STRANGER: u64 = 10;
const OFFER: u64 = 11;
const CHAT_CHANGED: u64 = 12;
const DELIVERED: u64 = 13;
const ACCOUNT: u64 = 14;
/// Sent when the map's level is [`WATCHED_SINCE`].
const WATCHED: u64 = 15;

/// The wire version that has questions for watched addresses and their pushes.
pub const WATCHED_SINCE: u16 = 2;

// The one field of an answer, by its kind.
const BINDINGS: u64 = 1;
const REGISTERED: u64 = 2;
const STATE: u64 = 3;
const WATCH_REFUSED: u64 = 4;
const PUBLISHED: u64 = 5;
const KEPT: u64 = 6;
const ADMITTED: u64 = 7;
const OFFERED: u64 = 8;
const UNAVAILABLE: u64 = 9;
const ACCOUNT_FOUND: u64 = 10;
const ACCOUNT_UNREAD: u64 = 11;

// Fields of a push: watch and state, bindings and message, the address of an account that has changed, or watched addresses and their
// owner.
const PUSH_WATCH: u64 = 1;
const PUSH_STATE: u64 = 2;
const PUSH_BINDING: u64 = 3;
const PUSH_MESSAGE: u64 = 4;
const PUSH_ACCOUNT: u64 = 5;
const PUSH_AOR: u64 = 6;
const PUSH_OWNER_LIFE: u64 = 7;
const PUSH_OWNER_SHARD: u64 = 8;

/// A question for the owner at another node; the answer goes to `from`.
pub fn ask(to: ShardAddress, from: ShardAddress, id: AskId, query: &Query) -> Message {
    let mut body = Vec::new();
    put_number(&mut body, FROM_LIFE, u64::from(from.life.0));
    put_number(&mut body, FROM_SHARD, u64::from(from.shard));
    put_number(&mut body, ASK_ID, id.0);
    put_value(&mut body, QUERY, |out| put_query(out, query));
    message(ASK, to, body)
}

/// The answer to a question of another node.
pub fn answer(to: ShardAddress, id: AskId, answer: &Answer) -> Message {
    let mut body = Vec::new();
    put_number(&mut body, ASK_ID, id.0);
    put_value(&mut body, REPLY, |out| put_answer(out, answer));
    message(ANSWER, to, body)
}

/// News for the connections of another node.
pub fn push(to: ShardAddress, push: &Push) -> Message {
    let mut body = Vec::new();
    put_value(&mut body, NEWS, |out| put_push(out, push));
    message(PUSH, to, body)
}

/// The answer to a question whose kind this version does not know.
pub fn not_understood(to: ShardAddress, id: AskId) -> Message {
    let mut body = Vec::new();
    put_number(&mut body, ASK_ID, id.0);
    message(NOT_UNDERSTOOD, to, body)
}

/// Reads a message of the class Ask.
pub(super) fn read(message: &Message) -> Result<Decoded, Corrupt> {
    let mut from = ShardAddress::default();
    let (mut id, mut query, mut reply, mut news) = (None, None, None, None);
    let mut fields = fields(&message.body)?;
    while let Some(field) = fields.next()? {
        match field.number {
            FROM_LIFE => from.life = Life(field.value()?),
            FROM_SHARD => from.shard = field.value()?,
            ASK_ID => id = Some(AskId(field.value()?)),
            QUERY => query = Some(field.bytes),
            REPLY => reply = Some(field.bytes),
            NEWS => news = Some(field.bytes),
            _ => {}
        }
    }
    if message.kind == PUSH {
        let push = read_push(news.ok_or(absent("a push has no content"))?)?;
        return Ok(Decoded::Message(ShardMessage::Push(push)));
    }
    let id = id.ok_or(absent("a question or its answer has no number"))?;
    match message.kind {
        ASK => Ok(match read_query(query.ok_or(absent("a question has no content"))?)? {
            Some(query) => Decoded::Message(ShardMessage::Ask { from, id, query }),
            None => Decoded::LaterQuery { from, id },
        }),
        ANSWER => {
            let answer = read_answer(reply.ok_or(absent("an answer has no content"))?)?;
            Ok(Decoded::Message(ShardMessage::Answer { id, answer }))
        }
        _ => Ok(Decoded::NotUnderstood(id)),
    }
}

fn put_query(out: &mut Vec<u8>, query: &Query) {
    match query {
        Query::Lookup { aor } => put_about(out, LOOKUP, aor),
        Query::Register(register) => put_kind(out, REGISTER, |out| put_register(out, register)),
        Query::Watch { aor, topic, watch, until } => {
            put_about(out, BEGIN_WATCH, aor);
            put_watch(out, *topic, *watch);
            put_instant(out, UNTIL, *until);
        }
        Query::WatchByConsent { watcher, aor, topic, watch, until } => {
            put_about(out, WATCH_BY_CONSENT, aor);
            put_watch(out, *topic, *watch);
            put_instant(out, UNTIL, *until);
            put_text(out, WATCHER, watcher);
        }
        Query::Unwatch { aor, topic, watch } => {
            put_about(out, UNWATCH, aor);
            put_watch(out, *topic, *watch);
        }
        Query::Publish(publish) => put_kind(out, PUBLISH, |out| put_publish(out, publish)),
        Query::CallChanged { aor, call } => {
            put_about(out, CALL_CHANGED, aor);
            put_value(out, VALUE, |out| put_call(out, call));
        }
        Query::Watched { aor, owner } => {
            put_about(out, WATCHED, aor);
            put_number(out, OWNER_LIFE, u64::from(owner.life.0));
            put_number(out, OWNER_SHARD, u64::from(owner.shard));
        }
        Query::Admit(admission) => put_kind(out, ADMIT, |out| put_admission(out, admission)),
        Query::Keep(message) => put_kind(out, KEEP, |out| put_waiting(out, message)),
        Query::KeepOfStranger(message) => put_kind(out, KEEP_OF_STRANGER, |out| put_waiting(out, message)),
        Query::Offer(offer) => put_kind(out, OFFER, |out| put_offer(out, offer)),
        Query::ChatChanged { aor, chat } => {
            put_about(out, CHAT_CHANGED, aor);
            if let Some(chat) = chat {
                put_value(out, VALUE, |out| put_chat(out, chat));
            }
        }
        Query::Delivered { aor, message } => {
            put_about(out, DELIVERED, aor);
            put_number(out, MESSAGE, *message);
        }
        Query::Account { aor } => put_about(out, ACCOUNT, aor),
    }
}

fn put_about(out: &mut Vec<u8>, kind: u64, aor: &str) {
    put_number(out, KIND, kind);
    put_text(out, AOR, aor);
}

fn put_kind(out: &mut Vec<u8>, kind: u64, put: impl FnOnce(&mut Vec<u8>)) {
    put_number(out, KIND, kind);
    put_value(out, VALUE, put);
}

fn put_watch(out: &mut Vec<u8>, topic: Topic, WatchId(watch): WatchId) {
    put_number(out, TOPIC, place_of(&TOPICS, &topic));
    put_number(out, WATCH, watch);
}

/// The fields of a query; its kind says which are needed.
#[derive(Default)]
struct QueryFields<'a> {
    kind: u64,
    aor: Option<Box<str>>,
    value: Option<&'a [u8]>,
    /// The number of a topic.
    topic: Option<u64>,
    watch: Option<WatchId>,
    until: Option<Instant>,
    watcher: Option<Box<str>>,
    message: u64,
    owner: ShardAddress,
}

/// None: a query of a later version.
fn read_query(bytes: &[u8]) -> Result<Option<Query>, Corrupt> {
    let mut read = QueryFields::default();
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            KIND => read.kind = field.value()?,
            AOR => read.aor = Some(text(&field)?),
            VALUE => read.value = Some(field.bytes),
            TOPIC => read.topic = Some(field.value()?),
            WATCH => read.watch = Some(WatchId(field.value()?)),
            UNTIL => read.until = Some(instant(&field)?),
            WATCHER => read.watcher = Some(text(&field)?),
            MESSAGE => read.message = field.value()?,
            OWNER_LIFE => read.owner.life = Life(field.value()?),
            OWNER_SHARD => read.owner.shard = field.value()?,
            _ => {}
        }
    }
    read.query()
}

impl QueryFields<'_> {
    fn query(self) -> Result<Option<Query>, Corrupt> {
        Ok(Some(match self.kind {
            LOOKUP => Query::Lookup { aor: self.aor()? },
            REGISTER => return Ok(read_register(self.value()?)?.map(|read| Query::Register(Box::new(read)))),
            BEGIN_WATCH | WATCH_BY_CONSENT | UNWATCH => return self.about_watch(),
            PUBLISH => Query::Publish(Box::new(read_publish(self.value()?)?)),
            CALL_CHANGED => Query::CallChanged { call: read_call(self.value()?)?, aor: self.aor()? },
            WATCHED => Query::Watched { owner: self.owner, aor: self.aor()? },
            ADMIT => Query::Admit(Box::new(read_admission(self.value()?)?)),
            KEEP => Query::Keep(Box::new(read_waiting(self.value()?)?)),
            KEEP_OF_STRANGER => Query::KeepOfStranger(Box::new(read_waiting(self.value()?)?)),
            OFFER => Query::Offer(Box::new(read_offer(self.value()?)?)),
            CHAT_CHANGED => {
                Query::ChatChanged { chat: self.value.map(read_chat).transpose()?, aor: self.aor()? }
            }
            DELIVERED => Query::Delivered { message: self.message, aor: self.aor()? },
            ACCOUNT => Query::Account { aor: self.aor()? },
            _ => return Ok(None),
        }))
    }

    /// None: a topic of a later version.
    fn about_watch(self) -> Result<Option<Query>, Corrupt> {
        let topic = self.topic.ok_or(absent("a watch has no topic"))?;
        let Some(topic) = at_place(&TOPICS, topic) else { return Ok(None) };
        let watch = self.watch.ok_or(absent("a watch has no number"))?;
        if self.kind == UNWATCH {
            return Ok(Some(Query::Unwatch { topic, watch, aor: self.aor()? }));
        }
        let until = self.until.ok_or(absent("a watch has no end"))?;
        if self.kind == BEGIN_WATCH {
            return Ok(Some(Query::Watch { topic, watch, until, aor: self.aor()? }));
        }
        let watcher = required(self.watcher.clone(), "a watch by consent has no watcher")?;
        Ok(Some(Query::WatchByConsent { watcher, topic, watch, until, aor: self.aor()? }))
    }

    fn aor(self) -> Result<Box<str>, Corrupt> {
        required(self.aor, "a question has no address")
    }

    fn value(&self) -> Result<&[u8], Corrupt> {
        self.value.ok_or(absent("a question has no value"))
    }
}

fn put_answer(out: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::Bindings(bindings) => {
            put_value(out, BINDINGS, |out| put_bindings(out, bindings));
        }
        Answer::Registered(registered) => put_value(out, REGISTERED, |out| put_registered(out, registered)),
        Answer::State(state) => put_value(out, STATE, |out| put_state(out, state)),
        Answer::WatchRefused => put_number(out, WATCH_REFUSED, 1),
        Answer::Unavailable => put_number(out, UNAVAILABLE, 1),
        Answer::Published(published) => put_value(out, PUBLISHED, |out| put_published(out, published)),
        Answer::Kept(kept) => put_value(out, KEPT, |out| put_kept(out, kept)),
        Answer::Admitted(admitted) => put_value(out, ADMITTED, |out| put_admitted(out, admitted)),
        Answer::Offered(offered) => {
            put_value(out, OFFERED, |out| put_offered(out, *offered));
        }
        Answer::Account(Ok(account)) => {
            put_value(out, ACCOUNT_FOUND, |out| put_account(out, account.as_deref()));
        }
        Answer::Account(Err(AccountUnread)) => put_number(out, ACCOUNT_UNREAD, 1),
    }
}

fn read_answer(bytes: &[u8]) -> Result<Answer, Corrupt> {
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        let bytes = field.bytes;
        return match field.number {
            BINDINGS => read_bindings(bytes).map(Answer::Bindings),
            REGISTERED => read_registered(bytes).map(Answer::Registered),
            STATE => read_state(bytes).map(Answer::State),
            WATCH_REFUSED => Ok(Answer::WatchRefused),
            UNAVAILABLE => Ok(Answer::Unavailable),
            PUBLISHED => read_published(bytes).map(Answer::Published),
            KEPT => read_kept(bytes).map(Answer::Kept),
            ADMITTED => read_admitted(bytes).map(Answer::Admitted),
            OFFERED => read_offered(bytes).map(Answer::Offered),
            ACCOUNT_FOUND => read_account(bytes).map(|account| Answer::Account(Ok(account.map(Box::new)))),
            ACCOUNT_UNREAD => Ok(Answer::Account(Err(AccountUnread))),
            _ => continue,
        };
    }
    Err(absent("an answer is of no known kind"))
}

fn put_push(out: &mut Vec<u8>, push: &Push) {
    match push {
        Push::State { watch: WatchId(watch), state } => {
            put_number(out, PUSH_WATCH, *watch);
            put_value(out, PUSH_STATE, |out| put_state(out, state));
        }
        Push::Deliver { bindings, message } => {
            bindings.iter().for_each(|binding| put_value(out, PUSH_BINDING, |out| put_binding(out, binding)));
            put_value(out, PUSH_MESSAGE, |out| put_waiting(out, message));
        }
        // An empty value: all accounts.
        Push::AccountChanged { aor } => {
            put_value(out, PUSH_ACCOUNT, |out| put_text(out, AOR, aor.as_deref().unwrap_or_default()));
        }
        Push::Watched { owner, aors } => {
            aors.iter().for_each(|aor| put_text(out, PUSH_AOR, aor));
            if let Some(owner) = owner {
                put_number(out, PUSH_OWNER_LIFE, u64::from(owner.life.0));
                put_number(out, PUSH_OWNER_SHARD, u64::from(owner.shard));
            }
        }
    }
}

fn read_push(bytes: &[u8]) -> Result<Push, Corrupt> {
    let (mut watch, mut state, mut bindings, mut message) = (None, None, Vec::new(), None);
    let (mut aors, mut owner_life, mut owner_shard) = (Vec::new(), None, 0);
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            PUSH_WATCH => watch = Some(WatchId(field.value()?)),
            PUSH_STATE => state = Some(read_state(field.bytes)?),
            PUSH_BINDING => bindings.push(read_binding(field.bytes)?),
            PUSH_MESSAGE => message = Some(Box::new(read_waiting(field.bytes)?)),
            PUSH_ACCOUNT => return read_changed_account(field.bytes),
            PUSH_AOR => aors.push(text(&field)?),
            PUSH_OWNER_LIFE => owner_life = Some(Life(field.value()?)),
            PUSH_OWNER_SHARD => owner_shard = field.value()?,
            _ => {}
        }
    }
    match (watch, state, message) {
        (Some(watch), Some(state), _) => Ok(Push::State { watch, state }),
        (_, _, Some(message)) => Ok(Push::Deliver { bindings, message }),
        _ if owner_life.is_some() || !aors.is_empty() => {
            Ok(Push::Watched { owner: owner_life.map(|life| ShardAddress::new(life, owner_shard)), aors })
        }
        _ => Err(absent("a push is of no known kind")),
    }
}

fn read_changed_account(bytes: &[u8]) -> Result<Push, Corrupt> {
    let mut aor = None;
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        if field.number == AOR {
            aor = Some(text(&field)?).filter(|aor| !aor.is_empty());
        }
    }
    Ok(Push::AccountChanged { aor })
}
