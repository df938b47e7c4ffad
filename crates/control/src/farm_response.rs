//! The answers of all nodes of a farm to one request, put into one: lists are joined, counts are summed, and the nodes whose part is
//! missing are named.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use admin::chat::{Answer, Ask as ChatAsk, Connection, Room, Session};
use admin::{MissingNode, NodesAnswered};
use serde::{Deserialize, Serialize};
use store::CallRecord;

use super::blocks::BlockList;
use super::protocol::{Failure, FailureKind, Request, Response};
use super::records::{Ask, Listing};
use super::status::Status;
use crate::limits;

/// The answer of all nodes of a farm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FarmResponse {
    /// The nodes whose answers it has.
    pub nodes: NodesAnswered,
    /// Their answers in one.
    pub response: Response,
}

/// The state of one node of a farm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node's name.
    pub node: Box<str>,
    /// Its state.
    pub status: Box<Status>,
}

/// The answer of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeResponse {
    /// The node's name.
    pub node: Box<str>,
    /// Its answer; none: it did not answer in time.
    pub response: Option<Response>,
}

/// The answers of the other nodes of a farm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherNodes {
    /// The name of the asking node.
    pub this_node: Box<str>,
    /// One entry for each other live node.
    pub responses: Vec<NodeResponse>,
}

impl Request {
    /// True for requests that each node of a farm answers for its part, and that a node performs for an operator at another.
    pub fn concerns_all_nodes(&self) -> bool {
        match self {
            Request::Status | Request::Blocks | Request::LiftBlock { .. } => true,
            Request::EndCall { .. } | Request::Live(_) => true,
            Request::OpenCalls { .. } | Request::CallMessages { .. } | Request::Registrations(_) => true,
            Request::Ask(ask) => matches!(ask, Ask::Calls(_) | Ask::CallSearch(_)),
            Request::Chat(ask) => matches!(
                ask,
                ChatAsk::Sessions { .. }
                    | ChatAsk::End { .. }
                    | ChatAsk::Online { .. }
                    | ChatAsk::Announce { .. }
                    | ChatAsk::SetMotd { .. }
                    | ChatAsk::ClearMotd { .. }
                    | ChatAsk::Rooms { .. }
                    | ChatAsk::User { .. }
            ),
            _ => false,
        }
    }
}

impl Request {
    /// True if one node at most has what is asked for, so that its answer need not wait for the other nodes'.
    pub fn is_for_one_node(&self) -> bool {
        match self {
            Request::EndCall { .. } => true,
            Request::Live(request) => !request.is_list(),
            _ => false,
        }
    }
}

impl Response {
    /// The rows of a list; 0 if it is none.
    pub fn rows(&self) -> usize {
        match self {
            Response::Listing(Listing::Calls(calls)) => calls.len(),
            Response::Listing(Listing::CallPage(page)) => page.calls.len(),
            Response::Chat(Answer::Sessions { sessions, connections, .. }) => {
                sessions.len().max(connections.len())
            }
            Response::Chat(Answer::Rooms(rooms)) => rooms.len(),
            Response::Chat(Answer::Users { users, .. }) => users.len(),
            Response::Blocks(list) => list.blocks.len(),
            Response::OpenCalls(list) => list.calls.len(),
            Response::CallMessages(call) => call.lines.len(),
            Response::Registrations(page) => page.addresses.len(),
            _ => 0,
        }
    }

    /// Keeps so many rows of a list: the newest calls, sessions and blocks, the rooms with the most occupants. False: there is no list,
    /// or it is as short already.
    pub fn shorten(&mut self, rows: usize) -> bool {
        if self.rows() <= rows {
            return false;
        }
        match self {
            Response::Listing(Listing::Calls(calls)) => calls.truncate(rows),
            Response::Listing(Listing::CallPage(page)) => page.shorten(rows),
            Response::Chat(Answer::Sessions { sessions, connections, .. }) => {
                sessions.sort_by_key(|session| std::cmp::Reverse(session.since));
                sessions.truncate(rows);
                connections.truncate(rows);
            }
            Response::Chat(Answer::Rooms(all)) => {
                all.sort_by_key(|room| std::cmp::Reverse(room.occupants));
                all.truncate(rows);
            }
            Response::Chat(Answer::Users { users, .. }) => users.truncate(rows),
            Response::Blocks(list) => list.blocks.truncate(rows),
            Response::OpenCalls(list) => list.calls.truncate(rows),
            Response::CallMessages(call) => call.lines.truncate(rows),
            Response::Registrations(page) => page.addresses.truncate(rows),
            _ => return false,
        }
        true
    }
}

