//! Each rule of matching.
