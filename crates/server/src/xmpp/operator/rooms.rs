//! Rooms, for operators: lists from all hosts and the database, the rest by questions to the room (XEP-0045 §9, §10).
//!
//! A question comes from the domain whose rooms those are (`example.net` for `tea@rooms.example.net`), which a room obeys as it obeys an owner. So
//! a change by an operator takes the same way as one by an owner's client: occupants are told, and it is saved.

use std::collections::BTreeMap;

use admin::ControlError;
use admin::chat::{Affiliated, Answer, Occupant, Room, RoomDetails};
use chat::effect::HostAction;
use chat::stored_room;
use control::limits::FARM_LISTED;
use store::xmpp::{XmppLoaded, XmppRead};
use xmpp::xml::parse_stored;
use xmpp::{Bare, Element, ns};

use super::{Operator, invalid};

// Each has a list of its own, and is asked for by a question of its own (XEP-0045 §9).
const AFFILIATIONS: [&str; 4] = ["owner", "admin", "member", "outcast"];
const ROLES: [&str; 3] = ["moderator", "participant", "visitor"];
/// The beginning of the names of a room's settings in its form of configuration; operators see the rest.
const CONFIG: &str = "muc#roomconfig_";

impl Operator {
    fn rooms_domain(&self, domain: &str) -> String {
        format!("{}.{domain}", self.rooms.as_deref().unwrap_or_default())
    }

    /// The address of a room, and the address from which the operator asks it.
    fn room(&self, room: &str) -> Result<(Bare, String), ControlError> {
        let bare = Bare::parse(room).ok().filter(|bare| bare.local().is_some());
        let bare = bare.ok_or_else(|| invalid("a room's address", room))?;
        let prefix = self.rooms_domain("");
        let domain = bare.domain().strip_prefix(&*prefix).map(str::to_owned);
        let expected = format!("a room's address, as tea@{}", self.rooms_domain("example.net"));
        let domain = domain.ok_or_else(|| invalid(&expected, room))?;
        Ok((bare, domain))
    }

    async fn ask_room(
        &self,
        (room, domain): (&Bare, &str),
        kind: &'static str,
        payload: Element,
    ) -> Result<Option<Element>, ControlError> {
        self.question((domain, room), kind, payload).await
    }

    /// Lists the rooms of a domain: those that are stored, page by page, and over them those in memory, which have occupants and may not be
    /// stored. At most [`FARM_LISTED`], as of a whole farm.
    pub(super) async fn list_rooms(&self, domain: &str) -> Result<Answer, ControlError> {
        let domain: Box<str> = self.rooms_domain(domain).into();
        let (mut rooms, mut after) = (BTreeMap::new(), None);
        loop {
            let read = XmppRead::Rooms { domain: domain.clone(), after };
            let XmppLoaded::Rows(page) = self.read_chat(read).await? else { return Err(ControlError::Busy) };
            after = page.rows.last().map(|(address, _, _)| address.clone()).filter(|_| !page.is_complete);
            for (address, _, xml) in page.rows {
                let record = parse_stored(xml.as_bytes()).ok();
                let (name, listed) = match record.as_ref().map(stored_room) {
                    Some(Some(known)) => known,
                    // A temporary room: the host that has its occupants names it.
                    Some(None) => continue,
                    None => Default::default(),
                };
                let (address, name) = (String::from(address), name.into());
                let room = Room { address: address.clone(), name, listed, persistent: true, occupants: 0 };
                rooms.insert(address, room);
            }
            if after.is_none() || rooms.len() >= FARM_LISTED {
                break;
            }
        }
        // The rooms in memory are newer.
        for room in self.act(HostAction::DescribeRooms { domain }).await?.acted.described_rooms {
            let address = room.address.to_string();
            let row = Room {
                address: address.clone(),
                name: room.name.into(),
                occupants: room.occupants,
                persistent: room.is_persistent,
                listed: room.is_listed,
            };
            rooms.insert(address, row);
        }
        Ok(Answer::Rooms(listed(rooms, FARM_LISTED)))
    }

