//! Gather: keys and speech, while a prompt plays.
//!
//! Input ends by the number of digits, by a key of `finishOnKey`, by a final result of the recogniser, or by a `timeout` that begins with the end of
//! the prompt and anew with each input. Keys and speech are taken at the same time; if there are both, keys are the result.

use stdx::Instant;

use super::call_context::CallContext;
use super::form::pair;
use super::state::Flow;
use super::{Effect, Id, Recognition, ScriptOutbox, Speech};
use crate::document::Gather;
use crate::limits;
use crate::request::{Form, Target};

/// One Gather under way: the input so far.
#[derive(Debug)]
pub(super) struct Gathering {
    /// The verb; its prompts are taken out and played.
    gather: Box<Gather>,
    /// The prompt, while it plays.
    pub(super) prompt: Option<Id>,
    /// The end of `timeout`, which begins when the prompt is over.
    pub(super) until: Option<Instant>,
    /// The keys so far, without those that end the input.
    digits: String,
    /// The last result of the recogniser.
    speech: Option<Speech>,
    /// Speech is under way and not yet recognised.
    is_speaking: bool,
    /// The key of `finishOnKey` that was pressed.
    finished_on: Option<char>,
    /// The input is complete; without `bargeIn` the prompt still plays to its end.
    complete: bool,
    /// `SequenceNumber` of the next partial result.
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
        if gather.num_digits.is_some_and(|num_digits| entered >= num_digits) {
            self.complete = true;
        }
    }

    /// Begins to listen, and plays the nested prompts.
    pub(super) fn start(
        call: &mut CallContext,
        now: Instant,
        mut gather: Box<Gather>,
        out: &mut ScriptOutbox,
    ) -> Gathering {
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
        let pieces: Vec<_> = pieces.into_iter().filter_map(|piece| call.playable(piece, out)).collect();
        let (mut prompt, mut until) = (None, None);
        if pieces.is_empty() {
            until = Some(now + gather.timeout);
        } else {
            let id = call.next_id();
            prompt = Some(id);
            out.push(Effect::Prompt { id, pieces });
        }
        Gathering {
            gather,
            prompt,
            until,
            digits: String::new(),
            speech: None,
            is_speaking: false,
            finished_on: None,
            complete: false,
            sequence: 0,
        }
    }

    /// A key of the caller.
    pub(super) fn handle_digit(&mut self, now: Instant, key: char, out: &mut ScriptOutbox) -> Flow {
        if !self.gather.dtmf || self.complete {
            return Flow::Wait;
        }
        self.take(key);
        self.continue_after_input(now, out)
    }

    /// Speech begins, or ends without a result. The time-out waits while the caller speaks.
    pub(super) fn handle_speaking(&mut self, now: Instant, is_speaking: bool) {
        if !self.gather.speech || self.complete {
            return;
        }
        self.is_speaking = is_speaking;
        if self.prompt.is_none() {
            self.until = Some(self.wait(now));
        }
    }

    /// A result of the recogniser.
    pub(super) fn handle_speech(
        &mut self,
        call: &CallContext,
        now: Instant,
        mut speech: Speech,
        out: &mut ScriptOutbox,
    ) -> Flow {
        if !self.gather.speech || self.complete {
            return Flow::Wait;
        }
        speech.text = speech.text.trim().chars().take(limits::GATHERED_SPEECH).collect();
        // Noise that was no word interrupts nothing.
        if speech.text.is_empty() {
            return Flow::Wait;
        }
        self.complete = speech.is_final;
        let mut partial_result = None;
        if let (false, Some(target)) = (speech.is_final, self.gather.partial.clone()) {
            let mut form = call.form();
            form.push(pair("UnstableSpeechResult", &*speech.text));
            form.push(pair("SequenceNumber", self.sequence.to_string()));
            self.sequence += 1;
            partial_result = Some((target, form));
        }
        self.speech = Some(speech);
        // The prompt stops before anything else is done.
        let flow = self.continue_after_input(now, out);
        if let Some((target, form)) = partial_result {
            call.tell(&target, form, out);
        }
        flow
    }

    /// There was input: the prompt stops, and the waiting begins anew or is over.
    fn continue_after_input(&mut self, now: Instant, out: &mut ScriptOutbox) -> Flow {
        if self.gather.barge_in
            && let Some(id) = self.prompt.take()
        {
            out.push(Effect::StopPrompt { id });
        }
        if self.prompt.is_some() {
            return Flow::Wait;
        }
        if self.complete {
            return self.finish(out);
        }
        self.until = Some(self.wait(now));
        Flow::Wait
    }

    /// The prompt has come to its end.
    pub(super) fn handle_prompt_end(&mut self, now: Instant, out: &mut ScriptOutbox) -> Flow {
        self.prompt = None;
        self.until = Some(self.wait(now));
        if self.complete { self.finish(out) } else { Flow::Wait }
    }

    /// The input is complete, or its time is over: the `action` with the result. Without any input the next verb
    /// follows, unless `actionOnEmptyResult` is set.
    pub(super) fn finish(&mut self, out: &mut ScriptOutbox) -> Flow {
        out.push(Effect::StopListening);
        let digits = std::mem::take(&mut self.digits);
        let speech = self.speech.take();
        let empty = digits.is_empty() && speech.is_none();
        if empty && !self.gather.action_on_empty_result {
            return Flow::Next;
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
        if let Some(key) = self.finished_on {
            form.push(pair("FinishedOnKey", key));
        }
        // Without `action` the current document is requested again, as with Twilio.
        let url = self.gather.action.take().unwrap_or_default();
        Flow::Document(Target { url, method: self.gather.method }, form)
    }

    /// The call leaves the Gather: the prompt and the listening stop.
    pub(super) fn stop(&self, out: &mut ScriptOutbox) {
        if let Some(id) = self.prompt {
            out.push(Effect::StopPrompt { id });
        }
        out.push(Effect::StopListening);
    }
}
