//! Every frame and every value of the council as bytes in a file. A node must always write and read them so: the files of a version
//! that has been released never change; a later version has files of its own.

use bytes::Bytes;
use cluster::figures::NodeFigures;
use cluster::link::{Class, Lane, Link, Message, WIRE};
use cluster::map::FarmMap;
use cluster::member::{Member, MemberState, Roles};
use cluster::plan::Candidate;
use cluster::{Bucket, Epoch, Life, ShardAddress};
use golden::{Golden, additions, bytes_of_hex, hex};
use stdx::Instant;

use crate::pair::{Pair, acceptor, at, dialer};

fn kept() -> Golden {
    Golden::new(env!("CARGO_MANIFEST_DIR"), "tests/wire/golden", WIRE.1)
}

/// Compares with the file, in hexadecimal. `BLESS=1` writes a file that does not exist.
fn check(name: &str, bytes: &[u8]) {
    kept().check(&format!("{name}.hex"), &hex(bytes));
}

#[test]
fn versions_that_have_been_released_are_closed() {
    kept().assert_released_are_closed();
    assert_eq!(WIRE.0, (WIRE.1 - 1).max(1), "a program speaks its own version and the one before it");
}

fn output(link: &mut Link, now: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    link.poll_output(now, 65_536, &mut bytes);
    bytes
}

#[test]
fn the_handshake() {
    let (mut dialing, mut accepting) = (dialer(), acceptor());
    let mut step = |name: &str, from_dialer: bool| {
        let (from, to) =
            if from_dialer { (&mut dialing, &mut accepting) } else { (&mut accepting, &mut dialing) };
        let mut bytes = Vec::new();
        from.poll_output(&mut bytes);
        check(name, &bytes);
        to.handle_bytes(&bytes).unwrap();
    };
    step("hello-dialer", true);
    step("hello-acceptor", false);
    step("proof-dialer", true);
    step("proof-acceptor", false);
}

#[test]
fn where_a_new_connection_begins() {
    for (name, lane) in [("resume-prompt", Lane::Prompt), ("resume-acknowledged", Lane::Acknowledged)] {
        let mut link = Link::new(lane);
        link.handle_connected(at(0));
        check(name, &output(&mut link, at(0)));
    }
    let mut link = Link::with_incarnation(Lane::Acknowledged, 0x0102_0304_0506_0708);
    link.handle_connected(at(0));
    check("resume-incarnation", &output(&mut link, at(0)));
}

#[test]
fn a_frame_of_each_class() {
    for class in Class::ALL {
        let mut pair = Pair::connected(class.lane());
        for (kind, body) in [(1, "first"), (0x0203, "second")] {
            let message =
                Message { kind, epoch: Epoch(0x0102_0304_0506_0708), shard: 9, body: Bytes::from(body) };
            pair.ends[0].link.send(at(0), class, message).unwrap();
        }
        check(&format!("data-{class:?}").to_lowercase(), &output(&mut pair.ends[0].link, at(0)));
    }
}

#[test]
fn an_acknowledgement_alone() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    let message = Message { kind: 1, epoch: Epoch(1), shard: 0, body: Bytes::from("x") };
    pair.ends[0].link.send(at(0), Class::Chat, message).unwrap();
    pair.settle(at(0));
    pair.ends[1].link.poll_message(Class::Chat).unwrap();
    let late = at(0) + cluster::limits::ACK_DELAY;
    pair.ends[1].link.expire(late).unwrap();
    check("acknowledgement", &output(&mut pair.ends[1].link, late));
}

#[test]
fn more_credit() {
    let mut pair = Pair::connected(Lane::Acknowledged);
    for number in 0..6 {
        pair.ends[0].link.send(at(0), Class::Bulk, crate::pair::message(number, 100_000)).unwrap();
    }
    pair.settle(at(0));
    while pair.ends[1].link.poll_message(Class::Bulk).is_some() {}
    check("credit", &output(&mut pair.ends[1].link, at(0)));
}

#[test]
fn a_keep_alive() {
    let mut pair = Pair::connected(Lane::Prompt);
    pair.ends[0].link.expire(at(1_000)).unwrap();
    check("keep-alive", &output(&mut pair.ends[0].link, at(1_000)));
}

fn member() -> Member {
    Member {
        life: Life(28_163_498),
        farm: "example".into(),
        name: "n1".into(),
        roles: Roles::BOTH,
        weight: 100,
        address: "192.0.2.1:5280".into(),
        shards: 2,
        build: "0.1.0".into(),
        wire: (1, 1),
        state: MemberState::Serving,
        renewal: 300,
    }
}

fn figures() -> NodeFigures {
    NodeFigures { calls: 212, bindings: 70_000, sessions: 3, cpu_permille: 184 }
}

/// A map of a few buckets and slots: two nodes, a third one that is dead, epochs, and slots that have just moved.
fn map() -> FarmMap {
    let mut map = FarmMap::new(8);
    let candidate = |life, shard| Candidate { address: ShardAddress::new(Life(life), shard), weight: 1 };
    for nodes in [&[candidate(5, 0), candidate(6, 0)][..], &[candidate(6, 0), candidate(7, 1)]] {
        let moves = map.plan(nodes, nodes);
        map.apply(at(1_000), &moves);
    }
    map.insert_dead(Life(5));
    (0..3).filter_map(Bucket::with_number).for_each(|bucket| map.set_epoch(bucket, Epoch(1 << 33)));
    map.set_level(1);
    map.succeed(8);
    map
}

#[test]
fn an_announcement() {
    for (name, state) in [
        ("member-joining", MemberState::Joining),
        ("member-serving", MemberState::Serving),
        ("member-draining", MemberState::Draining),
        ("member-left", MemberState::Left),
    ] {
        let mut value = Member { state, ..member() }.encode();
        figures().append_to(&mut value);
        check(name, &value);
        assert_eq!(Member::decode(&value), Ok(Member { state, ..member() }));
        assert_eq!(NodeFigures::of_announcement(&value), Ok(Some(figures())));
    }
}

#[test]
fn the_map() {
    check("map", &map().encode());
    assert_eq!(FarmMap::decode(&map().encode()), Ok(map()));
}

/// Values as the version before wrote them, in the form that it had.
#[test]
fn values_of_the_version_before_are_read() {
    let files = kept().files(WIRE.0);
    let value = |name: &str| bytes_of_hex(&files[&format!("{name}.hex")]);
    assert_eq!(Member::decode(&value("member-serving")), Ok(member()));
    assert_eq!(NodeFigures::of_announcement(&value("member-serving")), Ok(Some(figures())));
    assert_eq!(FarmMap::decode(&value("map")), Ok(map()));
}

/// The version before passes over fields that it does not know and needs all that it does.
#[test]
fn values_of_this_version_have_all_fields_of_the_version_before() {
    let (before, now) = (kept().files(WIRE.0), kept().files(WIRE.1));
    for (name, text) in before.iter().filter(|(name, _)| name.starts_with("member") || *name == "map.hex") {
        additions(&bytes_of_hex(text), &bytes_of_hex(&now[name]))
            .unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
}
