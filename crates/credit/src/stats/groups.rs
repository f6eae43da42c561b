//! Groups of equal ids.

use std::hint::black_box;

/// How many rows are in the group of each row.
pub fn sizes(groups: &[u64]) -> Vec<u32> {
    Groups::of(groups).sizes()
}

/// Equal ids as groups, numbered 0, 1, 2, ... in the order of their first members.
pub struct Groups {
    index: Vec<u32>,
    len: usize,
}

/// How many ids ahead the table is touched, so that waits for memory overlap.
const AHEAD: usize = 64;

impl Groups {
    /// Numbers the groups of these ids (fewer than `u32::MAX`), one id a row.
    ///
    /// A slot of the open-addressed table holds no id, only where one first stands (counted from 1; 0 is free) and,
    /// in the bits left over, a tag that settles nearly every comparison of different ids: so the table stays small.
    /// It is only ever asked for an id, never walked, so its layout can't reach the result.
    pub fn of(ids: &[u64]) -> Groups {
        let mut table = vec![0u32; (ids.len() * 2).next_power_of_two()];
        let mask = table.len() - 1;
        let rows = (ids.len() + 1).next_power_of_two().wrapping_sub(1) as u32;
        // Fibonacci hashing (Knuth): the upper half of the product is spread well even when ids are 0, 1, 2, ...
        let spread = |id: u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let home = |hash: u64| (hash >> 32) as usize & mask;
        let mut index: Vec<u32> = Vec::with_capacity(ids.len());
        let mut len = 0;
        for chunk in ids.chunks(AHEAD) {
            black_box(chunk.iter().fold(0, |touched, id| touched | table[home(spread(*id))]));
            for id in chunk {
                let row = index.len();
                if row > 0 && ids[row - 1] == *id {
                    index.push(index[row - 1]);
                    continue;
                }
                let hash = spread(*id);
                let tag = hash as u32 & !rows;
                let mut at = home(hash);
                let number = loop {
                    let slot = table[at];
                    let first = (slot & rows) as usize;
                    if first == 0 {
                        table[at] = tag | (row as u32 + 1);
                        len += 1;
                        break len - 1;
                    }
                    if slot & !rows == tag && ids[first - 1] == *id {
                        break index[first - 1];
                    }
                    at = (at + 1) & mask;
                };
                index.push(number);
            }
        }
        Groups { index, len: len as usize }
    }
    /// The number of each row's group.
    pub fn index(&self) -> &[u32] {
        &self.index
    }
    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// How many rows are in the group of each row.
    pub fn sizes(&self) -> Vec<u32> {
        let mut counts = vec![0; self.len];
        self.index.iter().for_each(|group| counts[*group as usize] += 1);
        self.index.iter().map(|group| counts[*group as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::seed::Random;
    use std::collections::HashMap;

    #[test]
    fn groups_are_numbered_as_they_come() {
        let groups = Groups::of(&[0, 9, 0, u64::MAX, 9]);
        assert_eq!((groups.index(), groups.len()), (&[0, 1, 0, 2, 1][..], 3));
        assert!(Groups::of(&[]).is_empty());
        assert_eq!(sizes(&[5, 6, 5, 5]), [3, 1, 3, 3]);
    }

    #[test]
    fn a_large_table_agrees_with_a_map() {
        let mut random = Random::new(1);
        let ids: Vec<u64> = (0..20_000).map(|i| if i % 2 == 0 { random.below(9_000) as u64 } else { random.next() }).collect();
        let mut numbers = HashMap::new();
        let expected: Vec<u32> = ids
            .iter()
            .map(|id| {
                let next = numbers.len() as u32;
                *numbers.entry(*id).or_insert(next)
            })
            .collect();
        assert_eq!(Groups::of(&ids).index(), expected);
    }
}
