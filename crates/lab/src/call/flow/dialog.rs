//! What a call keeps of the messages it received: the peer's tag, routes, challenges, the last message.

use super::{Call, Ctx, complain};
use crate::call::message::Incoming;
use crate::call::{Challenge, Routes};
use crate::scenario::model::Recv;

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
pub(super) fn keep_message(call: &mut Call, ctx: &Ctx<'_>, message: &Incoming<'_>) {
    if ctx.env.scenario.needs.last_message {
        call.last_received = Some(message.bytes.into());
    } else if !call.identity.incoming && ctx.env.options.call.defaults.bye {
        call.last_received = Some(digest(message));
    }
}

/// Whatever the scenario needs: the call is about to answer this very message.
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

/// `rrs`: the route set is kept once, the remote target until there is a route set.
pub(super) fn keep_routes(call: &mut Call, ctx: &mut Ctx<'_>, recv: &Recv, message: &Incoming<'_>) {
    if !recv.rrs || call.routes.as_ref().is_some_and(|routes| !routes.header.is_empty()) {
        return;
    }
    let Some(contact) = message.header_values("Contact").next() else {
        complain(call, ctx, "rrs: the message has no Contact, so there is no route to keep");
        return;
    };
    let mut recorded: Vec<&[u8]> = message
        .header_values("Record-Route")
        .flat_map(entries)
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
        .collect();
    // RFC 3261 §12.1.2: the one who asked takes the list from its end.
    if message.code() != 0 {
        recorded.reverse();
    }
    let mut target = contact;
    // RFC 3261 §12.2.1.1: a first hop without `lr` is a strict router; it is the target and the Contact comes last.
    if let Some(first) = recorded.first().copied()
        && memchr::memmem::find(first, b";lr").is_none()
    {
        recorded.remove(0);
        recorded.push(contact);
        target = first;
    }
    let header =
        if recorded.is_empty() { Vec::new() } else { [b"Route: ", &*recorded.join(&b", "[..])].concat() };
    call.routes = Some(Box::new(Routes { header, next_url: uri(target).to_vec() }));
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

/// What stands between `<` and `>`, or the whole.
fn uri(value: &[u8]) -> &[u8] {
    let Some(open) = memchr::memchr(b'<', value) else {
        return value.trim_ascii();
    };
    let inner = &value[open + 1..];
    memchr::memchr(b'>', inner).map_or(value, |close| &inner[..close])
}

/// `auth`: the challenges of a 401 or 407, the proxy's before the server's.
pub(super) fn keep_challenge(call: &mut Call, ctx: &mut Ctx<'_>, recv: &Recv, message: &Incoming<'_>) {
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
    call.challenge = Some(Box::new(Challenge { proxy: code == 407, values, count: 1 }));
}
