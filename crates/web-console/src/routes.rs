//! The table of requests: method and path, the role that they need, their parameters. The OpenAPI document is made of it, and no
//! parameter that is not in it is taken.

use crate::application_routes::{APPLICATION_ROUTES, ApplicationOperation};
use crate::limits;
use crate::parameters::decode;
use crate::role::Role;
use crate::room_routes::{ROOM_ROUTES, RoomOperation};

/// The path before all of them.
pub(crate) const BASE: &str = "/v1/admin";

/// A request of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Session,
    SignIn,
    SignInWays,
    SignOut,
    Overview,
    Calls,
    CallsAsCsv,
    EndCall,
    OpenCalls,
    Registrations,
    EndRegistration,
    BeginTrace,
    Trace,
    Ladder,
    EndTrace,
    Accounts,
    Account,
    AddAccount,
    Invite,
    SetPassword,
    SetDisabled,
    SetDisplayName,
    SetLimits,
    RemoveAccount,
    Aliases,
    AddAlias,
    RemoveAlias,
    Domains,
    AddDomain,
    RemoveDomain,
    RosterGroups,
    RosterGroup,
    Sessions,
    EndSessions,
    Routes,
    AddRoute,
    RemoveRoute,
    TestRoute,
    Blocks,
    LiftBlock,
    Farm,
    FarmMap,
    DrainFarmNode,
    Reload,
    Configuration,
    CheckConfiguration,
    OpenApi,
    /// A request about applications: see `application_routes`.
    Application(ApplicationOperation),
    /// A request about rooms, conferences and queues: see `room_routes`.
    Room(RoomOperation),
}

impl Operation {
    /// The name in the OpenAPI document and in the log.
    pub(crate) fn name(self) -> String {
        match self {
            Operation::Application(operation) => format!("{operation:?}"),
            Operation::Room(operation) => format!("{operation:?}"),
            operation => format!("{operation:?}"),
        }
    }
}

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number {
        max: u64,
    },
    Flag,
    /// An array of texts.
    Texts,
    /// A document of verbs, longer than other texts.
    Document,
    /// A password, or a token, which is longer than other texts.
    Credential,
}

/// A parameter: in the query of a GET, in the JSON object of other requests.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    pub(crate) doc: &'static str,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// Below [`BASE`]; `{name}` is a variable.
    pub(crate) path: &'static str,
    /// None: without a session.
    pub(crate) role: Option<Role>,
    pub(crate) operation: Operation,
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
}

impl Route {
    pub(crate) fn is_change(&self) -> bool {
        self.method != "GET"
    }
}

pub(crate) const fn required(name: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Text, is_required: true, doc }
}

pub(crate) const fn text(name: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Text, is_required: false, doc }
}

pub(crate) const fn number(name: &'static str, max: u64, doc: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Number { max }, is_required: false, doc }
}

pub(crate) const fn flag(name: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Flag, is_required: false, doc }
}

pub(crate) const fn texts(name: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Texts, is_required: false, doc }
}

