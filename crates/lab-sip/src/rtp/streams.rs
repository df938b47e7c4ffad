//! The media of one shard's calls: turned by the shard's loop, it sends what is due and reads what came.
//!
//! `CallMediaControl` (in `control`) is the calls' side; the shard's loop calls [`MediaStreams::turn`] when something is due and
//! [`MediaStreams::handle_ready`] for each readable socket. Packets that both produce leave in one batch.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use mmsg::{Datagram, Receiver};
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};
use stdx::time::Instant;
use stdx::wheel::Wheel;

use super::batch::PacketBatch;
use super::call::CallMedia;
use super::late_reads::LateReads;
use super::play::Player;
use super::ports::MediaPort;
use super::receiver::ReceiveAction;
use super::run_media::RunMedia;
use crate::stats::{Count, Stats};

/// How far the kernel's time of arrival may be from the start of the turn before it is not believed: the wall clock was set in between.
const CLOCK_TRUST: Duration = Duration::from_secs(1);

/// Microseconds between two looks at due players: packets of one stream are 20 ms apart, and their jitter is measured.
const TICK_MICROS: u64 = 500;

/// Batches read from one socket before others have their turn. The rest waits for the next turn.
const READ_ROUNDS: usize = 16;

/// All media of a shard.
pub struct MediaStreams {
    /// Files, ports and options of the run.
    pub(super) shared: Arc<RunMedia>,
    /// The registry of the shard's poll.
    registry: Registry,
    /// The first token of media; a socket's is this and its place in `watched`.
    token_base: usize,
    /// Sockets this shard reads, by token. Calls own them; one that is gone leaves its place.
    watched: Vec<Weak<MediaPort>>,
    /// Places of `watched` whose socket is closed.
    free: Vec<usize>,
    /// Sockets whose reading was cut short.
    unread: Vec<usize>,
    /// Ports that are read ten times a second, beside those of `watched`.
    late: LateReads,
    /// The wall clock's time at the start of the present turn. The kernel's times of arrival are that clock's, and count by their distance.
    wall: Duration,
    /// Calls with media, by number.
    pub(super) calls: HashMap<u64, Box<CallMedia>>,
    /// Everything that is being played.
    pub(super) players: Slab<Player>,
    /// The players by their next packet.
    pub(super) schedule: Wheel<Key, TICK_MICROS>,
    /// Memory for the players that are due in a turn.
    due: Vec<Key>,
    /// Packets of the turn.
    batch: PacketBatch,
    /// For SSRCs, sequence numbers and keys.
    pub(super) rng: Rng,
    /// Ports that are only mentioned, by offset.
    pub(super) mentioned: Vec<(i32, u16)>,
    /// The ports of `-rtp_echo`, held for the run by the first shard.
    echo_ports: Vec<Arc<MediaPort>>,
}

impl MediaStreams {
    /// `registry` is the shard's; tokens from `token_base` on are for [`MediaStreams::handle_ready`]. The first shard binds the
    /// ports of `-rtp_echo`.
    pub fn new(
        shared: &Arc<RunMedia>,
        shard: usize,
        registry: Registry,
        token_base: usize,
        now: Instant,
        rng: Rng,
    ) -> Result<MediaStreams, String> {
        let mut streams = MediaStreams {
            shared: Arc::clone(shared),
            registry,
            token_base,
            watched: Vec::new(),
            free: Vec::new(),
            unread: Vec::new(),
            late: LateReads::new(now),
            wall: Duration::ZERO,
            calls: HashMap::new(),
            players: Slab::new(),
            schedule: Wheel::new(now),
            due: Vec::new(),
            batch: PacketBatch::new(),
            rng,
            mentioned: Vec::new(),
            echo_ports: Vec::new(),
        };
        if shared.options.echo && shard == 0 {
            for offset in [0, 2] {
                let port = shared.ports.fixed(offset)?;
                let port = streams.watch_new(port)?;
                streams.echo_ports.push(port);
            }
        }
        Ok(streams)
    }

    /// A turn of the shard's loop begins: its time on the run's clock and, read with it, on the wall clock.
    pub fn begin_turn(&mut self, now: Instant, wall: Duration) {
        self.late.turned = now;
        self.wall = wall;
    }

