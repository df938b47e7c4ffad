//! One leg: the sound sent to the caller and received from it.

use std::net::TcpListener;
use std::sync::Arc;

use sip::transport::Transport;
use sip::wire::Header;

use super::app::App;
use super::caller::Caller;
use super::{nothing_left, sum};
use crate::phone::text;
use crate::place::Place;
use crate::until;

const ASK: &str = "<Response><Gather numDigits='1' action='say' timeout='20'>\
    <Say>please press a digit of your choice now and then wait for me to say what it was</Say></Gather></Response>";

#[test]
fn the_tutorials_call_is_asked_for_a_digit_and_told_it() {
    let app = App::new(&[
        ("/ask", ASK),
        ("/say", "<Response><Say>the digit was five</Say><Pause length='30'/></Response>"),
    ]);
    let place = Place::new(&app.voice("/ask", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    caller.hear(50);
    caller.press('5', remote);
    let form = until("the digit arrives", || app.asked_for("/say"));
    assert_eq!(form["Digits"], "5");
    for (name, value) in
        [("From", "sipp"), ("To", "+1234"), ("CallStatus", "in-progress"), ("Direction", "inbound")]
    {
        assert_eq!(form[name], value, "{name}");
    }
    assert_eq!(app.asked_for("/ask").unwrap()["CallSid"], form["CallSid"]);
    caller.hear(25);
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_document_that_is_over_ends_the_call() {
    let app = App::new(&[("/", "<Response><Say>good bye</Say></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    caller.hear(10);
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_key_in_an_info_counts_and_stops_the_prompt() {
    let app = App::new(&[("/ask", ASK), ("/say", "<Response><Pause length='60'/></Response>")]);
    let place = Place::new(&app.voice("/ask", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, _) = caller.call();
    caller.hear(10);
    dialog.cseq += 1;
    let mut info = dialog.ask("INFO", dialog.cseq);
    info.more.push_str("Content-Type: application/dtmf-relay\r\n");
    info.body = "Signal=7\r\nDuration=160\r\n";
    assert_eq!(caller.phone.request(info).status(), 200);
    assert_eq!(until("the digit arrives", || app.asked_for("/say"))["Digits"], "7");
    until("the prompt is stopped", || (sum(&node, |shard| shard.voice.prompts) == 0).then_some(()));
    caller.drain();
    let mut buffer = [0; 2048];
    assert!(caller.rtp.recv_from(&mut buffer).is_err(), "a pause is silent");
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_prompt_waits_while_the_call_is_on_hold() {
    let app = App::new(&[("/", "<Response><Say loop='0'>please hold the line</Say></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, _) = caller.call();
    caller.hear(10);
    for direction in ["inactive", "sendrecv"] {
        dialog.cseq += 1;
        let mut again = dialog.ask("INVITE", dialog.cseq);
        again.more = format!("Contact: <{}>\r\nContent-Type: application/sdp\r\n", caller.phone.contact());
        again.body = caller.sdp("8", direction);
        let answer = caller.phone.request(again);
        assert_eq!(answer.status(), 200);
        let described = String::from_utf8_lossy(answer.body()).into_owned();
        assert!(described.contains(&format!("a={direction}\r\n")), "{described}");
        let ack = dialog.ask("ACK", dialog.cseq);
        let ack = caller.phone.write(&ack);
        caller.phone.send(ack.as_bytes());
        if direction == "inactive" {
            caller.drain();
        } else {
            caller.hear(10);
        }
    }
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn an_offer_without_a_common_codec_is_refused_with_a_warning() {
    let app = App::new(&[("/", "<Response><Say>good bye</Say></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("18", "sendrecv");
    let invite = caller.invite(sdp);
    let answer = caller.phone.outcome(&invite);
    assert_eq!(answer.status(), 488);
    let warning = text(answer.header(Header::Warning));
    assert!(warning.starts_with("305 belfry"), "{warning}");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn an_application_without_a_document_is_an_error_of_the_server() {
    let app = App::new(&[]);
    let place = Place::new(&app.voice("/nothing", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    let invite = caller.invite(sdp);
    let answer = caller.phone.outcome(&invite);
    assert_eq!(answer.status(), 500);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_caller_that_cancels_before_the_document_arrives_leaves_no_state() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = App { address: silent.local_addr().unwrap(), asked: Arc::default() };
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    let invite = caller.invite(sdp);
    until("the application is asked", || {
        (sum(&node, |shard| shard.voice.helper_requests) == 1).then_some(())
    });
    caller.gives_up(&invite);
    drop(silent);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_call_is_hung_up_when_the_node_stops() {
    let app = App::new(&[("/", "<Response><Say>a</Say><Pause length='600'/></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    // RFC 3261 §15: no BYE before the ACK, so the node must have it. It speaks from then on.
    until("the call is up", || (sum(&node, |shard| shard.voice.packets_out) > 0).then_some(()));
    node.stop();
    caller.phone.expect_request("BYE");
}

/// A call's dialog is at the shard of its Call-ID, and the connection of its phone at the shard that has accepted it: the BYE goes from one to the other.
#[test]
fn calls_are_hung_up_by_the_connections_of_other_shards_when_the_node_stops() {
    let app = App::new(&[("/", "<Response><Say>a</Say><Pause length='600'/></Response>")]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut callers: Vec<Caller> = (0..8).map(|_| Caller::over(&place, Transport::Tcp)).collect();
    for caller in &mut callers {
        caller.call();
        // So the node has the ACK.
        caller.hear(1);
    }
    node.stop();
    for caller in &mut callers {
        caller.phone.expect_request("BYE");
    }
}
