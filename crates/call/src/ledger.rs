//! The ledger: the caller, callee, times and end of each call. One record a call, written when it is over.
//!
//! A call being up costs under 300 bytes here: its texts are one allocation, its times are numbers.

use std::time::Duration;

use hashbrown::HashTable;
use stdx::Instant;
use stdx::cache::Cache;
use stdx::wheel::Wheel;

use crate::limits;

/// The settings of a [`Ledger`].
#[derive(Clone, Copy, Debug)]
pub struct LedgerSettings {
    /// A call without an end is closed as lost after this.
    pub longest_call: Duration,
}

impl Default for LedgerSettings {
    fn default() -> Self {
        LedgerSettings { longest_call: limits::LONGEST_CALL }
    }
}

/// Something happened to a call. Events of calls the ledger does not know, and events that come twice, as
/// they do with forks and retransmissions, change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEvent {
    /// A hash of the Call-ID and the caller's tag, under a key that peers do not know.
    pub key: u64,
    /// A hash of the callee's tag, in `Answered` and `Ended`: one INVITE may be answered by several callees, and the
    /// call ends with the dialog that was answered first.
    pub leg: u64,
    /// The phase that began.
    pub kind: CallEventKind,
}

/// The phases of a call that an edge reports to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEventKind {
    /// The INVITE was forwarded, or taken by an application.
    Started {
        /// Call-ID of the INVITE.
        call_id: Box<str>,
        /// The URI in its From.
        from: Box<str>,
        /// The URI in its To.
        to: Box<str>,
        /// The account that places it, `user@domain`.
        account: Option<Box<str>>,
        /// The account that is called, when it is one of ours.
        callee: Option<Box<str>>,
    },
    /// It was refused before it went anywhere: a record at once, and no other event.
    Refused {
        /// Call-ID of the INVITE.
        call_id: Box<str>,
        /// The URI in its From.
        from: Box<str>,
        /// The URI in its To.
        to: Box<str>,
        /// The account that places it, `user@domain`.
        account: Option<Box<str>>,
        /// The account that is called, when it is one of ours.
        callee: Option<Box<str>>,
        /// The status of the response.
        code: u16,
        /// Its reason phrase.
        reason: Box<str>,
    },
    /// A provisional response says that the callee is alerted.
    Ringing,
    /// A 2xx to the INVITE.
    Answered,
    /// A final answer that is no success, or none at all.
    Failed {
        /// The status of the final response; 0 when there was none.
        code: u16,
        /// Its reason phrase.
        reason: Box<str>,
    },
    /// The call is another ledger's: it has no record here.
    Withdrawn,
    /// A call that a ledger of another node had, which has died. `Ended` follows.
    TakenOver {
        /// Call-ID of the INVITE.
        call_id: Box<str>,
        /// The URI of the caller.
        from: Box<str>,
        /// The URI of the callee.
        to: Box<str>,
        /// The time of the INVITE.
        start: Instant,
        /// The time of the 2xx.
        answer: Instant,
    },
    /// The call was up and has ended.
    Ended {
        /// The party that ended it.
        by: EndedBy,
        /// The text for the call record.
        reason: Box<str>,
    },
}

/// The party that ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndedBy {
    /// The party that sent the INVITE.
    Caller,
    /// The party that answered it.
    Callee,
    /// We ended it, or stopped.
    Server,
    /// No BYE came.
    Unknown,
}

/// One call as it is charged and listed, written at its end (CDR).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// Call-ID of the INVITE.
    pub call_id: Box<str>,
    /// The URI in its From.
    pub from: Box<str>,
    /// The URI in its To.
    pub to: Box<str>,
    /// The account that placed it, when one did.
    pub account: Option<Box<str>>,
    /// The account that was called, when it is one of ours.
    pub callee: Option<Box<str>>,
    /// The time of the INVITE.
    pub start: Instant,
    /// The time of the first `CallEventKind::Ringing`.
    pub ringing: Option<Instant>,
    /// The time of the first 2xx.
    pub answer: Option<Instant>,
    /// The time of `CallEventKind::Ended`, `Failed` or `Refused`.
    pub end: Instant,
    /// The final answer: 200 when it was answered. 0 when there was none.
    pub code: u16,
    /// The reason phrase of the final response, or the reason of the end.
    pub reason: Box<str>,
    /// The party that ended it.
    pub ended_by: EndedBy,
}

