//! The reads that wait, and in which order reader threads take them: no account's reads delay those of another.
//!
//! Reads of one account wait in order, and one of them is under way at a time. Accounts take turns. What signing in needs is in
//! a lane of its own, which has a thread to itself; other threads serve both lanes in turn.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits;
use crate::queue::Refused;
use crate::record::Read;
use crate::service::Ticket;
use crate::xmpp::XmppRead;

/// The class of reads that a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Single rows, and what an account needs to sign in.
    Quick,
    /// Pages.
    Large,
}

/// The hash of what a read is about: two that share one take turns as one.
type Account = u64;

/// A read under way.
pub(crate) struct TakenRead {
    pub(crate) read: Read,
    pub(crate) ticket: Ticket,
    /// The account whose turn it is; `None`: a read that is of no account.
    account: Option<Account>,
}

/// The reads of one lane that wait.
#[derive(Default)]
struct LaneQueue {
    /// Accounts of which a read waits and none is under way. `None`: a read that is of no account.
    ready: VecDeque<Option<Account>>,
    /// In the order they came, by account.
    of: HashMap<Account, Waiting>,
    /// Reads of no account.
    others: VecDeque<(Read, Ticket)>,
}

/// The reads of one account.
#[derive(Default)]
struct Waiting {
    /// In the order in which they came, without the one under way.
    reads: VecDeque<(Read, Ticket)>,
    is_under_way: bool,
}

/// All that the threads share, under one lock.
#[derive(Default)]
struct State {
    quick: LaneQueue,
    large: LaneQueue,
    /// Reads in both lanes.
    waiting: usize,
    /// The last read of a thread of both lanes was quick.
    was_quick: bool,
    is_closed: bool,
    /// The thread of quick reads.
    quick_thread: ThreadState,
    /// Threads of both lanes that sleep. The last to fall asleep is the first to be woken: its caches are warm.
    asleep: Vec<usize>,
    /// A thread of both lanes has been woken and does not run yet.
    is_other_waking: bool,
}

/// The state of the thread of quick reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThreadState {
    /// Also before its first read.
    #[default]
    Busy,
    Asleep,
    /// Woken, and not running yet.
    Waking,
}

/// The reads that wait, and the threads that wait for reads.
pub(crate) struct Reads {
    state: Mutex<State>,
    /// One for each thread. A read wakes one thread, and a thread that leaves reads behind wakes the next.
    wakers: Vec<Condvar>,
    /// Reads that may wait.
    capacity: usize,
    /// Seeded by chance, so that a peer cannot choose accounts whose reads take turns as one.
    hasher: RandomState,
}

/// The thread that serves quick reads only.
pub(crate) const QUICK_THREAD: usize = 0;

impl LaneQueue {
    /// Refused when the account has too many waiting already, whatever room there is.
    fn push(&mut self, account: Option<Account>, read: (Read, Ticket)) -> Result<(), Refused> {
        let Some(account) = account else {
            self.others.push_back(read);
            self.ready.push_back(None);
            return Ok(());
        };
        let of = self.of.entry(account).or_default();
        if of.reads.len() >= limits::READS_OF_ACCOUNT {
            return Err(Refused::Full);
        }
        of.reads.push_back(read);
        if of.reads.len() == 1 && !of.is_under_way {
            self.ready.push_back(Some(account));
        }
        Ok(())
    }

    /// The next read of the account whose turn it is. The account has no further turn until [`done`](Self::done).
    fn take(&mut self) -> Option<TakenRead> {
        let account = self.ready.pop_front()?;
        let (read, ticket) = match account {
            None => self.others.pop_front()?,
            Some(account) => {
                let of = self.of.get_mut(&account)?;
                of.is_under_way = true;
                of.reads.pop_front()?
            }
        };
        Some(TakenRead { read, ticket, account })
    }

    /// The account's read is answered: its next one queues for a turn.
    fn done(&mut self, account: Account) {
        let Some(of) = self.of.get_mut(&account) else { return };
        of.is_under_way = false;
        if of.reads.is_empty() {
            self.of.remove(&account);
        } else {
            // Behind the accounts that have waited meanwhile.
            self.ready.push_back(Some(account));
        }
    }
}

