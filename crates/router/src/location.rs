//! The bindings of all addresses of a shard, a fold over the log of records.
//!
//! Each record is the complete set of an address, so the last one counts and replay is one assignment a
//! row. An address knows the number of its row, so that the store hears which row a write replaces and which
//! row's bindings have ended, and deletes these rows in the order of their numbers. A row that a crash left behind
//! is found dead by replay. The price: a set of several contacts, refreshed at different times, is
//! rewritten for each. Sets are small (`limits::CONTACTS_PER_ADDRESS`), and phones mostly have one.
//!
//! In memory an address is its record again, one allocation, decoded when asked for.

use std::collections::BinaryHeap;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use stdx::Instant;
use stdx::hash::Keyed;
use stdx::wheel::Wheel;

use crate::interface::{Aor, Binding, Life};
use crate::record::{self, Corrupt};

pub(crate) struct Location {
    keyed: Keyed,
    table: HashTable<BindingSlot>,
    /// Hashes of addresses. Every slot has an entry at its `armed`.
    wheel: Wheel<u64>,
    due: Vec<u64>,
    bindings: usize,
    slot_bytes: usize,
}

/// `armed` (seconds, 4 bytes), the number of the row in the log (8 bytes) and then the record; 16 bytes in the table.
///
/// A slot exists as long as its wheel entry is outstanding, even when its set is empty: so an address that
/// registers and unregisters all day has one entry, not one each time. A refresh leaves the entry where it
/// is; when it comes too early it is set again. Only a set that ends sooner than `armed` adds one, so there
/// are never more than the longest interval has seconds.
pub(crate) struct BindingSlot(Box<[u8]>);

/// Bytes before the record.
const HEAD: usize = 12;
/// Rows are numbered from 1.
const NO_ROW: i64 = 0;

impl BindingSlot {
    fn new(armed: u32, row: i64, record: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(HEAD + record.len());
        bytes.extend_from_slice(&armed.to_le_bytes());
        bytes.extend_from_slice(&row.to_le_bytes());
        bytes.extend_from_slice(record);
        BindingSlot(bytes.into_boxed_slice())
    }

    /// Makes the slot of a set that has no row yet and is not in a table.
    pub(crate) fn unwritten(record: &[u8]) -> Self {
        BindingSlot::new(u32::MAX, NO_ROW, record)
    }

    fn armed(&self) -> u32 {
        self.0.first_chunk().map_or(0, |armed| u32::from_le_bytes(*armed))
    }

    fn arm(&mut self, at: u32) {
        if let Some(armed) = self.0.first_chunk_mut() {
            *armed = at.to_le_bytes();
        }
    }

    fn set_row(&mut self, row: i64) {
        if let Some(bytes) = self.0.get_mut(4..).and_then(|bytes| bytes.first_chunk_mut()) {
            *bytes = row.to_le_bytes();
        }
    }

    /// `None`: the set is empty, and no row has to say so.
    fn row(&self) -> Option<i64> {
        let row =
            self.0.get(4..).and_then(|bytes| bytes.first_chunk()).map_or(0, |row| i64::from_le_bytes(*row));
        (row != NO_ROW).then_some(row)
    }

    fn record(&self) -> &[u8] {
        self.0.get(HEAD..).unwrap_or_default()
    }

    fn aor(&self) -> &str {
        record::aor(self.record()).expect("only records of encode() get into slots")
    }

    fn bindings(&self) -> (Aor, Vec<Binding>) {
        record::decode(self.record()).expect("only records of encode() get into slots")
    }

    /// True if a binding has not ended: `armed` is the end of the first one at the latest.
    fn is_bound(&self, now: Instant) -> bool {
        self.count() > 0
            && (Instant::from_unix_seconds(self.armed().into()) > now
                || self.bindings().1.iter().any(|binding| binding.expires_at > now))
    }

    fn count(&self) -> usize {
        record::count(self.record()).expect("only records of encode() get into slots")
    }
}

