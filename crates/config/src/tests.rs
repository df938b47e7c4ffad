use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;

fn mistakes(text: &str) -> Vec<String> {
    match Config::parse(text, Path::new("belfry.toml")) {
        Ok(_) => Vec::new(),
        Err(error) => error.to_string().lines().map(Into::into).collect(),
    }
}

#[test]
fn an_empty_file_is_the_default_and_listens_on_loopback_only() {
    let config = Config::parse("", Path::new("belfry.toml")).unwrap();
    assert_eq!(Config { file: None, ..config.clone() }, Config::default());
    assert!(config.sip.listen.iter().all(|listener| listener.address.ip().is_loopback()));
    assert!(config.http.listen.ip().is_loopback());
    assert_eq!(config.server.control, Path::new("run/belfry/control.sock"));
    assert_eq!(&*config.sip.default_domain, "localhost");
    assert!(config.server.shards > 0);
}

/// A file, and one of the mistakes in it.
const MISTAKES: &[(&str, &str)] = &[
    (
        "[sip]\nlisten = \"udp:127.0.0.1:5060\"\n",
        "2:10: `listen` is \"udp:127.0.0.1:5060\"; expected an array: [ … ]",
    ),
    (
        "[sip]\nlisten = [\n  \"udp:127.0.0.1:5060\",\n  \"sctp:127.0.0.1:5060\",\n]\n",
        "4:3: `listen` is \"sctp:127.0.0.1:5060\"; expected udp:, tcp:, tls:, ws: or wss: with an address and port, \
             as \"udp:127.0.0.1:5060\" or \"tls:[::]:5061\"",
    ),
    (
        "[sip]\ntrusted = [\"carrier.example\"]\n",
        "2:12: `trusted` is \"carrier.example\"; expected an address, as \"192.0.2.7\", a network, as \"10.0.0.0/8\", or \
             tls: and the name of a certificate, as \"tls:sip.example.net\"",
    ),
    ("[sip]\nlisten = []\n", "2:10: `listen` is empty; expected at least one address to listen at"),
    (
        "[sip]\nlisten = [\"udp:[::]:5060\", \"udp:[::]:5060\"]\n",
        "2:10: \"udp:[::]:5060\" stands twice; expected each address once",
    ),
    ("[sip]\nlisen = []\n", "2:1: unknown key `lisen` in [sip]; expected perhaps `listen`"),
    ("\n[spi]\n", "2:2: unknown section `spi`; expected perhaps `sip`"),
    (
        "[limits]\nfoo = 1\n",
        "2:1: unknown key `foo` in [limits]; expected one of connections, connections_per_source",
    ),
    (
        "colour = 1\n",
        "1:1: unknown key outside of a section `colour`; \
             expected one of server, store, sip, tls, http, rest, console, log, hep, telemetry, calls, accounts, routes, limits, voice, s3, xmpp, farm, acme",
    ),
    ("server = 3\n", "1:10: `server` is a value; expected a section, [server]"),
    (
        "[sip]\ntcp_idle = \"10 weeks\"\n",
        "2:12: `tcp_idle` is \"10 weeks\"; expected a duration, as \"500ms\", \"30s\", \"10m\", \"12h\" or \"90d\"",
    ),
    ("[sip]\ntcp_idle = \"1s\"\n", "2:12: `tcp_idle` is \"1s\"; expected \"30s\" to \"1d\""),
    (
        "[sip]\nudp_receive_buffer = 8\n",
        "2:22: `udp_receive_buffer` is 8; expected a size, as \"512KiB\" or \"8MiB\"",
    ),
    (
        "[sip]\nudp_receive_buffer = \"1KiB\"\n",
        "2:22: `udp_receive_buffer` is \"1KiB\"; expected \"64KiB\" to \"1GiB\"",
    ),
    (
        "[sip]\nauthenticate_calls = \"yes\"\n",
        "2:22: `authenticate_calls` is \"yes\"; expected true or false",
    ),
    ("[sip]\ndomains = []\n", "2:11: `domains` has none; expected at least one, as [\"example.net\"]"),
    (
        "[sip]\ndomains = [\"sip:a\", \"b c\"]\n",
        "2:11: \"b c\" is no domain; expected a host name, as \"example.net\"",
    ),
    (
        "[sip]\ndomains = [\"a.test\", \"b.test\"]\ndefault_domain = \"c.test\"\n",
        "3:18: `default_domain` is \"c.test\"; expected one of `domains`: a.test, b.test",
    ),
    (
        "[sip]\nmin_expires = \"10m\"\nmax_expires = \"5m\"\n",
        "3:15: `max_expires` is \"5m\"; expected not less than `min_expires`, \"10m\"",
    ),
    (
        "[sip]\nmax_expires = \"30m\"\n",
        "1:1: `default_expires` is \"1h\"; expected \"1m\" to \"30m\", as `min_expires` and `max_expires` say",
    ),
    (
        "[sip]\nalgorithms = [\"SHA-1\"]\n",
        "2:15: `algorithms` is \"SHA-1\"; expected \"SHA-256\", \"SHA-512-256\" or \"MD5\"",
    ),
    (
        "[sip]\nadvertise = \"sip:a b\"\n",
        "2:13: `advertise` is \"sip:a b\"; expected a host name or address, without port",
    ),
    (
        "[sip]\nadvertise = \"sip.example.net:5062\"\n",
        "2:13: `advertise` is \"sip.example.net:5062\"; expected a host name or address, without port",
    ),
    (
        "[sip]\nadvertise = \"[::1]:5070\"\n",
        "2:13: `advertise` is \"[::1]:5070\"; expected a host name or address, without port",
    ),
    (
        "[sip]\nadvertise = \"x..y\"\n",
        "2:13: `advertise` is \"x..y\"; expected a host name or address, without port",
    ),
    (
        "[sip]\nadvertise = \"1.2.3\"\n",
        "2:13: `advertise` is \"1.2.3\"; expected a host name or address, without port",
    ),
    ("[server]\nshards = 1000\n", "2:10: `shards` is 1000; expected 0 to 256"),
    ("[server]\nshards = -1\n", "2:10: `shards` is -1; expected a whole number"),
    ("[server]\ndata = \"\"\n", "2:8: `data` is \"\"; expected a path in quotes"),
    ("[tls]\ncertificate = \"a.pem\"\n", "2:15: `certificate` without `key`; expected both or none"),
    (
        "[http]\nlisten = \"9090\"\n",
        "2:10: `listen` is \"9090\"; expected an address and port, as \"127.0.0.1:9090\" or \"[::1]:9090\"",
    ),
    (
        "[log]\nlevel = \"inof\"\n",
        "2:9: `level` is \"inof\"; expected error, warn, info, debug or trace, or directives as \"info,server=debug\"",
    ),
    ("[log]\nformat = \"xml\"\n", "2:10: `format` is \"xml\"; expected \"text\" or \"json\""),
    (
        "[sip]\nnameservers = [\"dns.example\"]\n",
        "2:16: `nameservers` is \"dns.example\"; expected an address, as \"192.0.2.53\", \
             or with a port, \"192.0.2.53:5353\"",
    ),
    (
        "[voice]\nmedia = \"0.0.0.0\"\n",
        "2:9: `media` is every address; expected one address, which callers are told",
    ),
    (
        "[voice]\nnumbers = [{ number = \"1\", url = \"http://a/\" }]\n",
        "2:11: `numbers` without `media`; expected `media`, the address for their sound",
    ),
    (
        "[voice]\nmedia_ports = \"20000\"\n",
        "2:15: `media_ports` is \"20000\"; expected a range of at least two ports, as \"20000-39999\"",
    ),
    (
        "[voice]\nopen = true\nredial_on_failure = \"all\"\n",
        "3:21: `redial_on_failure` is \"all\" and `open` is true; expected \"accounts\", or only one of the two",
    ),
    (
        "[voice]\nredial_on_failure = \"always\"\n",
        "2:21: `redial_on_failure` is \"always\"; expected \"never\", \"accounts\" or \"all\"",
    ),
    (
        "[voice]\nmail_relay = \"mail.test\"\n",
        "2:14: `mail_relay` is \"mail.test\"; expected a host and port, as \"mail.example.org:587\"",
    ),
    (
        "[voice]\nmail_relay = \"mail.test:25\"\nmail_security = \"ssl\"\n",
        "3:17: `mail_security` is \"ssl\"; expected \"tls\", \"starttls\" or \"none\"",
    ),
    (
        "[voice]\nmail_relay = \"mail.test:25\"\nmail_user = \"x\"\n",
        "3:13: `mail_user` and `mail_password` belong together; expected both or none of them",
    ),
    (
        "[xmpp]\nlisten = [\"udp:127.0.0.1:5222\"]\n",
        "2:10: `listen` has \"udp:127.0.0.1:5222\"; expected tcp:, tls:, ws: or wss:",
    ),
    (
        "[xmpp]\nrooms = \"rooms.example.net\"\n",
        "2:9: `rooms` is \"rooms.example.net\"; expected one name in lower case, as \"conference\"",
    ),
    (
        "[xmpp.registration]\ninvitations = \"all\"\n",
        "2:15: `invitations` is \"all\"; expected nobody, administrators or users",
    ),
    (
        "[xmpp]\nanonymous = true\n[xmpp.registration]\nopn = true\n",
        "4:1: unknown key `opn` in [xmpp.registration]; expected perhaps `open`",
    ),
    (
        "[xmpp.access]\ntokens = \"1m\"\n",
        "2:10: `tokens` is too short to be of use; expected 0s, or an hour at least",
    ),
    ("[xmpp]\nmax_stanza = \"1KiB\"\n", "2:14: `max_stanza` is \"1KiB\"; expected \"16KiB\" to \"16MiB\""),
];

