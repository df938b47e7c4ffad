//! Accounts of a farm for its edges without a database (`docs/decisions/0064-edges-without-a-database.md`).
//!
//! Such an edge keeps accounts as they were answered, as another shard keeps rows (`accounts`), and asks the owner of an address's bucket
//! for the others. The owner reads the account as for itself, and tells each edge that has asked it of every change of an account whose
//! bucket it serves. Where buckets have moved, changes may have been missed: the edge asks again for all.

use std::collections::{BTreeSet, HashMap};

use cluster::{Bucket, ShardAddress};
use router::{AccountUnread, Answer, AskId, PhoneAccount, Push, Query};
use sip::endpoint::{Account, StoreUnavailable};
use stdx::Instant;

use super::request_origin::of_account;
use super::{Shard, buckets};
use crate::limits;
use shard_message::wire::ACCOUNTS_SINCE;

/// The questions of edges without a database to this shard.
#[derive(Default)]
pub(super) struct AccountQuestions {
    /// The edges that have asked: they are told of changes.
    edges: BTreeSet<ShardAddress>,
    /// The questions whose account is read, by a number of this shard.
    waiting: HashMap<u64, (ShardAddress, AskId)>,
    /// Edges number their questions each for itself, so that this shard gives them numbers of its own.
    last_number: u64,
}

impl AccountQuestions {
    /// Notes a question that waits for a read. None: too many wait.
    fn wait(&mut self, from: ShardAddress, id: AskId) -> Option<u64> {
        // Also if the question is refused: the edge is told of changes from now on.
        self.edges.insert(from);
        if self.waiting.len() >= limits::ACCOUNT_QUESTIONS {
            return None;
        }
        self.last_number += 1;
        self.waiting.insert(self.last_number, (from, id));
        Some(self.last_number)
    }

    /// The answer to the question of this number, with the account as it was read.
    pub(super) fn handle_account(
        &mut self,
        number: u64,
        result: Result<Option<Account>, StoreUnavailable>,
    ) -> Option<router::Effect> {
        let (to, id) = self.waiting.remove(&number)?;
        let account = result.map(|account| account.map(|account| Box::new(for_edge(account))));
        let answer = Answer::Account(account.map_err(|StoreUnavailable| AccountUnread));
        Some(router::Effect::Answer { to, id, answer })
    }

    /// Forgets edges that are not in the farm any more.
    pub(super) fn keep(&mut self, is_there: impl Fn(ShardAddress) -> bool) {
        self.edges.retain(|edge| is_there(*edge));
    }
}

/// Handles the question of an edge to this shard, the owner of the address.
pub(super) fn handle_question(shard: &mut Shard, now: Instant, from: ShardAddress, id: AskId, aor: &str) {
    let number = shard.farm.as_mut().and_then(|farm| farm.edges.wait(from, id));
    match (number, aor.rsplit_once('@')) {
        (Some(number), Some((user, domain))) => {
            shard.find_account(now, AskId(of_account(number)), user.into(), domain.into());
        }
        // An address without a domain is no account's.
        (Some(number), None) => {
            let answer = shard.farm.as_mut().and_then(|farm| farm.edges.handle_account(number, Ok(None)));
            shard.scratch.router_effects.extend(answer);
        }
        // The edge asks again.
        (None, _) => {
            let answer = router::Effect::Answer { to: from, id, answer: Answer::Unavailable };
            shard.scratch.router_effects.push(answer);
        }
    }
}

/// The news that the account of an address has changed, or that all may have, for the edges that have asked this shard. Each owner gets the
/// news of every account, and only the one that serves the bucket passes it on; a change of all accounts every owner passes on.
pub(super) fn news(shard: &Shard, address: Option<&str>) -> Vec<router::Effect> {
    let asked = shard.farm.as_ref().filter(|farm| !farm.edges.edges.is_empty());
    // Every shard hears of every change; if each passed it on, an edge would hear it as often as there are
    // shards.
    let is_ours = address.is_none_or(|address| buckets::is_served(shard, Bucket::of(address)));
    let Some(farm) = asked.filter(|_| is_ours) else { return Vec::new() };
    let push = |edge: &ShardAddress| {
        let push = Push::AccountChanged { aor: address.map(Into::into) };
        router::Effect::Push { to: *edge, push }
    };
    farm.edges.edges.iter().map(push).collect()
}

/// Asks owners for the accounts that the cache of an edge without a database waits for.
pub(super) fn ask_owners(shard: &mut Shard, now: Instant) {
    for (ticket, aor) in shard.reads.take_to_ask() {
        let view = shard.farm.as_ref().and_then(|farm| farm.view.as_deref());
        if view.is_some_and(|view| view.map.level() >= ACCOUNTS_SINCE) {
            let id = AskId(of_account(ticket));
            buckets::drive(shard, now, |driver| driver.ask(now, id, Query::Account { aor }));
        } else {
            // An owner of the version before does not know the question.
            shard.give_account(now, ticket, None);
        }
    }
}

