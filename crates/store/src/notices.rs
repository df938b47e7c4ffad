//! Notices of changes: what programs that share a database tell each other, so that each forgets what it has cached.
//!
//! A writer sends a notice in the transaction of the change, so that it comes when the change can be read, or not at all.
//! [`Notice::of`] says which write needs one. `Database::listen` opens the other end; SQLite has none, as its node is
//! the only program that writes while it runs.

use std::time::Duration;

use crate::error::StoreError;
use crate::limits;
use crate::postgres::PostgresListener;
use crate::record::{Write, WriteDone};
use crate::rest::{Kind, RestWrite};
use crate::types::Address;

use crate::access::AccessWrite;

/// A change of stored data that programs may have cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The data of an account, or the account that an alias leads to.
    Account {
        /// The address of the account, or the alias.
        address: Address,
        /// The kind of change.
        change: AccountChange,
    },
    /// Accounts that have other passwords, by an import.
    Passwords(Vec<Address>),
    /// Routes or domains.
    Plan,
    /// Resources of the REST interface that decide how numbers are answered, and which queue a document names.
    Numbers,
    /// Anything: a bulk import, or changes that were missed while there was no connection.
    Everything,
}

/// The kind of change of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountChange {
    /// Limits, keys, an alias; or the account is new.
    Data,
    /// The account has another password.
    Password,
    /// No client may sign in any more.
    Disabled,
    /// The account is gone.
    Removed,
}

/// The kinds of [`AccountChange`] as notices spell them.
const CHANGES: [(AccountChange, &str); 4] = [
    (AccountChange::Data, "account"),
    (AccountChange::Password, "password"),
    (AccountChange::Disabled, "disabled"),
    (AccountChange::Removed, "removed"),
];

// The other notices as they are spelled. The accounts of `PASSWORDS` follow it, with a space before each.
const PASSWORDS: &str = "passwords";
const PLAN: &str = "plan";
const NUMBERS: &str = "numbers";
const EVERYTHING: &str = "everything";

impl Notice {
    /// The notice that a write needs; `None` for one that changes nothing that is cached.
    pub fn of(write: &Write) -> Option<Notice> {
        let account = |address: &Address, change| Some(Notice::Account { address: address.clone(), change });
        match write {
            Write::AddAccount(new) | Write::AddClient { account: new, .. } => {
                account(&new.address, AccountChange::Data)
            }
            Write::OfClient { write, .. } => Notice::of(write),
            Write::Access(AccessWrite::Register { account: new, .. }) => {
                account(&new.address, AccountChange::Data)
            }
            Write::AddAlias { alias, .. } | Write::RemoveAlias { alias } => {
                account(alias, AccountChange::Data)
            }
            Write::AddScram { account: address, .. }
            | Write::LearnPassword { account: address, .. }
            | Write::SetDisabled { account: address, disabled: false }
            | Write::SetLimits { account: address, .. } => account(address, AccountChange::Data),
            Write::SetVerifiers { account: address, .. } => account(address, AccountChange::Password),
            Write::SetDisabled { account: address, disabled: true } => {
                account(address, AccountChange::Disabled)
            }
            Write::RemoveAccount { account: address } => account(address, AccountChange::Removed),
            Write::AddRoute(_)
            | Write::ReplaceRoute(_)
            | Write::RemoveRoute { .. }
            | Write::AddDomain { .. }
            | Write::RemoveDomain { .. } => Some(Notice::Plan),
            // A document has named the queue: such rows change nothing, and there is one for each call that has a queue of its own.
            Write::Rest(RestWrite::Ensure(row)) if row.kind == Kind::Queue => None,
            Write::Rest(RestWrite::Insert(row) | RestWrite::Ensure(row) | RestWrite::Replace(row)) => {
                decides_numbers(row.kind).then_some(Notice::Numbers)
            }
            Write::Rest(RestWrite::Remove { kind, .. }) => decides_numbers(*kind).then_some(Notice::Numbers),
            _ => None,
        }
    }

    /// The account whose aliases lead to changed data after the write, too.
    pub fn account_with_aliases(write: &Write) -> Option<&Address> {
        match write {
            Write::SetVerifiers { account, .. }
            | Write::AddScram { account, .. }
            | Write::LearnPassword { account, .. }
            | Write::SetDisabled { account, .. }
            | Write::SetLimits { account, .. }
            | Write::RemoveAccount { account } => Some(account),
            Write::OfClient { write, .. } => Notice::account_with_aliases(write),
            _ => None,
        }
    }

    /// The notices of accounts that have other passwords: as few as hold them.
    pub(crate) fn of_passwords(accounts: &[Address]) -> Vec<Notice> {
        let mut notices: Vec<Vec<Address>> = Vec::new();
        let mut room = 0;
        for account in accounts {
            // With the space before and the @ within.
            let bytes = account.user.len() + account.domain.len() + 2;
            match notices.last_mut().filter(|_| bytes <= room) {
                Some(last) => last.push(account.clone()),
                None => {
                    notices.push(vec![account.clone()]);
                    room = limits::NOTICE_BYTES - PASSWORDS.len();
                }
            }
            room = room.saturating_sub(bytes);
        }
        notices.into_iter().map(Notice::Passwords).collect()
    }

    /// The text of a notification.
    pub(crate) fn payload(&self) -> String {
        match self {
            Notice::Account { address, change } => {
                let kind = CHANGES.iter().find(|(known, _)| known == change).map_or("", |(_, kind)| kind);
                format!("{kind} {address}")
            }
            Notice::Passwords(accounts) => {
                let spelled = |account: &Address| format!(" {account}");
                std::iter::once(PASSWORDS.to_owned()).chain(accounts.iter().map(spelled)).collect()
            }
            Notice::Plan => PLAN.into(),
            Notice::Numbers => NUMBERS.into(),
            Notice::Everything => EVERYTHING.into(),
        }
    }

