//! The best that can be done in the house, exactly: by dynamic programming over what a player knows.

use super::house::Clue;
use super::COST;

/// What a policy comes to, in expectation over the houses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Optimum {
    /// The return of an episode: the sum of its rewards.
    pub value: f64,
    /// The rooms that it looks into.
    pub looks: f64,
    /// The chance that it looks into any, and so is in the hall more than once.
    pub explores: f64,
}

/// What a player of a house with `doors` doors knows: whether it knows the right one, and how many of its rooms it
/// hasn't seen. The best of opening a door and of looking into a further room (two turns: there and back), which has
/// the note with chance 1 / `left`.
fn best(clue: Clue, doors: usize, known: bool, left: usize) -> Optimum {
    let right = if known { 1.0 } else { 1.0 / doors as f64 };
    let open = Optimum { value: right - f64::from(COST), ..Optimum::default() };
    if left == 0 {
        return open;
    }
    let chance = if clue == Clue::Note && !known { 1.0 / left as f64 } else { 0.0 };
    let [with, without] = [true, known].map(|known| best(clue, doors, known, left - 1));
    let mean = |field: fn(&Optimum) -> f64| chance * field(&with) + (1.0 - chance) * field(&without);
    let look = Optimum { value: mean(|o| o.value) - 2.0 * f64::from(COST), looks: 1.0 + mean(|o| o.looks), explores: 1.0 };
    if look.value > open.value {
        look
    } else {
        open
    }
}

/// The best that can be done in houses with this clue.
pub fn with_clue(clue: Clue, doors: usize, rooms: usize) -> Optimum {
    best(clue, doors, clue == Clue::Sign, rooms)
}

/// The same over all houses (each clue is in a third of them), and the exploration degree (EAPO, D.7.4): of the states
/// that episodes are in, each counted once an episode, the share that they are in more than once. An episode that looks
/// into n rooms is in n + 1 states, and returns to one of them: the hall.
pub fn optimum(doors: usize, rooms: usize) -> (Optimum, f64) {
    let all = Clue::ALL.map(|clue| with_clue(clue, doors, rooms));
    let mean = |field: fn(&Optimum) -> f64| all.iter().map(field).sum::<f64>() / 3.0;
    let whole = Optimum { value: mean(|o| o.value), looks: mean(|o| o.looks), explores: mean(|o| o.explores) };
    (whole, whole.explores / (1.0 + whole.looks))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four doors, two rooms, 0.05 a step. A sign: 1 - 0.05 = 0.95. Dark: 0.25 - 0.05 = 0.2. A note: a first look costs
    /// 0.1 and finds it half of the time, and then 0.95 is left; else a second one finds it, 0.95 - 0.1 = 0.85 are
    /// left: -0.1 + 0.475 + 0.425 = 0.8, by 1.5 looks. All in all 0.65, and a third of the episodes come back to one of
    /// 1.5 states: 2/9.
    #[test]
    fn the_best_as_worked_by_hand() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        let [sign, note, dark] = Clue::ALL.map(|clue| with_clue(clue, 4, 2));
        close(sign.value, 0.95);
        close(note.value, 0.8);
        close(note.looks, 1.5);
        close(dark.value, 0.2);
        assert_eq!((sign.looks, dark.looks), (0.0, 0.0), "nothing is to be seen there");
        let (whole, degree) = optimum(4, 2);
        close(whole.value, 0.65);
        close(degree, 2.0 / 9.0);
    }

    /// With two doors, four rooms and no clue better than a guess at once: 0.45 against -0.1 + ... the note is worth
    /// 0.5, and 2.5 looks cost 0.25.
    #[test]
    fn looking_stops_where_it_does_not_pay() {
        let note = with_clue(Clue::Note, 2, 4);
        assert!((note.value - (0.95 - 0.25)).abs() < 1e-6 && (note.looks - 2.5).abs() < 1e-6, "{note:?}");
    }
}
