//! Private data (XEP-0049), and bookmarks that are the same there (XEP-0048) and as items (XEP-0402).

use std::collections::BTreeMap;

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::change_queue::not_written;
use super::effect::{Change, Load};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget};
use super::pubsub::{Publication, items_of, whole};
use super::write_group::{WriteContinuation, WriteGroup};
use super::{Host, ItemQuery, Outbox, imported};
use crate::limits;

const FILE: &str = "crates/chat/src/private.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0049",
            title: "Private XML Storage",
            version: "1.2",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
        Specification {
            name: "XEP-0048",
            title: "Bookmarks",
            version: "1.2",
            level: Level::Complete,
            file: FILE,
            note: "in private data and as a node; rooms are converted from and to XEP-0402",
        },
        Specification {
            name: "XEP-0402",
            title: "PEP Native Bookmarks",
            version: "1.2.0",
            level: Level::Complete,
            file: FILE,
            note: "with #compat and #compat-pep",
        },
    ],
    account: &[ns::PRIVATE, ns::BOOKMARKS_COMPAT, ns::BOOKMARKS_COMPAT_PEP],
    server: &[ns::PRIVATE],
    handles: &[IqHandler { at: IqTarget::Own, name: "query", ns: ns::PRIVATE, run: private }],
};

/// XEP-0402 §3: as clients make the node.
const BOOKMARKS_NODE: &[(&str, &str)] = &[
    ("pubsub#persist_items", "true"),
    ("pubsub#max_items", "max"),
    ("pubsub#send_last_published_item", "never"),
    ("pubsub#access_model", "whitelist"),
];

/// XEP-0048 §3.1 in a node: one item has them all.
const OLD_NODE: &[(&str, &str)] = &[("pubsub#persist_items", "true"), ("pubsub#access_model", "whitelist")];

/// The id, time and item of a native bookmark.
type KnownRoom = (Box<str>, Instant, Element);

/// By their addresses.
type LegacyBookmarks = BTreeMap<Box<str>, Element>;

fn old_rooms(storage: &Element) -> Result<LegacyBookmarks, StanzaError> {
    let rooms = storage.elements().filter(|child| child.is("conference", ns::OLD_BOOKMARKS));
    let with_address = rooms.map(|room| {
        let jid = room.attr("jid").and_then(|jid| Bare::parse(jid).ok());
        let bad = || StanzaError::new(Condition::BadRequest, "a bookmark's jid is no room's address");
        Ok((jid.ok_or_else(bad)?.as_str().into(), room.clone()))
    });
    with_address.collect()
}

fn old_item(storage: Element) -> Publication {
    Publication { node: ns::OLD_BOOKMARKS, id: "current".into(), payload: storage, options: OLD_NODE }
}

fn private(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    let user = iq.from.bare();
    let (Some(data), 1) = (iq.payload.first(), iq.payload.elements().count()) else {
        return IqReply::Error(Condition::BadRequest.into());
    };
    if !is_possible(data) {
        let text = "private data of that namespace is not possible";
        return IqReply::Error(StanzaError::new(Condition::NotAcceptable, text));
    }
    if host.is_anonymous(&user) {
        return IqReply::Error(StanzaError::new(Condition::NotAllowed, "anonymous accounts store nothing"));
    }
    if !iq.is_set {
        host.private_asked(&user, iq.iq, data, out);
    } else if data.to_bytes(ns::CLIENT).len() > limits::ITEM {
        return IqReply::Error(StanzaError::new(Condition::NotAcceptable, "that is too much data"));
    } else if data.is("storage", ns::OLD_BOOKMARKS) {
        host.set_bookmarks(now, &user, iq.iq, data, out);
    } else {
        let question = iq.iq.clone();
        host.set_private(now, &user, data, out, move |host, _, done, out| {
            host.answer(&question, done.map(|()| None), out);
        });
    }
    IqReply::Later
}

/// XEP-0049 §3: in a namespace that is no stanza's.
fn is_possible(data: &Element) -> bool {
    let is_reserved = data.ns().is_empty() || data.ns().starts_with("jabber:") || data.ns() == ns::VCARD;
    !is_reserved && data.ns().len() <= limits::NODE_NAME
}

