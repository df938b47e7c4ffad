//! The identities, features and forms of delegated namespaces (XEP-0355 §7.2): asked of each component that has connected, and merged into
//! the service discovery of the server and of accounts.
//!
//! Every host of a farm asks for itself, one question after the other, and keeps the answers until the component goes
//! ([`NestedDiscovery`]). A question comes from a domain, as the text has it; its id names the shard that asks, and the router leads the
//! answer there by [`asker_of_answer`]. Knowing such an id is of no use to others: the component alone answers.

use std::collections::BTreeMap;

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::{Element, Jid, ns};

use super::{Privileges, limits};

/// The address whose service discovery has the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiscoveryTarget {
    /// The server: nodes `urn:xmpp:delegation:2::NAMESPACE` (§7.2.1).
    Server,
    /// The bare addresses of accounts: nodes `urn:xmpp:delegation:2:bare:NAMESPACE` (§7.2.2).
    Account,
}

impl DiscoveryTarget {
    /// The node that a component has for a namespace.
    fn node(self, namespace: &str) -> String {
        let separator = match self {
            DiscoveryTarget::Server => "::",
            DiscoveryTarget::Account => ":bare:",
        };
        format!("{}{separator}{namespace}", ns::DELEGATION)
    }
}

/// The beginning of the ids of questions.
const ID: &str = "delegation-info:";

/// The name of the shard that has asked the question that this answers. `None`: it answers another one.
pub fn asker_of_answer(answer: &Element) -> Option<&str> {
    if answer.name() != "iq" || !matches!(answer.attr("type"), Some("result" | "error")) {
        return None;
    }
    let (asker, _) = answer.attr("id")?.strip_prefix(ID)?.split_once(':')?;
    Some(asker)
}

/// A namespace of a component at one of its two nodes.
type Subject = (DiscoveryTarget, Box<str>);

/// The answers of the components that are connected.
#[derive(Debug, Default)]
pub struct NestedDiscovery {
    components: BTreeMap<Box<str>, ComponentDiscovery>,
}

/// The questions to one component and its answers.
#[derive(Debug)]
struct ComponentDiscovery {
    /// Subjects to ask about, the next one last.
    waiting: Vec<Subject>,
    /// The time of the next question, if none is open.
    next: Instant,
    open: Option<OpenQuestion>,
    /// Questions that may be asked once more.
    retries: u32,
    known: BTreeMap<Subject, NestedInfo>,
}

/// A question that waits for its answer.
#[derive(Debug)]
struct OpenQuestion {
    id: Box<str>,
    subject: Subject,
    until: Instant,
}

/// The answer about one subject.
#[derive(Debug)]
struct NestedInfo {
    identities: Vec<Element>,
    features: Vec<Element>,
    forms: Vec<Element>,
    /// Bytes on the wire.
    bytes: usize,
}

impl ComponentDiscovery {
    /// The time at which the open question is given up, or the next one is asked.
    fn deadline(&self) -> Option<Instant> {
        let next = (!self.waiting.is_empty()).then_some(self.next);
        self.open.as_ref().map(|open| open.until).or(next)
    }

    /// The question was not answered, or the component is busy: it is asked once more, after the others.
    fn ask_later(&mut self, now: Instant, subject: Subject) {
        if self.retries > 0 {
            self.retries -= 1;
            self.next = now + limits::ANSWER;
            self.waiting.insert(0, subject);
        }
    }
}

impl NestedDiscovery {
    /// A component has connected: it is asked about all that it answers. Its earlier answers stay until it gives others.
    pub fn handle_attached(&mut self, now: Instant, privileges: &Privileges) {
        if privileges.delegations.is_empty() {
            return;
        }
        let subjects = |target: DiscoveryTarget| {
            let all = privileges.delegations.iter().rev();
            all.map(move |delegation| (target, delegation.namespace.clone()))
        };
        let waiting = subjects(DiscoveryTarget::Account).chain(subjects(DiscoveryTarget::Server)).collect();
        let known = self.components.remove(&privileges.component).map(|before| before.known);
        let component = ComponentDiscovery {
            waiting,
            next: now,
            open: None,
            retries: limits::DISCOVERY_RETRIES,
            known: known.unwrap_or_default(),
        };
        self.components.insert(privileges.component.clone(), component);
    }

    /// A component is connected no longer: what it said is not announced any more.
    pub fn handle_detached(&mut self, component: &str) {
        self.components.remove(component);
    }

