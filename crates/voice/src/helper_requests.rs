//! Requests of a shard to the helpers, and the scripts that wait for the answers.
//!
//! A request gets a ticket of this shard; the answer is a `HelperResult` with that ticket, which
//! `Voice::handle_result` takes to the script. Nothing here blocks, and no request is withdrawn: an answer
//! for a script that is gone is dropped. Sounds that several calls need at once are asked for once, and encoded once for each
//! codec.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ivr::document::{Email, Voice, code};
use ivr::request::Wire;
use ivr::script::{EffectFailure, Id, Recognition, Sent};
use media::codec::Codec;
use media::prompt::Prompt;
use stdx::slab::Key;

use super::helper_service::{HelperService, Opening, SpeechListener, StreamSender, Ticket};
use super::prompts::{Frames, Sound};

/// A part of a call's prompt that waits for a sound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    /// The actor whose script waits.
    pub(super) actor: Key,
    pub(super) prompt: Id,
    /// The piece and the part in it.
    pub(super) place: (usize, usize),
    /// The codec of the leg.
    pub(super) codec: Codec,
}

/// The request that a ticket was given for.
pub(super) enum TicketOutcome {
    /// For that script.
    Document(Key, Id),
    Sound(Sound, Vec<Waiter>),
}

/// Samples that a helper encodes.
struct Encoding {
    sound: Sound,
    codec: Codec,
    samples: Arc<[i16]>,
    waiters: Vec<Waiter>,
}

/// The open requests of one shard.
pub(super) struct HelperRequests {
    shard: u16,
    helpers: Arc<dyn HelperService>,
    frames: Frames,
    /// Documents: the script that waits.
    documents: HashMap<u64, (Key, Id)>,
    /// Sounds: all prompts that wait.
    sounds: HashMap<u64, (Sound, Vec<Waiter>)>,
    /// Samples that are being encoded: all prompts that wait.
    encodings: HashMap<u64, Encoding>,
    /// The ticket of the newest encoding of a sound for a codec.
    encodings_under_way: HashMap<(Sound, Codec), u64>,
    /// Mails: the script that waits for the outcome, and the sid.
    mails: HashMap<u64, ((Key, Id), String)>,
    /// Media streams until their helper is done with them, each with its leg.
    streams: HashMap<u64, Key>,
    /// The ticket of a sound that is on its way: calls that need the same sound share it.
    under_way: HashMap<Sound, u64>,
    /// The ticket given last.
    last: u64,
    /// Callbacks for which the helpers had no place.
    dropped: u64,
}

impl HelperRequests {
    pub(super) fn new(shard: u16, helpers: Arc<dyn HelperService>) -> HelperRequests {
        HelperRequests {
            shard,
            helpers,
            frames: Frames::new(),
            documents: HashMap::new(),
            sounds: HashMap::new(),
            encodings: HashMap::new(),
            encodings_under_way: HashMap::new(),
            mails: HashMap::new(),
            streams: HashMap::new(),
            under_way: HashMap::new(),
            last: 0,
            dropped: 0,
        }
    }

