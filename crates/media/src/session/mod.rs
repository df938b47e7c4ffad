//! One leg's media: packets in and events out, and on every tick of 20 ms at most one packet of RTP.
//!
//! A tick has two halves, so that legs feed each other without knowing each other: [`MediaSession::pull_frame`] takes the
//! frame that is due out of the jitter buffer, [`MediaSession::send_frame`] sends one. Between them the owner passes the
//! frame that one leg received to its peer, or to a conference. A leg alone uses [`MediaSession::tick`].
//!
//! [`MediaSession`] composes four parts: `media_peer` (the negotiated description, addresses, SRTP), `receive_path`,
//! `send_path`, and the `sinks` that consume the sound.

mod digits;
mod latch;
mod media_peer;
mod playback;
mod receive_path;
mod received;
mod recording;
mod security;
mod send_path;
mod silence;
mod sinks;
mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod transcoder;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stdx::time::Instant;

use self::media_peer::MediaPeer;
use self::receive_path::{Datagram, ReceivePath};
use self::recording::{RatedSamples, Recording};
use self::send_path::SendPath;
use self::sinks::Sinks;
use crate::codec::{Codec, Error};
use crate::events::Digit;
use crate::jitter::JitterCounts;
use crate::limits::FRAME_MS;
use crate::prompt::Prompt;
use crate::quality::Summary;
use crate::sdp::Negotiated;
use crate::speech::{SpeechDetector, SpeechEvent, SpeechOptions};

/// The output of a leg.
pub trait MediaOutbox {
    /// Sends an RTP packet.
    fn rtp(&mut self, to: SocketAddr, packet: &[u8]);
    /// Sends an RTCP packet.
    fn rtcp(&mut self, to: SocketAddr, packet: &[u8]);
    /// Reports an event of the session.
    fn event(&mut self, event: MediaEvent);
    /// The next piece of the recording: at most 220 ms of samples at [`MediaSession::record_rate`], two channels interleaved where
    /// asked for.
    fn recorded(&mut self, _samples: &[i16]) {}
    /// A tapped leg's frame in both directions, the one at [`MediaSession::rate`], the other at that of the codec sent;
    /// empty where there was nothing.
    fn tapped(&mut self, _received: &[i16], _sent: &[i16]) {}
}

/// An event of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaEvent {
    /// The peer pressed a key.
    Digit {
        /// The key.
        digit: Digit,
        /// The form in which it came.
        by: DigitSource,
    },
    /// The speech detection, where it is on, has a result.
    Speech(SpeechEvent),
    /// A prompt came to its end by itself.
    PromptEnded {
        /// [`PlayOptions::id`] of the prompt.
        id: u64,
    },
    /// The last digit given to [`MediaSession::send_digits`] is out.
    DigitsSent,
    /// Media goes to this address from now on.
    Latched(SocketAddr),
    /// Neither RTP nor RTCP of the peer came for this long, while some was expected. Reported once a silence.
    NoMedia(Duration),
}

/// The form in which a digit came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigitSource {
    /// RFC 4733.
    Event,
    /// In the sound.
    Tone,
}

/// The outcome of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramOutcome {
    /// It was processed.
    Taken,
    /// From an address that has no business here.
    Stranger,
    /// Neither RTP nor RTCP, or an SRTP packet that is not authentic.
    Malformed,
    /// A payload type that was not negotiated.
    Unknown,
}

/// Datagrams that were not taken, by their outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedDatagrams {
    /// Datagrams from an address that is not the peer's.
    pub strangers: u64,
    /// Datagrams that are neither RTP nor RTCP, or not authentic.
    pub malformed: u64,
    /// Packets of a payload type that was not negotiated.
    pub unknown: u64,
}

impl DroppedDatagrams {
    fn count(&mut self, outcome: DatagramOutcome) {
        match outcome {
            DatagramOutcome::Taken => {}
            DatagramOutcome::Stranger => self.strangers += 1,
            DatagramOutcome::Malformed => self.malformed += 1,
            DatagramOutcome::Unknown => self.unknown += 1,
        }
    }
}

