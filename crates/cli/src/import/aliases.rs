//! Aliases of imported accounts, once all accounts are there.

use config::Config;
use control::{Ask, Change, Failure, FailureKind, Listing};
use store::Address;

use super::Stop;
use super::summary::ImportSummary;
use crate::backend::{Backend, unexpected};
use crate::error::CliError;

/// Makes aliases, by the running node or in the database. One that is there already is counted; one that cannot be made is
/// noted with its place and the reason. Returns whether it came to the last one before it was told to stop.
pub(super) fn write(
    aliases: Vec<(String, Address, Address)>,
    told: &mut ImportSummary,
    stop: &Stop,
    config: &Config,
) -> Result<bool, CliError> {
    if aliases.is_empty() {
        return Ok(true);
    }
    let mut backend = Backend::open(config)?;
    for (place, alias, account) in aliases {
        if stop.is_set() {
            return Ok(false);
        }
        backend.ensure_domain(config, &alias.domain)?;
        let change = Change::AddAlias { alias: alias.clone(), account: account.clone() };
        match backend.change(change) {
            Ok(()) => told.aliases.0 += 1,
            Err(CliError::Failure(Failure { kind: FailureKind::Exists, .. }))
                if is_there(&mut backend, &alias, &account)? =>
            {
                told.aliases.1 += 1;
            }
            Err(CliError::Failure(failure)) if is_of_alias(failure.kind) => {
                told.bad(&place, &format!("alias {alias} of {account}: {}", failure.message));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// True if the alias leads to that account already.
fn is_there(backend: &mut Backend, alias: &Address, account: &Address) -> Result<bool, CliError> {
    match backend.ask(Ask::Aliases { account: Some(account.clone()) }) {
        Ok(Listing::Aliases(aliases)) => Ok(aliases.iter().any(|known| known.alias == *alias)),
        Ok(other) => Err(unexpected(&other)),
        Err(error) => Err(error),
    }
}

/// True if the other aliases may be taken.
fn is_of_alias(kind: FailureKind) -> bool {
    matches!(kind, FailureKind::Exists | FailureKind::NotFound | FailureKind::Invalid)
}
