//! Recordings of one leg: its sound comes once, in pieces, and goes to every recording and to the speech
//! recogniser.
//!
//! A media session records one source at one rate. When consumers differ (the caller alone for a Record, both
//! ways for a call's recording) it gives both directions apart, and each consumer takes its part (`heard`).
//! Whenever a consumer comes or goes, the sound so far goes to those present before (`flush`, `arrange`), so
//! no recording has sound from before its beginning or lacks the last piece.

use ivr::document::Callback;
use ivr::script::{Id, Recorded};
use media::limits::FRAME_MS;
use media::record::Recorder;
use media::session::{MediaEvent, MediaOutbox, MediaSession, RecordSource};
use stdx::Instant;
use stdx::slab::Key;

use super::mailboxes::Mailbox;
use super::recognise::SpeechCapture;
use super::recording_files::RecordingFile;

/// The consumers of a leg's sound. A leg keeps this value once it has one, also while it has none.
pub(super) struct Recording {
    /// The sound that the media gives now; `None`: nothing.
    source: Option<RecordSource>,
    /// Hz, of what is given.
    pub(super) rate: u32,
    /// At most `limits::RECORDINGS_PER_LEG`.
    pub(super) active: Vec<ActiveRecording>,
    pub(super) speech_capture: Option<Box<SpeechCapture>>,
    /// A background recording that ended with the leg's sound: its owner may ask for it later.
    pub(super) ended: Option<Recorded>,
    /// The pause in which the last background recording ended.
    pub(super) ended_in: Option<Pause>,
    /// The part of a piece for one consumer, made anew for each.
    scratch: Vec<i16>,
}

/// One recording under way.
pub(super) struct ActiveRecording {
    pub(super) sid: String,
    /// As `Source` in the record: Twilio's name of the request that began it.
    pub(super) of: &'static str,
    pub(super) conference: Option<String>,
    pub(super) source: RecordSource,
    /// Hz.
    pub(super) rate: u32,
    /// Counts and trims the samples, and writes the bytes of the file.
    pub(super) recorder: Recorder,
    pub(super) file: Box<dyn RecordingFile>,
    /// While it is paused.
    pub(super) pause: Option<Pause>,
    pub(super) observer: RecordingObserver,
    pub(super) started: Instant,
    /// Its length is reached, or it cannot go on.
    pub(super) over: Option<Result<(), String>>,
}

/// The content of a recording while it is paused (Twilio's `PauseBehavior`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing: what follows stands directly behind what came before.
    Skip,
    /// Silence as long as the pause.
    Silence,
}

/// A recording that no Record verb asked for: of a Dial, a conference's member, or a whole call.
#[derive(Clone, Debug)]
pub struct Background {
    /// The sound that is recorded.
    pub source: RecordSource,
    /// Silence at both ends is left out.
    pub trim: bool,
    /// The callback for the finished file.
    pub status: Option<Callback>,
    /// The source, as the record has it: `DialVerb`, `Conference`, `StartCallRecordingAPI`.
    pub of: &'static str,
    /// The sid of the conference whose sound it is.
    pub conference: Option<String>,
}

/// A change of the REST interface to a recording under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modify {
    /// The sound from now on is left out.
    Pause(Pause),
    /// Ends the pause.
    Resume,
    /// Ends the recording.
    Stop,
}

/// The receiver of the notice that a recording has ended.
pub(super) enum RecordingObserver {
    /// The script, for its Record; and this URL. The mailbox gets the recording.
    Verb { actor: Key, id: Id, mailbox: Option<Box<Mailbox>>, status: Option<Callback> },
    /// The script or request that began it; and this URL.
    Background { status: Option<Callback> },
    /// The REST interface, which made the row; and this URL.
    Api { status: Option<Callback> },
}

impl ActiveRecording {
    /// Both directions in one, or each in its own.
    pub(super) fn channels(&self) -> u8 {
        if self.source == RecordSource::Dual { 2 } else { 1 }
    }

