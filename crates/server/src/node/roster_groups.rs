//! The shared roster groups of a process: made once for a configuration and what was found of members elsewhere, and shared by its shards.
//!
//! Members that the configuration does not name are found at the start, at a reload, and every minute: the accounts of domains in the
//! database, and those of them that a directory has in a group; a directory is asked as often as for roles (`refresh`). It is asked about
//! accounts, two searches each: one of its groups may be larger than an answer may be, may have other groups in it, and has entries that are no
//! users of chat. While there is no answer the last one counts.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chat::groups::{SharedGroup, SharedGroups};
use chat::limits::GROUP_MEMBERS;
use config::{DirectoryGroup, RosterGroup};
use control::{Control as _, DirectoryGroupRow, RosterGroupPage, RosterGroupQuery, RosterGroupRow};
use external_auth::MemberAnswer;
use store::{Account, AccountFilter, Address, Loaded, Read, Reader};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};
use xmpp::Bare;

use super::Node;
use super::operator::Operator;

/// The pause between two looks at accounts. A new one is in its groups after at most this.
const LOOK: Duration = Duration::from_secs(60);

/// The groups that the shards have.
#[derive(Debug, Default)]
pub(super) struct RosterGroups {
    current: Mutex<Current>,
    /// A reload asks for members at once.
    is_reloaded: Notify,
}

#[derive(Debug, Default)]
struct Current {
    /// Members that were found elsewhere, by the source of members.
    found: HashMap<MemberSource, Vec<Bare>>,
    defined: Vec<SharedGroup>,
    groups: Arc<SharedGroups>,
}

/// A place that has members of groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MemberSource {
    /// The accounts of a domain.
    Domain(Box<str>),
    /// A group of the directory of a domain: the domain, and the name of the group.
    Directory(Box<str>, Box<str>),
}

impl RosterGroups {
    /// The groups by their definitions, with the members at these domains: servers of others know nothing of the groups, so their accounts
    /// would not see the members. The same object for the same groups.
    pub(super) fn of(&self, configured: &[RosterGroup], domains: &[Box<str>]) -> Arc<SharedGroups> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = |configured: &RosterGroup| {
            let mut group = configured.group.clone();
            group.members.retain(|member| domains.iter().any(|domain| **domain == *member.domain()));
            for source in sources_of(configured) {
                group.members.extend(current.found.get(&source).into_iter().flatten().cloned());
            }
            group.members.sort_unstable();
            group.members.dedup();
            let has_rest = group.members.len() > GROUP_MEMBERS;
            group.members.truncate(GROUP_MEMBERS);
            (group, has_rest)
        };
        let (defined, has_rest): (Vec<SharedGroup>, Vec<bool>) = configured.iter().map(complete).unzip();
        if current.defined != defined {
            for (group, _) in defined.iter().zip(has_rest).filter(|(_, has_rest)| *has_rest) {
                let (group, most) = (&*group.name, GROUP_MEMBERS);
                tracing::warn!(group, most, "this shared group has more members: the rest is left out");
            }
            current.groups = Arc::new(SharedGroups::new(defined.clone()));
            current.defined = defined;
        }
        Arc::clone(&current.groups)
    }

    /// A page of the groups as the shards have them, or the one that is asked for with a page of its members. Groups of a configuration that the shards do not
    /// have yet are left out.
    fn page(&self, configured: &[RosterGroup], query: &RosterGroupQuery) -> RosterGroupPage {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = query.limit.min(control::limits::LIST_PAGE) as usize;
        let total = configured.len() as u64;
        // Both are in the order of the configuration: see `of`.
        let both = configured.iter().zip(&current.defined);
        let mut known = both.filter(|(configured, defined)| configured.group.name == defined.name);
        if let Some(name) = &query.name {
            let Some((group, defined)) = known.find(|(_, defined)| defined.name == *name) else {
                return RosterGroupPage { total, ..RosterGroupPage::default() };
            };
            // In the order of their addresses.
            let behind = defined.members.iter().filter(|member| member.as_str() > &*query.after);
            let members = behind.take(limit).map(|member| member.as_str().into()).collect();
            return RosterGroupPage { groups: vec![row(group, defined)], total, members };
        }
        if !query.after.is_empty() {
            // A reload may have taken the group away: then there is no page behind it.
            known.find(|(_, defined)| defined.name == query.after);
        }
        let groups = known.take(limit).map(|(group, defined)| row(group, defined)).collect();
        RosterGroupPage { groups, total, members: Vec::new() }
    }

    /// The configuration was read again: members are looked for at once.
    pub(super) fn handle_reload(&self) {
        self.is_reloaded.notify_one();
    }

    /// Members were found. True: they are others than before.
    fn set_found(&self, source: MemberSource, members: Vec<Bare>) -> bool {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let found = current.found.entry(source).or_default();
        let is_other = *found != members;
        *found = members;
        is_other
    }
}

