//! The search of call records, page by page from the newest end to the oldest.
//!
//! A page is bounded twice: by its rows, and by the records that are looked at for them, so that a text that no record has costs no more than another
//! one. Its `next` is a time and not a place in one database: the nodes of a farm may have databases of their own, whose pages are joined.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use stdx::Instant;

use crate::limits;
use crate::types::{CallRecord, micros_or_none};

/// The call records to find.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallSearch {
    /// Calls that this account, `user@domain`, placed or was called by; or those of a REST account, by its SID.
    pub account: Option<Box<str>>,
    /// The whole Call-ID.
    pub call_id: Option<Box<str>>,
    /// A part of the caller's or the called address, of the account of either, or of the reason of the end; capital and small letters are one.
    pub text: Option<Box<str>>,
    /// The final status of the INVITE.
    pub code: Option<u16>,
    /// Calls that ended then or later.
    #[serde(with = "micros_or_none")]
    pub ended_from: Option<Instant>,
    /// Calls that ended then or earlier: the `next` of the page before.
    #[serde(with = "micros_or_none")]
    pub ended_until: Option<Instant>,
    /// Rows at most; cut to `limits::MAX_PAGE`.
    pub limit: u32,
    /// Records looked at at most; `limits::CALLS_LOOKED_AT` when missing, and never more.
    pub look_at: Option<u32>,
}

/// Call records that were found, the newest end first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallPage {
    /// The calls.
    pub calls: Vec<CallRecord>,
    /// The `ended_until` of the next page; none: this is the last one. Calls that ended at that time may be on both.
    #[serde(with = "micros_or_none", default)]
    pub next: Option<Instant>,
}

impl CallSearch {
    /// Rows of a page at most.
    fn rows(&self) -> usize {
        self.limit.min(limits::MAX_PAGE) as usize
    }

    /// One row more than a page has shows whether there is a next one.
    pub(crate) fn rows_to_read(&self) -> i64 {
        i64::from(self.limit.min(limits::MAX_PAGE)) + 1
    }

    /// Records looked at at most.
    pub(crate) fn records_to_look_at(&self) -> i64 {
        i64::from(self.look_at.unwrap_or(limits::CALLS_LOOKED_AT).clamp(1, limits::CALLS_LOOKED_AT))
    }

    /// The account, if it alone is asked for: an index has its calls, and no other record is looked at.
    pub(crate) fn of_account_alone(&self) -> Option<&str> {
        let has_more = self.call_id.is_some() || self.text.is_some() || self.code.is_some();
        self.account.as_deref().filter(|_| !has_more)
    }

    /// The first and the last time of an end.
    pub(crate) fn times(&self) -> (i64, i64) {
        let micros = |at: Instant| i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        (self.ended_from.map_or(0, micros), self.ended_until.map_or(i64::MAX, micros))
    }
}

impl CallPage {
    /// The page of rows that were read, one more than it has if there are more. `looked_until`: the time of the last record that was
    /// looked at, if others are behind it.
    pub(crate) fn new(
        search: &CallSearch,
        calls: Vec<CallRecord>,
        looked_until: Option<Instant>,
    ) -> CallPage {
        let mut page = CallPage { calls, next: looked_until };
        page.finish(search);
        page
    }

    /// Joins the page of another database.
    pub fn add(&mut self, other: CallPage) {
        self.calls.extend(other.calls);
        // The next page begins where the first of both ends.
        self.next = self.next.max(other.next);
    }

    /// Puts joined pages in order, and cuts them off where the next one begins.
    pub fn finish(&mut self, search: &CallSearch) {
        fn order(call: &CallRecord) -> impl Ord + '_ {
            (Reverse(call.ended_at), Reverse(call.started_at), call.order())
        }
        self.calls.sort_by(|one, other| order(one).cmp(&order(other)));
        // Nodes that share a database have the same rows.
        self.calls.dedup();
        if let Some(next) = self.next {
            self.calls.retain(|call| call.ended_at >= next);
        }
        self.shorten(search.rows());
        // Time goes on, also where more calls ended at one moment than a page has.
        if let Some(until) = search.ended_until {
            self.next =
                self.next.map(|next| next.min(Instant::from_micros(until.as_micros().saturating_sub(1))));
        }
    }

    /// Keeps so many calls.
    pub fn shorten(&mut self, rows: usize) {
        if let Some(first_left_out) = self.calls.get(rows) {
            self.next = Some(first_left_out.ended_at);
            self.calls.truncate(rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(ends: &[u64], next: Option<u64>) -> CallPage {
        let call = |at: &u64| CallRecord {
            call_id: at.to_string().into(),
            from: "sip:a@example.org".into(),
            to: "sip:b@example.org".into(),
            started_at: Instant::from_micros(1),
            answered_at: None,
            ended_at: Instant::from_micros(*at),
            code: 486,
            reason: "Busy Here".into(),
            account: None,
            callee: None,
        };
        CallPage { calls: ends.iter().map(call).collect(), next: next.map(Instant::from_micros) }
    }

    fn joined(search: &CallSearch, pages: &[CallPage]) -> (Vec<u64>, Option<u64>) {
        let mut all = CallPage::default();
        pages.iter().for_each(|page| all.add(page.clone()));
        all.finish(search);
        (all.calls.iter().map(|call| call.ended_at.as_micros()).collect(), all.next.map(Instant::as_micros))
    }

    /// A node has looked at its records down to 50 only: older ones of another node wait for the next page.
    #[test]
    fn joined_pages_end_where_the_first_of_them_ends() {
        let search = CallSearch { limit: 4, ..CallSearch::default() };
        let pages = [page(&[90, 60], Some(50)), page(&[80, 40], None)];
        assert_eq!(joined(&search, &pages), (vec![90, 80, 60], Some(50)));
        let shared = [page(&[90, 80, 70], None), page(&[90, 80, 70], None)];
        assert_eq!(joined(&search, &shared), (vec![90, 80, 70], None), "one database of both");
        let full = [page(&[90, 80, 70], None), page(&[75, 65], None)];
        assert_eq!(joined(&search, &full), (vec![90, 80, 75, 70], Some(65)));
    }

    /// A call through two accounts of one node has two records, which begin and end in the same turn of a shard.
    #[test]
    fn records_of_one_call_stand_once_each_in_joined_pages_of_one_database() {
        let mut one = page(&[90, 90], None);
        one.calls[1].to = "sip:c@example.org".into();
        let mut all = CallPage::default();
        (0..2).for_each(|_| all.add(one.clone()));
        all.finish(&CallSearch { limit: 9, ..CallSearch::default() });
        assert_eq!(all.calls, one.calls);
    }

    #[test]
    fn the_next_page_always_begins_earlier_than_this_one() {
        let search =
            CallSearch { limit: 1, ended_until: Some(Instant::from_micros(90)), ..CallSearch::default() };
        let one = page(&[90], Some(90));
        assert_eq!(joined(&search, &[one]), (vec![90], Some(89)));
    }
}
