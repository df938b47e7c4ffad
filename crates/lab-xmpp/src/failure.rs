//! Failures of users: their causes, and the time of the next attempt.
//!
//! [`UserSessions::fail`] is the one end of a session that failed: it counts the cause, closes the connection, and plans the next sign-in, later with each
//! failure in a row.

use std::fmt;
use std::time::Duration;

use lab_sip::stats::{Count, Counts};
use stdx::rng::Rng;
use stdx::time::Instant;
use xmpp::xml::Framer;
use xmpp::{Element, ns};

use super::user::UserState;
use super::user_pool::{ConnectionCommand, PoolContext};
use super::user_sessions::UserSessions;

/// The cause of a failed sign-in, a lost session or a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// The TCP connection was refused or ended before the stream began.
    Connect,
    /// The server closed the stream or the connection.
    Closed,
    /// TLS came to nothing: most of all, a certificate that is not trusted.
    Tls,
    /// A stream error (RFC 6120 §4.9) other than one that throttles; with BOSH also a terminal condition or
    /// an HTTP status.
    StreamError,
    /// RFC 6120 §4.9.3.19: another host is named.
    SeeOtherHost,
    /// A SASL failure (RFC 6120 §6.5) other than `temporary-auth-failure`.
    NotAuthorized,
    /// The server has not the mechanism of the load, or no TLS.
    NotOffered,
    /// No XML, no XMPP, or a server that proves to be another.
    Nonsense,
    /// An error for an answer.
    Refused,
    /// Too much, too fast: the server asks to wait.
    Throttled,
    /// No answer came within [`XmppLoad::patience`](crate::XmppLoad::patience).
    Timeout,
}

/// Conditions that mean too many or too frequent requests (RFC 6120 §4.9.3.14, §4.9.3.17, §8.3.3.12, §8.3.3.18).
const THROTTLES: [&str; 2] = ["policy-violation", "resource-constraint"];

impl FailureCause {
    /// The counter of the cause.
    pub(super) fn count(self) -> Count {
        match self {
            FailureCause::Connect => Count::FailedTcpConnect,
            FailureCause::Closed => Count::FailedTcpClosed,
            FailureCause::Tls => Count::FailedTls,
            FailureCause::StreamError => Count::FailedStreamError,
            FailureCause::SeeOtherHost => Count::FailedSeeOtherHost,
            FailureCause::NotAuthorized => Count::FailedNotAuthorized,
            FailureCause::NotOffered => Count::FailedNotOffered,
            FailureCause::Nonsense => Count::FailedUnexpectedMessage,
            FailureCause::Refused => Count::FailedCallRejected,
            FailureCause::Throttled => Count::FailedThrottled,
            FailureCause::Timeout => Count::FailedTimeoutOnRecv,
        }
    }

    /// A stream error that throttles is told apart from all others.
    pub(super) fn of_stream_error(error: &Element) -> FailureCause {
        let is_throttle = THROTTLES.iter().any(|name| error.get(name, ns::STREAM_ERRORS).is_some());
        if is_throttle { FailureCause::Throttled } else { FailureCause::StreamError }
    }

    /// RFC 6120 §6.5.
    pub(super) fn of_sasl_failure(failure: &Element) -> FailureCause {
        let is_throttle = failure.get("temporary-auth-failure", ns::SASL).is_some();
        if is_throttle { FailureCause::Throttled } else { FailureCause::NotAuthorized }
    }

    /// The cause that a stanza of type `error` names.
    pub(super) fn of_stanza_error(stanza: &Element) -> FailureCause {
        let is_throttle = stanza.elements().filter(|error| error.name() == "error").any(|error| {
            error.attr("type") == Some("wait")
                || THROTTLES.iter().any(|name| error.get(name, ns::STANZA_ERRORS).is_some())
        });
        if is_throttle { FailureCause::Throttled } else { FailureCause::Refused }
    }
}

/// The time from a failure to the next sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// After the first failure, and up to as much again; twice that with each failure in a row, until [`RETRY_MOST`].
    pub first: Duration,
    /// So many failures in a row are too many: the user stays away. 0: none are.
    pub give_up: u32,
}

