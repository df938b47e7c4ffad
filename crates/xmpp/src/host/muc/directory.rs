//! All rooms of a service that are for everybody to know of: those of the record, and those that hosts have in memory,
//! which know more.

use std::collections::BTreeMap;

use super::room::Room;
use crate::host::effect::{Act, Acted, Listing, Load, Loaded};
use crate::host::{Host, Outbox};
use crate::limits::ROOMS_LISTED;
use crate::stanza::Condition;
use crate::{Bare, Element, ns};

/// By address.
pub(super) type Directory = BTreeMap<Box<str>, Listing>;

impl Host {
    pub(super) fn with_directory(
        &mut self,
        domain: &str,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Result<Directory, Condition>, &mut Outbox) + 'static,
    ) {
        let domain: Box<str> = domain.into();
        let load = Load::Rooms { domain: domain.clone() };
        self.load(load, out, move |host, _, result, out| {
            let Ok(Loaded::Items(stored)) = result else {
                return then(host, Err(Condition::ResourceConstraint), out);
            };
            let stored = stored.into_iter();
            let mut directory: Directory =
                stored.filter_map(|(address, _, record)| Some((address, Room::listing(&record)?))).collect();
            let act = Act::Rooms { domain: domain.clone() };
            host.load(Load::Act(Box::new(act)), out, move |host, _, result, out| {
                let acted = match result {
                    Ok(Loaded::Acted(acted)) => acted,
                    // What is here is better than nothing.
                    _ => host.rooms_here(&domain),
                };
                for (address, listing) in acted.rooms {
                    match listing {
                        Some(listing) => drop(directory.insert(address, listing)),
                        None => drop(directory.remove(&address)),
                    }
                }
                then(host, Ok(directory), out);
            });
        });
    }

    /// Those in this host's memory.
    pub(in crate::host) fn rooms_here(&self, domain: &str) -> Acted {
        let here = self.rooms.slots.iter().filter_map(|(address, slot)| Some((address, slot.room.as_ref()?)));
        let here = here.filter(|(address, _): &(&Bare, _)| address.domain() == domain);
        let rooms = here.map(|(address, room)| (address.as_str().into(), room.listed()));
        Acted { rooms: rooms.take(ROOMS_LISTED).collect(), ..Acted::default() }
    }
}

/// Which of them a page has, and what it is of (XEP-0059): the ids are in the order that was asked for.
pub(super) fn page(
    ids: &[&str],
    set: Option<&Element>,
    most: usize,
) -> Result<(std::ops::Range<usize>, Element), Condition> {
    let content = |name| set.and_then(|set| set.content_of(name, ns::RSM));
    let max = match content("max") {
        Some(max) => max.trim().parse::<usize>().map_err(|_| Condition::BadRequest)?.min(most),
        None => most,
    };
    let place = |id: &str| ids.iter().position(|known| *known == id).ok_or(Condition::ItemNotFound);
    let range = if let Some(after) = content("after").filter(|after| !after.is_empty()) {
        let from = place(&after)? + 1;
        from..(from + max).min(ids.len())
    } else if let Some(before) = content("before") {
        let until = if before.is_empty() { ids.len() } else { place(&before)? };
        until.saturating_sub(max)..until
    } else {
        0..max.min(ids.len())
    };
    let text = |name: &'static str, text: &str| Element::new(name, ns::RSM).text(text);
    let mut told = Element::new("set", ns::RSM);
    if let (Some(first), Some(last)) = (ids[range.clone()].first(), ids[range.clone()].last()) {
        told.push(text("first", first).with("index", range.start.to_string()));
        told.push(text("last", last));
    }
    Ok((range, told.child(text("count", &ids.len().to_string()))))
}
