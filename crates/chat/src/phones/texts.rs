//! Texts for phones: the waiting messages of an account go to its phones while none of its sessions takes
//! messages (RFC 3428).
//!
//! A message is stored first and then sent: whatever happens on the way to the phone, it is delivered or it waits. One
//! at a time and in order, until the phone has all or does not answer.
//!
//! Steps of a waiting text: `TextEffect::SendNext` (a message waits, or a phone has come), read a page, send the parts of the first
//! text, remove it from the offline messages, look for the next. A message to the phone's own address and copies are sent
//! without the store; the first goes to the account after all if no phone takes it.

use std::collections::{HashSet, VecDeque};

use stdx::Instant;
use stdx::slab::Key;
use xmpp::{Bare, Element, Jid, ns};

use super::super::account_memory::AccountMemory;
use super::super::ack::{AckGuard, PendingAcks};
use super::super::effect::{Effect, Load, StoreFailure, StoreReply};
use super::super::offline::RemovalGoal;
use super::super::{Host, HostSettings, Outbox, hints};
use super::{Phones, RESOURCE};
use crate::{expiry, limits, offline, route};

/// The messages that phones get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextsToPhones {
    /// Those that no session takes.
    #[default]
    Absent,
    /// Copies of the others too.
    Always,
    /// No messages.
    Never,
}

/// The texts on their way to phones. It is told of messages that wait and of the answers of the store and of phones, and returns
/// effects.
#[derive(Default)]
pub(super) struct Texts {
    /// Accounts whose messages are on their way to phones.
    sending: HashSet<Bare>,
    /// Those whose phones did not answer, the earliest first.
    again: VecDeque<(Instant, Bare)>,
    /// Copies on their way.
    copies: usize,
}

/// Everything that [`Texts`] asks of its host, for one account.
pub(crate) enum TextEffect {
    /// Read the messages after that id; answered by `handle_read`.
    Read(u64),
    /// Send a part of a text to the phones; answered by `handle_sent`.
    Send(TextPart, TextTask),
    /// Remove the message of which a phone took all parts; answered by `handle_removed`.
    Remove(u64),
    /// A session has come that was not given the messages that wait.
    Deliver(Key),
    /// Send the next message that waits, if a phone is there.
    SendNext,
    /// No phone took the text: it is for the account after all, and not handled until then.
    Return(AddressedText),
    /// The text is handled.
    Release(AckGuard),
}

/// A part of a text, as one MESSAGE has it.
pub(crate) struct TextPart {
    from: Jid,
    body: Box<str>,
    at: Instant,
}

/// The purpose of a [`TextPart`].
pub(crate) enum TextTask {
    /// A message that waits.
    Waiting(PhoneText),
    /// A message that was sent to the phone's own address.
    Addressed(AddressedText),
    /// A copy of a message that sessions got.
    Copy,
}

/// A message that waits: the parts that phones have not taken.
pub(crate) struct PhoneText {
    /// Its id among the offline messages.
    id: u64,
    from: Jid,
    at: Instant,
    parts: VecDeque<Box<str>>,
}

/// A message for the phone's own address, and the parts that phones have not taken.
pub(crate) struct AddressedText {
    parts: VecDeque<Box<str>>,
    message: Element,
    guard: AckGuard,
}

