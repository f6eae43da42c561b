//! What is to be bought.

use super::catalogue::Product;
use crate::Deal;
use flow_core::seed::{mix, text, Random};

/// What is to be bought: a product with a choice of each of its options, for less than a price.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// The product's place in the catalogue.
    pub product: usize,
    /// The wanted options, by name.
    pub options: Vec<(&'static str, &'static str)>,
    /// What it may cost.
    pub price_upper: f64,
    /// The task in words.
    pub instruction: String,
}

/// The price where no bound is said.
const NO_BOUND: f64 = 1_000_000.0;

impl Goal {
    /// The goal of a seed, made as the published code makes its synthetic goals: any combination of a product's
    /// options, and a price that is one of the next tens above the product's. Products are dealt out to splits by their
    /// instructions: of two that are asked for in the same words a player can't tell which is meant.
    pub fn sample(seed: u64, deal: Deal, products: &[Product]) -> Option<Goal> {
        Goal::sample_where(seed, |product| deal.owns(text(&product.instruction)), products)
    }

    /// The goal of a seed, for a product that satisfies this.
    pub(super) fn sample_where(seed: u64, fits: impl Fn(&Product) -> bool, products: &[Product]) -> Option<Goal> {
        (0..1000).map(|tried| Random::new(mix(seed, tried))).find_map(|mut random| {
            let at = random.below(products.len());
            let product = products.get(at)?;
            fits(product).then(|| Goal::draw(at, product, &mut random))
        })
    }

    fn draw(at: usize, product: &Product, random: &mut Random) -> Goal {
        let mut options: Vec<_> = product.options.iter().map(|(name, values)| (*name, values[random.below(values.len())])).collect();
        options.sort_unstable();
        let mut bounds: Vec<f64> = (1..100).map(|tens| 10.0 * f64::from(tens)).filter(|bound| *bound > product.price).take(4).collect();
        random.shuffle(&mut bounds);
        let price_upper = if let [first, second, ..] = bounds[..] { first.max(second) } else { NO_BOUND };
        let chosen = options.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", and ");
        let with = if chosen.is_empty() { String::new() } else { format!(" with {chosen}") };
        let price = if price_upper < NO_BOUND { format!(", and price lower than {price_upper:.2} dollars") } else { String::new() };
        Goal { product: at, options, price_upper, instruction: format!("{}{with}{price}", product.instruction) }
    }

    /// Hash of the goal: equal ones are played alike.
    pub fn content(&self, products: &[Product]) -> u64 {
        mix(text(&products[self.product].asin), text(&self.instruction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webshop::catalogue;
    use crate::Split;

    #[test]
    fn goals_are_said_in_the_published_form() {
        let products = catalogue::make(1000);
        for seed in 0..300 {
            let goal = Goal::sample(seed, Deal::Untested, &products).unwrap();
            let product = &products[goal.product];
            assert!(
                goal.instruction.starts_with("Find me ")
                    && product.instruction_attributes.iter().all(|attribute| goal.instruction.contains(attribute))
            );
            assert!(goal.options.iter().all(|(name, value)| goal.instruction.contains(&format!("{name}: {value}"))));
            assert!(goal.price_upper > product.price && goal.price_upper <= (product.price / 10.0).floor() * 10.0 + 40.0);
            assert!(goal.instruction.ends_with(&format!(", and price lower than {:.2} dollars", goal.price_upper)));
            let panel = Goal::sample(seed, Deal::Of(Split::Test), &products).unwrap();
            let split = |product: &Product| Split::of(text(&product.instruction));
            assert!(split(product) != Split::Test && split(&products[panel.product]) == Split::Test);
        }
    }
}
