//! Calls that the REST interface asks for, and parts of all outgoing calls: a Call-ID that belongs to this shard, and a
//! name.

#[cfg(test)]
mod any_order;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ivr::document::{Address, Item};
use ivr::script::{Call, Direction, LegFailure, Plan, Script};
use sip::wire::{Uri, escape_user};
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;

use super::actor::{Actor, Part};
use super::dial::Dialing;
use super::dial_attempt::{DialAttempt, Originator, shown};
use super::leg::{Leg, NO_SESSION};
use super::record::Background;
use super::rows::{self, Row};
use super::settings::OwnsCallId;
use super::{API_VERSION, Owner, Voice, World};

/// A call that the REST interface asked for.
pub(super) struct Outgoing {
    pub(super) sid: String,
    pub(super) owner: Arc<Owner>,
    pub(super) to: Address,
    /// Sent before anything is spoken.
    pub(super) send_digits: Vec<Item>,
    /// The caller as the callee sees it: a number, a name, or a whole address.
    pub(super) from: String,
    /// The plan to perform once it is answered.
    pub(super) plan: Plan,
    /// The time that it may ring.
    pub(super) timeout: Duration,
    /// Begins with the answer.
    pub(super) record: Option<Background>,
}

/// The origin of this shard's own calls: its domain, and Call-IDs that lead back to the shard.
pub(super) struct CallOrigin {
    domain: Box<str>,
    /// True for the Call-IDs whose messages come to this shard.
    owns: OwnsCallId,
}

impl CallOrigin {
    pub(super) fn new(domain: &str, owns: OwnsCallId) -> CallOrigin {
        CallOrigin { domain: domain.into(), owns }
    }

    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// In-dialog requests of the peer go to the shard of the Call-ID: it is drawn until that is this one.
    pub(super) fn call_id(&self, rng: &mut Rng) -> String {
        loop {
            let id = format!("{:016x}{:016x}", rng.next_u64(), rng.next_u64());
            if (self.owns)(id.as_bytes()) {
                return id;
            }
        }
    }

    /// A name-addr for From: of a number or a name in our domain, of `client:` ones too, or of a whole address.
    pub(super) fn name_of(&self, from: &str) -> Box<str> {
        let is_whole = Uri::parse(from.as_bytes()).is_ok_and(|uri| uri.is_sip());
        let bare = from.split('?').next().unwrap_or_default();
        if is_whole && !bare.contains(['<', '>', '"']) {
            return format!("<{bare}>").into();
        }
        let name = escape_user(from.strip_prefix("client:").unwrap_or(from));
        let name = if name.is_empty() { "anonymous" } else { &name };
        format!("<sip:{name}@{}>", self.domain).into()
    }

    /// The asserted identity of a call or text (RFC 3325 §5): an address of the account, or the account that calls an
    /// application and has proved it. Anonymous callers are asserted to be none.
    pub(super) fn asserted(&self, shown: Option<&str>, caller: Option<&str>) -> Box<str> {
        let of_caller = || {
            let (user, domain) = caller?.rsplit_once('@')?;
            Some(format!("<sip:{}@{domain}>", escape_user(user)).into())
        };
        let is_anonymous = |shown: &&str| shown.to_ascii_lowercase().contains("anonymous");
        let of_account = || shown.filter(|shown| !is_anonymous(shown)).map(|shown| self.name_of(shown));
        of_caller().or_else(of_account).unwrap_or_default()
    }

    /// A name-addr for To, of a user of ours or of the plan's.
    pub(super) fn address_of(&self, address: &super::Address) -> Box<str> {
        let host = if address.host.is_empty() { &self.domain } else { &address.host };
        format!("<sip:{}@{host}>", escape_user(&address.user)).into()
    }
}

