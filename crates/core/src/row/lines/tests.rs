//! Rows files: what they may say, and that no text makes the reader panic.

use super::*;
use crate::seed::Random;

fn mistakes(text: &str) -> String {
    parse("r.jsonl", text).unwrap_err().to_string()
}

#[test]
fn what_a_row_leaves_out_has_its_default() {
    let lines = parse("r", "{\"task\": \"b\", \"reward\": 2}\n\n{\"task\": \"a\", \"turn\": 3, \"reward\": 0.5}\r\n").unwrap();
    assert_eq!(lines.iter().map(|l| l.number).collect::<Vec<_>>(), [1, 3]);
    let needed = BTreeMap::from([("valid".to_string(), "advantage".to_string())]);
    let rows = batch("r", &lines, &needed).unwrap().unwrap();
    let schema = rows.schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["iteration", "task", "sample", "attempt", "turn", "phase", "valid", "reward"]);
    assert_eq!(crate::row::u32s(&rows, "turn").unwrap().values(), &[0, 3]);
    assert_eq!(crate::row::texts(&rows, "phase").unwrap().value(1), "play");
    assert!(crate::row::bools(&rows, "valid").unwrap().value(0));
    assert_eq!(Name::of(&rows, 1), lines[1].name);
    assert!(batch("r", &[], &needed).unwrap().is_none());
}

#[test]
fn defaults_have_the_kinds_of_their_columns() {
    for column in COLUMNS {
        if let Some(cell) = default(column.name) {
            assert_eq!(Cell::read(column.kind, &cell.json()).unwrap(), cell, "{}", column.name);
        }
    }
    assert!(default("task").is_none() && default("reward").is_none() && default("state").is_none());
}

#[test]
fn a_missing_column_is_told_with_who_needs_it() {
    let lines = parse("r", "{\"task\": \"a\"}\n{\"task\": \"b\", \"reward\": 1, \"score\": 2}").unwrap();
    let needed = BTreeMap::from([("state".to_string(), "`group`".to_string()), ("reward".into(), "`advantage`".into())]);
    let wrong = batch("r", &lines, &needed).unwrap_err().to_string();
    assert!(wrong.contains("r:1: the column `state` is missing, and `group` needs it"), "{wrong}");
    assert!(wrong.contains("r:1: the column `reward` is missing, and `advantage` needs it"), "{wrong}");
    assert!(wrong.contains("r:1: the column `score` is missing, and line 2 has it"), "{wrong}");
    assert!(wrong.contains("hash of the environment's canonical state before the turn (u64)"), "{wrong}");
}

