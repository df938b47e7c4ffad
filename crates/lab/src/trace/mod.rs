//! SIPp's trace files. Shards hand lines to one writer thread over a bounded queue; what a trace does not want costs one branch.

use stdx::time::Instant;

use crate::options::Transport;

/// A shard's end of it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tracer {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Sent,
    Received,
}

impl Tracer {
    /// `-trace_msg` or `-trace_shortmsg` is on: the engine calls [`Tracer::message`] for every message.
    pub fn wants_messages(&self) -> bool {
        false
    }

    pub fn message(
        &self,
        _at: Instant,
        _direction: Direction,
        _transport: Transport,
        _call_id: &[u8],
        _bytes: &[u8],
    ) {
    }

    /// `-trace_err`; also the last error of the live view.
    pub fn error(&self, _at: Instant, _text: &str) {}

    /// `<log>`, `-trace_logs`.
    pub fn log(&self, _at: Instant, _text: &[u8]) {}

    /// `-trace_calldebug`: collected per call, written when it fails.
    pub fn wants_call_debug(&self) -> bool {
        false
    }

    pub fn call_debug(&self, _at: Instant, _call_id: &[u8], _text: &str) {}

    /// `-trace_rtt`.
    pub fn wants_response_times(&self) -> bool {
        false
    }

    pub fn response_time(&self, _at: Instant, _micros: u64, _rtd: u16) {}

    /// `-trace_error_codes`.
    pub fn error_code(&self, _at: Instant, _code: u16) {}
}
