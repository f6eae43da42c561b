//! Writes what the published WebShop code and Lucene are asked about, with this shop's own answers, into a folder:
//! products, purchases with their rewards, documents and searches with their rankings. `scripts/parity_webshop.py`
//! compares.
//!
//! Usage: webshop FOLDER

use flow_core::seed::Random;
use flow_env::webshop::{reward, tokens, Goal, Shop};
use flow_env::Deal;
use serde_json::{json, Value};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

const PRODUCTS: usize = 10_000;
const PURCHASES: u64 = 2_000;
const SEARCHES: u64 = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("a folder is wanted")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let shop = Shop::with_size(PRODUCTS);
    lines(folder, "products.jsonl", shop.products.iter().map(|product| json!({
        "asin": product.asin, "query": product.query, "product_category": product.path, "name": product.title, "Title": product.title,
        "Description": product.description, "BulletPoints": product.bullets, "Attributes": product.attributes, "price": product.price,
        "options": product.options.iter().map(|(name, values)| json!([name, values])).collect::<Vec<_>>(),
        "wanted": product.instruction_attributes, "instruction": product.instruction, "words": tokens(&product.title).collect::<Vec<_>>(),
    })))?;
    lines(folder, "documents.jsonl", shop.products.iter().map(|product| json!({ "id": product.asin, "contents": product.searchable() })))?;
    lines(folder, "purchases.jsonl", (0..PURCHASES).filter_map(|seed| purchase(&shop, seed)))?;
    lines(folder, "searches.jsonl", (0..SEARCHES).filter_map(|seed| search(&shop, seed)))?;
    Ok(())
}

fn lines(folder: &Path, name: &str, values: impl Iterator<Item = Value>) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(folder.join(name))?);
    for value in values {
        writeln!(out, "{value}")?;
    }
    out.flush()
}

/// Somebody buys something: what was wanted, something that was found, or anything; with options chosen well or by
/// chance.
fn purchase(shop: &Shop, seed: u64) -> Option<Value> {
    let goal = Goal::sample(seed, Deal::of(None, seed), &shop.products)?;
    let mut random = Random::new(seed ^ 0x5eed);
    let results = shop.search(&goal.instruction);
    let product = match random.below(4) {
        0 => goal.product,
        1 => random.below(shop.products.len()),
        _ => *results.get(random.below(results.len().min(20)))?,
    };
    let mut options = Vec::new();
    for (name, values) in &shop.products[product].options {
        let requested = goal.options.iter().find(|(option, value)| option == name && values.contains(value));
        match (random.below(5), requested) {
            (0, _) => {}
            (1 | 2, Some(requested)) => options.push(*requested),
            _ => options.push((*name, values[random.below(values.len())])),
        }
    }
    let earned = reward(&shop.products[product], &options, &goal, &shop.products[goal.product]);
    Some(json!({
        "seed": seed, "wanted": goal.product, "goal_options": goal.options, "price_upper": goal.price_upper, "instruction": goal.instruction,
        "product": product, "options": options, "reward": earned.total, "r_type": earned.kind,
    }))
}

/// Instructions, what baselines search for, and words at random.
fn search(shop: &Shop, seed: u64) -> Option<Value> {
    let goal = Goal::sample(seed, Deal::of(None, seed), &shop.products)?;
    let product = &shop.products[goal.product];
    let mut random = Random::new(seed ^ 0xfeed);
    let query = match seed % 4 {
        0 | 1 => goal.instruction.to_lowercase(),
        2 => format!("{} {}", product.instruction_attributes[random.below(product.instruction_attributes.len())], product.query),
        _ => {
            let texts: Vec<String> = (0..3).map(|_| shop.products[random.below(shop.products.len())].searchable()).collect();
            let words: Vec<&str> = texts.iter().flat_map(|text| text.split(' ')).collect();
            (0..1 + random.below(6)).map(|_| words[random.below(words.len())]).collect::<Vec<_>>().join(" ")
        }
    };
    let results = shop.search(&query);
    Some(json!({ "query": query, "found": results }))
}
