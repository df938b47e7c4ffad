//! One connection, as its writers see it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use cluster::Bucket;
use net::admission::{Admission, Admitted, Handle};
use sip::transport::Transport;
use stdx::Instant;
use xmpp::Jid;
use xmpp::c2s::{C2s, Framing, Outbox};

use super::pace::Buckets;
use crate::kinds::name_of;

/// The bucket of a stream's account once it is known, in two bytes: a stream has to fit the allocator's class of 320
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
    /// Bytes to be written; each entry a message of its own where messages are. Taken out for as long as it is used.
    queue: Cell<WriteQueue>,
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
    /// The time at which its client named the account that it signs in to: milliseconds, of which 49 days fit and which wrap. 0 before that,
    /// and once it has its session. A whole instant would take the stream to the allocator's next size.
    sign_in_since: Cell<u32>,
    /// Stream management is on: stanzas are counted, and our own must not be among them.
    pub is_managed: Cell<bool>,
    /// Its host waits for it to drain.
    pub(super) flushing: Cell<bool>,
    /// Some of what waits was written since that was looked at.
    pub(super) wrote: Cell<bool>,
    waker: Cell<Option<Waker>>,
    pub(super) buckets: Buckets,
    /// Its place among the connections in progress, until it has signed in.
    admitted: Cell<Option<Admitted>>,
    /// It has signed in, and its source counts it as an open connection.
    is_counted: Cell<bool>,
    /// It has sent too much, and is not read from.
    pub(super) paused: Cell<bool>,
}

#[expect(clippy::cast_possible_truncation, reason = "differences of the low bits are asked for")]
fn milliseconds(now: Instant) -> u32 {
    now.since(Instant::default()).as_millis() as u32
}

impl Stream {
    /// Its client names the account that it signs in to.
    pub fn begin_sign_in(&self, now: Instant) {
        // An odd number is never 0.
        self.sign_in_since.set(milliseconds(now) | 1);
    }

    /// Its client has its session: the time since it named the account, the first time that this is asked.
    pub fn end_sign_in(&self, now: Instant) -> Option<Duration> {
        let since = self.sign_in_since.take();
        let passed = (milliseconds(now) | 1).wrapping_sub(since);
        (since != 0).then(|| Duration::from_millis(passed.into()))
    }

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
            queue: Cell::default(),
            queued: Cell::new(0),
            closing: Cell::new(false),
            given_up: Cell::new(false),
            securing: Cell::new(false),
            heard: Cell::new(tick),
            stanza_since: Cell::new(0),
            probed: Cell::new(false),
            bucket: AccountBucket::default(),
            sign_in_since: Cell::new(0),
            is_managed: Cell::new(false),
            flushing: Cell::new(false),
            wrote: Cell::new(false),
            waker: Cell::default(),
            buckets: Buckets::default(),
            admitted: Cell::new(admitted),
            is_counted: Cell::new(false),
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
        match self.admitted.take().map(Admitted::into_open) {
            Some(Ok(is_counted)) => self.is_counted.set(is_counted),
            Some(Err(evicted)) => self.admitted.set(Some(evicted)),
            None => {}
        }
    }

    /// The connection has ended.
    pub(super) fn leave(&self, admission: &Admission) {
        drop(self.admitted.take());
        if self.is_counted.take() {
            admission.leave_open(self.remote.into());
        }
    }

    /// The server has answered it.
    pub(super) fn step(&self) {
        if let Some(handle) = self.handle() {
            handle.step();
        }
    }

    /// Its place, while it is in progress.
    pub(super) fn handle(&self) -> Option<Handle> {
        let admitted = self.admitted.take()?;
        let handle = Handle::clone(&admitted);
        self.admitted.set(Some(admitted));
        Some(handle)
    }

    pub(super) fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        self.handle().map_or(Poll::Pending, |handle| handle.poll_evicted(cx))
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
        self.with_queue(|queue| match framing {
            Framing::Stream if !out.bytes.is_empty() => queue.push(out.bytes[..].into()),
            Framing::Stream => {}
            Framing::Messages | Framing::Bodies => {
                let mut start = 0;
                for &end in &out.ends {
                    queue.push(out.bytes[start..end].into());
                    start = end;
                }
            }
        });
        self.set_queued(self.queued() + out.bytes.len());
    }

    fn with_queue<T>(&self, work: impl FnOnce(&mut WriteQueue) -> T) -> T {
        let mut queue = self.queue.take();
        let done = work(&mut queue);
        self.queue.set(queue);
        done
    }

    /// Drops queued bytes except the first part, which may be half written.
    pub(super) fn forget_queue(&self) {
        let left = self.with_queue(|queue| {
            queue.rest = None;
            queue.first.as_ref().map_or(0, |first| first.len())
        });
        self.set_queued(left);
    }

    pub(super) fn has_queued(&self) -> bool {
        self.with_queue(|queue| queue.first.is_some())
    }

    /// The first part, as long as it is looked at.
    pub(super) fn with_first<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.with_queue(|queue| queue.first.as_deref().map(look))
    }

    pub(super) fn pop(&self) -> Option<Box<[u8]>> {
        let first = self.with_queue(WriteQueue::pop)?;
        self.wrote.set(true);
        self.set_queued(self.queued().saturating_sub(first.len()));
        Some(first)
    }
}

/// Parts in the order in which they are written. Mostly there is none, or one; empty, it holds no memory.
#[derive(Default)]
struct WriteQueue {
    first: Option<Box<[u8]>>,
    /// The parts behind the first; never empty.
    rest: Option<Box<LaterParts>>,
}

#[derive(Default)]
struct LaterParts(VecDeque<Box<[u8]>>);

impl WriteQueue {
    fn push(&mut self, part: Box<[u8]>) {
        match &mut self.first {
            Some(_) => self.rest.get_or_insert_default().0.push_back(part),
            first => *first = Some(part),
        }
    }

    fn pop(&mut self) -> Option<Box<[u8]>> {
        let next = self.rest.as_mut().and_then(|rest| rest.0.pop_front());
        if self.rest.as_ref().is_some_and(|rest| rest.0.is_empty()) {
            self.rest = None;
        }
        std::mem::replace(&mut self.first, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_leave_in_their_order_and_an_empty_queue_holds_no_memory() {
        let mut queue = WriteQueue::default();
        for part in [1, 2, 3] {
            queue.push([part].into());
        }
        assert_eq!(queue.pop().as_deref(), Some(&[1][..]));
        queue.push([4].into());
        for part in [2, 3, 4] {
            assert_eq!(queue.pop().as_deref(), Some(&[part][..]));
        }
        assert!(queue.pop().is_none() && queue.first.is_none() && queue.rest.is_none());
    }
}
