//! Accounts, their further addresses, and domains.

use control::{AccountRow, Ask, Change, Listing, Request, Response, Secret};
use serde_json::json;
use store::{AccountFilter, AccountLimits, Address};

use super::chat::sessions_of;
use super::{Answer, Context};
use crate::fault::Fault;

pub(super) async fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let values = &context.values;
    let limit = values.limit();
    let filter = AccountFilter {
        domain: values.some_text("domain").map(Into::into),
        prefix: values.text("prefix").into(),
        after: values.some_text("after").map(|text| context.address(text)).transpose()?,
        limit,
    };
    let Listing::Accounts(accounts) = context.listing(Ask::Accounts(filter)).await? else {
        return Err(Fault::unexpected());
    };
    let has_more = accounts.len() as u64 >= u64::from(limit);
    let rows: Vec<_> = accounts.iter().map(|account| row(context, account)).collect();
    Ok(Answer::Json(json!({ "accounts": rows, "has_more": has_more })))
}

fn row(context: &Context<'_>, account: &AccountRow) -> serde_json::Value {
    let role = context.settings.settings.roles.of(&account.address);
    let role = role.max(context.state.known_role(&account.address));
    json!({
        "address": account.address.to_string(),
        "display_name": account.display_name,
        "disabled": account.disabled,
        "limits": account.limits,
        "created_at": account.created_at,
        "role": role.map(crate::role::Role::name),
    })
}

/// The account of an address of it, or of an alias.
pub(super) async fn find(context: &Context<'_>, text: &str) -> Result<AccountRow, Fault> {
    let address = context.address(text)?;
    match context.listing(Ask::Account { address }).await? {
        Listing::Account(Some(account)) => Ok(account),
        Listing::Account(None) => Err(Fault::not_found()),
        _ => Err(Fault::unexpected()),
    }
}

/// The account that is to be changed, if the user may change it.
async fn find_to_change(context: &Context<'_>) -> Result<Address, Fault> {
    let account = find(context, context.variable()).await?.address;
    context.check_may_change(&account).await?;
    Ok(account)
}

pub(super) async fn show(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = find(context, context.variable()).await?;
    let address = account.address.clone();
    let Listing::Aliases(aliases) = context.listing(Ask::Aliases { account: Some(address.clone()) }).await?
    else {
        return Err(Fault::unexpected());
    };
    let bindings = Request::Bindings { account: address.clone() };
    let Response::Bindings(bindings) = context.state.node.ask_one(bindings).await? else {
        return Err(Fault::unexpected());
    };
    // A node without chat has no sessions.
    let sessions = sessions_of(context, Some(address.to_string())).await;
    let aliases: Vec<String> = aliases.iter().map(|alias| alias.alias.to_string()).collect();
    Ok(Answer::Json(json!({
        "account": row(context, &account),
        "aliases": aliases,
        "registrations": bindings,
        "sessions": sessions.map(|listed| listed.sessions).unwrap_or_default(),
    })))
}

pub(super) async fn add(context: &Context<'_>) -> Result<Answer, Fault> {
    let values = &context.values;
    let address = context.address(values.text("address"))?;
    // A role may be named before its account is there.
    context.check_may_change(&address).await?;
    let subject = address.to_string();
    let change = Change::AddAccount {
        address,
        password: Secret::new(values.text("password")),
        display_name: values.text("display_name").into(),
        limits: AccountLimits::default(),
    };
    context.change(change, &subject).await
}

pub(super) async fn set_password(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = find_to_change(context).await?;
    let subject = account.to_string();
    let password = Secret::new(context.values.text("password"));
    context.change(Change::SetPassword { account, password }, &subject).await
}

pub(super) async fn set_disabled(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = find_to_change(context).await?;
    let subject = account.to_string();
    let disabled = context.values.flag("disabled");
    context.change(Change::SetDisabled { account, disabled }, &subject).await
}

pub(super) async fn set_display_name(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = find_to_change(context).await?;
    let subject = account.to_string();
    let display_name = context.values.text("display_name").into();
    context.change(Change::SetDisplayName { account, display_name }, &subject).await
}

pub(super) async fn set_limits(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = find_to_change(context).await?;
    let subject = account.to_string();
    let values = &context.values;
    let limits = AccountLimits {
        max_contacts: values.small("max_contacts"),
        max_calls: values.small("max_calls"),
        max_rate: values.small("max_rate"),
        deny: values.texts("deny").iter().map(|text| text.as_str().into()).collect(),
    };
    context.change(Change::SetLimits { account, limits }, &subject).await
}

pub(super) async fn remove(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = find_to_change(context).await?;
    if account == context.user.session.account {
        return Err(Fault::invalid("you cannot remove the account that you have signed in with"));
    }
    let subject = account.to_string();
    context.change(Change::RemoveAccount { account }, &subject).await
}

pub(super) async fn aliases(context: &Context<'_>) -> Result<Answer, Fault> {
    let account = context.values.some_text("account").map(|text| context.address(text)).transpose()?;
    let Listing::Aliases(aliases) = context.listing(Ask::Aliases { account }).await? else {
        return Err(Fault::unexpected());
    };
    let rows: Vec<_> = aliases
        .iter()
        .map(|one| json!({ "alias": one.alias.to_string(), "account": one.account.to_string() }))
        .collect();
    Ok(Answer::Json(json!({ "aliases": rows })))
}

pub(super) async fn add_alias(context: &Context<'_>) -> Result<Answer, Fault> {
    let values = &context.values;
    let alias = context.address(values.text("alias"))?;
    let account = find(context, values.text("account")).await?.address;
    // The address of an account with a role that is not there yet is no alias of another one.
    context.check_may_change(&alias).await?;
    context.check_may_change(&account).await?;
    let subject = alias.to_string();
    context.change(Change::AddAlias { alias, account }, &subject).await
}

pub(super) async fn remove_alias(context: &Context<'_>) -> Result<Answer, Fault> {
    let alias = context.address(context.variable())?;
    let subject = alias.to_string();
    let account = find(context, context.variable()).await?.address;
    context.check_may_change(&account).await?;
    context.change(Change::RemoveAlias { alias }, &subject).await
}

pub(super) async fn domains(context: &Context<'_>) -> Result<Answer, Fault> {
    match context.listing(Ask::Domains).await? {
        Listing::Domains(domains) => Ok(Answer::Json(json!({ "domains": domains }))),
        _ => Err(Fault::unexpected()),
    }
}

pub(super) async fn add_domain(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.values.text("name");
    context.change(Change::AddDomain { name: name.into() }, name).await
}

pub(super) async fn remove_domain(context: &Context<'_>) -> Result<Answer, Fault> {
    let name = context.variable();
    context.change(Change::RemoveDomain { name: name.into() }, name).await
}
