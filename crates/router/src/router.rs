//! The machine that owns the soft state of the addresses of its shard. Bytes and time in, effects out.

use std::collections::{BTreeSet, HashMap, VecDeque};

use stdx::Instant;
use stdx::cache::Cache;
use stdx::hash::{HashedKeys, Keyed};
use stdx::outage::{Held, Outage, OutageSettings};
use stdx::rate::TokenBucket;

use crate::interface::{
    AccountUnread, Answer, Aor, AskId, Binding, KeepRefused, Life, Offered, Presence, Push, Query, Register,
    RegisterRefused, ShardAddress, WaitingMessage,
};
use crate::kept::MessageQueue;
use crate::limits;
use crate::location::{BindingSlot, Location};
use crate::record::{self, Corrupt};
use crate::registrar::{self, Registered};
use crate::soft::SoftStates;
use crate::watch::ListedEdges;

/// Everything a router can ask of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// To the edge that asked.
    Answer {
        /// The edge that asked.
        to: ShardAddress,
        /// The id of its query.
        id: AskId,
        /// The answer.
        answer: Answer,
    },
    /// To an edge that did not ask.
    Push {
        /// The edge that watches, or has the address's phones.
        to: ShardAddress,
        /// The change.
        push: Push,
    },
    /// The presence of an address, sent when it may have changed, if `RouterSettings::tells_presence` is set.
    Presence {
        /// The address.
        aor: Aor,
        /// Its presence now.
        presence: Presence,
    },
    /// Append to the log; `handle_written` with the ticket when the group is on disk, or is not.
    WriteBinding {
        /// Pairs the write with its `handle_written`.
        ticket: u64,
        /// The row to append.
        row: BindingRow,
    },
    /// This row of the log is dead: all its bindings have ended. No answer waits for it; a row that is not deleted is found
    /// dead again at the next start.
    ForgetBinding {
        /// The row's number in the log.
        row: i64,
    },
    /// Store under a number of the store's own; `handle_written` with the ticket.
    KeepMessage {
        /// Pairs the write with its `handle_written`.
        ticket: u64,
        /// The message, with `id` 0.
        message: Box<WaitingMessage>,
    },
    /// Delete. No answer waits for it; deleting twice is harmless.
    ForgetMessage {
        /// The address that the message was kept for.
        aor: Aor,
        /// `WaitingMessage::id`.
        id: u64,
    },
    /// Read all that is kept for this address, oldest first: `handle_kept`.
    LoadKept {
        /// The address that has come back.
        aor: Aor,
    },
}

/// A row of the log of bindings: the complete set of an address.
#[derive(Clone, Debug, PartialEq)]
pub struct BindingRow {
    /// The address of record.
    pub aor: Aor,
    /// The number of the row that held the set until now; it is dead once this one is on disk.
    pub replaces: Option<i64>,
    /// Nothing is bound any more.
    pub empties: bool,
    /// The bindings as bytes, for `Router::replay`.
    pub record: Box<[u8]>,
}

/// The store could not write a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteFailed;

/// The settings of a [`Router`].
#[derive(Clone, Debug)]
pub struct RouterSettings {
    /// True if messages are kept for addresses without bindings; otherwise `Keep` is refused with `TooMany`.
    pub keep_messages: bool,
    /// True if changes of all addresses are told here, watched or not: chat has to know them of all accounts
    /// that are signed in, and a watch of each would be most of an idle session's cost.
    pub tells_presence: bool,
}

impl Default for RouterSettings {
    fn default() -> Self {
        RouterSettings { keep_messages: true, tells_presence: false }
    }
}

