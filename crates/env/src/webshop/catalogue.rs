//! The products: made from a seed, the same on every machine. The official ones aren't included, so a figure measured
//! on these is of "WebShop rules, own catalogue".

use super::lexicon::{ProductKind, LEXICON};
use flow_core::seed::{mix, text, Random};
use std::collections::BTreeSet;

/// What the catalogue is made from.
const SEED: u64 = 1;

/// A product, with the fields that the published code reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    /// Its name in the shop: `B0` and eight digits.
    pub asin: String,
    /// What one searches for to find it.
    pub query: &'static str,
    /// The way through the categories, joined by `›`.
    pub path: &'static str,
    pub title: String,
    pub description: String,
    pub bullets: Vec<String>,
    pub attributes: Vec<String>,
    /// What a buyer chooses: names with their values.
    pub options: Vec<(&'static str, Vec<&'static str>)>,
    /// The price, or the two between which it lies, as the page shows it.
    pub pricing: Vec<f64>,
    /// What it costs.
    pub price: f64,
    /// The attributes that an instruction asks for, and the instruction without options and price.
    pub instruction_attributes: Vec<String>,
    pub instruction: String,
}

impl Product {
    /// What the search engine reads of it: title, description, first bullet and options, as the published code joins
    /// them.
    pub fn searchable(&self) -> String {
        let options = self.options.iter().map(|(name, values)| format!("{name}: {}", values.join(", ")));
        let options = options.collect::<Vec<_>>().join(", and ");
        let bullet = self.bullets.first().map_or("", String::as_str);
        format!("{} {} {bullet} {options}", self.title, self.description).to_lowercase()
    }

    /// The price as the page shows it: `$23.99`, or `$10.0 to $20.0`.
    pub fn tag(&self) -> String {
        self.pricing.iter().map(|price| format!("${price:?}")).collect::<Vec<_>>().join(" to ")
    }
}

/// The nouns of a title, in its order. The published code asks spaCy's tagger; here the words come from a list that
/// knows which are nouns.
pub fn nouns(title: &str) -> Vec<&str> {
    tokens(title).filter(|(_, noun)| *noun).map(|(word, _)| word).collect()
}

/// The words of a title, each with whether it is a noun.
pub fn tokens(title: &str) -> impl Iterator<Item = (&str, bool)> {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| (word, word.starts_with(char::is_alphabetic) && !LEXICON.others.split('|').any(|other| other == word)))
}

/// So many products, in the order of their asins.
pub fn make(count: usize) -> Vec<Product> {
    let mut taken = BTreeSet::new();
    let mut products: Vec<Product> = (0..count as u64).map(|i| product(mix(mix(SEED, text("catalogue")), i), &mut taken)).collect();
    products.sort_by(|a, b| a.asin.cmp(&b.asin));
    products
}

fn product(seed: u64, taken: &mut BTreeSet<u64>) -> Product {
    let mut random = Random::new(seed);
    let kind = &LEXICON.kinds[random.below(LEXICON.kinds.len())];
    let asin = loop {
        let digits = random.next() % 100_000_000;
        if taken.insert(digits) {
            break format!("B0{digits:08}");
        }
    };
    let parts: Vec<&str> = LEXICON.syllables.split('|').collect();
    let brand = format!("{}{}", parts[random.below(parts.len())], parts[random.below(parts.len())]);
    let name = some(kind.names, 1, &mut random)[0];
    let (few, many) = (3 + random.below(3), 1 + random.below(2));
    let (traits, ends) = (some(kind.traits, few, &mut random), some(kind.ends, many, &mut random));
    let (first, second, end) = (traits[0], traits[1], ends[0]);
    let title = match random.below(4) {
        0 => format!("{brand} {first} {name} {end}"),
        1 => format!("{brand} {name} {end}, {first}"),
        2 => format!("{brand} {first} {second} {name}"),
        _ => format!("{brand} {name}, {first}, {second}, {end}"),
    };
    let bare = |end: &&'static str| end.split_once(' ').map_or(*end, |(_, bare)| bare).to_string();
    let attributes: Vec<String> = traits.iter().map(|word| word.to_string()).chain(ends.iter().map(bare)).collect();
    let (instruction_attributes, instruction) = instruction_for(kind, &traits, &ends, bare, &mut random);
    let options = options(kind, &mut random);
    let (pricing, price) = price(kind, &mut random);
    Product {
        asin,
        query: kind.query,
        path: kind.path,
        title,
        description: format!("a {} {name} by {brand} {}. one of our {}.", traits[traits.len() - 1], ends[ends.len() - 1], kind.query),
        bullets: bullets(name, &traits, &ends),
        attributes,
        options,
        pricing,
        price,
        instruction_attributes,
        instruction,
    }
}

