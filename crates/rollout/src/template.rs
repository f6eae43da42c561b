//! Prompt templates in the language of Jinja: for a turn, and for a reflection. A template is read and compiled once,
//! and rendered for each prompt.

use flow_core::files;
use flow_text::jinja;
use flow_text::Message;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, UndefinedBehavior, Value};

/// The placeholders that a template may use: names, each with its description.
pub type Placeholders = &'static [(&'static str, &'static str)];

/// The name of the only template in a minijinja environment.
const ONLY: &str = "prompt";

/// A compiled template.
#[derive(Clone, Debug)]
pub struct PromptTemplate {
    environment: Environment<'static>,
    /// The file that it stands in, if it has one of its own.
    file: Option<String>,
    /// The placeholders that it uses.
    asks: Vec<&'static str>,
}

impl PromptTemplate {
    /// The template of a setting: the text itself if it is one ([`flow_pipeline::is_template`]), else the content of that
    /// file without its final newline.
    ///
    /// # Errors
    /// If the file can't be read, if it is no template, or if it uses no placeholder or an unknown one.
    pub fn read(setting: &str, places: Placeholders) -> Result<PromptTemplate, TemplateError> {
        let template = PromptTemplate::read_any(setting, places)?;
        if template.asks.is_empty() {
            let what = "it has no place that an episode fills, such as `{{ ".to_owned() + places[0].0 + " }}`";
            let place = place("", 0, &template.file);
            return Err(TemplateError::Mistake { place, what, help: list_placeholders(places) });
        }
        Ok(template)
    }

    /// The same of a text that needn't have a place, such as a system message; it may be empty.
    ///
    /// # Errors
    /// If the file can't be read, if it is no template, or if it uses an unknown placeholder.
    pub fn read_any(setting: &str, places: Placeholders) -> Result<PromptTemplate, TemplateError> {
        if flow_pipeline::is_template(setting) {
            return PromptTemplate::new(setting, None, places);
        }
        let text = files::text(setting.as_ref(), flow_pipeline::TEMPLATE_BYTES)
            .map_err(|source| TemplateError::File { file: setting.into(), source })?;
        PromptTemplate::new(&text, Some(setting.into()), places)
    }

    /// A template that is never a file's name, and needn't have a place.
    ///
    /// # Errors
    /// If it is no template, or uses an unknown placeholder.
    pub fn text(text: &str, places: Placeholders) -> Result<PromptTemplate, TemplateError> {
        PromptTemplate::new(text, None, places)
    }

    fn new(text: &str, file: Option<String>, places: Placeholders) -> Result<PromptTemplate, TemplateError> {
        let mut environment = Environment::new();
        // As the chat templates of models are read.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| template_error(error, text, &file))?);
        jinja::bound(&mut environment);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_template_owned(ONLY, jinja::source(text)).map_err(|error| template_error(error, text, &file))?;
        let mut variables: Vec<String> =
            environment.get_template(ONLY).map(|t| t.undeclared_variables(false)).unwrap_or_default().into_iter().collect();
        variables.sort();
        let known =
            |name: &String| places.iter().any(|(place, _)| place == name) || environment.globals().any(|(global, _)| global == name);
        if let Some(stranger) = variables.iter().find(|name| !known(name)) {
            let (what, at) = (format!("there is no `{stranger}` for a template"), used(text, stranger).unwrap_or_default());
            return Err(TemplateError::Mistake { place: place(text, at, &file), what, help: list_placeholders(places) });
        }
        // Every name in it, also names of other things: `undeclared_variables` doesn't look into slices.
        let asks: Vec<&'static str> = places.iter().map(|(name, _)| *name).filter(|name| used(text, name).is_some()).collect();
        Ok(PromptTemplate { environment, file, asks })
    }

    /// Whether it uses this placeholder.
    pub fn asks(&self, place: &str) -> bool {
        self.asks.contains(&place)
    }

    /// What it asks for at its placeholders, such as `row.observation`.
    pub fn fields(&self) -> Vec<String> {
        let template = self.environment.get_template(ONLY);
        template.map(|template| template.undeclared_variables(true)).unwrap_or_default().into_iter().collect()
    }

