//! The words that the catalogue is made of: kinds of products with their attributes, in `lexicon.json`. All texts are
//! in small letters, so that a word is one token wherever it stands. Lists are separated by `|`.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A kind of product.
#[derive(Deserialize)]
pub struct ProductKind {
    /// The way through the categories, from the broadest; the first names the category.
    pub path: &'static str,
    /// What one searches for to find it; instructions call it so.
    pub query: &'static str,
    /// What titles call it.
    pub names: &'static str,
    /// The words before the name.
    pub traits: &'static str,
    /// The words after it, with their preposition.
    pub ends: &'static str,
    /// What a buyer chooses: the option's name and its values, or the list of them.
    #[serde(borrow)]
    options: Vec<(&'static str, &'static str)>,
    /// The least and the greatest price, in dollars.
    pub price: (u32, u32),
}

/// All words.
#[derive(Default, Deserialize)]
pub struct Lexicon {
    /// Names of makers: two of these parts each.
    pub syllables: &'static str,
    /// Words of titles that are no nouns. All others that begin with a letter are, the makers' names among them.
    pub others: &'static str,
    /// Lists of values that several kinds have, by name.
    #[serde(borrow)]
    lists: BTreeMap<&'static str, &'static str>,
    /// THE list of kinds.
    pub kinds: Vec<ProductKind>,
}

impl Lexicon {
    /// What a buyer of this kind chooses: each option's name and its values.
    pub fn options<'l>(&'l self, kind: &'l ProductKind) -> impl Iterator<Item = (&'static str, &'static str)> + 'l {
        kind.options.iter().map(|(name, values)| (*name, self.lists.get(values).copied().unwrap_or(values)))
    }
}

/// The words. They are a part of the program; a test reads them.
pub static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| serde_json::from_str(include_str!("lexicon.json")).unwrap_or_default());
