//! Prompts of a call: their parts as they come, and the cache of frames that calls share.
//!
//! A prompt is a list of pieces, each with a number of loops and made of items: speech, audio, silence,
//! digits. All sounds are requested when the prompt begins; a piece plays once all its parts are here, while
//! later ones may still be on their way. Parts that cannot be had are left out, and the first piece after
//! them plays all the same.

use std::collections::VecDeque;
use std::sync::Arc;

use ivr::document::{Item, Piece, Voice};
use ivr::script::{EffectFailure, Id};
use media::codec::Codec;
use media::events::Digit;
use media::prompt::Prompt;
use stdx::cache::Cache;
use stdx::slab::Key;

use super::helper_service::PlayedRecording;
use super::limits;

/// A sound to request from a helper, and the key of its frames in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sound {
    Speech {
        /// To be spoken.
        text: String,
        is_man: bool,
        language: String,
    },
    Audio {
        url: String,
    },
    /// A recording, for the account that plays it: an answer for one account is none for another.
    Recording(PlayedRecording),
}

impl Sound {
    /// The sound of an item. `None`: it is made here, without a helper.
    pub(super) fn of(item: &Item) -> Option<Sound> {
        match item {
            Item::Speech { text, voice, language } => Some(Sound::Speech {
                text: text.clone(),
                is_man: *voice == Voice::Man,
                language: language.clone(),
            }),
            Item::Audio { url } => Some(Sound::Audio { url: url.clone() }),
            Item::Digits(_) | Item::Silence(_) => None,
        }
    }
}

/// Samples of 8 kHz as frames of a codec. A prompt that a thousand calls hear is encoded once for each codec.
pub(super) struct Frames {
    cache: Cache<(Sound, Codec), Encoded>,
}

/// The frames, and the samples of which they are made: other samples make others.
struct Encoded {
    samples: Arc<[i16]>,
    prompt: Prompt,
}

impl Frames {
    pub(super) fn new() -> Frames {
        Frames { cache: Cache::new(limits::PROMPTS) }
    }

    /// Speech that was spoken before. Audio is asked for each time: its owner may have changed it.
    pub(super) fn spoken(&self, sound: &Sound, codec: Codec) -> Option<Prompt> {
        match sound {
            Sound::Speech { .. } => self.cache.get(&(sound.clone(), codec)).map(|known| known.prompt.clone()),
            Sound::Audio { .. } | Sound::Recording(_) => None,
        }
    }

    /// The frames of samples. The same samples, by their address, give the same frames without work; others
    /// replace them.
    pub(super) fn encode(
        &mut self,
        sound: &Sound,
        codec: Codec,
        samples: &Arc<[i16]>,
    ) -> Result<Prompt, String> {
        let key = (sound.clone(), codec);
        if let Some(known) = self.cache.get(&key)
            && Arc::ptr_eq(&known.samples, samples)
        {
            return Ok(known.prompt.clone());
        }
        let prompt = Prompt::encode(codec, samples, 8_000).map_err(|error| error.to_string())?;
        // A long one would push out many short ones that are played more often.
        if prompt.size() <= limits::PROMPT_CACHED {
            self.cache.insert(key, Encoded { samples: Arc::clone(samples), prompt: prompt.clone() });
        }
        Ok(prompt)
    }
}

/// One part of a prompt.
enum Part {
    /// On its way.
    Waiting,
    /// Frames to be played.
    Here(Prompt),
    /// Keys to be sent as events.
    Digits(Vec<Digit>),
    /// Could not be had.
    Missing,
}

/// The prompt a call speaks, or waits for. `next` gives one step at a time.
pub(super) struct Speaking {
    /// The actor whose script speaks.
    pub(super) actor: Key,
    pub(super) id: Id,
    pieces: VecDeque<(Vec<Part>, u32)>,
    /// The number of pieces that are over: parts on their way keep the numbers they were asked for with.
    over: usize,
    /// A piece plays now.
    pub(super) is_playing: bool,
    /// The failure of a sound; the rest is played all the same.
    pub(super) failed: Option<EffectFailure>,
}

