//! Texts for phones: the waiting messages of an account go to its phones while none of its sessions takes
//! messages (RFC 3428).
//!
//! A message is stored first and then sent: whatever happens on the way to the phone, it is delivered or it waits. One
//! at a time and in order, until the phone has all or does not answer.

use std::collections::{HashSet, VecDeque};

use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns};

use super::super::ack::AckGuard;
use super::super::effect::{Effect, Load, StoreFailure, StoreReply};
use super::super::offline::RemovalGoal;
use super::super::{Host, Outbox, Settings, hints};
use super::{Phones, RESOURCE};
use crate::{limits, offline, route};

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

#[derive(Default)]
pub(super) struct Texts {
    /// Accounts whose messages are on their way to phones.
    sending: HashSet<Bare>,
    /// Those whose phones did not answer, the earliest first.
    again: VecDeque<(Instant, Bare)>,
    /// Copies on their way.
    copies: usize,
}

impl Texts {
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.again.front().map(|(at, _)| *at)
    }

    /// The phone does not answer: the messages are tried again later.
    fn pause(&mut self, now: Instant, user: &Bare) {
        self.sending.remove(user);
        if self.again.len() < limits::TEXTS_AGAIN {
            self.again.push_back((now + limits::TEXT_AGAIN, user.clone()));
        }
    }

    pub(super) fn due(&mut self, now: Instant) -> Vec<Bare> {
        let count = self.again.iter().take_while(|(at, _)| *at <= now).count();
        self.again.drain(..count).map(|(_, user)| user).collect()
    }
}

/// One message on its way.
struct PhoneText {
    id: u64,
    from: Jid,
    at: Instant,
    parts: VecDeque<Box<str>>,
}

/// A message waits, or a phone has come.
pub(crate) fn texts_due(host: &mut Host, now: Instant, user: &Bare, out: &mut Outbox) {
    if host.settings.texts_to_phones == TextsToPhones::Never {
        return;
    }
    // When it is there already, that is told at once, and leads here again.
    host.phones.watch(&host.accounts, user, out);
    if !host.phones.has_phone(user) {
        return;
    }
    let of = user.clone();
    host.with_account_data(now, user, out, move |host, _, out| {
        let waits = host.accounts.data(&of).is_some_and(|data| data.offline > 0);
        if waits && host.accounts.able(&of).is_empty() && host.phones.texts.sending.insert(of.clone()) {
            find_text(host, of, 0, out);
        }
    });
}

/// Sends the oldest after that id that is for a phone.
fn find_text(host: &mut Host, user: Bare, after: u64, out: &mut Outbox) {
    let load = Load::Offline { user: user.clone(), after, ids: Vec::new() };
    host.store.load(load, out, move |host, now, loaded, out| {
        let Ok(StoreReply::Stanzas(page)) = loaded else { return host.phones.texts.pause(now, &user) };
        let last = page.stanzas.last().map(|(id, _, _)| *id).filter(|_| !page.is_complete);
        let text = page.stanzas.into_iter().find_map(|(id, at, message)| {
            let from = xmpp::stanza::from(&message).ok().flatten()?;
            Some(PhoneText { id, from, at, parts: parts_of(&message)? })
        });
        match (text, last) {
            (Some(text), _) => send_text(host, now, user, text, out),
            (None, Some(last)) => find_text(host, user, last, out),
            (None, None) => drop(host.phones.texts.sending.remove(&user)),
        }
    });
}

fn send_text(host: &mut Host, now: Instant, user: Bare, mut text: PhoneText, out: &mut Outbox) {
    // A session has come: it gets what waits, this one with it.
    if !host.accounts.able(&user).is_empty() {
        host.phones.texts.sending.remove(&user);
        return;
    }
    let Some(body) = text.parts.pop_front() else { return text_taken(host, now, &user, text.id, out) };
    let (from, at) = (text.from.clone(), text.at);
    say_to_phone(host, (from, user.clone(), body, at), out, move |host, now, done, out| match done {
        Ok(_) => send_text(host, now, user, text, out),
        // No phone is there, or it will never take it: the next that comes is asked again.
        Err(StoreFailure::NotFound) => drop(host.phones.texts.sending.remove(&user)),
        Err(StoreFailure::Unavailable | StoreFailure::Beyond) => host.phones.texts.pause(now, &user),
    });
}

