//! The page at the root of the REST interface and of each of its bases: where the interface is described. Static and the
//! same for every client; nothing of the node, its version or its accounts is in it.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::response::{IntoResponse, Response};

use crate::openapi;
use crate::request::Base;

/// The path of the OpenAPI document.
const OPENAPI: &str = "/openapi.json";

/// The page for people.
const HTML: &str = r#"<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Belfry's REST interface</title></head>
<body>
<h1>Belfry's REST interface</h1>
<p>Accounts, numbers, calls and what comes of them, as RestComm and Twilio have it.</p>
<ul>
<li><a href="/openapi.json">openapi.json</a>: every resource, parameter and answer (OpenAPI 3.1)</li>
<li><a href="/2010-04-01/Accounts.json">/2010-04-01/Accounts</a>: as Twilio's; sign in with an account's sid and token, or with an API key's sid and secret</li>
<li><a href="/restcomm/2012-04-24/Accounts.json">/restcomm/2012-04-24/Accounts</a>: the same as RestComm's</li>
<li><a href="/v1/xmpp/sessions">/v1/xmpp</a>: chat</li>
</ul>
<p>Documents: <code>docs/applications.md</code> and <code>docs/operating.md</code> of the distribution;
<a href="https://www.twilio.com/docs/voice/api" rel="noreferrer">Twilio's API</a>.</p>
</body>
</html>
"#;

/// The page for programs.
const JSON: &str = r#"{"title":"Belfry's REST interface","openapi":"/openapi.json","accounts":"/2010-04-01/Accounts.json","restcomm_accounts":"/restcomm/2012-04-24/Accounts.json","chat":"/v1/xmpp","documentation":["docs/applications.md","docs/operating.md"]}
"#;

/// Made once, as it is the same for all.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(openapi::compact()));

/// The answer to a request for a page; `None`: the path has none. HTTP leaves the body of a HEAD out.
pub(crate) fn page(method: &str, path: &str, accept: &str) -> Option<Response> {
    if method != "GET" {
        return None;
    }
    if path == OPENAPI {
        return Some(respond("application/json; charset=utf-8", DOCUMENT.clone()));
    }
    let path = path.trim_end_matches('/');
    let is_page = path.is_empty() || Base::ALL.iter().any(|base| base.prefix() == path);
    let is_json = accept.contains("application/json");
    let (content_type, text) =
        if is_json { ("application/json; charset=utf-8", JSON) } else { ("text/html; charset=utf-8", HTML) };
    is_page.then(|| respond(content_type, Bytes::from_static(text.as_bytes())))
}

/// The headers keep a browser from doing anything with the page but showing it.
fn respond(content_type: &'static str, body: Bytes) -> Response {
    let headers: [(HeaderName, &str); 8] = [
        (CONTENT_TYPE, content_type),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "public, max-age=3600"),
        (VARY, "Accept"),
        // The answer is long for so short a request: one a connection.
        (CONNECTION, "close"),
    ];
    (headers, Body::from(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_links_of_the_landing_page_are_served_paths() {
        let links = HTML.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let local: Vec<&str> = links.filter(|link| link.starts_with('/')).collect();
        assert_eq!(local.len(), 4);
        for link in local {
            let is_base = Base::ALL.iter().any(|base| link.starts_with(base.prefix()));
            assert!(is_base || link == OPENAPI, "{link}");
        }
        let json: serde_json::Value = serde_json::from_str(JSON).unwrap();
        assert_eq!(json["openapi"], OPENAPI);
        assert!(!HTML.contains("<script") && !HTML.contains(" on"), "nothing to run");
    }
}
