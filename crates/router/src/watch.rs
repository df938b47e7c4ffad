//! The watchers of an address, and the state that they were told last.

use std::collections::HashMap;

use stdx::Instant;

use crate::interface::{Aor, Presence, Push, ShardAddress, State, Topic, WatchId};
use crate::limits;
use crate::router::{Effect, Router};

#[derive(Default)]
pub(crate) struct Watches {
    watches: Vec<Watch>,
    /// The state of each watched topic that its watchers have been told.
    last_sent: Vec<(Topic, State)>,
}

struct Watch {
    edge: ShardAddress,
    id: WatchId,
    topic: Topic,
    until: Instant,
}

impl Watches {
    pub(crate) fn len(&self) -> usize {
        self.watches.len()
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.watches.iter().map(|watch| watch.until).min()
    }

    /// Silent: the edge has its own timer and tells its subscriber (RFC 6665 §4.2.2).
    pub(crate) fn expire(&mut self, now: Instant) {
        self.watches.retain(|watch| watch.until > now);
        self.forget_unwatched();
    }

    pub(crate) fn remove(&mut self, edge: ShardAddress, topic: Topic, id: WatchId) {
        self.watches.retain(|watch| (watch.edge, watch.topic, watch.id) != (edge, topic, id));
        self.forget_unwatched();
    }

    /// True if a watcher sees calls: those of RFC 4235, or the presence of an address that is on the phone.
    pub(crate) fn show_calls(&self) -> bool {
        self.topics().any(|topic| matches!(topic, Topic::Dialog | Topic::Presence))
    }

    fn put(&mut self, edge: ShardAddress, topic: Topic, id: WatchId, until: Instant, state: State) {
        let same = |watch: &&mut Watch| (watch.edge, watch.topic, watch.id) == (edge, topic, id);
        let full = self.watches.len() >= limits::WATCHES_PER_ADDRESS;
        match self.watches.iter_mut().find(same) {
            Some(watch) => watch.until = until,
            None if full => return,
            None => self.watches.push(Watch { edge, id, topic, until }),
        }
        self.remember(topic, state);
    }

    fn topics(&self) -> impl Iterator<Item = Topic> {
        self.last_sent.iter().map(|(topic, _)| *topic)
    }

    fn remember(&mut self, topic: Topic, state: State) {
        match self.last_sent.iter_mut().find(|(known, _)| *known == topic) {
            Some((_, last_sent)) => *last_sent = state,
            None => self.last_sent.push((topic, state)),
        }
    }

    fn tell(&mut self, now: Instant, topic: Topic, state: State, out: &mut Vec<Effect>) {
        if self.last_sent.iter().any(|(known, last_sent)| *known == topic && *last_sent == state) {
            return;
        }
        for watch in self.watches.iter().filter(|watch| watch.topic == topic && watch.until > now) {
            let push = Push::State { watch: watch.id, state: state.clone() };
            out.push(Effect::Push { to: watch.edge, push });
        }
        self.remember(topic, state);
    }

    fn forget_unwatched(&mut self) {
        let watches = &self.watches;
        self.last_sent.retain(|(topic, _)| watches.iter().any(|watch| watch.topic == *topic));
    }
}

/// The edges that go by a list of watched addresses, each until then: they report no other calls.
#[derive(Default)]
pub(crate) struct ListedEdges(HashMap<ShardAddress, Instant>);

impl ListedEdges {
    /// The address is watched from now on.
    fn tell(&mut self, now: Instant, aor: &str, out: &mut Vec<Effect>) {
        self.0.retain(|_, until| *until > now);
        for to in self.0.keys() {
            let push = Push::Watched { owner: None, aors: vec![aor.into()] };
            out.push(Effect::Push { to: *to, push });
        }
    }
}

