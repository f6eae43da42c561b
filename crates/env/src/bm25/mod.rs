//! Search as Lucene's BM25 ranks it, in Anserini's configuration: the engine behind WebShop's search bar.

mod analyzer;
mod index;
mod porter;

pub use index::Bm25Index;
