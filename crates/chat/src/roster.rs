//! Contacts (RFC 6121 §2) with versions (§2.6).

use std::collections::BTreeSet;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::change_queue::{not_written, too_many};
use super::effect::{AccountData, Change, RosterItem};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget};
use super::{Host, Outbox};
use crate::{change_queue, limits, presence, token};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0237",
        title: "Roster Versioning",
        version: "1.3",
        level: Level::Complete,
        file: "crates/chat/src/roster.rs",
        note: "as RFC 6121 §2.6 has it; an old version is answered by the whole roster",
    }],
    account: &[],
    server: &[],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "query", ns: ns::ROSTER, run: roster },
        IqHandler { at: IqTarget::Account, name: "query", ns: ns::ROSTER, run: of_another },
    ],
};

impl AccountData {
    pub(super) fn contact(&self, contact: &Bare) -> Option<&RosterItem> {
        self.roster.iter().find(|(known, _)| known == contact).map(|(_, item)| item)
    }

    fn set_contact(&mut self, contact: Bare, item: Option<RosterItem>, version: u64) {
        self.roster_version = version;
        let known = self.roster.iter().position(|(known, _)| *known == contact);
        match (known, item) {
            (Some(at), Some(item)) => self.roster[at].1 = item,
            (Some(at), None) => drop(self.roster.swap_remove(at)),
            (None, Some(item)) => self.roster.push((contact, item)),
            (None, None) => {}
        }
    }
}

impl RosterItem {
    /// The item as clients see it.
    pub(crate) fn element(&self, contact: &Bare) -> Element {
        let groups = self.groups.iter().map(|group| Element::new("group", ns::ROSTER).text(group.clone()));
        Element::new("item", ns::ROSTER)
            .with("jid", contact.as_str())
            .with_opt("name", self.name.clone())
            .with("subscription", self.subscription.as_str())
            .with_opt("ask", self.ask.then_some("subscribe"))
            .with_opt("approved", self.approved.then_some("true"))
            .children(groups)
    }
}

/// RFC 6121 §2.3.3: `forbidden`, when "the sender of the roster set is not authorized to update the roster". A roster get is
/// answered as any question that nothing here answers.
fn of_another(_host: &mut Host, _now: Instant, iq: &IqRequest<'_>, _out: &mut Outbox) -> IqReply {
    let condition = if iq.is_set { Condition::Forbidden } else { Condition::ServiceUnavailable };
    IqReply::Error(condition.into())
}

/// True if a stanza for an account is a roster set.
pub(super) fn sets_roster(iq: &Element) -> bool {
    iq.attr("type") == Some("set") && iq.get("query", ns::ROSTER).is_some()
}

fn roster(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    if iq.is_set { set(host, now, iq, out) } else { get(host, now, iq, out) }
}

/// RFC 6121 §2.1.3 and §2.1.4. Past the router, as pushes are: else one could overtake it.
fn get(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    let user = iq.from.bare();
    let Some(data) = host.accounts.data(&user) else {
        return IqReply::Error(Condition::InternalServerError.into());
    };
    let version = data.roster_version.to_string();
    // §2.6.3: nothing to send, and later changes are pushed.
    let is_known = iq.payload.attr("ver") == Some(&*version);
    let query = (!is_known).then(|| {
        let listed = data.roster.iter().filter(|(_, item)| item.is_listed);
        let items = listed.map(|(contact, item)| item.element(contact));
        Element::new("query", ns::ROSTER)
            .with_opt("ver", iq.payload.attr("ver").map(|_| version))
            .children(items)
    });
    let Some(key) = iq.session else { return IqReply::Result(query) };
    if let Some(session) = host.accounts.sessions.get_mut(key) {
        session.is_interested = true;
    }
    host.deliver(now, key, stanza::result(iq.iq, query), out);
    IqReply::Later
}

/// A client's change of a contact.
enum RosterSet {
    Have { name: Option<Box<str>>, groups: Vec<Box<str>> },
    Remove,
}

