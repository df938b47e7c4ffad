//! Session descriptions: the caller's offer and our answer, or the other way round, and those that follow.
//!
//! The offer/answer model (RFC 3264) from the application's side: `sip::session` knows which message carries
//! a description and whether one may be sent; `media::sdp` makes and matches the texts; this module joins
//! them with a leg's ports and media session. Ports are opened with the first description and kept for the
//! whole call, so a later offer changes codecs and addresses but not where the peer sends.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use bytes::Bytes;
use media::sdp::{self, Description, Local, Negotiated, SrtpPolicy};
use media::session::MediaSession;
use sip::session::{OfferId, SessionId};
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::Key;

use super::calls::Calls;
use super::leg::{Leg, Partner};
use super::media_rules::MediaRules;
use super::{MediaSockets, Voice, World};

/// Why a call gets no media: status, reason and a Warning (RFC 3261 §20.43), which tells an operator more
/// than the status does.
pub(super) struct Refused {
    pub(super) status: u16,
    reason: &'static str,
    warning: Option<String>,
}

impl Refused {
    /// The leg is gone, or has no ports any more.
    const GONE: Refused = Refused { status: 500, reason: "Server Internal Error", warning: None };
    /// All ports of the configured range are taken: the caller may try another node.
    const NO_PORTS: Refused = Refused { status: 503, reason: "Service Unavailable", warning: None };

    /// The description does not fit. Characters that would break a quoted string are left out, as the text
    /// may be the peer's.
    fn not_acceptable(code: u16, text: &str) -> Refused {
        let text: String = text.chars().filter(|c| !"\"\\\r\n".contains(*c)).collect();
        let warning = Some(format!("{code} belfry \"{text}\""));
        Refused { status: 488, reason: "Not Acceptable Here", warning }
    }
}

/// An offer of the peer within the dialog, or its request for one of ours.
pub(super) struct ReceivedOffer {
    pub(super) id: OfferId,
    /// `None` asks for an offer of ours (RFC 3261 §14.2).
    pub(super) sdp: Option<Bytes>,
    /// The address that it came from.
    pub(super) source: IpAddr,
    /// That address is known to receive what is sent to it.
    pub(super) is_proved: bool,
}

/// The offer/answer model (RFC 3264) of one leg.
impl Leg {
    /// The answer to the peer's offer, or an offer when there is none. An answer settles the media at once,
    /// an offer when its answer comes.
    fn describe(
        &mut self,
        key: Key,
        rules: &MediaRules,
        rng: &mut Rng,
        sockets: &mut dyn MediaSockets,
    ) -> Result<Bytes, Refused> {
        if self.pair.is_none() {
            let pair = sockets.open(key).map_err(|error| {
                tracing::warn!(%error, "no media ports for a call");
                Refused::NO_PORTS
            })?;
            self.pair = Some(pair);
        }
        let local = self.local(rules.own()).ok_or(Refused::GONE)?;
        if self.offer.is_empty() {
            let mut offer = self.own_offer(&local);
            self.descriptions.stamp(&mut offer);
            return Ok(offer.to_string().into());
        }
        let offer = Description::parse(&self.offer)
            .map_err(|error| Refused::not_acceptable(399, &error.to_string()))?;
        let answer = sdp::answer(&offer, &local)
            .map_err(|refusal| Refused::not_acceptable(refusal.warning(), &refusal.to_string()))?;
        // Each description that differs from the last one has a higher version in its o= line (RFC 3264 §8).
        let mut description = answer.description;
        self.descriptions.note(&offer);
        self.descriptions.stamp(&mut description);
        self.connect(answer.negotiated, rules, rng);
        Ok(description.to_string().into())
    }

    /// A first offer, or one that goes on from what was agreed (RFC 3264 §8). What is encrypted is offered so.
    fn own_offer(&self, local: &Local<'_>) -> Description {
        let Some(media) = &self.media else { return sdp::offer(local) };
        let srtp = if media.negotiated().srtp.is_some() { SrtpPolicy::Required } else { local.srtp };
        sdp::offer_again(&self.descriptions, &Local { srtp, ..*local })
    }

    /// Media from now on, or another than before.
    fn connect(&mut self, negotiated: Negotiated, rules: &MediaRules, rng: &mut Rng) {
        let seed = rng.next_u64();
        let is_gateway = negotiated.remote.is_some_and(|remote| rules.is_gateway(remote.ip()));
        let result = match &mut self.media {
            Some(media) => media.renegotiate(negotiated),
            None => MediaSession::new(negotiated, seed, Some(self.trusted)).map(|mut media| {
                // Joined before it had a sound.
                media.listen(matches!(self.partner, Partner::Leg(_) | Partner::Echo));
                media.mute(self.is_muted);
                media.limit_silence(rules.timeout());
                self.media = Some(Box::new(media));
            }),
        };
        if let Err(error) = result {
            // Only codecs that are available here are negotiated.
            tracing::error!(%error, sid = self.sid, "cannot start the negotiated codec");
        }
        if let Some(media) = &mut self.media {
            // Others get media only at an address from which some came, or which the signalling proves.
            media.trust_description(is_gateway);
        }
    }

