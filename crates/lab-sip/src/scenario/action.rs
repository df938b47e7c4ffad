//! Actions of a step, as typed as the steps.

use std::time::Duration;

use super::model::{Distribution, VarRef};
use super::template::Template;
use crate::regex::Regex;

/// An action of a step, with its line.
#[derive(Debug, Clone)]
pub struct Action {
    /// The line of its tag in the file, from 1.
    pub line: u32,
    /// The action itself.
    pub kind: ActionKind,
}

/// The kind of an action, with its arguments.
#[derive(Debug, Clone)]
pub enum ActionKind {
    /// `<ereg>`.
    Ereg(Box<Ereg>),
    /// `<log message=>`: to the log file.
    Log(Template),
    /// `<warning message=>`: to the error log; counted.
    Warning(Template),
    /// `<error message=>`: to the error log; ends the run.
    Error(Template),
    /// `<assign assign_to= value=>`.
    Assign {
        /// `assign_to`.
        to: VarRef,
        /// `value` or `variable`.
        value: Operand,
    },
    /// `<assignstr assign_to= value=>`.
    AssignStr {
        /// `assign_to`.
        to: VarRef,
        /// `value`, rendered.
        value: Template,
    },
    /// `<add>`, `<subtract>`, `<multiply>`, `<divide>`.
    Arithmetic {
        /// `assign_to`: also the left operand.
        to: VarRef,
        /// The operation, by the element's name.
        operation: Arithmetic,
        /// `value` or `variable`: the right operand.
        value: Operand,
    },
    /// `<todouble assign_to= variable=>`.
    ToDouble {
        /// `assign_to`.
        to: VarRef,
        /// `variable`: text; it stays unconverted when it is not a number.
        from: VarRef,
    },
    /// `<sample assign_to= distribution=>`.
    Sample {
        /// `assign_to`.
        to: VarRef,
        /// The distribution to draw from.
        distribution: Distribution,
    },
    /// `<test>`.
    Test(Box<VariableTest>),
    /// `<strcmp>`.
    StrCmp(Box<StrCmp>),
    /// `<trim assign_to=>`: blanks at both ends are removed.
    Trim(VarRef),
    /// `<urlencode variable=>`, in place.
    UrlEncode(VarRef),
    /// `<urldecode variable=>`, in place.
    UrlDecode(VarRef),
    /// To the step whose number the operand holds.
    Jump(Operand),
    /// `<pauserestore>`: continues a pause that a message interrupted; the operand is the end of the pause.
    PauseRestore(Operand),
    /// `<gettimeofday assign_to="seconds,micros">`.
    GetTimeOfDay {
        /// Seconds since 1970.
        seconds: VarRef,
        /// Microseconds of the second.
        micros: VarRef,
    },
    /// `<index assign_to>`: the number of the step, from 0.
    StepNumber {
        /// `assign_to`.
        to: VarRef,
    },
    /// `<index file= field=>`: an index for `<lookup>`.
    Index {
        /// The injection file.
        file: Template,
        /// The field, from 0.
        field: u32,
    },
    /// `<lookup assign_to= file= key=>`.
    Lookup {
        /// `assign_to`: the number of the line that was found.
        to: VarRef,
        /// The injection file, which must have an index.
        file: Template,
        /// The value of the indexed field.
        key: Template,
    },
    /// `<insert file= value=>`: a line at the end of an injection file.
    Insert {
        /// The injection file.
        file: Template,
        /// The line, with its semicolons.
        value: Template,
    },
    /// `<replace file= line= value=>`.
    Replace {
        /// The injection file.
        file: Template,
        /// The number of the line.
        line: Template,
        /// The new line, with its semicolons.
        value: Template,
    },
    /// `<verifyauth assign_to= username= password=>`: checks the credentials of the message received.
    VerifyAuth {
        /// `assign_to`: true when they are right.
        to: VarRef,
        /// The user that is expected.
        username: Template,
        /// The password, in plain text.
        password: Template,
    },
    /// `<setdest host= port= protocol=>`.
    SetDest {
        /// A host name or address.
        host: Template,
        /// A port number.
        port: Template,
        /// The transport protocol.
        protocol: Template,
    },
    /// `<closecon/>`.
    CloseCon,
    /// `<rtp_echo value=>`: on or off for this call.
    RtpEcho(Operand),
    /// `<exec command=>`.
    Command(Template),
    /// `<exec verify=>`: a command that the call waits for before its next message.
    Verify(Template),
    /// `<exec int_cmd=>`.
    Internal(InternalCommand),
    /// `<exec play_pcap_audio=>`, `play_pcap_video=`, `play_pcap_image=`.
    Play {
        /// The medium, by the attribute's name.
        kind: PlayKind,
        /// The path of the capture.
        file: Template,
    },
    /// `<exec play_dtmf=>`: the digits.
    PlayDtmf(Template),
    /// `<exec rtp_stream=>`.
    RtpStream(RtpStream),
    /// `<exec rtp_echo="startaudio,…">`.
    EchoControl(EchoControl),
    /// `<rtp_stats assign_to="packets,type,payload" media=>`.
    RtpStats {
        /// True for `media="video"`.
        video: bool,
        /// The number of RTP packets received.
        packets: VarRef,
        /// The payload type of the first; −1 before it came.
        payload_type: Option<VarRef>,
        /// The payload of the first, in hexadecimal digits.
        payload: Option<VarRef>,
    },
    /// `<rtp_dtmf assign_to= payload_type=>`: the digits received as events (RFC 4733).
    RtpDtmf {
        /// `assign_to`.
        to: VarRef,
        /// The payload type of the events, below 128.
        payload_type: u8,
    },
    /// `<rtpcheck …>`: Ringer's own; see the reference page.
    RtpCheck(Box<RtpCheck>),
}

