//! Reports a call's beginning, ringing, answer and end to the owners of both parties' addresses, as dialog states (RFC 4235).
//!
//! An owner at another node is told only of calls of addresses that are watched, or whose calls it counts for a limit. It sends the
//! list of watched addresses when it is asked ([`Query::Watched`]) and each address whose watch begins ([`Push::Watched`]); then the
//! calls of this address that are up are reported, too. Without a list, as after its time, all calls are reported
//! (`docs/decisions/0065-reports-of-watched-calls.md`).
//!
//! The shard's driver gives it the [`CallEvent`](super::EndpointEffect::Call)s of its endpoint and performs the queries, which have
//! no answer.
//!
//! [`Push::Watched`]: router::Push::Watched

use std::collections::{HashMap, HashSet};

use router::limits::{WATCHED_ASKED, WATCHED_TIME};
use router::{Aor, CallInfo, CallPhase, Query, ShardAddress};
use stdx::Instant;
use stdx::cache::Cache;

use super::{CallEvent, CallEventKind};

/// Addresses with a limit on their calls that are remembered; calls of one that is forgotten are reported without a list, and count
/// for `router::limits::ADMITTED_UNSEEN` with one.
const COUNTED_ADDRESSES: usize = 65_536;

/// One account in a call.
#[derive(Debug)]
struct CallAccount {
    aor: Aor,
    /// The owner has been told of the call, and is told all that follows.
    is_reported: bool,
}

/// The accounts in a call, while it lasts.
#[derive(Debug)]
struct CallAccounts {
    call_id: Box<str>,
    from_tag: Box<str>,
    /// The dialog that was answered, as [`CallEvent::leg`] has it; `None` before.
    answered: Option<u64>,
    /// The tag of the callee that was the first to ring, then of the one that has answered; empty before.
    callee_tag: Box<str>,
    from: Box<str>,
    to: Box<str>,
    caller: Option<CallAccount>,
    callee: Option<CallAccount>,
}

/// The list of watched addresses of one owner.
#[derive(Clone, Copy, Debug)]
struct WatchList {
    /// The edge goes by it until then.
    until: Instant,
    asked_at: Option<Instant>,
}

/// Calls in which an account of ours takes part. A bounded number: many a call has no end that we see, and
/// must not be remembered for ever.
pub struct AccountCalls {
    calls: Cache<u64, CallAccounts>,
    lists: HashMap<ShardAddress, WatchList>,
    /// The watched addresses of all owners that have sent lists, each until its next list at the latest.
    watched: HashMap<Aor, Instant>,
    counted: Cache<Aor, ()>,
}

impl AccountCalls {
    /// No calls, and room for so many.
    pub fn new(capacity: usize) -> Self {
        AccountCalls {
            calls: Cache::new(capacity),
            lists: HashMap::new(),
            watched: HashMap::new(),
            counted: Cache::new(COUNTED_ADDRESSES),
        }
    }

    /// Handles an event of a call and returns the new call states of the addresses. `lister` names the owner of an address if it is at
    /// another node and may send a list.
    pub fn handle_event(
        &mut self,
        now: Instant,
        event: &CallEvent,
        lister: impl Fn(&str) -> Option<ShardAddress>,
    ) -> Vec<Query> {
        match &event.kind {
            CallEventKind::Started { call_id, from_tag, from, to, caller, callee, .. } => {
                if caller.is_none() && callee.is_none() {
                    return Vec::new();
                }
                let mut queries = Vec::new();
                let mut party = |aor: &Option<Aor>| {
                    let aor = aor.clone()?;
                    let is_reported = self.is_reported(now, &aor, lister(&aor), &mut queries);
                    Some(CallAccount { aor, is_reported })
                };
                let parties = CallAccounts {
                    call_id: call_id.clone(),
                    from_tag: from_tag.clone(),
                    answered: None,
                    callee_tag: "".into(),
                    from: from.clone(),
                    to: to.clone(),
                    caller: party(caller),
                    callee: party(callee),
                };
                queries.extend(parties.changed(CallPhase::Trying));
                self.calls.insert(event.call, parties);
                queries
            }
            // The call had no party of ours.
            CallEventKind::Refused { .. } => Vec::new(),
            // Its accounts are not known here.
            CallEventKind::TakenOver { .. } => Vec::new(),
            CallEventKind::Ringing { callee_tag } => {
                self.calls.get_mut(&event.call).map_or_else(Vec::new, |parties| parties.ring(callee_tag))
            }
            CallEventKind::Answered { callee_tag } => {
                let parties = self.calls.get_mut(&event.call);
                parties.map_or_else(Vec::new, |parties| parties.answer(event.leg, callee_tag))
            }
            CallEventKind::Failed { .. } | CallEventKind::Withdrawn => {
                self.remove_if(event.call, |answered| answered.is_none())
            }
            CallEventKind::Ended => self.remove_if(event.call, |answered| answered == Some(event.leg)),
        }
    }

