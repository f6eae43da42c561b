//! What an open field says about its closed cells: the exact probability of a mine in each, by counting every placement
//! of mines that agrees with the numbers.
//!
//! Closed cells that touch the same numbers are alike, so they are counted as one class by binomials; classes joined by
//! a number form a component, enumerated by itself; components and the cells that touch no number meet in a convolution
//! over the number of mines.

use super::field::{neighbours, Field};

/// Placements of one component that are tried before its cells count as unknown.
const PATIENCE: usize = 2_000_000;

/// Cells alike to the numbers: where they are, and which numbers touch them.
struct Class {
    cells: Vec<usize>,
    numbers: Vec<usize>,
}

/// Of one component, by number of mines in it: how many placements there are, and how many mines they put in each
/// class.
struct PlacementCounts {
    ways: Vec<f64>,
    mines: Vec<Vec<f64>>,
}

/// The cell to open: the least probable mine, and among equals the likeliest blank, then the first. `None` when the
/// only closed cells are known mines.
pub fn choose(field: &Field, mines: usize, known: &[bool]) -> Option<usize> {
    let chance = probabilities(field, mines);
    let closed = (0..chance.len()).filter(|&at| !field.open[at] && !known[at]);
    let blank = |at: usize| neighbours(field.size, at).map(|n| if field.open[n] { 1.0 } else { 1.0 - chance[n] }).product::<f64>();
    closed
        .map(|at| (at, (chance[at] * 1e9).round(), blank(at)))
        .reduce(|best, next| {
            let better = next.1 < best.1 || (next.1 == best.1 && next.2 > best.2 + 1e-9);
            if better {
                next
            } else {
                best
            }
        })
        .map(|best| best.0)
}

/// The probability of a mine in each cell; 0 in open ones.
pub fn probabilities(field: &Field, mines: usize) -> Vec<f64> {
    let (classes, free) = classes(field);
    let components = components(&classes, field.size * field.size);
    let counts: Vec<Option<PlacementCounts>> = components.iter().map(|part| enumerate(field, &classes, part)).collect();
    // A component too large to count is left to the free cells: its numbers are ignored.
    let mut outside: Vec<usize> = free;
    for (part, _) in components.iter().zip(&counts).filter(|(_, counts)| counts.is_none()) {
        outside.extend(part.iter().flat_map(|&class| &classes[class].cells));
    }
    let known: Vec<(&Vec<usize>, &PlacementCounts)> =
        components.iter().zip(&counts).filter_map(|(part, c)| Some((part, c.as_ref()?))).collect();
    let free_ways: Vec<f64> = (0..=outside.len()).map(|k| binomial(outside.len(), k)).collect();
    let product = |skip: usize, start: &[f64]| {
        let others = known.iter().enumerate().filter(|(i, _)| *i != skip);
        others.fold(start.to_vec(), |all, (_, (_, counts))| convolve(&all, &counts.ways, mines))
    };
    let at = |ways: &[f64], k: usize| ways.get(k).copied().unwrap_or(0.0);
    let total = at(&product(usize::MAX, &free_ways), mines);
    let mut chance = vec![0.0; field.open.len()];
    if total <= 0.0 {
        return chance;
    }
    for (i, (part, counts)) in known.iter().enumerate() {
        let rest = product(i, &free_ways);
        for (class, placed) in part.iter().zip(&counts.mines) {
            let expected: f64 = placed.iter().enumerate().filter(|(k, _)| *k <= mines).map(|(k, n)| n * at(&rest, mines - k)).sum();
            let cells = &classes[*class].cells;
            cells.iter().for_each(|&cell| chance[cell] = expected / total / cells.len() as f64);
        }
    }
    let placed: Vec<f64> = free_ways.iter().enumerate().map(|(k, n)| n * k as f64).collect();
    let expected = at(&product(usize::MAX, &placed), mines) / total;
    outside.iter().for_each(|&cell| chance[cell] = expected / outside.len() as f64);
    chance
}

/// The classes of closed cells, and the closed cells that touch no number.
fn classes(field: &Field) -> (Vec<Class>, Vec<usize>) {
    let (mut classes, mut free): (Vec<Class>, Vec<usize>) = (Vec::new(), Vec::new());
    for cell in (0..field.open.len()).filter(|&at| !field.open[at]) {
        let numbers: Vec<usize> = neighbours(field.size, cell).filter(|&n| field.open[n] && !field.mines[n]).collect();
        if numbers.is_empty() {
            free.push(cell);
        } else if let Some(class) = classes.iter_mut().find(|class| class.numbers == numbers) {
            class.cells.push(cell);
        } else {
            classes.push(Class { cells: vec![cell], numbers });
        }
    }
    (classes, free)
}

