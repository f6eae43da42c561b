//! Expressions as worked by hand, and what is none.

use super::*;
use arrow::array::{StringArray, UInt32Array};
use arrow::datatypes::UInt32Type;

/// Two episodes, of three turns and of two, in two groups.
fn rows() -> RecordBatch {
    let u32s = |values: [u32; 5]| Arc::new(UInt32Array::from(values.to_vec())) as ArrayRef;
    let tokens = ListArray::from_iter_primitive::<UInt32Type, _, _>((1..6).map(|n| Some(vec![Some(7u32); n])));
    row::batch(vec![
        ("iteration", Arc::new(UInt64Array::from(vec![4; 5])) as ArrayRef),
        ("task", Arc::new(StringArray::from(vec!["a"; 5]))),
        ("sample", u32s([0, 0, 0, 1, 1])),
        ("attempt", u32s([0; 5])),
        ("turn", u32s([0, 1, 2, 0, 1])),
        ("phase", Arc::new(StringArray::from(vec!["play"; 5]))),
        ("reward", Arc::new(Float32Array::from(vec![1.0, 2.0, 4.0, 0.5, -1.0]))),
        ("value", Arc::new(Float32Array::from(vec![0.0, 0.25, 0.5, 2.0, 0.0]))),
        ("group", Arc::new(UInt64Array::from(vec![1, 2, 2, 1, u64::MAX]))),
        ("response_tokens", arrow::compute::cast(&tokens, &Kind::U32List.arrow()).unwrap()),
    ])
    .unwrap()
}

fn one(name: &str, text: &str) -> Result<Expressions, String> {
    Expressions::new(&BTreeMap::from([(name.to_string(), text.to_string())]), &[name, "derived_own", "won"])
        .map_err(|(_, error)| error.to_string())
}

fn numbers(text: &str) -> Vec<f32> {
    let expressions = one("derived_x", text).unwrap();
    let made = expressions.compute(&rows(), None).unwrap();
    made[0].1.as_any().downcast_ref::<Float32Array>().unwrap().values().to_vec()
}

