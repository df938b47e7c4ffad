//! Users of chat, in place of SIPp's screens: what they did, how long it took, whether the accounts are even.

use std::fmt::Write as _;

use lab_sip::stats::{Count, Durations};

use crate::engine::{Progress, Setup};

/// Writing to a string cannot fail.
pub(super) fn screen(setup: &Setup, progress: &Progress) -> String {
    let counts = &progress.total.counts;
    let gauges = &progress.gauges;
    let mut text =
        String::from("------------------------------------ Users ------------------------------------\n");
    let _ = writeln!(
        text,
        "  {}   {:.1} s   {}   {} of {} signed in, at most {}",
        setup.scenario.name,
        progress.now.since(progress.started).as_secs_f64(),
        gauges.stage_told(),
        gauges.open_calls,
        gauges.limit,
        gauges.peak_open_calls,
    );
    let _ = writeln!(
        text,
        "  actions and sign-ins: {} due, {} done, {} failed, {} could not begin\n",
        counts[Count::Due],
        counts[Count::SuccessfulCall],
        counts[Count::FailedCall],
        counts[Count::Blocked],
    );
    for count in Count::FAILURES.iter().filter(|count| counts[**count] > 0) {
        let _ = writeln!(text, "    {count:?}: {}", counts[*count]);
    }
    let _ = writeln!(
        text,
        "  {:<22}{:>10}{:>12}{:>12}{:>12}{:>12}",
        "milliseconds", "number", "p50", "p99", "p99.9", "max"
    );
    for (name, timer) in setup.scenario.rtds.iter().zip(&progress.total.rtds) {
        if timer.response.n > 0 {
            times(&mut text, name, &timer.response);
        }
    }
    accounts(&mut text, progress);
    text
}

/// The lines that compare what was sent with what came.
fn accounts(text: &mut String, progress: &Progress) {
    let counts = &progress.total.counts;
    let _ = writeln!(
        text,
        "\n  messages: {} sent = {} received ({} had waited) + {} refused + {} stored + {} lost",
        counts[Count::ChatSent],
        counts[Count::ChatReceived],
        counts[Count::ChatStored],
        counts[Count::ChatRefused],
        progress.total.waiting(),
        progress.total.lost(),
    );
    let _ = writeln!(
        text,
        "            {} twice, {} out of order, {} to another user",
        counts[Count::ChatDuplicated],
        counts[Count::ChatReordered],
        counts[Count::ChatMisdelivered],
    );
    let _ = writeln!(
        text,
        "  presence: {} to be seen = {} seen + {} not seen",
        counts[Count::PresenceExpected],
        counts[Count::PresenceSeen],
        progress.total.unseen(),
    );
    let beside = [
        (Count::Registered, "accounts made"),
        (Count::AlreadyRegistered, "there already"),
        (Count::Unregistered, "removed"),
        (Count::Redirected, "redirects followed"),
        (Count::GaveUp, "users gave up"),
    ];
    let beside = beside.iter().filter(|(count, _)| counts[*count] > 0);
    let beside: Vec<String> = beside.map(|(count, what)| format!("{} {what}", counts[*count])).collect();
    if !beside.is_empty() {
        let _ = writeln!(text, "  {}", beside.join(", "));
    }
}

/// From the due time: the waiting time of a user that acts on time.
fn times(text: &mut String, name: &str, durations: &Durations) {
    let _ = write!(text, "  {name:<22}{:>10}", durations.n);
    for quantile in [0.5, 0.99, 0.999, 1.0] {
        let millis = durations.quantile(quantile).map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let _ = write!(text, "{millis:>12.3}");
    }
    text.push('\n');
}
