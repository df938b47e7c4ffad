//! One order, from the account to the chain of certificates (RFC 8555 §7.4).

use std::fmt;
use std::sync::Arc;

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder,
    Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use tokio::time::sleep;

use crate::farm_orders::{FarmOrders, Proof, answers_of};
use crate::folder::CertificateFolder;
use crate::http_client::AuthorityClient;
use crate::schedule::FailureKind;
use crate::{AcmeSettings, ChallengeKind, limits, listener};

/// The reason that there is no certificate.
#[derive(Debug)]
pub(crate) struct OrderError {
    pub(crate) kind: FailureKind,
    /// The fault, its place, and if possible a remedy.
    pub(crate) text: String,
}

impl OrderError {
    pub(crate) fn here(text: impl fmt::Display) -> OrderError {
        OrderError { kind: FailureKind::Unreachable, text: text.to_string() }
    }

    pub(crate) fn refused(text: impl fmt::Display) -> OrderError {
        OrderError { kind: FailureKind::Refused, text: text.to_string() }
    }
}

/// A chain of certificates and its key, both PEM.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// The account of the folder, made at the authority if there is none. Contacts the authority in any case.
pub(crate) async fn account(
    settings: &AcmeSettings,
    folder: &CertificateFolder,
    client: &AuthorityClient,
    farm: Option<&FarmOrders>,
) -> Result<Account, OrderError> {
    if let Some(shared) = farm.and_then(FarmOrders::account)
        && folder.read_account().map_err(OrderError::here)?.as_ref() != Some(&shared)
    {
        folder.write_account(&shared).map_err(OrderError::here)?;
    }
    let builder = Account::builder_with_http(Box::new(client.clone()));
    let away = |error: Error| OrderError::here(format!("{}: {}", settings.directory, words(&error)));
    if let Some(text) = folder.read_account().map_err(OrderError::here)? {
        match serde_json::from_str::<AccountCredentials>(&text) {
            Ok(credentials) => return builder.from_credentials(credentials).await.map_err(away),
            Err(error) => {
                tracing::warn!(%error, "the account of ACME is no account; it is put aside, and a new one is made");
                folder.forget_account();
            }
        }
    }
    let contact = settings.contact.as_ref().map(|address| format!("mailto:{address}"));
    let contact: Vec<&str> = contact.as_deref().into_iter().collect();
    let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let made = builder.create(&new, settings.directory.clone(), None).await;
    let (account, credentials) = made.map_err(|error| match &error {
        Error::Api(problem) => OrderError {
            kind: failure_kind(problem),
            text: format!("{} makes no account: {}", settings.directory, reason(problem)),
        },
        _ => away(error),
    })?;
    let text = serde_json::to_string(&credentials).map_err(OrderError::here)?;
    folder.write_account(&text).map_err(OrderError::here)?;
    if let Some(farm) = farm {
        farm.put_account(&text).await.map_err(OrderError::here)?;
    }
    tracing::info!(directory = settings.directory, "made an account of ACME");
    Ok(account)
}

/// Proves the names and gets a certificate for them.
pub(crate) async fn order(
    settings: &AcmeSettings,
    account: &Account,
    names: &[String],
    farm: Option<&FarmOrders>,
) -> Result<Issued, OrderError> {
    let identifiers: Vec<_> = names.iter().cloned().map(Identifier::Dns).collect();
    let mut new = NewOrder::new(&identifiers);
    if let Some(profile) = &settings.profile {
        new = new.profile(profile);
    }
    let mut order = account.new_order(&new).await.map_err(|error| refusal(&error))?;
    let proofs = proofs(settings, &mut order).await?;
    if proofs.is_empty() {
        // The names were proved by an earlier order (RFC 8555 §7.1.3).
        return finish(&mut order, names).await;
    }
    let listener = listener::bind(settings.listen, farm.is_some()).await.map_err(|error| {
        OrderError::refused(format!(
            "[acme] listen: {} cannot be bound for the challenges: {error}; end the program that has it (ss -lntup), or give \
             this one the right to low ports (CAP_NET_BIND_SERVICE)",
            settings.listen
        ))
    })?;
    let answers = answers_of(settings.challenge, &proofs).map_err(OrderError::refused)?;
    if let Some(farm) = farm {
        farm.publish(&proofs).await.map_err(OrderError::refused)?;
        sleep(limits::FARM_ANSWERS).await;
    }
    tokio::select! {
        ended = listener::serve(listener, Arc::new(answers)) => {
            let Err(error) = ended;
            Err(OrderError::refused(format!("[acme] listen: {}: {error}", settings.listen)))
        }
        issued = prove(settings, &mut order, names) => issued,
    }
}

