//! Sign-in at an OpenID provider, which the test plays.

use axum::http::header::LOCATION;

use super::*;
use crate::directory::{
    AuthorizationRequest, DirectoryAnswer, DirectoryTimes, PasswordVerdict, ReturnedCode, RoleVerdict,
    TokenUser, TokenVerdict,
};

/// The verdict on the code `good`, and the requests that browsers have carried away.
struct Provider {
    verdict: TokenVerdict,
    requests: Mutex<Vec<AuthorizationRequest>>,
    is_away: bool,
}

impl Directory for Provider {
    fn times(&self, _: &str) -> Option<DirectoryTimes> {
        None
    }

    fn check(&self, _: Instant, _: &Address, _: &str) -> DirectoryAnswer<PasswordVerdict> {
        Box::pin(async { PasswordVerdict::Wrong })
    }

    fn role(&self, _: &Address) -> DirectoryAnswer<RoleVerdict> {
        Box::pin(async { RoleVerdict::Known(None) })
    }

    fn providers(&self) -> Vec<(Box<str>, Box<str>)> {
        vec![("example.test".into(), "Example".into())]
    }

    fn sign_in_page(&self, _: &str, request: AuthorizationRequest) -> DirectoryAnswer<Option<Box<str>>> {
        let page = format!("https://id.example/authorize?state={}", request.state).into();
        self.requests.lock().unwrap().push(request);
        let page = (!self.is_away).then_some(page);
        Box::pin(async move { page })
    }

    fn check_code(&self, domain: &str, returned: ReturnedCode) -> DirectoryAnswer<TokenVerdict> {
        // The same secrets as when the browser left, made of its cookie.
        let is_known = self.requests.lock().unwrap().iter().any(|request| {
            request.nonce == returned.request.nonce && request.verifier == returned.request.verifier
        });
        let is_good = domain == "example.test" && returned.code == "good" && is_known;
        let verdict = if is_good { self.verdict.clone() } else { TokenVerdict::Refused };
        Box::pin(async move { verdict })
    }
}

fn world_of_provider(name: &str, role: Option<Role>) -> World {
    let ends_at = Instant::from_unix_seconds(1_800_000_300);
    let verdict = TokenVerdict::Accepted(TokenUser { name: name.into(), role, ends_at });
    world_of_verdict(verdict, false)
}

fn world_of_verdict(verdict: TokenVerdict, is_away: bool) -> World {
    let provider = Provider { verdict, requests: Mutex::default(), is_away };
    world_of(Applications::default(), Some(Arc::new(provider)))
}

impl World {
    async fn visit(&mut self, path: &str, cookie: &str) -> Reply {
        let request = HttpRequest::builder().uri(path).header("host", "127.0.0.1:5380");
        self.send(request.header("cookie", cookie).body(Body::empty()).unwrap()).await
    }

    /// Sends a browser away: its cookie, and the state that comes back with it.
    async fn begin(&mut self) -> (String, String) {
        let reply = self.visit("/sign-in/begin?domain=example.test", "").await;
        let page = place(&reply);
        let (_, state) = page.split_once("https://id.example/authorize?state=").expect("to the provider");
        let set = reply.headers[SET_COOKIE].to_str().unwrap();
        assert!(set.contains("; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age=600"), "{set}");
        (set.split(';').next().unwrap().to_owned(), state.to_owned())
    }

    async fn come_back(&mut self, cookie: &str, query: &str) -> Reply {
        self.visit(&format!("/sign-in/callback?{query}"), cookie).await
    }
}

fn place(reply: &Reply) -> String {
    assert_eq!(reply.status, StatusCode::FOUND, "{}", reply.body);
    reply.headers[LOCATION].to_str().unwrap().to_owned()
}

