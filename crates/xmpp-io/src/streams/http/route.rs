//! Routes HTTP requests to their services, and answers pages of other sites (CORS).

use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, CONTENT_TYPE, HOST, HeaderName,
    HeaderValue, ORIGIN, UPGRADE, VARY,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use net::admission::Handle;
use net::ws;
use tokio::time::timeout;

use super::{Front, app, bosh, files, invitation};

pub(super) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, io::Error>>;

/// Every request of every connection comes here.
pub(super) async fn answer(
    front: Rc<Front>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    front.has_asked.set(true);
    front.shared.counts.count(|counters| counters.http_requests += 1);
    front.source.set(front.shared.settings.proxies.source(front.remote, request.headers()));
    let origin = request.headers().get(ORIGIN).cloned();
    // Others are offers, as of a newer HTTP, which need not be taken.
    let wanted = request.headers().get(UPGRADE).filter(|_| request.method() == Method::GET);
    let mut response = if wanted.is_some_and(|name| name.as_bytes().eq_ignore_ascii_case(b"websocket")) {
        websocket(&front, &request)
    } else {
        serve(&front, request).await
    };
    if response.status().is_client_error() || response.status().is_server_error() {
        front.shared.counts.count(|counters| counters.http_refused += 1);
    }
    if let Some(origin) = origin.filter(|origin| front.allows(origin)) {
        let headers = response.headers_mut();
        let any = front.shared.settings.origins.is_empty();
        let allowed = if any { HeaderValue::from_static("*") } else { origin };
        headers.entry(ACCESS_CONTROL_ALLOW_ORIGIN).or_insert(allowed);
        headers.append(VARY, HeaderValue::from_static("origin"));
        // Headers of files.
        let exposed = HeaderValue::from_static("content-range, content-disposition");
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
    Ok(response)
}

impl Front {
    /// True if pages of that site may ask. A client without an Origin is no browser.
    fn allows(&self, origin: &HeaderValue) -> bool {
        ws::allows(&self.shared.settings.origins, origin.as_bytes())
    }

    /// The URL by which the client finds this server.
    fn base(&self, headers: &HeaderMap, uri: &Uri) -> String {
        let http = &self.shared.settings.http;
        if let Some(url) = &http.public_url {
            return url.to_string();
        }
        let host = uri.authority().map(|authority| authority.as_str());
        let host = host.or_else(|| headers.get(HOST)?.to_str().ok());
        // Only names of ours: what a header says goes into a document.
        let is_ours = |host: &&str| {
            let (name, port) = host.split_once(':').unwrap_or((host, "0"));
            port.parse::<u16>().is_ok()
                && self.shared.stream_settings.borrow().domains.iter().any(|own| **own == *name)
        };
        match host.filter(is_ours) {
            Some(host) => format!("{}://{host}", if self.is_secure { "https" } else { "http" }),
            None => http.fallback_url.to_string(),
        }
    }
}

/// Answers a request to become a WebSocket (RFC 7395). The connection leaves HTTP after the response.
fn websocket(front: &Front, request: &Request<Incoming>) -> Response<Body> {
    let source = front.source.get();
    if source != front.remote && !front.shared.has_place_behind_proxy(source) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "too many connections from your address");
    }
    match ws::answer("xmpp", &front.shared.settings.origins, request) {
        Ok(response) => {
            front.is_upgraded.set(true);
            response.map(|()| Either::Left(Full::default()))
        }
        Err((status, why)) => text(status, &why),
    }
}

/// Answers a request that is no upgrade, by its path. Pages of origins that are not allowed get only the discovery document.
async fn serve(front: &Rc<Front>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let is_refused = request.headers().get(ORIGIN).is_some_and(|origin| !front.allows(origin));
    match &*path {
        "/.well-known/host-meta" | "/.well-known/host-meta.json" => host_meta(front, &request),
        "/.well-known/posh/xmpp-client.json" | "/.well-known/posh/xmpp-server.json" => posh(front, &request),
        _ if is_refused => text(StatusCode::FORBIDDEN, "this origin is not allowed"),
        "/bosh" | "/bosh/" | "/http-bind" | "/http-bind/" => match *request.method() {
            Method::POST => post(front, request).await,
            Method::OPTIONS => preflight("POST, OPTIONS"),
            Method::GET | Method::HEAD => {
                text(StatusCode::OK, "Chat clients connect here with BOSH (XEP-0124).")
            }
            _ => not_allowed("POST, OPTIONS"),
        },
        _ => {
            if let Some(name) = path.strip_prefix(files::PREFIX) {
                return files::serve(front, name, request).await;
            }
            let has_page = front.shared.settings.http.invitations;
            if let Some(token) = path.strip_prefix(invitation::PREFIX).filter(|_| has_page) {
                return invitation::serve(front, request.method(), token).await;
            }
            let nothing = "Nothing is here. Chat clients connect with WebSocket, or at /bosh.";
            app::answer(front, &request).unwrap_or_else(|| text(StatusCode::NOT_FOUND, nothing))
        }
    }
}

