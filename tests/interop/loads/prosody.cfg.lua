-- Prosody as a load finds it: the modules that the load needs, keys of SCRAM in place of passwords, everything on disk, without
-- debug logs. What stands between two @ is filled in by the test.
daemonize = false
run_as_root = true
pidfile = "@FOLDER@/prosody.pid"
data_path = "@FOLDER@/data"
certificates = "@FOLDER@/certs"
log = { { levels = { min = "warn" }, to = "console" } }

interfaces = { "127.0.0.1" }
c2s_ports = { @CLIENT@ }
c2s_direct_tls_ports = { }
c2s_require_encryption = true
http_ports = { @HTTP@ }
https_ports = { }
-- On loopback only.
consider_bosh_secure = true
authentication = "internal_hashed"
-- As many as the others.
default_iteration_count = @ITERATIONS@
storage = "internal"

modules_enabled = {
	"roster"; "saslauth"; "tls"; "disco"; "ping"; "offline"; "vcard"; "bosh"; "blocklist";
	"register_ibr"; "user_account_management";
}
allow_registration = true
modules_disabled = { "s2s" }

VirtualHost "@DOMAIN@"
	ssl = { key = "@KEY@"; certificate = "@CERTIFICATE@"; }

Component "pubsub.@DOMAIN@" "pubsub"
	-- Prosody lets only administrators create nodes, and any of the users may be the first to publish.
	admins = { @USERS@ }
