//! Requests that wait for store or router, and what comes meanwhile.

use insta::assert_snapshot;
use sim::Mailbox;
use sip::dns::{DnsData, DnsQuery};
use sip::endpoint::{Decision, PlanRequest};

use crate::phone::Phone;
use crate::raw::{Peer, Raw, route_of_response};
use crate::server::{self, DOMAIN, Server};
use crate::{SERVER, Scene, address, bob, to_bob};

fn local(request: &PlanRequest) -> Decision {
    Decision::Local { user: request.user.clone(), domain: request.host.clone() }
}

/// A store that answers only when told to.
fn slow() -> Scene {
    let mut server = Server::new(server::settings(1), local).with_account("bob", false);
    server.is_slow = true;
    Scene::build(1, server, vec![bob()])
}

#[test]
fn an_answer_that_never_comes_is_503() {
    let mut scene = slow();
    scene.call(&format!("sip:bob@{DOMAIN}"));
    scene.run(5_000);
    assert_eq!(scene.status(), 0);
    scene.run(16_000);
    assert_eq!(scene.status(), 503);
    scene.world.act(scene.server, Server::catch_up);
    scene.run(1_000);
    assert!(scene.callee(0).requests.is_empty(), "too late");
    scene.rest();
}

#[test]
fn a_cancel_meanwhile_is_487_at_once() {
    let mut scene = slow();
    scene.call(&format!("sip:bob@{DOMAIN}"));
    scene.run(300);
    scene.cancel();
    scene.run(100);
    assert_eq!(scene.status(), 487);
    scene.world.act(scene.server, Server::catch_up);
    scene.run(1_000);
    assert!(scene.callee(0).requests.is_empty(), "the late answer of the store starts no call");
    scene.rest();
}

/// A call to bob, whose 2xx names a host that DNS has not been asked for, and DNS takes its time.
fn named() -> (Scene, Peer, Peer, String) {
    let server = Server::new(server::settings(1), to_bob)
        .with_dns(DnsQuery::A("pbx.test".into()), vec![DnsData::Address(address(3).ip())]);
    let mut scene = Scene::build(1, server, vec![]);
    let (mut alice, bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    alice.send(&mut scene, Raw { method: "INVITE", to: "<sip:bob@10.0.0.1>", ..WITHIN });
    let invite = bob.last(&scene, "INVITE");
    bob.respond(&mut scene, &invite, "200 OK", "b", "", "Contact: <sip:bob@pbx.test:5060>\r\n");
    let route = route_of_response(&alice.last(&scene, "SIP/2.0 200"));
    scene.world.node_mut::<Server>(scene.server).is_dns_slow = true;
    (scene, alice, bob, route)
}

const WITHIN: Raw<'_> = Raw {
    method: "ACK",
    uri: "sip:bob@pbx.test:5060",
    route: "",
    from: "<sip:alice@elsewhere.test>;tag=a",
    to: "<sip:bob@10.0.0.1>;tag=b",
    call_id: "c",
    contact: "<sip:alice@10.0.0.8:5060>",
    lines: "",
};

