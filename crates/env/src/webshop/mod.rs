//! WebShop (Yao et al. 2022): an instruction, a search bar, products with options, a purchase. Rules, pages and reward
//! are those of its released code (github.com/princeton-nlp/WebShop); the products are a catalogue of our own, since
//! the official ones aren't included.
//!
//! Left out of the published site: reviews (there are none here, nor in its text mode), and the hidden searches `<r>`,
//! `<a>`, `<c>` and `<q>`, which are words like others. The nouns of titles come from a list of words, not from spaCy's
//! tagger.

mod catalogue;
mod clicks;
mod expert;
mod fuzzy;
mod goal;
mod lexicon;
mod pages;
mod reward;
mod session;
mod settings;
mod shop;

use super::{Environment, EpisodeFacts, Extras, TimeStep};
use pages::Observation;
use session::{Page, Session};
use settings::Pays;
use std::sync::Arc;

pub use catalogue::{tokens, Product};
pub use goal::Goal;
pub use reward::{reward, Reward};
pub use settings::WebshopSettings;
pub use shop::Shop;

/// A visit to the shop being played.
pub struct Webshop {
    session: Session,
    pages: Observation,
    pays: Pays,
}

impl Webshop {
    fn new(shop: Arc<Shop>, goal: Goal, pages: Observation, pays: Pays) -> Webshop {
        Webshop { session: Session::new(shop, goal), pages, pays }
    }

    fn score(&self) -> f64 {
        self.session.earned.map_or(0.0, |earned| earned.total)
    }

    fn see(&self, valid: bool) -> TimeStep {
        let (observation, state) = (pages::draw(&self.session, self.pages), self.session.state());
        let done = self.session.page == Page::Done;
        let won = self.score() == 1.0;
        let reward = match self.pays {
            _ if !valid => 0.0,
            Pays::Score => self.score() as f32,
            Pays::Win => f32::from(u8::from(won)) * 10.0,
        };
        TimeStep { observation, state, reward, done, won, valid }
    }
}

impl Environment for Webshop {
    fn reset(&mut self) -> TimeStep {
        self.session = Session::new(self.session.shop.clone(), self.session.goal.clone());
        self.see(true)
    }

    /// `search[words]` from any page, or `click[...]` on a button of the page, in capital or small letters.
    fn step(&mut self, action: &str) -> TimeStep {
        let valid = self.session.act(action);
        self.see(valid)
    }

    /// On the search page the searches of the published choice baseline, though any words can be searched for; else
    /// what can be clicked.
    fn admissible(&self) -> Vec<String> {
        match self.session.page {
            Page::Done => vec![],
            Page::Search => expert::searches(&self.session).iter().map(|words| format!("search[{words}]")).collect(),
            _ => pages::clickable(&self.session).iter().map(|name| format!("click[{name}]")).collect(),
        }
    }

    fn expert(&mut self) -> Option<String> {
        expert::next(&self.session)
    }

