//! Performs operators' requests about chat ([`admin::chat`]): by commands over the control socket, and by
//! REST.
//!
//! A [`HostAction`] goes to all hosts. A request about one account or room is a stanza, as any client would
//! send it, from the domain or from the account itself. Stored state is read from the database.
//! Whatever thread it is on, it touches no host: everything goes by the inboxes of shards, and the answers come
//! back by one-shot channels. A shard that ends or an inbox that is full is `Busy`, so no request waits for
//! ever.

mod accounts;
mod administration;
mod calls;
pub(crate) mod nodes;
mod rooms;
pub(crate) mod voicemail;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use admin::ControlError;
use admin::chat::{Answer, Ask, Connection, Session, Text};
use chat::effect::{HostAction, SessionState};
use chat_store::rows;
use cluster::{Bucket, Outlet, ShardMap};
use stdx::Instant;
use store::xmpp::{ItemQuery, XmppLoaded, XmppRead, XmppWrite};
use store::{Loaded, Read, Service, Write};
use tokio::sync::oneshot;
use xmpp::ConnectionId;
use xmpp::stanza::Condition;
use xmpp::xml::parse_stored;
use xmpp::{Bare, Element, Jid, ns};
use xmpp_io::kinds::name_of;
use xmpp_io::streams::SessionConnection;

use crate::farm::requests::FarmRequester;
use crate::message::{InboxMessage, LocalMessage, LocalXmppMessage, ShardMessage, XmppShardMessage};
use crate::node::StoreCompletions;
use crate::recorded_sound::RecordedSound;
use shard_message::ActAnswer;

/// The refusal of a node without chat.
const OFF: ControlError =
    ControlError::Unsupported(Cow::Borrowed("Chat without [xmpp] listen in the configuration"));

/// The message of the day is an item of this node of the domain's, as the host has it.
const MOTD: &str = "motd";
const CURRENT: &str = "current";

/// Performs the requests of one operator. Cheap to make; usable on any thread, as it asks shards by their inboxes.
#[derive(Clone)]
pub(crate) struct Operator {
    map: ShardMap,
    outlets: Vec<Outlet<InboxMessage>>,
    /// Routes the results of the store to the waiting request.
    desk: Arc<StoreCompletions>,
    store: Arc<Service>,
    /// The first label of the rooms' domains; `None`: there is no chat.
    rooms: Option<Box<str>>,
    /// `None`: the node is alone.
    pub(crate) farm: Option<FarmRequester>,
    pub(crate) recorded_sound: RecordedSound,
}

impl Operator {
    pub(crate) fn new(
        map: ShardMap,
        outlets: Vec<Outlet<InboxMessage>>,
        desk: Arc<StoreCompletions>,
        store: Arc<Service>,
        rooms: Option<Box<str>>,
    ) -> Operator {
        Operator { map, outlets, desk, store, rooms, farm: None, recorded_sound: RecordedSound::default() }
    }

    /// # Errors
    /// When the address or the text is invalid, or the node has too much to do.
    pub(crate) async fn perform(&self, now: Instant, ask: Ask) -> Result<Answer, ControlError> {
        if self.rooms.is_none() {
            return Err(OFF);
        }
        match ask {
            Ask::Sessions { who, most } => self.sessions(who.as_deref(), most).await,
            // No session ended: for an operator the address was wrong.
            Ask::End { who } => {
                let jids = vec![address(&who)?];
                match self.act(HostAction::End { jids }).await?.acted.count {
                    0 => Err(ControlError::NotFound),
                    count => Ok(Answer::Count(count)),
                }
            }
            Ask::Online { domain, filter, max } => nodes::online(self, &domain, &filter, max).await,
            Ask::Announce { domain, text } => {
                let message = Box::new(headline(&domain, &text));
                let announce = HostAction::Announce { domain: domain.into(), message };
                Ok(Answer::Count(self.act(announce).await?.acted.count))
            }
            Ask::Message { to, text } => self.message(&to, &text).await,
            Ask::Motd { domain } => self.motd(&domain).await,
            Ask::SetMotd { domain, text } => self.set_motd(now, &domain, Some(text)).await,
            Ask::ClearMotd { domain } => self.set_motd(now, &domain, None).await,
            Ask::Rooms { domain } => self.list_rooms(&domain).await,
            Ask::Room { room } => self.show_room(&room).await,
            Ask::MakeRoom { room, name, owner } => self.make_room(&room, &name, owner.as_deref()).await,
            Ask::DestroyRoom { room, reason } => self.destroy_room(&room, &reason).await,
            Ask::Affiliation { room, user, affiliation, reason } => {
                self.affiliate(&room, &user, (&affiliation, &reason)).await
            }
            Ask::KickOccupant { room, nick, reason } => self.kick(&room, &nick, &reason).await,
            Ask::User { user } => self.show_user(&user).await,
            Ask::ClearOffline { user } => self.clear_offline(&user).await,
            Ask::Roster { user } => self.roster(&user).await,
            Ask::SetContact { user, contact, name, groups } => {
                self.set_contact(&user, (&contact, &name), &groups).await
            }
            Ask::RemoveContact { user, contact } => self.remove_contact(&user, &contact).await,
        }
    }

