//! Writes that failed because the database is away and whose events are over: chat's messages that are delivered, records of calls, and rows of
//! calls, conferences, recordings and texts. They have no answer until the database is back and has them, or has refused them for good.
//! [`run_writer`](super::service) owns them.
//!
//! They are written in their order, so that the last write of a row remains. A write that was tried may be in the database, as the answer to a
//! commit can be lost: an entry of an archive has its id and a row its sid, so that they are there once; a message that waits for its account is
//! [looked for](XmppWrite::Offline), and so is [the record of a call](Write::EnsureCall).

use std::collections::VecDeque;
use std::time::Duration;

use stdx::Instant;

use crate::error::StoreError;
use crate::limits::{KEPT_BYTES, KEPT_PAUSE, KEPT_TRIES, KEPT_WRITES};
use crate::record::{Write, WriteDone, Writer};
use crate::rest::{Kind, RestWrite};
use crate::service::Ticket;
use crate::xmpp::XmppWrite;

/// The outcomes of writes, with the tickets of those that are answered.
pub(crate) type Answers = Vec<(Option<Ticket>, Result<WriteDone, StoreError>)>;

/// The writes that wait for the database.
#[derive(Debug)]
pub(crate) struct RetryQueue {
    /// The oldest first.
    writes: VecDeque<(Write, Option<Ticket>)>,
    /// The sum of [`size`] over all of them.
    bytes: usize,
    /// Above either, further writes fail at once.
    most: Bounds,
    /// The number of writes in the next attempt. It shrinks while the database takes other writes and not these, down to the one at
    /// fault.
    group: usize,
    /// The number of writes in one attempt at most.
    largest: usize,
    /// Attempts in turn in which the database took other writes and not the oldest one.
    refusals: u32,
}

/// The writes that may wait, and their bytes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    writes: usize,
    bytes: usize,
}

/// The outcome of an attempt to write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The database has taken some, or has refused one for good: the next attempt may follow at once.
    Done,
    /// The database is away, or takes other writes only.
    Failed,
}

impl Attempt {
    /// The time until the next attempt.
    pub(crate) fn pause(self) -> Duration {
        match self {
            Attempt::Done => Duration::ZERO,
            Attempt::Failed => KEPT_PAUSE,
        }
    }
}

impl RetryQueue {
    /// None; later at most `largest` in one attempt.
    pub(crate) fn new(largest: usize) -> RetryQueue {
        let most = Bounds { writes: KEPT_WRITES, bytes: KEPT_BYTES };
        RetryQueue { writes: VecDeque::new(), bytes: 0, most, group: largest, largest, refusals: 0 }
    }

    /// True if no write waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Takes the writes of a group whose place is behind those that wait, and returns the answers to those that there is no room for, or
    /// that cannot wait and would overtake others. `group` keeps the rest.
    pub(crate) fn take_later(&mut self, group: &mut Vec<(Write, Option<Ticket>)>) -> Answers {
        if self.is_empty() {
            return Vec::new();
        }
        let mut answers = Vec::new();
        // Messages of this group will wait, too.
        let has_messages = self.writes.iter().chain(&*group).any(|(write, _)| is_message(write));
        let is_later = |(write, ticket): &mut (Write, Option<Ticket>)| {
            waits(write, *ticket) || (ticket.is_some() && has_messages && removes_messages(write))
        };
        let later: Vec<_> = group.extract_if(.., is_later).collect();
        for (write, ticket) in later {
            if removes_messages(&write) {
                answers.push((
                    ticket,
                    Err(away("messages wait for the database, which would come back after their removal")),
                ));
            } else if let Err(error) = self.insert(write, ticket) {
                answers.push((ticket, Err(error)));
            }
        }
        answers
    }

    /// Keeps a write whose attempt had this outcome, if it can wait. Otherwise returns the outcome.
    pub(crate) fn keep(
        &mut self,
        write: Write,
        ticket: Option<Ticket>,
        result: Result<WriteDone, StoreError>,
    ) -> Option<Result<WriteDone, StoreError>> {
        match result {
            Err(error @ StoreError::Unreachable { .. }) if waits(&write, ticket) => {
                // The error of the database says more than that there is no room.
                self.insert(repeated(write), ticket).err().map(|_| Err(error))
            }
            result => Some(result),
        }
    }

    /// Adds a write at the end, if there is room.
    fn insert(&mut self, write: Write, ticket: Option<Ticket>) -> Result<(), StoreError> {
        let bytes = size(&write);
        if self.writes.len() >= self.most.writes || self.bytes + bytes > self.most.bytes {
            return Err(away("too many writes wait for the database"));
        }
        self.bytes += bytes;
        self.writes.push_back((write, ticket));
        Ok(())
    }

