//! Media streams: a call's sound over a WebSocket of the application.

use ivr::script::{Id, MediaStream, StreamEvent};
use stdx::Instant;
use stdx::slab::Key;

use super::{Voice, World};

/// One that is open, or opening.
pub(super) struct Stream {}

impl Stream {
    /// One tick: what the leg said to us, and what we said to it.
    pub(super) fn put(&mut self, _heard: &[i16], _said: &[i16]) {}
}

impl Voice {
    pub(super) fn start_stream(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        _stream: MediaStream,
        world: &mut World<'_>,
    ) {
        let failed = StreamEvent::Failed { reason: "Stream: not built yet".to_owned() };
        self.drive(now, actor, world, |script, out| script.handle_stream(now, id, failed, out));
    }

    pub(super) fn stop_stream(&mut self, _now: Instant, _actor: Key, _id: Id, _world: &mut World<'_>) {}
}
