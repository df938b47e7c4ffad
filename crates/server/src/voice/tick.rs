//! Every 20 ms, while there are calls: what came is heard, what is due is sent, scripts are woken.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use media::session::{Event, Handled, MediaSession, Outbox, Work};
use stdx::Instant;
use stdx::slab::{Key, Slab};

use super::bridge::Heard;
use super::leg::{Leg, Partner};
use super::ports::{Pair, Ports, Wire};
use super::record::Recording;
use super::rooms::Rooms;
use super::stream::Stream;
use super::{Voice, VoiceCounts, World, limits};

const TICK: Duration = Duration::from_millis(media::limits::FRAME_MS as u64);

/// The tick, and the memory that all calls of the shard use in turn.
pub(super) struct Clockwork {
    next: Instant,
    work: Work,
    receiver: mmsg::Receiver,
    ready: Vec<(Key, Wire)>,
    events: Vec<(Key, Event)>,
    due: Vec<Key>,
    heard: Heard,
    keys: Vec<Key>,
}

/// A call's sockets, as its media sees them.
struct Line<'a> {
    leg: Key,
    pair: &'a Pair,
    events: &'a mut Vec<(Key, Event)>,
    counts: &'a mut VoiceCounts,
    recording: Option<&'a mut Recording>,
    stream: Option<&'a mut Stream>,
}

impl Outbox for Line<'_> {
    fn rtp(&mut self, to: SocketAddr, packet: &[u8]) {
        self.send(Wire::Rtp, to, packet);
    }

    fn rtcp(&mut self, to: SocketAddr, packet: &[u8]) {
        self.send(Wire::Rtcp, to, packet);
    }

    fn event(&mut self, event: Event) {
        self.events.push((self.leg, event));
    }

    fn recorded(&mut self, samples: &[i16]) {
        if let Some(recording) = &mut self.recording {
            recording.put(samples);
        }
    }

    fn tapped(&mut self, heard: &[i16], said: &[i16]) {
        if let Some(stream) = &mut self.stream {
            stream.put(heard, said);
        }
    }
}

impl Line<'_> {
    /// Late sound is worth nothing: what the kernel does not take at once is lost, and counted.
    fn send(&mut self, wire: Wire, to: SocketAddr, packet: &[u8]) {
        match self.pair.socket(wire).send_to(packet, to) {
            Ok(_) => self.counts.packets_out += 1,
            Err(_) => self.counts.packets_unsent += 1,
        }
    }
}

impl Clockwork {
    pub(super) fn new() -> Clockwork {
        Clockwork {
            next: Instant::default(),
            work: Work::default(),
            receiver: mmsg::Receiver::new(),
            ready: Vec::new(),
            events: Vec::new(),
            due: Vec::new(),
            heard: Heard::default(),
            keys: Vec::new(),
        }
    }

    /// The first of some calls is here.
    pub(super) fn start(&mut self, now: Instant) {
        self.next = now + TICK;
    }

    pub(super) fn finish(
        &mut self,
        now: Instant,
        leg: Key,
        media: &mut MediaSession,
        pair: &Pair,
        counts: &mut VoiceCounts,
    ) {
        let mut line = Line { leg, pair, events: &mut self.events, counts, recording: None, stream: None };
        media.finish(now, &mut self.work, &mut line);
    }

    fn receive(&mut self, now: Instant, legs: &mut Slab<Leg>, ports: &mut Ports, counts: &mut VoiceCounts) {
        let mut ready = std::mem::take(&mut self.ready);
        if let Err(error) = ports.ready(&mut ready) {
            tracing::debug!(%error, "sockets with media could not be asked for");
        }
        for (key, wire) in ready.drain(..) {
            if let Some(leg) = legs.get_mut(key) {
                self.read(now, key, wire, leg, counts);
            }
        }
        self.ready = ready;
    }

    fn read(&mut self, now: Instant, key: Key, wire: Wire, leg: &mut Leg, counts: &mut VoiceCounts) {
        let Clockwork { work, receiver, events, .. } = self;
        let Some((media, mut line)) = parts(key, leg, events, counts) else { return };
        let socket = line.pair.socket(wire).as_fd();
        // The epoll tells of a socket once, so it is emptied; what is beyond a flood's share waits for its next datagram.
        for _ in 0..limits::READS {
            let received = receiver.receive(socket, |datagram| {
                let handled = media.handle_packet(now, datagram.remote, datagram.bytes, work, &mut line);
                line.counts.packets_in += 1;
                line.counts.packets_dropped +=
                    u64::from(matches!(handled, Handled::Stranger | Handled::Malformed));
            });
            match received {
                Ok(count) if count == mmsg::BATCH => {}
                // An ICMP error of what was sent before: taken, and the next read goes on.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                _ => return,
            }
        }
    }

