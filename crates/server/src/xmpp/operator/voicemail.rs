//! The voicemail of one account for its user (`chat::voicemail`): recordings whose row has the account in `to`, and their sound.
//!
//! Each request reads the row that it names, and a row of another account counts as none. The write that removes an account takes its messages out
//! of the mailbox (`Kind::RemovedVoicemail`); [`Mailboxes::delete_removed`] deletes their sound, wherever it is, and then their rows.

use std::collections::HashSet;
use std::time::Duration;

use admin::{ControlError, EncodeError};
use chat::effect::{Voicemail, VoicemailPage, VoicemailReply, VoicemailRequest, VoicemailSound};
use chat::{StoreFailure, StoreReply};
use stdx::Instant;
use store::rest::types::Recording;
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead, RestWrite, Row};
use store::{Loaded, Read, StoreError, Write, WriteDone};
use tokio::sync::oneshot;
use xmpp::Bare;

use super::Operator;
use crate::limits;
use crate::message::{ShardMessage, XmppShardMessage};

/// The outcome of a write that has begun.
type Written = oneshot::Receiver<Result<WriteDone, StoreError>>;

/// The mailboxes of all accounts.
#[derive(Clone)]
pub(crate) struct Mailboxes {
    operator: Operator,
}

impl Mailboxes {
    pub(crate) fn new(operator: &Operator) -> Mailboxes {
        Mailboxes { operator: operator.clone() }
    }

    /// Performs a request of a user about the own voicemail.
    pub(crate) async fn perform(
        &self,
        now: Instant,
        user: &Bare,
        request: VoicemailRequest,
    ) -> Result<StoreReply, StoreFailure> {
        let reply = match request {
            VoicemailRequest::List { until, max } => self.page(user, until, max).await,
            VoicemailRequest::Sound { id, offset } => self.sound(user, &id, offset).await,
            VoicemailRequest::Heard { id } => self.mark_heard(now, user, &id).await,
            VoicemailRequest::Delete { id } => self.delete(user, &id).await,
        };
        match reply {
            Ok(reply) => Ok(StoreReply::Voicemail(reply)),
            Err(ControlError::NotFound) => Ok(StoreReply::Voicemail(VoicemailReply::NotFound)),
            Err(_) => Err(StoreFailure::Unavailable),
        }
    }

    async fn page(
        &self,
        user: &Bare,
        until: Option<Instant>,
        max: u32,
    ) -> Result<VoicemailReply, ControlError> {
        let all = RestFilter { to: Some(user.as_str().into()), limit: 0, ..RestFilter::all(Kind::Recording) };
        // Voicemail that is heard has the time of that in the column `ended_at`.
        let heard = RestFilter { ended_from: Some(Instant::from_micros(0)), ..all.clone() };
        let page = RestFilter { created_to: until, limit: max.saturating_add(1), ..all.clone() };
        let (page, all, heard) =
            tokio::join!(self.list_rows(page), self.list_rows(all), self.list_rows(heard));
        let ((rows, _), (_, all), (_, heard)) = (page?, all?, heard?);
        Ok(VoicemailReply::Page(page_of(user, &rows, max, all.saturating_sub(heard))))
    }

    async fn list_rows(&self, filter: RestFilter) -> Result<(Vec<Row>, u64), ControlError> {
        match self.operator.read(Read::Rest(RestRead::List(filter))).await? {
            Loaded::Rest(RestLoaded::Page { rows, total }) => Ok((rows, total)),
            _ => Err(ControlError::Busy),
        }
    }

    /// A message of the account, by its name.
    async fn message(&self, user: &Bare, id: &str) -> Result<Recording, ControlError> {
        match self.operator.read(Read::Rest(RestRead::Sid { kind: Kind::Recording, sid: id.into() })).await? {
            Loaded::Rest(RestLoaded::Row(Some(row))) => own(user, &row).ok_or(ControlError::NotFound),
            Loaded::Rest(RestLoaded::Row(None)) => Err(ControlError::NotFound),
            _ => Err(ControlError::Busy),
        }
    }

    async fn sound(&self, user: &Bare, id: &str, offset: u64) -> Result<VoicemailReply, ControlError> {
        let Recording { common, node, .. } = self.message(user, id).await?;
        let range = offset..offset.saturating_add(chat::limits::VOICEMAIL_PIECE as u64);
        let piece =
            self.operator.recorded_sound.read(&common.sid, &node, range).await.map_err(control_error)?;
        Ok(VoicemailReply::Sound(VoicemailSound { size: piece.size, bytes: piece.bytes }))
    }

