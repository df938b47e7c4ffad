//! Contacts (RFC 6121 §2) with versions (§2.6).
//!
//! Every change of a contact is a [`RosterAction`]: by a client's roster set, by a subscription stanza that `presence` passes on, or by another
//! feature. It waits for its turn among the account's changes (`change_queue`), is written to the store, then into memory, and has its
//! consequences after that: the push to interested sessions, the answer, the stanza to the contact, presence (`handle_written`). `approval` has
//! the part of subscriptions.

mod approval;
mod shared;

use std::collections::BTreeSet;

use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::account_memory::AccountMemory;
use super::change_queue::{not_written, too_many};
use super::effect::{AccountData, Change, Effect, RosterItem, StoreFailure, Subscription};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::presence::subscription::SubscriptionState;
use super::pubsub::PubSubEvent;
use super::session::Session;
use super::{Host, Outbox};
use crate::{change_queue, connection, limits, presence, privileged, token};
use approval::ReceivedSubscription;
pub(super) use approval::{SentSubscription, SubscriptionRequest};
use shared::NO_VERSION;

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
    /// A contact, also one that is not listed because it only asks for presence.
    pub(super) fn contact(&self, contact: &Bare) -> Option<&RosterItem> {
        self.roster.iter().find(|(known, _)| known == contact).map(|(_, item)| item)
    }

    /// Puts a written contact into memory; `None` removes it.
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
fn of_another(_view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let condition = if iq.is_set { Condition::Forbidden } else { Condition::ServiceUnavailable };
    IqReply::Error(condition.into())
}

/// True if a stanza for an account is a roster set.
pub(super) fn sets_roster(iq: &Element) -> bool {
    iq.attr("type") == Some("set") && iq.get("query", ns::ROSTER).is_some()
}

/// Answers a roster get of the account itself or of a component that may read it (`privileged`), and checks a roster set. The result goes
/// to the session past the router, as pushes do.
pub(super) fn roster(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if !iq.is_set {
        return match get(view.accounts, iq) {
            Ok((Some(key), query)) => IqReply::Perform(IqEffect::Deliver(key, stanza::result(iq.iq, query))),
            Ok((None, query)) => IqReply::Result(query),
            Err(error) => IqReply::Error(error),
        };
    }
    let (contact, action) = match read(iq) {
        Ok(set) => set,
        Err(error) => return IqReply::Error(error),
    };
    if view.accounts.is_anonymous(&iq.to.bare()) {
        let error = StanzaError::new(Condition::NotAllowed, "anonymous accounts have no contacts");
        return IqReply::Error(error);
    }
    IqReply::Perform(IqEffect::Roster(contact, action))
}

/// RFC 6121 §2.1.3 and §2.1.4: the roster, `None` if the client has it, and the session that is told of changes from now on.
fn get(
    accounts: &mut AccountMemory,
    iq: &IqRequest<'_>,
) -> Result<(Option<Key>, Option<Element>), StanzaError> {
    let user = iq.to.bare();
    let Some(version) = accounts.roster_version(&user) else {
        return Err(Condition::InternalServerError.into());
    };
    // §2.6.3: nothing to send, and later changes are pushed.
    let is_known = iq.payload.attr("ver") == Some(&*version);
    let query = (!is_known).then(|| {
        let items = accounts.listed_items(&user).map(|(contact, item)| item.element(contact));
        Element::new("query", ns::ROSTER)
            .with_opt("ver", iq.payload.attr("ver").map(|_| version))
            .children(items)
    });
    if let Some(session) = iq.session.and_then(|key| accounts.sessions.get_mut(key)) {
        // RFC 6121 §2.2: a resource that has requested the roster is interested, available or not.
        session.is_interested = true;
        session.has_old_groups = false;
    }
    Ok((iq.session, query))
}

