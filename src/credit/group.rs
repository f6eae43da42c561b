//! Groups: which rows are compared with one another.

use crate::seed::mix;

/// The id of the group of a row whose grouping columns hold `keys`: a fixed hash, so a group has one id on every machine.
pub fn group_id(keys: &[u64]) -> u64 {
    keys.iter().fold(keys.len() as u64, |id, key| mix(id, *key))
}

/// [`group_id`] of each of `rows` rows, column by column.
pub fn group_ids(columns: &[&[u64]], rows: usize) -> Vec<u64> {
    let mut ids = vec![columns.len() as u64; rows];
    for column in columns {
        // Sorted rows repeat their leading columns, so the last answer often serves again.
        let (mut before, mut key, mut after) = (0, 0, mix(0, 0));
        for (id, value) in ids.iter_mut().zip(*column) {
            if (*id, *value) != (before, key) {
                (before, key, after) = (*id, *value, mix(*id, *value));
            }
            *id = after;
        }
    }
    ids
}

/// How many rows are in the group of each row.
pub fn sizes(groups: &[u64]) -> Vec<u32> {
    let groups = Groups::of(groups);
    let mut counts = vec![0; groups.len()];
    groups.index().iter().for_each(|g| counts[*g as usize] += 1);
    groups.index().iter().map(|g| counts[*g as usize]).collect()
}

/// Groups numbered 0, 1, 2, ... in the order in which their first rows stand.
pub struct Groups {
    index: Vec<u32>,
    len: usize,
}

/// A slot of the table: an id and the number of its group plus one; 0 marks a free slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    id: u64,
    number: u32,
}

impl Groups {
    /// Numbers the groups of these rows (at most `u32::MAX - 1` of them).
    ///
    /// An open-addressed table of which at most half is used. It is only ever asked for an id, never walked, so
    /// its layout can't reach the result; that is also why a plain multiplication is hash enough.
    pub fn of(ids: &[u64]) -> Groups {
        let mut table = vec![Slot::default(); 1024];
        let mut len = 0;
        let (mut last, mut number) = (0, 0);
        let index = ids
            .iter()
            .map(|id| {
                if number == 0 || *id != last {
                    let slot = find(&mut table, *id);
                    if slot.number == 0 {
                        len += 1;
                        *slot = Slot { id: *id, number: len as u32 };
                    }
                    (last, number) = (*id, slot.number);
                    if len * 2 > table.len() {
                        grow(&mut table);
                    }
                }
                number - 1
            })
            .collect();
        Groups { index, len }
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
}

/// The slot that holds `id`, or the free one where it belongs. The table's length is a power of two.
fn find(table: &mut [Slot], id: u64) -> &mut Slot {
    let mask = table.len() - 1;
    // Fibonacci hashing (Knuth): the upper half of the product is spread well even when ids are 0, 1, 2, ...
    let mut at = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
    while table[at].number != 0 && table[at].id != id {
        at = (at + 1) & mask;
    }
    &mut table[at]
}

fn grow(table: &mut Vec<Slot>) {
    let mut larger = vec![Slot::default(); table.len() * 4];
    for slot in table.iter().filter(|slot| slot.number != 0) {
        *find(&mut larger, slot.id) = *slot;
    }
    *table = larger;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Random;
    use std::collections::HashMap;

    #[test]
    fn ids_tell_columns_apart() {
        assert_ne!(group_id(&[1, 2]), group_id(&[2, 1]));
        assert_ne!(group_id(&[1]), group_id(&[1, 0]));
        assert_ne!(group_id(&[]), group_id(&[0]));
        let (a, b) = ([1, 1, 2, 0, 0], [5, 5, 5, 0, 1]);
        let expected: Vec<u64> = (0..5).map(|i| group_id(&[a[i], b[i]])).collect();
        assert_eq!(group_ids(&[&a, &b], 5), expected);
        assert_eq!(group_ids(&[], 2), [group_id(&[]); 2], "no columns: all rows are one group");
        assert_eq!(group_ids(&[&[0]], 1), [group_id(&[0])]);
    }

    #[test]
    fn groups_are_numbered_as_they_come() {
        let groups = Groups::of(&[0, 9, 0, u64::MAX, 9]);
        assert_eq!((groups.index(), groups.len()), (&[0, 1, 0, 2, 1][..], 3));
        assert!(Groups::of(&[]).is_empty());
        assert_eq!(sizes(&[5, 6, 5, 5]), [3, 1, 3, 3]);
    }

    #[test]
    fn a_table_that_grew_agrees_with_a_map() {
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
