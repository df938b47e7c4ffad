//! FAST (XEP-0484): tokens instead of passwords, one client's each. Nothing is taken as 0-RTT data.

use stdx::Instant;

use super::{Binding, C2s, Effect, Outbox, State, features, sasl2};
use crate::sasl::{Failure, Secret, TokenBinding, TokenState};
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
    pub token: Secret,
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
    pub(super) fn of(stream: &C2s, authenticate: &Element) -> FastRequest {
        let fast = authenticate.get("fast", ns::FAST);
        let request = authenticate.get("request-token", ns::FAST);
        let wanted = request.and_then(|request| TokenBinding::parse(request.attr("mechanism")?));
        FastRequest {
            is_by_token: fast.is_some(),
            count: fast.and_then(|fast| fast.attr("count")?.parse().ok()),
            revokes: fast.is_some_and(|fast| matches!(fast.attr("invalidate"), Some("1" | "true"))),
            wanted: wanted.filter(|wanted| features::tokens(stream).any(|offered| offered == *wanted)),
        }
    }
}

/// The inline feature of SASL2.
pub(super) fn inline(stream: &C2s) -> Option<Element> {
    let mut tokens = features::tokens(stream).peekable();
    tokens.peek()?;
    let name = |binding: TokenBinding| Element::new("mechanism", ns::FAST).text(binding.mechanism());
    Some(Element::new("fast", ns::FAST).children(tokens.map(name)))
}

pub(super) fn element(new: &NewToken) -> Element {
    Element::new("token", ns::FAST).with("expiry", time::stamp(new.expires_at)).with("token", &*new.token.0)
}

impl C2s {
    /// The client has authenticated. Its tokens come first: a used token must be void before anything
    /// follows.
    pub(super) fn authenticated(
        &mut self,
        last: Option<Vec<u8>>,
        mut wish: Box<sasl2::Sasl2Request>,
        out: &mut Outbox,
    ) {
        match self.token_work(&mut wish) {
            Some(work) => {
                out.effects.push(Effect::Tokens(Box::new(work)));
                self.state = State::Binding(Binding::Tokens { last, wish });
            }
            None => self.signed_in(last, wish, out),
        }
    }

    /// `None`: there is nothing to be noted, as most times when a client signs in by its token.
    fn token_work(&self, wish: &mut sasl2::Sasl2Request) -> Option<TokenWork> {
        let used = wish.used.take();
        // XEP-0484 §4.1: a token belongs to a client, which has to give its id. Anonymous clients get none.
        let agent = wish.agent.as_ref()?.id.clone().filter(|_| !self.is_anonymous)?;
        let state = used.as_ref().map(|token| token.state);
        let revokes = wish.fast.revokes && used.is_some();
        // §3.4, unless it is to end here (§3.5).
        let due = used.as_ref().filter(|token| token.state == TokenState::Due && !revokes);
        let wanted = wish.fast.wanted.or(due.map(|token| token.binding));
        let is_nothing_new = state.is_none_or(|state| state != TokenState::New);
        if wanted.is_none() && !revokes && is_nothing_new && (used.is_none() || wish.fast.count.is_none()) {
            return None;
        }
        let count = wish.fast.count;
        let used = used.map(|token| (token.id, count));
        Some(TokenWork { user: self.jid.clone()?, agent, used, revokes, wanted })
    }

    /// The answer to `Tokens`, with the client's new token, if any.
    pub fn handle_tokens(&mut self, done: Result<Option<NewToken>, Failure>, out: &mut Outbox) {
        let State::Binding(Binding::Tokens { last, mut wish }) =
            std::mem::replace(&mut self.state, State::Choosing)
        else {
            return;
        };
        match done {
            Ok(token) => {
                wish.token = token;
                self.signed_in(last, wish, out);
            }
            Err(failure) => {
                self.jid = None;
                self.refuse2(failure, out);
            }
        }
        self.go_on(out);
    }
}
