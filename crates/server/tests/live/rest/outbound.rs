//! Calls that the REST interface asks for: phones ring, answer or do not, and the record and the application hear of it.

use media::rtp::Packet;
use sip::wire::Header;
use store::types::RoutePolicy;

use crate::operator::calls_of;
use crate::phone::text;
use crate::place::Place;
use crate::voice::callee::Callee;
use crate::{Deadline, PATIENCE, until};

use super::client::SID;
use super::site::{Documents, Site};

const WAIT: Documents =
    &[("/wait", "<Response><Say>hello</Say><Pause length='600'/></Response>"), ("/told", "")];
const ALL: &str = "initiated ringing answered completed";
const HELLO: &str = "<Response><Say>hello</Say><Pause length='600'/></Response>";

/// Statuses as the callback has told them.
fn statuses(site: &Site, count: usize) -> Vec<String> {
    site.callbacks("/told", count).iter().map(|form| form["CallStatus"].clone()).collect()
}

#[test]
fn a_phone_that_is_called_rings_answers_and_hears_the_document() {
    let site = Site::new(WAIT);
    let mut bob = Callee::registered(&site.place, "bob");
    let call = site.call(
        "client:bob",
        &[("Url", "{app}/wait"), ("StatusCallback", "{app}/told"), ("StatusCallbackEvent", ALL)],
    );
    let invite = bob.invited();
    assert!(text(invite.header(Header::From)).starts_with("<sip:+4321@example.test>;tag="));
    assert_eq!(text(invite.header(Header::To)), "<sip:bob@example.test>");
    bob.say(&invite, "180 Ringing");
    let row = site.until_status(&call, "ringing");
    assert!(row["end_time"].is_null() && row["duration"].is_null(), "{row}");
    assert_eq!(site.app.asked_for("/wait"), None);
    let (mut dialog, _) = bob.take(&invite);
    let asked = site.asked("/wait");
    for (name, value) in [
        ("CallSid", &*call),
        ("CallStatus", "in-progress"),
        ("Direction", "outbound-api"),
        ("To", "client:bob"),
        ("From", "+4321"),
    ] {
        assert_eq!(asked[name], value, "{name}");
    }
    bob.line.hear(10);
    let row = site.until_status(&call, "in-progress");
    assert_eq!(row["sip_call_id"], dialog.call_id);
    assert_eq!(bob.line.phone.within(&mut dialog, "BYE").status(), 200);
    let row = site.until_status(&call, "completed");
    assert!(row["end_time"].is_string() && row["duration"].as_str() >= Some("1"), "{row}");
    let callbacks = site.callbacks("/told", 4);
    let statuses: Vec<&str> = callbacks.iter().map(|form| &*form["CallStatus"]).collect();
    assert_eq!(statuses, ["initiated", "ringing", "in-progress", "completed"]);
    assert!(callbacks[3].contains_key("CallDuration") && !callbacks[2].contains_key("CallDuration"));
    let page = site.rest.get("/Calls.json?Status=completed&To=client:bob&From=%2B4321");
    assert_eq!(page["calls"][0]["sid"], *call);
    // `belfry calls` has it for the account of the interface and for the one that was called.
    for account in [SID, "bob"] {
        let calls = calls_of(&site.place, account, 1);
        assert_eq!(calls[0].account.as_deref(), Some(SID), "{calls:?}");
        assert_eq!(calls[0].callee.as_deref(), Some("bob@example.test"), "{calls:?}");
        assert_eq!((&*calls[0].call_id, calls[0].code), (&*dialog.call_id, 200));
    }
    site.nothing_left();
}

/// Twilio's 21210; an OutgoingCallerId of the account is what helps.
#[test]
fn a_call_comes_from_a_number_of_its_account() {
    let site = Site::new(WAIT);
    let mut bob = Callee::registered(&site.place, "bob");
    let form = |from: &str| site.form(&[("To", "client:bob"), ("From", from), ("Url", "{app}/wait")]);
    for from in ["+4930901820", "sip:1001@bank.test"] {
        assert_eq!(site.rest.ask("POST", "/Calls.json", &form(from)).fault(), (400, 21210), "{from}");
    }
    site.rest.post("/OutgoingCallerIds.json", "PhoneNumber=%2B4930901820");
    let call = site.rest.post("/Calls.json", &form("+4930901820"));
    let invite = bob.invited();
    assert!(text(invite.header(Header::From)).starts_with("<sip:+4930901820@example.test>;tag="));
    bob.say(&invite, "486 Busy Here");
    bob.line.phone.expect_request("ACK");
    site.until_status(call["sid"].as_str().unwrap(), "busy");
    site.nothing_left();
}

