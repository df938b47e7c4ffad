//! The calls of an address, as RFC 4235 tells its watchers.

use stdx::Instant;

use crate::interface::{Aor, CallInfo, CallPhase};
use crate::limits;
use crate::router::{Effect, Router};

#[derive(Default)]
pub(crate) struct Calls(Vec<Call>);

struct Call {
    info: CallInfo,
    until: Instant,
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

    fn put(&mut self, now: Instant, info: CallInfo) {
        let full = self.0.len() >= limits::CALLS_PER_ADDRESS;
        match self.0.iter_mut().find(|call| same_call(&call.info, &info)) {
            Some(call) => *call = Call { info, until: now + limits::LONGEST_CALL },
            // The end of a call we were not told of is no news.
            None if info.phase == CallPhase::Terminated => {}
            None if full => {}
            None => self.0.push(Call { info, until: now + limits::LONGEST_CALL }),
        }
    }

    /// The number of other calls, and true if this one is known.
    pub(crate) fn count_beside(&self, info: &CallInfo) -> (usize, bool) {
        let is_this = |call: &&Call| same_call(&call.info, info);
        let these = self.0.iter().filter(is_this).count();
        (self.0.len() - these, these > 0)
    }

    /// A call that counts though no edge has reported it yet.
    pub(crate) fn admit(&mut self, now: Instant, info: CallInfo) {
        self.0.push(Call { info, until: now + limits::ADMITTED_UNSEEN });
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
        aor: &Aor,
        info: CallInfo,
        out: &mut Vec<Effect>,
    ) {
        let unknown_ended = info.phase == CallPhase::Terminated && self.soft.get(aor).is_none();
        if unknown_ended || !self.soft.has_room(aor) {
            return;
        }
        self.soft.change(now, aor, |soft| soft.calls.put(now, info));
        self.notify(now, aor, out);
        // RFC 4235 §3.7: the end is told once, then the dialog is gone.
        if self.soft.change_known(now, aor, |soft| soft.calls.drop_terminated()) == Some(true) {
            self.settle(now, aor);
        }
    }
}
