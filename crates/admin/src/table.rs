//! The table of handlers: what is routed, what its parameters are, and what the OpenAPI document says.
//!
//! A [`Route`] is the one place where an operation is described: routing (`find`), the check of parameters ([`Route`]'s `check`) and the OpenAPI
//! document all read it. The examples of [`Shape`] are written by the same functions as the answers, so that their fields cannot differ.

use store::rest::types::RestAccount;

use crate::control::{Audio, Encoding};
use crate::date;
use crate::fault::Fault;
use crate::limits;
use crate::nodes::NodesAnswered;
use crate::request::{Base, Format, Request};
use crate::resources;
use crate::service::State;
use crate::value::Value;

/// The values that a parameter may have; checked before the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text of at most `limits::MAX_VALUE` bytes.
    Text,
    /// An absolute http(s) URL, a path on this server, or empty: none.
    Url,
    /// `GET` or `POST`.
    Method,
    /// A whole number; an empty value counts as not given.
    Int {
        /// The least value.
        min: u32,
        /// The greatest value.
        max: u32,
    },
    /// `true` or `false`, in any case.
    Bool,
    /// ISO 8601: a day, or a time of it.
    Date,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A document of verbs.
    Document,
    /// A parameter of Twilio's that has no effect here: 501, unless it is empty or one of these values, which ask for
    /// nothing else than what is done.
    Unsupported(&'static [&'static str]),
}

/// A parameter of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Twilio's or RestComm's name, in CamelCase.
    pub name: &'static str,
    /// The values that it may have.
    pub kind: Kind,
}

/// One operation.
pub struct Route {
    /// The method of HTTP.
    pub method: &'static str,
    /// Below the base, without a suffix: `/Accounts/{AccountSid}/Calls`.
    pub path: &'static str,
    /// One phrase for the OpenAPI document.
    pub summary: &'static str,
    /// Groups of parameters; several operations share a group.
    pub parameters: &'static [&'static [Parameter]],
    /// The shape of the answer when the operation succeeds.
    pub answer: Shape,
    /// Runs after the sign-in and the check of the parameters.
    pub(crate) handler: fn(&Context<'_>) -> Result<Answer, Fault>,
}

