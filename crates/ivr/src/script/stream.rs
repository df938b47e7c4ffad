//! Streams: the call's audio over a WebSocket.

use stdx::Instant;

use super::form::{of_call, pair, rfc_2822};
use super::{Effect, Flow, Id, MediaStream, Outbox, Script, State, StreamEvent};
use crate::document::{Severity, Stream, code};
use crate::request::{Target, resolve};

#[derive(Debug)]
pub(super) struct Running {
    id: Id,
    name: Option<String>,
    sid: Option<String>,
    status: Option<Target>,
}

impl Script {
    /// None when its URL is none.
    pub(super) fn start_stream(&mut self, stream: Stream, two_way: bool, out: &mut Outbox) -> Option<Id> {
        let Some(url) = resolve(None, &stream.url, &["ws", "wss"]) else {
            self.notify(Severity::Error, code::URL, format!("{} is no URL of a WebSocket", stream.url), out);
            return None;
        };
        let id = self.id();
        let Stream { name, track, parameters, status, .. } = stream;
        self.streams.push(Running { id, name: name.clone(), sid: None, status });
        out.push(Effect::StartStream {
            id,
            stream: Box::new(MediaStream { name, url, track, parameters, two_way }),
        });
        Some(id)
    }

    pub(super) fn connect_stream(
        &mut self,
        stream: Stream,
        action: Option<Target>,
        out: &mut Outbox,
    ) -> Flow {
        let Some(id) = self.start_stream(stream, true, out) else { return Flow::Next };
        self.state = State::Streaming { id, action };
        Flow::Wait
    }

    /// Those of this name, or all.
    pub(super) fn stop_streams(&mut self, now: Instant, name: Option<&str>, out: &mut Outbox) {
        let streams = std::mem::take(&mut self.streams);
        let (stopped, running) =
            streams.into_iter().partition(|stream| name.is_none() || stream.name.as_deref() == name);
        self.streams = running;
        for stream in stopped {
            out.push(Effect::StopStream { id: stream.id });
            self.tell_stream(now, &stream, "stream-stopped", None, out);
        }
    }

    pub(super) fn stop_stream(&mut self, now: Instant, id: Id, out: &mut Outbox) {
        if let Some(at) = self.streams.iter().position(|stream| stream.id == id) {
            let stream = self.streams.remove(at);
            out.push(Effect::StopStream { id });
            self.tell_stream(now, &stream, "stream-stopped", None, out);
        }
    }

    /// An event of a stream that this call has started.
    pub fn handle_stream(&mut self, now: Instant, id: Id, event: StreamEvent, out: &mut Outbox) {
        let Some(at) = self.streams.iter().position(|stream| stream.id == id) else { return };
        let over = match event {
            StreamEvent::Started { sid } => {
                self.streams[at].sid = Some(sid);
                self.tell_stream(now, &self.streams[at], "stream-started", None, out);
                return;
            }
            StreamEvent::Failed { reason } => {
                let stream = self.streams.remove(at);
                self.tell_stream(now, &stream, "stream-error", Some(&reason), out);
                self.notify(Severity::Error, code::STREAM, reason, out);
                stream
            }
            StreamEvent::Ended => {
                let stream = self.streams.remove(at);
                self.tell_stream(now, &stream, "stream-stopped", None, out);
                stream
            }
        };
        let State::Streaming { id: connected, action } = &self.state else { return };
        if *connected != id {
            return;
        }
        match action.clone() {
            Some(action) => {
                let form = over.sid.into_iter().map(|sid| pair("StreamSid", sid)).collect();
                self.go_to(now, &action, form, out);
            }
            None => self.advance(now, out),
        }
    }

    fn tell_stream(
        &self,
        now: Instant,
        stream: &Running,
        event: &str,
        error: Option<&str>,
        out: &mut Outbox,
    ) {
        let Some(target) = &stream.status else { return };
        let mut form = of_call(&self.call, self.status);
        form.push(pair("StreamEvent", event));
        form.extend(stream.sid.iter().map(|sid| pair("StreamSid", &**sid)));
        form.extend(stream.name.iter().map(|name| pair("StreamName", &**name)));
        form.extend(error.map(|error| pair("StreamError", error)));
        form.push(pair("Timestamp", rfc_2822(now)));
        self.tell(target, form, out);
    }
}
