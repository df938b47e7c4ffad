//! API keys (Twilio's Key resource): made, listed, renamed and deleted, and what signs in with one.

use serde_json::Value;

use crate::world::World;

/// Makes a key. Its sid and secret.
fn key(world: &World) -> (String, String) {
    let made = world.make("/Keys.json", "FriendlyName=billing");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("sid"), text("secret"))
}

#[test]
fn a_key_shows_its_secret_once_and_is_renamed_and_deleted() {
    let world = World::new();
    let (sid, secret) = key(&world);
    assert!(sid.starts_with("SK") && sid.len() == 34 && secret.len() == 32, "{sid}");
    for (list, name) in [("/Keys.json", "keys"), ("/SigningKeys.json", "signing_keys")] {
        let page = world.get(list).json();
        assert_eq!((&page["total"], page[name][0]["sid"].as_str()), (&Value::from(1), Some(&*sid)));
        assert!(!page.to_string().contains(&secret), "{page}");
    }
    for collection in ["/Keys", "/SigningKeys"] {
        let path = format!("{collection}/{sid}.json");
        let found = world.get(&path).json();
        let mut fields: Vec<&String> = found.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(fields, ["date_created", "date_updated", "friendly_name", "sid"]);
        assert_eq!(world.post(&path, "FriendlyName=invoices").json()["friendly_name"], "invoices");
        // The figure of Twilio's documentation: 64 characters.
        assert_eq!(world.post(&path, &format!("FriendlyName={}", "x".repeat(65))).fault(), (400, 20400));
    }
    let path = format!("/Keys/{sid}.json");
    assert_eq!((world.delete(&path).status, world.delete(&path).fault()), (204, (404, 20404)));
    assert_eq!(world.get(&path).fault(), (404, 20404));
    // The changes are in the audit log, and what was refused is no change.
    let me = &world.me.sid;
    let audited = ["AddKey", "SetKey", "SetKey", "RemoveKey"].map(|action| format!("{me} {action} {sid}"));
    assert_eq!(*world.plane.asked.lock().unwrap(), audited);
}

#[test]
fn a_key_signs_in_with_its_secret_until_it_is_deleted() {
    let world = World::new();
    let (sid, secret) = key(&world);
    let calls = world.path("/Calls.json");
    assert_eq!(world.send_as((&sid, &secret), "GET", &calls, "").status, 200);
    let place = "To=1&From=2&Url=http://a/";
    assert_eq!(world.send_as((&sid, &secret), "POST", &calls, place).status, 201);
    for (name, secret) in [
        (&*sid, "wrong"),
        (&*sid, ""),
        (&*sid, &*world.me.token),
        (&*world.me.sid, &*secret),
        ("SK00000000000000000000000000000000", &*secret),
    ] {
        assert_eq!(world.send_as((name, secret), "GET", &calls, "").fault(), (401, 20003), "{name}");
    }
    let causes: Vec<&str> =
        world.plane.failed_sign_ins.lock().unwrap().iter().map(|(_, cause)| *cause).collect();
    assert_eq!(causes.len(), 5, "each is counted and told: {causes:?}");
    assert_eq!(world.delete(&format!("/Keys/{sid}.json")).status, 204);
    assert_eq!(world.send_as((&sid, &secret), "GET", &calls, "").fault(), (401, 20003));
}

/// Twilio's error 20003: a standard key does not reach `/Accounts` and `/Keys`. It is for its own account only.
#[test]
fn a_key_manages_neither_accounts_nor_keys_nor_other_accounts() {
    let world = World::new();
    let below = world.ask("POST", "/2010-04-01/Accounts.json", "").json();
    let below = below["sid"].as_str().unwrap();
    let (sid, secret) = key(&world);
    let ask = |method: &str, path: &str| world.send_as((&sid, &secret), method, path, "");
    for (method, path) in [
        ("GET", "/2010-04-01/Accounts.json".to_owned()),
        ("POST", "/2010-04-01/Accounts.json".to_owned()),
        ("GET", world.path(".json")),
        ("POST", world.path(".json")),
        ("GET", world.path("/Keys.json")),
        ("POST", world.path("/Keys.json")),
        ("POST", world.path("/SigningKeys.json")),
        ("DELETE", world.path(&format!("/Keys/{sid}.json"))),
    ] {
        assert_eq!(ask(method, &path).fault(), (401, 20003), "{method} {path}");
    }
    let calls_below = format!("/2010-04-01/Accounts/{below}/Calls.json");
    assert_eq!(world.ask("GET", &calls_below, "").status, 200);
    assert_eq!(ask("GET", &calls_below).fault(), (404, 20404));
    let number = world.make("/IncomingPhoneNumbers.json", "PhoneNumber=1234");
    let number = world.path(&format!("/IncomingPhoneNumbers/{}.json", number["sid"].as_str().unwrap()));
    let give = format!("AccountSid={below}");
    assert_eq!(world.send_as((&sid, &secret), "POST", &number, &give).fault(), (404, 20404));
    // The key of a sub-account ends with it.
    let path = format!("/2010-04-01/Accounts/{below}/Keys.json");
    let made = world.ask("POST", &path, "").json();
    let theirs = (made["sid"].as_str().unwrap(), made["secret"].as_str().unwrap());
    assert_eq!(world.send_as(theirs, "GET", &calls_below, "").status, 200);
    assert_eq!(world.send_as(theirs, "GET", &world.path("/Calls.json"), "").fault(), (404, 20404));
    let account = format!("/2010-04-01/Accounts/{below}.json");
    assert_eq!(world.ask("POST", &account, "Status=suspended").status, 200);
    assert_eq!(world.send_as(theirs, "GET", &calls_below, "").fault(), (403, 20005));
}

#[test]
fn an_account_has_so_many_keys() {
    let world = World::new();
    for _ in 0..admin::limits::MAX_KEYS {
        key(&world);
    }
    assert_eq!(world.post("/Keys.json", "").fault(), (400, 20400));
}
