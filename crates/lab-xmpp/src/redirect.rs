//! Another host that a server names (RFC 6120 §4.9.3.19, RFC 7395 §3.6.2).
//!
//! A user follows at most `HOPS` redirects in a row; the next failure brings it back to the target of the load.

use std::net::Ipv6Addr;

use lab_sip::stats::Count;
use xmpp::{Element, ns};

use super::failure::FailureCause;
use super::model::RedirectPolicy;
use super::user::UserState;
use super::user_pool::{ConnectionCommand, PoolContext, UserPool};

/// The host that a user is redirected to. The driver resolves the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectTarget {
    /// A name, or an address without brackets.
    pub host: Box<str>,
    /// `None`: that of the load's target.
    pub port: Option<u16>,
}

/// The longest chain of redirects before it counts as a failure: two servers may name each other.
pub(super) const HOPS: u8 = 5;

/// A domain name has no more (RFC 1035 §2.3.4).
const NAME: usize = 253;

impl RedirectTarget {
    /// `host`, `host:port`, `[v6]`, `[v6]:port`.
    pub(super) fn parse(text: &str) -> Option<RedirectTarget> {
        let text = text.trim();
        let (host, rest) = match text.strip_prefix('[') {
            Some(bracketed) => {
                bracketed.split_once(']').filter(|(host, _)| host.parse::<Ipv6Addr>().is_ok())?
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.is_empty() || host.len() > NAME || !host.chars().all(is_name) {
            return None;
        }
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(digits.parse().ok().filter(|port| *port > 0)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(RedirectTarget { host: host.into(), port })
    }

    /// The target of a WebSocket URI, which must have the same path and the same security as ours.
    fn of_uri(uri: &str, path: &str, is_secure: bool) -> Option<RedirectTarget> {
        let rest = uri.trim().strip_prefix(if is_secure { "wss://" } else { "ws://" })?;
        let (place, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        RedirectTarget::parse(place).filter(|_| rest == path)
    }
}

impl UserPool {
    /// A stream error, whatever the stream was for.
    pub(super) fn handle_stream_error(&mut self, slot: u32, error: &Element, ctx: &mut PoolContext<'_>) {
        if self.handle_unregistered(slot, error, ctx) {
            return;
        }
        match error.get("see-other-host", ns::STREAM_ERRORS) {
            Some(named) => self.follow_redirect(slot, RedirectTarget::parse(&named.content()), ctx),
            None => {
                self.sessions.quote_refusal(slot, error, ctx);
                self.sessions.fail(slot, FailureCause::of_stream_error(error), ctx);
            }
        }
    }

    /// The end of a WebSocket, which may name another.
    pub(super) fn handle_close(&mut self, slot: u32, close: &Element, ctx: &mut PoolContext<'_>) {
        let Some(uri) = close.attr("see-other-uri") else {
            return self.sessions.fail(slot, FailureCause::Closed, ctx);
        };
        let named = RedirectTarget::of_uri(
            uri,
            self.sessions.chat.path(),
            self.sessions.chat.security == super::StreamSecurity::Tls,
        );
        self.follow_redirect(slot, named, ctx);
    }

    /// `None`: what was named is no place to go to.
    fn follow_redirect(&mut self, slot: u32, named: Option<RedirectTarget>, ctx: &mut PoolContext<'_>) {
        let user = &mut self.sessions.users[slot as usize];
        let named = match (named, self.sessions.chat.redirect) {
            (None, _) => {
                ctx.stats.count(Count::Malformed);
                return self.sessions.fail(slot, FailureCause::Nonsense, ctx);
            }
            (Some(_), RedirectPolicy::Count) => {
                return self.sessions.fail(slot, FailureCause::SeeOtherHost, ctx);
            }
            (Some(_), RedirectPolicy::Follow) if user.hops >= HOPS => {
                return self.sessions.fail(slot, FailureCause::SeeOtherHost, ctx);
            }
            (Some(named), RedirectPolicy::Follow) => named,
        };
        user.hops += 1;
        ctx.stats.count(Count::Redirected);
        if user.is_in() {
            // The session ended without a failure; the other redirected users come back at the same time.
            user.elsewhere = Some(Box::new(named));
            self.sessions.end_session(slot, ctx);
            return self.sessions.schedule_retry(slot, 1, ctx);
        }
        user.phase = UserState::Connecting;
        user.framer = xmpp::xml::Framer::new();
        ctx.want(slot, ConnectionCommand::Close);
        ctx.want(slot, ConnectionCommand::ConnectElsewhere(named));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        for (text, host, port) in [
            ("other.example", "other.example", None),
            (" other:5333 ", "other", Some(5333)),
            ("127.0.0.2", "127.0.0.2", None),
            ("[2001:db8::1]", "2001:db8::1", None),
            ("[2001:db8::1]:9222", "2001:db8::1", Some(9222)),
        ] {
            assert_eq!(
                RedirectTarget::parse(text),
                Some(RedirectTarget { host: host.into(), port }),
                "{text}"
            );
        }
        for text in ["", ":5222", "a b", "[::1", "[x]:1", "host:0", "host:70000", "host:x", "a:1:2", "<b>"] {
            assert_eq!(RedirectTarget::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_web_address_is_followed_when_only_the_host_differs() {
        let named = |uri: &str| RedirectTarget::of_uri(uri, "/ws", true);
        assert_eq!(named("wss://b.example:5443/ws"), RedirectTarget::parse("b.example:5443"));
        assert_eq!(named("ws://b.example/ws"), None, "less secure");
        assert_eq!(named("wss://b.example/other"), None, "another path");
    }
}
