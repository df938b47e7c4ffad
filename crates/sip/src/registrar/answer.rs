//! The 200 to a REGISTER (RFC 3261 §10.3 step 8).

use std::fmt::Write;

use router::Binding;
use stdx::Instant;

use super::contacts::uses_outbound;
use super::gruu::Gruus;
use crate::wire::{Header, Message, Reply};

/// What a 200 says besides the bindings.
#[derive(Clone, Copy, Debug)]
pub struct OkSettings<'a> {
    /// Whose GRUUs are given out.
    pub aor: &'a str,
    pub gruus: &'a Gruus,
    /// RFC 3608: a whole Service-Route value, `<sip:...;lr>`; empty for none.
    pub service_route: &'a str,
    /// RFC 5626 §4.4: seconds without traffic after which we drop a flow; told when Outbound is used. 0 not to.
    pub flow_timer: u32,
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
        reply.header("Contact", contact_value(binding, now, gruus).as_bytes());
    }
    // RFC 3327 §5.3: the client sees who stands on its way, if it understands.
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
    reply.header("Date", date(now).as_bytes());
}

fn contact_value(binding: &Binding, now: Instant, gruus: Option<(&Gruus, &str)>) -> String {
    let contact = &binding.contact;
    // Rounded up: a binding that lives has at least a second.
    let left = binding.expires_at.since(now).as_micros().div_ceil(1_000_000);
    let mut out = format!("<{}>;expires={left}", contact.uri);
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

/// SIP-date, RFC 3261 §20.17: `Sat, 13 Nov 2010 23:29:00 GMT`.
pub fn date(now: Instant) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = now.unix_seconds();
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[(month - 1) as usize]);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Year, month and day of a day since 1970 (Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`; years start in March so that the leap day is the last).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}
