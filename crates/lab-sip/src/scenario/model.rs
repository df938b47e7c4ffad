//! A compiled scenario: typed steps, templates cut at their keywords, names resolved to slots.
//! Nothing here is text to be searched again while calls run.

use std::path::PathBuf;
use std::time::Duration;

use super::action::Action;
use super::template::Template;

/// Index of a step in [`Scenario::steps`].
pub type StepIndex = usize;

/// One `<scenario>`, whole.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The `name` attribute, for screens and reports.
    pub name: String,
    pub source: ScenarioSource,
    /// The role, from the first step that is a message: `send` a client, `recv` a server.
    pub role: Role,
    pub steps: Vec<ScenarioStep>,
    /// Steps of `<init>`, run once before the first call.
    pub init: Vec<ScenarioStep>,
    /// `<label id>`: name to the step it stands before (may equal `steps.len()`).
    pub labels: Vec<(String, StepIndex)>,
    pub variables: Variables,
    /// Names of `start_txn`; [`ScenarioStep`]s refer to them by index.
    pub transactions: Vec<String>,
    /// Names of response-time counters in order of appearance; `"true"` is the name `1`.
    pub rtds: Vec<String>,
    /// `<ResponseTimeRepartition value>` in milliseconds. As in SIPp one table serves every counter.
    pub response_times: Vec<u32>,
    /// `<CallLengthRepartition value>` in milliseconds.
    pub call_lengths: Vec<u32>,
    /// Names of `counter="…"` in order of appearance.
    pub counters: Vec<String>,
    /// `<DefaultMessage id>` overrides.
    pub defaults: DefaultMessages,
    /// The parts of messages that a call must keep; other parts are not stored.
    pub needs: Needs,
    /// The scenario's text, for reports.
    pub text: String,
}

/// The source of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScenarioSource {
    File(PathBuf),
    BuiltIn(&'static str),
}

/// The role of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
    /// First command is `sendCmd` or `recvCmd` after it sends or receives: 3PCC controllers and their peers.
    ControllerA,
    ControllerB,
}

/// Features that the compiler found used somewhere in the scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// `[last_…]`, `ereg`, `auth`, …: the last received message is kept by each call.
    pub last_message: bool,
    /// `play_pcap_*`, `rtp_stream`, `rtp_echo`, `[media_port]` in SDP, measured media.
    pub media: bool,
    /// `rrs="true"`: Record-Route and Contact are kept.
    pub routes: bool,
    /// `[authentication]`: the challenge is kept.
    pub challenge: bool,
}

/// Names to slots, by scope.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    pub call: Vec<String>,
    pub user: Vec<String>,
    pub global: Vec<String>,
}

/// The scope of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    Call,
    User,
    Global,
}

/// A variable, by scope and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VarRef {
    pub scope: Scope,
    pub slot: u16,
}

/// Replacements for the messages SIPp sends on its own account.
#[derive(Debug, Clone, Default)]
pub struct DefaultMessages {
    pub three_pcc_abort: Option<Template>,
    pub ack: Option<Template>,
    pub ack2: Option<Template>,
    pub bye: Option<Template>,
    pub cancel: Option<Template>,
    pub ok: Option<Template>,
}

/// One command of the scenario.
#[derive(Debug, Clone)]
pub struct ScenarioStep {
    /// Line of its start tag, counted from 1.
    pub line: u32,
    pub kind: StepKind,
    pub flow: StepFlow,
    pub timing: Timing,
    pub screen: ScreenHints,
    pub actions: Vec<Action>,
}

/// The kind of a step, with its arguments.
#[derive(Debug, Clone)]
pub enum StepKind {
    Send(SendStep),
    Recv(RecvStep),
    Pause(Pause),
    /// Ends the scenario; the call stays `Duration` longer to answer retransmissions.
    TimeWait(Duration),
    Nop,
    SendCmd {
        message: Template,
        dest: Option<String>,
    },
    RecvCmd {
        src: Option<String>,
        optional: bool,
    },
}

/// `<send>`.
#[derive(Debug, Clone)]
pub struct SendStep {
    pub message: Template,
    pub what: SentKind,
    /// `retrans`: T1 over UDP. `None`: not retransmitted.
    pub retrans: Option<Duration>,
    /// `timeout`: how long it may wait to be sent; `None` means `-send_timeout`.
    pub timeout: Option<Duration>,
    /// `start_txn`: this request opens the named transaction.
    pub start_txn: Option<u16>,
    /// `ack_txn`: this ACK belongs to the named transaction's INVITE.
    pub ack_txn: Option<u16>,
}