/// Classes joined by common numbers.
fn components(classes: &[Class], cells: usize) -> Vec<Vec<usize>> {
    let mut touching = vec![Vec::new(); cells];
    for (i, class) in classes.iter().enumerate() {
        class.numbers.iter().for_each(|&n| touching[n].push(i));
    }
    let mut taken = vec![false; classes.len()];
    let mut components = Vec::new();
    for first in 0..classes.len() {
        let (mut part, mut next) = (Vec::new(), 0);
        if !taken[first] {
            taken[first] = true;
            part.push(first);
        }
        while let Some(&class) = part.get(next) {
            next += 1;
            for &other in classes[class].numbers.iter().flat_map(|&n| &touching[n]) {
                if !std::mem::replace(&mut taken[other], true) {
                    part.push(other);
                }
            }
        }
        if !part.is_empty() {
            components.push(part);
        }
    }
    components
}

/// All placements of one component, class by class; `None` when there are too many.
fn enumerate(field: &Field, classes: &[Class], part: &[usize]) -> Option<PlacementCounts> {
    let cells: usize = part.iter().map(|&class| classes[class].cells.len()).sum();
    let mut counts = PlacementCounts { ways: vec![0.0; cells + 1], mines: vec![vec![0.0; cells + 1]; part.len()] };
    // For each number: mines it still lacks, and closed cells not yet decided.
    let mut lack: Vec<i32> = field.around.iter().map(|&n| n as i32).collect();
    let mut undecided = vec![0i32; lack.len()];
    for &class in part {
        classes[class].numbers.iter().for_each(|&n| undecided[n] += classes[class].cells.len() as i32);
    }
    let mut chosen = vec![0usize; part.len()];
    let mut patience = PATIENCE;
    place(classes, part, 0, 1.0, &mut chosen, &mut lack, &mut undecided, &mut counts, &mut patience)?;
    Some(counts)
}

#[allow(clippy::too_many_arguments)] // one recursion; a struct of these would only rename them
fn place(
    classes: &[Class],
    part: &[usize],
    depth: usize,
    ways: f64,
    chosen: &mut [usize],
    lack: &mut [i32],
    undecided: &mut [i32],
    counts: &mut PlacementCounts,
    patience: &mut usize,
) -> Option<()> {
    *patience = patience.checked_sub(1)?;
    let Some(&index) = part.get(depth) else {
        let total: usize = chosen.iter().sum();
        counts.ways[total] += ways;
        chosen.iter().zip(&mut counts.mines).for_each(|(&k, mines)| mines[total] += ways * k as f64);
        return Some(());
    };
    let class = &classes[index];
    let size = class.cells.len();
    class.numbers.iter().for_each(|&n| undecided[n] -= size as i32);
    for k in 0..=size {
        class.numbers.iter().for_each(|&n| lack[n] -= k as i32);
        if class.numbers.iter().all(|&n| (0..=undecided[n]).contains(&lack[n])) {
            chosen[depth] = k;
            place(classes, part, depth + 1, ways * binomial(size, k), chosen, lack, undecided, counts, patience)?;
        }
        class.numbers.iter().for_each(|&n| lack[n] += k as i32);
    }
    class.numbers.iter().for_each(|&n| undecided[n] += size as i32);
    Some(())
}

/// `n` over `k`, as a number that may be large.
fn binomial(n: usize, k: usize) -> f64 {
    (0..k).fold(1.0, |all, i| all * (n - i) as f64 / (i + 1) as f64)
}

/// The product of two counts by number of mines, up to `most` mines.
fn convolve(a: &[f64], b: &[f64], most: usize) -> Vec<f64> {
    let mut product = vec![0.0; (a.len() + b.len()).min(most + 2) - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate().take_while(|(j, _)| i + j <= most) {
            product[i + j] += x * y;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::seed::Random;

    /// The same by trying every placement on the whole field.
    fn by_trying_all(field: &Field, mines: usize) -> Vec<f64> {
        let closed: Vec<usize> = (0..field.open.len()).filter(|&at| !field.open[at]).collect();
        let (mut total, mut hits) = (0.0, vec![0.0; field.open.len()]);
        for set in (0u32..1 << closed.len()).filter(|set| set.count_ones() as usize == mines) {
            let mined: Vec<usize> = closed.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, &at)| at).collect();
            let fits = (0..field.open.len())
                .filter(|&at| field.open[at])
                .all(|at| neighbours(field.size, at).filter(|n| mined.contains(n)).count() == field.around[at] as usize);
            if fits {
                total += 1.0;
                mined.iter().for_each(|&at| hits[at] += 1.0);
            }
        }
        hits.iter().map(|n| n / total).collect()
    }

    #[test]
    fn probabilities_equal_those_of_all_placements() {
        let mut random = Random::new(3);
        for _ in 0..60 {
            let mut places: Vec<usize> = (0..16).collect();
            random.shuffle(&mut places);
            let mut field = Field::new(4, (0..16).map(|at| places[..4].contains(&at)).collect());
            for &at in &places[5..5 + random.below(6)] {
                field.dig(at);
            }
            let (exact, all) = (probabilities(&field, 4), by_trying_all(&field, 4));
            for at in 0..16 {
                assert!((exact[at] - all[at]).abs() < 1e-9, "cell {at}: {} and {}\n{}", exact[at], all[at], field.draw());
            }
        }
    }
}
