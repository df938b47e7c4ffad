//! Files of users (XEP-0363): clients with a slot put them, clients with the address get them.
//!
//! A PUT: the slot's grant is checked (`Uploads::admit`), the place must be free, the user's turn comes, the file is written a chunk at a time, and
//! in a farm its row is registered; only then it is answered 201. Every failure leaves nothing of the file. [`Uploads`] has the rules,
//! and `Refusal` the answers.

use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, Either, StreamBody};
use hyper::body::Incoming as Content;
use hyper::header::{
    ACCEPT_RANGES, AUTHORIZATION, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, RANGE, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use net::admission::Handle;
use tokio::task::spawn_blocking;
use tokio::time::{timeout, timeout_at};

use super::Front;
use super::route::{Body, empty, not_allowed, preflight, text};
use crate::limits;
use crate::uploads::{FileInfo, Incoming, OpenFile, Refusal, Uploads, encode};

/// The path of all files: the identifier and the name follow.
pub(super) const PREFIX: &str = "/upload/";

const METHODS: &str = "GET, HEAD, PUT, OPTIONS";

/// `place`: what follows the prefix.
pub(super) async fn serve(front: &Rc<Front>, place: &str, request: Request<Content>) -> Response<Body> {
    let Some(uploads) = front.shared.settings.http.uploads.clone() else {
        return text(StatusCode::NOT_FOUND, "no files are taken here");
    };
    let is_put = request.method() == Method::PUT;
    let done = match *request.method() {
        Method::PUT => put(front, uploads, place, request).await,
        Method::GET => get(uploads, place, request.headers(), true).await,
        Method::HEAD => get(uploads, place, request.headers(), false).await,
        Method::OPTIONS => Ok(preflight(METHODS)),
        _ => Ok(not_allowed(METHODS)),
    };
    let response = done.unwrap_or_else(refused);
    front.shared.counts.count(|counters| match response.status() {
        StatusCode::CREATED if is_put => counters.uploads += 1,
        StatusCode::OK | StatusCode::PARTIAL_CONTENT => counters.downloads += 1,
        _ => {}
    });
    response
}

/// The response for a refusal, in words that a user may be shown.
fn refused(refusal: Refusal) -> Response<Body> {
    let (status, what) = match refusal {
        Refusal::Unknown => (StatusCode::NOT_FOUND, "there is no such file"),
        Refusal::Ungranted => (StatusCode::UNAUTHORIZED, "send the Authorization header of the slot"),
        Refusal::Forged => (StatusCode::FORBIDDEN, "this is not what the slot is for"),
        Refusal::Expired => (StatusCode::GONE, "the slot has expired: ask for another"),
        Refusal::Taken => (StatusCode::CONFLICT, "the slot was used already"),
        Refusal::WrongSize => (StatusCode::BAD_REQUEST, "the file is smaller than the slot is for"),
        Refusal::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the file is larger than the slot is for"),
        Refusal::NoSize => (StatusCode::LENGTH_REQUIRED, "send a Content-Length"),
        Refusal::WrongType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "the slot is for another Content-Type"),
        Refusal::Full => (StatusCode::INSUFFICIENT_STORAGE, "this server has no room for the file"),
        Refusal::Waiting => (StatusCode::TOO_MANY_REQUESTS, "one file at a time: try again"),
        Refusal::Slow => (StatusCode::REQUEST_TIMEOUT, "the file comes too slowly"),
        Refusal::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many files at once: try again"),
        Refusal::Broken => (StatusCode::INTERNAL_SERVER_ERROR, "the file cannot be kept or read"),
        Refusal::Away => (StatusCode::SERVICE_UNAVAILABLE, "the file cannot be reached now: try again"),
    };
    let mut response = text(status, what);
    if refusal == Refusal::Away {
        set(&mut response, RETRY_AFTER, &limits::UPLOAD_RETRY.as_secs().to_string());
    }
    if refusal == Refusal::Ungranted {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

async fn put(
    front: &Front,
    uploads: Arc<Uploads>,
    place: &str,
    request: Request<Content>,
) -> Result<Response<Body>, Refusal> {
    let http = &front.shared.settings.http;
    let now = http.clock.now();
    let headers = request.headers();
    let size = header(headers, &CONTENT_LENGTH).and_then(|size| size.parse().ok());
    let (token, kind) = (header(headers, &AUTHORIZATION), header(headers, &CONTENT_TYPE));
    let grant = uploads.admit(now, place, token, (size, kind))?;
    // A slot that was used needs no turn.
    let (shelf, wanted) = (Arc::clone(&uploads), grant.clone());
    blocking(move || shelf.check_free(&wanted)).await?;
    // A connection that waits for its turn is not idle.
    let busy = front.handle.as_ref().map(Handle::busy);
    let turn = uploads.turn(&grant).await?;
    drop(busy);
    let (shelf, granted) = (Arc::clone(&uploads), grant.clone());
    let incoming = blocking(move || shelf.create(now, &granted)).await?;
    let received =
        timeout(limits::UPLOAD_TIME, receive(incoming, request.into_body(), http.body_within)).await;
    drop(turn);
    match received {
        Ok(Ok(())) => uploads.register(&grant).await.map(|()| empty(StatusCode::CREATED)),
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Ok(text(StatusCode::REQUEST_TIMEOUT, "the file takes too long")),
    }
}

/// Writes what comes, a chunk at a time. In each `window` at least `limits::UPLOAD_SPEED` has to come.
async fn receive(mut incoming: Incoming, mut content: Content, window: Duration) -> Result<(), Refusal> {
    let mut chunk = Vec::new();
    let (mut ends, mut came) = (tokio::time::Instant::now() + window, 0);
    loop {
        let frame = match timeout_at(ends, content.frame()).await {
            Ok(frame) => frame,
            Err(_) if came >= least_of(window) => {
                (ends, came) = (tokio::time::Instant::now() + window, 0);
                continue;
            }
            Err(_) => return Err(Refusal::Slow),
        };
        let is_last = frame.is_none();
        match frame.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(data))) => {
                came += data.len();
                chunk.extend_from_slice(&data);
            }
            // Trailers.
            Some(Ok(Err(_))) => {}
            // It broke off; nothing stays of it.
            Some(Err(_)) => return Err(Refusal::WrongSize),
            None => {}
        }
        if !is_last && chunk.len() < limits::UPLOAD_CHUNK {
            continue;
        }
        let full = std::mem::take(&mut chunk);
        let written = blocking(move || {
            incoming.write(&full)?;
            if is_last { incoming.finish().map(|()| None) } else { Ok(Some(incoming)) }
        });
        match written.await? {
            Some(open) => incoming = open,
            None => return Ok(()),
        }
    }
}