/// The groups of a node, for operators.
pub(super) fn page(node: &Node, query: &RosterGroupQuery) -> RosterGroupPage {
    node.shared.chat.groups.page(&node.shared.config.xmpp.groups, query)
}

/// A group for operators; `defined` has its members of all sources.
fn row(configured: &RosterGroup, defined: &SharedGroup) -> RosterGroupRow {
    let of_directory = |DirectoryGroup { domain, group }: &DirectoryGroup| DirectoryGroupRow {
        domain: domain.clone(),
        group: group.clone(),
    };
    RosterGroupRow {
        name: defined.name.clone(),
        label: defined.label.clone(),
        shown_to: defined.shown_to.clone(),
        members: defined.members.len() as u64,
        named: configured.group.members.len() as u64,
        everyone: configured.everyone.clone(),
        directory: configured.directory.as_ref().map(of_directory),
    }
}

/// The places that have more members of a group.
fn sources_of(group: &RosterGroup) -> impl Iterator<Item = MemberSource> {
    let domains = group.everyone.iter().cloned().map(MemberSource::Domain);
    let directory = group.directory.iter();
    domains.chain(
        directory
            .map(|DirectoryGroup { domain, group }| MemberSource::Directory(domain.clone(), group.clone())),
    )
}

/// Warns of members that have no effect, once a start.
pub(super) fn warn(configured: &[RosterGroup], domains: &[Box<str>]) {
    for RosterGroup { group, .. } in configured {
        let is_other = |member: &&Bare| !domains.iter().any(|domain| **domain == *member.domain());
        if let Some(member) = group.members.iter().find(is_other) {
            tracing::warn!(
                group = &*group.name,
                member = member.as_str(),
                "this member of a shared group is at no domain of this server and is left out: see [[xmpp.groups]]"
            );
        }
    }
}

/// Finds members until the node ends, also those of groups that a reload brings. An edge without a database owns no accounts.
pub(super) fn begin(operator: &Rc<Operator>) {
    let node = operator.node.borrow();
    let follows_plan = node.shared.farm.as_ref().is_some_and(|farm| farm.follows_plan);
    if node.shared.config.xmpp.is_on() && !follows_plan {
        spawn_local(follow(Rc::clone(operator)));
    }
}

/// The last answer of the directory of a domain.
struct AskedDirectory {
    at: Instant,
    groups: Vec<Box<str>>,
}

async fn follow(operator: Rc<Operator>) {
    let groups = Arc::clone(&operator.node.borrow().shared.chat.groups);
    let mut asked = HashMap::new();
    loop {
        let mut is_other = false;
        for (domain, groups) in domains_of(&operator) {
            is_other |= look(&operator, &domain, groups, &mut asked).await;
        }
        if is_other {
            operator.node.borrow().give_settings();
        }
        tokio::select! {
            () = groups.is_reloaded.notified() => asked.clear(),
            () = sleep(LOOK) => {}
        }
    }
}

/// The domains whose accounts are members, each with the groups of its directory that are asked for.
fn domains_of(operator: &Operator) -> Vec<(Box<str>, Vec<Box<str>>)> {
    let mut domains: Vec<(Box<str>, Vec<Box<str>>)> = Vec::new();
    let node = operator.node.borrow();
    for source in node.shared.config.xmpp.groups.iter().flat_map(sources_of) {
        let (domain, group) = match source {
            MemberSource::Domain(domain) => (domain, None),
            MemberSource::Directory(domain, group) => (domain, Some(group)),
        };
        let known = domains.iter().position(|(known, _)| *known == domain).unwrap_or_else(|| {
            domains.push((domain, Vec::new()));
            domains.len() - 1
        });
        let groups = &mut domains[known].1;
        groups.extend(group.filter(|group| !groups.contains(group)));
    }
    domains
}

