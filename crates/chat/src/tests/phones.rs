//! Phones and chat of one account: words both ways, and presence both ways.

use std::collections::VecDeque;

use super::super::phones::{
    ChatPresence, MessageBody, Phone, PhoneEvent, PhoneMessage, PhoneMessageOutcome, PhoneSender, Show,
    TextsToPhones,
};
use super::effect::{RosterItem, Subscription};
use super::*;

/// The phones of all accounts.
#[derive(Default)]
pub(crate) struct Phones {
    state: HashMap<Bare, Phone>,
    /// The accounts whose phones the host asked about.
    asked: Vec<Bare>,
    /// From, to, words.
    texts: Vec<(String, String, String)>,
    /// They have not answered these.
    unanswered: VecDeque<Ticket>,
    is_slow: bool,
    /// The answer of the phones.
    refusal: Option<StoreFailure>,
    shown: Vec<(String, Option<ChatPresence>)>,
    outcomes: Vec<(u64, PhoneMessageOutcome)>,
    consents: Vec<(u64, bool)>,
}

impl Phones {
    pub(super) fn perform(&mut self, host: &mut Host, now: Instant, effect: Effect, out: &mut Outbox) {
        match effect {
            Effect::Text { ticket, from, to, body, .. } => {
                self.texts.push((from.to_string(), to.to_string(), body.into()));
                match self.is_slow {
                    true => self.unanswered.push_back(ticket),
                    false => host.handle_store_reply(now, ticket, self.answer(), out),
                }
            }
            Effect::AskPhone { user } => {
                let phone = self.state.get(&user).cloned().unwrap_or_default();
                self.asked.push(user.clone());
                host.handle_phone(now, PhoneEvent::Changed { user, phone }, out);
            }
            Effect::Show { user } => {
                let shown = (user.to_string(), host.accounts().chat_presence(&user));
                // Changes are reported to phones.
                if self.shown.last() != Some(&shown) {
                    self.shown.push(shown);
                }
            }
            Effect::PhoneMessageOutcome { id, outcome } => self.outcomes.push((id, outcome)),
            Effect::Consent { id, is_given } => self.consents.push((id, is_given)),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&self) -> Result<StoreReply, StoreFailure> {
        self.refusal.map_or(Ok(StoreReply::Done), Err)
    }
}

const ALICE: &str = "alice@example.org";
const BOB: &str = "bob@example.org";

fn bare(text: &str) -> Bare {
    Bare::parse(text).unwrap()
}

fn there() -> Phone {
    Phone { is_there: true, ..Phone::default() }
}

fn talking() -> Phone {
    Phone { is_talking: true, ..there() }
}

fn published(inner: &str) -> Phone {
    let document = format!("<presence xmlns='urn:ietf:params:xml:ns:pidf'>{inner}</presence>");
    Phone { published: Some(document.into_bytes().into()), ..there() }
}

/// Alice and Bob see each other; Carol sees no account.
fn world() -> HostWorld {
    world_with(TextsToPhones::Absent)
}

fn world_with(texts_to_phones: TextsToPhones) -> HostWorld {
    let mut world = HostWorld::new(&[ALICE, BOB, "carol@example.org"]);
    let both = RosterItem { subscription: Subscription::Both, is_listed: true, ..RosterItem::default() };
    for (user, contact) in [(ALICE, BOB), (BOB, ALICE)] {
        let store = world.store.users.get_mut(&bare(user)).unwrap();
        store.roster.push((bare(contact), both.clone()));
    }
    world.host.reload(Arc::new(HostSettings { texts_to_phones, ..settings() }));
    world
}

/// RFC 6121 §3: contacts with the subscription `from` or `both` see the account; others do not.
#[test]
fn contacts_may_watch_an_account_from_their_phones_as_its_roster_says() {
    let mut world = world();
    let watch = |world: &mut HostWorld, user: &str, watcher: &str| {
        let (user, watcher) = (bare(user), bare(watcher));
        world.tell(|host, now, out| host.handle_phone(now, PhoneEvent::Watch { id: 7, user, watcher }, out));
        world.phones.consents.pop()
    };
    assert_eq!(watch(&mut world, ALICE, BOB), Some((7, true)));
    assert_eq!(watch(&mut world, ALICE, "carol@example.org"), Some((7, false)));
    assert_eq!(watch(&mut world, "carol@example.org", ALICE), Some((7, false)));
    assert_eq!(watch(&mut world, "nobody@example.org", ALICE), Some((7, false)));
    for (subscription, expected) in
        [(Subscription::From, true), (Subscription::To, false), (Subscription::None, false)]
    {
        let mut world = self::world();
        let store = world.store.users.get_mut(&bare(ALICE)).unwrap();
        store.roster[0].1.subscription = subscription;
        assert_eq!(watch(&mut world, ALICE, BOB), Some((7, expected)), "{subscription:?}");
    }
    let mut world = self::world();
    world.reads_slowly = true;
    for _ in 0..crate::limits::USER_WAITING {
        world.arrive("<message from='eve@x.org/1' to='alice@example.org'><body>x</body></message>");
    }
    assert_eq!(watch(&mut world, ALICE, BOB), Some((7, false)), "too much waits for her account");
    let mut world = self::world();
    world.store.users.get_mut(&bare(ALICE)).unwrap().blocked.push(Jid::parse(BOB).unwrap());
    assert_eq!(watch(&mut world, ALICE, BOB), Some((7, false)), "blocked");
}

impl HostWorld {
    fn phone_is(&mut self, user: &str, phone: Phone) {
        let user = bare(user);
        self.phones.state.insert(user.clone(), phone.clone());
        self.tell(|host, now, out| host.handle_phone(now, PhoneEvent::Changed { user, phone }, out));
    }

