//! Addresses that the routing plan looks up ([`super::VoiceEffect::Resolve`]), and the purpose of each look-up.

use std::collections::HashMap;

use std::sync::Arc;

use router::{Admission, Aor, CallPhase};
use stdx::Instant;
use stdx::slab::Key;

use super::{CountedCall, Resolved, Voice, World};

/// Twilio's number for a destination that an account may not call.
const REFUSED: u32 = 13_227;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResolutionPurpose {
    /// A text goes there; it has the ticket's number.
    Text,
    /// That party is called.
    Party(Key),
}

#[derive(Default)]
pub(super) struct Resolving {
    last: u64,
    open: HashMap<u64, ResolutionPurpose>,
}

impl Resolving {
    /// A ticket.
    pub(super) fn add(&mut self, what: ResolutionPurpose) -> u64 {
        self.last += 1;
        self.open.insert(self.last, what);
        self.last
    }

    pub(super) fn get(&self, ticket: u64) -> Option<ResolutionPurpose> {
        self.open.get(&ticket).copied()
    }

    pub(super) fn take(&mut self, ticket: u64) -> Option<ResolutionPurpose> {
        self.open.remove(&ticket)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}

impl Voice {
    /// The question to the router of a ticket's account, which limits its calls at once. `None`: the ticket is not for
    /// a call.
    pub fn admission_of(&mut self, ticket: u64, aor: &Aor, max_calls: u32) -> Option<Admission> {
        let Some(ResolutionPurpose::Party(key)) = self.resolving.open.get(&ticket).copied() else {
            return None;
        };
        let name: Box<str> = self.home.call_id(&mut self.calls.rng).into();
        let party = self.parties.get_mut(key)?;
        let counted = CountedCall { aor: aor.clone(), name: name.clone(), from: party.from.clone() };
        party.counted = Some(Arc::new(counted));
        Some(Admission {
            aor: aor.clone(),
            call_id: name,
            caller_tag: "".into(),
            initiator: false,
            max_calls: Some(max_calls),
            max_rate: None,
        })
    }

    /// The account's router has admitted the call of a ticket, or not. Returns the account to look up, unless the call
    /// is over or refused.
    pub fn handle_admitted(&mut self, ticket: u64, is_admitted: bool, world: &mut World<'_>) -> Option<Aor> {
        let Some(ResolutionPurpose::Party(key)) = self.resolving.open.get(&ticket).copied() else {
            return None;
        };
        let party = self.parties.get_mut(key)?;
        if !is_admitted {
            party.counted = None;
            return None;
        }
        let counted = party.counted.as_ref()?;
        world.outbox.push(counted.changed(CallPhase::Trying));
        Some(counted.aor.clone())
    }

    /// A limit keeps a call from its destination: its script's log says which.
    pub fn call_refused(&mut self, now: Instant, ticket: u64, reason: &str, world: &mut World<'_>) {
        let Some(ResolutionPurpose::Party(key)) = self.resolving.open.get(&ticket).copied() else { return };
        let Some(party) = self.parties.get_mut(key) else { return };
        party.is_refused = true;
        let text = format!("the call to {} was refused: {reason}", party.to);
        tracing::info!(
            account = &*party.owner.account,
            to = party.to,
            reason,
            "a call of an application was refused"
        );
        if let Some(leg) = self.calls.actors.get(party.actor).map(|actor| actor.leg) {
            self.calls.warn(now, leg, REFUSED, text, world);
        }
    }

    /// Handles the result of `VoiceEffect::Resolve`.
    pub fn handle_resolved(&mut self, now: Instant, ticket: u64, resolved: Resolved, world: &mut World<'_>) {
        match self.resolving.take(ticket) {
            Some(ResolutionPurpose::Text) => self
                .with_texts(now, world, |texts, parts| texts.handle_resolved(now, ticket, resolved, parts)),
            Some(ResolutionPurpose::Party(key)) => self.party_resolved(now, key, resolved, world),
            // The request's owner is gone.
            None => {}
        }
    }
}