    /// A ticket that no other request of this shard has had.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket { shard: self.shard, id: self.last }
    }

    /// Requests a document for a script.
    pub(super) fn document(&mut self, actor: Key, id: Id, wire: Wire) {
        let ticket = self.ticket();
        self.documents.insert(ticket.id, (actor, id));
        self.helpers.fetch(ticket, wire);
    }

    /// Sends a request whose answer is ignored, such as a status callback. It has no ticket.
    pub(super) fn tell(&mut self, wire: Wire) {
        self.dropped += u64::from(!self.helpers.tell(wire));
    }

    /// Callbacks that were dropped since the start.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Begins to recognise a caller's words. Returns the ticket and the receiver of the samples, or why there
    /// is no recogniser.
    pub(super) fn recognise(
        &mut self,
        how: &Recognition,
        rate: u32,
    ) -> (u64, Result<Box<dyn SpeechListener>, String>) {
        let ticket = self.ticket();
        (ticket.id, self.helpers.recognise(ticket, &how.language, &how.hints, rate))
    }

    /// Requests the text of a file.
    pub(super) fn transcribe(&mut self, recording: PathBuf) -> u64 {
        let ticket = self.ticket();
        self.helpers.transcribe(ticket, recording);
        ticket.id
    }

    /// The sound's frames when they are cached; otherwise the waiter gets them later.
    pub(super) fn sound(&mut self, sound: Sound, waiter: Waiter) -> Option<Prompt> {
        if let Some(prompt) = self.frames.spoken(&sound, waiter.codec) {
            return Some(prompt);
        }
        if let Some((_, waiters)) = self.under_way.get(&sound).and_then(|id| self.sounds.get_mut(id)) {
            waiters.push(waiter);
            return None;
        }
        let ticket = self.ticket();
        self.under_way.insert(sound.clone(), ticket.id);
        self.sounds.insert(ticket.id, (sound.clone(), vec![waiter]));
        match sound {
            Sound::Speech { text, is_man, language } => {
                let voice = if is_man { Voice::Man } else { Voice::Woman };
                self.helpers.speech(ticket, &text, voice, &language);
            }
            Sound::Audio { url } => self.helpers.audio(ticket, &url),
            Sound::Recording(recording) => self.helpers.recording(ticket, recording),
        }
        None
    }

    /// The prompt of the samples of a sound, if it is at hand; otherwise a helper encodes them, and the waiter gets it later.
    pub(super) fn prompt(&mut self, sound: &Sound, samples: &Arc<[i16]>, waiter: Waiter) -> Option<Prompt> {
        let codec = waiter.codec;
        if let Some(prompt) = self.frames.prompt(sound, codec, samples) {
            return Some(prompt);
        }
        let key = (sound.clone(), codec);
        let under_way = self.encodings_under_way.get(&key).and_then(|id| self.encodings.get_mut(id));
        // A file that has changed meanwhile is encoded anew.
        if let Some(encoding) = under_way.filter(|encoding| Arc::ptr_eq(&encoding.samples, samples)) {
            encoding.waiters.push(waiter);
            return None;
        }
        let ticket = self.ticket();
        self.encodings_under_way.insert(key, ticket.id);
        let (sound, samples) = (sound.clone(), Arc::clone(samples));
        self.helpers.encode(ticket, codec, Arc::clone(&samples));
        self.encodings.insert(ticket.id, Encoding { sound, codec, samples, waiters: vec![waiter] });
        None
    }

    /// Ends the wait for an encoding: the prompt, and those that wait for it. Samples that no helper had room for are encoded as
    /// they play.
    pub(super) fn take_encoded(
        &mut self,
        id: u64,
        result: Result<Prompt, String>,
    ) -> Option<(Prompt, Vec<Waiter>)> {
        let Encoding { sound, codec, samples, waiters } = self.encodings.remove(&id)?;
        let key = (sound, codec);
        if self.encodings_under_way.get(&key) == Some(&id) {
            self.encodings_under_way.remove(&key);
        }
        let prompt = match result {
            Ok(prompt) => {
                self.frames.insert(key.0, codec, &samples, &prompt);
                prompt
            }
            Err(_) => Prompt::of_samples(codec, &samples),
        };
        Some((prompt, waiters))
    }

    /// Sends a mail for a script, which is told the outcome.
    pub(super) fn mail(&mut self, script: (Key, Id), sid: String, mail: Email) {
        let ticket = self.ticket();
        self.mails.insert(ticket.id, (script, sid));
        self.helpers.mail(ticket, mail);
    }

    /// The script that waits for a mail, and the outcome that it is told.
    pub(super) fn take_mail(
        &mut self,
        id: u64,
        result: Result<(), String>,
    ) -> Option<((Key, Id), Result<Sent, EffectFailure>)> {
        let (script, sid) = self.mails.remove(&id)?;
        let sent = result.map(|()| Sent { sid, status: "sent".to_owned() });
        Some((script, sent.map_err(|text| EffectFailure { code: code::MESSAGE, text })))
    }

    /// A media stream of that leg. It is over when what is given here is dropped.
    pub(super) fn stream(&mut self, leg: Key, opening: Opening) -> (u64, Box<dyn StreamSender>) {
        let ticket = self.ticket();
        self.streams.insert(ticket.id, leg);
        (ticket.id, self.helpers.stream(ticket, opening))
    }

    /// The leg whose stream it is; the last time that it is asked for.
    pub(super) fn stream_of(&mut self, id: u64, is_last: bool) -> Option<Key> {
        if is_last { self.streams.remove(&id) } else { self.streams.get(&id).copied() }
    }

    /// Streams whose helper has not said its last word.
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Ends the wait for a ticket.
    pub(super) fn take(&mut self, id: u64) -> Option<TicketOutcome> {
        if let Some((actor, id)) = self.documents.remove(&id) {
            return Some(TicketOutcome::Document(actor, id));
        }
        let (sound, waiters) = self.sounds.remove(&id)?;
        self.under_way.remove(&sound);
        Some(TicketOutcome::Sound(sound, waiters))
    }

    /// Requests whose answer is awaited. Those without a script are not counted.
    pub(super) fn open(&self) -> usize {
        self.documents.len() + self.sounds.len() + self.encodings.len() + self.mails.len()
    }
}

