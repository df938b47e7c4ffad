//! Recordings: samples of a leg on their way to a file, and the notices that follow once it is there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ivr::document::code;
use ivr::script::{EffectFailure, Id, Recorded, Recording as RecordVerb};
use media::prompt::Prompt;
use media::record::{RecordOptions, Recorder};
use media::session::{PlayOptions, RecordSource};
use media::speech::{SpeechEvent, SpeechOptions};
use stdx::Instant;
use stdx::slab::Key;
use store::rest::RestWrite;
use store::rest::types::Recording as RecordingRow;

use super::active_recordings::ActiveRecording;
use super::calls::Calls;
use super::helper_service::PlayedRecording;
use super::mailboxes::Mailbox;
use super::recognise::Transcribing;
use super::recording_files::{RecordingFiles, sid_of_sound};
use super::recording_rows::{VERB, row_of, write, write_voicemail};
use super::{Owner, World, limits};

pub use super::active_recordings::{Background, Modify, Pause};
pub(super) use super::active_recordings::{Recording, RecordingObserver};

/// All recordings of a shard.
pub(super) struct Recordings {
    files: Arc<dyn RecordingFiles>,
    /// Before the path of a recording.
    url: Box<str>,
    /// Legs that are recorded, or heard.
    legs: Vec<Key>,
    /// Recordings whose file is on its way to the disk, by ticket.
    pub(super) closing: HashMap<u64, Closing>,
    /// By ticket.
    pub(super) transcribing: HashMap<u64, Transcribing>,
}

/// Known but for its file.
pub(super) struct Closing {
    leg: Key,
    pub(super) observer: RecordingObserver,
    recorded: Recorded,
    row: RecordingRow,
    owner: Arc<Owner>,
    /// A failure before the file was closed, which counts whatever the writer says.
    failed: Option<String>,
}

/// A Record that begins once its beep is out.
pub(super) struct Beep {
    /// As `Leg::playing`.
    playing: u64,
    pub(super) actor: Key,
    pub(super) id: Id,
    wanted: RecordVerb,
    pub(super) mailbox: Option<Box<Mailbox>>,
}

/// The parameters of a new recording.
struct Begin {
    sid: String,
    of: &'static str,
    conference: Option<String>,
    source: RecordSource,
    trim: bool,
    max: Duration,
    observer: RecordingObserver,
}

impl Recordings {
    pub(super) fn new(files: Arc<dyn RecordingFiles>, url: &str) -> Recordings {
        Recordings {
            files,
            url: url.into(),
            legs: Vec::new(),
            closing: HashMap::new(),
            transcribing: HashMap::new(),
        }
    }

    pub(super) fn files(&self) -> &dyn RecordingFiles {
        &*self.files
    }

    pub(super) fn legs(&self) -> &[Key] {
        &self.legs
    }

    /// The URL of a resource at the REST interface.
    pub(super) fn url(&self, account: &str, kind: &str, sid: &str) -> String {
        format!("{}/restcomm/2012-04-24/Accounts/{account}/{kind}/{sid}", self.url)
    }

    /// The recording that has this URL, for a document of the account `reader`, which needs no token for it. Whether the account may hear
    /// it is not known here: the helpers ask the database.
    pub(super) fn recording_at(&self, reader: &str, url: &str) -> Option<PlayedRecording> {
        let path = url.strip_prefix(&*self.url)?;
        // `media_url` of the REST interface begins as the request for it did.
        let below = admin::Base::ALL.iter().find_map(|base| path.strip_prefix(base.prefix()))?;
        let (account, name) = below.strip_prefix("/Accounts/")?.split_once("/Recordings/")?;
        let sid = sid_of_sound(name);
        let file = self.files.path(sid)?;
        Some(PlayedRecording { sid: sid.into(), account: account.into(), reader: reader.into(), file })
    }

    /// A recording of the account, as its script is told of it.
    pub(super) fn recorded_of(&self, owner: &Owner, sid: &str, duration: Duration) -> Recorded {
        let url = format!("{}.wav", self.url(&owner.account, "Recordings", sid));
        Recorded { sid: sid.to_owned(), public_url: Some(url.clone()), url, duration }
    }

