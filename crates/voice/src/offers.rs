//! Session descriptions: the caller's offer and our answer, or the other way round, and those that follow.

use bytes::Bytes;
use media::sdp::{self, Description, Negotiated};
use media::session::MediaSession;
use sip::session::{OfferId, SessionId};
use stdx::Instant;
use stdx::slab::Key;

use super::leg::Partner;
use super::{Voice, World};

/// Why a call gets no media: status, reason and a Warning (RFC 3261 §20.43).
pub(super) struct Refused {
    pub(super) status: u16,
    reason: &'static str,
    warning: Option<String>,
}

impl Refused {
    const NO_PORTS: Refused = Refused { status: 503, reason: "Service Unavailable", warning: None };

    fn not_acceptable(code: u16, text: &str) -> Refused {
        let text: String = text.chars().filter(|c| !"\"\\\r\n".contains(*c)).collect();
        let warning = Some(format!("{code} belfry \"{text}\""));
        Refused { status: 488, reason: "Not Acceptable Here", warning }
    }
}

impl Voice {
    /// 200 with an answer, or with an offer when the INVITE had none; or the reason why not.
    pub(super) fn answer(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        let sdp = self.describe(key, world);
        let Some(leg) = self.legs.get(key) else { return };
        let session = leg.session;
        // The caller may have gone: then the session's end is on its way here.
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

    pub(super) fn describe(&mut self, key: Key, world: &mut World<'_>) -> Result<Bytes, Refused> {
        let gone = || Refused { status: 500, reason: "Server Internal Error", warning: None };
        let leg = self.legs.get_mut(key).ok_or_else(gone)?;
        if leg.pair.is_none() {
            let pair = world.sockets.open(key).map_err(|error| {
                tracing::warn!(%error, "no media ports for a call");
                Refused::NO_PORTS
            })?;
            leg.pair = Some(pair);
        }
        let local = leg.local(self.ip).ok_or_else(gone)?;
        if leg.offer.is_empty() {
            let mut offer = sdp::offer(&local);
            leg.versions.stamp(&mut offer);
            let text = offer.to_string();
            leg.offered = Some(Box::new(offer));
            return Ok(text.into());
        }
        let offer = Description::parse(&leg.offer)
            .map_err(|error| Refused::not_acceptable(399, &error.to_string()))?;
        let answer = sdp::answer(&offer, &local)
            .map_err(|refusal| Refused::not_acceptable(refusal.warning(), &refusal.to_string()))?;
        let mut description = answer.description;
        leg.versions.stamp(&mut description);
        self.connect(key, answer.negotiated);
        Ok(description.to_string().into())
    }

    /// Media from now on, or another than before.
    fn connect(&mut self, key: Key, negotiated: Negotiated) {
        let seed = self.rng.next_u64();
        let is_gateway = negotiated.remote.is_some_and(|remote| self.media_rules.is_gateway(remote.ip()));
        let silence = self.media_rules.timeout();
        let Some(leg) = self.legs.get_mut(key) else { return };
        let result = match &mut leg.media {
            Some(media) => media.renegotiate(negotiated),
            None => MediaSession::new(negotiated, seed, Some(leg.trusted)).map(|mut media| {
                // Joined before it had a sound.
                media.listen(matches!(leg.partner, Partner::Leg(_) | Partner::Itself));
                media.mute(leg.is_muted);
                media.limit_silence(silence);
                leg.media = Some(Box::new(media));
            }),
        };
        if let Err(error) = result {
            // Only codecs that are available here are negotiated.
            tracing::error!(%error, sid = leg.sid, "cannot start the negotiated codec");
        }
        if let Some(media) = &mut leg.media {
            media.trust_description(is_gateway);
        }
    }

    /// Our 200 was acknowledged; with the answer, when it was an offer.
    pub(super) fn confirmed(
        &mut self,
        now: Instant,
        session: SessionId,
        sdp: Option<Bytes>,
        world: &mut World<'_>,
    ) {
        let Some(&key) = self.by_session.get(&session) else { return };
        if let Some(leg) = self.legs.get_mut(key) {
            leg.is_held = false;
        }
        if let Some(sdp) = sdp {
            self.settled(session, &sdp);
        }
        if self.legs.get(key).is_some_and(|leg| leg.media.is_none()) {
            // No answer to our offer, or none that fits: there is nothing to talk through.
            return self.drive_leg(now, key, world, |script, out| script.hang_up(now, out));
        }
        self.drive_leg(now, key, world, |script, out| script.handle_answered(now, out));
    }

    /// The answer to an offer of ours.
    pub(super) fn settled(&mut self, session: SessionId, sdp: &[u8]) {
        self.settled_early(session, sdp);
        let key = self.by_session.get(&session);
        if let Some(leg) = key.and_then(|key| self.legs.get_mut(*key)) {
            leg.offered = None;
        }
    }

    /// An answer in early media, which another may follow.
    pub(super) fn settled_early(&mut self, session: SessionId, sdp: &[u8]) {
        let Some(&key) = self.by_session.get(&session) else { return };
        let Some(leg) = self.legs.get(key) else { return };
        let (Some(offer), Some(local)) = (&leg.offered, leg.local(self.ip)) else { return };
        let negotiated = Description::parse(sdp)
            .map_err(|error| error.to_string())
            .and_then(|answer| sdp::accept(offer, &answer, &local).map_err(|refusal| refusal.to_string()));
        match negotiated {
            Ok(negotiated) => self.connect(key, negotiated),
            Err(problem) => tracing::info!(sid = leg.sid, problem, "an SDP answer does not match its offer"),
        }
    }

    /// A re-INVITE or UPDATE: hold, another codec, another address.
    pub(super) fn offered(
        &mut self,
        now: Instant,
        session: SessionId,
        id: OfferId,
        sdp: Option<&Bytes>,
        world: &mut World<'_>,
    ) {
        let Some(&key) = self.by_session.get(&session) else { return };
        if let (Some(sdp), Some(leg)) = (sdp, self.legs.get_mut(key)) {
            leg.offer = sdp.clone();
        } else if let Some(leg) = self.legs.get_mut(key) {
            leg.offer = Bytes::new();
        }
        // The peer may have withdrawn it.
        let _ = match self.describe(key, world) {
            Ok(sdp) => world.endpoint.sessions(now, world.out).accept_offer(session, id, sdp),
            Err(Refused { status, reason, .. }) => {
                world.endpoint.sessions(now, world.out).refuse_offer(session, id, status, reason)
            }
        };
    }
}
