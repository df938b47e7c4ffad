//! The application that answers each number, and its account: bindings of the REST interface first, then the
//! configuration's.
//!
//! [`Numbers`] is built whole from the record and the configuration, and shared by all shards; a change of a
//! binding builds it anew. `decide` is asked for each INVITE before the routing plan, so a look-up must be
//! cheap: names longer than `limits::NUMBER` are not tried on patterns.

use std::collections::HashMap;
use std::sync::Arc;

use admin::Repository;
use ivr::document::Callback;
use ivr::request::{Method, Target, resolve};
use ivr::script::{Plan, Role, Start};
use sip::endpoint::{Caller, Decision, PlanRequest};
use store::rest::types::{Application, Hook, IncomingNumber, RestAccount};
use store::rest::{Resource, RestFilter, RestLoaded, RestRead};
use store::{Loaded, Read, StoreError};

use super::caller_ids::CallerIds;
use super::queue_rows::QueueRows;
use super::settings::{ConfiguredNumber, NumberSettings};
use super::{Owner, limits};

/// The numbers of all shards; read-only once made, and made anew when a binding changes.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Bindings by number and pattern.
    bound: admin::numbers::Numbers,
    /// The answer of each binding, by its sid. One without an application has none: calls go on as if it was
    /// not bound.
    by_binding: HashMap<Box<str>, Arc<Answers>>,
    /// `[voice]`'s numbers, without their plus.
    configured: HashMap<Box<str>, Arc<Answers>>,
    /// Strangers may call numbers of applications.
    open: bool,
    pub(super) caller_ids: CallerIds,
    pub(super) queues: QueueRows,
}

/// The shard's knowledge about the caller of a request, besides what the request says.
#[derive(Clone, Copy)]
pub struct CallerStanding<'a> {
    /// A caller that claims an account of ours has to prove it.
    pub is_proof_required: bool,
    /// True if a trunk has sent the request. Called for numbers of applications only.
    pub is_trunk: &'a dyn Fn() -> bool,
}

/// The application that answers a called number, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredNumber {
    /// The number as it is bound or configured; a pattern where that matches.
    pub number: String,
    /// The SID of the binding; none: the number is of the configuration.
    pub binding: Option<Box<str>>,
    /// The URL of the first document. It may have a password in it.
    pub url: String,
    /// The SID of the account on whose behalf the application is asked.
    pub account: Box<str>,
    /// The account, or one above it, is not active: calls are refused.
    pub is_suspended: bool,
}

/// The owner of a number, and the plan that answers it.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) owner: Arc<Owner>,
    pub(super) plan: Plan,
    /// The sid of the binding; empty: the number is of the configuration.
    pub(super) number: Box<str>,
    /// The account, or one above it, is not active.
    is_suspended: bool,
}

/// Accounts and applications as the record has them, by sid: only for the time of building.
#[derive(Default)]
struct Directory {
    accounts: HashMap<String, RestAccount>,
    applications: HashMap<String, Application>,
}

impl Directory {
    /// An account is as active as all above it. An account that is not in the record is not suspended.
    fn is_suspended(&self, sid: &str) -> bool {
        // Bounded, as a damaged record could have a circle of parents.
        let mut above = Some(sid);
        for _ in 0..admin::limits::MAX_DEPTH {
            let Some(account) = above.and_then(|sid| self.accounts.get(sid)) else { break };
            if account.status != "active" {
                return true;
            }
            above = account.parent.as_deref();
        }
        false
    }

    /// The answer to a binding: its application where it names one, else its own URL.
    fn answers(&self, number: &IncomingNumber) -> Option<Answers> {
        let account = self.accounts.get(&number.common.account)?;
        let application = self.applications.get(&number.voice.application_sid);
        // An application of another account is not used, even if a binding names it.
        let application = application.filter(|application| application.common.account == account.common.sid);
        Some(Answers {
            owner: Arc::new(owner_of(account)),
            plan: plan_of_binding(number, application)?,
            number: number.common.sid.as_str().into(),
            is_suspended: self.is_suspended(&account.common.sid),
        })
    }
}

/// The owner on whose behalf an account's applications are requested, with the key that signs their requests.
pub fn owner_of(account: &RestAccount) -> Owner {
    Owner { account: account.common.sid.as_str().into(), signing_key: account.signing_key.as_str().into() }
}

/// The plan by which a bound number answers: that of its application, which is of the same account, else its own URL. `None`: neither
/// has a document.
pub fn plan_of_binding(number: &IncomingNumber, application: Option<&Application>) -> Option<Plan> {
    let mut plan = application.and_then(plan_of_application).or_else(|| plan_of_hook(&number.voice))?;
    if let Some(status) = callback(&number.status_callback, &number.status_callback_method) {
        plan.status = Some(status);
    }
    Some(plan)
}

