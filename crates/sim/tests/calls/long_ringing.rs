//! Calls to applications that ring for minutes: RFC 3261 §13.3.1.1.

use std::time::Duration;

use bytes::Bytes;
use sip::endpoint::{Endpoint, EndpointOutbox};
use sip::session::{Invite, SessionEvent};
use stdx::Instant;

use crate::session_world::{ANSWER, NO_HEADERS, Pair, agent, invite_to};

/// An application that rings with this response and says nothing more.
fn rings(
    status: u16,
    sdp: &'static [u8],
) -> impl FnMut(Instant, &SessionEvent, &mut Endpoint, &mut EndpointOutbox) {
    move |now, event, endpoint, out| {
        if let SessionEvent::Invited { session, .. } = event {
            endpoint.sessions(now, out).ring(*session, status, Bytes::from_static(sdp)).unwrap();
        }
    }
}

/// A caller that waits for ten minutes.
fn patient(headers: &[(&str, &str)]) -> Invite {
    let headers = headers.iter().map(|&(name, value)| (name.into(), value.into())).collect();
    Invite { timeout: Duration::from_secs(600), headers, ..invite_to("sip:ivr@10.0.0.9") }
}

fn count(pair: &Pair, message: &str) -> usize {
    pair.world.ladder().matches(message).count()
}

#[test]
fn a_call_rings_until_the_application_answers_with_a_180_each_minute() {
    let mut pair = Pair::with(rings(180, b""));
    pair.call_by(patient(&[]));
    pair.run(330_000);
    assert_eq!(count(&pair, "180 INVITE"), 6, "{}", pair.world.ladder());
    let theirs = pair.theirs();
    pair.do_them(|endpoint, now, out| {
        endpoint.sessions(now, out).answer(theirs, Bytes::from_static(ANSWER), NO_HEADERS).unwrap();
    });
    pair.run(120_000);
    assert_eq!(count(&pair, "180 INVITE"), 6, "none behind the answer");
    assert_eq!(pair.others(), "invited, confirmed");
    pair.hang_up();
    pair.rest();
}

/// RFC 3262 §3: each reliable response has an RSeq and a PRACK of its own; §5: the SDP of an answer is sent in one of them.
#[test]
fn reliable_responses_are_repeated_with_a_new_number_and_without_their_description() {
    let mut pair = Pair::with(rings(180, b""));
    pair.call_by(patient(&[("Require", "100rel")]));
    pair.run(130_000);
    let ladder = pair.world.ladder();
    assert_eq!(
        [count(&pair, "180 INVITE"), count(&pair, "──PRACK"), count(&pair, "200 PRACK")],
        [3; 3],
        "{ladder}"
    );
    pair.hang_up();
    pair.rest();
    let mut pair = Pair::with(rings(183, ANSWER));
    pair.call_by(patient(&[]));
    pair.run(130_000);
    let ladder = pair.world.ladder();
    assert_eq!([count(&pair, "183 INVITE"), count(&pair, "──PRACK")], [3, 1], "{ladder}");
    let bodies = pair.server(pair.us).events.iter().filter_map(|event| match event {
        SessionEvent::Ringing { response, .. } => Some(response.body().is_empty()),
        _ => None,
    });
    assert_eq!(bodies.collect::<Vec<_>>(), [false, true, true]);
    pair.hang_up();
    pair.rest();
}

/// An application that says nothing, and a caller whose address may be forged, have three minutes.
#[test]
fn a_silent_application_and_an_unproved_caller_are_not_waited_for() {
    let silent = Pair::with(|_, _, _, _| {});
    let unproved = Pair::of_unproved(agent(1), agent(9).with_app(rings(180, b"")));
    for mut pair in [silent, unproved] {
        pair.call_by(patient(&[]));
        pair.run(170_000);
        assert_eq!(pair.others(), "invited");
        pair.run(20_000);
        assert_eq!(pair.others(), "invited, ended: timeout");
        assert!(pair.ours().ends_with("ended: failed 480"), "{}", pair.ours());
        pair.rest();
    }
}
