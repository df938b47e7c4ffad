//! Questions to all hosts of the node, and the operator's questions to one address.
//!
//! A question to all hosts goes to every shard by message; the shard that asked adds the answers up. A
//! question to an account or a room is a stanza like any other. It comes from the domain, or from the account
//! itself, with an unguessable resource that leads the answer back ([`reply_of`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use chat::effect::{HostAction, HostActionResult};
use chat::{StoreFailure, StoreReply, Ticket};
use cluster::{Life, ShardAddress};
use sip::transport::Transport;
use stdx::Instant;
use tokio::sync::oneshot;
use xmpp::ConnectionId;
use xmpp::{Element, Jid};

use super::{Xmpp, XmppEffect};
use crate::limits;
use crate::message::XmppShardMessage;

/// The results of a host action, over all shards.
#[derive(Debug, Default)]
pub struct ActAnswer {
    pub acted: HostActionResult,
    /// The connections of the described sessions.
    pub connections: Vec<Connection>,
}

/// The connection of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub edge: ConnectionId,
    pub remote: IpAddr,
    pub transport: Transport,
}

/// The receiver of an answer.
#[derive(Debug)]
enum Requester {
    Host(Ticket),
    Operator(oneshot::Sender<ActAnswer>),
}

#[derive(Debug)]
struct OpenRequest {
    asker: Requester,
    /// Shards that have not answered.
    left: u16,
    sum: ActAnswer,
}

/// This shard's questions that wait for answers.
#[derive(Debug, Default)]
pub(super) struct ShardRequests {
    last: u64,
    of_all: HashMap<u64, OpenRequest>,
    of_one: HashMap<Box<str>, oneshot::Sender<Element>>,
}

const PREFIX: &str = "belfry-";

impl Xmpp {
    pub(super) fn ask_all_for_host(
        &mut self,
        now: Instant,
        ticket: Ticket,
        act: HostAction,
        outbox: &mut Vec<XmppEffect>,
    ) {
        self.ask_all(now, Requester::Host(ticket), &Arc::new(act), outbox);
    }

    pub(super) fn operate(
        &mut self,
        now: Instant,
        act: &Arc<HostAction>,
        answer: oneshot::Sender<ActAnswer>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        self.ask_all(now, Requester::Operator(answer), act, outbox);
    }

    fn ask_all(
        &mut self,
        now: Instant,
        asker: Requester,
        act: &Arc<HostAction>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        self.asks.last += 1;
        let id = self.asks.last;
        let asking = OpenRequest { asker, left: self.map.shards(), sum: ActAnswer::default() };
        self.asks.of_all.insert(id, asking);
        for shard in self.map.all() {
            let message = XmppShardMessage::Act { from: self.shard, id, act: Arc::clone(act) };
            self.send(now, shard, message, outbox);
        }
    }

    /// This shard's part.
    pub(super) fn act(
        &mut self,
        now: Instant,
        (from, id): (ShardAddress, u64),
        act: &HostAction,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let mut answer = ActAnswer::default();
        self.tell_host(now, outbox, |host, out| answer.acted = host.act(now, act, out));
        if let HostAction::Sessions { who, .. } = act {
            answer.connections = self.connections(who.as_ref());
        }
        self.send(now, from, XmppShardMessage::HostActionResult { id, answer: Box::new(answer) }, outbox);
    }

    fn connections(&self, who: Option<&Jid>) -> Vec<Connection> {
        let described = |stream: &std::rc::Rc<super::streams::Stream>| {
            let jid = stream.jid()?;
            let is_meant = who.is_none_or(|who| jid.bare_str() == who.bare_str());
            let edge = ConnectionId { shard: self.shard, connection: stream.number };
            let (remote, transport) = (stream.remote, stream.transport.get());
            is_meant.then_some(Connection { edge, remote, transport })
        };
        self.streams.all().iter().filter_map(described).take(limits::XMPP_LISTED as usize).collect()
    }

