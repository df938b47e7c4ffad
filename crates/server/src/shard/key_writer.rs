//! Writes of accounts' keys for chat clients. Keys of SCRAM take long to make, so threads of the runtime's pool make them, a
//! few at a time.
//!
//! In: a password, and the function that makes a write of it. Out: the store's answer under the caller's
//! ticket, by the shard's inbox. Two bounds: few threads derive at a time, as each derivation takes a core for
//! milliseconds, and few changes wait for one.

use std::sync::Arc;

use ::xmpp::sasl::Secret;
use chat_store::keys;
use cluster::Outlet;
use store::{Service, StoreError, Ticket, Verifiers, Write};
use tokio::sync::Semaphore;

use crate::limits;
use crate::message::{InboxMessage, LocalMessage};

/// Too many keys are being made, or wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeysBusy;

/// The keys that one shard lets be made.
pub(super) struct KeyWriter {
    store: Arc<Service>,
    /// To the shard itself.
    outlet: Outlet<InboxMessage>,
    /// One permit for each account whose keys are being made.
    deriving: Arc<Semaphore>,
    /// One for each change that waits for it.
    waiting: Arc<Semaphore>,
}

impl KeyWriter {
    pub(super) fn new(store: Arc<Service>, outlet: Outlet<InboxMessage>) -> KeyWriter {
        let [deriving, waiting] = [limits::XMPP_DERIVING, limits::XMPP_KEYS_WAITING];
        KeyWriter {
            store,
            outlet,
            deriving: Arc::new(Semaphore::new(deriving)),
            waiting: Arc::new(Semaphore::new(waiting)),
        }
    }

    /// Performs a write that contains keys, which are made as in `derive`; but a client waits for it, so that it waits for a permit
    /// instead of being refused. If there is nothing to write, the client is told the reason as well: as the result of the write.
    pub(super) fn write(
        &self,
        to: Ticket,
        password: Secret,
        make: impl FnOnce(&Secret) -> Result<Write, StoreError> + Send + 'static,
    ) -> Result<(), KeysBusy> {
        self.write_if(|| true, to, password, make)
    }

    /// Writes as `write` does, unless the key is not wanted any more once its turn has come: its client may be gone. Such a write is answered as
    /// one that the store has not taken.
    pub(super) fn write_if(
        &self,
        is_wanted: impl Fn() -> bool + 'static,
        to: Ticket,
        password: Secret,
        make: impl FnOnce(&Secret) -> Result<Write, StoreError> + Send + 'static,
    ) -> Result<(), KeysBusy> {
        // Taken at once or not at all, so that a flood of changes is refused by the shard instead of gathering
        // here.
        let place = self.waiting.clone().try_acquire_owned().map_err(|_| KeysBusy)?;
        let deriving = self.deriving.clone();
        let (store, outlet) = (Arc::clone(&self.store), self.outlet.clone());
        let work = move || {
            let done =
                make(&password).and_then(|write| store.write(write, to).map_err(|_| StoreError::Closed));
            // The store has not seen the ticket, so the answer is made here.
            if let Err(error) = done {
                outlet.answer_all(&mut vec![LocalMessage::Written(vec![(to.id, Err(error))]).into()]);
            }
        };
        let unmade = self.outlet.clone();
        tokio::task::spawn_local(async move {
            let permit = deriving.acquire_owned().await;
            if !is_wanted() || tokio::task::spawn_blocking(work).await.is_err() {
                answer_unmade(&unmade, to);
            }
            drop((permit, place));
        });
        Ok(())
    }