/// The longest wait before a sign-in, without its random part.
pub const RETRY_MOST: Duration = Duration::from_secs(60);

impl Retry {
    /// `failures`: in a row, from 1. The random part keeps users that failed together from signing in together.
    pub(super) fn wait(self, failures: u8, rng: &mut Rng) -> Duration {
        let most = RETRY_MOST.max(self.first);
        // 1, 2, 4, … times the first wait.
        let doubled = 1_u32.checked_shl(u32::from(failures.saturating_sub(1))).unwrap_or(u32::MAX);
        let wait = self.first.saturating_mul(doubled).min(most);
        wait + Duration::from_micros(rng.below(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX).max(1)))
    }

    /// The user gives up.
    fn is_enough(self, failures: u8) -> bool {
        self.give_up > 0 && u32::from(failures) >= self.give_up
    }
}

/// With how many failures a run ends early.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxFailures {
    /// More failures than this number.
    Number(u64),
    /// Per cent of all that ended.
    Share(f64),
}

/// Calls that must have ended before a share of them is judged: one failure among the first few is a large share.
const SHARE_OF: u64 = 100;

impl MaxFailures {
    /// `100` or `5%`.
    pub fn parse(text: &str) -> Result<MaxFailures, String> {
        let wrong = || format!("{text:?}: expected a number, or a share as 5%");
        match text.strip_suffix('%') {
            Some(share) => {
                let share = share.trim().parse().ok().filter(|share| (0.0..100.0).contains(share));
                share.map(MaxFailures::Share).ok_or_else(wrong)
            }
            None => text.parse().map(MaxFailures::Number).map_err(|_| wrong()),
        }
    }

    /// The run has more failures than this allows.
    pub fn is_exceeded(self, counts: &Counts) -> bool {
        let failed = counts[Count::FailedCall];
        match self {
            MaxFailures::Number(most) => failed > most,
            MaxFailures::Share(most) => {
                let ended = failed + counts[Count::SuccessfulCall];
                #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
                let share = failed as f64 / ended.max(1) as f64 * 100.0;
                ended >= SHARE_OF && share > most
            }
        }
    }
}

impl fmt::Display for MaxFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaxFailures::Number(most) => most.fmt(f),
            MaxFailures::Share(most) => write!(f, "{most}%"),
        }
    }
}

impl PoolContext<'_> {
    /// Counts a failure under its cause.
    pub(super) fn fail(&mut self, cause: FailureCause) {
        self.stats.count(Count::FailedCall);
        self.stats.count(cause.count());
    }
}

/// Refusals that are kept word by word until the driver takes them: they are mostly the same.
const QUOTES: usize = 4;

impl UserSessions {
    /// The server's own words: condition and text of a stanza's, stream's or SASL's error.
    pub(super) fn quote_refusal(&self, slot: u32, refusal: &Element, ctx: &mut PoolContext<'_>) {
        if ctx.out.errors.len() >= QUOTES {
            return;
        }
        let name = self.chat.people.name(self.users[slot as usize].number);
        let error = refusal.elements().find(|inner| inner.name() == "error").unwrap_or(refusal);
        let condition = error.elements().find(|inner| inner.name() != "text");
        let condition = condition.map_or("no condition", Element::name);
        let text = error.elements().find(|inner| inner.name() == "text");
        let text = text.map_or_else(String::new, |text| format!(": {}", text.content()));
        ctx.out.errors.push(format!("{name} is refused, {condition}{text}"));
    }

