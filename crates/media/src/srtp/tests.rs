//! Packets there and back, and every way in which they are refused.

use proptest::prelude::*;

use super::*;
use crate::rtp::{Header, Packet};

const KEY: [u8; KEY_LEN] = *b"0123456789abcdefABCDEFGHIJKLMN";
const LONG_KEY: [u8; MAX_KEY_LEN] = *b"0123456789abcdefABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%";

fn packet(sequence: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Header { sequence, ssrc: 7, ..Header::default() }.write(payload, &mut bytes);
    bytes
}

#[test]
fn every_suite_comes_back() {
    for (suite, added) in Suite::ALL.into_iter().zip([10, 4].into_iter().cycle()) {
        let key = &LONG_KEY[..suite.key_len()];
        let (mut sender, mut receiver) = (Context::new(suite, key), Context::new(suite, key));
        let plain = packet(1, b"a payload of more than one block");
        let mut sent = plain.clone();
        sender.protect_rtp(&mut sent).unwrap();
        assert_eq!(sent.len(), plain.len() + added);
        assert_eq!(sent[..12], plain[..12]);
        assert_eq!(sent[12..plain.len()] == plain[12..], !suite.encrypts(), "{suite:?}");
        receiver.unprotect_rtp(&mut sent).unwrap();
        assert_eq!(sent, plain);
        assert_eq!(Suite::from_name(suite.name()), Some(suite));
    }
}

/// A line with an array for its key speaks the suites of that length only, whatever the key's real length.
#[test]
fn a_line_takes_keys_of_the_length_of_its_suite() {
    use base64::Engine as _;
    let line = |suite: &str, length: usize| {
        let key = base64::engine::general_purpose::STANDARD.encode(&LONG_KEY[..length]);
        format!("1 {suite} inline:{key}")
    };
    let long = line("AES_256_CM_HMAC_SHA1_80", 46);
    let parsed: CryptoLine<Vec<u8>> = CryptoLine::parse(&long).expect("a line");
    assert_eq!((parsed.key.as_slice(), parsed.to_string()), (&LONG_KEY[..], format!("crypto:{long}")));
    assert_eq!(CryptoLine::<[u8; KEY_LEN]>::parse(&long), None);
    for (suite, length) in
        [("AES_256_CM_HMAC_SHA1_80", 30), ("AES_192_CM_HMAC_SHA1_32", 46), ("NULL_HMAC_SHA1_80", 38)]
    {
        assert_eq!(CryptoLine::<Vec<u8>>::parse(&line(suite, length)), None, "{suite} {length}");
        assert_eq!(CryptoLine::<[u8; KEY_LEN]>::parse(&line(suite, length)), None, "{suite} {length}");
    }
}

/// RFC 3711 §3.3.1: the roll-over counter is not in the packet and takes part in its tag.
#[test]
fn the_roll_over_is_followed_and_needed() {
    let mut sender = Context::new(Suite::AesCm128Sha1_80, &KEY);
    let mut receiver = Context::new(Suite::AesCm128Sha1_80, &KEY);
    let mut after = Vec::new();
    for sequence in [65_534, 65_535, 0, 1] {
        let mut sent = packet(sequence, b"x");
        sender.protect_rtp(&mut sent).unwrap();
        after = sent.clone();
        assert_eq!(receiver.unprotect_rtp(&mut sent), Ok(()), "{sequence}");
    }
    // A receiver that joins now counts from 0 and cannot know the rollover counter.
    let mut late = Context::new(Suite::AesCm128Sha1_80, &KEY);
    assert_eq!(late.unprotect_rtp(&mut after), Err(Error::Tag));
}

#[test]
fn changed_replayed_and_short_packets_are_refused_and_left_unchanged() {
    let mut sender = Context::new(Suite::AesCm128Sha1_80, &KEY);
    let mut receiver = Context::new(Suite::AesCm128Sha1_80, &KEY);
    let mut sent = packet(5, b"payload");
    sender.protect_rtp(&mut sent).unwrap();
    for at in 0..sent.len() {
        let mut changed = sent.clone();
        changed[at] ^= 1;
        let before = changed.clone();
        assert!(receiver.unprotect_rtp(&mut changed).is_err(), "byte {at}");
        assert_eq!(changed, before);
    }
    let mut again = sent.clone();
    receiver.unprotect_rtp(&mut sent).unwrap();
    assert_eq!(receiver.unprotect_rtp(&mut again), Err(Error::Replayed));
    assert_eq!(receiver.unprotect_rtp(&mut vec![0x80; 21]), Err(Error::Short));
    assert_eq!(receiver.unprotect_rtp(&mut Vec::new()), Err(Error::Short));
    assert_eq!(sender.protect_rtp(&mut vec![0x80; 11]), Err(Error::Short));
}

