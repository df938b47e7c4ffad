//! Sessions over a network that loses, repeats and disorders, with applications that do anything at any time.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use sim::{Link, World, for_seeds};
use sip::endpoint::{Endpoint, EndpointOutbox};
use sip::session::{Invite, SessionEvent, SessionId};
use sip::wire::Method;
use stdx::Instant;
use stdx::rng::Rng;

use crate::session_world::{ANSWER, NO_HEADERS, Pair, agent, invite_to, session_of};

/// Does to a session one of all things there are.
fn do_something(
    rng: &mut Rng,
    now: Instant,
    session: SessionId,
    endpoint: &mut Endpoint,
    out: &mut EndpointOutbox,
) {
    let sdp = || Bytes::from_static(ANSWER);
    // Commands that do not fit the stage are refused, without further effect.
    let _ = match rng.below(10) {
        0 => endpoint.sessions(now, out).ring(session, 180, Bytes::new()),
        1 => endpoint.sessions(now, out).ring(session, 183, sdp()),
        2..5 => endpoint.sessions(now, out).answer(session, sdp(), NO_HEADERS),
        5 => endpoint.sessions(now, out).offer(session, &sdp()),
        6 => endpoint.sessions(now, out).tell_peer(session, Method::Info, "application/dtmf", &"5".into()),
        7 => endpoint.sessions(now, out).refer(session, "sip:carol@10.0.0.4", None),
        8 if rng.chance(300) => endpoint.sessions(now, out).reject(session, 486, "Busy Here", &[]),
        9 if rng.chance(300) => {
            endpoint.sessions(now, out).hang_up(session, None);
            Ok(())
        }
        _ => Ok(()),
    };
}

/// Reacts to what is asked of it, mostly.
fn reacts(seed: u64) -> impl FnMut(Instant, &SessionEvent, &mut Endpoint, &mut EndpointOutbox) {
    let mut rng = Rng::seeded(seed);
    move |now, event, endpoint, out| {
        let _ = match event {
            _ if rng.chance(100) => Ok(()),
            SessionEvent::Offered { session, offer, .. } => {
                endpoint.sessions(now, out).accept_offer(*session, *offer, Bytes::from_static(ANSWER))
            }
            SessionEvent::Referred { session, refer, .. } => {
                let accepted = endpoint.sessions(now, out).accept_refer(*session, *refer);
                accepted.and_then(|()| {
                    endpoint.sessions(now, out).notify_refer(*session, *refer, 200, "OK", true)
                })
            }
            SessionEvent::Ended { .. } => Ok(()),
            other => {
                do_something(&mut rng, now, session_of(other), endpoint, out);
                Ok(())
            }
        };
    }
}

#[test]
fn any_sessions_end_with_nothing_left() {
    let seen = Cell::new((0, 0));
    for_seeds(0..300, |seed| {
        let mut dice = World::new(seed);
        let us = agent(1).with_app(reacts(seed));
        let them = agent(9).with_app(reacts(seed + 1_000));
        let mut pair = Pair::new(seed, us, them);
        pair.world.set_default_link(Link::rough(100));
        let timeout = Duration::from_secs(dice.rng.below(40));
        pair.call_by(Invite { timeout, ..invite_to("sip:ivr@10.0.0.9") });
        for _ in 0..dice.rng.below(30) {
            pair.run(dice.rng.below(3_000));
            let (session, rng) = (pair.session, &mut dice.rng);
            pair.do_us(|endpoint, now, out| do_something(rng, now, session, endpoint, out));
            if pair.others().is_empty() {
                continue;
            }
            let theirs = pair.theirs();
            pair.do_them(|endpoint, now, out| do_something(&mut dice.rng, now, theirs, endpoint, out));
        }
        let died = dice.rng.chance(100);
        if died {
            let them = pair.them;
            pair.world.stop(them);
        }
        pair.run(40_000);
        let (mut answered, mut crossed) = seen.get();
        answered += u32::from(pair.ours().contains("answered"));
        crossed += u32::from(pair.ours().contains("crossed"));
        seen.set((answered, crossed));
        pair.hang_up();
        if !pair.others().is_empty() {
            let theirs = pair.theirs();
            pair.do_them(|endpoint, now, out| endpoint.sessions(now, out).hang_up(theirs, None));
        }
        pair.run(400_000);
        crate::session_world::assert_at_rest(pair.server(pair.us));
        if !died {
            crate::session_world::assert_at_rest(pair.server(pair.them));
        }
    });
    assert!(seen.get().0 > 100 && seen.get().1 > 0, "{:?}", seen.get());
}
