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

/// Which reads a thread takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Single rows, and what an account needs to sign in.
    Quick,
    /// Pages.
    Large,
}

/// The hash of what a read is about: two that share one take turns as one.
type Account = u64;

pub(crate) struct TakenRead {
    pub(crate) read: Read,
    pub(crate) ticket: Ticket,
    account: Option<Account>,
}

#[derive(Default)]
struct Turns {
    /// Accounts of which a read waits and none is under way. `None`: a read that is of no account.
    ready: VecDeque<Option<Account>>,
    /// In the order they came, by account.
    of: HashMap<Account, Waiting>,
    /// Reads of no account.
    others: VecDeque<(Read, Ticket)>,
}

#[derive(Default)]
struct Waiting {
    reads: VecDeque<(Read, Ticket)>,
    is_under_way: bool,
}

#[derive(Default)]
struct State {
    quick: Turns,
    large: Turns,
    waiting: usize,
    /// The last read of a thread of both lanes was quick.
    was_quick: bool,
    is_closed: bool,
}

pub(crate) struct Reads {
    state: Mutex<State>,
    /// For the thread of quick reads, and for the others.
    ready: [Condvar; 2],
    capacity: usize,
    hasher: RandomState,
}

impl Turns {
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

    fn done(&mut self, account: Account) {
        let Some(of) = self.of.get_mut(&account) else { return };
        of.is_under_way = false;
        if of.reads.is_empty() {
            self.of.remove(&account);
        } else {
            // Behind those who waited meanwhile.
            self.ready.push_back(Some(account));
        }
    }
}

impl Reads {
    pub(crate) fn new(capacity: usize) -> Self {
        let ready = [Condvar::new(), Condvar::new()];
        Reads { state: Mutex::default(), ready, capacity, hasher: RandomState::new() }
    }

    pub(crate) fn push(&self, read: Read, ticket: Ticket) -> Result<(), Refused> {
        let (lane, account) = (lane_of(&read), about(&read).map(|about| self.hasher.hash_one(about)));
        let mut state = self.lock();
        if state.is_closed {
            return Err(Refused::Closed);
        }
        if state.waiting >= self.capacity {
            return Err(Refused::Full);
        }
        state.turns(lane).push(account, (read, ticket))?;
        state.waiting += 1;
        drop(state);
        if lane == Lane::Quick {
            self.ready[0].notify_one();
        }
        self.ready[1].notify_one();
        Ok(())
    }

    /// Waits for reads and moves them to `out`: one large one, or some quick ones of different accounts. False: closed and
    /// empty. Afterwards the thread says that they are [`done`](Self::done).
    pub(crate) fn take(&self, is_quick_only: bool, out: &mut Vec<TakenRead>) -> bool {
        let mut state = self.lock();
        loop {
            if state.take(is_quick_only, out) {
                return true;
            }
            // What waits behind a read that is under way becomes ready before its thread asks for more.
            let is_empty = if is_quick_only { state.quick.of.is_empty() } else { state.waiting == 0 };
            if state.is_closed && is_empty {
                return false;
            }
            let ready = &self.ready[usize::from(!is_quick_only)];
            state = ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn done(&self, taken: &[TakenRead]) {
        let mut state = self.lock();
        for read in taken {
            if let Some(account) = read.account {
                state.turns(lane_of(&read.read)).done(account);
            }
        }
        drop(state);
        self.ready.iter().for_each(Condvar::notify_all);
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.ready.iter().for_each(Condvar::notify_all);
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
    fn turns(&mut self, lane: Lane) -> &mut Turns {
        match lane {
            Lane::Quick => &mut self.quick,
            Lane::Large => &mut self.large,
        }
    }

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

fn lane_of(read: &Read) -> Lane {
    match read {
        Read::Account { .. } | Read::Aliases { .. } | Read::Access(_) | Read::Domains | Read::Routes => {
            Lane::Quick
        }
        Read::Xmpp(XmppRead::User { .. } | XmppRead::Room { .. }) => Lane::Quick,
        Read::Accounts(_) | Read::Calls(_) | Read::KeptMessages { .. } | Read::KeptCounts | Read::Rest(_) => {
            Lane::Large
        }
        Read::Xmpp(_) => Lane::Large,
    }
}

/// Of a batch: a roster may have as much as thousands of other rows.
fn weight_of(read: &Read) -> usize {
    match read {
        Read::Xmpp(_) => limits::MAX_READ_BATCH / 8,
        _ => 1,
    }
}

/// Whose turn a read takes.
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
        Read::KeptMessages { aor } => Some(aor),
        Read::Account { .. }
        | Read::Accounts(_)
        | Read::Aliases { .. }
        | Read::Domains
        | Read::Routes
        | Read::Calls(_)
        | Read::KeptCounts
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
    fn take(reads: &Reads, is_quick_only: bool) -> (Vec<u64>, Vec<TakenRead>) {
        let mut out = Vec::new();
        assert!(reads.take(is_quick_only, &mut out));
        (out.iter().map(|taken| taken.ticket.id).collect(), out)
    }

    #[test]
    fn a_sign_in_waits_for_none_of_a_thousand_reads_of_another_account() {
        let reads = Reads::new(10_000);
        for id in 0..1_000 {
            reads.push(items("mallory"), ticket(id)).unwrap();
        }
        let (first, under_way) = take(&reads, false);
        assert_eq!(first, [0]);
        reads.push(user("alice"), ticket(5_000)).unwrap();
        reads.push(items("alice"), ticket(5_001)).unwrap();
        // Two reader threads are free, and no read is served before those of the sign-in.
        assert_eq!(take(&reads, true).0, [5_000]);
        assert_eq!(take(&reads, false).0, [5_001], "of one account one read is under way");
        reads.done(&under_way);
        assert_eq!(take(&reads, false).0, [1]);
    }

    #[test]
    fn accounts_take_turns_and_a_thread_of_both_lanes_serves_both() {
        let reads = Reads::new(10_000);
        for id in 0..3 {
            reads.push(items("mallory"), ticket(id)).unwrap();
            reads.push(items("bob"), ticket(10 + id)).unwrap();
            reads.push(user(&format!("u{id}")), ticket(20 + id)).unwrap();
        }
        let mut order = Vec::new();
        for _ in 0..7 {
            let (ids, taken) = take(&reads, false);
            order.extend(ids);
            reads.done(&taken);
        }
        assert_eq!(order, [20, 21, 22, 0, 10, 1, 11, 2, 12]);
        assert_eq!(reads.len(), 0);
    }

    #[test]
    fn one_account_fills_no_queue() {
        let reads = Reads::new(limits::READ_QUEUE);
        for id in 0..limits::READS_OF_ACCOUNT as u64 {
            reads.push(items("mallory"), ticket(id)).unwrap();
        }
        assert_eq!(reads.push(items("mallory"), ticket(1)), Err(Refused::Full));
        assert_eq!(reads.push(items("bob"), ticket(2)), Ok(()));
        reads.close();
        assert_eq!(reads.push(items("bob"), ticket(3)), Err(Refused::Closed));
    }
}