/// A number: a constant or a variable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand {
    /// A constant of the scenario.
    Value(f64),
    /// The number in a variable.
    Variable(VarRef),
}

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `<add>`.
    Add,
    /// `<subtract>`.
    Subtract,
    /// `<multiply>`.
    Multiply,
    /// `<divide>`: a divisor of zero changes nothing, as in SIPp.
    Divide,
}

/// `<ereg>`: a search by regular expression.
#[derive(Debug, Clone)]
pub struct Ereg {
    /// `regexp`.
    pub regex: Regex,
    /// `search_in`.
    pub search_in: SearchIn,
    /// `check_it`, `check_it_inverse`.
    pub check: ActionCheck,
    /// `assign_to`: the whole match first, then the sub-expressions.
    pub assign_to: Vec<VarRef>,
}

/// The text that a search looks into.
#[derive(Debug, Clone)]
pub enum SearchIn {
    /// `search_in="msg"`, the default.
    Message,
    /// `header="From:"`.
    Header {
        /// `header`, with its colon as SIPp writes it.
        name: Box<str>,
        /// Counted from 1, as SIPp does.
        occurrence: u32,
        /// `case_indep`: the name in any case.
        case_independent: bool,
    },
    /// `search_in="body"`.
    Body,
    /// `search_in="var"` with `variable`.
    Variable(VarRef),
}

/// `check_it`, `check_it_inverse`: fail the call when the outcome is not the wanted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ActionCheck {
    /// The outcome has no effect on the call.
    #[default]
    No,
    /// `check_it="true"`: the call fails without a match.
    MustMatch,
    /// `check_it_inverse="true"`: the call fails with a match.
    MustNotMatch,
}

/// `<test>`: a comparison of two numbers.
#[derive(Debug, Clone)]
pub struct VariableTest {
    /// `variable`: the left operand.
    pub variable: VarRef,
    /// `compare`.
    pub compare: CompareOperator,
    /// `value` or `variable2`: the right operand.
    pub value: Operand,
    /// `assign_to`: the outcome.
    pub assign_to: Option<VarRef>,
    /// `check_it`, `check_it_inverse`.
    pub check: ActionCheck,
}

