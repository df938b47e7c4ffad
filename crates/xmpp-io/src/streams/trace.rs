//! Copies the elements of traced accounts. It costs a comparison a stanza while any account is traced, else
//! nothing.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use control::ChatTrace;
use tokio::sync::broadcast;
use xmpp::c2s::{C2s, Direction, Outbox};
use xmpp::xml::Node;
use xmpp::{Element, Jid};

use super::stream::Stream;
use crate::limits;

/// Elements of streams that have not signed in.
type UnboundTraces = HashMap<u64, Vec<(Direction, Element)>>;

/// The traced accounts of one shard's streams, and what is kept of streams whose account is not known.
pub(super) struct Tracing {
    accounts: RefCell<Vec<Box<str>>>,
    /// `accounts` is not empty.
    is_on: Cell<bool>,
    undecided: RefCell<UnboundTraces>,
    sink: broadcast::Sender<Arc<ChatTrace>>,
}

impl Tracing {
    pub(super) fn new(sink: broadcast::Sender<Arc<ChatTrace>>) -> Tracing {
        Tracing { accounts: RefCell::default(), is_on: Cell::new(false), undecided: RefCell::default(), sink }
    }

    /// The elements of these accounts are copied out from now on.
    pub(super) fn set_accounts(&self, accounts: Vec<Box<str>>) {
        self.is_on.set(!accounts.is_empty());
        *self.accounts.borrow_mut() = accounts;
        *self.undecided.borrow_mut() = UnboundTraces::default();
    }

    /// Called before a stream handles input, which may reveal its account.
    pub(super) fn before(&self, c2s: &mut C2s) {
        let is_on = self.is_on.get();
        c2s.set_traced(is_on && c2s.jid().is_none_or(|jid| self.is_traced(jid)));
    }

    /// Called after a stream has handled input. Elements of a stream without an account yet are kept until the account is known, so that a trace
    /// shows the sign-in, too.
    pub(super) fn after(&self, stream: &Stream, c2s: &C2s, out: &mut Outbox) {
        if out.traced.is_empty() {
            return;
        }
        let mut undecided = self.undecided.borrow_mut();
        let Some(jid) = c2s.jid() else {
            if undecided.len() < limits::XMPP_UNDECIDED || undecided.contains_key(&stream.number) {
                let kept = undecided.entry(stream.number).or_default();
                let room = limits::XMPP_UNDECIDED_EACH.saturating_sub(kept.len());
                kept.extend(out.traced.drain(..).take(room));
            }
            return out.traced.clear();
        };
        let before = undecided.remove(&stream.number).unwrap_or_default();
        let now = out.traced.drain(..);
        if !self.is_traced(jid) {
            return;
        }
        for (direction, element) in before.into_iter().chain(now) {
            let trace = ChatTrace {
                account: jid.bare_str().into(),
                session: jid.as_str().into(),
                direction,
                label: label(&element).into(),
                xml: element.to_string().into(),
            };
            // The last reader may have gone.
            let _ = self.sink.send(Arc::new(trace));
        }
    }

    pub(super) fn ended(&self, stream: &Stream) {
        if self.is_on.get() {
            self.undecided.borrow_mut().remove(&stream.number);
        }
    }

    fn is_traced(&self, jid: &Jid) -> bool {
        self.accounts.borrow().iter().any(|account| **account == *jid.bare_str())
    }
}

/// A short description: name, type, and first child.
fn label(element: &Element) -> String {
    let first = element.nodes().iter().find_map(|node| match node {
        Node::Element(child) => Some(child.name()),
        Node::Text(_) => None,
    });
    let parts = [Some(element.name()), element.attr("type"), first];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
