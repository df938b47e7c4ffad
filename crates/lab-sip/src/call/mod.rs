//! One call: a position in a scenario and what it remembers. No socket, no clock: messages and time come in,
//! effects go out. The engine performs them.
//!
//! Contract of the loop: every entry point ([`Call::start`], `handle_*`) runs the scenario as far as it goes and
//! leaves in [`Call::deadline`] the one time it wants to be woken. Late wake-ups are ignored.

pub mod actions;
mod flow;
pub mod message;
pub mod render;
mod state;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use stdx::rng::Rng;
use stdx::time::Instant;

use crate::inject::InjectionFiles;
use crate::options::{Options, Protocol};
use crate::scenario::Scenario;
use crate::stats::{Count, Stats};
use crate::trace::Tracer;
use message::Incoming;

pub use state::{Call, CallIdentity, Challenge, RouteSet, ServerTransaction, Transaction, VariableValue};

/// The values that all calls of one shard share. Immutable while calls run, except those behind locks of their own.
pub struct CallEnv {
    /// The options of the run.
    pub options: Arc<Options>,
    /// The scenario of these calls.
    pub scenario: Arc<Scenario>,
    /// Templates with everything that never changes already filled in.
    pub prepared: render::PreparedMessages,
    /// The injection files (`-inf`, or `-rxinf` for the `-rxsf` scenario).
    pub files: Arc<InjectionFiles>,
    /// Global variables, one for the whole process (SIPp's `<Global>`).
    pub globals: Arc<parking_lot::RwLock<Vec<VariableValue>>>,
    /// The sender to the writer of the trace files.
    pub tracer: Tracer,
    /// `[pid]`: the process id, also in the names of trace files.
    pub pid: u32,
    /// `[clock_tick]` counts milliseconds from here.
    pub started: Instant,
    /// The role of this scenario in the run: it selects the counters of its steps.
    pub which: ScenarioRole,
}

/// The role of a scenario in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScenarioRole {
    /// `-sf` or `-sn`.
    Main,
    /// `-rxsf`: calls that arrive at a client.
    Receive,
    /// `-oocsf`, `-oocsn`: messages of no call, such as a NOTIFY.
    OutOfCall,
}

/// Everything an entry point may use and write to.
pub struct CallContext<'a> {
    /// The time of this entry point; a call has no other clock.
    pub now: Instant,
    /// When the message in hand came, as the kernel stamped it; without one it is `now`. Response times stop here.
    pub received: Instant,
    /// The values that all calls of the scenario share.
    pub env: &'a CallEnv,
    /// The counters of the shard's current interval.
    pub stats: &'a mut Stats,
    /// The buffer for the call's effects.
    pub out: &'a mut CallOutbox,
    /// The media of the shard's calls.
    pub media: &'a mut dyn CallMediaControl,
    /// The shard's random numbers: seeded, so that a test repeats.
    pub rng: &'a mut Rng,
    /// Variables of the call's user, when `-users` is on.
    pub user: Option<&'a mut Vec<VariableValue>>,
    /// Calls open now and users, for `[users]`.
    pub users: u32,
}

/// Effects of one entry point, and the bytes they refer to. Reused from turn to turn.
#[derive(Debug, Default)]
pub struct CallOutbox {
    /// Messages and commands, one behind the other.
    pub bytes: Vec<u8>,
    /// Effects in the order in which they are to be performed.
    pub effects: Vec<CallEffect>,
}

/// An effect of a call, which the engine performs.
#[derive(Debug)]
pub enum CallEffect {
    /// `outbox.bytes[start..end]` goes to the call's peer.
    Send {
        /// The first byte in `outbox.bytes`.
        start: usize,
        /// The byte after the last.
        end: usize,
        /// The destination.
        to: SendTo,
        /// How long it may wait for its connection; `None`: for ever.
        patience: Option<Duration>,
    },
    /// 3PCC: `outbox.bytes[start..end]` to the twin (`None`) or to the named peer.
    Command {
        /// The first byte in `outbox.bytes`.
        start: usize,
        /// The byte after the last.
        end: usize,
        /// The name of the peer in `-slave_cfg`.
        peer: Option<String>,
    },
    /// `<setdest>`: later messages go there; a connection is made if the protocol has them.
    SetDestination {
        /// The address that `host` and `port` resolved to.
        address: SocketAddr,
        /// The transport protocol: always that of the run, for another one stops the run.
        protocol: Protocol,
    },
    /// `<closecon/>`: the connection of the call is closed.
    CloseConnection,
    /// `<exec command>`: run by a shell, not waited for.
    Shell(String),
    /// `<exec verify>`: run by a shell; its end goes to [`Call::handle_command_end`].
    Verify(String),
    /// `int_cmd` and `-timeout` like ends of the run.
    StopGracefully,
    /// `int_cmd="stop_now"`: open calls are abandoned.
    StopNow,
    /// The call is over. With `linger` it stays (no longer counted open) to answer retransmissions.
    Ended {
        /// Success, or the failure that the call counted.
        outcome: CallOutcome,
    },
}

/// The destination of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendTo {
    /// The call's flow: the target of a client, where the first request came from for a server.
    Flow,
    /// The source of the message that is being answered.
    Source(SocketAddr),
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The last step of the scenario was done.
    Success,
    /// Why; already counted by the call.
    Failure(Count),
}

