-- Prosody as another server, for tests. What stands between two @ is filled in by the test.
daemonize = false
run_as_root = true
pidfile = "@FOLDER@/prosody.pid"
data_path = "@FOLDER@/data"
certificates = "@FOLDER@/certs"
plugin_paths = { "@PLUGINS@" }
log = { { levels = { min = "debug" }, to = "console" } }

interfaces = { "127.0.0.1" }
c2s_ports = { @CLIENT@ }
s2s_ports = { @SERVER@ }
c2s_direct_tls_ports = { }
s2s_direct_tls_ports = { @DIRECT@ }
s2s_direct_tls_ssl = { @AUTHORITY@ key = "@KEY@"; certificate = "@CERTIFICATE@"; }
c2s_require_encryption = false
allow_unencrypted_plain_auth = true
s2s_require_encryption = true
s2s_secure_auth = @SECURE@
authentication = "internal_plain"
ssl = { @AUTHORITY@ }

modules_enabled = {
	"roster"; "saslauth"; "tls"; "dialback"; "disco"; "ping"; "s2s"; "presence"; "message"; "iq"; "time"; "version";
	@BIDI@ "peers_at";
}
modules_disabled = { "offline" }
peers_at = @PEERS@

VirtualHost "@DOMAIN@"
	ssl = { @AUTHORITY@ key = "@KEY@"; certificate = "@CERTIFICATE@"; }

Component "conference.@DOMAIN@" "muc"
	ssl = { @AUTHORITY@ key = "@KEY@"; certificate = "@CERTIFICATE@"; }

-- Its first user makes nodes there.
Component "pubsub.@DOMAIN@" "pubsub"
	ssl = { @AUTHORITY@ key = "@KEY@"; certificate = "@CERTIFICATE@"; }
	admins = { "@OPERATOR@" }
	pubsub_max_items = 2000
