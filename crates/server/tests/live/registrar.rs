//! Bindings: read back after a restart, expired, removed, forked to, limited, replaced.

use std::time::Duration;

use control::{RegistrationQuery, Request, Response};
use sip::transport::Transport::{Tcp, Udp};
use sip::wire::Header;

use crate::call::talk;
use crate::phone::{Phone, text};
use crate::place::Place;
use crate::until;

fn place() -> Place {
    Place::new("min_expires = \"1s\"\nmax_contacts = 2").with_accounts(&["alice", "bob"])
}

fn register_as(phone: &mut Phone, contact: &str, more: &str) -> u16 {
    let ask = phone.registration(&format!("Contact: {contact}\r\n{more}"));
    phone.request(ask).status()
}

#[test]
fn a_restart_reads_bindings_back() {
    let place = place();
    let mut node = place.start();
    let (mut alice, mut bob) = (place.udp("alice"), place.udp("bob"));
    alice.register();
    bob.register();
    let contact = bob.contact();
    assert_eq!(register_as(&mut alice, "*", "Expires: 0\r\n"), 200);
    node.stop();
    let mut node = place.start();
    talk(&mut alice, &mut bob, "bob@example.test");
    assert!(bob.bindings()[0].contains(&contact));
    assert!(alice.bindings().is_empty(), "a removed binding stays removed");
    node.stop();
}

#[test]
fn a_binding_ends_with_its_time_also_across_a_restart() {
    let place = place();
    let mut node = place.start();
    let mut bob = place.udp("bob");
    let contact = format!("<{}>", bob.contact());
    assert_eq!(register_as(&mut bob, &contact, "Expires: 1\r\n"), 200);
    let mut alice = place.udp("alice");
    assert_eq!(register_as(&mut alice, "<sip:a@127.0.0.1:9>", "Expires: 2\r\n"), 200);
    until("bob's second is over", || bob.bindings().is_empty().then_some(()));
    node.stop();
    let mut node = place.start();
    until("alice's two seconds are over", || alice.bindings().is_empty().then_some(()));
    let invite = alice.invite("bob@example.test");
    assert_eq!(alice.outcome(&invite).status(), 480);
    node.stop();
}

#[test]
fn one_contact_is_removed_or_all() {
    let place = place();
    let mut node = place.start();
    let mut bob = place.udp("bob");
    let two = "<sip:one@127.0.0.1:9>, <sip:two@127.0.0.1:9>";
    assert_eq!(register_as(&mut bob, two, "Expires: 600\r\n"), 200);
    assert_eq!(register_as(&mut bob, "<sip:one@127.0.0.1:9>;expires=0", ""), 200);
    let left = bob.bindings();
    assert!(left.len() == 1 && left[0].contains("sip:two@"), "{left:?}");
    assert_eq!(register_as(&mut bob, "*", "Expires: 600\r\n"), 400, "RFC 3261 §10.3 step 6");
    assert_eq!(register_as(&mut bob, "*", "Expires: 0\r\n"), 200);
    assert!(bob.bindings().is_empty());
    node.stop();
}

/// A registration that an operator ends is removed as one that the phone ends: for good, and answered when it is written.
#[test]
fn an_operator_lists_registrations_and_calls_and_ends_a_registration() {
    let place = place();
    let process = place.spawn();
    let mut bob = place.udp("bob");
    let two = format!("<sip:one@127.0.0.1:9>, <{}>", bob.contact());
    assert_eq!(register_as(&mut bob, &two, "Expires: 600\r\n"), 200);
    let socket = place.path(".").join(&place.config().server.control);
    let mut operator = control::Client::connect(&socket).unwrap();
    let page = |operator: &mut control::Client, prefix: &str| {
        let query = RegistrationQuery { prefix: prefix.into(), limit: 9, ..RegistrationQuery::default() };
        match operator.ask(&Request::Registrations(query)).unwrap() {
            Response::Registrations(page) => page,
            other => panic!("{other:?}"),
        }
    };
    let listed = page(&mut operator, "bo");
    assert_eq!((listed.total, &*listed.addresses[0].address), (1, "bob@example.test"));
    assert_eq!(listed.addresses[0].contacts.len(), 2);
    assert_eq!(page(&mut operator, "alice").total, 0);

    let account = store::Address::new("bob", "example.test").unwrap();
    let end = |contact: &str| Request::EndRegistration { account: account.clone(), contact: contact.into() };
    assert_eq!(operator.ask(&end("sip:one@127.0.0.1:9")).unwrap(), Response::Done { rows: 1 });
    let left = bob.bindings();
    assert!(left.len() == 1 && !left[0].contains("sip:one@"), "{left:?}");
    let again = operator.ask(&end("sip:one@127.0.0.1:9")).unwrap_err().to_string();
    assert!(again.contains("no registration of sip:one@127.0.0.1:9"), "{again}");

    let mut alice = place.udp("alice");
    let invite = alice.invite("bob@example.test");
    let ringing = bob.expect_request("INVITE");
    bob.reply(&ringing, "180 Ringing", "d", "");
    alice.expect("180", |message| !message.is_request() && message.status() == 180);
    let calls = |operator: &mut control::Client, account: Option<&str>| match operator
        .ask(&Request::OpenCalls { account: account.map(Into::into) })
        .unwrap()
    {
        Response::OpenCalls(list) => list,
        other => panic!("{other:?}"),
    };
    let open = calls(&mut operator, Some("bob@example.test"));
    let [call] = &open.calls[..] else { panic!("{open:?}") };
    assert_eq!(
        (&*call.state, call.account.as_deref(), open.total),
        ("calling", Some("alice@example.test"), 1)
    );
    assert_eq!((call.sid.as_deref(), call.node.as_deref()), (None, None));
    bob.reply(&ringing, "486 Busy Here", "d", "");
    assert_eq!(alice.outcome(&invite).status(), 486);
    assert_eq!(calls(&mut operator, None).total, 0);
    process.kill();

    let process = place.spawn();
    assert_eq!(bob.bindings().len(), 1, "an ended binding stays ended");
    process.kill();
}