/// As calls of phones do: all the phones that ring for one call are one call of their account.
#[test]
fn a_call_of_an_application_counts_among_the_calls_of_the_account_that_it_rings() {
    let site = Site::new(WAIT);
    let made = site.rest.post("/Clients.json", &format!("Login=dave&Password={}", crate::phone::PASSWORD));
    let limits = format!("/Clients/{}/Limits.json", made["sid"].as_str().unwrap());
    assert_eq!(site.rest.post(&limits, "MaxCalls=1")["max_calls"], "1");
    let mut dave = Callee::registered(&site.place, "dave");
    let mut other = Callee::registered(&site.place, "dave");
    let first = site.call("client:dave", &[("Url", "{app}/wait")]);
    let (invite, other_invite) = (dave.invited(), other.invited());
    dave.say(&invite, "180 Ringing");
    other.say(&other_invite, "180 Ringing");
    site.until_status(&first, "ringing");
    let second = site.call("client:dave", &[("Url", "{app}/wait")]);
    site.until_status(&second, "busy");
    // One of the two has answered: it is that call.
    let (mut dialog, _) = dave.take(&invite);
    other.cancelled(&other_invite);
    let third = site.call("client:dave", &[("Url", "{app}/wait")]);
    site.until_status(&third, "busy");
    assert_eq!(dave.line.phone.within(&mut dialog, "BYE").status(), 200);
    site.until_status(&first, "completed");
    // None of these is counted any more: those that were refused never were.
    for _ in 0..2 {
        let next = site.call("client:dave", &[("Url", "{app}/wait")]);
        let (invite, other_invite) = (dave.invited(), other.invited());
        dave.say(&invite, "486 Busy Here");
        other.say(&other_invite, "486 Busy Here");
        dave.line.phone.expect_request("ACK");
        other.line.phone.expect_request("ACK");
        site.until_status(&next, "busy");
    }
    site.nothing_left();
}

#[test]
fn a_call_of_an_application_meets_the_rate_and_the_denied_destinations_of_its_route() {
    let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for (policy, reason) in [
        (
            RoutePolicy { max_rate: Some(0), ..RoutePolicy::default() },
            "too many calls a second by this route",
        ),
        (
            RoutePolicy { deny: vec!["77*".into()], ..RoutePolicy::default() },
            "the route denies the destination",
        ),
    ] {
        let site = Site::with_policy(WAIT, "77", peer.local_addr().unwrap(), policy);
        let call = site.call("77", &[("Url", "{app}/wait")]);
        site.until_status(&call, "failed");
        let note = site.until_listed("/Notifications.json", "notifications", 1).remove(0);
        assert_eq!((&note["call_sid"], &note["error_code"]), (&call.into(), &"13227".into()));
        let path = format!("/Notifications/{}.json", note["sid"].as_str().unwrap());
        let text = site.rest.get(&path)["message_text"].as_str().unwrap().to_owned();
        assert_eq!(text, format!("the call to 77 was refused: {reason}"));
        site.nothing_left();
    }
    peer.set_nonblocking(true).unwrap();
    assert!(peer.recv(&mut [0; 1]).is_err(), "nothing went there");
}

#[test]
fn an_unanswered_call_ends_with_the_status_of_its_cause() {
    let site = Site::new(WAIT);
    let mut bob = Callee::registered(&site.place, "bob");
    for (answer, expected) in [
        ("486 Busy Here", "busy"),
        ("603 Decline", "busy"),
        ("480 Temporarily Unavailable", "no-answer"),
        ("404 Not Found", "failed"),
        ("500 Server Internal Error", "failed"),
    ] {
        let call = site.call("client:bob", &[("Url", "{app}/wait")]);
        bob.refuse(answer);
        let row = site.until_status(&call, expected);
        assert_eq!(row["duration"], "0", "{answer}");
        let (code, phrase) = answer.split_once(' ').unwrap();
        let response = (row["sip_response_code"].to_string(), row["sip_reason_phrase"].as_str());
        assert_eq!(response, (code.to_owned(), Some(phrase)), "{row}");
    }
    for (to, expected) in [("client:carol", "no-answer"), ("client:nobody", "failed"), ("+999", "failed")] {
        let fields = [("Url", "{app}/wait"), ("StatusCallback", "{app}/told")];
        let call = site.call(to, &fields);
        site.until_status(&call, expected);
    }
    let mut statuses = statuses(&site, 3);
    statuses.sort();
    assert_eq!(statuses, ["failed", "failed", "no-answer"]);
    assert_eq!(site.app.asked_for("/wait"), None);
    site.nothing_left();
}

