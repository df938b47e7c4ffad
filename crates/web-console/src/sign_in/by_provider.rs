//! Sign-in at the OpenID provider of a domain: the page sends the browser there, and the provider sends it back with a code (OpenID Connect Core 1.0 §3.1, with
//! PKCE, RFC 7636).
//!
//! The node keeps nothing of a sign-in that is under way, so none of them takes memory from others. A cookie of ten minutes has a random number; state, nonce
//! and the verifier of PKCE are made of it with a key that the nodes of a farm share, so that each of them can take the answer. The browser knows neither
//! nonce nor verifier beforehand, and a page that has a code of another browser has no cookie that fits the state (RFC 6749 §10.12). A code is used once: the
//! provider refuses it then (§4.1.2), and the cookie is taken away with each answer.

use std::net::IpAddr;

use axum::http::header::{HOST, LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use stdx::attempts::{Attempt, Cause, without_port};
use stdx::{Instant, hex};
use store::Address;

use super::{OpenCheck, begin_session, may_sign_in, pace, prepared, refuse};
use crate::directory::{AuthorizationRequest, ReturnedCode, TokenUser, TokenVerdict};
use crate::fault::Fault;
use crate::guard;
use crate::limits;
use crate::parameters::decode_up_to;
use crate::sessions::{Proof, SignedIn, Token};
use crate::state::{ActiveSettings, State};

/// The way to the provider.
const BEGIN: &str = "/sign-in/begin";

/// The way back, which is registered at the provider with the console's public address before it.
const CALLBACK: &str = "/sign-in/callback";

/// The cookie of a sign-in that is under way.
const COOKIE: &str = "belfry_sign_in";

/// A reason for which a sign-in ended, as the page's texts name it: `sign_in.error.` and this.
type Reason = &'static str;

/// The ways to sign in, for the page: whether a token may stand in place of a password, and the providers.
pub(crate) fn ways(state: &State) -> Value {
    let directory = state.directory.as_deref();
    let providers = directory.map(|directory| directory.providers()).unwrap_or_default();
    let provider = |(domain, label): &(Box<str>, Box<str>)| json!({ "domain": domain, "label": label });
    json!({
        "tokens": directory.is_some_and(|directory| directory.takes_any_tokens()),
        "providers": providers.iter().map(provider).collect::<Vec<_>>(),
    })
}

/// The answer to a request for one of the two addresses; none for other paths.
pub(crate) async fn answer(
    state: &State,
    settings: &ActiveSettings,
    parts: &Parts,
    from: IpAddr,
) -> Option<Result<Response, Fault>> {
    let path = parts.uri.path();
    if ![BEGIN, CALLBACK].contains(&path) {
        return None;
    }
    // A HEAD would use a code up, too.
    if parts.method.as_str() != "GET" {
        let message = "only GET is possible here";
        return Some(Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, message)));
    }
    let query = Query(parts.uri.query().unwrap_or_default());
    Some(match path {
        BEGIN => begin(state, settings, &parts.headers, (&query, from)).await,
        _ => Ok(end(state, settings, &parts.headers, (&query, from)).await),
    })
}

/// The parameters of a request.
struct Query<'q>(&'q str);

impl Query<'_> {
    /// A parameter that stands once and is not too long (RFC 6749 §3.1: none stands more than once).
    fn get(&self, name: &str) -> Option<String> {
        let mut values =
            self.0.split('&').filter_map(|pair| pair.split_once('=')).filter(|(found, _)| *found == name);
        let (_, value) = values.next()?;
        let is_alone = values.next().is_none();
        decode_up_to(limits::MAX_CREDENTIAL, value, true).filter(|_| is_alone)
    }
}

