//! Pages of nodes and items: every read is bounded by rows and by bytes, and says whether something follows.

use stdx::Instant;
use xmpp::Element;

use crate::limits;

/// The items of a node that are read. The newest item is the first (XEP-0060 §6.5, XEP-0059).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemQuery {
    /// Items of these ids, if there are any: then only `bytes` of the other fields counts, and ids of no item are passed over.
    pub ids: Vec<Box<str>>,
    /// The page is one of so many of the newest items, as if there were no others.
    pub newest: Option<u32>,
    /// Items that follow the one of this id.
    pub after: Option<Box<str>>,
    /// Items that precede the one of this id; the last of them are the page.
    pub before: Option<Box<str>>,
    /// The last items instead of the first.
    pub from_end: bool,
    /// Items to pass over.
    pub index: u32,
    /// The most items of the page.
    pub max: u32,
    /// Bytes of items, unless one alone has more.
    pub bytes: usize,
    /// Only ids and times are read; the items are empty elements.
    pub is_ids_only: bool,
}

impl ItemQuery {
    /// All items of nodes that are small by nature, such as bookmarks. The page says when they are not.
    pub fn all() -> ItemQuery {
        ItemQuery {
            ids: Vec::new(),
            newest: None,
            after: None,
            before: None,
            from_end: false,
            index: 0,
            max: limits::NODE_ITEMS,
            bytes: limits::ITEMS_WHOLE,
            is_ids_only: false,
        }
    }

    /// The newest item.
    pub fn newest() -> ItemQuery {
        ItemQuery { max: 1, ..ItemQuery::all() }
    }

    /// One item.
    pub fn of_id(id: &str) -> ItemQuery {
        ItemQuery { ids: vec![id.into()], ..ItemQuery::all() }
    }

    /// The page of a node that is in memory, the newest item last: the answer that the store has to give.
    pub fn page_of(&self, rows: &[ItemRow]) -> ItemPage {
        let mut all: Vec<&ItemRow> = rows.iter().rev().collect();
        if !self.ids.is_empty() {
            all.retain(|(id, _, _)| self.ids.contains(id));
            let taken = fitting(&all, self.bytes, false);
            return ItemPage {
                index: 0,
                total: count(all.len()),
                is_cut: taken < all.len(),
                is_unknown: false,
                items: all[..taken].iter().map(|row| (*row).clone()).collect(),
            };
        }
        all.truncate(self.newest.map_or(usize::MAX, |newest| newest as usize));
        let place = |id: &str| all.iter().position(|(known, _, _)| **known == *id);
        let (mut from, mut to) = (0, all.len());
        for (id, is_after) in [(&self.after, true), (&self.before, false)] {
            match (id.as_deref().map(place), is_after) {
                (None, _) => {}
                (Some(None), _) => return ItemPage { is_unknown: true, ..ItemPage::default() },
                (Some(Some(place)), true) => from = place + 1,
                (Some(Some(place)), false) => to = place,
            }
        }
        let (index, max) = (self.index as usize, self.max as usize);
        if self.from_end {
            to = to.saturating_sub(index).max(from);
            from = from.max(to.saturating_sub(max));
        } else {
            from = (from + index).min(to.max(from));
            to = to.min(from.saturating_add(max)).max(from);
        }
        let asked = &all[from..to];
        let taken = fitting(asked, self.bytes, self.from_end && !self.is_ids_only);
        let is_cut = taken < asked.len();
        if self.from_end {
            from += asked.len() - taken;
        }
        let shown = &all[from..from + taken];
        ItemPage {
            items: shown.iter().map(|row| (*row).clone()).collect(),
            index: count(if shown.is_empty() { index.min(all.len()) } else { from }),
            total: count(all.len()),
            is_cut,
            is_unknown: false,
        }
    }
}

fn count(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}

/// The number of rows that fit into that many bytes; at least one.
fn fitting(rows: &[&ItemRow], bytes: usize, from_end: bool) -> usize {
    let mut left = bytes;
    let mut fits = |row: &&&ItemRow| {
        let is_first = left == bytes;
        let length = row.2.to_bytes("").len();
        let fits = is_first || length <= left;
        left = left.saturating_sub(length.max(1));
        fits
    };
    if from_end {
        rows.iter().rev().take_while(&mut fits).count()
    } else {
        rows.iter().take_while(&mut fits).count()
    }
}

/// Id, when it was published, and the item.
pub type ItemRow = (Box<str>, Instant, Element);

/// One page of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ItemPage {
    /// The newest first.
    pub items: Vec<ItemRow>,
    /// The place of the first among all.
    pub index: u32,
    /// The number of all items that the query matches, whatever the page.
    pub total: u32,
    /// The limit of bytes has shortened the page.
    pub is_cut: bool,
    /// `after` or `before` names no item.
    pub is_unknown: bool,
}

/// Nodes of one owner, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePage {
    /// Name and configuration.
    pub rows: Vec<(Box<str>, Element)>,
    /// Nothing follows.
    pub is_complete: bool,
}
