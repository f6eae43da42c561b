//! The settings of `webshop` (Yao et al. 2022): its rules with a catalogue of our own.

use super::{board, PythonGame, WORDS};
use crate::error::within;
use crate::{Deal, EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The text format of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Observation {
    /// The published `text`: the texts of the page, joined by ` [SEP] `. Chosen options aren't marked.
    #[default]
    Text,
    /// The published `text_rich`: a text a line; buttons are marked, clicked ones differently.
    Rich,
}

/// The settings of WebShop.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct WebshopSettings {
    /// Products of the catalogue.
    #[schemars(range(min = 1_000, max = 100_000))]
    pub products: usize,
    /// How a page is shown: its texts alone, or a line each with the buttons marked, clicked ones differently.
    pub pages: Observation,
    /// The reward of a purchase: WebShop's score from 0 to 1, or 10 for a score of 1 and else nothing, as verl-agent
    /// has it.
    pub pays: Pays,
}

/// What a purchase earns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Pays {
    /// WebShop's score.
    #[default]
    Score,
    /// 10 for a score of 1, else nothing.
    Win,
}

impl Default for WebshopSettings {
    fn default() -> Self {
        WebshopSettings { products: 10_000, pages: Observation::Text, pays: Pays::Score }
    }
}

impl GameSettings for WebshopSettings {
    const NAME: &'static str = "webshop";
    const ABOUT: &'static str = "Buy what an instruction asks for: WebShop's rules, with a catalogue of its own.";
    const COSTS: Option<bool> = Some(false);

    fn check(&self) -> Result<(), EnvError> {
        within("products", self.products, 1_000, 100_000)
    }

    fn label(&self) -> String {
        let rich = if self.pages == Observation::Rich { "-rich" } else { "" };
        let win = if self.pays == Pays::Win { "-win" } else { "" };
        format!("p{}{rich}{win}", self.products)
    }

    fn parse(label: &str) -> Option<Self> {
        let mut parts = label.split('-');
        let mut settings = WebshopSettings { products: parts.next()?.strip_prefix('p')?.parse().ok()?, ..WebshopSettings::default() };
        for part in parts {
            match part {
                "rich" => settings.pages = Observation::Rich,
                "win" => settings.pays = Pays::Win,
                _ => return None,
            }
        }
        Some(settings)
    }

    fn rules(&self) -> String {
        "You shop on a web site. Find and buy what the instruction asks for: attributes, options and price.\n\
         On the search page search with search[words]. On other pages click what they show: click[next >] and click[< prev] turn pages, \
         a product's number opens it, a value chooses it, click[buy now] buys and ends the visit.\n\
         Answer with one action between <action> and </action>, such as <action>click[buy now]</action>."
            .into()
    }

    fn words(&self) -> Vec<String> {
        WORDS.get(Self::NAME).cloned().unwrap_or_default()
    }

    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        PythonGame::boxed(self, seed, deal)
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        board(self, seed, deal)
    }
}