#[test]
fn all_contacts_ring_and_those_that_do_not_answer_are_cancelled() {
    let place = place();
    let mut node = place.start();
    let (mut desk, mut mobile) = (place.phone("bob", Udp), place.phone("bob", Tcp));
    desk.register();
    mobile.register();
    let mut alice = place.udp("alice");
    let invite = alice.invite("bob@example.test");
    let at_desk = desk.expect_request("INVITE");
    desk.reply(&at_desk, "180 Ringing", "d", "");
    mobile.pick_up();
    alice.answered(&invite);
    mobile.expect_request("ACK");
    let cancel = desk.expect_request("CANCEL");
    desk.reply(&cancel, "200 OK", "d", "");
    desk.reply(&at_desk, "487 Request Terminated", "d", "");
    desk.expect_request("ACK");
    node.stop();
}

#[test]
fn a_register_beyond_the_limit_of_contacts_binds_none() {
    let place = place();
    let mut node = place.start();
    let mut bob = place.udp("bob");
    let three = "<sip:1@127.0.0.1:9>, <sip:2@127.0.0.1:9>, <sip:3@127.0.0.1:9>";
    assert_eq!(register_as(&mut bob, three, "Expires: 600\r\n"), 403);
    assert!(bob.bindings().is_empty());
    node.stop();
}

#[test]
fn an_instance_that_comes_back_replaces_its_old_flow() {
    let place = place();
    let mut node = place.start();
    let instance = "+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-000a95a0e128>\";reg-id=1";
    let mut contacts = Vec::new();
    for _ in 0..2 {
        let mut bob = place.phone("bob", Tcp);
        let contact = bob.contact();
        let line = format!("<{contact};ob>;{instance}");
        let more = "Supported: path, outbound\r\nExpires: 600\r\n";
        assert_eq!(register_as(&mut bob, &line, more), 200);
        contacts.push((bob, contact));
    }
    let (mut bob, contact) = contacts.pop().unwrap();
    let bound = bob.bindings();
    assert!(bound.len() == 1 && bound[0].contains(&contact), "{bound:?}");
    let mut alice = place.udp("alice");
    let invite = alice.invite("bob@example.test");
    bob.pick_up();
    alice.answered(&invite);
    node.stop();
}

#[test]
fn a_wrong_password_binds_nothing() {
    let place = place();
    let mut node = place.start();
    let mut mallory = place.udp("mallory");
    let ask = mallory.registration("Contact: <sip:m@127.0.0.1:9>\r\n");
    assert!(matches!(mallory.request(ask).status(), 401 | 403), "no such account");
    let mut bob = place.udp("bob");
    let mut ask = bob.registration("Contact: <sip:m@127.0.0.1:9>\r\n");
    let line = "Authorization: Digest username=\"bob\", realm=\"example.test\", nonce=\"no\", \
                uri=\"sip:example.test\", response=\"0\"\r\n";
    ask.more.push_str(line);
    let message = bob.write(&ask);
    bob.send(message.as_bytes());
    let refused = bob.final_of(&ask);
    assert!(matches!(refused.status(), 400 | 401 | 403), "{}", text(refused.header(Header::Via)));
    assert!(bob.bindings().is_empty());
    assert!(bob.hears_nothing(Duration::from_millis(1), |_| false));
    node.stop();
}