/// The status callback's `SipResponseCode` is Twilio's; the notification says the same where it is looked for.
#[test]
fn a_call_that_fails_says_how_in_its_resource_callback_and_notification() {
    let site = Site::new(WAIT);
    let mut bob = Callee::registered(&site.place, "bob");
    for (answer, code, error) in
        [("404 Not here any more", "404", "13224"), ("500 Out of order", "500", "32011")]
    {
        let call = site.call("client:bob", &[("Url", "{app}/wait"), ("StatusCallback", "{app}/told")]);
        let invite = bob.invited();
        bob.say(&invite, answer);
        bob.line.phone.expect_request("ACK");
        let row = site.until_status(&call, "failed");
        let call_id = text(invite.call_id());
        assert_eq!(row["sip_call_id"], call_id, "{row}");
        let list = format!("/Calls/{call}/Notifications.json");
        let note = site.until_listed(&list, "notifications", 1).remove(0);
        assert_eq!((&note["error_code"], &note["call_sid"]), (&error.into(), &call.clone().into()));
        let words = note["message_text"].as_str().unwrap();
        assert!(words.contains(answer) && words.contains(&call_id), "{words}");
        let is_its = |form: &&crate::voice::app::Form| form["CallSid"] == call;
        let callback = until("the end is told", || {
            let asked = site.app.asked.lock().unwrap();
            asked.iter().filter(|(path, _)| path == "/told").map(|(_, form)| form).find(is_its).cloned()
        });
        assert_eq!((&*callback["SipResponseCode"], &*callback["SipCallId"]), (code, &*call_id));
    }
    // No INVITE went out: the status is of this node's.
    let call = site.call("client:nobody", &[("Url", "{app}/wait")]);
    let row = site.until_status(&call, "failed");
    assert_eq!(
        (&row["sip_response_code"], row["sip_reason_phrase"].as_str()),
        (&404.into(), Some("Not Found"))
    );
    site.until_listed(&format!("/Calls/{call}/Notifications.json"), "notifications", 1);
    // Busy is no failure.
    let call = site.call("client:bob", &[("Url", "{app}/wait")]);
    bob.refuse("486 Busy Here");
    site.until_status(&call, "busy");
    assert_eq!(site.rest.get(&format!("/Calls/{call}/Notifications.json"))["total"], 0);
    site.nothing_left();
}

#[test]
fn a_leg_of_a_dial_that_fails_says_how() {
    let site = Site::new(&[("/1", "<Response><Dial timeout='20'><Client>bob</Client></Dial></Response>")]);
    let mut bob = Callee::registered(&site.place, "bob");
    let mut caller = crate::voice::talker::Talker::call(&site.place, "1", 0, 0);
    bob.refuse("503 Service Unavailable");
    caller.is_hung_up();
    let child = site.until_listed("/Calls.json?Status=failed", "calls", 1).remove(0);
    assert_eq!(
        (&child["sip_response_code"], child["direction"].as_str()),
        (&503.into(), Some("outbound-dial"))
    );
    let list = format!("/Calls/{}/Notifications.json", child["sid"].as_str().unwrap());
    let note = site.until_listed(&list, "notifications", 1).remove(0);
    assert_eq!(note["error_code"], "32011");
    site.nothing_left();
}

#[test]
fn a_phone_rings_no_longer_than_the_timeout() {
    let site = Site::new(WAIT);
    let mut bob = Callee::registered(&site.place, "bob");
    let call = site.call("client:bob", &[("Url", "{app}/wait"), ("Timeout", "1")]);
    let invite = bob.invited();
    bob.say(&invite, "180 Ringing");
    bob.cancelled(&invite);
    site.until_status(&call, "no-answer");
    site.nothing_left();
}