fn text_taken(host: &mut Host, now: Instant, user: &Bare, id: u64, out: &mut Outbox) {
    let effect = host.offline.remove(user, vec![id], RemovalGoal::Text);
    offline::perform(host, now, user, effect, out);
}

/// The text that a phone took was removed from the offline messages, or not.
pub(crate) fn handle_text_removed(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    done: Result<(), StoreFailure>,
    out: &mut Outbox,
) {
    host.phones.texts.sending.remove(user);
    match host.accounts.able(user).first().copied() {
        _ if done.is_err() => host.phones.texts.pause(now, user),
        // It came while we were at it, and was not given anything.
        Some(key) => offline::deliver(host, now, key, out),
        None => texts_due(host, now, user, out),
    }
}

/// A message that sessions got: with `TextsToPhones::Always` phones get its words too.
pub(crate) fn copy_to_phone(host: &mut Host, now: Instant, user: &Bare, message: &Element, out: &mut Outbox) {
    let Ok(Some(from)) = xmpp::stanza::from(message) else { return };
    let is_wanted = host.settings.texts_to_phones == TextsToPhones::Always && host.phones.has_phone(user);
    if !is_wanted || from.bare() == *user || host.phones.texts.copies >= limits::TEXT_COPIES {
        return;
    }
    for body in parts_of(message).into_iter().flatten() {
        host.phones.texts.copies += 1;
        let from = from.bare().into_jid();
        // A failed copy is harmless: the message is in chat.
        say_to_phone(host, (from, user.clone(), body, now), out, |host, _, _, _| {
            host.phones.texts.copies -= 1;
        });
    }
}

/// A message to the phone's own resource goes there, whatever sessions the account has.
pub(crate) fn is_for_phone((settings, phones): (&Settings, &Phones), to: &Jid, message: &Element) -> bool {
    to.resource() == Some(RESOURCE)
        && settings.texts_to_phones != TextsToPhones::Never
        && phones.has_phone(&to.bare())
        && parts_of(message).is_some()
}

/// A text that the phone does not take is for the account after all, and is not handled until then.
pub(crate) fn send_text_to_phones(
    host: &mut Host,
    now: Instant,
    user: &Bare,
    message: Element,
    out: &mut Outbox,
) {
    let parts = parts_of(&message).unwrap_or_default();
    let hold = host.pending_acks.guard();
    say_parts(host, now, user.clone(), (parts, message, hold), out);
}

fn say_parts(
    host: &mut Host,
    now: Instant,
    user: Bare,
    (mut parts, message, hold): (VecDeque<Box<str>>, Element, AckGuard),
    out: &mut Outbox,
) {
    let (Some(body), Ok(Some(from))) = (parts.pop_front(), xmpp::stanza::from(&message)) else {
        return host.acks().release(hold, out);
    };
    say_to_phone(host, (from, user.clone(), body, now), out, move |host, now, done, out| {
        if done.is_ok() {
            return say_parts(host, now, user, (parts, message, hold), out);
        }
        host.with_account_data(now, &user.clone(), out, move |host, now, out| {
            route::message_to_account(host, now, &user, message, out);
            host.acks().release(hold, out);
        });
    });
}

fn say_to_phone(
    host: &mut Host,
    (from, to, body, at): (Jid, Bare, Box<str>, Instant),
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Instant, Result<StoreReply, StoreFailure>, &mut Outbox) + 'static,
) {
    let ticket = host.store.expect(Some(&to), false, None, Box::new(then));
    out.push(Effect::Text { ticket, from: from.bare(), to, body, at });
}

/// The parts of a message that a phone can show. Encrypted text is for clients, as is text of many pages.
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
