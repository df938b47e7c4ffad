//! Requests of a shard to the helpers, and the scripts that wait for the answers.
//!
//! A request gets a ticket of this shard; the answer is a `HelperResult` with that ticket, which
//! `Voice::handle_result` takes to the script. Nothing here blocks, and no request is withdrawn: an answer
//! for a script that is gone is dropped. Sounds that several calls need at once are asked for once.

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
    /// The codec of the leg: the same samples are encoded for each waiter.
    pub(super) codec: Codec,
}

/// The request that a ticket was given for.
pub(super) enum TicketOutcome {
    /// For that script.
    Document(Key, Id),
    Sound(Sound, Vec<Waiter>),
}

/// The open requests of one shard.
pub(super) struct HelperRequests {
    shard: u16,
    helpers: Arc<dyn HelperService>,
    pub(super) frames: Frames,
    /// Documents: the script that waits.
    documents: HashMap<u64, (Key, Id)>,
    /// Sounds: all prompts that wait.
    sounds: HashMap<u64, (Sound, Vec<Waiter>)>,
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
        self.documents.len() + self.sounds.len() + self.mails.len()
    }
}