#[test]
fn every_mistake_has_a_line_and_a_remedy() {
    assert_eq!(mistakes("{\"rewrd\": 1}"), "r.jsonl:1: there is no column `rewrd`\n  = help: did you mean `reward`?");
    assert!(mistakes("{\"zzzzzzzz\": 1}").contains("`flow ops --columns` lists the columns"));
    assert_eq!(
        mistakes("\n{\"reward\": []}"),
        "r.jsonl:2: `reward` must be a number, found a list\n  = help: `reward`: the reward of the turn"
    );
    assert!(mistakes("[1]").starts_with("r.jsonl:1: a row is an object, found a list\n  = help: write one row a line"));
    assert!(mistakes("{\"turn\": 1").starts_with("r.jsonl:1: this is no JSON: EOF while parsing an object in column 10"));
    assert!(mistakes("{\"turn\": 1e999}").contains("this is no JSON: number out of range"));
    assert!(mistakes("{\"turn\": 1, \"turn\": 2}").starts_with("r.jsonl:1: `turn` stands here twice"));
    let twice = mistakes("{\"task\": \"a\"}\n{\"task\": \"a\", \"turn\": 0}");
    assert!(twice
        .starts_with("r.jsonl:2: the row has the same name as the one in line 1: iteration 0, task a, sample 0, attempt 0, turn 0, play"));
    let many = mistakes(&"{\"x\": 1}\n".repeat(30));
    assert!(many.ends_with("\nand 49 more"), "30 unknown columns and 29 equal names: {many}");
    let deep = format!("{{\"task\": {}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(mistakes(&deep).contains("this is no JSON: recursion limit exceeded"), "{}", mistakes(&deep));
}

#[test]
fn files_that_cannot_be_read_are_told_about() {
    let folder = std::env::temp_dir().join(format!("flow-lines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name);
    assert!(read(&at("nowhere")).unwrap_err().to_string().ends_with("nowhere:1: the file can't be read: No such file or directory"));
    assert!(read(&folder).unwrap_err().to_string().contains("the file can't be read: Is a directory"));
    std::fs::write(at("bytes"), b"{\"turn\": 1}\n\xff").unwrap();
    assert!(read(&at("bytes")).unwrap_err().to_string().contains("bytes:2: the file is not text in UTF-8"));
    std::fs::write(at("mark"), "\u{feff}{\"turn\": 1}").unwrap();
    assert_eq!(read(&at("mark")).unwrap()[0].name.turn, 1);
    assert!(read(Path::new("/dev/zero")).unwrap_err().to_string().contains("longer than 64 MiB"));
    std::fs::remove_dir_all(folder).unwrap();
}

/// A value that could stand somewhere in a row, right or wrong.
fn value(random: &mut Random, depth: usize) -> String {
    let whole = ["0", "1", "-1", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616", "1e3", "007", "1."];
    let float = ["0.5", "-0.0", "1e38", "1e39", "-1e-50", "1e308", "1e400", "NaN", "Infinity", ".5", "+1"];
    let other = ["null", "true", "false", "\"\"", "\"play\"", "\"\\u0000\"", "\"\\ud800\"", "\"é\u{202e}\"", "'a'", "{", "]", "", "\u{0}"];
    match random.below(if depth > 3 { 3 } else { 5 }) {
        0 => whole[random.below(whole.len())].into(),
        1 => float[random.below(float.len())].into(),
        2 => other[random.below(other.len())].into(),
        3 => format!("[{}]", (0..random.below(4)).map(|_| value(random, depth + 1)).collect::<Vec<_>>().join(",")),
        _ => format!("{{\"turn\":{}}}", value(random, depth + 1)),
    }
}

/// A few lines with columns that exist, nearly exist, or don't.
fn text(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(3) {
        let fields = (0..random.below(5)).map(|_| {
            let name = COLUMNS[random.below(COLUMNS.len())].name;
            let name = if random.below(8) == 0 { &name[1..] } else { name };
            format!("\"{name}\":{}", value(random, 0))
        });
        text.push_str(&format!("{{{}}}\n", fields.collect::<Vec<_>>().join(",")));
    }
    // Half of the texts take a blow or two: a byte lost, doubled, or replaced by any other character.
    for _ in 0..random.below(4).saturating_sub(1) {
        let at = random.below(text.len());
        if let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
            let with = char::from_u32(random.below(0x3000) as u32).unwrap_or('\u{fffd}').to_string();
            let with = [String::new(), format!("{c}{c}"), with][random.below(3)].clone();
            text.replace_range(at..at + c.len_utf8(), &with);
        }
        if text.is_empty() {
            break;
        }
    }
    text
}

/// `FLOW_FUZZ=10000000` tries more texts than the usual number.
#[test]
fn no_text_makes_it_panic() {
    let count: usize = std::env::var("FLOW_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(120_000);
    let needed = BTreeMap::from([("valid".to_string(), "a".to_string()), ("reward".into(), "b".into())]);
    let (mut good, mut complete) = (0, 0);
    for seed in 0..count as u64 {
        let text = text(&mut Random::new(seed));
        match parse("fuzz", &text) {
            Err(mistakes) => assert!(mistakes.to_string().starts_with("fuzz:"), "{text}"),
            Ok(lines) => {
                good += 1;
                match batch("fuzz", &lines, &needed) {
                    Err(mistakes) => assert!(mistakes.to_string().contains("is missing, and"), "{text}"),
                    Ok(rows) => {
                        complete += 1;
                        assert_eq!(rows.map_or(0, |r| r.num_rows()), lines.len(), "{text}");
                    }
                }
            }
        }
    }
    println!("rows: {count} inputs, {good} taken, {complete} all that is needed");
    // The texts must reach every part of the reader, or the test would say little.
    assert!(
        good > count / 100 && complete > count / 10_000 && good < count,
        "{good} of {count} were rows, {complete} were all that is needed"
    );
}
