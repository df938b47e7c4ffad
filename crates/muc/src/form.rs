//! Data forms (XEP-0004), as far as rooms have them: fields that a form may lack are `None`, so that a client which sends some
//! fields changes those only.

use xmpp::{Element, ns};

use std::borrow::Cow;

pub(super) fn form(kind: &'static str, form_type: &'static str) -> Element {
    Element::new("x", ns::DATA).with("type", kind).child(field("FORM_TYPE", "hidden", "", [form_type]))
}

pub(super) fn field<'a>(
    var: &'a str,
    kind: &'static str,
    label: &'static str,
    values: impl IntoIterator<Item = &'a str>,
) -> Element {
    let values = values.into_iter().map(|value| Element::new("value", ns::DATA).text(value));
    Element::new("field", ns::DATA)
        .with("var", var)
        .with("type", kind)
        .with_opt("label", Some(label).filter(|label| !label.is_empty()))
        .children(values)
}

pub(super) fn boolean(var: &'static str, label: &'static str, value: bool) -> Element {
    field(var, "boolean", label, [if value { "1" } else { "0" }])
}

/// XEP-0004 §3.3: a `list-single` has options, and its value is one of them.
pub(super) fn choice(var: &'static str, label: &'static str, value: &str, options: &[&str]) -> Element {
    let options = options.iter().map(|option| {
        let value = Element::new("value", ns::DATA).text(*option);
        Element::new("option", ns::DATA).with("label", *option).child(value)
    });
    field(var, "list-single", label, [value]).children(options)
}

/// All values of a field; `None` when the form has no such field.
pub(super) fn values<'a>(form: &'a Element, var: &str) -> Option<Vec<Cow<'a, str>>> {
    let mut fields = form.elements().filter(|child| child.is("field", ns::DATA));
    let field = fields.find(|field| field.attr("var") == Some(var))?;
    Some(field.elements().filter(|child| child.is("value", ns::DATA)).map(Element::content).collect())
}

/// The first value of a field; `None` when the form has no such field.
pub(super) fn value<'a>(form: &'a Element, var: &str) -> Option<Cow<'a, str>> {
    let mut fields = form.elements().filter(|child| child.is("field", ns::DATA));
    let field = fields.find(|field| field.attr("var") == Some(var))?;
    Some(field.content_of("value", ns::DATA).unwrap_or(Cow::Borrowed("")))
}

/// A boolean (XEP-0004 §3.3: `1` or `true`, `0` or `false`); `None` also for any other text.
pub(super) fn flag(form: &Element, var: &str) -> Option<bool> {
    match &*value(form, var)? {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// The `FORM_TYPE` (XEP-0068), which says whose fields these are.
pub(super) fn type_of(form: &Element) -> Option<Cow<'_, str>> {
    value(form, "FORM_TYPE")
}
