//! WebShop's reward (Yao et al. 2022, section 3.1, and `web_agent_site/engine/goal.py` of its code, which decides where
//! they differ):
//!
//! `r_type * (attributes met + options met + [price met]) / (attributes requested + options requested + 1)`.

use super::catalogue::{nouns, Product};
use super::fuzzy::token_set_ratio;
use super::goal::Goal;
use std::collections::BTreeSet;

/// What a purchase earns, from 0 to 1, and its parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reward {
    pub total: f64,
    /// 1, or 0.5, 0.1 or 0 where the product is of another type.
    pub kind: f64,
    /// The share of the wanted attributes that the product has.
    pub attributes: f64,
    /// The share of the wanted options that were chosen; 1 where none was wanted.
    pub options: f64,
    /// Whether it costs no more than it may.
    pub price: bool,
}

/// What buying `bought` with these options, by name, earns where `target` is the goal's product.
pub fn reward(bought: &Product, options: &[(&str, &str)], goal: &Goal, target: &Product) -> Reward {
    let kind = kind(bought, target);
    let price = bought.price <= goal.price_upper;
    let attributes = target.instruction_attributes.iter().filter(|attribute| has(bought, attribute)).count();
    let chosen: Vec<&str> = options.iter().map(|(_, value)| color(value).unwrap_or(value)).collect();
    let met = goal.options.iter().filter(|option| met(option, &chosen)).count();
    let all = target.instruction_attributes.len() + goal.options.len() + 1;
    let share = |part: usize, whole: usize| if whole == 0 { 1.0 } else { part as f64 / whole as f64 };
    Reward {
        total: (attributes + met + usize::from(price)) as f64 / all as f64 * kind,
        kind,
        attributes: share(attributes, target.instruction_attributes.len()),
        options: share(met, goal.options.len()),
        price,
    }
}

/// How far the types agree: by the search words, by two common categories, or by the nouns of the titles.
fn kind(bought: &Product, target: &Product) -> f64 {
    let parts = |product: &Product| product.path.split('›').map(str::trim).collect::<BTreeSet<_>>();
    let categories = parts(bought).intersection(&parts(target)).count();
    let (theirs, ours) = (nouns(&bought.title), nouns(&target.title));
    let distinct: BTreeSet<&str> = ours.iter().copied().collect();
    let common = theirs.iter().copied().collect::<BTreeSet<_>>().intersection(&distinct).count();
    // Words that stand twice in the wanted title count twice below, not above: so does the published code.
    let score = if ours.is_empty() { 0.2 } else { common as f64 / ours.len() as f64 };
    if score == 0.0 {
        0.0
    } else if score < 0.1 {
        0.1
    } else if bought.query == target.query || categories >= 2 || score > 0.2 {
        1.0
    } else {
        0.5
    }
}

/// Whether a product has an attribute: nearly by its list, or word for word in its texts.
fn has(product: &Product, attribute: &str) -> bool {
    product.attributes.iter().any(|own| alike(own, attribute))
        || product.title.to_lowercase().contains(attribute)
        || product.bullets.join(" ").to_lowercase().contains(attribute)
        || product.description.to_lowercase().contains(attribute)
}

/// Whether one of the chosen values is what is wanted of this option. The published code compares with the pair of name
/// and value as Python writes it, which thefuzz reads as the words of both; in a pair, a member that is just a colour
/// stands for the pair.
pub fn met((name, value): &(&str, &str), chosen: &[&str]) -> bool {
    let pair = format!("('{name}', '{value}')");
    let color = COLORS.split('|').find(|color| color == name || color == value).unwrap_or(&pair);
    chosen.iter().any(|chosen| alike(chosen, color))
}

fn alike(a: &str, b: &str) -> bool {
    token_set_ratio(a, b) > 85
}

/// The first of the published colours that a value contains (`normalize_color`).
pub fn color(value: &str) -> Option<&'static str> {
    COLORS.split('|').find(|color| value.contains(color))
}

