//! Legs that scripts make: rung, answered, screened, joined with their caller.

use ivr::request::Target;
use ivr::script::{CallStatus, DialOptions, Id, Leg, LegEvent, LegFailure};
use sip::session::SessionEvent;
use stdx::Instant;
use stdx::slab::Key;

use super::{Voice, World};

impl Voice {
    pub(super) fn dial(
        &mut self,
        now: Instant,
        actor: Key,
        legs: Vec<Leg>,
        _options: DialOptions,
        world: &mut World<'_>,
    ) {
        for leg in legs {
            let failed =
                LegFailure { status: CallStatus::Failed, code: None, call_id: None, headers: Vec::new() };
            self.drive(now, actor, world, |script, out| {
                script.handle_leg(now, leg.id, LegEvent::Failed(failed), out);
            });
        }
    }

    pub(super) fn screen(
        &mut self,
        _now: Instant,
        _actor: Key,
        _leg: Id,
        _target: Target,
        _world: &mut World<'_>,
    ) {
    }

    pub(super) fn bridge(&mut self, _now: Instant, _actor: Key, _leg: Id, _world: &mut World<'_>) {}

    pub(super) fn hang_up_leg(&mut self, _now: Instant, _actor: Key, _leg: Id, _world: &mut World<'_>) {}

    /// A screening or waiting script is over and its leg is not.
    pub(super) fn actor_done(&mut self, _now: Instant, _actor: Key, _world: &mut World<'_>) {}

    /// What happens to a session of ours that we began, and transfers.
    pub(super) fn handle_outgoing(&mut self, _now: Instant, _event: SessionEvent, _world: &mut World<'_>) {}
}
