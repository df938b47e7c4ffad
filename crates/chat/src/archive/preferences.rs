//! Preferences of archiving (XEP-0441, formerly XEP-0313 §6).
//!
//! They are an item of a private node, which is read with the account (`user::NODES`), so that each message is judged from
//! memory.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid, ns};

use super::super::account_memory::AccountMemory;
use super::super::effect::Change;
use super::super::feature::IqRequest;
use super::super::iq_effect::EffectReply;
use super::super::store_requests::StoreRequests;
use super::super::{Outbox, change_queue};
use super::Archive;
use crate::{limits, outgoing};

/// The node that keeps them. Only its account reads nodes of that prefix.
pub(in super::super) const NODE: &str = "private:urn:xmpp:mam:2#preferences";

/// The messages that an account's archive keeps, in the words of XEP-0441.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArchiveDefault {
    /// All messages.
    #[default]
    Always,
    /// Messages from and to contacts.
    Roster,
    /// No messages.
    Never,
}

impl ArchiveDefault {
    /// By the words of XEP-0441.
    pub fn parse(text: &str) -> Option<ArchiveDefault> {
        [ArchiveDefault::Always, ArchiveDefault::Roster, ArchiveDefault::Never]
            .into_iter()
            .find(|archived| archived.name() == text)
    }

    /// True if messages are kept where no list of addresses decides. `is_contact`: the other party is in the roster.
    pub(super) fn keeps(self, is_contact: impl FnOnce() -> bool) -> bool {
        match self {
            ArchiveDefault::Always => true,
            ArchiveDefault::Never => false,
            ArchiveDefault::Roster => is_contact(),
        }
    }

    /// The value of the `default` attribute (XEP-0441).
    pub fn name(self) -> &'static str {
        match self {
            ArchiveDefault::Always => "always",
            ArchiveDefault::Roster => "roster",
            ArchiveDefault::Never => "never",
        }
    }
}

/// The preferences of one account. `never` goes before `always`, and both before `otherwise`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Preferences {
    /// The `default` attribute: it decides where no list does.
    otherwise: ArchiveDefault,
    /// Addresses whose messages are kept whatever the default says, and those whose messages never are.
    always: Vec<Jid>,
    never: Vec<Jid>,
}

impl Preferences {
    /// The preferences of an account that never set them.
    fn usual(otherwise: ArchiveDefault) -> Preferences {
        Preferences { otherwise, ..Preferences::default() }
    }

    /// Unreadable preferences are not the defaults: until they are set anew nothing is archived.
    pub(super) fn of_stored(item: &Element) -> Preferences {
        let nothing = Preferences { otherwise: ArchiveDefault::Never, ..Preferences::default() };
        Preferences::parse(item).unwrap_or(nothing)
    }

    /// True if the archive keeps messages with this address. `is_contact`: the address is in the roster.
    pub(super) fn keeps(&self, with: &Jid, is_contact: impl FnOnce() -> bool) -> bool {
        if names(&self.never, with) {
            return false;
        }
        names(&self.always, with) || self.otherwise.keeps(is_contact)
    }

    /// From `<prefs/>`, as a client sends it and as it is stored.
    fn parse(prefs: &Element) -> Result<Preferences, StanzaError> {
        let Some(otherwise) = prefs.attr("default").and_then(ArchiveDefault::parse) else {
            let text = "the default is always, never or roster";
            return Err(StanzaError::new(Condition::BadRequest, text));
        };
        Ok(Preferences { otherwise, always: jids(prefs, "always")?, never: jids(prefs, "never")? })
    }

    /// `<prefs/>`, for the client and for the store.
    fn element(&self) -> Element {
        let list = |name: &'static str, jids: &[Jid]| {
            let jids = jids.iter().map(|jid| Element::new("jid", ns::MAM).text(jid.as_str()));
            Element::new(name, ns::MAM).children(jids)
        };
        Element::new("prefs", ns::MAM)
            .with("default", self.otherwise.name())
            .child(list("always", &self.always))
            .child(list("never", &self.never))
    }
}

/// The addresses of the list `always` or `never`; one that is no address makes the whole request fail.
fn jids(prefs: &Element, name: &str) -> Result<Vec<Jid>, StanzaError> {
    let list = prefs.get(name, ns::MAM);
    let jids = list.into_iter().flat_map(Element::elements).filter(|child| child.is("jid", ns::MAM));
    let jids: Vec<Jid> = jids
        .map(|jid| Jid::parse(jid.content().trim()))
        .collect::<Result<_, _>>()
        .map_err(|_| Condition::JidMalformed)?;
    if jids.len() > limits::ARCHIVE_PREFERENCES {
        return Err(StanzaError::new(Condition::PolicyViolation, "too many addresses in a list"));
    }
    Ok(jids)
}

/// An address without a resource stands for all of them.
fn names(list: &[Jid], with: &Jid) -> bool {
    list.iter().any(|jid| jid == with || jid.as_str() == with.bare_str())
}

/// Answers a request for the preferences, or writes new ones. They count once they are on disk.
pub(crate) fn handle(
    (archive, otherwise): (&Archive, ArchiveDefault),
    (accounts, store): (&AccountMemory, &mut StoreRequests),
    now: Instant,
    iq: &IqRequest<'_>,
    out: &mut Outbox,
) -> EffectReply {
    let user = iq.to.bare();
    if !iq.is_set {
        let own = archive.preferences.get(&user).cloned();
        let preferences = own.unwrap_or_else(|| Preferences::usual(otherwise));
        return Ok(Some(preferences.element()));
    }
    if accounts.is_anonymous(&user) {
        return Err(Condition::NotAllowed.into());
    }
    let preferences = Preferences::parse(iq.payload)?;
    let change = Change::Item {
        owner: user.clone(),
        node: NODE.into(),
        id: "current".into(),
        item: Some(Box::new(preferences.element())),
        at: now,
        keep: 1,
    };
    let iq = iq.iq.clone();
    store.change(change, out, move |host, _, done, out| {
        let answer = done.map_err(change_queue::not_written).map(|()| {
            let element = preferences.element();
            // If the account has left memory meanwhile, its preferences are read again.
            if host.accounts.is_in_memory(&user) {
                host.archive.preferences.insert(user, preferences);
            }
            Some(element)
        });
        outgoing::answer(&iq, answer, out);
    });
    Ok(None)
}
