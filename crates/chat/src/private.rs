//! Private data (XEP-0049), and bookmarks that are the same there (XEP-0048) and as items (XEP-0402).
//!
//! Private data are kept as items of nodes that no request of publish-subscribe reaches. Bookmarks have three
//! forms: private data, one item with all of them, and an item for each room. The items for the rooms are
//! what counts; the other two are written from them, and a change of either is written to the items (XEP-0402
//! §5), so that clients of any age see the same rooms.
//!
//! A request is a chain of [`PrivateEffect`]s, each answered by the store, and ends with one answer. Rooms
//! are compared by their bare addresses. Parts of bookmarks that only one form has stay in that form.

use std::collections::BTreeMap;

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::change_queue::not_written;
use super::effect::{Change, Load, StoreFailure};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::pubsub::{Publication, change_of, items_of, whole};
use super::store_requests::StoreRequests;
use super::write_group::{WriteContinuation, WriteGroup};
use super::{Host, ItemPage, ItemQuery, Outbox, imported};
use crate::{limits, outgoing};

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

/// The rooms of old bookmarks by their addresses: elements `<conference/>`.
type LegacyBookmarks = BTreeMap<Box<str>, Element>;

/// The rooms of old bookmarks by their addresses. One without an address is refused: it would vanish on its way through the
/// items.
fn old_rooms(storage: &Element) -> Result<LegacyBookmarks, StanzaError> {
    let rooms = storage.elements().filter(|child| child.is("conference", ns::OLD_BOOKMARKS));
    let with_address = rooms.map(|room| {
        let jid = room.attr("jid").and_then(|jid| Bare::parse(jid).ok());
        let bad = || StanzaError::new(Condition::BadRequest, "a bookmark's jid is no room's address");
        Ok((jid.ok_or_else(bad)?.as_str().into(), room.clone()))
    });
    with_address.collect()
}

/// The one item of the old node, with all bookmarks in it.
fn old_item(storage: Element) -> Publication {
    Publication { node: ns::OLD_BOOKMARKS, id: "current".into(), payload: storage, options: OLD_NODE }
}

/// Checks a request for private data; a [`PrivateRequest`] goes on with it.
fn private(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let user = iq.from.bare();
    let (Some(data), 1) = (iq.payload.first(), iq.payload.elements().count()) else {
        return IqReply::Error(Condition::BadRequest.into());
    };
    if !is_possible(data) {
        let text = "private data of that namespace is not possible";
        return IqReply::Error(StanzaError::new(Condition::NotAcceptable, text));
    }
    if view.accounts.is_anonymous(&user) {
        return IqReply::Error(StanzaError::new(Condition::NotAllowed, "anonymous accounts store nothing"));
    }
    let is_too_large = iq.is_set && data.to_bytes(ns::CLIENT).len() > limits::ITEM;
    if is_too_large {
        return IqReply::Error(StanzaError::new(Condition::NotAcceptable, "that is too much data"));
    }
    let request = PrivateRequest { user, iq: iq.iq.clone(), data: data.clone() };
    let effect = if iq.is_set { request.set(view.now) } else { Ok(PrivateEffect::ReadData(request)) };
    match effect {
        Ok(effect) => IqReply::Perform(IqEffect::Private(effect)),
        Err(error) => IqReply::Error(error),
    }
}

/// A client's request: its iq and the element in it. It is told of the store's replies and returns the next effect.
pub(super) struct PrivateRequest {
    user: Bare,
    iq: Element,
    /// The only child of the `<query/>`: the data to set, or an empty element that names those to read.
    data: Element,
}

/// Everything that a [`PrivateRequest`] asks of the host.
pub(super) enum PrivateEffect {
    /// Read the stored data; answered by `handle_data`.
    ReadData(PrivateRequest),
    /// Read the rooms of the native bookmarks for a client that reads its old ones; answered by `handle_rooms`.
    ReadRooms(PrivateRequest, Element),
    /// Read the native bookmarks for a client that sets its old ones; the write follows.
    ReadKnown(PrivateRequest, LegacyBookmarks),
    /// Write the data; answered by `handle_written`. With a change of bookmarks that follows it.
    Write(PrivateRequest, Change, Option<BookmarksChange>),
    /// Write both public forms of bookmarks after the private data. The answer comes when all of it is on disk: a client that has it reads its
    /// bookmarks as it set them.
    Publish(PrivateRequest, BookmarksChange),
    /// Answer the request.
    Answer(PrivateRequest, Result<Option<Element>, StanzaError>),
}

