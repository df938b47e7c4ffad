//! The trace of a stream: how its client signed in, why it ended, and its elements: all but what signs
//! a client in.

use super::Outbox;
use crate::sasl::Mechanism;
use crate::xml::Node;
use crate::{Element, ns};

/// The direction of a traced element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    In,
    /// To the client.
    Out,
}

/// The part of a stream's state that logs and traces show.
#[derive(Debug, Default)]
pub(super) struct TraceState {
    /// The mechanism by which the client signed in, or tries to.
    pub(super) mechanism: Option<Mechanism>,
    /// The condition of the stream error that ended the stream (RFC 6120 §4.9.3). Boxed twice: nearly all streams have none, and one
    /// pointer is half of a string's.
    pub(super) error: Option<Box<Box<str>>>,
    /// True if elements are copied to `Outbox::traced`.
    pub(super) is_traced: bool,
}

impl TraceState {
    /// Notes the mechanism that the client names.
    pub(super) fn note_mechanism(&mut self, element: &Element) {
        self.mechanism = element.attr("mechanism").and_then(Mechanism::parse);
    }

    /// Copies the element, credentials masked, if the stream is traced.
    pub(super) fn record(&self, direction: Direction, element: &Element, out: &mut Outbox) {
        if self.is_traced {
            out.traced.push((direction, masked(element)));
        }
    }
}

const HIDDEN: &str = "***";

/// Texts of these are, or contain, proofs: all of SASL's, and passwords (XEP-0077, XEP-0045, data forms).
fn is_secret(element: &Element) -> bool {
    let is_sasl = matches!(element.ns(), ns::SASL | ns::SASL2);
    let of_sasl = matches!(
        element.name(),
        "auth" | "response" | "challenge" | "success" | "initial-response" | "additional-data"
    );
    (is_sasl && of_sasl) || matches!(element.name(), "password" | "token" | "key" | "digest")
}

/// Secret fields of a data form: `password`, `password-verify`, and all that hides what is typed (XEP-0004 §3.3).
fn is_secret_field(element: &Element) -> bool {
    element.is("field", ns::DATA)
        && (element.attr("type") == Some("text-private")
            || element.attr("var").is_some_and(|var| var.contains("password") || var.contains("secret")))
}

/// As it was, without what a password or a session could be had from.
fn masked(element: &Element) -> Element {
    let mut copy = element.clone();
    mask(&mut copy, false);
    copy
}

fn mask(element: &mut Element, of_secret: bool) {
    let hides = of_secret || is_secret(element) || is_secret_field(element);
    // FAST's tokens (XEP-0484) and invitations' (XEP-0401, XEP-0445) are attributes.
    for name in ["token", "secret"] {
        if element.attr(name).is_some() {
            element.set(name, HIDDEN);
        }
    }
    for node in element.nodes_mut() {
        match node {
            Node::Text(text) if hides && !text.trim().is_empty() => *text = HIDDEN.into(),
            Node::Text(_) => {}
            Node::Element(child) => mask(child, hides),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::{Prefixes, parse};

    #[test]
    fn credentials_are_not_shown() {
        for (xml, shown) in [
            ("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AHNlY3JldA==</auth>", "PLAIN"),
            ("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>AHNlY3JldA==</success>", "success"),
            (
                "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='SCRAM-SHA-1'>\
                 <initial-response>AHNlY3JldA==</initial-response></authenticate>",
                "SCRAM-SHA-1",
            ),
            (
                "<success xmlns='urn:xmpp:sasl:2'><additional-data>AHNlY3JldA==</additional-data>\
                 <authorization-identifier>alice@example.org</authorization-identifier>\
                 <token xmlns='urn:xmpp:fast:0' expiry='2027' token='AHNlY3JldA=='/></success>",
                "expiry",
            ),
            (
                "<iq xmlns='jabber:client' type='set'><query xmlns='jabber:iq:register'>\
                 <username>alice</username><password>AHNlY3JldA==</password></query></iq>",
                "<username>alice</username>",
            ),
            (
                "<x xmlns='jabber:x:data'><field var='muc#roomconfig_roomsecret'><value>AHNlY3JldA==</value></field>\
                 <field var='name'><value>Tea</value></field></x>",
                "Tea",
            ),
            (
                "<x xmlns='http://jabber.org/protocol/muc'><password>AHNlY3JldA==</password></x>",
                "protocol/muc",
            ),
        ] {
            let element = parse(xml.as_bytes(), &Prefixes::default()).unwrap();
            let text = masked(&element).to_string();
            assert!(!text.contains("AHNlY3JldA"), "{text}");
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }
}
