//! The connections of one shard: their identity, their queues, and their shared state.
//!
//! [`Flow`] is one connection as three parties see it: its task, the shard that queues messages, and the sweep
//! of idle ones. [`Shared`] is what they have in common. No lock: all are on one thread, and no borrow of a
//! cell is held across an `await`. Invariants: a flow is in `flows` from `add_flow` to `remove_flow`, which
//! happens once; a message that is still queued then is reported as failed, if its sender asked for a report.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;
use router::{FlowId, ShardAddress};
use sip::transport::{Packet, Source, TlsNames, TransmitId, Transport};
use tokio::time::Instant;

use super::admission::Admitted;
use super::capture::{Capture, Way};
use super::counters::NetCounters;
use super::handshake::HandshakePermits;
use super::settings::{Certified, CloseReason, NetEvent, NetSettings, SendFault};
use crate::limits;

/// A peer to connect to; messages for the same key share a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PeerKey {
    pub(super) transport: Transport,
    pub(super) remote: SocketAddr,
    pub(super) tls_name: Option<Box<str>>,
}

/// A message waiting to be written.
pub(super) struct Queued {
    pub(super) bytes: Bytes,
    pub(super) report: Option<TransmitId>,
}

impl Queued {
    /// Bytes of memory: its place in the queue is the larger part of a short answer.
    fn cost(&self) -> usize {
        size_of::<Queued>() + self.bytes.len()
    }
}

/// The origin of a connection.
pub(super) enum Origin {
    Accepted(Admitted),
    /// We connect to this peer.
    Ours(PeerKey),
}

/// One connection, as its writers see it. The task that owns the socket holds it too.
pub(super) struct Flow {
    pub(super) id: FlowId,
    pub(super) transport: Transport,
    /// Behind a trusted proxy the client that the proxy names, with the proxy's port.
    pub(super) remote: Cell<SocketAddr>,
    /// The listening address, or for our own connections the one the kernel chose.
    pub(super) local: Cell<SocketAddr>,
    pub(super) key: Option<PeerKey>,
    pub(super) queue: RefCell<VecDeque<Queued>>,
    /// Memory held by `queue`.
    queued: Cell<usize>,
    /// The time at which the kernel took the last message from `queue`, or the first one came into it.
    progressed: Cell<Instant>,
    /// Its place among those that were accepted; `None`: we connected.
    accepted: Option<Admitted>,
    /// The same as the client for which a proxy speaks, once that is known.
    client: OnceCell<Admitted>,
    /// Memory held by a message that has not come whole.
    partial: Cell<usize>,
    /// Its peer has shown a certificate that was verified.
    is_certified: Cell<bool>,
    /// Handshakes are done.
    pub(super) open: Cell<bool>,
    /// Told to end, and why.
    pub(super) closing: Cell<Option<CloseReason>>,
    /// `Shared::tick` when the peer last sent something whole.
    pub(super) last_tick: Cell<u32>,
    /// Wakes the task.
    pub(super) waker: RefCell<Option<Waker>>,
}

impl Flow {
    pub(super) fn source(&self) -> Source {
        Source {
            transport: self.transport,
            local: self.local.get(),
            remote: self.remote.get(),
            flow: Some(self.id),
        }
    }

    /// Its place among the connections of its source; `None`: we connected.
    pub(super) fn admitted(&self) -> Option<&Admitted> {
        self.client.get().or(self.accepted.as_ref())
    }

