//! Questions to archives (XEP-0313 §4), in pages (XEP-0059).
//!
//! A query becomes a [`MamQuery`] for the store; the page that comes back is cut to what one answer may have, sent as messages,
//! and followed by the answer to the query. A session reads one page at a time: the next waits until the client has read this
//! one, so an archive cannot fill the memory of a client that does not read.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::super::account_memory::AccountMemory;
use super::super::effect::{Load, MamPage, MamQuery, StoreFailure, StoreReply};
use super::super::session::TooManyQuestions;
use super::super::store_requests::StoreRequests;
use super::super::{Host, Outbox, change_queue, sm};
use crate::{connection, limits, offline, outgoing};

/// The field of a form that has the words of a search (XEP-0431 §3.1).
const FULL_TEXT: &str = "{urn:xmpp:fulltext:0}fulltext";

/// A query of an archive, and the form of its answer.
struct ArchiveRequest {
    query: MamQuery,
    /// The `queryid`, which the results repeat.
    id: Option<Box<str>>,
    /// The page is sent with its newest message first (`<flip-page/>`, XEP-0313 §4.3.4).
    is_flipped: bool,
    /// `after-id` or `before-id` is among the filters.
    has_bounds: bool,
}

/// A fault of the query, with a text for its author.
fn bad(text: &str) -> StanzaError {
    StanzaError::new(Condition::BadRequest, text)
}

impl ArchiveRequest {
    /// Reads a `<query/>` of type `set`: the page, then the filters of its form, which may name the bounds of the page
    /// once more.
    fn parse(payload: &Element) -> Result<ArchiveRequest, StanzaError> {
        let mut query =
            MamQuery { max: limits::ARCHIVE_PAGE, bytes: limits::ARCHIVE_PAGE_BYTES, ..MamQuery::default() };
        if let Some(set) = payload.get("set", ns::RSM) {
            read_page(set, &mut query)?;
        }
        let form = payload.get("x", ns::DATA);
        let has_bounds = form.map_or(Ok(false), |form| read_form(form, &mut query))?;
        // Messages that are named by their ids come all at once, whatever the size of a page is.
        if !query.ids.is_empty() {
            query.max = query.max.max(query.ids.len() as u32);
        }
        let is_flipped = payload.get("flip-page", ns::MAM).is_some();
        Ok(ArchiveRequest { query, id: payload.attr("queryid").map(Box::from), is_flipped, has_bounds })
    }
}

/// The page that the client asks for (XEP-0059 §2): its size, and the ids between which it lies.
fn read_page(set: &Element, query: &mut MamQuery) -> Result<(), StanzaError> {
    if set.get("index", ns::RSM).is_some() {
        return Err(StanzaError::new(
            Condition::FeatureNotImplemented,
            "pages are named by ids, not by an index",
        ));
    }
    if let Some(max) = set.content_of("max", ns::RSM) {
        let max: u32 = max.trim().parse().map_err(|_| bad("max is a number"))?;
        // XEP-0059 §2.1: a page may be smaller than asked for; the client sees by `complete` that there is more.
        query.max = max.min(limits::ARCHIVE_PAGE_MAX);
    }
    query.after = set.content_of("after", ns::RSM).filter(|id| !id.is_empty()).map(|id| (&*id).into());
    if let Some(before) = set.content_of("before", ns::RSM) {
        // XEP-0059 §2.3 and §2.5: `before` pages backwards; an empty one is the last page.
        query.from_end = true;
        query.before = (!before.is_empty()).then(|| (&*before).into());
    }
    Ok(())
}

