//! Limits, rates and users of a run, and changes of them.

use stdx::time::Instant;

use super::*;
use crate::engine::control::RunControl;

/// Calls at 10 a second, with these further steps and options.
fn at_ten(rest: &str, change: impl FnOnce(&mut Options)) -> Setup {
    let mut client = options("127.0.0.1", Protocol::Udp, Sockets::Shared, 1);
    client.rate.calls = 10.0;
    change(&mut client);
    Setup { scenario: ends::lasting(rest), ..setup("uac", client) }
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
        let limit = RunControl::new(&at_ten(rest, |_| {}), Instant::default()).limit() as f64;
        let wanted = 3.0 * 10.0 * seconds;
        assert!((limit - wanted).abs() <= 1.0 + wanted / 200.0, "{rest}: {limit}, not {wanted}");
    }
}