/// The first token of the message: a literal, as SIPp demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentKind {
    Request(Box<str>),
    Response(u16),
}

/// `<recv>`.
#[derive(Debug, Clone)]
pub struct RecvStep {
    pub expect: Expect,
    pub optional: Optional,
    /// `timeout`; `None` means `-recv_timeout`.
    pub timeout: Option<Duration>,
    /// `rrs`: keep the route set and the remote target of this message.
    pub rrs: bool,
    /// `auth`: keep the challenge of this message.
    pub auth: bool,
    /// `response_txn`: only answers to the named transaction.
    pub response_txn: Option<u16>,
    /// `advance_state="false"`: an optional one that leaves the position as it is.
    pub advance_state: bool,
    /// `ignoresdp`.
    pub ignore_sdp: bool,
}

/// The message that a step expects.
#[derive(Debug, Clone)]
pub enum Expect {
    Request(Box<str>),
    Response(u16),
    /// `regexp_match="true"` on a request method or (3.7.5) a response code.
    RequestPattern(crate::regex::Regex),
    ResponsePattern(crate::regex::Regex),
}

/// The `optional` attribute of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optional {
    No,
    Yes,
    /// Matches from any later position too.
    Global,
}

/// `<pause>`.
#[derive(Debug, Clone, PartialEq)]
pub enum Pause {
    /// No attribute: `-d`.
    Default,
    For(Distribution),
    /// Milliseconds held by a variable.
    Variable(VarRef),
}

/// In the unit of its user: milliseconds for `<pause>`, plain numbers for `<sample>`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    Fixed(f64),
    Uniform { min: f64, max: f64 },
    Normal { mean: f64, stdev: f64 },
    LogNormal { mean: f64, stdev: f64 },
    Exponential { mean: f64 },
    Weibull { lambda: f64, k: f64 },
    Pareto { k: f64, x_m: f64 },
    GeneralisedPareto { shape: f64, scale: f64, location: f64 },
    Gamma { k: f64, theta: f64 },
    NegativeBinomial { p: f64, n: f64 },
}

/// The next step of the call.
#[derive(Debug, Clone, Default)]
pub struct StepFlow {
    /// `next`: a label's step, taken after the step (for an optional `recv`, only when it matched).
    pub next: Option<StepIndex>,
    /// `test`: `next` is taken only when this variable is set (a `check_it` result: true).
    pub test: Option<VarRef>,
    /// `chance`: the probability, 0 to 1, that `next` is taken.
    pub chance: Option<f64>,
    /// `ontimeout`.
    pub on_timeout: Option<StepIndex>,
    /// `condexec`: the step runs only when the variable is set; with `condexec_inverse`, only when it is not.
    pub condition: Option<(VarRef, ConditionSense)>,
    /// `lost`: probability, 0 to 1, that the message is dropped on purpose; `None` means `-lost`.
    pub lost: Option<f64>,
}

/// The sense in which a condition is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionSense {
    Set,
    NotSet,
}

/// Response-time counters (indexes into [`Scenario::rtds`]) and user counters.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    pub start: Vec<u16>,
    pub stop: Vec<u16>,
    /// `repeat_rtd`: the counter may stop more than once a call.
    pub repeat: bool,
    /// `counter`: index into [`Scenario::counters`].
    pub counter: Option<u16>,
}

/// The texts of a step in SIPp's scenario screen.
#[derive(Debug, Clone, Default)]
pub struct ScreenHints {
    /// `crlf`: a blank line after it.
    pub crlf: bool,
    pub hide: bool,
    pub display: Option<String>,
}

impl Scenario {
    /// The step at a label.
    pub fn label(&self, name: &str) -> Option<StepIndex> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, step)| *step)
    }

    /// Whether calls of this scenario are started by us.
    pub fn starts_calls(&self) -> bool {
        matches!(self.role, Role::Client | Role::ControllerA)
    }
}

impl ScenarioSource {
    /// The stem SIPp builds its file names from: `uac` of `./uac.xml`, and the built-in's name.
    pub fn stem(&self) -> String {
        match self {
            ScenarioSource::File(path) => path
                .file_stem()
                .map_or_else(|| "scenario".to_owned(), |stem| stem.to_string_lossy().into_owned()),
            ScenarioSource::BuiltIn(name) => (*name).to_owned(),
        }
    }
}