    /// When [`MediaStreams::turn`] next has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        if !self.unread.is_empty() {
            return Some(Instant::default());
        }
        self.schedule.deadline().into_iter().chain(self.late.deadline()).min()
    }

    /// Sends what is due, all of it in as few system calls as its sockets allow. Then reads what was left unread, and the ports that are read
    /// late. Returns the number of players that were due.
    pub fn turn(&mut self, receiver: &mut Receiver, now: Instant, stats: &mut Stats) -> u64 {
        let played = self.play_due(now, stats);
        for index in std::mem::take(&mut self.unread) {
            self.read(index, receiver, now, stats);
        }
        let mut received = self.take_uncounted();
        let MediaStreams { late, batch, wall, .. } = self;
        let turn = TurnStart { now, wall: *wall };
        late.turn(now, |port| {
            let before = received;
            // Datagrams that a flood leaves are read the next time.
            empty(port, receiver, turn, batch, &mut received);
            received - before
        });
        stats.add(Count::RtpReceived, received);
        self.batch.flush(now, stats);
        played
    }

    fn play_due(&mut self, now: Instant, stats: &mut Stats) -> u64 {
        let mut due = std::mem::take(&mut self.due);
        self.schedule.expire(now, &mut due);
        let played = due.len() as u64;
        for key in due.drain(..) {
            self.play(key, now);
        }
        self.due = due;
        self.batch.flush(now, stats);
        played
    }

    /// A socket of ours is readable. `receiver` is the shard's memory for what it reads.
    pub fn handle_ready(&mut self, token: Token, receiver: &mut Receiver, now: Instant, stats: &mut Stats) {
        if let Some(index) = token.0.checked_sub(self.token_base) {
            self.read(index, receiver, now, stats);
            self.batch.flush(now, stats);
        }
    }

    /// Calls that have media now.
    pub fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// Sockets open in the whole run.
    pub fn open_sockets(&self) -> usize {
        self.shared.ports.open()
    }

    /// Everything of this player that is due by now.
    fn play(&mut self, key: Key, now: Instant) {
        let Some(player) = self.players.get_mut(key) else { return };
        player.armed = false;
        let next = loop {
            match player.source.due() {
                Some(due) if due <= now => {
                    player.emit(due, &mut self.batch);
                }
                next => break next,
            }
        };
        match next {
            Some(next) => {
                player.armed = true;
                self.schedule.insert(next, key);
            }
            None if player.source.is_over() => self.stop(key),
            // Paused: resuming puts it back.
            None => {}
        }
    }

    /// Forgets a player and adds up what it sent.
    pub(super) fn stop(&mut self, key: Key) {
        let Some(player) = self.players.remove(key) else { return };
        if let Some(call) = self.calls.get_mut(&player.call) {
            call.ended(&player, key);
        }
    }

    /// Reads what has come to the ports of a call's medium that are read late, so that the call's figures are of this moment.
    pub(super) fn catch_up(&mut self, call: u64, video: bool) {
        if !self.shared.reads_late {
            return;
        }
        let Some(media) = self.calls.get_mut(&call) else { return };
        let medium = media.medium(video);
        let LateReads { receiver, turned, uncounted, .. } = &mut self.late;
        let turn = TurnStart { now: *turned, wall: self.wall };
        for port in [&medium.port, &medium.stream_port].into_iter().flatten().filter(|port| !port.is_of_many)
        {
            empty(port, receiver, turn, &mut self.batch, uncounted);
        }
    }

    /// The packets that [`MediaStreams::catch_up`] has read since they were counted last.
    pub(super) fn take_uncounted(&mut self) -> u64 {
        std::mem::take(&mut self.late.uncounted)
    }

    /// Reads the socket of a port that was just bound; other sockets are read by the shard that bound them.
    pub(super) fn watch_new(
        &mut self,
        (port, is_new): (Arc<MediaPort>, bool),
    ) -> Result<Arc<MediaPort>, String> {
        if !is_new {
            return Ok(port);
        }
        // Best effort: without it the time of arrival is the time of the read.
        let is_stamped = mmsg::want_timestamps(port.socket.as_fd()).is_ok();
        if self.shared.reads_late && is_stamped && !port.is_of_many {
            self.late.add(&port);
            return Ok(port);
        }
        self.sweep();
        let index = self.free.pop().unwrap_or(self.watched.len());
        let token = Token(self.token_base + index);
        let fd = port.socket.as_raw_fd();
        self.registry
            .register(&mut SourceFd(&fd), token, Interest::READABLE)
            .map_err(|error| format!("media port {} cannot be watched: {error}", port.number))?;
        let entry = Arc::downgrade(&port);
        match self.watched.get_mut(index) {
            Some(place) => *place = entry,
            None => self.watched.push(entry),
        }
        Ok(port)
    }

    /// Collects the free places of closed sockets before `watched` would grow.
    fn sweep(&mut self) {
        if self.free.is_empty() && self.watched.len() == self.watched.capacity() {
            let closed_port =
                |(index, port): (usize, &Weak<MediaPort>)| (port.strong_count() == 0).then_some(index);
            self.free.extend(self.watched.iter().enumerate().filter_map(closed_port));
        }
    }

    fn read(&mut self, index: usize, receiver: &mut Receiver, now: Instant, stats: &mut Stats) {
        // An event of a socket that was closed since.
        let Some(port) = self.watched.get(index).and_then(Weak::upgrade) else { return };
        let mut received = 0;
        let turn = TurnStart { now, wall: self.wall };
        if !empty(&port, receiver, turn, &mut self.batch, &mut received) {
            self.unread.push(index);
        }
        stats.add(Count::RtpReceived, received);
    }
}

