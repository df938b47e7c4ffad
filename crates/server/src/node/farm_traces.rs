//! Traces over all nodes of a farm. The node that a command asks is the collector: it asks each other node to contribute, and gives
//! their lines to the command in the order in which they come. A trace ends with its command; a contributor whose collector does
//! not renew the request ends its part by itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cluster::{Life, Outlet};
use control::{TraceLine, TraceLines, TraceNews, TraceSink};
use net::clock::Clock;
use stdx::Instant;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::{interval, sleep_until};

use crate::farm::traces::{LineMeter, TraceMessages};
use crate::farm::{FarmBoard, FarmMembership};
use crate::limits;
use crate::message::{InboxMessage, LocalMessage};
use shard_message::wire::{TraceBody, TraceMessage};

/// The traces that this node collects from others, and those that it contributes to.
pub(super) struct FarmTraces {
    own: Life,
    board: Arc<FarmBoard>,
    /// The shard with the links.
    outlet: Outlet<InboxMessage>,
    clock: Clock,
    collections: RefCell<BTreeMap<u64, Collection>>,
    /// By the collector and its number of the trace; each renewal is announced to the contribution's task.
    contributions: RefCell<BTreeMap<(Life, u64), watch::Sender<()>>>,
    last_number: Cell<u64>,
}

/// A trace that this node collects.
struct Collection {
    sink: TraceSink,
    contributors: BTreeMap<Life, Contributor>,
}

/// Another node in a trace that this one collects.
struct Contributor {
    name: Box<str>,
    /// The time at which the node was asked first, or answered last.
    heard_at: Instant,
    takes_part: bool,
}

impl Collection {
    /// Follows the live nodes of the farm; one that does not answer, or is gone, takes no part.
    fn set_nodes(&mut self, now: Instant, nodes: &[(Life, Box<str>)]) {
        for (life, name) in nodes {
            self.contributors.entry(*life).or_insert_with(|| Contributor {
                name: name.clone(),
                heard_at: now,
                takes_part: true,
            });
        }
        for (life, node) in &mut self.contributors {
            // A node that refuses does not answer either: to the operator both are a part that is missing.
            let is_silent = now.since(node.heard_at) > limits::FARM_TRACE_SILENCE;
            let is_gone = nodes.iter().all(|(live, _)| live != life);
            if (is_silent || is_gone) && std::mem::replace(&mut node.takes_part, false) {
                self.sink.node(&node.name, false);
            }
        }
        self.contributors.retain(|life, _| nodes.iter().any(|(live, _)| live == life));
    }

    fn handle(&mut self, now: Instant, from: Life, body: TraceBody) {
        // A line of a node that was not asked, or has left.
        let Some(node) = self.contributors.get_mut(&from) else { return };
        node.heard_at = now;
        if !std::mem::replace(&mut node.takes_part, true) {
            self.sink.node(&node.name, true);
        }
        match body {
            TraceBody::Line(line) => self.sink.line(TraceLine { node: Some(node.name.clone()), ..*line }),
            TraceBody::Missed(count) => self.sink.miss(count),
            TraceBody::Begin { .. } | TraceBody::Begun | TraceBody::End => {}
        }
    }
}

impl FarmTraces {
    /// The traces of a node of a farm, and the messages of other nodes for [`serve`](Self::serve).
    pub(super) fn new(
        farm: &FarmMembership,
        outlet: Outlet<InboxMessage>,
        clock: Clock,
    ) -> Option<(Rc<FarmTraces>, TraceMessages)> {
        let board = farm.board_of_shards();
        let messages = board.traces.open()?;
        let traces = FarmTraces {
            own: farm.life,
            board,
            outlet,
            clock,
            collections: RefCell::default(),
            contributions: RefCell::default(),
            last_number: Cell::new(0),
        };
        Some((Rc::new(traces), messages))
    }

    /// Begins to collect the lines of other nodes into the sink, until its reader has gone. Returns the sink for this node's own
    /// lines, which name the node.
    pub(super) fn collect(self: &Rc<Self>, account: &str, sink: TraceSink) -> TraceSink {
        // The name under which the other nodes know this one.
        let own = self.board.view().and_then(|view| Some(view.peers.get(&self.own)?.name.clone()));
        let traces = Rc::clone(self);
        spawn_local(traces.follow(account.into(), sink.clone()));
        sink.of_node(&own.unwrap_or_default())
    }

    /// Asks the other nodes for their lines, again and again, until the reader has gone.
    async fn follow(self: Rc<Self>, account: Box<str>, sink: TraceSink) {
        let trace = self.last_number.get() + 1;
        self.last_number.set(trace);
        let collection = Collection { sink: sink.clone(), contributors: BTreeMap::new() };
        self.collections.borrow_mut().insert(trace, collection);
        let begin = TraceBody::Begin { account, is_full: sink.is_full() };
        let mut renewal = interval(limits::FARM_TRACE_RENEWAL);
        loop {
            tokio::select! {
                () = sink.closed() => break,
                _ = renewal.tick() => self.renew(trace, &begin),
            }
        }
        self.collections.borrow_mut().remove(&trace);
        for (life, _) in self.others() {
            self.send(life, trace, TraceBody::End);
        }
    }

    /// Repeats the request at all other nodes, which begins a trace at those that have joined and keeps it alive at the others.
    fn renew(&self, trace: u64, begin: &TraceBody) {
        let (now, others) = (self.clock.now(), self.others());
        for (life, _) in &others {
            self.send(*life, trace, begin.clone());
        }
        let lost = self.board.traces.take_lost();
        let mut collections = self.collections.borrow_mut();
        // The inbox is that of all collections: each may have lost some.
        collections.values().filter(|_| lost > 0).for_each(|collection| collection.sink.miss(lost));
        if let Some(collection) = collections.get_mut(&trace) {
            collection.set_nodes(now, &others);
        }
    }

