//! Blocking (XEP-0191).
//!
//! `route` asks `blocks_outgoing` for each stanza of a session and `blocks_incoming` for each one to an account. A change of the list has its
//! turn in the account's queue of changes (`change_queue`) and is written first; then the client has its answer, other clients the push, and
//! contacts see the account go or come.

use std::collections::HashSet;

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::change_queue::{not_written, too_many};
use super::effect::Change;
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::phones::Phones;
use super::session::Session;
use super::{Host, Outbox};
use crate::account_memory::AccountMemory;
use crate::{change_queue, connection, limits, outgoing, presence, reports, roster};

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0191",
        title: "Blocking Command",
        version: "1.3",
        level: Level::Complete,
        file: "crates/chat/src/blocking.rs",
        note: "",
    }],
    account: &[ns::BLOCKING],
    server: &[ns::BLOCKING],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "blocklist", ns: ns::BLOCKING, run: blocklist },
        IqHandler { at: IqTarget::Own, name: "block", ns: ns::BLOCKING, run: change },
        IqHandler { at: IqTarget::Own, name: "unblock", ns: ns::BLOCKING, run: change },
    ],
};

/// XEP-0191 §5: an address matches itself, a bare one all its resources too, a domain all that is there.
fn matches(blocked: &Jid, jid: &Jid) -> bool {
    let blocked = blocked.as_str();
    blocked == jid.as_str() || blocked == jid.bare_str() || blocked == jid.domain()
}

/// A blocking list for comparison with many addresses: each costs three look-ups, however long the list is.
pub(super) struct Blocklist<'a> {
    blocked: HashSet<&'a str>,
}

impl<'a> Blocklist<'a> {
    pub(super) fn new(blocked: &'a [Jid]) -> Blocklist<'a> {
        Blocklist { blocked: blocked.iter().map(Jid::as_str).collect() }
    }

    /// True if the address, its bare address or its domain is in the list.
    pub(super) fn has(&self, jid: &Jid) -> bool {
        !self.blocked.is_empty()
            && [jid.as_str(), jid.bare_str(), jid.domain()].iter().any(|text| self.blocked.contains(text))
    }
}

/// The list as a result (`blocklist`) or as a push (`block`, `unblock`).
fn list(name: &'static str, blocked: &[Jid]) -> Element {
    let items = blocked.iter().map(|jid| Element::new("item", ns::BLOCKING).with("jid", jid.as_str()));
    Element::new(name, ns::BLOCKING).children(items)
}

/// XEP-0191 §3.2. A client that asks for the list is notified of changes.
fn blocklist(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    let Some(data) = view.accounts.data(&iq.from.bare()) else {
        return IqReply::Error(Condition::InternalServerError.into());
    };
    let list = list("blocklist", &data.blocked);
    let Some(key) = iq.session else { return IqReply::Result(Some(list)) };
    if let Some(session) = view.accounts.sessions.get_mut(key) {
        session.wants_blocklist = true;
    }
    // Past the router, as pushes go: a push of a later change must not come before the list that it changes.
    IqReply::Perform(IqEffect::Deliver(key, stanza::result(iq.iq, Some(list))))
}

/// A `<block/>` or an `<unblock/>`.
fn change(_view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    match read(iq) {
        // An empty `<unblock/>` removes all entries (XEP-0191 §3.5).
        Ok(jids) if iq.payload.name() == "unblock" => {
            IqReply::Perform(IqEffect::Block(BlockingCommand::Unblock(jids)))
        }
        Ok(jids) if jids.is_empty() => {
            IqReply::Error(StanzaError::new(Condition::BadRequest, "users to block: at least one item"))
        }
        Ok(jids) => IqReply::Perform(IqEffect::Block(BlockingCommand::Block(jids))),
        Err(error) => IqReply::Error(error),
    }
}

/// The addresses of a request, each once: the list is compared with every stanza.
fn read(iq: &IqRequest<'_>) -> Result<Vec<Jid>, StanzaError> {
    if !iq.is_set {
        return Err(Condition::BadRequest.into());
    }
    let mut jids: Vec<Jid> = Vec::new();
    let mut seen = HashSet::new();
    for item in iq.payload.elements() {
        let Some(jid) = item.attr("jid").filter(|_| item.is("item", ns::BLOCKING)) else {
            return Err(StanzaError::new(Condition::BadRequest, "items with addresses only"));
        };
        let jid = Jid::parse(jid).map_err(|_| StanzaError::from(Condition::JidMalformed))?;
        if seen.insert(jid.clone()) {
            jids.push(jid);
        }
    }
    Ok(jids)
}

/// A change of a blocking list.
pub(super) enum BlockingCommand {
    Block(Vec<Jid>),
    /// No address: all entries.
    Unblock(Vec<Jid>),
}

impl BlockingCommand {
    /// The list after the change. Entries that are there already, or are not there, are passed over.
    fn apply(&self, before: &[Jid]) -> Result<Vec<Jid>, StanzaError> {
        let mut after = before.to_vec();
        match self {
            BlockingCommand::Block(jids) => {
                let known: HashSet<&Jid> = before.iter().collect();
                after.extend(jids.iter().filter(|jid| !known.contains(jid)).cloned());
            }
            BlockingCommand::Unblock(jids) => {
                let named: HashSet<&Jid> = jids.iter().collect();
                after.retain(|jid| !jids.is_empty() && !named.contains(jid));
            }
        }
        if after.len() > limits::BLOCKED {
            let text = "too many are blocked: unblock some";
            return Err(StanzaError::new(Condition::PolicyViolation, text));
        }
        Ok(after)
    }

