//! The faults of a run, which follow from its form and its seed alone.

use std::fmt;
use std::time::Duration;

use super::random::Random;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The word for it in reports.
    pub name: &'static str,
    /// The nodes of the farm.
    pub nodes: usize,
    /// The number of faults.
    pub faults: usize,
    /// The shortest and the longest time between two faults, milliseconds.
    pub gap: (u64, u64),
    /// A fault begins only when the farm is whole again. Otherwise up to two nodes are away at a time.
    pub is_one_at_a_time: bool,
    /// Known limits of today count as findings.
    pub is_strict: bool,
}

impl Form {
    /// One fault of each kind that a run of a minute has time for: part of the gate.
    pub const MINUTE: Form = Form {
        name: "minute",
        nodes: 4,
        faults: 5,
        gap: (500, 1_500),
        is_one_at_a_time: true,
        is_strict: false,
    };
    /// Ten minutes.
    pub const SHORT: Form = Form {
        name: "short",
        nodes: 8,
        faults: 60,
        gap: (4_000, 12_000),
        is_one_at_a_time: false,
        is_strict: false,
    };
    /// An hour.
    pub const FULL: Form = Form {
        name: "full",
        nodes: 8,
        faults: 400,
        gap: (4_000, 12_000),
        is_one_at_a_time: false,
        is_strict: false,
    };
}

/// A fault and its extent. Nodes are numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`, and a start at once.
    Kill {
        /// The node.
        node: usize,
    },
    /// The node's process is stopped (SIGSTOP).
    Pause {
        /// The node.
        node: usize,
        /// The time until it goes on.
        time: Duration,
    },
    /// A drain, and a start when the process has ended.
    Drain {
        /// The node.
        node: usize,
    },
    /// The node's connection to NATS is cut.
    CutCouncil {
        /// The node.
        node: usize,
        /// The time until it is mended.
        time: Duration,
    },
    /// The connections that other nodes open to this one are cut.
    CutLinks {
        /// The node.
        node: usize,
        /// The time until they are mended.
        time: Duration,
    },
    /// NATS is killed.
    KillCouncil {
        /// The time until it is started.
        time: Duration,
    },
    /// PostgreSQL is killed as by a crash.
    KillDatabase {
        /// The time until it is started.
        time: Duration,
    },
    /// All processes of PostgreSQL are stopped.
    PauseDatabase {
        /// The time until they go on.
        time: Duration,
    },
}

impl Fault {
    /// The node that it is about.
    pub fn node(&self) -> Option<usize> {
        match self {
            Fault::Kill { node }
            | Fault::Pause { node, .. }
            | Fault::Drain { node }
            | Fault::CutCouncil { node, .. }
            | Fault::CutLinks { node, .. } => Some(*node),
            Fault::KillCouncil { .. } | Fault::KillDatabase { .. } | Fault::PauseDatabase { .. } => None,
        }
    }

    /// True if it can end the life of a node without a drain.
    pub fn ends_a_life(&self) -> bool {
        match self {
            Fault::Kill { .. } | Fault::CutCouncil { .. } => true,
            Fault::Pause { time, .. } => *time > LEASE,
            // A node whose database is away keeps its lease.
            Fault::PauseDatabase { .. }
            | Fault::KillDatabase { .. }
            | Fault::Drain { .. }
            | Fault::KillCouncil { .. }
            | Fault::CutLinks { .. } => false,
        }
    }

    /// True if chat cannot write while it lasts.
    pub fn stops_writes(&self) -> bool {
        matches!(self, Fault::KillDatabase { .. } | Fault::PauseDatabase { .. })
    }
}

/// A node that stands still for less keeps its lease.
const LEASE: Duration = Duration::from_millis(1_000);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kill { node } => write!(f, "kill n{node}"),
            Fault::Pause { node, time } => write!(f, "pause n{node} for {time:?}"),
            Fault::Drain { node } => write!(f, "drain n{node}"),
            Fault::CutCouncil { node, time } => write!(f, "cut n{node} from NATS for {time:?}"),
            Fault::CutLinks { node, time } => write!(f, "cut the links to n{node} for {time:?}"),
            Fault::KillCouncil { time } => write!(f, "kill NATS, away for {time:?}"),
            Fault::KillDatabase { time } => write!(f, "kill PostgreSQL, away for {time:?}"),
            Fault::PauseDatabase { time } => write!(f, "pause PostgreSQL for {time:?}"),
        }
    }
}