impl Voice {
    /// Begins a call with a script of its own ([`Direction::OutboundApi`]).
    pub(super) fn start_call(&mut self, now: Instant, call: Outgoing, world: &mut World<'_>) {
        let Outgoing { sid, owner, to, send_digits, from, plan, timeout, record } = call;
        // The script's leg until a phone has answered, whose leg is then the script's.
        let ip = self.calls.media_rules.own();
        let mut leg = Leg::new(NO_SESSION, sid.clone(), Arc::clone(&owner), ip, &mut self.calls.rng);
        leg.from = from.as_str().into();
        let leg = self.add_leg(now, leg);
        let facts = Call {
            sid: sid.clone(),
            account_sid: owner.account.to_string(),
            from: from.clone(),
            to: shown(&to),
            direction: Direction::OutboundApi,
            caller_name: None,
            forwarded_from: None,
            parent_sid: None,
            api_version: API_VERSION.to_owned(),
            extra: Vec::new(),
            answered: false,
        };
        let actor = self.calls.add_actor(Actor { script: Script::new(facts, plan), leg, part: Part::Main });
        self.drive(now, actor, world, |script, out| script.start(now, out));
        let name = self.home.name_of(&from);
        let mut party = DialAttempt::new((actor, Originator::Own), sid, owner, from.into(), name);
        party.timeout = timeout;
        party.send_digits = send_digits;
        party.record = record;
        party.asserted = self.home.asserted(Some(&party.from), None);
        self.call_party(now, leg, party, to, world);
    }

    /// The call that `actor` waits for was not answered.
    pub(super) fn unanswered(
        &mut self,
        now: Instant,
        actor: Key,
        failure: &LegFailure,
        world: &mut World<'_>,
    ) {
        if let Some((_, found)) = self.calls.leg_of(actor)
            && let Some(row) = &mut found.row
        {
            row.has_failed(failure);
        }
        if let Some(actor) = self.calls.actors.get_mut(actor) {
            actor.script.set_extra(rows::of_failure(failure));
        }
        let status = failure.status;
        self.drive(now, actor, world, |script, out| script.handle_unanswered(now, status, out));
    }

    /// A phone has answered: its leg is the script's from now on.
    pub(super) fn take_over(
        &mut self,
        now: Instant,
        actor: Key,
        key: Key,
        party: &DialAttempt,
        world: &mut World<'_>,
    ) {
        let Some(told) = self.calls.actors.get_mut(actor) else { return };
        told.script.set_extra(party.extra());
        let before = std::mem::replace(&mut told.leg, key);
        if let Some(leg) = self.calls.legs.get_mut(key) {
            leg.main = Some(actor);
            leg.party = None;
        }
        if let Some(before) = self.calls.legs.remove(before)
            && let Some(leg) = self.calls.legs.get_mut(key)
        {
            leg.sid = before.sid;
            leg.from = before.from;
            leg.row = before.row;
            leg.notifications = before.notifications;
            leg.is_muted = before.is_muted;
            if let Some(row) = &mut leg.row {
                row.has_call_id(&party.call_id);
            }
        }
        self.drive(now, actor, world, |script, out| script.handle_answered(now, out));
    }

    /// Begins to look for a party that `caller`'s script waits for.
    pub(super) fn call_party(
        &mut self,
        now: Instant,
        caller: Key,
        mut party: DialAttempt,
        to: Address,
        world: &mut World<'_>,
    ) {
        let (address, hops, is_forged) = (party.take_address(to), party.hops, party.is_forged);
        if self.calls.has_records && party.whose != Originator::Own {
            let call = self.call_of_party(party.actor, &party);
            party.row = Some(Box::new(Row::new(now, &call, "")));
        }
        let key = self.parties.insert(party);
        if let Some(leg) = self.calls.legs.get_mut(caller) {
            leg.dialing.get_or_insert_with(Box::<Dialing>::default).parties.push(key);
        }
        match address {
            _ if is_forged => self.party_failed(now, key, 403, world),
            _ if hops == 0 => self.party_failed(now, key, 483, world),
            Some(address) => self.look_up(key, address, world),
            // No URI that SIP has.
            None => self.party_failed(now, key, 416, world),
        }
    }
}