    /// The push for the other clients: the request as it was made, also entries that changed nothing (§3.3).
    fn push(&self) -> Element {
        match self {
            BlockingCommand::Block(jids) => list("block", jids),
            BlockingCommand::Unblock(jids) => list("unblock", jids),
        }
    }
}

/// A change that is being written: the lists before and after it.
struct BlockingChange {
    command: BlockingCommand,
    before: Vec<Jid>,
    after: Vec<Jid>,
}

/// Everything that a written [`BlockingChange`] causes.
enum BlockingEffect {
    /// The contact sees the user become unavailable.
    SendUnavailable(Bare),
    /// Addresses that are hidden now and got directed presence see the session become unavailable.
    EndDirected,
    /// The contact sees the user's presence again.
    SendPresences(Bare),
    /// The user sees the contact's presence again.
    SendProbes(Bare),
}

impl BlockingChange {
    fn new(command: BlockingCommand, before: &[Jid]) -> Result<BlockingChange, StanzaError> {
        let after = command.apply(before)?;
        Ok(BlockingChange { command, before: before.to_vec(), after })
    }

    /// Accepts the addresses that the change blocks.
    fn hidden(&self) -> impl Fn(&Jid) -> bool {
        let (before, after) = (Blocklist::new(&self.before), Blocklist::new(&self.after));
        move |jid| after.has(jid) && !before.has(jid)
    }

    /// Accepts the addresses that the change unblocks.
    fn shown(&self) -> impl Fn(&Jid) -> bool {
        let (before, after) = (Blocklist::new(&self.before), Blocklist::new(&self.after));
        move |jid| before.has(jid) && !after.has(jid)
    }

