//! One element with all that is in it.

use std::borrow::Cow;

use super::children::Children;
use super::name::Name;
use crate::ns;

/// An attribute of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Empty for most.
    pub ns: Name,
    /// The local name.
    pub name: Name,
    /// The value, unescaped.
    pub value: Box<str>,
}

/// A child of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A child element.
    Element(Element),
    /// Character data, unescaped.
    Text(Box<str>),
}

/// Namespaces are resolved; prefixes are gone. A copy shares what is in it, however deep it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub(super) ns: Name,
    pub(super) name: Name,
    pub(super) attributes: Vec<Attribute>,
    pub(super) children: Children,
}

impl Element {
    /// An element without attributes and children.
    pub fn new(name: &'static str, ns: &'static str) -> Element {
        Element { ns: ns.into(), name: name.into(), attributes: Vec::new(), children: Children::default() }
    }

    pub(super) fn parsed(name: Name, ns: Name, attributes: Vec<Attribute>) -> Element {
        Element { ns, name, attributes, children: Children::default() }
    }

    /// The local name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace.
    pub fn ns(&self) -> &str {
        &self.ns
    }

    /// True if the element has this name and namespace.
    pub fn is(&self, name: &str, ns: &str) -> bool {
        self.name == name && self.ns == ns
    }

    /// An attribute without a namespace.
    pub fn attr(&self, name: &str) -> Option<&str> {
        self.attr_ns(name, "")
    }

    /// The value of an attribute in a namespace.
    pub fn attr_ns(&self, name: &str, ns: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|known| known.name == name && known.ns == ns);
        found.map(|attribute| &*attribute.value)
    }

    /// `xml:lang` of this element itself.
    pub fn lang(&self) -> Option<&str> {
        self.attr_ns("lang", ns::XML)
    }

    /// The attributes in their order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Sets an attribute without a namespace.
    pub fn set(&mut self, name: &'static str, value: impl Into<Box<str>>) {
        self.set_ns(name, "", value);
    }

    /// Sets an attribute in a namespace.
    pub fn set_ns(&mut self, name: &'static str, ns: &'static str, value: impl Into<Box<str>>) {
        let value = value.into();
        match self.attributes.iter_mut().find(|known| known.name == name && known.ns == ns) {
            Some(known) => known.value = value,
            None => self.attributes.push(Attribute { ns: ns.into(), name: name.into(), value }),
        }
    }

    /// Removes an attribute without a namespace.
    pub fn unset(&mut self, name: &str) {
        self.attributes.retain(|known| known.name != name || !known.ns.is_empty());
    }

    /// Takes out an attribute of a namespace.
    pub fn take_ns(&mut self, name: &str, ns: &str) -> Option<Box<str>> {
        let at = self.attributes.iter().position(|known| known.name == name && known.ns == ns)?;
        Some(self.attributes.remove(at).value)
    }

    /// As [`set`](Self::set), for building.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Box<str>>) -> Element {
        self.set(name, value);
        self
    }

    /// As [`with`](Self::with), when there is a value.
    #[must_use]
    pub fn with_opt(self, name: &'static str, value: Option<impl Into<Box<str>>>) -> Element {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// A copy for another recipient.
    #[must_use]
    pub fn copy_to(&self, to: &str) -> Element {
        let mut attributes = Vec::with_capacity(self.attributes.len() + 1);
        attributes.extend(self.attributes.iter().cloned());
        let (ns, name, children) = (self.ns.clone(), self.name.clone(), self.children.clone());
        Element { ns, name, attributes, children }.with("to", to)
    }

    /// True if both differ at most in their address: one is a [`copy_to`](Element::copy_to) of the other.
    pub fn is_copy_of(&self, other: &Element) -> bool {
        let is_to = |attribute: &Attribute| attribute.name == "to" && attribute.ns.is_empty();
        let mut pairs = self.attributes.iter().zip(&other.attributes);
        let has_same_attributes = self.attributes.len() == other.attributes.len()
            && pairs.all(|(own, others)| own == others || (is_to(own) && is_to(others)));
        has_same_attributes
            && self.name == other.name
            && self.ns == other.ns
            && self.children == other.children
    }

    /// Adds a child element.
    #[must_use]
    pub fn child(mut self, child: Element) -> Element {
        self.push(child);
        self
    }

    /// Adds child elements.
    #[must_use]
    pub fn children(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        children.into_iter().for_each(|child| self.push(child));
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn text(mut self, text: impl Into<Box<str>>) -> Element {
        self.push_text(text);
        self
    }

    /// Adds a child element.
    pub fn push(&mut self, child: Element) {
        self.children.push(Node::Element(child));
    }

    /// Adds a text.
    pub fn push_text(&mut self, text: impl Into<Box<str>>) {
        let text = text.into();
        if !text.is_empty() {
            self.children.push(Node::Text(text));
        }
    }

    /// The children: elements and texts.
    pub fn nodes(&self) -> &[Node] {
        self.children.nodes()
    }

    /// The children, to be changed.
    pub fn nodes_mut(&mut self) -> &mut [Node] {
        self.children.edit()
    }

    /// The child elements.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.nodes().iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The child elements, to be changed.
    pub fn elements_mut(&mut self) -> impl Iterator<Item = &mut Element> {
        self.children.edit().iter_mut().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// Takes itself and all within that are of the namespace `from` over into another.
    pub fn adopt(&mut self, from: &str, to: &'static str) {
        if self.ns == from {
            self.ns = to.into();
        }
        self.elements_mut().for_each(|child| child.adopt(from, to));
    }

    /// The first child of that name.
    pub fn get(&self, name: &str, ns: &str) -> Option<&Element> {
        self.elements().find(|child| child.is(name, ns))
    }

    /// The first child of this name and namespace, to be changed.
    pub fn get_mut(&mut self, name: &str, ns: &str) -> Option<&mut Element> {
        self.elements_mut().find(|child| child.is(name, ns))
    }

    /// The first child element.
    pub fn first(&self) -> Option<&Element> {
        self.elements().next()
    }

    /// Takes out all children of which that is true.
    pub fn remove_children(&mut self, which: impl Fn(&Element) -> bool) {
        // Else all would be copied to be as they are.
        if self.elements().any(&which) {
            self.children.edit().retain(|node| !matches!(node, Node::Element(element) if which(element)));
        }
    }

    /// The first child of that name, out of here.
    pub fn take(&mut self, name: &str, ns: &str) -> Option<Element> {
        let is_it = |node: &Node| matches!(node, Node::Element(element) if element.is(name, ns));
        let at = self.nodes().iter().position(is_it)?;
        match self.children.edit().remove(at) {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        }
    }

    /// The text directly in it.
    pub fn content(&self) -> Cow<'_, str> {
        let mut texts = self.nodes().iter().filter_map(|node| match node {
            Node::Text(text) => Some(&**text),
            Node::Element(_) => None,
        });
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(text), None) => Cow::Borrowed(text),
            (Some(first), Some(second)) => Cow::Owned([first, second].into_iter().chain(texts).collect()),
        }
    }

    /// The text of the first child of that name.
    pub fn content_of(&self, name: &str, ns: &str) -> Option<Cow<'_, str>> {
        self.get(name, ns).map(Element::content)
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut bytes = Vec::new();
        self.write("", &mut bytes);
        f.write_str(&String::from_utf8_lossy(&bytes))
    }
}
