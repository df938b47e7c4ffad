//! The phones of an account, as its contacts see them, and its chat, as phones see it (RFC 7248, RFC 7572).
//!
//! A phone is no session: it is a resource of the account that others see, [`RESOURCE`], made of the reports
//! of `Host::handle_phone`. It takes text messages ([`texts`]) and sends some ([`messages`]); other requests are
//! refused, Jingle's `session-initiate` among them: code that connects such calls to phones takes them in
//! `describe_phone`'s place and adds their features.
//!
//! The driver reports phones by `Host::handle_phone`, and asks for an account's chat when `Effect::Show` says that it may
//! have changed. Of an account's phones only the sum is known here: whether one is there, whether one is in a call, and
//! the newest document that one has published.

mod body;
mod consent;
mod guests;
mod messages;
mod pidf;
mod texts;

use std::collections::HashMap;
use std::sync::Arc;

use stdx::Instant;
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

pub use body::{MessageBody, UnsupportedBody, read as read_body};
pub use guests::{SUBDOMAIN as GUESTS, uri_of as uri_of_guest};
pub use messages::{PhoneMessage, PhoneMessageOutcome, PhoneSender};
pub use texts::TextsToPhones;

pub(super) use guests::answer_for_guest;
pub(super) use messages::PendingPhoneMessages;
pub(super) use texts::{TextEffect, address_text, is_for_phone, perform as perform_text};

use super::account_memory::AccountMemory;
use super::blocking::Blocklist;
use super::effect::{Effect, Load, StoreReply};
use super::feature::Feature;
use super::presence::{addressed, gone};
use super::session::Session;
use super::{Host, Outbox};
use crate::{connection, disco, limits, route};

const FILE: &str = "crates/chat/src/phones/mod.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "RFC 7248",
            title: "Interworking between SIP and XMPP: Presence",
            version: "2014",
            level: Level::Partial,
            file: FILE,
            note: "of one account; subscriptions of chat contacts and of phones are each their own",
        },
        Specification {
            name: "RFC 7572",
            title: "Interworking between SIP and XMPP: Instant Messaging",
            version: "2015",
            level: Level::Partial,
            file: "crates/chat/src/phones/messages.rs",
            note: "between accounts; who is none of ours has an address of its own below `sip-guest.`, and is answered by telephone only",
        },
        Specification {
            name: "RFC 3428",
            title: "SIP Extension for Instant Messaging",
            version: "2002",
            level: Level::Complete,
            file: "crates/chat/src/phones/texts.rs",
            note: "long words go as several messages",
        },
        Specification {
            name: "RFC 3856",
            title: "A Presence Event Package for SIP",
            version: "2004",
            level: Level::Complete,
            file: FILE,
            note: "published documents become a phone's presence, and chat's presence a document",
        },
        Specification {
            name: "RFC 3994",
            title: "Indication of Message Composition for Instant Messaging",
            version: "2005",
            level: Level::Partial,
            file: "crates/chat/src/phones/body.rs",
            note: "from phones to chat",
        },
        Specification {
            name: "RFC 3862",
            title: "Common Presence and Instant Messaging (CPIM): Message Format",
            version: "2004",
            level: Level::Partial,
            file: "crates/chat/src/phones/body.rs",
            note: "the text in it; its addresses are not believed",
        },
    ],
    account: &[],
    server: &[],
    handles: &[],
};

/// Contacts see an account's phones as this one resource.
pub const RESOURCE: &str = "sip-phone";

/// The state of an account's phones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phone {
    /// One is registered, or says that it can be reached.
    pub is_there: bool,
    /// A call of one of the phones is up.
    pub is_talking: bool,
    /// The newest document that one published (RFC 3863).
    pub published: Option<Arc<[u8]>>,
}