    fn texts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.phones.texts).into_iter().map(|(_, _, body)| body).collect()
    }

    /// The oldest text that they have not answered.
    fn phone_answers(&mut self, answer: Result<StoreReply, StoreFailure>) {
        let ticket = self.phones.unanswered.pop_front().unwrap();
        self.tell(|host, now, out| host.handle_store_reply(now, ticket, answer, out));
    }

    fn heard(&mut self, from: PhoneSender, to: &str, words: MessageBody, has_phones: bool) -> u64 {
        self.next += 1;
        let heard = PhoneMessage { id: self.next, from, to: bare(to), words, has_phones, expires_at: None };
        self.tell(|host, now, out| host.handle_phone(now, PhoneEvent::Message(heard), out));
        self.next
    }

    /// From Alice's phone to Bob.
    fn alice_says(&mut self, text: &str, has_phones: bool) -> Option<PhoneMessageOutcome> {
        let from = PhoneSender::Account(bare(ALICE));
        let id = self.heard(from, BOB, MessageBody::Text(text.into()), has_phones);
        self.outcome(id)
    }

    fn outcome(&self, id: u64) -> Option<PhoneMessageOutcome> {
        self.phones.outcomes.iter().find(|(known, _)| *known == id).map(|(_, outcome)| *outcome)
    }

    fn available(&mut self, jid: &str) -> u64 {
        let client = self.sign_in(jid);
        self.say(client, "<presence/>");
        client
    }

    fn chat(&mut self, client: u64, to: &str, body: &str) {
        self.say(client, &format!("<message type='chat' to='{to}'><body>{body}</body></message>"));
    }
}

fn kept(world: &HostWorld) -> usize {
    world.store.messages.offline.len()
}

mod words_to_phones {
    use super::*;

    #[test]
    fn a_chat_to_a_user_with_only_a_phone_arrives() {
        let mut world = world();
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        world.chat(alice, BOB, "hello");
        assert_eq!(world.phones.texts, [(ALICE.into(), BOB.into(), "hello".into())]);
        assert_eq!(kept(&world), 0, "the phone has it");
        assert!(!world.hear(alice).iter().any(|xml| xml.contains("error")));
    }

    #[test]
    fn a_chat_to_an_absent_user_waits_for_the_first_phone_or_client() {
        for phone_first in [true, false] {
            let mut world = world();
            let alice = world.available("alice@example.org/desk");
            world.chat(alice, BOB, "one");
            world.chat(alice, BOB, "two");
            assert_eq!((kept(&world), world.texts().len()), (2, 0));
            if phone_first {
                world.phone_is(BOB, there());
                assert_eq!(world.texts(), ["one", "two"]);
                assert_eq!(kept(&world), 0);
            }
            let bob = world.available("bob@example.org/desk");
            let heard: String = world.hear(bob).concat();
            assert_eq!(heard.contains("<body>one</body>"), !phone_first, "{heard}");
            assert_eq!(heard.contains("<body>two</body>"), !phone_first, "{heard}");
            if !phone_first {
                world.phone_is(BOB, there());
                assert!(world.texts().is_empty(), "they came once");
            }
        }
    }

    #[test]
    fn a_message_kept_before_a_restart_goes_to_the_phone_that_comes() {
        let mut world = world();
        let alice = world.available("alice@example.org/desk");
        world.chat(alice, BOB, "hello");
        world.host = Host::new(Arc::new(settings()), ShardAddress::default(), [2; 32]);
        world.phones.asked.clear();
        world.tell(|host, _, out| host.begin(out));
        assert_eq!(world.phones.asked, [bare(BOB)]);
        world.phone_is(BOB, there());
        assert_eq!((world.texts(), kept(&world)), (vec!["hello".to_owned()], 0));
    }

