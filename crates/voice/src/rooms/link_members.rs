//! The members that each other node has in rooms of this one, counted by all shards of this node together: the sound of them all crosses one
//! link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use router::Life;

use super::super::limits::LINK_MEMBERS;

/// Nodes of a farm at most; two lives of one remainder share a count, which then is their sum.
const LIVES: usize = 256;

/// The count of each node. The shards of a node share it.
#[derive(Debug)]
pub(crate) struct LinkMembers([AtomicU32; LIVES]);

/// A member that is counted, until this is dropped.
#[derive(Debug)]
pub(super) struct LinkPlace {
    all: Arc<LinkMembers>,
    life: Life,
}

impl Default for LinkMembers {
    fn default() -> LinkMembers {
        LinkMembers([const { AtomicU32::new(0) }; LIVES])
    }
}

impl LinkMembers {
    fn count(&self, life: Life) -> &AtomicU32 {
        &self.0[life.0 as usize % LIVES]
    }

    /// Counts one more member of that node; `None`: there are [`LINK_MEMBERS`].
    pub(super) fn place(self: &Arc<LinkMembers>, life: Life) -> Option<LinkPlace> {
        let more = |count| (count < LINK_MEMBERS).then_some(count + 1);
        // Only the number itself is shared.
        self.count(life).fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(LinkPlace { all: Arc::clone(self), life })
    }
}

impl Drop for LinkPlace {
    fn drop(&mut self) {
        self.all.count(self.life).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_bound_and_places_are_given_back() {
        let all = Arc::new(LinkMembers::default());
        let mut places: Vec<LinkPlace> = (0..LINK_MEMBERS).map_while(|_| all.place(Life(7))).collect();
        assert_eq!(places.len(), LINK_MEMBERS as usize);
        assert!(all.place(Life(7)).is_none());
        assert!(all.place(Life(8)).is_some());
        places.pop();
        assert!(all.place(Life(7)).is_some());
    }
}
