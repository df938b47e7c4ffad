//! The operators' console of the running node: its settings, made of the configuration, and its failed sign-ins in the log.
//!
//! The pages themselves are in the crate `web_console`, which knows no configuration and no log. Questions of
//! the console go through a queue to the operator's thread, as commands do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use cli::first_account::Chance;
use config::{Config, Inviting};
use ivr::request::Wire;
use logging::Identity;
use logging::sign_in_failures::{Failure, Service, SignInFailures};
use net::clock::Clock;
use stdx::attempts::{Block, Subject};
use store::Address;
use tokio::net::TcpListener;
use voice_io::helpers::Helpers;
use web_console::{
    Applications, AuditLine, Console, ConsoleLog, Directory, DocumentSource, FailedSignIn, Fetched,
    Invitations, NodeQueries, Role, RoleChange, Roles, Settings,
};

use crate::console_directory::Directories;
use crate::http::{Web, serve_rest};
use crate::node::Node;
use crate::rest::Rest;

/// The console of a node; empty where the configuration names no address for it.
#[derive(Clone, Default)]
pub(crate) struct NodeConsole(Option<Console>);

impl NodeConsole {
    /// Makes the console, and the queue of its questions to the node, which the operator's thread serves.
    pub(crate) fn new(node: &Node) -> (NodeConsole, Option<NodeQueries>) {
        let (shared, clock) = (&node.shared, node.clock);
        let Some(settings) = settings(&shared.config) else { return (NodeConsole(None), None) };
        let log = NodeLog { failures: Arc::clone(&shared.failures), clock };
        let documents = node.voice.as_ref().map(|voice| Documents(Arc::clone(voice.helpers())));
        let applications = Applications {
            resources: node.rest.as_ref().map(Rest::resources),
            numbers: node.voice.as_ref().and(node.rest.as_ref()).map(Rest::numbers),
            documents: documents.map(|documents| Arc::new(documents) as Arc<dyn DocumentSource>),
        };
        let source = Arc::new(Chance::new(clock));
        let directory = Directories::of(shared.authenticator.clone());
        let directory = directory.map(|directory| Arc::new(directory) as Arc<dyn Directory>);
        let (console, queries) = Console::new(&settings, source, log, applications, directory);
        if let Some(farm) = &shared.farm {
            console.share_sign_ins(farm.key_of_sign_ins());
        }
        (NodeConsole(Some(console)), Some(queries))
    }

    pub(crate) fn router(&self) -> Option<Router> {
        self.0.as_ref().map(Console::router)
    }

    /// Takes over what a reload may change.
    pub(crate) fn reconfigure(&self, config: &Config) {
        if let (Some(console), Some(settings)) = (&self.0, settings(config)) {
            console.set_settings(&settings);
        }
    }

    /// Addresses and accounts whose sign-ins are paced.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (&'static str, Block)> {
        let blocks = self.0.as_ref().map(Console::blocks).unwrap_or_default();
        blocks.into_iter().map(|block| (Service::Console.name(), block))
    }

    /// The blocks that were in force.
    pub(crate) fn lift_block(&self, subject: &Subject) -> usize {
        self.0.as_ref().map_or(0, |console| console.lift_block(subject))
    }
}

/// The console's lines in the log of the node.
struct NodeLog {
    failures: Arc<SignInFailures>,
    clock: Clock,
}

impl ConsoleLog for NodeLog {
    fn sign_in_failed(&self, failed: &FailedSignIn<'_>) {
        let FailedSignIn { from, account, cause } = *failed;
        let service = Service::Console;
        let failure = Failure { service, transport: "http", address: from, account, cause };
        self.failures.note(self.clock.now(), &failure);
    }

    fn role_changed(&self, change: &RoleChange<'_>) {
        let RoleChange { account, before, after, is_known } = *change;
        tracing::info!(
            target: "belfry::audit",
            account = %Identity(account),
            before = before.map(Role::name),
            after = after.map(Role::name),
            cause = if is_known { "groups" } else { "no answer" },
            "role of a directory"
        );
    }

