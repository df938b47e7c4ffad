//! Caps on connections in progress and on open connections per source, for all shards of the process.
//!
//! A connection is in progress from its acceptance until it has shown that it is of use: a first complete SIP message,
//! an authenticated XMPP stream, a request of HTTP at work. Silent connections are free for an attacker, so at a cap the
//! one that has been idle longest makes room (of the same source at that source's cap, of all sources at the total),
//! and a new one is refused only when none is idle. Each listener enters its connections here when it accepts them.
//!
//! The table has one lock for a service. It is taken when a connection comes, is established and goes, never for a
//! message; steps in between are atomic stores.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use stdx::source::SourcePrefix;
use tokio::time::Instant;

use crate::limits;
use crate::reserve_file::ReserveFile;

#[cfg(test)]
mod tests;

/// Connections in progress of one service.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections of all sources.
    pub total: usize,
    /// Connections of one source.
    pub per_source: usize,
}

impl Bounds {
    /// For a process that may have so many files open.
    pub fn of_open_files(files: usize) -> Bounds {
        let total = (files / limits::IN_PROGRESS_FILES).clamp(limits::IN_PROGRESS_LEAST, limits::IN_PROGRESS);
        Bounds { total, per_source: total / 2 }
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::of_open_files(open_files().unwrap_or(1_024))
    }
}

/// The soft limit on open files of this process; `None` where the system does not say.
pub(super) fn open_files() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The connections of one service, shared by its shards.
#[derive(Debug)]
pub struct Admission {
    bounds: Bounds,
    began: Instant,
    table: Mutex<Table>,
    evicted: AtomicU64,
    refused: AtomicU64,
    /// Listeners that are closed now for want of room, and all that were since the start.
    closed_listeners: AtomicU64,
    closures: AtomicU64,
    pub(crate) reserve: ReserveFile,
}

/// A listener of the service that is closed for want of room, until this is dropped.
#[derive(Debug)]
pub(crate) struct ClosedListener(Arc<Admission>);

impl Drop for ClosedListener {
    fn drop(&mut self) {
        self.0.closed_listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Table {
    sources: HashMap<SourcePrefix, Source>,
    /// In progress, of all sources.
    waiting: Waiting,
}

#[derive(Debug, Default)]
struct Source {
    open: usize,
    waiting: Waiting,
}

/// Connections in progress, the longest idle ones in front but for those that moved since.
#[derive(Debug, Default)]
struct Waiting {
    count: usize,
    /// Entries that have left stay until they come to the front or are half of the queue.
    queue: VecDeque<Arc<Entry>>,
}

#[derive(Debug)]
struct Entry {
    admission: Arc<Admission>,
    /// `None`: a trusted proxy, whose connections are those of many clients.
    source: Option<SourcePrefix>,
    /// Milliseconds since the table began, of the last step.
    stepped: AtomicU32,
    /// The server works for it: a handshake computes, a request is at work.
    is_busy: AtomicBool,
    has_left: AtomicBool,
    is_evicted: AtomicBool,
    /// The connection is open without this entry (`Admitted::into_open`).
    is_released: AtomicBool,
    waker: AtomicWaker,
}

/// The place of one connection, held for its whole life.
#[derive(Debug)]
pub struct Admitted(Handle);

/// The same for those that only tell what the connection does.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Entry>);

/// One table for each kind of listener: an attack on one takes no places of the others.
#[derive(Clone, Debug)]
pub struct Admissions {
    /// Connections of SIP: TCP, TLS and WebSocket.
    pub sip: Arc<Admission>,
    /// Streams and HTTP connections of chat clients.
    pub clients: Arc<Admission>,
    /// Streams of other XMPP servers.
    pub servers: Arc<Admission>,
    /// Streams of components.
    pub components: Arc<Admission>,
    /// Connections of the proxy of bytestreams whose transfer is not active.
    pub bytestreams: Arc<Admission>,
    /// HTTP connections to metrics and to the REST interface.
    pub http: Arc<Admission>,
}

impl Admissions {
    /// Empty tables, with the bounds that the open files of this process allow.
    #[expect(
        clippy::new_without_default,
        reason = "reading the limit on open files is an act, not a default"
    )]
    pub fn new() -> Admissions {
        let bounds = Bounds::default();
        let few = Bounds { total: bounds.total.min(limits::IN_PROGRESS_FEW), ..bounds };
        let few = Bounds { per_source: few.total / 2, ..few };
        Admissions {
            sip: Admission::new(bounds),
            clients: Admission::new(bounds),
            servers: Admission::new(bounds),
            components: Admission::new(few),
            bytestreams: Admission::new(Bounds {
                per_source: few.per_source.min(limits::IN_PROGRESS_BYTESTREAMS),
                ..few
            }),
            http: Admission::new(few),
        }
    }

