//! Gives the host of a shard its inputs, and keeps its effects in their order until they are performed.
//!
//! To perform an effect may give the host another input. The effects of that input are performed after all that the host has ordered
//! before, so that a client gets its stanzas in the order in which the host sent them.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;

use chat::{Effect, Host, Outbox};

/// The host of one shard and the effects that it has ordered.
pub(super) struct HostDriver {
    host: Host,
    /// Effects that are not performed, in order.
    todo: VecDeque<Effect>,
    /// An outer call performs them.
    is_performing: bool,
    /// The buffer of one input.
    scratch: Vec<Effect>,
    /// Until `take_panics`.
    panics: u64,
}

impl HostDriver {
    pub(super) fn new(host: Host) -> HostDriver {
        HostDriver { host, todo: VecDeque::new(), is_performing: false, scratch: Vec::new(), panics: 0 }
    }

    pub(super) fn get(&self) -> &Host {
        &self.host
    }

    /// For changes that cause no effects.
    pub(super) fn get_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    /// Lets the host handle an input. True: the caller performs the effects, which [`HostDriver::next_effect`] gives, until
    /// there are none; otherwise an outer call does, in their order. A panic is a defect of ours, and costs that input
    /// only.
    pub(super) fn handle(&mut self, act: impl FnOnce(&mut Host, &mut Outbox)) -> bool {
        let (host, effects) = (&mut self.host, &mut self.scratch);
        let acts = AssertUnwindSafe(|| act(host, effects));
        if std::panic::catch_unwind(acts).is_err() {
            self.panics += 1;
            tracing::error!("a stanza made the XMPP core panic: it was dropped; please report what is above");
        }
        self.todo.extend(self.scratch.drain(..));
        !std::mem::replace(&mut self.is_performing, true)
    }

    pub(super) fn next_effect(&mut self) -> Option<Effect> {
        let next = self.todo.pop_front();
        self.is_performing = next.is_some();
        next
    }

    /// Defects met since the last call.
    pub(super) fn take_panics(&mut self) -> u64 {
        std::mem::take(&mut self.panics)
    }
}
