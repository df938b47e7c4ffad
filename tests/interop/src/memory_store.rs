//! A store of objects in this process, with as much of the protocol of S3 as a node uses: PUT, GET of a range, DELETE. It takes any
//! keys of access, and can be away.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use md5::{Digest as _, Md5};

/// The store. Its thread ends with the process.
pub struct MemoryStore {
    url: String,
    contents: Arc<Mutex<Contents>>,
}

#[derive(Default)]
struct Contents {
    /// The contents of objects, by path: bucket and key.
    objects: BTreeMap<String, Vec<u8>>,
    is_away: bool,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::start()
    }
}

impl MemoryStore {
    /// An empty store, which has every bucket.
    pub fn start() -> MemoryStore {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("its address"));
        let contents = Arc::new(Mutex::new(Contents::default()));
        let served = Arc::clone(&contents);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                // A client that goes gets no answer.
                let _ = answer(&served, stream);
            }
        };
        Builder::new().name("memory-store".into()).spawn(serve).expect("a thread");
        MemoryStore { url, contents }
    }

    /// The URL of the service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All requests get 503 from now on, or are served again.
    pub fn set_away(&self, is_away: bool) {
        lock(&self.contents).is_away = is_away;
    }

    /// The paths of all objects: bucket and key.
    pub fn paths(&self) -> Vec<String> {
        lock(&self.contents).objects.keys().cloned().collect()
    }

    /// The content of an object.
    pub fn object(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.contents).objects.get(path).cloned()
    }
}

fn lock(contents: &Mutex<Contents>) -> MutexGuard<'_, Contents> {
    contents.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads one request, and answers it.
fn answer(contents: &Mutex<Contents>, mut stream: TcpStream) -> std::io::Result<()> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    };
    let mut body = bytes.split_off(head);
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while body.len() < length {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => body.extend_from_slice(&piece[..count]),
        }
    }
    let (method, rest) = head.split_once(' ').unwrap_or_default();
    let path = rest.split([' ', '?']).next().unwrap_or_default().trim_start_matches('/').to_owned();
    let response = respond(&mut lock(contents), (method, path), body, header("range"));
    stream.write_all(&response)
}

fn respond(
    contents: &mut Contents,
    (method, path): (&str, String),
    body: Vec<u8>,
    range: Option<&str>,
) -> Vec<u8> {
    if contents.is_away {
        return response(503, "", b"");
    }
    match method {
        "PUT" => {
            let etag: String = Md5::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
            contents.objects.insert(path, body);
            response(200, &format!("ETag: \"{etag}\"\r\n"), b"")
        }
        "DELETE" => {
            contents.objects.remove(&path);
            response(204, "", b"")
        }
        _ => match (contents.objects.get(&path), range.and_then(parsed)) {
            (None, _) => response(404, "", b""),
            (Some(object), Some((first, last))) if first < object.len() => {
                let end = last.saturating_add(1).min(object.len());
                let range = format!("Content-Range: bytes {first}-{}/{}\r\n", end - 1, object.len());
                response(206, &range, &object[first..end])
            }
            (Some(_), _) => response(416, "", b""),
        },
    }
}

/// `bytes=5-9`.
fn parsed(range: &str) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = if status == 204 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{length}{headers}\r\n");
    [head.as_bytes(), body].concat()
}