/// The filters of a query (XEP-0313 §4.1.1 to §4.1.5); a field that is not known is an error. True: the result is bounded by ids.
fn read_form(form: &Element, query: &mut MamQuery) -> Result<bool, StanzaError> {
    let mut has_bounds = false;
    let when = |text: &str| xmpp::time::parse(text).ok_or_else(|| bad("not a time of XEP-0082"));
    for field in form.elements().filter(|field| field.is("field", ns::DATA)) {
        let mut values = field.elements().filter(|value| value.is("value", ns::DATA)).map(Element::content);
        if field.attr("var") == Some("ids") {
            query.ids = values.map(|value| (&*value).into()).collect();
            if query.ids.len() > limits::ARCHIVE_IDS {
                return Err(StanzaError::new(Condition::PolicyViolation, "too many ids in one question"));
            }
            continue;
        }
        let Some(value) = values.next() else { continue };
        has_bounds |= matches!(field.attr("var"), Some("after-id" | "before-id"));
        match field.attr("var") {
            Some("FORM_TYPE") if value == ns::MAM => {}
            // A query of another version would be answered with results that its client does not understand.
            Some("FORM_TYPE") => return Err(bad("another FORM_TYPE than urn:xmpp:mam:2")),
            Some("with") => query.with = Some(Jid::parse(&value).map_err(|_| Condition::JidMalformed)?),
            Some("start") => query.since = Some(when(&value)?),
            Some("end") => query.until = Some(when(&value)?),
            Some(FULL_TEXT) => query.text = read_words(&value)?,
            // Ids sort by time: of two bounds the narrower holds.
            Some("after-id") => query.after = query.after.take().max(Some((&*value).into())),
            Some("before-id") => {
                let before: Box<str> = (&*value).into();
                query.before = Some(query.before.take().map_or(before.clone(), |other| other.min(before)));
            }
            _ => {
                // XEP-0313 §4.1.5: to ignore a filter would return messages that the client does not expect.
                let text = "a field that this archive cannot be asked by";
                return Err(StanzaError::new(Condition::FeatureNotImplemented, text));
            }
        }
    }
    Ok(has_bounds)
}

/// XEP-0431 §2.2: a text that is empty is no filter.
fn read_words(value: &str) -> Result<Option<Box<str>>, StanzaError> {
    // Each word is one more comparison with every message of the archive.
    let is_beyond = value.len() > limits::SEARCH_BYTES;
    if is_beyond || value.split_whitespace().count() > limits::SEARCH_WORDS {
        return Err(StanzaError::new(Condition::PolicyViolation, "too many words in one search"));
    }
    Ok(Some(value.trim()).filter(|text| !text.is_empty()).map(Into::into))
}

/// XEP-0122 §3.2.1: values of a list that has no options may be any. XEP-0313 §4.1.4 has it so.
fn any_value() -> Element {
    Element::new("validate", ns::VALIDATE)
        .with("datatype", "xs:string")
        .child(Element::new("open", ns::VALIDATE))
}

/// The answer to a query of type `get`: the filters that this archive has (XEP-0313 §4.1.6). `read_form`
/// reads the same fields.
fn form() -> Element {
    let field = |var: &'static str, kind: &'static str| {
        Element::new("field", ns::DATA).with("var", var).with("type", kind)
    };
    let form_type = field("FORM_TYPE", "hidden").child(Element::new("value", ns::DATA).text(ns::MAM));
    let texts = ["start", "end", "before-id", "after-id", FULL_TEXT].map(|var| field(var, "text-single"));
    let form = Element::new("x", ns::DATA)
        .with("type", "form")
        .child(form_type)
        .child(field("with", "jid-single"))
        .children(texts)
        .child(field("ids", "list-multi").child(any_value()));
    Element::new("query", ns::MAM).child(form)
}

/// One result: the archived message, forwarded with its time (XEP-0313 §4.2 and XEP-0297).
fn told(
    owner: &Bare,
    to: &str,
    query: Option<&str>,
    (id, at, message): &(Box<str>, Instant, Element),
) -> Element {
    let delay = Element::new("delay", ns::DELAY).with("stamp", xmpp::time::stamp(*at));
    let forwarded = Element::new("forwarded", ns::FORWARD).child(delay).child(message.clone());
    let result = Element::new("result", ns::MAM).with_opt("queryid", query).with("id", id.clone());
    Element::new("message", ns::CLIENT)
        .with("from", owner.as_str())
        .with("to", to)
        .child(result.child(forwarded))
}

