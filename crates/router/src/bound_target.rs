//! Bindings as targets of a request: the flows of one instance are one target (RFC 5626 §7).

use std::cmp::Reverse;

use crate::contact::is_flow;
use crate::interface::{Binding, Transport};

/// A contact, or one of the flows of an instance with the others behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundTarget {
    /// The binding that a request goes to.
    pub binding: Binding,
    /// The other flows of its instance, each for the case that those before it have failed.
    pub other_flows: Vec<Binding>,
}

/// The targets of a request, highest q first. Of the flows of an instance the one with the highest q comes first, and among equals the
/// one that was registered last.
///
/// RFC 5626 §7: a target set has one contact of an address and instance at a time.
pub fn bound_targets(bindings: Vec<Binding>) -> Vec<BoundTarget> {
    let mut instances: Vec<Vec<Binding>> = Vec::with_capacity(bindings.len());
    for binding in bindings {
        let is_same = |flows: &&mut Vec<Binding>| flows.iter().any(|flow| is_same_instance(flow, &binding));
        match instances.iter_mut().find(is_same) {
            Some(flows) => flows.push(binding),
            None => instances.push(vec![binding]),
        }
    }
    let mut targets: Vec<BoundTarget> = instances.into_iter().filter_map(target_of).collect();
    // Stable: among equals the order of the bindings.
    targets.sort_by_key(|target| Reverse(target.binding.contact.q));
    targets
}

fn is_same_instance(a: &Binding, b: &Binding) -> bool {
    is_flow(&a.contact) && is_flow(&b.contact) && a.contact.instance == b.contact.instance
}

fn target_of(mut flows: Vec<Binding>) -> Option<BoundTarget> {
    // Stable: of two that were registered in one second, the one that stands behind the other is the newer.
    flows.reverse();
    flows.sort_by_key(|flow| Reverse((may_live(flow), flow.contact.q, registered_at(flow))));
    let mut flows = flows.into_iter();
    let binding = flows.next()?;
    Some(BoundTarget { binding, other_flows: flows.collect() })
}

/// False if the connection ended with the process that held it.
fn may_live(flow: &Binding) -> bool {
    let received = flow.contact.received;
    received.is_none_or(|received| received.flow.is_some() || received.transport == Transport::Udp)
}

/// The second in which it was registered or refreshed.
fn registered_at(flow: &Binding) -> u64 {
    flow.expires_at.unix_seconds().saturating_sub(flow.contact.expires.into())
}

#[cfg(test)]
mod tests {
    use stdx::Instant;

    use super::*;
    use crate::interface::{Contact, FlowId, Life, Received, ShardAddress};

    /// Registered at a second, for an interval of its own.
    fn binding(uri: &str, instance: &str, reg_id: u32, q: u16, second: u64) -> Binding {
        let expires = 600 + 100 * reg_id;
        let contact = Contact {
            uri: uri.into(),
            q,
            expires,
            instance: instance.into(),
            reg_id,
            path: "".into(),
            user_agent: "".into(),
            received: None,
        };
        let expires_at = Instant::from_unix_seconds(1_800_000_000 + second + u64::from(expires));
        Binding { contact, expires_at, call_id: "c".into(), cseq: 1 }
    }

    fn on_connection(mut binding: Binding, is_live: bool) -> Binding {
        let address = "192.0.2.7:5060".parse().unwrap();
        let flow = is_live.then_some(FlowId { edge: ShardAddress::new(Life(1), 0), number: 7 });
        let received = Received { transport: Transport::Tcp, local: address, remote: address, flow };
        binding.contact.received = Some(received);
        binding
    }

    fn order(bindings: Vec<Binding>) -> Vec<String> {
        let uri = |binding: &Binding| binding.contact.uri.to_string();
        let text = |target: &BoundTarget| {
            let others = target.other_flows.iter().map(uri);
            std::iter::once(uri(&target.binding)).chain(others).collect::<Vec<_>>().join(" ")
        };
        bound_targets(bindings).iter().map(text).collect()
    }

    #[test]
    fn the_flows_of_an_instance_are_one_target_the_newest_first() {
        let flow = |uri, reg_id, second| binding(uri, "phone", reg_id, 1000, second);
        assert_eq!(order(vec![flow("a", 1, 0), flow("b", 2, 5), flow("c", 3, 3)]), ["b c a"]);
        // One that was refreshed is the newest.
        assert_eq!(order(vec![flow("a", 1, 6), flow("b", 2, 5)]), ["a b"]);
        assert_eq!(order(vec![flow("a", 1, 5), flow("b", 2, 5)]), ["b a"], "in one second");
    }

    #[test]
    fn other_contacts_are_targets_of_their_own() {
        let bindings = vec![
            binding("a", "phone", 1, 1000, 0),
            binding("b", "other", 1, 1000, 9),
            binding("c", "", 0, 1000, 9),
            // Without a reg-id: registered by RFC 3261 alone.
            binding("d", "phone", 0, 1000, 9),
            binding("e", "phone", 2, 1000, 1),
        ];
        assert_eq!(order(bindings), ["e a", "b", "c", "d"]);
        assert_eq!(order(Vec::new()), [""; 0]);
    }

    #[test]
    fn a_connection_that_is_gone_comes_last_and_the_target_stands_by_its_q() {
        let flow = |uri, reg_id, q| binding(uri, "phone", reg_id, q, u64::from(reg_id));
        assert_eq!(order(vec![flow("a", 1, 700), flow("b", 2, 500)]), ["a b"], "the phone prefers one");
        let other = binding("other", "", 0, 600, 0);
        let bindings =
            vec![on_connection(flow("a", 1, 700), false), other, on_connection(flow("b", 2, 500), true)];
        assert_eq!(order(bindings), ["other", "b a"]);
    }
}
