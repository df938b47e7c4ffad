//! A caller that sends a tone all the time, and keeps the sound it receives.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use media::codec::{Codec, Decoder, Encoder};
use media::rtp::{Header, Packet};
use media::tone::tone;

use super::caller::Caller;
use crate::call::{Dialog, Invite};
use crate::phone::{fresh, text};
use crate::place::Place;
use crate::{Deadline, until};

/// Sends A-law, from the moment that its call is answered until it is dropped.
pub(crate) struct Talker {
    pub(crate) caller: Caller,
    pub(crate) dialog: Dialog,
    received: Arc<Mutex<Vec<i16>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

const FRAME: usize = 160;
/// Longer than any test.
const CALL: Duration = Duration::from_secs(3_600);
/// Samples in which a tone is looked for: 200 ms.
const WINDOW: usize = 10 * FRAME;

impl Talker {
    /// Calls `number` on that shard of two, and says `frequency`; 0: nothing.
    #[track_caller]
    pub(crate) fn call(place: &Place, number: &str, shard: u64, frequency: u32) -> Talker {
        let mut caller = Caller::new(place);
        let sdp = caller.sdp("8", "sendrecv");
        let uri: &'static str = format!("sip:{number}@{}", caller.phone.server).leak();
        let mut ask = caller.phone.ask("INVITE", uri);
        while stdx::hash::Keyed::new(*b"belfry's workers").hash(ask.call_id.as_bytes()) % 2 != shard {
            ask.call_id = fresh();
        }
        ask.more = format!("Contact: <{}>\r\nContent-Type: application/sdp\r\n", caller.phone.contact());
        ask.body = sdp;
        let sent = caller.phone.send_invite(&ask);
        let invite = Invite { ask, sent };
        let answer = caller.phone.outcome(&invite);
        assert_eq!(answer.status(), 200, "{}", text(Some(answer.start_line())));
        let described = media::sdp::Description::parse(answer.body()).unwrap();
        let remote = described.remote(described.audio().unwrap()).unwrap();
        caller.phone.put_back(answer);
        let dialog = caller.phone.answered(&invite);
        Talker::new(caller, dialog, remote, frequency)
    }

    pub(crate) fn new(caller: Caller, dialog: Dialog, remote: SocketAddr, frequency: u32) -> Talker {
        let (received, is_over) = (Arc::<Mutex<Vec<i16>>>::default(), Arc::<AtomicBool>::default());
        let socket = caller.rtp.try_clone().unwrap();
        let (log, over) = (Arc::clone(&received), Arc::clone(&is_over));
        let talk = move || {
            let level = if frequency == 0 { 0 } else { 6_000 };
            let samples = tone(f64::from(frequency), level, 8_000, 1_000);
            let (mut encoder, mut decoder) =
                (Encoder::new(Codec::Pcma).unwrap(), Decoder::new(Codec::Pcma).unwrap());
            let (mut bytes, mut payload, mut buffer) = (Vec::new(), Vec::new(), [0; 2048]);
            let mut end = CALL;
            let clock = Deadline::after(CALL);
            for sequence in 0u32.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let at = sequence as usize * FRAME % samples.len();
                payload.clear();
                bytes.clear();
                encoder.encode(&samples[at..at + FRAME], &mut payload).unwrap();
                let header = Header {
                    marker: sequence == 0,
                    payload_type: 8,
                    sequence: sequence as u16,
                    timestamp: sequence * FRAME as u32,
                    ssrc: 0x1234_5678,
                };
                header.write(&payload, &mut bytes);
                // The server may have closed its port.
                let _ = socket.send_to(&bytes, remote);
                end -= Duration::from_millis(20);
                while let Some(left) = clock.left().and_then(|left| left.checked_sub(end)) {
                    if left.is_zero() {
                        break;
                    }
                    socket.set_read_timeout(Some(left)).unwrap();
                    let Ok((length, _)) = socket.recv_from(&mut buffer) else { continue };
                    let Ok(packet) = Packet::parse(&buffer[..length]) else { continue };
                    if packet.payload_type() == 8 {
                        decoder.decode(packet.payload(), &mut log.lock().unwrap()).unwrap();
                    }
                }
            }
        };
        let thread = Some(std::thread::Builder::new().spawn(talk).unwrap());
        Talker { caller, dialog, received, is_over, thread }
    }