/// A call that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// Call-ID of the INVITE.
    pub call_id: Box<str>,
    /// The URI in its From.
    pub from: Box<str>,
    /// The URI in its To.
    pub to: Box<str>,
    /// The account that places it, when one does.
    pub account: Option<Box<str>>,
    /// The account that is called, when it is one of ours.
    pub callee: Option<Box<str>>,
    /// The time of the INVITE.
    pub start: Instant,
    /// The time of the first `CallEventKind::Ringing`.
    pub ringing: Option<Instant>,
    /// The time of the first 2xx.
    pub answer: Option<Instant>,
}

/// The figures of a ledger, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerCounts {
    /// Calls being up or set up.
    pub live: usize,
    /// The calls of these that were answered.
    pub answered: usize,
    /// Calls that began since the start, without refused ones.
    pub started_total: u64,
    /// Calls that were answered since the start.
    pub answered_total: u64,
    /// Calls that failed since the start.
    pub failed_total: u64,
    /// Calls whose end no edge reported in time, since the start.
    pub lost_total: u64,
    /// Calls without a record: the ledger was full, or strangers had too many refused at once.
    pub unrecorded_total: u64,
}

/// The calls under way of which a call record is made at their end.
pub struct Ledger {
    settings: LedgerSettings,
    table: HashTable<Box<LiveCall>>,
    /// Keys, one outstanding entry for each live call.
    wheel: Wheel<u64>,
    counts: LedgerCounts,
    refused: RefusedCalls,
    /// Calls of other ledgers that had their record here: both sides may hang up.
    taken_over: Cache<u64, ()>,
    last_end: Instant,
}

/// Keeps strangers from filling the record with calls that are refused.
struct RefusedCalls {
    /// The last ones. Over UDP a caller that has not heard of its refusal repeats the INVITE and is refused again.
    last: Cache<u64, u16>,
    /// When the present minute began, and how many calls of strangers were recorded in it.
    since: Instant,
    of_strangers: u32,
}

/// Times are milliseconds after `start`, plus one; zero is never. They fit 49 days.
struct LiveCall {
    key: u64,
    start: Instant,
    ringing: u32,
    answer: u32,
    /// The tag of the callee that answered, hashed.
    leg: u64,
    /// Call-ID, From, To, account and callee, one behind the other.
    texts: Box<str>,
    /// Where each but the first begins. Without an account, or a callee of ours, theirs are empty.
    cuts: [u16; 4],
    /// The number of patrols that have passed; the next comes one `limits::PATROL` later.
    patrols: u16,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(settings: LedgerSettings, now: Instant) -> Self {
        let refused =
            RefusedCalls { last: Cache::new(limits::REFUSED_REMEMBERED), since: now, of_strangers: 0 };
        let (table, wheel) = (HashTable::new(), Wheel::new(now));
        let taken_over = Cache::new(limits::TAKEN_OVER_REMEMBERED);
        let (counts, last_end) = (LedgerCounts::default(), Instant::default());
        Ledger { settings, table, wheel, counts, refused, taken_over, last_end }
    }

    /// The end of a call that ends now. No two calls of a ledger end in the same microsecond: lists of calls are read page by page by the time of
    /// the end, and a page could not begin between two of one time.
    fn end(&mut self, now: Instant) -> Instant {
        self.last_end = now.max(self.last_end + Duration::from_micros(1));
        self.last_end
    }

