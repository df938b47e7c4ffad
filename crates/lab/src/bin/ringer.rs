//! `ringer`: the load lab's program.

fn main() {}