    /// The owner is asked to admit a call of this address: it counts this call, and later ones.
    pub fn note_counted(&mut self, aor: &str) {
        if self.counted.get(aor).is_none() {
            self.counted.insert(aor.into(), ());
        }
    }

    /// Handles the news of an owner about watched addresses. Returns the states of the calls that are up and were not reported.
    pub fn handle_watched(
        &mut self,
        now: Instant,
        owner: Option<ShardAddress>,
        aors: Vec<Aor>,
    ) -> Vec<Query> {
        self.watched.retain(|_, until| *until > now);
        if let Some(owner) = owner {
            self.lists.retain(|_, list| {
                list.until > now || list.asked_at.is_some_and(|at| at + WATCHED_TIME > now)
            });
            self.lists.insert(owner, WatchList { until: now + WATCHED_TIME, asked_at: None });
        }
        // An address that the next list does not have is reported until then.
        let until = now + WATCHED_TIME * 2;
        let is_new = |aor: &Aor| self.watched.insert(aor.clone(), until).is_none();
        let begun: HashSet<Aor> = aors.into_iter().filter(is_new).collect();
        if begun.is_empty() {
            return Vec::new();
        }
        let has_begun = |party: &&CallAccount| !party.is_reported && begun.contains(&party.aor);
        let concerned = self.calls.iter().filter(|(_, call)| call.parties().any(|party| has_begun(&party)));
        let concerned: Vec<u64> = concerned.map(|(call, _)| *call).collect();
        let mut queries = Vec::new();
        for call in concerned {
            let Some(call) = self.calls.get_mut(&call) else { continue };
            for party in call.caller.iter_mut().chain(&mut call.callee) {
                party.is_reported |= begun.contains(&party.aor);
            }
            queries.extend(call.changed(call.phase()).filter(|query| begun.contains(query.aor())));
        }
        queries
    }

    /// The call slots of the calls whose Call-IDs satisfy `has_moved` have another worker, which does not know the accounts and reports no end.
    /// Returns the last states of these calls: owners count them no more.
    pub fn end_moved(&mut self, has_moved: impl Fn(&str) -> bool) -> Vec<Query> {
        let moved: Vec<u64> =
            self.calls.iter().filter(|(_, call)| has_moved(&call.call_id)).map(|(call, _)| *call).collect();
        moved.into_iter().flat_map(|call| self.remove_if(call, |_| true)).collect()
    }

    /// True if the owner is told of a call of this address. Asks for a list where there is none.
    fn is_reported(
        &mut self,
        now: Instant,
        aor: &str,
        lister: Option<ShardAddress>,
        queries: &mut Vec<Query>,
    ) -> bool {
        let Some(owner) = lister else { return true };
        if self.counted.get(aor).is_some() || self.watched.get(aor).is_some_and(|until| *until > now) {
            return true;
        }
        let list = self.lists.entry(owner).or_insert(WatchList { until: now, asked_at: None });
        if list.until > now {
            return false;
        }
        if list.asked_at.is_none_or(|at| at + WATCHED_ASKED <= now) {
            list.asked_at = Some(now);
            queries.push(Query::Watched { aor: aor.into(), owner });
        }
        true
    }

    /// The call is over, unless the event is of another dialog than the one that was answered.
    fn remove_if(&mut self, call: u64, is_over: impl FnOnce(Option<u64>) -> bool) -> Vec<Query> {
        if !self.calls.get(&call).is_some_and(|parties| is_over(parties.answered)) {
            return Vec::new();
        }
        let ended = self.calls.remove(&call);
        ended.map_or_else(Vec::new, |parties| parties.changed(CallPhase::Terminated).collect())
    }
}

