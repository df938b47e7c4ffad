//! Watchers know the current state after thousands of seeded steps: no watcher misses a change or hears the
//! same state twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use router::{Answer, CallInfo, CallPhase, Effect, Publish, Push, Query, Register, State, Topic, WatchId};
use stdx::Instant;

use crate::model::Dice;
use crate::support::{World, message, register, update};

const AORS: [&str; 2] = ["alice@example.com", "bob@example.com"];
const TOPICS: [Topic; 4] = [Topic::Presence, Topic::Dialog, Topic::MessageSummary, Topic::Registration];
const PHASES: [CallPhase; 4] =
    [CallPhase::Trying, CallPhase::Early, CallPhase::Confirmed, CallPhase::Terminated];

struct Run {
    world: World,
    dice: Dice,
    /// The watches: address, topic, end, and the last state that the watcher received.
    watchers: BTreeMap<u64, (usize, Topic, Instant, State)>,
    etags: Vec<Box<str>>,
    cseq: u32,
}

impl Run {
    fn new(seed: u64) -> Self {
        let watchers = BTreeMap::new();
        Run { world: World::new(), dice: Dice::new(seed), watchers, etags: Vec::new(), cseq: 0 }
    }

    fn step(&mut self) {
        let effects = match self.dice.roll(9) {
            0 => self.watch(),
            1 => self.unwatch(),
            2 | 3 => self.register(),
            4 => self.publish(),
            5 | 6 => self.call(),
            7 => {
                let kept = message(self.dice.pick(&AORS), "hello", self.world.now);
                self.world.do_ask(Query::Keep(Box::new(kept)))
            }
            _ => {
                let longest = self.dice.pick(&[2, 100, 5_000]);
                let seconds = self.dice.roll(longest);
                self.world.pass(seconds)
            }
        };
        self.hear(effects);
        let now = self.world.now;
        self.watchers.retain(|_, (_, _, until, _)| *until > now);
        self.compare();
    }

    fn watch(&mut self) -> Vec<Effect> {
        let (aor, topic) = (self.dice.roll(2) as usize, self.dice.pick(&TOPICS));
        // One name for one topic of one address, and a second for another watcher of the same.
        let id = aor as u64 * 100 + topic as u64 * 10 + self.dice.roll(2);
        let until = self.world.now + Duration::from_secs(1 + self.dice.roll(4_000));
        let query = Query::Watch { aor: AORS[aor].into(), topic, watch: WatchId(id), until };
        let mut effects = self.world.ask(query);
        let Some(Effect::Answer { answer: Answer::State(state), .. }) = effects.pop() else { panic!() };
        self.hear(effects);
        self.watchers.insert(id, (aor, topic, until, state));
        Vec::new()
    }

    fn unwatch(&mut self) -> Vec<Effect> {
        let ids: Vec<_> = self.watchers.keys().copied().collect();
        if ids.is_empty() {
            return Vec::new();
        }
        let id = self.dice.pick(&ids);
        let (aor, topic, ..) = self.watchers.remove(&id).unwrap();
        self.world.ask(Query::Unwatch { aor: AORS[aor].into(), topic, watch: WatchId(id) })
    }

    fn register(&mut self) -> Vec<Effect> {
        self.cseq += 1;
        let aor = self.dice.pick(&AORS);
        let uri = self.dice.pick(&["sip:a@192.0.2.1", "sip:a@192.0.2.2"]);
        let expires = self.dice.pick(&[0, 60, 600, 3600]);
        let register: Register = match self.dice.roll(6) {
            0 => register(aor, "c", self.cseq, router::Change::RemoveAll),
            _ => update(aor, "c", self.cseq, uri, expires),
        };
        self.world.do_ask(Query::Register(Box::new(register)))
    }

    fn publish(&mut self) -> Vec<Effect> {
        let document = self.dice.pick(&[None, Some("<basic>open</basic>"), Some("<basic>closed</basic>")]);
        let etag = if self.etags.is_empty() || self.dice.roll(2) == 0 {
            None
        } else {
            let place = self.dice.roll(self.etags.len() as u64) as usize;
            Some(self.etags.swap_remove(place))
        };
        let publish = Publish {
            aor: self.dice.pick(&AORS).into(),
            etag,
            document: document.map(|text| Arc::from(text.as_bytes())),
            expires: self.dice.pick(&[0, 60, 3600]),
        };
        let effects = self.world.ask(Query::Publish(Box::new(publish)));
        if let Effect::Answer { answer: Answer::Published(Ok(published)), .. } = &effects[0] {
            self.etags.push(published.etag.clone());
        }
        effects
    }

    fn call(&mut self) -> Vec<Effect> {
        let call = CallInfo {
            call_id: self.dice.pick(&["c1", "c2", "c3"]).into(),
            local_tag: "l".into(),
            remote_tag: "r".into(),
            initiator: false,
            remote: "sip:carol@example.com".into(),
            phase: self.dice.pick(&PHASES),
        };
        self.world.ask(Query::CallChanged { aor: self.dice.pick(&AORS).into(), call })
    }

    fn hear(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let Effect::Push { push: Push::State { watch, state }, .. } = effect else { continue };
            let heard = self.watchers.get_mut(&watch.0).expect("no other watcher is told");
            assert_ne!(heard.3, state, "told twice");
            heard.3 = without_ended(state);
        }
    }

    fn compare(&mut self) {
        for (id, (aor, topic, _, heard)) in self.watchers.clone() {
            // A watch that has already ended only asks; its number is unused.
            let (aor, until) = (AORS[aor].into(), self.world.now);
            let query = Query::Watch { aor, topic, watch: WatchId(id + 1_000), until };
            let effects = self.world.ask(query);
            let [Effect::Answer { answer: Answer::State(state), .. }] = &effects[..] else {
                panic!("a change no watcher was told of: {effects:?}");
            };
            assert_eq!(*state, heard);
        }
    }
}

/// Ended calls are told once and then gone.
fn without_ended(state: State) -> State {
    match state {
        State::Dialog(mut calls) => {
            calls.retain(|call| call.phase != CallPhase::Terminated);
            State::Dialog(calls)
        }
        other => other,
    }
}

#[test]
fn the_last_notification_of_each_watch_equals_the_state() {
    for seed in 0..60 {
        let mut run = Run::new(seed);
        for step in 0..500 {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.step()));
            assert!(caught.is_ok(), "seed {seed}, step {step}");
        }
    }
}