/// An event of the phones of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhoneEvent {
    /// The state of the account's phones: the answer to `Effect::AskPhone`, and every change, of any account.
    Changed {
        /// The account.
        user: Bare,
        /// The state of its phones.
        phone: Phone,
    },
    /// A message for an account. Answered by `Effect::PhoneMessageOutcome`, once all of it that is to be written is on disk.
    Message(PhoneMessage),
    /// A phone of `from` has sent a message; the chat clients of its account are told.
    Sent {
        /// The account of the phone.
        from: Bare,
        /// The account that gets the message.
        to: Bare,
        /// The text or the typing notification.
        words: MessageBody,
    },
    /// An account watches another one from a phone. Answered by `Effect::Consent`: a contact with the subscription `from` or
    /// `both`, that is not blocked, may.
    Watch {
        /// The query, for `Effect::Consent`.
        id: u64,
        /// The account that is watched.
        user: Bare,
        /// The account that watches.
        watcher: Bare,
    },
}

/// An account's chat, as phones are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPresence {
    /// The availability.
    pub show: Show,
    /// The `<status/>` of the presence.
    pub status: Box<str>,
}

/// The availability that presence shows (RFC 6121 §4.7.2.1), the lowest first: of two sessions with one
/// priority, phones see the higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Show {
    /// `xa`: away for an extended period.
    Xa,
    /// `away`.
    Away,
    /// `dnd`: do not disturb.
    Dnd,
    /// No `<show/>`: available.
    #[default]
    Available,
}

impl Show {
    /// That of a presence. Unknown words count as available (RFC 6121 §4.7.2.1 has four).
    pub(super) fn of(presence: &Element) -> Show {
        match presence.content_of("show", ns::CLIENT).as_deref() {
            Some("away") => Show::Away,
            Some("dnd") => Show::Dnd,
            Some("xa") => Show::Xa,
            _ => Show::Available,
        }
    }

    /// The content of `<show/>`; `None`: there is no such element.
    fn as_str(self) -> Option<&'static str> {
        match self {
            Show::Available => None,
            Show::Away => Some("away"),
            Show::Dnd => Some("dnd"),
            Show::Xa => Some("xa"),
        }
    }
}

/// The feature: the state of accounts' phones, and the messages and queries between phones and chat.
#[derive(Default)]
pub(super) struct Phones {
    /// Accounts with a phone, and watched accounts without sessions. Signed-in accounts without a phone, the
    /// most of a chat server, need no entry.
    watched: HashMap<Bare, WatchedPhone>,
    /// Texts on their way to phones.
    texts: texts::Texts,
    /// Messages of phones whose outcome is not yet reported.
    heard: messages::PendingPhoneMessages,
    /// Watchers from phones that wait for an answer.
    consents: consent::PendingConsents,
}

/// A change of the state of an account's phones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhoneChange {
    /// The first phone can be reached: texts that wait are tried.
    Came,
    /// Any other change, which contacts learn.
    Other,
}

/// An account whose phones' state is known.
#[derive(Default)]
struct WatchedPhone {
    phone: Phone,
    /// The presence that contacts got last; `None`: unavailable, or none yet.
    told: Option<Box<Element>>,
}