/// The writes when a client sets private data: bookmarks in all of their places.
pub(crate) fn imported(owner: &Bare, data: &Element, at: Instant) -> Result<Vec<Change>, &'static str> {
    const WHAT: &str = "private data";
    if !is_possible(data) || data.to_bytes(ns::CLIENT).len() > limits::ITEM {
        return Err(WHAT);
    }
    let (node, id) = place(data);
    let mut changes = vec![imported::kept(owner, (&node, &id), data.clone(), at, limits::PRIVATE_NAMES)];
    if data.is("storage", ns::OLD_BOOKMARKS) {
        let rooms = old_rooms(data).map_err(|_| WHAT)?;
        let rooms = rooms.into_iter().map(|(room, old)| Publication {
            node: ns::BOOKMARKS,
            id: room,
            payload: to_native(&old, None),
            options: BOOKMARKS_NODE,
        });
        for publication in [old_item(data.clone())].into_iter().chain(rooms) {
            changes.extend(publication.changes(owner, at));
        }
    }
    Ok(changes)
}

/// As the store has it: data of one namespace and name.
fn place(data: &Element) -> (Box<str>, Box<str>) {
    (format!("private:{}", data.ns()).into(), data.name().into())
}

/// True if a node's item is private data; the features' own data beside it are not.
pub(crate) fn is_private(node: &str, id: &str, data: &Element) -> bool {
    is_possible(data) && place(data) == (node.into(), id.into())
}

fn all_items(owner: &Bare, node: &str) -> Load {
    Load::Items { owner: owner.clone(), node: node.into(), query: Box::new(ItemQuery::all()) }
}

fn query(data: Element) -> Element {
    Element::new("query", ns::PRIVATE).child(data)
}

impl Host {
    fn private_asked(&mut self, user: &Bare, iq: &Element, data: &Element, out: &mut Outbox) {
        let ((node, name), question) = (place(data), iq.clone());
        // A client that has stored nothing gets its own query back (XEP-0049 §2.3).
        let asked = data.clone();
        let user = user.clone();
        let wanted = Box::new(ItemQuery::of_id(&name));
        self.load(
            Load::Items { owner: user.clone(), node, query: wanted },
            out,
            move |host, _, result, out| {
                let stored = items_of(result).map(|page| {
                    let row = page.items.into_iter().next();
                    row.map_or(asked, |(_, _, item)| item)
                });
                match stored {
                    Ok(data) if data.is("storage", ns::OLD_BOOKMARKS) => {
                        host.bookmarks_asked(&user, question, data, out);
                    }
                    Ok(data) => host.answer(&question, Ok(Some(query(data))), out),
                    Err(error) => host.refuse(&question, &error, out),
                }
            },
        );
    }

