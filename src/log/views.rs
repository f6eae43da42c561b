//! Views over the committed files.
