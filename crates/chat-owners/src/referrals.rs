//! Clients that sign in at one node while another has their account: the owner refers each to its own host once.
//!
//! A client that goes there needs no other node for its stanzas. One that cannot (its network leads to one address only), or does not follow
//! `see-other-host`, tries the first node again and is served there.

use std::collections::HashSet;

use stdx::Instant;
use xmpp::Bare;

use crate::limits;

/// The accounts of one shard that were referred of late. Two sets, of which the older one is forgotten: an account is in them for one to two
/// periods, and they are bounded.
#[derive(Debug, Default)]
pub struct Referrals {
    recent: HashSet<Bare>,
    earlier: HashSet<Bare>,
    began: Instant,
}

impl Referrals {
    /// A client asks for a session of this account at another node. True: it is to be referred, for the first time in a while.
    pub fn refers(&mut self, now: Instant, account: &Bare) -> bool {
        if now.since(self.began) >= limits::REFERRED_FOR || self.recent.len() >= limits::REFERRALS {
            self.earlier = std::mem::take(&mut self.recent);
            self.began = now;
        }
        !self.earlier.contains(account) && self.recent.insert(account.clone())
    }

    /// A client of this account asks for a session at the account's own node: it follows, and may be referred the next time, too.
    pub fn handle_arrival(&mut self, account: &Bare) {
        self.recent.remove(account);
        self.earlier.remove(account);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn account(number: usize) -> Bare {
        Bare::parse(&format!("user{number}@example.org")).unwrap()
    }

    #[test]
    fn a_client_is_referred_once_unless_it_follows() {
        let (mut referrals, now) = (Referrals::default(), Instant::from_unix_seconds(10_000));
        let alice = account(1);
        assert!(referrals.refers(now, &alice));
        assert!(!referrals.refers(now, &alice), "it came back, and stays");
        assert!(referrals.refers(now, &account(2)), "another account");
        referrals.handle_arrival(&alice);
        assert!(referrals.refers(now, &alice), "it has followed");
        let later = now + 2 * limits::REFERRED_FOR;
        assert!(!referrals.refers(now + limits::REFERRED_FOR - Duration::from_secs(1), &alice));
        assert!(!referrals.refers(now + limits::REFERRED_FOR, &alice), "of the period before");
        assert!(referrals.refers(later, &alice));
    }

    #[test]
    fn the_number_of_kept_referrals_is_bounded() {
        let (mut referrals, now) = (Referrals::default(), Instant::from_unix_seconds(10_000));
        for number in 0..3 * limits::REFERRALS {
            assert!(referrals.refers(now, &account(number)));
            assert!(referrals.recent.len() + referrals.earlier.len() <= 2 * limits::REFERRALS);
        }
        assert!(!referrals.refers(now, &account(3 * limits::REFERRALS - 1)));
    }
}
