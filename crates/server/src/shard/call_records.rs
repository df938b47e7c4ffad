//! The calls of one shard until their records are written: the ledger, the call states of accounts, and the way to the
//! store.
//!
//! `Shard::perform` brings each `EndpointEffect::Call`. The states that change go to the owners of the accounts as queries; records of
//! ended calls gather until `Shard::settle` ends and are written then. No call waits for its record.

use std::sync::Arc;

use call::{CallRecord, Ledger, LedgerCounts};
use call_export::CallExport;
use call_files::CallFiles;
use router::{Aor, Query, ShardAddress};
use sip::endpoint::{AccountCalls, CallEvent};
use stdx::Instant;
use store::{Service, Write};

use super::StatusBoard;
use super::calls;
use crate::limits;

/// The ways of call records besides the database.
#[derive(Clone, Default)]
pub struct RecordSinks {
    /// `None`: no files are written.
    pub files: Option<Arc<CallFiles>>,
    /// One for each receiver.
    pub exports: Arc<[CallExport]>,
}

/// The calls under way, and the records of ended ones that wait to be written.
pub(super) struct CallRecords {
    /// The calls under way, and the record that each will leave.
    ledger: Ledger,
    /// The calls whose states the owners of accounts are to know: for presence and for limits of calls.
    accounts: AccountCalls,
    /// Written by the next `write`.
    ended: Vec<CallRecord>,
    /// Records are kept in the store. The other ways get them all the same.
    is_on: bool,
    store: Arc<Service>,
    sinks: RecordSinks,
    board: Arc<StatusBoard>,
}

impl CallRecords {
    pub(super) fn new(
        (ledger, sinks): (Ledger, RecordSinks),
        is_on: bool,
        store: &Arc<Service>,
        board: &Arc<StatusBoard>,
    ) -> CallRecords {
        let accounts = AccountCalls::new(limits::ACCOUNT_CALLS);
        let (store, board) = (Arc::clone(store), Arc::clone(board));
        CallRecords { ledger, accounts, ended: Vec::new(), is_on, store, sinks, board }
    }

    /// Records are kept from now on, or not.
    pub(super) fn set_on(&mut self, is_on: bool) {
        self.is_on = is_on;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ledger.deadline()
    }

    pub(super) fn counts(&self) -> LedgerCounts {
        self.ledger.counts()
    }

    /// The newest open calls, of an account or of all, and the number of all of them.
    pub(super) fn open_calls(&self, account: Option<&str>, most: usize) -> (Vec<call::OpenCall>, usize) {
        self.ledger.open_calls(account, most)
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.ledger.expire(now, &mut self.ended);
    }

    /// Handles an event of a call. Returns the new call states of accounts, for their routers. `lister` names the owner of an
    /// address if it is at another node and may send a list of watched addresses.
    pub(super) fn handle_event(
        &mut self,
        now: Instant,
        event: CallEvent,
        lister: impl Fn(&str) -> Option<ShardAddress>,
    ) -> Vec<Query> {
        // Before the ledger, which takes the event.
        let changed = self.accounts.handle_event(now, &event, lister);
        self.ledger.handle_event(now, calls::for_ledger(event), &mut self.ended);
        changed
    }

    /// Notes that the owner of an address counts its calls, if the query asks for that.
    pub(super) fn note_query(&mut self, query: &Query) {
        if let Query::Admit(admission) = query
            && admission.max_calls.is_some()
        {
            self.accounts.note_counted(&admission.aor);
        }
    }

    /// Handles an owner's news about watched addresses. Returns the states of their calls.
    pub(super) fn handle_watched(
        &mut self,
        now: Instant,
        owner: Option<ShardAddress>,
        aors: Vec<Aor>,
    ) -> Vec<Query> {
        self.accounts.handle_watched(now, owner, aors)
    }

    /// The calls whose Call-IDs satisfy `has_moved` have another worker now. Returns their last states for the owners of their accounts.
    pub(super) fn end_moved(&mut self, has_moved: impl Fn(&str) -> bool) -> Vec<Query> {
        self.accounts.end_moved(has_moved)
    }

    /// Ends the calls that are open.
    pub(super) fn drain(&mut self, now: Instant) {
        self.ledger.drain(now, &mut self.ended);
    }

    /// Writes the records of ended calls to the store, to files and to receivers. One that a full queue refuses is lost and counted.
    pub(super) fn write(&mut self) {
        for record in self.ended.drain(..) {
            let record = calls::for_store(record);
            self.sinks.exports.iter().for_each(|export| export.write(record.clone()));
            if let Some(files) = &self.sinks.files
                && files.write(record.clone()).is_err()
            {
                self.board.count_lost_records(1);
            }
            // A call never waits for its record: one that a full queue refuses is counted.
            if self.is_on && self.store.write(Write::Call(Box::new(record)), None).is_err() {
                self.board.count_lost_records(1);
            }
        }
    }
}
