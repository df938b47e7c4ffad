//! Subscriptions of a node and their options (XEP-0060 §6.3 and §16.4.2): whether events are delivered, when the subscription ends, and the
//! presence in which its subscriber wants events.
//!
//! All here is pure. `subscribe` reads options from forms and answers with forms; the store has them in the node's row, beside the state
//! of the subscription, where an older program passes them over. `presences` knows the presence of subscribers.

use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid, ns, time};

use super::fault;
use super::node::{meant, word};
use crate::limits;

/// The state of one subscription (§4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeSubscription {
    Subscribed,
    /// Waits for the owner.
    Pending,
    None,
}

const STATES: [(&str, NodeSubscription); 3] = [
    ("subscribed", NodeSubscription::Subscribed),
    ("pending", NodeSubscription::Pending),
    ("none", NodeSubscription::None),
];

impl NodeSubscription {
    pub(crate) fn as_str(self) -> &'static str {
        word(&STATES, self)
    }

    pub(crate) fn parse(text: &str) -> Option<NodeSubscription> {
        meant(&STATES, text)
    }
}

/// The subscription of one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber {
    pub(crate) jid: Jid,
    pub(crate) state: NodeSubscription,
    pub(crate) options: SubscriptionOptions,
}

impl Subscriber {
    /// A subscription with the default options.
    #[cfg(test)]
    pub(crate) fn new(jid: Jid, state: NodeSubscription) -> Subscriber {
        Subscriber { jid, state, options: SubscriptionOptions::default() }
    }

    /// The subscription as the store has it.
    pub(crate) fn element(&self) -> Element {
        Element::new("subscription", ns::PUBSUB_OWNER)
            .with("jid", self.jid.as_str())
            .with("subscription", self.state.as_str())
            .children(self.options.stored())
    }

    /// Reads a stored subscription; `None`: its address or its state cannot be read.
    pub(crate) fn from_element(element: &Element) -> Option<Subscriber> {
        Some(Subscriber {
            jid: Jid::parse(element.attr("jid")?).ok()?,
            state: NodeSubscription::parse(element.attr("subscription")?)?,
            options: SubscriptionOptions::from_stored(element.get("options", ns::PUBSUB)),
        })
    }
}

/// The options of a subscription: the fields of §16.4.2 that are known here. Digests are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptionOptions {
    /// `pubsub#deliver`.
    pub(crate) delivers: bool,
    /// `pubsub#expire`; `None`: the subscription has no end.
    pub(crate) expiry: Option<Expiry>,
    /// `pubsub#include_body`.
    pub(crate) with_body: bool,
    /// `pubsub#show-values`.
    pub(crate) shows: ShowSet,
    /// `pubsub#subscription_type`: the events of a collection's nodes (XEP-0248 §6.1).
    pub(crate) kind: SubscriptionType,
    /// `pubsub#subscription_depth`: the levels below a collection whose events come; `None`: all.
    pub(crate) depth: Option<u32>,
}

impl Default for SubscriptionOptions {
    fn default() -> SubscriptionOptions {
        SubscriptionOptions {
            delivers: true,
            expiry: None,
            with_body: false,
            shows: ShowSet::ALL,
            // XEP-0248 §6.1 recommends these two.
            kind: SubscriptionType::default(),
            depth: Some(1),
        }
    }
}

/// The events of the nodes in a collection that a subscriber gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SubscriptionType {
    Items,
    #[default]
    Nodes,
    All,
}

const TYPES: [(&str, SubscriptionType); 3] =
    [("items", SubscriptionType::Items), ("nodes", SubscriptionType::Nodes), ("all", SubscriptionType::All)];

/// The value of `pubsub#subscription_depth` for all levels.
const ALL_LEVELS: &str = "all";

/// Reads `pubsub#subscription_depth`.
fn depth(value: &str) -> Option<Option<u32>> {
    if value == ALL_LEVELS { Some(None) } else { value.parse().ok().map(Some) }
}

/// The end of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// At this time, in whole milliseconds (§12.17).
    At(Instant),
    /// The subscription ends with the presence that the subscriber has had since this time or earlier, by the count of `presences` (§12.4).
    Presence(Instant),
}

impl Expiry {
    /// The value of `pubsub#expire`.
    fn value(self) -> String {
        match self {
            Expiry::At(end) => time::stamp(end),
            Expiry::Presence(_) => WITH_PRESENCE.to_owned(),
        }
    }
}

/// The presence of one client: the value of `<show/>`, or `Online` without it (RFC 6121 §4.7.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Away,
    Chat,
    DoNotDisturb,
    Online,
    ExtendedAway,
}

const SHOWS: [(&str, Show); 5] = [
    ("away", Show::Away),
    ("chat", Show::Chat),
    ("dnd", Show::DoNotDisturb),
    ("online", Show::Online),
    ("xa", Show::ExtendedAway),
];

