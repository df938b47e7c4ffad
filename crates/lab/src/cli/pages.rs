//! The manual pages and the completions of `ringer`, made of the tables that the parser and the help read.
//!
//! `examples/ringer_pages` writes them for the package. Pages are roff with the macros of `man(7)`; completions offer commands and flags, and files
//! in all other places.

use std::fmt::Write as _;

use super::flags::{self, Flag, FlagArgument, FlagGroup};
use super::{COMMANDS, help, xmpp};

/// The files by their names, with their texts.
pub fn all() -> Vec<(&'static str, String)> {
    vec![
        ("ringer.1", top_page()),
        ("ringer-sip.1", sip_page()),
        ("ringer-xmpp.1", xmpp_page()),
        ("ringer.bash", bash()),
        ("_ringer", zsh()),
        ("ringer.fish", fish()),
    ]
}

/// A text as roff: a backslash is not the begin of an escape, a dash can be copied into a shell, and a line that begins with a dot is no macro.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped
        .lines()
        .map(|line| if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.into() });
    lines.collect::<Vec<_>>().join("\n")
}

/// Backquotes are of Markdown; a page has quotes of its own.
fn sentence(text: &str) -> String {
    roff(&text.replace('`', ""))
}

fn head(name: &str, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {} 1 \"\" \"ringer {version}\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
        name.to_uppercase(),
        roff(name),
        sentence(about)
    )
}

/// A term with its text below.
fn term(page: &mut String, name: &str, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(page, ".TP\n.B {}\n{}", roff(name), sentence(text));
}

fn top_page() -> String {
    let mut page = head("ringer", "load lab for SIP and XMPP servers");
    page.push_str(".B ringer\nCOMMAND ...\n.SH COMMANDS\n");
    for command in COMMANDS {
        term(&mut page, command.name, command.about);
    }
    page.push_str(".PP\nEach command says more with\n.BR \\-\\-help .\n.SH SEE ALSO\n.BR ringer\\-sip (1),\n.BR ringer\\-xmpp (1)\n");
    page
}

fn sip_page() -> String {
    let mut page = head("ringer-sip", "run a SIPp scenario, with SIPp's flags");
    page.push_str(".B ringer sip\n[HOST[:PORT]] [OPTIONS]\n");
    for group in FlagGroup::ALL {
        let _ = writeln!(page, ".SH {}", group.title().to_uppercase());
        for flag in flags::all().filter(|flag| flag.group == group) {
            term(&mut page, &flag.usage(), flag.help);
        }
    }
    let _ = write!(
        page,
        ".SH EXIT CODES AND CONTROL\n.nf\n{}\n{}\n.fi\n",
        roff(help::CODES),
        roff(help::CONTROL)
    );
    page.push_str(".SH SEE ALSO\n.BR ringer (1)\n");
    page
}

fn xmpp_page() -> String {
    let mut page = head("ringer-xmpp", "users of an XMPP server, who account for every message");
    page.push_str(".B ringer xmpp\nHOST[:PORT] [OPTIONS]\n.SH OPTIONS\n");
    let _ = writeln!(page, "{}", sentence(xmpp::UNITS));
    for flag in xmpp::FLAGS {
        term(&mut page, &format!("{} {}", flag.name, flag.value), flag.about);
    }
    page.push_str(".SH SEE ALSO\n.BR ringer (1)\n");
    page
}

