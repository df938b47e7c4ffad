//! The connections of each component. Every shard knows all of them.

use std::collections::HashMap;

use cluster::ShardAddress;
use stdx::hash::Keyed;
use xmpp::ConnectionId;
use xmpp::limits;

/// All shards choose alike. A sender who picks addresses to hit one connection gains nothing: components are
/// the operator's own.
const KEY: [u8; 16] = *b"belfry's choices";

/// Connections by domain; none has an empty list.
#[derive(Debug, Default)]
pub(super) struct Directory(HashMap<Box<str>, Vec<ConnectionId>>);

impl Directory {
    /// False: there are as many as may be.
    pub(super) fn has_room(&self, domain: &str) -> bool {
        self.0.get(domain).is_none_or(|edges| edges.len() < limits::COMPONENT_CONNECTIONS)
    }

    pub(super) fn add(&mut self, domain: Box<str>, edge: ConnectionId) {
        let edges = self.0.entry(domain).or_default();
        if !edges.contains(&edge) {
            edges.push(edge);
        }
    }

    pub(super) fn remove(&mut self, domain: &str, edge: ConnectionId) {
        let Some(edges) = self.0.get_mut(domain) else { return };
        edges.retain(|known| *known != edge);
        if edges.is_empty() {
            self.0.remove(domain);
        }
    }

    /// Removes the connections of shards that are gone. Returns the components that have lost one and have others.
    pub(super) fn retain(&mut self, is_there: impl Fn(ShardAddress) -> bool) -> Vec<Box<str>> {
        let mut reduced = Vec::new();
        self.0.retain(|domain, edges| {
            let before = edges.len();
            edges.retain(|edge| is_there(edge.shard));
            if !edges.is_empty() && edges.len() < before {
                reduced.push(domain.clone());
            }
            !edges.is_empty()
        });
        reduced
    }

    /// All stanzas of one user go to one connection, and when others come or go most users stay where they are
    /// (rendezvous hashing). ejabberd calls it `bare_source`.
    pub(super) fn pick(&self, domain: &str, user: &str) -> Option<ConnectionId> {
        let weight = |edge: &&ConnectionId| {
            let ShardAddress { life, shard } = edge.shard;
            let numbers = [life.0.into(), u64::from(shard), edge.connection].map(u64::to_be_bytes);
            Keyed::new(KEY).hash_parts(&[user.as_bytes(), numbers.as_flattened()])
        };
        self.0.get(domain)?.iter().max_by_key(weight).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(connection: u64) -> ConnectionId {
        ConnectionId { shard: ShardAddress::default(), connection }
    }

    #[test]
    fn users_are_shared_out_and_stay_where_they_are() {
        let mut directory = Directory::default();
        assert_eq!(directory.pick("a.test", "u@b"), None);
        (0..4).for_each(|connection| directory.add("a.test".into(), edge(connection)));
        let users: Vec<String> = (0..4_000).map(|number| format!("u{number}@b")).collect();
        let choose = |directory: &Directory| -> Vec<ConnectionId> {
            users.iter().map(|user| directory.pick("a.test", user).unwrap()).collect()
        };
        let before = choose(&directory);
        for connection in 0..4 {
            let count = before.iter().filter(|chosen| **chosen == edge(connection)).count();
            assert!((800..1_200).contains(&count), "{count}");
        }
        directory.remove("a.test", edge(2));
        for (old, new) in before.iter().zip(choose(&directory)) {
            assert!(*old == new || *old == edge(2), "only users of the one that left move");
            assert_ne!(new, edge(2));
        }
        (0..4).for_each(|connection| directory.remove("a.test", edge(connection)));
        assert!(directory.0.is_empty());
    }

    #[test]
    fn connections_of_a_node_that_is_gone_are_forgotten() {
        let mut directory = Directory::default();
        let of = |life| ConnectionId { shard: ShardAddress::new(cluster::Life(life), 0), connection: 1 };
        directory.add("a.test".into(), of(1));
        directory.add("a.test".into(), of(2));
        directory.add("b.test".into(), of(2));
        directory.add("c.test".into(), of(1));
        assert_eq!(directory.retain(|shard| shard.life.0 == 1), ["a.test".into()]);
        assert!(directory.retain(|shard| shard.life.0 == 1).is_empty());
        assert_eq!(directory.pick("a.test", "u@b"), Some(of(1)));
        assert_eq!(directory.pick("b.test", "u@b"), None);
    }

    #[test]
    fn a_component_has_so_many_connections_and_no_more() {
        let mut directory = Directory::default();
        for connection in 0..limits::COMPONENT_CONNECTIONS as u64 {
            assert!(directory.has_room("a.test"));
            directory.add("a.test".into(), edge(connection));
            directory.add("a.test".into(), edge(connection));
        }
        assert!(!directory.has_room("a.test"));
        assert!(directory.has_room("b.test"));
    }
}
