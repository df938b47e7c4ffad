//! Every frame of wire version 1 as bytes in a file. A node of this version must always write and read them so: the files never
//! change; a later version has files of its own.

use std::fmt::Write as _;

use bytes::Bytes;
use cluster::Epoch;
use cluster::link::{Class, Lane, Link, Message};
use stdx::Instant;

use crate::pair::{Pair, acceptor, at, dialer};

/// Compares with the file, 32 bytes a line in hexadecimal. `BLESS=1` writes a file that does not exist.
fn check(name: &str, bytes: &[u8]) {
    let path = format!("{}/tests/wire/golden/v1/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    for line in bytes.chunks(32) {
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    if std::env::var_os("BLESS").is_some() && !std::path::Path::new(&path).exists() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{path}: {fault}"));
    assert_eq!(text, expected, "{name}: wire version 1 has changed; farms of two versions would break");
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
    check("acknowledgement", &output(&mut pair.ends[1].link, at(0)));
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
