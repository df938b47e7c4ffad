//! The files of the pages, which are in the binary as they are in the folder `assets`.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::fault::Fault;
use crate::guard;

/// One file.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $kind:expr) => {
        Asset { path: concat!("/", $path), kind: $kind, text: include_str!(concat!("../assets/", $path)) }
    };
}

pub(crate) static ASSETS: [Asset; 21] = [
    asset!("index.html", HTML),
    asset!("console.css", "text/css; charset=utf-8"),
    asset!("icon.svg", "image/svg+xml"),
    asset!("lang/en.json", "application/json"),
    asset!("js/main.js", SCRIPT),
    asset!("js/api.js", SCRIPT),
    asset!("js/dom.js", SCRIPT),
    asset!("js/graph.js", SCRIPT),
    asset!("js/text.js", SCRIPT),
    asset!("js/overview.js", SCRIPT),
    asset!("js/calls.js", SCRIPT),
    asset!("js/live.js", SCRIPT),
    asset!("js/accounts.js", SCRIPT),
    asset!("js/sessions.js", SCRIPT),
    asset!("js/registrations.js", SCRIPT),
    asset!("js/trace.js", SCRIPT),
    asset!("js/ladder.js", SCRIPT),
    asset!("js/qr.js", SCRIPT),
    asset!("js/routes.js", SCRIPT),
    asset!("js/security.js", SCRIPT),
    asset!("js/farm.js", SCRIPT),
];

/// Strong validators (RFC 9110 §8.8.3), made once.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |asset: &Asset| format!("\"{}\"", stdx::hex::encode(&Sha256::digest(asset.text)[..16]));
    ASSETS.iter().map(tag).collect()
});

/// The answer to a request for a file.
pub(crate) fn answer(method: &str, path: &str, headers: &HeaderMap) -> Result<Response, Fault> {
    if !matches!(method, "GET" | "HEAD") {
        return Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is possible here"));
    }
    let path = if path == "/" { "/index.html" } else { path };
    let found = ASSETS.iter().zip(TAGS.iter()).find(|(asset, _)| asset.path == path);
    let (asset, tag) = found.ok_or_else(Fault::not_found)?;
    let is_known = guard::text(headers, IF_NONE_MATCH.as_str())
        .is_some_and(|known| known.split(',').any(|known| known.trim().trim_start_matches("W/") == tag));
    // The program may be another one tomorrow: a browser asks each time, and is mostly told that nothing has changed.
    let common: [(HeaderName, &str); 2] = [(ETAG, tag), (CACHE_CONTROL, "no-cache")];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    let own: [(HeaderName, &str); 2] = [
        (CONTENT_TYPE, asset.kind),
        // The answer is long for so short a request: one a connection.
        (CONNECTION, "close"),
    ];
    Ok((common, own, Body::from(Bytes::from_static(asset.text.as_bytes()))).into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn get(path: &str, known: Option<&str>) -> Response {
        let mut headers = HeaderMap::new();
        if let Some(known) = known {
            headers.insert(IF_NONE_MATCH, HeaderValue::from_str(known).unwrap());
        }
        answer("GET", path, &headers).unwrap_or_else(Fault::response)
    }

    #[test]
    fn a_file_that_the_browser_has_is_not_sent_again_and_a_long_one_closes_the_connection() {
        for asset in &ASSETS {
            let first = get(asset.path, None);
            assert_eq!(
                (first.status(), first.headers()[CONNECTION].as_bytes()),
                (StatusCode::OK, &b"close"[..])
            );
            let tag = first.headers()[ETAG].to_str().unwrap();
            assert!(tag.starts_with('"') && tag.len() == 34, "{tag}");
            assert_eq!(get(asset.path, Some(&format!("\"a\", {tag}"))).status(), StatusCode::NOT_MODIFIED);
            assert_eq!(get(asset.path, Some("\"a\"")).status(), StatusCode::OK);
            assert!(asset.text.len() < 24_000, "{}: one answer is short", asset.path);
        }
        assert_eq!(get("/", None).headers()[ETAG], get("/index.html", None).headers()[ETAG]);
        assert_eq!(get("/js/../index.html", None).status(), StatusCode::NOT_FOUND);
        assert!(answer("POST", "/", &HeaderMap::new()).is_err());
    }

    /// Every name in a page comes from strangers, so pages are made of text nodes only.
    #[test]
    fn no_page_makes_markup_of_text_and_none_names_another_host() {
        for asset in &ASSETS {
            for word in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            {
                assert!(!asset.text.contains(word), "{}: {word}", asset.path);
            }
            let others = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("//www.") && !others.contains("https://"), "{}", asset.path);
        }
        let page = ASSETS[0].text;
        assert!(!page.contains(" style=") && !page.contains(" onclick=") && !page.contains("<script>"));
    }

    #[test]
    fn every_module_that_is_imported_is_served_and_every_text_is_there() {
        let english: serde_json::Value = serde_json::from_str(ASSETS[3].text).unwrap();
        for asset in &ASSETS {
            for part in asset.text.split(" from \"./").skip(1) {
                let name = part.split('"').next().unwrap();
                let path = format!("/js/{name}");
                assert!(ASSETS.iter().any(|other| other.path == path), "{}: {name}", asset.path);
            }
            // Calls of `t("key")`, and of `t("key", …)`.
            for part in asset.text.split("t(\"").skip(1) {
                let key = part.split('"').next().unwrap();
                let is_key = key.contains('.')
                    && key.bytes().all(|c| c.is_ascii_lowercase() || c == b'.' || c == b'_');
                assert!(!is_key || english[key].is_string(), "{}: no text {key}", asset.path);
            }
        }
    }
}