impl Location {
    pub(crate) fn new(keyed: Keyed, now: Instant) -> Self {
        Location {
            keyed,
            table: HashTable::new(),
            wheel: Wheel::new(now),
            due: Vec::new(),
            bindings: 0,
            slot_bytes: 0,
        }
    }

    /// Live bindings, highest q first.
    pub(crate) fn lookup(&self, now: Instant, aor: &str) -> Vec<Binding> {
        self.lookup_with_row(now, aor).0
    }

    /// Live bindings, highest q first, and the row of the log that holds the set.
    pub(crate) fn lookup_with_row(&self, now: Instant, aor: &str) -> (Vec<Binding>, Option<i64>) {
        let hash = self.keyed.hash(aor.as_bytes());
        let Some(slot) = self.table.find(hash, |slot| slot.aor() == aor) else {
            return (Vec::new(), None);
        };
        let mut bindings = record::bindings(slot.record()).expect("only records of encode() get into slots");
        bindings.retain(|binding| binding.expires_at > now);
        (bindings, slot.row())
    }

    /// True if the address has a live binding.
    pub(crate) fn is_bound(&self, now: Instant, aor: &str) -> bool {
        let hash = self.keyed.hash(aor.as_bytes());
        self.table.find(hash, |slot| slot.aor() == aor).is_some_and(|slot| slot.is_bound(now))
    }

    /// The first addresses behind `after` that begin with `prefix` and have a live binding, `most` of them, in their order; and the
    /// number of all that begin so. One pass over the table.
    pub(crate) fn page(&self, now: Instant, prefix: &str, after: &str, most: usize) -> (Vec<Aor>, usize) {
        let mut first: BinaryHeap<&str> = BinaryHeap::new();
        let mut total = 0;
        for slot in self.table.iter().filter(|slot| slot.aor().starts_with(prefix) && slot.is_bound(now)) {
            total += 1;
            let aor = slot.aor();
            let is_early = first.len() < most || first.peek().is_some_and(|last| aor < *last);
            if aor > after && is_early {
                first.push(aor);
                if first.len() > most {
                    first.pop();
                }
            }
        }
        (first.into_sorted_vec().into_iter().map(Aor::from).collect(), total)
    }

    /// From now on this is bound, and nothing else. The set has been written as this row. Returns the row that held the
    /// set until now.
    fn put(&mut self, aor: &str, row: i64, bindings: &[Binding]) -> Option<i64> {
        self.put_slot(aor, row, bindings, BindingSlot::unwritten(&record::encode(aor, bindings)))
    }

    /// As [`put`](Self::put), of a set that is encoded.
    pub(crate) fn put_slot(
        &mut self,
        aor: &str,
        row: i64,
        bindings: &[Binding],
        mut new: BindingSlot,
    ) -> Option<i64> {
        // The row of an empty set is dead from the beginning.
        let row = if bindings.is_empty() { NO_ROW } else { row };
        new.set_row(row);
        let mut replaced = None;
        let hash = self.keyed.hash(aor.as_bytes());
        let Location { table, wheel, keyed, .. } = self;
        let rehash = |slot: &BindingSlot| keyed.hash(slot.aor().as_bytes());
        let earliest = earliest(bindings);
        match table.entry(hash, |slot| slot.aor() == aor, rehash) {
            Entry::Occupied(mut entry) => {
                let slot = entry.get_mut();
                let armed = earliest.map_or(slot.armed(), |earliest| earliest.min(slot.armed()));
                if armed < slot.armed() {
                    wheel.insert(Instant::from_unix_seconds(armed.into()), hash);
                }
                self.bindings -= slot.count();
                self.slot_bytes -= slot.0.len();
                replaced = slot.row();
                new.arm(armed);
                self.slot_bytes += new.0.len();
                *slot = new;
            }
            Entry::Vacant(entry) => {
                let armed = earliest?;
                wheel.insert(Instant::from_unix_seconds(armed.into()), hash);
                new.arm(armed);
                self.slot_bytes += new.0.len();
                entry.insert(new);
            }
        }
        self.bindings += bindings.len();
        replaced
    }