    async fn mark_heard(&self, now: Instant, user: &Bare, id: &str) -> Result<VoicemailReply, ControlError> {
        let mut recording = self.message(user, id).await?;
        // The first time counts.
        if recording.heard_at.is_none() {
            recording.heard_at = Some(now);
            recording.common.updated_at = now;
            let row = recording.row().map_err(|_| ControlError::Busy)?;
            self.write_row(RestWrite::Replace(Box::new(row))).await?;
        }
        Ok(VoicemailReply::Done)
    }

    /// The file goes first, as with REST: a row without a file is a missing recording, a file without a row would stay for ever.
    async fn delete(&self, user: &Bare, id: &str) -> Result<VoicemailReply, ControlError> {
        let Recording { common, node, .. } = self.message(user, id).await?;
        self.operator.recorded_sound.delete(&common.sid, &node).await.map_err(control_error)?;
        self.write_row(RestWrite::Remove { kind: Kind::Recording, sid: common.sid.as_str().into() }).await?;
        Ok(VoicemailReply::Done)
    }

    async fn write_row(&self, write: RestWrite) -> Result<(), ControlError> {
        match self.begin_row(write)?.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(StoreError::NotFound { .. })) => Err(ControlError::NotFound),
            _ => Err(ControlError::Busy),
        }
    }

    fn begin_row(&self, write: RestWrite) -> Result<Written, ControlError> {
        let begun =
            self.operator.desk.begin_write(|ticket| self.operator.store.write(Write::Rest(write), ticket));
        begun.map_err(|store::Busy| ControlError::Busy)
    }

    /// Writes the row of a recording that goes into a mailbox: begun at once, and the account's clients get a notice when it is written.
    ///
    /// # Errors
    /// The database takes no more writes.
    pub(crate) fn put(
        &self,
        row: Box<Row>,
    ) -> Result<impl Future<Output = Result<(), ControlError>> + use<>, ControlError> {
        let (notice, kept) = (notice_of(&row), row.clone());
        let written = self.begin_row(RestWrite::Insert(row))?;
        let mailboxes = self.clone();
        Ok(async move {
            if !matches!(written.await, Ok(Ok(_))) {
                return Err(ControlError::Busy);
            }
            // After the write: a removal that is later finds the row itself.
            if mailboxes.has_lost_account(&kept).await.unwrap_or(false) {
                tracing::warn!(sid = &*kept.sid, "a mailbox has lost its account: the recording is in none");
                return mailboxes.take_out(&kept).await;
            }
            if mailboxes.is_full(&kept).await.unwrap_or(false) {
                let mailbox = kept.to.as_deref();
                tracing::warn!(sid = &*kept.sid, mailbox, "a mailbox is full: the recording is in none");
                return mailboxes.take_out(&kept).await;
            }
            // Without chat no client asks. A notice that is lost is no harm, as clients ask from time to time.
            if let Some((to, notice)) = notice.filter(|_| mailboxes.operator.rooms.is_some()) {
                let routed = XmppShardMessage::Routed(Box::new(notice));
                let _ = mailboxes.operator.post_message(to.as_str(), ShardMessage::Xmpp(vec![routed]).into());
            }
            Ok(())
        })
    }
}

impl Mailboxes {
    /// The mailbox of this row has more messages than it may.
    async fn is_full(&self, row: &Row) -> Result<bool, ControlError> {
        let all = RestFilter { to: row.to.clone(), limit: 0, ..RestFilter::all(Kind::Recording) };
        Ok(self.list_rows(all).await?.1 > limits::VOICEMAIL)
    }

    /// The account of this row's mailbox is not there: it was removed while the caller spoke.
    async fn has_lost_account(&self, row: &Row) -> Result<bool, ControlError> {
        let Some((user, domain)) = row.to.as_deref().and_then(|to| to.rsplit_once('@')) else {
            return Ok(false);
        };
        let read = Read::Account { user: user.into(), domain: domain.into() };
        Ok(matches!(self.operator.read(read).await?, Loaded::Account(None)))
    }

    /// Takes a recording out of its mailbox: it is kept as any other.
    async fn take_out(&self, row: &Row) -> Result<(), ControlError> {
        let recording = Recording::from_row(row).map_err(|_| ControlError::Busy)?;
        let row = Recording { to: String::new(), ..recording }.row().map_err(|_| ControlError::Busy)?;
        match self.write_row(RestWrite::Replace(Box::new(row))).await {
            // The removal of the account has taken it out.
            Err(ControlError::NotFound) => Ok(()),
            other => other,
        }
    }
}