    /// The way of a message that is sent on it.
    fn way_out(&self) -> Way {
        Way { transport: self.transport, source: self.local.get(), destination: self.remote.get() }
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// The first reason stays.
    pub(super) fn close(&self, reason: CloseReason) {
        if self.closing.get().is_none() {
            self.closing.set(Some(reason));
        }
        self.wake();
    }
}

/// State that `Io` and the tasks of its connections share. All on one thread.
pub(super) struct Shared {
    pub(super) edge: ShardAddress,
    pub(super) settings: NetSettings,
    pub(super) counters: RefCell<NetCounters>,
    /// `None`: messages are not captured.
    pub(super) capture: RefCell<Option<Box<Capture>>>,
    pub(super) events: RefCell<Vec<NetEvent>>,
    /// To be told before the messages of these connections are.
    pub(super) certified: RefCell<Vec<Certified>>,
    inbox: RefCell<VecDeque<Packet>>,
    /// Tasks that wait for room in the inbox.
    starved: RefCell<Vec<Waker>>,
    /// Wakes the task that awaits `Io::ready`.
    waker: RefCell<Option<Waker>>,
    flows: RefCell<HashMap<u64, Rc<Flow>>>,
    peers: RefCell<HashMap<PeerKey, u64>>,
    next_flow: Cell<u64>,
    /// One permit for each TLS handshake that may compute now.
    pub(super) handshakes: Arc<HandshakePermits>,
    /// Memory held by messages that have not come whole.
    partial: Cell<usize>,
    /// Memory held by messages that wait to be written.
    queued: Cell<usize>,
    /// Not before then are stalled connections looked for again.
    next_stall_look: Cell<Instant>,
    /// Counts sixteenths of `flow_idle`.
    pub(super) tick: Cell<u32>,
    /// Every connection reads into this, one at a time, so that an idle one needs no buffer.
    pub(super) scratch: RefCell<Box<[u8]>>,
}

/// Idle time is measured in this many steps; a connection lives up to one step longer.
pub(super) const IDLE_TICKS: u32 = 16;

/// Read at once from one connection.
const SCRATCH: usize = 64 * 1024;

impl Shared {
    pub(super) fn new(edge: ShardAddress, settings: NetSettings) -> Rc<Self> {
        // A random start: flow numbers that peers or the record still hold from an earlier life of the
        // process do not name a connection of this one.
        let start = getrandom::u64().unwrap_or_default() >> 1;
        let handshakes = Arc::new(HandshakePermits::new(settings.max_handshakes));
        Rc::new(Shared {
            edge,
            handshakes,
            settings,
            counters: RefCell::default(),
            capture: RefCell::default(),
            events: RefCell::default(),
            certified: RefCell::default(),
            inbox: RefCell::default(),
            starved: RefCell::default(),
            waker: RefCell::default(),
            flows: RefCell::default(),
            peers: RefCell::default(),
            next_flow: Cell::new(start),
            partial: Cell::new(0),
            queued: Cell::new(0),
            next_stall_look: Cell::new(Instant::now()),
            tick: Cell::new(0),
            scratch: RefCell::new(vec![0; SCRATCH].into_boxed_slice()),
        })
    }

    pub(super) fn has_something(&self) -> bool {
        !self.inbox.borrow().is_empty()
            || !self.events.borrow().is_empty()
            || !self.certified.borrow().is_empty()
    }

    pub(super) fn listen(&self, waker: &Waker) {
        let mut slot = self.waker.borrow_mut();
        match slot.as_mut() {
            Some(old) => old.clone_from(waker),
            None => *slot = Some(waker.clone()),
        }
    }

    pub(super) fn wake_shard(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// True if a connection may read on; if not, `waker` is woken when it may.
    pub(super) fn has_room(&self, waker: &Waker) -> bool {
        // A shard that is late stops reading from all of its peers; TCP makes them wait, and nothing is lost.
        let room = self.inbox.borrow().len() < limits::STREAM_INBOX;
        if !room {
            self.starved.borrow_mut().push(waker.clone());
        }
        room
    }

    pub(super) fn deliver(&self, flow: &Flow, bytes: Bytes) {
        self.count(|counters| counters.stream_messages_in += 1);
        self.inbox.borrow_mut().push_back(Packet { bytes, source: flow.source() });
        self.wake_shard();
    }

    /// Moves one turn's share of messages out; the number.
    pub(super) fn take_messages(&self, sink: &mut Vec<Packet>) -> usize {
        let mut inbox = self.inbox.borrow_mut();
        // Bounded, so that timers and datagrams have their turn in between.
        let count = inbox.len().min(limits::STREAM_BATCH);
        sink.extend(inbox.drain(..count));
        if inbox.len() < limits::STREAM_INBOX {
            self.starved.borrow_mut().drain(..).for_each(Waker::wake);
        }
        count
    }

    /// Captures a message that is sent, where that is on.
    pub(super) fn capture(&self, way: impl Fn() -> Way, message: &[u8]) {
        if let Some(tap) = &self.settings.tap {
            tap.sent(way().destination, message);
        }
        if let Some(capture) = &mut *self.capture.borrow_mut() {
            capture.note(way(), message);
        }
    }

    /// Captures a message that is handed to the kernel.
    pub(super) fn capture_sent(&self, flow: &Flow, message: &[u8]) {
        self.capture(|| flow.way_out(), message);
    }

    pub(super) fn event(&self, event: NetEvent) {
        self.events.borrow_mut().push(event);
        self.wake_shard();
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut NetCounters)) {
        change(&mut self.counters.borrow_mut());
    }

