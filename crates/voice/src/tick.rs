//! Every 20 ms for each call, in phases: what came is heard, what is due is sent, scripts are woken.
//!
//! The edge gives the datagrams that have come, one wheel wakes the scripts. A tick is cut in ten phases
//! (`phases`), so SIP waits behind a tenth of the media at most.
//!
//! A turn has two passes. First every leg of the phase receives: its media session gives one frame. Then
//! every leg that hears another sends, from the frames of the first pass, so sound crosses the server within
//! one turn. Legs that hear no other send in the first pass already. Events of the media wait in `events`
//! until the turn is over: performing them needs all of [`Voice`].

use std::net::SocketAddr;

use media::session::{DatagramOutcome, FrameSource, MediaEvent, MediaOutbox, MediaSession, TickWork};
use stdx::Instant;
use stdx::slab::{Key, Slab};
use stdx::wheel::Wheel;

use super::bridge::SentSound;
use super::keys::handle_key;
use super::leg::{Leg, Partner};
use super::phases::{self, Phases};
use super::record::Recording;
use super::rooms::Rooms;
use super::sockets::{MediaSender, MediaSockets, PortKind, PortPair};
use super::stream::Streams;
use super::{Voice, VoiceCounts, World, limits};

/// The tick, and the memory that all calls of the shard use in turn, so that a tick allocates nothing.
pub(super) struct MediaTicker {
    phases: Phases,
    /// Legs by the time of their next wake-up.
    wheel: Wheel<Key>,
    /// Buffers of the codecs.
    work: TickWork,
    /// Events of legs since the last `Voice::tell_events`.
    events: Vec<(Key, MediaEvent)>,
    /// The list that `wake` works on; kept for its memory.
    due: Vec<Key>,
    /// The frame that the leg in turn sends.
    heard: SentSound,
    /// Legs of a phase that hear others.
    joined: Vec<Key>,
}

/// A call's ports, as its media sees them. Made for one step of one leg, of borrowed fields.
struct Line<'a> {
    leg: Key,
    pair: PortPair,
    sender: &'a dyn MediaSender,
    /// Nothing goes out.
    is_held: bool,
    events: &'a mut Vec<(Key, MediaEvent)>,
    counts: &'a mut VoiceCounts,
    recording: Option<&'a mut Recording>,
    streams: Option<&'a mut Streams>,
}

impl MediaOutbox for Line<'_> {
    fn rtp(&mut self, to: SocketAddr, packet: &[u8]) {
        self.send(PortKind::Rtp, to, packet);
    }

    fn rtcp(&mut self, to: SocketAddr, packet: &[u8]) {
        self.send(PortKind::Rtcp, to, packet);
    }

    fn event(&mut self, event: MediaEvent) {
        self.events.push((self.leg, event));
    }

    // Sound for recordings and speech recognition comes in larger pieces than a tick.
    fn recorded(&mut self, samples: &[i16]) {
        if let Some(recording) = &mut self.recording {
            recording.put(samples);
        }
    }

    // For media streams, in both directions, each tick.
    fn tapped(&mut self, received: &[i16], sent: &[i16]) {
        if let Some(streams) = &mut self.streams {
            self.counts.stream_frames_lost += streams.put(received, sent);
        }
    }
}

impl Line<'_> {
    /// Late sound is worth nothing: what the kernel does not take at once is lost, and counted.
    fn send(&mut self, kind: PortKind, to: SocketAddr, packet: &[u8]) {
        if self.is_held {
            return;
        }
        if self.sender.send(self.pair, kind, to, packet) {
            self.counts.packets_out += 1;
        } else {
            self.counts.packets_unsent += 1;
        }
    }
}

impl MediaTicker {
    pub(super) fn new() -> MediaTicker {
        MediaTicker {
            phases: Phases::default(),
            wheel: Wheel::new(Instant::default()),
            work: TickWork::default(),
            events: Vec::new(),
            due: Vec::new(),
            heard: SentSound::default(),
            joined: Vec::new(),
        }
    }

    /// The first leg or room of some is here: the phases begin a tick from now.
    pub(super) fn start(&mut self, now: Instant) {
        self.phases.start(now);
    }

    /// Adds a new leg and returns its phase.
    pub(super) fn add(&mut self, leg: Key) -> u8 {
        self.phases.add(leg)
    }

