//! Every `ringer` command that a page shows is one that the command line takes.

use super::{COMMANDS, parse, xmpp};
use crate::command;

/// Reads the words behind `ringer` as far as this goes without files, servers and a run.
fn read(words: &[String]) -> Result<(), String> {
    let Some((name, rest)) = words.split_first() else { return Ok(()) };
    match name.as_str() {
        "sip" => parse("ringer sip", rest).map(drop).map_err(|mistake| mistake.0),
        "xmpp" if rest.first().is_some_and(|word| word == "--actions") => Ok(()),
        "xmpp" if rest.first().is_some_and(|word| word == "accounts") => xmpp::read_accounts(&rest[1..]),
        "xmpp" => xmpp::build(rest).map(drop),
        _ if COMMANDS.iter().any(|command| command.name == name) => command::read(name, rest),
        _ => Err(super::no_command(name)),
    }
}

#[test]
fn every_command_of_a_page_is_taken_by_the_command_line() {
    let (mut mistakes, commands) = (Vec::new(), page_commands::commands("ringer"));
    for command in &commands {
        // The list of unsteady tests names a test program that has the same name, and its tests.
        if command.is_in_text && command.words.get(1).is_some_and(|word| word.contains('_')) {
            continue;
        }
        let Err(mistake) = read(&command.words[1..]) else { continue };
        // A text names commands without their arguments, and with letters in place of addresses.
        let is_unknown =
            ["unknown flag", "is no command", "Invalid argument"].iter().any(|known| mistake.contains(known));
        if is_unknown || !command.is_in_text {
            mistakes.push(format!("{}\n    {mistake}", command.place));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    assert!(commands.len() > 50, "only {} commands were found", commands.len());
}

#[test]
fn a_mistaken_command_is_not_taken() {
    let read = |line: &str| read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(read("sip -sn uac 127.0.0.1:5060 -m 5"), Ok(()));
    for line in [
        "sip -sn uac -nonsense",
        "xmpp 127.0.0.1:5222 --nonsense 1",
        "xmpp accounts --nonsense 1",
        "find -r nonsense",
        "find --plan cgp-r4 --nonsense",
        "find xmpp 127.0.0.1:5222 --nonsense 1",
        "run cgp-r4 --nonsense",
        "run no-such-plan",
        "report a.json --nonsense",
        "report --compare a.json b.json --nonsense",
        "record call.pcap --nonsense",
        "nonsense",
    ] {
        assert!(read(line).is_err(), "ringer {line}");
    }
}