    /// Looks at the leg on each tick from now on.
    pub(super) fn attend(&mut self, leg: Key) {
        if !self.legs.contains(&leg) {
            self.legs.push(leg);
        }
    }
}

impl Recordings {
    /// Begins to record a leg in the background; its sid. `None`: it has no sound, or is recorded already.
    pub(super) fn begin_recording(
        &mut self,
        now: Instant,
        leg: Key,
        how: Background,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) -> Option<String> {
        let Background { source, trim, status, of, conference } = how;
        let is_taken = |one: &ActiveRecording| matches!(one.observer, RecordingObserver::Background { .. });
        let recording = calls.legs.get(leg)?.recording.as_ref();
        if recording.is_some_and(|recording| recording.active.iter().any(is_taken)) {
            return None;
        }
        let sid = calls.new_sid(ivr::sid::RECORDING);
        let observer = RecordingObserver::Background { status: status.clone() };
        let begin =
            Begin { sid: sid.clone(), of, conference, source, trim, max: limits::RECORDING, observer };
        if let Err(problem) = self.open_recording(now, leg, begin, calls) {
            calls.warn(now, leg, code::RECORDING, format!("the call is not recorded: {problem}"), world);
            return None;
        }
        let (row, owner) = calls.legs.get(leg)?.row_under_way(now, &sid)?;
        write(&row, RestWrite::Insert, world);
        let recorded = self.recorded_of(&owner, &sid, Duration::ZERO);
        self.tell_status(status.as_ref(), &row, &recorded, &owner, calls);
        Some(sid)
    }

    /// Ends it. Known at once; the file follows.
    pub(super) fn end_recording(
        &mut self,
        now: Instant,
        leg: Key,
        calls: &mut Calls,
        _world: &mut World<'_>,
    ) -> Option<Recorded> {
        let recording = calls.legs.get_mut(leg)?.recording.as_mut()?;
        let is_it = |one: &ActiveRecording| matches!(one.observer, RecordingObserver::Background { .. });
        match recording.active.iter().position(is_it) {
            Some(index) => self.close_recording(now, leg, index, calls),
            None => recording.ended.take(),
        }
    }

    /// For the REST interface, which has made the row of `sid`.
    ///
    /// # Errors
    /// Why it is not recorded.
    pub(super) fn start_recording(
        &mut self,
        now: Instant,
        leg: Key,
        sid: &str,
        how: Background,
        calls: &mut Calls,
    ) -> Result<(), String> {
        let Background { source, trim, status, of, conference } = how;
        let (max, observer) = (limits::RECORDING, RecordingObserver::Api { status: status.clone() });
        let begin = Begin { sid: sid.to_owned(), of, conference, source, trim, max, observer };
        self.open_recording(now, leg, begin, calls)?;
        self.tell_begun(now, leg, sid, status.as_ref(), calls);
        Ok(())
    }

    /// The leg that a recording under way is of.
    pub(super) fn leg_of_recording(&self, sid: &str, calls: &Calls) -> Option<Key> {
        let has_it = |key: &&Key| {
            let recording = calls.legs.get(**key).and_then(|leg| leg.recording.as_ref());
            recording.is_some_and(|recording| recording.active.iter().any(|one| one.sid == sid))
        };
        self.legs.iter().find(has_it).copied()
    }

    /// `false`: it is not under way.
    pub(super) fn modify_recording(
        &mut self,
        now: Instant,
        sid: &str,
        change: Modify,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) -> bool {
        let Some(leg) = self.leg_of_recording(sid, calls) else { return false };
        let Some((recording, media)) =
            calls.legs.get_mut(leg).and_then(|leg| leg.recording.as_mut().zip(leg.media.as_mut()))
        else {
            return false;
        };
        recording.flush(media);
        let Some(index) = recording.active.iter().position(|one| one.sid == sid) else { return false };
        recording.active[index].pause = match change {
            Modify::Pause(pause) => Some(pause),
            Modify::Resume | Modify::Stop => None,
        };
        if change == Modify::Stop {
            self.close_recording(now, leg, index, calls);
            return true;
        }
        if let Some((row, _)) = calls.legs.get(leg).and_then(|leg| leg.row_under_way(now, sid)) {
            write(&row, RestWrite::Replace, world);
        }
        true
    }

