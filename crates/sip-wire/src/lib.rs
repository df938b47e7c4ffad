//! The wire format of RFC 3261 §7 and §25: one buffer, lazily indexed; values are typed when asked for.
//!
//! A proxy changes a few headers and forwards every other byte as it came, so nothing here builds a tree:
//! [`Message`] knows where lines start and end, [`Rewrite`] cuts and pastes, [`Reply`] and [`RequestBuilder`] write anew.
//!
//! Nothing here knows a transaction, a dialog or a transport: the crate `sip` has those, and gives this one to its users as
//! `sip::wire`.

#![warn(missing_docs)]

mod address;
mod build;
mod check;
mod date;
pub mod framing;
mod header;
pub mod limits;
mod message;
mod method;
mod params;
mod places;
mod raw_header;
mod rewrite;
mod scan;
mod uri;
mod uri_form;
mod values;
mod via;

pub use address::Address;
pub use build::{PRODUCT, Reply, RequestBuilder, write_via_with_source};
pub use check::{Fault, check_request, check_response};
pub use date::{DateText, parse_date, write_date};
pub use header::Header;
pub use message::{Message, MessageKind, ParseError, Unparsed, group_lines, has_one_via, top_branch};
pub use method::{ALLOW, Method};
pub use params::{Param, Params};
pub use raw_header::{raw_call_id, raw_header_value};
pub use rewrite::Rewrite;
pub use scan::{early_position, eq_ignore_case, lossy, parse_number, quoted_end, trim, write_number};
pub use uri::{Scheme, Uri, UriError, escape_user, parse_ip, unescape};
pub use uri_form::request_uri;
pub use values::Values;
pub use via::{MAGIC_COOKIE, Via};
