//! We are no open relay: not for strangers, and not for the participants of a dialog (RFC 3261 §26.1, §16.3 step 6).

use router::Received;
use sip::dns::{DnsData, DnsQuery};
use sip::endpoint::{Decision, EndpointSettings, PlanRequest};
use sip::session::{Invite, SessionEvent};

use crate::accounts;
use crate::phone::Phone;
use crate::raw::{Peer, Raw, route_of_request, route_of_response};
use crate::server::{self, Server};
use crate::session_world::{agent, answers, invite_to};
use crate::{Scene, address, bob, targets, to_bob};

const METHODS: [&str; 5] = ["INVITE", "MESSAGE", "BYE", "UPDATE", "ACK"];

/// Requests for our address reach bob; everything else is refused.
fn only_bob(request: &PlanRequest) -> Decision {
    match &*request.host {
        "10.0.0.1" => to_bob(request),
        _ => Decision::Refuse { status: 403, reason: "Forbidden".into() },
    }
}

/// A stranger at host 8 has called bob, and bob's answer has come.
struct Call {
    scene: Scene,
    stranger: Peer,
    victim: Peer,
    /// The stranger's Route header.
    route: String,
    /// Bob's tag.
    to: String,
    /// Requests that bob has received for the call so far.
    heard: usize,
}

const FROM: &str = "<sip:stranger@elsewhere.test>;tag=s1";

fn call(contact: &str, lines: &str) -> Call {
    call_at(server::settings(1), contact, lines)
}

fn call_at(settings: EndpointSettings, contact: &str, lines: &str) -> Call {
    // The host that a domain of ours names has other services, too.
    let victim = || vec![DnsData::Address(address(9).ip())];
    let server = Server::new(settings, only_bob)
        .with_dns(DnsQuery::A("victim.test".into()), victim())
        .with_dns(DnsQuery::A("example.test".into()), victim());
    let mut scene = Scene::build(1, server, vec![bob()]);
    let victim = Peer::new(&mut scene, 9);
    let mut stranger = Peer::new(&mut scene, 8);
    let invite = Raw {
        method: "INVITE",
        uri: "sip:bob@10.0.0.1",
        from: FROM,
        to: "<sip:bob@10.0.0.1>",
        call_id: "c",
        contact,
        lines,
        ..Raw::default()
    };
    stranger.send(&mut scene, invite);
    let ringing = stranger.last(&scene, "SIP/2.0 180");
    let (route, to) = (route_of_response(&ringing), crate::raw::header(&ringing, "To"));
    let heard = scene.callee(0).requests.len();
    Call { scene, stranger, victim, route, to, heard }
}

fn honest() -> Call {
    call("<sip:stranger@10.0.0.8:5060>", "")
}

impl Call {
    /// Every method by this Route: nothing reaches the victim, nor bob.
    fn try_all(&mut self, uri: &str, route: &str, from: &str, to: &str) {
        for method in METHODS {
            let raw = Raw {
                method,
                uri,
                route,
                from,
                to,
                call_id: "c",
                contact: "<sip:s@10.0.0.8>",
                ..Raw::default()
            };
            self.stranger.send(&mut self.scene, raw);
            assert_eq!(self.victim.received(&self.scene), [""; 0], "{method} {uri} by {route}");
            let requests = &self.scene.callee(0).requests;
            assert_eq!(requests.len(), self.heard, "{method} {uri} by {route}: {requests:#?}");
        }
    }
}

const BOB: &str = "sip:bob@10.0.0.3:5060";
const VICTIM: &str = "sip:x@10.0.0.9";

#[test]
fn a_token_of_a_call_leads_to_no_third_host() {
    let mut call = honest();
    let (route, to) = (call.route.clone(), call.to.clone());
    call.try_all(VICTIM, &route, FROM, &to);
    call.try_all("sip:bob@10.0.0.9:5060", &route, FROM, &to);
    call.try_all("sip:bob@10.0.0.3:5060;maddr=10.0.0.9", &route, FROM, &to);
    call.try_all("sip:bob@victim.test", &route, FROM, &to);
}

#[test]
fn a_token_of_a_call_is_worth_nothing_with_other_tags() {
    let mut call = honest();
    let (route, to) = (call.route.clone(), call.to.clone());
    for uri in [BOB, VICTIM] {
        call.try_all(uri, &route, FROM, "<sip:bob@10.0.0.1>;tag=made-up");
        call.try_all(uri, &route, "<sip:stranger@elsewhere.test>;tag=made-up", &to);
        call.try_all(uri, &route, "<sip:s@elsewhere.test>;tag=x", "<sip:bob@10.0.0.1>;tag=y");
        call.try_all(uri, &route, "<sip:s@elsewhere.test>", "<sip:bob@10.0.0.1>");
    }
}

