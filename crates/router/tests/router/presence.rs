//! Watches and their notifications: presence (RFC 3856, 3903), dialogs (4235), waiting messages (3842),
//! registrations (3680).

use std::sync::Arc;
use std::time::Duration;

use router::{
    Admission, Answer, AskId, CallInfo, CallPhase, Change, Effect, Life, Presence, Publish, PublishRefused,
    Published, Push, Query, ShardAddress, State, Topic, WatchId, limits,
};

use crate::support::{World, alice, message, pushes, register, update};

const A: &str = "alice@example.com";
const OPEN: &[u8] = b"<presence><tuple id='1'><status><basic>open</basic></status></tuple></presence>";

impl World {
    fn watch(&mut self, topic: Topic, seconds: u64) -> State {
        let until = self.now + Duration::from_secs(seconds);
        let watch = WatchId(topic as u64);
        match self.ask(Query::Watch { aor: alice(), topic, watch, until }).pop() {
            Some(Effect::Answer { answer: Answer::State(state), .. }) => state,
            other => panic!("{other:?}"),
        }
    }

    /// The states that a query pushes to watchers.
    fn pushed(&mut self, query: Query) -> Vec<State> {
        states(self.do_ask(query))
    }

    fn publish(
        &mut self,
        etag: Option<&str>,
        document: Option<&[u8]>,
        expires: u32,
    ) -> (Result<Published, PublishRefused>, Vec<State>) {
        let (etag, document) = (etag.map(Into::into), document.map(Arc::from));
        let mut effects =
            self.ask(Query::Publish(Box::new(Publish { aor: alice(), etag, document, expires })));
        let Effect::Answer { answer: Answer::Published(published), .. } = effects.remove(0) else { panic!() };
        (published, states(effects))
    }
}

