//! Gather: keys and speech, while a prompt plays.

use stdx::Instant;

use super::form::{of_call, pair};
use super::{Effect, Flow, Id, Outbox, Recognition, Script, Speech, State};
use crate::document::Gather;
use crate::limits;
use crate::request::{Form, Target};

#[derive(Debug)]
pub(super) struct Gathering {
    gather: Box<Gather>,
    /// While it plays.
    pub(super) prompt: Option<Id>,
    /// Runs once the prompt is over.
    pub(super) until: Option<Instant>,
    digits: String,
    speech: Option<Speech>,
    /// Speech is under way and not yet recognised.
    is_speaking: bool,
    /// The key of `finishOnKey` that was pressed.
    finished_on: Option<char>,
    /// Complete, but the prompt may not be interrupted.
    complete: bool,
    /// The sequence number of partial results.
    sequence: u32,
}

impl Gathering {
    /// The deadline of a wait that begins now. Speech under way is recognised to its end.
    fn wait(&self, now: Instant) -> Instant {
        let Gather { timeout, max_speech, .. } = *self.gather;
        now + if self.is_speaking { max_speech + limits::RECOGNITION_WAIT } else { timeout }
    }

    /// Handles a key.
    fn take(&mut self, key: char) {
        let gather = &self.gather;
        let first = self.digits.is_empty();
        if first && !gather.start_input_key.is_empty() && !gather.start_input_key.contains(key) {
            return;
        }
        if gather.finish_on_key.contains(key) {
            self.finished_on = Some(key);
            self.complete = true;
        } else if self.digits.len() < limits::GATHERED_DIGITS {
            self.digits.push(key);
        }
        let entered = u32::try_from(self.digits.len()).unwrap_or(u32::MAX);
        if gather.num_digits.is_some_and(|wanted| entered >= wanted) {
            self.complete = true;
        }
    }
}

impl Script {
    pub(super) fn gather(&mut self, now: Instant, mut gather: Box<Gather>, out: &mut Outbox) -> Flow {
        let speech = gather.speech.then(|| {
            Box::new(Recognition {
                language: gather.language.clone(),
                hints: gather.hints.clone(),
                end_of_speech: gather.speech_timeout,
                max_speech: gather.max_speech,
                partial: gather.partial.is_some(),
            })
        });
        // Listening comes first: a key during the prompt's first frame counts.
        out.push(Effect::Listen { digits: gather.dtmf, speech });
        let pieces = std::mem::take(&mut gather.prompt);
        let pieces: Vec<_> = pieces.into_iter().filter_map(|piece| self.playable(piece, out)).collect();
        let (mut prompt, mut until) = (None, None);
        if pieces.is_empty() {
            until = Some(now + gather.timeout);
        } else {
            let id = self.id();
            prompt = Some(id);
            out.push(Effect::Prompt { id, pieces });
        }
        self.state = State::Gathering(Box::new(Gathering {
            gather,
            prompt,
            until,
            digits: String::new(),
            speech: None,
            is_speaking: false,
            finished_on: None,
            complete: false,
            sequence: 0,
        }));
        Flow::Wait
    }

    pub(super) fn gather_digit(&mut self, now: Instant, key: char, out: &mut Outbox) {
        let State::Gathering(gathering) = &mut self.state else { return };
        if !gathering.gather.dtmf || gathering.complete {
            return;
        }
        gathering.take(key);
        self.gather_input(now, out);
    }

    /// Speech begins, or ends without a result. The time-out waits while the caller speaks.
    pub fn handle_speaking(&mut self, now: Instant, is_speaking: bool) {
        let State::Gathering(gathering) = &mut self.state else { return };
        if !gathering.gather.speech || gathering.complete {
            return;
        }
        gathering.is_speaking = is_speaking;
        if gathering.prompt.is_none() {
            gathering.until = Some(gathering.wait(now));
        }
    }

    /// A result of the recogniser.
    pub fn handle_speech(&mut self, now: Instant, mut speech: Speech, out: &mut Outbox) {
        let State::Gathering(gathering) = &mut self.state else { return };
        if !gathering.gather.speech || gathering.complete {
            return;
        }
        speech.text = speech.text.trim().chars().take(limits::GATHERED_SPEECH).collect();
        // Noise that was no word interrupts nothing.
        if speech.text.is_empty() {
            return;
        }
        gathering.complete = speech.is_final;
        let mut told = None;
        if let (false, Some(target)) = (speech.is_final, gathering.gather.partial.clone()) {
            let mut form = of_call(&self.call, self.status);
            form.push(pair("UnstableSpeechResult", &*speech.text));
            form.push(pair("SequenceNumber", gathering.sequence.to_string()));
            gathering.sequence += 1;
            told = Some((target, form));
        }
        gathering.speech = Some(speech);
        // The prompt stops before anything else is done.
        self.gather_input(now, out);
        if let Some((target, form)) = told {
            self.tell(&target, form, out);
        }
    }

    /// There was input: the prompt stops, and the waiting begins anew or is over.
    fn gather_input(&mut self, now: Instant, out: &mut Outbox) {
        let State::Gathering(gathering) = &mut self.state else { return };
        if gathering.gather.barge_in
            && let Some(id) = gathering.prompt.take()
        {
            out.push(Effect::StopPrompt { id });
        }
        if gathering.prompt.is_some() {
            return;
        }
        if gathering.complete {
            self.gathered(now, out);
        } else {
            gathering.until = Some(gathering.wait(now));
        }
    }

    pub(super) fn gather_prompt_over(&mut self, now: Instant, out: &mut Outbox) {
        let State::Gathering(gathering) = &mut self.state else { return };
        gathering.prompt = None;
        gathering.until = Some(gathering.wait(now));
        if gathering.complete {
            self.gathered(now, out);
        }
    }

    pub(super) fn gather_timed_out(&mut self, now: Instant, out: &mut Outbox) {
        self.gathered(now, out);
    }

    fn gathered(&mut self, now: Instant, out: &mut Outbox) {
        let State::Gathering(gathering) = std::mem::replace(&mut self.state, State::Between) else {
            return;
        };
        out.push(Effect::StopListening);
        let Gathering { gather, digits, speech, finished_on, .. } = *gathering;
        let empty = digits.is_empty() && speech.is_none();
        if empty && !gather.action_on_empty_result {
            self.advance(now, out);
            return;
        }
        let mut form = Form::new();
        match speech {
            // Keys win: a caller presses them on purpose.
            Some(speech) if digits.is_empty() => {
                form.push(pair("SpeechResult", speech.text));
                if let Some(confidence) = speech.confidence {
                    form.push(pair(
                        "Confidence",
                        format!("{}.{:03}", confidence / 1_000, confidence % 1_000),
                    ));
                }
            }
            _ => form.push(pair("Digits", digits)),
        }
        if let Some(key) = finished_on {
            form.push(pair("FinishedOnKey", key));
        }
        let target = Target { url: gather.action.unwrap_or_default(), method: gather.method };
        self.go_to(now, &target, form, out);
    }
}
