//! The farm of a run with its servers: begins faults, ends them, and supervises the nodes as an operator's system does.

use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::clock::Clock;
use super::schedule::{Fault, Step};
use crate::DOMAIN;
use crate::certificates::self_signed;
use crate::farm::{Farm, NodeWays};
use crate::nats::{Nats, NatsRelease};
use crate::postgres::PostgresServer;

/// The time until a farm is whole again after a fault: a drain waits for open transactions, and a name for its lease.
const WHOLE: Duration = Duration::from_secs(120);

/// Nodes that may be away at a time where faults overlap.
const AWAY: usize = 2;

/// A node that ended without being asked is started again after this long, as by a supervisor.
const RESTART: Duration = Duration::from_millis(500);

/// The exit code of a life that the farm counts as dead (docs/farm.md).
const LIFE_IS_OVER: i32 = 75;

/// A time in which messages may be lost today, microseconds since the begin of the run.
pub(super) type Interval = (u64, u64);

/// The servers of a run and its farm.
pub(super) struct World {
    /// The farm's nodes.
    pub(super) farm: Farm,
    /// The ports of the nodes for chat.
    pub(super) chat_ports: Vec<u16>,
    /// The certificate of all nodes.
    pub(super) certificate: PathBuf,
    /// The events, with their times.
    pub(super) log: Vec<(Duration, String)>,
    /// The times from faults that can lose messages today until the farm was whole again.
    pub(super) outages: Vec<Interval>,
    /// The life of an owner may have ended.
    pub(super) owners_died: bool,
    /// Processes that ended as none may.
    pub(super) crashes: Vec<String>,
    nats: Nats,
    postgres: PostgresServer,
    ways: Vec<NodeWays>,
    clock: Clock,
    is_verbose: bool,
    /// The ends of faults that have begun.
    repairs: Vec<(Duration, Repair)>,
    /// Nodes that are draining.
    draining: Vec<usize>,
    /// The begin of the oldest fault since the farm was whole that can lose messages.
    outage_since: Option<u64>,
    /// The begin of the first failure of the database since the farm was whole.
    writes_stopped: Option<u64>,
    /// It has the certificate.
    _folder: TempDir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Start(usize),
    Continue(usize),
    MendCouncil(usize),
    MendLinks(usize),
    StartCouncil,
    StartDatabase,
    ContinueDatabase,
}

impl Repair {
    fn node(self) -> Option<usize> {
        match self {
            Repair::Start(node)
            | Repair::Continue(node)
            | Repair::MendCouncil(node)
            | Repair::MendLinks(node) => Some(node),
            Repair::StartCouncil | Repair::StartDatabase | Repair::ContinueDatabase => None,
        }
    }
}

impl World {
    /// Starts so many nodes with `users` accounts.
    pub(super) fn start(nodes: usize, users: usize, clock: Clock, is_verbose: bool) -> World {
        let nats = Nats::start(NatsRelease::Current);
        // A commit outlives the server's processes, which is all that happens here.
        let postgres = PostgresServer::start(&[]);
        let url = postgres.new_database(&[]);
        let ways: Vec<NodeWays> = (0..nodes).map(|_| NodeWays::new(&nats)).collect();
        let folder = TempDir::new().expect("a temporary folder");
        // Of no node's own: a node without one makes a new one at each start.
        let tls = self_signed(folder.path(), DOMAIN);
        let (farm, chat_ports) = Farm::with_ways(&ways, &url, users, &tls);
        World {
            farm,
            chat_ports,
            certificate: tls.certificate,
            log: Vec::new(),
            outages: Vec::new(),
            owners_died: false,
            crashes: Vec::new(),
            nats,
            postgres,
            ways,
            clock,
            is_verbose,
            repairs: Vec::new(),
            draining: Vec::new(),
            outage_since: None,
            writes_stopped: None,
            _folder: folder,
        }
    }

