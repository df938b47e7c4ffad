//! The sockets of a node's links to other nodes, on the thread and the `LocalSet` of the shard that owns them.
//!
//! Of two nodes the one with the greater life opens the connections, one for each [`Lane`]. [`Links::set_view`] says which nodes there
//! are; a link that breaks is opened again until the node is dead. The side that accepts asks the other's host a few times after a
//! break, so that every node learns of a host that refuses. The owner sends with [`Links::send`], once a turn writes all with
//! [`Links::flush`], and takes what came with [`Links::take`]; [`Links::poll_ready`] wakes it.
//!
//! Connections that leave the machine are TLS ([`Encryption`]); which peer proves the secret is the same on both kinds.
//!
//! A node that stands still occupies at most the queues of its classes (`Class::queue_bytes`), and one buffer a lane. An owner that
//! takes nothing makes its peers stop: above a limit messages stay in the link, whose credit then ends.

mod encryption;
mod handshake;
mod stream;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cluster::Life;
use cluster::link::{
    Class, Established, FarmSecret, Hello, Lane, Link, LinkFault, Message, SendError, SendFailure,
};
use stdx::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};

use crate::view::FarmView;

pub use encryption::Encryption;

use encryption::LinkTls;
use handshake::{in_time, in_words};
use stream::LinkStream;

/// The bytes that a socket is given at once.
const WRITE: usize = 64 * 1_024;

/// The pause before the next attempt to open a connection: short, as calls wait, and a tenth of a turn of the council.
const REDIAL: Duration = Duration::from_millis(100);

/// Connections that have not yet proved themselves. A stranger's costs a buffer of 2 KiB for three seconds.
const HANDSHAKES: usize = 64;

/// Bytes of messages that wait for the owner, of all peers together: what four peers may send of all classes. Above it, messages
/// stay in their links until the owner has taken those before.
const WAITING: usize = 32 * 1_024 * 1_024;

/// Attempts of the accepting side to learn whether a lost node's host refuses connections, each after twice the pause of the one before:
/// three seconds, by then the lease decides.
const PROBES: u32 = 5;

const LANES: [Lane; 2] = [Lane::Prompt, Lane::Acknowledged];

/// The parameters of a node's links.
#[derive(Clone)]
pub struct LinkSettings {
    /// The farm's name.
    pub farm: Box<str>,
    /// This start of the node.
    pub life: Life,
    /// The version of the program.
    pub build: Box<str>,
    /// The wire versions that the node speaks.
    pub wire: (u16, u16),
    /// The farm's secret.
    pub secret: FarmSecret,
    /// The connections that are encrypted.
    pub encryption: Encryption,
    /// The shard's clock.
    pub clock: Rc<dyn Fn() -> Instant>,
    /// 256 random bits, new ones at each call.
    pub random: Rc<dyn Fn() -> [u8; 32]>,
}

/// News of the links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A node sent a message.
    Received {
        /// The sender's life.
        from: Life,
        /// The class.
        class: Class,
        /// The message.
        message: Message,
    },
    /// A message was not delivered; its node is dead, or the connection broke and the class does not wait.
    Returned {
        /// The life that it was for.
        to: Life,
        /// The class.
        class: Class,
        /// The message.
        message: Message,
    },
    /// All connections to a node broke. `is_refused`: its host refuses new ones.
    Lost {
        /// The node.
        life: Life,
        /// No process listens there.
        is_refused: bool,
    },
    /// A connection was closed for a fault.
    Fault {
        /// The address of the other side.
        address: SocketAddr,
        /// The fault, for the log.
        reason: Box<str>,
    },
}

/// Figures of the links, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that came.
    pub received: u64,
    /// Messages that were refused or came back.
    pub returned: u64,
    /// Writes to sockets.
    pub writes: u64,
}

/// All links of a node.
pub struct Links {
    shared: Rc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    settings: LinkSettings,
    tls: LinkTls,
    peers: RefCell<BTreeMap<Life, Rc<Peer>>>,
    events: RefCell<Vec<LinkEvent>>,
    /// Bytes of the messages in `events`.
    waiting: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    handshakes: Cell<usize>,
    counters: RefCell<LinkCounters>,
}

