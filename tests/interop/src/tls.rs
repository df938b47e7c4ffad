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

/// Opens a stream of XMPP over TLS 1.2 to 127.0.0.1:`port`, asks for a renegotiation once the features are there, and returns all
/// that the server sent and OpenSSL said, when OpenSSL has ended.
pub fn renegotiate_a_stream(port: u16) -> String {
    let reachable = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    wait_until("the TLS listener", Duration::from_secs(10), reachable, String::new);
    let mut client = Command::new("timeout")
        .args([
            "60",
            "openssl",
            "s_client",
            "-tls1_2",
            "-connect",
            &format!("127.0.0.1:{port}"),
            "-servername",
            DOMAIN,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("timeout openssl: {error}. Install it: apt-get install openssl"));
    let mut input = client.stdin.take().expect("piped");
    let header = format!(
        "<?xml version='1.0'?><stream:stream to='{DOMAIN}' version='1.0' xmlns='jabber:client' \
         xmlns:stream='http://etherx.jabber.org/streams'>\n"
    );
    input.write_all(header.as_bytes()).expect("s_client takes its input");
    let mut output = client.stdout.take().expect("piped");
    let mut text = read_until(&mut output, b"</stream:features>");
    // A line that begins with R is s_client's command for it.
    input.write_all(b"R\n").expect("s_client takes its input");
    output.read_to_string(&mut text).expect("text");
    client.stderr.take().expect("piped").read_to_string(&mut text).expect("text");
    client.wait().expect("a child of ours");
    text
}

/// Up to the blank line, or to the end when the peer closes.
fn read_head(output: &mut impl Read) -> String {
    read_until(output, b"\r\n\r\n")
}

/// Up to `last`, or to the end when the peer closes.
fn read_until(output: &mut impl Read, last: &[u8]) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(last) && output.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}