    /// Writes the oldest, and adds the answers of those that are done.
    pub(crate) fn try_again(&mut self, writer: &mut dyn Writer, answers: &mut Answers) -> Attempt {
        let count = self.group.min(self.writes.len());
        if count == 0 {
            return Attempt::Done;
        }
        let (group, tickets): (Vec<Write>, Vec<Option<Ticket>>) = self.writes.drain(..count).unzip();
        let results = writer.write_group(&group);
        let is_away =
            |result: &Result<WriteDone, StoreError>| matches!(result, Err(StoreError::Unreachable { .. }));
        let is_failed = results.iter().any(is_away);
        // A connection that broke with the attempt is there again for the next write, so that one refusal proves nothing.
        let is_there = is_failed && is_there(writer);
        self.refusals = if is_there && count == 1 { self.refusals + 1 } else { 0 };
        if !is_failed || self.refusals >= KEPT_TRIES {
            self.refusals = 0;
            self.bytes -= group.iter().map(size).sum::<usize>();
            self.group = (self.group * 2).min(self.largest);
            answers.extend(tickets.into_iter().zip(results));
            if self.writes.is_empty() {
                // Nothing stays of an outage that is over.
                self.writes = VecDeque::new();
            }
            return Attempt::Done;
        }
        if is_there {
            self.group = (count / 2).max(1);
        }
        for write in group.into_iter().map(repeated).zip(tickets).rev() {
            self.writes.push_front(write);
        }
        Attempt::Failed
    }

    /// The number of writes that wait.
    pub(crate) fn len(&self) -> usize {
        self.writes.len()
    }
}

/// True if the database takes writes now: one of those that it did not take is at fault, then. This write deletes nothing, and a server
/// that takes no writes refuses it.
fn is_there(writer: &mut dyn Writer) -> bool {
    let probe = Write::ForgetMessages { before: Instant::default() };
    writer.write_group(&[probe]).iter().all(Result::is_ok)
}

/// True if the write waits for a database that is away. Other writes have an asker, which has another way or tries again.
fn waits(write: &Write, ticket: Option<Ticket>) -> bool {
    is_message(write) && ticket.is_some() || is_voicemail(write) || ticket.is_none() && is_of_call(write)
}

/// True if the write is one that calls of applications and their texts leave, without an asker, or the record of a call.
pub(crate) fn is_of_call(write: &Write) -> bool {
    const KINDS: [Kind; 7] = [
        Kind::Call,
        Kind::Conference,
        Kind::Recording,
        Kind::Notification,
        Kind::Message,
        Kind::Queue,
        Kind::Transcription,
    ];
    match write {
        Write::Call(_) | Write::EnsureCall(_) => true,
        Write::Rest(RestWrite::Insert(row) | RestWrite::Ensure(row) | RestWrite::Replace(row)) => {
            KINDS.contains(&row.kind)
        }
        _ => false,
    }
}

/// True if the write puts a recording into a mailbox.
fn is_voicemail(write: &Write) -> bool {
    let Write::Rest(RestWrite::Insert(row) | RestWrite::Ensure(row)) = write else { return false };
    row.kind == Kind::Recording && row.to.is_some()
}

/// True if the write is one of a message that may be delivered already.
fn is_message(write: &Write) -> bool {
    matches!(write, Write::Xmpp(XmppWrite::Archive(_) | XmppWrite::Offline { .. }))
}

/// True if the write would have to remove messages that wait.
fn removes_messages(write: &Write) -> bool {
    match write {
        Write::RemoveAccount { .. } => true,
        Write::OfClient { write, .. } => removes_messages(write),
        Write::Xmpp(XmppWrite::ForgetOffline { ids, .. }) => ids.is_empty(),
        Write::Xmpp(XmppWrite::Room { config, .. }) => config.is_none(),
        Write::Xmpp(XmppWrite::ForgetUser { .. }) => true,
        _ => false,
    }
}

/// The write after an attempt whose outcome is not known.
fn repeated(write: Write) -> Write {
    match write {
        Write::Xmpp(XmppWrite::Offline { user, at, stanza, .. }) => {
            Write::Xmpp(XmppWrite::Offline { user, at, stanza, is_repeated: true })
        }
        Write::Call(record) => Write::EnsureCall(record),
        Write::Rest(RestWrite::Insert(row)) => Write::Rest(RestWrite::Ensure(row)),
        write => write,
    }
}

