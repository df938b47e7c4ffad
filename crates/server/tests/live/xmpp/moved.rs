//! Accounts that have moved here from other servers sign in by what came of them.

use sip::transport::Transport::Tls;
use xmpp::ns;
use xmpp::sasl::{Hash, derive, encode};

use super::client::Client;
use super::registration::operate;
use crate::digest::Hash as PhoneHash;
use crate::phone::{DOMAIN, PASSWORD, Phone};
use crate::place::Place;
use crate::until;

/// The status of a REGISTER by that algorithm.
fn register(place: &Place, user: &str, hash: PhoneHash) -> u16 {
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
    let mut node = place.start();
    assert_eq!(register(&place, "carol", PhoneHash::Sha256), 200);
    assert_eq!(register(&place, "alice", PhoneHash::Md5), 200);
    assert_eq!(register(&place, "alice", PhoneHash::Sha256), 401, "only the HA1 of MD5 is known");
    let mut client = stream(&place);
    assert!(client.plain("bob", "not his").get("not-authorized", ns::SASL).is_some());
    assert!(stream(&place).plain("alice", PASSWORD).is("success", ns::SASL));
    until("there are keys of SCRAM", || {
        stream(&place).scram("alice", PASSWORD, None).is("success", ns::SASL).then_some(())
    });
    until("there are all digests", || (register(&place, "alice", PhoneHash::Sha256) == 200).then_some(()));
    assert_eq!(register(&place, "alice", PhoneHash::Md5), 200);
    node.stop();
}

#[test]
fn accounts_of_asterisk_register_by_password_and_by_md5_cred() {
    let place = Place::new("").with_xmpp("");
    let text = format!(
        "[alice]\ntype=endpoint\nauth=alice\naors=alice\n[alice]\ntype=auth\nusername=alice\npassword={PASSWORD}\n\
         [bob]\ntype=endpoint\nauth=bob\naors=bob\n[bob]\ntype=auth\nauth_type=md5\nrealm={DOMAIN}\nusername=bob\n\
         md5_cred={}\n",
        ha1("bob")
    );
    std::fs::write(place.path("pjsip.conf"), text).unwrap();
    let file = place.path("pjsip.conf");
    operate(&place, &["account", "import", "--scram", "--from", "asterisk", file.to_str().unwrap()]);
    let mut node = place.start();
    assert_eq!(register(&place, "alice", PhoneHash::Sha256), 200);
    assert_eq!(register(&place, "bob", PhoneHash::Md5), 200);
    assert!(stream(&place).scram("alice", PASSWORD, None).is("success", ns::SASL));
    node.stop();
}

#[test]
fn accounts_of_openfire_sign_in_by_password_and_by_keys() {
    let place = Place::new("").with_xmpp("");
    let xml = format!(
        "<Openfire><User><Username>alice</Username><Password>{PASSWORD}</Password></User></Openfire>"
    );
    std::fs::write(place.path("openfire.xml"), xml).unwrap();
    let keys = derive(Hash::Sha256, PASSWORD, b"some salt of it", 4_096);
    let [stored, server, salt] = [&keys.stored, &keys.server, &keys.salt].map(|key| encode(key));
    let sql = format!(
        "INSERT INTO ofUserScram (username, mechanism, storedKey, serverKey, salt, iterations) VALUES \
         ('bob', 'SCRAM-SHA-256', '{stored}', '{server}', '{salt}', 4096);"
    );
    std::fs::write(place.path("openfire.sql"), sql).unwrap();
    for file in ["openfire.xml", "openfire.sql"] {
        let file = place.path(file);
        operate(&place, &["account", "import", "--from", "openfire", file.to_str().unwrap()]);
    }
    let mut node = place.start();
    assert_eq!(register(&place, "alice", PhoneHash::Sha256), 200);
    assert!(stream(&place).plain("alice", PASSWORD).is("success", ns::SASL));
    let mut client = Client::connect(&place, Tls);
    client.open();
    assert!(client.scram("bob", PASSWORD, None).is("success", ns::SASL));
    assert_eq!(register(&place, "bob", PhoneHash::Md5), 401, "no password is known yet");
    assert!(stream(&place).plain("bob", PASSWORD).is("success", ns::SASL));
    until("phones may register", || (register(&place, "bob", PhoneHash::Sha256) == 200).then_some(()));
    node.stop();
}
