//! Messages from phones: a MESSAGE for an account is a chat message for its sessions, its archive and, when
//! no session takes it, its offline messages (RFC 7572 §5).
//!
//! The SIP side waits for the outcome before it answers the MESSAGE, so each has an id and exactly one
//! outcome (`Effect::PhoneMessageOutcome`). The way is that of a session's message: the message has a mark of
//! acknowledgement, and its outcome is reported when the last write that it has caused is answered.

use std::borrow::Cow;
use std::collections::HashMap;

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::{Bare, Element, Jid, ns};

use super::super::account_memory::AccountMemory;
use super::super::archive::ArchiveWriter;
use super::super::effect::Effect;
use super::super::message_writes::MessageWrites;
use super::super::offline::{MessageOrigin, OfflineEffect};
use super::super::user::{AccountState, is_waiting_full};
use super::super::{Host, Outbox, ack};
use super::body::MessageBody;
use crate::{blocking, carbons, expiry, limits, offline, route, token, webhooks};

/// A MESSAGE for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhoneMessage {
    /// For `Effect::PhoneMessageOutcome`.
    pub id: u64,
    /// The sender.
    pub from: PhoneSender,
    /// The account that gets the message.
    pub to: Bare,
    /// The text or the typing notification.
    pub words: MessageBody,
    /// The account has phones, which get it whatever becomes of it here: it is not kept.
    pub has_phones: bool,
    /// The end of its Expires (RFC 3428 §4): it is not delivered from then on.
    pub expires_at: Option<Instant>,
}

/// The sender of a message from a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhoneSender {
    /// An account of ours, proven.
    Account(Bare),
    /// An unauthenticated caller: the address is the caller's claim.
    Stranger(Box<str>),
}

/// The outcome of a message from a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhoneMessageOutcome {
    /// A session has it.
    Delivered,
    /// It is in the store, and comes with the next session or phone.
    Kept,
    /// No session is there, and it was not to be kept.
    NoSession,
    /// The account takes nothing from this sender.
    Refused,
    /// Too much is under way, or the store cannot be reached: the sender may try again.
    Busy,
}

/// MESSAGEs whose outcome is not yet reported.
#[derive(Default)]
pub(in super::super) struct PendingPhoneMessages(HashMap<u64, (Bare, PhoneMessageOutcome)>);

/// A phone's message carries a mark of acknowledgement (`ack`) as a session's does. The prefix tells it from those, which
/// begin with a number.
const MARK: &str = "heard.";

impl PendingPhoneMessages {
    /// Begins a message: [`hear`] goes on with it once its account is in memory. False: too much waits already, and a read whose
    /// result could not be used is not begun.
    pub(super) fn begin(&mut self, accounts: &AccountMemory, heard: &PhoneMessage) -> bool {
        if self.0.len() >= limits::PHONE_MESSAGES || is_waiting_full(accounts, &heard.to) {
            return false;
        }
        self.0.insert(heard.id, (heard.to.clone(), PhoneMessageOutcome::Busy));
        true
    }

    /// Notes the outcome that is reported when all writes are done.
    fn set_outcome(&mut self, id: u64, outcome: PhoneMessageOutcome) {
        if let Some((_, known)) = self.0.get_mut(&id) {
            *known = outcome;
        }
    }

    /// The message is in the store.
    pub(in super::super) fn handle_kept(&mut self, id: u64) {
        self.set_outcome(id, PhoneMessageOutcome::Kept);
    }

    /// Reports an outcome, once: a message that was reported is forgotten.
    fn report(&mut self, id: u64, outcome: PhoneMessageOutcome, out: &mut Outbox) {
        if self.0.remove(&id).is_some() {
            out.push(Effect::PhoneMessageOutcome { id, outcome });
        }
    }

    /// All that is to be written for the message with this mark is on disk. True: the mark is a phone message's.
    pub(in super::super) fn handle_handled(&mut self, mark: &str, out: &mut Outbox) -> bool {
        let Some(id) = mark.strip_prefix(MARK) else { return false };
        let known = id.parse().ok().and_then(|id| Some((id, self.0.get(&id)?.1)));
        if let Some((id, outcome)) = known {
            self.report(id, outcome, out);
        }
        true
    }

    /// The account's data cannot be read: the messages that waited for it are lost.
    pub(super) fn fail(&mut self, user: &Bare, out: &mut Outbox) {
        let waiting = self.0.iter().filter(|(_, (to, _))| to == user);
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.report(id, PhoneMessageOutcome::Busy, out);
        }
    }
}

