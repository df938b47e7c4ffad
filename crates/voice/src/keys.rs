//! The keys that a leg's peer presses, in the forms in which they come: events (RFC 4733), tones in the sound, and INFO
//! (RFC 6086).
//!
//! In: `MediaEvent::Digit` by `tick`, and `SessionEvent::Info`. Out: one digit for the scripts of the leg and for its partner.
//! Phones can be set to send two forms of each key. The media session ignores tones once an event came; INFO beside events
//! or tones is recognised here.

use std::collections::VecDeque;

use media::events::Digit;
use media::session::DigitSource;
use stdx::Instant;
use stdx::slab::Key;

use super::{Voice, World, limits};

/// The form in which a key comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyForm {
    /// RFC 4733.
    Event,
    /// In the sound.
    Tone,
    /// RFC 6086.
    Info,
}

impl From<DigitSource> for KeyForm {
    fn from(source: DigitSource) -> KeyForm {
        match source {
            DigitSource::Event => KeyForm::Event,
            DigitSource::Tone => KeyForm::Tone,
        }
    }
}

/// A press that may still come in another form.
struct KeyPress {
    digit: Digit,
    form: KeyForm,
    at: Instant,
}

/// The last presses of a leg's peer.
#[derive(Default)]
pub(super) struct KeyPresses {
    /// In the order of their times; at most `limits::KEY_PRESSES`.
    recent: VecDeque<KeyPress>,
}

impl KeyPresses {
    /// A key came. `false`: it is a press that has come before, in another form.
    fn is_new(&mut self, now: Instant, digit: Digit, form: KeyForm) -> bool {
        self.recent.retain(|press| now.since(press.at) < limits::KEY_FORMS);
        let other = self.recent.iter().position(|press| press.digit == digit && press.form != form);
        if let Some(other) = other {
            self.recent.remove(other);
            return false;
        }
        if self.recent.len() >= limits::KEY_PRESSES {
            self.recent.pop_front();
        }
        self.recent.push_back(KeyPress { digit, form, at: now });
        true
    }
}

/// A key of a leg's peer has come in one form.
pub(super) fn handle_key(
    voice: &mut Voice,
    now: Instant,
    key: Key,
    (digit, form): (Digit, KeyForm),
    world: &mut World<'_>,
) {
    let Some(leg) = voice.calls.legs.get_mut(key) else { return };
    let hears_events = leg.media.as_ref().is_some_and(|media| media.hears_events());
    if form == KeyForm::Info && hears_events || !leg.key_presses.is_new(now, digit, form) {
        return;
    }
    if let Some(streams) = &leg.streams {
        // The applications that listen are told, besides the script.
        streams.digit(digit.to_char());
    }
    voice.calls.counts.digits_total += 1;
    // A tone in the sound crosses with it.
    if form != KeyForm::Tone {
        voice.calls.cross_digit(key, digit);
    }
    voice.drive_leg(now, key, world, |script, out| script.handle_digit(now, digit.to_char(), out));
}

