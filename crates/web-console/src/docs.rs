//! The documentation as a site below `/docs/`, from the folder of `[console] docs`. It tells nothing of the node, so it is served before a
//! sign-in; its pages run only files of the folder, by the policy of the console.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};

use crate::fault::Fault;
use crate::guard;
use crate::limits;
use crate::state::{ActiveSettings, State};

/// The answer where the node has no such folder.
const ABSENT: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>No documentation here</title>\n\
    <link rel=\"stylesheet\" href=\"/console.css\">\n</head>\n<body>\n<h1>No documentation here</h1>\n\
    <p>This node has no folder with the documentation. <code>make docs</code> builds it, and <code>[console] docs</code> in \
    <code>belfry.toml</code> names the folder.</p>\n</body>\n</html>\n";

/// The part of a request's path behind `/docs`; none: the request is for something else.
pub(crate) fn path(path: &str) -> Option<&str> {
    path.strip_prefix("/docs").filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The answer to a request for a page or file of the documentation.
pub(crate) async fn answer(
    state: &State,
    settings: &ActiveSettings,
    parts: &Parts,
    path: &str,
) -> Result<Response, Fault> {
    if !matches!(parts.method.as_str(), "GET" | "HEAD") {
        return Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is possible here"));
    }
    let Some(folder) = settings.settings.docs.clone() else {
        let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONNECTION, "close")];
        return Ok((StatusCode::NOT_FOUND, headers, ABSENT).into_response());
    };
    if path.is_empty() {
        // Links in pages are relative.
        return Ok((StatusCode::PERMANENT_REDIRECT, [(LOCATION, "/docs/")]).into_response());
    }
    let name = file_name(path).ok_or_else(Fault::not_found)?;
    let kind = kind(&name).ok_or_else(Fault::not_found)?;
    let known = guard::text(&parts.headers, IF_NONE_MATCH.as_str()).map(str::to_owned);
    let permit = Arc::clone(&state.reads).try_acquire_owned().map_err(|_| Fault::busy())?;
    let read = tokio::task::spawn_blocking(move || {
        let found = read(&folder, &name, known.as_deref());
        drop(permit);
        found
    });
    let found = read.await.map_err(|_| Fault::busy())?.ok_or_else(Fault::not_found)?;
    let tag = HeaderValue::from_str(&found.tag).map_err(|_| Fault::busy())?;
    // An upgrade brings other pages: a browser asks each time, and is mostly told that nothing has changed.
    let common = [(ETAG, tag), (CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    let Some(content) = found.content else {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    };
    // The answer is long for so short a request: one a connection.
    let own = [(CONTENT_TYPE, kind), (CONNECTION, "close")];
    Ok((common, own, content).into_response())
}

/// The file of a path, relative to the folder. A path is of plain names; none begins with a dot.
fn file_name(path: &str) -> Option<String> {
    let path = path.strip_prefix('/')?;
    let path =
        if path.is_empty() || path.ends_with('/') { format!("{path}index.html") } else { path.to_owned() };
    let is_plain = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    (path.len() <= limits::DOCS_PATH && path.split('/').all(is_plain)).then_some(path)
}

/// The media type of a file by its name. Other files are not served.
fn kind(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "toml" | "conf" | "service" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

/// A file as it is now.
struct Found {
    /// A strong validator (RFC 9110 §8.8.3): the length and the time of the last change.
    tag: String,
    /// `None`: the client has it.
    content: Option<Vec<u8>>,
}

/// Reads a file, unless a link leads out of the folder or it is too large.
fn read(folder: &Path, name: &str, known: Option<&str>) -> Option<Found> {
    let folder = folder.canonicalize().ok()?;
    let file = folder.join(name).canonicalize().ok()?;
    if !file.starts_with(&folder) {
        return None;
    }
    let mut file = File::open(file).ok()?;
    let about = file.metadata().ok().filter(|about| about.is_file() && about.len() <= limits::DOCS_FILE)?;
    let changed = about.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let tag = format!("\"{:x}-{:x}\"", about.len(), changed.as_nanos());
    if known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag)) {
        return Some(Found { tag, content: None });
    }
    let mut content = vec![0; usize::try_from(about.len()).ok()?];
    file.read_exact(&mut content).ok()?;
    Some(Found { tag, content: Some(content) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_file_of_the_folder_and_nothing_else() {
        assert_eq!(
            (path("/docs"), path("/docs/a"), path("/docsa"), path("/")),
            (Some(""), Some("/a"), None, None)
        );
        let long = format!("/{}", "a".repeat(limits::DOCS_PATH + 1));
        for bad in
            ["", "a.html", "/../a.html", "/a//b.html", "/.git/a.html", "/a%2f.html", "/a\\b.html", &long]
        {
            assert_eq!(file_name(bad), None, "{bad}");
        }
        assert_eq!(file_name("/").as_deref(), Some("index.html"));
        assert_eq!(file_name("/tutorials/").as_deref(), Some("tutorials/index.html"));
        assert_eq!(file_name("/a/b-c_1.html").as_deref(), Some("a/b-c_1.html"));
        assert_eq!((kind("a.exe"), kind("a"), kind("a.svg")), (None, None, Some("image/svg+xml")));
    }

    #[test]
    fn a_link_out_of_the_folder_leads_nowhere_and_a_known_file_is_not_sent_again() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("site");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(outside.path().join("secret.html"), "secret").unwrap();
        std::fs::write(folder.join("index.html"), "page").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.html"), folder.join("link.html")).unwrap();
        std::fs::create_dir(folder.join("folder.html")).unwrap();
        for name in ["link.html", "gone.html", "folder.html"] {
            assert!(read(&folder, name, None).is_none(), "{name}");
        }
        let first = read(&folder, "index.html", None).unwrap();
        assert_eq!(first.content.as_deref(), Some(&b"page"[..]));
        let again = read(&folder, "index.html", Some(&format!("\"a\", {}", first.tag))).unwrap();
        assert!(again.content.is_none() && again.tag == first.tag);
        assert!(read(&folder, "index.html", Some("\"a\"")).unwrap().content.is_some());
        let large = File::create(folder.join("large.html")).unwrap();
        large.set_len(limits::DOCS_FILE + 1).unwrap();
        assert!(read(&folder, "large.html", None).is_none());
    }
}
