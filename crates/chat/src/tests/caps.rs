//! The capabilities of contacts' clients: asked once, checked, and not believed if the hash is wrong.

use super::effect::{RosterItem, Subscription};
use super::*;

const ALICE: &str = "alice@example.org";
/// The hash of a client with this identity and these features (XEP-0115 §5.2).
const VER: &str = "QgayPKawpkPSDYmwT/WM94uAlu0=";
const INFO: &str = "<identity category='client' type='pc' name='Exodus 0.9.1'/>\
    <feature var='http://jabber.org/protocol/caps'/><feature var='http://jabber.org/protocol/disco#info'/>\
    <feature var='http://jabber.org/protocol/disco#items'/><feature var='http://jabber.org/protocol/muc'/>";

fn world() -> HostWorld {
    let mut world = HostWorld::new(&[ALICE]);
    let store = world.store.users.get_mut(&Bare::parse(ALICE).unwrap()).unwrap();
    for contact in ["bob@x.org", "carol@x.org"] {
        let item = RosterItem { subscription: Subscription::To, ..Default::default() };
        store.roster.push((Bare::parse(contact).unwrap(), item));
    }
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.sent_abroad();
    world
}

fn presence(world: &mut HostWorld, from: &str, ver: &str) -> Vec<String> {
    world.arrive(&format!(
        "<presence from='{from}' to='{ALICE}'>\
         <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='http://exodus' ver='{ver}'/></presence>"
    ));
    world.sent_abroad()
}

/// Answers a question.
fn answer(world: &mut HostWorld, question: &str, from: &str, info: &str) -> Vec<String> {
    let id = question.split("id='").nth(1).unwrap().split('\'').next().unwrap();
    world.arrive(&format!(
        "<iq type='result' id='{id}' from='{from}' to='{ALICE}'>\
         <query xmlns='http://jabber.org/protocol/disco#info'>{info}</query></iq>"
    ));
    world.sent_abroad()
}

fn able(world: &HostWorld, account: &str, feature: &str) -> Vec<String> {
    let account = Bare::parse(account).unwrap();
    world.host.caps.clients_with(&account, feature).map(Jid::to_string).collect()
}

const MUC: &str = "http://jabber.org/protocol/muc";

#[test]
fn each_kind_of_client_is_asked_about_once() {
    let mut world = world();
    let asked = presence(&mut world, "bob@x.org/1", VER);
    assert_eq!(asked.len(), 1, "{asked:?}");
    for part in ["from='alice@example.org'", "to='bob@x.org/1'", &format!("node='http://exodus#{VER}'")] {
        assert!(asked[0].contains(part), "{part}: {asked:?}");
    }
    assert!(presence(&mut world, "carol@x.org/1", VER).is_empty());
    assert!(able(&world, "bob@x.org", MUC).is_empty());
    assert!(answer(&mut world, &asked[0], "bob@x.org/1", INFO).is_empty());
    assert!(presence(&mut world, "bob@x.org/2", VER).is_empty());
    assert_eq!(able(&world, "bob@x.org", MUC), ["bob@x.org/1", "bob@x.org/2"]);
    assert_eq!(able(&world, "carol@x.org", MUC), ["carol@x.org/1"]);
    assert!(able(&world, "carol@x.org", "urn:x").is_empty());
    world.arrive("<presence type='unavailable' from='bob@x.org/1' to='alice@example.org'/>");
    assert_eq!(able(&world, "bob@x.org", MUC), ["bob@x.org/2"]);
}

#[test]
fn a_forged_answer_is_not_believed_and_the_next_one_is_asked() {
    let mut world = world();
    let asked = presence(&mut world, "bob@x.org/1", VER);
    presence(&mut world, "carol@x.org/1", VER);
    let forged = INFO.replace("muc", "mud");
    let again = answer(&mut world, &asked[0], "bob@x.org/1", &forged);
    assert!(again.len() == 1 && again[0].contains("to='carol@x.org/1'"), "{again:?}");
    assert!(able(&world, "bob@x.org", "http://jabber.org/protocol/mud").is_empty());
    // Neither the liar nor a stranger answers for her.
    for stranger in ["bob@x.org/1", "eve@x.org/1"] {
        answer(&mut world, &again[0], stranger, INFO);
        assert!(able(&world, "carol@x.org", MUC).is_empty());
    }
    answer(&mut world, &again[0], "carol@x.org/1", INFO);
    assert_eq!(able(&world, "carol@x.org", MUC), ["carol@x.org/1"]);
}

#[test]
fn a_contact_that_does_not_answer_is_not_waited_for() {
    let mut world = world();
    assert_eq!(presence(&mut world, "bob@x.org/1", VER).len(), 1);
    world.now = START + Duration::from_secs(61);
    let asked = presence(&mut world, "carol@x.org/1", VER);
    assert!(asked[0].contains("to='carol@x.org/1'"), "{asked:?}");
    answer(&mut world, &asked[0], "carol@x.org/1", INFO);
    assert_eq!(able(&world, "bob@x.org", MUC), ["bob@x.org/1"]);
}

#[test]
fn strangers_and_other_hashes_are_not_asked() {
    let mut world = world();
    assert!(presence(&mut world, "eve@x.org/1", VER).is_empty());
    assert!(presence(&mut world, "bob@x.org/1", "short").is_empty());
    assert!(presence(&mut world, "bob@x.org", VER).is_empty());
    world.arrive(&format!(
        "<presence from='bob@x.org/1' to='{ALICE}'>\
         <c xmlns='http://jabber.org/protocol/caps' hash='md5' node='n' ver='{VER}'/></presence>"
    ));
    assert!(world.sent_abroad().is_empty());
}

#[test]
fn questions_have_an_end() {
    let mut world = world();
    let ver = |n: usize| format!("{n:028}");
    for n in 0..crate::limits::CAPS_QUESTIONS {
        assert_eq!(presence(&mut world, "bob@x.org/1", &ver(n)).len(), 1);
    }
    assert!(presence(&mut world, "bob@x.org/1", &ver(9_999)).is_empty());
    world.now = START + Duration::from_secs(61);
    assert_eq!(presence(&mut world, "bob@x.org/1", &ver(9_999)).len(), 1);
}

#[test]
fn own_clients_are_known_too() {
    let mut world = world();
    let phone = world.sign_in("alice@example.org/phone");
    world.say(
        phone,
        &format!("<presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='n' ver='{VER}'/></presence>"),
    );
    let asked = world.hear(phone).into_iter().find(|stanza| stanza.starts_with("<iq")).unwrap();
    let id = asked.split("id='").nth(1).unwrap().split('\'').next().unwrap();
    world.say(
        phone,
        &format!(
            "<iq type='result' id='{id}' to='{ALICE}'><query xmlns='http://jabber.org/protocol/disco#info'>{INFO}</query></iq>"
        ),
    );
    assert_eq!(able(&world, ALICE, MUC), ["alice@example.org/phone"]);
    world.tell(|host, now, out| host.handle_gone(now, edge(phone), true, out));
    assert!(able(&world, ALICE, MUC).is_empty());
}