    /// All hear, then all say.
    fn say(&mut self, now: Instant, legs: &mut Slab<Leg>, rooms: &mut Rooms, counts: &mut VoiceCounts) {
        let Clockwork { work, events, heard, .. } = self;
        for (key, leg) in legs.iter_mut() {
            let partner = leg.partner;
            let Some((media, mut line)) = parts(key, leg, events, counts) else { continue };
            media.hear(now, work, &mut line);
            if let Partner::Seat(seat) = partner {
                rooms.put(key, seat, media);
            }
        }
        rooms.mix(now);
        self.keys.clear();
        self.keys.extend(legs.iter().map(|(key, _)| key));
        for &key in &self.keys {
            let Some(leg) = legs.get(key) else { continue };
            let partner = leg.partner;
            heard.clear();
            let whom = match partner {
                Partner::Itself => Some(key),
                Partner::Leg(other) => Some(other),
                Partner::Nobody | Partner::Seat(_) => None,
            };
            if let Some(media) = whom.and_then(|key| legs.get(key)).and_then(|leg| leg.media.as_ref()) {
                heard.take(media);
            }
            let Some(leg) = legs.get_mut(key) else { continue };
            let Some((media, mut line)) = parts(key, leg, events, counts) else { continue };
            let feed = match partner {
                Partner::Seat(seat) => rooms.feed(key, seat),
                _ => heard.feed(),
            };
            media.say(now, feed, work, &mut line);
        }
    }
}

/// A leg's media, and what it speaks through.
fn parts<'a>(
    key: Key,
    leg: &'a mut Leg,
    events: &'a mut Vec<(Key, Event)>,
    counts: &'a mut VoiceCounts,
) -> Option<(&'a mut MediaSession, Line<'a>)> {
    let (media, pair) = (leg.media.as_deref_mut()?, leg.pair.as_ref()?);
    let (recording, stream) = (leg.recording.as_deref_mut(), leg.stream.as_deref_mut());
    Some((media, Line { leg: key, pair, events, counts, recording, stream }))
}

impl Voice {
    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.legs.is_empty()).then_some(self.clockwork.next)
    }

    pub(crate) fn expire(&mut self, now: Instant, world: &mut World<'_>) {
        if self.legs.is_empty() || now < self.clockwork.next {
            return;
        }
        self.clockwork.receive(now, &mut self.legs, &mut self.ports, &mut self.counts);
        let mut ticks = 0;
        while self.clockwork.next <= now && ticks < limits::LATE_TICKS {
            self.clockwork.next = self.clockwork.next + TICK;
            self.clockwork.say(now, &mut self.legs, &mut self.rooms, &mut self.counts);
            ticks += 1;
        }
        if self.clockwork.next <= now {
            let behind = now.since(self.clockwork.next).as_millis() / TICK.as_millis() + 1;
            self.counts.ticks_missed += u64::try_from(behind).unwrap_or(u64::MAX);
            self.clockwork.next = now + TICK;
        }
        self.tell_events(now, world);
        self.wake(now, world);
        self.tell_ringing(now, world);
    }

    fn tell_events(&mut self, now: Instant, world: &mut World<'_>) {
        let mut events = std::mem::take(&mut self.clockwork.events);
        for (key, event) in events.drain(..) {
            match event {
                Event::Digit { digit, .. } => self.digit(now, key, digit.to_char(), world),
                Event::PromptEnded { id } => self.piece_ended(now, key, Some(id), world),
                Event::DigitsSent => self.piece_ended(now, key, None, world),
                Event::Speech(_) | Event::Latched(_) => {}
            }
        }
        self.clockwork.events = events;
    }

    fn wake(&mut self, now: Instant, world: &mut World<'_>) {
        let mut due = std::mem::take(&mut self.clockwork.due);
        let late = self.actors.iter().filter(|(_, actor)| actor.script.deadline() <= now);
        due.extend(late.map(|(key, _)| key));
        for key in due.drain(..) {
            self.drive(now, key, world, |script, out| script.handle_wake(now, out));
        }
        self.clockwork.due = due;
    }
}
