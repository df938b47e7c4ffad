//! The owner of buckets of accounts: bindings, presence, call states, messages kept for later.
//!
//! Protocol-neutral: SIP edges ask it today, XMPP sessions will. `interface` is the whole conversation.

#![warn(missing_docs)]

mod admission;
mod bound_target;
mod buckets;
mod calls;
mod contact;
pub mod interface;
mod kept;
pub mod limits;
mod location;
mod owned_buckets;
mod presence;
mod questions;
mod record;
mod registrar;
mod router;
mod soft;
mod watch;

pub use bound_target::{BoundTarget, bound_targets};
pub use buckets::{BucketSet, bindings_of_record};
pub use calls::forget_calls;
pub use contact::contact_key;
pub use interface::*;
pub use owned_buckets::{BucketEffect, OwnedBuckets, ReadFailed, RowPage, WaitingQuestion};
pub use questions::{OpenQuestions, QuestionEffect};
pub use record::{Corrupt, aor as aor_of_record, decode as decode_record, encode as encode_record};
pub use router::{BindingRow, Counts, Effect, Router, RouterSettings, WriteFailed};
