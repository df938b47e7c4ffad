//! The calls of an address, as RFC 4235 tells its watchers.

use stdx::Instant;

use crate::interface::{Aor, CallInfo, CallPhase, ShardAddress};
use crate::limits;
use crate::router::{Effect, Router};

#[derive(Default)]
pub(crate) struct Calls(Vec<Call>);

struct Call {
    info: CallInfo,
    until: Instant,
    /// The shard that works on the call, and tells of its end.
    from: ShardAddress,
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn infos(&self) -> Vec<CallInfo> {
        self.0.iter().take(limits::CALLS_PER_ADDRESS).map(|call| call.info.clone()).collect()
    }

    pub(crate) fn on_the_phone(&self) -> bool {
        self.0.iter().any(|call| call.info.phase == CallPhase::Confirmed)
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.0.iter().map(|call| call.until).min()
    }

    /// True when a call was forgotten.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|call| call.until > now);
        self.0.len() < before
    }

    /// Forgets the calls of other shards than these. True when a call was forgotten.
    pub(crate) fn keep(&mut self, is_live: impl Fn(ShardAddress) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|call| is_live(call.from));
        self.0.len() < before
    }

    fn put(&mut self, now: Instant, from: ShardAddress, info: CallInfo) {
        let (full, until) = (self.0.len() >= limits::CALLS_PER_ADDRESS, now + limits::LONGEST_CALL);
        match self.0.iter_mut().find(|call| same_call(&call.info, &info)) {
            Some(call) => *call = Call { info, until, from },
            // The end of a call we were not told of is no news.
            None if info.phase == CallPhase::Terminated => {}
            None if full => {}
            None => self.0.push(Call { info, until, from }),
        }
    }

    /// The number of other calls, and true if this one is known.
    pub(crate) fn count_beside(&self, info: &CallInfo) -> (usize, bool) {
        let is_this = |call: &&Call| same_call(&call.info, info);
        let these = self.0.iter().filter(is_this).count();
        (self.0.len() - these, these > 0)
    }

    /// A call that counts though no edge has reported it yet.
    pub(crate) fn admit(&mut self, now: Instant, from: ShardAddress, info: CallInfo) {
        self.0.push(Call { info, until: now + limits::ADMITTED_UNSEEN, from });
    }

    fn drop_terminated(&mut self) -> bool {
        let before = self.0.len();
        self.0.retain(|call| call.info.phase != CallPhase::Terminated);
        self.0.len() < before
    }
}

/// A tag that one side does not know yet matches any (RFC 3261 §12.1.2: an early dialog gets its tag later).
fn same_call(a: &CallInfo, b: &CallInfo) -> bool {
    let tags_agree = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
    a.call_id == b.call_id
        && a.initiator == b.initiator
        && tags_agree(&a.local_tag, &b.local_tag)
        && tags_agree(&a.remote_tag, &b.remote_tag)
}

impl Router {
    pub(crate) fn handle_call_changed(
        &mut self,
        now: Instant,
        from: ShardAddress,
        (aor, info): (&Aor, CallInfo),
        out: &mut Vec<Effect>,
    ) {
        let unknown_ended = info.phase == CallPhase::Terminated && self.soft.get(aor).is_none();
        if unknown_ended || !self.soft.has_room(aor) {
            return;
        }
        self.callers.insert(from);
        self.soft.change(now, aor, |soft| soft.calls.put(now, from, info));
        self.notify(now, aor, out);
        // RFC 4235 §3.7: the end is told once, then the dialog is gone.
        if self.soft.change_known(now, aor, |soft| soft.calls.drop_terminated()) == Some(true) {
            self.settle(now, aor);
        }
    }
}

/// Forgets the calls that other shards than these have reported, in one pass, and tells the watchers. The packets of such a call go on by
/// other shards, which do not know its accounts and never report its end (`docs/decisions/0136-calls-of-nodes-that-are-gone.md`).
pub fn forget_calls(
    router: &mut Router,
    now: Instant,
    is_live: impl Fn(ShardAddress) -> bool,
    out: &mut Vec<Effect>,
) {
    let before = router.callers.len();
    router.callers.retain(|from| is_live(*from));
    if router.callers.len() == before {
        return;
    }
    for aor in router.soft.keep_calls(is_live) {
        router.notify(now, &aor, out);
    }
}