    /// Applies one event of a call; a call that ends appends its record to `out`.
    pub fn handle_event(&mut self, now: Instant, event: CallEvent, out: &mut Vec<CallRecord>) {
        let CallEvent { key, leg, kind } = event;
        match kind {
            CallEventKind::Started { call_id, from, to, account, callee } => {
                let [account, callee] = [&account, &callee].map(|aor| aor.as_deref().unwrap_or_default());
                self.start(now, key, [&call_id, &from, &to, account, callee]);
            }
            CallEventKind::Refused { call_id, from, to, account, callee, code, reason } => {
                if !self.refused.is_new(key, code) {
                    return;
                }
                if account.is_none() && !self.refused.takes_stranger(now) {
                    self.counts.unrecorded_total += 1;
                    return;
                }
                let [account, callee] = [&account, &callee].map(|aor| aor.as_deref().unwrap_or_default());
                let call = LiveCall::new(now, key, [&call_id, &from, &to, account, callee]);
                out.push(call.close(self.end(now), code, &reason, EndedBy::Server));
            }
            CallEventKind::TakenOver { call_id, from, to, start, answer } => {
                let mut live = LiveCall::new(start, key, [&call_id, &from, &to, "", ""]);
                (live.answer, live.leg) = (live.mark(answer), leg);
                self.take_over(live);
            }
            CallEventKind::Ringing => {
                if let Some(live) = self.find(key).filter(|live| live.ringing == 0) {
                    live.ringing = live.mark(now);
                }
            }
            CallEventKind::Answered => {
                if let Some(live) = self.find(key).filter(|live| live.answer == 0) {
                    (live.answer, live.leg) = (live.mark(now), leg);
                    self.counts.answered += 1;
                    self.counts.answered_total += 1;
                }
            }
            // A branch that failed beside the one that answered: the call goes on.
            CallEventKind::Failed { .. } if self.find(key).is_some_and(|live| live.answer != 0) => {}
            CallEventKind::Failed { code, reason } => {
                if let Some(live) = self.take(key) {
                    self.counts.failed_total += 1;
                    out.push(live.close(self.end(now), code, &reason, EndedBy::Callee));
                }
            }
            // An answered call is this ledger's.
            CallEventKind::Withdrawn if self.find(key).is_some_and(|live| live.answer != 0) => {}
            CallEventKind::Withdrawn => drop(self.take(key)),
            CallEventKind::Ended { by, reason } => {
                // The end of another dialog, or of none.
                let is_answered = |live: &&mut LiveCall| live.answer != 0 && live.leg == leg;
                if self.find(key).filter(is_answered).is_some()
                    && let Some(live) = self.take(key)
                {
                    out.push(live.close(self.end(now), live.code(), &reason, by));
                }
            }
        }
    }

    /// Closes calls that have been up for too long as lost.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<CallRecord>) {
        let mut due = Vec::new();
        self.wheel.expire(now, &mut due);
        for key in due {
            self.patrol(now, key, out);
        }
    }

    /// The time at which the first live call may be lost.
    pub fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    /// The server stops: every open call gets its record, oldest first.
    pub fn drain(&mut self, now: Instant, out: &mut Vec<CallRecord>) {
        let mut open: Vec<_> = self.table.drain().collect();
        open.sort_unstable_by_key(|live| (live.start, live.key));
        for live in open {
            out.push(live.close(self.end(now), live.code(), "server stopped", EndedBy::Server));
        }
        self.counts.answered = 0;
    }

    /// The figures of this moment.
    pub fn counts(&self) -> LedgerCounts {
        LedgerCounts { live: self.table.len(), ..self.counts }
    }

    /// The newest of the calls that have not ended, `most` of them, and the number of all: those of an account, or of all. Looks at
    /// every call once, which takes some ten milliseconds for a hundred thousand: for operators only.
    pub fn open_calls(&self, account: Option<&str>, most: usize) -> (Vec<OpenCall>, usize) {
        let is_asked = |live: &&LiveCall| account.is_none_or(|account| live.is_of(account));
        let mut open: Vec<&LiveCall> = self.table.iter().map(|live| &**live).filter(is_asked).collect();
        let total = open.len();
        let newest = |live: &&LiveCall| (std::cmp::Reverse(live.start), live.key);
        if most < total {
            open.select_nth_unstable_by_key(most, newest);
            open.truncate(most);
        }
        open.sort_unstable_by_key(newest);
        (open.into_iter().map(LiveCall::open).collect(), total)
    }

    fn start(&mut self, now: Instant, key: u64, texts: [&str; 5]) {
        if self.find(key).is_some() {
            return;
        }
        if self.table.len() >= limits::LIVE_CALLS {
            self.counts.unrecorded_total += 1;
            return;
        }
        self.counts.started_total += 1;
        let live = Box::new(LiveCall::new(now, key, texts));
        self.wheel.insert(live.next_patrol(self.settings.longest_call), key);
        self.table.insert_unique(key, live, |live| live.key);
    }

    fn take_over(&mut self, live: LiveCall) {
        let key = live.key;
        let is_known = self.find(key).is_some() || self.taken_over.get(&key).is_some();
        if is_known || self.table.len() >= limits::LIVE_CALLS {
            return;
        }
        self.taken_over.insert(key, ());
        self.counts.answered += 1;
        self.wheel.insert(live.next_patrol(self.settings.longest_call), key);
        self.table.insert_unique(key, Box::new(live), |live| live.key);
    }

    fn patrol(&mut self, now: Instant, key: u64, out: &mut Vec<CallRecord>) {
        let longest = self.settings.longest_call;
        // Another call with the same key may have come since: it has its own entry.
        let Some(live) = self.find(key).filter(|live| live.next_patrol(longest) <= now) else {
            return;
        };
        if live.start + longest > now {
            live.count_patrols(now);
            let next = live.next_patrol(longest);
            self.wheel.insert(next, key);
        } else if let Some(live) = self.take(key) {
            self.counts.lost_total += 1;
            out.push(live.close(self.end(now), live.code(), "lost", EndedBy::Unknown));
        }
    }

    fn find(&mut self, key: u64) -> Option<&mut LiveCall> {
        self.table.find_mut(key, |live| live.key == key).map(|live| &mut **live)
    }

    fn take(&mut self, key: u64) -> Option<Box<LiveCall>> {
        let entry = self.table.find_entry(key, |live| live.key == key).ok()?;
        let (live, _) = entry.remove();
        self.counts.answered -= usize::from(live.answer != 0);
        Some(live)
    }
}

