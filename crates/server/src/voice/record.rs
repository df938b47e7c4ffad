//! Recordings: samples of a leg on their way to a file.

use ivr::document::{Callback, code};
use ivr::request::Target;
use ivr::script::{Failure, Id, Recognition, Recorded, Recording as Wanted};
use media::session::RecordSource;
use stdx::Instant;
use stdx::slab::Key;

use super::{Voice, World};

/// One that is under way.
pub(super) struct Recording {}

impl Recording {
    /// The next samples, at the media session's `record_rate`.
    pub(super) fn put(&mut self, _samples: &[i16]) {}
}

/// A recording that no Record verb asked for: of a Dial, a conference's member, or a whole call.
pub(super) struct Background {
    pub(super) source: RecordSource,
    /// Silence at both ends is left out.
    pub(super) trim: bool,
    /// Told when the file is there.
    pub(super) status: Option<Callback>,
    /// What of, as the record has it: `DialVerb`, `Conference`, `StartCallRecordingAPI`.
    pub(super) of: &'static str,
}

impl Voice {
    /// Begins to record a leg in the background; its sid. `None`: it has no sound, or is recorded already.
    pub(super) fn begin_recording(
        &mut self,
        _now: Instant,
        _leg: Key,
        _how: Background,
        _world: &mut World<'_>,
    ) -> Option<String> {
        None
    }

    /// Ends it. Known at once; the file follows.
    pub(super) fn end_recording(
        &mut self,
        _now: Instant,
        _leg: Key,
        _world: &mut World<'_>,
    ) -> Option<Recorded> {
        None
    }

    pub(super) fn record(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        _wanted: Wanted,
        world: &mut World<'_>,
    ) {
        let failure = Failure { code: code::RECORDING, text: "Record: not built yet".to_owned() };
        self.drive(now, actor, world, |script, out| script.handle_recorded(now, id, Err(failure), out));
    }

    pub(super) fn stop_recording(&mut self, _now: Instant, _actor: Key, _id: Id, _world: &mut World<'_>) {}

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
