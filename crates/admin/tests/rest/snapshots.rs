//! The shapes, field by field, in both forms.

use serde_json::Value;

use crate::world::World;

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

#[test]
fn json_is_as_twilio_writes_it() {
    let world = World::new();
    let mut call = world.call("CA1", 0, "completed");
    call.duration = Some(12);
    call.started_at = Some(call.common.created_at);
    world.insert(&call);
    insta::assert_snapshot!("call_json", pretty(&world.get("/Calls/CA1.json").json()));
    insta::assert_snapshot!("account_json", pretty(&world.get(".json").json()));
    let number = world.make("/IncomingPhoneNumbers.json", "PhoneNumber=1234&VoiceUrl=http://a/");
    insta::assert_snapshot!("number_json", pretty(&number));
    insta::assert_snapshot!("fault_json", pretty(&world.get("/Calls/CA2.json").json()));
    // Twilio's libraries take the one key that is not about paging for the list.
    let list = world.get("/Calls.json").json();
    let paging = [
        "end",
        "first_page_uri",
        "next_page_uri",
        "last_page_uri",
        "page",
        "page_size",
        "previous_page_uri",
        "total",
        "num_pages",
        "start",
        "uri",
    ];
    let keys: Vec<&String> =
        list.as_object().unwrap().keys().filter(|key| !paging.contains(&key.as_str())).collect();
    assert_eq!(keys, ["calls"]);
}

#[test]
fn xml_is_as_restcomm_writes_it() {
    let world = World::new();
    world.insert(&world.call("CA1", 0, "ringing"));
    let base = format!("/restcomm/2012-04-24/Accounts/{}", world.me.sid);
    let list = world.ask("GET", &format!("{base}/Calls?From=alice"), "");
    assert_eq!(list.headers["content-type"], "application/xml; charset=utf-8");
    insta::assert_snapshot!("calls_xml", list.text().replace("><", ">\n<"));
    let fault = world.ask("GET", &format!("{base}/Calls/CA2"), "");
    insta::assert_snapshot!("fault_xml", fault.text().replace("><", ">\n<"));
    let twilio = world.get("/Calls/CA1").text();
    assert!(twilio.contains("<TwilioResponse><Call><Sid>CA1</Sid>"), "{twilio}");
    let json = world.ask("GET", &format!("{base}/Calls.json/CA1"), "").json();
    assert_eq!((json["sid"].as_str(), json["api_version"].as_str()), (Some("CA1"), Some("2012-04-24")));
}
