//! The recording of a Dial's connection. It is one of the caller's leg, whose sound is the whole
//! conversation, however often the callee's leg changes.
//!
//! A Dial plans it when it begins (`plan_dial_recording`), the connection or the ringing starts it
//! (`record_dial`), and the end of the connection or of the last attempt ends it (`end_dial_recording`). It
//! is one of the leg's background recordings (`record`), of which there is one at a time.

use ivr::document::BridgeRecording;
use ivr::script::Recorded;
use media::session::RecordSource;
use stdx::Instant;
use stdx::slab::Key;

use super::World;
use super::calls::Calls;
use super::record::{Background, Recordings};

/// The recording that the Dial of a leg asks for.
#[derive(Default)]
pub(super) struct DialRecording {
    /// The options of the Dial under way; `None`: that Dial records nothing.
    wanted: Option<BridgeRecording>,
    /// It has begun.
    is_begun: bool,
}

impl Recordings {
    /// A Dial of the caller begins: its recording begins now, or with the connection.
    pub(super) fn plan_dial_recording(
        &mut self,
        now: Instant,
        caller: Key,
        wanted: Option<BridgeRecording>,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some(leg) = calls.legs.get_mut(caller) else { return };
        let is_early = wanted.as_ref().is_some_and(|record| record.from_ringing);
        if wanted.is_some() || leg.dial_recording.is_some() {
            leg.dial_recording.get_or_insert_default().wanted = wanted;
        }
        if is_early {
            self.record_dial(now, caller, calls, world);
        }
    }

    /// Ends it. `None`: it is not recorded, or has not begun.
    pub(super) fn end_dial_recording(
        &mut self,
        now: Instant,
        caller: Key,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) -> Option<Recorded> {
        let recording = calls.legs.get_mut(caller)?.dial_recording.as_mut()?;
        let is_begun = std::mem::take(&mut recording.is_begun);
        is_begun.then(|| self.end_recording(now, caller, calls, world)).flatten()
    }

    /// Starts the recording that a Dial asks for, once.
    pub(super) fn record_dial(
        &mut self,
        now: Instant,
        caller: Key,
        calls: &mut Calls,
        world: &mut World<'_>,
    ) {
        let Some(recording) = calls.legs.get(caller).and_then(|leg| leg.dial_recording.as_ref()) else {
            return;
        };
        let Some(record) = recording.wanted.clone().filter(|_| !recording.is_begun) else { return };
        let how = Background {
            source: source_of(&record),
            trim: record.trim,
            status: record.status,
            of: "DialVerb",
            conference: None,
        };
        let is_begun = self.begin_recording(now, caller, how, calls, world).is_some();
        if let Some(recording) = calls.legs.get_mut(caller).and_then(|leg| leg.dial_recording.as_mut()) {
            recording.is_begun = is_begun;
        }
    }
}

/// Twilio's `record` and `recordingTrack` as the sound of the caller's leg.
fn source_of(record: &BridgeRecording) -> RecordSource {
    match (record.dual, record.track.as_str()) {
        (true, _) => RecordSource::Dual,
        (false, "inbound") => RecordSource::Received,
        (false, _) => RecordSource::Both,
    }
}
