//! Stream management (XEP-0198): acknowledgements, and sessions that outlive their connection.

use stdx::Instant;
use stdx::slab::Key;

use super::effect::{Edge, Effect};
use super::feature::Feature;
use super::session::Session;
use super::{Host, Outbox};
use crate::c2s::Bound;
use crate::{Element, Jid, ns};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

/// Of one session.
pub(super) struct Sm {}

impl Host {
    /// To the client of a session, or into its queue.
    pub(super) fn session_deliver(&mut self, _now: Instant, key: Key, stanza: Element, out: &mut Outbox) {
        if let Some(edge) = self.sessions.get(key).and_then(|session| session.edge) {
            out.push(Effect::Deliver { edge, element: stanza });
        }
    }

    /// A stanza of the client was handled.
    pub(super) fn sm_count(&mut self, _key: Key) {}

    /// `<enable/>`, `<r/>`, `<a/>`.
    pub(super) fn sm(&mut self, _now: Instant, _key: Key, _element: &Element, _out: &mut Outbox) {}

    /// `<enable/>` with Bind 2.
    pub(super) fn sm_inline(&mut self, _now: Instant, _key: Key, _request: &Element) -> Option<Element> {
        None
    }

    /// The connection is lost. True: the session waits to be resumed.
    pub(super) fn sleep(&mut self, _now: Instant, _key: Key) -> bool {
        false
    }

    /// What was never acknowledged goes to the other sessions, or is kept.
    pub(super) fn sm_ended(&mut self, _now: Instant, _session: Session, _out: &mut Outbox) {}

    pub fn handle_resume(
        &mut self,
        _now: Instant,
        edge: Edge,
        (_user, _id, _seen): (&Jid, &str, u32),
        out: &mut Outbox,
    ) {
        let failed = Element::new("failed", ns::SM).child(Element::new("item-not-found", ns::STANZA_ERRORS));
        out.push(Effect::Bound { edge, bound: Bound::NotResumed { failed } });
    }
}
