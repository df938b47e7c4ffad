//! What an account may call: how many calls at once and a second, and where to. Carriers call it fraud control.
//!
//! Accounts without limits, nearly all, are not asked for: a limit costs a question to the owner of the address.

use std::sync::Arc;

use router::{Admission, AdmitRefused, Aor, AskId, CallInfo, CallPhase, Query};
use stdx::Instant;
use stdx::slab::Key;

use super::{Caller, Context, Effect, Endpoint, Outbox, Stage};
use crate::registrar::gruu::Instance;
use crate::wire::{Message, Method};

/// The limits of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls at once, placed and received.
    pub max_calls: Option<u32>,
    /// New calls a second that it places.
    pub max_rate: Option<u32>,
    /// Patterns of destinations that it may not call; the routing plan reads them.
    pub deny: Vec<Box<str>>,
}

/// Which side of the call is asked for.
#[derive(Debug)]
pub(super) enum Admitting {
    Caller,
    Callee(Aor),
}

impl Endpoint {
    /// The caller has proved to be this account.
    pub(super) fn plan_for(
        &mut self,
        now: Instant,
        key: Key,
        (aor, limits): (Aor, Option<Arc<CallLimits>>),
        own_routes: usize,
        out: &mut Outbox,
    ) {
        let caller = Caller::Account(aor.clone());
        if let Some(context) = self.contexts.get_mut(key) {
            context.caller = Some(caller.clone());
            context.limits.clone_from(&limits);
        }
        let counted = |limits: &&Arc<CallLimits>| limits.max_calls.is_some() || limits.max_rate.is_some();
        match limits.as_ref().filter(counted).filter(|_| self.starts_call(key)) {
            Some(limits) => self.ask_admission(now, key, (aor, limits), own_routes, Admitting::Caller, out),
            None => {
                self.set_stage(key, Stage::Planning { own_routes });
                self.plan(key, caller, out);
            }
        }
    }

    /// The callee is this account. True when its limits are asked for first.
    pub(super) fn asks_for_callee(
        &mut self,
        now: Instant,
        key: Key,
        (aor, limits): (&Aor, Option<&Arc<CallLimits>>),
        own_routes: usize,
        out: &mut Outbox,
    ) -> bool {
        let limits = limits.filter(|limits| limits.max_calls.is_some() && self.starts_call(key));
        let Some(limits) = limits else { return false };
        let side = Admitting::Callee(aor.clone());
        self.ask_admission(now, key, (aor.clone(), limits), own_routes, side, out);
        true
    }

    /// RFC 5627 §6.1: a GRUU names one phone of an account. A call to it is a call of the account, and counts.
    pub(super) fn find_instance(
        &mut self,
        key: Key,
        own_routes: usize,
        instance: Instance,
        out: &mut Outbox,
    ) {
        let Some((user, domain)) = instance.aor.rsplit_once('@').filter(|_| self.starts_call(key)) else {
            return self.locate_instance(key, own_routes, instance, out);
        };
        let (user, domain) = (user.into(), domain.into());
        self.set_stage(key, Stage::Finding { own_routes });
        if let Some(context) = self.contexts.get_mut(key) {
            context.gruu = Some(instance);
        }
        out.push(Effect::Account { id: Self::ask_id(key), user, domain });
    }

    /// A call that an application places meets a limit of a route.
    pub fn count_refused_call(&mut self, is_denied: bool) {
        if is_denied {
            self.counters.refused_destinations += 1;
        } else {
            self.counters.refused_by_limit += 1;
        }
    }

    fn ask_admission(
        &mut self,
        _now: Instant,
        key: Key,
        (aor, limits): (Aor, &Arc<CallLimits>),
        own_routes: usize,
        side: Admitting,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let initiator = matches!(side, Admitting::Caller);
        let admission = Admission {
            aor,
            call_id: call_id_of(&context.request),
            caller_tag: caller_tag_of(&context.request),
            initiator,
            max_calls: limits.max_calls,
            max_rate: limits.max_rate.filter(|_| initiator),
        };
        self.set_stage(key, Stage::Admitting { own_routes, side });
        out.push(Effect::Ask { id: Self::ask_id(key), query: Query::Admit(Box::new(admission)) });
    }

    pub(super) fn handle_admitted(
        &mut self,
        now: Instant,
        key: Key,
        admitted: Result<(), AdmitRefused>,
        out: &mut Outbox,
    ) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        let planning = Stage::Planning { own_routes: 0 };
        let Stage::Admitting { own_routes, side } = std::mem::replace(&mut context.stage, planning) else {
            return;
        };
        if let Err(refused) = admitted {
            self.counters.refused_by_limit += 1;
            let (status, reason) = match (side, refused) {
                (Admitting::Callee(_), _) => (486, "Busy Here"),
                (Admitting::Caller, AdmitRefused::TooManyCalls) => (403, "Too Many Calls Of This Account"),
                (Admitting::Caller, AdmitRefused::TooFast) => (403, "Too Many Calls A Second"),
            };
            return self.finish(now, key, status, reason, out);
        }
        let caller = context.caller.clone().unwrap_or(Caller::Stranger);
        context.stage = Stage::Planning { own_routes };
        match side {
            Admitting::Caller => {
                if let Caller::Account(aor) = &caller {
                    context.admitted.push((aor.clone(), true));
                }
                self.plan(key, caller, out);
            }
            Admitting::Callee(aor) => {
                context.admitted.push((aor.clone(), false));
                self.locate_account(now, key, own_routes, aor, out);
            }
        }
    }

    /// A call that was admitted never began: it counts no more. One that began is ended by the ledger's events.
    pub(super) fn release(&mut self, key: Key, out: &mut Outbox) {
        let Some(context) = self.contexts.get_mut(key) else { return };
        if context.admitted.is_empty() || matches!(context.stage, Stage::Proxying(_) | Stage::Session(_)) {
            return;
        }
        let (call_id, caller) = (call_id_of(&context.request), caller_tag_of(&context.request));
        for (aor, initiator) in std::mem::take(&mut context.admitted) {
            let call = CallInfo {
                call_id: call_id.clone(),
                local_tag: if initiator { caller.clone() } else { "".into() },
                remote_tag: if initiator { "".into() } else { caller.clone() },
                initiator,
                remote: "".into(),
                phase: CallPhase::Terminated,
            };
            // Not answered.
            out.push(Effect::Ask { id: AskId(0), query: Query::CallChanged { aor, call } });
        }
    }

    pub(super) fn starts_call(&self, key: Key) -> bool {
        self.contexts.get(key).is_some_and(Context::starts_call)
    }
}

impl Context {
    pub(super) fn starts_call(&self) -> bool {
        self.request.method() == Method::Invite && self.request.to_tag().is_none()
    }
}

/// As the events of the call name it.
fn call_id_of(request: &Message) -> Box<str> {
    String::from_utf8_lossy(request.call_id().unwrap_or_default()).into()
}

fn caller_tag_of(request: &Message) -> Box<str> {
    String::from_utf8_lossy(request.from_tag().unwrap_or_default()).into()
}