    pub(super) fn send_failed(&self, report: Option<TransmitId>, fault: SendFault) {
        self.count(|counters| {
            counters.send_failures += 1;
            counters.queue_overflows += u64::from(fault == SendFault::Overflow);
        });
        if let Some(report) = report {
            self.event(NetEvent::SendFailed(report, fault));
        }
    }

    /// The connections that are open or being made.
    pub(super) fn open_flows(&self) -> usize {
        self.flows.borrow().len()
    }

    /// True if one more connection fits.
    pub(super) fn has_place(&self) -> bool {
        self.open_flows() < self.settings.max_flows
    }

    /// A place for a connection that was just accepted; `None`: there are too many.
    pub(super) fn admit(&self, remote: SocketAddr, transport: Transport) -> Option<Admitted> {
        let (admission, most) = (&self.settings.admission, self.settings.max_flows_per_source);
        // A proxy's connections are those of many clients.
        // Only these begin with HTTP, in which a proxy can name its client.
        let is_web = matches!(transport, Transport::Ws | Transport::Wss);
        let is_proxy = is_web && self.settings.proxies.trust(remote.ip());
        let source = (!is_proxy).then(|| remote.ip().into());
        self.has_place().then(|| admission.enter(source, most)).flatten()
    }

    /// True if one more connection of a client behind a proxy would fit.
    pub(super) fn has_place_behind_proxy(&self, client: IpAddr) -> bool {
        let (admission, most) = (&self.settings.admission, self.settings.max_flows_per_source);
        self.settings.proxies.trust(client) || admission.has_place(client.into(), most)
    }

    /// From here on the connection is that of the client that its proxy has named. False: that one has too many.
    #[must_use]
    pub(super) fn speak_for(&self, flow: &Flow, client: IpAddr) -> bool {
        let proxy = flow.remote.get();
        if client == proxy.ip() {
            return true;
        }
        // The port of the client is not known; the proxy's makes the address unlike those of the client's other
        // connections.
        let client = SocketAddr::new(client, proxy.port());
        let Some(admitted) = self.admit(client, flow.transport) else { return false };
        // The place of the proxy's connection is not in the way of others any more.
        if let Some(accepted) = &flow.accepted {
            accepted.establish();
        }
        flow.remote.set(client);
        flow.client.set(admitted).is_ok()
    }

    /// So many bytes of a message wait for its rest. False: they are part of too many.
    pub(super) fn hold_partial(&self, flow: &Flow, bytes: usize) -> bool {
        // Counted over all connections of the shard: many halves together are the attack, one large message is
        // none.
        let all = self.partial.get() - flow.partial.replace(bytes) + bytes;
        self.partial.set(all);
        bytes <= limits::PARTIAL_FREE || all <= self.settings.max_partial
    }

    pub(super) fn add_flow(
        &self,
        transport: Transport,
        local: SocketAddr,
        remote: SocketAddr,
        origin: Origin,
    ) -> Rc<Flow> {
        let (accepted, key) = match origin {
            Origin::Accepted(admitted) => (Some(admitted), None),
            Origin::Ours(key) => (None, Some(key)),
        };
        let number = self.next_flow.get();
        self.next_flow.set(number.wrapping_add(1));
        let flow = Rc::new(Flow {
            id: FlowId { edge: self.edge, number },
            transport,
            remote: Cell::new(remote),
            local: Cell::new(local),
            key: key.clone(),
            queue: RefCell::default(),
            queued: Cell::new(0),
            progressed: Cell::new(Instant::now()),
            accepted,
            client: OnceCell::new(),
            partial: Cell::new(0),
            is_certified: Cell::new(false),
            open: Cell::new(false),
            closing: Cell::new(None),
            last_tick: Cell::new(self.tick.get()),
            waker: RefCell::default(),
        });
        self.flows.borrow_mut().insert(number, Rc::clone(&flow));
        if let Some(key) = key {
            self.peers.borrow_mut().insert(key, number);
        }
        self.count(|counters| counters.flows_open += 1);
        flow
    }