#[test]
fn a_token_of_a_call_is_worth_nothing_in_the_other_direction() {
    let mut call = honest();
    let (route, to) = (call.route.clone(), call.to.clone());
    let callees = route_of_request(&call.scene.callee(0).requests[0]);
    // The caller's token with the callee's tags, and the callee's with the caller's.
    call.try_all(VICTIM, &route, &to, FROM);
    call.try_all(VICTIM, &callees, FROM, &to);
    call.try_all(BOB, &callees, FROM, &to);
    call.try_all(VICTIM, &callees, &to, FROM);
}

#[test]
fn nothing_is_added_behind_a_token() {
    let mut call = honest();
    let (route, to) = (call.route.clone(), call.to.clone());
    let callees = route_of_request(&call.scene.callee(0).requests[0]);
    for added in ["<sip:10.0.0.9;lr>", "<sip:10.0.0.9>", "<sip:victim.test;lr>"] {
        call.try_all(BOB, &format!("{route}, {added}"), FROM, &to);
        call.try_all("sip:stranger@10.0.0.8:5060", &format!("{callees}, {added}"), &to, FROM);
        // Before our own: then it is no Route of ours that comes first, and the Request-URI is judged.
        call.try_all(BOB, &format!("{added}, {route}"), FROM, &to);
    }
    // A Route of ours without a token, last: it would be the one that is looked at.
    call.try_all(VICTIM, &format!("{route}, <sip:10.0.0.1;lr>"), FROM, &to);
}

#[test]
fn no_certificate_is_forged() {
    let mut call = honest();
    let (route, to) = (call.route.clone(), call.to.clone());
    // The token's own proofs, in the place of a certificate.
    let token = route.split(";t=s").nth(1).unwrap();
    for proof in [&token[..13], &token[13..26], "aaaaaaaaaaaaa"] {
        call.try_all(&format!("sip:x@10.0.0.9;bt={proof}"), &route, FROM, &to);
        call.try_all(&format!("sip:x@10.0.0.9;bt={proof}0-0a000009-13c4"), &route, FROM, &to);
        call.try_all(
            &format!("sip:bob@10.0.0.3:5060;bt={proof}0-0a000009-13c4"),
            &route,
            FROM,
            "<sip:b@b>;tag=x",
        );
    }
}

/// Toll fraud: a call that was let through to one number is no way to another one at the same gateway.
#[test]
fn a_token_of_a_call_reaches_no_other_number_at_the_same_gateway() {
    let mut call = honest();
    let (route, to) = (call.route.clone(), call.to.clone());
    for uri in
        ["sip:+4990012345@10.0.0.3:5060", "sip:bob@10.0.0.3:5061", "sip:10.0.0.3:5060", "tel:+4990012345"]
    {
        call.try_all(uri, &route, FROM, &to);
    }
}

