//! The connections of a proxy until they end, and the transfers that they belong to.
//!
//! A connection is in its handshake, then it waits for the other end and the activation, then its transfer is active and the caller moves the
//! bytes. Each state has a deadline but the last, whose silence the caller watches. The caller bounds the connections of one source.

use std::collections::{BTreeSet, HashMap};

use stdx::Instant;

use crate::handshake::{Fault, Handshake, Progress};
use crate::{StreamHash, limits};

/// The bounds of one proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// Connections that are in their handshake or wait. Beyond: new ones are refused.
    pub waiting: usize,
    /// Transfers that are active. Beyond: activations are refused.
    pub transfers: usize,
}

/// Names a connection; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

/// A requester's order to begin (XEP-0065 §6.3.5).
#[derive(Clone, Copy, Debug)]
pub struct Activation<'a> {
    /// The name of the transfer.
    pub hash: StreamHash,
    /// The bare address of the requester.
    pub account: &'a str,
}

/// The reason why a transfer does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationFault {
    /// No connection waits for it.
    Unknown,
    /// Only one end is connected.
    OneEnd,
    /// The account has [`limits::TRANSFERS_PER_ACCOUNT`], or the proxy all that it may have.
    TooMany,
}

/// One end of a transfer that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedConnection {
    /// The connection.
    pub connection: ConnectionId,
    /// Bytes that it has sent for the other end before: at most [`limits::EARLY`] beside what came in one read.
    pub early: Vec<u8>,
}

/// Everything that a [`Proxy`] asks of its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send these bytes, at most those of two replies of RFC 1928.
    Send {
        /// To this connection.
        connection: ConnectionId,
        /// The replies.
        bytes: Vec<u8>,
    },
    /// Close the connection, once what it was sent is on its way. It is forgotten.
    Close {
        /// The connection.
        connection: ConnectionId,
        /// `handshake_timeout`, `not_activated` or [`Fault::name`], for the log.
        reason: &'static str,
    },
    /// Pass the bytes of each on to the other, until both are reported with [`Proxy::handle_closed`].
    Join {
        /// The end that connected first.
        first: JoinedConnection,
        /// The other one.
        second: JoinedConnection,
    },
}

/// The connections and transfers at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections in their handshake, and those that wait for their activation.
    pub waiting: usize,
    /// Transfers that are active.
    pub transfers: usize,
}

#[derive(Debug)]
enum State {
    Handshake(Handshake),
    /// The handshake is done. `early`: bytes for the other end.
    Waiting {
        hash: StreamHash,
        early: Vec<u8>,
    },
    /// Its bytes are the caller's.
    Active {
        hash: StreamHash,
    },
}

#[derive(Debug)]
struct Connection {
    state: State,
    /// The deadline of the state; the active have none.
    until: Instant,
}

/// The ends of one transfer.
#[derive(Debug)]
struct Transfer {
    /// One or two, as they came.
    ends: Vec<ConnectionId>,
    /// The account that has activated it.
    active_for: Option<Box<str>>,
}

/// The connections and transfers of one proxy.
#[derive(Debug)]
pub struct Proxy {
    settings: ProxySettings,
    last: u64,
    connections: HashMap<ConnectionId, Connection>,
    /// One entry for each connection that is not active.
    deadlines: BTreeSet<(Instant, ConnectionId)>,
    transfers: HashMap<StreamHash, Transfer>,
    /// Active transfers by the account that has activated them.
    accounts: HashMap<Box<str>, usize>,
    active: usize,
}

impl Proxy {
    /// A proxy without connections.
    pub fn new(settings: ProxySettings) -> Proxy {
        Proxy {
            settings,
            last: 0,
            connections: HashMap::new(),
            deadlines: BTreeSet::new(),
            transfers: HashMap::new(),
            accounts: HashMap::new(),
            active: 0,
        }
    }

    /// The time at which to call [`Proxy::expire`].
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    /// The connections and transfers now.
    pub fn counts(&self) -> Counts {
        Counts { waiting: self.deadlines.len(), transfers: self.active }
    }

    /// A connection was accepted. `None`: too many wait already, so it is to be closed.
    pub fn handle_accepted(&mut self, now: Instant) -> Option<ConnectionId> {
        if self.deadlines.len() >= self.settings.waiting {
            return None;
        }
        self.last += 1;
        let (id, until) = (ConnectionId(self.last), now + limits::HANDSHAKE);
        self.connections.insert(id, Connection { state: State::Handshake(Handshake::default()), until });
        self.deadlines.insert((until, id));
        Some(id)
    }