impl Texts {
    /// The time at which the next account is tried again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.again.front().map(|(at, _)| *at)
    }

    /// The phone does not answer: the messages are tried again later. Beyond `limits::TEXTS_AGAIN` accounts
    /// they wait for the next message or phone.
    fn pause(&mut self, now: Instant, user: &Bare) {
        self.sending.remove(user);
        if self.again.len() < limits::TEXTS_AGAIN {
            self.again.push_back((now + limits::TEXT_AGAIN, user.clone()));
        }
    }

    /// The accounts whose messages are to be tried again now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Bare> {
        let count = self.again.iter().take_while(|(at, _)| *at <= now).count();
        self.again.drain(..count).map(|(_, user)| user).collect()
    }

    /// Begins to send the messages of an account with a phone, if none of its sessions takes them.
    fn begin(&mut self, accounts: &AccountMemory, user: &Bare) -> Option<TextEffect> {
        let waits = accounts.data(user).is_some_and(|data| data.offline > 0);
        let is_begun = waits && accounts.able(user).is_empty() && self.sending.insert(user.clone());
        is_begun.then_some(TextEffect::Read(0))
    }

    /// Sends the oldest message of a page that is for a phone. Pages without one are skipped, so a message
    /// for clients does not hold up the texts behind it.
    fn handle_read(
        &mut self,
        accounts: &AccountMemory,
        now: Instant,
        user: &Bare,
        loaded: Result<StoreReply, StoreFailure>,
    ) -> Option<TextEffect> {
        let Ok(StoreReply::Stanzas(page)) = loaded else {
            self.pause(now, user);
            return None;
        };
        let last = page.stanzas.last().map(|(id, _, _)| *id).filter(|_| !page.is_complete);
        let text = page.stanzas.into_iter().find_map(|(id, at, message)| {
            let from = xmpp::stanza::from(&message).ok().flatten()?;
            let parts = parts_of(&message)?;
            // One that has expired has no parts left, and is removed without being sent.
            let parts = if expiry::has_expired(&message, now) { VecDeque::new() } else { parts };
            Some(PhoneText { id, from, at, parts })
        });
        match (text, last) {
            (Some(text), _) => self.send_next(accounts, user, text),
            (None, Some(last)) => Some(TextEffect::Read(last)),
            (None, None) => {
                self.sending.remove(user);
                None
            }
        }
    }

    /// Sends the next part of a waiting message, or removes the message when phones have taken all parts.
    fn send_next(
        &mut self,
        accounts: &AccountMemory,
        user: &Bare,
        mut text: PhoneText,
    ) -> Option<TextEffect> {
        // A session has come: it gets what waits, this one with it.
        if !accounts.able(user).is_empty() {
            self.sending.remove(user);
            return None;
        }
        let Some(body) = text.parts.pop_front() else { return Some(TextEffect::Remove(text.id)) };
        let part = TextPart { from: text.from.clone(), body, at: text.at };
        Some(TextEffect::Send(part, TextTask::Waiting(text)))
    }

    /// A phone took a part, or none did.
    fn handle_sent(
        &mut self,
        accounts: &AccountMemory,
        now: Instant,
        user: &Bare,
        (task, done): (TextTask, Result<(), StoreFailure>),
    ) -> Option<TextEffect> {
        match (task, done) {
            (TextTask::Waiting(text), Ok(())) => self.send_next(accounts, user, text),
            // No phone is there, or it will never take it: the next that comes is asked again.
            (TextTask::Waiting(_), Err(StoreFailure::NotFound)) => {
                self.sending.remove(user);
                None
            }
            (TextTask::Waiting(_), Err(StoreFailure::Unavailable | StoreFailure::Beyond)) => {
                self.pause(now, user);
                None
            }
            (TextTask::Addressed(text), Ok(())) => Some(text.send_next(now)),
            (TextTask::Addressed(text), Err(_)) => Some(TextEffect::Return(text)),
            // A failed copy is harmless: the message is in chat.
            (TextTask::Copy, _) => {
                self.copies -= 1;
                None
            }
        }
    }

    /// The message that a phone took was removed from the offline messages, or not.
    fn handle_removed(
        &mut self,
        accounts: &AccountMemory,
        now: Instant,
        user: &Bare,
        done: Result<(), StoreFailure>,
    ) -> Option<TextEffect> {
        self.sending.remove(user);
        if done.is_err() {
            self.pause(now, user);
            return None;
        }
        // A session may have come while the text was sent, and was not given anything.
        let able = accounts.able(user).first().copied();
        Some(able.map_or(TextEffect::SendNext, TextEffect::Deliver))
    }

    /// Begins copies of a message for a phone: the sender and the parts.
    fn begin_copies(&mut self, user: &Bare, message: &Element) -> Option<(Jid, VecDeque<Box<str>>)> {
        let from = xmpp::stanza::from(message).ok().flatten()?.bare();
        if from == *user || self.copies >= limits::TEXT_COPIES {
            return None;
        }
        let parts = parts_of(message)?;
        self.copies += parts.len();
        Some((from.into_jid(), parts))
    }
}

impl AddressedText {
    /// Sends the next part.
    fn send_next(mut self, now: Instant) -> TextEffect {
        match (self.parts.pop_front(), xmpp::stanza::from(&self.message)) {
            (Some(body), Ok(Some(from))) => {
                TextEffect::Send(TextPart { from, body, at: now }, TextTask::Addressed(self))
            }
            _ => TextEffect::Release(self.guard),
        }
    }
}

impl Phones {
    /// True if the account has a phone that gets messages which wait.
    fn takes_texts(
        &mut self,
        (settings, accounts): (&HostSettings, &AccountMemory),
        user: &Bare,
        out: &mut Outbox,
    ) -> bool {
        if settings.texts_to_phones == TextsToPhones::Never {
            return false;
        }
        // When a phone is there already, that is told at once, and its messages are looked for again.
        self.watch(accounts, user, out);
        self.has_phone(user)
    }

    /// Passes the removal of a text from the offline messages to [`Texts`].
    pub(crate) fn handle_text_removed(
        &mut self,
        accounts: &AccountMemory,
        now: Instant,
        user: &Bare,
        done: Result<(), StoreFailure>,
    ) -> Option<TextEffect> {
        self.texts.handle_removed(accounts, now, user, done)
    }

    /// Begins the copies of a message that sessions got, one for each part: with [`TextsToPhones::Always`] phones get its words
    /// too.
    pub(crate) fn begin_copies(
        &mut self,
        settings: &HostSettings,
        now: Instant,
        user: &Bare,
        message: &Element,
    ) -> impl Iterator<Item = TextEffect> + use<> {
        let is_copied = settings.texts_to_phones == TextsToPhones::Always && self.has_phone(user);
        let copies = is_copied.then(|| self.texts.begin_copies(user, message)).flatten();
        copies.into_iter().flat_map(move |(from, parts)| {
            let part = move |body| TextPart { from: from.clone(), body, at: now };
            parts.into_iter().map(move |body| TextEffect::Send(part(body), TextTask::Copy))
        })
    }
}

