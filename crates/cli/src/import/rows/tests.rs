//! Each form as its server writes it, cut at every byte, too large, and malformed.

use std::io::{self, Read};

use super::*;

const WANTED: &[&str] = &["subscriber"];

/// Gives one byte a read, so that no token is whole in the buffer.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
        (buffer[0], self.0) = (*first, rest);
        Ok(1)
    }
}

/// The rows as text, `|` between values, with their lines; bad ones with what was found.
fn read(input: impl Read) -> (Vec<String>, RowReader<impl Read>) {
    let mut reader = RowReader::new(input, WANTED);
    let mut rows = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(RowPiece::Row(row))) => {
                let value = |value: &Option<String>| value.clone().unwrap_or("NULL".into());
                let values: Vec<_> = row.values.iter().map(value).collect();
                rows.push(format!("{} {}", row.line, values.join("|")));
            }
            Ok(Some(RowPiece::Bad { line, found, .. })) => rows.push(format!("{line} bad: {found}")),
            Ok(None) => return (rows, reader),
            Err(RowsError::At { line, found, .. }) => {
                rows.push(format!("{line} end: {found}"));
                return (rows, reader);
            }
            Err(RowsError::Io(error)) => panic!("{error}"),
        }
    }
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let (rows, reader) = read(text.as_bytes());
    assert_eq!(rows, expected);
    let is_cut = rows.last().is_some_and(|row| row.contains(" end: "));
    assert!(is_cut || reader.bytes() == text.len() as u64);
    assert_eq!(read(Slow(text.as_bytes())).0, expected, "byte by byte");
}