/// Puts the answers of this node and of the others into one.
///
/// # Errors
/// No node has performed the request: the first reason that a node gave, and the nodes whose part is missing. That a node does not
/// know the call, session or account is not a missing part while another knows it.
pub fn merge(
    request: &Request,
    own: Result<Response, Failure>,
    others: OtherNodes,
) -> Result<FarmResponse, Failure> {
    let OtherNodes { this_node, responses } = others;
    let own = NodeResponse { node: this_node, response: Some(own.unwrap_or_else(Response::Failed)) };
    let mut nodes = NodesAnswered::default();
    let (mut sum, mut not_found, mut refusal) = (None, None, None);
    for NodeResponse { node, response } in std::iter::once(own).chain(responses) {
        let reason = match response {
            None => None,
            Some(Response::Failed(failure)) if failure.kind == FailureKind::NotFound => {
                not_found.get_or_insert(failure);
                nodes.answered.push(node);
                continue;
            }
            Some(Response::Failed(failure)) => {
                let reason = failure.message.as_str().into();
                refusal.get_or_insert(failure);
                Some(reason)
            }
            Some(response) => {
                if add(&mut sum, &node, response) {
                    nodes.answered.push(node);
                    continue;
                }
                Some("it answered another request".into())
            }
        };
        nodes.missing.push(MissingNode { name: node, reason });
    }
    let Some(mut response) = sum else { return Err(failure_of(not_found, refusal, &nodes)) };
    finish(request, &mut response);
    Ok(FarmResponse { nodes, response })
}

/// The failure of a request that no node has performed.
fn failure_of(not_found: Option<Failure>, refusal: Option<Failure>, nodes: &NodesAnswered) -> Failure {
    // A node that knows it may be among those whose part is missing.
    let Some(Failure { kind, message }) = not_found else {
        let silent = || Failure::new(FailureKind::Busy, nodes.to_string());
        return refusal.unwrap_or_else(silent);
    };
    if nodes.is_complete() {
        Failure { kind, message }
    } else {
        Failure::new(kind, format!("{message}; {nodes}"))
    }
}

/// Adds one node's answer to the others'. False: it is of another kind than they are.
fn add(sum: &mut Option<Response>, node: &str, mut response: Response) -> bool {
    match &mut response {
        Response::OpenCalls(list) => list.set_node(node),
        Response::CallMessages(call) => call.set_node(node),
        _ => {}
    }
    let Some(sum) = sum else {
        *sum = Some(match response {
            Response::Status(status) => Response::Statuses(vec![NodeStatus { node: node.into(), status }]),
            other => other,
        });
        return true;
    };
    match (sum, response) {
        (Response::Statuses(all), Response::Status(status)) => {
            all.push(NodeStatus { node: node.into(), status });
        }
        (Response::Listing(Listing::Calls(all)), Response::Listing(Listing::Calls(calls))) => {
            all.extend(calls);
        }
        (Response::Listing(Listing::CallPage(all)), Response::Listing(Listing::CallPage(page))) => {
            all.add(page);
        }
        (Response::Blocks(all), Response::Blocks(BlockList { blocks, total })) => {
            all.blocks.extend(blocks);
            all.total += total;
        }
        (Response::OpenCalls(all), Response::OpenCalls(list)) => all.add(list),
        (Response::CallMessages(all), Response::CallMessages(call)) => all.add(call),
        (Response::Registrations(all), Response::Registrations(page)) => all.add(page),
        (Response::Done { rows: all }, Response::Done { rows }) => *all += rows,
        (Response::Chat(all), Response::Chat(answer)) => return add_chat(all, answer),
        (Response::Live(all), Response::Live(answer)) => return all.join(*answer),
        _ => return false,
    }
    true
}

