//! The way from the handlers of HTTP to the node: a bounded queue, answered on the thread of the node's operator.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::NodesAnswered;
use control::{
    Control, Failure, FailureKind, Request, Response, StatusSource, TraceLines, TraceSink, respond,
};
use stdx::Instant;
use store::{Account, Address, Loaded, Read};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::directory;
use crate::fault::Fault;
use crate::history::Sample;
use crate::limits;
use crate::state::State;

/// One question to the node, with the way of its answer.
pub(crate) enum Query {
    Request(Request, oneshot::Sender<Result<Response, Failure>>),
    Account(Address, oneshot::Sender<Result<Option<Account>, Failure>>),
    /// The messages of an account from now on, whole or not; none: too many traces are on.
    Trace(Address, bool, oneshot::Sender<Option<TraceLines>>),
}

/// The handlers' end of the queue.
#[derive(Clone)]
pub(crate) struct NodeHandle(mpsc::Sender<Query>);

impl NodeHandle {
    /// Asks this node alone.
    pub(crate) async fn ask_one(&self, request: Request) -> Result<Response, Fault> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Query::Request(request, answer)).map_err(|_| Fault::busy())?;
        Ok(answered.await.map_err(|_| Fault::busy())??)
    }

    /// Asks all nodes of the farm where the request concerns them; the nodes that answered are none if the node answers for all.
    pub(crate) async fn ask(&self, request: Request) -> Result<(Response, Option<NodesAnswered>), Fault> {
        let request =
            if request.concerns_all_nodes() { Request::AllNodes(Box::new(request)) } else { request };
        match self.ask_one(request).await? {
            Response::OfNodes(all) => Ok((all.response, Some(all.nodes))),
            response => Ok((response, None)),
        }
    }

    /// Traces an account at all nodes, until the lines are dropped; none: too many traces are on.
    pub(crate) async fn trace(&self, account: Address, full: bool) -> Result<Option<TraceLines>, Fault> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Query::Trace(account, full, answer)).map_err(|_| Fault::busy())?;
        answered.await.map_err(|_| Fault::busy())
    }

    /// The account of an address, also by an alias, with its verifiers.
    pub(crate) async fn account(&self, address: Address) -> Result<Option<Account>, Fault> {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Query::Account(address, answer)).map_err(|_| Fault::busy())?;
        Ok(answered.await.map_err(|_| Fault::busy())??)
    }
}

/// The node's end of the queue. The node serves it on the thread of its operator.
pub struct NodeQueries {
    queries: mpsc::Receiver<Query>,
    state: Arc<State>,
}

/// Makes both ends; the node's end is complete once the state is made.
pub(crate) fn queue() -> (NodeHandle, mpsc::Receiver<Query>) {
    let (send, receive) = mpsc::channel(limits::QUERIES);
    (NodeHandle(send), receive)
}

impl NodeQueries {
    pub(crate) fn new(queries: mpsc::Receiver<Query>, state: Arc<State>) -> NodeQueries {
        NodeQueries { queries, state }
    }

    /// The next question, for tests that play the node.
    #[cfg(test)]
    pub(crate) async fn next(&mut self) -> Option<Query> {
        self.queries.recv().await
    }

    /// Answers the console's questions and takes the samples of its graphs, until dropped. On a `LocalSet`.
    pub async fn serve<C: Control + 'static>(self, control: Rc<C>, status: StatusSource) {
        let NodeQueries { mut queries, state } = self;
        let roles = directory::keep_fresh(Arc::clone(&state));
        let sampling = sample(Rc::clone(&control), status.clone(), state);
        let answering = async {
            let mut at_work = JoinSet::new();
            loop {
                tokio::select! {
                    query = queries.recv(), if at_work.len() < limits::QUERIES_AT_WORK => {
                        let Some(query) = query else { return };
                        at_work.spawn_local(answer(Rc::clone(&control), status.clone(), query));
                    }
                    Some(_) = at_work.join_next() => {}
                }
            }
        };
        tokio::join!(answering, sampling, roles);
    }
}

/// A client that has gone does not want its answer any more.
async fn answer<C: Control>(control: Rc<C>, status: StatusSource, query: Query) {
    match query {
        Query::Request(request, answer) => {
            let _ = answer.send(respond(&*control, &status, request).await);
        }
        Query::Trace(account, full, answer) => {
            let (sink, lines) = TraceSink::new(full);
            let _ = answer.send(control.trace(&account, sink, true).then_some(lines));
        }
        Query::Account(address, answer) => {
            let read = control.read(Read::Account { user: address.user, domain: address.domain });
            let loaded = timeout(control::limits::CONTROL_PATIENCE, read).await;
            let _ = answer.send(match loaded {
                Ok(Ok(Loaded::Account(account))) => Ok(account.map(|account| *account)),
                Ok(Ok(_)) => {
                    Err(Failure::new(FailureKind::Protocol, "the database answered another request"))
                }
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(Failure::new(FailureKind::Busy, "the database does not answer")),
            });
        }
    }
}

/// Once a second, for the graphs.
async fn sample<C: Control>(control: Rc<C>, status: StatusSource, state: Arc<State>) {
    let mut every_second = interval(Duration::from_secs(1));
    every_second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every_second.tick().await;
        let read_time = measure_read(&*control).await;
        if let Some(status) = status.get().await {
            let sample = Sample { at: control.now(), status: &status, cpu: process_time(), read_time };
            state.history().push(&sample);
        }
    }
}

/// The time of a read of the database, by an address that no account has; none within a second: it does not answer.
async fn measure_read<C: Control>(control: &C) -> Option<Duration> {
    let began: Instant = control.now();
    let read = control.read(Read::Account { user: "".into(), domain: "".into() });
    match timeout(Duration::from_secs(1), read).await {
        Ok(Ok(_)) => Some(control.now().since(began)),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// Processor time of the process.
fn process_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let of = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(of(time.tv_sec)) + Duration::from_nanos(of(time.tv_nsec))
}
