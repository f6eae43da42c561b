//! What is to be seen: the pages of WebShop's site, as its text mode tells them.

use super::session::{Page, Session};
use super::shop::PAGE;
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

/// A piece of a page.
enum PageElement {
    Plain(String),
    Button(&'static str),
    /// A value of an option, and whether it is chosen.
    Value(String, bool),
    /// A product's asin, and whether its page was opened.
    Link(String, bool),
}

use PageElement::{Button, Link, Plain, Value};

/// The page that the session is on, without the instruction, which stands at the head of every published page.
pub fn draw(session: &Session, format: Observation) -> String {
    let pieces = pieces(session);
    match format {
        Observation::Text => pieces.iter().map(|piece| piece.text().trim()).collect::<Vec<_>>().join(" [SEP] "),
        Observation::Rich => {
            let chosen = pieces.iter().filter_map(|piece| if let Value(value, true) = piece { Some(value) } else { None });
            let clicked: Vec<String> = chosen.rev().map(|value| format!("You have clicked {value}.\n")).collect();
            clicked.into_iter().chain(pieces.iter().map(PageElement::rich)).collect::<String>().trim_end().to_string()
        }
    }
}

/// What can be clicked, in small letters, in the order of the published `get_available_actions`: buttons and products,
/// then values.
pub fn clickable(session: &Session) -> Vec<String> {
    let pieces = pieces(session);
    let first = pieces.iter().filter(|piece| matches!(piece, Button(_))).chain(pieces.iter().filter(|piece| matches!(piece, Link(..))));
    let mut all: Vec<String> = Vec::new();
    for text in first.chain(pieces.iter().filter(|piece| matches!(piece, Value(..)))).map(|piece| piece.text().to_lowercase()) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

impl PageElement {
    fn text(&self) -> &str {
        match self {
            Button(text) => text,
            Plain(text) | Value(text, _) | Link(text, _) => text,
        }
    }

    fn rich(&self) -> String {
        match self {
            Plain(text) => format!("{text}\n"),
            Button(text) => format!("[button] {text} [button_]\n"),
            Value(text, false) => format!("  [button] {text} [button_]\n"),
            Value(text, true) => format!("  [clicked button] {text} [clicked button_]\n"),
            Link(text, false) => format!("\n[button] {text} [button_]\n"),
            Link(text, true) => format!("\n[clicked button] {text} [clicked button_]\n"),
        }
    }
}

fn pieces(session: &Session) -> Vec<PageElement> {
    let product = || session.product.map(|at| &session.shop.products[at]);
    match session.page {
        Page::Search => vec![Button("Search")],
        Page::Results => results(session),
        Page::Item => item(session),
        Page::Description => {
            let text = product().map(|product| Plain(product.description.clone()));
            [Button("Back to Search"), Button("< Prev")].into_iter().chain(text).collect()
        }
        Page::Features => {
            let bullets = product().into_iter().flat_map(|product| &product.bullets).map(|bullet| Plain(format!(" {bullet}")));
            [Button("Back to Search"), Button("< Prev")].into_iter().chain(bullets).collect()
        }
        Page::Reviews => vec![Button("Back to Search"), Button("< Prev")],
        Page::Done => {
            let score = session.earned.map_or(0.0, |earned| earned.total);
            ["Thank you for shopping with us!".into(), "Your score (min 0.0, max 1.0)".into(), format!("{score:?}")].map(Plain).into()
        }
    }
}

fn results(session: &Session) -> Vec<PageElement> {
    let mut pieces = vec![Button("Back to Search"), Plain(format!("Page {} (Total results: {})", session.number, session.results.len()))];
    if session.number > 1 {
        pieces.push(Button("< Prev"));
    }
    pieces.push(Button("Next >"));
    for at in session.results.iter().skip((session.number - 1) * PAGE).take(PAGE) {
        let product = &session.shop.products[*at];
        pieces.push(Link(product.asin.clone(), session.opened.contains(at)));
        pieces.extend([Plain(product.title.clone()), Plain(product.tag())]);
    }
    pieces
}

fn item(session: &Session) -> Vec<PageElement> {
    let mut pieces = vec![Button("Back to Search"), Button("< Prev")];
    let Some(product) = session.product.map(|at| &session.shop.products[at]) else { return pieces };
    for (name, values) in &product.options {
        pieces.push(Plain(name.to_string()));
        let chosen = |value: &&str| session.options.iter().any(|(_, chosen)| chosen == value);
        pieces.extend(values.iter().map(|value| Value(value.to_string(), chosen(value))));
    }
    pieces.extend([Plain(product.title.clone()), Plain(format!("Price: {}", product.tag())), Plain("Rating: N.A.".into())]);
    pieces.extend([Button("Description"), Button("Features"), Button("Reviews"), Button("Buy Now")]);
    pieces
}
