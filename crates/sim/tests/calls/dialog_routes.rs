//! Honest dialogs go by their routes: refreshed targets, restarts, forks, subscriptions, proxies around us.

use std::net::SocketAddr;

use sip::dns::{DnsData, DnsQuery};
use sip::endpoint::{Decision, EndpointSettings, PlanRequest};

use crate::phone::Phone;
use crate::raw::{Peer, Raw, contact, header, record_routes, route_of_request, route_of_response};
use crate::server::{self, Server};
use crate::{SERVER, Scene, bob, carol, targets, to_bob};

const TCP: SocketAddr = SocketAddr::new(SERVER.ip(), 5062);
const FROM: &str = "<sip:alice@elsewhere.test>;tag=a";
const TO: &str = "<sip:bob@10.0.0.1>;tag=b";
const BOB: &str = "sip:bob@10.0.0.3:5060";

fn restart(scene: &mut Scene) {
    let server = scene.server;
    scene.world.restart(server, Server::new(server::settings(1), to_bob));
}

/// A call between two peers that the test speaks for.
struct Call {
    scene: Scene,
    alice: Peer,
    bob: Peer,
    /// Route headers of either side.
    by_alice: String,
    by_bob: String,
}

/// `above`: Record-Route of proxies between us and bob; `lines`: further lines of the INVITE.
fn call(above: &str, lines: &str) -> Call {
    call_by(SERVER, "INVITE", above, lines)
}