/// The cookie of a session that a reply begins, if it does.
fn session(reply: &Reply) -> Option<String> {
    let cookies = reply.headers.get_all(SET_COOKIE).iter().map(|value| value.to_str().unwrap());
    let mut values = cookies.map(|cookie| cookie.split(';').next().unwrap().to_owned());
    values.find(|value| value.starts_with("belfry_console=") && value.len() > 20)
}

#[tokio::test]
async fn a_user_that_comes_back_from_the_provider_has_an_ordinary_session() {
    let mut world = world_of_provider("Dora", Some(Role::Operator));
    let ways = world.ask(&Browser::default(), "GET", "/sign-in", None).await;
    let expected =
        json!({ "tokens": false, "providers": [{ "domain": "example.test", "label": "Example" }] });
    assert_eq!((ways.status, ways.body), (StatusCode::OK, expected));
    let (cookie, state) = world.begin().await;
    let reply = world.come_back(&cookie, &format!("code=good&state={state}")).await;
    assert_eq!(place(&reply), "/");
    let cleared = reply.headers.get_all(SET_COOKIE).iter().any(|value| {
        let value = value.to_str().unwrap();
        value.starts_with("belfry_sign_in=;") && value.contains("Max-Age=0")
    });
    assert!(cleared, "{:?}", reply.headers);
    let browser = Browser { cookie: session(&reply).expect("a session"), csrf: String::new() };
    let session = world.ask(&browser, "GET", "/session", None).await;
    assert_eq!(
        (&session.body["account"], &session.body["role"]),
        (&json!("dora@example.test"), &json!("operator"))
    );
    let browser = Browser { csrf: session.body["csrf"].as_str().unwrap().to_owned(), ..browser };
    assert_eq!(world.ask(&browser, "DELETE", "/session", None).await.status, StatusCode::OK);
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED, "signed out");
    assert_eq!(world.audited.lock().unwrap()[0], "dora@example.test operator SignIn token None");
}

#[tokio::test]
async fn only_the_browser_that_has_begun_within_ten_minutes_comes_back() {
    let mut world = world_of_provider("dora", Some(Role::Operator));
    let (cookie, state) = world.begin().await;
    let (other_cookie, other_state) = world.begin().await;
    assert!(cookie != other_cookie && state != other_state);
    let good = format!("code=good&state={state}");
    for (cookie, query) in [
        ("", &*good),
        (&*other_cookie, &*good),
        (&*cookie, "code=good"),
        (&*cookie, "code=good&state="),
        (&*cookie, &format!("code=good&state={other_state}")),
        (&*cookie, &format!("code=good&state={state}&state={state}")),
        (&*cookie.replace(".1800000000000000.", ".1800000001000000."), &*good),
        (&*format!("{cookie}aa"), &*good),
        ("belfry_sign_in=x", &*good),
        ("belfry_sign_in=..", &*good),
    ] {
        let reply = world.come_back(cookie, query).await;
        assert_eq!((place(&reply), session(&reply)), ("/?sign_in=expired".into(), None), "{cookie} {query}");
    }
    world.pass(600);
    assert_eq!(place(&world.come_back(&cookie, &good).await), "/?sign_in=expired", "too late");
    assert!(world.failures.lock().unwrap().is_empty(), "nothing was asked");
}