    /// Begins a recording, after a beep if one is asked for.
    pub(super) fn record(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        wanted: RecordVerb,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some((key, leg)) = calls.leg_of(actor) else { return };
        let mailbox = Mailbox::of(&wanted, leg);
        if let Some(media) = leg.media.as_mut().filter(|_| wanted.beep)
            && let Ok(beep) = Prompt::beep(media.negotiated().audio.codec)
        {
            leg.speaking = None;
            leg.playing += 1;
            media.play(beep, PlayOptions::once(leg.playing));
            leg.beep = Some(Box::new(Beep { playing: leg.playing, actor, id, wanted, mailbox }));
            return;
        }
        self.record_now(now, key, (actor, id, mailbox), wanted, calls, world);
    }

    /// A prompt came to its end, perhaps the beep.
    pub(super) fn beep_ended(
        &mut self,
        now: Instant,
        key: Key,
        playing: u64,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some(leg) = calls.legs.get_mut(key) else { return };
        if let Some(beep) = leg.beep.take_if(|beep| beep.playing == playing) {
            let Beep { actor, id, wanted, mailbox, .. } = *beep;
            self.record_now(now, key, (actor, id, mailbox), wanted, calls, world);
        }
    }

    fn record_now(
        &mut self,
        now: Instant,
        key: Key,
        (actor, id, mailbox): (Key, Id, Option<Box<Mailbox>>),
        wanted: RecordVerb,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let sid = calls.new_sid(ivr::sid::RECORDING);
        let status = wanted.status.clone();
        let observer = RecordingObserver::Verb { actor, id, mailbox, status: wanted.status };
        let begin = Begin {
            sid: sid.clone(),
            of: VERB,
            conference: None,
            source: RecordSource::Received,
            trim: wanted.trim,
            max: wanted.max_length,
            observer,
        };
        if let Err(text) = self.open_recording(now, key, begin, calls) {
            self.tell_absent(now, key, sid, status.as_ref(), calls);
            let failure = EffectFailure { code: code::RECORDING, text: format!("Record: {text}") };
            return calls
                .tell(now, actor, world, |script, out| script.handle_recorded(now, id, Err(failure), out));
        }
        self.tell_begun(now, key, &sid, status.as_ref(), calls);
        let silence_ms = millis(wanted.silence);
        if let Some(media) = calls.legs.get_mut(key).and_then(|leg| leg.media.as_mut()) {
            media.detect_speech(Some(SpeechOptions { silence_ms, end_ms: 0 }));
        }
    }

    pub(super) fn stop_recording(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some((key, leg)) = calls.leg_of(actor) else { return };
        if let Some(beep) = leg.beep.take_if(|beep| beep.actor == actor && beep.id == id) {
            if let Some(media) = &mut leg.media {
                media.stop();
            }
            let sid = calls.new_sid(ivr::sid::RECORDING);
            self.tell_absent(now, key, sid, beep.wanted.status.as_ref(), calls);
            let (sid, url) = (String::new(), String::new());
            let none = Recorded { sid, url, public_url: None, duration: Duration::ZERO };
            return calls
                .tell(now, actor, world, |script, out| script.handle_recorded(now, id, Ok(none), out));
        }
        let is_it = |one: &ActiveRecording| matches!(&one.observer, RecordingObserver::Verb { actor: of, id: own, .. } if (*of, *own) == (actor, id));
        let recording = leg.recording.as_ref();
        if let Some(index) = recording.and_then(|recording| recording.active.iter().position(is_it)) {
            self.close_recording(now, key, index, calls);
        }
    }

