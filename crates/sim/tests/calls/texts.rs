//! MESSAGE outside of dialogs that the server itself sends (RFC 3428 §4), each answered once.

use insta::assert_snapshot;
use sim::NodeId;
use sip::session::{Login, MessageOut, SessionEvent};

use crate::phone::Phone;
use crate::server::{self, Server};
use crate::session_world::{assert_at_rest, heard};
use crate::{Scene, address, bob, targets};

fn text_to(target: &str) -> MessageOut {
    MessageOut {
        target: target.into(),
        from: "<sip:1234@10.0.0.9>".into(),
        content_type: "text/plain".into(),
        body: "Watson, come here.".into(),
        ..MessageOut::default()
    }
}

/// A server that sends, besides the one of the scene.
fn add_us(scene: &mut Scene) -> NodeId {
    let mut settings = server::settings(9);
    settings.domains = vec!["belfry.test".into()];
    scene.world.add("us", &[address(9)], Server::new(settings, |_| targets(&[])))
}

fn send(scene: &mut Scene, us: NodeId, text: MessageOut) {
    scene.world.act(us, |server: &mut Server, now, out| {
        server.command(now, out, |endpoint, effects| endpoint.sessions(now, effects).message(text)).unwrap();
    });
}

fn rest(scene: &mut Scene, us: NodeId) {
    scene.rest();
    assert_at_rest(scene.world.node(us));
}

#[test]
fn a_text_is_sent_again_until_it_is_answered_once() {
    let mut scene = Scene::new(1, |_| targets(&[]), vec![bob()]);
    let us = add_us(&mut scene);
    let bob = scene.callees[0];
    scene.world.lose_next(us, bob, "MESSAGE", 2);
    send(&mut scene, us, text_to("sip:bob@10.0.0.3"));
    scene.run(5_000);
    assert_snapshot!(scene.world.ladder(), @r"
        0ms  bob ✗──MESSAGE────── us
      504ms  bob ✗──MESSAGE────── us
    1_504ms  bob ◀──MESSAGE────── us
    1_514ms  bob ──200 MESSAGE──▶ us
    ");
    assert_eq!(heard(scene.world.node(us)), "message 200");
    let bob: &Phone = scene.world.node(scene.callees[0]);
    let [request] = &bob.requests[..] else { panic!("{:?}", bob.requests) };
    assert!(
        request.ends_with("Content-Type: text/plain\r\nContent-Length: 18\r\n\r\nWatson, come here."),
        "{request}"
    );
    // RFC 3428 §4: no Contact.
    assert!(!request.contains("Contact:"), "{request}");
    rest(&mut scene, us);
}

#[test]
fn an_undelivered_text_has_one_end() {
    let mut busy = bob();
    busy.other = 486;
    let mut scene = Scene::new(1, |_| targets(&[]), vec![busy]);
    let us = add_us(&mut scene);
    send(&mut scene, us, text_to("sip:bob@10.0.0.3"));
    scene.run(1_000);
    scene.world.stop(scene.callees[0]);
    send(&mut scene, us, text_to("sip:bob@10.0.0.3"));
    scene.run(40_000);
    send(&mut scene, us, text_to("sip:bob@nowhere.test"));
    send(&mut scene, us, text_to("sip:bob@[2001:db8::1]"));
    assert_eq!(heard(scene.world.node(us)), "message 486, message 408, message 404, message 503");
    for text in [
        text_to("tel:+1"),
        text_to("sip:bob@10.0.0.3 SIP/2.0\r\nX: y"),
        MessageOut { from: "<sip:1234@a.test>\r\nX: y".into(), ..text_to("sip:bob@10.0.0.3") },
        MessageOut { content_type: "text/plain\r\nX: y".into(), ..text_to("sip:bob@10.0.0.3") },
    ] {
        let refused = scene.world.act(us, |server: &mut Server, now, out| {
            server.command(now, out, |endpoint, effects| endpoint.sessions(now, effects).message(text))
        });
        assert!(refused.is_err());
    }
    scene.run(400_000);
    assert_at_rest(scene.world.node(us));
}

/// A server that demands authentication; the request is repeated once, not for ever.
#[test]
fn a_text_authenticates_its_sender() {
    for (password, outcome) in [("secret", "message 200"), ("wrong", "message 407")] {
        let server = Server::new(server::settings(1), |request| match request.caller {
            sip::endpoint::Caller::Stranger => sip::endpoint::Decision::Authenticate,
            sip::endpoint::Caller::Account(_) => targets(&[&["sip:bob@10.0.0.3"]]),
        });
        let mut scene = Scene::build(1, server.with_account("trunk", false), vec![bob()]);
        let us = add_us(&mut scene);
        let login = Some(Login { user: "trunk".into(), password: password.into() });
        let from = "<sip:trunk@example.test>".into();
        send(&mut scene, us, MessageOut { login, from, ..text_to("sip:bob@10.0.0.1") });
        scene.run(3_000);
        assert_eq!(heard(scene.world.node(us)), outcome);
        assert!(scene.world.node::<Server>(us).events.iter().all(is_end));
        rest(&mut scene, us);
    }
}

fn is_end(event: &SessionEvent) -> bool {
    matches!(event, SessionEvent::MessageAnswered { .. })
}