#[test]
fn a_number_has_a_url_and_perhaps_more() {
    let numbers = |entry: &str| {
        let text = format!("[voice]\nmedia = \"127.0.0.1\"\nnumbers = [{entry}]\n");
        Config::parse(&text, Path::new("belfry.toml")).map(|config| config.voice.numbers)
    };
    let full =
        numbers("{ number = \"+1234\", url = \"http://a\", method = \"get\", fallback = \"https://b/c\" }");
    let full = full.unwrap();
    assert_eq!((&*full[0].number, &*full[0].url), ("1234", "http://a/"));
    assert_eq!(full[0].method, ivr::request::Method::Get);
    assert_eq!(full[0].fallback.as_deref(), Some("https://b/c"));
    for wrong in [
        "{ number = \"1\" }",
        "{ number = \"\", url = \"http://a\" }",
        "{ number = \"1\", url = \"ftp://a\" }",
        "{ number = \"1\", url = \"http://a\", method = \"PUT\" }",
        "{ number = \"1\", url = \"http://a\", uri = \"http://a\" }",
        "\"1\"",
    ] {
        assert!(numbers(wrong).is_err(), "{wrong}");
    }
    let file = "{ number = \"1\", url = \"file:menu.xml\" }";
    let told = numbers(file).unwrap_err().to_string();
    assert!(told.contains("expected `documents`, the folder of such files"), "{told}");
    assert_eq!(
        &*numbers(&format!("{file}]\ndocuments = \"a\"\nspeech = [")).unwrap()[0].url,
        "file:///menu.xml"
    );
}

