//! Explanations: of scenarios that come with Ringer, of every kind of step, of files that are no scenarios.

use super::super::{BUILT_IN_NAMES, built_in};
use super::*;

fn of(name: &'static str) -> Explanation {
    explain(built_in(name).expect("it is built in").as_bytes(), ScenarioSource::BuiltIn(name))
}

fn of_text(text: &str) -> Explanation {
    explain(text.as_bytes(), ScenarioSource::File("t.xml".into()))
}

#[test]
fn the_callee_in_words() {
    assert_eq!(
        of("uas").to_string(),
        "uas: \"Callee\", server, 7 steps, 1 response-time counter, with media: answers calls that the peer starts\n\
         \n\
         Each call:\n\
         \x20  0. waits for a request INVITE (line 4)\n\
         \x20  1. sends 180 Ringing (line 6)\n\
         \x20  2. sends 200 OK (line 18)\n\
         \x20     - over UDP sent again after 500 ms, then twice that, until it is answered\n\
         \x20  3. may receive a request ACK; a later step's message skips this one (line 39)\n\
         \x20     - stops the response-time counter `1`\n\
         \x20  4. waits for a request BYE (line 41)\n\
         \x20  5. sends 200 OK (line 43)\n\
         \x20  6. ends the call, and answers retransmissions of the peer for 4 s (line 54)\n"
    );
}

#[test]
fn every_scenario_of_ringers_is_explained_without_a_gap() {
    for name in BUILT_IN_NAMES {
        let explanation = of(name);
        assert!(explanation.valid && !explanation.steps.is_empty(), "{name}");
        let text = explanation.to_string();
        assert!(!text.contains('?'), "{name}: a keyword or variable without a name: {text}");
        let json = serde_json::to_value(&explanation).expect("plain data");
        assert_eq!(json["steps"].as_array().map(Vec::len), Some(explanation.steps.len()), "{name}");
    }
}

#[test]
fn branches_timers_and_conditions_are_told() {
    let text = of_text(
        "<scenario name='x'><Global variables='limit'/>\n\
         <label id='again'/>\n\
         <send retrans='500' start_rtd='a' lost='5'><![CDATA[\nOPTIONS sip:[field1]@[mykey] SIP/2.0\nVia: x;branch=[branch-2]\n\n]]></send>\n\
         <recv response='486' optional='true' next='again' chance='0.5' test='limit'/>\n\
         <recv response='200' timeout='1500' ontimeout='end' rrs='true' auth='true' rtd='a'>\n\
         <action><ereg regexp='a(.)' search_in='hdr' header='To:' check_it='true' assign_to='all,one'/>\n\
         <test assign_to='t' variable='limit' compare='less_than' value='3'/>\n\
         <log message='[$all] [$one] [$t]'/></action></recv>\n\
         <pause distribution='uniform' min='10' max='20' condexec='t' condexec_inverse='true'/>\n\
         <label id='end'/></scenario>",
    );
    assert!(text.valid, "{text}");
    let said = text.to_string();
    for wanted in [
        "  label `again`:\n   0. sends OPTIONS sip:[field1]@[mykey] SIP/2.0 (line 3)",
        "- dropped on purpose in 5 % of all cases",
        "- starts the response-time counter `a`",
        "- then goes to step 0 (label `again`) if $limit is set with probability 0.5, when it came",
        "- waits 1500 ms at most",
        "- when its time is over, goes to the end (label `end`)",
        "- keeps the challenge for [authentication]",
        "- looks for a regular expression in the header To:, into $all, $one; the call fails unless it matches",
        "- tests $limit < 3, into $t",
        "- logs \"[$all] [$one] [$t]\"",
        "pauses 10 to 20 ms, each as likely",
        "- only if $t is not set",
        "needs HOST:PORT: the target of the calls",
        "takes -set limit VALUE: ",
        "needs -inf FILE: [field1], a value of each call's line (line 3)",
        "needs -key mykey VALUE: the value of [mykey] (line 3)",
    ] {
        assert!(said.contains(wanted), "{wanted:?} is missing in\n{said}");
    }
}

#[test]
fn captures_that_are_built_in_are_not_needed() {
    let said = of("uac_pcap").to_string();
    for name in ["pcap/g711a.pcap", "pcap/dtmf_2833_1.pcap"] {
        assert!(said.contains(&format!("  takes {name}: ")), "{said}");
        assert!(!said.contains(&format!("needs {name}")), "{said}");
    }
    let said = of_text(
        "<scenario><recv request='A'/>\n<nop><action><exec play_pcap_audio='own.pcap'/></action></nop></scenario>",
    );
    assert!(said.to_string().contains("  needs own.pcap: a media file that is played (line 2)"), "{said}");
}

#[test]
fn parts_without_effect_and_parts_unknown_to_sipp_are_listed_with_their_lines() {
    let said = of_text(
        "<scenario><recv request='A' td='x'/>\n<nop><action><rtpcheck min_packets='5' two_way='true'/></action></nop></scenario>",
    );
    assert_eq!(said.warnings.len(), 2, "{said:?}");
    let said = said.to_string();
    assert!(said.contains("t.xml:2: <rtpcheck> is Ringer's own"), "{said}");
    assert!(said.contains("t.xml:1: `td` means nothing on <recv>"), "{said}");
    assert!(
        said.contains("requires of the received media: at least 5 packets, media in both directions"),
        "{said}"
    );
}

#[test]
fn a_scenario_that_is_not_valid_has_its_mistakes_alone() {
    for (text, line, part) in [
        ("<scenario><recv request='A'/>\n<sendd/></scenario>", 2, "<sendd> is no element"),
        ("<scenario><recv request='A'/>\n<nop><action><eregg/></action></nop></scenario>", 2, "ereg"),
        ("<scenario><send><![CDATA[\nINVITE x", 1, "never closed"),
        ("", 1, "no element at all"),
        ("{}", 1, "no element at all"),
    ] {
        let said = of_text(text);
        assert!(!said.valid && said.steps.is_empty(), "{text}");
        assert!(said.mistakes.iter().any(|it| it.line == line && it.text.contains(part)), "{text}: {said:?}");
        assert!(said.to_string().contains("t.xml: not valid, 1 mistake"), "{said}");
    }
}