pub(crate) const fn route(
    method: &'static str,
    path: &'static str,
    (role, operation): (Option<Role>, Operation),
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Route {
    Route { method, path, role, operation, summary, parameters }
}

/// JSON's numbers are exact up to here (RFC 8259 §6).
const ANY: u64 = (1 << 53) - 1;

pub(crate) const LIMIT: Parameter = number("limit", limits::MAX_PAGE as u64, "Rows at most");

const ACCOUNT_LIMITS: [Parameter; 4] = [
    number("max_contacts", u32::MAX as u64, "Registered contacts at once; the configuration's when missing"),
    number("max_calls", u32::MAX as u64, "Calls at once; the configuration's when missing"),
    number("max_rate", u32::MAX as u64, "New calls a second; the configuration's when missing"),
    texts("deny", "Patterns of destinations that the account may not call"),
];

static LIMITS: [Parameter; 4] = ACCOUNT_LIMITS;

static NEW_ACCOUNT: [Parameter; 3] = [
    required("address", "The address of the account, user@domain; without a domain of the default domain"),
    required("password", "Its password; only verifiers of it are stored"),
    text("display_name", "The name for people"),
];

static SIGN_IN: [Parameter; 2] = [
    required("account", "The address of an account with a role"),
    Parameter {
        name: "password",
        kind: Kind::Credential,
        is_required: true,
        doc: "Its password, or a token of the identity provider of its domain",
    },
];

static CALLS: [Parameter; 7] = [
    text("account", "Calls that this account placed or was called by"),
    text("call_id", "The call with this Call-ID"),
    text(
        "text",
        "A part of the caller's or the called address, of the account of either, or of the reason of the end",
    ),
    number("code", 699, "Calls whose INVITE had this final status"),
    number("from", ANY, "Calls that ended then or later, in microseconds since 1970"),
    number(
        "until",
        ANY,
        "Calls that ended then or earlier, in microseconds since 1970: the `next` of the page before. Calls that ended at that time may be on both",
    ),
    LIMIT,
];

static NEW_TRACE: [Parameter; 5] = [
    required(
        "account",
        "The account whose messages are shown; a number or a caller of another domain with `any`",
    ),
    text("call_id", "Only messages with this Call-ID"),
    number("seconds", limits::MAX_TRACE_SECONDS, "The trace ends by itself then; 300 when missing"),
    flag("full", "Whole messages, too; what a password could be guessed from is masked"),
    flag("any", "Also where there is no such account"),
];

static NEW_ROUTE: [Parameter; 12] = [
    required("name", "The name of the route; unique"),
    required("pattern", "number:, prefix:, user:, regex: or domain: and a value"),
    Parameter {
        name: "targets",
        kind: Kind::Texts,
        is_required: true,
        doc: "Targets in their order: sip:HOST or account:user@domain, with ,weight=N and ,priority=N where needed",
    },
    flag("open", "Strangers may use it"),
    flag("probe", "Its targets are watched with OPTIONS"),
    number("strip", 255, "Characters taken off the front of the number"),
    text("prefix", "Digits put in front of the number then"),
    flag("trusted", "Its targets are in the trust domain (RFC 3325)"),
    flag("trust_udp_address", "An address of UDP alone proves its targets"),
    number("max_rate", u32::MAX as u64, "New calls a second"),
    texts("deny", "Patterns of numbers that it does not carry"),
    flag("replace", "Replaces a route of that name; else that is an error"),
];

use Operation as O;

pub(crate) const READ: Option<Role> = Some(Role::ReadOnly);
pub(crate) const OPERATE: Option<Role> = Some(Role::Operator);
pub(crate) const ADMIN: Option<Role> = Some(Role::Admin);

/// All requests.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().chain(&APPLICATION_ROUTES).chain(&ROOM_ROUTES)
}

