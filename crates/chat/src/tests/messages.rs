//! Messages and small values in the store of a test: with the semantics of the real store.

use super::effect::{MamPage, MamQuery};
use super::*;
use crate::limits;

/// Id, other party, time, and the stanza.
type Archived = (Box<str>, Jid, Instant, Element);

/// Owner, node, id, when it came, and the item.
type Item = (Bare, Box<str>, Box<str>, Instant, Element);

#[derive(Default)]
pub(in super::super) struct Messages {
    /// Messages that one search for words looks at; without a number all.
    pub(in super::super) searched: Option<usize>,
    pub(in super::super) offline: Vec<(Bare, u64, Instant, Element)>,
    pub(in super::super) archive: Vec<(Bare, Archived)>,
    pub(in super::super) items: Vec<Item>,
    last: u64,
}

impl Messages {
    pub(super) fn apply(&mut self, change: &Change) {
        match change.clone() {
            Change::Offline { user, at, stanza } => {
                self.last += 1;
                self.offline.push((user, self.last, at, *stanza));
            }
            Change::ForgetOffline { user, ids } => {
                self.offline.retain(|(of, id, ..)| *of != user || (!ids.is_empty() && !ids.contains(id)));
            }
            Change::Archive { owner, id, with, at, stanza } => {
                let known = self.archive.iter_mut().find(|(of, (known, ..))| *of == owner && *known == id);
                match known {
                    Some((_, (.., known))) => *known = *stanza,
                    None => self.archive.push((owner, (id, with, at, *stanza))),
                }
            }
            Change::Item { owner, node, id, item, at, keep } => {
                self.items.retain(|(of, under, known, ..)| (of, under, known) != (&owner, &node, &id));
                self.items.extend(item.map(|item| (owner.clone(), node.clone(), id, at, *item)));
                let is_of = |(of, under, ..): &Item| *of == owner && *under == node;
                let mut spare =
                    self.items.iter().filter(|item| is_of(item)).count().saturating_sub(keep as usize);
                self.items.retain(|item| {
                    let goes = is_of(item) && spare > 0;
                    spare -= usize::from(goes);
                    !goes
                });
            }
            _ => {}
        }
    }

    pub(super) fn load(&self, load: &Load) -> StoreReply {
        match load {
            Load::Offline { user, after, ids } => {
                let own = self
                    .offline
                    .iter()
                    .filter(|(of, id, ..)| of == user && id > after && (ids.is_empty() || ids.contains(id)));
                let rows: Vec<_> = own.map(|(_, id, at, stanza)| (*id, *at, stanza.clone())).collect();
                let (mut left, mut stanzas) = (limits::OFFLINE_BYTES, Vec::new());
                for row in &rows {
                    let bytes = row.2.to_bytes("").len();
                    if bytes > left && !stanzas.is_empty() {
                        break;
                    }
                    left = left.saturating_sub(bytes);
                    stanzas.push(row.clone());
                }
                let is_complete = stanzas.len() == rows.len();
                StoreReply::Stanzas(StanzaPage { stanzas, is_complete })
            }
            Load::Archive { owner, query } => StoreReply::Page(self.page(owner, query)),
            _ => StoreReply::Done,
        }
    }

    fn page(&self, owner: &Bare, query: &MamQuery) -> MamPage {
        let own: Vec<&Archived> =
            self.archive.iter().filter(|(of, _)| of == owner).map(|(_, archived)| archived).collect();
        let is_known = |id: &str| own.iter().any(|(known, ..)| **known == *id);
        if !query.ids.iter().chain(&query.after).chain(&query.before).all(|id| is_known(id)) {
            return MamPage { is_unknown: true, ..MamPage::default() };
        }
        let is_with = |with: &Jid| {
            query.with.as_ref().is_none_or(|wanted| wanted == with || wanted.as_str() == with.bare_str())
        };
        let mut fitting: Vec<&Archived> = own
            .into_iter()
            .filter(|(id, with, at, _)| {
                is_with(with)
                    && query.since.is_none_or(|since| *at >= since)
                    && query.until.is_none_or(|until| *at <= until)
                    && (query.ids.is_empty() || query.ids.contains(id))
            })
            .collect();
        fitting.sort_by(|one, other| one.0.cmp(&other.0));
        let total = Some(fitting.len() as u64).filter(|_| query.text.is_none());
        fitting.retain(|(id, ..)| {
            query.after.as_ref().is_none_or(|after| id > after)
                && query.before.as_ref().is_none_or(|before| id < before)
        });
        let searched_to =
            query.text.as_ref().and_then(|text| self.search(text, query.from_end, &mut fitting));
        let max = query.max as usize;
        let is_complete = fitting.len() <= max && searched_to.is_none();
        if query.from_end {
            fitting.drain(..fitting.len().saturating_sub(max));
        } else {
            fitting.truncate(max);
        }
        let stanzas = fitting.into_iter().map(|(id, _, at, stanza)| (id.clone(), *at, stanza.clone()));
        MamPage { stanzas: stanzas.collect(), is_complete, total, is_unknown: false, searched_to }
    }

    /// Leaves the messages that have the words, and says where the search ended if it was before the end.
    fn search(&self, text: &str, from_end: bool, among: &mut Vec<&Archived>) -> Option<Box<str>> {
        let beyond = among.len().saturating_sub(self.searched.unwrap_or(usize::MAX));
        let mut place = None;
        if beyond > 0 && from_end {
            among.drain(..beyond);
            place = among.first().map(|(id, ..)| id.clone());
        } else if beyond > 0 {
            among.truncate(among.len() - beyond);
            place = among.last().map(|(id, ..)| id.clone());
        }
        among.retain(|(.., stanza)| has_words(stanza, text));
        place
    }
}

fn has_words(stanza: &Element, text: &str) -> bool {
    let body = stanza.content_of("body", ns::CLIENT).unwrap_or_default().to_lowercase();
    text.split_whitespace().all(|word| body.contains(&word.to_lowercase()))
}
