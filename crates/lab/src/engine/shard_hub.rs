//! State that shards share: numbers of calls, the shard of each Call-ID, and inboxes for messages.
//!
//! Two kinds of state: atomic counters that decide together (`-m`, `-l`, the phase of the end), and inboxes, one a shard, for everything that
//! one shard must give another. A shard collects what is for another in an `InboxContent` of its own during the turn and delivers it once at
//! the end, so that a lock is taken once a turn and not once a message.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use hashbrown::HashTable;
use lab_sip::call::TransportFault;
use mio::Waker;
use parking_lot::Mutex;
use stdx::hash::Keyed;
use stdx::slab::Key;
use stdx::time::Instant;

use super::calls::CallLink;
use super::limits::{HANDOVER_BYTES, VERIFY_COMMANDS};
use super::schedule::Schedule;
use super::shell;
use super::stream::Sender;

/// The progress of the run's end.
/// Phases only advance; the numbers are those of the atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum RunPhase {
    /// Calls are placed and accepted.
    Running,
    /// No new calls.
    Soft,
    /// Open calls are ended, with a word to the peer.
    Hard,
    /// Everyone leaves now.
    Gone,
}

impl RunPhase {
    /// As it is counted; what is beyond the last is the last.
    pub(super) fn of(number: u8) -> RunPhase {
        match number {
            0 => RunPhase::Running,
            1 => RunPhase::Soft,
            2 => RunPhase::Hard,
            _ => RunPhase::Gone,
        }
    }
}

/// A command of the run to its shards.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShardCommand {
    /// Another rate, or a pause (a rate of zero).
    Schedule(Schedule),
    /// Another number of users that call in a loop, over all shards.
    Users(u32),
}

/// One for all shards of a run.
pub(super) struct ShardHub {
    /// The hash of Call-IDs, with a key of this run.
    pub(super) keyed: Keyed,
    /// Calls started: the last `[call_number]`.
    pub(super) started: AtomicU64,
    /// Arrivals that were overdue when the time of the run was over, of all shards.
    missed: AtomicU64,
    /// Commands of `<exec verify>` that run.
    commands: AtomicU64,
    /// Calls that took an address of the target in turn (`-round_robin`), those that did not start included.
    turns: AtomicU64,
    /// `u64::MAX` without it.
    /// `-m`.
    pub(super) total: u64,
    /// Calls open now; those of the out-of-call scenario are not counted.
    pub(super) open: AtomicU64,
    /// The most that were open at once.
    pub(super) peak: AtomicU64,
    /// When the peak was, microseconds.
    pub(super) peak_at: AtomicU64,
    /// `-l`; the control of the run changes it.
    pub(super) limit: AtomicU64,
    /// `-users`, over all shards; 0 without it.
    pub(super) users: AtomicU32,
    /// An operator has paused the run: users begin no calls. Arrivals by time have a schedule for it, whose rate is zero.
    pub(super) paused: AtomicBool,
    /// `-users` with `-r`: all users had a call at once, and from then on each calls when its last call ends.
    ramped: AtomicBool,
    phase: AtomicU8,
    /// `stop_now` was asked for by a scenario.
    pub(super) stopped_by_scenario: AtomicBool,
    /// A signal ended the run: open calls are not counted.
    terminated: AtomicBool,
    /// The run cannot go on (`-max_reconnect` used up): it ends as a failure.
    pub(super) fatal: AtomicBool,
    /// Only with several shards.
    pub(super) directory: Option<CallDirectory>,
    /// The inboxes, by the number of the shard.
    pub(super) doors: Vec<ShardInbox>,
}

impl ShardHub {
    pub(super) fn new(keyed: Keyed, total: Option<u64>, doors: Vec<ShardInbox>) -> ShardHub {
        ShardHub {
            keyed,
            started: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            total: total.unwrap_or(u64::MAX),
            open: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            peak_at: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            users: AtomicU32::new(0),
            paused: AtomicBool::new(false),
            ramped: AtomicBool::new(false),
            phase: AtomicU8::new(RunPhase::Running as u8),
            stopped_by_scenario: AtomicBool::new(false),
            terminated: AtomicBool::new(false),
            fatal: AtomicBool::new(false),
            directory: (doors.len() > 1).then(CallDirectory::new),
            doors,
        }
    }

    pub(super) fn phase(&self) -> RunPhase {
        RunPhase::of(self.phase.load(Ordering::Acquire))
    }

    /// Ends never go back.
    pub(super) fn advance(&self, phase: RunPhase) {
        if self.phase.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8 {
            self.wake_all();
        }
    }

