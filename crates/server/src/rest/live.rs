//! Objects in the memory of this node - calls, conferences, queues, recordings under way - as requests of the REST interface reach
//! it, whichever node of a farm got them. All shards are asked; one of them has the object.
//!
//! In: a [`LiveRequest`] in the words of REST, by sids. Out: one `voice::control::Request` with everything that
//! a shard needs (documents, accounts and applications are read from the database here, as a shard must not
//! wait). Threads that call it may wait. Invariant: a request is performed by at most one shard, the one that
//! has the object; the others answer `NotFound`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use ::voice::Owner;
use ::voice::control::{Change, Reply, Request};
use ::voice::numbers::{owner_of, plan_of, plan_of_application, target};
use ::voice::record::{Background, Modify, Pause};
use admin::Repository as _;
use admin::control::{
    CallChange, ControlError, Document, RecordingChange, StartRecording, StatusCallback, Track,
};
use admin::live::{LiveAnswer, LiveRequest};
use cluster::Outlet;
use ivr::document::Callback;
use ivr::script::{Plan, Start};
use media::session::RecordSource;
use net::clock::Clock;
use store::rest::types::{Application, RestAccount};
use store::rest::{Resource, RestLoaded, RestRead};
use store::{Loaded, Read};
use voice_io::{Order, VoiceShardMessage, limits};

use super::Record;
use crate::message::{InboxMessage, LocalMessage};
use crate::node::Node;

/// The refusal of a node without programmable voice.
const OFF: ControlError =
    ControlError::Unsupported(Cow::Borrowed("Calling without [voice] media in the configuration"));

/// The live objects of this node. Cheap to make and to clone.
#[derive(Clone)]
pub(crate) struct LiveObjects {
    outlets: Vec<Outlet<InboxMessage>>,
    record: Arc<Record>,
    /// Applications answer calls here.
    has_voice: bool,
}

impl LiveObjects {
    pub(crate) fn new(node: &Node) -> LiveObjects {
        LiveObjects::with_record(node, Arc::new(Record::new(node)))
    }

    pub(super) fn with_record(node: &Node, record: Arc<Record>) -> LiveObjects {
        LiveObjects { outlets: node.outlets.clone(), record, has_voice: node.shared.config.voice.is_on() }
    }

    /// Performs a request. Waits for the shards and the database.
    ///
    /// # Errors
    /// `NotFound`: the object is not at this node.
    pub(crate) fn perform(&self, request: LiveRequest) -> Result<LiveAnswer, ControlError> {
        let reply = self.ask(&self.outlets, &self.request_of(request)?)?;
        Ok(match reply {
            Reply::Done => LiveAnswer::Done,
            Reply::Participants(all) => LiveAnswer::Participants(all),
            Reply::Members(all) => LiveAnswer::Members(all),
            Reply::Member(member) => LiveAnswer::Members(vec![member]),
        })
    }

    /// Gives a request to one shard; `turn` counts such requests, so that all shards work.
    pub(super) fn tell_one(&self, turn: usize, request: &Request) -> Result<(), ControlError> {
        // A new call exists nowhere yet, so any shard may have it; its Call-ID is chosen so that it belongs to
        // that shard.
        let shard = turn % self.outlets.len().max(1);
        self.ask(&self.outlets[shard..=shard], request).map(drop)
    }

    /// The request in the words of the calls; documents and applications that it names are read from the database.
    fn request_of(&self, request: LiveRequest) -> Result<Request, ControlError> {
        Ok(match request {
            LiveRequest::ChangeCall { call, change } => {
                Request::Change { call, change: Box::new(self.change(change)?) }
            }
            LiveRequest::ChangeConference { conference, change } => {
                Request::Conference { sid: conference, change }
            }
            LiveRequest::Participants { conference } => Request::Participants { conference },
            LiveRequest::ChangeParticipant { conference, call, change } => {
                Request::Participant { conference, call, change }
            }
            LiveRequest::QueueMembers { queue } => Request::Members { queue },
            LiveRequest::Dequeue { queue, call, to } => {
                Request::Dequeue { queue, call, to: self.plan(to)?.start }
            }
            LiveRequest::StartRecording { call, recording, how } => {
                let how = Box::new(background(&how, "StartCallRecordingAPI")?);
                Request::Record { call, recording, how }
            }
            LiveRequest::ChangeRecording { recording, change } => {
                let change = match change {
                    RecordingChange::Pause { is_silent: false } => Modify::Pause(Pause::Skip),
                    RecordingChange::Pause { is_silent: true } => Modify::Pause(Pause::Silence),
                    RecordingChange::Resume => Modify::Resume,
                    RecordingChange::Stop => Modify::Stop,
                };
                Request::Recording { sid: recording, change }
            }
        })
    }

    fn change(&self, change: CallChange) -> Result<Change, ControlError> {
        let to = change.document.map(|document| self.plan(document)).transpose()?;
        Ok(Change {
            // Only the document changes: callbacks and limits of the call stay those of its beginning unless
            // the request names them.
            to: to.map(|plan| (plan.start, plan.fallback)),
            end: change.end,
            mute: change.mute,
            time_limit: change.time_limit.map(|seconds| Duration::from_secs(seconds.into())),
            status: change.status_callback.as_ref().map(|asked| callback(asked, CALL_EVENTS)).transpose()?,
            moves_other_leg: change.move_connected_leg,
        })
    }

