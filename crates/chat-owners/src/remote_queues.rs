//! Stanzas of this shard for other servers, in a farm whose nodes share a database. The owner of the bucket of a server's domain has the
//! stream to it, whichever node's account sends. A shard that sends a stanza keeps it until the owner reports its outcome: when the owner
//! dies, the next one gets it, in the order of the first time.
//!
//! The stanzas of a bucket are sent in runs. A run goes to one owner, which takes its stanzas in their order or not at all
//! ([`RemoteRuns`](crate::RemoteRuns)). The next run begins when each stanza of the one before has an outcome, or its owner is dead: so
//! none overtakes another while owners change.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use cluster::{Bucket, ShardAddress};
use shard_message::XmppShardMessage;
use stdx::Instant;
use xmpp::s2s::{Failure, Outcome, Receipt, undelivered};
use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::{Element, ns};

use crate::limits::{
    XMPP_OWNER_PATIENCE, XMPP_REMOTE, XMPP_REMOTE_BYTES, XMPP_REMOTE_SHARE, XMPP_UNHANDLED_FOR,
};

/// The pause before a run that was not taken is sent again: views of nodes differ for about as long when the map changes.
const RETRY: Duration = Duration::from_millis(100);

/// The pause between two looks at queues of which none waits for an owner.
const LOOK: Duration = Duration::from_secs(1);

/// An effect, which the shard performs.
#[derive(Debug)]
pub enum RemoteEffect {
    /// A message for the owner of a bucket.
    Send {
        /// The owner.
        to: ShardAddress,
        /// The message.
        message: XmppShardMessage,
    },
    /// An error for the sender of a stanza.
    Answer(Box<Element>),
    /// A report to the host of a message's sender: the message is handled (XEP-0198 §4).
    Report(Box<Element>),
}

/// The queues of one shard, by the buckets of the other servers' domains.
#[derive(Debug)]
pub struct RemoteQueues {
    own: ShardAddress,
    /// None is empty.
    queues: HashMap<Bucket, RemoteQueue>,
    count: usize,
    bytes: usize,
    /// The number of the last stanza.
    last: u64,
    /// The last run, of all buckets.
    run: u64,
    /// The next look at the queues.
    next_look: Option<Instant>,
}

/// The stanzas of one bucket, in their order.
#[derive(Debug, Default)]
struct RemoteQueue {
    stanzas: VecDeque<RemoteStanza>,
    /// The size of these stanzas.
    bytes: usize,
    /// The shard that the run is sent to. None: no run was begun.
    owner: Option<ShardAddress>,
    run: u64,
    /// The place of the run's next stanza.
    index: u64,
    /// Stanzas that the owner has and has not reported.
    sent: usize,
    /// Nothing is added to the run: the owner does not take it.
    is_broken: bool,
    /// No run begins before.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct RemoteStanza {
    number: u64,
    element: Box<Element>,
    /// The report to the host of its sender.
    report: Option<Element>,
    bytes: usize,
    since: Instant,
    /// It waits for an owner since then, as long as it is not sent.
    waits_since: Instant,
    /// The owner of the run has it since then.
    sent: Option<Instant>,
}

impl RemoteQueues {
    /// The queues of this shard.
    pub fn new(own: ShardAddress) -> RemoteQueues {
        RemoteQueues { own, queues: HashMap::new(), count: 0, bytes: 0, last: 0, run: 0, next_look: None }
    }

    /// The time at which to call `expire`.
    pub fn deadline(&self) -> Option<Instant> {
        self.next_look
    }

    /// Takes a stanza for another server. `owner` is the shard that owns the bucket now, if it is known and lives.
    pub fn push(
        &mut self,
        now: Instant,
        mut element: Box<Element>,
        owner: impl Fn(Bucket) -> Option<ShardAddress>,
        out: &mut Vec<RemoteEffect>,
    ) {
        // A stanza without a valid address has no way.
        let Ok(Some(to)) = stanza::to(&element) else { return };
        let bucket = Bucket::of(to.domain());
        let report = chat::take_report(&mut element);
        let bytes = element.written_len(ns::CLIENT);
        if !self.has_room(bucket, bytes) {
            return give_back(&element, report, Condition::ResourceConstraint, TOO_MANY, out);
        }
        self.last += 1;
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        let (number, since) = (self.last, now);
        let stanza = RemoteStanza { number, element, report, bytes, since, waits_since: now, sent: None };
        let queue = self.queues.entry(bucket).or_default();
        queue.bytes += bytes;
        queue.stanzas.push_back(stanza);
        self.flow(now, bucket, owner(bucket), out);
    }

