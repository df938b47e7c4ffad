//! Recordings that go into the mailbox of an account (`mailbox` of `<Record>`, an attribute of our own).
//!
//! The address is looked up while the caller speaks (`Purpose::Mailbox`): an account of a domain that is served here, by its name or an alias. The
//! finished recording's row has the account in `to`, by which its user finds it (`chat::voicemail`). A name that leads to no account is a
//! notification of the application, and the recording is kept as any other.

use ivr::document::code;
use ivr::script::{Id, Recording as RecordVerb};
use router::Aor;
use stdx::Instant;
use stdx::slab::Key;
use store::rest::types::Recording as RecordingRow;

use super::active_recordings::RecordingObserver;
use super::calls::Calls;
use super::leg::Leg;
use super::record::Recordings;
use super::resolving::ResolutionPurpose;
use super::{Address, Purpose, Resolved, Voice, VoiceEffect, World, limits};

/// The mailbox of a recording under way.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// The address, as the document has it.
    address: Box<str>,
    /// The caller, as [`caller_of`] names it.
    from: Box<str>,
    /// `None`: the account is being looked up, or there is none.
    account: Option<Aor>,
}

impl Mailbox {
    /// The mailbox that a Record names, for the caller of its leg.
    pub(super) fn of(wanted: &RecordVerb, leg: &Leg) -> Option<Box<Mailbox>> {
        let address = wanted.mailbox.as_deref()?.into();
        let party = leg.row.as_ref().map_or(&*leg.from, |row| row.party());
        let from = caller_of(party, leg.caller.as_ref());
        Some(Box::new(Mailbox { address, from, account: None }))
    }

    /// Puts the row of a finished recording into the mailbox. `false`: its account is not known.
    pub(super) fn deliver(&self, row: &mut RecordingRow) -> bool {
        let sid = &row.common.sid;
        let Some(account) = &self.account else {
            tracing::info!(sid, mailbox = &*self.address, "a recording is in no mailbox");
            return false;
        };
        tracing::debug!(sid, mailbox = &**account, "a recording is put into a mailbox");
        (**account).clone_into(&mut row.to);
        (*self.from).clone_into(&mut row.from);
        true
    }
}

/// The caller as its user is told of it: the address of an account that has proved to be the caller and shows its name, else the party as
/// applications know it, which any caller may claim. A claim never looks like an address: the user's page would show the contact of that address.
fn caller_of(party: &str, account: Option<&Aor>) -> Box<str> {
    let is_shown = |account: &&Aor| account.rsplit_once('@').is_some_and(|(user, _)| user == party);
    match account.filter(is_shown) {
        Some(account) => (**account).into(),
        // A URI is no address of a contact: an application has given it, or a caller that has no contact's address by it.
        None if party.starts_with("sip:") || party.starts_with("sips:") => party.into(),
        None => party.replace('@', "%40").into(),
    }
}

/// The address of a mailbox: a name of the default domain, or a name and a domain.
fn address_of(text: &str) -> Option<Address> {
    let (user, host) = text.rsplit_once('@').unwrap_or((text, ""));
    let is_address = !user.is_empty() && (text.len() == user.len() || !host.is_empty());
    let is_address = is_address && text.len() <= limits::MAILBOX_ADDRESS;
    is_address.then(|| Address { user: user.into(), host: host.into(), port: None })
}

/// Looks up the account of a Record's mailbox, if it has one.
pub(super) fn look_up(voice: &mut Voice, record: (Key, Id), wanted: &RecordVerb, world: &mut World<'_>) {
    let Some(mailbox) = wanted.mailbox.as_deref() else { return };
    // An address that cannot be one is looked up as well, under the empty name that no account has: so there is one way to say so.
    let address = address_of(mailbox).unwrap_or(Address { user: "".into(), host: "".into(), port: None });
    let ticket = voice.resolutions.insert(ResolutionPurpose::Mailbox(record.0, record.1));
    world.outbox.push(VoiceEffect::Resolve { ticket, address, purpose: Purpose::Mailbox });
}