    /// The first answer that is not "not here".
    fn ask(&self, outlets: &[Outlet<InboxMessage>], request: &Request) -> Result<Reply, ControlError> {
        if !self.has_voice {
            return Err(OFF);
        }
        ask_shards(outlets, request)
    }

    /// A resource of the database by its SID. `Busy`: the database does not answer.
    pub(super) fn get<T: Resource>(&self, sid: &str) -> Result<T, ControlError> {
        let read = RestRead::Sid { kind: T::KIND, sid: sid.into() };
        match self.record.read(Read::Rest(read)) {
            // A row that cannot be read counts as absent: a request cannot mend it, and trying again would not
            // help.
            Ok(Loaded::Rest(RestLoaded::Row(Some(row)))) => {
                T::from_row(&row).map_err(|_| ControlError::NotFound)
            }
            Ok(_) => Err(ControlError::NotFound),
            Err(_) => Err(ControlError::Busy),
        }
    }

    pub(super) fn owner(&self, account: &str) -> Result<Arc<Owner>, ControlError> {
        self.get::<RestAccount>(account).map(|account| Arc::new(owner_of(&account)))
    }

    /// The plan for a document: an application brings its fallback and callback.
    pub(super) fn plan(&self, document: Document) -> Result<Plan, ControlError> {
        match document {
            Document::Inline(text) => Ok(plan_of(Start::Document(text.into_bytes()))),
            Document::Url { url, method, fallback_url, fallback_method } => {
                let start = target(&url, &method).ok_or_else(|| not_absolute("Url", &url))?;
                let fallback = if fallback_url.is_empty() {
                    None
                } else {
                    let fallback = target(&fallback_url, &fallback_method);
                    Some(fallback.ok_or_else(|| not_absolute("FallbackUrl", &fallback_url))?)
                };
                Ok(Plan { fallback, ..plan_of(Start::Url(start)) })
            }
            Document::Application(sid) => {
                let application = self.get::<Application>(&sid)?;
                plan_of_application(&application)
                    .ok_or_else(|| ControlError::Invalid(format!("Application {sid} has no VoiceUrl")))
            }
        }
    }
}

/// The first shard's answer that is not "not here". Waits until all shards have answered, and [`limits::CONTROL`] at most: the inbox of a
/// shard that stands still keeps its copy of the request, so that `Busy` does not mean that nothing will be done.
fn ask_shards(outlets: &[Outlet<InboxMessage>], request: &Request) -> Result<Reply, ControlError> {
    // Room for every answer, so that no shard ever waits for this thread.
    let (answer, answers) = sync_channel(outlets.len());
    for outlet in outlets {
        let order = Order { request: request.clone(), answer: answer.clone() };
        outlet
            .send(LocalMessage::Voice(VoiceShardMessage::Control(order)).into())
            // Shards that have the request already may still perform it; `Busy` promises nothing.
            .map_err(|_| ControlError::Busy)?;
    }
    // The channel closes when the last shard has answered or dropped its copy: then the object is at none.
    drop(answer);
    let clock = Clock::new();
    let until = clock.now() + limits::CONTROL;
    loop {
        match answers.recv_timeout(until.since(clock.now())) {
            // Not at this shard; another may have it.
            Ok(Err(ControlError::NotFound)) => {}
            Ok(reply) => return reply,
            Err(RecvTimeoutError::Disconnected) => return Err(ControlError::NotFound),
            // A shard is late, and it may be the one.
            Err(RecvTimeoutError::Timeout) => return Err(ControlError::Busy),
        }
    }
}

fn not_absolute(name: &str, url: &str) -> ControlError {
    ControlError::Invalid(format!("{name} {url:?}: expected http:// or https:// and a host"))
}

/// The events of a call that a `StatusCallbackEvent` may name.
pub(super) const CALL_EVENTS: &[&str] = &["initiated", "ringing", "answered", "completed"];
const RECORDING_EVENTS: &[&str] = &["in-progress", "completed", "absent"];

/// A callback for the requested events among `known`; when no event is requested, for the end only. `None`: no callback
/// is sent.
pub(super) fn callback(
    asked: &StatusCallback,
    known: &[&'static str],
) -> Result<Option<Callback>, ControlError> {
    if asked.url.is_empty() {
        return Ok(None);
    }
    let target =
        target(&asked.url, &asked.method).ok_or_else(|| not_absolute("StatusCallback", &asked.url))?;
    let is_asked = |event: &&'static str| asked.events.iter().any(|asked| asked == event);
    let mut events: Vec<_> = known.iter().copied().filter(is_asked).collect();
    // RestComm and Twilio tell the end only, unless events are named.
    if asked.events.is_empty() {
        events.push("completed");
    }
    Ok(Some(Callback { target, events }))
}

/// A recording that the REST interface begins. `of`: the `source` of its row.
pub(super) fn background(how: &StartRecording, of: &'static str) -> Result<Background, ControlError> {
    let source = match (how.track, how.channels) {
        // One direction has one channel, however many were asked for.
        (Track::Inbound, _) => RecordSource::Received,
        (Track::Both, 2) => RecordSource::Dual,
        (Track::Both, _) => RecordSource::Both,
    };
    let status = callback(&how.status_callback, RECORDING_EVENTS)?;
    Ok(Background { source, trim: how.trim, status, of, conference: None })
}
