//! The content of an element: shared by all copies of it until one of them is changed, and written once for all of them. So
//! a stanza for a thousand costs each of them its attributes.

use std::sync::{Arc, OnceLock};

use super::element::Node;
use super::name::Name;

/// As many copies are for many. A message that is delivered once has some more: in the queue that waits for its
/// acknowledgement, on its way to the archive.
const MANY: usize = 5;

/// An empty element has no allocation.
#[derive(Clone, Default)]
pub(super) struct Children(Option<Arc<SharedNodes>>);

#[derive(Default)]
struct SharedNodes {
    nodes: Vec<Node>,
    written: OnceLock<Box<Written>>,
}

/// As they stand in an element of that namespace.
struct Written {
    ns: Name,
    bytes: Box<[u8]>,
}

impl Clone for SharedNodes {
    /// To be changed: the cached text does not match it.
    fn clone(&self) -> SharedNodes {
        SharedNodes { nodes: self.nodes.clone(), written: OnceLock::new() }
    }
}

impl Children {
    pub(super) fn nodes(&self) -> &[Node] {
        self.0.as_deref().map_or(&[], |shared| &shared.nodes)
    }

    /// Detaches this copy from the shared children for changes.
    pub(super) fn edit(&mut self) -> &mut Vec<Node> {
        let shared = Arc::make_mut(self.0.get_or_insert_default());
        shared.written = OnceLock::new();
        &mut shared.nodes
    }

    pub(super) fn push(&mut self, node: Node) {
        let nodes = self.edit();
        // Most have one: a text.
        if nodes.capacity() == 0 {
            nodes.reserve_exact(1);
        }
        nodes.push(node);
    }

    /// `write` does it in full, for an element of the namespace `ns`.
    pub(super) fn write(&self, ns: &Name, out: &mut Vec<u8>, write: impl Fn(&[Node], &mut Vec<u8>)) {
        let Some(shared) = &self.0 else { return };
        if Arc::strong_count(shared) < MANY && shared.written.get().is_none() {
            return write(&shared.nodes, out);
        }
        let written = shared.written.get_or_init(|| {
            let mut bytes = Vec::with_capacity(256);
            write(&shared.nodes, &mut bytes);
            Box::new(Written { ns: ns.clone(), bytes: bytes.into() })
        });
        if written.ns == *ns { out.extend_from_slice(&written.bytes) } else { write(&shared.nodes, out) }
    }
}

impl PartialEq for Children {
    fn eq(&self, other: &Children) -> bool {
        let is_same = match (&self.0, &other.0) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            _ => false,
        };
        is_same || self.nodes() == other.nodes()
    }
}

impl Eq for Children {}

impl std::fmt::Debug for Children {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.nodes().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Element, ns};

    fn message() -> Element {
        let body = Element::new("body", ns::CLIENT).text("1 < 2");
        Element::new("message", ns::CLIENT).with("id", "a").child(body)
    }

    fn text(element: &Element) -> String {
        String::from_utf8(element.to_bytes(ns::CLIENT)).unwrap()
    }

    #[test]
    fn copies_are_written_as_the_one_they_are_of() {
        let message = message();
        let copies: Vec<Element> = ["x", "y", "z", "o"].iter().map(|to| message.copy_to(to)).collect();
        assert_eq!(text(&message), "<message id='a'><body>1 &lt; 2</body></message>");
        assert_eq!(text(&copies[0]), "<message id='a' to='x'><body>1 &lt; 2</body></message>");
        assert_eq!(text(&copies[1]), "<message id='a' to='y'><body>1 &lt; 2</body></message>");
        assert!(std::ptr::eq(copies[0].nodes(), copies[1].nodes()), "nothing was copied");
    }

    #[test]
    fn a_copy_differs_in_its_address_alone() {
        let message = message().with("to", "x");
        assert!(message.is_copy_of(&message) && message.is_copy_of(&message.copy_to("y")));
        let body = Element::new("body", ns::CLIENT).text("1 < 2");
        let same = Element::new("message", ns::CLIENT).with("id", "a").with("to", "z").child(body);
        assert!(message.is_copy_of(&same), "by its content");
        let mut marked = message.copy_to("y");
        marked.set_ns("to", "urn:other", "z");
        let others = [
            message.copy_to("y").with("id", "b"),
            message.copy_to("y").with("type", "chat"),
            message.copy_to("y").text("more"),
            Element::new("presence", ns::CLIENT)
                .with("id", "a")
                .with("to", "x")
                .children(message.elements().cloned()),
            marked,
        ];
        assert!(others.iter().all(|other| !message.is_copy_of(other) && !other.is_copy_of(&message)));
    }

    #[test]
    fn a_copy_that_is_changed_changes_alone() {
        let message = message();
        let mut copies = vec![message.clone(); 4];
        assert_eq!(text(&copies[0]), text(&message));
        let mut copy = copies.remove(1);
        copy.push(Element::new("store", ns::HINTS));
        copy.get_mut("body", ns::CLIENT).unwrap().push_text("!");
        assert_eq!(
            text(&copy),
            "<message id='a'><body>1 &lt; 2!</body><store xmlns='urn:xmpp:hints'/></message>"
        );
        assert_eq!(text(&message), "<message id='a'><body>1 &lt; 2</body></message>");
        assert_ne!(copy, message);
        copy.remove_children(|child| child.ns() == ns::HINTS);
        assert_eq!(text(&copy), "<message id='a'><body>1 &lt; 2!</body></message>");
    }

    #[test]
    fn taking_an_absent_child_copies_nothing() {
        let message = message();
        let mut copy = message.clone();
        copy.remove_children(|child| child.ns() == ns::HINTS);
        assert_eq!(copy.take("subject", ns::CLIENT), None);
        assert!(std::ptr::eq(copy.nodes(), message.nodes()), "nothing was copied");
    }
}