fn add_chat(sum: &mut Answer, answer: Answer) -> bool {
    match (sum, answer) {
        (
            Answer::Sessions { sessions: all, total: all_total, connections: all_connections },
            Answer::Sessions { sessions, total, connections },
        ) => {
            all.extend(sessions);
            *all_total += total;
            all_connections.extend(connections);
        }
        (Answer::Users { users: all, total: all_total }, Answer::Users { users, total }) => {
            all.extend(users);
            *all_total += total;
        }
        (Answer::Count(all), Answer::Count(count)) => *all += count,
        (Answer::Rooms(all), Answer::Rooms(rooms)) => all.extend(rooms),
        (Answer::User(all), Answer::User(user)) => {
            all.sessions += user.sessions;
            all.last_seen = all.last_seen.max(user.last_seen).filter(|_| all.sessions == 0);
        }
        (Answer::Done, Answer::Done) => {}
        _ => return false,
    }
    true
}

/// Puts the joined rows in order, and cuts lists off.
fn finish(request: &Request, response: &mut Response) {
    match response {
        Response::Listing(Listing::Calls(calls)) => {
            let limit = match request {
                Request::Ask(Ask::Calls(filter)) => filter.limit as usize,
                _ => limits::FARM_LISTED,
            };
            calls.sort_by(|one, other| order_of_calls(one).cmp(&order_of_calls(other)));
            // Nodes that share a database have the same rows.
            calls.dedup();
            calls.truncate(limit.min(limits::FARM_LISTED));
        }
        Response::Listing(Listing::CallPage(page)) => {
            if let Request::Ask(Ask::CallSearch(search)) = request {
                page.finish(search);
            }
        }
        Response::Blocks(list) => {
            list.blocks.sort_by_key(|block| std::cmp::Reverse(block.failed_at));
            list.blocks.truncate(limits::BLOCKS);
        }
        Response::OpenCalls(list) => list.finish(),
        Response::CallMessages(call) => call.finish(),
        Response::Registrations(page) => {
            let limit = match request {
                Request::Registrations(query) => query.limit,
                _ => limits::LIST_PAGE,
            };
            page.finish(limit);
        }
        Response::Chat(Answer::Sessions { sessions, connections, .. }) => {
            let most = match request {
                Request::Chat(ChatAsk::Sessions { most: Some(most), .. }) => *most as usize,
                _ => limits::FARM_LISTED,
            };
            connect(sessions, std::mem::take(connections));
            sessions.sort_by(|a, b| a.address.cmp(&b.address));
            sessions.truncate(most.min(limits::FARM_LISTED));
        }
        Response::Chat(Answer::Rooms(rooms)) => *rooms = distinct(std::mem::take(rooms)),
        Response::Chat(Answer::Users { users, .. }) => {
            users.sort_unstable();
            users.dedup();
        }
        _ => {}
    }
}

/// The latest begin first; equal records are neighbours.
fn order_of_calls(call: &CallRecord) -> impl Ord + '_ {
    (std::cmp::Reverse(call.started_at), call.order())
}

/// Completes sessions whose connections are at another node than the session.
fn connect(sessions: &mut [Session], connections: Vec<Connection>) {
    let mut by_id: BTreeMap<String, Connection> =
        connections.into_iter().map(|connection| (connection.id.clone(), connection)).collect();
    for session in sessions {
        let id = std::mem::take(&mut session.connection);
        if let Some(connection) = by_id.remove(&id).filter(|_| session.from.is_empty()) {
            (session.from, session.transport) = (connection.from, connection.transport);
        }
    }
}

/// Each room once: nodes that share a database list the rooms that are stored there, and one of them has the room in memory.
fn distinct(rooms: Vec<Room>) -> Vec<Room> {
    let mut by_address = BTreeMap::new();
    for room in rooms {
        match by_address.entry(room.address.clone()) {
            Entry::Vacant(place) => {
                place.insert(room);
            }
            Entry::Occupied(mut place) if place.get().occupants < room.occupants => {
                place.insert(room);
            }
            Entry::Occupied(_) => {}
        }
    }
    by_address.into_values().take(limits::FARM_LISTED).collect()
}

#[cfg(test)]
mod tests {
    use admin::control::QueueMember;
    use admin::live::{LiveAnswer, LiveRequest};
    use stdx::Instant;
    use store::CallFilter;

    use super::*;
    use crate::{
        CallMessages, OpenCall, OpenCallList, RegisteredAddress, RegistrationPage, RegistrationQuery,
        TraceLine,
    };

