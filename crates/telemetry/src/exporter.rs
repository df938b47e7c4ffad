//! The thread that makes spans of messages and sends them to a collector by OTLP over HTTP, in JSON.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode};
use stdx::Instant;
use tokio::runtime::{Builder, Runtime};

use crate::calls::CallSpans;
use crate::limits;
use crate::message::CallMessage;
use crate::span::{AttributeValue, Attributes, Span, SpanId, SpanKind, TraceId, request_body};
use crate::stanzas::{Stanza, StanzaSpans};

/// The collector, and the node as it is told of it.
pub struct ExporterSettings {
    /// The client for the collector, which follows no redirect.
    pub client: Client,
    /// The collector's URL, without `/v1/traces`.
    pub collector: Box<str>,
    /// The version of the program.
    pub version: Box<str>,
    /// The name of the node; empty: it has none.
    pub node: Box<str>,
    /// The node's clock.
    pub now: Box<dyn Fn() -> Instant + Send>,
}

/// The way of messages to spans, and of spans to the collector. When it is dropped, the spans that there are are sent once more.
pub struct Exporter {
    /// `None`: it is being dropped.
    queue: Option<SyncSender<Item>>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
    collector: Box<str>,
    node: Box<str>,
    /// Requests to applications that were begun.
    requests: AtomicU64,
    /// Parts of calls that were offered.
    parts: AtomicU64,
}

/// Spans of messages have small numbers, requests to applications those from 2³² on, and parts of calls those from here on.
const PART_NUMBERS: u64 = 1 << 48;

/// A part of a call that is over, as a verb of its application.
#[derive(Debug)]
pub struct PartSpan<'a> {
    /// The call.
    pub call_id: &'a [u8],
    /// `CallSid`; empty: none.
    pub sid: &'a str,
    /// The name of the span.
    pub name: &'static str,
    /// The begin.
    pub begin: Instant,
    /// The end.
    pub end: Instant,
    /// Facts about it.
    pub attributes: Attributes,
}

/// Something for the thread.
enum Item {
    Message(CallMessage),
    Stanza(Box<Stanza>),
    Span(Box<Span>),
}

/// A request of a call to its application.
#[derive(Debug)]
pub struct ApplicationRequest {
    span: Box<Span>,
    parent: Box<str>,
}

impl ApplicationRequest {
    /// The value of `traceparent` (W3C Trace Context §3.2).
    pub fn parent(&self) -> &str {
        &self.parent
    }
}