    /// Makes the keys of an account whose password is known, and all digests where there was that of MD5 only. When too
    /// many are being made, the next sign-in will do.
    pub(super) fn derive(
        &self,
        to: Ticket,
        account: &store::Account,
        password: Secret,
    ) -> Result<(), KeysBusy> {
        let permit = self.deriving.clone().try_acquire_owned().map_err(|_| KeysBusy)?;
        let (store, address, of) = (Arc::clone(&self.store), account.address(), account.verifiers.sha256);
        let learns = account.verifiers.are_of_md5_only();
        let made = tokio::task::spawn_blocking(move || {
            let write = if learns {
                let verifiers = all_verifiers(&address, &password);
                Write::LearnPassword { account: address, of, verifiers }
            } else {
                Write::AddScram { account: address, of, keys: keys::make(&password.0) }
            };
            // With a record that is far behind there are none, as before.
            let _ = store.write(write, to);
            drop(permit);
        });
        let unmade = self.outlet.clone();
        tokio::task::spawn_local(async move {
            if made.await.is_err() {
                answer_unmade(&unmade, to);
            }
        });
        Ok(())
    }
}

/// The write was not given to the store, after a panic, which has been printed, or because it is not wanted: without an answer the request
/// would wait for ever.
fn answer_unmade(outlet: &Outlet<InboxMessage>, to: Ticket) {
    outlet.answer_all(&mut vec![LocalMessage::Written(vec![(to.id, Err(StoreError::Closed))]).into()]);
}

/// The write for an account that has SCRAM keys only, once a password has been given: fails unless it is the
/// account's.
pub(super) fn learned(
    account: &store::Account,
    password: &Secret,
    learns: bool,
) -> Result<Write, StoreError> {
    // The same error as for an account that is gone: the client may not tell the two apart.
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
pub(super) fn all_verifiers(account: &store::Address, password: &Secret) -> Verifiers {
    let verifiers = Verifiers::from_password(&account.user, &account.domain, &password.0);
    verifiers.with_scram(&keys::make(&password.0))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, Ordering};

    use store::{Completions, Loaded, ServiceOptions, Sqlite, WriteDone};

    use super::*;

    /// The store answers nothing here: no write comes to it.
    struct Unasked;

    impl Completions for Unasked {
        fn complete(&self, _: u16, done: Vec<(u64, Result<WriteDone, StoreError>)>) {
            panic!("{done:?}");
        }

        fn loaded(&self, _: u16, done: Vec<(u64, Result<Loaded, StoreError>)>) {
            panic!("{done:?}");
        }
    }

    #[test]
    fn keys_that_are_not_wanted_any_more_are_not_made() {
        for is_wanted in [true, false] {
            let made = Arc::new(AtomicBool::new(false));
            let note = Arc::clone(&made);
            let make = move |_: &Secret| {
                note.store(true, Ordering::Relaxed);
                Err(StoreError::Closed)
            };
            let password = Secret("secret".into());
            let answers =
                answers_to(|writer, ticket| writer.write_if(move || is_wanted, ticket, password, make));
            assert_unmade(&answers);
            assert_eq!(made.load(Ordering::Relaxed), is_wanted);
        }
    }

    #[test]
    fn a_write_is_answered_even_if_its_keys_cannot_be_made() {
        let make = |_: &Secret| panic!("a fault of the test");
        let answers = answers_to(|writer, ticket| writer.write(ticket, Secret("secret".into()), make));
        assert_unmade(&answers);
    }

    fn assert_unmade(answers: &[InboxMessage]) {
        let [InboxMessage::Local(LocalMessage::Written(done))] = answers else {
            panic!("{} answers", answers.len());
        };
        assert!(matches!(done[..], [(7, Err(StoreError::Closed))]), "{done:?}");
    }

    /// The answers that come to the shard for a write under the ticket 7.
    fn answers_to(write: impl FnOnce(&KeyWriter, Ticket) -> Result<(), KeysBusy>) -> Vec<InboxMessage> {
        let folder = tempfile::tempdir().unwrap();
        let database = Sqlite::open(folder.path().join("belfry.db")).unwrap();
        let completions: Arc<dyn Completions> = Arc::new(Unasked);
        let store = Arc::new(Service::start(&database, &completions, &ServiceOptions::default()).unwrap());
        let (outlet, mut inbox) = cluster::inbox(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let writer = KeyWriter::new(store, outlet);
            let ticket = Ticket { sink: 0, id: 7 };
            write(&writer, ticket).unwrap();
            poll_fn(|context| inbox.poll_ready(context)).await;
        });
        let mut answers = Vec::new();
        inbox.take(&mut answers);
        answers
    }
}
