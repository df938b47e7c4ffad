//! Offers of phones and of the RFCs, their answers, and unreadable ones.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const CODECS: [Codec; 4] = [Codec::Pcma, Codec::Pcmu, Codec::G722, Codec::Opus];

fn local(codecs: &[Codec]) -> Local<'_> {
    Local {
        ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 30_000,
        session_id: 77,
        codecs,
        direction: Direction::SendRecv,
        srtp: SrtpPolicy::IfOffered,
        key: [7; 30],
    }
}

fn parse(text: &str) -> Description {
    Description::parse(text.as_bytes()).unwrap()
}

fn answered(text: &str) -> SdpAnswer {
    answer(&parse(text), &local(&CODECS)).unwrap()
}

/// The scenario of RestComm's load test: events in the rtpmap, not in the m-line.
const SIPP: &str = "v=0\r\no=user1 53655765 2353687637 IN IP4 127.0.0.2\r\ns=-\r\nc=IN IP4 127.0.0.2\r\nt=0 0\r\n\
    m=audio 6000 RTP/AVP 8\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-11,16\r\n";

const BARESIP: &str = "v=0\r\no=- 1196043838 1529391562 IN IP4 192.0.2.5\r\ns=-\r\nc=IN IP4 192.0.2.5\r\nt=0 0\r\n\
    a=tool:baresip 1.0.0\r\nm=audio 10838 RTP/AVP 96 9 0 8 101\r\na=rtpmap:96 opus/48000/2\r\n\
    a=fmtp:96 stereo=1;sprop-stereo=1\r\na=rtpmap:9 G722/8000\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-15\r\na=rtcp:10839\r\na=rtcp-mux\r\na=sendrecv\r\na=label:1\r\n\
    a=ssrc:2083346735 cname:sip:a@b\r\na=ptime:20\r\n";

const LINPHONE: &str = "v=0\no=alice 2890 1917 IN IP6 2001:db8::1\ns=Talk\nc=IN IP6 2001:db8::1\nt=0 0\n\
    a=ice-pwd:6f5f2c6c8b\na=ice-ufrag:2b7b1c\na=rtcp-xr:rcvr-rtt=all:10000 stat-summary=loss,dup,jitt,TTL voip-metrics\n\
    m=audio 7078 RTP/AVPF 96 97 98 0 8 18 101 99 100\na=rtpmap:96 opus/48000/2\na=fmtp:96 useinbandfec=1\n\
    a=rtpmap:97 speex/16000\na=rtpmap:98 speex/8000\na=rtpmap:101 telephone-event/48000\n\
    a=rtpmap:99 telephone-event/16000\na=rtpmap:100 telephone-event/8000\n\
    a=candidate:1 1 UDP 2130706303 2001:db8::1 7078 typ host\na=rtcp-fb:* trr-int 1000\n\
    m=video 9078 RTP/AVPF 96\na=rtpmap:96 VP8/90000\nm=image 4000 udptl t38\n";

#[test]
fn events_are_taken_from_their_rtpmap_alone() {
    let SdpAnswer { description, negotiated } = answered(SIPP);
    assert_eq!((negotiated.audio.codec, negotiated.audio.number), (Codec::Pcma, 8));
    assert_eq!(negotiated.events.map(|one| (one.number, one.clock_rate)), Some((101, 8_000)));
    assert_eq!(negotiated.receive_events.len(), 1);
    assert_eq!(negotiated.remote, Some("127.0.0.2:6000".parse().unwrap()));
    assert_eq!(negotiated.remote_rtcp, Some("127.0.0.2:6001".parse().unwrap()));
    let expected = "v=0\r\no=- 77 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
        m=audio 30000 RTP/AVP 8 101\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
        a=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";
    assert_eq!(description.to_string(), expected);
}

