//! Properties of all templates.

use proptest::prelude::*;

use super::message_text;
use super::tests::{World, fixed, furnish, kw, lit, options, scenario, table, template};
use crate::inject::InjectionFiles;
use crate::scenario::action::{Action, ActionKind};
use crate::scenario::template::{Keyword, TemplatePart};

#[test]
fn the_texts_of_actions_are_checked_too() {
    let mut scenario = scenario(template(&[lit("A")]));
    let log = template(&[lit("x "), kw(Keyword::Key("foo".into()))]);
    scenario.steps[0].actions.push(Action { line: 9, kind: ActionKind::Log(log) });
    let error = super::PreparedMessages::new(&scenario, &options(), &fixed(), &InjectionFiles::default())
        .unwrap_err();
    assert!(error.starts_with("dir/test.xml:9: unknown keyword [foo]"), "{error}");
}

/// As the compiler cuts them: no two literals side by side, none empty.
fn merged(parts: Vec<TemplatePart>) -> Vec<TemplatePart> {
    let mut merged: Vec<TemplatePart> = Vec::new();
    for part in parts {
        match (merged.last_mut(), part) {
            (_, TemplatePart::Text(text)) if text.is_empty() => {}
            (Some(TemplatePart::Text(before)), TemplatePart::Text(text)) => {
                *before = [&before[..], &text].concat().into();
            }
            (_, part) => merged.push(part),
        }
    }
    merged
}

fn any_part() -> impl Strategy<Value = TemplatePart> {
    let keywords = prop::sample::select(table().into_iter().map(|(keyword, _)| keyword).collect::<Vec<_>>());
    prop_oneof![
        "[a-z ]{0,6}".prop_map(|text| lit(&text)),
        Just(lit("\r\n")),
        Just(lit("\r\n\r\n")),
        keywords.prop_map(kw),
    ]
}

proptest! {
    #[test]
    fn folded_and_plain_rendering_agree(parts in prop::collection::vec(any_part(), 0..12), furnished: bool) {
        let parts = merged(parts);
        let mut world = World::new(&parts, &fixed());
        if furnished {
            furnish(&mut world);
        }
        let folded = world.rendered();
        let mut plain = Vec::new();
        world.with_ctx(|call, ctx| message_text(call, ctx, &template(&parts), 1, &mut plain)).unwrap();
        prop_assert_eq!(folded, String::from_utf8(plain).unwrap());
    }

    #[test]
    fn a_length_is_always_that_of_the_body(head in prop::collection::vec(any_part(), 0..6), body in "[ -~]{0,300}") {
        let mut parts = vec![lit("INVITE x SIP/2.0\r\nContent-Length:"), kw(Keyword::Len(0)), lit("\r\n")];
        parts.extend(head);
        parts.extend([lit("\r\n\r\n"), lit(&body)]);
        let mut world = World::new(&merged(parts), &fixed());
        furnish(&mut world);
        let message = world.rendered();
        let length: usize = message[34..39].trim().parse().unwrap();
        let (_, body) = message.split_once("\r\n\r\n").unwrap();
        prop_assert_eq!(length, body.len());
    }
}
