//! Shared roster groups, as the node has them: those of the configuration, with the members that were found elsewhere.

use serde::{Deserialize, Serialize};

/// A question for a page of groups, or for one with a page of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterGroupQuery {
    /// The name of the group that is asked for; none: all groups.
    pub name: Option<Box<str>>,
    /// The last group, or member of the group that is asked for, of the page before. Empty: from the first.
    pub after: Box<str>,
    /// Groups or members at most.
    pub limit: u32,
}

/// A group without its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterGroupRow {
    /// Names the group in the configuration.
    pub name: Box<str>,
    /// The name of the group in rosters.
    pub label: Box<str>,
    /// The groups whose members see this one.
    pub shown_to: Vec<Box<str>>,
    /// The number of members, of all sources.
    pub members: u64,
    /// The number of members that the configuration names; those at domains of other servers are no members.
    pub named: u64,
    /// All accounts of these domains are members.
    pub everyone: Vec<Box<str>>,
    /// Those in this group of a directory are members.
    pub directory: Option<DirectoryGroupRow>,
}

/// A group of the directory of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryGroupRow {
    /// The domain.
    pub domain: Box<str>,
    /// The name or the distinguished name of the group.
    pub group: Box<str>,
}

/// A page of groups, or one group with a page of its members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RosterGroupPage {
    /// The groups in the order of the configuration; none if there is no group of the name that is asked for.
    pub groups: Vec<RosterGroupRow>,
    /// The number of groups on all pages.
    pub total: u64,
    /// Members of the one group that is asked for, in their order.
    pub members: Vec<Box<str>>,
}
