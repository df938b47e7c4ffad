//! Bound numbers, and calls that are looked at and changed while they are up.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use media::rtp::Header;

use crate::call::Dialog;
use crate::place::{Place, Process};
use crate::until;
use crate::voice::app::{App, Form};
use crate::voice::caller::Caller;

use super::client::{Rest, SID, TOKEN};

const WAIT: &str = "<Response><Say>hello</Say><Pause length='600'/></Response>";

/// No number but those that REST binds.
pub(crate) const VOICE: &str = "[voice]\nmedia = \"127.0.0.78\"\nmedia_ports = \"20000-29999\"\nopen = true\n\
    allow_private = true\n";

pub(super) fn place() -> Place {
    Place::new(&format!("{VOICE}auth_token = \"{TOKEN}\"\n"))
}

/// A number that leads to `/` of the application.
fn bind(rest: &Rest, app: &App, more: &str) {
    let form = format!("PhoneNumber=1234&VoiceUrl=http://{}/{more}", app.address);
    let bound = rest.post("/IncomingPhoneNumbers.json", &form);
    assert_eq!(bound["phone_number"], "+1234");
}

/// A running node, and a call to the application's `/`.
struct Live {
    rest: Rest,
    caller: Caller,
    dialog: Dialog,
    remote: SocketAddr,
    form: Form,
    _node: Process,
    place: Place,
}

impl Live {
    fn new(app: &App) -> Live {
        let place = place();
        let node = place.spawn();
        let rest = Rest::new(&place);
        bind(&rest, app, "");
        let mut caller = Caller::new(&place);
        let (dialog, remote) = caller.call();
        let form = until("the application is asked", || app.asked_for("/"));
        Live { rest, caller, dialog, remote, form, _node: node, place }
    }

    /// The call's resource.
    fn path(&self) -> String {
        format!("/Calls/{}.json", self.form["CallSid"])
    }

    /// Says something, a packet for each that comes or does not, and listens whether it comes back.
    fn echoes(&self, sequence: &mut u16) -> bool {
        let mut buffer = [0; 2048];
        (0..12).fold(false, |heard, _| {
            *sequence += 1;
            let timestamp = u32::from(*sequence) * 160;
            let header =
                Header { payload_type: 8, sequence: *sequence, timestamp, ssrc: 7, ..Header::default() };
            let mut packet = Vec::new();
            header.write(&[0x2a; 160], &mut packet);
            self.caller.rtp.send_to(&packet, self.remote).unwrap();
            let came = self.caller.rtp.recv_from(&mut buffer).map_or(0, |(length, _)| length);
            heard || buffer[..came].ends_with(&[0x2a; 80])
        })
    }

    #[track_caller]
    fn until_status(&self, status: &str) -> serde_json::Value {
        until(status, || {
            let answer = self.rest.ask("GET", &self.path(), "");
            (answer.status == 200).then(|| answer.json()).filter(|call| call["status"] == status)
        })
    }

    #[track_caller]
    fn until_nothing_is_left(&self) {
        self.rest.nothing_left();
    }
}

#[test]
fn a_call_to_a_bound_number_is_answered_and_listed() {
    let app = App::new(&[("/", WAIT)]);
    let mut live = Live::new(&app);
    assert_eq!((&*live.form["AccountSid"], &*live.form["To"]), (SID, "+1234"));
    let call = live.until_status("in-progress");
    for (name, value) in [("from", "sipp"), ("to", "+1234"), ("direction", "inbound"), ("account_sid", SID)] {
        assert_eq!(call[name], value, "{name}");
    }
    assert!(call["phone_number_sid"].as_str().is_some_and(|sid| sid.starts_with("PN")), "{call}");
    assert_eq!(call["sip_call_id"], live.dialog.call_id);
    assert_eq!(live.caller.phone.within(&mut live.dialog, "BYE").status(), 200);
    let call = live.until_status("completed");
    assert!(call["end_time"].is_string() && call["duration"].as_str() >= Some("1"), "{call}");
    for (query, count) in [
        ("?Status=completed", 1),
        ("?Status=in-progress", 0),
        ("?From=sipp&To=%2B1234", 1),
        ("?From=somebody", 0),
        ("?EndTime=2000-01-01", 0),
    ] {
        let page = live.rest.get(&format!("/Calls.json{query}"));
        assert_eq!(page["calls"].as_array().unwrap().len(), count, "{query}: {page}");
    }
    live.until_nothing_is_left();
}

