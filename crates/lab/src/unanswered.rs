//! The notice that nothing has answered yet: RFC 3261's timers keep a call for 32 s before it fails (§17.1.1.2), users of chat wait for `--timeout`, and a
//! wrong address shows much earlier. Progress lines and the live view show it,
//! and the end of the run repeats it under the failures.

use std::net::TcpStream;
use std::time::Duration;

use crate::engine::{FIRST_CONNECTION, Progress, Setup};
use lab_sip::options::RemoteTarget;
use lab_sip::stats::Count;
use lab_xmpp::{StreamSecurity, XmppLoad};

/// By then a request over UDP was sent four times (0.5, 1.5 and 3.5 s after the first).
const PATIENCE: Duration = Duration::from_secs(4);

/// The sentence for a run whose calls have brought no message back. `None`: it is too early, or a message has come.
pub(crate) fn notice(setup: &Setup, progress: &Progress) -> Option<String> {
    if let Some(chat) = &setup.chat {
        return notice_of_chat(chat, progress);
    }
    let remote = setup.options.remote.as_ref()?;
    let counts = &progress.total.counts;
    let is_silent = counts[Count::MessagesReceived] == 0 && counts[Count::MessagesSent] > 0;
    let waited = progress.now.since(progress.started).saturating_sub(setup.options.behaviour.start_after);
    if !is_silent || counts[Count::OutgoingCall] == 0 || waited < PATIENCE {
        return None;
    }
    Some(format!("nothing has answered yet at {}", sent(setup, remote, progress)))
}

/// The sentence for the end of a run whose calls failed and brought no message back. A server that could not be connected to is asked once more,
/// for the system's word for it.
pub(crate) fn reason(setup: &Setup, progress: &Progress) -> Option<String> {
    let remote = setup.options.remote.as_ref().filter(|_| setup.chat.is_none())?;
    let counts = &progress.total.counts;
    let has_failed = counts[Count::OutgoingCall] > 0 && counts[Count::FailedCall] > 0;
    if !has_failed || counts[Count::MessagesReceived] > 0 {
        return None;
    }
    if counts[Count::FailedTcpConnect] == 0 {
        let is_silent = counts[Count::MessagesSent] > 0;
        return is_silent.then(|| format!("nothing answered at {}", sent(setup, remote, progress)));
    }
    let error = TcpStream::connect_timeout(&remote.address, FIRST_CONNECTION).err()?;
    let transport = setup.options.network.transport.via_word();
    Some(format!(
        "cannot connect to {} by {transport}: {error}; check address, port and transport (-t)",
        remote.address
    ))
}

/// The target, the messages to it, and what to check.
fn sent(setup: &Setup, remote: &RemoteTarget, progress: &Progress) -> String {
    let counts = &progress.total.counts;
    let again = match counts[Count::Retransmissions] {
        0 => String::new(),
        count => format!(", {count} of them again"),
    };
    let transport = setup.options.network.transport.via_word();
    format!(
        "{} by {transport}: {} messages sent{again}; check address, port and transport (-t)",
        remote.address,
        counts[Count::MessagesSent]
    )
}

/// A server of XMPP answers the header of a stream at once (RFC 6120 §4.2), and so does one of HTTP.
fn notice_of_chat(chat: &XmppLoad, progress: &Progress) -> Option<String> {
    let counts = &progress.total.counts;
    let is_silent = counts[Count::BytesReceived] == 0 && counts[Count::OutgoingCall] > 0;
    let waited = progress.now.since(progress.started);
    // Refused connections have failed, and the line of failures says so.
    if !is_silent || progress.gauges.open_sockets == 0 || waited < PATIENCE {
        return None;
    }
    let (what, check) = match chat.security {
        StreamSecurity::Tls => (
            "no answer by TLS has come",
            "whether this port has TLS from the first byte (else --tls starttls)",
        ),
        StreamSecurity::None | StreamSecurity::StartTls => {
            ("nothing has been answered", "whether this port waits for TLS first (then --tls direct)")
        }
    };
    Some(format!(
        "{what} yet at {}, where {} connections are open: check whether it is the port of XMPP, and {check}",
        chat.target, progress.gauges.open_sockets
    ))
}