    /// Ends the session, or the attempt at one; the user signs in again unless it has failed too often in a row.
    pub(super) fn fail(&mut self, slot: u32, cause: FailureCause, ctx: &mut PoolContext<'_>) {
        let user = &mut self.users[slot as usize];
        if matches!(user.phase, UserState::Gone | UserState::Away) {
            return;
        }
        // A user that has signed out already has not failed.
        if matches!(user.phase, UserState::Parting) {
            return self.finish_sign_out(slot, ctx);
        }
        ctx.fail(cause);
        user.failures = user.failures.saturating_add(1);
        // The next attempt begins at the target of the load again.
        user.elsewhere = None;
        user.hops = 0;
        let failures = user.failures;
        self.end_session(slot, ctx);
        self.abort_pair_step(slot, ctx.now);
        if self.chat.retry.is_enough(failures) {
            self.users[slot as usize].phase = UserState::Gone;
            self.shared.give_up();
            return ctx.stats.count(Count::GaveUp);
        }
        self.schedule_retry(slot, failures, ctx);
    }

    /// No goodbye: the stream is of no use any more.
    pub(super) fn end_session(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let user = &mut self.users[slot as usize];
        if user.is_in() {
            self.shared.mark_absent(user.number);
        }
        ctx.want(slot, ConnectionCommand::Close);
        user.phase = UserState::Away;
        user.asked = None;
        user.patience = Instant::FAR_FUTURE;
        user.framer = Framer::new();
        self.stop_friend_requests(slot, ctx);
    }

    /// Plans the next sign-in after so many failures in a row.
    pub(super) fn schedule_retry(&mut self, slot: u32, failures: u8, ctx: &mut PoolContext<'_>) {
        let wait = self.chat.retry.wait(failures, &mut self.rng);
        self.schedule_user(slot, ctx.now + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xmpp::xml::{Prefixes, parse};

    #[test]
    fn each_failure_in_a_row_is_waited_for_twice_as_long_up_to_a_minute() {
        let retry = Retry { first: Duration::from_secs(2), give_up: 3 };
        let mut rng = Rng::seeded(1);
        for (failures, least) in [(1, 2), (2, 4), (3, 8), (5, 32), (6, 60), (40, 60), (255, 60)] {
            let least = Duration::from_secs(least);
            for _ in 0..100 {
                let wait = retry.wait(failures, &mut rng);
                assert!((least..2 * least).contains(&wait), "{failures}: {wait:?}");
            }
        }
        assert!(!retry.is_enough(2) && retry.is_enough(3));
        assert!(!Retry { give_up: 0, ..retry }.is_enough(255));
    }

    #[test]
    fn a_run_ends_with_more_failures_than_it_may_have() {
        let mut counts = Counts::default();
        counts[Count::FailedCall] = 6;
        counts[Count::SuccessfulCall] = 93;
        let is_exceeded = |text: &str, counts: &Counts| MaxFailures::parse(text).unwrap().is_exceeded(counts);
        assert!(is_exceeded("5", &counts) && !is_exceeded("6", &counts));
        assert!(!is_exceeded("5%", &counts), "of 99 no share is judged");
        counts[Count::SuccessfulCall] = 94;
        assert!(is_exceeded("5%", &counts) && !is_exceeded("6 %", &counts));
        for text in ["", "many", "5 percent", "-1", "100%"] {
            assert!(MaxFailures::parse(text).unwrap_err().contains("5%"), "{text}");
        }
    }

    #[test]
    fn throttling_is_told_from_refusal() {
        let parsed = |text: &str| parse(text.as_bytes(), &Prefixes::default()).unwrap();
        for (inside, cause) in [
            (
                "<error type='wait'><internal-server-error xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>",
                FailureCause::Throttled,
            ),
            (
                "<error type='modify'><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>",
                FailureCause::Throttled,
            ),
            (
                "<error type='cancel'><not-allowed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>",
                FailureCause::Refused,
            ),
            ("", FailureCause::Refused),
        ] {
            assert_eq!(
                FailureCause::of_stanza_error(&parsed(&format!("<iq type='error'>{inside}</iq>"))),
                cause
            );
        }
        let stream = "<error><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></error>";
        assert_eq!(FailureCause::of_stream_error(&parsed(stream)), FailureCause::Throttled);
        let failure = format!("<failure xmlns='{}'><temporary-auth-failure/></failure>", ns::SASL);
        assert_eq!(FailureCause::of_sasl_failure(&parsed(&failure)), FailureCause::Throttled);
    }
}