/// The requests that concern the node, its accounts and their calls.
static ROUTES: [Route; 47] = [
    route(
        "GET",
        "/session",
        (READ, O::Session),
        "The signed-in account, its role and the token of changes",
        &[],
    ),
    route(
        "GET",
        "/sign-in",
        (None, O::SignInWays),
        "The ways to sign in: whether a token may stand in place of a password, and the providers that the page sends users to",
        &[],
    ),
    route("POST", "/session", (None, O::SignIn), "Signs in and sets the cookie of a session", &SIGN_IN),
    route("DELETE", "/session", (READ, O::SignOut), "Ends the session", &[]),
    route(
        "GET",
        "/overview",
        (READ, O::Overview),
        "The state of the node now, and figures of each second",
        &[number("since", ANY, "Figures behind this point; all of the last ten minutes when missing")],
    ),
    route(
        "GET",
        "/calls",
        (READ, O::Calls),
        "Records of calls, those that ended last first. One request looks at 50,000 records at most, so that a page may have few rows and a `next`",
        &CALLS,
    ),
    route(
        "GET",
        "/calls.csv",
        (READ, O::CallsAsCsv),
        "All of them as comma-separated values, 200,000 at most; a file that is cut off says so in its last line, which begins with #",
        &CALLS,
    ),
    route(
        "POST",
        "/calls/end",
        (OPERATE, O::EndCall),
        "Ends a call of an application",
        &[required("call", "The call's SID, as the REST interface has it")],
    ),
    route(
        "GET",
        "/calls/open",
        (READ, O::OpenCalls),
        "The newest 200 calls that have not ended, of all nodes, and the number of all",
        &[text("account", "Calls that this account places or is called by")],
    ),
    route(
        "GET",
        "/registrations",
        (READ, O::Registrations),
        "Registered addresses in their order, with their contacts",
        &[
            text("prefix", "Addresses that begin so"),
            text("after", "The last address of the page before"),
            LIMIT,
        ],
    ),
    route(
        "POST",
        "/registrations/end",
        (OPERATE, O::EndRegistration),
        "Removes a registration as if it had expired; answered once that is in the database",
        &[
            required("address", "The registered address"),
            required("contact", "The URI of the contact, as the list has it"),
        ],
    ),
    route(
        "POST",
        "/traces",
        (OPERATE, O::BeginTrace),
        "Begins to collect the messages of an account, at all nodes",
        &NEW_TRACE,
    ),
    route(
        "GET",
        "/traces/{trace}",
        (OPERATE, O::Trace),
        "Messages of a trace that the same account has begun",
        &[number("since", ANY, "Messages behind this point: the `next` of the answer before")],
    ),
    route(
        "GET",
        "/ladder",
        (OPERATE, O::Ladder),
        "Messages of a recent call, as nodes remember them or as traces of the same account saw them",
        &[required("call_id", "The Call-ID, as the record of the call has it")],
    ),
    route(
        "DELETE",
        "/traces/{trace}",
        (OPERATE, O::EndTrace),
        "Ends a trace; its messages stay for a while",
        &[],
    ),
    route(
        "GET",
        "/accounts",
        (READ, O::Accounts),
        "Accounts in the order of their addresses",
        &[
            text("domain", "Those of this domain"),
            text("prefix", "Those whose names start so"),
            text("after", "The last address of the page before"),
            LIMIT,
        ],
    ),
    route("POST", "/accounts", (OPERATE, O::AddAccount), "Adds an account", &NEW_ACCOUNT),
    route(
        "POST",
        "/invitations",
        (OPERATE, O::Invite),
        "Permits the making of an account of this name, once, from a chat client (XEP-0401)",
        &[required("account", "The address of the new account; it is reserved until the invitation ends")],
    ),
    route(
        "GET",
        "/accounts/{address}",
        (READ, O::Account),
        "An account with its aliases, registrations and sessions",
        &[],
    ),
    route(
        "DELETE",
        "/accounts/{address}",
        (ADMIN, O::RemoveAccount),
        "Removes an account and all that is its",
        &[],
    ),
    route(
        "PUT",
        "/accounts/{address}/password",
        (OPERATE, O::SetPassword),
        "Replaces the password",
        &[required("password", "The new password")],
    ),
    route(
        "PUT",
        "/accounts/{address}/disabled",
        (OPERATE, O::SetDisabled),
        "Disables the account, or enables it again",
        &[Parameter { name: "disabled", kind: Kind::Flag, is_required: true, doc: "True: disabled" }],
    ),
    route(
        "PUT",
        "/accounts/{address}/name",
        (OPERATE, O::SetDisplayName),
        "Replaces the name for people",
        &[text("display_name", "The new name; none when missing")],
    ),
    route(
        "PUT",
        "/accounts/{address}/limits",
        (OPERATE, O::SetLimits),
        "Replaces all limits of the account",
        &LIMITS,
    ),
    route(
        "GET",
        "/aliases",
        (READ, O::Aliases),
        "Further addresses of accounts",
        &[text("account", "Those of this account")],
    ),
    route(
        "POST",
        "/aliases",
        (OPERATE, O::AddAlias),
        "Adds a further address of an account",
        &[required("alias", "The further address"), required("account", "The address of the account")],
    ),
    route(
        "DELETE",
        "/aliases/{alias}",
        (OPERATE, O::RemoveAlias),
        "Removes a further address; the account stays",
        &[],
    ),
    route("GET", "/domains", (READ, O::Domains), "Domains with the number of their accounts", &[]),
    route("POST", "/domains", (ADMIN, O::AddDomain), "Adds a domain", &[required("name", "A host name")]),
    route("DELETE", "/domains/{name}", (ADMIN, O::RemoveDomain), "Removes a domain without accounts", &[]),
    route(
        "GET",
        "/roster-groups",
        (READ, O::RosterGroups),
        "Shared roster groups in the order of the configuration: label, who sees them, the number and the sources of their members",
        &[text("after", "The last group of the page before"), LIMIT],
    ),
    route(
        "GET",
        "/roster-groups/{name}",
        (READ, O::RosterGroup),
        "A shared roster group with its members in the order of their addresses, as this node has them",
        &[text("after", "The last member of the page before"), LIMIT],
    ),
    route(
        "GET",
        "/sessions",
        (READ, O::Sessions),
        "Sessions of chat",
        &[text("address", "Those of an account, or one by its full address")],
    ),
    route(
        "DELETE",
        "/sessions/{address}",
        (OPERATE, O::EndSessions),
        "Ends the sessions of an account, or one by its full address",
        &[],
    ),
    route("GET", "/routes", (READ, O::Routes), "Routes, and the health of probed targets", &[]),
    route("POST", "/routes", (ADMIN, O::AddRoute), "Adds a route", &NEW_ROUTE),
    route("DELETE", "/routes/{name}", (ADMIN, O::RemoveRoute), "Removes a route", &[]),
    route(
        "GET",
        "/route-test",
        (READ, O::TestRoute),
        "Where a call of an account to this number or address would go",
        &[required("to", "A number, a user, or user@domain")],
    ),
    route("GET", "/blocks", (READ, O::Blocks), "Addresses and accounts whose sign-ins are slowed down", &[]),
    route(
        "POST",
        "/blocks/lift",
        (OPERATE, O::LiftBlock),
        "Forgets the failures of an address or for an account",
        &[required("subject", "The address or account, as the list has it")],
    ),
    route(
        "GET",
        "/farm",
        (READ, O::Farm),
        "The farm as the node sees it, null if the node is alone; and the certificate of the node's listeners",
        &[],
    ),
    route(
        "GET",
        "/farm/map",
        (READ, O::FarmMap),
        "The holders of call slots and buckets; null if the node is alone",
        &[],
    ),
    route(
        "GET",
        "/configuration",
        (ADMIN, O::Configuration),
        "The keys of the configuration file as it is now with their defaults; secrets are masked",
        &[],
    ),
    route(
        "POST",
        "/configuration/check",
        (ADMIN, O::CheckConfiguration),
        "The mistakes of the configuration file, and the keys that need a restart; nothing is taken over",
        &[],
    ),
    route(
        "POST",
        "/farm/drain",
        (ADMIN, O::DrainFarmNode),
        "Asks a node of the farm to drain",
        &[required("node", "The name of the node")],
    ),
    route("POST", "/reload", (ADMIN, O::Reload), "Checks the configuration's file and takes it over", &[]),
    route("GET", "/openapi.json", (READ, O::OpenApi), "This document", &[]),
];

