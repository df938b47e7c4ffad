//! Spans of stanzas of traced accounts (RFC 6120 §8): an IQ until its answer, and messages and presence as moments.
//!
//! Pure, as `calls`. Each IQ is a trace of its own. A message with an id is in the trace of its sender and id, so that those at the sender's session
//! and at the recipient's are one trace where both accounts are traced.

use stdx::Instant;

use crate::limits;
use crate::span::{AttributeValue, Span, SpanId, SpanKind, TraceId};

/// A stanza that a session of a traced account has sent or received.
#[derive(Clone, Debug)]
pub struct Stanza {
    /// The time at which it passed.
    pub at: Instant,
    /// The node has received it from the client; else it is for the client.
    pub is_received: bool,
    /// The full address of the session.
    pub session: Box<str>,
    /// Its name, type and first child, as `iq set query`.
    pub label: Box<str>,
    /// The value of `id`.
    pub id: Option<Box<str>>,
    /// The value of `from`.
    pub from: Option<Box<str>>,
}

/// The IQs that wait for their answers.
pub struct StanzaSpans {
    /// The name of the node, which makes identifiers of spans its own.
    node: Box<str>,
    open: Vec<OpenIq>,
    /// Spans that were numbered.
    spans: u64,
    missed: u64,
}

struct OpenIq {
    is_received: bool,
    session: Box<str>,
    id: Box<str>,
    span: Span,
}

impl Stanza {
    /// Reads `id` and `from` of an element's text. `None`: it is no stanza.
    pub fn of(at: Instant, is_received: bool, session: &str, label: &str, xml: &str) -> Option<Stanza> {
        let name = label.split(' ').next().unwrap_or_default();
        let value = |name: &str| attribute(xml, name).map(|value| cut(value).into());
        ["iq", "message", "presence"].contains(&name).then(|| Stanza {
            at,
            is_received,
            session: session.into(),
            label: cut(label).into(),
            id: value("id"),
            from: value("from"),
        })
    }
}

impl StanzaSpans {
    /// No stanzas.
    pub fn new(node: &str) -> StanzaSpans {
        StanzaSpans { node: node.into(), open: Vec::new(), spans: 0, missed: 0 }
    }

    /// IQs without spans, because too many waited.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Handles a stanza. Spans that end with it go to `out`.
    pub fn handle_stanza(&mut self, stanza: &Stanza, out: &mut Vec<Span>) {
        let mut words = stanza.label.split(' ');
        match (words.next(), words.next(), &stanza.id) {
            (Some("iq"), Some("get" | "set"), Some(id)) => {
                if self.open.len() >= limits::OPEN_IQS {
                    self.missed += 1;
                    return;
                }
                let (session, id) = (stanza.session.clone(), id.clone());
                let span = self.span(stanza);
                self.open.push(OpenIq { is_received: stanza.is_received, session, id, span });
            }
            (Some("iq"), kind, Some(id)) => {
                // The answer goes the other way.
                let is_asked = |open: &OpenIq| {
                    open.is_received != stanza.is_received
                        && open.id == *id
                        && is_of(&open.session, &stanza.session)
                };
                let Some(place) = self.open.iter().position(is_asked) else { return };
                let mut span = self.open.swap_remove(place).span;
                span.end = stanza.at.max(span.begin);
                span.is_error = kind == Some("error");
                out.push(span);
            }
            (Some("iq"), ..) => {}
            _ => {
                let span = self.span(stanza);
                out.push(span);
            }
        }
    }

    /// Ends IQs that were not answered in time.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<Span>) {
        let late = |open: &mut OpenIq| now.since(open.span.begin) >= limits::IQ_TIME;
        for mut open in self.open.extract_if(.., late) {
            open.span.end = open.span.begin + limits::IQ_TIME;
            open.span.attributes.push(("belfry.unanswered", AttributeValue::Flag(true)));
            out.push(open.span);
        }
    }

    fn span(&mut self, stanza: &Stanza) -> Span {
        self.spans += 1;
        let number = self.spans;
        let is_iq = stanza.label.starts_with("iq");
        let trace = match &stanza.id {
            Some(id) if !is_iq => {
                let from = if stanza.is_received { Some(&stanza.session) } else { stanza.from.as_ref() };
                let bare = from.map_or("", |from| from.split('/').next().unwrap_or_default());
                TraceId::of(format!("stanza {bare} {id}").as_bytes())
            }
            _ => TraceId::of(format!("stanza {} {} {number}", self.node, stanza.session).as_bytes()),
        };
        let name: Vec<&str> = stanza.label.split(' ').take(if is_iq { 2 } else { 1 }).collect();
        Span {
            trace,
            id: SpanId::of(trace, &self.node, number),
            parent: None,
            name: name.join(" ").into(),
            kind: if stanza.is_received { SpanKind::Server } else { SpanKind::Client },
            begin: stanza.at,
            end: stanza.at,
            attributes: vec![
                ("xmpp.session", AttributeValue::Text(cut(&stanza.session).into())),
                ("xmpp.stanza", AttributeValue::Text(stanza.label.clone())),
            ],
            events: Vec::new(),
            is_error: false,
        }
    }
}

/// True if a session is the one that has asked, which had no resource before it was bound.
fn is_of(asked: &str, session: &str) -> bool {
    session.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// At most as many bytes as a text of a span has, at a character's boundary.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(limits::TEXT_BYTES)]
}

/// The value of an attribute of the outermost element, as it is written.
fn attribute<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let mut rest = xml.strip_prefix('<')?;
    loop {
        // Up to the next attribute, or the end of the start tag.
        let place = rest.find([' ', '\t', '\n', '\r', '>'])?;
        if rest[place..].starts_with('>') {
            return None;
        }
        rest = rest[place..].trim_start();
        let (found, value) = rest.split_once('=')?;
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, behind) = value[1..].split_once(quote)?;
        if found == name {
            return Some(value);
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests;
