//! Looking for rooms by words (XEP-0433). `service` parses the request and answers one without a form; `directory` has the rooms and calls
//! [`result`] once it has read them.

use muc::RoomListing;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, ns};

use super::directory::{Directory, page};
use crate::limits::{ROOM_TEXT, ROOMS_PAGE};

const PARAMS: &str = "urn:xmpp:channel-search:0:search-params";
const BY_USERS: &str = "{urn:xmpp:channel-search:0:order}nusers";
const BY_ADDRESS: &str = "{urn:xmpp:channel-search:0:order}address";
/// The name of XEP-0433 §6.2 for rooms whose addresses are visible to all.
const NOT_ANONYMOUS: &str = "{urn:xmpp:channel-search:0:anonymity}none";
const MUC: &str = "xep-0045";

/// A search and its service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SearchRequest {
    /// In lower case; none: all rooms.
    words: Vec<String>,
    /// The words are looked for in names, in descriptions, and in addresses.
    in_name: bool,
    in_description: bool,
    in_address: bool,
    /// The fewest occupants of a room that is found.
    min_users: u32,
    /// Sorted by address; else by the number of occupants, the most first.
    is_by_address: bool,
    /// False for services without rooms here.
    has_rooms: bool,
}

/// An error with the condition that XEP-0433 has for it.
fn fault(condition: Condition, detail: &'static str, text: &str) -> StanzaError {
    let detail = Element::new(detail, ns::CHANNEL_SEARCH_ERRORS);
    StanzaError { kind: Some("modify"), ..StanzaError::new(condition, text).with(detail) }
}

impl SearchRequest {
    /// Reads the submitted form. Fields that it lacks have the defaults of the form that the service sends.
    pub(super) fn parse(form: &Element) -> Result<SearchRequest, StanzaError> {
        let values = |var: &str| {
            let mut fields = form.elements().filter(|field| field.is("field", ns::DATA));
            let field = fields.find(|field| field.attr("var") == Some(var))?;
            let values = field.elements().filter(|value| value.is("value", ns::DATA));
            Some(values.map(|value| value.content().into_owned()).collect::<Vec<String>>())
        };
        let value = |var: &str| values(var).and_then(|values| values.into_iter().next());
        if form.attr("type") != Some("submit") || value("FORM_TYPE").as_deref() != Some(PARAMS) {
            return Err(StanzaError::new(Condition::BadRequest, "not a form of urn:xmpp:channel-search:0"));
        }
        let flag = |var: &str| match value(var).as_deref() {
            Some("1" | "true") => Ok(Some(true)),
            Some("0" | "false") => Ok(Some(false)),
            None | Some("") => Ok(None),
            Some(_) => Err(StanzaError::new(Condition::BadRequest, "neither true nor false")),
        };
        let is_by_address = match value("key").as_deref() {
            None | Some(BY_USERS) => false,
            Some(BY_ADDRESS) => true,
            Some(_) => {
                return Err(fault(Condition::FeatureNotImplemented, "invalid-sort-key", "no such order"));
            }
        };
        let min_users = value("min_users").filter(|number| !number.is_empty());
        let min_users = min_users.map(|number| number.trim().parse()).transpose();
        // The text has both names for the address.
        let in_address = flag("sinaddress")?.or(flag("sinaddr")?);
        Ok(SearchRequest {
            words: words(value("q"), flag("all")?.unwrap_or(false))?,
            in_name: flag("sinname")?.unwrap_or(true),
            in_description: flag("sindescription")?.unwrap_or(true),
            in_address: in_address.unwrap_or(true),
            min_users: min_users.map_err(|_| Condition::BadRequest)?.unwrap_or(0),
            is_by_address,
            has_rooms: values("types").is_none_or(|types| types.iter().any(|kind| kind == MUC)),
        })
    }

    /// True if the search finds the room. Words are compared in lower case, as parts of words.
    fn finds(&self, address: &str, room: &RoomListing) -> bool {
        let mut text = String::new();
        // All parts together: the words of one search may stand in different parts.
        for (is_looked_at, part) in [
            (self.in_name, &*room.name),
            (self.in_description, &room.description),
            (self.in_address, address),
        ] {
            if is_looked_at {
                text.push_str(&part.to_lowercase());
                text.push('\n');
            }
        }
        self.has_rooms
            && room.occupants >= self.min_users
            && self.words.iter().all(|word| text.contains(&**word))
    }
}

