//! Captures: every file is a capture inside its own bytes or an error inside the file.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    match media::pcap::Capture::parse(file) {
        Ok(capture) => {
            for (_, payload) in capture.iter() {
                let _ = media::rtp::Packet::parse(payload);
            }
            assert!(capture.bytes.len() <= file.len());
        }
        Err(error) => assert!(error.position <= file.len()),
    }
});