impl PrivateRequest {
    /// The first effect of a request that sets data. Bookmarks are compared with those that are known before they are written.
    fn set(self, now: Instant) -> Result<PrivateEffect, StanzaError> {
        if self.data.is("storage", ns::OLD_BOOKMARKS) {
            let wanted = old_rooms(&self.data)?;
            return Ok(PrivateEffect::ReadKnown(self, wanted));
        }
        let change = self.change(now);
        Ok(PrivateEffect::Write(self, change, None))
    }

    /// The write of the data under their namespace and name.
    fn change(&self, now: Instant) -> Change {
        let (node, id) = place(&self.data);
        let item = Some(Box::new(self.data.clone()));
        Change::Item { owner: self.user.clone(), node, id, item, at: now, keep: limits::PRIVATE_NAMES }
    }

    /// The stored data were read. Old bookmarks are completed by the rooms of the native ones first.
    fn handle_data(self, result: Result<ItemPage, StanzaError>) -> PrivateEffect {
        let row = match result {
            Ok(page) => page.items.into_iter().next(),
            Err(error) => return PrivateEffect::Answer(self, Err(error)),
        };
        // A client that has stored nothing gets its own query back (XEP-0049 §2.3).
        let stored = row.map_or_else(|| self.data.clone(), |(_, _, item)| item);
        if stored.is("storage", ns::OLD_BOOKMARKS) {
            return PrivateEffect::ReadRooms(self, stored);
        }
        PrivateEffect::Answer(self, Ok(Some(query(stored))))
    }

    /// Rooms are the items' to tell, the rest is as it was stored.
    fn handle_rooms(self, stored: Element, rooms: Result<Vec<KnownRoom>, StanzaError>) -> PrivateEffect {
        let answer = rooms.map(|rows| Some(query(with_rooms(stored, &rows))));
        PrivateEffect::Answer(self, answer)
    }

    /// The native bookmarks were read. A client sets all of its old ones at once, so rooms that are missing there are
    /// taken back.
    fn handle_known(
        self,
        now: Instant,
        wanted: LegacyBookmarks,
        known: Result<Vec<KnownRoom>, StanzaError>,
    ) -> PrivateEffect {
        match known {
            Ok(known) => {
                let change = self.change(now);
                PrivateEffect::Write(self, change, Some(BookmarksChange::new(wanted, &known)))
            }
            Err(error) => PrivateEffect::Answer(self, Err(error)),
        }
    }

    /// The data were written, or not.
    fn handle_written(
        self,
        bookmarks: Option<BookmarksChange>,
        result: Result<(), StoreFailure>,
    ) -> PrivateEffect {
        match (result, bookmarks) {
            (Ok(()), Some(bookmarks)) => PrivateEffect::Publish(self, bookmarks),
            (result, _) => PrivateEffect::Answer(self, result.map(|()| None).map_err(not_written)),
        }
    }
}

/// XEP-0402 §5: changed rooms are published, missing ones retracted.
pub(super) struct BookmarksChange {
    changed: Vec<Publication>,
    /// Rooms whose native bookmarks are retracted.
    gone: Vec<Box<str>>,
}

impl BookmarksChange {
    fn new(wanted: LegacyBookmarks, known: &[KnownRoom]) -> BookmarksChange {
        // A client may have written a room's address in another form. Items that old clients do not see stay as they are.
        let rooms = known.iter().filter_map(|(id, _, item)| {
            let native = item.first()?;
            to_old(id, native)?;
            Some((room_of(id)?, id, native))
        });
        let mut by_room: BTreeMap<Box<str>, (&Box<str>, &Element)> = BTreeMap::new();
        let mut gone = Vec::new();
        for (room, id, native) in rooms {
            let is_first = wanted.contains_key(&room) && !by_room.contains_key(&room);
            if is_first {
                by_room.insert(room, (id, native));
            } else {
                gone.push(id.clone());
            }
        }
        let changed = wanted.into_iter().filter_map(|(room, old)| {
            let before = by_room.get(&room);
            let payload = to_native(&old, before.map(|(_, native)| *native));
            // A room that has not changed is not published again: each publication notifies all clients of the account.
            let is_new = before.is_none_or(|(_, native)| **native != payload);
            let id = before.map_or(room, |(id, _)| (*id).clone());
            is_new.then_some(Publication { node: ns::BOOKMARKS, id, payload, options: BOOKMARKS_NODE })
        });
        BookmarksChange { changed: changed.collect(), gone }
    }
}