    pub(super) fn acted(&mut self, now: Instant, id: u64, answer: ActAnswer, outbox: &mut Vec<XmppEffect>) {
        let Some(asking) = self.asks.of_all.get_mut(&id) else { return };
        asking.left = asking.left.saturating_sub(1);
        asking.sum.acted.merge(answer.acted);
        asking.sum.connections.extend(answer.connections);
        if asking.left > 0 {
            return;
        }
        let Some(OpenRequest { asker, sum, .. }) = self.asks.of_all.remove(&id) else { return };
        match asker {
            Requester::Host(ticket) => {
                let acted = Ok(StoreReply::HostActionResult(sum.acted));
                self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, acted, out));
            }
            // The operator may have gone.
            Requester::Operator(answer) => drop(answer.send(sum)),
        }
    }

    /// A shard's inbox was full: the question did not reach it. Effects on other shards stay.
    pub(super) fn not_asked(&mut self, now: Instant, id: u64, outbox: &mut Vec<XmppEffect>) {
        let Some(OpenRequest { asker: Requester::Host(ticket), .. }) = self.asks.of_all.remove(&id) else {
            return;
        };
        let refused = Err(StoreFailure::Unavailable);
        self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, ticket, refused, out));
    }

    /// From the address that `iq` says it is from: a domain of ours, or an account.
    pub(super) fn question(
        &mut self,
        now: Instant,
        mut iq: Element,
        answer: oneshot::Sender<Element>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        self.asks.of_one.retain(|_, asker| !asker.is_closed());
        let mut secret = [0; 16];
        let full = self.asks.of_one.len() >= limits::XMPP_QUESTIONS;
        // The asker learns it from the dropped end of its channel.
        if full || getrandom::fill(&mut secret).is_err() {
            return;
        }
        let token: Box<str> = stdx::hex::encode(&secret).into();
        let from = format!("{}/{PREFIX}{}-{token}", iq.attr("from").unwrap_or_default(), self.shard);
        iq.set("from", from);
        iq.set("id", &*token);
        self.asks.of_one.insert(token, answer);
        self.route(now, Box::new(iq), outbox);
    }

    pub(super) fn reply(&mut self, token: &str, answer: Element) {
        if let Some(asker) = self.asks.of_one.remove(token) {
            // The asker may have gone.
            let _ = asker.send(answer);
        }
    }
}

/// The shard (`belfry-LIFE.SHARD-TOKEN`) and the token of the question that this answers, if it answers one of ours.
pub(super) fn reply_of(element: &Element, to: &Jid) -> Option<(ShardAddress, Box<str>)> {
    let (shard, token) = to.resource()?.strip_prefix(PREFIX)?.split_once('-')?;
    let is_answer = element.name() == "iq" && matches!(element.attr("type"), Some("result" | "error"));
    (is_answer && element.attr("id") == Some(token)).then_some(())?;
    let (life, shard) = shard.split_once('.')?;
    Some((ShardAddress::new(Life(life.parse().ok()?), shard.parse().ok()?), token.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::xmpp::ns;

    #[test]
    fn only_the_answer_to_a_question_of_ours_finds_back() {
        let to = Jid::parse("example.org/belfry-5.3-00ff").unwrap();
        let shard = ShardAddress::new(Life(5), 3);
        let iq = |kind, id| Element::new("iq", ns::CLIENT).with("type", kind).with("id", id);
        assert_eq!(reply_of(&iq("result", "00ff"), &to), Some((shard, "00ff".into())));
        assert_eq!(reply_of(&iq("error", "00ff"), &to), Some((shard, "00ff".into())));
        assert_eq!(reply_of(&iq("get", "00ff"), &to), None);
        assert_eq!(reply_of(&iq("result", "00fe"), &to), None);
        assert_eq!(reply_of(&iq("result", "00ff"), &Jid::parse("example.org/desk").unwrap()), None);
    }
}
