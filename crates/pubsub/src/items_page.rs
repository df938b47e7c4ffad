//! The items that a request names (XEP-0060 §6.5, XEP-0059), and the answer with them. `publish` reads the request, and keeps it until the
//! store has answered.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, ns};

use super::page::{ItemPage, ItemQuery};
use crate::limits;

/// The items that a request names: by id, the newest, or a page (XEP-0059). Kept until the store has them,
/// for the form of the answer.
#[derive(Debug)]
pub(crate) struct ItemsPage {
    pub(crate) query: ItemQuery,
    /// The client asked for a page, and is told which it got.
    is_paged: bool,
}

impl ItemsPage {
    /// Reads the request. A number that is none is `bad-request`.
    pub(crate) fn read(part: &Element, pubsub: Option<&Element>) -> Result<ItemsPage, StanzaError> {
        let number = |text: &str| text.trim().parse::<u32>();
        let bad = |_| StanzaError::from(Condition::BadRequest);
        let ids = part.elements().filter(|child| child.is("item", ns::PUBSUB));
        let mut query = ItemQuery {
            ids: ids.filter_map(|item| item.attr("id")).map(Box::from).collect(),
            newest: part.attr("max_items").map(number).transpose().map_err(bad)?,
            bytes: limits::ITEMS_ANSWER,
            ..ItemQuery::all()
        };
        // A node has no more items than that, so a longer list can only cost work.
        if query.ids.len() > limits::NODE_ITEMS as usize {
            return Err(StanzaError::new(Condition::PolicyViolation, "more items than a node has"));
        }
        let set = pubsub.and_then(|pubsub| pubsub.get("set", ns::RSM));
        if let Some(set) = set {
            let text = |name: &str| set.content_of(name, ns::RSM);
            query.max = text("max").map(|text| number(&text)).transpose().map_err(bad)?.unwrap_or(query.max);
            let index = text("index").map(|text| number(&text)).transpose().map_err(bad)?;
            query.after = text("after").map(|text| text.into());
            // XEP-0059 §2.2: `after` counts first, then `before`, then an index.
            if let Some(before) = text("before").filter(|_| query.after.is_none()) {
                query.from_end = true;
                query.before = (!before.is_empty()).then(|| before.into());
            } else if query.after.is_none() {
                query.index = index.unwrap_or(0);
            }
        }
        Ok(ItemsPage { query, is_paged: set.is_some() })
    }

    /// The newest first, as the text has them.
    pub(crate) fn of(&self, node: &str, mut found: ItemPage) -> Result<Element, StanzaError> {
        // Items that are asked for by their ids and are not there make an empty list (§6.5.9.12).
        if found.is_unknown || self.query.index > found.total {
            return Err(Condition::ItemNotFound.into());
        }
        shorten(&mut found, self.query.from_end);
        let ItemPage { items: shown, index, total, .. } = found;
        let items = Element::new("items", ns::PUBSUB).with("node", node);
        let answer = Element::new("pubsub", ns::PUBSUB)
            .child(items.children(shown.iter().map(|(_, _, item)| item.clone())));
        // All of them: no page. Otherwise a client that asked for none learns that there is more (§6.5.4).
        if !self.is_paged && shown.len() == total as usize {
            return Ok(answer);
        }
        let text = |name: &'static str, text: &str| Element::new(name, ns::RSM).text(text);
        let mut set = Element::new("set", ns::RSM);
        if let [(from, ..), ..] = &shown[..] {
            set.push(text("first", from).with("index", index.to_string()));
        }
        if let [.., (to, ..)] = &shown[..] {
            set.push(text("last", to));
        }
        Ok(answer.child(set.child(text("count", &total.to_string()))))
    }
}

/// Shortens a page to as much as an answer may have, at least one item: on the wire an item may be larger than it is stored.
fn shorten(page: &mut ItemPage, is_from_end: bool) {
    let mut bytes = 0;
    let mut fits = |row: &&(Box<str>, Instant, Element)| {
        let is_first = bytes == 0;
        bytes += row.2.to_bytes(ns::CLIENT).len();
        is_first || bytes <= limits::ITEMS_ANSWER
    };
    if is_from_end {
        let taken = page.items.iter().rev().take_while(&mut fits).count();
        let left_out = page.items.len() - taken;
        page.items.drain(..left_out);
        page.index += u32::try_from(left_out).unwrap_or(u32::MAX);
    } else {
        let taken = page.items.iter().take_while(&mut fits).count();
        page.items.truncate(taken);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ItemRow;

    fn rows(count: u32) -> Vec<ItemRow> {
        let row = |n: u32| (n.to_string().into(), Instant::from_micros(0), Element::new("item", ns::PUBSUB));
        (0..count).map(row).collect()
    }

    /// First and last id of a page, where it begins, and how many items it has.
    fn page(query: ItemQuery, count: u32) -> Option<(String, String, u32)> {
        let found = query.page_of(&rows(count));
        let answer = ItemsPage { query, is_paged: true }.of("n", found).unwrap();
        let items = answer.get("items", ns::PUBSUB).unwrap().elements().count();
        let set = answer.get("set", ns::RSM).unwrap();
        let text = |name: &str| set.content_of(name, ns::RSM).map(|text| text.into_owned());
        Some((text("first")?, text("last")?, u32::try_from(items).unwrap()))
    }

    proptest! {
        #[test]
        fn pages_in_either_direction_have_every_item_once(count in 1..40_u32, max in 1..9_u32) {
            let mut seen = 0;
            let mut next = ItemQuery { max, ..ItemQuery::all() };
            while let Some((_, last, items)) = page(next, count) {
                seen += items;
                prop_assert_eq!(&last, &(count - seen).to_string());
                next = ItemQuery { max, after: Some(last.into()), ..ItemQuery::all() };
            }
            prop_assert_eq!(seen, count);
            let mut seen = 0;
            let mut next = ItemQuery { max, from_end: true, ..ItemQuery::all() };
            while let Some((first, _, items)) = page(next, count) {
                seen += items;
                prop_assert_eq!(&first, &(seen - 1).to_string());
                next = ItemQuery { max, from_end: true, before: Some(first.into()), ..ItemQuery::all() };
            }
            prop_assert_eq!(seen, count);
        }
    }
}
