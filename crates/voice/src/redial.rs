//! Calls in place of those whose node has died: `[voice] redial_on_failure`.
//!
//! The row of a call names its party and its application while it is live ([`Redial`], by `begin` and `outgoing`). The node that ends the
//! rows of a dead life ([`super::lost_calls`]) makes the row of the next call ([`row`]), and that node places it ([`place`]) whose row was
//! the first with its sid: the sid follows from that of the lost call, so that the database decides between two nodes. A call is made again
//! once at most, never twice: a node that dies before it has dialled leaves a row that ends as failed.
//!
//! Invariants: only answered calls are made again, only those that began with a URL, and none that is in place of another.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ivr::document::{Address, Callback};
use ivr::request::{Method, Target};
use ivr::script::{CallStatus, Direction, Plan, Start};
use ivr::sid;
use router::Life;
use sip::endpoint::Caller;
use sip::wire::escape_user;
use stdx::Instant;
use stdx::hash::Keyed;
use store::rest::types::{Common, EndCallback, Redial, RestCall};

use super::control::Placing;
use super::dial_attempt::shown;
use super::rows::Row;
use super::settings::RedialPolicy;
use super::{Owner, Voice, World, limits, numbers};

/// The parameter of the application's requests that names the lost call.
pub const REDIAL_OF: &str = "RedialOf";

/// The key stands in the program: all nodes compute the same sid.
const SIDS: Keyed = Keyed::new(*b"belfry's redials");

/// The events of a status callback, as a plan has them.
const EVENTS: [&str; 4] = ["initiated", "ringing", "answered", "completed"];

/// The party that is called again in place of a caller; `None`: this one is not. The From of a call is a claim: an account has proved it, and
/// of a trunk it is believed.
pub(super) fn party(policy: RedialPolicy, caller: &Caller, from: &str) -> Option<String> {
    let is_anonymous = from.to_ascii_lowercase().contains("anonymous");
    let of_trunk = || (!from.is_empty() && !is_anonymous).then(|| from.to_owned());
    match (policy, caller) {
        (RedialPolicy::Never, _) | (RedialPolicy::Accounts, Caller::Stranger) => None,
        (_, Caller::Account(aor)) => {
            let (user, domain) = aor.rsplit_once('@')?;
            // RFC 3323 §4.1.1.3: an account that withholds its number has proved it to us, and the application is not to learn it.
            if is_anonymous && from != user {
                return None;
            }
            Some(format!("sip:{}@{domain}", escape_user(user)))
        }
        (RedialPolicy::All, Caller::Stranger) => of_trunk(),
    }
}

/// The call in place of one to `number`; `None`: its document has no URL.
pub(super) fn of(plan: &Plan, party: String, number: &str) -> Option<Redial> {
    let Start::Url(first) = &plan.start else { return None };
    let mut redial = Redial {
        to: party,
        from: number.to_owned(),
        url: first.url.clone(),
        method: first.method.as_str().to_owned(),
        ..Redial::default()
    };
    if let Some(fallback) = &plan.fallback {
        redial.fallback_url.clone_from(&fallback.url);
        fallback.method.as_str().clone_into(&mut redial.fallback_method);
    }
    if let Some(Callback { target, events }) = &plan.status {
        redial.status_events = events.iter().map(|event| (*event).to_owned()).collect();
        redial.status_url.clone_from(&target.url);
        target.method.as_str().clone_into(&mut redial.status_method);
    }
    Some(redial)
}

/// The call in place of one that an application has placed. A password is not kept: a callee that asks for one is not called again.
pub(super) fn of_placed(plan: &Plan, to: &Address, from: &str) -> Option<Redial> {
    let has_login = matches!(to, Address::Sip { username: Some(_), .. });
    if has_login { None } else { of(plan, shown(to), from) }
}

/// The row of the call in place of a lost one, which the node of this life is to place. `None`: there is none.
pub fn row(now: Instant, life: Life, lost: &RestCall) -> Option<RestCall> {
    let redial = lost.redial.as_ref()?;
    lost.answered_at?;
    let common = Common {
        sid: sid::new(sid::CALL, SIDS.hash128(lost.common.sid.as_bytes())),
        account: lost.common.account.clone(),
        created_at: now,
        updated_at: now,
    };
    let has_end = redial.status_events.iter().any(|event| event == "completed");
    let end =
        EndCallback { url: redial.status_url.clone(), method: redial.status_method.clone(), sequence: 0 };
    Some(RestCall {
        common,
        from: redial.from.clone(),
        to: redial.to.clone(),
        status: CallStatus::Queued.as_str().to_owned(),
        direction: Direction::OutboundApi.as_str().to_owned(),
        // Ended by the next node, if this one dies before it has dialled.
        node_life: life.0,
        end_callback: has_end.then_some(end),
        ..RestCall::default()
    })
}

