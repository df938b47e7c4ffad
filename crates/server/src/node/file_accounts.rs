//! Files of accounts at a node: what streams of clients offer by them, and what follows when one has changed (`external_auth::FileAccounts`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use external_auth::{FileAccounts, SourceSettings};
use tokio::task::spawn_local;
use xmpp::c2s;
use xmpp::sasl::{AccountProfile, KeyParameters, UnknownAccounts};

use super::build::Shared;
use super::operator::Operator;

/// The kind of credential that the source of each domain takes.
pub(super) fn external_of(shared: &Shared) -> BTreeMap<Box<str>, c2s::ExternalCredential> {
    let have_keys = |domain: &str| accounts_of_file(shared, domain).is_some_and(|file| file.have_keys());
    let credential = |source: &SourceSettings| match source.kind.is_by_token() {
        true => c2s::ExternalCredential::Token,
        false if have_keys(&source.domain) => c2s::ExternalCredential::PasswordOrKeys,
        false => c2s::ExternalCredential::Password,
    };
    shared.config.accounts.sources.iter().map(|source| (source.domain.clone(), credential(source))).collect()
}

/// The accounts of a domain whose source of sign-ins is a file.
fn accounts_of_file(shared: &Shared, domain: &str) -> Option<Arc<FileAccounts>> {
    shared.authenticator.as_ref()?.accounts_of_file(domain)
}

/// The profiles of each domain's accounts: of the database, or of the file by which the domain signs in.
pub(super) fn looks_of(shared: &Shared) -> UnknownAccounts {
    let sources = shared.config.accounts.sources.iter();
    sources.fold(shared.looks.clone(), |looks, source| match accounts_of_file(shared, &source.domain) {
        Some(file) => looks.with(&source.domain, profiles_of(&file)),
        None => looks,
    })
}

fn profiles_of(file: &FileAccounts) -> Vec<AccountProfile> {
    let profile = |((iterations, salt), accounts)| AccountProfile {
        sha256: Some(KeyParameters { iterations, salt }),
        accounts,
        ..AccountProfile::default()
    };
    file.key_parameters().into_iter().map(profile).collect()
}

/// Gives the shards what follows from a file of accounts each time that it has changed.
pub(super) fn follow(operator: &Rc<Operator>) {
    let Some(authenticator) = operator.node.borrow().shared.authenticator.clone() else { return };
    let (changed, operator) = (authenticator.files_changed(), Rc::clone(operator));
    spawn_local(async move {
        loop {
            changed.notified().await;
            operator.node.borrow().give_settings();
        }
    });
}
