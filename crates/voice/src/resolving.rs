//! Addresses that the routing plan looks up ([`super::VoiceEffect::Resolve`]), and the purpose of each look-up.

use std::collections::HashMap;

use ivr::script::Id;
use router::{Admission, Aor};
use stdx::Instant;
use stdx::slab::Key;

use super::dial_effect::DialOutbox;
use super::{Resolved, Voice, World, mailboxes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResolutionPurpose {
    /// A text goes there; it has the ticket's number.
    Text,
    /// The dial attempt that calls it.
    Call(Key),
    /// The mailbox of a Record, by its actor and number.
    Mailbox(Key, Id),
}

/// The look-ups of a shard that have no answer yet, by ticket.
#[derive(Default)]
pub(super) struct Resolutions {
    last: u64,
    open: HashMap<u64, ResolutionPurpose>,
}

impl Resolutions {
    /// A ticket.
    pub(super) fn insert(&mut self, purpose: ResolutionPurpose) -> u64 {
        self.last += 1;
        self.open.insert(self.last, purpose);
        self.last
    }

    /// The dial attempt that the look-up is for, if it is for one.
    pub(super) fn attempt(&self, ticket: u64) -> Option<Key> {
        match self.open.get(&ticket)? {
            ResolutionPurpose::Call(attempt) => Some(*attempt),
            ResolutionPurpose::Text | ResolutionPurpose::Mailbox(..) => None,
        }
    }

    /// The Record whose mailbox the look-up is for, if it is for one.
    fn mailbox(&self, ticket: u64) -> Option<(Key, Id)> {
        match self.open.get(&ticket)? {
            ResolutionPurpose::Mailbox(actor, id) => Some((*actor, *id)),
            ResolutionPurpose::Text | ResolutionPurpose::Call(_) => None,
        }
    }

    pub(super) fn remove(&mut self, ticket: u64) -> Option<ResolutionPurpose> {
        self.open.remove(&ticket)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

impl Voice {
    /// The account that a ticket's address has led to.
    pub fn account_known(&mut self, ticket: u64, aor: &Aor) {
        if let Some(record) = self.resolutions.mailbox(ticket) {
            return mailboxes::handle_account(&mut self.recordings, record, aor, &mut self.calls);
        }
        match self.resolutions.attempt(ticket) {
            Some(attempt) => self.dials.handle_account(attempt, aor),
            None => self.texts.handle_account(ticket, aor),
        }
    }

    /// The question to the router of a ticket's account, which limits its calls at once. `None`: the ticket is not for
    /// a call.
    pub fn admission_of(&mut self, ticket: u64, aor: &Aor, max_calls: u32) -> Option<Admission> {
        let attempt = self.resolutions.attempt(ticket)?;
        self.dials.admission_of(attempt, aor, max_calls)
    }

    /// The account's router has admitted the call of a ticket, or not. Returns the account to look up, unless the call
    /// is over or refused.
    pub fn handle_admitted(&mut self, ticket: u64, is_admitted: bool, world: &mut World<'_>) -> Option<Aor> {
        let attempt = self.resolutions.attempt(ticket)?;
        let (aor, effect) = self.dials.handle_admitted(attempt, is_admitted)?;
        world.outbox.push(effect);
        Some(aor)
    }

    /// A limit keeps a call from its destination: its script's log says which.
    pub fn call_refused(&mut self, now: Instant, ticket: u64, reason: &str, world: &mut World<'_>) {
        let Some(attempt) = self.resolutions.attempt(ticket) else { return };
        let mut out = DialOutbox::new();
        self.dials.handle_refused(attempt, reason, &mut out);
        self.perform_dials(now, out, world);
    }

    /// Handles the result of `VoiceEffect::Resolve`.
    pub fn handle_resolved(&mut self, now: Instant, ticket: u64, resolved: Resolved, world: &mut World<'_>) {
        match self.resolutions.remove(ticket) {
            Some(ResolutionPurpose::Text) => self
                .with_texts(now, world, |texts, parts| texts.handle_resolved(now, ticket, resolved, parts)),
            Some(ResolutionPurpose::Call(attempt)) => {
                let mut out = DialOutbox::new();
                self.dials.handle_resolved(now, attempt, resolved, &mut out);
                self.perform_dials(now, out, world);
            }
            Some(ResolutionPurpose::Mailbox(actor, id)) => {
                mailboxes::end_look_up(
                    &mut self.recordings,
                    now,
                    (actor, id),
                    &resolved,
                    &mut self.calls,
                    world,
                );
            }
            // The request's owner is gone.
            None => {}
        }
    }
}