/// Sends the browser to the provider of a domain.
async fn begin(
    state: &State,
    settings: &ActiveSettings,
    headers: &HeaderMap,
    (query, from): (&Query<'_>, IpAddr),
) -> Result<Response, Fault> {
    let directory = state.directory.as_deref().ok_or_else(Fault::not_found)?;
    let domain = query.get("domain").unwrap_or_default();
    if !directory.providers().iter().any(|(known, _)| **known == *domain) {
        return Err(Fault::not_found());
    }
    let base = settings.public_url();
    // The cookie has to be of the host to which the provider sends the browser back. A proxy may have changed the name: once is enough.
    let host = guard::text(headers, HOST.as_str()).unwrap_or_default();
    let is_there = base.split_once("://").is_some_and(|(_, public)| public.eq_ignore_ascii_case(host));
    if !is_there && query.get("again").is_none() {
        let domain: String = domain.bytes().map(|byte| format!("%{byte:02x}")).collect();
        return Ok(redirect(&format!("{base}{BEGIN}?again=1&domain={domain}"), &[]));
    }
    let unnamed = Attempt { source: without_port(from), user: "", domain: "" };
    if pace(state, &unnamed, from, "").is_err() {
        return Ok(sent_away("too_many"));
    }
    let is_encrypted = settings.hosts.is_encrypted(headers);
    let flow = Flow { id: state.random(), began_at: state.now(), domain: domain.into() };
    let request = flow.request(state, settings, state.now());
    match directory.sign_in_page(&flow.domain, request).await {
        Some(page) => Ok(redirect(&page, &[flow.cookie(is_encrypted)])),
        None => Ok(sent_away("unavailable")),
    }
}

/// Takes the parameters with which the provider has sent the browser back. The page tells the user what was wrong.
async fn end(
    state: &State,
    settings: &ActiveSettings,
    headers: &HeaderMap,
    (query, from): (&Query<'_>, IpAddr),
) -> Response {
    let is_encrypted = settings.hosts.is_encrypted(headers);
    match finish(state, settings, headers, (query, from)).await {
        Ok(token) => redirect("/", &[guard::set_cookie(&token, is_encrypted), cleared()]),
        Err(reason) => sent_away(reason),
    }
}

async fn finish(
    state: &State,
    settings: &ActiveSettings,
    headers: &HeaderMap,
    (query, from): (&Query<'_>, IpAddr),
) -> Result<Token, Reason> {
    let flow = Flow::of_cookie(headers).filter(|flow| flow.is_young(state.now())).ok_or("expired")?;
    let request = flow.request(state, settings, state.now());
    let given = query.get("state").unwrap_or_default();
    if !stdx::ct_eq(given.as_bytes(), request.state.as_bytes()) {
        return Err("expired");
    }
    // RFC 6749 §4.1.2.1: the user or the provider has refused. The provider's words are not shown.
    if query.get("error").is_some() {
        return Err("denied");
    }
    let code = query.get("code").ok_or("denied")?;
    let unnamed = Attempt { source: without_port(from), user: "", domain: "" };
    pace(state, &unnamed, from, "").map_err(|_| "too_many")?;
    let returned = ReturnedCode { request, code, issuer: query.get("iss") };
    let mut open = OpenCheck { state, attempt: &unnamed, from, name: "", has_ended: false };
    let found = check(state, &flow.domain, returned).await;
    let may = match &found {
        Ok(Some((account, _))) => may_sign_in(state, account).await.map_err(|_| "unavailable"),
        Ok(None) => Ok(false),
        Err(reason) => Err(*reason),
    };
    open.has_ended = true;
    let (account, user) = match (found?, may?) {
        (Some(found), true) => found,
        (found, _) => {
            let cause = if found.is_some() { Cause::UnknownAccount } else { Cause::WrongPassword };
            let _ = refuse(state, &unnamed, from, "", cause);
            return Err("not_accepted");
        }
    };
    let role = settings.settings.roles.of(&account).max(user.role);
    let proof = Proof::Token { role: user.role, ends_at: user.ends_at };
    let token = state.random();
    begin_session(state, settings, SignedIn { account, proof, token }, (role, from))
        .map_err(|_| "no_role")?;
    Ok(token)
}

/// The account for which the provider has given the code.
async fn check(
    state: &State,
    domain: &str,
    returned: ReturnedCode,
) -> Result<Option<(Address, TokenUser)>, Reason> {
    let directory = state.directory.as_deref().ok_or("unavailable")?;
    match directory.check_code(domain, returned).await {
        TokenVerdict::Accepted(user) => Ok(prepared(&user.name, domain).map(|account| (account, user))),
        TokenVerdict::Refused => Ok(None),
        TokenVerdict::Unavailable => Err("unavailable"),
    }
}

/// A sign-in that is under way, as its cookie has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flow {
    id: Token,
    began_at: Instant,
    domain: Box<str>,
}

impl Flow {
    /// The parameters that the browser carries to the provider. They are the same at each node of a farm.
    fn request(&self, state: &State, settings: &ActiveSettings, now: Instant) -> AuthorizationRequest {
        let of = |purpose| hex::encode(&self.derive(state.sign_in_key(), purpose));
        AuthorizationRequest {
            now,
            redirect_uri: format!("{}{CALLBACK}", settings.public_url()),
            state: of("state"),
            nonce: of("nonce"),
            // 64 characters, of those that RFC 7636 §4.1 has.
            verifier: of("verifier"),
        }
    }

    /// A secret for one purpose, which all parts of the cookie go into: a changed one fits no state.
    fn derive(&self, key: &Token, purpose: &str) -> Token {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        for part in [purpose.as_bytes(), b" ", self.value().as_bytes()] {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// The value of the cookie. The domain may have letters that no cookie has (RFC 6265 §4.1.1).
    fn value(&self) -> String {
        let (id, domain) = (hex::encode(&self.id), hex::encode(self.domain.as_bytes()));
        format!("{id}.{}.{domain}", self.began_at.as_micros())
    }

    fn cookie(&self, is_encrypted: bool) -> String {
        let secure = if is_encrypted { "; Secure" } else { "" };
        let seconds = limits::SIGN_IN_TIME.as_secs();
        // Lax: the provider's page leads back here.
        format!("{COOKIE}={}; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}", self.value())
    }

    fn of_cookie(headers: &HeaderMap) -> Option<Flow> {
        let value = guard::cookie_value(headers, COOKIE).filter(|value| value.len() <= limits::MAX_TEXT)?;
        let mut parts = value.split('.');
        let (id, began_at, domain) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        Some(Flow {
            id: hex::decode_array(id)?,
            began_at: Instant::from_micros(began_at.parse().ok()?),
            domain: String::from_utf8(hex::decode(domain)?).ok()?.into(),
        })
    }

    /// False after its time, and for a time that has not come: nodes' clocks differ by less.
    fn is_young(&self, now: Instant) -> bool {
        now.since(self.began_at) < limits::SIGN_IN_TIME && self.began_at.since(now) < limits::SIGN_IN_CLOCKS
    }
}

/// Takes the cookie of a sign-in away.
fn cleared() -> String {
    format!("{COOKIE}=; Path=/sign-in; HttpOnly; SameSite=Lax; Max-Age=0")
}

/// Sends the browser to the page, which tells why the sign-in has ended.
fn sent_away(reason: Reason) -> Response {
    redirect(&format!("/?sign_in={reason}"), &[cleared()])
}

/// The address is one of ours or the provider's: none that a request names.
fn redirect(to: &str, cookies: &[String]) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    let headers = response.headers_mut();
    let Ok(location) = HeaderValue::from_str(to) else { return Fault::unexpected().response() };
    headers.insert(LOCATION, location);
    for cookie in cookies {
        if let Ok(cookie) = HeaderValue::from_str(cookie) {
            headers.append(SET_COOKIE, cookie);
        }
    }
    response
}
