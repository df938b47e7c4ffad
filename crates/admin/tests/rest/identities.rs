//! Sign-in by a token of an identity provider, which names an account.

use admin::IdentityVerdict;
use axum::body::Body;
use axum::http::Request;
use stdx::Instant;
use store::{Address, Write};

use crate::plane::START;
use crate::world::{Answer, FIRST, World};

fn world_of(tokens: &[(&str, &str, &str)]) -> World {
    let world = World::new();
    for (token, user, account) in tokens {
        let user = Address::new(user, "example.org").unwrap();
        let verdict = IdentityVerdict::Accepted { user, account: (*account).into() };
        world.plane.tokens.lock().unwrap().insert((*token).to_owned(), verdict);
    }
    world
}

fn by_token(world: &World, token: &str, method: &str, path: &str, form: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(form.to_owned()));
    world.send(request.unwrap())
}

/// A token reaches what an API key reaches: its account, and neither accounts nor keys.
#[test]
fn a_token_reaches_the_account_that_it_names_and_manages_neither_accounts_nor_keys() {
    let world = world_of(&[("a.b.c", "alice", FIRST)]);
    let below = world.ask("POST", "/2010-04-01/Accounts.json", "").json();
    let below = below["sid"].as_str().unwrap();
    world.plane.asked.lock().unwrap().clear();
    let ask = |method: &str, path: &str, form: &str| by_token(&world, "a.b.c", method, path, form);
    let calls = world.path("/Calls.json");
    assert_eq!(ask("GET", &calls, "").status, 200);
    assert_eq!(ask("POST", &calls, "To=1&From=2&Url=http://a/").status, 201);
    let own = format!("/restcomm/2012-04-24/Accounts/{FIRST}/Calls.json");
    assert_eq!(ask("GET", &own, "").status, 200);
    for (method, path) in [
        ("GET", "/2010-04-01/Accounts.json".to_owned()),
        ("POST", "/2010-04-01/Accounts.json".to_owned()),
        ("POST", world.path(".json")),
        ("GET", world.path("/Keys.json")),
        ("POST", world.path("/Keys.json")),
        ("POST", world.path("/SigningKeys.json")),
    ] {
        assert_eq!(ask(method, &path, "").fault(), (401, 20003), "{method} {path}");
    }
    for other in [below, "AC00000000000000000000000000000077"] {
        let path = format!("/2010-04-01/Accounts/{other}/Calls.json");
        assert_eq!(ask("GET", &path, "").fault(), (404, 20404), "{other}");
    }
    let asked = world.plane.asked.lock().unwrap();
    let signed_in = asked.iter().filter(|line| line.contains("signed in by alice@example.org")).count();
    assert_eq!(signed_in, 1, "the audit log has a token once: {asked:?}");
    assert!(world.plane.failed_sign_ins.lock().unwrap().is_empty());
}

#[test]
fn a_token_that_is_not_accepted_is_refused_counted_and_slowed_down() {
    let world = world_of(&[
        ("of.no.account", "alice", "AC00000000000000000000000000000077"),
        ("by.e.mail", "alice", "root@example.org"),
        ("of.a.key", "alice", "SK00000000000000000000000000000001"),
    ]);
    world.plane.tokens.lock().unwrap().insert("for.ged.one".into(), IdentityVerdict::Refused);
    world.ask("POST", &world.path(".json"), "EmailAddress=root@example.org");
    let calls = world.path("/Calls.json");
    for token in ["of.no.account", "by.e.mail", "of.a.key", "for.ged.one", "of.another.issuer"] {
        let refused = by_token(&world, token, "GET", &calls, "");
        assert_eq!(refused.fault(), (401, 20003), "{token}");
        assert_eq!(refused.headers["www-authenticate"], "Bearer error=\"invalid_token\"", "RFC 6750 §3");
    }
    let causes: Vec<&str> =
        world.plane.failed_sign_ins.lock().unwrap().iter().map(|(_, cause)| *cause).collect();
    assert_eq!(
        causes,
        ["unknown-account", "unknown-account", "unknown-account", "wrong-password", "malformed"]
    );
    let statuses: Vec<u16> =
        (0..12).map(|_| by_token(&world, "for.ged.one", "GET", &calls, "").status).collect();
    assert_eq!(statuses[11], 429, "{statuses:?}");
    assert_eq!(world.ask("GET", &calls, "").status, 200, "others at this address sign in");
}

#[test]
fn a_token_that_cannot_be_checked_is_no_failed_sign_in() {
    let world = World::new();
    world.plane.tokens.lock().unwrap().insert("a.b.c".into(), IdentityVerdict::Unavailable);
    let answer = by_token(&world, "a.b.c", "GET", &world.path("/Calls.json"), "");
    assert_eq!(answer.fault(), (503, 20503));
    assert!(world.plane.failed_sign_ins.lock().unwrap().is_empty());
}

#[test]
fn a_user_with_a_disabled_chat_account_and_a_suspended_account_are_refused() {
    let world = world_of(&[("a.b.c", "alice", FIRST)]);
    let calls = world.path("/Calls.json");
    let address = Address::new("alice", "example.org").unwrap();
    let now = Instant::from_unix_seconds(START);
    let account = store::NewAccount::with_password(address.clone(), "secret", now).unwrap();
    admin::Repository::write(&*world.repository, Write::AddAccount(Box::new(account))).unwrap();
    assert_eq!(by_token(&world, "a.b.c", "GET", &calls, "").status, 200);
    admin::Repository::write(&*world.repository, Write::SetDisabled { account: address, disabled: true })
        .unwrap();
    assert_eq!(by_token(&world, "a.b.c", "GET", &calls, "").fault(), (401, 20003));
}
