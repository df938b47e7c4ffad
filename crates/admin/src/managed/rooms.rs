//! Conferences and queues as the operators of the node see and change them, of all accounts: rows of the record, and the calls in them, which the
//! nodes have in memory.
//!
//! The calls of a list are asked for one row after another, within [`limits::ROOM_FIGURES`]: a node of the farm that does not answer takes its time
//! once, and rows behind it have no figures.

use serde::Serialize;
use stdx::Instant;
use store::rest::types::{Conference, Queue, RestCall};
use store::rest::{Kind, Resource as _, RestFilter};

use super::ManagedResources;
use crate::control::{ConferenceChange, Document, Participant, ParticipantChange, QueueMember};
use crate::fault::Fault;
use crate::limits;

/// The document that a call goes on with that an operator has taken out of a queue.
const HANG_UP: &str = "<Response><Hangup/></Response>";

/// A conference that is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConferenceRow {
    /// The sid.
    pub sid: String,
    /// The account of the REST interface that it belongs to.
    pub account: String,
    /// The name that documents join it by.
    pub name: String,
    /// `init`: it waits for a member that starts it; `in-progress`.
    pub status: String,
    /// The time of its beginning.
    #[serde(with = "store::types::micros")]
    pub since: Instant,
    /// Its members; `None`: they were not asked for in time.
    pub members: Option<u64>,
    /// Those of them that the others do not hear.
    pub muted: Option<u64>,
}

/// A queue with the calls that wait in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueRow {
    /// The sid.
    pub sid: String,
    /// The account of the REST interface that it belongs to.
    pub account: String,
    /// The name that documents put calls into it by.
    pub name: String,
    /// Calls that may wait.
    pub max_size: u32,
    /// Calls that wait; `None`: they were not asked for in time.
    pub waiting: Option<u64>,
    /// Seconds that the first in line has waited; `None`, too, when no call waits.
    pub longest_wait: Option<u64>,
}

/// A call in a conference or a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberRow {
    /// The sid of the call.
    pub call: String,
    /// The caller; empty if there is no row of the call.
    pub from: String,
    /// The called number, user or URI.
    pub to: String,
    /// The name that the application gave it, of a member of a conference; may be empty.
    pub label: String,
    /// True if the others do not hear it.
    pub muted: bool,
    /// True if it is on hold.
    pub hold: bool,
    /// The time of its entry.
    #[serde(with = "store::types::micros")]
    pub since: Instant,
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomPage<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// The number of rows on all pages.
    pub total: u64,
}

/// A conference or queue with the calls in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomMembers<T> {
    /// The conference or queue.
    pub room: T,
    /// Its calls in the order of their entry, at most [`limits::ROOM_MEMBERS`].
    pub members: Vec<MemberRow>,
}

impl ManagedResources {
    /// Lists conferences that are not over: those under way, then those that wait for a member that starts them, the newest first. At most `limit`.
    pub fn conferences(&self, limit: u32) -> Result<RoomPage<ConferenceRow>, Fault> {
        let (mut rows, mut total) = (Vec::new(), 0);
        for status in ["in-progress", "init"] {
            let filter =
                RestFilter { status: Some(status.into()), limit, ..RestFilter::all(Kind::Conference) };
            let (found, count) = self.0.list(filter)?;
            rows.extend(found);
            total += count;
        }
        rows.truncate(limit as usize);
        let until = self.patience();
        let mut listed = Vec::with_capacity(rows.len());
        for row in &rows {
            let conference = Conference::from_row(row)?;
            let members = self.in_time(until, || self.0.control.participants(&conference.common.sid).ok());
            listed.push(conference_row(conference, members.as_deref()));
        }
        Ok(RoomPage { rows: listed, total })
    }

    /// Shows a conference with its members.
    pub fn conference(&self, sid: &str) -> Result<RoomMembers<ConferenceRow>, Fault> {
        let conference = self.conference_of(sid)?;
        let members = self.0.control.participants(sid)?;
        let room = conference_row(conference, Some(&members));
        let members = members.into_iter().take(limits::ROOM_MEMBERS).map(|member| self.participant(member));
        Ok(RoomMembers { room, members: members.collect::<Result<_, _>>()? })
    }

    /// Ends a conference: all of its members leave.
    pub fn end_conference(&self, sid: &str) -> Result<(), Fault> {
        let conference = self.conference_of(sid)?;
        if conference.status == "completed" {
            return Err(Fault::invalid(20400, "The conference is over"));
        }
        let change = ConferenceChange { complete: true, announce_url: None, announce_method: "POST".into() };
        Ok(self.0.control.modify_conference(sid, change)?)
    }