impl Router {
    /// Sends an edge all watched addresses, unless they are too many, or the presence of all is needed.
    pub(crate) fn list_watched(
        &mut self,
        now: Instant,
        from: ShardAddress,
        owner: ShardAddress,
        out: &mut Vec<Effect>,
    ) {
        let aors: Vec<Aor> = self.soft.aors_that_show_calls().map(Into::into).collect();
        let bytes: usize = aors.iter().map(|aor| aor.len()).sum();
        if self.settings.tells_presence || bytes > limits::WATCHED_BYTES {
            return;
        }
        self.listed_edges.0.insert(from, now + limits::WATCHED_TOLD);
        out.push(Effect::Push { to: from, push: Push::Watched { owner: Some(owner), aors } });
    }

    /// Starts or refreshes a watch and tells the present state. One that has ended already only asks.
    #[expect(clippy::too_many_arguments, reason = "the fields of Query::Watch, and where it came from")]
    pub(crate) fn watch(
        &mut self,
        now: Instant,
        from: ShardAddress,
        aor: &str,
        topic: Topic,
        watch: WatchId,
        until: Instant,
        out: &mut Vec<Effect>,
    ) -> State {
        // First the others: the last value sent is one for all of them.
        self.tell_watchers(now, aor, out);
        let state = self.state(now, aor, topic);
        if until <= now {
            self.soft.unwatch(now, from, aor, topic, watch);
        } else if self.soft.has_room(aor) {
            let has_begun = self.soft.change(now, aor, |soft| {
                let was_shown = soft.watches.show_calls();
                soft.watches.put(from, topic, watch, until, state.clone());
                !was_shown && soft.watches.show_calls()
            });
            if has_begun {
                self.listed_edges.tell(now, aor, out);
            }
        }
        state
    }

    /// Something about this address may have changed: watchers that would see a difference are told.
    pub(crate) fn notify(&mut self, now: Instant, aor: &str, out: &mut Vec<Effect>) {
        self.tell_watchers(now, aor, out);
        if self.settings.tells_presence {
            out.push(Effect::Presence { aor: aor.into(), presence: self.presence(now, aor) });
        }
    }

    pub(crate) fn tell_watchers(&mut self, now: Instant, aor: &str, out: &mut Vec<Effect>) {
        for (topic, state) in self.watched(now, aor) {
            self.soft.change_known(now, aor, |soft| soft.watches.tell(now, topic, state, out));
        }
    }

    /// The present state counts as told.
    pub(crate) fn settle(&mut self, now: Instant, aor: &str) {
        self.notify(now, aor, &mut Vec::new());
    }

    /// True if this address's presence has a watcher.
    pub fn is_presence_watched(&self, aor: &str) -> bool {
        self.soft.get(aor).is_some_and(|soft| soft.watches.topics().any(|topic| topic == Topic::Presence))
    }

    /// The presence of an address now.
    pub fn presence(&self, now: Instant, aor: &str) -> Presence {
        let soft = self.soft.get(aor);
        Presence {
            open: self.location.is_bound(now, aor) || soft.is_some_and(|soft| soft.publications.open()),
            on_the_phone: soft.is_some_and(|soft| soft.calls.on_the_phone()),
            chat: soft.and_then(|soft| soft.chat.clone()),
            documents: soft.map(|soft| soft.publications.documents()).unwrap_or_default(),
        }
    }

    fn watched(&self, now: Instant, aor: &str) -> Vec<(Topic, State)> {
        let Some(soft) = self.soft.get(aor) else {
            return Vec::new();
        };
        soft.watches.topics().map(|topic| (topic, self.state(now, aor, topic))).collect()
    }

    fn state(&self, now: Instant, aor: &str, topic: Topic) -> State {
        let soft = self.soft.get(aor);
        match topic {
            Topic::Presence => State::Presence(self.presence(now, aor)),
            Topic::Dialog => State::Dialog(soft.map(|soft| soft.calls.infos()).unwrap_or_default()),
            Topic::MessageSummary => State::MessageSummary { waiting: self.kept.count(aor) },
            Topic::Registration => State::Registration(self.location.lookup(now, aor)),
        }
    }
}