impl Mailboxes {
    /// Deletes the voicemail of removed accounts: the sound first, then the row, as with REST. What a node or store does not delete now stays
    /// for the next time.
    ///
    /// # Errors
    /// The database cannot be read now.
    pub(crate) async fn delete_removed(&self) -> Result<(), ControlError> {
        // Each failure may have been waited for: one for each node.
        let mut away = HashSet::new();
        let mut from = None;
        loop {
            let limit = limits::REMOVED_VOICEMAIL;
            let all = RestFilter::all(Kind::RemovedVoicemail);
            let filter = RestFilter { created_from: from, ascending: true, limit, ..all };
            let (rows, _) = self.list_rows(filter).await?;
            for row in &rows {
                self.delete_removed_row(row, &mut away).await;
            }
            let Some(last) = rows.last().filter(|_| rows.len() >= limit as usize) else { return Ok(()) };
            // Rows of the same microsecond that did not fit are found by the next pass, as are those that were not deleted.
            from = Some(last.created_at + Duration::from_micros(1));
        }
    }

    async fn delete_removed_row(&self, row: &Row, away: &mut HashSet<String>) {
        // A row that cannot be read names no node: its file is looked for here.
        let node = Recording::from_row(row).map(|recording| recording.node).unwrap_or_default();
        let sound = &self.operator.recorded_sound;
        if away.contains(&node) || !sound.can_delete(&node) {
            return;
        }
        if let Err(error) = sound.delete(&row.sid, &node).await {
            tracing::debug!(sid = &*row.sid, ?error, "voicemail of a removed account is not deleted yet");
            away.insert(node);
            return;
        }
        // A row that is written again or gone is no harm: the next pass finds what is left.
        let _ = self.write_row(RestWrite::Remove { kind: row.kind, sid: row.sid.clone() }).await;
    }
}

/// The notice for the mailbox of a row, and its account.
fn notice_of(row: &Row) -> Option<(Bare, xmpp::Element)> {
    let account = Bare::parse(row.to.as_deref()?).ok()?;
    let from = row.from.as_deref().unwrap_or_default();
    let notice = chat::voicemail::notice(&account, &row.sid, from, row.created_at);
    Some((account, notice))
}

/// The recording, if it is in the mailbox of this account.
fn own(user: &Bare, row: &Row) -> Option<Recording> {
    Recording::from_row(row).ok().filter(|recording| recording.to == user.as_str())
}

fn page_of(user: &Bare, rows: &[Row], max: u32, unheard: u64) -> VoicemailPage {
    let max = max as usize;
    let message = |recording: Recording| Voicemail {
        id: recording.common.sid.into(),
        from: recording.from.into(),
        at: recording.common.created_at,
        seconds: recording.duration.unwrap_or_default(),
        is_heard: recording.heard_at.is_some(),
    };
    // The list is of this account only; a row of another one must not leave this function in any case.
    let messages = rows.iter().take(max).filter_map(|row| own(user, row)).map(message).collect();
    VoicemailPage { messages, next: rows.get(max).map(|row| row.created_at), unheard }
}

fn control_error(error: EncodeError) -> ControlError {
    match error {
        EncodeError::NotFound => ControlError::NotFound,
        _ => ControlError::Busy,
    }
}

#[cfg(test)]
mod tests {
    use store::rest::types::Common;

    use super::*;

    fn row(sid: &str, to: &str, seconds: u64) -> Row {
        let at = Instant::from_unix_seconds(seconds);
        let common = Common { sid: sid.into(), account: "AC1".into(), created_at: at, updated_at: at };
        Recording { common, to: to.into(), from: "bob".into(), duration: Some(7), ..Recording::default() }
            .row()
            .unwrap()
    }

    #[test]
    fn a_page_has_messages_of_its_account_and_the_place_of_the_next() {
        let alice = Bare::parse("alice@example.org").unwrap();
        let rows = [row("RE3", "alice@example.org", 3), row("RE2", "bob@example.org", 2), row("RE1", "", 1)];
        let page = page_of(&alice, &rows, 2, 5);
        let ids: Vec<&str> = page.messages.iter().map(|message| &*message.id).collect();
        assert_eq!((ids, page.unheard), (vec!["RE3"], 5));
        assert_eq!(page.next, Some(Instant::from_unix_seconds(1)));
        assert_eq!(page_of(&alice, &rows, 3, 0).next, None);
        // A recording without a mailbox is of no account.
        assert_eq!(own(&alice, &rows[2]), None);
    }
}
