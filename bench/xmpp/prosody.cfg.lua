-- Prosody as `bench/xmpp/mix` starts it: Debian's configuration of 0.12 without what the run does not use (other servers,
-- administrators, invitations) and without what would slow it down (limits of rates). Words in @ signs are filled in by
-- the run.
daemonize = false
run_as_root = true
pidfile = "@FOLDER@/prosody.pid"
data_path = "@FOLDER@/data"
log = { warn = "*console" }

network_backend = "epoll"
network_settings = { tcp_backlog = 1024 }
interfaces = { "127.0.0.1" }
c2s_ports = { @TCP@ }
c2s_direct_tls_ports = { @TLS@ }
c2s_require_encryption = false
ssl = { key = "@CERTIFICATES@/key.pem"; certificate = "@CERTIFICATES@/cert.pem"; }
c2s_direct_tls_ssl = { key = "@CERTIFICATES@/key.pem"; certificate = "@CERTIFICATES@/cert.pem"; }

modules_enabled = {
	"disco"; "roster"; "saslauth"; "tls"; "blocklist"; "bookmarks"; "carbons"; "pep"; "private"; "smacks"; "vcard4";
	"vcard_legacy"; "csi_simple"; "ping"; "time"; "version"; "uptime"; @ARCHIVE@
}
modules_disabled = { "s2s" }
authentication = "internal_hashed"
password_hash = "SHA-256"
default_archive_policy = true

-- A host has one kind of verifier.
VirtualHost "@DOMAIN@"
VirtualHost "sha1.@DOMAIN@"
	password_hash = "SHA-1"
VirtualHost "plain.@DOMAIN@"
	authentication = "internal_plain"
