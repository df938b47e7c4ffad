//! Requests about chat that concern all nodes of a farm: the hosts of this node act, the other nodes are asked for their part, and the
//! parts are put into one.
//!
//! Two ways lead here: operators' requests (`perform`), which `control` merges as it does for all others, and
//! administrators' commands from chat clients (`act`), whose parts are added up here. In both the other nodes
//! perform a plain request of operators, so a node of another version understands it, or is named as missing.

use admin::ControlError;
use admin::chat::{Answer, Ask, Session, Text};
use admin::control::FarmAnswer;
use chat::effect::{HostAction, HostActionResult, OnlineFilter, SessionState};
use chat::{StoreFailure, StoreReply};
use control::{Failure, FailureKind, FarmResponse, Request, Response};
use stdx::Instant;
use xmpp::{Bare, Element, Jid, ns};

use super::{Operator, invalid};

/// Names of [`OnlineFilter`]s between nodes.
const FILTERS: [(&str, OnlineFilter); 3] =
    [("all", OnlineFilter::All), ("active", OnlineFilter::Active), ("idle", OnlineFilter::Idle)];

/// Performs a request at all nodes of the farm, if it concerns all.
///
/// # Errors
/// The errors of [`Operator::perform`]; no node has performed the request then.
pub(crate) async fn perform(operator: &Operator, now: Instant, ask: Ask) -> Result<FarmAnswer, ControlError> {
    let request = Request::Chat(ask.clone());
    let farm = operator.farm.as_ref().filter(|_| request.concerns_all_nodes());
    let Some(farm) = farm else {
        return operator.perform(now, ask).await.map(|answer| FarmAnswer { answer, nodes: None });
    };
    // At the same time: the other nodes may take as long as their patience.
    let (own, others) = tokio::join!(operator.perform(now, ask), farm.ask(&request));
    let Some(others) = others else { return own.map(|answer| FarmAnswer { answer, nodes: None }) };
    match control::merge(&request, own.map(Response::Chat).map_err(Failure::from), others) {
        Ok(FarmResponse { nodes, response: Response::Chat(answer) }) => {
            Ok(FarmAnswer { answer, nodes: Some(nodes) })
        }
        Ok(_) => Err(ControlError::Busy),
        Err(Failure { kind: FailureKind::NotFound, .. }) => Err(ControlError::NotFound),
        Err(Failure { kind: FailureKind::Busy, .. }) => Err(ControlError::Busy),
        Err(Failure { message, .. }) => Err(ControlError::Invalid(message)),
    }
}

/// True for actions of administrators that concern the hosts of all nodes.
pub(crate) fn concerns_all_nodes(action: &HostAction) -> bool {
    !asks_of(action).is_empty()
}

/// Performs an administrator's action at all nodes of the farm. The result says which nodes have no part in it.
pub(crate) async fn act(operator: &Operator, action: HostAction) -> Result<StoreReply, StoreFailure> {
    let asks = asks_of(&action);
    let others = async {
        let mut answers = Vec::new();
        let farm = operator.farm.as_ref();
        for ask in asks {
            if let Some(farm) = farm {
                answers.extend(farm.ask(&Request::Chat(ask)).await);
            }
        }
        answers
    };
    let (own, others) = tokio::join!(operator.act(action), others);
    let mut sum = own.map_err(|_| StoreFailure::Unavailable)?.acted;
    let mut missing: Vec<Box<str>> = Vec::new();
    for other in others.into_iter().flat_map(|others| others.responses) {
        match other.response {
            Some(Response::Chat(answer)) => add(&mut sum, answer),
            Some(Response::Failed(Failure { kind: FailureKind::NotFound, .. })) => {}
            // No answer, a refusal or one of another kind: the sum lacks this node, and says so.
            _ => missing.push(other.node),
        }
    }
    missing.sort_unstable();
    // A node is named once, however many of the requests it did not answer.
    missing.dedup();
    sum.missing = (!missing.is_empty()).then(|| format!("Without the nodes {}", missing.join(", ")).into());
    Ok(StoreReply::HostActionResult(sum))
}

/// The users of a domain that are online (XEP-0133 §4.15 to §4.22).
pub(super) async fn online(
    operator: &Operator,
    domain: &str,
    filter: &str,
    max: u32,
) -> Result<Answer, ControlError> {
    let chosen = FILTERS.iter().find(|(name, _)| *name == filter).map(|(_, chosen)| *chosen);
    let filter = chosen.ok_or_else(|| invalid("all, active or idle", filter))?;
    let max = max.min(chat::limits::ONLINE_LIST);
    let acted = operator.act(HostAction::Online { domain: domain.into(), filter, max }).await?.acted;
    let users = acted.users.iter().map(|user| user.as_str().into()).collect();
    Ok(Answer::Users { users, total: acted.count })
}