#[test]
fn expressions_as_worked_by_hand() {
    for (text, expected) in [
        ("reward * 2 - value", [2.0, 3.75, 7.5, -1.0, -2.0]),
        ("-turn + sample", [0.0, -1.0, -2.0, 1.0, 0.0]),
        ("greatest(reward, 1.5)", [1.5, 2.0, 4.0, 1.5, 1.5]),
        ("case when turn = 0 then 1 else least(reward, 0) end", [1.0, 0.0, 0.0, 1.0, -1.0]),
        ("value - lag(value, 1, 0.0) over turns", [0.0, 0.25, 0.25, 2.0, -2.0]),
        ("lead(value, 1, -1.0) over turns", [0.25, 0.5, -1.0, 0.0, -1.0]),
        ("sum(reward) over episode", [7.0, 7.0, 7.0, -0.5, -0.5]),
        ("sum(reward) over turns", [1.0, 3.0, 7.0, 0.5, -0.5]),
        ("avg(reward) over \"group\"", [0.75, 3.0, 3.0, 0.75, -1.0]),
        ("max(reward) over (partition by sample)", [4.0, 4.0, 4.0, 0.5, 0.5]),
        ("rank() over (partition by turn order by reward desc)", [1.0, 1.0, 1.0, 2.0, 2.0]),
        ("len(response_tokens)", [1.0, 2.0, 3.0, 4.0, 5.0]),
        ("exp(ln(reward + 2))", [3.0, 4.0, 6.0, 2.5, 1.0]),
        ("coalesce(reward / nullif(value, 0), 9)", [9.0, 8.0, 8.0, 0.25, 9.0]),
    ] {
        assert!(numbers(text).iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{text}: {:?}", numbers(text));
    }
    // Other rows' rewards; the second half of the rows is the other input.
    let others = rows().slice(3, 2);
    for (text, expected) in [
        ("coalesce(sum(reward) filter (where other) over (partition by sample), 8)", [8.0, 8.0, 8.0, -0.5, -0.5]),
        ("sum(reward) over episode", [7.0, 7.0, 7.0, -0.5, -0.5]),
        ("coalesce(any_value(value) filter (where other) over same, 9)", [9.0, 9.0, 9.0, 2.0, 0.0]),
        ("case when other then 1 else 0 end", [0.0; 5]),
    ] {
        let beside = one("value", text).unwrap();
        let made = beside.compute(&rows(), Some(&others)).unwrap();
        assert_eq!(made[0].1.as_ref(), &Float32Array::from(expected.to_vec()) as &dyn Array, "{text}");
    }
    let lists = |name, text| {
        let expressions = one(name, text).unwrap();
        let made = expressions.compute(&rows(), None).unwrap();
        let rows = row::batch(vec![(name, made[0].1.clone())]).unwrap();
        let lists = row::lists(&rows, name).unwrap().clone();
        (0..5)
            .map(|i| if name == "choices" { row::u32_list(&lists, i).len() } else { row::f32_list(&lists, i).iter().sum::<f32>() as usize })
            .collect::<Vec<_>>()
    };
    // What a turn and the next one have of tokens; a number a token; all but the first.
    assert_eq!(lists("choices", "response_tokens || coalesce(lead(response_tokens) over turns, [])"), [3, 5, 3, 9, 5]);
    assert_eq!(lists("token_rewards", "[t - 6 + reward for t, i in response_tokens if i > 1]"), [0, 3, 10, 4, 0]);
    assert_eq!(lists("choices", "response_tokens[3:]"), [0, 0, 1, 2, 3]);
    let won = one("won", "reward > 1 and value < 1").unwrap();
    let won = won.compute(&rows(), None).unwrap();
    assert_eq!(won[0].1.as_ref(), &BooleanArray::from(vec![false, true, true, false, false]) as &dyn Array);
    let empty = one("value", "reward").unwrap();
    assert_eq!(empty.compute(&rows().slice(0, 0), None).unwrap()[0].1.len(), 0);
}

#[test]
fn expressions_read_what_they_name() {
    let reads = |text| one("value", text).unwrap().reads().filter(|c| !NAME.contains(c)).map(String::from).collect::<Vec<_>>();
    assert_eq!(reads("avg(reward) over \"group\" + score_judge"), ["group", "reward", "score_judge"]);
    assert_eq!(reads("1 -- reward"), [""; 0]);
    assert_eq!(reads("list_sum([x * value for x in logprobs])"), ["logprobs", "value"], "x is an item");
    assert_eq!(reads("nosuch * 2"), ["nosuch"], "the pipeline reports that it doesn't exist");
}

/// An iteration is a number of the row, a seed of a hash, and the same in a whole partition.
#[test]
fn the_iteration_itself_is_read() {
    for text in [
        "iteration / 4",
        "avg(reward) over (partition by iteration, sample)",
        "first_value(value) over (partition by iteration order by hash(iteration, turn))",
        "sum(reward * iteration) over episode",
        "case when iteration < 100 then 0 else 1 end",
    ] {
        assert!(one("value", text).is_ok(), "{text}: {}", one("value", text).err().unwrap());
    }
}

/// Half of the value before, where there is one, and half of the task's mean, 1.3.
#[test]
fn an_earlier_value_is_read_by_its_name() {
    let running = one("derived_own", "coalesce(0.5 * last_derived_own, 0) + 0.5 * avg(reward) over (partition by task)").unwrap();
    assert_eq!(running.last().collect::<Vec<_>>(), ["derived_own"]);
    assert!(running.reads().all(|column| column == "reward" || NAME.contains(&column)));
    let last = Float32Array::from(vec![Some(4.0), Some(4.0), None, Some(-2.0), None]);
    let rows = RecordBatch::try_from_iter_with_nullable(
        rows()
            .schema()
            .fields()
            .iter()
            .zip(rows().columns())
            .map(|(field, column)| (field.name().clone(), column.clone(), false))
            .chain([("last_derived_own".to_string(), Arc::new(last) as ArrayRef, true)]),
    )
    .unwrap();
    let made = |others| {
        let made = running.compute(&rows, others).unwrap();
        made[0].1.as_any().downcast_ref::<Float32Array>().unwrap().values().to_vec()
    };
    assert_eq!(made(None), [2.65, 2.65, 0.65, -0.35, 0.65]);
    let others = self::rows().slice(3, 2);
    assert_eq!(made(Some(&others)).len(), 5, "rows beside have no earlier value");
    assert!(running.compute(&self::rows(), None).is_err(), "without the column");
}

#[test]
fn what_is_no_expression_is_refused() {
    for (name, text, why) in [
        ("value", "reward + ", "syntax error at or near \")\""),
        ("value", "reward + * 2", "syntax error at or near \"2\", at its character 12"),
        ("value", "reward + task", "No function matches the given name and argument types '+(FLOAT, VARCHAR)'"),
        ("value", "avg(reward)", "a sum over rows says over which"),
        ("value", "random()", "`random` isn't a function"),
        ("value", "current_localtime()", "`current_localtime` isn't a function"),
        ("value", "(select 1)", "no subquery"),
        ("value", "epoch('now'::timestamp)", "isn't a function of expressions"),
        ("value", "case when 'now'::timestamp > 'today'::timestamp then 1 else 0 end", "nothing is cast to TIMESTAMP"),
        ("value", "rows.reward", "without its table"),
        ("value", "1 limit 1", "syntax error"),
        ("value", "reward -- of the turn\n+ value", "several lines"),
        ("value", "abs(1e400)", "too large"),
        ("value", "1) as float), cast((2", "more than one expression"),
        ("value", "1) as float) from rows; select cast((1", "more than one expression"),
        ("value", "1) as float) from read_csv('x') where cast((1", "syntax error"),
        ("value", "", "syntax error"),
        ("value", "avg(reward) over group", "the column stands in quotes, \"group\""),
        ("task", "'a'", "`task` names rows"),
        ("token_rewards", "reward", "it is FLOAT, and the column is list of f32"),
        ("value", "{'a': reward}", "it is STRUCT(a FLOAT), and the column is f32"),
        ("token_rewards", "[[reward]]", "it is FLOAT[][], and the column is list of f32"),
        ("token_rewards", "[{'a': reward}]", "it is STRUCT(a FLOAT)[], and the column is list of f32"),
        ("value", "action || 'x'", "it is VARCHAR, and the column is f32"),
        ("token_rewards", "[random() for t in response_tokens]", "`random` isn't a function"),
        ("nosuch", "1", "`derived_nosuch`"),
        ("value", "case when last_won then 1 else 0 end", "only a number is kept"),
        ("value", "last_reward + 1", "a column `reward` of this node, which makes none"),
        ("value", "avg(reward) over (partition by task order by iteration)", "rows of other iterations"),
        ("value", "avg(reward) over (partition by task order by -iteration, turn)", "rows of other iterations"),
        ("value", "avg(reward) over (order by iteration rows between 1 preceding and current row)", "rows of other iterations"),
        ("value", "sum(reward) filter (where iteration < 5) over episode", "rows of other iterations"),
        ("value", "lag(iteration, 1, 0) over turns", "rows of other iterations"),
        ("value", "count(distinct iteration) over (partition by task)", "rows of other iterations"),
    ] {
        let message = one(name, text).err().unwrap_or_else(|| panic!("{text} passed"));
        assert!(message.contains(why), "{text}: {message}");
    }
}

#[test]
fn a_row_without_a_number_is_named() {
    for (text, why) in [("lag(value) over turns", "no value"), ("reward * 'inf'::float", "no finite number")] {
        let message = one("value", text).unwrap().compute(&rows(), None).unwrap_err().to_string();
        assert!(message.starts_with("`value` has for task a, sample 0, attempt 0, turn 0 ") && message.contains(why), "{message}");
    }
}