    /// Renders the template with the values of `filling`. Values are not templates themselves.
    ///
    /// # Errors
    /// If the template does something with a place that can't be done.
    pub fn fill(&self, mut filling: impl FnMut(&'static str) -> Value) -> Result<String, TemplateError> {
        let places = Value::from_pairs(self.asks.iter().map(|place| (*place, filling(place))));
        let template = self.environment.get_template(ONLY).map_err(|error| template_error(error, "", &self.file))?;
        jinja::render(self.file.as_deref().unwrap_or("the template of a prompt"), &template, places)
            .map_err(|error| template_error(error, template.source(), &self.file))
    }

    /// The words between the placeholders, for a vocabulary; none if the template can't be rendered with texts.
    pub fn words(&self, filling: impl FnMut(&'static str) -> Value) -> Vec<String> {
        let text = self.fill(filling).unwrap_or_default();
        // Whole stretches of a short template cost a token each; of a long one each word does.
        let stretches = text.split(HOLE).filter(|stretch| !stretch.is_empty());
        let words = stretches.flat_map(|stretch| match stretch.len() {
            ..=16 => vec![stretch.to_owned()],
            _ => stretch.split_whitespace().flat_map(|word| [word.to_owned(), format!(" {word}")]).collect(),
        });
        words.collect()
    }
}

/// The templates of an agent's prompt: of the user's message and, if it has one, of the system message.
#[derive(Clone, Debug)]
pub struct PromptTemplates {
    pub user: PromptTemplate,
    pub system: Option<PromptTemplate>,
}

impl PromptTemplates {
    /// Reads both.
    ///
    /// # Errors
    /// The setting whose template can't be read, or uses an unknown name.
    pub fn read(user: &str, system: Option<&str>, places: Placeholders) -> Result<PromptTemplates, (&'static str, TemplateError)> {
        let user = PromptTemplate::read(user, places).map_err(|error| ("prompt", error))?;
        let system = system.map(|text| PromptTemplate::read_any(text, places)).transpose().map_err(|error| ("system", error))?;
        Ok(PromptTemplates { user, system })
    }

    /// The same, once both have been filled with this sample.
    ///
    /// # Errors
    /// The setting whose template can't be filled.
    pub fn tried(self, filling: impl Fn(&'static str) -> Value) -> Result<PromptTemplates, (&'static str, TemplateError)> {
        self.user.fill(&filling).map_err(|error| ("prompt", error))?;
        self.system.iter().try_for_each(|system| system.fill(&filling).map(drop)).map_err(|error| ("system", error))?;
        Ok(self)
    }

    /// Whether one of them uses this placeholder.
    pub fn asks(&self, place: &str) -> bool {
        self.user.asks(place) || self.system.as_ref().is_some_and(|system| system.asks(place))
    }

    /// The system message (with `passages`) and the user's message.
    ///
    /// # Errors
    /// If a template can't be filled.
    pub fn messages(&self, passages: &str, filling: impl Fn(&'static str) -> Value) -> Result<Vec<Message>, TemplateError> {
        let message = |role: &str, content| Message { role: role.into(), content };
        let system = self.system(passages, &filling)?.map(|text| message("system", text));
        Ok(system.into_iter().chain([message("user", self.user.fill(filling)?)]).collect())
    }

    /// The system message, `passages` with it, if there is one.
    ///
    /// # Errors
    /// If its template can't be filled.
    pub fn system(&self, passages: &str, filling: impl Fn(&'static str) -> Value) -> Result<Option<String>, TemplateError> {
        let own = self.system.as_ref().map(|template| template.fill(filling)).transpose()?;
        let parts: Vec<&str> = own.as_deref().into_iter().chain([passages]).filter(|text| !text.is_empty()).collect();
        Ok((own.is_some() || !parts.is_empty()).then(|| parts.join("\n")))
    }
}

/// The value of every placeholder where only the words between them are needed.
pub const HOLE: &str = "\u{0}";

/// What is wrong with a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// Its file can't be read.
    #[error("`{file}` can't be read: {source}")]
    File {
        /// The path as the settings give it.
        file: String,
        /// Why not.
        source: std::io::Error,
    },
    /// It is no template, uses an unknown placeholder, or can't be rendered.
    #[error("{place}: {what}")]
    Mistake {
        /// Where in it.
        place: String,
        /// What.
        what: String,
        /// What to write instead.
        help: String,
    },
}

impl TemplateError {
    /// What to do about it.
    pub fn help(&self) -> &str {
        match self {
            TemplateError::File { .. } => {
                "paths begin in the folder of the file that names them; a text with a place such as `{{ memory }}`, of more than one line, or of several words is a template itself"
            }
            TemplateError::Mistake { help, .. } => help,
        }
    }
}

/// An error of the template language with its place in the template.
fn template_error(error: Error, text: &str, file: &Option<String>) -> TemplateError {
    let what = error.detail().map_or_else(|| error.kind().to_string(), String::from);
    let place = place(text, error.range().unwrap_or_default().start, file);
    TemplateError::Mistake { place, what, help: "templates are written in the language of Jinja".into() }
}

/// A location: file, line and column, from 1, in characters.
fn place(text: &str, at: usize, file: &Option<String>) -> String {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    match file {
        Some(file) => format!("{file}:{line}:{column}"),
        None => format!("line {line}, column {column} of the template"),
    }
}

/// Where a name is first used; nothing where it isn't.
fn used(text: &str, name: &str) -> Option<usize> {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let whole = |at: &usize| {
        let before = text[..*at].chars().next_back();
        !part(before) && before != Some('.') && !part(text[at + name.len()..].chars().next())
    };
    let inside = |at: &usize| {
        let last = |marks: [&str; 2]| marks.iter().filter_map(|mark| text[..*at].rfind(mark)).max();
        last(["{{", "{%"]) > last(["}}", "%}"])
    };
    text.match_indices(name).map(|(at, _)| at).find(|at| whole(at) && inside(at))
}

fn list_placeholders(places: Placeholders) -> String {
    let listed: Vec<String> = places.iter().map(|(name, what)| format!("`{name}`: {what}")).collect();
    format!("there are {}", listed.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Placeholders = &[("first", "the first observation"), ("last", "what was seen last")];

    fn filled(text: &str) -> Result<String, TemplateError> {
        let fill = |place: &str| Value::from(if place == "first" { "{{ last }}\n" } else { "Z" });
        PromptTemplate::read(text, PLACES)?.fill(fill)
    }

    fn wrong(text: &str) -> String {
        filled(text).unwrap_err().to_string()
    }

    #[test]
    fn a_template_is_filled_once_and_its_last_newline_is_none_of_it() {
        assert_eq!(filled("{{ first }}<{{ last }}\n").unwrap(), "{{ last }}\n<Z", "what a place holds is no template");
        assert_eq!(filled("{% if last %}\n{{ last.strip() }}\n{% endif %}\nend\n\n").unwrap(), "Z\nend\n");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prompt.txt");
        std::fs::write(&file, "why {{ last }}?\n").unwrap();
        assert_eq!(filled(file.to_str().unwrap()).unwrap(), "why Z?");
    }

    #[test]
    fn a_system_message_may_have_no_place_and_be_empty() {
        let any = |text: &str| PromptTemplate::read_any(text, PLACES).and_then(|template| template.fill(|_| Value::UNDEFINED));
        assert_eq!(any("").unwrap(), "");
        assert_eq!(any("Be brief.\nBe kind.\n").unwrap(), "Be brief.\nBe kind.");
        assert_eq!(any("You are terse.").unwrap(), "You are terse.", "a line of words that names no file");
        for file in ["none", "my prompts/none.txt"] {
            assert!(any(file).unwrap_err().to_string().starts_with(&format!("`{file}` can't be read")), "one line names a file");
        }
        assert!(PromptTemplate::read("", PLACES).is_err() && PromptTemplate::read("a\nb", PLACES).is_err());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        assert_eq!(wrong("last\n  {{ lats }}"), "line 2, column 6 of the template: there is no `lats` for a template");
        assert_eq!(wrong("é {{ first }}{% for x last %}"), "line 1, column 23 of the template: unexpected identifier, expected in");
        assert_eq!(wrong("\n{{ last.nothing }}"), "line 2, column 4 of the template: undefined value");
        assert_eq!(wrong("{{ 1 + 1 }}"), "line 1, column 1 of the template: it has no place that an episode fills, such as `{{ first }}`");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prompt.txt");
        std::fs::write(&file, "{{ last\n").unwrap();
        let (message, file) = (wrong(file.to_str().unwrap()), file.display());
        assert!(message.starts_with(&format!("{file}:1:")), "{message}");
        assert!(filled("none.txt").unwrap_err().to_string().starts_with("`none.txt` can't be read"));
        assert!(wrong("{{ last.strip( }}").contains("unexpected"));
        assert_eq!(filled("{{ last[:1] }}").unwrap(), "Z", "names in slices are found");
    }

    #[test]
    fn the_words_are_those_between_the_places() {
        let words = |text: &str| PromptTemplate::read(text, PLACES).unwrap().words(|_| Value::from(HOLE));
        assert_eq!(words("{{ first }}\nThen: {{ last }}"), ["\nThen: "]);
        assert_eq!(
            words("{{ first }} is what was seen first"),
            ["is", " is", "what", " what", "was", " was", "seen", " seen", "first", " first"]
        );
    }
}