fn call_by(server: SocketAddr, method: &str, above: &str, lines: &str) -> Call {
    let mut scene = Scene::new(1, to_bob, vec![]);
    let (mut alice, bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    let invite = Raw {
        method,
        uri: "sip:bob@10.0.0.1",
        from: FROM,
        to: "<sip:bob@10.0.0.1>",
        call_id: "c",
        contact: "<sip:alice@10.0.0.8:5060>",
        lines,
        ..Raw::default()
    };
    alice.send_to(&mut scene, server, invite);
    let request = bob.last(&scene, method);
    bob.respond(&mut scene, &request, "200 OK", "b", above, "Contact: <sip:bob@10.0.0.3:5060>\r\n");
    let answer = alice.last(&scene, "SIP/2.0 200");
    Call { by_alice: route_of_response(&answer), by_bob: route_of_request(&request), scene, alice, bob }
}

impl Call {
    fn alice_sends(&mut self, method: &str, uri: &str, contact: &str) {
        let route = &self.by_alice.clone();
        let raw = Raw { method, uri, route, from: FROM, to: TO, call_id: "c", contact, ..Raw::default() };
        self.alice.send(&mut self.scene, raw);
    }

    fn bob_sends(&mut self, method: &str, uri: &str, contact: &str) {
        let route = &self.by_bob.clone();
        let raw = Raw { method, uri, route, from: TO, to: FROM, call_id: "c", contact, ..Raw::default() };
        self.bob.send(&mut self.scene, raw);
    }
}

/// RFC 3261 §12.2.1.2 and §12.2.2: the caller moves; what the callee sends from then on comes to the new place,
/// though the route set is the old one and the node has forgotten everything.
#[test]
fn a_caller_that_moves_is_found_after_a_restart() {
    let mut call = call("", "");
    let mut moved = Peer::new(&mut call.scene, 18);
    let route = call.by_alice.clone();
    let update = Raw {
        method: "UPDATE",
        uri: BOB,
        route: &route,
        from: FROM,
        to: TO,
        call_id: "c",
        contact: "<sip:alice@10.0.0.18:5060>",
        ..Raw::default()
    };
    moved.send(&mut call.scene, update);
    let target = contact(&call.bob.last(&call.scene, "UPDATE"));
    restart(&mut call.scene);
    call.bob_sends("BYE", &target, "");
    let bye = moved.last(&call.scene, "BYE");
    assert!(bye.starts_with("BYE sip:alice@10.0.0.18:5060 SIP/2.0\r\n"), "as it was written: {bye}");
}

/// The same for the callee, and for the 2xx of a re-INVITE.
#[test]
fn a_callee_that_moves_is_found_after_a_restart() {
    let mut call = call("", "");
    let mut moved = Peer::new(&mut call.scene, 13);
    let route = call.by_bob.clone();
    let invite = Raw {
        method: "INVITE",
        uri: "sip:alice@10.0.0.8:5060",
        route: &route,
        from: TO,
        to: FROM,
        call_id: "c",
        contact: "<sip:bob@10.0.0.13:5060>;x=1",
        ..Raw::default()
    };
    moved.send(&mut call.scene, invite);
    let request = call.alice.last(&call.scene, "INVITE");
    let answer = "Contact: <sip:alice@10.0.0.8:5070>\r\n";
    call.alice.respond(&mut call.scene, &request, "200 OK", "", "", answer);
    let (bob, alice) = (contact(&request), contact(&moved.last(&call.scene, "SIP/2.0 200")));
    restart(&mut call.scene);
    for method in ["ACK", "BYE"] {
        let raw =
            Raw { method, uri: &alice, route: &route, from: TO, to: FROM, call_id: "c", ..Raw::default() };
        let alice = Peer::at(&mut call.scene, "10.0.0.8:5070".parse().unwrap());
        moved.send(&mut call.scene, raw);
        let text = alice.last(&call.scene, method);
        assert!(text.starts_with(&format!("{method} sip:alice@10.0.0.8:5070 SIP/2.0\r\n")), "{text}");
    }
    call.alice_sends("BYE", &bob, "");
    let bye = moved.last(&call.scene, "BYE");
    assert!(bye.starts_with("BYE sip:bob@10.0.0.13:5060 SIP/2.0\r\n"), "{bye}");
}

/// A phone on a connection comes back by another one after a restart: its next request brings its peer along.
#[test]
fn a_new_connection_is_found_after_a_restart() {
    let mut scene = Scene::new(1, to_bob, vec![bob(), carol()]);
    scene.world.node_mut::<Phone>(scene.alice).proxy = TCP;
    scene.world.node_mut::<Phone>(scene.alice).inside = "192.168.1.5:40000".parse().unwrap();
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!(scene.status(), 200);
    restart(&mut scene);
    // Another phone has the number of alice's old connection.
    let carol = scene.callees[1];
    scene.world.act(carol, |phone: &mut Phone, now, out| {
        phone.proxy = TCP;
        phone.request(now, "OPTIONS", "sip:10.0.0.1", "", out);
    });
    scene.run(100);
    scene.world.act(scene.alice, |phone: &mut Phone, now, out| phone.in_dialog(now, 0, "UPDATE", out));
    scene.run(100);
    let update = scene.callee(0).requests.last().unwrap().clone();
    assert!(update.starts_with("UPDATE "), "{update}");
    let callee = scene.callees[0];
    scene.world.act(callee, move |phone: &mut Phone, now, out| {
        phone.calls[0].target = contact(&update);
        phone.hang_up(now, 0, out);
    });
    scene.run(2_000);
    assert!(scene.alice().calls[0].ended, "{}", scene.world.ladder());
    assert!(scene.callee(1).requests.is_empty());
    scene.rest();
}

#[test]
fn a_refresh_that_changes_nothing_changes_no_contact() {
    let mut call = call("", "");
    let own = "<sip:alice@10.0.0.8:5060;ob>";
    call.alice_sends("UPDATE", BOB, own);
    let request = call.bob.last(&call.scene, "UPDATE");
    assert_eq!(header(&request, "Contact"), own);
    call.bob.respond(&mut call.scene, &request, "200 OK", "b", "", "Contact: <sip:bob@10.0.0.3:5060>\r\n");
    assert_eq!(contact(&call.alice.last(&call.scene, "SIP/2.0 200")), BOB);
}

/// User agents write parameters in another order, drop those they do not know, and escape in their own way.
#[test]
fn a_target_written_otherwise_is_the_same() {
    let mut call = call("", "");
    for uri in ["sip:bob@10.0.0.3:5060;ob;x=1", "sip:%62ob@10.0.0.3:5060"] {
        call.alice_sends("INFO", uri, "");
        assert!(call.bob.last(&call.scene, "INFO").starts_with(&format!("INFO {uri} SIP/2.0\r\n")));
    }
}

/// RFC 3261 §12.2.1.1: a request goes to the remote target. That the Contact names a domain of ours, or our host and
/// another port, or has no user, makes it no address that is looked up.
#[test]
fn a_contact_in_a_domain_of_ours_is_a_remote_target() {
    let (here, there) = ("10.0.0.1:5090", "10.0.0.8:5060");
    for (contact, at) in [
        ("sip:alice@10.0.0.1:5090", here),
        ("sip:10.0.0.1:5090", here),
        ("sip:alice@example.test:5090", there),
        ("sip:alice@example.test", there),
        ("sip:example.test:5090", there),
        ("sip:example.test", there),
        // Our own address: a user agent behind something that writes Contacts anew.
        ("sip:alice@10.0.0.1:5060", there),
        ("sip:10.0.0.1", there),
    ] {
        let settings = EndpointSettings {
            domains: vec!["example.test".into(), "10.0.0.1".into()],
            ..server::settings(1)
        };
        // Any other target is looked up, and is not there.
        let plan = |request: &PlanRequest| match (request.starts_call, &*request.user) {
            (true, "bob") => to_bob(request),
            _ => Decision::Local { user: request.user.clone(), domain: request.host.clone() },
        };
        let mut scene = Scene::with(1, settings, plan, vec![]);
        let (alice, bob) = (Peer::at(&mut scene, at.parse().unwrap()), Peer::new(&mut scene, 3));
        let mut call = Call { scene, alice, bob, by_alice: String::new(), by_bob: String::new() };
        let named = format!("<{contact}>");
        let invite = Raw {
            method: "INVITE",
            uri: "sip:bob@10.0.0.1",
            from: FROM,
            to: "<sip:bob@10.0.0.1>",
            call_id: "c",
            contact: &named,
            ..Raw::default()
        };
        call.alice.send(&mut call.scene, invite);
        let request = call.bob.last(&call.scene, "INVITE");
        let answer = "Contact: <sip:bob@10.0.0.3:5060>\r\n";
        call.bob.respond(&mut call.scene, &request, "200 OK", "b", "", answer);
        call.by_bob = route_of_request(&request);
        call.by_alice = route_of_response(&call.alice.last(&call.scene, "SIP/2.0 200"));
        for method in ["INVITE", "BYE"] {
            call.bob_sends(method, contact, "<sip:bob@10.0.0.3:5060>");
            let text = call.alice.last(&call.scene, method);
            assert!(text.starts_with(&format!("{method} {contact} SIP/2.0\r\n")), "{text}");
        }
        // The target is refreshed with the same words by an UPDATE (§12.2.2).
        call.alice_sends("UPDATE", BOB, &named);
        let target = crate::raw::contact(&call.bob.last(&call.scene, "UPDATE"));
        call.bob_sends("INFO", &target, "");
        let info = call.alice.last(&call.scene, "INFO");
        assert!(info.starts_with(&format!("INFO {contact} SIP/2.0\r\n")), "{info}");
    }
}

/// The same for a callee's Contact, of a system that the operator configured.
#[test]
fn a_callees_contact_at_another_port_of_our_host_is_a_remote_target() {
    for contact in ["sip:bob@10.0.0.1:5090", "sip:10.0.0.1:5090", "sip:bob@example.test:5090"] {
        let settings = EndpointSettings {
            domains: vec!["example.test".into(), "10.0.0.1".into()],
            ..server::settings(1)
        };
        let plan = |request: &PlanRequest| match request.starts_call {
            true => targets(&[&["sip:bob@10.0.0.1:5090"]]),
            false => Decision::Local { user: request.user.clone(), domain: request.host.clone() },
        };
        let dns = vec![DnsData::Address(SERVER.ip())];
        let server = Server::new(settings, plan).with_dns(DnsQuery::A("example.test".into()), dns);
        let mut scene = Scene::build(1, server, vec![]);
        let alice = Peer::new(&mut scene, 8);
        let bob = Peer::at(&mut scene, "10.0.0.1:5090".parse().unwrap());
        let mut call = Call { scene, alice, bob, by_alice: String::new(), by_bob: String::new() };
        let invite = Raw {
            method: "INVITE",
            uri: "sip:bob@10.0.0.1",
            from: FROM,
            to: "<sip:bob@10.0.0.1>",
            call_id: "c",
            contact: "<sip:alice@10.0.0.8:5060>",
            ..Raw::default()
        };
        call.alice.send(&mut call.scene, invite);
        let request = call.bob.last(&call.scene, "INVITE");
        call.bob.respond(&mut call.scene, &request, "200 OK", "b", "", &format!("Contact: <{contact}>\r\n"));
        call.by_alice = route_of_response(&call.alice.last(&call.scene, "SIP/2.0 200"));
        for method in ["ACK", "INVITE", "BYE"] {
            call.alice_sends(method, contact, "<sip:alice@10.0.0.8:5060>");
            let text = call.bob.last(&call.scene, method);
            assert!(text.starts_with(&format!("{method} {contact} SIP/2.0\r\n")), "{text}");
        }
    }
}

/// Proxies on both sides, one of them strict: everything behind our value goes on as the route set has it.
#[test]
fn route_sets_through_other_proxies() {
    for (above, is_strict) in
        [("<sip:10.0.0.4;lr>, <sip:10.0.0.5;lr>", false), ("<sip:10.0.0.4>, <sip:10.0.0.5>", true)]
    {
        let upstream = "Record-Route: <sip:10.0.0.8:5062;lr>, <sip:10.0.0.7;lr>\r\n";
        let mut call = call(above, upstream);
        let (near, up) = (Peer::new(&mut call.scene, 5), "10.0.0.8:5062".parse().unwrap());
        let up = Peer::at(&mut call.scene, up);
        // Alice's Route as it comes to us: her own proxies have taken theirs off.
        let own = call.by_alice.find("<sip:10.0.0.1").unwrap();
        call.by_alice.drain(..own);
        call.alice_sends("BYE", BOB, "");
        let bye = near.last(&call.scene, "BYE");
        if is_strict {
            assert!(bye.starts_with("BYE sip:10.0.0.5 SIP/2.0\r\n"), "{bye}");
            assert!(
                bye.contains("Route: <sip:10.0.0.4>\r\n")
                    && bye.contains("Route: <sip:bob@10.0.0.3:5060>\r\n")
            );
        } else {
            assert!(bye.contains("Route: <sip:10.0.0.5;lr>, <sip:10.0.0.4;lr>\r\n"), "{bye}");
        }
        call.bob_sends("BYE", "sip:alice@10.0.0.8:5060", "");
        let bye = up.last(&call.scene, "BYE");
        assert!(bye.contains("Route: <sip:10.0.0.8:5062;lr>, <sip:10.0.0.7;lr>\r\n"), "{bye}");
    }
}

/// RFC 5658: another transport on either side makes two values, and each side ends with its own.
#[test]
fn two_record_route_values_work_both_ways() {
    let mut call = call_by(TCP, "INVITE", "", "");
    let values = record_routes(&call.alice.last(&call.scene, "SIP/2.0 200"));
    assert_eq!(values.len(), 2, "{values:?}");
    let route = call.by_alice.clone();
    let bye =
        Raw { method: "BYE", uri: BOB, route: &route, from: FROM, to: TO, call_id: "c", ..Raw::default() };
    call.alice.send_to(&mut call.scene, TCP, bye);
    call.bob.last(&call.scene, "BYE");
    call.bob_sends("BYE", "sip:alice@10.0.0.8:5060", "");
    call.alice.last(&call.scene, "BYE");
}

/// RFC 6665 §4.1.2.4: the NOTIFY comes before the 2xx, and its dialog is as good.
#[test]
fn a_notify_before_the_2xx_of_its_subscribe_makes_the_dialog() {
    let mut scene = Scene::new(1, to_bob, vec![]);
    let (mut alice, mut bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    let subscribe = Raw {
        method: "SUBSCRIBE",
        uri: "sip:bob@10.0.0.1",
        from: FROM,
        to: "<sip:bob@10.0.0.1>",
        call_id: "c",
        contact: "<sip:alice@10.0.0.8:5060>",
        lines: "Event: foo\r\n",
        ..Raw::default()
    };
    alice.send(&mut scene, subscribe);
    let request = bob.last(&scene, "SUBSCRIBE");
    let by_bob = route_of_request(&request);
    let notify = Raw {
        method: "NOTIFY",
        uri: "sip:alice@10.0.0.8:5060",
        route: &by_bob,
        from: TO,
        to: FROM,
        call_id: "c",
        contact: "<sip:bob@10.0.0.3:5060>",
        lines: "Event: foo\r\nSubscription-State: active\r\n",
    };
    bob.send(&mut scene, notify);
    let first = alice.last(&scene, "NOTIFY");
    // The subscriber is the one that was asked: its route set is in the order of the NOTIFY.
    let (by_notify, target) = (route_of_request(&first), contact(&first));
    let refresh = Raw { uri: &target, route: &by_notify, to: TO, ..subscribe };
    alice.send(&mut scene, refresh);
    let count = |scene: &Scene| {
        bob.received(scene)
            .iter()
            .filter(|text| text.starts_with("SUBSCRIBE sip:bob@10.0.0.3:5060 SIP"))
            .count()
    };
    assert_eq!(count(&scene), 2, "{}", scene.world.ladder());
    bob.respond(&mut scene, &request, "200 OK", "b", "", "Contact: <sip:bob@10.0.0.3:5060>\r\n");
    let by_alice = route_of_response(&alice.last(&scene, "SIP/2.0 200"));
    alice.send(&mut scene, Raw { uri: BOB, route: &by_alice, to: TO, ..subscribe });
    assert_eq!(count(&scene), 3, "{}", scene.world.ladder());
}

/// RFC 6026 §7.2: a 2xx that comes when the response context is gone has a route as good as the first one's.
#[test]
fn every_2xx_of_a_fork_leads_to_its_own_callee() {
    let both = |_: &_| targets(&[&["sip:bob@10.0.0.3:5060", "sip:carol@10.0.0.4:5060"]]);
    let mut scene = Scene::new(1, both, vec![]);
    let mut alice = Peer::new(&mut scene, 8);
    let callees = [Peer::new(&mut scene, 3), Peer::new(&mut scene, 4)];
    let invite = Raw {
        method: "INVITE",
        uri: "sip:all@10.0.0.1",
        from: FROM,
        to: "<sip:all@10.0.0.1>",
        call_id: "c",
        contact: "<sip:alice@10.0.0.8:5060>",
        ..Raw::default()
    };
    alice.send(&mut scene, invite);
    for (callee, tag) in callees.iter().zip(["b", "c"]) {
        let request = callee.last(&scene, "INVITE");
        let own = format!("Contact: <sip:x@{}>\r\n", callee.addr);
        callee.respond(&mut scene, &request, "200 OK", tag, "", &own);
        let answer = alice.last(&scene, "SIP/2.0 200");
        let (uri, route, to) =
            (crate::raw::contact(&answer), route_of_response(&answer), header(&answer, "To"));
        for method in ["ACK", "BYE"] {
            let raw =
                Raw { method, uri: &uri, route: &route, from: FROM, to: &to, call_id: "c", ..Raw::default() };
            alice.send(&mut scene, raw);
            callee.last(&scene, method);
        }
    }
    assert_eq!(callees[0].received(&scene).iter().filter(|text| text.starts_with("BYE")).count(), 1);
}
