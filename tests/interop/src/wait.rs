//! Waiting for a condition, never for a time.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// The time to wait for an answer to one OPTIONS.
const ANSWER: Duration = Duration::from_millis(100);

/// Returns once `is_so` holds; panics with `what` and `explain()` when it does not within `limit`.
#[track_caller]
pub fn wait_until(
    what: &str,
    limit: Duration,
    mut is_so: impl FnMut() -> bool,
    explain: impl Fn() -> String,
) {
    ::wait::until(what, limit, || is_so().then_some(()), explain);
}

/// Returns once something answers an OPTIONS at udp:127.0.0.1:`port`, whatever it answers.
pub fn wait_for_sip(port: u16, explain: impl Fn() -> String) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(ANSWER)).expect("a positive timeout");
    let own = socket.local_addr().expect("a bound socket").port();
    let mut attempt = 0;
    let answers = || {
        attempt += 1;
        let request = format!(
            "OPTIONS sip:127.0.0.1:{port} SIP/2.0\r\n\
             Via: SIP/2.0/UDP 127.0.0.1:{own};branch=z9hG4bKready{own}-{attempt};rport\r\n\
             From: <sip:interop@127.0.0.1>;tag=ready{attempt}\r\n\
             To: <sip:127.0.0.1:{port}>\r\n\
             Call-ID: ready-{own}-{attempt}\r\n\
             CSeq: {attempt} OPTIONS\r\n\
             Max-Forwards: 70\r\n\
             Content-Length: 0\r\n\r\n"
        );
        // Refused is reported by the next call on the socket; both mean: not yet.
        socket.send_to(request.as_bytes(), ("127.0.0.1", port)).is_ok()
            && socket.recv(&mut [0; 65_535]).is_ok()
    };
    wait_until(&format!("an answer from udp:127.0.0.1:{port}"), Duration::from_secs(20), answers, explain);
}

/// The lines of a file that another program is writing; none while it does not exist.
pub fn lines_in(path: &Path) -> Vec<String> {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
        .unwrap_or_default()
}