/// The console lists it so, and ends it by the SID.
#[test]
fn an_operators_list_of_open_calls_names_a_call_of_an_application_by_its_sid() {
    let app = App::new(&[("/", WAIT)]);
    let mut live = Live::new(&app);
    live.until_status("in-progress");
    let control = live.place.path(".").join(&live.place.config().server.control);
    let mut operator = control::Client::connect(&control).unwrap();
    let listed = operator.ask(&control::Request::OpenCalls { account: None }).unwrap();
    let control::Response::OpenCalls(list) = listed else { panic!("{listed:?}") };
    let [call] = &list.calls[..] else { panic!("{list:?}") };
    assert_eq!(call.sid.as_deref(), Some(&*live.form["CallSid"]));
    assert_eq!((&*call.call_id, &*call.state), (&*live.dialog.call_id, "answered"));
    let end = control::Request::EndCall { call: call.sid.clone().unwrap() };
    assert_eq!(operator.ask(&end).unwrap(), control::Response::Done { rows: 1 });
    let bye = live.caller.phone.expect_request("BYE");
    live.caller.phone.reply(&bye, "200 OK", "", "");
    live.until_status("completed");
    live.until_nothing_is_left();
}

#[test]
fn a_live_call_goes_on_with_another_document() {
    let app = App::new(&[
        ("/", WAIT),
        ("/other", "<Response><Say>another document altogether</Say><Pause length='600'/></Response>"),
    ]);
    let mut live = Live::new(&app);
    live.until_status("in-progress");
    live.rest.post(&live.path(), &format!("Url=http://{}/other&Method=GET", app.address));
    until("the other document is asked for", || app.asked_for("/other"));
    live.caller.hear(10);
    // An inline document ends the call: it has no more verbs.
    live.rest.post(&live.path(), "Twiml=%3CResponse%3E%3CHangup/%3E%3C/Response%3E");
    let bye = live.caller.phone.expect_request("BYE");
    live.caller.phone.reply(&bye, "200 OK", "", "");
    live.until_status("completed");
    live.until_nothing_is_left();
    let over = live.rest.ask("POST", &live.path(), "Status=completed");
    assert_eq!(over.fault(), (400, 21220));
}

#[test]
fn a_live_call_is_completed_but_not_canceled() {
    let app = App::new(&[("/", WAIT)]);
    let mut live = Live::new(&app);
    live.until_status("in-progress");
    assert_eq!(live.rest.ask("POST", &live.path(), "Status=canceled").fault(), (400, 20400));
    assert_eq!(live.rest.ask("POST", &live.path(), "MoveConnectedCallLeg=true&Url=http://a/").status, 501);
    live.rest.post(&live.path(), "Status=completed");
    let bye = live.caller.phone.expect_request("BYE");
    live.caller.phone.reply(&bye, "200 OK", "", "");
    live.until_status("completed");
    live.until_nothing_is_left();
}

#[test]
fn a_call_that_rings_can_be_found_and_canceled() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let app = App { address: silent.local_addr().unwrap(), asked: Arc::default() };
    let place = place();
    let _node = place.spawn();
    let rest = Rest::new(&place);
    bind(&rest, &app, "");
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    let invite = caller.invite(sdp);
    let call = until("the call is in the record", || {
        let page = rest.get("/Calls.json?Status=ringing");
        page["calls"].get(0).cloned()
    });
    let path = format!("/Calls/{}.json", call["sid"].as_str().unwrap());
    assert_eq!(rest.ask("POST", &path, "Url=http://127.0.0.1:9/").fault(), (400, 21220));
    rest.post(&path, "Status=canceled");
    assert!(caller.phone.outcome(&invite).status() >= 400);
    until("the record says so", || (rest.get(&path)["status"] == "canceled").then_some(()));
}

