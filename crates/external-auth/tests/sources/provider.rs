//! Sign-in at an OpenID provider: the way of a browser to it and back, and what must not be accepted of it.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use external_auth::{
    Authenticator, AuthorizationQuery, CodeQuery, Hidden, JwtSettings, KeySource, PageAnswer,
    ProviderSettings, SourceKind, TokenAnswer, TokenVerdict,
};
use interop::{OpenIdFault, OpenIdProvider};
use serde_json::json;
use url::Url;

use super::{DOMAIN, NOW, start};

const SESSION: Duration = Duration::from_secs(600);

/// The source of the provider's tokens.
pub(super) fn settings(provider: &OpenIdProvider) -> JwtSettings {
    JwtSettings {
        keys: KeySource::Url(provider.keys_url().into()),
        authorities: None,
        issuer: provider.issuer().into(),
        audience: "chat".into(),
        user_claim: "sub".into(),
        leeway: Duration::ZERO,
        roles: None,
        account_claim: None,
        provider: Some(ProviderSettings {
            client_id: "console".into(),
            client_secret_file: None,
            scopes: vec!["openid".into(), "profile".into()],
            label: "Example".into(),
            session: SESSION,
            app_client_id: None,
        }),
    }
}

fn kind(settings: JwtSettings) -> SourceKind {
    SourceKind::Jwt(Box::new(settings))
}

fn world() -> (OpenIdProvider, Authenticator) {
    let provider = OpenIdProvider::start(json!({ "sub": "alice" }));
    let authenticator = start(kind(settings(&provider)));
    (provider, authenticator)
}

fn request(number: u8) -> AuthorizationQuery {
    let of = |name: &str| format!("{name}-{number}-{}", "x".repeat(40));
    AuthorizationQuery {
        now: NOW,
        redirect_uri: "https://console.example.net/sign-in/callback".into(),
        state: of("state").into(),
        nonce: of("nonce").into(),
        verifier: Hidden(of("verifier").into()),
    }
}

fn page(authenticator: &Authenticator, request: &AuthorizationQuery) -> Option<Box<str>> {
    let (sender, receiver) = sync_channel(1);
    let answer = PageAnswer::new(move |page| sender.send(page).expect("the test waits"));
    authenticator.ask_page(DOMAIN, request.clone(), answer);
    receiver.recv_timeout(Duration::from_secs(60)).expect("every question has an answer")
}

fn exchange(authenticator: &Authenticator, query: CodeQuery) -> TokenVerdict {
    let (sender, receiver) = sync_channel(1);
    let answer = TokenAnswer::new(move |verdict| sender.send(verdict).expect("the test waits"));
    authenticator.ask_code(DOMAIN, query, answer);
    receiver.recv_timeout(Duration::from_secs(60)).expect("every question has an answer")
}

/// The query that a browser brings back from the provider.
fn returned(provider: &OpenIdProvider, authenticator: &Authenticator, number: u8) -> CodeQuery {
    let request = request(number);
    let page = page(authenticator, &request).expect("the provider is there");
    let back = Url::parse(&provider.visit(&page)).unwrap();
    let get = |name: &str| back.query_pairs().find(|(found, _)| found == name).unwrap().1.into_owned();
    assert_eq!(get("state"), *request.state);
    CodeQuery { request, code: Hidden(get("code").into()), issuer: Some(get("iss").into()) }
}

fn name_of(verdict: &TokenVerdict) -> &str {
    match verdict {
        TokenVerdict::Accepted(user) => &user.name,
        TokenVerdict::Refused => "refused",
        TokenVerdict::Unavailable => "unavailable",
    }
}

#[test]
fn a_browser_that_comes_back_with_a_code_is_the_user_once() {
    let (provider, authenticator) = world();
    let query = returned(&provider, &authenticator, 1);
    let TokenVerdict::Accepted(user) = exchange(&authenticator, query.clone()) else { panic!("accepted") };
    assert_eq!((&*user.name, user.role, user.ends_at), ("alice", None, NOW + SESSION));
    assert_eq!(exchange(&authenticator, query), TokenVerdict::Refused, "the code is used");
}

#[test]
fn the_page_of_the_provider_gets_the_hash_of_the_verifier_and_all_that_it_needs() {
    let (_provider, authenticator) = world();
    let request = request(1);
    let page = Url::parse(&page(&authenticator, &request).unwrap()).unwrap();
    let names: Vec<String> = page.query_pairs().map(|(name, _)| name.into_owned()).collect();
    let expected = [
        "response_type",
        "client_id",
        "redirect_uri",
        "scope",
        "state",
        "nonce",
        "code_challenge",
        "code_challenge_method",
    ];
    assert_eq!(names, expected);
    assert!(!page.as_str().contains(&*request.verifier.0), "{page}");
    assert!(page.as_str().contains("scope=openid+profile"), "{page}");
}