impl Reads {
    /// For threads numbered from 0, of which [`QUICK_THREAD`] is the first.
    pub(crate) fn new(threads: usize, capacity: usize) -> Self {
        let wakers = (0..threads).map(|_| Condvar::new()).collect();
        Reads { state: Mutex::default(), wakers, capacity, hasher: RandomState::new() }
    }

    /// Queues a read and wakes a thread, if one is needed.
    pub(crate) fn push(&self, read: Read, ticket: Ticket) -> Result<(), Refused> {
        let mut state = self.lock();
        self.add(&mut state, read, ticket)?;
        self.wake_one(state);
        Ok(())
    }

    /// Queues reads that came together and wakes a thread, if one is needed: it takes a batch of them. Returns the tickets of
    /// those that are refused.
    pub(crate) fn push_all(&self, reads: &mut Vec<(Read, Ticket)>) -> Vec<Ticket> {
        let mut state = self.lock();
        let is_refused =
            |(read, ticket): (Read, Ticket)| self.add(&mut state, read, ticket).is_err().then_some(ticket);
        let refused = reads.drain(..).filter_map(is_refused).collect();
        self.wake_one(state);
        refused
    }

    fn add(&self, state: &mut State, read: Read, ticket: Ticket) -> Result<(), Refused> {
        if state.is_closed {
            return Err(Refused::Closed);
        }
        if state.waiting >= self.capacity {
            return Err(Refused::Full);
        }
        let (lane, account) = (lane_of(&read), about(&read).map(|about| self.hasher.hash_one(about)));
        state.lane(lane).push(account, (read, ticket))?;
        state.waiting += 1;
        Ok(())
    }

    /// Waits for reads and moves them to `out`: one large one, or some quick ones of different accounts. False: closed and
    /// empty. Afterwards the thread says that they are [`done`](Self::done).
    pub(crate) fn take(&self, thread: usize, out: &mut Vec<TakenRead>) -> bool {
        let is_quick_only = thread == QUICK_THREAD;
        let mut state = self.lock();
        loop {
            if state.take(is_quick_only, out) {
                self.wake_one(state);
                return true;
            }
            // A read that waits behind one that is under way becomes ready before the thread of that one asks for more.
            let is_empty = if is_quick_only { state.quick.of.is_empty() } else { state.waiting == 0 };
            if state.is_closed && is_empty {
                return false;
            }
            state.fall_asleep(thread);
            state = self.wakers[thread].wait(state).unwrap_or_else(PoisonError::into_inner);
            state.awake(thread);
        }
    }

    /// The thread that says so takes next, so reads that became ready wait for no other.
    pub(crate) fn done(&self, taken: &[TakenRead]) {
        let mut state = self.lock();
        for read in taken {
            if let Some(account) = read.account {
                state.lane(lane_of(&read.read)).done(account);
            }
        }
        if state.is_closed {
            // The others see whether this was the last read.
            self.wakers.iter().for_each(Condvar::notify_one);
        }
    }

