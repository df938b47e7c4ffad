//! The owner of buckets of accounts: bindings, presence, call states, messages kept for later.
//!
//! Protocol-neutral: SIP edges ask it today, XMPP sessions will. `interface` is the whole conversation.

pub mod interface;

pub use interface::*;
