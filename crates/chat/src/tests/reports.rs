//! XEP-0377: a report goes to the administrators, and the address is blocked whatever is in it.

use super::*;

const ADMIN: &str = "carol@example.org";

fn world(admins: &[&str]) -> (HostWorld, u64, u64) {
    let mut world = HostWorld::new(&["alice@example.org", ADMIN]);
    let admins = admins.iter().map(|admin| Bare::parse(admin).unwrap()).collect();
    world.host.reload(Arc::new(HostSettings { admins, ..settings() }));
    let alice = world.sign_in("alice@example.org/desk");
    let carol = world.sign_in("carol@example.org/desk");
    world.say(carol, "<presence/>");
    world.hear(alice);
    world.hear(carol);
    (world, alice, carol)
}

fn block(world: &mut HostWorld, client: u64, inside: &str) -> Vec<String> {
    let item = format!("<item jid='romeo@montague.net'>{inside}</item>");
    world.say(client, &format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>{item}</block></iq>"));
    world.hear(client)
}

fn report(reason: &str, inside: &str) -> String {
    format!("<report xmlns='urn:xmpp:reporting:1' reason='{reason}'>{inside}</report>")
}

fn features(world: &mut HostWorld, client: u64) -> String {
    world.say(
        client,
        &format!("<iq type='get' id='d' to='example.org'><query xmlns='{}'/></iq>", ns::DISCO_INFO),
    );
    world.hear(client).concat()
}

#[test]
fn administrators_get_a_report_and_the_address_is_blocked() {
    let (mut world, alice, carol) = world(&[ADMIN]);
    assert!(features(&mut world, alice).contains("urn:xmpp:reporting:1"));
    let messages = "<stanza-id xmlns='urn:xmpp:sid:0' by='romeo@montague.net' id='28482-98726-73623'/>";
    let text = "<text>Never came trouble to my house like this.</text>";
    let heard = block(&mut world, alice, &report("urn:xmpp:reporting:spam", &format!("{messages}{text}")));
    assert!(heard.iter().any(|it| it.contains("type='result'")), "{heard:?}");
    let [got] = &world.hear(carol)[..] else { panic!("one message") };
    for part in [
        "from='example.org'",
        "alice@example.org blocked and reported romeo@montague.net (spam)",
        "Never came trouble",
        "28482-98726-73623",
        "reason='urn:xmpp:reporting:spam'",
    ] {
        assert!(got.contains(part), "{part}: {got}");
    }
    world.say(alice, "<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>");
    assert!(world.hear(alice).concat().contains("romeo@montague.net"));
}

#[test]
fn a_block_without_a_report_is_told_to_no_administrator() {
    let (mut world, alice, carol) = world(&[ADMIN]);
    block(&mut world, alice, "");
    assert!(world.hear(carol).is_empty());
}

#[test]
fn a_report_without_administrators_is_taken_and_not_announced() {
    let (mut world, alice, carol) = world(&[]);
    assert!(!features(&mut world, alice).contains("urn:xmpp:reporting"));
    let heard = block(&mut world, alice, &report("urn:xmpp:reporting:abuse", ""));
    assert!(heard.iter().any(|it| it.contains("type='result'")), "{heard:?}");
    assert!(world.hear(carol).is_empty());
}

#[test]
fn a_report_of_any_size_costs_the_administrators_little() {
    let (mut world, alice, carol) = world(&[ADMIN]);
    let ids = "<stanza-id xmlns='urn:xmpp:sid:0' by='a@b' id='1'/>".repeat(200);
    let text = format!("<text>{}</text>", "ü".repeat(10_000));
    let long = "x".repeat(5_000);
    let items: String = (0..40)
        .map(|number| {
            format!("<item jid='u{number}@x.org'>{}</item>", report(&long, &format!("{ids}{text}")))
        })
        .take(8)
        .collect();
    world.say(alice, &format!("<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>{items}</block></iq>"));
    let got = world.hear(carol);
    assert_eq!(got.len(), 8);
    assert!(got.iter().all(|it| it.len() < 4_096), "{}", got[0].len());
    let many: String =
        (0..40).map(|number| format!("<item jid='v{number}@x.org'>{}</item>", report("", ""))).collect();
    world.say(alice, &format!("<iq type='set' id='c'><block xmlns='urn:xmpp:blocking'>{many}</block></iq>"));
    let got = world.hear(carol);
    assert_eq!(got.len(), crate::limits::REPORTS_OF_REQUEST);
    assert!(got[0].contains("(no reason)"), "{}", got[0]);
}