    #[test]
    fn a_user_in_chat_gets_a_message_only_there_unless_phones_get_all() {
        for (texts, count) in
            [(TextsToPhones::Absent, 0), (TextsToPhones::Always, 1), (TextsToPhones::Never, 0)]
        {
            let mut world = world_with(texts);
            world.phone_is(BOB, there());
            let alice = world.available("alice@example.org/desk");
            let bob = world.available("bob@example.org/desk");
            world.hear(bob);
            world.chat(alice, BOB, "hello");
            assert_eq!(world.texts().len(), count, "{texts:?}");
            assert!(world.hear(bob).concat().contains("hello"));
        }
        let mut world = world_with(TextsToPhones::Never);
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        world.chat(alice, BOB, "hello");
        assert_eq!((world.texts().len(), kept(&world)), (0, 1), "it waits for a client");
    }

    #[test]
    fn a_message_to_the_address_of_the_phone_reaches_it_or_the_account() {
        let mut world = world();
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        let bob = world.available("bob@example.org/desk");
        world.hear(bob);
        world.chat(alice, "bob@example.org/sip-phone", "ring");
        assert_eq!((world.texts(), kept(&world)), (vec!["ring".to_owned()], 0));
        assert!(world.hear(bob).is_empty(), "it is for the phone only");
        world.phones.refusal = Some(StoreFailure::Unavailable);
        world.chat(alice, "bob@example.org/sip-phone", "again");
        assert_eq!(world.texts(), ["again"]);
        assert!(world.hear(bob).concat().contains("again"));
        world.lose(bob);
        world.phones.is_slow = true;
        world.say(alice, "<enable xmlns='urn:xmpp:sm:3'/>");
        world.hear(alice);
        world.chat(alice, "bob@example.org/sip-phone", "slow");
        world.say(alice, "<r xmlns='urn:xmpp:sm:3'/>");
        assert!(world.hear(alice).concat().contains("h='0'"), "no client has it yet");
        world.phone_answers(Err(StoreFailure::NotFound));
        world.say(alice, "<r xmlns='urn:xmpp:sm:3'/>");
        assert!(world.hear(alice).concat().contains("h='1'"));
        assert_eq!(kept(&world), 1);
    }

    /// XEP-0198 §4: a message counts as handled once it is delivered, stored or refused, never before and always some time.
    #[test]
    fn a_text_that_no_phone_takes_is_handled_when_the_account_has_it_or_it_is_refused() {
        const ASK: &str = "<r xmlns='urn:xmpp:sm:3'/>";
        for (is_broken, waiting) in [(true, 0), (false, crate::limits::USER_WAITING), (false, 0)] {
            let mut world = world();
            world.phone_is(BOB, there());
            world.phones.is_slow = true;
            let alice = world.available("alice@example.org/desk");
            world.say(alice, "<enable xmlns='urn:xmpp:sm:3'/>");
            world.chat(alice, "bob@example.org/sip-phone", "slow");
            world.hear(alice);
            // Bob's account has left memory when the phone answers.
            world.tell(|host, _, _| host.forget_accounts(Some(&bare(BOB))));
            (world.reads_slowly, world.is_slow) = (true, true);
            for _ in 0..waiting {
                world.arrive("<message from='eve@x.org/1' to='bob@example.org'><body>x</body></message>");
            }
            world.phone_answers(Err(StoreFailure::NotFound));
            world.store.is_broken = is_broken;
            while !world.unread.is_empty() {
                world.read();
                world.store.is_broken = false;
            }
            let is_refused = is_broken || waiting > 0;
            world.say(alice, ASK);
            let heard = world.hear(alice).concat();
            assert_eq!(heard.contains("resource-constraint"), is_refused, "{heard}");
            assert_eq!(heard.contains("h='1'"), is_refused, "not before it is on disk: {heard}");
            while !world.unwritten.is_empty() {
                world.write();
            }
            world.say(alice, ASK);
            assert!(world.hear(alice).concat().contains("h='1'"));
        }
    }

