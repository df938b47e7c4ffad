//! One user: the data that are kept here, and those that are ignored.
//!
//! In: the `<user>` element of a file (XEP-0227), in memory alone. Out: credentials and the list of
//! [`Change`]s that make the account, in the form in which clients' requests would have written them. Data
//! that this server has no place for, or that break a limit, are counted by kind and reported. A user is
//! refused as a whole without address or credentials, or for a contact with an unknown value.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns, stanza, time};

use super::credentials::Credentials;
use super::document::name_of;
use crate::effect::{RosterItem, Subscription};
use crate::limits;
use crate::{Change, archive, imported};

/// A user of a file.
#[derive(Debug)]
pub struct User {
    /// The address.
    pub address: Bare,
    /// The credentials.
    pub credentials: Credentials,
    /// The name that others see; empty for none. XEP-0227 has it in the vCard only.
    pub display_name: Box<str>,
    /// The writes that make the data of the account.
    pub changes: Vec<Change>,
    /// The kinds of data that are not imported, in the plural, with their counts.
    pub passed: SkippedElements,
}

/// The kinds of elements that were ignored, in the plural, with their counts.
pub type SkippedElements = BTreeMap<Box<str>, u64>;

/// The reason for which a user is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The text that stands there.
    pub found: Box<str>,
    /// The text that was expected.
    pub expected: Box<str>,
}

/// A fault from its two texts.
pub(super) fn fault(found: impl Into<Box<str>>, expected: impl Into<Box<str>>) -> Fault {
    Fault { found: found.into(), expected: expected.into() }
}

/// `element` is a `<user>` of `host`; `now` stands where the file says no time.
///
/// # Errors
/// The user has no address or no credentials, or a contact has an unknown value.
pub fn read_user(element: &Element, host: &str, now: Instant) -> Result<User, Fault> {
    let name = element.attr("name").ok_or_else(|| fault("a <user> without name", "the name before the @"))?;
    let address = Bare::new(Some(name), host)
        .map_err(|_| fault(format!("user {name:?}"), "a name that an address may have before its @"))?;
    let credentials = Credentials::read(element)?;
    let mut reading = UserReader {
        address,
        now,
        changes: Vec::new(),
        contacts: BTreeMap::new(),
        blocked: Vec::new(),
        display_name: "".into(),
        passed: SkippedElements::new(),
    };
    for child in element.elements() {
        reading.part(child)?;
    }
    Ok(reading.end(element, credentials))
}

/// The data of one user, while its element is read. Contacts and blocked addresses are collected: several parts of the
/// file name them.
struct UserReader {
    address: Bare,
    /// The time of data for which the file has none.
    now: Instant,
    changes: Vec<Change>,
    contacts: BTreeMap<Bare, RosterItem>,
    blocked: Vec<Jid>,
    display_name: Box<str>,
    passed: SkippedElements,
}

