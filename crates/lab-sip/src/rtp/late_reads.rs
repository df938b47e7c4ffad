//! Ports whose packets are only measured. The kernel stamps their packets and keeps them, so such a port is read ten times a second, several
//! packets with one system call, and a packet that arrives wakes no thread.
//!
//! `MediaStreams` adds a port when a call binds it, reads the ports that are due in its turn, and reads those of one call before it looks at
//! what that call has received. A run in which some scenario sends packets back has no such ports (`RunMedia::reads_late`).

use std::sync::{Arc, Weak};
use std::time::Duration;

use mmsg::Receiver;
use stdx::slab::{Key, Slab};
use stdx::time::Instant;
use stdx::wheel::Wheel;

use super::ports::MediaPort;

/// Five packets of sound with one system call. A socket of the usual size holds five seconds of sound.
const EVERY: Duration = Duration::from_millis(100);

/// The next read of a port with much more than sound, which would fill its socket's buffer.
const SOON: Duration = Duration::from_millis(20);

/// Packets of one read from which on a port is read again [`SOON`].
const MANY: u64 = 16;

/// Microseconds between two looks at due ports: all ports of a tick are read at once, and packets to send wait meanwhile.
const TICK_MICROS: u64 = 2_000;

/// The ports of one shard that are read late.
pub(super) struct LateReads {
    /// Calls own them.
    ports: Slab<Weak<MediaPort>>,
    /// The ports by their next read.
    schedule: Wheel<Key, TICK_MICROS>,
    /// Memory for the ports that are due in a turn.
    due: Vec<Key>,
    /// Memory for reads between two turns.
    pub(super) receiver: Receiver,
    /// The start of the last turn, by which the kernel's times of arrival are judged between two turns.
    pub(super) turned: Instant,
    /// Packets of reads between two turns, until they are counted.
    pub(super) uncounted: u64,
}

impl LateReads {
    pub(super) fn new(now: Instant) -> LateReads {
        LateReads {
            ports: Slab::new(),
            schedule: Wheel::new(now),
            due: Vec::new(),
            receiver: Receiver::new(),
            turned: now,
            uncounted: 0,
        }
    }

    /// The port is read from now on, until no call has it any more.
    pub(super) fn add(&mut self, port: &Arc<MediaPort>) {
        let key = self.ports.insert(Arc::downgrade(port));
        self.schedule.insert(self.turned + EVERY, key);
    }

    /// The time of the next read.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.schedule.deadline()
    }

    /// Reads the ports that are due; `read` returns the number of its packets.
    pub(super) fn turn(&mut self, now: Instant, mut read: impl FnMut(&Arc<MediaPort>) -> u64) {
        self.turned = now;
        let mut due = std::mem::take(&mut self.due);
        self.schedule.expire(now, &mut due);
        for key in due.drain(..) {
            let Some(port) = self.ports.get(key).and_then(Weak::upgrade) else {
                self.ports.remove(key);
                continue;
            };
            let next = if read(&port) < MANY { EVERY } else { SOON };
            self.schedule.insert(now + next, key);
        }
        self.due = due;
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use stdx::rng::Rng;

    use super::super::tests::{START, Side, load, scenario};
    use super::super::{PortKind, Requirement};
    use super::*;
    use crate::call::CallMediaControl;
    use crate::stats::Count;

    const MS: Duration = Duration::from_millis(1);

    /// RFC 3550 §5.1: 20 ms of PCMA.
    fn packet(sequence: u16) -> Vec<u8> {
        let timestamp = u32::from(sequence) * 160;
        let header = media::rtp::Header { payload_type: 8, sequence, timestamp, ..Default::default() };
        let mut bytes = Vec::new();
        header.write(&[0xd5; 160], &mut bytes);
        bytes
    }

    fn exactly(packets: u64) -> Requirement {
        Requirement { min_packets: Some(packets), max_packets: Some(packets), ..Requirement::default() }
    }

    /// A side whose scenario has this action, the port of its first call, and a peer that sends there.
    fn side(action: &str) -> (Side, impl Fn(u16)) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut side =
            Side::shard(&load(&scenario(dir.path(), action)).expect("it loads"), 0, Rng::seeded(1));
        let port = side.streams.port(1, PortKind::Auto, 0).expect("a port");
        let peer = UdpSocket::bind("127.0.71.21:0").expect("a socket");
        let send = move |sequence| {
            peer.send_to(&packet(sequence), ("127.0.71.20", port)).expect("sent");
        };
        (side, send)
    }

    #[test]
    fn packets_wait_in_the_kernel_until_their_port_is_due_or_their_call_is_looked_at() {
        let (mut side, send) = side("<rtpcheck min_packets='1'/>");
        send(1);
        assert!(!side.turn(START + 50 * MS, Duration::ZERO), "the packet wakes nothing");
        assert_eq!(side.stats.counts[Count::RtpReceived], 0);
        assert_eq!(side.check(1, &exactly(1)), Ok(()));
        send(2);
        side.turn(START + 90 * MS, Duration::ZERO);
        assert_eq!(side.stats.counts[Count::RtpReceived], 1, "the one that the check has read");
        side.turn(START + 102 * MS, Duration::ZERO);
        assert_eq!(side.stats.counts[Count::RtpReceived], 2);
        send(3);
        side.close(1);
        assert_eq!((side.stats.media.packets, side.stats.counts[Count::RtpReceived]), (3, 3));
        side.turn(START + 300 * MS, Duration::ZERO);
        assert_eq!(side.streams.deadline(), None, "the port is closed");
    }

    #[test]
    fn a_scenario_that_sends_packets_back_reads_them_as_they_come() {
        for action in ["<rtp_echo value='1'/>", "<exec rtp_echo='startaudio,8,PCMA/8000'/>"] {
            let (mut side, send) = side(action);
            send(1);
            assert!(side.turn(START + MS, Duration::from_secs(10)), "{action}");
            assert_eq!(side.stats.counts[Count::RtpReceived], 1, "{action}");
        }
    }
}