/// The entries that this router holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Addresses with a binding, or that had one until lately.
    /// Addresses with any state.
    pub addresses: usize,
    /// Live contacts of all addresses.
    pub bindings: usize,
    /// Watches of all edges.
    pub watches: usize,
    /// Live publications.
    pub publications: usize,
    /// Dialogs of all addresses.
    pub calls: usize,
    /// Messages kept in the database that are known here.
    pub kept_messages: usize,
    /// Changes on their way to the disk.
    pub writes: usize,
    /// Bytes held by bindings and their index, an estimate.
    pub memory: usize,
}

/// The owner of soft state: bindings, presence, call states, waiting messages.
pub struct Router {
    pub(crate) settings: RouterSettings,
    pub(crate) keyed: Keyed,
    pub(crate) location: Location,
    pub(crate) soft: SoftStates,
    pub(crate) kept: MessageQueue,
    pub(crate) call_rates: Cache<Aor, TokenBucket>,
    /// By ticket. Tickets are numbered one after the other, so that they spread over the table without a hash.
    pub(crate) writes: HashMap<u64, PendingWrite, HashedKeys>,
    /// Addresses with a REGISTER on its way to the disk, and those that wait for it: the next one must see
    /// what this one did, and must not build on it when it fails.
    pub(crate) lines: HashMap<Aor, VecDeque<(WaitingEdge, Register)>>,
    /// The tickets of changes that wait for a database that is away.
    pub(crate) outage: Outage<u64>,
    pub(crate) listed_edges: ListedEdges,
    /// The shards that have reported calls; those that are gone leave with [`forget_calls`](crate::forget_calls).
    pub(crate) callers: BTreeSet<ShardAddress>,
    last_ticket: u64,
    pub(crate) last_etag: u64,
}

/// The edge and question that get the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingEdge {
    pub(crate) edge: ShardAddress,
    pub(crate) id: AskId,
}

impl WaitingEdge {
    pub(crate) fn answer(self, answer: Answer, out: &mut Vec<Effect>) {
        out.push(Effect::Answer { to: self.edge, id: self.id, answer });
    }
}

/// A change on its way to the disk.
pub(crate) enum PendingWrite {
    /// A change of an address's set.
    Bindings(Box<BindingChange>),
    /// `absent`: the address had no binding when it was asked.
    Message { asker: WaitingEdge, aor: Aor, absent: bool },
}

/// A REGISTER on its way to the disk.
pub(crate) struct BindingChange {
    pub(crate) asker: WaitingEdge,
    /// It may be written again if the database is away; false once its bucket has ended here.
    pub(crate) may_wait: bool,
    /// The time of its first write.
    arrived: Instant,
    pub(crate) aor: Aor,
    /// `BindingRow::replaces`.
    replaces: Option<i64>,
    bindings: Vec<Binding>,
    /// The set as the table is going to keep it.
    slot: BindingSlot,
}

impl BindingChange {
    /// The row for the log.
    fn row(&self) -> BindingRow {
        let (aor, replaces) = (self.aor.clone(), self.replaces);
        let record = record::encode(&aor, &self.bindings);
        BindingRow { aor, replaces, empties: self.bindings.is_empty(), record }
    }
}

/// How changes wait for a database that is away.
const OUTAGE: OutageSettings = OutageSettings {
    patience: limits::HELD_PATIENCE,
    known_after: limits::AWAY_FOR_LONG,
    first_pause: limits::HELD_PAUSE,
    longest_pause: limits::HELD_PAUSE_MOST,
    most: limits::HELD_CHANGES,
};

impl PendingWrite {
    pub(crate) fn aor(&self) -> &str {
        match self {
            PendingWrite::Bindings(change) => &change.aor,
            PendingWrite::Message { aor, .. } => aor,
        }
    }
}

impl Router {
    /// An empty router. `hash_key` keys the hashes of addresses.
    pub fn new(settings: RouterSettings, hash_key: [u8; 16], now: Instant) -> Self {
        let keyed = Keyed::new(hash_key);
        Router {
            settings,
            location: Location::new(keyed.clone(), now),
            soft: SoftStates::new(keyed.clone(), now),
            kept: MessageQueue::new(keyed.clone(), now),
            keyed,
            call_rates: Cache::new(limits::CALL_RATES),
            writes: HashMap::default(),
            lines: HashMap::new(),
            outage: Outage::new(OUTAGE),
            listed_edges: ListedEdges::default(),
            callers: BTreeSet::new(),
            last_ticket: 0,
            last_etag: 0,
        }
    }