    /// The instruction, WebShop's score and, once something was bought, its parts.
    fn extras(&self) -> Extras {
        let part = |name: &str, value: f64| (name.to_string(), value);
        let info = self.session.earned.map(|earned| {
            let price = f64::from(u8::from(earned.price));
            [part("r_type", earned.kind), part("r_att", earned.attributes), part("r_option", earned.options), part("r_price", price)]
        });
        Extras {
            score: Some(self.score() as f32),
            info: info.into_iter().flatten().collect(),
            facts: EpisodeFacts { instruction: self.session.goal.instruction.clone(), ..EpisodeFacts::default() },
            ..Extras::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Deal, Task};

    fn shop(name: &str) -> Box<dyn Environment> {
        Task::parse(name).unwrap().make().unwrap()
    }

    #[test]
    fn the_expert_buys_what_is_wanted() {
        let (mut won, mut turns, mut first) = (0, 0, 0);
        for seed in 0..200 {
            let mut env = shop(&format!("webshop-p10000-s{seed}"));
            let mut step = env.reset();
            let mut taken = 0;
            while let Some(action) = env.expert() {
                assert!(env.admissible().contains(&action), "{action} isn't one of {:?}", env.admissible());
                step = env.step(&action);
                assert!(step.valid);
                first += usize::from(taken == 1 && action.starts_with("click[b0"));
                taken += 1;
            }
            assert!(step.done && env.admissible().is_empty() && taken <= 15, "{taken} turns");
            won += usize::from(step.won);
            turns += taken;
        }
        println!("{won} of 200 won in {turns} turns; {first} with a product of the first page");
        assert!(won >= 196, "{won} of 200");
    }

    fn golden<T: serde::de::DeserializeOwned>(name: &str) -> Vec<T> {
        let path = crate::tests::root().join("tests/golden/webshop").join(name);
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What `scripts/parity_webshop.py` heard from the published code.
    #[test]
    fn purchases_earn_what_the_published_code_pays() {
        #[derive(serde::Deserialize)]
        struct Purchase {
            seed: u64,
            product: usize,
            options: Vec<(String, String)>,
            reward: f64,
        }
        let products = &Shop::with_size(10_000).products;
        let all: Vec<Purchase> = golden("purchases.jsonl");
        for bought in &all {
            // The goals that were recorded were dealt by their products.
            let dealt = |product: &Product| Deal::of(None, bought.seed).owns(flow_core::seed::text(&product.asin));
            let goal = Goal::sample_where(bought.seed, dealt, products).unwrap();
            let options: Vec<_> = bought.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let earned = reward(&products[bought.product], &options, &goal, &products[goal.product]);
            assert_eq!(earned.total, bought.reward, "seed {}", bought.seed);
        }
        assert_eq!(all.len(), 2000);
    }

    /// What it heard from Lucene.
    #[test]
    fn searches_find_what_lucene_finds_in_its_order() {
        #[derive(serde::Deserialize)]
        struct RecordedSearch {
            query: String,
            #[serde(rename = "found")]
            results: Vec<usize>,
        }
        let shop = Shop::with_size(10_000);
        let all: Vec<RecordedSearch> = golden("searches.jsonl");
        assert!(all.iter().all(|search| shop.search(&search.query) == search.results));
        assert_eq!(all.len(), 200);
    }

    #[test]
    fn pages_are_told_as_webshop_tells_them() {
        let mut env = shop("webshop-p1000-s5");
        assert_eq!(env.reset().observation, "Search");
        let task = env.extras().facts.instruction;
        assert!(!env.step("click[search]").valid, "the button alone does nothing");
        let step = env.step(&format!("search[{task}]"));
        assert!(
            step.observation.starts_with("Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP] B0"),
            "{}",
            step.observation
        );
        assert_eq!(step.observation.split(" [SEP] ").count(), 3 + 30);
        assert_eq!(env.admissible()[..2], ["click[back to search]", "click[next >]"]);
        assert_eq!(env.admissible().len(), 12);
        let second = env.step("click[Next >]");
        assert!(second.observation.starts_with("Back to Search [SEP] Page 2 (Total results: 50) [SEP] < Prev [SEP] Next > [SEP] B0"));
        assert_eq!(env.step("click[< Prev]").state, step.state, "where one was before");
        let product = env.admissible()[2].clone();
        let item = env.step(&product);
        assert!(item.observation.ends_with("[SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"));
        let features = env.step("click[features]");
        assert!(features.observation.starts_with("Back to Search [SEP] < Prev [SEP] ") && features.state != item.state);
        assert_eq!(env.step("click[< prev]"), item);
        let past = (0..7).fold(env.step("search[soft cotton shampoo for dry hair]"), |_, _| env.step("click[next >]"));
        assert_eq!(past.observation, "Back to Search [SEP] Page 8 (Total results: 50) [SEP] < Prev [SEP] Next >", "nothing stops one");
    }

    #[test]
    fn rich_pages_mark_what_was_clicked() {
        let mut env = shop("webshop-p1000-rich-s5");
        env.reset();
        let search = env.admissible().pop().unwrap();
        env.step(&search);
        let product = env.admissible()[2].clone();
        let asin = product[6..16].to_uppercase();
        let item = env.step(&product);
        let value = env.admissible().last().unwrap()[6..].trim_end_matches(']').to_string();
        assert!(item.observation.contains(&format!("\n  [button] {value} [button_]\n")), "{}", item.observation);
        let chosen = env.step(&format!("click[{value}]"));
        assert!(chosen.observation.starts_with(&format!("You have clicked {value}.\n[button] Back to Search [button_]\n[button] < Prev")));
        assert!(chosen.observation.contains(&format!("\n  [clicked button] {value} [clicked button_]\n")) && chosen.state != item.state);
        let back = env.step("click[< prev]");
        assert!(back.observation.contains(&format!("\n\n[clicked button] {asin} [clicked button_]\n")), "{}", back.observation);
        assert_eq!(env.step(&product).state, item.state, "the choice is forgotten");
    }

    #[test]
    fn a_purchase_ends_the_visit_with_its_score() {
        for (name, most) in [("webshop-p1000-s3", 1.0), ("webshop-p1000-win-s3", 10.0)] {
            let mut env = shop(name);
            env.reset();
            while let Some(action) = env.expert() {
                let step = env.step(&action);
                assert_eq!(step.reward, if step.won { most } else { 0.0 });
            }
            let extras = env.extras();
            assert_eq!((extras.score, extras.info["r_type"], extras.info["r_price"]), (Some(1.0), 1.0, 1.0));
            assert!(!env.step("click[back to search]").valid && !env.step("search[more]").valid);
            assert_eq!(env.step("search[more]").reward, 0.0, "no score twice");
        }
    }
}