    /// Reads the text of a notification. One that is not known, of a later version perhaps, may be about anything.
    pub(crate) fn from_payload(payload: &str) -> Notice {
        let (kind, rest) = payload.split_once(' ').unwrap_or((payload, ""));
        if let Some((change, _)) = CHANGES.iter().find(|(_, known)| *known == kind)
            && let Some(address) = address_of(rest)
        {
            return Notice::Account { address, change: *change };
        }
        if kind == PASSWORDS
            && let Some(accounts) = rest.split(' ').map(address_of).collect::<Option<Vec<_>>>()
        {
            return Notice::Passwords(accounts);
        }
        match kind {
            PLAN => Notice::Plan,
            NUMBERS => Notice::Numbers,
            _ => Notice::Everything,
        }
    }
}

/// An address as notices spell it. None has a space.
fn address_of(text: &str) -> Option<Address> {
    let (user, domain) = text.rsplit_once('@')?;
    Some(Address { user: user.into(), domain: domain.into() })
}

/// True if numbers may be answered otherwise, or a document may name another queue, after a change of a resource of this kind.
fn decides_numbers(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::IncomingNumber
            | Kind::Application
            | Kind::Account
            | Kind::CallerId
            | Kind::Client
            | Kind::Queue
    )
}

/// True if a write has changed anything.
pub(crate) fn has_changed(done: &WriteDone) -> bool {
    !matches!(done, WriteDone::Changed { rows: 0 })
}

/// Hears the notices of other programs, on a connection of its own.
pub struct NoticeListener {
    listener: PostgresListener,
}

impl NoticeListener {
    pub(crate) fn new(listener: PostgresListener) -> Self {
        NoticeListener { listener }
    }

    /// Waits for notices on the calling thread, at most for `patience`. The first call connects and returns
    /// [`Notice::Everything`], and so does each one that had to connect again: changes may have been missed.
    /// Changes by writers of the same `Database` are left out: their program knows of them.
    ///
    /// # Errors
    /// The server cannot be reached. The next call tries again.
    pub fn wait(&mut self, patience: Duration) -> Result<Vec<Notice>, StoreError> {
        self.listener.wait(patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bob() -> Address {
        Address { user: "bob".into(), domain: "example.org".into() }
    }

    #[test]
    fn a_notice_is_read_as_it_was_sent() {
        let of_accounts = CHANGES.map(|(change, _)| Notice::Account { address: bob(), change });
        let others =
            [Notice::Passwords(vec![bob(), bob()]), Notice::Plan, Notice::Numbers, Notice::Everything];
        for notice in of_accounts.into_iter().chain(others) {
            assert_eq!(Notice::from_payload(&notice.payload()), notice);
        }
    }

    #[test]
    fn accounts_with_other_passwords_are_told_in_few_notices_that_each_fit() {
        assert_eq!(Notice::of_passwords(&[]), []);
        let account = |number: usize| Address {
            user: "u".repeat(1 + number % crate::limits::MAX_NAME).into(),
            domain: "example.org".into(),
        };
        let accounts: Vec<Address> = (0..5_000).map(account).collect();
        let notices = Notice::of_passwords(&accounts);
        assert!(notices.len() < 100, "{}", notices.len());
        assert!(notices.iter().all(|notice| notice.payload().len() <= crate::limits::NOTICE_BYTES));
        let told = notices.into_iter().flat_map(|notice| match Notice::from_payload(&notice.payload()) {
            Notice::Passwords(accounts) => accounts,
            other => panic!("{other:?}"),
        });
        assert_eq!(told.collect::<Vec<_>>(), accounts);
    }

    #[test]
    fn a_notice_of_a_later_version_may_be_about_anything() {
        for payload in ["", "plans", "account", "account bob", "passwords", "rooms room@example.org"] {
            assert_eq!(Notice::from_payload(payload), Notice::Everything, "{payload:?}");
        }
    }

    #[test]
    fn the_longest_notice_fits_into_a_notification() {
        let address = Address {
            user: "u".repeat(crate::limits::MAX_NAME).into(),
            domain: "d".repeat(crate::limits::MAX_DOMAIN).into(),
        };
        // PostgreSQL's NOTIFY takes less than 8,000 bytes.
        assert!(Notice::Account { address, change: AccountChange::Password }.payload().len() < 8_000);
    }

    #[test]
    fn bindings_call_records_and_queues_of_documents_send_no_notice() {
        let binding = crate::record::BindingWrite {
            bucket: 1,
            aor: "sip:bob@example.org".into(),
            epoch: 0,
            written_at: stdx::Instant::default(),
            replaces: None,
            empties: false,
            record: [].into(),
        };
        assert_eq!(Notice::of(&Write::Binding(binding)), None);
        assert_eq!(Notice::of(&Write::ForgetCalls { before: stdx::Instant::default() }), None);
        // One for each document that names a queue: it stays as it is.
        let queue = || Box::new(crate::rest::Resource::row(&crate::rest::types::Queue::default()).unwrap());
        assert_eq!(Notice::of(&Write::Rest(RestWrite::Ensure(queue()))), None);
        assert_eq!(Notice::of(&Write::Rest(RestWrite::Replace(queue()))), Some(Notice::Numbers));
        let removed = Notice::of(&Write::RemoveAccount { account: bob() });
        assert_eq!(removed, Some(Notice::Account { address: bob(), change: AccountChange::Removed }));
    }
}
