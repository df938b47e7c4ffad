//! HTTP/1.1 (RFC 9112) as far as BOSH needs it: POST of a body, and its answer.
//!
//! Requests are never pipelined: one connection has at most one request without an answer, so answers need no matching.

use super::super::limits::{HTTP_BODY, HTTP_HEAD};

/// Appends a request with its body. `host` is the domain of the users.
pub(super) fn write_request(path: &str, host: &str, body: &[u8], out: &mut Vec<u8>) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(body);
}

/// The bytes of a connection, until they are whole answers. Between two it owns no memory.
#[derive(Debug, Default)]
pub(super) struct ResponseReader {
    bytes: Vec<u8>,
}

/// One answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// The server closes the connection after it.
    pub(super) is_last: bool,
}

/// The reason why bytes are no HTTP response, or are too long.
type HttpError = &'static str;

/// The length of a body, from the head.
enum BodyLength {
    /// Content-Length, or 0 without any length.
    Bytes(usize),
    /// Transfer-Encoding: chunked.
    Chunked,
}

/// The fields of a head that matter here.
struct ResponseHead {
    status: u16,
    length: BodyLength,
    is_last: bool,
}

impl ResponseReader {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole one.
    // Loops over interim answers (1xx), which have no body.
    pub(super) fn next(&mut self) -> Result<Option<HttpResponse>, HttpError> {
        loop {
            let Some(end) = find(&self.bytes, b"\r\n\r\n") else {
                return if self.bytes.len() > HTTP_HEAD { Err("a head that is too long") } else { Ok(None) };
            };
            let head = ResponseHead::parse(&self.bytes[..end])?;
            let start = end + 4;
            // RFC 9110 §15.2: what comes before the answer itself.
            if head.status < 200 {
                self.forget(start);
                continue;
            }
            let rest = &self.bytes[start..];
            let whole = match head.length {
                BodyLength::Bytes(length) if length > HTTP_BODY => return Err("a body that is too long"),
                BodyLength::Bytes(length) => rest.get(..length).map(|body| (body.to_vec(), length)),
                BodyLength::Chunked => dechunk(rest)?,
            };
            let Some((body, length)) = whole else { return Ok(None) };
            self.forget(start + length);
            return Ok(Some(HttpResponse { status: head.status, body, is_last: head.is_last }));
        }
    }

    /// Drops bytes that are used; the memory goes with the last of them.
    fn forget(&mut self, count: usize) {
        if count == self.bytes.len() {
            self.bytes = Vec::new();
        } else {
            self.bytes.drain(..count);
        }
    }
}

impl ResponseHead {
    fn parse(bytes: &[u8]) -> Result<ResponseHead, HttpError> {
        let text = std::str::from_utf8(bytes).map_err(|_| "a head that is no text")?;
        let mut lines = text.split("\r\n");
        // A status line is `HTTP/1.1 200 OK`; the reason phrase is not looked at.
        let (version, rest) = lines.next().and_then(|line| line.split_once(' ')).unwrap_or_default();
        let status = rest.get(..3).and_then(|digits| digits.parse().ok());
        let (true, Some(status)) = (version.starts_with("HTTP/1."), status) else {
            return Err("no answer of HTTP/1.1");
        };
        // HTTP/1.0 closes unless it says keep-alive (RFC 9112 §9.3).
        let mut head = ResponseHead { status, length: BodyLength::Bytes(0), is_last: version == "HTTP/1.0" };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if is("Content-Length") {
                head.length =
                    BodyLength::Bytes(value.parse().map_err(|_| "a Content-Length that is no number")?);
            } else if is("Transfer-Encoding") {
                if !value.eq_ignore_ascii_case("chunked") {
                    return Err("a Transfer-Encoding other than chunked");
                }
                head.length = BodyLength::Chunked;
            } else if is("Connection") {
                head.is_last = !value.eq_ignore_ascii_case("keep-alive")
                    && (head.is_last || value.eq_ignore_ascii_case("close"));
            }
        }
        Ok(head)
    }
}

/// RFC 9112 §7.1: the body, and how many bytes it took. `None`: more is needed.
fn dechunk(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, HttpError> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(end) = find(&bytes[at..], b"\r\n") else { return Ok(None) };
        let line = std::str::from_utf8(&bytes[at..at + end]).unwrap_or_default();
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| "a chunk without its size")?;
        at += end + 2;
        if body.len().saturating_add(size) > HTTP_BODY {
            return Err("a body that is too long");
        }
        if size == 0 {
            break;
        }
        // A chunk is followed by a line end, which counts to its length here.
        let Some(chunk) = bytes.get(at..at + size + 2) else { return Ok(None) };
        body.extend_from_slice(&chunk[..size]);
        at += size + 2;
    }
    // Fields after it are nothing to us.
    loop {
        match find(&bytes[at..], b"\r\n") {
            None => return Ok(None),
            Some(0) => return Ok(Some((body, at + 2))),
            Some(end) => at += end + 2,
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\nServer: x\r\n\r\nhello\
        HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
        3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: z\r\n\r\n";

    #[test]
    fn answers_come_in_any_pieces() {
        for size in [1, 2, 7, 1_000] {
            let (mut answers, mut read) = (ResponseReader::default(), Vec::new());
            for piece in TWO.as_bytes().chunks(size) {
                answers.put(piece);
                while let Some(answer) = answers.next().unwrap() {
                    read.push(answer);
                }
            }
            let first = HttpResponse { status: 200, body: b"hello".to_vec(), is_last: false };
            let second = HttpResponse { status: 404, body: b"abc0123456789".to_vec(), is_last: true };
            assert_eq!(read, [first, second], "pieces of {size}");
            assert_eq!(answers.bytes.capacity(), 0, "nothing is kept");
        }
    }

    #[test]
    fn an_invalid_http_answer_is_reported() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(HTTP_HEAD));
        for (text, says) in [
            ("SSH-2.0\r\n\r\n", "no answer of HTTP"),
            ("HTTP/1.1 OK\r\n\r\n", "no answer of HTTP"),
            ("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "no number"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "a body that is too long"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", "a body that is too long"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "without its size"),
            (&long, "a head that is too long"),
        ] {
            let mut answers = ResponseReader::default();
            answers.put(text.as_bytes());
            let error = answers.next().expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
