//! Handshakes that succeed, and each reason for which one does not.

use cluster::Life;
use cluster::link::{Established, FarmSecret, Handshake, LinkFault};
use proptest::prelude::*;

use crate::pair::{acceptor, at, dialer, hello, secret};

type Result2 = (Result<Option<Established>, LinkFault>, Result<Option<Established>, LinkFault>);

/// Moves bytes in pieces until both have a result or one has a fault.
fn run(mut dialer: Handshake, mut acceptor: Handshake, step: usize) -> Result2 {
    let (mut dialed, mut accepted) = (Ok(None), Ok(None));
    for _ in 0..4 {
        pass(&mut dialer, &mut acceptor, step, &mut accepted);
        pass(&mut acceptor, &mut dialer, step, &mut dialed);
    }
    (dialed, accepted)
}

fn pass(
    from: &mut Handshake,
    to: &mut Handshake,
    step: usize,
    result: &mut Result<Option<Established>, LinkFault>,
) {
    let mut bytes = Vec::new();
    from.poll_output(&mut bytes);
    for piece in bytes.chunks(step) {
        if matches!(result, Ok(None)) {
            *result = to.handle_bytes(piece);
        }
    }
}

#[test]
fn both_ends_prove_themselves() {
    let (dialed, accepted) = run(dialer(), acceptor(), 4_096);
    assert_eq!(dialed.unwrap().unwrap().peer.life, Life(4));
    let accepted = accepted.unwrap().unwrap();
    assert_eq!((accepted.peer.life, accepted.version), (Life(9), 1));
}

#[test]
fn a_peer_without_the_secret_is_refused_and_learns_no_proof() {
    let stranger = Handshake::dial(at(0), hello(9, Some(4), 1), FarmSecret::new([0; 32]));
    let (dialed, accepted) = run(stranger, acceptor(), 4_096);
    assert_eq!(accepted, Err(LinkFault::Proof));
    assert_eq!(dialed, Ok(None));
    let stranger = Handshake::accept(at(0), hello(4, None, 2), FarmSecret::new([0; 32]));
    assert_eq!(run(dialer(), stranger, 4_096).1, Err(LinkFault::Proof));
}

#[test]
fn a_proof_of_another_encrypted_connection_is_refused() {
    let (dialed, accepted) = run(dialer().bound_to([1; 32]), acceptor().bound_to([1; 32]), 4_096);
    assert!(matches!((dialed, accepted), (Ok(Some(_)), Ok(Some(_)))));
    let (_, accepted) = run(dialer().bound_to([1; 32]), acceptor().bound_to([2; 32]), 4_096);
    assert_eq!(accepted, Err(LinkFault::Proof));
    assert_eq!(run(dialer(), acceptor().bound_to([2; 32]), 4_096).1, Err(LinkFault::Proof));
}

#[test]
fn keys_expanded_from_the_secret_differ_by_purpose() {
    assert_eq!(secret().expand("a"), secret().expand("a"));
    assert_ne!(secret().expand("a"), secret().expand("b"));
    assert_ne!(secret().expand("a"), FarmSecret::new([0; 32]).expand("a"));
}

#[test]
fn a_proof_does_not_serve_a_second_time_or_in_the_other_direction() {
    // The bytes of one dialer, against another nonce of the acceptor.
    let (mut first, mut accepting) = (dialer(), acceptor());
    let (mut sent, mut answer) = (Vec::new(), Vec::new());
    first.poll_output(&mut sent);
    accepting.handle_bytes(&sent).unwrap();
    accepting.poll_output(&mut answer);
    first.handle_bytes(&answer).unwrap();
    first.poll_output(&mut sent);
    let mut other = Handshake::accept(at(0), hello(4, None, 77), secret());
    assert_eq!(other.handle_bytes(&sent), Err(LinkFault::Proof));
    assert!(accepting.handle_bytes(&sent[sent.len() - 37..]).unwrap().is_some());
}

#[test]
fn refusals_name_their_reason() {
    let dial = |change: fn(&mut cluster::link::Hello)| {
        let mut own = hello(9, Some(4), 1);
        change(&mut own);
        run(Handshake::dial(at(0), own, secret()), acceptor(), 4_096).1.unwrap_err()
    };
    assert_eq!(dial(|own| own.farm = "other".into()), LinkFault::OtherFarm("other".into()));
    assert_eq!(dial(|own| own.wire = (2, 3)), LinkFault::WireRange { least: 2, most: 3 });
    let other = LinkFault::OtherLife { expected: Some(Life(4)), found: Some(Life(5)) };
    assert_eq!(dial(|own| own.peer = Some(Life(5))), other);
    // A newer node speaks our version too.
    let newer =
        Handshake::dial(at(0), cluster::link::Hello { wire: (1, 2), ..hello(9, Some(4), 1) }, secret());
    assert_eq!(run(newer, acceptor(), 4_096).0.unwrap().unwrap().version, 1);
}

#[test]
fn a_silent_peer_has_its_time() {
    let mut handshake = acceptor();
    assert_eq!(handshake.expire(at(2_999)), Ok(()));
    assert_eq!(handshake.expire(at(3_000)), Err(LinkFault::HandshakeTimeout));
}

#[test]
fn a_stranger_gets_the_room_of_one_hello() {
    assert_eq!(acceptor().handle_bytes(&[0, 1, 0, 0]), Err(LinkFault::HelloTooLong { bytes: 65_536 }));
    assert!(matches!(acceptor().handle_bytes(&[0; 3_000]), Err(LinkFault::HelloTooLong { .. })));
}

proptest! {
    #[test]
    fn the_cut_of_the_bytes_changes_nothing(step in 1..200_usize) {
        let (dialed, accepted) = run(dialer(), acceptor(), step);
        prop_assert!(dialed.unwrap().is_some() && accepted.unwrap().is_some());
    }

    #[test]
    fn any_bytes_are_an_answer_or_a_fault(bytes: Vec<u8>, step in 1..50_usize) {
        for mut handshake in [dialer(), acceptor()] {
            for piece in bytes.chunks(step) {
                match handshake.handle_bytes(piece) {
                    Ok(result) => prop_assert_eq!(result, None),
                    Err(_) => break,
                }
            }
        }
    }

    #[test]
    fn a_changed_byte_is_a_fault_or_no_result(place in 0..150_usize, value in 1..=255_u8) {
        let (mut dialing, mut accepting) = (dialer(), acceptor());
        let (mut hello, mut answer) = (Vec::new(), Vec::new());
        dialing.poll_output(&mut hello);
        let place = place % hello.len();
        hello[place] ^= value;
        if accepting.handle_bytes(&hello).is_ok() {
            accepting.poll_output(&mut answer);
            let mut proof = Vec::new();
            let _ = dialing.handle_bytes(&answer);
            dialing.poll_output(&mut proof);
            prop_assert!(!matches!(accepting.handle_bytes(&proof), Ok(Some(_))));
        }
    }
}
