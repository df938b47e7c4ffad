//! Dial: parties are called, screened, joined with their caller, and everything ends once. Ringing phones are in
//! `party`.

use std::sync::Arc;

use ivr::document::{Address, BridgeRecording};
use ivr::request::Target;
use ivr::script::{Call, DialOptions, Direction, Id, Leg, LegEvent, Plan, Recorded, Role, Script, Start};
use media::session::RecordSource;
use sip::session::SessionEvent;
use stdx::Instant;
use stdx::slab::Key;

use super::actor::{Actor, Part};
use super::calls::Calls;
use super::dial_attempt::{DialAttempt, Originator};
use super::leg::codecs_like;
use super::record::{Background, Recordings};
use super::{API_VERSION, Voice, World};

/// Twilio's number for it.
const INVALID_CALLER_ID: u32 = 13_214;

/// The Dial of a leg's script.
#[derive(Default)]
pub(super) struct Dialing {
    pub(super) options: Option<Box<DialOptions>>,
    /// Parties that are not over.
    pub(super) parties: Vec<Key>,
    /// The caller hears the ringing tone.
    pub(super) is_ringing: bool,
    /// The party that the caller is joined with.
    pub(super) bridged: Option<Key>,
    is_recorded: bool,
}

impl Voice {
    pub(super) fn dial(
        &mut self,
        now: Instant,
        actor: Key,
        legs: Vec<Leg>,
        options: DialOptions,
        world: &mut World<'_>,
    ) {
        let Some((caller, leg)) = self.calls.leg_of(actor) else { return };
        let from = options.caller_id.clone().unwrap_or_else(|| leg.from.to_string());
        let is_callers = from == *leg.from;
        // The caller's name does not belong to another number.
        let caller_name = if options.caller_id.is_none() { leg.caller_name.clone() } else { None };
        let owner = Arc::clone(&leg.owner);
        let leg_caller = leg.caller.clone();
        let codecs = codecs_like(leg.media.as_ref().map(|media| media.negotiated().audio.codec));
        // RFC 7332 §4: a number whose application dials that number must not go on for ever.
        let hops = leg.hops.saturating_sub(1);
        let is_early = options.record.as_ref().is_some_and(|record| record.from_ringing);
        leg.dialing.get_or_insert_with(Box::default).options = Some(Box::new(options));
        if is_early {
            self.recordings.record_dial(now, caller, &mut self.calls, world);
        }
        // The caller's own number may be passed on.
        let is_own = self.may_show(&owner.account, &from);
        let is_forged = !is_callers && !is_own;
        let caller_aor = leg_caller.filter(|_| is_callers);
        let mut name = self.home.name_of(&from);
        let asserted = self.home.asserted(is_own.then_some(&*from), caller_aor.as_deref());
        if let Some(shown) = &caller_name {
            // RFC 3261 §25.1: a quoted-string.
            let quoted = shown.replace('\\', "\\\\").replace('"', "\\\"");
            name = format!("\"{quoted}\" {name}").into();
        }
        if is_forged {
            let text = format!("Dial: callerId {from:?} is neither a number nor a caller id of the account");
            self.calls.warn(now, caller, INVALID_CALLER_ID, text, world);
        }
        let is_heard_ringing = !is_forged && legs.iter().any(|leg| !matches!(leg.address, Address::Queue(_)));
        for Leg { id, address } in legs {
            if let Address::Queue(queue) = address {
                self.with_rooms(now, world, |rooms, parts| rooms.dial_queue(now, actor, id, &queue, parts));
                continue;
            }
            let sid = self.calls.new_sid(ivr::sid::CALL);
            let whose = (actor, Originator::Dialed(id));
            let mut party =
                DialAttempt::new(whose, sid, Arc::clone(&owner), from.as_str().into(), name.clone());
            party.codecs = codecs;
            party.caller_name.clone_from(&caller_name);
            party.hops = hops;
            party.is_forged = is_forged;
            party.asserted = asserted.clone();
            self.call_party(now, caller, party, address, world);
        }
        if is_heard_ringing {
            self.start_ringing(caller);
        }
    }

