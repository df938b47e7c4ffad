//! Media of calls: captures and files played, tones, echo, and everything received measured.
//! One [`MediaStreams`] a shard, turned by the shard's loop; what they share (files, ports) is one [`RunMedia`].

mod batch;
mod call;
mod check;
mod control;
mod crypto;
mod files;
mod play;
mod ports;
mod receiver;
mod routes;
mod run_media;
mod sound;
mod spec;
mod streams;
#[cfg(test)]
mod tests;

pub use run_media::RunMedia;
pub use streams::MediaStreams;

use std::net::SocketAddr;

use media::codec::Codec;

use crate::scenario::action::PlayKind;

/// One of a call's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortKind {
    /// `[media_port]`: `-mp`, the same for every call.
    Fixed,
    /// `[auto_media_port]`: from `-mp` on, four apart, by call number.
    Auto,
    /// `[rtpstream_audio_port]`, `[rtpstream_video_port]`: taken from the range for this call.
    StreamAudio,
    StreamVideo,
}

/// From the SDP of a received message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteMedia {
    pub audio: Option<SocketAddr>,
    pub video: Option<SocketAddr>,
    pub image: Option<SocketAddr>,
    /// `a=crypto` lines of the audio and video sections, in order.
    pub audio_crypto: Vec<String>,
    pub video_crypto: Vec<String>,
    /// `telephone-event` payload type of the audio section.
    pub events: Option<u8>,
    /// Other payload types that an rtpmap gives a meaning, of all sections.
    pub codecs: Vec<(u8, Codec)>,
}

/// A media action, its text rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaCommand {
    Play {
        kind: PlayKind,
        file: String,
    },
    /// Digits and, after a comma, milliseconds.
    PlayDtmf(String),
    /// `file[,loops[,payload type[,codec/rate]]]`.
    Stream(String),
    PauseStream,
    ResumeStream,
    Pattern {
        video: bool,
        spec: String,
    },
    PausePattern {
        video: bool,
    },
    ResumePattern {
        video: bool,
    },
    EchoStart {
        video: bool,
        spec: String,
    },
    EchoUpdate {
        video: bool,
        spec: String,
    },
    EchoStop {
        video: bool,
    },
    /// `<rtp_echo value>`.
    EchoCall(bool),
}

/// `<rtpcheck>`, its digits rendered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requirement {
    pub video: bool,
    pub min_packets: Option<u64>,
    pub max_packets: Option<u64>,
    pub max_loss: Option<f64>,
    pub max_jitter: Option<f64>,
    pub max_reordered: Option<u64>,
    pub min_mos: Option<f64>,
    pub dtmf: Option<String>,
    pub min_speech: Option<u64>,
    pub max_silence: Option<u64>,
    pub two_way: Option<bool>,
}
