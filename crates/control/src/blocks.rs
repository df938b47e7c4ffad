//! Addresses and accounts whose sign-ins are paced, as `belfry blocks` shows them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use stdx::attempts::{Block, Subject};
use stdx::source::SourcePrefix;

use crate::limits;

/// A paced combination: the sign-ins of an address at an account, of an address at all accounts, or of all addresses at an
/// account. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRow {
    /// `sip`, `xmpp`, `components`, `rest` or `console`.
    pub service: Box<str>,
    /// An IPv4 address or an IPv6 /64; `None`: all.
    pub source: Option<Box<str>>,
    /// `None`: all.
    pub account: Option<Box<str>>,
    /// Sign-ins that failed.
    pub failures: u32,
    /// The time of the last failure, in microseconds since the Unix epoch.
    pub failed_at: u64,
    /// Until then no credentials are looked at.
    pub refused_until: u64,
    /// The failures are forgotten then if there are no more; until then each further one is followed by such a refusal.
    pub forgiven_at: u64,
}

/// The latest blocks, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockList {
    /// The latest blocks.
    pub blocks: Vec<BlockRow>,
    /// The number of all blocks.
    pub total: u64,
}

impl BlockList {
    /// The last failure first. Shards count the failures of one source at one account by themselves; they are added up.
    pub fn new(blocks: impl IntoIterator<Item = (&'static str, Block)>) -> BlockList {
        let mut rows: BTreeMap<_, BlockRow> = BTreeMap::new();
        for (service, block) in blocks {
            let row = BlockRow::new(service, block);
            let key = (service, row.source.clone(), row.account.clone());
            rows.entry(key).and_modify(|known| known.add(&row)).or_insert(row);
        }
        let mut blocks: Vec<_> = rows.into_values().collect();
        let total = blocks.len() as u64;
        blocks.sort_by_key(|row| std::cmp::Reverse(row.failed_at));
        blocks.truncate(limits::BLOCKS);
        BlockList { blocks, total }
    }
}

impl BlockRow {
    fn new(service: &'static str, block: Block) -> BlockRow {
        let Block { source, account, penalty } = block;
        BlockRow {
            service: service.into(),
            source: source.map(|source| source.to_string().into()),
            account,
            failures: penalty.failures,
            failed_at: penalty.failed_at.as_micros(),
            refused_until: penalty.refused_until.as_micros(),
            forgiven_at: penalty.forgiven_at.as_micros(),
        }
    }

    fn add(&mut self, other: &BlockRow) {
        self.failures = self.failures.saturating_add(other.failures);
        self.failed_at = self.failed_at.max(other.failed_at);
        self.refused_until = self.refused_until.max(other.refused_until);
        self.forgiven_at = self.forgiven_at.max(other.forgiven_at);
    }
}

/// The blocks that an operator means: an address, a network as it is listed, or an account. The first is for services whose
/// accounts have domains, the second for REST, where an account is a sid or an e-mail address.
pub fn subjects(text: &str, default_domain: &str) -> (Subject, Subject) {
    let address = text.strip_suffix("/64").unwrap_or(text);
    if let Ok(address) = address.parse::<IpAddr>() {
        let source = Subject::Source(SourcePrefix::of(address));
        return (source.clone(), source);
    }
    let account = text.strip_prefix("sip:").unwrap_or(text);
    let whole = if account.contains('@') { account.into() } else { format!("{account}@{default_domain}") };
    (Subject::Account(whole.into()), Subject::Account(account.into()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stdx::Instant;
    use stdx::rate::Penalty;

    use super::*;

    fn block(source: &str, failures: u32, second: u64) -> Block {
        let failed_at = Instant::from_unix_seconds(second);
        let penalty = Penalty {
            failures,
            failed_at,
            refused_until: failed_at + Duration::from_secs(1),
            forgiven_at: failed_at + Duration::from_secs(900),
        };
        let source = source.parse::<IpAddr>().ok().map(SourcePrefix::of);
        Block { source, account: Some("alice@example.test".into()), penalty }
    }

    #[test]
    fn failures_at_several_shards_are_one_row() {
        let list = BlockList::new([
            ("sip", block("192.0.2.1", 6, 10)),
            ("sip", block("2001:db8::1", 7, 20)),
            ("sip", block("192.0.2.1", 8, 30)),
            ("xmpp", block("192.0.2.1", 9, 5)),
        ]);
        assert_eq!(list.total, 3);
        let rows =
            list.blocks.iter().map(|row| (&*row.service, row.source.as_deref().unwrap(), row.failures));
        let expected = [("sip", "192.0.2.1", 14), ("sip", "2001:db8::/64", 7), ("xmpp", "192.0.2.1", 9)];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!(list.blocks[0].refused_until, 31_000_000);
    }

    #[test]
    fn listed_subjects_can_be_named() {
        let source = |text: &str| Subject::Source(SourcePrefix::of(text.parse().unwrap()));
        let account = |text: &str| Subject::Account(text.into());
        for (text, expected, rest) in [
            ("192.0.2.1", source("192.0.2.1"), source("192.0.2.1")),
            ("2001:db8::/64", source("2001:db8::7"), source("2001:db8::7")),
            ("alice", account("alice@example.test"), account("alice")),
            ("sip:bob@other.test", account("bob@other.test"), account("bob@other.test")),
        ] {
            assert_eq!(subjects(text, "example.test"), (expected, rest), "{text}");
        }
    }
}
