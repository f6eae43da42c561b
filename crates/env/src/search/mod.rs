//! Search for the answers of questions that need two documents, as agents with a search engine are trained to do
//! (Search-R1, Jin et al. 2025; SLEA-RL's question answering). The published corpora and questions aren't included:
//! these are made from a seed, so a figure of them is of "multi-hop search, own corpus". Search is BM25, and an answer
//! earns 1 by exact match, else nothing.

mod answer;
mod corpus;
mod question;
mod settings;

use super::{Environment, EpisodeFacts, Extras, TimeStep};
use corpus::Corpus;
use flow_core::seed::{mix, text};
use question::Question;
use std::sync::Arc;

pub use settings::SearchSettings;

/// A question being answered.
pub struct Search {
    corpus: Arc<Corpus>,
    question: Question,
    /// Documents that a search finds.
    most: usize,
    /// Everything found so far, in that order; whether anything was searched for.
    results: Vec<usize>,
    searched: bool,
    answer: Option<String>,
}

/// What one can do.
enum Action<'a> {
    Search(&'a str),
    Answer(&'a str),
}

impl<'a> Action<'a> {
    fn parse(text: &'a str) -> Option<Action<'a>> {
        let text = text.trim();
        let within = |name: &str| text.strip_prefix(name)?.strip_suffix(']').map(str::trim).filter(|text| !text.is_empty());
        within("search[").map(Action::Search).or_else(|| within("answer[").map(Action::Answer))
    }
}

impl Search {
    fn new(corpus: Arc<Corpus>, question: Question, most: usize) -> Search {
        Search { corpus, question, most, results: vec![], searched: false, answer: None }
    }

    fn exact(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer::exact(answer, &self.question.answer))
    }

    /// All that was found so far, a document a line: documents found in one turn are still needed in the next.
    fn page(&self) -> String {
        if self.results.is_empty() {
            return if self.searched { "Nothing was found." } else { "Nothing was found yet." }.into();
        }
        let documents = self.results.iter().map(|at| &self.corpus.documents[*at]);
        documents.map(|document| format!("{}: {}", document.title, document.text)).collect::<Vec<_>>().join("\n")
    }

    fn see(&self, valid: bool) -> TimeStep {
        let state = self.results.iter().fold(text(&self.question.text), |hash, at| mix(hash, *at as u64));
        let state = mix(mix(state, u64::from(self.searched)), self.answer.as_deref().map_or(0, text));
        let won = self.exact();
        let reward = f32::from(u8::from(valid && won));
        TimeStep { observation: self.page(), state, reward, done: self.answer.is_some(), won, valid }
    }

    /// The names and values that are known by now, each once: those of the question first.
    fn names(&self) -> Vec<&str> {
        let shown = self.results.iter().flat_map(|at| &self.corpus.documents[*at].names);
        let mut names: Vec<&str> = Vec::new();
        for name in self.question.names.iter().chain(shown) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}

impl Environment for Search {
    fn reset(&mut self) -> TimeStep {
        (self.results, self.searched, self.answer) = Default::default();
        self.see(true)
    }

    /// `search[words]` adds what it finds, `answer[text]` ends the task.
    fn step(&mut self, action: &str) -> TimeStep {
        let action = Action::parse(action).filter(|_| self.answer.is_none());
        match action {
            Some(Action::Search(words)) => {
                for at in self.corpus.search(words, self.most) {
                    if !self.results.contains(&at) {
                        self.results.push(at);
                    }
                }
                self.searched = true;
            }
            Some(Action::Answer(text)) => self.answer = Some(text.into()),
            None => {}
        }
        self.see(action.is_some())
    }

    /// Searches for the names that the question and the documents found so far tell, and, once there are any, answers
    /// with them. Any words can be searched for, and any text be an answer.
    fn admissible(&self) -> Vec<String> {
        if self.answer.is_some() {
            return vec![];
        }
        let names = self.names();
        let titles = names.iter().filter(|name| name.starts_with(char::is_uppercase));
        let answers = names.iter().filter(|_| !self.results.is_empty());
        titles.map(|name| format!("search[{name}]")).chain(answers.map(|name| format!("answer[{name}]"))).collect()
    }

    /// Searches for the two documents by their titles, then answers.
    fn expert(&mut self) -> Option<String> {
        if self.answer.is_some() {
            return None;
        }
        let missing = self.question.needs.iter().find(|at| !self.results.contains(at));
        Some(missing.map_or(format!("answer[{}]", self.question.answer), |at| format!("search[{}]", self.corpus.title(*at))))
    }

    /// The question; F1 as the score and, once there is an answer, exact match.
    fn extras(&self) -> Extras {
        let score = self.answer.as_ref().map_or(0.0, |answer| answer::f1(answer, &self.question.answer));
        let info =
            self.answer.is_some().then(|| [("exact_match".to_string(), f64::from(u8::from(self.exact()))), ("f1".to_string(), score)]);
        Extras {
            score: Some(score as f32),
            info: info.into_iter().flatten().collect(),
            facts: EpisodeFacts {
                instruction: self.question.text.clone(),
                kind: self.question.kind.replace(' ', "_"),
                gold: self.question.answer.clone(),
            },
            ..Extras::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Task;
    use std::collections::BTreeSet;

    #[test]
    fn the_expert_answers_every_question_from_two_documents() {
        let mut kinds = BTreeSet::new();
        for seed in 0..400 {
            let mut env = Task::parse(&format!("search-d2000-f3-s{seed}")).unwrap().make().unwrap();
            let mut step = env.reset();
            assert_eq!(step.observation, "Nothing was found yet.");
            let (mut turns, mut last) = (0, String::new());
            while let Some(action) = env.expert() {
                assert!(env.admissible().contains(&action), "{action} isn't one of {:?}", env.admissible());
                step = env.step(&action);
                (turns, last) = (turns + 1, action);
            }
            let extras = env.extras();
            assert!(step.won && step.done && (2..=3).contains(&turns), "{extras:?}");
            assert_eq!((extras.score, extras.info["exact_match"]), (Some(1.0), 1.0));
            assert_eq!(last, format!("answer[{}]", extras.facts.gold));
            kinds.insert(extras.facts.kind);
        }
        assert_eq!(kinds.len(), 8, "{kinds:?}");
    }

    #[test]
    fn a_wrong_answer_earns_its_words_but_no_reward() {
        let mut env = Task::parse("search-d2000-f3-s4").unwrap().make().unwrap();
        env.reset();
        let first = env.expert().unwrap();
        let step = env.step(&first);
        assert!((1..=3).contains(&step.observation.lines().count()), "{}", step.observation);
        assert_eq!(env.step(&first).state, step.state, "the same search finds nothing new");
        for nothing in ["", "search[]", "answer[ ]", "answer", "look[x]"] {
            let step = env.step(nothing);
            assert!(!step.valid && !step.done, "{nothing}");
        }
        assert!(env.step("search[zzz]").valid);
        let step = env.step("answer[I don't know]");
        assert!(step.done && !step.won && step.reward == 0.0 && env.extras().score == Some(0.0));
        assert!(!env.step(&first).valid && env.admissible().is_empty() && env.expert().is_none());
    }
}
