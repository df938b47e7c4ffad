//! Keywords in brackets.

use super::template::Keyword;

/// The form in which a keyword is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeywordForm {
    /// Takes no offset; one that is written is ignored, as SIPp does.
    Plain(fn() -> Keyword),
    /// `[name+1]`.
    Offset(fn(i32) -> Keyword),
    /// SRTP, by name.
    Crypto,
    /// Has parameters or a name of its own form: read apart.
    Parametric,
}

/// One `[keyword]` of the language, for the parser and the reference page.
#[derive(Debug)]
pub(super) struct KeywordDoc {
    pub(super) name: &'static str,
    pub(super) form: KeywordForm,
    pub(super) about: &'static str,
}

pub(super) fn keyword(name: &str) -> Option<&'static KeywordDoc> {
    KEYWORDS.iter().find(|keyword| keyword.name == name)
}

const fn plain(name: &'static str, make: fn() -> Keyword, about: &'static str) -> KeywordDoc {
    KeywordDoc { name, form: KeywordForm::Plain(make), about }
}

const fn offset(name: &'static str, make: fn(i32) -> Keyword, about: &'static str) -> KeywordDoc {
    KeywordDoc { name, form: KeywordForm::Offset(make), about }
}

const fn crypto(name: &'static str) -> KeywordDoc {
    KeywordDoc { name, form: KeywordForm::Crypto, about: "SRTP (RFC 4568)." }
}

const fn parametric(name: &'static str, about: &'static str) -> KeywordDoc {
    KeywordDoc { name, form: KeywordForm::Parametric, about }
}

