//! Actions of the language with their attributes.

use super::lexicon::AttributeDoc;

/// The actions by element name; `compile/actions.rs` has an arm for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionName {
    Ereg,
    Log,
    Warning,
    Error,
    Assign,
    AssignStr,
    Add,
    Subtract,
    Multiply,
    Divide,
    ToDouble,
    Sample,
    Test,
    StrCmp,
    Trim,
    UrlEncode,
    UrlDecode,
    Jump,
    PauseRestore,
    GetTimeOfDay,
    Index,
    Lookup,
    Insert,
    Replace,
    VerifyAuth,
    SetDest,
    CloseCon,
    RtpEcho,
    Exec,
    RtpStats,
    RtpDtmf,
    RtpCheck,
}

/// One action of the language, for the compiler and the reference page.
#[derive(Debug)]
pub(super) struct ActionDoc {
    pub(super) name: &'static str,
    pub(super) id: ActionName,
    pub(super) attributes: &'static [AttributeDoc],
    pub(super) about: &'static str,
}

const fn attr(name: &'static str, value: &'static str, about: &'static str) -> AttributeDoc {
    AttributeDoc { name, value, about }
}

const fn action(
    name: &'static str,
    id: ActionName,
    attributes: &'static [AttributeDoc],
    about: &'static str,
) -> ActionDoc {
    ActionDoc { name, id, attributes, about }
}

const TO: AttributeDoc = attr("assign_to", "variable", "Takes the result.");
const VALUE: AttributeDoc = attr("value", "number", "The operand; or `variable`.");
const VARIABLE: AttributeDoc = attr("variable", "variable", "The operand.");
const CHECK: AttributeDoc = attr("check_it", "bool", "The call fails unless it holds.");
const CHECK_INVERSE: AttributeDoc = attr("check_it_inverse", "bool", "The call fails if it holds.");
const MESSAGE: &[AttributeDoc] = &[attr("message", "template", "What to write.")];
const ARITHMETIC: &[AttributeDoc] = &[TO, VALUE, VARIABLE];
const OPERAND: &[AttributeDoc] = &[VALUE, VARIABLE];
const FILE: AttributeDoc = attr("file", "template", "An injection file, as given to `-inf`.");

/// All elements inside `<action>`.
pub(super) const ACTIONS: &[ActionDoc] = &[
    action(
        "ereg",
        ActionName::Ereg,
        &[
            attr("regexp", "expression", "POSIX extended."),
            attr("search_in", "msg, hdr, body, var", "Where; default `msg`."),
            attr("header", "text", "With `hdr`: the name with its colon."),
            attr("variable", "variable", "With `var`: the variable."),
            attr("occurrence", "number", "With `hdr`: which of several, from 1."),
            attr("occurence", "number", "The same, as SIPp used to spell it."),
            attr("case_indep", "bool", "With `hdr`: the name in any case."),
            attr("start_line", "bool", "Accepted: a header's name always begins its line."),
            CHECK,
            CHECK_INVERSE,
            attr("assign_to", "variables", "The whole match, then the sub-expressions, separated by commas."),
        ],
        "Looks for a regular expression.",
    ),
    action("log", ActionName::Log, MESSAGE, "A line for `-trace_logs`."),
    action("warning", ActionName::Warning, MESSAGE, "A warning for `-trace_err`."),
    action("error", ActionName::Error, MESSAGE, "An error: ends the run."),
    action("assign", ActionName::Assign, ARITHMETIC, "A number into a variable."),
    action(
        "assignstr",
        ActionName::AssignStr,
        &[TO, attr("value", "template", "The text.")],
        "A text into a variable.",
    ),
    action("add", ActionName::Add, ARITHMETIC, "Adds to a variable."),
    action("subtract", ActionName::Subtract, ARITHMETIC, "Subtracts from a variable."),
    action("multiply", ActionName::Multiply, ARITHMETIC, "Multiplies a variable."),
    action("divide", ActionName::Divide, ARITHMETIC, "Divides a variable; not by zero."),
    action("todouble", ActionName::ToDouble, &[TO, VARIABLE], "A text as a number."),
    action("sample", ActionName::Sample, &[TO], "A number drawn from a distribution (below)."),
    action(
        "test",
        ActionName::Test,
        &[
            VARIABLE,
            attr(
                "compare",
                "comparison",
                "`equal`, `not_equal`, `greater_than`, `less_than`, `greater_than_equal` or `less_than_equal`.",
            ),
            attr("value", "number", "Compared with; or `variable2`."),
            attr("variable2", "variable", "Compared with."),
            TO,
            CHECK,
            CHECK_INVERSE,
        ],
        "Compares numbers.",
    ),
    action(
        "strcmp",
        ActionName::StrCmp,
        &[
            VARIABLE,
            attr("value", "template", "Compared with; or `variable2`."),
            attr("variable2", "variable", "Compared with."),
            TO,
            CHECK,
            CHECK_INVERSE,
        ],
        "Compares texts. Into a variable goes 0 for equal, below 0 and above 0 by order.",
    ),
    action("trim", ActionName::Trim, &[TO], "Takes the blanks at both ends of a variable."),
    action("urlencode", ActionName::UrlEncode, &[VARIABLE], "Escapes a variable's text for a URL."),
    action("urldecode", ActionName::UrlDecode, &[VARIABLE], "The reverse."),
    action("jump", ActionName::Jump, OPERAND, "Continues at the step of that number, from 0."),
    action(
        "pauserestore",
        ActionName::PauseRestore,
        OPERAND,
        "Takes up a pause that an unexpected message broke off.",
    ),
    action(
        "gettimeofday",
        ActionName::GetTimeOfDay,
        &[attr("assign_to", "two variables", "Seconds and microseconds.")],
        "The time of day.",
    ),
    action(
        "index",
        ActionName::Index,
        &[
            attr("assign_to", "variable", "Gets the number of this step, from 0; without `file`."),
            FILE,
            attr("field", "number", "From 0."),
        ],
        "The number of the step; with `file` and `field` instead, indexes a file by a field for `lookup`, as `-infindex` does.",
    ),
    action(
        "lookup",
        ActionName::Lookup,
        &[TO, FILE, attr("key", "template", "What to look for in the indexed field.")],
        "Finds a line; −1 when there is none.",
    ),
    action(
        "insert",
        ActionName::Insert,
        &[FILE, attr("value", "template", "The line.")],
        "Appends a line to a file in memory.",
    ),
    action(
        "replace",
        ActionName::Replace,
        &[FILE, attr("line", "template", "From 0."), attr("value", "template", "The new line.")],
        "Replaces a line of a file in memory.",
    ),
    action(
        "verifyauth",
        ActionName::VerifyAuth,
        &[TO, attr("username", "template", "Expected."), attr("password", "template", "Expected.")],
        "Checks the credentials of the message received.",
    ),
    action(
        "setdest",
        ActionName::SetDest,
        &[
            attr("host", "template", "Address."),
            attr("port", "template", "Port."),
            attr("protocol", "template", "`udp`, `tcp`, `tls`, `ws` or `wss`."),
        ],
        "Sends the rest of the call elsewhere.",
    ),
    action("closecon", ActionName::CloseCon, &[], "Closes the call's connection."),
    action("rtp_echo", ActionName::RtpEcho, OPERAND, "Media received is sent back (not 0) or not (0)."),
    action("exec", ActionName::Exec, EXEC, "Runs a command or plays media; one attribute."),
    action(
        "rtp_stats",
        ActionName::RtpStats,
        &[
            attr(
                "assign_to",
                "variables",
                "Packets; then, by commas, the payload type of the first (−1: none came) and its payload in hexadecimal.",
            ),
            attr("media", "audio, video", "Which stream; default `audio`."),
        ],
        "The RTP that the call has received so far.",
    ),
    action(
        "rtp_dtmf",
        ActionName::RtpDtmf,
        &[TO, attr("payload_type", "number", "Of the events; default 96.")],
        "The digits that the call has received so far as telephone events (RFC 4733) on its audio stream.",
    ),
    action(
        "rtpcheck",
        ActionName::RtpCheck,
        RTPCHECK,
        "Ringer's own: the media received so far must satisfy all that is set, else the call fails.",
    ),
];

