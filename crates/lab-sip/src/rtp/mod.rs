//! Media of calls: captures and files played, tones, echo, and everything received measured.
//! One [`MediaStreams`] a shard, turned by the shard's loop; what they share (files, ports) is one [`RunMedia`].

mod batch;
mod call;
mod check;
mod control;
mod crypto;
mod files;
mod late_reads;
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
    /// As [`PortKind::StreamAudio`], for video.
    StreamVideo,
}

/// From the SDP of a received message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteMedia {
    /// `m=audio`: address and port; `None` without one.
    pub audio: Option<SocketAddr>,
    /// `m=video`.
    pub video: Option<SocketAddr>,
    /// `m=image`: fax (T.38).
    pub image: Option<SocketAddr>,
    /// `m=text`: real-time text (RFC 4103).
    pub text: Option<SocketAddr>,
    /// `a=crypto` lines of the audio and video sections, in order.
    pub audio_crypto: Vec<String>,
    /// As `audio_crypto`, for the video section.
    pub video_crypto: Vec<String>,
    /// `telephone-event` payload type of the audio section.
    pub events: Option<u8>,
    /// Other payload types that an rtpmap gives a meaning, of all sections.
    pub codecs: Vec<(u8, Codec)>,
}

/// The RTP that one medium of a call has received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceivedMedia {
    /// RTP packets since the call began, repeated and late ones included.
    pub packets: u64,
    /// The payload type and the payload of the first; of SRTP, decrypted.
    pub first: Option<(u8, Box<[u8]>)>,
}

/// A media action, its text rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaCommand {
    /// `<exec play_pcap_audio="…">` and its kin.
    Play {
        /// The medium: it decides the destination.
        kind: PlayKind,
        /// The path of the capture.
        file: String,
    },
    /// Digits and, after a comma, milliseconds.
    PlayDtmf(String),
    /// `file[,loops[,payload type[,codec/rate]]]`.
    Stream(String),
    /// `rtp_stream="pause"`.
    PauseStream,
    /// `rtp_stream="resume"`.
    ResumeStream,
    /// `rtp_stream="apattern,…"` or `"vpattern,…"`.
    Pattern {
        /// True for `vpattern`.
        video: bool,
        /// Pattern number, loops, payload type and codec, between commas.
        spec: String,
    },
    /// `rtp_stream="pauseapattern"` or `"pausevpattern"`.
    PausePattern {
        /// True for video.
        video: bool,
    },
    /// `rtp_stream="resumeapattern"` or `"resumevpattern"`.
    ResumePattern {
        /// True for video.
        video: bool,
    },
    /// `rtp_echo="startaudio,…"` or `"startvideo,…"`.
    EchoStart {
        /// True for video.
        video: bool,
        /// Payload type and codec, between commas.
        spec: String,
    },
    /// `rtp_echo="updateaudio,…"` or `"updatevideo,…"`.
    EchoUpdate {
        /// True for video.
        video: bool,
        /// Payload type and codec, between commas.
        spec: String,
    },
    /// `rtp_echo="stopaudio"` or `"stopvideo"`.
    EchoStop {
        /// True for video.
        video: bool,
    },
    /// `<rtp_echo value>`.
    EchoCall(bool),
}

/// `<rtpcheck>`, its digits rendered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Requirement {
    /// True: the video stream is checked, not the audio.
    pub video: bool,
    /// `min_packets`: received at least.
    pub min_packets: Option<u64>,
    /// `max_packets`: received at most.
    pub max_packets: Option<u64>,
    /// `max_loss`: percent of the packets expected.
    pub max_loss: Option<f64>,
    /// `max_jitter`: milliseconds (RFC 3550 §6.4.1).
    pub max_jitter: Option<f64>,
    /// `max_reordered`: packets behind a later one.
    pub max_reordered: Option<u64>,
    /// `min_mos`: 1 to 5, as estimated from loss, jitter and codec.
    pub min_mos: Option<f64>,
    /// `dtmf`: exactly these digits since the last check.
    pub dtmf: Option<String>,
    /// `min_speech`, `speech`: milliseconds of sound that is not silence, at least.
    pub min_speech: Option<u64>,
    /// `max_silence`: milliseconds of silence in a row, at most.
    pub max_silence: Option<u64>,
    /// `two_way`: both directions carried media, or (false) did not.
    pub two_way: Option<bool>,
}
