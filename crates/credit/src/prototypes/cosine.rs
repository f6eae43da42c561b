//! Likeness of points on the unit sphere: their cosine.

use super::Likeness;

/// By how much the cosine of a point with itself may miss 1: f32 rounds.
const ROUNDING: f32 = 1e-5;

/// Points are alike whose cosine is at least this.
#[derive(Clone, Copy, Debug)]
pub struct Cosine {
    /// From -1 to 1.
    pub at_least: f32,
}

impl Likeness for Cosine {
    type Key = [f32];
    type Prototype = Vec<f32>;

    fn prototype(&self, key: &[f32]) -> Vec<f32> {
        key.to_vec()
    }

    fn alike(&self, key: &[f32], prototype: &Vec<f32>) -> bool {
        prototype.len() == key.len() && reaches(dot(prototype, key), self.at_least)
    }

    fn first<'p>(&self, key: &[f32], mut prototypes: impl Iterator<Item = &'p Vec<f32>>) -> Option<usize> {
        let mut before = 0;
        loop {
            let (mut next, mut count): ([&[f32]; TILE], usize) = ([&[]; TILE], 0);
            for (place, prototype) in next.iter_mut().zip(prototypes.by_ref()) {
                *place = prototype;
                count += 1;
            }
            let cosines = some_dots(key, &next[..count]);
            let alike = |i: &usize| next[*i].len() == key.len() && reaches(cosines[*i], self.at_least);
            if let Some(place) = (0..count).find(alike) {
                return Some(before + place);
            }
            if count < TILE {
                return None;
            }
            before += count;
        }
    }
}

/// Whether a cosine is at least this, up to rounding.
pub fn reaches(cosine: f32, at_least: f32) -> bool {
    cosine >= at_least - ROUNDING
}

/// Sums beside each other: one compiles to a vector or several, and the order of additions is the same in vectors of
/// any width.
const LANES: usize = 16;
/// Dot products beside each other: each waits for its own sums alone.
const TILE: usize = 4;

/// The dot product of two points of one width, in a fixed order of additions.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in left.zip(right) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// The dot product of a point with each of several, to the bit what [`dot`] gives, in two thirds of the time. 0 for one
/// of another width.
pub fn dots(point: &[f32], others: &[&[f32]]) -> Vec<f32> {
    let mut dots = Vec::with_capacity(others.len());
    for some in others.chunks(TILE) {
        dots.extend_from_slice(&some_dots(point, some)[..some.len()]);
    }
    dots
}

/// The same of [`TILE`] at most.
fn some_dots(point: &[f32], others: &[&[f32]]) -> [f32; TILE] {
    match <[&[f32]; TILE]>::try_from(others) {
        Ok(others) if others.iter().all(|other| other.len() == point.len()) => tile_dots(point, others),
        _ => {
            let dot = |other: &&&[f32]| if other.len() == point.len() { dot(point, other) } else { 0.0 };
            std::array::from_fn(|i| others.get(i).as_ref().map_or(0.0, dot))
        }
    }
}

type Sums = [[f32; LANES]; TILE];

/// The sums, each lane's products added in their order, by the widest vectors that the CPU has; then the lanes in
/// theirs, and what is left over. A product is rounded before it is added whatever the vectors are, so the bits are the
/// same.
fn tile_dots(point: &[f32], others: [&[f32]; TILE]) -> [f32; TILE] {
    let mut sums: Sums = [[0.0; LANES]; TILE];
    add_products(point, others, &mut sums);
    let mut dots = add_lanes(&sums);
    let whole = point.len() / LANES * LANES;
    for (dot, other) in dots.iter_mut().zip(others) {
        *dot += point[whole..].iter().zip(&other[whole..]).map(|(x, y)| x * y).sum::<f32>();
    }
    dots
}

fn add_products(point: &[f32], others: [&[f32]; TILE], sums: &mut Sums) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2(point: &[f32], others: [&[f32]; TILE], sums: &mut Sums) {
            products(point, others, sums);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has these instructions.
            return unsafe { avx2(point, others, sums) };
        }
    }
    products(point, others, sums);
}

#[inline(always)]
fn products(point: &[f32], others: [&[f32]; TILE], sums: &mut Sums) {
    // Written out, so that the compiler holds all sums in registers: as a loop over the four it takes five times as
    // long.
    let [a, b, c, d] = others.map(|other| other.as_chunks::<LANES>().0);
    let mut own: Sums = [[0.0; LANES]; TILE];
    for ((((x, a), b), c), d) in point.as_chunks::<LANES>().0.iter().zip(a).zip(b).zip(c).zip(d) {
        for lane in 0..LANES {
            own[0][lane] += x[lane] * a[lane];
            own[1][lane] += x[lane] * b[lane];
            own[2][lane] += x[lane] * c[lane];
            own[3][lane] += x[lane] * d[lane];
        }
    }
    *sums = own;
}

/// Each one's lanes in their order. A function of its own: together with the products, the compiler makes vectors of
/// neither.
#[inline(never)]
#[allow(clippy::needless_range_loop)] // lane by lane, four beside each other: a vector of four
fn add_lanes(sums: &Sums) -> [f32; TILE] {
    let mut dots = [0f32; TILE];
    for lane in 0..LANES {
        for i in 0..TILE {
            dots[i] += sums[i][lane];
        }
    }
    dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_product_of_any_length() {
        let a: Vec<f32> = (0..35).map(|i| i as f32).collect();
        assert_eq!(dot(&a, &a), (0..35).map(|i| (i * i) as f32).sum::<f32>());
    }

    #[test]
    fn several_at_a_time_give_the_bits_of_one() {
        let mut random = flow_core::seed::Random::new(3);
        for width in [1, 15, 16, 35, 384] {
            let points: Vec<Vec<f32>> = (0..11).map(|_| (0..width).map(|_| random.unit() as f32 - 0.5).collect()).collect();
            let others: Vec<&[f32]> = points.iter().map(Vec::as_slice).collect();
            let bits = |dots: Vec<f32>| dots.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(dots(others[0], &others)), bits(others.iter().map(|other| dot(others[0], other)).collect()), "{width}");
        }
        assert_eq!(dots(&[1.0], &[&[2.0], &[], &[3.0], &[4.0]]), [2.0, 0.0, 3.0, 4.0], "one of another width");
    }
}