    #[test]
    fn copies_for_phones_that_do_not_answer_have_a_bound() {
        let mut world = world_with(TextsToPhones::Always);
        world.phones.is_slow = true;
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        world.available("bob@example.org/desk");
        for _ in 0..crate::limits::TEXT_COPIES + 5 {
            world.chat(alice, BOB, "hello");
        }
        assert_eq!(world.texts().len(), crate::limits::TEXT_COPIES);
        world.phone_answers(Err(StoreFailure::Unavailable));
        world.chat(alice, BOB, "hello");
        assert_eq!((world.texts().len(), kept(&world)), (1, 0), "and nothing of them is tried again");
    }

    #[test]
    fn a_phone_that_does_not_answer_is_tried_again() {
        let mut world = world();
        world.phone_is(BOB, there());
        world.phones.refusal = Some(StoreFailure::Unavailable);
        let alice = world.available("alice@example.org/desk");
        world.chat(alice, BOB, "hello");
        assert_eq!((world.texts().len(), kept(&world)), (1, 1));
        world.phones.refusal = None;
        world.wait(Duration::from_secs(299));
        assert!(world.texts().is_empty());
        world.wait(Duration::from_secs(1));
        assert_eq!((world.texts().len(), kept(&world)), (1, 0));
        assert_eq!(world.host.deadline(), None, "nothing is left to be tried");
    }

    #[test]
    fn a_phone_that_takes_no_texts_is_not_pestered() {
        let mut world = world();
        world.phone_is(BOB, there());
        world.phones.refusal = Some(StoreFailure::NotFound);
        let alice = world.available("alice@example.org/desk");
        world.chat(alice, BOB, "hello");
        assert_eq!((world.texts().len(), kept(&world)), (1, 1));
        world.wait(Duration::from_hours(10));
        assert!(world.texts().is_empty());
        world.phones.refusal = None;
        world.phone_is(BOB, Phone::default());
        world.phone_is(BOB, there());
        assert_eq!((world.texts().len(), kept(&world)), (1, 0), "but another phone is asked");
    }

    #[test]
    fn texts_go_one_after_the_other_and_a_session_that_comes_takes_over() {
        let mut world = world();
        world.phones.is_slow = true;
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        for body in ["one", "two", "three"] {
            world.chat(alice, BOB, body);
        }
        assert_eq!(world.texts(), ["one"]);
        world.phone_answers(Ok(StoreReply::Done));
        assert_eq!((world.texts(), kept(&world)), (vec!["two".to_owned()], 2));
        let bob = world.available("bob@example.org/desk");
        let heard = world.hear(bob).concat();
        assert!(heard.contains("two") && heard.contains("three"), "better twice than never: {heard}");
        world.phone_answers(Ok(StoreReply::Done));
        assert!(world.texts().is_empty());
        assert_eq!(kept(&world), 0);
    }

    #[test]
    fn long_words_go_in_parts_and_wait_whole_when_one_is_lost() {
        let mut world = world();
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        let body = "word ".repeat(400);
        world.chat(alice, BOB, &body);
        let parts = world.texts();
        assert_eq!(parts.len(), 3);
        assert!(parts.iter().all(|part| part.len() <= crate::limits::TEXT_BYTES));
        assert_eq!(kept(&world), 0);
        world.phones.is_slow = true;
        world.chat(alice, BOB, &body);
        world.phone_answers(Ok(StoreReply::Done));
        world.phone_answers(Err(StoreFailure::Unavailable));
        assert_eq!((world.texts().len(), kept(&world)), (2, 1));
        world.phone_is(BOB, Phone::default());
        world.phones.is_slow = false;
        world.chat(alice, BOB, &"x".repeat(crate::limits::TEXT_BYTES * crate::limits::TEXT_PARTS + 1));
        world.phone_is(BOB, there());
        assert_eq!((world.texts().len(), kept(&world)), (3, 1), "a book waits for a client");
    }

    #[test]
    fn messages_that_no_phone_can_show_wait_for_a_client() {
        let mut world = world();
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        for inner in [
            "<encrypted xmlns='eu.siacs.conversations.axolotl'/><body>no OMEMO here</body>",
            "<encryption xmlns='urn:xmpp:eme:0'/><body>no OTR here</body>",
            "<received xmlns='urn:xmpp:receipts' id='1'/>",
        ] {
            world.say(alice, &format!("<message type='chat' to='{BOB}'>{inner}</message>"));
        }
        assert_eq!((world.texts().len(), kept(&world)), (0, 3));
        world.chat(alice, BOB, "plain");
        assert_eq!((world.texts(), kept(&world)), (vec!["plain".to_owned()], 3));
    }

    #[test]
    fn a_message_to_an_unassigned_number_is_refused() {
        let mut world = world();
        let alice = world.available("alice@example.org/desk");
        world.chat(alice, "+15551234@example.org", "hello");
        assert!(world.hear(alice).concat().contains("service-unavailable"));
        assert!(world.texts().is_empty());
    }
}

