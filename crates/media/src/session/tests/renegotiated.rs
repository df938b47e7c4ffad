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
