//! Bodies of NOTIFY: the router's state as each package writes it.

use std::fmt::Write;

use bytes::Bytes;
use router::{Binding, CallInfo, CallPhase, Presence, Show, State};
use stdx::Instant;
use stdx::hash::Keyed;

use super::sip_uri;
use super::xml::escaped;

/// Names dialogs and contacts inside a document: a fixed key, because the same thing must have the same name
/// in every document of a subscription, wherever it is made. No secret.
const NAMES: Keyed = Keyed::new(*b"belfry-event-ids");

/// `version` counts the documents of one subscription from 0 (RFC 4235 §4.1, RFC 3680 §5.1). Every document
/// is a full state.
pub(super) fn render(now: Instant, aor: &str, state: &State, version: u32) -> Bytes {
    let text = match state {
        State::Presence(presence) => match presence.documents.first() {
            // One rule of composition: the newest published document goes out as it came. We make one when none is
            // published, or when the user is in chat, where its clients set its presence (docs/decisions/0011).
            Some(document) if presence.chat.is_none() => return Bytes::copy_from_slice(document),
            _ => pidf(aor, presence),
        },
        State::Dialog(calls) => dialog_info(aor, calls, version),
        State::MessageSummary { waiting } => message_summary(aor, *waiting),
        State::Registration(bindings) => reginfo(now, aor, bindings, version),
    };
    Bytes::from(text)
}

/// RFC 3863; the person's activity as in RFC 4480 and RFC 4479. Chat is a tuple of its own; its status text
/// belongs to the person element (RFC 7248 §5.2).
fn pidf(aor: &str, presence: &Presence) -> String {
    let entity = escaped(&sip_uri(aor));
    let activity = match (presence.on_the_phone, presence.chat.as_ref().map(|chat| chat.show)) {
        (true, _) => Some("on-the-phone"),
        (false, Some(Show::Dnd)) => Some("busy"),
        (false, Some(Show::Away | Show::Xa)) => Some("away"),
        (false, Some(Show::Available) | None) => None,
    };
    let note = presence.chat.as_ref().map(|chat| &*chat.note).filter(|note| !note.is_empty());
    let mut out = String::with_capacity(512);
    out.push_str(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<presence xmlns=\"urn:ietf:params:xml:ns:pidf\"",
    );
    if activity.is_some() || note.is_some() {
        out.push_str("\n  xmlns:dm=\"urn:ietf:params:xml:ns:pidf:data-model\"");
    }
    if activity.is_some() {
        out.push_str("\n  xmlns:rpid=\"urn:ietf:params:xml:ns:pidf:rpid\"");
    }
    let _ = writeln!(out, " entity=\"{entity}\">");
    write_tuple(&mut out, "registered", presence.open, &entity);
    if presence.chat.is_some() {
        write_tuple(&mut out, "chat", true, &entity);
    }
    if activity.is_some() || note.is_some() {
        out.push_str("  <dm:person id=\"person\">\n");
        if let Some(activity) = activity {
            let _ = writeln!(out, "    <rpid:activities><rpid:{activity}/></rpid:activities>");
        }
        if let Some(note) = note {
            let _ = writeln!(out, "    <dm:note>{}</dm:note>", escaped(note));
        }
        out.push_str("  </dm:person>\n");
    }
    out.push_str("</presence>\n");
    out
}

/// `id` is the same in all documents of the account, so that a watcher knows the tuple again.
fn write_tuple(out: &mut String, id: &str, is_open: bool, contact: &str) {
    let basic = if is_open { "open" } else { "closed" };
    let _ = writeln!(
        out,
        "  <tuple id=\"{id}\">\n    <status><basic>{basic}</basic></status>\n    \
         <contact>{contact}</contact>\n  </tuple>"
    );
}

