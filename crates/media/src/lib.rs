//! Media: RTP, its codecs, telephone events, SRTP and what a receiver measures. No socket and no clock.