    /// One row of the log of bindings and its number, in log order, before the first query for its address. Appends to
    /// `dead` the numbers of rows that this one shows to be dead, which may be its own. `others` are the lives of the other
    /// nodes that run: flows that these hold are kept.
    ///
    /// # Errors
    /// `Corrupt` when no version of this program wrote the row; nothing is changed then.
    pub fn replay(
        &mut self,
        now: Instant,
        row: i64,
        record: &[u8],
        others: &[Life],
        dead: &mut Vec<i64>,
    ) -> Result<(), Corrupt> {
        self.location.replay(now, row, record, others, dead)
    }

    /// Sets the number of messages that the store keeps for this address; at start.
    pub fn seed_kept(&mut self, aor: &str, count: u32) {
        self.kept.seed(aor, count);
    }

    /// Handles a query of an edge. The answer, changes of the store and news for watchers go to `out`.
    pub fn handle_query(
        &mut self,
        now: Instant,
        from: ShardAddress,
        id: AskId,
        query: Query,
        out: &mut Vec<Effect>,
    ) {
        let asker = WaitingEdge { edge: from, id };
        match query {
            Query::Lookup { aor } => asker.answer(Answer::Bindings(self.location.lookup(now, &aor)), out),
            Query::Register(register) => self.handle_register(now, asker, *register, out),
            Query::Watch { aor, topic, watch, until } => {
                let state = self.watch(now, from, &aor, topic, watch, until, out);
                asker.answer(Answer::State(state), out);
            }
            Query::WatchByConsent { aor, topic, watch, .. } => {
                self.soft.unwatch(now, from, &aor, topic, watch);
                asker.answer(Answer::WatchRefused, out);
            }
            Query::Unwatch { aor, topic, watch } => self.soft.unwatch(now, from, &aor, topic, watch),
            Query::Publish(publish) => {
                let published = self.publish(now, &publish);
                let changed = published.is_ok();
                asker.answer(Answer::Published(published), out);
                if changed {
                    self.notify(now, &publish.aor, out);
                }
            }
            Query::CallChanged { aor, call } => self.handle_call_changed(now, from, (&aor, call), out),
            Query::Watched { owner, .. } => self.list_watched(now, from, owner, out),
            Query::Admit(admission) => {
                let admitted = self.admit(now, from, &admission, out);
                asker.answer(Answer::Admitted(admitted), out);
            }
            Query::Keep(message) => self.handle_keep(now, asker, message, limits::KEPT_PER_ADDRESS, out),
            Query::KeepOfStranger(message) => {
                self.handle_keep(now, asker, message, limits::KEPT_OF_STRANGERS, out);
            }
            Query::Offer(_) => asker.answer(Answer::Offered(Offered::NoClient), out),
            Query::ChatChanged { aor, chat } => self.handle_chat_changed(now, &aor, chat, out),
            Query::Delivered { aor, message } => self.handle_delivered(now, &aor, message, out),
            Query::Account { .. } => asker.answer(Answer::Account(Err(AccountUnread)), out),
        }
    }