/// `<fin/>`: the end of a page (XEP-0313 §4.3), with the ids by which the client asks for the next one. A search for words that ended at
/// its bounds goes on beyond the last message that it looked at, whether that one is in the page or not.
fn fin(page: &MamPage, from_end: bool) -> Element {
    let text = |name: &'static str, text: &str| Element::new(name, ns::RSM).text(text);
    let (mut first, mut last) =
        (page.stanzas.first().map(|(id, ..)| id), page.stanzas.last().map(|(id, ..)| id));
    if let Some(place) = &page.searched_to {
        let (end, other) = if from_end { (&mut first, &mut last) } else { (&mut last, &mut first) };
        *end = Some(place);
        // XEP-0059 §2.2: a page has both.
        other.get_or_insert(place);
    }
    let first = first.map(|id| text("first", id));
    let last = last.map(|id| text("last", id));
    let count = page.total.map(|total| text("count", &total.to_string()));
    let set = Element::new("set", ns::RSM).children(first).children(last).children(count);
    let fin = Element::new("fin", ns::MAM).with_opt("complete", page.is_complete.then_some("true"));
    fin.child(set)
}

/// Shortens a page to the size that one answer may have; a page of the end loses its begin.
fn shorten(page: &mut MamPage, from_end: bool) {
    let mut room = limits::ARCHIVE_PAGE_BYTES;
    let mut fits = |(_, _, stanza): &&(Box<str>, Instant, Element)| {
        let weight = sm::weight(stanza);
        let fits = weight <= room;
        room = room.saturating_sub(weight);
        fits
    };
    let all = page.stanzas.len();
    let stanzas = &mut page.stanzas;
    let count = if from_end {
        stanzas.iter().rev().take_while(&mut fits).count()
    } else {
        stanzas.iter().take_while(&mut fits).count()
    };
    // One that is too large alone is told alone.
    let count = count.max(1).min(all);
    if count < all {
        page.is_complete = false;
        // The rest has to be asked for from the last message that is sent, not from where the search ended.
        page.searched_to = None;
        if from_end {
            stanzas.drain(..all - count);
        } else {
            stanzas.truncate(count);
        }
    }
}

/// Answers a `<query/>` or `<metadata/>` of a client that may read the archive. The results are messages
/// from the owner; the answer follows them.
pub(crate) fn handle_query(
    (accounts, store): (&mut AccountMemory, &mut StoreRequests),
    owner: &Bare,
    iq: &Element,
    out: &mut Outbox,
) {
    let is_set = iq.attr("type") == Some("set");
    let Some(payload) = iq.first() else { return outgoing::refuse(iq, &Condition::BadRequest.into(), out) };
    match (payload.name(), is_set) {
        ("query", false) => outgoing::answer(iq, Ok(Some(form())), out),
        ("query", true) => match ArchiveRequest::parse(payload) {
            Ok(question) => {
                // One page at a time: the next one is read when its client has read this one.
                let key = Jid::parse(iq.attr("from").unwrap_or_default()).ok();
                let key = key.and_then(|from| accounts.session_of(&from));
                let session = key.and_then(|key| accounts.sessions.get_mut(key));
                match session.map_or(Ok(true), |session| session.begin_page(owner, iq)) {
                    Ok(true) => ask(store, (owner, key), iq.clone(), question, out),
                    Ok(false) => {}
                    Err(TooManyQuestions) => {
                        outgoing::refuse(iq, &Condition::ResourceConstraint.into(), out);
                    }
                }
            }
            Err(error) => outgoing::refuse(iq, &error, out),
        },
        ("metadata", false) => send_metadata(store, owner, iq.clone(), out),
        _ => outgoing::refuse(iq, &Condition::BadRequest.into(), out),
    }
}