    /// The node ends: occupants of rooms are told.
    pub(crate) async fn close_rooms(&self) {
        if self.rooms.is_some() {
            // A node without shards has no rooms.
            let _ = self.act(HostAction::CloseRooms).await;
        }
    }

    /// Asks all hosts of this node. One shard begins, gathers the answers of all and gives the sum.
    async fn act(&self, act: HostAction) -> Result<ActAnswer, ControlError> {
        let (answer, answered) = oneshot::channel();
        // Any shard may begin; that of the empty address is as good as another.
        self.post_local("", LocalXmppMessage::Operate { act: Arc::new(act), answer })?;
        answered.await.map_err(|_| ControlError::Busy)
    }

    /// A question to `to`, from `from`; the answer's payload.
    async fn question(
        &self,
        (from, to): (&str, &Bare),
        kind: &'static str,
        payload: Element,
    ) -> Result<Option<Element>, ControlError> {
        let iq = Element::new("iq", ns::CLIENT).with("type", kind).with("from", from).with("to", to.as_str());
        let (answer, answered) = oneshot::channel();
        let iq = Box::new(iq.child(payload));
        self.post_local(to.as_str(), LocalXmppMessage::Question { iq, answer })?;
        let answer = answered.await.map_err(|_| ControlError::Busy)?;
        // RFC 6120 §8.2.3: the answer is a result or an error, and each request has exactly one.
        if answer.attr("type") == Some("result") {
            return Ok(answer.first().cloned());
        }
        Err(refusal(&answer))
    }

    fn post_local(&self, address: &str, message: LocalXmppMessage) -> Result<(), ControlError> {
        self.post_message(address, LocalMessage::Xmpp(message).into())
    }

    /// To the shard of that address.
    fn post(&self, address: &str, message: XmppShardMessage) -> Result<(), ControlError> {
        self.post_message(address, ShardMessage::Xmpp(vec![message]).into())
    }

    fn post_message(&self, address: &str, message: InboxMessage) -> Result<(), ControlError> {
        let owner = self.map.owner(Bucket::of(address));
        let outlet = self.outlets.get(usize::from(owner.shard)).ok_or(ControlError::Busy)?;
        outlet.send(message).map_err(|_| ControlError::Busy)
    }

    async fn read(&self, read: Read) -> Result<Loaded, ControlError> {
        let begun = self.desk.begin_read(|ticket| self.store.read(read, ticket));
        let answer = begun.map_err(|store::Busy| ControlError::Busy)?;
        answer.await.ok().and_then(Result::ok).ok_or(ControlError::Busy)
    }

    async fn read_chat(&self, read: XmppRead) -> Result<XmppLoaded, ControlError> {
        match self.read(Read::Xmpp(read)).await? {
            Loaded::Xmpp(loaded) => Ok(loaded),
            _ => Err(ControlError::Busy),
        }
    }

