//! The shard's XMPP: its inputs, and what it asks of the record, the account cache and other shards.

use std::sync::Arc;

use ::xmpp::sasl::Secret;
use router::AskId;
use stdx::Instant;
use store::access::AccessWrite;
use store::{Loaded, Read, StoreError, Ticket, Verifiers, Write, WriteDone};
use tokio::sync::Semaphore;

use super::Shard;
use super::accounts::CachedAccount;
use super::request_origin::of_xmpp;
use crate::limits;
use crate::message::{
    Command, Ended, InboxMessage, LocalMessage, LocalXmppMessage, ShardMessage, XmppShardMessage,
};
use crate::xmpp::access::NewAccount;
use crate::xmpp::operator::Operator;
use crate::xmpp::{Unavailable, Xmpp, XmppCounts, XmppEffect, keys};

/// The XMPP core of a shard and the resources that drive it.
pub(super) struct XmppAdapter {
    pub(super) xmpp: Xmpp,
    /// One permit for each account whose keys are being made.
    deriving: Arc<Semaphore>,
    /// One for each change that waits for it.
    waiting: Arc<Semaphore>,
}

impl XmppAdapter {
    pub(super) fn new(xmpp: Xmpp) -> Self {
        let [deriving, waiting] = [limits::XMPP_DERIVING, limits::XMPP_KEYS_WAITING];
        XmppAdapter {
            xmpp,
            deriving: Arc::new(Semaphore::new(deriving)),
            waiting: Arc::new(Semaphore::new(waiting)),
        }
    }
}

/// The write for an account that has SCRAM keys only, once a password has been given: fails unless it is the
/// account's.
fn learned(account: &store::Account, password: &Secret, learns: bool) -> Result<Write, StoreError> {
    if !keys::are_of(&account.verifiers, password) {
        return Err(StoreError::NotFound { what: "account of that password".into() });
    }
    let (address, of) = (account.address(), account.verifiers.sha256);
    if !learns {
        // Those that it has not; and that there is no other password by now.
        let keys = keys::make_missing(&account.verifiers, &password.0);
        return Ok(Write::AddScram { account: address, of, keys });
    }
    let verifiers = all_verifiers(&address, password);
    Ok(Write::LearnPassword { account: address, of, verifiers })
}

/// For phones and for chat clients.
fn all_verifiers(account: &store::Address, password: &Secret) -> Verifiers {
    let verifiers = Verifiers::from_password(&account.user, &account.domain, &password.0);
    verifiers.with_scram(&keys::make(&password.0))
}

