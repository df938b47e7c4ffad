//! `<rtpcheck>`: what was received so far against what the scenario requires; each miss in words.
//!
//! Three groups: numbers of packets, quality, and content (digits, sound). All misses are told, not only the first.

use media::quality::Summary;

use super::Requirement;

/// The measurements of a medium when it is checked.
#[derive(Debug, Clone, Default)]
pub(super) struct MediumFacts {
    /// Counts, loss, jitter and MOS so far.
    pub(super) summary: Summary,
    /// Heard since the last check.
    pub(super) digits: String,
    /// Packets sent, echoes included.
    pub(super) sent: u64,
    /// Packets SRTP did not let through.
    pub(super) refused: u64,
}

/// `Err` names every requirement that was missed, with what was wanted and what was found.
pub(super) fn check(facts: &MediumFacts, requirement: &Requirement) -> Result<(), String> {
    let mut missed = Vec::new();
    count(facts, requirement, &mut missed);
    quality(facts, requirement, &mut missed);
    content(facts, requirement, &mut missed);
    if missed.is_empty() {
        return Ok(());
    }
    let medium = if requirement.video { "video" } else { "audio" };
    Err(format!("{medium}: {}", missed.join("; ")))
}

/// Numbers of packets and their order, and whether media flowed both ways.
fn count(facts: &MediumFacts, requirement: &Requirement, missed: &mut Vec<String>) {
    let packets = facts.summary.packets;
    if let Some(min) = requirement.min_packets.filter(|min| packets < *min) {
        let refused = match facts.refused {
            0 => String::new(),
            refused => format!(" and {refused} refused by SRTP"),
        };
        missed.push(format!("{packets} packets received{refused}, at least {min} wanted"));
    }
    if let Some(max) = requirement.max_packets.filter(|max| packets > *max) {
        missed.push(format!("{packets} packets received, at most {max} wanted"));
    }
    if let Some(max) = requirement.max_reordered.filter(|max| facts.summary.reordered > *max) {
        missed.push(format!("{} packets out of order, at most {max} wanted", facts.summary.reordered));
    }
    let both = packets > 0 && facts.sent > 0;
    match requirement.two_way {
        Some(true) if !both => {
            missed.push(format!("media both ways wanted: {} packets sent, {packets} received", facts.sent));
        }
        Some(false) if both => {
            missed.push(format!("media one way wanted: {} packets sent, {packets} received", facts.sent));
        }
        _ => {}
    }
}

/// Loss in per cent, the largest jitter in milliseconds, and MOS.
#[expect(clippy::cast_precision_loss, reason = "microseconds of jitter are far below 2^53")]
fn quality(facts: &MediumFacts, requirement: &Requirement, missed: &mut Vec<String>) {
    let summary = &facts.summary;
    // Without a packet there is no quality: every requirement is missed.
    let silent = summary.packets == 0;
    if let Some(max) = requirement.max_loss {
        if silent {
            missed.push(format!("nothing received, at most {max} % loss wanted"));
        } else if summary.loss_percent() > max {
            let (lost, expected) = (summary.lost, summary.expected);
            let percent = summary.loss_percent();
            missed.push(format!("{percent:.2} % lost ({lost} of {expected}), at most {max} % wanted"));
        }
    }
    if let Some(max) = requirement.max_jitter {
        let millis = summary.max_jitter_us as f64 / 1_000.0;
        if silent {
            missed.push(format!("nothing received, at most {max} ms jitter wanted"));
        } else if millis > max {
            missed.push(format!("jitter up to {millis:.1} ms, at most {max} ms wanted"));
        }
    }
    if let Some(min) = requirement.min_mos {
        if silent {
            missed.push(format!("nothing received, a MOS of at least {min} wanted"));
        } else if summary.mos < min {
            missed.push(format!("MOS {:.2}, at least {min} wanted", summary.mos));
        }
    }
}