#[test]
fn the_example_of_make_run_is_sound() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../belfry.toml");
    let config = Config::read(&file).unwrap();
    let numbers: Vec<_> = config.voice.numbers.iter().map(|number| &*number.number).collect();
    assert_eq!(numbers, ["1234", "1235", "1236", "1237", "1238", "1239", "1241"]);
    let folder = config.voice.documents.unwrap();
    let urls = config.voice.numbers.iter().flat_map(|number| [Some(&number.url), number.fallback.as_ref()]);
    for name in urls.flatten().filter_map(|url| url.strip_prefix("file:///")) {
        assert!(folder.join(name).is_file(), "{name}");
    }
}

#[test]
fn a_relay_for_mail_keeps_its_password_to_itself() {
    let text = "[voice]\nmail_relay = \"[::1]:465\"\nmail_security = \"tls\"\nmail_user = \"ivr\"\n\
                mail_password = \"hush\"\nmail_sender = \"ivr@a.test\"\n";
    let mail = Config::parse(text, Path::new("belfry.toml")).unwrap().voice.mail.unwrap();
    assert_eq!((&*mail.host, mail.port, mail.security), ("::1", 465, crate::MailSecurity::Tls));
    assert_eq!(mail.login, Some(("ivr".into(), "hush".into())));
    assert_eq!(mail.sender.as_deref(), Some("ivr@a.test"));
    assert_eq!(format!("{mail:?}"), "MailRelay(::1:465, Tls)");
    assert_eq!(Config::parse("", Path::new("belfry.toml")).unwrap().voice.mail, None);
}