/// Reads a port until it has no more, `READ_ROUNDS` batches at most. False: it has more. Adds the packets of RTP to `received`.
fn empty(
    port: &Arc<MediaPort>,
    receiver: &mut Receiver,
    turn: TurnStart,
    batch: &mut PacketBatch,
    received: &mut u64,
) -> bool {
    // Calls of two shards may share a port that is read late: packets are measured in their order.
    let _reading = port.reading.lock();
    for _ in 0..READ_ROUNDS {
        let count = receiver.receive(port.socket.as_fd(), |datagram| {
            *received += u64::from(!media::rtp::is_rtcp(datagram.bytes));
            arrive(port, &datagram, turn, batch);
        });
        match count {
            Ok(mmsg::BATCH) => {}
            // Fewer than asked for: the socket is empty, and readiness is told again with the next packet.
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
    false
}

/// One datagram at one of our ports.
fn arrive(port: &Arc<MediaPort>, datagram: &Datagram<'_>, turn: TurnStart, batch: &mut PacketBatch) {
    let bytes = datagram.bytes;
    let sink = port.routes.lock().find(datagram.remote, ssrc(bytes));
    let at = turn.arrival(datagram.received);
    let start = batch.bytes().len();
    let then = match sink {
        Some(sink) => sink.with(|received| received.handle(at, bytes, port.echo, batch.bytes())),
        None if port.echo => {
            batch.bytes().extend_from_slice(bytes);
            ReceiveAction::SendBack
        }
        None => ReceiveAction::Nothing,
    };
    match then {
        ReceiveAction::SendBack => batch.push(Arc::clone(port), datagram.remote, start, None),
        ReceiveAction::Nothing => batch.bytes().truncate(start),
    }
}

/// The SSRC field of an RTP header; 0 for what is too short.
fn ssrc(bytes: &[u8]) -> u32 {
    bytes.get(8..12).and_then(|field| field.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The start of a turn on the run's clock and on the wall clock.
#[derive(Debug, Clone, Copy)]
struct TurnStart {
    now: Instant,
    wall: Duration,
}

impl TurnStart {
    /// The time of the run at which the kernel had a packet; the start of the turn without a stamp that is near it. The run's clock goes on
    /// evenly, so a wall clock that was set in an earlier turn changes nothing.
    fn arrival(self, stamp: Option<Duration>) -> Instant {
        let Some(stamp) = stamp else { return self.now };
        let (before, after) = (self.wall.saturating_sub(stamp), stamp.saturating_sub(self.wall));
        if before.max(after) < CLOCK_TRUST { self.now + after - before } else { self.now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_distances_when_the_wall_clock_was_set() {
        let now = Instant::from_unix_seconds(1_000_000);
        // An hour behind the run's clock, a day before it, and the same.
        for wall in [1_000_000 - 3_600, 1_000_000 + 86_400, 1_000_000] {
            let turn = TurnStart { now, wall: Duration::from_secs(wall) };
            for millis in [80, 60, 40, 20, 0] {
                let age = Duration::from_millis(millis);
                assert_eq!(turn.arrival(Some(turn.wall - age)), now - age, "{wall}");
                assert_eq!(turn.arrival(Some(turn.wall + age)), now + age, "{wall}");
            }
            // It was set between the arrival and the turn.
            for stamp in [turn.wall - Duration::from_secs(60), turn.wall + Duration::from_secs(60)] {
                assert_eq!(turn.arrival(Some(stamp)), now);
            }
            assert_eq!(turn.arrival(None), now);
        }
    }
}
