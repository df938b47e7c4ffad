//! A message, a log line or an argument, cut at its keywords.

use super::model::VarRef;

/// Literal pieces and keywords in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Template {
    /// Texts and keywords, as they follow each other.
    pub parts: Vec<TemplatePart>,
    /// Byte offset (into the rendered text) is not known before rendering; this says whether `[len]` occurs.
    pub has_len: bool,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplatePart {
    /// Literal bytes, line ends as CRLF.
    Text(Box<[u8]>),
    /// A value that is filled in at each call.
    Keyword(Keyword),
}

/// SIPp's `[keywords]`. An `i32` is the offset of `[cseq+1]`, `[branch-3]`, `[media_port+2]`, 0 without one.
#[derive(Debug, Clone, PartialEq)]
pub enum Keyword {
    /// `[remote_ip]`.
    RemoteIp,
    /// `[remote_host]`: the target as named on the command line.
    RemoteHost,
    /// `[remote_port]`.
    RemotePort(i32),
    /// `[transport]`: as in a Via.
    Transport,
    /// `[local_ip]`.
    LocalIp,
    /// `[local_ip_type]`: 4 or 6.
    LocalIpType,
    /// `[local_port]`.
    LocalPort(i32),
    /// `[server_ip]`: the local address that a request was received on.
    ServerIp,
    /// `[media_ip]`.
    MediaIp,
    /// `[media_ip_type]`: 4 or 6.
    MediaIpType,
    /// `[media_port]`.
    MediaPort(i32),
    /// `[auto_media_port]`: a media port of this call's own.
    AutoMediaPort(i32),
    /// `[rtpstream_audio_port]`.
    RtpStreamAudioPort(i32),
    /// `[rtpstream_video_port]`.
    RtpStreamVideoPort(i32),
    /// `[call_number]`: from 1, over the whole process.
    CallNumber(i32),
    /// `[dynamic_id]`: from `-dynamicStart` to `-dynamicMax`.
    DynamicId(i32),
    /// `[call_id]`.
    CallId,
    /// `[cseq]`: the number of the last CSeq.
    Cseq(i32),
    /// `[pid]`.
    Pid,
    /// `[service]`: `-s`.
    Service,
    /// `[branch]`: new in each message; the offset counts messages back.
    Branch(i32),
    /// `[msg_index]`: the number of the step.
    MsgIndex,
    /// `[next_url]`: the Contact of the message that `rrs` kept.
    NextUrl,
    /// `[len]`: the length of the body.
    Len(i32),
    /// `[peer_tag_param]`: `;tag=` and the peer's tag, or nothing.
    PeerTagParam,
    /// `[last_Request_URI]`: the URI of the request received last.
    LastRequestUri,
    /// `[last_cseq_number]`: the CSeq number of the message received last.
    LastCseqNumber(i32),
    /// `[last_message]`: the whole message.
    LastMessage,
    /// `[routes]`: the Route header made of the message that `rrs` kept.
    Routes,
    /// `[tdmmap]`: the circuit of the call (`-tdmmap`).
    TdmMap,
    /// `[clock_tick]`: milliseconds since the start.
    ClockTick,
    /// `[users]`: `-users`.
    Users,
    /// `[userid]`: from 1.
    UserId,
    /// `[timestamp]`: date and time, for logs.
    Timestamp,
    /// `[date]`: the value of a Date header (RFC 3261 §20.17).
    Date,
    /// `[sipp_version]`.
    SippVersion,
    /// `[last_<Header>]`: header name as written, with its colon when one was written.
    /// The absent header drops the rest of the line.
    Last(Box<str>),
    /// `[last_<Header>.value]`: the same without the name.
    LastValue(Box<str>),
    /// `[fieldN file= line=]`.
    Field {
        /// The number N, from 0.
        field: u32,
        /// `file=`; `None`: the first `-inf`.
        file: Option<Box<str>>,
        /// `line=`; `None`: the line of the call.
        line: Option<Box<Template>>,
    },
    /// `[file name=]`: the content of a file, its name itself a template.
    File(Box<Template>),
    /// `[$name]`.
    Var(VarRef),
    /// `[fill text= variable=]`: the text repeated to the length the variable holds.
    Fill {
        /// `text=`.
        text: Box<[u8]>,
        /// `variable=`.
        variable: VarRef,
    },
    /// `[authentication …]`.
    Authentication(Box<AuthParams>),
    /// SRTP keywords, by their SIPp name: `cryptotag1audio`, `cryptokeyparams2video`, …
    Crypto(Box<str>),
    /// Not a keyword we know: looked up among `-key` names when the run starts; an error there if absent.
    Key(Box<str>),
}

/// The parameters of `[authentication]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuthParams {
    /// `username=`.
    pub username: Option<Template>,
    /// `password=`.
    pub password: Option<Template>,
    /// `aka_K=`: the key of the subscriber (3GPP TS 33.102).
    pub aka_k: Option<Template>,
    /// `aka_OP=`: the operator's variant.
    pub aka_op: Option<Template>,
    /// `aka_AMF=`.
    pub aka_amf: Option<Template>,
}

impl Template {
    /// A template of literal text.
    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Template { parts: vec![TemplatePart::Text(text.into().into_boxed_slice())], has_len: false }
    }

    /// The template has no parts.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}
