//! The questions of docs/questions.md, to begin from.

use serde_json::{json, Value};

/// The page that has them; a test asks each.
const PAGE: &str = include_str!("../../../docs/questions.md");

/// Each question with its heading and its SQL.
pub fn questions() -> Value {
    let mut heading = "";
    let mut all = Vec::new();
    let mut lines = PAGE.lines();
    let mut question = "";
    while let Some(line) = lines.next() {
        if let Some(next) = line.strip_prefix("## ") {
            heading = next;
        } else if line.starts_with("```sql") {
            let sql: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            all.push(json!({ "heading": heading, "question": question, "sql": sql.join("\n") }));
        } else if let Some((_, text)) = line.split_once(". ").filter(|(number, _)| number.parse::<u32>().is_ok()) {
            question = text;
        }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_its_heading_and_its_sql() {
        let questions = questions();
        let all = questions.as_array().unwrap();
        assert!(all.len() >= 38, "{}", all.len());
        assert_eq!(all[0]["heading"], "Does it learn?");
        assert!(all.iter().all(|one| one["question"].as_str().is_some_and(|text| text.len() > 10) && one["sql"] != ""));
    }
}
