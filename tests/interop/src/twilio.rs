//! Twilio's own library as a client of the REST interface, and an application that always gives the same document.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
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
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let serve = move || {
        for mut stream in listener.incoming().flatten() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", document.len());
            // One read: requests for documents are small. A client that gives up is ignored.
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let _ = stream.read(&mut [0; 8192]);
            let _ = write!(stream, "{head}Content-Type: text/xml\r\nConnection: close\r\n\r\n{document}");
        }
    };
    // Ends with the process: it owns nothing but its socket.
    std::thread::Builder::new().name("application".into()).spawn(serve).expect("a thread");
    address
}
