//! Prompts: their parts are fetched at once and played in order.
//!
//! In: `Effect::Prompt` of a script, sounds from the helpers, the ends of pieces from the media. Out: pieces
//! to the media session of the leg, and one `handle_prompt` to the script when all is over, with the failure
//! of a part if there was one. [`Speaking`] (`prompts`) keeps the parts; one prompt plays at a time on a leg,
//! and a new one replaces the old one.

use std::sync::Arc;

use ivr::document::{Item, Piece, code};
use ivr::script::{EffectFailure, Id};
use media::prompt::Prompt;
use media::session::PlayOptions;
use stdx::Instant;
use stdx::slab::Key;

use super::World;
use super::calls::Calls;
use super::helper_requests::Waiter;
use super::prompts::{Next, Sound, Speaking};
use super::record::Recordings;

/// The samples of a sound are here, or will not be. Those that a helper encodes for a waiter's codec come later.
pub(super) fn handle_samples(
    calls: &mut Calls,
    now: Instant,
    sound: &Sound,
    waiters: Vec<Waiter>,
    samples: &Result<Arc<[i16]>, String>,
    world: &mut World<'_>,
) {
    for waiter in waiters {
        match samples {
            Ok(samples) => {
                if let Some(prompt) = calls.helper_requests.prompt(sound, samples, waiter) {
                    calls.sound_came(now, waiter, Ok(prompt), world);
                }
            }
            Err(text) => calls.sound_came(now, waiter, Err(text.clone()), world),
        }
    }
}

impl Calls {
    /// Begins a prompt of a script on its leg.
    pub(super) fn speak(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        pieces: &[Piece],
        recordings: &Recordings,
        world: &mut World<'_>,
    ) {
        let Some(leg_key) = self.actors.get(actor).map(|actor| actor.leg) else { return };
        let Some(leg) = self.legs.get_mut(leg_key) else { return };
        let Some(media) = &mut leg.media else {
            let failed = EffectFailure { code: code::PROMPT, text: "the call has no sound".to_owned() };
            return self
                .tell(now, actor, world, |script, out| script.handle_prompt(now, id, Some(failed), out));
        };
        // One at a time: the prompt of another script of the leg ends here. Digits of a Number come first,
        // and go on.
        if leg.first_digits.is_none() {
            media.stop();
        }
        let codec = media.negotiated().audio.codec;
        let (helper_requests, recordings, owner) = (&mut self.helper_requests, recordings, &leg.owner);
        leg.speaking = Some(Box::new(Speaking::new(actor, id, pieces, codec, |place, sound| {
            // A recording is read from its file: over HTTP it would ask for the account's token.
            let recording = match &sound {
                Sound::Audio { url } => recordings.recording_at(&owner.account, url),
                _ => None,
            };
            let sound = recording.map_or(sound, Sound::Recording);
            helper_requests.sound(sound, Waiter { actor, prompt: id, place, codec })
        })));
        self.go_on(now, leg_key, world);
    }

    /// A Number's `sendDigits`. A caller is joined meanwhile, and hears what they do; scripts speak after them.
    pub(super) fn send_first_digits(
        &mut self,
        now: Instant,
        (key, actor): (Key, Key),
        items: Vec<Item>,
        world: &mut World<'_>,
    ) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let Some(media) = &leg.media else { return };
        let pieces: Vec<Piece> =
            items.into_iter().map(|item| Piece { items: vec![item], loops: 1 }).collect();
        let codec = media.negotiated().audio.codec;
        // No script waits for its end, so any number will do.
        leg.first_digits = Some(Box::new(Speaking::new(actor, Id(0), &pieces, codec, |_, _| None)));
        self.go_on(now, key, world);
    }

    /// The next piece of the prompt, when it is here; its end, when there is none. Called after each event
    /// that may make progress; while a piece plays it does nothing.
    pub(super) fn go_on(&mut self, now: Instant, key: Key, world: &mut World<'_>) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        let is_first = leg.first_digits.is_some();
        let speaking = leg.first_digits.as_mut().or(leg.speaking.as_mut());
        let (Some(speaking), Some(media)) = (speaking, &mut leg.media) else { return };
        match speaking.next() {
            Next::Wait => {}
            Next::Play(prompt, loops) => {
                leg.playing += 1;
                media.play(prompt, PlayOptions { id: leg.playing, loops, offset_ms: 0 });
            }
            Next::Dial(digits) => {
                if !media.send_digits(&digits) {
                    speaking.give_up_keys("too many digits to send");
                    self.go_on(now, key, world);
                }
            }
            Next::Over if is_first => {
                leg.first_digits = None;
                self.go_on(now, key, world);
            }
            Next::Over => {
                let (actor, id, failed) = (speaking.actor, speaking.id, speaking.failed.take());
                leg.speaking = None;
                self.tell(now, actor, world, |script, out| script.handle_prompt(now, id, failed, out));
            }
        }
    }

    /// A part of a prompt is here, or will not be. A sound for a prompt that was replaced or stopped is
    /// dropped: requests to helpers are not cancelled.
    pub(super) fn sound_came(
        &mut self,
        now: Instant,
        waiter: Waiter,
        prompt: Result<Prompt, String>,
        world: &mut World<'_>,
    ) {
        let Some((key, leg)) = self.leg_of(waiter.actor) else { return };
        let is_wanted =
            |speaking: &&mut Box<Speaking>| speaking.actor == waiter.actor && speaking.id == waiter.prompt;
        let Some(speaking) = leg.speaking.as_mut().filter(is_wanted) else { return };
        speaking.put(waiter.place, prompt);
        self.go_on(now, key, world);
    }

    /// A piece is over. `playing`: the number of its sound; `None`: it was digits, which have no number.
    pub(super) fn piece_ended(
        &mut self,
        now: Instant,
        key: Key,
        playing: Option<u64>,
        world: &mut World<'_>,
    ) {
        let Some(leg) = self.legs.get_mut(key) else { return };
        // A report about a piece that was stopped meanwhile.
        if playing.is_some_and(|id| id != leg.playing) {
            return;
        }
        let speaking = leg.first_digits.as_mut().or(leg.speaking.as_mut());
        let Some(speaking) = speaking else { return };
        if playing.is_none() && !speaking.is_dialling {
            return;
        }
        speaking.is_playing = false;
        self.go_on(now, key, world);
    }

    /// Ends a prompt at the request of its script, such as at the first digit of a Gather. The script is told
    /// of the end as of any other.
    pub(super) fn stop_prompt(&mut self, now: Instant, actor: Key, id: Id, world: &mut World<'_>) {
        let Some((_, leg)) = self.leg_of(actor) else { return };
        if leg.speaking.as_ref().is_none_or(|speaking| speaking.actor != actor || speaking.id != id) {
            return;
        }
        leg.speaking = None;
        if let Some(media) = leg.media.as_mut().filter(|_| leg.first_digits.is_none()) {
            media.stop();
        }
        self.tell(now, actor, world, |script, out| script.handle_prompt(now, id, None, out));
    }
}
