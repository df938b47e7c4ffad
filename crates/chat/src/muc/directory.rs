//! All public rooms of a service: those of the store, and those that hosts have in memory, which know more.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use stdx::Instant;
use xmpp::stanza::Condition;
use xmpp::{Bare, Element, ns};

use super::room::Room;
use crate::effect::{HostAction, HostActionResult, Load, RoomListing, StoreReply};
use crate::limits::{DIRECTORY_FOR, ROOM_WAITING, ROOMS_LISTED};
use crate::{Host, Outbox};

/// By address.
pub(super) type Directory = BTreeMap<Box<str>, RoomListing>;

type DirectoryContinuation = Box<dyn FnOnce(&mut Host, Result<Directory, Condition>, &mut Outbox)>;

/// The stored rooms of each service: read page by page, once for all requests that come meanwhile, and cached for a moment.
#[derive(Default)]
pub(super) struct Directories {
    of: HashMap<Box<str>, StoredDirectory>,
}

enum StoredDirectory {
    Loading(Vec<DirectoryContinuation>),
    Ready { rooms: Rc<Directory>, until: Instant },
}

impl Directories {
    /// A room of this service was written.
    pub(super) fn forget(&mut self, domain: &str) {
        if matches!(self.of.get(domain), Some(StoredDirectory::Ready { .. })) {
            self.of.remove(domain);
        }
    }
}

impl Host {
    pub(super) fn with_directory(
        &mut self,
        now: Instant,
        domain: &str,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Result<Directory, Condition>, &mut Outbox) + 'static,
    ) {
        match self.rooms.directories.of.get_mut(domain) {
            Some(StoredDirectory::Loading(waiting)) if waiting.len() >= ROOM_WAITING => {
                then(self, Err(Condition::ResourceConstraint), out);
            }
            Some(StoredDirectory::Loading(waiting)) => waiting.push(Box::new(then)),
            Some(StoredDirectory::Ready { rooms, until }) if now < *until => {
                let rooms = Rc::clone(rooms);
                self.add_rooms_in_memory(domain.into(), &rooms, out, Box::new(then));
            }
            _ => {
                let waiting = vec![Box::new(then) as DirectoryContinuation];
                self.rooms.directories.of.insert(domain.into(), StoredDirectory::Loading(waiting));
                self.read_directory(domain.into(), None, Directory::new(), out);
            }
        }
    }

    /// The page after that room, with the rooms known already.
    fn read_directory(
        &mut self,
        domain: Box<str>,
        after: Option<Box<str>>,
        mut known: Directory,
        out: &mut Outbox,
    ) {
        let load = Load::Rooms { domain: domain.clone(), after };
        self.load(load, out, move |host, now, result, out| {
            let Ok(StoreReply::Rows(page)) = result else {
                return host.directory_read(now, &domain, None, out);
            };
            let last = page.rows.last().map(|(address, _, _)| address.clone());
            let listed =
                |(address, _, stored): (Box<str>, _, Element)| Some((address, Room::listing(&stored)?));
            known.extend(page.rows.into_iter().filter_map(listed));
            match last.filter(|_| !page.is_complete) {
                Some(last) => host.read_directory(domain, Some(last), known, out),
                None => host.directory_read(now, &domain, Some(known), out),
            }
        });
    }

    /// `None`: it cannot be read now.
    fn directory_read(&mut self, now: Instant, domain: &str, read: Option<Directory>, out: &mut Outbox) {
        let Some(StoredDirectory::Loading(waiting)) = self.rooms.directories.of.remove(domain) else {
            return;
        };
        let Some(rooms) = read.map(Rc::new) else {
            return waiting.into_iter().for_each(|then| then(self, Err(Condition::ResourceConstraint), out));
        };
        let stored = StoredDirectory::Ready { rooms: Rc::clone(&rooms), until: now + DIRECTORY_FOR };
        self.rooms.directories.of.insert(domain.into(), stored);
        for then in waiting {
            self.add_rooms_in_memory(domain.into(), &rooms, out, then);
        }
    }

    fn add_rooms_in_memory(
        &mut self,
        domain: Box<str>,
        stored: &Rc<Directory>,
        out: &mut Outbox,
        then: DirectoryContinuation,
    ) {
        let act = HostAction::Rooms { domain: domain.clone() };
        let stored = Rc::clone(stored);
        self.load(Load::Act(Box::new(act)), out, move |host, _, result, out| {
            let acted = match result {
                Ok(StoreReply::HostActionResult(acted)) => acted,
                // The rooms in memory are better than an empty list.
                _ => host.rooms_here(&domain),
            };
            let mut directory = Directory::clone(&stored);
            for (address, listing) in acted.rooms {
                match listing {
                    Some(listing) => drop(directory.insert(address, listing)),
                    None => drop(directory.remove(&address)),
                }
            }
            then(host, Ok(directory), out);
        });
    }

    /// Those in this host's memory.
    pub(crate) fn rooms_here(&self, domain: &str) -> HostActionResult {
        let here = self.rooms.slots.iter().filter_map(|(address, slot)| Some((address, slot.room.as_ref()?)));
        let here = here.filter(|(address, _): &(&Bare, _)| address.domain() == domain);
        let rooms = here.map(|(address, room)| (address.as_str().into(), room.listed()));
        HostActionResult { rooms: rooms.take(ROOMS_LISTED).collect(), ..HostActionResult::default() }
    }
}

/// The range of a page and its `<set/>` (XEP-0059): the ids are in the order that was asked for.
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
