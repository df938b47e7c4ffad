//! Any bytes of a peer: what they cause does not depend on how they are cut into reads, is bounded, and is never a proof. The test of
//! this folder and the fuzz targets `link_handshake`, `link_prompt` and `link_acknowledged` use it.

use bytes::Bytes;
use cluster::link::frame::MESSAGE_HEAD;
use cluster::link::{Class, FarmSecret, Handshake, Hello, Lane, Link, LinkFault, Message};
use cluster::{Epoch, Life};
use stdx::Instant;

const NOW: Instant = Instant::from_micros(1_800_000_000_000_000);

/// Bytes of a stranger, or of a proved node in this lane.
pub(crate) fn check(lane: Option<Lane>, data: &[u8]) {
    match lane {
        None => handshake(data),
        Some(lane) => link(lane, data),
    }
}

/// The first byte says which side this node is and how the rest is cut.
fn handshake(data: &[u8]) {
    let Some((&flags, bytes)) = data.split_first() else { return };
    let hello = |life, peer| Hello {
        farm: "example".into(),
        life: Life(life),
        build: "0.1.0".into(),
        wire: (1, 1),
        lane: Lane::Acknowledged,
        // Of the golden frames, so that those are read; the secret is another.
        nonce: [2; 32],
        peer,
    };
    let run = |step: usize| {
        let secret = FarmSecret::new([7; 32]);
        let mut handshake = if flags & 1 == 0 {
            Handshake::accept(NOW, hello(4, None), secret)
        } else {
            Handshake::dial(NOW, hello(9, Some(Life(4))), secret)
        };
        for piece in bytes.chunks(step) {
            match handshake.handle_bytes(piece) {
                Ok(established) => {
                    assert_eq!(established, None, "no bytes prove a secret that they do not know");
                }
                Err(fault) => return Some(fault),
            }
        }
        None
    };
    let pieces = run(usize::from(flags / 2) + 1);
    let whole = run(bytes.len().max(1));
    // The limit of a hello looks at the bytes of one read, so cuts may make it come earlier or later.
    let is_long = |fault: &Option<LinkFault>| matches!(fault, Some(LinkFault::HelloTooLong { .. }));
    assert!(whole == pieces || is_long(&whole) || is_long(&pieces), "{whole:?} {pieces:?}");
}

/// The first byte says how the frames are cut. The peer has said before where it goes on.
fn link(lane: Lane, data: &[u8]) {
    let Some((&flags, bytes)) = data.split_first() else { return };
    let whole = run(lane, bytes, bytes.len().max(1));
    let pieces = run(lane, bytes, usize::from(flags) + 1);
    assert_eq!(whole, pieces);
}

/// The messages that came, and the fault that ended the connection.
fn run(lane: Lane, bytes: &[u8], step: usize) -> (Vec<(Class, Message)>, Option<LinkFault>) {
    let mut link = connected(lane);
    let bound: usize = lane.classes().iter().map(|class| class.window() + class.queue_bytes()).sum();
    let mut fault = None;
    for piece in bytes.chunks(step) {
        fault = link.handle_bytes(NOW, piece).err();
        assert!(link.bytes() <= bound, "{} bytes wait", link.bytes());
        if fault.is_some() {
            break;
        }
    }
    let mut messages = Vec::new();
    for class in lane.classes() {
        while let Some(message) = link.poll_message(*class) {
            messages.push((*class, message));
        }
    }
    let bytes_of = |message: &Message| message.body.len() + MESSAGE_HEAD;
    assert!(messages.iter().map(|(_, message)| bytes_of(message)).sum::<usize>() <= bytes.len());
    // Whatever came: the link can be ended, and gives back what is its own.
    let mut returned = Vec::new();
    link.handle_dead(&mut returned);
    assert!(returned.len() <= lane.classes().len());
    (messages, fault)
}

/// A link to a peer that has taken nothing yet, with a message of each class on its way.
fn connected(lane: Lane) -> Link {
    let (mut link, mut peer) = (Link::new(lane), Link::new(lane));
    link.handle_connected(NOW);
    peer.handle_connected(NOW);
    let mut resume = Vec::new();
    peer.poll_output(NOW, 65_536, &mut resume);
    link.handle_bytes(NOW, &resume).expect("a link understands its own kind");
    for class in lane.classes() {
        let message = Message { kind: 1, epoch: Epoch(1), shard: 0, body: Bytes::from_static(b"out") };
        link.send(NOW, *class, message).expect("room for one");
    }
    link.poll_output(NOW, 65_536, &mut resume);
    link
}