    /// Opens the file and adds the recording to its leg, or says why not.
    fn open_recording(
        &mut self,
        now: Instant,
        key: Key,
        begin: Begin,
        calls: &mut Calls,
    ) -> Result<(), String> {
        let Begin { sid, of, conference, source, trim, max, observer } = begin;
        let leg = calls.legs.get_mut(key).ok_or("the call is over")?;
        let account = &leg.owner.account;
        let media = leg.media.as_mut().ok_or("the call has no sound")?;
        let recording = leg.recording.get_or_insert_with(|| Box::new(Recording::new()));
        if recording.active.len() >= limits::RECORDINGS_PER_LEG {
            return Err(format!("{} recordings of it are under way", recording.active.len()));
        }
        if !recording.has_room(media) {
            return Err("a recording under way has another sampling rate".to_owned());
        }
        let mut file = self.files.create(calls.helper_requests.ticket(), &sid, account)?;
        let channels = if source == RecordSource::Dual { 2 } else { 1 };
        let options = RecordOptions { rate: media.rate(), channels, trim, max_ms: millis(max) };
        let recorder = Recorder::new(options, &mut file);
        file.flush()?;
        let one = ActiveRecording {
            sid,
            of,
            conference,
            source,
            rate: media.rate(),
            recorder,
            file,
            pause: None,
            observer,
            started: now,
            over: None,
        };
        // Earlier sound does not belong to this recording.
        recording.flush(media);
        recording.active.push(one);
        recording.arrange(media);
        self.attend(key);
        Ok(())
    }

    /// Takes the last samples and closes the file. The result is known at once.
    fn close_recording(
        &mut self,
        now: Instant,
        key: Key,
        index: usize,
        calls: &mut Calls,
    ) -> Option<Recorded> {
        let leg = calls.legs.get_mut(key)?;
        let owner = Arc::clone(&leg.owner);
        let recording = leg.recording.as_mut()?;
        if let Some(media) = &mut leg.media {
            recording.finish(media);
        }
        let row = row_of(now, &leg.sid, &owner, recording.active.get(index)?);
        let ActiveRecording { sid, recorder, mut file, observer, over, pause, .. } =
            recording.active.remove(index);
        if matches!(observer, RecordingObserver::Background { .. }) {
            recording.ended_in = pause;
        }
        if let Some(media) = &mut leg.media {
            recording.arrange(media);
            if matches!(observer, RecordingObserver::Verb { .. }) {
                media.detect_speech(None);
            }
        }
        let is_silent = matches!(observer, RecordingObserver::Verb { .. }) && !recorder.has_sound();
        let ms = recorder.finish(&mut file);
        let failed = over.and_then(Result::err);
        let ms = if is_silent || failed.is_some() { 0 } else { ms };
        let recorded = self.recorded_of(&owner, &sid, Duration::from_millis(ms.into()));
        let ticket = file.ticket();
        file.close(ms > 0);
        let closing = Closing { leg: key, observer, recorded: recorded.clone(), row, owner, failed };
        self.closing.insert(ticket, closing);
        Some(recorded)
    }

    /// The leg's sound ends, and with it all that is made of it.
    pub(super) fn end_recordings(&mut self, now: Instant, key: Key, calls: &mut Calls) {
        let Some(recording) = calls.legs.get_mut(key).and_then(|leg| leg.recording.as_mut()) else { return };
        recording.speech_capture = None;
        let count = recording.active.len();
        for index in (0..count).rev() {
            let active = calls.legs.get(key).and_then(|leg| leg.recording.as_ref()).map(|one| &one.active);
            let is_background = active
                .and_then(|active| active.get(index))
                .is_some_and(|one| matches!(one.observer, RecordingObserver::Background { .. }));
            let recorded = self.close_recording(now, key, index, calls);
            if is_background
                && let Some(recording) = calls.legs.get_mut(key).and_then(|leg| leg.recording.as_mut())
            {
                recording.ended = recorded;
            }
        }
    }

    /// Every tick: those that came to their end by themselves.
    pub(super) fn mind_recordings(&mut self, now: Instant, calls: &mut Calls) {
        let mut legs = std::mem::take(&mut self.legs);
        legs.retain(|key| {
            self.expire_utterance(now, *key, calls);
            let over = |one: &ActiveRecording| one.over.is_some();
            // More than one at a time is rare: the next tick finds it.
            let recording = calls.legs.get(*key).and_then(|leg| leg.recording.as_ref());
            if let Some(index) = recording.and_then(|recording| recording.active.iter().position(over)) {
                self.close_recording(now, *key, index, calls);
            }
            let recording = calls.legs.get(*key).and_then(|leg| leg.recording.as_ref());
            recording
                .is_some_and(|recording| !recording.active.is_empty() || recording.speech_capture.is_some())
        });
        for key in std::mem::replace(&mut self.legs, legs) {
            self.attend(key);
        }
    }