/// The next step of a prompt.
pub(super) enum Next {
    /// Something is still on its way.
    Wait,
    Play(Prompt, Option<u32>),
    Dial(Vec<Digit>),
    Over,
}

impl Speaking {
    /// `fetch` gives what is at hand, and notes what is not: by piece and part.
    pub(super) fn new(
        actor: Key,
        id: Id,
        pieces: &[Piece],
        codec: Codec,
        mut fetch: impl FnMut((usize, usize), Sound) -> Option<Prompt>,
    ) -> Speaking {
        let mut speaking =
            Speaking { actor, id, pieces: VecDeque::new(), over: 0, is_playing: false, failed: None };
        for (at, piece) in pieces.iter().enumerate() {
            // The choice is made for the piece: its sounds are joined to one prompt.
            let keys_only = piece.items.iter().all(|item| matches!(item, Item::Digits(_)));
            let part = |(index, item): (usize, &Item)| match (item, Sound::of(item)) {
                (_, Some(sound)) => fetch((at, index), sound).map_or(Part::Waiting, Part::Here),
                (Item::Digits(keys), _) => digits(keys, keys_only, codec),
                (Item::Silence(length), _) => {
                    let length = u32::try_from(length.as_millis()).unwrap_or(u32::MAX);
                    Prompt::pause(codec, length).map_or(Part::Missing, Part::Here)
                }
                _ => Part::Missing,
            };
            speaking.pieces.push_back((piece.items.iter().enumerate().map(part).collect(), piece.loops));
        }
        speaking
    }

    /// A part has come, or will not.
    pub(super) fn put(&mut self, (piece, part): (usize, usize), result: Result<Prompt, String>) {
        let place = piece.checked_sub(self.over).and_then(|at| self.pieces.get_mut(at)?.0.get_mut(part));
        match (place, result) {
            (Some(place), Ok(prompt)) => *place = Part::Here(prompt),
            (Some(place), Err(text)) => {
                *place = Part::Missing;
                self.failed = Some(EffectFailure { code: ivr::document::code::PROMPT, text });
            }
            (None, _) => {}
        }
    }

    /// The next step. After `Play` and `Dial` the caller clears `is_playing` once that is over.
    pub(super) fn next(&mut self) -> Next {
        if self.is_playing {
            return Next::Wait;
        }
        while let Some((parts, loops)) = self.pieces.front() {
            if parts.iter().any(|part| matches!(part, Part::Waiting)) {
                return Next::Wait;
            }
            let (parts, loops) = (take(parts), (*loops > 0).then_some(*loops));
            self.pieces.pop_front();
            self.over += 1;
            match parts {
                Taken::Sound(prompt) if !prompt.is_empty() => {
                    self.is_playing = true;
                    return Next::Play(prompt, loops);
                }
                Taken::Digits(digits) if !digits.is_empty() => {
                    self.is_playing = true;
                    return Next::Dial(digits);
                }
                _ => {}
            }
        }
        Next::Over
    }
}

/// The content of a piece that is to be played.
enum Taken {
    Sound(Prompt),
    Digits(Vec<Digit>),
    Nothing,
}

/// Joins the parts of a piece. Missing ones are left out.
fn take(parts: &[Part]) -> Taken {
    let mut sounds = Vec::new();
    let mut keys = Vec::new();
    for part in parts {
        match part {
            Part::Here(prompt) => sounds.push(prompt.clone()),
            Part::Digits(digits) => keys.extend_from_slice(digits),
            Part::Waiting | Part::Missing => {}
        }
    }
    match Prompt::concat(&sounds) {
        Some(prompt) => Taken::Sound(prompt),
        None if keys.is_empty() => Taken::Nothing,
        None => Taken::Digits(keys),
    }
}

/// Keys alone go as events (RFC 4733) where the peer takes them; among sounds they are sounds, as both at a
/// time would be heard twice.
fn digits(keys: &str, alone: bool, codec: Codec) -> Part {
    let digits: Vec<Digit> = keys.chars().filter_map(Digit::from_char).collect();
    if alone {
        return Part::Digits(digits);
    }
    Prompt::digits(codec, &digits, limits::DIGIT_MS).map_or(Part::Missing, Part::Here)
}
