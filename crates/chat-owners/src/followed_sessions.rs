//! Sessions of this shard's streams whose hosts are at other nodes, in a farm whose nodes share a database: what the next host needs if
//! one of these nodes dies (`docs/decisions/0071-sessions-that-outlive-their-owner.md`).
//!
//! The server passes it the elements of the streams. `chat::FollowedSession` knows their meaning; here is how far each
//! session's way to the next host is.

use std::collections::{HashMap, VecDeque};

use chat::{AnnouncedSession, FollowedSession};
use cluster::{Bucket, ShardAddress};
use router::BucketSet;
use stdx::Instant;
use xmpp::Element;
use xmpp::c2s::{BindRequest, Bound};

use crate::limits::XMPP_FOLLOWED_ASK;

/// The way of a session to its next host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its host lives, as far as is known.
    Hosted,
    /// Its host is dead.
    Lost,
    /// It is announced to the next host, which has not answered.
    Announced,
}

/// The session of one stream.
#[derive(Debug)]
struct Followed {
    session: FollowedSession,
    bucket: Bucket,
    phase: Phase,
    /// `questions` has the stream.
    is_queued: bool,
    /// The session's account may not sign in any more. Its host ends it, but for a host that is dead.
    must_end: bool,
    /// The stream is gone, while the session had no host. True: its client has closed it.
    end: Option<bool>,
}

/// The followed sessions of one shard, by the numbers of their streams.
#[derive(Debug, Default)]
pub struct FollowedSessions {
    sessions: HashMap<u64, Followed>,
    /// Streams whose clients have unacknowledged stanzas, and when the host is asked about them.
    questions: VecDeque<(Instant, u64)>,
    /// Buckets of dead owners, of which the next owner does not know yet that all sessions are announced.
    unreported: BucketSet,
}

/// The next step for an element of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementStep {
    /// It goes to the host.
    Pass,
    /// It waits; the session is announced now, if that has not been done.
    Keep,
}

/// The next step after the answer of a host.
#[derive(Debug)]
pub enum BoundStep {
    /// The answer is for the stream.
    Pass(Bound),
    /// The session has a host again. These elements of its client go there.
    Restored(Bucket, Vec<Element>),
    /// The session has a host again and its stream is gone. True: its client has closed it.
    RestoredWithoutStream(Bucket, bool),
    /// The session was not made again: its stream is to be closed.
    Refused,
}

impl FollowedSessions {
    /// A client of this stream asks the host at another node for a session.
    pub fn handle_bind(&mut self, stream: u64, bucket: Bucket, request: &BindRequest) {
        self.insert(stream, bucket, FollowedSession::new(request));
    }

    /// The host has announced the session that the client of this stream resumes.
    pub fn handle_resumed(&mut self, stream: u64, announced: AnnouncedSession) {
        let bucket = Bucket::of(announced.jid.bare_str());
        self.insert(stream, bucket, FollowedSession::resumed(announced));
    }

    fn insert(&mut self, stream: u64, bucket: Bucket, session: FollowedSession) {
        self.sessions.insert(
            stream,
            Followed { session, bucket, phase: Phase::Hosted, is_queued: false, must_end: false, end: None },
        );
    }

    /// A stanza of a client, or another element of it.
    pub fn handle_element(
        &mut self,
        now: Instant,
        stream: u64,
        (element, is_stanza): (&Element, bool),
    ) -> ElementStep {
        let Some(followed) = self.sessions.get_mut(&stream) else { return ElementStep::Pass };
        if !is_stanza {
            followed.session.handle_nonza(element);
        } else if followed.session.handle_stanza(element) && !std::mem::replace(&mut followed.is_queued, true)
        {
            self.questions.push_back((now + XMPP_FOLLOWED_ASK, stream));
        }
        if followed.phase == Phase::Hosted { ElementStep::Pass } else { ElementStep::Keep }
    }

    /// True if an element for this stream, or a question about it, comes from its host and not from one before.
    pub fn is_hosted(&self, stream: u64) -> bool {
        self.sessions.get(&stream).is_none_or(|followed| followed.phase == Phase::Hosted)
    }

    /// An element of the host that the stream has taken.
    pub fn handle_delivered(&mut self, stream: u64, element: Element) {
        if let Some(followed) = self.sessions.get_mut(&stream) {
            followed.session.handle_delivered(element);
        }
    }

