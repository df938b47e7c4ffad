//! The traces that operators have begun at the console. Each is collected by a task of its own, ends by itself, and is shown only to
//! the account that began it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{TraceLine, TraceLines, TraceNews};
use serde_json::{Value, json};
use stdx::Instant;
use store::Address;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::limits;

/// The reason why a trace is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its time is over.
    Time,
    /// It has as many messages as a trace may have.
    Full,
    /// The operator ended it.
    Operator,
    /// The node ended it.
    Node,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            End::Time => "time",
            End::Full => "full",
            End::Operator => "operator",
            End::Node => "node",
        }
    }
}

/// The order of an operator.
#[derive(Clone, Debug)]
pub(crate) struct TraceOrder {
    /// The account that has signed in.
    pub(crate) by: Address,
    /// The account that is traced.
    pub(crate) account: Address,
    /// Only messages with this Call-ID.
    pub(crate) call_id: Option<Box<str>>,
    /// The time that it lasts.
    pub(crate) time: Duration,
}

struct Trace {
    order: TraceOrder,
    ends_at: Instant,
    lines: Vec<TraceLine>,
    bytes: usize,
    missed: u64,
    /// Nodes that do not answer.
    missing: BTreeSet<Box<str>>,
    end: Option<End>,
    /// Told when the operator ends it.
    stop: Arc<Notify>,
}

/// All traces, by their names.
#[derive(Default)]
pub(crate) struct Traces {
    all: Arc<NamedTraces>,
    /// One for each trace that is under way; they end with the console.
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct NamedTraces(Mutex<BTreeMap<String, Trace>>);

impl NamedTraces {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Trace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages of a call that traces have seen.
pub(crate) struct TracedCall {
    /// The first of them, by their times.
    pub(crate) lines: Vec<TraceLine>,
    /// There are more.
    pub(crate) has_more: bool,
    /// Messages that these traces did not see, of this call or of others.
    pub(crate) missed: u64,
}

/// Too many traces are under way.
#[derive(Debug)]
pub(crate) struct TooMany;

impl Traces {
    /// True if one more may begin.
    pub(crate) fn have_room(&self) -> bool {
        self.all.lock().values().filter(|trace| trace.end.is_none()).count() < limits::TRACES
    }

    /// Collects the lines until the trace is over.
    pub(crate) fn begin(
        &self,
        now: Instant,
        name: &str,
        order: TraceOrder,
        lines: TraceLines,
    ) -> Result<(), TooMany> {
        if !self.have_room() {
            return Err(TooMany);
        }
        let (time, stop) = (order.time, Arc::new(Notify::new()));
        let trace = Trace {
            ends_at: now + time,
            order,
            lines: Vec::new(),
            bytes: 0,
            missed: 0,
            missing: BTreeSet::new(),
            end: None,
            stop: Arc::clone(&stop),
        };
        let mut all = self.all.lock();
        all.retain(|_, trace| trace.end.is_none() || now.since(trace.ends_at) < limits::TRACE_KEPT);
        if all.len() >= limits::TRACES_KEPT {
            let over = all.iter().filter(|(_, trace)| trace.end.is_some());
            let oldest = over.min_by_key(|(_, trace)| trace.ends_at).map(|(name, _)| name.clone());
            oldest.map(|name| all.remove(&name));
        }
        all.insert(name.to_owned(), trace);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(collect(Arc::clone(&self.all), name.to_owned(), lines, (time, stop)));
        Ok(())
    }

    /// The messages of a trace that the account has begun, behind a point. None: there is no such trace.
    pub(crate) fn page(&self, name: &str, by: &Address, since: u64) -> Option<Value> {
        let all = self.all.lock();
        let trace = all.get(name).filter(|trace| trace.order.by == *by)?;
        let since = usize::try_from(since).unwrap_or(usize::MAX).min(trace.lines.len());
        let page = &trace.lines[since..trace.lines.len().min(since + limits::TRACE_PAGE)];
        let next = since + page.len();
        Some(json!({
            "account": trace.order.account.to_string(),
            "call_id": trace.order.call_id,
            "lines": page,
            "next": next,
            "has_more": next < trace.lines.len(),
            "missed": trace.missed,
            "missing_nodes": trace.missing,
            "ends_at": trace.ends_at.as_micros(),
            "ended": trace.end.map(End::name),
        }))
    }

    /// The messages with this Call-ID in all traces that the account has begun and that are kept, in the order of their times. Traces of both
    /// ends of a call have the same messages; each is there once.
    pub(crate) fn ladder(&self, call_id: &str, by: &Address) -> TracedCall {
        let all = self.all.lock();
        let traces = || all.values().filter(|trace| trace.order.by == *by);
        let mut lines: Vec<&TraceLine> =
            traces().flat_map(|trace| &trace.lines).filter(|line| *line.call_id == *call_id).collect();
        lines.sort_by_key(|line| line.at_micros);
        let mut seen = HashSet::new();
        lines.retain(|line| seen.insert((line.at_micros, &line.from, &line.to, &line.label, &line.node)));
        // A trace that did not see all of its account's messages may lack some of this call's.
        let missed: u64 = if lines.is_empty() { 0 } else { traces().map(|trace| trace.missed).sum() };
        let shown = lines.len().min(limits::LADDER_LINES);
        let has_more = shown < lines.len();
        TracedCall { lines: lines[..shown].iter().map(|line| (*line).clone()).collect(), has_more, missed }
    }

    /// Ends a trace that the account has begun. None: there is no such trace.
    pub(crate) fn end(&self, name: &str, by: &Address) -> Option<Address> {
        let all = self.all.lock();
        let trace = all.get(name).filter(|trace| trace.order.by == *by)?;
        trace.stop.notify_one();
        Some(trace.order.account.clone())
    }
}

/// Puts the lines into the trace of that name until it is over.
async fn collect(
    traces: Arc<NamedTraces>,
    name: String,
    mut lines: TraceLines,
    (time, stop): (Duration, Arc<Notify>),
) {
    let mut over = pin!(sleep(time));
    let end = loop {
        tokio::select! {
            news = lines.next() => {
                let Some(news) = news else { break End::Node };
                let missed = lines.missed();
                let mut all = traces.lock();
                let Some(trace) = all.get_mut(&name) else { return };
                trace.missed += missed;
                if !trace.add(news) {
                    break End::Full;
                }
            }
            () = &mut over => break End::Time,
            () = stop.notified() => break End::Operator,
        }
    };
    if let Some(trace) = traces.lock().get_mut(&name) {
        trace.end = Some(end);
    }
}

impl Trace {
    /// False: it has as much as it may have.
    fn add(&mut self, news: TraceNews) -> bool {
        match news {
            TraceNews::Node { name, takes_part: true } => drop(self.missing.remove(&name)),
            TraceNews::Node { name, takes_part: false } => drop(self.missing.insert(name)),
            TraceNews::Line(line) => {
                if self.order.call_id.as_ref().is_some_and(|wanted| *wanted != line.call_id) {
                    return true;
                }
                let TraceLine { from, to, label, call_id, .. } = &line;
                let texts = from.len() + to.len() + label.len() + call_id.len();
                let message = line.message.as_ref().map_or(0, |message| message.len());
                self.bytes += size_of::<TraceLine>() + texts + message;
                self.lines.push(line);
            }
        }
        self.lines.len() < limits::TRACE_LINES && self.bytes < limits::TRACE_BYTES
    }
}
