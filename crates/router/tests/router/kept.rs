//! Messages kept until a client registers (RFC 3428 §7).

use std::time::Duration;

use router::{
    Answer, Change, Effect, KeepRefused, Push, Query, ReadFailed, WaitingMessage, WriteFailed, limits,
};

use crate::support::{World, alice, message, pushes, register, update};

const A: &str = "alice@example.com";

impl World {
    fn keep(&mut self, body: &str) -> Result<WaitingMessage, KeepRefused> {
        let effects = self.ask(Query::Keep(Box::new(message(A, body, self.now))));
        match effects.into_iter().next() {
            Some(Effect::KeepMessage { ticket, mut message }) => {
                message.id = self.next_row();
                let id = i64::try_from(message.id).unwrap();
                let answers = self.written(ticket, Ok(id));
                assert!(matches!(answers[0], Effect::Answer { answer: Answer::Kept(Ok(())), .. }));
                Ok(*message)
            }
            Some(Effect::Answer { answer: Answer::Kept(Err(refused)), .. }) => Err(refused),
            other => panic!("{other:?}"),
        }
    }

    /// Registers; true when the router wants to see what is kept.
    fn come(&mut self, cseq: u32) -> bool {
        let effects = self.do_ask(Query::Register(Box::new(update(A, "c", cseq, "sip:a@192.0.2.1", 3600))));
        effects.iter().any(|effect| matches!(effect, Effect::LoadKept { aor } if **aor == *A))
    }

    fn load(&mut self, messages: Vec<WaitingMessage>) -> Vec<Effect> {
        let mut out = Vec::new();
        self.router.handle_kept(self.now, A, Ok(messages), &mut out);
        out
    }

    fn delivered(&mut self, id: u64) -> Vec<Effect> {
        self.ask(Query::Delivered { aor: alice(), message: id })
    }
}

/// Sources can be forged: all strangers together fill a part of the messages kept for an address.
#[test]
fn messages_of_strangers_leave_room_for_those_of_accounts() {
    let mut world = World::new();
    let mut kept_of_strangers = 0;
    for _ in 0..50 {
        let query = Query::KeepOfStranger(Box::new(message(A, "spam", world.now)));
        if let Some(Effect::KeepMessage { ticket, .. }) = world.ask(query).into_iter().next() {
            world.written(ticket, Ok(kept_of_strangers.into()));
            kept_of_strangers += 1;
        }
    }
    assert_eq!(kept_of_strangers, limits::KEPT_OF_STRANGERS);
    assert!(world.keep("of an account").is_ok());
}

fn delivered_body(effects: Vec<Effect>) -> Option<String> {
    pushes(effects).into_iter().find_map(|push| match push {
        Push::Deliver { bindings, message } => {
            assert!(!bindings.is_empty());
            Some(String::from_utf8(message.body.to_vec()).unwrap())
        }
        Push::State { .. } | Push::AccountChanged { .. } | Push::Watched { .. } => None,
    })
}

/// RFC 3428 §4: a message that has expired is not delivered, whether it has waited for its address or behind others.
#[test]
fn an_expired_message_is_forgotten_and_not_delivered() {
    let mut world = World::new();
    let start = world.now;
    let mut kept: Vec<_> = ["one", "two", "three", "four"].map(|body| world.keep(body).unwrap()).into();
    let after = |seconds| Some(start + Duration::from_secs(seconds));
    (kept[0].expires_at, kept[2].expires_at) = (after(10), after(25));
    world.now = start + Duration::from_secs(10);
    assert!(world.come(1));
    let effects = world.load(kept.clone());
    let forgotten = |effects: &[Effect]| -> Vec<u64> {
        let id = |effect: &Effect| match effect {
            Effect::ForgetMessage { id, .. } => Some(*id),
            _ => None,
        };
        effects.iter().filter_map(id).collect()
    };
    assert_eq!(forgotten(&effects), [kept[0].id]);
    assert_eq!(delivered_body(effects).as_deref(), Some("two"));
    assert_eq!(world.router.counts().kept_messages, 3);
    world.now = start + Duration::from_secs(25);
    let effects = world.delivered(kept[1].id);
    assert_eq!(forgotten(&effects), [kept[1].id, kept[2].id]);
    assert_eq!(delivered_body(effects).as_deref(), Some("four"));
    assert_eq!(world.router.counts().kept_messages, 1);
}

