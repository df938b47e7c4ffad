//! The shard's XMPP: its inputs, and what it asks of the record, the account cache and other shards.

use std::sync::Arc;

use ::xmpp::sasl::Secret;
use router::AskId;
use stdx::Instant;
use store::access::AccessWrite;
use store::{Loaded, Read, StoreError, Ticket, Verifiers, Write, WriteDone};
use tokio::sync::Semaphore;

use super::accounts::Known;
use super::asker::of_xmpp;
use super::{Command, Ended, Letter, Shard};
use crate::limits;
use crate::xmpp::access::NewAccount;
use crate::xmpp::{Unavailable, Wish, Xmpp, XmppCounts, XmppLetter, keys};

/// What the shard's XMPP needs besides itself.
pub(super) struct Glue {
    pub(super) xmpp: Xmpp,
    /// One permit for each account whose keys are being made.
    deriving: Arc<Semaphore>,
    /// One for each change that waits for it.
    waiting: Arc<Semaphore>,
}

impl Glue {
    pub(super) fn new(xmpp: Xmpp) -> Self {
        let [deriving, waiting] = [limits::XMPP_DERIVING, limits::XMPP_KEYS_WAITING];
        Glue {
            xmpp,
            deriving: Arc::new(Semaphore::new(deriving)),
            waiting: Arc::new(Semaphore::new(waiting)),
        }
    }
}

