//! The account of a farm's run: what was promised, and whether it was kept.

use std::collections::{BTreeMap, BTreeSet};

use cluster::{Bucket, Epoch, Life};

use super::database::WriteId;
use super::process::ChatId;

/// The way of one chat message.
#[derive(Clone, Debug)]
struct ChatFate {
    from: Life,
    to: Life,
    delivered: u32,
    returned: u32,
}

/// The record of a run's writes and messages.
#[derive(Default)]
pub struct Ledger {
    acknowledged: BTreeSet<WriteId>,
    buckets: BTreeMap<WriteId, Bucket>,
    serving: BTreeMap<(Bucket, Epoch), Life>,
    chats: BTreeMap<ChatId, ChatFate>,
    /// The last chat message that came, by sender and receiver.
    last_chat: BTreeMap<(Life, Life), ChatId>,
    ended: BTreeSet<Life>,
    /// The promises that were broken.
    pub faults: Vec<String>,
}

impl Ledger {
    /// A client asks for a write.
    pub fn offer(&mut self, id: WriteId, bucket: Bucket) {
        self.buckets.insert(id, bucket);
    }

    /// A client was told that its row is written.
    pub fn acknowledge(&mut self, id: WriteId) {
        self.acknowledged.insert(id);
    }

    /// True if the client of the write has its answer.
    pub fn is_acknowledged(&self, id: WriteId) -> bool {
        self.acknowledged.contains(&id)
    }

    /// The writes that were acknowledged, with their buckets.
    pub fn acknowledged(&self) -> impl Iterator<Item = (WriteId, Bucket)> + '_ {
        self.acknowledged.iter().map(|id| (*id, self.buckets[id]))
    }

    /// A shard begins to answer for a bucket.
    pub fn serves(&mut self, life: Life, bucket: Bucket, epoch: Epoch) {
        let first = *self.serving.entry((bucket, epoch)).or_insert(life);
        if first != life {
            let number = bucket.number();
            self.faults.push(format!("bucket {number} is served by {first} and {life} in epoch {epoch}"));
        }
    }

    /// A chat message was queued.
    pub fn chat_sent(&mut self, id: ChatId, from: Life, to: Life) {
        self.chats.insert(id, ChatFate { from, to, delivered: 0, returned: 0 });
    }

    /// A chat message came.
    pub fn chat_delivered(&mut self, id: ChatId, from: Life, to: Life) {
        let last = self.last_chat.insert((from, to), id).unwrap_or(0);
        if last >= id {
            self.faults.push(format!("chat message {id} came after {last}"));
        }
        if let Some(chat) = self.chats.get_mut(&id) {
            chat.delivered += 1;
        }
    }

    /// A chat message was given back to its sender.
    pub fn chat_returned(&mut self, id: ChatId) {
        if let Some(chat) = self.chats.get_mut(&id) {
            chat.returned += 1;
        }
    }

    /// A process has ended.
    pub fn end(&mut self, life: Life) {
        self.ended.insert(life);
    }

    /// The promises about chat at the end of a run: what a living node took is delivered once or given back.
    pub fn check_chats(&mut self) {
        for (id, chat) in &self.chats {
            let ends = [chat.from, chat.to].map(|life| self.ended.contains(&life));
            let is_fault = match ends {
                // Its sender has ended, and what it had with it.
                [true, _] => chat.delivered > 1 || chat.returned > 1,
                [false, true] => {
                    chat.delivered + chat.returned == 0 || chat.delivered > 1 || chat.returned > 1
                }
                [false, false] => chat.delivered != 1 || chat.returned != 0,
            };
            if is_fault {
                self.faults.push(format!("chat message {id}: {chat:?}, ended {ends:?}"));
            }
        }
    }

    /// Chat messages that were delivered, and rows that were acknowledged: a run that does nothing proves nothing.
    pub fn amount(&self) -> (usize, usize) {
        (self.chats.values().filter(|chat| chat.delivered > 0).count(), self.acknowledged.len())
    }
}
