//! The numbers of enumerations as bytes of messages.

use std::fmt::Debug;

use golden::Golden;

use super::WIRE;
use super::chat::{CONDITIONS, ERROR_KINDS, OUTBOUND_OUTCOMES};
use super::file::{FILE_FAULTS, FILE_KINDS};
use super::room_sound::CODECS;
use super::room_values::{BEEPS, METHODS, PAUSES, RECORDING_CALLBACKS, ROOM_CALLBACKS};
use super::shared::HANDLINGS;
use super::values::{
    ADMIT_REFUSED, KEEP_REFUSED, OFFERED, PHASES, PUBLISH_REFUSED, REGISTER_REFUSED, SHOWS, TOPICS,
    TRANSPORTS,
};

fn line(name: &str, all: &[impl Debug]) -> String {
    format!("{name} {all:?}\n")
}

/// A number of an enumeration is a place in its list: a list may only grow at its end, in a new version.
#[test]
fn the_numbers_of_enumerations_are_as_in_their_file() {
    let lists = [
        line("transport", &TRANSPORTS),
        line("topic", &TOPICS),
        line("phase", &PHASES),
        line("show", &SHOWS),
        line("offered", &OFFERED),
        line("register-refused", &REGISTER_REFUSED),
        line("publish-refused", &PUBLISH_REFUSED),
        line("keep-refused", &KEEP_REFUSED),
        line("admit-refused", &ADMIT_REFUSED),
        line("chat-condition", &CONDITIONS),
        line("chat-error-kind", &ERROR_KINDS),
        line("file-kind", &FILE_KINDS),
        line("file-fault", &FILE_FAULTS),
        line("response-handling", &HANDLINGS),
        line("codec", &CODECS),
        line("beep", &BEEPS),
        line("method", &METHODS),
        line("room-callback", &ROOM_CALLBACKS),
        line("outbound-outcome", &OUTBOUND_OUTCOMES),
        line("recording-callback", &RECORDING_CALLBACKS),
        line("pause", &PAUSES),
    ];
    let kept = Golden::new(env!("CARGO_MANIFEST_DIR"), "src/wire/enumerations", WIRE.1);
    kept.check("lists.txt", &lists.concat());
    kept.assert_released_are_closed();
    let (before, now) = (kept.files(WIRE.0), kept.files(WIRE.1));
    for (before, now) in before["lists.txt"].lines().zip(now["lists.txt"].lines()) {
        assert!(now.starts_with(before.trim_end_matches(']')), "{before} is now {now}");
    }
}