/// The requests that another node performs as its part of the action; none: the action is one of this node.
fn asks_of(action: &HostAction) -> Vec<Ask> {
    match action {
        HostAction::Online { domain, filter, max } => {
            let name = FILTERS.iter().find(|(_, known)| known == filter).map(|(name, _)| *name);
            let filter = name.unwrap_or_default().into();
            vec![Ask::Online { domain: domain.as_ref().into(), filter, max: *max }]
        }
        HostAction::Announce { domain, message } => {
            vec![Ask::Announce { domain: domain.as_ref().into(), text: text_of(message) }]
        }
        HostAction::Motd { domain, message: Some(message) } => {
            vec![Ask::SetMotd { domain: domain.as_ref().into(), text: text_of(message) }]
        }
        HostAction::Motd { domain, message: None } => vec![Ask::ClearMotd { domain: domain.as_ref().into() }],
        HostAction::End { jids } => jids.iter().map(|jid| Ask::End { who: jid.as_str().into() }).collect(),
        HostAction::Sessions { jid, max } => {
            vec![Ask::Sessions { who: jid.as_ref().map(|jid| jid.as_str().into()), most: Some(*max) }]
        }
        // Rooms and nodes of other nodes are asked for by other ways; a removed account is told by the database's notice.
        HostAction::Rooms { .. }
        | HostAction::DescribeRooms { .. }
        | HostAction::Departed { .. }
        | HostAction::CloseRooms => Vec::new(),
    }
}

fn text_of(message: &Element) -> Text {
    let of = |name| message.content_of(name, ns::CLIENT).unwrap_or_default().into();
    Text { subject: of("subject"), body: of("body") }
}

/// Adds another node's part to the sum.
fn add(sum: &mut HostActionResult, answer: Answer) {
    match answer {
        Answer::Users { users, total } => {
            sum.users.extend(users.iter().filter_map(|user| Bare::parse(user).ok()));
            sum.count += total;
        }
        Answer::Count(count) => sum.count += count,
        Answer::Sessions { sessions, total, .. } => {
            sum.described.extend(sessions.into_iter().filter_map(state_of));
            sum.count += total;
        }
        _ => {}
    }
}

/// A session of another node. Its connection is not known here.
fn state_of(session: Session) -> Option<SessionState> {
    Some(SessionState {
        jid: Jid::parse(&session.address).ok()?,
        began: Instant::from_unix_seconds(session.since),
        edge: None,
        priority: session.priority,
        show: session.show.into(),
        client: session.client.into(),
        is_resumable: session.resumable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_nodes_perform_their_part_of_an_action_by_a_request_of_operators() {
        let online = HostAction::Online { domain: "a.org".into(), filter: OnlineFilter::Idle, max: 25 };
        let asks = asks_of(&online);
        assert_eq!(asks, [Ask::Online { domain: "a.org".into(), filter: "idle".into(), max: 25 }]);
        let part = |name: &'static str, text: &str| Element::new(name, ns::CLIENT).text(text);
        let message = Element::new("message", ns::CLIENT)
            .child(part("subject", "Tonight"))
            .child(part("body", "Maintenance at nine."));
        let announce = HostAction::Announce { domain: "a.org".into(), message: Box::new(message) };
        let text = Text { subject: "Tonight".into(), body: "Maintenance at nine.".into() };
        assert_eq!(asks_of(&announce), [Ask::Announce { domain: "a.org".into(), text }]);
        let jids = ["alice@a.org", "bob@a.org/desk"].map(|jid| Jid::parse(jid).unwrap()).to_vec();
        assert_eq!(asks_of(&HostAction::End { jids }).len(), 2);
        for action in [&online, &announce] {
            assert!(asks_of(action).iter().all(|ask| Request::Chat(ask.clone()).concerns_all_nodes()));
        }
        assert!(!concerns_all_nodes(&HostAction::CloseRooms));
    }

    #[test]
    fn the_parts_of_other_nodes_are_added_to_the_result() {
        let mut sum = HostActionResult { count: 1, ..HostActionResult::default() };
        add(&mut sum, Answer::Count(2));
        add(&mut sum, Answer::Users { users: vec!["bob@a.org".into()], total: 4 });
        let session = Session { address: "bob@a.org/desk".into(), since: 7, ..Session::default() };
        add(&mut sum, Answer::Sessions { sessions: vec![session], total: 1, connections: Vec::new() });
        assert_eq!((sum.count, sum.users.len(), sum.described.len()), (8, 1, 1));
        assert_eq!(sum.described[0].began, Instant::from_unix_seconds(7));
    }
}