    fn set_private(
        &mut self,
        now: Instant,
        user: &Bare,
        data: &Element,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox) + 'static,
    ) {
        let (node, id) = place(data);
        let item = Some(Box::new(data.clone()));
        let change =
            Change::Item { owner: user.clone(), node, id, item, at: now, keep: limits::PRIVATE_NAMES };
        self.change(change, out, move |host, now, result, out| {
            then(host, now, result.map_err(not_written), out);
        });
    }

    /// Rooms are the items' to tell, the rest is as it was stored.
    fn bookmarks_asked(&mut self, user: &Bare, question: Element, mut stored: Element, out: &mut Outbox) {
        let load = all_items(user, ns::BOOKMARKS);
        self.load(load, out, move |host, _, result, out| {
            let answer = whole(result).map(|rows| {
                stored.remove_children(|child| child.is("conference", ns::OLD_BOOKMARKS));
                let rooms = rows.iter().filter_map(|(room, _, item)| to_old(room, item.first()?));
                Some(query(stored.children(rooms)))
            });
            host.answer(&question, answer, out);
        });
    }

    /// XEP-0402 §5: changed rooms are published, missing ones retracted. The answer comes when all of it is on disk: a
    /// client that has it reads its bookmarks as it set them.
    fn set_bookmarks(&mut self, now: Instant, user: &Bare, iq: &Element, data: &Element, out: &mut Outbox) {
        let wanted = match old_rooms(data) {
            Ok(wanted) => wanted,
            Err(error) => return self.refuse(iq, &error, out),
        };
        let (owner, iq, data) = (user.clone(), iq.clone(), data.clone());
        let load = all_items(&owner, ns::BOOKMARKS);
        self.load(load, out, move |host, _, result, out| {
            let known = match whole(result) {
                Ok(known) => known,
                Err(error) => return host.refuse(&iq, &error, out),
            };
            let answer: WriteContinuation =
                Box::new(move |host, _, done, out| host.answer(&iq, done.map(|()| None), out));
            let user = owner.clone();
            let copy = data.clone();
            host.set_private(now, &owner, &data, out, move |host, now, stored, out| {
                if stored.is_err() {
                    return answer(host, now, stored, out);
                }
                // That node first: a publication that creates it would make all others wait.
                let owner = user.clone();
                host.publish_for(now, &user, old_item(copy), out, move |host, now, published, out| {
                    // Items are what clients read: they are written even where the old node is not.
                    let both: WriteContinuation = Box::new(move |host, now, done, out| {
                        answer(host, now, published.and(done), out);
                    });
                    host.sync_bookmarks(now, &owner, (wanted, &known), out, both);
                });
            });
        });
    }

    /// `then` runs when the rooms are on disk, or with the first error.
    fn sync_bookmarks(
        &mut self,
        now: Instant,
        user: &Bare,
        (wanted, known): (LegacyBookmarks, &[KnownRoom]),
        out: &mut Outbox,
        then: WriteContinuation,
    ) {
        let gone = known.iter().map(|(room, _, _)| room).filter(|room| !wanted.contains_key(*room));
        let gone: Vec<Box<str>> = gone.cloned().collect();
        let changed = wanted.into_iter().filter_map(|(room, old)| {
            let before = known.iter().find(|(known, _, _)| *known == room);
            let before = before.and_then(|(_, _, item)| item.first());
            let payload = to_native(&old, before);
            let is_new = before != Some(&payload);
            is_new.then_some(Publication { node: ns::BOOKMARKS, id: room, payload, options: BOOKMARKS_NODE })
        });
        let mut changed: Vec<Publication> = changed.collect();
        let all = WriteGroup::new(then);
        if let Some(first) = changed.pop() {
            let (owner, all) = (user.clone(), all.clone());
            // The first makes the node, for which all others would have to wait.
            let one = all.one();
            self.publish_for(now, user, first, out, move |host, now, result, out| {
                if result.is_ok() {
                    for publication in changed {
                        host.publish_for(now, &owner, publication, out, all.one());
                    }
                }
                // Rooms that were not published stay as they were: the items count.
                one(host, now, result, out);
            });
        }
        if !gone.is_empty() {
            self.retract_for(now, user, (ns::BOOKMARKS, gone), out, all.one());
        }
        // Where nothing had to be written, it is done.
        all.one()(self, now, Ok(()), out);
    }

    /// A client has published to one of the nodes, or taken something back: the other follows (XEP-0402 §5), and `then`
    /// answers the client, which may read either.
    pub(super) fn bookmarks_published(
        &mut self,
        now: Instant,
        user: &Bare,
        node: &str,
        (payload, is_new): (Option<&Element>, bool),
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, &mut Outbox) + 'static,
    ) {
        // A copy that cannot be written now follows with the next change: the item itself is on disk.
        let done: WriteContinuation = Box::new(move |host, _, _, out| then(host, out));
        match payload {
            _ if node == ns::BOOKMARKS => self.mirror_bookmarks(user, out, done),
            Some(storage) if node == ns::OLD_BOOKMARKS && storage.is("storage", ns::OLD_BOOKMARKS) => {
                self.old_bookmarks_published(now, user, (storage.clone(), is_new), out, done);
            }
            _ => done(self, now, Ok(()), out),
        }
    }

    /// From items to the one of the old node, which keeps what is no room.
    fn mirror_bookmarks(&mut self, user: &Bare, out: &mut Outbox, then: WriteContinuation) {
        let items = |node: &str| all_items(user, node);
        let (rooms, old, user) = (items(ns::BOOKMARKS), items(ns::OLD_BOOKMARKS), user.clone());
        self.load(rooms, out, move |host, _, rooms, out| {
            host.load(old, out, move |host, now, old, out| {
                let (rooms, mut old) = match (whole(rooms), whole(old)) {
                    (Ok(rooms), Ok(old)) => (rooms, old),
                    (Err(error), _) | (_, Err(error)) => return then(host, now, Err(error), out),
                };
                let old = old.pop().and_then(|(_, _, item)| item.first().cloned());
                let mut storage = old.unwrap_or_else(|| Element::new("storage", ns::OLD_BOOKMARKS));
                storage.remove_children(|child| child.is("conference", ns::OLD_BOOKMARKS));
                let rooms = rooms.iter().filter_map(|(room, _, item)| to_old(room, item.first()?));
                host.publish_for(now, &user, old_item(storage.children(rooms)), out, then);
            });
        });
    }

    /// And back. A client that finds no old node knows nothing of the rooms that there are: it takes none of them away.
    fn old_bookmarks_published(
        &mut self,
        now: Instant,
        user: &Bare,
        (storage, is_new): (Element, bool),
        out: &mut Outbox,
        then: WriteContinuation,
    ) {
        let mut wanted = match old_rooms(&storage) {
            Ok(wanted) => wanted,
            Err(error) => return then(self, now, Err(error), out),
        };
        let user = user.clone();
        let load = all_items(&user, ns::BOOKMARKS);
        self.load(load, out, move |host, now, result, out| {
            let known = match whole(result) {
                Ok(known) => known,
                Err(error) => return then(host, now, Err(error), out),
            };
            let all = WriteGroup::new(then);
            if is_new {
                let before = wanted.len();
                for (room, _, item) in &known {
                    let old = item.first().and_then(|native| to_old(room, native));
                    if let Some(old) = old.filter(|_| !wanted.contains_key(room)) {
                        wanted.insert(room.clone(), old);
                    }
                }
                if wanted.len() > before {
                    let mut whole = storage;
                    whole.remove_children(|child| child.is("conference", ns::OLD_BOOKMARKS));
                    let item = old_item(whole.children(wanted.values().cloned()));
                    host.publish_for(now, &user, item, out, all.one());
                }
            }
            host.sync_bookmarks(now, &user, (wanted, &known), out, Box::new(all.one()));
        });
    }
}

