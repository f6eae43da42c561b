//! What the published `SimServer` does with searches and clicks.

use super::pages::clickable;
use super::reward::reward;
use super::session::{Page, Session};

impl Session {
    /// Carries out `search[...]`, from any page, or `click[...]` on a button of the page. Anything else does nothing
    /// and is false.
    pub fn act(&mut self, action: &str) -> bool {
        if self.page == Page::Done {
            return false;
        }
        match parse(action) {
            Some(("search", words)) => {
                self.search(words.to_lowercase());
                true
            }
            Some(("click", name)) => {
                let name = name.to_lowercase();
                let offered = name != "search" && clickable(self).contains(&name);
                if offered {
                    self.click(&name);
                }
                offered
            }
            _ => false,
        }
    }

    fn search(&mut self, keywords: String) {
        self.results = self.shop.search(&keywords);
        self.keywords = keywords;
        self.show(1);
    }

    /// A page of results; chosen options of a product are forgotten.
    fn show(&mut self, number: usize) {
        (self.page, self.number, self.product) = (Page::Results, number, None);
        self.options.clear();
    }

    fn click(&mut self, name: &str) {
        match (name, self.page) {
            ("buy now", _) => self.buy(),
            ("back to search", _) => {
                (self.page, self.product) = (Page::Search, None);
                (self.keywords, self.results, self.opened, self.options) = Default::default();
            }
            ("next >", Page::Results) => self.show(self.number + 1),
            ("< prev", Page::Results) => self.show(self.number - 1),
            ("< prev", Page::Item) => self.show(self.number),
            ("< prev", _) => self.page = Page::Item,
            ("description", _) => self.page = Page::Description,
            ("features", _) => self.page = Page::Features,
            ("reviews", _) => self.page = Page::Reviews,
            (_, Page::Results) => self.open(name),
            _ => self.choose(name),
        }
    }

    fn open(&mut self, asin: &str) {
        let results = self.results.iter().copied().find(|at| self.shop.products[*at].asin.eq_ignore_ascii_case(asin));
        if let Some(at) = results {
            (self.page, self.product) = (Page::Item, Some(at));
            self.opened.insert(at);
        }
    }

    /// Chooses a value. Where two options have it, the published code takes it for the last one's.
    fn choose(&mut self, value: &str) {
        let Some(product) = self.product.map(|at| &self.shop.products[at]) else { return };
        let chosen = product.options.iter().rev().find_map(|(name, values)| Some((*name, *values.iter().find(|v| **v == value)?)));
        if let Some((name, value)) = chosen {
            match self.options.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => self.options.push((name, value)),
            }
        }
    }

    fn buy(&mut self) {
        if let Some(at) = self.product {
            let products = &self.shop.products;
            self.earned = Some(reward(&products[at], &self.options, &self.goal, &products[self.goal.product]));
            self.page = Page::Done;
        }
    }
}

/// The name and the argument of an action, by the published pattern `(.+)\[(.+)\]`: as much as possible before the last
/// bracket that has something in it.
fn parse(action: &str) -> Option<(&str, &str)> {
    let line = action.split('\n').next()?;
    let close = line.rfind(']')?;
    let open = line[..close].char_indices().rev().find(|(at, c)| *c == '[' && *at > 0 && at + 1 < close)?.0;
    Some((&line[..open], &line[open + 1..close]))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn actions_are_read_by_the_published_pattern() {
        assert_eq!(parse("search[red shoes]"), Some(("search", "red shoes")));
        assert_eq!(parse("click[a] or so"), Some(("click", "a")));
        assert_eq!(parse("search[a[b]]"), Some(("search[a", "b]")));
        assert_eq!(parse("search[a][]"), Some(("search", "a][")));
        for none in ["", "search", "search[]", "[x]", "search\n[x]", "]click[", "click[x"] {
            assert_eq!(parse(none), None, "{none}");
        }
    }
}