/// The key in an INFO (RFC 6086), if it carries one.
pub(super) fn digit_of_info(content_type: &str, body: &[u8]) -> Option<Digit> {
    media::dtmf_info::DtmfInfoFormat::from_content_type(content_type)?;
    media::dtmf_info::parse(body).map(|info| info.digit)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;
    use std::time::Duration;

    use media::codec::{Codec, Encoder};
    use media::events::{EventOptions, EventSender};
    use media::rtp::Header;
    use media::tone;
    use router::{Life, ShardAddress};
    use sip::endpoint::Endpoint;
    use sip::session::{SessionEvent, SessionId};

    use super::*;
    use crate::Owner;
    use crate::leg::Leg;
    use crate::sockets::MediaSockets;
    use crate::testing::{NoSockets, common, media_of, place};

    const SESSION: SessionId = SessionId(1);

    /// A leg, and the phone at its other end.
    struct PhoneWorld {
        voice: Voice,
        endpoint: Endpoint,
        sockets: NoSockets,
        now: Instant,
        leg: Key,
        encoder: Encoder,
        sequence: u16,
        timestamp: u32,
    }

    impl PhoneWorld {
        fn new(formats: &str) -> PhoneWorld {
            let now = Instant::from_unix_seconds(1_800_000_000);
            let listener = (Ipv4Addr::LOCALHOST, 5060).into();
            let endpoint = Endpoint::new(sim::settings(ShardAddress::new(Life(0), 0), &[listener]), now);
            let (mut voice, mut sockets) =
                (Voice::new(&common([127, 0, 0, 1]), place(0, 1)), NoSockets::new());
            let owner = Arc::new(Owner { account: "AC1".into(), signing_key: "".into() });
            let ip = Ipv4Addr::LOCALHOST.into();
            let leg = Leg::new(SESSION, "CA1".into(), owner, ip, &mut voice.calls.rng);
            voice.calls.start_ticks(now, &voice.rooms);
            let key = voice.calls.add_leg(leg);
            let leg = voice.calls.legs.get_mut(key).unwrap();
            leg.media = Some(Box::new(media_of(formats)));
            leg.pair = Some(sockets.open(key).unwrap());
            let encoder = Encoder::new(Codec::Pcma).unwrap();
            PhoneWorld { voice, endpoint, sockets, now, leg: key, encoder, sequence: 0, timestamp: 0 }
        }

        fn act(&mut self, act: impl FnOnce(&mut Voice, Instant, &mut World<'_>)) {
            let PhoneWorld { voice, endpoint, sockets, now, .. } = self;
            let (mut out, mut outbox) = (Vec::new(), Vec::new());
            act(voice, *now, &mut World { endpoint, out: &mut out, outbox: &mut outbox, sockets });
        }

        fn send(&mut self, header: Header, payload: &[u8]) {
            let mut bytes = Vec::new();
            header.write(payload, &mut bytes);
            let phone: SocketAddr = "127.0.0.2:6000".parse().unwrap();
            let leg = self.leg;
            self.act(|voice, now, world| {
                voice.handle_datagram(now, leg, phone, &bytes, world.sockets.sender());
            });
            self.sequence += 1;
        }

        /// 20 ms pass.
        fn tick(&mut self) {
            self.now = self.now + Duration::from_millis(20);
            self.timestamp += 160;
            self.act(|voice, now, world| voice.expire(now, world));
        }

        /// A key is pressed for 100 ms, and 100 ms pass. The letters are the forms in which it is sent.
        fn press(&mut self, form: char, digit: Digit) {
            match form {
                'E' => {
                    let options = EventOptions { duration_ms: 100, ..EventOptions::default() };
                    for packet in EventSender::new(digit, options, 7, self.sequence, self.timestamp) {
                        self.send(packet.header, &packet.payload);
                        self.tick();
                    }
                }
                'T' => {
                    let mut samples = tone::dtmf(digit, 8_000, 100);
                    samples.resize(1_600, 0);
                    for frame in samples.chunks_exact(160) {
                        let mut payload = Vec::new();
                        self.encoder.encode(frame, &mut payload).unwrap();
                        let (sequence, timestamp) = (self.sequence, self.timestamp);
                        let header =
                            Header { payload_type: 8, sequence, timestamp, ssrc: 7, ..Header::default() };
                        self.send(header, &payload);
                        self.tick();
                    }
                }
                'I' => {
                    let content_type = "application/dtmf-relay".into();
                    let body = format!("Signal={}\r\nDuration=100\r\n", digit.to_char()).into();
                    self.act(|voice, now, world| {
                        let session = SESSION;
                        voice.handle_event(now, SessionEvent::Info { session, content_type, body }, world);
                    });
                }
                _ => (0..100).for_each(|_| self.tick()),
            }
        }
    }

    /// Keys as they come: `E`, `T` or `I` and the key each; `-` and a key is two seconds without any.
    #[test]
    fn a_key_in_two_forms_is_one_press() {
        let (with_events, plain) = ("8 101\r\na=rtpmap:101 telephone-event/8000", "8");
        for (formats, keys, presses) in [
            (with_events, "E1 I1", 1),
            (with_events, "I1 E1", 1),
            (with_events, "E1 I1 E1 I1 E2 I2", 3),
            (with_events, "I1 E1 I1 E1", 2),
            // The key was held for two seconds.
            (with_events, "E1 -1 I1", 1),
            (with_events, "I1 I1 I2", 3),
            (with_events, "E1 E1", 2),
            (plain, "T1 I1 T1 I1", 2),
            (plain, "I1 T1 I1 T1", 2),
            (plain, "T1 T2 I1 I2", 2),
            (plain, "T1 T1", 2),
            (plain, "T1 -1 I1", 2),
        ] {
            let mut world = PhoneWorld::new(formats);
            for key in keys.split(' ') {
                let (form, digit) = key.split_at(1);
                world.press(
                    form.chars().next().unwrap(),
                    Digit::from_char(digit.chars().next().unwrap()).unwrap(),
                );
            }
            world.press('-', Digit::STAR);
            assert_eq!(world.voice.counts().digits_total, presses, "{keys}");
        }
    }

    #[test]
    fn presses_are_remembered_in_bounds() {
        let (mut presses, now) = (KeyPresses::default(), Instant::from_unix_seconds(1));
        for _ in 0..1_000 {
            assert!(presses.is_new(now, Digit::POUND, KeyForm::Info));
            assert!(presses.recent.len() <= limits::KEY_PRESSES);
        }
    }
}
