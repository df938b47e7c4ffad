//! The states of a subscription and their transitions (RFC 6121 Appendix A), as a pure table.
//!
//! Both servers of a subscription keep a state of their own, and the network may lose what one tells the other. The table says
//! for each stanza which state follows and if the stanza passes on; `roster` writes the state before it sends or delivers
//! anything. The tests have every cell of the appendix.

use xmpp::Element;

use super::super::effect::{RosterItem, Subscription};

/// A presence stanza that manages a subscription (RFC 6121 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionAction {
    /// The sender asks to see the receiver's presence.
    Subscribe,
    /// The sender no longer wants to see it.
    Unsubscribe,
    /// The sender lets the receiver see its presence.
    Subscribed,
    /// The sender no longer lets the receiver see it, or declines a request.
    Unsubscribed,
}

impl SubscriptionAction {
    /// The action of a presence; `None`: it is presence of another kind.
    pub(crate) fn of(stanza: &Element) -> Option<SubscriptionAction> {
        Some(match stanza.attr("type")? {
            "subscribe" => SubscriptionAction::Subscribe,
            "unsubscribe" => SubscriptionAction::Unsubscribe,
            "subscribed" => SubscriptionAction::Subscribed,
            "unsubscribed" => SubscriptionAction::Unsubscribed,
            _ => return None,
        })
    }

    /// The `type` of the presence.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SubscriptionAction::Subscribe => "subscribe",
            SubscriptionAction::Unsubscribe => "unsubscribe",
            SubscriptionAction::Subscribed => "subscribed",
            SubscriptionAction::Unsubscribed => "unsubscribed",
        }
    }
}

/// The nine states of Appendix A.1: those of `to` and `from` with the pending requests. `approved` is §3.4's.
/// The combinations of `to` with `pending_out` and of `from` with `pending_in` do not occur: a granted
/// request waits no longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionState {
    /// We get their presence.
    pub(crate) to: bool,
    /// They get ours.
    pub(crate) from: bool,
    /// The user has asked, and the contact has not answered.
    pub(crate) pending_out: bool,
    /// The contact has asked, and the user has not answered.
    pub(crate) pending_in: bool,
    /// The user approves a request that has not come yet (§3.4).
    pub(crate) approved: bool,
}

/// The consequence of a stanza. The state is written before the stanza passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptionStep {
    pub(crate) state: SubscriptionState,
    /// Outbound: it is routed. Inbound: it is delivered.
    pub(crate) passes: bool,
    /// It is answered by `subscribed` for the user (§3.1.3).
    pub(crate) is_approved: bool,
}

impl SubscriptionState {
    pub(crate) fn of(item: Option<&RosterItem>) -> SubscriptionState {
        let Some(item) = item else { return SubscriptionState::default() };
        SubscriptionState {
            to: item.subscription.has_to(),
            from: item.subscription.has_from(),
            pending_out: item.ask,
            pending_in: item.asked.is_some(),
            approved: item.approved,
        }
    }

    /// Writes the state into a contact, without the stanza of a pending request: the caller has that.
    pub(crate) fn write(self, item: &mut RosterItem) {
        item.subscription = Subscription::new(self.to, self.from);
        item.ask = self.pending_out;
        item.approved = self.approved;
        if !self.pending_in {
            item.asked = None;
        }
    }

    /// The step of a stanza that the user sends (Appendix A.2).
    pub(crate) fn outbound(mut self, act: SubscriptionAction) -> SubscriptionStep {
        let before = self;
        let passes = match act {
            SubscriptionAction::Subscribe => {
                // RFC 6121 §3.1.2: a request that waits for its answer is routed again; the contact's server may have
                // lost it.
                self.pending_out = !self.to;
                true
            }
            SubscriptionAction::Unsubscribe => {
                // RFC 6121 §3.3.2: routed in any state, so that two servers whose states differ agree again.
                (self.to, self.pending_out) = (false, false);
                true
            }
            // RFC 6121 §3.1.5: the waiting request is granted.
            SubscriptionAction::Subscribed if self.pending_in => {
                (self.from, self.pending_in) = (true, false);
                true
            }
            // §3.4.2: there is no request yet, so the approval is noted for a later one.
            SubscriptionAction::Subscribed => {
                self.approved |= !self.from;
                false
            }
            SubscriptionAction::Unsubscribed => {
                (self.from, self.pending_in, self.approved) = (false, false, false);
                // RFC 6121 §3.2.2: a cancellation of nothing goes nowhere.
                before.from || before.pending_in
            }
        };
        SubscriptionStep { state: self, passes, is_approved: false }
    }

