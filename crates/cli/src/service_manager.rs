//! The protocol by which a service tells its manager that it is ready, alive and stopping (`sd_notify(3)`): a datagram of
//! `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET` names. Without that variable nothing is sent.
//!
//! Used by the node (`server::node::operator`) and by the supervisor of several processes (`serve`), of which
//! only the supervisor speaks to the manager.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The variables of the protocol. A process that this one starts is not the service: it gets none of them.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The service manager that has started this process, if it wants to know the state of its services.
#[derive(Debug, Default)]
pub struct ServiceManager {
    /// `None`: there is no manager, or its socket cannot be used.
    to: Option<(UnixDatagram, SocketAddr)>,
    /// The time without a sign of life after which the manager counts the service as hung.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Reads the environment. A socket that cannot be used is told in the log, and the service goes on.
    pub fn from_environment() -> ServiceManager {
        let socket = std::env::var_os(VARIABLES[0]).filter(|name| !name.is_empty());
        let Some(socket) = socket else { return ServiceManager::default() };
        let watchdog = |name: &str| std::env::var(name).ok();
        ServiceManager::connect(&socket).map_or_else(
            |error| {
                tracing::warn!(%error, "the service manager cannot be told that the node is ready: NOTIFY_SOCKET");
                ServiceManager::default()
            },
            |manager| ServiceManager {
                watchdog: interval(watchdog(VARIABLES[1]), watchdog(VARIABLES[2]), std::process::id()),
                ..manager
            },
        )
    }

    /// `name` is a path, or the name of an abstract socket behind `@`.
    fn connect(name: &OsStr) -> io::Result<ServiceManager> {
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold up the node.
        socket.set_nonblocking(true)?;
        Ok(ServiceManager { to: Some((socket, address)), watchdog: None })
    }

    /// The service is ready for requests.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The service has begun to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The service is alive, if the manager wants to know.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.tell("WATCHDOG=1");
        }
    }

    /// The interval in which [`alive`](ServiceManager::alive) is to be called, if at all: half the time after which the manager counts the service as hung, as
    /// `sd_watchdog_enabled(3)` recommends.
    pub fn alive_interval(&self) -> Option<Duration> {
        self.watchdog.map(|after| after / 2)
    }

    /// A failure is logged and no more: the service runs without its manager.
    fn tell(&self, state: &str) {
        let Some((socket, address)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(state.as_bytes(), address) {
            tracing::warn!(%error, state, "the service manager cannot be told");
        }
    }
}

/// The time after which the manager counts this process as hung. `pid` names the process that is meant, if it is given.
fn interval(microseconds: Option<String>, pid: Option<String>, own: u32) -> Option<Duration> {
    if pid.is_some_and(|pid| pid.parse() != Ok(own)) {
        return None;
    }
    let microseconds = microseconds?.parse().ok().filter(|microseconds| *microseconds > 0)?;
    Some(Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn a_manager_is_told_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("belfry-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&abstract_address).unwrap();
        let at_name = format!("@{name}");
        for (socket, name) in [(&by_path, path.as_os_str()), (&by_name, OsStr::new(&at_name))] {
            let manager = ServiceManager::connect(name).unwrap();
            manager.ready();
            manager.alive();
            manager.stopping();
            assert_eq!(
                [received(socket), received(socket)],
                ["READY=1", "STOPPING=1"],
                "no watchdog is wanted"
            );
            let watched = ServiceManager { watchdog: Some(Duration::from_secs(30)), ..manager };
            watched.alive();
            assert_eq!(received(socket), "WATCHDOG=1");
            assert_eq!(watched.alive_interval(), Some(Duration::from_secs(15)));
        }
    }

    #[test]
    fn a_manager_that_is_gone_hinders_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let manager = ServiceManager::connect(folder.path().join("gone").as_os_str()).unwrap();
        manager.ready();
        ServiceManager::default().ready();
        assert!(
            ServiceManager::connect(OsStr::new(&"x".repeat(200))).is_err(),
            "longer than a path of a socket"
        );
    }

    #[test]
    fn the_watchdog_is_of_one_process() {
        let text = |text: &str| Some(text.to_owned());
        let second = Some(Duration::from_secs(1));
        assert_eq!(interval(text("1000000"), text("7"), 7), second);
        assert_eq!(interval(text("1000000"), None, 7), second);
        assert_eq!(interval(text("1000000"), text("8"), 7), None);
        assert_eq!(interval(text("0"), text("7"), 7), None);
        assert_eq!(interval(text("soon"), None, 7), None);
        assert_eq!(interval(None, None, 7), None);
    }
}
