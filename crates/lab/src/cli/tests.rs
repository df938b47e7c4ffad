//! Flags, values, mistakes, codes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lab_sip::options::{ArrivalPattern, CallIdType, Protocol, ScenarioName, Sockets};
use lab_sip::stats::Count;

use super::flags::{self, FlagAction, FlagArgument, LiveView, ParsedArguments};
use super::value::{self, DefaultUnit};
use super::{ExitCode, help, parse};
use crate::engine::{RunEnd, RunOutcome};
use crate::screen::tests::progress;

fn words(line: &str) -> Result<ParsedArguments, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    parse("ringer sip", &words).map_err(|misuse| misuse.0)
}

fn asked(line: &str) -> ParsedArguments {
    words(line).unwrap_or_else(|why| panic!("{line}: {why}"))
}

#[test]
fn the_seeds_command_runs_word_for_word() {
    let asked = asked(
        "-sf ./uac_pcap.xml -s 1234 127.0.0.1:5080 -mi 127.0.0.1 -l 200 -m 6000 -r 50 \
         -trace_screen -recv_timeout 400000 -t un -nr",
    );
    let options = asked.options;
    assert_eq!(options.scenario.main, Some(ScenarioName::File("./uac_pcap.xml".into())));
    assert_eq!(options.call.service, "1234");
    assert_eq!(options.remote.expect("a target").address, "127.0.0.1:5080".parse().expect("an address"));
    assert_eq!(options.media.ip, "127.0.0.1".parse().ok());
    assert_eq!((options.rate.limit, options.rate.total), (Some(200), Some(6000)));
    assert!((options.rate.calls - 50.0).abs() < f64::EPSILON);
    assert!(options.files.screen.on && options.timers.no_retransmission);
    assert_eq!(options.timers.recv_timeout, Some(Duration::from_secs(400)));
    assert_eq!(options.network.transport.sockets, Sockets::PerCall);
    assert_eq!(asked.action, FlagAction::Run);
}

#[test]
fn round_robin_needs_a_socket_that_is_not_bound_to_one_address() {
    let options = asked("-round_robin localhost -i 127.0.0.1 -tls_handshake_timeout 2500").options;
    assert_eq!(options.network.in_turn, ["127.0.0.1:5060".parse().expect("an address")]);
    assert_eq!(options.network.tls_handshake, Some(Duration::from_millis(2_500)));
    assert_eq!(asked("-tls_handshake_timeout 0 127.0.0.1").options.network.tls_handshake, None);
    assert_eq!(asked("127.0.0.1").options.network.in_turn, []);
    // One address is no choice: nothing is shared wrongly.
    assert!(words("-t t1 -round_robin 127.0.0.1").is_ok());
}

#[test]
fn no_flag_is_there_twice_and_each_is_explained() {
    let mut seen = std::collections::BTreeSet::new();
    for flag in flags::all() {
        assert!(seen.insert(flag.name), "-{} twice", flag.name);
        assert!(flag.help.ends_with('.'), "-{}: {}", flag.name, flag.help);
    }
}

