//! Parameters of requests: RestComm's documented ones, those in its code, and Twilio's names for the same.

use stdx::Instant;
use stdx::calendar::Date;

use super::{Call, CallStatus};
use crate::request::Form;

/// One parameter of a form.
pub(super) fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

/// The parameters of every request about the call.
pub(super) fn of_call(call: &Call, status: CallStatus) -> Form {
    let mut form = vec![
        pair("CallSid", &*call.sid),
        pair("AccountSid", &*call.account_sid),
        pair("From", &*call.from),
        pair("To", &*call.to),
        pair("Caller", &*call.from),
        pair("Called", &*call.to),
        pair("CallStatus", status.as_str()),
        pair("ApiVersion", &*call.api_version),
        pair("Direction", call.direction.as_str()),
        // RestComm sends it always; its applications read it without asking whether it is there.
        pair("CallerName", call.caller_name.as_deref().unwrap_or_default()),
    ];
    if let Some(forwarded) = &call.forwarded_from {
        form.push(pair("ForwardedFrom", &**forwarded));
    }
    if let Some(parent) = &call.parent_sid {
        form.push(pair("ParentCallSid", &**parent));
    }
    form.extend(call.extra.iter().cloned());
    form
}

/// The additional parameters of a status callback.
pub(super) fn progress(form: &mut Form, now: Instant, sequence: u32) {
    form.push(pair("Timestamp", rfc_2822(now)));
    form.push(pair("CallbackSource", "call-progress-events"));
    form.push(pair("SequenceNumber", sequence.to_string()));
}

/// The parameters of the status callback about the end of a call, Twilio's event `completed`. `seconds`: from the answer to the end;
/// `sequence`: the callbacks before this one.
pub fn end_form(call: &Call, status: CallStatus, seconds: u64, (now, sequence): (Instant, u32)) -> Form {
    let mut form = of_call(call, status);
    form.push(pair("CallDuration", seconds.to_string()));
    progress(&mut form, now, sequence);
    form
}

/// `Sat, 21 Nov 2026 12:22:33 +0000`.
pub fn rfc_2822(now: Instant) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = now.unix_seconds();
    let days = seconds / 86_400;
    let weekday = DAYS.iter().cycle().nth((days % 7) as usize).copied().unwrap_or_default();
    let Date { year, month, day } = Date::from_unix_seconds(seconds);
    let name =
        usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).copied().unwrap_or_default();
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {day:02} {name} {year} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 +0000"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 +0000"),
            (1_795_263_753, "Sat, 21 Nov 2026 12:22:33 +0000"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 +0000"),
        ] {
            assert_eq!(rfc_2822(Instant::from_unix_seconds(seconds)), text);
        }
    }
}
