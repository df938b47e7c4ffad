//! The accounts and contacts of the users.
//!
//! Users of the load form a ring: the contacts of a user are the same number of neighbours on either side and, when
//! the number is odd, the user on the opposite side. So contacts are mutual, and need not be stored.

use std::sync::Arc;

use super::account_file::AccountFile;
use super::limits::{PRESENCE_PAIRS, PRESENCE_PLACES};

/// The source of the users' accounts.
#[derive(Debug, Clone)]
enum AccountSource {
    /// `{n}` is the number.
    Pattern { name: String, password: String },
    /// The number is the place.
    Listed(Arc<AccountFile>),
}

/// The users of one load.
#[derive(Debug, Clone)]
pub struct UserDirectory {
    /// Users without monitors.
    count: u32,
    /// Contacts of each user.
    contacts: u32,
    /// Pairs of monitors, whose numbers follow the others'. The users of a pair have each other as only contact.
    pairs: u32,
    /// Number of the first in names.
    first: u32,
    accounts: AccountSource,
    domain: String,
    /// Every n-th user accounts for the presences of its contacts.
    looks: u32,
}

impl UserDirectory {
    /// An odd number of contacts needs an even number of users, so that each has a user on the opposite side.
    pub fn new(
        count: u32,
        contacts: u32,
        first: u32,
        (name, password): (&str, &str),
        domain: &str,
    ) -> Result<UserDirectory, String> {
        if !name.contains("{n}") && count > 1 {
            return Err(format!("name {name:?} of {count} users: expected {{n}} in it"));
        }
        let accounts = AccountSource::Pattern { name: name.to_owned(), password: password.to_owned() };
        UserDirectory::with(accounts, (count, contacts, first), domain)
    }

    /// So many of the accounts of a file, from the one at place `first` on; the domain is theirs.
    pub fn listed(
        count: u32,
        contacts: u32,
        first: u32,
        roll: Arc<AccountFile>,
        domain: &str,
    ) -> Result<UserDirectory, String> {
        let people = UserDirectory::with(AccountSource::Listed(roll), (count, contacts, first), domain)?;
        people.are_all_listed()?;
        Ok(people)
    }

    fn with(
        accounts: AccountSource,
        (count, contacts, first): (u32, u32, u32),
        domain: &str,
    ) -> Result<UserDirectory, String> {
        if count == 0 {
            return Err("no users: expected at least one".to_owned());
        }
        if contacts >= count {
            return Err(format!(
                "{contacts} contacts of {count} users: expected fewer contacts than users: --contacts {} or fewer, or --users {} or more",
                count - 1,
                u64::from(contacts) + 1
            ));
        }
        if contacts % 2 == 1 && count % 2 == 1 {
            return Err(format!(
                "{contacts} contacts of {count} users: friendship is mutual, so one of the two numbers must be even: --users {} or --contacts {}",
                u64::from(count) + 1,
                contacts - 1
            ));
        }
        let people =
            UserDirectory { count, contacts, pairs: 0, first, accounts, domain: domain.to_owned(), looks: 1 };
        Ok(people.with_presences_of(PRESENCE_PAIRS))
    }

    /// Fails when the file has fewer accounts than users.
    fn are_all_listed(&self) -> Result<(), String> {
        let AccountSource::Listed(roll) = &self.accounts else { return Ok(()) };
        let wanted = u64::from(self.first) + u64::from(self.all());
        if wanted <= u64::from(roll.len()) {
            return Ok(());
        }
        let (first, all, listed) = (self.first, self.all(), roll.len());
        Err(format!(
            "{all} users after the first {first} of {listed} accounts: expected {wanted} accounts or more"
        ))
    }

    /// Limits the pairs of users whose presences are accounted for.
    pub(super) fn with_presences_of(self, pairs: u64) -> UserDirectory {
        let all = u64::from(self.count) * u64::from(self.contacts.min(PRESENCE_PLACES));
        let looks = u32::try_from(all.div_ceil(pairs.max(1))).unwrap_or(u32::MAX).max(1);
        UserDirectory { looks, ..self }
    }

    /// The user accounts for the presences of its contacts. Monitors always do; for other users this follows
    /// from the number alone, so that every sender knows it.
    pub fn looks_for_presence(&self, user: u32) -> bool {
        self.is_monitor(user) || user.is_multiple_of(self.looks)
    }

    /// The share of presences to contacts that is accounted for: 1.0 unless there are very many.
    pub fn presence_share(&self) -> f64 {
        let looking = f64::from(self.count.div_ceil(self.looks)) / f64::from(self.count);
        looking * f64::from(self.contacts.min(PRESENCE_PLACES)) / f64::from(self.contacts.max(1))
    }

