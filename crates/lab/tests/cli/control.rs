//! Control of a run from outside: signals, the control port, `-bg`; and its trace files while it runs.

use std::net::UdpSocket;

use crate::program::{Place, address, runs, signal, until};

/// Tells the control port of a run.
fn tell(address: &str, port: u16, text: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.send_to(text.as_bytes(), (address, port)).expect("sent");
}

#[test]
fn signals_dump_screens_and_end_the_run() {
    let place = Place::new();
    for (name, code) in [("USR1", 99), ("TERM", 0), ("INT", 0)] {
        let (uas, _) = place.uas("");
        uas.signal("USR2");
        let dumped = place.file(&format!("{}_screen.log", uas.id()));
        let text = std::fs::read_to_string(dumped).expect("read");
        assert!(text.contains("Scenario Screen") && text.contains("Statistics Screen"), "{text}");
        uas.signal(name);
        let said = uas.end();
        assert_eq!(said.code, Some(code), "{name}: {said:?}");
        assert!(said.out.contains("Test Terminated"), "{name}: {said:?}");
    }
}

/// A control port beyond those that SIPp and Ringer take at every address by default, from 8888 on.
const CONTROL_PORT: u16 = 7899;

#[test]
fn the_control_port_changes_rate_limit_and_traces() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let own = address();
    let mut uac = place.start(&format!(
        "sip -sn uac {server}:5060 -i {own} -r 5 -d 1 -ci {own} -cp {CONTROL_PORT} -trace_logs"
    ));
    uac.heard("/5.0 cps");
    tell(&own, CONTROL_PORT, "cset rate 50");
    uac.heard("/50.0 cps");
    tell(&own, CONTROL_PORT, "ctrace messages on");
    tell(&own, CONTROL_PORT, "ctrace shortmessages on");
    until("messages", || place.read("_messages.log").contains("UDP message"));
    // The first may be of a call that has begun before.
    until("short messages", || place.read("_shortmessages.log").contains("CSeq:1 INVITE"));
    tell(&own, CONTROL_PORT, "ctrace error on");
    tell(&own, CONTROL_PORT, "cdump tasks");
    until("the tasks", || place.read("_errors.log").contains("Running tasks: "));
    tell(&own, CONTROL_PORT, "cdump variables");
    until("the variables", || place.read("_errors.log").contains("Variables Screen"));
    tell(&own, CONTROL_PORT, "cset moon 1");
    uac.heard("Unknown set command: \"moon\"");
    tell(&own, CONTROL_PORT, "+");
    uac.heard("/51.0 cps");
    tell(&own, CONTROL_PORT, "p");
    uac.heard("/0.0 cps");
    tell(&own, CONTROL_PORT, "q");
    let said = uac.end();
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn in_the_background_it_runs_on_without_a_terminal() {
    let place = Place::new();
    let said = place.run(&format!("sip -sn uas -i {} -p 5060 -bg -trace_screen", address()));
    assert_eq!(said.code, Some(99), "as SIPp's first process: {said:?}");
    let id: u32 = said
        .out
        .trim()
        .strip_prefix("Background mode - PID=[")
        .and_then(|rest| rest.strip_suffix(']'))
        .and_then(|id| id.parse().ok())
        .expect("the line that scripts read");
    // pid, name, state, parent, group, session, terminal.
    until("a session of its own", || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields[3] == id.to_string() && fields[4] == "0"
    });
    for stream in 0..3 {
        let to = std::fs::read_link(format!("/proc/{id}/fd/{stream}")).expect("it runs");
        assert_eq!(to.to_string_lossy(), "/dev/null", "stream {stream}");
    }
    signal(id, "USR2");
    assert!(place.read("_screen.log").contains("Sipp Server Mode"));
    signal(id, "USR1");
    until("its end", || !runs(id));
    assert!(place.read("_screen.log").contains("Test Terminated"));
}
