//! A stream whose documents come and go in bodies of HTTP: another part packs and unpacks them ([`bosh`](crate::bosh)).

use super::{C2s, Outbox};
use crate::xml::Measured;
use crate::{Element, ns};

impl C2s {
    /// One document of `Framing::Bodies`; the stream begins, or begins anew, with `<open/>` (RFC 7395). Not while
    /// [`is_waiting`](Self::is_waiting).
    pub fn handle_payload(&mut self, payload: Element, out: &mut Outbox) {
        if self.is_closed() {
            return;
        }
        if payload.is("open", ns::FRAMING) {
            self.open(&payload, out);
        } else {
            let written = payload.written_len("");
            self.handle_element(Measured { element: payload, written, memory: 0 }, out);
        }
    }

    /// The client ended it.
    pub fn handle_close(&mut self, out: &mut Outbox) {
        self.close_theirs(out);
    }

    /// The stream error that closed it.
    pub fn failure(&self) -> Option<&str> {
        self.seen.error.as_deref().filter(|_| self.is_closed())
    }
}