/// Attributes of `<exec>`, of which one is given.
const EXEC: &[AttributeDoc] = &[
    attr("command", "template", "To the shell, without waiting for it."),
    attr(
        "verify",
        "template",
        "To the shell; the call waits for its end before the next message, and fails unless it is exit code 0.",
    ),
    attr("int_cmd", "stop_call, stop_gracefully, stop_now", "Ends the call or the run."),
    attr("play_pcap_audio", "file", "Replays a capture from the audio port."),
    attr("play_pcap_image", "file", "Replays a capture from the image port."),
    attr("play_pcap_video", "file", "Replays a capture from the video port."),
    attr("play_pcap_text", "file", "Replays a capture of real-time text (RFC 4103) from the text port."),
    attr("play_dtmf", "digits[,ms[,PT]]", "Telephone events (RFC 4733)."),
    attr(
        "rtp_stream",
        "file[,loops,PT,codec/rate]",
        "Also `pause`, `resume`, `apattern,N,loops,PT,codec`, `vpattern,…`, `pauseapattern`, `resumeapattern`, \
         `pausevpattern`, `resumevpattern`; `wait` holds the call here until what it streams has been played.",
    ),
    attr("timeout", "ms", "With `rtp_stream=\"wait\"`: no longer than this; the call goes on then."),
    attr(
        "rtp_echo",
        "verb,PT,codec/rate",
        "`startaudio`, `updateaudio`, `stopaudio`, `startvideo`, `updatevideo`, `stopvideo`.",
    ),
];

/// Attributes of `<rtpcheck>`.
const RTPCHECK: &[AttributeDoc] = &[
    attr("audio", "bool", "Look at the audio stream (the default)."),
    attr("video", "bool", "Look at the video stream."),
    attr("min_packets", "number", "At least so many packets."),
    attr("max_packets", "number", "At most so many packets."),
    attr("max_loss", "per cent", "Lost packets of those expected."),
    attr("max_jitter", "ms", "Interarrival jitter (RFC 3550 §6.4.1)."),
    attr("max_reordered", "number", "Packets out of order."),
    attr("min_mos", "number", "Of the E-model, 1 to 4.5."),
    attr("dtmf", "template", "Exactly these digits since the last check."),
    attr("min_speech", "ms", "Sound that is not silence."),
    attr("speech", "ms", "Short for `min_speech`."),
    attr("max_silence", "ms", "Silence in a row."),
    attr("two_way", "bool", "Media in both directions, or (`false`) not."),
    attr("assign_to", "variable", "1 or 0 goes here in place of failing the call."),
];