/// Buffers that all legs of a thread share for the time of one call; a leg keeps only its own.
#[derive(Default)]
pub struct TickWork {
    /// A datagram being decrypted or written.
    packet: Vec<u8>,
    /// The payload of the frame being sent, or of a packet being decoded.
    payload: Vec<u8>,
    scratch: Scratch,
}

/// Buffers of a conversion between codecs.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) samples: Vec<i16>,
    pub(crate) resampled: Vec<i16>,
}

/// The source of the frame that a leg sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrameSource<'a> {
    /// There is no frame in this tick.
    #[default]
    None,
    /// A frame as the peer's leg heard it: passed on as it is, or transcoded.
    Payload {
        /// The codec of the payload.
        codec: Codec,
        /// The payload of one frame.
        payload: &'a [u8],
    },
    /// A frame of 20 ms at 8, 16 or 48 kHz.
    Samples {
        /// The sample rate, in Hz.
        rate: u32,
        /// The samples of one frame, one channel.
        samples: &'a [i16],
    },
}

/// The options for playing a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlayOptions {
    /// Comes back in [`MediaEvent::PromptEnded`].
    pub id: u64,
    /// Times; `None` until stopped.
    pub loops: Option<u32>,
    /// Milliseconds from its beginning at which the first time begins.
    pub offset_ms: u64,
}

impl PlayOptions {
    /// Once, from the beginning.
    pub fn once(id: u64) -> PlayOptions {
        PlayOptions { id, loops: Some(1), offset_ms: 0 }
    }
}

/// The directions that a recording has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSource {
    /// The sound from the peer.
    Received,
    /// Both directions in one channel.
    Both,
    /// The sound from the peer on the left, the sound to it on the right.
    Dual,
}

/// The media of one leg.
pub struct MediaSession {
    /// The other end: description, addresses, keys.
    peer: MediaPeer,
    /// The stream that goes out.
    send: SendPath,
    /// The stream that comes in.
    receive: ReceivePath,
    /// The consumers of the sound.
    sinks: Sinks,
}

impl MediaSession {
    /// `seed`: random, for SSRC, first sequence number and timestamp (RFC 3550 §5.1). `trusted`: the address from which
    /// the signalling comes; media from there is the peer's too, wherever its SDP points, and no other address is sent
    /// anything before it has sent. `None` trusts the SDP. A codec that is not spoken here is an error.
    pub fn new(negotiated: Negotiated, seed: u64, trusted: Option<IpAddr>) -> Result<MediaSession, Error> {
        let incoming = negotiated.audio;
        let mut session = MediaSession {
            send: SendPath::new(incoming.codec, seed)?,
            receive: ReceivePath::new(incoming),
            sinks: Sinks::default(),
            peer: MediaPeer::new(negotiated, trusted),
        };
        session.detect_tones(session.peer.negotiated.receive_events.is_empty());
        Ok(session)
    }

    /// Takes the result of a re-offer. The stream goes on with its SSRC and numbers; a prompt goes on too, transcoded if need be.
    pub fn renegotiate(&mut self, negotiated: Negotiated) -> Result<(), Error> {
        if negotiated.audio.codec != self.peer.negotiated.audio.codec {
            self.send.change_codec(negotiated.audio.codec)?;
            self.sinks.change_sent_codec();
            self.receive.change(negotiated.audio);
        }
        let had_events = !self.peer.negotiated.receive_events.is_empty();
        self.peer.renegotiate(negotiated);
        if had_events && self.peer.negotiated.receive_events.is_empty() {
            self.receive.end_events();
        }
        Ok(())
    }

    /// The address that the signalling comes from, where it was not known at the start or is another now: media from there is
    /// the peer's. Media may go there first if the address `is_proved` to receive what is sent to it.
    pub fn trust_signalling(&mut self, address: IpAddr, is_proved: bool) {
        self.peer.latch.trust(address, is_proved);
    }

