//! Session timers: RFC 4028.
//!
//! A call whose peer has vanished without a BYE would last for ever; so one side sends a refresh at half of
//! an agreed interval, and both end the session when none came. [`SessionRefresh`] is the agreement, made
//! anew by each 2xx to INVITE or UPDATE (`grant` for those of ours, `of_response` for the peer's).

use std::time::Duration;

use stdx::Instant;

use super::outgoing::RequestOutcome;
use super::{
    Cause, OfferExchange, PendingRequests, RequestPurpose, SDP, Session, SessionEffects, SessionRules,
    SessionStage, describe_request,
};
use crate::endpoint::retry_after;
use crate::wire::{Header, Message, Params, Reply, parse_number};

/// The smallest session interval that a request may ask for, in seconds (RFC 4028 §4).
pub(super) const MIN_SE: u32 = 90;
/// The time that a refresh waits for an open offer to be answered.
const LATER: Duration = Duration::from_secs(5);
/// The time between the first refusal of a refresh and the next try; each further one is twice as long.
const FIRST_PAUSE: u32 = 5;

/// The side that refreshes the session, and when it has been too long (RFC 4028). Intervals are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionRefresh {
    /// No timer: the operator has switched it off, and the peer did not ask.
    Never,
    /// We refresh at `at`, which is never while a refresh is under way; without success the session ends at `end`. After a refusal
    /// the next try is `pause` seconds later.
    Ours { interval: u32, pause: u32, at: Instant, end: Instant },
    /// The peer refreshes; otherwise the session ends at `end`.
    ByPeer { interval: u32, end: Instant },
}

impl SessionRefresh {
    /// We refresh.
    fn by_us(now: Instant, interval: u32) -> Self {
        // §10: the refresher sends at half the interval.
        let at = now + seconds(interval) / 2;
        SessionRefresh::Ours { interval, pause: FIRST_PAUSE, at, end: end_of(now, interval) }
    }

    /// The peer refreshes.
    fn by_peer(now: Instant, interval: u32) -> Self {
        SessionRefresh::ByPeer { interval, end: end_of(now, interval) }
    }

    /// The time at which [`Session::wake_refresh`] has something to do.
    pub(super) fn deadline(&self) -> Instant {
        match self {
            SessionRefresh::Never => Instant::FAR_FUTURE,
            SessionRefresh::Ours { at, end, .. } => (*at).min(*end),
            SessionRefresh::ByPeer { end, .. } => *end,
        }
    }

    /// RFC 4028 §7.3: the peer's Min-SE, and at once. False if that is no longer than the interval was.
    fn lengthen(&mut self, now: Instant, response: Option<&Message>) -> bool {
        let required = response.and_then(min_se);
        if let (Some(required), SessionRefresh::Ours { interval, at, .. }) = (required, self)
            && required > *interval
        {
            *interval = required;
            *at = now;
            return true;
        }
        false
    }

    /// RFC 4028 §10: a refresh that was refused is tried again by the rules of the response, but not continuously. After 408 and 481
    /// the session ends instead, which the caller sees to.
    pub(super) fn handle_refusal(&mut self, now: Instant, end: &RequestOutcome<'_>) {
        if end.status == 422 && self.lengthen(now, end.response) {
            return;
        }
        // The wait of RFC 3261 §14.1 after a 491 is at most 4 s, and a pause is longer.
        let wait = end.response.and_then(retry_after).unwrap_or_default();
        // Otherwise the peer has refreshed the session meanwhile.
        if let SessionRefresh::Ours { at, end, pause, .. } = self
            && *at == Instant::FAR_FUTURE
        {
            // A long Retry-After leaves time for a try before the end.
            let left = end.since(now) / 2;
            *at = now + wait.min(left).max(seconds(*pause));
            *pause = pause.saturating_mul(2);
        }
    }

    /// The Session-Expires of a request of ours: the roles stay as they are.
    pub(super) fn header(&self) -> Option<String> {
        match self {
            SessionRefresh::Never => None,
            SessionRefresh::Ours { interval, .. } => Some(format!("{interval};refresher=uac")),
            SessionRefresh::ByPeer { interval, .. } => Some(format!("{interval};refresher=uas")),
        }
    }
}

