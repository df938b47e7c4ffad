//! Programmable voice as plays: who says what, and what the script does about it.

mod attributes;
mod callbacks;
mod dial;
mod documents;
mod gather;
mod interrupted;
mod record;
mod rooms;
mod verbs;
mod world;

pub(crate) use world::{Play, play};