/// RFC 4235 §4.
fn dialog_info(aor: &str, calls: &[CallInfo], version: u32) -> String {
    let entity = escaped(&sip_uri(aor));
    let mut out = String::with_capacity(256 + 384 * calls.len());
    let _ = writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" \
         version=\"{version}\" state=\"full\" entity=\"{entity}\">"
    );
    for call in calls {
        write_dialog(&mut out, call);
    }
    out.push_str("</dialog-info>\n");
    out
}

fn write_dialog(out: &mut String, call: &CallInfo) {
    let parts = [call.call_id.as_bytes(), call.local_tag.as_bytes(), call.remote_tag.as_bytes()];
    let _ = write!(out, "  <dialog id=\"d{:016x}\"", NAMES.hash_parts(&parts));
    for (name, value) in
        [("call-id", &call.call_id), ("local-tag", &call.local_tag), ("remote-tag", &call.remote_tag)]
    {
        // A tag that is not known yet is left out (RFC 4235 §4.1.1).
        if !value.is_empty() {
            let _ = write!(out, " {name}=\"{}\"", escaped(value));
        }
    }
    // The part of the account that the document is about (RFC 4235 §4.1.1).
    let direction = if call.initiator { "initiator" } else { "recipient" };
    let state = match call.phase {
        CallPhase::Trying => "trying",
        CallPhase::Early => "early",
        CallPhase::Confirmed => "confirmed",
        CallPhase::Terminated => "terminated",
    };
    // The router knows the other party's identity only: a watcher that calls the target calls this address.
    let remote = escaped(&call.remote);
    let _ = writeln!(
        out,
        " direction=\"{direction}\">\n    <state>{state}</state>\n    \
         <remote><identity>{remote}</identity><target uri=\"{remote}\"/></remote>\n  </dialog>"
    );
}

/// RFC 3842 §5.2. The waiting messages are kept MESSAGEs: `text-message`, all of them new.
fn message_summary(aor: &str, waiting: u32) -> String {
    let yes_or_no = if waiting > 0 { "yes" } else { "no" };
    let account = sip_uri(aor);
    format!("Messages-Waiting: {yes_or_no}\r\nMessage-Account: {account}\r\nText-Message: {waiting}/0\r\n")
}

/// RFC 3680 §5.
fn reginfo(now: Instant, aor: &str, bindings: &[Binding], version: u32) -> String {
    let state = match (bindings.is_empty(), version) {
        (false, _) => "active",
        // RFC 3680 §4.7.1: init until the first contact; gone again is terminated.
        (true, 0) => "init",
        (true, _) => "terminated",
    };
    let entity = escaped(&sip_uri(aor));
    let mut out = String::with_capacity(256 + 384 * bindings.len());
    let _ = writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<reginfo xmlns=\"urn:ietf:params:xml:ns:reginfo\" \
         version=\"{version}\" state=\"full\">\n  \
         <registration aor=\"{entity}\" id=\"r{:016x}\" state=\"{state}\">",
        NAMES.hash(aor.as_bytes())
    );
    for binding in bindings {
        write_contact(&mut out, now, binding);
    }
    out.push_str("  </registration>\n</reginfo>\n");
    out
}

/// The document is a full state, so a contact in it is active; one that is gone is not in it. The name is
/// made of the URI too: a phone that comes with another one is another contact.
fn write_contact(out: &mut String, now: Instant, binding: &Binding) {
    let contact = &binding.contact;
    let parts = [contact.uri.as_bytes(), contact.instance.as_bytes(), &contact.reg_id.to_le_bytes()];
    let expires = binding.expires_at.since(now).as_secs();
    let _ = writeln!(
        out,
        "    <contact id=\"c{:016x}\" state=\"active\" event=\"registered\" expires=\"{expires}\" \
         q=\"{}.{:03}\" callid=\"{}\" cseq=\"{}\">\n      <uri>{}</uri>\n    </contact>",
        NAMES.hash_parts(&parts),
        contact.q / 1_000,
        contact.q % 1_000,
        escaped(&binding.call_id),
        binding.cseq,
        escaped(&contact.uri),
    );
}