    /// Whether calls of this account may come from there.
    pub(super) fn may_show(&self, account: &str, shown: &str) -> bool {
        self.numbers.may_show(account, shown, |host, _| host == self.home.domain())
    }

    /// The party that is the leg `id` of a script.
    fn dialed(&self, actor: Key, id: Id) -> Option<(Key, &DialAttempt)> {
        let leg = self.calls.legs.get(self.calls.actors.get(actor)?.leg)?;
        let keys = leg.dialing.iter().flat_map(|dialing| &dialing.parties);
        let mut parties = keys.filter_map(|key| self.parties.get(*key).map(|party| (*key, party)));
        parties.find(|(_, party)| party.whose == Originator::Dialed(id))
    }

    pub(super) fn screen(&mut self, now: Instant, actor: Key, id: Id, target: Target, world: &mut World<'_>) {
        let Some((_, party)) = self.dialed(actor, id) else { return };
        let Some(&leg) = party.legs.first() else { return };
        let call = self.call_of_party(actor, party);
        let plan = Plan {
            role: Role::Screening,
            start: Start::Url(target),
            fallback: None,
            status: None,
            answer_on_bridge: false,
            time_limit: None,
        };
        let part = Part::Screening { caller: actor, id, accepted: false };
        let screen = self.calls.add_actor(Actor { script: Script::new(call, plan), leg, part });
        self.drive(now, screen, world, |script, out| script.start(now, out));
    }

    /// The call of a callee, as the scripts on the callee's leg know it.
    pub(super) fn call_of_party(&self, actor: Key, party: &DialAttempt) -> Call {
        let caller = self.calls.actors.get(actor).and_then(|actor| self.calls.legs.get(actor.leg));
        Call {
            sid: party.sid.clone(),
            account_sid: party.owner.account.to_string(),
            from: party.from.to_string(),
            to: party.to.clone(),
            direction: Direction::OutboundDial,
            caller_name: party.caller_name.as_deref().map(str::to_owned),
            forwarded_from: None,
            parent_sid: caller.map(|leg| leg.sid.clone()),
            api_version: API_VERSION.to_owned(),
            extra: party.extra(),
            answered: true,
        }
    }

    /// A screening or waiting script is over and its leg is not.
    pub(super) fn actor_done(&mut self, _now: Instant, actor: Key, _world: &mut World<'_>) {
        if let Some(Part::Screening { accepted, .. }) =
            self.calls.actors.get_mut(actor).map(|actor| &mut actor.part)
        {
            *accepted = true;
        }
    }

    pub(super) fn bridge(&mut self, now: Instant, actor: Key, id: Id, world: &mut World<'_>) {
        let Some(caller) = self.calls.actors.get(actor).map(|actor| actor.leg) else { return };
        self.calls.stop_ringing(caller);
        // One of a queue is joined by its room.
        let Some((key, party)) = self.dialed(actor, id) else { return };
        let Some(callee) = party.legs.first().copied() else { return };
        self.calls.join(caller, callee);
        if let Some(dialing) = self.calls.legs.get_mut(caller).and_then(|leg| leg.dialing.as_mut()) {
            dialing.bridged = Some(key);
        }
        self.recordings.record_dial(now, caller, &mut self.calls, world);
    }

    pub(super) fn hang_up_leg(&mut self, now: Instant, actor: Key, id: Id, world: &mut World<'_>) {
        if self.with_rooms(now, world, |rooms, parts| rooms.hang_up_queue_leg(now, actor, id, parts)) {
            return;
        }
        if let Some((key, _)) = self.dialed(actor, id) {
            self.end_party(now, key, world);
        }
    }

    /// Ends a party that has answered or is no longer awaited, whichever side ended it.
    pub(super) fn end_party(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        let Some((party, recording)) = self.forget_party(now, key, world) else { return };
        if let (true, Originator::Dialed(id)) = (party.is_up, party.whose) {
            let ended = LegEvent::Ended { recording };
            self.drive(now, party.actor, world, |script, out| script.handle_leg(now, id, ended, out));
        }
    }

