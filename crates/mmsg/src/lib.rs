//! Batches of datagrams with one system call: recvmmsg(2), sendmmsg(2) and the socket options beside them.
//! The only file of server and lab that speaks to sockets without a safe wrapper.
#![expect(unsafe_code, reason = "recvmmsg(2), sendmmsg(2) and these socket options have no wrapper in std")]
#![warn(missing_docs)]

mod groups;

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use libc::{c_int, c_void, cmsghdr, iovec, mmsghdr, msghdr, sockaddr_in, sockaddr_in6, socklen_t};

pub use groups::DatagramGroups;

/// Datagrams per system call. Twice as many save nothing that can be measured.
pub const BATCH: usize = 64;

/// No datagram is longer: 65,507 bytes over IPv4, 65,527 over IPv6.
const SLOT: usize = 65_536;

/// Slots a power of two apart would all begin in the same set of the CPU's caches.
const STRIDE: usize = SLOT + 17 * 64;

/// Room for IPV6_PKTINFO (40 bytes), SO_RXQ_OVFL (24 bytes), SO_TIMESTAMPNS (32 bytes) and UDP_GRO (24 bytes), and some.
const CONTROL: usize = 160;

/// Datagrams that the kernel takes as one (UDP_MAX_SEGMENTS of older kernels).
pub const RUN: usize = 64;

/// Bytes of such a run: an IPv4 datagram's limit, less headers.
const RUN_BYTES: usize = 65_000;

/// Longer datagrams do not fit an Ethernet frame, and what must be cut into fragments the kernel does not take in runs.
const RUN_DATAGRAM: usize = 1_400;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

#[repr(C)]
#[derive(Clone, Copy)]
union Name {
    v4: sockaddr_in,
    v6: sockaddr_in6,
}

/// One datagram in the receiver's memory.
pub struct Datagram<'a> {
    /// The payload of UDP, without headers.
    pub bytes: &'a [u8],
    /// The sender's address, as the kernel tells it.
    pub remote: SocketAddr,
    /// The address it was sent to, when the socket was told to say so.
    pub to: Option<IpAddr>,
    /// Datagrams this socket ever dropped because its buffer was full (wraps around).
    pub drops: Option<u32>,
    /// When the kernel received it, since the Unix epoch by the wall clock; after [`want_timestamps`].
    pub received: Option<Duration>,
}

/// One datagram to send.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The payload of UDP, without headers.
    pub bytes: &'a [u8],
    /// The address that it goes to.
    pub remote: SocketAddr,
    /// The source address, on a socket that has several.
    pub from: Option<IpAddr>,
}

/// Memory for one batch. Only the pages that datagrams really touched are resident.
pub struct Receiver {
    slab: Vec<u8>,
    names: Vec<Name>,
    controls: Vec<Control>,
    iovecs: Vec<iovec>,
    headers: Vec<mmsghdr>,
}

// SAFETY: the pointers lead into the vectors of the struct itself, whose memory stays where it is when the struct moves
// and nothing else uses it.
unsafe impl Send for Receiver {}

