//! The service that has the rooms: its identity, and its list of rooms (XEP-0045 §6.1, §6.2, paged by
//! XEP-0059).
//!
//! The service is an address without a local part, as `conference.example.org`. All its requests are reads:
//! rooms are made and configured at their own addresses. A host has only some rooms, so lists come from
//! `directory`, which asks all hosts and the store.

use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::{Element, Jid, ns};

use super::directory::{Directory, DirectoryRequest, page};
use super::rooms::{Rooms, RoomsEffect};
use super::search::{self, SearchRequest};
use crate::disco::{feature, identity};
use crate::limits::ROOMS_PAGE;

impl Rooms {
    /// A stanza for the service itself. Requests for rooms go on to the directory, which may have to read
    /// them; others are answered at once. `None`: nothing is to be answered, as for presence and for answers.
    pub(super) fn handle_service_stanza(
        &mut self,
        now: Instant,
        stanza: &Element,
        to: &Jid,
    ) -> Option<RoomsEffect> {
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Message) => return refused(stanza, Condition::ServiceUnavailable),
            Some(StanzaKind::Iq) if matches!(stanza.attr("type"), Some("get" | "set")) => {}
            _ => return None,
        }
        let is_get = stanza.attr("type") == Some("get");
        // RFC 6120 §8.2.3: a request has exactly one child.
        let (Some(payload), 1) = (stanza.first(), stanza.elements().count()) else {
            return refused(stanza, Condition::BadRequest);
        };
        let has_node = payload.attr("node").is_some();
        match (payload.name(), payload.ns()) {
            // XEP-0030 §7: the service has no nodes of service discovery.
            ("query", ns::DISCO_INFO | ns::DISCO_ITEMS) if is_get && has_node => {
                refused(stanza, Condition::ItemNotFound)
            }
            ("query", ns::DISCO_INFO) if is_get => {
                Some(RoomsEffect::Answer(stanza.clone(), Ok(Some(service_info()))))
            }
            ("query", ns::DISCO_ITEMS) if is_get => {
                let request = DirectoryRequest::list(stanza, payload);
                self.handle_directory_request(now, to.domain(), request)
            }
            ("search", ns::CHANNEL_SEARCH) if is_get => {
                let Some(form) = payload.get("x", ns::DATA) else {
                    return Some(RoomsEffect::Answer(stanza.clone(), Ok(Some(search::empty()))));
                };
                match SearchRequest::parse(form) {
                    Ok(search) => {
                        let request = DirectoryRequest::search(stanza, payload, search);
                        self.handle_directory_request(now, to.domain(), request)
                    }
                    Err(error) => Some(RoomsEffect::Refuse(stanza.clone(), error)),
                }
            }
            ("ping", ns::PING) if is_get => Some(RoomsEffect::Answer(stanza.clone(), Ok(None))),
            _ => refused(stanza, Condition::ServiceUnavailable),
        }
    }
}

fn refused(stanza: &Element, condition: Condition) -> Option<RoomsEffect> {
    Some(RoomsEffect::Refuse(stanza.clone(), condition.into()))
}

fn service_info() -> Element {
    let features =
        [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::MUC, ns::RSM, ns::PING, ns::OCCUPANT_ID, ns::CHANNEL_SEARCH];
    let info =
        Element::new("query", ns::DISCO_INFO).child(identity("conference", "text").with("name", "Rooms"));
    info.children(features.map(feature))
}

/// One page of the public rooms, as items of service discovery, and its position when a page was asked for.
pub(super) fn listed(directory: &Directory, set: Option<&Element>) -> Result<Element, Condition> {
    let all: Vec<(&str, &str)> = directory.iter().map(|(address, room)| (&**address, &*room.name)).collect();
    let ids: Vec<&str> = all.iter().map(|(address, _)| *address).collect();
    let (range, told) = page(&ids, set, ROOMS_PAGE)?;
    let some = &all[range];
    let items = some.iter().map(|(address, name)| {
        let name = Some(*name).filter(|name| !name.is_empty()).or(address.split('@').next());
        Element::new("item", ns::DISCO_ITEMS).with("jid", *address).with_opt("name", name)
    });
    let query = Element::new("query", ns::DISCO_ITEMS).children(items);
    // XEP-0045 §6.2 allows Result Set Management for long lists.
    // A client that asked for no page learns if the list is incomplete.
    let is_told = set.is_some() || some.len() < all.len();
    Ok(query.children(is_told.then_some(told)))
}