    /// The components that are asked or have answered.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.components.keys().map(|component| &**component)
    }

    /// The time at which to call [`Self::expire`].
    pub fn deadline(&self) -> Option<Instant> {
        self.components.values().filter_map(ComponentDiscovery::deadline).min()
    }

    /// The questions that are due, from that domain; `asker` is the name of this shard.
    pub fn expire(&mut self, now: Instant, rng: &mut Rng, (domain, asker): (&str, &str)) -> Vec<Element> {
        let mut questions = Vec::new();
        for (component, state) in &mut self.components {
            if let Some(open) = state.open.take_if(|open| open.until <= now) {
                state.ask_later(now, open.subject);
            }
            if state.open.is_some() || state.next > now {
                continue;
            }
            let Some(subject) = state.waiting.pop() else { continue };
            let id: Box<str> = format!("{ID}{asker}:{}", rng.token(24)).into();
            let query = Element::new("query", ns::DISCO_INFO).with("node", subject.0.node(&subject.1));
            questions.push(
                Element::new("iq", ns::CLIENT)
                    .with("type", "get")
                    .with("id", id.clone())
                    .with("from", domain)
                    .with("to", component.clone())
                    .child(query),
            );
            state.open = Some(OpenQuestion { id, subject, until: now + limits::ANSWER });
        }
        questions
    }

    /// A component's answer. Those of others, and those that come too late, count for nothing.
    pub fn handle_answer(&mut self, now: Instant, from: &Jid, answer: &Element) {
        let Some(state) = self.components.get_mut(from.as_str()) else { return };
        let is_answered = |open: &mut OpenQuestion| answer.attr("id") == Some(&*open.id);
        let Some(open) = state.open.take_if(is_answered) else { return };
        state.next = now;
        let error = answer.get("error", answer.ns());
        if error.is_some_and(|error| error.attr("type") == Some("wait")) {
            return state.ask_later(now, open.subject);
        }
        let query = answer.get("query", ns::DISCO_INFO).filter(|_| answer.attr("type") == Some("result"));
        match query.and_then(NestedInfo::parse) {
            Some(info) => state.known.insert(open.subject, info),
            None => state.known.remove(&open.subject),
        };
    }

    /// True if a feature of this server's own belongs to a namespace about which a component has answered: "the server [...] MUST ignore
    /// features of its internal component" (§7.2.1), also if attributes choose the requests.
    pub fn replaces(&self, target: DiscoveryTarget, feature: &str) -> bool {
        let is_of = |namespace: &str| {
            feature.strip_prefix(namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
        };
        self.known(target).any(|(namespace, _)| is_of(namespace))
    }

    /// A description (`disco#info`) with the answers of components: each identity, feature and form once, as XEP-0115 §5.4 has it, those
    /// of this server first.
    pub fn merge(&self, target: DiscoveryTarget, info: Element) -> Element {
        let mut bytes = 0;
        // In the order of components and namespaces: all nodes of a farm leave out the same.
        let nested: Vec<&NestedInfo> = self
            .known(target)
            .map(|(_, info)| info)
            .take_while(|info| {
                bytes += info.bytes;
                bytes <= limits::DISCOVERY
            })
            .collect();
        if nested.is_empty() {
            return info;
        }
        let mut merged = Element::new("query", ns::DISCO_INFO).with_opt("node", info.attr("node"));
        let own = |name: &'static str| info.elements().filter(move |child| child.name() == name);
        let all = own("identity").chain(nested.iter().flat_map(|info| &info.identities));
        push_distinct(&mut merged, all, |one| {
            ["category", "type"].map(|name| one.attr(name)).into_iter().chain([one.lang()]).collect()
        });
        let all = own("feature").chain(nested.iter().flat_map(|info| &info.features));
        push_distinct(&mut merged, all, |one| vec![one.attr("var")]);
        let all = own("x").chain(nested.iter().flat_map(|info| &info.forms));
        let mut kinds = Vec::new();
        for form in all {
            let kind = kind_of_form(form);
            if !kinds.contains(&kind) {
                kinds.push(kind);
                merged.push(form.clone());
            }
        }
        merged
    }

    /// The answers for a target, with their namespaces.
    fn known(&self, target: DiscoveryTarget) -> impl Iterator<Item = (&str, &NestedInfo)> {
        let all = self.components.values().flat_map(|state| &state.known);
        all.filter(move |((of, _), _)| *of == target).map(|((_, namespace), info)| (&**namespace, info))
    }
}

/// Appends elements, the first of each with the same key.
fn push_distinct<'a>(
    to: &mut Element,
    all: impl Iterator<Item = &'a Element>,
    key: impl Fn(&'a Element) -> Vec<Option<&'a str>>,
) {
    let mut seen = std::collections::BTreeSet::new();
    for one in all {
        if seen.insert(key(one)) {
            to.push(one.clone());
        }
    }
}