#[test]
fn a_call_that_rings_is_canceled_however_it_is_ended() {
    let site = Site::new(WAIT);
    let mut bob = Callee::registered(&site.place, "bob");
    for (rings, status) in [(true, "canceled"), (true, "completed"), (false, "canceled")] {
        let call = site.call("client:bob", &[("Url", "{app}/wait"), ("StatusCallback", "{app}/told")]);
        let invite = bob.invited();
        if rings {
            bob.say(&invite, "180 Ringing");
            site.until_status(&call, "ringing");
        } else {
            bob.say(&invite, "100 Trying");
        }
        let again = site.rest.ask("POST", &format!("/Calls/{call}.json"), "Url=http://127.0.0.1:9/");
        assert_eq!(again.fault(), (400, 21220), "no document is performed yet");
        site.change(&call, &[("Status", status)]);
        if !rings {
            // RFC 3261 §9.1: the CANCEL waits for a provisional response.
            bob.say(&invite, "180 Ringing");
        }
        bob.cancelled(&invite);
        site.until_status(&call, "canceled");
    }
    assert_eq!(statuses(&site, 3), ["canceled"; 3]);
    site.nothing_left();
}

#[test]
fn an_answered_call_goes_on_with_another_document_and_is_completed() {
    let site = Site::new(&[("/other", HELLO), ("/told", "")]);
    let mut bob = Callee::registered(&site.place, "bob");
    let twiml = "<Response><Pause length='600'/></Response>";
    let call = site.call("bob", &[("Twiml", twiml), ("StatusCallback", "{app}/told"), ("Timeout", "5")]);
    bob.pick_up();
    site.until_status(&call, "in-progress");
    site.change(&call, &[("Url", "{app}/other"), ("Method", "GET")]);
    assert_eq!(site.asked("/other")["CallSid"], call);
    bob.line.hear(10);
    site.change(&call, &[("Status", "completed")]);
    bob.hung_up();
    site.until_status(&call, "completed");
    assert_eq!(statuses(&site, 1), ["completed"]);
    site.nothing_left();
}

#[test]
fn a_call_runs_its_applications_document_and_reports_its_end() {
    let site = Site::new(&[("/menu", HELLO), ("/told", "")]);
    let mut bob = Callee::registered(&site.place, "bob");
    let fields = [("FriendlyName", "menu"), ("VoiceUrl", "{app}/menu"), ("StatusCallback", "{app}/told")];
    let application = site.post("/Applications.json", &fields);
    let call = site.call("client:bob", &[("ApplicationSid", application["sid"].as_str().unwrap())]);
    let (mut dialog, _) = bob.pick_up();
    assert_eq!(site.asked("/menu")["CallSid"], call);
    bob.line.hear(10);
    assert_eq!(bob.line.phone.within(&mut dialog, "BYE").status(), 200);
    site.until_status(&call, "completed");
    assert_eq!(statuses(&site, 1), ["completed"]);
    site.nothing_left();
}

/// Keys that the phone gets before it hears anything.
#[track_caller]
fn keys_before_words(bob: &Callee) -> Vec<u8> {
    let deadline = Deadline::after(PATIENCE);
    let (mut keys, mut last, mut buffer) = (Vec::new(), None, [0; 2048]);
    while deadline.left().is_some() {
        let Ok((length, _)) = bob.line.rtp.recv_from(&mut buffer) else { continue };
        let packet = Packet::parse(&buffer[..length]).unwrap();
        match packet.payload_type() {
            101 if last != Some(packet.timestamp()) => {
                last = Some(packet.timestamp());
                keys.push(packet.payload()[0]);
            }
            8 if packet.payload().iter().any(|byte| *byte != 0xd5) => return keys,
            _ => {}
        }
    }
    panic!("no words came after {keys:?}")
}

#[test]
fn digits_are_sent_before_the_first_words() {
    let site = Site::new(&[("/words", HELLO)]);
    let mut bob = Callee::registered(&site.place, "bob");
    for to in ["client:bob", "bob"] {
        let call = site.call(to, &[("Url", "{app}/words"), ("SendDigits", "1w2#")]);
        let (mut dialog, _) = bob.pick_up();
        assert_eq!(keys_before_words(&bob), [1, 2, 11], "{to}");
        assert_eq!(bob.line.phone.within(&mut dialog, "BYE").status(), 200);
        site.until_status(&call, "completed");
        bob.line.drain();
    }
    site.nothing_left();
}