#[test]
fn each_mistake_names_its_place_and_the_expected_value() {
    for (text, expected) in MISTAKES {
        assert!(
            mistakes(text).contains(&format!("belfry.toml:{expected}")),
            "{text}\nexpected {expected}\nbut said {:#?}",
            mistakes(text)
        );
    }
}

#[test]
fn a_farm_shares_a_database() {
    let farm = "[farm]\nname = \"f\"\ncouncil = [\"nats://127.0.0.1:4222\"]\nsecret = \"s\"\n";
    let store = "[store]\nurl = \"postgres://h/d\"\n";
    assert_eq!(mistakes(&format!("{farm}{store}")), [""; 0]);
    assert_eq!(mistakes(&format!("{farm}role = \"router\"\n{store}[xmpp]\nlisten = []\n")), [""; 0]);
    assert_eq!(mistakes(&format!("{farm}{store}[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n")), [""; 0]);
    let router = mistakes(&format!("{farm}role = \"router\"\n"));
    assert!(matches!(&router[..], [one] if one.contains("there is no `[store] url`")), "{router:?}");
}

#[test]
fn broken_toml_names_its_line() {
    for (text, place) in [
        ("[sip]\nlisten = [\n", "belfry.toml:2:11: unclosed array; expected `]`"),
        ("[sip\n", "belfry.toml:1:"),
        ("[sip]\nlisten\n", "belfry.toml:2:"),
        ("[sip]\n[sip]\n", "belfry.toml:2:"),
    ] {
        let found = mistakes(text);
        assert!(found.iter().any(|line| line.starts_with(place)), "{text}: {found:#?}");
        assert!(found.iter().all(|line| line.contains("; expected ")), "{found:#?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_order() {
    let found = mistakes("[sip]\nlisen = 1\ndomains = 3\n[http]\nlisten = 1\n");
    let lines: Vec<_> = found.iter().map(|line| line.split(':').nth(1).unwrap()).collect();
    assert_eq!(lines, ["2", "3", "5"], "{found:#?}");
}

#[test]
fn paths_count_from_the_folder_of_the_file() {
    let text = "[server]\ndata = \"data\"\n[tls]\ncertificate = \"/a.pem\"\nkey = \"b.pem\"\n";
    let config = Config::parse(text, Path::new("/etc/belfry/belfry.toml")).unwrap();
    assert_eq!(config.server.data, Path::new("/etc/belfry/data"));
    assert_eq!(config.server.control, Path::new("/etc/belfry/data/control.sock"));
    assert_eq!(config.tls.certificate, Some(PathBuf::from("/a.pem")));
    assert_eq!(config.tls.key, Some(PathBuf::from("/etc/belfry/b.pem")));
}

#[test]
fn files_that_are_named_have_to_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("belfry.toml");
    std::fs::write(folder.path().join("a.pem"), "").unwrap();
    std::fs::write(&file, "[tls]\ncertificate = \"a.pem\"\nkey = \"b.pem\"\n").unwrap();
    let error = Config::read(&file).unwrap_err().to_string();
    let expected = "3:7: `key` names b.pem, which cannot be read (No such file or directory (os error 2)); \
                    expected a file this user may read";
    assert_eq!(error, format!("{}:{expected}", file.display()));
}

#[test]
fn every_kind_of_value_is_taken_over() {
    let text = "[sip]\nlisten = [\"wss:[::1]:443\"]\ndomains = [\"Example.TEST\"]\ntcp_idle = \"1m\"\n\
                udp_receive_buffer = \"1MiB\"\nnameservers = [\"192.0.2.53\"]\nalgorithms = [\"md5\"]\n\
                [calls]\nrecords = false\n[log]\nlevel = \"warn,net=trace\"\nformat = \"json\"\n";
    let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
    assert_eq!(listener_text(&config.sip.listen[0]), "wss:[::1]:443");
    assert_eq!(*config.sip.domains, ["example.test".into()]);
    assert_eq!(config.sip.tcp_idle, Duration::from_secs(60));
    assert_eq!(config.sip.udp_receive_buffer, 1 << 20);
    assert_eq!(config.sip.nameservers, ["192.0.2.53:53".parse().unwrap()]);
    assert_eq!(config.sip.algorithms, [sip::digest::Hash::Md5]);
    assert!(!config.calls.records);
    assert_eq!(config.log.format, LogFormat::Json);
    assert!(config.sip.uses_tls());
}

#[test]
fn a_restart_is_named_for_the_key_of_http_that_differs() {
    let old = Config::default();
    let (new, ..) = read_all("[http]\ntrusted_proxies = [\"10.0.0.0/8\"]\n", None);
    assert_eq!(old.needs_restart(&new), ["http.trusted_proxies"]);
}

#[test]
fn times_of_registrations_are_whole_seconds() {
    let told = mistakes("[sip]\nmin_expires = \"1500ms\"\n").join("\n");
    assert!(told.contains("`min_expires` is \"1500ms\"; expected whole seconds"), "{told}");
}

#[test]
fn a_reload_names_the_keys_that_need_a_restart() {
    let old = Config::default();
    let text = "[server]\nshards = 77\n[sip]\ndomains = [\"a.test\"]\n[log]\nlevel = \"debug\"\n[limits]\nconnections = 1\n";
    let (new, ..) = read_all(text, None);
    assert_eq!(old.needs_restart(&new), ["server.shards", "limits"]);
    let taken = new.keeping(&old);
    assert!(old.needs_restart(&taken).is_empty());
    assert_eq!((&*taken.sip.default_domain, &*taken.log.level), ("a.test", "debug"));
}

#[test]
fn the_example_and_the_file_of_make_run_are_good() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in ["docs/belfry.example.toml", "belfry.toml"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        Config::parse(&text, Path::new(file)).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn the_example_shows_every_key() {
    let shown = example();
    let is_shown =
        |section: &str, name: &str| shown.iter().any(|key| key.section == section && key.name == name);
    let keys = read_all("", None).2;
    let missing: Vec<String> = keys
        .iter()
        .filter(|key| !is_shown(key.section, key.name))
        .map(|key| format!("[{}] {}", key.section, key.name))
        .collect();
    assert!(missing.is_empty(), "not in the example: {}", missing.join(", "));
}

/// A key of the example: its section, its name, whether it is commented out, its value on one line, and the default that the
/// line above it names.
struct Example {
    section: String,
    name: String,
    is_comment: bool,
    value: String,
    named_default: Option<String>,
}

fn example() -> Vec<Example> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/belfry.example.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let mut found: Vec<Example> = Vec::new();
    let (mut section, mut before, mut is_open) = (String::new(), "", false);
    for line in text.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_key = bare
            .split_once(" = ")
            .filter(|(name, _)| name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_')));
        if is_open {
            let value = &mut found.last_mut().unwrap().value;
            value.push_str(line.trim());
            is_open = line != "]";
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').into();
        } else if let Some((name, value)) = is_key {
            found.push(Example {
                section: section.clone(),
                name: name.into(),
                is_comment: line.starts_with('#'),
                value: value.split("  #").next().unwrap().trim().into(),
                named_default: before
                    .split_once("Default: ")
                    .map(|(_, text)| text.trim_end_matches('.').into()),
            });
            is_open = value == "[";
        }
        before = line;
    }
    found
}

#[test]
fn the_example_names_the_defaults_of_the_code() {
    let keys = read_all("", None).2;
    let mut wrong = Vec::new();
    for Example { section, name, is_comment, value, named_default } in example() {
        let Some(key) = keys.iter().find(|key| key.section == section && key.name == name) else {
            wrong.push(format!("[{section}] {name}: there is no such key"));
            continue;
        };
        // A key without a default, or with an empty list, shows what it may be.
        let Some(default) = key.default.as_deref().filter(|default| *default != "[]") else {
            if named_default.is_some() {
                wrong.push(format!("[{section}] {name}: it has no default"));
            }
            continue;
        };
        let is_told = match (value == default, named_default.as_deref()) {
            (true, told) => told.is_none_or(|told| told == default),
            // A commented line is what counts without it.
            (false, told) => !is_comment && told == Some(default),
        };
        if !is_told {
            wrong.push(format!("[{section}] {name} = {value}: expected above it: # Default: {default}."));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_console_without_users_or_in_the_clear_is_warned_of() {
    let warnings = |text: &str| Config::parse(text, Path::new("belfry.toml")).unwrap().warnings();
    let users = "admins = [\"alice@example.net\"]\n";
    assert_eq!(warnings(&format!("[console]\nlisten = \"127.0.0.1:5380\"\n{users}")), [""; 0]);
    for (text, expected) in [
        ("[console]\nlisten = \"127.0.0.1:5380\"\n".to_owned(), "no account can sign in"),
        (format!("[console]\nlisten = \"192.0.2.2:5380\"\n{users}"), "plain HTTP at 192.0.2.2:5380"),
    ] {
        let [warning] = &warnings(&text)[..] else { panic!("one warning of {text}") };
        assert!(warning.contains(expected), "{warning}");
    }
    let behind_a_proxy =
        format!("[console]\nlisten = \"192.0.2.2:5380\"\norigin = \"https://console.example.net\"\n{users}");
    assert_eq!(warnings(&behind_a_proxy), [""; 0]);
}

#[test]
fn tokens_of_rest_in_the_clear_are_warned_of() {
    let warnings = |text: &str| Config::parse(text, Path::new("belfry.toml")).unwrap().warnings();
    assert_eq!(warnings("[rest]\nlisten = \"127.0.0.1:8080\"\n"), [""; 0]);
    let [warning] = &warnings("[rest]\nlisten = \"192.0.2.2:8080\"\n")[..] else { panic!("one warning") };
    assert!(warning.starts_with("the REST interface speaks plain HTTP at 192.0.2.2:8080"), "{warning}");
    // Without a key of its own it is beside the metrics.
    let beside = "[http]\nlisten = \"0.0.0.0:9090\"\n";
    assert_eq!(warnings(beside), [""; 0]);
    assert_eq!(warnings(&format!("{beside}[voice]\nmedia = \"192.0.2.2\"\n")).len(), 1);
}

#[test]
fn the_committed_reference_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let made = reference();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == made,
        "docs/configuration.md is not what the code makes; write it anew: BLESS=1 cargo test -p config"
    );
}

#[test]
fn a_capture_server_is_reached_by_udp_and_its_password_is_not_shown() {
    let text = "[hep]\nserver = \"udp:192.0.2.9:9060\"\npassword = \"hush\"\npercent = 10\n";
    let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
    assert_eq!(config.hep.server, Some("192.0.2.9:9060".parse().unwrap()));
    assert_eq!((config.hep.capture_id, config.hep.percent), (2_001, 10));
    assert!(!format!("{config:?}").contains("hush"));
    let [warning] = &config.warnings()[..] else { panic!("one warning") };
    assert!(warning.contains("192.0.2.9:9060 in the clear"), "{warning}");
    let expected = "belfry.toml:2:10: `server` is \"tcp:192.0.2.9:9060\"; expected udp: and an address";
    assert_eq!(mistakes("[hep]\nserver = \"tcp:192.0.2.9:9060\"\n"), [expected]);
}

#[test]
fn receivers_of_call_records_are_checked_and_their_secrets_not_shown() {
    let text = "[calls.export]\npostgres_url = \"postgres://a:hush@db.test/x?sslmode=verify-full\"\n\
                http_url = \"https://b.test/calls\"\nsigning_key = \"silence\"\n[calls]\nrecords = false\n";
    let config = Config::parse(text, Path::new("belfry.toml")).unwrap();
    assert_eq!(config.call_export.http_url.as_deref(), Some("https://b.test/calls"));
    assert!(!config.calls.records);
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush") && !shown.contains("silence"), "{shown}");
    assert!(config.warnings().is_empty());
    assert_eq!(Config::default().needs_restart(&config), ["calls.export"]);
    let wrong = |line: &str| mistakes(&format!("[calls.export]\n{line}\n")).join("\n");
    for (line, expected) in [
        ("postgres_url = \"mysql://a:hush@b.test/\"", "not one of PostgreSQL; expected postgres://"),
        ("http_url = \"http://b.test/\"", "without TLS, and not of this machine; expected https://"),
        ("http_url = \"https://a:hush@b.test/\"", "has a user or a password in it"),
        ("http_url = \"ftp://b.test/\"", "`http_url` is \"ftp://b.test/\""),
        ("http_url = \"hush\"", "`http_url` is no URL"),
        ("http_url = [\"hush\"]", "`http_url` is of another kind"),
        ("signing_key = \"hush\"", "`signing_key` without `http_url`; expected both, or neither"),
        ("urls = 1", "unknown key `urls` in [calls.export]"),
    ] {
        let told = wrong(line);
        assert!(told.contains(expected) && !told.contains("hush"), "{line}: {told}");
    }
    assert_eq!(wrong("http_url = \"http://127.0.0.1:8080/calls\""), "");
}

#[test]
fn a_collector_of_traces_is_a_url_without_a_password() {
    let read =
        |text: &str| Config::parse(&format!("[telemetry]\n{text}\n"), Path::new("belfry.toml")).unwrap();
    let config = read("otlp = \"http://127.0.0.1:4318/\"");
    assert_eq!(
        (config.telemetry.otlp.as_deref(), config.telemetry.percent),
        (Some("http://127.0.0.1:4318"), 0)
    );
    assert!(config.warnings().is_empty());
    assert_eq!(Config::default().needs_restart(&config), ["telemetry"]);
    let [warning] = &read("otlp = \"http://192.0.2.9:4318\"").warnings()[..] else { panic!("one warning") };
    assert!(warning.contains("http://192.0.2.9:4318 in the clear"), "{warning}");
    let [warning] = &read("percent = 5").warnings()[..] else { panic!("one warning") };
    assert!(warning.contains("no effect without otlp"), "{warning}");
    for (line, expected) in [
        ("otlp = \"http://a:hush@b.test\"", "`otlp` has a user or a password in it; expected http://"),
        ("otlp = \"hush\"", "`otlp` is no URL"),
        ("otlp = \"grpc://b.test\"", "`otlp` is \"grpc://b.test\""),
        ("percent = 101", "`percent` is 101; expected 0 to 100"),
    ] {
        let told = mistakes(&format!("[telemetry]\n{line}\n")).join("\n");
        assert!(told.contains(expected) && !told.contains("hush"), "{line}: {told}");
    }
}

/// Mistakes reach the terminal and the log.
#[test]
fn mistakes_show_no_password() {
    let base = "[sip]\ndefault_domain = \"a.test\"\n";
    for (wrong, shown) in [
        ("[voice]\nauth_token = 4711\n", "`auth_token` is of another kind"),
        ("[voice]\nmail_password = [\"4711\"]\n", "`mail_password` is of another kind"),
        ("[hep]\npassword = 4711\n", "`password` is of another kind"),
        ("[store]\nurl = [\"postgres://a:4711@db.test/x\"]\n", "[\"postgres://***@db.test/x\"]"),
        (
            "[voice]\nnumbers = [{ number = 1, url = \"http://a:47@11@b.test/\" }]\n",
            "{ number = 1, url = \"http://***@b.test/\" }",
        ),
        (
            "[voice]\nnumbers = [{ number = 1, note = \"a long text before it\", url = \"http://user:4711@b.test/\" }]\n",
            "url = ",
        ),
    ] {
        let told = mistakes(&format!("{base}{wrong}")).join("\n");
        assert!(told.contains(shown), "{told}");
        assert!(!told.contains("4711") && !told.contains("47@"), "{told}");
    }
}

/// The contents of a folder that this user may not search are not known; the defaults must not be taken then.
#[test]
fn a_file_that_may_be_there_is_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("belfry.toml");
    assert!(!may_be_there(&file));
    std::fs::write(&file, "").unwrap();
    assert!(may_be_there(&file));
    // A file in the place of the folder: the question itself fails, as root's does not by any mode.
    assert!(may_be_there(&file.join("belfry.toml")));
}
