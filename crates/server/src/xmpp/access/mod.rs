//! How people become somebody besides by a password: tokens (XEP-0484), accounts made in band (XEP-0077, XEP-0445); and
//! how they cease to be.

mod registration;
mod tokens;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stdx::Instant;
use stdx::rate::{Limiter, Policy, Rate, SourcePrefix};

pub(crate) use registration::{NewAccount, hash_of};
pub(super) use tokens::TokenKey;

use store::access::{AccessLoaded, AccessRead, AccessWrite};
use store::{StoreError, Write, WriteDone};
use xmpp::Bare;
use xmpp::host::effect::Invitation;
use xmpp::host::{self, Loaded};
use xmpp::sasl::Known;

use super::{Asked, Wish, Xmpp};
use crate::config::Registration;
use crate::limits;

/// The same for all shards.
pub(crate) struct Access {
    /// Of which tokens are made.
    pub(crate) secret: [u8; 32],
    pub(crate) tokens_for: Duration,
    pub(crate) registration: Registration,
    /// Where clients go while the node drains.
    pub(crate) other_hosts: Vec<Box<str>>,
    /// Accounts made of late, by source: one source is at many shards.
    made: Mutex<Limiter<SourcePrefix>>,
}

impl Access {
    pub(crate) fn new(
        secret: [u8; 32],
        access: &crate::config::Access,
        registration: &Registration,
    ) -> Arc<Access> {
        let per_hour = registration.per_hour.max(1);
        let policy = Policy {
            capacity: limits::XMPP_REGISTERING,
            rate: Rate { interval: Duration::from_hours(1) / per_hour, burst: per_hour },
            // Failures are the streams' to count.
            free_failures: u32::MAX,
            first_penalty: Duration::ZERO,
            longest_penalty: Duration::ZERO,
            forgive_after: Duration::ZERO,
        };
        Arc::new(Access {
            secret,
            tokens_for: access.tokens,
            registration: registration.clone(),
            other_hosts: access.other_hosts.clone(),
            made: Mutex::new(Limiter::new(policy)),
        })
    }

    /// Whether this source may make one more account now.
    fn may_make(&self, now: Instant, source: IpAddr) -> bool {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.allow(now, SourcePrefix::of(source)).is_pass()
    }

    /// Why a password is not taken.
    fn password_fault(&self, password: &str) -> Option<String> {
        let least = self.registration.min_password as usize;
        let most = store::limits::MAX_PASSWORD;
        let fits = (least..=most).contains(&password.len());
        (!fits).then(|| format!("a password has {least} to {most} bytes"))
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("registration", &self.registration).finish_non_exhaustive()
    }
}

impl Xmpp {
    /// What the record says of tokens and invitations; `None`: it cannot be asked.
    pub(super) fn access_loaded(
        &mut self,
        now: Instant,
        asked: Asked,
        loaded: Option<AccessLoaded>,
        wishes: &mut Vec<Wish>,
    ) {
        match asked {
            Asked::Tokens { stream, name, key, agent } => {
                let known = match loaded {
                    Some(AccessLoaded::Tokens(rows)) => key.known(now, &agent, rows),
                    _ => Known::Unavailable,
                };
                self.streams.tell(stream, |c2s, out| c2s.handle_found_as(known, &name, out));
            }
            Asked::Invited { stream, domain } => self.invitation_read(now, stream, &domain, loaded),
            Asked::Registering { stream, registration } => {
                self.registration_checked(now, stream, *registration, loaded, wishes);
            }
            _ => {}
        }
    }

    /// What a host wants.
    pub(super) fn host_access(
        &mut self,
        now: Instant,
        ticket: host::Ticket,
        access: host::Access,
        wishes: &mut Vec<Wish>,
    ) {
        let write = match access {
            host::Access::Password { user, password } => {
                return self.change_account(now, ticket, &user, Some(password), wishes);
            }
            host::Access::Remove { user } => return self.change_account(now, ticket, &user, None, wishes),
            host::Access::Invitation { token } => {
                let id = self.ask(Asked::Record { ticket });
                let read = AccessRead::Invitation { hash: hash_of(&token) };
                return wishes.push(Wish::Access { id, read });
            }
            host::Access::Invite { token, invitation } => {
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
            host::Access::UseInvitation { token } => AccessWrite::ForgetInvitation { hash: hash_of(&token) },
        };
        let id = self.ask(Asked::Record { ticket });
        wishes.push(Wish::Write { id, write: Write::Access(write) });
    }

    pub(super) fn access_written(
        &mut self,
        now: Instant,
        asked: Asked,
        result: Result<WriteDone, StoreError>,
        wishes: &mut Vec<Wish>,
    ) {
        match asked {
            Asked::TokensWritten { stream, new, was_used } => {
                self.tokens_done(stream, new, was_used, &result);
            }
            Asked::Registered { stream, user, inviter } => {
                self.registered(now, stream, (user, inviter), result, wishes);
            }
            Asked::AccountChanged { ticket, address } => {
                self.account_changed(now, (ticket, address), result, wishes);
            }
            _ => {}
        }
    }
}

/// For a host: an invitation it asked about.
pub(super) fn loaded_of(loaded: AccessLoaded) -> Loaded {
    let AccessLoaded::Invitation(Some(found)) = loaded else { return Loaded::Invitation(None) };
    Loaded::Invitation(Some(Box::new(Invitation {
        domain: found.domain,
        name: found.name,
        inviter: found.inviter.and_then(|inviter| Bare::parse(&inviter).ok()),
        registers: found.registers,
        expires_at: found.expires_at,
    })))
}
