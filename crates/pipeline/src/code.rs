//! The kinds of mistakes. A kind has a name that stays, for programs and for `flow explain`; its doc comment is what that
//! prints.

use schemars::JsonSchema;
use serde::Serialize;

/// The kind of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A file can't be read, is empty or is no text. Nothing else was looked at: look at the path, and whether a folder
    /// has its name.
    File,
    /// The text isn't YAML, or a key stands twice in one map. YAML is indented with spaces; a text with `: ` or ` #` in
    /// it stands in quotes. Nothing else was looked at.
    Yaml,
    /// `like` names a pipeline that this one begins as, and it can't be read, goes round in a circle or is too deep.
    /// Paths in each file begin in that file's folder.
    Like,
    /// An override `--set PATH=VALUE` is malformed, or names a place that isn't there. A path is made of keys, such as
    /// `nodes.update.with.lr`; the value is YAML, and `null` removes a key.
    Set,
    /// A key of the file, of a node or of `keep` is unknown, missing or of another form. A pipeline has `flow`,
    /// `iterations` and `nodes`; `flow schema` prints all that it can have.
    Key,
    /// A node or one of its inputs doesn't fit: an unknown operator, port or source, an input that is missing, or an edge
    /// that must come from an earlier iteration (`after`) or must not. `flow ops OPERATOR` lists an operator's ports.
    Node,
    /// A setting has a wrong name or value, by the schema of its operator, model or agent. `flow ops OPERATOR`,
    /// `flow ops models` and `flow ops agents` list settings with their defaults and bounds.
    Setting,
    /// Nodes wait for one another in a circle. An edge into a `weights` or memory port can break it with `after`: it
    /// takes what the last iteration made.
    Order,
    /// A node needs a column that its rows don't have: the operator that adds it must lie on the way to it.
    /// `flow ops --columns` says which operator adds a column.
    Column,
    /// A node, model or agent is there and nothing uses it, or nothing is logged or learnt: usually an edge is missing.
    Unused,
    /// A test of the pipeline (`tests:`) is malformed, or names rows, columns or files that aren't there.
    Test,
    /// A file or a folder that the pipeline names isn't there on this machine, or a program can't be played with. The
    /// pipeline itself has no mistake.
    Missing,
    /// An operator's settings contradict one another, or fit neither its model nor its agent. The place is the setting
    /// that would have to change.
    Operator,
    /// A model's head fits no use of it: a critic (`head: value`) generates nothing, a policy has no values, and a critic
    /// needs targets to learn from.
    Head,
    /// A model of another's server (`openai`) is to learn, to choose among answers or to give values: such a server only
    /// generates.
    Remote,
    /// Several models answer a program's calls (`by_name`), and one of them, the input for its weights or a reader of its
    /// rows is missing.
    Name,
    /// The sizes of a new model don't fit one another, or its memory.
    Size,
    /// Servers generate for a model (`serve`), and its sampling, adapter or weights can't be served so. The server's
    /// proof would fail, or its log-probabilities would be others.
    Served,
    /// A server of Tinker's protocol trains a model, and can't do what is asked: docs/tinker.md lists why.
    Tinker,
    /// Models share a base (`on`), and their settings contradict it.
    Shared,
    /// Which weights act (`act`, `base`) doesn't fit how the model learns or where.
    Acting,
    /// A node acts with weights of another model, or of a version that isn't kept so long; or several updates of a model
    /// don't take turns.
    Weights,
}