impl Phones {
    /// The time at which texts are to be tried again.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.texts.deadline()
    }

    /// A contact watches this account's phones. While the account is available, all of them are known.
    pub(super) fn watch(&mut self, accounts: &AccountMemory, user: &Bare, out: &mut Outbox) {
        if accounts.available(user).next().is_none() {
            self.ask(accounts, user, out);
        }
    }

    /// A session has come, or a watcher is interested while there is none.
    pub(super) fn ask(&mut self, accounts: &AccountMemory, user: &Bare, out: &mut Outbox) {
        if self.watched.contains_key(user) {
            self.forget(accounts, user);
        } else if self.keep(accounts, user) {
            out.push(Effect::AskPhone { user: user.clone() });
        }
    }

    /// True: there is a place for their state.
    pub(super) fn keep(&mut self, accounts: &AccountMemory, user: &Bare) -> bool {
        if self.watched.contains_key(user) {
            return true;
        }
        let is_kept = self.watched.len() < limits::PHONES && !accounts.is_anonymous(user);
        if is_kept {
            self.watched.insert(user.clone(), WatchedPhone::default());
        }
        is_kept
    }

    /// Forgets a signed-in account without a phone: its changes are reported anyway.
    fn forget(&mut self, accounts: &AccountMemory, user: &Bare) {
        let is_nothing = |watched: &WatchedPhone| watched.phone == Phone::default() && watched.told.is_none();
        if accounts.is_signed_in(user) && self.watched.get(user).is_some_and(is_nothing) {
            self.watched.remove(user);
        }
    }

    /// Notes the state of an account's phones: the answer to `Effect::AskPhone`, and every change, of any account. `None`: nothing
    /// has changed, or the account is not tracked.
    fn handle_change(&mut self, accounts: &AccountMemory, user: &Bare, phone: Phone) -> Option<PhoneChange> {
        if phone != Phone::default() && accounts.is_signed_in(user) {
            self.keep(accounts, user);
        }
        let watched = self.watched.get_mut(user)?;
        if watched.phone == phone {
            self.forget(accounts, user);
            return None;
        }
        let has_come = phone.is_there && !watched.phone.is_there;
        watched.phone = phone;
        Some(if has_come { PhoneChange::Came } else { PhoneChange::Other })
    }

    /// Sends the phones' presence to all contacts that last got another one, and to the account's sessions.
    fn tell(&mut self, accounts: &mut AccountMemory, now: Instant, user: &Bare, out: &mut Outbox) {
        let Some(data) = accounts.data(user) else { return };
        let Some(watched) = self.watched.get(user) else { return };
        let presence = presence_of(user, &watched.phone);
        if presence.as_ref() == watched.told.as_deref() {
            return self.forget(accounts, user);
        }
        let said = match &presence {
            Some(presence) => presence.clone(),
            None => phone_of(user).map_or_else(|| Element::new("presence", ns::CLIENT), |jid| gone(&jid)),
        };
        let blocked = Blocklist::new(&data.blocked);
        let seeing = accounts
            .contacts(user)
            .filter(|(contact, subscription)| subscription.has_from() && !blocked.has(contact.as_jid()));
        out.extend(seeing.map(|(contact, _)| addressed(&said, contact.as_str())));
        let own = accounts.keys_of(user, Session::is_available);
        accounts.deliver_to_all(now, &own, said, out);
        if let Some(watched) = self.watched.get_mut(user) {
            watched.told = presence.map(Box::new);
        }
        self.forget(accounts, user);
    }

    /// The presence of the account's phones that contacts have.
    pub(super) fn presence(&self, user: &Bare) -> Option<&Element> {
        self.watched.get(user)?.told.as_deref()
    }

    /// True if a phone of the account is there. An account that is not watched counts as without one.
    pub(super) fn has_phone(&self, user: &Bare) -> bool {
        self.watched.get(user).is_some_and(|watched| watched.phone.is_there)
    }

    /// The accounts whose texts are to be tried again.
    pub(super) fn due_texts(&mut self, now: Instant) -> Vec<Bare> {
        self.texts.due(now)
    }

    /// Messages from phones that wait for their outcome.
    pub(super) fn pending_messages(&mut self) -> &mut PendingPhoneMessages {
        &mut self.heard
    }

    /// The data of an account cannot be read: requests of phones that wait for them fail.
    pub(super) fn handle_unavailable(&mut self, user: &Bare, out: &mut Outbox) {
        self.heard.fail(user, out);
        self.consents.fail(user, out);
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }
}

