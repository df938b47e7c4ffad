//! The legs of phones that dial attempts call: made with their INVITE, told of its responses, and handed over to the
//! script whose own call was answered.

use sip::session::{SessionId, sdp_of};
use sip::wire::Message;
use stdx::Instant;
use stdx::slab::Key;

use super::World;
use super::call_trace::TracedLeg;
use super::calls::Calls;
use super::dial_attempt::PhoneInvite;
use super::leg::{Leg, NO_SESSION};

/// A phone that an INVITE was sent to, or was to be.
pub(super) struct InvitedPhone {
    pub(super) leg: Key,
    /// `None`: the leg got no media ports, and there was no INVITE.
    pub(super) call_id: Option<Box<str>>,
    /// The status that an INVITE which cannot be sent counts as.
    pub(super) result: Result<(), u16>,
}

/// A response of a phone, once its leg has taken the description in it.
pub(super) struct PhoneResponse {
    pub(super) leg: Key,
    pub(super) attempt: Key,
    pub(super) has_description: bool,
    /// The leg has media now.
    pub(super) has_media: bool,
}

impl Calls {
    /// Makes the leg of a phone and sends its INVITE. The leg is there also where the INVITE cannot be sent.
    pub(super) fn invite_phone(
        &mut self,
        now: Instant,
        attempt: Key,
        phone: PhoneInvite,
        world: &mut World<'_>,
    ) -> InvitedPhone {
        let PhoneInvite { sid, owner, trusted, codecs, hops, counted, mut invite } = phone;
        let mut leg = Leg::new(NO_SESSION, sid, owner, trusted, &mut self.rng);
        leg.attempt = Some(attempt);
        (leg.codecs, leg.hops, leg.counted) = (codecs, hops, counted);
        leg.traced = TracedLeg::of(self.trace.as_deref(), invite.call_id.as_bytes());
        let leg = self.add_leg(leg);
        invite.offer = match self.describe(leg, world) {
            Ok(offer) => offer,
            Err(refused) => return InvitedPhone { leg, call_id: None, result: Err(refused.status) },
        };
        let call_id = Some(invite.call_id.clone());
        let session = world.endpoint.sessions(now, world.out).invite(invite).map_err(|_| 500);
        let result = session.map(|session| self.attach(leg, session));
        InvitedPhone { leg, call_id, result }
    }

    /// A response to the INVITE of a phone: media may go to where it came from, and its body answers the offer.
    pub(super) fn handle_phone_response(
        &mut self,
        now: Instant,
        session: SessionId,
        response: &Message,
        world: &World<'_>,
    ) -> Option<PhoneResponse> {
        let &key = self.by_session.get(&session)?;
        let leg = self.legs.get_mut(key)?;
        let attempt = leg.attempt?;
        leg.trust_peer(world.endpoint);
        let sdp = sdp_of(response);
        if let Some(sdp) = &sdp {
            // RFC 3261 §13.2.1: the answer may come in a provisional response; unless that is reliable, the 2xx has
            // it again.
            self.settled(session, sdp);
        }
        let leg = self.legs.get_mut(key)?;
        leg.note_media_begin(now);
        let has_media = leg.media.is_some();
        Some(PhoneResponse { leg: key, attempt, has_description: sdp.is_some(), has_media })
    }

    /// A phone has answered the call of a script: its leg takes the place of the leg that the script had until now.
    pub(super) fn take_over(&mut self, actor: Key, phone: Key, call_id: &str) {
        let Some(answered) = self.actors.get_mut(actor) else { return };
        let before = std::mem::replace(&mut answered.leg, phone);
        let before = self.legs.remove(before);
        let Some(leg) = self.legs.get_mut(phone) else { return };
        if leg.traced.is_some() {
            // The script began before its leg had a Call-ID.
            answered.script.verb_log().turn_on();
        }
        leg.main = Some(actor);
        leg.attempt = None;
        let Some(before) = before else { return };
        leg.sid = before.sid;
        leg.from = before.from;
        leg.row = before.row;
        leg.notifications = before.notifications;
        leg.is_muted = before.is_muted;
        if let Some(row) = &mut leg.row {
            row.has_call_id(call_id);
        }
    }
}
