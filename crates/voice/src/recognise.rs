//! Speech input: a caller's words go to the recogniser, and what it makes of them to the script. And
//! recordings, which become text.
//!
//! A Gather listens ([`Recordings::recognise`]); the media's speech detector tells when the caller begins and
//! ceases to speak; each utterance is one request to a recogniser, which gets the samples while they come and
//! answers with words, partial ones first. The sound comes by way of the leg's [`Recording`], as that of
//! recordings does. One capture a leg: a new one replaces the old one, whose results are ignored.

use std::sync::Arc;

use ivr::document::code;
use ivr::request::{Form, Request, Target};
use ivr::script::{CallStatus, Recognition, Speech};
use media::speech::{SpeechEvent, SpeechOptions};
use stdx::Instant;
use stdx::slab::Key;
use store::rest::RestWrite;
use store::rest::types::{Common, Transcription};

use super::calls::Calls;
use super::helper_service::{RecognitionResult, SpeechListener};
use super::record::{Recording, Recordings, millis};
use super::recording_rows::write;
use super::{Owner, World, limits};

/// The state of one listening script: the sound before an utterance, and the utterance under way.
pub(super) struct SpeechCapture {
    actor: Key,
    how: Recognition,
    /// Hz, of what it is given.
    rate: u32,
    /// Sound from before speech was noticed, at most `limits::BEFORE_SPEECH_MS`.
    before: Vec<i16>,
    state: RecognitionState,
    /// Words that are not final yet. They count as final if the recogniser ends without a last word.
    words: Option<Speech>,
}

enum RecognitionState {
    /// No speech is heard.
    Silence,
    Speech {
        ticket: u64,
        /// The recogniser that is given the samples while the caller speaks.
        listener: Box<dyn SpeechListener>,
        since: Instant,
    },
    /// All was said, and the recogniser thinks.
    Deciding {
        ticket: u64,
        /// Kept, as dropping it would end the results.
        _listener: Box<dyn SpeechListener>,
    },
    /// No recogniser is available: the script was warned once, and digits still work.
    Unavailable,
}

/// A recording whose text is awaited. It outlives its call, so it has all that the callback needs.
pub(super) struct Transcribing {
    row: Transcription,
    owner: Arc<Owner>,
    actor: Key,
    /// Parameters of the call for the application.
    call: Form,
    callback: Option<Target>,
}

impl SpeechCapture {
    /// Takes samples at `rate`, of the caller alone.
    pub(super) fn put(&mut self, samples: &[i16]) {
        match &self.state {
            RecognitionState::Silence => {
                self.before.extend_from_slice(samples);
                let most = (self.rate / 1_000 * limits::BEFORE_SPEECH_MS) as usize;
                self.before.drain(..self.before.len().saturating_sub(most));
            }
            RecognitionState::Speech { listener, .. } => listener.put(samples),
            RecognitionState::Deciding { .. } | RecognitionState::Unavailable => {}
        }
    }

    /// The ticket of the request under way.
    fn ticket(&self) -> Option<u64> {
        match &self.state {
            RecognitionState::Speech { ticket, .. } | RecognitionState::Deciding { ticket, .. } => {
                Some(*ticket)
            }
            RecognitionState::Silence | RecognitionState::Unavailable => None,
        }
    }

    /// The caller has said all: the recogniser decides. In other states nothing happens.
    fn end(&mut self) {
        match std::mem::replace(&mut self.state, RecognitionState::Silence) {
            RecognitionState::Speech { ticket, mut listener, .. } => {
                listener.end();
                self.state = RecognitionState::Deciding { ticket, _listener: listener };
            }
            state => self.state = state,
        }
    }
}

impl Calls {
    fn speech_capture(&mut self, key: Key) -> Option<&mut SpeechCapture> {
        self.legs.get_mut(key)?.recording.as_mut()?.speech_capture.as_deref_mut()
    }
}

