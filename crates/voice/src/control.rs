//! Requests of the REST interface to live calls, on the shard that has them. All shards are asked; those that do not
//! know the object of the request say so.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use admin::control::{ConferenceChange, ControlError, End, Participant, ParticipantChange, QueueMember};
use ivr::document::{Address, Callback, Item};
use ivr::request::Target;
use ivr::script::{CallStatus, Plan, Script, ScriptOutbox, Start};
use stdx::Instant;
use stdx::slab::Key;
use store::rest::types::{RestCall, TextMessage};

use super::calls::Calls;
use super::leg::Leg;
use super::messages::NewText;
use super::record::{Background, Modify};
use super::{Owner, Voice, World};

/// A request of the REST interface. All shards are asked, unless a variant says otherwise.
#[derive(Clone, Debug)]
pub enum Request {
    /// Places a call. For one shard.
    Start(Box<Placing>),
    /// Changes a live call.
    Change {
        /// The call's sid.
        call: String,
        /// Performed whole or not at all.
        change: Box<Change>,
    },
    /// Changes a conference.
    Conference {
        /// The conference's sid.
        sid: String,
        /// Its end, or an announcement.
        change: ConferenceChange,
    },
    /// Lists the participants of a conference.
    Participants {
        /// The conference's sid.
        conference: String,
    },
    /// Changes one participant of a conference.
    Participant {
        /// The conference's sid.
        conference: String,
        /// The participant's call.
        call: String,
        /// Muted, held, or removed.
        change: ParticipantChange,
    },
    /// Lists the callers of a queue.
    Members {
        /// The queue's sid.
        queue: String,
    },
    /// Takes a caller out of a queue.
    Dequeue {
        /// The queue's sid.
        queue: String,
        /// `None`: the first in line.
        call: Option<String>,
        /// The document that the caller goes on with.
        to: Start,
    },
    /// Begins to record a live call.
    Record {
        /// The call's sid.
        call: String,
        /// The sid of the recording, whose row is in the record.
        recording: String,
        /// Its source and callback.
        how: Box<Background>,
    },
    /// Changes a recording under way.
    Recording {
        /// The recording's sid.
        sid: String,
        /// Pause, resumption or end.
        change: Modify,
    },
    /// Sends a text. For one shard.
    Send {
        /// Its row, which is in the record.
        message: Box<TextMessage>,
        /// The account that sends it.
        owner: Arc<Owner>,
        /// The URL of the callback; empty: none.
        status: String,
    },
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Reply {
    /// It is performed.
    Done,
    /// To `Request::Participants`.
    Participants(Vec<Participant>),
    /// To `Request::Members`.
    Members(Vec<QueueMember>),
    /// To `Request::Dequeue`: the caller that was taken out.
    Member(QueueMember),
}

/// A call to be placed. Its row is in the record.
#[derive(Clone, Debug)]
pub struct Placing {
    /// The row.
    pub call: RestCall,
    /// The account that places it.
    pub owner: Arc<Owner>,
    /// The callee.
    pub to: Address,
    /// Before the document.
    pub send_digits: Vec<Item>,
    /// The caller as the callee sees it.
    pub from: String,
    /// The document to perform once it is answered.
    pub plan: Plan,
    /// The time that it may ring.
    pub timeout: Duration,
    /// Begins with the answer.
    pub record: Option<Background>,
    /// The sid of the call that it is in place of, whose node has died.
    pub redial_of: Option<String>,
}

/// A change of a live call, performed whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The document, and its fallback.
    pub to: Option<(Start, Option<Target>)>,
    /// Ends the call.
    pub end: Option<End>,
    /// Replaces its sound by silence, or takes that back.
    pub mute: Option<bool>,
    /// The time that is left to the call.
    pub time_limit: Option<Duration>,
    /// `Some(None)`: no more callbacks.
    pub status: Option<Option<Callback>>,
    /// Moves the other leg, too; it is refused.
    pub moves_other_leg: bool,
}

impl Voice {
    /// Performs a request of the REST interface, if the call, room or recording is of this shard.
    ///
    /// # Errors
    /// `NotFound`: it is of another shard, or of none; otherwise the reason why the request is refused.
    pub fn handle_request(
        &mut self,
        now: Instant,
        request: Request,
        world: &mut World<'_>,
    ) -> Result<Reply, ControlError> {
        match request {
            Request::Start(placing) => {
                self.place(now, *placing, world)?;
                Ok(Reply::Done)
            }
            Request::Change { call, change } => {
                let changed = self.calls.change_call(now, &call, *change, world);
                self.perform_queued(now, world);
                changed.map(|()| Reply::Done)
            }
            Request::Conference { sid, change } => self
                .with_rooms(now, world, |rooms, parts| rooms.modify_conference(now, &sid, change, parts))
                .map(|()| Reply::Done),
            Request::Participants { conference } => {
                self.rooms.participants(&conference).map(Reply::Participants)
            }
            Request::Participant { conference, call, change } => self
                .with_rooms(now, world, |rooms, parts| {
                    rooms.modify_participant(now, (&conference, &call), change, parts)
                })
                .map(|()| Reply::Done),
            Request::Members { queue } => self.rooms.queue_members(&queue).map(Reply::Members),
            Request::Dequeue { queue, call, to } => self
                .with_rooms(now, world, |rooms, parts| {
                    rooms.dequeue(now, (&queue, call.as_deref()), to, parts)
                })
                .map(Reply::Member),
            Request::Record { call, recording, how } => {
                let leg = self.calls.live(&call)?;
                let begun = self.recordings.start_recording(now, leg, &recording, *how, &mut self.calls);
                begun.map(|()| Reply::Done).map_err(ControlError::Invalid)
            }
            Request::Recording { sid, change } => {
                let is_known = self.recordings.modify_recording(now, &sid, change, &mut self.calls, world);
                if is_known { Ok(Reply::Done) } else { Err(ControlError::NotFound) }
            }
            Request::Send { message, owner, status } => {
                self.dials.origin().check_shown(&self.numbers, &owner, &message.from)?;
                let status = Some(status).filter(|url| !url.is_empty());
                let text = NewText { row: *message, owner, status, script: None };
                self.with_texts(now, world, |texts, parts| texts.send(now, text, parts));
                Ok(Reply::Done)
            }
        }
    }
}