/// The call that a row of [`row`] announces.
fn placing(call: RestCall, lost: &RestCall, owner: Arc<Owner>) -> Option<Placing> {
    let redial = lost.redial.clone()?;
    let target =
        |url: String, method: &str| Target { url, method: Method::parse(method).unwrap_or_default() };
    let mut plan = numbers::plan_of(Start::Url(target(redial.url, &redial.method)));
    plan.fallback = Some(redial.fallback_url)
        .filter(|url| !url.is_empty())
        .map(|url| target(url, &redial.fallback_method));
    let is_asked = |event: &&str| redial.status_events.iter().any(|asked| asked == event);
    let events: Vec<&'static str> = EVENTS.into_iter().filter(is_asked).collect();
    if !events.is_empty() {
        plan.status = Some(Callback { target: target(redial.status_url, &redial.status_method), events });
    }
    Some(Placing {
        to: Address::parse(&call.to, None, None),
        from: redial.from,
        call,
        owner,
        send_digits: Vec::new(),
        plan,
        timeout: limits::REDIAL_RINGS,
        record: None,
        redial_of: Some(lost.common.sid.clone()),
    })
}

/// Places a call whose row is in the record. Its row ends as failed if the account may not show that number any more.
pub fn place(voice: &mut Voice, now: Instant, placing: Placing, world: &mut World<'_>) {
    let (call, of) = (placing.call.clone(), placing.redial_of.clone());
    tracing::info!(sid = call.common.sid, lost = of, to = call.to, "a call in place of one of a dead node");
    if let Err(error) = voice.place(now, placing, world) {
        tracing::warn!(sid = call.common.sid, ?error, "a call in place of one of a dead node is not placed");
        let mut row = Row::placed(now, call);
        row.end(now, CallStatus::Failed);
        world.outbox.extend(row.write(now));
    }
}

/// The calls that one node is to place in place of lost ones, and the lives that it has seen alive.
#[derive(Debug, Default)]
pub struct Redials {
    /// When each life was seen alive last.
    alive: BTreeMap<Life, Instant>,
    waiting: VecDeque<Placing>,
}

impl Redials {
    /// These lives are alive now.
    pub fn handle_alive(&mut self, now: Instant, lives: impl Iterator<Item = Life>) {
        self.alive.retain(|_, seen| now.since(*seen) <= limits::REDIAL_WITHIN);
        self.alive.extend(lives.map(|life| (life, now)));
    }

    /// True if calls of that life are made again: it has died a moment ago, and there is room for another call.
    pub fn accepts(&self, now: Instant, dead: Life) -> bool {
        let is_recent = self.alive.get(&dead).is_some_and(|seen| now.since(*seen) <= limits::REDIAL_WITHIN);
        is_recent && self.waiting.len() < limits::REDIALS
    }

    /// The row of the call is in the record, by this node.
    pub fn push(&mut self, call: RestCall, lost: &RestCall, owner: Arc<Owner>) {
        self.waiting.extend(placing(call, lost, owner));
    }

