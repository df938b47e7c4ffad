//! Administrators' commands about accounts from their clients (XEP-0133): they do the same as the commands of
//! those names.
//!
//! The host asks for it by `Effect::Load`, and the shard runs it beside its loop (`shard::xmpp::administer`),
//! as keys and the store take their time. The rules of passwords and names are those of `control::Change`, so
//! that a client and a command cannot differ.

use chat::StoreFailure;
use chat::effect::{AccountList, AccountRefusal, Accounts};
use control::{Change, FailureKind, Secret};
use store::{Account, AccountFilter, Address, Loaded, Notice, Read, StoreError};
use xmpp::Bare;

use super::Operator;
use crate::node::changes::tell_shards;
use stdx::Instant;

impl Operator {
    /// Performs a request. An error inside the reply: the request itself is refused, and the administrator reads why.
    pub(crate) async fn administer(
        &self,
        now: Instant,
        ask: Accounts,
    ) -> Result<chat::StoreReply, StoreFailure> {
        let done = match ask {
            Accounts::List { domain, is_disabled, max } => {
                return self.accounts(domain, is_disabled, max as usize).await;
            }
            Accounts::Add { user, password, name } => {
                let (address, password) = (address_of(&user), Secret::new(&password.0));
                let limits = store::AccountLimits::default();
                let change =
                    Change::AddAccount { address: address.clone(), password, display_name: name, limits };
                self.change_account(now, address, change).await
            }
            Accounts::Password { user, password } => {
                let (account, password) = (address_of(&user), Secret::new(&password.0));
                let change = Change::SetPassword { account: account.clone(), password };
                self.change_account(now, account, change).await
            }
            Accounts::Disable { user, disabled } => {
                let account = address_of(&user);
                let change = Change::SetDisabled { account: account.clone(), disabled };
                self.change_account(now, account, change).await
            }
            Accounts::Remove { user } => {
                let account = address_of(&user);
                let change = Change::RemoveAccount { account: account.clone() };
                self.change_account(now, account, change).await
            }
        };
        done.map(|done| chat::StoreReply::Accounts(done.map(|()| AccountList::default())))
    }

    /// Writes a change as a command would, and tells the shards.
    async fn change_account(
        &self,
        now: Instant,
        account: Address,
        change: Change,
    ) -> Result<Result<(), AccountRefusal>, StoreFailure> {
        // Before the write, which may remove them.
        let aliases = Read::Aliases { account: Some(account.clone()) };
        let aliases: Vec<Address> = match self.read(aliases).await {
            Ok(Loaded::Aliases(aliases)) => aliases.into_iter().map(|alias| alias.alias).collect(),
            _ => Vec::new(),
        };
        // Keys take their time.
        let write = tokio::task::spawn_blocking(move || change.into_write(now)).await;
        let write = match write {
            Ok(Ok(write)) => write,
            Ok(Err(failure)) if failure.kind == FailureKind::Invalid => {
                return Ok(Err(AccountRefusal::Invalid(failure.message.into())));
            }
            _ => return Err(StoreFailure::Unavailable),
        };
        let notice = Notice::of(&write);
        let begun = self.desk.begin_write(|ticket| self.store.write(write, ticket));
        let answer = begun.map_err(|store::Busy| StoreFailure::Unavailable)?;
        let done = match answer.await {
            Ok(Ok(done)) => done,
            Ok(Err(StoreError::Exists { .. })) => return Ok(Err(AccountRefusal::Exists)),
            Ok(Err(StoreError::NotFound { .. })) => return Err(StoreFailure::NotFound),
            Ok(Err(StoreError::Invalid { what, expected })) => {
                return Ok(Err(AccountRefusal::Invalid(format!("{what}: expected {expected}").into())));
            }
            _ => return Err(StoreFailure::Unavailable),
        };
        if let Some(notice) = &notice {
            tell_shards(&self.outlets, notice, &aliases, Some(&done));
        }
        Ok(Ok(()))
    }

    /// Lists the accounts of a domain, page by page; finding the disabled ones takes all pages.
    async fn accounts(
        &self,
        domain: Box<str>,
        is_disabled: bool,
        max: usize,
    ) -> Result<chat::StoreReply, StoreFailure> {
        let mut listed = AccountList::default();
        if !is_disabled {
            listed.total = self.count_accounts(&domain).await?;
        }
        let mut filter = AccountFilter {
            domain: Some(domain),
            limit: control::limits::LIST_PAGE,
            ..AccountFilter::default()
        };
        while is_disabled || listed.accounts.len() < max {
            let Ok(Loaded::Accounts(page)) = self.read(Read::Accounts(filter.clone())).await else {
                return Err(StoreFailure::Unavailable);
            };
            // A short page is the last one: the store fills pages where it can.
            let is_last = page.len() < control::limits::LIST_PAGE as usize;
            filter.after = page.last().map(Account::address);
            for account in page.iter().filter(|account| !is_disabled || account.disabled) {
                // The disabled ones have no count in the database; the others were counted above.
                listed.total += u64::from(is_disabled);
                let bare = Bare::new(Some(&account.name), &account.domain).ok();
                listed.accounts.extend(bare.filter(|_| listed.accounts.len() < max));
            }
            if is_last {
                break;
            }
        }
        Ok(chat::StoreReply::Accounts(Ok(listed)))
    }

    /// The number of a domain's accounts, which the list of domains has.
    async fn count_accounts(&self, domain: &str) -> Result<u64, StoreFailure> {
        match self.read(Read::Domains).await {
            Ok(Loaded::Domains(domains)) => {
                let known = domains.iter().find(|known| *known.name == *domain);
                Ok(known.map_or(0, |known| known.accounts))
            }
            _ => Err(StoreFailure::Unavailable),
        }
    }
}

fn address_of(user: &Bare) -> Address {
    Address { user: user.local().unwrap_or_default().into(), domain: user.domain().into() }
}
