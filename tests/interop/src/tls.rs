//! OpenSSL's s_client as a TLS peer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::DOMAIN;
use crate::wait::wait_until;

/// Sends an OPTIONS over TLS to 127.0.0.1:`port` and returns the whole answer as text.
pub fn options_over_tls(port: u16) -> String {
    let reachable = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    wait_until("the TLS listener", Duration::from_secs(10), reachable, String::new);
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}"), "-servername", DOMAIN])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("openssl: {error}. Install it: apt-get install openssl"));
    let request = format!(
        "OPTIONS sip:{DOMAIN} SIP/2.0\r\n\
         Via: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bKoverTls;rport\r\n\
         From: <sip:interop@127.0.0.1>;tag=tls\r\n\
         To: <sip:{DOMAIN}>\r\n\
         Call-ID: over-tls\r\n\
         CSeq: 1 OPTIONS\r\n\
         Max-Forwards: 70\r\n\
         Content-Length: 0\r\n\r\n"
    );
    let mut input = client.stdin.take().expect("piped");
    input.write_all(request.as_bytes()).expect("s_client takes its input");
    let mut output = client.stdout.take().expect("piped");
    let answer = read_head(&mut output);
    let _ = client.kill();
    let _ = client.wait();
    answer
}

/// Up to the blank line, or to the end when the peer closes.
fn read_head(output: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && output.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}
