//! The frequent writes of a group, bindings, records of calls and trial writes: one statement of a kind, sent together with the bounds of
//! the transaction, so that the group costs one round trip.
//!
//! Others (`writer::apply_others`) cost a round trip for each statement. Bindings of a group are one array a column, of which the last row of each
//! address counts.

use std::collections::{BTreeMap, HashMap};

use crate::error::StoreError;
use crate::limits;
use crate::record::{BindingWrite, Write, WriteDone};
use crate::types::{CallRecord, check_length};

use super::bindings::{self, Columns, InBucket};
use super::connection::{Connection, Outcome, Step, micros, values};
use super::failure::Failure;
use super::routes::{ADD_CALLS, CallColumns};

/// Writes the one row of trial writes.
const PROBE: &str = "INSERT INTO probe (id, at) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET at = $1";

/// Results by the place of the write in its group.
pub(super) type Written = BTreeMap<usize, Result<WriteDone, StoreError>>;

/// Numbers of bindings that were taken from the database and not given to a row yet.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The next one to give.
    next: i64,
    /// The first one that was not taken: they are equal when all have been given.
    end: i64,
}

impl Numbers {
    /// Numbers that grow.
    fn take(&mut self, connection: &mut Connection, count: usize) -> Result<Vec<i64>, Failure> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            if self.next == self.end {
                self.next = connection.number("SELECT nextval('binding_seq')", &[])?;
                self.end = self.next + limits::BINDING_NUMBERS;
            }
            taken.push(self.next);
            self.next += 1;
        }
        Ok(taken)
    }
}

/// The part of a transaction that the statements are sent with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    /// The begin, and the end if `commits`.
    Begin {
        /// True if there is nothing else in the transaction.
        commits: bool,
    },
    /// The transaction has begun.
    Nothing,
}

