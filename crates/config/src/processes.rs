//! One configuration for several processes of a machine (`belfry serve --processes`): each is a node of its own, at the same addresses of SIP
//! and chat.
//!
//! The supervisor (`cli::serve`) checks that all of them fit, and each process takes its own part with [`Config::for_process`].

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use super::{Config, ConfigError, sockets};

/// Processes of one configuration at most: a farm has room for 256 nodes, dead ones among them.
pub const PROCESSES: u16 = 64;

/// The number of a process, from 1, and the count of them. As text `2/4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessNumber {
    /// From 1.
    number: u16,
    count: u16,
}

impl ProcessNumber {
    /// All processes of so many.
    pub fn all(count: u16) -> impl Iterator<Item = ProcessNumber> {
        (1..=count).map(move |number| ProcessNumber { number, count })
    }

    /// The number, from 1.
    pub fn number(self) -> u16 {
        self.number
    }
}

impl fmt::Display for ProcessNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for ProcessNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, count)| {
            Some(ProcessNumber { number: number.parse().ok()?, count: count.parse().ok()? })
        });
        let is_valid = |it: &ProcessNumber| (1..=it.count).contains(&it.number) && it.count <= PROCESSES;
        numbers.filter(is_valid).ok_or_else(|| {
            format!("{text:?}: expected the number of a process and how many there are, as 2/4")
        })
    }
}

impl Config {
    /// The configuration of one process: the name of the node, addresses that only one process can have and the ports of media are its own,
    /// shards are divided. The first process has the control socket that the file names.
    ///
    /// # Errors
    /// The configuration is not one of a farm with a shared database, or has no room for so many processes.
    pub fn for_process(mut self, process: ProcessNumber) -> Result<Config, ConfigError> {
        let fault = |what: String| ConfigError::Processes { file: self.file.clone(), what };
        if !self.shares_database() {
            let missing = match (&self.farm.name, &self.store.url) {
                (None, None) => "[farm] name and [store] url are not set",
                (None, _) => "[farm] name is not set",
                (_, _) => "[store] url is not set",
            };
            return Err(fault(format!(
                "{missing}, and --processes needs both, as each process is a node of a farm with one PostgreSQL database; set them (a whole \
                 file is in docs/farm.md, \"One configuration for a whole machine\"), or start one process: belfry serve"
            )));
        }
        if let Some(clash) = clash(&self, process.count) {
            return Err(fault(clash));
        }
        let by = process.number - 1;
        let own = [Some(&mut self.farm.listen), self.farm.advertise.as_mut()];
        let own = own.into_iter().chain([Some(&mut self.http.listen), self.rest.listen.as_mut()]);
        let own = own.chain([self.console.listen.as_mut()]);
        let components = self.xmpp.components.listen.iter_mut().map(|listener| &mut listener.address);
        let bytestreams = self.bytestreams.listen.iter_mut().map(|listener| &mut listener.address);
        let mut beyond = None;
        for address in own.flatten().chain(components).chain(bytestreams) {
            if !shift(address, by) {
                beyond = Some(*address);
            }
        }
        if let Some(address) = beyond {
            return Err(fault(format!(
                "{} processes need as many ports from {address} on, and the last port is 65535: name a lower one",
                process.count
            )));
        }
        // Told ports lead to listeners one by one, as those do to processes.
        if let Some(port) = &mut self.bytestreams.port {
            *port = port.checked_add(by).ok_or_else(|| {
                fault(
                    "[xmpp.bytestreams] port is too high for so many processes: each is told the next one"
                        .into(),
                )
            })?;
        }
        let Some(ports) = share(&self.voice.ports, process) else {
            return Err(fault(format!(
                "[voice] media_ports are too few for {} processes, which divide them: name a wider range",
                process.count
            )));
        };
        self.voice.ports = ports;
        self.farm.shares_ports = true;
        self.server.shards = (self.server.shards / process.count).max(1);
        if process.number > 1 {
            self.server.control = numbered(&self.server.control, process);
        }
        self.process = Some(process);
        Ok(self)
    }
}

/// The two keys that would give one port to two of so many processes, in a sentence.
fn clash(config: &Config, count: u16) -> Option<String> {
    let clash = sockets::clash_of_processes(config, count)?;
    let [first, last] = clash.map(|socket| format!("[{}] {}, {}", socket.section, socket.key, socket.text));
    Some(format!(
        "{count} processes count from the port of {first}, and come to that of {last}: name ports that are farther from each other"
    ))
}

/// Moves a port on. False: there is no such port. Port 0 is any.
fn shift(address: &mut SocketAddr, by: u16) -> bool {
    let port = address.port();
    match port.checked_add(by) {
        _ if port == 0 => true,
        Some(port) => {
            address.set_port(port);
            true
        }
        None => false,
    }
}