    /// With so many pairs of monitors beside them.
    pub fn with_monitors(mut self, pairs: u32) -> Result<UserDirectory, String> {
        self.pairs = pairs;
        self.are_all_listed()?;
        match &self.accounts {
            AccountSource::Pattern { name, .. } if pairs > 0 && !name.contains("{n}") => {
                Err(format!("name {name:?} of a user and of monitors: expected {{n}} in it"))
            }
            _ => Ok(self),
        }
    }

    /// Without monitors.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The number of users with monitors, whose numbers follow those of the others.
    pub fn all(&self) -> u32 {
        self.count.saturating_add(self.pairs.saturating_mul(2))
    }

    /// The user is a monitor.
    pub fn is_monitor(&self, user: u32) -> bool {
        user >= self.count
    }

    /// The number of contacts of this user.
    pub fn contacts_of(&self, user: u32) -> u32 {
        if self.is_monitor(user) { 1 } else { self.contacts }
    }

    /// The other of a pair.
    fn partner(&self, monitor: u32) -> u32 {
        self.count + ((monitor - self.count) ^ 1)
    }

    /// The number of contacts of each user that is no monitor.
    pub fn contacts(&self) -> u32 {
        self.contacts
    }

    /// The contact of a user at this place.
    pub fn contact(&self, user: u32, place: u32) -> u32 {
        if self.is_monitor(user) {
            return self.partner(user);
        }
        let (user, count) = (u64::from(user), u64::from(self.count));
        let place = u64::from(place);
        let sides = u64::from(self.contacts / 2) * 2;
        // Even places go forward, odd ones backward, and the last one of an odd number is opposite.
        let distance = if place >= sides {
            count / 2
        } else if place % 2 == 0 {
            place / 2 + 1
        } else {
            count - (place / 2 + 1)
        };
        u32::try_from((user + distance) % count).unwrap_or_default()
    }

    /// The place of another user among a user's contacts.
    pub fn place(&self, user: u32, other: u32) -> Option<u32> {
        if self.is_monitor(user) {
            return (other == self.partner(user)).then_some(0);
        }
        if self.is_monitor(other) || other == user {
            return None;
        }
        let forward = (u64::from(other) + u64::from(self.count) - u64::from(user)) % u64::from(self.count);
        let forward = u32::try_from(forward).unwrap_or_default();
        let backward = self.count - forward;
        let half = self.contacts / 2;
        if forward <= half {
            Some((forward - 1) * 2)
        } else if backward <= half {
            Some((backward - 1) * 2 + 1)
        } else if self.contacts % 2 == 1 && forward == self.count / 2 {
            Some(self.contacts - 1)
        } else {
            None
        }
    }

    /// The name of the user's account.
    pub fn name(&self, user: u32) -> String {
        match &self.accounts {
            AccountSource::Pattern { name, .. } => self.numbered(name, user),
            AccountSource::Listed(roll) => roll.name(self.first.saturating_add(user)).to_owned(),
        }
    }

    /// The password of the user's account.
    pub fn password(&self, user: u32) -> String {
        match &self.accounts {
            AccountSource::Pattern { password, .. } => self.numbered(password, user),
            AccountSource::Listed(roll) => roll.password(self.first.saturating_add(user)).to_owned(),
        }
    }

    /// The nick of a user in rooms.
    pub fn nick(&self, user: u32) -> String {
        match &self.accounts {
            AccountSource::Pattern { name, .. } => self.numbered(name, user),
            AccountSource::Listed(roll) => roll.nick(self.first.saturating_add(user)).to_owned(),
        }
    }

    /// The pattern with the user's number.
    fn numbered(&self, pattern: &str, user: u32) -> String {
        pattern.replace("{n}", &self.shown(user).to_string())
    }

    /// Number of a user, as patterns have it.
    pub fn shown(&self, user: u32) -> u64 {
        u64::from(self.first) + u64::from(user)
    }

    /// Bare address of a user.
    pub fn address(&self, user: u32) -> String {
        format!("{}@{}", self.name(user), self.domain)
    }