impl Show {
    /// The value in an available presence. RFC 6121 §4.7.2.1: a value that is not defined counts as none.
    pub(crate) fn of(presence: &Element) -> Show {
        let show = presence.content_of("show", ns::CLIENT);
        show.and_then(|show| meant(&SHOWS, &show)).unwrap_or(Show::Online)
    }
}

/// Some values of presence: a flag for each of `SHOWS`, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShowSet([bool; SHOWS.len()]);

impl ShowSet {
    /// Every presence.
    pub(crate) const ALL: ShowSet = ShowSet([true; SHOWS.len()]);

    pub(crate) fn has(self, show: Show) -> bool {
        SHOWS.iter().zip(self.0).any(|((_, known), is_in)| is_in && *known == show)
    }

    /// `None`: a value that is none of them, or no value: to get no events there is `pubsub#deliver`.
    fn parse(values: &[String]) -> Option<ShowSet> {
        let are_known = values.iter().all(|value| meant(&SHOWS, value).is_some());
        let shows = ShowSet(SHOWS.map(|(word, _)| values.iter().any(|value| value == word)));
        (are_known && !values.is_empty()).then_some(shows)
    }

    fn words(self) -> impl Iterator<Item = &'static str> {
        SHOWS.iter().zip(self.0).filter(|(_, is_in)| *is_in).map(|((word, _), _)| *word)
    }
}

/// `FORM_TYPE` of options.
const FORM_TYPE: &str = "http://jabber.org/protocol/pubsub#subscribe_options";

/// The value of `pubsub#expire` for a subscription that ends with the subscriber's presence (§12.4).
const WITH_PRESENCE: &str = "presence";

/// The fields that only some forms have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionFields {
    /// `pubsub#include_body`: events of the node can have a body.
    pub(crate) body: bool,
    /// `pubsub#show-values`: the service may know the presence of the subscriber. Without it no option depends on presence.
    pub(crate) shows: bool,
    /// `pubsub#subscription_type` and `pubsub#subscription_depth`: the node is a collection.
    pub(crate) collection: bool,
}

/// The options that one subscriber may have, at the time of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionsScope {
    pub(crate) now: Instant,
    pub(crate) fields: OptionFields,
    /// The subscriber is present: the end of a subscription that ends with this presence.
    pub(crate) presence: Option<Expiry>,
}

/// The error for options that cannot be (§6.3.6.2).
pub(crate) fn invalid_options() -> StanzaError {
    fault(Condition::BadRequest, "invalid-options")
}

impl OptionsScope {
    /// Reads `pubsub#expire`. A form that comes back as it was sent has no value if the subscription has no end.
    fn expiry(&self, value: &str) -> Result<Option<Expiry>, StanzaError> {
        match value {
            "" => Ok(None),
            WITH_PRESENCE => self.presence.map(Some).ok_or_else(invalid_options),
            _ => {
                let end = time::parse(value).filter(|end| *end > self.now).ok_or_else(invalid_options)?;
                // §12.17: "the service MUST change the value of the field to be the current date/time plus the maximum".
                let end = end.min(self.now + limits::SUBSCRIPTION_LEASE);
                Ok(Some(Expiry::At(in_millis(end))))
            }
        }
    }
}

/// Times in stanzas and in the store have milliseconds: a stored time is read as it was written.
pub(crate) fn in_millis(at: Instant) -> Instant {
    Instant::from_micros(at.as_millis() * 1_000)
}

impl SubscriptionOptions {
    /// These options with the values of the form. Fields that the subscriber's form does not have are ignored, like those of a node's
    /// configuration.
    ///
    /// # Errors
    /// `invalid-options`, if the form is not one of options or has an impossible value.
    pub(crate) fn with_form(
        mut self,
        form: &Element,
        scope: &OptionsScope,
    ) -> Result<SubscriptionOptions, StanzaError> {
        if form.attr("type").is_some_and(|kind| kind != "submit") {
            return Err(invalid_options());
        }
        for (var, values) in fields(form) {
            let value = values.first().map(String::as_str).unwrap_or_default();
            match var {
                "FORM_TYPE" if value != FORM_TYPE => return Err(invalid_options()),
                "pubsub#deliver" => self.delivers = flag(value).ok_or_else(invalid_options)?,
                "pubsub#expire" => self.expiry = scope.expiry(value)?,
                "pubsub#include_body" if scope.fields.body => {
                    self.with_body = flag(value).ok_or_else(invalid_options)?;
                }
                "pubsub#show-values" if scope.fields.shows => {
                    self.shows = ShowSet::parse(&values).ok_or_else(invalid_options)?;
                }
                "pubsub#subscription_type" if scope.fields.collection => {
                    self.kind = meant(&TYPES, value).ok_or_else(invalid_options)?;
                }
                "pubsub#subscription_depth" if scope.fields.collection => {
                    self.depth = depth(value).ok_or_else(invalid_options)?;
                }
                _ => {}
            }
        }
        Ok(self)
    }

