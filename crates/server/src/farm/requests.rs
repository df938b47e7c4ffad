//! Requests of operators to all nodes of a farm: the asked node sends a request to the others, waits for their answers, and no longer
//! than an operator wants to. Any thread may ask: commands, REST, and chat's shards for administrators. Requests of other nodes wait in
//! the inbox of the operator's thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cluster::Life;
use control::{Failure, FailureKind, NodeResponse, OtherNodes, Request, Response};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::FarmBoard;
use crate::limits;
use crate::message::LocalMessage;
use shard_message::wire::{REQUESTS_SINCE, RequestBody, RequestMessage};

/// A request of another node's operator.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeRequest {
    /// The node that asks.
    pub(crate) from: Life,
    /// Its number of the request.
    pub(crate) number: u64,
    /// The `control::Request` as JSON.
    pub(crate) request: Box<[u8]>,
}

/// The requests of this node's operators to other nodes, and the inbox of other nodes' requests; closed until the operator's thread
/// reads it.
#[derive(Debug, Default)]
pub(crate) struct FarmRequests {
    inbox: OnceLock<mpsc::Sender<NodeRequest>>,
    open: Mutex<OpenRequests>,
}

impl FarmRequests {
    /// Opens the inbox. None: it is open already.
    pub(crate) fn open(&self) -> Option<mpsc::Receiver<NodeRequest>> {
        let (sender, requests) = mpsc::channel(limits::FARM_REQUESTS_WAITING);
        self.inbox.set(sender).is_ok().then_some(requests)
    }

