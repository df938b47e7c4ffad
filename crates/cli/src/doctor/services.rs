//! The servers that the configuration names: PostgreSQL, NATS and the store of objects.
//!
//! Each is contacted once, with a limit of `DOCTOR_PATIENCE`. NATS servers are looked at only where the node is in a farm.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};

use config::Config;
use object_storage::{ObjectStorage, ObjectStorageSettings};
use store::StoreError;

use super::Finding;
use crate::limits::{DOCTOR_NATS_LINE, DOCTOR_PATIENCE};

pub(super) fn check(config: &Config) -> Vec<Finding> {
    let database = config.store.url.as_deref().map(|url| database(store::Postgres::reach(url)));
    // Each server by itself: one of a cluster suffices for the node, and the operator wants to know of the
    // others.
    let council = config.farm.name.iter().flat_map(|_| &config.farm.council);
    let storage = config.s3.settings().map(storage);
    database.into_iter().chain(council.map(|url| nats(url))).chain(storage).collect()
}

/// A small object is put, read and deleted again.
fn storage(settings: ObjectStorageSettings) -> Finding {
    const CHECK: &str = "S3";
    let place = format!("{}{}", settings.endpoint, settings.bucket);
    let checked = ObjectStorage::start(settings).map_err(|error| error.to_string());
    match checked.and_then(|storage| storage.check_blocking().map_err(|fault| fault.to_string())) {
        Ok(()) => Finding::good(CHECK, format!("{place} takes, gives and deletes an object")),
        Err(error) => Finding::problem(
            CHECK,
            format!("{place} cannot be used: {error}"),
            "mend the store, or change [s3]; files wait at the node meanwhile",
        ),
    }
}

/// `reached`: the name of the database, without a password.
fn database(reached: Result<String, StoreError>) -> Finding {
    const CHECK: &str = "PostgreSQL";
    match reached {
        Ok(name) => Finding::good(CHECK, format!("{name} answers")),
        Err(error) => Finding::problem(
            CHECK,
            format!("the database of [store] url cannot be used: {error}"),
            "start the server, make role and database (docs/operating.md), or change the URL",
        ),
    }
}

/// Only the greeting is read: user, password and TLS are not tried.
fn nats(url: &str) -> Finding {
    const CHECK: &str = "NATS";
    let server = server_of(url);
    match greeting(server) {
        Ok(line) if line.starts_with("INFO ") => Finding::good(CHECK, format!("{server} answers")),
        Ok(_) => Finding::problem(CHECK, format!("{server} is no NATS server"), "change [farm] council"),
        Err(error) => Finding::problem(
            CHECK,
            format!("{server} cannot be reached: {error}"),
            "start the NATS server with JetStream (docs/farm.md), or change [farm] council",
        ),
    }
}

/// Host and port of a URL, without user and password.
fn server_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('/').next().unwrap_or_default();
    // At the last @, as a password may have one. Findings are shown, and must not have it.
    rest.rsplit_once('@').map_or(rest, |(_, server)| server)
}

/// The first line of the server. Servers of NATS speak first, also those of `tls://`.
fn greeting(server: &str) -> io::Result<String> {
    // The port of NATS when the URL has none.
    let usual = format!("{server}:4222");
    let is_whole = server.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (if is_whole { server } else { &usual }).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, DOCTOR_PATIENCE) {
            Err(error) => last = error,
            Ok(stream) => {
                stream.set_read_timeout(Some(DOCTOR_PATIENCE))?;
                let mut line = Vec::new();
                // The server may be any program, and may send without an end.
                BufReader::new(stream).take(DOCTOR_NATS_LINE as u64).read_until(b'\n', &mut line)?;
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    /// A server that greets one client so.
    fn greet(line: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve =
            move || listener.accept().and_then(|(mut peer, _)| peer.write_all(line.as_bytes())).unwrap();
        std::thread::Builder::new().spawn(serve).unwrap();
        address.to_string()
    }

    #[test]
    fn a_nats_server_is_told_from_others_and_from_none() {
        let server = greet("INFO {\"server_id\":\"N\"}\r\n");
        let found = nats(&format!("nats://user:hush@{server}"));
        assert_eq!((found.state(), found.what), ("ok", format!("{server} answers")));
        let other = nats(&format!("nats://{}", greet("SSH-2.0-other\r\n")));
        assert!(other.what.ends_with("is no NATS server"), "{other:?}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = listener.local_addr().unwrap();
        drop(listener);
        let none = nats(&format!("tls://user:hush@{closed}"));
        assert!(none.state() == "problem" && !none.what.contains("hush"), "{none:?}");
    }

    #[test]
    fn a_database_that_does_not_answer_is_a_problem_without_its_password() {
        assert_eq!(database(Ok("127.0.0.1/belfry".into())).state(), "ok");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = listener.local_addr().unwrap();
        drop(listener);
        let found = database(store::Postgres::reach(&format!("postgres://belfry:hush@{closed}/belfry")));
        assert!(found.state() == "problem" && !found.what.contains("hush"), "{found:?}");
    }

    #[test]
    fn nothing_is_contacted_that_the_configuration_does_not_name() {
        assert_eq!(check(&Config::default()), []);
    }
}