    /// Shows a room: its form of configuration, then each list of affiliations and of roles.
    pub(super) async fn show_room(&self, room: &str) -> Result<Answer, ControlError> {
        let (bare, domain) = self.room(room)?;
        let at = (&bare, domain.as_str());
        // The form comes first: a room that does not exist is refused here, before seven more questions.
        let config = self.ask_room(at, "get", Element::new("query", ns::MUC_OWNER)).await?;
        let form = config.as_ref().and_then(|query| query.get("x", ns::DATA));
        let mut details = RoomDetails { address: bare.to_string(), ..RoomDetails::default() };
        details.config = form.into_iter().flat_map(Element::elements).filter_map(setting_of).collect();
        for affiliation in AFFILIATIONS {
            for item in self.list(at, "affiliation", affiliation).await? {
                details.affiliations.push(Affiliated {
                    user: item.attr("jid").unwrap_or_default().into(),
                    affiliation: affiliation.into(),
                    reason: item.content_of("reason", ns::MUC_ADMIN).unwrap_or_default().into(),
                });
            }
        }
        for role in ROLES {
            for item in self.list(at, "role", role).await? {
                details.occupants.push(Occupant {
                    nick: item.attr("nick").unwrap_or_default().into(),
                    address: item.attr("jid").unwrap_or_default().into(),
                    role: role.into(),
                });
            }
        }
        Ok(Answer::Room(Box::new(details)))
    }

    /// Those of an affiliation or a role.
    async fn list(
        &self,
        at: (&Bare, &str),
        name: &'static str,
        value: &str,
    ) -> Result<Vec<Element>, ControlError> {
        let item = Element::new("item", ns::MUC_ADMIN).with(name, value);
        let query = self.ask_room(at, "get", Element::new("query", ns::MUC_ADMIN).child(item)).await?;
        let items = query.into_iter().flat_map(|query| query.elements().cloned().collect::<Vec<_>>());
        Ok(items.filter(|item| item.is("item", ns::MUC_ADMIN)).collect())
    }

    /// A room that stays. It has an owner: that one, or the operator.
    pub(super) async fn make_room(
        &self,
        room: &str,
        name: &str,
        owner: Option<&str>,
    ) -> Result<Answer, ControlError> {
        let (bare, domain) = self.room(room)?;
        let at = (&bare, domain.as_str());
        let owner = match owner {
            Some(owner) => Some(self.account(owner).await?),
            None => None,
        };
        // A question to an absent room would make it, if it were a presence; this one only asks.
        match self.ask_room(at, "get", Element::new("query", ns::MUC_OWNER)).await {
            Err(ControlError::NotFound) => {}
            Ok(_) => return Err(ControlError::Invalid(format!("there is a room {bare} already"))),
            Err(error) => return Err(error),
        }
        let kind = field("FORM_TYPE", "http://jabber.org/protocol/muc#roomconfig");
        let name = (!name.is_empty()).then(|| field("muc#roomconfig_roomname", name));
        let form = Element::new("x", ns::DATA)
            .with("type", "submit")
            .child(kind)
            // A room that is not persistent ends when its last occupant leaves, and this one begins without
            // any.
            .child(field("muc#roomconfig_persistentroom", "1"))
            .children(name);
        self.ask_room(at, "set", Element::new("query", ns::MUC_OWNER).child(form)).await?;
        if let Some(owner) = owner {
            // In this order: a room refuses to lose its last owner (XEP-0045 §10.4).
            self.set_affiliation(at, owner.as_str(), ("owner", "")).await?;
            // There is an owner now; the operator needs not be one to be obeyed.
            self.set_affiliation(at, &domain, ("none", "")).await?;
        }
        Ok(Answer::Done)
    }

