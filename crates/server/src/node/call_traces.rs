//! The export of traces of calls (`[telemetry]`): messages of sampled calls come from the sockets of the shards, those of traced accounts with
//! the traces that commands and the console have begun.

use std::net::SocketAddr;
use std::sync::Arc;

use ::voice::{CallPart, CallPartKind, CallTrace, MediaFigures};
use anyhow::{Context as _, Result};
use config::Config;
use control::{ChatTrace, TelemetryStatus};
use net::MessageTap;
use net::clock::Clock;
use sip::endpoint::{TraceEvent, Traced};
use telemetry::{
    ApplicationRequest, AttributeValue, CallMessage, Exporter, ExporterSettings, PartSpan, Stanza,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use voice_io::helpers::{RequestTrace, TracedRequest};
use xmpp::c2s::Direction;

/// The export, or nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallTraces(Option<CallTap>);

/// Takes the messages of sampled calls.
#[derive(Clone, Debug)]
struct CallTap {
    exporter: Arc<Exporter>,
    /// Calls in a hundred.
    percent: u32,
    clock: Clock,
}

impl CallTraces {
    /// Starts the export, where a collector is configured.
    ///
    /// # Errors
    /// No authorities for a collector with TLS, or no thread.
    pub(super) fn start(config: &Config, clock: Clock) -> Result<CallTraces> {
        let Some(collector) = &config.telemetry.otlp else { return Ok(CallTraces::default()) };
        let settings = ExporterSettings {
            client: external_auth::http_client(None).context("[telemetry] otlp")?,
            collector: collector.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            node: config.farm.node.clone().unwrap_or_default(),
            now: Box::new(move || clock.now()),
        };
        let exporter = Arc::new(Exporter::start(settings).context("[telemetry] otlp")?);
        Ok(CallTraces(Some(CallTap { exporter, percent: config.telemetry.percent, clock })))
    }

    /// The place of the sockets for messages. `None`: no calls are sampled.
    pub(super) fn tap(&self) -> Option<Arc<dyn MessageTap>> {
        let tap = self.0.as_ref().filter(|tap| tap.percent > 0)?;
        Some(Arc::new(tap.clone()))
    }

    /// Notes requests to applications. `None`: no calls are sampled.
    pub(super) fn requests(&self) -> Option<Arc<dyn RequestTrace>> {
        let tap = self.0.as_ref().filter(|tap| tap.percent > 0)?;
        Some(Arc::new(tap.clone()))
    }

    /// Notes verbs and media of calls. `None`: no calls are sampled.
    pub(super) fn parts(&self) -> Option<Arc<dyn CallTrace>> {
        let tap = self.0.as_ref().filter(|tap| tap.percent > 0)?;
        Some(Arc::new(tap.clone()))
    }

    /// Takes the messages and stanzas of traced accounts from now on, until the node ends.
    pub(super) async fn follow(
        self,
        mut events: Receiver<Arc<TraceEvent>>,
        mut chat: Receiver<Arc<ChatTrace>>,
    ) {
        let Some(tap) = self.0 else { return };
        loop {
            let closed = tokio::select! {
                event = events.recv() => event.map(|event| tap.traced(&event)),
                trace = chat.recv() => trace.map(|trace| tap.traced_stanza(&trace)),
            };
            match closed {
                // Too many at once: spans of those that were missed have no end.
                Ok(()) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// The state of the export.
    pub(super) fn status(&self) -> Option<TelemetryStatus> {
        let status = self.0.as_ref()?.exporter.status();
        Some(TelemetryStatus {
            collector: status.collector,
            sent: status.sent,
            dropped: status.dropped,
            missed: status.missed,
            failures: status.failures,
            failure: status.failure,
        })
    }
}

impl CallTap {
    fn is_sampled(&self, message: &[u8]) -> bool {
        let call_id = sip::wire::raw_call_id(message);
        call_id.is_some_and(|call_id| hep::is_sampled(call_id, self.percent))
    }

    fn offer(&self, is_received: bool, peer: SocketAddr, message: &[u8]) {
        let (at, head) = (self.clock.now(), CallMessage::head_of(message));
        self.exporter.offer(CallMessage { at, is_received, peer, head });
    }

    fn traced(&self, event: &TraceEvent) {
        // A sampled call is here already.
        if event.traced == Traced::Message && !(self.percent > 0 && self.is_sampled(&event.bytes)) {
            let peer = if event.is_received { event.from } else { event.to };
            self.offer(event.is_received, peer, &event.bytes);
        }
    }

    fn traced_stanza(&self, trace: &ChatTrace) {
        let is_received = trace.direction == Direction::In;
        let stanza = Stanza::of(self.clock.now(), is_received, &trace.session, &trace.label, &trace.xml);
        if let Some(stanza) = stanza {
            self.exporter.offer_stanza(stanza);
        }
    }
}

impl MessageTap for CallTap {
    fn received(&self, source: SocketAddr, message: &[u8]) {
        if self.is_sampled(message) {
            self.offer(true, source, message);
        }
    }

    fn sent(&self, destination: SocketAddr, message: &[u8]) {
        if self.is_sampled(message) {
            self.offer(false, destination, message);
        }
    }
}

/// A request to an application that is under way.
struct OpenRequest {
    tap: CallTap,
    request: ApplicationRequest,
}

impl RequestTrace for CallTap {
    fn begin(&self, call_id: &str, method: &'static str, url: &str) -> Option<Box<dyn TracedRequest>> {
        if !hep::is_sampled(call_id.as_bytes(), self.percent) {
            return None;
        }
        let request = self.exporter.begin_request(self.clock.now(), call_id.as_bytes(), method, url);
        Some(Box::new(OpenRequest { tap: self.clone(), request }))
    }
}

impl CallTrace for CallTap {
    fn is_traced(&self, call_id: &str) -> bool {
        hep::is_sampled(call_id.as_bytes(), self.percent)
    }

    fn part_ended(&self, part: CallPart<'_>) {
        let CallPart { call_id, sid, begin, end, kind } = part;
        let (name, attributes) = match kind {
            CallPartKind::Verb(name) => (name, Vec::new()),
            CallPartKind::Media(figures) => ("media", media_attributes(&figures)),
        };
        self.exporter.offer_part(PartSpan { call_id: call_id.as_bytes(), sid, name, begin, end, attributes });
    }

    fn parts_missed(&self, count: u64) {
        self.exporter.miss(count);
    }
}

/// Counts and times of a leg's media, as attributes.
fn media_attributes(figures: &MediaFigures) -> Vec<(&'static str, AttributeValue)> {
    let number = |number: u64| AttributeValue::Number(i64::try_from(number).unwrap_or(i64::MAX));
    let received = &figures.received;
    vec![
        ("media.codec", AttributeValue::Text(figures.codec.name().into())),
        ("media.packets_received", number(received.packets)),
        ("media.packets_lost", number(received.lost)),
        ("media.packets_reordered", number(received.reordered)),
        ("media.jitter_us", number(received.jitter_us)),
        ("media.jitter_max_us", number(received.max_jitter_us)),
        ("media.packets_sent", number(figures.packets_sent.into())),
        // Hundredths: the mean opinion score from 100 to 450; 0 when nothing was received.
        ("media.mos_hundredths", AttributeValue::Number((received.mos * 100.0).round() as i64)),
    ]
}

impl TracedRequest for OpenRequest {
    fn parent(&self) -> &str {
        self.request.parent()
    }

    fn end(self: Box<Self>, status: Option<u16>) {
        let OpenRequest { tap, request } = *self;
        tap.exporter.end_request(tap.clock.now(), request, status);
    }
}
