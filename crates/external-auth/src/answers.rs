//! The receivers of answers. Each is called once: one that is dropped unasked has the answer that nothing is known.

use crate::authenticator::{RoleVerdict, Verdict};

/// Receives the answer to one question for a role, as [`Answer`] does the verdict.
pub struct RoleAnswer(Option<Box<dyn FnOnce(RoleVerdict) + Send>>);

impl RoleAnswer {
    /// `give` receives the answer.
    pub fn new(give: impl FnOnce(RoleVerdict) + Send + 'static) -> RoleAnswer {
        RoleAnswer(Some(Box::new(give)))
    }

    pub(crate) fn give(mut self, verdict: RoleVerdict) {
        if let Some(give) = self.0.take() {
            give(verdict);
        }
    }
}

impl Drop for RoleAnswer {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            give(RoleVerdict::Unavailable);
        }
    }
}

/// Receives, for each group that was asked for, those of the users that are in it. `None`: nothing is known. As [`Answer`], it is called once.
pub struct MemberAnswer(Option<GiveMembers>);

type GiveMembers = Box<dyn FnOnce(Option<Vec<Vec<Box<str>>>>) + Send>;

impl MemberAnswer {
    /// `give` receives the answer.
    pub fn new(give: impl FnOnce(Option<Vec<Vec<Box<str>>>>) + Send + 'static) -> MemberAnswer {
        MemberAnswer(Some(Box::new(give)))
    }

    pub(crate) fn give(mut self, members: Option<Vec<Vec<Box<str>>>>) {
        if let Some(give) = self.0.take() {
            give(members);
        }
    }
}

impl Drop for MemberAnswer {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            give(None);
        }
    }
}

/// Receives the verdict of one query. It is called once, by the thread of the authenticator or by the asking one, and must
/// not wait.
pub struct Answer(Option<Box<dyn FnOnce(Verdict) + Send>>);

impl Answer {
    /// `give` receives the verdict.
    pub fn new(give: impl FnOnce(Verdict) + Send + 'static) -> Answer {
        Answer(Some(Box::new(give)))
    }

    pub(crate) fn give(mut self, verdict: Verdict) {
        if let Some(give) = self.0.take() {
            give(verdict);
        }
    }
}

/// A query whose task has ended without a verdict, for whatever reason, is answered.
impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            give(Verdict::Unavailable);
        }
    }
}
