//! The REST interface's requests to what is live: to this node's objects, and in a farm to those of the other nodes.
//!
//! This node is asked first: with one node that is all, and an object of this node costs no message.
//! [`Plane::ask`] decides if the farm is asked too. Files of recordings are read where their row says that they
//! are. Invariant: `NotFound` is answered only if every node has answered; a node that is silent makes it
//! `Busy`, as its object may live on.

use std::borrow::Cow;
use std::io::{Seek as _, SeekFrom};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::voice::control::{Placing, Request};
use admin::control::{
    Audio, CallChange, ConferenceChange, ControlError, ControlPlane, Document, EncodeError, Encoding,
    FarmAnswer, IdentityVerdict, Participant, ParticipantChange, QueueMember, RecordingChange, Source,
    StartCall, StartRecording,
};
use admin::live::{LiveAnswer, LiveRequest};
use cli::first_account::Chance;
use control::{FailureKind, NodeResponse, Response};
use ivr::document::{Address, tones};
use logging::Identity;
use logging::sign_in_failures::{self, Service, SignInFailures};
use stdx::Instant;
use stdx::attempts::Cause;
use store::rest::types::TextMessage;
use voice_io::recordings::Files;

use super::Record;
use super::identities::Identities;
use super::live::{CALL_EVENTS, LiveObjects, background, callback};
use super::privileged::PrivilegedAccounts;
use crate::farm::files::RemoteContent;
use crate::farm::requests::FarmRequester;
use crate::node::Node;
use crate::recorded_sound::{RecordedSound, sound_error};
use crate::xmpp::operator::nodes;
use shard_message::wire::{FileKind, FileName};

/// The media type of recordings.
const WAV: &str = "audio/x-wav";

/// The `admin::ControlPlane` of the node. Its methods wait, on threads that may.
pub(super) struct Plane {
    chance: Chance,
    live: LiveObjects,
    /// `None`: there are no recordings without applications.
    files: Option<Arc<Files>>,
    sound: RecordedSound,
    /// The shard of the next call.
    next: AtomicUsize,
    chat: crate::xmpp::operator::Operator,
    /// `None`: the node is alone.
    farm: Option<FarmRequester>,
    failures: Arc<SignInFailures>,
    /// `None`: no domain has a source of sign-ins.
    identities: Option<Identities>,
    privileged: Arc<PrivilegedAccounts>,
}

impl Plane {
    pub(super) fn new(node: &Node, record: Arc<Record>, privileged: Arc<PrivilegedAccounts>) -> Plane {
        Plane {
            chance: Chance::new(node.clock),
            live: LiveObjects::with_record(node, record),
            files: node.voice.as_ref().map(|voice| Arc::clone(voice.files())),
            sound: RecordedSound::new(node),
            next: AtomicUsize::new(0),
            chat: node.chat(),
            farm: node.shared.farm.as_ref().map(|farm| farm.requester()),
            failures: Arc::clone(&node.shared.failures),
            identities: node.shared.authenticator.clone().map(Identities),
            privileged,
        }
    }

    /// The answer of the node that has the object: this one or another of the farm. Lists are joined of all nodes' parts.
    /// A node that does not answer is left out of a list.
    fn ask(&self, request: LiveRequest) -> Result<LiveAnswer, ControlError> {
        self.ask_nodes(request, false)
    }

    /// As [`ask`](Self::ask); with `needs_all` a list without a node's part is `Busy`.
    fn ask_nodes(&self, request: LiveRequest, needs_all: bool) -> Result<LiveAnswer, ControlError> {
        let is_list = request.is_list();
        let own = self.live.perform(request.clone());
        match (&self.farm, own) {
            (None, own) => own,
            // An object is at one node only: its answer is complete.
            (Some(_), Ok(answer)) if !is_list => Ok(answer),
            (Some(farm), own @ (Ok(_) | Err(ControlError::NotFound | ControlError::Unsupported(_)))) => {
                self.ask_farm(farm, request, own, needs_all)
            }
            // A refusal by the object itself (`Invalid`, `NotLive`, …), or a busy shard here: other nodes could
            // not say more.
            (Some(_), Err(refusal)) => Err(refusal),
        }
    }