/// True if a refusal of this status may be one of the method, so that another one may be taken.
pub(super) fn is_of_method(status: u16) -> bool {
    matches!(status, 400..=499 | 501) && !matches!(status, 422 | 491)
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

/// The interval that an operator wants, in seconds; zero for none.
fn preferred(rules: SessionRules) -> u32 {
    u32::try_from(rules.expires.as_secs()).unwrap_or(u32::MAX)
}

/// §10: the BYE goes out before the end by the lesser of 32 s and a third of the interval.
fn end_of(now: Instant, interval: u32) -> Instant {
    let interval = seconds(interval);
    now + (interval - (interval / 3).min(Duration::from_secs(32)))
}

/// Session-Expires (§4): seconds, and the refresher if it is named.
pub(super) fn session_expires(message: &Message) -> Option<(u32, Option<&[u8]>)> {
    let value = message.header(Header::SessionExpires)?;
    let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
    let params = Params(value.get(end + 1..).unwrap_or_default());
    Some((parse_number(value[..end].trim_ascii())?, params.get("refresher")))
}

/// Tokens are compared without regard to case (RFC 3261 §7.3.1).
fn is_uas(refresher: &[u8]) -> bool {
    refresher.eq_ignore_ascii_case(b"uas")
}

/// Min-SE (§5): the smallest interval that the peer takes, in seconds.
pub(super) fn min_se(message: &Message) -> Option<u32> {
    let value = message.header_named("Min-SE")?;
    let end = value.iter().position(|&b| b == b';').unwrap_or(value.len());
    parse_number(value[..end].trim_ascii())
}

/// §9: an interval below ours is answered 422 where the peer knows what that is; other peers get a longer
/// one.
pub(super) fn is_too_short(request: &Message) -> bool {
    let requested = session_expires(request).map(|(seconds, _)| seconds);
    requested.is_some_and(|seconds| seconds < MIN_SE) && request.lists(Header::Supported, "timer")
}

/// §9: the interval that a 2xx of ours grants. We refresh if the peer does not support the extension.
pub(super) fn grant(
    now: Instant,
    rules: SessionRules,
    request: &Message,
    reply: &mut Reply,
) -> SessionRefresh {
    let preferred = preferred(rules);
    let requested = session_expires(request);
    let seconds = match requested {
        None if preferred == 0 => return SessionRefresh::Never,
        Some((requested, _)) if preferred == 0 => requested,
        Some((requested, _)) => requested.min(preferred),
        None => preferred,
    };
    // Never below what the peer can take, nor below the minimum of the RFC.
    let seconds = seconds.max(min_se(request).unwrap_or(MIN_SE)).max(MIN_SE);
    let knows = request.lists(Header::Supported, "timer");
    let peer_refreshes =
        knows && requested.and_then(|(_, refresher)| refresher).is_none_or(|refresher| !is_uas(refresher));
    if peer_refreshes {
        reply.header("Require", b"timer");
        reply.header("Session-Expires", format!("{seconds};refresher=uac").as_bytes());
        SessionRefresh::by_peer(now, seconds)
    } else {
        reply.header("Session-Expires", format!("{seconds};refresher=uas").as_bytes());
        SessionRefresh::by_us(now, seconds)
    }
}

/// §7.2: the refresh that a 2xx to a request of ours grants. Without a word we may refresh nevertheless, and
/// do.
pub(super) fn of_response(now: Instant, rules: SessionRules, response: &Message) -> SessionRefresh {
    match session_expires(response) {
        Some((seconds, refresher)) => {
            let interval = seconds.max(MIN_SE);
            let peer_refreshes = refresher.is_some_and(is_uas);
            if peer_refreshes {
                SessionRefresh::by_peer(now, interval)
            } else {
                SessionRefresh::by_us(now, interval)
            }
        }
        None if rules.expires.is_zero() => SessionRefresh::Never,
        None => SessionRefresh::by_us(now, preferred(rules).max(MIN_SE)),
    }
}

impl Session {
    /// The timer: ends the session, sends the refresh, or puts it off while an offer is open.
    pub(super) fn wake_refresh(
        &mut self,
        now: Instant,
        requests: &mut PendingRequests,
        out: &mut SessionEffects,
    ) {
        let is_idle = matches!(self.exchange, OfferExchange::Idle) && self.unacked.is_none();
        match &mut self.refresh {
            SessionRefresh::Ours { end, .. } | SessionRefresh::ByPeer { end, .. } if *end <= now => {
                self.refresh = SessionRefresh::Never;
                self.leave(requests, Cause::Expired, Some("SIP;cause=408;text=\"Session expired\""), out);
            }
            SessionRefresh::Ours { at, .. } if *at <= now && !is_idle => *at = now + LATER,
            SessionRefresh::Ours { at, .. } if *at <= now => {
                // Set anew by the response.
                *at = Instant::FAR_FUTURE;
                self.send_refresh(requests, out);
            }
            _ => {}
        }
    }

    /// UPDATE where the peer allows it, else a re-INVITE that offers what was offered last (§7.4).
    fn send_refresh(&mut self, requests: &mut PendingRequests, out: &mut SessionEffects) {
        if !matches!(self.stage, SessionStage::Up) {
            return;
        }
        let purpose = RequestPurpose::Offer { refresh: true };
        let expires = self.refresh.header();
        let by_update = self.peer_allows_update;
        let (mut request, onward) = self.dialog.request(if by_update { "UPDATE" } else { "INVITE" });
        describe_request(&mut request);
        if let Some(expires) = expires {
            request.header("Session-Expires", expires.as_bytes());
        }
        let sdp = self.local_sdp.clone();
        let bytes =
            if by_update || sdp.is_empty() { request.finish() } else { request.finish_with(SDP, &sdp) };
        let id = requests.send(self, purpose, bytes, onward, out);
        if !by_update {
            self.exchange = OfferExchange::Ours { request: id, sdp: None };
        }
    }
}
