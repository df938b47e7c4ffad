//! A node's part in a farm: the council ([`council`]), and the sockets of its links to other nodes ([`links`]).
//!
//! [`agent`] joins the council and the machine of the node's membership (`cluster::farm`) on a thread of its own; it tells the shards of each new [`view::FarmView`]. Where the nodes share a
//! [`database`], it takes buckets there and gives the shards [`order`]s about them. The links
//! belong to a shard, so that a message to another node passes no other thread. A [`table`] at the council has what nodes share besides.

#![warn(missing_docs)]

pub mod agent;
pub mod council;
pub mod database;
pub mod links;
pub mod order;
pub mod secret;
pub mod table;
mod tenure_log;
pub mod view;