/// The bytes of a write, about.
fn size(write: &Write) -> usize {
    /// About the space of a write without its texts.
    const ROW: usize = 256;
    let text = match write {
        Write::Xmpp(XmppWrite::Archive(row)) => row.stanza.len() + row.owner.len() + row.bare.len(),
        Write::Xmpp(XmppWrite::Offline { user, stanza, .. }) => user.len() + stanza.len(),
        Write::Call(record) | Write::EnsureCall(record) => {
            record.call_id.len() + record.from.len() + record.to.len() + record.reason.len()
        }
        Write::Rest(RestWrite::Insert(row) | RestWrite::Ensure(row) | RestWrite::Replace(row)) => {
            let texts = [&row.name, &row.from, &row.to];
            row.body.len() + texts.into_iter().flatten().map(|text| text.len()).sum::<usize>()
        }
        _ => 0,
    };
    ROW + text
}

/// The error of a write that has no room, or must not overtake: to the asker it is as if the database had not answered.
fn away(detail: &str) -> StoreError {
    StoreError::Unreachable { server: "the database".into(), detail: detail.into(), is_refused: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{Existing, Imported, NewUser};
    use crate::rest::Row;
    use crate::types::Address;
    use crate::xmpp::ArchiveRow;

    /// A database that may be away, may refuse one row, and lists what it has.
    #[derive(Default)]
    struct FakeWriter {
        is_away: bool,
        refuses: Option<&'static str>,
        written: Vec<(Box<str>, bool)>,
        attempts: usize,
    }

    fn unreachable() -> StoreError {
        away("gone")
    }

    impl Writer for FakeWriter {
        fn write_group(&mut self, group: &[Write]) -> Vec<Result<WriteDone, StoreError>> {
            self.attempts += 1;
            let texts = group.iter().filter_map(|write| match write {
                Write::Xmpp(XmppWrite::Archive(row)) => Some((row.id.clone(), false)),
                Write::Xmpp(XmppWrite::Offline { stanza, is_repeated, .. }) => {
                    Some((stanza.clone(), *is_repeated))
                }
                _ => None,
            });
            let texts: Vec<_> = texts.collect();
            if self.is_away || texts.iter().any(|(text, _)| Some(&**text) == self.refuses) {
                return group.iter().map(|_| Err(unreachable())).collect();
            }
            self.written.extend(texts);
            group.iter().map(|_| Ok(WriteDone::Changed { rows: 1 })).collect()
        }

        fn secret(&mut self, _: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
            Ok(fresh)
        }

        fn import(&mut self, _: &[NewUser], _: Existing) -> Result<(Imported, Vec<Address>), StoreError> {
            Err(StoreError::Closed)
        }
    }

    fn archived(id: &str) -> Write {
        let row = ArchiveRow {
            owner: "bob@example.org".into(),
            id: id.into(),
            at: Instant::default(),
            bare: "alice@example.org".into(),
            resource: None,
            stanza: "<message/>".into(),
        };
        Write::Xmpp(XmppWrite::Archive(Box::new(row)))
    }

    fn waiting(stanza: &str) -> Write {
        let (user, at) = ("bob@example.org".into(), Instant::default());
        Write::Xmpp(XmppWrite::Offline { user, at, stanza: stanza.into(), is_repeated: false })
    }

    fn ticket(id: u64) -> Option<Ticket> {
        Some(Ticket { sink: 0, id })
    }

    /// The numbers of the answers, and whether they are good.
    fn ids(answers: &Answers) -> Vec<(u64, bool)> {
        answers.iter().map(|(ticket, done)| (ticket.map_or(0, |ticket| ticket.id), done.is_ok())).collect()
    }

    fn kept(count: u64) -> RetryQueue {
        let mut kept = RetryQueue::new(4);
        for id in 0..count {
            assert!(kept.keep(archived(&id.to_string()), ticket(id), Err(unreachable())).is_none());
        }
        kept
    }

    #[test]
    fn messages_that_failed_while_the_database_was_away_are_written_in_order_once_it_is_back() {
        let (mut kept, mut writer, mut answers) = (kept(3), FakeWriter::default(), Vec::new());
        assert!(kept.keep(waiting("m"), ticket(3), Err(unreachable())).is_none());
        writer.is_away = true;
        assert_eq!(kept.try_again(&mut writer, &mut answers), Attempt::Failed);
        // One that comes now is behind them, and one that removes messages would overtake them.
        let forget = Write::Xmpp(XmppWrite::ForgetUser { user: "bob@example.org".into() });
        let mut group =
            vec![(archived("later"), ticket(4)), (forget, ticket(5)), (Write::KeepDigests(true), ticket(6))];
        assert_eq!(ids(&kept.take_later(&mut group)), [(5, false)]);
        assert_eq!(group.len(), 1);
        assert!(answers.is_empty() && writer.written.is_empty());
        writer.is_away = false;
        while !kept.is_empty() {
            assert_eq!(kept.try_again(&mut writer, &mut answers), Attempt::Done);
        }
        let texts: Vec<_> = writer.written.iter().map(|(text, again)| (&**text, *again)).collect();
        assert_eq!(texts, [("0", false), ("1", false), ("2", false), ("m", true), ("later", false)]);
        assert_eq!(ids(&answers), [(0, true), (1, true), (2, true), (3, true), (4, true)]);
        assert_eq!((kept.bytes, kept.writes.capacity()), (0, 0), "nothing stays of the outage");
    }

    #[test]
    fn only_writes_of_messages_wait_and_only_for_a_database_that_is_away() {
        let mut kept = kept(0);
        assert!(kept.keep(Write::KeepDigests(true), ticket(1), Err(unreachable())).is_some());
        for error in [StoreError::Full { path: "db".into() }, StoreError::Fenced { server: "db".into() }] {
            assert_eq!(kept.keep(archived("1"), ticket(1), Err(error.clone())), Some(Err(error)));
        }
        let done = Ok(WriteDone::Changed { rows: 1 });
        assert_eq!(kept.keep(archived("1"), ticket(1), done.clone()), Some(done));
        assert!(kept.is_empty());
    }

    fn row(how: fn(Box<Row>) -> RestWrite, kind: Kind, to: Option<&str>) -> Write {
        let at = Instant::default();
        Write::Rest(how(Box::new(Row { to: to.map(Box::from), ..Row::new(kind, "1", "AC1", at, at) })))
    }

    #[test]
    fn rows_of_calls_wait_where_nothing_else_would_write_them_again() {
        for (write, ticket, is_kept) in [
            (row(RestWrite::Replace, Kind::Call, None), None, true),
            // An asker of the REST interface tries again.
            (row(RestWrite::Replace, Kind::Call, None), ticket(1), false),
            (row(RestWrite::Insert, Kind::Recording, None), ticket(1), false),
            (row(RestWrite::Insert, Kind::Recording, Some("bob@example.org")), ticket(1), true),
            (row(RestWrite::Insert, Kind::IncomingNumber, None), None, false),
            (Write::ForgetCalls { before: Instant::default() }, None, false),
        ] {
            let mut kept = kept(0);
            assert_eq!(kept.keep(write.clone(), ticket, Err(unreachable())).is_none(), is_kept, "{write:?}");
        }
        // A removal of messages waits for none of them.
        let mut kept = kept(0);
        assert!(kept.keep(row(RestWrite::Insert, Kind::Call, None), None, Err(unreachable())).is_none());
        let forget = Write::Xmpp(XmppWrite::ForgetUser { user: "bob@example.org".into() });
        let mut group = vec![(forget, ticket(1)), (row(RestWrite::Replace, Kind::Call, None), None)];
        assert!(kept.take_later(&mut group).is_empty());
        assert_eq!((group.len(), kept.len()), (1, 2), "the second write of the row is behind the first");
        let (forget, _) = group.remove(0);
        let mut group = vec![(archived("1"), ticket(2)), (forget, ticket(3))];
        assert_eq!(ids(&kept.take_later(&mut group)), [(3, false)], "the message would come back");
        assert!(matches!(&kept.writes[0].0, Write::Rest(RestWrite::Ensure(_))), "{:?}", kept.writes);
    }

    #[test]
    fn a_write_that_the_database_does_not_take_while_it_takes_others_is_refused_alone() {
        let (mut kept, mut answers) = (kept(4), Vec::new());
        let mut writer = FakeWriter { refuses: Some("2"), ..FakeWriter::default() };
        let mut attempts = 0;
        while !kept.is_empty() {
            kept.try_again(&mut writer, &mut answers);
            attempts += 1;
            assert!(attempts < 20, "it ends");
        }
        assert_eq!(ids(&answers), [(0, true), (1, true), (2, false), (3, true)]);
    }

    #[test]
    fn so_many_wait_and_so_many_bytes() {
        for most in
            [Bounds { writes: 2, bytes: KEPT_BYTES }, Bounds { writes: 9, bytes: 2 * size(&archived("1")) }]
        {
            let mut kept = RetryQueue { most, ..kept(2) };
            assert!(kept.keep(archived("3"), ticket(3), Err(unreachable())).is_some(), "{most:?}");
            let mut group = vec![(archived("4"), ticket(4))];
            assert_eq!(ids(&kept.take_later(&mut group)), [(4, false)]);
            assert_eq!(kept.len(), 2);
        }
    }
}
