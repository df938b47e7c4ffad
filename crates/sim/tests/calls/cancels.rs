//! RFC 3261 §9 and §16.10, at every moment.

use insta::assert_snapshot;
use sip::endpoint::CallEventKind;

use crate::raw::{Peer, header};
use crate::session_world::{Pair, agent, invite_to};
use crate::{Scene, address, bob, carol, targets, to_bob};

fn scene(script: &[(u64, u16)]) -> Scene {
    let mut scene = Scene::new(1, to_bob, vec![bob().answering(script)]);
    scene.call("sip:bob@10.0.0.1");
    scene
}

#[test]
fn while_it_rings() {
    let mut scene = scene(&[(0, 180)]);
    scene.run(100);
    scene.cancel();
    scene.run(1_000);
    assert_snapshot!(scene.world.ladder(), @r"
      0ms  alice  ──INVITE──────▶ server
     10ms  server ──INVITE──────▶ bob
     20ms  server ◀──180 INVITE── bob
     30ms  alice  ◀──180 INVITE── server
    100ms  alice  ──CANCEL──────▶ server
    110ms  alice  ◀──200 CANCEL── server
    110ms  server ──CANCEL──────▶ bob
    120ms  server ◀──487 INVITE── bob
    120ms  server ◀──200 CANCEL── bob
    130ms  server ──ACK─────────▶ bob
    130ms  alice  ◀──487 INVITE── server
    140ms  alice  ──ACK─────────▶ server
    ");
    assert_eq!((scene.status(), scene.callee(0).calls[0].status), (487, 487));
    assert!(matches!(
        scene.server().calls[..],
        [
            CallEventKind::Started { .. },
            CallEventKind::Ringing { .. },
            CallEventKind::Failed { status: 487, .. }
        ]
    ));
    scene.rest();
}

/// §9.1: the CANCEL waits for the callee's first word.
#[test]
fn before_the_callee_has_said_anything() {
    let mut scene = scene(&[(10_000, 180)]);
    scene.world.lose_next(scene.callees[0], scene.server, "100 INVITE", 100);
    scene.run(300);
    scene.cancel();
    scene.run(20_000);
    assert_eq!((scene.status(), scene.callee(0).calls[0].status), (487, 487));
    scene.rest();
}

#[test]
fn and_the_callee_is_dead() {
    let mut scene = Scene::new(1, to_bob, vec![]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(300);
    scene.cancel();
    scene.run(32_100);
    assert_eq!(scene.status(), 487, "64*T1 after the INVITE");
    scene.rest();
}

/// §9.1: a callee that rings and then dies is given 64*T1; a second CANCEL gives it no more.
#[test]
fn and_the_callee_dies_ringing() {
    let mut scene = scene(&[(0, 180)]);
    scene.run(100);
    scene.world.stop(scene.callees[0]);
    scene.cancel();
    scene.run(20_000);
    scene.cancel();
    assert_eq!(scene.status(), 0);
    scene.run(13_000);
    assert_eq!(scene.status(), 487);
    scene.rest();
}

#[test]
fn crossing_the_answer() {
    let mut scene = scene(&[(0, 180), (105, 200)]);
    scene.run(110);
    scene.cancel();
    scene.run(2_000);
    assert_eq!(scene.status(), 200, "the call is up; the caller hangs up if it still wants to");
    assert_snapshot!(scene.world.ladder(), @r"
      0ms  alice  ──INVITE──────▶ server
     10ms  server ──INVITE──────▶ bob
     20ms  server ◀──180 INVITE── bob
     30ms  alice  ◀──180 INVITE── server
    110ms  alice  ──CANCEL──────▶ server
    120ms  alice  ◀──200 CANCEL── server
    120ms  server ──CANCEL──────▶ bob
    125ms  server ◀──200 INVITE── bob
    130ms  server ◀──200 CANCEL── bob
    135ms  alice  ◀──200 INVITE── server
    145ms  alice  ──ACK─────────▶ server
    155ms  server ──ACK─────────▶ bob
    ");
    scene.hang_up();
    scene.rest();
}

#[test]
fn after_the_answer() {
    let mut scene = scene(&[(0, 180), (50, 200)]);
    scene.run(85);
    // The 200 has passed the server and not reached the caller.
    scene.cancel();
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    assert!(!scene.world.ladder().contains("server ──CANCEL"));
    scene.hang_up();
    scene.rest();
}

/// RFC 3261 §9.2: the To tag of the answer to CANCEL is that of our answer to the INVITE.
#[test]
fn our_own_answers_have_one_tag() {
    let mut scene = Scene::new(1, to_bob, vec![]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(300);
    scene.cancel();
    scene.run(40_000);
    let finals = &scene.alice().finals;
    let tag = |text: &str| {
        text.split_once("tag=").unwrap().1.split_once("To:").unwrap().1.lines().next().unwrap().to_owned()
    };
    assert_eq!(finals.len(), 2, "200 to CANCEL, 487 to INVITE");
    assert_eq!(tag(&finals[0].1), tag(&finals[1].1));
}

/// The Reason of the CANCEL that a phone got; empty when it had none.
fn reason_at(scene: &Scene, callee: usize) -> String {
    let requests = &scene.callee(callee).requests;
    let cancel = requests.iter().find(|request| request.starts_with("CANCEL ")).unwrap();
    if cancel.contains("\r\nReason:") { header(cancel, "Reason") } else { String::new() }
}

/// RFC 3326 §2: a proxy copies the Reason of a CANCEL, also where its own has to wait (RFC 3261 §9.1).
#[test]
fn the_reason_of_a_cancel_is_copied() {
    for rings_at in [0, 300] {
        let mut scene = Scene::new(1, to_bob, vec![bob().answering(&[(rings_at, 180)])]);
        scene.world.lose_next(scene.callees[0], scene.server, "100 INVITE", 100);
        let peer = Peer::new(&mut scene, 8);
        for (method, lines) in [
            ("INVITE", "Contact: <sip:x@10.0.0.8>\r\n"),
            (
                "CANCEL",
                "Reason: SIP;cause=200;text=\"Call completed elsewhere\"\r\nReason: Q.850;cause=16\r\n",
            ),
        ] {
            let text = format!(
                "{method} sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8:5060;branch=z9hG4bK-1\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:x@elsewhere.test>;tag=x\r\nTo: <sip:bob@10.0.0.1>\r\n\
                 Call-ID: c\r\nCSeq: 1 {method}\r\n{lines}Content-Length: 0\r\n\r\n"
            );
            scene.world.send(peer.id, address(8), crate::SERVER, text);
            scene.run(100);
        }
        scene.run(1_000);
        let expected = "SIP;cause=200;text=\"Call completed elsewhere\", Q.850;cause=16";
        assert_eq!(reason_at(&scene, 0), expected, "{rings_at}");
    }
    let mut scene = scene(&[(0, 180)]);
    scene.run(100);
    scene.cancel();
    scene.run(1_000);
    assert_eq!(reason_at(&scene, 0), "", "and none is made up");
}

/// RFC 3326 §3.1: a phone that rang in vain learns that another answered, and lists no missed call.
#[test]
fn the_other_phones_learn_the_reason_of_the_cancel() {
    let both = |_: &_| targets(&[&["sip:bob@10.0.0.3", "sip:carol@10.0.0.4"]]);
    for (status, expected) in
        [(200, "SIP;cause=200;text=\"Call completed elsewhere\""), (603, "SIP;cause=603")]
    {
        let phones = vec![bob().answering(&[(0, 180)]), carol().answering(&[(5, 180), (500, status)])];
        let mut scene = Scene::new(1, both, phones);
        scene.call("sip:all@10.0.0.1");
        scene.run(2_000);
        assert_eq!(reason_at(&scene, 0), expected);
        assert!(scene.callee(1).requests.iter().all(|request| !request.starts_with("CANCEL ")));
    }
}

/// The CANCEL of an application has the Reason that its BYE would have.
#[test]
fn an_application_says_why_it_cancels() {
    for (rings_at, reason) in [(0, "SIP;cause=200"), (300, "SIP;cause=200"), (0, "")] {
        let mut pair = Pair::new(1, agent(1), agent(9));
        let phone = bob().answering(&[(rings_at, 180)]);
        let id = pair.world.add("bob", &[address(3)], phone);
        pair.world.lose_next(id, pair.us, "100 INVITE", 100);
        pair.call_by(invite_to("sip:bob@10.0.0.3"));
        pair.run(100);
        let session = pair.session;
        pair.do_us(|endpoint, now, out| {
            endpoint.sessions(now, out).hang_up(session, Some(reason).filter(|reason| !reason.is_empty()));
        });
        pair.run(1_000);
        let requests = &pair.world.node::<crate::phone::Phone>(id).requests;
        let cancel = requests.iter().find(|request| request.starts_with("CANCEL ")).unwrap();
        let found = if cancel.contains("\r\nReason:") { header(cancel, "Reason") } else { String::new() };
        assert_eq!(found, reason, "{rings_at}");
    }
}