    /// A row of the log, in log order.
    ///
    /// Flows are dropped, but for those that lives of `others` hold: the connections ended with the process that held
    /// them, and numbers of a flow of our own life may by now name another client's.
    pub(crate) fn replay(
        &mut self,
        now: Instant,
        row: i64,
        record: &[u8],
        others: &[Life],
        dead: &mut Vec<i64>,
    ) -> Result<(), Corrupt> {
        let (aor, bindings) = live_bindings(now, record, others)?;
        dead.extend(self.put(&aor, row, &bindings));
        dead.extend(bindings.is_empty().then_some(row));
        Ok(())
    }

    /// Forgets the addresses that `is_gone` names, in one pass. Their entries in the wheel find nothing when they are due.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&str) -> bool) {
        let Location { table, bindings, slot_bytes, .. } = self;
        table.retain(|slot| {
            let is_kept = !is_gone(slot.aor());
            if !is_kept {
                *bindings -= slot.count();
                *slot_bytes -= slot.0.len();
            }
            is_kept
        });
    }

    /// Forgets what has ended and appends the addresses that lost a binding, and the rows that have no more of them.
    pub(crate) fn expire(&mut self, now: Instant, changed: &mut Vec<Aor>, dead: &mut Vec<i64>) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expire(now, &mut due);
        for hash in due.drain(..) {
            self.expire_hash(now, hash, changed, dead);
        }
        self.due = due;
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// Addresses that have a binding or had one a moment ago.
    pub(crate) fn addresses(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bindings(&self) -> usize {
        self.bindings
    }

    /// An estimate: bytes of slots, table and wheel.
    pub(crate) fn memory(&self) -> usize {
        // A slot costs its allocator about 8 bytes more, the table 17 with its control byte, the wheel 24.
        self.slot_bytes + self.table.len() * (8 + 24) + self.table.capacity() * 17
    }

    fn expire_hash(&mut self, now: Instant, hash: u64, changed: &mut Vec<Aor>, dead: &mut Vec<i64>) {
        let Location { table, wheel, keyed, .. } = self;
        let due = |slot: &BindingSlot| {
            keyed.hash(slot.aor().as_bytes()) == hash
                // Later: another entry is outstanding for that time, this one has been overtaken.
                && Instant::from_unix_seconds(slot.armed().into()) <= now
        };
        let Ok(mut entry) = table.find_entry(hash, due) else { return };
        let slot = entry.get_mut();
        let (aor, mut bindings) = slot.bindings();
        let before = bindings.len();
        bindings.retain(|binding| binding.expires_at > now);
        self.bindings -= before - bindings.len();
        self.slot_bytes -= slot.0.len();
        if bindings.len() < before {
            changed.push(aor.clone());
        }
        let Some(armed) = earliest(&bindings) else {
            dead.extend(slot.row());
            entry.remove();
            return;
        };
        wheel.insert(Instant::from_unix_seconds(armed.into()), hash);
        if bindings.len() < before {
            let row = slot.row().unwrap_or(NO_ROW);
            *slot = BindingSlot::new(armed, row, &record::encode(&aor, &bindings));
        } else {
            slot.arm(armed);
        }
        self.slot_bytes += slot.0.len();
    }
}

/// The bindings of a row that have not ended. Flows are dropped, but for those that lives of `others` hold.
pub(crate) fn live_bindings(
    now: Instant,
    record: &[u8],
    others: &[Life],
) -> Result<(Aor, Vec<Binding>), Corrupt> {
    let (aor, mut bindings) = record::decode(record)?;
    bindings.retain(|binding| binding.expires_at > now);
    for received in bindings.iter_mut().filter_map(|binding| binding.contact.received.as_mut()) {
        received.flow = received.flow.filter(|flow| others.contains(&flow.edge.life));
    }
    Ok((aor, bindings))
}

/// When the first binding ends, in seconds. Those that fit no 32 bits (year 2106) end there.
fn earliest(bindings: &[Binding]) -> Option<u32> {
    let first = bindings.iter().map(|binding| binding.expires_at).min()?;
    Some(u32::try_from(first.unix_seconds()).unwrap_or(u32::MAX))
}
