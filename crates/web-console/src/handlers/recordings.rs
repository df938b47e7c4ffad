//! The sound of a recording, for the player of the page: whole, or from the byte that the player asks for (RFC 9110 §14).

use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE, RANGE,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::IntoResponse as _;

use super::applications::with_resources;
use super::{Answer, Context};
use crate::fault::Fault;
use crate::guard;

pub(super) async fn sound(context: &Context<'_>) -> Result<Answer, Fault> {
    let sid = context.variable().to_owned();
    // The sound of a SID never changes once it can be read.
    let tag = format!("\"{sid}\"");
    let range = range(context.headers, &tag);
    let first = range.map_or(0, |(first, _)| first);
    let name = sid.clone();
    let audio = with_resources(context, move |resources| resources.sound(&name, first)).await?;
    let is_name = sid.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let file = format!("inline; filename=\"{}.wav\"", if is_name { &sid } else { "recording" });
    let mut headers: Vec<(HeaderName, String)> = vec![
        (CONTENT_TYPE, audio.media_type.to_owned()),
        (ACCEPT_RANGES, "bytes".to_owned()),
        (CONTENT_DISPOSITION, file),
    ];
    if is_name {
        headers.push((ETAG, tag));
    }
    let whole = audio.length;
    let (status, length) = match range {
        // RFC 9110 §15.5.17: no byte of the range exists.
        Some((first, _)) if first >= whole => {
            headers.push((CONTENT_RANGE, format!("bytes */{whole}")));
            (StatusCode::RANGE_NOT_SATISFIABLE, 0)
        }
        Some((first, last)) => {
            let last = last.unwrap_or(u64::MAX).min(whole - 1);
            headers.push((CONTENT_RANGE, format!("bytes {first}-{last}/{whole}")));
            (StatusCode::PARTIAL_CONTENT, last - first + 1)
        }
        None => (StatusCode::OK, whole),
    };
    headers.push((CONTENT_LENGTH, length.to_string()));
    let mut response = (status, admin::sound_body(audio.read, length)).into_response();
    for (name, value) in headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(Answer::Sound(response))
}

/// The first byte and the last one of a range. Several ranges, and the last bytes of a file, are not what a player asks for: the whole is
/// sent, as RFC 9110 §14.2 permits. So is it if `If-Range` has another tag (§13.1.5).
fn range(headers: &HeaderMap, tag: &str) -> Option<(u64, Option<u64>)> {
    if headers.contains_key(IF_RANGE) && guard::text(headers, IF_RANGE.as_str()) != Some(tag) {
        return None;
    }
    let (first, last) = guard::text(headers, RANGE.as_str())?.strip_prefix("bytes=")?.split_once('-')?;
    let first: u64 = first.trim().parse().ok()?;
    let last = match last.trim() {
        "" => None,
        last => Some(last.parse::<u64>().ok().filter(|last| *last >= first)?),
    };
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_range_is_one_that_a_player_asks_for_and_all_else_is_the_whole() {
        let of = |range: &str, condition: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_str(range).unwrap());
            if let Some(condition) = condition {
                headers.insert(IF_RANGE, HeaderValue::from_str(condition).unwrap());
            }
            super::range(&headers, "\"RE1\"")
        };
        assert_eq!(of("bytes=0-", None), Some((0, None)));
        assert_eq!(of("bytes=10-19", Some("\"RE1\"")), Some((10, Some(19))));
        for whole in ["bytes=-5", "bytes=5-4", "bytes=0-1,3-4", "lines=1-2", "bytes=x-", "bytes=1"] {
            assert_eq!(of(whole, None), None, "{whole}");
        }
        assert_eq!(of("bytes=10-19", Some("\"RE2\"")), None);
        assert_eq!(super::range(&HeaderMap::new(), ""), None);
    }
}
