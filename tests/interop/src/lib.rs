//! Real peers around a real node, all on loopback: SIPp, Kamailio, baresip, OpenSSL's s_client,
//! Twilio's library, slixmpp, profanity, @xmpp/client, Strophe, Prosody, ejabberd and OpenLDAP's slapd.
//!
//! A [`play`] is what two or more peers do through some proxy; the tests run the plays through `belfry`, and
//! those that any proxy passes through Kamailio too, so that a failure names the server at fault.

mod administrator;
mod baresip;
mod certificates;
pub mod chaos;
mod chat_servers;
pub mod compare;
mod console;
mod dns;
mod ejabberd;
mod farm;
mod faulty;
mod follower;
mod http_request;
mod kamailio;
mod memory_store;
mod moto;
mod nats;
mod network;
mod node;
mod openid;
mod pebble;
mod peer;
pub mod play;
mod ports;
mod postgres;
mod promtool;
mod prosody;
mod ringer;
mod shell;
mod sipp;
mod slapd;
mod slixmpp;
mod slow_postgres;
mod strophe;
mod tls;
pub mod tutorial;
mod twilio;
mod wait;
mod way;
mod webphone;
mod xmppjs;

pub use administrator::administer_with_slixmpp;
pub use baresip::Baresip;
pub use certificates::{Authority, Certified};
pub use chat_servers::ChatServer;
pub use console::drive_console_in_chromium;
pub use dns::Dns;
pub use ejabberd::Ejabberd;
pub use farm::{Farm, NodeWays, VIRTUAL_ADDRESS};
pub use faulty::{Fault, FaultyProxy};
pub use follower::Follower;
pub use http_request::HttpRequest;
pub use kamailio::Kamailio;
pub use memory_store::MemoryStore;
pub use moto::Moto;
pub use nats::{Nats, NatsRelease, NatsSettings};
pub use network::{Namespace, Network};
pub use node::Node;
pub use openid::{OpenIdFault, OpenIdProvider};
pub use pebble::{Pebble, certificate_shown};
pub use peer::{Peer, python};
pub use ports::{Ports, free_port};
pub use postgres::{
    PostgresRelease, PostgresServer, dump_postgres_database, new_postgres_18_database, new_postgres_database,
    run_sql, run_sql_script, try_sql,
};
pub use promtool::promtool;
pub use prosody::Prosody;
pub use ringer::{Said, Tool, ringer};
pub use shell::{Ended, Shell, link_programs, write_program};
pub use sipp::{Account, Sipp};
pub use slapd::Slapd;
pub use slixmpp::{
    chat_with_profanity, chat_with_slixmpp, collect_with_slixmpp, keep_block_list_with_slixmpp,
    meet_with_slixmpp, put_with_slixmpp, run_slixmpp_component, share_with_slixmpp, text_with_slixmpp,
    transfer_with_slixmpp,
};
pub use slow_postgres::SlowPostgres;
pub use strophe::chat_with_strophe;
pub use tls::{options_over_tls, renegotiate_a_stream};
pub use twilio::{Requests, application, document_at, drive_with_twilio};
pub use wait::{lines_in, wait_for_sip, wait_until};
pub use way::TcpWay;
pub use webphone::{bundle_jssip, play_in_browsers, play_in_browsers_on};
pub use xmppjs::chat_with_xmppjs;

/// The domain every test serves.
pub const DOMAIN: &str = "example.test";