/// The plan by which an application answers: its voice URL, else RestComm's `RcmlUrl`; `None`: it has no
/// document.
pub fn plan_of_application(application: &Application) -> Option<Plan> {
    let document = Hook { url: application.rcml_url.clone(), ..Hook::default() };
    let mut plan = plan_of_hook(&application.voice).or_else(|| plan_of_hook(&document))?;
    plan.status = callback(&application.status_callback, &application.status_callback_method);
    Some(plan)
}

/// The plan of a URL with its fallback. Without a usable URL there is none, whatever the fallback is.
fn plan_of_hook(hook: &Hook) -> Option<Plan> {
    let start = target(&hook.url, &hook.method)?;
    Some(Plan { fallback: target(&hook.fallback_url, &hook.fallback_method), ..plan_of(Start::Url(start)) })
}

/// The plan of a call of its own that begins so, with no fallback, callback or limit.
pub fn plan_of(start: Start) -> Plan {
    Plan { role: Role::Call, start, fallback: None, status: None, answer_on_bridge: false, time_limit: None }
}

/// A target of HTTP. `None`: no absolute URL of HTTP. A method that is not known counts as POST.
pub fn target(url: &str, method: &str) -> Option<Target> {
    let url = resolve(None, url, &["http", "https"])?;
    Some(Target { url, method: Method::parse(method).unwrap_or_default() })
}

/// The status callback of a number is told the end of a call, as at Twilio and RestComm.
fn callback(url: &str, method: &str) -> Option<Callback> {
    Some(Callback { target: target(url, method)?, events: vec!["completed"] })
}

/// All resources of a kind, read page by page.
pub fn all<T: Resource>(repository: &dyn Repository) -> Result<Vec<T>, StoreError> {
    matching(repository, &RestFilter::all(T::KIND))
}

/// All resources that match, read page by page.
pub(super) fn matching<T: Resource>(
    repository: &dyn Repository,
    filter: &RestFilter,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    loop {
        let filter = RestFilter { offset: found.len() as u64, ascending: true, ..filter.clone() };
        let loaded = repository.read(Read::Rest(RestRead::List(filter)))?;
        let Loaded::Rest(RestLoaded::Page { rows, .. }) = loaded else { return Ok(found) };
        if rows.is_empty() {
            return Ok(found);
        }
        for row in &rows {
            found.push(T::from_row(row)?);
        }
    }
}

