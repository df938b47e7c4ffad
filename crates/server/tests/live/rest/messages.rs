//! Texts that the REST interface sends, and what its accounts have used.

use sip::transport::Transport;

use crate::phone::{DOMAIN, text};
use crate::voice::talker::Talker;

use super::site::Site;

#[test]
fn a_text_reaches_a_phone_and_its_row_and_callback_say_sent() {
    let site = Site::new(&[("/told", "")]);
    let mut bob = site.place.phone("bob", Transport::Tcp);
    bob.register();
    let fields =
        [("To", "bob"), ("From", "+4321"), ("Body", "Grüße & more"), ("StatusCallback", "{app}/told")];
    let sent = site.post("/Messages.json", &fields);
    assert_eq!((&sent["status"], &sent["direction"]), (&"queued".into(), &"outbound-api".into()));
    let message = bob.expect_request("MESSAGE");
    assert_eq!(message.body(), "Grüße & more".as_bytes());
    assert_eq!(text(message.from().map(|from| from.uri)), format!("sip:+4321@{DOMAIN}"));
    bob.reply(&message, "200 OK", "b", "");
    let callback = site.callbacks("/told", 1).remove(0);
    assert_eq!(
        (&*callback["MessageStatus"], callback["MessageSid"].as_str()),
        ("sent", sent["sid"].as_str().unwrap())
    );
    let listed = site.until_listed("/Messages.json?Status=sent&To=bob", "messages", 1).remove(0);
    assert_eq!((&listed["sid"], &listed["body"]), (&sent["sid"], &"Grüße & more".into()));
    // As RestComm calls them.
    let path = format!("/SMS/Messages/{}.json", sent["sid"].as_str().unwrap());
    assert_eq!(site.rest.get(&path)["status"], "sent");
    site.nothing_left();
}

/// As a call does; Twilio's 21210.
#[test]
fn a_text_comes_from_a_number_of_its_account() {
    let site = Site::new(&[]);
    let mut bob = site.place.phone("bob", Transport::Tcp);
    bob.register();
    let form = |from: &str| site.form(&[("To", "bob"), ("From", from), ("Body", "x")]);
    for from in ["+4930901820", "sip:1001@bank.test"] {
        assert_eq!(site.rest.ask("POST", "/Messages.json", &form(from)).fault(), (400, 21210), "{from}");
    }
    site.until_listed("/Messages.json?Status=failed", "messages", 2);
    site.rest.post("/OutgoingCallerIds.json", "PhoneNumber=%2B4930901820");
    site.rest.post("/Messages.json", &form("+4930901820"));
    let message = bob.expect_request("MESSAGE");
    assert_eq!(text(message.from().map(|from| from.uri)), format!("sip:+4930901820@{DOMAIN}"));
    bob.reply(&message, "200 OK", "b", "");
    site.until_listed("/Messages.json?Status=sent", "messages", 1);
    site.nothing_left();
}

#[test]
fn a_text_fails_for_an_unknown_or_refusing_recipient_and_is_kept_for_an_absent_one() {
    let site = Site::new(&[("/told", "")]);
    let mut bob = site.place.phone("bob", Transport::Tcp);
    bob.register();
    let send = |to: &str| {
        site.post(
            "/Messages.json",
            &[("To", to), ("From", "1"), ("Body", "x"), ("StatusCallback", "{app}/told")],
        )
    };
    let unknown = send("nobody");
    let refused = send("bob");
    let message = bob.expect_request("MESSAGE");
    bob.reply(&message, "415 Unsupported Media Type", "b", "");
    let failed = site.until_listed("/Messages.json?Status=failed", "messages", 2);
    for sent in [unknown, refused] {
        let row = failed.iter().find(|row| row["sid"] == sent["sid"]).unwrap();
        assert!(row["error_code"].is_number() && row["error_message"].is_string(), "{row}");
    }
    send("carol");
    site.until_listed("/Messages.json?Status=sent", "messages", 1);
    let mut carol = site.place.phone("carol", Transport::Tcp);
    carol.register();
    let message = carol.expect_request("MESSAGE");
    carol.reply(&message, "200 OK", "c", "");
    let mut statuses: Vec<_> =
        site.callbacks("/told", 3).iter().map(|form| form["MessageStatus"].clone()).collect();
    statuses.sort();
    assert_eq!(statuses, ["failed", "failed", "sent"]);
    site.nothing_left();
}

#[test]
fn usage_of_calls_and_texts_is_summed_and_errors_are_notifications() {
    let site = Site::new(&[("/1", "<Response><Sing/><Say>hello</Say><Pause length='600'/></Response>")]);
    let mut caller = Talker::call(&site.place, "1", 0, 0);
    let call = site.until_listed("/Calls.json?Status=in-progress", "calls", 1).remove(0);
    let note = site.until_listed("/Notifications.json", "notifications", 1).remove(0);
    assert_eq!((&note["call_sid"], &note["error_code"]), (&call["sid"], &"12200".into()));
    let path = format!("/Notifications/{}.json", note["sid"].as_str().unwrap());
    assert_eq!(site.rest.get(&path)["message_text"], note["message_text"]);
    caller.hang_up();
    site.until_status(call["sid"].as_str().unwrap(), "completed");
    let missed = site.call("client:carol", &[("Twiml", "<Response/>")]);
    site.until_status(&missed, "no-answer");
    site.post("/Messages.json", &[("To", "nobody"), ("From", "1"), ("Body", "x")]);
    site.until_listed("/Messages.json?Status=failed", "messages", 1);
    let used = site.until_listed("/Usage/Records/Today.json", "usage_records", 8);
    let of = |name: &str| used.iter().find(|one| one["category"] == name).unwrap();
    for (name, count) in
        [("calls", "2"), ("calls-inbound", "1"), ("calls-outbound", "1"), ("sms", "1"), ("recordings", "0")]
    {
        assert_eq!(of(name)["count"], count, "{}", of(name));
    }
    assert_eq!((&of("calls-inbound")["usage"], &of("calls-outbound")["usage"]), (&"1".into(), &"0".into()));
    site.nothing_left();
}
