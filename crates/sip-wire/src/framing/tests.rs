use proptest::prelude::*;

use super::*;

fn all(framer: &mut Framer) -> Vec<Result<Frame, FrameFault>> {
    std::iter::from_fn(|| framer.next()).collect()
}

fn frames(stream: &[u8]) -> Vec<Result<Frame, FrameFault>> {
    let mut framer = Framer::new();
    framer.push(stream);
    all(&mut framer)
}

fn message(bytes: &'static [u8]) -> Result<Frame, FrameFault> {
    Ok(Frame::Message(Bytes::from_static(bytes)))
}

fn fault_kind(stream: &[u8]) -> FrameFaultKind {
    frames(stream).pop().expect("something").expect_err("a fault").kind
}

#[test]
fn two_messages_in_one_read_are_two_frames() {
    let stream = b"A\r\nContent-Length: 2\r\n\r\nhiB\r\nl: 0\r\n\r\n";
    assert_eq!(frames(stream), [message(b"A\r\nContent-Length: 2\r\n\r\nhi"), message(b"B\r\nl: 0\r\n\r\n")]);
}

#[test]
fn names_are_case_insensitive_may_be_compact_padded_and_folded() {
    for head in ["cOnTeNt-LeNgTh:2", "L  : 2", "l:\r\n 2", "Content-Length\t:\r\n\t \r\n 2  "] {
        let stream = format!("A\r\nX: y\r\n{head}\r\n\r\nhi");
        assert_eq!(frames(stream.as_bytes()), [Ok(Frame::Message(Bytes::from(stream.clone())))], "{head}");
    }
}

#[test]
fn a_continuation_line_is_not_a_header() {
    assert_eq!(
        fault_kind(b"A\r\nSubject: x\r\n Content-Length: 2\r\n\r\nhi"),
        FrameFaultKind::ContentLengthMissing
    );
}

#[test]
fn keep_alives_stand_between_messages() {
    let stream = b"\r\n\r\n\r\nA\r\nl:0\r\n\r\n\r\n\r\n\r\n\r\n";
    assert_eq!(
        frames(stream),
        [Ok(Frame::Ping), Ok(Frame::Pong), message(b"A\r\nl:0\r\n\r\n"), Ok(Frame::Ping), Ok(Frame::Ping)]
    );
}

#[test]
fn faults_know_their_reply() {
    let cases: [(&[u8], FrameFaultKind, Option<u16>); 6] = [
        (b"A\r\nX: y\r\n\r\n", FrameFaultKind::ContentLengthMissing, Some(400)),
        (b"A\r\nl: -1\r\n\r\n", FrameFaultKind::ContentLengthInvalid, Some(400)),
        (b"A\r\nl:\r\n\r\n", FrameFaultKind::ContentLengthInvalid, Some(400)),
        (b"A\r\nl: 1\r\nContent-Length: 2\r\n\r\n", FrameFaultKind::ContentLengthConflicting, Some(400)),
        (b"A\r\nl: 262145\r\n\r\n", FrameFaultKind::BodyTooLarge, Some(413)),
        (b"A\r\nl: 99999999999999999999999999\r\n\r\n", FrameFaultKind::BodyTooLarge, Some(413)),
    ];
    for (stream, kind, status) in cases {
        let fault = frames(stream).pop().expect("something").expect_err("a fault");
        assert_eq!((fault.kind, fault.reply().map(|(status, _)| status)), (kind, status));
        assert_eq!(fault.head, stream);
    }
}

#[test]
fn the_same_length_twice_is_tolerated() {
    assert_eq!(frames(b"A\r\nl: 1\r\nl: 01\r\n\r\nx"), [message(b"A\r\nl: 1\r\nl: 01\r\n\r\nx")]);
}

#[test]
fn an_endless_head_is_cut_at_the_limit_and_the_framer_stays_dead() {
    let mut framer = Framer::new();
    let mut faults = 0;
    for _ in 0..100 {
        framer.push(&[b'x'; 4096]);
        faults += all(&mut framer).len();
        assert!(framer.capacity() <= 2 * MAX_STREAM_HEAD);
    }
    assert_eq!(faults, 1);
    assert_eq!(framer.capacity(), 0);
}

#[test]
fn a_head_of_exactly_the_limit_passes() {
    let mut head = b"A\r\nl: 0\r\nX: ".to_vec();
    head.resize(MAX_STREAM_HEAD - 4, b'x');
    head.extend_from_slice(b"\r\n\r\n");
    assert_eq!(frames(&head), [Ok(Frame::Message(Bytes::from(head.clone())))]);
}

#[test]
fn memory_is_given_back_between_messages() {
    let mut framer = Framer::new();
    framer.push(b"A\r\nl: 3\r\n\r\nab");
    assert!(framer.next().is_none() && framer.capacity() > 0);
    framer.push(b"c\r\n");
    assert_eq!(all(&mut framer), [message(b"A\r\nl: 3\r\n\r\nabc")]);
    assert_eq!(framer.capacity(), 0);
    assert!(framer.is_between_messages());
}

/// Each read ends within a message, as with a peer that sends without a pause.
#[test]
fn memory_of_messages_that_were_handed_out_is_given_back_within_the_next_one() {
    let message = b"A\r\nX: 1234567890\r\nl: 3\r\n\r\nabc";
    for cut in 1..message.len() {
        let (begin, rest) = message.split_at(cut);
        let mut framer = Framer::new();
        framer.push(begin);
        assert!(framer.next().is_none());
        for _ in 0..1_000 {
            framer.push(rest);
            framer.push(begin);
            assert_eq!(all(&mut framer), [Ok(Frame::Message(Bytes::from_static(message)))]);
            assert!(framer.capacity() < 4096, "{cut}: {}", framer.capacity());
        }
    }
}

#[test]
fn a_body_behind_another_message_grows_once() {
    let mut framer = Framer::new();
    framer.push(b"A\r\nl: 0\r\n\r\nB\r\nl: 100000\r\n\r\n");
    assert_eq!(all(&mut framer), [message(b"A\r\nl: 0\r\n\r\n")]);
    let whole = b"B\r\nl: 100000\r\n\r\n".len() + 100_000;
    for piece in 0..1_000 {
        assert_eq!(framer.capacity(), whole, "{piece}");
        framer.push(&[b'x'; 100]);
        let is_message = matches!(all(&mut framer)[..], [Ok(Frame::Message(_))]);
        assert_eq!(is_message, piece == 999);
    }
    assert_eq!(framer.capacity(), 0);
}

/// Streams of well-formed messages, keep-alives and, sometimes, a broken end.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let body = proptest::collection::vec(any::<u8>(), 0..40);
    let message = body.prop_map(|body| {
        let mut message =
            format!("OPTIONS a SIP/2.0\r\nX: y\r\n z\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        message.extend_from_slice(&body);
        message
    });
    let piece = prop_oneof![
        4 => message,
        1 => Just(b"\r\n\r\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        1 => Just(b"\n\r\r\n".to_vec()),
        1 => Just(b"BAD\r\n\r\n".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_frames(stream in streams(), cuts in proptest::collection::vec(1usize..30, 1..50)) {
        let mut framer = Framer::new();
        let mut split = Vec::new();
        let mut rest = stream.as_slice();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            framer.push(piece);
            split.extend(all(&mut framer));
            rest = after;
        }
        prop_assert_eq!(split, frames(&stream));
    }

    #[test]
    fn any_bytes_are_survived(stream in proptest::collection::vec(any::<u8>(), 0..300)) {
        frames(&stream);
    }
}
