//! Messages, presence and questions: their kinds, and the errors that answer them.

use crate::{Element, Jid, limits, ns};

/// RFC 6120 §8.3.3: each condition with its default type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// `bad-request`.
    BadRequest,
    /// `conflict`.
    Conflict,
    /// `feature-not-implemented`.
    FeatureNotImplemented,
    /// `forbidden`.
    Forbidden,
    /// `gone`.
    Gone,
    /// `internal-server-error`.
    InternalServerError,
    /// `item-not-found`.
    ItemNotFound,
    /// `jid-malformed`.
    JidMalformed,
    /// `not-acceptable`.
    NotAcceptable,
    /// `not-allowed`.
    NotAllowed,
    /// `not-authorized`.
    NotAuthorized,
    /// `policy-violation`.
    PolicyViolation,
    /// `recipient-unavailable`.
    RecipientUnavailable,
    /// `redirect`.
    Redirect,
    /// `registration-required`.
    RegistrationRequired,
    /// `remote-server-not-found`.
    RemoteServerNotFound,
    /// `remote-server-timeout`.
    RemoteServerTimeout,
    /// `resource-constraint`.
    ResourceConstraint,
    /// `service-unavailable`.
    ServiceUnavailable,
    /// `subscription-required`.
    SubscriptionRequired,
    /// `undefined-condition`.
    UndefinedCondition,
    /// `unexpected-request`.
    UnexpectedRequest,
}

impl Condition {
    /// As elements are named.
    pub fn as_str(self) -> &'static str {
        self.name_and_kind().0
    }

    /// `auth`, `cancel`, `continue`, `modify` or `wait`.
    pub fn kind(self) -> &'static str {
        self.name_and_kind().1
    }

    fn name_and_kind(self) -> (&'static str, &'static str) {
        match self {
            Condition::BadRequest => ("bad-request", "modify"),
            Condition::Conflict => ("conflict", "cancel"),
            Condition::FeatureNotImplemented => ("feature-not-implemented", "cancel"),
            Condition::Forbidden => ("forbidden", "auth"),
            Condition::Gone => ("gone", "cancel"),
            Condition::InternalServerError => ("internal-server-error", "cancel"),
            Condition::ItemNotFound => ("item-not-found", "cancel"),
            Condition::JidMalformed => ("jid-malformed", "modify"),
            Condition::NotAcceptable => ("not-acceptable", "modify"),
            Condition::NotAllowed => ("not-allowed", "cancel"),
            Condition::NotAuthorized => ("not-authorized", "auth"),
            Condition::PolicyViolation => ("policy-violation", "modify"),
            Condition::RecipientUnavailable => ("recipient-unavailable", "wait"),
            Condition::Redirect => ("redirect", "modify"),
            Condition::RegistrationRequired => ("registration-required", "auth"),
            Condition::RemoteServerNotFound => ("remote-server-not-found", "cancel"),
            Condition::RemoteServerTimeout => ("remote-server-timeout", "wait"),
            Condition::ResourceConstraint => ("resource-constraint", "wait"),
            Condition::ServiceUnavailable => ("service-unavailable", "cancel"),
            Condition::SubscriptionRequired => ("subscription-required", "auth"),
            Condition::UndefinedCondition => ("undefined-condition", "cancel"),
            Condition::UnexpectedRequest => ("unexpected-request", "wait"),
        }
    }
}

/// An error for a stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StanzaError {
    /// The defined condition (RFC 6120 §8.3.3).
    pub condition: Condition,
    /// Where some protocol wants another than the condition's own.
    pub kind: Option<&'static str>,
    /// The description, for people.
    pub text: Option<Box<str>>,
    /// A condition of some protocol's own.
    pub detail: Option<Box<Element>>,
}

impl From<Condition> for StanzaError {
    fn from(condition: Condition) -> Self {
        StanzaError { condition, kind: None, text: None, detail: None }
    }
}

impl StanzaError {
    /// An error with a text.
    pub fn new(condition: Condition, text: &str) -> Self {
        StanzaError { text: Some(text.into()), ..condition.into() }
    }