    pub(super) async fn destroy_room(&self, room: &str, reason: &str) -> Result<Answer, ControlError> {
        let (bare, domain) = self.room(room)?;
        let reason = (!reason.is_empty()).then(|| Element::new("reason", ns::MUC_OWNER).text(reason));
        let destroy = Element::new("destroy", ns::MUC_OWNER).children(reason);
        let query = Element::new("query", ns::MUC_OWNER).child(destroy);
        self.ask_room((&bare, &domain), "set", query).await?;
        Ok(Answer::Done)
    }

    pub(super) async fn affiliate(
        &self,
        room: &str,
        user: &str,
        affiliation: (&str, &str),
    ) -> Result<Answer, ControlError> {
        let (bare, domain) = self.room(room)?;
        self.set_affiliation((&bare, &domain), user, affiliation).await?;
        Ok(Answer::Done)
    }

    async fn set_affiliation(
        &self,
        at: (&Bare, &str),
        user: &str,
        (affiliation, reason): (&str, &str),
    ) -> Result<(), ControlError> {
        let item = Element::new("item", ns::MUC_ADMIN).with("affiliation", affiliation).with("jid", user);
        self.set_item(at, item, reason).await
    }

    /// Removes an occupant: the role `none` (XEP-0045 §8.2).
    pub(super) async fn kick(&self, room: &str, nick: &str, reason: &str) -> Result<Answer, ControlError> {
        let (bare, domain) = self.room(room)?;
        let item = Element::new("item", ns::MUC_ADMIN).with("role", "none").with("nick", nick);
        self.set_item((&bare, &domain), item, reason).await?;
        Ok(Answer::Done)
    }

    async fn set_item(&self, at: (&Bare, &str), item: Element, reason: &str) -> Result<(), ControlError> {
        let reason = (!reason.is_empty()).then(|| Element::new("reason", ns::MUC_ADMIN).text(reason));
        let query = Element::new("query", ns::MUC_ADMIN).child(item.children(reason));
        self.ask_room(at, "set", query).await.map(drop)
    }
}

fn field(var: &str, value: &str) -> Element {
    let value = Element::new("value", ns::DATA).text(value);
    Element::new("field", ns::DATA).with("var", var).child(value)
}

/// Name and value of a field, without what is secret.
fn setting_of(field: &Element) -> Option<(String, String)> {
    let name = field.attr("var")?.strip_prefix(CONFIG)?;
    let values = field.elements().filter(|child| child.is("value", ns::DATA)).map(Element::content);
    let value = values.collect::<Vec<_>>().join(" ");
    let is_secret = name == "roomsecret" && !value.is_empty();
    Some((name.to_owned(), if is_secret { "***".to_owned() } else { value }))
}

/// At most so many rooms of a list, those with the most occupants, in the order of their addresses.
fn listed(rooms: BTreeMap<String, Room>, most: usize) -> Vec<Room> {
    let mut rooms: Vec<Room> = rooms.into_values().collect();
    if rooms.len() > most {
        rooms.sort_by_key(|room| std::cmp::Reverse(room.occupants));
        rooms.truncate(most);
        rooms.sort_by(|one, other| one.address.cmp(&other.address));
    }
    rooms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_rooms_is_bounded_and_has_those_with_occupants() {
        let room = |(address, occupants): (&str, u64)| {
            (address.to_owned(), Room { address: address.to_owned(), occupants, ..Room::default() })
        };
        let rooms: BTreeMap<String, Room> = [("a@r", 0), ("b@r", 1), ("c@r", 0), ("d@r", 7)].map(room).into();
        let addresses = |most| {
            let rooms = listed(rooms.clone(), most);
            rooms.into_iter().map(|room| room.address).collect::<Vec<_>>()
        };
        assert_eq!(addresses(4), ["a@r", "b@r", "c@r", "d@r"]);
        assert_eq!(addresses(3), ["a@r", "b@r", "d@r"]);
        assert_eq!(addresses(2), ["b@r", "d@r"]);
    }
}
