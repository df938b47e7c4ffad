//! Start, Stop and Connect: the call's audio over a WebSocket.
//!
//! Streams of Start run beside the verbs until they are stopped or the call ends; the stream of Connect is a state of the script, too.

use stdx::Instant;

use super::call_context::CallContext;
use super::form::{pair, rfc_2822};
use super::{Effect, Id, MediaStream, ScriptOutbox, StreamEvent};
use crate::document::{Severity, Stream, code};
use crate::request::{Target, resolve};

/// The streams of a call that run. Those of Start outlive their verb, and their document.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// In the order of their starts, which is that of their ends.
    running: Vec<RunningStream>,
}

/// A stream from `Effect::StartStream` to its end.
#[derive(Debug)]
pub(super) struct RunningStream {
    /// The id of `Effect::StartStream`.
    id: Id,
    /// The `name`, by which Stop finds the stream.
    name: Option<String>,
    /// The sid of the stream, once connected.
    pub(super) sid: Option<String>,
    /// The `statusCallback`.
    status: Option<Target>,
}

impl Streams {
    /// Starts a stream. `None`, and a note, if its URL is not one of a WebSocket.
    pub(super) fn start(
        &mut self,
        call: &mut CallContext,
        stream: Stream,
        two_way: bool,
        out: &mut ScriptOutbox,
    ) -> Option<Id> {
        let Some(url) = resolve(None, &stream.url, &["ws", "wss"]) else {
            call.notify(Severity::Error, code::URL, format!("{} is no URL of a WebSocket", stream.url), out);
            return None;
        };
        let id = call.next_id();
        let Stream { name, track, parameters, status, .. } = stream;
        self.running.push(RunningStream { id, name: name.clone(), sid: None, status });
        out.push(Effect::StartStream {
            id,
            stream: Box::new(MediaStream { name, url, track, parameters, two_way }),
        });
        Some(id)
    }

    /// Stops the streams of this name, or all.
    pub(super) fn stop_named(
        &mut self,
        call: &CallContext,
        now: Instant,
        name: Option<&str>,
        out: &mut ScriptOutbox,
    ) {
        let streams = std::mem::take(&mut self.running);
        let (stopped, running) =
            streams.into_iter().partition(|stream| name.is_none() || stream.name.as_deref() == name);
        self.running = running;
        for stream in stopped {
            out.push(Effect::StopStream { id: stream.id });
            stream.tell_status(call, now, "stream-stopped", None, out);
        }
    }

    /// Stops one stream.
    pub(super) fn stop(&mut self, call: &CallContext, now: Instant, id: Id, out: &mut ScriptOutbox) {
        if let Some(at) = self.running.iter().position(|stream| stream.id == id) {
            let stream = self.running.remove(at);
            out.push(Effect::StopStream { id });
            stream.tell_status(call, now, "stream-stopped", None, out);
        }
    }

    /// An event of a stream; the stream, if it has ended. Events of a stream that was stopped are ignored.
    pub(super) fn handle_event(
        &mut self,
        call: &CallContext,
        now: Instant,
        id: Id,
        event: StreamEvent,
        out: &mut ScriptOutbox,
    ) -> Option<RunningStream> {
        let at = self.running.iter().position(|stream| stream.id == id)?;
        match event {
            StreamEvent::Started { sid } => {
                let stream = &mut self.running[at];
                stream.sid = Some(sid);
                stream.tell_status(call, now, "stream-started", None, out);
                None
            }
            StreamEvent::Failed { reason } => {
                let stream = self.running.remove(at);
                stream.tell_status(call, now, "stream-error", Some(&reason), out);
                call.notify(Severity::Error, code::STREAM, reason, out);
                Some(stream)
            }
            StreamEvent::Ended => {
                let stream = self.running.remove(at);
                stream.tell_status(call, now, "stream-stopped", None, out);
                Some(stream)
            }
        }
    }
}

impl RunningStream {
    /// The request of `statusCallback`.
    fn tell_status(
        &self,
        call: &CallContext,
        now: Instant,
        event: &str,
        error: Option<&str>,
        out: &mut ScriptOutbox,
    ) {
        let Some(target) = &self.status else { return };
        let mut form = call.form();
        form.push(pair("StreamEvent", event));
        form.extend(self.sid.iter().map(|sid| pair("StreamSid", &**sid)));
        form.extend(self.name.iter().map(|name| pair("StreamName", &**name)));
        form.extend(error.map(|error| pair("StreamError", error)));
        form.push(pair("Timestamp", rfc_2822(now)));
        call.tell(target, form, out);
    }
}
