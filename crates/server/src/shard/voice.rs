//! The shard's calls of applications: their inputs, and the way back for what the helpers have done.

use cluster::Outlet;
use sip::session::SessionEvent;
use stdx::Instant;

use super::{Letter, Shard};
use crate::voice::helpers::{Deliver, Done, Ticket};
use crate::voice::{Posted, Voice, VoiceCounts, VoiceLetter, Wish, World};

/// Posts what the helpers have done to the shard that asked.
pub(crate) struct Post(pub(crate) Vec<Outlet<Letter>>);

impl Deliver for Post {
    fn deliver(&self, ticket: Ticket, done: Done) {
        if let Some(outlet) = self.0.get(usize::from(ticket.shard)) {
            outlet.answer_all(&mut vec![Letter::Voice(VoiceLetter::Done(Posted::new(ticket, done)))]);
        }
    }
}

impl Shard {
    /// Nothing, where there is no programmable voice.
    fn with_voice(&mut self, act: impl FnOnce(&mut Voice, &mut World<'_>)) {
        let Some(voice) = &mut self.parts.voice else { return };
        let mut wishes = std::mem::take(&mut self.scratch.wishes);
        let mut world =
            World { endpoint: &mut self.parts.endpoint, out: &mut self.scratch.effects, wishes: &mut wishes };
        act(voice, &mut world);
        for wish in wishes.drain(..) {
            self.grant(wish);
        }
        self.scratch.wishes = wishes;
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::Post { shard, letter } => {
                if let Some(post) = self.post.get_mut(usize::from(shard)) {
                    post.push(Letter::Voice(letter));
                }
            }
            Wish::Write(write) => {
                if self.parts.store.write(write, None).is_err() {
                    self.parts.board.count_lost_record();
                }
            }
        }
    }

    pub(super) fn session_event(&mut self, now: Instant, event: SessionEvent) {
        self.with_voice(|voice, world| voice.handle_event(now, event, world));
    }

    pub(super) fn voice_letter(&mut self, now: Instant, letter: VoiceLetter) {
        self.with_voice(|voice, world| voice.handle_letter(now, letter, world));
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
