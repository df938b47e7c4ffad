//! The UDP ports of a run's media. One table for all shards: a port that several calls name (`-mp`, or
//! `[auto_media_port]` once its numbers come round) is one socket, and it closes when the last of them lets go.
//!
//! Three kinds: fixed ports (`[media_port]`) that all calls share, ports by call number (`[auto_media_port]`), and ports of a range for one call
//! alone (`[rtpstream_audio_port]`). A call that shares a port is found by `PortRoutes`.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};

use super::routes::PortRoutes;
use crate::options::MediaOptions;

/// `[auto_media_port]` has this many numbers above `-mp` before they come round, as SIPp counts.
const AUTO_SPAN: u64 = 10_000;

/// Between the ports of two calls: RTP and RTCP of audio and of video.
const AUTO_STEP: u64 = 4;

/// How many neighbours are tried when another process has the port we want.
const NEIGHBOURS: u16 = 100;

/// Bytes of kernel memory for a port that many calls share; the kernel gives `net.core.rmem_max` at most.
const SHARED_BUFFER: usize = 4 << 20;

/// One bound socket.
pub(super) struct MediaPort {
    pub(super) socket: UdpSocket,
    pub(super) number: u16,
    /// The receivers of packets that arrive here.
    pub(super) routes: Mutex<PortRoutes>,
    /// `-rtp_echo`: everything goes back at once.
    pub(super) echo: bool,
    /// All calls of the run receive here.
    pub(super) is_of_many: bool,
    /// Held while the socket is read: calls of two shards may share a port.
    pub(super) reading: Mutex<()>,
}

/// All ports of a run.
pub(super) struct MediaPorts {
    /// The address of media (`-mi`).
    ip: IpAddr,
    /// `-mp`.
    base: u16,
    /// `-min_rtp_port` and `-max_rtp_port`.
    range: (u16, u16),
    /// `-rtp_echo`: the first two fixed ports send everything back.
    echo: bool,
    /// The sockets; locked only while a port is opened.
    table: Mutex<PortTable>,
}

/// The open ports by number.
#[derive(Default)]
struct PortTable {
    /// Weak: a port lives as long as a call holds it.
    open: HashMap<u16, Weak<MediaPort>>,
    /// `-mp`, or the next pair after it that was free, settled when the first of them is bound.
    base: Option<u16>,
    /// The fixed ports, kept to the end of the run.
    fixed: HashMap<u16, Arc<MediaPort>>,
    /// Where the search of the range goes on.
    next: u16,
}

impl MediaPorts {
    pub(super) fn new(ip: IpAddr, options: &MediaOptions) -> MediaPorts {
        let table = PortTable { next: options.min_port, ..PortTable::default() };
        MediaPorts {
            ip,
            base: options.port,
            range: (options.min_port, options.max_port),
            echo: options.echo,
            table: Mutex::new(table),
        }
    }

    /// `[media_port+offset]`: one socket for all calls. True when this call bound it.
    pub(super) fn fixed(&self, offset: i32) -> Result<(Arc<MediaPort>, bool), String> {
        let mut table = self.table.lock();
        let base = match table.base {
            Some(base) => base,
            None => self.settle(&mut table)?,
        };
        let number = offset_port(base, offset)?;
        if let Some(port) = table.fixed.get(&number) {
            return Ok((Arc::clone(port), false));
        }
        let (port, is_new) =
            self.take(&mut table, number, true).map_err(|error| self.explain(number, &error))?;
        // Best effort: a smaller buffer holds fewer packets and loses none of a moderate load.
        let _ = socket2::SockRef::from(&port.socket).set_recv_buffer_size(SHARED_BUFFER);
        table.fixed.insert(number, Arc::clone(&port));
        Ok((port, is_new))
    }

