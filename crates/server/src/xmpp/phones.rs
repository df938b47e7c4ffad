//! Chat and the phones of the same accounts: the host's words and the router's. The router of an account and its host are
//! of one shard, so what they ask each other goes no way.

use std::collections::HashMap;

use chat::phones::{
    ChatPresence, MessageBody, Phone, PhoneEvent, PhoneMessage, PhoneMessageOutcome, PhoneSender, Show,
    read_body, uri_of_guest,
};
use chat::{Effect, StoreFailure, StoreReply, Ticket};
use router::{AskId, KeepRefused, Offer, Offered, WaitingMessage};
use sip::events::TextOutcome;
use stdx::Instant;
use xmpp::{Bare, Jid};

use super::{Xmpp, XmppEffect};
use crate::message::XmppShardMessage;

/// The host's requests of the phones of its accounts, and its answers to phones' senders.
#[derive(Debug)]
pub(crate) enum PhoneEffect {
    /// Answered by `handle_presence`, as changes of all accounts are told.
    Ask { user: Bare },
    /// Its sessions look otherwise, perhaps.
    Show { user: Bare },
    /// Answered by `handle_texted`.
    Text { id: u64, words: Box<WaitingMessage> },
    /// The answer to `handle_offer`.
    Offered { to: Offering, offered: Offered },
    /// The answer to `handle_watch`.
    Watched { watch: PendingWatch, is_given: bool },
}

/// A watch that waits for the consent of its address.
#[derive(Debug)]
pub(crate) struct PendingWatch {
    pub(crate) edge: router::ShardAddress,
    pub(crate) id: AskId,
    /// The query for the router once the watch is allowed.
    pub(crate) query: router::Query,
}

/// The receiver of the outcome of an offered message.
#[derive(Debug)]
pub(crate) enum Offering {
    /// An edge that offered it.
    Edge { edge: router::ShardAddress, id: AskId },
    /// An application whose message chat is to keep, else the router.
    Keep { edge: router::ShardAddress, id: AskId, message: Box<WaitingMessage> },
}

#[derive(Default)]
pub(super) struct Phones {
    offering: HashMap<u64, Offering>,
    watching: HashMap<u64, PendingWatch>,
    pub(super) texts_in: u64,
    pub(super) texts_out: u64,
}

impl Xmpp {
    /// A message for an account of this shard.
    pub(crate) fn handle_offer(
        &mut self,
        now: Instant,
        to: Offering,
        offer: &Offer,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let offered = match self.hear(now, offer, outbox) {
            Ok(heard) => {
                let id = heard.id;
                self.phones.offering.insert(id, to);
                let event = PhoneEvent::Message(heard);
                return self.tell_host(now, outbox, |host, out| host.handle_phone(now, event, out));
            }
            Err(offered) => offered,
        };
        outbox.push(XmppEffect::Phone(PhoneEffect::Offered { to, offered }));
    }

    /// A watch of an account of this shard by another account, which the account's roster allows or not.
    pub(crate) fn handle_watch(
        &mut self,
        now: Instant,
        watcher: &str,
        watch: PendingWatch,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let (Some(user), Some(watcher)) = (self.account_of(watch.query.aor()), self.account_of(watcher))
        else {
            return outbox.push(XmppEffect::Phone(PhoneEffect::Watched { watch, is_given: false }));
        };
        self.last_ask += 1;
        let id = self.last_ask;
        self.phones.watching.insert(id, watch);
        let event = PhoneEvent::Watch { id, user, watcher };
        self.tell_host(now, outbox, |host, out| host.handle_phone(now, event, out));
    }

    /// In the host's words, and told to the sender's host.
    fn hear(
        &mut self,
        now: Instant,
        offer: &Offer,
        outbox: &mut Vec<XmppEffect>,
    ) -> Result<PhoneMessage, Offered> {
        let message = &offer.message;
        let to = self.account_of(&message.aor).ok_or(Offered::NoClient)?;
        let is_missed = !offer.has_phones && self.host.accounts().is_signed_in(&to);
        let words = read_body(&message.content_type, &message.body)
            .map_err(|_| if is_missed { Offered::Unsupported } else { Offered::NoClient })?;
        let from = match offer.sender.as_deref().and_then(|sender| self.account_of(sender)) {
            Some(account) => {
                self.said(now, &account, &to, &words, outbox);
                PhoneSender::Account(account)
            }
            None => PhoneSender::Stranger(message.from.clone()),
        };
        self.phones.texts_in += 1;
        self.last_ask += 1;
        Ok(PhoneMessage { id: self.last_ask, from, to, words, has_phones: offer.has_phones })
    }

    /// The chat account of a router's address.
    pub(crate) fn account_of(&self, aor: &str) -> Option<Bare> {
        let is_ours = |bare: &Bare| {
            // Prepared and stored are the same, or the address is none of XMPP's.
            bare.as_str() == aor && bare.local().is_some() && self.host.settings().is_local(bare.domain())
        };
        Bare::parse(aor).ok().filter(is_ours)
    }