    /// Handles the start of speech, or silence of the length that was asked for.
    pub(super) fn spoke(
        &mut self,
        now: Instant,
        key: Key,
        event: SpeechEvent,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let is_it = |one: &ActiveRecording| matches!(one.observer, RecordingObserver::Verb { .. });
        let recording = calls.legs.get(key).and_then(|leg| leg.recording.as_ref());
        match recording.and_then(|recording| recording.active.iter().position(is_it)) {
            Some(index) if matches!(event, SpeechEvent::Silence { .. }) => {
                self.close_recording(now, key, index, calls);
            }
            Some(_) => {}
            None => self.handle_speech_event(now, key, event, calls, world),
        }
    }

    /// From the writer: a file is complete, or cannot be written.
    pub(super) fn written(
        &mut self,
        now: Instant,
        ticket: u64,
        result: Result<(), String>,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        if let Err(problem) = &result
            && let Some((leg, index)) = self.recording_of(ticket, calls)
        {
            if let Some(recording) = calls.legs.get_mut(leg).and_then(|leg| leg.recording.as_mut()) {
                recording.active[index].over = Some(Err(problem.clone()));
            }
            self.close_recording(now, leg, index, calls);
        }
        if let Some(closing) = self.closing.remove(&ticket) {
            self.recorded(now, closing, result, calls, world);
        }
    }

    /// The leg and place of a recording under way, by its file.
    fn recording_of(&self, ticket: u64, calls: &Calls) -> Option<(Key, usize)> {
        self.legs.iter().find_map(|key| {
            let recording = calls.legs.get(*key)?.recording.as_ref()?;
            Some((*key, recording.active.iter().position(|one| one.file.ticket() == ticket)?))
        })
    }

    /// The outcome of a recording is known: updates the record, and tells the application and the script.
    fn recorded(
        &mut self,
        now: Instant,
        closing: Closing,
        written: Result<(), String>,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Closing { leg, observer, recorded, mut row, owner, failed } = closing;
        let result = failed.map_or(written, Err);
        let is_kept = result.is_ok() && !recorded.duration.is_zero();
        row.status = if is_kept { "completed" } else { "absent" }.to_owned();
        row.duration = is_kept.then(|| u32::try_from(recorded.duration.as_secs()).unwrap_or(u32::MAX));
        row.error_code = result.is_err().then_some(code::RECORDING);
        row.common.updated_at = now;
        let RecordingObserver::Verb { actor, id, mailbox, status } = observer else {
            write(&row, RestWrite::Replace, world);
            if let Err(problem) = result {
                calls.warn(now, leg, code::RECORDING, format!("the recording ended: {problem}"), world);
            }
            if let RecordingObserver::Background { status } | RecordingObserver::Api { status } = observer {
                self.tell_status(status.as_ref(), &row, &recorded, &owner, calls);
            }
            return;
        };
        if is_kept {
            match mailbox {
                Some(mailbox) if mailbox.deliver(&mut row) => write_voicemail(&row, world),
                _ => write(&row, RestWrite::Insert, world),
            }
        }
        self.tell_status(status.as_ref(), &row, &recorded, &owner, calls);
        let answer = result
            .map(|()| recorded)
            .map_err(|problem| EffectFailure { code: code::RECORDING, text: format!("Record: {problem}") });
        calls.tell(now, actor, world, |script, out| script.handle_recorded(now, id, answer, out));
    }

    /// The number of recordings under way, of those on their way to the disk or to a text, and of callers whose words
    /// are awaited.
    pub(super) fn open(&self, calls: &Calls) -> usize {
        let active = |key: &Key| {
            let recording = calls.legs.get(*key).and_then(|leg| leg.recording.as_ref());
            recording.map_or(0, |recording| {
                recording.active.len() + usize::from(recording.speech_capture.is_some())
            })
        };
        let Recordings { closing, transcribing, .. } = self;
        closing.len() + transcribing.len() + self.legs.iter().map(active).sum::<usize>()
    }
}

pub(super) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}
