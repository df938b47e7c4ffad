//! The text of an event's payload, for subscribers that want a body beside it (XEP-0060 §12.7): clients that do not know the payload show
//! it.
//!
//! A service offers `pubsub#include_body` only where it has a way to make a body: for entries of Atom (RFC 4287), which a node has if its
//! owner has set `pubsub#type` so. `notify` asks for the body of an event.

use xmpp::{Element, ns};

use super::node::NodeConfig;
use crate::limits;

/// The namespace of Atom.
const ATOM: &str = "http://www.w3.org/2005/Atom";

/// True if events of a node of this configuration can have a body.
pub(crate) fn is_possible(config: &NodeConfig) -> bool {
    &*config.kind == ATOM
}

/// The `<body/>` of an event that has one item, an entry of Atom: its title, and its summary or its content.
pub(crate) fn body_of(event: &Element) -> Option<Element> {
    let entry = event.get("item", ns::PUBSUB_EVENT)?.get("entry", ATOM)?;
    let more = text_of(entry, "summary").or_else(|| text_of(entry, "content"));
    let parts: Vec<String> = text_of(entry, "title").into_iter().chain(more).collect();
    let mut text = parts.join("\n\n");
    text.truncate(text.floor_char_boundary(limits::EVENT_BODY));
    (!text.is_empty()).then(|| Element::new("body", ns::CLIENT).text(text))
}

/// The text of a part of an entry. RFC 4287 §3.1.1: without a type it is text; HTML is not turned into text.
fn text_of(entry: &Element, name: &str) -> Option<String> {
    let part = entry.get(name, ATOM).filter(|part| part.attr("type").is_none_or(|kind| kind == "text"))?;
    Some(part.content().trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(entry: &str) -> Option<String> {
        let event = format!(
            "<items xmlns='{}'><item><entry xmlns='{ATOM}'>{entry}</entry></item></items>",
            ns::PUBSUB_EVENT
        );
        let event = xmpp::xml::parse_stored(event.as_bytes()).unwrap();
        body_of(&event).map(|body| body.content().into_owned())
    }

    #[test]
    fn a_body_has_the_title_and_the_summary_or_the_content() {
        let title = "<title type='text'> Alone </title>";
        assert_eq!(body(title).as_deref(), Some("Alone"));
        let summary = "<summary>Now I am alone.</summary><content>O, what a rogue</content>";
        assert_eq!(body(&format!("{title}{summary}")).as_deref(), Some("Alone\n\nNow I am alone."));
        assert_eq!(body("<content type='html'>&lt;b/&gt;</content><content>x</content>"), None);
        assert_eq!(body(""), None);
        let long = format!("<title>{}</title>", "é".repeat(limits::EVENT_BODY));
        assert!(body(&long).unwrap().len() <= limits::EVENT_BODY);
    }
}
