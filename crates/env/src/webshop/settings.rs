//! The settings of WebShop, and everything derived from them.

use super::goal::Goal;
use super::lexicon::LEXICON;
use super::pages::Observation;
use super::shop::Shop;
use super::Webshop;
use crate::error::within;
use crate::{Deal, EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

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

impl WebshopSettings {
    fn goal(&self, shop: &Shop, seed: u64, deal: Deal) -> Result<Goal, EnvError> {
        self.check()?;
        Goal::sample(seed, deal, &shop.products).ok_or_else(|| EnvError::Unmade { what: "goal".into(), tries: 1000 })
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

    /// A word costs one entry, with or without a space before it; a price three, a product's number five.
    fn words(&self) -> Vec<String> {
        let marks = "search[|click[|]| [SEP] |[button] | [button_]\n|\n[button] |  [button] |  [clicked button] | [clicked button_]\n|\n[clicked \
                     button] |You have clicked |.\n|Page | (Total results: |)|Back to Search|back to search|< Prev|< prev|Next >|next >|Search\
                     |Description|description|Features|features|Reviews|reviews|Buy Now|buy now|Price: $|Rating: N.A.|Find me| $| to $|, and \
                     |, and price lower than | dollars|.00|.0| with |B0|b0|: ";
        let mut words: BTreeSet<String> = marks.split('|').map(String::from).collect();
        words.extend((0..100).map(|n| format!("{n:02}")));
        let texts = LEXICON.kinds.iter().flat_map(|kind| [kind.query, kind.names, kind.traits, kind.ends]);
        let texts = texts.chain(LEXICON.kinds.iter().flat_map(|kind| LEXICON.options(kind)).flat_map(|(name, values)| [name, values]));
        let other = "a and by one of our made to be used every day Thank you for shopping with us";
        for word in texts.chain([LEXICON.syllables, other]).flat_map(|text| text.split(['|', ' '])) {
            words.extend([word.to_string(), format!(" {word}")]);
        }
        words.into_iter().filter(|word| !word.is_empty()).collect()
    }

    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        let shop = Shop::with_size(self.products);
        let goal = self.goal(&shop, seed, deal)?;
        Ok(Box::new(Webshop::new(shop, goal, self.pages, self.pays)))
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        let shop = Shop::with_size(self.products);
        Ok(self.goal(&shop, seed, deal)?.content(&shop.products))
    }
}