    /// With the name that the metrics have for it.
    pub fn all(&self) -> [(&'static str, &Admission); 6] {
        [
            ("sip", &self.sip),
            ("xmpp", &self.clients),
            ("xmpp_servers", &self.servers),
            ("xmpp_components", &self.components),
            ("xmpp_bytestreams", &self.bytestreams),
            ("http", &self.http),
        ]
    }
}

impl Waiting {
    fn push(&mut self, entry: Arc<Entry>) {
        if self.queue.len() > 2 * self.count + limits::IN_PROGRESS_LEFT {
            self.queue.retain(|entry| !entry.has_left.load(Ordering::Relaxed));
        }
        self.count += 1;
        self.queue.push_back(entry);
    }

    fn left(&mut self) {
        self.count -= 1;
        if self.count == 0 {
            self.queue = VecDeque::new();
        }
    }

    /// Takes out the first entry that has made no step for `grace` milliseconds. Entries that have get a second chance at
    /// the end of the queue.
    fn take_idle(&mut self, now: u32, grace: u32) -> Option<Arc<Entry>> {
        let mut looked = 0;
        while looked < limits::IN_PROGRESS_LOOKS {
            let entry = self.queue.pop_front()?;
            if entry.has_left.load(Ordering::Relaxed) {
                continue;
            }
            let idle = now.saturating_sub(entry.stepped.load(Ordering::Relaxed));
            if !entry.is_busy.load(Ordering::Relaxed) && idle >= grace {
                return Some(entry);
            }
            self.queue.push_back(entry);
            looked += 1;
        }
        None
    }
}

impl Table {
    fn leave_progress(&mut self, entry: &Entry) {
        if entry.has_left.swap(true, Ordering::Relaxed) {
            return;
        }
        self.waiting.left();
        if let Some(source) = entry.source.and_then(|source| self.sources.get_mut(&source)) {
            source.waiting.left();
        }
    }

    fn leave(&mut self, entry: &Entry) {
        self.leave_progress(entry);
        if let Some(prefix) = entry.source {
            self.leave_source(prefix);
        }
    }

    fn leave_source(&mut self, prefix: SourcePrefix) {
        if let Some(source) = self.sources.get_mut(&prefix) {
            source.open -= 1;
            if source.open == 0 {
                self.sources.remove(&prefix);
            }
        }
    }

    /// Makes room for one more connection in progress; `Err`: no other one is idle. The evicted entry is to be woken.
    fn make_room(
        &mut self,
        prefix: Option<SourcePrefix>,
        (bounds, most): (Bounds, usize),
        now: u32,
    ) -> Result<Option<Arc<Entry>>, ()> {
        let grace = grace();
        let source = prefix.and_then(|prefix| self.sources.get_mut(&prefix));
        let victim =
            match source.filter(|source| source.waiting.count >= bounds.per_source || source.open >= most) {
                Some(source) => source.waiting.take_idle(now, grace).ok_or(())?,
                None if self.waiting.count >= bounds.total => self.waiting.take_idle(now, grace).ok_or(())?,
                None => return Ok(None),
            };
        victim.is_evicted.store(true, Ordering::Relaxed);
        self.leave_progress(&victim);
        Ok(Some(victim))
    }
}

/// The milliseconds after a step for which a connection does not make room.
fn grace() -> u32 {
    u32::try_from(limits::IN_PROGRESS_GRACE.as_millis()).unwrap_or(u32::MAX)
}

impl Admission {
    /// Builds an empty table.
    pub fn new(bounds: Bounds) -> Arc<Admission> {
        Arc::new(Admission {
            bounds,
            began: Instant::now(),
            table: Mutex::default(),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            closed_listeners: AtomicU64::new(0),
            closures: AtomicU64::new(0),
            reserve: ReserveFile::default(),
        })
    }

    fn now(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_millis()).unwrap_or(u32::MAX)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics with the lock held.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection that was just accepted. `most`: open connections of one source. `None`: there are too
    /// many, and none of those in progress is idle.
    pub fn enter(self: &Arc<Self>, source: Option<SourcePrefix>, most: usize) -> Option<Admitted> {
        let entered = self.enter_at(self.now(), source, most);
        if entered.is_none() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        entered
    }