/// The answer of an operation that succeeds.
#[derive(Clone, Copy)]
pub enum Shape {
    /// The status, and an example with every field.
    Item(u16, &'static str, fn() -> Value),
    /// The key of the list, and an example of an item.
    List(&'static str, fn() -> Value),
    /// A list of all nodes of a farm, which says how many of them answered.
    FarmList(&'static str, fn() -> Value),
    /// 204.
    Nothing,
}

/// The result of a handler.
pub(crate) enum Answer {
    /// In XML the element's name.
    Item(u16, &'static str, Value),
    /// A page of a list.
    List(Box<List>),
    /// 204.
    Nothing,
    /// A file of sound.
    Audio(Audio),
    /// Sound that is ready once the future is.
    Encoding(Encoding),
}

/// A page. Names are those of the JSON key and of an item's element.
pub(crate) struct List {
    pub(crate) key: &'static str,
    pub(crate) item: &'static str,
    pub(crate) values: Vec<Value>,
    pub(crate) page: u32,
    pub(crate) page_size: u32,
    pub(crate) total: u64,
    /// The nodes of the farm that answered; none where the list is of one node, or of the database.
    pub(crate) nodes: Option<NodesAnswered>,
}

/// A request on its way through a handler.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a State,
    pub(crate) request: &'a Request,
    pub(crate) route: &'static Route,
    /// The values of the path's variables, in order.
    pub(crate) variables: Vec<&'a str>,
    /// The account that the path names, or the signer where the path names none.
    pub(crate) account: RestAccount,
    /// The account that has signed in.
    pub(crate) signer: RestAccount,
    /// True if it signed in by an API key or a token of an identity provider, not by its own token.
    pub(crate) is_by_key: bool,
}

impl<'a> Context<'a> {
    /// The last value of a parameter that the route knows. Empty is given, too.
    pub(crate) fn given(&self, name: &str) -> Option<&'a str> {
        debug_assert!(self.route.knows(name), "{} {} lacks {name}", self.route.method, self.route.path);
        self.request.parameters.iter().rev().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.given(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// All values of a parameter that may be repeated, in order.
    pub(crate) fn all(&self, name: &'static str) -> impl Iterator<Item = &'a str> {
        let parameters = self.request.parameters.iter();
        parameters.filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// `true` in any case; `None` if it was not given. The route's check has refused other words.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A number that the route's check has found in its range; `None` if it was not given.
    pub(crate) fn int(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }

    /// Sets a field from a parameter when that is given.
    pub(crate) fn set(&self, name: &str, field: &mut String) {
        if let Some(value) = self.given(name) {
            value.trim().clone_into(field);
        }
    }

    pub(crate) fn base(&self) -> Base {
        self.request.base
    }

    /// The path of a resource of this account, with the suffix of this answer.
    pub(crate) fn uri(&self, rest: &str) -> String {
        self.uri_of(&self.account.common.sid, rest)
    }

    /// The same for another account. XML has no suffix, as at Twilio.
    pub(crate) fn uri_of(&self, account: &str, rest: &str) -> String {
        let suffix = if self.request.format == Format::Xml { "" } else { ".json" };
        format!("{}/Accounts/{account}{rest}{suffix}", self.base().prefix())
    }
}

impl Route {
    /// True if the route has the parameter.
    fn knows(&self, name: &str) -> bool {
        self.parameters.iter().copied().flatten().any(|parameter| parameter.name == name)
    }

    /// True if an account's token is needed: accounts and keys are not managed with a key.
    pub(crate) fn is_for_tokens(&self) -> bool {
        let below = self.path.strip_prefix("/Accounts").map(|rest| rest.trim_start_matches("/{AccountSid}"));
        below.is_some_and(|below| matches!(below.split('/').nth(1), None | Some("Keys" | "SigningKeys")))
    }

    /// The variables of a path that is this route's.
    fn variables<'a>(&self, segments: &'a [String]) -> Option<Vec<&'a str>> {
        let mut pattern = self.path.split('/').skip(1);
        let mut variables = Vec::new();
        for segment in segments {
            match pattern.next()? {
                variable if variable.starts_with('{') => variables.push(segment.as_str()),
                fixed if fixed == segment => {}
                _ => return None,
            }
        }
        pattern.next().is_none().then_some(variables)
    }

    /// Checks the values of all known parameters before the handler runs.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Fault> {
        for (name, value) in &request.parameters {
            let known = self.parameters.iter().copied().flatten().find(|known| known.name == name);
            // Parameters that Twilio does not document are passed over, as at Twilio: libraries grow faster than servers.
            if let Some(parameter) = known {
                parameter.check(value)?;
            }
        }
        Ok(())
    }
}

impl Parameter {
    /// Checks one value by its kind.
    fn check(&self, value: &str) -> Result<(), Fault> {
        let name = self.name;
        if let Kind::Unsupported(harmless) = self.kind {
            let is_harmless = value.is_empty() || harmless.iter().any(|one| one.eq_ignore_ascii_case(value));
            let fault = || Fault::new(501, 20501, format!("{name} is not implemented"));
            return if is_harmless { Ok(()) } else { Err(fault()) };
        }
        let most = if self.kind == Kind::Document { limits::MAX_DOCUMENT } else { limits::MAX_VALUE };
        if value.len() > most {
            return Err(Fault::invalid(20400, format!("{name} is longer than {most} bytes")));
        }
        // An empty value counts as not given, except that it clears a field of a resource. Codes are Twilio's.
        let (good, code, expected) = match self.kind {
            Kind::Text | Kind::Document | Kind::Unsupported(_) => (true, 0, String::new()),
            Kind::Url => (is_url(value), 21205, "an http or https URL".to_owned()),
            Kind::Method => {
                let good = ["", "GET", "POST"].iter().any(|method| method.eq_ignore_ascii_case(value));
                (good, 21209, "GET or POST".to_owned())
            }
            Kind::Int { min, max } => {
                let good =
                    value.is_empty() || value.parse().is_ok_and(|value: u32| min <= value && value <= max);
                (good, 20400, format!("a whole number from {min} to {max}"))
            }
            Kind::Bool => {
                let good = ["", "true", "false"].iter().any(|truth| truth.eq_ignore_ascii_case(value));
                (good, 20400, "true or false".to_owned())
            }
            Kind::Date => {
                let good = value.is_empty() || date::parse(value).is_some();
                (good, 20400, "a date such as 2026-11-21 or 2026-11-21T12:00:00Z".to_owned())
            }
            Kind::Choice(of) => (value.is_empty() || of.contains(&value), 20400, of.join(", ")),
        };
        if good {
            Ok(())
        } else {
            Err(Fault::invalid(code, format!("{name} {value:?}: expected {expected}")))
        }
    }
}

/// COMPAT(RestComm): its tutorials bind `/restcomm/demos/hello-play.xml`, a path on the server itself.
fn is_url(text: &str) -> bool {
    let host = ["http://", "https://"].iter().find_map(|scheme| {
        let start = text.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
    });
    let clean = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    clean
        && (text.is_empty()
            || text.starts_with('/')
            || host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')))
}

/// All operations of both names of the one interface, resource by resource.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    resources::TABLES.iter().copied().flatten()
}

/// Those of our own base.
pub fn own_routes() -> impl Iterator<Item = &'static Route> {
    resources::chat::ROUTES.iter()
}

/// The result of looking a path and method up.
pub(crate) enum Found<'a> {
    /// The operation, and the values of the path's variables.
    Route(&'static Route, Vec<&'a str>),
    /// The path is known with other methods: these.
    Methods(Vec<&'static str>),
    /// The path is not known.
    Nothing,
}

/// The first route of the table whose path fits.
pub(crate) fn find(request: &Request) -> Found<'_> {
    let mut methods = Vec::new();
    let own = (request.base == Base::Belfry).then(own_routes).into_iter().flatten();
    let common = (request.base != Base::Belfry).then(routes).into_iter().flatten();
    for route in own.chain(common) {
        if let Some(variables) = route.variables(&request.segments) {
            // COMPAT(RestComm): its clients update with PUT as well as POST.
            if route.method == request.method || (route.method == "POST" && request.method == "PUT") {
                return Found::Route(route, variables);
            }
            methods.push(route.method);
        }
    }
    if methods.is_empty() { Found::Nothing } else { Found::Methods(methods) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_http_or_a_path_of_ours() {
        for good in ["", "http://a", "HTTPS://a/b?c=d", "/restcomm/demos/hello-play.xml"] {
            assert!(is_url(good), "{good}");
        }
        for wrong in ["ftp://a", "a.xml", "http://", "http:///x", "http://a b", "javascript:1", "http://a\n"]
        {
            assert!(!is_url(wrong), "{wrong}");
        }
    }

    #[test]
    fn no_two_routes_are_the_same_and_paths_are_well_formed() {
        let mut seen = std::collections::HashSet::new();
        for route in routes() {
            assert!(seen.insert((route.method, route.path)), "{} {}", route.method, route.path);
            assert!(route.path.starts_with("/Accounts"), "{}", route.path);
        }
        for route in own_routes() {
            assert!(seen.insert((route.method, route.path)), "{} {}", route.method, route.path);
            assert!(route.path.starts_with("/xmpp/"), "{}", route.path);
        }
        assert!(seen.len() > 70);
    }

    #[test]
    fn accounts_and_keys_need_a_token_and_nothing_else_does() {
        let needing: std::collections::BTreeSet<_> = routes()
            .chain(own_routes())
            .filter(|route| route.is_for_tokens())
            .map(|route| route.path)
            .collect();
        let expected = [
            "/Accounts",
            "/Accounts/{AccountSid}",
            "/Accounts/{AccountSid}/Keys",
            "/Accounts/{AccountSid}/Keys/{Sid}",
            "/Accounts/{AccountSid}/SigningKeys",
            "/Accounts/{AccountSid}/SigningKeys/{Sid}",
        ];
        assert_eq!(Vec::from_iter(needing), expected);
    }

    /// The parameters that Twilio's API reference has of the operations that place, change and send something, as of its
    /// version 2010-04-01: each is either supported or refused by name.
    const TWILIO: &[(&str, &str)] = &[
        (
            "/Accounts/{AccountSid}/Calls",
            "To From Method FallbackUrl FallbackMethod StatusCallback StatusCallbackEvent StatusCallbackMethod \
             SendDigits Timeout Record RecordingChannels RecordingStatusCallback RecordingStatusCallbackMethod \
             SipAuthUsername SipAuthPassword MachineDetection MachineDetectionTimeout RecordingStatusCallbackEvent \
             Trim CallerId MachineDetectionSpeechThreshold MachineDetectionSpeechEndThreshold \
             MachineDetectionSilenceTimeout AsyncAmd AsyncAmdStatusCallback AsyncAmdStatusCallbackMethod Byoc \
             CallReason CallToken RecordingTrack TimeLimit ClientNotificationUrl Url Twiml ApplicationSid",
        ),
        (
            "/Accounts/{AccountSid}/Calls/{Sid}",
            "Url Method Status FallbackUrl FallbackMethod StatusCallback StatusCallbackMethod Twiml TimeLimit",
        ),
        (
            "/Accounts/{AccountSid}/Calls/{CallSid}/Recordings",
            "RecordingStatusCallbackEvent RecordingStatusCallback RecordingStatusCallbackMethod Trim \
             RecordingChannels RecordingTrack",
        ),
        ("/Accounts/{AccountSid}/Calls/{CallSid}/Recordings/{Sid}", "Status PauseBehavior"),
        ("/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Recordings/{Sid}", "Status PauseBehavior"),
        ("/Accounts/{AccountSid}/Conferences/{Sid}", "Status AnnounceUrl AnnounceMethod"),
        (
            "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Participants",
            "From To StatusCallback StatusCallbackMethod StatusCallbackEvent Label Timeout Record Muted Beep \
             StartConferenceOnEnter EndConferenceOnExit WaitUrl WaitMethod EarlyMedia MaxParticipants \
             ConferenceRecord ConferenceTrim ConferenceStatusCallback ConferenceStatusCallbackMethod \
             ConferenceStatusCallbackEvent RecordingChannels RecordingStatusCallback \
             RecordingStatusCallbackMethod SipAuthUsername SipAuthPassword Region \
             ConferenceRecordingStatusCallback ConferenceRecordingStatusCallbackMethod \
             RecordingStatusCallbackEvent ConferenceRecordingStatusCallbackEvent Coaching CallSidToCoach \
             JitterBufferSize Byoc CallerId CallReason RecordingTrack TimeLimit MachineDetection \
             MachineDetectionTimeout MachineDetectionSpeechThreshold MachineDetectionSpeechEndThreshold \
             MachineDetectionSilenceTimeout AmdStatusCallback AmdStatusCallbackMethod Trim CallToken \
             ClientNotificationUrl CallerDisplayName",
        ),
        (
            "/Accounts/{AccountSid}/Conferences/{ConferenceSid}/Participants/{CallSid}",
            "Muted Hold HoldUrl HoldMethod AnnounceUrl AnnounceMethod WaitUrl WaitMethod BeepOnExit \
             EndConferenceOnExit Coaching CallSidToCoach",
        ),
        (
            "/Accounts/{AccountSid}/Messages",
            "To StatusCallback ApplicationSid MaxPrice ProvideFeedback Attempt ValidityPeriod ForceDelivery \
             ContentRetention AddressRetention SmartEncoded PersistentAction TrafficType ShortenUrls ScheduleType \
             SendAt SendAsMms ContentVariables RiskCheck From MessagingServiceSid Body MediaUrl ContentSid",
        ),
        (
            "/Accounts/{AccountSid}/IncomingPhoneNumbers",
            "FriendlyName SmsApplicationSid SmsFallbackMethod SmsFallbackUrl SmsMethod SmsUrl StatusCallback \
             StatusCallbackMethod VoiceApplicationSid VoiceCallerIdLookup VoiceFallbackMethod VoiceFallbackUrl \
             VoiceMethod VoiceUrl EmergencyStatus EmergencyAddressSid TrunkSid IdentitySid AddressSid \
             VoiceReceiveMode BundleSid PhoneNumber AreaCode",
        ),
        (
            "/Accounts/{AccountSid}/OutgoingCallerIds",
            "PhoneNumber FriendlyName CallDelay Extension StatusCallback StatusCallbackMethod",
        ),
        ("/Accounts/{AccountSid}/Queues", "FriendlyName MaxSize"),
        ("/Accounts/{AccountSid}/Queues/{QueueSid}/Members/{CallSid}", "Url Method"),
    ];

    #[test]
    fn each_parameter_of_twilios_is_supported_or_refused_by_name() {
        for (path, names) in TWILIO {
            let route = routes().find(|route| route.method == "POST" && route.path == *path);
            let route = route.unwrap_or_else(|| panic!("no POST {path}"));
            for name in names.split_whitespace() {
                assert!(route.knows(name), "{path}: {name} is passed over in silence");
                let is_it = |parameter: &&Parameter| parameter.name == name;
                let times = route.parameters.iter().copied().flatten().filter(is_it).count();
                assert_eq!(times, 1, "{path}: {name}");
            }
        }
    }
}