    /// `form` to be filled in, `submit` as it is kept, `result` as the subscriber is told.
    pub(crate) fn form(&self, kind: &'static str, fields: OptionFields) -> Element {
        let value = |text: &str| Element::new("value", ns::DATA).text(text);
        let field = |var: &'static str, kind: &'static str| {
            Element::new("field", ns::DATA).with("var", var).with("type", kind)
        };
        let boolean =
            |var: &'static str, is: bool| field(var, "boolean").child(value(if is { "1" } else { "0" }));
        let body = fields.body.then(|| boolean("pubsub#include_body", self.with_body));
        let shows = fields.shows.then(|| {
            let options = SHOWS.iter().filter(|_| kind == "form");
            field("pubsub#show-values", "list-multi")
                .children(self.shows.words().map(value))
                .children(options.map(|(word, _)| Element::new("option", ns::DATA).child(value(word))))
        });
        let collection = fields.collection.then(|| {
            let options = TYPES.iter().filter(|_| kind == "form");
            let depth = self.depth.map_or_else(|| ALL_LEVELS.to_owned(), |depth| depth.to_string());
            [
                field("pubsub#subscription_type", "list-single")
                    .child(value(word(&TYPES, self.kind)))
                    .children(options.map(|(word, _)| Element::new("option", ns::DATA).child(value(word)))),
                field("pubsub#subscription_depth", "text-single").child(value(&depth)),
            ]
        });
        let expiry = self.expiry.map(|expiry| value(&expiry.value()));
        Element::new("x", ns::DATA)
            .with("type", kind)
            .child(field("FORM_TYPE", "hidden").child(value(FORM_TYPE)))
            .child(boolean("pubsub#deliver", self.delivers))
            .child(field("pubsub#expire", "text-single").children(expiry))
            .children(body)
            .children(shows)
            .children(collection.into_iter().flatten())
    }

    /// The options as the store has them; `None`: they are the default.
    fn stored(&self) -> Option<Element> {
        let default = SubscriptionOptions::default();
        if *self == default {
            return None;
        }
        // Those of a leaf are always the default.
        let collection = (self.kind, self.depth) != (default.kind, default.depth);
        let since = match self.expiry {
            Some(Expiry::Presence(since)) => Some(time::stamp(since)),
            Some(Expiry::At(_)) | None => None,
        };
        let options = Element::new("options", ns::PUBSUB).with_opt("since", since);
        Some(options.child(self.form("submit", OptionFields { body: true, shows: true, collection })))
    }

    /// Reads stored options. A value that cannot be read, such as one of a later version, is the default: a subscriber gets too many events
    /// rather than none.
    fn from_stored(element: Option<&Element>) -> SubscriptionOptions {
        let mut options = SubscriptionOptions::default();
        let Some((element, form)) = element.and_then(|element| Some((element, element.get("x", ns::DATA)?)))
        else {
            return options;
        };
        for (var, values) in fields(form) {
            let value = values.first().map(String::as_str).unwrap_or_default();
            match var {
                "pubsub#deliver" => options.delivers = flag(value).unwrap_or(true),
                "pubsub#expire" if value == WITH_PRESENCE => {
                    let since = element.attr("since").and_then(time::parse);
                    options.expiry = Some(Expiry::Presence(since.unwrap_or(Instant::from_micros(0))));
                }
                "pubsub#expire" => options.expiry = time::parse(value).map(Expiry::At),
                "pubsub#include_body" => options.with_body = flag(value).unwrap_or(false),
                "pubsub#show-values" => options.shows = ShowSet::parse(&values).unwrap_or(ShowSet::ALL),
                "pubsub#subscription_type" => options.kind = meant(&TYPES, value).unwrap_or_default(),
                "pubsub#subscription_depth" => options.depth = depth(value).unwrap_or(Some(1)),
                _ => {}
            }
        }
        options
    }
}

/// The fields of a form that have names, with their values.
fn fields(form: &Element) -> impl Iterator<Item = (&str, Vec<String>)> {
    let fields = form.elements().filter(|child| child.is("field", ns::DATA));
    fields.filter_map(|field| {
        let values = field.elements().filter(|child| child.is("value", ns::DATA));
        Some((field.attr("var")?, values.map(|value| value.content().into_owned()).collect()))
    })
}