/// Bytes that have to come in that time.
fn least_of(window: Duration) -> usize {
    usize::try_from(window.as_millis()).unwrap_or(usize::MAX).saturating_mul(limits::UPLOAD_SPEED) / 1_000
}

/// On a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    spawn_blocking(work).await.map_err(|_| Refusal::Broken)?
}

/// Answers GET and HEAD, with the whole file or one range of it. Several ranges get the whole (RFC 9110 §14.2).
async fn get(
    uploads: Arc<Uploads>,
    place: &str,
    headers: &HeaderMap,
    with_content: bool,
) -> Result<Response<Body>, Refusal> {
    let (info, file) = uploads.find(place).await?;
    let size = info.size;
    let range = match header(headers, &RANGE).map(|range| parse_range(range, size)) {
        Some(RequestedRange::Part(range)) => Some(range),
        Some(RequestedRange::Nothing) => {
            let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, "the file is shorter");
            set(&mut response, CONTENT_RANGE, &format!("bytes */{size}"));
            return Ok(response);
        }
        Some(RequestedRange::All) | None => None,
    };
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let mut response = empty(status);
    describe(&mut response, &info);
    if let Some(range) = &range {
        set(&mut response, CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end - 1));
    }
    let range = range.unwrap_or(0..size);
    set(&mut response, CONTENT_LENGTH, &(range.end - range.start).to_string());
    if with_content {
        // Before the head is sent: a store that is away is 503, not a body that breaks off.
        let file = file.begin(&range).await?;
        *response.body_mut() = content(file, range);
    }
    Ok(response)
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// A browser that opens the address must not run what a user has put there.
fn describe(response: &mut Response<Body>, stored: &FileInfo) {
    set(response, CONTENT_TYPE, &stored.kind);
    let shows = may_be_shown(&stored.kind);
    // RFC 6266 §4.1.
    let name = encode(&stored.name);
    let way = if shows { "inline" } else { "attachment" };
    set(response, CONTENT_DISPOSITION, &format!("{way}; filename*=UTF-8''{name}"));
    set(response, CONTENT_SECURITY_POLICY, policy(&stored.kind));
    set(response, X_CONTENT_TYPE_OPTIONS, "nosniff");
    // At one address there is one file, for as long as it is there.
    set(response, CACHE_CONTROL, "private, max-age=86400, immutable");
    set(response, ACCEPT_RANGES, "bytes");
}

