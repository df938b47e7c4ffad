//! Lists of the calls and registrations that the nodes have now.

use serde::{Deserialize, Serialize};

use super::BindingRow;
use crate::limits;

/// A call that has not ended. Times are microseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Call-ID of the INVITE.
    pub call_id: Box<str>,
    /// The URI in its From.
    pub from: Box<str>,
    /// The URI in its To.
    pub to: Box<str>,
    /// The account that places it, when one does.
    pub account: Option<Box<str>>,
    /// The account that is called, when it is one of ours.
    pub callee: Option<Box<str>>,
    /// `calling` or `answered`.
    pub state: Box<str>,
    /// The time of the INVITE.
    pub started_at: u64,
    /// The time of the first 2xx.
    pub answered_at: Option<u64>,
    /// The SID of a call of an application, by which it can be ended.
    #[serde(default)]
    pub sid: Option<Box<str>>,
    /// The node that has the call; none: the node is alone.
    #[serde(default)]
    pub node: Option<Box<str>>,
}

/// The newest open calls, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCallList {
    /// The newest calls, at most `limits::OPEN_CALLS`.
    pub calls: Vec<OpenCall>,
    /// The number of all that were asked for.
    pub total: u64,
}

impl OpenCallList {
    /// Joins the lists of shards.
    pub fn joined(lists: impl IntoIterator<Item = OpenCallList>) -> OpenCallList {
        let mut all = OpenCallList::default();
        lists.into_iter().for_each(|list| all.add(list));
        all.finish();
        all
    }

    pub(crate) fn add(&mut self, other: OpenCallList) {
        self.calls.extend(other.calls);
        self.total += other.total;
    }

    /// The calls of this list are at the node.
    pub(crate) fn set_node(&mut self, node: &str) {
        self.calls.iter_mut().for_each(|call| call.node = Some(node.into()));
    }

    /// The newest first, and no more than a list has.
    pub(crate) fn finish(&mut self) {
        self.calls.sort_by_cached_key(|call| (std::cmp::Reverse(call.started_at), call.call_id.clone()));
        self.calls.truncate(limits::OPEN_CALLS);
    }
}

/// A question for a page of registered addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrationQuery {
    /// Addresses that begin so; empty: all.
    pub prefix: Box<str>,
    /// Addresses behind this one: the last of the page before. Empty: from the first.
    pub after: Box<str>,
    /// Addresses at most.
    pub limit: u32,
}

/// An address with its registrations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredAddress {
    /// The address of record.
    pub address: Box<str>,
    /// Its registrations; one at least.
    pub contacts: Vec<BindingRow>,
}

/// A page of registered addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrationPage {
    /// The addresses in their order.
    pub addresses: Vec<RegisteredAddress>,
    /// The number of addresses that begin with the prefix, on all pages.
    pub total: u64,
}

impl RegistrationPage {
    /// Joins the pages of shards.
    pub fn joined(pages: impl IntoIterator<Item = RegistrationPage>, limit: u32) -> RegistrationPage {
        let mut all = RegistrationPage::default();
        pages.into_iter().for_each(|page| all.add(page));
        all.finish(limit);
        all
    }

    pub(crate) fn add(&mut self, other: RegistrationPage) {
        self.addresses.extend(other.addresses);
        self.total += other.total;
    }

    /// In order, each address once: while a bucket moves, two nodes may have it.
    pub(crate) fn finish(&mut self, limit: u32) {
        self.addresses.sort_by(|a, b| a.address.cmp(&b.address));
        self.addresses.dedup_by(|b, a| a.address == b.address);
        self.addresses.truncate(limit.min(limits::LIST_PAGE) as usize);
    }
}