/// Every flag `sipp -h` of 3.6.1 lists, and those that came with 3.7.
#[test]
fn sipps_flags_are_all_known() {
    let names = "sd sf oocsf oocsn sn t i p bind_local ci cp max_socket max_reconnect reconnect_close \
        reconnect_sleep rsa multihome heartbeat assocmaxret pathmaxret pmtu gracefulclose v bg nostdin plugin \
        sleep skip_rlimit buff_size sendbuffer_warn lost key set tdmmap dynamicStart dynamicMax dynamicStep aa \
        base_cseq cid_str d deadcall_wait auth_uri au ap s default_behaviors nd pause_msg_ign callid_slash_ign \
        inf infindex ip_field mi rtp_echo mb mp rtp_payload rtp_threadtasks rtp_buffsize r rp rate_scale \
        rate_increase rate_max rate_interval no_rate_quit l m users recv_timeout send_timeout timeout \
        timeout_error max_retrans max_invite_retrans max_non_invite_retrans nr rtcheck T2 3pcc master slave \
        slave_cfg timer_resol max_recv_loops max_sched_loops watchdog_interval watchdog_reset \
        watchdog_minor_threshold watchdog_major_threshold watchdog_major_maxtriggers \
        watchdog_minor_maxtriggers f trace_stat stat_delimiter stf fd periodic_rtd trace_msg message_file \
        message_overwrite trace_shortmsg shortmessage_file shortmessage_overwrite trace_counts trace_err \
        error_file error_overwrite trace_error_codes trace_calldebug calldebug_file calldebug_overwrite \
        trace_screen screen_file screen_overwrite trace_rtt rtt_freq trace_logs log_file log_overwrite \
        ringbuffer_files ringbuffer_size max_log_size tls_cert tls_key tls_ca tls_crl tls_version \
        bind_to_device rxsf rxinf min_rtp_port max_rtp_port rtpcheck_debug srtpcheck_debug audiotolerance \
        videotolerance random_base_ssrc rfc3339 round_robin tls_handshake_timeout ws_path ws_handshake_timeout";
    for name in names.split_whitespace() {
        let flag = flags::find(&format!("-{name}")).unwrap_or_else(|| panic!("-{name}"));
        // And every one that takes a value says so when there is none.
        if flag.takes != FlagArgument::Nothing {
            let why = words(&format!("-{name}")).expect_err(name);
            assert!(why.contains("Missing argument"), "{why}");
        }
    }
}

#[test]
fn times_in_every_form() {
    let of = |text: &str, unit| value::time(text, unit).map(|time| time.as_millis());
    for (text, millis) in [
        ("250", 250),
        ("250ms", 250),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("01:30", 90_000),
        ("1:00:00", 3_600_000),
        ("00:00:01.5", 1_500),
    ] {
        assert_eq!(of(text, DefaultUnit::Milliseconds), Ok(millis), "{text}");
    }
    assert_eq!(of("20", DefaultUnit::Seconds), Ok(20_000));
    for wrong in ["", "abc", "5x", "-3", "1:2:3:4", "1:", ":5", "1.2.3", "1e9999"] {
        assert!(of(wrong, DefaultUnit::Seconds).is_err(), "{wrong}");
    }
}

#[test]
fn bare_numbers_have_the_unit_sipp_gives_them() {
    let options = asked("-timeout 20 -fd 5 -f 2 -sleep 3 -d 200 -rp 2000 -deadcall_wait 10 -T2 500").options;
    assert_eq!(options.timers.global, Some(Duration::from_secs(20)));
    assert_eq!(options.files.stat_period, Duration::from_secs(5));
    assert_eq!(options.files.screen_period, Duration::from_secs(2));
    assert_eq!(options.rate.interval, Duration::from_secs(5), "follows -fd");
    assert_eq!(options.behaviour.start_after, Duration::from_secs(3));
    assert_eq!(options.call.pause, Duration::from_millis(200));
    assert_eq!(options.rate.period, Duration::from_secs(2));
    assert_eq!(options.call.dead_call_wait, Duration::from_millis(10));
    assert_eq!(options.timers.t2, Duration::from_millis(500));
}

