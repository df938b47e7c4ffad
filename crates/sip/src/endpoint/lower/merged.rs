//! RFC 3261 §8.2.2.2: one request that forked before us and came by two ways is answered once where we are its user
//! agent server: by sessions, registrar and notifier. A proxy lets such requests pass (§16.3).

use stdx::slab::Key;

use super::LowerView;
use crate::endpoint::environment::Environment;
use crate::wire::Message;

impl LowerView<'_> {
    /// Answers 482 when another transaction that still lives has the same request.
    pub(crate) fn refuse_merged(&mut self, key: Key) -> bool {
        let Some(context) = self.contexts.get_mut(key) else { return false };
        context.name = request_name(self.env, &context.request);
        let Some(name) = context.name else { return false };
        let other = self.merging.get(&name).copied().filter(|&other| other != context.server);
        let is_merged = other.is_some_and(|other| self.transactions.table.get(other).is_some());
        if is_merged {
            self.counters.loops += 1;
            self.finish(key, 482, "Loop Detected");
        }
        is_merged
    }

    /// Later copies of this request are refused while its transaction lives. To be called after [`refuse_merged`](Self::refuse_merged).
    pub(crate) fn remember_request(&mut self, key: Key) {
        let Some(context) = self.contexts.get(key) else { return };
        if let Some(name) = context.name {
            self.merging.insert(name, context.server);
        }
    }
}

/// `None` for a request within a dialog.
fn request_name(env: &Environment, request: &Message) -> Option<u64> {
    if request.to_tag().is_some() {
        return None;
    }
    let number = request.cseq().map_or(0, |(number, _)| number);
    Some(env.keys.call.hash_parts(&[
        b"merged",
        request.from_tag().unwrap_or_default(),
        request.call_id().unwrap_or_default(),
        &number.to_be_bytes(),
        request.method_name(),
    ]))
}
