//! The decision if an account lets another one watch it from a phone: by its roster (RFC 6121 §3).

use std::collections::HashMap;

use stdx::Instant;
use xmpp::Bare;

use super::super::effect::Effect;
use super::super::{Host, Outbox};
use crate::{blocking, limits};

/// Queries that wait for the data of their account.
#[derive(Default)]
pub(super) struct PendingConsents(HashMap<u64, Bare>);

impl PendingConsents {
    /// The account's data cannot be read: it has consented to nothing.
    pub(super) fn fail(&mut self, user: &Bare, out: &mut Outbox) {
        let waiting = self.0.iter().filter(|(_, account)| *account == user);
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.0.remove(&id);
            out.push(Effect::Consent { id, is_given: false });
        }
    }
}

/// Answered by `Effect::Consent`: a contact with the subscription `from` or `both`, that is not blocked, may.
pub(super) fn handle_watcher(
    host: &mut Host,
    now: Instant,
    id: u64,
    user: Bare,
    watcher: Bare,
    out: &mut Outbox,
) {
    if host.phones.consents.0.len() >= limits::PHONE_MESSAGES {
        return out.push(Effect::Consent { id, is_given: false });
    }
    host.phones.consents.0.insert(id, user.clone());
    let account = user.clone();
    host.with_account_data(now, &account, out, move |host, _, out| {
        let is_subscribed = host
            .accounts
            .data(&user)
            .and_then(|data| data.contact(&watcher))
            .is_some_and(|item| item.subscription.has_from());
        let is_given = is_subscribed && !blocking::blocks_incoming(&host.accounts, &user, watcher.as_jid());
        if host.phones.consents.0.remove(&id).is_some() {
            out.push(Effect::Consent { id, is_given });
        }
    });
}
