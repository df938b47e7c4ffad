//! Session descriptions: every text is one or an error, and an answer to it can be read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use media::codec::Codec;
use media::sdp::{self, Description, Direction, Local, SrtpPolicy};

fuzz_target!(|body: &[u8]| {
    let Ok(offer) = Description::parse(body) else { return };
    let local = Local {
        ip: [127, 0, 0, 1].into(),
        port: 4_000,
        session_id: 1,
        codecs: &[Codec::Pcma, Codec::Opus],
        direction: Direction::SendRecv,
        srtp: SrtpPolicy::IfOffered,
        key: [1; 30],
    };
    if let Ok(answer) = sdp::answer(&offer, &local) {
        let text = answer.description.to_string();
        let read = Description::parse(text.as_bytes()).expect("an answer is a description");
        assert_eq!(read.media.len(), offer.media.len());
        assert!(read.audio().is_some());
    }
    let mine = sdp::offer(&local);
    let _ = sdp::accept(&mine, &offer, &local);
});
