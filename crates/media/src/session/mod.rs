//! One leg's media: packets in and events out, and on every tick of 20 ms at most one packet of RTP.
//!
//! A tick has two halves, so that legs feed each other without knowing each other: [`MediaSession::hear`] takes the frame
//! that is due out of the jitter buffer, [`MediaSession::say`] sends one. Between them the owner passes what one leg heard to
//! its peer, or to a conference. A leg alone uses [`MediaSession::tick`].

mod digits;
mod hear;
mod latch;
pub(crate) mod outgoing;
mod playback;
mod received;
mod recording;
mod say;
mod security;
mod silence;
mod stream;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stdx::time::Instant;

use self::digits::{DigitReceiver, DigitSender};
use self::latch::Latch;
use self::outgoing::Outgoing;
use self::playback::Playback;
use self::received::ReceivedAudio;
use self::recording::Recording;
use self::security::Security;
use self::silence::Silence;
use self::stream::RtpStream;
use crate::codec::{Codec, Decoder, Error, PayloadType};
use crate::events::Digit;
use crate::jitter::Counts;
use crate::limits::{DIGITS_OUT, FRAME_MS};
use crate::prompt::Prompt;
use crate::quality::{Receiver, Summary};
use crate::sdp::Negotiated;
use crate::speech::{SpeechDetector, SpeechEvent, SpeechOptions};

/// The output of a leg.
pub trait Outbox {
    /// Sends an RTP packet.
    fn rtp(&mut self, to: SocketAddr, packet: &[u8]);
    /// Sends an RTCP packet.
    fn rtcp(&mut self, to: SocketAddr, packet: &[u8]);
    /// Reports an event of the session.
    fn event(&mut self, event: Event);
    /// The next piece of the recording: at most 220 ms of samples at [`MediaSession::record_rate`], two channels interleaved where
    /// asked for.
    fn recorded(&mut self, _samples: &[i16]) {}
    /// A tapped leg's frame in both directions, the one at [`MediaSession::rate`], the other at that of the codec sent;
    /// empty where there was nothing.
    fn tapped(&mut self, _heard: &[i16], _said: &[i16]) {}
}

/// An event of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Digit {
        digit: Digit,
        by: DigitSource,
    },
    Speech(SpeechEvent),
    /// A prompt came to its end by itself.
    PromptEnded {
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
    pub strangers: u64,
    pub malformed: u64,
    pub unknown: u64,
}

