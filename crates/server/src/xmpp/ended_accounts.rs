//! Accounts whose chat sessions end: they were removed, disabled, or have another password.
//!
//! `Command::EndSessions` reaches all shards of all nodes: those of the node that has made the change at once, the others by the notice of the
//! database (`node::changes`). The owner of the account ends its sessions; each shard closes streams that are signing in. Of a removed account
//! every host forgets what it was in rooms and nodes, and one shard tells its contacts.

use std::collections::HashSet;

use chat::SessionEndReason;
use chat::effect::HostAction;
use chat::register::tell_contacts_of_removed;
use chat_owners::ShardQueues;
use stdx::Instant;
use xmpp::Bare;

use super::{Xmpp, XmppEffect};
use crate::message::Ended;

/// The part of this shard in the end of one account.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    user: Bare,
    /// The account is of this shard.
    owns: bool,
    /// This shard tells the contacts of the account, which is of another node.
    tells_contacts: bool,
}

/// The parts of a shard. All hosts have one in a removal, as each has rooms and nodes in memory.
fn parts(queues: &ShardQueues, ended: &Ended) -> Vec<Part> {
    let is_removal = ended.ending == SessionEndReason::Removed;
    let part = |account: &str| {
        let owns = queues.owns(account);
        let tells_contacts = is_removal && !owns && queues.tells_contacts_of(account);
        let user = Bare::parse(account).ok().filter(|_| owns || is_removal)?;
        Some(Part { user, owns, tells_contacts })
    };
    ended.accounts.iter().filter_map(|account| part(account)).collect()
}

impl Xmpp {
    /// Ends the sessions of accounts that were changed, disabled or removed.
    pub(crate) fn end_sessions(&mut self, now: Instant, ended: &Ended, outbox: &mut Vec<XmppEffect>) {
        let parts = parts(&self.queues, ended);
        if !parts.is_empty() {
            // Only the node that has removed the account has its roster.
            let roster = chat_store::rows::contacts_of(ended.roster.clone());
            self.tell_host(now, outbox, |host, out| {
                for Part { user, owns, tells_contacts } in parts {
                    if owns {
                        host.end_account(now, &user, ended.ending, &roster, out);
                    } else if tells_contacts {
                        tell_contacts_of_removed(host, now, &user, &roster, out);
                    }
                    if ended.ending == SessionEndReason::Removed {
                        host.act(now, &HostAction::Departed { user }, out);
                    }
                }
            });
        }
        // Those that have signed in and have no session yet, at whichever shard.
        let accounts: HashSet<&str> = ended.accounts.iter().map(|account| &**account).collect();
        self.streams.close_where(|jid| accounts.contains(jid.bare_str()), ended.ending.condition());
        for stream in self.announcer.end(|bare| accounts.contains(bare)) {
            self.streams.fail(stream, ended.ending.condition());
        }
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Life, ShardMap};

    use super::*;

    const ALICE: &str = "alice@example.org";

    #[test]
    fn every_shard_of_every_node_has_a_part_in_a_removal_and_the_owner_alone_in_another_end() {
        let map = ShardMap::of_process(Life(1), 4);
        for is_of_other_node in [false, true] {
            let parts_in = |ending| {
                let ended = Ended { accounts: vec![ALICE.into()], ending, roster: Vec::new() };
                let of_shard = |shard| {
                    let mut queues = ShardQueues::new(shard, map);
                    if is_of_other_node {
                        // A shard of a farm that serves nothing.
                        queues.share_buckets();
                    }
                    parts(&queues, &ended)
                };
                map.all().flat_map(of_shard).collect::<Vec<_>>()
            };
            let count = |parts: &[Part], is: fn(&Part) -> bool| parts.iter().filter(|part| is(part)).count();
            let removed = parts_in(SessionEndReason::Removed);
            assert_eq!(removed.len(), 4, "each host has rooms in memory");
            assert_eq!(count(&removed, |part| part.owns), usize::from(!is_of_other_node));
            assert_eq!(count(&removed, |part| part.tells_contacts), usize::from(is_of_other_node));
            let disabled = parts_in(SessionEndReason::Disabled);
            assert_eq!(disabled.len(), usize::from(!is_of_other_node));
            assert!(disabled.iter().all(|part| part.owns && !part.tells_contacts));
        }
    }
}
