//! Orders of a farm: one node orders at a time, all use the certificate, and each answers the authority.
//!
//! The nodes share a table of three values for each authority: `certificate`, the chain with its key; `account`, so that whichever node orders does so by
//! the same account; and `order`, the [`OrderBook`]. A node takes the order by a compare-and-swap of the book. One that does not end its order within
//! `limits::FARM_ORDER`, counted by each node's own clock from the time at which it saw the book change, has lost it.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use stdx::Instant;

use crate::challenges::Answers;
use crate::order::Issued;
use crate::{ChallengeKind, limits};

/// An answer of the table that is awaited.
pub type Awaited<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The table that all nodes of the farm see alike, which keeps its values secret.
pub trait FarmTable {
    /// A value as it was seen last, with its revision.
    fn get(&self, name: &str) -> Option<(u64, Vec<u8>)>;

    /// Replaces a value whose revision is still this; 0: there is none. `false`: another write came before. The error says why the table is away.
    fn swap<'a>(&'a self, name: &'a str, revision: u64, value: Vec<u8>) -> Awaited<'a, Result<bool, String>>;

    /// The number of changes so far; 0 until the table is there.
    fn changes(&self) -> u64;

    /// Waits until there were more changes than these.
    fn changed(&self, seen: u64) -> Awaited<'_, ()>;
}

/// The state of the farm's orders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct OrderBook {
    /// The node that orders; empty: none does.
    holder: String,
    /// The times at which the latest orders began, in seconds since 1970.
    begun: Vec<u64>,
    /// No order begins before, in seconds since 1970.
    retry_at: u64,
    /// The answers to the challenges of the order that goes on.
    proofs: Vec<Proof>,
}

/// The answer to the challenge of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proof {
    pub(crate) name: String,
    pub(crate) token: String,
    pub(crate) authorization: String,
}

/// The certificate of the farm.
#[derive(Serialize, Deserialize)]
struct SharedCertificate {
    chain: String,
    key: String,
}

/// A node's view of the orders of its farm.
pub struct FarmOrders {
    table: Rc<dyn FarmTable>,
    /// The name of this node.
    node: String,
    /// The first part of the names of values: the authority.
    authority: String,
    /// The revision of the book, and the time at which it was first seen.
    seen: Cell<(u64, Instant)>,
    /// The revision of the certificate that is in use here.
    installed: Cell<u64>,
    /// The revision of the book that this node has written last, while it orders.
    held: RefCell<Option<OrderBook>>,
}

impl FarmOrders {
    /// Orders of the farm by this node.
    pub fn new(table: Rc<dyn FarmTable>, node: &str, authority: &str) -> FarmOrders {
        FarmOrders {
            table,
            node: node.to_owned(),
            authority: authority.to_owned(),
            seen: Cell::new((0, Instant::default())),
            installed: Cell::new(0),
            held: RefCell::default(),
        }
    }

    fn name(&self, value: &str) -> String {
        format!("{}.{value}", self.authority)
    }

    fn read<T: for<'a> Deserialize<'a>>(&self, value: &str) -> Option<(u64, T)> {
        let (revision, bytes) = self.table.get(&self.name(value))?;
        Some((revision, serde_json::from_slice(&bytes).ok()?))
    }

    async fn write<T: Serialize>(&self, value: &str, revision: u64, content: &T) -> Result<bool, String> {
        let bytes = serde_json::to_vec(content).map_err(|error| error.to_string())?;
        self.table.swap(&self.name(value), revision, bytes).await
    }

    /// The book with its revision; a new one where there is none, or none that can be read.
    fn book(&self) -> (u64, OrderBook) {
        let revision = self.table.get(&self.name("order")).map_or(0, |(revision, _)| revision);
        (revision, self.read("order").map(|(_, book)| book).unwrap_or_default())
    }

    /// Looks at the clock: a book that has changed was seen now.
    pub(crate) fn look(&self, now: Instant) {
        let (revision, _) = self.book();
        if self.seen.get().0 != revision {
            self.seen.set((revision, now));
        }
    }

    /// The node that orders now, if one does.
    fn holder(&self, now: Instant) -> Option<OrderBook> {
        let (_, book) = self.book();
        let is_lost = now.since(self.seen.get().1) >= limits::FARM_ORDER;
        (!book.holder.is_empty() && !is_lost).then_some(book)
    }

    /// True if another node orders now.
    pub(crate) fn is_taken(&self, now: Instant) -> bool {
        self.holder(now).is_some_and(|book| book.holder != self.node)
    }