/// A fault that the transport reports to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportFault {
    /// The connection could not be made.
    ConnectFailed,
    /// The peer, or a fault, closed the connection.
    Closed,
    /// The same where the call goes on over a new connection (`-reconnect_close false`).
    ConnectionLost,
    /// The socket refused the message.
    CannotSend,
    /// The connection's queue is full: the peer reads too slowly.
    Congestion,
    /// A message waited longer for its connection than it was told to.
    SendTimeout,
    /// 3PCC: the other instance cannot be reached.
    CommandNotSent,
}

/// The media of a call, as far as the scenario speaks to it. Implemented by `crate::rtp`; tests have a scripted one.
pub trait CallMediaControl {
    /// The port of `[media_port]` and its kin for this call, offset included; opened at first use.
    fn port(&mut self, call: u64, which: crate::rtp::PortKind, offset: i32) -> Result<u16, String>;
    /// False: no scenario of this run sends or measures media, so SDP is not parsed.
    fn listens(&self) -> bool {
        true
    }
    /// SDP received: where the other side wants its media.
    fn remote(&mut self, call: u64, description: &crate::rtp::RemoteMedia);
    /// One `<exec>` of media. The text is rendered already.
    fn command(&mut self, now: Instant, call: u64, command: &crate::rtp::MediaCommand) -> Result<(), String>;
    /// The end of all that `rtp_stream` plays for the call; `FAR_FUTURE` for what has no end. `None`: nothing is played.
    fn streams_end(&self, _call: u64) -> Option<Instant> {
        None
    }
    /// `<rtpcheck>`: `Err` says what was missed.
    fn check(&mut self, now: Instant, call: u64, wanted: &crate::rtp::Requirement) -> Result<(), String>;
    /// `<rtp_stats>`: what the call has received so far.
    fn received(&mut self, _call: u64, _video: bool) -> crate::rtp::ReceivedMedia {
        crate::rtp::ReceivedMedia::default()
    }
    /// `<rtp_dtmf>`: the digits received as events of this payload type.
    fn event_digits(&mut self, _call: u64, _payload_type: u8) -> String {
        String::new()
    }
    /// The scenario is through: `Err` says where a pattern that was sent did not come back as well as `-audiotolerance`
    /// and `-videotolerance` want it. Every medium that was compared leaves a line in `report`.
    fn verdict(&mut self, _call: u64, _report: &mut Vec<String>) -> Result<(), String> {
        Ok(())
    }
    /// `[cryptotag1audio]` and its kin.
    fn crypto(&mut self, call: u64, keyword: &str) -> Result<String, String>;
    /// The call is over: streams stop, what was received is counted.
    fn close(&mut self, now: Instant, call: u64, stats: &mut Stats);
}

impl Call {
    /// Starts an outgoing call, or an incoming one whose first message follows by [`Call::handle_message`].
    pub fn start(ctx: &mut CallContext<'_>, identity: CallIdentity) -> Call {
        flow::start(ctx, identity)
    }

    /// A message for this call. `Incoming` borrows the datagram.
    pub fn handle_message(&mut self, ctx: &mut CallContext<'_>, message: &Incoming<'_>, from: SocketAddr) {
        flow::handle_message(self, ctx, message, from);
    }

    /// A 3PCC command for this call; the bytes are the command's, `Call-ID` line included.
    pub fn handle_command(&mut self, ctx: &mut CallContext<'_>, bytes: &[u8], peer: Option<&str>) {
        flow::handle_command(self, ctx, bytes, peer);
    }

    /// Over, and nothing that comes would be answered: of such a call its Call-ID is all that matters.
    pub fn is_mute(&self) -> bool {
        flow::is_mute(self)
    }

    /// The wake-up that the call asked for is due.
    pub fn handle_wake(&mut self, ctx: &mut CallContext<'_>) {
        flow::handle_wake(self, ctx);
    }

    /// The transport reports a fault.
    pub fn handle_fault(&mut self, ctx: &mut CallContext<'_>, fault: TransportFault) {
        flow::handle_fault(self, ctx, fault);
    }

    /// A command of `<exec verify>` has ended; `Err` says how, if not with exit code 0.
    pub fn handle_command_end(&mut self, ctx: &mut CallContext<'_>, verdict: Result<(), &str>) {
        flow::handle_command_end(self, ctx, verdict);
    }

    /// Ends the call from outside (hard stop), with the BYE or CANCEL that `-default_behaviors` asks for.
    pub fn abort(&mut self, ctx: &mut CallContext<'_>, why: Count) {
        flow::abort(self, ctx, why);
    }

    /// Ends the dialog as [`Call::abort`] does and counts nothing: the run ends where it stands.
    pub fn abandon(&mut self, ctx: &mut CallContext<'_>) {
        flow::abandon(self, ctx);
    }
}

/// True if the message can be the first of a call that the scenario answers; what is unexpected begins none.
pub fn can_begin(scenario: &Scenario, message: &Incoming<'_>) -> bool {
    flow::can_begin(scenario, message)
}

/// Runs `<init>` once.
pub fn run_init(ctx: &mut CallContext<'_>) -> Result<(), String> {
    flow::run_init(ctx)
}
