//! The header that answers the client's (RFC 6120 §4.7, RFC 7395 §3.3).

use super::{C2s, Framing, Outbox};
use crate::ns;

impl C2s {
    pub(super) fn write_header(&mut self, out: &mut Outbox) {
        self.has_opened = true;
        if self.framing == Framing::Bodies {
            return;
        }
        let id = format!("{:016x}", self.next_id());
        let lang = crate::xml::escape(self.lang.as_deref().unwrap_or("en"));
        let domain = &self.domain;
        // RFC 6120 §4.7.2: there if the client's header has a `from`.
        let caller = self.entry().caller.as_deref();
        let to = caller.map(|jid| format!(" to='{}'", crate::xml::escape(jid))).unwrap_or_default();
        let attributes = format!("id='{id}' from='{domain}'{to} version='1.0' xml:lang='{lang}'");
        let header = match self.framing {
            Framing::Stream => format!(
                "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='{}' {attributes}>",
                ns::STREAM
            ),
            Framing::Messages | Framing::Bodies => format!("<open xmlns='{}' {attributes}/>", ns::FRAMING),
        };
        out.bytes.extend_from_slice(header.as_bytes());
        self.end_document(out);
    }
}
