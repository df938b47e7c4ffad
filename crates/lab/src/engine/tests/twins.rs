//! 3PCC over real connections: instances that command each other by name.

use super::outside::{next, peer, scenario};
use super::*;

const MASTER: &str = r#"<scenario name="master">
  <sendCmd dest="s1"><![CDATA[
    Call-ID: [call_id]
    From: m
    ]]></sendCmd>
  <recvCmd src="s1"/>
</scenario>"#;

const SLAVE: &str = r#"<scenario name="slave">
  <recvCmd src="m"/>
  <sendCmd dest="m"><![CDATA[
    Call-ID: [call_id]
    From: s1
    ]]></sendCmd>
</scenario>"#;

/// An address at which no socket listens yet.
fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn instance(peers: &[(&str, SocketAddr)], name: &str, text: &str, remote: SocketAddr) -> Setup {
    let mut options = caller(options("127.0.0.1", Protocol::Udp, Sockets::Shared, 2), remote);
    options.rate.total = Some(3);
    options.three_pcc.peers = peers.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
    if name == "m" {
        options.three_pcc.master = Some(name.to_owned());
    } else {
        options.three_pcc.slave = Some(name.to_owned());
        options.rate.total = None;
    }
    let mut setup = setup("uac", options);
    setup.scenario = scenario(text);
    setup
}

#[test]
fn a_master_commands_a_slave_by_name() {
    let (_socket, remote) = silent();
    let peers = [("m", free()), ("s1", free())];
    let mut slave = Run::start(instance(&peers, "s1", SLAVE, remote)).unwrap();
    let mut master = Run::start(instance(&peers, "m", MASTER, remote)).unwrap();
    let done = end(&mut master);
    let counts = &done.progress.total.counts;
    assert_eq!((counts[Count::OutgoingCall], counts[Count::SuccessfulCall]), (3, 3), "{counts:?}");
    // Without its master a slave ends too.
    let done = end(&mut slave);
    assert_eq!((done.end, done.progress.total.counts[Count::SuccessfulCall]), (RunEnd::Normal, 3));
}

/// The second command comes while the call still waits for its response.
#[test]
fn a_command_that_overtakes_a_message_waits_for_its_step() {
    let (socket, remote) = peer();
    let peers = [("m", free()), ("s1", free())];
    let command = r#"<sendCmd dest="s1"><![CDATA[
        Call-ID: [call_id]
        From: m
        ]]></sendCmd>"#;
    let commands = format!(r#"<scenario name="master">{command}{command}<recvCmd src="s1"/></scenario>"#);
    let asks = r#"<scenario name="slave">
      <recvCmd src="m"/>
      <send><![CDATA[
        OPTIONS sip:a SIP/2.0
        Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
        From: <sip:m>;tag=1
        To: <sip:a>
        Call-ID: [call_id]
        CSeq: 1 OPTIONS
        Content-Length: 0
      ]]></send>
      <recv response="200"/>
      <recvCmd src="m"/>
      <sendCmd dest="m"><![CDATA[
        Call-ID: [call_id]
        From: s1
        ]]></sendCmd></scenario>"#;
    let mut slave = Run::start(instance(&peers, "s1", asks, remote)).unwrap();
    let mut master = Run::start(instance(&peers, "m", &commands, remote)).unwrap();
    // Each call's two commands leave together.
    for _ in 0..3 {
        let (request, from) = next(&socket);
        let answer = request.replace("OPTIONS sip:a SIP/2.0", "SIP/2.0 200 OK");
        socket.send_to(answer.as_bytes(), from).unwrap();
    }
    let counts = end(&mut master).progress.total.counts;
    assert_eq!((counts[Count::SuccessfulCall], counts[Count::FailedCall]), (3, 0), "{counts:?}");
    let counts = end(&mut slave).progress.total.counts;
    assert_eq!((counts[Count::SuccessfulCall], counts[Count::FailedCall]), (3, 0), "{counts:?}");
}

#[test]
fn a_call_that_fails_ends_those_of_the_peers_it_commanded() {
    let (socket, remote) = peer();
    let peers = [("m", free()), ("s1", free())];
    let waits = r#"<scenario name="slave"><recvCmd src="m"/><recvCmd src="m"/></scenario>"#;
    let asks = r#"<scenario name="master">
      <sendCmd dest="s1"><![CDATA[
        Call-ID: [call_id]
        From: m
        ]]></sendCmd>
      <send><![CDATA[
        OPTIONS sip:a SIP/2.0
        Via: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]
        From: <sip:m>;tag=1
        To: <sip:a>
        Call-ID: [call_id]
        CSeq: 1 OPTIONS
        Content-Length: 0
      ]]></send>
      <recv response="200"/></scenario>"#;
    let mut slave = Run::start(instance(&peers, "s1", waits, remote)).unwrap();
    let mut setup = instance(&peers, "m", asks, remote);
    let mut options = Options::clone(&setup.options);
    options.rate.total = Some(1);
    setup.options = Arc::new(options);
    let mut master = Run::start(setup).unwrap();
    let (request, from) = next(&socket);
    let answer = request.replace("OPTIONS sip:a SIP/2.0", "SIP/2.0 500 Oops");
    socket.send_to(answer.as_bytes(), from).unwrap();
    let counts = end(&mut master).progress.total.counts;
    assert_eq!((counts[Count::FailedCall], counts[Count::FailedUnexpectedMessage]), (1, 1), "{counts:?}");
    let counts = end(&mut slave).progress.total.counts;
    assert_eq!((counts[Count::OutgoingCall], counts[Count::FailedCall]), (1, 1), "{counts:?}");
}

#[test]
fn a_command_for_an_absent_peer_fails_its_call() {
    let (_socket, remote) = silent();
    // Refuses connections: nothing listens there, and no other program can take the port meanwhile.
    let closed = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    closed.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let unused = closed.local_addr().unwrap().as_socket().unwrap();
    let peers = [("m", free()), ("s1", unused)];
    let mut master = Run::start(instance(&peers, "m", MASTER, remote)).unwrap();
    let counts = end(&mut master).progress.total.counts;
    assert_eq!((counts[Count::FailedCmdNotSent], counts[Count::FailedCall]), (3, 3), "{counts:?}");
}
