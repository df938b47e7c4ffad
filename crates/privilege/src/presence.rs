//! The presence that a component has had (XEP-0356 §6 and §8).

use std::hash::{DefaultHasher, Hash, Hasher};

use stdx::cache::Cache;
use xmpp::{Element, Jid};

use super::limits;

/// The clients that a component has seen become available, so that it gets each change once: a contact of two accounts sends its
/// presence to both.
pub struct SeenPresences {
    /// Clients that are available, by hashes of component and client: the cache needs only to tell them apart.
    available: Cache<(u64, u64), ()>,
}

impl Default for SeenPresences {
    fn default() -> SeenPresences {
        SeenPresences { available: Cache::new(limits::PRESENCES) }
    }
}

impl SeenPresences {
    /// True if the component is to get the presence. §6.1: those without a type, of which the first counts, and those of type
    /// `unavailable`; never another one.
    pub fn is_news(&mut self, component: &str, from: &Jid, presence: &Element) -> bool {
        let key = (hash(component), hash(from));
        match presence.attr("type") {
            None => self.available.insert(key, ()).is_none(),
            Some("unavailable") => self.available.remove(&key).is_some(),
            Some(_) => false,
        }
    }

    /// The component has connected anew and has seen nothing.
    pub fn forget(&mut self, component: &str) {
        let component = hash(component);
        self.available.retain(|(known, _), ()| *known != component);
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use xmpp::ns;

    #[test]
    fn a_component_gets_the_first_presence_and_the_end() {
        let mut seen = SeenPresences::default();
        let [desk, phone] = ["a@example.org/desk", "a@example.org/phone"].map(|jid| Jid::parse(jid).unwrap());
        let available = Element::new("presence", ns::CLIENT);
        let gone = available.clone().with("type", "unavailable");
        assert!(!seen.is_news("gate", &desk, &gone));
        assert!(seen.is_news("gate", &desk, &available));
        assert!(!seen.is_news("gate", &desk, &available));
        assert!(seen.is_news("gate", &phone, &available) && seen.is_news("other", &desk, &available));
        assert!(seen.is_news("gate", &desk, &gone) && !seen.is_news("gate", &desk, &gone));
        // §6.1: "the server MUST NOT transmit <presence/> stanza of any other type".
        assert!(!seen.is_news("gate", &desk, &available.clone().with("type", "subscribe")));
        seen.forget("gate");
        assert!(seen.is_news("gate", &phone, &available) && !seen.is_news("other", &desk, &available));
    }
}
