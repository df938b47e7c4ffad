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
    pub(super) queued_bytes: Cell<usize>,
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

    /// Takes the first waiting message.
    pub(super) fn pop(&self) -> Option<Queued> {
        let queued = self.queue.borrow_mut().pop_front()?;
        self.queued_bytes.set(self.queued_bytes.get() - queued.bytes.len());
        Some(queued)
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
            queued_bytes: Cell::new(0),
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
        let bytes = flow.queued_bytes.get() + queued.bytes.len();
        let too_many = !flow.open.get() && flow.queue.borrow().len() >= self.settings.flow_connect_queue;
        if too_many {
            return self.send_failed(queued.report, SendFault::Overflow);
        }
        if bytes > self.settings.flow_write_queue {
            self.send_failed(queued.report, SendFault::Overflow);
            return flow.close(CloseReason::Overflow);
        }
        flow.queued_bytes.set(bytes);
        flow.queue.borrow_mut().push_back(queued);
        flow.wake();
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