/// Finds the members of one domain. True: there are others than before.
async fn look(
    operator: &Operator,
    domain: &str,
    groups: Vec<Box<str>>,
    asked: &mut HashMap<Box<str>, AskedDirectory>,
) -> bool {
    let Some(accounts) = accounts_of(operator, domain).await else { return false };
    let found = Arc::clone(&operator.node.borrow().shared.chat.groups);
    let mut is_other = found.set_found(MemberSource::Domain(domain.into()), accounts.clone());
    let (authenticator, refresh) = {
        let node = operator.node.borrow();
        let Some(authenticator) = node.shared.authenticator.clone().filter(|_| !groups.is_empty()) else {
            return is_other;
        };
        let settings = authenticator.source_of(domain).and_then(|source| source.group_times());
        let Some(refresh) = settings.map(|times| times.refresh) else { return is_other };
        (authenticator, refresh)
    };
    // A new account or group does not wait for the next time.
    let is_fresh = |asked: &AskedDirectory| asked.at.elapsed() < refresh && asked.groups == groups;
    if !is_other && asked.get(domain).is_some_and(is_fresh) {
        return is_other;
    }
    let users = accounts.iter().filter_map(|account| account.local().map(Box::from)).collect();
    let (send, receive) = oneshot::channel();
    // A node that ends does not want the members any more.
    let answer = MemberAnswer::new(move |members| drop(send.send(members)));
    authenticator.ask_members(domain, users, groups.clone(), answer);
    let Ok(Some(members)) = receive.await else { return is_other };
    for (group, users) in groups.iter().zip(members) {
        let addresses = users.iter().map(|user| format!("{user}@{domain}"));
        let members = addresses.filter_map(|address| Bare::parse(&address).ok()).collect();
        is_other |= found.set_found(MemberSource::Directory(domain.into(), group.clone()), members);
    }
    asked.insert(domain.into(), AskedDirectory { at: Instant::now(), groups });
    is_other
}

/// The accounts of a domain that are not disabled, in order. `None`: the database gives no answer.
async fn accounts_of(operator: &Operator, domain: &str) -> Option<Vec<Bare>> {
    let mut pages = AccountPages::default();
    while let Some(read) = pages.next(domain) {
        pages.handle(operator.read(read).await.ok()?);
    }
    Some(pages.accounts)
}

/// Finds the accounts of domains before clients sign in: else each would get its groups as changes. Directories are asked later.
pub(super) fn find_accounts(
    groups: &RosterGroups,
    configured: &[RosterGroup],
    reader: &mut dyn Reader,
) -> Result<(), store::StoreError> {
    for source in configured.iter().flat_map(sources_of) {
        let MemberSource::Domain(domain) = &source else { continue };
        let mut pages = AccountPages::default();
        while let Some(read) = pages.next(domain) {
            pages.handle(reader.load(&read)?);
        }
        groups.set_found(source, pages.accounts);
    }
    Ok(())
}

/// The accounts of a domain, while they are read page by page.
#[derive(Default)]
struct AccountPages {
    accounts: Vec<Bare>,
    after: Option<Address>,
    is_complete: bool,
}

impl AccountPages {
    /// Accounts of one page.
    const SIZE: u32 = 1_000;

    /// The next page. `None`: all are read, or as many as a group may have.
    fn next(&self, domain: &str) -> Option<Read> {
        let after = self.after.clone();
        let filter = AccountFilter {
            domain: Some(domain.into()),
            after,
            limit: Self::SIZE,
            ..AccountFilter::default()
        };
        (!self.is_complete && self.accounts.len() <= GROUP_MEMBERS).then_some(Read::Accounts(filter))
    }

