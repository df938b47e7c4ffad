//! Call records: one for each caller, also under one Call-ID, and ended by the call's own dialog only.

use call::LedgerCounts;

use crate::phone::Phone;
use crate::raw::{Peer, Raw, contact, header, route_of_response};
use crate::{Scene, bob, carol, targets, to_bob};

fn counts(scene: &Scene) -> LedgerCounts {
    scene.server().ledger.counts()
}

/// Alice's call is up; its Call-ID is known to a stranger at host 8.
fn call() -> (Scene, Peer) {
    let mut scene = Scene::new(1, to_bob, vec![bob()]);
    let stranger = Peer::new(&mut scene, 8);
    scene.call("sip:bob@10.0.0.1");
    scene.run(2_000);
    assert_eq!((counts(&scene).live, counts(&scene).answered), (1, 1));
    (scene, stranger)
}

const CALL_ID: &str = "call-alice-1";

#[test]
fn a_strangers_bye_ends_no_record() {
    let (mut scene, mut stranger) = call();
    let route = scene.alice().calls[0].routes[0].clone();
    let (alice, bob) = ("<sip:alice@elsewhere.test>;tag=alice1", "<sip:bob@10.0.0.1>;tag=bob1");
    for (from, to) in [
        ("<sip:x@x>;tag=x", "<sip:bob@10.0.0.1>;tag=y"),
        ("<sip:x@x>;tag=x", "<sip:bob@10.0.0.1>"),
        (alice, "<sip:bob@10.0.0.1>;tag=y"),
        ("<sip:x@x>;tag=x", bob),
        ("<sip:x@x>;tag=x", alice),
    ] {
        for (uri, route) in
            [("sip:bob@10.0.0.1", ""), ("sip:bob@10.0.0.3:5060", &*route), ("sip:x@10.0.0.9", &route)]
        {
            let raw = Raw { method: "BYE", uri, route, from, to, call_id: CALL_ID, ..Raw::default() };
            stranger.send(&mut scene, raw);
            assert_eq!(counts(&scene).live, 1, "{uri} {from} {to}");
        }
    }
    scene.hang_up();
    scene.run(1_000);
    assert_eq!((counts(&scene).live, scene.server().records.len()), (0, 1));
}

/// The callee says that there is no such call, to a BYE that proves nothing: then nothing has ended here either.
#[test]
fn a_bye_that_is_answered_481_ends_no_record() {
    let (mut scene, mut stranger) = call();
    let callee = scene.callees[0];
    scene.world.node_mut::<Phone>(callee).other = 481;
    let raw = Raw {
        method: "BYE",
        uri: "sip:bob@10.0.0.1",
        from: "<sip:alice@elsewhere.test>;tag=alice1",
        to: "<sip:bob@10.0.0.1>;tag=bob1",
        call_id: CALL_ID,
        ..Raw::default()
    };
    stranger.send(&mut scene, raw);
    assert_eq!(counts(&scene).live, 1);
    // RFC 3261 §15.1.1: for a participant the dialog is over all the same.
    scene.hang_up();
    scene.run(1_000);
    assert_eq!(counts(&scene).live, 0);
}

#[test]
fn a_bye_that_finds_no_callee_ends_the_record() {
    let (mut scene, _) = call();
    let callee = scene.callees[0];
    scene.world.stop(callee);
    scene.hang_up();
    scene.run(40_000);
    assert_eq!(counts(&scene).live, 0);
}

#[test]
fn the_callees_bye_ends_the_record() {
    let (mut scene, _) = call();
    let callee = scene.callees[0];
    scene.world.act(callee, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
    scene.run(1_000);
    assert_eq!((counts(&scene).live, scene.server().records[0].code), (0, 200));
}

/// SIPp's built-in uac keeps no Route: the end of its call is seen all the same.
#[test]
fn a_bye_without_a_route_ends_the_record_of_its_dialog() {
    let (mut scene, _) = call();
    scene.world.act(scene.alice, |phone: &mut Phone, now, out| {
        phone.calls[0].routes.clear();
        phone.calls[0].target = "sip:bob@10.0.0.1:5060".into();
        phone.proxy = crate::SERVER;
        phone.hang_up(now, 0, out);
    });
    scene.run(1_000);
    assert_eq!(counts(&scene).live, 0, "{}", scene.world.ladder());
}

#[test]
fn a_second_call_under_a_call_id_has_a_record_of_its_own() {
    let (mut scene, mut stranger) = call();
    let invite = Raw {
        method: "INVITE",
        uri: "sip:bob@10.0.0.1",
        from: "<sip:x@elsewhere.test>;tag=x",
        to: "<sip:bob@10.0.0.1>",
        call_id: CALL_ID,
        contact: "<sip:x@10.0.0.8:5060>",
        ..Raw::default()
    };
    stranger.send(&mut scene, invite);
    assert_eq!((counts(&scene).live, counts(&scene).answered), (2, 1));
    scene.run(1_000);
    assert_eq!((counts(&scene).live, counts(&scene).answered), (2, 2));
    let answer = stranger.last(&scene, "SIP/2.0 200");
    let (uri, route, to) = (contact(&answer), route_of_response(&answer), header(&answer, "To"));
    stranger.send(&mut scene, Raw { method: "BYE", uri: &uri, route: &route, to: &to, ..invite });
    assert_eq!((counts(&scene).live, counts(&scene).answered), (1, 1));
    assert_eq!(&*scene.server().records[0].from, "sip:x@elsewhere.test");
    scene.hang_up();
    scene.run(1_000);
    assert_eq!(counts(&scene).live, 0);
}

/// RFC 3261 §13.2.2.4: two callees answer at once, and the caller ends one of the two dialogs.
#[test]
fn the_end_of_a_second_dialog_of_a_fork_ends_no_record() {
    let both = |_: &_| targets(&[&["sip:bob@10.0.0.3", "sip:carol@10.0.0.4"]]);
    let phones = vec![bob().answering(&[(0, 200)]), carol().answering(&[(0, 180), (3, 200)])];
    let mut scene = Scene::new(1, both, phones);
    scene.call("sip:all@10.0.0.1");
    scene.run(300);
    let second = scene.callees[1];
    scene.world.act(second, |phone: &mut Phone, now, out| phone.hang_up(now, 0, out));
    scene.run(300);
    assert_eq!((counts(&scene).live, counts(&scene).answered), (1, 1), "{}", scene.world.ladder());
    scene.hang_up();
    scene.run(300);
    assert_eq!(counts(&scene).live, 0);
}