impl Numbers {
    /// The numbers as the record has them now, and those of the configuration.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn load(settings: &NumberSettings, repository: &dyn Repository) -> Result<Numbers, StoreError> {
        let accounts = all::<RestAccount>(repository)?.into_iter();
        let applications = all::<Application>(repository)?.into_iter();
        let directory = Directory {
            accounts: accounts.map(|account| (account.common.sid.clone(), account)).collect(),
            applications: applications.map(|found| (found.common.sid.clone(), found)).collect(),
        };
        let mut numbers = Numbers::new(settings, all(repository)?, &directory);
        numbers.caller_ids = CallerIds::new(&settings.account, all(repository)?, all(repository)?);
        numbers.queues = QueueRows::load(repository)?;
        Ok(numbers)
    }

    /// The numbers of a configuration, without a database.
    #[cfg(test)]
    pub(crate) fn of_configuration(settings: &NumberSettings) -> Numbers {
        Numbers::new(settings, Vec::new(), &Directory::default())
    }

    /// Builds the numbers. The first of two entries of the configuration for one number counts.
    fn new(settings: &NumberSettings, bound: Vec<IncomingNumber>, directory: &Directory) -> Numbers {
        // The account of the configuration is in the record, unless there is no REST interface.
        let of_record =
            directory.accounts.get(&*settings.account).map(|account| account.signing_key.as_str().into());
        let signing_key = settings.auth_token.clone().or(of_record).unwrap_or_default();
        let owner = Arc::new(Owner { account: settings.account.clone(), signing_key });
        let is_suspended = directory.is_suspended(&settings.account);
        let mut configured = HashMap::new();
        for number in &settings.numbers {
            configured.entry(number.number.clone()).or_insert_with(|| {
                let owner = Arc::clone(&owner);
                let plan = plan_of_number(number);
                Arc::new(Answers { owner, plan, number: "".into(), is_suspended })
            });
        }
        let by_binding = bound
            .iter()
            .filter_map(|number| Some((number.common.sid.as_str().into(), directory.answers(number)?.into())))
            .collect();
        Numbers {
            bound: admin::numbers::Numbers::new(bound),
            by_binding,
            configured,
            open: settings.open,
            caller_ids: CallerIds::default(),
            queues: QueueRows::default(),
        }
    }

    /// The answer to a called number, with or without a `+`. A binding that has no application gives way to
    /// the configuration.
    pub(super) fn get(&self, user: &str) -> Option<&Arc<Answers>> {
        // A longer name is no number; patterns are not tried on it.
        let bound =
            Some(user).filter(|user| user.len() <= limits::NUMBER).and_then(|user| self.bound.find(user));
        let answers = bound.and_then(|number| self.by_binding.get(number.common.sid.as_str()));
        answers.or_else(|| self.configured.get(user.strip_prefix('+').unwrap_or(user)))
    }

    /// The account whose number that is, also where no application answers it: caller IDs depend on it.
    pub(super) fn owner_of_number(&self, user: &str) -> Option<&str> {
        let bound =
            Some(user).filter(|user| user.len() <= limits::NUMBER).and_then(|user| self.bound.find(user));
        let configured = || self.configured.get(user.strip_prefix('+').unwrap_or(user));
        bound
            .map(|number| number.common.account.as_str())
            .or_else(|| configured().map(|answers| &*answers.owner.account))
    }

    /// True if an application answers that address: one of its numbers, in a domain of ours or at an address
    /// of ours. An empty host is a number alone, as a Dial has it.
    pub(super) fn answers(&self, plan: &call::Plan, user: &str, host: &str, port: Option<u16>) -> bool {
        self.get(user).is_some() && (host.is_empty() || plan.domain_of(host, port).is_some())
    }

    /// The application that a call to that address of ours reaches; none: the routing plan decides.
    pub fn answered(&self, plan: &call::Plan, user: &str, host: &str) -> Option<AnsweredNumber> {
        let answers = self.get(user).filter(|_| self.answers(plan, user, host, None))?;
        let bound = self.bound.find(user).filter(|_| !answers.number.is_empty());
        let Start::Url(target) = &answers.plan.start else { return None };
        Some(AnsweredNumber {
            number: bound
                .map_or(user.strip_prefix('+').unwrap_or(user), |bound| &bound.phone_number)
                .to_owned(),
            binding: bound.map(|bound| bound.common.sid.as_str().into()),
            url: target.url.clone(),
            account: answers.owner.account.clone(),
            is_suspended: answers.is_suspended,
        })
    }

    /// The decision about an INVITE to a number of an application. `None`: no number of an application; the
    /// routing plan decides.
    pub(super) fn decide(
        &self,
        plan: &call::Plan,
        request: &PlanRequest,
        caller: CallerStanding<'_>,
    ) -> Option<Decision> {
        if !self.answers(plan, &request.user, &request.host, request.port) {
            return None;
        }
        let answers = self.get(&request.user)?;
        // A Dial or the REST interface calls this number: the request left by the socket it came in by. No other sender
        // uses that socket, and the kernel takes no datagram from outside that names an address of its own as its
        // source.
        let is_ours = plan.is_own(request.source);
        let is_known = is_ours || matches!(request.caller, Caller::Account(_)) || (caller.is_trunk)();
        // A caller that claims a domain of ours has to prove it, whatever address the request comes from.
        let must_prove = !is_ours
            && !request.is_trusted
            && request.caller == Caller::Stranger
            && request.claims.is_some()
            && caller.is_proof_required;
        let refuse = |reason: &str| Decision::Refuse { status: 403, reason: reason.into() };
        // Suspended comes first: no proof of the caller's changes it.
        Some(if answers.is_suspended {
            refuse("Account Suspended")
        } else if must_prove && !self.open {
            Decision::Authenticate
        } else if is_known || self.open {
            Decision::Agent
        } else {
            refuse("Forbidden")
        })
    }
}