    fn enter_at(self: &Arc<Self>, now: u32, source: Option<SourcePrefix>, most: usize) -> Option<Admitted> {
        let entry = Arc::new(Entry {
            admission: Arc::clone(self),
            source,
            stepped: AtomicU32::new(now),
            is_busy: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            is_evicted: AtomicBool::new(false),
            is_released: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        let mut table = self.table();
        let evicted = table.make_room(source, (self.bounds, most), now).ok()?;
        table.waiting.push(Arc::clone(&entry));
        if let Some(source) = source {
            let source = table.sources.entry(source).or_default();
            source.open += 1;
            source.waiting.push(Arc::clone(&entry));
        }
        drop(table);
        self.wake(evicted);
        Some(Admitted(Handle(entry)))
    }

    fn wake(&self, evicted: Option<Arc<Entry>>) {
        if let Some(entry) = evicted {
            self.evicted.fetch_add(1, Ordering::Relaxed);
            entry.waker.wake();
        }
    }

    /// A connection of this source has ended that was counted by [`Admitted::into_open`].
    pub fn leave_open(&self, source: SourcePrefix) {
        self.table().leave_source(source);
    }

    /// The process has no file descriptor left: the connection in progress that is idle longest ends. False: none is idle.
    pub(crate) fn shed(&self) -> bool {
        self.shed_at(self.now())
    }

    fn shed_at(&self, now: u32) -> bool {
        let mut table = self.table();
        let victim = table.waiting.take_idle(now, grace());
        if let Some(victim) = &victim {
            victim.is_evicted.store(true, Ordering::Relaxed);
            table.leave_progress(victim);
        }
        drop(table);
        let is_shed = victim.is_some();
        self.wake(victim);
        is_shed
    }

    /// Connections that were closed unaccepted, because the process had no file descriptor for them, since it began.
    pub fn unaccepted(&self) -> u64 {
        self.reserve.refused()
    }

    /// True if a source may have one more open connection besides those it has.
    pub fn has_place(&self, source: SourcePrefix, most: usize) -> bool {
        self.table().sources.get(&source).is_none_or(|source| source.open < most)
    }

    /// Connections in progress that made room for others since the process began.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Connections that were refused since the process began.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A listener is closed for want of room, until the returned value is dropped.
    pub(crate) fn close_listener(self: &Arc<Self>) -> ClosedListener {
        self.closures.fetch_add(1, Ordering::Relaxed);
        self.closed_listeners.fetch_add(1, Ordering::Relaxed);
        ClosedListener(Arc::clone(self))
    }

    /// Listeners that are closed now for want of room.
    pub fn closed_listeners(&self) -> u64 {
        self.closed_listeners.load(Ordering::Relaxed)
    }

    /// Times that a listener was closed for want of room since the process began.
    pub fn closures(&self) -> u64 {
        self.closures.load(Ordering::Relaxed)
    }

    /// Connections in progress now.
    pub fn in_progress(&self) -> usize {
        self.table().waiting.count
    }
}

impl std::ops::Deref for Admitted {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.0
    }
}

impl Handle {
    /// The peer has done a step that a silent or dribbling one does not: a flight of a handshake, a whole element.
    pub fn step(&self) {
        self.0.stepped.store(self.0.admission.now(), Ordering::Relaxed);
    }

    /// While the server works for it, a connection does not make room for others.
    #[must_use]
    pub fn busy(&self) -> Busy<'_> {
        self.0.is_busy.store(true, Ordering::Relaxed);
        Busy(self)
    }

    /// It is in progress no longer, only open.
    pub fn establish(&self) {
        if !self.0.has_left.load(Ordering::Relaxed) {
            self.0.admission.table().leave_progress(&self.0);
        }
    }

    /// True until the connection is established or has ended.
    pub fn is_in_progress(&self) -> bool {
        !self.0.has_left.load(Ordering::Relaxed)
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.0.is_evicted.load(Ordering::Relaxed)
    }

    /// Ready: it has to make room for another one.
    pub fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.0.is_evicted.load(Ordering::Relaxed) {
            if self.0.has_left.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            self.0.waker.register(cx.waker());
        }
        // Looked at again: it may have been evicted while the waker was registered.
        if self.0.is_evicted.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Runs `work` within that time. `None`: the time is over, or the connection has to make room for another one.
pub async fn within<T>(handle: Option<&Handle>, time: Duration, work: impl Future<Output = T>) -> Option<T> {
    let evicted = std::future::poll_fn(|cx| handle.map_or(Poll::Pending, |handle| handle.poll_evicted(cx)));
    tokio::select! {
        biased;
        () = evicted => None,
        done = tokio::time::timeout(time, work) => done.ok(),
    }
}

/// The server works for a connection until this is dropped.
pub struct Busy<'a>(&'a Handle);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.0.is_busy.store(false, Ordering::Relaxed);
    }
}

impl Admitted {
    /// Establishes the connection and releases the entry, which an open connection has no use for. True: its source counts it, and its
    /// owner calls [`Admission::leave_open`] once it has ended.
    ///
    /// # Errors
    /// The connection has to make room for another one.
    pub fn into_open(self) -> Result<bool, Admitted> {
        self.establish();
        if self.is_evicted() {
            return Err(self);
        }
        self.0.0.is_released.store(true, Ordering::Relaxed);
        Ok(self.0.0.source.is_some())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let Handle(entry) = &self.0;
        if !entry.is_released.load(Ordering::Relaxed) {
            entry.admission.table().leave(entry);
        }
    }
}
