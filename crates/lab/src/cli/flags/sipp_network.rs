//! SIPp's flags of scenario, network and overall behaviour.
//!
//! Names, files and addresses are only stored here; they are read and resolved when all flags are known (`parse`, `setup`).

use std::time::Duration;

use lab_sip::options::ScenarioName::{BuiltIn, File};

use super::FlagArgument::{Nothing, One, Two};
use super::FlagGroup::{Behaviour, Network, Scenario};
use super::{ApplyFlag, Flag, FlagAction, done, flag, put, some};
use crate::cli::value::{DefaultUnit, boolean, integer, ip, positive, time, transport};

/// SCTP is a build option of SIPp; a run that asks for it would measure something else over TCP.
const NO_SCTP: ApplyFlag =
    |_, _| Err("SCTP support is required for it, and is not built into Ringer".to_owned());

/// A limit in milliseconds; 0 stands for no limit.
fn limit(text: &str) -> Result<Option<Duration>, String> {
    time(text, DefaultUnit::Milliseconds).map(|limit| Some(limit).filter(|limit| !limit.is_zero()))
}

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("h", Scenario, Nothing, "This help; `-h stat` explains the columns of the statistics file.", |a, _| done(&mut a.action, FlagAction::Help)),
    flag("help", Scenario, Nothing, "The same.", |a, _| done(&mut a.action, FlagAction::Help)),
    flag("sd", Scenario, One("NAME"), "Print a built-in scenario.", |a, v| done(&mut a.action, FlagAction::Dump(v[0].to_owned()))),
    flag("sf", Scenario, One("FILE"), "Run this scenario file.", |a, v| done(&mut a.options.scenario.main, Some(File(v[0].into())))),
    flag("sn", Scenario, One("NAME"), "Run a built-in scenario: uac (default), uas, regexp, branchc, branchs, uac_pcap, 3pcc-C-A, 3pcc-C-B, 3pcc-A, 3pcc-B.", |a, v| done(&mut a.options.scenario.main, Some(BuiltIn(v[0].to_owned())))),
    flag("oocsf", Scenario, One("FILE"), "Scenario for messages that belong to no call.", |a, v| done(&mut a.options.scenario.out_of_call, Some(File(v[0].into())))),
    flag("oocsn", Scenario, One("NAME"), "Built-in scenario for messages that belong to no call: ooc_default or ooc_dummy.", |a, v| done(&mut a.options.scenario.out_of_call, Some(BuiltIn(v[0].to_owned())))),
    flag("rxsf", Scenario, One("FILE"), "Scenario for calls that arrive while -sf starts calls.", |a, v| done(&mut a.options.scenario.receive, Some(File(v[0].into())))),
    flag("rxsn", Scenario, One("NAME"), "Built-in scenario for calls that arrive.", |a, v| done(&mut a.options.scenario.receive, Some(BuiltIn(v[0].to_owned())))),

    flag("t", Network, One("MODE"), "Transport: u1 (UDP, one socket; default), un (one a call), ui (one an address), t1, tn (TCP), l1, ln (TLS), w1, wn (WebSocket), x1, xn (WebSocket over TLS); also ws, wsn, wss, wssn.", |a, v| put(&mut a.options.network.transport, transport(v[0]))),
    flag("i", Network, One("IP"), "Local address for Contact, Via and From, and the source of what is sent. Default: the one that routes to the target.", |a, v| {
        // SIPp keeps the last -i; --source adds.
        let address = ip(v[0])?;
        match a.options.network.local.first_mut() {
            Some(first) => *first = address,
            None => a.options.network.local.push(address),
        }
        Ok(())
    }),
    flag("p", Network, One("PORT"), "Local port. Default: 5060, or the next that is free.", |a, v| some(&mut a.options.network.local_port, integer(v[0]))),
    flag("bind_local", Network, Nothing, "Listen on the local address only, not on all.", |a, _| done(&mut a.options.network.bind_local, true)),
    flag("bind_to_device", Network, One("NAME"), "Bind sockets to this network device.", |a, v| done(&mut a.options.network.bind_to_device, Some(v[0].to_owned()))),
    flag("ci", Network, One("IP"), "Address of the control socket. Default: that of -i, and loopback.", |a, v| some(&mut a.options.network.control_ip, ip(v[0]))),
    flag("cp", Network, One("PORT"), "Port of the control socket. Default: 8888, or the next free of 60.", |a, v| some(&mut a.options.network.control_port, integer(v[0]))),
    flag("max_socket", Network, One("N"), "Sockets open at once with one a call; beyond that they are shared. Default: 50000.", |a, v| put(&mut a.options.network.max_sockets, integer(v[0]))),
    flag("max_reconnect", Network, One("N"), "How often a lost connection is made again. Default: 3.", |a, v| put(&mut a.options.network.max_reconnect, integer(v[0]))),
    flag("reconnect_close", Network, One("BOOL"), "Whether calls end when their connection is made again. Default: true.", |a, v| put(&mut a.options.network.reconnect_close, boolean(v[0]))),
    flag("reconnect_sleep", Network, One("TIME"), "Pause before a connection is made again. Bare numbers are milliseconds. Default: 1s.", |a, v| put(&mut a.options.network.reconnect_sleep, time(v[0], DefaultUnit::Milliseconds))),
    flag("rsa", Network, One("HOST[:PORT]"), "Send here, whatever the target is called (an outbound proxy).", |a, v| done(&mut a.rsa, Some(v[0].to_owned()))),
    flag("round_robin", Network, Nothing, "New calls take the addresses of the target's name in turn; with UDP, or a connection a call.", |a, _| done(&mut a.round_robin, true)),
    flag("ws_path", Network, One("PATH"), "Path of the WebSocket request. Default: /.", |a, v| {
        if !v[0].starts_with('/') { return Err(format!("\"{}\" is not a path: it begins with /", v[0])); }
        done(&mut a.options.network.ws_path, v[0].to_owned())
    }),
    flag("tls_cert", Network, One("FILE"), "Certificate, PEM.", |a, v| done(&mut a.options.network.tls.cert, Some(v[0].into()))),
    flag("tls_key", Network, One("FILE"), "Private key, PEM.", |a, v| done(&mut a.options.network.tls.key, Some(v[0].into()))),
    flag("tls_ca", Network, One("FILE"), "Authorities to verify the peer with. Without it the peer is not verified.", |a, v| done(&mut a.options.network.tls.ca, Some(v[0].into()))),
    flag("tls_crl", Network, One("FILE"), "Revocation list.", |a, v| done(&mut a.options.network.tls.crl, Some(v[0].into()))),
    flag("tls_version", Network, One("1.2|1.3"), "Only this version of TLS.", |a, v| done(&mut a.options.network.tls.version, Some(v[0].to_owned()))),
    flag("tls_handshake_timeout", Network, One("TIME"), "How long a TLS handshake may last; 0: for ever. Bare numbers are milliseconds. Default: 10s.", |a, v| put(&mut a.options.network.tls_handshake, limit(v[0]))),
    flag("ws_handshake_timeout", Network, One("TIME"), "The same for a WebSocket handshake.", |a, v| put(&mut a.options.network.ws_handshake, limit(v[0]))),
    flag("multihome", Network, One("IP"), "SCTP; not built.", NO_SCTP),
    flag("heartbeat", Network, One("MS"), "SCTP; not built.", NO_SCTP),
    flag("assocmaxret", Network, One("N"), "SCTP; not built.", NO_SCTP),
    flag("pathmaxret", Network, One("N"), "SCTP; not built.", NO_SCTP),
    flag("pmtu", Network, One("N"), "SCTP; not built.", NO_SCTP),
    flag("gracefulclose", Network, One("BOOL"), "SCTP; not built.", NO_SCTP),

    flag("v", Behaviour, Nothing, "Print the version.", |a, _| done(&mut a.action, FlagAction::Version)),
    flag("bg", Behaviour, Nothing, "Run in the background; prints the process id.", |a, _| done(&mut a.options.behaviour.background, true)),
    flag("nostdin", Behaviour, Nothing, "Do not read keys.", |a, _| done(&mut a.options.behaviour.no_stdin, true)),
    flag("plugin", Behaviour, One("FILE"), "Not possible here; an error.", |_, _| Err("plug-ins of SIPp cannot be loaded by Ringer".to_owned())),
    flag("sleep", Behaviour, One("TIME"), "Wait before the first call. Bare numbers are seconds.", |a, v| put(&mut a.options.behaviour.start_after, time(v[0], DefaultUnit::Seconds))),
    flag("skip_rlimit", Behaviour, Nothing, "Do not raise the limit on open files.", |a, _| done(&mut a.options.behaviour.skip_rlimit, true)),
    flag("buff_size", Behaviour, One("BYTES"), "Send and receive buffers of sockets. Default: 65535.", |a, v| put(&mut a.options.behaviour.buffer_size, integer(v[0]))),
    flag("sendbuffer_warn", Behaviour, One("BOOL"), "Accepted; a send that fails is always a counted failure here, never the end of the run.", |_, v| boolean(v[0]).map(|_| ())),
    flag("lost", Behaviour, One("PERCENT"), "Drop this share of messages on purpose, where the scenario says nothing else.", |a, v| {
        let lost = positive(v[0])?;
        if lost > 100.0 { return Err(format!("\"{}\" is more than 100 per cent", v[0])); }
        done(&mut a.options.behaviour.lost, lost)
    }),
    flag("key", Behaviour, Two("NAME", "VALUE"), "Value of the keyword [NAME]. May be repeated.", |a, v| { a.options.behaviour.keys.push((v[0].to_owned(), v[1].to_owned())); Ok(()) }),
    flag("set", Behaviour, Two("NAME", "VALUE"), "Value of the global variable NAME. May be repeated.", |a, v| { a.options.behaviour.set.push((v[0].to_owned(), v[1].to_owned())); Ok(()) }),
    flag("tdmmap", Behaviour, One("MAP"), "Circuits for [tdmmap], one a call: {0-3}{99}{5-8}{1-31}.", |a, v| {
        crate::screen::tdm::TdmMap::parse(v[0])?;
        done(&mut a.options.behaviour.tdmmap, Some(v[0].to_owned()))
    }),
    flag("dynamicStart", Behaviour, One("N"), "First [dynamic_id]. Default: 10000.", |a, v| put(&mut a.options.behaviour.dynamic.0, integer(v[0]))),
    flag("dynamicMax", Behaviour, One("N"), "Last [dynamic_id]. Default: 12000.", |a, v| put(&mut a.options.behaviour.dynamic.1, integer(v[0]))),
    flag("dynamicStep", Behaviour, One("N"), "Step of [dynamic_id]. Default: 4.", |a, v| put(&mut a.options.behaviour.dynamic.2, integer(v[0]))),
];