mod words_from_phones {
    use super::*;

    #[test]
    fn a_text_reaches_sessions_and_both_archives_and_carbons() {
        let mut world = world();
        let alice = world.available("alice@example.org/desk");
        let bob = world.available("bob@example.org/desk");
        let quiet = world.sign_in("bob@example.org/quiet");
        for client in [alice, quiet] {
            world.say(client, "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
        }
        world.say(quiet, "<presence><priority>-1</priority></presence>");
        for client in [alice, bob, quiet] {
            world.hear(client);
        }
        assert_eq!(world.alice_says("hello <&", false), Some(PhoneMessageOutcome::Delivered));
        let heard = world.hear(bob).concat();
        assert!(heard.contains("from='alice@example.org'") && heard.contains("type='chat'"), "{heard}");
        assert!(heard.contains("<body>hello &lt;&amp;</body>") && heard.contains("<stanza-id"), "{heard}");
        assert!(world.hear(quiet).concat().contains("<received xmlns='urn:xmpp:carbons:2'"));
        let words = MessageBody::Text("hello <&".into());
        let sent = PhoneEvent::Sent { from: bare(ALICE), to: bare(BOB), words };
        world.tell(|host, now, out| host.handle_phone(now, sent, out));
        let copy = world.hear(alice).concat();
        assert!(copy.contains("<sent xmlns='urn:xmpp:carbons:2'") && copy.contains("hello"), "{copy}");
        let archived = |change: &&Change| matches!(change, Change::Archive { owner, .. } if *owner == bare(ALICE) || *owner == bare(BOB));
        assert_eq!(world.store.changes.iter().filter(archived).count(), 2);
        assert!(world.phones.texts.is_empty(), "a text never comes back");
    }

    #[test]
    fn a_text_to_an_absent_user_is_kept_once_and_then_reported() {
        let mut world = world();
        world.is_slow = true;
        assert_eq!(world.alice_says("hello", false), None, "not before it is on disk");
        while !world.unwritten.is_empty() {
            world.write();
        }
        assert_eq!((world.phones.outcomes[0].1, kept(&world)), (PhoneMessageOutcome::Kept, 1));
        world.is_slow = false;
        world.phone_is(BOB, there());
        assert_eq!((world.texts(), kept(&world)), (vec!["hello".to_owned()], 0));
        let bob = world.available("bob@example.org/desk");
        assert!(!world.hear(bob).concat().contains("hello"));
    }

    #[test]
    fn a_text_that_phones_get_is_not_kept() {
        let mut world = world();
        assert_eq!(world.alice_says("hello", true), Some(PhoneMessageOutcome::NoSession));
        assert_eq!(kept(&world), 0);
    }

    #[test]
    fn a_text_that_cannot_be_kept_or_read_is_not_taken() {
        let mut world = world();
        for _ in 0..crate::limits::OFFLINE {
            assert_eq!(world.alice_says("hello", false), Some(PhoneMessageOutcome::Kept));
        }
        assert_eq!(world.alice_says("one more", false), Some(PhoneMessageOutcome::Busy));
        world.store.is_broken = true;
        assert_eq!(world.alice_says("hello", false), Some(PhoneMessageOutcome::Busy));
        let heard: Vec<_> = world.abroad.iter().map(ToString::to_string).collect();
        assert!(heard.is_empty(), "{heard:?}");
    }

    #[test]
    fn a_blocked_sender_is_refused_and_an_unknown_account_has_no_session() {
        let mut world = world();
        world.store.users.get_mut(&bare(BOB)).unwrap().blocked.push(Jid::parse(ALICE).unwrap());
        let bob = world.available("bob@example.org/desk");
        world.hear(bob);
        assert_eq!(world.alice_says("hello", false), Some(PhoneMessageOutcome::Refused));
        assert!(world.hear(bob).is_empty());
        let id = world.heard(
            PhoneSender::Account(bare(ALICE)),
            "ghost@example.org",
            MessageBody::Text("x".into()),
            false,
        );
        assert_eq!(world.outcome(id), Some(PhoneMessageOutcome::NoSession));
    }

    #[test]
    fn a_stranger_speaks_in_no_name_but_its_own() {
        let mut world = world();
        let bob = world.available("bob@example.org/desk");
        world.hear(bob);
        let mut from = |uri: &str| {
            let id =
                world.heard(PhoneSender::Stranger(uri.into()), BOB, MessageBody::Text("pay".into()), false);
            assert_eq!(world.outcome(id), Some(PhoneMessageOutcome::Delivered));
            let heard = world.hear(bob).concat();
            assert!(heard.contains("<body>pay</body>"), "{heard}");
            heard
        };
        let boss = from("sip:boss@bank.test");
        assert!(boss.contains(r"from='boss\40bank.test@sip-guest.example.org'"), "{boss}");
        let other = from("sip:clerk@bank.test");
        assert!(other.contains(r"from='clerk\40bank.test@sip-guest.example.org'"), "{other}");
        // A claim to be Alice is unproved: the message does not come from Bob's contact.
        let forged = from("sip:alice@example.org");
        assert!(forged.contains(r"from='alice\40example.org@sip-guest.example.org'"), "{forged}");
    }

    #[test]
    fn a_stranger_is_blocked_alone_and_all_of_them_together() {
        let mut world = world();
        let bob = world.available("bob@example.org/desk");
        let mut block = |jid: &str| {
            world.say(
                bob,
                &format!(
                    "<iq type='set' id='b'><block xmlns='urn:xmpp:blocking'><item jid='{jid}'>\
                 <report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:spam'/></item></block></iq>"
                ),
            );
            assert!(world.hear(bob).concat().contains("type='result'"), "{jid}");
            ["sip:boss@bank.test", "sip:clerk@bank.test", "sip:BOSS@Bank.Test;x=1"].map(|uri| {
                let id = world.heard(
                    PhoneSender::Stranger(uri.into()),
                    BOB,
                    MessageBody::Text("pay".into()),
                    false,
                );
                world.outcome(id).unwrap()
            })
        };
        let (refused, delivered) = (PhoneMessageOutcome::Refused, PhoneMessageOutcome::Delivered);
        assert_eq!(block(r"boss\40bank.test@sip-guest.example.org"), [refused, delivered, refused]);
        assert_eq!(block("sip-guest.example.org"), [refused; 3]);
    }

    #[test]
    fn nothing_of_chat_goes_to_a_stranger() {
        let mut world = world();
        let bob = world.available("bob@example.org/desk");
        world.hear(bob);
        let boss = r"boss\40bank.test@sip-guest.example.org";
        world.chat(bob, boss, "how much?");
        let heard = world.hear(bob).concat();
        assert!(
            heard.contains("<service-unavailable") && heard.contains(&format!("from='{boss}'")),
            "{heard}"
        );
        world.say(bob, &format!("<iq type='get' id='v' to='{boss}'><query xmlns='jabber:iq:version'/></iq>"));
        assert!(world.hear(bob).concat().contains("<service-unavailable"));
        world.say(bob, &format!("<presence type='subscribe' to='{boss}'/>"));
        let heard = world.hear(bob).concat();
        assert!(!heard.contains("subscription='to'"), "{heard}");
        assert!(world.texts().is_empty());
    }

    #[test]
    fn typing_notices_reach_available_clients_and_are_never_kept() {
        let mut world = world();
        let from = || PhoneSender::Account(bare(ALICE));
        let id = world.heard(from(), BOB, MessageBody::Typing(true), false);
        assert_eq!((world.outcome(id), kept(&world)), (Some(PhoneMessageOutcome::NoSession), 0));
        let bob = world.available("bob@example.org/desk");
        world.hear(bob);
        for (is_typing, state) in [(true, "<composing"), (false, "<paused")] {
            let id = world.heard(from(), BOB, MessageBody::Typing(is_typing), false);
            assert_eq!(world.outcome(id), Some(PhoneMessageOutcome::Delivered));
            assert!(world.hear(bob).concat().contains(state));
        }
        assert!(!world.store.changes.iter().any(|change| matches!(change, Change::Archive { .. })));
    }

    #[test]
    fn more_than_can_be_looked_at_is_refused_at_once() {
        let mut world = world();
        world.is_slow = true;
        let one_more = |_| world.alice_says("x", false);
        assert_eq!((0..=crate::limits::MESSAGE_WRITES).find_map(one_more), Some(PhoneMessageOutcome::Busy));
    }
}

mod presence {
    use super::*;