    /// The answers to the challenges of another node's order. `None`: there is no such order, or it has none yet.
    pub(crate) fn answers_of_other(&self, now: Instant, kind: ChallengeKind) -> Option<Answers> {
        let book = self.holder(now).filter(|book| book.holder != self.node && !book.proofs.is_empty())?;
        answers_of(kind, &book.proofs).ok()
    }

    /// Orders of the farm that were begun, and the time before which none begins.
    pub(crate) fn past(&self) -> (Vec<Instant>, Instant) {
        let (_, book) = self.book();
        let begun = book.begun.into_iter().map(Instant::from_unix_seconds).collect();
        (begun, Instant::from_unix_seconds(book.retry_at))
    }

    /// Takes the order for this node. `false`: another node has it.
    ///
    /// # Errors
    /// The table is away.
    pub(crate) async fn take(&self, now: Instant) -> Result<bool, String> {
        self.look(now);
        if self.is_taken(now) {
            return Ok(false);
        }
        let (revision, mut book) = self.book();
        book.holder.clone_from(&self.node);
        book.proofs.clear();
        let is_taken = self.write("order", revision, &book).await?;
        self.look(now);
        self.held.replace(is_taken.then_some(book));
        Ok(is_taken)
    }

    /// Writes the book of this node's order.
    async fn rewrite(&self, change: impl FnOnce(&mut OrderBook)) -> Result<(), String> {
        let Some(mut book) = self.held.borrow().clone() else {
            return Err("this node has no order".to_owned());
        };
        let (revision, known) = self.book();
        if known != book {
            return Err("another node has taken the order".to_owned());
        }
        change(&mut book);
        if !self.write("order", revision, &book).await? {
            return Err("another node has taken the order".to_owned());
        }
        self.held.replace(Some(book));
        Ok(())
    }

    /// An order begins: before the authority counts it.
    pub(crate) async fn note_begun(&self, begun: impl Iterator<Item = Instant>) -> Result<(), String> {
        let begun = begun.map(Instant::unix_seconds).collect();
        self.rewrite(|book| book.begun = begun).await
    }

    /// Gives all nodes the answers to the challenges of this node's order.
    pub(crate) async fn publish(&self, proofs: &[Proof]) -> Result<(), String> {
        let proofs = proofs.to_vec();
        self.rewrite(|book| book.proofs = proofs).await
    }

    /// The order has ended. A book that cannot be written is free after `limits::FARM_ORDER`.
    pub(crate) async fn release(&self, retry_at: Instant) {
        let released = self.rewrite(|book| {
            book.holder.clear();
            book.proofs.clear();
            book.retry_at = retry_at.unix_seconds();
        });
        if let Err(why) = released.await {
            tracing::warn!(why, "the end of an order could not be told to the other nodes");
        }
        self.held.replace(None);
    }

    /// The account at the authority, as `account.json` has it; empty: one that is of no use was put aside.
    pub(crate) fn account(&self) -> Option<String> {
        self.read("account").map(|(_, account)| account).filter(|account: &String| !account.is_empty())
    }

    /// Shares the account.
    pub(crate) async fn put_account(&self, account: &str) -> Result<(), String> {
        let revision = self.table.get(&self.name("account")).map_or(0, |(revision, _)| revision);
        self.write("account", revision, &account).await.map(drop)
    }

    /// A certificate that is not in use here yet.
    pub(crate) fn new_certificate(&self) -> Option<(u64, Issued)> {
        let (revision, SharedCertificate { chain, key }) = self.read("certificate")?;
        (revision != self.installed.get()).then_some((revision, Issued { chain, key }))
    }

    /// The certificate of this revision is in use, or of no use.
    pub(crate) fn note_installed(&self, revision: u64) {
        self.installed.set(revision);
    }

    /// Shares a certificate that is in use here.
    pub(crate) async fn put_certificate(&self, issued: &Issued) -> Result<(), String> {
        let revision = self.table.get(&self.name("certificate")).map_or(0, |(revision, _)| revision);
        let shared = SharedCertificate { chain: issued.chain.clone(), key: issued.key.clone() };
        if !self.write("certificate", revision, &shared).await? {
            return Err("another node has shared a certificate meanwhile".to_owned());
        }
        let revision = self.table.get(&self.name("certificate")).map_or(0, |(revision, _)| revision);
        self.note_installed(revision);
        Ok(())
    }

    /// The number of changes of the table so far.
    pub(crate) fn changes(&self) -> u64 {
        self.table.changes()
    }

    /// Waits for another change of the table.
    pub(crate) async fn changed(&self, seen: u64) {
        self.table.changed(seen).await;
    }
}

