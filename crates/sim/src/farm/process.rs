//! One start of a node: its part in the farm, its links, and a small application. Clients write rows through any node; the owner of the
//! row's bucket writes it and answers. Nodes send each other chat messages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Buf, Bytes};
use cluster::farm::{EndReason, FarmEffect, FarmNode};
use cluster::link::{Class, Lane, Link, Message};
use cluster::member::Member;
use cluster::membership::MembershipEffect;
use cluster::{Bucket, Epoch, Life};
use stdx::Instant;

use super::council::{CouncilAnswer, CouncilRequest};
use super::database::{DatabaseAnswer, DatabaseRequest, WriteId};

/// The number of one TCP connection.
pub type ConnectionNumber = u64;

/// The number of a chat message.
pub type ChatId = u64;

/// The time that a node waits before it dials again, or reads rows again.
const RETRY: Duration = Duration::from_millis(500);

/// Bytes of one write to a connection.
const OUTPUT: usize = 16 * 1_024;

/// Asks the owner to write a row.
const WRITE: u16 = 1;
/// The row is written.
const WRITTEN: u16 = 2;
/// A chat message.
const CHAT: u16 = 3;

/// Something that happens to a process.
#[derive(Clone, Debug)]
pub enum Input {
    /// The council answers or tells of a change.
    Council(CouncilAnswer),
    /// The database answers.
    Database(DatabaseAnswer),
    /// A connection is open.
    Connected { peer: Life, lane: Lane, connection: ConnectionNumber },
    /// A connection has ended.
    Closed { peer: Life, lane: Lane, connection: ConnectionNumber },
    /// Bytes came over a connection.
    Bytes { peer: Life, lane: Lane, connection: ConnectionNumber, bytes: Vec<u8> },
    /// The peer's host refused a connection.
    ConnectionRefused { peer: Life },
    /// A client writes a row.
    Write { id: WriteId, bucket: Bucket },
    /// A chat message is to be sent.
    Chat { id: ChatId, to: Life },
    /// The operator drains the node.
    Leave,
    /// A map is about to be read.
    ExpireBeforeMap,
    /// Something is due.
    Expire,
}

/// Something that a process does.
#[derive(Clone, Debug)]
pub enum Output {
    /// A request to the council.
    Council(CouncilRequest),
    /// A request to the database.
    Database(DatabaseRequest),
    /// Open a connection.
    Dial { peer: Life, lane: Lane },
    /// See whether the peer's host refuses connections, and end the connection at once if it does not.
    Probe { peer: Life },
    /// End a connection.
    Close { connection: ConnectionNumber },
    /// Bytes over a connection.
    Bytes { connection: ConnectionNumber, bytes: Vec<u8> },
    /// The client has its answer: the row is written.
    Acknowledged(WriteId),
    /// The shard begins to answer for a bucket.
    Serves { bucket: Bucket, epoch: Epoch },
    /// A chat message was queued for a peer.
    ChatSent { id: ChatId, to: Life },
    /// A chat message of a peer has come.
    ChatDelivered { id: ChatId, from: Life },
    /// A chat message was given back.
    ChatReturned { id: ChatId },
    /// The process ends.
    End(EndReason),
}

struct PeerLink {
    link: Link,
    connection: Option<ConnectionNumber>,
    /// The younger life dials; the older one only looks whether the other still runs.
    is_dialer: bool,
    /// The time of the next dial or look, while there is no connection.
    dial_at: Instant,
}

/// A write under way in the database, with the node that asked for it.
struct PendingWrite {
    bucket: Bucket,
    epoch: Epoch,
    asker: Option<Life>,
}

/// One start of a node.
pub struct Process {
    /// Its life.
    pub life: Life,
    /// Its part in the farm.
    pub farm: FarmNode,
    /// The rows of its buckets.
    memory: BTreeMap<Bucket, BTreeSet<WriteId>>,
    loading: BTreeMap<Bucket, (Epoch, Instant)>,
    writes: BTreeMap<WriteId, PendingWrite>,
    /// Stopped buckets whose writes are not all answered.
    stopped: BTreeMap<Bucket, Epoch>,
    links: BTreeMap<(Life, Lane), PeerLink>,
    /// Answers of smaller epochs are old.
    seen: BTreeMap<Bucket, Epoch>,
    output: Vec<Output>,
    effects: Vec<FarmEffect>,
}

