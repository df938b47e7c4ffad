//! Accounts in files (XEP-0227): the export of another server, read user by user.
//!
//! A [`Document`] cuts a file into its users and keeps one of them at a time; [`read_user`] makes of one what the store has of an
//! account. Neither opens a file: where an include leads is the caller's to judge. [`ExportedAccount`] is the way back.
//!
//! Openfire's own export (`openfire`) is read in the same way: its users become those of XEP-0227.
//!
//! A feature says in `imported` which form its data take here. The command `belfry account import` follows
//! includes, and the store writes an account with all its rows in one transaction while no node runs: a running host
//! would not see the rows.

mod credentials;
mod document;
mod export;
mod lexer;
mod openfire;
#[cfg(test)]
mod tests;
mod user;

use xmpp::{Level, Specification};

pub use credentials::Credentials;
pub use document::{Document, PieError, Piece};
pub use export::ExportedAccount;
pub use user::{Fault, SkippedElements, User, read_user};

pub(crate) const SPECIFICATIONS: &[Specification] = &[Specification {
    name: "XEP-0227",
    title: "Portable Import/Export Format for XMPP-IM Servers",
    version: "1.1",
    level: Level::Partial,
    file: "crates/chat/src/pie/mod.rs",
    note: "import while the node is stopped, of privacy lists what blocks addresses; export without archives",
}];
