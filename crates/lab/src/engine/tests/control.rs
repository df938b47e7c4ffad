//! Limits, rates and users of a run, and changes of them.

use stdx::hash::Keyed;
use stdx::time::Instant;

use super::*;
use crate::engine::control::RunControl;
use crate::engine::shard_hub::ShardHub;

const START: Instant = Instant::from_unix_seconds(1_700_000_000);

/// Calls at 10 a second, with these further steps and options.
fn at_ten(rest: &str, change: impl FnOnce(&mut Options)) -> Setup {
    let mut client = options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1);
    client.rate.calls = 10.0;
    change(&mut client);
    Setup { scenario: ends::lasting(rest), ..setup("uac", client) }
}

/// The control of a run without shards, and its hub.
fn control(setup: &Setup) -> (RunControl, ShardHub) {
    (RunControl::new(setup, START), ShardHub::new(Keyed::new([1; 16]), None, Vec::new()))
}

/// `-rate_scale` is the step of the keys and nothing else.
#[test]
fn the_scale_of_the_rate_is_no_factor_of_it() {
    let (mut control, hub) = control(&at_ten("", |options| options.rate.scale = 5.0));
    assert_eq!((control.target_rate(), control.limit()), (10.0, 30));
    assert_eq!(control.schedule().due(10), START + Duration::from_secs(1));
    for (step, rate, limit) in [(5.0, 15.0, 45), (-5.0, 10.0, 30), (-50.0, 0.0, 1), (5.0, 5.0, 15)] {
        control.apply(&RunChange::Step(step), START, &hub);
        assert_eq!((control.target_rate(), control.limit()), (rate, limit), "{step}");
    }
}

#[test]
fn a_step_begins_at_the_rate_that_the_increase_has_reached() {
    let (mut control, hub) = control(&at_ten("", |options| {
        options.rate.increase = Some(10.0);
        options.rate.interval = Duration::from_secs(10);
    }));
    let now = START + Duration::from_secs(90);
    control.tick(now, &hub);
    control.apply(&RunChange::Step(1.0), now, &hub);
    assert_eq!(control.target_rate(), 101.0);
}

#[test]
fn a_step_of_a_run_of_users_changes_their_number() {
    let (mut control, hub) = control(&at_ten("", |options| options.rate.users = Some(50)));
    for (step, users) in [(1.0, 51), (10.0, 61), (-100.0, 0), (1.0, 1)] {
        control.apply(&RunChange::Step(step), START, &hub);
        assert_eq!((control.users(), control.limit(), control.target_rate()), (users, u64::from(users), 0.0));
    }
}

#[test]
fn the_default_limit_is_made_for_timewait_and_for_the_tails_of_distributions() {
    for (rest, seconds) in [
        ("", 1.0),
        (r#"<pause milliseconds="2500"/>"#, 2.5),
        (r#"<timewait milliseconds="4000"/>"#, 4.0),
        (r#"<pause milliseconds="1500"/><timewait milliseconds="4000"/>"#, 5.5),
        (r#"<pause distribution="uniform" min="1000" max="3000"/>"#, 2.98),
        (r#"<pause distribution="normal" mean="5000" stdev="1000"/>"#, 7.326),
        (r#"<pause distribution="lognormal" mean="10.28" stdev="1"/>"#, 298.5),
        (r#"<pause distribution="exponential" mean="2000"/>"#, 9.21),
        (r#"<pause distribution="weibull" lambda="30000" k="4"/>"#, 43.95),
        (r#"<pause distribution="pareto" k="4" x_m="3000"/>"#, 9.487),
        (r#"<pause distribution="gamma" k="3" theta="2000"/>"#, 16.81),
        // SIPp's lengths end with its `int`.
        (r#"<pause distribution="lognormal" mean="90" stdev="1"/>"#, 2_147_483.647),
    ] {
        let limit = RunControl::new(&at_ten(rest, |_| {}), START).limit() as f64;
        let wanted = 3.0 * 10.0 * seconds;
        assert!((limit - wanted).abs() <= 1.0 + wanted / 200.0, "{rest}: {limit}, not {wanted}");
    }
}
