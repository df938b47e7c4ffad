//! A program started by a test, ended by its process id when the test lets go of it.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::wait::{lines_in, wait_until};

pub struct Peer {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Peer {
    /// Starts `program` in `folder`; its output goes to `<name>.log` there.
    pub fn start(name: &str, program: &str, arguments: &[String], folder: &Path) -> Peer {
        let log = folder.join(format!("{name}.log"));
        let output =
            File::options().create(true).append(true).open(&log).expect("the test's folder is writable");
        let errors = output.try_clone().expect("a file can be cloned");
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // Its own group, so that its children end with it.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}. {}", package_of(program)));
        Peer { name: name.to_owned(), child, log }
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        let (child, log) = (&mut self.child, &self.log);
        let has_ended = || {
            status = child.try_wait().expect("our own child");
            status.is_some()
        };
        wait_until(&format!("the end of {}", self.name), limit, has_ended, || tail(log));
        status.expect("it has ended")
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("our own child").is_none()
    }

    /// The signal by its name, `TERM`, to this process alone. After `STOP` it stands still.
    pub fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        send(name, &process);
        if name == "STOP" {
            ::wait::until_stopped(&process);
        }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("our own child");
        self.child.wait().expect("our own child");
    }

    /// True if a socket listens at this port in the network of the program; `kind` is `udp` or `tcp`.
    pub fn is_bound(&self, kind: &str, port: u16) -> bool {
        // Linux lists sockets by the port in hexadecimal; a socket that listens has no remote address, and state 0A or 07.
        let local = format!(":{port:04X} 00000000:0000 ");
        let listens = |line: &String| {
            let state = line.split_once(&local).map(|(_, rest)| rest);
            state.is_some_and(|rest| rest.starts_with("0A") || rest.starts_with("07"))
        };
        lines_in(Path::new(&format!("/proc/{}/net/{kind}", self.id()))).iter().any(listens)
    }

    /// The lines that it has printed so far.
    pub fn lines(&self) -> Vec<String> {
        lines_in(&self.log)
    }

    /// The end of its output, for a failure's text.
    pub fn tail(&self) -> String {
        tail(&self.log)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        if self.is_running() {
            self.signal("TERM");
            let ended = ::wait::within(Duration::from_secs(1), || (!self.is_running()).then_some(()));
            if ended.is_none() {
                send("KILL", &group);
            }
        }
        // Children that outlived it (Kamailio's workers after a kill -9); there may be none.
        send("KILL", &group);
        let _ = self.child.wait();
    }
}

/// The shell's own `kill`: std has no other signal than KILL and no group.
pub(crate) fn send(signal: &str, target: &str) {
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -s {signal} -- {target}")])
        .stderr(Stdio::null())
        .status();
}

fn tail(log: &Path) -> String {
    let lines = lines_in(log);
    format!("{}:\n{}", log.display(), lines[lines.len().saturating_sub(40)..].join("\n"))
}

fn package_of(program: &str) -> String {
    let package = match program {
        "sipp" => "sip-tester",
        "baresip" => "baresip-core",
        other => other,
    };
    format!("Install it: apt-get install {package} (or run tools/setup)")
}

/// The interpreter with a library of the tests.
pub fn python(name: &str) -> PathBuf {
    installed(name, "bin/python")
}

/// A file or folder of a library of the tests: `target/peers/NAME/PATH`, where `tools/setup` puts it.
pub(crate) fn installed(name: &str, path: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let target = test.ancestors().nth(3).unwrap_or(Path::new("."));
    let found = target.join("peers").join(name).join(path);
    assert!(found.exists(), "no {}: run tools/setup", found.display());
    found
}
