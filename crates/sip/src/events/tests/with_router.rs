//! Notifier and the real router: each understands the other's messages.

use router::{Change, Life, Register, Router, RouterSettings, ShardAddress};

use super::*;

const EDGE: ShardAddress = ShardAddress { life: Life(0), shard: 0 };

struct Pair {
    world: World,
    router: Router,
    /// The rows of the store.
    store: Vec<router::WaitingMessage>,
}

impl Pair {
    fn new() -> Self {
        let world = World { account: Some(AOR), ..World::new() };
        let router = Router::new(RouterSettings::default(), [7; 16], world.now);
        Pair { world, router, store: Vec::new() }
    }

    /// Passes on their messages until both are silent; phones answer 200. Returns what was sent.
    fn settle(&mut self) -> String {
        let mut text = String::new();
        loop {
            let asked = std::mem::take(&mut self.world.asked);
            let sent = std::mem::take(&mut self.world.sent);
            if asked.is_empty() && sent.is_empty() {
                return text;
            }
            for (id, query) in asked {
                let mut effects = Vec::new();
                self.router.handle_query(self.world.now, EDGE, id, query, &mut effects);
                text.push_str(&self.perform(effects));
            }
            for (id, _) in sent {
                let mut out = Vec::new();
                self.world.notifier.handle_result(self.world.now, id, 200, &mut out);
                text.push_str(&self.show(out));
            }
        }
    }

    /// As [`World::show`], and queries without an answer reach the router too.
    fn show(&mut self, out: Vec<EventEffect>) -> String {
        let mut text = String::new();
        for effect in out {
            if let EventEffect::Ask { id, query: query @ (Query::Unwatch { .. } | Query::Delivered { .. }) } =
                effect
            {
                let mut effects = Vec::new();
                self.router.handle_query(self.world.now, EDGE, id, query, &mut effects);
                text.push_str(&self.perform(effects));
            } else {
                text.push_str(&self.world.show(vec![effect]));
            }
        }
        text
    }

    fn perform(&mut self, effects: Vec<router::Effect>) -> String {
        let (now, mut text) = (self.world.now, String::new());
        for effect in effects {
            let (mut out, mut more) = (Vec::new(), Vec::new());
            match effect {
                router::Effect::Answer { id, answer, .. } => {
                    self.world.notifier.handle_answer(now, id, answer, &mut out);
                }
                router::Effect::Push { push, .. } => self.world.notifier.handle_push(now, push, &mut out),
                router::Effect::WriteBinding { ticket, .. } => {
                    self.router.handle_written(now, ticket, Ok(1), &mut more);
                }
                router::Effect::ForgetBinding { .. } => {}
                router::Effect::KeepMessage { ticket, mut message } => {
                    message.id = 1 + self.store.last().map_or(0, |last| last.id);
                    self.store.push(*message);
                    self.router.handle_written(now, ticket, Ok(1), &mut more);
                }
                router::Effect::ForgetMessage { id, .. } => self.store.retain(|message| message.id != id),
                // Chat's, which is not here.
                router::Effect::Presence { .. } => {}
                router::Effect::LoadKept { aor } => {
                    self.router.handle_kept(now, &aor, Ok(self.store.clone()), &mut more);
                }
            }
            text.push_str(&self.show(out));
            text.push_str(&self.perform(more));
        }
        text
    }

    fn register(&mut self) -> String {
        let query = Query::Register(Box::new(Register {
            aor: AOR.into(),
            call_id: "reg1".into(),
            cseq: 1,
            change: Change::Update(vec![binding("sip:alice@192.0.2.7").contact]),
            max_contacts: 5,
        }));
        let mut effects = Vec::new();
        self.router.handle_query(self.world.now, EDGE, AskId(1), query, &mut effects);
        self.perform(effects) + &self.settle()
    }

    fn wait(&mut self, time: Duration) -> String {
        self.world.now = self.world.now + time;
        let mut out = Vec::new();
        self.world.notifier.expire(self.world.now, &mut out);
        self.show(out) + &self.settle()
    }
}

#[test]
fn a_publication_reaches_its_watchers() {
    let mut pair = Pair::new();
    pair.world.request("SUBSCRIBE", "Event: presence", "");
    assert!(pair.settle().contains("<basic>closed</basic>"));
    pair.wait(Duration::from_secs(2));
    let headers = "Event: presence\nContent-Type: application/pidf+xml";
    pair.world.request("PUBLISH", headers, "<presence><basic>open</basic></presence>");
    let output = pair.settle();
    assert!(output.contains("200 OK; SIP-ETag: "), "{output}");
    assert!(
        output.contains("active") && output.contains("<presence><basic>open</basic></presence>"),
        "{output}"
    );
    pair.world.request("PUBLISH", "Event: presence\nSIP-If-Match: unknown", "");
    assert!(pair.settle().contains("412"));
    assert_eq!(pair.router.counts().watches, 1);
    pair.world.now = pair.world.now + Duration::from_secs(2);
    assert!(pair.register().is_empty(), "still the published document");
    pair.wait(Duration::from_secs(4_000));
    pair.router.expire(pair.world.now, &mut Vec::new());
    assert_eq!(pair.router.counts().watches, 0);
    assert_eq!(pair.world.notifier.counts(), EventCounts::default());
}

#[test]
fn messages_wait_are_counted_and_delivered_in_order() {
    let mut pair = Pair::new();
    pair.world.request("SUBSCRIBE", "Event: message-summary", "");
    assert!(pair.settle().contains("Messages-Waiting: no"));
    for text in ["first", "second"] {
        pair.world.request("MESSAGE", "Content-Type: text/plain", text);
        assert!(pair.settle().contains("202 Accepted"));
    }
    assert!(pair.wait(Duration::from_secs(2)).contains("Text-Message: 2/0"));
    let sent = pair.register();
    let order: Vec<usize> = ["| first", "| second"].iter().map(|text| sent.find(text).unwrap()).collect();
    assert!(order[0] < order[1], "{sent}");
    assert!(pair.store.is_empty());
    let counters = pair.world.notifier.counters();
    assert_eq!((counters.messages_kept, counters.messages_delivered, counters.notifies), (2, 2, 2));
    assert!(pair.wait(Duration::from_secs(2)).contains("Messages-Waiting: no"));
}