    /// Writes samples, unless it is paused or over. The end is only noted in `over`: closing the file needs
    /// more than the leg, and follows with the tick (`Recordings::mind_recordings`).
    fn put(&mut self, samples: &[i16]) {
        if self.pause == Some(Pause::Skip) || self.over.is_some() {
            return;
        }
        // Silence is told from sound by the frame.
        let frame = (self.rate * FRAME_MS / 1_000) as usize * usize::from(self.channels());
        let is_silent = self.pause == Some(Pause::Silence);
        let silence = if is_silent { vec![0; frame] } else { Vec::new() };
        let mut frames = samples.chunks(frame.max(1));
        let goes_on = frames.all(|samples| {
            let kept = silence.get(..samples.len()).unwrap_or(samples);
            self.recorder.handle(kept, &mut self.file)
        });
        match self.file.flush() {
            Err(problem) => self.over = Some(Err(problem)),
            Ok(()) if !goes_on => self.over = Some(Ok(())),
            Ok(()) => {}
        }
    }
}

impl Recording {
    pub(super) fn new() -> Recording {
        Recording {
            source: None,
            rate: 0,
            active: Vec::new(),
            speech_capture: None,
            ended: None,
            ended_in: None,
            scratch: Vec::new(),
        }
    }

    /// The next samples, as the media gives them.
    pub(super) fn put(&mut self, samples: &[i16]) {
        let Recording { source: Some(source), active, speech_capture, scratch, .. } = self else { return };
        for one in active {
            one.put(heard(samples, *source, one.source, scratch));
        }
        if let Some(capture) = speech_capture {
            capture.put(heard(samples, *source, RecordSource::Received, scratch));
        }
    }

    /// The sound that the media has to give for all of them: the source of all, or both directions apart when
    /// they differ.
    fn wanted(&self) -> Option<RecordSource> {
        let capture = self.speech_capture.iter().map(|_| RecordSource::Received);
        let mut all = self.active.iter().map(|one| one.source).chain(capture);
        let first = all.next()?;
        Some(if all.all(|one| one == first) { first } else { RecordSource::Dual })
    }

    /// Gives all consumers the sound so far, and restarts the media's recording with the sound that they want from now
    /// on.
    pub(super) fn arrange(&mut self, media: &mut MediaSession) {
        let wanted = self.wanted();
        // Begun anew it would have the rate of another codec: it goes on, with more than is wanted.
        if wanted.is_some() && self.source.is_some() && self.rate != media.rate() {
            return;
        }
        media.stop_recording(&mut Rest(self));
        self.source = wanted;
        if let Some(source) = wanted {
            media.record(source);
            self.rate = media.record_rate().unwrap_or(self.rate);
        }
    }

    /// True if one more fits: the rate of those under way stays, as a file has one. After a change of codecs
    /// a new one has to wait until the others are over.
    pub(super) fn has_room(&self, media: &MediaSession) -> bool {
        self.wanted().is_none() || self.rate == media.rate()
    }

    /// Gives the sound so far to the present consumers, before one is added or leaves.
    pub(super) fn flush(&mut self, media: &mut MediaSession) {
        if let Some(source) = self.source.filter(|_| self.rate == media.rate()) {
            media.stop_recording(&mut Rest(self));
            media.record(source);
        }
    }

    /// Flushes before a consumer leaves. After a change of codecs only the last one gets the rest.
    pub(super) fn finish(&mut self, media: &mut MediaSession) {
        self.flush(media);
        if self.active.len() + usize::from(self.speech_capture.is_some()) == 1 && self.rate != media.rate() {
            media.stop_recording(&mut Rest(self));
        }
    }
}

/// Takes what the media still has of a recording; nothing else comes of that.
struct Rest<'a>(&'a mut Recording);

impl MediaOutbox for Rest<'_> {
    fn rtp(&mut self, _to: std::net::SocketAddr, _packet: &[u8]) {}

    fn rtcp(&mut self, _to: std::net::SocketAddr, _packet: &[u8]) {}

    fn event(&mut self, _event: MediaEvent) {}

    fn recorded(&mut self, samples: &[i16]) {
        self.0.put(samples);
    }
}

/// The part of the given sound that one consumer wants. The media gives both directions apart when consumers want
/// different sound.
fn heard<'s>(
    samples: &'s [i16],
    given: RecordSource,
    wanted: RecordSource,
    scratch: &'s mut Vec<i16>,
) -> &'s [i16] {
    if given != RecordSource::Dual || wanted == RecordSource::Dual {
        return samples;
    }
    scratch.clear();
    let pairs = samples.chunks_exact(2);
    match wanted {
        RecordSource::Both => scratch.extend(pairs.map(|pair| pair[0].saturating_add(pair[1]))),
        _ => scratch.extend(pairs.map(|pair| pair[0])),
    }
    scratch
}

#[cfg(test)]
mod tests;