    /// The run ends where it stands. A run that is over already, for another reason, keeps that reason.
    pub(super) fn terminate(&self) {
        if self.phase() < RunPhase::Hard {
            self.terminated.store(true, Ordering::Release);
            self.advance(RunPhase::Hard);
        }
    }

    pub(super) fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::Acquire)
    }

    pub(super) fn wake_all(&self) {
        for door in &self.doors {
            door.wake();
        }
    }

    /// Runs a command for a call of this shard, which is told of its end.
    pub(super) fn verify(self: &Arc<Self>, shard: u16, call: Key, command: String) {
        let hub = Arc::clone(self);
        let tell = move |verdict| hub.doors[usize::from(shard)].tell_verdict(call, verdict);
        if self.commands.fetch_add(1, Ordering::Relaxed) >= VERIFY_COMMANDS {
            self.commands.fetch_sub(1, Ordering::Relaxed);
            return tell(Err(format!("{VERIFY_COMMANDS} commands of <exec verify> run already")));
        }
        let hub = Arc::clone(self);
        let done = move |verdict| {
            hub.commands.fetch_sub(1, Ordering::Relaxed);
            hub.doors[usize::from(shard)].tell_verdict(call, verdict);
        };
        if let Err(error) = shell::verify(command, done) {
            self.commands.fetch_sub(1, Ordering::Relaxed);
            tell(Err(format!("no thread for it: {error}")));
        }
    }

    /// The one of these addresses whose turn it is (`-round_robin`); `None` without any.
    // Counts before it looks: without addresses the remainder has no divisor and the count does not matter.
    pub(super) fn take_turn(&self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let place = turn.checked_rem(addresses.len() as u64)?;
        addresses.get(usize::try_from(place).ok()?).copied()
    }

    /// The number of a call that starts now, from 1; `None` when `-m` are reached.
    // A plain `fetch_add` would run past `-m` and need a correction that other shards could see.
    pub(super) fn take_number(&self) -> Option<u64> {
        let taken = self
            .started
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < self.total).then_some(n + 1));
        taken.ok().map(|before| before + 1)
    }

    /// The part of a shard's overdue arrivals that `-m` has room for, beside the calls that were started and what other shards missed.
    pub(super) fn take_missed(&self, arrivals: u64) -> u64 {
        let room = self.total.saturating_sub(self.started.load(Ordering::Relaxed));
        let before = self.missed.fetch_add(arrivals, Ordering::Relaxed);
        arrivals.min(room.saturating_sub(before))
    }

    /// `-m` are reached.
    pub(super) fn all_started(&self) -> bool {
        self.started.load(Ordering::Relaxed) >= self.total
    }

    /// One more open call, unless `limit` says no.
    pub(super) fn try_open(&self, now: Instant, limit: u64) -> bool {
        // Adds first and takes back, so that two shards cannot both take the last place.
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        if before >= limit {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        // The plain load spares the write of a shared line for most calls; the maximum decides between two shards.
        if before + 1 > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(before + 1, Ordering::Relaxed);
            self.peak_at.store(now.as_micros(), Ordering::Relaxed);
        }
        true
    }

    /// A user's call began at the rate of `-r`: with the last one of all users the rate is over.
    pub(super) fn note_ramp(&self) {
        if self.open.load(Ordering::Relaxed) >= u64::from(self.users.load(Ordering::Relaxed)) {
            self.ramped.store(true, Ordering::Release);
        }
    }

    /// All users of `-users` had a call at once.
    pub(super) fn is_ramped(&self) -> bool {
        self.ramped.load(Ordering::Acquire)
    }

    /// So many are open.
    pub(super) fn tell_open(&self, open: u64, now: Instant) {
        self.open.store(open, Ordering::Relaxed);
        if self.peak.fetch_max(open, Ordering::Relaxed) < open {
            self.peak_at.store(now.as_micros(), Ordering::Relaxed);
        }
    }

    /// One fewer; the last one of a run that ends tells the others.
    pub(super) fn closed(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 && self.phase() != RunPhase::Running {
            self.wake_all();
        }
    }

    /// Commands are few (an operator's), so they go past the collected content straight into each inbox.
    pub(super) fn command(&self, command: ShardCommand) {
        for door in &self.doors {
            door.inbox.lock().commands.push(command);
            door.wake();
        }
    }
}

/// Call-ID hash to shard, in parts so that shards seldom wait for each other.
pub(super) struct CallDirectory {
    parts: Box<[DirectoryPart]>,
}