#[test]
fn rtcp_comes_back_and_is_refused_twice() {
    for suite in Suite::ALL {
        let (mut sender, mut receiver) = (Context::new(suite, &KEY), Context::new(suite, &KEY));
        let mut plain = Vec::new();
        let report = crate::rtcp::Report::Receiver { ssrc: 7, blocks: Vec::new() };
        crate::rtcp::write(&[report], "someone", &mut plain);
        for index in 1..4_u8 {
            let mut sent = plain.clone();
            sender.protect_rtcp(&mut sent).unwrap();
            assert_eq!(sent.len(), plain.len() + 14);
            let field = [if suite.encrypts() { 0x80 } else { 0 }, 0, 0, index];
            assert_eq!(sent[plain.len()..plain.len() + 4], field);
            let (mut again, mut changed) = (sent.clone(), sent.clone());
            changed[9] ^= 1;
            assert_eq!(receiver.unprotect_rtcp(&mut changed), Err(Error::Tag));
            receiver.unprotect_rtcp(&mut sent).unwrap();
            assert_eq!(sent, plain);
            assert_eq!(receiver.unprotect_rtcp(&mut again), Err(Error::Replayed));
        }
        assert_eq!(receiver.unprotect_rtcp(&mut vec![0x80; 21]), Err(Error::Short));
    }
}

#[test]
fn unauthentic_sources_do_not_fill_the_context() {
    let mut receiver = Context::new(Suite::NullSha1_32, &KEY);
    for ssrc in 0..1000_u32 {
        let mut forged = packet(1, b"0123");
        forged[8..12].copy_from_slice(&ssrc.to_be_bytes());
        assert_eq!(receiver.unprotect_rtp(&mut forged), Err(Error::Tag));
    }
    assert!(receiver.sources.is_empty());
    let mut sender = Context::new(Suite::NullSha1_32, &KEY);
    let last = (0..=MAX_SOURCES as u32).map(|ssrc| {
        let mut own = packet(1, b"");
        own[8..12].copy_from_slice(&ssrc.to_be_bytes());
        sender.protect_rtp(&mut own)
    });
    assert_eq!(last.last(), Some(Err(Error::Sources)));
}

#[test]
fn crypto_lines_are_read_and_written() {
    // RFC 4568 §6.1.
    let line = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj|2^20\r\n";
    let read = <CryptoLine>::parse(line).unwrap();
    assert_eq!((read.tag, read.suite, read.unencrypted), (1, Suite::AesCm128Sha1_80, false));
    assert_eq!(read.key, *b"wDfvg&T+)xG7@fb5jU,RaA}\\|p0%*#");
    assert_eq!(
        read.to_string(),
        "crypto:1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj"
    );
    let plain = CryptoLine { unencrypted: true, ..read };
    assert_eq!(<CryptoLine>::parse(&plain.to_string()), Some(plain));
    let mut sent = packet(1, b"as it is");
    plain.context().protect_rtp(&mut sent).unwrap();
    assert_eq!(Packet::parse(&sent[..20]).unwrap().payload(), b"as it is");
    for wrong in [
        "",
        "1",
        "x AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj",
        "1 AES_256_CM_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj",
        "1 AES_CM_128_HMAC_SHA1_80 uri:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj",
        "1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSo=",
        "1 AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj|1:32",
    ] {
        assert_eq!(<CryptoLine>::parse(wrong), None, "{wrong}");
    }
}

proptest! {
    /// Loss and reordering within the window keep both ends on one index.
    #[test]
    fn a_lossy_path_keeps_in_step(start: u16, steps in prop::collection::vec(1_u16..300, 1..60)) {
        let mut sender = Context::new(Suite::AesCm128Sha1_32, &KEY);
        let mut receiver = Context::new(Suite::AesCm128Sha1_32, &KEY);
        let mut sequence = start;
        for step in steps {
            let plain = packet(sequence, &sequence.to_be_bytes());
            let mut sent = plain.clone();
            sender.protect_rtp(&mut sent).unwrap();
            prop_assert_eq!(receiver.unprotect_rtp(&mut sent), Ok(()));
            prop_assert_eq!(sent, plain);
            sequence = sequence.wrapping_add(step);
        }
    }

    #[test]
    fn any_bytes_are_refused(bytes: Vec<u8>) {
        let mut context = Context::new(Suite::AesCm128Sha1_80, &KEY);
        prop_assert!(context.unprotect_rtp(&mut bytes.clone()).is_err());
        prop_assert!(context.unprotect_rtcp(&mut bytes.clone()).is_err());
    }
}
