//! Members that this node has seen alive. The farm's map also lists lives that were dead before the node joined: their deaths are no news
//! to its operator, and there may be hundreds.

use std::collections::BTreeSet;

use cluster::Life;
use cluster::membership::MembershipEffect;

#[derive(Debug, Default)]
pub(super) struct SeenMembers(BTreeSet<Life>);

impl SeenMembers {
    /// Takes a change of the membership; false for the end of a life that was over before this node knew it.
    pub(super) fn handle(&mut self, change: &MembershipEffect) -> bool {
        match change {
            MembershipEffect::Joined(life) => {
                self.0.insert(*life);
                true
            }
            MembershipEffect::Left(life) | MembershipEffect::Died(life) => self.0.remove(life),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_a_life_that_was_seen_is_news() {
        let (mut seen, old, member) = (SeenMembers::default(), Life(1), Life(2));
        assert!(!seen.handle(&MembershipEffect::Died(old)));
        assert!(!seen.handle(&MembershipEffect::Left(old)));
        assert!(seen.handle(&MembershipEffect::Joined(member)));
        assert!(seen.handle(&MembershipEffect::Suspected(member)));
        assert!(seen.handle(&MembershipEffect::Died(member)));
        assert!(!seen.handle(&MembershipEffect::Died(member)));
    }
}
