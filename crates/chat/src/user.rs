//! Accounts in memory: their data are read from the store when they are needed, and queued work is done then.
//!
//! `Host::user` brings an account into memory and returns it in any state; work that comes while it is being read waits
//! with it (`QueuedWork`) and is done in its order when the store has answered (`account_loaded`). An account without
//! sessions and work goes into the cache of idle accounts (`Host::forget_user`).

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, ns};

use super::account_memory::AccountMemory;
use super::ack::{AckGuard, Acks};
use super::archive::Archive;
use super::effect::{AccountData, Load, StoreReply, StreamFault};
use super::phones::Phones;
use super::push::Push;
use super::store_requests::StoreRequests;
use super::{Host, Outbox, presence};
use crate::{connection, limits, read_queues, route};

/// Nodes whose newest item is read with an account, because a client that signs in needs it at once.
pub const NODES: &[&str] = &[super::archive::PREFERENCES, ns::VCARD_UPDATE];

/// An account in memory.
pub struct User {
    /// In the order they came.
    pub(super) sessions: Vec<Key>,
    pub(super) state: AccountState,
    /// The store has the account: it is not that of an anonymous session.
    pub(super) is_stored: bool,
    /// It was used since the search for a roster to evict came by (`AccountMemory::evict_rosters`).
    pub(super) is_used: bool,
    /// The estimated size of its data in memory, as `rosters` counts it.
    pub(super) weight: u32,
}

/// The account's data, as far as they were read from the store.
pub(super) enum AccountState {
    /// Asked for; the work that waits for it, in order.
    Loading(Vec<QueuedWork>),
    /// In memory.
    Ready(Box<AccountData>),
    /// Evicted while sessions exist: `Host::user` reads the data again.
    Evicted,
    /// No such account.
    Absent,
}

/// Work that waits until the account's data are read.
pub(super) enum QueuedWork {
    /// From the account's own session.
    FromSession(Key, Box<Element>),
    /// A stanza of another sender.
    Routed(Box<Element>),
    /// A message for the account that no phone took; it is handled when the guard is released.
    Returned(Box<Element>, AckGuard),
    /// Something of a feature or of a session that has ended, that is not done when the store cannot be read.
    Job(AccountJob),
}

/// Work of a feature, without a stanza that could be answered.
pub(super) type AccountJob = Box<dyn FnOnce(&mut Host, Instant, &mut Outbox)>;

impl Host {
    /// The account, whose data are read from the store when they are not in memory.
    pub(super) fn user(&mut self, now: Instant, bare: &Bare, out: &mut Outbox) -> &mut User {
        let known = self.accounts.users.get(bare);
        // Three ways into memory: it is there, it comes back from the cache of idle accounts, or it is read.
        let is_away = known.is_some_and(|user| matches!(user.state, AccountState::Evicted));
        let is_known = known.is_some();
        let idle = if is_known { None } else { self.accounts.idle.take(now, bare) };
        let is_stored = idle.is_some();
        if !is_known && !is_stored {
            forget_features(&mut self.archive, &mut self.push, bare);
        }
        if is_away || (!is_known && !is_stored) {
            load_account(&mut self.store, bare, out);
        }
        if !is_known {
            let state = idle.map_or_else(|| AccountState::Loading(Vec::new()), AccountState::Ready);
            let fresh = User { sessions: Vec::with_capacity(1), state, is_stored, is_used: true, weight: 0 };
            self.accounts.users.insert(bare.clone(), fresh);
            self.accounts.weigh(bare);
        }
        let user = self.accounts.users.get_mut(bare).expect("it was there, or is now");
        user.is_used = true;
        if is_away {
            user.state = AccountState::Loading(Vec::new());
        }
        user
    }

    /// Does the job once the account's data are in memory, now if they are. A job that cannot wait, or whose account cannot
    /// be read, is dropped: it owns nothing that has to be answered or given back.
    pub(super) fn with_account_data(
        &mut self,
        now: Instant,
        bare: &Bare,
        out: &mut Outbox,
        job: impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static,
    ) {
        match &self.user(now, bare, out).state {
            AccountState::Loading(_) => {
                // A job beyond the limit is dropped: it has no sender that an error could reach.
                wait_for_account_data(&mut self.accounts, bare, QueuedWork::Job(Box::new(job))).ok();
            }
            AccountState::Ready(_) | AccountState::Evicted | AccountState::Absent => {
                job(self, now, out);
                self.forget_user(now, bare);
            }
        }
    }

