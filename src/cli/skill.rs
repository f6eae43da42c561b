//! `flow skill`: what a coding agent needs to operate flow, as one page in the form of a skill.

use super::output::{finish, CommandResult};
use clap::Args;

/// The page; its first lines name it for programs that collect skills.
const PAGE: &str = include_str!("../../docs/skill.md");

#[derive(Args)]
pub struct SkillArgs {}

impl SkillArgs {
    pub fn run(self) -> CommandResult {
        finish(PAGE)
    }
}