/// Hash of the Call-ID and the number of its shard.
type DirectoryPart = Mutex<HashTable<(u64, u16)>>;

/// So many that 255 shards rarely meet in one; a power of two keeps the modulo cheap.
const PARTS: usize = 64;

impl CallDirectory {
    fn new() -> CallDirectory {
        CallDirectory { parts: (0..PARTS).map(|_| Mutex::new(HashTable::new())).collect() }
    }

    /// By the upper half of the hash: the table within the part uses the lower bits.
    fn part(&self, hash: u64) -> &DirectoryPart {
        &self.parts[(hash >> 32) as usize % PARTS]
    }

    /// The shard of the call, or `mine` when there was none: then it is entered.
    pub(super) fn claim(&self, hash: u64, mine: u16) -> u16 {
        let mut part = self.part(hash).lock();
        match part.find(hash, |entry| entry.0 == hash) {
            Some(entry) => entry.1,
            None => {
                part.insert_unique(hash, (hash, mine), |entry| entry.0);
                mine
            }
        }
    }

    /// The shard that has the call.
    pub(super) fn find(&self, hash: u64) -> Option<u16> {
        self.part(hash).lock().find(hash, |entry| entry.0 == hash).map(|entry| entry.1)
    }

    /// The call is forgotten: its Call-ID may begin a new one, at any shard.
    pub(super) fn remove(&self, hash: u64) {
        if let Ok(entry) = self.part(hash).lock().find_entry(hash, |entry| entry.0 == hash) {
            entry.remove();
        }
    }
}

/// The inbox of a shard, which other shards fill.
pub(super) struct ShardInbox {
    waker: Waker,
    /// A wake-up is on its way: the next one need not be.
    rung: AtomicBool,
    inbox: Mutex<InboxContent>,
}

/// Messages handed over, and commands.
#[derive(Default)]
pub(super) struct InboxContent {
    /// The text of all messages and writes, one behind the other; they hold ranges of it.
    pub(super) bytes: Vec<u8>,
    /// Messages that came in at another shard and belong to calls of this one.
    pub(super) parcels: Vec<ForwardedMessage>,
    /// Messages for connections of the shard that gets this.
    pub(super) writes: Vec<ForwardedWrite>,
    /// Calls of the receiving shard whose message could not be sent.
    pub(super) faults: Vec<(Key, TransportFault)>,
    /// Connections that other shards had and lost.
    pub(super) gone: Vec<(CallLink, TransportFault)>,
    /// Commands of the operator, by way of the run.
    pub(super) commands: Vec<ShardCommand>,
    /// Ends of `<exec verify>` commands, for the calls of the receiving shard.
    pub(super) verdicts: Vec<(Key, Result<(), String>)>,
}

/// One message in an [`InboxContent`].
#[derive(Debug, Clone, Copy)]
pub(super) struct ForwardedMessage {
    /// The place of the text in `bytes`, from `start` to before `end`.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The peer's address.
    pub(super) from: SocketAddr,
    /// The kernel's time where it gave one.
    pub(super) received: Instant,
    /// The connection it came on, as the shard that gets it names it.
    pub(super) link: Option<CallLink>,
}

/// One message for a connection of another shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForwardedWrite {
    /// The place of the text in `bytes`, from `start` to before `end`.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) to: ForwardedConnection,
    /// To be told when it cannot leave.
    pub(super) sender: Sender,
}

/// The connection that a message is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum ForwardedConnection {
    /// A connection by its key at the shard that has it.
    Connection(Key),
    /// The shared one to this target.
    Target(SocketAddr),
}

impl InboxContent {
    pub(super) fn put(&mut self, bytes: &[u8], from: SocketAddr, received: Instant, link: Option<CallLink>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.parcels.push(ForwardedMessage { start, end: self.bytes.len(), from, received, link });
    }

    /// Adds a message that another shard shall write to one of its connections.
    pub(super) fn put_write(&mut self, bytes: &[u8], to: ForwardedConnection, sender: Sender) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.writes.push(ForwardedWrite { start, end: self.bytes.len(), to, sender });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
            && self.commands.is_empty()
            && self.writes.is_empty()
            && self.faults.is_empty()
            && self.gone.is_empty()
            && self.verdicts.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.parcels.clear();
        self.writes.clear();
        self.faults.clear();
        self.gone.clear();
        self.verdicts.clear();
        self.commands.clear();
    }
}

impl ShardInbox {
    pub(super) fn new(waker: Waker) -> ShardInbox {
        ShardInbox { waker, rung: AtomicBool::new(false), inbox: Mutex::new(InboxContent::default()) }
    }