/// The state of the export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExporterStatus {
    /// The URL of the collector.
    pub collector: Box<str>,
    /// Spans that the collector has taken, since the start.
    pub sent: u64,
    /// Spans that were dropped, since the start: too many waited, or the collector refused them.
    pub dropped: u64,
    /// Messages, stanzas, requests, parts and calls that were not looked at, since the start, because there were too many.
    pub missed: u64,
    /// Requests to the collector that failed, since the start.
    pub failures: u64,
    /// The reason of the last failure, until spans are taken.
    pub failure: Option<Box<str>>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    /// Messages that found the queue full, and parts of calls beyond their bounds.
    unqueued: AtomicU64,
    /// Calls, requests and IQs without spans.
    missed: AtomicU64,
    failures: AtomicU64,
    failure: Mutex<Option<Box<str>>>,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread or runtime.
    pub fn start(settings: ExporterSettings) -> io::Result<Exporter> {
        let (queue, items) = sync_channel(limits::QUEUE);
        let counts = Arc::new(Counts::default());
        let (collector, node) = (settings.collector.clone(), settings.node.clone());
        let worker = Worker::new(settings, Arc::clone(&counts))?;
        let thread =
            std::thread::Builder::new().name("telemetry".into()).spawn(move || worker.run(&items))?;
        let (requests, parts) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Exporter { queue: Some(queue), thread: Some(thread), counts, collector, node, requests, parts })
    }

    /// Hands a message over. Never waits: one that finds the queue full is counted.
    pub fn offer(&self, message: CallMessage) {
        self.put(Item::Message(message));
    }

    /// Hands a stanza over, in the same way.
    pub fn offer_stanza(&self, stanza: Stanza) {
        self.put(Item::Stanza(Box::new(stanza)));
    }

    /// A request to an application begins. Its query may have what callers typed, and is not in the span.
    pub fn begin_request(&self, at: Instant, call_id: &[u8], method: &str, url: &str) -> ApplicationRequest {
        let trace = TraceId::of(call_id);
        // Far from the numbers that spans of messages have.
        let number = (1 << 32) + self.requests.fetch_add(1, Ordering::Relaxed);
        let id = SpanId::of(trace, &self.node, number);
        let url = url.split(['?', '#']).next().unwrap_or_default();
        let span = Span {
            trace,
            id,
            parent: Some(SpanId::of(trace, &self.node, 0)),
            name: method.into(),
            kind: SpanKind::Client,
            begin: at,
            end: at,
            attributes: vec![("url.full", AttributeValue::text(url.as_bytes()))],
            events: Vec::new(),
            is_error: false,
        };
        ApplicationRequest { span: Box::new(span), parent: format!("00-{trace}-{id}-01").into() }
    }

    /// The request has ended with this status; none: without an answer.
    pub fn end_request(&self, at: Instant, request: ApplicationRequest, status: Option<u16>) {
        let mut span = request.span;
        span.end = at;
        span.is_error = status.is_none_or(|status| status >= 400);
        let number = status.map(|status| AttributeValue::Number(status.into()));
        span.attributes.extend(number.map(|number| ("http.response.status_code", number)));
        self.put(Item::Span(span));
    }

    /// A part of a call is over: it becomes a span below the call.
    pub fn offer_part(&self, part: PartSpan<'_>) {
        let trace = TraceId::of(part.call_id);
        let number = PART_NUMBERS + self.parts.fetch_add(1, Ordering::Relaxed);
        let mut attributes = part.attributes;
        if !part.sid.is_empty() {
            attributes.push(("belfry.call_sid", AttributeValue::text(part.sid.as_bytes())));
        }
        self.put(Item::Span(Box::new(Span {
            trace,
            id: SpanId::of(trace, &self.node, number),
            parent: Some(SpanId::of(trace, &self.node, 0)),
            name: part.name.into(),
            kind: SpanKind::Internal,
            begin: part.begin,
            end: part.end.max(part.begin),
            attributes,
            events: Vec::new(),
            is_error: false,
        })));
    }

    /// So many parts of calls were not offered, because there were too many.
    pub fn miss(&self, count: u64) {
        self.counts.unqueued.fetch_add(count, Ordering::Relaxed);
    }

    fn put(&self, item: Item) {
        if self.queue.as_ref().is_none_or(|queue| queue.try_send(item).is_err()) {
            self.counts.unqueued.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The state now.
    pub fn status(&self) -> ExporterStatus {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        ExporterStatus {
            collector: self.collector.clone(),
            sent: read(&counts.sent),
            dropped: read(&counts.dropped),
            missed: read(&counts.unqueued) + read(&counts.missed),
            failures: read(&counts.failures),
            failure: counts.failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("collector", &self.collector).finish_non_exhaustive()
    }
}

/// The thread's part.
struct Worker {
    settings: ExporterSettings,
    counts: Arc<Counts>,
    runtime: Runtime,
    calls: CallSpans,
    stanzas: StanzaSpans,
    waiting: Vec<Span>,
    /// The next attempt, and the pause after another failure.
    next: Instant,
    pause: Duration,
}

/// A request that the collector did not take.
enum Fault {
    /// It may take it later (OTLP, "Retryable Response Codes").
    Away(String),
    /// It will never take it.
    Refused(String),
}

impl Worker {
    fn new(settings: ExporterSettings, counts: Arc<Counts>) -> io::Result<Worker> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (calls, stanzas) = (CallSpans::new(&settings.node), StanzaSpans::new(&settings.node));
        let (next, pause) = ((settings.now)(), limits::FIRST_PAUSE);
        Ok(Worker { settings, counts, runtime, calls, stanzas, waiting: Vec::new(), next, pause })
    }

    fn run(mut self, items: &Receiver<Item>) {
        loop {
            match items.recv_timeout(limits::INTERVAL) {
                Ok(item) => {
                    self.handle(item);
                    items.try_iter().take(limits::QUEUE).for_each(|item| self.handle(item));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = (self.settings.now)();
            self.calls.expire(now, &mut self.waiting);
            self.stanzas.expire(now, &mut self.waiting);
            let missed = self.calls.missed() + self.stanzas.missed();
            self.counts.missed.store(missed, Ordering::Relaxed);
            if now >= self.next {
                self.export();
            }
            self.bound();
        }
        self.calls.finish(&mut self.waiting);
        self.export();
    }

    fn handle(&mut self, item: Item) {
        match item {
            Item::Message(message) => self.calls.handle_message(&message, &mut self.waiting),
            Item::Stanza(stanza) => self.stanzas.handle_stanza(&stanza, &mut self.waiting),
            Item::Span(span) => self.waiting.push(*span),
        }
    }

    /// Sends the spans that wait, until a first failure.
    fn export(&mut self) {
        let mut pause = limits::INTERVAL;
        while !self.waiting.is_empty() {
            let count = self.waiting.len().min(limits::GROUP);
            let ExporterSettings { version, node, .. } = &self.settings;
            let body = request_body(&self.waiting[..count], version, node);
            match self.runtime.block_on(post(&self.settings, body)) {
                Ok(()) => {
                    self.counts.sent.fetch_add(count as u64, Ordering::Relaxed);
                    self.note(None);
                    self.pause = limits::FIRST_PAUSE;
                }
                Err(Fault::Refused(why)) => {
                    self.counts.dropped.fetch_add(count as u64, Ordering::Relaxed);
                    self.note(Some(why));
                }
                Err(Fault::Away(why)) => {
                    self.note(Some(why));
                    pause = self.pause;
                    self.pause = (self.pause * 2).min(limits::LONGEST_PAUSE);
                    break;
                }
            }
            self.waiting.drain(..count);
        }
        self.next = (self.settings.now)() + pause;
    }

    /// Notes a failure, or that there is none any more. The first of several is logged.
    fn note(&self, failure: Option<String>) {
        let failure: Option<Box<str>> = failure.map(Into::into);
        let mut last = self.counts.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &failure {
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            if last.is_none() {
                let collector = &*self.settings.collector;
                tracing::warn!(collector, why = &**why, "the collector of traces did not take spans");
            }
        }
        *last = failure;
    }

    /// Drops the oldest spans beyond the limit.
    fn bound(&mut self) {
        let beyond = self.waiting.len().saturating_sub(limits::WAITING);
        self.waiting.drain(..beyond);
        self.counts.dropped.fetch_add(beyond as u64, Ordering::Relaxed);
    }
}

async fn post(settings: &ExporterSettings, body: Vec<u8>) -> Result<(), Fault> {
    let url = format!("{}/v1/traces", settings.collector.trim_end_matches('/'));
    let post = settings.client.post(url).header(CONTENT_TYPE, "application/json").body(body);
    match post.timeout(limits::ANSWER_TIME).send().await.map(|response| response.status()) {
        Ok(status) if status.is_success() => Ok(()),
        Ok(
            status @ (StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT),
        ) => Err(Fault::Away(format!("the status is {status}"))),
        Ok(status) => Err(Fault::Refused(format!("the status is {status}"))),
        Err(error) => {
            let mut cause: &dyn std::error::Error = &error;
            while let Some(inner) = cause.source() {
                cause = inner;
            }
            Err(Fault::Away(cause.to_string()))
        }
    }
}
