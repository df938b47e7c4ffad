//! Accounts that move here from other servers, from files as those servers write them.

use store::{Address, Admin, Sqlite, Verifiers};

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
