//! Requests to the console, with a node that the test plays.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use admin::Source;
use axum::body::{Body, to_bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, Request as HttpRequest, StatusCode};
use control::{AccountRow, Ask, Change, Failure, FailureKind, Listing, Request, Response, Status, TraceSink};
use serde_json::{Value, json};
use stdx::Instant;
use stdx::attempts::Cause;
use store::{Account, AccountLimits, Address, CallPage, CallRecord, CallSearch, Verifiers};
use tower::ServiceExt as _;

use crate::directory::Directory;
use crate::node::Query;
use crate::role::Role;
use crate::routes::{self, Route};
use crate::{
    Applications, AuditLine, Console, ConsoleLog, FailedSignIn, Invitations, NodeQueries, RoleChange, Roles,
    Settings,
};

mod applications;
mod calls;
mod configuration;
mod directory;
mod provider;
mod rooms;
mod tokens;

/// Time that the test moves, and numbers instead of chance.
struct Clock {
    seconds: AtomicU64,
    drawn: AtomicU64,
}

impl Source for Clock {
    fn now(&self) -> Instant {
        Instant::from_unix_seconds(self.seconds.load(Ordering::Relaxed))
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        bytes[..8].copy_from_slice(&number.to_be_bytes());
    }
}

/// Keeps what would be in the log.
struct Noted {
    failures: Arc<Mutex<Vec<Cause>>>,
    audited: Arc<Mutex<Vec<String>>>,
}

impl ConsoleLog for Noted {
    fn sign_in_failed(&self, failed: &FailedSignIn<'_>) {
        self.failures.lock().unwrap().push(failed.cause);
    }

    fn role_changed(&self, change: &RoleChange<'_>) {
        let RoleChange { account, before, after, is_known } = change;
        let [before, after] = [before, after].map(|role| role.map_or("none", Role::name));
        let cause = if *is_known { "groups" } else { "no answer" };
        self.audited.lock().unwrap().push(format!("{account} from {before} to {after} by {cause}"));
    }

    fn audit(&self, line: &AuditLine<'_>) {
        let AuditLine { account, role, action, subject, refused, .. } = line;
        let role = role.map_or("none", Role::name);
        self.audited.lock().unwrap().push(format!("{account} {role} {action} {subject} {refused:?}"));
    }
}

struct World {
    console: Console,
    queries: NodeQueries,
    clock: Arc<Clock>,
    failures: Arc<Mutex<Vec<Cause>>>,
    audited: Arc<Mutex<Vec<String>>>,
    accounts: HashMap<String, Account>,
    /// The database does not answer.
    is_away: bool,
    /// Finished calls: one that ended in each second.
    calls: u64,
    /// The requests to the node, in Rust's debug form.
    requests: Vec<String>,
    /// The sinks of traces that the node performs.
    traces: Vec<TraceSink>,
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
    text: String,
}

/// A signed-in browser.
#[derive(Clone, Default)]
struct Browser {
    cookie: String,
    csrf: String,
}

fn settings() -> Settings {
    let roles = [
        (Role::Admin, "root@example.test"),
        (Role::Operator, "op@example.test"),
        (Role::ReadOnly, "eye@example.test"),
        (Role::Admin, "future@example.test"),
    ];
    Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 5380)),
        origin: None,
        docs: None,
        roles: Roles::new(roles),
        chat_admins: vec![Address::new("chief", "example.test").unwrap()],
        invitations: Some(Invitations {
            good_for: Duration::from_secs(3_600),
            page: Some("https://chat.example.test".into()),
        }),
        default_domain: "example.test".into(),
        idle: Duration::from_secs(600),
        lifetime: Duration::from_secs(3_600),
    }
}

fn account(user: &str, password: &str) -> Account {
    Account {
        id: 1,
        name: user.into(),
        domain: "example.test".into(),
        display_name: "".into(),
        verifiers: Verifiers::from_password(user, "example.test", password),
        disabled: false,
        limits: AccountLimits::default(),
        created_at: Instant::default(),
    }
}

fn world() -> World {
    world_with(Applications::default())
}

fn world_with(applications: Applications) -> World {
    world_of(applications, None)
}

fn world_of(applications: Applications, directory: Option<Arc<dyn Directory>>) -> World {
    let clock = Arc::new(Clock { seconds: AtomicU64::new(1_800_000_000), drawn: AtomicU64::new(1) });
    let (failures, audited) = (Arc::default(), Arc::default());
    let log = Noted { failures: Arc::clone(&failures), audited: Arc::clone(&audited) };
    let (console, queries) = Console::new(&settings(), Arc::clone(&clock) as _, log, applications, directory);
    let users = ["root", "op", "eye", "user", "chief"];
    let accounts = users.map(|user| (format!("{user}@example.test"), account(user, "secret")));
    World {
        console,
        queries,
        clock,
        failures,
        audited,
        accounts: accounts.into(),
        is_away: false,
        calls: 0,
        requests: Vec::new(),
        traces: Vec::new(),
    }
}