    /// A script of that leg is to be woken then. Mostly a wake-up that is early enough is on its way already:
    /// deadlines of scripts move with every input, and a wheel entry for each would be waste.
    pub(super) fn arm(&mut self, now: Instant, deadline: Instant, key: Key, leg: &mut Leg) {
        // Entries stay in the wheel when the call is over, so none is put far ahead.
        let at = deadline.min(now + limits::WAKE_AHEAD);
        // An entry that is too early costs one look at the script; one that is missing would lose a timeout.
        if at < leg.wakes_at {
            leg.wakes_at = at;
            self.wheel.insert(at, key);
        }
    }

    /// The legs whose wake-up has come, each once.
    fn woken(&mut self, now: Instant, legs: &mut Slab<Leg>, into: &mut Vec<Key>) {
        self.wheel.expire(now, into);
        into.retain(|&key| {
            // Otherwise the leg was woken earlier meanwhile, and its next wake-up is set.
            let leg = legs.get_mut(key).filter(|leg| leg.wakes_at <= now);
            leg.map(|leg| leg.wakes_at = Instant::FAR_FUTURE).is_some()
        });
    }

    /// RTCP's goodbye (RFC 3550 §6.6), and the leg's ports are free. Called at the end of the dialog and
    /// again at the end of the script: the second call finds nothing.
    pub(super) fn close(
        &mut self,
        now: Instant,
        (key, leg): (Key, &mut Leg),
        counts: &mut VoiceCounts,
        sockets: &mut dyn MediaSockets,
    ) {
        let (media, pair) = (leg.media.take().filter(|_| !leg.is_held), leg.pair.take());
        // The script is told of the hangup instead of the end of its prompt.
        (leg.speaking, leg.first_digits) = (None, None);
        let Some(pair) = pair else { return };
        if let Some(mut media) = media {
            let (events, sender) = (&mut self.events, sockets.sender());
            let (recording, streams) = (None, None);
            let mut line =
                Line { leg: key, pair, sender, is_held: false, events, counts, recording, streams };
            media.finish(now, &mut self.work, &mut line);
        }
        sockets.close(pair);
    }

    /// A datagram came for a leg. Its events wait for the next `Voice::expire`.
    fn handle_datagram(
        &mut self,
        now: Instant,
        (key, leg): (Key, &mut Leg),
        (remote, datagram): (SocketAddr, &[u8]),
        sender: &dyn MediaSender,
        counts: &mut VoiceCounts,
    ) {
        let MediaTicker { work, events, .. } = self;
        let Some((media, mut line)) = parts(key, leg, sender, events, counts) else { return };
        let handled = media.handle_packet(now, remote, datagram, work, &mut line);
        line.counts.packets_in += 1;
        line.counts.packets_dropped +=
            u64::from(matches!(handled, DatagramOutcome::Stranger | DatagramOutcome::Malformed));
    }

    /// One phase: all legs of it receive, then all send.
    fn turn(
        &mut self,
        now: Instant,
        phase: u8,
        legs: &mut Slab<Leg>,
        rooms: &mut Rooms,
        sender: &dyn MediaSender,
        counts: &mut VoiceCounts,
    ) {
        let lane = self.phases.take(phase, legs);
        let MediaTicker { work, events, heard, joined, .. } = self;
        joined.clear();
        for &key in &lane {
            let Some(leg) = legs.get_mut(key) else { continue };
            // A stream may play an application's sound in place of the partner's, which the second pass
            // decides.
            let (partner, is_alone) = (leg.partner, leg.streams.is_none());
            let Some((media, mut line)) = parts(key, leg, sender, events, counts) else { continue };
            media.pull_frame(now, work, &mut line);
            match partner {
                Partner::None if is_alone => media.send_frame(now, FrameSource::None, work, &mut line),
                Partner::Echo if is_alone => {
                    heard.take(media);
                    media.send_frame(now, heard.feed(), work, &mut line);
                }
                Partner::Seat(seat) => {
                    rooms.put(key, seat, media);
                    joined.push(key);
                }
                Partner::None | Partner::Echo | Partner::Leg(_) => joined.push(key),
            }
        }
        // All members of this shard have been put in; the second pass takes the mix out.
        if phase == phases::ROOMS {
            rooms.mix(now);
        }
        self.say_joined(now, legs, rooms, sender, counts);
        self.phases.give_back(phase, lane);
    }