    async fn write(&self, write: XmppWrite) -> Result<(), ControlError> {
        let begun = self.desk.begin_write(|ticket| self.store.write(Write::Xmpp(write), ticket));
        let answer = begun.map_err(|store::Busy| ControlError::Busy)?;
        match answer.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(store::StoreError::NotFound { .. })) => Err(ControlError::NotFound),
            _ => Err(ControlError::Busy),
        }
    }

    async fn sessions(&self, text: Option<&str>, most: Option<u32>) -> Result<Answer, ControlError> {
        let jid = text.map(address).transpose()?;
        let max = most.unwrap_or(u32::MAX).min(xmpp_io::limits::XMPP_LISTED);
        // Sessions come from the owners of accounts, connections from the shards that have them; the two are
        // joined by the connection's id. Both are the first by the addresses of sessions, so that each session that is listed has its connection.
        let ActAnswer { acted, connections } = self.act(HostAction::Sessions { jid, max }).await?;
        let mut connections: HashMap<ConnectionId, SessionConnection> =
            connections.into_iter().map(|connection| (connection.edge, connection)).collect();
        let described = acted.described.into_iter();
        let mut sessions: Vec<Session> =
            described.map(|state| row_of(state, &mut connections, self.farm.is_some())).collect();
        sessions.sort_by(|a, b| a.address.cmp(&b.address));
        // Each shard sends as many, so the sum may be more.
        sessions.truncate(max as usize);
        // The sessions of the others are at other nodes.
        let others = connections.into_values().filter(|_| self.farm.is_some());
        let connections = others.map(|connection| Connection {
            id: id_of(connection.edge),
            from: connection.remote.to_string(),
            transport: name_of(connection.transport).into(),
        });
        Ok(Answer::Sessions { sessions, total: acted.count, connections: connections.collect() })
    }

    async fn message(&self, to: &str, text: &Text) -> Result<Answer, ControlError> {
        let to = self.account(to).await?;
        // `with` replaces the type of the headline: a message of this kind is kept for later if the user is
        // offline.
        let message = headline(to.domain(), text).with("type", "normal").with("to", to.as_str());
        self.post(to.as_str(), XmppShardMessage::Routed(Box::new(message)))?;
        Ok(Answer::Done)
    }

    async fn motd(&self, domain: &str) -> Result<Answer, ControlError> {
        let query = Box::new(ItemQuery { max: 1, ..ItemQuery::default() });
        let read = XmppRead::Items { owner: domain.into(), node: MOTD.into(), query };
        let XmppLoaded::Items(page) = self.read_chat(read).await? else { return Err(ControlError::Busy) };
        let newest = page.items.into_iter().next();
        let message = match newest.map(|(_, _, xml)| parse_stored(xml.as_bytes())) {
            None => None,
            Some(Ok(message)) => Some(message),
            Some(Err(_)) => return Err(ControlError::Busy),
        };
        let of = |message: &Element, name| message.content_of(name, ns::CLIENT).unwrap_or_default().into();
        let text =
            message.map(|message| Text { subject: of(&message, "subject"), body: of(&message, "body") });
        Ok(Answer::Motd(text))
    }

    /// In the database first, then in the memory of all hosts.
    async fn set_motd(&self, now: Instant, domain: &str, text: Option<Text>) -> Result<Answer, ControlError> {
        let message = text.map(|text| Box::new(headline(domain, &text)));
        let owner = Bare::parse(domain).map_err(|_| invalid("a domain", domain))?;
        let item = message.clone();
        let change =
            chat::Change::Item { owner, node: MOTD.into(), id: CURRENT.into(), item, at: now, keep: 1 };
        // Hosts have a copy in memory. A host that starts in between reads the database, which has the new one
        // by then.
        match self.write(rows::write_of(now, change)).await {
            // To clear what is not there is no fault.
            Ok(()) | Err(ControlError::NotFound) => {}
            Err(error) => return Err(error),
        }
        self.act(HostAction::Motd { domain: domain.into(), message }).await?;
        Ok(Answer::Done)
    }
}

/// The text of a connection, which no other of the farm has.
fn id_of(edge: ConnectionId) -> String {
    format!("{}-{}", edge.shard, edge.connection)
}

/// The row of a session. Its connection is taken out; one that is not there is at another node, if there is a farm.
fn row_of(
    state: SessionState,
    connections: &mut HashMap<ConnectionId, SessionConnection>,
    is_in_farm: bool,
) -> Session {
    let connection = state.edge.and_then(|edge| connections.remove(&edge));
    let elsewhere = state.edge.filter(|_| is_in_farm && connection.is_none());
    let connection = connection.as_ref();
    Session {
        address: state.jid.as_str().into(),
        priority: state.priority,
        show: state.show.into(),
        since: state.began.unix_seconds(),
        from: connection.map(|connection| connection.remote.to_string()).unwrap_or_default(),
        transport: connection.map(|connection| name_of(connection.transport)).unwrap_or_default().into(),
        client: state.client.into(),
        resumable: state.is_resumable,
        connection: elsewhere.map(id_of).unwrap_or_default(),
    }
}

/// A message by the server itself, from the domain (XEP-0133 §4.23): clients show it and do not answer.
/// Headlines are not kept (RFC 6121 §8.5.2.1.1).
fn headline(domain: &str, text: &Text) -> Element {
    let subject = (!text.subject.is_empty()).then_some(&*text.subject);
    let part = |name: &'static str, text: &str| Element::new(name, ns::CLIENT).text(text);
    Element::new("message", ns::CLIENT)
        .with("type", "headline")
        .with("from", domain)
        .children(subject.map(|subject| part("subject", subject)))
        .child(part("body", &text.body))
}

fn address(text: &str) -> Result<Jid, ControlError> {
    Jid::parse(text).map_err(|_| invalid("an address", text))
}

fn invalid(expected: &str, found: &str) -> ControlError {
    ControlError::Invalid(format!("{found:?}: expected {expected}"))
}

/// The error for a refusal's stanza, for people.
fn refusal(answer: &Element) -> ControlError {
    let error = answer.get("error", ns::CLIENT);
    let condition = error.and_then(Element::first).map(|first| first.name().to_owned());
    let condition = condition.unwrap_or_else(|| "undefined-condition".to_owned());
    if condition == Condition::ItemNotFound.as_str() {
        return ControlError::NotFound;
    }
    // The host answers so while it has too much to do; the other conditions are about the request.
    if condition == Condition::ResourceConstraint.as_str() {
        return ControlError::Busy;
    }
    let text = error.and_then(|error| error.content_of("text", ns::STANZA_ERRORS));
    ControlError::Invalid(match text {
        Some(text) => format!("refused: {condition}: {text}"),
        None => format!("refused: {condition}"),
    })
}