impl World {
    fn pass(&self, seconds: u64) {
        self.clock.seconds.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Sends a request, and answers what the console asks the node meanwhile.
    async fn send(&mut self, request: HttpRequest<Body>) -> Reply {
        let World { console, queries, accounts, is_away, calls, requests, traces, .. } = self;
        let router = console.router();
        let mut reply = pin!(async move {
            let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
            (parts, to_bytes(body, 1 << 20).await.unwrap())
        });
        let (parts, bytes) = loop {
            tokio::select! {
                reply = &mut reply => break reply,
                Some(query) = queries.next() => {
                    answer(query, accounts, (*is_away, *calls), (requests, traces));
                }
            }
        };
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Reply { status: parts.status, headers: parts.headers, body, text }
    }

    async fn ask(&mut self, browser: &Browser, method: &str, path: &str, body: Option<Value>) -> Reply {
        let request = HttpRequest::builder().method(method).uri(format!("/v1/admin{path}"));
        let request = request.header("host", "127.0.0.1:5380").header("cookie", &browser.cookie);
        let request =
            request.header("x-csrf-token", &browser.csrf).header("content-type", "application/json");
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    async fn try_sign_in(&mut self, user: &str, password: &str) -> Reply {
        let body = json!({ "account": user, "password": password });
        self.ask(&Browser::default(), "POST", "/session", Some(body)).await
    }

    async fn sign_in(&mut self, user: &str) -> Browser {
        let reply = self.try_sign_in(user, "secret").await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
        let cookie = reply.headers[SET_COOKIE].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Browser { cookie, csrf: reply.body["csrf"].as_str().unwrap().to_owned() }
    }

    async fn status_of(&mut self, browser: &Browser) -> StatusCode {
        self.ask(browser, "GET", "/session", None).await.status
    }
}

fn answer(
    query: Query,
    accounts: &HashMap<String, Account>,
    (is_away, calls): (bool, u64),
    (requests, traces): (&mut Vec<String>, &mut Vec<TraceSink>),
) {
    let away = || Failure::new(FailureKind::Store, "the database is away");
    let find = |address: &Address| accounts.get(&address.to_string()).cloned();
    match query {
        Query::Account(address, answer) => {
            let _ = answer.send(if is_away { Err(away()) } else { Ok(find(&address)) });
        }
        Query::Trace(account, full, answer) => {
            requests.push(format!("trace {account} {full}"));
            let (sink, lines) = TraceSink::new(full);
            traces.push(sink);
            let _ = answer.send(Some(lines));
        }
        Query::Request(request, answer) => {
            requests.push(format!("{request:?}"));
            let response = match request {
                Request::Status => Response::Status(Box::new(node_status())),
                Request::Ask(Ask::Routes) => Response::Listing(Listing::Routes(Vec::new())),
                Request::Ask(Ask::Account { address }) => {
                    Response::Listing(Listing::Account(find(&address).map(AccountRow::from)))
                }
                Request::AllNodes(request) => match *request {
                    Request::CallMessages { call_id } => of_nodes(calls::remembered(&call_id)),
                    Request::OpenCalls { .. } => of_nodes(Response::OpenCalls(open_calls())),
                    Request::Registrations(query) => of_nodes(Response::Registrations(registrations(&query))),
                    Request::Chat(ask) => of_nodes(rooms::answer(ask)),
                    Request::Ask(Ask::CallSearch(search)) => {
                        of_nodes(Response::Listing(Listing::CallPage(found_calls(calls, &search))))
                    }
                    _ => Response::Done { rows: 1 },
                },
                Request::Chat(ask) => rooms::answer(ask),
                Request::ConfigReport => Response::ConfigReport(Box::new(configuration::report())),
                Request::RosterGroups(query) => Response::RosterGroups(roster_groups(&query)),
                Request::Ask(Ask::Domains) => {
                    Response::Listing(Listing::Domains(vec![store::types::Domain {
                        name: "example.test".into(),
                        accounts: 1,
                    }]))
                }
                _ => Response::Done { rows: 1 },
            };
            let _ = answer.send(Ok(response));
        }
    }
}

fn node_status() -> Status {
    let mut status = Status::default();
    status.node.domains = vec!["example.test".into()];
    status
}

/// The page of the calls that one ended in each second of, as a database finds it.
fn found_calls(calls: u64, search: &CallSearch) -> CallPage {
    let call = |at: u64| CallRecord {
        call_id: at.to_string().into(),
        from: "sip:a@example.test".into(),
        to: "sip:b@example.test".into(),
        started_at: Instant::default(),
        answered_at: None,
        ended_at: Instant::from_unix_seconds(at),
        code: 486,
        reason: "Busy Here".into(),
        account: None,
        callee: None,
    };
    let is_found = |call: &CallRecord| search.ended_until.is_none_or(|until| call.ended_at <= until);
    let rows = search.limit as usize;
    let all = (1..=calls).rev().map(call).filter(is_found).take(rows + 1).collect();
    let mut page = CallPage { calls: all, next: None };
    page.finish(search);
    page
}

/// Half of the farm answers.
fn of_nodes(response: Response) -> Response {
    let missing = vec![control::MissingNode { name: "n2".into(), reason: None }];
    let nodes = control::NodesAnswered { answered: vec!["n1".into()], missing };
    Response::OfNodes(Box::new(control::FarmResponse { nodes, response }))
}

fn open_calls() -> control::OpenCallList {
    let call = control::OpenCall { sid: Some("CA1".into()), node: Some("n1".into()), ..Default::default() };
    control::OpenCallList { calls: vec![call], total: 7 }
}

fn registrations(query: &control::RegistrationQuery) -> control::RegistrationPage {
    let address = format!("{}last@example.test", query.prefix).into();
    let row = control::RegisteredAddress { address, contacts: Vec::new() };
    control::RegistrationPage { addresses: vec![row], total: 3 }
}

/// One group of two members.
fn roster_groups(query: &control::RosterGroupQuery) -> control::RosterGroupPage {
    let is_it = query.name.as_deref().is_none_or(|name| name == "the office");
    let group = control::RosterGroupRow {
        name: "the office".into(),
        label: "The Office".into(),
        shown_to: vec!["the office".into()],
        members: 2,
        named: 2,
        ..Default::default()
    };
    let all = ["alice@example.test", "bob@example.test"].into_iter().filter(|_| query.name.is_some());
    let behind = all.filter(|member| *member > &*query.after);
    let members = behind.take(query.limit as usize).map(Box::from).collect();
    control::RosterGroupPage { groups: is_it.then_some(group).into_iter().collect(), total: 1, members }
}

fn change_of(world: &World) -> &str {
    world.requests.last().map(String::as_str).unwrap_or_default()
}

/// A body with all that the row requires.
fn body_of(route: &Route) -> Option<Value> {
    let value = |kind| match kind {
        crate::routes::Kind::Text | crate::routes::Kind::Document | crate::routes::Kind::Credential => {
            json!("prefix:1")
        }
        crate::routes::Kind::Number { .. } => json!(1),
        crate::routes::Kind::Flag => json!(true),
        crate::routes::Kind::Texts => json!(["sip:192.0.2.7"]),
    };
    let required = route.parameters.iter().filter(|one| one.is_required);
    let fields: serde_json::Map<_, _> = required.map(|one| (one.name.to_owned(), value(one.kind))).collect();
    route.is_change().then_some(Value::Object(fields))
}

fn path_of(route: &Route) -> String {
    route
        .path
        .replace("{address}", "user@example.test")
        .replace("{alias}", "user")
        .replace("{name}", "x")
        .replace("{trace}", "x")
        .replace("{sid}", "x")
        .replace("{call}", "x")
        .replace("{room}", "x")
}

#[tokio::test]
async fn a_session_is_needed_and_ends_with_a_sign_out() {
    let mut world = world();
    for route in routes::all().filter(|route| route.role.is_some()) {
        let reply = world.ask(&Browser::default(), route.method, &path_of(route), body_of(route)).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{} {}", route.method, route.path);
    }
    assert!(world.requests.is_empty(), "the node was asked nothing");
    let browser = world.sign_in("eye").await;
    let session = world.ask(&browser, "GET", "/session", None).await;
    assert_eq!(
        (&session.body["account"], &session.body["role"]),
        (&json!("eye@example.test"), &json!("read-only"))
    );
    assert_eq!(session.body["docs"], false, "the menu has no link to pages that are not there");
    world.console.set_settings(&Settings { docs: Some("site".into()), ..settings() });
    assert_eq!(world.ask(&browser, "GET", "/session", None).await.body["docs"], true);
    let reply = world.ask(&browser, "DELETE", "/session", None).await;
    assert!(reply.headers[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn each_role_may_make_the_changes_of_the_table_and_no_others() {
    let mut world = world();
    for (user, role) in [("eye", Role::ReadOnly), ("op", Role::Operator), ("root", Role::Admin)] {
        let browser = world.sign_in(user).await;
        for route in routes::all().filter(|route| route.is_change() && route.path != "/session") {
            let may = route.role.is_some_and(|least| role >= least);
            let reply = world.ask(&browser, route.method, &path_of(route), body_of(route)).await;
            let is_refused = reply.status == StatusCode::FORBIDDEN;
            assert_eq!(
                is_refused, !may,
                "{user} {} {}: {} {}",
                route.method, route.path, reply.status, reply.body
            );
        }
        assert_eq!(world.ask(&browser, "GET", "/overview", None).await.status, StatusCode::OK);
        let audited = std::mem::take(&mut *world.audited.lock().unwrap());
        let changes = routes::all().filter(|route| route.is_change() && route.path != "/session");
        let refused = changes.filter(|route| route.role.is_none_or(|least| role < least));
        for operation in refused.map(|route| route.operation) {
            let line = format!("{user}@example.test {} {}  Some(403)", role.name(), operation.name());
            assert!(audited.contains(&line), "no {line:?} in {audited:#?}");
        }
    }
}

#[tokio::test]
async fn a_change_without_the_token_or_of_another_origin_is_refused() {
    let mut world = world();
    let browser = world.sign_in("root").await;
    let without = Browser { csrf: String::new(), ..browser.clone() };
    let wrong = Browser { csrf: "0".repeat(64), ..browser.clone() };
    for browser in [&without, &wrong] {
        let reply = world.ask(browser, "POST", "/domains", Some(json!({ "name": "b.test" }))).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN);
    }
    let other = |name: &str, value: &str, kind: &str| {
        let request = HttpRequest::post("/v1/admin/domains").header("host", "127.0.0.1:5380");
        let request = request.header("cookie", &browser.cookie).header("x-csrf-token", &browser.csrf);
        let body = Body::from("{\"name\":\"b.test\"}");
        request.header(name, value).header("content-type", kind).body(body).unwrap()
    };
    let json = "application/json";
    assert_eq!(world.send(other("origin", "http://evil.test", json)).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.send(other("sec-fetch-site", "cross-site", json)).await.status, StatusCode::FORBIDDEN);
    let form = world.send(other("origin", "http://127.0.0.1:5380", "text/plain")).await;
    assert_eq!(form.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "a form of another site can send this");
    assert!(world.requests.is_empty());
    assert_eq!(world.send(other("origin", "http://127.0.0.1:5380", json)).await.status, StatusCode::OK);
    assert!(change_of(&world).contains("AddDomain"), "{}", change_of(&world));
}

#[tokio::test]
async fn an_operator_does_not_become_an_admin_by_an_admins_account() {
    let mut world = world();
    let browser = world.sign_in("op").await;
    let password = || Some(json!({ "password": "mine" }));
    let refused = world.ask(&browser, "PUT", "/accounts/root@example.test/password", password()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let add = json!({ "address": "future", "password": "mine" });
    assert_eq!(world.ask(&browser, "POST", "/accounts", Some(add)).await.status, StatusCode::FORBIDDEN);
    let alias = json!({ "alias": "future", "account": "user" });
    assert_eq!(world.ask(&browser, "POST", "/aliases", Some(alias)).await.status, StatusCode::FORBIDDEN);
    let disabled = Some(json!({ "disabled": true }));
    let refused = world.ask(&browser, "PUT", "/accounts/root@example.test/disabled", disabled).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let done = world.ask(&browser, "PUT", "/accounts/user@example.test/password", password()).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.body);
    assert!(change_of(&world).contains("SetPassword") && !change_of(&world).contains("mine"));
    let audited = world.audited.lock().unwrap().clone();
    assert_eq!(
        audited,
        [
            "op@example.test operator SignIn  None",
            "op@example.test operator SetPassword root@example.test Some(403)",
            "op@example.test operator AddAccount future@example.test Some(403)",
            "op@example.test operator AddAlias future@example.test Some(403)",
            "op@example.test operator SetDisabled root@example.test Some(403)",
            "op@example.test operator SetPassword user@example.test None"
        ],
        "the user and the change, and no password"
    );
    let change: fn(Address) -> Change = |account| Change::RemoveAccount { account };
    let own = world.sign_in("root").await;
    let reply = world.ask(&own, "DELETE", "/accounts/root@example.test", None).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "one's own account");
    let removal = format!("{:?}", change(Address::new("root", "example.test").unwrap()));
    assert!(!change_of(&world).contains(&removal));
}

/// XEP-0133 §4.6: an administrator of chat sets the password of any account, so also of one that has a role.
#[tokio::test]
async fn an_operator_does_not_become_an_admin_by_an_administrator_of_chat() {
    let mut world = world();
    let operator = world.sign_in("op").await;
    let password = || Some(json!({ "password": "mine" }));
    let path = "/accounts/chief@example.test/password";
    let refused = world.ask(&operator, "PUT", path, password()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.body);
    assert!(refused.body["error"].as_str().unwrap().contains("administrator of chat"), "{}", refused.body);
    // Nor where the account is not there yet.
    world.accounts.remove("chief@example.test");
    let add = json!({ "address": "chief", "password": "mine" });
    assert_eq!(world.ask(&operator, "POST", "/accounts", Some(add)).await.status, StatusCode::FORBIDDEN);
    world.accounts.insert("chief@example.test".into(), account("chief", "secret"));
    let admin = world.sign_in("root").await;
    let done = world.ask(&admin, "PUT", path, password()).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.body);
}

#[tokio::test]
async fn wrong_passwords_are_paced_and_the_right_one_gets_in_within_two_seconds() {
    let mut world = world();
    for _ in 0..11 {
        let reply = world.try_sign_in("root", "wrong").await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    }
    let paced = world.try_sign_in("root", "secret").await;
    assert_eq!(paced.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(paced.headers.contains_key(RETRY_AFTER));
    {
        let noted = world.failures.lock().unwrap();
        assert_eq!(noted.iter().filter(|cause| **cause == Cause::WrongPassword).count(), 11);
        assert_eq!(noted.last(), Some(&Cause::TooManyAttempts));
    }
    assert!(!world.console.blocks().is_empty());
    world.pass(2);
    assert_eq!(world.try_sign_in("root", "secret").await.status, StatusCode::OK);
}

/// Sends a wrong password, and leaves if the node's answer about the account is not followed by one to the client.
async fn leave_during_check(world: &mut World) -> Option<StatusCode> {
    let World { console, queries, accounts, requests, traces, .. } = world;
    let body = json!({ "account": "root", "password": "wrong" }).to_string();
    let request = HttpRequest::post("/v1/admin/session").header("host", "127.0.0.1:5380");
    let request = request.header("content-type", "application/json").body(Body::from(body)).unwrap();
    let mut response = pin!(console.router().oneshot(request));
    tokio::select! {
        response = &mut response => return Some(response.unwrap().status()),
        Some(query) = queries.next() => answer(query, accounts, (false, 0), (requests, traces)),
    }
    let once = poll_fn(|cx| Poll::Ready(response.as_mut().poll(cx)));
    match once.await {
        Poll::Ready(response) => Some(response.unwrap().status()),
        Poll::Pending => None,
    }
}

#[test]
fn a_check_of_a_password_keeps_its_permit_and_counts_when_its_client_leaves() {
    // The one thread for checks is taken, so that none of them ends before the test lets it.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build();
    runtime.unwrap().block_on(async {
        let (release, held) = std::sync::mpsc::sync_channel::<()>(1);
        tokio::task::spawn_blocking(move || held.recv());
        let mut world = world();
        for _ in 0..crate::limits::CHECKS_AT_WORK {
            assert_eq!(leave_during_check(&mut world).await, None);
        }
        assert_eq!(leave_during_check(&mut world).await, Some(StatusCode::TOO_MANY_REQUESTS));
        assert_eq!(*world.failures.lock().unwrap(), [Cause::Aborted; crate::limits::CHECKS_AT_WORK]);
        drop(release);
        // Checks end in their order, and this one is behind them.
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        world.sign_in("root").await;
    });
}

#[tokio::test]
async fn unknown_disabled_and_unnamed_accounts_do_not_sign_in() {
    let mut world = world();
    world.accounts.get_mut("op@example.test").unwrap().disabled = true;
    let unknown = world.try_sign_in("ghost", "secret").await;
    let disabled = world.try_sign_in("op", "secret").await;
    let wrong = world.try_sign_in("root", "wrong").await;
    for reply in [&unknown, &disabled, &wrong] {
        assert_eq!((reply.status, &reply.body), (StatusCode::UNAUTHORIZED, &wrong.body));
        assert!(!reply.headers.contains_key(SET_COOKIE));
    }
    let unnamed = world.try_sign_in("user@example.test", "secret").await;
    assert_eq!(unnamed.status, StatusCode::FORBIDDEN);
    assert!(!unnamed.headers.contains_key(SET_COOKIE));
    assert_eq!(world.try_sign_in("a b", "secret").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_session_ends_with_its_password_its_account_and_its_role() {
    let mut world = world();
    let browser = world.sign_in("root").await;
    world.accounts.insert("root@example.test".into(), account("root", "other"));
    assert_eq!(world.status_of(&browser).await, StatusCode::OK, "checked a moment ago");
    world.pass(5);
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED);

    let browser = world.sign_in("op").await;
    world.accounts.get_mut("op@example.test").unwrap().disabled = true;
    let reply = world.ask(&browser, "POST", "/blocks/lift", Some(json!({ "subject": "192.0.2.1" }))).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "before a change it is checked at once");

    let browser = world.sign_in("eye").await;
    world.console.set_settings(&Settings { roles: Roles::default(), ..settings() });
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn kept_digests_of_a_directory_sign_no_user_in_after_their_end() {
    let mut world = world();
    let root = world.accounts.get_mut("root@example.test").unwrap();
    root.verifiers = root.verifiers.clone().expiring_at(Instant::from_unix_seconds(1_800_000_060));
    let browser = world.sign_in("root").await;
    world.pass(59);
    assert_eq!(world.status_of(&browser).await, StatusCode::OK);
    world.pass(5);
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED, "the session ends with them");
    assert_eq!(world.try_sign_in("root", "secret").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn while_the_database_is_away_the_node_is_watched_and_nothing_is_changed() {
    let mut world = world();
    let browser = world.sign_in("root").await;
    world.is_away = true;
    world.pass(60);
    assert_eq!(world.ask(&browser, "GET", "/overview", None).await.status, StatusCode::OK);
    let reply = world.ask(&browser, "POST", "/domains", Some(json!({ "name": "b.test" }))).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(world.try_sign_in("root", "secret").await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn an_untended_page_is_signed_out_though_it_asks_each_second() {
    let mut world = world();
    let browser = world.sign_in("root").await;
    for _ in 0..11 {
        world.pass(60);
        let request = HttpRequest::get("/v1/admin/overview").header("host", "localhost:5380");
        let request = request.header("cookie", &browser.cookie).header("x-console-automatic", "1");
        world.send(request.body(Body::empty()).unwrap()).await;
    }
    assert_eq!(world.status_of(&browser).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn other_hosts_are_refused_and_every_answer_binds_the_browser() {
    let mut world = world();
    for (path, host, expected) in [
        ("/", "evil.test", StatusCode::MISDIRECTED_REQUEST),
        ("/v1/admin/session", "evil.test:5380", StatusCode::MISDIRECTED_REQUEST),
        ("/", "localhost:5380", StatusCode::OK),
        ("/js/main.js", "127.0.0.1:5380", StatusCode::OK),
        ("/v1/admin/session", "127.0.0.1:5380", StatusCode::UNAUTHORIZED),
        ("/v1/admin/nothing", "127.0.0.1:5380", StatusCode::NOT_FOUND),
        ("/v1/administrator", "127.0.0.1:5380", StatusCode::NOT_FOUND),
    ] {
        let request = HttpRequest::get(path).header("host", host).body(Body::empty()).unwrap();
        let reply = world.send(request).await;
        assert_eq!(reply.status, expected, "{path} {host}");
        let policy = reply.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"));
        let cache = reply.headers[CACHE_CONTROL].to_str().unwrap();
        assert!(cache == "no-store" || expected == StatusCode::OK && cache == "no-cache", "{path}: {cache}");
    }
}

#[tokio::test]
async fn the_documentation_is_served_to_all_and_runs_only_its_own_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), "<h1>Pages</h1>").unwrap();
    let world = world();
    let docs = Some(folder.path().to_owned());
    let get = |console: &Console, path: &str| {
        let request = HttpRequest::builder().uri(path).header("host", "127.0.0.1:5380");
        console.router().oneshot(request.body(Body::empty()).unwrap())
    };
    let absent = get(&world.console, "/docs/").await.unwrap();
    assert_eq!(absent.status(), StatusCode::NOT_FOUND);
    let absent = to_bytes(absent.into_body(), 10_000).await.unwrap();
    let absent = String::from_utf8_lossy(&absent);
    assert!(absent.contains("No documentation here") && !absent.contains("<a "), "{absent}");
    world.console.set_settings(&Settings { docs, ..settings() });
    for path in ["/docs/", "/docs/index.html"] {
        let page = get(&world.console, path).await.unwrap();
        assert_eq!(page.status(), StatusCode::OK, "{path}");
        let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
        assert!(policy.contains("script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(&to_bytes(page.into_body(), 10_000).await.unwrap()[..], b"<h1>Pages</h1>");
    }
    let moved = get(&world.console, "/docs").await.unwrap();
    assert_eq!(
        (moved.status(), &moved.headers()["location"]),
        (StatusCode::PERMANENT_REDIRECT, &"/docs/".parse().unwrap())
    );
    for path in ["/docs/../index.html", "/docs/gone.html", "/docs/%2e%2e/a.html"] {
        assert_eq!(get(&world.console, path).await.unwrap().status(), StatusCode::NOT_FOUND, "{path}");
    }
    assert!(world.requests.is_empty(), "the node is not asked");
}

#[tokio::test]
async fn open_calls_and_registrations_are_those_of_all_nodes_and_say_which_answered() {
    let mut world = world();
    let reader = world.sign_in("eye").await;
    let calls = world.ask(&reader, "GET", "/calls/open?account=user", None).await;
    assert_eq!((&calls.body["total"], &calls.body["calls"][0]["sid"]), (&json!(7), &json!("CA1")));
    assert_eq!(calls.body["nodes"]["missing"][0]["name"], "n2");
    assert!(change_of(&world).contains("user@example.test"), "{}", change_of(&world));
    let page = world.ask(&reader, "GET", "/registrations?prefix=sip%3Aa&after=b&limit=1", None).await;
    assert_eq!(page.body["addresses"][0]["address"], "alast@example.test");
    assert_eq!((&page.body["has_more"], &page.body["total"]), (&json!(true), &json!(3)));
    let asked = change_of(&world);
    assert!(asked.contains("after: \"b\", limit: 1"), "{asked}");

    let body = || Some(json!({ "address": "user", "contact": "sip:user@192.0.2.7" }));
    let refused = world.ask(&reader, "POST", "/registrations/end", body()).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let operator = world.sign_in("op").await;
    let done = world.ask(&operator, "POST", "/registrations/end", body()).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.body);
    assert!(change_of(&world).contains("EndRegistration"), "{}", change_of(&world));
    let audited = world.audited.lock().unwrap().clone();
    assert_eq!(audited.last().unwrap(), "op@example.test operator EndRegistration user@example.test None");
}

const INVITE: &[u8] = b"INVITE sip:bob@example.test SIP/2.0\r\nCall-ID: a@b\r\nCSeq: 1 INVITE\r\n\
    Authorization: Digest username=\"user\", response=\"feed\"\r\n\r\n";

/// The trace's page, once it has so many messages or is over.
async fn trace_page(world: &mut World, browser: &Browser, path: &str, lines: usize) -> Value {
    loop {
        let reply = world.ask(browser, "GET", path, None).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.body);
        if reply.body["lines"].as_array().unwrap().len() >= lines || !reply.body["ended"].is_null() {
            return reply.body;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_trace_is_collected_for_the_operator_that_began_it_and_ends() {
    let mut world = world();
    let (reader, operator, admin) =
        (world.sign_in("eye").await, world.sign_in("op").await, world.sign_in("root").await);
    let begin = |call_id: Option<&str>| {
        Some(json!({ "account": "user", "call_id": call_id, "full": true, "seconds": 60 }))
    };
    let unknown = Some(json!({ "account": "ghost" }));
    assert_eq!(world.ask(&operator, "POST", "/traces", unknown).await.status, StatusCode::NOT_FOUND);
    // Requests of an administrator may have passwords; one that is not there yet is no exception.
    for account in ["root", "chief", "future", "Root"] {
        let order = Some(json!({ "account": account, "any": true }));
        let refused = world.ask(&operator, "POST", "/traces", order).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{account}");
    }
    assert!(world.traces.is_empty());
    let any = Some(json!({ "account": "ghost", "any": true, "seconds": 601 }));
    assert_eq!(world.ask(&operator, "POST", "/traces", any).await.status, StatusCode::BAD_REQUEST);
    let begun = world.ask(&operator, "POST", "/traces", begin(Some("a@b"))).await;
    assert_eq!(change_of(&world), "trace user@example.test true", "{}", begun.body);
    let path = format!("/traces/{}", begun.body["trace"].as_str().unwrap());

    let now = world.clock.now();
    let sink = world.traces[0].clone();
    sink.message(now, "udp:192.0.2.7:5060", "belfry", INVITE);
    sink.message(now, "belfry", "udp:192.0.2.8:5060", b"BYE sip:b SIP/2.0\r\nCall-ID: other\r\n\r\n");
    sink.node("n2", false);
    sink.message(now, "belfry", "udp:192.0.2.8:5060", INVITE);
    let page = trace_page(&mut world, &operator, &path, 2).await;
    assert_eq!(page["lines"].as_array().unwrap().len(), 2, "one Call-ID: {page}");
    assert_eq!((&page["next"], &page["missing_nodes"]), (&json!(2), &json!(["n2"])));
    assert!(!page.to_string().contains("feed"), "masked: {page}");
    let rest = world.ask(&operator, "GET", &format!("{path}?since=1"), None).await;
    assert_eq!(rest.body["lines"].as_array().unwrap().len(), 1);

    // Neither a reader nor another account sees or ends it.
    assert_eq!(world.ask(&reader, "GET", &path, None).await.status, StatusCode::FORBIDDEN);
    let ladder = "/ladder?call_id=a%40b";
    assert_eq!(world.ask(&reader, "GET", ladder, None).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.ask(&admin, "GET", ladder, None).await.body["lines"], json!([]));
    for method in ["GET", "DELETE"] {
        assert_eq!(world.ask(&admin, method, &path, None).await.status, StatusCode::NOT_FOUND);
    }
    assert!(!sink.is_closed());
    assert_eq!(world.ask(&operator, "DELETE", &path, None).await.status, StatusCode::OK);
    let page = trace_page(&mut world, &operator, &path, usize::MAX).await;
    assert_eq!(page["ended"], "operator");
    sink.closed().await;
    let ladder = world.ask(&operator, "GET", ladder, None).await.body;
    assert_eq!(ladder["lines"].as_array().unwrap().len(), 2, "after its end, too: {ladder}");
    let audited = world.audited.lock().unwrap().clone();
    let ended = "op@example.test operator EndTrace user@example.test None";
    assert!(
        audited.contains(&"op@example.test operator BeginTrace user@example.test None".to_owned()),
        "{audited:?}"
    );
    assert_eq!(audited.last().unwrap(), ended);
}

#[tokio::test]
async fn a_reader_sees_shared_groups_with_their_members_page_by_page() {
    let mut world = world();
    let reader = world.sign_in("eye").await;
    let all = world.ask(&reader, "GET", "/roster-groups", None).await;
    assert_eq!(all.status, StatusCode::OK, "{}", all.body);
    let expected = json!({
        "name": "the office", "label": "The Office", "shown_to": ["the office"], "members": 2, "named": 2,
        "everyone": [], "directory": null,
    });
    assert_eq!(all.body, json!({ "groups": [expected.clone()], "total": 1, "has_more": false }));
    let first = world.ask(&reader, "GET", "/roster-groups/the%20office?limit=1", None).await;
    let members = json!(["alice@example.test"]);
    assert_eq!(first.body, json!({ "group": expected, "members": members, "has_more": true }));
    let next = "/roster-groups/the%20office?limit=5&after=alice@example.test";
    let next = world.ask(&reader, "GET", next, None).await;
    assert_eq!(next.body["members"], json!(["bob@example.test"]));
    assert_eq!(next.body["has_more"], false);
    let none = world.ask(&reader, "GET", "/roster-groups/nothing", None).await;
    assert_eq!(none.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_trace_ends_by_itself_and_few_are_on_at_once() {
    let mut world = world();
    let operator = world.sign_in("op").await;
    let begin = |seconds: u64| Some(json!({ "account": "user", "seconds": seconds }));
    let mut paths = Vec::new();
    for seconds in [60, 1, 60, 60] {
        let begun = world.ask(&operator, "POST", "/traces", begin(seconds)).await;
        paths.push(format!("/traces/{}", begun.body["trace"].as_str().unwrap()));
    }
    let refused = world.ask(&operator, "POST", "/traces", begin(60)).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    // A second of real time.
    world.traces[1].closed().await;
    let over = trace_page(&mut world, &operator, &paths[1], usize::MAX).await;
    assert_eq!(over["ended"], "time");
    assert!(world.traces[1].is_closed() && !world.traces[0].is_closed());

    let sink = world.traces[0].clone();
    for _ in 0..crate::limits::TRACE_LINES {
        sink.message(world.clock.now(), "a", "b", INVITE);
    }
    sink.closed().await;
    let full = trace_page(&mut world, &operator, &paths[0], usize::MAX).await;
    assert_eq!((&full["ended"], &full["has_more"]), (&json!("full"), &json!(true)));
    assert_eq!(full["lines"].as_array().unwrap().len(), crate::limits::TRACE_PAGE);
}

#[tokio::test]
async fn an_invitation_is_for_a_free_name_that_the_operator_might_have_added() {
    let mut world = world();
    let (reader, operator) = (world.sign_in("eye").await, world.sign_in("op").await);
    let invite = |account: &str| Some(json!({ "account": account }));
    let refused = world.ask(&reader, "POST", "/invitations", invite("new")).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    for (account, status) in [
        ("", StatusCode::BAD_REQUEST),
        // Its account would be an admin.
        ("future", StatusCode::FORBIDDEN),
        ("user", StatusCode::CONFLICT),
        ("New", StatusCode::BAD_REQUEST),
        ("new@elsewhere.test", StatusCode::BAD_REQUEST),
    ] {
        let refused = world.ask(&operator, "POST", "/invitations", invite(account)).await;
        assert_eq!(refused.status, status, "{account}: {}", refused.body);
    }
    let made = world.ask(&operator, "POST", "/invitations", invite("new")).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.body);
    let link = made.body["uri"].as_str().unwrap();
    let token = link.strip_prefix("xmpp:new@example.test?register;preauth=").unwrap();
    assert_eq!(token.len(), 32);
    assert_eq!(made.body["page"], format!("https://chat.example.test/invite/{token}"));
    assert_eq!(made.body["expires_at"], 1_800_003_600_000_000_u64);
    assert!(
        change_of(&world).contains("Invite") && !change_of(&world).contains(token),
        "{}",
        change_of(&world)
    );
    let audited = world.audited.lock().unwrap().clone();
    assert_eq!(audited.last().unwrap(), "op@example.test operator Invite new@example.test None");
    world.console.set_settings(&Settings { invitations: None, ..settings() });
    let off = world.ask(&operator, "POST", "/invitations", invite("new")).await;
    assert_eq!(off.status, StatusCode::NOT_FOUND, "{}", off.body);
}
