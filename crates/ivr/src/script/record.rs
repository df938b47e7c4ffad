//! Record: the caller's voice to a file, ended by silence, a key, time, or a hang-up.

use stdx::Instant;

use super::form::{of_call, pair};
use super::{CallStatus, Effect, Failure, Flow, Id, Outbox, Recorded, Recording, Script, State};
use crate::document::{Record, Severity, code};
use crate::limits;
use crate::request::{Form, Target};

#[derive(Debug)]
pub(super) struct Recorder {
    id: Id,
    record: Box<Record>,
    /// The media's own limit comes first; this is for when it does not.
    pub(super) until: Instant,
    key: Option<char>,
    stopped: bool,
}

/// A recording that the hang-up ended: its file is still awaited, because applications learn its URL then.
#[derive(Debug)]
pub(super) struct Closing {
    recorder: Recorder,
    pub(super) until: Instant,
}

impl Recorder {
    pub(super) fn stop(&self, out: &mut Outbox) {
        if !self.stopped {
            out.push(Effect::StopRecording { id: self.id });
        }
        if !self.record.finish_on_key.is_empty() {
            out.push(Effect::StopListening);
        }
    }
}

impl Script {
    pub(super) fn record(&mut self, now: Instant, record: Box<Record>, out: &mut Outbox) -> Flow {
        if !record.finish_on_key.is_empty() {
            out.push(Effect::Listen { digits: true, speech: None });
        }
        let id = self.id();
        let recording = Recording {
            beep: record.play_beep,
            silence: record.timeout,
            max_length: record.max_length,
            trim: record.trim,
        };
        out.push(Effect::Record { id, recording: Box::new(recording) });
        let until = now + record.max_length + limits::ANSWER_WAIT;
        self.tell_recording(&record, "in-progress", None, out);
        self.state = State::Recording(Box::new(Recorder { id, record, until, key: None, stopped: false }));
        Flow::Wait
    }

    pub(super) fn record_digit(&mut self, now: Instant, key: char, out: &mut Outbox) {
        let State::Recording(recorder) = &mut self.state else { return };
        if recorder.stopped || !recorder.record.finish_on_key.contains(key) {
            return;
        }
        recorder.key = Some(key);
        recorder.stopped = true;
        recorder.until = now + limits::ANSWER_WAIT;
        out.push(Effect::StopRecording { id: recorder.id });
    }

    pub(super) fn record_timed_out(&mut self, now: Instant, out: &mut Outbox) {
        let State::Recording(recorder) = &mut self.state else { return };
        let id = recorder.id;
        if !recorder.stopped {
            out.push(Effect::StopRecording { id });
        }
        let text = "the recording did not end".to_owned();
        self.handle_recorded(now, id, Err(Failure { code: code::RECORDING, text }), out);
    }

    /// The result of a recording.
    pub fn handle_recorded(
        &mut self,
        now: Instant,
        id: Id,
        result: Result<Recorded, Failure>,
        out: &mut Outbox,
    ) {
        match &self.state {
            State::Recording(recorder) if recorder.id == id => {}
            State::Closing(closing) if closing.recorder.id == id => {
                self.finish_closing(now, Some(result), out);
                return;
            }
            _ => return,
        }
        let State::Recording(recorder) = std::mem::replace(&mut self.state, State::Between) else {
            return;
        };
        let Recorder { record, key, .. } = *recorder;
        if !record.finish_on_key.is_empty() {
            out.push(Effect::StopListening);
        }
        let Some(recorded) = self.kept(&record, result, out) else {
            self.advance(now, out);
            return;
        };
        let digits = key.map(String::from).unwrap_or_default();
        let target = Target { url: record.action.clone().unwrap_or_default(), method: record.method };
        self.go_to(now, &target, of_recording(&recorded, &digits), out);
    }

    /// The recording, unless there is none. Callbacks are told either way.
    fn kept(&self, record: &Record, result: Result<Recorded, Failure>, out: &mut Outbox) -> Option<Recorded> {
        let recorded = match result {
            Ok(recorded) if !recorded.duration.is_zero() => recorded,
            Ok(_) => {
                self.tell_recording(record, "absent", None, out);
                return None;
            }
            Err(Failure { code, text }) => {
                self.notify(Severity::Error, code, text, out);
                self.tell_recording(record, "absent", None, out);
                return None;
            }
        };
        self.tell_recording(record, "completed", Some(&recorded), out);
        if let Some(transcribe) = &record.transcribe {
            let callback = transcribe.callback.as_ref().and_then(|target| self.absolute_target(target, out));
            out.push(Effect::Transcribe { recording_sid: recorded.sid.clone(), callback });
        }
        Some(recorded)
    }

    fn tell_recording(&self, record: &Record, event: &str, recorded: Option<&Recorded>, out: &mut Outbox) {
        let Some(callback) = &record.status else { return };
        if !callback.events.contains(&event) {
            return;
        }
        let mut form = of_call(&self.call, self.status);
        form.push(pair("RecordingStatus", event));
        form.push(pair("RecordingSource", "RecordVerb"));
        form.push(pair("RecordingChannels", "1"));
        if let Some(recorded) = recorded {
            form.extend(of_recorded(recorded));
        }
        self.tell(&callback.target, form, out);
    }

    /// The call ended in a recording: its file is awaited for a while.
    pub(super) fn close_recording(&mut self, now: Instant, recorder: Recorder, out: &mut Outbox) {
        recorder.stop(out);
        self.state = State::Closing(Box::new(Closing { recorder, until: now + limits::CLEANUP_WAIT }));
    }

    /// The application is told what it has of the call, and the call is over.
    pub(super) fn finish_closing(
        &mut self,
        now: Instant,
        result: Option<Result<Recorded, Failure>>,
        out: &mut Outbox,
    ) {
        let State::Closing(closing) = std::mem::replace(&mut self.state, State::Between) else {
            return;
        };
        let record = &closing.recorder.record;
        let late = || Err(Failure { code: code::RECORDING, text: "the recording did not end".to_owned() });
        if let Some(recorded) = self.kept(record, result.unwrap_or_else(late), out) {
            let mut form = of_call(&self.call, CallStatus::Completed);
            form.extend(of_recording(&recorded, "hangup"));
            let target = Target { url: record.action.clone().unwrap_or_default(), method: record.method };
            self.tell(&target, form, out);
        }
        self.over(now, out);
    }
}

fn of_recording(recorded: &Recorded, digits: &str) -> Form {
    let mut form = of_recorded(recorded);
    form.push(pair("Digits", digits));
    form
}

/// The parameters that name a recording.
pub(super) fn of_recorded(recorded: &Recorded) -> Form {
    let mut form = vec![
        pair("RecordingUrl", &*recorded.url),
        pair("RecordingSid", &*recorded.sid),
        pair("RecordingDuration", recorded.duration.as_secs().to_string()),
    ];
    if let Some(public) = &recorded.public_url {
        form.push(pair("PublicRecordingUrl", &**public));
    }
    form
}
