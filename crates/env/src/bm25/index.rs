//! An inverted index, and BM25 over it.

use super::analyzer::terms;
use rustc_hash::FxHashMap;

/// Anserini's parameters.
const K1: f32 = 0.9;
const B: f32 = 0.4;

/// Documents by their terms. Scores are Lucene's `BM25Similarity` (k1 0.9, b 0.4) in its own precision: the length of a
/// document counts as the byte that Lucene keeps of it, and there is no factor k1 + 1.
pub struct Bm25Index {
    /// Only asked for one term at a time, never walked.
    postings: FxHashMap<String, Vec<Posting>>,
    /// 1 / (k1 (1 - b + b length / mean length)) of each document.
    inverse: Vec<f32>,
}

struct Posting {
    document: u32,
    count: u32,
}

impl Bm25Index {
    /// An index of texts. Where scores are equal, the text that comes earlier here ranks higher.
    pub fn new<'t>(texts: impl IntoIterator<Item = &'t str>) -> Bm25Index {
        let mut postings: FxHashMap<String, Vec<Posting>> = FxHashMap::default();
        let mut lengths = Vec::new();
        for text in texts {
            let document = lengths.len() as u32;
            let terms = terms(text);
            lengths.push(terms.len() as u64);
            for term in terms {
                let list = postings.entry(term).or_default();
                match list.last_mut().filter(|last| last.document == document) {
                    Some(last) => last.count += 1,
                    None => list.push(Posting { document, count: 1 }),
                }
            }
        }
        let mean = (lengths.iter().sum::<u64>() as f64 / lengths.len().max(1) as f64) as f32;
        let inverse = lengths.iter().map(|length| 1.0 / (K1 * ((1.0 - B) + B * rounded_length(*length) as f32 / mean))).collect();
        Bm25Index { postings, inverse }
    }

    /// The places of the `most` texts that score highest, best first; texts without any of the words score nothing and
    /// are left out.
    pub fn search(&self, query: &str, most: usize) -> Vec<usize> {
        let mut query_terms: Vec<(String, u32)> = Vec::new();
        for term in terms(query) {
            match query_terms.iter_mut().find(|(known, _)| *known == term) {
                Some((_, times)) => *times += 1,
                None => query_terms.push((term, 1)),
            }
        }
        let mut scores = vec![0f64; self.inverse.len()];
        for (term, times) in query_terms {
            let Some(list) = self.postings.get(&term) else { continue };
            let weight = times as f32 * rarity(self.inverse.len(), list.len());
            for posting in list {
                let document = posting.document as usize;
                scores[document] += f64::from(gain(weight, posting.count, self.inverse[document]));
            }
        }
        let mut ranked: Vec<(f32, usize)> = scores.iter().enumerate().filter(|(_, s)| **s > 0.0).map(|(i, s)| (*s as f32, i)).collect();
        let order = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if ranked.len() > most {
            ranked.select_nth_unstable_by(most, order);
            ranked.truncate(most);
        }
        ranked.sort_unstable_by(order);
        ranked.into_iter().map(|(_, document)| document).collect()
    }
}

/// Lucene's inverse document frequency of a term that `having` of `all` documents have: ln(1 + (N - n + 1/2) / (n +
/// 1/2)).
fn rarity(all: usize, having: usize) -> f32 {
    (1.0 + (all as f64 - having as f64 + 0.5) / (having as f64 + 0.5)).ln() as f32
}

/// What a term that a document has `count` times adds to its score: weight * count / (count + 1 / inverse), as Lucene
/// computes it.
fn gain(weight: f32, count: u32, inverse: f32) -> f32 {
    weight - weight / (1.0 + count as f32 * inverse)
}

/// The length that Lucene's byte keeps (`SmallFloat.intToByte4` and back): exact below 40, then four significant bits.
fn rounded_length(length: u64) -> u64 {
    const FREE: u64 = 24;
    let Some(rest) = length.checked_sub(FREE) else { return length };
    let bits = 64 - u64::from(rest.leading_zeros());
    let shift = bits.saturating_sub(4);
    FREE + (rest >> shift << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_kept_as_lucenes_byte_keeps_them() {
        let expected =
            [(0, 0), (23, 23), (24, 24), (39, 39), (40, 40), (41, 40), (42, 42), (56, 56), (59, 56), (60, 60), (100, 96), (1000, 984)];
        for (length, byte) in expected {
            assert_eq!(rounded_length(length), byte, "{length}");
        }
    }

    #[test]
    fn scores_order_documents_as_bm25_says() {
        let index = Bm25Index::new(["red shoe", "red red wool hat", "blue hat"]);
        assert_eq!(index.search("red", 10), [1, 0], "twice in a longer text beats once");
        assert_eq!(index.search("shoes for a hat", 10), [0, 2, 1], "the rarer word, then the shorter text");
        assert_eq!(index.search("hats", 1), [2]);
        assert!(index.search("the", 10).is_empty() && index.search("", 10).is_empty() && index.search("green", 10).is_empty());
        assert_eq!(Bm25Index::new(["same", "same"]).search("same", 2), [0, 1], "ties in the order of the documents");
        assert!((rarity(3, 1) - 0.98083).abs() < 1e-5, "ln(1 + 2.5 / 1.5)");
        assert!((gain(2.0, 2, 1.0 / K1) - 2.0 * 2.0 / 2.9).abs() < 1e-6, "twice in a text of the mean length");
    }
}
