//! Transcripts of RFC 3261 §17 in virtual time.