#[test]
fn addresses_in_every_form() {
    let of = |text: &str| value::address(text, 5060, None).map(|address| address.to_string());
    assert_eq!(of("127.0.0.1"), Ok("127.0.0.1:5060".to_owned()));
    assert_eq!(of("127.0.0.1:5080"), Ok("127.0.0.1:5080".to_owned()));
    assert_eq!(of("[::1]:5080"), Ok("[::1]:5080".to_owned()));
    assert_eq!(of("[::1]"), Ok("[::1]:5060".to_owned()));
    assert_eq!(of("::1"), Ok("[::1]:5060".to_owned()));
    let like = "127.0.0.1".parse().ok();
    let named = value::address("localhost:5070", 5060, like).expect("a name every system has");
    assert_eq!(named, "127.0.0.1:5070".parse().expect("an address"));
    for wrong in ["", "[::1", "[::1]5080", "127.0.0.1:99999", "127.0.0.1:x"] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn transports() {
    for (text, protocol, sockets) in [
        ("u1", Protocol::Udp, Sockets::Shared),
        ("ui", Protocol::Udp, Sockets::PerAddress),
        ("tn", Protocol::Tcp, Sockets::PerCall),
        ("l1", Protocol::Tls, Sockets::Shared),
        ("ws", Protocol::Ws, Sockets::Shared),
        ("wssn", Protocol::Wss, Sockets::PerCall),
    ] {
        let transport = asked(&format!("-t {text} -inf a.csv")).options.network.transport;
        assert_eq!((transport.protocol, transport.sockets), (protocol, sockets), "{text}");
    }
    assert!(words("-t s1").expect_err("SCTP").contains("SCTP"));
    for wrong in ["u", "x2", "u11", "ti"] {
        words(&format!("-t {wrong}")).expect_err(wrong);
    }
}

/// SIPp runs with it, and nothing times out.
#[test]
fn the_error_of_a_time_out_needs_no_time_out() {
    let timers = asked("-sn uac 127.0.0.1 -timeout_error").options.timers;
    assert!(timers.global_is_error && timers.global.is_none());
}

#[test]
fn mistakes_are_named() {
    for (line, wanted) in [
        ("-zz 127.0.0.1", "Invalid argument: '-zz'"),
        ("-trace_mgs", "Did you mean '-trace_msg'?"),
        ("--reprot x", "Did you mean '--report'?"),
        ("-r abc", "-r, \"abc\" is not a floating point number!"),
        ("-m -1", "is not an integer"),
        ("-p 70000", "from 0 to 65535"),
        ("-key one", "Missing argument for param '-key'"),
        ("-users 5 -l 3", "-users is specified"),
        ("-l 3 -users 5", "-users is specified"),
        ("-plugin x.so", "plug-ins"),
        ("-pmtu 1500", "SCTP"),
        ("-lost 200", "more than 100"),
        ("-default_behaviors all,-sing", "Unknown default behavior"),
        ("-slave_cfg /nowhere", "/nowhere: cannot be read"),
        ("-infindex a.csv 0", "Could not find file for -infindex: a.csv"),
        ("-reconnect_close perhaps", "not a boolean"),
        ("127.0.0.1 127.0.0.2", "Two targets"),
        ("--check=yes", "takes no value"),
        ("--threads 0", "at least one"),
        ("--arrivals late", "even or poisson"),
        ("-tdmmap {1}", "-tdmmap"),
        ("-rp 0", "period of nothing"),
        ("-master a", "-slave_cfg"),
    ] {
        let why = words(line).expect_err(line);
        assert!(why.contains(wanted), "{line}: {why}");
    }
}

#[test]
fn repeatable_flags_add_up_and_two_dashes_are_taken() {
    let asked = asked(
        "--sf a.xml -key a 1 -key b 2 -inf x.csv -inf d/y.csv -infindex y.csv 0 -set v 3 --source 127.0.0.2 \
         --source 127.0.0.3 --watch 12 --watch belfry --threshold p99<5ms --for 30 --arrivals poisson \
         --live never --report=out.html -default_behaviors all,-bye --rewrite-rtp --measure -base_cseq 7",
    );
    let options = asked.options;
    assert_eq!(options.behaviour.keys.len(), 2);
    assert_eq!(options.injection.files.len(), 2);
    assert_eq!(options.behaviour.set, [("v".to_owned(), "3".to_owned())]);
    assert_eq!(options.network.local.len(), 2);
    assert_eq!(asked.outputs.watch, ["12", "belfry"]);
    assert_eq!(asked.outputs.thresholds, ["p99<5ms"]);
    assert_eq!(asked.outputs.report, Some(PathBuf::from("out.html")));
    assert_eq!(asked.outputs.live, LiveView::Never);
    assert_eq!(options.rate.duration, Some(Duration::from_secs(30)));
    assert_eq!(options.rate.arrivals, ArrivalPattern::Poisson);
    assert!(!options.call.defaults.bye && options.call.defaults.check_cseq);
    assert!(options.media.rewrite && options.media.measure);
    assert_eq!(options.call.base_cseq, 6, "the first request takes the next");
}

#[test]
fn the_flags_of_sipps_later_versions_are_taken() {
    let peers = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(peers.path(), "a;127.0.0.1:5070\n").expect("written");
    let line = format!(
        "-sn uac 127.0.0.1 -cid_type uuid -primary a -secondary_cfg {} -t wn -ws_path /sip -p 0x13c4 -m 010",
        peers.path().display()
    );
    let options = asked(&line).options;
    assert_eq!(options.call.call_id_type, Some(CallIdType::Uuid));
    assert_eq!(options.three_pcc.master.as_deref(), Some("a"));
    assert_eq!(
        (options.network.transport.protocol, options.network.transport.sockets),
        (Protocol::Ws, Sockets::PerCall)
    );
    assert_eq!(options.network.ws_path, "/sip");
    assert_eq!(options.network.local_port, Some(5060), "hexadecimal");
    assert_eq!(options.rate.total, Some(10), "decimal, whatever it begins with");
    for (line, wanted) in [
        ("-cid_type other", "uuid, uuid-compact, random or timestamp"),
        ("-ws_path sip", "begins with /"),
        ("-p 0xzz", "not an integer"),
        ("-primary a -secondary b", "not compatible"),
    ] {
        let why = words(line).expect_err(line);
        assert!(why.contains(wanted), "{line}: {why}");
    }
}

#[test]
fn m_csv_counts_the_lines_of_the_first_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users.csv");
    std::fs::write(&file, "SEQUENTIAL\na;1\nb;2\nc;3\n").expect("written");
    let built = |line: &str| crate::cli::setup::load(asked(line).options);
    let built_with = built(&format!("-sn uac 127.0.0.1 -m_csv -inf {}", file.display())).expect("it builds");
    assert_eq!(built_with.setup.options.rate.total, Some(3));
    let mistakes = built("-sn uac 127.0.0.1 -m_csv").expect_err("no file");
    assert!(mistakes[0].0.contains("add -inf FILE"), "{mistakes:?}");
}