impl CallAccounts {
    fn parties(&self) -> impl Iterator<Item = &CallAccount> {
        self.caller.iter().chain(&self.callee)
    }

    fn phase(&self) -> CallPhase {
        match self.answered {
            Some(_) => CallPhase::Confirmed,
            None if self.callee_tag.is_empty() => CallPhase::Trying,
            None => CallPhase::Early,
        }
    }

    /// A callee rings. One dialog is reported of a call, so the first that rings stands for all.
    fn ring(&mut self, callee_tag: &str) -> Vec<Query> {
        if self.answered.is_some() || !self.callee_tag.is_empty() {
            return Vec::new();
        }
        self.callee_tag = callee_tag.into();
        self.changed(CallPhase::Early).collect()
    }

    /// A callee has answered; the first one counts.
    fn answer(&mut self, leg: u64, callee_tag: &str) -> Vec<Query> {
        if self.answered.is_some() {
            return Vec::new();
        }
        self.answered = Some(leg);
        let rang = self.callee_tag.clone();
        if !callee_tag.is_empty() {
            self.callee_tag = callee_tag.into();
        }
        let mut queries: Vec<Query> = self.changed(CallPhase::Confirmed).collect();
        // RFC 4235 §3.7.1: the dialog of the phone that rang is another one, and over. Its end comes last, so that the account is in
        // a call all the time.
        if !rang.is_empty() && rang != self.callee_tag {
            queries.extend(self.dialog_changed(&rang, CallPhase::Terminated));
        }
        queries
    }