/// Begins to send a message for which [`is_for_phone`] holds: until a phone or the account has it, it is not handled.
pub(crate) fn address_text(pending_acks: &mut PendingAcks, now: Instant, message: Element) -> TextEffect {
    let parts = parts_of(&message).unwrap_or_default();
    AddressedText { parts, message, guard: pending_acks.guard() }.send_next(now)
}

/// Performs an effect of [`Texts`] for an account; the answers of the store and of phones go back into it.
pub(crate) fn perform(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    effect: impl Into<Option<TextEffect>>,
    out: &mut Outbox,
) {
    let Some(effect) = effect.into() else { return };
    match effect {
        TextEffect::Read(after) => {
            let user = user.clone();
            let load = Load::Offline { user: user.clone(), after, ids: Vec::new() };
            host.store.load(load, out, move |host, now, loaded, out| {
                let effect = host.phones.texts.handle_read(&host.accounts, now, &user, loaded);
                perform(host, now, &user, effect, out);
            });
        }
        TextEffect::Send(TextPart { from, body, at }, task) => {
            let of = user.clone();
            let then = move |host: &mut Host, now, done: Result<StoreReply, _>, out: &mut Outbox| {
                let sent = (task, done.map(drop));
                let effect = host.phones.texts.handle_sent(&host.accounts, now, &of, sent);
                perform(host, now, &of, effect, out);
            };
            let ticket = host.store.expect(Some(user), false, None, Box::new(then));
            out.push(Effect::Text { ticket, from: from.bare(), to: user.clone(), body, at });
        }
        TextEffect::Remove(id) => {
            let effect = host.offline.remove(user, vec![id], RemovalGoal::Text);
            offline::perform(host, now, user, effect, out);
        }
        TextEffect::Deliver(key) => {
            if let Some((user, effect)) = host.offline.handle_session(&host.accounts, key) {
                offline::perform(host, now, &user, effect, out);
            }
        }
        TextEffect::SendNext => {
            if !host.phones.takes_texts((&host.settings, &host.accounts), user, out) {
                return;
            }
            let of = user.clone();
            host.with_account_data(now, user, out, move |host, now, out| {
                let effect = host.phones.texts.begin(&host.accounts, &of);
                perform(host, now, &of, effect, out);
            });
        }
        TextEffect::Return(text) => {
            let AddressedText { message, guard, .. } = text;
            route::return_to_account(host, now, user, message, guard, out);
        }
        TextEffect::Release(guard) => host.acks().release(guard, out),
    }
}

/// A message to the phone's own resource goes there, whatever sessions the account has.
pub(crate) fn is_for_phone(
    (settings, phones): (&HostSettings, &Phones),
    to: &Jid,
    message: &Element,
) -> bool {
    to.resource() == Some(RESOURCE)
        && settings.texts_to_phones != TextsToPhones::Never
        && phones.has_phone(&to.bare())
        && parts_of(message).is_some()
}

/// The parts of a message that a phone can show. `None`: it is not for phones. Encrypted text is for clients,
/// as is text of many pages.
fn parts_of(message: &Element) -> Option<VecDeque<Box<str>>> {
    let is_encrypted =
        message.elements().any(|child| matches!(child.ns(), ns::OMEMO | ns::OMEMO_OLD | ns::ENCRYPTION));
    let is_talk = matches!(message.attr("type"), None | Some("chat" | "normal"));
    if is_encrypted || !is_talk || !hints::has_body(message) {
        return None;
    }
    let body = message.content_of("body", ns::CLIENT)?;
    let parts = split(&body);
    (parts.len() <= limits::TEXT_PARTS).then_some(parts)
}

/// RFC 3428 §8: a MESSAGE has at most 1,300 bytes. Cut where words end, when one does.
fn split(body: &str) -> VecDeque<Box<str>> {
    let (mut parts, mut rest) = (VecDeque::new(), body);
    while rest.len() > limits::TEXT_BYTES {
        let mut end = limits::TEXT_BYTES;
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let word = rest[..end].rfind(char::is_whitespace).filter(|at| *at > end / 2);
        let (part, other) = rest.split_at(word.unwrap_or(end));
        parts.push_back(part.into());
        rest = other.trim_start();
    }
    if !rest.is_empty() {
        parts.push_back(rest.into());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_where_they_end() {
        assert_eq!(split("hello"), ["hello".into()]);
        let text = "word ".repeat(500);
        let parts = split(text.trim());
        assert!(parts.len() == 3 && parts.iter().all(|part| part.len() <= limits::TEXT_BYTES), "{parts:?}");
        assert!(parts.iter().all(|part| part.starts_with("word") && part.ends_with("word")), "{parts:?}");
        let together: String = parts.iter().flat_map(|part| part.split_whitespace()).collect();
        assert_eq!(together, "word".repeat(500), "nothing is lost");
        let wide = "ü".repeat(limits::TEXT_BYTES);
        assert_eq!(split(&wide).into_iter().collect::<Vec<_>>().concat(), wide);
    }
}
