//! Within a session: offers and their glare, refreshes, INFO, REFER.

use bytes::Bytes;
use insta::assert_snapshot;
use sip::endpoint::Endpoint;
use sip::session::{CommandError, SessionEvent, SessionRules};
use sip::wire::Method;
use std::time::Duration;
use stdx::Instant;

use crate::raw::{Peer, Raw, contact, header};
use crate::server::Server;
use crate::session_world::{ANSWER, Pair, agent, answers, assert_at_rest, invite_to};

type Out = sip::endpoint::EndpointOutbox;

/// Answers calls, and every offer.
fn agrees(now: Instant, event: &SessionEvent, endpoint: &mut Endpoint, out: &mut Out) {
    answers(now, event, endpoint, out);
    if let SessionEvent::Offered { session, offer, .. } = event {
        endpoint.sessions(now, out).accept_offer(*session, *offer, Bytes::from_static(ANSWER)).unwrap();
    }
}

fn up(app: impl FnMut(Instant, &SessionEvent, &mut Endpoint, &mut Out) + 'static) -> Pair {
    let mut pair = Pair::with(app);
    pair.call();
    pair.run(1_000);
    pair.world.restart_ladder();
    pair
}

#[test]
fn an_offer_is_answered() {
    let mut pair = up(agrees);
    pair.offer("v=0 hold").unwrap();
    assert_eq!(pair.offer("v=0 more"), Err(CommandError::OfferOpen));
    pair.run(500);
    assert_snapshot!(pair.world.ladder(), @r"
     0ms  us ──INVITE──────▶ them
    10ms  us ◀──200 INVITE── them
    20ms  us ──ACK─────────▶ them
    ");
    assert!(pair.ours().ends_with("offer answered v=0 answer"), "{}", pair.ours());
    assert!(pair.others().ends_with("offered v=0 hold"), "{}", pair.others());
    pair.hang_up();
    pair.rest();
}

#[test]
fn an_offer_is_refused() {
    let mut pair = up(|now, event, endpoint, out| {
        answers(now, event, endpoint, out);
        if let SessionEvent::Offered { session, offer, .. } = event {
            endpoint.sessions(now, out).refuse_offer(*session, *offer, 488, "Not Acceptable Here").unwrap();
            let again = endpoint.sessions(now, out).accept_offer(*session, *offer, Bytes::new());
            assert_eq!(again, Err(CommandError::Stale));
        }
    });
    pair.offer("v=0 video").unwrap();
    pair.run(500);
    assert!(pair.ours().ends_with("offer refused 488"), "{}", pair.ours());
    pair.hang_up();
    pair.rest();
}

/// An application that never answers is answered for.
#[test]
fn an_offer_is_forgotten() {
    let mut pair = Pair::up();
    pair.offer("v=0 hold").unwrap();
    pair.run(15_000);
    assert!(pair.others().ends_with("offered v=0 hold, withdrawn"), "{}", pair.others());
    assert!(pair.ours().ends_with("offer refused 500"), "{}", pair.ours());
    pair.hang_up();
    pair.rest();
}

/// RFC 3261 §14.1: both get 491, and the side that did not choose the Call-ID retries first.
#[test]
fn offers_cross() {
    let mut pair = up(agrees);
    let theirs = pair.theirs();
    pair.offer("v=0 ours").unwrap();
    pair.do_them(|endpoint, now, out| endpoint.sessions(now, out).offer(theirs, &"v=0 theirs".into()))
        .unwrap();
    pair.run(100);
    assert_snapshot!(pair.world.ladder(), @r"
     0ms  us ──INVITE──────▶ them
     0ms  us ◀──INVITE────── them
    10ms  us ◀──491 INVITE── them
    10ms  us ──491 INVITE──▶ them
    20ms  us ──ACK─────────▶ them
    20ms  us ◀──ACK───────── them
    ");
    pair.run(2_000);
    assert!(pair.others().ends_with("crossed"), "{}", pair.others());
    assert!(!pair.ours().contains("crossed"), "ours waits longer");
    pair.run(2_000);
    assert!(pair.ours().ends_with("crossed"), "{}", pair.ours());
    pair.hang_up();
    pair.rest();
}

#[test]
fn digits_within_a_session_are_taken_and_texts_are_not() {
    let mut pair = Pair::up();
    let (session, body) = (pair.session, Bytes::from_static(b"Signal=5\r\nDuration=160\r\n"));
    pair.do_us(|endpoint, now, out| {
        endpoint
            .sessions(now, out)
            .tell_peer(session, Method::Info, "application/dtmf-relay", &body)
            .unwrap();
        endpoint
            .sessions(now, out)
            .tell_peer(session, Method::Message, "text/plain", &"hello".into())
            .unwrap();
    });
    pair.run(100);
    assert_snapshot!(pair.world.ladder(), @r"
     0ms  us ──INFO─────────▶ them
     0ms  us ──MESSAGE──────▶ them
    10ms  us ◀──200 INFO───── them
    10ms  us ◀──405 MESSAGE── them
    ");
    assert!(pair.others().ends_with("info Signal=5\r\nDuration=160\r\n"), "{}", pair.others());
    assert!(pair.ours().ends_with("INFO 200, MESSAGE 405"), "{}", pair.ours());
    pair.hang_up();
    pair.rest();
}

/// RFC 3428 §7: a 2xx would say that the text was delivered. RFC 3261 §20.5: Allow has the methods that are taken.
#[test]
fn a_text_within_a_session_is_refused_and_not_invited() {
    let mut scene = crate::Scene::build(1, agent(1).with_app(answers), vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    let invite = Raw {
        method: "INVITE",
        uri: "sip:100@10.0.0.1",
        from: "<sip:x@elsewhere.test>;tag=x",
        to: "<sip:100@10.0.0.1>",
        call_id: "c",
        contact: "<sip:x@10.0.0.8>",
        ..Raw::default()
    };
    peer.send(&mut scene, invite);
    let answer = peer.last(&scene, "SIP/2.0 200 ");
    let lines = "Content-Type: text/plain\r\n";
    peer.send_body(
        &mut scene,
        Raw { method: "MESSAGE", to: &header(&answer, "To"), lines, ..invite },
        "hello",
    );
    let refusal = peer.last(&scene, "SIP/2.0 405 ");
    for response in [answer, refusal] {
        let allow = header(&response, "Allow");
        assert!(allow.contains("INFO") && !allow.contains("MESSAGE"), "{allow}");
    }
}

/// RFC 3515: accepted, told of, over.
#[test]
fn a_transfer_is_followed() {
    let mut pair = up(|now, event, endpoint, out| {
        answers(now, event, endpoint, out);
        if let SessionEvent::Referred { session, refer, .. } = event {
            endpoint.sessions(now, out).accept_refer(*session, *refer).unwrap();
            endpoint.sessions(now, out).notify_refer(*session, *refer, 200, "OK", true).unwrap();
            let more = endpoint.sessions(now, out).notify_refer(*session, *refer, 200, "OK", true);
            assert_eq!(more, Err(CommandError::Stale));
        }
    });
    let session = pair.session;
    pair.do_us(|endpoint, now, out| endpoint.sessions(now, out).refer(session, "sip:carol@10.0.0.4", None))
        .unwrap();
    pair.run(100);
    assert_snapshot!(pair.world.ladder(), @r"
     0ms  us ──REFER───────▶ them
    10ms  us ◀──202 REFER─── them
    10ms  us ◀──NOTIFY────── them
    10ms  us ◀──NOTIFY────── them
    20ms  us ──200 NOTIFY──▶ them
    20ms  us ──200 NOTIFY──▶ them
    ");
    assert!(pair.ours().contains("refer 202"), "{}", pair.ours());
    assert!(pair.ours().contains("progress Some(200) true"), "{}", pair.ours());
    pair.hang_up();
    pair.rest();
}

/// A REFER that the application leaves lying is answered when the session ends.
#[test]
fn a_transfer_is_left_lying() {
    let mut pair = Pair::up();
    let session = pair.session;
    pair.do_us(|endpoint, now, out| endpoint.sessions(now, out).refer(session, "sip:carol@10.0.0.4", None))
        .unwrap();
    pair.run(100);
    let theirs = pair.theirs();
    pair.do_them(|endpoint, now, out| endpoint.sessions(now, out).hang_up(theirs, None));
    pair.rest();
}

/// RFC 3311 §5.2: an UPDATE with an offer is refused while ours has no answer, which a reliable response may have (RFC 3262 §5). RFC 3261
/// §13.2.2.4: the dialog goes on with the 2xx, and so do its numbers.
#[test]
fn an_early_dialog_takes_an_offer_once_ours_is_answered_and_goes_on_in_the_session() {
    let mut scene = crate::Scene::build(1, agent(1).with_app(agrees), vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    scene.world.act(scene.server, |server: &mut Server, now, out| {
        let invite = invite_to("sip:x@10.0.0.8");
        server.command(now, out, |endpoint, effects| endpoint.sessions(now, effects).invite(invite)).unwrap();
    });
    scene.run(100);
    let invite = peer.last(&scene, "INVITE");
    let [local, remote, call_id] = ["To", "From", "Call-ID"].map(|name| header(&invite, name));
    let (uri, local) = (contact(&invite), format!("{local};tag=b"));
    let update = Raw {
        method: "UPDATE",
        uri: &uri,
        from: &local,
        to: &remote,
        call_id: &call_id,
        contact: "<sip:moved@10.0.0.8>",
        lines: "Content-Type: application/sdp\r\n",
        ..Raw::default()
    };
    let lines = "Contact: <sip:x@10.0.0.8>\r\n";
    let reliable = format!("{lines}Content-Type: application/sdp\r\nRequire: 100rel\r\nRSeq: 1\r\n");
    peer.respond(&mut scene, &invite, "180 Ringing", "b", "", lines);
    peer.send_as(&mut scene, update, 10, "v=0 early");
    peer.last(&scene, "SIP/2.0 491 ");
    let early = ("183 Session Progress", "b");
    peer.respond_with(&mut scene, &invite, early, "", (&reliable, "v=0 answer"));
    peer.send_as(&mut scene, update, 20, "v=0 early");
    assert!(header(&peer.last(&scene, "SIP/2.0 200 "), "CSeq").ends_with("UPDATE"));
    // The UPDATE has moved the target of its dialog.
    let again = reliable.replace("RSeq: 1", "RSeq: 2");
    peer.respond_with(&mut scene, &invite, early, "", (&again, "v=0 answer"));
    assert!(peer.last(&scene, "PRACK").starts_with("PRACK sip:moved@10.0.0.8 "));
    peer.respond(&mut scene, &invite, "200 OK", "b", "", lines);
    assert!(peer.last(&scene, "ACK").starts_with("ACK sip:x@10.0.0.8 "));
    for (number, status) in [(15, "500"), (20, "500"), (21, "200")] {
        peer.send_as(&mut scene, Raw { method: "INFO", contact: "", lines: "", ..update }, number, "");
        let answer = peer.received(&scene).pop().unwrap();
        assert!(answer.starts_with(&format!("SIP/2.0 {status} ")), "{number}: {answer}");
    }
}

/// RFC 4028: half-way through a refresh, for as long as both live.
#[test]
fn a_session_is_refreshed() {
    let mut pair = up(agrees);
    pair.run(2_000_000);
    assert_snapshot!(pair.world.ladder(), @r"
      899_024ms  us ──UPDATE──────▶ them
      899_034ms  us ◀──200 UPDATE── them
    1_799_048ms  us ──UPDATE──────▶ them
    1_799_058ms  us ◀──200 UPDATE── them
    ");
    pair.hang_up();
    pair.rest();
}

#[test]
fn a_session_without_refreshes_ends() {
    let mut pair = up(agrees);
    let (us, them) = (pair.us, pair.them);
    pair.world.stop(us);
    pair.run(1_900_000);
    assert!(pair.others().ends_with("ended: expired"), "{}", pair.others());
    assert_at_rest(pair.server(them));
}

/// RFC 4028 §5 and §7.3: Min-SE stands once, with the longest interval that a server on the way has asked for.
#[test]
fn a_second_422_asks_for_more_than_the_first() {
    let mut scene = crate::Scene::build(1, agent(1), vec![]);
    let peer = Peer::new(&mut scene, 8);
    scene.world.act(scene.server, |server: &mut Server, now, out| {
        let invite = invite_to("sip:x@10.0.0.8");
        server.command(now, out, |endpoint, effects| endpoint.sessions(now, effects).invite(invite)).unwrap();
    });
    scene.run(100);
    for seconds in ["2000", "3000"] {
        let invite = peer.last(&scene, "INVITE");
        let min_se = format!("Min-SE: {seconds}\r\n");
        peer.respond(&mut scene, &invite, "422 Session Interval Too Small", "b", "", &min_se);
        let again = peer.last(&scene, "INVITE");
        assert!(header(&again, "Session-Expires").starts_with(seconds), "{again}");
        let values: Vec<_> = again.lines().filter(|line| line.starts_with("Min-SE: ")).collect();
        assert_eq!(values, [min_se.trim_end()]);
    }
}

/// RFC 4028 §9 with 422: the refresher is the side that the response names.
#[test]
fn a_refresher_that_hears_nothing_ends_it() {
    let mut us = agent(1);
    us.endpoint.set_session_rules(SessionRules { expires: Duration::from_secs(90) });
    let mut pair = Pair::new(1, us, agent(9).with_app(agrees));
    pair.call();
    pair.run(1_000);
    let (us, them) = (pair.us, pair.them);
    pair.world.cut(us, them);
    pair.run(120_000);
    // The refresh at 45 s has no answer by timer F at 77 s; the session would have ended at 60 s.
    assert!(pair.ours().contains("ended: expired"), "{}", pair.ours());
    assert!(pair.others().contains("ended: expired"), "{}", pair.others());
    pair.rest();
}