/// A fault, and the time since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time since the fault before, or since the farm is whole again.
    pub after: Duration,
    /// The fault.
    pub fault: Fault,
}

/// All faults of a run.
pub fn schedule(form: &Form, seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let mut steps = Vec::with_capacity(form.faults);
    // Kinds come in rounds, so that every run has each of them.
    let mut round = Vec::new();
    while steps.len() < form.faults {
        if round.is_empty() {
            round = if form.is_one_at_a_time { MINUTE_KINDS.to_vec() } else { ALL_KINDS.to_vec() };
            random.shuffle(&mut round);
        }
        let after = Duration::from_millis(random.between(form.gap.0, form.gap.1));
        let kind = round.pop().expect("a round is not empty");
        steps.push(Step { after, fault: kind(form, &mut random) });
    }
    steps
}

type Kind = fn(&Form, &mut Random) -> Fault;

const MINUTE_KINDS: [Kind; 5] = [kill, short_pause, drain, short_council, short_database];

/// Deaths and drains twice a round: they are what a farm is for.
const ALL_KINDS: [Kind; 10] =
    [kill, kill, drain, drain, pause, cut_council, cut_links, council, database, pause_database];

fn kill(form: &Form, random: &mut Random) -> Fault {
    Fault::Kill { node: random.index(form.nodes) }
}

fn drain(form: &Form, random: &mut Random) -> Fault {
    Fault::Drain { node: random.index(form.nodes) }
}

fn short_pause(form: &Form, random: &mut Random) -> Fault {
    Fault::Pause { node: random.index(form.nodes), time: milliseconds(random, 300, 1_000) }
}

fn pause(form: &Form, random: &mut Random) -> Fault {
    Fault::Pause { node: random.index(form.nodes), time: milliseconds(random, 1_000, 5_000) }
}

fn cut_council(form: &Form, random: &mut Random) -> Fault {
    Fault::CutCouncil { node: random.index(form.nodes), time: milliseconds(random, 1_000, 12_000) }
}

fn cut_links(form: &Form, random: &mut Random) -> Fault {
    Fault::CutLinks { node: random.index(form.nodes), time: milliseconds(random, 1_000, 12_000) }
}

fn short_council(_: &Form, random: &mut Random) -> Fault {
    Fault::KillCouncil { time: milliseconds(random, 200, 1_000) }
}

fn council(_: &Form, random: &mut Random) -> Fault {
    Fault::KillCouncil { time: milliseconds(random, 1_000, 8_000) }
}

fn short_database(_: &Form, random: &mut Random) -> Fault {
    Fault::KillDatabase { time: milliseconds(random, 200, 1_000) }
}

fn database(_: &Form, random: &mut Random) -> Fault {
    Fault::KillDatabase { time: milliseconds(random, 1_000, 8_000) }
}

fn pause_database(_: &Form, random: &mut Random) -> Fault {
    Fault::PauseDatabase { time: milliseconds(random, 500, 4_000) }
}

fn milliseconds(random: &mut Random, first: u64, last: u64) -> Duration {
    Duration::from_millis(random.between(first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_faults() {
        assert_eq!(schedule(&Form::SHORT, 7), schedule(&Form::SHORT, 7));
        assert_ne!(schedule(&Form::SHORT, 7), schedule(&Form::SHORT, 8));
    }

    #[test]
    fn every_run_has_each_kind() {
        for (form, kinds) in [(Form::MINUTE, MINUTE_KINDS.len()), (Form::SHORT, 8)] {
            for seed in 0..20 {
                let steps = schedule(&form, seed);
                assert_eq!(steps.len(), form.faults);
                let seen: std::collections::HashSet<_> =
                    steps.iter().map(|step| std::mem::discriminant(&step.fault)).collect();
                assert_eq!(seen.len(), kinds, "{form:?} {seed}");
                assert!(steps.iter().all(|step| step.fault.node().is_none_or(|node| node < form.nodes)));
            }
        }
    }
}
