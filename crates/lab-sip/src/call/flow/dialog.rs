//! The parts of received messages that a call keeps: the peer's tag, routes, challenges, the last message.
//!
//! Called for each message by `receive`. A call keeps as little as its scenario needs: most keep a tag and nothing else.

use super::{Call, CallContext, DialogParts, complain};
use crate::call::message::{Incoming, StartLine, header_values, tag, uri};
use crate::call::{Challenge, RouteSet};
use crate::scenario::model::RecvStep;

/// `[peer_tag_param]`: of the last response that had a tag.
pub(super) fn keep_peer_tag(call: &mut Call, message: &Incoming<'_>) {
    const PREFIX: &[u8] = b";tag=";

    let Some(tag) = message.to_tag().filter(|tag| !tag.is_empty()) else {
        return;
    };
    // The tag rarely changes, and an allocation saved is one for most responses.
    if call.peer_tag.strip_prefix(PREFIX) != Some(tag) {
        call.peer_tag = [PREFIX, tag].concat().into_boxed_slice();
    }
}

/// The whole message where the scenario looks into it. A client that may have to end the call on its own account
/// keeps the headers it needs for that.
pub(super) fn keep_message(call: &mut Call, ctx: &CallContext<'_>, message: &Incoming<'_>) {
    if ctx.env.scenario.needs.last_message {
        call.last_received = Some(message.bytes.into());
    } else if !call.identity.incoming && ctx.env.options.call.defaults.bye {
        call.last_received = Some(digest(message));
    }
}

/// Keeps the message whatever the scenario needs: the call is about to answer it.
pub(super) fn keep_whole(call: &mut Call, message: &Incoming<'_>) {
    call.last_received = Some(message.bytes.into());
}

/// Start line, top Via, From, To, Call-ID and CSeq, as they are spelled.
fn digest(message: &Incoming<'_>) -> Box<[u8]> {
    let line = |value: Option<&[u8]>| value.map_or(&[][..], |value| line_of(message.bytes, value));
    let parts: [&[u8]; 7] = [
        message.start_text(),
        line(message.via),
        line(message.from),
        line(message.to),
        line(Some(message.call_id)),
        line(Some(message.cseq_method)),
        b"\r\n\r\n",
    ];
    parts.concat().into_boxed_slice()
}

/// The header line that this value ends, and the line end before it.
fn line_of<'a>(bytes: &'a [u8], value: &[u8]) -> &'a [u8] {
    let Some(at) = (value.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize) else { return &[] };
    let Some(before) = bytes.get(..at) else { return &[] };
    let newline = memchr::memrchr(b'\n', before).unwrap_or(0);
    bytes.get(newline..at + value.len()).unwrap_or_default()
}

/// A client that may have to end the call on its own account keeps the dialog: From, To, route set and remote target
/// are those of the 2xx to its INVITE, whatever is received later.
pub(super) fn keep_dialog(call: &mut Call, message: &Incoming<'_>) {
    if call.identity.incoming {
        return;
    }
    let code = message.code();
    // RFC 3261 §12.2.1.1 and RFC 3311: a request or 2xx of INVITE or UPDATE names a new remote target.
    let refreshes = match message.start {
        StartLine::Request { method, .. } => matches!(method, b"INVITE" | b"UPDATE"),
        StartLine::Response { .. } => {
            (200..300).contains(&code) && matches!(message.cseq_method, b"INVITE" | b"UPDATE")
        }
    };
    // A 2xx to an INVITE: it makes the dialog.
    let is_answer = refreshes && code != 0 && message.cseq_method == b"INVITE";
    if let Some(dialog) = &mut call.flow.dialog {
        if code != 0 {
            dialog.cseq = dialog.cseq.max(message.cseq_number);
        }
        let tag = header_values(&dialog.answer, "To").next().and_then(tag);
        // A 2xx with the To tag of the kept dialog answers an INVITE within it.
        if !is_answer || tag == message.to_tag() {
            if let Some(contact) = message.header_values("Contact").next().filter(|_| refreshes) {
                dialog.refreshed = Some(contact.into());
            }
            return;
        }
        // Another INVITE of the scenario made another dialog.
    }
    if is_answer {
        let answer = answer_of(message);
        call.flow.dialog = Some(Box::new(DialogParts { answer, refreshed: None, cseq: message.cseq_number }));
    }
}

/// The headers of a 2xx that a dialog is made of, below a start line.
fn answer_of(message: &Incoming<'_>) -> Box<[u8]> {
    let mut answer = message.start_text().to_vec();
    for value in [message.from, message.to].into_iter().flatten() {
        answer.extend_from_slice(line_of(message.bytes, value));
    }
    for line in ["Contact", "Record-Route"].iter().flat_map(|name| message.header_lines(name)) {
        answer.extend_from_slice(b"\r\n");
        answer.extend_from_slice(line);
    }
    answer.extend_from_slice(b"\r\n\r\n");
    answer.into_boxed_slice()
}

