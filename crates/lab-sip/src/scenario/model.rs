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
    /// The file, or the built-in, that it was read from.
    pub source: ScenarioSource,
    /// The role, from the first step that is a message: `send` a client, `recv` a server.
    pub role: Role,
    /// The steps in the order of the file; a [`StepIndex`] counts them from 0.
    pub steps: Vec<ScenarioStep>,
    /// Steps of `<init>`, run once before the first call.
    pub init: Vec<ScenarioStep>,
    /// `<label id>`: name to the step it stands before (may equal `steps.len()`).
    pub labels: Vec<(String, StepIndex)>,
    /// The variables, by name.
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
    /// The path of `-sf`.
    File(PathBuf),
    /// The name of `-sn`.
    BuiltIn(&'static str),
}

/// The role of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The first message is sent: the scenario starts calls.
    Client,
    /// The first message is received: calls are started by the peer.
    Server,
    /// First command is `sendCmd` or `recvCmd` after it sends or receives: 3PCC controllers and their peers.
    ControllerA,
    /// The first command is received: the instance that answers [`Role::ControllerA`].
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
    /// One value for each call.
    pub call: Vec<String>,
    /// One value for each user (`<User>`, with `-users`).
    pub user: Vec<String>,
    /// One value for the process (`<Global>`).
    pub global: Vec<String>,
}

/// The scope of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// For one call.
    Call,
    /// For one user, over all calls of that user.
    User,
    /// For all calls of the process.
    Global,
}

/// A variable, by scope and slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VarRef {
    /// The scope, which selects one of [`Variables`]' lists.
    pub scope: Scope,
    /// The position in that list, from 0.
    pub slot: u16,
}

/// Replacements for the messages SIPp sends on its own account.
#[derive(Debug, Clone, Default)]
pub struct DefaultMessages {
    /// `3pcc_abort`: to the other instance when a call is aborted.
    pub three_pcc_abort: Option<Template>,
    /// `ack`: for a final response other than 2xx.
    pub ack: Option<Template>,
    /// `ack2`: for a 2xx.
    pub ack2: Option<Template>,
    /// `bye`: ends the dialog of an aborted call.
    pub bye: Option<Template>,
    /// `cancel`: ends the early dialog of an aborted call.
    pub cancel: Option<Template>,
    /// `200`: answers an unexpected request.
    pub ok: Option<Template>,
}

/// One command of the scenario.
#[derive(Debug, Clone)]
pub struct ScenarioStep {
    /// Line of its start tag, counted from 1.
    pub line: u32,
    /// The command, by the element's name.
    pub kind: StepKind,
    /// The step after this one, and the conditions for it.
    pub flow: StepFlow,
    /// `start_rtd`, `rtd`, `counter`.
    pub timing: Timing,
    /// The texts on the screen.
    pub screen: ScreenHints,
    /// `<action>`, in order.
    pub actions: Vec<Action>,
}

/// The kind of a step, with its arguments.
#[derive(Debug, Clone)]
pub enum StepKind {
    /// `<send>`.
    Send(SendStep),
    /// `<recv>`.
    Recv(RecvStep),
    /// `<pause>`.
    Pause(Pause),
    /// Ends the scenario; the call stays `Duration` longer to answer retransmissions.
    TimeWait(Duration),
    /// `<nop>`: only its actions.
    Nop,
    /// `<sendCmd>`: a 3PCC command.
    SendCmd {
        /// The text of the command.
        message: Template,
        /// `dest`: a name in `-slave_cfg`; `None`: the twin.
        dest: Option<String>,
    },
    /// `src`: the name of the sender; `None`: any.
    RecvCmd {
        /// `<recvCmd>`: a 3PCC command.
        src: Option<String>,
        /// `optional="true"`.
        optional: bool,
    },
}

