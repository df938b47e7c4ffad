//! Without a terminal: one line a second to standard error.
//!
//! The lines go to standard error, so that standard output stays free for what a script reads. At the end one line more has the totals; the
//! causes of failures then follow in the summary.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use lab_sip::stats::Count;
use stdx::time::Instant;

use crate::engine::{Progress, RunOutcome, Setup};
use crate::session::Observer;
use crate::unanswered;

/// Every cause a call fails by, with the word it has in a line.
const CAUSES: &[(Count, &str)] = &[
    (Count::FailedCannotSendMessage, "cannot-send"),
    (Count::FailedMaxUdpRetrans, "no-answer"),
    (Count::FailedTcpConnect, "connect"),
    (Count::FailedTcpClosed, "closed"),
    (Count::FailedUnexpectedMessage, "unexpected"),
    (Count::FailedCallRejected, "rejected"),
    (Count::FailedCmdNotSent, "command"),
    (Count::FailedRegexpDoesntMatch, "regexp"),
    (Count::FailedRegexpShouldntMatch, "regexp-not"),
    (Count::FailedRegexpHdrNotFound, "no-header"),
    (Count::FailedOutboundCongestion, "congestion"),
    (Count::FailedTimeoutOnRecv, "recv-timeout"),
    (Count::FailedTimeoutOnSend, "send-timeout"),
    (Count::FailedTestDoesntMatch, "test"),
    (Count::FailedTestShouldntMatch, "test-not"),
    (Count::FailedStrcmpDoesntMatch, "strcmp"),
    (Count::FailedStrcmpShouldntMatch, "strcmp-not"),
    (Count::FailedRtpCheck, "rtpcheck"),
    (Count::FailedStopped, "stopped"),
    (Count::FailedStreamError, "stream-error"),
    (Count::FailedSeeOtherHost, "see-other-host"),
    (Count::FailedNotAuthorized, "not-authorized"),
    (Count::FailedNotOffered, "not-offered"),
    (Count::FailedWorker, "worker"),
    (Count::FailedThrottled, "throttled"),
    (Count::FailedTls, "tls"),
];

/// The observer that writes the lines.
pub(super) struct ProgressLines {
    /// No lines; the notice is still written.
    quiet: bool,
    /// The notice that nothing has answered yet was written.
    noticed: bool,
    /// The time between two lines (`-f`).
    period: Duration,
    /// No line before this time.
    next: Instant,
}

impl ProgressLines {
    /// No lines on a terminal, which shows the screens, nor in the background, whose output is not read.
    pub(super) fn new(setup: &Setup) -> ProgressLines {
        let quiet = std::io::stderr().is_terminal() || setup.options.behaviour.background;
        ProgressLines {
            quiet,
            noticed: false,
            period: setup.options.files.screen_period,
            next: Instant::default(),
        }
    }
}

impl Observer for ProgressLines {
    fn progress(&mut self, setup: &Setup, progress: &Progress) {
        if !self.noticed
            && !setup.options.behaviour.background
            && let Some(notice) = unanswered::notice(setup, progress)
        {
            self.noticed = true;
            let _ = writeln!(std::io::stderr(), "{notice}");
        }
        if !self.quiet && progress.now >= self.next {
            // Half a tick of slack: intervals are not to the microsecond.
            self.next = progress.now + self.period.saturating_sub(Duration::from_millis(500));
            tell(&line(progress));
            // Errors of calls go to the error log; users have none.
            if let Some(error) = progress.errors.last().filter(|_| setup.chat.is_some()) {
                let _ = writeln!(std::io::stderr(), "        {error}");
            }
        }
    }

    fn ended(&mut self, _setup: &Setup, outcome: &RunOutcome) {
        if !self.quiet {
            // The causes of failures are in the summary below it.
            tell(&line_without_causes(&outcome.progress));
        }
    }
}

/// To standard error, or nowhere when it is gone.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// `   12s  50.0/50.0 cps  200 open  580 ok  3 failed (unexpected 3)  p50 1.2 ms  p99 4.0 ms`
pub(super) fn line(progress: &Progress) -> String {
    let counts = &progress.total.counts;
    let causes: Vec<String> = CAUSES
        .iter()
        .filter(|(count, _)| counts[*count] > 0)
        .map(|(count, word)| format!("{word} {}", counts[*count]))
        .collect();
    written(progress, &causes)
}

fn line_without_causes(progress: &Progress) -> String {
    written(progress, &[])
}

/// A line with these causes; without any the parentheses are left out.
fn written(progress: &Progress, causes: &[String]) -> String {
    let counts = &progress.total.counts;
    let interval = &progress.interval.counts;
    let seconds = progress.now.since(progress.started).as_secs();
    let started = interval[Count::IncomingCall] + interval[Count::OutgoingCall];
    let rate = crate::screen::per_second(started, progress.span);
    let mut text = format!(
        "{seconds:>5}s  {rate:.1}/{:.1} cps  {} open  {} ok  {} failed",
        progress.gauges.target_rate,
        progress.gauges.open_calls,
        counts[Count::SuccessfulCall],
        counts[Count::FailedCall]
    );
    if !causes.is_empty() {
        text.push_str(&format!(" ({})", causes.join(", ")));
    }
    if counts[Count::Blocked] > 0 {
        text.push_str(&format!("  {} blocked", counts[Count::Blocked]));
    }
    if !progress.gauges.stage.is_empty() {
        text.push_str(&format!("  {}", progress.gauges.stage_told()));
    }
    // The first timer of the scenario; the others are in the report.
    let first = progress.total.rtds.first().map(|timer| &timer.service);
    for (name, quantile) in [("p50", 0.5), ("p99", 0.99)] {
        if let Some(value) = first.and_then(|times| times.quantile(quantile)) {
            text.push_str(&format!("  {name} {:.1} ms", value.as_secs_f64() * 1e3));
        }
    }
    text
}
