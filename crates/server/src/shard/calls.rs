//! What the shard does with a call's beginning, answer and end: the ledger writes it down, and the addresses
//! of both parties learn that they are on the phone.

use std::collections::HashMap;

use call::{CallEventKind as LedgerKind, EndedBy};
use router::{CallInfo, CallPhase, Query};
use sip::endpoint::{CallEvent, CallEventKind};

/// The accounts in a call, while it lasts.
#[derive(Debug)]
struct Parties {
    call_id: Box<str>,
    from: Box<str>,
    to: Box<str>,
    caller: Option<Box<str>>,
    callee: Option<Box<str>>,
}

/// Calls in which an account of ours takes part.
#[derive(Default)]
pub(crate) struct AccountCalls {
    calls: HashMap<u64, Parties>,
}

impl AccountCalls {
    /// What the addresses are to be told.
    pub(crate) fn handle_event(&mut self, event: &CallEvent) -> Vec<Query> {
        match &event.kind {
            CallEventKind::Started { call_id, from, to, caller, callee } => {
                if caller.is_none() && callee.is_none() {
                    return Vec::new();
                }
                let parties = Parties {
                    call_id: call_id.clone(),
                    from: from.clone(),
                    to: to.clone(),
                    caller: caller.clone(),
                    callee: callee.clone(),
                };
                let told = parties.changed(CallPhase::Trying);
                self.calls.insert(event.call, parties);
                told
            }
            CallEventKind::Answered => {
                self.calls.get(&event.call).map_or_else(Vec::new, |p| p.changed(CallPhase::Confirmed))
            }
            CallEventKind::Failed { .. } | CallEventKind::Ended => {
                self.calls.remove(&event.call).map_or_else(Vec::new, |p| p.changed(CallPhase::Terminated))
            }
        }
    }
}

impl Parties {
    fn changed(&self, phase: CallPhase) -> Vec<Query> {
        let of = |aor: &Option<Box<str>>, initiator: bool, remote: &str| {
            aor.as_ref().map(|aor| Query::CallChanged {
                aor: aor.clone(),
                call: CallInfo {
                    call_id: self.call_id.clone(),
                    local_tag: "".into(),
                    remote_tag: "".into(),
                    initiator,
                    remote: remote.into(),
                    phase,
                },
            })
        };
        [of(&self.caller, true, &self.to), of(&self.callee, false, &self.from)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The same event in the ledger's words.
pub(crate) fn for_ledger(event: CallEvent) -> call::CallEvent {
    let kind = match event.kind {
        CallEventKind::Started { call_id, from, to, caller, .. } => {
            LedgerKind::Started { call_id, from, to, account: caller }
        }
        CallEventKind::Answered => LedgerKind::Answered,
        CallEventKind::Failed { status, reason } => LedgerKind::Failed { code: status, reason },
        CallEventKind::Ended => LedgerKind::Ended { by: EndedBy::Caller, reason: "BYE".into() },
    };
    call::CallEvent { key: event.call, kind }
}

/// One call in the record's words.
pub(crate) fn for_store(record: call::CallRecord) -> store::CallRecord {
    store::CallRecord {
        call_id: record.call_id,
        from: record.from,
        to: record.to,
        started_at: record.start,
        answered_at: record.answer,
        ended_at: record.end,
        code: record.code,
        reason: record.reason,
        account: record.account,
    }
}