impl Host {
    /// Handles an event of phones of accounts of this host.
    pub fn handle_phone(&mut self, now: Instant, event: PhoneEvent, out: &mut Outbox) {
        match event {
            PhoneEvent::Changed { user, phone } => {
                let Some(change) = self.phones.handle_change(&self.accounts, &user, phone) else { return };
                let told = user.clone();
                // The account is needed for this moment only: its subscribers are in its roster.
                self.with_account_data(now, &user, out, move |host, now, out| {
                    host.phones.tell(&mut host.accounts, now, &told, out);
                    connection::perform_deliveries(host, now, out);
                });
                if change == PhoneChange::Came {
                    perform_text(self, now, &user, TextEffect::SendNext, out);
                }
            }
            PhoneEvent::Message(message) => {
                if !self.phones.heard.begin(&self.accounts, &message) {
                    let outcome = PhoneMessageOutcome::Busy;
                    return out.push(Effect::PhoneMessageOutcome { id: message.id, outcome });
                }
                let to = message.to.clone();
                self.with_account_data(now, &to, out, |host, now, out| {
                    messages::hear(host, now, message, out);
                });
            }
            // Typing needs no account.
            PhoneEvent::Sent { words: MessageBody::Typing(_), .. } => {}
            PhoneEvent::Sent { from, to, words } => {
                self.with_account_data(now, &from.clone(), out, move |host, now, out| {
                    let parts = (&host.accounts, &mut host.rng);
                    if let Some(message) = messages::sent_message(parts, &from, &to, &words) {
                        route::record_sent(host, now, &from, &message, out);
                    }
                });
            }
            PhoneEvent::Watch { id, user, watcher } => {
                if !self.phones.consents.begin(&self.accounts, id, &user) {
                    return out.push(Effect::Consent { id, is_given: false });
                }
                self.with_account_data(now, &user.clone(), out, move |host, _, out| {
                    out.extend(host.phones.consents.decide(&host.accounts, id, (&user, &watcher)));
                });
            }
        }
    }

    /// Looks at the start for accounts with messages that wait: their phones may come before their clients.
    pub fn begin(&mut self, out: &mut Outbox) {
        if self.settings.texts_to_phones == TextsToPhones::Never {
            return;
        }
        self.store.load(Load::Waiting, out, |host, _, loaded, out| {
            let Ok(StoreReply::Users(users)) = loaded else { return };
            for user in users {
                host.phones.watch(&host.accounts, &user, out);
            }
        });
    }
}

/// Most accounts are watched by no phone: their presence is computed when a watcher asks.
pub(super) fn show_to_phones(accounts: &AccountMemory, user: &Bare, out: &mut Outbox) {
    if !accounts.is_anonymous(user) {
        out.push(Effect::Show { user: user.clone() });
    }
}

/// The answer to a question of service discovery for an account's phone; `None`: it answers nothing else.
pub(super) fn describe_phone(
    (phones, accounts): (&Phones, &AccountMemory),
    from: &Jid,
    to: &Jid,
    iq: &Element,
) -> Option<Element> {
    let user = to.bare();
    let asks_what = iq.attr("type") == Some("get") && iq.get("query", ns::DISCO_INFO).is_some();
    let is_seen = || phones.presence(&user).is_some() && disco::is_seen_by(accounts, &user, from);
    if to.resource() != Some(RESOURCE) || !asks_what || !is_seen() {
        return None;
    }
    let identity = Element::new("identity", ns::DISCO_INFO).with("category", "client").with("type", "phone");
    let feature = Element::new("feature", ns::DISCO_INFO).with("var", ns::DISCO_INFO);
    Some(Element::new("query", ns::DISCO_INFO).child(identity).child(feature))
}

fn phone_of(user: &Bare) -> Option<Jid> {
    user.with_resource(RESOURCE).ok()
}

/// The presence of an account's phones (RFC 7248 §5.3); `None`: none is there. A call goes before a published document. The priority is negative:
/// messages for the account go to its sessions first.
fn presence_of(user: &Bare, phone: &Phone) -> Option<Element> {
    let published = phone.published.as_deref().and_then(pidf::read).unwrap_or_default();
    if !phone.is_there || published.is_closed {
        return None;
    }
    let (show, status) = match phone.is_talking {
        true => (Show::Dnd, "On the phone"),
        false => (published.show, &*published.note),
    };
    let text = |name, text: &str| Element::new(name, ns::CLIENT).text(text);
    let mut presence = Element::new("presence", ns::CLIENT).with("from", phone_of(user)?.as_str());
    if let Some(show) = show.as_str() {
        presence.push(text("show", show));
    }
    if !status.is_empty() {
        presence.push(text("status", status));
    }
    presence.push(text("priority", "-1"));
    Some(presence)
}
