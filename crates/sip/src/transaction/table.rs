//! All transactions of one shard: found by the fields of a message (RFC 3261 §17.1.3, §17.2.3), woken by the
//! shard's wheel. A finished one waits here for its last timer, so its size is a capacity figure.

use std::net::{SocketAddr, SocketAddrV4};

use hashbrown::HashTable;
use stdx::Instant;
use stdx::hash::Keyed;
use stdx::slab::{Key, Slab};

use super::{ServerInvite, TransactionMachine};
use crate::endpoint::SourceCredit;
use crate::transport::{Target, Transport};
use crate::wire::{Message, Method, Via};

/// One transaction: its machine, its target, and its user.
#[derive(Debug)]
pub struct Transaction<U> {
    /// Its state and timers.
    pub machine: TransactionMachine,
    target: CompactTarget,
    /// The owner of the transaction, in the RFC's sense of a transaction user (RFC 3261 §5).
    pub user: U,
    /// The bytes that may be sent to an unproved source; `None`: anything.
    pub(crate) credit: Option<Box<SourceCredit>>,
    hash: u64,
    /// The earliest wheel entry that is outstanding for it.
    armed: Instant,
}

impl<U> Transaction<U> {
    /// The destination of a client's request, or of a server's responses.
    pub fn target(&self) -> Target {
        self.target.target()
    }

    /// True if its messages are noted in the ladder of their call.
    pub(crate) fn is_in_ladder(&self) -> bool {
        match self.target {
            CompactTarget::UdpV4 { is_in_ladder, .. } | CompactTarget::Other { is_in_ladder, .. } => {
                is_in_ladder
            }
        }
    }
}

/// A [`Target`] in 16 bytes where it is an IPv4 address by UDP, as the most of those are whose transactions linger. The mark of a transaction
/// whose call has a ladder is here, where it takes no room.
#[derive(Debug)]
enum CompactTarget {
    UdpV4 { remote: SocketAddrV4, local: SocketAddrV4, reconnect: bool, is_in_ladder: bool },
    Other { target: Box<Target>, is_in_ladder: bool },
}

impl CompactTarget {
    fn of(target: Target) -> Self {
        match target {
            Target {
                transport: Transport::Udp,
                remote: SocketAddr::V4(remote),
                local: Some(SocketAddr::V4(local)),
                flow: None,
                tls_name: None,
                reconnect,
            } => CompactTarget::UdpV4 { remote, local, reconnect, is_in_ladder: false },
            other => CompactTarget::Other { target: Box::new(other), is_in_ladder: false },
        }
    }

    fn target(&self) -> Target {
        match self {
            &CompactTarget::UdpV4 { remote, local, reconnect, .. } => Target {
                transport: Transport::Udp,
                remote: remote.into(),
                local: Some(local.into()),
                flow: None,
                tls_name: None,
                reconnect,
            },
            CompactTarget::Other { target, .. } => (**target).clone(),
        }
    }
}

/// The table of a shard. `U` is how its owner names transaction users.
pub struct TransactionTable<U> {
    slab: Slab<Transaction<U>>,
    index: HashTable<Key>,
    keyed: Keyed,
}

impl<U> TransactionTable<U> {
    /// `seed` keeps peers from choosing colliding branches.
    pub fn new(seed: [u8; 16]) -> Self {
        TransactionTable { slab: Slab::new(), index: HashTable::new(), keyed: Keyed::new(seed) }
    }

    /// The number of transactions.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// True without transactions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The server transaction key of a request. ACK belongs to its INVITE; `method` is what to look for.
    pub fn server_hash(&self, request: &Message, via: &Via<'_>, method: Method) -> u64 {
        let name = match method {
            Method::Ack | Method::Invite => Method::Invite.as_str().as_bytes(),
            Method::Other => request.method_name(),
            _ => method.as_str().as_bytes(),
        };
        let port = via.port.unwrap_or(0).to_be_bytes();
        match via.branch() {
            Some(branch) if via.has_magic_branch() => {
                self.keyed.hash_parts(&[b"s", branch, via.host, &port, name])
            }
            // RFC 2543 peers: §17.2.3, second list. The To tag of an ACK is the response's, so it is left out.
            _ => self.keyed.hash_parts(&[
                b"o",
                request.uri(),
                via.branch().unwrap_or_default(),
                request.from_tag().unwrap_or_default(),
                request.call_id().unwrap_or_default(),
                &request.cseq().map_or(0, |(number, _)| number).to_be_bytes(),
                via.host,
                &port,
                name,
            ]),
        }
    }

