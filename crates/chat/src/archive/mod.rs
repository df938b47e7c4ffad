//! Message archives (XEP-0313) of accounts and rooms, and the stable ids they give (XEP-0359).
//!
//! `route` writes a message into the archive of its sender and of its addressee, and `muc` into that of a
//! room, each by an `ArchiveWriter`: before the message is delivered, so that the copies have the id by which
//! it is found again. `preferences` says which messages an account keeps; `query` reads. The store has the
//! entries; in memory are the preferences only.
//!
//! A message may be delivered before its entry is on disk, but its sender's acknowledgement waits for the
//! entry (`ack`). A message between two accounts of this server has two entries with two ids, one in each
//! archive.

mod preferences;
mod query;

use std::collections::HashMap;

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::stanza::Condition;
use xmpp::{Bare, Element, Jid, Level, Specification, ns, stanza};

pub use self::preferences::ArchiveDefault;
use self::preferences::Preferences;
pub(super) use self::preferences::{NODE as PREFERENCES, handle as handle_preferences};
pub(super) use self::query::{handle_query, read_ends};
use super::account_memory::AccountMemory;
use super::ack::PendingAcks;
use super::effect::{Change, Load, MamQuery, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::store_requests::StoreRequests;
use super::{Host, Outbox, hints, message_writes, offline};
use crate::limits::ARCHIVE_AHEAD;
use crate::retract;

const FILE: &str = "crates/chat/src/archive/mod.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0313",
            title: "Message Archive Management",
            version: "1.1.3",
            level: Level::Complete,
            file: FILE,
            note: "pages by id, not by index",
        },
        Specification {
            name: "XEP-0359",
            title: "Unique and Stable Stanza IDs",
            version: "0.7.0",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
        Specification {
            name: "XEP-0059",
            title: "Result Set Management",
            version: "1.0",
            level: Level::Complete,
            file: "crates/chat/src/archive/query.rs",
            note: "pages by index (§2.6, optional) of nodes only",
        },
        Specification {
            name: "XEP-0431",
            title: "Full Text Search in MAM",
            version: "0.2.0",
            level: Level::Complete,
            file: "crates/chat/src/archive/query.rs",
            note: "messages whose body has each word, as a part of a longer one too; of accounts and rooms",
        },
        Specification {
            name: "XEP-0441",
            title: "Message Archive Management Preferences",
            version: "0.2.0",
            level: Level::Complete,
            file: "crates/chat/src/archive/preferences.rs",
            note: "",
        },
    ],
    account: &[ns::MAM, ns::MAM_EXTENDED, ns::FULL_TEXT, ns::SID],
    server: &[],
    handles: &[
        IqHandler { at: IqTarget::Own, name: "query", ns: ns::MAM, run: own_archive },
        IqHandler { at: IqTarget::Own, name: "metadata", ns: ns::MAM, run: own_archive },
        IqHandler {
            at: IqTarget::Own,
            name: "prefs",
            ns: ns::MAM,
            run: |_, _| IqReply::Perform(IqEffect::ArchivePreferences),
        },
        IqHandler { at: IqTarget::Account, name: "query", ns: ns::MAM, run: archive_of_another },
        IqHandler { at: IqTarget::Account, name: "metadata", ns: ns::MAM, run: archive_of_another },
        IqHandler { at: IqTarget::Account, name: "prefs", ns: ns::MAM, run: archive_of_another },
    ],
};

/// XEP-0313 §8.1: the archive of another account is `forbidden`. An account looks for handlers of its own address first, so its
/// own requests do not come here.
fn archive_of_another(_view: &mut IqView<'_>, _iq: &IqRequest<'_>) -> IqReply {
    IqReply::Error(Condition::Forbidden.into())
}

/// True if an iq asks for an archive or its preferences.
pub(super) fn asks_for_archive(iq: &Element) -> bool {
    iq.first().is_some_and(|payload| {
        payload.ns() == ns::MAM && matches!(payload.name(), "query" | "metadata" | "prefs")
    })
}

/// The hexadecimal digits of an id that are its number; 56 bits of microseconds are 2,283 years.
const ID_DIGITS: usize = 14;

/// The preferences of accounts, and the ids of new entries, for all archives of a host.
#[derive(Default)]
pub(super) struct Archive {
    /// The preferences of accounts in memory, where they differ from the default.
    preferences: HashMap<Bare, Preferences>,
    /// The number of the last id: its time in microseconds, or one more than the id before if that is later.
    last: u64,
}

