//! An order by rank and, inside a rank, by chance.

use crate::rng::Rng;

/// By priority; inside one, drawn by weight as RFC 2782 has it. `rank` gives both. The same order for the same `random`.
pub fn by_priority_and_weight<T>(mut left: Vec<T>, rank: impl Fn(&T) -> (u16, u16), random: u64) -> Vec<T> {
    // Zero weights first, so that they have the small chance the RFC gives them.
    left.sort_by_key(&rank);
    let mut rng = Rng::seeded(random);
    let mut ordered = Vec::with_capacity(left.len());
    while let Some(first) = left.first() {
        let priority = rank(first).0;
        let group = left.iter().map(&rank).take_while(|(other, _)| *other == priority);
        let total: u64 = group.map(|(_, weight)| u64::from(weight)).sum();
        let drawn = rng.below(total + 1);
        let mut sum = 0;
        let chosen = left.iter().position(|one| {
            sum += u64::from(rank(one).1);
            sum >= drawn
        });
        ordered.push(left.remove(chosen.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_chances_and_priorities_are_not() {
        let all = vec![("last", 2, 100), ("seldom", 1, 1), ("often", 1, 9)];
        let mut first = 0;
        for random in 0..1_000 {
            let ordered = by_priority_and_weight(all.clone(), |one| (one.1, one.2), random);
            assert_eq!(ordered[2].0, "last");
            first += u32::from(ordered[0].0 == "often");
        }
        assert!((780..=880).contains(&first), "nine of eleven draws: {first}");
    }

    #[test]
    fn an_entry_without_weight_is_drawn_too() {
        let all = vec![("heavy", 1, 1), ("weightless", 1, 0)];
        let drawn = |random| by_priority_and_weight(all.clone(), |one| (one.1, one.2), random)[0].0;
        assert!((0..50).any(|random| drawn(random) == "weightless"));
        assert!((0..50).any(|random| drawn(random) == "heavy"));
    }
}