impl RefusedCalls {
    fn is_new(&mut self, key: u64, code: u16) -> bool {
        let is_new = self.last.get(&key) != Some(&code);
        self.last.insert(key, code);
        is_new
    }

    fn takes_stranger(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= limits::REFUSED_WINDOW {
            (self.since, self.of_strangers) = (now, 0);
        }
        self.of_strangers += 1;
        self.of_strangers <= limits::REFUSED_OF_STRANGERS
    }
}

impl LiveCall {
    fn new(start: Instant, key: u64, texts: [&str; 5]) -> Self {
        let texts = texts.map(cut);
        let mut ends = [0u16; 5];
        let mut end = 0;
        for (place, text) in ends.iter_mut().zip(texts) {
            end += text.len();
            *place = u16::try_from(end).expect("five texts of RECORD_TEXT_BYTES at most");
        }
        let [cuts @ .., _] = ends;
        let texts = texts.concat().into_boxed_str();
        LiveCall { key, start, ringing: 0, answer: 0, leg: 0, texts, cuts, patrols: 0 }
    }

    fn next_patrol(&self, longest: Duration) -> Instant {
        self.start + longest.min(limits::PATROL * (u32::from(self.patrols) + 1))
    }

    fn count_patrols(&mut self, now: Instant) {
        let passed = now.since(self.start).as_secs() / limits::PATROL.as_secs();
        self.patrols = u16::try_from(passed).unwrap_or(u16::MAX);
    }

    fn mark(&self, now: Instant) -> u32 {
        let millis = now.since(self.start).as_millis();
        u32::try_from(millis).unwrap_or(u32::MAX - 1).saturating_add(1)
    }

    fn time(&self, mark: u32) -> Option<Instant> {
        let millis = mark.checked_sub(1)?;
        Some(self.start + Duration::from_millis(millis.into()))
    }

    fn code(&self) -> u16 {
        if self.answer == 0 { 0 } else { 200 }
    }

    /// Call-ID, From, To, account and callee.
    fn texts(&self) -> [&str; 5] {
        let [from, to, account, callee] = self.cuts.map(usize::from);
        let texts = &*self.texts;
        [&texts[..from], &texts[from..to], &texts[to..account], &texts[account..callee], &texts[callee..]]
    }

    fn is_of(&self, aor: &str) -> bool {
        let [_, _, _, account, callee] = self.texts();
        !aor.is_empty() && (account == aor || callee == aor)
    }

    fn open(&self) -> OpenCall {
        let [call_id, from, to, account, callee] = self.texts();
        let address = |text: &str| (!text.is_empty()).then(|| text.into());
        OpenCall {
            call_id: call_id.into(),
            from: from.into(),
            to: to.into(),
            account: address(account),
            callee: address(callee),
            start: self.start,
            ringing: self.time(self.ringing),
            answer: self.time(self.answer),
        }
    }

    fn close(&self, now: Instant, code: u16, reason: &str, ended_by: EndedBy) -> CallRecord {
        let OpenCall { call_id, from, to, account, callee, start, ringing, answer } = self.open();
        let reason = cut(reason).into();
        CallRecord {
            call_id,
            from,
            to,
            account,
            callee,
            start,
            ringing,
            answer,
            end: now,
            code,
            reason,
            ended_by,
        }
    }
}

/// At most `RECORD_TEXT_BYTES`, at a character's boundary.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(limits::RECORD_TEXT_BYTES)]
}