/// The operator of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareOperator {
    /// `equal`.
    Equal,
    /// `not_equal`.
    NotEqual,
    /// `greater_than`.
    GreaterThan,
    /// `less_than`.
    LessThan,
    /// `greater_than_equal`.
    GreaterThanEqual,
    /// `less_than_equal`.
    LessThanEqual,
}

/// `<strcmp>`: a comparison of two texts.
#[derive(Debug, Clone)]
pub struct StrCmp {
    /// `variable`: the text on the left.
    pub variable: VarRef,
    /// `value` (a template) or `variable2`.
    pub with: StrOperand,
    /// `assign_to`: the difference, 0 for equal texts.
    pub assign_to: Option<VarRef>,
    /// `check_it`, `check_it_inverse`: equality is the match.
    pub check: ActionCheck,
}

/// A text: a constant or a variable.
#[derive(Debug, Clone)]
pub enum StrOperand {
    /// `value`.
    Value(Template),
    /// `variable2`.
    Variable(VarRef),
}

/// `int_cmd`: a command to the call or the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InternalCommand {
    /// `stop_call`: this call is aborted.
    StopCall,
    /// `stop_gracefully`: no call is started any more.
    StopGracefully,
    /// `stop_now`: the run ends with its open calls.
    StopNow,
}

/// The kind of media that an action plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PlayKind {
    /// `play_pcap_audio`: to the audio address of the SDP.
    Audio,
    /// `play_pcap_video`: to the video address of the SDP.
    Video,
    /// `play_pcap_image`: to the image address of the SDP.
    Image,
    /// `play_pcap_text`: to the text address of the SDP (RFC 4103).
    Text,
}

/// `<exec rtp_stream="…">`.
#[derive(Debug, Clone)]
pub enum RtpStream {
    /// `file,loops,payload type,codec/rate`; loops −1 for ever.
    File(Template),
    /// `pause`.
    Pause,
    /// `resume`.
    Resume,
    /// `apattern` / `vpattern`: pattern number, loops, payload type, codec.
    Pattern {
        /// True for `vpattern`.
        video: bool,
        /// The text after the verb, between commas.
        spec: Template,
    },
    /// `pauseapattern`, `pausevpattern`.
    PausePattern {
        /// True for video.
        video: bool,
    },
    /// `wait`: the call goes on when its streams have been played, or after `timeout`.
    Wait {
        /// `timeout`.
        timeout: Option<Duration>,
    },
    /// `resumeapattern`, `resumevpattern`.
    ResumePattern {
        /// True for video.
        video: bool,
    },
}

/// `<exec rtp_echo="startaudio,8,PCMA/8000">`.
#[derive(Debug, Clone)]
pub struct EchoControl {
    /// The first part of the verb.
    pub verb: EchoVerb,
    /// The second part of the verb: true for video.
    pub video: bool,
    /// Payload type and codec as written after the verb.
    pub spec: Template,
}

/// The verb of an echo action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EchoVerb {
    /// `start`: packets go back from now on.
    Start,
    /// `update`: another payload type or codec.
    Update,
    /// `stop`.
    Stop,
}

/// The requirements on the media received so far; a call that misses one fails. `<rtpcheck audio="yes"
/// min_packets="50" max_loss="1" max_jitter="20" min_mos="4" dtmf="5" speech="1000" …/>`.
#[derive(Debug, Clone, Default)]
pub struct RtpCheck {
    /// `video`: true for the video stream.
    pub video: bool,
    /// Received at least.
    pub min_packets: Option<u64>,
    /// Received at most.
    pub max_packets: Option<u64>,
    /// Per cent.
    pub max_loss: Option<f64>,
    /// Milliseconds (RFC 3550 §6.4.1).
    pub max_jitter: Option<f64>,
    /// Packets behind a later one, at most.
    pub max_reordered: Option<u64>,
    /// 1 to 5, at least.
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