/// Digits must be equal as a whole; sound and silence are measured in milliseconds.
fn content(facts: &MediumFacts, requirement: &Requirement, missed: &mut Vec<String>) {
    if let Some(digits) = requirement.dtmf.as_ref().filter(|digits| **digits != facts.digits) {
        missed.push(format!("digits \"{}\" heard, \"{digits}\" wanted", facts.digits));
    }
    let summary = &facts.summary;
    if let Some(min) = requirement.min_speech.filter(|min| summary.sound_ms < *min) {
        missed.push(format!("{} ms of sound heard, at least {min} ms wanted", summary.sound_ms));
    }
    if let Some(max) = requirement.max_silence.filter(|max| summary.longest_silence_ms > *max) {
        missed.push(format!(
            "{} ms of silence in one piece, at most {max} ms wanted",
            summary.longest_silence_ms
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> MediumFacts {
        let summary = Summary {
            packets: 98,
            expected: 100,
            lost: 2,
            reordered: 3,
            max_jitter_us: 12_500,
            sound_ms: 700,
            longest_silence_ms: 900,
            mos: 3.9,
            ..Summary::default()
        };
        MediumFacts { summary, digits: "12".to_owned(), sent: 50, refused: 0 }
    }

    fn miss(requirement: &Requirement) -> String {
        check(&facts(), requirement).expect_err("missed")
    }

    #[test]
    fn every_missed_requirement_has_its_text() {
        let none = Requirement::default();
        let cases = [
            (
                Requirement { min_packets: Some(99), ..none.clone() },
                "98 packets received, at least 99 wanted",
            ),
            (Requirement { max_packets: Some(97), ..none.clone() }, "98 packets received, at most 97 wanted"),
            (
                Requirement { max_loss: Some(1.0), ..none.clone() },
                "2.00 % lost (2 of 100), at most 1 % wanted",
            ),
            (
                Requirement { max_jitter: Some(10.0), ..none.clone() },
                "jitter up to 12.5 ms, at most 10 ms wanted",
            ),
            (
                Requirement { max_reordered: Some(2), ..none.clone() },
                "3 packets out of order, at most 2 wanted",
            ),
            (Requirement { min_mos: Some(4.0), ..none.clone() }, "MOS 3.90, at least 4 wanted"),
            (Requirement { dtmf: Some("5".into()), ..none.clone() }, "digits \"12\" heard, \"5\" wanted"),
            (
                Requirement { min_speech: Some(800), ..none.clone() },
                "700 ms of sound heard, at least 800 ms wanted",
            ),
            (
                Requirement { max_silence: Some(500), ..none.clone() },
                "900 ms of silence in one piece, at most 500 ms wanted",
            ),
            (
                Requirement { two_way: Some(false), ..none.clone() },
                "media one way wanted: 50 packets sent, 98 received",
            ),
        ];
        for (requirement, text) in cases {
            assert_eq!(miss(&requirement), format!("audio: {text}"));
        }
        let both = Requirement { video: true, min_packets: Some(99), dtmf: Some("1".into()), ..none };
        assert!(miss(&both).starts_with("video: 98 packets received, at least 99 wanted; digits"));
    }

    #[test]
    fn a_silent_stream_misses_requirements_on_packets() {
        let requirement = Requirement {
            max_loss: Some(1.0),
            max_jitter: Some(1.0),
            min_mos: Some(1.0),
            two_way: Some(true),
            ..Requirement::default()
        };
        let text = check(&MediumFacts::default(), &requirement).expect_err("missed");
        for part in
            ["at most 1 % loss", "at most 1 ms jitter", "a MOS of at least 1", "0 packets sent, 0 received"]
        {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn met_requirements_pass() {
        let requirement = Requirement {
            min_packets: Some(98),
            max_packets: Some(98),
            max_loss: Some(2.0),
            max_jitter: Some(12.5),
            max_reordered: Some(3),
            min_mos: Some(3.9),
            dtmf: Some("12".to_owned()),
            min_speech: Some(700),
            max_silence: Some(900),
            two_way: Some(true),
            video: false,
        };
        assert_eq!(check(&facts(), &requirement), Ok(()));
    }
}
