//! Requests of the REST interface to live calls: sent to all shards, one of which has the call.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use ::voice::Owner;
use ::voice::control::{Change, Placing, Reply, Request};
use ::voice::numbers::{owner_of, plan_of, plan_of_application, target};
use ::voice::record::{Background, Modify, Pause};
use admin::Repository as _;
use admin::control::{
    Audio, CallChange, ConferenceChange, ControlError, ControlPlane, Document, EncodeError, Encoding, End,
    FarmAnswer, Participant, ParticipantChange, QueueMember, RecordingChange, Source, StartCall,
    StartRecording, StatusCallback, Track,
};
use cli::first_account::Chance;
use cluster::Outlet;
use control::Failure;
use ivr::document::{Address, Callback, tones};
use ivr::script::{Plan, Start};
use logging::sign_in_failures::{self, Service, SignInFailures};
use media::session::RecordSource;
use net::clock::Clock;
use stdx::Instant;
use stdx::attempts::Cause;
use store::rest::types::{Application, Conference, RestAccount, TextMessage};
use store::rest::{Resource, RestLoaded, RestRead};
use store::{Loaded, Read};
use voice_io::recordings::Files;
use voice_io::{Order, VoiceShardMessage, limits};

use super::Record;
use crate::farm::files::{NodeFiles, RemoteContent};
use crate::farm::requests::FarmRequester;
use crate::farm::wire::{FileFault, FileKind, FileName};
use crate::message::{InboxMessage, LocalMessage};
use crate::node::Node;
use crate::xmpp::operator::nodes;

const OFF: ControlError = ControlError::Unsupported("Calling without [voice] media in the configuration");

pub(super) struct Plane {
    chance: Chance,
    outlets: Vec<Outlet<InboxMessage>>,
    record: Arc<Record>,
    /// Applications answer calls here.
    has_voice: bool,
    /// `None`: there are no recordings without applications.
    files: Option<Arc<Files>>,
    /// Recordings of the farm's other nodes; none if the node is alone.
    other_files: Option<NodeFiles>,
    /// The shard of the next call.
    next: AtomicUsize,
    chat: crate::xmpp::operator::Operator,
    /// `None`: the node is alone.
    farm: Option<FarmRequester>,
    failures: Arc<SignInFailures>,
}

/// The first shard's answer that is not "not here".
fn ask_shards(outlets: &[Outlet<InboxMessage>], request: &Request) -> Result<Reply, ControlError> {
    let (answer, answers) = sync_channel(outlets.len());
    for outlet in outlets {
        let order = Order { request: request.clone(), answer: answer.clone() };
        outlet
            .send(LocalMessage::Voice(VoiceShardMessage::Control(order)).into())
            .map_err(|_| ControlError::Busy)?;
    }
    drop(answer);
    let clock = Clock::new();
    let until = clock.now() + limits::CONTROL;
    loop {
        match answers.recv_timeout(until.since(clock.now())) {
            Ok(Err(ControlError::NotFound)) => {}
            Ok(reply) => return reply,
            Err(RecvTimeoutError::Disconnected) => return Err(ControlError::NotFound),
            // A shard is late, and it may be the one.
            Err(RecvTimeoutError::Timeout) => return Err(ControlError::Busy),
        }
    }
}

/// Ends a call of an application, in whatever phase it is. Waits for the shards.
///
/// # Errors
/// There is no such call at this node, or no application answers calls here.
pub(crate) fn end_call(
    outlets: &[Outlet<InboxMessage>],
    has_voice: bool,
    sid: &str,
) -> Result<(), ControlError> {
    if !has_voice {
        return Err(OFF);
    }
    let change = Change { end: Some(End::Complete), ..Change::default() };
    ask_shards(outlets, &Request::Change { call: sid.to_owned(), change: Box::new(change) }).map(drop)
}

impl Plane {
    pub(super) fn new(node: &Node, record: Arc<Record>) -> Plane {
        Plane {
            chance: Chance::new(node.clock),
            outlets: node.outlets.clone(),
            record,
            has_voice: node.shared.config.voice.is_on(),
            files: node.voice.as_ref().map(|voice| Arc::clone(voice.files())),
            other_files: node.shared.farm.as_ref().map(|farm| farm.files()),
            next: AtomicUsize::new(0),
            chat: node.chat(),
            farm: node.shared.farm.as_ref().map(|farm| farm.requester()),
            failures: Arc::clone(&node.shared.failures),
        }
    }

