//! Chat and the phones of the same accounts: puts the router's questions in the host's words, and the host's effects in the router's. The
//! router of an account and its host are of one shard, so that a question and its answer leave it by no message. `shard::phones`
//! performs the [`PhoneEffect`]s.

use std::collections::HashMap;

use chat::phones::{
    ChatPresence, MessageBody, Phone, PhoneEvent, PhoneMessage, PhoneMessageOutcome, PhoneSender, Show,
    read_body, uri_of_guest,
};
use chat::{Effect, Host, StoreFailure, StoreReply, Ticket};
use router::{AskId, KeepRefused, Offer, Offered, WaitingMessage};
use sip::events::TextOutcome;
use stdx::Instant;
use xmpp::{Bare, Jid};

use super::host_requests::HostReply;

/// The host's requests of the phones of its accounts, and its answers to phones' senders.
#[derive(Debug)]
pub(crate) enum PhoneEffect {
    /// Asks for the presence of the phones of an account. Answered by `handle_presence`, as a change is.
    Ask { user: Bare },
    /// The presence of its sessions may have changed.
    Show { user: Bare },
    /// A message to the phones of an account. Answered by `handle_texted`.
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

/// A phone's message to an account, for the account's host.
#[derive(Debug)]
pub(super) struct OfferedMessage {
    pub(super) event: PhoneEvent,
    /// For the host of the sender, if that has an account: the copy for its other clients.
    pub(super) copy: Option<SentCopy>,
}

/// A message that one of an account's phones has sent.
#[derive(Debug)]
pub(super) struct SentCopy {
    pub(super) from: Bare,
    pub(super) to: Bare,
    pub(super) words: MessageBody,
}

/// The messages and watches of phones that the host has not answered.
#[derive(Default)]
pub(super) struct Phones {
    last: u64,
    // By the number under which the host answers.
    offering: HashMap<u64, Offering>,
    watching: HashMap<u64, PendingWatch>,
    // Counters since the start.
    pub(super) texts_in: u64,
    pub(super) texts_out: u64,
}

impl Phones {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A message for an account of this shard.
    ///
    /// # Errors
    /// The answer to a message that the host cannot take.
    pub(super) fn handle_offer(
        &mut self,
        accounts: ChatAccounts<'_>,
        to: Offering,
        offer: &Offer,
    ) -> Result<OfferedMessage, PhoneEffect> {
        match self.read_offer(accounts, offer) {
            Ok((message, copy)) => {
                self.offering.insert(message.id, to);
                Ok(OfferedMessage { event: PhoneEvent::Message(message), copy })
            }
            Err(offered) => Err(PhoneEffect::Offered { to, offered }),
        }
    }

    /// The message in the host's terms. A body that chat cannot show is refused only if a client would miss it; otherwise it is the phones'
    /// or the router's.
    fn read_offer(
        &mut self,
        accounts: ChatAccounts<'_>,
        offer: &Offer,
    ) -> Result<(PhoneMessage, Option<SentCopy>), Offered> {
        let message = &offer.message;
        let to = accounts.find(&message.aor).ok_or(Offered::NoClient)?;
        // Phones show bodies that chat cannot; only where nothing else takes the message is that an error for
        // its sender.
        let is_missed = !offer.has_phones && accounts.is_signed_in(&to);
        let words = read_body(&message.content_type, &message.body)
            .map_err(|_| if is_missed { Offered::Unsupported } else { Offered::NoClient })?;
        let account = offer.sender.as_deref().and_then(|sender| accounts.find(sender));
        // XEP-0280 for a message that was sent by a phone: the sender's other clients show it, too.
        let copy = account.clone().map(|from| SentCopy { from, to: to.clone(), words: words.clone() });
        let from = match account {
            Some(account) => PhoneSender::Account(account),
            None => PhoneSender::Stranger(message.from.clone()),
        };
        self.texts_in += 1;
        let (id, has_phones, expires_at) = (self.next(), offer.has_phones, message.expires_at);
        let message = PhoneMessage { id, from, to, words, has_phones, expires_at };
        Ok((message, copy))
    }