/// # Errors
/// The certificate for a challenge cannot be made; the text says why.
pub(crate) fn answers_of(kind: ChallengeKind, proofs: &[Proof]) -> Result<Answers, String> {
    let mut answers = Answers::new(kind);
    for Proof { name, token, authorization } in proofs {
        answers.insert(name, token, authorization)?;
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

    /// The table of a farm without a council.
    #[derive(Default)]
    struct Memory {
        entries: RefCell<HashMap<String, (u64, Vec<u8>)>>,
        revision: Cell<u64>,
        is_away: Cell<bool>,
    }

    impl FarmTable for Memory {
        fn get(&self, name: &str) -> Option<(u64, Vec<u8>)> {
            self.entries.borrow().get(name).cloned()
        }

        fn swap<'a>(
            &'a self,
            name: &'a str,
            revision: u64,
            value: Vec<u8>,
        ) -> Awaited<'a, Result<bool, String>> {
            Box::pin(async move {
                if self.is_away.get() {
                    return Err("away".to_owned());
                }
                if self.get(name).map_or(0, |(revision, _)| revision) != revision {
                    return Ok(false);
                }
                self.revision.set(self.revision.get() + 1);
                self.entries.borrow_mut().insert(name.to_owned(), (self.revision.get(), value));
                Ok(true)
            })
        }

        fn changes(&self) -> u64 {
            self.revision.get()
        }

        fn changed(&self, _: u64) -> Awaited<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn nodes() -> (Rc<Memory>, FarmOrders, FarmOrders) {
        let memory = Rc::new(Memory::default());
        let of = |name| FarmOrders::new(Rc::clone(&memory) as Rc<dyn FarmTable>, name, "a.test");
        (Rc::clone(&memory), of("n0"), of("n1"))
    }

    fn on_one_thread<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn proof(token: &str) -> Proof {
        Proof { name: "a.test".into(), token: token.into(), authorization: format!("{token}.thumbprint") }
    }

    #[test]
    fn one_node_orders_and_the_others_answer_until_it_has_ended() {
        on_one_thread(async {
            let (_, n0, n1) = nodes();
            assert_eq!((n0.take(NOW).await, n1.take(NOW).await), (Ok(true), Ok(false)));
            assert!(n1.is_taken(NOW) && !n0.is_taken(NOW));
            n0.note_begun([NOW].into_iter()).await.unwrap();
            n1.look(NOW);
            assert!(n1.answers_of_other(NOW, ChallengeKind::Http01).is_none(), "there are no proofs yet");
            n0.publish(&[proof("token")]).await.unwrap();
            n1.look(NOW);
            let answers = n1.answers_of_other(NOW, ChallengeKind::Http01).unwrap();
            assert_eq!(answers.file("token").as_deref(), Some("token.thumbprint"));
            assert!(n0.answers_of_other(NOW, ChallengeKind::Http01).is_none(), "it answers for itself");
            let retry = NOW + Duration::from_secs(300);
            n0.release(retry).await;
            n1.look(NOW);
            assert!(!n1.is_taken(NOW) && n1.answers_of_other(NOW, ChallengeKind::Http01).is_none());
            assert_eq!(n1.past(), (vec![NOW], retry), "it counts the orders of the farm");
        });
    }

    #[test]
    fn an_order_that_does_not_end_is_lost_and_its_node_learns_that() {
        on_one_thread(async {
            let (_, n0, n1) = nodes();
            assert_eq!(n0.take(NOW).await, Ok(true));
            n1.look(NOW);
            let later = NOW + limits::FARM_ORDER;
            assert_eq!(n1.take(later - Duration::from_secs(1)).await, Ok(false));
            assert_eq!(n1.take(later).await, Ok(true));
            assert!(n0.publish(&[proof("old")]).await.is_err());
            n1.publish(&[proof("new")]).await.unwrap();
            n0.look(later);
            let answers = n0.answers_of_other(later, ChallengeKind::Http01).unwrap();
            assert!(answers.file("new").is_some() && answers.file("old").is_none());
        });
    }

    #[test]
    fn a_certificate_and_the_account_come_to_each_node_once() {
        on_one_thread(async {
            let (memory, n0, n1) = nodes();
            let issued = Issued { chain: "chain".into(), key: "key".into() };
            n0.put_certificate(&issued).await.unwrap();
            n0.put_account("{}").await.unwrap();
            assert!(n0.new_certificate().is_none(), "it is in use there");
            let (revision, found) = n1.new_certificate().unwrap();
            assert_eq!((found.chain.as_str(), found.key.as_str()), ("chain", "key"));
            n1.note_installed(revision);
            assert!(n1.new_certificate().is_none());
            assert_eq!(n1.account().as_deref(), Some("{}"));
            memory.is_away.set(true);
            assert!(n1.take(NOW).await.is_err() && n1.put_certificate(&issued).await.is_err());
        });
    }
}
