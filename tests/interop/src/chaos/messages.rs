//! The account of messages: each that the server has acknowledged (XEP-0198 §4) has been received or is in an archive.

use super::world::Interval;

/// A message that was acknowledged this long before an outage is part of the known limit, microseconds: the writes of chat come after
/// the acknowledgement.
const BEFORE_OUTAGE: u64 = 3_000_000;

/// A message and all that is known of it. Times are microseconds since the begin of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its id, which is its text.
    pub id: String,
    /// The sender's address.
    pub from: String,
    /// The receiver's address.
    pub to: String,
    /// The time at which the client sent it for the first time.
    pub sent: u64,
    /// The time of its acknowledgement by the server; none: the sender does not know its fate.
    pub acknowledged: Option<u64>,
    /// It came back to its sender as an error.
    pub is_bounced: bool,
    /// The number of times that the receiver received it.
    pub receptions: u32,
    /// The receiver's archive has it.
    pub is_in_receivers_archive: bool,
    /// The sender's archive has it.
    pub is_in_senders_archive: bool,
    /// A user other than its receiver received it.
    pub is_misdelivered: bool,
}

impl Message {
    /// A message that is on its way.
    pub fn new(id: String, from: String, to: String, sent: u64) -> Message {
        Message { id, from, to, sent, ..Message::default() }
    }

    /// A client of this user received it.
    pub fn handle_reception(&mut self, user: &str) {
        if user == self.to {
            self.receptions += 1;
        } else {
            self.is_misdelivered = true;
        }
    }

    /// The archive of this user has it.
    pub fn handle_archived(&mut self, user: &str) {
        if user == self.to {
            self.is_in_receivers_archive = true;
        } else if user == self.from {
            self.is_in_senders_archive = true;
        }
    }

    /// True if the receiver has it or can read it.
    fn has_arrived(&self) -> bool {
        self.receptions > 0 || self.is_in_receivers_archive
    }

    /// True if an outage may have been between its sending and the write of its record.
    fn is_near(&self, outages: &[Interval]) -> bool {
        let until = self.acknowledged.unwrap_or(u64::MAX);
        outages
            .iter()
            .any(|(began, ended)| self.sent <= *ended && until.saturating_add(BEFORE_OUTAGE) >= *began)
    }
}

/// The sums of all messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageAccount {
    /// All messages.
    pub sent: usize,
    /// The server has acknowledged them.
    pub acknowledged: usize,
    /// They came back as errors: their senders know.
    pub bounced: usize,
    /// They have been received, or are in the receiver's archive.
    pub arrived: usize,
    /// Receptions beyond the first of each.
    pub duplicates: usize,
    /// Acknowledged, and neither received nor archived nor returned.
    pub lost: Vec<String>,
    /// Received, and not in the receiver's archive.
    pub unarchived: Vec<String>,
    /// The lost and the unarchived ones near the death of an owner.
    pub near_outages: Vec<String>,
    /// Received by another user.
    pub misdelivered: Vec<String>,
}

/// Adds up all messages. `outages`: times in which an owner may have died.
pub fn account(messages: &[Message], outages: &[Interval]) -> MessageAccount {
    let count =
        |is_counted: fn(&Message) -> bool| messages.iter().filter(|message| is_counted(message)).count();
    let mut account = MessageAccount {
        sent: messages.len(),
        acknowledged: count(|message| message.acknowledged.is_some()),
        bounced: count(|message| message.is_bounced),
        arrived: count(Message::has_arrived),
        ..MessageAccount::default()
    };
    for message in messages {
        account.duplicates += message.receptions.saturating_sub(1) as usize;
        if message.is_misdelivered {
            account.misdelivered.push(message.id.clone());
        }
        let is_lost = message.acknowledged.is_some() && !message.is_bounced && !message.has_arrived();
        let is_unarchived = message.receptions > 0 && !message.is_in_receivers_archive;
        if !is_lost && !is_unarchived {
            continue;
        }
        let list = if message.is_near(outages) {
            &mut account.near_outages
        } else if is_lost {
            &mut account.lost
        } else {
            &mut account.unarchived
        };
        list.push(describe(message));
    }
    account
}

fn describe(message: &Message) -> String {
    let seconds = |time: u64| format!("{:.3}", time as f64 / 1e6);
    let acknowledged = message.acknowledged.map_or_else(|| "never".to_owned(), seconds);
    format!(
        "{} to {} (sent {}, acknowledged {acknowledged} s, received {} times, archived by receiver: {}, by sender: {})",
        message.id,
        message.to,
        seconds(message.sent),
        message.receptions,
        message.is_in_receivers_archive,
        message.is_in_senders_archive,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, acknowledged: Option<u64>) -> Message {
        let sent = 10_000_000;
        Message { acknowledged, ..Message::new(id.to_owned(), "a@x".to_owned(), "b@x".to_owned(), sent) }
    }

    fn received(id: &str) -> Message {
        let archived =
            Message { receptions: 1, is_in_receivers_archive: true, ..message(id, Some(10_100_000)) };
        Message { is_in_senders_archive: true, ..archived }
    }

    #[test]
    fn an_acknowledged_message_that_is_nowhere_is_lost() {
        let messages = [received("1"), message("2", Some(10_200_000)), message("3", None)];
        let found = account(&messages, &[]);
        assert_eq!((found.sent, found.acknowledged, found.arrived), (3, 2, 1));
        assert!(found.lost.len() == 1 && found.lost[0].starts_with("2 to b@x"), "{found:?}");
        let only_the_senders = Message { is_in_senders_archive: true, ..message("2", Some(10_200_000)) };
        assert_eq!(account(&[only_the_senders], &[]).lost.len(), 1, "its receiver never sees it");
    }

    #[test]
    fn a_message_that_came_back_or_waits_in_the_archive_is_not_lost() {
        let bounced = Message { is_bounced: true, ..message("1", Some(10_100_000)) };
        let archived = Message { is_in_receivers_archive: true, ..message("2", Some(10_100_000)) };
        let found = account(&[bounced, archived], &[]);
        assert_eq!((found.bounced, found.arrived, found.lost.len()), (1, 1, 0));
    }

    #[test]
    fn a_received_message_is_archived() {
        let unarchived = Message { receptions: 1, ..message("1", None) };
        assert_eq!(account(&[unarchived], &[]).unarchived.len(), 1);
    }

    #[test]
    fn only_messages_near_an_outage_are_counted_apart() {
        let lost = [message("1", Some(10_200_000))];
        let near = [(11_000_000, 15_000_000), (9_000_000, 10_000_000), (5_000_000, 60_000_000)];
        for outage in near {
            let found = account(&lost, &[outage]);
            assert_eq!((found.lost.len(), found.near_outages.len()), (0, 1), "{outage:?}");
        }
        for outage in [(13_200_001, 15_000_000), (1_000_000, 9_999_999)] {
            let found = account(&lost, &[outage]);
            assert_eq!((found.lost.len(), found.near_outages.len()), (1, 0), "{outage:?}");
        }
    }

    #[test]
    fn duplicates_and_misdelivered_messages_are_counted() {
        let mut twice = received("1");
        twice.handle_reception("b@x");
        twice.handle_reception("c@x");
        let found = account(&[twice], &[]);
        assert_eq!((found.duplicates, found.misdelivered.len()), (1, 1));
    }
}