impl Archive {
    /// The account leaves memory.
    pub(super) fn forget(&mut self, user: &Bare) {
        self.preferences.remove(user);
    }

    /// The account's data was read, and its preferences with it, before its first message: no message is
    /// judged by the default because the preferences were late.
    pub(super) fn handle_loaded(&mut self, user: &Bare, preferences: Option<&Element>) {
        if let Some(item) = preferences {
            self.preferences.insert(user.clone(), Preferences::of_stored(item));
        }
    }

    /// An archive has these ids, perhaps of a process whose clock was ahead: the next ones of this host are greater.
    pub(super) fn handle_ids<'i>(&mut self, now: Instant, ids: impl IntoIterator<Item = &'i str>) {
        let latest = (now + ARCHIVE_AHEAD).as_micros();
        for id in ids {
            let number = id.get(..ID_DIGITS).and_then(|digits| u64::from_str_radix(digits, 16).ok());
            self.last = self.last.max(number.filter(|number| *number <= latest).unwrap_or(0));
        }
    }

    /// True if the account's archive keeps this message. `otherwise`: the default of accounts without preferences.
    fn keeps(
        &self,
        accounts: &AccountMemory,
        otherwise: ArchiveDefault,
        (user, with): (&Bare, &Jid),
        message: &Element,
    ) -> bool {
        // The sender's hint and the kind of message go before the user's preferences.
        if !hints::is_worth_archiving(message) || accounts.is_anonymous(user) {
            return false;
        }
        let is_contact = || accounts.listed_item(user, &with.bare()).is_some();
        match self.preferences.get(user) {
            Some(own) => own.keeps(with, is_contact),
            None => otherwise.keeps(is_contact),
        }
    }

    /// A new entry of an archive and its id. Ids sort by time and no two are equal, also after a clock was set back, and those of an archive
    /// also after a start or at the next owner (`handle_ids`). The id is hexadecimal, 14 digits of the number and 8 random ones, so that its text sorts by time
    /// (`MamQuery::lowest_id` depends on it).
    fn new_entry(
        &mut self,
        (now, rng): (Instant, &mut Rng),
        owner: &Bare,
        with: &Jid,
        message: &Element,
    ) -> (Box<str>, Change) {
        self.last = now.as_micros().max(self.last + 1);
        let id: Box<str> = format!("{:0ID_DIGITS$x}{:08x}", self.last, rng.next_u64() >> 32).into();
        let stanza = Box::new(message.clone());
        (id.clone(), Change::Archive { owner: owner.clone(), id, with: with.clone(), at: now, stanza })
    }
}

/// The message with the id that the owner's archive has given it (XEP-0359).
pub(super) fn with_id(message: Element, owner: &Bare, id: Box<str>) -> Element {
    message.child(Element::new("stanza-id", ns::SID).with("by", owner.as_str()).with("id", id))
}

/// The id that the owner's archive has given this message. `None`: it is not archived.
pub(super) fn id_of<'a>(message: &'a Element, owner: &Bare) -> Option<&'a str> {
    let is_own =
        |child: &&Element| child.is("stanza-id", ns::SID) && child.attr("by") == Some(owner.as_str());
    message.elements().find(is_own)?.attr("id")
}

/// Takes out ids that only the owner's archive may give (XEP-0359 §6): a sender could make a client believe
/// that it has read what it has not.
pub(super) fn remove_forged_ids(message: &mut Element, owner: &Bare) {
    message.remove_children(|child| {
        let by = child.attr("by").map(Jid::parse);
        child.is("stanza-id", ns::SID) && by.is_some_and(|by| by.is_ok_and(|by| by == *owner.as_jid()))
    });
}

/// A query needs the store, so it is performed after the handler has returned (`IqEffect::ReadArchive`).
fn own_archive(_view: &mut IqView<'_>, _iq: &IqRequest<'_>) -> IqReply {
    IqReply::Perform(IqEffect::ReadArchive)
}

/// The parts of a host by which messages are written into archives.
pub(super) struct ArchiveWriter<'a> {
    archive: &'a mut Archive,
    accounts: &'a AccountMemory,
    store: &'a mut StoreRequests,
    pending_acks: &'a mut PendingAcks,
    rng: &'a mut Rng,
    /// The default of accounts without preferences.
    otherwise: ArchiveDefault,
}

