//! Scenarios of peers through a proxy at 127.0.0.1:`proxy`. Each panics with the peer's output when it fails.

use crate::baresip::Baresip;
use crate::sipp::{Account, Sipp};

/// Calls with a route set: ACK and BYE follow the Record-Routes that the proxies on the way left.
pub fn calls(proxy: u16, user: &str, answerer: Sipp, count: u32) {
    Sipp::calling("dialog.xml", proxy, user, count, 50).succeeds();
    answerer.succeeds();
}

/// The caller gives up while the phone rings: 200 for the CANCEL, 487 for the INVITE, and the phone sees both.
pub fn cancelled(proxy: u16, user: &str, ringing: Sipp) {
    Sipp::calling("give-up.xml", proxy, user, 1, 1).succeeds();
    ringing.succeeds();
}

/// Registers with digest and binds `contact`.
pub fn registers(proxy: u16, user: &str, password: &str, contact: u16) {
    Sipp::for_accounts("register.xml", proxy, &[Account::new(user, password)], contact, 10).succeeds();
}

/// Two phones of one account ring, one answers, the other is told to stop.
pub fn forked(proxy: u16, user: &str, password: &str) {
    let ringing = Sipp::answering("ring.xml", 1);
    let answering = Sipp::answering("answer-late.xml", 1);
    registers(proxy, user, password, ringing.port);
    registers(proxy, user, password, answering.port);
    Sipp::calling("dialog.xml", proxy, user, 1, 1).succeeds();
    answering.succeeds();
    ringing.succeeds();
}

/// Two baresips register, one calls the other, it answers, the caller hangs up.
pub fn phones(proxy: u16, alice: (&str, &str), bob: (&str, &str)) {
    let mut caller = Baresip::start(alice.0, alice.1, proxy);
    let mut callee = Baresip::start(bob.0, bob.1, proxy);
    caller.wait_until_registered();
    callee.wait_until_registered();
    caller.command("dial", &format!("sip:{}@{}", bob.0, crate::DOMAIN));
    callee.expect("CALL_INCOMING");
    callee.command("accept", "");
    caller.expect("CALL_ESTABLISHED");
    callee.expect("CALL_ESTABLISHED");
    caller.command("hangup", "");
    callee.expect("CALL_CLOSED");
}
