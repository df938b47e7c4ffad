//! Media: SDP, RTP and its codecs, telephone events, SRTP, jitter, prompts, conferences, recordings and the
//! measurements of a receiver. No socket and no clock.

#![warn(missing_docs)]

pub mod codec;
mod conceal;
pub mod dtmf_info;
pub mod events;
pub mod jitter;
pub mod level;
pub mod limits;
pub mod mixer;
pub mod pcap;
pub mod prompt;
pub mod quality;
pub mod record;
pub mod resample;
pub mod rtcp;
pub mod rtp;
pub mod sdp;
pub mod session;
pub mod speech;
pub mod srtp;
pub mod tone;
pub mod wav;