    pub(crate) fn is_available(&self, user: &Bare) -> bool {
        self.host.accounts().is_available(user)
    }

    /// The presence of the account's chat clients, for phones.
    pub(crate) fn chat_of(&self, aor: &str) -> Option<router::Chat> {
        self.host.accounts().chat_presence(&self.account_of(aor)?).map(chat_of)
    }

    fn said(
        &mut self,
        now: Instant,
        from: &Bare,
        to: &Bare,
        words: &MessageBody,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let owner = self.owner(from.as_str());
        let message = XmppShardMessage::Said { from: from.clone(), to: to.clone(), words: words.clone() };
        self.send(now, owner, message, outbox);
    }

    /// Handles the presence of an account's phones.
    pub(crate) fn handle_presence(
        &mut self,
        now: Instant,
        user: &Bare,
        presence: &router::Presence,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let phone = Phone {
            is_there: presence.open,
            is_talking: presence.on_the_phone,
            published: presence.documents.first().cloned(),
        };
        let event = PhoneEvent::Changed { user: user.clone(), phone };
        self.tell_host(now, outbox, |host, out| host.handle_phone(now, event, out));
    }

    /// Handles the outcome of a message to a phone. `None`: there was no phone.
    pub(crate) fn handle_texted(
        &mut self,
        now: Instant,
        id: u64,
        texted: Option<TextOutcome>,
        outbox: &mut Vec<XmppEffect>,
    ) {
        self.phones.texts_out += u64::from(texted == Some(TextOutcome::Taken));
        let done = match texted {
            Some(TextOutcome::Taken) => Ok(StoreReply::Done),
            Some(TextOutcome::Failed) => Err(StoreFailure::Unavailable),
            Some(TextOutcome::Refused) | None => Err(StoreFailure::NotFound),
        };
        self.tell_host(now, outbox, |host, out| host.handle_store_reply(now, Ticket(id), done, out));
    }

    /// The effects that are about phones.
    pub(super) fn perform_for_phones(&mut self, effect: Effect, outbox: &mut Vec<XmppEffect>) {
        let effect = match effect {
            Effect::Text { ticket, from, to, body, at } => {
                PhoneEffect::Text { id: ticket.0, words: Box::new(text(&from, &to, &body, at)) }
            }
            Effect::AskPhone { user } => PhoneEffect::Ask { user },
            Effect::Show { user } => PhoneEffect::Show { user },
            Effect::Consent { id, is_given } => {
                let Some(watch) = self.phones.watching.remove(&id) else { return };
                PhoneEffect::Watched { watch, is_given }
            }
            Effect::PhoneMessageOutcome { id, outcome } => {
                let Some(to) = self.phones.offering.remove(&id) else { return };
                PhoneEffect::Offered { to, offered: offered_of(outcome) }
            }
            _ => return,
        };
        outbox.push(XmppEffect::Phone(effect));
    }
}

/// The answer to a request to keep a message; `None`: chat does not keep it.
pub(crate) fn kept_of(offered: Offered) -> Option<Result<(), KeepRefused>> {
    match offered {
        Offered::Delivered | Offered::Kept => Some(Ok(())),
        Offered::Refused => Some(Err(KeepRefused::TooMany)),
        Offered::Busy => Some(Err(KeepRefused::StoreFailed)),
        Offered::NoClient | Offered::Unsupported => None,
    }
}

fn offered_of(outcome: PhoneMessageOutcome) -> Offered {
    match outcome {
        PhoneMessageOutcome::Delivered => Offered::Delivered,
        PhoneMessageOutcome::Kept => Offered::Kept,
        PhoneMessageOutcome::NoSession => Offered::NoClient,
        PhoneMessageOutcome::Refused => Offered::Refused,
        PhoneMessageOutcome::Busy => Offered::Busy,
    }
}

fn chat_of(shown: ChatPresence) -> router::Chat {
    let show = match shown.show {
        Show::Available => router::Show::Available,
        Show::Away => router::Show::Away,
        Show::Dnd => router::Show::Dnd,
        Show::Xa => router::Show::Xa,
    };
    router::Chat { show, note: shown.status }
}

/// RFC 7572 §4: the addresses are the same but for what URIs have to escape.
fn text(from: &Bare, to: &Bare, body: &str, at: Instant) -> WaitingMessage {
    let jid: &Jid = from.as_jid();
    // A caller from outside has an address in chat that no phone knows.
    let from = uri_of_guest(jid).unwrap_or_else(|| {
        let host = ::xmpp::domain::to_ascii(jid.domain()).unwrap_or_default();
        match jid.local() {
            Some(local) => format!("sip:{}@{host}", sip::wire::escape_user(local)),
            None => format!("sip:{host}"),
        }
    });
    WaitingMessage {
        id: 0,
        aor: to.as_str().into(),
        from: from.into(),
        content_type: "text/plain;charset=UTF-8".into(),
        body: body.as_bytes().into(),
        sent_at: at,
    }
}