    /// Asks the other nodes, and joins their answers to `own`, that of this node.
    fn ask_farm(
        &self,
        farm: &FarmRequester,
        request: LiveRequest,
        own: Result<LiveAnswer, ControlError>,
        needs_all: bool,
    ) -> Result<LiveAnswer, ControlError> {
        let request = control::Request::Live(Box::new(request));
        // On a thread of the blocking pool, where a handler of REST waits.
        let others = tokio::runtime::Handle::current().block_on(farm.ask(&request)).unwrap_or_default();
        joined(own, others.responses.into_iter().map(|NodeResponse { response, .. }| response), needs_all)
    }

    /// The calls of a queue; with `needs_all` of every node or none.
    fn members(&self, queue: &str, needs_all: bool) -> Result<Vec<QueueMember>, ControlError> {
        match self.ask_nodes(LiveRequest::QueueMembers { queue: queue.to_owned() }, needs_all) {
            Ok(LiveAnswer::Members(all)) => Ok(all),
            answer => none_unless_busy(&answer),
        }
    }

    /// A recording that is not in this node's folder: in the store of objects, or at the node that its row names.
    fn recording_elsewhere(&self, sid: &str, node: &str, from: u64) -> Result<Audio, EncodeError> {
        let stored = self.stored(sid, from);
        if stored.is_ok() {
            return stored;
        }
        let Some(other) = self.sound.other_node(node) else { return stored };
        let opened = other.open(node, file(FileKind::Recording, sid));
        let opened = tokio::runtime::Handle::current().block_on(opened);
        let remote = opened.map(audio(WAV)).map_err(sound_error).and_then(|audio| audio.skip(from));
        match (stored, remote) {
            // It has been put since the store was asked.
            (Err(EncodeError::NotFound), Err(EncodeError::NotFound)) => self.stored(sid, from),
            // The store has it, perhaps, and does not answer.
            (Err(error), Err(EncodeError::NotFound)) => Err(error),
            (_, remote) => remote,
        }
    }

    /// A recording in the store of objects, from that byte on.
    fn stored(&self, sid: &str, from: u64) -> Result<Audio, EncodeError> {
        let files = self.files.as_ref().ok_or(EncodeError::NotFound)?;
        let sound = tokio::runtime::Handle::current().block_on(files.open_stored(sid, from))?;
        Ok(Audio { media_type: WAV, length: sound.len, read: Box::new(sound) })
    }
}