    fn handle(&mut self, loaded: Loaded) {
        let Loaded::Accounts(page) = loaded else {
            self.is_complete = true;
            return;
        };
        self.is_complete = page.len() < Self::SIZE as usize;
        self.after = page.last().map(Account::address);
        let used = page.iter().filter(|account| !account.disabled);
        self.accounts.extend(used.filter_map(|account| Bare::parse(&account.address().to_string()).ok()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(text: &str) -> Bare {
        Bare::parse(text).unwrap()
    }

    fn office(members: &[&str]) -> RosterGroup {
        let name: Box<str> = "office".into();
        let members = members.iter().map(|member| bare(member)).collect();
        let group = SharedGroup { label: name.clone(), members, shown_to: vec![name.clone()], name };
        RosterGroup { group, ..RosterGroup::default() }
    }

    fn members(groups: &SharedGroups) -> Vec<&str> {
        groups.iter().flat_map(|(_, members)| members).map(Bare::as_str).collect()
    }

    #[test]
    fn shards_share_the_groups_and_members_of_other_servers_are_left_out() {
        let groups = RosterGroups::default();
        let domains = ["example.org".into()];
        let defined = [office(&["alice@example.org", "bob@example.org", "eve@x.org"])];
        let first = groups.of(&defined, &domains);
        assert!(Arc::ptr_eq(&first, &groups.of(&defined, &domains)));
        assert_eq!(members(&first), ["alice@example.org", "bob@example.org"]);
        let other = groups.of(&[office(&["alice@example.org"])], &domains);
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn members_that_were_found_are_added_to_the_groups_that_ask_for_them() {
        let groups = RosterGroups::default();
        let domain: Box<str> = "example.org".into();
        let configured = [RosterGroup {
            everyone: vec![domain.clone()],
            directory: Some(DirectoryGroup { domain: domain.clone(), group: "eng".into() }),
            ..office(&["alice@example.org"])
        }];
        let domains = [domain.clone()];
        assert_eq!(members(&groups.of(&configured, &domains)), ["alice@example.org"]);
        let all = vec![bare("alice@example.org"), bare("bob@example.org")];
        assert!(groups.set_found(MemberSource::Domain(domain.clone()), all.clone()));
        assert!(!groups.set_found(MemberSource::Domain(domain.clone()), all));
        assert!(
            groups.set_found(MemberSource::Directory(domain, "eng".into()), vec![bare("carol@example.org")])
        );
        let found = groups.of(&configured, &domains);
        assert_eq!(members(&found), ["alice@example.org", "bob@example.org", "carol@example.org"]);
        assert_eq!(members(&groups.of(&[office(&["alice@example.org"])], &domains)), ["alice@example.org"]);
    }

    #[test]
    fn operators_see_the_groups_page_by_page_and_the_members_of_one() {
        let groups = RosterGroups::default();
        let domain: Box<str> = "example.org".into();
        let named = |name: &str, members: &[&str]| {
            let mut configured = office(members);
            configured.group.name = name.into();
            configured
        };
        let all = RosterGroup {
            everyone: vec![domain.clone()],
            directory: Some(DirectoryGroup { domain: domain.clone(), group: "eng".into() }),
            ..named("all", &["bob@example.org", "eve@x.org"])
        };
        let configured = [named("a", &["alice@example.org"]), all, named("c", &["carol@example.org"])];
        let found = ["alice", "carol", "dave"].map(|user| bare(&format!("{user}@example.org")));
        groups.set_found(MemberSource::Domain(domain.clone()), found.to_vec());
        let page = |name: Option<&str>, after: &str, limit| {
            let query = RosterGroupQuery { name: name.map(Into::into), after: after.into(), limit };
            groups.page(&configured, &query)
        };
        assert!(page(None, "", 10).groups.is_empty(), "the shards have none yet");
        groups.of(&configured, std::slice::from_ref(&domain));
        let names = |page: &RosterGroupPage| -> Vec<Box<str>> {
            page.groups.iter().map(|group| group.name.clone()).collect()
        };
        let first = page(None, "", 2);
        assert_eq!((names(&first), first.total), (vec!["a".into(), "all".into()], 3));
        let RosterGroupRow { label, members, named, everyone, directory, shown_to, .. } = &first.groups[1];
        assert_eq!((&**label, *members, *named), ("office", 4, 2), "eve is no member");
        assert_eq!((&everyone[..], &shown_to[..]), (&[domain.clone()][..], &["office".into()][..]));
        assert_eq!(directory.as_ref().map(|directory| &*directory.group), Some("eng"));
        assert_eq!(names(&page(None, "all", 2)), ["c".into()]);
        assert!(page(None, "c", 2).groups.is_empty() && page(None, "gone", 2).groups.is_empty());
        let members = |after| page(Some("all"), after, 3).members;
        let expected: Vec<Box<str>> =
            ["alice", "bob", "carol"].map(|user| format!("{user}@example.org").into()).into();
        assert_eq!(members(""), expected);
        assert_eq!(members("carol@example.org"), ["dave@example.org".into()]);
        assert!(page(Some("gone"), "", 3).groups.is_empty());
    }

    #[test]
    fn a_group_has_no_more_members_than_the_limit() {
        let groups = RosterGroups::default();
        let domain: Box<str> = "example.org".into();
        let all = (0..=GROUP_MEMBERS).map(|number| bare(&format!("m{number}@example.org"))).collect();
        groups.set_found(MemberSource::Domain(domain.clone()), all);
        let configured = [RosterGroup { everyone: vec![domain.clone()], ..office(&[]) }];
        assert_eq!(members(&groups.of(&configured, &[domain])).len(), GROUP_MEMBERS);
    }
}
