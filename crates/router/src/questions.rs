//! The questions of one shard to the owners of addresses, in a farm whose nodes share a database. Owners move: a question is asked
//! again when the view names another owner, when it certainly was not performed, and, if that is harmless
//! ([`Query::is_repeatable`]), after a time without an answer. Each question gets exactly one answer, at the latest when its patience
//! ends.

use std::collections::HashMap;

use cluster::{Bucket, ShardAddress};
use stdx::Instant;
use stdx::wheel::Wheel;

use crate::interface::{Answer, AskId, Query};
use crate::limits;

/// An order of [`OpenQuestions`] to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionEffect {
    /// Send the question to the owner, which may be this shard. The answer: [`OpenQuestions::handle_answer`]; a question that cannot
    /// be sent is answered `Unavailable`.
    Send {
        /// The owner.
        to: ShardAddress,
        /// This shard's number of the question; 0 for one that is not answered.
        id: AskId,
        /// The question.
        query: Query,
    },
    /// The answer for the asker within this shard.
    Answer {
        /// The asker's number of the question.
        id: AskId,
        /// The answer of the owner.
        answer: Answer,
    },
    /// No owner has answered in time.
    Fail {
        /// The asker's number of the question.
        id: AskId,
        /// The question.
        query: Query,
    },
}

#[derive(Debug)]
struct OpenQuestion {
    /// The asker's number.
    id: AskId,
    query: Query,
    bucket: Bucket,
    /// The shard that may perform the question; none while it is certain that no shard does.
    asked: Option<ShardAddress>,
    until: Instant,
    /// The wheel has an entry for then; earlier entries have been overtaken.
    look_at: Instant,
}

/// The questions without an answer.
pub struct OpenQuestions {
    open: HashMap<u64, OpenQuestion>,
    wheel: Wheel<u64>,
    due: Vec<u64>,
    last_number: u64,
}

impl OpenQuestions {
    /// No questions.
    pub fn new(now: Instant) -> OpenQuestions {
        OpenQuestions { open: HashMap::new(), wheel: Wheel::new(now), due: Vec::new(), last_number: 0 }
    }

    /// Asks the owner of the query's address: `owner` names it.
    pub fn ask(
        &mut self,
        now: Instant,
        id: AskId,
        query: Query,
        owner: impl Fn(Bucket) -> Option<ShardAddress>,
        out: &mut Vec<QuestionEffect>,
    ) {
        let bucket = Bucket::of(query.aor());
        if !query.is_answered() {
            // Without an owner the news is lost: a later watch begins with the state as it is then.
            out.extend(owner(bucket).map(|to| QuestionEffect::Send { to, id: AskId(0), query }));
            return;
        }
        if self.open.len() >= limits::OPEN_QUESTIONS {
            out.push(QuestionEffect::Fail { id, query });
            return;
        }
        self.last_number += 1;
        let number = self.last_number;
        let until = now + limits::QUESTION_PATIENCE;
        self.open.insert(number, OpenQuestion { id, query, bucket, asked: None, until, look_at: now });
        self.send(now, number, owner(bucket), out);
    }

    /// The answer of an owner. One that is not waited for is ignored: the question was asked twice.
    pub fn handle_answer(
        &mut self,
        now: Instant,
        AskId(number): AskId,
        answer: Answer,
        out: &mut Vec<QuestionEffect>,
    ) {
        if answer != Answer::Unavailable {
            let answered = self.open.remove(&number);
            out.extend(answered.map(|question| QuestionEffect::Answer { id: question.id, answer }));
            return;
        }
        let Some(question) = self.open.get_mut(&number) else { return };
        question.asked = None;
        question.look_at = now + limits::ASK_AGAIN;
        self.wheel.insert(question.look_at, number);
    }

    /// An owner of an earlier version does not know the question: no other will.
    pub fn handle_not_understood(&mut self, AskId(number): AskId, out: &mut Vec<QuestionEffect>) {
        self.fail(number, out);
    }

    /// Owners have changed: questions go to those that `owner` names now.
    pub fn handle_view(
        &mut self,
        now: Instant,
        owner: impl Fn(Bucket) -> Option<ShardAddress>,
        out: &mut Vec<QuestionEffect>,
    ) {
        let mut moved: Vec<u64> = Vec::new();
        for (number, question) in &self.open {
            let is_free = question.asked.is_none() || question.query.is_repeatable();
            let next = owner(question.bucket);
            if is_free && next.is_some() && next != question.asked {
                moved.push(*number);
            }
        }
        // In the order in which they were asked.
        moved.sort_unstable();
        for number in moved {
            let to = self.open.get(&number).and_then(|question| owner(question.bucket));
            self.send(now, number, to, out);
        }
    }

    /// Asks again, or gives up, what is due.
    pub fn expire(
        &mut self,
        now: Instant,
        owner: impl Fn(Bucket) -> Option<ShardAddress>,
        out: &mut Vec<QuestionEffect>,
    ) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.expire(now, &mut due);
        for number in due.drain(..) {
            let Some(question) = self.open.get_mut(&number) else { continue };
            if question.until <= now {
                self.fail(number, out);
            } else if question.look_at <= now {
                let to = owner(question.bucket);
                self.send(now, number, to, out);
            }
        }
        self.due = due;
    }

    /// The time at which [`OpenQuestions::expire`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// The number of questions without an answer.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// True if all questions have been answered.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn send(
        &mut self,
        now: Instant,
        number: u64,
        owner: Option<ShardAddress>,
        out: &mut Vec<QuestionEffect>,
    ) {
        let Some(question) = self.open.get_mut(&number) else { return };
        let is_repeatable = question.query.is_repeatable();
        // A message that waited at its owner until after this shard has given it up would be kept all the same.
        let is_late = !is_repeatable && now + limits::WAITING_PATIENCE > question.until;
        let may_send = !is_late && (is_repeatable || question.asked.is_none());
        let mut next = question.until;
        if let Some(to) = owner.filter(|_| may_send) {
            question.asked = Some(to);
            if is_repeatable {
                next = next.min(now + limits::NO_ANSWER);
            }
            out.push(QuestionEffect::Send { to, id: AskId(number), query: question.query.clone() });
        } else if may_send {
            next = next.min(now + limits::ASK_AGAIN);
        }
        question.look_at = next;
        self.wheel.insert(next, number);
    }

    fn fail(&mut self, number: u64, out: &mut Vec<QuestionEffect>) {
        let failed = self.open.remove(&number);
        out.extend(failed.map(|question| QuestionEffect::Fail { id: question.id, query: question.query }));
    }
}
