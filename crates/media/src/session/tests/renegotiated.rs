//! Legs whose description changes within the call.

use super::*;

/// RFC 3264 §8: events that the last offer and answer do not have are not sent any more. Then digits come in the sound.
#[test]
fn digits_are_heard_in_the_sound_once_events_are_not_negotiated_any_more() {
    let digits: Vec<Digit> = "12".chars().filter_map(Digit::from_char).collect();
    for codec in CODECS {
        let (mut sender, mut receiver) = (leg(Codec::Pcma), leg(Codec::Pcma));
        assert!(sender.send_digits(&digits[..1]));
        assert_eq!(talk(&mut sender, &mut receiver, 40, |_| true).1.digits(), "1");
        for session in [&mut sender, &mut receiver] {
            session.renegotiate(negotiated(codec, false)).unwrap();
        }
        assert!(sender.send_digits(&digits[1..]));
        let (_, received) = talk(&mut sender, &mut receiver, 60, |_| true);
        assert_eq!(received.digits(), "2", "{codec:?}");
        assert!(received.events.contains(&MediaEvent::Digit { digit: digits[1], by: DigitSource::Tone }));
    }
}

/// A packet of the peer's sound, from that address.
fn sound_from(leg: &mut MediaSession, ms: u64, source: &str) -> DatagramOutcome {
    let (mut out, mut work) = (Out::default(), TickWork::default());
    leg.handle_packet(time(ms), address(source), &packet(8, ms as u16), &mut work, &mut out)
}

/// A phone behind NATs, whose descriptions name private addresses: what it sends after its re-INVITE comes from another network.
#[test]
fn media_follows_the_signalling_to_another_network() {
    let described =
        |remote: &str| Negotiated { remote: Some(address(remote)), ..negotiated(Codec::Pcma, true) };
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    let mut leg = MediaSession::new(described("10.0.0.7:6000"), 1, Some(ip("203.0.113.5"))).unwrap();
    assert_eq!(sound_from(&mut leg, 0, "203.0.113.5:7000"), DatagramOutcome::Taken);
    leg.renegotiate(described("100.64.1.2:6000")).unwrap();
    assert_eq!(sound_from(&mut leg, 20, "198.51.100.9:41000"), DatagramOutcome::Stranger);
    leg.trust_signalling(ip("198.51.100.9"), false);
    assert_eq!(leg.remote(), None);
    assert_eq!(sound_from(&mut leg, 40, "198.51.100.9:41000"), DatagramOutcome::Taken);
    assert_eq!(leg.remote(), Some(address("198.51.100.9:41000")));
    // Its next network has the same private addresses. Until the old one is silent, the new one may be another's.
    leg.renegotiate(described("100.64.1.2:6000")).unwrap();
    leg.trust_signalling(ip("198.51.100.77"), false);
    assert_eq!(sound_from(&mut leg, 60, "198.51.100.77:8000"), DatagramOutcome::Stranger);
    assert_eq!(sound_from(&mut leg, 1_100, "198.51.100.66:8000"), DatagramOutcome::Stranger);
    assert_eq!(sound_from(&mut leg, 1_100, "198.51.100.77:8000"), DatagramOutcome::Taken);
    assert_eq!(leg.remote(), Some(address("198.51.100.77:8000")));
}

/// The source of a datagram may be forged, also that of a re-INVITE: only a proved one is sent media before it has sent some.
#[test]
fn another_source_of_the_signalling_is_sent_nothing_first_unless_it_is_proved() {
    let described =
        |remote: &str| Negotiated { remote: Some(address(remote)), ..negotiated(Codec::Pcma, true) };
    let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
    for is_proved in [false, true] {
        let mut leg = MediaSession::new(described("192.0.2.1:6000"), 1, Some(ip("192.0.2.1"))).unwrap();
        leg.send_silence(true).unwrap();
        leg.trust_signalling(ip("192.0.2.2"), is_proved);
        leg.renegotiate(described("192.0.2.2:6000")).unwrap();
        assert_eq!(!sent(&mut leg, 0, 200).rtp.is_empty(), is_proved);
        assert_eq!(sound_from(&mut leg, 200, "192.0.2.2:6000"), DatagramOutcome::Taken);
        assert!(!sent(&mut leg, 200, 200).rtp.is_empty());
    }
}