impl Shard {
    /// Does nothing if no listener is for chat clients.
    pub(super) fn with_xmpp<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Xmpp, &mut Vec<XmppEffect>) -> T,
    ) -> Option<T> {
        let adapter = self.xmpp.as_mut()?;
        let mut outbox = std::mem::take(&mut self.scratch.xmpp_outbox);
        let done = act(&mut adapter.xmpp, &mut outbox);
        for _ in 0..adapter.xmpp.take_panics() {
            self.parts.board.count_panic();
        }
        for effect in outbox.drain(..) {
            self.grant_xmpp(now, effect);
        }
        self.scratch.xmpp_outbox = outbox;
        Some(done)
    }

    fn grant_xmpp(&mut self, now: Instant, effect: XmppEffect) {
        match effect {
            XmppEffect::Account { id, user, domain } => {
                self.find_account(now, AskId(of_xmpp(id)), user, domain);
            }
            XmppEffect::Read { id, read } => {
                let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
                if self.parts.store.read(Read::Xmpp(read), to).is_err() {
                    self.with_xmpp(now, |xmpp, outbox| xmpp.refused(now, id, outbox));
                }
            }
            XmppEffect::Write { id, write } => {
                let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
                if self.parts.store.write(write, to).is_err() {
                    self.with_xmpp(now, |xmpp, outbox| xmpp.refused(now, id, outbox));
                }
            }
            XmppEffect::Phone(effect) => self.grant_phone(now, effect),
            XmppEffect::Access { id, read } => self.read_for_xmpp(now, id, Read::Access(read)),
            XmppEffect::Aliases { id, account } => {
                self.read_for_xmpp(now, id, Read::Aliases { account: Some(*account) });
            }
            XmppEffect::MakeAccount { id, account } => {
                let NewAccount { address, password, invitation } = *account;
                self.write_with_keys(now, id, password, move |password| {
                    let mut account = store::NewAccount::with_password(address, &password.0, now)?;
                    account.verifiers = account.verifiers.with_scram(&keys::make(&password.0));
                    let account = Box::new(account);
                    Ok(Write::Access(AccessWrite::Register { account, invitation }))
                });
            }
            XmppEffect::SetPassword { id, account, password } => {
                self.write_with_keys(now, id, password, move |password| {
                    let (verifiers, account) = (all_verifiers(&account, password), *account);
                    Ok(Write::SetVerifiers { account, verifiers })
                });
            }
            XmppEffect::Prove { id, account, password, learns } => {
                self.write_with_keys(now, id, password, move |password| learned(&account, password, learns));
            }
            XmppEffect::Derive { id, account, password } => self.derive(now, id, &account, password),
            XmppEffect::Accounts { id, ask } => {
                administer(now, id, *ask, self.parts.chat.clone(), self.outlet());
            }
            XmppEffect::Bosh { shard, call } => {
                if let Some(post) = self.post.get_mut(usize::from(shard.shard)) {
                    post.push(LocalMessage::Xmpp(LocalXmppMessage::Bosh(call)).into());
                }
            }
            XmppEffect::LetGo { address } => self.accounts.let_go(&address),
            XmppEffect::Forget { address } => {
                // Here at once: the next effect may ask for it.
                self.accounts.forget(Some(&address));
                for outlet in &self.parts.outlets {
                    let forget = Command::ForgetAccount(Some(address.clone()));
                    outlet.answer_all(&mut vec![LocalMessage::Command(forget).into()]);
                }
            }
        }
    }

    /// To this shard itself.
    fn outlet(&self) -> cluster::Outlet<InboxMessage> {
        self.parts.outlets[usize::from(self.parts.edge.shard)].clone()
    }

    fn read_for_xmpp(&mut self, now: Instant, id: u64, read: Read) {
        let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
        if self.parts.store.read(read, to).is_err() {
            self.with_xmpp(now, |xmpp, outbox| xmpp.refused(now, id, outbox));
        }
    }

    /// Performs a write that contains keys, which are made as in `derive`; but a client waits for it. If
    /// there is nothing to write, the client is told the reason as well.
    fn write_with_keys(
        &mut self,
        now: Instant,
        id: u64,
        password: Secret,
        make: impl FnOnce(&Secret) -> Result<Write, StoreError> + Send + 'static,
    ) {
        let place = self.xmpp.as_ref().and_then(|adapter| {
            let place = adapter.waiting.clone().try_acquire_owned().ok()?;
            Some((place, adapter.deriving.clone()))
        });
        let Some((place, deriving)) = place else {
            self.with_xmpp(now, |xmpp, outbox| xmpp.refused(now, id, outbox));
            return;
        };
        let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
        let (store, outlet) =
            (Arc::clone(&self.parts.store), self.parts.outlets[usize::from(to.sink)].clone());
        let work = move || {
            let done =
                make(&password).and_then(|write| store.write(write, to).map_err(|_| StoreError::Closed));
            if let Err(error) = done {
                outlet.answer_all(&mut vec![LocalMessage::Written(vec![(to.id, Err(error))]).into()]);
            }
        };
        tokio::task::spawn_local(async move {
            let permit = deriving.acquire_owned().await;
            // A panic there has been printed; the asker gets no answer.
            let _ = tokio::task::spawn_blocking(work).await;
            drop((permit, place));
        });
    }

    /// Makes keys on a thread of the runtime's pool. When too many are being made, the next sign-in will do.
    fn derive(&mut self, now: Instant, id: u64, account: &store::Account, password: ::xmpp::sasl::Secret) {
        let permit = self.xmpp.as_ref().and_then(|adapter| adapter.deriving.clone().try_acquire_owned().ok());
        let Some(permit) = permit else {
            self.with_xmpp(now, |xmpp, outbox| xmpp.refused(now, id, outbox));
            return;
        };
        let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
        let (store, address, of) =
            (Arc::clone(&self.parts.store), account.address(), account.verifiers.sha256);
        tokio::task::spawn_blocking(move || {
            let keys = keys::make(&password.0);
            // With a record that is far behind there are none, as before.
            let _ = store.write(Write::AddScram { account: address, of, keys }, to);
            drop(permit);
        });
    }

    pub(super) fn xmpp_account(&mut self, now: Instant, ask: u64, known: Option<&CachedAccount>) {
        let found = known.map(|known| known.as_deref()).ok_or(Unavailable);
        self.with_xmpp(now, |xmpp, outbox| xmpp.handle_account(now, ask, found, outbox));
    }

    /// All of them: `None`.
    pub(super) fn forget_xmpp_account(&mut self, address: Option<&str>) {
        if let Some(adapter) = self.xmpp.as_mut() {
            adapter.xmpp.forget_account(address);
        }
    }

    pub(super) fn xmpp_loaded(&mut self, now: Instant, ask: u64, result: Result<Loaded, StoreError>) {
        self.with_xmpp(now, |xmpp, outbox| xmpp.handle_loaded(now, ask, result, outbox));
    }

    pub(super) fn xmpp_written(&mut self, now: Instant, ask: u64, result: Result<WriteDone, StoreError>) {
        self.with_xmpp(now, |xmpp, outbox| xmpp.handle_written(now, ask, result, outbox));
    }

    pub(super) fn xmpp_messages(&mut self, now: Instant, messages: Vec<XmppShardMessage>) {
        self.with_xmpp(now, |xmpp, outbox| {
            for message in messages {
                xmpp.handle_message(now, message, outbox);
            }
        });
    }

    /// Handles clients' events and due timers. Returns how many there were.
    pub(super) fn turn_xmpp(&mut self, now: Instant) -> usize {
        self.with_xmpp(now, |xmpp, outbox| xmpp.turn(now, outbox)).unwrap_or(0)
    }

    /// One message a shard and turn.
    pub(super) fn post_xmpp(&mut self) {
        let Some(adapter) = &mut self.xmpp else { return };
        for (shard, post) in self.post.iter_mut().enumerate() {
            let messages = adapter.xmpp.take_post(shard);
            if !messages.is_empty() {
                post.push(ShardMessage::Xmpp(messages).into());
            }
        }
    }

    pub(super) fn take_back_xmpp(&mut self, now: Instant, shard: usize, messages: Vec<XmppShardMessage>) {
        let kept = self.with_xmpp(now, |xmpp, outbox| xmpp.take_back(now, messages, outbox));
        if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
            self.parts.outlets[shard].answer_all(&mut vec![ShardMessage::Xmpp(kept).into()]);
        }
    }

    pub(super) fn end_sessions(&mut self, ended: &Ended) {
        let now = self.parts.clock.now();
        self.with_xmpp(now, |xmpp, outbox| xmpp.end_sessions(now, ended, outbox));
    }

    /// Tells every connected client that the node ends.
    pub(super) async fn close_streams(&mut self) {
        if let Some(adapter) = &mut self.xmpp {
            adapter.xmpp.close_all().await;
        }
    }

    pub(super) fn xmpp_counts(&self) -> XmppCounts {
        self.xmpp.as_ref().map(|adapter| adapter.xmpp.counts()).unwrap_or_default()
    }
}

/// The answer comes back as a message to the shard.
fn administer(
    now: Instant,
    id: u64,
    ask: chat::effect::Accounts,
    operator: Operator,
    shard: cluster::Outlet<InboxMessage>,
) {
    tokio::task::spawn_local(async move {
        let result = Box::new(operator.administer(now, ask).await);
        let administered = LocalXmppMessage::Administered { id, result };
        shard.answer_all(&mut vec![LocalMessage::Xmpp(administered).into()]);
    });
}