/// XEP-0433 §4.2: the words typed, unless all rooms are wanted.
fn words(typed: Option<String>, wants_all: bool) -> Result<Vec<String>, StanzaError> {
    let typed = typed.filter(|typed| !typed.is_empty());
    let Some(typed) = typed else {
        return if wants_all {
            Ok(Vec::new())
        } else {
            let text = "say what to look for, or that all are wanted";
            let error = fault(Condition::BadRequest, "no-search-conditions", text);
            Err(StanzaError { kind: Some("cancel"), ..error })
        };
    };
    if wants_all {
        let var = |name: &str| Element::new("var", ns::CHANNEL_SEARCH_ERRORS).text(name);
        let detail = Element::new("conflicting-fields", ns::CHANNEL_SEARCH_ERRORS);
        let error = StanzaError::new(Condition::BadRequest, "either some words or all rooms")
            .with(detail.child(var("all")).child(var("q")));
        return Err(StanzaError { kind: Some("modify"), ..error });
    }
    let words: Vec<String> =
        typed.split_whitespace().map(str::to_lowercase).filter(|word| word.chars().count() > 1).collect();
    // Words of one letter are in nearly every room, and each word is looked for in each room.
    if words.is_empty() || typed.len() > ROOM_TEXT {
        let text = "a word to look for has two letters at least, and all of them a thousand at most";
        return Err(fault(Condition::BadRequest, "invalid-search-terms", text));
    }
    Ok(words)
}

/// The answer to a request without a form: the form.
pub(super) fn empty() -> Element {
    Element::new("search", ns::CHANNEL_SEARCH).child(form())
}

/// XEP-0433 §4.2.1, with the default values.
fn form() -> Element {
    let value = |text: &str| Element::new("value", ns::DATA).text(text);
    let field = |var: &'static str, kind: &'static str, label: Option<&'static str>, given: Option<&str>| {
        Element::new("field", ns::DATA)
            .with("var", var)
            .with("type", kind)
            .with_opt("label", label)
            .children(given.map(value))
    };
    let choice = |text: &'static str, label: &'static str| {
        Element::new("option", ns::DATA).with("label", label).child(value(text))
    };
    Element::new("x", ns::DATA)
        .with("type", "form")
        .child(field("FORM_TYPE", "hidden", None, Some(PARAMS)))
        .child(field("q", "text-single", Some("Search for"), None))
        .child(field("all", "boolean", Some("All rooms, whatever is searched for"), Some("false")))
        .child(field("sinname", "boolean", Some("Search in names"), Some("true")))
        .child(field("sindescription", "boolean", Some("Search in descriptions"), Some("true")))
        .child(field("sinaddress", "boolean", Some("Search in addresses"), Some("true")))
        .child(field("min_users", "text-single", Some("Fewest occupants"), Some("0")))
        .child(
            field("types", "list-multi", Some("Kinds of rooms"), Some(MUC))
                .child(choice(MUC, "Multi-user chat")),
        )
        .child(
            field("key", "list-single", Some("Order"), Some(BY_USERS))
                .child(choice(BY_USERS, "Most occupants first"))
                .child(choice(BY_ADDRESS, "Addresses")),
        )
}

/// A room that was found (XEP-0433 §6.2).
fn item(address: &str, room: &RoomListing) -> Element {
    let text = |name: &'static str, text: &str| {
        (!text.is_empty()).then(|| Element::new(name, ns::CHANNEL_SEARCH).text(text))
    };
    let anonymity = if room.is_anonymous { "muc_semianonymous" } else { NOT_ANONYMOUS };
    Element::new("item", ns::CHANNEL_SEARCH)
        .with("address", address)
        .children(text("name", &room.name))
        .children(text("description", &room.description))
        .children(text("language", &room.lang))
        .children(text("nusers", &room.occupants.to_string()))
        .children(text("service-type", MUC))
        .children(text("is-open", if room.is_open { "true" } else { "false" }))
        .children(text("anonymity-mode", anonymity))
}

/// The page of the rooms that were found.
pub(super) fn result(
    directory: &Directory,
    wanted: &SearchRequest,
    set: Option<&Element>,
) -> Result<Element, StanzaError> {
    let found = directory.iter().filter(|(address, room)| wanted.finds(address, room));
    let mut found: Vec<(&str, &RoomListing)> = found.map(|(address, room)| (&**address, room)).collect();
    // A stable sort over the order by address: equal rooms keep their places from page to page.
    if !wanted.is_by_address {
        found.sort_by_key(|(_, room)| std::cmp::Reverse(room.occupants));
    }
    let ids: Vec<&str> = found.iter().map(|(address, _)| *address).collect();
    let (range, told) = page(&ids, set, ROOMS_PAGE)?;
    let items = found[range].iter().map(|(address, room)| item(address, room));
    Ok(Element::new("result", ns::CHANNEL_SEARCH).children(items).child(told))
}