    fn others(responses: [Option<Response>; 2]) -> OtherNodes {
        let names = ["n2", "n3"].map(Box::from);
        let responses = names.into_iter().zip(responses);
        let responses = responses.map(|(node, response)| NodeResponse { node, response }).collect();
        OtherNodes { this_node: "n1".into(), responses }
    }

    fn failed(kind: FailureKind, message: &str) -> Response {
        Response::Failed(Failure::new(kind, message))
    }

    fn call(call_id: &str, at: u64) -> CallRecord {
        CallRecord {
            call_id: call_id.into(),
            from: "sip:alice@example.net".into(),
            to: "sip:bob@example.net".into(),
            started_at: Instant::from_unix_seconds(at),
            answered_at: None,
            ended_at: Instant::from_unix_seconds(at + 9),
            code: 486,
            reason: "Busy Here".into(),
            account: None,
            callee: None,
        }
    }

    fn calls(calls: &[(&str, u64)]) -> Response {
        Response::Listing(Listing::Calls(calls.iter().map(|(id, at)| call(id, *at)).collect()))
    }

    #[test]
    fn the_callers_of_a_queue_at_all_nodes_stand_in_the_order_in_which_they_came() {
        let members = |sids: &[(&str, u64)]| {
            let member = |(call, at): &(&str, u64)| QueueMember {
                call_sid: (*call).to_owned(),
                enqueued_at: Instant::from_unix_seconds(*at),
            };
            Response::Live(Box::new(LiveAnswer::Members(sids.iter().map(member).collect())))
        };
        let request = Request::Live(Box::new(LiveRequest::QueueMembers { queue: "QU1".into() }));
        assert!(request.concerns_all_nodes() && !request.is_for_one_node());
        // As it comes over a link.
        let other = serde_json::to_vec(&members(&[("CA2", 20)])).unwrap();
        let other = serde_json::from_slice(&other).unwrap();
        let others = others([Some(other), Some(failed(FailureKind::NotFound, "no such queue"))]);
        let merged = merge(&request, Ok(members(&[("CA1", 10), ("CA3", 30)])), others).unwrap();
        assert_eq!(merged.response, members(&[("CA1", 10), ("CA2", 20), ("CA3", 30)]));
        let end = Request::Live(Box::new(LiveRequest::end_of_call("CA1")));
        assert!(end.concerns_all_nodes() && end.is_for_one_node());
    }

    #[test]
    fn calls_of_all_nodes_are_listed_newest_first_and_no_more_than_asked_for() {
        let request = Request::Ask(Ask::Calls(CallFilter { limit: 3, ..CallFilter::default() }));
        let own = Ok(calls(&[("c", 30), ("a", 10)]));
        let others = others([Some(calls(&[("d", 40), ("b", 20)])), None]);
        let merged = merge(&request, own, others).unwrap();
        assert_eq!(merged.nodes.to_string(), "2 of 3 nodes answered (n3 did not)");
        let Response::Listing(Listing::Calls(listed)) = merged.response else { panic!("{merged:?}") };
        let ids: Vec<_> = listed.iter().map(|call| &*call.call_id).collect();
        assert_eq!(ids, ["d", "c", "b"]);
    }

    #[test]
    fn a_call_in_a_database_that_nodes_share_is_listed_once() {
        let request = Request::Ask(Ask::Calls(CallFilter { limit: 3, ..CallFilter::default() }));
        let shared = [("d", 40), ("c", 40), ("b", 20)];
        let others = others([Some(calls(&shared)), Some(calls(&[("a", 30)]))]);
        let merged = merge(&request, Ok(calls(&shared)), others).unwrap();
        let Response::Listing(Listing::Calls(listed)) = merged.response else { panic!("{merged:?}") };
        let ids: Vec<_> = listed.iter().map(|call| &*call.call_id).collect();
        assert_eq!(ids, ["c", "d", "a"]);
    }

