//! The bindings of an address after a REGISTER: RFC 3261 §10.3 steps 6 to 8, RFC 5626 §6. Pure.

use std::time::Duration;

use stdx::Instant;

use crate::contact::same_binding;
use crate::interface::{Binding, Change, Contact, Register, RegisterRefused};
use crate::limits;

/// The complete set afterwards, highest q first, or `None` when nothing changes.
///
/// # Errors
/// `OutOfOrder` and `TooManyContacts`; then nothing of the request may be done (§10.3 step 7: "the update
/// MUST be aborted and the request fails").
pub(crate) fn change(
    now: Instant,
    old: &[Binding],
    register: &Register,
) -> Result<Option<Vec<Binding>>, RegisterRefused> {
    match &register.change {
        Change::None => Ok(None),
        Change::RemoveAll if old.is_empty() => Ok(None),
        Change::RemoveAll => {
            old.iter().try_for_each(|binding| in_order(binding, register))?;
            Ok(Some(Vec::new()))
        }
        Change::Update(contacts) if is_repeated(old, register, contacts) => Ok(None),
        Change::Update(contacts) => update(now, old, register, contacts),
    }
}

fn update(
    now: Instant,
    old: &[Binding],
    register: &Register,
    contacts: &[Contact],
) -> Result<Option<Vec<Binding>>, RegisterRefused> {
    let mut new = old.to_vec();
    for contact in contacts {
        // Order is judged against what was bound before: a contact that stands twice in one request is
        // not its own predecessor, the last one counts.
        for binding in old.iter().filter(|binding| same_binding(&binding.contact, contact)) {
            in_order(binding, register)?;
        }
        put(now, &mut new, register, contact);
    }
    if new.len() > register.max_contacts.min(limits::CONTACTS_PER_ADDRESS) && new.len() > old.len() {
        return Err(RegisterRefused::TooManyContacts);
    }
    // Stable: among equals the order of first registration.
    new.sort_by_key(|binding| std::cmp::Reverse(binding.contact.q));
    Ok((new != old).then_some(new))
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

fn put(now: Instant, set: &mut Vec<Binding>, register: &Register, contact: &Contact) {
    let place = set.iter().position(|binding| same_binding(&binding.contact, contact));
    match (place, contact.expires) {
        (Some(place), 0) => {
            set.remove(place);
        }
        (None, 0) => {}
        (Some(place), _) => set[place] = bind(now, register, contact),
        (None, _) => set.push(bind(now, register, contact)),
    }
}

fn bind(now: Instant, register: &Register, contact: &Contact) -> Binding {
    let mut contact = contact.clone();
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
