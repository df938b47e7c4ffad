//! The edge: checks where a request comes from, signs it in, performs it, and writes the answer with the headers that keep a browser from
//! doing more with it than the console's own pages do.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request as HttpRequest, State as Shared};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};

use crate::assets;
use crate::docs;
use crate::fault::Fault;
use crate::guard::{self, AUTOMATIC, CSRF};
use crate::handlers::{Answer, Context, perform};
use crate::parameters::Values;
use crate::role::Role;
use crate::routes::{self, BASE, Found, Operation};
use crate::sign_in::{self, User};
use crate::state::{ActiveSettings, AuditLine, State};

/// Nothing of a page comes from another host, no script and no style stands in it, and no other page shows it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    media-src 'self'; connect-src 'self'; \
    frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

pub(crate) fn router(state: Arc<State>) -> Router {
    Router::new().fallback(answer).with_state(state)
}

async fn answer(Shared(state): Shared<Arc<State>>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let settings = state.settings();
    let mut response = if settings.hosts.allow(&parts.headers) {
        let result = match parts.uri.path().strip_prefix(BASE) {
            Some(path) if path.is_empty() || path.starts_with('/') => {
                interface(&state, &settings, &parts, path, body).await
            }
            _ => page(&state, &settings, &parts).await,
        };
        result.unwrap_or_else(Fault::response)
    } else {
        // RFC 9110 §15.5.20: a host that this server does not answer for.
        let message = "the console does not answer for this host name: see [console] origin";
        Fault::new(StatusCode::MISDIRECTED_REQUEST, message).response()
    };
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A request that a browser makes by an address: for a file, or on the way to a provider and back.
async fn page(state: &State, settings: &ActiveSettings, parts: &Parts) -> Result<Response, Fault> {
    if let Some(answer) = sign_in::answer_provider(state, settings, parts, client_of(parts)).await {
        return answer;
    }
    match docs::path(parts.uri.path()) {
        Some(path) => docs::answer(state, settings, parts, path).await,
        None => assets::answer(parts.method.as_str(), parts.uri.path(), &parts.headers),
    }
}

/// The address of the client. Tests run the router without a connection.
fn client_of(parts: &Parts) -> IpAddr {
    let from = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip());
    from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// A request below `/v1/admin`.
async fn interface(
    state: &State,
    settings: &ActiveSettings,
    parts: &Parts,
    path: &str,
    body: Body,
) -> Result<Response, Fault> {
    let method = match parts.method.as_str() {
        // RFC 9110 §9.3.2: HEAD is GET without the content, which the HTTP library leaves out.
        "HEAD" => "GET",
        other => other,
    };
    let from = client_of(parts);
    let found = match routes::find(method, path) {
        Ok(found) => found,
        Err(methods) => return Ok(not_there(methods)),
    };
    let headers = &parts.headers;
    if found.route.is_change() && !settings.hosts.is_same_origin(headers) {
        return Err(Fault::forbidden("a page of another site asked for this"));
    }
    let body = if found.route.is_change() { read(parts, body).await? } else { Bytes::new() };
    match found.route.operation {
        Operation::SignIn => return begin_session(state, settings, parts, (from, &found, &body)).await,
        Operation::SignInWays => return Ok(write(Answer::Json(sign_in::ways(state)))),
        _ => {}
    }
    let (by_user, is_change) = (!headers.contains_key(AUTOMATIC), found.route.is_change());
    let user = user_of(state, settings, (headers, from), (by_user, is_change)).await?;
    if found.route.role.is_none_or(|least| user.role < least) {
        if is_change {
            note_refusal(state, &user, from, found.route.operation);
        }
        let least = found.route.role.map_or("", Role::name);
        return Err(Fault::forbidden(format!("this needs the role {least}; yours is {}", user.role.name())));
    }
    let values = if is_change {
        Values::of_body(found.route, &body)?
    } else {
        Values::of_query(found.route, parts.uri.query().unwrap_or_default())?
    };
    let Found { route, variables } = found;
    let is_sign_out = route.operation == Operation::SignOut;
    let context = Context { state, settings, route, variables, values, user, from, headers };
    let mut response = write(perform(&context).await?);
    if is_sign_out {
        response.headers_mut().insert(SET_COOKIE, HeaderValue::from_static(CLEAR));
    }
    Ok(response)
}

/// The user of a request: by the cookie of a session, or without one by a token of an identity provider.
async fn user_of(
    state: &State,
    settings: &ActiveSettings,
    (headers, from): (&HeaderMap, IpAddr),
    (by_user, is_change): (bool, bool),
) -> Result<User, Fault> {
    let cookie = guard::cookie(headers);
    // A proxy may sign its requests in at another service: where no source of tokens is, its header field means nothing.
    let bearer = guard::bearer(headers).filter(|_| cookie.is_none() && state.directory.is_some());
    if let Some(bearer) = bearer {
        // No token of changes: a page of another site cannot set this field, and browsers do not by themselves.
        return sign_in::bearer_user(state, settings, (bearer, from), (by_user, is_change)).await;
    }
    let user = sign_in::user_of(state, settings, cookie, (by_user, is_change)).await?;
    let given = guard::text(headers, CSRF).unwrap_or_default();
    if is_change && !stdx::ct_eq(given.as_bytes(), user.session.csrf.as_bytes()) {
        return Err(Fault::forbidden("the token of changes is missing or wrong: load the page again"));
    }
    Ok(user)
}

/// A change that the role does not permit is a line of the log, as one that was made.
fn note_refusal(state: &State, user: &User, from: IpAddr, operation: Operation) {
    state.log.audit(&AuditLine {
        account: &user.session.account.to_string(),
        role: Some(user.role),
        from,
        action: &operation.name(),
        subject: "",
        refused: Some(StatusCode::FORBIDDEN.as_u16()),
    });
}

/// Takes the cookie away.
const CLEAR: &str = "belfry_console=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0";

async fn begin_session(
    state: &State,
    settings: &ActiveSettings,
    parts: &Parts,
    (from, found, body): (IpAddr, &Found, &Bytes),
) -> Result<Response, Fault> {
    let values = Values::of_body(found.route, body)?;
    let (account, password) = (values.text("account"), values.text("password").to_owned());
    let (token, described) = sign_in::sign_in(state, settings, from, (account, password)).await?;
    let mut response = write(Answer::Json(described));
    let cookie = guard::set_cookie(&token, settings.hosts.is_encrypted(&parts.headers));
    let cookie = HeaderValue::from_str(&cookie).map_err(|_| Fault::busy())?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}

/// The body of a change: JSON, which a form of another site cannot send.
async fn read(parts: &Parts, body: Body) -> Result<Bytes, Fault> {
    let body = tokio::time::timeout(admin::limits::BODY_TIME, to_bytes(body, admin::limits::MAX_BODY))
        .await
        .map_err(|_| Fault::new(StatusCode::REQUEST_TIMEOUT, "the body took too long"))?
        .map_err(|_| Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"))?;
    let kind = guard::text(&parts.headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let is_json =
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if !body.is_empty() && !is_json {
        let message = "the body must be application/json";
        return Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(body)
}

fn not_there(methods: Option<Vec<&'static str>>) -> Response {
    let Some(methods) = methods else { return Fault::not_found().response() };
    let message = "this method is not among those of the path";
    let mut response = Fault::new(StatusCode::METHOD_NOT_ALLOWED, message).response();
    // RFC 9110 §15.5.6: a 405 lists the methods of the resource.
    if let Ok(value) = HeaderValue::from_str(&methods.join(", ")) {
        response.headers_mut().insert(ALLOW, value);
    }
    response
}

fn write(answer: Answer) -> Response {
    match answer {
        Answer::Json(value) => ([(CONTENT_TYPE, "application/json")], value.to_string()).into_response(),
        Answer::Csv(body) => {
            let headers = [
                (CONTENT_TYPE, "text/csv; charset=utf-8"),
                (CONTENT_DISPOSITION, "attachment; filename=\"calls.csv\""),
            ];
            (headers, body).into_response()
        }
        Answer::Sound(response) => response,
    }
}
