//! The news of the council that wait for a node's machine.
//!
//! A node reads slower than the council tells when it is stopped for a while, starved of processor time, or a build without
//! optimisation: a map costs it a walk over all buckets. Only the newest map and the newest announcement of each life count, so an older
//! one that still waits is dropped, and a node is never further behind than one map. It looks for the others after each map. Answers to renewals come first: the lease
//! does not depend on what else there is to read.

use crate::address::Life;

/// The part of the council that a piece of news is about, which decides what it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewsKind {
    /// The answer to a renewal of the own lease: read before all others.
    Renewal,
    /// The announcement of a life: replaces one of the same life.
    Announcement(Life),
    /// The map as it was written: replaces an older one.
    Map,
    /// The answer to a read or a swap of the map: costs as much as a map, and replaces none, as the machine waits for it.
    MapAnswer,
    /// Anything else: kept in its order.
    Other,
}

impl NewsKind {
    fn is_map(self) -> bool {
        matches!(self, NewsKind::Map | NewsKind::MapAnswer)
    }
}

/// The news that wait, each of type `T`. Their number is bounded by the lives that announce themselves and by the questions that a
/// machine has under way.
#[derive(Debug)]
pub struct CouncilQueue<T> {
    waiting: Vec<(NewsKind, T)>,
}

impl<T> Default for CouncilQueue<T> {
    fn default() -> CouncilQueue<T> {
        CouncilQueue { waiting: Vec::new() }
    }
}

impl<T> CouncilQueue<T> {
    /// Adds news behind the others, and drops the one that it replaces.
    pub fn push(&mut self, kind: NewsKind, news: T) {
        if matches!(kind, NewsKind::Announcement(_) | NewsKind::Map) {
            // At most one: each push keeps it so.
            if let Some(place) = self.waiting.iter().position(|(of, _)| *of == kind) {
                self.waiting.remove(place);
            }
        }
        self.waiting.push((kind, news));
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if a map is among the news.
    pub fn has_map(&self) -> bool {
        self.waiting.iter().any(|(kind, _)| kind.is_map())
    }

    /// Takes news: the answers to renewals, then the others in their order up to the first map. So a map is read after the
    /// announcements that were written before it, and what a node reads at once costs at most one map.
    pub fn take(&mut self) -> impl Iterator<Item = T> + use<T> {
        // Stable: the order within both stays.
        self.waiting.sort_by_key(|(kind, _)| *kind != NewsKind::Renewal);
        let first_map = self.waiting.iter().position(|(kind, _)| kind.is_map());
        let end = first_map.map_or(self.waiting.len(), |place| place + 1);
        let rest = self.waiting.split_off(end);
        std::mem::replace(&mut self.waiting, rest).into_iter().map(|(_, news)| news)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut CouncilQueue<&'static str>) -> Vec<&'static str> {
        queue.take().collect()
    }

    #[test]
    fn only_the_newest_map_and_announcement_of_a_life_wait() {
        let mut queue = CouncilQueue::default();
        for (kind, news) in [
            (NewsKind::Announcement(Life(1)), "n1"),
            (NewsKind::Map, "map 1"),
            (NewsKind::Announcement(Life(2)), "n2"),
            (NewsKind::Map, "map 2"),
            (NewsKind::Announcement(Life(1)), "n1 again"),
            (NewsKind::Other, "n3 gone"),
        ] {
            queue.push(kind, news);
        }
        assert_eq!(taken(&mut queue), ["n2", "map 2"]);
        assert_eq!(taken(&mut queue), ["n1 again", "n3 gone"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn answers_to_renewals_come_first_and_none_is_dropped() {
        let mut queue = CouncilQueue::default();
        for (kind, news) in [
            (NewsKind::Map, "map"),
            (NewsKind::Renewal, "first"),
            (NewsKind::Other, "read"),
            (NewsKind::MapAnswer, "map as read"),
            (NewsKind::Renewal, "second"),
        ] {
            queue.push(kind, news);
        }
        assert_eq!(taken(&mut queue), ["first", "second", "map"]);
        queue.push(NewsKind::Map, "newer map");
        queue.push(NewsKind::Renewal, "third");
        assert_eq!(taken(&mut queue), ["third", "read", "map as read"]);
        assert_eq!(taken(&mut queue), ["newer map"]);
    }
}