/// The old bookmarks with the rooms of the native ones instead of their own.
fn with_rooms(mut storage: Element, rooms: &[KnownRoom]) -> Element {
    storage.remove_children(|child| child.is("conference", ns::OLD_BOOKMARKS));
    storage.children(rooms.iter().filter_map(|(room, _, item)| to_old(room, item.first()?)))
}

/// XEP-0049 §3: in a namespace that is no stanza's. Those of XMPP itself (`jabber:`) are kept by their own
/// features.
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
            changes.extend(publication.changes(owner, at).map(change_of));
        }
    }
    Ok(changes)
}

/// The node and the item of private data in the store: one item for each namespace and name.
fn place(data: &Element) -> (Box<str>, Box<str>) {
    (format!("private:{}", data.ns()).into(), data.name().into())
}

/// True if a node's item is private data; the features' own data beside it are not.
pub(crate) fn is_private(node: &str, id: &str, data: &Element) -> bool {
    is_possible(data) && place(data) == (node.into(), id.into())
}

/// All items of a node, at most as many as one read may load.
fn all_items(owner: &Bare, node: &str) -> Load {
    Load::Items { owner: owner.clone(), node: node.into(), query: Box::new(ItemQuery::all()) }
}

/// The payload of an answer.
fn query(data: Element) -> Element {
    Element::new("query", ns::PRIVATE).child(data)
}

/// Performs an effect of a [`PrivateRequest`]; the store's reply goes back into it.
pub(super) fn perform(host: &mut Host, now: Instant, effect: PrivateEffect, out: &mut Outbox) {
    match effect {
        PrivateEffect::ReadData(request) => {
            let (node, name) = place(&request.data);
            let query = Box::new(ItemQuery::of_id(&name));
            let load = Load::Items { owner: request.user.clone(), node, query };
            host.store.load(load, out, move |host, now, result, out| {
                perform(host, now, request.handle_data(items_of(result)), out);
            });
        }
        PrivateEffect::ReadRooms(request, stored) => {
            let load = all_items(&request.user, ns::BOOKMARKS);
            host.store.load(load, out, move |host, now, result, out| {
                perform(host, now, request.handle_rooms(stored, whole(result)), out);
            });
        }
        PrivateEffect::ReadKnown(request, wanted) => {
            let load = all_items(&request.user, ns::BOOKMARKS);
            host.store.load(load, out, move |host, _, result, out| {
                perform(host, now, request.handle_known(now, wanted, whole(result)), out);
            });
        }
        PrivateEffect::Write(request, change, bookmarks) => {
            host.store.change(change, out, move |host, now, result, out| {
                perform(host, now, request.handle_written(bookmarks, result), out);
            });
        }
        PrivateEffect::Publish(PrivateRequest { user, iq, data }, bookmarks) => {
            // That node first: a publication that creates it would make all others wait.
            host.publish_for(now, &user.clone(), old_item(data), out, move |host, now, published, out| {
                // Items are what clients read: they are written even where the old node is not.
                let both: WriteContinuation = Box::new(move |_, _, done, out| {
                    outgoing::answer(&iq, published.and(done).map(|()| None), out);
                });
                sync_bookmarks(host, now, &user, bookmarks, out, both);
            });
        }
        PrivateEffect::Answer(request, result) => outgoing::answer(&request.iq, result, out),
    }
}

/// Publishes and retracts the rooms of a change. `then` runs when all is on disk, or with the first error,
/// and also when there is nothing to do.
fn sync_bookmarks(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    BookmarksChange { mut changed, gone }: BookmarksChange,
    out: &mut Outbox,
    then: WriteContinuation,
) {
    let all = WriteGroup::new(then);
    if let Some(first) = changed.pop() {
        let (owner, all) = (user.clone(), all.clone());
        // The first makes the node, for which all others would have to wait.
        let one = all.one();
        host.publish_for(now, user, first, out, move |host, now, result, out| {
            if result.is_ok() {
                for publication in changed {
                    host.publish_for(now, &owner, publication, out, all.one());
                }
            }
            // Rooms that were not published stay as they were: the items count.
            one(host, now, result, out);
        });
    }
    // Rooms that a client took away go in any case, also where a new one could not be published.
    if !gone.is_empty() {
        host.retract_for(now, user, (ns::BOOKMARKS, gone), out, all.one());
    }
    // Where nothing had to be written, it is done.
    all.one()(host, now, Ok(()), out);
}

