//! Questions that need two documents.

use super::corpus::Corpus;
use crate::Deal;
use flow_core::seed::{mix, text, Random};

/// A question that needs two documents, and its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The kind of question.
    pub kind: &'static str,
    pub text: String,
    pub answer: String,
    /// The documents with the answer, in the order of their search.
    pub needs: [usize; 2],
    /// The names that the question says.
    pub names: Vec<String>,
}

impl Question {
    /// The question of a seed. Questions, not only seeds, are dealt out to splits.
    pub fn sample(seed: u64, deal: Deal, corpus: &Corpus) -> Option<Question> {
        let drawn = (0..1000).filter_map(|tried| Question::draw(corpus, &mut Random::new(mix(seed, tried))));
        drawn.take(1000).find(|question| deal.owns(question.content()))
    }

    /// Hash of the question: for two names the same in either order.
    pub fn content(&self) -> u64 {
        match self.names.as_slice() {
            [first, second] if first > second => text(&format!("{}, {second} or {first}", self.kind)),
            [first, second] => text(&format!("{}, {first} or {second}", self.kind)),
            _ => text(&self.text),
        }
    }

    /// `None` where the two that are compared are equal.
    fn draw(corpus: &Corpus, random: &mut Random) -> Option<Question> {
        let kind = random.below(8);
        let film = &corpus.films[random.below(corpus.films.len())];
        let company = &corpus.companies[random.below(corpus.companies.len())];
        let person = &corpus.people[random.below(corpus.people.len())];
        let title = |document: usize| corpus.title(document).to_string();
        let town = |town: usize| &corpus.towns[town];
        let director = &corpus.people[film.director];
        let founder = &corpus.people[company.founder];
        let question = |kind, text: String, name: usize, answer: String, needs: [usize; 2]| {
            Some(Question { kind, text, answer, needs, names: vec![title(name)] })
        };
        match kind {
            0 => {
                let text = format!("In which town was the director of the film {} born?", title(film.document));
                question("director/town", text, film.document, title(town(director.town).document), [film.document, director.document])
            }
            1 => {
                let text = format!("In which year was the director of the film {} born?", title(film.document));
                question("director/year", text, film.document, director.year.to_string(), [film.document, director.document])
            }
            2 => {
                let text = format!("In which town was the founder of {} born?", title(company.document));
                question("founder/town", text, company.document, title(town(founder.town).document), [company.document, founder.document])
            }
            3 => {
                let place = town(company.town);
                let text = format!("On which river lies the town where {} is based?", title(company.document));
                question("company/river", text, company.document, place.river.clone(), [company.document, place.document])
            }
            4 => {
                let place = town(company.town);
                let text = format!("In which region lies the town where {} is based?", title(company.document));
                question("company/region", text, company.document, place.region.into(), [company.document, place.document])
            }
            5 => {
                let place = town(person.town);
                let text = format!("On which river lies the town where {} was born?", title(person.document));
                question("person/river", text, person.document, place.river.clone(), [person.document, place.document])
            }
            6 => {
                let other = &corpus.films[random.below(corpus.films.len())];
                let text = format!("Which film is older, {} or {}?", title(film.document), title(other.document));
                compared("older film", text, corpus, [(film.document, film.year), (other.document, other.year)])
            }
            _ => {
                let other = &corpus.people[random.below(corpus.people.len())];
                let text = format!("Who was born earlier, {} or {}?", title(person.document), title(other.document));
                compared("born earlier", text, corpus, [(person.document, person.year), (other.document, other.year)])
            }
        }
    }
}

/// A question whose answer is the one with the lesser year.
fn compared(kind: &'static str, text: String, corpus: &Corpus, pair: [(usize, u32); 2]) -> Option<Question> {
    let [first, second] = pair;
    let answer = match first.1.cmp(&second.1) {
        std::cmp::Ordering::Less => first.0,
        std::cmp::Ordering::Greater => second.0,
        std::cmp::Ordering::Equal => return None,
    };
    let needs = [first.0, second.0];
    let names = needs.iter().map(|document| corpus.title(*document).to_string()).collect();
    Some(Question { kind, text, answer: corpus.title(answer).into(), needs, names })
}
