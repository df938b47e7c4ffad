//! The edge: reads a request, runs its handler on the blocking pool, writes the answer in the form asked for.
//!
//! Bodies are read before anything else, within a limit of size and time; then at most `MAX_AT_WORK` requests are at work, and further ones are
//! refused.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request as HttpRequest, State as Shared};
use axum::http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use stdx::attempts::retry_after;
use tokio::sync::Semaphore;

use crate::control::Audio;
use crate::fault::Fault;
use crate::identity;
use crate::landing;
use crate::limits;
use crate::request::{Base, Format, Request};
use crate::service::State;
use crate::sign_in::{self, SignInError, Signer};
use crate::table::{Answer, Context, Found, find};

/// The state of the router, cloned for each request.
#[derive(Clone)]
struct Edge {
    state: Arc<State>,
    /// The places of requests that are at work.
    at_work: Arc<Semaphore>,
}

/// Answers everything under the bases, the pages that lead there, and 404 to everything else. Failed sign-ins are held against the
/// address in `ConnectInfo<SocketAddr>`, when the server gives it (`into_make_service_with_connect_info`).
pub fn router(state: Arc<State>) -> Router {
    let at_work = Arc::new(Semaphore::new(limits::MAX_AT_WORK));
    Router::new().fallback(answer).with_state(Edge { state, at_work })
}

/// Every request comes here.
async fn answer(Shared(edge): Shared<Edge>, request: HttpRequest) -> Response {
    let (parts, body) = request.into_parts();
    let accept = header(&parts.headers, ACCEPT.as_str());
    let method = match parts.method.as_str() {
        // RFC 9110 §9.3.2: HEAD is GET without the content, which the HTTP library leaves out.
        "GET" | "HEAD" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "",
    };
    if let Some(page) = landing::page(method, parts.uri.path(), accept) {
        return page;
    }
    let Some(mut request) = Request::parse(method, parts.uri.path(), accept) else {
        return (StatusCode::NOT_FOUND, "Not Found: / says what is here\n").into_response();
    };
    let from = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip());
    // Tests run the router without a connection.
    let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    if let Err(fault) = read(&mut request, &parts, body).await {
        return refuse(&request, &fault);
    }
    // Refused at once rather than queued: a queue would hold the bodies of all that wait.
    let Ok(permit) = edge.at_work.clone().try_acquire_owned() else {
        return refuse(&request, &Fault::busy());
    };
    let authorization = header(&parts.headers, AUTHORIZATION.as_str()).to_owned();
    // Handlers wait for the database, so they run on a thread of the blocking pool.
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let done = perform(&edge.state, &request, from, &authorization);
        (request, done)
    });
    match work.await {
        // Waited for here, where it takes no place of `at_work`, and where a client that hangs up drops it.
        Ok((request, Ok(Answer::Encoding(encoding)))) => match encoding.await {
            Ok(audio) => sound(audio),
            Err(error) => Refusal::from(Fault::from(error)).response(&request),
        },
        Ok((request, Ok(answer))) => write(&request, answer),
        Ok((request, Err(refusal))) => refusal.response(&request),
        // A handler that panicked is a defect of ours; it ends this request only.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The value of a header field; empty if it is missing or not visible ASCII.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The parameters, from query and body.
async fn read(request: &mut Request, parts: &Parts, body: Body) -> Result<(), Fault> {
    request.add_form(parts.uri.query().unwrap_or_default())?;
    // Both limits hold before the sign-in is checked, because the body is read first.
    let body = tokio::time::timeout(limits::BODY_TIME, to_bytes(body, limits::MAX_BODY))
        .await
        .map_err(|_| Fault::new(408, 20408, "The request's body took too long"))?
        .map_err(|_| Fault::new(413, 20413, format!("The body is longer than {} bytes", limits::MAX_BODY)))?;
    if body.is_empty() {
        return Ok(());
    }
    let content_type = header(&parts.headers, CONTENT_TYPE.as_str());
    // Twilio's interface takes forms only; RFC 9110 §15.5.16 names 415 for other content.
    if !content_type.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") {
        return Err(Fault::new(415, 20415, "The body must be application/x-www-form-urlencoded"));
    }
    let form = std::str::from_utf8(&body).map_err(|_| Fault::invalid(20400, "The body is not UTF-8"))?;
    request.add_form(form)
}

/// A fault with what HTTP says beside it.
struct Refusal {
    fault: Fault,
    /// A header field of the answer.
    header: Option<(axum::http::HeaderName, String)>,
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let header = match fault.status {
            // RFC 9110 §15.5.2: a 401 has a challenge.
            401 => Some((WWW_AUTHENTICATE, "Basic realm=\"belfry\"".to_owned())),
            // RFC 9110 §15.6.4: a 503 may say when to ask again.
            503 => Some((RETRY_AFTER, limits::RETRY_AFTER.to_string())),
            _ => None,
        };
        Refusal { fault, header }
    }
}

