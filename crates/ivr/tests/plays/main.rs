//! Programmable voice as plays: events, and the effects of the script.

mod attributes;
mod callbacks;
mod dial;
mod documents;
mod dry_run;
mod gather;
mod interrupted;
mod record;
mod rooms;
mod verbs;
mod world;

pub(crate) use world::{Play, play};
