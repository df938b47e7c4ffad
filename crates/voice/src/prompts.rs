//! Prompts of a call: their parts as they come, and the cache of frames that calls share.
//!
//! A prompt is a list of pieces, each with a number of loops and made of items: speech, audio, silence,
//! digits. All sounds are requested when the prompt begins; a piece plays once all its parts are here, while
//! later ones may still be on their way. Parts that cannot be had are left out, and the first piece after
//! them plays all the same. Silence and digits are no sound before their piece is next, and then take neither time nor memory
//! that a document chooses; a sound that would take a shard long to encode is encoded by a helper, or frame by frame as it
//! plays (`docs/decisions/0127`).

use std::collections::VecDeque;
use std::sync::Arc;

use ivr::document::{Item, Piece, Voice};
use ivr::script::{EffectFailure, Id};
use media::codec::Codec;
use media::events::Digit;
use media::limits::DIGITS_OUT;
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

    /// The prompt of samples, if it takes the shard no time. The same samples, by their address, give the same frames; a long
    /// sound is encoded as it plays. `None`: a helper is to encode them for [`insert`](Self::insert).
    pub(super) fn prompt(&mut self, sound: &Sound, codec: Codec, samples: &Arc<[i16]>) -> Option<Prompt> {
        if samples.len() > limits::PROMPT_ENCODED {
            return Some(Prompt::of_samples(codec, samples));
        }
        let known = self.cache.get(&(sound.clone(), codec));
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.samples, samples)) {
            return Some(known.prompt.clone());
        }
        // G.711 is a look-up a sample; G.722 and Opus take up to two seconds for the longest sound.
        let is_quick = matches!(codec, Codec::Pcmu | Codec::Pcma);
        let prompt = is_quick.then(|| Prompt::encode(codec, samples, Prompt::SAMPLE_RATE).ok()).flatten()?;
        self.insert(sound.clone(), codec, samples, &prompt);
        Some(prompt)
    }

    /// Keeps the frames of samples; they replace those of others.
    pub(super) fn insert(&mut self, sound: Sound, codec: Codec, samples: &Arc<[i16]>, prompt: &Prompt) {
        let encoded = Encoded { samples: Arc::clone(samples), prompt: prompt.clone() };
        self.cache.insert((sound, codec), encoded);
    }
}

/// One part of a prompt.
enum Part {
    /// On its way.
    Waiting,
    /// Frames to be played.
    Here(Prompt),
    /// A pause, in milliseconds.
    Silence(u32),
    /// Keys to be sent, as events or as tones.
    Digits(Vec<Digit>),
    /// Could not be had.
    Missing,
}