impl Receiver {
    #[expect(
        clippy::new_without_default,
        reason = "four megabytes of address space are an act, not a default"
    )]
    /// A receiver with buffers for `BATCH` datagrams of the largest size.
    pub fn new() -> Self {
        let mut receiver = Receiver {
            slab: vec![0; STRIDE * BATCH],
            names: vec![zeroed_name(); BATCH],
            controls: vec![Control([0; CONTROL]); BATCH],
            iovecs: Vec::with_capacity(BATCH),
            headers: Vec::with_capacity(BATCH),
        };
        receiver.point();
        receiver
    }

    /// Lets every header point at its slot. The vectors are never resized after this.
    fn point(&mut self) {
        let slab = self.slab.as_mut_ptr();
        let names = self.names.as_mut_ptr();
        let controls = self.controls.as_mut_ptr();
        for index in 0..BATCH {
            // SAFETY: index < BATCH, and each vector has BATCH slots.
            let (base, name, control) =
                unsafe { (slab.add(index * STRIDE), names.add(index), controls.add(index)) };
            self.iovecs.push(iovec { iov_base: base.cast(), iov_len: SLOT });
            let mut header = zeroed_header();
            header.msg_hdr.msg_name = name.cast();
            header.msg_hdr.msg_control = control.cast();
            header.msg_hdr.msg_iovlen = 1;
            self.headers.push(header);
        }
        let iovecs = self.iovecs.as_mut_ptr();
        for (index, header) in self.headers.iter_mut().enumerate() {
            // SAFETY: iovecs has BATCH entries, as headers has.
            header.msg_hdr.msg_iov = unsafe { iovecs.add(index) };
            reset(&mut header.msg_hdr);
        }
    }

    /// Hands every datagram that waits, `BATCH` at most, to `each`. The count, or `WouldBlock` for none. After
    /// [`want_runs`] a run counts as one.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        mut each: impl FnMut(Datagram<'_>),
    ) -> io::Result<usize> {
        // SAFETY: every header points at memory this struct owns, of the lengths it states, and no
        // reference to that memory is alive during the call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as _,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for header in &mut self.headers[..count] {
            let length = header.msg_len as usize;
            // SAFETY: the kernel wrote `length` bytes (at most iov_len) at iov_base, inside the slab.
            let bytes = unsafe {
                std::slice::from_raw_parts((*header.msg_hdr.msg_iov).iov_base.cast::<u8>(), length)
            };
            // SAFETY: the kernel filled in name and control and set their lengths.
            let (remote, noted) = unsafe { (read_name(&header.msg_hdr), read_control(&header.msg_hdr)) };
            if let Some(remote) = remote {
                let Noted { to, drops, received, segment } = noted;
                if segment == 0 {
                    each(Datagram { bytes, remote, to, drops, received });
                } else {
                    let parts = bytes.chunks(segment);
                    parts.for_each(|bytes| each(Datagram { bytes, remote, to, drops, received }));
                }
            }
            reset(&mut header.msg_hdr);
        }
        Ok(count)
    }
}

/// The kernel shortens these lengths to what it used.
fn reset(header: &mut msghdr) {
    header.msg_namelen = size_of::<Name>() as socklen_t;
    header.msg_controllen = CONTROL as _;
    header.msg_flags = 0;
}

/// Datagrams in one system call when they go in runs.
const IOVECS: usize = 1_024;

/// Memory to describe one batch to send.
pub struct Sender {
    names: Vec<Name>,
    controls: Vec<Control>,
    iovecs: Vec<iovec>,
    headers: Vec<mmsghdr>,
}

// SAFETY: between calls the pointers are not followed; each call writes those it uses anew, to memory that
// moves with the struct or outlives the call.
unsafe impl Send for Sender {}

impl Sender {
    #[expect(clippy::new_without_default, reason = "as its receiver")]
    /// A sender with buffers for `BATCH` datagrams.
    pub fn new() -> Self {
        Sender {
            names: vec![zeroed_name(); BATCH],
            controls: vec![Control([0; CONTROL]); BATCH],
            iovecs: vec![iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; IOVECS],
            headers: vec![zeroed_header(); BATCH],
        }
    }

