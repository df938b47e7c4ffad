//! One connection, as those see it who write to it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::task::Waker;

use sip::transport::Transport;
use xmpp::Jid;
use xmpp::c2s::{C2s, Framing, Outbox};

use super::pace::Buckets;

/// Idle, it holds no buffer.
pub(crate) struct Stream {
    pub(crate) number: u64,
    pub(crate) remote: IpAddr,
    /// TLS from STARTTLS on.
    pub(crate) transport: Cell<Transport>,
    pub(super) c2s: RefCell<C2s>,
    /// Bytes to be written; each entry a message of its own where messages are.
    queue: RefCell<VecDeque<Box<[u8]>>>,
    queued: Cell<usize>,
    /// Once all is written the connection is closed.
    pub(super) closing: Cell<bool>,
    /// Its last words were not read in time.
    pub(super) given_up: Cell<bool>,
    /// Once all is written TLS begins.
    pub(super) securing: Cell<bool>,
    /// `Shared::tick` when something came last.
    pub(super) heard: Cell<u32>,
    /// It was asked for a sign of life.
    pub(super) probed: Cell<bool>,
    /// Its host, once it has asked for a session.
    pub(crate) host: Cell<Option<u16>>,
    /// Stream management is on: stanzas are counted, and our own must not be among them.
    pub(crate) is_managed: Cell<bool>,
    /// Its host waits for it to drain.
    pub(super) flushing: Cell<bool>,
    /// Some of what waits was written since that was looked at.
    pub(super) wrote: Cell<bool>,
    pub(super) waker: RefCell<Option<Waker>>,
    pub(super) buckets: Buckets,
    /// It has sent too much, and is not read from.
    pub(super) paused: Cell<bool>,
}

impl Stream {
    pub(super) fn new(number: u64, (remote, transport): (IpAddr, Transport), c2s: C2s, tick: u32) -> Self {
        Stream {
            number,
            remote,
            transport: Cell::new(transport),
            c2s: RefCell::new(c2s),
            queue: RefCell::default(),
            queued: Cell::new(0),
            closing: Cell::new(false),
            given_up: Cell::new(false),
            securing: Cell::new(false),
            heard: Cell::new(tick),
            probed: Cell::new(false),
            host: Cell::new(None),
            is_managed: Cell::new(false),
            flushing: Cell::new(false),
            wrote: Cell::new(false),
            waker: RefCell::default(),
            buckets: Buckets::default(),
            paused: Cell::new(false),
        }
    }

    /// Who is bound there.
    pub(crate) fn jid(&self) -> Option<Jid> {
        let c2s = self.c2s.borrow();
        c2s.jid().filter(|_| c2s.is_bound()).cloned()
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.get()
    }

    /// Puts what a stream wrote behind what waits.
    pub(super) fn put(&self, framing: Framing, out: &Outbox) {
        let mut queue = self.queue.borrow_mut();
        match framing {
            Framing::Stream if !out.bytes.is_empty() => queue.push_back(out.bytes[..].into()),
            Framing::Stream => {}
            Framing::Messages | Framing::Bodies => {
                let mut start = 0;
                for &end in &out.ends {
                    queue.push_back(out.bytes[start..end].into());
                    start = end;
                }
            }
        }
        self.queued.set(self.queued.get() + out.bytes.len());
    }

    /// Of what waits only the first part stays, which may be written in half.
    pub(super) fn forget_queue(&self) {
        let mut queue = self.queue.borrow_mut();
        queue.truncate(1);
        self.queued.set(queue.front().map_or(0, |first| first.len()));
    }

    pub(super) fn has_queued(&self) -> bool {
        !self.queue.borrow().is_empty()
    }

    /// The first part, as long as it is looked at.
    pub(super) fn with_first<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.queue.borrow().front().map(|first| look(first))
    }

    pub(super) fn pop(&self) -> Option<Box<[u8]>> {
        let mut queue = self.queue.borrow_mut();
        let first = queue.pop_front()?;
        self.wrote.set(true);
        self.queued.set(self.queued.get() - first.len());
        if queue.is_empty() {
            // An idle connection keeps no queue.
            queue.shrink_to_fit();
        }
        Some(first)
    }
}