/// Reads a page and sends it: the messages first, then the answer. Whatever the store replies, the session's page ends, so that the next query
/// that waits begins. `key`: of the session that asks, when it is one of this host's.
fn ask(
    store: &mut StoreRequests,
    (owner, key): (&Bare, Option<Key>),
    iq: Element,
    question: ArchiveRequest,
    out: &mut Outbox,
) {
    let ArchiveRequest { query, id, is_flipped, has_bounds } = question;
    let from_end = query.from_end;
    let owner = owner.clone();
    let load = Load::Archive { owner: owner.clone(), query: Box::new(query) };
    store.load(load, out, move |host, now, loaded, out| {
        match loaded {
            Ok(StoreReply::Page(page)) if page.is_unknown => {
                outgoing::refuse(&iq, &Condition::ItemNotFound.into(), out);
            }
            Ok(StoreReply::Page(mut page)) => {
                shorten(&mut page, from_end);
                // XEP-0059 §2.6: a count is of the whole result. The store counts without regard to ids.
                page.total = page.total.filter(|_| !has_bounds);
                let fin = fin(&page, from_end);
                // The page is flipped once it is complete: first and last are those of the page before (XEP-0313
                // §4.3.4).
                if is_flipped {
                    page.stanzas.reverse();
                }
                let to = iq.attr("from").and_then(|from| Jid::parse(from).ok());
                // A session of this host gets the messages past the router, so that the answer, which follows, cannot
                // overtake them.
                let own = to.as_ref().filter(|to| to.bare() == owner);
                let own = own.and_then(|to| host.accounts.session_of(to));
                for stanza in to.iter().flat_map(|to| messages_of(&page, &owner, to, id.as_deref())) {
                    match own {
                        Some(key) => host.deliver(now, &[key], stanza, out),
                        None => outgoing::send(stanza, out),
                    }
                }
                outgoing::answer(&iq, Ok(Some(fin)), out);
            }
            Ok(_) => outgoing::refuse(&iq, &change_queue::not_written(StoreFailure::Unavailable), out),
            Err(error) => outgoing::refuse(&iq, &change_queue::not_written(error), out),
        }
        let session = key.and_then(|key| Some((key, host.accounts.sessions.get_mut(key)?)));
        if let Some((key, session)) = session {
            session.end_page();
            let parts = (&mut host.accounts, &mut host.store, &mut host.offline);
            if let Some((user, effect)) = connection::send_backlog(parts, now, key, out) {
                offline::perform(host, now, &user, effect, out);
            }
        }
    });
}

/// The messages that bring a page to its client.
fn messages_of<'a>(
    page: &'a MamPage,
    owner: &'a Bare,
    to: &'a Jid,
    query: Option<&'a str>,
) -> impl Iterator<Item = Element> + 'a {
    page.stanzas.iter().map(move |stanza| told(owner, to.as_str(), query, stanza))
}

/// Answers a request for the ends of the archive (`<metadata/>`).
fn send_metadata(store: &mut StoreRequests, owner: &Bare, iq: Element, out: &mut Outbox) {
    read_ends(store, owner, out, move |_, _, metadata, out| match metadata {
        Ok(metadata) => outgoing::answer(&iq, Ok(Some(metadata)), out),
        Err(error) => outgoing::refuse(&iq, &change_queue::not_written(error), out),
    });
}

/// The ids and times of the first and the last message (XEP-0313 §5), by two reads of one message each.
pub(crate) fn read_ends(
    store: &mut StoreRequests,
    owner: &Bare,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Instant, Result<Element, StoreFailure>, &mut Outbox) + 'static,
) {
    let end = |from_end: bool| Box::new(MamQuery { max: 1, from_end, ..MamQuery::default() });
    let first = Load::Archive { owner: owner.clone(), query: end(false) };
    let last = Load::Archive { owner: owner.clone(), query: end(true) };
    store.load(first, out, move |host, _, first, out| {
        host.store.load(last, out, move |host, now, last, out| {
            let (Ok(StoreReply::Page(first)), Ok(StoreReply::Page(last))) = (first, last) else {
                return then(host, now, Err(StoreFailure::Unavailable), out);
            };
            let edge = |name: &'static str, page: &MamPage| {
                let (id, at, _) = page.stanzas.first()?;
                let edge = Element::new(name, ns::MAM).with("id", id.clone());
                Some(edge.with("timestamp", xmpp::time::stamp(*at)))
            };
            let metadata = Element::new("metadata", ns::MAM);
            let metadata = metadata.children(edge("start", &first)).children(edge("end", &last));
            then(host, now, Ok(metadata), out);
        });
    });
}
