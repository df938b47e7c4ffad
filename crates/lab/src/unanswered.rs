//! The notice that nothing has answered yet: RFC 3261's timers keep a call for 32 s before it fails (§17.1.1.2), and a wrong
//! address shows much earlier. Progress lines and the live view show it.

use std::time::Duration;

use crate::engine::{Progress, Setup};
use lab_sip::stats::Count;

/// By then a request over UDP was sent four times (0.5, 1.5 and 3.5 s after the first).
const PATIENCE: Duration = Duration::from_secs(4);

/// The sentence for a run whose calls have brought no message back. `None`: it is too early, or a message has come.
pub(crate) fn notice(setup: &Setup, progress: &Progress) -> Option<String> {
    let remote = setup.options.remote.as_ref().filter(|_| setup.chat.is_none())?;
    let counts = &progress.total.counts;
    let is_silent = counts[Count::MessagesReceived] == 0 && counts[Count::MessagesSent] > 0;
    let waited = progress.now.since(progress.started).saturating_sub(setup.options.behaviour.start_after);
    if !is_silent || counts[Count::OutgoingCall] == 0 || waited < PATIENCE {
        return None;
    }
    let again = match counts[Count::Retransmissions] {
        0 => String::new(),
        count => format!(", {count} of them again"),
    };
    let transport = setup.options.network.transport.via_word();
    Some(format!(
        "nothing has answered yet at {} by {transport}: {} messages sent{again}; \
         check address, port and transport (-t)",
        remote.address,
        counts[Count::MessagesSent]
    ))
}