#[test]
fn the_offers_first_codec_that_is_spoken_is_taken() {
    let SdpAnswer { description, negotiated } = answered(BARESIP);
    assert_eq!((negotiated.audio.codec, negotiated.audio.number), (Codec::Opus, 96));
    assert_eq!(negotiated.receive.iter().map(|one| one.number).collect::<Vec<_>>(), [96, 9, 0, 8]);
    assert!(negotiated.rtcp_mux && description.to_string().contains("a=rtcp-mux\r\n"));
    assert_eq!(negotiated.remote_rtcp, negotiated.remote);
    // Its only events count another clock than the sound.
    assert_eq!(negotiated.events.map(|one| one.clock_rate), Some(8_000));
    let narrow = answer(&parse(BARESIP), &local(&[Codec::Pcmu])).unwrap().negotiated;
    assert_eq!((narrow.audio.number, narrow.receive.len()), (0, 1));
}

/// Events have the clock rate of the sound in their stream; refused streams have port 0 (RFC 3264 §6).
#[test]
fn events_count_the_clock_of_the_sound_and_other_streams_are_refused() {
    let SdpAnswer { description, negotiated } = answered(LINPHONE);
    assert_eq!(negotiated.events.map(|one| (one.number, one.clock_rate)), Some((101, 48_000)));
    assert_eq!(negotiated.receive_events.len(), 3);
    assert_eq!(negotiated.remote, Some("[2001:db8::1]:7078".parse().unwrap()));
    let text = description.to_string();
    assert!(text.contains("m=audio 30000 RTP/AVPF 96 101\r\n"), "{text}");
    assert!(text.ends_with("m=video 0 RTP/AVPF 96\r\nm=image 0 udptl t38\r\n"), "{text}");
    let narrow = answer(&parse(LINPHONE), &local(&[Codec::Pcmu])).unwrap().negotiated;
    assert_eq!(narrow.events.map(|one| one.number), Some(100));
}

/// RFC 4317 §2: one stream of audio with several codecs.
#[test]
fn the_examples_of_rfc_4317_negotiate() {
    // §2.1: of audio and video the audio, PCMU as the first of three.
    let alice = "v=0\r\no=alice 2890844526 2890844526 IN IP4 host.atlanta.example.com\r\ns=\r\n\
        c=IN IP4 host.atlanta.example.com\r\nt=0 0\r\nm=audio 49170 RTP/AVP 0 8 97\r\na=rtpmap:0 PCMU/8000\r\n\
        a=rtpmap:8 PCMA/8000\r\na=rtpmap:97 iLBC/8000\r\nm=video 51372 RTP/AVP 31 32\r\na=rtpmap:31 H261/90000\r\n\
        a=rtpmap:32 MPV/90000\r\n";
    let answer = answered(alice);
    assert_eq!(answer.negotiated.audio.codec, Codec::Pcmu);
    // A name is not looked up.
    assert_eq!((answer.negotiated.remote, answer.negotiated.events), (None, None));
    assert_eq!(parse(alice).connection, Some(Host::Name("host.atlanta.example.com".to_owned())));
    // §2.4: of two streams of sound one, the other refused.
    let two = alice.replace("m=video 51372 RTP/AVP 31 32", "m=audio 49172 RTP/AVP 97");
    assert!(answered(&two).description.to_string().ends_with("m=audio 0 RTP/AVP 97\r\n"));
    // §3.1: hold, and back.
    let held = alice.replace("a=rtpmap:0 ", "a=sendonly\r\na=rtpmap:0 ");
    let hold = answered(&held);
    assert!(hold.negotiated.held && hold.description.to_string().contains("a=recvonly\r\n"));
    assert!(!answer.negotiated.held);
}