    /// Its phones are hung up; with the recording of its Dial, when that ends with it.
    pub(super) fn forget_party(
        &mut self,
        now: Instant,
        key: Key,
        world: &mut World<'_>,
    ) -> Option<(DialAttempt, Option<Recorded>)> {
        let caller = self.calls.actors.get(self.parties.get(key)?.actor).map(|actor| actor.leg);
        let party = self.drop_party(now, key, world)?;
        let recording = caller.and_then(|caller| self.leave_dialing(now, caller, key, world));
        Some((party, recording))
    }

    /// Hangs up a party's phones without telling the script.
    pub(super) fn drop_party(
        &mut self,
        now: Instant,
        key: Key,
        world: &mut World<'_>,
    ) -> Option<DialAttempt> {
        let mut party = self.parties.remove(key)?;
        let counted = party.counted.take();
        if let Some(mut row) = party.row.take() {
            row.end(now, party.status());
            if let Some(failure) = party.failure().filter(|_| !party.is_up) {
                row.has_failed(&failure);
            }
            row.write(now, world);
        }
        if let Some(ticket) = party.ticket {
            self.resolving.take(ticket);
        }
        for &leg in &party.legs {
            self.remove(now, leg, world);
        }
        super::release(counted, world);
        Some(party)
    }

    /// Takes a party off the caller's list. After the last party, ringing and recording stop.
    pub(super) fn leave_dialing(
        &mut self,
        now: Instant,
        caller: Key,
        party: Key,
        world: &mut World<'_>,
    ) -> Option<Recorded> {
        let dialing = self.calls.legs.get_mut(caller)?.dialing.as_mut()?;
        dialing.parties.retain(|known| *known != party);
        if dialing.bridged == Some(party) {
            dialing.bridged = None;
        }
        if !dialing.parties.is_empty() {
            return None;
        }
        self.calls.stop_ringing(caller);
        self.recordings.end_dial_recording(now, caller, &mut self.calls, world)
    }

    /// Handles events of sessions that we began, and transfers.
    pub(super) fn handle_outgoing(&mut self, now: Instant, event: SessionEvent, world: &mut World<'_>) {
        match event {
            SessionEvent::Ringing { session, response } => self.rang(now, session, &response, world),
            SessionEvent::Answered { session, response } => self.answered(now, session, &response, world),
            SessionEvent::Referred { session, refer, request } => {
                self.referred(now, session, refer, &request, world);
            }
            // A peer that refuses or takes back an offer leaves the session as it was.
            _ => {}
        }
    }
}

/// The recording of a Dial is one of the caller's leg.
impl Recordings {
    /// `None`: it is not recorded.
    pub(super) fn end_dial_recording(
        &mut self,
        now: Instant,
        caller: Key,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) -> Option<Recorded> {
        let dialing = calls.legs.get_mut(caller)?.dialing.as_mut()?;
        let is_recorded = std::mem::take(&mut dialing.is_recorded);
        is_recorded.then(|| self.end_recording(now, caller, calls, world)).flatten()
    }

    /// Starts the recording that a Dial asks for, once.
    pub(super) fn record_dial(
        &mut self,
        now: Instant,
        caller: Key,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some(dialing) = calls.legs.get(caller).and_then(|leg| leg.dialing.as_ref()) else { return };
        let wanted = dialing.options.as_ref().and_then(|options| options.record.as_ref());
        let Some(record) = wanted.filter(|_| !dialing.is_recorded).cloned() else { return };
        let how = Background {
            source: source_of(&record),
            trim: record.trim,
            status: record.status,
            of: "DialVerb",
            conference: None,
        };
        let is_recorded = self.begin_recording(now, caller, how, calls, world).is_some();
        if let Some(dialing) = calls.legs.get_mut(caller).and_then(|leg| leg.dialing.as_mut()) {
            dialing.is_recorded = is_recorded;
        }
    }
}

fn source_of(record: &BridgeRecording) -> RecordSource {
    match (record.dual, record.track.as_str()) {
        (true, _) => RecordSource::Dual,
        (false, "inbound") => RecordSource::Received,
        (false, _) => RecordSource::Both,
    }
}
