//! Accounts that move here from other servers, from files as those servers write them.

use store::{Address, Admin, ScramHash, Sqlite, Verifiers};
use xmpp::sasl::{Hash, derive, encode};

use super::fake::FakeNode;
use super::place::Place;

fn admin(place: &Place) -> Admin {
    Admin::new(&Sqlite::open(place.path("data/belfry.db")).unwrap()).unwrap()
}

fn address(text: &str) -> Address {
    Address::parse(text, None).unwrap()
}

fn verifiers(place: &Place, account: &str) -> Verifiers {
    admin(place).account(&address(account)).unwrap().verifiers
}

fn of_password(account: &str, password: &str) -> Verifiers {
    let account = address(account);
    Verifiers::from_password(&account.user, &account.domain, password)
}

/// The digits of the HA1 of MD5.
fn ha1(account: &str, password: &str) -> String {
    of_password(account, password).md5.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A dump of Kamailio's tables by mysqldump. The users: alice has both, bob an HA1 only, carol a password only.
fn kamailio_dump() -> String {
    let (alice, bob) = (ha1("alice@example.test", "of alice"), ha1("bob@old.test", "of bob"));
    format!(
        "-- MySQL dump 10.13  Distrib 8.0.36
CREATE TABLE `dbaliases` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `alias_username` varchar(64) NOT NULL DEFAULT '',
  `alias_domain` varchar(64) NOT NULL DEFAULT '',
  `username` varchar(64) NOT NULL DEFAULT '',
  `domain` varchar(64) NOT NULL DEFAULT '',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
INSERT INTO `dbaliases` VALUES (1,'100','example.test','alice','example.test'),(2,'101','old.test','bob','old.test'),
(3,'102','example.test','ghost','example.test');
CREATE TABLE `subscriber` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `username` varchar(64) NOT NULL DEFAULT '',
  `domain` varchar(64) NOT NULL DEFAULT '',
  `password` varchar(64) NOT NULL DEFAULT '',
  `email_address` varchar(64) NOT NULL DEFAULT '',
  `ha1` varchar(128) NOT NULL DEFAULT '',
  `ha1b` varchar(128) NOT NULL DEFAULT '',
  `rpid` varchar(128) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB;
INSERT INTO `subscriber` VALUES (1,'alice','example.test','of alice','alice@example.test','{alice}','',NULL),
(2,'bob','old.test','','','{bob}','',NULL),
(3,'carol','','of carol','','','',NULL);
CREATE TABLE `uacreg` (`id` int(10), `l_uuid` varchar(64), `auth_password` varchar(64));
INSERT INTO `uacreg` VALUES (1,'x','secret');
INSERT INTO `version` (`table_name`, `table_version`) VALUES ('subscriber', 7);
INSERT INTO `acc` (`id`) VALUES (1),(2);
"
    )
}

#[test]
fn a_dump_of_kamailio_adds_accounts_with_passwords_or_digests_and_aliases() {
    let place = Place::new();
    place.write("kamailio.sql", &kamailio_dump());
    place.belfry(&["account", "import", "--from", "kamailio", "--check", "kamailio.sql"]).good();
    assert!(!place.path("data").exists(), "nothing is written");
    let output = place.belfry(&["account", "import", "--from", "kamailio", "kamailio.sql"]);
    assert!(output.out.contains(": 3 added, 0 updated, 0 skipped\n"), "{output:?}");
    assert!(output.out.contains("\nwith them: 2 passwords, 1 digests of MD5, 2 aliases\n"), "{output:?}");
    assert!(output.out.contains("1 came with an HA1 of MD5 only, so phones register by MD5"), "{output:?}");
    assert!(output.out.contains("(bob@old.test)\n"), "{output:?}");
    let passed = "passed over: 1 e-mail addresses, 1 registrations at carriers (uacreg), which a route replaces: belfry \
                  route add, 2 rows of acc\n";
    assert!(output.out.ends_with(passed), "{output:?}");
    let ghost = "not imported: 1\nkamailio.sql:11: alias 102@example.test of ghost@example.test: there is no account \
                 ghost@example.test";
    assert!(output.code == 1 && output.err.contains(ghost), "{output:?}");
    assert_eq!(verifiers(&place, "alice@example.test"), of_password("alice@example.test", "of alice"));
    assert_eq!(verifiers(&place, "carol@example.test"), of_password("carol@example.test", "of carol"));
    let bob = verifiers(&place, "bob@old.test");
    assert!(bob.are_of_md5_only() && bob.md5 == of_password("bob@old.test", "of bob").md5);
    assert_eq!(
        admin(&place).account(&address("100@example.test")).unwrap().address().to_string(),
        "alice@example.test"
    );

    // The same again changes nothing, and a password makes the rest of what the HA1 could not.
    let again = place.belfry(&["account", "import", "--from", "kamailio", "kamailio.sql"]);
    assert!(
        again.out.contains("0 added, 3 updated") && again.out.contains("2 aliases that were there already"),
        "{again:?}"
    );
    assert_eq!(verifiers(&place, "bob@old.test"), bob);
    place.belfry_with(&["account", "import", "-"], "bob@old.test,of bob\n").good();
    assert_eq!(verifiers(&place, "bob@old.test"), of_password("bob@old.test", "of bob"));
    place.belfry(&["account", "import", "--from", "kamailio", "kamailio.sql"]);
    assert_eq!(verifiers(&place, "bob@old.test"), of_password("bob@old.test", "of bob"), "it proves more");
}

#[test]
fn tables_of_asterisk_are_read_as_a_dump_and_as_a_folder_of_csv() {
    let place = Place::new();
    let bob = ha1("bob@sip.test", "of bob");
    // An endpoint stands before its auth.
    place.write(
        "asterisk.sql",
        &format!(
            "-- MySQL dump\nCREATE TABLE `ps_endpoints` (\n  `id` varchar(40) NOT NULL,\n  `aors` varchar(200),\n  `auth` varchar(40),\n  \
             `callerid` varchar(40)\n);\n\
             INSERT INTO `ps_endpoints` VALUES ('100','100','a100','Alice <100>'),('bob','bob','bob',NULL),('trunk',NULL,NULL,NULL);\n\
             CREATE TABLE `ps_auths` (\n  `id` varchar(40) NOT NULL,\n  `auth_type` varchar(10),\n  `md5_cred` varchar(40),\n  \
             `password` varchar(80),\n  `realm` varchar(40),\n  `username` varchar(40)\n);\n\
             INSERT INTO `ps_auths` VALUES ('a100','userpass',NULL,'of alice',NULL,'alice'),('bob','md5','{bob}',NULL,'sip.test','bob');\n\
             CREATE TABLE `ps_contacts` (\n  `id` varchar(40)\n);\nINSERT INTO `ps_contacts` VALUES ('x');\n"
        ),
    );
    let import = ["account", "import", "--from", "asterisk", "--domain", "sip.test"];
    let checked = place.belfry(&[&import[..], &["--check", "asterisk.sql"]].concat()).good();
    assert!(checked.starts_with("good: 2 accounts; nothing was written\n"), "{checked}");
    let output = place.belfry(&[&import[..], &["asterisk.sql"]].concat()).good();
    assert!(
        output.contains("2 added") && output.contains("1 passwords, 1 digests of MD5, 1 aliases"),
        "{output}"
    );
    assert!(
        output.contains("1 endpoints without auth") && output.contains("1 rows of ps_contacts"),
        "{output}"
    );
    assert_eq!(verifiers(&place, "alice@sip.test"), of_password("alice@sip.test", "of alice"));
    assert_eq!(verifiers(&place, "100@sip.test"), of_password("alice@sip.test", "of alice"));
    assert!(verifiers(&place, "bob@sip.test").are_of_md5_only());

    std::fs::create_dir(place.path("csv")).unwrap();
    place.write("csv/ps_endpoints.csv", "id,transport,aors,auth\n200,,200,200\n300,,300,none\n");
    place.write("csv/ps_auths.csv", "id,auth_type,password,username\n200,userpass,of carol,carol\n");
    place.write("csv/ps_aors.csv", "id,max_contacts,mailboxes\n200,1,200@default\n");
    let output = place.belfry(&[&import[..], &["csv"]].concat());
    assert!(output.out.contains("1 added") && output.out.contains("1 mailboxes"), "{output:?}");
    output.failed(
        1,
        "csv/ps_endpoints.csv:3: endpoint 300: auth none; expected a section [none] with type=auth",
    );
    assert_eq!(verifiers(&place, "carol@sip.test"), of_password("carol@sip.test", "of carol"));
}

#[test]
fn a_file_without_anything_of_the_server_is_no_empty_one() {
    let place = Place::new();
    place.write("lines", "alice,secret\n");
    place.write("other.sql", "CREATE TABLE t (a int);\nINSERT INTO t VALUES (1);\n");
    for server in ["asterisk", "kamailio", "openfire"] {
        for file in ["lines", "other.sql"] {
            for check in [&["--check"][..], &[]] {
                let args = [&["account", "import", "--from", server, file], check].concat();
                place.belfry(&args).failed(1, "nothing of that server is in the input; expected ");
            }
        }
    }
}

#[test]
fn tables_of_kamailio_are_read_as_csv_and_as_a_folder_of_db_text() {
    let place = Place::new();
    let bob = ha1("bob@sip.test", "of bob");
    place.write(
        "subscriber.csv",
        &format!("id,username,domain,password,ha1\n1,alice,,\"of \"\"alice\"\"\",\n2,bob,sip.test,,{bob}\n"),
    );
    let import = ["account", "import", "--from", "kamailio", "--domain", "sip.test"];
    let output = place.belfry(&[&import[..], &["subscriber.csv"]].concat()).good();
    assert!(output.contains("2 added"), "{output}");
    assert_eq!(verifiers(&place, "alice@sip.test"), of_password("alice@sip.test", "of \"alice\""));
    assert!(verifiers(&place, "bob@sip.test").are_of_md5_only());

    std::fs::create_dir(place.path("dbtext")).unwrap();
    place
        .belfry(&[&import[..], &["dbtext"]].concat())
        .failed(1, "dbtext: none of subscriber, dbaliases, uacreg is in");
    place.write("dbtext/subscriber", "id(int,auto) username(string) domain(string) password(string) ha1(string) ha1b(string) \n1:carol:sip.test:a\\:b::\n");
    place.write("dbtext/dbaliases", "id(int,auto) alias_username(string) alias_domain(string) username(string) domain(string) \n1:33:sip.test:carol:sip.test\n");
    place.write("dbtext/version", "table_name(string) table_version(int) \nsubscriber:7\n");
    let output = place.belfry(&[&import[..], &["dbtext"]].concat()).good();
    assert!(output.contains("1 added") && output.contains("1 passwords, 1 aliases"), "{output}");
    assert_eq!(verifiers(&place, "33@sip.test"), of_password("carol@sip.test", "a:b"));
}

#[test]
fn accounts_of_kamailio_that_cannot_be_taken_are_named_with_their_line() {
    let place = Place::new();
    let right = ha1("alice@example.test", "right");
    let long = "x".repeat(1 << 21);
    place.write(
        "bad.csv",
        &format!(
            "username,domain,password,ha1\nnone,example.test,,\nwrong,example.test,other,{right}\n\
             sha,example.test,,{right}{right}\nhex,example.test,,{}\nhome,,,{right}\na@b,example.test,x,\n\
             caps,Example.Test,,{right}\nfew,example.test\nlong,example.test,{long},\nalice,example.test,,{right}\n",
            "g".repeat(32)
        ),
    );
    let check = place.belfry(&["account", "import", "--from", "kamailio", "--check", "bad.csv"]);
    assert_eq!((check.code, &*check.out), (1, "good: 1 accounts; nothing was written\n"), "{}", check.err);
    for words in [
        "bad: 9\n",
        "bad.csv:2: user none: no password and no ha1; expected one of them\n",
        "bad.csv:3: user wrong: an ha1 that is not of the password; expected only the one that Kamailio checks",
        "bad.csv:4: user sha: an ha1 of 64 characters; expected that of MD5, 32 hexadecimal digits",
        "bad.csv:5: user hex: an ha1 of 32 characters",
        "bad.csv:6: user home: an ha1 without domain",
        "bad.csv:7: user a@b: account name \"a@b\"",
        "bad.csv:8: user caps: an HA1 of the realm \"Example.Test\"",
        "bad.csv:9: a row of 2 values; expected 4, as many as there are columns\n",
        "bad.csv:10: a row of more than 1024 KiB; expected a row of an account\n",
    ] {
        assert!(check.err.contains(words), "{words}\n{}", check.err);
    }
    let output = place.belfry(&["account", "import", "--from", "kamailio", "bad.csv"]);
    assert!(
        output.code == 1 && output.out.contains("1 added") && output.err.contains("not imported: 9\n"),
        "{output:?}"
    );
    let cut = kamailio_dump();
    place.write("cut.sql", cut.split_once(",'of carol'").unwrap().0);
    let output = place.belfry(&["account", "import", "--from", "kamailio", "cut.sql"]);
    output.failed(1, "cut.sql:25: a row that does not end; expected a whole file: it has been cut short; accounts in before it: 2; mend the file");
}

#[test]
fn accounts_of_kamailio_come_in_beside_a_running_node() {
    let place = Place::new();
    place.write("some.csv", "username,domain,password\nalice,example.test,x\n");
    let node = FakeNode::start(place.config());
    let output = place.belfry(&["account", "import", "--from", "kamailio", "some.csv"]).good();
    assert!(output.contains("1 added"), "{output}");
    drop(node);
    let output =
        place.belfry_with(&["account", "import", "--from", "kamailio", "-"], "username,password\n,x\n");
    output.failed(1, "standard input:2: user : account name \"\"");
}

#[test]
fn an_export_of_openfire_adds_accounts_with_names_and_contacts() {
    let place = Place::new();
    let user = |name: &str, password: &str, items: &str| {
        format!(
            "  <User>\n<Username>{name}</Username><Password>{password}</Password><Email/><Name>The {name}</Name>\
             <CreationDate>1</CreationDate><ModifiedDate>1</ModifiedDate><Roster>{items}</Roster></User>\n"
        )
    };
    let bob =
        "<Item jid=\"bob@example.test\" askstatus=\"-1\" recvstatus=\"-1\" substatus=\"3\" name=\"Bob\"/>";
    let users = user("alice", "of alice", bob) + &user("bob", "bob", "");
    place.write(
        "openfire.xml",
        &format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Openfire>\n{users}</Openfire>\n"),
    );
    let output = place.belfry(&["account", "import", "--from", "openfire", "openfire.xml"]);
    assert!(
        output.out.contains("1 added") && output.out.contains("\nwith them: 1 passwords, 1 contacts\n"),
        "{output:?}"
    );
    let refused = "openfire.xml:5: user bob: a password that is the name of the user; expected another one: Openfire writes";
    assert!(output.code == 1 && output.err.contains(refused), "{output:?}");
    assert_eq!(verifiers(&place, "alice@example.test"), of_password("alice@example.test", "of alice"));
    let alice = admin(&place).account(&address("alice@example.test")).unwrap();
    assert_eq!(&*alice.display_name, "The alice");
    let output = place.belfry(&["account", "import", "--check", "--domain", "other.test", "openfire.xml"]);
    output.failed(
        1,
        "1 users of other.test, which is not served here; add it with: belfry domain add other.test",
    );
    place.write("empty.xml", "<Openfire/>");
    place.belfry(&["account", "import", "empty.xml"]).good();
}

/// A row of `ofUserScram`, as mysqldump and pg_dump write it.
fn scram_row(user: &str, password: &str) -> [String; 6] {
    let keys = derive(Hash::Sha1, password, b"a salt of Openfire", 4_096);
    let [stored, server, salt] = [&keys.stored, &keys.server, &keys.salt].map(|key| encode(key));
    [user.into(), "SCRAM-SHA-1".into(), stored, server, salt, keys.iterations.to_string()]
}

#[test]
fn a_dump_of_openfires_tables_brings_passwords_and_keys_of_scram() {
    let place = Place::new();
    let dump = format!(
        "SET standard_conforming_strings = on;
COPY public.ofroster (rosterid, username, jid) FROM stdin;\n1\talice\tbob@example.test\n\\.\n
COPY public.ofuser (username, plainpassword, encryptedpassword, name, email, creationdate, modificationdate) FROM stdin;
admin\tof admin\t\\N\tAdministrator\tadmin@example.test\t0\t0
alice\t\\N\t\\N\tAlice\t\\N\t0\t0
bob\t\\N\tdeadbeef\tBob\t\\N\t0\t0
carol\t\\N\t\\N\t\\N\t\\N\t0\t0\n\\.\n
COPY public.ofuserscram (username, mechanism, storedkey, serverkey, salt, iterations) FROM stdin;
{}\n{}\n\\.\n",
        scram_row("admin", "of nothing any more").join("\t"),
        scram_row("alice", "of alice").join("\t"),
    );
    place.write("openfire.sql", &dump);
    let output = place.belfry(&["account", "import", "--from", "openfire", "openfire.sql"]);
    assert!(output.out.contains("2 added"), "{output:?}");
    assert!(output.out.contains("\nwith them: 1 passwords, 1 keys of SCRAM only\n"), "{output:?}");
    assert!(output.out.ends_with("\npassed over: 1 e-mail addresses, 1 rows of ofroster\n"), "{output:?}");
    for words in [
        "not imported: 2\n",
        "openfire.sql:9: user bob: a password that only Openfire can read (encryptedPassword); expected plainPassword",
        "openfire.sql:10: user carol: no password and no keys of SCRAM",
    ] {
        assert!(output.err.contains(words), "{words}: {output:?}");
    }
    assert_eq!(verifiers(&place, "admin@example.test"), of_password("admin@example.test", "of admin"));
    let alice = admin(&place).account(&address("alice@example.test")).unwrap();
    assert_eq!(&*alice.display_name, "Alice");
    let keys = derive(Hash::Sha1, "of alice", b"a salt of Openfire", 4_096);
    let kept = alice.verifiers.scram(ScramHash::Sha1).unwrap();
    assert!(kept.stored == keys.stored && kept.iterations == 4_096 && !alice.verifiers.are_of_password());

    // Before there was ofUserScram, the keys stood in ofUser.
    let [_, _, stored, server, salt, iterations] = scram_row("dave", "of dave");
    let older = format!(
        "INSERT INTO ofUser (username, storedKey, serverKey, salt, iterations, plainPassword) VALUES \
         ('dave','{stored}','{server}','{salt}',{iterations},NULL),('eve','x','y','z',1,NULL);\n"
    );
    place.write("older.sql", &older);
    let output = place.belfry(&["account", "import", "--from", "openfire", "older.sql"]);
    assert!(
        output.out.contains("1 added") && output.err.contains("user eve: keys of SCRAM that are none"),
        "{output:?}"
    );
    assert!(verifiers(&place, "dave@example.test").has_scram());
}

#[test]
fn a_folder_of_asterisk_adds_accounts_and_numbers() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("asterisk/more")).unwrap();
    let bob = ha1("bob@example.test", "of bob");
    place.write(
        "asterisk/pjsip.conf",
        "[global]\ntype=global\ndefault_realm=example.test\n[phone](!)\ntype=endpoint\ncontext=internal\n\
         #include more/phones.conf\n#tryinclude absent.conf\n[carrier]\ntype=endpoint\noutbound_auth=carrier\n",
    );
    place.write(
        "asterisk/more/phones.conf",
        &format!(
            "[alice](phone)\nauth=alice\naors=alice\ncallerid=\"Alice\" <100>\n[alice]\ntype=auth\nauth_type=userpass\n\
             username=alice\npassword=of alice\n[desk](phone)\nauth=bob\naors=desk\n[bob]\ntype=auth\nauth_type=md5\n\
             username=bob\nmd5_cred={bob}\n[lost](phone)\nauth=lost\n"
        ),
    );
    place.write(
        "asterisk/extensions.conf",
        "[internal]\nexten => 100,1,Dial(PJSIP/alice,20)\n same => n,Hangup()\nexten => 200,1,Dial(PJSIP/desk)\n\
         exten => _0.,1,Dial(PJSIP/${EXTEN}@carrier)\nexten => 9,1,VoiceMailMain()\n",
    );
    let import = ["account", "import", "--from", "asterisk", "asterisk"];
    let check = place.belfry(&["account", "import", "--check", "--from", "asterisk", "asterisk"]);
    assert_eq!((check.code, &*check.out), (1, "good: 2 accounts; nothing was written\n"), "{}", check.err);
    let output = place.belfry(&import);
    assert!(output.out.contains("2 added"), "{output:?}");
    assert!(output.out.contains("\nwith them: 1 passwords, 1 digests of MD5, 3 aliases\n"), "{output:?}");
    for words in [
        "1 endpoints without auth, as trunks, which a route replaces: belfry route add",
        "1 extensions that do more than to call one account",
        "1 extensions with a pattern",
    ] {
        assert!(output.out.contains(words), "{words}: {output:?}");
    }
    assert!(
        output.err.contains("not imported: 1\n")
            && output.err.contains("more/phones.conf:18: endpoint lost: auth lost"),
        "{output:?}"
    );
    let account = |alias: &str| admin(&place).account(&address(alias)).unwrap();
    assert_eq!(&*account("100@example.test").display_name, "Alice");
    assert_eq!(account("alice@example.test").verifiers, of_password("alice@example.test", "of alice"));
    for alias in ["200@example.test", "desk@example.test"] {
        assert_eq!(account(alias).address().to_string(), "bob@example.test");
    }
    let again = place.belfry(&import);
    assert!(
        again.out.contains("0 added, 2 updated") && again.out.contains("3 aliases that were there already"),
        "{again:?}"
    );
}

#[test]
fn includes_of_asterisk_stay_in_its_folder() {
    let place = Place::new();
    let import = ["account", "import", "--from", "asterisk", "asterisk"];
    std::fs::create_dir_all(place.path("asterisk/more")).unwrap();
    place.write("asterisk/pjsip.conf", "#include more/phones.conf\n");
    place.write("asterisk/more/phones.conf", "#include more/phones.conf\n");
    place.belfry(&import).failed(1, "expected files of 8 within each other at most");
    place.write("outside.conf", "");
    place.write("asterisk/more/phones.conf", "#include ../outside.conf\n#include nothing.conf\n#exec date\n");
    let output = place.belfry(&import);
    for words in [
        "expected a file in the folder of the first one or below",
        "#include of \"nothing.conf\": ",
        "#exec of \"date\"",
    ] {
        assert!(output.err.contains(words), "{words}: {output:?}");
    }
    place
        .belfry(&["account", "import", "--from", "asterisk", "nowhere"])
        .failed(1, "nowhere: cannot be read");
}