/// The parts of a BYE in the dialog that this end's INVITE made.
pub(super) struct ByeParts {
    /// The Request-URI: the remote target, or the first strict router.
    pub(super) target: Vec<u8>,
    /// The Route header, or empty.
    pub(super) route: Vec<u8>,
    /// Our own From, tag included.
    pub(super) from: Vec<u8>,
    /// The peer's To, tag included.
    pub(super) to: Vec<u8>,
    /// One more than every request of ours before.
    pub(super) cseq: u32,
}

/// `None` without a dialog of our own.
pub(super) fn bye(call: &Call) -> Option<ByeParts> {
    let dialog = call.flow.dialog.as_deref()?;
    let value = |name| header_values(&dialog.answer, name).next();
    let (from, to) = (value("From")?, value("To")?);
    let first = value("Contact").and_then(|contact| entries(contact).next());
    // Without a Contact, which a 2xx must have (RFC 3261 §12.1.1), there is but To.
    let contact = dialog.refreshed.as_deref().or(first).unwrap_or(to);
    let recorded = header_values(&dialog.answer, "Record-Route").flat_map(entries).collect();
    let routes = routes(recorded, contact, true);
    // RFC 3261 §12.2.1.1: higher than that of every request before. One may still wait for its answer.
    let unanswered = call.flow.unanswered.as_ref().and_then(|last| Incoming::parse(&last.bytes).ok());
    let last = unanswered.filter(|last| last.code() == 0).map_or(0, |last| last.cseq_number);
    Some(ByeParts {
        target: routes.next_url,
        route: routes.header,
        from: from.to_vec(),
        to: to.to_vec(),
        cseq: dialog.cseq.max(last).wrapping_add(1),
    })
}

/// `rrs`: the route set is kept once, the remote target until there is a route set.
pub(super) fn keep_routes(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    recv: &RecvStep,
    message: &Incoming<'_>,
) {
    if !recv.rrs || call.routes.as_ref().is_some_and(|routes| !routes.header.is_empty()) {
        return;
    }
    let Some(contact) = message.header_values("Contact").next() else {
        complain(call, ctx, "rrs: the message has no Contact, so there is no route to keep");
        return;
    };
    let recorded = message.header_values("Record-Route").flat_map(entries).collect();
    call.routes = Some(Box::new(routes(recorded, contact, message.code() != 0)));
}

/// The route set and the remote target out of the entries of Record-Route and the Contact.
fn routes(recorded: Vec<&[u8]>, contact: &[u8], is_answer: bool) -> RouteSet {
    let entries = recorded.into_iter().map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty());
    let mut recorded: Vec<&[u8]> = entries.collect();
    // RFC 3261 §12.1.2: the UAC reverses the order of the list.
    if is_answer {
        recorded.reverse();
    }
    let mut target = contact;
    // RFC 3261 §12.2.1.1: a first hop without `lr` is a strict router; it is the target and the Contact comes last.
    let bracketed;
    if let Some(first) = recorded.first().copied()
        && memchr::memmem::find(first, b";lr").is_none()
    {
        recorded.remove(0);
        bracketed =
            if contact.contains(&b'<') { contact.to_vec() } else { [b"<", uri(contact), b">"].concat() };
        recorded.push(&bracketed);
        target = first;
    }
    let header =
        if recorded.is_empty() { Vec::new() } else { [b"Route: ", &*recorded.join(&b", "[..])].concat() };
    RouteSet { header, next_url: uri(target).to_vec() }
}

/// Entries of a comma-separated header; a comma within `<…>` or quotes is part of an entry.
fn entries(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut bracketed) = (false, false);
    value.split(move |byte| {
        match byte {
            b'"' => quoted = !quoted,
            b'<' => bracketed = true,
            b'>' => bracketed = false,
            _ => {}
        }
        *byte == b',' && !quoted && !bracketed
    })
}

/// `auth`: the challenges of a 401 or 407, the proxy's before the server's.
pub(super) fn keep_challenge(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    recv: &RecvStep,
    message: &Incoming<'_>,
) {
    let code = message.code();
    if !recv.auth || !matches!(code, 401 | 407) {
        return;
    }
    let mut values: Vec<Vec<u8>> = message.header_values("Proxy-Authenticate").map(<[u8]>::to_vec).collect();
    if values.is_empty() {
        values = message.header_values("WWW-Authenticate").map(<[u8]>::to_vec).collect();
    }
    if values.is_empty() {
        complain(call, ctx, &format!("the {code} has neither Proxy-Authenticate nor WWW-Authenticate"));
        return;
    }
    // Each new challenge has a new nonce, whose count begins at 1.
    call.challenge = Some(Box::new(Challenge { proxy: code == 407, values, count: 1 }));
}
