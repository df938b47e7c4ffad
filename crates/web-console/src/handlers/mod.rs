//! The handlers of the table's requests: questions and changes of the node, as commands ask for them.

mod accounts;
mod applications;
mod calls;
mod chat;
mod documents;
mod farm;
mod groups;
mod invitations;
mod live;
mod overview;
mod recordings;
mod rooms;
mod routing;
mod security;
mod traces;

use std::net::IpAddr;

use axum::http::{HeaderMap, StatusCode};
use control::{Ask, Change, Listing, Request, Response};
use serde_json::{Value, json};
use store::Address;

use crate::directory::RoleVerdict;
use crate::fault::Fault;
use crate::parameters::Values;
use crate::role::Role;
use crate::routes::{Operation, Route};
use crate::sign_in::{User, describe};
use crate::state::{ActiveSettings, AuditLine, State};

/// A request that may be performed.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a State,
    pub(crate) settings: &'a ActiveSettings,
    pub(crate) route: &'static Route,
    pub(crate) variables: Vec<String>,
    pub(crate) values: Values,
    pub(crate) user: User,
    pub(crate) from: IpAddr,
    pub(crate) headers: &'a HeaderMap,
}

/// The answer of a handler.
pub(crate) enum Answer {
    Json(Value),
    /// A file of comma-separated values, sent as it is read.
    Csv(axum::body::Body),
    /// The sound of a recording, or a part of it.
    Sound(axum::response::Response),
}

impl Context<'_> {
    /// The variable of the path.
    fn variable(&self) -> &str {
        self.variables.first().map(String::as_str).unwrap_or_default()
    }

    /// An address as the user wrote it.
    fn address(&self, text: &str) -> Result<Address, Fault> {
        let text = text.trim().trim_start_matches("sip:");
        Address::parse(text, Some(&self.settings.settings.default_domain))
            .map_err(|error| Fault::invalid(error.to_string()))
    }

    async fn listing(&self, ask: Ask) -> Result<Listing, Fault> {
        match self.state.node.ask_one(Request::Ask(ask)).await? {
            Response::Listing(listing) => Ok(listing),
            _ => Err(Fault::unexpected()),
        }
    }

    async fn change(&self, change: Change, subject: &str) -> Result<Answer, Fault> {
        self.perform(Request::Change(change), subject).await
    }

    /// A change of anything, and its line in the log.
    async fn perform(&self, request: Request, subject: &str) -> Result<Answer, Fault> {
        let result = self.state.node.ask(request).await;
        self.audit(subject, result.as_ref().err());
        match result?.0 {
            Response::Done { rows } => Ok(Answer::Json(json!({ "rows": rows }))),
            Response::Draining => Ok(Answer::Json(json!({ "rows": 1 }))),
            Response::Chat(admin::chat::Answer::Count(rows)) => Ok(Answer::Json(json!({ "rows": rows }))),
            Response::Chat(admin::chat::Answer::Done) => Ok(Answer::Json(json!({ "rows": 1 }))),
            Response::Reloaded(reloaded) => Ok(Answer::Json(json!(reloaded))),
            _ => Err(Fault::unexpected()),
        }
    }

    /// Writes the account, its address and the change to the log. Of the request only the subject is written: it may have a password.
    fn audit(&self, subject: &str, fault: Option<&Fault>) {
        self.state.log.audit(&AuditLine {
            account: &self.user.session.account.to_string(),
            role: Some(self.user.role),
            from: self.from,
            action: &self.route.operation.name(),
            subject,
            refused: fault.map(|fault| fault.status.as_u16()),
        });
    }

    /// An operator changes accounts of users only: with the password of an account that has a role it would have that role,
    /// and with that of an administrator of chat it could set the password of an account that has one.
    async fn check_may_change(&self, account: &Address) -> Result<(), Fault> {
        if self.user.role >= Role::Admin {
            return Ok(());
        }
        let settings = &self.settings.settings;
        let what = if settings.roles.of(account).is_some() {
            "has a role at the console"
        } else if settings.chat_admins.contains(account) {
            "is an administrator of chat"
        } else if self.state.sessions().has_role_of_token(self.state.now(), account) {
            "has a role at the console by a token"
        } else if self.has_role_of_directory(account).await? {
            "has a role at the console by its directory"
        } else {
            return Ok(());
        };
        let fault = Fault::forbidden(format!("{account} {what}: only an admin may change or trace it"));
        self.audit(&account.to_string(), Some(&fault));
        Err(fault)
    }

    /// Asks the directory: the account need not have signed in here.
    async fn has_role_of_directory(&self, account: &Address) -> Result<bool, Fault> {
        let Some((directory, _)) = self.state.directory_of(&account.domain) else { return Ok(false) };
        match directory.role(account).await {
            RoleVerdict::Known(role) => Ok(role.is_some()),
            RoleVerdict::Unavailable => {
                let fault = Fault::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the directory does not say whether this account has a role: only an admin may change or trace it now",
                );
                self.audit(&account.to_string(), Some(&fault));
                Err(fault)
            }
        }
    }
}

