//! Blocking (XEP-0191).

use stdx::slab::Key;

use super::Host;
use super::feature::Feature;
use crate::stanza::StanzaError;
use crate::{Bare, Element, Jid};

pub(super) const FEATURE: Feature = Feature { specifications: &[], account: &[], server: &[], handles: &[] };

impl Host {
    /// Why the session may not send that.
    pub(super) fn blocks_outgoing(&self, _key: Key, _stanza: &Element) -> Option<StanzaError> {
        None
    }

    pub(super) fn blocks_incoming(&self, _user: &Bare, _from: &Jid) -> bool {
        false
    }
}
