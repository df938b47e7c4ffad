//! The hops of requests: Route and Record-Route, transports, NAT, failover, loops, and refusals.

use std::net::SocketAddr;
use std::time::Duration;

use insta::assert_snapshot;
use sim::Mailbox;
use sip::dns::{DnsData, DnsQuery};
use sip::endpoint::{Decision, EndpointSettings, PlanRequest, Traced, TracedAccount};
use sip::transport::Transport;

use crate::phone::Phone;
use crate::server::{self, Server};
use crate::{SERVER, Scene, address, bob, carol, targets, to_bob};

const TCP: SocketAddr = SocketAddr::new(SERVER.ip(), 5062);

/// A call from UDP to a phone on TCP and back: each side keeps its transport (RFC 5658).
#[test]
fn udp_calls_tcp() {
    let mut phone = bob();
    phone.proxy = TCP;
    let plan = |_: &PlanRequest| targets(&[&["sip:bob@10.0.0.3:5060;transport=tcp"]]);
    let mut scene = Scene::new(1, plan, vec![phone]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    let routes = scene.alice().calls[0].routes.clone();
    assert_eq!(routes.len(), 2, "{routes:?}");
    assert!(routes[0].starts_with("<sip:10.0.0.1:5060;lr;t="), "{routes:?}");
    assert!(routes[1].starts_with("<sip:10.0.0.1:5062;transport=tcp;lr;t="), "{routes:?}");
    let callee = scene.callees[0];
    scene.world.act(callee, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
    scene.run(2_000);
    assert!(scene.alice().calls[0].ended && scene.callee(0).calls[0].ended);
    assert!(scene.callee(0).requests[0].contains("Via: SIP/2.0/TCP 10.0.0.1:5062;"));
    scene.rest();
}

/// And from a connection to UDP: what the callee sends comes back by the flow that Record-Route names.
#[test]
fn tcp_calls_udp() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    let alice = scene.world.node_mut::<Phone>(scene.alice);
    alice.proxy = TCP;
    // The addresses in its messages are wrong; only its connection leads to it.
    alice.inside = "192.168.1.5:40000".parse().unwrap();
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    let callee = scene.callees[0];
    scene.world.act(callee, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
    scene.run(2_000);
    assert!(scene.alice().calls[0].ended && scene.callee(0).calls[0].ended);
    scene.rest();
}

#[test]
fn a_caller_behind_nat() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    scene.world.node_mut::<Phone>(scene.alice).inside = "192.168.1.5:5060".parse().unwrap();
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    let callee = scene.callees[0];
    scene.world.act(callee, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
    scene.run(2_000);
    assert!(scene.alice().calls[0].ended, "{}", scene.world.ladder());
    scene.rest();
}

/// RFC 3261 §16.4: the router before us rewrote the Request-URI.
#[test]
fn a_strict_router_before_us() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(1_045);
    let call = &scene.alice().calls[0];
    let (own, call_id) = (call.routes[0].clone(), "call-alice-1");
    let own = own.trim_matches(['<', '>']);
    for method in ["ACK", "BYE"] {
        let text = format!(
            "{method} {own} SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bK-strict{method}\r\nMax-Forwards: 70\r\n\
             Route: <sip:bob@10.0.0.3:5060>\r\nFrom: <sip:alice@elsewhere.test>;tag=alice1\r\n\
             To: <sip:bob@10.0.0.1>;tag=bob1\r\nCall-ID: {call_id}\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
        );
        scene.world.send(scene.alice, address(2), SERVER, text);
    }
    scene.run(500);
    let requests = &scene.callee(0).requests;
    assert!(requests.iter().any(|text| text.starts_with("BYE sip:bob@10.0.0.3:5060 SIP/2.0\r\n")));
    let acks: Vec<_> = requests.iter().filter(|text| text.contains("z9hG4bK-strictACK")).collect();
    assert!(acks[0].starts_with("ACK sip:bob@10.0.0.3:5060 SIP") && !acks[0].contains("Route:"), "{acks:?}");
    scene.rest();
}

/// A request is not relayed by a Route that we did not write for this dialog.
#[test]
fn we_are_no_open_relay() {
    let plan = |request: &PlanRequest| {
        if &*request.host == "10.0.0.1" {
            to_bob(request)
        } else {
            Decision::Refuse { status: 403, reason: "Forbidden".into() }
        }
    };
    let mut scene = Scene::new(1, plan, vec![bob()]);
    let victim = scene.world.add("victim", &[address(9)], Mailbox::new());
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    let genuine = scene.alice().calls[0].routes[0].clone();
    let genuine = genuine.trim_matches(['<', '>']);
    let forged = "sip:10.0.0.1;lr;t=0123456789abc";
    for (number, (own, call_id, to_tag)) in [
        (forged, "call-alice-1", ";tag=x"),
        // Another call's token.
        (genuine, "another", ";tag=x"),
        // Our own call's, to start another by it.
        (genuine, "call-alice-1", ""),
        ("sip:10.0.0.1;lr", "call-alice-1", ";tag=x"),
    ]
    .into_iter()
    .enumerate()
    {
        for method in ["INVITE", "BYE", "ACK"] {
            for route in ["", ", <sip:10.0.0.9;lr>"] {
                let branch = format!("{number}{method}{}", route.len());
                let text = format!(
                    "{method} sip:x@10.0.0.9 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK-{branch}\r\n\
                     Max-Forwards: 70\r\nRoute: <{own}>{route}\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:x@10.0.0.9>{to_tag}\r\n\
                     Call-ID: {call_id}\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
                );
                scene.world.send(scene.alice, address(2), SERVER, text);
            }
        }
    }
    let by_us = "ACK sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK-ack\r\nMax-Forwards: 70\r\n\
                 Route: <sip:10.0.0.1;lr>, <sip:10.0.0.9;lr>\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:b@b>;tag=2\r\n\
                 Call-ID: other\r\nCSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n";
    scene.world.send(scene.alice, address(2), SERVER, by_us);
    scene.run(5_000);
    assert!(scene.world.node::<Mailbox>(victim).letters().is_empty());
    scene.hang_up();
    scene.rest();
}

#[test]
fn max_forwards() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    let send = |scene: &mut Scene, branch: &str, line: &str| {
        let text = format!(
            "INVITE sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.2;branch=z9hG4bK-{branch}\r\n{line}\
             From: <sip:a@b>;tag=1\r\nTo: <sip:bob@10.0.0.1>\r\nCall-ID: {branch}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@10.0.0.2>\r\nContent-Length: 0\r\n\r\n"
        );
        scene.world.send(scene.alice, address(2), SERVER, text);
        scene.run(100);
    };
    send(&mut scene, "zero", "Max-Forwards: 0\r\n");
    assert!(scene.world.ladder().contains("◀──483 INVITE──"), "{}", scene.world.ladder());
    assert!(scene.callee(0).requests.is_empty());
    send(&mut scene, "none", "");
    assert!(scene.callee(0).requests[0].contains("Max-Forwards: 70\r\n"));
    send(&mut scene, "one", "Max-Forwards: 1\r\n");
    assert!(scene.callee(0).requests[1].contains("Max-Forwards: 0\r\n"));
    scene.rest();
}

