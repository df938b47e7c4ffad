//! The run of a scenario.

use std::net::SocketAddr;

use stdx::time::Instant;

use super::message::Incoming;
use super::{Call, Ctx, Identity, TransportFault};
use crate::stats::Count;

/// Timers, retransmission and what matching needs.
#[derive(Debug, Default)]
pub(super) struct Progress {}

pub(super) fn start(_ctx: &mut Ctx<'_>, identity: Identity) -> Call {
    Call {
        identity,
        position: 0,
        deadline: Instant::FAR_FUTURE,
        over: false,
        cseq: 0,
        peer_tag: Box::default(),
        variables: Box::default(),
        lines: Box::default(),
        last_received: None,
        routes: None,
        challenge: None,
        transactions: Box::default(),
        flow: Progress::default(),
    }
}

pub(super) fn handle_message(
    _call: &mut Call,
    _ctx: &mut Ctx<'_>,
    _message: &Incoming<'_>,
    _from: SocketAddr,
) {
}

pub(super) fn handle_command(_call: &mut Call, _ctx: &mut Ctx<'_>, _bytes: &[u8], _peer: Option<&str>) {}

pub(super) fn handle_wake(_call: &mut Call, _ctx: &mut Ctx<'_>) {}

pub(super) fn handle_fault(_call: &mut Call, _ctx: &mut Ctx<'_>, _fault: TransportFault) {}

pub(super) fn abort(_call: &mut Call, _ctx: &mut Ctx<'_>, _why: Count) {}

pub(super) fn run_init(_ctx: &mut Ctx<'_>) -> Result<(), String> {
    Ok(())
}