    /// Calls to this user go to 127.0.0.1:`target` from now on.
    pub(super) fn add_route(&self, user: &str, target: u16) {
        let target = format!("sip:127.0.0.1:{target}");
        self.farm.nodes[0].run(&["route", "add", user, &format!("user:{user}"), &target, "--open"]);
    }

    /// Performs the faults in turn. `is_one_at_a_time`: each begins when the farm is whole.
    ///
    /// # Errors
    /// The farm did not become whole again.
    pub(super) fn perform(&mut self, steps: &[Step], is_one_at_a_time: bool) -> Result<(), String> {
        for step in steps {
            self.serve_for(step.after);
            let fault = step.fault;
            self.wait_until(&format!("the farm can stand this: {fault}"), |world| {
                if is_one_at_a_time { world.is_whole() } else { world.can_stand(&fault) }
            })?;
            self.begin(fault);
        }
        self.settle()
    }

    /// Waits until all faults have ended and the farm is whole.
    ///
    /// # Errors
    /// The farm did not become whole again.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        self.wait_until("the farm is whole again", World::is_whole)
    }

    fn serve_for(&mut self, time: Duration) {
        let until = self.clock.elapsed() + time;
        ::wait::within(time, || {
            self.supervise();
            (self.clock.elapsed() >= until).then_some(())
        });
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn(&mut World) -> bool) -> Result<(), String> {
        let found = ::wait::within(WHOLE, || {
            self.supervise();
            is_so(self).then_some(())
        });
        found.ok_or_else(|| {
            let tails = self
                .farm
                .nodes
                .iter()
                .enumerate()
                .map(|(number, node)| format!("n{number}: {}", node.tail()));
            format!("waited {WHOLE:?} until {what}\n{}", tails.collect::<Vec<_>>().join("\n"))
        })
    }

    /// Writes down what happened.
    pub(super) fn tell(&mut self, text: String) {
        let time = self.clock.elapsed();
        if self.is_verbose {
            eprintln!("{:8.1} s  {text}", time.as_secs_f64());
        }
        self.log.push((time, text));
    }

    fn begin(&mut self, fault: Fault) {
        self.tell(fault.to_string());
        self.owners_died |= fault.ends_a_life();
        if fault.stops_writes() {
            self.writes_stopped.get_or_insert(self.clock.microseconds());
        }
        if fault.ends_a_life() {
            self.note_outage();
        }
        let (repair, time) = match fault {
            Fault::Kill { node } => {
                self.farm.nodes[node].kill();
                (Repair::Start(node), Duration::ZERO)
            }
            Fault::Pause { node, time } => {
                self.farm.nodes[node].signal("STOP");
                (Repair::Continue(node), time)
            }
            Fault::Drain { node } => {
                self.draining.push(node);
                self.farm.nodes[node].signal("TERM");
                return;
            }
            Fault::CutCouncil { node, time } => {
                self.ways[node].council.cut();
                (Repair::MendCouncil(node), time)
            }
            Fault::CutLinks { node, time } => {
                self.ways[node].links.cut();
                (Repair::MendLinks(node), time)
            }
            Fault::KillCouncil { time } => {
                self.nats.kill();
                (Repair::StartCouncil, time)
            }
            Fault::KillDatabase { time } => {
                self.postgres.kill();
                (Repair::StartDatabase, time)
            }
            Fault::PauseDatabase { time } => {
                self.postgres.stop();
                (Repair::ContinueDatabase, time)
            }
        };
        self.repairs.push((self.clock.elapsed() + time, repair));
    }

    fn note_outage(&mut self) {
        // Messages whose writes waited for the database die with their owner.
        let began = self.writes_stopped.unwrap_or_else(|| self.clock.microseconds());
        self.outage_since = Some(self.outage_since.map_or(began, |since| since.min(began)));
    }

    /// Ends faults whose time is over, and starts nodes that have ended.
    fn supervise(&mut self) {
        let now = self.clock.elapsed();
        let is_due = |(at, _): &(Duration, Repair)| *at <= now;
        let (due, later) = std::mem::take(&mut self.repairs).into_iter().partition::<Vec<_>, _>(is_due);
        self.repairs = later;
        due.into_iter().for_each(|(_, repair)| self.repair(repair));
        for node in 0..self.farm.nodes.len() {
            if let Some(code) = self.farm.nodes[node].exit_code() {
                self.handle_end(node, code);
            }
        }
    }

    fn repair(&mut self, repair: Repair) {
        match repair {
            Repair::Start(node) => {
                if self.farm.nodes[node].id() == 0 {
                    self.farm.nodes[node].start_unready();
                }
            }
            // Its process may have been killed meanwhile.
            Repair::Continue(node) if self.farm.nodes[node].id() != 0 => self.farm.nodes[node].signal("CONT"),
            Repair::Continue(_) => {}
            Repair::MendCouncil(node) => self.ways[node].council.mend(),
            Repair::MendLinks(node) => self.ways[node].links.mend(),
            Repair::StartCouncil => self.nats.start_again(),
            Repair::StartDatabase => self.postgres.start_again(),
            Repair::ContinueDatabase => self.postgres.go_on(),
        }
    }

    fn handle_end(&mut self, node: usize, code: Option<i32>) {
        let was_draining = self.draining.iter().position(|other| *other == node);
        if let Some(place) = was_draining {
            self.draining.remove(place);
        }
        match code {
            Some(0) if was_draining.is_some() => {}
            Some(LIFE_IS_OVER) => {
                self.owners_died = true;
                self.note_outage();
                self.tell(format!("n{node} ended with code 75"));
            }
            // A node that starts while the database is away, or before its name is free.
            Some(1) => self.tell(format!("n{node} ended with code 1")),
            code => {
                self.owners_died = true;
                self.note_outage();
                let text = format!("n{node} ended with {code:?}");
                self.crashes.push(format!("{text}\n{}", self.farm.nodes[node].tail()));
                self.tell(text);
            }
        }
        self.repairs.push((self.clock.elapsed() + RESTART, Repair::Start(node)));
    }

    /// True if a fault can begin while others are there: enough nodes serve, and not both servers are away.
    fn can_stand(&mut self, fault: &Fault) -> bool {
        let is_server = |repair: Repair| repair.node().is_none();
        let Some(node) = fault.node() else {
            return !self.repairs.iter().any(|(_, repair)| is_server(*repair));
        };
        let mut away: Vec<usize> = self.repairs.iter().filter_map(|(_, repair)| repair.node()).collect();
        away.extend(&self.draining);
        if away.contains(&node) {
            return false;
        }
        // The other nodes are asked: one that has just started does not serve yet.
        let asked = (0..self.farm.nodes.len()).find(|other| !away.contains(other));
        let serving = asked.map_or(0, |asked| self.serving_at(asked));
        serving + AWAY > self.farm.nodes.len() && self.farm.nodes[node].id() != 0
    }

    /// The nodes that have a share, as this one sees them.
    fn serving_at(&self, node: usize) -> usize {
        let status = self.farm.nodes[node].try_json(&["farm", "status", "--json"]).unwrap_or_default();
        let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |row: &serde_json::Value, what: &str| row[what].as_u64() > Some(0);
        let is_away = !status["council_away"].is_null();
        nodes.iter().filter(|row| !is_away && has(row, "call_slots") && has(row, "buckets")).count()
    }

    /// True if no fault is left and every node sees all nodes at work.
    fn is_whole(&mut self) -> bool {
        if !self.repairs.is_empty() || !self.draining.is_empty() {
            return false;
        }
        let count = self.farm.nodes.len();
        let is_whole = (0..count).all(|node| {
            let node_is_healthy = self.farm.nodes[node].id() != 0 && self.farm.nodes[node].is_healthy();
            node_is_healthy && self.serving_at(node) == count
        });
        if is_whole {
            self.writes_stopped = None;
        }
        if let Some(since) = self.outage_since.take_if(|_| is_whole) {
            self.outages.push((since, self.clock.microseconds()));
        }
        is_whole
    }
}
