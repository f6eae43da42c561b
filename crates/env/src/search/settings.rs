//! The settings of the search for answers, and everything derived from them.

use super::corpus::{Corpus, GOODS, JOBS, REGIONS, SYLLABLES};
use super::question::Question;
use super::Search;
use crate::error::within;
use crate::{Deal, EnvError, Environment, GameSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The settings of the search for answers.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct SearchSettings {
    /// Documents of the corpus.
    #[schemars(range(min = 100, max = 100_000))]
    pub documents: usize,
    /// Documents that a search finds.
    #[schemars(range(min = 1, max = 20))]
    pub found: usize,
}

impl Default for SearchSettings {
    fn default() -> Self {
        SearchSettings { documents: 2_000, found: 3 }
    }
}

impl SearchSettings {
    fn question(&self, corpus: &Corpus, seed: u64, deal: Deal) -> Result<Question, EnvError> {
        Question::sample(seed, deal, corpus).ok_or_else(|| EnvError::Unmade { what: "question".into(), tries: 1000 })
    }
}

impl GameSettings for SearchSettings {
    const NAME: &'static str = "search";
    const ABOUT: &'static str = "Answer questions that need two documents of a searchable corpus, made from a seed.";
    const COSTS: Option<bool> = Some(false);

    fn check(&self) -> Result<(), EnvError> {
        within("documents", self.documents, 100, 100_000)?;
        within("found", self.found, 1, 20)
    }

    fn label(&self) -> String {
        format!("d{}-f{}", self.documents, self.found)
    }

    fn parse(label: &str) -> Option<Self> {
        let (documents, found) = label.strip_prefix('d')?.split_once("-f")?;
        Some(SearchSettings { documents: documents.parse().ok()?, found: found.parse().ok()? })
    }

    fn rules(&self) -> String {
        "Answer the question. It needs two documents: search for them with search[words], and answer with answer[text], which ends the task.\n\
         Answer with one action between <action> and </action>, such as <action>search[a name]</action>."
            .into()
    }

    /// A word costs one entry, a name one for each of its syllables.
    fn words(&self) -> Vec<String> {
        let marks = "search[|answer[|]|Nothing was found yet.|Nothing was found.|\n|: | is a town of the | on the river | is a | who was born in \
                     | in | makes |. It was founded by | and is based in | is a film of |. It was directed by |The | Works|.|?|, | or \
                     |In which town was the director of the film | born?|In which year was the director of the film |In which town was the \
                     founder of |On which river lies the town where | is based?|In which region lies the town where | was born?|Which film is \
                     older, |Who was born earlier, | ";
        let mut words: BTreeSet<String> = marks.split('|').map(String::from).collect();
        for word in [GOODS, JOBS, REGIONS].into_iter().flat_map(|list| list.split(['|', ' '])) {
            words.extend([word.to_string(), format!(" {word}")]);
        }
        for syllable in SYLLABLES.split('|') {
            let (first, rest) = syllable.split_at(1);
            words.extend([syllable.to_string(), format!("{}{rest}", first.to_uppercase())]);
        }
        words.extend((1850..2020).map(|year| year.to_string()));
        words.into_iter().collect()
    }

    fn make(&self, seed: u64, deal: Deal) -> Result<Box<dyn Environment>, EnvError> {
        self.check()?;
        let corpus = Corpus::with_size(self.documents);
        let question = self.question(&corpus, seed, deal)?;
        Ok(Box::new(Search::new(corpus, question, self.found)))
    }

    fn board(&self, seed: u64, deal: Deal) -> Result<u64, EnvError> {
        self.check()?;
        Ok(self.question(&Corpus::with_size(self.documents), seed, deal)?.content())
    }
}
