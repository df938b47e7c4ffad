//! Transfers that a peer asks for: REFER (RFC 3515) within a Dial whose document says who is to be asked, blind ones
//! (RFC 5589 §6). An attended one would have a dialog that is not ours replaced (RFC 3891), and is refused.

use ivr::request::{Form, Target};
use ivr::script::{LegEvent, Plan, Role, Script, Start};
use sip::session::{ReferId, SessionId};
use sip::wire::{Header, Message, Uri};
use stdx::Instant;
use stdx::slab::Key;

use super::actor::{Actor, Part};
use super::dial_attempt::{Originator, uri_in};
use super::{Voice, World};

/// The two parties of a call that is transferred, and the application that decides about the party that stays.
struct TransferredCall {
    caller: Key,
    party: Key,
    target: Target,
}

impl Voice {
    pub(super) fn referred(
        &mut self,
        now: Instant,
        session: SessionId,
        refer: ReferId,
        request: &Message,
        world: &mut World<'_>,
    ) {
        let Some(&leg) = self.calls.by_session.get(&session) else { return };
        let target = uri_in(request, Header::ReferTo).unwrap_or_default();
        let is_attended = Uri::parse(target.as_bytes()).is_ok_and(|uri| {
            let headers = String::from_utf8_lossy(uri.headers).to_ascii_lowercase();
            headers.split('&').any(|header| header.starts_with("replaces="))
        });
        let talk = self.talk_of(leg);
        let (status, reason) = match &talk {
            _ if is_attended => (501, "Not Implemented"),
            None => (603, "Decline"),
            Some(_) => (202, "Accepted"),
        };
        let Some(talk) = talk.filter(|_| status == 202) else {
            // The session may have ended meanwhile.
            let _ = world.endpoint.sessions(now, world.out).refuse_refer(session, refer, status, reason);
            return;
        };
        if world.endpoint.sessions(now, world.out).accept_refer(session, refer).is_err() {
            return;
        }
        // The document decides the next steps, and its script performs them: for the referrer the transfer is done. A
        // referrer that does not hang up is hung up, and could then not be notified any more.
        let _ = world.endpoint.sessions(now, world.out).notify_refer(session, refer, 200, "OK", true);
        let more = self.form_of_transfer(leg, &talk, target);
        if leg == talk.caller {
            self.callee_goes_on(now, talk, more, world);
        } else if let Some(actor) = self.calls.legs.get(talk.caller).and_then(|leg| leg.main) {
            let target = talk.target;
            self.drive(now, actor, world, |script, out| script.transfer(now, &target, more, out));
        }
    }

    /// A connection of a Dial that lets itself be transferred, seen from either side.
    fn talk_of(&self, leg: Key) -> Option<TransferredCall> {
        let caller = match self.calls.legs.get(leg)?.party {
            Some(party) => self.calls.actors.get(self.parties.get(party)?.actor)?.leg,
            None => leg,
        };
        let dialing = self.calls.legs.get(caller)?.dialing.as_ref()?;
        let target = dialing.options.as_ref()?.refer.clone()?;
        let party = dialing.bridged?;
        let is_in_it = caller == leg || self.parties.get(party)?.legs.contains(&leg);
        is_in_it.then_some(TransferredCall { caller, party, target })
    }

    /// Twilio's parameter, and RestComm's.
    fn form_of_transfer(&self, leg: Key, talk: &TransferredCall, target: String) -> Form {
        let caller = self.calls.legs.get(talk.caller).map(|leg| leg.from.to_string()).unwrap_or_default();
        let callee = self.parties.get(talk.party).map(|party| party.to.clone()).unwrap_or_default();
        let (transferor, transferee) = if leg == talk.caller { (caller, callee) } else { (callee, caller) };
        let pair = |name: &str, value: String| (name.to_owned(), value);
        vec![
            pair("ReferTransferTarget", target.clone()),
            pair("ReferTarget", target),
            pair("Transferor", transferor),
            pair("Transferee", transferee),
        ]
    }

    /// The caller has transferred its callee: the callee's leg is a call of its own now, and the caller's script goes
    /// on behind its Dial.
    fn callee_goes_on(&mut self, now: Instant, talk: TransferredCall, more: Form, world: &mut World<'_>) {
        let TransferredCall { caller, party: key, target } = talk;
        let Some(callee) = self.parties.get(key).and_then(|party| party.legs.first().copied()) else {
            return;
        };
        self.with_rooms(now, world, |rooms, parts| rooms.part(now, caller, parts));
        let recording = self.leave_dialing(now, caller, key, world);
        let Some(party) = self.parties.remove(key) else { return };
        let mut call = self.call_of_party(party.actor, &party);
        call.extra.extend(more);
        let plan = Plan {
            role: Role::Call,
            start: Start::Url(target),
            fallback: None,
            status: None,
            answer_on_bridge: false,
            time_limit: None,
        };
        if let Some(leg) = self.calls.legs.get_mut(callee) {
            leg.party = None;
            leg.from = party.from.clone();
        }
        let script = Script::new(call, plan);
        let actor = self.calls.add_actor(Actor { script, leg: callee, part: Part::Main });
        self.drive(now, actor, world, |script, out| script.start(now, out));
        if let Originator::Dialed(id) = party.whose {
            let ended = LegEvent::Ended { recording };
            self.drive(now, party.actor, world, |script, out| script.handle_leg(now, id, ended, out));
        }
    }
}
