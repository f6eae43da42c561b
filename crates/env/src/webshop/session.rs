//! A visit to the shop: where it stands.

use super::goal::Goal;
use super::reward::Reward;
use super::shop::Shop;
use flow_core::seed::{mix, text};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The pages of the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Search,
    Results,
    Item,
    Description,
    Features,
    Reviews,
    Done,
}

/// A visit to the shop.
#[derive(Clone)]
pub struct Session {
    pub shop: Arc<Shop>,
    pub goal: Goal,
    pub page: Page,
    /// The last search, its results, and the page shown last, from 1.
    pub keywords: String,
    pub results: Vec<usize>,
    pub number: usize,
    /// The product that is looked at.
    pub product: Option<usize>,
    /// The products that were looked at since the last visit to the search page.
    pub opened: BTreeSet<usize>,
    /// The chosen options, by name.
    pub options: Vec<(&'static str, &'static str)>,
    /// What the purchase earned.
    pub earned: Option<Reward>,
}

impl Session {
    /// A visit that begins on the search page.
    pub fn new(shop: Arc<Shop>, goal: Goal) -> Session {
        let (results, opened, options) = Default::default();
        Session {
            shop,
            goal,
            page: Page::Search,
            keywords: String::new(),
            results,
            number: 1,
            product: None,
            opened,
            options,
            earned: None,
        }
    }

    /// Hash of where the visit stands: what the address of the published page says.
    pub fn state(&self) -> u64 {
        let number = |n: Option<usize>| n.map_or(0, |n| n as u64 + 1);
        let place = mix(mix(self.page as u64, text(&self.keywords)), mix(self.number as u64, number(self.product)));
        let options = self.options.iter().fold(0, |hash, (name, value)| mix(hash, mix(text(name), text(value))));
        mix(mix(place, options), text(&self.goal.instruction))
    }
}