/// RFC 3264 §8.4 has `sendonly` and `inactive`, RFC 2543 had 0.0.0.0; either side may hold.
#[test]
fn hold_has_four_forms() {
    let form = |attribute: &str, address: &str| {
        let text = SIPP.replace("c=IN IP4 127.0.0.2", &format!("c=IN IP4 {address}"));
        let negotiated = answered(&format!("{text}a={attribute}\r\n")).negotiated;
        (negotiated.direction, negotiated.held, negotiated.remote.is_some())
    };
    assert_eq!(form("sendrecv", "127.0.0.2"), (Direction::SendRecv, false, true));
    assert_eq!(form("sendonly", "127.0.0.2"), (Direction::RecvOnly, true, true));
    assert_eq!(form("inactive", "127.0.0.2"), (Direction::Inactive, true, true));
    assert_eq!(form("recvonly", "127.0.0.2"), (Direction::SendOnly, false, true));
    assert_eq!(form("sendrecv", "0.0.0.0"), (Direction::RecvOnly, true, false));
    // One line for all streams, before the first of them.
    let session = SIPP.replace("t=0 0\r\n", "t=0 0\r\na=inactive\r\n");
    assert!(parse(&session).is_held());
    // This side holds, too.
    let mine = Local { direction: Direction::SendOnly, ..local(&CODECS) };
    let both = answer(&parse(SIPP), &mine).unwrap().negotiated;
    assert_eq!((both.direction, both.held), (Direction::SendOnly, false));
}

#[test]
fn packet_times_are_whole_frames_within_the_maximum() {
    let ptime = |lines: &str| answered(&format!("{SIPP}{lines}")).negotiated.ptime_ms;
    assert_eq!(ptime(""), 20);
    assert_eq!(ptime("a=ptime:40\r\n"), 40);
    assert_eq!(ptime("a=ptime:30\r\n"), 20);
    assert_eq!(ptime("a=ptime:60\r\na=maxptime:40\r\n"), 40);
    assert_eq!(ptime("a=ptime:10\r\n"), 20);
    assert_eq!(ptime("a=ptime:200\r\n"), 60);
    assert_eq!(ptime("a=ptime:0\r\n"), 20);
}

const CRYPTO: &str = "a=crypto:1 AES_CM_256_HMAC_SHA1_80 inline:xx\r\n\
    a=crypto:2 AES_CM_128_HMAC_SHA1_32 inline:NzB4d1BINUAvLEw6UzF3WSJ+PSdFcGdUJShpX1Zj|2^20|1:32\r\n\
    a=crypto:3 AES_CM_128_HMAC_SHA1_32 inline:NzB4d1BINUAvLEw6UzF3WSJ+PSdFcGdUJShpX1Zj\r\n";

#[test]
fn keys_are_chosen_among_those_offered() {
    let secure = format!("{}{CRYPTO}", SIPP.replace("RTP/AVP", "RTP/SAVP"));
    let SdpAnswer { description, negotiated } = answered(&secure);
    let (send, receive) = negotiated.srtp.unwrap();
    assert_eq!((send.tag, send.key, receive.tag), (3, [7; 30], 3));
    assert_ne!(receive.key, send.key);
    assert!(description.to_string().contains("a=crypto:3 AES_CM_128_HMAC_SHA1_32 inline:BwcH"));
    let with = |text: &str, srtp| {
        answer(&parse(text), &Local { srtp, ..local(&CODECS) }).map(|one| one.negotiated.srtp.is_some())
    };
    assert_eq!(with(SIPP, SrtpPolicy::IfOffered), Ok(false));
    assert_eq!(with(SIPP, SrtpPolicy::Required), Err(Refusal::Srtp));
    assert_eq!(with(&secure, SrtpPolicy::Required), Ok(true));
    assert_eq!(with(&secure, SrtpPolicy::Never), Err(Refusal::Srtp));
    // COMPAT(phones): keys under the plain profile.
    let plain = format!("{SIPP}{CRYPTO}");
    assert_eq!((with(&plain, SrtpPolicy::Never), with(&plain, SrtpPolicy::IfOffered)), (Ok(false), Ok(true)));
    assert_eq!(with(&SIPP.replace("RTP/AVP", "RTP/SAVP"), SrtpPolicy::IfOffered), Err(Refusal::Srtp));
}