/// The plan of a number of the configuration.
fn plan_of_number(number: &ConfiguredNumber) -> Plan {
    let target = |url: &str| Target { url: url.to_owned(), method: number.method };
    Plan { fallback: number.fallback.as_deref().map(target), ..plan_of(Start::Url(target(&number.url))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURED_ACCOUNT: &str = "AC9";
    const STRANGER: CallerStanding<'_> = CallerStanding { is_proof_required: true, is_trunk: &|| false };

    fn numbers(open: bool) -> Numbers {
        let method = ivr::request::Method::Post;
        let number =
            ConfiguredNumber { number: "1234".into(), url: "http://a/".into(), method, fallback: None };
        let config = NumberSettings { numbers: vec![number], open, ..NumberSettings::default() };
        Numbers::new(&config, Vec::new(), &Directory::default())
    }

    fn plan() -> call::Plan {
        let settings = call::PlanSettings {
            domains: vec!["example.test".into()],
            local: vec!["127.0.0.1:5060".parse().unwrap()],
            ..Default::default()
        };
        call::Plan::new(&settings, Vec::new()).unwrap()
    }

    fn ask(numbers: &Numbers, user: &str, host: &str, caller: Caller, claims: bool) -> Option<Decision> {
        let request = PlanRequest {
            user: user.into(),
            host: host.into(),
            port: None,
            caller,
            claims: claims.then(|| "example.test".into()),
            source: "127.0.0.9:5060".parse().unwrap(),
            transport: sip::transport::Transport::Udp,
            tls_names: None,
            is_trusted: false,
            starts_call: true,
            limits: None,
        };
        numbers.decide(&plan(), &request, STRANGER)
    }

    #[test]
    fn a_call_of_our_own_reaches_a_closed_number_and_its_neighbour_does_not() {
        for (source, expected) in [("127.0.0.1:5060", true), ("127.0.0.1:5061", false)] {
            let request = PlanRequest {
                user: "1234".into(),
                host: "example.test".into(),
                port: None,
                caller: Caller::Stranger,
                claims: None,
                source: source.parse().unwrap(),
                transport: sip::transport::Transport::Udp,
                tls_names: None,
                is_trusted: false,
                starts_call: true,
                limits: None,
            };
            let decision = numbers(false).decide(&plan(), &request, STRANGER);
            assert_eq!(decision == Some(Decision::Agent), expected, "{source}");
        }
    }

    #[test]
    fn a_number_is_reached_in_a_domain_of_ours_or_at_our_address_with_or_without_plus() {
        let numbers = numbers(true);
        for (user, host) in [("1234", "example.test"), ("+1234", "127.0.0.1"), ("1234", "")] {
            assert_eq!(
                ask(&numbers, user, host, Caller::Stranger, false),
                Some(Decision::Agent),
                "{user}@{host}"
            );
        }
        for (user, host) in [("1234", "elsewhere.test"), ("12345", "example.test"), ("", "127.0.0.1")] {
            assert_eq!(ask(&numbers, user, host, Caller::Stranger, false), None, "{user}@{host}");
        }
    }

    #[test]
    fn strangers_reach_open_numbers_only() {
        let closed = numbers(false);
        let decide = |caller, claims| ask(&closed, "1234", "example.test", caller, claims);
        assert!(matches!(decide(Caller::Stranger, false), Some(Decision::Refuse { status: 403, .. })));
        assert_eq!(decide(Caller::Stranger, true), Some(Decision::Authenticate));
        assert_eq!(decide(Caller::Account("a@example.test".into()), true), Some(Decision::Agent));
    }

    fn common(sid: &str, account: &str) -> store::rest::types::Common {
        store::rest::types::Common { sid: sid.into(), account: account.into(), ..Default::default() }
    }

    fn account(sid: &str, parent: Option<&str>, status: &str) -> (String, RestAccount) {
        let account = RestAccount {
            common: common(sid, sid),
            parent: parent.map(str::to_owned),
            friendly_name: String::new(),
            email: String::new(),
            status: status.into(),
            token: store::rest::token::TokenVerifier::of_no_token(),
            signing_key: format!("key of {sid}"),
        };
        (sid.into(), account)
    }

    fn bound(sid: &str, account: &str, number: &str, voice: Hook) -> IncomingNumber {
        let is_pattern = number.contains('.');
        let common = common(sid, account);
        IncomingNumber { common, phone_number: number.into(), is_pattern, voice, ..IncomingNumber::default() }
    }

    fn hook(url: &str, application: &str) -> Hook {
        Hook { url: url.into(), application_sid: application.into(), ..Hook::default() }
    }

    fn rest() -> Numbers {
        let application = Application {
            common: common("AP1", "AC1"),
            voice: Hook {
                method: "GET".into(),
                fallback_url: "http://app/fallback".into(),
                ..hook("http://app/", "")
            },
            status_callback: "http://app/status".into(),
            ..Application::default()
        };
        let directory = Directory {
            accounts: [
                account("AC1", None, "active"),
                account("AC2", Some("AC3"), "active"),
                account("AC3", None, "suspended"),
            ]
            .into(),
            applications: [("AP1".to_owned(), application)].into(),
        };
        let numbers = vec![
            bound("PN1", "AC1", "+1234", hook("http://bound/", "")),
            bound("PN2", "AC1", "+2000", hook("http://unused/", "AP1")),
            bound("PN3", "AC1", "30.*", hook("http://pattern/", "")),
            bound("PN4", "AC2", "+4000", hook("http://suspended/", "")),
            bound("PN5", "AC1", "+5000", hook("/no/host", "")),
            bound("PN6", "AC2", "+6000", hook("", "AP1")),
        ];
        let configured = |number: &str| ConfiguredNumber {
            number: number.into(),
            url: "http://configured/".into(),
            method: Method::Post,
            fallback: None,
        };
        let config = NumberSettings {
            numbers: ["1234", "5000", "7000"].map(configured).into(),
            open: true,
            account: CONFIGURED_ACCOUNT.into(),
            auth_token: None,
        };
        Numbers::new(&config, numbers, &directory)
    }

    fn start(numbers: &Numbers, user: &str) -> Option<String> {
        match &numbers.get(user)?.plan.start {
            Start::Url(target) => Some(format!("{} {}", target.method.as_str(), target.url)),
            Start::Document(_) => None,
        }
    }

    #[test]
    fn bindings_come_before_the_configuration_and_applications_before_urls() {
        let numbers = rest();
        for (user, expected) in [
            ("1234", Some("POST http://bound/")),
            ("+1234", Some("POST http://bound/")),
            ("2000", Some("GET http://app/")),
            ("3055", Some("POST http://pattern/")),
            ("5000", Some("POST http://configured/")),
            ("7000", Some("POST http://configured/")),
            ("6000", None),
            ("8000", None),
        ] {
            assert_eq!(start(&numbers, user).as_deref(), expected, "{user}");
        }
        let long = format!("30{}", "5".repeat(limits::NUMBER));
        assert_eq!(start(&numbers, &long), None);
        let application = numbers.get("2000").unwrap();
        assert_eq!((&*application.owner.account, &*application.owner.signing_key), ("AC1", "key of AC1"));
        assert_eq!(application.plan.fallback, target("http://app/fallback", ""));
        assert_eq!(application.plan.status, callback("http://app/status", "POST"));
        assert_eq!((&*application.number, &*numbers.get("7000").unwrap().number), ("PN2", ""));
    }

    #[test]
    fn an_account_may_show_its_own_and_its_verified_numbers() {
        let mut numbers = rest();
        let vouched = |account: &str, number: &str| store::rest::types::CallerId {
            common: common("PN9", account),
            phone_number: number.into(),
            ..Default::default()
        };
        let client = |account: &str, login: &str| store::rest::types::Client {
            common: common("CL1", account),
            login: login.into(),
            ..Default::default()
        };
        let ids = vec![vouched("AC1", "+15550100"), vouched("AC2", "+15550200")];
        numbers.caller_ids = CallerIds::new("AC1", ids, vec![client("AC2", "eve"), client("AC1", "ann")]);
        let is_ours = |host: &str, _: Option<u16>| host == "example.test";
        for (account, shown, expected) in [
            ("AC1", "1234", true),
            ("AC1", "+1 (234)", true),
            ("AC1", "3099", true),
            ("AC1", "4000", false),
            ("AC2", "4000", true),
            ("AC2", "1234", false),
            ("AC2", "7000", false),
            ("AC1", "1 555 0100", true),
            ("AC2", "+15550100", false),
            ("AC2", "+15550200", true),
            ("AC1", "+4930901820", false),
            ("AC1", "client:ann", true),
            ("AC2", "client:ann", false),
            ("AC2", "eve", true),
            ("AC1", "eve", false),
            ("AC1", "alice", true),
            ("AC2", "alice", false),
            ("AC1", "1001", true),
            ("AC2", "1001", false),
            ("AC1", "sip:alice@example.test", true),
            ("AC1", "sip:alice@bank.test", false),
            ("AC1", "sips:+4930901820@example.test", false),
            ("AC2", "anonymous", true),
        ] {
            assert_eq!(numbers.may_show(account, shown, is_ours), expected, "{account} {shown}");
        }
        // Numbers of the configuration are its account's.
        assert!(numbers.may_show(CONFIGURED_ACCOUNT, "+7000", is_ours));
    }

    #[test]
    fn numbers_of_a_suspended_account_and_of_those_below_it_do_not_answer() {
        let decide = |user: &str| ask(&rest(), user, "example.test", Caller::Stranger, false);
        let refused = Decision::Refuse { status: 403, reason: "Account Suspended".into() };
        assert_eq!(decide("4000"), Some(refused));
        assert_eq!(decide("1234"), Some(Decision::Agent));
    }
}