/// The prompt a call speaks, or waits for. `next` gives one step at a time.
pub(super) struct Speaking {
    /// The actor whose script speaks.
    pub(super) actor: Key,
    pub(super) id: Id,
    /// The codec of the leg when the prompt began.
    codec: Codec,
    pieces: VecDeque<(Vec<Part>, u32)>,
    /// The piece of keys that is being sent, if the piece that plays now is one.
    keys: Option<KeySequence>,
    /// The number of pieces that are over or have begun: parts on their way keep the numbers they were asked for with.
    over: usize,
    /// A piece, or a step of a piece of keys, plays now.
    pub(super) is_playing: bool,
    /// Keys were the last step. Those of a partner, and of a prompt that was stopped, are sent besides.
    pub(super) is_dialling: bool,
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
        let mut speaking = Speaking {
            actor,
            id,
            codec,
            pieces: VecDeque::new(),
            keys: None,
            over: 0,
            is_playing: false,
            is_dialling: false,
            failed: None,
        };
        for (at, piece) in pieces.iter().enumerate() {
            let part = |(index, item): (usize, &Item)| match (item, Sound::of(item)) {
                (_, Some(sound)) => fetch((at, index), sound).map_or(Part::Waiting, Part::Here),
                (Item::Digits(keys), _) => Part::Digits(keys.chars().filter_map(Digit::from_char).collect()),
                (Item::Silence(length), _) => {
                    Part::Silence(u32::try_from(length.as_millis()).unwrap_or(u32::MAX))
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
        loop {
            if let Some(step) = self.keys.as_mut().and_then(|keys| keys.next(self.codec)) {
                self.is_playing = true;
                self.is_dialling = matches!(step, Next::Dial(_));
                return step;
            }
            self.keys = None;
            let is_waiting = |part: &Part| matches!(part, Part::Waiting);
            if self.pieces.front().is_some_and(|(parts, _)| parts.iter().any(is_waiting)) {
                return Next::Wait;
            }
            let Some((parts, loops)) = self.pieces.pop_front() else { return Next::Over };
            self.over += 1;
            let loops = (loops > 0).then_some(loops);
            if is_keys(&parts) {
                self.keys = Some(KeySequence { parts, part: 0, sent: 0, rounds: loops });
            } else if let Some(prompt) = join(&parts, self.codec).filter(|prompt| !prompt.is_empty()) {
                (self.is_playing, self.is_dialling) = (true, false);
                return Next::Play(prompt, loops);
            }
        }
    }

    /// The media takes no keys now: those of the piece that plays are not sent, and the next piece follows.
    pub(super) fn give_up_keys(&mut self, text: &str) {
        self.keys = None;
        self.is_playing = false;
        self.failed = Some(EffectFailure { code: ivr::document::code::PROMPT, text: text.to_owned() });
    }
}

/// A piece of keys and pauses, step by step: keys go as events (RFC 4733) where the peer takes them, and it listens for no
/// others then.
struct KeySequence {
    parts: Vec<Part>,
    /// The part that is next.
    part: usize,
    /// Keys of it that were sent.
    sent: usize,
    /// Rounds that are left, this one included; `None` until stopped.
    rounds: Option<u32>,
}

impl KeySequence {
    /// The next step: as many keys as the media takes at once, or a pause. `None` behind the last round. A round has a key,
    /// so each call comes to an end.
    fn next(&mut self, codec: Codec) -> Option<Next> {
        loop {
            let Some(part) = self.parts.get(self.part) else {
                self.rounds = self.rounds.map(|left| left.saturating_sub(1));
                if self.rounds == Some(0) {
                    return None;
                }
                self.part = 0;
                continue;
            };
            if let Part::Digits(digits) = part
                && let left @ [_, ..] = &digits[self.sent..]
            {
                let keys = left[..left.len().min(DIGITS_OUT)].to_vec();
                self.sent += keys.len();
                return Some(Next::Dial(keys));
            }
            let pause = match part {
                Part::Silence(length) => Prompt::pause(codec, *length).ok().filter(|pause| !pause.is_empty()),
                _ => None,
            };
            (self.part, self.sent) = (self.part + 1, 0);
            if let Some(pause) = pause {
                return Some(Next::Play(pause, Some(1)));
            }
        }
    }
}

/// True if a piece is keys, perhaps with pauses.
fn is_keys(parts: &[Part]) -> bool {
    let has_keys = |part: &Part| matches!(part, Part::Digits(digits) if !digits.is_empty());
    parts.iter().all(|part| matches!(part, Part::Digits(_) | Part::Silence(_))) && parts.iter().any(has_keys)
}

/// The parts of a piece of sounds. Missing ones are left out. Keys among sounds are sounds, as both at a time would be heard
/// twice.
fn join(parts: &[Part], codec: Codec) -> Option<Prompt> {
    let sound = |part: &Part| match part {
        Part::Here(prompt) => Some(prompt.clone()),
        Part::Silence(length) => Prompt::pause(codec, *length).ok(),
        Part::Digits(digits) => Some(Prompt::digits(codec, digits, limits::DIGIT_MS)),
        Part::Waiting | Part::Missing => None,
    };
    let sounds: Vec<Prompt> = parts.iter().filter_map(sound).collect();
    Prompt::concat(&sounds)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stdx::slab::Slab;

    use super::*;

    impl Speaking {
        /// Bytes on the heap.
        fn size(&self) -> usize {
            let part = |part: &Part| match part {
                Part::Here(prompt) => prompt.size(),
                Part::Digits(digits) => digits.capacity(),
                Part::Silence(_) | Part::Waiting | Part::Missing => 0,
            };
            let piece = |(parts, _): &(Vec<Part>, u32)| {
                parts.capacity() * size_of::<Part>() + parts.iter().map(part).sum::<usize>()
            };
            self.pieces.capacity() * size_of::<(Vec<Part>, u32)>()
                + self.pieces.iter().map(piece).sum::<usize>()
        }
    }

    fn speaking(codec: Codec, pieces: &[Piece]) -> Speaking {
        Speaking::new(Slab::new().insert(()), Id(1), pieces, codec, |_, _| None)
    }

    /// The prompt that is next, and its loops.
    fn next(speaking: &mut Speaking) -> (Prompt, Option<u32>) {
        let Next::Play(prompt, loops) = speaking.next() else { panic!("a sound is next") };
        speaking.is_playing = false;
        (prompt, loops)
    }

    fn speech() -> Item {
        Item::Speech { text: "a".to_owned(), voice: Voice::Man, language: "en".to_owned() }
    }

    const HOUR: Item = Item::Silence(Duration::from_secs(3_600));

    #[test]
    fn pauses_take_no_memory_before_they_are_played_nor_then() {
        for codec in [Codec::Pcma, Codec::G722, Codec::Opus] {
            let hours = vec![Piece { items: vec![HOUR], loops: 0 }; 100];
            let mut alone = speaking(codec, &hours);
            let tones = Piece { items: vec![Item::Digits("1".repeat(256)), HOUR, speech()], loops: 3 };
            let mut mixed = speaking(codec, &vec![tones; 64]);
            mixed.put((0, 2), Ok(Prompt::beep(codec).unwrap()));
            let mut breaks: Vec<Item> = vec![HOUR; 4_000];
            breaks.push(speech());
            let mut long = speaking(codec, &[Piece { items: breaks, loops: 1 }]);
            long.put((0, 4_000), Ok(Prompt::beep(codec).unwrap()));
            for speaking in [&alone, &mixed, &long] {
                assert!(speaking.size() < 1_000_000, "{codec:?}: {}", speaking.size());
            }
            for (speaking, frames, loops) in [
                (&mut alone, 180_000..180_001, None),
                (&mut mixed, 183_072..183_200, Some(3)),
                (&mut long, 1_080_000..1_300_000, Some(1)),
            ] {
                let (prompt, played) = next(speaking);
                assert_eq!(
                    (frames.contains(&prompt.len()), played),
                    (true, loops),
                    "{codec:?}: {}",
                    prompt.len()
                );
                assert!(prompt.size() < 1_000_000, "{codec:?}: {}", prompt.size());
            }
        }
    }

    fn keys(text: &str) -> Item {
        Item::Digits(text.to_owned())
    }

    const HALF_A_SECOND: Item = Item::Silence(Duration::from_millis(500));

    /// The next step: the keys that are sent, or the milliseconds of a sound with its loops.
    fn step(speaking: &mut Speaking) -> String {
        let step = speaking.next();
        speaking.is_playing = false;
        assert_eq!(matches!(step, Next::Dial(_)), speaking.is_dialling && !matches!(step, Next::Over));
        match step {
            Next::Dial(digits) => digits.iter().map(|digit| digit.to_char()).collect(),
            Next::Play(prompt, loops) => format!("{} ms, loops {loops:?}", prompt.duration_ms()),
            Next::Wait => "wait".to_owned(),
            Next::Over => "over".to_owned(),
        }
    }

    /// Twilio's `ww1928#`: a peer that takes events listens for no tones.
    #[test]
    fn keys_are_sent_as_keys_also_among_pauses_and_as_often_as_the_document_says() {
        let pieces = [
            Piece { items: vec![keys("1"), keys("2#")], loops: 1 },
            Piece { items: vec![HALF_A_SECOND, keys("19"), HALF_A_SECOND, keys("28#")], loops: 2 },
            Piece { items: vec![keys("1")], loops: 3 },
            Piece { items: vec![Item::Silence(Duration::ZERO)], loops: 1 },
            // No key at all.
            Piece { items: vec![keys("x"), Item::Silence(Duration::ZERO)], loops: 0 },
        ];
        let mut speaking = speaking(Codec::Pcmu, &pieces);
        let pause = "500 ms, loops Some(1)";
        let round = [pause, "19", pause, "28#"];
        for expected in ["1", "2#"].into_iter().chain(round).chain(round).chain(["1", "1", "1", "over"]) {
            assert_eq!(step(&mut speaking), expected);
        }
    }

    #[test]
    fn more_keys_than_the_media_takes_at_once_are_sent_in_parts() {
        let mut speaking = speaking(Codec::Pcmu, &[Piece { items: vec![keys(&"7".repeat(150))], loops: 1 }]);
        let sent: Vec<usize> = (0..3).map(|_| step(&mut speaking).len()).collect();
        assert_eq!(sent, [DIGITS_OUT, DIGITS_OUT, 150 - 2 * DIGITS_OUT]);
        assert_eq!(step(&mut speaking), "over");
    }

    #[test]
    fn keys_without_end_go_on_until_they_are_stopped() {
        let mut speaking =
            speaking(Codec::Pcmu, &[Piece { items: vec![keys("5"), HALF_A_SECOND], loops: 0 }]);
        for _ in 0..1_000 {
            assert_eq!([step(&mut speaking), step(&mut speaking)], ["5", "500 ms, loops Some(1)"]);
        }
    }

    /// Both forms at a time would be heard twice.
    #[test]
    fn keys_among_sounds_are_tones() {
        let mut speaking = speaking(Codec::Pcmu, &[Piece { items: vec![keys("12"), speech()], loops: 1 }]);
        assert_eq!(step(&mut speaking), "wait");
        let beep = Prompt::beep(Codec::Pcmu).unwrap();
        speaking.put((0, 1), Ok(beep.clone()));
        // Two keys of 240 ms.
        assert_eq!(step(&mut speaking), format!("{} ms, loops Some(1)", 480 + beep.duration_ms()));
        assert_eq!(step(&mut speaking), "over");
    }

    /// The shard encodes nothing that takes it long: the time of a call for each codec, without a clock.
    #[test]
    fn sounds_that_take_time_are_encoded_by_a_helper_or_as_they_play() {
        let sound = |text: &str| Sound::Audio { url: text.to_owned() };
        let five_minutes: Arc<[i16]> = vec![1_000; 300 * 8_000].into();
        let word: Arc<[i16]> = vec![1_000; 8_000].into();
        let is_encoded = |prompt: &Prompt| prompt.frame(0).and_then(|frame| frame.payload()).is_some();
        for codec in [Codec::Pcmu, Codec::Pcma, Codec::G722, Codec::Opus] {
            let mut frames = Frames::new();
            let long = frames.prompt(&sound("long"), codec, &five_minutes).expect("it plays at once");
            assert_eq!((is_encoded(&long), long.len()), (false, 15_000), "{codec:?}");
            let short = frames.prompt(&sound("word"), codec, &word);
            let is_g711 = matches!(codec, Codec::Pcmu | Codec::Pcma);
            assert_eq!(short.as_ref().map(is_encoded), is_g711.then_some(true), "{codec:?}");
            let made = Prompt::encode(codec, &word, 8_000).unwrap();
            frames.insert(sound("word"), codec, &word, &made);
            assert_eq!(frames.prompt(&sound("word"), codec, &word), Some(made), "{codec:?}");
            let other: Arc<[i16]> = vec![1_000; 8_000].into();
            assert_eq!(frames.prompt(&sound("word"), codec, &other).is_some(), is_g711, "{codec:?}");
        }
    }
}