    /// An answer to our offer, which another may follow in early media: a fork's phones answer one by one.
    /// One that does not match leaves the media as it was.
    fn take_answer(&mut self, sdp: &[u8], rules: &MediaRules, rng: &mut Rng) {
        let (Some(offer), Some(local)) = (self.descriptions.last(), self.local(rules.own())) else { return };
        let answer = Description::parse(sdp).map_err(|error| error.to_string());
        let agreed = answer.and_then(|answer| {
            let negotiated = sdp::accept(offer, &answer, &local).map_err(|refusal| refusal.to_string())?;
            Ok((answer, negotiated))
        });
        match agreed {
            Ok((answer, negotiated)) => {
                self.descriptions.note(&answer);
                self.connect(negotiated, rules, rng);
            }
            Err(problem) => tracing::info!(sid = self.sid, problem, "an SDP answer does not match its offer"),
        }
    }
}

impl Calls {
    /// 200 with an answer, or with an offer when the INVITE had none; or the reason why not.
    pub(super) fn answer(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        let sdp = self.describe(key, world);
        let Some(leg) = self.legs.get_mut(key) else { return };
        leg.note_media_begin(now);
        let session = leg.session;
        // The caller may have gone: then the session's end is on its way here.
        // An error means that the session has ended meanwhile.
        let _ = match sdp {
            Ok(sdp) => world.endpoint.sessions(now, world.out).answer(session, sdp, Vec::new()),
            Err(Refused { status, reason, warning }) => {
                tracing::info!(sid = leg.sid, status, warning, "the call gets no media");
                let headers: Vec<_> =
                    warning.map(|text| ("Warning".into(), text.into())).into_iter().collect();
                world.endpoint.sessions(now, world.out).reject(session, status, reason, &headers)
            }
        };
    }

    /// This side's part of the next description of a leg. It opens the leg's ports if it has none.
    pub(super) fn describe(&mut self, key: Key, world: &mut World<'_>) -> Result<Bytes, Refused> {
        let leg = self.legs.get_mut(key).ok_or(Refused::GONE)?;
        leg.describe(key, &self.media_rules, &mut self.rng, world.sockets)
    }

    /// An answer to our last description: to an offer, which in early media another may follow, or to a refresh of the session
    /// by a re-INVITE, which repeats the description and whose answer may be another than before (RFC 3264 §8).
    pub(super) fn settled(&mut self, session: SessionId, sdp: &[u8]) {
        let Some(&key) = self.by_session.get(&session) else { return };
        if let Some(leg) = self.legs.get_mut(key) {
            leg.take_answer(sdp, &self.media_rules, &mut self.rng);
        }
    }

    /// A re-INVITE or UPDATE: hold, another codec, another address.
    pub(super) fn offered(
        &mut self,
        now: Instant,
        session: SessionId,
        offer: ReceivedOffer,
        world: &mut World<'_>,
    ) {
        let ReceivedOffer { id, sdp, source, is_proved } = offer;
        let Some(&key) = self.by_session.get(&session) else { return };
        if let Some(leg) = self.legs.get_mut(key) {
            leg.offer = sdp.unwrap_or_default();
        }
        let described = self.describe(key, world);
        if let Some(leg) = self.legs.get_mut(key).filter(|_| described.is_ok()) {
            leg.trust_source(source, is_proved);
        }
        // The peer may have withdrawn it.
        let _ = match described {
            Ok(sdp) => world.endpoint.sessions(now, world.out).accept_offer(session, id, sdp),
            Err(Refused { status, reason, .. }) => {
                world.endpoint.sessions(now, world.out).refuse_offer(session, id, status, reason)
            }
        };
    }
}

impl Voice {
    /// Our 200 was acknowledged; with the answer, when the 200 had our offer. The caller has proved that it
    /// receives, so media may go to it.
    pub(super) fn confirmed(
        &mut self,
        now: Instant,
        session: SessionId,
        sdp: Option<Bytes>,
        world: &mut World<'_>,
    ) {
        let Some(&key) = self.calls.by_session.get(&session) else { return };
        if let Some(leg) = self.calls.legs.get_mut(key) {
            leg.is_held = false;
        }
        if let Some(sdp) = sdp {
            self.calls.settled(session, &sdp);
        }
        if let Some(leg) = self.calls.legs.get_mut(key) {
            leg.note_media_begin(now);
        }
        if self.calls.legs.get(key).is_some_and(|leg| leg.media.is_none()) {
            // No answer to our offer, or none that fits: there is nothing to talk through.
            return self.drive_leg(now, key, world, |script, out| script.hang_up(now, out));
        }
        self.drive_leg(now, key, world, |script, out| script.handle_answered(now, out));
    }
}