    #[test]
    fn open_calls_name_their_nodes_and_registered_addresses_are_listed_once() {
        let open = |calls: &[(&str, u64)]| {
            let call = |(call_id, at): &(&str, u64)| OpenCall {
                call_id: (*call_id).into(),
                started_at: *at,
                ..OpenCall::default()
            };
            Response::OpenCalls(OpenCallList { calls: calls.iter().map(call).collect(), total: 300 })
        };
        let request = Request::OpenCalls { account: None };
        let others_open = others([Some(open(&[("b", 7), ("d", 5)])), None]);
        let merged = merge(&request, Ok(open(&[("a", 9), ("c", 6)])), others_open).unwrap();
        assert_eq!(merged.nodes.to_string(), "2 of 3 nodes answered (n3 did not)");
        let Response::OpenCalls(list) = merged.response else { panic!("{merged:?}") };
        let rows: Vec<_> = list.calls.iter().map(|call| (&*call.call_id, call.node.as_deref())).collect();
        assert_eq!(rows, [("a", Some("n1")), ("b", Some("n2")), ("c", Some("n1")), ("d", Some("n2"))]);
        assert_eq!(list.total, 600);

        let page = |addresses: &[&str]| {
            let of = |address: &&str| RegisteredAddress { address: (*address).into(), contacts: Vec::new() };
            Response::Registrations(RegistrationPage {
                addresses: addresses.iter().map(of).collect(),
                total: 9,
            })
        };
        let request = Request::Registrations(RegistrationQuery { limit: 3, ..RegistrationQuery::default() });
        let all = others([Some(page(&["a@x", "d@x"])), Some(page(&["c@x", "e@x"]))]);
        let merged = merge(&request, Ok(page(&["c@x", "f@x"])), all).unwrap();
        let Response::Registrations(page) = merged.response else { panic!("{merged:?}") };
        let names: Vec<_> = page.addresses.iter().map(|one| &*one.address).collect();
        assert_eq!((names, page.total), (vec!["a@x", "c@x", "d@x"], 27));
    }

    #[test]
    fn the_messages_of_a_call_at_two_nodes_are_one_ladder() {
        let messages = |times: &[u64]| {
            let line = |at: &u64| TraceLine { at_micros: *at, ..TraceLine::default() };
            let lines = times.iter().map(line).collect();
            Response::CallMessages(CallMessages {
                lines,
                since: times[0],
                not_begun: 2,
                ..CallMessages::default()
            })
        };
        let request = Request::CallMessages { call_id: "a".into() };
        let all = others([Some(messages(&[20, 40])), None]);
        let merged = merge(&request, Ok(messages(&[10, 30])), all).unwrap();
        let Response::CallMessages(call) = merged.response else { panic!("{merged:?}") };
        let lines: Vec<_> = call.lines.iter().map(|line| (line.at_micros, line.node.as_deref())).collect();
        assert_eq!(lines, [(10, Some("n1")), (20, Some("n2")), (30, Some("n1")), (40, Some("n2"))]);
        assert_eq!((call.since, call.not_begun), (20, 4));
    }

    #[test]
    fn a_call_that_one_node_has_is_ended_and_one_that_none_has_is_not_found() {
        let request = Request::EndCall { call: "CA1".into() };
        let none = || failed(FailureKind::NotFound, "there is no call CA1");
        let own = || Err(Failure::new(FailureKind::NotFound, "there is no call CA1"));
        let merged =
            merge(&request, own(), others([Some(Response::Done { rows: 1 }), Some(none())])).unwrap();
        assert_eq!(merged.response, Response::Done { rows: 1 });
        assert!(merged.nodes.is_complete(), "{merged:?}");
        let failure = merge(&request, own(), others([Some(none()), Some(none())])).unwrap_err();
        assert_eq!((failure.kind, &*failure.message), (FailureKind::NotFound, "there is no call CA1"));
        // The node that is silent may have it.
        let failure = merge(&request, own(), others([Some(none()), None])).unwrap_err();
        assert_eq!(failure.message, "there is no call CA1; 2 of 3 nodes answered (n3 did not)");
    }

    #[test]
    fn a_node_that_refuses_or_answers_another_request_is_missing_with_the_reason() {
        let request = Request::LiftBlock { subject: "192.0.2.1".into() };
        let busy = failed(FailureKind::Busy, "too many requests");
        let merged = merge(&request, Ok(Response::Done { rows: 2 }), others([Some(busy), Some(calls(&[]))]));
        let merged = merged.unwrap();
        assert_eq!(merged.response, Response::Done { rows: 2 });
        let text = "1 of 3 nodes answered (n2: too many requests; n3: it answered another request)";
        assert_eq!(merged.nodes.to_string(), text);
        let invalid = || Failure::new(FailureKind::Invalid, "no address");
        let all = others([Some(Response::Failed(invalid())), Some(Response::Failed(invalid()))]);
        assert_eq!(merge(&request, Err(invalid()), all), Err(invalid()));
    }

