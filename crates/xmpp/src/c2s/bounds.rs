//! The bounds of a stream's input: smaller before its client is authenticated.

use super::C2s;
use crate::limits;
use crate::xml::Budget;

impl C2s {
    /// A client that only asks and does not sign in is not answered for ever.
    pub(super) fn may_go_on(&mut self) -> bool {
        let heard = &mut self.entry_mut().heard;
        *heard = heard.saturating_add(1);
        *heard <= limits::ELEMENTS_SENT_BEFORE_AUTH
    }

    pub(super) fn budget(&self) -> Budget {
        if self.jid.is_some() { Budget::CLIENT } else { Budget::BEFORE_AUTH }
    }
}