#[tokio::test]
async fn each_end_of_a_sign_in_has_its_reason_for_the_page() {
    let mut world = world_of_provider("otto", None);
    let (cookie, state) = world.begin().await;
    let reason = async |world: &mut World, query: &str| {
        let reply = world.come_back(&cookie, &format!("{query}&state={state}")).await;
        assert_eq!(session(&reply), None);
        place(&reply)
    };
    assert_eq!(reason(&mut world, "error=access_denied").await, "/?sign_in=denied");
    assert_eq!(reason(&mut world, "code=").await, "/?sign_in=not_accepted");
    assert_eq!(reason(&mut world, "code=good").await, "/?sign_in=no_role");
    for _ in 0..12 {
        reason(&mut world, "code=guess").await;
    }
    assert_eq!(reason(&mut world, "code=guess").await, "/?sign_in=too_many");
    for (verdict, is_away, path, expected) in [
        (TokenVerdict::Unavailable, false, "", "/?sign_in=unavailable"),
        (TokenVerdict::Refused, true, "/sign-in/begin?domain=example.test", "/?sign_in=unavailable"),
    ] {
        let mut world = world_of_verdict(verdict, is_away);
        let reply = if path.is_empty() {
            let (cookie, state) = world.begin().await;
            world.come_back(&cookie, &format!("code=good&state={state}")).await
        } else {
            world.visit(path, "").await
        };
        assert_eq!(place(&reply), expected);
    }
    let mut disabled = world_of_provider("user", Some(Role::Admin));
    disabled.accounts.get_mut("user@example.test").unwrap().disabled = true;
    let (cookie, state) = disabled.begin().await;
    let reply = disabled.come_back(&cookie, &format!("code=good&state={state}")).await;
    assert_eq!((place(&reply), session(&reply)), ("/?sign_in=not_accepted".into(), None));
}

#[tokio::test]
async fn no_address_of_a_request_is_redirected_to_and_other_domains_and_methods_are_refused() {
    let mut world = world_of_provider("dora", Some(Role::Operator));
    for path in [
        "/sign-in/begin",
        "/sign-in/begin?domain=evil.test",
        "/sign-in/begin?domain=example.test&domain=example.test",
        "/sign-in/other",
    ] {
        assert_eq!(world.visit(path, "").await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let (cookie, state) = world.begin().await;
    let more = "next=https%3A%2F%2Fevil.test&redirect_uri=https%3A%2F%2Fevil.test";
    let reply = world.come_back(&cookie, &format!("code=good&state={state}&{more}")).await;
    assert_eq!(place(&reply), "/");
    let head =
        HttpRequest::builder().method("HEAD").uri(format!("/sign-in/callback?code=good&state={state}"));
    let head = head.header("host", "127.0.0.1:5380").header("cookie", &cookie).body(Body::empty()).unwrap();
    assert_eq!(world.send(head).await.status, StatusCode::METHOD_NOT_ALLOWED);
    // By another name of the console the browser goes to the public one first, once.
    let by_name = |path: &str| {
        HttpRequest::builder().uri(path).header("host", "localhost:5380").body(Body::empty()).unwrap()
    };
    let reply = world.send(by_name("/sign-in/begin?domain=example.test")).await;
    let again = place(&reply);
    assert!(again.starts_with("http://127.0.0.1:5380/sign-in/begin?again=1&domain=%65%78"), "{again}");
    let (_, path) = again.split_once(":5380").unwrap();
    assert!(place(&world.send(by_name(path)).await).starts_with("https://id.example/"));
    let mut alone = super::world();
    assert_eq!(alone.visit("/sign-in/begin?domain=example.test", "").await.status, StatusCode::NOT_FOUND);
}

/// A load balancer may send the browser back to another node of the farm.
#[tokio::test]
async fn another_node_with_the_same_key_takes_the_answer_and_one_with_another_key_does_not() {
    let mut worlds = [[7; 32], [7; 32], [8; 32]].map(|key| {
        let world = world_of_provider("dora", Some(Role::Operator));
        world.console.share_sign_ins(key);
        world
    });
    let (cookie, state) = worlds[0].begin().await;
    // The other nodes' provider is the same: it knows the request.
    for world in &mut worlds[1..] {
        world.begin().await;
    }
    let query = format!("code=guess&state={state}");
    let at_other = worlds[1].come_back(&cookie, &query).await;
    assert_eq!(place(&at_other), "/?sign_in=not_accepted", "it has asked the provider");
    let elsewhere = worlds[2].come_back(&cookie, &query).await;
    assert_eq!(place(&elsewhere), "/?sign_in=expired");
}