/// Of an account that came with keys only: what to write, when it is their password.
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
    /// Nothing, where nobody listens for chat clients.
    pub(super) fn with_xmpp<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Xmpp, &mut Vec<Wish>) -> T,
    ) -> Option<T> {
        let glue = self.xmpp.as_mut()?;
        let mut wishes = std::mem::take(&mut self.scratch.xmpp_wishes);
        let done = act(&mut glue.xmpp, &mut wishes);
        for _ in 0..glue.xmpp.take_panics() {
            self.parts.board.count_panic();
        }
        for wish in wishes.drain(..) {
            self.grant_xmpp(now, wish);
        }
        self.scratch.xmpp_wishes = wishes;
        Some(done)
    }

    fn grant_xmpp(&mut self, now: Instant, wish: Wish) {
        match wish {
            Wish::Account { id, user, domain } => self.find_account(now, AskId(of_xmpp(id)), user, domain),
            Wish::Read { id, read } => {
                let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
                if self.parts.store.read(Read::Xmpp(read), to).is_err() {
                    self.with_xmpp(now, |xmpp, wishes| xmpp.refused(now, id, wishes));
                }
            }
            Wish::Write { id, write } => {
                let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
                if self.parts.store.write(write, to).is_err() {
                    self.with_xmpp(now, |xmpp, wishes| xmpp.refused(now, id, wishes));
                }
            }
            Wish::Phone(wish) => self.grant_phone(now, wish),
            Wish::Access { id, read } => self.read_for_xmpp(now, id, Read::Access(read)),
            Wish::Aliases { id, account } => {
                self.read_for_xmpp(now, id, Read::Aliases { account: Some(*account) });
            }
            Wish::MakeAccount { id, account } => {
                let NewAccount { address, password, invitation } = *account;
                self.write_with_keys(now, id, password, move |password| {
                    let mut account = store::NewAccount::with_password(address, &password.0, now)?;
                    account.verifiers = account.verifiers.with_scram(&keys::make(&password.0));
                    let account = Box::new(account);
                    Ok(Write::Access(AccessWrite::Register { account, invitation }))
                });
            }
            Wish::SetPassword { id, account, password } => {
                self.write_with_keys(now, id, password, move |password| {
                    let (verifiers, account) = (all_verifiers(&account, password), *account);
                    Ok(Write::SetVerifiers { account, verifiers })
                });
            }
            Wish::Prove { id, account, password, learns } => {
                self.write_with_keys(now, id, password, move |password| learned(&account, password, learns));
            }
            Wish::Derive { id, account, password } => self.derive(now, id, &account, password),
            Wish::Accounts { id, ask } => {
                let (operator, outlet) = (self.parts.chat.clone(), self.outlet());
                tokio::task::spawn_local(async move {
                    let result = Box::new(operator.administer(now, *ask).await);
                    outlet.answer_all(&mut vec![Letter::Xmpp(vec![XmppLetter::Administered { id, result }])]);
                });
            }
            Wish::LetGo { address } => self.accounts.let_go(&address),
            Wish::Forget { address } => {
                // Here at once: what is wished next may ask for it.
                self.accounts.forget(Some(&address));
                for outlet in &self.parts.outlets {
                    let forget = Command::ForgetAccount(Some(address.clone()));
                    outlet.answer_all(&mut vec![Letter::Command(forget)]);
                }
            }
        }
    }

    /// To this shard itself.
    fn outlet(&self) -> cluster::Outlet<Letter> {
        self.parts.outlets[usize::from(self.parts.edge.shard)].clone()
    }

    fn read_for_xmpp(&mut self, now: Instant, id: u64, read: Read) {
        let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
        if self.parts.store.read(read, to).is_err() {
            self.with_xmpp(now, |xmpp, wishes| xmpp.refused(now, id, wishes));
        }
    }

    /// What is to be written has keys in it, which are made as in `derive`; but somebody waits for it. Why there is
    /// nothing to write, he hears as well.
    fn write_with_keys(
        &mut self,
        now: Instant,
        id: u64,
        password: Secret,
        make: impl FnOnce(&Secret) -> Result<Write, StoreError> + Send + 'static,
    ) {
        let place = self.xmpp.as_ref().and_then(|glue| {
            let place = glue.waiting.clone().try_acquire_owned().ok()?;
            Some((place, glue.deriving.clone()))
        });
        let Some((place, deriving)) = place else {
            self.with_xmpp(now, |xmpp, wishes| xmpp.refused(now, id, wishes));
            return;
        };
        let to = Ticket { sink: self.parts.edge.shard, id: of_xmpp(id) };
        let (store, outlet) =
            (Arc::clone(&self.parts.store), self.parts.outlets[usize::from(to.sink)].clone());
        let work = move || {
            let done =
                make(&password).and_then(|write| store.write(write, to).map_err(|_| StoreError::Closed));
            if let Err(error) = done {
                outlet.answer_all(&mut vec![Letter::Written(vec![(to.id, Err(error))])]);
            }
        };
        tokio::task::spawn_local(async move {
            let permit = deriving.acquire_owned().await;
            // A panic there has been printed, and the one who asked waits in vain.
            let _ = tokio::task::spawn_blocking(work).await;
            drop((permit, place));
        });
    }

    /// Makes keys on a thread of the runtime's pool. When too many are being made, the next sign-in will do.
    fn derive(&mut self, now: Instant, id: u64, account: &store::Account, password: ::xmpp::sasl::Secret) {
        let permit = self.xmpp.as_ref().and_then(|glue| glue.deriving.clone().try_acquire_owned().ok());
        let Some(permit) = permit else {
            self.with_xmpp(now, |xmpp, wishes| xmpp.refused(now, id, wishes));
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

    pub(super) fn xmpp_account(&mut self, now: Instant, ask: u64, known: Option<&Known>) {
        let found = known.map(|known| known.as_deref()).ok_or(Unavailable);
        self.with_xmpp(now, |xmpp, wishes| xmpp.handle_account(now, ask, found, wishes));
    }

    /// All of them: `None`.
    pub(super) fn forget_xmpp_account(&mut self, address: Option<&str>) {
        if let Some(glue) = self.xmpp.as_mut() {
            glue.xmpp.forget_account(address);
        }
    }

    pub(super) fn xmpp_loaded(&mut self, now: Instant, ask: u64, result: Result<Loaded, StoreError>) {
        self.with_xmpp(now, |xmpp, wishes| xmpp.handle_loaded(now, ask, result, wishes));
    }

    pub(super) fn xmpp_written(&mut self, now: Instant, ask: u64, result: Result<WriteDone, StoreError>) {
        self.with_xmpp(now, |xmpp, wishes| xmpp.handle_written(now, ask, result, wishes));
    }

    pub(super) fn xmpp_letters(&mut self, now: Instant, letters: Vec<XmppLetter>) {
        self.with_xmpp(now, |xmpp, wishes| {
            for letter in letters {
                xmpp.handle_letter(now, letter, wishes);
            }
        });
    }

    /// What clients asked, and what is due. How much it was.
    pub(super) fn turn_xmpp(&mut self, now: Instant) -> usize {
        self.with_xmpp(now, |xmpp, wishes| xmpp.turn(now, wishes)).unwrap_or(0)
    }

    /// One letter a shard and turn.
    pub(super) fn post_xmpp(&mut self) {
        let Some(glue) = &mut self.xmpp else { return };
        for (shard, post) in self.post.iter_mut().enumerate() {
            let letters = glue.xmpp.take_post(shard);
            if !letters.is_empty() {
                post.push(Letter::Xmpp(letters));
            }
        }
    }

    pub(super) fn take_back_xmpp(&mut self, now: Instant, shard: usize, letters: Vec<XmppLetter>) {
        let kept = self.with_xmpp(now, |xmpp, wishes| xmpp.take_back(now, letters, wishes));
        if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
            self.parts.outlets[shard].answer_all(&mut vec![Letter::Xmpp(kept)]);
        }
    }

    pub(super) fn end_sessions(&mut self, ended: &Ended) {
        let now = self.parts.clock.now();
        self.with_xmpp(now, |xmpp, wishes| xmpp.end_sessions(now, ended, wishes));
    }

    /// Tells everybody who is connected that the node ends.
    pub(super) async fn close_streams(&mut self) {
        if let Some(glue) = &mut self.xmpp {
            glue.xmpp.close_all().await;
        }
    }

    pub(super) fn xmpp_counts(&self) -> XmppCounts {
        self.xmpp.as_ref().map(|glue| glue.xmpp.counts()).unwrap_or_default()
    }
}
