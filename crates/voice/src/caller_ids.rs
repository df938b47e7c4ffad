//! Caller IDs that an account may use: its numbers, its clients, and those that the operator vouches for
//! (OutgoingCallerIds). Otherwise an application could call under any bank's number.

use std::collections::{HashMap, HashSet};

use sip::wire::Uri;
use store::rest::types::{CallerId, Client};

use super::numbers::Numbers;

/// Telephone numbers are longer than this, extensions are not: E.164 numbers with country code have 7 to 15 digits.
const EXTENSION_DIGITS: usize = 6;

/// Caller IDs of the record besides bound numbers.
#[derive(Debug, Default)]
pub(super) struct CallerIds {
    /// The operator's account.
    first: Box<str>,
    /// Account and number, as OutgoingCallerIds have it: digits with their plus.
    vouched: HashSet<(Box<str>, Box<str>)>,
    /// The account of each client's login.
    clients: HashMap<Box<str>, Box<str>>,
}

impl CallerIds {
    pub(super) fn new(first: &str, vouched: Vec<CallerId>, clients: Vec<Client>) -> CallerIds {
        let vouched = vouched.into_iter().map(|id| (id.common.account.into(), id.phone_number.into()));
        let clients = clients.into_iter().map(|client| (client.login.into(), client.common.account.into()));
        CallerIds { first: first.into(), vouched: vouched.collect(), clients: clients.collect() }
    }
}

impl Numbers {
    /// True if a call of this account may come from that number, name, `client:` or `sip:` address. `is_ours`: the host
    /// stands for a domain that is served here.
    pub(super) fn may_show(
        &self,
        account: &str,
        shown: &str,
        is_ours: impl Fn(&str, Option<u16>) -> bool,
    ) -> bool {
        let bare = shown.trim();
        let scheme = bare.split(':').next().unwrap_or_default().to_ascii_lowercase();
        if !matches!(&*scheme, "sip" | "sips") {
            return self.owns(account, bare.strip_prefix("client:").unwrap_or(bare));
        }
        let Ok(uri) = Uri::parse(bare.as_bytes()) else { return false };
        let user = uri.user_decoded().unwrap_or_default();
        is_ours(&uri.host_lower(), uri.port) && self.owns(account, &user)
    }

    fn owns(&self, account: &str, user: &str) -> bool {
        let ids = &self.caller_ids;
        let number: String = user.chars().filter(|c| !" -.()".contains(*c)).collect();
        let digits = number.strip_prefix('+').unwrap_or(&number);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let with_plus = if is_number { format!("+{digits}") } else { user.to_owned() };
        let is_first = account == &*ids.first;
        if ids.vouched.contains(&(account.into(), with_plus.into())) || user.eq_ignore_ascii_case("anonymous")
        {
            return true;
        }
        match self.owner_of_number(&number).or_else(|| ids.clients.get(user).map(|owner| &**owner)) {
            Some(owner) => owner == account,
            // Names and extensions of phones are the operator's, and no carrier takes them for a subscriber's.
            None => is_first && (!is_number || digits.len() <= EXTENSION_DIGITS),
        }
    }
}
