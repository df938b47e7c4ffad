//! The command line of the built programs: what they print, write and end with.

mod control;
mod disk;
mod explain;
mod find;
mod jabber;
mod program;
mod record;
mod sipp;
mod summary;
mod workers;

use program::{Place, RINGER, SIPP_RINGER, address};

/// The command line of the load-test article of 2014, but for the address.
const SEED: &str = "-sf ./uac_pcap.xml -s 1234 127.0.0.1:5080 -mi 127.0.0.1 -l 200 -m 6000 -r 50 -trace_screen \
                    -recv_timeout 400000 -t un -nr";

#[test]
fn the_seeds_command_is_understood_word_for_word_and_starts() {
    let place = Place::new();
    let scenario = place.run("sip -sd uac_pcap");
    assert_eq!(scenario.code, Some(99), "as SIPp");
    place.write("uac_pcap.xml", &scenario.out);
    let checked = place.run(&format!("sip {SEED} --check"));
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let (_uas, server) = place.uas("");
    let mut uac = place.start(&format!("sip {}", SEED.replace("127.0.0.1:5080", &format!("{server}:5060"))));
    uac.heard(" 0 failed");
    uac.signal("INT");
    let said = uac.end();
    assert!(place.read("_screen.log").contains("INVITE"), "{said:?}");
    assert!(said.out.contains("Test Terminated"), "{said:?}");
}

#[test]
fn a_mistake_in_the_flags_is_reported_with_a_suggestion() {
    let place = Place::new();
    for (words, wanted) in [
        ("sip -sn uac 127.0.0.1 -trace_mgs", "Did you mean '-trace_msg'?"),
        ("sip -sn uac 127.0.0.1 -r fast", "\"fast\" is not a floating point number!"),
        ("sip -sn uac 127.0.0.1 -m", "Missing argument for param '-m'"),
        ("sip -sf nowhere.xml 127.0.0.1", "nowhere.xml: cannot be read: No such file or directory"),
        ("sip -sn uac 127.0.0.1 -inf nowhere.csv", "nowhere.csv: cannot be read: No such file or directory"),
        ("sip -sn uac_pcp 127.0.0.1", "Invalid default scenario name 'uac_pcp'. Did you mean 'uac_pcap'?"),
        ("sip -sn uac", "Missing remote host parameter. This scenario requires it"),
        ("sipp -sn uac", "'sipp' is no command. Did you mean 'sip'?"),
        ("search -sn uac", "'search' is no command. Did you mean 'find'?"),
        ("-sn uac", "'-sn' is a flag of `ringer sip`"),
        ("sip -sn uac 127.0.0.1 --threshold growth<1%/h", "expected --watch PID|NAME as well"),
        ("xmpp 127.0.0.1 --watch x --threshold growth<1%", "bound \"1%\": expected 1%/h"),
    ] {
        let said = place.run(words);
        assert_eq!(said.code, Some(255), "{words}: {said:?}");
        assert!(said.err.contains(wanted), "{words}: {said:?}");
        assert_eq!(said.out, "", "{words}");
    }
}

const GOOD: &str = "<scenario name=\"one\">\n<recv request=\"OPTIONS\"/>\n<send><![CDATA[\nSIP/2.0 200 OK\n[last_Via:]\n[last_From:]\n\
                    [last_To:]\n[last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n\n]]></send>\n</scenario>\n";

#[test]
fn check_shows_a_summary_of_a_scenario_or_every_mistake_with_its_line() {
    let place = Place::new();
    place.write("good.xml", GOOD);
    place.write("users.csv", "SEQUENTIAL\na;b\nc;d\n");
    let said = place.run("sip --check -sf good.xml -inf users.csv");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert_eq!(said.out, "good.xml: server, 2 steps\nusers.csv: 2 lines\n");

    let broken = GOOD.replace("<recv request", "<recvv request").replace("[last_To:]", "[lastt_To:]");
    place.write("broken.xml", &broken);
    let said = place.run("sip --check -sf broken.xml");
    assert_eq!((said.code, said.out.as_str()), (Some(255), ""));
    assert!(said.err.contains("broken.xml:2: "), "{said:?}");
    assert!(said.err.contains("broken.xml: "), "{said:?}");
    assert!(
        said.err.trim_end().ends_with("mistakes") || said.err.trim_end().ends_with("mistake"),
        "{said:?}"
    );

    place.write(
        "keys.xml",
        &GOOD.replace("Content-Length: 0", "X: [field0 file=users.csv]\nContent-Length: 0"),
    );
    let said = place.run("sip --check -sf keys.xml");
    assert_eq!(said.code, Some(255), "{said:?}");
    assert!(said.err.contains("keys.xml:3: ") && said.err.contains("users.csv"), "{said:?}");
    assert_eq!(place.run("sip --check -sf keys.xml -inf users.csv").code, Some(0));

    let media = GOOD.replace(
        "</scenario>",
        "<nop><action>\n<exec play_pcap_audio=\"nowhere.pcap\"/>\n<exec rtp_stream=\"gone.wav\"/>\n</action></nop>\n</scenario>",
    );
    place.write("media.xml", &media);
    let said = place.run("sip --check -sf media.xml");
    assert_eq!(said.code, Some(255));
    for wanted in
        ["media.xml:14: nowhere.pcap cannot be read", "media.xml:15: gone.wav cannot be read", ": 2 mistakes"]
    {
        assert!(said.err.contains(wanted), "{wanted}: {said:?}");
    }
    let run = place.run("sip -sf media.xml -i 127.0.0.1 -p 0");
    assert_eq!(run.code, Some(255), "a run does not begin with it either");
    assert!(run.err.contains("media.xml:14: "), "{run:?}");
}

