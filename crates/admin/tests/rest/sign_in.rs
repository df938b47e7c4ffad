//! Authentication, and the accounts that each signer may see and change.

use admin::first::ensure_account;
use axum::body::Body;
use axum::http::Request;

use crate::world::{FIRST, World};

#[test]
fn only_the_token_signs_in() {
    let world = World::new();
    let path = world.path(".json");
    assert_eq!(world.ask("GET", &path, "").status, 200);
    for (name, token) in
        [(&*world.me.sid, "wrong"), ("ACnobody", &*world.me.token), ("", ""), (&*world.me.sid, "")]
    {
        let answer = world.send_as((name, token), "GET", &path, "");
        assert_eq!(answer.fault(), (401, 20003));
        assert_eq!(answer.headers["www-authenticate"], "Basic realm=\"belfry\"");
    }
    let bare = world.send(Request::get(path).body(Body::empty()).unwrap());
    assert_eq!(bare.status, 401);
}

/// Twilio's RequestValidator is given the account's token.
#[test]
fn requests_are_signed_with_the_token_unless_another_key_is_set() {
    let world = World::new();
    let path = world.path(".json");
    let stored = || admin_account(&world, FIRST);
    assert_eq!((&*world.me.signing_key, &*stored().signing_key), (&*world.me.token, &*world.me.token));
    // The signing key is not shown while it is the token.
    assert!(world.ask("GET", &path, "").json()["signing_key"].is_null());
    let renewed = admin::first::renew_token(&*world.repository, &*world.plane, FIRST).unwrap();
    assert_eq!((&*renewed.signing_key, &*stored().signing_key), (&*renewed.token, &*renewed.token));
    let ask = |form: &str| world.send_as((FIRST, &renewed.token), "POST", &path, form);
    for wrong in ["short", "with%20blanks%20between", &"x".repeat(257)] {
        assert_eq!(ask(&format!("SigningKey={wrong}")).fault(), (400, 20400), "{wrong}");
    }
    assert_eq!(ask("SigningKey=my-own-signing-key").json()["signing_key"], "my-own-signing-key");
    assert_eq!(stored().signing_key, "my-own-signing-key");
    // The signing key is no token, and a new token leaves it unchanged.
    assert_eq!(world.send_as((FIRST, "my-own-signing-key"), "GET", &path, "").status, 401);
    let again = admin::first::renew_token(&*world.repository, &*world.plane, FIRST).unwrap();
    assert_eq!(&*again.signing_key, "my-own-signing-key");
    let ask = |form: &str| world.send_as((FIRST, &again.token), "POST", &path, form);
    assert_eq!(ask("SigningKey=").fault(), (400, 20400), "the record has no token to sign with");
    let back = ask("SigningKey=&RenewToken=true").json();
    assert_eq!(
        (&back["signing_key"], back["auth_token"].as_str()),
        (&serde_json::Value::Null, Some(&*stored().signing_key))
    );
}

#[test]
fn a_sub_account_is_made_with_a_key_of_its_own_or_the_token() {
    let world = World::new();
    let made = world.ask("POST", "/2010-04-01/Accounts.json", "FriendlyName=Sub").json();
    let stored = admin_account(&world, made["sid"].as_str().unwrap());
    assert_eq!(
        (made["auth_token"].as_str(), &made["signing_key"]),
        (Some(&*stored.signing_key), &serde_json::Value::Null)
    );
    assert!(!format!("{stored:?}").contains(&stored.signing_key), "no secret in a log");
    let made = world.ask("POST", "/2010-04-01/Accounts.json", "SigningKey=my-own-signing-key").json();
    assert_eq!(made["signing_key"], "my-own-signing-key");
}

/// An account of the time when each had a random key: it goes on being its key.
#[test]
fn a_signing_key_of_its_own_survives_a_new_token() {
    let world = World::new();
    let mut account = admin_account(&world, FIRST);
    account.signing_key = "0123456789abcdef0123456789abcdef".into();
    let write = store::rest::RestWrite::Replace(Box::new(store::rest::Resource::row(&account).unwrap()));
    admin::Repository::write(&*world.repository, store::Write::Rest(write)).unwrap();
    let renewed = world.ask("POST", &world.path(".json"), "RenewToken=true").json();
    assert_eq!(renewed["signing_key"], account.signing_key);
}

