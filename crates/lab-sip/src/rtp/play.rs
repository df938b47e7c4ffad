//! Players: one for each thing that a call plays, paced from its own origin, so that a late packet delays no other.
//!
//! A player is due at times that its source computes from its origin, never from the packet before. [`Player::emit`] puts one packet into the
//! batch. A capture keeps the distances of its packets; a sound sends frames at an even pace.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use media::events::{EventOptions, EventSender};
use media::pcap::{Capture, CapturedPacket};
use media::rtp::{self, Header};
use stdx::rng::Rng;
use stdx::time::Instant;

use super::batch::PacketBatch;
use super::files::Recording;
use super::ports::MediaPort;
use super::receiver::MediaReceiver;
use super::sound::Encoded;
use super::spec::DtmfSpec;

/// The slots of simultaneous players; a second player in the same slot replaces the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlayerSlot {
    /// `play_pcap_audio`.
    PlayAudio,
    /// `play_pcap_video`.
    PlayVideo,
    /// `play_pcap_image`.
    PlayImage,
    /// `play_pcap_text`.
    PlayText,
    /// `play_dtmf`.
    Digits,
    /// `rtp_stream`, audio.
    StreamAudio,
    /// `rtp_stream`, video.
    StreamVideo,
}

impl PlayerSlot {
    /// The number of slots.
    pub(super) const N: usize = PlayerSlot::StreamVideo as usize + 1;

    pub(super) fn is_video(self) -> bool {
        matches!(self, PlayerSlot::PlayVideo | PlayerSlot::StreamVideo)
    }
}

/// One thing that is being played.
pub(super) struct Player {
    /// The number of the call.
    pub(super) call: u64,
    pub(super) slot: PlayerSlot,
    /// The socket that its packets leave by.
    pub(super) port: Arc<MediaPort>,
    /// Ports beside it, by distance: where the RTCP of a capture leaves.
    pub(super) beside: Vec<(u16, Arc<MediaPort>)>,
    /// `None`: the other side has not said where; what is due meanwhile is not sent.
    pub(super) to: Option<SocketAddr>,
    /// The receiver of the other side's media; it also has the keys of ours.
    pub(super) sink: Arc<MediaReceiver>,
    /// Packets sent so far.
    pub(super) sent: u64,
    /// In the schedule.
    pub(super) armed: bool,
    pub(super) source: PlayerSource,
}

impl Player {
    /// The packet that is due leaves, if the other side has said where to.
    pub(super) fn emit(&mut self, due: Instant, batch: &mut PacketBatch) {
        let Some(mut to) = self.to else { return self.source.skip() };
        let start = batch.bytes().len();
        let distance = self.source.emit(batch.bytes());
        if !batch.protect(start, &self.sink) {
            return;
        }
        let mut port = &self.port;
        if distance != 0 {
            to.set_port(to.port().wrapping_add(distance));
            port = self.beside.iter().find(|(known, _)| *known == distance).map_or(port, |(_, port)| port);
        }
        batch.push(Arc::clone(port), to, start, Some(due));
        self.sent += 1;
    }
}

/// The packets of a player.
#[derive(Debug)]
pub(super) enum PlayerSource {
    /// A capture, or digits.
    Recorded(CapturePlayback),
    /// A sound file, or a pattern.
    Paced(SoundPlayback),
}

/// A capture, or digits made into one.
#[derive(Debug)]
pub(super) struct CapturePlayback {
    /// The packets with their times.
    recording: Arc<Recording>,
    /// The time of the first packet.
    origin: Instant,
    /// The index of the next packet.
    next: usize,
    /// `None`: packets are sent as they were recorded.
    rewrite: Option<RtpRewrite>,
}

