//! Calls that the server itself answers and places: RFC 3261 §13 to §15, RFC 3262, every race of them.

use std::time::Duration;

use bytes::Bytes;
use insta::assert_snapshot;
use sip::endpoint::{CallEventKind, LadderMessage, ladder_of, remember_calls};
use sip::session::{Cause, Invite, Login, SessionEvent, SessionId};

use crate::phone::Phone;
use crate::raw::{Peer, Raw, header};
use crate::server::{self, Server};
use crate::session_world::{ANSWER, NO_HEADERS, Pair, agent, answers, assert_at_rest, heard, invite_to};
use crate::{Scene, address, bob, carol, targets};

#[test]
fn a_call_from_one_to_the_other() {
    let mut pair = Pair::with(answers);
    pair.call();
    pair.run(1_000);
    pair.hang_up();
    pair.run(1_000);
    assert_snapshot!(pair.world.ladder(), @r"
        0ms  us ──INVITE──────▶ them
       10ms  us ◀──180 INVITE── them
       10ms  us ◀──200 INVITE── them
       20ms  us ──ACK─────────▶ them
    1_000ms  us ──BYE─────────▶ them
    1_010ms  us ◀──200 BYE───── them
    ");
    assert_snapshot!(pair.ours(), @"ringing 180, answered, ended: local");
    assert_snapshot!(pair.others(), @"invited, confirmed, ended: hung up");
    pair.hang_up();
    pair.rest();
}

/// Nothing traces them: the messages of both sides, as each remembers them.
#[test]
fn calls_of_applications_are_remembered_as_those_of_phones() {
    let mut pair = Pair::with(answers);
    pair.do_us(|endpoint, now, _| remember_calls(endpoint, now));
    pair.do_them(|endpoint, now, _| remember_calls(endpoint, now));
    pair.call();
    pair.run(1_000);
    let call_id = pair.server(pair.them).events.iter().find_map(|event| match event {
        SessionEvent::Invited { invited, .. } => Some(sip::wire::lossy(invited.request.call_id())),
        _ => None,
    });
    pair.hang_up();
    pair.rest();
    let remembered = |node| {
        let (ladder, _) = ladder_of(&pair.server(node).endpoint, call_id.as_deref().unwrap_or_default());
        let line =
            |message: LadderMessage| format!("{:?} {:?} {}", message.passage, message.status, message.method);
        ladder.map(|ladder| ladder.messages.into_iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    assert_snapshot!(remembered(pair.us).unwrap_or_default(), @r"
    Sent None INVITE
    Received Some(180) INVITE
    Received Some(200) INVITE
    Sent None ACK
    Sent None BYE
    Received Some(200) BYE
    ");
    assert_snapshot!(remembered(pair.them).unwrap_or_default(), @r"
    Received None INVITE
    Sent Some(180) INVITE
    Sent Some(200) INVITE
    Received None ACK
    Received None BYE
    Sent Some(200) BYE
    ");
}

#[test]
fn the_other_hangs_up() {
    let mut pair = Pair::up();
    let theirs = pair.theirs();
    pair.do_them(|endpoint, now, out| {
        endpoint.sessions(now, out).hang_up(theirs, Some("Q.850;cause=16"));
        endpoint.sessions(now, out).hang_up(theirs, None);
    });
    pair.run(100);
    assert_snapshot!(pair.world.ladder(), @r"
     0ms  us ◀──BYE────── them
    10ms  us ──200 BYE──▶ them
    ");
    let Some(SessionEvent::Ended { cause: Cause::HungUp { request }, .. }) =
        pair.server(pair.us).events.last().cloned()
    else {
        panic!("{}", pair.ours());
    };
    assert_eq!(request.header_named("Reason"), Some(&b"Q.850;cause=16"[..]));
    pair.rest();
}

#[test]
fn both_hang_up() {
    let mut pair = Pair::up();
    let theirs = pair.theirs();
    pair.hang_up();
    pair.do_them(|endpoint, now, out| endpoint.sessions(now, out).hang_up(theirs, None));
    pair.run(100);
    assert_snapshot!(pair.world.ladder(), @r"
     0ms  us ──BYE──────▶ them
     0ms  us ◀──BYE────── them
    10ms  us ◀──200 BYE── them
    10ms  us ──200 BYE──▶ them
    ");
    pair.rest();
}

/// §13.3.1.4: the 2xx comes again until the ACK does, and each 2xx gets one.
#[test]
fn the_ack_is_lost() {
    let mut pair = Pair::with(answers);
    let (us, them) = (pair.us, pair.them);
    pair.world.lose_next(us, them, "ACK", 2);
    pair.call();
    pair.run(5_000);
    assert_snapshot!(pair.world.ladder(), @r"
        0ms  us ──INVITE──────▶ them
       10ms  us ◀──180 INVITE── them
       10ms  us ◀──200 INVITE── them
       20ms  us ──ACK─────────✗ them
      512ms  us ◀──200 INVITE── them
      522ms  us ──ACK─────────✗ them
    1_512ms  us ◀──200 INVITE── them
    1_522ms  us ──ACK─────────▶ them
    ");
    assert!(pair.others().ends_with("confirmed"), "{}", pair.others());
    pair.hang_up();
    pair.rest();
}

#[test]
fn no_ack_ever() {
    let mut pair = Pair::with(answers);
    let (us, them) = (pair.us, pair.them);
    pair.world.lose_next(us, them, "ACK", 1_000);
    pair.call();
    pair.run(40_000);
    assert!(pair.others().ends_with("ended: unacknowledged"), "{}", pair.others());
    assert!(pair.ours().ends_with("ended: hung up"), "{}", pair.ours());
    pair.rest();
}

/// RFC 3261 §13.3.1.4 has a BYE go out; a source that has proved nothing gets none, for the INVITE may be forged.
#[test]
fn an_unproved_caller_that_never_acknowledges_is_forgotten_in_silence() {
    let mut pair = Pair::of_unproved(agent(1), agent(9).with_app(answers));
    let (us, them) = (pair.us, pair.them);
    pair.world.lose_next(us, them, "ACK", 1_000);
    pair.call();
    pair.run(40_000);
    assert!(pair.others().ends_with("ended: unacknowledged"), "{}", pair.others());
    let ladder = pair.world.ladder();
    assert!(!ladder.contains("BYE"), "{ladder}");
    assert!(ladder.matches("200 INVITE").count() <= 3, "{ladder}");
    let session = pair.session;
    pair.do_us(|endpoint, now, out| endpoint.sessions(now, out).hang_up(session, None));
    pair.rest();
}

/// §15: the callee's BYE waits for the ACK.
#[test]
fn the_callee_hangs_up_before_the_ack() {
    let mut pair = Pair::with(|now, event, endpoint, out| {
        answers(now, event, endpoint, out);
        if let SessionEvent::Invited { session, .. } = event {
            endpoint.sessions(now, out).hang_up(*session, None);
        }
    });
    let (us, them) = (pair.us, pair.them);
    pair.world.lose_next(us, them, "ACK", 1);
    pair.call();
    pair.run(5_000);
    assert_snapshot!(pair.world.ladder(), @r"
      0ms  us ──INVITE──────▶ them
     10ms  us ◀──180 INVITE── them
     10ms  us ◀──200 INVITE── them
     20ms  us ──ACK─────────✗ them
    512ms  us ◀──200 INVITE── them
    522ms  us ──ACK─────────▶ them
    532ms  us ◀──BYE───────── them
    542ms  us ──200 BYE─────▶ them
    ");
    pair.rest();
}

fn refuses(status: u16, headers: &'static [(&'static str, &'static str)]) -> Pair {
    Pair::with(move |now, event, endpoint, out| {
        if let SessionEvent::Invited { session, .. } = event {
            let headers: Vec<(Box<str>, Box<str>)> =
                headers.iter().map(|&(name, value)| (name.into(), value.into())).collect();
            endpoint.sessions(now, out).reject(*session, status, "No", &headers).unwrap();
        }
    })
}

#[test]
fn a_refusal_and_a_redirection() {
    let mut pair = refuses(486, &[]);
    pair.call();
    pair.run(100);
    assert_snapshot!(pair.world.ladder(), @r"
     0ms  us ──INVITE──────▶ them
    10ms  us ◀──486 INVITE── them
    20ms  us ──ACK─────────▶ them
    ");
    assert_eq!(pair.ours(), "ended: failed 486");
    let recorded = pair.server(pair.them).calls.last();
    assert!(matches!(recorded, Some(CallEventKind::Failed { status: 486, .. })), "{recorded:?}");
    pair.rest();
    let mut pair = refuses(302, &[("Contact", "<sip:elsewhere@10.0.0.7>")]);
    pair.call();
    pair.run(100);
    let Some(SessionEvent::Ended { cause: Cause::Failed { status: 302, response }, .. }) =
        pair.server(pair.us).events.last().cloned()
    else {
        panic!("{}", pair.ours());
    };
    let response = response.unwrap();
    assert_eq!(response.header(sip::wire::Header::Contact), Some(&b"<sip:elsewhere@10.0.0.7>"[..]));
    pair.rest();
}

#[test]
fn the_caller_gives_up_while_it_rings() {
    let mut pair = Pair::with(|now, event, endpoint, out| {
        if let SessionEvent::Invited { session, .. } = event {
            endpoint.sessions(now, out).ring(*session, 180, Bytes::new()).unwrap();
        }
    });
    pair.call();
    pair.run(500);
    pair.hang_up();
    pair.run(500);
    assert_snapshot!(pair.world.ladder(), @r"
      0ms  us ──INVITE──────▶ them
     10ms  us ◀──180 INVITE── them
    500ms  us ──CANCEL──────▶ them
    510ms  us ◀──200 CANCEL── them
    510ms  us ◀──487 INVITE── them
    520ms  us ──ACK─────────▶ them
    ");
    assert_eq!(pair.ours(), "ringing 180, ended: local");
    assert_eq!(pair.others(), "invited, ended: cancelled");
    pair.rest();
}

/// §9.1: no CANCEL before the peer has said anything.
#[test]
fn the_caller_gives_up_at_once() {
    let mut pair = Pair::with(|_, _, _, _| {});
    pair.call();
    pair.hang_up();
    pair.run(1_000);
    assert_snapshot!(pair.world.ladder(), @r"
      0ms  us ──INVITE──────▶ them
    216ms  us ◀──100 INVITE── them
    226ms  us ──CANCEL──────▶ them
    236ms  us ◀──200 CANCEL── them
    236ms  us ◀──487 INVITE── them
    246ms  us ──ACK─────────▶ them
    ");
    assert_eq!((&*pair.ours(), &*pair.others()), ("ended: local", "invited, ended: cancelled"));
    pair.rest();
}

/// The CANCEL and the 200 cross: ACK and BYE.
#[test]
fn the_answer_crosses_the_cancel() {
    let mut pair = Pair::with(|now, event, endpoint, out| {
        if let SessionEvent::Invited { session, .. } = event {
            endpoint.sessions(now, out).ring(*session, 180, Bytes::new()).unwrap();
        }
    });
    pair.call();
    pair.run(500);
    let theirs = pair.theirs();
    pair.do_them(|endpoint, now, out| {
        endpoint.sessions(now, out).answer(theirs, Bytes::from_static(ANSWER), NO_HEADERS).unwrap();
    });
    pair.hang_up();
    pair.run(500);
    assert_snapshot!(pair.world.ladder(), @r"
      0ms  us ──INVITE──────▶ them
     10ms  us ◀──180 INVITE── them
    500ms  us ◀──200 INVITE── them
    500ms  us ──CANCEL──────▶ them
    510ms  us ──ACK─────────▶ them
    510ms  us ──BYE─────────▶ them
    510ms  us ◀──200 CANCEL── them
    520ms  us ◀──200 BYE───── them
    ");
    assert_eq!(pair.ours(), "ringing 180, ended: local");
    pair.rest();
}

#[test]
fn an_invite_without_an_answer_in_time_ends_with_a_timeout() {
    let mut pair = Pair::with(|now, event, endpoint, out| {
        if let SessionEvent::Invited { session, .. } = event {
            endpoint.sessions(now, out).ring(*session, 180, Bytes::new()).unwrap();
        }
    });
    pair.call_by(Invite { timeout: Duration::from_secs(20), ..invite_to("sip:ivr@10.0.0.9") });
    pair.run(21_000);
    assert_eq!(pair.ours(), "ringing 180, ended: timeout");
    pair.rest();
}

#[test]
fn a_call_for_the_public_network_only_reaches_no_private_address() {
    let mut pair = Pair::with(answers);
    pair.call_by(Invite { public_only: true, ..invite_to("sip:ivr@10.0.0.9") });
    pair.run(1_000);
    assert_eq!(pair.ours(), "ended: failed 403");
    assert_eq!(pair.world.ladder(), "");
    pair.rest();
}

#[test]
fn an_invite_to_an_absent_peer_fails() {
    let mut pair = Pair::with(answers);
    let them = pair.them;
    pair.world.stop(them);
    pair.call();
    pair.run(33_000);
    assert_eq!(pair.ours(), "ended: failed 408");
    pair.run(400_000);
    assert_at_rest(pair.server(pair.us));
    // And where nothing can be sent at all.
    for (target, status) in [("sip:a@nowhere.test", 404), ("sip:a@[2001:db8::1]", 503)] {
        pair.call_by(invite_to(target));
        assert!(pair.ours().ends_with(&format!("ended: failed {status}")), "{}", pair.ours());
    }
    let refused = pair.do_us(|endpoint, now, out| endpoint.sessions(now, out).invite(invite_to("tel:+1")));
    assert!(refused.is_err());
    pair.run(400_000);
    assert_at_rest(pair.server(pair.us));
}

/// RFC 3262: early media for a caller that can be told reliably.
#[test]
fn early_media_is_acknowledged() {
    let mut pair = Pair::with(|now, event, endpoint, out| {
        if let SessionEvent::Invited { session, .. } = event {
            endpoint.sessions(now, out).ring(*session, 183, Bytes::from_static(ANSWER)).unwrap();
            endpoint.sessions(now, out).answer(*session, Bytes::from_static(ANSWER), NO_HEADERS).unwrap();
        }
    });
    let (us, them) = (pair.us, pair.them);
    pair.world.lose_next(us, them, "PRACK", 1);
    pair.call();
    pair.run(3_000);
    assert_snapshot!(pair.world.ladder(), @r"
      0ms  us ──INVITE──────▶ them
     10ms  us ◀──183 INVITE── them
     20ms  us ──PRACK───────✗ them
    512ms  us ◀──183 INVITE── them
    520ms  us ──PRACK───────▶ them
    530ms  us ◀──200 PRACK─── them
    530ms  us ◀──200 INVITE── them
    540ms  us ──ACK─────────▶ them
    ");
    assert_eq!(pair.ours(), "ringing 183, answered");
    pair.hang_up();
    pair.rest();
}

/// RFC 3262 §3: a 2xx may overtake the PRACK of a provisional response without SDP, and the PRACK is answered 200 then, too: 481
/// would end the dialog at the caller (RFC 5057 §5.1).
#[test]
fn a_prack_that_the_answer_has_overtaken_is_taken() {
    let mut scene = Scene::build(1, agent(1).with_app(answers), vec![]);
    let mut peer = Peer::new(&mut scene, 8);
    let invite = Raw {
        method: "INVITE",
        uri: "sip:100@10.0.0.1",
        from: "<sip:x@elsewhere.test>;tag=x",
        to: "<sip:100@10.0.0.1>",
        call_id: "c",
        contact: "<sip:x@10.0.0.8>",
        lines: "Require: 100rel\r\n",
        ..Raw::default()
    };
    peer.send(&mut scene, invite);
    let ringing = peer.last(&scene, "SIP/2.0 180 ");
    let to = header(&peer.last(&scene, "SIP/2.0 200 "), "To");
    let rseq: u32 = header(&ringing, "RSeq").parse().unwrap();
    for (rack, status) in [
        (format!("{} 1 INVITE", rseq + 1), "481"),
        (format!("{rseq} 2 INVITE"), "481"),
        (format!("{rseq} 1 UPDATE"), "481"),
        (format!("{rseq} 1 INVITE"), "200"),
        (format!("{rseq} 1 INVITE"), "481"),
    ] {
        let lines = format!("RAck: {rack}\r\n");
        peer.send(&mut scene, Raw { method: "PRACK", to: &to, lines: &lines, ..invite });
        let answer = peer.last(&scene, &format!("SIP/2.0 {status} "));
        let last = peer.received(&scene).into_iter().rfind(|text| text.contains("PRACK\r\n")).unwrap();
        assert_eq!(answer, last, "{rack}");
    }
}

#[test]
fn unacknowledged_early_media_ends_the_session() {
    let mut pair = Pair::with(|now, event, endpoint, out| {
        if let SessionEvent::Invited { session, .. } = event {
            endpoint.sessions(now, out).ring(*session, 183, Bytes::from_static(ANSWER)).unwrap();
        }
    });
    let (us, them) = (pair.us, pair.them);
    pair.world.lose_next(us, them, "PRACK", 1_000);
    pair.call();
    pair.run(40_000);
    assert_eq!(pair.others(), "invited, ended: unacknowledged");
    pair.rest();
}

/// A proxy forks our INVITE and both answer: the second gets ACK and BYE (§13.2.2.4).
#[test]
fn a_late_fork_is_answered_and_left() {
    let script = [(0, 180), (500, 200)];
    let phones = vec![bob().answering(&script), carol().answering(&script)];
    let proxy = |_: &_| targets(&[&["sip:bob@10.0.0.3", "sip:carol@10.0.0.4"]]);
    let mut scene = Scene::new(1, proxy, phones);
    let mut settings = server::settings(9);
    settings.domains = vec!["belfry.test".into()];
    let us = scene.world.add("us", &[address(9)], Server::new(settings, |_| targets(&[])));
    let session = call(&mut scene, us, invite_to("sip:all@10.0.0.1"));
    scene.run(3_000);
    assert_snapshot!(scene.world.ladder(), @r"
      0ms  server ◀──INVITE────── us
     10ms  server ──INVITE──────▶ bob
     10ms  server ──INVITE──────▶ carol
     20ms  server ◀──180 INVITE── bob
     20ms  server ◀──180 INVITE── carol
     30ms  server ──180 INVITE──▶ us
     30ms  server ──180 INVITE──▶ us
    520ms  server ◀──200 INVITE── bob
    520ms  server ◀──200 INVITE── carol
    530ms  server ──200 INVITE──▶ us
    530ms  server ──CANCEL──────▶ carol
    530ms  server ──200 INVITE──▶ us
    540ms  server ◀──ACK───────── us
    540ms  server ◀──200 CANCEL── carol
    540ms  server ◀──ACK───────── us
    540ms  server ◀──BYE───────── us
    550ms  server ──ACK─────────▶ bob
    550ms  server ──ACK─────────▶ carol
    550ms  server ──BYE─────────▶ carol
    560ms  server ◀──200 BYE───── carol
    570ms  server ──200 BYE─────▶ us
    ");
    let ours: &Server = scene.world.node(us);
    assert_eq!(heard(ours), "ringing 180, ringing 180, answered");
    scene.world.act(us, |server: &mut Server, now, out| {
        server.command(now, out, |endpoint, effects| endpoint.sessions(now, effects).hang_up(session, None));
    });
    scene.rest();
    assert!(scene.callee(0).calls[0].ended && scene.callee(1).calls[0].ended);
    assert_at_rest(scene.world.node(us));
}

fn call(scene: &mut Scene, us: sim::NodeId, invite: Invite) -> SessionId {
    scene.world.act(us, |server: &mut Server, now, out| {
        server.command(now, out, |endpoint, effects| endpoint.sessions(now, effects).invite(invite)).unwrap()
    })
}

/// A registrar that asks our INVITE, and its BYE is asked nothing.
#[test]
fn an_outgoing_call_authenticates_itself() {
    for (password, outcome) in [("secret", "ringing 180, answered"), ("wrong", "ended: failed 407")] {
        let server = Server::new(server::settings(1), |request| match request.caller {
            sip::endpoint::Caller::Stranger => sip::endpoint::Decision::Authenticate,
            sip::endpoint::Caller::Account(_) => targets(&[&["sip:bob@10.0.0.3"]]),
        });
        let server = server.with_account("trunk", false);
        let mut scene = Scene::build(1, server, vec![bob()]);
        let mut settings = server::settings(9);
        settings.domains = vec!["belfry.test".into()];
        let us = scene.world.add("us", &[address(9)], Server::new(settings, |_| targets(&[])));
        let login = Some(Login { user: "trunk".into(), password: password.into() });
        let from = "<sip:trunk@example.test>".into();
        let session = call(&mut scene, us, Invite { login, from, ..invite_to("sip:bob@10.0.0.1") });
        scene.run(3_000);
        let ours: &Server = scene.world.node(us);
        assert_eq!(heard(ours), outcome);
        scene.world.act(us, |server: &mut Server, now, out| {
            server.command(now, out, |endpoint, effects| {
                endpoint.sessions(now, effects).hang_up(session, None);
            });
        });
        scene.rest();
        assert_at_rest(scene.world.node(us));
    }
}

/// RFC 3261 §13.2.2.4: an ACK cannot be challenged, so each has the credentials of its INVITE; also that of another fork.
#[test]
fn an_ack_has_the_credentials_of_its_invite() {
    let mut scene = Scene::build(1, agent(1), vec![]);
    let peer = Peer::new(&mut scene, 8);
    let login = Some(Login { user: "trunk".into(), password: "secret".into() });
    let server = scene.server;
    call(&mut scene, server, Invite { login, ..invite_to("sip:x@10.0.0.8") });
    scene.run(100);
    for (status, name) in [("401 Unauthorized", "WWW-Authenticate"), ("407 No", "Proxy-Authenticate")] {
        let invite = peer.last(&scene, "INVITE");
        let challenge = format!("{name}: Digest realm=\"{name}\", nonce=\"n\"\r\n");
        peer.respond(&mut scene, &invite, status, "b", "", &challenge);
    }
    let invite = peer.last(&scene, "INVITE");
    for tag in ["b", "c"] {
        peer.respond(&mut scene, &invite, "200 OK", tag, "", "Contact: <sip:x@10.0.0.8>\r\n");
        let ack = peer.last(&scene, "ACK");
        assert!(header(&ack, "To").ends_with(&format!(";tag={tag}")), "{ack}");
        for name in ["Authorization", "Proxy-Authorization"] {
            assert_eq!(header(&ack, name), header(&invite, name));
        }
    }
}

/// A phone of RFC 3261 through no proxy: what SIPp's uac does.
#[test]
fn a_phone_calls_an_application() {
    let server = agent(1).with_app(answers);
    let mut scene = Scene::build(1, server, vec![]);
    scene.call("sip:1234@10.0.0.1");
    scene.run(500);
    scene.hang_up();
    scene.run(500);
    assert_snapshot!(scene.world.ladder(), @r"
      0ms  alice ──INVITE──────▶ server
     10ms  alice ◀──180 INVITE── server
     10ms  alice ◀──200 INVITE── server
     20ms  alice ──ACK─────────▶ server
    500ms  alice ──BYE─────────▶ server
    510ms  alice ◀──200 BYE───── server
    ");
    scene.rest();
    assert_at_rest(scene.server());
    // Afterwards the dialog is unknown.
    scene.hang_up();
    scene.run(500);
    let alice: &Phone = scene.world.node(scene.alice);
    assert_eq!(alice.finals.last().unwrap().0, 481);
}

/// INVITEs with requirements that are refused: RFC 3261 §8.2.2.3, RFC 4028 §9.
#[test]
fn unsupported_requirements_are_refused() {
    let lines = [
        ("Require: precondition\r\n", 420),
        ("Session-Expires: 30\r\nSupported: timer\r\n", 422),
        ("Require: timer\r\nSession-Expires: 90;refresher=uac\r\nSupported: timer\r\n", 200),
    ];
    for (lines, status) in lines {
        let mut scene = Scene::build(1, agent(1).with_app(answers), vec![]);
        scene.world.act(scene.alice, |phone: &mut Phone, now, out| {
            phone.call_with(now, "sip:1234@10.0.0.1", lines, out);
        });
        scene.run(500);
        assert_eq!(scene.status(), status, "{lines}");
        if status == 200 {
            scene.hang_up();
        }
        scene.rest();
        assert_at_rest(scene.server());
    }
}

/// An application that says nothing is answered for.
#[test]
fn an_application_sleeps() {
    let mut pair = Pair::with(|_, _, _, _| {});
    pair.call();
    pair.run(180_900);
    assert_eq!(pair.others(), "invited");
    pair.run(32_000);
    assert_eq!(pair.others(), "invited, ended: cancelled");
    pair.rest();
    let mut scene = Scene::build(1, agent(1).with_app(|_, _, _, _| {}), vec![]);
    scene.call("sip:1234@10.0.0.1");
    scene.run(182_000);
    assert_eq!((scene.status(), heard(scene.server())), (480, "invited, ended: timeout".into()));
    scene.rest();
}

/// RFC 3261 §8.2.2.2: an INVITE that forked before us and came by two ways is one call.
#[test]
fn a_merged_invite_is_refused() {
    let mut scene = Scene::build(1, agent(1).with_app(answers), vec![]);
    let mut caller = Peer::new(&mut scene, 8);
    let invite = Raw {
        method: "INVITE",
        uri: "sip:100@10.0.0.1",
        from: "<sip:x@elsewhere.test>;tag=x",
        to: "<sip:100@10.0.0.1>",
        call_id: "c",
        contact: "<sip:x@10.0.0.8:5060>",
        ..Raw::default()
    };
    let mut invited = Vec::new();
    for (uri, from) in [
        ("sip:100@10.0.0.1", invite.from),
        ("sip:200@10.0.0.1", invite.from),
        ("sip:100@10.0.0.1", "<sip:y@elsewhere.test>;tag=y"),
    ] {
        caller.send_copy(&mut scene, Raw { uri, from, ..invite });
        let events = &scene.server().events;
        let calls = events.iter().filter(|event| matches!(event, SessionEvent::Invited { .. })).count();
        invited.push((calls, caller.last(&scene, "SIP/2.0")[8..11].to_owned()));
    }
    assert_eq!(invited, [(1, "200".into()), (1, "482".into()), (2, "200".into())]);
}
