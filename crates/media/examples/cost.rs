//! The cost of a leg in one tick: `cargo run --release -p media --example cost`. Nanoseconds for a prompt, a
//! bridge of one codec, a bridge that transcodes, and a member of a conference.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use media::codec::{Codec, PayloadType};
use media::mixer::Conference;
use media::prompt::Prompt;
use media::sdp::{Direction, Negotiated};
use media::session::{MediaEvent, MediaOutbox, MediaSession, PlayOptions, TickWork};
use media::tone;
use stdx::time::Instant;

/// Counts, and keeps the packets that the next leg gets.
#[derive(Default)]
struct Out {
    packets: Vec<Vec<u8>>,
    keeps: bool,
    bytes: usize,
}

impl MediaOutbox for Out {
    fn rtp(&mut self, _: SocketAddr, packet: &[u8]) {
        self.bytes += packet.len();
        if self.keeps {
            self.packets.push(packet.to_vec());
        }
    }

    fn rtcp(&mut self, _: SocketAddr, packet: &[u8]) {
        self.bytes += packet.len();
    }

    fn event(&mut self, event: MediaEvent) {
        black_box(event);
    }
}

const LEGS: u64 = 1_000;
const TICKS: u64 = 500;

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 6_000))
}

fn leg(number: u8, seed: u64) -> MediaSession {
    let audio = PayloadType::fixed(number).expect("a static payload type");
    let events = PayloadType { number: 101, codec: Codec::TelephoneEvent, clock_rate: 8_000, channels: 1 };
    let negotiated = Negotiated {
        audio,
        receive: vec![audio],
        events: Some(events),
        receive_events: vec![events],
        comfort_noise: None,
        ptime_ms: 20,
        direction: Direction::SendRecv,
        held: false,
        remote: Some(peer()),
        remote_rtcp: None,
        rtcp_mux: true,
        srtp: None,
    };
    MediaSession::new(negotiated, seed, None).expect("a codec that is spoken")
}

fn prompt(codec: Codec) -> Prompt {
    Prompt::encode(codec, &tone::tone(500.0, 8_000, 8_000, 2_000), 8_000).expect("a codec that is spoken")
}

fn time(tick: u64) -> Instant {
    Instant::from_unix_seconds(1_700_000_000) + Duration::from_millis(20 * tick)
}

/// Runs `one` for every leg of every tick and tells nanoseconds of each.
fn measure(name: &str, legs: u64, mut one: impl FnMut(u64)) {
    #[expect(clippy::disallowed_methods, reason = "an example measures; it is no part of the library")]
    let started = SystemTime::now();
    (0..TICKS).for_each(&mut one);
    let spent = started.elapsed().unwrap_or_default();
    println!("{name:<40} {:>7.0} ns", spent.as_nanos() as f64 / (TICKS * legs) as f64);
}

fn main() {
    let mut work = TickWork::default();
    let mut out = Out::default();
    let forever = PlayOptions { loops: None, ..PlayOptions::once(1) };

    let mut legs: Vec<MediaSession> = (0..LEGS).map(|seed| leg(8, seed << 32)).collect();
    measure("nothing to say or hear", LEGS, |tick| {
        legs.iter_mut().for_each(|leg| leg.tick(time(tick), &mut work, &mut out));
    });
    let shared = prompt(Codec::Pcma);
    for leg in &mut legs {
        leg.play(shared.clone(), forever);
    }
    measure("prompt, PCMA", LEGS, |tick| {
        legs.iter_mut().for_each(|leg| leg.tick(time(tick), &mut work, &mut out));
    });
    println!("{:<40} {:>7} bytes", "a prompt's leg", legs[0].size());

    for (name, from, to) in [("PCMA to PCMA", 8, 8), ("PCMA to PCMU", 8, 0), ("PCMA to G722", 8, 9)] {
        let mut source = Out { keeps: true, ..Out::default() };
        let mut sender = leg(8, 77);
        sender.play(shared.clone(), forever);
        (0..TICKS).for_each(|tick| sender.tick(time(tick), &mut work, &mut source));
        let mut pairs: Vec<_> = (0..LEGS).map(|seed| (leg(from, seed << 32), leg(to, seed << 33))).collect();
        pairs.iter_mut().for_each(|(receiver, _)| receiver.listen(true));
        measure(&format!("bridge with its packet in, {name}"), LEGS, |tick| {
            let packet = &source.packets[tick as usize];
            for (receiver, relay) in &mut pairs {
                receiver.handle_packet(time(tick), peer(), packet, &mut work, &mut out);
                receiver.pull_frame(time(tick), &mut work, &mut out);
                relay.send_frame(time(tick), receiver.received_frame(), &mut work, &mut out);
            }
        });
        println!("{:<40} {:>7} bytes", "a bridge's two legs", pairs[0].0.size() + pairs[0].1.size());
    }

    let mut conference = Conference::new(8_000);
    let ids: Vec<_> = (0..LEGS).filter_map(|at| conference.join(8_000, at >= 5)).collect();
    let sound = tone::tone(500.0, 3_000, 8_000, 20);
    measure("member of a conference of 1000, 5 speak", LEGS, |tick| {
        ids[..5].iter().for_each(|id| conference.put(*id, &sound));
        conference.mix();
        for (id, leg) in ids.iter().zip(&mut legs) {
            leg.stop();
            leg.send_frame(time(TICKS + tick), conference.frame(*id, Codec::Pcma), &mut work, &mut out);
        }
    });
    black_box(out.bytes);
}
