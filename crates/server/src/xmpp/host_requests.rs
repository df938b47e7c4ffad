//! The host's requests of the store and of the account cache, and the answers in the host's terms.
//!
//! The host numbers its requests with tickets; the shard performs each as an [`XmppEffect`] with a number of its own. The functions that
//! begin a request return an answer if it is at hand; the `handle_…` functions return the answer to a request that has ended, which
//! `Xmpp::answer_host` gives to the host.

use chat::effect::Invitation;
use chat::{Host, Load, StoreFailure, StoreReply, Ticket};
use chat_store::invitation::hash_of;
use chat_store::rows;
use stdx::Instant;
use store::access::{AccessLoaded, AccessRead, AccessWrite};
use store::{Account, Address, Loaded, StoreError, Write, WriteDone};
use xmpp::Bare;
use xmpp::sasl::Secret;

use super::pending::{Asker, PendingRequests};
use super::{Unavailable, XmppEffect, sign_in};

/// The answer to a request of the host.
#[derive(Debug)]
pub(super) struct HostReply {
    pub(super) ticket: Ticket,
    pub(super) result: Result<StoreReply, StoreFailure>,
}

impl HostReply {
    pub(super) fn unavailable(ticket: Ticket) -> HostReply {
        HostReply { ticket, result: Err(StoreFailure::Unavailable) }
    }
}

/// A request under way.
#[derive(Debug)]
enum HostRequest {
    /// Checks that the account exists, for a `Load::User`.
    User { ticket: Ticket, user: Bare },
    /// A read, a write or a command whose result is the answer.
    Record { ticket: Ticket },
    /// The password of an account is changed, or the account removed, by its user.
    AccountChanged { ticket: Ticket, address: Address },
    /// The account was changed: its aliases' cached entries are void.
    Aliases,
}

/// The requests of one host.
pub(super) struct HostRequests {
    pending: PendingRequests<HostRequest>,
}

impl HostRequests {
    pub(super) fn new() -> HostRequests {
        HostRequests { pending: PendingRequests::new(Asker::Host) }
    }

    fn record(&mut self, ticket: Ticket) -> u64 {
        self.pending.insert(HostRequest::Record { ticket })
    }

    /// The numbers of the last request and of the earliest one without an answer.
    pub(super) fn span(&self) -> (u64, Option<u64>) {
        (self.pending.last(), self.pending.earliest())
    }