impl UserReader {
    /// Counts something that is not imported.
    fn pass(&mut self, what: &str) {
        match self.passed.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.passed.insert(what.into(), 1)),
        }
    }

    /// Takes the writes that a feature has made of an element, or counts the element as ignored.
    fn take(&mut self, found: Result<Vec<Change>, &'static str>) {
        match found {
            Ok(mut changes) => self.changes.append(&mut changes),
            Err(what) => self.pass(what),
        }
    }

    /// Takes one element of a user. An unknown one is counted, not refused.
    fn part(&mut self, part: &Element) -> Result<(), Fault> {
        match (part.name(), part.ns()) {
            ("query", ns::ROSTER) => return part.elements().try_for_each(|item| self.contact(item)),
            // COMPAT(Prosody): written without a namespace of its own.
            ("presence", ns::CLIENT | ns::PIE) => self.asked(part),
            ("vCard", ns::VCARD) => self.take(imported::vcard(&self.address, part, self.now)),
            ("query", ns::PRIVATE) => {
                for data in part.elements() {
                    self.take(imported::private(&self.address, data, self.now));
                }
            }
            ("offline-messages", ns::PIE) => self.messages(part),
            ("blocklist", ns::BLOCKING) => {
                for item in part.elements() {
                    self.block(item.attr("jid"));
                }
            }
            ("query", ns::PRIVACY) => self.privacy(part),
            ("archive", ns::PIE_MAM) => {
                for result in part.elements() {
                    self.take(imported::archived(&self.address, result));
                }
            }
            // Openfire's own, which `openfire::user` leaves as they are.
            ("Name", "") => self.display_name = part.content().trim().into(),
            ("Email", "") if part.content().trim().is_empty() => {}
            ("Email", "") => self.pass("e-mail addresses"),
            ("CreationDate" | "ModifiedDate", "") => {}
            // Read already, and together at the end.
            ("scram-credentials", ns::PIE_SCRAM) | ("pubsub", ns::PUBSUB | ns::PUBSUB_OWNER) => {}
            _ => self.pass(&name_of(part)),
        }
        Ok(())
    }

    /// An item of the roster (RFC 6121 §2.1.2). Names and groups beyond the limits are left out; an unknown subscription is a fault.
    fn contact(&mut self, item: &Element) -> Result<(), Fault> {
        const EXPECTED: &str = "none, to, from or both";
        let subscription = match item.attr("subscription") {
            None | Some("none") => Subscription::None,
            Some("to") => Subscription::To,
            Some("from") => Subscription::From,
            Some("both") => Subscription::Both,
            Some(other) => return Err(fault(format!("a contact whose subscription is {other:?}"), EXPECTED)),
        };
        let contact = item.attr("jid").and_then(|jid| Jid::parse(jid).ok()).map(|jid| jid.bare());
        let Some(contact) = contact.filter(|contact| *contact != self.address) else {
            self.pass("contacts whose address is none");
            return Ok(());
        };
        if self.contacts.len() >= limits::CONTACTS {
            self.pass("contacts beyond what an account may have");
            return Ok(());
        }
        let fits = |text: &str| !text.is_empty() && text.len() <= limits::CONTACT_NAME;
        let groups: BTreeSet<Box<str>> = item
            .elements()
            .filter(|child| child.is("group", ns::ROSTER))
            .map(|group| group.content().into_owned())
            .filter(|group| fits(group))
            .map(Box::from)
            .take(limits::CONTACT_GROUPS)
            .collect();
        // A subscription request may already have created the contact.
        let known = self.contacts.remove(&contact).unwrap_or_default();
        let item = RosterItem {
            name: item.attr("name").filter(|name| fits(name)).map(Box::from),
            subscription,
            // The request of the account that the contact has not answered.
            ask: item.attr("ask") == Some("subscribe"),
            approved: matches!(item.attr("approved"), Some("true" | "1")),
            groups: groups.into_iter().collect(),
            is_listed: true,
            version: 1,
            asked: known.asked,
        };
        self.contacts.insert(contact, item);
        Ok(())
    }

    /// RFC 6121 §3.1.3: a subscription request that waits for an answer.
    fn asked(&mut self, presence: &Element) {
        let from = presence.attr("from").and_then(|from| Jid::parse(from).ok()).map(|from| from.bare());
        let Some(from) = from.filter(|_| presence.attr("type") == Some("subscribe")) else {
            return self.pass("presences");
        };
        if self.contacts.len() >= limits::CONTACTS {
            return self.pass("contacts beyond what an account may have");
        }
        let status = presence.elements().find(|child| child.name() == "status");
        let words: String = status
            .map(|status| status.content().chars().take(limits::SUBSCRIPTION_REQUEST / 8).collect())
            .unwrap_or_default();
        let status = (!words.is_empty()).then(|| Element::new("status", ns::CLIENT).text(words));
        let asked = Element::new("presence", ns::CLIENT)
            .with("type", "subscribe")
            .with("from", from.as_str())
            .with("to", self.address.as_str())
            .children(status);
        self.contacts.entry(from).or_default().asked = Some(Box::new(asked));
    }

    /// Messages that waited, with the time that the old server noted: a `<delay/>` of the account's domain goes before
    /// others.
    fn messages(&mut self, messages: &Element) {
        for (count, message) in messages.elements().enumerate() {
            let mut message = message.clone();
            message.adopt(ns::PIE, ns::CLIENT);
            // The archive here has no such entry: with its id the message would be taken for an archived one.
            archive::remove_forged_ids(&mut message, &self.address);
            let is_message =
                message.is("message", ns::CLIENT) && message.to_bytes("").len() <= limits::STANZA;
            if count >= limits::OFFLINE as usize || !is_message || stanza::from(&message).is_err() {
                self.pass("messages that waited");
                continue;
            }
            let delays = || message.elements().filter(|child| child.is("delay", ns::DELAY));
            let ours = delays().find(|delay| delay.attr("from") == Some(self.address.domain()));
            let stamp = ours.or_else(|| delays().next()).and_then(|delay| time::parse(delay.attr("stamp")?));
            let (user, at) = (self.address.clone(), stamp.unwrap_or(self.now));
            self.changes.push(Change::Offline { user, at, stanza: Box::new(message) });
        }
    }

    /// Takes a blocked address.
    fn block(&mut self, jid: Option<&str>) {
        match jid.and_then(|jid| Jid::parse(jid).ok()) {
            Some(jid) if self.blocked.len() < limits::BLOCKED => self.blocked.push(jid),
            Some(_) => self.pass("blocked addresses beyond what an account may have"),
            None => self.pass("blocked addresses that are none"),
        }
    }

    /// XEP-0016: the list that is always on, when it does what XEP-0191 can say. ejabberd keeps blocked addresses so.
    fn privacy(&mut self, query: &Element) {
        let default = query.get("default", ns::PRIVACY).and_then(|default| default.attr("name"));
        for list in query.elements().filter(|child| child.is("list", ns::PRIVACY)) {
            let blocked = if list.attr("name") == default { blocked_by(list) } else { None };
            match blocked {
                Some(jids) => jids.into_iter().for_each(|jid| self.block(Some(jid))),
                None => self.pass("privacy lists"),
            }
        }
    }

    /// All parts are read: the writes of nodes, blocked addresses and contacts follow those of the parts.
    fn end(mut self, element: &Element, credentials: Credentials) -> User {
        let (nodes, passed) = imported::nodes(&self.address, element, self.now);
        self.changes.extend(nodes);
        for what in passed {
            self.pass(what);
        }
        let mut seen = HashSet::new();
        self.blocked.retain(|jid| seen.insert(jid.clone()));
        if !self.blocked.is_empty() {
            self.changes.push(Change::Blocked { user: self.address.clone(), blocked: self.blocked });
        }
        let user = &self.address;
        self.changes.extend(self.contacts.into_iter().map(|(contact, item)| Change::Roster {
            user: user.clone(),
            contact,
            item: Some(item),
            version: 1,
        }));
        let (display_name, changes, passed) = (self.display_name, self.changes, self.passed);
        User { address: self.address, credentials, display_name, changes, passed }
    }
}

/// The addresses that a privacy list blocks. `None`: it is not a plain list of blocked addresses, and to
/// import a part of it would change its meaning.
fn blocked_by(list: &Element) -> Option<Vec<&str>> {
    let mut items: Vec<(u32, &Element)> = Vec::new();
    for item in list.elements().filter(|child| child.is("item", ns::PRIVACY)) {
        items.push((item.attr("order")?.parse().ok()?, item));
    }
    items.sort_by_key(|(order, _)| *order);
    // All else is allowed, as it is without.
    if let Some((_, last)) = items.last()
        && last.attr("type").is_none()
        && last.attr("action") == Some("allow")
    {
        items.pop();
    }
    let blocked = |(_, item): (u32, &'_ Element)| {
        // No kind of stanza named: all of them.
        let kinds = item.elements().count();
        let is_all = kinds == 0 || kinds == 4;
        (item.attr("type") == Some("jid") && item.attr("action") == Some("deny") && is_all).then_some(())
    };
    for item in &items {
        blocked(*item)?;
    }
    items.into_iter().map(|(_, item)| item.attr("value")).collect()
}