fn admin_account(world: &World, sid: &str) -> store::rest::types::RestAccount {
    use store::rest::{Kind, Resource as _, RestLoaded, RestRead};
    let read = store::Read::Rest(RestRead::Sid { kind: Kind::Account, sid: sid.into() });
    match admin::Repository::read(&*world.repository, read).unwrap() {
        store::Loaded::Rest(RestLoaded::Row(Some(row))) => {
            store::rest::types::RestAccount::from_row(&row).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_root_and_each_base_lead_to_the_document() {
    let world = World::new();
    let get = |path: &str, accept: &str| {
        world.send(Request::get(path).header("accept", accept).body(Body::empty()).unwrap())
    };
    for path in ["/", "/2010-04-01", "/2010-04-01/", "/restcomm/2012-04-24", "/v1"] {
        let page = get(path, "text/html,*/*");
        assert_eq!(page.status, 200);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert!(page.text().contains("href=\"/openapi.json\"") && !page.text().contains("<script"), "{path}");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert_eq!(page.headers["x-content-type-options"], "nosniff");
        assert_eq!(page.headers["connection"], "close");
        assert_eq!(page.headers["x-frame-options"], "DENY");
        assert_eq!(page.headers["referrer-policy"], "no-referrer");
        assert_eq!(get(path, "application/json").json()["openapi"], "/openapi.json");
    }
    let document = get("/openapi.json", "*/*");
    assert_eq!((document.status, document.json()["openapi"].as_str()), (200, Some("3.1.0")));
    assert_eq!(document.headers["connection"], "close");
    let elsewhere = get("/elsewhere", "*/*");
    assert_eq!((elsewhere.status, elsewhere.text().is_empty()), (404, false));
    assert_eq!(world.send(Request::post("/").body(Body::empty()).unwrap()).status, 404);
}

#[test]
fn guessing_is_slowed_down_and_forgiven() {
    let world = World::new();
    let path = world.path(".json");
    let mut guesses = 0;
    let refused = loop {
        let answer = world.send_as((&world.me.sid, "guess"), "GET", &path, "");
        if answer.status == 429 {
            break answer;
        }
        guesses += 1;
        assert!(guesses < 50);
    };
    assert_eq!((guesses, refused.fault()), (11, (429, 20429)));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(world.ask("GET", &path, "").status, 429);
    world.plane.clock.store(10, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(world.ask("GET", &path, "").status, 200);
}

#[test]
fn guesses_at_one_account_do_not_slow_down_others_at_the_same_address() {
    let world = World::new();
    let path = world.path(".json");
    let guess = |name: &str| world.send_as((name, "guess"), "GET", &path, "").status;
    while guess("ACffffffffffffffffffffffffffffffff") != 429 {}
    assert_eq!(world.ask("GET", &path, "").status, 200, "no guess was at this one");
    // Guesses at every account, beyond the hundred that an address has free: known accounts are spared.
    let refused = (0..200).filter(|number| guess(&format!("AC{number:032}")) == 429).count();
    assert!(refused > 90, "{refused}");
    assert_eq!(world.ask("GET", &path, "").status, 200);
    let failed = world.plane.failed_sign_ins.lock().unwrap();
    assert_eq!(failed[0], ("ACffffffffffffffffffffffffffffffff".to_owned(), "unknown-account"));
    assert_eq!(failed[11].1, "too-many-attempts");
}

#[test]
fn the_right_token_gets_in_within_two_seconds_however_many_were_wrong() {
    let world = World::new();
    let path = world.path(".json");
    for second in 0..600 {
        world.plane.clock.store(second, std::sync::atomic::Ordering::Relaxed);
        world.send_as((&world.me.sid, "guess"), "GET", &path, "");
    }
    world.plane.clock.store(602, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(world.ask("GET", &path, "").status, 200);
}

#[test]
fn sub_accounts_are_visible_to_their_parent_only() {
    let world = World::new();
    let made = world.ask("POST", "/2010-04-01/Accounts.json", "FriendlyName=Sub&EmailAddress=a@b.c").json();
    let (sid, token) = (made["sid"].as_str().unwrap(), made["auth_token"].as_str().unwrap());
    assert_eq!(made["owner_account_sid"], world.me.sid);
    let path = |sid: &str, rest: &str| format!("/2010-04-01/Accounts/{sid}{rest}.json");
    // The parent binds a number for it; it sees the number, the parent's list does not.
    assert_eq!(world.ask("POST", &path(sid, "/IncomingPhoneNumbers"), "PhoneNumber=77").status, 201);
    let as_sub = |method: &str, path: &str, form: &str| world.send_as((sid, token), method, path, form);
    assert_eq!(as_sub("GET", &path(sid, "/IncomingPhoneNumbers"), "").json()["total"], 1);
    assert_eq!(world.get("/IncomingPhoneNumbers.json").json()["total"], 0);
    assert_eq!(as_sub("GET", &path(&world.me.sid, ""), "").fault(), (404, 20404));
    assert_eq!(as_sub("GET", &path(&world.me.sid, "/Calls"), "").fault(), (404, 20404));
    // By e-mail address, too; and the token is not shown again.
    let mine = world.send_as(("a@b.c", token), "GET", &path("a@b.c", ""), "").json();
    assert_eq!((mine["sid"].as_str(), mine["auth_token"].as_str()), (Some(sid), None));
    assert_eq!(world.ask("GET", "/2010-04-01/Accounts.json", "").json()["total"], 2);
    assert_eq!(world.ask("GET", "/2010-04-01/Accounts.json?FriendlyName=Sub", "").json()["total"], 1);
    // A second parent's child is out of reach; a child's child is not.
    let grandchild = as_sub("POST", "/2010-04-01/Accounts.json", "").json();
    assert_eq!(world.ask("GET", &path(grandchild["sid"].as_str().unwrap(), "/Calls"), "").status, 200);
    // Its own status is its parent's to change.
    assert_eq!(as_sub("POST", &path(sid, ""), "Status=closed").fault(), (403, 20006));
    assert_eq!(world.ask("POST", &path(sid, ""), "Status=suspended").json()["status"], "suspended");
    assert_eq!(as_sub("GET", &path(sid, ""), "").fault(), (403, 20005));
    // A suspended account places no calls, and accounts below it do not sign in either.
    let call = "To=1&From=2&Url=http://a";
    assert_eq!(world.ask("POST", &path(sid, "/Calls"), call).fault(), (403, 10001));
    assert_eq!(world.ask("POST", &path(sid, "/Messages"), "To=1&From=2&Body=a").fault(), (403, 10001));
    let below = grandchild["sid"].as_str().unwrap();
    let as_below = (below, grandchild["auth_token"].as_str().unwrap());
    assert_eq!(world.send_as(as_below, "GET", &path(below, ""), "").fault(), (403, 20005));
    assert_eq!(world.ask("DELETE", &path(sid, ""), "").status, 204);
    assert_eq!(world.ask("POST", &path(sid, ""), "Status=active").fault(), (400, 20400));
}

#[test]
fn a_new_token_replaces_the_old_one() {
    let world = World::new();
    let path = world.path(".json");
    let renewed = world.ask("POST", &path, "RenewToken=true&FriendlyName=Mine").json();
    let token = renewed["auth_token"].as_str().unwrap();
    assert_eq!(world.ask("GET", &path, "").status, 401);
    assert_eq!(world.send_as((&world.me.sid, token), "GET", &path, "").json()["friendly_name"], "Mine");
    let again = admin::first::renew_token(&*world.repository, &*world.plane, &world.me.sid).unwrap();
    assert_eq!(world.send_as((&again.sid, &again.token), "GET", &path, "").status, 200);
    assert!(!format!("{again:?}").contains(&again.token));
    assert_eq!(ensure_account(&*world.repository, &*world.plane, FIRST, None), Ok(None));
    let other = "AC00000000000000000000000000000009";
    assert_eq!(ensure_account(&*world.repository, &*world.plane, other, None), Ok(None));
    assert!(admin::first::renew_token(&*world.repository, &*world.plane, "AC0").is_err());
}

#[test]
fn unknown_paths_methods_and_body_types_have_their_own_errors() {
    let world = World::new();
    assert_eq!(world.get("/Nonsense.json").fault(), (404, 20404));
    assert_eq!(world.get("/Calls/CA1.json").fault(), (404, 20404));
    let wrong = world.delete("/Calls.json");
    assert_eq!(wrong.fault(), (405, 20405));
    assert_eq!(wrong.headers["allow"], "GET, POST");
    assert_eq!(world.ask("GET", "/elsewhere", "").status, 404);
    assert_eq!(world.ask("PATCH", &world.path("/Calls.json"), "").fault(), (405, 20405));
    let request = Request::post(world.path("/Calls.json")).header("content-type", "application/json");
    assert_eq!(world.send(request.body(Body::from("{}")).unwrap()).fault(), (415, 20415));
}

#[test]
fn a_token_of_the_configuration_counts_from_the_next_start() {
    let world = World::new();
    let (repository, plane) = (&*world.repository, &*world.plane);
    assert_eq!(ensure_account(repository, plane, FIRST, Some("chosen")), Ok(None));
    let path = format!("/2010-04-01/Accounts/{FIRST}.json");
    let status = |sid: &str, token: &str| world.send_as((sid, token), "GET", &path, "").status;
    assert_eq!((status(FIRST, "chosen"), status(FIRST, &world.me.token)), (200, 401));
    let other = "AC00000000000000000000000000000009";
    let made = ensure_account(repository, plane, other, Some("second")).unwrap().unwrap();
    assert_eq!((&*made.sid, &*made.token, &*made.signing_key), (other, "second", "second"));
}

/// A bound number, name or pattern takes calls from its callee.
#[test]
fn sub_accounts_have_the_numbers_that_they_were_given() {
    let world = World::new();
    let made = world.ask("POST", "/2010-04-01/Accounts.json", "FriendlyName=Sub").json();
    let (sid, token) = (made["sid"].as_str().unwrap(), made["auth_token"].as_str().unwrap());
    let path = |sid: &str, rest: &str| format!("/2010-04-01/Accounts/{sid}{rest}.json");
    let as_sub = |path: &str, form: &str| world.send_as((sid, token), "POST", path, form);
    for number in ["77", "alice", ".*", "+4930901820"] {
        let form = format!("PhoneNumber={}", number.replace('+', "%2B"));
        assert_eq!(as_sub(&path(sid, "/IncomingPhoneNumbers"), &form).fault(), (403, 20403), "{number}");
        assert_eq!(
            as_sub(&path(sid, "/OutgoingCallerIds"), &form).fault().0,
            if number == ".*" { 400 } else { 403 }
        );
    }
    let bound = world.make("/IncomingPhoneNumbers.json", "PhoneNumber=77&VoiceUrl=http://a/");
    let number = format!("/IncomingPhoneNumbers/{}", bound["sid"].as_str().unwrap());
    assert_eq!(world.post(&format!("{number}.json"), "AccountSid=AC0").fault(), (404, 20404));
    let given = world.ask("POST", &path(&world.me.sid, &number), &format!("AccountSid={sid}")).json();
    assert_eq!((given["account_sid"].as_str(), given["voice_url"].as_str()), (Some(sid), Some("http://a/")));
    assert_eq!(world.get("/IncomingPhoneNumbers.json").json()["total"], 0);
    // It says what answers, and cannot make it another number, nor give it up the tree.
    assert_eq!(
        as_sub(&path(sid, &number), "VoiceUrl=http://b/&PhoneNumber=77").json()["voice_url"],
        "http://b/"
    );
    assert_eq!(as_sub(&path(sid, &number), "PhoneNumber=78").fault(), (403, 20403));
    assert_eq!(as_sub(&path(sid, &number), "PhoneNumber=.*").fault(), (403, 20403));
    assert_eq!(as_sub(&path(sid, &number), &format!("AccountSid={}", world.me.sid)).fault(), (404, 20404));
    // The parent takes it back, or binds one for it at once.
    let back = world.ask("POST", &path(sid, &number), &format!("AccountSid={}", world.me.sid));
    assert_eq!(back.json()["account_sid"], world.me.sid);
    assert_eq!(world.ask("POST", &path(sid, "/IncomingPhoneNumbers"), "PhoneNumber=79").status, 201);
    assert_eq!(world.ask("POST", &path(sid, "/OutgoingCallerIds"), "PhoneNumber=80").status, 201);
}
