//! RFC 3261 §16.6 and §16.7: several callees, and which answer the caller gets.

use std::net::SocketAddr;
use std::time::Duration;

use insta::assert_snapshot;
use sip::endpoint::{Decision, PlanRequest};
use sip::transport::Transport;

use crate::phone::Phone;
use crate::raw::{Peer, Raw};
use crate::server::Server;
use crate::{SERVER, Scene, accounts, bob, carol, server, targets};

const BOB: &str = "sip:bob@10.0.0.3";
const CAROL: &str = "sip:carol@10.0.0.4";

fn at_once(_: &PlanRequest) -> Decision {
    targets(&[&[BOB, CAROL]])
}

fn one_by_one(_: &PlanRequest) -> Decision {
    targets(&[&[BOB], &[CAROL]])
}

#[test]
fn the_first_2xx_wins_and_the_others_are_cancelled() {
    let phones = vec![bob().answering(&[(0, 180)]), carol().answering(&[(5, 180), (500, 200)])];
    let mut scene = Scene::new(1, at_once, phones);
    scene.call("sip:all@10.0.0.1");
    scene.run(1_000);
    assert_snapshot!(scene.world.ladder(), @r"
      0ms  alice  ──INVITE──────▶ server
     10ms  server ──INVITE──────▶ bob
     10ms  server ──INVITE──────▶ carol
     20ms  server ◀──180 INVITE── bob
     25ms  server ◀──180 INVITE── carol
     30ms  alice  ◀──180 INVITE── server
     35ms  alice  ◀──180 INVITE── server
    520ms  server ◀──200 INVITE── carol
    530ms  alice  ◀──200 INVITE── server
    530ms  server ──CANCEL──────▶ bob
    540ms  alice  ──ACK─────────▶ server
    540ms  server ◀──487 INVITE── bob
    540ms  server ◀──200 CANCEL── bob
    550ms  server ──ACK─────────▶ carol
    550ms  server ──ACK─────────▶ bob
    ");
    assert_eq!(scene.callee(0).calls[0].status, 487);
    scene.hang_up();
    scene.rest();
}

/// §16.7 step 5: when two phones answer at once, both answers reach the caller, who ends one of them.
#[test]
fn a_second_2xx_reaches_the_caller() {
    let phones = vec![bob().answering(&[(0, 200)]), carol().answering(&[(0, 180), (3, 200)])];
    let mut scene = Scene::new(1, at_once, phones);
    scene.call("sip:all@10.0.0.1");
    scene.run(300);
    let answers = scene.world.ladder().matches("alice  ◀──200 INVITE").count();
    assert_eq!(answers, 2, "{}", scene.world.ladder());
    scene.rest();
}

/// A gateway that answers speaks of the number that was called, and the next one would say the same; one that fails
/// speaks of itself. 3xx goes to the caller.
#[test]
fn the_next_gateway_is_tried_only_when_one_fails() {
    for status in [300, 302, 401, 403, 404, 410, 480, 484, 486, 488, 487, 600, 603, 604] {
        let phones = vec![bob().answering(&[(0, status)]), carol()];
        let mut scene = Scene::new(1, one_by_one, phones);
        scene.call("sip:all@10.0.0.1");
        scene.run(2_000);
        assert_eq!((scene.status(), scene.callee(1).calls.len()), (status, 0));
        scene.rest();
    }
    for status in [408, 500, 501, 502, 503, 504, 580] {
        let phones = vec![bob().answering(&[(0, 180), (5, status)]), carol()];
        let mut scene = Scene::new(1, one_by_one, phones);
        scene.call("sip:all@10.0.0.1");
        scene.run(2_000);
        assert_eq!((scene.status(), scene.callee(1).calls.len()), (200, 1), "{status}");
        scene.hang_up();
        scene.rest();
    }
}

const NOT_NOW: &str = "Retry-After: 60 (maintenance)\n";

/// Places a call to the gateways and hangs up. The status, and how many calls each gateway has had.
fn call_again(scene: &mut Scene) -> (u16, usize, usize) {
    scene.call("sip:all@10.0.0.1");
    scene.run(2_000);
    let outcome = (scene.status(), scene.callee(0).calls.len(), scene.callee(1).calls.len());
    if outcome.0 == 200 {
        scene.hang_up();
    }
    scene.run(2_000);
    outcome
}

/// RFC 3261 §21.5.4: no other requests for the time of Retry-After.
#[test]
fn a_gateway_that_says_when_to_come_again_gets_no_calls_until_then() {
    let mut busy = bob().answering(&[(0, 503)]);
    busy.extra = NOT_NOW;
    let mut scene = Scene::new(1, one_by_one, vec![busy, carol()]);
    assert_eq!(call_again(&mut scene), (200, 1, 1), "the next one takes the call");
    assert_eq!(call_again(&mut scene), (200, 1, 2), "the first one is not asked");
    scene.run(60_000);
    assert_eq!(call_again(&mut scene), (200, 2, 3), "its time is over");
    scene.rest();
}

/// Without the header "the client MUST act as if it had received a 500 response" (§21.5.4).
#[test]
fn a_gateway_that_does_not_say_when_to_come_again_gets_the_next_call() {
    for (status, extra) in
        [(503, ""), (503, "Retry-After: 0\n"), (503, "Retry-After: soon\n"), (500, NOT_NOW)]
    {
        let mut busy = bob().answering(&[(0, status)]);
        busy.extra = extra;
        let mut scene = Scene::new(1, one_by_one, vec![busy, carol()]);
        assert_eq!(call_again(&mut scene), (200, 1, 1));
        assert_eq!(call_again(&mut scene), (200, 2, 2), "{status} {extra}");
        scene.rest();
    }
}

/// A gateway cannot take itself out of service for days by a mistake.
#[test]
fn a_gateway_is_asked_again_after_five_minutes() {
    let mut busy = bob().answering(&[(0, 503)]);
    busy.extra = "Retry-After: 86400\n";
    let mut scene = Scene::new(1, one_by_one, vec![busy, carol()]);
    assert_eq!(call_again(&mut scene), (200, 1, 1));
    scene.run(290_000);
    assert_eq!(call_again(&mut scene), (200, 1, 2));
    scene.run(10_000);
    assert_eq!(call_again(&mut scene), (200, 2, 3));
    scene.rest();
}

/// "SHOULD NOT" (§21.5.4) is no reason to refuse a call that has no other way. The caller does not see the 503 (§16.7 step 6).
#[test]
fn gateways_that_want_no_calls_are_asked_when_there_is_no_other() {
    let closed = |mut phone: Phone| {
        phone.script = vec![(std::time::Duration::ZERO, 503)];
        phone.extra = NOT_NOW;
        phone
    };
    let mut scene = Scene::new(1, one_by_one, vec![closed(bob()), closed(carol())]);
    assert_eq!(call_again(&mut scene), (500, 1, 1));
    assert_eq!(call_again(&mut scene), (500, 2, 2), "in their order");
    scene.rest();
    // The other one fails: then the first one is asked.
    let mut scene = Scene::new(1, one_by_one, vec![closed(bob()), carol().answering(&[(0, 500)])]);
    assert_eq!(call_again(&mut scene), (500, 1, 1));
    assert_eq!(call_again(&mut scene), (500, 2, 2));
    scene.rest();
    // The other one says that the number does not exist: the first one would say the same.
    let mut scene = Scene::new(1, one_by_one, vec![closed(bob()), carol().answering(&[(0, 404)])]);
    assert_eq!(call_again(&mut scene), (404, 1, 1));
    assert_eq!(call_again(&mut scene), (404, 1, 2));
    scene.rest();
}

/// A caller that gives up while the second gateway rings: the first one, which was left out, is not asked then.
#[test]
fn a_cancelled_call_asks_no_gateway_that_wants_none() {
    let mut busy = bob().answering(&[(0, 503)]);
    busy.extra = NOT_NOW;
    let mut scene = Scene::new(1, one_by_one, vec![busy, carol().answering(&[(0, 180)])]);
    for calls in [1, 2] {
        scene.call("sip:all@10.0.0.1");
        scene.run(1_000);
        scene.cancel();
        scene.run(1_000);
        assert_eq!(
            (scene.status(), scene.callee(0).calls.len(), scene.callee(1).calls.len()),
            (487, 1, calls)
        );
    }
    scene.rest();
}

/// The Contacts of a 3xx are not called either way: a gateway could name any number in them.
#[test]
fn a_redirected_call_goes_to_the_next_gateway_where_the_operator_says_so() {
    for (next, status, calls) in [(false, 302, 0), (true, 200, 1)] {
        let settings = sip::endpoint::EndpointSettings { failover_on_redirect: next, ..server::settings(1) };
        let mut phone = bob().answering(&[(0, 302)]);
        phone.extra = "Contact: <sip:+4990012345@10.0.0.4>\n";
        let mut scene = Scene::with(1, settings, one_by_one, vec![phone, carol()]);
        scene.call("sip:all@10.0.0.1");
        scene.run(2_000);
        assert_eq!((scene.status(), scene.callee(1).calls.len()), (status, calls));
        scene.rest();
    }
}

/// RFC 3263 §4.3: silence, a transport error and a name that does not resolve.
#[test]
fn the_next_gateway_is_tried_when_one_is_not_reached() {
    let mut scene = Scene::new(1, one_by_one, vec![bob(), carol()]);
    scene.world.stop(scene.callees[0]);
    scene.call("sip:all@10.0.0.1");
    scene.run(35_000);
    assert_eq!(scene.callee(1).calls.len(), 1, "silence");
    scene.rest();
    let mut server = server::Server::new(server::settings(1), one_by_one);
    server.unreachable.push((sip::transport::Transport::Udp, crate::address(3)));
    let mut scene = Scene::build(1, server, vec![bob(), carol()]);
    scene.call("sip:all@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.callee(1).calls.len(), 1, "a transport error");
    let unknown = |_: &PlanRequest| targets(&[&["sip:x@nowhere.test:5060;transport=udp"], &[CAROL]]);
    let mut scene = Scene::new(1, unknown, vec![bob(), carol()]);
    scene.call("sip:all@10.0.0.1");
    scene.run(2_000);
    assert_eq!((scene.status(), scene.callee(1).calls.len()), (200, 1), "a name without an address");
}

#[test]
fn the_next_group_rings_when_all_of_the_first_have_failed() {
    let phones = vec![bob().answering(&[(0, 180), (300, 500)]), carol()];
    let mut scene = Scene::new(1, one_by_one, phones);
    scene.call("sip:all@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    assert_snapshot!(scene.world.ladder(), @r"
        0ms  alice  ──INVITE──────▶ server
       10ms  server ──INVITE──────▶ bob
       20ms  server ◀──180 INVITE── bob
       30ms  alice  ◀──180 INVITE── server
      320ms  server ◀──500 INVITE── bob
      330ms  server ──ACK─────────▶ bob
      330ms  server ──INVITE──────▶ carol
      340ms  server ◀──180 INVITE── carol
      350ms  alice  ◀──180 INVITE── server
    1_340ms  server ◀──200 INVITE── carol
    1_350ms  alice  ◀──200 INVITE── server
    1_360ms  alice  ──ACK─────────▶ server
    1_370ms  server ──ACK─────────▶ carol
    ");
    scene.hang_up();
    scene.rest();
}

#[test]
fn a_6xx_ends_the_search() {
    let mut scene = Scene::new(1, one_by_one, vec![bob().answering(&[(0, 603)]), carol()]);
    scene.call("sip:all@10.0.0.1");
    scene.run(1_000);
    assert_eq!(scene.status(), 603);
    assert!(scene.callee(1).requests.is_empty());
    scene.rest();

    let phones = vec![bob().answering(&[(300, 603)]), carol().answering(&[(0, 180)])];
    let mut scene = Scene::new(1, at_once, phones);
    scene.call("sip:all@10.0.0.1");
    scene.run(1_000);
    assert_eq!((scene.status(), scene.callee(1).calls[0].status), (603, 487));
    scene.rest();
}

/// The status that the caller gets when the callees answer with these two.
fn chosen(first: u16, second: u16) -> u16 {
    let phones = vec![bob().answering(&[(0, first)]), carol().answering(&[(50, second)])];
    let mut scene = Scene::new(1, at_once, phones);
    scene.call("sip:all@10.0.0.1");
    scene.run(1_000);
    let status = scene.status();
    scene.rest();
    status
}

/// §16.7 step 6.
#[test]
fn the_best_answer_is_the_callers() {
    assert_eq!(chosen(486, 404), 486);
    assert_eq!(chosen(404, 407), 407);
    assert_eq!(chosen(500, 480), 480);
    assert_eq!(chosen(480, 302), 302, "a redirection is the caller's to follow");
    assert_eq!(chosen(503, 503), 500, "a 503 is about the next hop");
    assert_eq!(chosen(503, 500), 500);
    assert_eq!(chosen(302, 600), 600);
}

/// §16.7 step 7.
#[test]
fn every_challenge_is_passed_on() {
    let mut first = bob().answering(&[(0, 407)]);
    first.extra = "Proxy-Authenticate: Digest realm=\"one\"";
    let mut second = carol().answering(&[(50, 401)]);
    second.extra = "WWW-Authenticate: Digest realm=\"two\"";
    let mut scene = Scene::new(1, at_once, vec![first, second]);
    scene.call("sip:all@10.0.0.1");
    scene.run(1_000);
    let text = &scene.alice().finals[0].1;
    assert!(text.starts_with("SIP/2.0 407 "), "{text}");
    assert!(
        text.contains("realm=\"one\"") && text.contains("WWW-Authenticate: Digest realm=\"two\""),
        "{text}"
    );
    scene.rest();
}

#[test]
fn a_silent_phone_is_408_and_timer_c_ends_a_ring_without_end() {
    let mut scene = Scene::new(1, one_by_one, vec![]);
    scene.call("sip:all@10.0.0.1");
    scene.run(70_000);
    assert_eq!(scene.status(), 408);
    scene.rest();

    let mut settings = server::settings(1);
    settings.timer_c = Duration::from_secs(60);
    let phones = vec![bob().answering(&[(0, 180), (50_000, 180)])];
    let mut scene = Scene::with(1, settings, |_| targets(&[&[BOB]]), phones);
    scene.call("sip:bob@10.0.0.1");
    scene.run(100_000);
    assert_eq!(scene.status(), 0, "the second 180 has reset it");
    scene.run(15_000);
    assert_eq!((scene.status(), scene.callee(0).calls[0].status), (408, 487));
    scene.rest();
}

/// RFC 4320: a server does not send 408 to a non-INVITE; a 100 comes after 3.5 s.
#[test]
fn an_unanswered_non_invite_gets_100_and_no_408() {
    let mut scene = Scene::new(1, |_| targets(&[&[BOB]]), vec![bob()]);
    scene.world.node_mut::<Phone>(scene.callees[0]).other = 0;
    scene.world.act(scene.alice, |phone: &mut Phone, now, out| {
        phone.request(now, "INFO", "sip:bob@10.0.0.1", "", out);
    });
    scene.run(60_000);
    let ladder = scene.world.ladder();
    let heard: Vec<&str> = ladder.lines().filter(|line| line.contains("alice  ◀")).collect();
    assert_eq!(heard[0], "  3_512ms  alice  ◀──100 INFO── server");
    assert!(heard.iter().all(|line| line.contains("──100 INFO──")), "{ladder}");
    assert_eq!(scene.alice().finals, [(408, "INFO".to_owned())], "by its own timer F");
    scene.rest();
}

/// Registers a connection of bob's phone by RFC 5626.
fn register_flow(scene: &mut Scene, flow: &mut Peer, reg_id: u32) {
    let instance = "<urn:uuid:00000000-0000-1000-8000-000a95a0e128>";
    let contact =
        format!("<sip:bob@{};transport=tcp;ob>;reg-id={reg_id};+sip.instance=\"{instance}\"", flow.addr);
    let raw = Raw {
        method: "REGISTER",
        uri: "sip:example.test",
        from: "<sip:bob@example.test>;tag=x",
        to: "<sip:bob@example.test>",
        call_id: &format!("register-{reg_id}"),
        contact: &contact,
        ..Raw::default()
    };
    let tcp = SocketAddr::new(SERVER.ip(), 5062);
    flow.send_to(scene, tcp, raw);
    let challenge = flow.last(scene, "SIP/2.0 401");
    let credentials = accounts::credentials(&challenge, "bob", "secret", "REGISTER", "sip:example.test");
    flow.send_to(scene, tcp, Raw { lines: &(credentials + "Supported: outbound, path\r\n"), ..raw });
    assert!(flow.last(scene, "SIP/2.0 ").contains("\r\nRequire: outbound\r\n"));
}

/// RFC 5626 §7: "the proxy MUST NOT populate the target set with more than one contact with the same AOR and instance-id at a time",
/// and another one is for a request that failed with 430.
#[test]
fn two_flows_of_one_instance_are_one_target() {
    for method in ["INVITE", "MESSAGE"] {
        let mut scene = Scene::build(1, accounts::server(), vec![]);
        let (mut first, mut second) = (Peer::new(&mut scene, 3), Peer::new(&mut scene, 4));
        register_flow(&mut scene, &mut first, 1);
        register_flow(&mut scene, &mut second, 2);
        let mut caller = Peer::new(&mut scene, 8);
        let mut ask = |scene: &mut Scene, call_id: &str| {
            let (uri, to) = ("sip:bob@example.test", "<sip:bob@example.test>");
            let (from, contact) = ("<sip:eve@elsewhere.test>;tag=1", "<sip:eve@10.0.0.8>");
            caller.send(scene, Raw { method, uri, from, to, call_id, contact, ..Raw::default() });
        };
        let count = |scene: &Scene, flow: &Peer| {
            flow.received(scene).iter().filter(|text| text.starts_with(method)).count()
        };
        ask(&mut scene, "newest");
        assert_eq!((count(&scene, &first), count(&scene, &second)), (0, 1), "{method}");
        // The phone has answered: no other copy of the request is for it.
        let request = second.last(&scene, method);
        second.respond(&mut scene, &request, "486 Busy Here", "t", "", "");
        assert_eq!((count(&scene, &first), count(&scene, &second)), (0, 1), "{method}");

        register_flow(&mut scene, &mut first, 1);
        ask(&mut scene, "refreshed");
        assert_eq!((count(&scene, &first), count(&scene, &second)), (1, 1), "{method}");

        let close = |scene: &mut Scene, flow: &Peer| {
            scene.world.node_mut::<Server>(scene.server).unreachable.push((Transport::Tcp, flow.addr));
        };
        close(&mut scene, &first);
        ask(&mut scene, "closed");
        assert_eq!((count(&scene, &first), count(&scene, &second)), (1, 2), "{method}");
        close(&mut scene, &second);
        ask(&mut scene, "both-closed");
        assert_eq!((count(&scene, &first), count(&scene, &second)), (1, 2), "{method}");
        assert!(caller.last(&scene, "SIP/2.0 ").starts_with("SIP/2.0 480 "), "{method}");
    }
}
