//! Whether a response has the form that was asked for: R_format of EAPO, section 4.3.

use arrow::array::{RecordBatch, StringArray};
use flow_core::row::{self, RowError};
use flow_rollout::tags::{self, ACTION};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the format reward is paid for. EAPO's paper calls it binary: "correct tags and \\boxed{} actions"; its released
/// code agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FormatPer {
    /// The response: all of it, where every tag is there and an action can be read; else nothing.
    #[default]
    Response,
    /// Each tag: the share of the tags that are there. That of the action counts where an action can be read.
    Tag,
}

/// How well responses keep to the form.
pub struct Format<'a> {
    actions: &'a StringArray,
    responses: Option<&'a StringArray>,
    tags: &'a [String],
    per: FormatPer,
}

impl<'a> Format<'a> {
    /// That of these rows, whose responses must have these tags.
    pub fn of(rows: &'a RecordBatch, tags: &'a [String], per: FormatPer) -> Result<Format<'a>, RowError> {
        let responses = if tags.is_empty() { None } else { Some(row::texts(rows, "response")?) };
        Ok(Format { actions: row::texts(rows, "action")?, responses, tags, per })
    }

    /// From 0 to 1, of row `i`.
    pub fn share(&self, i: usize) -> f32 {
        let acts = !self.actions.value(i).is_empty();
        let response = self.responses.map_or("", |responses| responses.value(i));
        share(response, acts, self.tags, self.per)
    }
}

/// The same of a response; `acts` says whether an action could be read from it.
fn share(response: &str, acts: bool, tags: &[String], per: FormatPer) -> f32 {
    let there = |tag: &&String| if tag.as_str() == ACTION { acts } else { tags::read(tag, response).is_some() };
    let count = tags.iter().filter(there).count();
    match per {
        FormatPer::Response => (acts && count == tags.len()) as u8 as f32,
        FormatPer::Tag if tags.is_empty() => acts as u8 as f32,
        FormatPer::Tag => count as f32 / tags.len() as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_kept_whole_or_in_part() {
        let tags = ["explore", "memory", "action"].map(String::from);
        let whole = "<explore>attic</explore><memory></memory><action>open red</action>";
        let shares = |response: &str, acts| [FormatPer::Response, FormatPer::Tag].map(|per| share(response, acts, &tags, per));
        assert_eq!(shares(whole, true), [1.0, 1.0], "an empty memory is one");
        assert_eq!(shares("<explore>attic</explore><action>open red</action>", true), [0.0, 2.0 / 3.0]);
        assert_eq!(shares("<explore>attic<memory></memory><action></action>", false), [0.0, 1.0 / 3.0], "none is closed but the memory");
        assert_eq!(share("up", true, &[], FormatPer::Response), 1.0, "an action is all that was asked for");
        assert_eq!(share("", false, &[], FormatPer::Tag), 0.0);
    }
}
