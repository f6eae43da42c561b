//! Splits of a game's boards: which tasks may be played where, by the board's content.

use flow_core::seed::{mix, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A quarter of a game's boards, dealt by their content: a board is in one split, whatever seeds and settings lead to
/// it. Seeds apart aren't enough on small boards, where two seeds often give the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Split {
    /// To be measured on: what frozen panels are made of.
    Test,
    /// To choose by, or to adapt to after training.
    Dev,
    /// For a warm start, so that training meets boards that it didn't imitate.
    Warmstart,
    /// To be trained on.
    Train,
}

/// The bit of a seed that only tasks of panels have.
pub(super) const PANEL: u64 = 1 << 63;

impl Split {
    const ALL: [Split; 4] = [Split::Test, Split::Dev, Split::Warmstart, Split::Train];

    /// The split of the board with this hash.
    pub fn of(board: u64) -> Split {
        Split::ALL[(mix(board, text("split")) & 3) as usize]
    }

    /// As settings and the names of tasks say it.
    pub fn name(self) -> &'static str {
        match self {
            Split::Test => "test",
            Split::Dev => "dev",
            Split::Warmstart => "warmstart",
            Split::Train => "train",
        }
    }

    /// The split of this name.
    pub(super) fn named(name: &str) -> Option<Split> {
        Split::ALL.into_iter().find(|split| split.name() == name)
    }
}

/// The boards that a task may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// Those of one split.
    Of(Split),
    /// Those of all splits but `test`, where tasks name none.
    Untested,
}

impl Deal {
    /// The boards of a task of this seed. Without a split the seed itself says whether the task is of a panel.
    pub fn of(split: Option<Split>, seed: u64) -> Deal {
        match split {
            Some(split) => Deal::Of(split),
            None if seed & PANEL == 0 => Deal::Untested,
            None => Deal::Of(Split::Test),
        }
    }

    /// Whether the board with this hash is one of them.
    pub fn owns(self, board: u64) -> bool {
        self.has(Split::of(board))
    }

    /// Whether the boards of this split are among them.
    pub fn has(self, split: Split) -> bool {
        match self {
            Deal::Of(own) => own == split,
            Deal::Untested => split != Split::Test,
        }
    }
}