#[cfg(test)]
mod tests {
    use stdx::slab::Slab;

    use super::*;
    use crate::testing::NoHelpers;

    #[test]
    fn samples_are_encoded_once_for_all_that_wait() {
        let mut requests = HelperRequests::new(0, Arc::new(NoHelpers));
        let actor = Slab::new().insert(());
        let waiter = |codec, piece| Waiter { actor, prompt: Id(1), place: (piece, 0), codec };
        let sound = Sound::Audio { url: "http://a/b.wav".to_owned() };
        let samples: Arc<[i16]> = vec![1_000; 8_000].into();
        let changed: Arc<[i16]> = vec![2_000; 8_000].into();
        let pieces = |waiters: Vec<Waiter>| waiters.iter().map(|waiter| waiter.place.0).collect::<Vec<_>>();
        // G.711 needs no helper.
        assert!(requests.prompt(&sound, &samples, waiter(Codec::Pcma, 0)).is_some());
        assert_eq!(requests.open(), 0);
        for (piece, codec) in [(1, Codec::Opus), (2, Codec::Opus), (3, Codec::G722)] {
            assert!(requests.prompt(&sound, &samples, waiter(codec, piece)).is_none());
        }
        assert!(requests.prompt(&sound, &changed, waiter(Codec::Opus, 4)).is_none());
        assert_eq!(requests.open(), 3);
        let made = Prompt::encode(Codec::Opus, &samples, Prompt::SAMPLE_RATE).unwrap();
        let (prompt, waiters) = requests.take_encoded(1, Ok(made.clone())).unwrap();
        assert_eq!((prompt, pieces(waiters)), (made.clone(), vec![1, 2]));
        assert_eq!(requests.prompt(&sound, &samples, waiter(Codec::Opus, 5)), Some(made));
        // The one that no helper has room for is encoded as it plays.
        let (prompt, waiters) = requests.take_encoded(3, Err("busy".to_owned())).unwrap();
        assert_eq!((prompt, pieces(waiters)), (Prompt::of_samples(Codec::Opus, &changed), vec![4]));
        assert!(requests.take_encoded(3, Err("late".to_owned())).is_none());
        let (_, waiters) = requests.take_encoded(2, Err("busy".to_owned())).unwrap();
        assert_eq!((pieces(waiters), requests.open()), (vec![3], 0));
        assert!(requests.encodings_under_way.is_empty());
    }
}