    /// Forgets the flow, reports what it still had to write, and that it is closed.
    pub(super) fn remove_flow(&self, flow: &Flow, reason: CloseReason) {
        if self.flows.borrow_mut().remove(&flow.id.number).is_none() {
            return;
        }
        if let Some(key) = &flow.key {
            let mut peers = self.peers.borrow_mut();
            if peers.get(key) == Some(&flow.id.number) {
                peers.remove(key);
            }
        }
        self.hold_partial(flow, 0);
        self.hold_queued(flow, 0);
        if flow.is_certified.get() {
            self.certified.borrow_mut().push(Certified { flow: flow.id, names: None });
            self.wake_shard();
        }
        self.count(|counters| {
            counters.flows_open -= 1;
            counters.flows_slow_closed += u64::from(reason == CloseReason::Slow);
            counters.flows_idle_closed += u64::from(reason == CloseReason::Idle);
        });
        for queued in flow.queue.take() {
            self.send_failed(queued.report, SendFault::Closed(reason));
        }
        if flow.open.get() {
            self.event(NetEvent::FlowClosed(flow.id, reason));
        }
    }

    /// The peer at the other end has these names. Before its first message is taken.
    pub(super) fn certify(&self, flow: &Flow, names: TlsNames) {
        // One that was closed meanwhile has been forgotten already.
        if !names.is_empty() && self.flows.borrow().contains_key(&flow.id.number) {
            flow.is_certified.set(true);
            self.certified.borrow_mut().push(Certified { flow: flow.id, names: Some(names) });
        }
    }

    /// A live flow of this edge.
    pub(super) fn flow(&self, id: FlowId) -> Option<Rc<Flow>> {
        if id.edge != self.edge {
            return None;
        }
        self.flows.borrow().get(&id.number).filter(|flow| flow.closing.get().is_none()).cloned()
    }

    /// A connection we made, or are making, to this peer.
    pub(super) fn peer(&self, key: &PeerKey) -> Option<Rc<Flow>> {
        let number = *self.peers.borrow().get(key)?;
        self.flow(FlowId { edge: self.edge, number })
    }

    /// Queues a message on a connection. A peer that does not read loses the connection.
    pub(super) fn write(&self, flow: &Flow, queued: Queued) {
        let too_many = !flow.open.get() && flow.queue.borrow().len() >= self.settings.flow_connect_queue;
        if too_many {
            return self.send_failed(queued.report, SendFault::Overflow);
        }
        let bytes = flow.queued.get() + queued.cost();
        if bytes > self.settings.flow_write_queue {
            self.send_failed(queued.report, SendFault::Overflow);
            return flow.close(CloseReason::Overflow);
        }
        if flow.queue.borrow().is_empty() {
            flow.progressed.set(Instant::now());
        }
        self.hold_queued(flow, bytes);
        flow.queue.borrow_mut().push_back(queued);
        flow.wake();
        if self.queued.get() > self.settings.max_queued {
            self.close_stalled();
        }
    }

    /// Takes the first message that waits to be written.
    pub(super) fn pop(&self, flow: &Flow) -> Option<Queued> {
        let queued = flow.queue.borrow_mut().pop_front()?;
        flow.progressed.set(Instant::now());
        self.hold_queued(flow, flow.queued.get() - queued.cost());
        Some(queued)
    }

    /// So many bytes of memory are held by the queue of a connection.
    fn hold_queued(&self, flow: &Flow, bytes: usize) {
        self.queued.set(self.queued.get() - flow.queued.replace(bytes) + bytes);
    }

    /// All queues together are too large. Those of peers that do not read are the attack, a long queue of one that reads is none.
    fn close_stalled(&self) {
        let now = Instant::now();
        if now < self.next_stall_look.get() {
            return;
        }
        self.next_stall_look.set(now + limits::WRITE_STALL);
        for flow in self.flows.borrow().values() {
            let is_stalled = now.saturating_duration_since(flow.progressed.get()) >= limits::WRITE_STALL;
            if is_stalled && flow.queued.get() > limits::WRITE_QUEUE_FREE {
                flow.close(CloseReason::Overflow);
            }
        }
    }

    /// Answers a keep-alive, in the order of the messages. An answer that waits is one to this keep-alive, too: both are
    /// read at the same time.
    pub(super) fn write_pong(&self, flow: &Flow, bytes: Bytes) {
        // The first of the queue may be written in part.
        let waits = flow.queue.borrow().iter().skip(1).next_back().is_some_and(|last| last.bytes == bytes);
        if !waits {
            self.write(flow, Queued { bytes, report: None });
        }
    }