    /// The group with this ticket is on disk, or certainly not acknowledged. `result`: the number of the row.
    pub fn handle_written(
        &mut self,
        now: Instant,
        ticket: u64,
        result: Result<i64, WriteFailed>,
        out: &mut Vec<Effect>,
    ) {
        let pending = self.writes.remove(&ticket);
        if pending.is_some() && result.is_ok() && self.outage.is_away() {
            self.write_held(out);
        }
        match pending {
            Some(PendingWrite::Bindings(change)) => {
                let BindingChange { asker, aor, bindings, slot, .. } = *change;
                match result {
                    Ok(row) => {
                        self.location.put_slot(&aor, row, &bindings, slot);
                        self.bind(now, asker, &aor, bindings, out);
                    }
                    Err(WriteFailed) => refuse(asker, RegisterRefused::StoreFailed, out),
                }
                self.next_in_line(now, &aor, out);
            }
            Some(PendingWrite::Message { asker, aor, absent }) => {
                self.kept.handle_written(&aor, result.is_ok());
                let kept = result.map(drop).map_err(|WriteFailed| KeepRefused::StoreFailed);
                asker.answer(Answer::Kept(kept), out);
                self.notify(now, &aor, out);
                // The address came while its message was being written: no other event looks for it.
                if absent && self.location.is_bound(now, &aor) {
                    self.load_kept(now, asker.edge, &aor, out);
                }
            }
            // Not ours: tickets are answered once.
            None => {}
        }
    }

    /// The database is away: the group with this ticket is not in it, or its answer was lost. A change of bindings waits for some
    /// seconds and is written again, which is harmless: its row holds the whole set, and later changes of the address wait behind it. All
    /// others have failed.
    pub fn handle_unreachable(&mut self, now: Instant, ticket: u64, out: &mut Vec<Effect>) {
        if let Some(PendingWrite::Bindings(change)) = self.writes.get(&ticket) {
            self.outage.fail(now);
            if change.may_wait && self.outage.hold(now, change.arrived, ticket).is_ok() {
                return;
            }
        }
        self.handle_written(now, ticket, Err(WriteFailed), out);
    }

    /// Writes all changes that have waited for the database: it is back.
    fn write_held(&mut self, out: &mut Vec<Effect>) {
        for held in self.outage.succeed() {
            self.write_again(held, out);
        }
    }

    fn write_again(&self, held: Held<u64>, out: &mut Vec<Effect>) {
        let ticket = held.request;
        if let Some(PendingWrite::Bindings(change)) = self.writes.get(&ticket) {
            out.push(Effect::WriteBinding { ticket, row: change.row() });
        }
    }