#[test]
fn a_flag_that_only_prints_wins() {
    assert_eq!(asked("-sd uas -zz").action, FlagAction::Dump("uas".to_owned()));
    assert_eq!(asked("-v").action, FlagAction::Version);
    assert_eq!(asked("-h").action, FlagAction::Help);
    assert_eq!(asked("-h stat").action, FlagAction::HelpStat);
    assert_eq!(asked("--check -sn uas").action, FlagAction::Check);
}

#[test]
fn peers_are_read_with_their_lines() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("peers.cfg");
    std::fs::write(&file, "# all\nm;127.0.0.1:8080\n\ns1;[::1]:8081\n").expect("written");
    let peers = value::peers(&file.to_string_lossy()).expect("right");
    assert_eq!(peers[1], ("s1".to_owned(), "[::1]:8081".parse().expect("an address")));
    std::fs::write(&file, "m;127.0.0.1:8080\nbroken\n").expect("written");
    assert!(value::peers(&file.to_string_lossy()).expect_err("wrong").contains("peers.cfg:2:"));
}

#[test]
fn missing_files_stop_before_the_run() {
    let run = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        super::ringer(&words)
    };
    assert_eq!(run("sip -sf /nowhere/at.xml 127.0.0.1"), ExitCode::Fatal);
    assert_eq!(run("sip -sn nosuch 127.0.0.1"), ExitCode::Fatal);
    assert_eq!(run("spi"), ExitCode::Fatal);
    assert_eq!(run(""), ExitCode::Fatal);
    let options = asked("-sf /nowhere/at.xml -inf /nowhere/in.csv -sn nosuch -oocsf /nowhere/o.xml").options;
    let mistakes = super::build(options).expect_err("all wrong");
    let said: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "every mistake, not the first: {said:?}");
    assert!(said.iter().any(|line| line.starts_with("/nowhere/in.csv: cannot be read")), "{said:?}");
}

fn outcome(failed: u64, succeeded: u64, end: RunEnd, limited: bool) -> RunOutcome {
    let mut progress = progress();
    progress.total.counts[Count::FailedCall] = failed;
    progress.total.counts[Count::SuccessfulCall] = succeeded;
    let limited_by_ringer = limited.then(|| "late".to_owned()).into_iter().collect();
    RunOutcome { progress, end, limited_by_ringer }
}

