//! Reports a call's beginning, answer and end: to the ledger, and as dialog states to the addresses of both
//! parties.

use call::{CallEventKind as LedgerKind, EndedBy};
use router::{CallInfo, CallPhase, Query};
use sip::endpoint::{CallEvent, CallEventKind};
use stdx::cache::Cache;

/// The accounts in a call, while it lasts.
#[derive(Debug)]
struct CallAccounts {
    call_id: Box<str>,
    from_tag: Box<str>,
    /// The dialog that was answered, as [`CallEvent::leg`] has it; `None` before.
    answered: Option<u64>,
    from: Box<str>,
    to: Box<str>,
    caller: Option<Box<str>>,
    callee: Option<Box<str>>,
}

/// Calls in which an account of ours takes part. A bounded number: many a call has no end that we see, and
/// must not be remembered for ever.
pub(crate) struct AccountCalls {
    calls: Cache<u64, CallAccounts>,
}

impl AccountCalls {
    pub(crate) fn new(capacity: usize) -> Self {
        AccountCalls { calls: Cache::new(capacity) }
    }

    /// Returns the new call states of the addresses.
    pub(crate) fn handle_event(&mut self, event: &CallEvent) -> Vec<Query> {
        match &event.kind {
            CallEventKind::Started { call_id, from_tag, from, to, caller, callee, .. } => {
                if caller.is_none() && callee.is_none() {
                    return Vec::new();
                }
                let parties = CallAccounts {
                    call_id: call_id.clone(),
                    from_tag: from_tag.clone(),
                    answered: None,
                    from: from.clone(),
                    to: to.clone(),
                    caller: caller.clone(),
                    callee: callee.clone(),
                };
                let told = parties.changed(CallPhase::Trying);
                self.calls.insert(event.call, parties);
                told
            }
            // The call had no party of ours.
            CallEventKind::Refused { .. } => Vec::new(),
            // Its accounts are not known here.
            CallEventKind::TakenOver { .. } => Vec::new(),
            CallEventKind::Answered => {
                let Some(parties) = self.calls.get_mut(&event.call) else { return Vec::new() };
                parties.answered.get_or_insert(event.leg);
                parties.changed(CallPhase::Confirmed)
            }
            CallEventKind::Failed { .. } => self.remove_if(event.call, |answered| answered.is_none()),
            CallEventKind::Ended => self.remove_if(event.call, |answered| answered == Some(event.leg)),
        }
    }
}

impl AccountCalls {
    /// The call is over, unless the event is of another dialog than the one that was answered.
    fn remove_if(&mut self, call: u64, is_over: impl FnOnce(Option<u64>) -> bool) -> Vec<Query> {
        if !self.calls.get(&call).is_some_and(|parties| is_over(parties.answered)) {
            return Vec::new();
        }
        self.calls.remove(&call).map_or_else(Vec::new, |parties| parties.changed(CallPhase::Terminated))
    }
}

impl CallAccounts {
    fn changed(&self, phase: CallPhase) -> Vec<Query> {
        let of = |aor: &Option<Box<str>>, initiator: bool, remote: &str| {
            aor.as_ref().map(|aor| Query::CallChanged {
                aor: aor.clone(),
                call: CallInfo {
                    call_id: self.call_id.clone(),
                    local_tag: if initiator { self.from_tag.clone() } else { "".into() },
                    remote_tag: if initiator { "".into() } else { self.from_tag.clone() },
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
        CallEventKind::Started { call_id, from, to, caller, callee, listed, .. } => {
            let (account, callee) = (caller.or(listed.account), callee.or(listed.callee));
            LedgerKind::Started { call_id, from, to, account, callee }
        }
        CallEventKind::Refused { call_id, from, to, caller: account, callee, status: code, reason } => {
            LedgerKind::Refused { call_id, from, to, account, callee, code, reason }
        }
        CallEventKind::Answered => LedgerKind::Answered,
        CallEventKind::Failed { status, reason } => LedgerKind::Failed { code: status, reason },
        CallEventKind::TakenOver { call_id, from, to, start, answer } => {
            LedgerKind::TakenOver { call_id, from, to, start, answer }
        }
        CallEventKind::Ended => LedgerKind::Ended { by: EndedBy::Caller, reason: "BYE".into() },
    };
    call::CallEvent { key: event.call, leg: event.leg, kind }
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
        callee: record.callee,
    }
}

#[cfg(test)]
mod tests {
    use sip::endpoint::ListedUnder;

    use super::*;

    fn started(caller: Option<&str>, callee: Option<&str>) -> CallEventKind {
        CallEventKind::Started {
            call_id: "c1".into(),
            from_tag: "f1".into(),
            from: "sip:alice@a".into(),
            to: "sip:bob@a".into(),
            caller: caller.map(Into::into),
            callee: callee.map(Into::into),
            listed: ListedUnder::default(),
        }
    }

    /// The queries of an event, as tuples.
    fn told(
        calls: &mut AccountCalls,
        call: u64,
        kind: CallEventKind,
    ) -> Vec<(String, bool, String, CallPhase)> {
        told_of(calls, call, 7, kind)
    }

    fn told_of(
        calls: &mut AccountCalls,
        call: u64,
        leg: u64,
        kind: CallEventKind,
    ) -> Vec<(String, bool, String, CallPhase)> {
        let queries = calls.handle_event(&CallEvent { call, leg, kind });
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
    fn the_end_of_another_dialog_of_the_call_ends_nothing() {
        let mut calls = AccountCalls::new(8);
        told(&mut calls, 1, started(Some("alice@a"), None));
        assert!(told(&mut calls, 1, CallEventKind::Ended).is_empty(), "it is not answered");
        told(&mut calls, 1, CallEventKind::Answered);
        assert!(told_of(&mut calls, 1, 8, CallEventKind::Ended).is_empty());
        let failed = CallEventKind::Failed { status: 487, reason: "".into() };
        assert!(told(&mut calls, 1, failed).is_empty(), "a branch beside the one that answered");
        assert_eq!(told(&mut calls, 1, CallEventKind::Ended).len(), 1);
    }

    #[test]
    fn two_callers_with_one_call_id_have_two_calls() {
        let mut calls = AccountCalls::new(8);
        let tag_of = |queries: Vec<Query>| match queries.into_iter().next() {
            Some(Query::CallChanged { call, .. }) => call.remote_tag.into_string(),
            other => panic!("{other:?}"),
        };
        let mut start = |call: u64, tag: &str| {
            let mut kind = started(None, Some("bob@a"));
            if let CallEventKind::Started { from_tag, .. } = &mut kind {
                *from_tag = tag.into();
            }
            tag_of(calls.handle_event(&CallEvent { call, leg: 0, kind }))
        };
        assert_eq!((start(1, "a"), start(2, "b")), ("a".into(), "b".into()));
        assert_eq!(calls.calls.len(), 2);
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