/// Performs a request whose user may do it.
pub(crate) async fn perform(context: &Context<'_>) -> Result<Answer, Fault> {
    match context.route.operation {
        Operation::Session => {
            let has_docs = context.settings.settings.docs.is_some();
            Ok(Answer::Json(describe(&context.user.session, context.user.role, has_docs)))
        }
        Operation::SignOut => {
            context.state.sessions().end(&context.user.token);
            context.audit("session", None);
            Ok(Answer::Json(json!({ "rows": 1 })))
        }
        Operation::OpenApi => Ok(Answer::Json(crate::openapi::value())),
        // Answered without a session, before.
        Operation::SignIn | Operation::SignInWays => Err(Fault::not_found()),
        Operation::Overview => overview::overview(context).await,
        Operation::Calls => calls::list(context).await,
        Operation::CallsAsCsv => calls::csv(context).await,
        Operation::EndCall => calls::end(context).await,
        Operation::OpenCalls => live::calls(context).await,
        Operation::Registrations => live::registrations(context).await,
        Operation::EndRegistration => live::end_registration(context).await,
        Operation::BeginTrace => traces::begin(context).await,
        Operation::Trace => traces::show(context),
        Operation::Ladder => traces::ladder(context).await,
        Operation::EndTrace => traces::end(context),
        Operation::Accounts => accounts::list(context).await,
        Operation::Account => accounts::show(context).await,
        Operation::AddAccount => accounts::add(context).await,
        Operation::Invite => invitations::invite(context).await,
        Operation::SetPassword => accounts::set_password(context).await,
        Operation::SetDisabled => accounts::set_disabled(context).await,
        Operation::SetDisplayName => accounts::set_display_name(context).await,
        Operation::SetLimits => accounts::set_limits(context).await,
        Operation::RemoveAccount => accounts::remove(context).await,
        Operation::Aliases => accounts::aliases(context).await,
        Operation::AddAlias => accounts::add_alias(context).await,
        Operation::RemoveAlias => accounts::remove_alias(context).await,
        Operation::Domains => accounts::domains(context).await,
        Operation::AddDomain => accounts::add_domain(context).await,
        Operation::RemoveDomain => accounts::remove_domain(context).await,
        Operation::RosterGroups => groups::list(context).await,
        Operation::RosterGroup => groups::show(context).await,
        Operation::Sessions => chat::sessions(context).await,
        Operation::EndSessions => chat::end(context).await,
        Operation::Routes => routing::list(context).await,
        Operation::AddRoute => routing::add(context).await,
        Operation::RemoveRoute => routing::remove(context).await,
        Operation::TestRoute => routing::test(context).await,
        Operation::Blocks => security::blocks(context).await,
        Operation::LiftBlock => security::lift(context).await,
        Operation::Farm => farm::farm(context).await,
        Operation::FarmMap => farm::map(context).await,
        Operation::DrainFarmNode => farm::drain(context).await,
        Operation::Reload => farm::reload(context).await,
        Operation::Configuration => farm::configuration(context).await,
        Operation::CheckConfiguration => farm::check(context).await,
        Operation::Application(operation) => applications::perform(context, operation).await,
        Operation::Room(operation) => rooms::perform(context, operation).await,
    }
}