    /// The state of the call, for the owners that are told of it.
    fn changed(&self, phase: CallPhase) -> impl Iterator<Item = Query> + '_ {
        self.dialog_changed(&self.callee_tag, phase)
    }

    /// The state of the dialog with this callee. RFC 4235 §4.1.1: a tag is told once it is known.
    fn dialog_changed<'a>(
        &'a self,
        callee_tag: &'a str,
        phase: CallPhase,
    ) -> impl Iterator<Item = Query> + 'a {
        let of = move |party: &Option<CallAccount>, initiator: bool, remote: &str| {
            let party = party.as_ref().filter(|party| party.is_reported);
            party.map(|party| Query::CallChanged {
                aor: party.aor.clone(),
                call: CallInfo {
                    call_id: self.call_id.clone(),
                    local_tag: if initiator { self.from_tag.clone() } else { callee_tag.into() },
                    remote_tag: if initiator { callee_tag.into() } else { self.from_tag.clone() },
                    initiator,
                    remote: remote.into(),
                    phase,
                },
            })
        };
        [of(&self.caller, true, &self.to), of(&self.callee, false, &self.from)].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::ListedUnder;

    const NOW: Instant = Instant::from_micros(1_000_000);
    const OWNER: ShardAddress = ShardAddress { life: router::Life(2), shard: 0 };

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

    fn answered() -> CallEventKind {
        CallEventKind::Answered { callee_tag: "b1".into() }
    }

    fn rings(tag: &str) -> CallEventKind {
        CallEventKind::Ringing { callee_tag: tag.into() }
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
        let queries = calls.handle_event(NOW, &CallEvent { call, leg, kind }, |_| None);
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
        assert_eq!(told(&mut calls, 1, answered()), both(CallPhase::Confirmed));
        assert_eq!(told(&mut calls, 1, CallEventKind::Ended), both(CallPhase::Terminated));
        assert!(told(&mut calls, 1, CallEventKind::Ended).is_empty(), "it is over");
        assert!(calls.calls.is_empty());
    }

    /// The address, the local and the remote tag, and the phase of each query.
    fn dialogs(calls: &mut AccountCalls, kind: CallEventKind) -> Vec<(String, String, String, CallPhase)> {
        let queries = calls.handle_event(NOW, &CallEvent { call: 1, leg: 7, kind }, |_| None);
        let line = |query| match query {
            Query::CallChanged { aor, call } => {
                (aor.into_string(), call.local_tag.into_string(), call.remote_tag.into_string(), call.phase)
            }
            other => panic!("{other:?}"),
        };
        queries.into_iter().map(line).collect()
    }

    /// RFC 4235 §3.7.1 and §4.1.1: a watcher can pick up a call that rings, by its tags (RFC 3891).
    #[test]
    fn a_phone_that_rings_makes_the_dialog_early_and_its_tag_known() {
        let mut calls = AccountCalls::new(8);
        let both = |tag: &str, phase| {
            let (caller, callee) = ("alice@a".to_owned(), "bob@a".to_owned());
            vec![(caller, "f1".into(), tag.to_owned(), phase), (callee, tag.to_owned(), "f1".into(), phase)]
        };
        assert_eq!(dialogs(&mut calls, rings("b1")), [], "a call that is not known");
        let kind = started(Some("alice@a"), Some("bob@a"));
        assert_eq!(dialogs(&mut calls, kind), both("", CallPhase::Trying));
        assert_eq!(dialogs(&mut calls, rings("b1")), both("b1", CallPhase::Early));
        assert_eq!(dialogs(&mut calls, rings("b2")), [], "another phone of the account");
        assert_eq!(dialogs(&mut calls, answered()), both("b1", CallPhase::Confirmed));
        assert_eq!(dialogs(&mut calls, rings("b2")), [], "it is answered");
        assert_eq!(dialogs(&mut calls, answered()), [], "once");
        assert_eq!(dialogs(&mut calls, CallEventKind::Ended), both("b1", CallPhase::Terminated));
    }

    #[test]
    fn another_phone_than_the_one_that_rang_first_may_answer() {
        let mut calls = AccountCalls::new(8);
        let of_bob = |tag: &str, phase| ("bob@a".to_owned(), tag.to_owned(), "f1".to_owned(), phase);
        dialogs(&mut calls, started(None, Some("bob@a")));
        assert_eq!(dialogs(&mut calls, rings("b2")), [of_bob("b2", CallPhase::Early)]);
        // Two dialogs to the router, of which none must stay.
        let told = dialogs(&mut calls, answered());
        assert_eq!(told, [of_bob("b1", CallPhase::Confirmed), of_bob("b2", CallPhase::Terminated)]);
        assert_eq!(dialogs(&mut calls, CallEventKind::Ended), [of_bob("b1", CallPhase::Terminated)]);
        // A call that is cancelled while it rings, and the phone of a caller without tags in its 2xx.
        dialogs(&mut calls, started(None, Some("bob@a")));
        dialogs(&mut calls, rings("b2"));
        let failed = CallEventKind::Failed { status: 487, reason: "".into() };
        assert_eq!(dialogs(&mut calls, failed), [of_bob("b2", CallPhase::Terminated)]);
        dialogs(&mut calls, started(None, Some("bob@a")));
        dialogs(&mut calls, rings("b2"));
        let untagged = CallEventKind::Answered { callee_tag: "".into() };
        assert_eq!(dialogs(&mut calls, untagged), [of_bob("b2", CallPhase::Confirmed)]);
    }

    #[test]
    fn the_end_of_another_dialog_of_the_call_ends_nothing() {
        let mut calls = AccountCalls::new(8);
        told(&mut calls, 1, started(Some("alice@a"), None));
        assert!(told(&mut calls, 1, CallEventKind::Ended).is_empty(), "it is not answered");
        told(&mut calls, 1, answered());
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
            tag_of(calls.handle_event(NOW, &CallEvent { call, leg: 0, kind }, |_| None))
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
    fn a_call_between_strangers_is_not_reported() {
        let mut calls = AccountCalls::new(8);
        assert!(told(&mut calls, 1, started(None, None)).is_empty());
        assert!(told(&mut calls, 1, answered()).is_empty());
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

    fn far(calls: &mut AccountCalls, now: Instant, call: u64, kind: CallEventKind) -> Vec<Query> {
        calls.handle_event(now, &CallEvent { call, leg: 7, kind }, |_| Some(OWNER))
    }

    fn phases(queries: &[Query]) -> Vec<CallPhase> {
        let phase = |query: &Query| match query {
            Query::CallChanged { call, .. } => Some(call.phase),
            _ => None,
        };
        queries.iter().filter_map(phase).collect()
    }

    #[test]
    fn with_a_list_only_calls_of_watched_addresses_are_reported_to_another_node() {
        let mut calls = AccountCalls::new(8);
        let first = far(&mut calls, NOW, 1, started(None, Some("bob@a")));
        let ask = Query::Watched { aor: "bob@a".into(), owner: OWNER };
        assert_eq!((first.first(), phases(&first)), (Some(&ask), vec![CallPhase::Trying]));
        assert_eq!(calls.handle_watched(NOW, Some(OWNER), vec!["carol@a".into()]), []);
        // A call that was reported is reported to its end.
        assert_eq!(phases(&far(&mut calls, NOW, 1, answered())), [CallPhase::Confirmed]);
        assert_eq!(phases(&far(&mut calls, NOW, 1, CallEventKind::Ended)), [CallPhase::Terminated]);
        assert_eq!(far(&mut calls, NOW, 2, started(Some("alice@a"), Some("bob@a"))), []);
        assert_eq!(far(&mut calls, NOW, 2, answered()), []);
        assert_eq!(phases(&far(&mut calls, NOW, 3, started(None, Some("carol@a")))), [CallPhase::Trying]);
        // A watch of one party begins while a call rings, and of the other while one is up.
        assert_eq!(far(&mut calls, NOW, 4, started(Some("dave@a"), None)), []);
        assert_eq!(far(&mut calls, NOW, 4, rings("b1")), []);
        let told = calls.handle_watched(NOW, None, vec!["dave@a".into()]);
        assert_eq!(phases(&told), [CallPhase::Early]);
        let told = calls.handle_watched(NOW, None, vec!["bob@a".into()]);
        assert_eq!((told.len(), phases(&told)), (1, vec![CallPhase::Confirmed]));
        assert_eq!(calls.handle_watched(NOW, None, vec!["bob@a".into()]), [], "it is watched already");
        assert_eq!(phases(&far(&mut calls, NOW, 2, CallEventKind::Ended)), [CallPhase::Terminated]);
    }

    #[test]
    fn after_the_time_of_a_list_calls_are_reported_and_it_is_asked_for_again() {
        let mut calls = AccountCalls::new(8);
        calls.handle_watched(NOW, Some(OWNER), Vec::new());
        assert_eq!(far(&mut calls, NOW, 1, started(None, Some("bob@a"))), []);
        let later = NOW + WATCHED_TIME;
        assert_eq!(
            far(&mut calls, later, 2, started(None, Some("bob@a"))).len(),
            2,
            "a report and a question"
        );
        assert_eq!(far(&mut calls, later, 3, started(None, Some("bob@a"))).len(), 1, "it is asked");
        assert_eq!(far(&mut calls, later + WATCHED_ASKED, 4, started(None, Some("bob@a"))).len(), 2);
    }

    #[test]
    fn calls_whose_slots_have_moved_are_reported_as_ended_once() {
        let mut calls = AccountCalls::new(8);
        far(&mut calls, NOW, 1, started(Some("alice@a"), Some("bob@a")));
        far(&mut calls, NOW, 1, CallEventKind::Answered { callee_tag: "".into() });
        assert_eq!(calls.end_moved(|call_id| call_id == "other"), []);
        let ended = calls.end_moved(|call_id| call_id == "c1");
        assert_eq!(phases(&ended), [CallPhase::Terminated; 2]);
        assert_eq!(calls.end_moved(|_| true), []);
        assert_eq!(far(&mut calls, NOW, 1, CallEventKind::Ended), [], "a late one");
    }

    #[test]
    fn calls_that_the_owner_counts_are_reported_even_if_not_listed() {
        let mut calls = AccountCalls::new(8);
        calls.handle_watched(NOW, Some(OWNER), Vec::new());
        calls.note_counted("bob@a");
        let reported = far(&mut calls, NOW, 1, started(Some("alice@a"), Some("bob@a")));
        assert_eq!((reported.len(), reported[0].aor()), (1, "bob@a"));
        assert_eq!(phases(&far(&mut calls, NOW, 1, CallEventKind::Ended)), []);
        let failed = CallEventKind::Failed { status: 486, reason: "".into() };
        assert_eq!(phases(&far(&mut calls, NOW, 1, failed)), [CallPhase::Terminated]);
    }
}