#[test]
fn kept_messages_are_delivered_in_order_one_by_one() {
    let mut world = World::new();
    let kept: Vec<_> = ["one", "two", "three"].map(|body| world.keep(body).unwrap()).into();
    assert_eq!(world.router.counts().kept_messages, 3);
    assert!(world.come(1));
    let effects = world.load(kept.clone());
    assert_eq!(delivered_body(effects).as_deref(), Some("one"));
    // A refresh meanwhile starts nothing anew.
    assert!(!world.come(2));
    let effects = world.delivered(kept[0].id);
    assert_eq!(effects[0], Effect::ForgetMessage { aor: alice(), id: kept[0].id });
    assert_eq!(delivered_body(effects).as_deref(), Some("two"));
    assert_eq!(delivered_body(world.delivered(kept[1].id)).as_deref(), Some("three"));
    assert_eq!(delivered_body(world.delivered(kept[2].id)), None);
    assert_eq!(world.router.counts().kept_messages, 0);
    assert!(!world.come(3));
}

#[test]
fn a_delivery_that_hangs_starts_again_with_a_later_register() {
    let mut world = World::new();
    let kept = vec![world.keep("one").unwrap()];
    assert!(world.come(1));
    assert!(delivered_body(world.load(kept.clone())).is_some());
    world.pass(limits::DELIVERY_PATIENCE.as_secs() + 1);
    assert!(world.come(2));
    assert!(delivered_body(world.load(kept)).is_some());
}

/// A message is acknowledged when it is on disk, so a database that cannot be read for a moment must not hide it.
#[test]
fn messages_that_could_not_be_read_are_asked_for_again_with_the_next_register() {
    let mut world = World::new();
    let kept = vec![world.keep("one").unwrap()];
    assert!(world.come(1));
    let mut out = Vec::new();
    world.router.handle_kept(world.now, A, Err(ReadFailed), &mut out);
    assert_eq!(out, [], "no phone hears that nothing waits");
    assert_eq!(world.router.counts().kept_messages, 1);
    assert!(world.come(2));
    assert_eq!(delivered_body(world.load(kept)).as_deref(), Some("one"));
}

#[test]
fn delivery_stops_when_the_address_has_no_binding() {
    let mut world = World::new();
    let kept: Vec<_> = ["one", "two"].map(|body| world.keep(body).unwrap()).into();
    assert!(world.come(1));
    world.load(kept.clone());
    world.register(register(A, "x", 1, Change::RemoveAll)).unwrap();
    assert_eq!(delivered_body(world.delivered(kept[0].id)), None);
    assert!(world.come(2), "the rest is tried with the next");
}

#[test]
fn a_message_written_while_its_address_registers_is_loaded() {
    let mut world = World::new();
    let effects = world.ask(Query::Keep(Box::new(message(A, "late", world.now))));
    let Some(Effect::KeepMessage { ticket, .. }) = effects.into_iter().next() else { panic!() };
    assert!(!world.come(1));
    let effects = world.written(ticket, Ok(1));
    assert!(effects.contains(&Effect::LoadKept { aor: alice() }));
}

#[test]
fn limits_hold_and_a_failed_write_frees_its_place() {
    let mut world = World::new();
    let long = "x".repeat(limits::KEPT_BYTES + 1);
    assert_eq!(world.keep(&long).unwrap_err(), KeepRefused::TooLarge);
    let effects = world.ask(Query::Keep(Box::new(message(A, "lost", world.now))));
    let Some(Effect::KeepMessage { ticket, .. }) = effects.into_iter().next() else { panic!() };
    for _ in 1..limits::KEPT_PER_ADDRESS {
        world.keep("some").unwrap();
    }
    assert_eq!(world.keep("more").unwrap_err(), KeepRefused::TooMany);
    let answers = world.written(ticket, Err(WriteFailed));
    assert!(matches!(answers[0], Effect::Answer { answer: Answer::Kept(Err(KeepRefused::StoreFailed)), .. }));
    world.keep("again").unwrap();
}

#[test]
fn old_messages_are_forgotten_and_counts_are_seeded() {
    let mut world = World::new();
    world.router.seed_kept(A, 2);
    assert!(world.come(1));
    let mut old = message(A, "old", world.now - limits::LONGEST_KEPT - Duration::from_secs(1));
    old.id = 1;
    let mut fresh = message(A, "fresh", world.now);
    fresh.id = 2;
    let effects = world.load(vec![old, fresh]);
    assert!(effects.contains(&Effect::ForgetMessage { aor: alice(), id: 1 }));
    assert_eq!(delivered_body(effects).as_deref(), Some("fresh"));
    assert_eq!(world.router.counts().kept_messages, 1);
}