    /// Reads from the database. A request that is none of the database's is answered at once.
    pub(super) fn load(
        &mut self,
        ticket: Ticket,
        load: Load,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<HostReply> {
        match load {
            Load::User { user } => {
                let (name, domain) = (user.local().unwrap_or_default().into(), user.domain().into());
                let id = self.pending.insert(HostRequest::User { ticket, user });
                outbox.push(XmppEffect::Account { id, user: name, domain });
            }
            Load::Act(action) => outbox.push(XmppEffect::Act { id: self.record(ticket), action }),
            Load::Calls { user, query } => {
                outbox.push(XmppEffect::Calls { id: self.record(ticket), user, query });
            }
            Load::Voicemail { user, request } => {
                outbox.push(XmppEffect::Voicemail { id: self.record(ticket), user, request });
            }
            Load::Accounts(ask) => outbox.push(XmppEffect::Accounts { id: self.record(ticket), ask }),
            load => {
                let Some(read) = rows::read_of(load) else { return Some(HostReply::unavailable(ticket)) };
                outbox.push(XmppEffect::Read { id: self.record(ticket), read });
            }
        }
        None
    }

    /// Writes a change to the database.
    pub(super) fn change(
        &mut self,
        now: Instant,
        ticket: Ticket,
        change: chat::Change,
        outbox: &mut Vec<XmppEffect>,
    ) {
        let id = self.record(ticket);
        outbox.push(XmppEffect::Write { id, write: Write::Xmpp(rows::write_of(now, change)) });
    }

    /// Performs a request about accounts and invitations.
    pub(super) fn access(
        &mut self,
        now: Instant,
        ticket: Ticket,
        access: chat::Access,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<HostReply> {
        let write = match access {
            chat::Access::Password { user, password } => {
                return self.change_account(ticket, &user, Some(password), outbox);
            }
            chat::Access::Remove { user } => return self.change_account(ticket, &user, None, outbox),
            chat::Access::Invitation { token } => {
                let read = AccessRead::Invitation { hash: hash_of(&token) };
                outbox.push(XmppEffect::Access { id: self.record(ticket), read });
                return None;
            }
            chat::Access::Invite { token, invitation } => {
                let Invitation { domain, name, inviter, registers, expires_at } = *invitation;
                AccessWrite::Invite(Box::new(store::access::Invitation {
                    hash: hash_of(&token),
                    domain,
                    name,
                    inviter: inviter.map(|inviter| inviter.as_str().into()),
                    registers,
                    expires_at,
                }))
            }
            chat::Access::UseInvitation { token, inviter } => {
                AccessWrite::UseInvitation { hash: hash_of(&token), inviter: inviter.as_str().into(), now }
            }
        };
        outbox.push(XmppEffect::Write { id: self.record(ticket), write: Write::Access(write) });
        None
    }

    /// A user changes the password, or removes the account. The host waits for the answer.
    fn change_account(
        &mut self,
        ticket: Ticket,
        user: &Bare,
        password: Option<Secret>,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<HostReply> {
        let address = user.local().and_then(|local| Address::new(local, user.domain()).ok());
        let Some(address) = address else {
            return Some(HostReply { ticket, result: Err(StoreFailure::NotFound) });
        };
        // The address is kept for the caches that have to forget it afterwards.
        let id = self.pending.insert(HostRequest::AccountChanged { ticket, address: address.clone() });
        match password {
            Some(password) => {
                outbox.push(XmppEffect::SetPassword { id, account: Box::new(address), password });
            }
            None => outbox.push(XmppEffect::Write { id, write: Write::RemoveAccount { account: address } }),
        }
        None
    }

    /// Handles the account of an address; `Ok(None)`: it has no account. If the address is the account's own, and no alias, the rest of it is
    /// read next.
    pub(super) fn handle_account(
        &mut self,
        id: u64,
        found: Result<Option<&Account>, Unavailable>,
        host: &Host,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<HostReply> {
        let Some(HostRequest::User { ticket, user }) = self.pending.remove(id) else { return None };
        let is_it = |account: &&Account| {
            let account = sign_in::account_of(Some(account), user.domain());
            account.is_some_and(|account| Some(&*account.name) == user.local())
        };
        let result = match found {
            Ok(found) if found.filter(is_it).is_some() => {
                let id = self.record(ticket);
                // The host has the account in memory from now on, and the shard's cache is for those that it
                // has not.
                if host.accounts().is_signed_in(&user) {
                    outbox.push(XmppEffect::LetGo { address: user.as_str().into() });
                }
                outbox.push(XmppEffect::Read { id, read: rows::read_of_user(&user) });
                return None;
            }
            Ok(_) => Ok(StoreReply::User(None)),
            Err(Unavailable) => Err(StoreFailure::Unavailable),
        };
        Some(HostReply { ticket, result })
    }

    /// Handles the outcome of a read. Accounts that `is_own` does not admit belong to other shards and are dropped.
    pub(super) fn handle_loaded(
        &mut self,
        id: u64,
        result: Result<Loaded, StoreError>,
        is_own: impl Fn(&Bare) -> bool,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<HostReply> {
        match self.pending.remove(id)? {
            HostRequest::Record { ticket } => {
                let result = match result {
                    Ok(Loaded::Xmpp(loaded)) => rows::loaded_of(loaded).map(|loaded| own_of(loaded, is_own)),
                    Ok(Loaded::Access(loaded)) => Ok(invitation_of(loaded)),
                    Ok(_) => Err(StoreFailure::Unavailable),
                    Err(error) => Err(rows::error_of(&error)),
                };
                Some(HostReply { ticket, result })
            }
            HostRequest::Aliases => {
                // Without the aliases their entries stay until they are not believed any more, a minute at
                // most.
                let Ok(Loaded::Aliases(aliases)) = result else { return None };
                let addresses = aliases.into_iter().map(|alias| alias.alias.to_string().into());
                outbox.extend(addresses.map(|address| XmppEffect::Forget { address }));
                None
            }
            HostRequest::User { .. } | HostRequest::AccountChanged { .. } => None,
        }
    }

    /// Handles the outcome of a write.
    pub(super) fn handle_written(
        &mut self,
        id: u64,
        result: Result<WriteDone, StoreError>,
        outbox: &mut Vec<XmppEffect>,
    ) -> Option<HostReply> {
        // Another node of the farm has taken over, and this process ends. Until then the host reports nothing: a message whose write
        // was refused so is not handled, and its sender's host sends it to the next owner.
        if matches!(result, Err(StoreError::Fenced { .. })) {
            return None;
        }
        match self.pending.remove(id)? {
            HostRequest::Record { ticket } => Some(HostReply { ticket, result: rows::done_of(result) }),
            HostRequest::AccountChanged { ticket, address } => {
                if result.is_ok() {
                    // Its aliases are cached, too.
                    let id = self.pending.insert(HostRequest::Aliases);
                    outbox.push(XmppEffect::Aliases { id, account: Box::new(address.clone()) });
                    outbox.push(XmppEffect::Forget { address: address.to_string().into() });
                }
                Some(HostReply { ticket, result: rows::done_of(result) })
            }
            HostRequest::User { .. } | HostRequest::Aliases => None,
        }
    }

    /// The store or the shard takes nothing now.
    pub(super) fn handle_refused(&mut self, id: u64) -> Option<HostReply> {
        match self.pending.remove(id)? {
            HostRequest::Record { ticket } => Some(HostReply::unavailable(ticket)),
            HostRequest::AccountChanged { ticket, .. } => {
                Some(HostReply { ticket, result: rows::done_of(Err(StoreError::Closed)) })
            }
            HostRequest::User { .. } | HostRequest::Aliases => None,
        }
    }

    /// Handles the result of a request that was performed beside the shard.
    pub(super) fn handle_administered(
        &mut self,
        id: u64,
        result: Result<StoreReply, StoreFailure>,
    ) -> Option<HostReply> {
        match self.pending.remove(id)? {
            HostRequest::Record { ticket } => Some(HostReply { ticket, result }),
            _ => None,
        }
    }
}

/// The answer without users whose owner is another shard: a read of all users gives those of all shards.
fn own_of(loaded: StoreReply, is_own: impl Fn(&Bare) -> bool) -> StoreReply {
    match loaded {
        StoreReply::Users(mut users) => {
            users.retain(is_own);
            StoreReply::Users(users)
        }
        other => other,
    }
}

/// An invitation that a host has asked about.
fn invitation_of(loaded: AccessLoaded) -> StoreReply {
    let AccessLoaded::Invitation(Some(found)) = loaded else { return StoreReply::Invitation(None) };
    StoreReply::Invitation(Some(Box::new(Invitation {
        domain: found.domain,
        name: found.name,
        inviter: found.inviter.and_then(|inviter| Bare::parse(&inviter).ok()),
        registers: found.registers,
        expires_at: found.expires_at,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_the_database_refuses_to_a_replaced_node_is_not_answered() {
        let mut requests = HostRequests::new();
        let mut written = |result| {
            let mut outbox = Vec::new();
            let change = chat::Change::LastSeen {
                user: Bare::parse("alice@example.net").unwrap(),
                at: Instant::default(),
                status: "".into(),
            };
            requests.change(Instant::default(), Ticket(7), change, &mut outbox);
            let [XmppEffect::Write { id, .. }] = outbox[..] else { panic!("{outbox:?}") };
            requests.handle_written(id, result, &mut Vec::new())
        };
        let server = "postgres".into();
        assert!(written(Err(StoreError::Fenced { server })).is_none());
        let unreachable =
            StoreError::Unreachable { server: "postgres".into(), detail: String::new(), is_refused: false };
        assert!(written(Err(unreachable)).is_some_and(|reply| reply.result.is_err()));
    }
}
