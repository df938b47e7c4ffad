//! The service that has the rooms: what it is, and which they are (XEP-0045 §6.1, §6.2, paged by XEP-0059).

use std::collections::BTreeMap;

use super::room::Room;
use super::room::disco::{feature, identity};
use crate::host::effect::{Load, Loaded};
use crate::host::{Host, Outbox};
use crate::limits::ROOMS_PAGE;
use crate::stanza::{self, Condition, Kind};
use crate::{Bare, Element, Jid, ns};

impl Host {
    pub(super) fn routed_to_rooms(&mut self, stanza: &Element, to: &Jid, out: &mut Outbox) {
        match stanza::kind_of(stanza) {
            Some(Kind::Message) => return self.refuse(stanza, &Condition::ServiceUnavailable.into(), out),
            Some(Kind::Iq) if matches!(stanza.attr("type"), Some("get" | "set")) => {}
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
                let features = [ns::DISCO_INFO, ns::DISCO_ITEMS, ns::MUC, ns::RSM, ns::PING, ns::OCCUPANT_ID];
                let info = info.children(features.map(feature));
                self.answer(stanza, Ok(Some(info)), out);
            }
            ("query", ns::DISCO_ITEMS) if is_get => self.list_rooms(stanza, payload, to, out),
            ("ping", ns::PING) if is_get => self.answer(stanza, Ok(None), out),
            _ => self.refuse(stanza, &Condition::ServiceUnavailable.into(), out),
        }
    }

    fn list_rooms(&mut self, iq: &Element, payload: &Element, to: &Jid, out: &mut Outbox) {
        let (iq, set) = (iq.clone(), payload.get("set", ns::RSM).cloned());
        let domain: Box<str> = to.domain().into();
        let load = Load::Rooms { domain: domain.clone() };
        self.load(load, out, move |host, _, result, out| {
            let answer = match result {
                Ok(Loaded::Items(stored)) => {
                    page(&host.listed_rooms(&domain, stored), set.as_ref()).map(Some).map_err(Into::into)
                }
                _ => Err(Condition::ResourceConstraint.into()),
            };
            host.answer(&iq, answer, out);
        });
    }

    /// Addresses and names. What is in memory is newer than what is in the record.
    fn listed_rooms(
        &self,
        domain: &str,
        stored: Vec<(Box<str>, stdx::Instant, Element)>,
    ) -> BTreeMap<Box<str>, Box<str>> {
        let mut listed = BTreeMap::new();
        for (address, _, record) in stored {
            if let Some(name) = Room::listing(&record) {
                listed.insert(address, name);
            }
        }
        let here = self.rooms.slots.iter().filter_map(|(address, slot)| Some((address, slot.room.as_ref()?)));
        for (address, room) in here.filter(|(address, _): &(&Bare, _)| address.domain() == domain) {
            if room.is_listed() {
                listed.insert(address.as_str().into(), room.name().into());
            } else {
                listed.remove(address.as_str());
            }
        }
        listed
    }
}

/// One page of them, and what page it is when one was asked for.
fn page(rooms: &BTreeMap<Box<str>, Box<str>>, set: Option<&Element>) -> Result<Element, Condition> {
    let all: Vec<(&str, &str)> = rooms.iter().map(|(address, name)| (&**address, &**name)).collect();
    let content = |name| set.and_then(|set| set.content_of(name, ns::RSM));
    let max = match content("max") {
        Some(max) => max.parse::<usize>().map_err(|_| Condition::BadRequest)?.min(ROOMS_PAGE),
        None => ROOMS_PAGE,
    };
    let place = |address: &str| all.partition_point(|(known, _)| *known < address);
    let known = |address: &str| rooms.contains_key(address).then_some(()).ok_or(Condition::ItemNotFound);
    let (from, until) = if let Some(after) = content("after").filter(|after| !after.is_empty()) {
        known(&after)?;
        let from = place(&after) + 1;
        (from, (from + max).min(all.len()))
    } else if let Some(before) = content("before") {
        let until = if before.is_empty() { all.len() } else { place(&before) };
        if !before.is_empty() {
            known(&before)?;
        }
        (until.saturating_sub(max), until)
    } else {
        (0, max.min(all.len()))
    };
    let some = all.get(from..until).unwrap_or_default();
    let items = some.iter().map(|(address, name)| {
        let name = Some(*name).filter(|name| !name.is_empty()).or(address.split('@').next());
        Element::new("item", ns::DISCO_ITEMS).with("jid", *address).with_opt("name", name)
    });
    let mut query = Element::new("query", ns::DISCO_ITEMS).children(items);
    // Who asked for no page gets to know that it is not all.
    if set.is_some() || some.len() < all.len() {
        query.push(result_set(some, from, all.len()));
    }
    Ok(query)
}

fn result_set(some: &[(&str, &str)], from: usize, count: usize) -> Element {
    let text = |name: &'static str, text: &str| Element::new(name, ns::RSM).text(text);
    let mut set = Element::new("set", ns::RSM);
    if let (Some((first, _)), Some((last, _))) = (some.first(), some.last()) {
        set.push(text("first", first).with("index", from.to_string()));
        set.push(text("last", last));
    }
    set.child(text("count", &count.to_string()))
}