/// Handles an owner's answer to a read of the cache.
pub(super) fn handle_answer(shard: &mut Shard, now: Instant, ticket: u64, answer: Answer) {
    let known = match answer {
        Answer::Account(Ok(account)) => Some(account.map(|account| Box::new(for_cache(now, *account)))),
        _ => None,
    };
    // Read failures and silence alike: the cache then uses what it has.
    if known.is_none() {
        tracing::warn!("the owner of an account could not be asked for it, or could not read it");
    }
    shard.give_account(now, ticket, known.as_ref());
}

/// The account as it goes to an edge: what the SIP of a phone needs, and no keys of SCRAM.
fn for_edge(account: Account) -> PhoneAccount {
    let Account { aor, ha1s, disabled, max_contacts, limits } = account;
    let limits = limits.as_deref().cloned().unwrap_or_default();
    PhoneAccount {
        aor,
        md5: ha1s.md5,
        sha256: ha1s.sha256,
        sha512_256: ha1s.sha512_256,
        disabled,
        max_contacts,
        max_calls: limits.max_calls,
        max_rate: limits.max_rate,
        deny: limits.deny,
    }
}

/// The account as a row of the store, without what the SIP of an edge does not need.
fn for_cache(now: Instant, account: PhoneAccount) -> store::Account {
    let PhoneAccount { aor, md5, sha256, sha512_256, disabled, max_contacts, max_calls, max_rate, deny } =
        account;
    let (name, domain) = aor.rsplit_once('@').unwrap_or((&aor, ""));
    // The digests alone: a phone proves its password by them, and SCRAM keys never leave the nodes with the
    // database.
    let mut verifiers = store::Verifiers::underived();
    (verifiers.md5, verifiers.sha256, verifiers.sha512_256) = (md5, sha256, sha512_256);
    let max_contacts = Some(u32::try_from(max_contacts).unwrap_or(u32::MAX));
    store::Account {
        // No row stands behind it; nothing at an edge asks for the number.
        id: 0,
        name: name.into(),
        domain: domain.into(),
        display_name: "".into(),
        verifiers,
        disabled,
        limits: store::AccountLimits { max_contacts, max_calls, max_rate, deny },
        created_at: now,
    }
}

#[cfg(test)]
mod tests {
    use cluster::Life;
    use sip::digest::Ha1s;

    use super::*;

    fn edge(life: u32) -> ShardAddress {
        ShardAddress::new(Life(life), 0)
    }

    #[test]
    fn an_edge_that_has_asked_is_told_of_changes_until_it_leaves() {
        let mut questions = AccountQuestions::default();
        let first = questions.wait(edge(1), AskId(7)).unwrap();
        let second = questions.wait(edge(2), AskId(7)).unwrap();
        assert_ne!(first, second, "two edges may use one number");
        let answer = questions.handle_account(first, Err(StoreUnavailable));
        assert!(
            matches!(answer, Some(router::Effect::Answer { to, id: AskId(7), .. }) if to == edge(1)),
            "{answer:?}"
        );
        assert!(questions.handle_account(first, Ok(None)).is_none(), "one answer to a question");
        assert_eq!(questions.edges, BTreeSet::from([edge(1), edge(2)]));
        questions.keep(|edge| edge.life == Life(2));
        assert_eq!(questions.edges, BTreeSet::from([edge(2)]));
    }

    #[test]
    fn questions_that_wait_are_bounded() {
        let mut questions = AccountQuestions::default();
        for number in 0..limits::ACCOUNT_QUESTIONS as u64 {
            assert!(questions.wait(edge(1), AskId(number)).is_some());
        }
        assert_eq!(questions.wait(edge(1), AskId(0)), None);
    }

    #[test]
    fn the_account_of_an_edge_is_the_one_that_the_owner_has_read() {
        let limits =
            sip::endpoint::CallLimits { max_calls: Some(2), max_rate: None, deny: vec!["00900*".into()] };
        let account = Account {
            aor: "bob@example.test".into(),
            ha1s: Ha1s::compute("bob", "example.test", "secret"),
            disabled: true,
            max_contacts: 3,
            limits: Some(std::sync::Arc::new(limits)),
        };
        let row = for_cache(Instant::default(), for_edge(account.clone()));
        let (md5, limits) = (row.verifiers.md5, row.limits);
        assert_eq!((&*row.name, &*row.domain, row.disabled), ("bob", "example.test", true));
        assert!(md5 == account.ha1s.md5 && row.verifiers.sha512_256 == account.ha1s.sha512_256);
        assert!(row.verifiers.are_of_password(), "the digests are believed");
        assert_eq!((limits.max_contacts, limits.max_calls, limits.max_rate), (Some(3), Some(2), None));
        assert_eq!(limits.deny, ["00900*".into()]);
    }
}
