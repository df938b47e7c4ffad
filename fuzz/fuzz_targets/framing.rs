//! Any bytes as a stream, cut into reads anywhere: the cuts change nothing, and framing and message agree on
//! where a message ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sip::wire::Message;
use sip::wire::framing::{Frame, FrameFault, Framer};

fuzz_target!(|data: &[u8]| {
    let Some((&seed, stream)) = data.split_first() else { return };
    let whole = frames(stream, stream.len().max(1));
    let pieces = frames(stream, usize::from(seed % 16) + 1);
    assert_eq!(whole, pieces);
    for frame in whole {
        let Ok(Frame::Message(bytes)) = frame else { continue };
        if let Ok(message) = Message::parse(bytes.clone()) {
            assert_eq!(message.bytes(), &bytes, "one message, nothing after it");
        }
    }
});

fn frames(stream: &[u8], step: usize) -> Vec<Result<Frame, FrameFault>> {
    let mut framer = Framer::new();
    let mut out = Vec::new();
    for piece in stream.chunks(step) {
        framer.push(piece);
        while let Some(frame) = framer.next() {
            out.push(frame);
        }
    }
    out
}
