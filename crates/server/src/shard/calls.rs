//! Events of calls, as the endpoint reports them, in the words of the ledger, and ended calls as rows of the store (`call_records`).

use call::{CallEventKind as LedgerKind, EndedBy};
use sip::endpoint::{CallEvent, CallEventKind};

/// The same event in the ledger's words. A call of an application has no caller or callee that counts, but is listed under accounts.
pub(crate) fn for_ledger(event: CallEvent) -> call::CallEvent {
    let kind = match event.kind {
        CallEventKind::Started { call_id, from, to, caller, callee, listed, .. } => {
            let (account, callee) = (caller.or(listed.account), callee.or(listed.callee));
            LedgerKind::Started { call_id, from, to, account, callee }
        }
        CallEventKind::Refused { call_id, from, to, caller: account, callee, status: code, reason } => {
            LedgerKind::Refused { call_id, from, to, account, callee, code, reason }
        }
        CallEventKind::Ringing { .. } => LedgerKind::Ringing,
        CallEventKind::Answered { .. } => LedgerKind::Answered,
        CallEventKind::Failed { status, reason } => LedgerKind::Failed { code: status, reason },
        CallEventKind::Withdrawn => LedgerKind::Withdrawn,
        CallEventKind::TakenOver { call_id, from, to, start, answer } => {
            LedgerKind::TakenOver { call_id, from, to, start, answer }
        }
        // The endpoint does not name the party that sent the BYE, and the stored record has no place for it.
        CallEventKind::Ended => LedgerKind::Ended { by: EndedBy::Caller, reason: "BYE".into() },
    };
    call::CallEvent { key: event.call, leg: event.leg, kind }
}

/// An ended call as a row of the store.
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
        callee: record.callee,
    }
}
