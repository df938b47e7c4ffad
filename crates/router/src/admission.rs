//! The limits on an account's concurrent calls and on calls placed a second: checked before a call of an
//! account with such a limit goes on, wherever it arrived. The owner of the address counts, so that all edges
//! count together.

use stdx::Instant;
use stdx::rate::{Rate, TokenBucket};

use crate::interface::{Admission, AdmitRefused, CallInfo, CallPhase, ShardAddress};
use crate::limits;
use crate::router::{Effect, Router};

impl Router {
    /// Admits a call, and counts it until it ends or `limits::ADMITTED_UNSEEN` passes without news of it.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        from: ShardAddress,
        admission: &Admission,
        out: &mut Vec<Effect>,
    ) -> Result<(), AdmitRefused> {
        let Admission { aor, max_calls, max_rate, .. } = admission;
        let info = call_of(admission);
        let known = self.soft.get(aor).map(|soft| soft.calls.count_beside(&info));
        let (others, is_known) = known.unwrap_or((0, false));
        // A repeated question, or one call that comes by again: it is counted.
        if is_known {
            return Ok(());
        }
        if max_calls.is_some_and(|most| others >= (most as usize).min(limits::COUNTED_CALLS)) {
            return Err(AdmitRefused::TooManyCalls);
        }
        if max_rate.is_some_and(|calls| !self.take_turn(now, aor, calls)) {
            return Err(AdmitRefused::TooFast);
        }
        // Without a limit on calls at once the count is not needed.
        if max_calls.is_some() && !info.call_id.is_empty() && self.soft.has_room(aor) {
            self.callers.insert(from);
            self.soft.change(now, aor, |soft| soft.calls.admit(now, from, info));
            self.notify(now, aor, out);
        }
        Ok(())
    }

    fn take_turn(&mut self, now: Instant, aor: &str, calls: u32) -> bool {
        let rate = Rate::per_second(calls, calls);
        let key: Box<str> = aor.into();
        let mut bucket = self.call_rates.remove(aor).unwrap_or_else(|| TokenBucket::new(rate));
        bucket.set_rate(rate);
        let verdict = bucket.take(now);
        self.call_rates.insert(key, bucket);
        verdict.is_pass()
    }
}

/// The call as the events of its dialog name it; the callee's tag is not known yet.
fn call_of(admission: &Admission) -> CallInfo {
    let (caller, callee) = (admission.caller_tag.clone(), Box::default());
    let (local_tag, remote_tag) = if admission.initiator { (caller, callee) } else { (callee, caller) };
    CallInfo {
        call_id: admission.call_id.clone(),
        local_tag,
        remote_tag,
        initiator: admission.initiator,
        remote: "".into(),
        phase: CallPhase::Trying,
    }
}
