//! Resources as the operators of the node list and change them: those of all accounts, by the handlers of the REST interface.
//!
//! The operators' console has its own sign-in and roles, and asks here with the rights of the first account. A request that a handler refuses to that account is
//! refused here, too. Called on threads that may wait.

mod rooms;

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use store::rest::types::{Application, IncomingNumber, Recording, RestAccount};
use store::rest::{Kind, Resource, RestFilter, Row};

use crate::control::Audio;
use crate::fault::Fault;
use crate::limits;
use crate::request::{Base, Format, Request};
use crate::service::State;
use crate::table::{Answer, Context, Found, find};
use crate::value::Value;
use crate::{resources, sign_in};

pub use rooms::{ConferenceRow, MemberRow, QueueRow, RoomMembers, RoomPage};

/// The kinds of resources that operators see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    /// Accounts of the REST interface.
    Accounts,
    /// Applications.
    Applications,
    /// Incoming numbers.
    Numbers,
    /// Recordings.
    Recordings,
}

/// A page of a list to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// The kind of resources.
    pub collection: Collection,
    /// Those of the account with this sid.
    pub account: Option<Box<str>>,
    /// Those of the call with this sid.
    pub call: Option<Box<str>>,
    /// The number of the page, from 0.
    pub page: u32,
    /// Rows of a page.
    pub limit: u32,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourcePage {
    /// Resources with the fields that the REST interface gives them, without URIs of that interface.
    pub rows: Vec<Json>,
    /// The number of rows on all pages.
    pub total: u64,
}

/// The resources of a node. Cheap to clone.
#[derive(Clone)]
pub struct ManagedResources(Arc<State>);

impl Collection {
    fn kind(self) -> Kind {
        match self {
            Collection::Accounts => Kind::Account,
            Collection::Applications => Kind::Application,
            Collection::Numbers => Kind::IncomingNumber,
            Collection::Recordings => Kind::Recording,
        }
    }

    /// The segment of paths of the REST interface.
    fn segment(self) -> &'static str {
        match self {
            Collection::Accounts => "Accounts",
            Collection::Applications => "Applications",
            Collection::Numbers => "IncomingPhoneNumbers",
            Collection::Recordings => "Recordings",
        }
    }

    fn render(self, row: &Row) -> Result<Json, Fault> {
        Ok(json(match self {
            Collection::Accounts => account(&RestAccount::from_row(row)?),
            Collection::Applications => resources::applications::render(None, &Application::from_row(row)?),
            Collection::Numbers => resources::numbers::render(None, &IncomingNumber::from_row(row)?),
            Collection::Recordings => resources::recordings::render(None, &Recording::from_row(row)?),
        }))
    }
}

impl ManagedResources {
    /// The resources that the interface with this state has.
    pub fn new(state: Arc<State>) -> ManagedResources {
        ManagedResources(state)
    }

    /// Reads a page, the newest row first; accounts are in the order of their creation.
    pub fn list(&self, query: &PageQuery) -> Result<ResourcePage, Fault> {
        let filter = RestFilter {
            account: query.account.clone(),
            parent: query.call.clone(),
            offset: u64::from(query.page.min(limits::MAX_PAGE)) * u64::from(query.limit),
            limit: query.limit,
            ascending: query.collection == Collection::Accounts,
            ..RestFilter::all(query.collection.kind())
        };
        let (rows, total) = self.0.list(filter)?;
        let rows = rows.iter().map(|row| query.collection.render(row)).collect::<Result<_, _>>()?;
        Ok(ResourcePage { rows, total })
    }

    /// Makes a resource of an account, by default of the first one. The parameters are those of the REST interface.
    pub fn create(
        &self,
        collection: Collection,
        account: Option<&str>,
        parameters: Vec<(String, String)>,
    ) -> Result<Json, Fault> {
        let account = match account {
            Some(sid) => self.account(sid)?,
            None => self.first()?,
        };
        self.perform("POST", account, (collection, None), parameters)
    }

    /// Changes what is given of a resource.
    pub fn update(
        &self,
        collection: Collection,
        sid: &str,
        parameters: Vec<(String, String)>,
    ) -> Result<Json, Fault> {
        let owner = self.owner(collection, sid)?;
        self.perform("POST", owner, (collection, Some(sid)), parameters)
    }

    /// Removes a resource; of a recording also the sound.
    pub fn remove(&self, collection: Collection, sid: &str) -> Result<(), Fault> {
        let owner = self.owner(collection, sid)?;
        self.perform("DELETE", owner, (collection, Some(sid)), Vec::new()).map(drop)
    }

