//! The voicemail of an account, for its own clients.

use super::super::effect::{Voicemail, VoicemailPage, VoicemailReply, VoicemailRequest, VoicemailSound};
use super::pubsub::ask;
use super::*;
use crate::limits;

/// The messages in the store.
#[derive(Default)]
pub(super) struct Mailboxes {
    /// The newest first.
    pub(super) of: HashMap<Bare, Vec<Voicemail>>,
    pub(super) sound: Vec<u8>,
}

impl Mailboxes {
    pub(super) fn perform(&mut self, user: &Bare, request: &VoicemailRequest) -> VoicemailReply {
        let messages = self.of.entry(user.clone()).or_default();
        let place = |messages: &[Voicemail], id: &str| messages.iter().position(|message| &*message.id == id);
        match request {
            VoicemailRequest::List { until, max } => {
                let mut listed =
                    messages.iter().filter(|message| until.is_none_or(|until| message.at <= until));
                let page: Vec<Voicemail> = listed.by_ref().take(*max as usize).cloned().collect();
                let next = listed.next().map(|message| message.at);
                let unheard = messages.iter().filter(|message| !message.is_heard).count() as u64;
                VoicemailReply::Page(VoicemailPage { messages: page, next, unheard })
            }
            VoicemailRequest::Sound { id, offset } if place(messages, id).is_some() => {
                let size = self.sound.len();
                let start = (*offset as usize).min(size);
                let bytes = self.sound[start..(start + limits::VOICEMAIL_PIECE).min(size)].to_vec();
                VoicemailReply::Sound(VoicemailSound { size: size as u64, bytes })
            }
            VoicemailRequest::Sound { .. } => VoicemailReply::NotFound,
            VoicemailRequest::Heard { id } | VoicemailRequest::Delete { id } => {
                let Some(at) = place(messages, id) else { return VoicemailReply::NotFound };
                match request {
                    VoicemailRequest::Heard { .. } => messages[at].is_heard = true,
                    _ => drop(messages.remove(at)),
                }
                VoicemailReply::Done
            }
        }
    }
}

const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@example.org";

fn message(id: &str, seconds: u64) -> Voicemail {
    let at = START + Duration::from_secs(seconds);
    Voicemail { id: id.into(), from: "bob".into(), at, seconds: 7, is_heard: false }
}

/// A world in which alice has these messages.
fn world(messages: Vec<Voicemail>) -> (HostWorld, u64) {
    let mut world = HostWorld::new(&[ALICE, BOB]);
    world.store.mailboxes.of.insert(Bare::parse(ALICE).unwrap(), messages);
    world.store.mailboxes.sound = vec![7; limits::VOICEMAIL_PIECE + 3];
    let alice = world.sign_in("alice@example.org/desk");
    (world, alice)
}

fn payload(name: &str, attributes: &str) -> String {
    format!("<{name} xmlns='urn:belfry:voicemail:0'{attributes}/>")
}

fn page(inner: &str) -> String {
    format!(
        "<voicemail xmlns='urn:belfry:voicemail:0'><set xmlns='http://jabber.org/protocol/rsm'>{inner}</set></voicemail>"
    )
}

#[test]
fn an_account_lists_hears_and_deletes_its_messages() {
    let (mut world, alice) = world(vec![message("RE2", 2), message("RE1", 1)]);
    let answer = ask(&mut world, alice, "get", ALICE, &payload("voicemail", ""));
    let first = "<voicemail xmlns='urn:belfry:voicemail:0' unheard='2'>\
                 <message id='RE2' from='bob' time='2027-01-15T08:00:02.000Z' seconds='7' heard='false'/>";
    assert!(answer.contains(first) && answer.contains("id='RE1'"), "{answer}");
    let heard = ask(&mut world, alice, "set", ALICE, &payload("heard", " id='RE2'"));
    assert!(heard.contains("type='result'"), "{heard}");
    let answer = ask(&mut world, alice, "get", ALICE, &payload("voicemail", ""));
    assert!(answer.contains("unheard='1'") && answer.contains("heard='true'"), "{answer}");
    let gone = ask(&mut world, alice, "set", ALICE, &payload("delete", " id='RE1'"));
    assert!(gone.contains("type='result'"), "{gone}");
    let again = ask(&mut world, alice, "set", ALICE, &payload("delete", " id='RE1'"));
    assert!(again.contains("item-not-found"), "{again}");
}

#[test]
fn sound_comes_in_pieces_that_fit_a_stanza() {
    let (mut world, alice) = world(vec![message("RE1", 1)]);
    let mut piece = |offset: usize| {
        let payload = payload("sound", &format!(" id='RE1' offset='{offset}'"));
        ask(&mut world, alice, "get", ALICE, &payload)
    };
    let first = piece(0);
    let size = limits::VOICEMAIL_PIECE + 3;
    assert!(first.contains(&format!("offset='0' size='{size}' type='audio/wav'>BwcH")), "{first:.300}");
    assert!(first.len() < limits::STANZA / 2, "{}", first.len());
    assert!(piece(limits::VOICEMAIL_PIECE).contains(">BwcH</sound>"));
    // Behind the end there is nothing.
    let last = piece(size);
    assert!(last.contains("type='audio/wav'/>"), "{last}");
}