    /// Sends from the front, `BATCH` at most. The count that went; an error is about the first one.
    pub fn send<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: impl Iterator<Item = Message<'a>>,
    ) -> io::Result<usize> {
        let mut count = 0;
        for (index, message) in messages.take(BATCH).enumerate() {
            self.describe(index, index, &message);
            count = index + 1;
        }
        self.submit(socket, count)
    }

    /// As [`Sender::send`], but the kernel takes datagrams of the same length and remote that follow each other as
    /// one (UDP_SEGMENT) and cuts them apart where they leave the host, or where they arrive on it: a third of the
    /// work. The count of datagrams that went. `InvalidInput` and EIO: not on this path; use [`Sender::send`].
    pub fn send_runs<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: impl Iterator<Item = Message<'a>>,
    ) -> io::Result<usize> {
        let (mut count, mut taken) = (0, 0);
        let mut last: Option<Message<'a>> = None;
        for message in messages.take(IOVECS) {
            let joins = last.is_some_and(|last| {
                let header = &self.headers[count - 1].msg_hdr;
                last.remote == message.remote
                    && last.from == message.from
                    && last.bytes.len() == message.bytes.len()
                    && fits_run(header.msg_iovlen + 1, message.bytes.len())
            });
            if joins {
                self.iovecs[taken] = as_iovec(message.bytes);
                self.headers[count - 1].msg_hdr.msg_iovlen += 1;
            } else {
                if count == BATCH {
                    break;
                }
                self.describe(count, taken, &message);
                count += 1;
            }
            taken += 1;
            last = Some(message);
        }
        for index in 0..count {
            self.name_segment(index);
        }
        let sent = self.submit(socket, count)?;
        Ok(self.headers[..sent].iter().map(|header| header.msg_hdr.msg_iovlen).sum())
    }

    /// Says how long the datagrams of a run are.
    fn name_segment(&mut self, index: usize) {
        let header = &mut self.headers[index].msg_hdr;
        if header.msg_iovlen < 2 {
            return;
        }
        let used = header.msg_controllen;
        header.msg_control = (&raw mut self.controls[index]).cast();
        // SAFETY: the control has CONTROL bytes, of which a source address uses `used`, at most 40; msg_iov points at
        // the run's first entry.
        unsafe {
            let at = header.msg_control.cast::<u8>().add(used).cast::<cmsghdr>();
            (*at).cmsg_level = libc::SOL_UDP;
            (*at).cmsg_type = libc::UDP_SEGMENT;
            (*at).cmsg_len = libc::CMSG_LEN(2) as _;
            libc::CMSG_DATA(at).cast::<u16>().write_unaligned((*header.msg_iov).iov_len as u16);
            header.msg_controllen = (used + libc::CMSG_SPACE(2) as usize) as _;
        }
    }

    fn submit(&mut self, socket: BorrowedFd<'_>, count: usize) -> io::Result<usize> {
        // SAFETY: the first `count` headers point at this struct's memory and at the messages' bytes, all
        // of which outlive the call; sendmmsg only reads them, besides msg_len.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as _,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Header `index` is this message, its bytes in entry `at`.
    fn describe(&mut self, index: usize, at: usize, message: &Message<'_>) {
        let name_length = write_name(&mut self.names[index], message.remote);
        self.iovecs[at] = as_iovec(message.bytes);
        let mut header = zeroed_header();
        header.msg_hdr.msg_name = (&raw mut self.names[index]).cast();
        header.msg_hdr.msg_namelen = name_length;
        header.msg_hdr.msg_iov = &raw mut self.iovecs[at];
        header.msg_hdr.msg_iovlen = 1;
        if let Some(from) = message.from {
            header.msg_hdr.msg_control = (&raw mut self.controls[index]).cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
            // SAFETY: msg_control points at CONTROL writable bytes, aligned for a cmsghdr.
            header.msg_hdr.msg_controllen = unsafe { write_source(&header.msg_hdr, from) } as _;
        }
        self.headers[index] = header;
    }
}

