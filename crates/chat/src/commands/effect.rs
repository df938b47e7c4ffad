//! The effects of administrators' commands, and how a host performs them: an action of all hosts, a request
//! to the store, the reply.
//!
//! A command is a chain: each step is an effect with a continuation, which gets the reply and returns the
//! next step. The form travels with it, so no command has state in memory between its steps. Each chain ends
//! with one answer to the form's iq. The message of the day is an item of the domain in the store; every host
//! has a copy of it, once it was read or written.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, ns};

use super::super::account_memory::AccountMemory;
use super::super::change_queue::not_written;
use super::super::effect::{
    AccountData, AccountList, AccountRefusal, Accounts, Change, HostAction, HostActionResult, Load,
    StoreFailure, StoreReply,
};
use super::super::pubsub::items_of;
use super::super::store_requests::StoreRequests;
use super::super::{Host, ItemQuery, Outbox};
use super::{CURRENT, Command, Commands, Form, MOTD, PREFIX};
use crate::outgoing;

/// The next step of a command, or the error that its client gets.
pub(in super::super) type CommandResult = Result<CommandEffect, StanzaError>;

/// Makes the result of what all hosts have done.
type ActContinuation = Box<dyn FnOnce(&Form, HostActionResult) -> Result<Element, StanzaError>>;
/// The next step after a change or a list of accounts.
type AccountsContinuation = Box<dyn FnOnce(&Form, AccountList) -> CommandResult>;
/// The next step after the data of an account were read.
type AccountContinuation = Box<dyn FnOnce(Instant, Box<AccountData>) -> CommandResult>;

