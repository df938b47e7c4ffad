//! Receive buffers, open files and the clock.
//!
//! Limits are those of the running node where there is one, read from `/proc`, and else those of this shell, under which a node would be started.
#![expect(unsafe_code, reason = "adjtimex(2) has no wrapper in std and rustix")]

use std::mem::MaybeUninit;

use config::Config;

use super::Finding;
use super::host::Kernel;
use crate::table::grouped;

pub(super) fn check(config: &Config, kernel: &Kernel) -> Vec<Finding> {
    vec![buffers(config, kernel), files(config, kernel), clock(kernel)]
}

/// The kernel cuts a receive buffer to `net.core.rmem_max` without an error.
fn buffers(config: &Config, kernel: &Kernel) -> Finding {
    const CHECK: &str = "receive buffers";
    let wanted = config.sip.udp_receive_buffer;
    match kernel.largest_receive_buffer {
        None => Finding::warning(
            CHECK,
            "the kernel does not tell net.core.rmem_max",
            "see the log of the node's start",
        ),
        // The node tells the same at its start, once the socket exists; here it is found before.
        Some(largest) if largest < wanted => Finding::warning(
            CHECK,
            format!(
                "net.core.rmem_max is {}, [sip] udp_receive_buffer {}: bursts may be lost",
                bytes(largest),
                bytes(wanted)
            ),
            format!("echo net.core.rmem_max={wanted} > /etc/sysctl.d/60-belfry.conf && sysctl --system"),
        ),
        Some(_) => Finding::good(CHECK, format!("{} for each UDP socket are granted", bytes(wanted))),
    }
}

fn bytes(bytes: usize) -> String {
    format!("{} KiB", grouped((bytes / 1024) as u64))
}

/// Files besides connections: the database with its readers, logs, sockets that listen, pipes.
const OTHER_FILES: u64 = 1_000;

/// Needed at most: all connections that the limits allow, all ports of media, two connections of each bytestream, and [`OTHER_FILES`].
fn files(config: &Config, kernel: &Kernel) -> Finding {
    const CHECK: &str = "open files";
    let Some(limit) = kernel.open_files else {
        return Finding::warning(CHECK, "the system does not tell the limit", "see: ulimit -n");
    };
    let owner = if kernel.is_of_node { "the node" } else { "a node of this shell" };
    let media = config.voice.ports.clone();
    let media = if config.voice.is_on() { u64::from(media.end() - media.start()) + 1 } else { 0 };
    // The limit is of each shard.
    let connections = u64::from(config.limits.connections) * u64::from(config.server.shards);
    let bytestreams =
        if config.bytestreams.is_on() { 2 * u64::from(config.bytestreams.transfers) } else { 0 };
    let needed = connections + media + bytestreams + OTHER_FILES;
    if limit >= needed {
        return Finding::good(
            CHECK,
            format!("{owner} may have {}, at most {} are needed", grouped(limit), grouped(needed)),
        );
    }
    // An estimate for a human: half of a small limit is left for the other files.
    let room = limit.saturating_sub(OTHER_FILES.min(limit / 2));
    Finding::warning(
        CHECK,
        format!(
            "{owner} may have {}, the configuration allows {}: about {} connections and ports of media have room",
            grouped(limit),
            grouped(needed),
            grouped(room)
        ),
        "LimitNOFILE=1048576 in the systemd unit, or ulimit -n before belfry serve; or lower [limits] connections",
    )
}

/// The soft limit of open files in a file `limits` of `/proc`.
pub(super) fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() }
}

fn clock(kernel: &Kernel) -> Finding {
    const CHECK: &str = "clock";
    match kernel.is_clock_set {
        Some(true) => Finding::good(CHECK, "it is set by a time server"),
        // Nonces, tokens, certificates and call records go by it.
        Some(false) => Finding::warning(
            CHECK,
            "no time server sets it: certificates, tokens and call records go by it",
            "systemctl enable --now systemd-timesyncd, or install chrony",
        ),
        None => Finding::warning(CHECK, "the kernel does not tell if it is set", "see: timedatectl"),
    }
}

/// True if a program keeps the kernel's clock synchronised (`STA_UNSYNC` of `adjtimex(2)` is not set).
pub(super) fn is_clock_set() -> Option<bool> {
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: the pointer is to a timex's worth of memory; zeroes, which are valid for it, ask for the state and change nothing.
    let (result, state) = unsafe {
        let result = libc::adjtimex(state.as_mut_ptr());
        (result, state.assume_init())
    };
    (result >= 0).then_some(state.status & libc::STA_UNSYNC == 0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn states(config: &str, kernel: &Kernel) -> Vec<String> {
        let config = Config::parse(config, Path::new("belfry.toml")).unwrap();
        let findings = check(&config, kernel);
        findings.iter().map(|finding| format!("{} {}", finding.state(), finding.what)).collect()
    }

    #[test]
    fn limits_of_the_kernel_are_compared_with_the_configuration() {
        let rich = Kernel {
            largest_receive_buffer: Some(8 << 20),
            open_files: Some(1 << 20),
            is_of_node: true,
            is_clock_set: Some(true),
        };
        let config = "[server]\nshards = 2\n[limits]\nconnections = 1000\n";
        assert_eq!(
            states(config, &rich),
            [
                "ok 8 192 KiB for each UDP socket are granted",
                "ok the node may have 1 048 576, at most 3 000 are needed",
                "ok it is set by a time server",
            ]
        );
        let poor = Kernel {
            largest_receive_buffer: Some(212_992),
            open_files: Some(1_024),
            is_of_node: false,
            is_clock_set: Some(false),
        };
        let said = states(config, &poor);
        assert!(said.iter().all(|line| line.starts_with("warning ")), "{said:#?}");
        assert!(said[0].contains("208 KiB"), "{said:#?}");
        assert!(said[1].contains("may have 1 024, the configuration allows 3 000: about 512"), "{said:#?}");
        let with_media = states(&format!("{config}[voice]\nmedia = \"127.0.0.1\"\n"), &rich);
        assert!(with_media[1].contains("at most 23 000"), "{with_media:#?}");
        let chat = "[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n[xmpp.bytestreams]\nlisten = [\"tcp:127.0.0.1:7777\"]\n";
        let with_bytestreams = states(&format!("{config}{chat}"), &rich);
        assert!(with_bytestreams[1].contains("at most 5 000"), "{with_bytestreams:#?}");
        let silent = states(config, &Kernel::default());
        assert!(silent.iter().all(|line| line.starts_with("warning ")), "{silent:#?}");
    }

    #[test]
    fn the_limit_of_open_files_is_read_from_proc() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max processes             unlimited            unlimited            processes \n\
             Max open files            1024                 524288               files     \n";
        assert_eq!(open_files(text), Some(1_024));
        assert_eq!(open_files("Max open files  unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(open_files(""), None);
        let own = std::fs::read_to_string("/proc/self/limits").unwrap();
        assert!(open_files(&own).is_some_and(|files| files > 0));
    }

    #[test]
    fn the_kernel_tells_of_its_clock_without_a_right() {
        assert!(is_clock_set().is_some());
    }
}
