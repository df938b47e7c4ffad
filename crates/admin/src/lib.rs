//! The REST interface of RestComm and Twilio: accounts, numbers, calls and what comes of them, under
//! `/restcomm/2012-04-24/` and `/2010-04-01/` from one table of handlers ([`table`]); and chat's, under `/v1/xmpp`.
//!
//! The way of a request: `http` reads it, `sign_in` finds the account that asks, `table` finds the route and checks the parameters, the route's
//! handler in `resources` reads or writes rows ([`store::rest`]) or asks the node, and its answer becomes JSON or XML (`value`, `paging`). A new
//! operation is a [`table::Route`] in a file of `resources`.
//!
//! Handlers are plain functions from a request to an answer; they know the record through [`Repository`] and the
//! running node through [`ControlPlane`], and open no socket. [`router`] is the edge: it reads a body, runs a
//! handler on the blocking pool and writes what it says. [`openapi`] describes the same table.

#![warn(missing_docs)]

pub mod chat;
pub mod control;
pub mod date;
pub mod fault;
pub mod first;
mod http;
mod identity;
mod landing;
pub mod limits;
pub mod live;
mod managed;
pub mod nodes;
pub mod numbers;
pub mod openapi;
mod paging;
mod request;
mod resources;
mod service;
mod sign_in;
pub mod table;
pub mod value;

pub use control::{Audio, ControlError, ControlPlane, EncodeError, Encoding, IdentityVerdict, Source};
pub use fault::Fault;
pub use http::{router, sound_body};
pub use identity::bearer;
pub use managed::{
    Collection, ConferenceRow, ManagedResources, MemberRow, PageQuery, QueueRow, ResourcePage, RoomMembers,
    RoomPage,
};
pub use nodes::{MissingNode, NodesAnswered};
pub use request::Base;
pub use service::{Blocking, Repository, State, sid, token};
