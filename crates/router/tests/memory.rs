//! A binding costs at most 300 bytes, everything included (ARCHITECTURE.md, "Invariants").

use router::{
    AskId, Change, Contact, Effect, Life, Query, Received, Register, Router, RouterSettings, ShardAddress,
    Transport,
};
use sim::Counting;
use stdx::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const BINDINGS: usize = 200_000;
const START: Instant = Instant::from_unix_seconds(1_800_000_000);

/// As a phone behind NAT sends it: an address of 22 characters, a contact of 45.
fn register(n: usize, cseq: u32) -> Query {
    let contact = Contact {
        uri: format!("sip:user{n:08}@192.168.1.23:5060;transport=udp").into(),
        q: 1000,
        expires: 3600,
        instance: "".into(),
        reg_id: 0,
        path: "".into(),
        user_agent: "Yealink SIP-T46S 66.86.0.15".into(),
        received: Some(Received {
            transport: Transport::Udp,
            local: "192.0.2.1:5060".parse().expect("an address"),
            remote: "198.51.100.7:40312".parse().expect("an address"),
            flow: None,
        }),
    };
    Query::Register(Box::new(Register {
        aor: format!("user{n:08}@example.c").into(),
        call_id: format!("{n:010}-3f2a9c@192.168.1.23").into(),
        cseq,
        change: Change::Update(vec![contact]),
        max_contacts: 5,
    }))
}

fn bind_all(router: &mut Router, now: Instant, cseq: u32) {
    let edge = ShardAddress { life: Life(0), shard: 0 };
    let mut out = Vec::new();
    for n in 0..BINDINGS {
        router.handle_query(now, edge, AskId(0), register(n, cseq), &mut out);
        let Some(Effect::WriteBinding { ticket, .. }) = out.pop() else { panic!("nothing to write") };
        router.handle_written(now, ticket, Ok(i64::from(cseq) << 40 | n as i64), &mut out);
        out.clear();
    }
}

#[test]
fn a_binding_costs_at_most_300_bytes() {
    let before = ALLOCATOR.bytes();
    let mut router = Router::new(RouterSettings::default(), [3; 16], START);
    bind_all(&mut router, START, 1);
    let each = (ALLOCATOR.bytes() - before) / BINDINGS;
    println!("bound once: {each} bytes each, by its own estimate {}", router.counts().memory / BINDINGS);
    assert!(each <= 300, "{each} bytes a binding");

    // Refreshes every half interval, twice: timers must not pile up.
    for round in 1..=2 {
        let now = Instant::from_unix_seconds(START.unix_seconds() + round * 1800);
        router.expire(now, &mut Vec::new());
        bind_all(&mut router, now, 1 + round as u32);
    }
    let each = (ALLOCATOR.bytes() - before) / BINDINGS;
    println!("after two refreshes: {each} bytes each");
    assert!(each <= 300, "{each} bytes a binding");
    assert_eq!(router.counts().bindings, BINDINGS);
}
