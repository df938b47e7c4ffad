//! The service that has the rooms: its identity, and its list of rooms (XEP-0045 §6.1, §6.2, paged by
//! XEP-0059).

use stdx::Instant;
use xmpp::stanza::{self, Condition, StanzaKind};
use xmpp::{Element, Jid, ns};

use super::directory::{Directory, page};
use super::room::disco::{feature, identity};
use crate::limits::ROOMS_PAGE;
use crate::{Host, Outbox};

impl Host {
    pub(super) fn routed_to_rooms(&mut self, now: Instant, stanza: &Element, to: &Jid, out: &mut Outbox) {
        match stanza::kind_of(stanza) {
            Some(StanzaKind::Message) => {
                return self.refuse(stanza, &Condition::ServiceUnavailable.into(), out);
            }
            Some(StanzaKind::Iq) if matches!(stanza.attr("type"), Some("get" | "set")) => {}
            _ => return,
        }
        let is_get = stanza.attr("type") == Some("get");
        let payload = stanza.first().filter(|_| stanza.elements().count() == 1);
        let Some(payload) = payload else {
            return self.refuse(stanza, &Condition::BadRequest.into(), out);
        };
        let has_node = payload.attr("node").is_some();
        match (payload.name(), payload.ns()) {
            ("query", ns::DISCO_INFO | ns::DISCO_ITEMS) if is_get && has_node => {
                self.refuse(stanza, &Condition::ItemNotFound.into(), out);
            }
            ("query", ns::DISCO_INFO) if is_get => {
                let info =
                    Element::new("query", ns::DISCO_INFO).child(identity("conference", "text", "Rooms"));
                let features = [
                    ns::DISCO_INFO,
                    ns::DISCO_ITEMS,
                    ns::MUC,
                    ns::RSM,
                    ns::PING,
                    ns::OCCUPANT_ID,
                    ns::CHANNEL_SEARCH,
                ];
                let info = info.children(features.map(feature));
                self.answer(stanza, Ok(Some(info)), out);
            }
            ("query", ns::DISCO_ITEMS) if is_get => self.list_rooms(now, stanza, payload, to, out),
            ("search", ns::CHANNEL_SEARCH) if is_get => self.search_rooms(now, stanza, payload, to, out),
            ("ping", ns::PING) if is_get => self.answer(stanza, Ok(None), out),
            _ => self.refuse(stanza, &Condition::ServiceUnavailable.into(), out),
        }
    }

    fn list_rooms(&mut self, now: Instant, iq: &Element, payload: &Element, to: &Jid, out: &mut Outbox) {
        let (iq, set) = (iq.clone(), payload.get("set", ns::RSM).cloned());
        self.with_directory(now, to.domain(), out, move |host, directory, out| {
            let query = directory.and_then(|directory| listed(&directory, set.as_ref()));
            host.answer(&iq, query.map(Some).map_err(Into::into), out);
        });
    }
}

/// One page of them, and its position when a page was asked for.
fn listed(directory: &Directory, set: Option<&Element>) -> Result<Element, Condition> {
    let all: Vec<(&str, &str)> = directory.iter().map(|(address, room)| (&**address, &*room.name)).collect();
    let ids: Vec<&str> = all.iter().map(|(address, _)| *address).collect();
    let (range, told) = page(&ids, set, ROOMS_PAGE)?;
    let some = &all[range];
    let items = some.iter().map(|(address, name)| {
        let name = Some(*name).filter(|name| !name.is_empty()).or(address.split('@').next());
        Element::new("item", ns::DISCO_ITEMS).with("jid", *address).with_opt("name", name)
    });
    let query = Element::new("query", ns::DISCO_ITEMS).children(items);
    // A client that asked for no page learns if the list is incomplete.
    let is_told = set.is_some() || some.len() < all.len();
    Ok(query.children(is_told.then_some(told)))
}