impl Process {
    /// A process that starts.
    pub fn new(now: Instant, member: Member, buckets: u16) -> Process {
        Process {
            life: member.life,
            farm: FarmNode::new(now, member, buckets),
            memory: BTreeMap::new(),
            loading: BTreeMap::new(),
            writes: BTreeMap::new(),
            stopped: BTreeMap::new(),
            links: BTreeMap::new(),
            seen: BTreeMap::new(),
            output: Vec::new(),
            effects: Vec::new(),
        }
    }

    /// Handles an input and moves what the process does to `out`.
    pub fn handle(&mut self, now: Instant, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Council(answer) => self.handle_council(now, answer),
            Input::Database(answer) => self.handle_database(now, answer),
            Input::Connected { peer, lane, connection } => self.handle_connected(now, peer, lane, connection),
            Input::Closed { peer, lane, connection } => self.handle_closed(now, peer, lane, connection),
            Input::Bytes { peer, lane, connection, bytes } => {
                self.handle_bytes(now, peer, lane, connection, &bytes);
            }
            Input::ConnectionRefused { peer } => {
                self.farm.handle_link_lost(now, peer, true, &mut self.effects);
            }
            Input::Write { id, bucket } => self.handle_write(now, id, bucket),
            Input::Chat { id, to } => self.send_chat(now, id, to),
            Input::Leave => self.farm.leave(now, &mut self.effects),
            Input::ExpireBeforeMap => self.farm.expire_before_map(now, &mut self.effects),
            Input::Expire => self.expire(now),
        }
        self.perform(now);
        self.write_links(now);
        out.append(&mut self.output);
    }

    /// The time at which something is due next.
    pub fn deadline(&self) -> Instant {
        let of_links = self.links.values().filter_map(|peer| {
            let dial_at = peer.connection.is_none().then_some(peer.dial_at);
            peer.link.deadline().or(dial_at)
        });
        let of_loads = self.loading.values().map(|(_, at)| *at);
        of_links.chain(of_loads).fold(self.farm.deadline(), Instant::min)
    }

    /// The rows that the process has in memory, if it answers for the bucket.
    pub fn served_rows(&self, now: Instant, bucket: Bucket) -> Option<&BTreeSet<WriteId>> {
        self.farm.serves(now, bucket).and_then(|_| self.memory.get(&bucket))
    }

    /// The waiting work: for tests that nothing stays behind.
    pub fn leftovers(&self) -> Vec<String> {
        let mut out = Vec::new();
        for ((peer, lane), one) in &self.links {
            if !one.link.is_empty() {
                out.push(format!("{} bytes to {peer} {lane:?}", one.link.bytes()));
            }
        }
        if !self.writes.is_empty() || !self.loading.is_empty() || !self.stopped.is_empty() {
            let (writes, loading, stopped) = (self.writes.len(), self.loading.len(), self.stopped.len());
            out.push(format!("{writes} writes, {loading} loading, {stopped} stopped"));
        }
        let peers: BTreeSet<Life> = self.links.keys().map(|(life, _)| *life).collect();
        let live: BTreeSet<Life> = self.farm.members().live().map(|member| member.life).collect();
        out.extend(peers.difference(&live).map(|life| format!("a link to {life}, which is not live")));
        out
    }

    fn handle_council(&mut self, now: Instant, answer: CouncilAnswer) {
        let (farm, out) = (&mut self.farm, &mut self.effects);
        match answer {
            CouncilAnswer::Renewed { sent_at } => farm.handle_renewed(now, sent_at, out),
            CouncilAnswer::Announced(member) => farm.handle_announced(now, *member, out),
            CouncilAnswer::MembersRead => farm.handle_members_read(now, out),
            CouncilAnswer::MemberRead { life, asked_at, member } => {
                farm.handle_member_read(now, life, asked_at, member.map(|member| *member), out);
            }
            CouncilAnswer::KeyGone(life) => farm.handle_key_gone(now, life, out),
            CouncilAnswer::WatchBegun => farm.handle_watch_begun(now, out),
            CouncilAnswer::Map(revision, map) => farm.handle_map(now, revision, map.map(|map| *map), out),
            CouncilAnswer::MapWritten(revision, map) => farm.handle_map_written(now, revision, *map, out),
            CouncilAnswer::Swapped(result) => farm.handle_swapped(now, result, out),
        }
    }

    fn handle_database(&mut self, now: Instant, answer: DatabaseAnswer) {
        let (farm, out) = (&mut self.farm, &mut self.effects);
        match answer {
            DatabaseAnswer::Taken { bucket, epoch } => farm.handle_taken(now, bucket, epoch, out),
            DatabaseAnswer::Refused { bucket, holder, epoch } => {
                farm.handle_refused(now, bucket, holder, epoch, out);
            }
            DatabaseAnswer::Given { bucket, epoch } => farm.handle_given(now, bucket, epoch, out),
            DatabaseAnswer::Unfenced { sent_at } => farm.handle_unfenced(now, sent_at, out),
            DatabaseAnswer::Fenced => farm.handle_fenced(out),
            DatabaseAnswer::Loaded { bucket, epoch, rows } => self.handle_loaded(now, bucket, epoch, rows),
            DatabaseAnswer::Written { id } => self.handle_written(now, id, true),
            DatabaseAnswer::Stale { id } => self.handle_written(now, id, false),
            DatabaseAnswer::Lost => self.handle_database_lost(now),
        }
    }

    fn handle_loaded(&mut self, now: Instant, bucket: Bucket, epoch: Epoch, rows: BTreeSet<WriteId>) {
        if self.loading.get(&bucket).is_some_and(|(loading, _)| *loading == epoch) {
            self.loading.remove(&bucket);
            self.memory.insert(bucket, rows);
            self.farm.handle_loaded(now, bucket, epoch, &mut self.effects);
        }
    }

    fn handle_written(&mut self, now: Instant, id: WriteId, is_written: bool) {
        let Some(write) = self.writes.remove(&id) else { return };
        if is_written {
            self.memory.entry(write.bucket).or_default().insert(id);
            match write.asker {
                None => self.output.push(Output::Acknowledged(id)),
                Some(asker) => {
                    let answer = encode(WRITTEN, write.epoch, id, write.bucket);
                    self.send(now, asker, Class::Ask, answer);
                }
            }
        }
        self.tell_drained(now);
    }

    /// The results of writes under way are unknown, so nothing is answered.
    fn handle_database_lost(&mut self, now: Instant) {
        self.writes.clear();
        self.farm.handle_database_lost(now, &mut self.effects);
        self.tell_drained(now);
    }

    fn tell_drained(&mut self, now: Instant) {
        let is_busy = |bucket: &Bucket| self.writes.values().any(|write| write.bucket == *bucket);
        let quiet: Vec<_> = self.stopped.iter().filter(|(bucket, _)| !is_busy(bucket)).collect();
        let quiet: Vec<_> = quiet.into_iter().map(|(bucket, epoch)| (*bucket, *epoch)).collect();
        for (bucket, epoch) in quiet {
            self.stopped.remove(&bucket);
            self.farm.handle_drained(now, bucket, epoch, &mut self.effects);
        }
    }

    fn handle_connected(&mut self, now: Instant, peer: Life, lane: Lane, connection: ConnectionNumber) {
        // A life that is dead, or that the council has not announced yet, has no link here: it dials again.
        if self.farm.members().get(peer).is_none() {
            return self.output.push(Output::Close { connection });
        }
        self.end_connection(now, peer, lane);
        let one = self.links.entry((peer, lane)).or_insert_with(|| PeerLink::new(lane, false, now));
        one.connection = Some(connection);
        one.link.handle_connected(now);
    }

    fn handle_closed(&mut self, now: Instant, peer: Life, lane: Lane, connection: ConnectionNumber) {
        if self.links.get(&(peer, lane)).is_some_and(|one| one.connection == Some(connection)) {
            self.end_connection(now, peer, lane);
        }
    }

    fn end_connection(&mut self, now: Instant, peer: Life, lane: Lane) {
        let Some(one) = self.links.get_mut(&(peer, lane)) else { return };
        let Some(connection) = one.connection.take() else { return };
        one.dial_at = now + RETRY;
        let mut returned = Vec::new();
        one.link.handle_disconnected(&mut returned);
        self.output.push(Output::Close { connection });
        self.take_back(returned);
        let is_lost = self.links.iter().all(|((life, _), one)| *life != peer || one.connection.is_none());
        if is_lost {
            self.farm.handle_link_lost(now, peer, false, &mut self.effects);
        }
    }

    fn take_back(&mut self, returned: Vec<(Class, Message)>) {
        for (_, mut message) in returned {
            if message.kind == CHAT {
                self.output.push(Output::ChatReturned { id: message.body.get_u64() });
            }
        }
    }

    fn handle_bytes(
        &mut self,
        now: Instant,
        peer: Life,
        lane: Lane,
        connection: ConnectionNumber,
        bytes: &[u8],
    ) {
        let Some(one) = self.links.get_mut(&(peer, lane)) else { return };
        if one.connection != Some(connection) {
            return;
        }
        one.link.handle_bytes(now, bytes).expect("a node of the same version sends no faults");
        for class in lane.classes() {
            while let Some(message) =
                self.links.get_mut(&(peer, lane)).and_then(|one| one.link.poll_message(*class))
            {
                self.handle_message(now, peer, message);
            }
        }
    }

    fn handle_message(&mut self, now: Instant, peer: Life, mut message: Message) {
        let id = message.body.get_u64();
        if message.kind == CHAT {
            return self.output.push(Output::ChatDelivered { id, from: peer });
        }
        let Some(bucket) = Bucket::with_number(message.body.get_u16()) else { return };
        match message.kind {
            WRITE => self.write(now, id, bucket, message.epoch, Some(peer)),
            WRITTEN => {
                let seen = self.seen.entry(bucket).or_default();
                if message.epoch >= *seen {
                    *seen = message.epoch;
                    self.output.push(Output::Acknowledged(id));
                }
            }
            _ => {}
        }
    }

    fn handle_write(&mut self, now: Instant, id: WriteId, bucket: Bucket) {
        let ownership = self.farm.map().owner(bucket);
        match ownership.owner.map(|owner| owner.life) {
            Some(life) if life == self.life => self.write(now, id, bucket, ownership.epoch, None),
            Some(life) => self.send(now, life, Class::Ask, encode(WRITE, ownership.epoch, id, bucket)),
            None => {}
        }
    }

    /// Writes a row as the bucket's owner. Without the right to, nothing is answered and the client tries elsewhere.
    fn write(&mut self, now: Instant, id: WriteId, bucket: Bucket, known: Epoch, asker: Option<Life>) {
        // An asker that knows of a later owner shows that this one has been replaced.
        let Some(epoch) = self.farm.serves(now, bucket).filter(|epoch| *epoch >= known) else { return };
        self.writes.insert(id, PendingWrite { bucket, epoch, asker });
        self.output.push(Output::Database(DatabaseRequest::Write { id, bucket, epoch }));
    }

    fn send(&mut self, now: Instant, to: Life, class: Class, message: Message) {
        if let Some(one) = self.links.get_mut(&(to, class.lane())) {
            // A refused question is asked again by the client.
            let _ = one.link.send(now, class, message);
        }
    }

    fn send_chat(&mut self, now: Instant, id: ChatId, to: Life) {
        let Some(one) = self.links.get_mut(&(to, Lane::Acknowledged)) else { return };
        let bucket = Bucket::with_number(0).expect("0 is below BUCKETS");
        if one.link.send(now, Class::Chat, encode(CHAT, Epoch(0), id, bucket)).is_ok() {
            self.output.push(Output::ChatSent { id, to });
        }
    }

    fn expire(&mut self, now: Instant) {
        self.farm.expire(now, &mut self.effects);
        for (bucket, (epoch, at)) in &mut self.loading {
            if *at <= now {
                *at = now + RETRY;
                self.output.push(Output::Database(DatabaseRequest::Load { bucket: *bucket, epoch: *epoch }));
            }
        }
        let all: Vec<_> = self.links.keys().copied().collect();
        for (peer, lane) in all {
            self.expire_link(now, peer, lane);
        }
    }

    fn expire_link(&mut self, now: Instant, peer: Life, lane: Lane) {
        let Some(one) = self.links.get_mut(&(peer, lane)) else { return };
        if one.link.expire(now).is_err() {
            self.end_connection(now, peer, lane);
        } else if one.connection.is_none() && one.dial_at <= now {
            one.dial_at = now + RETRY;
            self.output.push(if one.is_dialer {
                Output::Dial { peer, lane }
            } else {
                Output::Probe { peer }
            });
        }
    }

    /// Performs the effects of the farm, which may cause more.
    fn perform(&mut self, now: Instant) {
        while !self.effects.is_empty() {
            for effect in std::mem::take(&mut self.effects) {
                self.perform_one(now, effect);
            }
        }
    }

    fn perform_one(&mut self, now: Instant, effect: FarmEffect) {
        let council = |request| Output::Council(request);
        match effect {
            FarmEffect::Announce { sent_at, member } => {
                self.output.push(council(CouncilRequest::Announce { sent_at, member }));
            }
            FarmEffect::ReadMembers => self.output.push(council(CouncilRequest::ReadMembers)),
            FarmEffect::ReadMember { life, asked_at } => {
                self.output.push(council(CouncilRequest::ReadMember { life, asked_at }));
            }
            FarmEffect::ReadMap => self.output.push(council(CouncilRequest::ReadMap)),
            FarmEffect::SwapMap { expected, map } => {
                self.output.push(council(CouncilRequest::SwapMap { expected, map }));
            }
            FarmEffect::AskFence { sent_at } => self.database(DatabaseRequest::AskFence { sent_at }),
            FarmEffect::Take { claims, dead } => self.database(DatabaseRequest::Take { claims, dead }),
            FarmEffect::Give { bucket, holder, epoch } => {
                self.memory.remove(&bucket);
                self.database(DatabaseRequest::Give { bucket, holder, epoch });
            }
            FarmEffect::Load { bucket, epoch, .. } => {
                self.memory.remove(&bucket);
                self.loading.insert(bucket, (epoch, now + RETRY));
                self.database(DatabaseRequest::Load { bucket, epoch });
            }
            FarmEffect::Serve { bucket, epoch, .. } => {
                self.stopped.remove(&bucket);
                self.output.push(Output::Serves { bucket, epoch });
            }
            FarmEffect::Stop { bucket, epoch, .. } => {
                self.stopped.insert(bucket, epoch);
                self.tell_drained(now);
            }
            FarmEffect::MapChanged => self.forget_loads(),
            FarmEffect::Member(news) => self.handle_news(now, &news),
            FarmEffect::Drained => self.farm.end(now, &mut self.effects),
            FarmEffect::End(reason) => self.output.push(Output::End(reason)),
        }
    }

    fn database(&mut self, request: DatabaseRequest) {
        self.output.push(Output::Database(request));
    }

    /// Rows of buckets that are another's by now need not be read.
    fn forget_loads(&mut self) {
        let map = self.farm.map();
        let is_own = |bucket: &Bucket| map.owner(*bucket).owner.is_some_and(|owner| owner.life == self.life);
        self.loading.retain(|bucket, _| is_own(bucket));
    }

    fn handle_news(&mut self, now: Instant, news: &MembershipEffect) {
        match *news {
            MembershipEffect::Joined(peer) if peer != self.life => {
                let is_dialer = self.life > peer;
                for lane in [Lane::Prompt, Lane::Acknowledged] {
                    let new = || PeerLink::new(lane, is_dialer, now);
                    self.links.entry((peer, lane)).or_insert_with(new).is_dialer = is_dialer;
                }
            }
            MembershipEffect::Died(peer) | MembershipEffect::Left(peer) => self.bury(now, peer),
            _ => {}
        }
    }

    fn bury(&mut self, now: Instant, peer: Life) {
        for lane in [Lane::Prompt, Lane::Acknowledged] {
            self.end_connection(now, peer, lane);
            if let Some(mut one) = self.links.remove(&(peer, lane)) {
                let mut returned = Vec::new();
                one.link.handle_dead(&mut returned);
                self.take_back(returned);
            }
        }
    }

    fn write_links(&mut self, now: Instant) {
        for one in self.links.values_mut() {
            let Some(connection) = one.connection else { continue };
            while one.link.has_output() {
                let mut bytes = Vec::new();
                one.link.poll_output(now, OUTPUT, &mut bytes);
                self.output.push(Output::Bytes { connection, bytes });
            }
        }
    }
}

impl PeerLink {
    fn new(lane: Lane, is_dialer: bool, now: Instant) -> PeerLink {
        PeerLink { link: Link::new(lane), connection: None, is_dialer, dial_at: now }
    }
}

fn encode(kind: u16, epoch: Epoch, id: u64, bucket: Bucket) -> Message {
    let mut body = id.to_be_bytes().to_vec();
    body.extend_from_slice(&bucket.number().to_be_bytes());
    Message { kind, epoch, shard: 0, body: Bytes::from(body) }
}