    /// Drops the cached data of an account that the operator has changed or removed; `None`: of all accounts. The next stanza
    /// that needs an account has it read again.
    pub fn forget_accounts(&mut self, user: Option<&Bare>) {
        match user {
            Some(user) if self.accounts.idle.forget(user) => {
                forget_features(&mut self.archive, &mut self.push, user);
            }
            Some(_) => {}
            None => {
                for user in self.accounts.idle.take_all() {
                    forget_features(&mut self.archive, &mut self.push, &user);
                }
            }
        }
    }

    /// Moves an account without sessions and without queued work into the cache of idle accounts.
    pub(super) fn forget_user(&mut self, now: Instant, bare: &Bare) {
        let is_needed = self.offline.is_keeping(bare);
        for user in self.accounts.release(now, bare, is_needed) {
            forget_features(&mut self.archive, &mut self.push, &user);
        }
    }
}

/// The store has answered: the account is there, is not, or cannot be read. All work that waited is done now, also when
/// there is no such account.
fn account_loaded(host: &mut Host, now: Instant, bare: &Bare, loaded: Option<StoreReply>, out: &mut Outbox) {
    let Some(user) = host.accounts.users.get_mut(bare) else { return };
    let (mut items, mut last_archived) = (Vec::new(), None);
    let state = match loaded {
        Some(StoreReply::User(Some(mut data))) => {
            user.is_stored = true;
            items = std::mem::take(&mut data.items);
            last_archived = data.last_archived.take();
            AccountState::Ready(data)
        }
        Some(StoreReply::User(None)) if user.sessions.is_empty() => AccountState::Absent,
        // An anonymous client, or an account that was removed while it is signed in.
        Some(StoreReply::User(None)) => AccountState::Ready(Box::default()),
        _ => {
            let features = (&mut host.archive, &mut host.push, &mut host.phones);
            for waiting in account_unavailable(&mut host.accounts, features, bare, out) {
                let error = Condition::ResourceConstraint.into();
                refuse_waiting(&mut host.acks(), now, waiting, &error, out);
                connection::perform_deliveries(host, now, out);
            }
            return;
        }
    };
    let AccountState::Loading(waiting) = std::mem::replace(&mut user.state, state) else { return };
    host.accounts.weigh(bare);
    // The first must not take the store away from the others.
    host.accounts.being_loaded.push(bare.clone());
    let newest = |node: &str| items.iter().find(|(known, _)| **known == *node).map(|(_, item)| item);
    host.archive.handle_loaded(bare, newest(super::archive::PREFERENCES));
    host.archive.handle_ids(now, last_archived.as_deref());
    host.avatars.handle_loaded(bare, newest(ns::VCARD_UPDATE));
    for waiting in waiting {
        match waiting {
            QueuedWork::FromSession(key, stanza) => {
                let session = host.accounts.sessions.get(key);
                let requester = session.map(|session| host.store.reads.requester_of(&session.jid));
                read_queues::with_requester(host, requester, |host| {
                    route::handle_element_of_session(host, now, key, *stanza, out);
                });
            }
            QueuedWork::Routed(stanza) => {
                let from = stanza::from(&stanza).ok().flatten();
                let requester = from.map(|from| host.store.reads.requester_of(&from));
                read_queues::with_requester(host, requester, |host| {
                    route::to_account(host, now, *stanza, out);
                });
            }
            QueuedWork::Returned(message, guard) => {
                route::return_to_account(host, now, bare, *message, guard, out);
            }
            QueuedWork::Job(job) => job(host, now, out),
        }
    }
    host.accounts.being_loaded.pop();
    host.forget_user(now, bare);
}

