//! Invitations to make an account (XEP-0401), as `belfry xmpp invite` makes them.

use axum::http::StatusCode;
use chat::effect::Invitation;
use chat::invite::{page_address, uri};
use control::{Ask, Change, Listing, Request, Secret};
use serde_json::json;
use store::Address;
use xmpp::Bare;

use super::{Answer, Context};
use crate::fault::Fault;

pub(super) async fn invite(context: &Context<'_>) -> Result<Answer, Fault> {
    let settings = context.settings.settings.invitations.as_ref().ok_or_else(|| {
        let message =
            "invitations are off: [xmpp.registration] invitations is \"nobody\" in the configuration";
        Fault::new(StatusCode::NOT_FOUND, message)
    })?;
    let address = context.address(context.values.text("account"))?;
    // The account that it makes would have the role.
    context.check_may_change(&address).await?;
    let subject = address.to_string();
    let checked = check(context, &address).await;
    if let Err(fault) = checked {
        context.audit(&subject, Some(&fault));
        return Err(fault);
    }
    // 128 bits: the link is all that its holder needs.
    let token = stdx::hex::encode(&context.state.random()[..16]);
    let (name, domain) = (Some(address.user), address.domain);
    let expires_at = context.state.now() + settings.good_for;
    let invitation =
        Invitation { domain: domain.clone(), name: name.clone(), inviter: None, registers: true, expires_at };
    let link = uri(&token, &invitation);
    let page = settings.page.as_deref().map(|base| page_address(base, &token));
    let good_for = settings.good_for;
    let change = Change::Invite { token: Secret::new(&token), domain, name, inviter: None, good_for };
    let result = context.state.node.ask_one(Request::Change(change)).await;
    context.audit(&subject, result.as_ref().err());
    result?;
    Ok(Answer::Json(json!({ "uri": link, "page": page, "expires_at": expires_at.as_micros() })))
}

/// The name must be free, fit for chat, and of a domain that is served.
async fn check(context: &Context<'_>, address: &Address) -> Result<(), Fault> {
    let Listing::Domains(domains) = context.listing(Ask::Domains).await? else {
        return Err(Fault::unexpected());
    };
    if !domains.iter().any(|domain| domain.name == address.domain) {
        return Err(Fault::invalid(format!("the domain {} is not served here", address.domain)));
    }
    // Prepared for XMPP the name must stay as it is: with capital letters the new user could not sign in.
    let bare = Bare::new(Some(&address.user), &address.domain).ok();
    if bare.as_ref().and_then(Bare::local) != Some(&*address.user) {
        let message = format!("{} is no name for chat; expected lower case, without spaces", address.user);
        return Err(Fault::invalid(message));
    }
    match context.listing(Ask::Account { address: address.clone() }).await? {
        Listing::Account(None) => Ok(()),
        Listing::Account(Some(_)) => {
            Err(Fault::new(StatusCode::CONFLICT, format!("there is an account {address} already")))
        }
        _ => Err(Fault::unexpected()),
    }
}