    #[test]
    fn a_phone_shows_in_the_rosters_of_subscribers_of_its_account() {
        let mut world = world();
        let alice = world.available("alice@example.org/desk");
        let carol = world.available("carol@example.org/desk");
        world.hear(alice);
        world.hear(carol);
        world.phone_is(BOB, there());
        let heard = world.hear(alice).concat();
        assert!(heard.contains("from='bob@example.org/sip-phone'") && !heard.contains("type="), "{heard}");
        world.phone_is(BOB, talking());
        let heard = world.hear(alice).concat();
        assert!(heard.contains("<show>dnd</show><status>On the phone</status>"), "{heard}");
        world.phone_is(BOB, there());
        assert!(!world.hear(alice).concat().contains("dnd"));
        world.phone_is(BOB, Phone::default());
        let heard = world.hear(alice).concat();
        assert!(
            heard.contains("type='unavailable'") && heard.contains("bob@example.org/sip-phone"),
            "{heard}"
        );
        assert!(world.hear(carol).is_empty(), "she is not subscribed");
    }

    #[test]
    fn a_phone_that_is_there_already_is_seen_at_sign_in_by_contacts_and_by_its_own_user() {
        let mut world = world();
        world.phone_is(BOB, talking());
        let alice = world.available("alice@example.org/desk");
        assert!(world.hear(alice).concat().contains("bob@example.org/sip-phone"));
        // Known by now: told with the others' presence.
        let laptop = world.available("alice@example.org/laptop");
        assert_eq!(world.hear(laptop).concat().matches("from='bob@example.org/sip-phone'").count(), 1);
        for resource in ["desk", "laptop"] {
            let bob = world.available(&format!("bob@example.org/{resource}"));
            let heard = world.hear(bob).concat();
            assert_eq!(heard.matches("from='bob@example.org/sip-phone'").count(), 1, "{heard}");
        }
        world.phone_is(BOB, Phone::default());
        let late = world.available("alice@example.org/late");
        assert!(!world.hear(late).concat().contains("bob@example.org/sip-phone"), "no phantom");
    }

