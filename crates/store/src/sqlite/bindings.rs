//! The log of bindings and the deletion of its dead rows (decision 0029).
//!
//! A row is the complete set of bindings of an address, so only the newest row of each address lives. Routers
//! name the row that a write replaces, and the rows whose bindings have ended. `DeadRows` collects these numbers
//! in memory, and the writer deletes the rows with later groups, in ascending order. A crash forgets the
//! numbers, not a binding: the next start reads the log in order, the newest row of an address wins, and the
//! routers name the dead rows again.
//!
//! Ascending order is what makes this safe: the older row of an address never outlives a newer one, so an ended
//! or removed binding cannot come back from an older row.

use std::collections::{BTreeMap, VecDeque};

use rusqlite::{Connection, params};

use crate::limits;
use crate::record::{BindingWrite, WriteDone};
use crate::types::check_length;

use super::{Failure, micros};

/// Row numbers in one entry of the bitmap.
const WORD: i64 = 64;
/// Entries in one step of the sweep: 512 rows, about 40 pages.
const CHUNK: i64 = 8;
/// Dead rows of a chunk from which it is swept at once: phones refresh in nearly the order of their last
/// refresh, so the few rows that still live at the end of the log stay long.
const NEARLY_ALL: u32 = 480;
/// Dead rows kept at most, besides as many as live.
const SPARE: u64 = 4_096;

/// Numbers of rows that are dead and still in the file.
#[derive(Debug, Default)]
pub(super) struct DeadRows {
    /// The highest number given to a row; numbers are not given twice while routers remember them.
    last: i64,
    /// The sweep has passed all entries below: what dies there is deleted as soon as the budget allows.
    swept: i64,
    /// Bitmaps of [`WORD`] rows by their entry: row `n` is bit `n % WORD` of entry `n / WORD`.
    dead: BTreeMap<i64, u64>,
    /// Dead rows that the sweep has not reached.
    ahead: u64,
    /// Rows that the next groups may delete.
    credit: i64,
    /// When the log was how long: what died is deleted within `limits::DEAD_BINDING`, also on an idle node.
    ages: VecDeque<(i64, i64)>,
    /// Entries below are old enough to be swept whatever lives in them.
    aged: i64,
}

/// The deletions of one transaction.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Entries and the rows of them to delete.
    words: Vec<(i64, u64)>,
    /// The place of the sweep after them.
    swept: i64,
    /// The number of rows.
    rows: i64,
}

/// The changes that a group makes to the log; they count once the group is on disk.
#[derive(Debug)]
pub(super) struct Pending {
    /// The number of the newest row before the group; `None`: the group has not asked for one yet.
    start: Option<i64>,
    /// The number of the newest row so far.
    last: i64,
    /// Rows that died by the group.
    dead: Vec<i64>,
    /// Rows that the group has added.
    rows: usize,
    /// The time of a `Write::CleanBindings` in the group, in microseconds.
    before: Option<i64>,
}

impl DeadRows {
    /// Rows that are there already are before the sweep; routers will name the dead ones.
    pub(super) fn new(newest: i64) -> Self {
        let swept = if newest == 0 { 0 } else { newest.div_euclid(WORD) + 1 };
        DeadRows { last: newest, swept, ..DeadRows::default() }
    }

    /// The changes of a group that begins.
    pub(super) fn begin(&self) -> Pending {
        Pending { start: None, last: self.last, dead: Vec::new(), rows: 0, before: None }
    }

    /// Plans the deletions of a group: two rows for each new one, and a few more.
    pub(super) fn plan(&mut self, pending: &Pending) -> Sweep {
        if let Some(before) = pending.before {
            self.age(before);
        }
        let earned = i64::try_from(pending.rows).unwrap_or(0) * 2 + WORD;
        self.credit = (self.credit + earned).min(earned.max(CHUNK * WORD));
        let sweep = self.sweep(self.credit);
        self.credit -= sweep.rows;
        sweep
    }

    /// The oldest dead rows: all behind the sweep first, then chunk after chunk of what it has not reached.
    fn sweep(&self, budget: i64) -> Sweep {
        let mut sweep = Sweep { swept: self.swept, ..Sweep::default() };
        for (&word, &bits) in self.dead.range(..self.swept) {
            if sweep.rows + i64::from(bits.count_ones()) > budget {
                return sweep;
            }
            sweep.take(word, bits);
        }
        let complete = (self.last + 1).div_euclid(WORD);
        let mut ahead = self.ahead;
        while sweep.rows + CHUNK * WORD <= budget {
            let end = sweep.swept + CHUNK;
            let chunk = || self.dead.range(sweep.swept..end);
            let dead: u32 = chunk().map(|(_, bits)| bits.count_ones()).sum();
            let window = u64::try_from((complete - sweep.swept) * WORD).unwrap_or(0);
            let due = dead >= NEARLY_ALL || ahead * 2 > window + SPARE || end <= self.aged;
            if end > complete || !due {
                break;
            }
            let found: Vec<_> = chunk().map(|(&word, &bits)| (word, bits)).collect();
            found.into_iter().for_each(|(word, bits)| sweep.take(word, bits));
            sweep.swept = end;
            ahead -= u64::from(dead);
        }
        sweep
    }

