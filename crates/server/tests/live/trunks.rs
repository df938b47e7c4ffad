//! Trunks that are known by the certificate that they show on connections to us (RFC 5922).

use sip::transport::Transport;
use store::types::RoutePolicy;

use crate::link::{Identity, Link};
use crate::phone::{Phone, fresh};
use crate::place::Place;

const NAME: &str = "sip.carrier.example";

struct Authority(rcgen::CertifiedIssuer<'static, rcgen::KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = rcgen::CertificateParams::new([]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        Authority(rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap())
    }

    fn certify(&self, name: &str) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.der().clone(), key.serialize_der().try_into().unwrap())
    }
}

/// The status of a call from elsewhere to a number that only accounts and trunks reach.
fn call(trunk: &mut Phone) -> u16 {
    let mut ask = trunk.ask("INVITE", "sip:900@example.test");
    ask.from = format!("<sip:+4930@carrier.example>;tag={}", fresh());
    ask.more = format!("Contact: <{}>\r\n", trunk.contact());
    trunk.request(ask).status()
}

#[test]
fn a_route_by_certificate_that_nothing_verifies_is_warned_of_at_the_start() {
    let to = "127.0.0.1:9".parse().unwrap();
    let policy = RoutePolicy { certificates: vec![NAME.into()], ..RoutePolicy::default() };
    let place = Place::new("").with_policy("900", to, false, policy);
    let node = place.spawn();
    let warning = "accepts no calls: [tls] ca names no file of authorities";
    assert!(node.log().lines().any(|line| line.contains("WARN") && line.contains(warning)), "{}", node.log());
}

#[test]
fn a_trunk_is_known_by_its_certificate_and_by_no_address() {
    let carrier = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = carrier.local_addr().unwrap();
    let policy = RoutePolicy { certificates: vec![NAME.into()], ..RoutePolicy::default() };
    let place = Place::new("[tls]\nca = \"ca.pem\"\n");
    let authority = Authority::new();
    std::fs::write(place.path("ca.pem"), authority.0.pem()).unwrap();
    let place = place.with_policy("900", to, false, policy);
    let mut node = place.start();
    let (server, ca) = (place.at(Transport::Tls), place.path("data/cert.pem"));
    let trunk = |identity| Phone::new("trunk", Transport::Tls, server, Link::tls_as(server, &ca, identity));

    let answer = move || {
        let mut buffer = [0; 65_536];
        let mut answered = 0;
        // Each call is one INVITE, which is refused, and the ACK of that; perhaps a repetition of it.
        while let Ok((length, from)) = carrier.recv_from(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.starts_with("END") {
                break;
            }
            if !text.starts_with("INVITE") {
                continue;
            }
            answered += 1;
            let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
            let lines = text.lines().filter(|line| copied.iter().any(|name| line.starts_with(name)));
            let lines: String = lines
                .map(|line| {
                    if line.starts_with("To:") { format!("{line};tag=c\r\n") } else { format!("{line}\r\n") }
                })
                .collect();
            let refusal = format!("SIP/2.0 486 Busy Here\r\n{lines}Content-Length: 0\r\n\r\n");
            carrier.send_to(refusal.as_bytes(), from).unwrap();
        }
        answered
    };
    let answering = std::thread::Builder::new().name("carrier".into()).spawn(answer).unwrap();

    // Both shards have calls of so many Call-IDs, and one of the two has the connection.
    let mut known = trunk(authority.certify(NAME));
    for _ in 0..12 {
        assert_eq!(call(&mut known), 486, "it goes by the route");
    }
    for (what, mut stranger) in [
        ("another name", trunk(authority.certify("other.example"))),
        ("another authority", trunk(Authority::new().certify(NAME))),
        ("no certificate", place.phone("trunk", Transport::Tls)),
    ] {
        assert_eq!(call(&mut stranger), 480, "{what}: there is no such number for strangers");
    }
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"END", to).unwrap();
    assert!(answering.join().unwrap() >= 12);
    node.stop();
}