    /// Drops expired state. Call it when `deadline` has come; lookups are right even before.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let (mut changed, mut dead) = (Vec::new(), Vec::new());
        self.location.expire(now, &mut changed, &mut dead);
        out.extend(dead.into_iter().map(|row| Effect::ForgetBinding { row }));
        self.soft.expire(now, &mut changed);
        self.kept.expire(now);
        while let Some(held) = self.outage.expire(now) {
            self.handle_written(now, held.request, Err(WriteFailed), out);
        }
        if let Some(held) = self.outage.take_try(now) {
            self.write_again(held, out);
        }
        for aor in changed {
            self.notify(now, &aor, out);
        }
    }

    /// When `expire` has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        let (location, outage) = (self.location.deadline(), self.outage.deadline());
        [location, self.soft.deadline(), self.kept.deadline(), outage].into_iter().flatten().min()
    }

    /// The first registered addresses behind `after` that begin with `prefix`, `most` of them, in their order and with their bindings;
    /// and the number of all that begin so. Looks at every address once, which takes some ten milliseconds for a hundred thousand:
    /// for operators only.
    pub fn registrations(
        &self,
        now: Instant,
        (prefix, after): (&str, &str),
        most: usize,
    ) -> (Vec<(Aor, Vec<Binding>)>, usize) {
        let (aors, total) = self.location.page(now, prefix, after, most);
        let with_bindings = |aor: Aor| (self.location.lookup(now, &aor), aor);
        let page = aors.into_iter().map(with_bindings).map(|(bindings, aor)| (aor, bindings));
        (page.collect(), total)
    }

    /// The figures of this moment, for metrics.
    pub fn counts(&self) -> Counts {
        Counts {
            addresses: self.location.addresses(),
            bindings: self.location.bindings(),
            watches: self.soft.watches(),
            publications: self.soft.publications(),
            calls: self.soft.calls(),
            kept_messages: self.kept.total(),
            writes: self.writes.len(),
            memory: self.location.memory(),
        }
    }

    fn handle_register(
        &mut self,
        now: Instant,
        asker: WaitingEdge,
        register: Register,
        out: &mut Vec<Effect>,
    ) {
        match self.lines.get_mut(&register.aor) {
            Some(line) if line.len() >= limits::REGISTERS_IN_LINE => {
                refuse(asker, RegisterRefused::StoreFailed, out);
            }
            Some(line) => line.push_back((asker, register)),
            None => {
                let aor = register.aor.clone();
                if self.register(now, asker, register, out) {
                    self.lines.insert(aor, VecDeque::new());
                }
            }
        }
    }

    /// True when a write is on its way; otherwise it is answered.
    fn register(
        &mut self,
        now: Instant,
        asker: WaitingEdge,
        mut register: Register,
        out: &mut Vec<Effect>,
    ) -> bool {
        let (old, replaces) = self.location.lookup_with_row(now, &register.aor);
        match registrar::change(now, old, &mut register) {
            Err(refused) => refuse(asker, refused, out),
            Ok(Registered::Unchanged(bindings)) => asker.answer(Answer::Registered(Ok(bindings)), out),
            Ok(Registered::Changed(bindings)) => {
                let aor = register.aor;
                let record = record::encode(&aor, &bindings);
                let slot = BindingSlot::unwritten(&record);
                let row = BindingRow { replaces, empties: bindings.is_empty(), record, aor: aor.clone() };
                let change =
                    BindingChange { asker, may_wait: true, arrived: now, aor, replaces, bindings, slot };
                let ticket = self.write(PendingWrite::Bindings(Box::new(change)));
                out.push(Effect::WriteBinding { ticket, row });
                return true;
            }
        }
        false
    }

    fn next_in_line(&mut self, now: Instant, aor: &Aor, out: &mut Vec<Effect>) {
        let Some((aor, mut line)) = self.lines.remove_entry(aor) else { return };
        while let Some((asker, register)) = line.pop_front() {
            if self.register(now, asker, register, out) {
                self.lines.insert(aor, line);
                return;
            }
        }
    }

    /// The table has it, as it is on disk.
    fn bind(
        &mut self,
        now: Instant,
        asker: WaitingEdge,
        aor: &Aor,
        bindings: Vec<Binding>,
        out: &mut Vec<Effect>,
    ) {
        let there = !bindings.is_empty();
        asker.answer(Answer::Registered(Ok(bindings)), out);
        self.notify(now, aor, out);
        if there {
            self.load_kept(now, asker.edge, aor, out);
        }
    }

    fn handle_keep(
        &mut self,
        now: Instant,
        asker: WaitingEdge,
        message: Box<WaitingMessage>,
        limit: u32,
        out: &mut Vec<Effect>,
    ) {
        if !self.settings.keep_messages {
            return asker.answer(Answer::Kept(Err(KeepRefused::TooMany)), out);
        }
        if let Err(refused) = self.kept.accept(&message, limit) {
            return asker.answer(Answer::Kept(Err(refused)), out);
        }
        let aor = message.aor.clone();
        let absent = !self.location.is_bound(now, &aor);
        let ticket = self.write(PendingWrite::Message { asker, aor, absent });
        out.push(Effect::KeepMessage { ticket, message });
    }

    fn write(&mut self, write: PendingWrite) -> u64 {
        self.last_ticket += 1;
        self.writes.insert(self.last_ticket, write);
        self.last_ticket
    }
}

fn refuse(asker: WaitingEdge, refused: RegisterRefused, out: &mut Vec<Effect>) {
    asker.answer(Answer::Registered(Err(refused)), out);
}
