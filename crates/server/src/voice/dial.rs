//! Legs that scripts make: rung, answered, screened, joined with their caller.

use std::sync::Arc;
use std::time::Duration;

use ivr::document::Address;
use ivr::request::Target;
use ivr::script::{CallStatus, DialOptions, Id, Leg, LegEvent, LegFailure, Plan};
use sip::session::SessionEvent;
use stdx::Instant;
use stdx::slab::Key;

use super::{Owner, Resolved, Voice, World};

/// A call that the REST interface asked for.
pub(super) struct Outgoing {
    pub(super) sid: String,
    pub(super) owner: Arc<Owner>,
    pub(super) to: Address,
    /// What the callee sees: a number, a name, or a whole address.
    pub(super) from: String,
    /// What happens once it is answered.
    pub(super) plan: Plan,
    /// How long it may ring.
    pub(super) timeout: Duration,
    pub(super) api_version: String,
}

impl Voice {
    /// Begins a call with a script of its own ([`ivr::script::Direction::OutboundApi`]).
    pub(super) fn start_call(&mut self, _now: Instant, _call: Outgoing, _world: &mut World<'_>) {}

    pub(super) fn dial(
        &mut self,
        now: Instant,
        actor: Key,
        legs: Vec<Leg>,
        _options: DialOptions,
        world: &mut World<'_>,
    ) {
        for leg in legs {
            if let Address::Queue(name) = &leg.address {
                self.dial_queue(now, actor, leg.id, name, world);
                continue;
            }
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

    pub(super) fn hang_up_leg(&mut self, now: Instant, actor: Key, leg: Id, world: &mut World<'_>) {
        self.hang_up_queue_leg(now, actor, leg, world);
    }

    /// A screening or waiting script is over and its leg is not.
    pub(super) fn actor_done(&mut self, _now: Instant, _actor: Key, _world: &mut World<'_>) {}

    /// What `Wish::Resolve` came to.
    pub(crate) fn handle_resolved(
        &mut self,
        _now: Instant,
        _ticket: u64,
        _resolved: Resolved,
        _world: &mut World<'_>,
    ) {
    }

    /// What happens to a session of ours that we began, and transfers.
    pub(super) fn handle_outgoing(&mut self, _now: Instant, _event: SessionEvent, _world: &mut World<'_>) {}
}
