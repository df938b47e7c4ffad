//! The requests of a host that wait for the answers of others: by id, each for the same time.

use std::collections::{HashMap, VecDeque};

use stdx::Instant;
use xmpp::Element;
use xmpp::ns;
use xmpp::stanza::{Condition, StanzaError};

use super::limits;

/// Requests that wait for their answers.
#[derive(Debug)]
pub(super) struct Pending<T> {
    by_id: HashMap<Box<str>, T>,
    /// All have the same time, so the earliest is the first. Entries of answered requests are passed over.
    deadlines: VecDeque<(Instant, Box<str>)>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Pending { by_id: HashMap::new(), deadlines: VecDeque::new() }
    }
}

impl<T> Pending<T> {
    /// Fails if too many wait.
    pub(super) fn check_room(&self) -> Result<(), StanzaError> {
        if self.by_id.len() < limits::REQUESTS {
            return Ok(());
        }
        let text = "too many requests of components wait for their answers";
        Err(StanzaError::new(Condition::ResourceConstraint, text))
    }

    pub(super) fn insert(&mut self, now: Instant, id: Box<str>, request: T) {
        // Answered requests leave their entries, and a component may answer any number in a minute.
        if self.deadlines.len() >= 2 * limits::REQUESTS {
            self.deadlines.retain(|(_, id)| self.by_id.contains_key(id));
        }
        self.by_id.insert(id.clone(), request);
        self.deadlines.push_back((now + limits::ANSWER, id));
    }

    /// The request that has this id, if it waits for that answer.
    pub(super) fn take(&mut self, id: &str, is_answered: impl FnOnce(&T) -> bool) -> Option<T> {
        if !is_answered(self.by_id.get(id)?) {
            return None;
        }
        self.by_id.remove(id)
    }

    /// The requests that wait.
    pub(super) fn requests(&self) -> impl Iterator<Item = &T> {
        self.by_id.values()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(until, _)| *until)
    }

    /// The requests that were not answered in time.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<T> {
        let mut expired = Vec::new();
        while let Some((_, id)) = self.deadlines.pop_front_if(|(until, _)| *until <= now) {
            expired.extend(self.by_id.remove(&id));
        }
        expired
    }
}

/// A request without its content: its answer needs addresses, type and id.
pub(super) fn head_of(iq: &Element) -> Element {
    ["type", "id", "from", "to"].into_iter().fold(Element::new("iq", ns::CLIENT), |head, name| {
        let value = iq.attr(name).map(Box::<str>::from);
        head.with_opt(name, value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_requests_leave_a_bounded_rest() {
        let (mut pending, now) = (Pending::default(), Instant::from_unix_seconds(1_800_000_000));
        pending.insert(now, "first".into(), 0);
        for number in 0..10 * limits::REQUESTS {
            let id: Box<str> = number.to_string().into();
            pending.insert(now, id.clone(), number);
            assert_eq!(pending.take(&id, |_| true), Some(number));
        }
        assert!(pending.deadlines.len() <= 2 * limits::REQUESTS, "{}", pending.deadlines.len());
        assert_eq!(pending.expire(now + limits::ANSWER), [0], "a request that waits keeps its deadline");
    }
}