impl Recordings {
    /// Begins speech input, besides digits. Without it a Gather still takes digits, so a failure is only a
    /// warning.
    pub(super) fn recognise(
        &mut self,
        now: Instant,
        actor: Key,
        how: Recognition,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some((key, leg)) = calls.leg_of(actor) else { return };
        let Some(media) = &mut leg.media else { return };
        let recording = leg.recording.get_or_insert_with(|| Box::new(Recording::new()));
        if !recording.has_room(media) {
            let text = "the caller's words are not heard: a recording has another sampling rate".to_owned();
            return calls.warn(now, key, code::RECOGNITION, text, world);
        }
        let end_ms = millis(how.end_of_speech.unwrap_or(limits::END_OF_SPEECH));
        // The pause that ends an utterance is the document's `speechTimeout`; the detector measures it.
        media.detect_speech(Some(SpeechOptions { silence_ms: 0, end_ms }));
        let rate = media.rate();
        let (before, state, words) = (Vec::new(), RecognitionState::Silence, None);
        recording.speech_capture = Some(Box::new(SpeechCapture { actor, how, rate, before, state, words }));
        recording.arrange(media);
        self.attend(key);
    }

    /// Stops recognition for `actor`; later results are ignored.
    pub(super) fn stop_recognising(&mut self, actor: Key, calls: &mut Calls) {
        let Some((_, leg)) = calls.leg_of(actor) else { return };
        let Some(recording) = &mut leg.recording else { return };
        if recording.speech_capture.take_if(|capture| capture.actor == actor).is_none() {
            return;
        }
        if let Some(media) = &mut leg.media {
            media.detect_speech(None);
            recording.arrange(media);
        }
    }

    /// Handles the start or the end of speech.
    pub(super) fn handle_speech_event(
        &mut self,
        now: Instant,
        key: Key,
        event: SpeechEvent,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some(capture) = calls.speech_capture(key) else { return };
        match (event, &capture.state) {
            (SpeechEvent::Started, RecognitionState::Silence) => self.begin_utterance(now, key, calls, world),
            (SpeechEvent::Ended { .. }, RecognitionState::Speech { .. }) => capture.end(),
            // Speech is ignored while the recogniser works.
            _ => {}
        }
    }

    /// Asks a recogniser to listen, and gives it the sound since shortly before speech was noticed.
    fn begin_utterance(&mut self, now: Instant, key: Key, calls: &mut Calls, world: &mut World<'_>) {
        let Some(leg) = calls.legs.get_mut(key) else { return };
        let (Some(media), Some(recording)) = (&mut leg.media, &mut leg.recording) else { return };
        // The beginning is not in a whole piece yet.
        recording.flush(media);
        let Some(capture) = &mut recording.speech_capture else { return };
        let (ticket, listener) = calls.helper_requests.recognise(&capture.how, capture.rate);
        let before = std::mem::take(&mut capture.before);
        match listener {
            Ok(listener) => {
                listener.put(&before);
                capture.state = RecognitionState::Speech { ticket, listener, since: now };
                let actor = capture.actor;
                calls.tell(now, actor, world, |script, _| script.handle_speaking(now, true));
            }
            Err(problem) => {
                capture.state = RecognitionState::Unavailable;
                calls.warn(
                    now,
                    key,
                    code::RECOGNITION,
                    format!("the caller's words are not heard: {problem}"),
                    world,
                );
            }
        }
    }

    /// Every tick: ends an utterance that has lasted as long as allowed.
    pub(super) fn expire_utterance(&mut self, now: Instant, key: Key, calls: &mut Calls) {
        if let Some(capture) = calls.speech_capture(key)
            && let RecognitionState::Speech { since, .. } = capture.state
            && now.since(since) >= capture.how.max_speech
        {
            capture.end();
        }
    }

