use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SETTINGS: ProxySettings = ProxySettings { waiting: 8, transfers: 3 };

fn hash(name: &str) -> StreamHash {
    StreamHash::of(name, "alice@example.org/a", "bob@example.org/b")
}

fn handshake(name: &str) -> Vec<u8> {
    [&[5, 1, 0, 5, 1, 0, 3, 40][..], hash(name).to_hex().as_bytes(), &[0, 0]].concat()
}

fn activation(name: &str) -> Activation<'static> {
    Activation { hash: hash(name), account: "alice@example.org" }
}

/// A connection that has named that transfer, and the effects of that.
fn connect(proxy: &mut Proxy, now: Instant, name: &str) -> (ConnectionId, Vec<Effect>) {
    let (id, mut out) = (proxy.handle_accepted(now).unwrap(), Vec::new());
    proxy.handle_bytes(now, id, &handshake(name), &mut out);
    (id, out)
}

fn is_empty(proxy: &Proxy) -> bool {
    let Proxy { connections, deadlines, transfers, accounts, active, .. } = proxy;
    connections.is_empty()
        && deadlines.is_empty()
        && transfers.is_empty()
        && accounts.is_empty()
        && *active == 0
}

#[test]
fn two_connections_of_one_hash_are_joined_by_the_activation() {
    let (mut proxy, now, mut out) = (Proxy::new(SETTINGS), Instant::default(), Vec::new());
    assert_eq!(proxy.activate(activation("a"), &mut out), Err(ActivationFault::Unknown));
    let (target, sent) = connect(&mut proxy, now, "a");
    let mut replies = vec![5, 0];
    Handshake::put_success(hash("a"), &mut replies);
    assert_eq!(sent, [Effect::Send { connection: target, bytes: replies }]);
    // XEP-0065 §6.3.5: both have to be there.
    assert_eq!(proxy.activate(activation("a"), &mut out), Err(ActivationFault::OneEnd));
    let (requester, _) = connect(&mut proxy, now, "a");
    proxy.handle_bytes(now, requester, b"early", &mut out);
    assert_eq!(proxy.activate(activation("b"), &mut out), Err(ActivationFault::Unknown));
    assert!(out.is_empty());
    proxy.activate(activation("a"), &mut out).unwrap();
    let first = JoinedConnection { connection: target, early: Vec::new() };
    let second = JoinedConnection { connection: requester, early: b"early".to_vec() };
    assert_eq!(out, [Effect::Join { first, second }]);
    assert_eq!((proxy.counts(), proxy.deadline()), (Counts { waiting: 0, transfers: 1 }, None));
    assert_eq!(proxy.activate(activation("a"), &mut out), Err(ActivationFault::Unknown), "only once");
    proxy.handle_closed(target);
    assert_eq!(proxy.counts().transfers, 1);
    proxy.handle_closed(requester);
    assert!(is_empty(&proxy));
}

#[test]
fn a_third_connection_of_a_hash_is_refused() {
    let (mut proxy, now, mut out) = (Proxy::new(SETTINGS), Instant::default(), Vec::new());
    connect(&mut proxy, now, "a");
    let (second, _) = connect(&mut proxy, now, "a");
    let refused = |sent: &[Effect]| {
        let [Effect::Send { bytes, .. }, Effect::Close { reason, .. }] = sent else { panic!("{sent:?}") };
        assert_eq!((&bytes[..4], *reason), (&[5, 0, 5, 2][..], "taken"));
    };
    refused(&connect(&mut proxy, now, "a").1);
    proxy.activate(activation("a"), &mut out).unwrap();
    proxy.handle_closed(second);
    // One end of an active transfer has ended: its place is not free.
    refused(&connect(&mut proxy, now, "a").1);
    assert_eq!(proxy.counts(), Counts { waiting: 0, transfers: 1 });
}

#[test]
fn a_connection_that_is_not_activated_is_closed_after_its_time() {
    let (mut proxy, now, mut out) = (Proxy::new(SETTINGS), Instant::default(), Vec::new());
    let silent = proxy.handle_accepted(now).unwrap();
    assert_eq!(proxy.deadline(), Some(now + limits::HANDSHAKE));
    let later = now + limits::HANDSHAKE - Duration::from_millis(1);
    let (waiting, _) = connect(&mut proxy, later, "a");
    proxy.expire(later, &mut out);
    assert!(out.is_empty());
    proxy.expire(now + limits::HANDSHAKE, &mut out);
    assert_eq!(out, [Effect::Close { connection: silent, reason: "handshake_timeout" }]);
    assert_eq!(proxy.deadline(), Some(later + limits::WAITING));
    out.clear();
    proxy.expire(later + limits::WAITING, &mut out);
    assert_eq!(out, [Effect::Close { connection: waiting, reason: "not_activated" }]);
    assert!(is_empty(&proxy));
    assert_eq!(proxy.activate(activation("a"), &mut out), Err(ActivationFault::Unknown));
}

#[test]
fn an_end_that_left_may_come_back_before_the_activation() {
    let (mut proxy, now, mut out) = (Proxy::new(SETTINGS), Instant::default(), Vec::new());
    connect(&mut proxy, now, "a");
    let (left, _) = connect(&mut proxy, now, "a");
    proxy.handle_closed(left);
    assert_eq!(proxy.activate(activation("a"), &mut out), Err(ActivationFault::OneEnd));
    connect(&mut proxy, now, "a");
    assert_eq!(proxy.activate(activation("a"), &mut out), Ok(()));
}