/// One other node.
struct Peer {
    life: Life,
    address: Cell<SocketAddr>,
    lanes: [LaneSocket; 2],
    /// The tasks that open its connections.
    dialing: RefCell<Vec<JoinHandle<()>>>,
    is_dead: Cell<bool>,
}

/// One of the two connections of a pair, and the link that outlives it.
struct LaneSocket {
    lane: Lane,
    link: RefCell<Link>,
    stream: RefCell<Option<Rc<LinkStream>>>,
    /// Bytes that the socket did not take.
    unwritten: RefCell<Vec<u8>>,
    /// The socket is full; the task of the connection waits for it and writes.
    is_blocked: Cell<bool>,
    /// Messages stay in the link until the owner has taken others.
    is_held: Cell<bool>,
    /// Wakes the task of the connection: the socket is full, the owner has room, or the connection is to end.
    notify: Notify,
}

impl Links {
    /// The links of a node, without any other node yet. Inside the shard's `LocalSet`.
    pub fn new(settings: LinkSettings) -> Links {
        let shared = Shared {
            tls: LinkTls::new(&settings.secret),
            settings,
            peers: RefCell::default(),
            events: RefCell::default(),
            waiting: Cell::new(0),
            waker: RefCell::default(),
            handshakes: Cell::new(0),
            counters: RefCell::default(),
        };
        Links { shared: Rc::new(shared), accepting: None }
    }

    /// Accepts connections at this listener.
    ///
    /// # Errors
    /// When the listener cannot be used by the runtime.
    pub fn listen(&mut self, listener: std::net::TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        self.accepting = Some(spawn_local(accept(Rc::clone(&self.shared), listener)));
        Ok(())
    }

    /// Opens links to nodes that are new in the view and ends those to nodes that are gone from it.
    pub fn set_view(&mut self, view: &FarmView) {
        let own = self.shared.settings.life;
        let gone: Vec<Rc<Peer>> = {
            let mut peers = self.shared.peers.borrow_mut();
            let gone: Vec<Life> =
                peers.keys().copied().filter(|life| !view.peers.contains_key(life)).collect();
            gone.iter().filter_map(|life| peers.remove(life)).collect()
        };
        gone.iter().for_each(|peer| self.shared.end(peer));
        for (life, member) in view.peers.iter().filter(|(life, _)| **life != own) {
            let peer = self.shared.peer(*life, member.address);
            peer.address.set(member.address);
            if own > *life && peer.dialing.borrow().is_empty() {
                let dial = |lane| spawn_local(dial(Rc::clone(&self.shared), Rc::clone(&peer), lane));
                *peer.dialing.borrow_mut() = (0..LANES.len()).map(dial).collect();
            }
        }
    }

    /// Queues a message; [`Links::flush`] sends it.
    ///
    /// # Errors
    /// [`SendError`] with the message and the reason.
    pub fn send(&self, now: Instant, to: Life, class: Class, message: Message) -> Result<(), SendError> {
        let peer = self.shared.peers.borrow().get(&to).cloned();
        let sent = match peer {
            Some(peer) => peer.lane(class.lane()).link.borrow_mut().send(now, class, message),
            None => Err(SendError { reason: SendFailure::Dead, message }),
        };
        let mut counters = self.shared.counters.borrow_mut();
        if sent.is_ok() {
            counters.sent += 1;
        } else {
            counters.returned += 1;
        }
        sent
    }

    /// Hands queued messages to the kernel.
    pub fn flush(&self, now: Instant) {
        for lane in self.shared.peers.borrow().values().flat_map(|peer| &peer.lanes) {
            // The task writes as soon as the socket takes more, and ends a connection that has failed.
            if !lane.is_blocked.get() && !matches!(self.shared.write(now, lane), Ok(true)) {
                lane.is_blocked.set(true);
                lane.notify.notify_one();
            }
        }
    }