    #[test]
    fn states_stand_beside_each_other() {
        let status = || Response::Status(Box::default());
        let merged = merge(&Request::Status, Ok(status()), others([Some(status()), None])).unwrap();
        let Response::Statuses(all) = merged.response else { panic!("{:?}", merged.response) };
        assert_eq!(all.iter().map(|one| &*one.node).collect::<Vec<_>>(), ["n1", "n2"]);
    }

    fn session(address: &str, connection: &str) -> Session {
        Session { address: address.into(), connection: connection.into(), ..Session::default() }
    }

    fn sessions(sessions: Vec<Session>, connections: Vec<Connection>) -> Response {
        let total = sessions.len() as u64;
        Response::Chat(Answer::Sessions { sessions, total, connections })
    }

    #[test]
    fn a_session_has_the_connection_that_another_node_accepted() {
        let request = Request::Chat(ChatAsk::Sessions { who: None, most: None });
        let connection = Connection { id: "7.0.3".into(), from: "192.0.2.1".into(), transport: "tls".into() };
        let own = sessions(vec![session("bob@a.org/x", "7.0.3"), session("bob@a.org/y", "")], Vec::new());
        let second = sessions(vec![session("alice@a.org/z", "8.0.1")], vec![connection]);
        let merged = merge(&request, Ok(own), others([Some(second), None])).unwrap();
        let page = Request::Chat(ChatAsk::Sessions { who: None, most: Some(1) });
        let cut = merge(&page, Ok(merged.response.clone()), others([None, None])).unwrap();
        let Response::Chat(Answer::Sessions { sessions, total, .. }) = cut.response else { panic!() };
        assert_eq!((sessions.len(), &*sessions[0].address, total), (1, "alice@a.org/z", 3));
        let Response::Chat(Answer::Sessions { sessions, total, .. }) = merged.response else { panic!() };
        assert_eq!(total, 3);
        let rows: Vec<_> = sessions.iter().map(|one| (&*one.address, &*one.from, &*one.transport)).collect();
        assert_eq!(
            rows,
            [("alice@a.org/z", "", ""), ("bob@a.org/x", "192.0.2.1", "tls"), ("bob@a.org/y", "", "")]
        );
    }

    #[test]
    fn a_stored_room_is_listed_once_as_the_node_has_it_that_has_its_occupants() {
        let request = Request::Chat(ChatAsk::Rooms { domain: "a.org".into() });
        let rooms = |rooms: &[(&str, u64)]| {
            let room = |(address, occupants): &(&str, u64)| Room {
                address: (*address).into(),
                occupants: *occupants,
                ..Room::default()
            };
            Response::Chat(Answer::Rooms(rooms.iter().map(room).collect()))
        };
        let all = others([
            Some(rooms(&[("tea@c.a.org", 3)])),
            Some(rooms(&[("tea@c.a.org", 0), ("ale@c.a.org", 1)])),
        ]);
        let merged = merge(&request, Ok(rooms(&[("tea@c.a.org", 0)])), all).unwrap();
        assert_eq!(merged.response, rooms(&[("ale@c.a.org", 1), ("tea@c.a.org", 3)]));
    }

    #[test]
    fn lists_are_shortened_to_their_newest_rows() {
        let mut list = sessions(
            (0..4).map(|at| Session { since: at, ..session("a@a.org/x", "") }).collect(),
            Vec::new(),
        );
        assert!(list.shorten(2) && !list.shorten(2));
        let Response::Chat(Answer::Sessions { sessions, total, .. }) = list else { panic!() };
        assert_eq!((sessions.iter().map(|one| one.since).collect::<Vec<_>>(), total), (vec![3, 2], 4));
        assert!(!Response::Done { rows: 9 }.shorten(1));
    }

    #[test]
    fn only_requests_about_all_nodes_are_passed_on() {
        assert!(Request::Status.concerns_all_nodes() && Request::Blocks.concerns_all_nodes());
        for request in [Request::Drain, Request::Reload, Request::Ask(Ask::Domains), Request::Farm] {
            assert!(!request.concerns_all_nodes(), "{request:?}");
        }
        assert!(!Request::AllNodes(Box::new(Request::Status)).concerns_all_nodes());
    }
}