impl Voice {
    /// Places a call.
    ///
    /// # Errors
    /// It is to come from an address that is not the account's.
    pub(super) fn place(
        &mut self,
        now: Instant,
        placing: Placing,
        world: &mut World<'_>,
    ) -> Result<(), ControlError> {
        for shown in [&placing.from, &placing.call.from] {
            self.dials.origin().check_shown(&self.numbers, &placing.owner, shown)?;
        }
        super::outgoing::start_call(self, now, placing.into(), world);
        Ok(())
    }
}

/// Call-ID and SID of each live call of a shard that has a row in the record.
pub fn live_calls(voice: &Voice) -> impl Iterator<Item = (&str, &str)> {
    let is_live = |leg: &&Leg| leg.main.is_some() || !leg.is_gone;
    let legs = voice.calls.legs.iter().map(|(_, leg)| leg).filter(is_live);
    legs.filter_map(|leg| Some((leg.row.as_deref()?.call_id(), leg.sid.as_str())))
}

impl Calls {
    /// The leg of a call that is live.
    fn live(&self, sid: &str) -> Result<Key, ControlError> {
        // A leg with a script and without a dialog is about to be placed.
        let is_live = |leg: &Leg| leg.main.is_some() || !leg.is_gone;
        let found = self.legs.iter().find(|(_, leg)| leg.sid == sid && is_live(leg));
        found.map(|(key, _)| key).ok_or(ControlError::NotFound)
    }

    fn change_call(
        &mut self,
        now: Instant,
        sid: &str,
        change: Change,
        world: &mut World<'_>,
    ) -> Result<(), ControlError> {
        let key = self.live(sid)?;
        let leg = self.legs.get_mut(key).ok_or(ControlError::NotFound)?;
        let (main, session) = (leg.main, leg.session);
        let status = main.and_then(|actor| self.actors.get(actor)).map(|actor| actor.script.status());
        change.check(status)?;
        if let Some(muted) = change.mute {
            leg.mute(muted);
        }
        if let Some(status) = &change.status {
            leg.set_status_callback(now, status.as_ref(), world);
        }
        match main {
            Some(actor) => self.tell(now, actor, world, |script, out| change.apply(now, script, out)),
            // Its Dial hears of the end.
            None if change.end.is_some() => {
                world.endpoint.sessions(now, world.out).hang_up(session, None);
            }
            None => {}
        }
        Ok(())
    }
}

impl Leg {
    /// Replaces the leg's sound by silence for its listeners, until that is taken back.
    fn mute(&mut self, on: bool) {
        self.is_muted = on;
        if let Some(media) = &mut self.media {
            media.mute(on);
        }
    }
}

impl Change {
    /// Before anything is done. `status`: of the call's own script; a leg of a Dial has none.
    fn check(&self, status: Option<CallStatus>) -> Result<(), ControlError> {
        if self.moves_other_leg {
            return Err(ControlError::Unsupported(Cow::Borrowed("MoveConnectedCallLeg")));
        }
        let needs_script = self.to.is_some() || self.time_limit.is_some() || self.status.is_some();
        if status.is_none() && needs_script {
            return Err(ControlError::Unsupported(Cow::Borrowed(
                "Another document for a leg that a Dial made",
            )));
        }
        match status {
            Some(CallStatus::InProgress) if self.end == Some(End::Cancel) => {
                let message = "The call is answered: its Status can be completed, not canceled";
                Err(ControlError::Invalid(message.to_owned()))
            }
            // It is over, and only its last recording is not a file yet.
            Some(
                CallStatus::Completed
                | CallStatus::Busy
                | CallStatus::Failed
                | CallStatus::NoAnswer
                | CallStatus::Canceled,
            ) => Err(ControlError::NotLive),
            // An unanswered call cannot perform a document.
            Some(CallStatus::Queued | CallStatus::Ringing) if self.to.is_some() && self.end.is_none() => {
                Err(ControlError::NotLive)
            }
            _ => Ok(()),
        }
    }

    /// Gives the change to the call's script.
    fn apply(self, now: Instant, script: &mut Script, out: &mut ScriptOutbox) {
        if let Some(status) = self.status {
            script.set_status_callback(status);
        }
        if let Some(left) = self.time_limit {
            script.limit(now, left);
        }
        if let Some((start, fallback)) = self.to {
            script.set_fallback(fallback);
            script.redirect(now, start, out);
        }
        match self.end {
            Some(End::Complete) if script.status() == CallStatus::InProgress => script.hang_up(now, out),
            // Ending a call that is not answered yet cancels it.
            Some(End::Complete | End::Cancel) => script.cancel(now, out),
            None => {}
        }
    }
}
