//! Properties of a whole pipeline: its picture, how far iterations overlap, and what is left of it when some rows come
//! from elsewhere.

mod draw;
mod fed;
mod overlap;
mod part;

pub use draw::{draw, PictureFormat};
pub use overlap::{overlaps, Overlap};
pub use part::Needed;