fn set(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> IqReply {
    let (contact, wish) = match read(iq) {
        Ok(wish) => wish,
        Err(error) => return IqReply::Error(error),
    };
    let user = iq.from.bare();
    if host.accounts.is_anonymous(&user) {
        let error = StanzaError::new(Condition::NotAllowed, "anonymous accounts have no contacts");
        return IqReply::Error(error);
    }
    let asked =
        PendingRosterSet { iq: Element::clone(iq.iq), from: Jid::clone(iq.from), session: iq.session };
    let has_turn = change_queue::queue(host, now, &user, out, move |host, now, out| match wish {
        RosterSet::Have { name, groups } => set_contact(host, now, asked, contact, (name, groups), out),
        RosterSet::Remove => remove_contact(host, now, asked, contact, out),
    });
    if has_turn.is_ok() { IqReply::Later } else { IqReply::Error(too_many()) }
}

/// RFC 6121 §2.3.3: the values that an item may have.
fn read(iq: &IqRequest<'_>) -> Result<(Bare, RosterSet), StanzaError> {
    let bad = |text: &str| StanzaError::new(Condition::BadRequest, text);
    let mut items = iq.payload.elements();
    let (Some(item), None) = (items.next(), items.next()) else {
        return Err(bad("a roster set has exactly one item"));
    };
    let Some(jid) = item.attr("jid").filter(|_| item.is("item", ns::ROSTER)) else {
        return Err(bad("an item has an address: jid"));
    };
    let contact = Jid::parse(jid).map_err(|_| StanzaError::from(Condition::JidMalformed))?.bare();
    if contact == iq.from.bare() {
        return Err(StanzaError::new(Condition::NotAllowed, "nobody is a contact of oneself"));
    }
    // All other values of `subscription` are the server's to set.
    if item.attr("subscription") == Some("remove") {
        return Ok((contact, RosterSet::Remove));
    }
    let too_long = |text: &str| text.len() > limits::CONTACT_NAME;
    let name = item.attr("name").filter(|name| !name.is_empty());
    if name.is_some_and(too_long) {
        return Err(StanzaError::new(Condition::NotAcceptable, "the name is too long"));
    }
    let mut groups: BTreeSet<Box<str>> = BTreeSet::new();
    for group in item.elements().filter(|child| child.is("group", ns::ROSTER)) {
        let group = group.content();
        if group.is_empty() || too_long(&group) {
            return Err(StanzaError::new(Condition::NotAcceptable, "a group's name is empty or too long"));
        }
        if !groups.insert(group.into()) {
            return Err(bad("the same group twice"));
        }
    }
    if groups.len() > limits::CONTACT_GROUPS {
        return Err(StanzaError::new(Condition::NotAcceptable, "too many groups"));
    }
    Ok((contact, RosterSet::Have { name: name.map(Box::from), groups: groups.into_iter().collect() }))
}

/// A roster set that waits for its answer.
struct PendingRosterSet {
    iq: Element,
    from: Jid,
    session: Option<Key>,
}

fn answer(
    host: &mut Host,
    now: Instant,
    asked: &PendingRosterSet,
    result: Result<(), StanzaError>,
    out: &mut Outbox,
) {
    let answer = match result {
        Ok(()) => stanza::result(&asked.iq, None),
        Err(error) => stanza::refusal(&asked.iq, &error),
    };
    match asked.session {
        Some(key) => host.deliver(now, key, answer, out),
        None => host.route(answer, out),
    }
}

fn set_contact(
    host: &mut Host,
    now: Instant,
    asked: PendingRosterSet,
    contact: Bare,
    (name, groups): (Option<Box<str>>, Vec<Box<str>>),
    out: &mut Outbox,
) {
    let user = asked.from.bare();
    let Some(data) = host.accounts.data(&user) else { return };
    let known = data.contact(&contact).cloned();
    if known.is_none() && data.roster.len() >= limits::CONTACTS {
        let error = StanzaError::new(Condition::PolicyViolation, "too many contacts: remove some");
        return answer(host, now, &asked, Err(error), out);
    }
    let item = RosterItem { name, groups, is_listed: true, ..known.unwrap_or_default() };
    let next = (contact.clone(), Some(item));
    write_contact(host, now, &user.clone(), next, true, out, move |host, now, result, out| {
        if result.is_ok() {
            push_contact(host, now, &user, &contact, out);
        }
        answer(host, now, &asked, result, out);
    });
}

/// RFC 6121 §2.5.2: it ends the subscriptions too.
fn remove_contact(host: &mut Host, now: Instant, asked: PendingRosterSet, contact: Bare, out: &mut Outbox) {
    let user = asked.from.bare();
    let Some(data) = host.accounts.data(&user) else { return };
    let Some(item) = data.contact(&contact).filter(|item| item.is_listed).cloned() else {
        let error = StanzaError::new(Condition::ItemNotFound, "no such contact");
        return answer(host, now, &asked, Err(error), out);
    };
    write_contact(
        host,
        now,
        &user.clone(),
        (contact.clone(), None),
        true,
        out,
        move |host, now, result, out| {
            if result.is_ok() {
                push_contact(host, now, &user, &contact, out);
            }
            let is_done = result.is_ok();
            answer(host, now, &asked, result, out);
            if is_done {
                presence::contact_removed(host, &user, &contact, &item, out);
            }
        },
    );
}

/// The store first, then memory, then `then`. One that clients see gets a version of its own.
pub(super) fn write_contact(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    (contact, mut item): (Bare, Option<RosterItem>),
    is_visible: bool,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox) + 'static,
) {
    let Some(data) = host.accounts.data(user) else { return };
    let version = data.roster_version + u64::from(is_visible);
    if let Some(item) = item.as_mut().filter(|_| is_visible) {
        item.version = version;
    }
    let (owner, contact, known) = (user.clone(), contact.clone(), item.clone());
    let change = Change::Roster { user: user.clone(), contact: contact.clone(), item, version };
    change_queue::write(host, now, (user, change), out, move |host, now, result, out| {
        if let (Ok(()), Some(data)) = (result, host.accounts.data_mut(&owner)) {
            data.set_contact(contact, known, version);
            host.accounts.weigh(&owner);
        }
        then(host, now, result.map_err(not_written), out);
    });
}

/// RFC 6121 §2.1.6: as it is now, to every session that asked for the roster.
pub(super) fn push_contact(host: &mut Host, now: Instant, user: &Bare, contact: &Bare, out: &mut Outbox) {
    let Some(data) = host.accounts.data(user) else { return };
    let item = match data.contact(contact).filter(|item| item.is_listed) {
        Some(item) => item.element(contact),
        None => Element::new("item", ns::ROSTER).with("jid", contact.as_str()).with("subscription", "remove"),
    };
    let query = Element::new("query", ns::ROSTER).with("ver", data.roster_version.to_string()).child(item);
    for key in host.accounts.keys_of(user, |session| session.is_interested) {
        push_to_session(host, now, key, query.clone(), out);
    }
}

/// A question of the server's own, whose answer is ignored.
pub(super) fn push_to_session(host: &mut Host, now: Instant, key: Key, payload: Element, out: &mut Outbox) {
    let id = token(&mut host.rng)[..16].to_owned();
    let Some(session) = host.accounts.sessions.get(key) else { return };
    let push = Element::new("iq", ns::CLIENT)
        .with("type", "set")
        .with("id", id)
        .with("to", session.jid.as_str())
        .child(payload);
    host.deliver(now, key, push, out);
}
