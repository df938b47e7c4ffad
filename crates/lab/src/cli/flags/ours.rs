//! Long options: what SIPp has no flag for.
//!
//! The help shows them with two dashes, but the parser takes one or two before every flag: a name here must be none of SIPp's.

use lab_sip::options::ArrivalPattern;

use super::FlagArgument::{Nothing, One};
use super::FlagGroup::Ringer;
use super::{Flag, FlagAction, LiveView, done, flag, put, some};
use crate::cli::value::{DefaultUnit, address, integer, ip, time};

#[rustfmt::skip]
pub(super) const FLAGS: &[Flag] = &[
    flag("check", Ringer, Nothing, "Compile the scenario, injection and media files, say what is wrong, and make no call.", |a, _| done(&mut a.action, FlagAction::Check)),
    flag("explain", Ringer, One("FILE|NAME"), "Say in words what a scenario, or one that comes with Ringer, does step by step and what it needs; with --json FILE (- for standard output) as JSON. No call is made.", |a, v| done(&mut a.action, FlagAction::Explain(v[0].to_owned()))),
    flag("schema", Ringer, Nothing, "Print the XML Schema of the scenario language, for editors.", |a, _| done(&mut a.action, FlagAction::Schema)),
    flag("threads", Ringer, One("N"), "Shards, each on a thread of its own. Default: one a core.", |a, v| {
        let threads = integer::<usize>(v[0])?;
        if threads == 0 { return Err("at least one thread is needed".to_owned()); }
        done(&mut a.options.threads, Some(threads))
    }),
    flag("report", Ringer, One("FILE"), "Write the report, one HTML file with its charts in it.", |a, v| done(&mut a.outputs.report, Some(v[0].into()))),
    flag("json", Ringer, One("FILE"), "Write the report's figures as JSON.", |a, v| done(&mut a.outputs.json, Some(v[0].into()))),
    flag("junit", Ringer, One("FILE"), "Write thresholds and failures as JUnit XML.", |a, v| done(&mut a.outputs.junit, Some(v[0].into()))),
    flag("prometheus", Ringer, One("ADDR"), "Serve metrics for Prometheus at this address while the run lasts.", |a, v| {
        // Checked now and resolved again when the exporter starts: a mistake is to be told with the flag's name.
        address(v[0], crate::prometheus::DEFAULT_PORT, None)?;
        done(&mut a.outputs.prometheus, Some(v[0].to_owned()))
    }),
    flag("watch", Ringer, One("PID|NAME"), "Record CPU and resident memory of this process. May be repeated.", |a, v| { a.outputs.watch.push(v[0].to_owned()); Ok(()) }),
    flag("plan", Ringer, One("FILE"), "Take the run from a plan; flags given beside it win.", |a, v| done(&mut a.outputs.plan, Some(v[0].into()))),
    flag("source", Ringer, One("IP"), "A source address beside -i; calls use them in turn, one a socket. May be repeated.", |a, v| { a.options.network.local.push(ip(v[0])?); Ok(()) }),
    flag("dns", Ringer, One("IP[:PORT]"), "Ask this server for the NAPTR and SRV records of the target. Default: those of /etc/resolv.conf.", |a, v| some(&mut a.dns, address(v[0], 53, None))),
    flag("arrivals", Ringer, One("even|poisson"), "Space new calls evenly (default) or as a Poisson process of the same rate.", |a, v| {
        put(&mut a.options.rate.arrivals, match v[0] {
            "even" => Ok(ArrivalPattern::Even),
            "poisson" => Ok(ArrivalPattern::Poisson),
            other => Err(format!("\"{other}\" is not even or poisson")),
        })
    }),
    flag("for", Ringer, One("TIME"), "Start calls for this long, then end when the open ones are done. Bare numbers are seconds.", |a, v| some(&mut a.options.rate.duration, time(v[0], DefaultUnit::Seconds))),
    flag("measure", Ringer, Nothing, "Receive and measure media even where the scenario asks nothing of it.", |a, _| done(&mut a.options.media.measure, true)),
    flag("rewrite-rtp", Ringer, Nothing, "Give a replayed capture a fresh SSRC, sequence and timestamp at each play, so that the same digit is heard again.", |a, _| done(&mut a.options.media.rewrite, true)),
    flag("threshold", Ringer, One("EXPR"), "What the run must keep; a missed one is exit code 99. May be repeated.", |a, v| { a.outputs.thresholds.push(v[0].to_owned()); Ok(()) }),
    flag("live", Ringer, One("never|auto"), "The live view: only on a terminal (auto, default) or never.", |a, v| {
        put(&mut a.outputs.live, match v[0] {
            "never" => Ok(LiveView::Never),
            "auto" => Ok(LiveView::Auto),
            other => Err(format!("\"{other}\" is not never or auto")),
        })
    }),
    flag("version", Ringer, Nothing, "Print the version.", |a, _| done(&mut a.action, FlagAction::OwnVersion)),
];