    /// Puts a call out of a conference; it goes on with its next verb.
    pub fn kick_member(&self, conference: &str, call: &str) -> Result<(), Fault> {
        self.conference_of(conference)?;
        let change = ParticipantChange { kick: true, ..ParticipantChange::default() };
        Ok(self.0.control.modify_participant(conference, call, change)?)
    }

    /// Lists queues, page by page, the newest first.
    pub fn queues(&self, page: u32, limit: u32) -> Result<RoomPage<QueueRow>, Fault> {
        let offset = u64::from(page.min(limits::MAX_PAGE)) * u64::from(limit);
        let (rows, total) = self.0.list(RestFilter { offset, limit, ..RestFilter::all(Kind::Queue) })?;
        let until = self.patience();
        let mut listed = Vec::with_capacity(rows.len());
        for row in &rows {
            let queue = Queue::from_row(row)?;
            let members = self.in_time(until, || self.0.control.queue_members(&queue.common.sid).ok());
            listed.push(self.queue_row(queue, members.as_deref()));
        }
        Ok(RoomPage { rows: listed, total })
    }

    /// Shows a queue with the calls that wait in it, the first in line first.
    pub fn queue(&self, sid: &str) -> Result<RoomMembers<QueueRow>, Fault> {
        let queue: Queue = self.0.get(sid)?.ok_or_else(|| Fault::not_found(sid))?;
        let members = self.0.control.queue_members(sid)?;
        let room = self.queue_row(queue, Some(&members));
        let members = members.into_iter().take(limits::ROOM_MEMBERS).map(|member| self.waiting(member));
        Ok(RoomMembers { room, members: members.collect::<Result<_, _>>()? })
    }

    /// Takes a call out of a queue and hangs it up.
    pub fn remove_waiting(&self, queue: &str, call: &str) -> Result<(), Fault> {
        self.0.get::<Queue>(queue)?.ok_or_else(|| Fault::not_found(queue))?;
        self.0.control.dequeue(queue, Some(call), Document::Inline(HANG_UP.into()))?;
        Ok(())
    }

    fn conference_of(&self, sid: &str) -> Result<Conference, Fault> {
        self.0.get(sid)?.ok_or_else(|| Fault::not_found(sid))
    }

    /// The time until which the nodes are asked for the figures of a list.
    fn patience(&self) -> Instant {
        self.0.now() + limits::ROOM_FIGURES
    }

    fn in_time<T>(&self, until: Instant, ask: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.0.now() < until { ask() } else { None }
    }

    fn queue_row(&self, queue: Queue, members: Option<&[QueueMember]>) -> QueueRow {
        let first = members.and_then(<[QueueMember]>::first);
        QueueRow {
            sid: queue.common.sid,
            account: queue.common.account,
            name: queue.friendly_name,
            max_size: queue.max_size,
            waiting: members.map(|members| members.len() as u64),
            longest_wait: first.map(|first| self.0.now().since(first.enqueued_at).as_secs()),
        }
    }

    fn participant(&self, member: Participant) -> Result<MemberRow, Fault> {
        let Participant { call_sid, label, muted, hold, joined_at, .. } = member;
        Ok(MemberRow { label, muted, hold, ..self.member(call_sid, joined_at)? })
    }

    fn waiting(&self, member: QueueMember) -> Result<MemberRow, Fault> {
        self.member(member.call_sid, member.enqueued_at)
    }

    /// A call with its two ends, as its row has them.
    fn member(&self, call: String, since: Instant) -> Result<MemberRow, Fault> {
        let (from, to) = self.0.get::<RestCall>(&call)?.map(|row| (row.from, row.to)).unwrap_or_default();
        Ok(MemberRow { call, from, to, label: String::new(), muted: false, hold: false, since })
    }
}

fn conference_row(conference: Conference, members: Option<&[Participant]>) -> ConferenceRow {
    let count = |wanted: fn(&&Participant) -> bool| {
        members.map(|members| members.iter().filter(wanted).count() as u64)
    };
    ConferenceRow {
        sid: conference.common.sid,
        account: conference.common.account,
        name: conference.friendly_name,
        status: conference.status,
        since: conference.common.created_at,
        members: count(|_| true),
        muted: count(|one| one.muted),
    }
}