/// Two servers that each believe the other knows: the request comes round once (RFC 3261 §16.3 step 4).
#[test]
fn a_loop_is_found() {
    let mut scene = Scene::new(1, |_| targets(&[&["sip:x@10.0.0.6"]]), vec![]);
    let other = Server::new(server::settings(6), |_| targets(&[&["sip:x@10.0.0.1"]]));
    scene.world.add("other", &[address(6)], other);
    scene.call("sip:x@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 482);
    assert_snapshot!(scene.world.ladder(), @r"
     0ms  alice  ──INVITE──────▶ server
    10ms  server ──INVITE──────▶ other
    20ms  server ◀──INVITE────── other
    30ms  server ──482 INVITE──▶ other
    40ms  server ◀──ACK───────── other
    40ms  server ◀──482 INVITE── other
    50ms  server ──ACK─────────▶ other
    50ms  alice  ◀──482 INVITE── server
    60ms  alice  ──ACK─────────▶ server
    ");
    scene.rest();
}

/// A request may come back when it was changed on the way: that is a spiral, and no loop.
#[test]
fn a_spiral_passes() {
    let plan = |request: &PlanRequest| match &*request.user {
        "sales" => targets(&[&["sip:bob@10.0.0.1"]]),
        _ => to_bob(request),
    };
    let mut scene = Scene::new(1, plan, vec![bob()]);
    scene.call("sip:sales@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200, "{}", scene.world.ladder());
    scene.hang_up();
    scene.run(1_000);
    assert!(scene.callee(0).calls[0].ended);
    scene.rest();
}

/// RFC 5393 §3: every visit doubles the request under a new name. Without a bound that is 2^70 messages.
#[test]
fn forks_that_come_back_are_bounded() {
    let plan = |request: &PlanRequest| {
        let (one, two) =
            (format!("sip:{}a@10.0.0.1", request.user), format!("sip:{}b@10.0.0.1", request.user));
        targets(&[&[&one, &two]])
    };
    let mut scene = Scene::new(1, plan, vec![]);
    scene.call("sip:x@10.0.0.1");
    scene.run(60_000);
    assert_ne!(scene.status(), 0);
    let invites = scene.world.ladder().matches("server ──INVITE").count();
    assert!(invites < 20_000, "{invites} INVITEs of one");
    scene.rest();
}

fn two_hosts() -> Server {
    let plan = |_: &PlanRequest| targets(&[&["sip:bob@trunk.test:5060;transport=udp"]]);
    let address = |host: u8| DnsData::Address(address(host).ip());
    Server::new(server::settings(1), plan)
        .with_dns(DnsQuery::A("trunk.test".into()), vec![address(3), address(4)])
}

/// RFC 3263 §4.3.
#[test]
fn the_second_address_is_tried_when_the_first_is_silent() {
    let mut scene = Scene::build(1, two_hosts(), vec![bob(), carol()]);
    scene.world.stop(scene.callees[0]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(35_000);
    assert_eq!(scene.callee(1).calls.len(), 1);
    scene.rest();
}

#[test]
fn a_silent_address_is_asked_last_for_a_while() {
    let mut scene = Scene::build(1, two_hosts(), vec![bob(), carol()]);
    scene.world.stop(scene.callees[0]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(33_000);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200, "at once");
    scene.rest();
}

#[test]
fn the_second_address_is_tried_after_503_and_after_a_transport_error() {
    let mut scene = Scene::build(1, two_hosts(), vec![bob().answering(&[(0, 503)]), carol()]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    scene.hang_up();
    scene.rest();

    let mut server = two_hosts();
    server.unreachable.push((Transport::Udp, address(3)));
    let mut scene = Scene::build(1, server, vec![bob(), carol()]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    scene.hang_up();
    scene.rest();

    let mut server = two_hosts();
    server.unreachable = vec![(Transport::Udp, address(3)), (Transport::Udp, address(4))];
    let mut scene = Scene::build(1, server, vec![]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 500);
    scene.rest();
}

/// RFC 3263 §4.1: the transport that a URI names, "SHOULD be used", and no other in its place. One that we do not know fails like one that
/// cannot be used (RFC 3261 §16.9).
#[test]
fn a_target_by_an_unknown_transport_is_not_asked_by_another() {
    for transport in ["sctp", "udp4", "tls-sctp", "", "u%64p%20"] {
        let uri = format!("sip:bob@10.0.0.3;transport={transport}");
        let plan = move |_: &PlanRequest| targets(&[&[&*uri]]);
        let mut scene = Scene::new(1, plan, vec![bob()]);
        scene.call("sip:bob@10.0.0.1");
        scene.run(2_000);
        assert_eq!((scene.status(), scene.callee(0).requests.len()), (500, 0), "{transport}");
        scene.rest();
    }
    // Names of transports have no case (RFC 3261 §7.3.1).
    let plan = |_: &PlanRequest| targets(&[&["sip:bob@10.0.0.3;Transport=UdP"]]);
    let mut scene = Scene::new(1, plan, vec![bob()]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    scene.hang_up();
    scene.rest();
    // The next target is another way.
    let plan = |_: &PlanRequest| targets(&[&["sip:bob@10.0.0.3;transport=sctp"], &["sip:carol@10.0.0.4"]]);
    let mut scene = Scene::new(1, plan, vec![bob(), carol()]);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!((scene.status(), scene.callee(1).calls.len()), (200, 1));
    scene.hang_up();
    scene.rest();
}

/// A call whose INVITE is `bytes` longer than it need be, to a peer that takes TCP or refuses it.
fn long_call(tcp_for_large_requests: bool, refuses_tcp: bool, bytes: usize) -> Scene {
    let settings = EndpointSettings { tcp_for_large_requests, ..server::settings(1) };
    let mut server = Server::new(settings, to_bob);
    server.endpoint.set_traced(vec![TracedAccount::new("alice@elsewhere.test", "elsewhere.test")]);
    if refuses_tcp {
        server.unreachable.push((Transport::Tcp, address(3)));
    }
    let mut scene = Scene::build(1, server, vec![bob()]);
    call_long(&mut scene, bytes);
    scene
}

fn call_long(scene: &mut Scene, bytes: usize) {
    let line = format!("Subject: {}\r\n", "x".repeat(bytes));
    scene.world.act(scene.alice, move |phone: &mut Phone, now, out| {
        phone.call_with(now, "sip:bob@10.0.0.1", &line, out);
    });
    scene.run(100);
}

fn refused(scene: &Scene) -> Vec<(Traced, SocketAddr)> {
    let refused = scene.server().traces.iter().filter(|trace| trace.traced != Traced::Message);
    refused.map(|trace| (trace.traced, trace.to)).collect()
}

const BY_UDP: &str = "Via: SIP/2.0/UDP 10.0.0.1:5060";
const BY_TCP: &str = "Via: SIP/2.0/TCP 10.0.0.1:5062";

/// RFC 3261 §18.1.1, where the operator wants it.
#[test]
fn a_long_request_goes_by_tcp_and_by_udp_where_tcp_is_refused() {
    for (refuses, via) in [(false, BY_TCP), (true, BY_UDP)] {
        let mut scene = long_call(true, refuses, 1_200);
        assert!(scene.callee(0).requests[0].contains(via));
        scene.rest();
    }
}

/// Phones register over UDP from behind firewalls that drop a connection attempt in silence.
#[test]
fn a_long_request_goes_by_udp_unless_the_operator_wants_tcp() {
    let mut scene = long_call(false, true, 1_200);
    assert!(scene.callee(0).requests[0].contains(BY_UDP));
    assert_eq!(refused(&scene), [], "TCP was not tried");
    scene.rest();
    // No datagram is as long as this.
    let mut scene = long_call(false, false, 66_000);
    assert!(scene.callee(0).requests[0].contains(BY_TCP));
    scene.rest();
}

/// The second call does not wait for a connection that will not come, and a trace says which attempt was refused.
#[test]
fn a_peer_that_refuses_tcp_is_not_asked_again_for_an_hour() {
    let mut scene = long_call(true, true, 1_200);
    let once = [(Traced::Refused(Transport::Tcp), address(3))];
    assert_eq!(refused(&scene), once);
    scene.run(60_000);
    call_long(&mut scene, 1_200);
    assert_eq!((refused(&scene), scene.callee(0).calls.len()), (once.to_vec(), 2));
    scene.run(3_600_000);
    call_long(&mut scene, 1_200);
    assert_eq!((refused(&scene).len(), scene.callee(0).calls.len()), (2, 3));
    scene.rest();
}

/// RFC 6026 §8.9: what belongs to no transaction goes nowhere.
#[test]
fn stray_responses_are_dropped() {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    let text = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKnobody\r\n\
                Via: SIP/2.0/UDP 10.0.0.2:5060;branch=z9hG4bK-alice-1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:b@b>;tag=2\r\n\
                Call-ID: c\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n";
    scene.world.send(scene.callees[0], address(3), SERVER, text);
    scene.run(1_000);
    assert_eq!(scene.world.ladder().lines().count(), 1);
    assert_eq!(scene.server().endpoint.counters().stray_responses, 1);
}

/// §8.2.7: an answer given without a transaction is the same when the request comes again.
#[test]
fn our_tags_do_not_change() {
    let mut scene = Scene::new(1, to_bob, vec![]);
    let text = "INVITE sip:bob@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.8;branch=z9hG4bK-1\r\nMax-Forwards: 0\r\n\
                From: <sip:a@b>;tag=1\r\nTo: <sip:bob@10.0.0.1>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\
                Content-Length: 0\r\n\r\n";
    let peer = scene.world.add("peer", &[address(8)], Mailbox::new());
    for _ in 0..2 {
        scene.world.send(peer, address(8), SERVER, text);
        scene.world.run_for(Duration::from_secs(1));
    }
    let letters = scene.world.node::<Mailbox>(peer).letters();
    assert_eq!(letters.len(), 2);
    assert_eq!(letters[0].bytes, letters[1].bytes);
}
