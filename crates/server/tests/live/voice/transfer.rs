//! Transfers: a document's, and those that the two sides of a connection ask for.

use sip::wire::{Header, Message};

use super::callee::Callee;
use super::dial::{Documents, Scene};
use crate::call::Dialog;
use crate::phone::{Phone, text};
use crate::until;

#[test]
fn a_document_transfers_its_caller_and_gets_the_result() {
    for (answer, code) in [("202 Accepted", "202"), ("603 Decline", "603")] {
        let mut scene = Scene::new(&[
            ("/", "<Response><Refer action='/referred'><Sip>sip:carol@example.test</Sip></Refer></Response>"),
            ("/referred", "<Response><Hangup/></Response>"),
        ]);
        scene.caller.call();
        let refer = scene.caller.phone.expect_request("REFER");
        assert_eq!(text(refer.header(Header::ReferTo)), "<sip:carol@example.test>");
        scene.caller.phone.reply(&refer, answer, "", "");
        let form = until("the transfer is told", || scene.app.asked_for("/referred"));
        assert_eq!(form["ReferSipResponseCode"], code);
        scene.caller.hung_up();
        scene.ends(1);
    }
}

const DIAL: Documents = &[
    ("/", "<Response><Dial action='/dialed' referUrl='/transfer'><Client>bob</Client></Dial></Response>"),
    ("/transfer", "<Response><Dial><Client>carol</Client></Dial></Response>"),
    ("/dialed", "<Response><Pause length='600'/></Response>"),
];

/// A REFER within a dialog, and its answer.
#[track_caller]
fn refer(phone: &mut Phone, dialog: &mut Dialog, to: &str) -> Message {
    dialog.cseq += 1;
    let mut ask = dialog.ask("REFER", dialog.cseq);
    ask.more.push_str(&format!("Contact: <{}>\r\nRefer-To: <{to}>\r\n", phone.contact()));
    phone.request(ask)
}

/// The NOTIFYs of a transfer, until it is over: the last status.
#[track_caller]
fn progress(phone: &mut Phone) -> String {
    loop {
        let notify = phone.expect_request("NOTIFY");
        phone.reply(&notify, "200 OK", "", "");
        if text(notify.header(Header::SubscriptionState)).starts_with("terminated") {
            return text(Some(notify.body()));
        }
    }
}

#[test]
fn a_callee_transfers_its_caller_as_the_document_directs() {
    let mut scene = Scene::new(DIAL);
    let mut bob = Callee::registered(&scene.place, "bob");
    let mut carol = Callee::registered(&scene.place, "carol");
    let (mut dialog, to_caller) = scene.caller.call();
    let (mut leg, _) = bob.pick_up();
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    assert_eq!(refer(&mut bob.line.phone, &mut leg, "sip:carol@example.test").status(), 202);
    assert_eq!(progress(&mut bob.line.phone), "SIP/2.0 200 OK\r\n");
    bob.hung_up();
    let form = until("the application is asked", || scene.app.asked_for("/transfer"));
    for (name, value) in [
        ("ReferTransferTarget", "sip:carol@example.test"),
        ("Transferor", "client:bob"),
        ("Transferee", "sipp"),
    ] {
        assert_eq!(form[name], value, "{name}");
    }
    carol.pick_up();
    scene.caller.is_heard(0x33, to_caller, &carol.line);
    scene.hang_up(&mut dialog);
    carol.hung_up();
    scene.ends(3);
}

#[test]
fn a_caller_transfers_its_callee_which_becomes_a_separate_call() {
    let mut scene = Scene::new(DIAL);
    let mut bob = Callee::registered(&scene.place, "bob");
    let mut carol = Callee::registered(&scene.place, "carol");
    let (mut dialog, to_caller) = scene.caller.call();
    let (mut leg, to_bob) = bob.pick_up();
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    assert_eq!(refer(&mut scene.caller.phone, &mut dialog, "sip:carol@example.test").status(), 202);
    assert_eq!(progress(&mut scene.caller.phone), "SIP/2.0 200 OK\r\n");
    let form = until("the application is asked", || scene.app.asked_for("/transfer"));
    assert_eq!((&*form["Transferor"], &*form["Transferee"]), ("sipp", "client:bob"));
    assert_eq!(scene.dialed()["DialCallStatus"], "completed");
    scene.hang_up(&mut dialog);
    carol.pick_up();
    bob.line.is_heard(0x22, to_bob, &carol.line);
    assert_eq!(bob.line.phone.within(&mut leg, "BYE").status(), 200);
    carol.hung_up();
    scene.ends(3);
}

#[test]
fn a_transfer_without_a_refer_url_or_with_replaces_is_refused() {
    let mut scene = Scene::new(&[("/", "<Response><Dial><Client>bob</Client></Dial></Response>")]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, to_caller) = scene.caller.call();
    let (mut leg, _) = bob.pick_up();
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    for (to, status) in
        [("sip:carol@example.test", 603), ("sip:carol@example.test?Replaces=1%3Bto-tag%3D2", 501)]
    {
        assert_eq!(refer(&mut bob.line.phone, &mut leg, to).status(), status, "{to}");
    }
    scene.caller.is_heard(0x33, to_caller, &bob.line);
    scene.hang_up(&mut dialog);
    bob.hung_up();
    scene.ends(2);
}
