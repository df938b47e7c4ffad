//! One connection, as its writers see it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::task::{Context, Poll, Waker};

use cluster::Bucket;
use net::admission::{Admitted, Handle};
use sip::transport::Transport;
use xmpp::Jid;
use xmpp::c2s::{C2s, Framing, Outbox};

use super::pace::Buckets;
use crate::kinds::name_of;

/// The bucket of a stream's account once it is known, in two bytes: a stream has to fit the allocator's class of 384
/// bytes. The bucket's owner has the host of the account.
pub struct AccountBucket(Cell<u16>);

impl AccountBucket {
    /// The number of no bucket.
    const UNKNOWN: u16 = u16::MAX;

    /// The bucket, if it is known.
    pub fn get(&self) -> Option<Bucket> {
        Bucket::with_number(self.0.get())
    }

    /// Returns the bucket that was known before.
    pub fn replace(&self, bucket: Bucket) -> Option<Bucket> {
        let before = self.get();
        self.0.set(bucket.number());
        before
    }
}

impl Default for AccountBucket {
    fn default() -> AccountBucket {
        AccountBucket(Cell::new(AccountBucket::UNKNOWN))
    }
}

/// A stream and the bytes that wait to be written to it. Its task, the shard and the sweeps share it; `wake` resumes the task. Idle, it holds no
/// buffer.
pub struct Stream {
    /// Its number, unique in the shard.
    pub number: u64,
    /// The client's address.
    pub remote: IpAddr,
    /// TLS from STARTTLS on.
    pub transport: Cell<Transport>,
    pub(super) c2s: RefCell<C2s>,
    /// Bytes to be written; each entry a message of its own where messages are.
    queue: RefCell<VecDeque<Box<[u8]>>>,
    /// Bytes of `queue`.
    queued: Cell<u32>,
    /// Once all is written the connection is closed.
    pub(super) closing: Cell<bool>,
    /// Its last words were not read in time.
    pub(super) given_up: Cell<bool>,
    /// Once all is written TLS begins.
    pub(super) securing: Cell<bool>,
    /// `Ticks::now` when something came last.
    pub(super) heard: Cell<u32>,
    /// `Ticks::now` when the stanza began that has not come whole; 0: there is none.
    pub(super) stanza_since: Cell<u32>,
    /// It was asked for a sign of life.
    pub(super) probed: Cell<bool>,
    /// Its host, once it has asked for a session.
    pub bucket: AccountBucket,
    /// Stream management is on: stanzas are counted, and our own must not be among them.
    pub is_managed: Cell<bool>,
    /// Its host waits for it to drain.
    pub(super) flushing: Cell<bool>,
    /// Some of what waits was written since that was looked at.
    pub(super) wrote: Cell<bool>,
    waker: Cell<Option<Waker>>,
    pub(super) buckets: Buckets,
    /// Its place among the connections.
    admitted: Option<Admitted>,
    /// It has sent too much, and is not read from.
    pub(super) paused: Cell<bool>,
}

impl Stream {
    /// Its address and transport, for limits and logs.
    pub fn peer(&self) -> (IpAddr, &'static str) {
        (self.remote, name_of(self.transport.get()))
    }

    /// The name that the client has signed in by; until it is bound.
    pub fn claimed(&self) -> Option<Box<str>> {
        self.c2s.borrow().claimed().map(Box::from)
    }

    pub(super) fn new(
        number: u64,
        (remote, transport): (IpAddr, Transport),
        c2s: C2s,
        tick: u32,
        admitted: Option<Admitted>,
    ) -> Self {
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
            stanza_since: Cell::new(0),
            probed: Cell::new(false),
            bucket: AccountBucket::default(),
            is_managed: Cell::new(false),
            flushing: Cell::new(false),
            wrote: Cell::new(false),
            waker: Cell::default(),
            buckets: Buckets::default(),
            admitted,
            paused: Cell::new(false),
        }
    }

    /// The full address bound to the stream.
    pub fn jid(&self) -> Option<Jid> {
        let c2s = self.c2s.borrow();
        c2s.jid().filter(|_| c2s.is_bound()).cloned()
    }

    /// It has signed in, and makes room for no other connection any more.
    pub fn establish(&self) {
        if let Some(admitted) = &self.admitted {
            admitted.establish();
        }
    }

    /// The server has answered it.
    pub(super) fn step(&self) {
        if let Some(admitted) = self.admitted().filter(|admitted| admitted.is_in_progress()) {
            admitted.step();
        }
    }

    pub(super) fn admitted(&self) -> Option<&Handle> {
        self.admitted.as_deref()
    }

    pub(super) fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        self.admitted.as_ref().map_or(Poll::Pending, |admitted| admitted.poll_evicted(cx))
    }

    /// The task that is woken from now on.
    pub(super) fn remember(&self, cx: &Context<'_>) {
        let waker = match self.waker.take() {
            Some(old) if old.will_wake(cx.waker()) => old,
            _ => cx.waker().clone(),
        };
        self.waker.set(Some(waker));
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake_by_ref();
            self.waker.set(Some(waker));
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued.get() as usize
    }

    /// Never more than `limits::XMPP_WRITE_QUEUE` and one turn's bytes, which is far less than 32 bits hold.
    fn set_queued(&self, bytes: usize) {
        self.queued.set(u32::try_from(bytes).unwrap_or(u32::MAX));
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
        self.set_queued(self.queued() + out.bytes.len());
    }

    /// Drops queued bytes except the first part, which may be half written.
    pub(super) fn forget_queue(&self) {
        let mut queue = self.queue.borrow_mut();
        queue.truncate(1);
        self.set_queued(queue.front().map_or(0, |first| first.len()));
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
        self.set_queued(self.queued().saturating_sub(first.len()));
        if queue.is_empty() {
            // An idle connection keeps no queue.
            queue.shrink_to_fit();
        }
        Some(first)
    }
}
