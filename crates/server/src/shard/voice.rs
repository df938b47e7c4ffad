//! The shard's calls of applications: their inputs, and the way back for what the helpers have done.

use cluster::Outlet;
use sip::session::SessionEvent;
use stdx::Instant;

use super::{Letter, Shard};
use crate::voice::helpers::{Deliver, Done, Ticket};
use crate::voice::{Posted, Voice, VoiceCounts, World};

/// Posts what the helpers have done to the shard that asked.
pub(crate) struct Post(pub(crate) Vec<Outlet<Letter>>);

impl Deliver for Post {
    fn deliver(&self, ticket: Ticket, done: Done) {
        if let Some(outlet) = self.0.get(usize::from(ticket.shard)) {
            outlet.answer_all(&mut vec![Letter::Voice(Posted::new(ticket, done))]);
        }
    }
}

impl Shard {
    /// Nothing, where there is no programmable voice.
    fn with_voice(&mut self, act: impl FnOnce(&mut Voice, &mut World<'_>)) {
        if let Some(voice) = &mut self.parts.voice {
            let mut world = World { endpoint: &mut self.parts.endpoint, out: &mut self.scratch.effects };
            act(voice, &mut world);
        }
    }

    pub(super) fn session_event(&mut self, now: Instant, event: SessionEvent) {
        self.with_voice(|voice, world| voice.handle_event(now, event, world));
    }

    pub(super) fn voice_done(&mut self, now: Instant, posted: Posted) {
        self.with_voice(|voice, world| voice.handle_done(now, posted, world));
    }

    pub(super) fn expire_voice(&mut self, now: Instant) {
        self.with_voice(|voice, world| voice.expire(now, world));
    }

    pub(super) fn voice_counts(&self) -> VoiceCounts {
        let sessions = self.parts.endpoint.session_counts().sessions as u64;
        let counts = self.parts.voice.as_ref().map(Voice::counts).unwrap_or_default();
        VoiceCounts { sessions, ..counts }
    }

    pub(super) fn hang_up_all(&mut self, now: Instant) {
        self.with_voice(|voice, world| voice.hang_up_all(now, world));
        self.settle(now);
    }
}