/// `<send>`.
#[derive(Debug, Clone)]
pub struct SendStep {
    /// The CDATA, trimmed as SIPp does.
    pub message: Template,
    /// Method or status: it decides about retransmission.
    pub what: SentKind,
    /// `retrans`: T1 over UDP. `None`: not retransmitted.
    pub retrans: Option<Duration>,
    /// `timeout`: how long it may wait to be sent; `None` means `-send_timeout`.
    pub timeout: Option<Duration>,
    /// `start_txn`: this request opens the named transaction.
    pub start_txn: Option<u16>,
    /// `ack_txn`: this ACK belongs to the named transaction's INVITE.
    pub ack_txn: Option<u16>,
    /// `response_txn`: this response answers the request that the named transaction kept.
    pub response_txn: Option<u16>,
}

/// The first token of the message: a literal, as SIPp demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentKind {
    /// The method.
    Request(Box<str>),
    /// The status code.
    Response(u16),
}

/// `<recv>`.
#[derive(Debug, Clone)]
pub struct RecvStep {
    /// `request` or `response`.
    pub expect: Expect,
    /// `optional`.
    pub optional: Optional,
    /// `timeout`; `None` means `-recv_timeout`.
    pub timeout: Option<Duration>,
    /// `timeout_variable`: milliseconds, read at each pass.
    pub timeout_variable: Option<VarRef>,
    /// `start_txn`: the named transaction keeps this request.
    pub start_txn: Option<u16>,
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
    /// `request`: the method.
    Request(Box<str>),
    /// `response`: the status code.
    Response(u16),
    /// `regexp_match="true"` on a request method or (3.7.5) a response code.
    RequestPattern(crate::regex::Regex),
    /// `response` with `regexp_match="true"`.
    ResponsePattern(crate::regex::Regex),
}

/// The `optional` attribute of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optional {
    /// The message must come.
    No,
    /// `optional="true"`: the step is passed over when a later message comes.
    Yes,
    /// Matches from any later position too.
    Global,
}

/// `<pause>`.
#[derive(Debug, Clone, PartialEq)]
pub enum Pause {
    /// No attribute: `-d`.
    Default,
    /// `milliseconds` or `distribution`.
    For(Distribution),
    /// Milliseconds held by a variable.
    Variable(VarRef),
}

/// In the unit of its user: milliseconds for `<pause>`, plain numbers for `<sample>`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// `fixed`: always this value.
    Fixed(f64),
    /// `uniform`: every value from `min` to `max` alike.
    Uniform {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
    },
    /// `normal`.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stdev: f64,
    },
    /// `lognormal`.
    LogNormal {
        /// The mean of the logarithm.
        mean: f64,
        /// The standard deviation of the logarithm.
        stdev: f64,
    },
    /// `exponential`.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// `weibull`.
    Weibull {
        /// The scale.
        lambda: f64,
        /// The shape.
        k: f64,
    },
    /// `pareto`.
    Pareto {
        /// The shape.
        k: f64,
        /// The scale: the least value.
        x_m: f64,
    },
    /// `gpareto`.
    GeneralisedPareto {
        /// The shape.
        shape: f64,
        /// The scale.
        scale: f64,
        /// The location: the least value.
        location: f64,
    },
    /// `gamma`.
    Gamma {
        /// The shape.
        k: f64,
        /// The scale.
        theta: f64,
    },
    /// `negbin`: failures before the n-th success.
    NegativeBinomial {
        /// The probability of success.
        p: f64,
        /// The number of successes.
        n: f64,
    },
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
    /// The variable is set.
    Set,
    /// The variable is not set (`condexec_inverse`).
    NotSet,
}

/// Response-time counters (indexes into [`Scenario::rtds`]) and user counters.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// `start_rtd`: the counters that start here.
    pub start: Vec<u16>,
    /// `rtd`: the counters that stop here.
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
    /// `hide`: no line on the screen.
    pub hide: bool,
    /// `display`: the text in place of the step's own.
    pub display: Option<String>,
}

impl Scenario {
    /// The step at a label.
    pub fn label(&self, name: &str) -> Option<StepIndex> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, step)| *step)
    }

    /// True if calls of this scenario are started by us.
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