fn challenge_type(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
}

/// The answers to all challenges that are still to be met.
async fn proofs(settings: &AcmeSettings, order: &mut Order) -> Result<Vec<Proof>, OrderError> {
    let mut proofs = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(|error| refusal(&error))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let name = authorization.identifier().to_string();
        let Some(challenge) = authorization.challenge(challenge_type(settings.challenge)) else {
            let text =
                format!("{name}: the authority does not offer the challenge that [acme] challenge names");
            return Err(OrderError::refused(text));
        };
        let authorization = challenge.key_authorization();
        let (token, authorization) = (challenge.token.clone(), authorization.as_str().to_owned());
        proofs.push(Proof { name, token, authorization });
    }
    Ok(proofs)
}

/// The answers are there: the authority may ask.
async fn prove(settings: &AcmeSettings, order: &mut Order, names: &[String]) -> Result<Issued, OrderError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(|error| refusal(&error))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        if let Some(mut challenge) = authorization.challenge(challenge_type(settings.challenge)) {
            challenge.set_ready().await.map_err(|error| refusal(&error))?;
        }
    }
    finish(order, names).await
}

/// From proved names to the chain.
async fn finish(order: &mut Order, names: &[String]) -> Result<Issued, OrderError> {
    let status = order.poll_ready(&polling()).await;
    if !matches!(status, Ok(OrderStatus::Ready)) {
        return Err(explain(order, &status).await);
    }
    let key = KeyPair::generate().map_err(OrderError::refused)?;
    let mut params = CertificateParams::new(names.to_vec()).map_err(OrderError::refused)?;
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(OrderError::refused)?;
    order.finalize_csr(request.der()).await.map_err(|error| refusal(&error))?;
    let chain = order.poll_certificate(&polling()).await.map_err(|error| refusal(&error))?;
    Ok(Issued { chain, key: key.serialize_pem() })
}

fn polling() -> RetryPolicy {
    RetryPolicy::new().initial_delay(limits::POLL).backoff(2.0).timeout(limits::POLL_ALL)
}

/// The names that the authority could not prove, with its reasons.
async fn explain(order: &mut Order, status: &Result<OrderStatus, Error>) -> OrderError {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        if authorization.refresh().await.is_err() {
            continue;
        }
        let failed = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(failed.map(|problem| format!("{name}: {}", reason(problem))));
    }
    if !reasons.is_empty() {
        return OrderError::refused(reasons.join("; "));
    }
    match status {
        Err(error) => refusal(error),
        Ok(OrderStatus::Invalid) => OrderError::refused("the authority gives no reason"),
        Ok(_) => OrderError::refused(format!(
            "the authority has proved no name within {} s",
            limits::POLL_ALL.as_secs()
        )),
    }
}

fn refusal(error: &Error) -> OrderError {
    let kind = match error {
        Error::Api(problem) => failure_kind(problem),
        _ => FailureKind::Refused,
    };
    OrderError { kind, text: words(error) }
}

/// A nonce that the authority does not take says nothing about the order (RFC 8555 §6.5). The library tries three, and authorities
/// that have forgotten theirs after a restart, or refuse some to try their clients, may refuse all of them.
fn failure_kind(problem: &Problem) -> FailureKind {
    match problem.r#type.as_deref() {
        Some("urn:ietf:params:acme:error:badNonce") => FailureKind::Unreachable,
        _ => FailureKind::Refused,
    }
}

/// The cause, not only that there was one.
fn words(error: &Error) -> String {
    match error {
        Error::Api(problem) => reason(problem),
        Error::Other(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

/// The authority's words, and of each name that it has something to say about.
fn reason(problem: &Problem) -> String {
    problem.to_string().trim_start_matches("API error: ").to_owned()
}

/// True if the authority does not know the account any more.
pub(crate) fn is_account_unknown(error: &OrderError) -> bool {
    error.text.contains("accountDoesNotExist")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str) -> Error {
        let text = format!(
            "{{\"type\": \"urn:ietf:params:acme:error:{kind}\", \"detail\": \"no\", \"status\": 400}}"
        );
        Error::Api(serde_json::from_str(&text).expect("a problem document"))
    }

    #[test]
    fn a_refused_nonce_is_tried_again_soon_and_a_refused_name_is_not() {
        assert_eq!(refusal(&problem("badNonce")).kind, FailureKind::Unreachable);
        for kind in ["rejectedIdentifier", "rateLimited", "caa"] {
            assert_eq!(refusal(&problem(kind)).kind, FailureKind::Refused, "{kind}");
        }
    }
}