/// XEP-0156: the discovery document, which every site may read.
fn host_meta(front: &Front, request: &Request<Incoming>) -> Response<Body> {
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return preflight("GET, HEAD, OPTIONS"),
        _ => return not_allowed("GET, HEAD, OPTIONS"),
    }
    let base = front.base(request.headers(), request.uri());
    let websocket = format!("{}/ws", base.replacen("http", "ws", 1));
    let links = [
        ("urn:xmpp:alt-connections:websocket", websocket),
        ("urn:xmpp:alt-connections:xbosh", format!("{base}/bosh")),
    ];
    let is_json = request.uri().path().ends_with(".json");
    let (kind, content) = if is_json {
        let links: Vec<_> =
            links.iter().map(|(rel, href)| serde_json::json!({ "rel": rel, "href": href })).collect();
        ("application/json", serde_json::json!({ "links": links }).to_string())
    } else {
        let link = |(rel, href): &(&str, String)| {
            format!("  <Link rel='{rel}' href='{}'/>\n", xmpp::xml::escape(href))
        };
        let links: String = links.iter().map(link).collect();
        let xrd = "http://docs.oasis-open.org/ns/xri/xrd-1.0";
        (
            "application/xrd+xml",
            format!("<?xml version='1.0' encoding='utf-8'?>\n<XRD xmlns='{xrd}'>\n{links}</XRD>\n"),
        )
    };
    let mut response = full(StatusCode::OK, kind, content.into());
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Seconds for which a peer may remember the certificate. A day: a new one stands in the document before the old one ends.
const POSH_LIFETIME: u32 = 24 * 3600;

/// The certificate of the streams of XMPP, for those who asked the domain for it over HTTPS: a domain that is hosted here needs no certificate of
/// its own at this server (RFC 7711). Every site may read it.
fn posh(front: &Front, request: &Request<Incoming>) -> Response<Body> {
    match *request.method() {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return preflight("GET, HEAD, OPTIONS"),
        _ => return not_allowed("GET, HEAD, OPTIONS"),
    }
    let Some(fingerprint) = front.shared.settings.tls.as_ref().and_then(|tls| tls.fingerprint()) else {
        return text(StatusCode::NOT_FOUND, "This server has no certificate.");
    };
    let fingerprint = BASE64_STANDARD.encode(fingerprint);
    let document =
        serde_json::json!({ "fingerprints": [{ "sha-256": fingerprint }], "expires": POSH_LIFETIME });
    let mut response = full(StatusCode::OK, "application/json", document.to_string().into());
    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Answers a request of BOSH: reads its body, of bounded size and in bounded time, and waits for the session.
async fn post(front: &Rc<Front>, request: Request<Incoming>) -> Response<Body> {
    let largest = front.shared.stream_settings.borrow().max_stanza + xmpp::limits::BOSH_WRAPPER;
    let body = Limited::new(request.into_body(), largest).collect();
    let body = match timeout(front.shared.settings.http.body_within, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return text(StatusCode::PAYLOAD_TOO_LARGE, "a stanza larger than this server takes");
        }
        Ok(Err(_)) => return text(StatusCode::BAD_REQUEST, "a body that breaks off"),
        Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the body takes too long"),
    };
    // While a request is held, its connection is not idle.
    let busy = front.handle.as_ref().map(Handle::busy);
    let done = bosh::post(front, &body).await;
    drop(busy);
    match done {
        Ok(reply) => {
            let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
            full(status, "text/xml; charset=utf-8", String::from(reply.body).into())
        }
        Err(status) => text(status, "try again"),
    }
}

pub(super) fn text(status: StatusCode, what: &str) -> Response<Body> {
    full(status, "text/plain; charset=utf-8", format!("{what}\n").into())
}

pub(super) fn full(status: StatusCode, kind: &'static str, content: Bytes) -> Response<Body> {
    let mut response = empty(status);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    *response.body_mut() = Either::Left(Full::new(content));
    response
}

pub(super) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

/// The headers and methods that a page may use; its origin has been checked.
pub(super) fn preflight(methods: &'static str) -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let mut add =
        |name: HeaderName, value| response.headers_mut().insert(name, HeaderValue::from_static(value));
    add(ACCESS_CONTROL_ALLOW_METHODS, methods);
    add(ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, range");
    add(ACCESS_CONTROL_MAX_AGE, "7200");
    response
}

pub(super) fn not_allowed(methods: &'static str) -> Response<Body> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "not here");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}