    /// The levels of those frequencies now.
    pub(crate) fn levels<const N: usize>(&self, frequencies: [u32; N]) -> [f64; N] {
        let received = self.received.lock().unwrap();
        let last = &received[received.len().saturating_sub(WINDOW)..];
        frequencies.map(|frequency| if last.len() < WINDOW { 0.0 } else { level(last, frequency) })
    }

    /// Waits until these are heard at once, and none of those.
    #[track_caller]
    pub(crate) fn hears<const N: usize, const M: usize>(&self, these: [u32; N], but: [u32; M]) {
        until(&format!("{these:?} are heard and not {but:?}: {:?}", self.caller.phone.user), || {
            let received = self.levels(these).iter().all(|level| *level > 4_000.0);
            (received && self.levels(but).iter().all(|level| *level < 300.0)).then_some(())
        });
    }

    /// True if the frequency was received at any time, for a tenth of a second.
    pub(crate) fn has_heard(&self, frequency: u32) -> bool {
        let received = self.received.lock().unwrap();
        received.windows(WINDOW / 2).step_by(FRAME).any(|window| level(window, frequency) > 4_000.0)
    }

    /// Sound that is none of these: words or music.
    #[track_caller]
    pub(crate) fn hears_something_but<const N: usize>(&self, tones: [u32; N]) {
        until("something else is heard", || {
            let is_loud = {
                let received = self.received.lock().unwrap();
                let last = &received[received.len().saturating_sub(WINDOW)..];
                last.iter().any(|sample| sample.unsigned_abs() > 500)
            };
            (is_loud && self.levels(tones).iter().all(|level| *level < 300.0)).then_some(())
        });
    }

    /// Half a second of whatever is said.
    #[track_caller]
    pub(crate) fn listens(&self) {
        self.forget();
        until("half a second is heard", || (self.received.lock().unwrap().len() >= 4_000).then_some(()));
    }

    pub(crate) fn forget(&self) {
        self.received.lock().unwrap().clear();
    }

    /// A key, as an INFO.
    #[track_caller]
    pub(crate) fn press(&mut self, key: char) {
        self.dialog.cseq += 1;
        let mut ask = self.dialog.ask("INFO", self.dialog.cseq);
        ask.more.push_str("Content-Type: application/dtmf-relay\r\n");
        ask.body = format!("Signal={key}\r\nDuration=160\r\n").leak();
        let bytes = self.caller.phone.write(&ask);
        self.caller.phone.send(bytes.as_bytes());
        assert_eq!(self.caller.phone.final_of(&ask).status(), 200);
    }

    #[track_caller]
    pub(crate) fn hang_up(&mut self) {
        assert_eq!(self.caller.phone.within(&mut self.dialog, "BYE").status(), 200);
    }

    /// The server's BYE.
    #[track_caller]
    pub(crate) fn is_hung_up(&mut self) {
        let bye = self.caller.phone.expect_request("BYE");
        self.caller.phone.reply(&bye, "200 OK", "", "");
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The level of a frequency in sound of 8 kHz, by Goertzel.
pub(crate) fn level(samples: &[i16], frequency: u32) -> f64 {
    let (re, im) = samples.iter().enumerate().fold((0.0, 0.0), |(re, im), (at, sample)| {
        let turn = std::f64::consts::TAU * f64::from(frequency) * at as f64 / 8_000.0;
        (re + f64::from(*sample) * turn.cos(), im + f64::from(*sample) * turn.sin())
    });
    re.hypot(im) * 2.0 / samples.len() as f64
}