    /// Closes what was silent for too long. Called once per tick.
    pub(super) fn sweep_idle(&self) {
        let now = self.tick.get().wrapping_add(1);
        self.tick.set(now);
        for flow in self.flows.borrow().values() {
            if now.wrapping_sub(flow.last_tick.get()) > IDLE_TICKS {
                flow.close(CloseReason::Idle);
            }
        }
    }

    pub(super) fn close_all(&self) {
        for flow in self.flows.borrow().values() {
            flow.close(CloseReason::Ours);
        }
    }
}

#[cfg(test)]
mod tests {
    use router::Life;

    use super::*;

    fn shared(settings: NetSettings) -> Rc<Shared> {
        Shared::new(ShardAddress::new(Life(1), 0), settings)
    }

    /// A connection that no task drives: its peer does not read.
    fn open_flow(shared: &Shared) -> Rc<Flow> {
        let remote = SocketAddr::from(([192, 0, 2, 7], 5060));
        let key = PeerKey { transport: Transport::Tcp, remote, tls_name: None };
        let flow = shared.add_flow(Transport::Tcp, remote, remote, Origin::Ours(key));
        flow.open.set(true);
        flow
    }

    fn queued(bytes: &'static [u8]) -> Queued {
        Queued { bytes: Bytes::from_static(bytes), report: None }
    }

    #[test]
    fn short_messages_that_wait_count_with_their_places_in_the_queue() {
        let shared = shared(NetSettings { flow_write_queue: 100_000, ..NetSettings::default() });
        let flow = open_flow(&shared);
        for _ in 0..40_000 {
            shared.write(&flow, queued(b"\r\n"));
        }
        assert_eq!(flow.closing.get(), Some(CloseReason::Overflow));
        let memory = flow.queue.borrow().len() * size_of::<Queued>();
        assert!((50_000..=100_000).contains(&memory), "{memory}");
        // All of it is given back.
        while shared.pop(&flow).is_some() {}
        assert_eq!((flow.queued.get(), shared.queued.get()), (0, 0));
    }

    #[test]
    fn keep_alives_that_are_not_read_queue_no_more_answers() {
        let shared = shared(NetSettings::default());
        let flow = open_flow(&shared);
        shared.write(&flow, queued(b"a message"));
        for _ in 0..40_000 {
            shared.write_pong(&flow, Bytes::from_static(b"\r\n"));
        }
        assert_eq!(flow.queue.borrow().len(), 2);
        // In the order of the messages.
        shared.write(&flow, queued(b"another"));
        shared.write_pong(&flow, Bytes::from_static(b"\r\n"));
        let written: Vec<_> = std::iter::from_fn(|| shared.pop(&flow)).map(|queued| queued.bytes).collect();
        assert_eq!(written, [&b"a message"[..], b"\r\n", b"another", b"\r\n"]);
        assert_eq!(flow.closing.get(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn all_queues_of_a_shard_together_are_bounded() {
        let max_queued = 500_000;
        let shared = shared(NetSettings { max_queued, ..NetSettings::default() });
        let write = |flow: &Flow, bytes: usize| {
            shared.write(flow, Queued { bytes: Bytes::from(vec![b'x'; bytes]), report: None });
        };
        let stalled: Vec<_> = (0..10).map(|_| open_flow(&shared)).collect();
        stalled.iter().for_each(|flow| write(flow, 49_000));
        let (short, reading) = (open_flow(&shared), open_flow(&shared));
        write(&short, limits::WRITE_QUEUE_FREE - size_of::<Queued>());
        tokio::time::advance(limits::WRITE_STALL).await;
        (0..10).for_each(|_| write(&reading, 10_000));
        assert!(shared.queued.get() > max_queued);
        let is_closed = |flow: &Rc<Flow>| flow.closing.get() == Some(CloseReason::Overflow);
        assert!(stalled.iter().all(is_closed));
        assert!(!is_closed(&short) && !is_closed(&reading));
        // One whose peer reads slowly stays.
        for _ in 0..5 {
            tokio::time::advance(limits::WRITE_STALL / 2).await;
            shared.pop(&reading);
            write(&reading, 10_000);
        }
        assert!(!is_closed(&reading));
        stalled.iter().for_each(|flow| shared.remove_flow(flow, CloseReason::Overflow));
        assert!(shared.queued.get() < max_queued / 2);
    }
}
