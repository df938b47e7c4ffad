//! The bindings of an address after a REGISTER: RFC 3261 §10.3 steps 6 to 8, RFC 5626 §6. Pure.

use std::time::Duration;

use stdx::Instant;

use crate::contact::same_binding;
use crate::interface::{Binding, Change, Contact, Register, RegisterRefused};
use crate::limits;

/// The bindings of an address after a REGISTER, highest q first.
#[derive(Debug, PartialEq)]
pub(crate) enum Registered {
    /// They are those from before.
    Unchanged(Vec<Binding>),
    /// They are these from now on.
    Changed(Vec<Binding>),
}

/// The complete set afterwards. Takes the contacts out of the request.
///
/// # Errors
/// `OutOfOrder` and `TooManyContacts`; then nothing of the request may be done (§10.3 step 7: "the update
/// MUST be aborted and the request fails").
pub(crate) fn change(
    now: Instant,
    old: Vec<Binding>,
    register: &mut Register,
) -> Result<Registered, RegisterRefused> {
    match std::mem::replace(&mut register.change, Change::None) {
        Change::None => Ok(Registered::Unchanged(old)),
        Change::RemoveAll if old.is_empty() => Ok(Registered::Unchanged(old)),
        Change::RemoveAll => {
            old.iter().try_for_each(|binding| in_order(binding, register))?;
            Ok(Registered::Changed(Vec::new()))
        }
        Change::Update(contacts) if is_repeated(&old, register, &contacts) => Ok(Registered::Unchanged(old)),
        Change::Update(contacts) => update(now, old, register, contacts),
    }
}

fn update(
    now: Instant,
    old: Vec<Binding>,
    register: &Register,
    contacts: Vec<Contact>,
) -> Result<Registered, RegisterRefused> {
    // Order is judged against what was bound before: a contact that stands twice in one request is
    // not its own predecessor, the last one counts.
    for contact in &contacts {
        for binding in old.iter().filter(|binding| same_binding(&binding.contact, contact)) {
            in_order(binding, register)?;
        }
    }
    // Of several contacts one may undo what another did: only then the sets have to be compared.
    let compared = (contacts.len() > 1).then(|| old.clone());
    let (before, mut new, mut is_changed) = (old.len(), old, false);
    for contact in contacts {
        is_changed |= put(now, &mut new, register, contact);
    }
    if new.len() > register.max_contacts.min(limits::CONTACTS_PER_ADDRESS) && new.len() > before {
        return Err(RegisterRefused::TooManyContacts);
    }
    // Stable: among equals the order of first registration.
    new.sort_by_key(|binding| std::cmp::Reverse(binding.contact.q));
    is_changed &= compared.is_none_or(|old| old != new);
    Ok(if is_changed { Registered::Changed(new) } else { Registered::Unchanged(new) })
}

/// True if this very request made the present bindings: a retransmission that reached us by another way,
/// whose first copy was answered elsewhere. It is answered like the first. Bindings that it removed are
/// absent.
fn is_repeated(old: &[Binding], register: &Register, contacts: &[Contact]) -> bool {
    let is_of_it = |binding: &&Binding| binding.call_id == register.call_id && binding.cseq == register.cseq;
    let mut made = old.iter().filter(is_of_it).peekable();
    made.peek().is_some()
        && made.all(|binding| contacts.iter().any(|contact| is_granted(binding, contact)))
        && contacts.iter().all(|contact| match contact.expires {
            0 => !old.iter().any(|binding| same_binding(&binding.contact, contact)),
            _ => old.iter().filter(is_of_it).any(|binding| is_granted(binding, contact)),
        })
}

/// True if the binding is what the contact asked for, wherever the request came from.
fn is_granted(binding: &Binding, contact: &Contact) -> bool {
    let bound = &binding.contact;
    same_binding(bound, contact) && (bound.q, &bound.path) == (contact.q, &contact.path)
}

/// RFC 3261 §10.3 step 7: the same Call-ID needs a higher CSeq.
fn in_order(binding: &Binding, register: &Register) -> Result<(), RegisterRefused> {
    if binding.call_id == register.call_id && binding.cseq >= register.cseq {
        return Err(RegisterRefused::OutOfOrder);
    }
    Ok(())
}

/// True if this changes the set. A binding of the same Call-ID and CSeq is [`OutOfOrder`](RegisterRefused::OutOfOrder), so
/// what takes the place of one differs from it.
fn put(now: Instant, set: &mut Vec<Binding>, register: &Register, contact: Contact) -> bool {
    let place = set.iter().position(|binding| same_binding(&binding.contact, &contact));
    match (place, contact.expires) {
        (Some(place), 0) => {
            set.remove(place);
        }
        (None, 0) => return false,
        (Some(place), _) => set[place] = bind(now, register, contact),
        (None, _) => set.push(bind(now, register, contact)),
    }
    true
}

fn bind(now: Instant, register: &Register, mut contact: Contact) -> Binding {
    let longest = u32::try_from(limits::LONGEST_BINDING.as_secs()).unwrap_or(u32::MAX);
    contact.expires = contact.expires.min(longest);
    Binding {
        expires_at: whole_seconds_after(now, contact.expires),
        contact,
        call_id: register.call_id.clone(),
        cseq: register.cseq,
    }
}

/// Rounded up: the record counts seconds, and no binding may end before the time we granted.
fn whole_seconds_after(now: Instant, seconds: u32) -> Instant {
    let end = now + Duration::from_secs(seconds.into());
    Instant::from_unix_seconds(end.as_micros().div_ceil(1_000_000))
}