impl<'a> ArchiveWriter<'a> {
    pub(super) fn of(host: &'a mut Host) -> ArchiveWriter<'a> {
        ArchiveWriter {
            archive: &mut host.archive,
            accounts: &host.accounts,
            store: &mut host.store,
            pending_acks: &mut host.pending_acks,
            rng: &mut host.rng,
            otherwise: host.settings.archive,
        }
    }

    /// Writes a message that a session of the account sends. Its id, if the archive keeps it: then the caller holds the
    /// acknowledgement of `mark` (`Acks::hold`), until the message is written.
    pub(super) fn record_sent(
        self,
        now: Instant,
        user: &Bare,
        message: &Element,
        mark: Option<&str>,
        out: &mut Outbox,
    ) -> Option<Box<str>> {
        let to = stanza::to(message).ok().flatten()?;
        // To oneself: it is archived where it arrives.
        if to.bare() == *user || !self.archive.keeps(self.accounts, self.otherwise, (user, &to), message) {
            return None;
        }
        let mark = mark.map(Box::<str>::from);
        retract::retract_archived(self.store, user, &to, message, out);
        let (id, change) = self.archive.new_entry((now, self.rng), user, &to, message);
        let sent = message.clone();
        // The message goes its way, archived or not.
        self.store.change(change, out, move |host, _, done, out| {
            if let Some(error) = done.err().and_then(message_writes::unarchived) {
                host.refuse(&sent, &error, out);
            }
            host.acks().handle_archived(mark.as_deref(), out);
        });
        Some(id)
    }

    /// Writes a message for the account, if the archive keeps it; then the message gets its id.
    pub(super) fn record_received(self, now: Instant, user: &Bare, message: &mut Element, out: &mut Outbox) {
        remove_forged_ids(message, user);
        let Some(from) = offline::sender(message) else { return };
        if self.archive.keeps(self.accounts, self.otherwise, (user, &from), message) {
            // The retracted message is read before the retraction is written, so that it cannot find itself.
            retract::retract_archived(self.store, user, &from, message, out);
            let id = self.record(now, (user, &from), message, message, out);
            let with = Element::new("stanza-id", ns::SID).with("by", user.as_str()).with("id", id);
            message.push(with);
        }
    }

    /// Writes a message into an archive, of an account or of a room, and returns its id there. Until it is
    /// written, the message under way is not handled. The sender of `received` is told of a failure.
    pub(super) fn record(
        self,
        now: Instant,
        (owner, with): (&Bare, &Jid),
        message: &Element,
        received: &Element,
        out: &mut Outbox,
    ) -> Box<str> {
        // Released with the store's answer, whatever it is.
        let hold = self.pending_acks.guard();
        let (id, change) = self.archive.new_entry((now, self.rng), owner, with, message);
        let received = received.clone();
        // A client that gets the message directly has it, whatever becomes of the archive.
        self.store.change(change, out, move |host, _, done, out| {
            if let Some(error) = done.err().and_then(message_writes::unarchived) {
                host.refuse(&received, &error, out);
            }
            host.acks().release(hold, out);
        });
        id
    }
}

/// Replaces an archived message (XEP-0424 §4, XEP-0425 §5) by the stanza that `tombstone` makes of it; `None`: the message stays, as if it were
/// not there. `then` learns whether it was there.
pub(super) fn replace(
    store: &mut StoreRequests,
    owner: &Bare,
    id: &str,
    out: &mut Outbox,
    tombstone: impl FnOnce(&Element) -> Option<Element> + 'static,
    then: impl FnOnce(&mut Host, Instant, Result<(), StoreFailure>, &mut Outbox) + 'static,
) {
    let query = MamQuery { ids: vec![id.into()], max: 1, ..MamQuery::default() };
    let owner = owner.clone();
    let load = Load::Archive { owner: owner.clone(), query: Box::new(query) };
    store.load(load, out, move |host, now, loaded, out| {
        let page = match loaded {
            Ok(StoreReply::Page(page)) => page,
            Ok(_) => return then(host, now, Err(StoreFailure::Unavailable), out),
            Err(error) => return then(host, now, Err(error), out),
        };
        let found = page.stanzas.into_iter().next();
        let Some((id, at, stone)) = found.and_then(|(id, at, old)| Some((id, at, tombstone(&old)?))) else {
            return then(host, now, Err(StoreFailure::NotFound), out);
        };
        // The other party stays as it is: the store changes the stanza only.
        let with = owner.as_jid().clone();
        let stanza = Box::new(stone);
        host.store.change(Change::Archive { owner, id, with, at, stanza }, out, then);
    });
}