    /// True if one more stanza of so many bytes may wait: the stanzas of a bucket take a part of the room that the others leave.
    fn has_room(&self, bucket: Bucket, bytes: usize) -> bool {
        let queue = self.queues.get(&bucket);
        let (count, size) = queue.map_or((0, 0), |queue| (queue.stanzas.len(), queue.bytes));
        count < (XMPP_REMOTE - self.count) / XMPP_REMOTE_SHARE
            && size + bytes <= (XMPP_REMOTE_BYTES - self.bytes) / XMPP_REMOTE_SHARE
    }

    /// Sends what may be sent: further stanzas of the run, or a new run if each stanza of the last one has an outcome.
    fn flow(
        &mut self,
        now: Instant,
        bucket: Bucket,
        owner: Option<ShardAddress>,
        out: &mut Vec<RemoteEffect>,
    ) {
        let Some(queue) = self.queues.get_mut(&bucket) else { return };
        if queue.stanzas.is_empty() {
            self.queues.remove(&bucket);
            return;
        }
        let is_late = queue.is_broken || queue.owner != owner;
        self.next_look.get_or_insert(now + LOOK);
        if is_late {
            queue.is_broken = true;
            self.next_look = self.next_look.min(Some(now + RETRY));
            let waits = queue.not_before.is_some_and(|not_before| not_before > now);
            let Some(owner) = owner.filter(|_| queue.sent == 0 && !waits) else { return };
            self.run += 1;
            (queue.owner, queue.run, queue.index) = (Some(owner), self.run, 0);
            (queue.is_broken, queue.not_before) = (false, None);
        }
        let Some(to) = queue.owner else { return };
        for stanza in queue.stanzas.iter_mut().filter(|stanza| stanza.sent.is_none()) {
            let (number, run, index) = (stanza.number, queue.run, queue.index);
            let receipt = Receipt { origin: self.own, bucket, number, run, index };
            let message = XmppShardMessage::Outbound { receipt, element: stanza.element.clone() };
            out.push(RemoteEffect::Send { to, message });
            (stanza.sent, queue.sent, queue.index) = (Some(now), queue.sent + 1, queue.index + 1);
        }
    }

    /// Handles the outcome of a stanza. One that has an outcome already is passed over.
    pub fn handle_outcome(
        &mut self,
        now: Instant,
        receipt: &Receipt,
        outcome: Outcome,
        owner: impl Fn(Bucket) -> Option<ShardAddress>,
        out: &mut Vec<RemoteEffect>,
    ) {
        let bucket = receipt.bucket;
        let Some(queue) = self.queues.get_mut(&bucket).filter(|queue| queue.run == receipt.run) else {
            return;
        };
        let Ok(at) = queue.stanzas.binary_search_by_key(&receipt.number, |stanza| stanza.number) else {
            return;
        };
        if queue.stanzas[at].sent.is_none() {
            return;
        }
        queue.sent -= 1;
        if outcome == Outcome::Untaken {
            queue.stanzas[at].take_back(now);
            queue.is_broken = true;
            queue.not_before = Some(now + RETRY);
        } else if let Some(stanza) = self.remove(bucket, at) {
            match outcome {
                Outcome::Broken => {
                    give_back(
                        &stanza.element,
                        stanza.report,
                        Condition::RemoteServerTimeout,
                        LOST_CONNECTION,
                        out,
                    );
                }
                _ => report(stanza.report, out),
            }
        }
        self.flow(now, bucket, owner(bucket), out);
    }

    /// The farm is now so: stanzas that a dead owner had go to the next one, before later stanzas. Requests (IQ) are answered with an error
    /// instead: the other server may have performed them.
    pub fn handle_view(
        &mut self,
        now: Instant,
        is_alive: impl Fn(ShardAddress) -> bool,
        owner: impl Fn(Bucket) -> Option<ShardAddress>,
        out: &mut Vec<RemoteEffect>,
    ) {
        for bucket in self.buckets() {
            let Some(queue) = self.queues.get_mut(&bucket) else { continue };
            if queue.owner.is_some_and(|owner| !is_alive(owner)) {
                (queue.owner, queue.is_broken, queue.not_before) = (None, true, None);
                self.take_from_dead(now, bucket, out);
            }
            self.flow(now, bucket, owner(bucket), out);
        }
    }

