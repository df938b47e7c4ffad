//! TLS to a server of PostgreSQL with a certificate of its own.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use store::{Postgres, Read, Store};

use crate::server::{self, PostgresServer};

/// The name in the server's certificate.
const NAME: &str = "db.example.test";

/// A server at an address of this process's own, with its folder.
fn encrypted_server() -> (PostgresServer, PathBuf, String) {
    // Two processes of these tests have different ones.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = format!("127.77.{high}.{}", low.max(1));
    let listen: &'static str = Box::leak(format!("listen_addresses={address}").into_boxed_str());
    let server = PostgresServer::start(Box::leak(Box::new([listen])));
    let url = server.new_database(&[]);
    let folder: PathBuf = url.strip_prefix("host=").and_then(|rest| rest.split_once(' ')).unwrap().0.into();
    enable_tls(&folder, &url);
    let dbname = url.split_once("dbname=").unwrap().1.to_owned();
    (server, folder, format!("postgres://belfry@{{host}}/{dbname}?hostaddr={address}"))
}

fn enable_tls(folder: &Path, url: &str) {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    write_certificate(&certificate, &key);
    write_certificate(&folder.join("other.pem"), &folder.join("other-key.pem"));
    // PostgreSQL reads a key that its own user alone may read.
    let user = std::fs::metadata(folder.join("data")).unwrap();
    chown(&key, Some(user.uid()), Some(user.gid())).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    server::run_sql(url, &format!("ALTER SYSTEM SET ssl_cert_file = '{}'", certificate.display()));
    server::run_sql(url, &format!("ALTER SYSTEM SET ssl_key_file = '{}'", key.display()));
    server::run_sql(url, "ALTER SYSTEM SET ssl = on");
    server::run_sql(url, "SELECT pg_reload_conf()");
    let is_on = || {
        let shown = "DO $$ BEGIN ASSERT current_setting('ssl') = 'on'; END $$";
        server::try_sql(url, shown)
    };
    wait::until("PostgreSQL offers TLS", std::time::Duration::from_secs(30), is_on, String::new);
}

fn write_certificate(certificate: &Path, key: &Path) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    std::fs::write(certificate, made.cert.pem()).unwrap();
    std::fs::write(key, made.signing_key.serialize_pem()).unwrap();
}

#[test]
fn connections_are_encrypted_and_servers_verified_as_the_url_says() {
    let (_server, folder, url) = encrypted_server();
    let own = folder.join("cert.pem");
    let other = folder.join("other.pem");
    let open = |host: &str, mode: &str, authorities: Option<&Path>| {
        let authorities = authorities.map(|file| format!("&sslrootcert={}", file.display()));
        let mode = if mode.is_empty() { String::new() } else { format!("&sslmode={mode}") };
        Postgres::open(&format!("{}{mode}{}", url.replace("{host}", host), authorities.unwrap_or_default()))
    };
    let socket = format!("host={} user=belfry dbname={}", folder.display(), {
        let (_, rest) = url.split_once("{host}/").unwrap();
        rest.split_once('?').unwrap().0
    });
    let works = |host, mode, authorities, is_encrypted: bool| {
        let postgres = open(host, mode, authorities).unwrap();
        let mut reader = postgres.reader().unwrap();
        reader.load(&Read::Domains).unwrap();
        let all = format!(
            "DO $$ BEGIN ASSERT (SELECT count(*) = 1 AND bool_and(ssl) = {is_encrypted} FROM pg_stat_ssl \
             JOIN pg_stat_activity USING (pid) WHERE application_name = 'belfry'); END $$"
        );
        // A session that was closed is seen a moment longer.
        let is_so = || server::try_sql(&socket, &all);
        let what = format!("the one session of {host} with sslmode {mode} is encrypted: {is_encrypted}");
        wait::until(&what, std::time::Duration::from_secs(10), is_so, String::new);
    };
    works(NAME, "disable", None, false);
    works(NAME, "", None, true);
    works(NAME, "prefer", None, true);
    works(NAME, "require", None, true);
    works("other.test", "verify-ca", Some(&own), true);
    works(NAME, "verify-full", Some(&own), true);
    let refused = |host, mode, authorities| open(host, mode, authorities).unwrap_err().to_string();
    let wrong_name = refused("other.test", "verify-full", Some(&own));
    assert!(wrong_name.contains("certificate"), "{wrong_name}");
    for mode in ["require", "verify-ca", "verify-full"] {
        let wrong_authority = refused(NAME, mode, Some(&other));
        assert!(wrong_authority.contains("certificate"), "{mode}: {wrong_authority}");
    }
    let unknown_authority = refused(NAME, "verify-full", None);
    assert!(unknown_authority.contains("certificate"), "{unknown_authority}");

    server::run_sql(&socket, "ALTER SYSTEM SET ssl = off");
    server::run_sql(&socket, "SELECT pg_reload_conf()");
    let is_off = || server::try_sql(&socket, "DO $$ BEGIN ASSERT current_setting('ssl') = 'off'; END $$");
    wait::until("PostgreSQL offers no TLS", std::time::Duration::from_secs(30), is_off, String::new);
    works(NAME, "prefer", None, false);
    let plain = refused(NAME, "require", None);
    assert!(plain.contains("TLS"), "{plain}");
}