/// A request that is in the table.
pub(crate) struct Found {
    pub(crate) route: &'static Route,
    /// The values of the path's variables, decoded.
    pub(crate) variables: Vec<String>,
}

/// Finds the row of a request; a path that is there with other methods is told by them.
pub(crate) fn find(method: &str, path: &str) -> Result<Found, Option<Vec<&'static str>>> {
    let segments: Vec<&str> = path.split('/').skip(1).take(limits::MAX_SEGMENTS + 1).collect();
    let mut methods = Vec::new();
    for route in all() {
        let Some(variables) = matched(route.path, &segments) else { continue };
        if route.method == method {
            return Ok(Found { route, variables });
        }
        methods.push(route.method);
    }
    Err((!methods.is_empty()).then_some(methods))
}

fn matched(pattern: &str, segments: &[&str]) -> Option<Vec<String>> {
    let mut variables = Vec::new();
    let mut parts = pattern.split('/').skip(1);
    for segment in segments {
        let part = parts.next()?;
        if part.starts_with('{') {
            variables.push(decode(segment, false).filter(|text| !text.is_empty())?);
        } else if part != *segment {
            return None;
        }
    }
    parts.next().is_none().then_some(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_method_and_path_with_their_variables() {
        let found = find("PUT", "/accounts/alice%40example.test/password").ok().unwrap();
        assert_eq!(
            (found.route.operation, found.variables),
            (O::SetPassword, vec!["alice@example.test".to_owned()])
        );
        assert_eq!(find("PUT", "/accounts/a/b/c/d").err(), Some(None));
        assert_eq!(find("PATCH", "/accounts").err(), Some(Some(vec!["GET", "POST"])));
        for nowhere in ["", "/", "/nothing", "/accounts/", "/accounts/%zz", "/accounts/%ff", "/session/"] {
            assert_eq!(find("GET", nowhere).err(), Some(None), "{nowhere}");
        }
    }

    #[test]
    fn no_two_rows_are_of_one_request_and_only_sign_in_needs_no_session() {
        for (index, row) in ROUTES.iter().enumerate() {
            let is_same = |other: &Route| (other.method, other.path) == (row.method, row.path);
            assert!(!ROUTES[..index].iter().any(is_same), "{} {}", row.method, row.path);
            let is_of_sign_in = matches!(row.operation, O::SignIn | O::SignInWays);
            assert_eq!(row.role.is_none(), is_of_sign_in, "{} {}", row.method, row.path);
            let is_of_readers = row.role == READ;
            let is_harmless = !row.is_change() || matches!(row.operation, O::SignIn | O::SignOut);
            // A trace shows the contents of messages, the configuration names of accounts and systems: readers see neither.
            let is_kept_from_readers = matches!(row.operation, O::Trace | O::Ladder | O::Configuration);
            let is_open = is_of_readers || row.role.is_none() || is_kept_from_readers;
            assert_eq!(is_open, is_harmless, "{} {}", row.method, row.path);
            assert!(!(is_of_readers && is_kept_from_readers));
        }
    }

    #[test]
    fn the_page_of_log_lines_has_each_action_of_the_audit_log_with_its_role() {
        let page = include_str!("../../../docs/logging.md");
        let (_, table) = page.split_once("| action | least role | subject |\n|---|---|---|\n").unwrap();
        let cells = |line: &str| line.split(" | ").take(2).collect::<Vec<_>>().join(" | ");
        let mut listed: Vec<String> = table.lines().take_while(|line| !line.is_empty()).map(cells).collect();
        let changes = all().filter(|row| row.is_change());
        let mut expected: Vec<String> = changes
            .map(|row| format!("| `{}` | {}", row.operation.name(), row.role.map_or("any", Role::name)))
            .collect();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
    }
}