#[test]
fn connections_and_transfers_have_bounds() {
    let (mut proxy, now, mut out) = (Proxy::new(SETTINGS), Instant::default(), Vec::new());
    let pair = |proxy: &mut Proxy, name: &str| [connect(proxy, now, name).0, connect(proxy, now, name).0];
    for name in ["a", "b", "c"] {
        pair(&mut proxy, name);
        proxy.activate(activation(name), &mut out).unwrap();
    }
    let last = pair(&mut proxy, "d");
    assert_eq!(proxy.activate(activation("d"), &mut out), Err(ActivationFault::TooMany));
    // Active connections take no places of those that wait.
    for _ in 2..SETTINGS.waiting {
        proxy.handle_accepted(now).unwrap();
    }
    assert_eq!(proxy.handle_accepted(now), None);
    proxy.handle_closed(last[0]);
    assert!(proxy.handle_accepted(now).is_some());
    let mut proxy = Proxy::new(ProxySettings { transfers: 100, ..SETTINGS });
    for number in 0..limits::TRANSFERS_PER_ACCOUNT {
        pair(&mut proxy, &number.to_string());
        proxy.activate(activation(&number.to_string()), &mut out).unwrap();
    }
    pair(&mut proxy, "x");
    assert_eq!(proxy.activate(activation("x"), &mut out), Err(ActivationFault::TooMany));
    let other = Activation { account: "carol@example.org", ..activation("x") };
    assert_eq!(proxy.activate(other, &mut out), Ok(()));
}

#[test]
fn a_connection_that_sends_before_the_activation_is_not_read_for_ever() {
    let (mut proxy, now, mut out) = (Proxy::new(SETTINGS), Instant::default(), Vec::new());
    let (id, _) = connect(&mut proxy, now, "a");
    let mut sent = 0;
    while proxy.wants_bytes(id) {
        proxy.handle_bytes(now, id, &[7; 1_000], &mut out);
        sent += 1_000;
    }
    assert!((limits::EARLY..limits::EARLY + 1_000).contains(&sent), "{sent}");
    assert!(out.is_empty());
}

/// One step of a run.
#[derive(Clone, Debug)]
enum Step {
    Accept,
    /// The connection of that number sends a part of the handshake for that transfer, or noise.
    Send(usize, u8, Option<Vec<u8>>),
    Activate(u8),
    Close(usize),
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let noise = prop::option::weighted(0.2, prop::collection::vec(any::<u8>(), 0..20));
    prop_oneof![
        3 => Just(Step::Accept),
        4 => (0..20_usize, 0..3_u8, noise).prop_map(|(id, name, noise)| Step::Send(id, name, noise)),
        2 => (0..3_u8).prop_map(Step::Activate),
        1 => (0..20_usize).prop_map(Step::Close),
        1 => (0..30_u8).prop_map(Step::Wait),
    ]
}

proptest! {
    /// In any order of what happens: the bounds hold, a join names two live connections that asked for the transfer, each at most once, nothing
    /// is said of a connection that is closed, and at the end nothing is left.
    #[test]
    fn any_order_keeps_the_bounds_and_leaves_nothing(steps in prop::collection::vec(step(), 0..120)) {
        let (mut proxy, mut now) = (Proxy::new(SETTINGS), Instant::default());
        let (mut open, mut joined): (Vec<ConnectionId>, Vec<ConnectionId>) = (Vec::new(), Vec::new());
        for step in steps {
            let mut out = Vec::new();
            match step {
                Step::Accept => open.extend(proxy.handle_accepted(now)),
                Step::Send(id, name, noise) => if let Some(id) = open.get(id).copied() && proxy.wants_bytes(id) {
                    let bytes = noise.unwrap_or_else(|| handshake(&name.to_string()));
                    proxy.handle_bytes(now, id, &bytes, &mut out);
                },
                Step::Activate(name) => {
                    let result = proxy.activate(activation(&name.to_string()), &mut out);
                    prop_assert_eq!(result.is_ok(), !out.is_empty());
                }
                Step::Close(id) => if id < open.len() {
                    proxy.handle_closed(open.remove(id));
                },
                Step::Wait(seconds) => {
                    now = now + Duration::from_secs(seconds.into());
                    proxy.expire(now, &mut out);
                    prop_assert!(proxy.deadline().is_none_or(|deadline| deadline > now));
                }
            }
            for effect in out {
                match effect {
                    Effect::Send { connection, bytes } => {
                        prop_assert!(open.contains(&connection) && bytes.len() <= 2 + 47);
                    }
                    Effect::Close { connection, .. } => {
                        prop_assert!(open.contains(&connection) && !joined.contains(&connection));
                        open.retain(|id| *id != connection);
                    }
                    Effect::Join { first, second } => for end in [first.connection, second.connection] {
                        prop_assert!(open.contains(&end) && !joined.contains(&end));
                        joined.push(end);
                    },
                }
            }
            let counts = proxy.counts();
            prop_assert!(counts.waiting <= SETTINGS.waiting && counts.transfers <= SETTINGS.transfers);
        }
        open.into_iter().for_each(|id| proxy.handle_closed(id));
        prop_assert!(is_empty(&proxy));
    }
}