#[test]
fn the_first_of_two_phones_to_answer_gets_the_call() {
    let site = Site::new(WAIT);
    let mut desk = Callee::registered(&site.place, "bob");
    let mut mobile = Callee::registered(&site.place, "bob");
    let fields = [("Url", "{app}/wait"), ("StatusCallback", "{app}/told"), ("StatusCallbackEvent", ALL)];
    let call = site.call("client:bob", &fields);
    let invite = desk.invited();
    desk.say(&invite, "180 Ringing");
    let (mut dialog, _) = mobile.pick_up();
    desk.cancelled(&invite);
    mobile.line.hear(10);
    let row = site.until_status(&call, "in-progress");
    assert_eq!(row["sip_call_id"], dialog.call_id);
    assert_eq!(mobile.line.phone.within(&mut dialog, "BYE").status(), 200);
    site.until_status(&call, "completed");
    assert_eq!(statuses(&site, 4), ["initiated", "ringing", "in-progress", "completed"]);
    assert_eq!(site.rest.get("/Calls.json")["total"], 1, "one call");
    site.nothing_left();
}

#[test]
fn a_number_is_reached_by_its_route_and_sees_the_caller_id() {
    let peer = Place::new("");
    let mut trunk = Callee::new(&peer, "trunk");
    let site = Site::with_route(WAIT, Some(("5551234", trunk.line.phone.link.local())));
    let call = site.call("5551234", &[("Url", "{app}/wait"), ("CallerId", "+1999")]);
    let invite = trunk.invited();
    assert_eq!(text(invite.header(Header::From)).split(';').next(), Some("<sip:+1999@example.test>"));
    trunk.line.phone.server = site.place.at(sip::transport::Transport::Udp);
    let (mut dialog, _) = trunk.take(&invite);
    trunk.line.hear(10);
    assert_eq!(trunk.line.phone.within(&mut dialog, "BYE").status(), 200);
    assert_eq!(site.until_status(&call, "completed")["from"], "+4321");
    site.nothing_left();
}

#[test]
fn a_number_of_an_application_of_ours_can_be_called() {
    let site = Site::new(&[("/1", HELLO), ("/wait", HELLO)]);
    let call = site.call("1", &[("Url", "{app}/wait")]);
    assert_eq!(site.asked("/1")["Direction"], "inbound");
    site.until_status(&call, "in-progress");
    site.change(&call, &[("Status", "completed")]);
    site.until_listed("/Calls.json?Status=completed", "calls", 2);
    site.nothing_left();
}

#[test]
fn legs_of_a_dial_are_calls_below_their_callers() {
    let site = Site::new(&[("/1", "<Response><Dial timeout='20'><Client>bob</Client></Dial></Response>")]);
    let mut bob = Callee::registered(&site.place, "bob");
    for (answer, expected) in [(None, "completed"), (Some("486 Busy Here"), "busy")] {
        let mut caller = crate::voice::talker::Talker::call(&site.place, "1", 0, 0);
        let invite = bob.invited();
        bob.say(&invite, "180 Ringing");
        let child = site.until_listed("/Calls.json?Status=ringing&To=client:bob", "calls", 1).remove(0);
        let parent = child["parent_call_sid"].as_str().unwrap();
        assert_eq!(
            (child["direction"].as_str(), child["from"].as_str()),
            (Some("outbound-dial"), Some("sipp"))
        );
        let below = format!("/Calls.json?ParentCallSid={parent}");
        match answer {
            None => {
                let (mut dialog, _) = bob.take(&invite);
                let row = site.until_status(child["sid"].as_str().unwrap(), "in-progress");
                assert_eq!(row["sip_call_id"], dialog.call_id);
                assert_eq!(bob.line.phone.within(&mut dialog, "BYE").status(), 200);
            }
            Some(answer) => {
                bob.say(&invite, answer);
                bob.line.phone.expect_request("ACK");
            }
        }
        caller.is_hung_up();
        let row = site.until_status(child["sid"].as_str().unwrap(), expected);
        assert_eq!(row["duration"] == "0", answer.is_some(), "{row}");
        site.until_status(parent, "completed");
        assert_eq!(site.rest.get(&below)["calls"].as_array().unwrap().len(), 1);
    }
    site.nothing_left();
}