/// A process's part of the ports of media: pairs of an even port and the next (RFC 3550 §11).
fn share(ports: &RangeInclusive<u16>, process: ProcessNumber) -> Option<RangeInclusive<u16>> {
    let pairs = ports.end().checked_sub(*ports.start())?.div_ceil(2) / process.count;
    let first = ports.start() + 2 * pairs * (process.number - 1);
    (pairs > 0).then(|| first..=first + 2 * pairs - 1)
}

/// The path with the number behind it.
fn numbered(path: &std::path::Path, process: ProcessNumber) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", process.number));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FARM: &str = "[server]\nshards = 4\n[store]\nurl = \"postgres://db/belfry\"\n[voice]\nmedia_ports = \"10000-10999\"\n\
        [http]\nlisten = \"127.0.0.1:8080\"\n\
        [farm]\nname = \"f\"\nnode = \"a\"\nsecret = \"s\"\ncouncil = [\"nats://n:4222\"]\nlisten = \"127.0.0.1:5280\"\n";

    fn process(text: &str) -> ProcessNumber {
        text.parse().unwrap()
    }

    fn of(text: &str, process: ProcessNumber) -> Result<Config, String> {
        let config = Config::parse(text, "x.toml".as_ref()).unwrap();
        config.for_process(process).map_err(|error| error.to_string())
    }

    #[test]
    fn each_process_has_its_own_addresses_and_shares_those_of_sip() {
        let [first, third] = ["1/3", "3/3"].map(|number| of(FARM, process(number)).unwrap());
        assert_eq!(first.sip.listen, third.sip.listen);
        assert!(first.farm.shares_ports && third.farm.shares_ports);
        assert_eq!((first.farm.listen.port(), third.farm.listen.port()), (5280, 5282));
        assert_eq!((first.http.listen.port(), third.http.listen.port()), (8080, 8082));
        assert_eq!(
            first.server.control.to_str().unwrap().to_owned() + ".3",
            third.server.control.to_str().unwrap()
        );
        assert_eq!((first.server.shards, third.server.shards), (1, 1));
        assert_eq!((first.voice.ports, third.voice.ports), (10_000..=10_331, 10_664..=10_995));
    }

    #[test]
    fn a_node_alone_and_ports_that_do_not_suffice_are_refused() {
        let alone = of("", process("1/2")).unwrap_err();
        assert!(
            alone.contains("x.toml: [farm] name and [store] url are not set, and --processes"),
            "{alone}"
        );
        let own =
            of(&FARM.replace("[store]\nurl = \"postgres://db/belfry\"\n", ""), process("1/2")).unwrap_err();
        assert!(own.contains("x.toml: [store] url is not set"), "{own}");
        let last = of(&FARM.replace("5280", "65535"), process("2/2")).unwrap_err();
        assert!(last.contains("2 processes need as many ports from 127.0.0.1:65535 on"), "{last}");
        let media = of(&FARM.replace("10000-10999", "10000-10003"), process("1/3")).unwrap_err();
        assert!(media.contains("media_ports are too few for 3 processes"), "{media}");
    }

    #[test]
    fn ports_that_two_processes_would_have_are_refused() {
        let file = |console: u16| {
            format!(
                "{FARM}[console]\nlisten = \"127.0.0.1:{console}\"\n[xmpp]\nlisten = [\"tcp:127.0.0.1:8090\"]\n"
            )
        };
        let near = of(&file(8_082), process("1/3")).unwrap_err();
        let expected = "3 processes count from the port of [http] listen, 127.0.0.1:8080, and come to that of [console] listen, 127.0.0.1:8082";
        assert!(near.contains(expected), "{near}");
        assert!(of(&file(8_083), process("1/3")).is_ok());
        let shared = of(&file(8_088), process("1/3")).unwrap_err();
        assert!(
            shared.contains("[console] listen, 127.0.0.1:8088, and come to that of [xmpp] listen"),
            "{shared}"
        );
        // From the port of chat none counts on.
        assert!(of(&file(8_091), process("1/3")).is_ok());
    }

    /// The file of the page, for as many processes as its command names.
    #[test]
    fn the_file_of_the_page_serves_two_processes() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/farm.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, section) = page.split_once("\n## One configuration for a whole machine\n").unwrap();
        let (_, text) = section.split_once("\n    [server]\n").unwrap();
        let lines = text.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
        let file: String = lines.map(|line| format!("{}\n", line.trim_start())).collect();
        for number in ["1/2", "2/2"] {
            let config = of(&format!("[server]\n{file}"), process(number)).unwrap();
            assert!(config.xmpp.is_on() && config.shares_database(), "{file}");
        }
        assert!(section.contains("belfry serve --processes 2"), "{section}");
    }

    #[test]
    fn the_number_of_a_process_is_read_as_it_is_written() {
        assert_eq!(process("2/4").to_string(), "2/4");
        for wrong in ["", "2", "0/2", "3/2", "1/65", "a/b"] {
            assert!(wrong.parse::<ProcessNumber>().is_err(), "{wrong}");
        }
    }
}
