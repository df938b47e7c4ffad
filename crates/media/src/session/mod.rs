//! One leg's media: packets in and events out, and on every tick of 20 ms at most one packet of RTP.
//!
//! A tick has two halves, so that legs feed each other without knowing each other: [`MediaSession::hear`] takes the frame
//! that is due out of the jitter buffer, [`MediaSession::say`] sends one. Between them the owner passes what one leg heard to
//! its peer, or to a conference. A leg alone uses [`MediaSession::tick`].

mod hear;
mod latch;
pub(crate) mod outgoing;
mod say;
mod security;
mod silence;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use stdx::time::Instant;

use crate::codec::{Codec, Decoder, Error, PayloadType};
use crate::conceal::Concealer;
use crate::events::{Digit, EventReceiver, EventSender};
use crate::jitter::{Clock, Counts, JitterBuffer};
use crate::limits::{DIGITS_OUT, FRAME_MS, RECORD_PIECE_MS};
use crate::prompt::{Prompt, frame_samples};
use crate::quality::{Receiver, Summary};
use crate::sdp::Negotiated;
use crate::speech::{SpeechDetector, SpeechEvent, SpeechOptions};
use crate::tone::DtmfDetector;
use latch::Latch;
use outgoing::{Outgoing, ToRate};
use security::Security;
use silence::Silence;

/// What a leg asks of the world.
pub trait Outbox {
    fn rtp(&mut self, to: SocketAddr, packet: &[u8]);
    fn rtcp(&mut self, to: SocketAddr, packet: &[u8]);
    fn event(&mut self, event: Event);
    /// The next piece of the recording: at most 220 ms of samples at [`MediaSession::record_rate`], two channels interleaved where
    /// asked for.
    fn recorded(&mut self, _samples: &[i16]) {}
    /// A tapped leg's frame in both directions, the one at [`MediaSession::rate`], the other at that of the codec sent;
    /// empty where there was nothing.
    fn tapped(&mut self, _heard: &[i16], _said: &[i16]) {}
}

/// What happened on a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Digit {
        digit: Digit,
        by: By,
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

/// How a digit came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// RFC 4733.
    Event,
    /// In the sound.
    Tone,
}

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    Taken,
    /// From an address that has no business here.
    Stranger,
    /// Neither RTP nor RTCP, or an SRTP packet that is not authentic.
    Malformed,
    /// A payload type that was not negotiated.
    Unknown,
}

/// Datagrams by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    pub strangers: u64,
    pub malformed: u64,
    pub unknown: u64,
}

/// What every leg of a thread uses for the time of one call: a leg keeps only its own.
#[derive(Default)]
pub struct Work {
    packet: Vec<u8>,
    payload: Vec<u8>,
    samples: Vec<i16>,
    resampled: Vec<i16>,
}

/// What a leg's peer gives it to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Feed<'a> {
    #[default]
    None,
    /// A frame as the peer's leg heard it: passed on as it is, or transcoded.
    Payload { codec: Codec, payload: &'a [u8] },
    /// A frame of 20 ms at 8, 16 or 48 kHz.
    Samples { rate: u32, samples: &'a [i16] },
}

/// How to play a prompt.
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

struct Playing {
    prompt: Prompt,
    frame: usize,
    loops: Option<u32>,
    id: u64,
}

/// What a recording has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordSource {
    /// What the peer says.
    Heard,
    /// Both directions in one channel.
    Both,
    /// What the peer says on the left, what it hears on the right.
    Dual,
}

struct Recording {
    source: RecordSource,
    /// Stays, whatever codecs come and go.
    rate: u32,
    samples: Vec<i16>,
    heard: ToRate,
    said: ToRate,
}

/// The media of one leg.
pub struct MediaSession {
    negotiated: Negotiated,
    security: Security,
    latch: Latch,
    silence: Silence,
    dropped: Dropped,
    // Out.
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    packets: u32,
    bytes: u32,
    reported_packets: u32,
    next_report: Instant,
    is_talking: bool,
    outgoing: Outgoing,
    /// Frames on the way to a packet of more than one.
    pending: Vec<u8>,
    pending_frames: u32,
    playing: Option<Playing>,
    tones: Option<Playing>,
    digits: VecDeque<Digit>,
    sender: Option<EventSender>,
    digit_gap: u32,
    fill: Option<Prompt>,
    said: Vec<i16>,
    said_decoder: Option<Decoder>,
    // In.
    receiver: Box<Receiver>,
    incoming: PayloadType,
    jitter: Option<Box<JitterBuffer>>,
    jitter_counts: Counts,
    decoder: Option<Decoder>,
    concealer: Concealer,
    heard: Vec<u8>,
    heard_samples: Vec<i16>,
    /// Decoded and not yet heard: packets of more than a frame.
    decoded: Vec<i16>,
    event_receiver: EventReceiver,
    has_events: bool,
    // Sinks.
    in_band: Option<Box<DtmfDetector>>,
    speech: Option<SpeechDetector>,
    recording: Option<Recording>,
    is_tapped: bool,
    is_listened: bool,
    is_mixed: bool,
    is_muted: bool,
}