    /// True if media may go to the SDP's address before any came from there, although the signalling comes from another:
    /// for media gateways that the operator has named.
    pub fn trust_description(&mut self, is_trusted: bool) {
        self.peer.latch.vouch(is_trusted);
    }

    /// Reports [`MediaEvent::NoMedia`] once nothing came for so long; `None`: never.
    pub fn limit_silence(&mut self, limit: Option<Duration>) {
        self.receive.silence.limit(limit);
    }

    /// The result of the last offer and answer.
    pub fn negotiated(&self) -> &Negotiated {
        &self.peer.negotiated
    }

    /// The synchronization source of the packets sent.
    pub fn ssrc(&self) -> u32 {
        self.send.stream.ssrc
    }

    /// The sample rate of the received sound, in Hz.
    pub fn rate(&self) -> u32 {
        self.receive.audio.rate()
    }

    /// Plays from the next tick on, instead of the current prompt: that one's id and position.
    pub fn play(&mut self, prompt: Prompt, options: PlayOptions) -> Option<(u64, u64)> {
        let stopped = self.stop();
        self.send.playback.play(prompt, options);
        stopped
    }

    /// Nothing of the prompt is sent any more: its id, and its position in milliseconds.
    pub fn stop(&mut self) -> Option<(u64, u64)> {
        self.send.stop()
    }

    /// True while a prompt is played.
    pub fn is_playing(&self) -> bool {
        self.send.playback.is_playing()
    }

    /// Silence is sent where there is nothing to say, for peers that take a pause for a dead line. Without it nothing is.
    pub fn send_silence(&mut self, on: bool) -> Result<(), Error> {
        let codec = self.peer.negotiated.audio.codec;
        let fill = if on { Some(Prompt::pause(codec, FRAME_MS)?) } else { None };
        self.send.playback.set_fill(fill);
        Ok(())
    }

    /// As events, or as tones when the peer takes none, before whatever else there is to say. `false`, and nothing is
    /// sent, when more than 64 would wait.
    pub fn send_digits(&mut self, digits: &[Digit]) -> bool {
        self.send.queue_digits(&self.peer.negotiated, digits)
    }

    /// True once an event of RFC 4733 came: keys that come in another form, too, are the same presses.
    pub fn hears_events(&self) -> bool {
        self.receive.hears_events()
    }

    /// Detects digits in the sound. On where no events are negotiated; once an event came, tones are ignored until events
    /// are not negotiated any more.
    pub fn detect_tones(&mut self, on: bool) {
        self.receive.detect_tones(on);
    }

    /// Speech and silence from now on, or no more.
    pub fn detect_speech(&mut self, options: Option<SpeechOptions>) {
        self.sinks.speech = options.map(SpeechDetector::new);
    }

    /// Records from the next tick on; the samples go to [`MediaOutbox::recorded`].
    pub fn record(&mut self, source: RecordSource) {
        self.sinks.recording = Some(Recording::new(source, self.rate()));
    }

    /// The rate of the samples of [`MediaOutbox::recorded`], in Hz: that of the codec when the recording began.
    pub fn record_rate(&self) -> Option<u32> {
        self.sinks.recording.as_ref().map(|recording| recording.rate)
    }

    /// The last piece goes to `out`.
    pub fn stop_recording(&mut self, out: &mut impl MediaOutbox) {
        if let Some(recording) = self.sinks.recording.take().filter(|recording| !recording.samples.is_empty())
        {
            out.recorded(&recording.samples);
        }
    }

    /// Both directions as samples, every tick.
    pub fn tap(&mut self, on: bool) {
        self.sinks.is_tapped = on;
    }

    /// True if [`MediaSession::received_frame`] is wanted: a bridge's leg.
    pub fn listen(&mut self, on: bool) {
        self.sinks.is_listened = on;
    }

    /// True if [`MediaSession::received_samples`] is wanted: a conference's leg.
    pub fn listen_decoded(&mut self, on: bool) {
        self.sinks.is_mixed = on;
    }