    /// A command of `<exec verify>` has ended.
    pub(super) fn tell_verdict(&self, call: Key, verdict: Result<(), String>) {
        self.inbox.lock().verdicts.push((call, verdict));
        self.wake();
    }

    /// Wakes the shard, at most once until it looks.
    pub(super) fn wake(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // The pipe behind it can only be full of wake-ups.
            let _ = self.waker.wake();
        }
    }

    /// Moves everything into this shard's inbox; how many messages were too many. Calls whose own messages were
    /// too many are named in `refused_calls`.
    pub(super) fn deliver(&self, parcels: &mut InboxContent, refused_calls: &mut Vec<Key>) -> u64 {
        let mut refused = 0;
        {
            let mut inbox = self.inbox.lock();
            for parcel in parcels.parcels.drain(..) {
                // Checked before each message, so the last one may pass the bound by its own length.
                if inbox.bytes.len() > HANDOVER_BYTES {
                    refused += 1;
                    continue;
                }
                let bytes = &parcels.bytes[parcel.start..parcel.end];
                inbox.put(bytes, parcel.from, parcel.received, parcel.link);
            }
            for write in parcels.writes.drain(..) {
                if inbox.bytes.len() > HANDOVER_BYTES {
                    refused_calls.push(write.sender.call);
                    continue;
                }
                let bytes = &parcels.bytes[write.start..write.end];
                inbox.put_write(bytes, write.to, write.sender);
            }
            // At most one for each message above, and one for each connection there was.
            inbox.faults.append(&mut parcels.faults);
            inbox.gone.append(&mut parcels.gone);
            inbox.verdicts.append(&mut parcels.verdicts);
        }
        parcels.bytes.clear();
        self.wake();
        refused
    }

    /// Takes all that waits; `mine` is empty, and its memory is left behind for the next messages.
    pub(super) fn take(&self, mine: &mut InboxContent) {
        // The flag is cleared before the lock is taken: what is put in after the swap sets it again and is found in the next turn.
        if self.rung.swap(false, Ordering::AcqRel) {
            std::mem::swap(mine, &mut *self.inbox.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_id_belongs_to_the_shard_that_claims_it_first() {
        let directory = CallDirectory::new();
        assert_eq!(directory.claim(7, 1), 1);
        assert_eq!(directory.claim(7, 2), 1);
        assert_eq!(directory.find(7), Some(1));
        directory.remove(7);
        assert_eq!(directory.find(7), None);
        assert_eq!(directory.claim(7, 2), 2);
    }

    #[test]
    fn a_door_is_bounded_and_keeps_order() {
        let poll = mio::Poll::new().unwrap();
        let door = ShardInbox::new(Waker::new(poll.registry(), mio::Token(0)).unwrap());
        let from: SocketAddr = "127.0.0.1:5060".parse().unwrap();
        let (mut out, mut mine) = (InboxContent::default(), InboxContent::default());
        let big = vec![b'x'; HANDOVER_BYTES / 4];
        for _ in 0..8 {
            out.put(&big, from, Instant::default(), None);
        }
        let sender = Sender { shard: 1, call: Key::from_u64(7), patience: None };
        out.put_write(b"late", ForwardedConnection::Target(from), sender);
        let mut refused = Vec::new();
        assert_eq!(door.deliver(&mut out, &mut refused), 3);
        assert_eq!(refused, [Key::from_u64(7)]);
        assert!(out.is_empty());
        door.take(&mut mine);
        assert_eq!(mine.parcels.len(), 5);
        assert!(mine.parcels.windows(2).all(|pair| pair[0].end == pair[1].start));
        mine.clear();
        door.take(&mut mine);
        assert!(mine.is_empty());
    }

    #[test]
    fn numbers_end_at_the_total_and_calls_at_the_limit() {
        let hub = ShardHub::new(Keyed::new([1; 16]), Some(2), Vec::new());
        assert_eq!(hub.take_number(), Some(1));
        assert_eq!([hub.take_missed(3), hub.take_missed(3)], [1, 0], "beyond the total nothing is due");
        assert_eq!([hub.take_number(), hub.take_number()], [Some(2), None]);
        assert!(hub.try_open(Instant::default(), 1));
        assert!(!hub.try_open(Instant::default(), 1));
        hub.closed();
        assert!(hub.try_open(Instant::default(), 1));
        hub.advance(RunPhase::Hard);
        hub.advance(RunPhase::Soft);
        assert_eq!(hub.phase(), RunPhase::Hard);
    }
}