/// The store cannot be read: the waiting work, which is returned, gets an error, and the next stanza asks again. Sessions
/// whose account was read before stay signed in.
fn account_unavailable(
    accounts: &mut AccountMemory,
    (archive, push, phones): (&mut Archive, &mut Push, &mut Phones),
    bare: &Bare,
    out: &mut Outbox,
) -> Vec<QueuedWork> {
    let state = match accounts.users.get_mut(bare) {
        Some(user) if user.is_stored && !user.sessions.is_empty() => {
            std::mem::replace(&mut user.state, AccountState::Evicted)
        }
        _ => {
            let Some(user) = accounts.remove_user(bare) else { return Vec::new() };
            forget_features(archive, push, bare);
            phones.handle_unavailable(bare, out);
            for key in user.sessions {
                if let Some(edge) = accounts.sessions.remove(key).and_then(|session| session.edge) {
                    accounts.by_edge.remove(&edge);
                    out.push(StreamFault::from("internal-server-error").close(edge));
                }
            }
            user.state
        }
    };
    match state {
        AccountState::Loading(waiting) => waiting,
        AccountState::Ready(_) | AccountState::Evicted | AccountState::Absent => Vec::new(),
    }
}

/// Features that keep something of an account's data lose it with the account, so that the next read fills them again.
fn forget_features(archive: &mut Archive, push: &mut Push, user: &Bare) {
    archive.forget(user);
    push.forget(user);
}

/// Queues work until the account's data is in memory.
///
/// # Errors
/// The work, undone: too much waits already. [`refuse_waiting`] answers it.
pub(super) fn wait_for_account_data(
    accounts: &mut AccountMemory,
    bare: &Bare,
    waiting: QueuedWork,
) -> Result<(), QueuedWork> {
    let Some(User { state: AccountState::Loading(all), .. }) = accounts.users.get_mut(bare) else {
        return Ok(());
    };
    if all.len() >= limits::USER_WAITING {
        return Err(waiting);
    }
    all.push(waiting);
    Ok(())
}

/// True if too much waits for the account's data: further work would be refused.
pub(super) fn is_waiting_full(accounts: &AccountMemory, bare: &Bare) -> bool {
    accounts.users.get(bare).is_some_and(|user| match &user.state {
        AccountState::Loading(waiting) => waiting.len() >= limits::USER_WAITING,
        AccountState::Ready(_) | AccountState::Evicted | AccountState::Absent => false,
    })
}

/// The error of work that [`wait_for_account_data`] returned.
pub(super) fn too_much_waits() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint, "too much waits for this account: try again later")
}

/// Answers work that will not be done, with this error to the sender of its stanza. A job has no sender. The caller performs the effects of
/// the session.
pub(super) fn refuse_waiting(
    acks: &mut Acks<'_>,
    now: Instant,
    waiting: QueuedWork,
    error: &StanzaError,
    out: &mut Outbox,
) {
    match waiting {
        // Past the router: the answer would wait as well.
        QueuedWork::FromSession(key, stanza) => {
            acks.refuse_to_session(now, key, (&stanza, error), out);
        }
        QueuedWork::Routed(stanza) => match presence::subscription::SubscriptionAction::of(&stanza) {
            Some(_) => presence::refuse(&stanza, error, out),
            None => acks.refuse(&stanza, error, out),
        },
        QueuedWork::Returned(message, guard) => {
            acks.refuse(&message, error, out);
            acks.release(guard, out);
        }
        QueuedWork::Job(_) => {}
    }
}

/// Keeps the last duties of an ended session until its account's data are in memory; they are returned if they are to be done now. Unlike
/// the work for a stanza, they are always done, unless the store cannot be read.
pub(super) fn when_loaded<J>(
    (accounts, store): (&mut AccountMemory, &mut StoreRequests),
    bare: &Bare,
    out: &mut Outbox,
    job: J,
) -> Option<J>
where
    J: FnOnce(&mut Host, Instant, &mut Outbox) + 'static,
{
    let Some(user) = accounts.users.get_mut(bare) else { return Some(job) };
    match &mut user.state {
        AccountState::Loading(waiting) => waiting.push(QueuedWork::Job(Box::new(job))),
        AccountState::Evicted => {
            user.state = AccountState::Loading(vec![QueuedWork::Job(Box::new(job))]);
            load_account(store, bare, out);
        }
        AccountState::Ready(_) | AccountState::Absent => return Some(job),
    }
    user.is_used = true;
    None
}

/// Reads the data of an account.
fn load_account(store: &mut StoreRequests, bare: &Bare, out: &mut Outbox) {
    let user = bare.clone();
    store.load(Load::User { user: bare.clone() }, out, move |host, now, result, out| {
        account_loaded(host, now, &user, result.ok(), out);
    });
}
