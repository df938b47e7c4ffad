//! For scenarios without media.

use stdx::time::Instant;

use crate::call::Media;
use crate::rtp::{Command, PortKind, RemoteMedia, Requirement};
use crate::stats::Stats;

pub(super) struct NoMedia;

impl Media for NoMedia {
    fn port(&mut self, _: u64, _: PortKind, _: i32) -> Result<u16, String> {
        Err("this run has no media".to_owned())
    }

    fn remote(&mut self, _: u64, _: &RemoteMedia) {}

    fn command(&mut self, _: Instant, _: u64, _: &Command) -> Result<(), String> {
        Err("this run has no media".to_owned())
    }

    fn check(&mut self, _: Instant, _: u64, _: &Requirement) -> Result<(), String> {
        Err("this run has no media".to_owned())
    }

    fn crypto(&mut self, _: u64, _: &str) -> Result<String, String> {
        Err("this run has no media".to_owned())
    }

    fn close(&mut self, _: Instant, _: u64, _: &mut Stats) {}
}
