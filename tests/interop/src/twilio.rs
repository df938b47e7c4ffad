//! Twilio's own library as a client of the REST interface, and an application that always gives the same document.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::peer::python;

/// Runs `twilio/drive.py` against the REST interface at 127.0.0.1:`http`; panics unless it succeeds.
pub fn drive_with_twilio(http: u16, sid: &str, token: &str, more: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("twilio/drive.py");
    let output = Command::new(python("twilio"))
        .arg(script)
        .args([&format!("http://127.0.0.1:{http}"), sid, token])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
}

/// An application whose every answer is this document.
pub fn document_at(document: &'static str) -> SocketAddr {
    application(document).0
}

/// The requests that an application has got, head and body.
pub type Requests = Arc<Mutex<Vec<String>>>;

/// An application whose every answer is this document, and the requests that it has got.
pub fn application(document: &'static str) -> (SocketAddr, Requests) {
    let requests = Requests::default();
    let got = Arc::clone(&requests);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = move || {
        for mut stream in listener.incoming().flatten() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", document.len());
            // A client that gives up is ignored.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let request = read_request(&mut stream);
            got.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            let _ = write!(stream, "{head}Content-Type: text/xml\r\nConnection: close\r\n\r\n{document}");
        }
    };
    // Ends with the process: it owns nothing but its socket.
    std::thread::Builder::new().name("application".into()).spawn(serve).expect("a thread");
    (address, requests)
}

/// Reads until the body is as long as the head says, or the client sends nothing more.
fn read_request(stream: &mut TcpStream) -> String {
    let (mut request, mut bytes) = (String::new(), [0; 8_192]);
    loop {
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => request.push_str(&String::from_utf8_lossy(&bytes[..count])),
            _ => return request,
        }
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        if body.len() >= length {
            return request;
        }
    }
}