    #[test]
    fn phones_of_accounts_without_watchers_are_not_asked_about() {
        let mut world = world();
        world.phone_is(BOB, there());
        assert!(world.phones.asked.is_empty());
        let carol = world.available("carol@example.org/desk");
        world.say(carol, "<presence type='probe' to='bob@example.org'/>");
        assert_eq!(world.phones.asked, [bare("carol@example.org")]);
        assert!(!world.hear(carol).concat().contains("bob@example.org/sip-phone"));
    }

    #[test]
    fn no_entry_is_kept_for_a_user_without_a_phone() {
        let mut world = world();
        let alice = world.available("alice@example.org/desk");
        world.available("bob@example.org/desk");
        assert!(world.host.phones.is_empty());
        // Changes are told all the same, and then there is something to keep.
        world.phone_is(BOB, there());
        assert!(world.hear(alice).concat().contains("from='bob@example.org/sip-phone'"));
        assert!(!world.host.phones.is_empty());
        world.phone_is(BOB, Phone::default());
        assert!(world.hear(alice).concat().contains("type='unavailable'"));
        assert!(world.host.phones.is_empty());
        world.phone_is("carol@example.org", there());
        assert!(world.host.phones.is_empty(), "no client watches Alice");
    }

    #[test]
    fn a_probe_of_the_phone_alone_is_answered() {
        let mut world = world();
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        world.hear(alice);
        world.say(alice, "<presence type='probe' to='bob@example.org/sip-phone'/>");
        let heard = world.hear(alice);
        assert!(heard.len() == 1 && heard[0].contains("from='bob@example.org/sip-phone'"), "{heard:?}");
    }

    #[test]
    fn a_lost_subscription_hides_the_phone_and_a_new_one_shows_it() {
        let mut world = world();
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        let bob = world.available("bob@example.org/desk");
        world.hear(alice);
        world.say(bob, "<presence type='unsubscribed' to='alice@example.org'/>");
        let heard = world.hear(alice);
        let is_gone =
            |xml: &String| xml.contains("unavailable") && xml.contains("from='bob@example.org/sip-phone'");
        assert!(heard.iter().any(is_gone), "{heard:?}");
        world.say(alice, "<presence type='subscribe' to='bob@example.org'/>");
        world.say(bob, "<presence type='subscribed' to='alice@example.org'/>");
        assert!(world.hear(alice).concat().contains("from='bob@example.org/sip-phone'"));
    }

    #[test]
    fn presence_published_by_a_phone_is_shown() {
        let mut world = world();
        let alice = world.available("alice@example.org/desk");
        world.hear(alice);
        let note = "<tuple id='a'><status><basic>open</basic></status></tuple><note>in the tower</note>";
        world.phone_is(BOB, published(note));
        assert!(world.hear(alice).concat().contains("<status>in the tower</status>"));
        let closed = "<tuple id='a'><status><basic>closed</basic></status></tuple>";
        world.phone_is(BOB, published(closed));
        assert!(
            world.hear(alice).concat().contains("type='unavailable'"),
            "it says that it cannot be reached"
        );
        world.phone_is(BOB, published("<not xml"));
        assert!(
            world.hear(alice).concat().contains("from='bob@example.org/sip-phone'"),
            "it is there all the same"
        );
    }