    /// This node leaves: it acknowledges at once what it has taken, and what it takes until the end.
    pub fn leave(&self) {
        let peers = self.shared.peers.borrow();
        peers.values().flat_map(|peer| &peer.lanes).for_each(|lane| lane.link.borrow_mut().leave());
    }

    /// Moves out what happened since the last call.
    pub fn take(&self, into: &mut Vec<LinkEvent>) {
        into.append(&mut self.shared.events.borrow_mut());
        if self.shared.waiting.replace(0) >= WAITING {
            self.shared.peers.borrow().values().flat_map(|peer| &peer.lanes).for_each(LaneSocket::release);
        }
    }

    /// Ready when there are events; else the task is woken by the next.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.shared.events.borrow().is_empty() {
            return Poll::Ready(());
        }
        *self.shared.waker.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    /// The lives to which messages go at once.
    pub fn connected(&self) -> Vec<Life> {
        let peers = self.shared.peers.borrow();
        let is_connected = |peer: &&Rc<Peer>| peer.lane(Lane::Prompt).link.borrow().is_connected();
        peers.values().filter(is_connected).map(|peer| peer.life).collect()
    }

    /// The figures since the start.
    pub fn counters(&self) -> LinkCounters {
        *self.shared.counters.borrow()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
        let peers = std::mem::take(&mut *self.shared.peers.borrow_mut());
        peers.values().for_each(|peer| self.shared.end(peer));
    }
}

impl Peer {
    /// True if it is not dead and no connection leads there.
    fn is_lost(&self) -> bool {
        !self.is_dead.get() && self.lanes.iter().all(|lane| lane.stream.borrow().is_none())
    }

    fn lane(&self, lane: Lane) -> &LaneSocket {
        &self.lanes[usize::from(lane == Lane::Acknowledged)]
    }
}

impl LaneSocket {
    /// The owner has room again for the messages that the link holds.
    fn release(&self) {
        if self.is_held.replace(false) {
            self.notify.notify_one();
        }
    }

    /// True while this stream carries the lane.
    fn is_carried_by(&self, stream: &Rc<LinkStream>) -> bool {
        self.stream.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, stream))
    }
}

impl Shared {
    /// The node of this life, made when it is new.
    fn peer(&self, life: Life, address: SocketAddr) -> Rc<Peer> {
        let lane = |lane| LaneSocket {
            lane,
            link: RefCell::new(Link::with_incarnation(lane, self.incarnation())),
            stream: RefCell::default(),
            unwritten: RefCell::default(),
            is_blocked: Cell::new(false),
            is_held: Cell::new(false),
            notify: Notify::new(),
        };
        let peer = || Peer {
            life,
            address: Cell::new(address),
            lanes: LANES.map(lane),
            dialing: RefCell::default(),
            is_dead: Cell::new(false),
        };
        Rc::clone(self.peers.borrow_mut().entry(life).or_insert_with(|| Rc::new(peer())))
    }