    /// The answer of a host. `is_remote`: the host is at another node.
    pub fn handle_bound(&mut self, stream: u64, bound: Bound, is_remote: bool) -> BoundStep {
        let Some(followed) = self.sessions.get_mut(&stream) else { return BoundStep::Pass(bound) };
        let jid = match (&bound, followed.phase) {
            (_, Phase::Lost) => return BoundStep::Pass(bound),
            (Bound::Session { jid, inline }, Phase::Hosted) => {
                followed.session.handle_bound(jid, inline);
                return BoundStep::Pass(bound);
            }
            (Bound::Resumed { .. }, Phase::Hosted) => return BoundStep::Pass(bound),
            (_, Phase::Hosted) => None,
            (Bound::Session { jid, .. }, Phase::Announced) => Some(jid),
            (_, Phase::Announced) => {
                self.sessions.remove(&stream);
                return BoundStep::Refused;
            }
        };
        if jid.is_none() {
            self.sessions.remove(&stream);
            return BoundStep::Pass(bound);
        }
        let bucket = followed.bucket;
        if let Some(in_order) = followed.end {
            self.sessions.remove(&stream);
            return BoundStep::RestoredWithoutStream(bucket, in_order);
        }
        followed.phase = Phase::Hosted;
        let elements = followed.session.repeat();
        if !is_remote {
            // If this node dies, so does the stream.
            self.sessions.remove(&stream);
        }
        BoundStep::Restored(bucket, elements)
    }

    /// The stream is gone. True: its host is to be told now.
    pub fn handle_gone(&mut self, stream: u64, in_order: bool) -> bool {
        let Some(followed) = self.sessions.get_mut(&stream) else { return true };
        if followed.phase == Phase::Hosted {
            self.sessions.remove(&stream);
            return true;
        }
        followed.end = Some(in_order);
        false
    }

    /// True if the session of this stream can be announced to the next host.
    pub fn can_be_announced(&self, stream: u64) -> bool {
        self.sessions.get(&stream).is_some_and(|followed| followed.session.can_be_announced())
    }

    /// The stream is closed, or its session ends.
    pub fn remove(&mut self, stream: u64) {
        self.sessions.remove(&stream);
    }

    /// The hosts of these buckets are dead. Returns the streams of their sessions.
    pub fn lose(&mut self, buckets: &BucketSet) -> Vec<u64> {
        buckets.iter().for_each(|bucket| self.unreported.insert(bucket));
        let lost = self.sessions.iter_mut().filter(|(_, followed)| buckets.contains(followed.bucket));
        lost.map(|(stream, followed)| {
            followed.phase = Phase::Lost;
            *stream
        })
        .collect()
    }

    /// The announcement of a lost session, with its bucket. With none, and with one of a session that is to end, the stream is to be closed.
    pub fn announce(&mut self, stream: u64) -> Option<(Bucket, AnnouncedSession)> {
        let followed = self.sessions.get_mut(&stream).filter(|followed| followed.phase == Phase::Lost)?;
        let announced = match followed.must_end {
            true => followed.session.announce_end(),
            false => followed.session.announce(),
        };
        let bucket = followed.bucket;
        match &announced {
            Some(announced) if !announced.is_ending() => followed.phase = Phase::Announced,
            _ => drop(self.sessions.remove(&stream)),
        }
        announced.map(|announced| (bucket, announced))
    }

    /// The lost buckets by their next owners. All sessions of them are announced; those without an owner yet are kept.
    pub fn take_reports(
        &mut self,
        owner_of: impl Fn(Bucket) -> Option<ShardAddress>,
    ) -> HashMap<ShardAddress, BucketSet> {
        let mut reports: HashMap<ShardAddress, BucketSet> = HashMap::new();
        if self.unreported.is_empty() {
            return reports;
        }
        let buckets = std::mem::take(&mut self.unreported);
        for bucket in buckets.iter() {
            match owner_of(bucket) {
                Some(owner) => reports.entry(owner).or_default().insert(bucket),
                None => self.unreported.insert(bucket),
            }
        }
        reports
    }

    /// Forgets sessions without a host whose accounts are meant. Returns their streams. Others of these accounts are not announced if
    /// their host turns out to be dead.
    pub fn end(&mut self, is_meant: impl Fn(&str) -> bool) -> Vec<u64> {
        let hosted = self.sessions.values_mut().filter(|followed| followed.phase == Phase::Hosted);
        for followed in hosted.filter(|followed| is_meant(followed.session.jid().bare_str())) {
            followed.must_end = true;
        }
        let ended = self.sessions.extract_if(|_, followed| {
            followed.phase != Phase::Hosted && is_meant(followed.session.jid().bare_str())
        });
        ended.map(|(stream, _)| stream).collect()
    }

    /// The streams whose hosts are to be asked now how many stanzas they have handled.
    pub fn take_questions(&mut self, now: Instant) -> Vec<(u64, Bucket)> {
        let mut asked = Vec::new();
        while let Some((_, stream)) = self.questions.front().copied().filter(|(at, _)| *at <= now) {
            self.questions.pop_front();
            let Some(followed) = self.sessions.get_mut(&stream) else { continue };
            followed.is_queued = followed.session.has_unacknowledged();
            if followed.is_queued {
                self.questions.push_back((now + XMPP_FOLLOWED_ASK, stream));
            }
            if followed.session.wants_to_ask() && followed.phase == Phase::Hosted {
                asked.push((stream, followed.bucket));
            }
        }
        asked
    }

    /// The time at which [`FollowedSessions::take_questions`] has streams.
    pub fn deadline(&self) -> Option<Instant> {
        self.questions.front().map(|(at, _)| *at)
    }
}