/// The RCML document that puts a call into the conference of that name, as callers whose documents name it, with the attributes of
/// `<Conference>` that a request for a participant names. A new room begins if there is none.
fn conference_document(name: &str, attributes: &[(&'static str, String)]) -> Document {
    let name = escape(name);
    let attributes: String =
        attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", escape(value))).collect();
    let dial = format!("<Response><Dial><Conference{attributes}>{name}</Conference></Dial></Response>");
    Document::Inline(dial)
}

/// The answers of all nodes as one. Where no node has the object but one has not answered, the object may be there: `Busy`, not `NotFound`. With
/// `needs_all` a list that lacks the rows of a node is `Busy`, too.
fn joined(
    own: Result<LiveAnswer, ControlError>,
    others: impl Iterator<Item = Option<Response>>,
    needs_all: bool,
) -> Result<LiveAnswer, ControlError> {
    let (mut all, mut is_complete) = (own, true);
    for response in others {
        match response {
            Some(Response::Live(answer)) => match (&mut all, *answer) {
                // The node that has the object has refused the change.
                (_, LiveAnswer::Refused(refusal)) => all = Err(refusal),
                (Ok(all), answer) => is_complete &= all.join(answer),
                // This node has not got it (or no voice); the first that has it counts.
                (Err(_), answer) => all = Ok(answer),
            },
            Some(Response::Failed(failure)) if failure.kind == FailureKind::NotFound => {}
            // It stands still, or is of another version: it may be the one.
            _ => is_complete = false,
        }
    }
    match all {
        Err(ControlError::NotFound) if !is_complete => Err(ControlError::Busy),
        Ok(_) if needs_all && !is_complete => Err(ControlError::Busy),
        all => all,
    }
}

/// The list that stands for another answer. A conference or queue that no node has in memory, or a node without voice, has no members; a
/// node that is too busy to say may have some.
fn none_unless_busy<T>(answer: &Result<LiveAnswer, ControlError>) -> Result<Vec<T>, ControlError> {
    match answer {
        Err(ControlError::Busy) => Err(ControlError::Busy),
        _ => Ok(Vec::new()),
    }
}

/// Text and attribute values of XML; attributes stand in double quotes.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn file(kind: FileKind, sid: &str) -> FileName {
    FileName { kind, id: sid.into() }
}

fn audio(media_type: &'static str) -> impl Fn(RemoteContent) -> Audio {
    move |content| Audio { media_type, length: content.size, read: Box::new(content) }
}

/// An empty parameter counts as absent.
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
            return Err(ControlError::Unsupported(Cow::Borrowed("MachineDetection")));
        }
        let document = match &start.conference {
            Some(conference) => conference_document(conference, &start.participant),
            None => start.document,
        };
        // Reads the database: before the call exists, so that a mistake in the request is an answer and no
        // failed call.
        let mut plan = self.live.plan(document)?;
        if let Some(status) = callback(&start.status_callback, CALL_EVENTS)? {
            plan.status = Some(status);
        }
        plan.time_limit = start.time_limit.map(|seconds| Duration::from_secs(seconds.into()));
        let credentials = (given(&start.sip_user), given(&start.sip_password));
        let to = Address::parse(&start.call.to, credentials.0, credentials.1);
        let record = start.record.as_ref().map(|how| background(how, "OutboundAPI"));
        let placing = Placing {
            owner: self.live.owner(&start.call.common.account)?,
            to,
            send_digits: tones(&start.send_digits),
            from: given(&start.caller_id).unwrap_or_else(|| start.call.from.clone()),
            plan,
            timeout: Duration::from_secs(start.timeout.into()),
            record: record.transpose()?,
            call: start.call,
            redial_of: None,
        };
        self.live.tell_one(self.next.fetch_add(1, Ordering::Relaxed), &Request::Start(Box::new(placing)))
    }

    fn modify_call(&self, sid: &str, change: CallChange) -> Result<(), ControlError> {
        self.ask(LiveRequest::ChangeCall { call: sid.to_owned(), change }).map(drop)
    }

    fn modify_conference(&self, sid: &str, change: ConferenceChange) -> Result<(), ControlError> {
        self.ask(LiveRequest::ChangeConference { conference: sid.to_owned(), change }).map(drop)
    }

    fn participants(&self, conference: &str) -> Result<Vec<Participant>, ControlError> {
        match self.ask(LiveRequest::Participants { conference: conference.to_owned() }) {
            Ok(LiveAnswer::Participants(all)) => Ok(all),
            answer => none_unless_busy(&answer),
        }
    }

    fn modify_participant(
        &self,
        conference: &str,
        call: &str,
        change: ParticipantChange,
    ) -> Result<(), ControlError> {
        let (conference, call) = (conference.to_owned(), call.to_owned());
        self.ask(LiveRequest::ChangeParticipant { conference, call, change }).map(drop)
    }

    fn queue_members(&self, queue: &str) -> Result<Vec<QueueMember>, ControlError> {
        self.members(queue, false)
    }

    fn all_queue_members(&self, queue: &str) -> Result<Vec<QueueMember>, ControlError> {
        self.members(queue, true)
    }

    fn dequeue(&self, queue: &str, call: Option<&str>, to: Document) -> Result<QueueMember, ControlError> {
        // Of the callers at all nodes one is the first.
        // The lists of all nodes are one, in the order of waiting; between the list and the request the caller
        // may have left, then the answer is `NotFound`.
        let call = match call {
            Some(call) => call.to_owned(),
            None => {
                let first = self.all_queue_members(queue)?.into_iter().next();
                first.ok_or(ControlError::NotFound)?.call_sid
            }
        };
        let request = LiveRequest::Dequeue { queue: queue.to_owned(), call: Some(call), to };
        match self.ask(request)? {
            LiveAnswer::Members(all) => all.into_iter().next().ok_or(ControlError::NotFound),
            _ => Err(ControlError::NotFound),
        }
    }

    fn start_recording(&self, call: &str, recording: &str, how: &StartRecording) -> Result<(), ControlError> {
        let (call, recording) = (call.to_owned(), recording.to_owned());
        self.ask(LiveRequest::StartRecording { call, recording, how: how.clone() }).map(drop)
    }

    fn modify_recording(&self, sid: &str, change: RecordingChange) -> Result<(), ControlError> {
        self.ask(LiveRequest::ChangeRecording { recording: sid.to_owned(), change }).map(drop)
    }

    fn recording(&self, sid: &str, node: &str) -> Result<Audio, EncodeError> {
        // Looked for here without regard to the row: a node that was renamed still has its files.
        if let Some(sound) = self.files.as_ref().and_then(|files| files.open(sid)) {
            return Ok(Audio { media_type: WAV, length: sound.len, read: Box::new(sound.file) });
        }
        self.recording_elsewhere(sid, node, 0)
    }

    fn recording_from(&self, sid: &str, node: &str, from: u64) -> Result<Audio, EncodeError> {
        let Some(mut sound) = self.files.as_ref().and_then(|files| files.open(sid)) else {
            return self.recording_elsewhere(sid, node, from);
        };
        if from < sound.len {
            sound.file.seek(SeekFrom::Start(from)).map_err(|_| EncodeError::Failed)?;
        }
        Ok(Audio { media_type: WAV, length: sound.len, read: Box::new(sound.file) })
    }

    fn recording_as_mp3(&self, sid: &str, node: &str) -> Encoding {
        let media_type = "audio/mpeg";
        let (files, other) = (self.files.clone(), self.sound.other_node(node).cloned());
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
        tokio::runtime::Handle::current().block_on(self.sound.delete(sid, node))
    }

    fn send_message(&self, message: &TextMessage, status_callback: &str) -> Result<(), ControlError> {
        let owner = self.live.owner(&message.common.account)?;
        let (message, status) = (Box::new(message.clone()), status_callback.to_owned());
        self.live
            .tell_one(self.next.fetch_add(1, Ordering::Relaxed), &Request::Send { message, owner, status })
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

    fn check_identity_token(&self, token: &str) -> IdentityVerdict {
        self.identities.as_ref().map_or(IdentityVerdict::NoSource, |all| all.check(self.now(), token))
    }

    fn identity_signed_in(&self, from: IpAddr, account: &str, user: &store::Address) {
        let user = user.to_string();
        tracing::info!(
            target: "belfry::audit",
            account, %from, action = "SignIn", subject = &*Identity(&user).to_string(), "REST"
        );
    }

    fn is_privileged(&self, account: &store::Address) -> bool {
        self.privileged.contains(account)
    }

    fn key_changed(&self, account: &str, action: &'static str, key: &str) {
        tracing::info!(target: "belfry::audit", account, action, subject = key, "REST");
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

#[cfg(test)]
mod tests {
    use control::Failure;

    use super::*;

    /// Twilio deletes empty queues only, and the calls of a queue may be at any node (`admin::resources::queues`).
    #[test]
    fn a_queue_is_empty_only_if_all_nodes_say_so() {
        let waiting = |calls: &[&str]| {
            let member =
                |call: &&str| QueueMember { call_sid: (*call).to_owned(), enqueued_at: Instant::default() };
            LiveAnswer::Members(calls.iter().map(member).collect())
        };
        let at_other = |calls: &[&str]| Some(Response::Live(Box::new(waiting(calls))));
        let absent = || Some(Response::Failed(Failure::new(FailureKind::NotFound, "no such queue")));
        let calls = |own, others: Vec<Option<Response>>, needs_all| -> Result<Vec<String>, ControlError> {
            let answer = joined(own, others.into_iter(), needs_all)?;
            let LiveAnswer::Members(members) = answer else { panic!("{answer:?}") };
            Ok(members.into_iter().map(|member| member.call_sid).collect())
        };
        for needs_all in [false, true] {
            let found = calls(Err(ControlError::NotFound), vec![absent(), at_other(&["CA1"])], needs_all);
            assert_eq!(found, Ok(vec!["CA1".to_owned()]), "a call waits at another node");
            let found = calls(Ok(waiting(&["CA2"])), vec![at_other(&["CA1"])], needs_all);
            assert_eq!(found.map(|calls| calls.len()), Ok(2));
            assert_eq!(calls(Ok(waiting(&[])), vec![at_other(&[]), absent()], needs_all), Ok(Vec::new()));
        }
        assert_eq!(calls(Ok(waiting(&[])), vec![None], false), Ok(Vec::new()));
        assert_eq!(
            calls(Ok(waiting(&[])), vec![None], true),
            Err(ControlError::Busy),
            "calls may wait there"
        );
    }
}
