//! A router with a log beside it, and helpers for frequent steps of tests.

use std::collections::BTreeMap;
use std::time::Duration;

use router::{
    Answer, Aor, AskId, Binding, Change, Contact, Effect, Life, Push, Query, Received, Register,
    RegisterRefused, Router, RouterSettings, ShardAddress, Transport, WaitingMessage, WriteFailed,
};
use stdx::Instant;

pub(crate) const EDGE: ShardAddress = ShardAddress { life: Life(1), shard: 0 };
pub(crate) const START: Instant = Instant::from_unix_seconds(1_800_000_000);

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) now: Instant,
    /// Rows by number, as the store has them once it has deleted every dead one.
    pub(crate) log: BTreeMap<i64, Box<[u8]>>,
    pub(crate) out: Vec<Effect>,
    next: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let router = Router::new(RouterSettings::default(), [7; 16], START);
        World { router, now: START, log: BTreeMap::new(), out: Vec::new(), next: 0 }
    }

    /// `kill -9` and start again from the log.
    pub(crate) fn restart(&mut self) {
        self.restart_beside(&[]);
    }

    /// As `restart`, while nodes of these lives run.
    pub(crate) fn restart_beside(&mut self, others: &[Life]) {
        self.out.clear();
        self.router = Router::new(RouterSettings::default(), [8; 16], self.now);
        let mut dead = Vec::new();
        for (row, record) in &self.log {
            self.router.replay(self.now, *row, record, others, &mut dead).unwrap();
        }
        self.forget(&dead);
    }

    pub(crate) fn pass(&mut self, seconds: u64) -> Vec<Effect> {
        self.now = self.now + Duration::from_secs(seconds);
        self.router.expire(self.now, &mut self.out);
        let mut effects = std::mem::take(&mut self.out);
        effects.retain(|effect| {
            let Effect::ForgetBinding { row } = effect else { return true };
            self.forget(&[*row]);
            false
        });
        effects
    }

    pub(crate) fn ask(&mut self, query: Query) -> Vec<Effect> {
        self.next += 1;
        self.router.handle_query(self.now, EDGE, AskId(self.next), query, &mut self.out);
        std::mem::take(&mut self.out)
    }

    pub(crate) fn written(&mut self, ticket: u64, result: Result<i64, WriteFailed>) -> Vec<Effect> {
        self.router.handle_written(self.now, ticket, result, &mut self.out);
        std::mem::take(&mut self.out)
    }

    /// A number as the store gives them.
    pub(crate) fn next_row(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Deletes dead rows. A row dies once, and it was there.
    pub(crate) fn forget(&mut self, rows: &[i64]) {
        for row in rows {
            assert!(self.log.remove(row).is_some(), "row {row} is not there");
        }
    }

    /// Everything that is to be written is written at once; the other effects, in order.
    pub(crate) fn settle(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut rest = Vec::new();
        for effect in effects {
            let more = match effect {
                Effect::WriteBinding { ticket, row } => {
                    let number = i64::try_from(self.next_row()).unwrap();
                    self.log.insert(number, row.record);
                    self.forget(&Vec::from_iter(row.replaces));
                    self.forget(&Vec::from_iter(row.empties.then_some(number)));
                    self.written(ticket, Ok(number))
                }
                Effect::KeepMessage { ticket, .. } => {
                    let number = i64::try_from(self.next_row()).unwrap();
                    self.written(ticket, Ok(number))
                }
                other => {
                    rest.push(other);
                    continue;
                }
            };
            rest.extend(self.settle(more));
        }
        rest
    }

    pub(crate) fn do_ask(&mut self, query: Query) -> Vec<Effect> {
        let effects = self.ask(query);
        self.settle(effects)
    }

    pub(crate) fn register(&mut self, register: Register) -> Result<Vec<Binding>, RegisterRefused> {
        let effects = self.do_ask(Query::Register(Box::new(register)));
        match effects.into_iter().next() {
            Some(Effect::Answer { answer: Answer::Registered(result), .. }) => result,
            other => panic!("no answer but {other:?}"),
        }
    }

    pub(crate) fn lookup(&mut self, aor: &str) -> Vec<Binding> {
        match self.ask(Query::Lookup { aor: aor.into() }).pop() {
            Some(Effect::Answer { answer: Answer::Bindings(bindings), .. }) => bindings,
            other => panic!("no answer but {other:?}"),
        }
    }

    pub(crate) fn uris(&mut self, aor: &str) -> Vec<String> {
        self.lookup(aor).iter().map(|binding| binding.contact.uri.to_string()).collect()
    }
}

pub(crate) fn contact(uri: &str, expires: u32) -> Contact {
    Contact {
        uri: uri.into(),
        q: 1000,
        expires,
        instance: "".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "baresip v1.1.0 (x86_64/linux)".into(),
        received: Some(Received {
            transport: Transport::Udp,
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: "198.51.100.7:40312".parse().unwrap(),
            flow: None,
        }),
    }
}

pub(crate) fn register(aor: &str, call_id: &str, cseq: u32, change: Change) -> Register {
    Register { aor: aor.into(), call_id: call_id.into(), cseq, change, max_contacts: 5 }
}

pub(crate) fn update(aor: &str, call_id: &str, cseq: u32, uri: &str, expires: u32) -> Register {
    register(aor, call_id, cseq, Change::Update(vec![contact(uri, expires)]))
}

pub(crate) fn message(aor: &str, body: &str, sent_at: Instant) -> WaitingMessage {
    WaitingMessage {
        id: 0,
        aor: aor.into(),
        from: "sip:bob@example.com".into(),
        content_type: "text/plain".into(),
        body: body.as_bytes().into(),
        sent_at,
        expires_at: None,
    }
}

pub(crate) fn pushes(effects: Vec<Effect>) -> Vec<Push> {
    effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Push { push, .. } => Some(push),
            _ => None,
        })
        .collect()
}

pub(crate) fn alice() -> Aor {
    "alice@example.com".into()
}