#[test]
fn the_lowest_media_port_is_that_of_the_scenario_too() {
    for (flags, port, lowest) in [
        ("", 6000, 6000),
        ("-min_rtp_port 20000", 20_000, 20_000),
        ("-mp 7000", 7000, 7000),
        ("-mp 7000 -min_rtp_port 20000", 7000, 20_000),
        ("-min_rtp_port 20000 -mp 7000", 7000, 20_000),
    ] {
        let media = asked(flags).options.media;
        assert_eq!((media.port, media.min_port), (port, lowest), "{flags}");
    }
}

#[test]
fn sources_of_ui_are_in_field_0_unless_another_is_named() {
    assert_eq!(asked("127.0.0.1 -t ui -inf a.csv").options.injection.ip_field, Some(0));
    assert_eq!(asked("127.0.0.1 -t ui -inf a.csv -ip_field 2").options.injection.ip_field, Some(2));
    assert_eq!(asked("127.0.0.1 -t ui -i 127.0.0.1 --source 127.0.0.2").options.injection.ip_field, None);
    assert_eq!(asked("127.0.0.1 -inf a.csv").options.injection.ip_field, None);
}

#[test]
fn exit_codes_are_sipps_and_our_own() {
    for (failed, succeeded, end, limited, code) in [
        (0, 5, RunEnd::Normal, false, 0),
        (1, 5, RunEnd::Normal, false, 1),
        (0, 5, RunEnd::Internal, false, 97),
        (0, 0, RunEnd::Timeout, false, 97),
        (0, 5, RunEnd::Timeout, false, 0),
        (0, 0, RunEnd::Normal, false, 99),
        (0, 0, RunEnd::Terminated, false, 0),
        (0, 5, RunEnd::Terminated, false, 0),
        (1, 5, RunEnd::Terminated, false, 1),
        (0, 5, RunEnd::Fatal, false, 255),
        (20, 0, RunEnd::NoAccounts, false, 255),
        (0, 5, RunEnd::Normal, true, 98),
        (2, 5, RunEnd::Normal, true, 1),
    ] {
        let outcome = outcome(failed, succeeded, end, limited);
        assert_eq!(ExitCode::of_run(&outcome, false).code(), code, "{end:?} {failed} {succeeded} {limited}");
    }
    assert_eq!(ExitCode::of_run(&outcome(0, 5, RunEnd::Timeout, false), true).code(), 255);
    let mut checked = outcome(1, 5, RunEnd::Normal, false);
    checked.progress.total.counts[Count::FailedRtpCheck] = 1;
    assert_eq!(ExitCode::of_run(&checked, false).code(), 253);
    let mut by_error_action = outcome(1, 5, RunEnd::Internal, false);
    by_error_action.progress.total.counts[Count::FatalErrors] = 1;
    assert_eq!(ExitCode::of_run(&by_error_action, false).code(), 255);
    assert_eq!(ExitCode::of_start(254).code(), 254);
    assert_eq!(ExitCode::of_start(255).code(), 255);
}

#[test]
fn a_progress_line_has_the_main_figures() {
    let mut progress = progress();
    progress.total.counts[Count::FailedCall] = 3;
    progress.total.counts[Count::FailedMaxUdpRetrans] = 3;
    assert_eq!(
        super::progress_lines::line(&progress),
        "    2s  0.0/10.0 cps  0 open  20 ok  3 failed (no-answer 3)  p50 1.2 ms  p99 1.2 ms"
    );
    progress.gauges.stage = "making friends";
    progress.gauges.friends = Some((1_200, 14_000));
    let line = super::progress_lines::line(&progress);
    assert!(line.contains("(no-answer 3)  making friends, 1200 of 14000  p50"), "{line}");
}

#[test]
fn help_names_every_flag_and_fits_a_terminal() {
    let help = help::sip("ringer sip");
    for flag in flags::all() {
        assert!(help.contains(&flag.usage()), "{}", flag.usage());
    }
    let widest = help.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= 130, "{widest}");
    assert!(help::top().contains("sip"));
}

#[test]
fn the_committed_page_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ringer-options.md");
    let made = help::page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &made).expect("docs can be written");
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == made,
        "docs/ringer-options.md is not what the code makes; write it anew: BLESS=1 cargo test -p lab"
    );
}