    /// The other live nodes of the farm.
    fn others(&self) -> Vec<(Life, Box<str>)> {
        let view = self.board.view();
        let peers = view.iter().flat_map(|view| &view.peers);
        peers.filter(|(life, _)| **life != self.own).map(|(life, peer)| (*life, peer.name.clone())).collect()
    }

    /// Handles the messages of other nodes. `begin` begins a trace of an account at this node alone; false: there are too many.
    pub(super) async fn serve(
        self: Rc<Self>,
        mut messages: TraceMessages,
        begin: impl Fn(Box<str>, TraceSink) -> bool,
    ) {
        while let Some((from, TraceMessage { trace, body })) = messages.recv().await {
            match body {
                TraceBody::Begin { account, is_full } => {
                    if self.contribute((from, trace), account, is_full, &begin) {
                        self.send(from, trace, TraceBody::Begun);
                    }
                }
                // Its task ends, as there will be no more renewals.
                TraceBody::End => drop(self.contributions.borrow_mut().remove(&(from, trace))),
                TraceBody::Begun | TraceBody::Line(_) | TraceBody::Missed(_) => {
                    let mut collections = self.collections.borrow_mut();
                    // A line may come after the end.
                    if let Some(collection) = collections.get_mut(&trace) {
                        collection.handle(self.clock.now(), from, body);
                    }
                }
            }
        }
    }

    /// Begins or renews a contribution. False: there are too many traces; the collector is not answered, and says so.
    fn contribute(
        self: &Rc<Self>,
        key: (Life, u64),
        account: Box<str>,
        is_full: bool,
        begin: &impl Fn(Box<str>, TraceSink) -> bool,
    ) -> bool {
        let mut contributions = self.contributions.borrow_mut();
        // The task of a contribution that has ended has dropped its receiver: then a new one begins.
        if contributions.get(&key).is_some_and(|renewals| renewals.send(()).is_ok()) {
            return true;
        }
        let (sink, lines) = TraceSink::new(is_full);
        if !begin(account, sink) {
            tracing::warn!(collector = %key.0, "a trace of another node is refused: too many traces are on");
            return false;
        }
        let (renewals, renewed) = watch::channel(());
        contributions.insert(key, renewals);
        spawn_local(Rc::clone(self).send_lines(key, lines, renewed));
        true
    }

    /// Ends when the collector says so, or does not renew its request.
    async fn send_lines(
        self: Rc<Self>,
        (collector, trace): (Life, u64),
        mut lines: TraceLines,
        mut renewed: watch::Receiver<()>,
    ) {
        let silence = || tokio::time::Instant::now() + limits::FARM_TRACE_SILENCE;
        let (mut until, mut left_out) = (silence(), 0);
        let mut meter = LineMeter::new(self.clock.now());
        loop {
            tokio::select! {
                news = lines.next() => {
                    let Some(TraceNews::Line(line)) = news else { break };
                    let message = TraceMessage { trace, body: TraceBody::Line(Box::new(line)) }.message();
                    if meter.admit(self.clock.now(), message.wire_bytes()) {
                        self.send_message(collector, message);
                    } else {
                        left_out += 1;
                    }
                }
                renewal = renewed.changed() => {
                    if renewal.is_err() {
                        break;
                    }
                    until = silence();
                    left_out += lines.missed();
                    if left_out > 0 {
                        self.send(collector, trace, TraceBody::Missed(std::mem::take(&mut left_out)));
                    }
                }
                () = sleep_until(until) => break,
            }
        }
        self.contributions.borrow_mut().remove(&(collector, trace));
    }

    fn send(&self, to: Life, trace: u64, body: TraceBody) {
        self.send_message(to, TraceMessage { trace, body }.message());
    }

    /// By the shard with the links. A message that the link does not take is lost; the next renewal repeats a request.
    fn send_message(&self, life: Life, message: cluster::link::Message) {
        self.outlet.answer_all(&mut vec![LocalMessage::ToNode { life, message }.into()]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn nodes(names: &[&str]) -> Vec<(Life, Box<str>)> {
        (1..).map(Life).zip(names.iter().map(|name| (*name).into())).collect()
    }

    async fn news(lines: &mut TraceLines) -> (Box<str>, bool) {
        match lines.next().await {
            Some(TraceNews::Node { name, takes_part }) => (name, takes_part),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_node_that_does_not_answer_is_named_once_and_again_when_it_does() {
        let (sink, mut lines) = TraceSink::new(false);
        let mut collection = Collection { sink, contributors: BTreeMap::new() };
        let begun = Instant::from_unix_seconds(1);
        let at = |seconds| begun + Duration::from_secs(seconds);
        collection.set_nodes(at(0), &nodes(&["n1", "n2"]));
        for seconds in 1..20 {
            collection.handle(at(seconds), Life(1), TraceBody::Begun);
            collection.set_nodes(at(seconds), &nodes(&["n1", "n2"]));
        }
        assert_eq!(news(&mut lines).await, ("n2".into(), false));
        collection.handle(at(20), Life(2), TraceBody::Line(Box::default()));
        assert_eq!(news(&mut lines).await, ("n2".into(), true));
        let line = TraceLine { node: Some("n2".into()), ..TraceLine::default() };
        assert_eq!(lines.next().await, Some(TraceNews::Line(line)));
        // Gone: its process has ended.
        collection.set_nodes(at(20), &nodes(&["n1"]));
        assert_eq!(news(&mut lines).await, ("n2".into(), false));
        collection.handle(at(20), Life(2), TraceBody::Line(Box::default()));
        drop(collection);
        assert_eq!(lines.next().await, None, "a life that is over sends no line");
    }
}
