//! The end of a run, for people: percentiles, causes, verdicts, and the report's page.

use crate::jabber::Jabber;
use crate::program::{Place, address};

#[test]
fn a_run_of_calls_ends_with_its_percentiles() {
    let place = Place::new();
    let (_uas, server) = place.uas("");
    let said = place.run(&format!(
        "sip -sn uac {server}:5060 -i {} -m 3 -d 1 --report run.html --threshold response.p99<20s",
        address()
    ));
    assert_eq!(said.code, Some(0), "{said:?}");
    let head = "milliseconds number mean min p50 p90 p95 p99 max";
    let lines: Vec<String> =
        said.err.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let at = lines.iter().position(|line| line == head);
    let at = at.unwrap_or_else(|| panic!("no {head:?}: {said:?}"));
    assert!(
        lines.iter().any(|line| line.starts_with("calls: 3 ok of 3 (100.00 %), 0 failed, 0 blocked, ")),
        "{said:?}"
    );
    assert!(lines[at + 1].starts_with("response 1 3 "), "{said:?}");
    assert!(lines[at + 2].starts_with("call length 3 "), "{said:?}");
    let page = place.read("run.html");
    for wanted in [
        "<pre>ringer sip -sn uac ",
        "'response.p99&lt;20s'</pre>",
        "<figcaption>Ringer's own CPU <small>share of one core</small>",
        "<figcaption>Ringer's own lateness <small>ms</small>",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

#[test]
fn a_run_that_fails_names_the_causes() {
    let place = Place::new();
    place.write(
        "answer.xml",
        "<scenario>\n<recv request=\"INVITE\"/>\n<send><![CDATA[\nSIP/2.0 404 Not Found\n[last_Via:]\n[last_From:]\n\
         [last_To:];tag=1\n[last_Call-ID:]\n[last_CSeq:]\nContent-Length: 0\n\n]]></send>\n<recv request=\"ACK\"/>\n</scenario>\n",
    );
    let refusing = address();
    let mut uas = place.start(&format!("sip -sf answer.xml -i {refusing} -p 5060 --threads 1"));
    uas.heard("cps");
    let said = place.run(&format!("sip -sn uac {refusing}:5060 -i {} -m 2 -d 1", address()));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("\n2 failed: UnexpectedMessage 2\n"), "{said:?}");
    assert!(said.err.contains("\nanswers that were not expected: 404 2\n"), "{said:?}");
    let last = said.err.lines().rfind(|line| line.contains(" cps ")).expect("a progress line");
    assert!(
        last.contains("2 failed") && !last.contains("(unexpected"),
        "the summary names the causes: {said:?}"
    );
}

/// A call fails after 32 seconds (RFC 3261 §17.1.1.2); a wrong address shows after four.
#[test]
fn a_target_that_does_not_answer_is_told_of_early() {
    let place = Place::new();
    let silent = std::net::UdpSocket::bind((address(), 5060)).expect("a port");
    let target = silent.local_addr().expect("bound");
    let mut run = place.start(&format!("sip -sn uac {target} -i {} -m 1", address()));
    run.heard(&format!("nothing has answered yet at {target} by UDP: "));
}

#[test]
fn a_run_to_which_nothing_answered_says_so_under_its_failures() {
    let place = Place::new();
    let silent = std::net::UdpSocket::bind((address(), 5060)).expect("a port");
    let target = silent.local_addr().expect("bound");
    let said = place.run(&format!("sip -sn uac {target} -i {} -m 2 -max_retrans 1", address()));
    let wanted = format!(
        "\n2 failed: MaxUdpRetrans 2\nnothing answered at {target} by UDP: 4 messages sent, 2 of them again; \
         check address, port and transport (-t)\n"
    );
    assert!(said.err.contains(&wanted), "{said:?}");
    // Nothing listens at this port by TCP.
    let said = place.run(&format!("sip -sn uac {target} -t tn -i {} -m 2", address()));
    let wanted = format!(
        "\n2 failed: TcpConnect 2\ncannot connect to {target} by TCP: Connection refused (os error 111); \
         check address, port and transport (-t)\n"
    );
    assert!(said.err.contains(&wanted), "{said:?}");
}

/// Users wait for half a minute; a server that takes connections and says nothing shows after four seconds.
#[test]
fn a_server_that_says_nothing_to_users_is_told_of_early() {
    let place = Place::new();
    let silent = std::net::TcpListener::bind((address(), 0)).expect("a port");
    let target = silent.local_addr().expect("bound");
    let words = format!("xmpp {target} --domain d --users 6 --contacts 3");
    let mut run = place.start(&words);
    run.heard(&format!("nothing has been answered yet at {target}, where 6 connections are open: "));
    let mut run = place.start(&format!("{words} --tls direct"));
    run.heard(&format!("no answer by TLS has come yet at {target}, where 6 connections are open: "));
}

#[test]
fn users_without_accounts_end_the_run_with_advice() {
    let place = Place::new();
    let server = Jabber::refusing(&address());
    for workers in ["", "--workers 2"] {
        let words = format!(
            "xmpp {} --domain d --users 60 --contacts 3 --mechanism PLAIN --tls none --logins 100 --for 600 {workers}",
            server.address
        );
        let said = place.run(&words);
        assert_eq!(said.code, Some(255), "{said:?}");
        for wanted in [
            "sign-ins were all refused with not-authorized",
            "user0@d to user59@d are not at",
            "ringer xmpp accounts --users 60 --domain d",
            "belfry account import FILE",
        ] {
            assert!(said.err.contains(wanted), "{wanted}: {said:?}");
        }
    }
}

/// It took 32 seconds, and no line said why.
#[test]
fn users_of_a_closed_port_are_told_so_before_they_begin() {
    let place = Place::new();
    let closed = address();
    for more in ["", "--workers 2"] {
        let said =
            place.run(&format!("xmpp {closed}:5222 --domain d --users 10 --contacts 3 --tls none {more}"));
        assert_eq!(said.code, Some(255), "{said:?}");
        let why = format!("cannot connect to {closed}:5222: Connection refused");
        assert!(said.err.starts_with(&why), "{said:?}");
        assert!(!said.err.contains("signing in") && said.out.is_empty(), "no run began: {said:?}");
    }
}

#[test]
fn help_is_given_wherever_it_is_asked_for() {
    let place = Place::new();
    for words in ["xmpp --help", "xmpp 127.0.0.1 --help", "xmpp 127.0.0.1:5222 --users 5 -h --tls none"] {
        let said = place.run(words);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{words}: {said:?}");
        assert!(said.out.starts_with("usage: ringer xmpp HOST"), "{words}: {said:?}");
    }
    let said = place.run("xmpp 127.0.0.1:5222 --password --help --user 3");
    assert!(said.err.contains("unknown flag --user"), "a value is no flag: {said:?}");
}

#[test]
fn the_page_of_users_speaks_of_users() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let id = std::process::id();
    let said = place.run(&format!(
        "xmpp {} --domain d --users 6 --contacts 3 --tls none --mechanism PLAIN --logins 100 --for 2 --think-fixed 300ms \
         --mix message=1 --watch {id} --threshold growth<1%/h --report users.html --junit users.xml",
        server.address
    ));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.err.contains("\nnot judged: growth<1%/h (nothing: no process was watched for long enough)\n"),
        "{said:?}"
    );
    assert!(!said.err.contains("kept: growth"), "{said:?}");
    assert!(
        place.read("users.xml").contains("<skipped message=\"not judged: nothing: no process was watched")
    );
    let page = place.read("users.html");
    for wanted in [
        "<h1>users at 100 sign-ins/s</h1>",
        "passed, 1 threshold not judged",
        "<figcaption>Sign-ins and actions ",
        "<figcaption>Users signed in ",
        "users at once",
        "<pre>ringer xmpp 127.",
        "'growth&lt;1%/h'",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
    for of_calls in ["Calls", "calls", "retransmissions"] {
        assert!(!page.contains(of_calls), "{of_calls}: {page}");
    }
}