#[test]
fn pages_of_voicemail_follow_one_another() {
    let number = u64::from(limits::VOICEMAIL_PAGE_MAX) + 20;
    let (mut world, alice) = world((0..number).rev().map(|at| message(&format!("RE{at}"), at)).collect());
    let count = |answer: &str| answer.matches("<message ").count();
    let first = ask(&mut world, alice, "get", ALICE, &payload("voicemail", ""));
    assert_eq!(count(&first), limits::VOICEMAIL_PAGE as usize);
    let first = ask(&mut world, alice, "get", ALICE, &page("<max>1000</max>"));
    assert_eq!(count(&first), limits::VOICEMAIL_PAGE_MAX as usize);
    let last = first.split("<last>").nth(1).and_then(|rest| rest.split('<').next()).unwrap();
    let second = page(&format!("<max>100</max><after>{last}</after>"));
    let second = ask(&mut world, alice, "get", ALICE, &second);
    assert!(count(&second) == 20 && second.contains("id='RE0'") && !second.contains("<set"), "{second}");
}

#[test]
fn the_voicemail_of_another_account_is_not_there() {
    let (mut world, alice) = world(vec![message("RE1", 1)]);
    let bob = world.sign_in("bob@example.org/desk");
    let requests = [("get", "voicemail", ""), ("get", "sound", " id='RE1'"), ("set", "heard", " id='RE1'")];
    for (kind, name, attributes) in requests.into_iter().chain([("set", "delete", " id='RE1'")]) {
        for to in [ALICE, "alice@example.org/desk", "example.org"] {
            let payload = payload(name, attributes);
            world.say(bob, &format!("<iq type='{kind}' id='q' to='{to}'>{payload}</iq>"));
            // The client of alice is asked itself: bob may ask a client anything, and the server does not answer for it.
            let heard = world.hear(bob).concat();
            assert!(!heard.contains("type='result'"), "{name} to {to}: {heard}");
        }
    }
    world.hear(alice);
    let loads = world.store.loads.iter().filter(|load| matches!(load, Load::Voicemail { .. }));
    assert_eq!(loads.count(), 0, "a refused request costs no read");
    let answer = ask(&mut world, bob, "set", BOB, &payload("delete", " id='RE1'"));
    assert!(answer.contains("item-not-found"), "{answer}");
    assert_eq!(world.store.mailboxes.of[&Bare::parse(ALICE).unwrap()].len(), 1);
}

#[test]
fn bad_requests_about_voicemail_are_answered() {
    let (mut world, alice) = world(vec![message("RE1", 1)]);
    let long = format!(" id='{}'", "R".repeat(limits::VOICEMAIL_ID + 1));
    for (kind, name, attributes, condition) in [
        ("set", "voicemail", "", "bad-request"),
        ("set", "sound", " id='RE1'", "bad-request"),
        ("get", "heard", " id='RE1'", "bad-request"),
        ("get", "delete", " id='RE1'", "bad-request"),
        ("get", "sound", "", "bad-request"),
        ("get", "sound", " id='RE1' offset='-1'", "bad-request"),
        ("set", "heard", " id=''", "bad-request"),
        ("set", "delete", long.as_str(), "item-not-found"),
    ] {
        let answer = ask(&mut world, alice, kind, ALICE, &payload(name, attributes));
        assert!(
            answer.contains("type='error'") && answer.contains(condition),
            "{name}{attributes}: {answer}"
        );
    }
    world.store.is_broken = true;
    let answer = ask(&mut world, alice, "get", ALICE, &payload("voicemail", ""));
    assert!(answer.contains("resource-constraint"), "{answer}");
}

#[test]
fn a_notice_reaches_the_clients_of_its_account_and_is_not_kept() {
    let (mut world, alice) = world(Vec::new());
    world.say(alice, "<presence/>");
    world.hear(alice);
    let account = Bare::parse(ALICE).unwrap();
    let notice = crate::voicemail::notice(&account, "RE1", "bob", START);
    assert_eq!(notice.attr("type"), Some("headline"));
    world.tell(|host, now, out| host.handle_routed(now, notice, out));
    let heard = world.hear(alice).concat();
    assert!(
        heard.contains("<voicemail xmlns='urn:belfry:voicemail:0'><message id='RE1' from='bob'"),
        "{heard}"
    );
}

/// The caller chooses the user part of its From and the Call-ID, with any bytes.
#[test]
fn no_caller_breaks_the_stream_of_the_account_by_its_name() {
    let strange = Voicemail { from: "bob\u{ffff}\u{1}".into(), ..message("RE1", 1) };
    let (mut world, alice) = world(vec![strange]);
    let answer = ask(&mut world, alice, "get", ALICE, &payload("voicemail", ""));
    assert!(answer.contains("from='bob\u{fffd}\u{fffd}'"), "{answer}");
}
