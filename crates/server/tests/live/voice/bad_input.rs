//! Applications, sounds and callers that do what they should not: each a defined outcome, and nothing left of the call.

use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use server::node::Node;

use super::app::App;
use super::caller::Caller;
use super::noted::{keep_log, noted};
use super::tones::tones;
use super::{nothing_left, sum};
use crate::phone::text;
use crate::place::Place;
use crate::{Deadline, until};

fn page(status: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn xml(verbs: &str) -> Vec<u8> {
    page("200 OK", "text/xml", format!("<Response>{verbs}</Response>").as_bytes())
}

/// Answers instead of a document, and their error codes.
fn faults() -> Vec<(&'static str, u32, Vec<u8>)> {
    let redirect = |to: &str| page(&format!("302 Found\r\nLocation: {to}"), "text/plain", b"");
    vec![
        ("no XML", 12100, page("200 OK", "text/xml", b"Fatal error: no such function")),
        ("another document", 12100, page("200 OK", "text/xml", b"<html><body/></html>")),
        ("an unfinished one", 12100, page("200 OK", "text/xml", b"<Response><Say>good day</Say>")),
        ("a large one", 11750, page("200 OK", "text/xml", &vec![b' '; 300 * 1024])),
        ("an error", 11200, page("500 Internal Server Error", "text/xml", b"<Response/>")),
        ("another kind", 12300, page("200 OK", "application/pdf", b"%PDF-1.4")),
        ("a circle of redirects", 11215, redirect("/bad")),
        ("a redirect out of HTTP", 11100, redirect("ftp://127.0.0.1/")),
        ("half an answer", 11205, b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n<Response>".to_vec()),
    ]
}

#[track_caller]
fn hears_bye(caller: &mut Caller) {
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
}

/// Calls, and is refused as an error of the server's is.
#[track_caller]
fn is_refused(place: &Place, patience: Duration) {
    let mut node = place.start();
    let mut caller = Caller::new(place);
    let sdp = caller.sdp("8", "sendrecv");
    let invite = caller.invite(sdp);
    let answer = caller.phone.wait(Deadline::after(patience), |message| message.status() >= 200).unwrap();
    caller.phone.put_back(answer);
    assert_eq!(caller.phone.outcome(&invite).status(), 500);
    nothing_left(&node, 1);
    node.stop();
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn an_invalid_first_document_refuses_the_call() {
    keep_log();
    for (_, code, answer) in faults() {
        let app = App::raw(vec![("/bad", Some(answer))]);
        is_refused(&Place::new(&app.voice("/bad", "")), SOON);
        noted(code, &app.address.to_string());
    }
}

#[test]
fn the_fallback_url_gets_the_error_and_its_document_runs() {
    for (what, code, answer) in faults() {
        let app = App::raw(vec![("/bad", Some(answer)), ("/fallback", Some(xml("<Say>sorry</Say>")))]);
        let url = format!("url = \"http://{}/bad\"", app.address);
        let with_fallback = format!("{url}, fallback = \"http://{}/fallback\"", app.address);
        let place = Place::new(&app.voice("/bad", "").replace(&url, &with_fallback));
        let mut node = place.start();
        let mut caller = Caller::new(&place);
        caller.call();
        let form = app.asked_for("/fallback").unwrap();
        assert_eq!(form["ErrorCode"], code.to_string(), "{what}");
        let error_url = &form["ErrorUrl"];
        assert!(error_url.ends_with("/bad"), "{what}: {error_url}");
        hears_bye(&mut caller);
        nothing_left(&node, 1);
        node.stop();
    }
}

#[test]
fn an_invalid_later_document_ends_the_call_with_an_error_prompt() {
    keep_log();
    let faults =
        [(12100, page("200 OK", "text/xml", b"nothing")), (11200, page("404 Not Found", "text/xml", b""))];
    for (code, answer) in faults {
        let app =
            App::raw(vec![("/", Some(xml("<Say>a</Say><Redirect>/bad</Redirect>"))), ("/bad", Some(answer))]);
        let place = Place::new(&app.voice("/", ""));
        let mut node = place.start();
        let mut caller = Caller::new(&place);
        caller.call();
        // "a" alone is less than a second.
        caller.hear(100);
        hears_bye(&mut caller);
        noted(code, &format!("{}/bad", app.address));
        nothing_left(&node, 1);
        node.stop();
    }
}

#[test]
fn an_application_that_cannot_be_reached_refuses_the_call() {
    keep_log();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unreachable = App { address: closed, asked: std::sync::Arc::default() };
    is_refused(&Place::new(&unreachable.voice("/", "")), SOON);
    noted(11205, &closed.to_string());
}

#[test]
fn an_application_that_never_answers_times_out() {
    keep_log();
    let app = App::raw(vec![("/", None)]);
    is_refused(&Place::new(&app.voice("/", "")), 3 * SOON);
    noted(11205, &format!("no whole answer from http://{}/ in 15 s", app.address));
}

#[test]
fn an_address_of_a_private_network_is_not_requested_unless_allowed() {
    keep_log();
    let app = App::raw(vec![("/", Some(xml("<Say>never</Say>")))]);
    is_refused(&Place::new(&app.voice("/", "").replace("allow_private = true\n", "")), SOON);
    noted(11205, &format!("http://{}/", app.address));
    assert!(app.asked_for("/").is_none());
}

#[test]
fn documents_that_lead_to_one_another_end() {
    keep_log();
    let app = App::new(&[
        ("/", "<Response><Redirect>/other</Redirect></Response>"),
        ("/other", "<Response><Redirect>/</Redirect></Response>"),
    ]);
    is_refused(&Place::new(&app.voice("/", "")), SOON);
    noted(11215, &app.address.to_string());
    assert!(app.asked.lock().unwrap().len() < 50);
}

#[test]
fn a_missing_action_ends_with_an_error_prompt_and_no_action_repeats_the_document() {
    keep_log();
    for (gather, asked) in
        [("<Gather numDigits='1' action='/gone'/>", "/gone"), ("<Gather numDigits='1'/>", "/")]
    {
        let app = App::raw(vec![("/", Some(xml(gather)))]);
        let place = Place::new(&app.voice("/", ""));
        let mut node = place.start();
        let mut caller = Caller::new(&place);
        let (mut dialog, remote) = caller.call();
        caller.press('5', remote);
        let find = || {
            let asked_for = app.asked.lock().unwrap();
            let has_digit =
                |(path, form): &&(String, super::app::Form)| path == asked && form.contains_key("Digits");
            asked_for.iter().find(has_digit).map(|(_, form)| form["Digits"].clone())
        };
        assert_eq!(until("the digit arrives", find), "5");
        if asked == "/gone" {
            caller.hear(50);
            hears_bye(&mut caller);
            noted(11200, &format!("{}/gone", app.address));
        } else {
            assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
        }
        nothing_left(&node, 1);
        node.stop();
    }
}

#[test]
fn a_sound_that_cannot_be_fetched_is_a_notification_and_the_call_continues() {
    keep_log();
    let large =
        b"HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nContent-Length: 99999999\r\n\r\nRIFF".to_vec();
    for (answer, words) in [
        (page("404 Not Found", "text/plain", b"gone"), "status 404"),
        (page("200 OK", "audio/wav", b"<html>not a sound</html>"), "neither WAV, MP3, FLAC nor OGG Vorbis"),
        (page("200 OK", "audio/wav", b"RIFF\0\0\0\0AVI "), "expected WAVE"),
        (large, "has more than 33554432 bytes"),
    ] {
        let app = App::raw(vec![
            ("/", Some(xml("<Play>/sound</Play><Say>good bye</Say>"))),
            ("/sound", Some(answer)),
        ]);
        let place = Place::new(&app.voice("/", ""));
        let mut node = place.start();
        let mut caller = Caller::new(&place);
        caller.call();
        caller.hear(10);
        hears_bye(&mut caller);
        noted(13420, &format!("http://{}/sound", app.address));
        noted(13420, words);
        nothing_left(&node, 1);
        node.stop();
    }
}

/// When the caller hangs up, seen from outside.
#[derive(Clone, Copy, Debug)]
enum Instant {
    /// Its ACK is on its way.
    AtOnce,
    Hearing,
    /// It has heard the prompt, and there is none any more.
    Silence,
    /// The application is asked, and says nothing.
    Asking,
}

impl Instant {
    fn wait(self, node: &Node, caller: &Caller) {
        match self {
            Instant::AtOnce => {}
            Instant::Hearing => caller.hear(3),
            Instant::Silence => {
                caller.hear(3);
                until("the prompt is over", || (sum(node, |shard| shard.voice.prompts) == 0).then_some(()));
            }
            Instant::Asking => {
                until("the application is asked", || {
                    (sum(node, |shard| shard.voice.helper_requests) == 1).then_some(())
                });
            }
        }
    }
}

#[test]
fn a_caller_may_hang_up_at_every_point_of_every_verb() {
    use Instant::{Asking, AtOnce, Hearing, Silence};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tone.wav"), tones(8_000, 1, &[(440, 500)]).to_bytes()).unwrap();
    let prompts = format!("prompts = \"{}\"\n", folder.path().display());
    let plays: [(&str, &[Instant]); 7] = [
        ("<Say loop='0'>good day</Say>", &[AtOnce, Hearing]),
        ("<Play loop='0'>file:tone.wav</Play>", &[AtOnce, Hearing]),
        ("<Gather timeout='60'><Play>file:tone.wav</Play></Gather>", &[AtOnce, Hearing, Silence]),
        ("<Play>file:tone.wav</Play><Pause length='60'/>", &[AtOnce, Hearing, Silence]),
        ("<Echo/>", &[AtOnce]),
        ("<Play>/never</Play>", &[AtOnce, Asking]),
        ("<Say>a</Say><Redirect>/never</Redirect>", &[AtOnce, Hearing, Asking]),
    ];
    for (verbs, instants) in plays {
        let app = App::raw(vec![("/", Some(xml(verbs))), ("/never", None)]);
        let place = Place::new(&app.voice("/", &prompts));
        let mut node = place.start();
        for (calls, instant) in (1..).zip(instants) {
            let mut caller = Caller::new(&place);
            let (mut dialog, _) = caller.call();
            instant.wait(&node, &caller);
            assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200, "{verbs} {instant:?}");
            // Requests under way to the application end with their time limit.
            if verbs.contains("/never") {
                let calls_left = |shard: &server::shard::ShardStatus| {
                    shard.voice.calls + shard.voice.sessions + shard.voice.ports + shard.voice.prompts
                };
                until("the call is gone", || (sum(&node, calls_left) == 0).then_some(()));
            } else {
                nothing_left(&node, calls);
            }
        }
        node.stop();
    }
}

#[test]
fn a_call_without_media_from_its_peer_is_ended() {
    let app = App::new(&[("/", "<Response><Gather numDigits='1' timeout='600'/></Response>")]);
    let place = Place::new(&app.voice("/", "media_timeout = \"1s\"\n"));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let _ = caller.call();
    let bye = caller.phone.expect_request("BYE");
    let reason = bye.header_named("Reason").map(|reason| text(Some(reason)));
    assert_eq!(reason.as_deref(), Some("Q.850;cause=102;text=\"no media\""));
    caller.phone.reply(&bye, "200 OK", "", "");
    until("the timeout is counted", || (sum(&node, |shard| shard.voice.media_timeouts) == 1).then_some(()));
    nothing_left(&node, 1);
    node.stop();
}

/// The SDP of an INVITE may name any victim.
#[test]
fn an_address_of_the_sdp_that_has_sent_nothing_is_sent_nothing() {
    let victim = UdpSocket::bind("127.0.0.66:0").unwrap();
    victim.set_nonblocking(true).unwrap();
    let app = App::new(&[(
        "/",
        "<Response><Say>One two three four five six seven eight nine ten</Say></Response>",
    )]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let own = caller.sdp("8", "sendrecv");
    let port = victim.local_addr().unwrap().port();
    let own_port = caller.rtp.local_addr().unwrap().port();
    let sdp = own.replace("127.0.0.1", "127.0.0.66").replace(&own_port.to_string(), &port.to_string()).leak();
    let invite = caller.invite(sdp);
    assert_eq!(caller.phone.outcome(&invite).status(), 200);
    caller.phone.answered(&invite);
    hears_bye(&mut caller);
    assert!(victim.recv_from(&mut [0; 2048]).is_err(), "the victim was sent media");
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn rtp_from_an_unknown_source_is_dropped_and_counted() {
    let app = App::new(&[
        ("/", "<Response><Gather numDigits='1' action='/heard' timeout='60'/></Response>"),
        ("/heard", "<Response><Pause length='60'/></Response>"),
    ]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    let dropped = |node: &Node| sum(node, |shard| shard.voice.packets_dropped);
    assert_eq!(dropped(&node), 0);
    // The caller's own socket, for as long as the stranger speaks.
    let own = std::mem::replace(&mut caller.rtp, UdpSocket::bind("127.0.0.9:0").unwrap());
    caller.press('7', remote);
    until("the stranger's packets are dropped", || (dropped(&node) >= 5).then_some(()));
    caller.rtp = own;
    caller.press('5', remote);
    assert_eq!(until("the digit arrives", || app.asked_for("/heard"))["Digits"], "5");
    until("one digit is counted", || (sum(&node, |shard| shard.voice.digits_total) == 1).then_some(()));
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}
