//! A node of a publish-subscribe service (XEP-0060) that all users write and read. The first user that needs it
//! creates it; until it exists the other users do without.

use xmpp::{Element, ns};

use super::actions::UserActions;
use super::failure::FailureCause;
use super::mix::UserAction;
use super::stanzas;
use super::user::PendingRequest;
use super::user_pool::{PoolContext, UserPool};

/// The answer has this stanza error condition.
fn is(answer: &Element, condition: &str) -> bool {
    answer.elements().any(|error| error.get(condition, ns::STANZA_ERRORS).is_some())
}

impl UserActions<'_> {
    /// Returns the action that follows this request: `None` unless the node has to be created first.
    pub(super) fn write_node_request(
        &self,
        action: UserAction,
        id: u32,
        ctx: &mut PoolContext<'_>,
    ) -> Option<UserAction> {
        let service = &self.load.pubsub_domain;
        if !self.state.has_node() {
            ctx.write(self.slot, |out| stanzas::create_node(out, id, service));
            return Some(action);
        }
        let name = self.load.people.name(self.user.number);
        ctx.write(self.slot, |out| match action {
            UserAction::PubsubPublish => stanzas::publish(out, id, service, &name),
            _ => stanzas::items(out, id, service),
        });
        None
    }
}

impl UserPool {
    /// The response to a request that creates the node; then the user's own request follows, within its
    /// original time. A service that lets no user create a node may have it all the same.
    pub(super) fn handle_node_response(
        &mut self,
        slot: u32,
        asked: PendingRequest,
        action: UserAction,
        answer: &Element,
        ctx: &mut PoolContext<'_>,
    ) {
        let is_refused = answer.attr("type") != Some("result") && !is(answer, "conflict");
        if is_refused {
            self.sessions.quote_refusal(slot, answer, ctx);
        }
        if is_refused && FailureCause::of_stanza_error(answer) == FailureCause::Throttled {
            self.sessions.shared.set_node_exists(false);
            return ctx.fail(FailureCause::Throttled);
        }
        self.sessions.shared.set_node_exists(true);
        let id = self.sessions.users[slot as usize].next_id();
        let then = self.sessions.actions(slot).write_node_request(action, id, ctx);
        self.sessions.users[slot as usize].asked = Some(PendingRequest { id, sent: ctx.now, then, ..asked });
        self.sessions.set_response_deadline(slot, ctx.now + self.sessions.chat.patience);
    }

    /// The node was removed or never existed: the next user creates it.
    pub(super) fn handle_missing_node(&self, answer: &Element) {
        if is(answer, "item-not-found") {
            self.sessions.shared.set_node_exists(false);
        }
    }
}
