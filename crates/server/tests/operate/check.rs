//! `check-config`, usage and what every command says about a bad configuration.

use super::place::Place;

#[test]
fn mistakes_have_their_own_exit_code_and_place() {
    let place = Place::new();
    assert_eq!(place.belfry(&["check-config", "belfry.toml"]).good(), "belfry.toml: good\n");
    place.write("chat.toml", "[accounts]\ndigests = false\n");
    let result = place.belfry(&["check-config", "chat.toml"]).good();
    assert!(
        result.starts_with("chat.toml: good\n[accounts] digests is false: no phone can sign in"),
        "{result}"
    );
    place.write("bad.toml", "[sip]\nlisen = []\ntcp_idle = \"soon\"\n");
    let result = place.belfry(&["check-config", "bad.toml"]);
    assert_eq!(result.code, 78);
    let lines: Vec<_> = result.err.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert_eq!(lines[0], "belfry: bad.toml:2:1: unknown key `lisen` in [sip]; expected perhaps `listen`");
    assert!(lines[1].starts_with("bad.toml:3:12: `tcp_idle` is \"soon\"; expected a duration"), "{lines:#?}");
    for command in [&["serve"][..], &["status"], &["account", "list"], &["reload"]] {
        let args = [command, &["--config", "bad.toml"]].concat();
        place.belfry(&args).failed(78, "bad.toml:2:1: ");
    }
    let missing = place.belfry(&["check-config", "none.toml"]);
    assert!(!missing.err.contains("--config"), "{missing:?}");
    missing.failed(
        78,
        "none.toml: cannot be read: No such file or directory (os error 2); give the path of a configuration",
    );
    place
        .belfry(&["status", "--config", "none.toml"])
        .failed(78, "name another file with --config or BELFRY_CONFIG");
}

#[test]
fn certificates_are_read_with_their_keys() {
    let place = Place::new();
    place.write("tls.toml", "[tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n");
    let check = || place.belfry(&["check-config", "tls.toml"]);
    check().failed(78, "tls.toml:2:15: `certificate` names a.pem, which cannot be read");
    for name in ["a", "b"] {
        let own = rcgen::generate_simple_self_signed(["belfry.test".to_owned()]).unwrap();
        place.write(&format!("{name}.pem"), &own.cert.pem());
        place.write(&format!("{name}.key"), &own.signing_key.serialize_pem());
    }
    assert_eq!(check().good(), "tls.toml: good\n");
    place.write("tls.toml", "[tls]\ncertificate = \"a.pem\"\nkey = \"b.key\"\n");
    check().failed(
        1,
        "[tls] b.key: is the key of another certificate than a.pem; a node with it does not start",
    );
    place.write("tls.toml", "[tls]\ncertificate = \"a.key\"\nkey = \"a.pem\"\n");
    check().failed(1, "[tls] a.key: no certificate in this file");
}

#[test]
fn files_of_accounts_are_read_and_possible_surprises_are_reported_once() {
    let place = Place::new();
    let source = "[[accounts.sources]]\ndomain = \"a.test\"\ntype = \"file\"\naccounts_file = \"people\"\n";
    place.write("file.toml", source);
    let check = || place.belfry(&["check-config", "file.toml"]);
    check().failed(78, "`accounts_file` names people, which cannot be read");
    let line = "alice:{SSHA}JQgdTqjowIvpsbtICxnkg0t7E6xzYWx0c2FsdHNhbHRzYWx0\n";
    place.write("people", &format!("{line}bob:hush\n"));
    check().failed(1, "people:2: a secret of an unknown form; expected bcrypt ($2y$…)");
    place.write("people", line);
    std::fs::set_permissions(place.path("people"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    let good = check().good();
    let lines: Vec<_> = good.lines().collect();
    assert_eq!((lines[0], lines.len()), ("file.toml: good", 3), "{good}");
    assert!(lines[1].contains("people: others than its owner and group may read it"), "{good}");
    assert!(lines[2].starts_with("phones of a.test cannot register with the passwords of"), "{good}");
    std::fs::set_permissions(place.path("people"), std::os::unix::fs::PermissionsExt::from_mode(0o640))
        .unwrap();
    place.write("file.toml", &format!("{source}keep_digests = \"30d\"\n"));
    assert_eq!(check().good(), "file.toml: good\n");
}

#[test]
fn wrong_usage_is_2_and_a_missing_node_69() {
    let place = Place::new();
    place.belfry(&["frobnicate"]).failed(2, "unrecognized subcommand");
    place.belfry(&["account", "add"]).failed(2, "<ACCOUNT>");
    place.belfry(&["trace", "alice", "--for", "soon"]).failed(2, "expected a time, as 30s or 10m");
    for command in [&["status"][..], &["reload"], &["drain"], &["trace", "alice"]] {
        place.belfry(command).failed(69, "start one with: belfry serve");
    }
}

#[test]
fn the_environment_names_the_configuration() {
    let place = Place::new();
    let output = place.command(&["check-config"]).env("BELFRY_CONFIG", "other.toml").output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("other.toml: cannot be read"));
}

/// The blocks of docs/farm.md in their order: a configuration that names the secret, and then the command that makes it.
#[test]
fn a_farms_secret_is_made_beside_a_configuration_that_names_it() {
    let page = std::fs::read_to_string("../../docs/farm.md").unwrap();
    let section = page.split("\n## One configuration for a whole machine\n").nth(1).unwrap();
    let (configuration, commands) = section.split_once("Beside it, the secret is made once:").unwrap();
    let block = |text: &str| -> String {
        let indented = text.lines().filter_map(|line| line.strip_prefix("    "));
        let of_block = |line: &str| format!("{line}\n");
        indented.map(of_block).collect()
    };
    let place = Place::new();
    let before = block(configuration);
    assert!(before.contains("\nsecret = \"farm.secret\"\n"), "{before}");
    place.write("belfry.toml", &before);
    place.belfry(&["check-config"]).failed(78, "`secret` names farm.secret, which cannot be read");
    let commands = block(commands);
    let command: Vec<_> = commands.lines().next().unwrap().split(' ').skip(1).collect();
    let made = place.belfry(&command).good();
    assert_eq!(made, "made farm.secret: copy it to every node, and name it in [farm] secret\n");
    place.belfry(&["check-config"]).good();
}