    /// Finds the first pair from `-mp` on that no other process has, as SIPp does.
    fn settle(&self, table: &mut PortTable) -> Result<u16, String> {
        let candidates = (0..NEIGHBOURS).filter_map(|step| self.base.checked_add(step * 2));
        for base in candidates {
            match self.bind(base) {
                Ok(probe) => {
                    drop(probe);
                    table.base = Some(base);
                    return Ok(base);
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(self.explain(base, &error)),
            }
        }
        Err(format!(
            "media ports {} and the next {} on {} are taken by other programs: choose others with -mp",
            self.base,
            NEIGHBOURS * 2,
            self.ip
        ))
    }

    /// `[auto_media_port]`: by call number, from 1. The number comes round every 2,500 calls; a call that still
    /// has the port shares it.
    pub(super) fn auto(&self, call: u64) -> Result<(Arc<MediaPort>, bool), String> {
        let mut table = self.table.lock();
        let preferred = auto_number(table.base.unwrap_or(self.base), call)?;
        let candidates = (0..NEIGHBOURS).filter_map(|step| preferred.checked_add(step * AUTO_STEP as u16));
        for number in candidates {
            match self.take(&mut table, number, false) {
                Ok(taken) => return Ok(taken),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(self.explain(number, &error)),
            }
        }
        Err(format!(
            "media ports from {preferred} on are taken by other programs on {}: choose others with -mp",
            self.ip
        ))
    }

    /// The number alone, for scenarios that only mention it.
    pub(super) fn auto_number(&self, call: u64) -> Result<u16, String> {
        auto_number(self.table.lock().base.unwrap_or(self.base), call)
    }

    /// `[rtpstream_audio_port]`: a port of the range for one call alone.
    pub(super) fn own(&self) -> Result<(Arc<MediaPort>, bool), String> {
        let (min, max) = self.range;
        let mut table = self.table.lock();
        // Once around the range, every other number.
        for _ in 0..usize::from(max.saturating_sub(min)) / 2 + 1 {
            let number = table.next;
            // The pair is for RTP and RTCP, so the last number that fits is one below the end.
            table.next = number.checked_add(2).filter(|next| *next < max).unwrap_or(min);
            if table.open.get(&number).is_some_and(|port| port.strong_count() > 0) {
                continue;
            }
            match self.take(&mut table, number, false) {
                Ok(taken) => return Ok(taken),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(self.explain(number, &error)),
            }
        }
        table.open.retain(|_, port| port.strong_count() > 0);
        Err(format!(
            "no free media port between {min} and {max} on {}: {} are with open calls; widen -min_rtp_port and \
             -max_rtp_port or lower -l",
            self.ip,
            table.open.len()
        ))
    }

    /// The port beside another one, for the RTCP of a capture.
    pub(super) fn beside(&self, port: &MediaPort, distance: i32) -> Result<(Arc<MediaPort>, bool), String> {
        let number = offset_port(port.number, distance)?;
        let mut table = self.table.lock();
        self.take(&mut table, number, false).map_err(|error| self.explain(number, &error))
    }

    /// How many sockets are open.
    pub(super) fn open(&self) -> usize {
        self.table.lock().open.values().filter(|port| port.strong_count() > 0).count()
    }

    /// The open port of this number, or a new one; true when it was bound now.
    fn take(
        &self,
        table: &mut PortTable,
        number: u16,
        is_of_many: bool,
    ) -> io::Result<(Arc<MediaPort>, bool)> {
        if let Some(port) = table.open.get(&number).and_then(Weak::upgrade) {
            return Ok((port, false));
        }
        let socket = self.bind(number)?;
        let base = table.base.unwrap_or(self.base);
        // SIPp echoes at -mp and at the port two above.
        let echo = self.echo && (number == base || Some(number) == base.checked_add(2));
        let (routes, reading) = (Mutex::default(), Mutex::default());
        let port = Arc::new(MediaPort { socket, number, routes, echo, is_of_many, reading });
        table.open.insert(number, Arc::downgrade(&port));
        Ok((port, true))
    }

    /// Without sharing: a port of another program is noticed.
    fn bind(&self, number: u16) -> io::Result<UdpSocket> {
        let domain = if self.ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if self.ip.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&SocketAddr::new(self.ip, number).into())?;
        Ok(socket.into())
    }

    /// The limit that was met, and the flag or setting that raises it.
    fn explain(&self, number: u16, error: &io::Error) -> String {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => format!(
                "no file descriptor left for media port {number}: {}; raise it with `ulimit -n`, or lower -l",
                open_file_limit()
            ),
            Some(libc::EADDRINUSE) => {
                format!(
                    "media port {number} on {} is taken by another program: choose others with -mp",
                    self.ip
                )
            }
            Some(libc::EADDRNOTAVAIL) => {
                format!("{} is no address of this machine: set the media address with -mi", self.ip)
            }
            Some(libc::EACCES) => format!("media port {number} needs root: choose one above 1023 with -mp"),
            _ => format!("media port {number} on {}: {error}", self.ip),
        }
    }
}

/// Four ports a call, around after `AUTO_SPAN`.
fn auto_number(base: u16, call: u64) -> Result<u16, String> {
    let above = AUTO_STEP * call.saturating_sub(1) % AUTO_SPAN;
    u16::try_from(u64::from(base) + above).map_err(|_| {
        format!("[auto_media_port] of call {call} is above 65535: choose a lower -mp than {base}")
    })
}

pub(super) fn offset_port(base: u16, offset: i32) -> Result<u16, String> {
    u16::try_from(i32::from(base) + offset)
        .map_err(|_| format!("media port {base}{offset:+} is outside 0 to 65535"))
}

/// The kernel's limit on open files of this process, for the error's text.
fn open_file_limit() -> String {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some(limit) => format!("the limit on open files is {limit}"),
        None => "the limit on open files is reached".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_named_with_its_remedy() {
        let ports = MediaPorts::new(IpAddr::from([127, 0, 70, 1]), &MediaOptions::default());
        let explain = |code| ports.explain(6_000, &io::Error::from_raw_os_error(code));
        let files = explain(libc::EMFILE);
        assert!(files.contains("the limit on open files is ") && files.contains("ulimit -n"), "{files}");
        assert!(
            explain(libc::EADDRINUSE).contains("media port 6000 on 127.0.70.1 is taken by another program")
        );
        assert!(
            explain(libc::EADDRNOTAVAIL).contains("127.0.70.1 is no address of this machine: set the media")
        );
        assert!(explain(libc::EACCES).contains("needs root"));
        assert!(explain(libc::EIO).starts_with("media port 6000 on 127.0.70.1: "));
    }

    #[test]
    fn numbers_outside_the_range_of_ports_are_refused() {
        let options = MediaOptions { port: 65_530, ..MediaOptions::default() };
        let ports = MediaPorts::new(IpAddr::from([127, 0, 70, 2]), &options);
        assert_eq!(ports.auto_number(2), Ok(65_534));
        let error = ports.auto_number(3).expect_err("above the last");
        assert!(error.contains("[auto_media_port] of call 3 is above 65535"), "{error}");
        assert!(ports.fixed(8).err().is_some_and(|error| error.contains("65530+8 is outside")));
    }
}