/// The commands whose flags are completed, and the flags as they are written. `find` and `run` take those of the load that they are given.
fn flags_of_commands() -> [(&'static str, Vec<String>); 2] {
    let sip = flags::all().map(Flag::written).collect();
    [("sip", sip), ("xmpp", xmpp::FLAGS.iter().map(|flag| flag.name.to_owned()).collect())]
}

fn bash() -> String {
    let commands: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    let mut text = format!(
        "_ringer() {{\n    local words=\n    case \"$COMP_CWORD,${{COMP_WORDS[1]}}\" in\n        1,*) words=\"{}\" ;;\n",
        commands.join(" ")
    );
    for (command, flags) in flags_of_commands() {
        let _ = writeln!(text, "        *,{command}) words=\"{}\" ;;", flags.join(" "));
    }
    text.push_str("    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\n");
    text.push_str("complete -o default -F _ringer ringer\n");
    text
}

fn zsh() -> String {
    let mut text =
        String::from("#compdef ringer\nlocal -a choices\nif (( CURRENT == 2 )); then\n    choices=(\n");
    for command in COMMANDS {
        let _ = writeln!(text, "        {}", quoted(&format!("{}:{}", command.name, command.about), "'\\''"));
    }
    text.push_str("    )\n    _describe command choices\n    return\nfi\ncase ${words[2]} in\n");
    for (command, flags) in flags_of_commands() {
        let _ = writeln!(text, "    {command}) choices=({}) ;;", flags.join(" "));
    }
    text.push_str("esac\ncompadd -a choices\n_files\n");
    text
}

fn fish() -> String {
    let mut text = String::new();
    let quoted = |text: &str| quoted(&text.replace('\\', "\\\\"), "\\'");
    for command in COMMANDS {
        let _ = writeln!(
            text,
            "complete -c ringer -f -n __fish_use_subcommand -a {} -d {}",
            command.name,
            quoted(command.about)
        );
    }
    let mut flag = |command: &str, written: &str, takes_value: bool, about: &str| {
        // Two dashes, one dash and a letter, or one dash and a word.
        let name = match (written.strip_prefix("--"), written.trim_start_matches('-')) {
            (Some(long), _) => format!("-l {long}"),
            (None, short) if short.len() == 1 => format!("-s {short}"),
            (None, old) => format!("-o {old}"),
        };
        let value = if takes_value { " -r" } else { "" };
        let seen = format!("__fish_seen_subcommand_from {command}");
        let _ = writeln!(text, "complete -c ringer -n '{seen}' {name}{value} -d {}", quoted(about));
    };
    for sip in flags::all() {
        flag("sip", &sip.written(), sip.takes != FlagArgument::Nothing, sip.help);
    }
    for xmpp in xmpp::FLAGS {
        flag("xmpp", xmpp.name, true, xmpp.about);
    }
    text
}

/// A word of a shell in single quotes; `quote` stands for one in it.
fn quoted(text: &str, quote: &str) -> String {
    format!("'{}'", text.replace('\'', quote))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    fn text(name: &str) -> String {
        all().into_iter().find(|(found, _)| *found == name).expect("it is made").1
    }

    #[test]
    fn pages_and_completions_have_every_flag() {
        for flag in flags::all() {
            assert!(text("ringer-sip.1").contains(&roff(&flag.usage())), "{}", flag.usage());
            assert!(text("ringer.bash").contains(&flag.written()), "{}", flag.written());
            assert!(text("_ringer").contains(&flag.written()), "{}", flag.written());
        }
        for flag in xmpp::FLAGS {
            assert!(text("ringer-xmpp.1").contains(&roff(flag.name)), "{}", flag.name);
            assert!(
                text("ringer.fish").contains(&format!("-l {}", flag.name.trim_start_matches('-'))),
                "{}",
                flag.name
            );
        }
        assert!(COMMANDS.iter().all(|command| text("ringer.1").contains(command.about)));
    }

    #[test]
    fn texts_are_no_macros_and_no_escapes() {
        assert_eq!(roff("a\\n\n.SH\n'x -sn"), "a\\en\n\\&.SH\n\\&'x \\-sn");
        assert_eq!(quoted("SIPp's", "\\'"), "'SIPp\\'s'");
    }

    #[test]
    fn bash_completes_commands_and_flags() {
        let words = |line: &[&str]| {
            let script = format!(
                "{}COMP_WORDS=({}); COMP_CWORD={}; _ringer; echo ${{COMPREPLY[@]}}\n",
                text("ringer.bash"),
                line.join(" "),
                line.len() - 1
            );
            let mut bash =
                Command::new("bash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
            bash.stdin.take().expect("piped").write_all(script.as_bytes()).expect("bash reads");
            let output = bash.wait_with_output().expect("our own child");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        assert_eq!(words(&["ringer", "rep"]), "report");
        assert_eq!(words(&["ringer", "sip", "-rtp_e"]), "-rtp_echo");
        assert_eq!(words(&["ringer", "xmpp", "--logi"]), "--logins");
    }
}
