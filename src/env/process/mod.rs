//! Environments outside this process: any program that reads lines and writes lines.
//!
//! # The protocol
//!
//! The program is started as its `command` says, without a shell. It reads requests from standard input and writes answers
//! to standard output: each one JSON object on one line in UTF-8, at most 1 MiB long. Each request gets exactly one answer.
//! Flush after each line. Standard error is free; its last lines are quoted when something goes wrong. The program ends when
//! its input does.
//!
//! First, and once:
//!
//! ```text
//! -> {"request":"hello","protocol":1,"name":"corridor"}
//! <- {"protocol":1,"words":[" left","left","P"],"rules":"Walk to the flag.","expert":true}
//! ```
//!
//! - `name`: what the pipeline calls this environment
//! - `protocol`: 1, the version of this protocol; an answer must have it
//! - `words`: the words of the program's texts, for models with `tokens: words` (models with `tokens: bytes` need none)
//! - `rules`: what a `prompt: full` begins with; empty unless given
//! - `expert`: whether the program answers the request `expert`; it doesn't unless given
//!
//! Then, in any order and for many episodes at a time, told apart by a number:
//!
//! ```text
//! -> {"request":"reset","episode":3,"task":"process-corridor-s77","seed":77}
//! <- {"episode":3,"observation":". P . . F","actions":["left","right"]}
//! -> {"request":"step","episode":3,"action":"right"}
//! <- {"episode":3,"observation":". . P . F","actions":["left","right"],"reward":0,"done":false}
//! -> {"request":"expert","episode":3}
//! <- {"episode":3,"action":"right"}
//! ```
//!
//! - `reset` starts an episode. The seed (0 to 2^63 - 1) decides everything about it: the same seed and actions must give the same
//!   answers, in any process and whatever else was played. A number that is in use is started anew; what it was is over.
//! - `step` carries out an action: a text of the policy's, so possibly any text. `expert` asks for the action that a solver would take.
//! - An answer names its episode. Answers may come in any order, but a program that works on one request after the other should answer
//!   so too: when a process ends or falls silent, the oldest request without an answer is taken for the reason.
//!
//! | field of an answer | | |
//! | --- | --- | --- |
//! | `observation` | text, not empty | what is to be seen now |
//! | `actions` | list of texts | the actions to choose from; needed by `decode: constrained` until the episode is over |
//! | `reward` | number | the reward of the step; needed in the answer to a step |
//! | `done` | true or false | whether the episode is over; needed in the answer to a step, and never true in one to a reset |
//! | `won` | true or false | whether it ended well; false unless given |
//! | `valid` | true or false | whether the action could be carried out; true unless given |
//! | `state` | text | the canonical state, by which rows are grouped; the observation unless given |
//! | `action` | text or null | the expert's action, in the answer to `expert`; null when it knows no way on |
//! | `error` | text | instead of the others: this episode failed, the rest goes on |
//!
//! # Failure
//!
//! An answer must come within `seconds` of the request or of the answer before it, whichever is later; the one to `hello` within 60
//! seconds. A process that is late is killed, and so is one that writes what is no answer to an open request (no JSON, no number of
//! an episode that was asked, a line over 1 MiB). An answer with a field missing, of another type or unknown fails its episode
//! alone. Episodes that were in a process when it ended are started again in a new one; that costs only the one that was the reason a try.

mod child;
mod error;
mod outside;
mod place;
mod pool;
mod protocol;
mod settings;

pub use error::ProcessError;
pub use outside::Outside;
pub use pool::Pool;
pub use protocol::{Ask, Hello};
pub use settings::ProcessSettings;
