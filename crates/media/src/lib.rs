//! Media: RTP, its codecs, telephone events, SRTP and what a receiver measures. No socket and no clock.

pub mod codec;
pub mod events;
pub mod pcap;
pub mod quality;
pub mod rtcp;
pub mod rtp;
pub mod srtp;
pub mod tone;
pub mod wav;