    #[test]
    fn phones_are_told_of_chat() {
        let mut world = world();
        let shown = |show, status: &str| Some(ChatPresence { show, status: status.into() });
        let desk = world.sign_in("bob@example.org/desk");
        assert!(world.phones.shown.is_empty(), "signed in is not available");
        world.say(desk, "<presence/>");
        world.say(desk, "<presence><show>away</show><status>lunch</status></presence>");
        world.say(desk, "<presence><show>away</show><status>lunch</status></presence>");
        let laptop = world.sign_in("bob@example.org/laptop");
        world.say(laptop, "<presence><show>dnd</show><priority>5</priority></presence>");
        world.lose(laptop);
        world.say(desk, "<presence type='unavailable'/>");
        let told: Vec<_> = world.phones.shown.iter().map(|(_, shown)| shown.clone()).collect();
        let expected = [
            shown(Show::Available, ""),
            shown(Show::Away, "lunch"),
            shown(Show::Dnd, ""),
            shown(Show::Away, "lunch"),
            None,
        ];
        assert_eq!(told, expected);
        assert!(world.phones.shown.iter().all(|(user, _)| user == BOB));
    }

    #[test]
    fn the_name_is_the_phones_own() {
        let mut world = world();
        world.next += 1;
        let number = world.next;
        let request = BindRequest {
            user: Jid::parse(BOB).unwrap(),
            is_anonymous: false,
            resource: Some("sip-phone".into()),
            tag: None,
            agent: None,
            is_bind2: false,
            can_move: false,
            inline: Vec::new(),
        };
        world.tell(|host, now, out| host.handle_bind(now, edge(number), &request, out));
        let Bound::Session { jid, .. } = &world.bound[&number] else { panic!("not bound") };
        assert!(jid.resource().is_some_and(|name| name.starts_with("sip-phone~")), "{jid}");
    }

    #[test]
    fn a_phone_shows_its_identity_and_takes_no_jingle() {
        let mut world = world();
        world.phone_is(BOB, there());
        let alice = world.available("alice@example.org/desk");
        let carol = world.available("carol@example.org/desk");
        world.hear(alice);
        world.hear(carol);
        let ask = "<iq type='get' id='1' to='bob@example.org/sip-phone'>\
                   <query xmlns='http://jabber.org/protocol/disco#info'/></iq>";
        world.say(alice, ask);
        let heard = world.hear(alice).concat();
        assert!(heard.contains("category='client'") && heard.contains("type='phone'"), "{heard}");
        assert!(!heard.contains("jingle"), "{heard}");
        world.say(carol, ask);
        assert!(world.hear(carol).concat().contains("service-unavailable"), "it is nothing to her");
        world.say(
            alice,
            "<iq type='set' id='2' to='bob@example.org/sip-phone'>\
             <jingle xmlns='urn:xmpp:jingle:1' action='session-initiate' sid='s'/></iq>",
        );
        assert!(world.hear(alice).concat().contains("service-unavailable"));
    }
}

/// RFC 3428 §4: a MESSAGE that has expired is delivered neither to a client nor to a phone. One that has not is.
#[test]
fn an_expired_message_of_a_phone_is_dropped() {
    for by_phone in [false, true] {
        for (waits, expected) in [(59, &["soon", "for ever"][..]), (60, &["for ever"])] {
            let mut world = world();
            let end = world.now + Duration::from_secs(60);
            for (text, expires_at) in [("soon", Some(end)), ("for ever", None)] {
                world.next += 1;
                let (id, from) = (world.next, PhoneSender::Account(bare(ALICE)));
                let words = MessageBody::Text(text.into());
                let heard = PhoneMessage { id, from, to: bare(BOB), words, has_phones: false, expires_at };
                world.tell(|host, now, out| host.handle_phone(now, PhoneEvent::Message(heard), out));
                assert_eq!(world.outcome(id), Some(PhoneMessageOutcome::Kept));
            }
            world.wait(Duration::from_secs(waits));
            let had: Vec<String> = if by_phone {
                world.phone_is(BOB, there());
                world.texts()
            } else {
                let bob = world.available("bob@example.org/desk");
                let heard = world.hear(bob);
                let body =
                    |xml: &String| Some(xml.split_once("<body>")?.1.split_once("</body>")?.0.to_owned());
                heard.iter().filter_map(body).collect()
            };
            assert_eq!(had, expected, "{by_phone} {waits}");
            assert!(world.store.messages.offline.is_empty());
        }
    }
}