/// Offsets that one play adds to the numbers of its capture.
#[derive(Debug, Clone, Copy)]
struct RtpRewrite {
    /// Combined by exclusive or, so that several SSRCs of a capture stay different.
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

/// A sound file or a pattern.
#[derive(Debug)]
pub(super) struct SoundPlayback {
    /// The payloads.
    sound: Arc<Encoded>,
    /// The time of the first packet.
    origin: Instant,
    /// Intervals since the origin, those paused included.
    slot: u64,
    /// The next payload.
    frame: usize,
    /// Passes to go; `None`: for ever.
    loops: Option<u32>,
    /// Nothing is due until it goes on.
    paused: bool,
    /// The header of the next packet.
    header: Header,
    /// The RTP timestamp at the origin.
    first_timestamp: u32,
}

impl PlayerSource {
    /// When the next packet is due. `None`: nothing for now; see [`PlayerSource::is_over`].
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            PlayerSource::Recorded(recorded) => recorded.due(),
            PlayerSource::Paced(paced) => paced.due(),
        }
    }

    /// The time of the last packet; `FAR_FUTURE` for what has no end, or is paused.
    pub(super) fn end(&self) -> Instant {
        match self {
            PlayerSource::Recorded(recorded) => recorded
                .recording
                .capture
                .packets
                .last()
                .map_or(recorded.origin, |packet| recorded.origin + packet.offset),
            PlayerSource::Paced(paced) => paced.end(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match self {
            PlayerSource::Recorded(recorded) => recorded.due().is_none(),
            PlayerSource::Paced(paced) => paced.loops == Some(0),
        }
    }

    /// Time passes and nothing is sent: a capture goes on, a sound file waits where it is, as SIPp's do.
    fn skip(&mut self) {
        match self {
            PlayerSource::Recorded(recorded) => recorded.next += 1,
            PlayerSource::Paced(paced) => paced.slot += 1,
        }
    }

    /// Appends the packet that is due and goes on to the next. The distance of its port above the base.
    pub(super) fn emit(&mut self, out: &mut Vec<u8>) -> u16 {
        match self {
            PlayerSource::Recorded(recorded) => recorded.emit(out),
            PlayerSource::Paced(paced) => paced.emit(out),
        }
    }
}

impl CapturePlayback {
    pub(super) fn new(
        recording: Arc<Recording>,
        origin: Instant,
        fresh: Option<&mut Rng>,
    ) -> CapturePlayback {
        let rewrite = fresh.map(|rng| RtpRewrite {
            // Never zero: the SSRC must differ from the one before.
            ssrc: (rng.next_u64() as u32) | 1,
            sequence: rng.next_u64() as u16,
            timestamp: rng.next_u64() as u32,
        });
        CapturePlayback { recording, origin, next: 0, rewrite }
    }

    fn packet(&self) -> Option<&CapturedPacket> {
        self.recording.capture.packets.get(self.next)
    }

    fn due(&self) -> Option<Instant> {
        self.packet().map(|packet| self.origin + packet.offset)
    }

    fn emit(&mut self, out: &mut Vec<u8>) -> u16 {
        let Some(packet) = self.packet() else { return 0 };
        let start = out.len();
        out.extend_from_slice(self.recording.capture.payload(packet));
        let distance = packet.destination_port - self.recording.base;
        if let Some(rewrite) = self.rewrite {
            rewrite.apply(&mut out[start..]);
        }
        self.next += 1;
        distance
    }
}

impl RtpRewrite {
    /// Only what reads as RTP; the RTCP beside it keeps its SSRC with the RTP's.
    fn apply(self, bytes: &mut [u8]) {
        if rtp::is_rtcp(bytes) {
            if let Some(field) = bytes.get_mut(4..8) {
                for (byte, other) in field.iter_mut().zip(self.ssrc.to_be_bytes()) {
                    *byte ^= other;
                }
            }
            return;
        }
        let Ok(packet) = rtp::Packet::parse(bytes) else { return };
        let Header { sequence, timestamp, ssrc, .. } = packet.header();
        rtp::renumber(
            bytes,
            ssrc ^ self.ssrc,
            sequence.wrapping_add(self.sequence),
            timestamp.wrapping_add(self.timestamp),
        );
    }
}

impl SoundPlayback {
    pub(super) fn new(sound: Arc<Encoded>, loops: Option<u32>, origin: Instant, ssrc: u32) -> SoundPlayback {
        // As SIPp: the clock of the stream is the clock of the machine, so streams of one call agree.
        let millis = sound.interval.as_millis().max(1) as u64;
        let timestamp = (origin.as_millis() * u64::from(sound.ticks) / millis) as u32;
        let header = Header { marker: true, payload_type: sound.payload_type, sequence: 1, timestamp, ssrc };
        SoundPlayback {
            sound,
            origin,
            slot: 0,
            frame: 0,
            loops,
            paused: false,
            header,
            first_timestamp: timestamp,
        }
    }

    fn due(&self) -> Option<Instant> {
        if self.paused || self.loops == Some(0) {
            return None;
        }
        Some(self.at(self.slot))
    }

    /// The time of an interval, computed from the origin, so that nothing adds up.
    fn at(&self, slot: u64) -> Instant {
        let micros = u64::try_from(self.sound.interval.as_micros()).unwrap_or(u64::MAX);
        self.origin + Duration::from_micros(slot.saturating_mul(micros))
    }

    fn end(&self) -> Instant {
        let Some(loops) = self.loops.filter(|_| !self.paused) else { return Instant::FAR_FUTURE };
        let frames = self.sound.frames.len() as u64;
        let left = u64::from(loops).saturating_mul(frames).saturating_sub(self.frame as u64);
        self.at(self.slot.saturating_add(left))
    }

    pub(super) fn pause(&mut self) {
        self.paused = true;
    }

    /// Goes on where it was; the timestamp has gone on meanwhile.
    pub(super) fn resume(&mut self, now: Instant) {
        if !self.paused {
            return;
        }
        self.paused = false;
        let interval = self.sound.interval.as_micros().max(1);
        let passed = u64::try_from(now.since(self.origin).as_micros().div_ceil(interval)).unwrap_or(u64::MAX);
        self.slot = self.slot.max(passed);
    }

    /// The timestamp follows the time, pauses included; the sequence number the packets.
    fn emit(&mut self, out: &mut Vec<u8>) -> u16 {
        let Some(frame) = self.sound.frames.get(self.frame) else { return 0 };
        self.header.timestamp =
            self.first_timestamp.wrapping_add((self.slot as u32).wrapping_mul(self.sound.ticks));
        self.header.write(&self.sound.bytes[frame.clone()], out);
        self.header.marker = false;
        self.header.sequence = self.header.sequence.wrapping_add(1);
        self.slot += 1;
        self.frame += 1;
        if self.frame == self.sound.frames.len() {
            self.frame = 0;
            self.loops = self.loops.map(|loops| loops.saturating_sub(1));
        }
        0
    }
}

/// Digits as a capture of their own: each as long as the pause behind it, as SIPp spaces them.
pub(super) fn digits(spec: &DtmfSpec, payload_type: u8, rng: &mut Rng) -> Recording {
    let ssrc = rng.next_u64() as u32;
    let mut sequence = rng.next_u64() as u16;
    let timestamp = rng.next_u64() as u32;
    let mut capture = Capture::default();
    let mut start_ms = 0;
    for digit in &spec.digits {
        let options = EventOptions { payload_type, duration_ms: spec.tone_ms, ..EventOptions::default() };
        let ticks = start_ms * (options.clock_rate / 1_000);
        let mut sender = EventSender::new(*digit, options, ssrc, sequence, timestamp.wrapping_add(ticks));
        for packet in sender.by_ref() {
            let start = capture.bytes.len();
            packet.header.write(&packet.payload, &mut capture.bytes);
            capture.packets.push(CapturedPacket {
                offset: Duration::from_millis(u64::from(start_ms + packet.offset_ms)),
                range: start..capture.bytes.len(),
                source_port: 0,
                destination_port: 0,
            });
        }
        sequence = sender.next_sequence();
        start_ms = start_ms.saturating_add(spec.tone_ms.saturating_mul(2));
    }
    Recording::new(capture)
}