#[test]
fn refused_offers_give_the_reason() {
    let refusal_of = |text: &str| {
        let refusal = answer(&parse(text), &local(&CODECS)).unwrap_err();
        (refusal.warning(), refusal.to_string())
    };
    let (code, text) = refusal_of(&SIPP.replace("RTP/AVP 8", "RTP/AVP 18 4"));
    assert_eq!((code, text.as_str()), (305, "expected PCMU, PCMA, G722 or opus as allowed here, found 18 4"));
    let (code, text) = refusal_of(&SIPP.replace("RTP/AVP", "UDP/TLS/RTP/SAVPF"));
    assert_eq!((code, text.as_str()), (302, "expected RTP/AVP or RTP/SAVP, found UDP/TLS/RTP/SAVPF"));
    assert_eq!(refusal_of(&SIPP.replace("audio 6000", "audio 0")).0, 304);
    assert_eq!(refusal_of(&SIPP.replace("audio 6000", "video 6000")).0, 304);
    assert_eq!(refusal_of("v=0\r\n").0, 304);
}

#[test]
fn an_offer_is_answered_by_its_peer_and_accepted() {
    for codec in CODECS {
        for srtp in [SrtpPolicy::IfOffered, SrtpPolicy::Required] {
            let caller = Local { srtp, ..local(&CODECS) };
            let offered = offer(&caller);
            let only = [codec];
            let callee = Local { port: 40_000, key: [9; 30], ..local(&only) };
            let answer = answer(&parse(&offered.to_string()), &callee).unwrap();
            let ours = accept(&offered, &parse(&answer.description.to_string()), &caller).unwrap();
            let theirs = answer.negotiated;
            assert_eq!((ours.audio, ours.audio.codec), (theirs.audio, codec));
            assert_eq!((ours.events, ours.rtcp_mux), (theirs.events, true));
            assert_eq!(ours.srtp, theirs.srtp.map(|(send, receive)| (receive, send)));
            assert_eq!(ours.srtp.is_some(), srtp == SrtpPolicy::Required);
            assert_eq!((ours.remote.unwrap().port(), theirs.remote.unwrap().port()), (40_000, 30_000));
            assert_eq!(ours.receive.len(), 4);
        }
    }
}

/// RFC 3264 §6: an answer has a stream for each of the offer, of the same media type.
#[test]
fn answers_that_do_not_fit_are_refused() {
    let caller = local(&CODECS);
    let offered = offer(&caller);
    let with = |text: &str| accept(&offered, &parse(text), &caller).map(|one| one.audio.number);
    assert_eq!(with(SIPP), Ok(8));
    assert_eq!(with("v=0\r\n"), Err(Refusal::Streams));
    assert_eq!(with(&SIPP.replace("audio", "video")), Err(Refusal::Streams));
    assert_eq!(with(&SIPP.replace("audio 6000", "audio 0")), Err(Refusal::NoAudio));
    assert_eq!(with(&SIPP.replace("AVP 8", "AVP 18")), Err(Refusal::NoCodec("18".to_owned())));
    assert_eq!(with(&SIPP.replace("RTP/AVP", "RTP/SAVP")), Err(Refusal::Srtp));
    let secure = Local { srtp: SrtpPolicy::Required, ..caller.clone() };
    assert_eq!(accept(&offer(&secure), &parse(SIPP), &secure), Err(Refusal::Srtp));
}

/// RFC 3264 §8: the version of `o=` grows by one with each change, and no stream is ever removed.
#[test]
fn versions_count_changes_and_a_later_offer_keeps_its_streams() {
    let mut history = DescriptionHistory::default();
    let mut first = answered(LINPHONE).description;
    // The 183, then the same in the 200.
    for _ in 0..2 {
        history.stamp(&mut first);
        assert_eq!(first.origin.version, 1);
    }
    let hold = Local { direction: Direction::SendOnly, ..local(&CODECS) };
    let mut again = offer_again(&history, &hold);
    let kinds: Vec<_> = again.media.iter().map(|one| (one.kind.name(), one.port)).collect();
    assert_eq!(kinds, [("audio", 30_000), ("video", 0), ("image", 0)]);
    for _ in 0..2 {
        history.stamp(&mut again);
        assert_eq!(again.origin.version, 2);
    }
}

