//! How episodes are played and reflected on: the place where an environment and a policy meet. It knows no timely, and
//! of a pipeline's graph only the node whose settings `points` checks.
//!
//! A [`sampler::Sampler`] plays: a [`player`] shows the policy a [`prompt`], alone or in a [`conversation`], and reads
//! an [`action`] from its answer (`answers`), or asks the expert, and the turn is taken into its [`episode`]. A critic
//! may [`rank`] the actions beside the policy, or the policy value several answers of its own ([`branches`]). What
//! fails is played again or given up ([`retry`]). Whole episodes become rows ([`record`]), which [`transcript`] reads
//! back for a [`reflection`], asked a [`question`], or the expert's `advice`; an [`extraction`] makes entries of a
//! memory from the best and worst of them. Prompt and question are [`template`]s. [`notes`] go into the next attempt's
//! prompt, an [`exchange`] of them is the control. An [`agent`] says how a model acts, and its [`context`] what its
//! prompt has beside the observation: entries of memories, notes, and what it wrote for itself a turn ago. A
//! [`row_text`] is made of rows that were played, and a [`rollback`] of each is tried in the environment.
//! [`dynamic_sampling`] goes on playing until enough tasks tell good from bad. A [`continuation`] plays on from a turn
//! that was logged, and a [`tree`] from turns of this iteration.

pub mod action;
mod advice;
pub mod agent;
mod answers;
pub mod batch;
mod branch_settings;
pub mod branches;
mod calling;
mod calls;
pub mod clustering;
pub mod context;
pub mod continuation;
pub mod conversation;
pub mod dynamic_sampling;
pub mod episode;
pub mod error;
pub mod exchange;
pub mod extraction;
pub mod notes;
pub mod past_turns;
mod pending;
pub mod player;
pub mod points;
pub mod prompt;
pub mod question;
pub mod rank;
pub mod record;
pub mod reflection;
pub mod retry;
pub mod rollback;
pub mod row_text;
pub mod sampler;
pub mod settings;
pub mod sources;
pub mod summary;
pub mod tags;
pub mod template;
pub mod tools;
pub mod transcript;
pub mod tree;
pub mod turn;
