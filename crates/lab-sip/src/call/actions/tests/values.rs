//! Actions that compute.

use super::*;
use crate::scenario::model::Distribution;

#[test]
fn assign_takes_a_number_or_a_number_variable() {
    let mut world = World::new();
    world.quiet(ActionKind::Assign { to: var(0), value: Operand::Value(2.5) });
    world.quiet(ActionKind::Assign { to: var(1), value: Operand::Variable(var(0)) });
    assert_eq!(*world.value(1), VariableValue::Number(2.5));
    world.put(0, text("7"));
    world.quiet(ActionKind::Assign { to: var(1), value: Operand::Variable(var(0)) });
    assert_eq!(*world.value(1), VariableValue::Number(7.0), "the text of a number is one");
    world.put(0, text("seven"));
    world.quiet(ActionKind::Assign { to: var(1), value: Operand::Variable(var(0)) });
    assert_eq!(*world.value(1), VariableValue::Number(0.0));
}

#[test]
fn variables_of_users_and_of_the_run_are_kept_there() {
    let mut world = World::new();
    for scope in [Scope::User, Scope::Global] {
        let to = VarRef { scope, slot: 2 };
        world.quiet(ActionKind::Assign { to, value: Operand::Value(4.0) });
        world.quiet(ActionKind::Arithmetic { to, operation: Arithmetic::Add, value: Operand::Variable(to) });
    }
    assert_eq!(world.user[2], VariableValue::Number(8.0));
    assert_eq!(world.env.globals.read()[2], VariableValue::Number(8.0));
    assert_eq!(*world.value(2), VariableValue::Unset);
}

#[test]
fn assignstr_renders() {
    let mut world = World::new();
    world.put(0, VariableValue::Number(1.5));
    world.quiet(ActionKind::AssignStr { to: var(1), value: showing(0) });
    assert_eq!(*world.value(1), text("1.500000"));
    world.put(0, VariableValue::Number(0.0));
    world.quiet(ActionKind::AssignStr { to: var(1), value: showing(0) });
    assert_eq!(*world.value(1), text(""));
}

#[test]
fn arithmetic() {
    for (operation, result) in [
        (Arithmetic::Add, 8.0),
        (Arithmetic::Subtract, 4.0),
        (Arithmetic::Multiply, 12.0),
        (Arithmetic::Divide, 3.0),
    ] {
        let mut world = World::new();
        world.put(0, VariableValue::Number(6.0));
        world.quiet(ActionKind::Arithmetic { to: var(0), operation, value: Operand::Value(2.0) });
        assert_eq!(*world.value(0), VariableValue::Number(result), "{operation:?}");
    }
}

#[test]
fn a_division_by_zero_changes_nothing() {
    let mut world = World::new();
    world.put(0, VariableValue::Number(6.0));
    let by = Operand::Variable(var(1));
    let divide = ActionKind::Arithmetic { to: var(0), operation: Arithmetic::Divide, value: by };
    assert!(world.warned(divide).contains("line 3: divide: division by zero"));
    assert_eq!(*world.value(0), VariableValue::Number(6.0));
}

#[test]
fn todouble_reads_text_and_an_invalid_number_changes_nothing() {
    let mut world = World::new();
    world.put(0, text("12.5"));
    world.quiet(ActionKind::ToDouble { to: var(1), from: var(0) });
    assert_eq!(*world.value(1), VariableValue::Number(12.5));
    world.put(0, text("12x"));
    assert!(world.warned(ActionKind::ToDouble { to: var(1), from: var(0) }).contains("todouble"));
    assert_eq!(*world.value(1), VariableValue::Number(12.5));
}

#[test]
fn sample_draws() {
    let mut world = World::new();
    let distribution = Distribution::Uniform { min: 5.0, max: 6.0 };
    world.quiet(ActionKind::Sample { to: var(0), distribution });
    let first = world.value(0).clone();
    assert!(matches!(first, VariableValue::Number(number) if (5.0..=6.0).contains(&number)), "{first:?}");
    world.quiet(ActionKind::Sample { to: var(0), distribution });
    assert_ne!(first, *world.value(0));
}

#[test]
fn texts_are_trimmed_encoded_and_decoded_in_place() {
    let mut world = World::new();
    world.put(0, text(" \ta b\r\n"));
    world.quiet(ActionKind::Trim(var(0)));
    assert_eq!(*world.value(0), text("a b"));
    world.quiet(ActionKind::UrlEncode(var(0)));
    assert_eq!(*world.value(0), text("a%20b"));
    world.quiet(ActionKind::UrlDecode(var(0)));
    assert_eq!(*world.value(0), text("a b"));
}

#[test]
fn gettimeofday_is_the_calendars() {
    let mut world = World::new();
    world.quiet(ActionKind::GetTimeOfDay { seconds: var(0), micros: var(1) });
    assert!(world.value(0).as_operand() > 1_700_000_000.0);
    assert!((0.0..1e6).contains(&world.value(1).as_operand()));
}

#[test]
fn jump_goes_anywhere_but_to_itself_and_outside() {
    let mut world = World::new();
    assert_eq!(world.run(ActionKind::Jump(Operand::Value(3.9))), ActionResult::Jump(3));
    world.put(0, VariableValue::Number(5.0));
    assert_eq!(world.run(ActionKind::Jump(Operand::Variable(var(0)))), ActionResult::Jump(5));
    for (step, part) in [(0.0, "to itself"), (6.0, "no step 6"), (-1.0, "no step -1"), (f64::NAN, "no step")]
    {
        assert!(world.stopped(ActionKind::Jump(Operand::Value(step))).contains(part), "{step}");
    }
}

#[test]
fn pauserestore_gives_the_end_of_the_pause() {
    let mut world = World::new();
    let until = |milliseconds| ActionResult::PauseUntil(START + Duration::from_millis(milliseconds));
    assert_eq!(world.run(ActionKind::PauseRestore(Operand::Value(1500.0))), until(1500));
    world.put(0, VariableValue::Number(0.0));
    for nothing in [Operand::Variable(var(0)), Operand::Value(-3.0), Operand::Value(f64::NAN)] {
        assert_eq!(
            world.run(ActionKind::PauseRestore(nothing)),
            ActionResult::PauseUntil(Instant::FAR_FUTURE)
        );
    }
    let endless = world.run(ActionKind::PauseRestore(Operand::Value(f64::INFINITY)));
    assert!(matches!(endless, ActionResult::PauseUntil(end) if end > START && end < Instant::FAR_FUTURE));
}