/// A client has published to one of the nodes, or taken something back: the other follows (XEP-0402 §5), and `done` runs
/// when it has.
///
/// # Errors
/// `done`, which has not run: there is nothing to write.
pub(super) fn mirror_publication<D>(
    store: &mut StoreRequests,
    user: &Bare,
    node: &str,
    (payload, is_new): (Option<&Element>, bool),
    out: &mut Outbox,
    done: D,
) -> Result<(), D>
where
    D: FnOnce(&mut Outbox) + 'static,
{
    let written = |done: D| Box::new(move |_: &mut Host, _, _, out: &mut Outbox| done(out));
    match payload {
        // Also when an item was retracted: the old node has what is left.
        _ if node == ns::BOOKMARKS => mirror_bookmarks(store, user, out, written(done)),
        Some(storage) if node == ns::OLD_BOOKMARKS && storage.is("storage", ns::OLD_BOOKMARKS) => {
            // The item itself is on disk; bookmarks that are none stay in it.
            let Ok(rooms) = old_rooms(storage) else { return Err(done) };
            let published = PublishedBookmarks { storage: storage.clone(), rooms, is_new };
            old_bookmarks_published(store, user, published, out, written(done));
        }
        _ => return Err(done),
    }
    Ok(())
}

/// Writes the rooms of the items into the item of the old node, which keeps what is no room.
fn mirror_bookmarks(store: &mut StoreRequests, user: &Bare, out: &mut Outbox, then: WriteContinuation) {
    let items = |node: &str| all_items(user, node);
    let (rooms, old, user) = (items(ns::BOOKMARKS), items(ns::OLD_BOOKMARKS), user.clone());
    store.load(rooms, out, move |host, _, rooms, out| {
        host.store.load(old, out, move |host, now, old, out| {
            let (rooms, mut old) = match (whole(rooms), whole(old)) {
                (Ok(rooms), Ok(old)) => (rooms, old),
                (Err(error), _) | (_, Err(error)) => return then(host, now, Err(error), out),
            };
            let old = old.pop().and_then(|(_, _, item)| item.first().cloned());
            let storage = old.unwrap_or_else(|| Element::new("storage", ns::OLD_BOOKMARKS));
            host.publish_for(now, &user, old_item(with_rooms(storage, &rooms)), out, then);
        });
    });
}

/// An item of the old node, as a client published it.
struct PublishedBookmarks {
    storage: Element,
    rooms: LegacyBookmarks,
    /// The node was made for it.
    is_new: bool,
}

/// Writes the rooms of the item of the old node into items. A client that finds no old node knows nothing of the rooms that there are: it takes
/// none of them away.
fn old_bookmarks_published(
    store: &mut StoreRequests,
    user: &Bare,
    published: PublishedBookmarks,
    out: &mut Outbox,
    then: WriteContinuation,
) {
    let PublishedBookmarks { storage, rooms: mut wanted, is_new } = published;
    let user = user.clone();
    let load = all_items(&user, ns::BOOKMARKS);
    store.load(load, out, move |host, now, result, out| {
        let known = match whole(result) {
            Ok(known) => known,
            Err(error) => return then(host, now, Err(error), out),
        };
        let all = WriteGroup::new(then);
        if is_new {
            let before = wanted.len();
            for (id, _, item) in &known {
                let old = item.first().and_then(|native| to_old(id, native));
                if let (Some(old), Some(room)) = (old, room_of(id)) {
                    wanted.entry(room).or_insert(old);
                }
            }
            if wanted.len() > before {
                // The union of the client's rooms and those that it did not know goes back into the old node.
                let mut whole = storage;
                whole.remove_children(|child| child.is("conference", ns::OLD_BOOKMARKS));
                let item = old_item(whole.children(wanted.values().cloned()));
                host.publish_for(now, &user, item, out, all.one());
            }
        }
        sync_bookmarks(host, now, &user, BookmarksChange::new(wanted, &known), out, Box::new(all.one()));
    });
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

/// The address of the room that the item with this id is about, in its normal form. `None`: it is no room's.
fn room_of(id: &str) -> Option<Box<str>> {
    Some(Bare::parse(id).ok()?.as_str().into())
}

/// XEP-0048 from XEP-0402; `None`: the item is no bookmark of a room.
fn to_old(room: &str, native: &Element) -> Option<Element> {
    if !native.is("conference", ns::BOOKMARKS) || Bare::parse(room).is_err() {
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