    /// The step of a stanza that comes from the contact (Appendix A.3).
    pub(crate) fn inbound(mut self, act: SubscriptionAction) -> SubscriptionStep {
        let before = self;
        let mut is_approved = false;
        let passes = match act {
            SubscriptionAction::Subscribe if self.from || self.approved => {
                // RFC 6121 §3.1.3 and §3.4.2: the server answers for a user that has approved the contact already.
                (self.from, self.pending_in) = (true, false);
                is_approved = true;
                false
            }
            SubscriptionAction::Subscribe => {
                // RFC 6121 §3.1.3: a repeated request is not delivered again; clients get the waiting one with their
                // presence.
                self.pending_in = true;
                !before.pending_in
            }
            // RFC 6121 §3.3.3: the contact gives up presence that it had or asked for; else there is nothing to tell the user.
            SubscriptionAction::Unsubscribe => {
                (self.from, self.pending_in) = (false, false);
                before.from || before.pending_in
            }
            SubscriptionAction::Subscribed => {
                // RFC 6121 §3.1.6: an approval that was not asked for gives nothing.
                self.to |= self.pending_out;
                self.pending_out = false;
                before.pending_out
            }
            // RFC 6121 §3.2.3: the contact cancels presence or declines the request; else there is nothing to tell the user.
            SubscriptionAction::Unsubscribed => {
                (self.to, self.pending_out) = (false, false);
                before.to || before.pending_out
            }
        };
        SubscriptionStep { state: self, passes, is_approved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of Appendix A.1.
    const STATES: [&str; 9] =
        ["None", "None+Out", "None+In", "None+Out+In", "To", "To+In", "From", "From+Out", "Both"];

    fn state(name: &str) -> SubscriptionState {
        SubscriptionState {
            to: name.starts_with("To") || name == "Both",
            from: name.starts_with("From") || name == "Both",
            pending_out: name.contains("+Out"),
            pending_in: name.contains("+In"),
            approved: false,
        }
    }

    /// True if the stanza passes, and the state afterwards; `-`: no change. In the order of [`STATES`].
    type Table = [(bool, &'static str); 9];

    fn check(step: impl Fn(SubscriptionState) -> SubscriptionStep, table: Table, title: &str) {
        for (name, (passes, after)) in STATES.into_iter().zip(table) {
            let after = state(if after == "-" { name } else { after });
            let step = step(state(name));
            // Approval in advance is tested below.
            let reached = SubscriptionState { approved: false, ..step.state };
            assert_eq!((step.passes, reached), (passes, after), "{title} in state {name}");
        }
    }

    #[test]
    fn outbound_stanzas_of_appendix_a_2() {
        const Y: bool = true;
        const N: bool = false;
        let subscribe = [
            (Y, "None+Out"),
            (Y, "-"),
            (Y, "None+Out+In"),
            (Y, "-"),
            (Y, "-"),
            (Y, "-"),
            (Y, "From+Out"),
            (Y, "-"),
            (Y, "-"),
        ];
        check(|state| state.outbound(SubscriptionAction::Subscribe), subscribe, "A.2.1 subscribe");
        let unsubscribe = [
            (Y, "-"),
            (Y, "None"),
            (Y, "-"),
            (Y, "None+In"),
            (Y, "None"),
            (Y, "None+In"),
            (Y, "-"),
            (Y, "From"),
            (Y, "From"),
        ];
        check(|state| state.outbound(SubscriptionAction::Unsubscribe), unsubscribe, "A.2.2 unsubscribe");
        let subscribed = [
            (N, "-"),
            (N, "-"),
            (Y, "From"),
            (Y, "From+Out"),
            (N, "-"),
            (Y, "Both"),
            (N, "-"),
            (N, "-"),
            (N, "-"),
        ];
        check(|state| state.outbound(SubscriptionAction::Subscribed), subscribed, "A.2.3 subscribed");
        let unsubscribed = [
            (N, "-"),
            (N, "-"),
            (Y, "None"),
            (Y, "None+Out"),
            (N, "-"),
            (Y, "To"),
            (Y, "None"),
            (Y, "None+Out"),
            (Y, "To"),
        ];
        check(|state| state.outbound(SubscriptionAction::Unsubscribed), unsubscribed, "A.2.4 unsubscribed");
    }

    #[test]
    fn inbound_stanzas_of_appendix_a_3() {
        const Y: bool = true;
        const N: bool = false;
        let subscribe = [
            (Y, "None+In"),
            (Y, "None+Out+In"),
            (N, "-"),
            (N, "-"),
            (Y, "To+In"),
            (N, "-"),
            (N, "-"),
            (N, "-"),
            (N, "-"),
        ];
        check(|state| state.inbound(SubscriptionAction::Subscribe), subscribe, "A.3.1 subscribe");
        let unsubscribe = [
            (N, "-"),
            (N, "-"),
            (Y, "None"),
            (Y, "None+Out"),
            (N, "-"),
            (Y, "To"),
            (Y, "None"),
            (Y, "None+Out"),
            (Y, "To"),
        ];
        check(|state| state.inbound(SubscriptionAction::Unsubscribe), unsubscribe, "A.3.2 unsubscribe");
        let subscribed = [
            (N, "-"),
            (Y, "To"),
            (N, "-"),
            (Y, "To+In"),
            (N, "-"),
            (N, "-"),
            (N, "-"),
            (Y, "Both"),
            (N, "-"),
        ];
        check(|state| state.inbound(SubscriptionAction::Subscribed), subscribed, "A.3.3 subscribed");
        let unsubscribed = [
            (N, "-"),
            (Y, "None"),
            (N, "-"),
            (Y, "None+In"),
            (Y, "None"),
            (Y, "None+In"),
            (N, "-"),
            (Y, "From"),
            (Y, "From"),
        ];
        check(|state| state.inbound(SubscriptionAction::Unsubscribed), unsubscribed, "A.3.4 unsubscribed");
    }

    #[test]
    fn a_subscribed_or_approved_contact_is_answered_at_once() {
        for name in STATES {
            let step = state(name).inbound(SubscriptionAction::Subscribe);
            assert_eq!(step.is_approved, state(name).from, "{name}");
        }
        for name in ["None", "None+Out", "To"] {
            let noted = state(name).outbound(SubscriptionAction::Subscribed).state;
            assert!(noted.approved, "{name} (§3.4.2)");
            let step = noted.inbound(SubscriptionAction::Subscribe);
            assert!(step.is_approved && !step.passes && step.state.from && !step.state.pending_in, "{name}");
            assert!(!noted.outbound(SubscriptionAction::Unsubscribed).state.approved, "{name}: taken back");
        }
        for name in ["None+In", "None+Out+In", "To+In", "From", "From+Out", "Both"] {
            assert!(!state(name).outbound(SubscriptionAction::Subscribed).state.approved, "{name}");
        }
    }

    #[test]
    fn a_state_is_kept_in_an_item() {
        for name in STATES {
            let asked = state(name).pending_in.then(|| Box::new(Element::new("presence", xmpp::ns::CLIENT)));
            let mut item = RosterItem { asked, ..RosterItem::default() };
            state(name).write(&mut item);
            assert_eq!(SubscriptionState::of(Some(&item)), state(name), "{name}");
        }
    }
}