fn states(effects: Vec<Effect>) -> Vec<State> {
    pushes(effects)
        .into_iter()
        .map(|push| match push {
            Push::State { state, .. } => state,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn come(cseq: u32, expires: u32) -> Query {
    Query::Register(Box::new(update(A, "c", cseq, "sip:a@192.0.2.1", expires)))
}

fn call(phase: CallPhase) -> CallInfo {
    CallInfo {
        call_id: "call".into(),
        local_tag: "l".into(),
        remote_tag: if phase == CallPhase::Trying { "".into() } else { "r".into() },
        initiator: true,
        remote: "sip:bob@example.com".into(),
        phase,
    }
}

fn changed(phase: CallPhase) -> Query {
    Query::CallChanged { aor: alice(), call: call(phase) }
}

fn presence(open: bool, on_the_phone: bool, documents: &[&[u8]]) -> State {
    let documents = documents.iter().map(|document| Arc::from(*document)).collect();
    State::Presence(Presence { open, on_the_phone, chat: None, documents })
}

#[test]
fn presence_opens_on_registration_and_closes_on_expiry() {
    let mut world = World::new();
    assert_eq!(world.watch(Topic::Presence, 3600), presence(false, false, &[]));
    assert_eq!(world.pushed(come(1, 60)), [presence(true, false, &[])]);
    assert_eq!(world.pushed(come(2, 60)), [], "a refresh is no news");
    assert_eq!(states(world.pass(60)), [presence(false, false, &[])]);
    assert_eq!(states(world.pass(60)), []);
}

#[test]
fn a_call_is_told_step_by_step_and_its_end_once() {
    let mut world = World::new();
    assert_eq!(world.watch(Topic::Dialog, 3600), State::Dialog(vec![]));
    for phase in [CallPhase::Trying, CallPhase::Early, CallPhase::Confirmed, CallPhase::Terminated] {
        assert_eq!(world.pushed(changed(phase)), [State::Dialog(vec![call(phase)])]);
        assert_eq!(world.pushed(changed(phase)), [], "{phase:?} again");
    }
    assert_eq!(world.watch(Topic::Dialog, 3600), State::Dialog(vec![]));
    assert_eq!(world.router.counts().calls, 0);
}

#[test]
fn a_call_that_is_up_shows_in_presence() {
    let mut world = World::new();
    world.watch(Topic::Presence, 100_000);
    assert_eq!(world.pushed(changed(CallPhase::Early)), []);
    assert_eq!(world.pushed(changed(CallPhase::Confirmed)), [presence(false, true, &[])]);
    // The report of its end was lost.
    assert_eq!(states(world.pass(limits::LONGEST_CALL.as_secs())), [presence(false, false, &[])]);
}

#[test]
fn calls_of_a_node_that_is_gone_are_forgotten() {
    let mut world = World::new();
    let (one, two) = (ShardAddress { life: Life(1), shard: 0 }, ShardAddress { life: Life(2), shard: 3 });
    world.watch(Topic::Presence, 100_000);
    let report = |world: &mut World, from, call_id: &str| {
        let call = CallInfo { call_id: call_id.into(), ..call(CallPhase::Confirmed) };
        let query = Query::CallChanged { aor: alice(), call };
        world.router.handle_query(world.now, from, AskId(0), query, &mut world.out);
        states(std::mem::take(&mut world.out))
    };
    let admits = |world: &mut World, call_id: &str| {
        let admission = Admission {
            aor: alice(),
            call_id: call_id.into(),
            caller_tag: "t".into(),
            initiator: true,
            max_calls: Some(2),
            max_rate: None,
        };
        world.router.handle_query(
            world.now,
            two,
            AskId(1),
            Query::Admit(Box::new(admission)),
            &mut world.out,
        );
        let answer = std::mem::take(&mut world.out).into_iter().find_map(|effect| match effect {
            Effect::Answer { answer: Answer::Admitted(admitted), .. } => Some(admitted.is_ok()),
            _ => None,
        });
        answer.unwrap()
    };
    let forget = |world: &mut World, is_live: fn(ShardAddress) -> bool| {
        router::forget_calls(&mut world.router, world.now, is_live, &mut world.out);
        states(std::mem::take(&mut world.out))
    };
    assert_eq!(report(&mut world, one, "first"), [presence(false, true, &[])]);
    assert_eq!(report(&mut world, two, "second"), []);
    assert!(!admits(&mut world, "third"));
    assert_eq!(forget(&mut world, |_| true), []);
    assert_eq!(forget(&mut world, |from| from.life != Life(2)), [], "the call of the other node goes on");
    // One that is admitted and never begins, as its node has ended.
    assert!(admits(&mut world, "third"));
    assert!(!admits(&mut world, "fourth"));
    assert_eq!(forget(&mut world, |from| from.life != Life(2)), []);
    assert!(admits(&mut world, "fourth"));
    assert_eq!(forget(&mut world, |_| false), [presence(false, false, &[])]);
    assert_eq!(world.router.counts().calls, 0);
}

#[test]
fn publications_are_started_refreshed_modified_and_removed() {
    // RFC 3903 §4, table 1.
    let mut world = World::new();
    world.watch(Topic::Presence, 3600);
    let (first, states) = world.publish(None, Some(OPEN), 60);
    let first = first.unwrap();
    assert_eq!((first.expires, states), (60, vec![presence(true, false, &[OPEN])]));
    world.pass(50);
    let (refreshed, states) = world.publish(Some(&first.etag), None, 60);
    let refreshed = refreshed.unwrap();
    assert_ne!(first.etag, refreshed.etag);
    assert_eq!(states, []);
    let (stale, _) = world.publish(Some(&first.etag), None, 60);
    assert_eq!(stale, Err(PublishRefused::ConditionalRequestFailed));
    let (modified, states) = world.publish(Some(&refreshed.etag), Some(b"busy"), 60);
    assert_eq!(states, [presence(false, false, &[b"busy"])]);
    let (removed, states) = world.publish(Some(&modified.unwrap().etag), None, 0);
    assert_eq!((removed.unwrap().expires, states), (0, vec![presence(false, false, &[])]));
}

#[test]
fn publications_end_by_themselves_and_the_newest_comes_first() {
    let mut world = World::new();
    world.watch(Topic::Presence, 3600);
    world.publish(None, Some(b"desk"), 100).0.unwrap();
    world.publish(None, Some(b"mobile"), 50).0.unwrap();
    assert_eq!(world.watch(Topic::Presence, 3600), presence(false, false, &[b"mobile", b"desk"]));
    assert_eq!(states(world.pass(50)), [presence(false, false, &[b"desk"])]);
    assert_eq!(states(world.pass(50)), [presence(false, false, &[])]);
}

#[test]
fn publications_have_limits() {
    let mut world = World::new();
    assert_eq!(world.publish(None, None, 60).0, Err(PublishRefused::ConditionalRequestFailed));
    let large = vec![b' '; limits::PUBLICATION_BYTES + 1];
    assert_eq!(world.publish(None, Some(&large), 60).0, Err(PublishRefused::TooMany));
    for _ in 0..limits::PUBLICATIONS_PER_ADDRESS {
        world.publish(None, Some(b"x"), u32::MAX).0.unwrap();
    }
    assert_eq!(world.publish(None, Some(b"x"), 60).0, Err(PublishRefused::TooMany));
    world.pass(limits::LONGEST_PUBLICATION.as_secs());
    assert_eq!(world.router.counts().publications, 0);
}

#[test]
fn waiting_messages_are_counted() {
    let mut world = World::new();
    assert_eq!(world.watch(Topic::MessageSummary, 3600), State::MessageSummary { waiting: 0 });
    let states = world.pushed(Query::Keep(Box::new(message(A, "hello", world.now))));
    assert_eq!(states, [State::MessageSummary { waiting: 1 }]);
}

#[test]
fn registrations_are_told_with_their_bindings() {
    let mut world = World::new();
    assert_eq!(world.watch(Topic::Registration, 3600), State::Registration(vec![]));
    for query in [come(1, 60), come(2, 60)] {
        let states = world.pushed(query);
        assert_eq!(states, [State::Registration(world.lookup(A))]);
    }
    let unregister = Query::Register(Box::new(register(A, "x", 1, Change::RemoveAll)));
    assert_eq!(world.pushed(unregister), [State::Registration(vec![])]);
}

#[test]
fn an_ended_watch_is_told_nothing() {
    let mut world = World::new();
    world.watch(Topic::Presence, 60);
    world.pass(60);
    assert_eq!(world.pushed(come(1, 60)), []);
    assert_eq!(world.router.counts().watches, 0);
    world.watch(Topic::Presence, 60);
    world.ask(Query::Unwatch {
        aor: alice(),
        topic: Topic::Presence,
        watch: WatchId(Topic::Presence as u64),
    });
    assert_eq!(world.pass(60).len(), 0);
    assert_eq!(world.watch(Topic::Presence, 0), presence(false, false, &[]), "a fetch");
    assert_eq!(world.router.counts().watches, 0);
}

#[test]
fn a_refreshed_watch_is_one_watch() {
    let mut world = World::new();
    for _ in 0..5 {
        world.watch(Topic::Presence, 600);
        world.pass(300);
    }
    assert_eq!(world.router.counts().watches, 1);
    assert_eq!(world.pushed(come(1, 600)).len(), 1);
}

#[test]
fn chat_gets_presence_of_every_address_without_a_watch() {
    let mut world = World::new();
    world.router = router::Router::new(
        router::RouterSettings { tells_presence: true, ..router::RouterSettings::default() },
        [7; 16],
        world.now,
    );
    let is_open = |effects: Vec<Effect>| -> Vec<bool> {
        let open = |effect: Effect| match effect {
            Effect::Presence { aor, presence } => Some((*aor == *alice()) && presence.open),
            _ => None,
        };
        effects.into_iter().filter_map(open).collect()
    };
    let document =
        |document, expires| Query::Publish(Box::new(Publish { aor: alice(), etag: None, document, expires }));
    assert_eq!(is_open(world.do_ask(document(Some(Arc::from(OPEN)), 60))), [true]);
    assert!(!world.router.is_presence_watched(&alice()));
    assert_eq!(is_open(world.pass(61)), [false], "it has ended");
    assert_eq!(world.router.counts().watches, 0);
    world.watch(Topic::Presence, 60);
    assert!(world.router.is_presence_watched(&alice()));
}

#[test]
fn presence_of_chat_is_kept_until_chat_removes_it() {
    let mut world = World::new();
    world.watch(Topic::Presence, 1_000_000);
    let chat = |show| router::Chat { show, note: "lunch".into() };
    let changed = |chat: Option<router::Chat>| Query::ChatChanged { aor: alice(), chat };
    let presence_with = |chat: Option<router::Chat>| {
        State::Presence(Presence { open: false, on_the_phone: false, chat, documents: Vec::new() })
    };
    let away = chat(router::Show::Away);
    assert_eq!(world.pushed(changed(Some(away.clone()))), [presence_with(Some(away.clone()))]);
    assert_eq!(world.pushed(changed(Some(away.clone()))), [], "no news");
    assert_eq!(states(world.pass(86_400)), [], "it does not expire");
    assert_eq!(world.watch(Topic::Presence, 1_000_000), presence_with(Some(away)));
    assert_eq!(world.pushed(changed(None)), [presence_with(None)]);
    assert_eq!(world.pushed(changed(None)), []);
}

/// The list that an edge asks for, and the addresses that it is told of later.
#[test]
fn an_edge_that_asks_gets_the_watched_addresses_and_hears_of_new_ones() {
    let mut world = World::new();
    let owner = router::ShardAddress { life: router::Life(4), shard: 2 };
    let ask = || Query::Watched { aor: alice(), owner };
    let listed = |aors: Vec<router::Aor>| vec![Push::Watched { owner: Some(owner), aors }];
    world.watch(Topic::MessageSummary, 600);
    assert_eq!(pushes(world.do_ask(ask())), listed(Vec::new()), "that shows no calls");
    let begin = |topic, world: &mut World| {
        let until = world.now + Duration::from_secs(600);
        pushes(world.do_ask(Query::Watch { aor: alice(), topic, watch: WatchId(topic as u64), until }))
    };
    let begun = vec![Push::Watched { owner: None, aors: vec![alice()] }];
    assert_eq!(begin(Topic::Dialog, &mut world), begun);
    assert_eq!(begin(Topic::Presence, &mut world), [], "it is watched already");
    assert_eq!(pushes(world.do_ask(ask())), listed(vec![alice()]));
    for topic in [Topic::Dialog, Topic::Presence] {
        world.ask(Query::Unwatch { aor: alice(), topic, watch: WatchId(topic as u64) });
    }
    assert_eq!(begin(Topic::Presence, &mut world), begun);
    for topic in [Topic::Dialog, Topic::Presence] {
        world.ask(Query::Unwatch { aor: alice(), topic, watch: WatchId(topic as u64) });
    }
    world.now = world.now + limits::WATCHED_TOLD;
    assert_eq!(begin(Topic::Dialog, &mut world), [], "the edge goes by the list no more");
}