/// RFC 6121 §2.3.3: the values that an item may have.
fn read(iq: &IqRequest<'_>) -> Result<(Bare, RosterAction), StanzaError> {
    let bad = |text: &str| StanzaError::new(Condition::BadRequest, text);
    let mut items = iq.payload.elements();
    // RFC 6121 §2.1.5: a roster set has exactly one item.
    let (Some(item), None) = (items.next(), items.next()) else {
        return Err(bad("a roster set has exactly one item"));
    };
    let Some(jid) = item.attr("jid").filter(|_| item.is("item", ns::ROSTER)) else {
        return Err(bad("an item has an address: jid"));
    };
    let contact = Jid::parse(jid).map_err(|_| StanzaError::from(Condition::JidMalformed))?.bare();
    if contact == iq.to.bare() {
        return Err(StanzaError::new(Condition::NotAllowed, "an account cannot be its own contact"));
    }
    if item.attr("subscription") == Some("remove") {
        return Ok((contact, RosterAction::Remove(PendingRosterSet::new(iq))));
    }
    // RFC 6121 §2.1.2.5: of a client all other values are ignored. COMPAT(gateways written for ejabberd and Prosody): a component that
    // may change rosters sets the subscription to its own contacts.
    let named = item.attr("subscription").filter(|_| iq.from.bare() != iq.to.bare());
    let subscription = named
        .map(|name| Subscription::parse(name).ok_or_else(|| bad("no state of a subscription")))
        .transpose()?;
    let too_long = |text: &str| text.len() > limits::CONTACT_NAME;
    let name = item.attr("name").filter(|name| !name.is_empty());
    if name.is_some_and(too_long) {
        return Err(StanzaError::new(Condition::NotAcceptable, "the name is too long"));
    }
    let mut groups: BTreeSet<Box<str>> = BTreeSet::new();
    for group in item.elements().filter(|child| child.is("group", ns::ROSTER)) {
        let group = group.content();
        // RFC 6121 §2.3.3: `not-acceptable`; a group that is named twice is `bad-request`.
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
    let (name, groups) = (name.map(Box::from), groups.into_iter().collect());
    Ok((contact, RosterAction::Set { asked: PendingRosterSet::new(iq), name, groups, subscription }))
}

/// A roster set that waits for its answer.
pub(super) struct PendingRosterSet {
    iq: Element,
    /// The session that asks; None: the iq came by the router, and the answer goes by it.
    session: Option<Key>,
}

impl PendingRosterSet {
    /// Keeps the request for its answer.
    fn new(iq: &IqRequest<'_>) -> PendingRosterSet {
        PendingRosterSet { iq: iq.iq.clone(), session: iq.session }
    }
}

/// A change of one contact, before it has its turn.
pub(super) enum RosterAction {
    /// A client or a component sets the contact; a component sets its subscription, too.
    Set {
        asked: PendingRosterSet,
        name: Option<Box<str>>,
        groups: Vec<Box<str>>,
        subscription: Option<Subscription>,
    },
    /// A client removes the contact.
    Remove(PendingRosterSet),
    /// The account sends a subscription stanza.
    Send(SentSubscription),
    /// The account receives a subscription stanza.
    Receive(ReceivedSubscription),
    /// The account approves the contact's request before it comes (RFC 6121 §3.4).
    Approve,
    /// The account and the contact see each other from now on; then the effect.
    Befriend(Option<Effect>),
}

/// A change of a contact that is being written.
pub(super) struct PendingContact {
    /// `None`: the contact is removed.
    item: Option<RosterItem>,
    /// The roster's version afterwards.
    version: u64,
    /// Clients see a difference.
    is_visible: bool,
    cause: ContactCause,
}

/// The cause of a [`PendingContact`], which decides about its consequences.
enum ContactCause {
    /// A client or a component has set the contact, whose subscription was this.
    Set(PendingRosterSet, SubscriptionState),
    /// With the contact as it was.
    Removal(PendingRosterSet, RosterItem),
    Sent(SentSubscription, approval::SubscriptionChange),
    Received(ReceivedSubscription, approval::SubscriptionChange),
    Approval,
    Friendship(Option<Effect>),
}

/// Everything that [`Roster`] asks of its host, about one contact of one account.
pub(super) enum RosterEffect {
    /// Write the contact; answered by `handle_written`.
    Write(Change, Box<PendingContact>),
    /// Send a stanza to its addressee.
    Send(Element),
    /// Deliver the answer of a roster set to the session that asked.
    Answer(Key, Element),
    /// Deliver a stanza to these sessions.
    Deliver(Vec<Key>, Element),
    /// Push the query to every session that asked for the roster (RFC 6121 §2.1.6).
    Push(Element),
    /// The contact gets the account's presence.
    SendPresences,
    /// The contact sees the account become unavailable.
    SendUnavailable,
    /// The contact is asked for its presence.
    SendProbes,
    /// The contact sees the account's presence from now on, and perhaps its nodes.
    Added,
    /// An effect of the host.
    Host(Effect),
}

/// The feature: the contacts of accounts and the subscriptions to their presence. It is told of changes that have their turn and of
/// the store's answers, and has effects for the host.
#[derive(Default)]
pub(super) struct Roster {
    /// The host takes them after each call.
    effects: Vec<RosterEffect>,
}

impl Roster {
    /// Begins a change of a contact of the account, when the changes before it are on disk.
    fn begin(&mut self, accounts: &AccountMemory, (user, contact): (&Bare, &Bare), action: RosterAction) {
        let Some(data) = accounts.data(user) else { return };
        let known = data.contact(contact);
        match action {
            RosterAction::Set { asked, name, mut groups, subscription } => {
                accounts.groups.strip(user, contact, &mut groups);
                if known.is_none() && data.roster.len() >= limits::CONTACTS {
                    let text = "too many contacts: remove some";
                    return self.answer(&asked, Err(StanzaError::new(Condition::PolicyViolation, text)));
                }
                let before = SubscriptionState::of(known);
                let mut item =
                    RosterItem { name, groups, is_listed: true, ..known.cloned().unwrap_or_default() };
                if let Some(subscription) = subscription {
                    set_subscription(&mut item, subscription);
                }
                self.write(data, (user, contact), (Some(item), true), ContactCause::Set(asked, before));
            }
            // RFC 6121 §2.5.2: it ends the subscriptions too.
            RosterAction::Remove(asked) => match known.filter(|item| item.is_listed).cloned() {
                Some(item) => {
                    self.write(data, (user, contact), (None, true), ContactCause::Removal(asked, item));
                }
                // A contact by a shared group, without an item that the account has written: clients get it again.
                None if accounts.groups.subscription(user, contact).has_to() => {
                    self.finish_set(accounts, (user, contact), &asked, Ok(()));
                }
                None => {
                    let error = StanzaError::new(Condition::ItemNotFound, "no such contact");
                    self.answer(&asked, Err(error));
                }
            },
            RosterAction::Send(request) => self.send(accounts, data, (user, contact), request),
            RosterAction::Receive(request) => self.receive(accounts, data, (user, contact), request),
            RosterAction::Approve => {
                let mut item = known.cloned().unwrap_or_default();
                (item.approved, item.is_listed) = (true, true);
                self.write(data, (user, contact), (Some(item), false), ContactCause::Approval);
            }
            RosterAction::Befriend(next) => {
                let mut item = known.cloned().unwrap_or_default();
                (item.subscription, item.is_listed) = (Subscription::Both, true);
                (item.ask, item.asked) = (false, None);
                self.write(data, (user, contact), (Some(item), true), ContactCause::Friendship(next));
            }
        }
    }

    /// The store first, then memory, then the consequences. A contact that clients see gets a version of its
    /// own; a change that none sees (a request that waits) leaves the version as it was.
    fn write(
        &mut self,
        data: &AccountData,
        (user, contact): (&Bare, &Bare),
        (mut item, is_visible): (Option<RosterItem>, bool),
        cause: ContactCause,
    ) {
        let version = data.roster_version + u64::from(is_visible);
        if let Some(item) = item.as_mut().filter(|_| is_visible) {
            item.version = version;
        }
        let change =
            Change::Roster { user: user.clone(), contact: contact.clone(), item: item.clone(), version };
        let pending = Box::new(PendingContact { item, version, is_visible, cause });
        self.effects.push(RosterEffect::Write(change, pending));
    }

    /// A contact is on disk, or could not be written.
    fn handle_written(
        &mut self,
        accounts: &mut AccountMemory,
        (user, contact): (&Bare, &Bare),
        pending: PendingContact,
        result: Result<(), StoreFailure>,
    ) {
        let PendingContact { item, version, is_visible, cause } = pending;
        if let (Ok(()), Some(data)) = (result, accounts.data_mut(user)) {
            data.set_contact(contact.clone(), item, version);
            accounts.weigh(user);
        }
        let result = result.map_err(not_written);
        let is_written = result.is_ok();
        match cause {
            ContactCause::Set(asked, before) => {
                self.finish_set(accounts, (user, contact), &asked, result);
                if is_written {
                    self.show_set(accounts, (user, contact), before);
                }
            }
            ContactCause::Removal(asked, item) => {
                self.finish_set(accounts, (user, contact), &asked, result);
                if is_written {
                    self.end_subscriptions(accounts, (user, contact), &item);
                }
            }
            ContactCause::Sent(request, change) => {
                if self.handle_sent(request, change, result) {
                    if is_visible {
                        self.push_contact(accounts, user, contact);
                    }
                    self.show_change(accounts, (user, contact), change.before, change.step.state);
                    if change.step.state.from && !change.before.from {
                        self.effects.push(RosterEffect::Added);
                    }
                }
            }
            ContactCause::Received(request, change) => {
                if self.handle_received(accounts, (user, contact), request, change, result) {
                    if is_visible {
                        self.push_contact(accounts, user, contact);
                    }
                    if change.step.is_approved {
                        self.approve(user, contact);
                        self.effects.push(RosterEffect::Added);
                    } else {
                        self.show_change(accounts, (user, contact), change.before, change.step.state);
                    }
                }
            }
            ContactCause::Friendship(next) if is_written => {
                self.push_contact(accounts, user, contact);
                self.effects.extend([RosterEffect::SendPresences, RosterEffect::SendProbes]);
                self.effects.extend(next.map(RosterEffect::Host));
            }
            ContactCause::Friendship(_) | ContactCause::Approval => {}
        }
    }

    /// The push comes before the answer, so the client has the new state when it reads the answer.
    fn finish_set(
        &mut self,
        accounts: &AccountMemory,
        (user, contact): (&Bare, &Bare),
        asked: &PendingRosterSet,
        result: Result<(), StanzaError>,
    ) {
        if result.is_ok() {
            self.push_contact(accounts, user, contact);
        }
        self.answer(asked, result);
    }

    /// A contact whose subscription a component has set sees the account's presence or does not, and is asked for its own.
    fn show_set(
        &mut self,
        accounts: &AccountMemory,
        (user, contact): (&Bare, &Bare),
        before: SubscriptionState,
    ) {
        let after = SubscriptionState::of(accounts.data(user).and_then(|data| data.contact(contact)));
        self.show_change(accounts, (user, contact), before, after);
        if after.from && !before.from {
            self.effects.push(RosterEffect::Added);
        }
        if after.to && !before.to && !accounts.groups.subscription(user, contact).has_to() {
            self.effects.push(RosterEffect::SendProbes);
        }
    }

    /// Answers a roster set past the router when the session is here: the push before it went that way.
    fn answer(&mut self, asked: &PendingRosterSet, result: Result<(), StanzaError>) {
        let answer = match result {
            Ok(()) => stanza::result(&asked.iq, None),
            Err(error) => stanza::refusal(&asked.iq, &error),
        };
        self.effects.push(match asked.session {
            Some(key) => RosterEffect::Answer(key, answer),
            None => RosterEffect::Send(answer),
        });
    }

    /// RFC 6121 §2.1.6: as it is now, to every session that asked for the roster.
    fn push_contact(&mut self, accounts: &AccountMemory, user: &Bare, contact: &Bare) {
        let Some(version) = accounts.roster_version(user) else { return };
        self.push_contact_as(accounts, (user, contact), version);
    }

    /// Pushes a contact as [`push_contact`](Self::push_contact) does, with this version.
    fn push_contact_as(
        &mut self,
        accounts: &AccountMemory,
        (user, contact): (&Bare, &Bare),
        version: String,
    ) {
        let item = match accounts.listed_item(user, contact) {
            Some(item) => item.element(contact),
            None => {
                let item = Element::new("item", ns::ROSTER).with("jid", contact.as_str());
                item.with("subscription", "remove")
            }
        };
        let query = Element::new("query", ns::ROSTER).with("ver", version);
        self.effects.push(RosterEffect::Push(query.child(item)));
    }
}

/// The subscription that a component sets. A request that waits for what is granted by it does not wait any more.
fn set_subscription(item: &mut RosterItem, subscription: Subscription) {
    item.subscription = subscription;
    item.ask &= !subscription.has_to();
    if subscription.has_from() {
        item.asked = None;
    }
}

/// Queues a change of a contact of the account behind the changes that are on their way. Returns the job that changes it, if it is to be
/// done now.
///
/// # Errors
/// Too much waits already.
pub(super) fn queue_change(
    accounts: &mut AccountMemory,
    user: &Bare,
    (contact, action): (Bare, RosterAction),
) -> Result<Option<impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static + use<>>, StanzaError> {
    let owner = user.clone();
    let turn = accounts.changes.queue(user, move |host: &mut Host, now, out: &mut Outbox| {
        host.roster.begin(&host.accounts, (&owner, &contact), action);
        perform(host, now, (&owner, &contact), out);
    });
    turn.map_err(|_| too_many())
}

/// Queues a change of a contact by a subscription stanza, as [`queue_change`] does. The stanza is refused if too much waits already.
pub(super) fn queue_subscription(
    accounts: &mut AccountMemory,
    request: SubscriptionRequest,
    out: &mut Outbox,
) -> Option<impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static + use<>> {
    let SubscriptionRequest { user, contact, action, stanza } = request;
    match queue_change(accounts, &user, (contact, action)) {
        Ok(turn) => turn,
        Err(error) => {
            presence::refuse(&stanza, &error, out);
            None
        }
    }
}

/// Performs the effects of [`Roster`]; the store's replies go back into it.
pub(super) fn perform(host: &mut Host, now: Instant, (user, contact): (&Bare, &Bare), out: &mut Outbox) {
    let mut effects = std::mem::take(&mut host.roster.effects);
    for effect in effects.drain(..) {
        match effect {
            RosterEffect::Write(change, pending) => {
                let (owner, contact) = (user.clone(), contact.clone());
                let parts = (&mut host.accounts, &mut host.store);
                let done = change_queue::write(parts, (user, change), out, move |host, now, result, out| {
                    let accounts = &mut host.accounts;
                    host.roster.handle_written(accounts, (&owner, &contact), *pending, result);
                    perform(host, now, (&owner, &contact), out);
                });
                if let Some(then) = done {
                    then(host, now, Ok(()), out);
                }
            }
            RosterEffect::Send(stanza) => host.route(stanza, out),
            RosterEffect::Answer(key, answer) => host.deliver(now, &[key], answer, out),
            RosterEffect::Deliver(keys, stanza) => host.deliver(now, &keys, stanza, out),
            RosterEffect::Push(query) => {
                for has_old_groups in [false, true] {
                    let gets =
                        |session: &Session| session.is_interested && session.has_old_groups == has_old_groups;
                    let keys = host.accounts.keys_of(user, gets);
                    let mut query = query.clone();
                    if has_old_groups {
                        query.set("ver", NO_VERSION);
                    }
                    push_to_sessions((&mut host.accounts, &mut host.rng), now, &keys, &query, out);
                }
                connection::perform_deliveries(host, now, out);
                privileged::push_roster((&host.settings, &mut host.rng), user, &query, out);
            }
            RosterEffect::SendPresences => {
                presence::send_presences(&host.accounts, &host.phones, user, contact.as_str(), out);
            }
            RosterEffect::SendUnavailable => {
                presence::send_unavailable(&host.accounts, &host.phones, user, contact.as_str(), out);
            }
            RosterEffect::SendProbes => presence::send_probes(&host.accounts, user, contact.as_str(), out),
            RosterEffect::Added => host.tell_pubsub(now, PubSubEvent::ContactAdded { user, contact }, out),
            RosterEffect::Host(effect) => out.push(effect),
        }
    }
    host.roster.effects = effects;
}

/// Sends a request of the server's own, whose answers are ignored, to these sessions. Each has an id of its
/// own, as RFC 6120 §8.1.3 wants.
pub(super) fn push_to_sessions(
    (accounts, rng): (&mut AccountMemory, &mut Rng),
    now: Instant,
    keys: &[Key],
    payload: &Element,
    out: &mut Outbox,
) {
    for key in keys {
        let id = token(rng)[..16].to_owned();
        let Some(session) = accounts.sessions.get(*key) else { continue };
        let push = Element::new("iq", ns::CLIENT)
            .with("type", "set")
            .with("id", id)
            .with("to", session.jid.as_str())
            .child(payload.clone());
        accounts.deliver(now, *key, push, out);
    }
}
