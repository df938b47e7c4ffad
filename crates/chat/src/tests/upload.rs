//! Slots for files, and services of others.

use super::extdisco::ExternalService;
use super::pubsub::ask;
use super::*;
use crate::upload::UploadSettings;

const ALICE: &str = "alice@example.org";

fn world(change: impl FnOnce(&mut HostSettings)) -> (HostWorld, u64) {
    let mut world = HostWorld::new(&[ALICE]);
    let mut settings = settings();
    change(&mut settings);
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [1; 32]);
    let alice = world.sign_in("alice@example.org/desk");
    (world, alice)
}

fn slot(world: &mut HostWorld, alice: u64, inner: &str) -> String {
    let request = format!("<request xmlns='urn:xmpp:http:upload:0' {inner}/>");
    ask(world, alice, "get", "example.org", &request)
}

fn info(world: &mut HostWorld, alice: u64) -> String {
    ask(world, alice, "get", "example.org", "<query xmlns='http://jabber.org/protocol/disco#info'/>")
}

#[test]
fn a_user_gets_a_slot_for_a_permitted_upload() {
    let (mut world, alice) =
        world(|settings| settings.uploads = Some(UploadSettings { max_size: 10_000, per_day: 30_000 }));
    let answer = slot(&mut world, alice, "filename='très cool.jpg' size='10000' content-type='image/jpeg'");
    for part in [
        "<put url='https://up.example.org/put/très cool.jpg'>",
        "<header name='Authorization'>t</header>",
        "<get url=",
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    for (inner, condition) in [
        ("size='1'", "bad-request"),
        ("filename='a'", "bad-request"),
        ("filename='a' size='0'", "bad-request"),
        ("filename='a' size='-1'", "bad-request"),
        ("filename='../a' size='1'", "bad-request"),
        ("filename='..' size='1'", "bad-request"),
        ("filename='a\\b' size='1'", "bad-request"),
        ("filename='a&#9;b' size='1'", "bad-request"),
        ("filename='a' size='1' content-type='jpeg'", "bad-request"),
        ("filename='a' size='1' content-type='a/b&#10;X: y'", "bad-request"),
        ("filename='a' size='10001'", "<max-file-size>10000</max-file-size>"),
        ("filename='a' size='18446744073709551616'", "bad-request"),
    ] {
        assert!(slot(&mut world, alice, inner).contains(condition), "{inner}");
    }
    let long = "x".repeat(crate::limits::FILE_NAME + 1);
    assert!(slot(&mut world, alice, &format!("filename='{long}' size='1'")).contains("bad-request"));
    let set = "<request xmlns='urn:xmpp:http:upload:0' filename='a' size='1'/>";
    assert!(ask(&mut world, alice, "set", "example.org", set).contains("bad-request"));
    world.arrive(&format!("<iq type='get' id='1' from='bob@x.org/1' to='example.org'>{set}</iq>"));
    assert!(world.sent_abroad()[0].contains("not-allowed"));
    let info = info(&mut world, alice);
    assert!(info.contains("<feature var='urn:xmpp:http:upload:0'/>"), "{info}");
    assert!(info.contains("<identity category='store' type='file'"), "{info}");
    assert!(info.contains("var='max-file-size'><value>10000</value>"), "{info}");
}

#[test]
fn a_day_has_a_bound() {
    let (mut world, alice) =
        world(|settings| settings.uploads = Some(UploadSettings { max_size: 10_000, per_day: 20_000 }));
    let full = "filename='a' size='10000'";
    world.store.is_broken = true;
    assert!(slot(&mut world, alice, full).contains("resource-constraint"));
    world.store.is_broken = false;
    // A refused slot does not count as used.
    for _ in 0..2 {
        assert!(slot(&mut world, alice, full).contains("<put"));
    }
    let refused = slot(&mut world, alice, "filename='a' size='1'");
    assert!(
        refused.contains("resource-constraint") && refused.contains("stamp='2027-01-16T00:00:00.000Z'"),
        "{refused}"
    );
    world.now = world.now + Duration::from_secs(86_400);
    for _ in 0..20_000 / crate::limits::FILE_COST {
        assert!(slot(&mut world, alice, "filename='a' size='1'").contains("<put"));
    }
    assert!(slot(&mut world, alice, "filename='a' size='1'").contains("<retry"));
}

#[test]
fn a_restart_forgets_nothing_that_was_used_today() {
    let uploads = Some(UploadSettings { max_size: 10_000, per_day: 20_000 });
    let (mut world, alice) = world(|settings| settings.uploads = uploads);
    let full = "filename='a' size='10000'";
    assert!(slot(&mut world, alice, full).contains("<put"));
    world.host =
        Host::new(Arc::new(HostSettings { uploads, ..settings() }), ShardAddress::default(), [1; 32]);
    let alice = world.sign_in("alice@example.org/desk");
    assert!(slot(&mut world, alice, full).contains("<put"));
    assert!(slot(&mut world, alice, full).contains("<retry"));
    // A user cannot write a smaller usage either.
    let item = "<item id='today'><used xmlns='quota:uploads' day='0' bytes='0'/></item>";
    for node in ["quota:uploads", "private:quota:uploads"] {
        let publish = format!(
            "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='{node}'>{item}</publish></pubsub>"
        );
        assert!(ask(&mut world, alice, "set", ALICE, &publish).contains("type='error'"), "{node}");
    }
    let store = "<query xmlns='jabber:iq:private'><used xmlns='quota:uploads' day='0' bytes='0'/></query>";
    ask(&mut world, alice, "set", ALICE, store);
    world.host =
        Host::new(Arc::new(HostSettings { uploads, ..settings() }), ShardAddress::default(), [1; 32]);
    let alice = world.sign_in("alice@example.org/desk");
    assert!(slot(&mut world, alice, full).contains("<retry"));
    world.now = world.now + Duration::from_secs(86_400);
    assert!(slot(&mut world, alice, full).contains("<put"));
}

#[test]
fn services_without_configuration_are_not_offered() {
    let (mut world, alice) = world(|_| {});
    assert!(slot(&mut world, alice, "filename='a' size='1'").contains("service-unavailable"));
    let services = "<services xmlns='urn:xmpp:extdisco:2'/>";
    assert!(ask(&mut world, alice, "get", "example.org", services).contains("service-unavailable"));
    let info = info(&mut world, alice);
    assert!(!info.contains("upload") && !info.contains("extdisco"), "{info}");
}

#[test]
fn services_come_with_credentials_that_end() {
    let service = |kind: &str, secret: Option<&str>| ExternalService {
        kind: kind.into(),
        host: "turn.example.org".into(),
        port: Some(3478),
        transport: Some("udp".into()),
        secret: secret.map(|secret| (secret.into(), Duration::from_secs(3_600))),
    };
    let all = vec![service("stun", None), service("turn", Some("north"))];
    assert!(!format!("{all:?}").contains("north"));
    let (mut world, alice) = world(|settings| settings.services = all);
    let list = |world: &mut HostWorld, inner: &str| {
        ask(world, alice, "get", "example.org", &format!("<services xmlns='urn:xmpp:extdisco:2'{inner}/>"))
    };
    let both = list(&mut world, "");
    assert_eq!(both.matches("<service ").count(), 2);
    let turn = list(&mut world, " type='turn'");
    for part in [
        "username='1800003600:alice@example.org'",
        // HMAC-SHA1 of it under `north`, by openssl.
        "password='JpS2v/m/gs2PK+HAbiFVn//RI8I='",
        "expires='2027-01-15T09:00:00.000Z'",
        "port='3478' transport='udp'",
    ] {
        assert!(turn.contains(part), "{part}: {turn}");
    }
    assert!(!turn.contains("stun"));
    let credentials = |world: &mut HostWorld, inner: &str| {
        let payload = format!("<credentials xmlns='urn:xmpp:extdisco:2'>{inner}</credentials>");
        ask(world, alice, "get", "example.org", &payload)
    };
    for (inner, part) in [
        ("<service type='turn' host='turn.example.org'/>", "password="),
        ("<service type='turn' host='turn.example.org' port='3478'/>", "password="),
        ("<service type='turn' host='turn.example.org' port='1'/>", "item-not-found"),
        ("<service type='turn' host='x.org'/>", "item-not-found"),
        ("<service host='turn.example.org'/>", "bad-request"),
        ("", "bad-request"),
    ] {
        assert!(credentials(&mut world, inner).contains(part), "{inner}");
    }
    let services = "<services xmlns='urn:xmpp:extdisco:2'/>";
    assert!(ask(&mut world, alice, "set", "example.org", services).contains("bad-request"));
    world.arrive(&format!("<iq type='get' id='1' from='bob@x.org/1' to='example.org'>{services}</iq>"));
    assert!(world.sent_abroad()[0].contains("forbidden"));
    assert!(info(&mut world, alice).contains("urn:xmpp:extdisco:2"));
}