/// The history of a session whose offers were answered with these codecs, and its next offer.
fn next_offer(offers: &[&str], codecs: &[Codec], srtp: SrtpPolicy) -> Description {
    let mut history = DescriptionHistory::default();
    for text in offers {
        let offered = parse(text);
        history.note(&offered);
        history.stamp(&mut answer(&offered, &local(codecs)).unwrap().description);
    }
    offer_again(&history, &Local { srtp, ..local(codecs) })
}

/// The payload types of sound with their codecs and clocks.
fn numbers(description: &Description) -> Vec<(u8, Codec, u32)> {
    let maps = &description.audio().unwrap().rtpmaps;
    maps.iter().map(|map| (map.number, map.codec, map.clock_rate)).collect()
}

/// RFC 3264 §8.3.2: a number that was once given to a payload type means nothing else until the session ends.
#[test]
fn a_later_offer_gives_no_payload_type_the_number_of_another() {
    let offer = |map: &str| SIPP.replace("a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-11,16\r\n", map);
    let again = |offers: &[&str]| numbers(&next_offer(offers, &CODECS, SrtpPolicy::IfOffered));
    let own = |opus, events, events_48| {
        [
            (8, Codec::Pcma, 8_000),
            (0, Codec::Pcmu, 8_000),
            (9, Codec::G722, 8_000),
            (opus, Codec::Opus, 48_000),
            (events, Codec::TelephoneEvent, 8_000),
            (events_48, Codec::TelephoneEvent, 48_000),
        ]
    };
    let events_at_96 = offer("a=rtpmap:96 telephone-event/8000\r\n");
    let opus_at_120 = offer("a=rtpmap:120 opus/48000/2\r\n");
    let speex_at_96 = offer("a=rtpmap:96 speex/16000\r\n");
    // One that is listed and not described, and others' streams.
    let unknown_at_96 =
        SIPP.replace("RTP/AVP 8", "RTP/AVP 8 96") + "m=video 9 RTP/AVP 97\r\na=rtpmap:97 VP8/90000\r\n";
    assert_eq!(again(&[SIPP]), own(96, 101, 97));
    assert_eq!(again(&[&events_at_96]), own(97, 96, 98));
    assert_eq!(again(&[&opus_at_120]), own(120, 101, 97));
    assert_eq!(again(&[&speex_at_96]), own(97, 101, 98));
    assert_eq!(again(&[&unknown_at_96]), own(97, 101, 98));
    // Also when a description in between does not have it.
    assert_eq!(again(&[&events_at_96, &offer("")]), own(97, 96, 98));
    // A peer that has named all numbers is offered no others.
    let all: String = (96..128).map(|number| format!("a=rtpmap:{number} speex/8000\r\n")).collect();
    assert_eq!(again(&[&offer(&all)]), own(0, 0, 0)[..3]);
}

/// RFC 4568 §7.1.4: keys go on being offered. The protocol of the stream stays, as phones compare it.
#[test]
fn a_later_offer_of_an_encrypted_call_has_keys_and_takes_no_answer_without() {
    for protocol in ["RTP/SAVP", "RTP/AVP", "RTP/SAVPF"] {
        let text = format!("{}{CRYPTO}", SIPP.replace("RTP/AVP", protocol));
        let again = next_offer(&[&text], &CODECS, SrtpPolicy::Required);
        let media = again.audio().unwrap();
        assert_eq!((&*media.protocol, media.cryptos.len()), (protocol, 2));
        let secure = Local { srtp: SrtpPolicy::Required, ..local(&CODECS) };
        assert_eq!(accept(&again, &parse(SIPP), &secure), Err(Refusal::Srtp));
        let theirs = answer(&again, &Local { key: [9; 30], ..local(&CODECS) }).unwrap();
        let (send, receive) = accept(&again, &theirs.description, &secure).unwrap().srtp.unwrap();
        assert_eq!((send.key, receive.key), ([7; 30], [9; 30]));
    }
    let plain = next_offer(&[&SIPP.replace("RTP/AVP", "RTP/AVPF")], &CODECS, SrtpPolicy::IfOffered);
    let media = plain.audio().unwrap();
    assert_eq!((&*media.protocol, media.cryptos.len()), ("RTP/AVPF", 0));
}

