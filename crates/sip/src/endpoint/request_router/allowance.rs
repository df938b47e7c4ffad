//! The calls that an account may place: how many at once and a second, and where to. Carriers call it fraud
//! control.
//!
//! Accounts without limits, nearly all, are not asked for: a limit costs a question to the owner of the
//! address, where the calls of all shards and nodes are counted. The order is caller first, then the plan,
//! then the callee; each admission is noted in the context, so that the call gives it back when it ends or
//! fails.

use std::sync::Arc;

use router::{Admission, AdmitRefused, Aor, Query};
use stdx::slab::Key;

use super::RequestRouter;
use crate::endpoint::context::{RequestStage, call_id_of, caller_tag_of};
use crate::endpoint::lower::{LowerView, ask_id};
use crate::endpoint::{Caller, EndpointEffect};
use crate::registrar::gruu::Instance;

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

/// The side of the call that the admission is for.
#[derive(Debug)]
pub(crate) enum AdmissionSide {
    /// The account that places it.
    Caller,
    /// The account that is called.
    Callee(Aor),
}

impl RequestRouter {
    /// The caller has proved to be this account: the plan decides, after its limits have admitted the call.
    /// Only an INVITE that starts a call counts.
    pub(crate) fn plan_for(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        (aor, limits): (Aor, Option<Arc<CallLimits>>),
        own_routes: usize,
    ) {
        let caller = Caller::Account(aor.clone());
        if let Some(context) = lower.contexts.get_mut(key) {
            context.caller = Some(caller.clone());
            context.limits.clone_from(&limits);
        }
        let counted = |limits: &&Arc<CallLimits>| limits.max_calls.is_some() || limits.max_rate.is_some();
        match limits.as_ref().filter(counted).filter(|_| lower.starts_call(key)) {
            Some(limits) => self.ask_admission(lower, key, (aor, limits), own_routes, AdmissionSide::Caller),
            None => {
                lower.set_stage(key, RequestStage::Planning { own_routes });
                self.plan(lower, key, caller);
            }
        }
    }

    /// The callee is this account. True when its limits are asked for first.
    pub(crate) fn asks_for_callee(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        (aor, limits): (&Aor, Option<&Arc<CallLimits>>),
        own_routes: usize,
    ) -> bool {
        let limits = limits.filter(|limits| limits.max_calls.is_some() && lower.starts_call(key));
        let Some(limits) = limits else { return false };
        let side = AdmissionSide::Callee(aor.clone());
        self.ask_admission(lower, key, (aor.clone(), limits), own_routes, side);
        true
    }

    /// RFC 5627 §6.1: a GRUU names one phone of an account. A call to it is a call of the account, and counts.
    pub(crate) fn find_instance(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        own_routes: usize,
        instance: Instance,
    ) {
        let Some((user, domain)) = instance.aor.rsplit_once('@').filter(|_| lower.starts_call(key)) else {
            return self.locate_instance(lower, key, own_routes, instance);
        };
        let (user, domain) = (user.into(), domain.into());
        lower.set_stage(key, RequestStage::Finding { own_routes });
        if let Some(context) = lower.contexts.get_mut(key) {
            context.gruu = Some(instance);
        }
        lower.out.push(EndpointEffect::Account { id: ask_id(key), user, domain });
    }

    /// Asks the owner of the account.
    fn ask_admission(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        (aor, limits): (Aor, &Arc<CallLimits>),
        own_routes: usize,
        side: AdmissionSide,
    ) {
        let Some(context) = lower.contexts.get(key) else { return };
        let initiator = matches!(side, AdmissionSide::Caller);
        let admission = Admission {
            aor,
            call_id: call_id_of(&context.request),
            caller_tag: caller_tag_of(&context.request),
            initiator,
            max_calls: limits.max_calls,
            max_rate: limits.max_rate.filter(|_| initiator),
        };
        lower.set_stage(key, RequestStage::Admitting { own_routes, side });
        lower.out.push(EndpointEffect::Ask { id: ask_id(key), query: Query::Admit(Box::new(admission)) });
    }

    /// The owner has answered: the call goes on where it waited, or is refused. A callee over its limit is
    /// busy; its limits are not the caller's business.
    pub(crate) fn handle_admitted(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        admitted: Result<(), AdmitRefused>,
    ) {
        let Some(context) = lower.contexts.get_mut(key) else { return };
        let planning = RequestStage::Planning { own_routes: 0 };
        let RequestStage::Admitting { own_routes, side } = std::mem::replace(&mut context.stage, planning)
        else {
            return;
        };
        if let Err(refused) = admitted {
            lower.counters.refused_by_limit += 1;
            let (status, reason) = match (side, refused) {
                (AdmissionSide::Callee(_), _) => (486, "Busy Here"),
                (AdmissionSide::Caller, AdmitRefused::TooManyCalls) => {
                    (403, "Too Many Calls Of This Account")
                }
                (AdmissionSide::Caller, AdmitRefused::TooFast) => (403, "Too Many Calls A Second"),
            };
            return lower.finish(key, status, reason);
        }
        let caller = context.caller.clone().unwrap_or(Caller::Stranger);
        context.stage = RequestStage::Planning { own_routes };
        match side {
            AdmissionSide::Caller => {
                if let Caller::Account(aor) = &caller {
                    context.admitted.push((aor.clone(), true));
                }
                self.plan(lower, key, caller);
            }
            AdmissionSide::Callee(aor) => {
                context.admitted.push((aor.clone(), false));
                self.locate_account(lower, key, own_routes, aor);
            }
        }
    }
}
