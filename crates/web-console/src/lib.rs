//! The operators' console: pages for browsers, and the REST interface under `/v1/admin` that they use.
//!
//! A [`Console`] has the routes of HTTP; its handlers run wherever those are served. Their requests to the node go through a bounded
//! queue to [`NodeQueries`], which answers on the thread of the node's operator, as commands are answered. Nothing of the pages comes
//! from another host, and nothing but their own files is run by them.

#![warn(missing_docs)]

mod application_routes;
mod assets;
mod directory;
mod docs;
mod fault;
mod guard;
mod handlers;
mod history;
mod http;
pub mod limits;
mod node;
pub mod openapi;
mod parameters;
mod role;
mod room_routes;
mod routes;
mod sessions;
mod sign_in;
mod state;
#[cfg(test)]
mod tests;
mod traces;

pub use directory::{
    AuthorizationRequest, Directory, DirectoryAnswer, DirectoryTimes, PasswordVerdict, ReturnedCode,
    RoleVerdict, TokenUser, TokenVerdict,
};
pub use node::NodeQueries;
pub use role::{Role, Roles};
pub use state::{
    Applications, AuditLine, Console, ConsoleLog, DocumentSource, FailedSignIn, Fetched, Invitations,
    NumberSource, RoleChange, Settings,
};
