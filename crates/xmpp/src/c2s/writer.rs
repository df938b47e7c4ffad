//! The outgoing half of a client's stream: its header, its documents, its errors and its end (RFC 6120 §4, RFC 7395 §3).

use std::sync::Arc;

use super::trace::TraceState;
use super::{C2sSettings, Direction, Framing, Outbox};
use crate::{Element, ns};

/// Writes a stream. It knows the stream's parameters and nothing of its negotiation.
#[derive(Debug)]
pub(super) struct StreamWriter {
    pub(super) settings: Arc<C2sSettings>,
    pub(super) framing: Framing,
    /// The place of the stream's domain among `C2sSettings::domains`.
    domain: u32,
    /// The language of the client's header (RFC 6120 §4.7.4).
    pub(super) lang: Option<Box<str>>,
    pub(super) trace: TraceState,
    id: u64,
    /// Our header is out.
    has_opened: bool,
}

impl StreamWriter {
    pub(super) fn new(settings: Arc<C2sSettings>, framing: Framing, id: u64) -> StreamWriter {
        let trace = TraceState::default();
        StreamWriter { settings, framing, domain: 0, lang: None, trace, id, has_opened: false }
    }

    /// The domain of the stream, one of ours; the first until the client names one.
    pub(super) fn domain(&self) -> &str {
        self.settings.domains.get(self.domain as usize).map_or("", |domain| domain)
    }

    /// True if the domain is one of ours.
    pub(super) fn serves(&self, domain: &str) -> bool {
        self.place(domain).is_some()
    }

    /// The client names the domain of its stream.
    pub(super) fn set_domain(&mut self, domain: &str) {
        self.domain = self.place(domain).unwrap_or(self.domain);
    }

    fn place(&self, domain: &str) -> Option<u32> {
        let place = self.settings.domains.iter().position(|own| **own == *domain)?;
        u32::try_from(place).ok()
    }

    /// The header that answers the client's (RFC 6120 §4.7, RFC 7395 §3.3). `caller`: the bare address in `from` of the
    /// client's header.
    pub(super) fn write_header(&mut self, caller: Option<&str>, out: &mut Outbox) {
        self.has_opened = true;
        if self.framing == Framing::Bodies {
            return;
        }
        let id = format!("{:016x}", self.next_id());
        let lang = crate::xml::escape(self.lang.as_deref().unwrap_or("en"));
        let domain = self.domain();
        // RFC 6120 §4.7.2: there if the client's header has a `from`.
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

    /// A new stream begins on the same connection (RFC 6120 §4.3.3): what is sent next has a header before it.
    pub(super) fn restart(&mut self) {
        self.has_opened = false;
    }

    /// One element for the client.
    pub(super) fn write(&self, element: &Element, out: &mut Outbox) {
        self.trace.record(Direction::Out, element, out);
        let around = if self.framing == Framing::Stream { ns::CLIENT } else { "" };
        if self.framing != Framing::Messages && element.ns() == ns::STREAM {
            // With the prefix that all clients expect.
            out.bytes.extend_from_slice(format!("<stream:{}>", element.name()).as_bytes());
            element.elements().for_each(|child| child.write(around, &mut out.bytes));
            out.bytes.extend_from_slice(format!("</stream:{}>", element.name()).as_bytes());
        } else {
            element.write(around, &mut out.bytes);
        }
        self.end_document(out);
    }

    /// A stream error (RFC 6120 §4.9). It has a header before it even if the client's is not here (§4.9.1.2).
    pub(super) fn write_error(
        &mut self,
        condition: Element,
        more: Option<Element>,
        caller: Option<&str>,
        out: &mut Outbox,
    ) {
        if !self.has_opened {
            self.write_header(caller, out);
        }
        self.trace.error = Some(Box::new(condition.name().into()));
        let error = Element::new("error", ns::STREAM).child(condition).children(more);
        self.write(&error, out);
    }

    /// The end of the stream (RFC 6120 §4.4, RFC 7395 §3.6), if it has begun.
    pub(super) fn write_end(&self, out: &mut Outbox) {
        if !self.has_opened || self.framing == Framing::Bodies {
            return;
        }
        out.bytes.extend_from_slice(match self.framing {
            Framing::Stream | Framing::Bodies => b"</stream:stream>",
            Framing::Messages => b"<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>",
        });
        self.end_document(out);
    }

    fn end_document(&self, out: &mut Outbox) {
        if self.framing != Framing::Stream {
            out.ends.push(out.bytes.len());
        }
    }

    /// The unpredictable number that the next header or exchange takes.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Another one for each header (RFC 6120 §4.7.3) and each exchange.
    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.id;
        self.id = id.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        id
    }
}