/// RFC 3261 §13.2.2.4: the ACK goes to the remote target. Where this is a name, it waits for RFC 3263 as any request does.
#[test]
fn an_ack_waits_for_the_name_of_its_target() {
    let (mut scene, mut alice, bob, route) = named();
    alice.send(&mut scene, Raw { route: &route, ..WITHIN });
    assert!(bob.received(&scene).iter().all(|text| !text.starts_with("ACK")));
    scene.world.act(scene.server, Server::catch_up);
    scene.run(100);
    let ack = bob.last(&scene, "ACK");
    assert!(ack.starts_with("ACK sip:bob@pbx.test:5060 SIP/2.0\r\n") && !ack.contains("Route:"), "{ack}");
    assert_snapshot!(scene.world.ladder(), @r"
         0ms  server ◀──INVITE────── peer
        10ms  server ──INVITE──────▶ peer
       216ms  server ──100 INVITE──▶ peer
       500ms  server ◀──200 INVITE── peer
       510ms  server ──200 INVITE──▶ peer
     1_000ms  server ◀──ACK───────── peer
     1_500ms  server ──ACK─────────▶ peer
    ");
    scene.rest();
}

/// A name that is not there costs the ACK and nothing else.
#[test]
fn an_ack_to_a_name_that_is_not_there_is_dropped() {
    let (mut scene, mut alice, bob, _) = named();
    let invite = bob.last(&scene, "INVITE");
    let nowhere = "Contact: <sip:bob@nowhere.test:5060>\r\n";
    bob.respond(&mut scene, &invite, "200 OK", "b", "", nowhere);
    let route = route_of_response(&alice.last(&scene, "SIP/2.0 200"));
    alice.send(&mut scene, Raw { uri: "sip:bob@nowhere.test:5060", route: &route, ..WITHIN });
    scene.world.act(scene.server, Server::catch_up);
    scene.run(100);
    assert!(bob.received(&scene).iter().all(|text| !text.starts_with("ACK")));
    scene.rest();
}

/// A caller decides how many ACKs it sends and how long they are.
#[test]
fn acks_that_wait_have_bounded_memory() {
    let (mut scene, mut alice, bob, route) = named();
    let lines = format!("Subject: {}\r\n", "x".repeat(50_000));
    for _ in 0..200 {
        alice.send(&mut scene, Raw { route: &route, lines: &lines, ..WITHIN });
    }
    let acks = |scene: &Scene| bob.received(scene).iter().filter(|text| text.starts_with("ACK")).count();
    assert_eq!(acks(&scene), 0);
    // An ACK that needs no DNS has nothing to wait for.
    let mut carol = Peer::new(&mut scene, 4);
    let other = Raw { from: "<sip:carol@elsewhere.test>;tag=c", call_id: "d", ..WITHIN };
    carol.send(&mut scene, Raw { method: "INVITE", to: "<sip:bob@10.0.0.1>", ..other });
    let invite = bob.last(&scene, "INVITE");
    bob.respond(&mut scene, &invite, "200 OK", "b", "", "Contact: <sip:bob@10.0.0.3:5060>\r\n");
    let by_carol = route_of_response(&carol.last(&scene, "SIP/2.0 200"));
    carol.send(&mut scene, Raw { uri: "sip:bob@10.0.0.3:5060", route: &by_carol, ..other });
    assert!(bob.last(&scene, "ACK").contains("Call-ID: d\r\n"));
    scene.world.act(scene.server, Server::catch_up);
    scene.run(100);
    let sent = acks(&scene);
    assert!((70..95).contains(&sent), "4 MiB of 200 ACKs of 50,000 bytes: {sent}");
    // The room is free again.
    alice.send(&mut scene, Raw { route: &route, ..WITHIN });
    assert_eq!(acks(&scene), sent + 1);
    scene.rest();
}

/// The same for OPTIONS to the targets of routes: a name that is asked for is no target that is down.
#[test]
fn a_probe_waits_for_the_name_of_its_target() {
    let (mut scene, _, bob, _) = named();
    scene.world.act(scene.server, |server: &mut Server, now, out| {
        server.command(now, out, |endpoint, out| endpoint.probe(now, 1, "sip:pbx.test:5060", out));
    });
    scene.run(100);
    assert_eq!(scene.server().probed, [0; 0]);
    scene.world.act(scene.server, Server::catch_up);
    scene.run(100);
    let probe = bob.last(&scene, "OPTIONS");
    bob.respond(&mut scene, &probe, "200 OK", "b", "", "");
    assert_eq!(scene.server().probed, [200]);
    scene.rest();
}

/// RFC 6026 §7.1. COMPAT(RFC 2543 callers): their ACK to a 2xx has the branch of the INVITE.
#[test]
fn an_ack_with_the_branch_of_its_invite_passes() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(1_035);
    scene.world.cut(scene.alice, scene.server);
    scene.run(100);
    scene.world.heal(scene.alice, scene.server);
    let route = scene.alice().calls[0].routes[0].clone();
    let text = format!(
        "ACK sip:bob@10.0.0.3:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bK-alice-1;rport\r\n\
         Max-Forwards: 70\r\nRoute: {route}\r\nFrom: <sip:alice@elsewhere.test>;tag=alice1\r\n\
         To: <sip:bob@10.0.0.1:5060>;tag=bob1\r\nCall-ID: call-alice-1\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n"
    );
    assert!(!scene.callee(0).calls[0].acknowledged);
    scene.world.send(scene.alice, address(2), SERVER, text);
    scene.run(100);
    assert!(scene.callee(0).calls[0].acknowledged);
    scene.hang_up();
    scene.rest();
}