    /// Handles a message of another node. A request for which the inbox has no room is lost; its operator reads that this node has not
    /// answered.
    pub(crate) fn handle(&self, from: Life, RequestMessage { number, body }: RequestMessage) {
        match body {
            RequestBody::Request(request) => {
                if let Some(inbox) = self.inbox.get()
                    && inbox.try_send(NodeRequest { from, number, request }).is_err()
                {
                    tracing::warn!(node = %from, "a request of another node is lost: too many wait");
                }
            }
            RequestBody::Response { part, is_last, bytes } => {
                self.lock().handle_part(number, from, part, is_last, &bytes);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenRequests> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests that wait for other nodes.
#[derive(Debug, Default)]
struct OpenRequests {
    last: u64,
    open: BTreeMap<u64, OpenRequest>,
}

/// One request that waits for other nodes.
#[derive(Debug)]
struct OpenRequest {
    nodes: BTreeMap<Life, NodeAnswer>,
    /// One node at most has what is asked for: the others' answers need not be waited for once it has come.
    is_for_one_node: bool,
    /// Bytes that have come from all nodes.
    bytes: usize,
    /// Is none once all answers that are waited for have come.
    done: Option<oneshot::Sender<()>>,
}

/// The answer of one node, as far as it has come.
#[derive(Debug, Default)]
struct NodeAnswer {
    name: Box<str>,
    /// The number of the part that is expected, from 0.
    next_part: u32,
    bytes: Vec<u8>,
    is_complete: bool,
    /// A part is missing, or the answer is too long.
    is_lost: bool,
}

impl OpenRequests {
    /// Begins a request to these nodes. Its number, and the news that all have answered; none if too many requests wait.
    fn begin(
        &mut self,
        nodes: Vec<(Life, Box<str>)>,
        is_for_one_node: bool,
    ) -> Option<(u64, oneshot::Receiver<()>)> {
        // Each open request may hold the answers of all nodes in memory.
        if self.open.len() >= limits::FARM_REQUESTS_WAITING {
            return None;
        }
        self.last += 1;
        let (done, all_answered) = oneshot::channel();
        let node = |(life, name)| (life, NodeAnswer { name, ..NodeAnswer::default() });
        let nodes = nodes.into_iter().map(node).collect();
        self.open.insert(self.last, OpenRequest { nodes, is_for_one_node, bytes: 0, done: Some(done) });
        Some((self.last, all_answered))
    }

    /// Handles a part of a node's answer. An answer that misses a part, or is too long, counts as one that cannot be shown, and its bytes are
    /// freed.
    fn handle_part(&mut self, number: u64, from: Life, part: u32, is_last: bool, bytes: &[u8]) {
        let Some(request) = self.open.get_mut(&number) else { return };
        let Some(node) = request.nodes.get_mut(&from).filter(|node| !node.is_complete) else { return };
        request.bytes += bytes.len();
        // Parts come in order; a link that was full has dropped one.
        node.is_lost |= part != node.next_part
            || node.bytes.len() + bytes.len() > limits::FARM_ANSWER_BYTES
            || request.bytes > limits::FARM_ANSWERS_BYTES;
        // Goes on after a loss, too: the end of the answer has to be noticed.
        node.next_part = part.wrapping_add(1);
        node.is_complete = is_last;
        if node.is_lost {
            node.bytes = Vec::new();
        } else {
            node.bytes.extend_from_slice(bytes);
        }
        // The object is at one node: after its answer the silence of others does not matter.
        let has_it = is_last && request.is_for_one_node && node.performed();
        if (has_it || request.nodes.values().all(|node| node.is_complete))
            && let Some(done) = request.done.take()
        {
            // The asker may have gone.
            let _ = done.send(());
        }
    }

    /// Ends a request. The answers that have come, one entry for each node.
    fn end(&mut self, number: u64) -> Vec<NodeResponse> {
        let nodes = self.open.remove(&number).map(|request| request.nodes).unwrap_or_default();
        nodes.into_values().map(NodeAnswer::response).collect()
    }
}

impl NodeAnswer {
    /// The node has what was asked for.
    fn performed(&self) -> bool {
        let response = serde_json::from_slice(&self.bytes);
        !self.is_lost && response.is_ok_and(|response| !matches!(response, Response::Failed(_)))
    }

    fn response(self) -> NodeResponse {
        let NodeAnswer { name, bytes, is_complete, is_lost, .. } = self;
        let too_long = || Response::Failed(Failure::new(FailureKind::Busy, "its answer is too long"));
        let unknown =
            || Response::Failed(Failure::new(FailureKind::Protocol, "its answer is not understood"));
        let response = match (is_complete, is_lost) {
            (false, false) => None,
            (_, true) => Some(too_long()),
            (true, false) => Some(serde_json::from_slice(&bytes).unwrap_or_else(|_| unknown())),
        };
        NodeResponse { node: name, response }
    }
}

/// Asks the other nodes of the farm. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FarmRequester {
    own: Life,
    board: Arc<FarmBoard>,
    /// The database has the rows of all nodes.
    shares_database: bool,
}

/// More requests of users wait for other nodes than may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRequests;

/// An open request, which ends with the future that waits for it.
struct Waiting<'a> {
    requests: &'a FarmRequests,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.requests.lock().open.remove(&self.number);
    }
}

impl FarmRequester {
    pub(super) fn new(own: Life, board: Arc<FarmBoard>, shares_database: bool) -> FarmRequester {
        FarmRequester { own, board, shares_database }
    }

    /// The answers of all other live nodes; none if this node answers for all.
    pub(crate) async fn ask(&self, request: &Request) -> Option<OtherNodes> {
        if self.shares_database && matches!(request, Request::Ask(_)) {
            return None;
        }
        let view = self.board.view()?;
        let mut nodes: BTreeMap<Life, Box<str>> =
            view.peers.iter().map(|(life, peer)| (*life, peer.name.clone())).collect();
        let this_node = nodes.remove(&self.own).unwrap_or_default();
        let is_for_one_node = request.is_for_one_node();
        let request = serde_json::to_vec(request).ok().filter(|request| {
            view.map.level() >= REQUESTS_SINCE && request.len() <= shard_message::limits::FARM_REQUEST_BYTES
        });
        let responses = match request {
            Some(request) if !nodes.is_empty() => self.ask_nodes(nodes, &request, is_for_one_node).await,
            _ => nodes.into_values().map(|node| NodeResponse { node, response: None }).collect(),
        };
        Some(OtherNodes { this_node, responses })
    }