/// Takes a message whose account is in memory: archives and delivers it, or keeps it. Answered by `Effect::PhoneMessageOutcome`, once all that
/// is to be written is on disk.
pub(super) fn hear(host: &mut Host, now: Instant, heard: PhoneMessage, out: &mut Outbox) {
    let parts = (&host.accounts, &mut host.store.message_writes, &mut host.rng);
    let mut message = match heard.read(parts, now) {
        Ok(message) => message,
        Err(outcome) => return host.phones.heard.report(heard.id, outcome, out),
    };
    let PhoneMessage { id, from, to: user, words, has_phones, expires_at } = heard;
    // An account's message is reported when it is sent (`PhoneEvent::Sent`).
    if matches!(from, PhoneSender::Stranger(_)) {
        webhooks::report_message(&host.settings, now, &message, None, out);
    }
    ack::put_ack_token(&mut message, Some(format!("{MARK}{id}").into()));
    let hold = host.pending_acks.begin(&mut message);
    ArchiveWriter::of(host).record_received(now, &user, &mut message, out);
    let able = host.accounts.able(&user);
    // The outcome that holds if nothing else is known when the writes are done.
    let outcome = if !able.is_empty() {
        carbons::copy_received(&mut host.accounts, now, &user, &able, &message, out);
        route::deliver_message(host, now, &user, &able, message, out);
        PhoneMessageOutcome::Delivered
    } else if has_phones || matches!(words, MessageBody::Typing(_)) {
        PhoneMessageOutcome::NoSession
    } else {
        let message = match expires_at {
            Some(end) => expiry::expiring(message, end),
            None => message,
        };
        let effect = OfflineEffect::Keep(message, MessageOrigin::Phone(id));
        offline::perform(host, now, &user, effect, out);
        // Until the store has it.
        PhoneMessageOutcome::Busy
    };
    host.phones.heard.set_outcome(id, outcome);
    host.acks().end(hold, out);
}

impl PhoneMessage {
    /// The chat message for the account, whose data are in memory.
    ///
    /// # Errors
    /// The outcome, if the account does not get the message.
    fn read(
        &self,
        (accounts, writes, rng): (&AccountMemory, &mut MessageWrites, &mut Rng),
        now: Instant,
    ) -> Result<Element, PhoneMessageOutcome> {
        let PhoneMessage { from, to, words, .. } = self;
        if accounts.users.get(to).is_none_or(|user| matches!(user.state, AccountState::Absent)) {
            return Err(PhoneMessageOutcome::NoSession);
        }
        let from = match (from, words) {
            (PhoneSender::Account(account), _) => Cow::Borrowed(account.as_jid()),
            // An unproved address must not be shown as a typing contact: a reader would believe it.
            (PhoneSender::Stranger(_), MessageBody::Typing(_)) => return Err(PhoneMessageOutcome::NoSession),
            (PhoneSender::Stranger(uri), MessageBody::Text(_)) => {
                let address = super::guests::address_of(uri, to.domain());
                Cow::Owned(address.ok_or(PhoneMessageOutcome::NoSession)?)
            }
        };
        if blocking::blocks_incoming(accounts, to, &from) {
            return Err(PhoneMessageOutcome::Refused);
        }
        if matches!(words, MessageBody::Text(_)) && writes.is_full(now) {
            return Err(PhoneMessageOutcome::Busy);
        }
        Ok(message_of(rng, &from, to, words))
    }
}

/// The chat message: its text, or a chat state (XEP-0085).
fn message_of(rng: &mut Rng, from: &Jid, to: &Bare, words: &MessageBody) -> Element {
    let message = Element::new("message", ns::CLIENT)
        .with("from", from.as_str())
        .with("to", to.as_str())
        .with("type", "chat")
        .with("id", token(rng));
    match words {
        MessageBody::Text(text) => message.child(Element::new("body", ns::CLIENT).text(text.clone())),
        MessageBody::Typing(true) => message.child(Element::new("composing", ns::CHATSTATES)),
        MessageBody::Typing(false) => message.child(Element::new("paused", ns::CHATSTATES)),
    }
}

/// The chat message that a phone of the account has sent, for the account's archive and clients. `None`: typing is not copied, and an account
/// that is not there has neither.
pub(super) fn sent_message(
    (accounts, rng): (&AccountMemory, &mut Rng),
    from: &Bare,
    to: &Bare,
    words: &MessageBody,
) -> Option<Element> {
    let is_copied = matches!(words, MessageBody::Text(_)) && accounts.data(from).is_some();
    is_copied.then(|| message_of(rng, from.as_jid(), to, words))
}