#[test]
fn malformed_descriptions_name_the_expected_line() {
    let error_of = |text: &str| Description::parse(text.as_bytes()).unwrap_err().to_string();
    let at = "session description, line ";
    assert_eq!(error_of(""), format!("{at}1: expected a session description, found \"\""));
    assert_eq!(error_of("v=1\r\n"), format!("{at}1: expected version 0, found \"1\""));
    assert_eq!(
        error_of("v=0\r\nhello\r\n"),
        format!("{at}2: expected a letter, = and a value, found \"hello\"")
    );
    assert_eq!(error_of("o=me\r\n"), format!("{at}1: expected user, id, version and address, found \"me\""));
    assert_eq!(
        error_of("c=IN IP4 a b\r\nc=IN IP5 1.2.3.4"),
        format!("{at}2: expected IN IP4 or IN IP6 and an address, found \"IN IP5 1.2.3.4\"")
    );
    assert_eq!(
        error_of("m=audio x RTP/AVP 0"),
        format!("{at}1: expected media, port, protocol, formats, found \"audio x RTP/AVP 0\"")
    );
    assert_eq!(
        error_of("m=audio 1 RTP/AVP"),
        format!("{at}1: expected media, port, protocol, formats, found \"audio 1 RTP/AVP\"")
    );
    assert!(error_of(&"m=audio 1 RTP/AVP 0\n".repeat(17)).contains("at most 16 media lines"));
    assert!(error_of(&"x".repeat(70_000)).contains("at most 65535 bytes"));
}

proptest! {
    #[test]
    fn a_token_reads_back(
        port in 1_u16.., version: u64, direction in 0_usize..4, ptime in prop::option::of(1_u32..200), mux: bool,
        numbers in prop::collection::vec(96_u8..128, 0..6), ip: std::net::IpAddr,
    ) {
        let mut media = Media::new(MediaKind::Audio, port, "RTP/AVP");
        media.formats = vec!["0".to_owned()];
        for number in numbers {
            media.formats.push(number.to_string());
            media.rtpmaps.push(PayloadType { number, codec: Codec::Opus, clock_rate: 48_000, channels: 2 });
            media.fmtps.push((number, "stereo=0".to_owned()));
        }
        let all = [Direction::SendRecv, Direction::SendOnly, Direction::RecvOnly, Direction::Inactive];
        media.direction = Some(all[direction]);
        (media.ptime, media.rtcp_mux) = (ptime, mux);
        let origin = Origin { version, host: Host::Ip(ip), ..Origin::default() };
        let description = Description {
            origin, name: "-".to_owned(), connection: Some(Host::Ip(ip)), direction: None, media: vec![media],
        };
        prop_assert_eq!(Description::parse(description.to_string().as_bytes()), Ok(description));
    }

    /// Damaged offers of phones: an answer that can be read again, or a refusal.
    #[test]
    fn any_bytes_are_answered(which in 0_usize..3, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6)) {
        let mut bytes = [SIPP, BARESIP, LINPHONE][which].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(offered) = Description::parse(&bytes)
            && let Ok(answer) = answer(&offered, &local(&CODECS))
        {
            prop_assert_eq!(answer.description.media.len(), offered.media.len());
            let again = Description::parse(answer.description.to_string().as_bytes());
            prop_assert_eq!(again.map(|one| one.media.len()), Ok(offered.media.len()));
        }
    }
}