/// The next step of a command. Replies go into the continuation that it has.
pub(in super::super) enum CommandEffect {
    /// The command is done: its result.
    Complete(Element),
    /// All hosts of the server perform the action, this one too; the command is done then.
    Act(HostAction, ActContinuation),
    /// The store changes or lists accounts.
    Accounts(Accounts, AccountsContinuation),
    /// The store reads the data of an account.
    ReadAccount(Bare, AccountContinuation),
    /// The message of the day changes, first in the store. `is_sent`: users that are signed in get it now.
    WriteMotd { message: Option<Element>, is_sent: bool },
    /// The client gets the form of this command with the current message of the day in it (XEP-0133 §4.25).
    FillInMotd(&'static Command),
}

impl CommandEffect {
    /// An action of all hosts.
    pub(in super::super) fn act(
        action: HostAction,
        then: impl FnOnce(&Form, HostActionResult) -> Result<Element, StanzaError> + 'static,
    ) -> CommandEffect {
        CommandEffect::Act(action, Box::new(then))
    }
}

/// A note that the result is not whole (XEP-0050 §3.4).
fn warning(text: &str) -> Element {
    Element::new("note", ns::COMMANDS).with("type", "warn").text(text)
}

/// Performs the next step of the command that the form belongs to.
pub(super) fn perform(
    store: &mut StoreRequests,
    now: Instant,
    form: Form,
    result: CommandResult,
    out: &mut Outbox,
) {
    let effect = match result {
        Ok(effect) => effect,
        Err(error) => return outgoing::refuse(&form.iq, &error, out),
    };
    match effect {
        CommandEffect::Complete(payload) => outgoing::answer(&form.iq, Ok(Some(payload)), out),
        CommandEffect::Act(action, then) => {
            store.load(Load::Act(Box::new(action)), out, move |host, now, result, out| {
                let result = match result {
                    Ok(StoreReply::HostActionResult(mut acted)) => {
                        // In a farm some nodes may not have answered: the result says so.
                        let missing = acted.missing.take();
                        then(&form, acted).map(|result| result.children(missing.map(|text| warning(&text))))
                    }
                    _ => Err(StanzaError::new(Condition::ResourceConstraint, "not now: try again later")),
                };
                perform(&mut host.store, now, form, result.map(CommandEffect::Complete), out);
            });
        }
        CommandEffect::Accounts(ask, then) => {
            store.load(Load::Accounts(Box::new(ask)), out, move |host, now, result, out| {
                let result = match result {
                    Ok(StoreReply::Accounts(Ok(listed))) => then(&form, listed),
                    Ok(StoreReply::Accounts(Err(not_done))) => Err(error_of(&not_done)),
                    Ok(_) => Err(Condition::InternalServerError.into()),
                    Err(error) => Err(store_failure(error)),
                };
                perform(&mut host.store, now, form, result, out);
            });
        }
        CommandEffect::ReadAccount(user, then) => {
            store.load(Load::User { user }, out, move |host, now, result, out| {
                let result = match result {
                    Ok(StoreReply::User(Some(data))) => then(now, data),
                    Ok(_) => Err(Condition::ItemNotFound.into()),
                    Err(error) => Err(store_failure(error)),
                };
                perform(&mut host.store, now, form, result, out);
            });
        }
        CommandEffect::WriteMotd { message, is_sent } => {
            write_motd(store, now, form, (message, is_sent), out);
        }
        CommandEffect::FillInMotd(command) => {
            let domain = form.domain.domain().into();
            read_motd(store, domain, out, move |host, now, motd, out| {
                let node = format!("{PREFIX}{}", command.node);
                let filled_in = motd.map(|motd| command.ask(&node, &form.session, motd.as_ref()));
                perform(&mut host.store, now, form, filled_in.map(CommandEffect::Complete), out);
            });
        }
    }
}

/// Writes the message of the day or its removal; the hosts get it afterwards.
fn write_motd(
    store: &mut StoreRequests,
    now: Instant,
    form: Form,
    (message, is_sent): (Option<Element>, bool),
    out: &mut Outbox,
) {
    let item = message.clone().map(Box::new);
    let (owner, node, id) = (form.domain.clone(), MOTD.into(), CURRENT.into());
    let change = Change::Item { owner, node, id, item, at: now, keep: 1 };
    store.change(change, out, move |host, now, result, out| {
        let result = match result {
            // To delete what is not there is no fault.
            Ok(()) | Err(StoreFailure::NotFound) => {
                Ok(motd_written(&mut host.store, &form, message, is_sent, out))
            }
            Err(error) => Err(not_written(error)),
        };
        perform(&mut host.store, now, form, result, out);
    });
}

/// The message of the day is on disk: all hosts get it, and the next step of its command.
fn motd_written(
    store: &mut StoreRequests,
    form: &Form,
    message: Option<Element>,
    is_sent: bool,
    out: &mut Outbox,
) -> CommandEffect {
    let domain: Box<str> = form.domain.domain().into();
    let message = message.map(Box::new);
    let announced = message.clone().filter(|_| is_sent);
    let motd = HostAction::Motd { domain: domain.clone(), message };
    let Some(message) = announced else { return CommandEffect::act(motd, |form, _| Ok(form.done())) };
    // Signed-in users get it now; the answer counts them.
    store.load(Load::Act(Box::new(motd)), out, |_, _, _, _| {});
    CommandEffect::act(HostAction::Announce { domain, message }, |form, acted| {
        Ok(form.note(&format!("sent to {} sessions", acted.count)))
    })
}

/// Delivers the message of the day to a session that has become available, from memory if it is there. The
/// caller performs the effects of the session.
pub(in super::super) fn send_motd(
    (commands, accounts, store): (&Commands, &mut AccountMemory, &mut StoreRequests),
    now: Instant,
    key: Key,
    out: &mut Outbox,
) {
    let Some(session) = accounts.sessions.get(key) else { return };
    let domain: Box<str> = session.jid.domain().into();
    if let Some(motd) = commands.motd.get(&domain) {
        let message = motd.clone().and_then(|message| from_domain(accounts, key, message));
        if let Some(message) = message {
            accounts.deliver(now, key, message, out);
        }
        return;
    }
    // When it cannot be read, the next session asks again.
    read_motd(store, domain, out, move |host, now, motd, out| {
        let message = motd.ok().flatten().and_then(|message| from_domain(&host.accounts, key, message));
        if let Some(message) = message {
            host.deliver(now, &[key], message, out);
        }
    });
}

/// A message of the session's domain, with its address.
pub(in super::super) fn from_domain(
    accounts: &AccountMemory,
    key: Key,
    mut message: Element,
) -> Option<Element> {
    message.set("to", accounts.sessions.get(key)?.jid.as_str());
    Some(message)
}

/// Reads the message of the day of a domain; what memory has of it meanwhile goes before, as it was written
/// after the read began.
fn read_motd(
    store: &mut StoreRequests,
    domain: Box<str>,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Instant, Result<Option<Element>, StanzaError>, &mut Outbox) + 'static,
) {
    let Ok(owner) = Bare::parse(&domain) else { return };
    let query = Box::new(ItemQuery::newest());
    store.load(Load::Items { owner, node: MOTD.into(), query }, out, move |host, now, result, out| {
        let motd = items_of(result).map(|page| {
            let motd = page.items.into_iter().next().map(|(_, _, message)| message);
            host.commands.motd.entry(domain).or_insert(motd).clone()
        });
        then(host, now, motd, out);
    });
}

/// The error of a change that was refused.
fn error_of(not_done: &AccountRefusal) -> StanzaError {
    match not_done {
        AccountRefusal::Exists => {
            StanzaError::new(Condition::Conflict, "there is such an account, or another name like it")
        }
        AccountRefusal::Invalid(why) => StanzaError::new(Condition::NotAcceptable, why),
    }
}

/// The error of a request for which the store failed.
fn store_failure(error: StoreFailure) -> StanzaError {
    match error {
        StoreFailure::NotFound => Condition::ItemNotFound.into(),
        StoreFailure::Unavailable | StoreFailure::Beyond => {
            StanzaError::new(Condition::ResourceConstraint, "not now: try again later")
        }
    }
}
