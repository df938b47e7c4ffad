//! The stages between an answer and the end of a connection: screening, keys, limits, early sound, and peers
//! beyond us.

use std::net::{SocketAddr, UdpSocket};

use media::events::EventReceiver;
use media::rtp::Packet;
use sip::wire::Header;

use super::app::{App, section};
use super::callee::Callee;
use super::caller::Caller;
use super::dial::Scene;
use super::{nothing_left, sum};
use crate::phone::text;
use crate::place::Place;
use crate::{Deadline, PATIENCE, until};

const WAIT: &str = "<Response><Pause length='600'/></Response>";

#[test]
fn a_screened_callee_hears_a_document_and_is_joined_when_it_accepts() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed'><Client url='/screen'>bob</Client></Dial></Response>"),
        (
            "/screen",
            "<Response><Gather numDigits='1' action='/choice'><Say>a call for you</Say></Gather></Response>",
        ),
        ("/choice", "<Response><Say>yes</Say></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, to_caller) = scene.caller.call();
    let (_, to_bob) = bob.pick_up();
    let form = until("the callee is screened", || scene.app.asked_for("/screen"));
    for (name, value) in [
        ("From", "sipp"),
        ("To", "client:bob"),
        ("Direction", "outbound-dial"),
        ("CallStatus", "in-progress"),
        ("SipHeader_X-Desk", "seven"),
    ] {
        assert_eq!(form[name], value, "{name}");
    }
    assert_eq!(form["ParentCallSid"], scene.app.asked_for("/").unwrap()["CallSid"]);
    // Keys are for the Gather once it is there.
    bob.line.hear(3);
    bob.line.press('1', to_bob);
    until("the caller chooses", || scene.app.asked_for("/choice"));
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    scene.hang_up(&mut dialog);
    bob.hung_up();
    assert_eq!(scene.dialed()["DialCallStatus"], "completed");
    scene.ends(2);
}

#[test]
fn a_screening_document_that_hangs_up_counts_as_a_declined_call() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed'><Client url='/screen'>bob</Client></Dial></Response>"),
        ("/screen", "<Response><Say>no</Say><Hangup/></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    bob.pick_up();
    bob.hung_up();
    assert_eq!(scene.dialed()["DialCallStatus"], "no-answer");
    scene.hang_up(&mut dialog);
    scene.ends(2);
}

#[test]
fn a_callee_that_hangs_up_during_screening_counts_as_declined() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed'><Client url='/screen'>bob</Client></Dial></Response>"),
        ("/screen", "<Response><Say loop='0'>press any key</Say></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    let (mut leg, _) = bob.pick_up();
    bob.line.hear(5);
    assert_eq!(bob.line.phone.within(&mut leg, "BYE").status(), 200);
    assert_eq!(scene.dialed()["DialCallStatus"], "no-answer");
    scene.hang_up(&mut dialog);
    scene.ends(2);
}

/// The next key that comes as an event.
#[track_caller]
fn key(line: &Caller) -> char {
    let deadline = Deadline::after(PATIENCE);
    let mut receiver = EventReceiver::new();
    let mut buffer = [0; 2048];
    while deadline.left().is_some() {
        let Ok((length, _)) = line.rtp.recv_from(&mut buffer) else { continue };
        let packet = Packet::parse(&buffer[..length]).unwrap();
        if packet.payload_type() == 101
            && let Some(digit) = receiver.handle(&packet)
        {
            return digit.to_char();
        }
    }
    panic!("{} hears no key", line.phone.user)
}

#[test]
fn keys_cross_a_connection_and_the_star_ends_it() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed' hangupOnStar='true'><Client>bob</Client></Dial></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, to_caller) = scene.caller.call();
    let (_, to_bob) = bob.pick_up();
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    scene.caller.press('7', to_caller);
    assert_eq!(key(&bob.line), '7');
    bob.line.press('3', to_bob);
    assert_eq!(key(&scene.caller), '3');
    scene.caller.press('*', to_caller);
    bob.hung_up();
    assert_eq!(scene.dialed()["DialCallStatus"], "completed");
    scene.hang_up(&mut dialog);
    scene.ends(2);
}

#[test]
fn a_number_is_sent_its_digits_once_it_answers() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed'><Number sendDigits='w9'>bob</Number></Dial></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    bob.pick_up();
    assert_eq!(key(&bob.line), '9');
    scene.hang_up(&mut dialog);
    bob.hung_up();
    scene.ends(2);
}

#[test]
fn a_connection_lasts_no_longer_than_its_limit() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed' timeLimit='1'><Client>bob</Client></Dial></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    bob.pick_up();
    bob.hung_up();
    let form = scene.dialed();
    assert_eq!((&*form["DialCallStatus"], &*form["DialCallDuration"]), ("completed", "1"));
    scene.hang_up(&mut dialog);
    scene.ends(2);
}

#[test]
fn early_media_of_a_callee_is_heard() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed'><Client>bob</Client></Dial></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (mut dialog, _) = scene.caller.call();
    let invite = bob.invited();
    let to_bob = bob.say_with_sound(&invite, "183 Session Progress");
    bob.line.is_heard(0x22, to_bob, &scene.caller);
    bob.say(&invite, "486 Busy Here");
    bob.line.phone.expect_request("ACK");
    assert_eq!(scene.dialed()["DialCallStatus"], "busy");
    scene.hang_up(&mut dialog);
    scene.ends(2);
}

/// A document whose text has an address of the test's in it.
fn documents(of: String) -> &'static [(&'static str, &'static str)] {
    vec![("/", &*of.leak()), ("/dialed", WAIT)].leak()
}

