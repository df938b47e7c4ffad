//! Calls placed, changed and deleted.

use admin::ControlError;
use admin::control::Document;

use crate::world::World;

#[test]
fn a_call_is_placed_with_everything_that_was_asked() {
    let world = World::new();
    let form = "To=sip:bob@example.net&From=%2B1234&Url=http://a/b&Method=get&Timeout=20&SendDigits=12w%23\
        &StatusCallback=http://c/&StatusCallbackEvent=ringing&StatusCallbackEvent=completed&Record=true\
        &SipAuthUsername=u&Password=p&CallerId=77";
    let made = world.make("/Calls.json", form);
    assert_eq!((made["status"].as_str(), made["direction"].as_str()), (Some("queued"), Some("outbound-api")));
    let started = world.plane.started.lock().unwrap()[0].clone();
    assert_eq!(started.call.common.sid, made["sid"].as_str().unwrap());
    assert_eq!(
        started.document,
        Document::Url {
            url: "http://a/b".into(),
            method: "GET".into(),
            fallback_url: String::new(),
            fallback_method: "POST".into()
        }
    );
    assert_eq!((started.timeout, started.send_digits.as_str()), (20, "12w#"));
    assert_eq!(started.record.map(|how| (how.channels, how.trim)), Some((1, false)));
    assert_eq!(started.status_callback.events, ["ringing", "completed"]);
    assert_eq!((started.sip_user.as_str(), started.sip_password.as_str()), ("u", "p"));
    assert_eq!(started.caller_id, "77");
    world.make("/Calls.json", "To=1&From=2&Twiml=%3CResponse/%3E");
    let application = world.make("/Applications.json", "VoiceUrl=http://a/");
    let sid = application["sid"].as_str().unwrap();
    world.make("/Calls.json", &format!("To=1&From=2&ApplicationSid={sid}"));
    let started = world.plane.started.lock().unwrap();
    assert_eq!(started[1].document, Document::Inline("<Response/>".into()));
    assert_eq!(started[2].document, Document::Application(sid.into()));
}

/// Twilio's Call resource: "If both twiml and url are provided then twiml parameter will be ignored."
#[test]
fn a_url_comes_before_an_inline_document_and_an_application_before_both() {
    let world = World::new();
    let both = "To=1&From=2&Url=http://a/b&Twiml=%3CResponse/%3E";
    world.make("/Calls.json", both);
    let application = world.make("/Applications.json", "VoiceUrl=http://a/");
    let sid = application["sid"].as_str().unwrap();
    world.make("/Calls.json", &format!("{both}&ApplicationSid={sid}"));
    let started = world.plane.started.lock().unwrap();
    let Document::Url { url, .. } = &started[0].document else { panic!("{:?}", started[0].document) };
    assert_eq!(url, "http://a/b");
    assert_eq!(started[1].document, Document::Application(sid.into()));
}

#[test]
fn wrong_parameters_place_no_call() {
    let world = World::new();
    let long = format!("To=1&From=2&Url=http://a&SendDigits={}", "W".repeat(257));
    let cases = [
        (&*long, (400, 21206)),
        ("From=1&Url=http://a", (400, 21201)),
        ("To=1&Url=http://a", (400, 21213)),
        ("To=1&From=2", (400, 21205)),
        ("To=1&From=2&Url=nowhere", (400, 21205)),
        ("To=1&From=2&Url=http://a&Method=PUT", (400, 21209)),
        ("To=1&From=2&Url=http://a&SendDigits=x", (400, 21206)),
        ("To=1&From=2&Url=http://a&Timeout=soon", (400, 20400)),
        ("To=1&From=2&Url=http://a&Timeout=0", (400, 20400)),
        ("To=a@b&From=2&Url=http://a", (400, 21211)),
        ("To=1&From=%3Csip:a%3E&Url=http://a", (400, 21212)),
        ("To=1&From=2&ApplicationSid=AP0", (400, 21218)),
        ("To=1&From=2&Url=http://a&StatusCallbackEvent=never", (400, 21626)),
        ("To=1&From=2&Url=http://a&Record=maybe", (400, 20400)),
        ("To=%zz", (400, 20400)),
    ];
    for (form, fault) in cases {
        assert_eq!(world.post("/Calls.json", form).fault(), fault, "{form}");
    }
    assert_eq!(world.get("/Calls.json").json()["total"], 0);
    let long = format!("To=1&From=2&Twiml={}", "x".repeat(40_000));
    assert_eq!(world.post("/Calls.json", &long).fault(), (400, 20400));
    assert_eq!(world.post("/Calls.json", &"x".repeat(200_000)).fault(), (413, 20413));
}

#[test]
fn a_call_the_node_refuses_is_in_the_record_as_failed() {
    let world = World::new();
    *world.plane.refuses.lock().unwrap() = Some(ControlError::Busy);
    assert_eq!(world.post("/Calls.json", "To=1&From=2&Url=http://a").fault(), (429, 20429));
    assert_eq!(world.get("/Calls.json?Status=failed").json()["total"], 1);
    *world.plane.refuses.lock().unwrap() = Some(ControlError::Caller("2".into()));
    assert_eq!(world.post("/Calls.json", "To=1&From=2&Url=http://a").fault(), (400, 21210));
}

#[test]
fn a_live_call_is_changed_and_a_finished_one_is_not() {
    let world = World::new();
    world.insert(&world.call("CA1", 0, "in-progress"));
    world.insert(&world.call("CA2", 0, "completed"));
    for form in [
        "Url=http://b/",
        "Status=completed",
        "Status=canceled",
        "Mute=true",
        "TimeLimit=5",
        "Twiml=<Response/>",
    ] {
        assert_eq!(world.post("/Calls/CA1.json", form).status, 200, "{form}");
        assert_eq!(world.post("/Calls/CA2.json", form).fault(), (400, 21220), "{form}");
    }
    let asked = world.plane.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 6);
    assert!(asked[1].contains("end: Some(Complete)") && asked[2].contains("end: Some(Cancel)"));
    assert!(asked[3].contains("mute: Some(true)"));
    assert_eq!(world.post("/Calls/CA1.json", "").fault(), (400, 20400));
    assert_eq!(world.post("/Calls/CA1.json", "Status=ringing").fault(), (400, 20400));
    // The call has ended, and its row is not yet written.
    for gone in [ControlError::NotLive, ControlError::NotFound] {
        *world.plane.refuses.lock().unwrap() = Some(gone);
        assert_eq!(world.post("/Calls/CA1.json", "Status=canceled").fault(), (400, 21220));
    }
    assert_eq!(world.delete("/Calls/CA1.json").fault(), (409, 20009));
    assert_eq!(world.delete("/Calls/CA2.json").status, 204);
    assert_eq!(world.get("/Calls/CA2.json").fault(), (404, 20404));
}