/// Pictures and sounds that have no scripts, and plain text.
fn may_be_shown(kind: &str) -> bool {
    let kind = media_type(kind);
    let is_picture = kind.starts_with("image/") && kind != "image/svg+xml";
    is_picture || is_played(&kind) || kind == "text/plain"
}

/// A browser that opens sound or film makes a page of its own with a player, which gets the file from the same address. In a sandbox that address
/// would be none of the page's own, and the player would have no controls; of the file nothing but sound and pictures is used.
fn policy(kind: &str) -> &'static str {
    match is_played(&media_type(kind)) {
        true => "default-src 'none'; media-src 'self'; frame-ancestors 'none'",
        false => "default-src 'none'; frame-ancestors 'none'; sandbox",
    }
}

fn is_played(media_type: &str) -> bool {
    media_type.starts_with("audio/") || media_type.starts_with("video/")
}

/// Without parameters, in lower case (RFC 9110 §8.3.1).
fn media_type(kind: &str) -> String {
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestedRange {
    /// Not a range, or several: RFC 9110 §14.2 lets us give the whole.
    All,
    Part(Range<u64>),
    /// Beyond the end.
    Nothing,
}

/// RFC 9110 §14.1.2.
fn parse_range(text: &str, size: u64) -> RequestedRange {
    let ends = text.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let Some((first, last)) = ends.filter(|(_, last)| !last.contains(',')) else {
        return RequestedRange::All;
    };
    let (first, last) = (first.trim(), last.trim());
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if last >= first => first..last.saturating_add(1).min(size),
        (Ok(first), Err(_)) if last.is_empty() => first..size,
        (Err(_), Ok(last)) if first.is_empty() => size.saturating_sub(last)..size,
        _ => return RequestedRange::All,
    };
    if range.is_empty() { RequestedRange::Nothing } else { RequestedRange::Part(range) }
}

/// Read as it is sent.
fn content(file: OpenFile, range: Range<u64>) -> Body {
    let read = |(file, range): (OpenFile, Range<u64>)| async move {
        if range.is_empty() {
            return None;
        }
        let (bytes, file) = match file.read(range.clone()).await {
            Ok((bytes, file)) if !bytes.is_empty() => (bytes, file),
            // The file is shorter than its head says, was removed, or its node is gone: the connection breaks, so that no
            // client takes a part for the whole.
            _ => return None,
        };
        let next = range.start + bytes.len() as u64..range.end;
        Some((io::Result::Ok(Frame::data(Bytes::from(bytes))), (file, next)))
    };
    Either::Right(StreamBody::new(stream::unfold((file, range), read)).boxed_unsync())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_plays_sound_and_film_and_runs_nothing() {
        for kind in ["video/mp4", "Audio/OGG; codecs=opus"] {
            assert!(may_be_shown(kind));
            assert_eq!(
                policy(kind),
                "default-src 'none'; media-src 'self'; frame-ancestors 'none'",
                "{kind}"
            );
        }
        for kind in ["image/png", "image/svg+xml", "text/html", "text/plain", "", "application/video/mp4"] {
            assert_eq!(policy(kind), "default-src 'none'; frame-ancestors 'none'; sandbox", "{kind}");
        }
    }

    #[test]
    fn ranges_are_those_of_the_text() {
        for (text, expected) in [
            ("bytes=0-0", RequestedRange::Part(0..1)),
            ("bytes=5-", RequestedRange::Part(5..10)),
            ("bytes=-3", RequestedRange::Part(7..10)),
            ("bytes=-30", RequestedRange::Part(0..10)),
            ("bytes=2-99", RequestedRange::Part(2..10)),
            ("bytes=10-", RequestedRange::Nothing),
            ("bytes=-0", RequestedRange::Nothing),
            ("bytes=3-2", RequestedRange::All),
            ("bytes=0-1,3-4", RequestedRange::All),
            ("lines=0-1", RequestedRange::All),
            ("bytes=a-b", RequestedRange::All),
        ] {
            assert_eq!(parse_range(text, 10), expected, "{text}");
        }
    }

    #[test]
    fn files_that_a_browser_could_run_are_not_shown() {
        for (kind, shows) in [
            ("image/png", true),
            ("Image/SVG+xml", false),
            ("text/plain; charset=utf-8", true),
            ("text/html", false),
            ("application/octet-stream", false),
            ("video/mp4", true),
        ] {
            assert_eq!(may_be_shown(kind), shows, "{kind}");
        }
    }
}