    /// The client transaction key of a response, or of a request we send (§17.1.3). Of the whole branch: our own requests to
    /// several contacts, or in several dialogs, may differ in its second token alone.
    pub fn client_hash(&self, branch: &[u8], method: &[u8]) -> u64 {
        self.keyed.hash_parts(&[b"c", branch, method])
    }

    /// The transaction with this hash of its key.
    pub fn find(&self, hash: u64) -> Option<Key> {
        let slab = &self.slab;
        self.index.find(hash, |&key| slab.get(key).is_some_and(|tx| tx.hash == hash)).copied()
    }

    /// Inserts a transaction under the hash of its key.
    pub fn insert(&mut self, hash: u64, machine: TransactionMachine, target: Target, user: U) -> Key {
        let armed = Instant::FAR_FUTURE;
        let target = CompactTarget::of(target);
        let key = self.slab.insert(Transaction { machine, target, user, credit: None, hash, armed });
        let slab = &self.slab;
        self.index.insert_unique(hash, key, |&key| slab.get(key).map_or(0, |tx| tx.hash));
        key
    }

    /// True if the transaction's call has a ladder.
    pub(crate) fn is_in_ladder(&self, key: Key) -> bool {
        self.get(key).is_some_and(Transaction::is_in_ladder)
    }

    /// The messages of the transaction are noted in the ladder of their call from now on.
    pub(crate) fn set_in_ladder(&mut self, key: Key) {
        if let Some(CompactTarget::UdpV4 { is_in_ladder, .. } | CompactTarget::Other { is_in_ladder, .. }) =
            self.slab.get_mut(key).map(|transaction| &mut transaction.target)
        {
            *is_in_ladder = true;
        }
    }

    /// The transaction of a key.
    pub fn get(&self, key: Key) -> Option<&Transaction<U>> {
        self.slab.get(key)
    }

    /// The transaction of a key, to be changed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut Transaction<U>> {
        self.slab.get_mut(key)
    }

    /// After any event: forgets a terminated transaction, or says when the wheel must wake it. Asks for a new
    /// wheel entry only when none outstanding is early enough.
    pub fn settle(&mut self, key: Key) -> Option<Instant> {
        let transaction = self.slab.get_mut(key)?;
        if transaction.machine.is_terminated() {
            self.remove(key);
            return None;
        }
        let deadline = transaction.machine.deadline();
        if deadline >= transaction.armed {
            return None;
        }
        transaction.armed = deadline;
        Some(deadline)
    }

    /// The wheel fired for this transaction. `None` when the entry that fired was replaced by an earlier one,
    /// which has armed the next.
    pub fn disarm(&mut self, now: Instant, key: Key) -> Option<&mut Transaction<U>> {
        let transaction = self.slab.get_mut(key).filter(|transaction| transaction.armed <= now)?;
        transaction.armed = Instant::FAR_FUTURE;
        Some(transaction)
    }

    /// True if it is an INVITE's server transaction that has passed on a 2xx.
    pub fn is_accepted(&self, key: Key) -> bool {
        let machine = self.get(key).map(|transaction| &transaction.machine);
        matches!(machine, Some(TransactionMachine::ServerInvite(ServerInvite::Accepted { .. })))
    }

    /// Removes a transaction.
    pub fn remove(&mut self, key: Key) {
        let Some(transaction) = self.slab.remove(key) else { return };
        if let Ok(entry) = self.index.find_entry(transaction.hash, |&other| other == key) {
            entry.remove();
        }
    }
}
