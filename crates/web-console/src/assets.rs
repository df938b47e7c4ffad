//! The files of the pages, which are in the binary as they are in the folder `assets`.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONNECTION, CONTENT_LANGUAGE, CONTENT_TYPE, ETAG, HeaderName,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use crate::fault::Fault;
use crate::guard;
use crate::limits;

/// One file.
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($path:literal, $kind:expr) => {
        Asset { path: concat!("/", $path), kind: $kind, text: include_str!(concat!("../assets/", $path)) }
    };
}

pub(crate) static ASSETS: [Asset; 29] = [
    asset!("index.html", HTML),
    asset!("console.css", "text/css; charset=utf-8"),
    asset!("icon.svg", "image/svg+xml"),
    asset!("lang/en.json", JSON),
    asset!("lang/de.json", JSON),
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
    asset!("js/roster_groups.js", SCRIPT),
    asset!("js/rooms.js", SCRIPT),
    asset!("js/queues.js", SCRIPT),
    asset!("js/trace.js", SCRIPT),
    asset!("js/ladder.js", SCRIPT),
    asset!("js/qr.js", SCRIPT),
    asset!("js/routes.js", SCRIPT),
    asset!("js/numbers.js", SCRIPT),
    asset!("js/documents.js", SCRIPT),
    asset!("js/recordings.js", SCRIPT),
    asset!("js/security.js", SCRIPT),
    asset!("js/configuration.js", SCRIPT),
    asset!("js/farm.js", SCRIPT),
];

/// The languages of the texts: each has a file in `lang` with all keys. The first is taken where a browser wants none of them.
const LANGUAGES: [&str; 2] = ["en", "de"];

/// The language that a browser wants most (RFC 9110 §12.5.4). Of a range only the language itself is looked at: `de-AT` is German.
fn wanted_language(headers: &HeaderMap) -> &'static str {
    let ranges = guard::text(headers, ACCEPT_LANGUAGE.as_str()).unwrap_or_default();
    let mut best: Option<(u32, &'static str)> = None;
    for range in ranges.split(',').take(limits::LANGUAGE_RANGES) {
        let (tag, weight) = range.split_once(';').unwrap_or((range, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Some(1_000), weight_of).unwrap_or(0);
        let name = tag.trim().split('-').next().unwrap_or_default();
        let known = LANGUAGES.into_iter().find(|known| known.eq_ignore_ascii_case(name) || name == "*");
        // Of two with the same weight the first counts.
        if let Some(known) = known.filter(|_| weight > best.map_or(0, |(best, _)| best)) {
            best = Some((weight, known));
        }
    }
    best.map_or(LANGUAGES[0], |(_, language)| language)
}

/// A weight in thousandths (RFC 9110 §12.4.2); none: it is none.
fn weight_of(text: &str) -> Option<u32> {
    let (whole, digits) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    if digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{digits:0<3}").parse::<u32>().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1_000),
        _ => None,
    }
}

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
    let wanted = format!("/lang/{}.json", wanted_language(headers));
    let path = if path == "/lang/auto.json" { wanted.as_str() } else { path };
    let language = path.strip_prefix("/lang/").and_then(|name| name.strip_suffix(".json"));
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
    let mut response = (common, own, Body::from(Bytes::from_static(asset.text.as_bytes()))).into_response();
    if let Some(Ok(language)) = language.map(HeaderValue::from_str) {
        response.headers_mut().insert(CONTENT_LANGUAGE, language);
        // `auto.json` is another file for another browser (RFC 9110 §12.5.5).
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept-language"));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
            assert!(asset.text.len() < 32_000, "{}: one answer is short", asset.path);
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
            // A reserved name (RFC 2606 §3), in examples that a page shows.
            let others = others.replace("https://example.net", "");
            assert!(!others.contains("//www.") && !others.contains("https://"), "{}", asset.path);
        }
        let page = ASSETS[0].text;
        assert!(!page.contains(" style=") && !page.contains(" onclick=") && !page.contains("<script>"));
    }

    #[test]
    fn every_module_that_is_imported_is_served_and_every_text_is_there() {
        let english = texts("en");
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
                assert!(!is_key || english.contains_key(key), "{}: no text {key}", asset.path);
            }
        }
    }

    fn texts(language: &str) -> BTreeMap<String, String> {
        let path = format!("/lang/{language}.json");
        let asset = ASSETS.iter().find(|asset| asset.path == path).unwrap();
        serde_json::from_str(asset.text).unwrap()
    }

    /// The `{names}` in a text, in their order.
    fn names(text: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            text.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_language_has_every_text_with_the_same_names_in_it() {
        let english = texts(LANGUAGES[0]);
        for language in LANGUAGES {
            let translated = texts(language);
            let missing: Vec<_> = english.keys().filter(|key| !translated.contains_key(*key)).collect();
            let extra: Vec<_> = translated.keys().filter(|key| !english.contains_key(*key)).collect();
            assert!(
                missing.is_empty() && extra.is_empty(),
                "{language}: no {missing:?}; only there {extra:?}"
            );
            for (key, text) in &translated {
                assert!(!text.trim().is_empty(), "{language}: {key} is empty");
                assert_eq!(names(text), names(&english[key]), "{language}: {key}");
            }
        }
        let script = ASSETS.iter().find(|asset| asset.path == "/js/text.js").unwrap().text;
        let offered = script.split_once("LANGUAGES = {").unwrap().1.split_once('}').unwrap().0;
        let offered: Vec<&str> =
            offered.split(',').map(|one| one.split(':').next().unwrap().trim()).collect();
        assert_eq!(offered, LANGUAGES, "the page offers what there is");
    }

    #[test]
    fn a_browser_gets_the_language_that_it_wants_most() {
        let of = |wanted: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_str(wanted).unwrap());
            let answer = answer("GET", "/lang/auto.json", &headers).unwrap_or_else(Fault::response);
            assert_eq!(answer.headers()[VARY], "accept-language");
            answer.headers()[CONTENT_LANGUAGE].to_str().unwrap().to_owned()
        };
        for (wanted, expected) in [
            ("de", "de"),
            ("de-AT, en;q=0.5", "de"),
            ("en;q=0.4, DE;q=0.9", "de"),
            ("fr, de;q=0.3, en;q=0.2", "de"),
            ("fr, *;q=0.1", "en"),
            ("en-GB,en;q=0.9,de;q=0.8", "en"),
            ("de;q=0, en;q=0.1", "en"),
            ("fr", "en"),
            ("de;q=2", "en"),
            ("de;q=x", "en"),
            ("", "en"),
        ] {
            assert_eq!(of(wanted), expected, "{wanted:?}");
        }
        let chosen = get("/lang/de.json", None);
        assert_eq!(chosen.headers()[CONTENT_LANGUAGE], "de");
        assert_ne!(chosen.headers()[ETAG], get("/lang/en.json", None).headers()[ETAG]);
    }
}
