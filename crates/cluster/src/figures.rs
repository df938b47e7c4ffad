//! The load of a node in a few numbers, which it appends to its announcement. They decide nothing; operators read them.
//!
//! They are fields of the same value as [`crate::member::Member`], with numbers of their own: a reader of either passes over the
//! fields of the other. A renewal is written each second anyway, so the numbers cost the council some twenty bytes and no message;
//! over links each node would send them to every other.

use crate::fields::{Corrupt, Fields, put_number};
use crate::limits::MEMBER_BYTES;

/// The load of a node when it renewed its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NodeFigures {
    /// Calls being set up or up.
    pub calls: u32,
    /// Contacts registered.
    pub bindings: u32,
    /// Sessions of chat.
    pub sessions: u32,
    /// Processor time in thousandths of one core.
    pub cpu_permille: u32,
}

// 1 to 19 are fields of the member.
const CALLS: u64 = 20;
const BINDINGS: u64 = 21;
const SESSIONS: u64 = 22;
const CPU: u64 = 23;

impl NodeFigures {
    /// Appends the numbers to an announcement.
    pub fn append_to(&self, announcement: &mut Vec<u8>) {
        put_number(announcement, CALLS, u64::from(self.calls));
        put_number(announcement, BINDINGS, u64::from(self.bindings));
        put_number(announcement, SESSIONS, u64::from(self.sessions));
        put_number(announcement, CPU, u64::from(self.cpu_permille));
    }

    /// Reads the numbers of an announcement. `Ok(None)`: it has none, as those of earlier versions.
    ///
    /// # Errors
    /// [`Corrupt`] with the fault.
    pub fn of_announcement(bytes: &[u8]) -> Result<Option<NodeFigures>, Corrupt> {
        let mut fields = Fields::new("figures of a member", bytes, MEMBER_BYTES)?;
        let (mut figures, mut has_any) = (NodeFigures::default(), false);
        while let Some(field) = fields.next()? {
            let place = match field.number {
                CALLS => &mut figures.calls,
                BINDINGS => &mut figures.bindings,
                SESSIONS => &mut figures.sessions,
                CPU => &mut figures.cpu_permille,
                _ => continue,
            };
            (*place, has_any) = (field.value()?, true);
        }
        Ok(has_any.then_some(figures))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::member::Member;
    use crate::member::tests::member;

    #[test]
    fn member_and_figures_share_one_value_and_do_not_see_each_other() {
        let figures = NodeFigures { calls: 1, bindings: u32::MAX, sessions: 300, cpu_permille: 1_999 };
        let mut bytes = member(7).encode();
        assert_eq!(NodeFigures::of_announcement(&bytes), Ok(None), "of an earlier version");
        figures.append_to(&mut bytes);
        assert_eq!(NodeFigures::of_announcement(&bytes), Ok(Some(figures)));
        assert_eq!(Member::decode(&bytes), Ok(member(7)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_figures_or_a_fault(bytes: Vec<u8>) {
            let _ = NodeFigures::of_announcement(&bytes);
        }
    }
}
