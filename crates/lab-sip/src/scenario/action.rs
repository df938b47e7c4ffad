//! Actions of a step, as typed as the steps.

use super::model::{Distribution, VarRef};
use super::template::Template;
use crate::regex::Regex;

/// An action of a step, with its line.
#[derive(Debug, Clone)]
pub struct Action {
    pub line: u32,
    pub kind: ActionKind,
}

/// The kind of an action, with its arguments.
#[derive(Debug, Clone)]
pub enum ActionKind {
    Ereg(Box<Ereg>),
    Log(Template),
    Warning(Template),
    Error(Template),
    Assign {
        to: VarRef,
        value: Operand,
    },
    AssignStr {
        to: VarRef,
        value: Template,
    },
    Arithmetic {
        to: VarRef,
        operation: Arithmetic,
        value: Operand,
    },
    ToDouble {
        to: VarRef,
        from: VarRef,
    },
    Sample {
        to: VarRef,
        distribution: Distribution,
    },
    Test(Box<VariableTest>),
    StrCmp(Box<StrCmp>),
    Trim(VarRef),
    UrlEncode(VarRef),
    UrlDecode(VarRef),
    /// To the step whose number the operand holds.
    Jump(Operand),
    PauseRestore(Operand),
    GetTimeOfDay {
        seconds: VarRef,
        micros: VarRef,
    },
    /// `<index assign_to>`: the number of the step, from 0.
    StepNumber {
        to: VarRef,
    },
    Index {
        file: Template,
        field: u32,
    },
    Lookup {
        to: VarRef,
        file: Template,
        key: Template,
    },
    Insert {
        file: Template,
        value: Template,
    },
    Replace {
        file: Template,
        line: Template,
        value: Template,
    },
    VerifyAuth {
        to: VarRef,
        username: Template,
        password: Template,
    },
    SetDest {
        host: Template,
        port: Template,
        protocol: Template,
    },
    CloseCon,
    /// `<rtp_echo value=>`: on or off for this call.
    RtpEcho(Operand),
    /// `<exec command=>`.
    Command(Template),
    /// `<exec int_cmd=>`.
    Internal(InternalCommand),
    Play {
        kind: PlayKind,
        file: Template,
    },
    PlayDtmf(Template),
    RtpStream(RtpStream),
    /// `<exec rtp_echo="startaudio,…">`.
    EchoControl(EchoControl),
    /// `<rtpcheck …>`: Ringer's own; see the reference page.
    RtpCheck(Box<RtpCheck>),
}

/// A number: a constant or a variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand {
    Value(f64),
    Variable(VarRef),
}

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// `<ereg>`: a search by regular expression.
#[derive(Debug, Clone)]
pub struct Ereg {
    pub regex: Regex,
    pub search_in: SearchIn,
    pub check: ActionCheck,
    /// `assign_to`: the whole match first, then the sub-expressions.
    pub assign_to: Vec<VarRef>,
}

/// The text that a search looks into.
#[derive(Debug, Clone)]
pub enum SearchIn {
    Message,
    /// `header="From:"`.
    Header {
        name: Box<str>,
        /// Counted from 1, as SIPp does.
        occurrence: u32,
        case_independent: bool,
        start_line: bool,
    },
    Body,
    Variable(VarRef),
}

/// `check_it`, `check_it_inverse`: fail the call when the outcome is not the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActionCheck {
    #[default]
    No,
    MustMatch,
    MustNotMatch,
}

/// `<test>`: a comparison of two numbers.
#[derive(Debug, Clone)]
pub struct VariableTest {
    pub variable: VarRef,
    pub compare: CompareOperator,
    pub value: Operand,
    pub assign_to: Option<VarRef>,
    pub check: ActionCheck,
}

/// The operator of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOperator {
    Equal,
    NotEqual,
    GreaterThan,
    LessThan,
    GreaterThanEqual,
    LessThanEqual,
}

/// `<strcmp>`: a comparison of two texts.
#[derive(Debug, Clone)]
pub struct StrCmp {
    pub variable: VarRef,
    /// `value` (a template) or `variable2`.
    pub with: StrOperand,
    pub assign_to: Option<VarRef>,
    pub check: ActionCheck,
}

/// A text: a constant or a variable.
#[derive(Debug, Clone)]
pub enum StrOperand {
    Value(Template),
    Variable(VarRef),
}

/// `int_cmd`: a command to the call or the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalCommand {
    StopCall,
    StopGracefully,
    StopNow,
}

/// The kind of media that an action plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlayKind {
    Audio,
    Video,
    Image,
}

/// `<exec rtp_stream="…">`.
#[derive(Debug, Clone)]
pub enum RtpStream {
    /// `file,loops,payload type,codec/rate`; loops −1 for ever.
    File(Template),
    Pause,
    Resume,
    /// `apattern` / `vpattern`: pattern number, loops, payload type, codec.
    Pattern {
        video: bool,
        spec: Template,
    },
    PausePattern {
        video: bool,
    },
    ResumePattern {
        video: bool,
    },
}

/// `<exec rtp_echo="startaudio,8,PCMA/8000">`.
#[derive(Debug, Clone)]
pub struct EchoControl {
    pub verb: EchoVerb,
    pub video: bool,
    /// Payload type and codec as written after the verb.
    pub spec: Template,
}

/// The verb of an echo action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoVerb {
    Start,
    Update,
    Stop,
}

/// The requirements on the media received so far; a call that misses one fails. `<rtpcheck audio="yes"
/// min_packets="50" max_loss="1" max_jitter="20" min_mos="4" dtmf="5" speech="1000" …/>`.
#[derive(Debug, Clone, Default)]
pub struct RtpCheck {
    pub video: bool,
    pub min_packets: Option<u64>,
    pub max_packets: Option<u64>,
    /// Per cent.
    pub max_loss: Option<f64>,
    /// Milliseconds (RFC 3550 §6.4.1).
    pub max_jitter: Option<f64>,
    pub max_reordered: Option<u64>,
    pub min_mos: Option<f64>,
    /// Digits heard since the last check, in order.
    pub dtmf: Option<Template>,
    /// At least this many milliseconds of sound that is not silence.
    pub min_speech: Option<u64>,
    /// At most this many milliseconds of silence in a row.
    pub max_silence: Option<u64>,
    /// Both directions carried media (or, `false`, did not).
    pub two_way: Option<bool>,
    /// Verdict goes here (1 or 0) instead of failing the call.
    pub assign_to: Option<VarRef>,
}