/// RFC 7636 §4.6, RFC 6749 §4.1.3, RFC 9207 §2.4: what does not fit the request is refused.
#[test]
fn a_code_of_another_request_is_refused() {
    let (provider, authenticator) = world();
    let other = request(99);
    type Change = fn(&mut CodeQuery, &AuthorizationQuery);
    let changes: [(&str, Change); 6] = [
        ("verifier", |query, other| query.request.verifier = other.verifier.clone()),
        ("nonce", |query, other| query.request.nonce = other.nonce.clone()),
        ("redirect", |query, _| query.request.redirect_uri = "https://evil.test/".into()),
        ("issuer", |query, _| query.issuer = Some("https://other.example".into())),
        ("no issuer", |query, _| query.issuer = None),
        ("code", |query, _| query.code = Hidden("guess".into())),
    ];
    for (number, (what, change)) in (1..).zip(changes) {
        let mut query = returned(&provider, &authenticator, number);
        change(&mut query, &other);
        assert_eq!(exchange(&authenticator, query), TokenVerdict::Refused, "{what}");
    }
    let mut long = returned(&provider, &authenticator, 50);
    long.code = Hidden("c".repeat(4_097).into());
    assert_eq!(exchange(&authenticator, long), TokenVerdict::Refused);
}

/// OpenID Connect Core 1.0 §3.1.3.7.
#[test]
fn an_id_token_is_checked_and_a_failing_provider_refuses_no_user() {
    let (provider, authenticator) = world();
    for (number, fault, expected) in [
        (1, OpenIdFault::OtherNonce, "refused"),
        (2, OpenIdFault::Expired, "refused"),
        (3, OpenIdFault::OtherAudience, "refused"),
        (4, OpenIdFault::OtherKey, "refused"),
        (5, OpenIdFault::Broken, "unavailable"),
        (6, OpenIdFault::Huge, "unavailable"),
        (7, OpenIdFault::Silent, "unavailable"),
        (8, OpenIdFault::None, "alice"),
    ] {
        let query = returned(&provider, &authenticator, number);
        provider.set_fault(fault);
        assert_eq!(name_of(&exchange(&authenticator, query)), expected, "{fault:?}");
        provider.set_fault(OpenIdFault::None);
    }
    for (number, claims, expected) in [
        (11, json!({ "sub": "alice", "aud": ["console", "chat"] }), "refused"),
        (12, json!({ "sub": "alice", "aud": ["console", "chat"], "azp": "chat" }), "refused"),
        (13, json!({ "sub": "alice", "aud": ["console", "chat"], "azp": "console" }), "alice"),
        (14, json!({ "sub": "alice", "aud": ["console"] }), "alice"),
        (15, json!({ "sub": "alice", "iss": "https://other.example" }), "refused"),
        (16, json!({ "sub": "alice@other.test" }), "refused"),
        (17, json!({ "name": "alice" }), "refused"),
    ] {
        provider.set_claims(claims.clone());
        let query = returned(&provider, &authenticator, number);
        assert_eq!(name_of(&exchange(&authenticator, query)), expected, "{claims}");
    }
}

#[test]
fn a_configuration_that_is_not_the_providers_sends_no_browser_away() {
    for fault in [OpenIdFault::OtherIssuer, OpenIdFault::ClearAddress, OpenIdFault::Huge, OpenIdFault::Silent]
    {
        let (provider, authenticator) = world();
        provider.set_fault(fault);
        assert_eq!(page(&authenticator, &request(1)), None, "{fault:?}");
        provider.set_fault(OpenIdFault::None);
        assert_eq!(page(&authenticator, &request(1)), None, "it is asked once in ten seconds");
        let later = AuthorizationQuery { now: NOW + Duration::from_secs(10), ..request(1) };
        assert!(page(&authenticator, &later).is_some(), "{fault:?}");
    }
    // Nothing listens at the issuer.
    let (provider, _) = world();
    let unreachable = JwtSettings { issuer: "http://127.0.0.1:1".into(), ..settings(&provider) };
    assert_eq!(page(&start(kind(unreachable)), &request(1)), None);
}

#[test]
fn a_client_with_a_secret_sends_it_as_the_provider_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "a secret: of 100%\n").unwrap();
    // RFC 6749 §2.3.1: in `Authorization` it is encoded as in a form, and once more in the form itself.
    for (known, in_form) in [("a+secret%3A+of+100%25", false), ("a secret: of 100%", true)] {
        let provider = OpenIdProvider::start(json!({ "sub": "alice" }));
        provider.set_secret(known, in_form);
        let mut settings = settings(&provider);
        settings.provider.as_mut().unwrap().client_secret_file = Some(file.clone());
        let authenticator = start(kind(settings));
        let query = returned(&provider, &authenticator, 1);
        assert_eq!(name_of(&exchange(&authenticator, query)), "alice", "in the form: {in_form}");
        provider.set_secret("another", in_form);
        let query = returned(&provider, &authenticator, 2);
        assert_eq!(
            exchange(&authenticator, query),
            TokenVerdict::Unavailable,
            "a mistake of the configuration"
        );
    }
}
