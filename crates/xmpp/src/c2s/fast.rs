//! FAST (XEP-0484): tokens instead of passwords, one client's each. Nothing is taken as 0-RTT data.

use stdx::Instant;

use super::features;
use super::sign_in::{Sasl2Request, SignIn};
use super::writer::StreamWriter;
use crate::sasl::{Secret, TokenBinding, TokenState};
use crate::{Element, Jid, Level, Specification, ns, time};

pub(super) const SPECIFICATION: Specification = Specification {
    name: "XEP-0484",
    title: "Fast Authentication Streamlining Tokens",
    version: "0.2.0",
    level: Level::Complete,
    file: "crates/xmpp/src/c2s/fast.rs",
    note: "SHA-256; no 0-RTT data",
};

/// The changes of a client's tokens that precede the success of its authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenWork {
    /// Bare.
    pub user: Jid,
    /// The client's own id.
    pub agent: Box<str>,
    /// It signed in by this one, and those before it are void; with this count, which must be higher than all before.
    pub used: Option<(Box<[u8]>, Option<u64>)>,
    /// The one it signed in by is void from now on.
    pub revokes: bool,
    /// It gets a new one, of this kind; an earlier token that it has not used is void.
    pub wanted: Option<TokenBinding>,
}

/// A new token for a client (XEP-0484).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The token.
    pub token: Secret,
    /// The time at which the token expires.
    pub expires_at: Instant,
}

/// The part of an authentication that concerns tokens.
#[derive(Debug, Default)]
pub(super) struct FastRequest {
    pub(super) is_by_token: bool,
    pub(super) count: Option<u64>,
    revokes: bool,
    wanted: Option<TokenBinding>,
}

impl FastRequest {
    pub(super) fn of(writer: &StreamWriter, sign_in: &SignIn, authenticate: &Element) -> FastRequest {
        let fast = authenticate.get("fast", ns::FAST);
        let request = authenticate.get("request-token", ns::FAST);
        let wanted = request.and_then(|request| TokenBinding::parse(request.attr("mechanism")?));
        FastRequest {
            is_by_token: fast.is_some(),
            count: fast.and_then(|fast| fast.attr("count")?.parse().ok()),
            revokes: fast.is_some_and(|fast| matches!(fast.attr("invalidate"), Some("1" | "true"))),
            wanted: wanted
                .filter(|wanted| features::tokens(writer, sign_in).any(|offered| offered == *wanted)),
        }
    }
}

/// The inline feature of SASL2.
pub(super) fn inline(writer: &StreamWriter, sign_in: &SignIn) -> Option<Element> {
    let mut tokens = features::tokens(writer, sign_in).peekable();
    tokens.peek()?;
    let name = |binding: TokenBinding| Element::new("mechanism", ns::FAST).text(binding.mechanism());
    Some(Element::new("fast", ns::FAST).children(tokens.map(name)))
}

pub(super) fn element(new: &NewToken) -> Element {
    Element::new("token", ns::FAST).with("expiry", time::stamp(new.expires_at)).with("token", &*new.token.0)
}

impl Sasl2Request {
    /// The changes of the tokens of `user`, which has authenticated. `None`: there is nothing to be noted, as most times
    /// when a client signs in by its token.
    pub(super) fn take_token_work(&mut self, user: &Jid, is_anonymous: bool) -> Option<TokenWork> {
        let used = self.used.take();
        // XEP-0484 §4.1: a token belongs to a client, which has to give its id. Anonymous clients get none.
        let agent = self.agent.as_ref()?.id.clone().filter(|_| !is_anonymous)?;
        let state = used.as_ref().map(|token| token.state);
        let revokes = self.fast.revokes && used.is_some();
        // §3.4, unless it is to end here (§3.5).
        let due = used.as_ref().filter(|token| token.state == TokenState::Due && !revokes);
        let wanted = self.fast.wanted.or(due.map(|token| token.binding));
        let is_nothing_new = state.is_none_or(|state| state != TokenState::New);
        if wanted.is_none() && !revokes && is_nothing_new && (used.is_none() || self.fast.count.is_none()) {
            return None;
        }
        let count = self.fast.count;
        let used = used.map(|token| (token.id, count));
        Some(TokenWork { user: user.clone(), agent, used, revokes, wanted })
    }
}
