//! Tests that drive the real binary, and the files that it leaves. One program, because linking libtorch, Arrow and
//! DuckDB into one a file took longer than the tests.

mod common;
#[path = "../shared/logged.rs"]
mod logged;
#[path = "../shared/server.rs"]
mod server;

mod audit;
mod begin;
mod branches;
mod broken;
mod calls;
mod cli;
mod clusters;
mod concat;
mod determinism;
mod diff;
mod disk;
mod distil;
mod docs;
mod drift;
mod english;
mod environments;
mod failure;
mod forge;
mod generated;
mod house;
mod ideas;
mod import;
mod invariance;
mod links;
mod listed;
mod log_files;
mod log_query;
mod loops;
mod lora;
mod memory;
mod methods;
mod models;
mod newcomers;
mod outputs;
mod pipeline_tests;
mod ppo;
mod processes;
mod prompts;
mod python;
mod rank;
mod remote;
mod replay;
mod report;
mod resume;
mod see;
mod serve;
mod served;
mod slea_rl;
mod sleep;
mod study;
mod terminal;
mod tinker;
mod trees;
mod update;
mod weights;