/// The type of a form (XEP-0068).
fn kind_of_form(form: &Element) -> Option<String> {
    let mut fields = form.elements().filter(|field| field.attr("var") == Some("FORM_TYPE"));
    fields.next()?.content_of("value", ns::DATA).map(std::borrow::Cow::into_owned)
}

impl NestedInfo {
    /// Reads an answer. `None`: it is larger than it may be, or has a part that a description cannot have.
    fn parse(query: &Element) -> Option<NestedInfo> {
        let bytes = query.to_bytes(ns::CLIENT).len();
        if bytes > limits::DISCOVERY_ANSWER {
            return None;
        }
        let of = |name: &'static str, namespace: &'static str| {
            query.elements().filter(move |child| child.is(name, namespace)).cloned()
        };
        let identities: Vec<Element> = of("identity", ns::DISCO_INFO).collect();
        let features: Vec<Element> = of("feature", ns::DISCO_INFO).collect();
        let forms: Vec<Element> =
            of("x", ns::DATA).filter(|form| form.attr("type") == Some("result")).collect();
        let has = |one: &Element, name: &str| one.attr(name).is_some_and(|value| !value.is_empty());
        let is_whole = identities.iter().all(|one| has(one, "category") && has(one, "type"))
            && features.iter().all(|one| has(one, "var"))
            // XEP-0128 §3: a form without a type belongs to nothing.
            && forms.iter().all(|form| kind_of_form(form).is_some());
        is_whole.then_some(NestedInfo { identities, features, forms, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Delegation;

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);
    const PUBSUB: &str = "http://jabber.org/protocol/pubsub";

    fn gate(namespaces: &[&str]) -> Privileges {
        let delegation =
            |namespace: &&str| Delegation { namespace: (*namespace).into(), attributes: Vec::new() };
        let delegations = namespaces.iter().map(delegation).collect();
        Privileges { component: "gate.example.org".into(), delegations, ..Privileges::default() }
    }

    fn parse(text: &str) -> Element {
        xmpp::xml::parse(text.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
    }

    struct World {
        discovery: NestedDiscovery,
        rng: Rng,
        now: Instant,
    }

    impl World {
        fn new(namespaces: &[&str]) -> World {
            let mut discovery = NestedDiscovery::default();
            discovery.handle_attached(NOW, &gate(namespaces));
            World { discovery, rng: Rng::seeded(7), now: NOW }
        }

        /// The question that is due: its id and its node.
        fn question(&mut self) -> Option<(String, String)> {
            self.now = self.discovery.deadline()?;
            let due = self.discovery.expire(self.now, &mut self.rng, ("example.org", "5.3"));
            let [question] = &due[..] else { return None };
            assert_eq!(
                ["type", "from", "to"].map(|name| question.attr(name).unwrap()),
                ["get", "example.org", "gate.example.org"]
            );
            let node = question.first().unwrap().attr("node").unwrap();
            Some((question.attr("id").unwrap().to_owned(), node.to_owned()))
        }

        fn answer(&mut self, from: &str, id: &str, kind: &str, inside: &str) {
            let answer =
                parse(&format!("<iq type='{kind}' id='{id}' from='{from}' to='example.org'>{inside}</iq>"));
            assert_eq!(asker_of_answer(&answer), Some("5.3"));
            self.discovery.handle_answer(self.now, &Jid::parse(from).unwrap(), &answer);
        }

        fn merged(&self, target: DiscoveryTarget) -> String {
            let own = format!(
                "<query xmlns='{}'><identity category='server' type='im'/><feature var='urn:own'/></query>",
                ns::DISCO_INFO
            );
            let merged = self.discovery.merge(target, parse(&own));
            String::from_utf8(merged.to_bytes(ns::CLIENT)).unwrap()
        }
    }

    fn info(inside: &str) -> String {
        format!("<query xmlns='{}'>{inside}</query>", ns::DISCO_INFO)
    }

    #[test]
    fn a_component_is_asked_about_each_namespace_at_both_nodes_one_after_the_other() {
        let mut world = World::new(&["urn:a", "urn:b"]);
        let mut nodes = Vec::new();
        while let Some((id, node)) = world.question() {
            nodes.push(node);
            assert!(world.discovery.expire(world.now, &mut world.rng, ("example.org", "5.3")).is_empty());
            world.answer("gate.example.org", &id, "result", &info(""));
        }
        assert_eq!(
            nodes,
            [
                "urn:xmpp:delegation:2::urn:a",
                "urn:xmpp:delegation:2::urn:b",
                "urn:xmpp:delegation:2:bare:urn:a",
                "urn:xmpp:delegation:2:bare:urn:b",
            ]
        );
    }

    #[test]
    fn an_answer_is_merged_once_and_ends_with_the_component() {
        let mut world = World::new(&[PUBSUB]);
        let (id, _) = world.question().unwrap();
        let form = "<x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE' type='hidden'><value>urn:form</value>\
                    </field></x>";
        let inside = info(&format!(
            "<identity category='pubsub' type='pep'/><feature var='urn:own'/><feature var='{PUBSUB}#publish'/>{form}{form}"
        ));
        for (from, at) in [("eve.example.org", 0), ("gate.example.org/x", 0), ("gate.example.org", 1)] {
            world.answer(from, &id, "result", &inside);
            let merged = world.merged(DiscoveryTarget::Server);
            assert_eq!(merged.matches("#publish").count(), at, "{from}: {merged}");
        }
        let merged = world.merged(DiscoveryTarget::Server);
        for part in ["urn:own", "category='server'", "category='pubsub'", "urn:form"] {
            assert_eq!(merged.matches(part).count(), 1, "{part}: {merged}");
        }
        assert!(merged.rfind("<identity") < merged.find("<feature"), "{merged}");
        assert!(!world.merged(DiscoveryTarget::Account).contains("#publish"));
        let replaces =
            |world: &World, feature: &str| world.discovery.replaces(DiscoveryTarget::Server, feature);
        assert!(replaces(&world, PUBSUB) && replaces(&world, &format!("{PUBSUB}#auto-create")));
        assert!(!replaces(&world, "urn:own") && !replaces(&world, &format!("{PUBSUB}-other")));
        // It connects anew: the answer stays until the next one.
        world.discovery.handle_attached(world.now, &gate(&[PUBSUB]));
        assert!(world.merged(DiscoveryTarget::Server).contains("#publish"));
        let (id, _) = world.question().unwrap();
        world.answer("gate.example.org", &id, "error", "<error type='cancel'/>");
        assert!(!world.merged(DiscoveryTarget::Server).contains("#publish"));
        world.discovery.handle_attached(world.now, &gate(&[PUBSUB]));
        let (id, _) = world.question().unwrap();
        world.answer("gate.example.org", &id, "result", &inside);
        world.discovery.handle_detached("gate.example.org");
        assert!(!world.merged(DiscoveryTarget::Server).contains("#publish"));
        assert_eq!(world.discovery.deadline(), None);
    }

    #[test]
    fn a_question_without_an_answer_is_asked_again_some_times() {
        let mut world = World::new(&["urn:a"]);
        let mut asked = 0;
        while world.discovery.deadline().is_some() {
            asked += u32::from(world.question().is_some());
        }
        assert_eq!(asked, 2 + limits::DISCOVERY_RETRIES);
        let mut world = World::new(&["urn:a"]);
        let (id, node) = world.question().unwrap();
        world.answer("gate.example.org", &id, "error", "<error type='wait'/>");
        let (later, other) = world.question().unwrap();
        assert_ne!((&id, &node), (&later, &other));
        world.answer("gate.example.org", &later, "result", &info(""));
        assert_eq!(world.question().unwrap().1, node);
    }

    #[test]
    fn an_answer_beyond_the_limit_and_one_that_is_not_whole_count_for_none() {
        let many =
            |count: usize| (0..count).map(|n| format!("<feature var='urn:f{n}'/>")).collect::<String>();
        for inside in [
            many(limits::DISCOVERY_ANSWER / 20),
            "<feature/>".to_owned(),
            "<identity category='x'/>".to_owned(),
            "<x xmlns='jabber:x:data' type='result'/>".to_owned(),
        ] {
            let mut world = World::new(&["urn:a"]);
            let (id, _) = world.question().unwrap();
            world.answer(
                "gate.example.org",
                &id,
                "result",
                &info(&format!("<feature var='urn:f'/>{inside}")),
            );
            assert!(!world.merged(DiscoveryTarget::Server).contains("urn:f"), "{inside}");
        }
        // Many answers that are each as large as may be.
        let names: Vec<String> = (0..limits::NAMESPACES).map(|n| format!("urn:n{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = World::new(&names);
        while let Some((id, _)) = world.question() {
            let (n, padding) = (id.clone(), "x".repeat(limits::DISCOVERY_ANSWER - 300));
            world.answer("gate.example.org", &id, "result", &info(&format!("<feature var='{n}{padding}'/>")));
        }
        let merged = world.merged(DiscoveryTarget::Account);
        assert!(merged.contains("<feature var='delegation-info"));
        assert!(merged.len() < limits::DISCOVERY + 300, "{}", merged.len());
    }
}