    /// Handles a result of the recogniser. Results for a call that no longer listens are ignored.
    pub(super) fn heard(
        &mut self,
        now: Instant,
        ticket: u64,
        heard: RecognitionResult,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        // Tickets name requests, not legs: the leg that waits is found among the few that are listened to.
        let is_it = |key: &Key| {
            let recording = calls.legs.get(*key).and_then(|leg| leg.recording.as_ref());
            recording
                .and_then(|recording| recording.speech_capture.as_ref())
                .and_then(|capture| capture.ticket())
                == Some(ticket)
        };
        let Some(key) = self.legs().iter().copied().find(is_it) else { return };
        let Some(capture) = calls.speech_capture(key) else { return };
        let actor = capture.actor;
        let speech = match heard {
            RecognitionResult::Words(speech) if speech.is_final => {
                capture.words = None;
                Some(speech)
            }
            // Kept in any case, passed on only if the document wants partial results.
            RecognitionResult::Words(speech) => {
                capture.words = Some(speech.clone());
                Some(speech).filter(|_| capture.how.partial)
            }
            RecognitionResult::Over(result) => {
                capture.state = RecognitionState::Silence;
                // Its last words are its last word.
                let words = capture.words.take().map(|words| Speech { is_final: true, ..words });
                if let Err(problem) = result {
                    calls.warn(now, key, code::RECOGNITION, problem, world);
                }
                calls.tell(now, actor, world, |script, _| script.handle_speaking(now, false));
                words
            }
        };
        if let Some(speech) = speech {
            calls.tell(now, actor, world, |script, out| script.handle_speech(now, speech, out));
        }
    }

    /// A recording to text, which the record and the application get. The row tells that it is under way.
    pub(super) fn transcribe(
        &mut self,
        now: Instant,
        actor: Key,
        recording: &str,
        callback: Option<Target>,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let sid = calls.new_sid(ivr::sid::TRANSCRIPTION);
        let Some((_, leg)) = calls.leg_of(actor) else { return };
        let owner = Arc::clone(&leg.owner);
        let Some(call) = calls.actors.get(actor).map(|actor| actor.script.parameters()) else { return };
        let Some(path) = self.files().path(recording) else { return };
        let common = Common { sid, account: owner.account.to_string(), created_at: now, updated_at: now };
        let row = Transcription {
            common,
            recording_sid: recording.to_owned(),
            status: "in-progress".to_owned(),
            ..Transcription::default()
        };
        write(&row, RestWrite::Insert, world);
        let ticket = calls.helper_requests.transcribe(path);
        self.transcribing.insert(ticket, Transcribing { row, owner, actor, call, callback });
    }

    /// The text of a recording, or the reason why there is none. The callback is sent in either case.
    pub(super) fn transcribed(
        &mut self,
        now: Instant,
        ticket: u64,
        result: Result<String, String>,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some(Transcribing { mut row, owner, actor, mut call, callback }) =
            self.transcribing.remove(&ticket)
        else {
            return;
        };
        row.common.updated_at = now;
        match result {
            Ok(text) => {
                "completed".clone_into(&mut row.status);
                row.text = text.chars().take(limits::TRANSCRIPTION).collect();
            }
            Err(problem) => {
                "failed".clone_into(&mut row.status);
                tracing::warn!(recording = row.recording_sid, problem, "no transcription");
            }
        }
        write(&row, RestWrite::Replace, world);
        if let Some(target) = callback {
            // The call's parameters are those of when the transcription began, but for its status.
            let status = calls.actors.get(actor).map_or(CallStatus::Completed, |actor| actor.script.status());
            if let Some((_, told)) = call.iter_mut().find(|(name, _)| name == "CallStatus") {
                status.as_str().clone_into(told);
            }
            call.extend(self.of_transcription(&row, &owner));
            let form = call;
            let request = Request { method: target.method, url: target.url, form };
            calls.helper_requests.tell(request.to_wire(&owner.signing_key));
        }
    }

    /// Twilio's parameters of a transcription callback.
    fn of_transcription(&self, row: &Transcription, owner: &Owner) -> Form {
        let url = |kind: &str, sid: &str| self.url(&owner.account, kind, sid);
        let values = [
            ("TranscriptionSid", row.common.sid.clone()),
            ("TranscriptionText", row.text.clone()),
            ("TranscriptionStatus", row.status.clone()),
            ("TranscriptionUrl", url("Transcriptions", &row.common.sid)),
            ("RecordingSid", row.recording_sid.clone()),
            ("RecordingUrl", format!("{}.wav", url("Recordings", &row.recording_sid))),
        ];
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