    /// The sound of a recording as WAV, to be read from this byte on; the length is that of the whole file.
    pub fn sound(&self, sid: &str, from: u64) -> Result<Audio, Fault> {
        let recording: Recording = self.0.get(sid)?.ok_or_else(|| Fault::not_found(sid))?;
        Ok(self.0.control.recording_from(&recording.common.sid, &recording.node, from)?)
    }

    /// A number, the application that it names where that is of the same account, and its account.
    ///
    /// # Errors
    /// There is no such number, or its account or one above it is not active: its calls are refused.
    pub fn number(&self, sid: &str) -> Result<(IncomingNumber, Option<Application>, RestAccount), Fault> {
        let number: IncomingNumber = self.0.get(sid)?.ok_or_else(|| Fault::not_found(sid))?;
        let account = self.account(&number.common.account)?;
        sign_in::active(&self.0, &account)?;
        let application: Option<Application> = match number.voice.application_sid.as_str() {
            "" => None,
            sid => self.0.get(sid)?,
        };
        let is_own = |found: &Application| found.common.account == account.common.sid;
        Ok((number, application.filter(is_own), account))
    }

    /// The first account: the oldest of those that no other account has made.
    pub fn first(&self) -> Result<RestAccount, Fault> {
        let filter = RestFilter { ascending: true, limit: 100, ..RestFilter::all(Kind::Account) };
        for row in &self.0.list(filter)?.0 {
            let account = RestAccount::from_row(row)?;
            if account.parent.is_none() {
                return Ok(account);
            }
        }
        Err(Fault::new(404, 20404, "There is no account of the REST interface"))
    }

    fn account(&self, sid: &str) -> Result<RestAccount, Fault> {
        self.0.get(sid)?.ok_or_else(|| Fault::not_found(sid))
    }

    /// The account that a resource belongs to.
    fn owner(&self, collection: Collection, sid: &str) -> Result<RestAccount, Fault> {
        let owner = match collection {
            Collection::Accounts => self.0.get::<RestAccount>(sid)?.map(|found| found.common.account),
            Collection::Applications => self.0.get::<Application>(sid)?.map(|found| found.common.account),
            Collection::Numbers => self.0.get::<IncomingNumber>(sid)?.map(|found| found.common.account),
            Collection::Recordings => self.0.get::<Recording>(sid)?.map(|found| found.common.account),
        };
        self.account(&owner.ok_or_else(|| Fault::not_found(sid))?)
    }

    /// The account above all others of this one, which may do everything with it.
    fn signer(&self, account: &RestAccount) -> Result<RestAccount, Fault> {
        let mut signer = account.clone();
        for _ in 0..limits::MAX_DEPTH {
            match &signer.parent {
                Some(parent) => signer = self.account(parent)?,
                None => break,
            }
        }
        Ok(signer)
    }

    /// Performs a request of the REST interface.
    fn perform(
        &self,
        method: &'static str,
        account: RestAccount,
        (collection, sid): (Collection, Option<&str>),
        parameters: Vec<(String, String)>,
    ) -> Result<Json, Fault> {
        let mut segments =
            vec!["Accounts".to_owned(), account.common.sid.clone(), collection.segment().into()];
        segments.extend(sid.map(str::to_owned));
        let (base, format) = (Base::Twilio, Format::Json);
        let path = segments.join("/");
        let request = Request { method, base, path, segments, format, has_suffix: true, parameters };
        let Found::Route(route, variables) = find(&request) else {
            return Err(Fault::not_found(&request.path));
        };
        route.check(&request)?;
        let signer = self.signer(&account)?;
        let is_by_key = false;
        let context =
            Context { state: &self.0, request: &request, route, variables, account, signer, is_by_key };
        match (route.handler)(&context)? {
            Answer::Item(_, _, value) => Ok(json(value)),
            // The operations on one resource have no other answers.
            Answer::Nothing | Answer::List(_) | Answer::Audio(_) | Answer::Encoding(_) => Ok(Json::Null),
        }
    }
}

/// The fields of an account that name it; tokens and keys are not among them.
fn account(account: &RestAccount) -> Value {
    Value::Object(vec![
        ("sid", Value::text(&account.common.sid)),
        ("friendly_name", Value::text(&account.friendly_name)),
        ("status", Value::text(&account.status)),
        ("owner_account_sid", Value::text(account.parent.as_deref().unwrap_or_default())),
    ])
}

/// The value as JSON.
fn json(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Text(text) => Json::String(text),
        Value::Int(number) => Json::from(number),
        Value::Bool(truth) => Json::Bool(truth),
        Value::Object(fields) => Json::Object(
            fields.into_iter().map(|(name, value)| (name.to_owned(), json(value))).collect::<Map<_, _>>(),
        ),
    }
}
