//! The engine for a base that is frozen beside an adapter, on a CPU: products of 8 bits and of f32 by its instructions
//! ([`products`]), the decoder row by row and its gradient ([`engine`]), over tries of tokens ([`trie`]). A row's bits
//! follow from the row alone. All SIMD of flow is here, and nearly all its unsafe code.

#[macro_use]
pub mod products;
pub mod engine;
pub mod trie;