/// The addresses that a stranger writes into its request lead only to the stranger.
#[test]
fn a_callers_contact_and_record_route_lead_to_no_third_host() {
    for (contact, lines) in [
        ("<sip:x@10.0.0.9:5060>", ""),
        ("<sip:x@victim.test>", ""),
        ("<sip:x@10.0.0.8;maddr=10.0.0.9>", ""),
        ("<sip:x@10.0.0.8:5060>", "Record-Route: <sip:10.0.0.9;lr>\r\n"),
        ("<sip:x@10.0.0.8:5060>", "Record-Route: <sip:10.0.0.9>\r\n"),
        ("<sip:x@10.0.0.9:5060>", "Record-Route: <sip:victim.test;lr>\r\n"),
        ("<sip:x@10.0.0.9:5060>", "Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bK-behind\r\n"),
        ("<sip:x@example.test>", ""),
        ("<sip:x@example.test:5060>", ""),
        ("<sip:example.test>", ""),
        ("<sip:x@10.0.0.1>", ""),
        ("<sip:10.0.0.1:5060>", ""),
    ] {
        let mut call = call(contact, lines);
        call.scene.run(1_000);
        let callee = call.scene.callees[0];
        call.scene.world.act(callee, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
        call.scene.run(2_000);
        assert_eq!(call.victim.received(&call.scene), [""; 0], "{contact} {lines}");
        let bye = call.stranger.last(&call.scene, "BYE ");
        assert!(bye.contains("Call-ID: c\r\n"), "the caller gets it: {bye}");
    }
}

/// A GRUU is looked up by us (RFC 5627 §6.1), and its name is not asked for in DNS: neither as it is, nor when the
/// callee leaves out what makes it one.
#[test]
fn a_gruu_of_ours_leads_to_no_other_service_of_our_host() {
    for target in ["sip:x@example.test:5060;gr=1", "sip:x@example.test:5060"] {
        let mut call = call("<sip:x@example.test:5060;gr=1>", "");
        call.scene.run(1_000);
        let callee = call.scene.callees[0];
        call.scene.world.act(callee, move |phone: &mut Phone, now, out| {
            phone.calls[0].target = target.into();
            phone.hang_up(now, 0, out);
        });
        call.scene.run(2_000);
        assert_eq!(call.victim.received(&call.scene), [""; 0], "{target}");
    }
}

/// A call of a trusted gateway, which answers at another address than it calls from.
#[test]
fn the_contact_of_a_trusted_caller_is_followed() {
    let mut settings = server::settings(1);
    settings.trust.networks = vec!["10.0.0.8".parse().unwrap()];
    let mut call = call_at(settings, "<sip:x@10.0.0.9:5060>", "");
    call.scene.run(1_000);
    let callee = call.scene.callees[0];
    call.scene.world.act(callee, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
    call.scene.run(2_000);
    let bye = call.victim.last(&call.scene, "BYE ");
    assert!(bye.contains("Call-ID: c\r\n"), "{bye}");
}

/// A registered phone answers with a Contact elsewhere: requests of its caller reach the phone only.
#[test]
fn a_callees_contact_and_record_route_lead_to_no_third_host() {
    for (contact, above) in [
        ("<sip:x@10.0.0.9:5060>", ""),
        ("<sip:x@victim.test>", ""),
        ("<sip:bob@10.0.0.3:5060>", "<sip:10.0.0.9;lr>"),
        ("<sip:bob@10.0.0.3:5060>", "<sip:victim.test;lr>"),
    ] {
        let server = accounts::server()
            .with_dns(DnsQuery::A("victim.test".into()), vec![DnsData::Address(address(9).ip())]);
        let mut scene = Scene::build(1, server, vec![bob()]);
        accounts::register(&mut scene, "secret");
        let victim = Peer::new(&mut scene, 9);
        let mut stranger = Peer::new(&mut scene, 8);
        // From here on the test speaks for the phone.
        let phone = Peer::new(&mut scene, 3);
        let invite = Raw {
            method: "INVITE",
            uri: "sip:bob@example.test",
            from: FROM,
            to: "<sip:bob@example.test>",
            call_id: "c",
            contact: "<sip:stranger@10.0.0.8>",
            ..Raw::default()
        };
        stranger.send(&mut scene, invite);
        let request = phone.last(&scene, "INVITE");
        phone.respond(&mut scene, &request, "200 OK", "b", above, &format!("Contact: {contact}\r\n"));
        let answer = stranger.last(&scene, "SIP/2.0 200");
        let (uri, route) = (crate::raw::contact(&answer), route_of_response(&answer));
        for method in ["ACK", "BYE"] {
            let raw = Raw {
                method,
                uri: &uri,
                route: &route,
                from: FROM,
                to: "<sip:bob@example.test>;tag=b",
                call_id: "c",
                ..Raw::default()
            };
            stranger.send(&mut scene, raw);
            assert_eq!(victim.received(&scene), [""; 0], "{method} to {contact} by {route}");
            phone.last(&scene, method);
        }
    }
}

/// The same by a refresh of the target, from either side and in requests and responses.
#[test]
fn a_refreshed_contact_leads_to_no_third_host() {
    let mut scene = Scene::new(1, |_| targets(&[&["sip:bob@10.0.0.3:5060"]]), vec![]);
    let victim = Peer::new(&mut scene, 9);
    let (mut alice, mut bob) = (Peer::new(&mut scene, 8), Peer::new(&mut scene, 3));
    let invite = Raw {
        method: "INVITE",
        uri: "sip:bob@10.0.0.1",
        from: FROM,
        to: "<sip:bob@10.0.0.1>",
        call_id: "c",
        contact: "<sip:stranger@10.0.0.8:5060>",
        ..Raw::default()
    };
    alice.send(&mut scene, invite);
    let request = bob.last(&scene, "INVITE");
    bob.respond(&mut scene, &request, "200 OK", "b", "", "Contact: <sip:bob@10.0.0.3:5060>\r\n");
    let answer = alice.last(&scene, "SIP/2.0 200");
    let (to, elsewhere) = ("<sip:bob@10.0.0.1>;tag=b", "<sip:x@10.0.0.9:5060>");
    let (by_alice, by_bob) = (route_of_response(&answer), route_of_request(&request));
    let update = Raw { method: "UPDATE", call_id: "c", contact: elsewhere, ..Raw::default() };
    alice.send(&mut scene, Raw { uri: BOB, route: &by_alice, from: FROM, to, ..update });
    let request = bob.last(&scene, "UPDATE");
    bob.respond(&mut scene, &request, "200 OK", "b", "", &format!("Contact: {elsewhere}\r\n"));
    let of_bob = crate::raw::contact(&alice.last(&scene, "SIP/2.0 200"));
    let of_alice = crate::raw::contact(&request);
    let bye = Raw { method: "BYE", call_id: "c", ..Raw::default() };
    alice.send(&mut scene, Raw { uri: &of_bob, route: &by_alice, from: FROM, to, ..bye });
    bob.send(&mut scene, Raw { uri: &of_alice, route: &by_bob, from: to, to: FROM, ..bye });
    assert!(bob.last(&scene, "BYE").starts_with("BYE sip:x@10.0.0.9:5060 SIP/2.0\r\n"));
    assert!(alice.last(&scene, "BYE").starts_with("BYE sip:x@10.0.0.9:5060 SIP/2.0\r\n"));
    assert_eq!(victim.received(&scene), [""; 0]);
}

/// The same where we are the callee: requests of our applications go to the host that called.
#[test]
fn a_callers_contact_and_record_route_do_not_lead_our_own_requests_away() {
    for (contact, lines) in [
        ("<sip:x@10.0.0.9:5060>", ""),
        ("<sip:x@victim.test>", ""),
        ("<sip:x@10.0.0.8:5060>", "Record-Route: <sip:10.0.0.9;lr>\r\n"),
        ("<sip:x@10.0.0.8:5060>", "Record-Route: <sip:victim.test;lr>\r\n"),
    ] {
        let server = agent(1)
            .with_app(answers)
            .with_dns(DnsQuery::A("victim.test".into()), vec![DnsData::Address(address(9).ip())]);
        let mut scene = Scene::build(1, server, vec![]);
        let victim = Peer::new(&mut scene, 9);
        let mut stranger = Peer::new(&mut scene, 8);
        let invite = Raw {
            method: "INVITE",
            uri: "sip:100@10.0.0.1",
            from: FROM,
            to: "<sip:100@10.0.0.1>",
            call_id: "c",
            contact,
            lines,
            ..Raw::default()
        };
        stranger.send(&mut scene, invite);
        let to = crate::raw::header(&stranger.last(&scene, "SIP/2.0 200"), "To");
        stranger.send_copy(&mut scene, Raw { method: "ACK", to: &to, ..invite });
        let ended = scene.server().events.iter().find_map(|event| match event {
            SessionEvent::Invited { session, .. } => Some(*session),
            _ => None,
        });
        scene.world.act(scene.server, |server: &mut Server, now, out| {
            server
                .command(now, out, |endpoint, out| endpoint.sessions(now, out).hang_up(ended.unwrap(), None));
        });
        scene.run(60_000);
        assert_eq!(victim.received(&scene), [""; 0], "{contact} {lines}");
        stranger.last(&scene, "BYE");
    }
}

/// And where we place the call to a phone behind a NAT or on a connection.
#[test]
fn a_callees_record_route_does_not_lead_our_own_requests_away() {
    for above in ["<sip:10.0.0.9;lr>", "<sip:victim.test;lr>"] {
        let server =
            agent(1).with_dns(DnsQuery::A("victim.test".into()), vec![DnsData::Address(address(9).ip())]);
        let mut scene = Scene::build(1, server, vec![]);
        let victim = Peer::new(&mut scene, 9);
        let phone = Peer::new(&mut scene, 3);
        let session = scene.world.act(scene.server, |server: &mut Server, now, out| {
            let (local, remote) = (crate::SERVER, address(3));
            let received = Received { transport: router::Transport::Udp, local, remote, flow: None };
            let invite = Invite { received: Some(received), ..invite_to("sip:bob@192.168.1.3") };
            server.command(now, out, |endpoint, out| endpoint.sessions(now, out).invite(invite)).unwrap()
        });
        scene.run(100);
        let request = phone.last(&scene, "INVITE");
        phone.respond(&mut scene, &request, "200 OK", "b", above, "Contact: <sip:bob@192.168.1.3>\r\n");
        phone.last(&scene, "ACK");
        scene.world.act(scene.server, |server: &mut Server, now, out| {
            server.command(now, out, |endpoint, out| endpoint.sessions(now, out).hang_up(session, None));
        });
        scene.run(60_000);
        phone.last(&scene, "BYE");
        assert_eq!(victim.received(&scene), [""; 0], "{above}");
    }
}