/// Asks the kernel to tell drops and ICMP errors, and with `to_address` the address each datagram was sent to. Routers may
/// fragment what we send over IPv4: a response that is longer than the path's MTU has no other way to go.
pub fn prepare(socket: BorrowedFd<'_>, ipv6: bool, to_address: bool) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    set_int(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)?;
    if !ipv6 {
        set_int(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)?;
    }
    match ipv6 {
        false => set_int(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1)?,
        true => set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?,
    }
    match (to_address, ipv6) {
        (false, _) => Ok(()),
        (true, false) => set_int(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        (true, true) => set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
    }
}

/// Asks the kernel to say when each datagram arrived: a receiver that naps between batches stays exact.
pub fn want_timestamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// True if so many datagrams of this length may go as one: see [`Sender::send_runs`].
pub fn fits_run(count: usize, length: usize) -> bool {
    count <= RUN && length > 0 && length <= RUN_DATAGRAM && count * length <= RUN_BYTES
}

/// Lets runs that a sender on this host, or the network card, put together arrive in one piece; the receiver takes
/// them apart again.
pub fn want_runs(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// Asks the kernel to count datagrams it drops for want of room in the socket's buffer.
pub fn want_drops(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_int(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// Room for the beginning of a datagram as ICMP quotes it (RFC 1812 §4.3.2.3: 576 bytes in all).
const QUOTE: usize = 576;

/// The next error that the socket knows of: where a datagram was sent, and how it began. `None`: no more.
pub fn take_refusal(socket: BorrowedFd<'_>) -> Option<(SocketAddr, Vec<u8>)> {
    let mut name = zeroed_name();
    let mut quote = vec![0; QUOTE];
    let mut iovec = iovec { iov_base: quote.as_mut_ptr().cast(), iov_len: QUOTE };
    let mut header = zeroed_header().msg_hdr;
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<Name>() as socklen_t;
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    // SAFETY: header points at name and quote, which live on, and states their lengths.
    let length = unsafe {
        libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    quote.truncate(usize::try_from(length).ok()?);
    // SAFETY: the kernel filled in name: on the error queue it is where the datagram was sent.
    let remote = unsafe { read_name(&header) }?;
    Some((remote, quote))
}

/// Reads from a connection; after [`want_timestamps`] with the time when the last of the bytes arrived, since the
/// Unix epoch by the wall clock.
pub fn receive_stamped(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    let mut control = Control([0; CONTROL]);
    let mut iovec = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut header = zeroed_header().msg_hdr;
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL as _;
    // SAFETY: header points at buffer and control, which live on, and states their lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel filled in control and set its length.
    Ok((length, unsafe { read_control(&header) }.received))
}

/// Above `net.core.rmem_max`; needs CAP_NET_ADMIN.
pub fn force_receive_buffer(socket: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    set_int(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes)
}

fn set_int(fd: RawFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let value_at = (&raw const value).cast::<c_void>();
    // SAFETY: value_at points at a c_int and its size is given.
    let result = unsafe { libc::setsockopt(fd, level, name, value_at, size_of::<c_int>() as socklen_t) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn as_iovec(bytes: &[u8]) -> iovec {
    iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

fn zeroed_header() -> mmsghdr {
    // SAFETY: a struct of integers and pointers, for which zero is a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn zeroed_name() -> Name {
    // SAFETY: a union of structs of integers, for which zero is a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn write_name(name: &mut Name, address: SocketAddr) -> socklen_t {
    *name = zeroed_name();
    match address {
        SocketAddr::V4(address) => {
            name.v4 = sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            size_of::<sockaddr_in>() as socklen_t
        }
        SocketAddr::V6(address) => {
            name.v6 = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            size_of::<sockaddr_in6>() as socklen_t
        }
    }
}

/// # Safety
/// `header.msg_name` points at a `Name` the kernel filled in.
unsafe fn read_name(header: &msghdr) -> Option<SocketAddr> {
    // SAFETY: both variants begin with the family, and all their bytes are initialised.
    let (v4, v6) = unsafe {
        let name = *header.msg_name.cast::<Name>();
        (name.v4, name.v6)
    };
    match c_int::from(v4.sin_family) {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            // The flow label differs per packet and is not part of who the peer is.
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The data of a datagram that its control messages carry.
#[derive(Default)]
struct Noted {
    to: Option<IpAddr>,
    drops: Option<u32>,
    received: Option<Duration>,
    /// Length of the datagrams in a run, but for the last, which may be shorter; 0: it is one datagram.
    segment: usize,
}

/// The address a datagram was sent to, the count of drops, the time of receipt.
///
/// # Safety
/// `header.msg_control` and `msg_controllen` are as the kernel left them.
unsafe fn read_control(header: &msghdr) -> Noted {
    let mut noted = Noted::default();
    // SAFETY: the CMSG macros walk inside msg_controllen; the data of each kind has the type the kernel
    // documents for it, and is read unaligned.
    unsafe {
        let mut at: *mut cmsghdr = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    noted.drops = Some(data.cast::<u32>().read_unaligned());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at = data.cast::<libc::timespec>().read_unaligned();
                    noted.received = Some(Duration::new(at.tv_sec as u64, at.tv_nsec as u32));
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let length = data.cast::<c_int>().read_unaligned();
                    noted.segment = usize::try_from(length).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    noted.to = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    noted.to = Some(IpAddr::from(info.ipi6_addr.s6_addr));
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    noted
}

/// Writes the control message that chooses the source address; its length.
///
/// # Safety
/// `header.msg_control` points at `CONTROL` writable bytes, aligned for a cmsghdr.
unsafe fn write_source(header: &msghdr, from: IpAddr) -> usize {
    // SAFETY: the larger of the two is 40 bytes, CONTROL is more; CMSG_DATA is inside.
    unsafe {
        let at = libc::CMSG_FIRSTHDR(header);
        let data = libc::CMSG_DATA(at);
        let (level, kind, length) = match from {
            IpAddr::V4(ip) => {
                let mut info: libc::in_pktinfo = MaybeUninit::zeroed().assume_init();
                info.ipi_spec_dst.s_addr = u32::from_ne_bytes(ip.octets());
                data.cast::<libc::in_pktinfo>().write_unaligned(info);
                (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>())
            }
            IpAddr::V6(ip) => {
                let mut info: libc::in6_pktinfo = MaybeUninit::zeroed().assume_init();
                info.ipi6_addr.s6_addr = ip.octets();
                data.cast::<libc::in6_pktinfo>().write_unaligned(info);
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>())
            }
        };
        (*at).cmsg_level = level;
        (*at).cmsg_type = kind;
        (*at).cmsg_len = libc::CMSG_LEN(length as _) as _;
        libc::CMSG_SPACE(length as _) as usize
    }
}