    /// The change is on disk. An account that has been removed meanwhile has no data.
    fn handle_written(&self, accounts: &mut AccountMemory, user: &Bare) -> Vec<BlockingEffect> {
        let mut effects = Vec::new();
        let Some(data) = accounts.data_mut(user) else { return effects };
        data.blocked.clone_from(&self.after);
        let (is_hidden, is_shown) = (self.hidden(), self.shown());
        // XEP-0191 §3.3: newly blocked contacts see the user become unavailable.
        for (contact, subscription) in accounts.contacts(user) {
            if subscription.has_from() && is_hidden(contact.as_jid()) {
                effects.push(BlockingEffect::SendUnavailable(contact.clone()));
            }
        }
        effects.push(BlockingEffect::EndDirected);
        // XEP-0191 §3.4: contacts that are no longer blocked see the user's presence, and the user theirs.
        for (contact, subscription) in accounts.contacts(user) {
            if !is_shown(contact.as_jid()) {
                continue;
            }
            if subscription.has_from() {
                effects.push(BlockingEffect::SendPresences(contact.clone()));
            }
            if subscription.has_to() {
                effects.push(BlockingEffect::SendProbes(contact.clone()));
            }
        }
        effects
    }
}

/// The error for a stanza to an address that its sender has blocked; `None`: it may be sent.
pub(super) fn blocks_outgoing(accounts: &AccountMemory, key: Key, stanza: &Element) -> Option<StanzaError> {
    let user = accounts.sessions.get(key)?.jid.bare();
    // The fast path: nearly all accounts block no address.
    if accounts.data(&user)?.blocked.is_empty() {
        return None;
    }
    let to = stanza::to(stanza).ok()??;
    blocks_incoming(accounts, &user, &to).then(blocked)
}

/// The error for a stanza to an address that the account has blocked (XEP-0191 §3.2).
pub(super) fn blocked() -> StanzaError {
    StanzaError {
        kind: Some("cancel"),
        ..StanzaError::from(Condition::NotAcceptable).with(Element::new("blocked", ns::BLOCKING_ERRORS))
    }
}

/// Delivers the refusal past the router: the answer of a blocked address would be dropped there. The caller performs the effects
/// of the session.
pub(super) fn refuse_blocked(
    accounts: &mut AccountMemory,
    now: Instant,
    key: Key,
    stanza: &Element,
    error: &StanzaError,
    out: &mut Outbox,
) {
    if stanza::may_be_refused(stanza) {
        accounts.deliver(now, key, stanza::refusal(stanza, error), out);
    }
}

/// Neither oneself nor one's server can be blocked, whatever the list says: they are how it is changed.
pub(super) fn blocks_incoming(accounts: &AccountMemory, user: &Bare, from: &Jid) -> bool {
    let Some(data) = accounts.data(user) else { return false };
    let is_own = from.bare_str() == user.as_str() || from.as_str() == user.domain();
    !is_own && data.blocked.iter().any(|blocked| matches(blocked, from))
}

/// Queues a change of the list behind the changes that are on their way; it performs the effects of [`BlockingChange`]. Returns the job that
/// changes the list, if it is to be done now.
///
/// # Errors
/// Too much waits already.
pub(super) fn queue_change(
    accounts: &mut AccountMemory,
    iq: &IqRequest<'_>,
    command: BlockingCommand,
) -> Result<Option<impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static + use<>>, StanzaError> {
    let (user, iq) = (iq.from.bare(), iq.iq.clone());
    let turn = accounts.changes.queue(&user.clone(), move |host: &mut Host, now, out: &mut Outbox| {
        let Some(data) = host.accounts.data(&user) else { return };
        let change = match BlockingChange::new(command, &data.blocked) {
            Ok(change) => change,
            Err(error) => return outgoing::refuse(&iq, &error, out),
        };
        let write = Change::Blocked { user: user.clone(), blocked: change.after.clone() };
        let (owner, parts) = (user.clone(), (&mut host.accounts, &mut host.store));
        let done = change_queue::write(parts, (&owner, write), out, move |host, now, result, out| {
            if let Err(error) = result {
                return outgoing::refuse(&iq, &not_written(error), out);
            }
            // The answer before the push: the client that asked knows the change by its answer.
            outgoing::answer(&iq, Ok(None), out);
            let effects = change.handle_written(&mut host.accounts, &user);
            // The list counts as memory of the account.
            host.accounts.weigh(&user);
            // The other clients of the account learn of the change first, whether or not a contact is concerned.
            let keys = host.accounts.keys_of(&user, |session: &Session| session.wants_blocklist);
            let push = change.command.push();
            roster::push_to_sessions((&mut host.accounts, &mut host.rng), now, &keys, &push, out);
            connection::perform_deliveries(host, now, out);
            for effect in effects {
                perform((&mut host.accounts, &host.phones), &user, (&change, effect), out);
            }
            reports::forward((&host.settings, &mut host.rng), &user, &iq, out);
        });
        if let Some(then) = done {
            then(host, now, Ok(()), out);
        }
    });
    turn.map_err(|_| too_many())
}

/// Performs an effect of a written change.
fn perform(
    (accounts, phones): (&mut AccountMemory, &Phones),
    user: &Bare,
    (change, effect): (&BlockingChange, BlockingEffect),
    out: &mut Outbox,
) {
    match effect {
        BlockingEffect::SendUnavailable(contact) => {
            presence::send_unavailable(accounts, phones, user, contact.as_str(), out);
        }
        BlockingEffect::EndDirected => end_directed(accounts, user, change.hidden(), out),
        BlockingEffect::SendPresences(contact) => {
            presence::send_presences(accounts, phones, user, contact.as_str(), out);
        }
        BlockingEffect::SendProbes(contact) => {
            presence::send_probes(accounts, user, contact.as_str(), out);
        }
    }
}

/// Ends the directed presence of the account's sessions to addresses that are hidden now: they need not be in the roster.
fn end_directed(
    accounts: &mut AccountMemory,
    user: &Bare,
    is_hidden: impl Fn(&Jid) -> bool,
    out: &mut Outbox,
) {
    for key in accounts.keys_of(user, |session: &Session| !session.directed.is_empty()) {
        let Some(session) = accounts.sessions.get_mut(key) else { continue };
        let gone = super::presence::gone(&session.jid);
        session.directed.change(|directed| {
            out.extend(directed.extract_if(.., |to| is_hidden(to)).map(|to| {
                let gone = gone.clone().with("to", to.as_str());
                super::Effect::Route(Box::new(gone))
            }));
        });
    }
}