    /// Nothing more comes in; reads that wait are still handed out.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.wakers.iter().for_each(Condvar::notify_one);
    }

    /// Wakes outside the lock, which the woken thread wants at once.
    fn wake_one(&self, mut state: MutexGuard<'_, State>) {
        let thread = state.thread_to_wake();
        drop(state);
        if let Some(thread) = thread {
            self.wakers[thread].notify_one();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().waiting
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lane(&mut self, lane: Lane) -> &mut LaneQueue {
        match lane {
            Lane::Quick => &mut self.quick,
            Lane::Large => &mut self.large,
        }
    }

    fn fall_asleep(&mut self, thread: usize) {
        match thread {
            QUICK_THREAD => self.quick_thread = ThreadState::Asleep,
            _ => self.asleep.push(thread),
        }
    }

    /// Also after a wake-up that has no cause.
    fn awake(&mut self, thread: usize) {
        if thread == QUICK_THREAD {
            self.quick_thread = ThreadState::Busy;
        } else if let Some(at) = self.asleep.iter().position(|other| *other == thread) {
            self.asleep.remove(at);
        } else {
            self.is_other_waking = false;
        }
    }

    /// A thread for reads that are ready, unless one that can serve them has been woken already: that one wakes the next.
    fn thread_to_wake(&mut self) -> Option<usize> {
        let has_quick = !self.quick.ready.is_empty();
        if has_quick && self.quick_thread == ThreadState::Asleep {
            self.quick_thread = ThreadState::Waking;
            return Some(QUICK_THREAD);
        }
        let is_for_others =
            !self.large.ready.is_empty() || has_quick && self.quick_thread == ThreadState::Busy;
        if !is_for_others || self.is_other_waking {
            return None;
        }
        let thread = self.asleep.pop()?;
        self.is_other_waking = true;
        Some(thread)
    }

    /// One large read when it is the turn of large ones, or quick ones up to the weight of a batch.
    fn take(&mut self, is_quick_only: bool, out: &mut Vec<TakenRead>) -> bool {
        let is_large_due = !is_quick_only && (self.was_quick || self.quick.ready.is_empty());
        if is_large_due && let Some(read) = self.large.take() {
            (self.was_quick, self.waiting) = (false, self.waiting - 1);
            out.push(read);
            return true;
        }
        let mut weight = 0;
        while weight < limits::MAX_READ_BATCH
            && let Some(read) = self.quick.take()
        {
            weight += weight_of(&read.read);
            self.waiting -= 1;
            out.push(read);
        }
        self.was_quick |= !is_quick_only;
        !out.is_empty()
    }
}

/// Reads without a bound on their rows are never quick, except the roster of a user who signs in.
fn lane_of(read: &Read) -> Lane {
    match read {
        Read::Account { .. } | Read::Aliases { .. } | Read::Access(_) | Read::Domains | Read::Routes => {
            Lane::Quick
        }
        Read::Bindings { .. } | Read::Xmpp(XmppRead::User { .. } | XmppRead::Room { .. }) => Lane::Quick,
        Read::Accounts(_)
        | Read::Calls(_)
        | Read::CallSearch(_)
        | Read::KeptMessages { .. }
        | Read::KeptCounts
        | Read::Rest(_) => Lane::Large,
        Read::Xmpp(_) | Read::BucketBindings { .. } | Read::BucketKeptCounts { .. } => Lane::Large,
    }
}

/// The share of a batch: a roster may have as much as thousands of other rows.
fn weight_of(read: &Read) -> usize {
    match read {
        Read::Xmpp(_) => limits::MAX_READ_BATCH / 8,
        _ => 1,
    }
}

/// The account or room whose turn a read takes.
fn about(read: &Read) -> Option<&str> {
    match read {
        Read::Xmpp(read) => match read {
            XmppRead::User { user, .. } | XmppRead::Offline { user, .. } => Some(user),
            XmppRead::Items { owner, .. }
            | XmppRead::Kept { owner }
            | XmppRead::Nodes { owner, .. }
            | XmppRead::Archive { owner, .. } => Some(owner),
            XmppRead::Room { room } => Some(room),
            XmppRead::Rooms { domain, .. } => Some(domain),
            XmppRead::Waiting => None,
        },
        Read::KeptMessages { aor } | Read::Bindings { aor, .. } => Some(aor),
        Read::Account { .. }
        | Read::Accounts(_)
        | Read::Aliases { .. }
        | Read::Domains
        | Read::Routes
        | Read::Calls(_)
        | Read::CallSearch(_)
        | Read::KeptCounts
        | Read::BucketBindings { .. }
        | Read::BucketKeptCounts { .. }
        | Read::Rest(_)
        | Read::Access(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(owner: &str) -> Read {
        Read::Xmpp(XmppRead::Nodes { owner: owner.into(), after: None })
    }

    fn user(user: &str) -> Read {
        Read::Xmpp(XmppRead::User { user: user.into(), nodes: &[] })
    }

    fn ticket(id: u64) -> Ticket {
        Ticket { sink: 0, id }
    }

    /// The tickets that one call takes.
    fn take(reads: &Reads, thread: usize) -> (Vec<u64>, Vec<TakenRead>) {
        let mut out = Vec::new();
        assert!(reads.take(thread, &mut out));
        (out.iter().map(|taken| taken.ticket.id).collect(), out)
    }

    #[test]
    fn a_sign_in_waits_for_none_of_a_thousand_reads_of_another_account() {
        let reads = Reads::new(3, 10_000);
        for id in 0..1_000 {
            reads.push(items("mallory"), ticket(id)).unwrap();
        }
        let (first, under_way) = take(&reads, 1);
        assert_eq!(first, [0]);
        reads.push(user("alice"), ticket(5_000)).unwrap();
        reads.push(items("alice"), ticket(5_001)).unwrap();
        // Two reader threads are free, and no read is served before those of the sign-in.
        assert_eq!(take(&reads, QUICK_THREAD).0, [5_000]);
        assert_eq!(take(&reads, 1).0, [5_001], "of one account one read is under way");
        reads.done(&under_way);
        assert_eq!(take(&reads, 1).0, [1]);
    }

    #[test]
    fn accounts_take_turns_and_a_thread_of_both_lanes_serves_both() {
        let reads = Reads::new(3, 10_000);
        for id in 0..3 {
            reads.push(items("mallory"), ticket(id)).unwrap();
            reads.push(items("bob"), ticket(10 + id)).unwrap();
            reads.push(user(&format!("u{id}")), ticket(20 + id)).unwrap();
        }
        let mut order = Vec::new();
        for _ in 0..7 {
            let (ids, taken) = take(&reads, 1);
            order.extend(ids);
            reads.done(&taken);
        }
        assert_eq!(order, [20, 21, 22, 0, 10, 1, 11, 2, 12]);
        assert_eq!(reads.len(), 0);
    }

    #[test]
    fn reads_that_come_together_are_taken_together_and_a_full_queue_names_those_that_it_refuses() {
        let reads = Reads::new(3, 2);
        let account = |id: u64| {
            let (user, domain) = (format!("user{id}").into(), "example.org".into());
            (Read::Account { user, domain }, ticket(id))
        };
        let mut together: Vec<_> = (0..3).map(account).collect();
        assert_eq!(reads.push_all(&mut together), [ticket(2)]);
        assert!(together.is_empty());
        assert_eq!(take(&reads, QUICK_THREAD).0, [0, 1]);
        reads.close();
        assert_eq!(reads.push_all(&mut vec![account(3)]), [ticket(3)]);
    }

    #[test]
    fn a_read_wakes_one_thread_and_a_thread_that_leaves_reads_behind_wakes_the_next() {
        let mut state = State::default();
        for thread in [QUICK_THREAD, 1, 2] {
            state.fall_asleep(thread);
        }
        let push = |state: &mut State, id: u64, read: Read| {
            let lane = lane_of(&read);
            state.lane(lane).push(Some(id), (read, ticket(id))).unwrap();
            state.waiting += 1;
            state.thread_to_wake()
        };
        assert_eq!(push(&mut state, 1, user("alice")), Some(QUICK_THREAD));
        assert_eq!(push(&mut state, 2, user("bob")), None, "the thread that wakes takes both");
        assert_eq!(push(&mut state, 3, items("alice")), Some(2), "the last that fell asleep");
        assert_eq!(push(&mut state, 4, items("bob")), None, "the thread that wakes sees to it");
        state.awake(QUICK_THREAD);
        let mut taken = Vec::new();
        assert!(state.take(true, &mut taken));
        assert_eq!((taken.len(), state.thread_to_wake()), (2, None));
        state.awake(2);
        assert!(state.take(false, &mut taken));
        assert_eq!(state.thread_to_wake(), Some(1), "a second large read is ready");
        state.awake(1);
        assert!(state.take(false, &mut taken));
        assert_eq!((taken.len(), state.thread_to_wake()), (4, None));
        state.fall_asleep(1);
        assert_eq!(push(&mut state, 5, user("carol")), Some(1), "the thread of quick reads is busy");
    }

    #[test]
    fn reads_of_one_account_have_a_limit_and_leave_room_for_others() {
        let reads = Reads::new(3, limits::READ_QUEUE);
        for id in 0..limits::READS_OF_ACCOUNT as u64 {
            reads.push(items("mallory"), ticket(id)).unwrap();
        }
        assert_eq!(reads.push(items("mallory"), ticket(1)), Err(Refused::Full));
        assert_eq!(reads.push(items("bob"), ticket(2)), Ok(()));
        reads.close();
        assert_eq!(reads.push(items("bob"), ticket(3)), Err(Refused::Closed));
    }
}