    /// True if the peer's sound is silence to all sinks.
    pub fn mute(&mut self, on: bool) {
        self.sinks.is_muted = on;
    }

    /// A datagram from the leg's port, RTP or RTCP. Digits sent as events are told at once.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        source: SocketAddr,
        bytes: &[u8],
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) -> DatagramOutcome {
        let datagram = Datagram { now, source, bytes };
        self.receive.handle_packet(&mut self.peer, &self.sinks, datagram, work, out)
    }

    /// The first half of a tick: the frame that is due, for every sink.
    pub fn pull_frame(&mut self, now: Instant, work: &mut TickWork, out: &mut impl MediaOutbox) {
        self.receive.pull_frame(now, &mut self.sinks, work, out);
        // Keys and speech of a muted peer are still reported.
        if self.sinks.is_muted {
            self.receive.audio.mute();
        }
    }

    /// This tick's frame for a peer's [`MediaSession::send_frame`]: as it came, or decoded where packets are shorter than a
    /// frame.
    pub fn received_frame(&self) -> FrameSource<'_> {
        let audio = &self.receive.audio;
        if audio.is_short && audio.has_sound {
            return FrameSource::Samples { rate: audio.rate(), samples: &audio.samples };
        }
        if audio.is_short || audio.payload.is_empty() {
            return FrameSource::None;
        }
        FrameSource::Payload { codec: audio.incoming.codec, payload: &audio.payload }
    }

    /// This tick's frame at [`MediaSession::rate`], losses concealed; empty when no sink wanted it decoded.
    pub fn received_samples(&self) -> &[i16] {
        &self.receive.audio.samples
    }

    /// The second half of a tick. Digits go first, then tones and prompts, then the frames of the partner leg.
    pub fn send_frame(
        &mut self,
        now: Instant,
        feed: FrameSource<'_>,
        work: &mut TickWork,
        out: &mut impl MediaOutbox,
    ) {
        self.sinks.clear_sent();
        self.send.send_frame(&mut self.peer, &mut self.sinks, feed, work, out);
        let received = RatedSamples { rate: self.receive.audio.rate(), samples: &self.receive.audio.samples };
        self.sinks.keep(received, self.peer.negotiated.audio.codec.sample_rate(), work, out);
        if self.send.stream.is_report_due(now) {
            self.receive.check_silence(now, &self.peer, out);
            let blocks = self.receive.report_blocks(now);
            self.send.report(now, blocks, &mut self.peer, work, out);
        }
    }

    /// Both halves of a tick, for a leg alone.
    pub fn tick(&mut self, now: Instant, work: &mut TickWork, out: &mut impl MediaOutbox) {
        self.pull_frame(now, work, out);
        self.send_frame(now, FrameSource::None, work, out);
    }

    /// The end of the stream: a BYE (RFC 3550 §6.6), and the last piece of a recording.
    pub fn finish(&mut self, now: Instant, work: &mut TickWork, out: &mut impl MediaOutbox) {
        self.stop_recording(out);
        let blocks = self.receive.report_blocks(now);
        self.send.finish(now, blocks, &mut self.peer, work, out);
    }

    /// The quality of the received stream.
    pub fn summary(&self) -> Summary {
        self.receive.quality.summary()
    }

    /// The counts of the jitter buffer, which is there only while a sink wants the sound.
    pub fn counts(&self) -> JitterCounts {
        self.receive.audio.counts()
    }

    /// The datagrams that were dropped, by reason.
    pub fn dropped(&self) -> DroppedDatagrams {
        self.receive.dropped
    }

    /// Packets and bytes of payload sent.
    pub fn sent(&self) -> (u32, u32) {
        (self.send.stream.packets, self.send.stream.bytes)
    }

    /// The address to which media goes now.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.peer.latch.address()
    }

    /// Bytes that the leg holds, codec states aside: itself and its heap.
    pub fn size(&self) -> usize {
        size_of::<MediaSession>() + self.send.size() + self.receive.size() + self.sinks.size()
    }
}