    /// Sends the sound of legs that hear others, once these have received theirs.
    fn say_joined(
        &mut self,
        now: Instant,
        legs: &mut Slab<Leg>,
        rooms: &mut Rooms,
        sender: &dyn MediaSender,
        counts: &mut VoiceCounts,
    ) {
        let MediaTicker { work, events, heard, joined, .. } = self;
        for &key in &*joined {
            let Some(partner) = legs.get(key).map(|leg| leg.partner) else { continue };
            heard.clear();
            let source = match partner {
                Partner::Echo => Some(key),
                Partner::Leg(other) => Some(other),
                Partner::None | Partner::Seat(_) => None,
            };
            if let Some(media) = source.and_then(|key| legs.get(key)).and_then(|leg| leg.media.as_ref()) {
                heard.take(media);
            }
            let Some(leg) = legs.get_mut(key) else { continue };
            // An application's sound waits while a prompt plays.
            if let (Some(streams), Some(media)) = (&mut leg.streams, &leg.media) {
                streams.play(!media.is_playing(), heard);
            }
            let Some((media, mut line)) = parts(key, leg, sender, events, counts) else { continue };
            let feed = match partner {
                _ if heard.is_streamed() => heard.feed(),
                Partner::Seat(seat) => rooms.feed(key, seat),
                _ => heard.feed(),
            };
            media.send_frame(now, feed, work, &mut line);
        }
    }
}

/// A leg's media, and the ports it sends by. `None`: it has no media yet, or none any more.
fn parts<'a>(
    key: Key,
    leg: &'a mut Leg,
    sender: &'a dyn MediaSender,
    events: &'a mut Vec<(Key, MediaEvent)>,
    counts: &'a mut VoiceCounts,
) -> Option<(&'a mut MediaSession, Line<'a>)> {
    let is_held = leg.is_held;
    let (media, pair) = (leg.media.as_deref_mut()?, leg.pair?);
    let (recording, streams) = (leg.recording.as_deref_mut(), leg.streams.as_deref_mut());
    Some((media, Line { leg: key, pair, sender, is_held, events, counts, recording, streams }))
}

impl Voice {
    /// The time at which [`expire`](Self::expire) has something to do. The edge reads the media sockets before.
    pub fn deadline(&self) -> Option<Instant> {
        let is_idle = self.calls.legs.is_empty() && self.rooms.is_idle();
        (!is_idle).then(|| self.calls.ticker.phases.deadline())
    }