impl Refusal {
    /// The fault in the form that was asked for, with the header field.
    fn response(self, request: &Request) -> Response {
        let mut response = refuse(request, &self.fault);
        if let Some((name, value)) = self.header
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Signs the request in, finds its handler, checks its parameters and runs the handler, in this order: an
/// unauthenticated client learns no paths.
fn perform(state: &State, request: &Request, from: IpAddr, authorization: &str) -> Result<Answer, Refusal> {
    let signer = sign_in(state, from, authorization)?;
    let (route, variables) = match find(request) {
        Found::Route(route, variables) => (route, variables),
        Found::Nothing => return Err(Fault::not_found(&request.path).into()),
        Found::Methods(methods) => {
            let fault = Fault::new(405, 20405, format!("{} is not among the methods here", request.method));
            // RFC 9110 §15.5.6: a 405 lists the methods of the resource.
            return Err(Refusal { fault, header: Some((ALLOW, methods.join(", "))) });
        }
    };
    signer.check(route)?;
    let account = match variables.first() {
        Some(name) if request.base != Base::Belfry => signer.target(state, name)?,
        _ => signer.account.clone(),
    };
    route.check(request)?;
    let Signer { account: signer, is_by_key } = signer;
    let context = Context { state, request, route, variables, account, signer, is_by_key };
    Ok((route.handler)(&context)?)
}

/// The account that asks, unless too many tokens were wrong before.
fn sign_in(state: &State, from: IpAddr, authorization: &str) -> Result<Signer, Refusal> {
    let name = sign_in::claimed(authorization);
    if let Some(wait) = state.wait(from, &name) {
        // RFC 6585 §4: a 429 may say how long to wait.
        let header = Some((RETRY_AFTER, retry_after(wait).to_string()));
        return Err(Refusal { fault: Fault::busy(), header });
    }
    let bearer = identity::bearer(authorization);
    let signer = match bearer {
        Some(token) => identity::signer(state, from, token),
        None => sign_in::signer(state, authorization),
    };
    // Tokens that are tried at once are compared beside each other: others may have failed meanwhile. Right or wrong, the answer is the same.
    if let (Ok(_) | Err(SignInError::Failed(_)), Some(wait)) = (&signer, state.wait(from, &name)) {
        let header = Some((RETRY_AFTER, retry_after(wait).to_string()));
        return Err(Refusal { fault: Fault::busy(), header });
    }
    match signer {
        Ok(signer) => {
            // A token names no account before it is verified: the failures of the address stay.
            if bearer.is_none() {
                state.succeeded(from, &name);
            }
            Ok(signer)
        }
        Err(SignInError::Failed(cause)) => {
            // No header at all is how browsers and some libraries begin: no guess was made.
            if !authorization.is_empty() {
                state.failed(from, &name, cause);
            }
            let mut refusal = Refusal::from(Fault::sign_in());
            if bearer.is_some() {
                // RFC 6750 §3: a token that is not accepted is told so.
                refusal.header = Some((WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"".to_owned()));
            }
            Err(refusal)
        }
        Err(SignInError::Fault(fault)) => Err(fault.into()),
    }
}

/// The answer of a handler, in the form that was asked for.
fn write(request: &Request, answer: Answer) -> Response {
    match answer {
        Answer::Nothing => StatusCode::NO_CONTENT.into_response(),
        Answer::Audio(audio) => sound(audio),
        // `answer` has waited for it.
        Answer::Encoding(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Answer::Item(status, name, value) => {
            document(request, status, |json, out| if json { value.json(out) } else { value.xml(name, out) })
        }
        Answer::List(list) => {
            document(
                request,
                200,
                |json, out| {
                    if json { list.json(request, out) } else { list.xml(request, out) }
                },
            )
        }
    }
}

/// A fault in the form that was asked for. `RestException` is Twilio's element.
fn refuse(request: &Request, fault: &Fault) -> Response {
    let value = fault.value();
    document(
        request,
        fault.status,
        |json, out| {
            if json { value.json(out) } else { value.xml("RestException", out) }
        },
    )
}

/// Writes an answer as JSON, or as XML under the root element of its base. `fill` gets true for JSON. Sound that fails
/// is reported in JSON, whatever its suffix.
fn document(request: &Request, status: u16, fill: impl FnOnce(bool, &mut String)) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut out = String::new();
    if request.format == Format::Xml {
        let root = request.base.root();
        out.push_str(&format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root}>"));
        fill(false, &mut out);
        out.push_str(&format!("</{root}>\n"));
        (status, [(CONTENT_TYPE, "application/xml; charset=utf-8")], out).into_response()
    } else {
        fill(true, &mut out);
        (status, [(CONTENT_TYPE, "application/json; charset=utf-8")], out).into_response()
    }
}

/// In pieces, read on the blocking pool one at a time as the client takes them.
fn sound(audio: Audio) -> Response {
    let headers = [(CONTENT_TYPE, audio.media_type.to_owned()), (CONTENT_LENGTH, audio.length.to_string())];
    (headers, sound_body(audio.read, audio.length)).into_response()
}

/// The next so many bytes as the content of an answer. They are read on the blocking pool, one piece at a time as the client takes
/// them; the content ends early, which ends the connection, if the file is shorter.
pub fn sound_body(read: Box<dyn Read + Send>, length: u64) -> Body {
    let pieces = futures_util::stream::unfold((read, length), |(mut read, left)| async move {
        if left == 0 {
            return None;
        }
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(limits::AUDIO_PIECE);
        let work = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; size];
            let done = read.read_exact(&mut piece).map(|()| Bytes::from(piece));
            (done, read)
        });
        let (done, read) = work.await.ok()?;
        // A file that is shorter than it said ends the connection: the length was promised.
        let left = if done.is_ok() { left - size as u64 } else { 0 };
        Some((done, (read, left)))
    });
    Body::from_stream(pieces)
}
