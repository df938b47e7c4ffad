//! The page of users (`web_app`), below `/app/`.

use hyper::header::{CONTENT_SECURITY_POLICY, ETAG, HOST, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use web_app::{PageSettings, Ways};

use super::Front;
use super::route::{Body, empty, full, not_allowed};

/// Requests whose path begins so are for the page.
pub(super) const PREFIX: &str = "/app/";

/// The answer to a request of a path that the page has; `None`: the page is off, or has no such path.
pub(super) fn answer<B>(front: &Front, request: &Request<B>) -> Option<Response<Body>> {
    let page = front.shared.settings.http.app.as_ref()?;
    let path = request.uri().path();
    // Relative: something before this server may have put a path of its own before ours.
    if path == "/" || path == "/app" {
        return Some(redirect("app/"));
    }
    let name = path.strip_prefix(PREFIX)?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some(not_allowed("GET, HEAD"));
    }
    let ways = ways(front, request.headers(), request.uri(), page);
    let response = if name == "settings.json" {
        full(StatusCode::OK, "application/json", ways.settings().into())
    } else {
        file(name, request.headers())?
    };
    Some(bounded(response, &ways))
}

/// An asset of the page, or 304 for a browser that has it (RFC 9110 §13.1.2).
fn file(name: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let asset = web_app::find(name)?;
    let known = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == &*asset.tag));
    let mut response = if is_known {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        full(StatusCode::OK, asset.content_type, bytes::Bytes::from_static(asset.content))
    };
    if let Ok(tag) = HeaderValue::from_str(&asset.tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    Some(response)
}

/// The addresses by which the page reaches this server, as the request has found it.
fn ways(front: &Front, headers: &HeaderMap, uri: &Uri, page: &PageSettings) -> Ways {
    let http = &front.shared.settings.http;
    let host = uri.authority().map(|authority| authority.as_str());
    let host = host.or_else(|| headers.get(HOST)?.to_str().ok());
    let settings = front.shared.stream_settings.borrow();
    Ways::of_request(
        (host, front.is_secure),
        (http.public_url.as_deref(), &http.fallback_url),
        &settings.domains,
        page,
    )
}

fn redirect(to: &'static str) -> Response<Body> {
    let mut response = empty(StatusCode::FOUND);
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    response
}

/// With the headers that bound what a browser does with the answer.
fn bounded(mut response: Response<Body>, ways: &Ways) -> Response<Body> {
    let headers = response.headers_mut();
    for (name, value) in web_app::HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    // Without a policy the page is not shown at all.
    match HeaderValue::from_str(&ways.content_security_policy()) {
        Ok(policy) => headers.insert(CONTENT_SECURITY_POLICY, policy),
        Err(_) => headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'")),
    };
    response
}
