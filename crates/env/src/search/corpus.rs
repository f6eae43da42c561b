//! The documents: people, towns, companies and films that refer to one another, made from a seed, the same on every
//! machine.

use crate::bm25::Bm25Index;
use flow_core::seed::{mix, text, Random};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// What the corpus is made from.
const SEED: u64 = 1;

/// What names are made of.
pub const SYLLABLES: &str = "ba|bel|dor|fa|gri|hol|ja|ka|lem|mar|ni|or|pel|qua|ros|sa|tir|ul|ven|wi|xa|yor|zel|mo|tha|cre|du|fin|gos|ilt";
/// What people do, and what companies make.
pub const JOBS: &str = "painter|botanist|violinist|architect|chemist|poet|sailor|surgeon|historian|carpenter";
pub const GOODS: &str = "clocks|bicycles|lamps|paper|glass|engines|carpets|cameras|boats|pianos";
/// Where towns lie.
pub const REGIONS: &str = "north coast|south coast|high plain|lake district|eastern hills|western valley|old forest|salt marsh";

/// A text that can be found.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub title: String,
    pub text: String,
    /// The names and values that it tells, its title among them: what a question may be about.
    pub names: Vec<String>,
}

/// Somebody or something with a document, whose place in the corpus is `document`.
pub struct Person {
    pub document: usize,
    pub town: usize,
    pub year: u32,
}

pub struct Town {
    pub document: usize,
    pub region: &'static str,
    pub river: String,
}

pub struct Company {
    pub document: usize,
    pub founder: usize,
    pub town: usize,
}

pub struct Film {
    pub document: usize,
    pub director: usize,
    pub year: u32,
}

/// All documents, what is known of whom, and the search engine.
pub struct Corpus {
    pub documents: Vec<Document>,
    pub people: Vec<Person>,
    pub towns: Vec<Town>,
    pub companies: Vec<Company>,
    pub films: Vec<Film>,
    index: Bm25Index,
}

/// The corpora that were ever asked for, by their number of documents.
static CORPORA: LazyLock<Mutex<BTreeMap<usize, Arc<Corpus>>>> = LazyLock::new(Mutex::default);

impl Corpus {
    /// The corpus of so many documents, made when it is first asked for: a tenth towns, four tenths people, the rest
    /// companies and films.
    pub fn with_size(count: usize) -> Arc<Corpus> {
        let mut corpora = CORPORA.lock();
        corpora.entry(count).or_insert_with(|| Arc::new(Corpus::new(count))).clone()
    }

    fn new(count: usize) -> Corpus {
        let mut random = Random::new(mix(SEED, text("corpus")));
        let mut names = UniqueNames::default();
        let mut corpus =
            Corpus { documents: vec![], people: vec![], towns: vec![], companies: vec![], films: vec![], index: Bm25Index::new([]) };
        for _ in 0..count / 10 {
            corpus.town(&mut names, &mut random);
        }
        for _ in 0..count * 4 / 10 {
            corpus.person(&mut names, &mut random);
        }
        while corpus.documents.len() < count {
            if corpus.documents.len().is_multiple_of(2) {
                corpus.company(&mut names, &mut random);
            } else {
                corpus.film(&mut names, &mut random);
            }
        }
        let texts: Vec<String> = corpus.documents.iter().map(|document| format!("{} {}", document.title, document.text)).collect();
        corpus.index = Bm25Index::new(texts.iter().map(String::as_str));
        corpus
    }

    /// The places of the documents that a search finds, best first.
    pub fn search(&self, words: &str, most: usize) -> Vec<usize> {
        self.index.search(words, most)
    }

    /// The title of a document.
    pub fn title(&self, document: usize) -> &str {
        &self.documents[document].title
    }

    fn add(&mut self, title: String, text: String, names: Vec<String>) -> usize {
        let names = [title.clone()].into_iter().chain(names).collect();
        self.documents.push(Document { title, text, names });
        self.documents.len() - 1
    }

    fn town(&mut self, names: &mut UniqueNames, random: &mut Random) {
        let (name, river) = (names.fresh(2, "", random), names.fresh(2, "", random));
        let region = pick(REGIONS, random);
        let text = format!("{name} is a town of the {region} on the river {river}.");
        let document = self.add(name, text, vec![region.into(), river.clone()]);
        self.towns.push(Town { document, region, river });
    }

    fn person(&mut self, names: &mut UniqueNames, random: &mut Random) {
        let name = format!("{} {}", names.any(2, random), names.fresh(2, "", random));
        let (town, job, year) = (random.below(self.towns.len()), pick(JOBS, random), 1850 + random.below(120) as u32);
        let home = self.title(self.towns[town].document).to_string();
        let text = format!("{name} is a {job} who was born in {home} in {year}.");
        let document = self.add(name, text, vec![job.into(), home, year.to_string()]);
        self.people.push(Person { document, town, year });
    }

    fn company(&mut self, names: &mut UniqueNames, random: &mut Random) {
        let name = names.fresh(2, " Works", random);
        let (founder, town, goods) = (random.below(self.people.len()), random.below(self.towns.len()), pick(GOODS, random));
        let who = self.title(self.people[founder].document).to_string();
        let place = self.title(self.towns[town].document).to_string();
        let text = format!("{name} makes {goods}. It was founded by {who} and is based in {place}.");
        let document = self.add(name, text, vec![goods.into(), who, place]);
        self.companies.push(Company { document, founder, town });
    }

    fn film(&mut self, names: &mut UniqueNames, random: &mut Random) {
        let name = format!("The {}", names.fresh(3, "", random));
        let (director, year) = (random.below(self.people.len()), 1920 + random.below(100) as u32);
        let who = self.title(self.people[director].document).to_string();
        let text = format!("{name} is a film of {year}. It was directed by {who}.");
        let document = self.add(name, text, vec![year.to_string(), who]);
        self.films.push(Film { document, director, year });
    }
}

/// Names, each given once.
#[derive(Default)]
struct UniqueNames(BTreeSet<String>);

impl UniqueNames {
    fn fresh(&mut self, syllables: usize, end: &str, random: &mut Random) -> String {
        let mut tried = 0;
        loop {
            // A corpus may have more towns than there are short names.
            let name = format!("{}{end}", self.any(syllables + tried / 20, random));
            if self.0.insert(name.clone()) {
                return name;
            }
            tried += 1;
        }
    }

    fn any(&self, syllables: usize, random: &mut Random) -> String {
        let name: String = (0..syllables).map(|_| pick(SYLLABLES, random)).collect();
        let mut letters = name.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
    }
}

fn pick(list: &'static str, random: &mut Random) -> &'static str {
    let all: Vec<&str> = list.split('|').collect();
    all[random.below(all.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_the_same_for_ever_and_every_title_finds_its_document() {
        let corpus = Corpus::with_size(2000);
        let digest = corpus.documents.iter().fold(0, |hash, document| mix(hash, text(&format!("{document:?}"))));
        assert_eq!(digest, 4375479106423426699, "a change of the corpus changes every task: the number here says that it was meant");
        assert_eq!(corpus.documents.len(), 2000);
        for (at, document) in corpus.documents.iter().enumerate() {
            assert!(corpus.search(&document.title, 3).contains(&at), "{document:?}");
        }
    }
}
