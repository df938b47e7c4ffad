//! Clients: phones of an account. Each is an account of the record, which signs in with its login.

use store::rest::types::Client;
use store::rest::{Kind, RestFilter};
use store::{Address, NewAccount, Write};

use crate::fault::Fault;
use crate::paging::{self, PAGING};
use crate::table::{Answer, Context, Parameter, Route, Shape};
use crate::value::Value;

use super::{NONE, choice, created, hook, last, method_value, own, set_hook, text, updated, uri, version};

const FIELDS: &[Parameter] = &[text("FriendlyName"), text("Password"), choice("Status", &["0", "1"])];
const LOGIN: &[Parameter] = &[text("Login")];
const VOICE: &[Parameter] = hook!("Voice");

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Clients",
        summary: "Clients, by login when one is given",
        parameters: &[LOGIN, PAGING],
        answer: Shape::List("clients", example),
        handler: list,
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Clients",
        summary: "Make a client, which may sign in at once",
        parameters: &[LOGIN, FIELDS, VOICE],
        answer: Shape::Item(201, "Client", example),
        handler: create,
    },
    Route {
        method: "GET",
        path: "/Accounts/{AccountSid}/Clients/{Sid}",
        summary: "A client",
        parameters: NONE,
        answer: Shape::Item(200, "Client", example),
        handler: |context| Ok(item(context, 200, &own(context, last(context))?)),
    },
    Route {
        method: "POST",
        path: "/Accounts/{AccountSid}/Clients/{Sid}",
        summary: "Change a client's name, password, status or application",
        parameters: &[FIELDS, VOICE],
        answer: Shape::Item(200, "Client", example),
        handler: update,
    },
    Route {
        method: "DELETE",
        path: "/Accounts/{AccountSid}/Clients/{Sid}",
        summary: "Delete a client; it signs in no more",
        parameters: NONE,
        answer: Shape::Nothing,
        handler: delete,
    },
];

fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let filter = RestFilter {
        name: context.text("Login").map(Box::from),
        ..paging::of_account(context, Kind::Client)
    };
    paging::rows(context, filter, ("clients", "Client"), |context, client| render(Some(context), client))
}

fn address(client: &Client) -> Result<Address, Fault> {
    Ok(Address::new(&client.login, &client.domain)?)
}

fn write(context: &Context<'_>, write: Write) -> Result<(), Fault> {
    Ok(context.state.repository.write(write).map(drop)?)
}

fn create(context: &Context<'_>) -> Result<Answer, Fault> {
    let required =
        |name| context.text(name).ok_or_else(|| Fault::invalid(20400, format!("{name} is required")));
    let (login, password) = (required("Login")?, required("Password")?);
    let mut client = Client {
        common: context.state.common("CL", &context.account),
        login: login.to_owned(),
        domain: context.state.domain.to_string(),
        friendly_name: login.to_owned(),
        status: "1".into(),
        ..Client::default()
    };
    change(context, &mut client);
    let account = NewAccount {
        display_name: client.friendly_name.as_str().into(),
        ..with_password(context, &client, password)?
    };
    context.state.insert(&client)?;
    let mut done = write(context, Write::AddAccount(Box::new(account)));
    if done.is_ok() && client.status == "0" {
        done = write(context, Write::SetDisabled { account: address(&client)?, disabled: true });
    }
    if let Err(fault) = done {
        // Two writes: the second was refused, so the first is taken back.
        context.state.remove(Kind::Client, &client.common.sid)?;
        return Err(fault);
    }
    Ok(item(context, 201, &client))
}

/// Phones prove it by its hashes, chat clients by keys of SCRAM.
fn with_password(context: &Context<'_>, client: &Client, password: &str) -> Result<NewAccount, Fault> {
    let mut account = NewAccount::with_password(address(client)?, password, context.state.now())?;
    account.verifiers = account.verifiers.with_scram(&(context.state.keys)(password));
    Ok(account)
}

fn change(context: &Context<'_>, client: &mut Client) {
    context.set("FriendlyName", &mut client.friendly_name);
    if let Some(status) = context.text("Status") {
        status.clone_into(&mut client.status);
    }
    set_hook(context, "Voice", &mut client.voice);
}

fn update(context: &Context<'_>) -> Result<Answer, Fault> {
    let mut client: Client = own(context, last(context))?;
    let before = client.clone();
    change(context, &mut client);
    if let Some(password) = context.text("Password") {
        let NewAccount { address: account, verifiers, .. } = with_password(context, &client, password)?;
        write(context, Write::SetVerifiers { account, verifiers })?;
    }
    if client.friendly_name != before.friendly_name {
        let display_name = client.friendly_name.as_str().into();
        write(context, Write::SetDisplayName { account: address(&client)?, display_name })?;
    }
    if client.status != before.status {
        let disabled = client.status == "0";
        write(context, Write::SetDisabled { account: address(&client)?, disabled })?;
    }
    client.common.updated_at = context.state.now();
    context.state.replace(&client)?;
    Ok(item(context, 200, &client))
}

fn delete(context: &Context<'_>) -> Result<Answer, Fault> {
    let client: Client = own(context, last(context))?;
    match write(context, Write::RemoveAccount { account: address(&client)? }) {
        // An operator removed it on the command line.
        Err(fault) if fault.status == 404 => {}
        done => done?,
    }
    context.state.remove(Kind::Client, &client.common.sid)?;
    Ok(Answer::Nothing)
}

fn item(context: &Context<'_>, status: u16, client: &Client) -> Answer {
    Answer::Item(status, "Client", render(Some(context), client))
}

fn render(context: Option<&Context<'_>>, client: &Client) -> Value {
    let Client { common, voice, .. } = client;
    Value::Object(vec![
        ("sid", Value::text(&common.sid)),
        created(common),
        updated(common),
        ("account_sid", Value::text(&common.account)),
        version(context),
        ("friendly_name", Value::text(&client.friendly_name)),
        ("login", Value::text(&client.login)),
        ("status", Value::text(&client.status)),
        ("voice_url", Value::text(&voice.url)),
        ("voice_method", method_value(&voice.method)),
        ("voice_fallback_url", Value::text(&voice.fallback_url)),
        ("voice_fallback_method", method_value(&voice.fallback_method)),
        ("voice_application_sid", Value::text(&voice.application_sid)),
        uri(context, &format!("/Clients/{}", common.sid)),
    ])
}

fn example() -> Value {
    render(None, &Client::default())
}
