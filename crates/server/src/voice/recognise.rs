//! Speech input: a caller's words to the recogniser, and what it made of them to the script.

use ivr::request::Target;
use ivr::script::Recognition;
use media::speech::SpeechEvent;
use stdx::Instant;
use stdx::slab::Key;

use super::{Voice, World};

/// One who listens to what a caller says.
pub(super) struct Ear {}

impl Ear {
    pub(super) fn put(&mut self, _samples: &[i16]) {}
}

impl Voice {
    pub(super) fn mind_ear(&mut self, _now: Instant, _key: Key, _world: &mut World<'_>) {}
    pub(super) fn ear_heard(
        &mut self,
        _now: Instant,
        _key: Key,
        _event: SpeechEvent,
        _world: &mut World<'_>,
    ) {
    }
    pub(super) fn transcribe(
        &mut self,
        _now: Instant,
        _actor: Key,
        _recording: &str,
        _callback: Option<Target>,
        _world: &mut World<'_>,
    ) {
    }

    /// Speech input, besides digits.
    pub(super) fn recognise(
        &mut self,
        _now: Instant,
        _actor: Key,
        _how: Recognition,
        _world: &mut World<'_>,
    ) {
    }

    pub(super) fn stop_recognising(&mut self, _now: Instant, _actor: Key, _world: &mut World<'_>) {}
}
