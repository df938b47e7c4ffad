//! The requests to what lives in a node's memory - calls, conferences, queues, recordings under way - and their answers, as one node
//! passes them on to the node that has the object. Each names its object by its sid; a node that does not have it answers
//! [`ControlError::NotFound`].

use serde::{Deserialize, Serialize};

use crate::control::{
    CallChange, ConferenceChange, ControlError, Document, End, Participant, ParticipantChange, QueueMember,
    RecordingChange, StartRecording,
};

/// A request to the node that has the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveRequest {
    /// Changes a live call.
    ChangeCall {
        /// The call's sid.
        call: String,
        /// All of it or nothing is performed.
        change: CallChange,
    },
    /// Changes a conference.
    ChangeConference {
        /// The conference's sid.
        conference: String,
        /// All of it or nothing is performed.
        change: ConferenceChange,
    },
    /// Lists the participants of a conference; answered by [`LiveAnswer::Participants`].
    Participants {
        /// The conference's sid.
        conference: String,
    },
    /// Changes one participant of a conference.
    ChangeParticipant {
        /// The conference's sid.
        conference: String,
        /// The participant's call, or its label.
        call: String,
        /// All of it or nothing is performed.
        change: ParticipantChange,
    },
    /// Lists the calls that wait in a queue; answered by [`LiveAnswer::Members`].
    QueueMembers {
        /// The queue's sid.
        queue: String,
    },
    /// Takes a call out of a queue; answered by [`LiveAnswer::Members`] with that one.
    Dequeue {
        /// The queue's sid.
        queue: String,
        /// The call's sid; `None`: the first in line.
        call: Option<String>,
        /// The document that the call goes on with.
        to: Document,
    },
    /// Begins to record a live call.
    StartRecording {
        /// The call's sid.
        call: String,
        /// The sid of the recording.
        recording: String,
        /// Its settings.
        how: StartRecording,
    },
    /// Changes a recording under way.
    ChangeRecording {
        /// The recording's sid.
        recording: String,
        /// Pause, resumption or end.
        change: RecordingChange,
    },
}

impl LiveRequest {
    /// Ends a call, in whatever phase it is.
    pub fn end_of_call(call: &str) -> LiveRequest {
        let change = CallChange { end: Some(End::Complete), ..CallChange::default() };
        LiveRequest::ChangeCall { call: call.to_owned(), change }
    }

    /// True for lists, to which several nodes may have a part: a queue's callers wait at the nodes that have their calls.
    pub fn is_list(&self) -> bool {
        matches!(self, LiveRequest::Participants { .. } | LiveRequest::QueueMembers { .. })
    }
}

/// The answer of a node to a [`LiveRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveAnswer {
    /// It is performed.
    Done,
    /// The participants of a conference, in the order they came.
    Participants(Vec<Participant>),
    /// Calls that wait in a queue, the first in line first.
    Members(Vec<QueueMember>),
    /// The node has the object, and refuses.
    Refused(ControlError),
}

impl LiveAnswer {
    /// Adds the answer of another node: lists are joined in the order of their members' times. False: one of them is no list.
    pub fn join(&mut self, other: LiveAnswer) -> bool {
        match (self, other) {
            (LiveAnswer::Participants(all), LiveAnswer::Participants(more)) => {
                all.extend(more);
                all.sort_by_key(|one| one.joined_at);
            }
            (LiveAnswer::Members(all), LiveAnswer::Members(more)) => {
                all.extend(more);
                all.sort_by_key(|one| one.enqueued_at);
            }
            _ => return false,
        }
        true
    }
}