/// The account of a Record's mailbox is known. The recording may not have begun yet, or may be over.
pub(super) fn handle_account(
    recordings: &mut Recordings,
    record: (Key, Id),
    account: &Aor,
    calls: &mut Calls,
) {
    if let Some(mailbox) = mailbox_mut(recordings, record, calls) {
        mailbox.account = Some(account.clone());
    }
}

/// The look-up is over: an application whose Record leads to no account gets a notification.
pub(super) fn end_look_up(
    recordings: &mut Recordings,
    now: Instant,
    record: (Key, Id),
    resolved: &Resolved,
    calls: &mut Calls,
    world: &mut World<'_>,
) {
    let Some(mailbox) = mailbox_mut(recordings, record, calls).filter(|mailbox| mailbox.account.is_none())
    else {
        return;
    };
    // RFC 3261 §21.5: a failure of ours, which is not the document's.
    let is_ours = resolved.as_ref().is_err_and(|status| *status >= 500);
    let why = if is_ours { "cannot be looked up now" } else { "is no account" };
    let text = format!("Record: the mailbox {:?} {why}; the recording is in none", mailbox.address);
    if let Some((key, _)) = calls.leg_of(record.0) {
        calls.warn(now, key, code::RECORDING, text, world);
    }
}

/// The mailbox of a Record, before the recording, during it, or while its file is completed.
fn mailbox_mut<'m>(
    recordings: &'m mut Recordings,
    record: (Key, Id),
    calls: &'m mut Calls,
) -> Option<&'m mut Mailbox> {
    let of = |observer: &'m mut RecordingObserver| match observer {
        RecordingObserver::Verb { actor, id, mailbox, .. } if (*actor, *id) == record => {
            mailbox.as_deref_mut()
        }
        _ => None,
    };
    if let Some(mailbox) = recordings.closing.values_mut().find_map(|closing| of(&mut closing.observer)) {
        return Some(mailbox);
    }
    let (_, leg) = calls.leg_of(record.0)?;
    if let Some(beep) = leg.beep.as_mut().filter(|beep| (beep.actor, beep.id) == record) {
        return beep.mailbox.as_deref_mut();
    }
    leg.recording.as_mut()?.active.iter_mut().find_map(|one| of(&mut one.observer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_a_name_or_an_address() {
        let of = |text: &str| address_of(text).map(|address| format!("{}|{}", address.user, address.host));
        assert_eq!(of("alice").as_deref(), Some("alice|"));
        assert_eq!(of("alice@example.org").as_deref(), Some("alice|example.org"));
        let long = "a".repeat(limits::MAILBOX_ADDRESS + 1);
        for none in ["", "@example.org", "alice@", long.as_str()] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn only_a_caller_that_has_proved_its_account_is_named_by_an_address() {
        let boss = Aor::from("boss@example.org");
        let of = |party: &str, account: Option<&Aor>| caller_of(party, account).to_string();
        assert_eq!(of("boss", Some(&boss)), "boss@example.org");
        // By a stranger, or by a user part with an escape.
        assert_eq!(of("boss", None), "boss");
        assert_eq!(of("boss@example.org", None), "boss%40example.org");
        // An account that hides itself, or shows a number of its own.
        assert_eq!(of("anonymous", Some(&boss)), "anonymous");
        assert_eq!(of("4930123", Some(&boss)), "4930123");
        assert_eq!(of("sip:bob@example.net", None), "sip:bob@example.net");
    }

    #[test]
    fn only_an_account_gets_the_recording() {
        let mut mailbox = Mailbox { address: "alice".into(), from: "bob".into(), account: None };
        let mut row = RecordingRow::default();
        assert!(!mailbox.deliver(&mut row));
        assert_eq!(row, RecordingRow::default());
        mailbox.account = Some(Aor::from("alice@example.org"));
        assert!(mailbox.deliver(&mut row));
        assert_eq!((&*row.to, &*row.from), ("alice@example.org", "bob"));
    }
}
