//! A message, a log line or an argument, cut at its keywords.

use super::model::VarRef;

/// Literal pieces and keywords in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Template {
    pub parts: Vec<TemplatePart>,
    /// Byte offset (into the rendered text) is not known before rendering; this says whether `[len]` occurs.
    pub has_len: bool,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplatePart {
    Text(Box<[u8]>),
    Keyword(Keyword),
}

/// SIPp's `[keywords]`. An `i32` is the offset of `[cseq+1]`, `[branch-3]`, `[media_port+2]`, 0 without one.
#[derive(Debug, Clone, PartialEq)]
pub enum Keyword {
    RemoteIp,
    RemoteHost,
    RemotePort(i32),
    Transport,
    LocalIp,
    LocalIpType,
    LocalPort(i32),
    ServerIp,
    MediaIp,
    MediaIpType,
    MediaPort(i32),
    AutoMediaPort(i32),
    RtpStreamAudioPort(i32),
    RtpStreamVideoPort(i32),
    CallNumber(i32),
    DynamicId(i32),
    CallId,
    Cseq(i32),
    Pid,
    Service,
    Branch(i32),
    MsgIndex,
    NextUrl,
    Len(i32),
    PeerTagParam,
    LastRequestUri,
    LastCseqNumber(i32),
    LastMessage,
    Routes,
    TdmMap,
    ClockTick,
    Users,
    UserId,
    Timestamp,
    Date,
    SippVersion,
    /// `[last_<Header>]`: header name as written, with its colon when one was written.
    /// The absent header drops the rest of the line.
    Last(Box<str>),
    /// `[fieldN file= line=]`.
    Field {
        field: u32,
        file: Option<Box<str>>,
        line: Option<Box<Template>>,
    },
    /// `[file name=]`: the content of a file, its name itself a template.
    File(Box<Template>),
    /// `[$name]`.
    Var(VarRef),
    /// `[fill text= variable=]`: the text repeated to the length the variable holds.
    Fill {
        text: Box<[u8]>,
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
    pub username: Option<Template>,
    pub password: Option<Template>,
    pub aka_k: Option<Template>,
    pub aka_op: Option<Template>,
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