    /// True while bytes of the connection are to be read: not of one that has sent enough for an end that is not there.
    pub fn wants_bytes(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| match &connection.state {
            State::Handshake(_) => true,
            State::Waiting { early, .. } => early.len() < limits::EARLY,
            State::Active { .. } => false,
        })
    }

    /// Handles bytes that a connection has sent before its transfer is active. Those of a connection that has ended are dropped.
    pub fn handle_bytes(&mut self, now: Instant, id: ConnectionId, bytes: &[u8], out: &mut Vec<Effect>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let handshake = match &mut connection.state {
            State::Handshake(handshake) => handshake,
            State::Waiting { early, .. } => return early.extend_from_slice(bytes),
            // The caller has given these bytes to the other end.
            State::Active { .. } => return,
        };
        let mut reply = Vec::new();
        let fault = match handshake.handle_bytes(bytes, &mut reply) {
            Progress::Incomplete => None,
            Progress::Requested { hash, early } => self.handle_request(now, id, (hash, early), &mut reply),
            Progress::Refused(fault) => Some(fault),
        };
        if !reply.is_empty() {
            out.push(Effect::Send { connection: id, bytes: reply });
        }
        if let Some(fault) = fault {
            self.handle_closed(id);
            out.push(Effect::Close { connection: id, reason: fault.name() });
        }
    }

    /// The client has named its transfer and becomes one of its ends.
    fn handle_request(
        &mut self,
        now: Instant,
        id: ConnectionId,
        (hash, early): (StreamHash, Vec<u8>),
        reply: &mut Vec<u8>,
    ) -> Option<Fault> {
        let transfer =
            self.transfers.entry(hash).or_insert_with(|| Transfer { ends: Vec::new(), active_for: None });
        if transfer.ends.len() >= 2 || transfer.active_for.is_some() {
            Fault::Taken.put_reply(reply);
            return Some(Fault::Taken);
        }
        transfer.ends.push(id);
        Handshake::put_success(hash, reply);
        if let Some(connection) = self.connections.get_mut(&id) {
            self.deadlines.remove(&(connection.until, id));
            connection.until = now + limits::WAITING;
            self.deadlines.insert((connection.until, id));
            connection.state = State::Waiting { hash, early };
        }
        None
    }

    /// The requester activates its transfer: bytes flow from now on.
    ///
    /// # Errors
    /// The transfer does not begin; its connections go on waiting.
    pub fn activate(
        &mut self,
        activation: Activation<'_>,
        out: &mut Vec<Effect>,
    ) -> Result<(), ActivationFault> {
        let Activation { hash, account } = activation;
        let waiting = self.transfers.get_mut(&hash).filter(|transfer| transfer.active_for.is_none());
        let transfer = waiting.ok_or(ActivationFault::Unknown)?;
        let [first, second] = transfer.ends[..] else { return Err(ActivationFault::OneEnd) };
        let of_account = self.accounts.get(account).copied().unwrap_or(0);
        if of_account >= limits::TRANSFERS_PER_ACCOUNT || self.active >= self.settings.transfers {
            return Err(ActivationFault::TooMany);
        }
        transfer.active_for = Some(account.into());
        self.accounts.insert(account.into(), of_account + 1);
        self.active += 1;
        let [first, second] = [first, second].map(|id| self.join(id, hash));
        out.push(Effect::Join { first, second });
        Ok(())
    }

    fn join(&mut self, id: ConnectionId, hash: StreamHash) -> JoinedConnection {
        let mut early = Vec::new();
        if let Some(connection) = self.connections.get_mut(&id) {
            self.deadlines.remove(&(connection.until, id));
            if let State::Waiting { early: sent, .. } = &mut connection.state {
                early = std::mem::take(sent);
            }
            connection.state = State::Active { hash };
        }
        JoinedConnection { connection: id, early }
    }

    /// A connection has ended, whichever side has closed it. The other end of a transfer that is not active goes on waiting, as its
    /// peer may connect again.
    pub fn handle_closed(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.deadlines.remove(&(connection.until, id));
        let (State::Waiting { hash, .. } | State::Active { hash }) = connection.state else { return };
        let Some(transfer) = self.transfers.get_mut(&hash) else { return };
        transfer.ends.retain(|end| *end != id);
        if !transfer.ends.is_empty() {
            return;
        }
        if let Some(account) = self.transfers.remove(&hash).and_then(|transfer| transfer.active_for) {
            self.active -= 1;
            if let Some(count) = self.accounts.get_mut(&account) {
                *count -= 1;
                if *count == 0 {
                    self.accounts.remove(&account);
                }
            }
        }
    }

    /// Closes the connections whose time is over at `now`.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some((_, id)) = self.deadlines.first().copied().filter(|(until, _)| *until <= now) {
            let is_waiting =
                self.connections.get(&id).is_some_and(|one| matches!(one.state, State::Waiting { .. }));
            let reason = if is_waiting { "not_activated" } else { "handshake_timeout" };
            self.handle_closed(id);
            out.push(Effect::Close { connection: id, reason });
        }
    }
}

#[cfg(test)]
mod tests;
