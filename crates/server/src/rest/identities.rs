//! Tokens of identity providers at the REST interface: the way to the thread of sign-in sources, as the console has it (`console_directory`).

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use admin::IdentityVerdict;
use external_auth::{Authenticator, Hidden, TokenAnswer, TokenUse, TokenUser, TokenVerdict};
use stdx::Instant;
use store::Address;

/// The sources of sign-ins, of which some have tokens that name accounts.
pub(super) struct Identities(pub(super) Arc<Authenticator>);

impl Identities {
    /// Asks the domains of the issuer that the token claims, in the order of the configuration: the first that accepts it counts.
    /// Waits, on a thread of the blocking pool, for the time of a source at most.
    pub(super) fn check(&self, now: Instant, token: &str) -> IdentityVerdict {
        let domains = self.0.domains_of_token(TokenUse::Rest, token);
        if domains.is_empty() {
            return IdentityVerdict::NoSource;
        }
        let mut is_unknown = false;
        for domain in domains {
            match self.ask(now, &domain, token) {
                TokenVerdict::Accepted(user) => return verdict(&domain, user),
                TokenVerdict::Refused => {}
                TokenVerdict::Unavailable => is_unknown = true,
            }
        }
        if is_unknown { IdentityVerdict::Unavailable } else { IdentityVerdict::Refused }
    }

    fn ask(&self, now: Instant, domain: &str, token: &str) -> TokenVerdict {
        let (send, receive) = sync_channel(1);
        let answer = TokenAnswer::new(move |verdict| {
            let _ = send.send(verdict);
        });
        self.0.ask_token(now, domain, Hidden(token.into()), answer);
        receive.recv().unwrap_or(TokenVerdict::Unavailable)
    }
}

/// The user as chat prepares names (RFC 7622 §3.3), and the account.
fn verdict(domain: &str, user: TokenUser) -> IdentityVerdict {
    let address = xmpp::Jid::new(Some(&user.name), domain, None).ok();
    let address = address.and_then(|jid| Address::new(jid.local()?, jid.domain()).ok());
    match (address, user.account) {
        (Some(user), Some(account)) => IdentityVerdict::Accepted { user, account },
        _ => IdentityVerdict::Refused,
    }
}
