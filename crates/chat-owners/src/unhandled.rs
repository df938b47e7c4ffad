//! Messages of this shard's sessions that shards of other nodes have and have not reported as handled, in a farm whose nodes share a
//! database. The link acknowledges a message when the other node has taken it; that node may die before the message is in the
//! database. Then the message is sent again, to the next owner of its address: its receiver may get it twice.
//!
//! The server fills it and sends what it gives back; `chat::MessageNumber` says when a message is handled.

use std::collections::HashMap;

use chat::MessageNumber;
use cluster::{Bucket, Life};
use farm::view::FarmView;
use stdx::Instant;
use xmpp::Element;

use crate::limits::{XMPP_UNHANDLED, XMPP_UNHANDLED_BYTES, XMPP_UNHANDLED_FOR};

/// The messages of one shard, by their numbers.
#[derive(Debug, Default)]
pub struct UnhandledMessages {
    messages: HashMap<MessageNumber, UnhandledMessage>,
    bytes: usize,
    /// The number of messages that were inserted.
    inserted: u64,
    /// The last number of [`UnhandledMessages::next_number`].
    numbered: u64,
    /// The time to look for messages whose reports are lost.
    next_look: Option<Instant>,
}

/// A message that has left for another node.
#[derive(Debug)]
pub struct SentMessage {
    /// The stanza.
    pub element: Box<Element>,
    /// The bucket of its address.
    pub bucket: Bucket,
    /// The node that it was sent to.
    pub to: Life,
    /// Its size on the wire.
    pub bytes: usize,
}

/// A message that another node has.
#[derive(Debug)]
struct UnhandledMessage {
    sent: SentMessage,
    /// Its place in the order of all messages.
    place: u64,
    /// Later owners of its address: an owner that hands its bucket over passes messages on to them.
    later: Vec<Life>,
    since: Instant,
}

impl UnhandledMessages {
    /// True if no more messages may be sent to other nodes now.
    pub fn is_full(&self) -> bool {
        self.messages.len() >= XMPP_UNHANDLED || self.bytes >= XMPP_UNHANDLED_BYTES
    }

    /// A number for a message that has none of its session's.
    pub fn next_number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    /// Keeps a message that has left. One of the same number stays as it is.
    pub fn insert(&mut self, now: Instant, number: MessageNumber, sent: SentMessage) {
        let (bytes, place) = (sent.bytes, self.inserted);
        let mut is_new = false;
        // The first stays: it has the place in the order of sending.
        self.messages.entry(number).or_insert_with(|| {
            is_new = true;
            UnhandledMessage { sent, place, later: Vec::new(), since: now }
        });
        if is_new {
            self.inserted += 1;
            self.next_look.get_or_insert(now + XMPP_UNHANDLED_FOR);
            self.bytes += bytes;
        }
    }

    /// A message is handled, or was refused.
    pub fn handle_handled(&mut self, number: MessageNumber) {
        self.remove(number);
    }

    /// The link to this node gives a message back. True: it is to be sent again; false: it is handled, or has been sent again.
    pub fn handle_returned(&mut self, number: MessageNumber, from: Life) -> bool {
        let is_there = self.messages.get(&number).is_some_and(|message| message.sent.to == from);
        is_there && self.remove(number).is_some()
    }

    /// The farm is now so. Returns the messages that nodes had which are gone, in the order in which they were sent.
    pub fn set_view(&mut self, view: &FarmView) -> Vec<SentMessage> {
        let is_gone = |life: &Life| !view.peers.contains_key(life);
        let mut lost = Vec::new();
        for (number, message) in &mut self.messages {
            if is_gone(&message.sent.to) || message.later.iter().any(is_gone) {
                lost.push((message.place, *number));
            } else if let Some(owner) = view.owner(message.sent.bucket)
                && owner.life != message.sent.to
                // The death of any node that had the message, or to which it was passed on, may have lost it.
                && !message.later.contains(&owner.life)
            {
                message.later.push(owner.life);
            }
        }
        // The table has no order, and messages of one sender must arrive in theirs.
        lost.sort_unstable_by_key(|(place, _)| *place);
        lost.into_iter().filter_map(|(_, number)| self.remove(number)).collect()
    }