    /// The way to files of that node; none if it is this one.
    fn other_node(&self, node: &str) -> Option<&NodeFiles> {
        self.other_files.as_ref().filter(|files| !node.is_empty() && *files.node != *node)
    }

    /// The first answer that is not "not here".
    fn ask(&self, outlets: &[Outlet<InboxMessage>], request: &Request) -> Result<Reply, ControlError> {
        if !self.has_voice {
            return Err(OFF);
        }
        ask_shards(outlets, request)
    }

    fn ask_all(&self, request: &Request) -> Result<Reply, ControlError> {
        self.ask(&self.outlets, request)
    }

    fn tell_all(&self, request: &Request) -> Result<(), ControlError> {
        self.ask_all(request).map(drop)
    }

    /// In turn, so that all shards work.
    fn tell_one(&self, request: &Request) -> Result<(), ControlError> {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.outlets.len().max(1);
        self.ask(&self.outlets[turn..=turn], request).map(drop)
    }

    fn get<T: Resource>(&self, sid: &str) -> Result<T, ControlError> {
        let read = RestRead::Sid { kind: T::KIND, sid: sid.into() };
        match self.record.read(Read::Rest(read)) {
            Ok(Loaded::Rest(RestLoaded::Row(Some(row)))) => {
                T::from_row(&row).map_err(|_| ControlError::NotFound)
            }
            Ok(_) => Err(ControlError::NotFound),
            Err(_) => Err(ControlError::Busy),
        }
    }

    /// Ends a call at whichever other node of the farm it is.
    fn end_elsewhere(&self, sid: &str) -> Result<(), ControlError> {
        let Some(farm) = &self.farm else { return Err(ControlError::NotFound) };
        let request = control::Request::EndCall { call: sid.into() };
        let runtime = tokio::runtime::Handle::current();
        let others = runtime.block_on(farm.ask(&request)).ok_or(ControlError::NotFound)?;
        let own = Err(Failure::from(ControlError::NotFound));
        control::merge(&request, own, others).map(drop).map_err(|_| ControlError::NotFound)
    }

    fn owner(&self, account: &str) -> Result<Arc<Owner>, ControlError> {
        self.get::<RestAccount>(account).map(|account| Arc::new(owner_of(&account)))
    }

