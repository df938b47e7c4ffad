//! Questions to all hosts of the node, and the operator's questions to one address.
//!
//! A question to all hosts goes to every shard by message; the shard that asked adds the answers up. A
//! question to an account or a room is a stanza like any other. It comes from the domain, or from the account
//! itself, with an unguessable resource that leads the answer back ([`reply_of`]).

use std::collections::HashMap;

use chat::{StoreReply, Ticket};
use cluster::{Life, ShardAddress};
use shard_message::ActAnswer;
use tokio::sync::oneshot;
use xmpp::{Element, Jid};

use super::host_requests::HostReply;
use crate::limits;

/// The receiver of an answer.
#[derive(Debug)]
pub(super) enum Requester {
    Host(Ticket),
    Operator(oneshot::Sender<ActAnswer>),
}

/// A question to all hosts of the node.
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
    /// By the token in the resource of the question's sender.
    of_one: HashMap<Box<str>, oneshot::Sender<Element>>,
}

/// The beginning of the resource of a question to one address: `belfry-LIFE.SHARD-TOKEN`.
const PREFIX: &str = "belfry-";

impl ShardRequests {
    /// Begins a question to so many shards. Returns its number, under which each of them answers.
    pub(super) fn begin(&mut self, asker: Requester, shards: u16) -> u64 {
        self.last += 1;
        let asking = OpenRequest { asker, left: shards, sum: ActAnswer::default() };
        self.of_all.insert(self.last, asking);
        self.last
    }

    /// Handles one shard's answer. Returns the sum for the host after the last one.
    pub(super) fn handle_result(&mut self, id: u64, answer: ActAnswer) -> Option<HostReply> {
        // An answer after a refusal finds nothing and is dropped.
        let asking = self.of_all.get_mut(&id)?;
        asking.left = asking.left.saturating_sub(1);
        asking.sum.acted.merge(answer.acted);
        asking.sum.connections.extend(answer.connections);
        if asking.left > 0 {
            return None;
        }
        let OpenRequest { asker, sum, .. } = self.of_all.remove(&id)?;
        match asker {
            Requester::Host(ticket) => {
                Some(HostReply { ticket, result: Ok(StoreReply::HostActionResult(sum.acted)) })
            }
            Requester::Operator(answer) => {
                // The operator may have gone.
                let _ = answer.send(sum);
                None
            }
        }
    }

    /// A shard's inbox was full: the question did not reach it. Effects on other shards stay.
    pub(super) fn handle_refused(&mut self, id: u64) -> Option<HostReply> {
        match self.of_all.remove(&id)?.asker {
            Requester::Host(ticket) => Some(HostReply::unavailable(ticket)),
            // The operator learns it from the dropped end of its channel.
            Requester::Operator(_) => None,
        }
    }

    /// Begins a question to one address, from the address that `iq` says it is from: a domain of ours, or an account.
    /// Returns the stanza.
    pub(super) fn question(
        &mut self,
        own: ShardAddress,
        mut iq: Element,
        answer: oneshot::Sender<Element>,
    ) -> Option<Element> {
        // An answer that never comes would keep its entry; operators that have gone free theirs here.
        self.of_one.retain(|_, asker| !asker.is_closed());
        let mut secret = [0; 16];
        let full = self.of_one.len() >= limits::XMPP_QUESTIONS;
        // The asker learns it from the dropped end of its channel.
        if full || getrandom::fill(&mut secret).is_err() {
            return None;
        }
        let token: Box<str> = stdx::hex::encode(&secret).into();
        // 128 bits: a client that guessed the token could answer in the name of the account or room.
        let from = address_for_answers(iq.attr("from").unwrap_or_default(), own, &token);
        iq.set("from", from);
        iq.set("id", &*token);
        self.of_one.insert(token, answer);
        Some(iq)
    }

    /// Handles the answer to a question to one address.
    pub(super) fn handle_reply(&mut self, token: &str, answer: Element) {
        if let Some(asker) = self.of_one.remove(token) {
            // The asker may have gone.
            let _ = asker.send(answer);
        }
    }
}

/// The address of a question of this shard, from a domain or an account: its answer comes back to the shard.
pub(super) fn address_for_answers(bare: &str, own: ShardAddress, token: &str) -> String {
    format!("{bare}/{PREFIX}{own}-{token}")
}

/// The shard (`belfry-LIFE.SHARD-TOKEN`) and the token of the question that this answers, if it answers one of ours.
pub(super) fn reply_of(element: &Element, to: &Jid) -> Option<(ShardAddress, Box<str>)> {
    let (shard, token) = to.resource()?.strip_prefix(PREFIX)?.split_once('-')?;
    let is_answer = element.name() == "iq" && matches!(element.attr("type"), Some("result" | "error"));
    // The same token in both places: an answer keeps `id` and address of the question (RFC 6120 §8.1.3).
    (is_answer && element.attr("id") == Some(token)).then_some(())?;
    Some((shard_of(shard)?, token.into()))
}

/// The shard of this name (`LIFE.SHARD`).
pub(super) fn shard_of(name: &str) -> Option<ShardAddress> {
    let (life, shard) = name.split_once('.')?;
    Some(ShardAddress::new(Life(life.parse().ok()?), shard.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use chat::effect::HostActionResult;

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

    #[test]
    fn the_answers_of_all_shards_are_added_up_and_one_refusal_ends_the_question() {
        let answer = |count| ActAnswer {
            acted: HostActionResult { count, ..HostActionResult::default() },
            ..ActAnswer::default()
        };
        let mut requests = ShardRequests::default();
        let id = requests.begin(Requester::Host(Ticket(7)), 2);
        assert!(requests.handle_result(id, answer(1)).is_none(), "another shard has not answered");
        let reply = requests.handle_result(id, answer(2)).expect("the sum");
        assert_eq!(reply.ticket, Ticket(7));
        match reply.result {
            Ok(StoreReply::HostActionResult(sum)) => assert_eq!(sum.count, 3),
            other => panic!("{other:?}"),
        }
        assert!(requests.handle_result(id, answer(4)).is_none(), "it is over");
        let id = requests.begin(Requester::Host(Ticket(8)), 2);
        assert!(requests.handle_refused(id).is_some_and(|reply| reply.result.is_err()));
        assert!(requests.handle_result(id, answer(1)).is_none());
    }
}
