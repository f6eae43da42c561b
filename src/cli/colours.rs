//! The colours of printed texts: whether a terminal shows them is decided where it is printed.

use anstyle::{AnsiColor, Style};

/// What is wrong.
pub const RED: Style = AnsiColor::Red.on_default().bold();
/// What is right.
pub const GREEN: Style = AnsiColor::Green.on_default().bold();
/// What deserves a look.
pub const YELLOW: Style = AnsiColor::Yellow.on_default().bold();