    /// The calls to place in this second.
    pub fn take_due(&mut self) -> impl Iterator<Item = Placing> + '_ {
        let count = self.waiting.len().min(limits::REDIALS_A_SECOND);
        self.waiting.drain(..count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn plan() -> Plan {
        let target = |url: &str| Target { url: url.to_owned(), method: Method::Get };
        Plan {
            fallback: Some(target("http://app/fallback")),
            status: Some(Callback {
                target: target("http://app/told"),
                events: vec!["answered", "completed"],
            }),
            ..numbers::plan_of(Start::Url(target("http://app/")))
        }
    }

    /// A call to 1234 by an account, whose node has died.
    fn lost(sid: &str) -> RestCall {
        let caller = Caller::Account("al ice@example.test".into());
        let party = party(RedialPolicy::Accounts, &caller, "alice").unwrap();
        RestCall {
            common: Common { sid: sid.into(), account: "AC1".into(), ..Common::default() },
            answered_at: Some(NOW),
            redial: of(&plan(), party, "1234"),
            ..RestCall::default()
        }
    }

    fn owner() -> Arc<Owner> {
        Arc::new(Owner { account: "AC1".into(), signing_key: "key".into() })
    }

    #[test]
    fn the_party_is_a_caller_that_is_known() {
        let of = |policy, caller: &Caller, from| party(policy, caller, from);
        let alice = Caller::Account("alice@example.test".into());
        let policies = [RedialPolicy::Never, RedialPolicy::Accounts, RedialPolicy::All];
        let account = Some("sip:alice@example.test".to_owned());
        // Whatever its From says.
        assert_eq!(policies.map(|policy| of(policy, &alice, "+4930")), [None, account.clone(), account]);
        // RFC 3323 §4.1.1.3: but not what it withholds.
        assert_eq!(policies.map(|policy| of(policy, &alice, "anonymous")), [None, None, None]);
        let trunk = policies.map(|policy| of(policy, &Caller::Stranger, "+4930"));
        assert_eq!(trunk, [None, None, Some("+4930".to_owned())]);
        for from in ["", "Anonymous"] {
            assert_eq!(of(RedialPolicy::All, &Caller::Stranger, from), None);
        }
    }

    #[test]
    fn a_call_without_a_url_or_with_a_password_is_not_made_again() {
        let inline = numbers::plan_of(Start::Document(b"<Response/>".to_vec()));
        assert_eq!(of(&inline, "sip:a@b".to_owned(), "1"), None);
        let to = Address::parse("sip:bob@peer.test", None, None);
        assert_eq!(of_placed(&plan(), &to, "1234").unwrap().to, "sip:bob@peer.test");
        let to = Address::parse("sip:bob@peer.test", Some("bob".to_owned()), Some("secret".to_owned()));
        assert_eq!(of_placed(&plan(), &to, "1234"), None);
    }

    #[test]
    fn the_next_call_has_the_party_the_application_and_a_sid_that_follows_from_the_lost_one() {
        let lost = lost("CA1");
        let call = row(NOW, Life(7), &lost).unwrap();
        assert!(sid::is(sid::CALL, &call.common.sid));
        assert_eq!(call.common.sid, row(NOW, Life(8), &lost).unwrap().common.sid);
        assert_ne!(call.common.sid, row(NOW, Life(7), &super::tests::lost("CA2")).unwrap().common.sid);
        assert_eq!((&*call.from, &*call.to, &*call.status), ("1234", "sip:al%20ice@example.test", "queued"));
        // Its node may die, too: then it ends, the application is told, and it is not made again.
        assert_eq!(
            (call.node_life, call.end_callback.as_ref().unwrap().url.as_str()),
            (7, "http://app/told")
        );
        assert!(call.is_live() && call.redial.is_none() && row(NOW, Life(8), &call).is_none());
        let placing = placing(call, &lost, owner()).unwrap();
        assert_eq!((placing.plan, placing.redial_of.as_deref()), (plan(), Some("CA1")));
        assert_eq!(row(NOW, Life(7), &RestCall { answered_at: None, ..lost }), None);
    }

    #[test]
    fn calls_are_placed_a_few_a_second_and_only_of_a_node_that_was_alive_a_moment_ago() {
        let mut redials = Redials::default();
        assert!(!redials.accepts(NOW, Life(3)));
        redials.handle_alive(NOW, [Life(3), Life(4)].into_iter());
        let later = NOW + limits::REDIAL_WITHIN + Duration::from_secs(1);
        redials.handle_alive(later, [Life(4)].into_iter());
        assert!(!redials.accepts(later, Life(3)) && redials.accepts(later, Life(4)));
        let lost = lost("CA1");
        while redials.accepts(later, Life(4)) {
            redials.push(row(later, Life(4), &lost).unwrap(), &lost, owner());
        }
        let mut seconds = Vec::new();
        while let placed @ 1.. = redials.take_due().count() {
            seconds.push(placed);
        }
        let all = vec![limits::REDIALS_A_SECOND; limits::REDIALS / limits::REDIALS_A_SECOND];
        assert_eq!(seconds, all);
    }

    proptest! {
        /// Nodes of which each believes at some time that it is to end the calls of a dead one, and which die anywhere between their steps:
        /// a lost call is placed once, or its node has died before it could.
        #[test]
        fn of_several_nodes_one_places_the_call(
            steps in prop::collection::vec((0..3_usize, 0..4_usize, prop::bool::weighted(0.1)), 0..60)
        ) {
            let lost: Vec<RestCall> = (0..4).map(|number| lost(&format!("CA{number}"))).collect();
            let (mut rows, mut forgotten) = (BTreeSet::new(), BTreeSet::new());
            let mut nodes: Vec<Option<Redials>> = (0..3).map(|_| Some(Redials::default())).collect();
            let (mut placed, mut died_with) = (Vec::new(), Vec::new());
            for (at, call, dies) in steps {
                let Some(node) = &mut nodes[at] else { continue };
                // It has read the row of the lost call, perhaps before another node wrote that it is done.
                let next = row(NOW, Life(at as u32), &lost[call]).unwrap();
                // `Ensure`: of one row or none.
                if rows.insert(next.common.sid.clone()) {
                    node.push(next, &lost[call], owner());
                }
                if dies {
                    died_with.extend(nodes[at].take().into_iter().flat_map(|mut node| {
                        node.take_due().map(|placing| placing.redial_of.unwrap()).collect::<Vec<_>>()
                    }));
                    continue;
                }
                forgotten.insert(lost[call].common.sid.clone());
                placed.extend(node.take_due().map(|placing| placing.redial_of.unwrap()));
            }
            let once: BTreeSet<String> = placed.iter().cloned().collect();
            prop_assert_eq!(once.len(), placed.len());
            for sid in forgotten {
                prop_assert!(once.contains(&sid) || died_with.contains(&sid));
            }
        }
    }
}
