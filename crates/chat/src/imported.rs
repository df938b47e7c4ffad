//! Data that another server stored for an account, converted to the form in which the features here store them.
//!
//! `pie` calls these functions for the elements of a user's export. Each returns the writes that the feature itself would
//! make, or names the kind of element that cannot be taken.

use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns, time};

use super::effect::Change;
use crate::limits;

pub(crate) use super::offline::delayed;
pub(crate) use super::private::imported as private;
pub(crate) use super::private::is_private;
pub(crate) use super::pubsub::imported as nodes;
pub(crate) use super::vcard::imported as vcard;

/// A message of an exported archive, in `<result/>` of XEP-0313.
///
/// # Errors
/// The kind of element that is not imported, in the plural.
pub(crate) fn archived(owner: &Bare, result: &Element) -> Result<Vec<Change>, &'static str> {
    const WHAT: &str = "archived messages";
    let read = || {
        let forwarded = result.get("forwarded", ns::FORWARD).filter(|_| result.is("result", ns::MAM))?;
        let at = time::parse(forwarded.get("delay", ns::DELAY)?.attr("stamp")?)?;
        let message = forwarded.get("message", ns::CLIENT)?;
        let fits = message.to_bytes("").len() <= limits::STANZA;
        let jid = |name: &str| Jid::parse(message.attr(name)?).ok();
        let from = jid("from").filter(|from| from.bare() != *owner && fits);
        let with = if fits { from.or_else(|| jid("to"))? } else { return None };
        // Ids sort by time here; and the same message gets the same one when it comes again: the number is a hash of its old id, FNV-1a with
        // the offset basis and the prime for 32 bits.
        let number = result.attr("id").unwrap_or_default().bytes();
        let number =
            number.fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let id = format!("{:014x}{number:08x}", at.as_micros()).into();
        Some(Change::Archive { owner: owner.clone(), id, with, at, stanza: Box::new(message.clone()) })
    };
    read().map(|change| vec![change]).ok_or(WHAT)
}

/// The write of one item; `place`: node and id.
pub(super) fn kept(owner: &Bare, place: (&str, &str), item: Element, at: Instant, keep: u32) -> Change {
    let (node, id) = place;
    let item = Some(Box::new(item));
    Change::Item { owner: owner.clone(), node: node.into(), id: id.into(), item, at, keep }
}
