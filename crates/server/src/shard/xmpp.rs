//! The shard's XMPP: its inputs, and what it asks of the record, the account cache and other shards.

use std::sync::Arc;

use router::AskId;
use stdx::Instant;
use store::{Loaded, Read, StoreError, Ticket, Write, WriteDone};
use tokio::sync::Semaphore;

use super::accounts::Known;
use super::asker::of_xmpp;
use super::{Command, Letter, Shard};
use crate::limits;
use crate::xmpp::{Unavailable, Wish, Xmpp, XmppCounts, XmppLetter, make_keys};

/// What the shard's XMPP needs besides itself.
pub(super) struct Glue {
    pub(super) xmpp: Xmpp,
    /// One permit for each account whose keys are being made.
    deriving: Arc<Semaphore>,
}

impl Glue {
    pub(super) fn new(xmpp: Xmpp) -> Self {
        Glue { xmpp, deriving: Arc::new(Semaphore::new(limits::XMPP_DERIVING)) }
    }
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
            Wish::Derive { id, account, password } => self.derive(now, id, &account, password),
            Wish::Forget { address } => {
                for outlet in &self.parts.outlets {
                    let forget = Command::ForgetAccount(Some(address.clone()));
                    outlet.answer_all(&mut vec![Letter::Command(forget)]);
                }
            }
        }
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
            let keys = make_keys(&password.0);
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

    /// Tells every client that the node ends, and waits a moment for them to read it.
    pub(super) async fn close_streams(&mut self) {
        if let Some(glue) = &mut self.xmpp {
            glue.xmpp.streams.close_all("system-shutdown").await;
        }
    }

    pub(super) fn xmpp_counts(&self) -> XmppCounts {
        self.xmpp.as_ref().map(|glue| glue.xmpp.counts()).unwrap_or_default()
    }
}
