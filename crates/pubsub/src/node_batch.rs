//! The writes of several nodes that one request makes: all of a first stage, then all of a second one, then the request is answered.
//!
//! The changes of one stage need no order among themselves; none of the second stage is written unless all of the first are. After a failure
//! the nodes that were written stay so, in the store and in memory, and the request is answered by the error.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use xmpp::Bare;
use xmpp::stanza::StanzaError;

use super::interface::PubSubEffect;
use super::node::Node;
use super::state::{NodeGoal, NodeWrite};

/// Nodes by name; `None` removes one.
pub(crate) type NodeStage = Vec<(Box<str>, Option<Node>)>;

/// The writes that are not answered, and those that follow.
pub(crate) struct NodeBatch {
    owner: Bare,
    /// Writes of this stage that are not answered.
    left: usize,
    result: Result<(), StanzaError>,
    then: NodeStage,
    /// Taken at the end.
    goal: Option<NodeGoal>,
}

/// The consequence of an answered write.
pub(crate) enum BatchStep {
    /// Others of its stage are not answered.
    Wait,
    /// The second stage.
    Write(Vec<PubSubEffect>),
    /// All is done, or one has failed.
    Done(NodeGoal, Result<(), StanzaError>),
}

impl NodeBatch {
    /// The writes of the first stage, which has one at least.
    pub(crate) fn begin(
        owner: &Bare,
        (first, then): (NodeStage, NodeStage),
        goal: NodeGoal,
    ) -> Vec<PubSubEffect> {
        let batch = NodeBatch { owner: owner.clone(), left: 0, result: Ok(()), then, goal: Some(goal) };
        NodeBatch::write(&Rc::new(RefCell::new(batch)), first)
    }

    fn write(batch: &Rc<RefCell<NodeBatch>>, stage: NodeStage) -> Vec<PubSubEffect> {
        batch.borrow_mut().left = stage.len();
        let owner = batch.borrow().owner.clone();
        let begin = |(name, node)| {
            NodeWrite { owner: owner.clone(), name, node, goal: NodeGoal::Batch(Rc::clone(batch)) }.begin()
        };
        stage.into_iter().map(begin).collect()
    }

    /// One more write is answered.
    pub(crate) fn finish_one(batch: &Rc<RefCell<NodeBatch>>, result: Result<(), StanzaError>) -> BatchStep {
        let mut state = batch.borrow_mut();
        state.left = state.left.saturating_sub(1);
        if state.result.is_ok() {
            state.result = result;
        }
        if state.left > 0 {
            return BatchStep::Wait;
        }
        let then = mem::take(&mut state.then);
        if !then.is_empty() && state.result.is_ok() {
            drop(state);
            return BatchStep::Write(NodeBatch::write(batch, then));
        }
        match state.goal.take() {
            Some(goal) => BatchStep::Done(goal, state.result.clone()),
            None => BatchStep::Wait,
        }
    }
}
