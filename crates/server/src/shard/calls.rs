//! What the shard does with a call's beginning, answer and end: the ledger writes it down, and the addresses
//! of both parties learn that they are on the phone.

use call::{CallEventKind as LedgerKind, EndedBy};
use router::{CallInfo, CallPhase, Query};
use sip::endpoint::{CallEvent, CallEventKind};
use stdx::cache::Cache;

/// The accounts in a call, while it lasts.
#[derive(Debug)]
struct Parties {
    call_id: Box<str>,
    from: Box<str>,
    to: Box<str>,
    caller: Option<Box<str>>,
    callee: Option<Box<str>>,
}

/// Calls in which an account of ours takes part. A bounded number: many a call has no end that we see, and
/// must not be remembered for ever.
pub(crate) struct AccountCalls {
    calls: Cache<u64, Parties>,
}

impl AccountCalls {
    pub(crate) fn new(capacity: usize) -> Self {
        AccountCalls { calls: Cache::new(capacity) }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn started(caller: Option<&str>, callee: Option<&str>) -> CallEventKind {
        CallEventKind::Started {
            call_id: "c1".into(),
            from: "sip:alice@a".into(),
            to: "sip:bob@a".into(),
            caller: caller.map(Into::into),
            callee: callee.map(Into::into),
        }
    }

    /// Who is told what of an event.
    fn told(
        calls: &mut AccountCalls,
        call: u64,
        kind: CallEventKind,
    ) -> Vec<(String, bool, String, CallPhase)> {
        let queries = calls.handle_event(&CallEvent { call, kind });
        let line = |query| match query {
            Query::CallChanged { aor, call } => {
                (aor.into_string(), call.initiator, call.remote.into_string(), call.phase)
            }
            other => panic!("{other:?}"),
        };
        queries.into_iter().map(line).collect()
    }

    #[test]
    fn both_parties_learn_each_step_and_then_no_more() {
        let mut calls = AccountCalls::new(8);
        let both = |phase| {
            vec![
                ("alice@a".to_owned(), true, "sip:bob@a".to_owned(), phase),
                ("bob@a".to_owned(), false, "sip:alice@a".to_owned(), phase),
            ]
        };
        let kind = started(Some("alice@a"), Some("bob@a"));
        assert_eq!(told(&mut calls, 1, kind), both(CallPhase::Trying));
        assert_eq!(told(&mut calls, 1, CallEventKind::Answered), both(CallPhase::Confirmed));
        assert_eq!(told(&mut calls, 1, CallEventKind::Ended), both(CallPhase::Terminated));
        assert!(told(&mut calls, 1, CallEventKind::Ended).is_empty(), "it is over");
        assert!(calls.calls.is_empty());
    }

    #[test]
    fn calls_without_an_end_do_not_fill_memory() {
        let mut calls = AccountCalls::new(8);
        for call in 0..1_000 {
            assert_eq!(told(&mut calls, call, started(Some("alice@a"), None)).len(), 1);
        }
        assert_eq!(calls.calls.len(), 8);
    }

    #[test]
    fn a_call_between_strangers_is_nobodys_news() {
        let mut calls = AccountCalls::new(8);
        assert!(told(&mut calls, 1, started(None, None)).is_empty());
        assert!(told(&mut calls, 1, CallEventKind::Answered).is_empty());
        assert!(calls.calls.is_empty());
    }

    #[test]
    fn a_refused_call_ends_for_the_one_party_we_know() {
        let mut calls = AccountCalls::new(8);
        assert_eq!(told(&mut calls, 1, started(None, Some("bob@a"))).len(), 1);
        let failed = CallEventKind::Failed { status: 486, reason: "Busy Here".into() };
        let told = told(&mut calls, 1, failed);
        assert_eq!(told, [("bob@a".into(), false, "sip:alice@a".into(), CallPhase::Terminated)]);
    }
}
