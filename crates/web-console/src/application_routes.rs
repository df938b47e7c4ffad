//! The rows of the table of requests that concern applications: the numbers that they answer, their documents, and recordings.
//!
//! The resources are those of the REST interface. Their URLs may have passwords in them, and recordings have what was said: readers see neither.

use crate::role::Role;
use crate::routes::{
    ADMIN, Kind, LIMIT, OPERATE, Operation, Parameter, READ, Route, flag, number, required, route, text,
    texts,
};

/// A request about applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplicationOperation {
    ApplicationAccounts,
    Numbers,
    AddNumber,
    SetNumber,
    RemoveNumber,
    Applications,
    AddApplication,
    SetApplication,
    RemoveApplication,
    TestDocument,
    Recordings,
    Recording,
    RemoveRecording,
}

use ApplicationOperation as A;

const fn row(
    method: &'static str,
    path: &'static str,
    (role, operation): (Option<Role>, A),
    summary: &'static str,
    parameters: &'static [Parameter],
) -> Route {
    route(method, path, (role, Operation::Application(operation)), summary, parameters)
}

const PAGE: Parameter = number("page", admin::limits::MAX_PAGE as u64, "The number of the page, from 0");
const ACCOUNT: Parameter =
    text("account", "The SID of the account of the REST interface; the first one when missing");
const OF_ACCOUNT: Parameter = text("account", "Those of the account with this SID");

static LIST: [Parameter; 3] = [OF_ACCOUNT, PAGE, LIMIT];

static RECORDINGS: [Parameter; 4] =
    [OF_ACCOUNT, text("call", "Those of the call with this SID"), PAGE, LIMIT];

/// The settings of a number.
static NUMBER: [Parameter; 8] = [
    ACCOUNT,
    required("number", "A number, a name, or a regular expression over whole numbers"),
    text("name", "The name for people"),
    text("voice_url", "Where the first document of a call is fetched"),
    text("voice_method", "GET or POST; POST when missing"),
    text("voice_fallback_url", "Asked when that document cannot be had or read"),
    text("voice_application", "The SID of an application whose URLs replace these"),
    text("status_callback", "Told when a call ends"),
];

/// The settings of an application.
static APPLICATION: [Parameter; 6] = [
    ACCOUNT,
    required("name", "The name of the application"),
    text("voice_url", "Where the first document of a call is fetched"),
    text("voice_method", "GET or POST; POST when missing"),
    text("voice_fallback_url", "Asked when that document cannot be had or read"),
    text("status_callback", "Told when a call ends"),
];

static TEST: [Parameter; 8] = [
    Parameter {
        name: "document",
        kind: Kind::Document,
        is_required: false,
        doc: "The document itself, instead of a URL or a number",
    },
    text("url", "The URL of the first document"),
    text("method", "GET or POST; POST when missing"),
    text("number", "The SID of a number: its documents, as a call to it would get them"),
    text("from", "The caller that applications are told; +15550100 when missing"),
    texts(
        "inputs",
        "What the caller enters at one Gather after another: keys, or other words as speech; empty: nothing",
    ),
    text("dial", "The outcome of each Dial: completed, busy, no-answer or failed; completed when missing"),
    flag("follow", "Fetches the documents that follow, too; else the test ends at the first request"),
];

/// The requests.
pub(crate) static APPLICATION_ROUTES: [Route; 13] = [
    row(
        "GET",
        "/application-accounts",
        (READ, A::ApplicationAccounts),
        "Accounts of the REST interface, which own numbers, applications and recordings",
        &[PAGE, LIMIT],
    ),
    row("GET", "/numbers", (OPERATE, A::Numbers), "Numbers that applications answer, newest first", &LIST),
    row("POST", "/numbers", (ADMIN, A::AddNumber), "Binds a number to an application", &NUMBER),
    row("PUT", "/numbers/{sid}", (ADMIN, A::SetNumber), "Replaces the settings of a number", &NUMBER),
    row("DELETE", "/numbers/{sid}", (ADMIN, A::RemoveNumber), "Unbinds a number", &[]),
    row("GET", "/applications", (OPERATE, A::Applications), "Applications, newest first", &LIST),
    row("POST", "/applications", (ADMIN, A::AddApplication), "Adds an application", &APPLICATION),
    row(
        "PUT",
        "/applications/{sid}",
        (ADMIN, A::SetApplication),
        "Replaces the settings of an application",
        &APPLICATION,
    ),
    row("DELETE", "/applications/{sid}", (ADMIN, A::RemoveApplication), "Removes an application", &[]),
    row(
        "POST",
        "/documents/test",
        (OPERATE, A::TestDocument),
        "The steps of a call that is not made: what the caller would hear, and what would be asked of applications",
        &TEST,
    ),
    row("GET", "/recordings", (READ, A::Recordings), "Recordings, newest first", &RECORDINGS),
    row(
        "GET",
        "/recordings/{sid}/sound.wav",
        (OPERATE, A::Recording),
        "The sound of a recording, whole or the range of bytes that the request names",
        &[],
    ),
    row(
        "DELETE",
        "/recordings/{sid}",
        (ADMIN, A::RemoveRecording),
        "Removes a recording with its sound",
        &[],
    ),
];
