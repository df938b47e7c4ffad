//! The time from a request to the first response that tells its sender more than that it has come.

use stdx::slab::Key;

use super::LowerView;
use crate::endpoint::context::TransactionUser;
use crate::wire::Method;

/// Counts a response of a server transaction; neither a 100 nor a challenge, which goes out at once and would hide the others.
pub(super) fn note_response(view: &mut LowerView<'_>, server: Key, status: u16) {
    if matches!(status, 100 | 401 | 407) {
        return;
    }
    let user = view.transactions.table.get(server).map(|transaction| transaction.user);
    if let Some(TransactionUser::Context(context)) = user {
        note_first_response(view, context);
    }
}

/// Counts the first response to the request of a context.
pub(super) fn note_first_response(view: &mut LowerView<'_>, context: Key) {
    let Some(context) = view.contexts.get_mut(context) else { return };
    let Some(since) = context.unanswered_since.take() else { return };
    let histogram = match context.request.method() {
        Method::Register => &mut view.counters.register_responses,
        _ => &mut view.counters.invite_responses,
    };
    histogram.record(view.now.since(since));
}
