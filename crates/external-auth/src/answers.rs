//! The receivers of answers. Each is called once: one that is dropped unasked has the answer that nothing is known.

use crate::authenticator::{RoleVerdict, Verdict};
use crate::token::TokenVerdict;

/// Receives the answer to one question, whose default says that nothing is known. It is called once, by the thread of the authenticator or by the
/// asking one, and must not wait. A question that has found no place, or whose task has ended for whatever reason, is answered by the default.
pub struct AnswerReceiver<T: Default>(Option<Box<dyn FnOnce(T) + Send>>);

/// Receives the verdict of one query.
pub type Answer = AnswerReceiver<Verdict>;
/// Receives the answer to one question for a role.
pub type RoleAnswer = AnswerReceiver<RoleVerdict>;
/// Receives the answer about one token.
pub type TokenAnswer = AnswerReceiver<TokenVerdict>;
/// Receives, for each group that was asked for, those of the users that are in it. `None`: nothing is known.
pub type MemberAnswer = AnswerReceiver<Option<Vec<Vec<Box<str>>>>>;
/// Receives the address that a browser is sent to. `None`: the provider is not known now.
pub type PageAnswer = AnswerReceiver<Option<Box<str>>>;

impl<T: Default> AnswerReceiver<T> {
    /// `give` receives the answer.
    pub fn new(give: impl FnOnce(T) + Send + 'static) -> AnswerReceiver<T> {
        AnswerReceiver(Some(Box::new(give)))
    }

    pub(crate) fn give(mut self, answer: T) {
        if let Some(give) = self.0.take() {
            give(answer);
        }
    }
}

impl<T: Default> Drop for AnswerReceiver<T> {
    fn drop(&mut self) {
        if let Some(give) = self.0.take() {
            give(T::default());
        }
    }
}
