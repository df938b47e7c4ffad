//! The legs and scripts of one shard: the state that the machines of calls share.
//!
//! [`Calls`] has no decisions of its own. `Recordings`, `Rooms` and `Texts` are beside it in `Voice` and get
//! it as an argument, so that each can change legs and tell scripts while it owns its own state. Keys of legs
//! and actors stay valid names when the thing is gone: a look-up finds nothing, and late events are dropped
//! by that.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ivr::script::{CallStatus, Effect, Script};
use sip::session::SessionId;
use stdx::Instant;
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};

use super::actor::Actor;
use super::call_trace::CallTrace;
use super::helper_requests::HelperRequests;
use super::leg::Leg;
use super::media_rules::MediaRules;
use super::settings::{RedialPolicy, Settings};
use super::tick::MediaTicker;
use super::{VoiceCounts, World};

/// The legs and scripts of a shard. A machine tells scripts what has happened ([`Calls::tell`]); the effects that they
/// order wait in `queued_effects` until `Voice::perform_queued`.
pub(super) struct Calls {
    /// All legs, those before their dialog and after it among them.
    pub(super) legs: Slab<Leg>,
    /// The scripts at work, one or two a leg.
    pub(super) actors: Slab<Actor>,
    /// The leg of each dialog.
    pub(super) by_session: HashMap<SessionId, Key>,
    pub(super) helper_requests: HelperRequests,
    pub(super) ticker: MediaTicker,
    /// For sids, SRTP keys and the numbers of streams.
    pub(super) rng: Rng,
    /// Effects of scripts that are not performed yet, in order.
    pub(super) queued_effects: VecDeque<(Key, Effect)>,
    /// Calls that come in, and legs of theirs, are written to the record.
    pub(super) has_records: bool,
    /// The life of this node in its farm, for the rows of calls; 0 outside of one.
    pub(super) life: u32,
    /// `[voice] redial_on_failure`.
    pub(super) redial: RedialPolicy,
    /// `[voice] end_pause`.
    pub(super) end_pause: Duration,
    pub(super) counts: VoiceCounts,
    pub(super) media_rules: MediaRules,
    /// Takes the parts of traced calls; none: no calls are traced.
    pub(super) trace: Option<Arc<dyn CallTrace>>,
}

impl Calls {
    pub(super) fn new(settings: &Settings, helper_requests: HelperRequests, rng: Rng) -> Calls {
        Calls {
            legs: Slab::new(),
            actors: Slab::new(),
            by_session: HashMap::new(),
            helper_requests,
            ticker: MediaTicker::new(),
            rng,
            queued_effects: VecDeque::new(),
            has_records: settings.records,
            life: 0,
            redial: settings.redial,
            end_pause: settings.end_pause,
            counts: VoiceCounts::default(),
            media_rules: MediaRules::new(settings),
            trace: None,
        }
    }

    /// Tells a script something. Its effects wait in `queued_effects`, after those that are there already:
    /// performing them here could end the leg or room that the caller is working on.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        actor: Key,
        world: &mut World<'_>,
        tell: impl FnOnce(&mut Script, &mut ivr::script::ScriptOutbox),
    ) {
        let Some(told) = self.actors.get_mut(actor) else { return };
        let mut effects = Vec::new();
        tell(&mut told.script, &mut effects);
        let (leg_key, is_up) = (told.leg, told.script.status() == CallStatus::InProgress);
        if let Some(leg) = self.legs.get_mut(leg_key) {
            // Each input may have moved the script's deadline.
            self.ticker.arm(now, told.script.deadline(), leg_key, leg);
            if let Some(trace) = self.trace.as_ref().filter(|_| leg.traced.is_some()) {
                leg.note_verbs(&**trace, told.script.verb_log().take());
            }
            if is_up {
                // The row's first write; later calls find it written.
                leg.call_answered(now, world);
            }
        }
        self.queued_effects.extend(effects.into_iter().map(|effect| (actor, effect)));
    }

    /// A random number for a name that cannot be guessed.
    pub(super) fn random(&mut self) -> u128 {
        (u128::from(self.rng.next_u64()) << 64) | u128::from(self.rng.next_u64())
    }

    /// The leg on which an actor performs.
    pub(super) fn leg_of(&mut self, actor: Key) -> Option<(Key, &mut Leg)> {
        let key = self.actors.get(actor)?.leg;
        self.legs.get_mut(key).map(|leg| (key, leg))
    }
}