/// Of the jitter buffer, in milliseconds: bears one packet out of order.
const MIN_DELAY_MS: u32 = 40;
/// Between RTCP reports (RFC 3550 §6.2).
const REPORT: Duration = Duration::from_secs(5);

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
            dropped: Dropped::default(),
            ssrc: (seed >> 32) as u32,
            sequence: (seed >> 16) as u16 & 0x7fff,
            timestamp: (seed as u32).rotate_left(9),
            packets: 0,
            bytes: 0,
            reported_packets: 0,
            next_report: Instant::default(),
            is_talking: false,
            outgoing: Outgoing::new(incoming.codec)?,
            pending: Vec::new(),
            pending_frames: 0,
            playing: None,
            tones: None,
            digits: VecDeque::new(),
            sender: None,
            digit_gap: 0,
            fill: None,
            said: Vec::new(),
            said_decoder: None,
            receiver: Box::new(
                Receiver::with_clock_rate(incoming.codec, incoming.clock_rate).without_sound(),
            ),
            incoming,
            jitter: None,
            jitter_counts: Counts::default(),
            decoder: None,
            concealer: Concealer::default(),
            heard: Vec::new(),
            heard_samples: Vec::new(),
            decoded: Vec::new(),
            event_receiver: EventReceiver::new(),
            has_events: false,
            in_band: None,
            speech: None,
            recording: None,
            is_tapped: false,
            is_listened: false,
            is_mixed: false,
            is_muted: false,
            negotiated,
        };
        session.hear_tones(session.negotiated.receive_events.is_empty());
        Ok(session)
    }

    /// What a re-offer made. The stream goes on with its SSRC and numbers; a prompt goes on too, transcoded if need be.
    pub fn renegotiate(&mut self, negotiated: Negotiated) -> Result<(), Error> {
        if negotiated.audio.codec != self.negotiated.audio.codec {
            self.outgoing = Outgoing::new(negotiated.audio.codec)?;
            self.pending.clear();
            self.pending_frames = 0;
            self.said_decoder = None;
            self.incoming(negotiated.audio);
        }
        self.security.renegotiate(&negotiated);
        if negotiated.remote != self.negotiated.remote {
            self.latch.expect(negotiated.remote);
        }
        self.negotiated = negotiated;
        if self.in_band.is_some() || self.negotiated.receive_events.is_empty() {
            self.hear_tones(true);
        }
        Ok(())
    }

    /// The address that the signalling comes from, where it was not known at the start: media may go there first.
    pub fn trust_signalling(&mut self, address: IpAddr) {
        self.latch.trust(address);
    }

    /// Whether media may go to the SDP's address before any came from there, although the signalling comes from another:
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
        self.incoming = one;
        self.decoder = None;
        self.decoded.clear();
        self.jitter_counts = self.counts();
        self.jitter = None;
        self.hear_tones(self.in_band.is_some());
    }

    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Of what is heard, in Hz.
    pub fn rate(&self) -> u32 {
        self.incoming.codec.sample_rate()
    }

    /// Plays from the next tick on, instead of what plays now: that one's id and position.
    pub fn play(&mut self, prompt: Prompt, options: PlayOptions) -> Option<(u64, u64)> {
        let stopped = self.stop();
        // Beyond its end is its end.
        let frame = usize::try_from(options.offset_ms / u64::from(FRAME_MS)).unwrap_or(usize::MAX);
        let frame = frame.min(prompt.len());
        self.playing = Some(Playing { prompt, frame, loops: options.loops, id: options.id });
        stopped
    }

    /// Nothing of the prompt is sent any more: its id, and its position in milliseconds.
    pub fn stop(&mut self) -> Option<(u64, u64)> {
        // Frames that wait for more of them in one packet are of the prompt, too.
        self.pending.clear();
        self.pending_frames = 0;
        self.playing.take().map(|playing| (playing.id, playing.frame as u64 * u64::from(FRAME_MS)))
    }

    pub fn is_playing(&self) -> bool {
        self.playing.is_some()
    }

    /// Silence is sent where there is nothing to say, for peers that take a pause for a dead line. Without it nothing is.
    pub fn send_silence(&mut self, on: bool) -> Result<(), Error> {
        self.fill = if on { Some(Prompt::pause(self.negotiated.audio.codec, FRAME_MS)?) } else { None };
        Ok(())
    }

    /// As events, or as tones when the peer takes none, before whatever else there is to say. `false`, and nothing is
    /// sent, when more than 64 would wait.
    pub fn send_digits(&mut self, digits: &[Digit]) -> Result<bool, Error> {
        if self.digits.len() + digits.len() > DIGITS_OUT || self.tones.is_some() {
            return Ok(false);
        }
        if self.negotiated.events.is_some() {
            self.digits.extend(digits);
        } else if !digits.is_empty() {
            let prompt = Prompt::digits(self.negotiated.audio.codec, digits, say::DIGIT_MS)?;
            self.tones = Some(Playing { prompt, frame: 0, loops: Some(1), id: 0 });
        }
        Ok(true)
    }

    /// Digits in the sound. On from the start where no events were negotiated; once an event came, they are not listened for.
    pub fn hear_tones(&mut self, on: bool) {
        self.in_band = on.then(|| Box::new(DtmfDetector::new(self.rate())));
    }

    /// Speech and silence from now on, or no more.
    pub fn detect_speech(&mut self, options: Option<SpeechOptions>) {
        self.speech = options.map(SpeechDetector::new);
    }

    /// From the next tick on.
    pub fn record(&mut self, source: RecordSource) {
        let piece = (self.rate() * (RECORD_PIECE_MS + FRAME_MS) / 1000) as usize;
        let channels = if source == RecordSource::Dual { 2 } else { 1 };
        self.recording = Some(Recording {
            source,
            rate: self.rate(),
            samples: Vec::with_capacity(piece * channels),
            heard: ToRate::default(),
            said: ToRate::default(),
        });
    }

    /// Of the samples of [`Outbox::recorded`], in Hz: that of the codec when the recording began.
    pub fn record_rate(&self) -> Option<u32> {
        self.recording.as_ref().map(|recording| recording.rate)
    }

    /// The last piece goes to `out`.
    pub fn stop_recording(&mut self, out: &mut impl Outbox) {
        if let Some(recording) = self.recording.take().filter(|recording| !recording.samples.is_empty()) {
            out.recorded(&recording.samples);
        }
    }

    /// Both directions as samples, every tick.
    pub fn tap(&mut self, on: bool) {
        self.is_tapped = on;
    }

    /// Whether [`MediaSession::heard`] is wanted: a bridge's leg.
    pub fn listen(&mut self, on: bool) {
        self.is_listened = on;
    }

    /// Whether [`MediaSession::heard_samples`] is wanted: a conference's leg.
    pub fn listen_decoded(&mut self, on: bool) {
        self.is_mixed = on;
    }

    /// Whether what the peer says is silence to everybody and in recordings.
    pub fn mute(&mut self, on: bool) {
        self.is_muted = on;
    }

    /// This tick's frame as it came, for a peer's [`MediaSession::say`].
    pub fn heard(&self) -> Feed<'_> {
        if self.heard.is_empty() {
            return Feed::None;
        }
        Feed::Payload { codec: self.incoming.codec, payload: &self.heard }
    }

    /// This tick's frame at [`MediaSession::rate`], losses concealed; empty when nobody wanted it decoded.
    pub fn heard_samples(&self) -> &[i16] {
        &self.heard_samples
    }

    /// A leg alone.
    pub fn tick(&mut self, now: Instant, work: &mut Work, out: &mut impl Outbox) {
        self.hear(now, work, out);
        self.say(now, Feed::None, work, out);
    }

    /// The quality of what came.
    pub fn summary(&self) -> Summary {
        self.receiver.summary()
    }

    /// Of the jitter buffer, which is there only while somebody listens.
    pub fn counts(&self) -> Counts {
        self.jitter.as_ref().map_or(self.jitter_counts, |jitter| jitter.counts())
    }

    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Packets and bytes of payload sent.
    pub fn sent(&self) -> (u32, u32) {
        (self.packets, self.bytes)
    }

    /// Where media goes now.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.latch.address()
    }

    fn needs_samples(&self) -> bool {
        self.is_mixed
            || self.is_tapped
            || self.speech.is_some()
            || self.recording.is_some()
            || self.in_band.is_some()
    }

    fn needs_audio(&self) -> bool {
        self.is_listened || self.needs_samples()
    }

    fn jitter_clock(&self) -> Clock {
        let bytewise = matches!(self.incoming.codec, Codec::Pcmu | Codec::Pcma | Codec::G722);
        Clock { rate: self.incoming.clock_rate, bytewise }
    }

    fn frame(&self) -> usize {
        frame_samples(self.incoming.codec)
    }

    /// Bytes that the leg holds, codec states aside: itself and its heap.
    pub fn size(&self) -> usize {
        let vectors = self.pending.capacity() + self.heard.capacity() + self.digits.capacity();
        let samples = self.said.capacity() + self.heard_samples.capacity() + self.decoded.capacity();
        let recorded = self
            .recording
            .as_ref()
            .map_or(0, |one| one.samples.capacity() + (one.heard.size() + one.said.size()) / 2);
        size_of::<MediaSession>()
            + size_of::<Receiver>()
            + vectors
            + 2 * (samples + recorded)
            + self.in_band.as_ref().map_or(0, |_| size_of::<DtmfDetector>())
            + self.concealer.size()
            + self.outgoing.size()
            + self.jitter.as_ref().map_or(0, |jitter| size_of::<JitterBuffer>() + jitter.size())
    }
}
