//! The 200 to a REGISTER (RFC 3261 §10.3 step 8).

use std::io::Write;

use router::Binding;
use stdx::Instant;

use super::contacts::uses_outbound;
use super::gruu::Gruus;
use crate::wire::{Header, Message, Reply, write_number};

/// The parts of a 200 besides the bindings.
#[derive(Clone, Copy, Debug)]
pub struct OkSettings<'a> {
    /// The account that gets GRUUs.
    pub aor: &'a str,
    /// The keys that public and temporary GRUUs are made with (RFC 5627).
    pub gruus: &'a Gruus,
    /// RFC 3608: a whole Service-Route value, `<sip:...;lr>`; empty for none.
    pub service_route: &'a str,
    /// RFC 5626 §4.4: seconds without traffic after which we drop a flow; told when Outbound is used. 0 not to.
    pub flow_timer: u32,
    /// RFC 3261 §20.17: the present time.
    pub date: &'a [u8],
}

/// Adds everything between CSeq and Content-Length.
pub fn write_ok(
    reply: &mut Reply,
    request: &Message,
    bindings: &[Binding],
    now: Instant,
    settings: &OkSettings<'_>,
) {
    let wants_gruu = request.lists(Header::Supported, "gruu");
    for binding in bindings.iter().filter(|binding| binding.expires_at > now) {
        let gruus = wants_gruu.then_some((settings.gruus, settings.aor));
        reply.header("Contact", &contact_value(binding, now, gruus));
    }
    // RFC 3327 §5.3: the client sees the proxies on its path, if it supports Path.
    if request.lists(Header::Supported, "path") {
        reply.copy_all(request, Header::Path);
    }
    if !settings.service_route.is_empty() {
        reply.header("Service-Route", settings.service_route.as_bytes());
    }
    if uses_outbound(request) {
        reply.header("Require", b"outbound");
        if settings.flow_timer > 0 {
            reply.header("Flow-Timer", settings.flow_timer.to_string().as_bytes());
        }
    }
    reply.header("Supported", b"path, outbound, gruu");
    reply.header("Date", settings.date);
}

fn contact_value(binding: &Binding, now: Instant, gruus: Option<(&Gruus, &str)>) -> Vec<u8> {
    let contact = &binding.contact;
    // Rounded up: a binding that lives has at least a second. It ends with a whole second, so this may be more than what was
    // granted (RFC 3261 §10.3 step 7).
    let left = binding.expires_at.since(now).as_micros().div_ceil(1_000_000).min(contact.expires.into());
    let mut out = Vec::with_capacity(contact.uri.len() + 24);
    out.push(b'<');
    out.extend_from_slice(contact.uri.as_bytes());
    out.extend_from_slice(b">;expires=");
    write_number(&mut out, usize::try_from(left).unwrap_or(usize::MAX));
    if contact.q != 1000 {
        let _ = write!(out, ";q=0.{:03}", contact.q);
    }
    if contact.instance.is_empty() {
        return out;
    }
    if let Some((gruus, aor)) = gruus {
        let _ = write!(out, ";pub-gruu=\"{}\"", super::gruu::public(aor, &contact.instance));
        let _ = write!(out, ";temp-gruu=\"{}\"", gruus.temporary(now, aor, binding));
    }
    let _ = write!(out, ";+sip.instance=\"<{}>\"", contact.instance);
    if contact.reg_id != 0 {
        let _ = write!(out, ";reg-id={}", contact.reg_id);
    }
    out
}
