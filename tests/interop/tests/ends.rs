//! The ends of runs of SIPp 3.6.1 and of Ringer, side by side: exit codes of flags, of time-outs and of
//! signals. Where the two differ, Ringer has the code of SIPp's later versions.

use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use interop::{Peer, Tool, free_port, wait_until};
use tempfile::TempDir;

/// A call that sends one request and waits for an answer that never comes.
const WAITING: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<scenario name="waiting">
<send><![CDATA[

OPTIONS sip:a SIP/2.0
Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
From: <sip:b>;tag=1
To: <sip:a>
Call-ID: [call_id]
CSeq: 1 OPTIONS
Content-Length: 0

]]></send>
<recv response="200"/>
</scenario>
"#;

/// A folder with the input files of the runs below.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("writable");
    write("waiting.xml", WAITING);
    write("open.xml", &WAITING.replace("</scenario>\n", ""));
    write("users.csv", "USERS\na;b\n");
    folder
}

/// Something that takes requests and answers none.
fn silent() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a positive time");
    let port = socket.local_addr().expect("a bound socket").port();
    (socket, port)
}

fn start(tool: Tool, words: &str, folder: &Path) -> Peer {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    tool.start("end", &words, folder)
}

fn code(mut peer: Peer) -> Option<i32> {
    peer.wait(Duration::from_secs(60)).code()
}

/// True if a socket of UDP has that port. To try to bind it would take it from the server that is about to.
fn is_bound(port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").expect("the kernel lists its sockets");
    sockets.contains(&format!(":{port:04X} "))
}

#[test]
fn exit_codes() {
    let folder = folder();
    let (_socket, port) = silent();
    let to = format!("127.0.0.1:{port} -i 127.0.0.1 -nostdin -m 1");
    for (words, sipp, ringer) in [
        ("", 99, 99),
        ("-h", 99, 99),
        ("--help", 99, 99),
        ("-h stat", 99, 99),
        ("-v", 99, 99),
        ("-sd uac", 99, 99),
        // From SIPp 3.8 on a mistake in the flags is 255, as its manual says.
        ("-zz", 1, 255),
        ("-sn uac 127.0.0.1 -m", 1, 255),
        ("-sn uac 127.0.0.1 -r fast", 1, 255),
        ("-sn moon 127.0.0.1", 1, 255),
        ("-sn uac {to} -t ui", 1, 255),
        ("-sn uac", 255, 255),
        ("-sn uac {to} -set moon 1", 1, 1),
        ("-sn uac {to} -users 2 -inf users.csv", 255, 255),
        ("-sf waiting.xml {to} -nr -timeout 1 -timeout_error", 255, 255),
        ("-sf waiting.xml {to} -nr -timeout 1 -recv_timeout 1500", 1, 1),
        ("-sf open.xml {to} -nr -timeout 1 -timeout_error", 255, 255),
        ("-sn uas -i 127.0.0.1 -p {free} -nostdin -timeout 1", 97, 97),
    ] {
        for (tool, wanted) in [(Tool::Sipp, sipp), (Tool::Ringer, ringer)] {
            let words = words.replace("{to}", &to).replace("{free}", &free_port().to_string());
            let peer = start(tool, &words, folder.path());
            assert_eq!(code(peer), Some(wanted), "{tool:?} {words}");
        }
    }
}

#[test]
fn one_signal_is_the_end() {
    let folder = folder();
    for (tool, signal) in
        [(Tool::Sipp, "TERM"), (Tool::Sipp, "INT"), (Tool::Ringer, "TERM"), (Tool::Ringer, "INT")]
    {
        // With a call that nothing ends.
        let (socket, port) = silent();
        let words = format!("-sf waiting.xml 127.0.0.1:{port} -i 127.0.0.1 -nostdin -m 1 -nr");
        let client = start(tool, &words, folder.path());
        wait::uninterrupted(|| socket.recv(&mut [0; 2_048])).expect("the request");
        client.signal(signal);
        assert_eq!(code(client), Some(0), "{tool:?}, {signal}: a caller");
        // Without any.
        let port = free_port();
        let server = start(tool, &format!("-sn uas -i 127.0.0.1 -p {port} -nostdin"), folder.path());
        wait_until("the server to listen", Duration::from_secs(60), || is_bound(port), || server.tail());
        // SIPp takes signals before it listens, Ringer too.
        server.signal(signal);
        assert_eq!(code(server), Some(0), "{tool:?}, {signal}: a server");
    }
}