/// All keywords with a fixed name.
pub(super) const KEYWORDS: &[KeywordDoc] = &[
    plain("remote_ip", || Keyword::RemoteIp, "Address of the peer."),
    plain("remote_host", || Keyword::RemoteHost, "The peer as given on the command line."),
    offset("remote_port", Keyword::RemotePort, "Port of the peer."),
    plain("transport", || Keyword::Transport, "`UDP`, `TCP`, `TLS`, `WS`, `WSS`."),
    plain("local_ip", || Keyword::LocalIp, "Our address (`-i`)."),
    plain("local_ip_type", || Keyword::LocalIpType, "4 or 6."),
    offset("local_port", Keyword::LocalPort, "Our port (`-p`)."),
    plain("server_ip", || Keyword::ServerIp, "The address a request was received on."),
    plain("media_ip", || Keyword::MediaIp, "Our media address (`-mi`)."),
    plain("media_ip_type", || Keyword::MediaIpType, "4 or 6."),
    offset("media_port", Keyword::MediaPort, "Our media port (`-mp`)."),
    offset("auto_media_port", Keyword::AutoMediaPort, "A media port of this call's own."),
    offset("rtpstream_audio_port", Keyword::RtpStreamAudioPort, "The audio port of `rtp_stream`."),
    offset("rtpstream_video_port", Keyword::RtpStreamVideoPort, "The video port of `rtp_stream`."),
    offset("call_number", Keyword::CallNumber, "Number of the call, from 1."),
    offset(
        "dynamic_id",
        Keyword::DynamicId,
        "A counter that wraps (`-dynamicStart`, `-dynamicMax`, `-dynamicStep`).",
    ),
    plain("call_id", || Keyword::CallId, "Call-ID of the call (`-cid_str`)."),
    offset("cseq", Keyword::Cseq, "CSeq number, one more for each request that begins a transaction."),
    plain("pid", || Keyword::Pid, "Process id."),
    plain("service", || Keyword::Service, "What `-s` says."),
    offset("branch", Keyword::Branch, "Branch of this message; with an offset, of an earlier one."),
    plain("msg_index", || Keyword::MsgIndex, "Number of the step."),
    plain("next_url", || Keyword::NextUrl, "Contact of the message kept by `rrs`."),
    offset("len", Keyword::Len, "Length of the body in bytes."),
    plain("peer_tag_param", || Keyword::PeerTagParam, "`;tag=` and the peer's tag, or nothing."),
    plain("last_Request_URI", || Keyword::LastRequestUri, "URI of the request received last."),
    offset("last_cseq_number", Keyword::LastCseqNumber, "CSeq number of the message received last."),
    plain("last_message", || Keyword::LastMessage, "The message received last, whole."),
    plain("routes", || Keyword::Routes, "Route header from the message kept by `rrs`."),
    plain("tdmmap", || Keyword::TdmMap, "A free circuit of `-tdmmap`."),
    plain("clock_tick", || Keyword::ClockTick, "Milliseconds since the start."),
    plain("users", || Keyword::Users, "What `-users` says."),
    plain("userid", || Keyword::UserId, "Number of the call's user."),
    plain("timestamp", || Keyword::Timestamp, "Date and time for logs."),
    plain("date", || Keyword::Date, "Date and time as in the Date header (RFC 3261 §20.17)."),
    plain("sipp_version", || Keyword::SippVersion, "Name and version of this program."),
    parametric(
        "fieldN",
        "Field N, from 0, of the call's line of an injection file; `file=\"name\"`, `line=\"[$v]\"`.",
    ),
    parametric("file", "Content of the file `name=\"…\"`."),
    parametric("$name", "A variable."),
    parametric("fill", "`text=\"X\"` repeated to the length in `variable=\"name\"`."),
    parametric(
        "last_Name:",
        "Header of the message received last; without it the rest of the line is dropped.",
    ),
    parametric("last_Name.value", "The same without the header's name: `To: [last_From.value]`."),
    parametric(
        "authentication",
        "Authorization or Proxy-Authorization for the challenge kept by `auth`; `username=`, `password=`, `aka_K=`, \
         `aka_OP=`, `aka_AMF=`, which may hold keywords in double quotes.",
    ),
    crypto("cryptotag1audio"),
    crypto("cryptotag2audio"),
    crypto("cryptotag1video"),
    crypto("cryptotag2video"),
    crypto("cryptokeyparams1audio"),
    crypto("cryptokeyparams2audio"),
    crypto("cryptokeyparams1video"),
    crypto("cryptokeyparams2video"),
    crypto("cryptosuiteaescm128sha1801audio"),
    crypto("cryptosuiteaescm128sha1802audio"),
    crypto("cryptosuiteaescm128sha1321audio"),
    crypto("cryptosuiteaescm128sha1322audio"),
    crypto("cryptosuiteaescm128sha1801video"),
    crypto("cryptosuiteaescm128sha1802video"),
    crypto("cryptosuiteaescm128sha1321video"),
    crypto("cryptosuiteaescm128sha1322video"),
    crypto("cryptosuiteaescm192sha1801audio"),
    crypto("cryptosuiteaescm192sha1802audio"),
    crypto("cryptosuiteaescm192sha1321audio"),
    crypto("cryptosuiteaescm192sha1322audio"),
    crypto("cryptosuiteaescm192sha1801video"),
    crypto("cryptosuiteaescm192sha1802video"),
    crypto("cryptosuiteaescm192sha1321video"),
    crypto("cryptosuiteaescm192sha1322video"),
    crypto("cryptosuiteaescm256sha1801audio"),
    crypto("cryptosuiteaescm256sha1802audio"),
    crypto("cryptosuiteaescm256sha1321audio"),
    crypto("cryptosuiteaescm256sha1322audio"),
    crypto("cryptosuiteaescm256sha1801video"),
    crypto("cryptosuiteaescm256sha1802video"),
    crypto("cryptosuiteaescm256sha1321video"),
    crypto("cryptosuiteaescm256sha1322video"),
    crypto("cryptosuitenullsha1801audio"),
    crypto("cryptosuitenullsha1802audio"),
    crypto("cryptosuitenullsha1321audio"),
    crypto("cryptosuitenullsha1322audio"),
    crypto("cryptosuitenullsha1801video"),
    crypto("cryptosuitenullsha1802video"),
    crypto("cryptosuitenullsha1321video"),
    crypto("cryptosuitenullsha1322video"),
    crypto("ueaescm128sha1801audio"),
    crypto("ueaescm128sha1802audio"),
    crypto("ueaescm128sha1321audio"),
    crypto("ueaescm128sha1322audio"),
    crypto("ueaescm128sha1801video"),
    crypto("ueaescm128sha1802video"),
    crypto("ueaescm128sha1321video"),
    crypto("ueaescm128sha1322video"),
];