#[test]
fn check_needs_no_target() {
    let said = Place::new().run("sip --check -sn uac");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.starts_with("uac: client, 9 steps"), "{said:?}");
}

#[test]
fn a_port_that_is_taken_is_254() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let said = place.run(&format!("sip -sn uas -i {server} -p 5060"));
    assert_eq!(said.code, Some(254), "{said:?}");
    assert!(said.err.contains("5060"), "{said:?}");
}

#[test]
fn exit_codes_follow_the_calls() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let good = place.run(&format!("sip -sn uac {server}:5060 -i {} -m 3 -d 1", address()));
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.out.contains("Statistics Screen"), "{good:?}");

    let none = place.run(&format!("sip -sn uac {server}:5060 -i {} -r 0 --for 1", address()));
    assert_eq!(none.code, Some(99), "{none:?}");

    // A server that answers nothing the client wants.
    place.write("refuse.xml", &GOOD.replace("OPTIONS", "INVITE").replace("200 OK", "486 Busy Here"));
    let refusing = address();
    let mut busy = place.start(&format!("sip -sf refuse.xml -i {refusing} -p 5060 --threads 1"));
    busy.heard("cps");
    let failed = place.run(&format!(
        "sip -sn uac {refusing}:5060 -i {} -m 2 -d 1 -trace_error_codes -trace_err -trace_calldebug -fd 1",
        address()
    ));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.err.contains("2 failed: UnexpectedMessage 2"), "{failed:?}");
    let codes: String = place.read("_error_codes.csv");
    assert_eq!(codes.matches("486,").count(), 2, "{codes}");
    let errors = place.read("_errors.log");
    let sentence = "while expecting '100' (index 1), received 'SIP/2.0 486 Busy Here";
    assert!(errors.contains("Aborting call on unexpected message for Call-Id '1-"), "{errors}");
    assert!(errors.contains(sentence), "{errors}");
    let debug = place.read("_calldebug.log");
    assert_eq!(debug.matches("Call debugging information for call ").count(), 2, "{debug}");
    for part in
        ["step 0: the call starts", "step 0: sends\nINVITE sip:", "SIP/2.0 486 Busy Here", "the call ends"]
    {
        assert_eq!(debug.matches(part).count() % 2, 0, "{part}: {debug}");
        assert!(debug.contains(part), "{part}: {debug}");
    }
}

#[test]
fn sipp_ringer_is_ringer_sip() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let said = place.run_as(SIPP_RINGER, &format!("-sn uac {server}:5060 -i {} -m 2 -d 1", address()));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(place.run_as(SIPP_RINGER, "-sd uas").out, place.run("sip -sd uas").out);
    let wrong = place.run_as(SIPP_RINGER, "-zz");
    assert_eq!(wrong.code, Some(255));
    assert!(wrong.err.contains("Use 'sipp-ringer -h' for details"), "{wrong:?}");
}

#[test]
fn ctrl_c_half_way_ends_with_statistics() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let mut uac = place.start(&format!("sip -sn uac {server}:5060 -i {} -r 20 -m 100000 -d 50", address()));
    uac.heard(" ok");
    uac.signal("INT");
    let said = uac.end();
    assert_eq!(said.code, Some(0), "no call has failed: {said:?}");
    assert!(said.out.contains("Statistics Screen") && said.out.contains("Test Terminated"), "{said:?}");
}

#[test]
fn help_and_version_are_printed_on_standard_output() {
    let place = Place::new();
    let bare = place.run("");
    assert_eq!(bare.code, Some(255));
    assert!(bare.err.contains("Usage: ringer COMMAND"), "{bare:?}");
    // SIPp's own flags end with its own code.
    for (words, code) in [("--version", 0), ("-v", 0), ("sip --version", 0)] {
        let said = place.run(words);
        assert_eq!(
            (said.code, said.out.trim_end()),
            (Some(code), concat!("ringer ", env!("CARGO_PKG_VERSION"))),
            "{words}"
        );
    }
    assert_eq!(place.run_as(SIPP_RINGER, "-v").code, Some(99));
    let help = place.run("sip --help");
    for flag in lab::cli::flags::all() {
        assert!(help.out.contains(&flag.written()), "{}", flag.written());
    }
    let top = place.run("--help");
    for command in lab::cli::COMMANDS {
        assert!(top.out.contains(command.name), "{}", command.name);
        let own = place.run(&format!("{} --help", command.name));
        let code = if command.name == "sip" { 99 } else { 0 };
        assert_eq!(own.code, Some(code), "{}: {own:?}", command.name);
    }
    assert!(std::path::Path::new(RINGER).exists());
}