    /// A watch of an account of this shard by another account, which the account's roster allows or not.
    ///
    /// # Errors
    /// The answer to a watch of an address that is no account.
    pub(super) fn handle_watch(
        &mut self,
        accounts: ChatAccounts<'_>,
        watcher: &str,
        watch: PendingWatch,
    ) -> Result<PhoneEvent, PhoneEffect> {
        let (Some(user), Some(watcher)) = (accounts.find(watch.query.aor()), accounts.find(watcher)) else {
            return Err(PhoneEffect::Watched { watch, is_given: false });
        };
        let id = self.next();
        // Until the roster is in memory and the host has answered.
        self.watching.insert(id, watch);
        Ok(PhoneEvent::Watch { id, user, watcher })
    }

    /// Handles the outcome of a message to a phone. `None`: there was no phone.
    pub(super) fn handle_texted(&mut self, id: u64, texted: Option<TextOutcome>) -> HostReply {
        self.texts_out += u64::from(texted == Some(TextOutcome::Taken));
        let result = match texted {
            Some(TextOutcome::Taken) => Ok(StoreReply::Done),
            Some(TextOutcome::Failed) => Err(StoreFailure::Unavailable),
            // No phone will take it: the host keeps it for a client.
            Some(TextOutcome::Refused) | None => Err(StoreFailure::NotFound),
        };
        HostReply { ticket: Ticket(id), result }
    }

    /// Handles an effect of the host that is about phones.
    pub(super) fn handle_effect(&mut self, effect: Effect) -> Option<PhoneEffect> {
        match effect {
            Effect::Text { ticket, from, to, body, at } => {
                Some(PhoneEffect::Text { id: ticket.0, words: Box::new(text(&from, &to, &body, at)) })
            }
            Effect::AskPhone { user } => Some(PhoneEffect::Ask { user }),
            Effect::Show { user } => Some(PhoneEffect::Show { user }),
            Effect::Consent { id, is_given } => {
                let watch = self.watching.remove(&id)?;
                Some(PhoneEffect::Watched { watch, is_given })
            }
            Effect::PhoneMessageOutcome { id, outcome } => {
                let to = self.offering.remove(&id)?;
                Some(PhoneEffect::Offered { to, offered: offered_of(outcome) })
            }
            _ => None,
        }
    }
}

/// The accounts of a host as phones and their router see them.
#[derive(Clone, Copy)]
pub(crate) struct ChatAccounts<'a> {
    host: &'a Host,
}

impl<'a> ChatAccounts<'a> {
    pub(super) fn new(host: &'a Host) -> ChatAccounts<'a> {
        ChatAccounts { host }
    }

    /// The chat account of a router's address.
    pub(crate) fn find(self, aor: &str) -> Option<Bare> {
        let is_ours = |bare: &Bare| {
            // Prepared and stored are the same, or the address is none of XMPP's.
            bare.as_str() == aor && bare.local().is_some() && self.host.settings().is_local(bare.domain())
        };
        Bare::parse(aor).ok().filter(is_ours)
    }

    fn is_signed_in(self, user: &Bare) -> bool {
        self.host.accounts().is_signed_in(user)
    }

    /// True if the account has a chat client that is available.
    pub(crate) fn is_available(self, user: &Bare) -> bool {
        self.host.accounts().is_available(user)
    }

    /// The presence of the account's chat clients, for phones.
    pub(crate) fn presence_of(self, aor: &str) -> Option<router::Chat> {
        self.host.accounts().chat_presence(&self.find(aor)?).map(shown)
    }
}

/// The state of an account's phones, for its host.
pub(super) fn changed(user: &Bare, presence: &router::Presence) -> PhoneEvent {
    let phone = Phone {
        is_there: presence.open,
        is_talking: presence.on_the_phone,
        published: presence.documents.first().cloned(),
    };
    PhoneEvent::Changed { user: user.clone(), phone }
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

fn shown(presence: ChatPresence) -> router::Chat {
    let show = match presence.show {
        Show::Available => router::Show::Available,
        Show::Away => router::Show::Away,
        Show::Dnd => router::Show::Dnd,
        Show::Xa => router::Show::Xa,
    };
    router::Chat { show, note: presence.status }
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
        expires_at: None,
    }
}