/// Both sides may change a call that is up (RFC 3261 §14), and a refusal's ACK ends at us.
#[test]
fn requests_within_a_call_pass_both_ways() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    for (node, method) in [(scene.alice, "INFO"), (scene.callees[0], "UPDATE")] {
        scene.world.act(node, move |phone: &mut Phone, now, out| phone.in_dialog(now, 0, method, out));
        scene.run(200);
        assert_eq!(scene.world.node::<Phone>(node).finals.last().unwrap().0, 200, "{method}");
    }
    let callee = scene.callees[0];
    scene.world.node_mut::<Phone>(callee).script = vec![(std::time::Duration::ZERO, 488)];
    scene.world.act(scene.alice, |phone: &mut Phone, now, out| phone.in_dialog(now, 0, "INVITE", out));
    scene.run(200);
    let ladder = scene.world.ladder();
    assert!(ladder.contains("alice  ◀──488 INVITE── server"), "{ladder}");
    assert_eq!(ladder.matches("──ACK─").count(), 4, "two for the 2xx, two hop by hop: {ladder}");
    scene.world.act(scene.alice, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
    scene.rest();
}

/// §8.2.6.1, §16.7 step 5: our 100 gives the Timestamp back; the callee's own goes no further than us.
#[test]
fn a_100_is_from_hop_to_hop() {
    let mut scene = Scene::new(1, to_bob, vec![bob().answering(&[(300, 100), (800, 180)])]);
    let peer = scene.world.add("peer", &[address(8)], Mailbox::new());
    let text = "INVITE sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8;branch=z9hG4bK-1\r\nTimestamp: 54.2\r\n\
                From: <sip:a@b>;tag=1\r\nTo: <sip:bob@10.0.0.1>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\
                Contact: <sip:a@10.0.0.8>\r\nContent-Length: 0\r\n\r\n";
    scene.world.send(peer, address(8), SERVER, text);
    scene.run(900);
    let letters = scene.world.node::<Mailbox>(peer).letters();
    assert_eq!(letters.len(), 2, "{}", scene.world.ladder());
    assert!(
        letters[0].text().starts_with("SIP/2.0 100 ") && letters[0].text().contains("Timestamp: 54.2\r\n")
    );
    assert!(!letters[0].text().contains(";tag=bob"));
    assert!(letters[1].text().starts_with("SIP/2.0 180 "));
    scene.rest();
}

/// OPTIONS to the server itself, with and without something it lacks; no hop is left, and none is needed.
#[test]
fn the_server_answers_for_itself() {
    let mut scene = Scene::new(1, to_bob, vec![]);
    let peer = scene.world.add("peer", &[address(8)], Mailbox::new());
    for (number, line) in ["", "Require: path\r\n", "Require: path, wings\r\n"].iter().enumerate() {
        let text = format!(
            "OPTIONS sip:10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8;branch=z9hG4bK-{number}\r\nMax-Forwards: 0\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:10.0.0.1>\r\nCall-ID: c{number}\r\nCSeq: 1 OPTIONS\r\n{line}\
             Content-Length: 0\r\n\r\n"
        );
        scene.world.send(peer, address(8), SERVER, text);
    }
    scene.run(100);
    let letters = scene.world.node::<Mailbox>(peer).letters();
    let firsts: Vec<String> =
        letters.iter().map(|letter| letter.text().lines().next().unwrap().to_owned()).collect();
    assert_eq!(firsts, ["SIP/2.0 200 OK", "SIP/2.0 200 OK", "SIP/2.0 420 Bad Extension"]);
    assert!(letters[2].text().contains("Unsupported: wings\r\n"));
    scene.rest();
}