/// Buffers that all legs of a thread share for the time of one call; a leg keeps only its own.
#[derive(Default)]
pub struct TickWork {
    packet: Vec<u8>,
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
    #[default]
    None,
    /// A frame as the peer's leg heard it: passed on as it is, or transcoded.
    Payload { codec: Codec, payload: &'a [u8] },
    /// A frame of 20 ms at 8, 16 or 48 kHz.
    Samples { rate: u32, samples: &'a [i16] },
}

/// The options for playing a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlayOptions {
    /// Comes back in [`Event::PromptEnded`].
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

/// Frames on the way to a packet of more than one.
#[derive(Default)]
struct PendingFrames {
    payload: Vec<u8>,
    frames: u32,
}

impl PendingFrames {
    fn clear(&mut self) {
        self.payload.clear();
        self.frames = 0;
    }
}

/// The frame that was sent in this tick, decoded for recording and tap.
#[derive(Default)]
struct SentSamples {
    samples: Vec<i16>,
    decoder: Option<Decoder>,
}

impl SentSamples {
    fn decode(&mut self, codec: Codec, payload: &[u8]) {
        if self.decoder.is_none() {
            self.decoder = Decoder::new(codec).ok();
        }
        if let Some(decoder) = &mut self.decoder {
            // The payload was encoded here, so it decodes.
            let _ = decoder.decode(payload, &mut self.samples);
        }
    }
}

/// The receivers of a leg's sound.
#[derive(Default)]
struct Sinks {
    speech: Option<SpeechDetector>,
    recording: Option<Recording>,
    is_tapped: bool,
    is_listened: bool,
    is_mixed: bool,
    is_muted: bool,
}

impl Sinks {
    fn need_samples(&self) -> bool {
        self.is_mixed || self.is_tapped || self.speech.is_some() || self.recording.is_some()
    }

    /// True if the frames that are sent are wanted, too.
    fn want_sent(&self) -> bool {
        let source = self.recording.as_ref().map(|recording| recording.source);
        self.is_tapped || matches!(source, Some(RecordSource::Both | RecordSource::Dual))
    }
}

/// The media of one leg.
pub struct MediaSession {
    negotiated: Negotiated,
    security: Security,
    latch: Latch,
    silence: Silence,
    dropped: DroppedDatagrams,
    // Sending.
    stream: RtpStream,
    outgoing: Outgoing,
    pending: PendingFrames,
    playback: Playback,
    digit_sender: DigitSender,
    sent: SentSamples,
    // Reception.
    receiver: Box<Receiver>,
    received: ReceivedAudio,
    digit_receiver: DigitReceiver,
    sinks: Sinks,
}

impl MediaSession {
    /// `seed`: random, for SSRC, first sequence number and timestamp (RFC 3550 §5.1). `trusted`: the address from which
    /// the signalling comes; media from there is the peer's too, wherever its SDP points, and no other address is sent
    /// anything before it has sent. `None` trusts the SDP. A codec that is not spoken here is an error.
    pub fn new(negotiated: Negotiated, seed: u64, trusted: Option<IpAddr>) -> Result<MediaSession, Error> {
        let incoming = negotiated.audio;
        let mut session = MediaSession {
            security: Security::new(&negotiated),
            latch: Latch::new(negotiated.remote, trusted),
            silence: Silence::default(),
            dropped: DroppedDatagrams::default(),
            stream: RtpStream::new(seed),
            outgoing: Outgoing::new(incoming.codec)?,
            pending: PendingFrames::default(),
            playback: Playback::default(),
            digit_sender: DigitSender::default(),
            sent: SentSamples::default(),
            receiver: Box::new(
                Receiver::with_clock_rate(incoming.codec, incoming.clock_rate).without_sound(),
            ),
            received: ReceivedAudio::new(incoming),
            digit_receiver: DigitReceiver::new(),
            sinks: Sinks::default(),
            negotiated,
        };
        session.hear_tones(session.negotiated.receive_events.is_empty());
        Ok(session)
    }

    /// Takes the result of a re-offer. The stream goes on with its SSRC and numbers; a prompt goes on too, transcoded if need be.
    pub fn renegotiate(&mut self, negotiated: Negotiated) -> Result<(), Error> {
        if negotiated.audio.codec != self.negotiated.audio.codec {
            self.outgoing = Outgoing::new(negotiated.audio.codec)?;
            self.pending.clear();
            self.sent.decoder = None;
            self.incoming(negotiated.audio);
        }
        self.security.renegotiate(&negotiated);
        if negotiated.remote != self.negotiated.remote {
            self.latch.expect(negotiated.remote);
        }
        self.negotiated = negotiated;
        if self.digit_receiver.hears_tones() || self.negotiated.receive_events.is_empty() {
            self.hear_tones(true);
        }
        Ok(())
    }

    /// The address that the signalling comes from, where it was not known at the start: media may go there first.
    pub fn trust_signalling(&mut self, address: IpAddr) {
        self.latch.trust(address);
    }

    /// True if media may go to the SDP's address before any came from there, although the signalling comes from another:
    /// for media gateways that the operator has named.
    pub fn trust_description(&mut self, is_trusted: bool) {
        self.latch.vouch(is_trusted);
    }

    /// Reports [`Event::NoMedia`] once nothing came for so long; `None`: never.
    pub fn limit_silence(&mut self, limit: Option<Duration>) {
        self.silence.limit(limit);
    }

    /// Another codec comes in.
    fn incoming(&mut self, one: PayloadType) {
        self.received.change(one);
        self.hear_tones(self.digit_receiver.hears_tones());
    }

    /// The result of the last offer and answer.
    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    /// The synchronization source of the packets sent.
    pub fn ssrc(&self) -> u32 {
        self.stream.ssrc
    }

    /// The sample rate of the received sound, in Hz.
    pub fn rate(&self) -> u32 {
        self.received.rate()
    }

    /// Plays from the next tick on, instead of the current prompt: that one's id and position.
    pub fn play(&mut self, prompt: Prompt, options: PlayOptions) -> Option<(u64, u64)> {
        let stopped = self.stop();
        self.playback.play(prompt, options);
        stopped
    }

    /// Nothing of the prompt is sent any more: its id, and its position in milliseconds.
    pub fn stop(&mut self) -> Option<(u64, u64)> {
        // Frames that wait for more of them in one packet are of the prompt, too.
        self.pending.clear();
        self.playback.stop()
    }

    /// True while a prompt is played.
    pub fn is_playing(&self) -> bool {
        self.playback.is_playing()
    }

    /// Silence is sent where there is nothing to say, for peers that take a pause for a dead line. Without it nothing is.
    pub fn send_silence(&mut self, on: bool) -> Result<(), Error> {
        let fill = if on { Some(Prompt::pause(self.negotiated.audio.codec, FRAME_MS)?) } else { None };
        self.playback.set_fill(fill);
        Ok(())
    }

    /// As events, or as tones when the peer takes none, before whatever else there is to say. `false`, and nothing is
    /// sent, when more than 64 would wait.
    pub fn send_digits(&mut self, digits: &[Digit]) -> Result<bool, Error> {
        if self.digit_sender.len() + digits.len() > DIGITS_OUT || self.playback.has_tones() {
            return Ok(false);
        }
        if self.negotiated.events.is_some() {
            self.digit_sender.push(digits);
        } else if !digits.is_empty() {
            let prompt = Prompt::digits(self.negotiated.audio.codec, digits, say::DIGIT_MS)?;
            self.playback.play_tones(prompt);
        }
        Ok(true)
    }

    /// Digits in the sound. On from the start where no events were negotiated; once an event came, they are not listened for.
    pub fn hear_tones(&mut self, on: bool) {
        self.digit_receiver.hear_tones(on.then_some(self.received.rate()));
    }

    /// Speech and silence from now on, or no more.
    pub fn detect_speech(&mut self, options: Option<SpeechOptions>) {
        self.sinks.speech = options.map(SpeechDetector::new);
    }

    /// From the next tick on.
    pub fn record(&mut self, source: RecordSource) {
        self.sinks.recording = Some(Recording::new(source, self.rate()));
    }

    /// The rate of the samples of [`Outbox::recorded`], in Hz: that of the codec when the recording began.
    pub fn record_rate(&self) -> Option<u32> {
        self.sinks.recording.as_ref().map(|recording| recording.rate)
    }

    /// The last piece goes to `out`.
    pub fn stop_recording(&mut self, out: &mut impl Outbox) {
        if let Some(recording) = self.sinks.recording.take().filter(|recording| !recording.samples.is_empty())
        {
            out.recorded(&recording.samples);
        }
    }

    /// Both directions as samples, every tick.
    pub fn tap(&mut self, on: bool) {
        self.sinks.is_tapped = on;
    }

    /// True if [`MediaSession::heard`] is wanted: a bridge's leg.
    pub fn listen(&mut self, on: bool) {
        self.sinks.is_listened = on;
    }

    /// True if [`MediaSession::heard_samples`] is wanted: a conference's leg.
    pub fn listen_decoded(&mut self, on: bool) {
        self.sinks.is_mixed = on;
    }

    /// True if the peer's sound is silence to all sinks.
    pub fn mute(&mut self, on: bool) {
        self.sinks.is_muted = on;
    }

    /// This tick's frame as it came, for a peer's [`MediaSession::say`].
    pub fn heard(&self) -> FrameSource<'_> {
        if self.received.payload.is_empty() {
            return FrameSource::None;
        }
        FrameSource::Payload { codec: self.received.incoming.codec, payload: &self.received.payload }
    }

    /// This tick's frame at [`MediaSession::rate`], losses concealed; empty when no sink wanted it decoded.
    pub fn heard_samples(&self) -> &[i16] {
        &self.received.samples
    }

    /// A leg alone.
    pub fn tick(&mut self, now: Instant, work: &mut TickWork, out: &mut impl Outbox) {
        self.hear(now, work, out);
        self.say(now, FrameSource::None, work, out);
    }

    /// The quality of the received stream.
    pub fn summary(&self) -> Summary {
        self.receiver.summary()
    }

    /// The counts of the jitter buffer, which is there only while a sink wants the sound.
    pub fn counts(&self) -> Counts {
        self.received.counts()
    }

    /// The datagrams that were dropped, by reason.
    pub fn dropped(&self) -> DroppedDatagrams {
        self.dropped
    }

    /// Packets and bytes of payload sent.
    pub fn sent(&self) -> (u32, u32) {
        (self.stream.packets, self.stream.bytes)
    }

    /// Where media goes now.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.latch.address()
    }

    fn needs_samples(&self) -> bool {
        self.sinks.need_samples() || self.digit_receiver.hears_tones()
    }

    fn needs_audio(&self) -> bool {
        self.sinks.is_listened || self.needs_samples()
    }

    #[cfg(test)]
    fn frame(&self) -> usize {
        self.received.frame()
    }

    /// Bytes that the leg holds, codec states aside: itself and its heap.
    pub fn size(&self) -> usize {
        size_of::<MediaSession>()
            + size_of::<Receiver>()
            + self.pending.payload.capacity()
            + self.digit_sender.size()
            + 2 * self.sent.samples.capacity()
            + self.sinks.recording.as_ref().map_or(0, Recording::size)
            + self.received.size()
            + self.digit_receiver.size()
            + self.outgoing.size()
    }
}