    /// The plan for a document: an application brings its fallback and callback.
    fn plan(&self, document: Document) -> Result<Plan, ControlError> {
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

    /// A document that puts the call into the conference.
    fn conference_document(
        &self,
        sid: &str,
        attributes: &[(&'static str, String)],
    ) -> Result<Document, ControlError> {
        let name = escape(&self.get::<Conference>(sid)?.friendly_name);
        let attributes: String =
            attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", escape(value))).collect();
        let dial = format!("<Response><Dial><Conference{attributes}>{name}</Conference></Dial></Response>");
        Ok(Document::Inline(dial))
    }
}

fn not_absolute(name: &str, url: &str) -> ControlError {
    ControlError::Invalid(format!("{name} {url:?}: expected http:// or https:// and a host"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn file(kind: FileKind, sid: &str) -> FileName {
    FileName { kind, id: sid.into() }
}

fn audio(media_type: &'static str) -> impl Fn(RemoteContent) -> Audio {
    move |content| Audio { media_type, length: content.size, read: Box::new(content) }
}

fn sound_error(fault: FileFault) -> EncodeError {
    match fault {
        FileFault::Unknown => EncodeError::NotFound,
        FileFault::Away => EncodeError::Away,
        FileFault::Busy => EncodeError::Busy,
        FileFault::Failed => EncodeError::Failed,
        FileFault::NoEncoder => EncodeError::NoEncoder,
    }
}

const CALL_EVENTS: &[&str] = &["initiated", "ringing", "answered", "completed"];
const RECORDING_EVENTS: &[&str] = &["in-progress", "completed", "absent"];

/// A callback for the requested events among `known`; when no event is requested, for the end only. `None`: no callback
/// is sent.
fn callback(asked: &StatusCallback, known: &[&'static str]) -> Result<Option<Callback>, ControlError> {
    if asked.url.is_empty() {
        return Ok(None);
    }
    let target =
        target(&asked.url, &asked.method).ok_or_else(|| not_absolute("StatusCallback", &asked.url))?;
    let is_asked = |event: &&'static str| asked.events.iter().any(|asked| asked == event);
    let mut events: Vec<_> = known.iter().copied().filter(is_asked).collect();
    if asked.events.is_empty() {
        events.push("completed");
    }
    Ok(Some(Callback { target, events }))
}

/// `of`: the recording's `source` in the record.
fn background(how: &StartRecording, of: &'static str) -> Result<Background, ControlError> {
    let source = match (how.track, how.channels) {
        (Track::Inbound, _) => RecordSource::Received,
        (Track::Both, 2) => RecordSource::Dual,
        (Track::Both, _) => RecordSource::Both,
    };
    let status = callback(&how.status_callback, RECORDING_EVENTS)?;
    Ok(Background { source, trim: how.trim, status, of, conference: None })
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

impl Source for Plane {
    fn now(&self) -> Instant {
        self.chance.now()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.chance.fill_random(bytes);
    }
}

impl ControlPlane for Plane {
    fn start_call(&self, start: StartCall) -> Result<(), ControlError> {
        if !start.machine_detection.is_empty() {
            return Err(ControlError::Unsupported("MachineDetection"));
        }
        let document = match &start.conference {
            Some(conference) => self.conference_document(conference, &start.participant)?,
            None => start.document,
        };
        let mut plan = self.plan(document)?;
        if let Some(status) = callback(&start.status_callback, CALL_EVENTS)? {
            plan.status = Some(status);
        }
        plan.time_limit = start.time_limit.map(|seconds| Duration::from_secs(seconds.into()));
        let credentials = (given(&start.sip_user), given(&start.sip_password));
        let to = Address::parse(&start.call.to, credentials.0, credentials.1);
        let record = start.record.as_ref().map(|how| background(how, "OutboundAPI"));
        let placing = Placing {
            owner: self.owner(&start.call.common.account)?,
            to,
            send_digits: tones(&start.send_digits),
            from: given(&start.caller_id).unwrap_or_else(|| start.call.from.clone()),
            plan,
            timeout: Duration::from_secs(start.timeout.into()),
            record: record.transpose()?,
            call: start.call,
        };
        self.tell_one(&Request::Start(Box::new(placing)))
    }

    fn modify_call(&self, sid: &str, change: CallChange) -> Result<(), ControlError> {
        let to = change.document.map(|document| self.plan(document)).transpose()?;
        let change = Change {
            to: to.map(|plan| (plan.start, plan.fallback)),
            end: change.end,
            mute: change.mute,
            time_limit: change.time_limit.map(|seconds| Duration::from_secs(seconds.into())),
            status: change.status_callback.as_ref().map(|asked| callback(asked, CALL_EVENTS)).transpose()?,
            moves_other_leg: change.move_connected_leg,
        };
        let is_end = change.to.is_none() && change.end.is_some();
        match self.tell_all(&Request::Change { call: sid.to_owned(), change: Box::new(change) }) {
            Err(ControlError::NotFound) if is_end => self.end_elsewhere(sid),
            done => done,
        }
    }

    fn modify_conference(&self, sid: &str, change: ConferenceChange) -> Result<(), ControlError> {
        self.tell_all(&Request::Conference { sid: sid.to_owned(), change })
    }

    fn participants(&self, conference: &str) -> Vec<Participant> {
        match self.ask_all(&Request::Participants { conference: conference.to_owned() }) {
            Ok(Reply::Participants(all)) => all,
            _ => Vec::new(),
        }
    }

    fn modify_participant(
        &self,
        conference: &str,
        call: &str,
        change: ParticipantChange,
    ) -> Result<(), ControlError> {
        let (conference, call) = (conference.to_owned(), call.to_owned());
        self.tell_all(&Request::Participant { conference, call, change })
    }

    fn queue_members(&self, queue: &str) -> Vec<QueueMember> {
        match self.ask_all(&Request::Members { queue: queue.to_owned() }) {
            Ok(Reply::Members(all)) => all,
            _ => Vec::new(),
        }
    }

    fn dequeue(&self, queue: &str, call: Option<&str>, to: Document) -> Result<QueueMember, ControlError> {
        let to = self.plan(to)?.start;
        let (queue, call) = (queue.to_owned(), call.map(str::to_owned));
        match self.ask_all(&Request::Dequeue { queue, call, to })? {
            Reply::Member(member) => Ok(member),
            _ => Err(ControlError::NotFound),
        }
    }

    fn start_recording(&self, call: &str, recording: &str, how: &StartRecording) -> Result<(), ControlError> {
        let how = Box::new(background(how, "StartCallRecordingAPI")?);
        let (call, recording) = (call.to_owned(), recording.to_owned());
        self.tell_all(&Request::Record { call, recording, how })
    }

    fn modify_recording(&self, sid: &str, change: RecordingChange) -> Result<(), ControlError> {
        let change = match change {
            RecordingChange::Pause { is_silent: false } => Modify::Pause(Pause::Skip),
            RecordingChange::Pause { is_silent: true } => Modify::Pause(Pause::Silence),
            RecordingChange::Resume => Modify::Resume,
            RecordingChange::Stop => Modify::Stop,
        };
        self.tell_all(&Request::Recording { sid: sid.to_owned(), change })
    }

    fn recording(&self, sid: &str, node: &str) -> Result<Audio, EncodeError> {
        let media_type = "audio/x-wav";
        if let Some(sound) = self.files.as_ref().and_then(|files| files.open(sid)) {
            return Ok(Audio { media_type, length: sound.len, read: Box::new(sound.file) });
        }
        let other = self.other_node(node).ok_or(EncodeError::NotFound)?;
        let opened = other.open(node, file(FileKind::Recording, sid));
        tokio::runtime::Handle::current().block_on(opened).map(audio(media_type)).map_err(sound_error)
    }

    fn recording_as_mp3(&self, sid: &str, node: &str) -> Encoding {
        let media_type = "audio/mpeg";
        let (files, other) = (self.files.clone(), self.other_node(node).cloned());
        let (sid, node) = (sid.to_owned(), node.to_owned());
        Box::pin(async move {
            let here = match files {
                Some(files) => files.open_mp3(&sid).await,
                None => Err(EncodeError::NotFound),
            };
            match (here, other) {
                (Ok(sound), _) => Ok(Audio { media_type, length: sound.len, read: Box::new(sound.file) }),
                // Not here, or nothing here encodes.
                (Err(EncodeError::NotFound | EncodeError::NoEncoder), Some(other)) => {
                    let opened = other.open(&node, file(FileKind::RecordingAsMp3, &sid)).await;
                    opened.map(audio(media_type)).map_err(sound_error)
                }
                (Err(error), _) => Err(error),
            }
        })
    }

    fn remove_recording(&self, sid: &str, node: &str) -> Result<(), EncodeError> {
        if let Some(files) = &self.files {
            files.delete(sid).map_err(|error| {
                tracing::error!(%error, sid, "a recording cannot be deleted");
                EncodeError::Busy
            })?;
        }
        let Some(other) = self.other_node(node) else { return Ok(()) };
        let deleted = other.delete(node, file(FileKind::Recording, sid));
        tokio::runtime::Handle::current().block_on(deleted).map_err(sound_error)
    }

    fn send_message(&self, message: &TextMessage, status_callback: &str) -> Result<(), ControlError> {
        let owner = self.owner(&message.common.account)?;
        let (message, status) = (Box::new(message.clone()), status_callback.to_owned());
        self.tell_one(&Request::Send { message, owner, status })
    }

    fn sign_in_failed(&self, from: IpAddr, account: &str, cause: Cause) {
        let failure = sign_in_failures::Failure {
            service: Service::Rest,
            transport: "http",
            address: from,
            account,
            cause,
        };
        self.failures.note(self.now(), &failure);
    }

    fn chat(&self, ask: admin::chat::Ask) -> Result<admin::chat::Answer, ControlError> {
        // On a thread of the blocking pool: it may wait.
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(self.chat.perform(self.now(), ask))
    }

    fn chat_of_farm(&self, ask: admin::chat::Ask) -> Result<FarmAnswer, ControlError> {
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(nodes::perform(&self.chat, self.now(), ask))
    }
}