    /// The same for a user. Users are many: operators keep most of the places.
    ///
    /// # Errors
    /// Too many requests wait for other nodes.
    pub(crate) async fn ask_for_user(
        &self,
        request: &Request,
    ) -> Result<Option<OtherNodes>, TooManyRequests> {
        if self.board.requests.lock().open.len() >= limits::FARM_REQUESTS_OF_USERS {
            return Err(TooManyRequests);
        }
        Ok(self.ask(request).await)
    }

    /// Asks one node.
    ///
    /// # Errors
    /// The reason why there is no answer, or why the node refuses.
    pub(crate) async fn ask_node(&self, life: Life, request: &Request) -> Result<Response, Failure> {
        let late = || Failure::new(FailureKind::Busy, "it does not answer");
        let request = serde_json::to_vec(request).map_err(|_| late())?;
        let answers = self.ask_nodes(BTreeMap::from([(life, Box::default())]), &request, true).await;
        match answers.into_iter().next().and_then(|answer| answer.response) {
            Some(Response::Failed(failure)) => Err(failure),
            Some(response) => Ok(response),
            None => Err(late()),
        }
    }

    /// Sends a request to these nodes and waits for all, but no longer than [`limits::FARM_REQUEST_PATIENCE`]. One answer for each; none
    /// from all of them if too many requests wait.
    async fn ask_nodes(
        &self,
        nodes: BTreeMap<Life, Box<str>>,
        request: &[u8],
        is_for_one_node: bool,
    ) -> Vec<NodeResponse> {
        let requests = &self.board.requests;
        let names: Vec<(Life, Box<str>)> = nodes.into_iter().collect();
        let Some((number, all_answered)) = requests.lock().begin(names.clone(), is_for_one_node) else {
            return names.into_iter().map(|(_, node)| NodeResponse { node, response: None }).collect();
        };
        // Ends the request also if the future is dropped, as when an operator hangs up.
        let waiting = Waiting { requests, number };
        let message = RequestMessage { number, body: RequestBody::Request(request.into()) }.message();
        for (life, _) in names {
            self.board.send(LocalMessage::ToNode { life, message: message.clone() });
        }
        // Late or not: the answers that have come count.
        let _ = timeout(limits::FARM_REQUEST_PATIENCE, all_answered).await;
        requests.lock().end(waiting.number)
    }

