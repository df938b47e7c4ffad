//! Roles by claims of tokens, whose issuer the test plays.

use std::sync::PoisonError;

use axum::http::header::WWW_AUTHENTICATE;

use super::*;
use crate::directory::{
    DirectoryAnswer, DirectoryTimes, PasswordVerdict, RoleVerdict, TokenUser, TokenVerdict,
};

/// The tokens that the issuer has made, with their users; `None`: its keys are not known.
struct Issuer(Mutex<Option<HashMap<&'static str, TokenUser>>>);

/// The end of all tokens, in the world's time.
const END: Instant = Instant::from_unix_seconds(1_800_000_300);

impl Issuer {
    fn new(tokens: &[(&'static str, &str, Option<Role>)]) -> Arc<Issuer> {
        let token = |(token, name, role): &(&'static str, &str, Option<Role>)| {
            (*token, TokenUser { name: (*name).into(), role: *role, ends_at: END })
        };
        Arc::new(Issuer(Mutex::new(Some(tokens.iter().map(token).collect()))))
    }

    fn withdraw_keys(&self) {
        *self.0.lock().unwrap() = None;
    }
}

impl Directory for Issuer {
    fn times(&self, _: &str) -> Option<DirectoryTimes> {
        None
    }

    fn check(&self, _: Instant, _: &Address, _: &str) -> DirectoryAnswer<PasswordVerdict> {
        Box::pin(async { PasswordVerdict::Wrong })
    }

    fn role(&self, _: &Address) -> DirectoryAnswer<RoleVerdict> {
        Box::pin(async { RoleVerdict::Known(None) })
    }

    fn takes_tokens(&self, domain: &str) -> bool {
        domain == "example.test"
    }

    fn domains_of_token(&self, token: &str) -> Vec<Box<str>> {
        // Another domain of the same issuer comes first.
        if token.ends_with(".ours") { vec!["other.test".into(), "example.test".into()] } else { Vec::new() }
    }

    fn check_token(&self, now: Instant, domain: &str, token: &str) -> DirectoryAnswer<TokenVerdict> {
        let verdict = match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => TokenVerdict::Unavailable,
            Some(tokens) => match tokens.get(token).filter(|user| now < user.ends_at) {
                Some(user) if domain == "example.test" => TokenVerdict::Accepted(user.clone()),
                Some(_) | None => TokenVerdict::Refused,
            },
        };
        Box::pin(async move { verdict })
    }
}

fn world_of_tokens(tokens: &[(&'static str, &str, Option<Role>)]) -> (World, Arc<Issuer>) {
    let issuer = Issuer::new(tokens);
    (world_of(Applications::default(), Some(Arc::clone(&issuer) as _)), issuer)
}

impl World {
    async fn ask_by_token(&mut self, token: &str, method: &str, path: &str, body: Option<Value>) -> Reply {
        let request = HttpRequest::builder().method(method).uri(format!("/v1/admin{path}"));
        let request = request.header("host", "127.0.0.1:5380").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {token}"));
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    async fn browser_by_token(&mut self, user: &str, token: &str) -> Browser {
        let reply = self.try_sign_in(user, token).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
        let cookie = reply.headers[SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Browser { cookie, csrf: reply.body["csrf"].as_str().unwrap().to_owned() }
    }
}

#[tokio::test]
async fn a_token_signs_its_user_in_at_the_page_up_to_its_end() {
    let (mut world, _) = world_of_tokens(&[
        ("d.ora.ours", "Dora", Some(Role::Operator)),
        ("o.tto.ours", "otto", None),
        ("e.ye.ours", "eye", None),
    ]);
    // No account here is needed, and no configuration names her. All spellings are one user.
    let browser = world.browser_by_token("dora@Example.test", "d.ora.ours").await;
    let session = world.ask(&browser, "GET", "/session", None).await;
    let expected = (&json!("dora@example.test"), &json!("operator"));
    assert_eq!((&session.body["account"], &session.body["role"]), expected);
    assert_eq!(world.try_sign_in("otto", "d.ora.ours").await.status, StatusCode::UNAUTHORIZED, "of another");
    assert_eq!(world.try_sign_in("dora", "d.ora.other").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(world.try_sign_in("dora@other.test", "d.ora.ours").await.status, StatusCode::UNAUTHORIZED);
    let without = world.try_sign_in("otto", "o.tto.ours").await;
    assert_eq!(without.status, StatusCode::FORBIDDEN, "the token gives no role: {}", without.body);
    let long = world.try_sign_in("root", &format!("a.b.{}", "c".repeat(3_000))).await;
    assert_eq!(long.status, StatusCode::UNAUTHORIZED, "as long as a token may be: {}", long.body);
    let too_long = world.try_sign_in("root", &"c".repeat(8_193)).await;
    assert_eq!(too_long.status, StatusCode::BAD_REQUEST);
    let _ = world.sign_in("root").await;
    let by_configuration = world.browser_by_token("eye", "e.ye.ours").await;
    assert_eq!(world.status_of(&by_configuration).await, StatusCode::OK, "its role is in the configuration");
    world.accounts.get_mut("eye@example.test").unwrap().disabled = true;
    world.pass(5);
    assert_eq!(world.status_of(&by_configuration).await, StatusCode::UNAUTHORIZED, "the account is disabled");
    assert_eq!(world.try_sign_in("eye", "e.ye.ours").await.status, StatusCode::UNAUTHORIZED);
    world.pass(294);
    assert_eq!(world.status_of(&browser).await, StatusCode::OK);
    world.pass(1);
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED, "the token is over");
    let audited = world.audited.lock().unwrap();
    assert_eq!(audited[0], "dora@example.test operator SignIn token None");
    assert_eq!(audited[1], "otto@example.test none SignIn token Some(403)");
    assert_eq!(audited[2], "root@example.test admin SignIn  None", "by its password");
}

#[tokio::test]
async fn a_request_with_a_token_has_its_role_without_a_cookie() {
    let (mut world, _) = world_of_tokens(&[
        ("r.eader.ours", "rita", Some(Role::ReadOnly)),
        ("d.ora.ours", "dora", Some(Role::Operator)),
        ("o.tto.ours", "otto", None),
        ("u.ser.ours", "user", Some(Role::Admin)),
    ]);
    let (at, change) = ("/accounts/op@example.test/name", || Some(json!({ "display_name": "x" })));
    let reader = world.ask_by_token("r.eader.ours", "GET", "/session", None).await;
    assert_eq!((reader.status, &reader.body["role"]), (StatusCode::OK, &json!("read-only")));
    assert!(!reader.headers.contains_key(SET_COOKIE));
    assert_eq!(world.ask_by_token("r.eader.ours", "GET", "/overview", None).await.status, StatusCode::OK);
    let refused = world.ask_by_token("r.eader.ours", "PUT", at, change()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "a reader may not write");
    assert!(refused.body["error"].as_str().unwrap().contains("this needs the role operator"));
    let at = "/accounts/user@example.test/name";
    let done = world.ask_by_token("d.ora.ours", "PUT", at, change()).await;
    assert_eq!(done.status, StatusCode::OK, "without a token of changes: {}", done.body);
    let role = world.ask_by_token("o.tto.ours", "GET", "/session", None).await;
    assert_eq!(role.status, StatusCode::FORBIDDEN);
    world.accounts.get_mut("user@example.test").unwrap().disabled = true;
    let disabled = world.ask_by_token("u.ser.ours", "GET", "/session", None).await;
    assert_eq!(disabled.status, StatusCode::UNAUTHORIZED);
    world.pass(300);
    let over = world.ask_by_token("d.ora.ours", "PUT", at, change()).await;
    assert_eq!(over.status, StatusCode::UNAUTHORIZED);
    assert_eq!(over.headers[WWW_AUTHENTICATE], "Bearer error=\"invalid_token\"", "RFC 6750 §3");
    let audited = world.audited.lock().unwrap();
    assert_eq!(
        *audited,
        [
            "rita@example.test read-only SignIn token None",
            "rita@example.test read-only SetDisplayName  Some(403)",
            "dora@example.test operator SignIn token None",
            "dora@example.test operator SetDisplayName user@example.test None",
            "otto@example.test none SignIn token Some(403)",
        ],
        "the requests of a token are one session"
    );
}

#[tokio::test]
async fn tokens_that_are_not_accepted_are_counted_and_those_that_cannot_be_checked_are_not() {
    let (mut world, issuer) = world_of_tokens(&[("d.ora.ours", "dora", Some(Role::Operator))]);
    for token in ["forged.by.ours", "forged.by.others", "", "x"] {
        let refused = world.ask_by_token(token, "GET", "/session", None).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED, "{token}");
    }
    // Only the first is of an issuer that a domain has: nothing is checked of the others.
    assert_eq!(*world.failures.lock().unwrap(), [Cause::WrongPassword]);
    for _ in 0..10 {
        world.ask_by_token("forged.by.ours", "GET", "/session", None).await;
    }
    let paced = world.ask_by_token("forged.by.ours", "GET", "/session", None).await;
    assert_eq!(paced.status, StatusCode::TOO_MANY_REQUESTS);
    world.pass(2);
    assert_eq!(world.ask_by_token("d.ora.ours", "GET", "/session", None).await.status, StatusCode::OK);
    let count = world.failures.lock().unwrap().len();
    issuer.withdraw_keys();
    let known = world.ask_by_token("d.ora.ours", "GET", "/session", None).await;
    assert_eq!(known.status, StatusCode::OK, "it was checked when its session began");
    let unknown = world.ask_by_token("new.token.ours", "GET", "/session", None).await;
    assert_eq!(unknown.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(world.failures.lock().unwrap().len(), count);
}

#[tokio::test]
async fn a_cookie_comes_before_a_token_and_a_token_means_nothing_where_no_source_takes_it() {
    let (mut world, _) = world_of_tokens(&[("d.ora.ours", "dora", Some(Role::Admin))]);
    let eye = world.sign_in("eye").await;
    let both = |method: &str, path: &str, cookie: &str| {
        let request = HttpRequest::builder().method(method).uri(format!("/v1/admin{path}"));
        let request = request.header("host", "127.0.0.1:5380").header("cookie", cookie);
        let request = request.header("authorization", "Bearer d.ora.ours");
        request.header("content-type", "application/json").body(Body::empty()).unwrap()
    };
    let session = world.send(both("GET", "/session", &eye.cookie)).await;
    assert_eq!(session.body["role"], "read-only");
    let change = world.send(both("DELETE", "/session", &eye.cookie)).await;
    assert_eq!(change.status, StatusCode::FORBIDDEN, "a cookie needs the token of changes: {}", change.body);
    let mut alone = super::world();
    let reply = alone.send(both("GET", "/session", "")).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    assert!(alone.failures.lock().unwrap().is_empty(), "a proxy's field is no sign-in here");
}

#[tokio::test]
async fn an_operator_changes_no_account_that_is_signed_in_with_a_role_by_a_token() {
    let (mut world, _) = world_of_tokens(&[("u.ser.ours", "user", Some(Role::ReadOnly))]);
    let operator = world.sign_in("op").await;
    let (at, change) = ("/accounts/user@example.test/disabled", || Some(json!({ "disabled": true })));
    let _ = world.browser_by_token("user", "u.ser.ours").await;
    let refused = world.ask(&operator, "PUT", at, change()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    assert!(refused.body["error"].as_str().unwrap().contains("by a token"), "{}", refused.body);
    world.pass(300);
    let done = world.ask(&operator, "PUT", at, change()).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.body);
}

#[tokio::test]
async fn a_user_without_a_role_who_tries_again_and_again_has_one_line_in_a_minute() {
    let (mut world, _) = world_of_tokens(&[("o.tto.ours", "otto", None), ("d.ora.ours", "dora", None)]);
    for _ in 0..50 {
        for token in ["o.tto.ours", "d.ora.ours"] {
            let refused = world.ask_by_token(token, "GET", "/session", None).await;
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
        }
    }
    let lines = ["otto", "dora"].map(|user| format!("{user}@example.test none SignIn token Some(403)"));
    assert_eq!(*world.audited.lock().unwrap(), lines);
    world.pass(60);
    world.ask_by_token("o.tto.ours", "GET", "/session", None).await;
    assert_eq!(world.audited.lock().unwrap().len(), 3);
}
