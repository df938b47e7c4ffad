//! What is recorded of one leg: its sound comes once, in pieces, and goes to all who keep it or listen to it.

use ivr::document::Callback;
use ivr::script::{Id, Recorded};
use media::limits::FRAME_MS;
use media::record::Recorder;
use media::session::{Event, MediaSession, Outbox, RecordSource};
use stdx::Instant;
use stdx::slab::Key;

use super::recognise::SpeechCapture;
use super::recordings::OpenFile;

/// Whoever takes a leg's sound. It stays with the leg once there is one.
pub(super) struct Recording {
    /// What the media gives now; `None`: nothing.
    source: Option<RecordSource>,
    /// Hz, of what is given.
    pub(super) rate: u32,
    pub(super) takes: Vec<ActiveRecording>,
    pub(super) ear: Option<Box<SpeechCapture>>,
    /// Of the background, and ended with the leg's sound: its owner may ask for it later.
    pub(super) ended: Option<Recorded>,
    scratch: Vec<i16>,
}

/// One recording under way.
pub(super) struct ActiveRecording {
    pub(super) sid: String,
    /// As `Source` in the record.
    pub(super) of: &'static str,
    pub(super) conference: Option<String>,
    pub(super) source: RecordSource,
    /// Hz.
    pub(super) rate: u32,
    pub(super) recorder: Recorder,
    pub(super) file: OpenFile,
    pub(super) pause: Option<Pause>,
    pub(super) whose: RecordingObserver,
    pub(super) started: Instant,
    /// Its length is reached, or it cannot go on.
    pub(super) over: Option<Result<(), String>>,
}

/// The content of a recording while it is paused (Twilio's `PauseBehavior`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing: what follows stands directly behind what came before.
    Skip,
    /// Silence as long as the pause.
    Silence,
}

/// Who is told of its end.
pub(super) enum RecordingObserver {
    /// The script, for its Record.
    Verb { actor: Key, id: Id },
    /// Whoever began it; and this URL.
    Background { status: Option<Callback> },
    /// The REST interface, which made the row; and this URL.
    Api { status: Option<Callback> },
}

impl ActiveRecording {
    pub(super) fn channels(&self) -> u8 {
        if self.source == RecordSource::Dual { 2 } else { 1 }
    }

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
        Recording { source: None, rate: 0, takes: Vec::new(), ear: None, ended: None, scratch: Vec::new() }
    }

    /// The next samples, as the media gives them.
    pub(super) fn put(&mut self, samples: &[i16]) {
        let Recording { source: Some(source), takes, ear, scratch, .. } = self else { return };
        for take in takes {
            take.put(heard(samples, *source, take.source, scratch));
        }
        if let Some(ear) = ear {
            ear.put(heard(samples, *source, RecordSource::Received, scratch));
        }
    }

    /// What the media has to give for all of them.
    fn wanted(&self) -> Option<RecordSource> {
        let ear = self.ear.iter().map(|_| RecordSource::Received);
        let mut all = self.takes.iter().map(|take| take.source).chain(ear);
        let first = all.next()?;
        Some(if all.all(|one| one == first) { first } else { RecordSource::Dual })
    }

    /// Whoever is here has all that came so far, and gets what it wants from now on.
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

    /// Whether one more fits: the rate of those under way stays.
    pub(super) fn has_room(&self, media: &MediaSession) -> bool {
        self.wanted().is_none() || self.rate == media.rate()
    }

    /// What came so far, for those who are here, before somebody comes or leaves.
    pub(super) fn flush(&mut self, media: &mut MediaSession) {
        if let Some(source) = self.source.filter(|_| self.rate == media.rate()) {
            media.stop_recording(&mut Rest(self));
            media.record(source);
        }
    }

    /// The same, before somebody leaves. Behind a change of codecs only the last one gets it.
    pub(super) fn finish(&mut self, media: &mut MediaSession) {
        self.flush(media);
        if self.takes.len() + usize::from(self.ear.is_some()) == 1 && self.rate != media.rate() {
            media.stop_recording(&mut Rest(self));
        }
    }
}

/// Takes what the media still has of a recording; nothing else comes of that.
struct Rest<'a>(&'a mut Recording);

impl Outbox for Rest<'_> {
    fn rtp(&mut self, _to: std::net::SocketAddr, _packet: &[u8]) {}

    fn rtcp(&mut self, _to: std::net::SocketAddr, _packet: &[u8]) {}

    fn event(&mut self, _event: Event) {}

    fn recorded(&mut self, samples: &[i16]) {
        self.0.put(samples);
    }
}

/// What one of them wants of what the media gives. Both directions are given apart when they want different things.
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
