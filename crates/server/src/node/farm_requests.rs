//! Requests of other nodes' operators, which this node performs for its part: those that its own operator may make of all nodes
//! (`control::Request::concerns_all_nodes`), each as if a command had made it here.

use std::rc::Rc;
use std::sync::Arc;

use admin::ControlError;
use cluster::Life;
use control::{Ask, Control, Failure, FailureKind, Request, Response, StatusSource};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::farm::requests::{FarmRequester, NodeRequest};
use crate::farm::{FarmBoard, FarmMembership};
use crate::limits;

/// Begins to perform other nodes' requests, if the node is in a farm.
pub(super) fn begin<C: Control + 'static>(
    control: &Rc<C>,
    farm: Option<&FarmMembership>,
    status: &StatusSource,
) {
    let Some(farm) = farm else { return };
    if let Some(requests) = farm.board().requests.open() {
        let (requester, board) = (farm.requester(), farm.board_of_shards());
        spawn_local(serve(Rc::clone(control), status.clone(), (requester, board), requests));
    }
}

/// The failure of a request to end a call, which may be at another node.
pub(super) fn failure_of_call(error: ControlError, call: &str) -> Failure {
    match error {
        ControlError::NotFound | ControlError::NotLive | ControlError::Unsupported(_) => {
            let message = format!(
                "no open call of an application has the SID {call}, so nothing was ended; see the open calls and their SIDs with: belfry \
                 calls open (a call without a SID is none of an application, and ends at a phone)"
            );
            Failure::new(FailureKind::NotFound, message)
        }
        error => error.into(),
    }
}

/// Performs other nodes' requests until the node ends.
async fn serve<C: Control + 'static>(
    control: Rc<C>,
    status: StatusSource,
    (requester, board): (FarmRequester, Arc<FarmBoard>),
    mut requests: mpsc::Receiver<NodeRequest>,
) {
    let room = Arc::new(Semaphore::new(limits::FARM_REQUESTS));
    while let Some(NodeRequest { from, number, request }) = requests.recv().await {
        let request = match answer_at_once(&board, from, &request) {
            Ok(request) => request,
            Err(response) => {
                requester.respond(from, number, *response);
                continue;
            }
        };
        let (control, status, requester) = (Rc::clone(&control), status.clone(), requester.clone());
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            requester.respond(from, number, failed(FailureKind::Busy, "too many requests of other nodes"));
            continue;
        };
        spawn_local(async move {
            let response = perform(&*control, &status, request);
            // The operator does not wait longer.
            if let Ok(response) = timeout(limits::FARM_REQUEST_PATIENCE, response).await {
                requester.respond(from, number, response);
            }
            drop(permit);
        });
    }
}

/// Answers a request of an edge for the plan, the news of it, and what is no request.
///
/// # Errors
/// The answer. Another request is returned, and is to be performed.
fn answer_at_once(board: &FarmBoard, from: Life, request: &[u8]) -> Result<Request, Box<Response>> {
    Err(Box::new(match serde_json::from_slice(request) {
        Ok(Request::Plan(query)) => board.plan.answer(query),
        Ok(Request::PlanChanged { version }) => {
            board.plan.handle_changed(from, version);
            Response::Done { rows: 0 }
        }
        Ok(request) => return Ok(request),
        // Of a later version.
        Err(_) => failed(FailureKind::Protocol, "its version does not know the request"),
    }))
}

/// Performs a request as one of this node's own operator, if another node may make it.
async fn perform<C: Control>(control: &C, status: &StatusSource, request: Request) -> Response {
    // The domains with their accounts: an edge without a database has none of its own to show.
    if request.concerns_all_nodes() || request == Request::Ask(Ask::Domains) {
        control::answer(control, status, request).await.unwrap_or_else(Response::Failed)
    } else {
        failed(FailureKind::Protocol, "the request concerns one node")
    }
}

fn failed(kind: FailureKind, message: &str) -> Response {
    Response::Failed(Failure::new(kind, message))
}