#[test]
fn a_live_call_is_given_a_limit_and_a_callback() {
    let app = App::new(&[("/", WAIT), ("/told", "")]);
    let mut live = Live::new(&app);
    live.until_status("in-progress");
    live.rest.post(&live.path(), &format!("TimeLimit=1&StatusCallback=http://{}/told", app.address));
    let bye = live.caller.phone.expect_request("BYE");
    live.caller.phone.reply(&bye, "200 OK", "", "");
    let callback = until("the callback is told", || app.asked_for("/told"));
    assert_eq!((&*callback["CallStatus"], &callback["CallSid"]), ("completed", &live.form["CallSid"]));
    live.until_status("completed");
}

#[test]
fn a_muted_caller_does_not_hear_its_own_echo() {
    let app = App::new(&[("/", "<Response><Echo/></Response>")]);
    let mut live = Live::new(&app);
    live.until_status("in-progress");
    let mut sequence = 0;
    until("the caller hears the echo", || live.echoes(&mut sequence).then_some(()));
    live.rest.post(&live.path(), "Mute=true");
    live.caller.drain();
    assert!(!live.echoes(&mut sequence));
    live.rest.post(&live.path(), "Mute=false");
    until("the caller hears the echo again", || live.echoes(&mut sequence).then_some(()));
    live.rest.post(&live.path(), "Status=completed");
    live.caller.phone.expect_request("BYE");
}

#[test]
fn headers_of_the_invite_are_sent_to_the_application_and_errors_are_notifications() {
    let app = App::new(&[("/", "<Response><Sing/><Pause length='600'/></Response>")]);
    let place = place();
    let _node = place.spawn();
    let rest = Rest::new(&place);
    bind(&rest, &app, "");
    let mut caller = Caller::new(&place);
    let sdp = caller.sdp("8", "sendrecv");
    let uri: &'static str = format!("sip:+1234@{}", caller.phone.server).leak();
    let mut ask = caller.phone.ask("INVITE", uri);
    ask.more = format!(
        "X-Customer: 42\r\nSubject: no\r\nx-odd : a b\r\nContact: <{}>\r\nContent-Type: application/sdp\r\n",
        caller.phone.contact()
    );
    ask.body = sdp;
    caller.phone.send_invite(&ask);
    let form = until("the application is asked", || app.asked_for("/"));
    assert_eq!((&*form["SipHeader_X-Customer"], &*form["SipHeader_x-odd"]), ("42", "a b"));
    assert_eq!((form.get("SipHeader_Subject"), &form["SipCallId"]), (None, &ask.call_id));
    let path = format!("/Calls/{}/Notifications.json", form["CallSid"]);
    let noted = until("the mistake is noted", || {
        let answer = rest.ask("GET", &path, "");
        let notes = (answer.status == 200).then(|| answer.json()["notifications"].clone())?;
        (!notes.as_array()?.is_empty()).then(|| notes[0].clone())
    });
    assert!(noted["message_text"].as_str().unwrap().contains("Sing"), "{noted}");
    assert_eq!(noted["error_code"], "12200", "{noted}");
}

#[test]
fn missing_calls_conferences_recordings_and_queues_are_404() {
    let place = place();
    let _node = place.spawn();
    let rest = Rest::new(&place);
    let conference = "CF00000000000000000000000000000001";
    let call = "CA00000000000000000000000000000001";
    for path in [
        format!("/Calls/{call}.json"),
        format!("/Conferences/{conference}.json"),
        format!("/Conferences/{conference}/Participants.json"),
        format!("/Conferences/{conference}/Participants/{call}.json"),
        "/Recordings/RE00000000000000000000000000000001.wav".to_owned(),
        "/Queues/QU00000000000000000000000000000001/Members.json".to_owned(),
    ] {
        assert_eq!(rest.ask("GET", &path, "").status, 404, "{path}");
    }
    assert_eq!(rest.ask("POST", &format!("/Calls/{call}.json"), "Status=completed").fault(), (404, 20404));
    let kick = rest.ask("DELETE", &format!("/Conferences/{conference}/Participants/{call}.json"), "");
    assert_eq!(kick.fault(), (404, 20404));
}