/// What an instruction asks for, in the form of the published ones: attributes before and after what the product is
/// called.
fn instruction_for(
    kind: &ProductKind,
    traits: &[&'static str],
    ends: &[&'static str],
    bare: impl Fn(&&'static str) -> String,
    random: &mut Random,
) -> (Vec<String>, String) {
    let before: Vec<&str> = traits[..1 + random.below(2)].to_vec();
    let after = (random.below(2) == 0).then(|| ends[random.below(ends.len())]);
    let mut text = format!("Find me {} {}", before.join(", "), kind.query);
    text.extend(after.map(|end| format!(" {end}")));
    (before.iter().map(|word| word.to_string()).chain(after.as_ref().map(bare)).collect(), text)
}

/// Every attribute stands in one of the bullets.
fn bullets(name: &str, traits: &[&str], ends: &[&str]) -> Vec<String> {
    let mut bullets = vec![format!("{} and {} {name}", traits[0], traits[1])];
    bullets.extend(traits[2..].iter().map(|word| format!("{word}, made to be used every day")));
    bullets.extend(ends.iter().map(|end| format!("{name} {end}")));
    bullets
}

/// Some values of each option, in the order of the list; now and then a product lacks an option.
fn options(kind: &ProductKind, random: &mut Random) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut options = Vec::new();
    for (name, values) in LEXICON.options(kind) {
        if random.below(8) > 0 {
            let count = 2 + random.below(4);
            let chosen = some(values, count, random);
            options.push((name, values.split('|').filter(|value| chosen.contains(value)).collect()));
        }
    }
    options
}

/// The price as it is shown, one in five as a range, and what the product costs.
fn price(kind: &ProductKind, random: &mut Random) -> (Vec<f64>, f64) {
    let (least, most) = kind.price;
    let cents = [99, 95, 49, 0][random.below(4)];
    let dollars = least as usize + random.below((most - least) as usize);
    let price = (dollars * 100 + cents) as f64 / 100.0;
    if random.below(5) > 0 {
        return (vec![price], price);
    }
    let upper = ((dollars + 1 + dollars / 4) * 100 + cents) as f64 / 100.0;
    (vec![price, upper], price + (upper - price) * random.unit())
}

/// So many of a list's members, or all if there are no more, in a random order.
fn some(list: &'static str, count: usize, random: &mut Random) -> Vec<&'static str> {
    let mut all: Vec<&str> = list.split('|').collect();
    random.shuffle(&mut all);
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_the_same_for_ever() {
        let products = make(300);
        assert_eq!(products, make(300));
        assert!(products.windows(2).all(|pair| pair[0].asin < pair[1].asin));
        let digest = products.iter().fold(0, |hash, p| mix(hash, text(&format!("{p:?}"))));
        assert_eq!(
            digest, 14963508216553442458,
            "a change of the catalogue changes every task's name to another task: the number here says that it was meant"
        );
    }

    #[test]
    fn a_product_has_what_its_instruction_asks_for() {
        for product in make(500) {
            assert!(
                !product.instruction_attributes.is_empty()
                    && product
                        .instruction_attributes
                        .iter()
                        .all(|instruction_attributes| product.attributes.contains(instruction_attributes))
            );
            let text = format!("{} {}", product.title, product.bullets.join(" "));
            assert!(product.attributes.iter().all(|attribute| text.contains(attribute)), "{product:?}");
            assert!(product.price >= product.pricing[0] && product.pricing.last().is_some_and(|most| product.price <= *most));
            assert!(!nouns(&product.title).is_empty(), "{}", product.title);
        }
        assert_eq!(nouns("vatra men's tee, slim fit, with 2 pockets"), ["vatra", "men", "tee", "pockets"]);
    }
}