/// `COLOR_SET` of `web_agent_site/engine/normalize.py`, in its order.
const COLORS: &str = "alabaster|apricot|aqua|ash|asphalt|azure|banana|beige|black|blue|blush|bordeaux|bronze|brown|burgundy|camel|camo|\
    caramel|champagne|charcoal|cheetah|chestnut|chocolate|christmas|coffee|cognac|copper|coral|cranberry|cream|crystal|dark|denim|eggplant|\
    elephant|espresso|fuchsia|gold|granite|grape|graphite|grass|gray|green|grey|heather|indigo|ivory|ivy|khaki|lavender|lemon|leopard|light|\
    lilac|lime|magenta|maroon|mauve|merlot|midnight|mint|mocha|multicolor|mushroom|mustard|natural|navy|nude|olive|orange|peach|pewter|pink|\
    plum|purple|rainbow|red|rose|royal|rust|sand|sapphire|seashell|silver|skull|slate|steel|stone|stonewash|sunflower|tan|taupe|teal|tiger|\
    turquoise|violet|walnut|wheat|white|wine|yellow";

#[cfg(test)]
mod tests {
    use super::*;

    fn product(title: &str, query: &'static str, path: &'static str, attributes: &[&str], price: f64) -> Product {
        let attributes: Vec<String> = attributes.iter().map(|word| word.to_string()).collect();
        Product {
            asin: "B000000001".into(),
            query,
            path,
            title: title.into(),
            description: "a sturdy thing".into(),
            bullets: vec!["made with Sea Salt".into()],
            instruction_attributes: attributes.clone(),
            attributes,
            options: vec![],
            pricing: vec![price],
            price,
            instruction: String::new(),
        }
    }

    fn goal(options: &[(&'static str, &'static str)]) -> Goal {
        Goal { product: 0, options: options.to_vec(), price_upper: 30.0, instruction: String::new() }
    }

    /// Two of two attributes, one of two options and the price: 4 of 5; half of it for another type.
    #[test]
    fn a_purchase_earns_what_the_published_rule_says() {
        let target = product("vatra shampoo", "shampoo", "beauty › hair › shampoo", &["sulfate free", "sea salt"], 20.0);
        let bought = product("mize shampoo bar", "soap", "beauty › bath", &["sulphate free"], 29.0);
        let goal = goal(&[("scent", "green tea"), ("size", "8 fl oz")]);
        let earned = reward(&bought, &[("scent", "dark green"), ("size", "8 fl oz")], &goal, &target);
        assert_eq!((earned.kind, earned.attributes, earned.options, earned.price), (1.0, 1.0, 0.5, true), "half of the title's nouns");
        assert_eq!(earned.total, 4.0 / 5.0);
        let dear = Product { price: 31.0, ..bought.clone() };
        assert_eq!(reward(&dear, &[("size", "8 fl oz")], &goal, &target).total, 3.0 / 5.0);
        let other = product("mize hat", "hats", "clothing", &[], 10.0);
        assert_eq!(reward(&other, &[], &goal, &target).total, 0.0, "no noun in common");
    }

    #[test]
    fn types_agree_by_search_categories_or_titles() {
        let target = product("a b c d e f shampoo", "shampoo", "x › y › z", &[], 1.0);
        let score = |title: &str, query, path| kind(&product(title, query, path, &[], 1.0), &target);
        assert_eq!(score("shampoo", "soap", "x"), 0.5, "a fifth of the nouns and no more (a, c and e are none)");
        assert_eq!(score("shampoo b", "soap", "x"), 1.0);
        assert_eq!(score("shampoo", "shampoo", "x"), 1.0);
        assert_eq!(score("shampoo", "soap", "z › y"), 1.0);
        assert_eq!(score("soap", "shampoo", "x › y › z"), 0.0);
        let long = product("shampoo h1 h2 h3 h4 h5 h6 h7 h8 h9 h10", "shampoo", "x", &[], 1.0);
        assert_eq!(kind(&target, &long), 0.1, "one noun of eleven, whatever else agrees");
    }

    /// A colour is a colour, whatever its shade; and a wanted pair is met by all of its value's words.
    #[test]
    fn options_are_met_as_loosely_as_published() {
        assert!(met(&("color", "light blue"), &["blue"]));
        assert_eq!((color("light blue"), color("dark green"), color("unscented")), (Some("blue"), Some("dark"), None));
        assert!(met(&("size", "x-large"), &["large"]) && !met(&("size", "large"), &["x-large"]));
    }
}
