//! An expert who knows the goal: searches, opens the first product that meets all of it, chooses the options and buys.

use super::reward::reward;
use super::session::{Page, Session};
use super::shop::PAGE;

/// What one could search for, as the published choice baseline lists it (`get_search_texts`): what the product is
/// called, that with each wanted attribute, and the whole instruction.
pub fn searches(session: &Session) -> Vec<String> {
    let product = &session.shop.products[session.goal.product];
    let with = product.instruction_attributes.iter().map(|attribute| format!("{attribute} {}", product.query));
    [product.query.to_string()].into_iter().chain(with).chain([session.goal.instruction.to_lowercase()]).collect()
}

/// The expert's next action.
pub fn next(session: &Session) -> Option<String> {
    match session.page {
        Page::Done => None,
        Page::Search => Some(format!("search[{}]", query(session))),
        Page::Results => Some(results(session)),
        Page::Item => Some(item(session)),
        Page::Description | Page::Features | Page::Reviews => Some("click[< prev]".into()),
    }
}

/// The whole instruction where it finds what is wanted; else the first search that does.
fn query(session: &Session) -> String {
    let mut all = searches(session);
    all.reverse();
    let finds = |query: &&String| best(session, &session.shop.search(query)).is_some_and(|(_, earns)| earns == 1.0);
    all.iter().find(finds).or(all.first()).cloned().unwrap_or_default()
}

fn results(session: &Session) -> String {
    let Some((at, earns)) = best(session, &session.results) else { return "click[back to search]".into() };
    if earns < 1.0 && session.keywords != query(session) {
        return "click[back to search]".into();
    }
    match (at / PAGE + 1).cmp(&session.number) {
        std::cmp::Ordering::Less => "click[< prev]".into(),
        std::cmp::Ordering::Greater => "click[next >]".into(),
        std::cmp::Ordering::Equal => {
            format!("click[{}]", session.shop.products[session.results[at]].asin.to_lowercase())
        }
    }
}

fn item(session: &Session) -> String {
    let target = best(session, &session.results).map(|(at, _)| session.results[at]);
    let Some(product) = session.product.filter(|product| Some(*product) == target) else { return "click[< prev]".into() };
    let missing = choices(session, product).into_iter().find(|choice| !session.options.contains(choice));
    missing.map_or("click[buy now]".into(), |(_, value)| format!("click[{value}]"))
}

/// The first of these products that earns the most with the best choices, by its place among them, and what it earns.
fn best(session: &Session, results: &[usize]) -> Option<(usize, f64)> {
    let mut best: Option<(usize, f64)> = None;
    for (at, product) in results.iter().enumerate() {
        let earns = earns(session, *product, &choices(session, *product));
        if best.is_none_or(|(_, most)| earns > most) {
            best = Some((at, earns));
        }
        if earns == 1.0 {
            break;
        }
    }
    best
}

fn earns(session: &Session, product: usize, options: &[(&'static str, &'static str)]) -> f64 {
    let products = &session.shop.products;
    reward(&products[product], options, &session.goal, &products[session.goal.product]).total
}

/// For each wanted option the value of the product that is just it, or the first that is taken for it; in the order of
/// the page.
fn choices(session: &Session, product: usize) -> Vec<(&'static str, &'static str)> {
    let mut chosen = Vec::new();
    for (name, values) in &session.shop.products[product].options {
        let Some((_, requested)) = session.goal.options.iter().find(|(requested, _)| requested == name) else { continue };
        let near = || values.iter().find(|value| super::reward::met(&(name, requested), &[super::reward::color(value).unwrap_or(value)]));
        chosen.extend(values.iter().find(|value| *value == requested).or_else(near).map(|value| (*name, *value)));
    }
    chosen
}