const MYSQL: &str = "-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: localhost    Database: kamailio; it's ours
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
DROP TABLE IF EXISTS `subscriber`;
CREATE TABLE `subscriber` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `username` varchar(64) NOT NULL DEFAULT ',',
  `key` decimal(10,2) DEFAULT NULL COMMENT 'it''s, (one)',
  PRIMARY KEY (`id`),
  UNIQUE KEY `account_idx` (`username`,`domain`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4;
LOCK TABLES `subscriber` WRITE;
INSERT INTO `subscriber` VALUES (1,'alice',NULL),(2,'o\\'brien; --\\n',-1.5),
(3,_binary 'bob','NULL');
UNLOCK TABLES;
INSERT INTO `version` (`table_name`) VALUES ('subscriber'),('x'),('y');
INSERT INTO other SELECT * FROM subscriber;
-- Dump completed on 2026-11-24
";

#[test]
fn a_dump_of_mysql_has_the_columns_of_its_tables() {
    check(MYSQL, &["14 1|alice|NULL", "14 2|o'brien; --\n|-1.5", "15 3|bob|NULL"]);
    let others = read(MYSQL.as_bytes()).1.others;
    assert_eq!(others.into_iter().collect::<Vec<_>>(), [("version".into(), 3)]);
}

#[test]
fn a_dump_of_postgresql_has_lines_of_copy_or_inserts_without_escapes() {
    let copy = "--\n-- PostgreSQL database dump\n--\n\\restrict abc\nSET standard_conforming_strings = on;
CREATE FUNCTION public.f() RETURNS text LANGUAGE plpgsql AS $_$ begin; it's $x$; end $_$;
CREATE TABLE public.subscriber (\n    id integer NOT NULL,\n    username character varying(64)\n);
COPY public.subscriber (id, username) FROM stdin;\n1\talice\n2\t\\N\n3\ta\\tb\\\\c\n4\tx\ty\n\\.\n\n
INSERT INTO public.subscriber VALUES (5, 'C:\\'), (6, E'it\\'s');\nSELECT 1;\n";
    check(
        copy,
        &["12 1|alice", "13 2|NULL", "14 3|a\tb\\c", "15 bad: a row of 3 values", "19 5|C:\\", "19 6|it's"],
    );
}

#[test]
fn a_dump_of_sqlite_names_its_tables_in_quotes() {
    let dump = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;
CREATE TABLE IF NOT EXISTS \"subscriber\" (id INTEGER PRIMARY KEY, username TEXT, CHECK (id > 0));
INSERT INTO subscriber VALUES(1,'a\\');\nINSERT OR IGNORE INTO \"main\".\"subscriber\"(username) VALUES(replace('b','x','y'));\nCOMMIT;\n";
    check(dump, &["4 1|a\\", "5 bad: a value that is computed"]);
}

#[test]
fn lines_with_headings_are_read_with_their_delimiter() {
    check(
        "\u{feff}Username,password\r\nalice,\"a \"\"b\"\", c\"\r\n\r\nbob,\n",
        &["2 alice|a \"b\", c", "4 bob|"],
    );
    check("id;username\n1;\"x\ny\"\n2;z", &["2 1|x\ny", "4 2|z"]);
    check(
        "username\tpassword\nalice\ta\\tb\nbob\tNULL\ncarol\\N\t\\N\n",
        &["2 alice|a\tb", "3 bob|NULL", "4 carolN|NULL"],
    );
    check(
        "id(int,auto) username(str) x(str,null) \n1:al\\:ice:\n\n2:bob\n",
        &["2 1|al:ice|", "4 bad: a row of 2 values"],
    );
    let mut nulls = RowReader::new(&b"username\tx\nbob\tNULL\n"[..], WANTED);
    let Ok(Some(RowPiece::Row(row))) = nulls.next() else { panic!("no row") };
    assert!(row.values[1].is_none() && row.get("x").is_empty() && row.get("y").is_empty() && !row.has("y"));
}

#[test]
fn incomplete_input_is_reported_with_its_line() {
    check(
        "INSERT INTO subscriber (username) VALUES ('a'),('b",
        &["1 a", "1 end: a text in quotes that does not end"],
    );
    check("INSERT INTO subscriber (username) VALUES ('a'),", &["1 a", "1 end: an INSERT that does not end"]);
    check("INSERT INTO subscriber (username) VALUES ('a', 2", &["1 end: a row that does not end"]);
    check("COPY subscriber (username) FROM stdin;\nx\n", &["2 x", "3 end: a COPY that does not end"]);
    check("\n/* no end", &["2 end: a comment that does not end"]);
    check("CREATE TABLE x (a int,", &["1 end: a list of columns that does not end"]);
    check("username,b\nx,\"y", &["2 end: a quote that does not end"]);
    check(
        "INSERT INTO subscriber VALUES (1);",
        &["1 end: rows of a table subscriber whose columns are not named before"],
    );
    check("", &[]);
    check("hello world", &[]);
}

#[test]
fn any_cut_of_a_dump_ends() {
    for cut in 0..MYSQL.len() {
        read(&MYSQL.as_bytes()[..cut]);
        read(&MYSQL.as_bytes()[cut..]);
    }
}

#[test]
fn a_row_that_is_too_large_or_not_text_is_passed_over() {
    let long = "x".repeat(limits::IMPORT_ROW + 1);
    let dump = format!("INSERT INTO subscriber (username) VALUES ('a'),('{long}'),('b');");
    let found = "1 bad: a row of more than 1024 KiB";
    assert_eq!(read(dump.as_bytes()).0, ["1 a", found, "1 b"]);
    let many = format!("username\na\n{}\nb\n", ",".repeat(limits::IMPORT_ROW));
    assert_eq!(read(many.as_bytes()).0, ["2 a", "3 bad: a row of more than 1024 KiB", "4 b"]);
    let other =
        format!("INSERT INTO vcards (x) VALUES ('{long}');INSERT INTO subscriber (username) VALUES ('b');");
    assert_eq!(read(other.as_bytes()).0, ["1 b"]);
    assert_eq!(read(&b"username\n\xff\nb\n"[..]).0, ["2 bad: bytes that are not UTF-8", "3 b"]);
}