    /// A datagram came to one of a leg's sockets. A key of a leg that is gone is ignored: its datagrams were on their way.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        leg: Key,
        remote: SocketAddr,
        datagram: &[u8],
        sender: &dyn MediaSender,
    ) {
        if let Some(found) = self.calls.legs.get_mut(leg) {
            let of = (leg, found);
            self.calls.ticker.handle_datagram(now, of, (remote, datagram), sender, &mut self.calls.counts);
        }
    }

    /// Performs the ticks that are due, and wakes scripts. At most `limits::TURNS` phases at once: then the
    /// shard reads SIP again.
    pub fn expire(&mut self, now: Instant, world: &mut World<'_>) {
        if self.deadline().is_none_or(|next| now < next) {
            return;
        }
        let sender = world.sockets.sender();
        for _ in 0..limits::TURNS {
            let Some(phase) = self.calls.ticker.phases.due(now) else { break };
            self.calls.ticker.turn(
                now,
                phase,
                &mut self.calls.legs,
                &mut self.rooms,
                sender,
                &mut self.calls.counts,
            );
        }
        // After a pause of the whole machine no burst of old sound is sent: it would only fill the peers'
        // jitter buffers.
        self.calls.counts.ticks_missed += self.calls.ticker.phases.give_up(now, limits::LATE);
        self.tell_events(now, world);
        self.with_rooms(now, world, |rooms, parts| rooms.tick_rooms(now, parts));
        self.recordings.mind_recordings(now, &mut self.calls);
        self.wake(now, world);
        let rows = self.calls.legs.iter_mut().filter_map(|(_, leg)| leg.row.as_mut());
        self.ringing_rows.expire(now, rows.chain(self.dials.rows()), world.outbox);
    }

    /// Performs the events of the media since the last call, in their order.
    fn tell_events(&mut self, now: Instant, world: &mut World<'_>) {
        let mut events = std::mem::take(&mut self.calls.ticker.events);
        for (key, event) in events.drain(..) {
            match event {
                MediaEvent::Digit { digit, by } => handle_key(self, now, key, (digit, by.into()), world),
                MediaEvent::PromptEnded { id } => {
                    self.recordings.beep_ended(now, key, id, &mut self.calls, world);
                    self.perform_queued(now, world);
                    self.calls.piece_ended(now, key, Some(id), world);
                    self.perform_queued(now, world);
                }
                MediaEvent::DigitsSent => {
                    self.calls.piece_ended(now, key, None, world);
                    self.perform_queued(now, world);
                }
                MediaEvent::Speech(event) => {
                    self.recordings.spoke(now, key, event, &mut self.calls, world);
                    self.perform_queued(now, world);
                }
                // The media session sends to the new address by itself.
                MediaEvent::Latched(_) => {}
                MediaEvent::NoMedia(silence) => self.calls.media_ended(now, key, silence, world),
            }
        }
        self.calls.ticker.events = events;
    }

    /// Wakes the scripts whose deadline has come, and arms the wheel for the others of a leg that was woken
    /// too early.
    fn wake(&mut self, now: Instant, world: &mut World<'_>) {
        let mut due = std::mem::take(&mut self.calls.ticker.due);
        self.calls.ticker.woken(now, &mut self.calls.legs, &mut due);
        for key in due.drain(..) {
            let Some(leg) = self.calls.legs.get(key) else { continue };
            for key in [leg.aside, leg.main].into_iter().flatten() {
                let Some(actor) = self.calls.actors.get(key) else { continue };
                let deadline = actor.script.deadline();
                if deadline <= now {
                    self.drive(now, key, world, |script, out| script.expire(now, out));
                } else if let Some(leg) = self.calls.legs.get_mut(actor.leg) {
                    self.calls.ticker.arm(now, deadline, actor.leg, leg);
                }
            }
        }
        self.calls.ticker.due = due;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::phases::TICK;
    use crate::phases::tests::{leg, start};

    fn at(millis: u64) -> Instant {
        start() + Duration::from_millis(millis)
    }

    struct Timers {
        ticker: MediaTicker,
        legs: Slab<Leg>,
        key: Key,
    }

    impl Timers {
        fn new() -> Timers {
            let mut legs = Slab::new();
            let key = legs.insert(leg());
            Timers { ticker: MediaTicker::new(), legs, key }
        }

        fn arm(&mut self, now: Instant, deadline: Instant) {
            let leg = self.legs.get_mut(self.key).unwrap();
            self.ticker.arm(now, deadline, self.key, leg);
        }

        /// Milliseconds of each wake-up on a tick of `span`, with the deadline that the script has from then on.
        fn run(&mut self, span: std::ops::Range<u64>, next: Instant) -> Vec<u64> {
            let mut told = Vec::new();
            for millis in span.step_by(TICK.as_millis() as usize) {
                let mut due = Vec::new();
                self.ticker.woken(at(millis), &mut self.legs, &mut due);
                for key in due {
                    assert_eq!(key, self.key);
                    told.push(millis);
                    self.arm(at(millis), next);
                }
            }
            told
        }
    }

    #[test]
    fn a_script_is_woken_within_a_tick_of_its_deadline() {
        let mut timers = Timers::new();
        timers.arm(at(0), at(1_000));
        let told = timers.run(0..5_000, Instant::FAR_FUTURE);
        assert!(matches!(told[..], [first] if (1_000..=1_020).contains(&first)), "{told:?}");
    }

    #[test]
    fn a_deadline_that_moved_closer_is_told_then_and_the_later_one_once_more() {
        let mut timers = Timers::new();
        timers.arm(at(0), at(3_000));
        timers.arm(at(0), at(1_000));
        // Further away again: the wake-up at one second finds that, and asks for the next.
        timers.arm(at(0), at(3_000));
        let told = timers.run(0..10_000, at(3_000));
        assert!(matches!(told[..2], [first, second] if first <= 1_020 && (3_000..=3_020).contains(&second)));
    }

    #[test]
    fn an_outdated_deadline_in_the_wheel_causes_no_wakeup() {
        let mut timers = Timers::new();
        timers.arm(at(0), at(3_000));
        timers.arm(at(0), at(1_000));
        let told = timers.run(0..9_000, at(7_000));
        assert!(
            matches!(told[..], [first, second, ..] if first <= 1_020 && (7_000..=7_020).contains(&second))
        );
    }

    #[test]
    fn a_far_deadline_leaves_nothing_far_ahead_in_the_wheel() {
        let mut timers = Timers::new();
        let far = at(4 * 3_600_000);
        timers.arm(at(0), far);
        timers.arm(at(0), far);
        let told = timers.run(0..200_000, far);
        assert!(matches!(told[..], [60_000..=60_020, 120_000..=120_060, 180_000..=180_100]), "{told:?}");
        timers.legs.remove(timers.key);
        assert!(timers.run(200_000..260_000, far).is_empty());
        assert!(timers.ticker.wheel.is_empty(), "a call that is over leaves nothing");
    }
}