    /// The owner of this bucket's run is dead.
    fn take_from_dead(&mut self, now: Instant, bucket: Bucket, out: &mut Vec<RemoteEffect>) {
        let Some(queue) = self.queues.get_mut(&bucket) else { return };
        queue.sent = 0;
        let mut lost = Vec::new();
        for (at, stanza) in queue.stanzas.iter_mut().enumerate().filter(|(_, stanza)| stanza.sent.is_some()) {
            stanza.take_back(now);
            if is_request(&stanza.element) {
                lost.push(at);
            }
        }
        // From the end, so that the places of the others stay.
        let lost: Vec<_> = lost.into_iter().rev().filter_map(|at| self.remove(bucket, at)).collect();
        for stanza in lost.into_iter().rev() {
            give_back(&stanza.element, stanza.report, Condition::RemoteServerTimeout, LOST_NODE, out);
        }
    }

    /// Handles what is due: stanzas for which no owner was found in time, or whose outcome is lost, come back to their senders.
    pub fn expire(
        &mut self,
        now: Instant,
        owner: impl Fn(Bucket) -> Option<ShardAddress>,
        out: &mut Vec<RemoteEffect>,
    ) {
        if self.next_look.is_none_or(|next| next > now) {
            return;
        }
        self.next_look = None;
        for bucket in self.buckets() {
            while let Some(at) = self.queues.get(&bucket).and_then(|queue| queue.overdue(now)) {
                let Some(stanza) = self.remove(bucket, at) else { break };
                let (condition, text) = if stanza.sent.is_some() {
                    (Condition::RemoteServerTimeout, NO_OUTCOME)
                } else {
                    (Condition::ResourceConstraint, NO_OWNER)
                };
                if let Some(queue) = self.queues.get_mut(&bucket).filter(|_| stanza.sent.is_some()) {
                    queue.sent -= 1;
                }
                give_back(&stanza.element, stanza.report, condition, text, out);
            }
            self.flow(now, bucket, owner(bucket), out);
        }
    }

    /// The buckets, in the order of their numbers: what follows does not depend on the order of the table.
    fn buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = self.queues.keys().copied().collect();
        buckets.sort_unstable_by_key(|bucket| bucket.number());
        buckets
    }

    fn remove(&mut self, bucket: Bucket, at: usize) -> Option<RemoteStanza> {
        let queue = self.queues.get_mut(&bucket)?;
        let stanza = queue.stanzas.remove(at)?;
        queue.bytes -= stanza.bytes;
        (self.count, self.bytes) = (self.count - 1, self.bytes - stanza.bytes);
        Some(stanza)
    }
}

impl RemoteQueue {
    /// The place of a stanza that has waited too long.
    fn overdue(&self, now: Instant) -> Option<usize> {
        let is_over = |stanza: &RemoteStanza| {
            let waits = stanza.sent.is_none() && now.since(stanza.waits_since) >= XMPP_OWNER_PATIENCE;
            waits || now.since(stanza.since) >= XMPP_UNHANDLED_FOR
        };
        self.stanzas.iter().position(is_over)
    }
}

impl RemoteStanza {
    /// The owner has it no more and has not sent it. One that the owner had for a while, as its connection was not there yet, waits anew
    /// for the next owner; one that was refused at once, as the owner does not serve the bucket yet, goes on waiting.
    fn take_back(&mut self, now: Instant) {
        if self.sent.take().is_some_and(|sent| now.since(sent) >= LOOK) {
            self.waits_since = now;
        }
    }
}

const TOO_MANY: &str = "too much waits for that server";
const NO_OWNER: &str = "no node of this server could send it in time";
const NO_OUTCOME: &str = "that server has not taken it in time, or it is not known";
const LOST_NODE: &str = "the node that had it has ended: that server may have received it";
const LOST_CONNECTION: &str = "the connection to that server broke";

fn is_request(element: &Element) -> bool {
    stanza::kind_of(element) == Some(StanzaKind::Iq) && stanza::may_be_refused(element)
}

fn report(report: Option<Element>, out: &mut Vec<RemoteEffect>) {
    out.extend(report.map(|report| RemoteEffect::Report(Box::new(report))));
}

/// The sender of a stanza gets an error, so a message is handled (XEP-0198 §4).
fn give_back(
    element: &Element,
    handled: Option<Element>,
    condition: Condition,
    text: &str,
    out: &mut Vec<RemoteEffect>,
) {
    let answer = undelivered(element, &Failure::new(condition, text));
    out.extend(answer.map(|answer| RemoteEffect::Answer(Box::new(answer))));
    report(handled, out);
}