    /// Adds an application-specific condition.
    #[must_use]
    pub fn with(mut self, detail: Element) -> Self {
        self.detail = Some(Box::new(detail));
        self
    }

    /// The `<error/>` element.
    pub fn element(&self) -> Element {
        let condition = Element::new(self.condition.as_str(), ns::STANZA_ERRORS);
        let kind = self.kind.unwrap_or(self.condition.kind());
        let mut error = Element::new("error", ns::CLIENT).with("type", kind).child(condition);
        if let Some(text) = &self.text {
            error.push(Element::new("text", ns::STANZA_ERRORS).text(&**text));
        }
        error.children(self.detail.as_deref().cloned())
    }
}

/// The error of a stanza that fits as it came, and does not when it is written to a receiver.
pub const TOO_LARGE: &str = "written to others, this stanza is larger than a stanza may be";

/// The three kinds of stanzas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StanzaKind {
    /// `<message/>`.
    Message,
    /// `<presence/>`.
    Presence,
    /// `<iq/>`.
    Iq,
}

/// The stanza kind of an element; `None` if it is not a stanza.
pub fn kind_of(element: &Element) -> Option<StanzaKind> {
    if element.ns() != ns::CLIENT {
        return None;
    }
    match element.name() {
        "message" => Some(StanzaKind::Message),
        "presence" => Some(StanzaKind::Presence),
        "iq" => Some(StanzaKind::Iq),
        _ => None,
    }
}

/// The language of a stream's stanzas, if its header names one (RFC 6120 §4.7.4). A value that is not a
/// language tag is ignored: it would be added to each stanza.
pub fn stream_lang(header: &Element) -> Option<Box<str>> {
    let is_tag = |lang: &&str| {
        let of_tag = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=limits::LANG).contains(&lang.len()) && lang.bytes().all(of_tag)
    };
    header.lang().filter(is_tag).map(Box::from)
}

/// A header with version 1.0 or later: of two versions the lower one is spoken (RFC 6120 §4.7.5).
pub fn is_version_one(header: &Element) -> bool {
    let major = header.attr("version").and_then(|version| version.split_once('.'));
    major.and_then(|(major, _)| major.parse::<u32>().ok()).is_some_and(|major| major >= 1)
}

/// A stanza that says no language has that of the stream it came by (RFC 6120 §8.1.5): its recipient is on
/// another stream.
pub fn inherit_lang(stanza: &mut Element, of_stream: Option<&str>) {
    if let Some(lang) = of_stream
        && stanza.lang().is_none()
    {
        stanza.set_ns("lang", ns::XML, lang);
    }
}

/// True if it may be answered by an error: an error never is, nor the answer to a question.
pub fn may_be_refused(stanza: &Element) -> bool {
    !matches!(stanza.attr("type"), Some("error" | "result"))
}

/// The same stanza back to its sender with an error; its content is left out but for a message's body, as most do.
pub fn refusal(stanza: &Element, error: &StanzaError) -> Element {
    let name = match stanza.name() {
        "message" => "message",
        "presence" => "presence",
        _ => "iq",
    };
    Element::new(name, ns::CLIENT)
        .with("type", "error")
        .with_opt("id", stanza.attr("id"))
        .with_opt("to", stanza.attr("from"))
        .with_opt("from", stanza.attr("to"))
        .child(error.element())
}

/// The answer to a question.
pub fn result(iq: &Element, payload: Option<Element>) -> Element {
    Element::new("iq", ns::CLIENT)
        .with("type", "result")
        .with_opt("id", iq.attr("id"))
        .with_opt("to", iq.attr("from"))
        .with_opt("from", iq.attr("to"))
        .children(payload)
}

/// The address in `to`.
///
/// # Errors
/// When it is there and is none.
pub fn to(stanza: &Element) -> Result<Option<Jid>, crate::jid::JidMalformed> {
    stanza.attr("to").map(Jid::parse).transpose()
}

/// The address in `from`.
///
/// # Errors
/// When it is there and is none.
pub fn from(stanza: &Element) -> Result<Option<Jid>, crate::jid::JidMalformed> {
    stanza.attr("from").map(Jid::parse).transpose()
}
