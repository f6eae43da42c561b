//! The shop that all episodes of a process share: the catalogue and its search engine.

use super::catalogue::{self, Product};
use crate::bm25::Bm25Index;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Products that a search finds, and how many a page shows.
pub const FOUND: usize = 50;
pub const PAGE: usize = 10;

/// The catalogue and its search engine.
pub struct Shop {
    pub products: Vec<Product>,
    index: Bm25Index,
}

/// The shops that were ever asked for, by their number of products.
static SHOPS: LazyLock<Mutex<BTreeMap<usize, Arc<Shop>>>> = LazyLock::new(Mutex::default);

impl Shop {
    /// The shop with so many products, made when it is first asked for.
    pub fn with_size(count: usize) -> Arc<Shop> {
        let mut shops = SHOPS.lock();
        shops.entry(count).or_insert_with(|| Arc::new(Shop::new(count))).clone()
    }

    fn new(count: usize) -> Shop {
        let products = catalogue::make(count);
        let texts: Vec<String> = products.iter().map(Product::searchable).collect();
        Shop { index: Bm25Index::new(texts.iter().map(String::as_str)), products }
    }

    /// The places of the products that a search finds, best first.
    pub fn search(&self, keywords: &str) -> Vec<usize> {
        self.index.search(keywords, FOUND)
    }
}