    /// Sends an answer to another node's request. Lists lose rows until it is short enough.
    pub(crate) fn respond(&self, to: Life, number: u64, mut response: Response) {
        let json = loop {
            match serde_json::to_vec(&response) {
                Ok(json) if json.len() <= limits::FARM_ANSWER_BYTES => break json,
                Ok(json) if response.shorten(rows_that_fit(&response, json.len())) => {}
                _ => {
                    response = Response::Failed(Failure::new(FailureKind::Busy, "its answer is too long"));
                }
            }
        };
        for part in RequestMessage::parts_of_response(number, &json) {
            self.board.send(LocalMessage::ToNode { life: to, message: part.message() });
        }
    }
}

/// Rows of a list that has so many bytes and shall fit: a little less than the share that fits, as the newest rows may be longer.
fn rows_that_fit(response: &Response, bytes: usize) -> usize {
    let rows = response.rows();
    (rows * limits::FARM_ANSWER_BYTES / bytes.max(1)) * 9 / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<(Life, Box<str>)> {
        vec![(Life(2), "n2".into()), (Life(3), "n3".into())]
    }

    fn part(requests: &mut OpenRequests, from: u32, (part, is_last): (u32, bool), bytes: &[u8]) {
        requests.handle_part(1, Life(from), part, is_last, bytes);
    }

    fn done(rows: u64) -> Vec<u8> {
        serde_json::to_vec(&Response::Done { rows }).unwrap()
    }

    #[test]
    fn a_request_is_done_when_all_nodes_have_answered_in_whole() {
        let mut requests = OpenRequests::default();
        let (number, mut all_answered) = requests.begin(nodes(), false).unwrap();
        let answer = done(7);
        part(&mut requests, 2, (0, false), &answer[..5]);
        part(&mut requests, 3, (0, true), &done(1));
        assert!(all_answered.try_recv().is_err(), "a part of n2 is missing");
        part(&mut requests, 2, (1, true), &answer[5..]);
        assert!(all_answered.try_recv().is_ok());
        // Late, and of a node that was not asked.
        part(&mut requests, 2, (2, true), b"x");
        part(&mut requests, 4, (0, true), &answer);
        let response =
            |node: &str, rows| NodeResponse { node: node.into(), response: Some(Response::Done { rows }) };
        assert_eq!(requests.end(number), [response("n2", 7), response("n3", 1)]);
        assert!(requests.open.is_empty() && requests.end(number).is_empty());
    }

    #[test]
    fn a_node_that_is_silent_or_loses_a_part_is_told_from_one_that_answers() {
        let mut requests = OpenRequests::default();
        let (number, _) = requests.begin(nodes(), false).unwrap();
        part(&mut requests, 3, (0, false), b"{");
        part(&mut requests, 3, (2, true), b"}");
        let [silent, torn] = &requests.end(number)[..] else { panic!() };
        assert_eq!(silent.response, None);
        assert!(matches!(torn.response, Some(Response::Failed(_))), "{torn:?}");
        let (number, _) = requests.begin(nodes(), false).unwrap();
        requests.handle_part(number, Life(2), 0, true, b"nonsense");
        assert!(matches!(requests.end(number)[0].response, Some(Response::Failed(_))));
    }

    #[test]
    fn a_success_of_one_node_ends_the_wait_for_the_others() {
        let mut requests = OpenRequests::default();
        let (number, mut performed) = requests.begin(nodes(), true).unwrap();
        let not_found = Response::Failed(Failure::new(FailureKind::NotFound, "no such call"));
        part(&mut requests, 3, (0, true), &serde_json::to_vec(&not_found).unwrap());
        assert!(performed.try_recv().is_err(), "n2 may have it");
        part(&mut requests, 2, (0, true), &done(1));
        assert!(performed.try_recv().is_ok() && !requests.end(number).is_empty());
        let (_, mut performed) = requests.begin(nodes(), true).unwrap();
        requests.handle_part(2, Life(2), 0, true, &done(1));
        assert!(performed.try_recv().is_ok(), "n3 is silent");
    }

    #[test]
    fn answers_and_open_requests_are_bounded() {
        let mut requests = OpenRequests::default();
        let (number, _) = requests.begin(nodes(), false).unwrap();
        let bytes = vec![b'x'; shard_message::limits::FARM_ANSWER_PART];
        for place in 0..100 {
            requests.handle_part(number, Life(2), place, false, &bytes);
        }
        let kept = &requests.open[&number].nodes[&Life(2)];
        assert!(kept.is_lost && kept.bytes.capacity() == 0);
        for _ in 1..limits::FARM_REQUESTS_WAITING {
            assert!(requests.begin(nodes(), false).is_some());
        }
        assert!(requests.begin(nodes(), false).is_none());
    }

    #[test]
    fn a_request_of_another_node_waits_for_the_operator_once_the_inbox_is_open() {
        let requests = FarmRequests::default();
        let message =
            || RequestMessage { number: 5, body: RequestBody::Request(b"\"status\"".as_slice().into()) };
        requests.handle(Life(2), message());
        let mut inbox = requests.open().unwrap();
        assert!(inbox.try_recv().is_err() && requests.open().is_none());
        requests.handle(Life(2), message());
        let request = NodeRequest { from: Life(2), number: 5, request: b"\"status\"".as_slice().into() };
        assert_eq!(inbox.try_recv(), Ok(request));
    }
}