    fn audit(&self, line: &AuditLine<'_>) {
        let AuditLine { account, role, from, action, subject, refused } = *line;
        tracing::info!(
            target: "belfry::audit",
            account = %Identity(account),
            role = role.map(Role::name),
            %from,
            action,
            // A string, so that it is quoted and escaped.
            subject = &*Identity(subject).to_string(),
            refused,
            "console"
        );
    }
}

/// Documents of applications, by the client of calls.
struct Documents(Arc<Helpers>);

impl DocumentSource for Documents {
    fn fetch(&self, request: Wire) -> Fetched {
        let fetched = self.0.fetch_document(request);
        Box::pin(fetched)
    }
}

/// None: there is no console.
fn settings(config: &Config) -> Option<Settings> {
    let console = &config.console;
    let named = |role: Role, accounts: &[Box<str>]| -> Vec<(Role, Box<str>)> {
        accounts.iter().map(|account| (role, account.clone())).collect()
    };
    let roles = [
        // In rising order; an account in several lists has the highest role (`Roles`).
        named(Role::ReadOnly, &console.readers),
        named(Role::Operator, &console.operators),
        named(Role::Admin, &console.admins),
    ]
    .concat();
    Some(Settings {
        listen: console.listen?,
        origin: console.origin.clone(),
        docs: console.docs.clone().or_else(packaged_docs),
        roles: Roles::new(roles.iter().map(|(role, account)| (*role, &**account))),
        chat_admins: chat_admins(&config.xmpp.operating.admins),
        invitations: invitations(config),
        default_domain: config.sip.default_domain.clone(),
        idle: console.idle,
        lifetime: console.lifetime,
    })
}

/// None: invitations are off.
fn invitations(config: &Config) -> Option<Invitations> {
    let registration = &config.registration;
    let page = config.web.public_url.clone().filter(|_| registration.invitation_page);
    let is_on = config.xmpp.is_on() && registration.invitations != Inviting::Off;
    is_on.then_some(Invitations { good_for: registration.invitation_for, page })
}

/// The administrators of chat, prepared as chat prepares names: all spellings of one are one account (RFC 7622 §3.3).
pub(crate) fn chat_admins(named: &[Box<str>]) -> Vec<Address> {
    let address = |named: &str| {
        let bare = xmpp::Bare::parse(named).ok()?;
        Address::new(bare.local()?, bare.domain()).ok()
    };
    named.iter().filter_map(|named| address(named)).collect()
}

/// The folder that `tools/package` puts the documentation into.
fn packaged_docs() -> Option<PathBuf> {
    let folder = Path::new("/usr/share/doc/belfry/html");
    folder.is_dir().then(|| folder.to_owned())
}

/// Serves the console until dropped, on a `LocalSet`. Returns where there is none.
pub(crate) async fn serve(listener: Option<TcpListener>, routes: Option<Router>, web: &Web) {
    if let (Some(listener), Some(routes)) = (listener, routes)
        && let Err(error) = serve_rest(listener, routes, web).await
    {
        tracing::error!(%error, "the console is not served any more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_line_of_the_audit_log_has_the_fields_that_its_page_has() {
        let log = NodeLog { failures: Arc::default(), clock: Clock::new() };
        let line = AuditLine {
            account: "alice@example.test",
            role: Some(Role::Admin),
            from: [127, 0, 0, 1].into(),
            action: "RemoveRoute",
            subject: "trunk",
            refused: Some(403),
        };
        let lines = testing::log_lines(|| log.audit(&line));
        let [written] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(written["target"], "belfry::audit");
        let fields = written["fields"].as_object().unwrap().keys().map(String::as_str);
        let mut fields: Vec<&str> = fields.filter(|name| *name != "message").collect();
        let page = include_str!("../../../docs/logging.md");
        let (_, section) = page.split_once("## The audit log\n").unwrap();
        let (_, table) = section.split_once("| field | what it is |\n|---|---|\n").unwrap();
        let rows = table.lines().take_while(|line| !line.is_empty());
        let mut documented: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        fields.sort_unstable();
        documented.sort_unstable();
        assert_eq!(fields, documented);
    }
}