/// The frequent writes of a group, with their places in it.
#[derive(Default)]
pub(super) struct Frequent<'a> {
    /// With the place of each in the group.
    bindings: Vec<(usize, &'a BindingWrite)>,
    calls: Vec<(usize, &'a CallRecord)>,
    /// The places of the trial writes, and the latest time of them: one row.
    probes: Vec<usize>,
    probed_at: i64,
    /// The writes that need no statement: they are at fault, or change nothing.
    others: Written,
}

impl<'a> Frequent<'a> {
    /// Picks the frequent writes out of a group; the others are the caller's.
    pub(super) fn of(group: &'a [Write]) -> Self {
        let mut frequent = Frequent::default();
        for (place, write) in group.iter().enumerate() {
            match write {
                Write::Binding(row) => {
                    match check_length("binding record", row.record.len(), limits::MAX_BINDING_RECORD) {
                        Ok(()) => frequent.bindings.push((place, row)),
                        Err(error) => drop(frequent.others.insert(place, Err(error))),
                    }
                }
                Write::Call(call) => frequent.calls.push((place, call)),
                Write::Probe { at } => {
                    frequent.probes.push(place);
                    frequent.probed_at = frequent.probed_at.max(micros(*at));
                }
                // A row is replaced by the next of its address, and removed when nothing can live in it any more.
                Write::ForgetBindings { .. } => {
                    frequent.others.insert(place, Ok(WriteDone::Changed { rows: 0 }));
                }
                _ => {}
            }
        }
        frequent
    }

    pub(super) fn len(&self) -> usize {
        self.bindings.len() + self.calls.len() + self.probes.len() + self.others.len()
    }

    /// True if all may be written twice with the result of one time.
    pub(super) fn is_repeatable(&self) -> bool {
        self.calls.is_empty()
    }

    /// Writes all of it.
    pub(super) fn write(
        &self,
        connection: &mut Connection,
        numbers: &mut Numbers,
        around: Around,
    ) -> Result<Written, Failure> {
        let seqs = numbers.take(connection, self.bindings.len())?;
        let (set, deleted) = self.columns(&seqs);
        let set_values = values![set.buckets, set.aors, set.seqs, set.epochs, set.times, set.records];
        let deleted_values = values![deleted.buckets, deleted.aors, deleted.epochs];
        let calls = CallColumns::of(&self.calls.iter().map(|(_, call)| *call).collect::<Vec<_>>());
        let call_values = calls.values();
        let probe_values = values![self.probed_at];
        let mut steps = Vec::with_capacity(4);
        if set.len() > 0 {
            steps.push(Step::Execute(bindings::SET, set_values));
        }
        if deleted.len() > 0 {
            steps.push(Step::Query(bindings::DELETE, deleted_values));
        }
        if !self.calls.is_empty() {
            steps.push(Step::Query(ADD_CALLS, &call_values));
        }
        if !self.probes.is_empty() {
            steps.push(Step::Execute(PROBE, probe_values));
        }
        let outcomes = match around {
            Around::Begin { commits } => connection.begin(&steps, commits)?,
            Around::Nothing => connection.pipeline(&steps)?,
        };
        let mut outcomes = outcomes.iter();
        // Outcomes come in the order of the steps, of which some may be missing.
        let mut next = |is_there: bool| if is_there { outcomes.next() } else { None };
        let changed = next(set.len() > 0).map_or(0, Outcome::changed);
        let later = next(deleted.len() > 0).map_or(&[][..], Outcome::rows);
        let ids = next(!self.calls.is_empty()).map_or(&[][..], Outcome::rows);
        let rows = next(!self.probes.is_empty()).map_or(0, Outcome::changed);
        let mut written = self.others.clone();
        for ((place, _), seq) in self.bindings.iter().zip(seqs) {
            written.insert(*place, Ok(WriteDone::Logged { seq }));
        }
        for ((place, _), row) in self.calls.iter().zip(ids) {
            written.insert(*place, Ok(WriteDone::Added { id: row.try_get(0)? }));
        }
        written.extend(self.probes.iter().map(|place| (*place, Ok(WriteDone::Changed { rows }))));
        let mut later = later.iter().map(bindings::in_bucket).collect::<Result<Vec<_>, _>>()?;
        if changed < set.len() as u64 {
            later.extend(set.with_later_owner(connection)?);
        }
        self.refuse(&later, &mut written);
        Ok(written)
    }

    /// The last row of each address: those to set and those to delete. One statement may not change a row twice.
    fn columns(&self, seqs: &[i64]) -> (Columns<'a>, Columns<'a>) {
        let mut last = HashMap::with_capacity(self.bindings.len());
        for ((_, row), seq) in self.bindings.iter().zip(seqs) {
            last.insert((row.bucket, &*row.aor), (*row, *seq));
        }
        let mut last: Vec<_> = last.into_iter().collect();
        last.sort_unstable_by_key(|(address, _)| *address);
        let (mut set, mut deleted) = (Columns::default(), Columns::default());
        for (_, (row, seq)) in last {
            let columns = if row.empties { &mut deleted } else { &mut set };
            columns.push(row, seq);
        }
        (set, deleted)
    }

    /// Writes for these addresses had no effect, as their epoch is over.
    fn refuse(&self, later: &[InBucket], written: &mut Written) {
        if later.is_empty() {
            return;
        }
        for (place, row) in &self.bindings {
            if later.iter().any(|(bucket, aor)| *bucket == row.bucket && *aor == row.aor) {
                let error = StoreError::invalid(
                    format!("the bindings of {} of epoch {}", row.aor, row.epoch),
                    "an epoch that is not over: a later owner of the address has written its bindings",
                );
                written.insert(*place, Err(error));
            }
        }
    }
}

/// Writes one in a transaction that has begun.
pub(super) fn write_one(
    connection: &mut Connection,
    numbers: &mut Numbers,
    write: &Write,
) -> Result<WriteDone, Failure> {
    let mut written =
        Frequent::of(std::slice::from_ref(write)).write(connection, numbers, Around::Nothing)?;
    let missing = || StoreError::Internal { detail: "a write without a result".into() };
    Ok(written.remove(&0).unwrap_or_else(|| Err(missing()))?)
}
