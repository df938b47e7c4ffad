//! Calls that the REST interface asks for, and parts of all outgoing calls: a Call-ID that belongs to this shard, and a
//! name.

#[cfg(test)]
mod any_order;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use admin::control::ControlError;
use ivr::document::{Address, Item};
use ivr::script::{Call, Direction, Plan, Script};
use sip::wire::{Uri, escape_user};
use stdx::Instant;
use stdx::rng::Rng;

use store::rest::types::RestCall;

use super::actor::{Actor, Part};
use super::control::Placing;
use super::dial::OwnCall;
use super::dial_attempt::shown;
use super::dial_effect::DialOutbox;
use super::leg::{Leg, NO_SESSION};
use super::numbers::Numbers;
use super::record::Background;
use super::rows::Row;
use super::settings::{OwnsCallId, RedialPolicy};
use super::{API_VERSION, Owner, Voice, World, redial};

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
    /// The row of the call, which is in the record.
    pub(super) row: Option<RestCall>,
    /// The sid of the call that it is in place of.
    pub(super) redial_of: Option<String>,
}

impl From<Placing> for Outgoing {
    fn from(placing: Placing) -> Outgoing {
        let Placing { call, owner, to, send_digits, from, plan, timeout, record, redial_of } = placing;
        let sid = call.common.sid.clone();
        Outgoing { sid, owner, to, send_digits, from, plan, timeout, record, row: Some(call), redial_of }
    }
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

    /// The same with a display name.
    pub(super) fn display_name_of(&self, display: Option<&str>, from: &str) -> Box<str> {
        let name = self.name_of(from);
        let Some(shown) = display else { return name };
        // RFC 3261 §25.1: a quoted-string.
        let quoted = shown.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{quoted}\" {name}").into()
    }

    /// Calls and texts of an account come from an address of the account's.
    ///
    /// # Errors
    /// The address is another's.
    pub(super) fn check_shown(
        &self,
        numbers: &Numbers,
        owner: &Owner,
        shown: &str,
    ) -> Result<(), ControlError> {
        let is_own = self.may_show(numbers, &owner.account, shown);
        if is_own { Ok(()) } else { Err(ControlError::Caller(shown.to_owned())) }
    }

    /// True if calls and texts of this account may come from that address.
    pub(super) fn may_show(&self, numbers: &Numbers, account: &str, shown: &str) -> bool {
        numbers.may_show(account, shown, |host, _| host == self.domain())
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

/// Begins a call with a script of its own ([`Direction::OutboundApi`]).
pub(super) fn start_call(voice: &mut Voice, now: Instant, call: Outgoing, world: &mut World<'_>) {
    let Outgoing { sid, owner, to, send_digits, from, plan, timeout, record, row, redial_of } = call;
    // The script's leg until a phone has answered, whose leg is then the script's.
    let ip = voice.calls.media_rules.own();
    let mut leg = Leg::new(NO_SESSION, sid.clone(), Arc::clone(&owner), ip, &mut voice.calls.rng);
    leg.from = from.as_str().into();
    let life = voice.calls.life;
    // A call is made again once: its document may be what ends the nodes.
    let is_again = voice.calls.redial == RedialPolicy::Never || redial_of.is_some();
    let redial = if is_again { None } else { redial::of_placed(&plan, &to, &from) };
    let placed = |call| Row::placed(now, call).of_node(life, plan.status.as_ref()).redialled_as(redial);
    leg.row = row.map(|call| Box::new(placed(call)));
    voice.calls.start_ticks(now, &voice.rooms);
    let leg = voice.calls.add_leg(leg);
    let call = Call {
        sid: sid.clone(),
        account_sid: owner.account.to_string(),
        from: from.clone(),
        to: shown(&to),
        direction: Direction::OutboundApi,
        caller_name: None,
        forwarded_from: None,
        parent_sid: None,
        api_version: API_VERSION.to_owned(),
        extra: redial_of.map(|sid| (redial::REDIAL_OF.to_owned(), sid)).into_iter().collect(),
        answered: false,
    };
    let actor = voice.calls.add_actor(Actor { script: Script::new(call, plan), leg, part: Part::Main });
    voice.drive(now, actor, world, |script, out| script.start(now, out));
    let mut out = DialOutbox::new();
    let call = OwnCall { actor, leg, sid, owner, from, to, send_digits, timeout, record };
    voice.dials.place(now, call, &mut out);
    voice.perform_dials(now, out, world);
}
