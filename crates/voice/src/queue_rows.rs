//! Queues that requests of the REST interface have made or changed: how many may wait in each, and the name by which documents find it
//! (`docs/decisions/0131-names-and-sizes-of-queues.md`).
//!
//! A queue's sid and its home follow from its first name. A shard looks a document's name up here before it asks the home, so a home needs
//! no rows: what crosses shards and nodes is the first name and the bound.

use std::collections::HashMap;

use admin::Repository;
use store::StoreError;
use store::rest::types::Queue;
use store::rest::{Kind, REQUESTED, RestFilter, queue_sid};

use super::numbers::matching;

/// The queues of all accounts whose rows a request has written; a part of `Numbers`, which are made anew when one changes.
#[derive(Debug, Default)]
pub(super) struct QueueRows {
    /// By account and the name that documents use.
    by_name: HashMap<(Box<str>, Box<str>), QueueRow>,
}

/// The part of a row that a shard needs.
#[derive(Debug)]
struct QueueRow {
    first_name: Box<str>,
    max_size: u32,
}

impl QueueRows {
    /// The rows as the database has them now. Rows that only documents have made are not read: there may be one for each call.
    pub(super) fn load(repository: &dyn Repository) -> Result<QueueRows, StoreError> {
        let filter = RestFilter { parent: Some(REQUESTED.into()), ..RestFilter::all(Kind::Queue) };
        Ok(QueueRows::new(matching(repository, &filter)?))
    }

    /// Rows whose sid does not follow from their first name are passed over: no document could reach their queue.
    pub(super) fn new(rows: Vec<Queue>) -> QueueRows {
        let rows =
            rows.into_iter().filter(|row| row.common.sid == queue_sid(&row.common.account, &row.first_name));
        let by_name = rows.map(|row| {
            let Queue { common, friendly_name, max_size, first_name } = row;
            let row = QueueRow { first_name: first_name.into(), max_size };
            ((common.account.into(), friendly_name.into()), row)
        });
        QueueRows { by_name: by_name.collect() }
    }

    /// The first name of the queue that a document of the account names, and the callers that may wait in it. `max_size`: the document's own
    /// bound; of two bounds the smaller counts.
    pub(super) fn find(&self, account: &str, name: &str, max_size: Option<u32>) -> (Box<str>, u32) {
        match self.by_name.get(&(account.into(), name.into())) {
            Some(row) => {
                let max_size = max_size.unwrap_or(u32::MAX).min(row.max_size);
                (row.first_name.clone(), max_size)
            }
            None => (name.into(), max_size.unwrap_or(admin::limits::QUEUE_SIZE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(account: &str, friendly_name: &str, first_name: &str, max_size: u32) -> Queue {
        let common = store::rest::types::Common {
            sid: queue_sid(account, first_name),
            account: account.into(),
            ..Default::default()
        };
        Queue { common, friendly_name: friendly_name.into(), max_size, first_name: first_name.into() }
    }

    #[test]
    fn the_smaller_bound_counts_and_a_new_name_leads_to_the_first_one() {
        let foreign = Queue { friendly_name: "d".into(), ..row("AC1", "d", "e", 5) };
        let foreign = Queue { first_name: "d".into(), ..foreign };
        let rows = QueueRows::new(vec![
            row("AC1", "a", "a", 5),
            row("AC1", "new", "old", 500),
            row("AC2", "a", "b", 7),
            foreign,
        ]);
        for (account, name, max_size, expected) in [
            ("AC1", "a", None, ("a", 5)),
            ("AC1", "a", Some(3), ("a", 3)),
            ("AC1", "a", Some(8), ("a", 5)),
            // More than the default: a document that names no bound has the row's.
            ("AC1", "new", None, ("old", 500)),
            ("AC1", "old", None, ("old", 100)),
            ("AC2", "a", None, ("b", 7)),
            // No row, or one that no document reaches.
            ("AC1", "c", None, ("c", 100)),
            ("AC1", "c", Some(300), ("c", 300)),
            ("AC1", "d", None, ("d", 100)),
        ] {
            let (first_name, bound) = rows.find(account, name, max_size);
            assert_eq!((&*first_name, bound), expected, "{account} {name} {max_size:?}");
        }
    }
}