    /// A random number, for a link that is made. Only one in 2^64 is the number of none.
    fn incarnation(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = (self.settings.random)();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    fn tell(&self, event: LinkEvent) {
        self.events.borrow_mut().push(event);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The node is dead or gone: all that it did not take comes back.
    fn end(&self, peer: &Peer) {
        peer.is_dead.set(true);
        peer.dialing.borrow().iter().for_each(JoinHandle::abort);
        let mut returned = Vec::new();
        for lane in &peer.lanes {
            self.read_rest(peer, lane);
            lane.link.borrow_mut().handle_dead(&mut returned);
            lane.stream.borrow_mut().take();
            lane.notify.notify_one();
        }
        self.give_back(peer.life, returned);
    }

    fn give_back(&self, to: Life, returned: Vec<(Class, Message)>) {
        self.counters.borrow_mut().returned += returned.len() as u64;
        for (class, message) in returned {
            self.tell(LinkEvent::Returned { to, class, message });
        }
    }

    fn hello(&self, lane: Lane, peer: Option<Life>) -> Hello {
        let LinkSettings { farm, life, build, wire, random, .. } = &self.settings;
        let (farm, build) = (farm.clone(), build.clone());
        Hello { farm, life: *life, build, wire: *wire, lane, nonce: random(), peer }
    }

    /// Writes what the link has, as far as the socket takes it. False: the socket is full, and some is left.
    fn write(&self, now: Instant, lane: &LaneSocket) -> io::Result<bool> {
        let Some(stream) = lane.stream.borrow().clone() else { return Ok(true) };
        let mut unwritten = lane.unwritten.borrow_mut();
        loop {
            if unwritten.is_empty() {
                lane.link.borrow_mut().poll_output(now, WRITE, &mut unwritten);
            }
            if unwritten.is_empty() {
                return stream.flush();
            }
            self.counters.borrow_mut().writes += 1;
            match stream.try_write(&unwritten) {
                Ok(count) => drop(unwritten.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves messages out of the link, as long as the owner has room for them; those first that come back because the other side has begun anew.
    fn read(&self, peer: &Peer, lane: &LaneSocket) {
        let mut returned = Vec::new();
        lane.link.borrow_mut().take_returned(&mut returned);
        self.give_back(peer.life, returned);
        for class in lane.lane.classes() {
            loop {
                if self.waiting.get() >= WAITING {
                    return lane.is_held.set(true);
                }
                let message = lane.link.borrow_mut().poll_message(*class);
                let Some(message) = message else { break };
                self.counters.borrow_mut().received += 1;
                self.waiting.set(self.waiting.get() + message.wire_bytes());
                self.tell(LinkEvent::Received { from: peer.life, class: *class, message });
            }
        }
    }

    /// Reads what has come by a connection that ends: a node that leaves has sent it before, and nothing of it comes again.
    fn read_rest(&self, peer: &Peer, lane: &LaneSocket) {
        self.read(peer, lane);
        let Some(stream) = lane.stream.borrow().clone() else { return };
        let mut buffer = vec![0; WRITE];
        while let Ok(count @ 1..) = stream.try_read(&mut buffer) {
            let handled = lane.link.borrow_mut().handle_bytes((self.settings.clock)(), &buffer[..count]);
            self.read(peer, lane);
            if handled.is_err() {
                return;
            }
        }
    }
}

async fn accept(shared: Rc<Shared>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) if shared.handshakes.get() < HANDSHAKES => {
                spawn_local(greet(Rc::clone(&shared), stream, address));
            }
            // More strangers than there may be: this one has to come again.
            Ok(_) => {}
            // No file is free; the next attempt a moment later.
            Err(_) => tokio::time::sleep(REDIAL).await,
        }
    }
}

/// The accepting side of one connection, to its end.
async fn greet(shared: Rc<Shared>, socket: TcpStream, address: SocketAddr) {
    shared.handshakes.set(shared.handshakes.get() + 1);
    let established = in_time(shared.welcome(socket, address)).await;
    shared.handshakes.set(shared.handshakes.get() - 1);
    match established {
        Ok((stream, established)) => {
            let peer = shared.peer(established.peer.life, address);
            serve(&shared, &peer, stream, established).await;
            // Before a view names the node, the address is that of one connection.
            if peer.is_lost() && peer.address.get() != address {
                probe_host(&shared, &peer).await;
            }
        }
        Err(reason) => shared.tell(LinkEvent::Fault { address, reason }),
    }
}

/// Tells when the host of a node refuses connections whose own ones broke: the process has ended.
async fn probe_host(shared: &Shared, peer: &Peer) {
    for attempt in 0..PROBES {
        if attempt > 0 {
            tokio::time::sleep(REDIAL * 2_u32.pow(attempt)).await;
        }
        if !peer.is_lost() {
            return;
        }
        let probe = TcpStream::connect(peer.address.get());
        // A host that does not answer may be cut off: that is no evidence.
        if let Ok(Err(error)) = tokio::time::timeout(cluster::limits::HANDSHAKE, probe).await
            && error.kind() == io::ErrorKind::ConnectionRefused
            && peer.is_lost()
        {
            return shared.tell(LinkEvent::Lost { life: peer.life, is_refused: true });
        }
    }
}

/// Opens the connection of a lane again and again, until the node is dead.
async fn dial(shared: Rc<Shared>, peer: Rc<Peer>, lane: usize) {
    let lane = peer.lanes[lane].lane;
    let mut last = None;
    while !peer.is_dead.get() {
        let address = peer.address.get();
        // Without a deadline a host that is cut off would be asked for minutes, and ever more seldom.
        let connected = tokio::time::timeout(cluster::limits::HANDSHAKE, TcpStream::connect(address)).await;
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(socket) => {
                let own = shared.hello(lane, Some(peer.life));
                match in_time(shared.introduce(socket, address, own)).await {
                    Ok((stream, established)) => {
                        last = None;
                        serve(&shared, &peer, stream, established).await;
                    }
                    // The same fault again is not news.
                    Err(reason) if last.as_ref() == Some(&reason) => {}
                    Err(reason) => {
                        last = Some(reason.clone());
                        shared.tell(LinkEvent::Fault { address, reason });
                    }
                }
            }
            Err(error) => {
                let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
                shared.tell(LinkEvent::Lost { life: peer.life, is_refused });
            }
        }
        tokio::time::sleep(REDIAL).await;
    }
}

/// Carries a link on a connection until that ends.
async fn serve(shared: &Shared, peer: &Peer, stream: LinkStream, established: Established) {
    let lane = peer.lane(established.peer.lane);
    let (stream, clock) = (Rc::new(stream), &shared.settings.clock);
    let mut returned = Vec::new();
    // A connection before this one is over, even if nothing has shown it yet.
    if lane.stream.borrow_mut().replace(Rc::clone(&stream)).is_some() {
        lane.link.borrow_mut().handle_disconnected(&mut returned);
        lane.notify.notify_one();
    }
    lane.unwritten.borrow_mut().clear();
    lane.is_blocked.set(false);
    shared.give_back(peer.life, std::mem::take(&mut returned));
    lane.link.borrow_mut().handle_connected(clock());
    let first = lane.link.borrow_mut().handle_bytes(clock(), &established.rest);
    let ended = match first {
        Ok(()) => carry(shared, peer, lane, &stream).await,
        Err(fault) => Some(fault.to_string().into()),
    };
    let is_current = lane.is_carried_by(&stream);
    if let (Some(reason), Ok(address)) = (ended, stream.peer_addr()) {
        shared.tell(LinkEvent::Fault { address, reason });
    }
    if is_current {
        // A write may have failed before all was read.
        shared.read_rest(peer, lane);
        lane.stream.borrow_mut().take();
        lane.link.borrow_mut().handle_disconnected(&mut returned);
        shared.give_back(peer.life, returned);
        if peer.is_lost() {
            shared.tell(LinkEvent::Lost { life: peer.life, is_refused: false });
        }
    }
}

/// Reads and writes until the connection ends; the fault of the other side in words, if there was one.
async fn carry(shared: &Shared, peer: &Peer, lane: &LaneSocket, stream: &Rc<LinkStream>) -> Option<Box<str>> {
    let clock = &shared.settings.clock;
    let text = |fault: LinkFault| Some(fault.to_string().into());
    let mut buffer = vec![0; 64 * 1_024];
    loop {
        shared.read(peer, lane);
        if !lane.is_carried_by(stream) {
            return None;
        }
        let is_blocked = !shared.write(clock(), lane).ok()?;
        lane.is_blocked.set(is_blocked);
        let wait = lane.link.borrow().deadline()?.since(clock());
        tokio::select! {
            readable = stream.readable() => {
                readable.ok()?;
                match stream.try_read(&mut buffer) {
                    Ok(0) => return None,
                    Ok(count) => {
                        let handled = lane.link.borrow_mut().handle_bytes(clock(), &buffer[..count]);
                        if let Err(fault) = handled {
                            return text(fault);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => return Some(in_words(error)),
                    Err(_) => return None,
                }
            }
            writable = stream.writable(), if is_blocked => writable.ok()?,
            () = lane.notify.notified() => {}
            () = tokio::time::sleep(wait) => {
                let expired = lane.link.borrow_mut().expire(clock());
                if let Err(fault) = expired {
                    return text(fault);
                }
            }
        }
    }
}
