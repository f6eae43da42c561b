//! Texts as tokens: tokenizers, chat templates, and the templates of prompts. A tokenizer and a template are programs from
//! anywhere, so their work is bounded ([`limit`]).

pub mod jinja;
pub mod limit;
mod tokenizer;

pub use tokenizer::*;