    /// The group is on disk.
    pub(super) fn commit(&mut self, sweep: &Sweep, pending: Pending) {
        for (word, bits) in &sweep.words {
            self.dead.remove(word);
            if *word >= self.swept {
                self.ahead -= u64::from(bits.count_ones());
            }
        }
        self.swept = sweep.swept;
        self.last = pending.last;
        pending.dead.into_iter().for_each(|row| self.mark(row));
    }

    /// The group failed. After an error of the disk its rows may be on disk all the same; no caller was told
    /// that they are, so they are dead.
    pub(super) fn abort(&mut self, pending: &Pending) {
        let Some(start) = pending.start else { return };
        self.last = pending.last;
        (start + 1..=pending.last).for_each(|row| self.mark(row));
    }

    /// The row is dead. Numbers that were never given are ignored: they come from outside.
    fn mark(&mut self, row: i64) {
        let (word, bit) = (row.div_euclid(WORD), 1 << row.rem_euclid(WORD));
        if row > self.last || row < 0 {
            return;
        }
        let bits = self.dead.entry(word).or_default();
        if *bits & bit == 0 {
            *bits |= bit;
            self.ahead += u64::from(word >= self.swept);
        }
    }

    /// Time passes: `before` as in `Write::CleanBindings`, which comes every few seconds. The group that brings it may
    /// sweep a chunk.
    fn age(&mut self, before: i64) {
        let old = before.saturating_sub(i64::try_from(limits::DEAD_BINDING.as_micros()).unwrap_or(i64::MAX));
        while let Some((_, last)) = self.ages.pop_front_if(|(at, _)| *at <= old) {
            self.aged = (last + 1).div_euclid(WORD);
        }
        self.credit = self.credit.max(CHUNK * WORD);
        // In microseconds: one entry of `ages` a minute is enough.
        let minute = 60_000_000;
        if self.ages.back().is_none_or(|(at, _)| before >= at.saturating_add(minute)) {
            self.ages.push_back((before, self.last));
        }
    }
}

impl Sweep {
    /// Plans the deletion of the rows of one entry.
    fn take(&mut self, word: i64, bits: u64) {
        self.words.push((word, bits));
        self.rows += i64::from(bits.count_ones());
    }

    /// Deletes by runs: rows that died in the order of their numbers cost one statement. Returns how many were there.
    pub(super) fn run(&self, conn: &Connection) -> Result<u64, Failure> {
        let mut rows = 0;
        if self.words.is_empty() {
            return Ok(rows);
        }
        let mut delete = conn.prepare_cached("DELETE FROM binding_log WHERE seq >= ?1 AND seq < ?2")?;
        let mut run: Option<(i64, i64)> = None;
        for row in self.words.iter().flat_map(|&(word, bits)| rows_of(word, bits)) {
            match &mut run {
                Some((_, end)) if *end == row => *end += 1,
                Some((start, end)) => {
                    rows += delete.execute([*start, *end])? as u64;
                    run = Some((row, row + 1));
                }
                None => run = Some((row, row + 1)),
            }
        }
        if let Some((start, end)) = run {
            rows += delete.execute([start, end])? as u64;
        }
        Ok(rows)
    }
}

/// The numbers of the rows whose bits are set.
fn rows_of(word: i64, mut bits: u64) -> impl Iterator<Item = i64> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(word * WORD + i64::from(bit))
    })
}

impl Pending {
    /// Appends a row. An empty set is a row, too: it has to outlive the older rows of its address.
    pub(super) fn append(&mut self, conn: &Connection, row: &BindingWrite) -> Result<WriteDone, Failure> {
        check_length("binding record", row.record.len(), limits::MAX_BINDING_RECORD)?;
        if self.start.is_none() {
            // Another process may have written, too.
            let newest = newest(conn)?;
            self.last = self.last.max(newest);
            self.start = Some(self.last);
        }
        let seq = self.last + 1;
        conn.prepare_cached("INSERT INTO binding_log (seq, written_at, record) VALUES (?1, ?2, ?3)")?
            .execute(params![seq, micros(row.written_at), row.record])?;
        self.last = seq;
        self.rows += 1;
        self.dead.extend(row.replaces);
        self.dead.extend(row.empties.then_some(seq));
        Ok(WriteDone::Logged { seq })
    }

    /// Rows that are dead whatever they hold, as nothing is granted for so long. Routers name every dead row, but a
    /// store that is too busy to hear it refuses.
    pub(super) fn clean(&mut self, conn: &Connection, before: i64) -> Result<WriteDone, Failure> {
        self.before = Some(before);
        let sql = "DELETE FROM binding_log WHERE seq IN (SELECT seq \
                   FROM (SELECT seq, written_at FROM binding_log ORDER BY seq LIMIT ?1) WHERE written_at < ?2)";
        let rows = conn.prepare_cached(sql)?.execute(params![limits::CLEAN_CHUNK, before])? as u64;
        Ok(WriteDone::Changed { rows })
    }

    /// The router says that these rows are dead. They are deleted with later groups.
    pub(super) fn forget(&mut self, rows: &[i64]) -> WriteDone {
        self.dead.extend_from_slice(rows);
        WriteDone::Changed { rows: rows.len() as u64 }
    }
}

/// The number of the newest row; 0: the log is empty.
pub(super) fn newest(conn: &Connection) -> Result<i64, Failure> {
    let sql = "SELECT coalesce(max(seq), 0) FROM binding_log";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}