    /// The domain of all users.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The number of the user that has this address.
    pub fn number(&self, address: &str) -> Option<u32> {
        let (local, rest) = address.split_once('@')?;
        let domain = rest.split('/').next()?;
        if domain != self.domain {
            return None;
        }
        let number = match &self.accounts {
            AccountSource::Pattern { name, .. } => {
                let (before, after) = name.split_once("{n}").unwrap_or((name, ""));
                let digits = local.strip_prefix(before)?.strip_suffix(after)?;
                if digits.is_empty() {
                    return Some(0);
                }
                digits.parse::<u32>().ok()?
            }
            AccountSource::Listed(roll) => roll.place(local)?,
        };
        number.checked_sub(self.first).filter(|number| *number < self.all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, prop_assume, proptest};

    fn people(count: u32, contacts: u32) -> Result<UserDirectory, String> {
        UserDirectory::new(count, contacts, 5, ("user{n}", "secret{n}"), "example.test")
    }

    proptest! {
        #[test]
        fn friendship_is_mutual_and_with_others(count in 2u32..200, contacts in 0u32..20, user in 0u32..200) {
            prop_assume!(user < count);
            let Ok(people) = people(count, contacts) else { return Ok(()) };
            let mut friends = Vec::new();
            for place in 0..contacts {
                let friend = people.contact(user, place);
                prop_assert!(friend != user && friend < count);
                prop_assert!(people.place(friend, user).is_some());
                prop_assert_eq!(people.contact(user, people.place(user, friend).unwrap()), friend);
                friends.push(friend);
            }
            friends.sort_unstable();
            friends.dedup();
            prop_assert_eq!(friends.len(), contacts as usize);
            let places = (0..count).filter(|other| people.place(user, *other).is_some()).count();
            prop_assert_eq!(places, contacts as usize);
        }
    }

    #[test]
    fn presences_of_very_many_are_sampled() {
        for (count, contacts, pairs, looks) in [
            (100_000, 20, PRESENCE_PAIRS, 1),
            (1_020_000, 30, PRESENCE_PAIRS, 4),
            (10, 3, 10, 3),
            (10, 3, 30, 1),
        ] {
            let people = people(count, contacts).unwrap().with_presences_of(pairs);
            let looking = (0..count).filter(|user| people.looks_for_presence(*user)).count();
            assert_eq!(looking, count.div_ceil(looks) as usize, "{count} users");
            assert!((looking as u64 - 1) * u64::from(contacts) <= pairs);
            assert!(
                (people.presence_share() - f64::from(count.div_ceil(looks)) / f64::from(count)).abs() < 1e-9
            );
        }
        let many = people(200, 128).unwrap();
        assert!((many.presence_share() - 0.5).abs() < 1e-9, "a presence names the first 64");
    }

    #[test]
    fn a_name_identifies_its_user() {
        let people = people(10, 2).unwrap();
        assert_eq!((people.name(3).as_str(), people.password(3).as_str()), ("user8", "secret8"));
        assert_eq!(people.number("user8@example.test/ringer"), Some(3));
        for stranger in
            ["user8@other.test", "user4@example.test", "user15@example.test", "userx@example.test", "x"]
        {
            assert_eq!(people.number(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn monitors_know_each_other_and_no_other_user() {
        let people = people(10, 2).unwrap().with_monitors(2).unwrap();
        assert_eq!(
            (people.count(), people.all(), people.contacts_of(10), people.contacts_of(9)),
            (10, 14, 1, 2)
        );
        for (monitor, partner) in [(10, 11), (11, 10), (12, 13), (13, 12)] {
            assert_eq!((people.contact(monitor, 0), people.place(monitor, partner)), (partner, Some(0)));
        }
        assert_eq!((people.place(10, 12), people.place(10, 9), people.place(9, 10)), (None, None, None));
        assert_eq!(people.number("user18@example.test"), Some(13));
        assert_eq!(people.number("user19@example.test"), None);
    }

    #[test]
    fn a_file_of_accounts_identifies_its_users() {
        let text = "old,x\nzoe,pz\namy,pa,Amy A.\nbob,pb\n";
        let roll = Arc::new(AccountFile::parse(text, "users.csv", "d").unwrap());
        let people = UserDirectory::listed(2, 1, 1, Arc::clone(&roll), "d").unwrap();
        assert_eq!((people.name(1).as_str(), people.password(0).as_str()), ("amy", "pz"));
        assert_eq!((people.nick(0).as_str(), people.nick(1).as_str()), ("zoe", "Amy A."));
        for (address, number) in [
            ("amy@d/ringer", Some(1)),
            ("old@d", None),
            ("bob@d", None),
            ("amy@other", None),
            ("eve@d", None),
        ] {
            assert_eq!(people.number(address), number, "{address}");
        }
        let error = people.with_monitors(1).unwrap_err();
        assert!(error.contains("4 users after the first 1 of 4 accounts: expected 5 accounts"), "{error}");
        let error = UserDirectory::listed(4, 0, 1, roll, "d").unwrap_err();
        assert!(error.contains("expected 5 accounts or more"), "{error}");
    }

    #[test]
    fn impossible_numbers_of_users_are_refused_with_a_reason() {
        for (count, contacts, says) in [
            (0, 0, "at least one"),
            (5, 5, "--contacts 4 or fewer, or --users 6 or more"),
            (5, 3, "must be even: --users 6 or --contacts 2"),
        ] {
            assert!(people(count, contacts).unwrap_err().contains(says));
        }
        let one_name = UserDirectory::new(2, 0, 0, ("user", "x"), "d").unwrap_err();
        assert!(one_name.contains("{n}"), "{one_name}");
    }
}