    /// Drops messages whose reports are lost.
    pub fn expire(&mut self, now: Instant) {
        if self.next_look.is_none_or(|next| next > now) {
            return;
        }
        let bytes = &mut self.bytes;
        self.messages.retain(|_, message| {
            let is_kept = now.since(message.since) < XMPP_UNHANDLED_FOR;
            *bytes -= if is_kept { 0 } else { message.sent.bytes };
            is_kept
        });
        let earliest = self.messages.values().map(|message| message.since).min();
        self.next_look = earliest.map(|since| since + XMPP_UNHANDLED_FOR);
    }

    fn remove(&mut self, number: MessageNumber) -> Option<SentMessage> {
        let message = self.messages.remove(&number)?;
        self.bytes -= message.sent.bytes;
        Some(message.sent)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cluster::ShardAddress;
    use xmpp::ns;

    use super::*;
    use crate::shared_owners::tests::view;

    const OWN: Life = Life(1);

    fn message(id: u64) -> Element {
        let mut message = Element::new("message", ns::CLIENT).with("to", "bob@example.net");
        message.set_ns("mark", xmpp::internal::NS, format!("1.0.77.{id}"));
        message
    }

    fn number(id: u64) -> MessageNumber {
        MessageNumber::of_message(&message(id), ShardAddress::new(OWN, 0)).unwrap()
    }

    fn insert(messages: &mut UnhandledMessages, now: Instant, id: u64, to: Life) {
        let bucket = Bucket::of("bob@example.net");
        let sent = SentMessage { element: Box::new(message(id)), bucket, to, bytes: 100 };
        messages.insert(now, number(id), sent);
    }

    fn marks(lost: &[SentMessage]) -> Vec<String> {
        lost.iter()
            .filter_map(|sent| sent.element.attr_ns("mark", xmpp::internal::NS))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn messages_that_a_dead_owner_has_taken_are_sent_again_in_their_order() {
        let (mut messages, now) = (UnhandledMessages::default(), Instant::default());
        (1..6).for_each(|id| insert(&mut messages, now, id, Life(2)));
        messages.handle_handled(number(2));
        assert!(messages.set_view(&view(&[OWN, Life(3), Life(2)])).is_empty(), "all live");
        insert(&mut messages, now, 6, Life(3));
        let lost = messages.set_view(&view(&[OWN, Life(3)]));
        assert_eq!(marks(&lost), ["1.0.77.1", "1.0.77.3", "1.0.77.4", "1.0.77.5"]);
        assert!(!messages.handle_returned(number(4), Life(2)), "it has been sent again");
        assert_eq!((messages.messages.len(), messages.bytes), (1, 100));
    }

    #[test]
    fn an_owner_that_hands_over_passes_messages_on_and_the_next_one_may_die() {
        let (mut messages, now) = (UnhandledMessages::default(), Instant::default());
        insert(&mut messages, now, 1, Life(2));
        assert!(messages.set_view(&view(&[OWN, Life(2), Life(3)])).is_empty());
        assert_eq!(marks(&messages.set_view(&view(&[Life(2), OWN]))), ["1.0.77.1"]);
    }

    #[test]
    fn a_message_that_the_link_gives_back_is_sent_again_once() {
        let (mut messages, now) = (UnhandledMessages::default(), Instant::default());
        insert(&mut messages, now, 1, Life(2));
        assert!(!messages.handle_returned(number(1), Life(3)), "it is at another node");
        assert!(messages.handle_returned(number(1), Life(2)));
        assert!(!messages.handle_returned(number(1), Life(2)));
        assert!(messages.set_view(&view(&[OWN])).is_empty());
        insert(&mut messages, now, 1, Life(3));
        assert_eq!(messages.messages.len(), 1, "it has gone to the next owner");
    }

    #[test]
    fn so_many_messages_are_kept_and_for_so_long() {
        let (mut messages, now) = (UnhandledMessages::default(), Instant::default());
        (0..XMPP_UNHANDLED as u64).for_each(|id| {
            assert!(!messages.is_full());
            insert(&mut messages, now, id, Life(2));
        });
        assert!(messages.is_full());
        let late = now + XMPP_UNHANDLED_FOR;
        messages.expire(late - Duration::from_secs(1));
        assert!(messages.is_full());
        messages.expire(late);
        assert_eq!((messages.messages.len(), messages.bytes), (0, 0));
    }
}
