//! Accounts that have moved here from other servers sign in by what came of them.

use sip::transport::Transport::Tls;
use wait::until;
use xmpp::ns;

use super::client::Client;
use super::registration::operate;
use crate::digest::Hash;
use crate::phone::{DOMAIN, PASSWORD, Phone};
use crate::place::Place;

/// The status of a REGISTER by that algorithm.
fn register(place: &Place, user: &str, hash: Hash) -> u16 {
    let mut phone: Phone = place.udp(user);
    phone.hash = hash;
    let contact = phone.contact();
    let ask = phone.registration(&format!("Contact: <{contact}>\r\nExpires: 600\r\n"));
    phone.request(ask).status()
}

fn stream(place: &Place) -> Client {
    let mut client = Client::connect(place, Tls);
    client.open();
    client
}

/// The HA1 of MD5 as Kamailio and Asterisk have it, in digits.
fn ha1(user: &str) -> String {
    let verifiers = store::Verifiers::from_password(user, DOMAIN, PASSWORD);
    verifiers.md5.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn an_account_of_kamailio_registers_by_its_ha1_and_by_all_once_chat_has_sent_the_password() {
    let place = Place::new("").with_xmpp("");
    let (alice, bob) = (ha1("alice"), ha1("bob"));
    let text = format!(
        "username,domain,password,ha1\nalice,{DOMAIN},,{alice}\nbob,{DOMAIN},,{bob}\ncarol,{DOMAIN},{PASSWORD},\n"
    );
    std::fs::write(place.path("subscriber.csv"), text).unwrap();
    let file = place.path("subscriber.csv");
    operate(&place, &["account", "import", "--from", "kamailio", file.to_str().unwrap()]);
    let node = place.start();
    assert_eq!(register(&place, "carol", Hash::Sha256), 200);
    assert_eq!(register(&place, "alice", Hash::Md5), 200);
    assert_eq!(register(&place, "alice", Hash::Sha256), 401, "only the HA1 of MD5 is known");
    let mut client = stream(&place);
    assert!(client.plain("bob", "not his").get("not-authorized", ns::SASL).is_some());
    assert!(stream(&place).plain("alice", PASSWORD).is("success", ns::SASL));
    until("there are keys of SCRAM", || {
        stream(&place).scram("alice", PASSWORD, None).is("success", ns::SASL).then_some(())
    });
    until("there are all digests", || (register(&place, "alice", Hash::Sha256) == 200).then_some(()));
    assert_eq!(register(&place, "alice", Hash::Md5), 200);
    node.stop();
}
