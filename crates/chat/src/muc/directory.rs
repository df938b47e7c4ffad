//! All public rooms of a service: those of the store, and those that hosts have in memory, which know more.
//!
//! A request is answered in two steps: the public rooms in the store are read page by page (or are known from a moment
//! ago), and then all hosts of the server name those that they have in memory (`HostAction::Rooms`), whose names and
//! numbers of occupants replace the stored ones.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use muc::{RoomListing, stored_listing};
use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, ns};

use super::rooms::{RoomsEffect, RoomsRead};
use super::search::{SearchRequest, result as found};
use super::service::listed;
use crate::effect::{HostAction, HostActionResult, Load, StoreFailure, StoreReply};
use crate::limits::{DIRECTORY_FOR, ROOM_WAITING};

/// Public rooms by their addresses.
pub(in super::super) type Directory = BTreeMap<Box<str>, RoomListing>;

/// The stored rooms of each service: read page by page, once for all requests that come meanwhile, and cached for a moment.
#[derive(Default)]
pub(super) struct Directories {
    of: HashMap<Box<str>, StoredDirectory>,
}

/// The stored rooms of one service.
pub(in super::super) type StoredRooms = Rc<Directory>;

/// One read serves all requests that come while it is under way; its result serves those of the next `DIRECTORY_FOR`.
enum StoredDirectory {
    Loading(Vec<DirectoryRequest>),
    Ready { rooms: StoredRooms, until: Instant },
}

/// A request of a client for rooms of a directory.
pub(in super::super) struct DirectoryRequest {
    /// The request, for its answer.
    iq: Element,
    /// The page that is asked for (XEP-0059).
    set: Option<Element>,
    /// `None`: all rooms, as items of service discovery.
    search: Option<SearchRequest>,
}

/// A page of stored rooms that is being read, with those of the pages before it.
pub(in super::super) struct DirectoryPage {
    /// The domain of the service.
    domain: Box<str>,
    /// Rooms of the pages before.
    known: Directory,
}

impl DirectoryRequest {
    /// A request for the list of rooms (XEP-0045 §6.2).
    pub(super) fn list(iq: &Element, payload: &Element) -> DirectoryRequest {
        DirectoryRequest { iq: iq.clone(), set: payload.get("set", ns::RSM).cloned(), search: None }
    }

    /// A search among the rooms (XEP-0433 §4.2).
    pub(super) fn search(iq: &Element, payload: &Element, search: SearchRequest) -> DirectoryRequest {
        DirectoryRequest { search: Some(search), ..DirectoryRequest::list(iq, payload) }
    }

    /// The rooms in memory are known better than as they are stored.
    pub(super) fn answer(self, stored: &Directory, in_memory: HostActionResult) -> RoomsEffect {
        // A host with the room in memory knows its occupants, and changes that a list of some seconds ago has not.
        let mut directory = stored.clone();
        for (address, listing) in in_memory.rooms {
            match listing {
                Some(listing) => drop(directory.insert(address, listing)),
                None => drop(directory.remove(&address)),
            }
        }
        let payload = match &self.search {
            None => listed(&directory, self.set.as_ref()).map_err(StanzaError::from),
            Some(search) => found(&directory, search, self.set.as_ref()),
        };
        RoomsEffect::Answer(self.iq, payload.map(Some))
    }

    /// The rooms cannot be read now.
    fn refuse(self) -> RoomsEffect {
        RoomsEffect::Answer(self.iq, Err(Condition::ResourceConstraint.into()))
    }
}

impl Directories {
    /// A room of this service was written: the next request reads anew. A read under way goes on, and may
    /// lack the change.
    pub(super) fn forget(&mut self, domain: &str) {
        if matches!(self.of.get(domain), Some(StoredDirectory::Ready { .. })) {
            self.of.remove(domain);
        }
    }

    /// Begins to answer a request: at once from the last read if that is recent, with the read that is under way, or by a
    /// new one.
    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        domain: &str,
        request: DirectoryRequest,
    ) -> Option<RoomsEffect> {
        match self.of.get_mut(domain) {
            // One read serves all requests that come while it is under way.
            Some(StoredDirectory::Loading(waiting)) if waiting.len() >= ROOM_WAITING => {
                Some(request.refuse())
            }
            Some(StoredDirectory::Loading(waiting)) => {
                waiting.push(request);
                None
            }
            Some(StoredDirectory::Ready { rooms, until }) if now < *until => {
                Some(read_memory(domain, rooms, request))
            }
            _ => {
                self.of.insert(domain.into(), StoredDirectory::Loading(vec![request]));
                Some(DirectoryPage { domain: domain.into(), known: Directory::new() }.read(None))
            }
        }
    }

    /// The store has answered the read of a page.
    pub(super) fn handle_page(
        &mut self,
        now: Instant,
        page: DirectoryPage,
        result: Result<StoreReply, StoreFailure>,
    ) -> Vec<RoomsEffect> {
        let DirectoryPage { domain, mut known } = page;
        let Ok(StoreReply::Rows(rows)) = result else {
            let waiting = self.take_waiting(&domain).unwrap_or_default();
            return waiting.into_iter().map(DirectoryRequest::refuse).collect();
        };
        let last = rows.rows.last().map(|(address, _, _)| address.clone());
        let listed = |(address, _, stored): (Box<str>, _, Element)| Some((address, stored_listing(&stored)?));
        known.extend(rows.rows.into_iter().filter_map(listed));
        if let Some(last) = last.filter(|_| !rows.is_complete) {
            return vec![DirectoryPage { domain, known }.read(Some(last))];
        }
        let Some(waiting) = self.take_waiting(&domain) else { return Vec::new() };
        let rooms = Rc::new(known);
        let effects = waiting.into_iter().map(|request| read_memory(&domain, &rooms, request)).collect();
        self.of.insert(domain, StoredDirectory::Ready { rooms, until: now + DIRECTORY_FOR });
        effects
    }

    /// The requests that waited for the read of a service, which is over.
    fn take_waiting(&mut self, domain: &str) -> Option<Vec<DirectoryRequest>> {
        match self.of.remove(domain)? {
            StoredDirectory::Loading(waiting) => Some(waiting),
            StoredDirectory::Ready { .. } => None,
        }
    }
}

impl DirectoryPage {
    /// The effect that reads the page behind that address.
    fn read(self, after: Option<Box<str>>) -> RoomsEffect {
        let load = Load::Rooms { domain: self.domain.clone(), after };
        RoomsEffect::Load(load, RoomsRead::Directory(self))
    }
}

/// The second step of a request: all hosts are asked for the rooms that they have in memory.
fn read_memory(domain: &str, stored: &StoredRooms, request: DirectoryRequest) -> RoomsEffect {
    let act = HostAction::Rooms { domain: domain.into() };
    RoomsEffect::Load(Load::Act(Box::new(act)), RoomsRead::InMemory(Rc::clone(stored), request))
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