#[test]
fn a_sip_peer_is_called_at_its_address_with_headers_and_credentials() {
    // The peer's address is known before the document is; the node is not needed for that.
    let elsewhere = Place::new("");
    let mut peer = Callee::new(&elsewhere, "gateway");
    let address = peer.line.phone.link.local();
    let app = App::new(documents(format!(
        "<Response><Dial action='/dialed' callerId='550100'><Sip username='me' password='it'>\
         sip:42@{address}?X-Color=red</Sip></Dial></Response>"
    )));
    let mut scene = Scene::of(app);
    peer.line.phone.server = scene.place.at(sip::transport::Transport::Udp);
    let (mut dialog, to_caller) = scene.caller.call();
    let invite = peer.invited();
    assert_eq!(text(Some(invite.uri())), format!("sip:42@{address}"));
    assert_eq!(text(invite.header_named("X-Color")), "red");
    assert!(text(invite.header(Header::From)).starts_with("<sip:550100@example.test>;tag="));
    let challenge = "WWW-Authenticate: Digest realm=\"peer\", nonce=\"n\", algorithm=MD5\r\n";
    peer.line.phone.reply(&invite, "401 Unauthorized", "1", challenge);
    peer.line.phone.expect_request("ACK");
    let invite = peer.invited();
    let proof = text(invite.header(Header::Authorization));
    assert!(proof.contains("username=\"me\"") && proof.contains("realm=\"peer\""), "{proof}");
    peer.take(&invite);
    scene.caller.is_heard(0x11, to_caller, &peer.line);
    scene.hang_up(&mut dialog);
    peer.hung_up();
    scene.ends(2);
}

/// Otherwise an application, or an attacker who writes into its documents, could call with the number of a
/// bank.
#[test]
fn a_dial_with_a_caller_id_of_another_account_places_no_call() {
    let elsewhere = Place::new("");
    let peer = Callee::new(&elsewhere, "gateway");
    let address = peer.line.phone.link.local();
    let app = App::new(documents(format!(
        "<Response><Dial action='/dialed' callerId='+4930901820'><Sip>sip:42@{address}</Sip></Dial></Response>"
    )));
    let mut scene = Scene::of(app);
    let (mut dialog, _) = scene.caller.call();
    let dialed = scene.dialed();
    assert_eq!(dialed["DialCallStatus"], "failed");
    scene.hang_up(&mut dialog);
    scene.ends(1);
}

#[test]
fn a_dial_to_an_unreachable_peer_fails() {
    let unused = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = unused.local_addr().unwrap();
    let app = App::new(documents(format!(
        "<Response><Dial action='/dialed' timeout='1'><Sip>sip:42@{address}</Sip></Dial></Response>"
    )));
    let mut scene = Scene::of(app);
    let (mut dialog, _) = scene.caller.call();
    assert_eq!(scene.dialed()["DialCallStatus"], "no-answer");
    scene.hang_up(&mut dialog);
    drop(unused);
    // The INVITE that had no answer is given up after 64*T1.
    until("the call is over", || (sum(&scene.node, |shard| shard.voice.calls) == 0).then_some(()));
    scene.node.stop();
}

#[test]
fn an_application_may_call_another_number_of_ours_that_is_closed_to_strangers() {
    let app = App::new(&[
        ("/", "<Response><Dial action='/dialed'>5678</Dial></Response>"),
        ("/other", "<Response><Say>this is the other number</Say><Pause length='1'/></Response>"),
        ("/dialed", WAIT),
    ]);
    let voice = format!(
        "{0}numbers = [{{ number = \"1234\", url = \"http://{1}/\" }}, {{ number = \"5678\", url = \"http://{1}/other\" }}]\n",
        section(),
        app.address
    );
    let place = Place::new(&voice);
    let mut caller = Caller::new(&place);
    // A trunk, which reaches numbers that are closed.
    let place = place.with_route("trunk", caller.phone.link.local());
    let mut node = place.start();
    let mut stranger = Caller::new(&place);
    let sdp = stranger.sdp("8", "sendrecv");
    let refused = stranger.invite(sdp);
    assert_eq!(stranger.phone.outcome(&refused).status(), 403);
    let (mut dialog, _) = caller.call();
    let form = until("the other number is called", || app.asked_for("/other"));
    assert_eq!((&*form["From"], &*form["To"], &*form["Direction"]), ("sipp", "5678", "inbound"));
    caller.hear(10);
    let form = until("the Dial is over", || app.asked_for("/dialed"));
    assert_eq!(form["DialCallStatus"], "completed");
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 3);
    node.stop();
}

#[test]
fn an_application_that_calls_itself_is_ended() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed' answerOnBridge='true'>1234</Dial></Response>"),
        ("/dialed", "<Response><Hangup/></Response>"),
    ]);
    let sdp = scene.caller.sdp("8", "sendrecv");
    let invite = scene.caller.invite_over(sdp, 3);
    let form = scene.dialed();
    assert_eq!((&*form["DialCallStatus"], &*form["DialSipResponseCode"]), ("failed", "483"));
    scene.caller.phone.answered(&invite);
    scene.caller.hung_up();
    scene.ends(5);
}

#[test]
fn both_legs_of_a_bridge_are_hung_up_when_the_node_stops() {
    let mut scene = Scene::new(&[
        ("/", "<Response><Dial action='/dialed'><Client>bob</Client></Dial></Response>"),
        ("/dialed", WAIT),
    ]);
    let mut bob = Callee::registered(&scene.place, "bob");
    let (_, to_caller) = scene.caller.call();
    bob.pick_up();
    scene.caller.is_heard(0x11, to_caller, &bob.line);
    scene.node.stop();
    bob.hung_up();
    scene.caller.hung_up();
}