/// A boolean of a form (XEP-0004 §3.3).
pub(crate) fn flag(value: &str) -> Option<bool> {
    match value {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

    fn scope(has_all: bool) -> OptionsScope {
        let presence = has_all.then_some(Expiry::Presence(NOW));
        OptionsScope {
            now: NOW,
            fields: OptionFields { body: has_all, shows: has_all, collection: has_all },
            presence,
        }
    }

    /// The options after a form with one field, for a subscriber that may have all fields or only those that every form has.
    fn with(field: &str, values: &[&str], has_all: bool) -> Option<SubscriptionOptions> {
        let values: String = values.iter().map(|value| format!("<value>{value}</value>")).collect();
        let form =
            format!("<x xmlns='jabber:x:data' type='submit'><field var='{field}'>{values}</field></x>");
        let form = xmpp::xml::parse_stored(form.as_bytes()).unwrap();
        SubscriptionOptions::default().with_form(&form, &scope(has_all)).ok()
    }

    #[test]
    fn each_field_takes_the_values_of_its_registry() {
        assert!(!with("pubsub#deliver", &["false"], false).unwrap().delivers);
        assert_eq!(with("pubsub#deliver", &["perhaps"], false), None);
        let later = time::stamp(NOW + Duration::from_secs(60));
        let expiry = |value: &str| with("pubsub#expire", &[value], true).map(|options| options.expiry);
        assert_eq!(expiry(&later), Some(Some(Expiry::At(NOW + Duration::from_secs(60)))));
        assert_eq!(expiry("presence"), Some(Some(Expiry::Presence(NOW))));
        assert_eq!(with("pubsub#expire", &["presence"], false), None, "the presence is not known");
        assert_eq!(expiry(""), Some(None));
        for wrong in ["tomorrow", "2027-01-15", &time::stamp(NOW)] {
            assert_eq!(expiry(wrong), None, "{wrong}");
        }
        let shows = with("pubsub#show-values", &["chat", "online"], true).unwrap().shows;
        assert!(shows.has(Show::Chat) && shows.has(Show::Online) && !shows.has(Show::Away));
        assert_eq!(with("pubsub#show-values", &["busy"], true), None);
        assert_eq!(with("pubsub#show-values", &[], true), None);
        let ignored = Some(SubscriptionOptions::default());
        assert_eq!(with("pubsub#show-values", &["chat"], false), ignored, "the form has no such field");
        assert_eq!(with("pubsub#digest", &["1"], true), ignored);
        assert!(with("pubsub#include_body", &["1"], true).unwrap().with_body);
        assert_eq!(with("pubsub#include_body", &["perhaps"], true), None);
        assert_eq!(with("pubsub#include_body", &["1"], false), ignored, "the form has no such field");
        assert_eq!(with("FORM_TYPE", &["http://jabber.org/protocol/pubsub#node_config"], true), None);
    }

    #[test]
    fn a_lease_has_a_longest_time() {
        let far = time::stamp(NOW + limits::SUBSCRIPTION_LEASE + Duration::from_secs(1));
        let options = with("pubsub#expire", &[&far], false).unwrap();
        assert_eq!(options.expiry, Some(Expiry::At(NOW + limits::SUBSCRIPTION_LEASE)));
    }

    #[test]
    fn options_that_cannot_be_read_are_the_default() {
        let stored = "<subscription xmlns='http://jabber.org/protocol/pubsub#owner' jid='a@x' subscription='subscribed'>\
                      <options xmlns='http://jabber.org/protocol/pubsub'><x xmlns='jabber:x:data'>\
                      <field var='pubsub#deliver'><value>on_monday</value></field>\
                      <field var='pubsub#moon'><value>full</value></field></x></options></subscription>";
        let read = Subscriber::from_element(&xmpp::xml::parse_stored(stored.as_bytes()).unwrap()).unwrap();
        assert_eq!(read, Subscriber::new(Jid::parse("a@x").unwrap(), NodeSubscription::Subscribed));
    }

    proptest! {
        #[test]
        fn a_subscription_is_read_as_it_was_written(
            delivers in any::<bool>(), end in prop::option::of((any::<bool>(), 0..250_000_000_000_u64)),
            with_body in any::<bool>(), shows in any::<[bool; 5]>(), kind in 0..3_usize, depth in any::<Option<u32>>(),
        ) {
            let expiry = end.map(|(is_at, millis)| {
                let at = Instant::from_micros(millis * 1_000);
                if is_at { Expiry::At(at) } else { Expiry::Presence(at) }
            });
            // A set without any value is refused when it is submitted.
            let shows = if shows.contains(&true) { ShowSet(shows) } else { ShowSet::ALL };
            let kind = TYPES[kind].1;
            let options = SubscriptionOptions { delivers, expiry, with_body, shows, kind, depth };
            let jid = Jid::parse("a@x.org/r").unwrap();
            let subscriber = Subscriber { jid, state: NodeSubscription::Pending, options };
            let stored = xmpp::xml::parse_stored(&subscriber.element().to_bytes("")).unwrap();
            prop_assert_eq!(Subscriber::from_element(&stored), Some(subscriber));
        }
    }
}