/// XEP-0402 from XEP-0048. Extensions of the item before stay: the old form has no place for them.
fn to_native(old: &Element, before: Option<&Element>) -> Element {
    let is_auto = matches!(old.attr("autojoin"), Some("1" | "true"));
    let texts = ["nick", "password"].into_iter().filter_map(|name| {
        let text = old.content_of(name, ns::OLD_BOOKMARKS)?;
        Some(Element::new(name, ns::BOOKMARKS).text(text.into_owned()))
    });
    let extensions = before.and_then(|before| before.get("extensions", ns::BOOKMARKS)).cloned();
    Element::new("conference", ns::BOOKMARKS)
        .with_opt("name", old.attr("name"))
        .with_opt("autojoin", is_auto.then_some("true"))
        .children(texts)
        .children(extensions)
}

/// And back.
fn to_old(room: &str, native: &Element) -> Option<Element> {
    if !native.is("conference", ns::BOOKMARKS) || Jid::parse(room).is_err() {
        return None;
    }
    let is_auto = matches!(native.attr("autojoin"), Some("1" | "true"));
    let texts = ["nick", "password"].into_iter().filter_map(|name| {
        let text = native.content_of(name, ns::BOOKMARKS)?;
        Some(Element::new(name, ns::OLD_BOOKMARKS).text(text.into_owned()))
    });
    Some(
        Element::new("conference", ns::OLD_BOOKMARKS)
            .with("jid", room)
            .with_opt("name", native.attr("name"))
            .with_opt("autojoin", is_auto.then_some("true"))
            .children(texts),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bookmark_comes_back_as_it_went(
            name in prop::option::of("[ -~]{0,9}"), is_auto in any::<bool>(),
            nick in prop::option::of("[a-z]{1,9}"), password in prop::option::of("[a-z]{1,9}"),
        ) {
            let text = |name: &'static str, text: Option<String>| {
                text.map(|text| Element::new(name, ns::OLD_BOOKMARKS).text(text))
            };
            let old = Element::new("conference", ns::OLD_BOOKMARKS)
                .with("jid", "room@x.org")
                .with_opt("name", name)
                .with_opt("autojoin", is_auto.then_some("true"))
                .children(text("nick", nick))
                .children(text("password", password));
            prop_assert_eq!(to_old("room@x.org", &to_native(&old, None)), Some(old));
        }
    }
}
